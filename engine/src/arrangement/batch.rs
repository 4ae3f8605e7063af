//! Batch: a sorted, immutable set of updates of the graph: an index of nodes over segments of facts.
//!
//!     ids       the nodes, ascending                                     16 bytes each
//!     places    which piece, where its facts begin, how many             12 bytes each
//!     pieces    the segments referred to, shared with other batches
//!     slots     for about five nodes each: a filter of two bits a node, and where they begin, so that most misses cost one
//!               cache line and most hits two more
//!
//! Merging leaves the facts of most nodes where they are and writes an index anew (see docs/decisions/0009).
//!
//! Updates are exact differences: a fact is added only where it is absent and removed only where it is present, and a
//! property that changes is a removal of the old value and an addition of the new one at the same tick. So along time
//! the updates of one fact key alternate, the last one at or before a tick tells what holds then, and merging needs
//! no comparison of values.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use timely::progress::Antichain;
use weir_model::mutation::Kind;
use weir_model::{NodeId, Symbol};

use super::bundle::Packer;
use super::estimate::Sample;
use super::facts::Part;
use super::filter::{self, Filter};
use super::prefetch::prefetch;
use super::segment::{Fact, Segment, shrink};

#[derive(Debug)]
pub struct Batch {
    /// Ticks covered: from `lower`, below `upper`. Times up to `since` need not be told apart.
    pub lower: Antichain<u64>,
    pub upper: Antichain<u64>,
    pub since: Antichain<u64>,
    pub ids: Vec<NodeId>,
    places: Vec<Place>,
    pieces: Vec<Piece>,
    /// How many facts there are.
    facts: usize,
    /// The last tick before `upper`.
    last_tick: u64,
    directory: Directory,
    /// Fact count and place of the nodes with the most facts, the largest first.
    largest: Vec<(u32, u32)>,
    /// See `estimate`.
    pub(super) sample: OnceLock<Sample>,
    pub(super) labels: OnceLock<FxHashMap<Symbol, i64>>,
}

/// A segment that a batch refers to.
#[derive(Clone, Debug)]
pub struct Piece {
    pub segment: Arc<Segment>,
    /// How many of its facts belong to nodes of the batch.
    pub live: usize,
    /// How many of them did when a batch first referred to it.
    pub whole: usize,
}

/// Where the facts of a node lie.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of the piece, below four flags.
    piece: u32,
    pub start: u32,
    pub count: u32,
}

/// A node that was looked up in a batch.
#[derive(Clone, Copy)]
pub struct Hit {
    /// Which one it is of those that were looked up.
    pub index: u32,
    pub place: u32,
    /// Until where it had to be looked for.
    end: u32,
}

/// Some fact has more than one update.
const REPEATS: u32 = 1 << 31;
/// No older batch knows the node.
const FIRST: u32 = 1 << 30;
/// No fact is a property: who asks for one need not look at the facts, which lie elsewhere.
const NO_PROPERTY: u32 = 1 << 29;
/// No fact is a label.
const NO_LABEL: u32 = 1 << 28;
const FLAGS: u32 = REPEATS | FIRST | NO_PROPERTY | NO_LABEL;

impl Place {
    /// The place of facts that begin at `start` in their segment, none of them twice.
    pub fn of(start: u32, facts: &[Fact]) -> Place {
        Place { piece: lacking(facts), start, count: facts.len() as u32 }
    }

    pub fn piece(&self) -> usize {
        (self.piece & !FLAGS) as usize
    }

    pub fn has_properties(&self) -> bool {
        self.piece & NO_PROPERTY == 0
    }

    fn has_labels(&self) -> bool {
        self.piece & NO_LABEL == 0
    }

    /// Whether merging could find that updates have cancelled out.
    pub fn repeats(&self) -> bool {
        self.piece & REPEATS != 0
    }

    /// Whether looking for the node in older batches is in vain.
    pub fn is_first(&self) -> bool {
        self.piece & FIRST != 0
    }

    pub fn range(&self) -> Range<usize> {
        self.start as usize..(self.start + self.count) as usize
    }
}

/// Labels are the first facts of a node, properties the last.
fn lacking(facts: &[Fact]) -> u32 {
    let is = |fact: Option<&Fact>, kind| fact.is_some_and(|fact| fact.tag.kind() == kind);
    let no_label = if is(facts.first(), Kind::Label) { 0 } else { NO_LABEL };
    let no_property = if is(facts.last(), Kind::Property) { 0 } else { NO_PROPERTY };
    no_label | no_property
}

