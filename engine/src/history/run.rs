//! Run: the versions of a stretch of time, sorted by node, in the store or in memory; and how its chunks are read.
//!
//! The newest version of each fact of a run lies in one part and what came before it in another, so that a graph is loaded
//! without its history. Which node each chunk begins with is known, so that a node is found with one read; and which number, so
//! that so are the names of the nodes at the other ends of its edges.

use std::sync::Arc;

use weir_model::{NodeId, Tick};

use super::cache::ChunkCache;
use crate::arrangement::chunk::Chunk;
use crate::arrangement::numbering::{NOBODY, Numbering};
use crate::scheduling::breathe;
use crate::store::{GraphId, Part, RunId, RunInfo, Store, StoreError};

pub struct Run {
    pub first: Tick,
    pub upper: Tick,
    pub bytes: u64,
    /// It holds what was there before the newest version of each fact; runs of format 2 do not.
    pub has_past: bool,
    /// How many chunks say what sources brought.
    pub batches: u64,
    place: Place,
    index: Index,
}

/// What the chunks of a run begin with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Index {
    /// The first node of each chunk: of the part with the newest versions, and of that with older ones.
    pub firsts: [Vec<NodeId>; 2],
    /// The number of the first node of each chunk of the newest versions; none where nodes have no numbers.
    pub starts: Vec<u32>,
    /// How many numbers there are. Some may be nobody's.
    pub count: u32,
    /// Numbers of nodes that have no facts, but are at the end of an edge all the same.
    pub strays: Vec<(u32, NodeId)>,
}

enum Place {
    Stored(RunId),
    Held([Vec<Arc<Chunk>>; 2]),
}

/// Why a chunk is not to be had.
pub enum Trouble {
    /// The run has been merged into another one.
    Gone,
    Store(StoreError),
}

impl Run {
    pub fn stored(info: &RunInfo, index: Index) -> Run {
        let (place, batches) = (Place::Stored(info.id), info.chunks[Part::Batches as usize]);
        Run { first: info.first, upper: info.upper, bytes: info.bytes, has_past: true, batches, place, index }
    }

    /// As a run of format 2.
    pub fn without_past(self) -> Run {
        Run { has_past: false, ..self }
    }

    pub fn held(first: Tick, upper: Tick, parts: [Vec<Arc<Chunk>>; 2]) -> Run {
        let bytes = parts.iter().flatten().map(|chunk| chunk.bytes() as u64).sum();
        let firsts = parts.each_ref().map(|part| part.iter().map(|chunk| chunk.ids()[0]).collect());
        let index = Index { firsts, ..Index::default() };
        Run { first, upper, bytes, has_past: true, batches: 0, place: Place::Held(parts), index }
    }

    pub fn id(&self) -> Option<RunId> {
        if let Place::Stored(id) = self.place { Some(id) } else { None }
    }

    pub fn has_older(&self) -> bool {
        !self.index.firsts[1].is_empty()
    }
}

/// A part of a run among the others that are read together.
#[derive(Clone)]
pub struct Piece {
    pub run: Arc<Run>,
    /// Counts up from the oldest; the two parts of a run share it.
    pub number: u32,
    pub part: Part,
}

impl Piece {
    /// The parts of runs that come oldest first, oldest first.
    pub fn of(runs: &[Arc<Run>]) -> Vec<Piece> {
        let of_run =
            |(number, run): (u32, &Arc<Run>)| [Part::Older, Part::Newest].map(|part| Piece { run: run.clone(), number, part });
        (0..).zip(runs).flat_map(of_run).filter(|piece| !piece.firsts().is_empty()).collect()
    }

    fn firsts(&self) -> &[NodeId] {
        &self.run.index.firsts[usize::from(self.part == Part::Older)]
    }

    /// The chunk that holds a node, if any does.
    pub fn chunk_of(&self, node: NodeId) -> Option<usize> {
        self.firsts().partition_point(|first| *first <= node).checked_sub(1)
    }
}

/// Where chunks are read from.
#[derive(Clone)]
pub struct Shelf {
    pub graph: GraphId,
    pub store: Arc<dyn Store>,
    pub cache: Arc<ChunkCache>,
}

