//! Dense: of nodes with many edges, those edges that meet the conditions on edges of a pattern.
//!
//! A payment of a large account is looked for among all its payments, and whether it is large is written at the other end. Where a
//! walk meets such a node, the few edges that count are kept from then on, found by either end. Only what a walk asked for is kept, it can be
//! forgotten at any time, and a walk that finds nothing here looks where the graph lies.
//!
//! Between batches what is kept is the set at the last tick. The changes of a batch are taken in before it is walked, with
//! their ticks, so that within a batch each tick sees its own; afterwards what ended is forgotten.
//!
//! What is found on the way, which edges begin or end to meet the conditions, is where the walks of the batch begin: most changes of
//! edges are neither, and go no further.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::{NodeId, Symbol, Value};

use super::Time;
use super::probe::touched_edges;
use super::program::{Program, Sieve};
use super::queries::Queries;
use super::walk::is_true;
use crate::arrangement::build::Located;
use crate::arrangement::{Batch, Facts, SharedBatch};
use crate::view::{Direction, HalfEdge};

/// A node has many edges from here on.
pub const MANY: usize = 8;

/// When more edges than these are kept, all are forgotten.
const KEPT_MAX: usize = 2_000_000;

/// So many nodes are taken in after a batch; others are asked for again.
const TAKEN_IN_MAX: usize = 512;

/// One side of a node, for one sieve.
type Side = (u32, NodeId, bool);

#[derive(Default)]
pub struct Dense {
    /// By the number of the sieve.
    sieves: FxHashMap<u32, Sieved>,
    /// What walks have asked for, and the pattern's edge that the sieve is of.
    wanted: RefCell<FxHashMap<Side, (Arc<Program>, usize)>>,
    /// Where something has ended during this batch.
    ended: Vec<(Side, NodeId)>,
    /// What begins or ends to pass in this batch, by sieve and node.
    turns: FxHashMap<u32, Vec<Turn>>,
    /// Of each node of the batch, whether it has any.
    turned: Vec<bool>,
}

/// Sieves that look at one property of the same edges.
pub struct Sieves {
    pub kinds: Vec<Symbol>,
    pub key: Symbol,
    /// The number of each, and an edge of a pattern that goes through it.
    pub each: Vec<(u32, Arc<Program>, usize)>,
}

/// An edge that begins to pass a sieve, or ends to.
#[derive(Clone, Copy)]
pub struct Turn {
    /// The place of its source in the batch.
    node: usize,
    pub half: HalfEdge,
    pub time: Time,
    pub begins: bool,
}

#[derive(Default)]
struct Sieved {
    /// Edges that lead away, and those that lead here.
    out: FxHashMap<NodeId, Near>,
    into: FxHashMap<NodeId, Near>,
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

    fn forget_ended(&mut self, other: NodeId) {
        if let Some(stretches) = self.0.get_mut(&other) {
            stretches.retain(|stretch| stretch.until == Time::MAX);
            if stretches.is_empty() {
                self.0.remove(&other);
            }
        }
    }
}

impl Sieved {
    fn sides(&mut self) -> [(bool, &mut FxHashMap<NodeId, Near>); 2] {
        [(true, &mut self.out), (false, &mut self.into)]
    }

    /// Whether an edge passes, seen from its source. None where neither of its ends is kept.
    fn has(&self, (id, half): (NodeId, HalfEdge)) -> Option<bool> {
        let seen_there = HalfEdge { outgoing: false, other: id, ..half };
        let out = self.out.get(&id).map(|near| near.has(half));
        out.or_else(|| self.into.get(&half.other).map(|near| near.has(seen_there)))
    }

    fn len(&self) -> usize {
        self.out.values().chain(self.into.values()).map(Near::len).sum()
    }
}

/// An edge at a tick: its property, and whether it is there, each looked up when it is first asked for.
struct Look {
    at: Time,
    value: OnceCell<Value>,
    there: OnceCell<bool>,
}

impl Look {
    fn new(at: Time) -> Look {
        Look { at, value: OnceCell::new(), there: OnceCell::new() }
    }

    fn passes(&self, (facts, half): (&Facts<'_>, HalfEdge), (program, sieve): (&Program, &Sieve), row: &mut Vec<Value>) -> bool {
        let value = self.value.get_or_init(|| facts.edge_property(half.kind, half.other, half.ordinal, sieve.key, self.at));
        passes(program, sieve, row, value.clone()) && *self.there.get_or_init(|| facts.has_half(half, self.at))
    }
}

fn passes(program: &Program, sieve: &Sieve, row: &mut Vec<Value>, value: Value) -> bool {
    row.resize(program.width, Value::Null);
    row[sieve.slot] = value;
    sieve.conditions.iter().all(|condition| is_true(condition, row, &program.context))
}

impl Dense {
    /// What is kept of a side of a node.
    pub fn near(&self, sieve: u32, node: NodeId, outgoing: bool) -> Option<&Near> {
        let sieved = self.sieves.get(&sieve)?;
        if outgoing { sieved.out.get(&node) } else { sieved.into.get(&node) }
    }

