//! Checkpoint: moves what is old enough from the log into sorted pages, and cuts the log.
//!
//! Old enough is what is durable and delivered: after a restart the graph is loaded as of the checkpoint and the log is
//! replayed from there, so results that no output has taken yet are found again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weir_model::lock::{lock, try_lock};
use weir_model::{QueryId, Text, Tick};

use crate::arrangement::build::Shard;
use crate::arrangement::chunk::Chunk;
use crate::arrangement::pages;
use crate::command::Base;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::history::batches;
use crate::history::run::{Index, Indexing, NamesOf, Run, decode_index, nameless};
use crate::loading::Loading;
use crate::memory::{attend, holds_graph};
use crate::scheduling::{Breath, breathe};
use crate::store::{Delivered, Entry, GraphId, NewRun, Part, Progress, RunInfo, Store, StoreError, read_some};

/// A checkpoint is made when the log holds about this many facts beyond the last one.
const FACTS_BETWEEN: usize = 1_500_000;

/// What an entry weighs besides its facts: after a restart each costs about as much as this many.
pub const ENTRY_WEIGHT: usize = 300;

/// Checkpoints that are this many facts behind no longer rest: a start has to replay what they have not reached.
const FACTS_BEHIND: usize = 8 * FACTS_BETWEEN;

/// A run is built in memory from at most about this many facts.
const FACTS_PER_RUN: usize = 1_000_000;

/// This many facts in the log are worth a checkpoint once there is time for it.
const FACTS_AT_REST: usize = FACTS_BETWEEN / 10;

/// A graph is at rest when hardly anything was logged for this long.
const REST: Duration = Duration::from_secs(2);
/// Facts, with `ENTRY_WEIGHT` for each entry, that are hardly anything.
const HARDLY_ANYTHING: usize = 10 * ENTRY_WEIGHT;

/// Between one look at what is delivered that found nothing to move, or nothing that may be moved now, and the next: with
/// thousands of standing queries it is no small one.
const AFTER_IN_VAIN: Duration = Duration::from_secs(1);

/// A start reads this many chunks at a time: few enough for all threads to have some until the end.
const CHUNKS_AT_ONCE: usize = 8;

#[derive(Default)]
pub struct Checkpoints {
    /// Facts logged since the last checkpoint, with `ENTRY_WEIGHT` for each entry.
    facts: Arc<AtomicUsize>,
    /// What the store knows.
    progress: Mutex<Progress>,
    quiet: Mutex<Option<Quiet>>,
    /// When it was last found that nothing can be moved yet: not everything is delivered, or a backup reads the log.
    in_vain: Mutex<Option<Instant>>,
}

/// How many facts there were in the log when it was last seen to grow, or to be cut, and when that was.
struct Quiet {
    facts: usize,
    since: Instant,
}

impl Checkpoints {
    pub fn resume(progress: Progress) -> Checkpoints {
        Checkpoints { progress: Mutex::new(progress), ..Checkpoints::default() }
    }

    /// Told every now and then how many facts there are in the log.
    fn is_at_rest(&self, facts: usize) -> bool {
        let mut quiet = lock(&self.quiet);
        match &*quiet {
            Some(Quiet { facts: then, since }) if (*then..=then + HARDLY_ANYTHING).contains(&facts) => since.elapsed() >= REST,
            _ => {
                *quiet = Some(Quiet { facts, since: Instant::now() });
                false
            }
        }
    }

    /// Where those who write to the log count.
    pub fn logged(&self) -> &Arc<AtomicUsize> {
        &self.facts
    }
}

