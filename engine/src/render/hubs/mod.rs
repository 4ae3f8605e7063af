//! Hubs: for nodes of very many edges, keeps those neighbours at which a pattern goes on.
//!
//!     walk ─ crosses all ─> wanted ─ looked through, some at a time ─> kept ─ crossed by walks
//!                                                  batches ─ taken in ──^
//!
//! A walk that crosses the edges of a node of a million asks each of the nodes at their other ends for what the pattern wants
//! there, and most have nothing of it. So of such a node those are kept that have: what is asked of the node itself, and an edge
//! for each other edge of the pattern there. Walks from then on cross these alone. Nothing is stored, all of it can be forgotten
//! at any time, and what is not kept is looked up in the graph.
//!
//! What is kept may be too much and never too little. Between batches it is what holds at the last tick. Before a batch is
//! walked, each neighbour that has what is asked at any tick of it is taken in, part by part, for a walk may read one part before
//! a change and another after it; once it has been walked, those go that have it no more. The walk itself asks for the edge, and
//! for all the rest, at its own tick.
//!
//! Whoever gains or loses what is asked is a node of the batch, and knows by its own edges of which hubs it is a neighbour: of
//! hubs and edges the fewer are gone through. So a neighbour is kept on its own shard, wherever the hub lies, and a row at a hub
//! goes to every shard. One that comes late asks about a tick that is past: what has ended is forgotten only when no row of its
//! tick is on its way any more.

mod neighbour;
mod looking;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use weir_model::mutation::Tag;
use weir_model::{NodeId, Value};

use looking::Looking;
use neighbour::NeighbourTest;

pub use looking::Around;

use super::family::Family;
use super::queries::Queries;
use super::walk::{Here, NodeReader};
use super::{FamilyNumber, Time, before};
use crate::arrangement::build::Located;
use crate::arrangement::locate::Locator;
use crate::arrangement::{Batch, Facts};
use crate::symbols::WorkerSymbols;
use crate::view::HalfEdge;

/// What counts as a hub, and how much is kept of them.
#[derive(Clone, Copy, Debug)]
pub struct HubBounds {
    /// Of nodes with fewer edges to cross nothing is kept.
    pub edges_min: usize,
    /// Nodes with at least this many edges are looked through before a walk meets them.
    pub ahead_min: usize,
    /// When more edges than these are kept by a worker, those of some hubs are forgotten.
    pub kept_max: usize,
}

impl Default for HubBounds {
    fn default() -> HubBounds {
        HubBounds { edges_min: 1_024, ahead_min: 4_096, kept_max: 500_000 }
    }
}

/// At most this many hubs wait to be looked through; walks ask for the others again.
const WANTED_MAX: usize = 64;

/// Where more than one neighbour in this many has what is asked, keeping them gains little.
const FEW_OF: usize = 4;

/// Up to this many edges of a hub are kept, however large a part of all that is.
const ENDS_ANYWAY: usize = 256;

/// At most this many edges that were kept are freed before others get their turn.
const FREED_AT_ONCE: usize = 4_096;

/// How long another shard that is behind is left alone.
const OTHERS_WAITED_FOR: Duration = Duration::from_millis(1);

/// Hubs are kept for at most this many crossings at a time: they are the bits of a number.
const CROSSINGS_MAX: usize = 64;

/// An edge of the pattern of a family, crossed to the node of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crossing {
    pub family: FamilyNumber,
    pub edge: usize,
    pub to: usize,
}

pub struct Hubs {
    bounds: HubBounds,
    crossings: Vec<(Crossing, Crossed)>,
    /// For each tag, the crossings that an update with it can concern, a bit for each.
    concerned: FxHashMap<Tag, u64>,
    /// The crossings that an update with any tag can concern.
    concerned_by_any: u64,
    /// How many edges are kept.
    kept: usize,
    /// What was kept, and takes memory still: to free all at once would be a pause.
    spent: Vec<BTreeSet<HalfEdge>>,
    /// What walks have asked for.
    wanted: RefCell<FxHashSet<(Crossing, NodeId)>>,
    /// What walks may ask for, of the largest nodes.
    ahead: Vec<(Crossing, NodeId)>,
    /// Tells for which nodes and queries `ahead` was noted.
    looked_ahead: u64,
    looking: Option<Looking>,
    /// Whether a walk has met what is being looked through.
    met_again: Cell<bool>,
    /// Crossings, and nodes of this batch that had what they ask for or have it now, by their places.
    touched: Vec<(usize, usize)>,
    leaving: Vec<Leaving>,
    /// Rows with ticks before this do not come any more.
    awaited: Time,
    /// The last tick that has been taken in.
    taken_in: Time,
    locator: Locator,
    row: Vec<Value>,
}

