//! Pages: the graph as the store keeps it, sorted by node.
//!
//! A run covers a stretch of the log. It has the columns of a batch, but holds *versions* rather than differences: what
//! each fact became at which tick, added or removed, without a look at what was there before, so that it can be
//! written from the log alone. `ClearProperties` stays a fact of its own: it ends the properties that older runs hold.
//! Every version is kept, so a run answers for any tick it covers.
//!
//! A chunk of a run is self-contained:
//!
//!     nodes u32 | facts u32 | arena u32 | times u32 | ids 16 n | ends 4 n | facts 24 f | arena a | times 8 t

use std::ops::Range;
use std::sync::Arc;

use timely::progress::Antichain;
use weir_model::codec::{FactKey, fact_key, payload_in_range, relocate};
use weir_model::mutation::{Kind, Payload, Row, Tag};
use weir_model::{NodeId, Tick};

use super::batch::Writer;
use super::build::Shard;
use super::segment::{Fact, Segment};
use super::trace::SharedBatch;
use crate::store::Entry;

/// A chunk ends with the node that takes it over this.
const CHUNK_BYTES: usize = 1 << 20;

/// The versions that a stretch of the log holds, chunk by chunk, in the order of nodes. Nothing but the chunk at hand is
/// copied.
pub fn run(entries: &[Entry]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut stretches = Vec::new();
    let mut times = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let rows = &entry.mutations.rows;
        let mut at = 0;
        for same in rows.chunk_by(|a, b| a.node == b.node) {
            stretches.push(Stretch { node: same[0].node, entry: number as u32, start: at, end: at + same.len() as u32 });
            at += same.len() as u32;
        }
        times.push(Times { first: entry.first.0, before: times.last().map_or(0, Times::end), count: records(rows) });
    }
    stretches.sort_unstable();
    let places = vec![0; times.last().map_or(0, Times::end)];
    let mut writing = Writing { entries, stretches, times, places, at: 0, rows: Vec::new(), order: Vec::new() };
    std::iter::from_fn(move || writing.chunk())
}

fn records(rows: &[Row]) -> usize {
    rows.last().map_or(0, |row| row.record() as usize + 1)
}

/// Rows of one entry that follow one another and concern one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    node: NodeId,
    entry: u32,
    start: u32,
    end: u32,
}

/// The ticks of the records of one entry, among those of all entries of the run.
struct Times {
    first: u64,
    before: usize,
    count: usize,
}

impl Times {
    fn end(&self) -> usize {
        self.before + self.count
    }
}

struct Writing<'a> {
    entries: &'a [Entry],
    stretches: Vec<Stretch>,
    times: Vec<Times>,
    /// The number each record of the run has among the times of the chunk at hand; 0 is none yet.
    places: Vec<u32>,
    /// The next stretch.
    at: usize,
    /// The rows of the node at hand, in order.
    rows: Vec<Versioned<'a>>,
    /// Where they are in `rows`, by tag.
    order: Vec<u64>,
}

/// A row with the arena it points into and the number of its record in the run.
#[derive(Clone, Copy)]
struct Versioned<'a> {
    row: Row,
    arena: &'a [u8],
    record: usize,
}

impl Versioned<'_> {
    fn key(&self) -> FactKey<'_> {
        fact_key(self.row.tag, self.row.payload, self.arena)
    }
}

