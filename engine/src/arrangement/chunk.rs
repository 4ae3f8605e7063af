//! Chunk: some nodes of a run with their versions, as bytes and read back.
//!
//!     0 u32 | form u32 | nodes u32 | facts u32 | arena u32 | times u32 | first id 16 | body
//!
//! The body (form 2) is in two parts, of which the second is packed by zstd where that makes it smaller:
//!
//!     lengths of the five that follow, but for the last, u32 each
//!     names: stream, columns | facts: stream as it was, as it is here, columns          see `columns`
//!
//! In the part of a run with the newest versions, the other ends of edges are numbers. What ids they are say the chunks of that
//! part together, so a chunk has to be *named* before its edges can be read. Ids ascend. The versions of a node lie by tag, then
//! fact key, then tick.
//!
//! In format 4 of the directory the body, as it is (form 0) or compressed by zstd (form 1), had columns of whole values,
//!
//!     ids 16 n | ends 4 n | tags 4 f | whens 4 f | payloads, a 8 f | payloads, b 8 f | arena | times 8 t
//!
//! and up to format 3 there was neither a 0, nor a form, nor a first id, and facts were rows of 24 bytes. Such chunks are read,
//! too.

use std::cell::RefCell;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use weir_model::codec::{extent, payload_in_range};
use weir_model::mutation::{Kind, Payload, Tag};
use weir_model::{NodeId, Tick};

use super::bundle::Packer;
use super::columns::{Names, number_of, put_facts, put_names, take_facts, take_names};
use super::numbering::{NOBODY, Numbering};
use super::packing::{Packed, Unpacking};
use super::prefetch::prefetch;
use super::segment::{Fact, Segment};
use super::versions::split_marks;
use crate::scheduling::breathe;

/// A chunk ends with the node that takes it over this, before it is written. What a node was at a moment is read from a whole
/// chunk of each run.
pub const CHUNK_BYTES: usize = 1 << 18;

/// As `CHUNK_BYTES`, for young runs, of which there are several, and for older versions, which nobody reads but for the sake of
/// single nodes.
pub const SMALL_CHUNK_BYTES: usize = 1 << 17;

/// As `CHUNK_BYTES`, in chunks of older weirs, which are still read.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Six numbers and an id.
const HEAD_BYTES: usize = 40;

/// The lengths of the parts of a body.
const LENGTHS_BYTES: usize = 16;

const PLAIN: u32 = 0;
const COMPRESSED: u32 = 1;
const PACKED: u32 = 2;

/// Higher ones take longer and gain little.
const LEVEL: i32 = 1;

/// A block of zstd.
const COMPRESSED_AT_ONCE: usize = 128 << 10;

/// The ids that numbers stand for are fetched this many facts ahead: they lie all over memory.
const AHEAD: usize = 32;

/// Facts of a chunk without its last node, at most: what claims to have more is no chunk.
const FACTS_MAX: usize = 2 * CHUNK_BYTES_MAX / size_of::<Fact>();
/// Facts of the last node for each byte of the body, at most.
const FACTS_PER_BYTE_MAX: usize = 8;

/// What a fact has in the arena besides its value: id, ordinal, key.
const ARENA_PER_FACT: usize = 24;

thread_local! {
    /// Each is made once: that takes as long as a small chunk does.
    static PACKER: RefCell<zstd::bulk::Compressor<'static>> = RefCell::default();
    static UNPACKER: RefCell<zstd::bulk::Decompressor<'static>> = RefCell::default();
}