/// What is kept for a crossing.
struct Crossed {
    test: NeighbourTest,
    /// What `NeighbourTest::joined` said: with more members the family may let more through.
    joined: u64,
    hubs: FxHashMap<NodeId, Hub>,
}

enum Hub {
    Few(Ends),
    /// Too many of its edges lead to where the pattern goes on. The number says about how many edges it had.
    Many(usize),
}

/// The edges of a hub that lead to where the pattern goes on, in order: what is in order grows without a pause.
pub struct Ends {
    edges: BTreeSet<HalfEdge>,
    /// After this tick all edges that count are here; None while they are still looked for.
    whole: Option<Time>,
    /// More edges than this are too many.
    most: usize,
}

/// A node that may have what is asked no more, or edges of it that are gone, since the last tick of a batch.
struct Leaving {
    since: Time,
    crossing: Crossing,
    node: NodeId,
    edges: SmallVec<[HalfEdge; 4]>,
}

impl Ends {
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    pub fn each(&self, mut visit: impl FnMut(HalfEdge)) {
        self.edges.iter().for_each(|half| visit(*half));
    }
}

/// An edge as its other end sees it.
pub fn turned(half: HalfEdge, node: NodeId) -> HalfEdge {
    HalfEdge { other: node, outgoing: !half.outgoing, ..half }
}

impl Crossed {
    /// Takes in an edge that leads from a hub to where the pattern goes on. Answers how many more edges are kept, below zero
    /// where they are too many by now.
    fn add(&mut self, hub: NodeId, half: HalfEdge, spent: &mut Vec<BTreeSet<HalfEdge>>) -> isize {
        let Some(there @ Hub::Few(_)) = self.hubs.get_mut(&hub) else { return 0 };
        let Hub::Few(ends) = there else { return 0 };
        let added = isize::from(ends.edges.insert(half));
        if ends.len() <= ends.most {
            return added;
        }
        let (all, many) = (ends.len(), ends.most * FEW_OF);
        spent.push(std::mem::take(&mut ends.edges));
        *there = Hub::Many(many);
        added - all as isize
    }

    /// Takes an edge out. Answers how many fewer are kept.
    fn remove(&mut self, hub: NodeId, half: HalfEdge) -> usize {
        match self.hubs.get_mut(&hub) {
            Some(Hub::Few(ends)) => usize::from(ends.edges.remove(&half)),
            _ => 0,
        }
    }

    fn weight(&self) -> usize {
        self.hubs.values().map(|hub| if let Hub::Few(ends) = hub { ends.len() } else { 0 }).sum()
    }
}

impl Hubs {
    /// For one of `shards` shards. With several, rows come from the others.
    pub fn new(bounds: HubBounds, shards: usize) -> Hubs {
        let awaited = if shards > 1 { 0 } else { Time::MAX };
        Hubs {
            bounds,
            crossings: Vec::new(),
            concerned: FxHashMap::default(),
            concerned_by_any: 0,
            kept: 0,
            spent: Vec::new(),
            wanted: RefCell::default(),
            ahead: Vec::new(),
            looked_ahead: 0,
            looking: None,
            met_again: Cell::default(),
            touched: Vec::new(),
            leaving: Vec::new(),
            awaited,
            taken_in: 0,
            locator: Locator::default(),
            row: Vec::new(),
        }
    }

    /// Whether a node with these facts may be a hub.
    pub fn may_be(&self, facts: &Facts<'_>) -> bool {
        facts.has_at_least(self.bounds.edges_min)
    }

    fn crossed(&self, crossing: Crossing) -> Option<&Crossed> {
        self.crossings.iter().find(|(of, _)| *of == crossing).map(|(_, crossed)| crossed)
    }

    /// What this shard keeps of the edges of a node for a crossing, before and after a change at a tick.
    pub fn ends(&self, crossing: Crossing, family: &Family, node: NodeId, time: Time) -> Option<&Ends> {
        let crossed = self.crossed(crossing).filter(|crossed| crossed.joined == crossed.test.joined(family))?;
        match crossed.hubs.get(&node)? {
            Hub::Few(ends) => Some(ends).filter(|ends| self.knows(time) && ends.whole.is_some_and(|whole| whole < time)),
            Hub::Many(_) => None,
        }
    }

    /// Whether everything by a tick has been taken in.
    pub fn knows(&self, tick: Time) -> bool {
        tick <= self.taken_in
    }

