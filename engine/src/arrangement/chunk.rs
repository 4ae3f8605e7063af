//! Chunk: some nodes of a run with their versions, as bytes and read back. Self-contained:
//!
//!     0 u32 | form u32 | nodes u32 | facts u32 | arena u32 | times u32 | first id 16 | body
//!
//! The body, as it is (form 0) or compressed by zstd (form 1), has everything by columns, in which like stands beside like:
//!
//!     ids 16 n | ends 4 n | tags 4 f | whens 4 f | payloads, a 8 f | payloads, b 8 f | arena | times 8 t
//!
//! Ids ascend. The versions of a node lie by tag, then fact key, then tick. Up to format 3 of the directory there was neither a 0, nor a
//! form, nor a first id, and facts were rows of 24 bytes; such chunks are read, too.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use weir_model::codec::payload_in_range;
use weir_model::mutation::{Payload, Tag};
use weir_model::{NodeId, Tick};

use super::segment::{Fact, Segment};
use crate::scheduling::breathe;

/// A chunk ends with the node that takes it over this, before it is compressed.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Six numbers and an id.
const HEAD_BYTES: usize = 40;

const PLAIN: u32 = 0;
const COMPRESSED: u32 = 1;

/// Higher ones take longer and gain little.
const LEVEL: i32 = 1;

/// A block of zstd.
const COMPRESSED_AT_ONCE: usize = 128 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pack {
    /// For checkpoints, which have to keep up with what comes in.
    Plain,
    /// For merges.
    Tight,
}

pub fn encode(ids: &[NodeId], ends: &[u32], segment: &Segment, pack: Pack) -> Vec<u8> {
    let Segment { facts, arena, times, .. } = segment;
    let mut bytes = Vec::with_capacity(HEAD_BYTES + Counts::of(ids, segment).body_bytes());
    for number in [0, PLAIN, ids.len() as u32, facts.len() as u32, arena.len() as u32, times.len() as u32] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&ids.first().copied().unwrap_or(NodeId::new(0, 0)).to_bytes());
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
    ends.iter().for_each(|end| bytes.extend_from_slice(&end.to_le_bytes()));
    facts.iter().for_each(|fact| bytes.extend_from_slice(&fact.tag.0.to_le_bytes()));
    facts.iter().for_each(|fact| bytes.extend_from_slice(&fact.when.to_le_bytes()));
    facts.iter().for_each(|fact| bytes.extend_from_slice(&fact.payload.a.to_le_bytes()));
    facts.iter().for_each(|fact| bytes.extend_from_slice(&fact.payload.b.to_le_bytes()));
    bytes.extend_from_slice(arena);
    times.iter().for_each(|time| bytes.extend_from_slice(&time.to_le_bytes()));
    if pack == Pack::Tight
        && let Ok(compressed) = compress(&bytes[HEAD_BYTES..])
        && HEAD_BYTES + compressed.len() < bytes.len()
    {
        bytes[4..8].copy_from_slice(&COMPRESSED.to_le_bytes());
        bytes.truncate(HEAD_BYTES);
        bytes.extend_from_slice(&compressed);
    }
    bytes
}

/// Piece by piece, since it takes milliseconds.
fn compress(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::with_capacity(body.len() / 2), LEVEL)?;
    encoder.set_pledged_src_size(Some(body.len() as u64))?;
    encoder.include_contentsize(true)?;
    for piece in body.chunks(COMPRESSED_AT_ONCE) {
        encoder.write_all(piece)?;
        breathe();
    }
    encoder.finish()
}

/// What stands before the ids or the body.
struct Head {
    /// None up to format 3.
    form: Option<u32>,
    counts: Counts,
    first: NodeId,
}

struct Counts {
    nodes: usize,
    facts: usize,
    arena: usize,
    times: usize,
}

impl Counts {
    fn of(ids: &[NodeId], Segment { facts, arena, times, .. }: &Segment) -> Counts {
        Counts { nodes: ids.len(), facts: facts.len(), arena: arena.len(), times: times.len() }
    }

    fn body_bytes(&self) -> usize {
        self.nodes * 20 + self.facts * size_of::<Fact>() + self.arena + self.times * 8
    }
}

