//! Dense: for nodes that walks have met, keeps those of their edges that meet the conditions of a pattern on an edge.
//!
//! A payment of a large account is looked for among all its payments, and whether it is large is written at the other end. Where
//! a walk meets a node, the few edges that count are kept from then on, found by either end. Only what a walk asked for is kept,
//! it can be forgotten at any time, and a walk that finds nothing here looks where the graph lies.
//!
//! Between batches what is kept is the set at the last tick. The changes of a batch are taken in before it is walked, with
//! their ticks, so that within a batch each tick sees its own; afterwards what ended is forgotten.
//!
//! What is found on the way, which edges begin or end to meet the conditions, is where the walks of the batch begin: most changes
//! of edges are neither, and go no further.

use std::cell::{LazyCell, OnceCell, RefCell};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::codec::{decode_edge_property, decode_parallel};
use weir_model::mutation::Kind;
use weir_model::{NodeId, Symbol, Value};

use super::program::{Program, Sieve};
use super::queries::Queries;
use super::results::{PARTS, part_of};
use super::walk::holds;
use super::{SieveNumber, Time};
use crate::arrangement::build::Located;
use crate::arrangement::{Batch, Fact, Facts, Segment, SharedBatch};
use crate::view::{Direction, HalfEdge};

/// When more edges and sides of nodes than these are kept, those of some nodes are forgotten.
const KEPT_MAX: usize = 2_000_000;

/// At most this many nodes are taken in after a batch; walks ask for the others again.
const TAKEN_IN_MAX: usize = 512;

/// One side of a node, for one sieve: the edges that lead away, or those that lead here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Side {
    pub sieve: SieveNumber,
    pub node: NodeId,
    pub outgoing: bool,
}

#[derive(Default)]
pub struct Dense {
    /// By node, in parts: one large map would stop everything whenever it grows, or is let go of.
    parts: Vec<FxHashMap<Side, Near>>,
    /// How many edges and sides of nodes are kept.
    kept: usize,
    /// The part that was forgotten last.
    forgotten: usize,
    /// How many sieves had gone when this was looked after last.
    gone: u64,
    /// What walks have asked for, and the pattern's edge that the sieve is of.
    wanted: RefCell<FxHashMap<Side, (Arc<Program>, usize)>>,
    /// Where something has ended during this batch.
    ended: Vec<(Side, NodeId)>,
    /// What begins or ends to pass in this batch, by sieve and in the order of nodes.
    turns: FxHashMap<SieveNumber, Vec<Turn>>,
}

/// Sieves that look at one property of the same edges.
struct Sieves {
    kinds: Vec<Symbol>,
    key: Symbol,
    /// The number of each, and an edge of a pattern that goes through it.
    each: Vec<(SieveNumber, Arc<Program>, usize)>,
}

/// The sieves that edges of all patterns go through, each once.
#[derive(Default)]
pub struct SieveTable {
    /// Their numbers, by their names.
    numbers: FxHashMap<Arc<str>, SieveNumber>,
    /// How many there ever were.
    ever: u32,
    /// How often some were let go of.
    gone: u64,
    alike: Vec<Sieves>,
}

impl SieveTable {
    /// The number of the sieve that an edge of a pattern goes through, if nothing else is asked of it.
    pub fn number(&mut self, program: &Arc<Program>, edge: usize) -> Option<SieveNumber> {
        let view = &program.edges[edge];
        let sieve = view.sieve.as_ref()?;
        let name = sieve.name.as_ref()?;
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        self.ever += 1;
        let number = SieveNumber(self.ever);
        self.numbers.insert(name.clone(), number);
        let one = (number, program.clone(), edge);
        match self.alike.iter_mut().find(|sieves| sieves.key == sieve.key && sieves.kinds == view.kinds) {
            Some(sieves) => sieves.each.push(one),
            None => self.alike.push(Sieves { kinds: view.kinds.clone(), key: sieve.key, each: vec![one] }),
        }
        Some(number)
    }

    /// Lets go of those that no edge goes through any more.
    pub fn keep(&mut self, is_used: impl Fn(SieveNumber) -> bool) {
        let before = self.numbers.len();
        self.numbers.retain(|_, number| is_used(*number));
        self.gone += u64::from(self.numbers.len() < before);
        self.alike.iter_mut().for_each(|sieves| sieves.each.retain(|(number, ..)| is_used(*number)));
        self.alike.retain(|sieves| !sieves.each.is_empty());
    }

    fn has(&self, number: SieveNumber) -> bool {
        self.numbers.values().any(|known| *known == number)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.alike.is_empty()
    }
}