/// A batch in the making. Nodes come in ascending order, their facts either in `fresh` or in a segment that is there already.
#[derive(Debug)]
pub struct Writer {
    /// Its first piece is what becomes of `fresh`.
    batch: Batch,
    pub fresh: Segment,
    /// How many facts of `fresh` belong to finished nodes.
    finished: usize,
    /// Of the edges of those nodes that have many facts.
    hashes: Vec<u64>,
    packer: Packer,
    /// Nodes of at least this many facts may be among the largest.
    large: u32,
}

/// How many of the largest nodes a batch knows.
const LARGEST: usize = 64;

impl Writer {
    /// About how many nodes will come, and which one at most.
    pub fn new(
        (lower, upper, since): (Antichain<u64>, Antichain<u64>, Antichain<u64>),
        (nodes, last): (usize, NodeId),
        fresh: Segment,
    ) -> Writer {
        let last_tick = upper.elements().first().map_or(u64::MAX, |upper| upper.saturating_sub(1));
        let batch = Batch {
            lower,
            upper,
            since,
            ids: Vec::with_capacity(nodes),
            places: Vec::with_capacity(nodes),
            pieces: vec![Piece { segment: Arc::default(), live: 0, whole: 0 }],
            facts: 0,
            last_tick,
            directory: Directory::new(nodes, last),
            largest: Vec::new(),
            sample: OnceLock::new(),
            labels: OnceLock::new(),
        };
        Writer { batch, fresh, finished: 0, hashes: Vec::new(), packer: Packer::default(), large: 1 }
    }

    /// Takes in a segment that is there already, and says its number. `whole` is that of the piece it comes from; 0 if it is
    /// referred to for the first time.
    pub fn adopt(&mut self, segment: Arc<Segment>, whole: usize) -> u32 {
        self.batch.pieces.push(Piece { segment, live: 0, whole });
        self.batch.pieces.len() as u32 - 1
    }

    /// The next node, whose facts lie in an adopted segment, none of them twice. `first` if no older batch knows it.
    pub fn refer(&mut self, id: NodeId, piece: u32, place: Place, first: bool) {
        let lacking = place.piece & (NO_PROPERTY | NO_LABEL);
        self.push(id, Place { piece: piece | lacking | if first { FIRST } else { 0 }, ..place });
    }

    /// Closes the facts pushed to `fresh` since the last call as those of `id`. Nothing if there are none.
    pub fn finish_node(&mut self, id: NodeId, first: bool) {
        let same = |pair: &[Fact]| self.fresh.same_fact(&pair[0], &pair[1]);
        let repeats = self.fresh.facts[self.finished..].windows(2).any(same);
        self.finish_merged(id, first, repeats);
    }

    /// As `finish_node`, if it is known whether some fact has more than one update.
    pub fn finish_merged(&mut self, id: NodeId, first: bool, repeats: bool) {
        let start = self.finished;
        self.packer.pack(&mut self.fresh, start);
        let end = self.fresh.facts.len();
        if start == end {
            return;
        }
        self.finished = end;
        if end - start > filter::FEW {
            let hash = |fact: &Fact| filter::hash(start, fact.tag, self.fresh.key(fact));
            self.hashes.extend(self.fresh.facts[start..].iter().filter_map(hash));
        }
        let lacking = lacking(&self.fresh.facts[start..]);
        let piece = if repeats { REPEATS } else { 0 } | if first { FIRST } else { 0 } | lacking;
        self.push(id, Place { piece, start: start as u32, count: (end - start) as u32 });
    }

    fn push(&mut self, id: NodeId, place: Place) {
        let batch = &mut self.batch;
        debug_assert!(batch.ids.last().is_none_or(|last| *last < id));
        batch.directory.insert(id, batch.ids.len());
        batch.ids.push(id);
        batch.places.push(place);
        batch.pieces[place.piece()].live += place.count as usize;
        batch.facts += place.count as usize;
        if place.count >= self.large {
            batch.largest.push((place.count, batch.ids.len() as u32 - 1));
            if batch.largest.len() == 2 * LARGEST {
                batch.keep_largest();
                self.large = batch.largest[LARGEST - 1].0 + 1;
            }
        }
    }

    pub fn nodes(&self) -> usize {
        self.batch.ids.len()
    }

    pub fn finish(self) -> Batch {
        let Writer { mut batch, mut fresh, hashes, .. } = self;
        fresh.shrink();
        fresh.filter = Filter::of(&hashes);
        batch.directory.finish(batch.ids.len());
        batch.keep_largest();
        batch.pieces[0].segment = Arc::new(fresh);
        batch.pieces.iter_mut().filter(|piece| piece.whole == 0).for_each(|piece| piece.whole = piece.live);
        shrink(&mut batch.ids);
        shrink(&mut batch.places);
        batch
    }
}

impl Batch {
    pub fn empty(lower: Antichain<u64>, upper: Antichain<u64>) -> Batch {
        Writer::new((lower, upper, Antichain::from_elem(0)), (0, NodeId::new(0, 0)), Segment::default()).finish()
    }

