//! Batch: a sorted, immutable set of updates of the graph: an index of nodes over segments of facts.
//!
//!     ids       the nodes, ascending                                     16 bytes each
//!     places    which piece, where its facts begin, how many             12 bytes each
//!     pieces    the segments referred to, shared with other batches
//!     filter    two bits a node in one 64-bit word: most misses cost one cache line
//!
//! Merging leaves the facts of most nodes where they are and writes an index anew (see docs/decisions/0009).
//!
//! Updates are exact differences: a fact is added only where it is absent and removed only where it is present, and a
//! property that changes is a removal of the old value and an addition of the new one at the same tick. So along time
//! the updates of one fact key alternate, the last one at or before a tick tells what holds then, and merging needs
//! no comparison of values.

use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use timely::progress::Antichain;
use weir_model::{NodeId, Symbol};

use super::estimate::Sample;
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
    filter: Filter,
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
    /// And did when a batch referred to it first.
    pub whole: usize,
}

/// Where the facts of a node lie.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The number of the piece; the highest bit is set when some fact has more than one update.
    piece: u32,
    pub start: u32,
    pub count: u32,
}

const REPEATS: u32 = 1 << 31;

impl Place {
    pub fn piece(&self) -> usize {
        (self.piece & !REPEATS) as usize
    }

    /// Whether merging could find that updates have cancelled out.
    pub fn repeats(&self) -> bool {
        self.piece & REPEATS != 0
    }

    pub fn range(&self) -> std::ops::Range<usize> {
        self.start as usize..(self.start + self.count) as usize
    }
}

/// A batch in the making. Nodes come in ascending order, their facts either in `fresh` or in a segment that is there already.
#[derive(Debug)]
pub struct Writer {
    /// Its first piece is what becomes of `fresh`.
    batch: Batch,
    pub fresh: Segment,
    /// How many facts of `fresh` belong to finished nodes.
    finished: usize,
}

impl Writer {
    /// `nodes` is about how many will come: the filter has room for so many.
    pub fn new(lower: Antichain<u64>, upper: Antichain<u64>, since: Antichain<u64>, nodes: usize, fresh: Segment) -> Writer {
        let batch = Batch {
            lower,
            upper,
            since,
            ids: Vec::with_capacity(nodes),
            places: Vec::with_capacity(nodes),
            pieces: vec![Piece { segment: Arc::default(), live: 0, whole: 0 }],
            facts: 0,
            filter: Filter::with_capacity(nodes),
            sample: OnceLock::new(),
            labels: OnceLock::new(),
        };
        Writer { batch, fresh, finished: 0 }
    }

    /// Takes in a segment that is there already, and says its number. `whole` is that of the piece it comes from; 0 if it is
    /// referred to for the first time.
    pub fn adopt(&mut self, segment: Arc<Segment>, whole: usize) -> u32 {
        self.batch.pieces.push(Piece { segment, live: 0, whole });
        self.batch.pieces.len() as u32 - 1
    }

    /// The next node, whose facts lie in an adopted segment, none of them twice.
    pub fn refer(&mut self, id: NodeId, piece: u32, start: u32, count: u32) {
        self.push(id, Place { piece, start, count });
    }

    /// Closes the facts pushed to `fresh` since the last call as those of `id`. Nothing if there are none.
    pub fn finish_node(&mut self, id: NodeId) {
        let (start, end) = (self.finished, self.fresh.facts.len());
        if start == end {
            return;
        }
        self.finished = end;
        let same = |pair: &[Fact]| self.fresh.compare(&pair[0], &self.fresh, &pair[1]).is_eq();
        let repeats = self.fresh.facts[start..].windows(2).any(|pair| pair[0].tag == pair[1].tag && same(pair));
        let piece = if repeats { REPEATS } else { 0 };
        self.push(id, Place { piece, start: start as u32, count: (end - start) as u32 });
    }

    fn push(&mut self, id: NodeId, place: Place) {
        let batch = &mut self.batch;
        debug_assert!(batch.ids.last().is_none_or(|last| *last < id));
        batch.filter.insert(id);
        batch.ids.push(id);
        batch.places.push(place);
        batch.pieces[place.piece()].live += place.count as usize;
        batch.facts += place.count as usize;
    }

    pub fn nodes(&self) -> usize {
        self.batch.ids.len()
    }