/// What is long piece by piece, since it takes milliseconds.
fn compress(body: &[u8]) -> io::Result<Vec<u8>> {
    if body.len() <= COMPRESSED_AT_ONCE {
        return PACKER.with_borrow_mut(|packer| {
            packer.set_compression_level(LEVEL)?;
            packer.compress(body)
        });
    }
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

/// What there is, as the head says.
#[derive(Clone, Copy)]
pub struct Counts {
    pub nodes: usize,
    pub facts: usize,
    pub arena: usize,
    pub times: usize,
}

impl Counts {
    /// The bytes of a body up to format 4.
    fn body_bytes(&self) -> usize {
        self.nodes * 20 + self.facts * size_of::<Fact>() + self.arena + self.times * 8
    }

    /// Whether a body of this many bytes can have as many.
    fn can_be(&self, bytes: usize) -> bool {
        (1..=self.facts).contains(&self.nodes)
            && self.times <= self.facts
            && self.facts <= FACTS_MAX.saturating_add(bytes.saturating_mul(FACTS_PER_BYTE_MAX))
            && self.arena <= bytes.saturating_add(self.facts.saturating_mul(ARENA_PER_FACT))
    }
}

impl Head {
    /// Takes a head off the bytes; the ids of an older format stay.
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

/// Nodes with their versions; at least one.
#[derive(Clone, Debug)]
pub struct Chunk {
    ids: Vec<NodeId>,
    /// Where the facts of each node end.
    ends: Vec<u32>,
    segment: Arc<Segment>,
    /// The numbers of the nodes in their run. Where there are any, the other ends of edges are numbers, too.
    numbers: Vec<u32>,
    /// Facts whose other ends are ids nevertheless.
    named: Vec<u32>,
}

impl Chunk {
    pub fn new(ids: Vec<NodeId>, ends: Vec<u32>, segment: Segment) -> Chunk {
        Chunk { ids, ends, segment: Arc::new(segment), numbers: Vec::new(), named: Vec::new() }
    }

    /// The bytes of a chunk that is named. One that is written with a numbering is not named when it is read back. None where it
    /// is too large for what stands before the body: what was cut off there could not be read back. A node is in one chunk,
    /// however much it was.
    pub fn write(&self, numbering: Option<&mut Numbering>) -> Option<Vec<u8>> {
        self.write_within(u32::MAX, numbering)
    }

    /// As `write`, where no number may be larger than `most`.
    fn write_within(&self, most: u32, mut numbering: Option<&mut Numbering>) -> Option<Vec<u8>> {
        let Segment { facts, times, .. } = &*self.segment;
        let fits = |number: usize| u32::try_from(number).ok().filter(|number| *number <= most);
        // First: where facts are more than that, their ends are wrong.
        let [nodes, facts, times] = [fits(self.ids.len())?, fits(facts.len())?, fits(times.len())?];
        let (names, numbered) = put_names(&self.ids, numbering.as_deref_mut());
        breathe();
        let numbering = numbering.filter(|_| numbered);
        let (Packed { stream, bits }, arena) = put_facts(&self.ends, &self.segment, numbering);
        breathe();
        let arena = fits(arena)?;
        let packed = compress(&stream).ok().filter(|packed| packed.len() < stream.len());
        let kept = packed.as_ref().unwrap_or(&stream);
        let lengths = [fits(names.stream.len())?, fits(names.bits.len())?, fits(stream.len())?, fits(kept.len())?];
        let length = names.stream.len() + names.bits.len() + kept.len() + bits.len();
        let mut bytes = Vec::with_capacity(HEAD_BYTES + LENGTHS_BYTES + length);
        [0, PACKED, nodes, facts, arena, times].iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&self.ids[0].to_bytes());
        lengths.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        [&names.stream, &names.bits, kept, &bits].into_iter().for_each(|part| bytes.extend_from_slice(part));
        Some(bytes)
    }

    /// Reads a chunk of a run that ends before `upper`. None when the bytes are not one: every index and every offset is
    /// checked.
    pub fn read(mut bytes: &[u8], upper: Tick) -> Option<Chunk> {
        let head = Head::take(&mut bytes)?;
        let chunk = match head.form {
            Some(PACKED) => Chunk::unpack(bytes, &head, upper)?,
            _ => Chunk::of_values(bytes, &head, upper)?,
        };
        let ascending = chunk.ids.first() == Some(&head.first) && chunk.ids.is_sorted_by(|a, b| a < b) && chunk.ends.is_sorted();
        if !ascending || chunk.ends.last().copied().unwrap_or(0) as usize != head.counts.facts {
            return None;
        }
        Some(chunk)
    }

    /// What the present needs of it: which version came when can no longer be asked, and properties that came together become
    /// bundles. The time of all of them is to be set.
    pub fn settle(&mut self) {
        // Nobody else has it, or another one is made.
        let segment = Arc::make_mut(&mut self.segment);
        segment.facts.iter_mut().for_each(|fact| fact.when &= 1);
        segment.times.clear();
        if segment.facts.iter().all(|fact| fact.tag.kind() != Kind::Property) {
            return segment.shrink();
        }
        let Segment { facts, arena, .. } = &*self.segment;
        let mut packer = Packer::default();
        let mut bundled = Segment::with_capacity(facts.len(), arena.len());
        let mut named = self.named.iter_mut().peekable();
        let mut start = 0;
        for end in &mut self.ends {
            let (versions, marks) = split_marks(&facts[start..*end as usize]);
            let begun = bundled.facts.len();
            // Edges stand before properties, and stay as many.
            while let Some(at) = named.next_if(|at| **at < *end) {
                *at = (begun + *at as usize - start) as u32;
            }
            bundled.extend(versions.iter().copied(), arena);
            // Of one with several versions, which of them holds is decided later.
            if versions.is_sorted_by(|a, b| a.tag < b.tag || b.tag.kind() != Kind::Property) {
                packer.pack(&mut bundled, begun);
            }
            bundled.facts.extend_from_slice(marks);
            start = *end as usize;
            *end = bundled.facts.len() as u32;
        }
        bundled.shrink();
        self.segment = Arc::new(bundled);
    }

    /// All that is settled became so before `upper`.
    pub fn set_time(&mut self, upper: Tick) {
        Arc::make_mut(&mut self.segment).times = vec![upper.0.saturating_sub(1)];
    }

    fn unpack(bytes: &[u8], Head { counts, first, .. }: &Head, upper: Tick) -> Option<Chunk> {
        let body = Body::take(bytes)?;
        let unpacked;
        let stream = if body.facts.len() == body.unpacked {
            body.facts
        } else {
            unpacked = UNPACKER.with_borrow_mut(|unpacker| unpacker.decompress(body.facts, body.unpacked)).ok()?;
            &unpacked[..]
        };
        if !counts.can_be(stream.len() + body.columns.len()) {
            return None;
        }
        let Names { ids, numbers } = body.names(*first, counts.nodes)?;
        let reading = Unpacking { stream, bits: body.columns };
        let read = take_facts(reading, *counts, !numbers.is_empty(), upper)?;
        Some(Chunk { ids, ends: read.ends, segment: Arc::new(read.segment), numbers, named: read.named })
    }

    /// The nodes of a chunk without their facts; none of an older format.
    pub fn read_names(mut bytes: &[u8]) -> Option<Chunk> {
        let Head { form, counts, first } = Head::take(&mut bytes)?;
        if form != Some(PACKED) {
            return None;
        }
        let body = Body::take(bytes)?;
        if !counts.can_be(body.unpacked + body.columns.len()) {
            return None;
        }
        let Names { ids, numbers } = body.names(first, counts.nodes)?;
        let ends = vec![0; ids.len()];
        Some(Chunk { ids, ends, segment: Arc::default(), numbers, named: Vec::new() })
    }

    /// Reads a body as it was up to format 4.
    fn of_values(bytes: &[u8], Head { form, counts, .. }: &Head, upper: Tick) -> Option<Chunk> {
        let length = counts.body_bytes();
        let unpacked;
        let mut rest = match *form {
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
        let Counts { nodes, facts, arena, times } = *counts;
        let ids: Vec<NodeId> = column(&mut rest, nodes).map(NodeId::from_bytes).collect();
        let ends: Vec<u32> = column(&mut rest, nodes).map(u32::from_le_bytes).collect();
        let fact = |(tag, when, a, b): (u32, u32, u64, u64)| {
            let (tag, payload) = (Tag(tag), Payload { a, b });
            let is_one = ((when >> 1) as usize) < times && payload_in_range(tag, payload, arena);
            is_one.then_some(Fact { tag, when, payload })
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
        segment.times = column(&mut rest, times).map(u64::from_le_bytes).collect();
        if !segment.times.is_sorted_by(|a, b| a < b) || segment.times.last().is_some_and(|last| *last >= upper.0) {
            return None;
        }
        Some(Chunk::new(ids, ends, segment))
    }

    /// Puts ids in place of numbers: those of the run, by number. None when one of them is nobody's.
    pub fn name(&mut self, names: &[NodeId]) -> Option<()> {
        if self.is_named() {
            return Some(());
        }
        self.numbers = Vec::new();
        let mut known = std::mem::take(&mut self.named).into_iter().peekable();
        let Segment { facts, arena, .. } = Arc::get_mut(&mut self.segment)?;
        for at in 0..facts.len() {
            let ahead = facts.get(at + AHEAD).filter(|fact| is_half(fact.tag));
            let ahead = ahead.and_then(|fact| names.get(number_of(fact.payload.as_node())? as usize));
            ahead.inspect(|id| prefetch(*id));
            let fact = &mut facts[at];
            if !fact.tag.kind().has_end() || known.next_if(|named| *named == at as u32).is_some() {
                continue;
            }
            let number = number_of(end(fact, arena))?;
            let id = *names.get(number as usize).filter(|id| **id != NOBODY)?;
            set_end(fact, arena, id);
        }
        Some(())
    }

    /// One node of it as a chunk that is named. `name` gives the id of a number.
    pub fn node_named<E>(&self, place: usize, mut name: impl FnMut(u32) -> Result<NodeId, E>) -> Result<Chunk, E> {
        let range = self.range(place);
        let facts = &self.segment.facts[range.clone()];
        let mut times: Vec<u64> = facts.iter().map(|fact| self.segment.time(fact)).collect();
        times.sort_unstable();
        times.dedup();
        let at = |fact: &Fact| fact.at(times.binary_search(&self.segment.time(fact)).unwrap_or_default() as u32);
        let mut segment = Segment::default();
        segment.extend(facts.iter().map(at), &self.segment.arena);
        let Segment { facts, arena, .. } = &mut segment;
        for (fact, at) in facts.iter_mut().zip(range).filter(|(fact, _)| fact.tag.kind().has_end()) {
            if let Some(number) = self.number_at(at, end(fact, arena)) {
                let id = name(number)?;
                set_end(fact, arena, id);
            }
        }
        segment.times = times;
        Ok(Chunk::new(vec![self.ids[place]], vec![segment.facts.len() as u32], segment))
    }

    fn number_at(&self, fact: usize, end: NodeId) -> Option<u32> {
        let is_id = self.is_named() || self.named.binary_search(&(fact as u32)).is_ok();
        number_of(end).filter(|_| !is_id)
    }

    /// The numbers that other ends of edges have.
    pub fn ends_numbered(&self) -> impl Iterator<Item = u32> {
        let facts = self.segment.facts.iter().enumerate().filter(|(_, fact)| !self.is_named() && fact.tag.kind().has_end());
        facts.filter_map(|(at, fact)| self.number_at(at, end(fact, &self.segment.arena)))
    }

    /// Whether other ends of edges are ids.
    pub fn is_named(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers of the nodes: as many as there are ids, or none at all.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
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

    /// The versions of the node with this place one by one, those in its bundle too.
    pub fn one_by_one(&self, place: usize) -> impl Iterator<Item = Fact> {
        let (versions, marks) = split_marks(self.facts(place));
        self.segment.one_by_one(versions).chain(marks.iter().copied())
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let Segment { facts, arena, times, .. } = &*self.segment;
        self.ids.len() * 20
            + size_of_val(&facts[..])
            + arena.len()
            + times.len() * 8
            + (self.numbers.len() + self.named.len()) * 4
    }
}

/// Half an edge without an ordinal: the payload is the other end.
fn is_half(tag: Tag) -> bool {
    matches!(tag.kind(), Kind::Out | Kind::In)
}

/// The other end of an edge. In an arena it stands first.
fn end(fact: &Fact, arena: &[u8]) -> NodeId {
    let bytes = extent(fact.tag, fact.payload).and_then(|extent| arena.get(extent)?.first_chunk());
    bytes.map_or(fact.payload.as_node(), |id| NodeId::from_bytes(*id))
}

fn set_end(fact: &mut Fact, arena: &mut [u8], id: NodeId) {
    match extent(fact.tag, fact.payload).and_then(|extent| arena.get_mut(extent)?.first_chunk_mut()) {
        Some(bytes) => *bytes = id.to_bytes(),
        None => fact.payload = Payload::node(id),
    }
}

/// The parts of a body.
struct Body<'a> {
    names: Unpacking<'a>,
    /// How long the stream of facts is that lies here as `facts`.
    unpacked: usize,
    facts: &'a [u8],
    columns: &'a [u8],
}

impl<'a> Body<'a> {
    fn take(mut bytes: &'a [u8]) -> Option<Body<'a>> {
        let mut length = || Some(u32::from_le_bytes(take(&mut bytes)?) as usize);
        let [stream, bits, unpacked, packed] = [length()?, length()?, length()?, length()?];
        let (stream, bytes) = bytes.split_at_checked(stream)?;
        let (bits, bytes) = bytes.split_at_checked(bits)?;
        let (facts, columns) = bytes.split_at_checked(packed)?;
        if packed != unpacked && zstd::decompressed_size(facts) != Some(unpacked as u64) {
            return None;
        }
        Some(Body { names: Unpacking { stream, bits }, unpacked, facts, columns })
    }

    fn names(&self, first: NodeId, count: usize) -> Option<Names> {
        let mut reading = self.names;
        take_names(&mut reading, first, count).filter(|_| reading.ended())
    }
}

/// Takes off `count` items of `N` bytes each. There are as many: the length of the whole is known to be right.
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
pub struct Building {
    /// The chunk is full at this many bytes.
    full: usize,
    ids: Vec<NodeId>,
    ends: Vec<u32>,
    segment: Segment,
    ticks: Vec<u64>,
}

impl Building {
    pub fn new(full: usize) -> Building {
        Building { full, ids: Vec::new(), ends: Vec::new(), segment: Segment::default(), ticks: Vec::new() }
    }

    /// A version of the node at hand: versions come by tag, then fact key, then tick.
    pub fn push(&mut self, fact: &Fact, arena: &[u8], adds: bool, tick: u64) {
        self.segment.copy(&Fact { when: u32::from(adds), ..*fact }, arena, 0);
        self.ticks.push(tick);
    }

    /// Closes what was pushed since the last call as the versions of `id`; nothing if there are none. Gives the chunk when it
    /// is full.
    pub fn finish_node(&mut self, id: NodeId) -> Option<Chunk> {
        let end = self.ticks.len() as u32;
        if self.ends.last().copied().unwrap_or(0) == end {
            return None;
        }
        self.ids.push(id);
        self.ends.push(end);
        let size = size_of_val(&self.segment.facts[..]) + self.segment.arena.len();
        (size >= self.full).then(|| self.take())
    }

    /// What there is, if anything.
    pub fn finish(&mut self) -> Option<Chunk> {
        (!self.ids.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Chunk {
        let Building { ids, ends, mut segment, ticks, .. } = std::mem::replace(self, Building::new(self.full));
        segment.times.clone_from(&ticks);
        segment.times.sort_unstable();
        segment.times.dedup();
        for (fact, tick) in segment.facts.iter_mut().zip(ticks) {
            let place = segment.times.binary_search(&tick).unwrap_or_default() as u32;
            fact.when |= place << 1;
        }
        Chunk::new(ids, ends, segment)
    }
}

#[cfg(test)]
mod tests {
    use weir_model::mutation::Kind;
    use weir_model::{Symbol, Value, codec};

    use super::super::bundle::BUNDLE;
    use super::*;

    const UPPER: Tick = Tick(1000);

    fn nodes() -> (Vec<NodeId>, Vec<u32>, Segment) {
        let mut segment = Segment { times: vec![5, 7, 900], ..Segment::default() };
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        for n in 0..200_u64 {
            ids.push(NodeId::new(n << 40 | 3, n));
            let payload = Payload::node(NodeId::spread(n));
            segment.facts.push(Fact { tag: Tag::new(Kind::Out, Symbol(2)), when: 1, payload });
            for (key, text) in [(4, "short"), (5, "longer than what fits into a payload")] {
                let payload = codec::encode_payload(&Value::Text(text.into()), &mut segment.arena);
                segment.facts.push(Fact { tag: Tag::new(Kind::Property, Symbol(key)), when: 2 << 1 | 1, payload });
            }
            ends.push(segment.facts.len() as u32);
        }
        (ids, ends, segment)
    }

    /// As weirs wrote them whose directories have format 4.
    fn of_format_4(ids: &[NodeId], ends: &[u32], Segment { facts, arena, times, .. }: &Segment, form: u32) -> Vec<u8> {
        let numbers = [0, form, ids.len() as u32, facts.len() as u32, arena.len() as u32, times.len() as u32];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.extend(ids[0].to_bytes());
        let mut body: Vec<u8> = ids.iter().flat_map(|id| id.to_bytes()).collect();
        body.extend(ends.iter().flat_map(|end| end.to_le_bytes()));
        body.extend(facts.iter().flat_map(|fact| fact.tag.0.to_le_bytes()));
        body.extend(facts.iter().flat_map(|fact| fact.when.to_le_bytes()));
        body.extend(facts.iter().flat_map(|fact| fact.payload.a.to_le_bytes()));
        body.extend(facts.iter().flat_map(|fact| fact.payload.b.to_le_bytes()));
        body.extend(arena);
        body.extend(times.iter().flat_map(|time| time.to_le_bytes()));
        bytes.extend(if form == COMPRESSED { zstd::bulk::compress(&body, LEVEL).expect("compressed") } else { body });
        bytes
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

    fn old_forms((ids, ends, segment): &(Vec<NodeId>, Vec<u32>, Segment)) -> [Vec<u8>; 3] {
        let new = |form| of_format_4(ids, ends, segment, form);
        [new(PLAIN), new(COMPRESSED), in_rows(ids, ends, segment)]
    }

    fn chunk() -> Chunk {
        let (ids, ends, segment) = nodes();
        Chunk::new(ids, ends, segment)
    }

    fn read(bytes: &[u8]) -> Chunk {
        Chunk::read(bytes, UPPER).expect("a chunk")
    }

    fn written(chunk: &Chunk, numbering: Option<&mut Numbering>) -> Vec<u8> {
        chunk.write(numbering).expect("it fits")
    }

    #[test]
    fn what_is_too_large_for_its_head_is_not_written() {
        let chunk = chunk();
        let bytes = written(&chunk, None);
        let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a number"));
        // Nodes, facts, arena and times, and behind the first id the lengths of the body.
        let most = (8..HEAD_BYTES - 16).chain(HEAD_BYTES..HEAD_BYTES + LENGTHS_BYTES).step_by(4).map(number).max();
        let most = most.expect("there are some");
        assert!(chunk.write_within(most, None).is_some_and(|within| within == bytes));
        for less in (0..most).step_by(7).chain([most - 1]) {
            assert!(chunk.write_within(less, None).is_none(), "{less} of {most}");
        }
    }

    #[test]
    fn what_was_written_is_read_back_in_each_form() {
        let chunk = chunk();
        let mut numbering = Numbering::new(chunk.ids.clone());
        let (packed, numbered) = (written(&chunk, None), written(&chunk, Some(&mut numbering)));
        let [plain, compressed, rows] = old_forms(&nodes());
        assert!(packed.len() * 4 < rows.len(), "{} of {}", packed.len(), rows.len());
        let expected = shown(&chunk);
        assert_eq!([&packed, &plain, &compressed, &rows].map(|bytes| shown(&read(bytes))), [&expected; 4].map(String::clone));
        // Each has an edge to a node that is not here.
        let mut one = read(&numbered);
        assert_eq!((one.numbers().len(), one.named.len(), one.ends_numbered().count()), (chunk.ids.len(), chunk.ids.len(), 0));
        assert_eq!(one.name(&[]), Some(()));
        assert_eq!(shown(&one), expected);
        for bytes in [&packed, &plain, &compressed, &rows] {
            let mut one = Chunk::read(bytes, UPPER).expect("a chunk");
            one.settle();
            one.set_time(UPPER);
            assert!(one.segment.times == [999] && one.segment.facts.iter().all(|fact| fact.when & !1 == 0));
            assert!(Chunk::read(bytes, Tick(900)).is_none(), "a tick after the end of the run");
        }
    }

    /// Random facts of every kind and form, between nodes of which some are not in the chunk.
    fn random(seed: u64) -> (Chunk, Numbering) {
        let mut seed = seed;
        let mut random = move |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        let small = random(2) == 0;
        let node = |n: u64| if small { NodeId::new(0, n * n) } else { NodeId::spread(n) };
        let mut ids: Vec<NodeId> = (0..1 + random(200)).map(node).collect();
        ids.sort();
        let all = ids.clone();
        ids.retain(|_| random(10) > 0);
        if ids.is_empty() {
            ids.push(all[0]);
        }
        let mut building = Building::new(CHUNK_BYTES);
        for id in &ids {
            let mut versions = Vec::new();
            for _ in 0..1 + random(12) {
                let mut arena = Vec::new();
                let end = node(random(220));
                let value = match random(12) {
                    0 => Value::Null,
                    1 => Value::Boolean(random(2) == 0),
                    2 => Value::Integer(random(1000) as i64 - 500),
                    3 => Value::Integer(random(u64::MAX) as i64),
                    4 => Value::Float(random(10_000) as f64 / 100.0),
                    5 => Value::Float(f64::from_bits(random(u64::MAX))),
                    6 => Value::Float(-0.0),
                    7 => Value::Text(format!("t{}", random(5)).into()),
                    8 => Value::Text(format!("{}", random(1 << 40)).into()),
                    9 => Value::Text("longer than what fits".repeat(1 + random(3) as usize).into()),
                    10 => Value::Text("".into()),
                    _ => Value::list(vec![Value::Integer(1), Value::Null]),
                };
                let (kind, payload) = match random(8) {
                    0 => (Kind::Label, Payload::default()),
                    1 => (Kind::Out, Payload::node(end)),
                    2 => (Kind::In, Payload::node(end)),
                    3 => (Kind::OutParallel, codec::encode_parallel(end, random(3) as u32 + 1, &mut arena)),
                    4 => (Kind::EdgeProperty, codec::encode_edge_property(end, 0, Symbol(3), &value, &mut arena)),
                    5 => (Kind::ClearProperties, Payload::default()),
                    _ => (Kind::Property, codec::encode_payload(&value, &mut arena)),
                };
                let fact = Fact { tag: Tag::new(kind, Symbol(random(4) as u32)), when: 0, payload };
                versions.push((fact, arena, random(3) > 0, 100 + random(50) * random(2)));
            }
            versions.sort_by_key(|(fact, ..)| fact.tag);
            versions.iter().for_each(|(fact, arena, adds, tick)| building.push(fact, arena, *adds, *tick));
            assert!(building.finish_node(*id).is_none());
        }
        (building.finish().expect("a chunk"), Numbering::new(all))
    }

    #[test]
    fn facts_of_every_kind_are_read_back() {
        let mut bundles = 0;
        for seed in 1..500 {
            let (chunk, mut numbering) = random(seed * 0x9E37_79B9);
            let all = numbering.ids().to_vec();
            let expected = shown(&chunk);
            assert_eq!(shown(&read(&written(&chunk, None))), expected, "seed {seed}");
            let bytes = written(&chunk, Some(&mut numbering));
            let unnamed = read(&bytes);
            let names = Chunk::read_names(&bytes).expect("names");
            assert_eq!((names.ids(), names.numbers()), (unnamed.ids(), unnamed.numbers()));
            assert!(unnamed.ids().iter().zip(unnamed.numbers()).all(|(id, number)| all[*number as usize] == *id));
            let strays = numbering.strays();
            assert!(
                unnamed
                    .ends_numbered()
                    .all(|number| unnamed.numbers().contains(&number) || strays.contains(&(number, all[number as usize])))
            );
            for place in 0..chunk.ids.len() {
                let one = unnamed.node_named(place, |number| Ok::<_, ()>(all[number as usize])).expect("a node");
                let key = |from: &Chunk, fact: &Fact| {
                    format!("{:?} {:?} {} {}", fact.tag, from.segment.key(fact), from.segment.time(fact), fact.adds())
                };
                let facts: Vec<String> = one.facts(0).iter().map(|fact| key(&one, fact)).collect();
                assert_eq!(facts, chunk.facts(place).iter().map(|fact| key(&chunk, fact)).collect::<Vec<_>>());
            }
            let (mut named, mut settled) = (unnamed.clone(), unnamed.clone());
            settled.settle();
            assert!(named.clone().name(&[]).is_none() || unnamed.ends_numbered().count() == 0);
            drop(unnamed);
            named.name(&all).expect("each has a name");
            assert_eq!(shown(&named), expected, "seed {seed}");
            settled.set_time(UPPER);
            settled.name(&all).expect("each has a name");
            let one_by_one = |chunk: &Chunk, place| {
                let fact = |fact: Fact| (fact.tag, fact.adds(), chunk.segment.key(&fact), value(chunk, &fact));
                format!("{:?}", chunk.one_by_one(place).map(fact).collect::<Vec<_>>())
            };
            for place in 0..named.ids.len() {
                assert_eq!(one_by_one(&settled, place), one_by_one(&named, place), "seed {seed}");
            }
            bundles += settled.segment.facts.iter().filter(|fact| fact.tag == BUNDLE).count();
        }
        assert!(bundles > 1_000, "{bundles}");
    }

    fn value(chunk: &Chunk, fact: &Fact) -> String {
        match fact.tag.kind() {
            Kind::Property => format!("{:?}", codec::decode_payload(fact.payload, &chunk.segment.arena)),
            _ => String::new(),
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let (other, mut numbering) = random(9);
        let numbered = written(&chunk(), Some(&mut Numbering::new(nodes().0)));
        let packed = [written(&chunk(), None), numbered, written(&other, Some(&mut numbering))];
        for bytes in packed.into_iter().chain(old_forms(&nodes())) {
            assert!((0..bytes.len()).step_by(7).all(|end| Chunk::read(&bytes[..end], UPPER).is_none()));
            // A changed byte may be one of a text; what is read then is a chunk all the same.
            for at in 0..bytes.len().min(4000) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x81;
                Chunk::read_names(&changed);
                if let Some(chunk) = Chunk::read(&changed, UPPER) {
                    let count: usize = (0..chunk.ids().len()).map(|place| chunk.facts(place).len()).sum();
                    assert_eq!(count, chunk.segment.facts.len());
                    chunk
                        .segment
                        .facts
                        .iter()
                        .for_each(|fact| assert!(payload_in_range(fact.tag, fact.payload, chunk.segment.arena.len())));
                    chunk.ends_numbered().for_each(drop);
                }
            }
        }
    }
}