    /// A walk has looked through many edges of a node.
    pub fn want(&self, (sieve, node, outgoing): Side, program: &Arc<Program>, edge: usize) {
        let mut wanted = self.wanted.borrow_mut();
        if wanted.len() < TAKEN_IN_MAX {
            wanted.entry((sieve, node, outgoing)).or_insert_with(|| (program.clone(), edge));
        }
    }

    /// Takes in what a batch changes. It is not walked yet.
    pub fn take_in(&mut self, queries: &Queries, batch: &Batch, located: &Located) {
        self.turns.values_mut().for_each(Vec::clear);
        self.turned.clear();
        self.turned.resize(batch.ids.len(), false);
        let mut row = Vec::new();
        for sieves in &queries.sieves {
            for (node, id) in batch.ids.iter().enumerate() {
                let touched = touched_edges((&sieves.kinds, &[sieves.key]), batch.node(node));
                if touched.is_empty() {
                    continue;
                }
                let facts = located.facts(batch, node);
                for times in touched.chunk_by(|a, b| a.0 == b.0) {
                    self.take_in_edge(sieves, (node, *id, &facts), times, &mut row);
                }
            }
        }
    }

    /// An edge that leads away from a node of the batch, with the ticks of its changes.
    fn take_in_edge(
        &mut self,
        sieves: &Sieves,
        (node, id, facts): (usize, NodeId, &Facts<'_>),
        times: &[(HalfEdge, Time)],
        row: &mut Vec<Value>,
    ) {
        let Some((half, first)) = times.first().copied() else { return };
        let before = first.checked_sub(1).map(Look::new);
        let looks: SmallVec<[Look; 2]> = times.iter().map(|(_, time)| Look::new(*time)).collect();
        for (number, program, edge) in &sieves.each {
            let Some(sieve) = &program.edges[*edge].sieve else { continue };
            let mut passes = |look: &Look| look.passes((facts, half), (program, sieve), row);
            let known = self.sieves.get(number).and_then(|kept| kept.has((id, half)));
            let mut was = known.unwrap_or_else(|| before.as_ref().is_some_and(&mut passes));
            for look in &looks {
                let is = passes(look);
                if is != was {
                    was = is;
                    self.turn(*number, id, Turn { node, half, time: look.at, begins: is });
                }
            }
        }
    }

    fn turn(&mut self, number: u32, id: NodeId, turn: Turn) {
        self.turned[turn.node] = true;
        self.turns.entry(number).or_default().push(turn);
        let Some(kept) = self.sieves.get_mut(&number) else { return };
        for (outgoing, side) in kept.sides() {
            let (node, other) = if outgoing { (id, turn.half.other) } else { (turn.half.other, id) };
            let Some(near) = side.get_mut(&node) else { continue };
            let half = HalfEdge { outgoing, other, ..turn.half };
            if turn.begins {
                near.begin(half, turn.time);
            } else {
                near.end(half, turn.time);
                self.ended.push(((number, node, outgoing), other));
            }
        }
    }

    /// What begins or ends to pass among the edges that lead away from a node of the batch.
    pub fn turns(&self, sieve: u32, node: usize) -> &[Turn] {
        if !self.turned.get(node).is_some_and(|turned| *turned) {
            return &[];
        }
        let turns = self.turns.get(&sieve).map_or(&[][..], Vec::as_slice);
        let start = turns.partition_point(|turn| turn.node < node);
        &turns[start..][..turns[start..].iter().take_while(|turn| turn.node == node).count()]
    }

    /// A batch has been walked: forgets what ended, and takes in what walks asked for, as of the last tick.
    pub fn settle(&mut self, queries: &Queries, batches: &[SharedBatch], last: Time) {
        for ((number, node, outgoing), other) in self.ended.drain(..) {
            let side = self.sieves.get_mut(&number).map(|sieved| if outgoing { &mut sieved.out } else { &mut sieved.into });
            if let Some(near) = side.and_then(|side| side.get_mut(&node)) {
                near.forget_ended(other);
            }
        }
        self.sieves.retain(|number, _| queries.has_sieve(*number));
        self.turns.retain(|number, _| queries.has_sieve(*number));
        let wanted = self.wanted.get_mut();
        if wanted.is_empty() {
            return;
        }
        if self.sieves.values().map(Sieved::len).sum::<usize>() > KEPT_MAX {
            self.sieves.clear();
        }
        for ((number, node, outgoing), (program, edge)) in wanted.drain() {
            if !queries.has_sieve(number) {
                continue;
            }
            let near = look_through(&program, edge, batches, (node, outgoing), last);
            let sieved = self.sieves.entry(number).or_default();
            let side = if outgoing { &mut sieved.out } else { &mut sieved.into };
            side.insert(node, near);
        }
    }

    /// What is kept may be wrong from here on.
    pub fn forget(&mut self) {
        *self = Dense::default();
    }
}

/// The edges at one side of a node that pass at a tick.
fn look_through(program: &Program, edge: usize, batches: &[SharedBatch], (node, outgoing): (NodeId, bool), at: Time) -> Near {
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