impl Shelf {
    /// `keep`: it will be asked for again soon.
    pub fn chunk(&self, piece: &Piece, number: usize, keep: bool) -> Result<Arc<Chunk>, Trouble> {
        let run = match &piece.run.place {
            Place::Held(parts) => return Ok(parts[usize::from(piece.part == Part::Older)][number].clone()),
            Place::Stored(run) => *run,
        };
        let key = (self.graph, run, piece.part, number as u64);
        if let Some(chunk) = self.cache.get(&key) {
            return Ok(chunk);
        }
        let chunk = Arc::new(self.read_whole(piece, run, number)?);
        self.cache.put(key, &chunk, keep);
        Ok(chunk)
    }

    fn read_whole(&self, piece: &Piece, run: RunId, number: usize) -> Result<Chunk, Trouble> {
        self.read(piece, run, number, |bytes| Chunk::read(bytes, piece.run.upper))
    }

    fn read(
        &self,
        piece: &Piece,
        run: RunId,
        number: usize,
        read: impl FnOnce(&[u8]) -> Option<Chunk>,
    ) -> Result<Chunk, Trouble> {
        let bytes = self.store.chunk(self.graph, run, piece.part, number as u64).map_err(Trouble::Store)?;
        let bytes = bytes.ok_or(Trouble::Gone)?;
        read(&bytes).ok_or_else(|| {
            let part = if piece.part == Part::Older { "older" } else { "newest" };
            let place = format!("{part} chunk {number} of run {} of graph {}", run.0, self.graph.0);
            Trouble::Store(StoreError::damaged("a page", place))
        })
    }

    /// The nodes of a chunk with their numbers, and of a chunk that is named with their facts.
    fn names(&self, piece: &Piece, number: usize) -> Result<Arc<Chunk>, Trouble> {
        let Place::Stored(run) = piece.run.place else { return self.chunk(piece, number, false) };
        if piece.part == Part::Older || piece.run.index.starts.is_empty() {
            return self.chunk(piece, number, false);
        }
        self.read(piece, run, number, Chunk::read_names).map(Arc::new)
    }

    /// The id of a node by its number.
    pub fn name(&self, piece: &Piece, number: u32) -> Result<NodeId, Trouble> {
        let (run, index) = (&piece.run, &piece.run.index);
        if let Ok(stray) = index.strays.binary_search_by_key(&number, |(number, _)| *number) {
            return Ok(index.strays[stray].1);
        }
        let id = run.id().unwrap_or(RunId(0));
        let nobody = || Trouble::Store(nameless(self.graph, id));
        let chunk = index.starts.partition_point(|start| *start <= number).checked_sub(1).ok_or_else(nobody)?;
        // The index itself is never kept there.
        let key = (self.graph, id, Part::Index, chunk as u64);
        let names = match self.cache.get(&key) {
            Some(names) => names,
            None => {
                let names = self.names(piece, chunk)?;
                self.cache.put(key, &names, true);
                names
            }
        };
        names.numbers().binary_search(&number).map(|place| names.ids()[place]).map_err(|_| nobody())
    }
}

pub fn nameless(graph: GraphId, run: RunId) -> StoreError {
    StoreError::damaged("an edge to a node that is not there", format!("run {} of graph {}", run.0, graph.0))
}

/// The ids of a run by number, as its chunks come in. How many the index says there are bounds what numbers may be and takes no
/// room by itself: a merge of which little is left leaves many that are nobody's.
pub struct NamesOf {
    ids: Vec<NodeId>,
    count: u32,
}

impl NamesOf {
    pub fn new(index: &Index) -> NamesOf {
        let mut names = NamesOf { ids: Vec::new(), count: index.count };
        if let Some((last, _)) = index.strays.last() {
            names.reach(*last);
        }
        for (number, id) in &index.strays {
            names.ids[*number as usize] = *id;
        }
        names
    }

    fn reach(&mut self, number: u32) {
        if self.ids.len() <= number as usize {
            self.ids.resize(number as usize + 1, NOBODY);
        }
    }

    /// None when a number is none of this run.
    pub fn add(&mut self, chunk: &Chunk) -> Option<()> {
        let Some(last) = chunk.numbers().last() else { return Some(()) };
        if *last >= self.count {
            return None;
        }
        self.reach(*last);
        for (number, id) in chunk.numbers().iter().zip(chunk.ids()) {
            self.ids[*number as usize] = *id;
        }
        Some(())
    }

    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }
}

