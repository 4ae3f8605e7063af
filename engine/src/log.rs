//! The log writer: makes what was committed durable, and tells from when on it is.
//!
//! One thread writes for all graphs. While a group is on its way to the store the next one gathers, so the cost of a
//! write is shared by as many entries as have come meanwhile and an idle log writes at once. After a failed write
//! nothing more is accepted: a later success would leave a hole in what was acknowledged.
//!
//!     room ─> submit ─> queue (bounded) ─> group: encoded entries + new symbols ─> Store::append ─> durable tick of each graph
//!
//! It knows nothing of the dataflow, which is fed side by side, and cuts nothing: that is `checkpoint`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::Tick;
use weir_model::lock::lock;

use crate::store::{EncodedEntry, Entry, GraphId, NewSymbols, Store, StoreError, encode};
use crate::symbols::Symbols;

/// Entries wait for their group in at most this much memory; as much again may be on its way to the store.
const QUEUE_BYTES_MAX: usize = 32 << 20;

#[derive(Clone, Copy)]
pub struct LogOptions {
    /// A group counts as durable when it survives the loss of power, not only the end of the process.
    pub sync: bool,
    pub queue_bytes_max: usize,
    /// A store that is not durable takes the entries all the same, for reads of the past.
    pub hold: bool,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { sync: false, queue_bytes_max: QUEUE_BYTES_MAX, hold: true }
    }
}

pub struct Log {
    shared: Arc<Shared>,
    /// None for a store that keeps nothing, and after `shutdown`.
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    store: Arc<dyn Store>,
    symbols: Arc<Symbols>,
    options: LogOptions,
    state: Mutex<State>,
    /// Whether nothing is accepted any more, for those who only ask that. Set with the state locked.
    refuses: AtomicBool,
    /// Bytes in line, and of entries that have room there. They become fewer only with the state locked, so that whoever waits
    /// for room misses none.
    taken: AtomicUsize,
    /// The writer waits here for entries.
    work: Condvar,
    /// Those who have something to submit wait here for room.
    room: Condvar,
    /// Those who wait for a tick to be durable wait here.
    progress: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<Arc<Entry>>,
    queue_bytes: usize,
    /// How many wait for room.
    waiting: usize,
    /// Since when there is too little for somebody, and nothing has left.
    full_since: Option<Instant>,
    graphs: FxHashMap<GraphId, Ticks>,
    /// Nothing of them becomes durable any more.
    dropped: FxHashSet<GraphId>,
    /// Nothing is accepted any more; what is in line is still written.
    stopping: bool,
    ended: bool,
    failed: Option<StoreError>,
}

#[derive(Default)]
struct Ticks {
    /// The end of the last entry that was given to the store; zero before this process wrote one.
    written: Tick,
    durable: Tick,
    /// Until when the last groups made everything durable, and at what time.
    groups: VecDeque<(Tick, Instant)>,
}

/// Groups whose time is remembered.
const GROUPS_MAX: usize = 1024;

impl Ticks {
    fn note(&mut self, upper: Tick, at: Instant) {
        self.durable = upper;
        match self.groups.back_mut() {
            Some((end, of)) if *of == at => *end = upper,
            _ => {
                if self.groups.len() == GROUPS_MAX {
                    self.groups.pop_front();
                }
                self.groups.push_back((upper, at));
            }
        }
    }
}

impl Log {
    /// `symbols` are as loaded from the store: those that are there now are taken as stored.
    pub fn start(store: Arc<dyn Store>, symbols: Arc<Symbols>, options: LogOptions) -> Log {
        let writes = store.durable();
        let stored_symbols = symbols.len();
        let shared = Arc::new(Shared {
            store,
            symbols,
            options,
            state: Mutex::default(),
            refuses: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            work: Condvar::new(),
            room: Condvar::new(),
            progress: Condvar::new(),
        });
        let spawn = || {
            let shared = shared.clone();
            std::thread::Builder::new().name("log".into()).spawn(move || Writer::new(&shared, stored_symbols).run())
        };
        let writer = match writes.then(spawn).transpose() {
            Ok(writer) => writer,
            Err(error) => {
                shared.fail(StoreError::failed("start the log's thread", error));
                None
            }
        };
        Log { shared, writer: Mutex::new(writer) }
    }

