//! A graph out of its store: pages and what of the log needs no replay are read together, the rest is replayed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::lock::lock;
use weir_model::{Position, QueryId, Text, Tick};

use super::{Graph, RESULTS_WAITING_MAX};
use crate::arrangement::LastChanges;
use crate::arrangement::build::Shard;
use crate::checkpoint::{self, Checkpoints, ENTRY_WEIGHT};
use crate::commit::wall_clock_millis;
use crate::engine::{GraphOptions, Parts};
use crate::error::EngineError;
use crate::history::run::Run;
use crate::memory;
use crate::store::{Delivered, Entry, GraphId, Progress, StoreError, reserved};

/// A graph whose last change is later than the system's clock by more milliseconds than these is told of: not what the clock is
/// put right by now and then.
const CLOCK_BACK_MAX: u64 = 1000;

/// After this many entries a replay looks whether too many results wait. Not after each: there may be thousands of queries.
const ENTRIES_BETWEEN_LOOKS: usize = 16;

/// Between two looks while it waits.
const RESULTS_LOOK: Duration = Duration::from_millis(10);

/// A replay does not wait for outputs that have taken nothing for this long.
const OUTPUTS_PATIENCE: Duration = Duration::from_secs(60);

/// What is known of a graph when it is opened, besides its base.
#[derive(Default)]
pub struct Loaded {
    /// It was in the store: its log is replayed by `start`, and nothing is committed before.
    pub was_there: bool,
    pub sources: FxHashMap<Text, Position>,
    /// What was delivered, by query and output.
    pub delivered: FxHashMap<(QueryId, Text), (Tick, Position)>,
    /// Those of `delivered` of which entries after the checkpoint say something.
    logged: FxHashSet<(QueryId, Text)>,
    /// From where on each query needs the log.
    pub needs: FxHashMap<QueryId, Tick>,
    /// Entries of the log that are replayed.
    pub tail: Vec<Arc<Entry>>,
    pub checkpoints: Checkpoints,
    /// The runs of pages.
    pub runs: Vec<Run>,
    /// The changes in entries after the checkpoint.
    pub last_changes: Arc<LastChanges>,
}

impl Loaded {
    /// A checkpoint may know more of delivery than the entries after it.
    fn note(&mut self, delivered: &Delivered) {
        let key = (delivered.query, delivered.output.clone());
        if delivered.is_gone() {
            self.delivered.remove(&key);
            return;
        }
        let known = self.delivered.entry(key).or_default();
        if known.0 <= delivered.tick {
            *known = (delivered.tick, delivered.position.clone());
        }
    }

    /// Of what was logged before, every output of a query has all results, and every sum of a pause and of what is held. An
    /// output is in the log from its beginning on; what a checkpoint knows of one that had not come as far as the checkpoint
    /// itself is of a query that never came to be.
    fn note_needs(&mut self, upto: Tick) {
        // That there is a beginning needs nothing; the outputs that have not got past it do.
        let is_over =
            |output: &Text, position: &Position| reserved::OVER_WHEN_EMPTY.contains(&output.as_str()) && position.0.is_empty();
        let counts = |key: &(QueryId, Text), tick: Tick| tick >= upto || self.logged.contains(key);
        let known = self.delivered.iter().filter(|(key, (tick, position))| counts(key, *tick) && !is_over(&key.1, position));
        for ((query, _), (tick, _)) in known {
            let needs = self.needs.entry(*query).or_insert(*tick);
            *needs = (*needs).min(*tick);
        }
    }
}