/// An edge that begins to pass a sieve, or ends to.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The place of its source in the batch.
    pub node: usize,
    pub half: HalfEdge,
    pub time: Time,
    pub begins: bool,
}

/// The edges at one side of a node that pass, by their other end.
#[derive(Default)]
pub struct Near(FxHashMap<NodeId, SmallVec<[Stretch; 1]>>);

/// An edge, and from when until when it passes.
#[derive(Clone, Copy)]
struct Stretch {
    kind: Symbol,
    ordinal: u32,
    from: Time,
    until: Time,
}

impl Near {
    /// To how many nodes edges lead, about.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What it counts for among all that is kept.
    fn weight(&self) -> usize {
        1 + self.0.values().map(|stretches| stretches.len()).sum::<usize>()
    }

    /// Those that pass at a tick, that lead to a node or to any.
    pub fn each(&self, to: Option<NodeId>, outgoing: bool, at: Time, mut visit: impl FnMut(HalfEdge)) {
        let mut of = |other: NodeId, stretches: &[Stretch]| {
            for stretch in stretches.iter().filter(|stretch| stretch.from <= at && at < stretch.until) {
                visit(HalfEdge { kind: stretch.kind, outgoing, other, ordinal: stretch.ordinal });
            }
        };
        match to {
            Some(to) => self.0.get(&to).into_iter().for_each(|stretches| of(to, stretches)),
            None => self.0.iter().for_each(|(other, stretches)| of(*other, stretches)),
        }
    }

    /// Whether any that passes at a tick leads to a node.
    pub fn leads_to(&self, node: NodeId, at: Time) -> bool {
        self.0.get(&node).is_some_and(|stretches| stretches.iter().any(|stretch| stretch.from <= at && at < stretch.until))
    }

    fn begin(&mut self, half: HalfEdge, from: Time) {
        let HalfEdge { kind, ordinal, other, .. } = half;
        self.0.entry(other).or_default().push(Stretch { kind, ordinal, from, until: Time::MAX });
    }

    /// Whether the edge passes after everything so far.
    fn has(&self, half: HalfEdge) -> bool {
        let is_it =
            |stretch: &Stretch| stretch.until == Time::MAX && (stretch.kind, stretch.ordinal) == (half.kind, half.ordinal);
        self.0.get(&half.other).is_some_and(|stretches| stretches.iter().any(is_it))
    }

    fn end(&mut self, half: HalfEdge, until: Time) {
        let open =
            |stretch: &&mut Stretch| stretch.until == Time::MAX && (stretch.kind, stretch.ordinal) == (half.kind, half.ordinal);
        if let Some(stretch) = self.0.get_mut(&half.other).and_then(|stretches| stretches.iter_mut().find(open)) {
            stretch.until = until;
        }
    }

    /// Forgets what has ended, and says how much that was.
    fn forget_ended(&mut self, other: NodeId) -> usize {
        let Some(stretches) = self.0.get_mut(&other) else { return 0 };
        let before = stretches.len();
        stretches.retain(|stretch| stretch.until == Time::MAX);
        let ended = before - stretches.len();
        if stretches.is_empty() {
            self.0.remove(&other);
        }
        ended
    }
}

/// An update of an edge that leads away from a node of a batch, or of the property that is asked for.
struct Update {
    half: HalfEdge,
    time: Time,
    adds: bool,
    /// Of the property: what it is from here on, or was.
    value: Option<Value>,
}

/// The updates of edges of these types, and of one property of theirs, edge by edge and in the order of ticks.
fn updates(Sieves { kinds, key, .. }: &Sieves, (segment, facts): (&Segment, &[Fact])) -> Vec<Update> {
    let mut updates = Vec::new();
    for fact in facts.iter().filter(|fact| kinds.contains(&fact.tag.symbol())) {
        let (other, ordinal, value) = match fact.tag.kind() {
            Kind::Out => (fact.payload.as_node(), 0, None),
            Kind::OutParallel => {
                let (other, ordinal) = decode_parallel(fact.payload, &segment.arena);
                (other, ordinal, None)
            }
            Kind::EdgeProperty => match decode_edge_property(fact.payload, &segment.arena) {
                (target, ordinal, of, value) if of == *key => (target, ordinal, Some(value)),
                _ => continue,
            },
            _ => continue,
        };
        let half = HalfEdge { kind: fact.tag.symbol(), outgoing: true, other, ordinal };
        updates.push(Update { half, time: segment.time(fact), adds: fact.adds(), value });
    }
    updates.sort_by_key(|update| (update.half, update.time));
    updates
}