/// Makes a checkpoint if enough has gathered, as far as it is delivered. At rest, and as the last one before the end, it is worth
/// making for less: it frees disk and saves the next start the replay.
pub fn consider(graph: &Graph, last: bool) -> Result<(), EngineError> {
    let store = &graph.parts().store;
    let is_logged = store.durable() || graph.parts().retention.journal;
    if !is_logged || store.read_only() {
        return Ok(());
    }
    let checkpoints = graph.checkpoints();
    let facts = checkpoints.facts.load(Ordering::Relaxed);
    let is_at_rest = checkpoints.is_at_rest(facts);
    let enough = match last || is_at_rest {
        _ if graph.history().wants_checkpoint() => 1,
        true => FACTS_AT_REST,
        false => FACTS_BETWEEN,
    };
    if facts < enough {
        return Ok(());
    }
    let mut in_vain = lock(&checkpoints.in_vain);
    if !last && in_vain.is_some_and(|at| at.elapsed() < AFTER_IN_VAIN) {
        return Ok(());
    }
    // Before it is asked where the outputs are: they get past what only says how far others are, too.
    let reached = graph.committer().lead_to(graph.durable())?;
    let until = reached.min(graph.needs_from().unwrap_or(Tick::MAX));
    // For the last one somebody waits.
    let breath = (!last).then(Breath::begin);
    let written = write(graph, until, breath.as_ref())?;
    *in_vain = (!written).then(Instant::now);
    Ok(())
}

/// Moves every entry that ends at or before `until` into pages, at once.
pub fn make(graph: &Graph, until: Tick) -> Result<(), EngineError> {
    write(graph, until, None).map(drop)
}

/// With `breath` it is work that nobody waits for, unless it falls too far behind. False where there is nothing to move; with
/// `breath` also where nothing may be moved now: the other graphs are not to wait for whoever fetches a backup of this one.
fn write(graph: &Graph, until: Tick, breath: Option<&Breath>) -> Result<bool, EngineError> {
    let checkpoints = graph.checkpoints();
    let progress = if breath.is_some() { try_lock(&checkpoints.progress) } else { Some(lock(&checkpoints.progress)) };
    let Some(mut progress) = progress else { return Ok(false) };
    let mut delivered = None;
    loop {
        let store = &graph.parts().store;
        let (entries, facts) = read_some(&**store, graph.id(), progress.upto..until, FACTS_PER_RUN)?;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(delivered.is_some()) };
        let stored = store.progress(graph.id())?.upto;
        if stored != progress.upto {
            if graph.committer().check_there().is_err() {
                return Ok(true);
            }
            // A mistake came between a checkpoint and what is known of it here. Another one would lose what that says of sources.
            let problem = format!("a checkpoint up to {stored} did not end as it should; a new start of weir takes it in");
            return Err(EngineError::Panicked(problem));
        }
        // What was delivered is usually logged with later entries. Were the log cut without it, and the process to end, the
        // results in between would be lost.
        let delivered = &*delivered.get_or_insert_with(|| graph.delivered());
        let mut next = progress.clone();
        next.upto = last.upper;
        entries.iter().for_each(|entry| note_sources(&mut next, entry));
        note_delivered(&mut next, entries.iter().flat_map(|entry| &entry.delivered).chain(delivered));
        let began = Instant::now();
        let (first, upper) = (first.first, last.upper);
        let is_far_behind = || checkpoints.facts.load(Ordering::Relaxed) > FACTS_BEHIND;
        let pages = pages::run(&entries);
        let nodes = pages.ids();
        let mut pages = pages.map(|chunk| Ok((Part::Newest, chunk))).inspect(|_| {
            if let Some(breath) = breath {
                breath.may_rest(!is_far_behind());
            }
        });
        let mut chunks = Indexing::new(&mut pages, nodes);
        let mut all = chunks.by_ref().chain(batches::of_entries(&entries));
        let written = store.checkpoint(graph.id(), NewRun { first, upper, chunks: &mut all }, &next);
        drop(all);
        let info = match written {
            // It was dropped meanwhile, and there is nothing more to be written.
            Err(StoreError::NoSuchGraph(_)) => return Ok(true),
            written => written?,
        };
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

/// No checkpoint is made as long as this is held. Whoever wants both holds off merges first.
pub(crate) fn no_checkpoints(graph: &Graph) -> MutexGuard<'_, Progress> {
    lock(&graph.checkpoints().progress)
}