impl Graph {
    /// Reads a graph from its store: as its base the newest pages and what of the log needs no replay, the rest of the log for
    /// `replay`.
    pub(crate) fn load(parts: &Parts, id: GraphId, name: String, options: GraphOptions) -> Result<Graph, EngineError> {
        let began = Instant::now();
        let progress = parts.store.progress(id)?;
        // Definitions are read one by one later, when much is under way already.
        parts.store.list_metadata(&id.metadata_prefix())?;
        let threads = parts.workers.count();
        // The log beside the pages.
        let (pages, log) = std::thread::scope(|scope| {
            let log = scope.spawn(|| {
                memory::holds_graph();
                Graph::read_log(parts, id, &progress)
            });
            (checkpoint::read_pages(&*parts.store, id, progress.upto, threads, &parts.loading), checkpoint::joined(log))
        });
        let (pages, (mut loaded, mut log)) = (pages?, log?);
        // As much as a checkpoint could have taken in by then.
        loaded.note_needs(progress.upto);
        let needed = loaded.needs.values().min().copied().unwrap_or(Tick::MAX);
        let tail = log.split_off(log.partition_point(|entry| entry.upper <= needed));
        let (read, replayed) = (log.len(), tail.len());
        loaded.tail = tail.into_iter().map(Arc::new).collect();
        // By a thread of its own: what this one allocates later is not the graph.
        let (base, runs) = std::thread::scope(|scope| {
            let load = || {
                memory::holds_graph();
                checkpoint::load_base(&*parts.store, id, pages, log, threads)
            };
            checkpoint::joined(scope.spawn(load))
        })?;
        loaded.runs = runs;
        let facts: usize = base.shards.iter().map(|shard| shard.len()).sum();
        tracing::debug!(graph = name, facts, read, replayed, took = ?began.elapsed(), "read from the store");
        let graph = Graph::new(parts, id, name, options, progress.upto, base, loaded)?;
        let ahead = graph.known_end().millis().saturating_sub(wall_clock_millis());
        if ahead > CLOCK_BACK_MAX {
            let seconds = ahead / 1000;
            tracing::warn!(
                graph = graph.name(),
                seconds,
                "the clock was set back: until it is where it was, time stands still for this graph"
            );
        }
        // All of it was read from the store. So results leave as they are found, and those of a long log do not lie in memory
        // until its end.
        parts.log.set_durable(id, graph.known_end());
        Ok(graph)
    }

    /// What the log holds beyond the checkpoint, and what is known with it.
    fn read_log(parts: &Parts, id: GraphId, progress: &Progress) -> Result<(Loaded, Vec<Entry>), StoreError> {
        let checkpoints = Checkpoints::resume(progress.clone());
        let mut loaded = Loaded { was_there: true, checkpoints, ..Loaded::default() };
        loaded.sources.extend(progress.sources.iter().cloned());
        progress.delivered.iter().for_each(|delivered| loaded.note(delivered));
        let mut log = Vec::new();
        parts.store.read_log(id, progress.upto, &mut |entry| {
            parts.loading.read.fetch_add(1, Ordering::Relaxed);
            loaded.sources.extend(entry.sources.iter().cloned());
            entry.delivered.iter().for_each(|delivered| loaded.note(delivered));
            loaded.logged.extend(entry.delivered.iter().map(|delivered| (delivered.query, delivered.output.clone())));
            loaded.checkpoints.logged().fetch_add(entry.mutations.rows.len() + ENTRY_WEIGHT, Ordering::Relaxed);
            loaded.last_changes.note(entry.first, &entry.mutations);
            log.push(entry);
            Ok(())
        })?;
        loaded.sources.retain(|_, position| !position.0.is_empty());
        Ok((loaded, log))
    }