    fn keep_largest(&mut self) {
        self.largest.sort_unstable_by(|a, b| b.cmp(a));
        self.largest.truncate(LARGEST);
    }

    /// How many facts the largest nodes have, and where these stand: the largest first.
    pub fn largest(&self) -> &[(u32, u32)] {
        &self.largest
    }

    /// The facts of the node at this index among those of other batches.
    pub fn part(&self, index: usize) -> Part<'_> {
        let (segment, facts) = self.node(index);
        let place = &self.places[index];
        Part { segment, facts, last: self.last_tick, labels: place.has_labels(), properties: place.has_properties() }
    }

    /// The facts of the node at this index, and what they point into.
    pub fn node(&self, index: usize) -> (&Segment, &[Fact]) {
        let place = &self.places[index];
        let segment = &*self.pieces[place.piece()].segment;
        (segment, &segment.facts[place.range()])
    }

    /// Fetches what the index says of a node, if there is one.
    pub fn prefetch(&self, index: usize) {
        self.ids.get(index).inspect(|id| prefetch(*id));
        self.places.get(index).inspect(|place| prefetch(*place));
    }

    pub fn place(&self, index: usize) -> Place {
        self.places[index]
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Where a node stands.
    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        if self.may_contain(id) { self.position(id) } else { None }
    }

    /// False for most nodes that are not here.
    pub fn may_contain(&self, id: NodeId) -> bool {
        self.directory.may_contain(id)
    }

    /// Looks up those of the ids that are `open`: which are here, and where.
    pub fn locate(&self, ids: &[NodeId], open: &[u32], found: &mut Vec<Hit>) {
        // In passes, so that the processor waits for many slots at a time, then for many ids, and so on.
        open.iter().for_each(|index| self.directory.prefetch(ids[*index as usize]));
        found.clear();
        for index in open {
            let id = ids[*index as usize];
            if self.directory.may_contain(id) {
                let range = self.directory.range(id);
                self.ids.get(range.start).inspect(|id| prefetch(*id));
                found.push(Hit { index: *index, place: range.start as u32, end: range.end as u32 });
            }
        }
        found.retain_mut(|hit| {
            let place = self.place_in(hit.place as usize..hit.end as usize, ids[hit.index as usize]);
            place.inspect(|place| {
                prefetch(&self.places[*place]);
                hit.place = *place as u32;
            });
            place.is_some()
        });
    }

    /// Takes those out of `open` that were found here and that no older batch knows.
    pub fn close(&self, open: &mut Vec<u32>, found: &[Hit]) {
        let mut closed = found.iter().filter(|hit| self.places[hit.place as usize].is_first()).peekable();
        open.retain(|index| closed.next_if(|hit| hit.index == *index).is_none());
    }

    /// As `index_of`, for a node that may be here.
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.place_in(self.directory.range(id), id)
    }

    fn place_in(&self, range: Range<usize>, id: NodeId) -> Option<usize> {
        let start = range.start;
        let near = &self.ids[range];
        let at = if near.len() <= 16 { near.iter().position(|other| *other == id) } else { near.binary_search(&id).ok() };
        at.map(|at| start + at)
    }

    /// About how many facts the nodes in a range of places have: a few of them tell.
    pub fn about_facts(&self, range: Range<usize>) -> usize {
        const LOOKED_AT: usize = 64;
        let places = self.places.get(range).unwrap_or_default();
        let step = places.len().div_ceil(LOOKED_AT).max(1);
        places.iter().step_by(step).map(|place| place.count as usize).sum::<usize>() * step
    }

    /// The first node at or after `id`.
    pub fn lower_bound(&self, id: NodeId) -> usize {
        self.ids.partition_point(|other| *other < id)
    }

    pub fn len(&self) -> usize {
        self.facts
    }

    pub fn is_empty(&self) -> bool {
        self.facts == 0
    }
}

/// Where nodes lie, about: slots by the order of ids, which are hashes and lie evenly.
#[derive(Debug)]
struct Directory {
    /// One more than are used, for where the last one ends. Those of hashes are made as they are needed: all at once would be a
    /// long pause.
    slots: Vec<Slot>,
    used: usize,
    /// How many slots have their `start`.
    begun: usize,
    /// Ids of the `long` scheme are small numbers: those up to this one share the slots evenly. 0 for hashes.
    last: u64,
}

/// A filter that says "not here" for most nodes that are not, one bit a node in each of its halves; and where the nodes begin.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    filter: u64,
    start: u32,
}

impl Directory {
    /// Twelve bits of filter a node.
    fn new(nodes: usize, last: NodeId) -> Directory {
        let used = nodes * 12 / 64 + 1;
        Directory { slots: Vec::with_capacity(used + 1), used, begun: 0, last: if last.high == 0 { last.low } else { 0 } }
    }

