//! Looking: looks through the edges of hubs for neighbours that are to be kept, some at a time, between the batches.
//!
//!     walks ─ met ─> wanted ─┐
//!     batches ─ largest nodes ─> ahead ─┴─ looking ─ stretch by stretch ─> kept
//!
//! The first walk at a node of a million edges would take long. So the largest nodes are looked through ahead of it: as they
//! grow, and for each crossing of a query that comes. Those that walks have met come first.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::NodeId;
use weir_model::mutation::{Kind, Tag};
use weir_model::random::STEP;

use super::neighbour::{Edges, NeighbourTest};
use super::{CROSSINGS_MAX, Crossed, Crossing, ENDS_ANYWAY, Ends, FEW_OF, Hub, Hubs, turned};
use crate::arrangement::build::Shard;
use crate::arrangement::locate::{by_node, parts};
use crate::arrangement::{Facts, Published, SharedBatch, edge_ranges};
use crate::render::Time;
use crate::render::queries::Queries;
use crate::render::walk::{Here, NodeReader};
use crate::symbols::WorkerSymbols;
use crate::view::HalfEdge;

/// How long a hub is looked through before others get their turn. One that a walk has met meanwhile is looked through in one go:
/// the walk took longer.
const AT_ONCE: Duration = Duration::from_micros(250);

/// Neighbours that are found together, between two looks at the clock.
const NEIGHBOURS_BY_CLOCK: usize = 64;

/// Edges of a hub that are read together.
const STRETCH: usize = 1024;

/// A hub that is looked through.
pub(super) struct Looking {
    pub(super) crossing: Crossing,
    pub(super) hub: NodeId,
    /// Where edges of the hub lie that have not been read, as it sees them.
    ranges: Vec<(Tag, Tag)>,
    /// Where, in the last of `ranges`, those edges begin; None at its beginning.
    from: Option<(Tag, NodeId)>,
    /// Edges that have been read and not yet looked at.
    edges: Vec<HalfEdge>,
    /// Edges that had gone by this tick may not be among them.
    as_of: Time,
}

/// What of a graph neighbours are looked for in.
pub struct Around<'a> {
    pub queries: &'a Queries,
    pub symbols: &'a WorkerSymbols,
    pub shard: Shard,
    /// All shards; this one may be ahead of them, or behind.
    pub published: &'a Published,
    /// Of this shard, with all that has been taken in.
    pub batches: &'a [SharedBatch],
    /// The last tick that has been taken in: all of it has.
    pub at: Time,
}

impl Around<'_> {
    /// Looks at a node of any shard, as of a tick.
    fn read<T>(&self, node: NodeId, read: impl FnOnce(&Facts<'_>, Time) -> T) -> T {
        if self.shard.count == 1 || node.shard(self.shard.count) == self.shard.index {
            return read(&Facts::find(self.batches, node), self.at);
        }
        let snapshot = self.published.snapshot();
        read(&snapshot.facts(node), snapshot.tick().0)
    }
}

impl Looking {
    /// Reads some more edges. False where there are no more.
    fn read(&mut self, around: &Around<'_>) -> bool {
        let Some((first, last)) = self.ranges.last().copied() else { return false };
        let Looking { ranges, from, edges, .. } = self;
        let Shard { index, count } = around.shard;
        let begin = from.unwrap_or((first, NodeId::new(0, 0)));
        let (next, as_of) = around.read(self.hub, |facts, at| {
            let mut take = |half: HalfEdge| {
                if count == 1 || half.other.shard(count) == index {
                    edges.push(half);
                }
            };
            // Those that stand beside others are few, and their ends lie elsewhere.
            if !matches!(first.kind(), Kind::Out | Kind::In) {
                facts.each(first, last, at, |segment, fact| take(segment.half(&fact)));
                return (None, at);
            }
            let (facts, next) = facts.stretch(begin, last, STRETCH);
            facts.each(first, last, at, |segment, fact| take(segment.half(&fact)));
            (next, at)
        });
        self.as_of = self.as_of.max(as_of);
        if next.is_none() {
            ranges.pop();
        }
        *from = next;
        true
    }
}

/// Nothing has begun: another shard has to get as far first (true), or there is nothing to look through (false).
struct Waits(bool);

impl Hubs {
    /// Notes the largest nodes, if there are others than before or queries that they were not looked through for.
    pub fn look_ahead(&mut self, queries: &Queries, published: &Published) {
        let least = self.bounds.ahead_min;
        let is_large = |batch: &SharedBatch| batch.largest().first().is_some_and(|(count, _)| *count as usize >= least);
        // Batches follow one another in time, so where each ends tells one set of them from another.
        let mut shape = u64::from(queries.ever());
        let mut any = false;
        published.each_batch(|shard, batch| {
            if is_large(batch) {
                any = true;
                let ends = batch.lower.elements().iter().chain(batch.upper.elements());
                shape = ends.fold(shape ^ shard as u64, |shape, tick| (shape.rotate_left(5) ^ tick).wrapping_mul(STEP));
            }
        });
        if !any || std::mem::replace(&mut self.looked_ahead, shape) == shape {
            return;
        }
        let mut large: FxHashSet<NodeId> = FxHashSet::default();
        published.each_batch(|_, batch| {
            let nodes = batch.largest().iter().take_while(|(count, _)| *count as usize >= least);
            large.extend(nodes.map(|(_, index)| batch.ids[*index as usize]));
        });
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.clear();
        let snapshot = published.snapshot();
        let mut crossings = self.crossings.len();
        for family in queries.families() {
            for (edge, to) in family.program.crossings.iter().filter(|(edge, _)| family.sieves[*edge].is_none()) {
                let crossing = Crossing { family: family.number, edge: *edge, to: *to };
                let crossed = self.crossed(crossing);
                if crossed.is_none() && crossings == CROSSINGS_MAX {
                    continue;
                }
                let Some(test) = NeighbourTest::new(&family.program, *edge, *to) else { continue };
                let before = ahead.len();
                for hub in &large {
                    let edges = snapshot.facts(*hub).about_edges(test.back.direction.opposite(), &test.back.kinds);
                    let is_kept = match crossed.and_then(|crossed| crossed.hubs.get(hub)) {
                        Some(Hub::Few(_)) => true,
                        Some(Hub::Many(many)) => edges / 2 < *many,
                        None => false,
                    };
                    if edges >= least && !is_kept {
                        ahead.push((crossing, *hub));
                    }
                }
                crossings += usize::from(crossed.is_none() && ahead.len() > before);
            }
        }
        self.ahead = ahead;
    }