    /// Room in line for an entry. Waits while the line is full, so that a slow disk slows the sources, but not for longer than
    /// `patience`. Where nothing has left for so long, the disk is stuck, and who comes then does not wait at all: one after
    /// another has the graph locked. Nothing need be changed before it is known that the entry can go in.
    pub fn room(&self, entry: &Entry, patience: Duration) -> Result<Room<'_>, StoreError> {
        let (shared, bytes) = (&*self.shared, entry.size());
        // Mostly there is some, and only `submit` takes the lock.
        if !shared.refuses.load(Ordering::Acquire) && shared.take(bytes) {
            return Ok(Room { shared, bytes });
        }
        let begun = Instant::now();
        let mut state = shared.lock();
        loop {
            state.accepts()?;
            if shared.take(bytes) {
                return Ok(Room { shared, bytes });
            }
            let now = Instant::now();
            let since = *state.full_since.get_or_insert(now);
            let left = (begun.min(since) + patience).saturating_duration_since(now);
            if left.is_zero() {
                return Err(StoreError::TooSlow { graph: entry.graph, tick: entry.upper, patience });
            }
            state.waiting += 1;
            state = shared.room.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
            state.waiting -= 1;
        }
    }

    /// All the room there is, taken for so long that who comes is refused at once. There is to be nothing in line.
    #[cfg(test)]
    pub fn full(&self) -> Room<'_> {
        let (shared, bytes) = (&*self.shared, self.shared.options.queue_bytes_max);
        while !shared.take(bytes) {
            std::thread::yield_now();
        }
        let since = Instant::now().checked_sub(crate::commit::WORKERS_PATIENCE);
        shared.lock().full_since = Some(since.expect("the machine runs for a minute"));
        Room { shared, bytes }
    }

    /// Everything of the graph before this tick is durable.
    pub fn durable(&self, graph: GraphId) -> Tick {
        self.shared.lock().graphs.get(&graph).map_or(Tick::ZERO, |ticks| ticks.durable)
    }

    /// When everything of the graph before a tick became durable, if that was not long ago. None of a store that keeps nothing.
    pub fn durable_at(&self, graph: GraphId, upper: Tick) -> Option<Instant> {
        let state = self.shared.lock();
        let groups = &state.graphs.get(&graph)?.groups;
        let place = groups.partition_point(|(end, _)| *end < upper);
        // Of what was durable before the first group that is remembered, the time is not known.
        groups.get(place).filter(|_| place > 0 || groups.len() < GROUPS_MAX).map(|(_, at)| *at)
    }

    /// After a restart: what was read from the store is durable.
    pub fn set_durable(&self, graph: GraphId, upper: Tick) {
        let mut state = self.shared.lock();
        let ticks = state.graphs.entry(graph).or_default();
        ticks.durable = ticks.durable.max(upper);
        self.shared.progress.notify_all();
    }

    /// Waits until everything before `upper` is durable. Fails at once when that can no longer come to be.
    pub fn wait_durable(&self, graph: GraphId, upper: Tick, patience: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        loop {
            if state.dropped.contains(&graph) {
                return Err(StoreError::NoSuchGraph(graph));
            }
            // Of a graph that nothing was ever written to, nothing is missing.
            if state.graphs.get(&graph).map_or(Tick::ZERO, |ticks| ticks.durable) >= upper {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.ended {
                return Err(StoreError::Stopped);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::TooSlow { graph, tick: upper, patience });
            }
            state = self.shared.progress.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    /// Why nothing is accepted any more, if so.
    pub fn check(&self) -> Result<(), StoreError> {
        self.shared.lock().accepts()
    }

    /// Why a write failed, if one did: what was committed and is not durable will not be.
    pub fn failure(&self) -> Option<StoreError> {
        // Asked before every read, so mostly without the lock.
        self.shared.refuses.load(Ordering::Acquire).then(|| self.shared.lock().failed.clone()).flatten()
    }

    /// A graph was dropped: its ticks need not be known any more.
    pub fn forget(&self, graph: GraphId) {
        let mut state = self.shared.lock();
        state.graphs.remove(&graph);
        state.dropped.insert(graph);
        self.shared.progress.notify_all();
    }

    /// Writes what is in line, makes it survive the loss of power, and ends. Gives the error that kept it from that.
    pub fn shutdown(&self) -> Result<(), StoreError> {
        {
            let mut state = self.shared.lock();
            state.stopping = true;
            self.shared.refuses.store(true, Ordering::Release);
        }
        self.shared.work.notify_all();
        self.shared.room.notify_all();
        let writer = lock(&self.writer).take();
        let wrote = writer.is_some();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the log's thread ended by a panic");
        }
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.progress.notify_all();
        match state.failed.clone() {
            Some(error) => Err(error),
            None if wrote => {
                drop(state);
                self.shared.store.sync()
            }
            None => Ok(()),
        }
    }
}

