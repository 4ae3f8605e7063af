//! Checkpoint: moves what is old enough from the log into sorted pages, and cuts the log.
//!
//! Old enough is what is durable and delivered: after a restart the graph is loaded as of the checkpoint and the log is
//! replayed from there, so results that no output has taken yet are found again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weir_model::Tick;

use crate::arrangement::build::Shard;
use crate::arrangement::chunk::{Chunk, Times};
use crate::arrangement::pages;
use crate::command::Base;
use crate::engine::Graph;
use crate::error::EngineError;
use crate::history::run::{Index, Indexing, NamesOf, Run, decode_index, nameless};
use crate::loading::Loading;
use crate::memory::holds_graph;
use crate::scheduling::{Breath, breathe};
use crate::store::{Delivered, Entry, GraphId, NewRun, Part, Progress, RunInfo, Store, StoreError, read_some};

/// A checkpoint is made when the log holds about this many facts beyond the last one.
const FACTS_BETWEEN: usize = 1_500_000;

/// What an entry weighs besides its facts: after a restart each costs about as much as this many.
pub const ENTRY_WEIGHT: usize = 300;

/// So many facts behind, checkpoints no longer rest: a start has to replay what they have not reached.
const FACTS_BEHIND: usize = 8 * FACTS_BETWEEN;

/// A run is built in memory from at most about this many facts.
const FACTS_PER_RUN: usize = 1_000_000;

#[derive(Default)]
pub struct Checkpoints {
    /// Facts logged since the last checkpoint, with `ENTRY_WEIGHT` for each entry.
    facts: Arc<AtomicUsize>,
    /// What the store knows.
    progress: Mutex<Progress>,
}

impl Checkpoints {
    pub fn resume(progress: Progress) -> Checkpoints {
        Checkpoints { facts: Arc::default(), progress: Mutex::new(progress) }
    }

    /// Where those who write to the log count.
    pub fn logged(&self) -> &Arc<AtomicUsize> {
        &self.facts
    }
}

/// Makes a checkpoint if enough has gathered, as far as it is delivered. The last one before the end is worth making for
/// less: it saves the next start the replay.
pub fn consider(graph: &Graph, last: bool) -> Result<(), EngineError> {
    let enough = match last {
        _ if graph.history().wants_checkpoint() => 1,
        true => FACTS_BETWEEN / 10,
        false => FACTS_BETWEEN,
    };
    let is_logged = graph.parts().store.durable() || graph.parts().retention.journal;
    if !is_logged || graph.checkpoints().facts.load(Ordering::Relaxed) < enough {
        return Ok(());
    }
    let delivered = graph.standing().values().filter_map(|state| state.needs_from()).min();
    let until = graph.durable().min(delivered.unwrap_or(Tick::MAX));
    make(graph, until)
}

/// Moves every entry that ends at or before `until` into pages.
pub fn make(graph: &Graph, until: Tick) -> Result<(), EngineError> {
    let checkpoints = graph.checkpoints();
    let mut progress = checkpoints.progress.lock().unwrap_or_else(|e| e.into_inner());
    // What was delivered is usually logged with later entries. Were the log cut without it, and the process to end, the
    // results in between would be lost.
    let delivered = graph.delivered();
    let breath = Breath::begin();
    loop {
        let store = &graph.parts().store;
        let (entries, facts) = read_some(&**store, graph.id(), (progress.upto, until), FACTS_PER_RUN)?;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let mut next = progress.clone();
        next.upto = last.upper;
        entries.iter().for_each(|entry| note(&mut next, entry));
        delivered.iter().for_each(|delivered| note_delivered(&mut next, delivered));
        let began = Instant::now();
        let (first, upper) = (first.first, last.upper);
        let is_far_behind = || checkpoints.facts.load(Ordering::Relaxed) > FACTS_BEHIND;
        let pages = pages::run(&entries);
        let nodes = pages.ids();
        let mut pages = pages.map(|chunk| Ok((Part::Newest, chunk))).inspect(|_| breath.may_rest(!is_far_behind()));
        let mut chunks = Indexing::new(&mut pages, nodes);
        let info = store.checkpoint(graph.id(), NewRun { first, upper, chunks: &mut chunks }, &next)?;
        graph.history().add(Run::stored(&info, chunks.index));
        tracing::debug!(graph = graph.name(), facts, upto = %next.upto, took = ?began.elapsed(), "checkpoint");
        *progress = next;
        checkpoints.facts.fetch_sub(facts + entries.len() * ENTRY_WEIGHT, Ordering::Relaxed);
        drop(pages);
        for entry in entries {
            drop(entry);
            breathe();
        }
    }
}

/// Does something while neither a checkpoint nor a merge changes what the store holds of the graph.
pub fn holding_still<R>(graph: &Graph, act: impl FnOnce() -> R) -> R {
    let _no_checkpoint = graph.checkpoints().progress.lock().unwrap_or_else(|e| e.into_inner());
    let _no_merge = graph.history().no_merges();
    act()
}