/// Gathers what is to be known before runs become one: all nodes they have, and what the numbers in each of the pieces stand for.
pub fn names(shelf: &Shelf, pieces: &[Piece]) -> Result<(Vec<NodeId>, Vec<Arc<NamesOf>>), Trouble> {
    let (mut all, mut names) = (Vec::new(), Vec::new());
    for piece in pieces {
        let mut of_piece = NamesOf::new(if piece.part == Part::Newest { &piece.run.index } else { &NO_INDEX });
        for number in 0..piece.firsts().len() {
            let chunk = shelf.names(piece, number)?;
            let id = piece.run.id().unwrap_or(RunId(0));
            of_piece.add(&chunk).ok_or_else(|| Trouble::Store(nameless(shelf.graph, id)))?;
            all.extend_from_slice(chunk.ids());
            breathe();
        }
        names.push(Arc::new(of_piece));
        // Sorted stretches are put together in one pass each.
        all.sort();
        all.dedup();
    }
    all.shrink_to_fit();
    Ok((all, names))
}

static NO_INDEX: Index = Index { firsts: [Vec::new(), Vec::new()], starts: Vec::new(), count: 0, strays: Vec::new() };

/// Walks the nodes of a piece.
pub struct Cursor {
    pub piece: Piece,
    number: usize,
    place: usize,
    here: Option<Arc<Chunk>>,
    /// With these, chunks are named.
    names: Option<Arc<NamesOf>>,
}

impl Cursor {
    /// Stands on the first node from `from` on.
    pub fn seek(shelf: &Shelf, piece: Piece, from: NodeId) -> Result<Cursor, Trouble> {
        let number = piece.chunk_of(from).unwrap_or(0);
        let chunk = shelf.chunk(&piece, number, false)?;
        let place = chunk.ids().partition_point(|id| *id < from);
        let mut cursor = Cursor { piece, number, place, here: Some(chunk), names: None };
        cursor.settle(shelf)?;
        Ok(cursor)
    }

    /// Stands on the first node. Where names are given, edges can be read.
    pub fn begin(shelf: &Shelf, piece: Piece, names: Option<Arc<NamesOf>>) -> Result<Cursor, Trouble> {
        let mut cursor = Cursor { piece, number: 0, place: 0, here: None, names };
        cursor.here = Some(cursor.fetch(shelf)?);
        Ok(cursor)
    }

    fn fetch(&self, shelf: &Shelf) -> Result<Arc<Chunk>, Trouble> {
        let (Some(names), Some(run)) = (&self.names, self.piece.run.id()) else {
            return shelf.chunk(&self.piece, self.number, false);
        };
        let mut chunk = shelf.read_whole(&self.piece, run, self.number)?;
        chunk.name(names.ids()).ok_or_else(|| Trouble::Store(nameless(shelf.graph, run)))?;
        Ok(Arc::new(chunk))
    }

    /// Goes on to the next chunk at the end of one.
    fn settle(&mut self, shelf: &Shelf) -> Result<(), Trouble> {
        if self.here.as_ref().is_some_and(|chunk| self.place >= chunk.ids().len()) {
            self.number += 1;
            self.place = 0;
            let more = self.number < self.piece.firsts().len();
            breathe();
            self.here = more.then(|| self.fetch(shelf)).transpose()?;
            breathe();
        }
        Ok(())
    }

    /// The node it stands on.
    pub fn id(&self) -> Option<NodeId> {
        self.here.as_ref().map(|chunk| chunk.ids()[self.place])
    }

    /// The chunk and the place in it of the node it stands on.
    pub fn at(&self) -> Option<(&Arc<Chunk>, usize)> {
        self.here.as_ref().map(|chunk| (chunk, self.place))
    }

    pub fn advance(&mut self, shelf: &Shelf) -> Result<(), Trouble> {
        self.place += 1;
        self.settle(shelf)
    }
}