/// An edge at a tick: its property, and whether it is there. What no update says is looked up when it is first asked for.
struct EdgeAt {
    at: Time,
    value: OnceCell<Value>,
    there: OnceCell<bool>,
}

impl EdgeAt {
    /// Before the first updates, which are of one tick. Updates are exact: what comes was not there, and what goes was.
    fn before(first: &[Update]) -> Option<EdgeAt> {
        let edge = EdgeAt { at: first.first()?.time.checked_sub(1)?, value: OnceCell::new(), there: OnceCell::new() };
        for update in first {
            // A value that goes stands before the one that comes.
            match &update.value {
                Some(value) => drop(edge.value.set(if update.adds { Value::Null } else { value.clone() })),
                None => drop(edge.there.set(!update.adds)),
            }
        }
        Some(edge)
    }

    /// After the updates of a tick.
    fn after(updates: &[Update]) -> EdgeAt {
        let edge = EdgeAt { at: updates[0].time, value: OnceCell::new(), there: OnceCell::new() };
        for update in updates.iter().rev() {
            match &update.value {
                Some(value) => drop(edge.value.set(if update.adds { value.clone() } else { Value::Null })),
                None => drop(edge.there.set(update.adds)),
            }
        }
        edge
    }

    fn passes<'a>(
        &self,
        facts: &impl Deref<Target = Facts<'a>>,
        half: HalfEdge,
        program: &Program,
        sieve: &Sieve,
        row: &mut Vec<Value>,
    ) -> bool {
        let value = self.value.get_or_init(|| facts.edge_property(half.kind, half.other, half.ordinal, sieve.key, self.at));
        passes(program, sieve, row, value.clone()) && *self.there.get_or_init(|| facts.has_half(half, self.at))
    }

    /// Whether an update says that it does not pass.
    fn fails(&self, program: &Program, sieve: &Sieve, row: &mut Vec<Value>) -> bool {
        self.there.get() == Some(&false) || self.value.get().is_some_and(|value| !passes(program, sieve, row, value.clone()))
    }
}

/// Of the nodes.
fn part(node: NodeId) -> usize {
    // The shards and the maps themselves use other bits.
    part_of((node.mixed() >> 32) as u16)
}

fn passes(program: &Program, sieve: &Sieve, row: &mut Vec<Value>, value: Value) -> bool {
    row.resize(program.width, Value::Null);
    row[sieve.slot] = value;
    sieve.conditions.iter().all(|condition| holds(condition, row, &program.context))
}

impl Dense {
    /// What is kept of a side of a node.
    pub fn near(&self, side: Side) -> Option<&Near> {
        self.parts.get(part(side.node))?.get(&side)
    }

    fn near_mut(&mut self, side: Side) -> Option<&mut Near> {
        self.parts.get_mut(part(side.node))?.get_mut(&side)
    }

