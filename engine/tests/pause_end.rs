//! The end of a pause and the log that says so: whatever a checkpoint lets go of, and whatever of the log is lost after it, a
//! query is not paused again by a restart, and tells nothing twice. The same of what is held back and asked for.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(feature = "rocks-db")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{compile, node};
use weir_cypher_compiler::StandingMode;
use weir_engine::store::reserved::PAUSED;
use weir_engine::store::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, RocksDb, RocksDbOptions, RunId, RunInfo, Sizes,
    Store, StoreError,
};
use weir_engine::{Engine, Graph, Options, Standing, StandingQuery, Start, checkpoint};
use weir_model::{Mutations, NodeId, Position, QueryId, Text, Tick};

const OUTPUT: &str = "file";

/// A store of which, from some tick on, entries of the log never reach the disk: as when the process is killed before they do. It
/// says they are there.
struct Losing {
    store: RocksDb,
    /// The next entry that says something of a pause is lost, and all after it.
    armed: AtomicBool,
    /// The next entry is the last that is kept.
    last: AtomicBool,
    /// Entries that begin here or later are lost.
    from: AtomicU64,
}

impl Losing {
    fn open(path: &Path) -> Arc<Losing> {
        let begun = Instant::now();
        let store = loop {
            match RocksDb::open(RocksDbOptions::new(path)) {
                Ok(store) => break store,
                Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let (armed, last) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Losing { store, armed, last, from: AtomicU64::new(u64::MAX) })
    }
}

impl Store for Losing {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }
    fn durable(&self) -> bool {
        self.store.durable()
    }
    fn hold(&self, entry: &Arc<Entry>) {
        self.store.hold(entry);
    }
    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError> {
        let says = |entry: &&EncodedEntry<'_>| entry.bytes.windows(PAUSED.len()).any(|bytes| bytes == PAUSED.as_bytes());
        if self.armed.load(Ordering::SeqCst)
            && let Some(first) = group.iter().find(says)
        {
            self.armed.store(false, Ordering::SeqCst);
            self.from.store(first.first.0, Ordering::SeqCst);
        }
        if let Some(first) = group.first()
            && self.last.swap(false, Ordering::SeqCst)
        {
            self.from.store(first.first.0 + 1, Ordering::SeqCst);
        }
        let from = self.from.load(Ordering::SeqCst);
        let kept: Vec<EncodedEntry<'_>> = group.iter().filter(|entry| entry.first.0 < from).copied().collect();
        self.store.append(&kept, symbols, sync)
    }
    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.read_log(graph, from, each)
    }
    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.store.checkpoint(graph, run, progress)
    }
    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        self.store.replace_runs(graph, replaced, run)
    }
    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        self.store.runs(graph)
    }
    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.read_run(graph, run, part, each)
    }
    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.chunk(graph, run, part, number)
    }
    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        self.store.progress(graph)
    }
    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        self.store.create_graph(name, options)
    }
    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        self.store.drop_graph(graph)
    }
    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError> {
        self.store.graphs()
    }
    fn symbols(&self) -> Result<Vec<Text>, StoreError> {
        self.store.symbols()
    }
    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.metadata(key)
    }
    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.store.put_metadata(key, value)
    }
    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete_metadata(key)
    }
    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store.list_metadata(prefix)
    }
    fn loaded(&self, sound: bool) {
        self.store.loaded(sound);
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }
    fn sizes(&self) -> Result<Sizes, StoreError> {
        self.store.sizes()
    }
}

struct Life {
    store: Arc<Losing>,
    engine: Engine,
    graph: Graph,
    query: StandingQuery,
}

fn open(path: &Path) -> (Arc<Losing>, Engine) {
    let store = Losing::open(path);
    let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
    (store, engine)
}

fn install(graph: &Graph, start: Start) -> StandingQuery {
    let plan = compile(StandingMode::MultipleValues, "MATCH (n:A) RETURN id(n) AS id");
    let id = QueryId(NodeId::new(1, 7));
    graph.install(Standing { id, plan, cancellations: true, start, outputs: vec![OUTPUT.into()] }).unwrap()
}

fn live(path: &Path, start: Start) -> Life {
    let (store, engine) = open(path);
    let graph = engine.default_graph();
    let query = install(&graph, start);
    engine.start().unwrap();
    Life { store, engine, graph, query }
}

fn label(graph: &Graph, number: u64, there: bool) -> Tick {
    let mut record = Mutations::default();
    record.set_label(node(number), graph.symbols().intern("A"), there);
    graph.apply(record, 1).unwrap()
}

impl Life {
    fn label(&self, number: u64, there: bool) -> Tick {
        label(&self.graph, number, there)
    }

    /// What comes before a tick, whether an output would skip it or not.
    fn come(&self, upper: Tick) -> Vec<(Tick, bool)> {
        let mut found = Vec::new();
        loop {
            let batch = self.query.next(Duration::from_secs(20)).unwrap().expect("results within 20 s");
            found.extend(batch.rows.iter().map(|row| (row.tick, row.positive)));
            self.query.set_delivered(OUTPUT, batch.upper, Position::default(), !batch.rows.is_empty());
            if batch.upper >= upper {
                return found;
            }
        }
    }