/// Room in line for one entry. Dropping it gives it back.
#[must_use]
pub struct Room<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl Room<'_> {
    /// Puts the entry in line, at once. Entries of one graph are submitted in the order of their ticks. What was noted of
    /// delivery goes in on top, as it lay in memory already. Refused only where the log has failed, or was closed, since there
    /// was room.
    pub fn submit(mut self, entry: Arc<Entry>) -> Result<(), StoreError> {
        let (shared, reserved) = (self.shared, std::mem::take(&mut self.bytes));
        let mut state = shared.lock();
        if let Err(refused) = state.accepts() {
            shared.give_back(&mut state, reserved);
            return Err(refused);
        }
        if shared.store.durable() {
            let bytes = entry.size();
            shared.taken.fetch_add(bytes.saturating_sub(reserved), Ordering::Relaxed);
            state.queue_bytes += bytes.max(reserved);
            state.queue.push(entry);
            shared.work.notify_one();
        } else {
            shared.give_back(&mut state, reserved);
            if shared.options.hold {
                shared.store.hold(&entry);
            }
            if let Some(ticks) = state.ticks(entry.graph) {
                ticks.durable = entry.upper;
            }
            shared.progress.notify_all();
        }
        Ok(())
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.shared.give_back(&mut self.shared.lock(), self.bytes);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.shutdown() {
            tracing::error!(%error, "the log ended with an error");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything that could panic.
        lock(&self.state)
    }

    /// Whether there is room for so much; then it is taken.
    fn take(&self, bytes: usize) -> bool {
        // An entry larger than the bound goes alone.
        let fits = |taken: usize| taken == 0 || taken + bytes <= self.options.queue_bytes_max;
        let more = |taken: usize| fits(taken).then(|| taken + bytes);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// So much is there again, and those who wait for it are told.
    fn give_back(&self, state: &mut State, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        state.full_since = None;
        // To tell nobody is a call of the system, too.
        if state.waiting > 0 {
            self.room.notify_all();
        }
    }

    fn fail(&self, error: StoreError) {
        tracing::error!(%error, "the log refuses further writes");
        let mut state = self.lock();
        state.failed.get_or_insert(error.poisoned());
        self.refuses.store(true, Ordering::Release);
        state.queue.clear();
        let bytes = std::mem::take(&mut state.queue_bytes);
        self.give_back(&mut state, bytes);
        self.progress.notify_all();
    }
}

impl State {
    fn accepts(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.stopping => Err(StoreError::Stopped),
            None => Ok(()),
        }
    }

    /// None of a graph that was dropped: some of its entries may still be in line.
    fn ticks(&mut self, graph: GraphId) -> Option<&mut Ticks> {
        (!self.dropped.contains(&graph)).then(|| self.graphs.entry(graph).or_default())
    }
}

