//! Pages: the graph as the store keeps it, sorted by node.
//!
//! A run covers a stretch of the log. It has the columns of a batch, but holds *versions* rather than differences: what
//! each fact became at which tick, added or removed, without a look at what was there before, so that it can be
//! written from the log alone. `ClearProperties` stays a fact of its own: it ends the properties that older runs hold.
//! Every version is kept, so a run answers for any tick it covers.
//!
//! Here runs are made out of entries of the log, and the batch a graph starts from out of runs.

use std::ops::Range;

use smallvec::SmallVec;
use timely::progress::Antichain;
use weir_model::codec::{FactKey, fact_key, relocate};
use weir_model::mutation::{Kind, Payload, Row, Tag};
use weir_model::{NodeId, Tick};

use super::batch::{Place, Writer};
use super::build::Shard;
use super::chunk::{Chunk, SMALL_CHUNK_BYTES};
use super::prefetch::prefetch_all;
use super::segment::{Fact, Segment};
use super::trace::SharedBatch;
use super::versions::{Asked, Hit, holding, split_marks};
use crate::memory::attend;
use crate::scheduling::{breathe, breathe_after};
use crate::store::Entry;

/// Rows are fetched this many stretches ahead: in the order of nodes they lie all over the log.
const AHEAD: usize = 8;

/// Stretches are sorted in parts, by this many first bits of their nodes: ids are hashes, mostly, so each part is a matter of a
/// fraction of a millisecond.
const BIN_BITS: u32 = 7;

/// The versions that a stretch of the log holds, chunk by chunk, in the order of nodes. Nothing but the chunk at hand is
/// copied.
pub fn run(entries: &[Entry]) -> Writing<'_> {
    let mut bins = vec![Vec::new(); 1 << BIN_BITS];
    let mut times = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let rows = &entry.mutations.rows;
        let mut at = 0;
        for same in rows.chunk_by(|a, b| a.node == b.node) {
            let node = same[0].node;
            let bin = (node.high >> (u64::BITS - BIN_BITS)) as usize;
            bins[bin].push(Stretch { node, entry: number as u32, start: at, end: at + same.len() as u32 });
            at += same.len() as u32;
        }
        times.push(Times { first: entry.first.0, before: times.last().map_or(0, Times::end), count: records(rows) });
        breathe();
    }
    let mut stretches = Vec::with_capacity(bins.iter().map(Vec::len).sum());
    for mut bin in bins {
        breathe();
        bin.sort_unstable();
        stretches.append(&mut bin);
    }
    let places = vec![0; times.last().map_or(0, Times::end)];
    Writing { entries, stretches, times, places, at: 0, rows: Vec::new(), order: Vec::new() }
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

/// A run in the making.
pub struct Writing<'a> {
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
    fn key(&self) -> FactKey {
        fact_key(self.row.tag, self.row.payload, self.arena)
    }
}

impl Iterator for Writing<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        self.chunk()
    }
}

impl<'a> Writing<'a> {
    /// All nodes that are to come.
    pub fn ids(&self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self.stretches[self.at..].iter().map(|stretch| stretch.node).collect();
        ids.dedup();
        ids
    }