    fn keep(&mut self, side: Side, near: Near) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, FxHashMap::default);
        }
        self.kept += near.weight();
        if let Some(before) = self.parts[part(side.node)].insert(side, near) {
            self.kept -= before.weight();
        }
    }

    /// Whether an edge passes after everything so far, seen from its source. None where neither of its ends is kept.
    fn has(&self, sieve: SieveNumber, id: NodeId, half: HalfEdge) -> Option<bool> {
        let seen_there = HalfEdge { outgoing: false, other: id, ..half };
        let out = self.near(Side { sieve, node: id, outgoing: true }).map(|near| near.has(half));
        out.or_else(|| self.near(Side { sieve, node: half.other, outgoing: false }).map(|near| near.has(seen_there)))
    }

    /// A walk has met a node of which nothing is kept.
    pub fn want(&self, side: Side, program: &Arc<Program>, edge: usize) {
        let mut wanted = self.wanted.borrow_mut();
        if wanted.len() < TAKEN_IN_MAX {
            wanted.entry(side).or_insert_with(|| (program.clone(), edge));
        }
    }

    /// Takes in what a batch changes. It is not walked yet.
    pub fn take_in(&mut self, queries: &Queries, batch: &Batch, located: &Located) {
        self.turns.values_mut().for_each(Vec::clear);
        let mut row = Vec::new();
        for sieves in &queries.sieves.alike {
            for (node, id) in batch.ids.iter().enumerate() {
                let updates = updates(sieves, batch.node(node));
                if updates.is_empty() {
                    continue;
                }
                // Most updates say themselves what there was.
                let facts = LazyCell::new(|| located.facts(batch, node));
                for of_edge in updates.chunk_by(|a, b| a.half == b.half) {
                    self.take_in_edge(sieves, (node, *id, &facts), of_edge, &mut row);
                }
            }
        }
    }

    /// An edge that leads away from a node of the batch, with its updates.
    fn take_in_edge<'a>(
        &mut self,
        sieves: &Sieves,
        (node, id, facts): (usize, NodeId, &impl Deref<Target = Facts<'a>>),
        updates: &[Update],
        row: &mut Vec<Value>,
    ) {
        let half = updates[0].half;
        let ticks = updates.chunk_by(|a, b| a.time == b.time);
        let before = ticks.clone().next().and_then(EdgeAt::before);
        let after: SmallVec<[EdgeAt; 2]> = ticks.map(EdgeAt::after).collect();
        for (number, program, edge) in &sieves.each {
            let Some(sieve) = &program.edges[*edge].sieve else { continue };
            let mut was = before.as_ref().is_some_and(|before| {
                !before.fails(program, sieve, row) && {
                    let known = self.has(*number, id, half);
                    known.unwrap_or_else(|| before.passes(facts, half, program, sieve, row))
                }
            });
            for edge_at in &after {
                let is = edge_at.passes(facts, half, program, sieve, row);
                if is != was {
                    was = is;
                    self.turn(*number, id, Turn { node, half, time: edge_at.at, begins: is });
                }
            }
        }
    }

    fn turn(&mut self, sieve: SieveNumber, id: NodeId, turn: Turn) {
        self.turns.entry(sieve).or_default().push(turn);
        for (outgoing, node, other) in [(true, id, turn.half.other), (false, turn.half.other, id)] {
            let side = Side { sieve, node, outgoing };
            let Some(near) = self.near_mut(side) else { continue };
            let half = HalfEdge { outgoing, other, ..turn.half };
            if turn.begins {
                near.begin(half, turn.time);
                self.kept += 1;
            } else {
                near.end(half, turn.time);
                self.ended.push((side, other));
            }
        }
    }

    /// What begins or ends to pass in the batch, by sieve, and in the order of the nodes it leads away from.
    pub fn turns(&self) -> impl Iterator<Item = (SieveNumber, &[Turn])> {
        self.turns.iter().map(|(sieve, turns)| (*sieve, turns.as_slice()))
    }

    /// A batch has been walked: forgets what ended, and takes in what walks asked for, as of the last tick.
    pub fn settle(&mut self, queries: &Queries, batches: &[SharedBatch], last: Time) {
        for (side, other) in std::mem::take(&mut self.ended) {
            self.kept -= self.near_mut(side).map_or(0, |near| near.forget_ended(other));
        }
        let known = &queries.sieves;
        if std::mem::replace(&mut self.gone, known.gone) != known.gone {
            self.turns.retain(|number, _| known.has(*number));
            self.parts.iter_mut().for_each(|part| part.retain(|side, _| known.has(side.sieve)));
            self.kept = self.parts.iter().flat_map(|part| part.values()).map(Near::weight).sum();
            self.wanted.get_mut().retain(|side, _| known.has(side.sieve));
        }
        if self.kept > KEPT_MAX {
            self.forgotten = (self.forgotten + 1) % PARTS;
            let forgotten = std::mem::take(&mut self.parts[self.forgotten]);
            self.kept -= forgotten.values().map(Near::weight).sum::<usize>();
        }
        for (side, (program, edge)) in std::mem::take(self.wanted.get_mut()) {
            let near = look_through(&program, edge, batches, side, last);
            self.keep(side, near);
        }
    }

    /// What is kept may be wrong from here on.
    pub fn forget(&mut self) {
        *self = Dense::default();
    }
}

/// The edges at one side of a node that pass at a tick.
fn look_through(program: &Program, edge: usize, batches: &[SharedBatch], Side { node, outgoing, .. }: Side, at: Time) -> Near {
    let (view, mut near, mut row) = (&program.edges[edge], Near::default(), Vec::new());
    let Some(sieve) = &view.sieve else { return near };
    let facts = Facts::find(batches, node);
    if outgoing {
        for kind in &view.kinds {
            facts.edges_by_property(*kind, sieve.key, at, &mut |half, value| {
                if passes(program, sieve, &mut row, value) && facts.has_half(half, at) {
                    near.begin(half, 0);
                }
            });
        }
        return near;
    }
    facts.edges(Direction::Incoming, &view.kinds, at, &mut |half| {
        let value = Facts::find(batches, half.other).edge_property(half.kind, node, half.ordinal, sieve.key, at);
        if passes(program, sieve, &mut row, value) {
            near.begin(half, 0);
        }
    });
    near
}