    /// Shows reads the end of the log, in batches that are made of its tail and let go of when the workers have come so far.
    pub(crate) fn look_ahead(&self) -> Result<(), EngineError> {
        let tail = lock(&self.inner.tail).clone();
        let (Some(base), Some(last)) = (lock(&self.inner.base).take(), tail.last()) else {
            return self.committer().wait_replayed_all();
        };
        let began = Instant::now();
        let count = self.inner.parts.workers.count();
        let shard = |index| {
            memory::holds_graph();
            crate::shard::look_ahead(base.shards.get(index).cloned(), &tail, Shard { index, count })
        };
        let shards = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|index| {
                    scope.spawn({
                        let shard = &shard;
                        move || shard(index)
                    })
                })
                .collect();
            threads.into_iter().map(checkpoint::joined).collect()
        });
        self.inner.ahead.store(Some(Arc::new(self.published().ahead(shards, last.upper.0))));
        tracing::debug!(graph = self.name(), entries = tail.len(), took = ?began.elapsed(), "reads see the end of the log");
        Ok(())
    }

    pub(crate) fn replay(&self) -> Result<(), EngineError> {
        self.replay_through(Valve::new(self))
    }

    fn replay_through(&self, mut valve: Valve<'_>) -> Result<(), EngineError> {
        let began = Instant::now();
        lock(&self.inner.base).take();
        let (committer, loading) = (&self.inner.committer, &self.inner.parts.loading);
        let mut tail = std::mem::take(&mut *lock(&self.inner.tail)).into_iter().peekable();
        let mut sent = VecDeque::new();
        while let Some(entry) = tail.next() {
            sent.push_back(entry.upper);
            valve.wait()?;
            committer.replay(entry, tail.peek().is_none())?;
            self.wait_for_stages();
            let applied = self.inner.published.upper();
            while sent.front().is_some_and(|end| *end <= applied) {
                sent.pop_front();
                loading.entries.one();
            }
        }
        for end in sent {
            committer.wait_replayed(end)?;
            loading.entries.one();
        }
        committer.wait_replayed_all()?;
        self.inner.ahead.store(None);
        committer.end_replay();
        tracing::debug!(graph = self.name(), took = ?began.elapsed(), "replayed the log");
        Ok(())
    }
}

/// Has a replay wait as ingest does, while more results of a query wait than `results_max`: outputs run by then, and what they
/// have not taken lies in memory. One that takes nothing may be down, or write to the graph, which it cannot before the replay
/// has ended. For such a one a start waits once, and not for long.
struct Valve<'g> {
    graph: &'g Graph,
    results_max: usize,
    patience: Duration,
    /// Entries since the last look.
    entries: usize,
    /// Queries of which too many wait: how many did when that changed last, and when that was.
    held: FxHashMap<QueryId, (usize, Instant)>,
    /// Those whose outputs are not waited for any more.
    left: FxHashSet<QueryId>,
}

impl Valve<'_> {
    fn new(graph: &Graph) -> Valve<'_> {
        let (results_max, patience) = (RESULTS_WAITING_MAX, OUTPUTS_PATIENCE);
        Valve { graph, results_max, patience, entries: 0, held: FxHashMap::default(), left: FxHashSet::default() }
    }

    /// Before each entry. Ends with the graph, or with weir.
    fn wait(&mut self) -> Result<(), EngineError> {
        self.entries += 1;
        if self.entries < ENTRIES_BETWEEN_LOOKS {
            return Ok(());
        }
        self.entries = 0;
        let waits = &self.graph.parts().loading.waits;
        let mut goes_on = Ok(());
        while goes_on.is_ok() && self.holds() {
            waits.store(true, Ordering::Relaxed);
            std::thread::sleep(RESULTS_LOOK);
            goes_on = self.graph.committer().check_there();
            if self.graph.is_closing() {
                goes_on = Err(EngineError::Closing);
            }
        }
        waits.store(false, Ordering::Relaxed);
        self.held.clear();
        goes_on
    }

    /// Whether too many results wait that are being taken. Nothing is replayed meanwhile, so what changes was taken, or had been
    /// found just before.
    fn holds(&mut self) -> bool {
        let many: Vec<(QueryId, usize)> = {
            let standing = self.graph.standing();
            let waiting = standing.iter().map(|(query, state)| (*query, state.inbox.waiting()));
            waiting.filter(|(query, waiting)| *waiting > self.results_max && !self.left.contains(query)).collect()
        };
        let mut holds = false;
        for (query, waiting) in many {
            let (last, since) = self.held.entry(query).or_insert_with(|| (waiting, Instant::now()));
            if *last != waiting {
                (*last, *since) = (waiting, Instant::now());
            }
            if since.elapsed() < self.patience {
                holds = true;
                continue;
            }
            let (graph, waited) = (self.graph.name(), self.patience);
            tracing::warn!(
                graph,
                query = %query.0,
                "its outputs have taken none of {waiting} results in {waited:?}: the start goes on, and memory holds the rest"
            );
            self.left.insert(query);
        }
        holds
    }
}