struct Writer<'a> {
    shared: &'a Shared,
    /// How many symbols the store has.
    stored_symbols: usize,
    /// The entries of a group, one after another.
    encoded: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Writer<'a> {
    fn new(shared: &'a Shared, stored_symbols: usize) -> Writer<'a> {
        Writer { shared, stored_symbols, encoded: Vec::new(), ends: Vec::new() }
    }

    fn run(mut self) {
        let watch = PanicWatch(self.shared);
        let mut group = Vec::new();
        while self.next_group(&mut group) {
            if let Err(error) = self.write(&group) {
                self.shared.fail(error);
                break;
            }
            group.clear();
        }
        drop(watch);
    }

    /// Takes everything that is in line, or waits for something. False at the end.
    fn next_group(&self, group: &mut Vec<Arc<Entry>>) -> bool {
        let mut state = self.shared.lock();
        while state.queue.is_empty() {
            if state.stopping {
                return false;
            }
            state = self.shared.work.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        std::mem::swap(&mut state.queue, group);
        let bytes = std::mem::take(&mut state.queue_bytes);
        self.shared.give_back(&mut state, bytes);
        true
    }

    fn write(&mut self, group: &[Arc<Entry>]) -> Result<(), StoreError> {
        self.encode(group)?;
        // Read after the entries were taken, so that it has every symbol they use.
        let names = self.shared.symbols.since(self.stored_symbols);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let entries: Vec<EncodedEntry<'_>> = group
            .iter()
            .zip(starts.zip(&self.ends))
            .map(|(entry, (start, end))| EncodedEntry {
                graph: entry.graph,
                first: entry.first,
                bytes: &self.encoded[start..*end],
            })
            .collect();
        self.shared.store.append(&entries, NewSymbols { first: self.stored_symbols, names: &names }, self.shared.options.sync)?;
        self.stored_symbols += names.len();

        let at = Instant::now();
        let mut state = self.shared.lock();
        for entry in group {
            if let Some(ticks) = state.ticks(entry.graph) {
                ticks.note(entry.upper, at);
            }
        }
        self.shared.progress.notify_all();
        Ok(())
    }

    fn encode(&mut self, group: &[Arc<Entry>]) -> Result<(), StoreError> {
        self.encoded.clear();
        self.ends.clear();
        // One huge entry must not hold its memory for ever.
        self.encoded.shrink_to(2 * self.shared.options.queue_bytes_max);
        for entry in group {
            let after = {
                let mut state = self.shared.lock();
                state.ticks(entry.graph).map_or(Tick::ZERO, |ticks| std::mem::replace(&mut ticks.written, entry.upper))
            };
            encode(entry, after, &mut self.encoded)?;
            self.ends.push(self.encoded.len());
        }
        Ok(())
    }
}

/// Turns a panic of the writer into an error for all who wait.
struct PanicWatch<'a>(&'a Shared);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(StoreError::failed("write the log", "its thread ended by a panic, which is a mistake in weir"));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Symbol;

    use super::*;
    use crate::store::InMemory;
    use crate::store::conformance::entry;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(store: Arc<dyn Store>) -> Log {
        Log::start(store, Arc::default(), LogOptions::default())
    }

    fn submit(log: &Log, entry: Entry) -> Result<(), StoreError> {
        log.room(&entry, PATIENCE)?.submit(Arc::new(entry))
    }

    #[test]
    fn in_memory_is_durable_at_once() {
        let store = Arc::new(InMemory::new());
        let graph = store.create_graph("a", b"").unwrap();
        let log = start(store);
        assert_eq!(log.durable(graph), Tick::ZERO);
        submit(&log, entry(graph, 10, 5)).unwrap();
        assert_eq!(log.durable(graph), Tick(15));
        log.wait_durable(graph, Tick(15), Duration::ZERO).unwrap();
        let late = log.wait_durable(graph, Tick(16), Duration::from_millis(1)).unwrap_err();
        assert!(matches!(late, StoreError::TooSlow { .. }), "{late}");
        log.shutdown().unwrap();
        assert!(matches!(submit(&log, entry(graph, 15, 5)), Err(StoreError::Stopped)));
        assert!(matches!(log.wait_durable(graph, Tick(20), PATIENCE), Err(StoreError::Stopped)));
    }

    #[cfg(feature = "rocks-db")]
    mod with_rocks_db {
        use super::*;
        use crate::store::conformance::{FaultyStore, read_log};
        use crate::store::{RocksDb, RocksDbOptions};

        fn open(temporary: &tempfile::TempDir) -> Arc<dyn Store> {
            Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap())
        }

        #[test]
        fn what_was_refused_is_not_read() {
            use crate::{Engine, EngineError, Options};
            use weir_model::{Mutations, NodeId, Value};

            let temporary = tempfile::tempdir().unwrap();
            let options = Options { workers: 1, ..Options::default() };
            let store: Arc<dyn Store> = Arc::new(FaultyStore::new(open(&temporary), 1));
            let engine = Engine::open(store, options).unwrap();
            engine.start().unwrap();
            let graph = engine.default_graph();
            let write = |n: u64| {
                let mut mutations = Mutations::default();
                mutations.set_property(NodeId::new(0, n), graph.symbols().intern("n"), &Value::Integer(n as i64));
                graph.apply(mutations, 1).and_then(|upper| graph.wait_durable(upper).map(|()| upper))
            };
            let kept = write(1).unwrap();
            graph.wait_visible().unwrap();
            let code = graph.hash_code(None).unwrap();
            assert!(engine.log_failure().is_none());
            let error = write(2).unwrap_err();
            assert!(error.to_string().contains("No space left"), "{error}");
            let failure = engine.log_failure().expect("the log has failed").to_string();
            assert!(failure.contains("nothing more is written") && failure.contains("No space left"), "{failure}");
            let refusals = [
                graph.hash_code(None).map(drop),
                graph.sizes(&|| true).map(drop),
                graph.export(None, &mut |_| true),
                graph.at(graph.next()).map(drop),
            ];
            for refusal in refusals {
                assert!(matches!(refusal, Err(EngineError::Refused(_))), "{refusal:?}");
            }
            // What is refused leaves no note either, by which the past would lack it.
            let mut purged = Mutations::default();
            purged.set_label(NodeId::new(0, 1), graph.symbols().intern("l"), false);
            purged.erase(NodeId::new(0, 1));
            assert!(matches!(graph.apply(purged, 1), Err(EngineError::Store(StoreError::Poisoned(_)))));
            assert!(graph.history().erasures().known().is_empty());
            // What was durable before is as it was.
            assert_eq!(graph.hash_code(Some(Tick(kept.0 - 1))).unwrap(), code);
            drop((graph, engine));
            // One of its threads may let it go a moment later.
            let begun = Instant::now();
            let store = loop {
                match RocksDb::open(RocksDbOptions::new(temporary.path())) {
                    Ok(store) => break store,
                    Err(problem) => assert!(begun.elapsed() < PATIENCE, "{problem}"),
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            let engine = Engine::open(Arc::new(store), options).unwrap();
            engine.start().unwrap();
            assert_eq!(engine.default_graph().hash_code(None).unwrap(), code);
            assert_eq!(engine.default_graph().sizes(&|| true).unwrap().expect("it is counted").nodes, 1);
            assert!(engine.default_graph().sizes(&|| false).unwrap().is_none());
        }

        /// It may be there after the next start: who makes it again might have it twice.
        #[test]
        fn what_was_made_before_a_write_failed_is_not_called_refused() {
            use std::ops::ControlFlow;

            use weir_cypher_compiler::{Options as CompileOptions, compile};

            use crate::{Engine, EngineError, Options, QueryOptions};

            let temporary = tempfile::tempdir().unwrap();
            let store: Arc<dyn Store> = Arc::new(FaultyStore::new(open(&temporary), 0));
            let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
            engine.start().unwrap();
            let graph = engine.default_graph();
            let create = compile("CREATE (:Order {no: 1})", &CompileOptions::default()).expect("a query");
            let create = graph.prepare(create);
            let made = || graph.query(&create, &[], QueryOptions::default(), &mut |_| ControlFlow::Continue(())).map(drop);
            let first = made();
            let is_failure = |error: &EngineError| matches!(error, EngineError::Store(StoreError::Poisoned(_)));
            assert!(matches!(&first, Err(EngineError::Unconfirmed { error, .. }) if is_failure(error)), "{first:?}");
            // From then on nothing is made.
            let next = graph.next();
            let second = made();
            assert!(matches!(second, Err(EngineError::Refused(_))), "{second:?}");
            assert_eq!(graph.next(), next);
            assert!(engine.shutdown().is_err());
        }

        #[test]
        fn many_threads_share_groups_and_each_graph_keeps_its_order() {
            let temporary = tempfile::tempdir().unwrap();
            let store = open(&temporary);
            let symbols = Arc::new(Symbols::default());
            // A small line, so that submitting has to wait now and then.
            let options = LogOptions { queue_bytes_max: 10_000, ..LogOptions::default() };
            let log = Log::start(store.clone(), symbols.clone(), options);
            let graphs: Vec<GraphId> = (0..4).map(|n| store.create_graph(&n.to_string(), b"").unwrap()).collect();
            std::thread::scope(|scope| {
                for graph in &graphs {
                    let (log, symbols) = (&log, &symbols);
                    scope.spawn(move || {
                        for n in 0..200 {
                            symbols.intern(&format!("{n} of {graph:?}"));
                            submit(log, entry(*graph, n * 10, n % 10)).unwrap();
                        }
                        log.wait_durable(*graph, Tick(1999), PATIENCE).unwrap();
                        assert_eq!(log.durable(*graph), Tick(1999));
                    });
                }
            });
            log.shutdown().unwrap();
            drop((log, store));
            let store = open(&temporary);
            for graph in graphs {
                let found = read_log(&*store, graph, 0).unwrap();
                let firsts: Vec<u64> = found.iter().map(|entry| entry.first.0).collect();
                assert_eq!(firsts, (0..200).map(|n| n * 10).collect::<Vec<_>>());
            }
            let names = store.symbols().unwrap();
            assert_eq!(names.len(), 800);
            assert!(names.iter().enumerate().all(|(number, name)| symbols.name(Symbol(number as u32)) == *name));
        }

        #[test]
        fn goes_on_after_a_restart() {
            let temporary = tempfile::tempdir().unwrap();
            let mut graph = GraphId(0);
            for start in [0, 100, 200] {
                let store = open(&temporary);
                let symbols = Arc::new(Symbols::load(store.symbols().unwrap()));
                if start == 0 {
                    graph = store.create_graph("a", b"").unwrap();
                }
                let log = Log::start(store, symbols.clone(), LogOptions { sync: true, ..LogOptions::default() });
                log.set_durable(graph, Tick(start));
                log.wait_durable(graph, Tick(start), Duration::ZERO).unwrap();
                symbols.intern(&start.to_string());
                for first in [start, start + 50] {
                    submit(&log, entry(graph, first, 50)).unwrap();
                }
                // Dropping it writes what is in line.
            }
            let store = open(&temporary);
            assert_eq!(read_log(&*store, graph, 0).unwrap().len(), 6);
            assert_eq!(store.symbols().unwrap(), ["0", "100", "200"]);
        }

        /// It was waited for without end, and nobody was told.
        #[test]
        fn where_the_disk_is_stuck_there_is_no_room_after_a_while() {
            let temporary = tempfile::tempdir().unwrap();
            let inner = open(&temporary);
            let (graph, other) = (inner.create_graph("a", b"").unwrap(), inner.create_graph("b", b"").unwrap());
            let store = Arc::new(FaultyStore::new(inner, usize::MAX));
            let large = |first: u64| {
                let mut mutations = weir_model::Mutations::default();
                let text = weir_model::Value::Text("x".repeat(600).into());
                mutations.set_property(weir_model::NodeId::new(0, 1), Symbol(0), &text);
                let (first, upper, mutations) = (Tick(first), Tick(first + 1), Arc::new(mutations));
                Entry { graph, first, upper, mutations, sources: Vec::new(), delivered: Vec::new() }
            };
            let options = LogOptions { queue_bytes_max: 1000, ..LogOptions::default() };
            let log = Log::start(store.clone(), Arc::default(), options);
            let moment = Duration::from_millis(50);
            let stuck = lock(&store.stuck);
            submit(&log, large(0)).unwrap();
            // The writer has taken it, and waits for the disk.
            while lock(&log.shared.state).queue_bytes > 0 {
                std::thread::yield_now();
            }
            let next = large(1);
            let room = log.room(&next, moment).unwrap();
            // What has room counts before it is in line, also for other graphs, and no more when it is given up.
            let others = Entry { graph: other, ..large(0) };
            assert!(matches!(log.room(&others, moment), Err(StoreError::TooSlow { graph, .. }) if graph == other));
            drop(room);
            log.room(&others, moment).unwrap().submit(Arc::new(others)).unwrap();
            let refused = log.room(&next, moment).err().expect("the line is full");
            assert!(matches!(refused, StoreError::TooSlow { tick: Tick(2), .. }), "{refused}");
            // Who comes later does not wait as long again. One after another has the graph locked.
            let since = lock(&log.shared.state).full_since.and_then(|since| since.checked_sub(PATIENCE));
            lock(&log.shared.state).full_since = Some(since.expect("the machine runs for a minute"));
            let begun = Instant::now();
            assert!(matches!(log.room(&next, PATIENCE).err(), Some(StoreError::TooSlow { .. })));
            assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
            drop(stuck);
            while lock(&log.shared.state).queue_bytes > 0 {
                std::thread::yield_now();
            }
            assert!(lock(&log.shared.state).full_since.is_none(), "something has left");
            submit(&log, next).unwrap();
            log.wait_durable(graph, Tick(2), PATIENCE).unwrap();
            log.wait_durable(other, Tick(1), PATIENCE).unwrap();
            log.shutdown().unwrap();
        }

        #[test]
        fn a_failed_write_is_the_last_one() {
            let temporary = tempfile::tempdir().unwrap();
            let store = open(&temporary);
            let graph = store.create_graph("a", b"").unwrap();
            let faulty = Arc::new(FaultyStore::new(store.clone(), 1));
            let log = start(faulty.clone());
            submit(&log, entry(graph, 0, 5)).unwrap();
            log.wait_durable(graph, Tick(5), PATIENCE).unwrap();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| log.wait_durable(graph, Tick(10), PATIENCE));
                submit(&log, entry(graph, 5, 5)).unwrap();
                let error = waiter.join().unwrap().unwrap_err().to_string();
                assert!(error.contains("simulated"), "{error}");
            });
            // Even when the disk is well again: an entry is missing.
            faulty.appends_left.store(100, std::sync::atomic::Ordering::SeqCst);
            let refused = submit(&log, entry(graph, 10, 5)).unwrap_err();
            assert!(matches!(refused, StoreError::Poisoned(_)), "{refused}");
            assert!(log.check().is_err());
            assert_eq!(log.durable(graph), Tick(5));
            assert!(log.shutdown().is_err());
            assert_eq!(read_log(&*store, graph, 0).unwrap().len(), 1);
        }

        #[test]
        fn an_entry_that_cannot_be_read_back_is_never_acknowledged() {
            let temporary = tempfile::tempdir().unwrap();
            let store = open(&temporary);
            let graph = store.create_graph("a", b"").unwrap();
            let log = start(store);
            let bad = Entry { upper: Tick(1), ..entry(graph, 0, 5) };
            submit(&log, bad).unwrap();
            let error = log.wait_durable(graph, Tick(1), PATIENCE).unwrap_err();
            assert!(matches!(error, StoreError::Poisoned(_)), "{error}");
        }

        /// Prints what an event of the `procs` workload costs here: 13 rows and 100 bytes of arena.
        #[test]
        fn throughput() {
            let mut mutations = weir_model::Mutations::default();
            for record in 0..1000 {
                mutations.start_record(record);
                let node = weir_model::NodeId::new(u64::from(record), 1);
                for key in 0..12 {
                    mutations.set_property(node, Symbol(key), &weir_model::Value::Integer(i64::from(record)));
                }
                mutations.set_property(node, Symbol(12), &weir_model::Value::Text("x".repeat(100).into()));
            }
            let mutations = Arc::new(mutations);
            let temporary = tempfile::tempdir().unwrap();
            let store = open(&temporary);
            let graph = store.create_graph("a", b"").unwrap();
            let log = start(store.clone());
            let entry = |n: u64| Entry {
                graph,
                first: Tick(n * 1000),
                upper: Tick((n + 1) * 1000),
                mutations: mutations.clone(),
                sources: Vec::new(),
                delivered: Vec::new(),
            };
            const ENTRIES: u64 = 300;
            let mut begun = Instant::now();
            for n in 0..ENTRIES {
                submit(&log, entry(n)).unwrap();
            }
            log.wait_durable(graph, Tick(ENTRIES * 1000), PATIENCE).unwrap();
            let whole = begun.elapsed();

            let mut bytes = Vec::new();
            begun = Instant::now();
            for n in 0..ENTRIES {
                bytes.clear();
                encode(&entry(n), Tick::ZERO, &mut bytes).unwrap();
            }
            let encoding = begun.elapsed();

            drop((log, store));
            begun = Instant::now();
            let store = open(&temporary);
            let opening = begun.elapsed();
            begun = Instant::now();
            assert_eq!(read_log(&*store, graph, 0).unwrap().len(), ENTRIES as usize);
            let reading = begun.elapsed();
            let each = |time: Duration| time.as_nanos() as u64 / (ENTRIES * 1000);
            eprintln!(
                "log: {} ns a record, of which encoding {}; {} bytes a record; opening {}, reading {}",
                each(whole),
                each(encoding),
                bytes.len() / 1000,
                each(opening),
                each(reading)
            );
        }
    }
}
