//! Batches: which ticks a source brought, and where it stood then, for as long as history is kept: so that a fact is followed to
//! the record that brought it after the log has been cut.
//!
//!     chunk: form 1 | packed: number of bytes 8 | rows, packed as entries of the log are (see `store/entry.rs`)
//!     row: first tick 8 | tick after the last 8 | name of the source | position; each of these two with its length 4

use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::{Position, Text, Tick};

use super::run::{Run, Shelf};
use crate::scheduling::breathe;
use crate::store::{Entry, GraphId, Part, Reader, RunId, Store, StoreError, pack, put_block, unpack};

const PLAIN: u8 = 0;
const PACKED: u8 = 1;

/// This many bytes of rows become a chunk.
const CHUNK_BYTES: usize = 32 << 10;

/// What is known of runs is asked for again at most this often because one of them was merged meanwhile.
const TRIES_MAX: usize = 100;

/// What a source brought at once: its records have the ticks from `first` on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    pub first: Tick,
    pub upper: Tick,
    pub source: Text,
    /// Where the source stood after it.
    pub position: Position,
}

impl Batch {
    /// What an entry says of it; None where no source brought the entry.
    pub fn of(entry: &Entry) -> Option<Batch> {
        let (source, position) = entry.sources.first().filter(|(_, position)| !position.0.is_empty())?;
        Some(Batch { first: entry.first, upper: entry.upper, source: source.clone(), position: position.clone() })
    }

    pub fn holds(&self, tick: Tick) -> bool {
        self.first <= tick && tick < self.upper
    }
}

type OfRun = Result<(Part, Vec<u8>), StoreError>;

/// The chunks of what entries say, for a run that is made of them.
pub fn of_entries(entries: &[Entry]) -> impl Iterator<Item = OfRun> {
    Packing { batches: entries.iter().filter_map(Batch::of).map(Ok) }
}

/// The chunks for a run that takes the place of others, which follow one another; without what was brought before the horizon.
pub fn of_runs(shelf: &Shelf, runs: &[Arc<Run>], horizon: Tick) -> impl Iterator<Item = OfRun> {
    let numbers = runs.iter().filter_map(|run| Some((run.id()?, run.batches)));
    let chunks = numbers.flat_map(|(run, count)| (0..count).map(move |number| (run, number)));
    let read = chunks.flat_map(move |(run, number)| match read(&*shelf.store, shelf.graph, run, number) {
        Ok(Some(batches)) => batches.into_iter().map(Ok).collect(),
        Ok(None) => vec![Err(missing(shelf.graph, run, number))],
        Err(error) => vec![Err(error)],
    });
    Packing { batches: read.filter(move |batch| !batch.as_ref().is_ok_and(|batch| batch.upper <= horizon)) }
}

/// For each tick the batch that it is of; None where it is of none, or nothing is known of it (any more) in the runs.
pub fn find(store: &dyn Store, graph: GraphId, ticks: &[Tick]) -> Result<Vec<Option<Batch>>, StoreError> {
    let mut tries = 0;
    loop {
        let runs = store.runs(graph)?;
        let mut looking = Looking { store, graph, known: FxHashMap::default() };
        let look = |tick: &Tick| {
            let run = runs.iter().find(|run| run.first <= *tick && *tick < run.upper);
            run.map_or(Ok(None), |run| looking.among((run.id, run.chunks[Part::Batches as usize]), *tick))
        };
        match ticks.iter().map(look).collect::<Result<_, _>>() {
            Err(Lost::Gone(run, number)) if tries == TRIES_MAX => return Err(missing(graph, run, number)),
            Err(Lost::Gone(..)) => tries += 1,
            Err(Lost::Store(error)) => return Err(error),
            Ok(found) => return Ok(found),
        }
    }
}

enum Lost {
    Gone(RunId, u64),
    Store(StoreError),
}

struct Looking<'a> {
    store: &'a dyn Store,
    graph: GraphId,
    /// The chunks that were read: facts of one match were often brought one after another.
    known: FxHashMap<(RunId, u64), Vec<Batch>>,
}

impl Looking<'_> {
    fn among(&mut self, (run, count): (RunId, u64), tick: Tick) -> Result<Option<Batch>, Lost> {
        let (mut from, mut to) = (0, count);
        while from < to {
            let middle = from + (to - from) / 2;
            let batches = self.chunk(run, middle)?;
            match (batches.first(), batches.last()) {
                (Some(first), _) if tick < first.first => to = middle,
                (_, Some(last)) if tick < last.upper => {
                    let place = batches.partition_point(|batch| batch.upper <= tick);
                    return Ok(batches.get(place).filter(|batch| batch.holds(tick)).cloned());
                }
                _ => from = middle + 1,
            }
        }
        Ok(None)
    }

    fn chunk(&mut self, run: RunId, number: u64) -> Result<&[Batch], Lost> {
        if !self.known.contains_key(&(run, number)) {
            let batches = read(self.store, self.graph, run, number).map_err(Lost::Store)?;
            self.known.insert((run, number), batches.ok_or(Lost::Gone(run, number))?);
        }
        Ok(&self.known[&(run, number)])
    }
}

/// None where there is no such run any more.
fn read(store: &dyn Store, graph: GraphId, run: RunId, number: u64) -> Result<Option<Vec<Batch>>, StoreError> {
    let Some(bytes) = store.chunk(graph, run, Part::Batches, number)? else { return Ok(None) };
    let batches = decode(&bytes).ok_or_else(|| StoreError::damaged("what sources brought", place(graph, run, number)))?;
    Ok(Some(batches))
}