    /// Looks at some neighbours of a node. True if another shard has to get as far first.
    pub(super) fn look_through(&mut self, around: &Around<'_>) -> bool {
        let end = Instant::now() + AT_ONCE;
        let met_again = self.met_again.take();
        let looking = match self.looking.take() {
            Some(looking) => Ok(looking),
            None => self.begin(around),
        };
        match looking {
            Ok(looking) => self.go_on(looking, around, (!met_again).then_some(end)),
            Err(Waits(waits)) => return waits,
        }
        false
    }

    fn go_on(&mut self, mut looking: Looking, around: &Around<'_>, until: Option<Instant>) {
        let Some(family) = around.queries.family(looking.crossing.family) else { return };
        let Some((_, crossed)) = self.crossings.iter_mut().find(|(of, _)| *of == looking.crossing) else { return };
        let reader = NodeReader { family, symbols: around.symbols };
        loop {
            let from = looking.edges.len().saturating_sub(NEIGHBOURS_BY_CLOCK);
            let nodes: Vec<NodeId> = looking.edges[from..].iter().map(|half| half.other).collect();
            let found = self.locator.locate(&nodes, around.batches);
            for (half, place) in looking.edges[from..].iter().zip(by_node(&found, nodes.len())) {
                let facts = Facts::known(parts(around.batches, place));
                let here = Here { id: half.other, facts: &facts };
                let is_met = crossed.test.is_met(reader, here, around.at, &mut self.row);
                if is_met && facts.has_half(turned(*half, looking.hub), around.at) {
                    self.kept = self.kept.saturating_add_signed(crossed.add(looking.hub, *half, &mut self.spent));
                }
            }
            looking.edges.truncate(from);
            // Where they are too many, that was it.
            let Some(Hub::Few(ends)) = crossed.hubs.get_mut(&looking.hub) else { return };
            if looking.edges.is_empty() && !looking.read(around) {
                ends.whole = Some(looking.as_of.max(around.at));
                return;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                self.looking = Some(looking);
                return;
            }
        }
    }

    /// What is looked through next; where little room is left, only what walks have asked for.
    fn next(&mut self) -> Option<(Crossing, NodeId)> {
        if self.kept > self.bounds.kept_max / 2 {
            self.ahead.clear();
        }
        while let Some((crossing, hub)) = self.ahead.last() {
            if !self.crossed(*crossing).is_some_and(|crossed| matches!(crossed.hubs.get(hub), Some(Hub::Few(_)))) {
                break;
            }
            self.ahead.pop();
        }
        self.wanted.get_mut().iter().next().or(self.ahead.last()).copied()
    }

    /// Begins to look through a hub that was asked for: from here on all changes are taken in.
    fn begin(&mut self, around: &Around<'_>) -> Result<Looking, Waits> {
        let Some((crossing, hub)) = self.next() else { return Err(Waits(false)) };
        let Around { shard, published, at, .. } = *around;
        let elsewhere = shard.count > 1 && hub.shard(shard.count) != shard.index;
        if elsewhere && published.snapshot().tick().0 < at {
            // Its shard may have edges that were taken in here, and are not there yet.
            return Err(Waits(true));
        }
        if !self.wanted.get_mut().remove(&(crossing, hub)) {
            self.ahead.pop();
        }
        self.begin_with(crossing, hub, around).ok_or(Waits(false))
    }

    fn begin_with(&mut self, crossing: Crossing, hub: NodeId, around: &Around<'_>) -> Option<Looking> {
        let Around { queries, shard, at, .. } = *around;
        let family = queries.family(crossing.family)?;
        if self.crossed(crossing).is_none() {
            let test = NeighbourTest::new(&family.program, crossing.edge, crossing.to)?;
            if self.crossings.len() == CROSSINGS_MAX {
                let (_, forgotten) = self.crossings.remove(0);
                self.kept -= forgotten.weight();
            }
            self.crossings.push((crossing, Crossed { joined: test.joined(family), test, hubs: FxHashMap::default() }));
            self.number(queries);
        }
        let (_, crossed) = self.crossings.iter_mut().find(|(of, _)| *of == crossing)?;
        let Edges { direction, kinds, .. } = &crossed.test.back;
        let direction = direction.opposite();
        let edges = around.read(hub, |facts, _| facts.about_edges(direction, kinds)) / shard.count;
        let most = (edges / FEW_OF).max(ENDS_ANYWAY);
        let nothing = Hub::Few(Ends { edges: BTreeSet::new(), whole: None, most });
        if let Some(Hub::Few(before)) = crossed.hubs.insert(hub, nothing) {
            self.kept -= before.len();
        }
        let ranges = edge_ranges(direction, kinds).to_vec();
        Some(Looking { crossing, hub, ranges, from: None, edges: Vec::new(), as_of: at })
    }
}
