//! Run: the versions of a stretch of time, sorted by node, in the store or in memory; and how its chunks are read.
//!
//! The newest version of each fact of a run lies in one part and what came before it in another, so that a graph is loaded
//! without its history. Which node each chunk begins with is known, so that a node is found with one read.

use std::sync::Arc;

use weir_model::{NodeId, Tick};

use super::cache::ChunkCache;
use crate::arrangement::chunk::{self, Chunk, Times};
use crate::scheduling::breathe;
use crate::store::{GraphId, Part, RunId, RunInfo, Store, StoreError};

pub struct Run {
    pub first: Tick,
    pub upper: Tick,
    pub bytes: u64,
    /// It holds what was there before the newest version of each fact; runs of format 2 do not.
    pub has_past: bool,
    place: Place,
    /// The first node of each chunk: of the part with the newest versions, and of that with older ones.
    firsts: [Vec<NodeId>; 2],
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
    pub fn stored(info: &RunInfo, firsts: [Vec<NodeId>; 2]) -> Run {
        Run { first: info.first, upper: info.upper, bytes: info.bytes, has_past: true, place: Place::Stored(info.id), firsts }
    }

    /// One of format 2.
    pub fn without_past(self) -> Run {
        Run { has_past: false, ..self }
    }

    pub fn held(first: Tick, upper: Tick, parts: [Vec<Arc<Chunk>>; 2]) -> Run {
        let bytes = parts.iter().flatten().map(|chunk| chunk.bytes() as u64).sum();
        let firsts = parts.each_ref().map(|part| part.iter().map(|chunk| chunk.ids()[0]).collect());
        Run { first, upper, bytes, has_past: true, place: Place::Held(parts), firsts }
    }

    pub fn id(&self) -> Option<RunId> {
        if let Place::Stored(id) = self.place { Some(id) } else { None }
    }

    pub fn has_older(&self) -> bool {
        !self.firsts[1].is_empty()
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
        &self.run.firsts[usize::from(self.part == Part::Older)]
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
        let bytes = self.store.chunk(self.graph, run, piece.part, number as u64).map_err(Trouble::Store)?;
        let bytes = bytes.ok_or(Trouble::Gone)?;
        let damaged = || {
            let part = if piece.part == Part::Older { "older" } else { "newest" };
            StoreError::damaged("a page", format!("{part} chunk {number} of run {} of graph {}", run.0, self.graph.0))
        };
        let chunk = Chunk::read(&bytes, piece.run.upper, Times::Kept).ok_or_else(|| Trouble::Store(damaged()))?;
        let chunk = Arc::new(chunk);
        self.cache.put(key, &chunk, keep);
        Ok(chunk)
    }
}

/// Walks the nodes of a piece.
pub struct Cursor {
    pub piece: Piece,
    number: usize,
    place: usize,
    here: Option<Arc<Chunk>>,
}

impl Cursor {
    /// Stands on the first node from `from` on.
    pub fn seek(shelf: &Shelf, piece: Piece, from: NodeId) -> Result<Cursor, Trouble> {
        let number = piece.chunk_of(from).unwrap_or(0);
        let chunk = shelf.chunk(&piece, number, false)?;
        let place = chunk.ids().partition_point(|id| *id < from);
        let mut cursor = Cursor { piece, number, place, here: Some(chunk) };
        cursor.settle(shelf)?;
        Ok(cursor)
    }

    /// Goes on to the next chunk at the end of one.
    fn settle(&mut self, shelf: &Shelf) -> Result<(), Trouble> {
        if self.here.as_ref().is_some_and(|chunk| self.place >= chunk.ids().len()) {
            self.number += 1;
            self.place = 0;
            let more = self.number < self.piece.firsts().len();
            breathe();
            self.here = more.then(|| shelf.chunk(&self.piece, self.number, false)).transpose()?;
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

/// Passes chunks on, notes what each begins with, and adds the chunk that says so.
pub struct Indexing<'a> {
    chunks: &'a mut dyn Iterator<Item = Result<(Part, Vec<u8>), StoreError>>,
    pub firsts: [Vec<NodeId>; 2],
    pub bytes: u64,
    done: bool,
}

impl<'a> Indexing<'a> {
    pub fn new(chunks: &'a mut dyn Iterator<Item = Result<(Part, Vec<u8>), StoreError>>) -> Indexing<'a> {
        Indexing { chunks, firsts: Default::default(), bytes: 0, done: false }
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
            let known = self.firsts.iter().any(|firsts| !firsts.is_empty());
            return known.then(|| Ok((Part::Index, encode_index(&self.firsts))));
        };
        if let Ok((part, bytes)) = &next {
            self.bytes += bytes.len() as u64;
            self.firsts[usize::from(*part == Part::Older)].extend(chunk::first_id(bytes));
        }
        Some(next)
    }
}

/// The number of ids 4, the ids; of both parts.
fn encode_index(firsts: &[Vec<NodeId>; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in firsts {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        part.iter().for_each(|id| bytes.extend_from_slice(&id.to_bytes()));
    }
    bytes
}

pub fn decode_index(mut bytes: &[u8]) -> Option<[Vec<NodeId>; 2]> {
    let mut firsts: [Vec<NodeId>; 2] = Default::default();
    for part in &mut firsts {
        let (count, rest) = bytes.split_first_chunk()?;
        let (ids, rest) = rest.split_at_checked(16 * u32::from_le_bytes(*count) as usize)?;
        *part = ids.as_chunks().0.iter().map(|id| NodeId::from_bytes(*id)).collect();
        bytes = rest;
    }
    (bytes.is_empty() && firsts.iter().all(|part| part.is_sorted())).then_some(firsts)
}
