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
use weir_model::codec::{FactKey, payload_in_range, relocate};
use weir_model::mutation::{Kind, Mutations, Payload, Row, Tag};
use weir_model::{NodeId, Tick};

use super::batch::{Batch, Fact};
use super::build::Shard;
use super::trace::SharedBatch;
use crate::store::Entry;

/// A chunk ends with the node that takes it over this.
const CHUNK_BYTES: usize = 1 << 20;

/// The versions that a stretch of the log holds.
pub fn build_run(entries: &[Entry]) -> Batch {
    let facts: usize = entries.iter().map(|entry| entry.mutations.rows.len()).sum();
    let mut all = Mutations::default();
    all.rows.reserve(facts);
    let mut times = Vec::new();
    for entry in entries {
        let Mutations { rows, arena, .. } = &*entry.mutations;
        let before = times.len() as u32;
        let records = rows.last().map_or(0, |row| u64::from(row.record()) + 1);
        times.extend((0..records).map(|record| entry.first.0 + record));
        let offset = all.arena.len() as u64;
        all.arena.extend_from_slice(arena);
        all.rows.extend(rows.iter().map(|row| Row {
            when: row.when + (before << 1),
            payload: weir_model::codec::shift(row.tag, row.payload, offset),
            ..*row
        }));
    }
    let mut order: Vec<(u64, u32)> = all.rows.iter().enumerate().map(|(index, row)| (row.node.high, index as u32)).collect();
    order.sort_unstable();
    let (lower, upper) = match (entries.first(), entries.last()) {
        (Some(first), Some(last)) => (first.first.0, last.upper.0),
        _ => (0, 0),
    };
    let at = |tick| Antichain::from_elem(tick);
    let mut batch = Batch::with_capacity(at(lower), at(upper), at(0), order.len() / 4 + 1, order.len(), all.arena.len());
    batch.times = times;
    let mut group: Vec<(u32, Row)> = Vec::new();
    for same_high in order.chunk_by(|a, b| a.0 == b.0) {
        group.clear();
        group.extend(same_high.iter().map(|(_, index)| (*index, all.rows[*index as usize])));
        group.sort_by_key(|(index, row)| (row.node, *index));
        for node in group.chunk_by(|(_, a), (_, b)| a.node == b.node) {
            push_versions(node, &all.arena, &mut batch);
        }
    }
    batch
}

/// Appends the versions of one node's facts.
fn push_versions(rows: &[(u32, Row)], arena: &[u8], batch: &mut Batch) {
    let mut expanded: Vec<(u32, Row)> = Vec::with_capacity(rows.len());
    let mut set: Vec<Tag> = Vec::new();
    for (index, row) in rows {
        expanded.push((*index, *row));
        match row.tag.kind() {
            Kind::ClearProperties => {
                expanded.extend(set.drain(..).map(|tag| (*index, Row { tag, payload: Payload::default(), ..*row })));
            }
            Kind::Property if !row.removes() && !set.contains(&row.tag) => set.push(row.tag),
            _ => {}
        }
    }
    let key = |row: &Row| weir_model::codec::fact_key(row.tag, row.payload, arena);
    expanded.sort_by(|(x, a), (y, b)| a.tag.cmp(&b.tag).then_with(|| key(a).cmp(&key(b))).then(x.cmp(y)));
    for fact in expanded.chunk_by(|(_, a), (_, b)| a.tag == b.tag && key(a) == key(b)) {
        for record in fact.chunk_by(|(_, a), (_, b)| a.record() == b.record()) {
            let (_, row) = record[record.len() - 1];
            let payload = relocate(row.tag, row.payload, arena, &mut batch.arena);
            batch.facts.push(Fact { tag: row.tag, when: row.record() << 1 | u32::from(!row.removes()), payload });
        }
    }
    batch.finish_node(rows[0].1.node);
}

/// A run cut into chunks, in the order of nodes.
pub fn chunks(run: &Batch) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut from = 0;
    // The number each time of the run has in the chunk at hand; 0 is none yet.
    let mut places = vec![0u32; run.times.len()];
    std::iter::from_fn(move || {
        if from >= run.ids.len() {
            return None;
        }
        let mut piece = Batch::empty(run.lower.clone(), run.upper.clone());
        let mut used: Vec<u32> = Vec::new();
        let mut to = from;
        while to < run.ids.len() && piece.facts.len() * size_of::<Fact>() + piece.arena.len() < CHUNK_BYTES {
            for fact in run.facts_at(to) {
                let place = &mut places[fact.time_index()];
                if *place == 0 {
                    *place = 1;
                    used.push(fact.time_index() as u32);
                }
                let payload = relocate(fact.tag, fact.payload, &run.arena, &mut piece.arena);
                piece.facts.push(Fact { payload, ..*fact });
            }
            piece.ends.push(piece.facts.len() as u32);
            to += 1;
        }
        used.sort_unstable();
        for (number, time) in used.iter().enumerate() {
            places[*time as usize] = number as u32;
        }
        let mut bytes = Vec::with_capacity(16 + (to - from) * 20 + piece.facts.len() * 24 + piece.arena.len() + used.len() * 8);
        for count in [to - from, piece.facts.len(), piece.arena.len(), used.len()] {
            bytes.extend_from_slice(&(count as u32).to_le_bytes());
        }
        run.ids[from..to].iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
        piece.ends.iter().for_each(|end| bytes.extend_from_slice(&end.to_le_bytes()));
        for fact in &piece.facts {
            let mut packed = [0; size_of::<Fact>()];
            packed[..4].copy_from_slice(&fact.tag.0.to_le_bytes());
            packed[4..8].copy_from_slice(&(places[fact.time_index()] << 1 | (fact.when & 1)).to_le_bytes());
            packed[8..16].copy_from_slice(&fact.payload.a.to_le_bytes());
            packed[16..].copy_from_slice(&fact.payload.b.to_le_bytes());
            bytes.extend_from_slice(&packed);
        }
        bytes.extend_from_slice(&piece.arena);
        for time in &used {
            bytes.extend_from_slice(&run.times[*time as usize].to_le_bytes());
            places[*time as usize] = 0;
        }
        from = to;
        Some(bytes)
    })
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