    fn chunk(&mut self) -> Option<Chunk> {
        let mut used: Vec<usize> = Vec::new();
        let (mut ids, mut ends, mut piece) = (Vec::new(), Vec::new(), Segment::default());
        let mut records: Vec<usize> = Vec::new();
        while self.at < self.stretches.len() && piece.facts.len() * size_of::<Fact>() + piece.arena.len() < SMALL_CHUNK_BYTES {
            let node = self.stretches[self.at].node;
            self.gather(node);
            self.push_versions(&mut piece, &mut records);
            ids.push(node);
            ends.push(piece.facts.len() as u32);
            breathe_after(ids.len());
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
        for (fact, record) in piece.facts.iter_mut().zip(&records) {
            fact.when |= self.places[*record] << 1;
        }
        piece.times.extend(used.iter().map(|record| {
            let times = &self.times[self.times.partition_point(|times| times.end() <= *record)];
            times.first + (record - times.before) as u64
        }));
        used.iter().for_each(|record| self.places[*record] = 0);
        Some(Chunk::new(ids, ends, piece))
    }

    /// Collects the rows of a node. A ClearProperties also becomes the removal of each property set before it.
    fn gather(&mut self, node: NodeId) {
        self.rows.clear();
        // What came before the last of them has its removals already: looked at again for each, it would be quadratic.
        let mut since_clear = 0;
        while let Some(stretch) = self.stretches.get(self.at).filter(|stretch| stretch.node == node) {
            self.at += 1;
            if let Some(ahead) = self.stretches.get(self.at + AHEAD) {
                prefetch_all(&self.entries[ahead.entry as usize].mutations.rows[ahead.start as usize..ahead.end as usize]);
            }
            let (entry, before): (&'a Entry, usize) =
                (&self.entries[stretch.entry as usize], self.times[stretch.entry as usize].before);
            for row in &entry.mutations.rows[stretch.start as usize..stretch.end as usize] {
                let versioned = Versioned { row: *row, arena: &entry.mutations.arena, record: before + row.record() as usize };
                self.rows.push(versioned);
                if row.tag.kind() == Kind::ClearProperties {
                    self.end_properties(versioned, since_clear);
                    since_clear = self.rows.len();
                }
            }
        }
    }

    /// Of the properties that rows from this place on have set.
    fn end_properties(&mut self, clear: Versioned<'a>, from: usize) {
        let sets = |v: &&Versioned<'_>| v.row.tag.kind() == Kind::Property && !v.row.removes();
        let mut set: Vec<Tag> = self.rows[from..].iter().filter(sets).map(|v| v.row.tag).collect();
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
        let alone = order.is_sorted_by(|a, b| at(a).row.tag < at(b).row.tag);
        if let Some(first) = rows.first().filter(|first| alone && rows.iter().all(|row| std::ptr::eq(row.arena, first.arena))) {
            // Most nodes: each fact said once, by one entry.
            let fact = |Versioned { row, .. }: &Versioned<'_>| Fact {
                tag: row.tag,
                when: u32::from(!row.removes()),
                payload: row.payload,
            };
            piece.extend(order.iter().map(|place| fact(at(place))), first.arena);
            records.extend(order.iter().map(|place| at(place).record));
            return;
        }
        for same_tag in order.chunk_by_mut(|a, b| at(a).row.tag == at(b).row.tag) {
            if same_tag.len() > 1 {
                same_tag.sort_by_key(|index| at(index).key());
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

/// The newest state of the nodes of one shard, as the batch a graph starts from. `runs` come oldest first, each as its
/// chunks; `upper` is the tick after everything in them. What needs no change stays in its chunk, which shards share, where most
/// of the chunk does.
pub fn newest(runs: &[Vec<Chunk>], shard: Shard, upper: Tick) -> SharedBatch {
    let nodes = runs.iter().flatten().map(|chunk| chunk.ids().len()).sum::<usize>();
    let last = runs.iter().filter_map(|run| run.last()?.ids().last()).max().copied().unwrap_or(NodeId::new(0, 0));
    let at = |tick| Antichain::from_elem(tick);
    let fresh = Segment { times: vec![upper.0.saturating_sub(1)], ..Segment::default() };
    let mut base = Writer::new((at(0), at(upper.0), at(upper.0 - 1)), (nodes / shard.count + nodes / 8, last), fresh);
    let mut cursors: Vec<Cursor<'_>> = runs.iter().map(|chunks| Cursor::new(chunks)).collect();
    let mut here: Vec<(usize, usize, usize)> = Vec::new();
    let mut versions: Vec<Fact> = Vec::new();
    while let Some(id) = cursors.iter().filter_map(|cursor| cursor.id).min() {
        attend();
        here.clear();
        for (run, cursor) in cursors.iter_mut().enumerate().filter(|(_, cursor)| cursor.id == Some(id)) {
            if cursor.node == 0 {
                let chunk = &cursor.chunks[cursor.chunk];
                cursor.piece = stays(runs, run, chunk).then(|| base.adopt(chunk.segment().clone(), 0));
            }
            let (number, node) = cursor.take();
            here.push((run, number, node));
        }
        if id.shard(shard.count) != shard.index {
            continue;
        }
        if let [(run, number, node)] = here[..] {
            let chunk = &runs[run][number];
            if let Some((piece, facts)) = cursors[run].piece.zip(as_it_is(chunk.segment(), chunk.facts(node))) {
                if !facts.is_empty() {
                    base.refer(id, piece, Place::of(chunk.range(node).start as u32, facts), false);
                }
                continue;
            }
        }
        versions.clear();
        let mut places: SmallVec<[Range<usize>; 8]> = SmallVec::new();
        for (run, number, node) in &here {
            let start = versions.len();
            versions.extend(runs[*run][*number].one_by_one(*node));
            places.push(start..versions.len());
        }
        let hit = |((run, number, _), place): (&(usize, usize, usize), &Range<usize>)| Hit {
            run: *run as u32,
            segment: runs[*run][*number].segment(),
            facts: &versions[place.clone()],
        };
        let hits: SmallVec<[Hit<'_>; 8]> = here.iter().zip(&places).map(hit).collect();
        holding(&hits, &Asked::all(u64::MAX), &mut |segment, fact| {
            base.fresh.copy(fact, &segment.arena, 0);
            true
        });
        base.finish_node(id, false);
    }
    SharedBatch::new(base.finish())
}

/// Of the versions of a node, which one run alone knows, the facts it has: all but the marks that it was cleared before.
/// None when some fact was removed or changed.
fn as_it_is<'a>(segment: &Segment, versions: &'a [Fact]) -> Option<&'a [Fact]> {
    let (facts, _) = split_marks(versions);
    let same = |pair: &[Fact]| segment.same_fact(&pair[0], &pair[1]);
    (facts.iter().all(Fact::adds) && !facts.windows(2).any(same)).then_some(facts)
}

/// Whether most nodes of a chunk are known to no other run: a few of them tell. Of others little would stay, and hold the memory
/// of all.
fn stays(runs: &[Vec<Chunk>], run: usize, chunk: &Chunk) -> bool {
    const LOOKED_AT: usize = 8;
    let others = || runs.iter().enumerate().filter(|(other, _)| *other != run);
    let shared = |id: &&NodeId| others().any(|(_, chunks)| knows(chunks, **id));
    let looked_at = || chunk.ids().iter().step_by(chunk.ids().len().div_ceil(LOOKED_AT));
    looked_at().filter(shared).count() * 4 <= looked_at().count()
}

fn knows(chunks: &[Chunk], id: NodeId) -> bool {
    let after = chunks.partition_point(|chunk| chunk.ids()[0] <= id);
    after.checked_sub(1).is_some_and(|at| chunks[at].ids().binary_search(&id).is_ok())
}

/// Where the reading of a run stands.
struct Cursor<'a> {
    chunks: &'a [Chunk],
    /// The number in the base that the chunk has whose node was taken last, if it stays. That is found out as the chunk is
    /// reached: what is looked at for it in other runs will be read next, and all of it at once would bring into memory what has
    /// left it.
    piece: Option<u32>,
    chunk: usize,
    node: usize,
    /// The node it stands on.
    id: Option<NodeId>,
}

impl<'a> Cursor<'a> {
    fn new(chunks: &'a [Chunk]) -> Cursor<'a> {
        Cursor { chunks, piece: None, chunk: 0, node: 0, id: chunks.first().map(|chunk| chunk.ids()[0]) }
    }

    /// The chunk and the place of the node it stands on; moves to the next.
    fn take(&mut self) -> (usize, usize) {
        let (number, node) = (self.chunk, self.node);
        let chunk = &self.chunks[number];
        self.node += 1;
        if self.node == chunk.ids().len() {
            self.chunk += 1;
            self.node = 0;
        }
        self.id = self.chunks.get(self.chunk).map(|chunk| chunk.ids()[self.node]);
        (number, node)
    }
}