/// Adds what an entry says of sources.
fn note_sources(progress: &mut Progress, entry: &Entry) {
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
}

/// Adds how far outputs have delivered, one after another.
fn note_delivered<'d>(progress: &mut Progress, delivered: impl Iterator<Item = &'d Delivered>) {
    let mut known: BTreeMap<(QueryId, Text), Delivered> =
        std::mem::take(&mut progress.delivered).into_iter().map(|known| ((known.query, known.output.clone()), known)).collect();
    for delivered in delivered {
        let key = (delivered.query, delivered.output.clone());
        if delivered.is_gone() {
            known.remove(&key);
        } else if known.get(&key).is_none_or(|known| known.tick <= delivered.tick) {
            known.insert(key, delivered.clone());
        }
    }
    progress.delivered = known.into_values().collect();
}

/// What of the runs of a graph is needed for the present, as it was stored.
pub struct Pages {
    runs: Vec<(RunInfo, Vec<Chunk>)>,
    upto: Tick,
}

/// Reads it, pieces of runs side by side.
pub fn read_pages(store: &dyn Store, graph: GraphId, upto: Tick, threads: usize, loading: &Loading) -> Result<Pages, StoreError> {
    let infos = store.runs(graph)?;
    // Each checkpoint moves on where the runs end.
    let end = infos.iter().map(|run| run.upper).max().unwrap_or_default();
    if end != upto {
        return Err(StoreError::damaged("the runs do not end where the log begins", format!("graph {}", graph.0)));
    }
    let read = side_by_side(threads, infos.iter().flat_map(pieces).collect(), |(run, numbers)| {
        let read = numbers.map(|number| read_chunk(store, graph, run, number)).inspect(|_| loading.pages.one());
        read.collect::<Result<Vec<Chunk>, _>>()
    })?;
    let mut read = read.into_iter();
    let runs = infos.iter().map(|run| (*run, read.by_ref().take(pieces(run).count()).flatten().collect()));
    Ok(Pages { runs: runs.collect(), upto })
}

fn pieces(run: &RunInfo) -> impl Iterator<Item = (&RunInfo, Range<u64>)> {
    let (count, at_once) = (run.chunks[0], CHUNKS_AT_ONCE as u64);
    (0..count.div_ceil(at_once)).map(move |part| (run, part * at_once..count.min((part + 1) * at_once)))
}

fn read_chunk(store: &dyn Store, graph: GraphId, run: &RunInfo, number: u64) -> Result<Chunk, StoreError> {
    let place = || format!("run {} of graph {}, chunk {number}", run.id.0, graph.0);
    let bytes = store.chunk(graph, run.id, Part::Newest, number)?;
    let bytes = bytes.ok_or_else(|| StoreError::damaged(format!("one of {} chunks is missing", run.chunks[0]), place()))?;
    let mut chunk = Chunk::read(&bytes, run.upper).ok_or_else(|| StoreError::damaged("a page", place()))?;
    chunk.settle();
    Ok(chunk)
}

/// The graph as of its checkpoint and what of the log after it is given, one batch a shard. `log` is what needs no replay: all
/// results of it were delivered, so it becomes pages as a checkpoint would have made them, but in memory.
pub fn load_base(
    store: &dyn Store,
    graph: GraphId,
    pages: Pages,
    log: Vec<Entry>,
    shards: usize,
) -> Result<(Base, Vec<Run>), EngineError> {
    let upper = log.last().map_or(pages.upto, |entry| entry.upper);
    // A graph that nothing was written to begins with nothing.
    if pages.runs.is_empty() && log.is_empty() {
        return Ok((Base { shards: Vec::new(), upper }, Vec::new()));
    }
    let (mut chunks, mut runs) = (Vec::new(), Vec::new());
    for (info, mut of_run) in pages.runs {
        runs.push(finish_run(store, graph, (&info, upper), &mut of_run, shards)?);
        chunks.push(of_run);
    }
    chunks.extend(side_by_side(shards, stretches(log), |entries| {
        Ok(pages::run(&entries)
            .map(|mut chunk| {
                chunk.settle();
                chunk.set_time(upper);
                chunk
            })
            .collect::<Vec<Chunk>>())
    })?);
    let put_together = |index| Ok(pages::newest(&chunks, Shard { index, count: shards }, upper));
    let shards = side_by_side(shards, (0..shards).collect(), put_together)?;
    Ok((Base { shards, upper }, runs))
}