impl Head {
    /// Takes it off; the ids of an older format stay.
    fn take(bytes: &mut &[u8]) -> Option<Head> {
        let number = |bytes: &mut &[u8]| Some(u32::from_le_bytes(take(bytes)?));
        let mut nodes = number(bytes)?;
        // An older one has at least one node.
        let form = if nodes == 0 { Some(number(bytes)?) } else { None };
        if form.is_some() {
            nodes = number(bytes)?;
        }
        let [facts, arena, times] = [number(bytes)?, number(bytes)?, number(bytes)?].map(|count| count as usize);
        let first = if form.is_some() { take(bytes)? } else { *bytes.first_chunk()? };
        let counts = Counts { nodes: nodes as usize, facts, arena, times };
        Some(Head { form, counts, first: NodeId::from_bytes(first) })
    }
}

/// The first node of a chunk, without reading the rest.
pub fn first_id(mut bytes: &[u8]) -> Option<NodeId> {
    Head::take(&mut bytes).map(|head| head.first)
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
    pub fn read(mut bytes: &[u8], upper: Tick, keep: Times) -> Option<Chunk> {
        let Head { form, counts, first } = Head::take(&mut bytes)?;
        let length = counts.body_bytes();
        let unpacked;
        let mut rest = match form {
            None | Some(PLAIN) => bytes,
            Some(COMPRESSED) if zstd::decompressed_size(bytes) == Some(length as u64) => {
                unpacked = zstd::bulk::decompress(bytes, length).ok()?;
                &unpacked
            }
            Some(_) => return None,
        };
        if rest.len() != length {
            return None;
        }
        let Counts { nodes, facts, arena, times } = counts;
        let ids: Vec<NodeId> = column(&mut rest, nodes).map(NodeId::from_bytes).collect();
        let ends: Vec<u32> = column(&mut rest, nodes).map(u32::from_le_bytes).collect();
        let fact = |(tag, when, a, b): (u32, u32, u64, u64)| {
            let (tag, payload) = (Tag(tag), Payload { a, b });
            let kept = if keep == Times::Kept { when } else { when & 1 };
            let is_one = ((when >> 1) as usize) < times && payload_in_range(tag, payload, arena);
            is_one.then_some(Fact { tag, when: kept, payload })
        };
        let mut segment = Segment::with_capacity(facts, arena);
        if form.is_some() {
            let (tags, whens) =
                (column(&mut rest, facts).map(u32::from_le_bytes), column(&mut rest, facts).map(u32::from_le_bytes));
            let (a, b) = (column(&mut rest, facts).map(u64::from_le_bytes), column(&mut rest, facts).map(u64::from_le_bytes));
            for ((tag, when), (a, b)) in tags.zip(whens).zip(a.zip(b)) {
                segment.facts.push(fact((tag, when, a, b))?);
            }
        } else {
            for row in column::<24>(&mut rest, facts) {
                segment.facts.push(fact(of_row(&row)?)?);
            }
        }
        let (text, mut rest) = rest.split_at(arena);
        segment.arena.extend_from_slice(text);
        let ticks: Vec<u64> = column(&mut rest, times).map(u64::from_le_bytes).collect();
        if !ticks.is_sorted_by(|a, b| a < b) || ticks.last().is_some_and(|last| *last >= upper.0) {
            return None;
        }
        segment.times = if keep == Times::Kept { ticks } else { vec![upper.0.saturating_sub(1)] };
        let ascending = ids.first() == Some(&first) && ids.is_sorted_by(|a, b| a < b) && ends.is_sorted();
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
        let Segment { facts, arena, times, .. } = &*self.segment;
        self.ids.len() * 20 + size_of_val(&facts[..]) + arena.len() + times.len() * 8
    }
}

/// Takes off so many of `N` bytes each. There are as many: the length of the whole is known to be right.
fn column<'a, const N: usize>(bytes: &mut &'a [u8], count: usize) -> impl Iterator<Item = [u8; N]> + use<'a, N> {
    let (column, rest) = bytes.split_at((count * N).min(bytes.len()));
    *bytes = rest;
    column.as_chunks::<N>().0.iter().copied()
}