#[cfg(all(test, feature = "rocks-db"))]
mod tests {
    use weir_cypher_compiler::{StandingMode, compile_standing};
    use weir_model::{Mutations, NodeId, Value};

    use super::*;
    use crate::index::hold_workers;
    use crate::standing::{Standing, StandingQuery, Start};
    use crate::store::conformance::FaultyStore;
    use crate::store::{RocksDb, RocksDbOptions, Store, lives};
    use crate::view::View;
    use crate::{Engine, Options};

    /// More than wait for the workers at a time while they are replayed.
    const RECORDS: usize = 600;

    fn install(graph: &Graph, start: Start) -> StandingQuery {
        let text = "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id";
        let plan = compile_standing(text, StandingMode::DistinctId, &Default::default()).expect("it compiles").plan;
        let id = QueryId(NodeId::new(1, 7));
        let standing = Standing { id, plan, cancellations: true, start, outputs: vec!["file".into()] };
        graph.install(standing).expect("it can be maintained")
    }

    #[test]
    fn a_life_begins_with_the_first_change_after_a_start() {
        let temporary = tempfile::tempdir().unwrap();
        let rocks_db = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let store = Arc::new(FaultyStore::new(rocks_db.clone(), usize::MAX));
        let write = |graph: &Graph| {
            let mut record = Mutations::default();
            record.set_property(NodeId::spread(1), graph.symbols().intern("x"), &Value::Integer(1));
            graph.apply(record, 1)
        };
        let begins = |graph: &Graph| -> Vec<Tick> {
            lives::lives_of(&*rocks_db, graph.id()).unwrap().iter().map(|life| life.begins).collect()
        };
        let mut expected = Vec::new();
        for _ in 0..3 {
            let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
            engine.start().unwrap();
            let graph = engine.default_graph();
            // Who only looks writes nothing.
            assert_eq!(begins(&graph), expected);
            let end = graph.next();
            // Nobody could tell what is written then from what is lost.
            store.takes_no_metadata.store(true, Ordering::SeqCst);
            let refused = write(&graph).unwrap_err().to_string();
            assert!(refused.contains("No space left"), "{refused}");
            assert_eq!(graph.next(), end);
            store.takes_no_metadata.store(false, Ordering::SeqCst);
            expected.push(end);
            for _ in 0..2 {
                write(&graph).unwrap();
                assert_eq!(begins(&graph), expected);
            }
            engine.shutdown().unwrap();
        }
    }

    #[test]
    fn what_was_written_last_is_known_after_a_start() {
        let temporary = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let open = || Engine::open(store.clone(), Options { workers: 2, ..Options::default() }).unwrap();
        let newest_first = [2, 1, 3].map(NodeId::spread);
        {
            let engine = open();
            engine.start().unwrap();
            let graph = engine.default_graph();
            for node in newest_first.into_iter().rev() {
                let mut record = Mutations::default();
                record.set_property(node, graph.symbols().intern("x"), &Value::Integer(1));
                graph.apply(record, 1).unwrap();
            }
            graph.wait_visible().unwrap();
            assert_eq!(graph.snapshot().recent(9), newest_first);
            engine.shutdown().unwrap();
        }
        let engine = open();
        let graph = engine.default_graph();
        engine.open_reads().unwrap();
        assert_eq!(graph.snapshot().recent(9), newest_first);
        engine.start().unwrap();
        assert_eq!(graph.snapshot().recent(2), newest_first[..2]);
        engine.shutdown().unwrap();
    }