/// Entries in portions, each enough for a run.
fn stretches(log: Vec<Entry>) -> Vec<Vec<Entry>> {
    let (mut stretches, mut facts) = (Vec::new(), FACTS_PER_RUN);
    for entry in log {
        if facts >= FACTS_PER_RUN {
            stretches.push(Vec::new());
            facts = 0;
        }
        facts += entry.mutations.rows.len();
        if let Some(stretch) = stretches.last_mut() {
            stretch.push(entry);
        }
    }
    stretches
}

/// Puts ids in place of the numbers in the chunks of a run that are settled, and one time in place of all; gives the run.
fn finish_run(
    store: &dyn Store,
    graph: GraphId,
    (run, upper): (&RunInfo, Tick),
    chunks: &mut [Chunk],
    threads: usize,
) -> Result<Run, StoreError> {
    let damaged = |what: &str| StoreError::damaged(what, format!("run {} of graph {}", run.id.0, graph.0));
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
    let nobody = || nameless(graph, run.id);
    let add = |chunk| {
        attend();
        names.add(chunk)
    };
    chunks.iter().try_for_each(add).ok_or_else(nobody)?;
    side_by_side(threads, chunks.chunks_mut(CHUNKS_AT_ONCE).collect(), |part| {
        part.iter_mut()
            .try_for_each(|chunk| {
                attend();
                chunk.set_time(upper);
                chunk.name(names.ids())
            })
            .ok_or_else(nobody)
    })?;
    let stored = Run::stored(run, index);
    Ok(if has_past { stored } else { stored.without_past() })
}

/// Does something with each item, whichever of the threads is free; what comes of them, in their order.
fn side_by_side<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    act: impl Fn(T) -> Result<R, StoreError> + Sync,
) -> Result<Vec<R>, StoreError> {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || lock(&items).next();
    let work = || -> Result<Vec<(usize, R)>, StoreError> {
        holds_graph();
        let mut done = Vec::new();
        while let Some((number, item)) = next() {
            done.push((number, act(item)?));
        }
        Ok(done)
    };
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(joined).collect::<Result<Vec<_>, StoreError>>()
    })?;
    let mut done: Vec<(usize, R)> = done.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// What a thread found; a panic goes on in the one that waited.
pub fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use weir_model::{Mutations, NodeId, Value};

    use super::*;
    use crate::store::InMemory;
    use crate::{Engine, Options};

    #[test]
    fn none_is_made_behind_one_that_only_the_store_knows_of() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let write = |n: u64| {
            let mut record = Mutations::default();
            record.set_property(NodeId::spread(n), graph.symbols().intern("x"), &Value::Integer(1));
            graph.apply(record, 1).unwrap()
        };
        let first = write(1);
        make(&graph, first).unwrap();
        let second = write(2);
        // As after a panic in between.
        let known = std::mem::take(&mut *no_checkpoints(&graph));
        let refused = make(&graph, second);
        assert!(matches!(refused, Err(EngineError::Panicked(_))), "{refused:?}");
        *no_checkpoints(&graph) = known;
        make(&graph, second).unwrap();
        assert_eq!(no_checkpoints(&graph).upto, second);
        engine.shutdown().unwrap();
    }
}