/// A fact of format 3: tag, when, payload.
fn of_row(mut row: &[u8]) -> Option<(u32, u32, u64, u64)> {
    let (tag, when) = (u32::from_le_bytes(take(&mut row)?), u32::from_le_bytes(take(&mut row)?));
    Some((tag, when, u64::from_le_bytes(take(&mut row)?), u64::from_le_bytes(take(&mut row)?)))
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
        encode(&ids, &ends, &segment, Pack::Tight)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::mutation::Kind;
    use weir_model::{Symbol, Value, codec};

    use super::*;

    const UPPER: Tick = Tick(1000);

    fn nodes() -> (Vec<NodeId>, Vec<u32>, Segment) {
        let mut segment = Segment { times: vec![5, 7, 900], ..Segment::default() };
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        for n in 0..200_u64 {
            ids.push(NodeId::new(n << 40 | 3, n));
            let payload = Payload::node(NodeId::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n));
            segment.facts.push(Fact { tag: Tag::new(Kind::Out, Symbol(2)), when: 1, payload });
            for (key, text) in [(4, "short"), (5, "longer than what fits into a payload")] {
                let payload = codec::encode_payload(&Value::Text(text.into()), &mut segment.arena);
                segment.facts.push(Fact { tag: Tag::new(Kind::Property, Symbol(key)), when: 2 << 1 | 1, payload });
            }
            ends.push(segment.facts.len() as u32);
        }
        (ids, ends, segment)
    }

    /// As weirs wrote them whose directories have format 3.
    fn in_rows(ids: &[NodeId], ends: &[u32], Segment { facts, arena, times, .. }: &Segment) -> Vec<u8> {
        let counts = [ids.len(), facts.len(), arena.len(), times.len()];
        let mut bytes: Vec<u8> = counts.iter().flat_map(|count| (*count as u32).to_le_bytes()).collect();
        bytes.extend(ids.iter().flat_map(|id| id.to_bytes()));
        bytes.extend(ends.iter().flat_map(|end| end.to_le_bytes()));
        for Fact { tag, when, payload } in facts {
            bytes.extend([tag.0.to_le_bytes(), when.to_le_bytes()].concat());
            bytes.extend([payload.a.to_le_bytes(), payload.b.to_le_bytes()].concat());
        }
        bytes.extend(arena);
        bytes.extend(times.iter().flat_map(|time| time.to_le_bytes()));
        bytes
    }

    fn shown(chunk: &Chunk) -> String {
        format!("{:?} {:?} {:?}", chunk.ids, chunk.ends, chunk.segment)
    }

    #[test]
    fn what_was_written_is_read_back_in_either_form() {
        let (ids, ends, segment) = nodes();
        let (packed, rows) = (encode(&ids, &ends, &segment, Pack::Tight), in_rows(&ids, &ends, &segment));
        assert!(packed.len() * 2 < rows.len(), "{} of {}", packed.len(), rows.len());
        let expected = format!("{ids:?} {ends:?} {segment:?}");
        // One node alone is too little to be compressed.
        let id = NodeId::new(0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210);
        let fact = Fact { payload: Payload::node(id), ..segment.facts[0] };
        let one = Segment { facts: vec![fact], times: vec![5], ..Segment::default() };
        let small = encode(&[id], &[1], &one, Pack::Tight);
        let plain = encode(&ids, &ends, &segment, Pack::Plain);
        assert_eq!((&small[4..8], &plain[4..8]), (&PLAIN.to_le_bytes()[..], &PLAIN.to_le_bytes()[..]));
        let read = |bytes: &[u8]| Chunk::read(bytes, UPPER, Times::Kept).expect("a chunk");
        assert_eq!([&packed, &plain, &rows].map(|bytes| shown(&read(bytes))), [&expected; 3].map(String::clone));
        assert_eq!(shown(&read(&small)), format!("{:?} {:?} {one:?}", [id], [1]));
        assert_eq!([&packed, &plain, &rows, &small].map(|bytes| first_id(bytes)), [ids[0], ids[0], ids[0], id].map(Some));
        for bytes in [&packed, &plain, &rows] {
            let one = Chunk::read(bytes, UPPER, Times::One).expect("a chunk");
            assert!(one.segment.times == [999] && one.segment.facts.iter().all(|fact| fact.when == 1));
            assert!(Chunk::read(bytes, Tick(900), Times::Kept).is_none(), "a tick after the end of the run");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let (ids, ends, segment) = nodes();
        let packed = [Pack::Tight, Pack::Plain].map(|pack| encode(&ids, &ends, &segment, pack));
        for bytes in packed.into_iter().chain([in_rows(&ids, &ends, &segment)]) {
            assert!((0..bytes.len()).step_by(7).all(|end| Chunk::read(&bytes[..end], UPPER, Times::Kept).is_none()));
            // A changed byte may be one of a text; what is read then is a chunk all the same.
            for at in 0..bytes.len().min(4000) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x81;
                if let Some(chunk) = Chunk::read(&changed, UPPER, Times::Kept) {
                    let count: usize = (0..chunk.ids().len()).map(|place| chunk.facts(place).len()).sum();
                    assert_eq!(count, chunk.segment.facts.len());
                }
            }
        }
    }
}