    /// Nothing up to this tick comes any more. Answers the last tick that has been taken in, as later batches may have come.
    pub fn has_all_by(&mut self, tick: Time) -> Time {
        self.taken_in = self.taken_in.max(tick);
        self.taken_in
    }

    pub fn edges_min(&self) -> usize {
        self.bounds.edges_min
    }

    /// A walk crosses all edges of a node, about `edges` of them.
    pub fn want(&self, crossing: Crossing, node: NodeId, edges: usize) {
        if edges < self.bounds.edges_min {
            return;
        }
        match self.crossed(crossing).and_then(|crossed| crossed.hubs.get(&node)) {
            Some(Hub::Many(many)) if edges / 2 < *many => {}
            Some(Hub::Few(_)) => self.met_again.set(true),
            _ => {
                let mut wanted = self.wanted.borrow_mut();
                if wanted.len() < WANTED_MAX {
                    wanted.insert((crossing, node));
                }
            }
        }
    }

    /// Takes in what a batch changes. It is not walked yet.
    pub fn take_in(&mut self, queries: &Queries, symbols: &WorkerSymbols, batch: &Batch, located: &Located) {
        self.has_all_by(before(batch.upper.elements()));
        self.touched.clear();
        self.forget_unknown(queries);
        if self.crossings.is_empty() {
            return;
        }
        let last = before(batch.lower.elements());
        let Hubs { crossings, concerned, concerned_by_any, kept, spent, touched, row, .. } = self;
        for (index, id) in batch.ids.iter().enumerate() {
            let (segment, updates) = batch.node(index);
            let bits = segment.tags(updates).filter_map(|(tag, _)| concerned.get(&tag));
            let mut bits = bits.fold(*concerned_by_any, |all, bits| all | bits);
            if bits == 0 {
                continue;
            }
            let facts = located.facts(batch, index);
            while let Some(number) = bits.checked_ilog2() {
                bits ^= 1 << number;
                let (crossing, crossed) = &mut crossings[number as usize];
                let Some(family) = queries.family(crossing.family) else { continue };
                let concerns = segment.tags(updates).any(|(tag, _)| crossed.test.concerns(&family.program, tag));
                if !concerns || !crossed.test.is_near(&facts, (segment, updates), last, &crossed.hubs) {
                    continue;
                }
                let here = Here { id: *id, facts: &facts };
                let reader = NodeReader { family, symbols };
                let had = crossed.test.is_met(reader, here, last, row);
                if !had && !crossed.test.may_be_met(reader, here, (segment, updates), last, row) {
                    continue;
                }
                touched.push((number as usize, index));
                let mut halves: SmallVec<[HalfEdge; 8]> = SmallVec::new();
                if !had {
                    crossed.test.each_back(&facts, last, &crossed.hubs, &mut |half| halves.push(half));
                }
                let changed = crossed.test.each_changed(segment, updates);
                halves.extend(changed.filter(|(_, adds)| *adds).map(|(half, _)| half));
                for half in halves {
                    *kept = kept.saturating_add_signed(crossed.add(half.other, turned(half, *id), spent));
                }
            }
        }
    }

    /// A batch has been walked: notes what may not hold any more after it.
    pub fn settle(&mut self, queries: &Queries, symbols: &WorkerSymbols, batch: &Batch, located: &Located) {
        let (first, last) = (before(batch.lower.elements()), before(batch.upper.elements()));
        let Hubs { crossings, touched, leaving, row, .. } = self;
        for (number, index) in touched.drain(..) {
            let (crossing, crossed) = &crossings[number];
            let Some(family) = queries.family(crossing.family) else { continue };
            let (node, facts, (segment, updates)) = (batch.ids[index], located.facts(batch, index), batch.node(index));
            let is_met = crossed.test.is_met(NodeReader { family, symbols }, Here { id: node, facts: &facts }, last, row);
            let mut edges: SmallVec<[HalfEdge; 4]> = SmallVec::new();
            let changed = crossed.test.each_changed(segment, updates);
            edges.extend(changed.filter(|(_, adds)| !is_met || !adds).map(|(half, _)| half));
            if !is_met {
                crossed.test.each_back(&facts, first, &crossed.hubs, &mut |half| edges.push(half));
            }
            edges.retain(|half| crossed.hubs.contains_key(&half.other));
            if !edges.is_empty() {
                leaving.push(Leaving { since: last, crossing: *crossing, node, edges });
            }
        }
    }

    /// Whether `tend` has anything to do.
    pub fn is_busy(&self) -> bool {
        self.kept > self.bounds.kept_max
            || self.has_to_look()
            || !self.spent.is_empty()
            || self.leaving.first().is_some_and(|leaving| leaving.since < self.awaited)
    }