/// Adds what an entry says of sources and delivery.
fn note(progress: &mut Progress, entry: &Entry) {
    for (name, position) in &entry.sources {
        let known = progress.sources.iter().position(|(known, _)| known == name);
        match known {
            // Without a position it is gone.
            Some(known) if position.0.is_empty() => drop(progress.sources.swap_remove(known)),
            Some(known) => progress.sources[known].1 = position.clone(),
            None if position.0.is_empty() => {}
            None => progress.sources.push((name.clone(), position.clone())),
        }
    }
    entry.delivered.iter().for_each(|delivered| note_delivered(progress, delivered));
}

fn note_delivered(progress: &mut Progress, delivered: &Delivered) {
    let same = |known: &Delivered| known.query == delivered.query && known.output == delivered.output;
    match progress.delivered.iter().position(same) {
        Some(known) if delivered.is_gone() => drop(progress.delivered.swap_remove(known)),
        Some(known) if progress.delivered[known].tick <= delivered.tick => progress.delivered[known] = delivered.clone(),
        None if !delivered.is_gone() => progress.delivered.push(delivered.clone()),
        _ => {}
    }
}

/// The graph as of its checkpoint, one batch a shard. Runs are read side by side, then shards put together side by side.
pub fn load_base(
    store: &dyn Store,
    graph: GraphId,
    upto: Tick,
    shards: usize,
    loading: &Loading,
) -> Result<(Base, Vec<Run>), EngineError> {
    let infos = store.runs(graph)?;
    // Each checkpoint moves on where the runs end.
    let end = infos.iter().map(|run| run.upper).max().unwrap_or_default();
    if end != upto {
        return Err(StoreError::damaged("the runs do not end where the log begins", format!("graph {}", graph.0)).into());
    }
    // A graph without a checkpoint begins with nothing.
    if infos.is_empty() {
        return Ok((Base { shards: Vec::new(), upper: upto }, Vec::new()));
    }
    let portion = infos.len().div_ceil(shards);
    let runs = std::thread::scope(|scope| {
        let read = |part: &[RunInfo]| {
            holds_graph();
            part.iter().map(|run| read_run(store, graph, run, upto, loading)).collect::<Result<Vec<_>, _>>()
        };
        let threads: Vec<_> = infos.chunks(portion).map(|part| scope.spawn(move || read(part))).collect();
        threads.into_iter().map(joined).collect::<Result<Vec<_>, _>>()
    })?;
    let (chunks, runs): (Vec<Vec<Chunk>>, Vec<Run>) = runs.into_iter().flatten().unzip();
    let chunks = &chunks;
    let shards = std::thread::scope(|scope| {
        let load = |index| {
            scope.spawn(move || {
                holds_graph();
                pages::newest(chunks, Shard { index, count: shards }, upto)
            })
        };
        let threads: Vec<_> = (0..shards).map(load).collect();
        threads.into_iter().map(joined).collect()
    });
    Ok((Base { shards, upper: upto }, runs))
}

/// What of a run is needed for the present.
fn read_run(
    store: &dyn Store,
    graph: GraphId,
    run: &RunInfo,
    upto: Tick,
    loading: &Loading,
) -> Result<(Vec<Chunk>, Run), StoreError> {
    let mut chunks = Vec::new();
    let damaged = |what: &str| StoreError::damaged(what, format!("run {} of graph {}", run.id.0, graph.0));
    store.read_run(graph, run.id, Part::Newest, &mut |bytes| {
        chunks.push(Chunk::read(bytes, upto, Times::One).ok_or_else(|| damaged("a page"))?);
        loading.pages.one();
        Ok(())
    })?;
    let known = store.chunk(graph, run.id, Part::Index, 0)?;
    // One without pages has no index either, and lacks nothing.
    let has_past = known.is_some() || chunks.is_empty();
    let index = match known {
        Some(bytes) => decode_index(&bytes).ok_or_else(|| damaged("an index of pages"))?,
        // Of format 2.
        None => Index { firsts: [chunks.iter().map(|chunk| chunk.ids()[0]).collect(), Vec::new()], ..Index::default() },
    };
    if index.firsts.each_ref().map(|part| part.len() as u64) != [run.chunks[0], run.chunks[1]] {
        return Err(damaged("an index of pages that is not of these"));
    }
    let mut names = NamesOf::new(&index);
    let named =
        chunks.iter().all(|chunk| names.add(chunk).is_some()) && chunks.iter_mut().all(|chunk| chunk.name(names.ids()).is_some());
    if !named {
        return Err(nameless(graph, run.id));
    }
    let stored = Run::stored(run, index);
    Ok((chunks, if has_past { stored } else { stored.without_past() }))
}

/// What a thread found; a panic goes on in the one that waited.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
