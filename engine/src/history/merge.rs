//! Merging runs into one, a chunk of each at a time: nothing of what a moment after the horizon can see gets lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use weir_model::mutation::Kind;

use super::erased::{Erased, erased_at, rest};
use super::run::{Cursor, NamesOf, Piece, Shelf, Trouble};
use crate::arrangement::chunk::{Building, CHUNK_BYTES, Chunk, SMALL_CHUNK_BYTES};
use crate::arrangement::versions::{Hit, Step, sequences};
use crate::scheduling::breathe_after;
use crate::store::{Part, StoreError};

/// What has to stay of the runs that are merged.
#[derive(Clone, Copy)]
pub struct Keeps {
    /// No older run is left out: there is nothing that removals could end.
    pub bottom: bool,
    /// The last tick nobody asks for any more.
    pub horizon: u64,
}

pub struct Merging<'a> {
    shelf: &'a Shelf,
    cursors: Vec<Cursor>,
    keeps: Keeps,
    erased: Arc<Erased>,
    /// Who set it no longer wants the result.
    stop: &'a AtomicBool,
    newest: Building,
    older: Building,
    ready: VecDeque<(Part, Chunk)>,
    /// How many nodes were merged.
    nodes: usize,
    ended: bool,
}

impl<'a> Merging<'a> {
    /// The runs of the pieces follow one another in time. Those that are stored come with what their numbers stand for.
    pub fn new(
        shelf: &'a Shelf,
        pieces: Vec<Piece>,
        names: Vec<Arc<NamesOf>>,
        keeps: Keeps,
        erased: Arc<Erased>,
        stop: &'a AtomicBool,
    ) -> Result<Merging<'a>, StoreError> {
        let names = names.into_iter().map(Some).chain(std::iter::repeat(None));
        let start = |(piece, names)| Cursor::begin(shelf, piece, names).map_err(lost);
        Ok(Merging {
            shelf,
            cursors: pieces.into_iter().zip(names).map(start).collect::<Result<_, _>>()?,
            keeps,
            erased,
            stop,
            newest: Building::new(CHUNK_BYTES),
            older: Building::new(SMALL_CHUNK_BYTES),
            ready: VecDeque::new(),
            nodes: 0,
            ended: false,
        })
    }

    /// Merges the next node. False at the end.
    fn node(&mut self) -> Result<bool, StoreError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        let Some(id) = self.cursors.iter().filter_map(Cursor::id).min() else {
            self.ready.extend(self.newest.finish().map(|chunk| (Part::Newest, chunk)));
            self.ready.extend(self.older.finish().map(|chunk| (Part::Older, chunk)));
            return Ok(false);
        };
        let here = self.cursors.iter().filter(|cursor| cursor.id() == Some(id));
        let hit = |cursor: &'_ Cursor| {
            let (chunk, place) = cursor.at()?;
            Some((cursor.piece.number, chunk.clone(), place))
        };
        let found: SmallVec<[_; 8]> = here.filter_map(hit).collect();
        let hits: SmallVec<[Hit<'_>; 8]> = found
            .iter()
            .map(|(run, chunk, place)| Hit { run: *run, segment: chunk.segment(), facts: chunk.facts(*place) })
            .collect();
        let (bottom, newest, older, erased) = (self.keeps.bottom, &mut self.newest, &mut self.older, &self.erased);
        sequences(&hits, bottom, self.keeps.horizon, &mut |steps| {
            let gone = steps.first().and_then(|step| erased_at(erased, id, step));
            let steps = gone.map_or(steps, |tick| rest(steps, tick, bottom));
            let Some((last, before)) = steps.split_last() else { return };
            before.iter().for_each(|step| push(older, step));
            // Where it ends nothing in older runs, a removal matters to the past alone.
            let of_past = bottom && !last.adds && last.fact.tag.kind() != Kind::ClearProperties;
            push(if of_past { older } else { newest }, last);
        });
        self.ready.extend(self.newest.finish_node(id).map(|chunk| (Part::Newest, chunk)));
        self.ready.extend(self.older.finish_node(id).map(|chunk| (Part::Older, chunk)));
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.id() == Some(id)) {
            cursor.advance(self.shelf).map_err(lost)?;
        }
        self.nodes += 1;
        breathe_after(self.nodes);
        Ok(true)
    }
}

fn push(building: &mut Building, step: &Step<'_>) {
    building.push(step.fact, &step.segment.arena, step.adds, step.tick);
}

/// Only one thread merges, so no run can go while it is read.
pub fn lost(trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Store(error) => error,
        Trouble::Gone => StoreError::damaged("a chunk is missing", "a run that was to be merged"),
    }
}

impl Iterator for Merging<'_> {
    type Item = Result<(Part, Chunk), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.ended {
            match self.node() {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        self.ready.pop_front().map(Ok)
    }
}
