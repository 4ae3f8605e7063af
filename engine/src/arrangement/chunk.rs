//! Chunk: some nodes of a run with their versions, as bytes and read back. Self-contained:
//!
//!     nodes u32 | facts u32 | arena u32 | times u32 | ids 16 n | ends 4 n | facts 24 f | arena a | times 8 t
//!
//! Ids ascend. The versions of a node lie by tag, then fact key, then tick.

use std::ops::Range;
use std::sync::Arc;

use weir_model::codec::payload_in_range;
use weir_model::mutation::{Payload, Tag};
use weir_model::{NodeId, Tick};

use super::segment::{Fact, Segment};

/// A chunk ends with the node that takes it over this.
pub const CHUNK_BYTES: usize = 1 << 20;

const HEAD_BYTES: usize = 16;

pub fn encode(ids: &[NodeId], ends: &[u32], segment: &Segment) -> Vec<u8> {
    let Segment { facts, arena, times } = segment;
    let length = ids.len() * 20 + size_of_val(&facts[..]) + arena.len() + times.len() * 8;
    let mut bytes = Vec::with_capacity(HEAD_BYTES + length);
    for count in [ids.len(), facts.len(), arena.len(), times.len()] {
        bytes.extend_from_slice(&(count as u32).to_le_bytes());
    }
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
    ends.iter().for_each(|end| bytes.extend_from_slice(&end.to_le_bytes()));
    for fact in facts {
        let mut packed = [0; size_of::<Fact>()];
        packed[..4].copy_from_slice(&fact.tag.0.to_le_bytes());
        packed[4..8].copy_from_slice(&fact.when.to_le_bytes());
        packed[8..16].copy_from_slice(&fact.payload.a.to_le_bytes());
        packed[16..].copy_from_slice(&fact.payload.b.to_le_bytes());
        bytes.extend_from_slice(&packed);
    }
    bytes.extend_from_slice(arena);
    times.iter().for_each(|time| bytes.extend_from_slice(&time.to_le_bytes()));
    bytes
}

/// The first node of a chunk, without reading the rest.
pub fn first_id(bytes: &[u8]) -> Option<NodeId> {
    bytes.get(HEAD_BYTES..)?.first_chunk().map(|id| NodeId::from_bytes(*id))
}

/// A chunk that was read back. It has at least one node.
#[derive(Debug)]
pub struct Chunk {
    ids: Vec<NodeId>,
    /// Where the facts of each node end.
    ends: Vec<u32>,
    segment: Arc<Segment>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Times {
    Kept,
    /// All versions become as old as the last one could be: which came when can no longer be asked.
    One,
}

impl Chunk {
    /// Reads a chunk of a run that ends before `upper`. None when the bytes are not one: every index and every offset is
    /// checked.
    pub fn read(bytes: &[u8], upper: Tick, keep: Times) -> Option<Chunk> {
        let mut rest = bytes;
        let mut counts = [0usize; 4];
        for count in &mut counts {
            *count = u32::from_le_bytes(take(&mut rest)?) as usize;
        }
        let [nodes, facts, arena, times] = counts;
        if rest.len() != nodes * 20 + facts * size_of::<Fact>() + arena + times * 8 {
            return None;
        }
        let mut ids = Vec::with_capacity(nodes);
        for _ in 0..nodes {
            ids.push(NodeId::from_bytes(take(&mut rest)?));
        }
        let mut ends = Vec::with_capacity(nodes);
        for _ in 0..nodes {
            ends.push(u32::from_le_bytes(take(&mut rest)?));
        }
        let mut segment = Segment::with_capacity(facts, arena);
        let kept = if keep == Times::Kept { u32::MAX } else { 1 };
        for _ in 0..facts {
            let (tag, when) = (Tag(u32::from_le_bytes(take(&mut rest)?)), u32::from_le_bytes(take(&mut rest)?));
            let payload = Payload { a: u64::from_le_bytes(take(&mut rest)?), b: u64::from_le_bytes(take(&mut rest)?) };
            if (when >> 1) as usize >= times || !payload_in_range(tag, payload, arena) {
                return None;
            }
            segment.facts.push(Fact { tag, when: when & kept, payload });
        }
        let (text, mut rest) = rest.split_at(arena);
        segment.arena.extend_from_slice(text);
        let mut until = None;
        for _ in 0..times {
            let time = u64::from_le_bytes(take(&mut rest)?);
            if Some(time) <= until || time >= upper.0 {
                return None;
            }
            until = Some(time);
            if keep == Times::Kept {
                segment.times.push(time);
            }
        }
        if keep == Times::One {
            segment.times.push(upper.0.saturating_sub(1));
        }
        let ascending = nodes > 0 && ids.is_sorted_by(|a, b| a < b) && ends.is_sorted();
        if !ascending || ends.last().copied().unwrap_or(0) as usize != facts {
            return None;
        }
        Some(Chunk { ids, ends, segment: Arc::new(segment) })
    }

    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Where the versions of the node with this place among the ids lie.
    pub fn range(&self, place: usize) -> Range<usize> {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        start..self.ends[place] as usize
    }

    pub fn facts(&self, place: usize) -> &[Fact] {
        &self.segment.facts[self.range(place)]
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let Segment { facts, arena, times } = &*self.segment;
        self.ids.len() * 20 + size_of_val(&facts[..]) + arena.len() + times.len() * 8
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// A chunk in the making, of versions with their ticks. Nodes come in ascending order.
#[derive(Default)]
pub struct Building {
    ids: Vec<NodeId>,
    ends: Vec<u32>,
    segment: Segment,
    ticks: Vec<u64>,
}

impl Building {
    /// A version of the node at hand: versions come by tag, then fact key, then tick.
    pub fn push(&mut self, fact: &Fact, arena: &[u8], adds: bool, tick: u64) {
        self.segment.copy(&Fact { when: u32::from(adds), ..*fact }, arena, 0);
        self.ticks.push(tick);
    }

    /// Closes what was pushed since the last call as the versions of `id`; nothing if there are none. Gives the chunk when it
    /// is full.
    pub fn finish_node(&mut self, id: NodeId) -> Option<Vec<u8>> {
        let end = self.ticks.len() as u32;
        if self.ends.last().copied().unwrap_or(0) == end {
            return None;
        }
        self.ids.push(id);
        self.ends.push(end);
        let size = size_of_val(&self.segment.facts[..]) + self.segment.arena.len();
        (size >= CHUNK_BYTES).then(|| self.take())
    }

    /// What there is, if anything.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        (!self.ids.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        let Building { ids, ends, mut segment, ticks } = std::mem::take(self);
        segment.times.clone_from(&ticks);
        segment.times.sort_unstable();
        segment.times.dedup();
        for (fact, tick) in segment.facts.iter_mut().zip(ticks) {
            let place = segment.times.binary_search(&tick).unwrap_or_default() as u32;
            fact.when |= place << 1;
        }
        encode(&ids, &ends, &segment)
    }
}