    /// The next node, in order, and its place.
    fn insert(&mut self, id: NodeId, place: usize) {
        let (filter, bits) = self.filter_of(id);
        let slot = self.slot_of(id);
        if self.slots.len() <= filter.max(slot) {
            self.slots.resize(if id.high == 0 { self.used + 1 } else { filter.max(slot) + 1 }, Slot::default());
        }
        self.slots[filter].filter |= bits;
        while self.begun <= slot {
            self.slots[self.begun].start = place as u32;
            self.begun += 1;
        }
    }

    fn finish(&mut self, nodes: usize) {
        self.slots.resize(self.used + 1, Slot::default());
        self.slots[self.begun..].iter_mut().for_each(|slot| slot.start = nodes as u32);
    }

    fn prefetch(&self, id: NodeId) {
        prefetch(&self.slots[self.filter_of(id).0]);
    }

    fn may_contain(&self, id: NodeId) -> bool {
        let (slot, bits) = self.filter_of(id);
        // Both at once: a branch for the first alone would be a guess.
        self.slots[slot].filter & bits == bits
    }

    /// The places among which the node is if it is anywhere.
    fn range(&self, id: NodeId) -> Range<usize> {
        let slot = self.slot_of(id);
        self.slots[slot].start as usize..self.slots[slot + 1].start as usize
    }

    /// Never less for a greater id.
    fn slot_of(&self, id: NodeId) -> usize {
        let used = self.used as u128;
        if self.last == 0 {
            return ((u128::from(id.high) * used) >> 64) as usize;
        }
        let low = if id.high > 0 { self.last } else { id.low.min(self.last) };
        (u128::from(low) * used / (u128::from(self.last) + 1)) as usize
    }

    /// For hashes the slot where they lie; numbers that follow one another would fill some filters only, and are mixed.
    fn filter_of(&self, id: NodeId) -> (usize, u64) {
        let hash = id.mixed();
        let even = if id.high == 0 { hash << 12 } else { id.high };
        let slot = ((u128::from(even) * self.used as u128) >> 64) as usize;
        (slot, 1 << (hash >> 59) | 1 << 32 << (hash >> 54 & 31))
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Symbol;
    use weir_model::mutation::{Payload, Tag};

    use super::*;

    #[test]
    fn every_node_is_found_and_no_other() {
        let hash = NodeId::spread;
        let number = |n: u64| NodeId::new(0, n * 3);
        let far_apart = |n: u64| NodeId::new(0, if n < 900 { n } else { n << 40 });
        let both = |n: u64| NodeId::new(if n < 500 { 0 } else { n << 50 }, n);
        let same_high = |n: u64| NodeId::new((7 << 60) | (n / 300), n);
        for scheme in [&hash as &dyn Fn(u64) -> NodeId, &number, &far_apart, &both, &same_high] {
            for count in [0, 1, 2, 7, 1000] {
                let mut ids: Vec<NodeId> = (0..count).map(scheme).collect();
                ids.sort_unstable();
                let at = |tick| Antichain::from_elem(tick);
                let last = ids.last().copied().unwrap_or(NodeId::new(0, 0));
                let fresh = Segment { times: vec![1], ..Segment::default() };
                let mut writer = Writer::new((at(0), at(2), at(0)), (ids.len(), last), fresh);
                for id in &ids {
                    let payload = Payload { a: id.high, b: id.low };
                    writer.fresh.facts.push(Fact { tag: Tag::new(Kind::Out, Symbol(1)), when: 1, payload });
                    writer.finish_node(*id, false);
                }
                let batch = writer.finish();
                let others = (count..count + 3000).map(scheme).chain([NodeId::new(0, 0), NodeId::new(u64::MAX, u64::MAX)]);
                let asked: Vec<NodeId> = ids.iter().copied().chain(others).collect();
                let expected: Vec<Option<usize>> = asked.iter().map(|id| ids.binary_search(id).ok()).collect();
                let single: Vec<Option<usize>> = asked.iter().map(|id| batch.index_of(*id)).collect();
                assert_eq!(single, expected, "{count} nodes");
                let mut together = vec![None; asked.len()];
                let (open, mut hits) = (Vec::from_iter(0..asked.len() as u32), Vec::new());
                batch.locate(&asked, &open, &mut hits);
                hits.iter().for_each(|hit| together[hit.index as usize] = Some(hit.place as usize));
                assert_eq!(together, expected, "{count} nodes");
                let facts = |id: &NodeId| batch.index_of(*id).map(|index| batch.node(index).1[0].payload.as_node());
                assert!(ids.iter().all(|id| facts(id) == Some(*id)));
            }
        }
    }
}