impl<'a> Writing<'a> {
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut used: Vec<usize> = Vec::new();
        let (mut ids, mut ends, mut piece) = (Vec::new(), Vec::new(), Segment::default());
        let mut records: Vec<usize> = Vec::new();
        while self.at < self.stretches.len() && piece.facts.len() * size_of::<Fact>() + piece.arena.len() < CHUNK_BYTES {
            let node = self.stretches[self.at].node;
            self.gather(node);
            self.push_versions(&mut piece, &mut records);
            ids.push(node);
            ends.push(piece.facts.len() as u32);
        }
        if ids.is_empty() {
            return None;
        }
        for record in &records {
            if self.places[*record] == 0 {
                self.places[*record] = 1;
                used.push(*record);
            }
        }
        used.sort_unstable();
        for (number, record) in used.iter().enumerate() {
            self.places[*record] = number as u32;
        }
        let (nodes, facts, arena) = (ids.len(), piece.facts.len(), piece.arena.len());
        let mut bytes = Vec::with_capacity(16 + nodes * 20 + facts * 24 + arena + used.len() * 8);
        for count in [nodes, facts, arena, used.len()] {
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
        }
        ids.iter().for_each(|id: &NodeId| bytes.extend_from_slice(&id.to_bytes()));
        ends.iter().for_each(|end: &u32| bytes.extend_from_slice(&end.to_le_bytes()));
        for (fact, record) in piece.facts.iter().zip(&records) {
            let mut packed = [0; size_of::<Fact>()];
            packed[..4].copy_from_slice(&fact.tag.0.to_le_bytes());
            packed[4..8].copy_from_slice(&(self.places[*record] << 1 | fact.when).to_le_bytes());
            packed[8..16].copy_from_slice(&fact.payload.a.to_le_bytes());
            packed[16..].copy_from_slice(&fact.payload.b.to_le_bytes());
            bytes.extend_from_slice(&packed);
        }
        bytes.extend_from_slice(&piece.arena);
        for record in used {
            let times = &self.times[self.times.partition_point(|times| times.end() <= record)];
            bytes.extend_from_slice(&(times.first + (record - times.before) as u64).to_le_bytes());
            self.places[record] = 0;
        }
        Some(bytes)
    }

    /// Collects the rows of a node. A ClearProperties also becomes the removal of each property set before it.
    fn gather(&mut self, node: NodeId) {
        self.rows.clear();
        while let Some(stretch) = self.stretches.get(self.at).filter(|stretch| stretch.node == node) {
            self.at += 1;
            let (entry, before): (&'a Entry, usize) =
                (&self.entries[stretch.entry as usize], self.times[stretch.entry as usize].before);
            for row in &entry.mutations.rows[stretch.start as usize..stretch.end as usize] {
                let versioned = Versioned { row: *row, arena: &entry.mutations.arena, record: before + row.record() as usize };
                self.rows.push(versioned);
                if row.tag.kind() == Kind::ClearProperties {
                    self.end_properties(versioned);
                }
            }
        }
    }

    fn end_properties(&mut self, clear: Versioned<'a>) {
        let mut set: Vec<Tag> =
            self.rows.iter().filter(|v| v.row.tag.kind() == Kind::Property && !v.row.removes()).map(|v| v.row.tag).collect();
        set.sort_unstable();
        set.dedup();
        self.rows
            .extend(set.into_iter().map(|tag| Versioned { row: Row { tag, payload: Payload::default(), ..clear.row }, ..clear }));
    }

    /// Appends the versions of the node's facts: of several in one record, the last.
    fn push_versions(&mut self, piece: &mut Segment, records: &mut Vec<usize>) {
        let (rows, order) = (&self.rows, &mut self.order);
        order.clear();
        order.extend(rows.iter().zip(0u64..).map(|(versioned, index)| u64::from(versioned.row.tag.0) << 32 | index));
        order.sort_unstable();
        let at = |place: &u64| &rows[*place as u32 as usize];
        for same_tag in order.chunk_by_mut(|a, b| at(a).row.tag == at(b).row.tag) {
            if same_tag.len() > 1 {
                same_tag.sort_by(|a, b| at(a).key().cmp(&at(b).key()));
            }
            for fact in same_tag.chunk_by(|a, b| at(a).key() == at(b).key()) {
                for record in fact.chunk_by(|a, b| at(a).record == at(b).record) {
                    let Versioned { row, arena, record } = at(&record[record.len() - 1]);
                    let payload = relocate(row.tag, row.payload, arena, &mut piece.arena);
                    piece.facts.push(Fact { tag: row.tag, when: u32::from(!row.removes()), payload });
                    records.push(*record);
                }
            }
        }
    }
}

/// A chunk that was read back.
pub struct Chunk {
    ids: Vec<NodeId>,
    /// Where the facts of each node end.
    ends: Vec<u32>,
    segment: Arc<Segment>,
}