    /// All of them lay in memory, and a start for which that is too small ended so each time.
    #[test]
    fn a_replay_waits_for_outputs_that_take_what_it_finds() {
        let temporary = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let open = || Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        let records = 2 * RECORDS;
        let mut end = Tick::ZERO;
        {
            let engine = open();
            engine.start().unwrap();
            let graph = engine.default_graph();
            let _query = install(&graph, Start::WholeGraph);
            for n in 0..records as u64 {
                let mut record = Mutations::default();
                record.set_property(NodeId::spread(n), graph.symbols().intern("x"), &Value::Integer(1));
                end = graph.apply(record, 1).unwrap();
            }
            engine.shutdown().unwrap();
        }
        for takes in [false, true] {
            let engine = open();
            let graph = engine.default_graph();
            let query = install(&graph, Start::Resume);
            let waits = &graph.parts().loading.waits;
            let mut rows = 0;
            let waited = std::thread::scope(|scope| {
                let mut valve = Valve { results_max: 50, ..Valve::new(&graph) };
                if !takes {
                    valve.patience = Duration::from_secs(1);
                }
                let replaying = scope.spawn(|| graph.replay_through(valve));
                while !waits.load(Ordering::Relaxed) && !replaying.is_finished() {
                    std::thread::yield_now();
                }
                let waited = !replaying.is_finished();
                while takes && !replaying.is_finished() {
                    let batch = query.next(Duration::from_millis(10)).unwrap();
                    rows += batch.map_or(0, |batch| batch.rows.len());
                }
                replaying.join().unwrap().unwrap();
                waited
            });
            assert!(waited, "{takes}");
            assert!(!waits.load(Ordering::Relaxed));
            engine.start().unwrap();
            while takes && rows < records {
                rows += query.next(Duration::from_secs(20)).unwrap().expect("results within 20 s").rows.len();
            }
            assert!(graph.next() >= end);
            engine.shutdown().unwrap();
        }
    }

    #[test]
    fn results_leave_while_the_log_is_replayed() {
        let temporary = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let open = || Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        let mut uppers = Vec::new();
        {
            let engine = open();
            engine.start().unwrap();
            let graph = engine.default_graph();
            let _query = install(&graph, Start::WholeGraph);
            for n in 0..RECORDS as u64 {
                let mut record = Mutations::default();
                let node = NodeId::spread(n);
                record.set_property(node, graph.symbols().intern("x"), &Value::Integer(1));
                uppers.push(graph.apply(record, 1).unwrap());
            }
            engine.shutdown().unwrap();
        }
        let engine = open();
        let graph = engine.default_graph();
        let query = install(&graph, Start::Resume);
        let next = || query.next(Duration::from_secs(20)).unwrap().expect("results within 20 s");
        let held = hold_workers(&graph);
        let mut rows = 0;
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| engine.start());
            while graph.next() < uppers[0] && !starting.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // While this is asked, nothing more is replayed.
            let mut asked = false;
            while !asked {
                let outputs = || {
                    asked = true;
                    held.recv().unwrap();
                    while rows == 0 {
                        rows += next().rows.len();
                    }
                    Vec::new()
                };
                graph.committer().note_progress(Duration::ZERO, outputs);
                std::thread::yield_now();
            }
            starting.join().unwrap().unwrap();
        });
        assert!(rows < RECORDS, "something was to come");
        loop {
            let batch = next();
            rows += batch.rows.len();
            if batch.upper >= uppers[RECORDS - 1] {
                break;
            }
        }
        assert_eq!(rows, RECORDS);
        engine.shutdown().unwrap();
    }
}