    /// As `kill -9`.
    fn end(self) {
        let store = self.store.clone();
        drop((self.query, self.graph, self.engine, self.store));
        let begun = Instant::now();
        // A thread that was at work lets go of the store a moment later.
        while Arc::strong_count(&store) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(20), "somebody holds the store");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Ends a pause in which two nodes came, and lets everything be delivered. `lost`: the entry that says that the pause is over,
/// and all after it, never reach the disk. Then a checkpoint lets go of the log, the process is killed, and nothing comes again.
fn ends(lost: bool) {
    let directory = tempfile::tempdir().unwrap();
    let life = live(directory.path(), Start::WholeGraph);
    let upper = life.label(1, true);
    assert_eq!(life.come(upper).len(), 1);
    life.query.pause().unwrap();
    let upper = life.label(2, true);
    assert!(life.come(upper).is_empty());
    let upper = life.label(3, true);
    assert!(life.come(upper).is_empty());
    life.graph.wait_durable(life.graph.next()).unwrap();
    if lost {
        life.store.armed.store(true, Ordering::SeqCst);
    }
    assert!(life.query.resume().unwrap());
    let end = life.query.summed_until();
    let told = life.come(end);
    assert_eq!(told.iter().filter(|(_, positive)| *positive).count(), 2, "{told:?}");
    // One batch more, and it is forgotten.
    life.query.set_delivered(OUTPUT, end, Position::default(), true);
    let upper = life.label(9, false);
    assert!(life.come(upper).is_empty());
    assert!(life.query.paused().is_none());
    life.graph.wait_durable(life.graph.next()).unwrap();
    checkpoint::make(&life.graph, if lost { end } else { upper }).unwrap();
    life.end();

    let life = live(directory.path(), Start::Resume);
    assert!(life.query.paused().is_none(), "the pause was over");
    let upper = life.label(4, true);
    let told = life.come(upper);
    assert_eq!(told.len(), 1, "only what is new: {told:?}, the pause ended at {end}");
    assert!(!life.query.resume().unwrap());
    // And nothing is left of it when the query goes.
    life.graph.drop_standing(life.query.id());
    let upper = life.graph.apply(Mutations::default(), 1).unwrap();
    life.graph.wait_durable(upper).unwrap();
    checkpoint::make(&life.graph, upper).unwrap();
    let left = life.store.progress(life.graph.id()).unwrap().delivered;
    assert!(left.is_empty(), "{left:?}");
    life.end();
}

#[test]
fn a_pause_that_is_over_stays_so_when_the_log_that_says_it_is_let_go_of() {
    ends(false);
}

#[test]
fn a_pause_that_is_over_stays_so_when_the_log_that_says_it_is_lost() {
    ends(true);
}

/// Of the log, the entry of the tick at which the pause ends reaches the disk, and nothing after it; what the tick brings is told
/// before the process is killed.
#[test]
fn the_tick_that_ends_a_pause_says_so_itself() {
    let directory = tempfile::tempdir().unwrap();
    let life = live(directory.path(), Start::WholeGraph);
    let upper = life.label(1, true);
    assert_eq!(life.come(upper).len(), 1);
    life.query.pause().unwrap();
    let upper = life.label(2, true);
    assert!(life.come(upper).is_empty());
    life.graph.wait_durable(life.graph.next()).unwrap();
    life.store.last.store(true, Ordering::SeqCst);
    assert!(life.query.resume().unwrap());
    let end = life.query.summed_until();
    let brought = (Tick(end.0 - 1), true);
    assert_eq!(life.come(end), [brought]);
    life.end();

    let life = live(directory.path(), Start::Resume);
    assert!(life.query.paused().is_none(), "its end was told");
    assert_eq!(life.come(end).last(), Some(&brought), "at the same tick, by which it is known");
    life.end();
}

/// The entry of the tick at which what is held back is told reaches the disk, and nothing after it.
#[test]
fn the_tick_that_tells_what_is_held_says_so_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (store, engine) = open(directory.path());
    engine.start().unwrap();
    let graph = engine.default_graph();
    label(&graph, 1, true);
    let query = install(&graph, Start::Now);
    let life = Life { store, engine, graph, query };
    let upper = life.label(9, false);
    assert!(life.come(upper).is_empty());
    life.graph.wait_durable(life.graph.next()).unwrap();
    life.store.last.store(true, Ordering::SeqCst);
    assert!(life.query.propagate().unwrap());
    let end = life.graph.next();
    let brought = (Tick(end.0 - 1), true);
    assert_eq!(life.come(end), [brought]);
    life.end();

    let life = live(directory.path(), Start::Resume);
    assert_eq!(life.come(end).last(), Some(&brought), "it was told, and does not end silently");
    assert!(!life.query.propagate().unwrap(), "nothing is held any more");
    life.end();
}