/// Reads a chunk for a graph that begins at `upper`: which of its versions came when can no longer be asked. None when the bytes
/// are not one: every index and every offset is checked.
pub fn read_chunk(bytes: &[u8], upper: Tick) -> Option<Chunk> {
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
    for _ in 0..facts {
        let (tag, when) = (Tag(u32::from_le_bytes(take(&mut rest)?)), u32::from_le_bytes(take(&mut rest)?));
        let payload = Payload { a: u64::from_le_bytes(take(&mut rest)?), b: u64::from_le_bytes(take(&mut rest)?) };
        if (when >> 1) as usize >= times || !payload_in_range(tag, payload, arena) {
            return None;
        }
        segment.facts.push(Fact { tag, when: when & 1, payload });
    }
    let (text, mut rest) = rest.split_at(arena);
    segment.arena.extend_from_slice(text);
    let mut until = None;
    for _ in 0..times {
        let time = Some(u64::from_le_bytes(take(&mut rest)?));
        if time <= until || time >= Some(upper.0) {
            return None;
        }
        until = time;
    }
    segment.times.push(upper.0.saturating_sub(1));
    let ascending = nodes > 0 && ids.is_sorted_by(|a, b| a < b) && ends.is_sorted();
    if !ascending || ends.last().copied().unwrap_or(0) as usize != facts {
        return None;
    }
    Some(Chunk { ids, ends, segment: Arc::new(segment) })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// The newest state of the nodes of one shard, as the batch a graph starts from. `runs` come oldest first, each as its
/// chunks; `upper` is the tick after everything in them. What needs no change stays in its chunk, which shards share.
pub fn newest(runs: &[Vec<Chunk>], shard: Shard, upper: Tick) -> SharedBatch {
    let nodes = runs.iter().flatten().map(|chunk| chunk.ids.len()).sum::<usize>();
    let last = runs.iter().flatten().filter_map(|chunk| chunk.ids.last()).max().copied().unwrap_or(NodeId::new(0, 0));
    let at = |tick| Antichain::from_elem(tick);
    let fresh = Segment { times: vec![upper.0.saturating_sub(1)], ..Segment::default() };
    let mut base = Writer::new((at(0), at(upper.0), at(upper.0 - 1)), (nodes / shard.count + nodes / 8, last), fresh);
    let mut cursors: Vec<Cursor<'_>> = runs.iter().map(|chunks| Cursor::new(chunks, &mut base)).collect();
    let mut here: Vec<(usize, usize, Range<usize>)> = Vec::new();
    while let Some(id) = cursors.iter().filter_map(|cursor| cursor.id).min() {
        here.clear();
        for (run, cursor) in cursors.iter_mut().enumerate().filter(|(_, cursor)| cursor.id == Some(id)) {
            let (chunk, range) = cursor.take();
            here.push((run, chunk, range));
        }
        if id.shard(shard.count) != shard.index {
            continue;
        }
        if let [(run, chunk, range)] = &here[..]
            && let Some(count) = as_it_is(&runs[*run][*chunk].segment, range.clone())
        {
            if count > 0 {
                base.refer(id, cursors[*run].pieces[*chunk], (range.start as u32, count as u32), false);
            }
            continue;
        }
        let of_runs = here.iter().map(|(run, chunk, range)| (*run, &*runs[*run][*chunk].segment, range.clone()));
        push_newest(of_runs, &mut base.fresh);
        base.finish_node(id, false);
    }
    SharedBatch::new(base.finish())
}

/// How many of the versions of a node, which one run alone knows, are the facts it has: all but the mark that it was cleared
/// before. None when some fact was removed or changed.
fn as_it_is(segment: &Segment, range: Range<usize>) -> Option<usize> {
    let versions = &segment.facts[range];
    let facts = match versions.split_last() {
        Some((last, facts)) if last.tag.kind() == Kind::ClearProperties => facts,
        _ => versions,
    };
    let same = |pair: &[Fact]| pair[0].tag == pair[1].tag && segment.key(&pair[0]) == segment.key(&pair[1]);
    (facts.iter().all(Fact::adds) && !facts.windows(2).any(same)).then_some(facts.len())
}

/// The newest version of each fact of a node, given its versions run by run, oldest first.
fn push_newest<'a>(of_runs: impl Iterator<Item = (usize, &'a Segment, Range<usize>)>, fresh: &mut Segment) {
    let mut cleared = None;
    let mut versions: Vec<Version<'_>> = Vec::new();
    for (run, segment, range) in of_runs {
        let facts = &segment.facts[range];
        if facts.last().is_some_and(|fact| fact.tag.kind() == Kind::ClearProperties) {
            cleared = Some(run);
        }
        for group in facts.chunk_by(|a, b| a.tag == b.tag && segment.key(a) == segment.key(b)) {
            let fact = &group[group.len() - 1];
            versions.push(Version { key: segment.key(fact), run, segment, fact });
        }
    }
    versions.sort_by(|a, b| a.fact.tag.cmp(&b.fact.tag).then_with(|| a.key.cmp(&b.key)).then(a.run.cmp(&b.run)));
    for group in versions.chunk_by(|a, b| a.fact.tag == b.fact.tag && a.key == b.key) {
        let Version { run, segment, fact, .. } = group[group.len() - 1];
        let ended = fact.tag.kind() == Kind::Property && cleared.is_some_and(|cleared| cleared > run);
        if fact.adds() && !ended {
            fresh.copy(fact, &segment.arena, 0);
        }
    }
}

struct Version<'a> {
    key: FactKey<'a>,
    run: usize,
    segment: &'a Segment,
    fact: &'a Fact,
}

/// Where the reading of a run stands.
struct Cursor<'a> {
    chunks: &'a [Chunk],
    /// The number of each chunk in the base.
    pieces: Vec<u32>,
    chunk: usize,
    node: usize,
    /// The node it stands on.
    id: Option<NodeId>,
}

impl<'a> Cursor<'a> {
    fn new(chunks: &'a [Chunk], base: &mut Writer) -> Cursor<'a> {
        let pieces = chunks.iter().map(|chunk| base.adopt(chunk.segment.clone(), 0)).collect();
        Cursor { chunks, pieces, chunk: 0, node: 0, id: chunks.first().map(|chunk| chunk.ids[0]) }
    }

    /// The chunk and the facts of the node it stands on; moves to the next.
    fn take(&mut self) -> (usize, Range<usize>) {
        let (number, node) = (self.chunk, self.node);
        let ends = &self.chunks[number].ends;
        let start = if node == 0 { 0 } else { ends[node - 1] as usize };
        let range = start..ends[node] as usize;
        self.node += 1;
        if self.node == ends.len() {
            self.chunk += 1;
            self.node = 0;
        }
        self.id = self.chunks.get(self.chunk).map(|chunk| chunk.ids[self.node]);
        (number, range)
    }
}