fn place(graph: GraphId, run: RunId, number: u64) -> String {
    format!("run {} of graph {}, chunk {number} of batches", run.0, graph.0)
}

fn missing(graph: GraphId, run: RunId, number: u64) -> StoreError {
    StoreError::damaged("a chunk is missing", place(graph, run, number))
}

/// Puts batches into chunks.
struct Packing<I> {
    batches: I,
}

impl<I: Iterator<Item = Result<Batch, StoreError>>> Iterator for Packing<I> {
    type Item = OfRun;

    fn next(&mut self) -> Option<OfRun> {
        let mut rows = Vec::new();
        while rows.len() < CHUNK_BYTES
            && let Some(batch) = self.batches.next()
        {
            match batch {
                Ok(batch) => put(&mut rows, &batch),
                Err(error) => return Some(Err(error)),
            }
        }
        breathe();
        (!rows.is_empty()).then(|| Ok((Part::Batches, encode(&rows))))
    }
}

fn put(rows: &mut Vec<u8>, batch: &Batch) {
    [batch.first, batch.upper].iter().for_each(|tick| rows.extend_from_slice(&tick.0.to_le_bytes()));
    put_block(rows, batch.source.as_bytes());
    put_block(rows, &batch.position.0);
}

fn encode(rows: &[u8]) -> Vec<u8> {
    match pack(rows) {
        Some(packed) => [&[PACKED][..], &(rows.len() as u64).to_le_bytes(), &packed].concat(),
        None => [&[PLAIN], rows].concat(),
    }
}

/// None where these are no batches, one after another.
pub fn decode(bytes: &[u8]) -> Option<Vec<Batch>> {
    let (form, rest) = bytes.split_first()?;
    let rows = match *form {
        PLAIN => rest.to_vec(),
        PACKED => {
            let (length, packed) = rest.split_first_chunk()?;
            unpack(packed, u64::from_le_bytes(*length)).ok()?
        }
        _ => return None,
    };
    let (mut rows, mut batches, mut upper) = (Reader(&rows), Vec::new(), Tick::ZERO);
    while !rows.0.is_empty() {
        let [first, end] = [rows.tick().ok()?, rows.tick().ok()?];
        let batch =
            Batch { first, upper: end, source: Text::new(rows.text().ok()?), position: Position(rows.block().ok()?.to_vec()) };
        if first < upper || end <= first {
            return None;
        }
        upper = end;
        batches.push(batch);
    }
    Some(batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{InMemory, NewRun, Progress};

    fn batch(first: u64, upper: u64) -> Batch {
        let position = Position(format!("{{\"0\":{first}}}").into_bytes());
        Batch { first: Tick(first), upper: Tick(upper), source: Text::new("s#1"), position }
    }

    /// A graph whose runs hold these.
    fn stored(runs: &[&[Batch]]) -> (InMemory, GraphId) {
        let store = InMemory::new();
        let graph = store.create_graph("a", b"").expect("a graph");
        for batches in runs {
            let (first, upper) = (batches[0].first, batches[batches.len() - 1].upper);
            let mut chunks = Packing { batches: batches.iter().cloned().map(Ok) };
            let run = NewRun { first, upper, chunks: &mut chunks };
            store.checkpoint(graph, run, &Progress { upto: upper, ..Progress::default() }).expect("a run");
        }
        (store, graph)
    }

    #[test]
    fn each_tick_is_found_in_its_batch_and_no_other_is() {
        // Between batches are ticks of queries.
        let many: Vec<Batch> = (0..5_000).map(|n| batch(10 * n + 3, 10 * n + 8)).collect();
        let (store, graph) = stored(&[&many[..3_000], &many[3_000..3_001], &many[3_001..]]);
        let runs = store.runs(graph).expect("runs");
        assert!(runs[0].chunks[Part::Batches as usize] > 3, "in several chunks");
        let bytes: u64 = runs.iter().map(|run| run.bytes).sum();
        eprintln!("{bytes} B for {} batches", many.len());
        assert!(bytes < 24 * many.len() as u64, "{bytes} B");
        let ticks: Vec<Tick> = (0..50_020).map(Tick).collect();
        let found = find(&store, graph, &ticks).expect("found");
        for (tick, found) in ticks.iter().zip(found) {
            let expected = many.get(tick.0 as usize / 10).filter(|batch| batch.holds(*tick));
            assert_eq!(found.as_ref(), expected, "{tick}");
        }
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        let rows = |batches: &[Batch]| {
            let mut rows = Vec::new();
            batches.iter().for_each(|batch| put(&mut rows, batch));
            encode(&rows)
        };
        let many: Vec<Batch> = (0..200).map(|n| batch(10 * n, 10 * n + 5)).collect();
        assert_eq!((decode(&rows(&many)), decode(&rows(&many[..2]))), (Some(many.clone()), Some(many[..2].to_vec())));
        let (packed, plain) = (rows(&many), rows(&many[..2]));
        assert_eq!((packed[0], plain[0]), (PACKED, PLAIN));
        for bytes in [&packed, &plain] {
            let row = if bytes[0] == PLAIN { rows(&many[..1]).len() } else { usize::MAX };
            (0..bytes.len())
                .filter(|end| ![1, row].contains(end))
                .for_each(|end| assert_eq!(decode(&bytes[..end]), None, "{end}"));
        }
        assert_eq!(decode(&rows(&[batch(5, 9), batch(8, 12)])), None, "they overlap");
        assert_eq!(decode(&rows(&[batch(5, 5)])), None, "of no tick");
    }
}