    fn has_to_look(&self) -> bool {
        self.looking.is_some() || !self.wanted.borrow().is_empty() || !self.ahead.is_empty()
    }

    /// No row with a tick before this one is on its way any more.
    pub fn await_from(&mut self, tick: Time) {
        self.awaited = tick;
    }

    /// Forgets what does not hold any more, and looks through some of what is asked for. Says when to go on, if there is more.
    pub fn tend(&mut self, around: &Around<'_>) -> Option<Duration> {
        self.forget_unknown(around.queries);
        self.let_go(around);
        let waits = self.look_through(around);
        self.forget_some();
        self.free_some();
        match (self.has_to_look(), self.spent.is_empty()) {
            (false, true) => None,
            (true, true) if waits => Some(OTHERS_WAITED_FOR),
            _ => Some(Duration::ZERO),
        }
    }

    fn let_go(&mut self, around: &Around<'_>) {
        let Hubs { crossings, leaving, kept, row, awaited, .. } = self;
        let done = leaving.partition_point(|leaving| leaving.since < *awaited);
        let gone: Vec<Leaving> = leaving.drain(..done).collect();
        // What came back, and left once more while a row may still ask about the time between, leaves with that.
        let mut again: FxHashMap<(Crossing, NodeId), &mut Leaving> =
            leaving.iter_mut().map(|leaving| ((leaving.crossing, leaving.node), leaving)).collect();
        for Leaving { crossing, node, edges, .. } in gone {
            if let Some(leaving) = again.get_mut(&(crossing, node)) {
                leaving.edges.extend(edges);
                continue;
            }
            let crossed = crossings.iter_mut().find(|(of, _)| *of == crossing).map(|(_, crossed)| crossed);
            let (Some(crossed), Some(family)) = (crossed, around.queries.family(crossing.family)) else { continue };
            let facts = Facts::find(around.batches, node);
            // It may have come back since.
            let reader = NodeReader { family, symbols: around.symbols };
            let is_met = crossed.test.is_met(reader, Here { id: node, facts: &facts }, around.at, row);
            for half in edges {
                if !is_met || !facts.has_half(half, around.at) {
                    *kept -= crossed.remove(half.other, turned(half, node));
                }
            }
        }
    }

    /// Notes which tags concern which crossings.
    fn number(&mut self, queries: &Queries) {
        self.concerned.clear();
        self.concerned_by_any = 0;
        for (number, (crossing, crossed)) in self.crossings.iter().enumerate() {
            let Some(family) = queries.family(crossing.family) else { continue };
            match crossed.test.tags(&family.program) {
                Some(tags) => tags.into_iter().for_each(|tag| *self.concerned.entry(tag).or_default() |= 1 << number),
                None => self.concerned_by_any |= 1 << number,
            }
        }
    }

    /// Forgets what was kept for families that have gone, or that others have joined.
    fn forget_unknown(&mut self, queries: &Queries) {
        let known = |(crossing, crossed): &(Crossing, Crossed)| {
            queries.family(crossing.family).is_some_and(|family| crossed.test.joined(family) == crossed.joined)
        };
        if self.crossings.iter().all(known) {
            return;
        }
        self.crossings.retain(known);
        self.kept = self.crossings.iter().map(|(_, crossed)| crossed.weight()).sum();
        self.number(queries);
        if self.looking.as_ref().is_some_and(|looking| self.crossed(looking.crossing).is_none()) {
            self.looking = None;
        }
    }

    /// Where too much is kept, forgets one hub after another.
    fn forget_some(&mut self) {
        let Hubs { bounds, crossings, kept, spent, looking, .. } = self;
        for (crossing, crossed) in crossings {
            crossed.hubs.retain(|hub, kept_of| match kept_of {
                Hub::Few(ends) if *kept > bounds.kept_max => {
                    *kept -= ends.len();
                    spent.push(std::mem::take(&mut ends.edges));
                    looking.take_if(|looking| (looking.crossing, looking.hub) == (*crossing, *hub));
                    false
                }
                _ => true,
            });
        }
    }

    /// Frees some of what was kept.
    fn free_some(&mut self) {
        let Some(edges) = self.spent.last_mut() else { return };
        if (0..FREED_AT_ONCE).any(|_| edges.pop_first().is_none()) {
            self.spent.pop();
        }
    }

    /// What is kept may be wrong from here on: a batch that ends with this tick is there already, and nobody walks it.
    pub fn begin_after(&mut self, tick: Time) {
        let taken_in = self.taken_in.max(tick);
        *self = Hubs { awaited: self.awaited, taken_in, ..Hubs::new(self.bounds, 1) };
    }
}
