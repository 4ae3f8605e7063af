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

use timely::progress::Antichain;
use weir_model::codec::{FactKey, fact_key, payload_in_range, relocate};
use weir_model::mutation::{Kind, Payload, Row, Tag};
use weir_model::{NodeId, Tick};

use super::batch::{Batch, Fact};
use super::build::Shard;
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
        let mut piece = Batch::empty(Antichain::new(), Antichain::new());
        let mut records: Vec<usize> = Vec::new();
        while self.at < self.stretches.len() && piece.facts.len() * size_of::<Fact>() + piece.arena.len() < CHUNK_BYTES {
            let node = self.stretches[self.at].node;
            self.gather(node);
            self.push_versions(&mut piece, &mut records);
            piece.ids.push(node);
            piece.ends.push(piece.facts.len() as u32);
        }
        if piece.ids.is_empty() {
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
        let (nodes, facts, arena) = (piece.ids.len(), piece.facts.len(), piece.arena.len());
        let mut bytes = Vec::with_capacity(16 + nodes * 20 + facts * 24 + arena + used.len() * 8);
        for count in [nodes, facts, arena, used.len()] {
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
        }
        piece.ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
        piece.ends.iter().for_each(|end| bytes.extend_from_slice(&end.to_le_bytes()));
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
    fn push_versions(&mut self, piece: &mut Batch, records: &mut Vec<usize>) {
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

/// Reads a chunk. None when the bytes are not one: every index and every offset is checked.
pub fn read_chunk(bytes: &[u8]) -> Option<Batch> {
    let mut rest = bytes;
    let mut counts = [0usize; 4];
    for count in &mut counts {
        *count = u32::from_le_bytes(take(&mut rest)?) as usize;
    }
    let [nodes, facts, arena, times] = counts;
    if rest.len() != nodes * 20 + facts * size_of::<Fact>() + arena + times * 8 {
        return None;
    }
    let bound = Antichain::from_elem(0);
    let mut batch = Batch::with_capacity(bound.clone(), bound.clone(), bound, nodes, facts, arena);
    let mut ids = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        ids.push(NodeId::from_bytes(take(&mut rest)?));
    }
    let mut ends = Vec::with_capacity(nodes);
    for _ in 0..nodes {
        ends.push(u32::from_le_bytes(take(&mut rest)?));
    }
    for _ in 0..facts {
        let (tag, when) = (Tag(u32::from_le_bytes(take(&mut rest)?)), u32::from_le_bytes(take(&mut rest)?));
        let payload = Payload { a: u64::from_le_bytes(take(&mut rest)?), b: u64::from_le_bytes(take(&mut rest)?) };
        if (when >> 1) as usize >= times || !payload_in_range(tag, payload, arena) {
            return None;
        }
        batch.facts.push(Fact { tag, when, payload });
    }
    let (text, mut rest) = rest.split_at(arena);
    batch.arena.extend_from_slice(text);
    for _ in 0..times {
        batch.times.push(u64::from_le_bytes(take(&mut rest)?));
    }
    let ascending = ids.is_sorted_by(|a, b| a < b) && ends.is_sorted() && batch.times.is_sorted_by(|a, b| a < b);
    if !ascending || ends.last().copied().unwrap_or(0) as usize != facts {
        return None;
    }
    batch.adopt(ids, ends);
    Some(batch)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// The newest state of the nodes of one shard, as the batch a graph starts from. `runs` come oldest first, each as its
/// chunks; `upper` is the tick after everything in them.
pub fn newest(runs: &[Vec<Batch>], shard: Shard, upper: Tick) -> SharedBatch {
    let facts = runs.iter().flatten().map(|chunk| chunk.len()).sum::<usize>() / shard.count;
    let at = |tick| Antichain::from_elem(tick);
    let mut base = Batch::with_capacity(at(0), at(upper.0), at(upper.0 - 1), facts / 4 + 1, facts, facts * 8);
    base.times = vec![upper.0.saturating_sub(1)];
    let mut cursors: Vec<Cursor<'_>> = runs.iter().map(|chunks| Cursor { chunks, chunk: 0, node: 0 }).collect();
    let mut versions: Vec<Version<'_>> = Vec::new();
    while let Some(id) = cursors.iter().filter_map(Cursor::id).min() {
        versions.clear();
        let mut cleared = None;
        let here = id.shard(shard.count) == shard.index;
        for (run, cursor) in cursors.iter_mut().enumerate() {
            if cursor.id() != Some(id) {
                continue;
            }
            let (chunk, facts) = cursor.take();
            if !here {
                continue;
            }
            if facts.last().is_some_and(|fact| fact.tag.kind() == Kind::ClearProperties) {
                cleared = Some(run);
            }
            for group in facts.chunk_by(|a, b| a.tag == b.tag && chunk.key(a) == chunk.key(b)) {
                let fact = &group[group.len() - 1];
                versions.push(Version { tag: fact.tag, key: chunk.key(fact), run, chunk, fact });
            }
        }
        versions.sort_by(|a, b| a.tag.cmp(&b.tag).then_with(|| a.key.cmp(&b.key)).then(a.run.cmp(&b.run)));
        for group in versions.chunk_by(|a, b| a.tag == b.tag && a.key == b.key) {
            let newest = &group[group.len() - 1];
            let ended = newest.tag.kind() == Kind::Property && cleared.is_some_and(|run| run > newest.run);
            if newest.fact.adds() && !ended {
                let payload = relocate(newest.tag, newest.fact.payload, &newest.chunk.arena, &mut base.arena);
                base.facts.push(Fact { tag: newest.tag, when: 1, payload });
            }
        }
        if base.facts.len() > base.finished() {
            base.finish_node(id);
        }
    }
    base.shrink();
    SharedBatch::new(base)
}

struct Version<'a> {
    tag: Tag,
    key: FactKey<'a>,
    run: usize,
    chunk: &'a Batch,
    fact: &'a Fact,
}

struct Cursor<'a> {
    chunks: &'a [Batch],
    chunk: usize,
    node: usize,
}

impl<'a> Cursor<'a> {
    fn id(&self) -> Option<NodeId> {
        self.chunks.get(self.chunk).map(|chunk| chunk.ids[self.node])
    }

    /// The facts of the node it stands on; moves to the next.
    fn take(&mut self) -> (&'a Batch, &'a [Fact]) {
        let chunk = &self.chunks[self.chunk];
        let facts = chunk.facts_at(self.node);
        self.node += 1;
        if self.node == chunk.ids.len() {
            self.chunk += 1;
            self.node = 0;
        }
        (chunk, facts)
    }
}