/// Writes the chunks of a run with the numbers of its nodes, notes what each begins with, and adds the chunk that says so.
pub struct Indexing<'a> {
    chunks: &'a mut dyn Iterator<Item = Result<(Part, Chunk), StoreError>>,
    numbering: Numbering,
    pub index: Index,
    done: bool,
}

impl<'a> Indexing<'a> {
    /// `nodes` are those of the chunks, in order, and maybe others.
    pub fn new(chunks: &'a mut dyn Iterator<Item = Result<(Part, Chunk), StoreError>>, nodes: Vec<NodeId>) -> Indexing<'a> {
        let numbering = Numbering::new(nodes);
        let index = Index { count: numbering.count(), ..Index::default() };
        Indexing { chunks, numbering, index, done: false }
    }

    fn write(&mut self, part: Part, chunk: &Chunk) -> Result<Vec<u8>, StoreError> {
        let is_newest = part == Part::Newest;
        let firsts = &mut self.index.firsts[usize::from(!is_newest)];
        firsts.push(chunk.ids()[0]);
        // What is only in older versions is mostly gone, with its neighbours.
        if !is_newest || self.index.count == 0 {
            return chunk.write(None).ok_or_else(|| too_large(chunk));
        }
        self.index.starts.extend(self.numbering.of_node(chunk.ids()[0]));
        chunk.write(Some(&mut self.numbering)).ok_or_else(|| too_large(chunk))
    }
}

impl Iterator for Indexing<'_> {
    type Item = Result<(Part, Vec<u8>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let Some(next) = self.chunks.next() else {
            self.done = true;
            self.index.strays = self.numbering.strays();
            let known = self.index.firsts.iter().any(|firsts| !firsts.is_empty());
            return known.then(|| Ok((Part::Index, encode_index(&self.index))));
        };
        Some(next.and_then(|(part, chunk)| Ok((part, self.write(part, &chunk)?))))
    }
}

/// It ended with the node that made it so large.
fn too_large(chunk: &Chunk) -> StoreError {
    let node = chunk.ids().last().copied().unwrap_or_default();
    let reason = format!(
        "what node {node} has been takes more than 4 GiB there, and a page holds no more; what is stored stays as it is, until \
         less of the past is kept (weir.history) or the node is purged (purgeNode)"
    );
    StoreError::failed("write pages", reason)
}

/// The number of ids 4, the ids; of both parts. Then, since format 5, how many numbers there are 4, the number of strays 4, the
/// first number of each chunk 4 each, and the strays, number 4 and id 16.
fn encode_index(index: &Index) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in &index.firsts {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        part.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
    }
    let numbers = [index.count, index.strays.len() as u32].into_iter().chain(index.starts.iter().copied());
    numbers.for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    for (number, id) in &index.strays {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&id.to_bytes());
    }
    bytes
}

pub fn decode_index(mut bytes: &[u8]) -> Option<Index> {
    let mut index = Index::default();
    for part in &mut index.firsts {
        let count = take_number(&mut bytes)?;
        let (ids, rest) = bytes.split_at_checked(16 * count as usize)?;
        *part = ids.as_chunks().0.iter().map(|id| NodeId::from_bytes(*id)).collect();
        bytes = rest;
    }
    if !bytes.is_empty() {
        index.count = take_number(&mut bytes)?;
        let strays = take_number(&mut bytes)?;
        let starts = if index.count > 0 { index.firsts[0].len() } else { 0 };
        index.starts = (0..starts).map(|_| take_number(&mut bytes)).collect::<Option<_>>()?;
        let (rows, rest) = bytes.split_at_checked(20 * strays as usize)?;
        for row in rows.as_chunks::<20>().0 {
            let (mut number, id) = row.split_first_chunk::<4>().map(|(number, id)| (&number[..], id))?;
            index.strays.push((take_number(&mut number)?, NodeId::from_bytes(*id.first_chunk()?)));
        }
        bytes = rest;
    }
    let ascend = index.firsts.iter().all(|part| part.is_sorted()) && index.starts.is_sorted_by(|a, b| a < b);
    let are_known =
        index.starts.last().into_iter().chain(index.strays.last().map(|(number, _)| number)).all(|last| *last < index.count);
    (bytes.is_empty() && ascend && are_known && index.strays.is_sorted_by_key(|(number, _)| *number)).then_some(index)
}

fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}