    pub fn finish(self) -> Batch {
        let Writer { mut batch, mut fresh, .. } = self;
        fresh.shrink();
        batch.pieces[0].segment = Arc::new(fresh);
        batch.pieces.iter_mut().filter(|piece| piece.whole == 0).for_each(|piece| piece.whole = piece.live);
        shrink(&mut batch.ids);
        shrink(&mut batch.places);
        batch
    }
}

impl Batch {
    pub fn empty(lower: Antichain<u64>, upper: Antichain<u64>) -> Batch {
        Writer::new(lower, upper, Antichain::from_elem(0), 0, Segment::default()).finish()
    }

    /// The facts of the node at this index, and what they point into.
    pub fn node(&self, index: usize) -> (&Segment, &[Fact]) {
        let place = &self.places[index];
        let segment = &*self.pieces[place.piece()].segment;
        (segment, &segment.facts[place.range()])
    }

    pub fn place(&self, index: usize) -> Place {
        self.places[index]
    }

    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The facts of a node.
    pub fn find(&self, id: NodeId) -> Option<(&Segment, &[Fact])> {
        self.index_of(id).map(|index| self.node(index))
    }

    /// Where a node stands: filter, then interpolation, because ids are hashes and lie evenly.
    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        if self.filter.may_contain(id) { self.position(id) } else { None }
    }

    /// Looks up many nodes, given in ascending order: says where each lies that is here.
    pub fn locate(&self, ids: &[NodeId], scratch: &mut Vec<u32>, mut found: impl FnMut(usize, usize)) {
        // In two passes, so that the processor waits for many words of the filter at a time.
        scratch.clear();
        scratch.extend((0..ids.len() as u32).filter(|index| self.filter.may_contain(ids[*index as usize])));
        for index in scratch.iter() {
            if let Some(position) = self.position(ids[*index as usize]) {
                found(*index as usize, position);
            }
        }
    }

    fn position(&self, id: NodeId) -> Option<usize> {
        let n = self.ids.len();
        let guess = ((u128::from(id.high) * n as u128) >> 64) as usize;
        let (mut low, mut high) = (guess.saturating_sub(1), (guess + 1).min(n));
        let mut width = 4;
        while low > 0 && self.ids[low] > id {
            low = low.saturating_sub(width);
            width *= 2;
        }
        width = 4;
        while high < n && self.ids[high - 1] < id {
            high = (high + width).min(n);
            width *= 2;
        }
        self.ids[low..high].binary_search(&id).ok().map(|index| low + index)
    }

    /// The first node at or after `id`.
    pub fn lower_bound(&self, id: NodeId) -> usize {
        self.ids.partition_point(|other| *other < id)
    }

    /// About how many facts the nodes in a range of places have: a few of them tell.
    pub fn about_facts(&self, range: std::ops::Range<usize>) -> usize {
        const LOOKED_AT: usize = 64;
        let places = self.places.get(range).unwrap_or_default();
        let step = places.len().div_ceil(LOOKED_AT).max(1);
        places.iter().step_by(step).map(|place| place.count as usize).sum::<usize>() * step
    }

    pub fn len(&self) -> usize {
        self.facts
    }

    pub fn is_empty(&self) -> bool {
        self.facts == 0
    }
}

/// Says "not here" for most nodes that are not: two bits a node, both in one word, twelve bits of space a node.
#[derive(Debug)]
struct Filter {
    words: Vec<u64>,
}

impl Filter {
    fn with_capacity(nodes: usize) -> Filter {
        Filter { words: vec![0; nodes * 12 / 64 + 1] }
    }

    fn insert(&mut self, id: NodeId) {
        let (word, bits) = self.place(id);
        self.words[word] |= bits;
    }

    fn may_contain(&self, id: NodeId) -> bool {
        let (word, bits) = self.place(id);
        self.words[word] & bits == bits
    }

    /// Ids are hashes, so their high bits choose the word: neighbours in a batch are neighbours here, and a merge fills the
    /// filter from front to back. The ids of the `long` scheme are small numbers and have to be mixed.
    fn place(&self, id: NodeId) -> (usize, u64) {
        let hash = (id.high ^ id.low).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let even = if id.high == 0 { hash << 12 } else { id.high };
        let word = ((u128::from(even) * self.words.len() as u128) >> 64) as usize;
        (word, 1 << (hash >> 58) | 1 << (hash >> 52 & 63))
    }
}
