//! Batch: a sorted, immutable set of updates of the graph, in columns of our own.
//!
//!     ids      the nodes, ascending              16 bytes each
//!     ends     where each node's facts end        4 bytes each
//!     facts    tag | when | payload              24 bytes each, by tag, then fact key, then time, removals first
//!     arena    what does not fit a payload
//!     times    the ticks that `when` points at, ascending; a single one once the batch is compacted
//!     filter   two bits a node in one 64-bit word: most misses cost one cache line
//!
//! Updates are exact differences: a fact is added only where it is absent and removed only where it is present, and a
//! property that changes is a removal of the old value and an addition of the new one at the same tick. So along time
//! the updates of one fact key alternate, the last one at or before a tick tells what holds then, and merging needs
//! no comparison of values.

use std::cmp::Ordering;
use std::ops::Range;

use timely::progress::Antichain;
use weir_model::NodeId;
use weir_model::codec::{FactKey, fact_key};
use weir_model::mutation::{Payload, Tag};

/// One update of one fact of a node.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fact {
    pub tag: Tag,
    /// Index into `Batch::times`, shifted left once; the low bit is set when the fact is added.
    pub when: u32,
    pub payload: Payload,
}

impl Fact {
    pub fn adds(&self) -> bool {
        self.when & 1 == 1
    }

    pub fn time_index(&self) -> usize {
        (self.when >> 1) as usize
    }
}

#[derive(Debug)]
pub struct Batch {
    /// Ticks covered: from `lower`, below `upper`. Times in the batch may have been advanced to `since`.
    pub lower: Antichain<u64>,
    pub upper: Antichain<u64>,
    pub since: Antichain<u64>,
    pub ids: Vec<NodeId>,
    pub ends: Vec<u32>,
    pub facts: Vec<Fact>,
    pub arena: Vec<u8>,
    pub times: Vec<u64>,
    filter: Filter,
}

impl Batch {
    pub fn empty(lower: Antichain<u64>, upper: Antichain<u64>) -> Batch {
        Batch::with_capacity(lower, upper, Antichain::from_elem(0), 0, 0, 0)
    }

    pub fn with_capacity(
        lower: Antichain<u64>,
        upper: Antichain<u64>,
        since: Antichain<u64>,
        nodes: usize,
        facts: usize,
        arena: usize,
    ) -> Batch {
        Batch {
            lower,
            upper,
            since,
            ids: Vec::with_capacity(nodes),
            ends: Vec::with_capacity(nodes),
            facts: Vec::with_capacity(facts),
            arena: Vec::with_capacity(arena),
            times: Vec::new(),
            filter: Filter::with_capacity(nodes),
        }
    }

    /// Closes the facts pushed since the last call as those of `id`. Ids come in ascending order.
    pub fn finish_node(&mut self, id: NodeId) {
        debug_assert!(self.ids.last().is_none_or(|last| *last < id));
        self.filter.insert(id);
        self.ids.push(id);
        self.ends.push(self.facts.len() as u32);
    }

    /// Takes over the nodes of facts that are there already, ascending, with where the facts of each end.
    pub fn adopt(&mut self, ids: Vec<NodeId>, ends: Vec<u32>) {
        ids.iter().for_each(|id| self.filter.insert(*id));
        (self.ids, self.ends) = (ids, ends);
    }

    /// How many facts belong to finished nodes.
    pub fn finished(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    pub fn facts_at(&self, index: usize) -> &[Fact] {
        &self.facts[self.range_at(index)]
    }

    /// Where the facts of a node lie.
    pub fn range_at(&self, index: usize) -> Range<usize> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        start..self.ends[index] as usize
    }

    pub fn time(&self, fact: &Fact) -> u64 {
        self.times[fact.time_index()]
    }

    /// Whether every update in this batch happened at or before `tick`.
    pub fn all_until(&self, tick: u64) -> bool {
        self.times.last().is_none_or(|last| *last <= tick)
    }

    /// Whether every update in this batch happened after `tick`.
    pub fn none_until(&self, tick: u64) -> bool {
        self.times.first().is_none_or(|first| *first > tick)
    }

    /// The facts of a node.
    pub fn find(&self, id: NodeId) -> Option<&[Fact]> {
        self.index_of(id).map(|index| self.facts_at(index))
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

    pub fn key(&self, fact: &Fact) -> FactKey<'_> {
        fact_key(fact.tag, fact.payload, &self.arena)
    }

    /// The order of facts within a node, time and sign aside, of two facts of two batches.
    pub fn compare(&self, fact: &Fact, other_batch: &Batch, other: &Fact) -> Ordering {
        fact.tag.cmp(&other.tag).then_with(|| self.key(fact).cmp(&other_batch.key(other)))
    }

    pub fn len(&self) -> usize {
        self.facts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Gives back what a merge reserved and did not use, where that is worth the copy.
    pub fn shrink(&mut self) {
        fn column<T>(column: &mut Vec<T>) {
            if column.len() < column.capacity() / 4 * 3 {
                column.shrink_to_fit();
            }
        }
        column(&mut self.ids);
        column(&mut self.ends);
        column(&mut self.facts);
        column(&mut self.arena);
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
