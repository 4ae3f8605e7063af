//! Engine and Graph: the handles everything outside goes through.
//!
//! An engine is a store, its log, the workers and the graphs (namespaces) in it. Both handles are cheap to clone.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::lock::{lock, read, write};
use weir_model::{IdScheme, NodeId, Plan, Position, QueryId, Text, Tick};

use crate::alarm::Alarms;
use crate::arrangement::build::Shard;
use crate::arrangement::{Published, Snapshot};
use crate::cause::Cause;
use crate::checkpoint::{self, Checkpoints, ENTRY_WEIGHT};
use crate::command::{Base, Command};
use crate::commit::{Change, Committer};
use crate::error::EngineError;
use crate::evaluate::pool::Pool;
use crate::evaluate::{Limits, Prepared};
use crate::expiry::Expiry;
use crate::held::HELD;
use crate::history::cache::ChunkCache;
use crate::history::run::{Run, Shelf};
use crate::history::{self, History, Retention};
use crate::index::Catalog;
use crate::loading::Loading;
use crate::log::{Log, LogOptions};
use crate::memory;
use crate::pause::PAUSED;
use crate::render::HubBounds;
use crate::render::aside::Asides;
use crate::scheduling;
use crate::standing::{BEGUN, StandingState};
use crate::store::{Backup, Copied, Delivered, Entry, GraphId, GraphInfo, Part, Progress, Since, Sizes, Store, StoreError};
use crate::symbols::Symbols;
use crate::together::Together;
use crate::worker::Workers;

/// The graph that is there without being created; the default namespace.
pub const DEFAULT_GRAPH: &str = "quine";

/// Ingest pauses while a standing query has more results waiting than this.
pub const RESULTS_WAITING_MAX: usize = 100_000;

/// So long a batch of records waits at most for standing queries that do not keep up.
const STAGES_WAIT_MAX: Duration = Duration::from_millis(100);

/// How often frontiers of delivery that no commit took along are logged, and how often checkpoints are considered.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(20);

/// How often it is told that housekeeping cannot be done, of one reason.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// How often entries take along how far outputs are that have nothing to deliver; and longer by this for each standing query, so that they do not
/// fill the log.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL_BY_QUERY: Duration = Duration::from_millis(10);

/// How long anyone waits for the log before it is called a failure.
const DURABLE_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Worker threads, each with a shard of every graph; 0 is one per core.
    pub workers: usize,
    pub ids: IdScheme,
    /// Each commit reaches the disk before it counts as durable, not only the operating system.
    pub sync_all_writes: bool,
    pub limits: QueryLimits,
    pub retention: Retention,
    /// Of the default graph. None is what the store has, and the default where it has none yet.
    pub graph: Option<GraphOptions>,
    /// Expiry rules are known and not followed: for tools, which look and leave things as they are.
    pub nothing_ends: bool,
    pub hubs: HubBounds,
}

/// What a query may take, where its caller allows no less. Also what each record of an ingest stream may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    pub time_max: Duration,
    /// Of what it sorts, groups, collects and writes.
    pub memory_bytes_max: usize,
    /// Of all queries that run at a time; records of ingest streams do not count.
    pub all_memory_bytes_max: usize,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        QueryLimits { time_max: Duration::from_secs(120), memory_bytes_max: 512 << 20, all_memory_bytes_max: 2 << 30 }
    }
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// The graph model of openCypher: each CREATE of an edge makes a new one, and a node is there from its CREATE to its
    /// DELETE, whatever is known of it. Otherwise an edge is its ends and its type, and a node is what is known of it.
    pub open_cypher: bool,
}

impl GraphOptions {
    /// As the configuration names the graph model.
    pub fn name(self) -> &'static str {
        if self.open_cypher { "open-cypher" } else { "streaming" }
    }

    pub fn named(name: &str) -> Option<GraphOptions> {
        [false, true].map(|open_cypher| GraphOptions { open_cypher }).into_iter().find(|model| model.name() == name)
    }
}

#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    graphs: RwLock<BTreeMap<String, Graph>>,
    /// Graphs that are in the store and cannot be read, by name. Nothing of them is written.
    damaged: RwLock<BTreeMap<String, Damaged>>,
    /// Creating and dropping graphs, one at a time.
    naming: Mutex<()>,
    stopping: AtomicBool,
    housekeepers: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Clone)]
struct Damaged {
    id: GraphId,
    reason: String,
}

/// What all graphs of an engine work with.
#[derive(Clone)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub log: Arc<Log>,
    pub symbols: Arc<Symbols>,
    pub workers: Arc<Workers>,
    /// Held while commands are sent, so that all workers see one order.
    pub sending: Arc<Mutex<()>>,
    pub ids: IdScheme,
    pub limits: QueryLimits,
    /// What queries hold, all together.
    pub pool: Arc<Pool>,
    pub retention: Retention,
    pub nothing_ends: bool,
    pub hubs: HubBounds,
    /// Pages that were read lately.
    pub chunks: Arc<ChunkCache>,
    pub together: Arc<Together>,
    pub alarms: Arc<Alarms>,
    /// Who works for the stages of standing queries.
    pub asides: Arc<Asides>,
    pub loading: Arc<Loading>,
    /// Nobody waits for room any more.
    pub closing: Arc<AtomicBool>,
}

impl Engine {
    /// Opens a store: its graphs are loaded up to their checkpoints. Standing queries that were there before are
    /// installed next (`Start::Resume`), then `start` replays what the log holds beyond. Nothing is committed to them before that.
    pub fn open(store: Arc<dyn Store>, options: Options) -> Result<Engine, EngineError> {
        Engine::open_watched(store, options, Arc::default())
    }

    /// The same; `loading` says meanwhile how far it is, and `start` goes on with it.
    ///
    /// Damage in one graph is no reason to do without the others: it is set aside, as it is, and the rest is opened. Damage in the
    /// default graph, or in what all share, is an error.
    pub fn open_watched(store: Arc<dyn Store>, mut options: Options, loading: Arc<Loading>) -> Result<Engine, EngineError> {
        memory::tend();
        options.retention.journal &= store.remembers();
        let count = match options.workers {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            count => count,
        };
        let symbols = Arc::new(Symbols::load(store.symbols()?));
        let log_options = LogOptions { sync: options.sync_all_writes, hold: options.retention.journal, ..LogOptions::default() };
        let log = Log::start(store.clone(), symbols.clone(), log_options);
        let workers = Arc::new(Workers::start(count).map_err(EngineError::Workers)?);
        let parts = Parts {
            store,
            log: Arc::new(log),
            symbols,
            workers,
            sending: Arc::default(),
            ids: options.ids,
            limits: options.limits,
            pool: Arc::new(Pool::new(options.limits.all_memory_bytes_max)),
            retention: options.retention,
            nothing_ends: options.nothing_ends,
            hubs: options.hubs,
            chunks: Arc::default(),
            together: Arc::new(Together::start()?),
            alarms: Arc::default(),
            asides: Arc::new(Asides::new(count)),
            loading,
            closing: Arc::default(),
        };
        let infos = parts.store.graphs()?;
        note_ids(&parts, &infos)?;
        for info in &infos {
            // What is wrong with it is said when it is loaded.
            let runs = parts.store.runs(info.id).unwrap_or_default();
            parts.loading.pages.expect(runs.iter().map(|run| run.chunks[Part::Newest as usize]).sum());
        }
        let (mut graphs, mut damaged) = (BTreeMap::new(), BTreeMap::new());
        for info in infos {
            let options = GraphOptions { open_cypher: info.options == OPEN_CYPHER };
            match Graph::load(&parts, info.id, info.name.clone(), options) {
                Ok(graph) => drop(graphs.insert(info.name, graph)),
                Err(error) => drop(damaged.insert(info.name.clone(), set_aside(info.id, &info.name, error)?)),
            }
        }
        let shared = Shared {
            parts,
            graphs: RwLock::new(graphs),
            damaged: RwLock::new(damaged),
            naming: Mutex::new(()),
            stopping: AtomicBool::new(false),
            housekeepers: Mutex::default(),
        };
        let engine = Engine { shared: Arc::new(shared) };
        match (engine.graph(DEFAULT_GRAPH), options.graph) {
            (None, wanted) => drop(engine.create_graph(DEFAULT_GRAPH, wanted.unwrap_or_default())?),
            (Some(graph), Some(wanted)) if graph.inner.options != wanted => {
                return Err(EngineError::OtherModel { stored: graph.inner.options.name(), wanted: wanted.name() });
            }
            _ => {}
        }
        Ok(engine)
    }

    /// From here on reads are answered with everything that was committed, while `start` has yet to lead the standing queries there.
    pub fn open_reads(&self) -> Result<(), EngineError> {
        self.all().iter().try_for_each(Graph::look_ahead)
    }

    /// Replays the log beyond the checkpoints and begins housekeeping.
    pub fn start(&self) -> Result<(), EngineError> {
        let mut indexes = Vec::new();
        let loading = &self.shared.parts.loading;
        let graphs = self.all();
        graphs.iter().for_each(|graph| loading.entries.expect(lock(&graph.inner.tail).len() as u64));
        for graph in graphs {
            graph.replay()?;
            graph.load_expiry()?;
            indexes.extend(graph.load_indexes()?.into_iter().map(|definition| (graph.clone(), definition)));
        }
        self.shared.parts.store.loaded(self.damaged().is_empty());
        let delivery = self.housekeeper("delivery", scheduling::prompt, Graph::log_delivery)?;
        let checkpoints = self.housekeeper("checkpoints", scheduling::polite, |graph| checkpoint::consider(graph, false))?;
        let pages = self.housekeeper("pages", scheduling::polite, history::tend)?;
        let clock = self.watch_clock()?;
        lock(&self.shared.housekeepers).extend([delivery, checkpoints, pages, clock]);
        if !indexes.is_empty() {
            // Reads do without until they are there.
            let build = move || {
                for (graph, definition) in indexes {
                    if let Err(error) = graph.build_index(&definition) {
                        tracing::error!(graph = graph.name(), index = %definition.name, "{error}");
                    }
                }
            };
            let builder = std::thread::Builder::new().name("indexes".to_owned()).spawn(build);
            lock(&self.shared.housekeepers).push(builder.map_err(|error| EngineError::Workers(error.to_string()))?);
        }
        Ok(())
    }

    /// A thread that gives ticks to graphs whose standing queries wait for the clock.
    fn watch_clock(&self) -> Result<JoinHandle<()>, EngineError> {
        let (engine, alarms) = (Arc::downgrade(&self.shared), self.shared.parts.alarms.clone());
        let pass = move |id, moment| {
            let graph = engine.upgrade().and_then(|shared| (Engine { shared }).all().into_iter().find(|graph| graph.id() == id));
            if let Some(graph) = graph
                && let Err(error) = graph.committer().pass(moment)
            {
                tracing::error!(graph = graph.name(), "standing queries that wait for the clock wait on: {error}");
            }
        };
        let run = move || {
            scheduling::prompt();
            alarms.watch(pass);
        };
        std::thread::Builder::new().name("clock".to_owned()).spawn(run).map_err(|error| EngineError::Workers(error.to_string()))
    }

    /// A thread that does something for every graph, now and then, until the engine ends.
    fn housekeeper(
        &self,
        name: &str,
        begin: fn(),
        mut keep: impl FnMut(&Graph) -> Result<(), EngineError> + Send + 'static,
    ) -> Result<JoinHandle<()>, EngineError> {
        let engine = Arc::downgrade(&self.shared);
        let run = move || {
            begin();
            // Of the graph, too: what goes into pages, and pages that are merged.
            memory::holds_graph();
            // What cannot be done now is tried again at once, and told now and then.
            let mut told: FxHashMap<(GraphId, String), Instant> = FxHashMap::default();
            while let Some(shared) = engine.upgrade().filter(|shared| !shared.stopping.load(Ordering::Relaxed)) {
                told.retain(|_, at| at.elapsed() < TELL_INTERVAL);
                for graph in (Engine { shared }).all() {
                    if let Err(error) = keep(&graph) {
                        told.entry((graph.id(), error.to_string())).or_insert_with(|| {
                            tracing::error!(graph = graph.name(), "{error}");
                            Instant::now()
                        });
                    }
                }
                std::thread::sleep(HOUSEKEEPING_INTERVAL);
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| EngineError::Workers(error.to_string()))
    }

    pub fn default_graph(&self) -> Graph {
        self.graph(DEFAULT_GRAPH).expect("open creates it and drop_graph refuses it")
    }

    pub fn graph(&self, name: &str) -> Option<Graph> {
        read(&self.shared.graphs).get(name).cloned()
    }

    pub fn graphs(&self) -> Vec<String> {
        read(&self.shared.graphs).keys().cloned().collect()
    }

    fn all(&self) -> Vec<Graph> {
        read(&self.shared.graphs).values().cloned().collect()
    }

    /// The graphs that cannot be read, with what is wrong with each.
    pub fn damaged(&self) -> Vec<(String, String)> {
        let damaged = read(&self.shared.damaged);
        damaged.iter().map(|(name, damaged)| (name.clone(), damaged.reason.clone())).collect()
    }

    /// An error if there is a graph of this name that cannot be read.
    pub fn check_graph(&self, name: &str) -> Result<(), EngineError> {
        let damaged = read(&self.shared.damaged).get(name).cloned();
        damaged.map_or(Ok(()), |damaged| Err(EngineError::GraphDamaged { name: name.to_owned(), reason: damaged.reason }))
    }

    /// Why a write to the log failed, if one did. What was committed since is refused, and so is everything from then on.
    pub fn log_failure(&self) -> Option<StoreError> {
        self.shared.parts.log.failure()
    }

    pub fn create_graph(&self, name: &str, options: GraphOptions) -> Result<Graph, EngineError> {
        let _one = lock(&self.shared.naming);
        if self.graph(name).is_some() {
            return Err(EngineError::GraphExists(name.to_owned()));
        }
        self.check_graph(name)?;
        let parts = &self.shared.parts;
        let id = parts.store.create_graph(name, if options.open_cypher { OPEN_CYPHER } else { b"" })?;
        let graph = Graph::new(parts, id, name.to_owned(), options, Tick::ZERO, Base::default(), Loaded::default())?;
        write(&self.shared.graphs).insert(name.to_owned(), graph.clone());
        Ok(graph)
    }

    /// Drops a graph with everything in it. False when there is none, or when it is the default one, which stays.
    pub fn drop_graph(&self, name: &str) -> Result<bool, EngineError> {
        let _one = lock(&self.shared.naming);
        if name == DEFAULT_GRAPH {
            return Ok(false);
        }
        let parts = &self.shared.parts;
        let damaged = read(&self.shared.damaged).get(name).map(|damaged| damaged.id);
        if let Some(id) = damaged {
            parts.store.drop_graph(id)?;
            write(&self.shared.damaged).remove(name);
            return Ok(true);
        }
        let Some(graph) = write(&self.shared.graphs).remove(name) else {
            return Ok(false);
        };
        graph.expiry().stop();
        graph.leave(true);
        graph.committer().end(name);
        parts.log.forget(graph.id());
        parts.store.drop_graph(graph.id())?;
        Ok(true)
    }

    pub fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.shared.parts.store.metadata(key)?)
    }

    /// Stores or removes a small value. Durable when this returns.
    pub fn set_metadata(&self, key: &str, value: Option<&[u8]>) -> Result<(), EngineError> {
        let store = &self.shared.parts.store;
        match value {
            Some(value) => store.put_metadata(key, value)?,
            None => store.delete_metadata(key)?,
        }
        Ok(())
    }

    pub fn metadata_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        Ok(self.shared.parts.store.list_metadata(prefix)?)
    }

    /// Writes everything that is committed to a backup, or what was committed since another, graph by graph, while all goes on;
    /// only checkpoints wait. A graph that cannot be read is an error, unless it is among those that are to be left out.
    pub fn back_up(&self, since: Option<&Since>, leave_out: &[String], out: &mut dyn Write) -> Result<Copied, EngineError> {
        let store = &*self.shared.parts.store;
        if !store.durable() {
            return Err(StoreError::failed("back up", format!("the store `{}` ends with weir", store.kind())).into());
        }
        if let Some((name, reason)) = self.damaged().into_iter().find(|(name, _)| !leave_out.contains(name)) {
            return Err(StoreError::BackupDamaged { name, reason }.into());
        }
        let mut backup = Backup::begin(store, since, leave_out, out)?;
        for info in store.graphs()?.into_iter().filter(|info| !leave_out.contains(&info.name)) {
            // One that is being created has nothing yet, one that is being dropped is not wanted.
            let Some(graph) = self.all().into_iter().find(|graph| graph.id() == info.id) else { continue };
            let until = graph.next();
            match graph.wait_durable(until) {
                Err(EngineError::NoSuchGraph(_)) => continue,
                waited => waited?,
            }
            checkpoint::holding_still(&graph, || backup.graph(&info, until))?;
        }
        Ok(backup.finish()?)
    }

    /// How much the store takes.
    pub fn sizes(&self) -> Result<Sizes, EngineError> {
        Ok(self.shared.parts.store.sizes()?)
    }

    /// Those who wait to ingest until results are taken are refused from now on. The first step of an orderly end.
    pub fn close_ingest(&self) {
        self.shared.parts.closing.store(true, Ordering::Relaxed);
    }

    /// Ends: what was committed is applied, logged and, as far as results are delivered, put into pages.
    pub fn shutdown(&self) -> Result<(), EngineError> {
        if self.shared.stopping.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.close_ingest();
        self.shared.parts.alarms.stop();
        for keeper in std::mem::take(&mut *lock(&self.shared.housekeepers)) {
            let _ = keeper.join();
        }
        for graph in self.all() {
            graph.expiry().stop();
            graph.committer().log_delivered()?;
            graph.wait_durable(graph.next())?;
            checkpoint::consider(&graph, true)?;
        }
        self.shared.parts.workers.stop();
        self.shared.parts.asides.stop();
        self.shared.parts.log.shutdown()?;
        Ok(())
    }
}

/// The end without `shutdown`, as the end of the process would be: what is in the log is safe, the rest is let go.
impl Drop for Shared {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.parts.closing.store(true, Ordering::Relaxed);
        self.parts.alarms.stop();
        for keeper in std::mem::take(&mut *lock(&self.housekeepers)) {
            // The last handle may have been the housekeeper's own.
            if keeper.thread().id() != std::thread::current().id() {
                let _ = keeper.join();
            }
        }
        for graph in self.graphs.get_mut().unwrap_or_else(|e| e.into_inner()).values() {
            graph.expiry().stop();
        }
        self.parts.workers.stop();
        self.parts.asides.stop();
    }
}

/// What is known of a graph that cannot be loaded. An error where the reason is another than damage of its own.
fn set_aside(id: GraphId, name: &str, error: EngineError) -> Result<Damaged, EngineError> {
    match error {
        EngineError::Store(StoreError::Damaged { what, place, .. }) if name != DEFAULT_GRAPH => {
            let reason = format!("{what}, in {place}");
            tracing::error!(graph = name, "a damaged namespace is left as it is, the others are opened: {reason}");
            Ok(Damaged { id, reason })
        }
        error => Err(error),
    }
}

/// Under which the scheme of ids is kept that the nodes of a store have.
const IDS: &str = "ids";

/// A store keeps to the scheme of ids it began with: under another one ids would be shown cut, and `idFrom` find other nodes.
/// Stores of before have none noted; the first service that opens one does it, and no tool, which may have been told less.
fn note_ids(parts: &Parts, graphs: &[GraphInfo]) -> Result<(), EngineError> {
    if !parts.store.durable() {
        return Ok(());
    }
    let wanted = parts.ids.to_string();
    match parts.store.metadata(IDS)? {
        None if graphs.is_empty() || !parts.nothing_ends => Ok(parts.store.put_metadata(IDS, wanted.as_bytes())?),
        None => Ok(()),
        Some(stored) if stored == wanted.as_bytes() => Ok(()),
        Some(stored) => Err(EngineError::OtherIds { stored: String::from_utf8_lossy(&stored).into_owned(), wanted }),
    }
}

/// A graph is stored with these options when it has the graph model of openCypher, and with none when it has not.
const OPEN_CYPHER: &[u8] = b"open-cypher";

#[derive(Clone)]
pub struct Graph {
    inner: Arc<GraphInner>,
}

struct GraphInner {
    id: GraphId,
    name: String,
    options: GraphOptions,
    parts: Parts,
    published: Arc<Published>,
    /// The end of the log, for those who read while it is replayed.
    ahead: ArcSwapOption<Snapshot>,
    /// What the workers began with, as long as there is a `tail`.
    base: Mutex<Option<Arc<Base>>>,
    committer: Committer,
    standing: Mutex<FxHashMap<QueryId, Arc<StandingState>>>,
    /// How many there are, and ever were.
    standing_count: AtomicU32,
    standing_ever: AtomicU32,
    recovered: FxHashMap<(QueryId, Text), (Tick, Position)>,
    tail: Mutex<Vec<Arc<Entry>>>,
    fresh: FreshIds,
    checkpoints: Checkpoints,
    history: History,
    indexes: Catalog,
    expiry: Arc<Expiry>,
    leaving: AtomicBool,
}

/// Does not keep the graph.
pub(crate) struct WeakGraph(Weak<GraphInner>);

impl WeakGraph {
    pub fn upgrade(&self) -> Option<Graph> {
        self.0.upgrade().map(|inner| Graph { inner })
    }
}

/// What is known of a graph when it is opened, besides its base.
#[derive(Default)]
struct Loaded {
    /// It was in the store: its log is replayed by `start`, and nothing is committed before.
    was_there: bool,
    sources: FxHashMap<Text, Position>,
    /// What was delivered, by query and output.
    delivered: FxHashMap<(QueryId, Text), (Tick, Position)>,
    /// Of which of them entries after the checkpoint say something.
    logged: FxHashSet<(QueryId, Text)>,
    /// Entries of the log that are replayed.
    tail: Vec<Arc<Entry>>,
    checkpoints: Checkpoints,
    /// Of pages.
    runs: Vec<Run>,
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

    /// Of what was logged before, every output has all results, and every sum of a pause and of what is held. An output is in the log from its beginning on; what a checkpoint knows of one that
    /// had not come as far as the checkpoint itself is of a query that never came to be.
    fn needs_from(&self, upto: Tick) -> Tick {
        // That there is a beginning needs nothing; the outputs that have not got past it do.
        let is_over =
            |output: &Text, position: &Position| [PAUSED, HELD, BEGUN].contains(&output.as_str()) && position.0.is_empty();
        let counts = |key: &(QueryId, Text), tick: Tick| tick >= upto || self.logged.contains(key);
        let known = self.delivered.iter().filter(|(key, (tick, position))| counts(key, *tick) && !is_over(&key.1, position));
        known.map(|(_, (tick, _))| *tick).min().unwrap_or(Tick::MAX)
    }
}

impl Graph {
    fn new(
        parts: &Parts,
        id: GraphId,
        name: String,
        options: GraphOptions,
        upto: Tick,
        base: Base,
        loaded: Loaded,
    ) -> Result<Graph, EngineError> {
        let shelf = Shelf { graph: id, store: parts.store.clone(), cache: parts.chunks.clone() };
        let end = loaded.tail.last().map_or(base.upper, |entry| entry.upper);
        let history = History::open(shelf, parts.retention, loaded.runs, upto, end)?;
        let published = Arc::new(Published::new(parts.workers.count()));
        let begins = (base.upper, loaded.was_there);
        let (logged, expiry) = (loaded.checkpoints.logged().clone(), Arc::<Expiry>::default());
        let committer = Committer::new(
            id,
            parts,
            published.clone(),
            logged,
            begins,
            loaded.sources,
            (expiry.clone(), history.erasures().clone()),
        );
        let base = Arc::new(base);
        let kept = (!loaded.tail.is_empty()).then(|| base.clone());
        {
            let _order = lock(&parts.sending);
            parts.workers.send(&Command::CreateGraph { graph: id, published: published.clone(), base });
        }
        let inner = GraphInner {
            id,
            name,
            options,
            parts: parts.clone(),
            published,
            ahead: ArcSwapOption::empty(),
            base: Mutex::new(kept),
            committer,
            standing: Mutex::default(),
            standing_count: AtomicU32::new(0),
            standing_ever: AtomicU32::new(0),
            recovered: loaded.delivered,
            tail: Mutex::new(loaded.tail),
            fresh: FreshIds::new(),
            checkpoints: loaded.checkpoints,
            history,
            indexes: Catalog::default(),
            expiry,
            leaving: AtomicBool::new(false),
        };
        Ok(Graph { inner: Arc::new(inner) })
    }

    /// Reads a graph from its store: as its base the newest pages and what of the log needs no replay, the rest of the log for `replay`.
    fn load(parts: &Parts, id: GraphId, name: String, options: GraphOptions) -> Result<Graph, EngineError> {
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
        // The same that a checkpoint could have taken in by then.
        let needed = loaded.needs_from(progress.upto);
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
        Graph::new(parts, id, name, options, progress.upto, base, loaded)
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
            log.push(entry);
            Ok(())
        })?;
        loaded.sources.retain(|_, position| !position.0.is_empty());
        Ok((loaded, log))
    }

    /// Shows reads the end of the log, in batches that are made of its tail and let go of when the workers have come so far.
    fn look_ahead(&self) -> Result<(), EngineError> {
        let tail = lock(&self.inner.tail).clone();
        let (Some(base), Some(last)) = (lock(&self.inner.base).take(), tail.last()) else {
            return self.committer().wait_applied_all();
        };
        let began = Instant::now();
        let count = self.inner.parts.workers.count();
        let shard = |index| {
            memory::holds_graph();
            crate::graph::look_ahead(base.shards.get(index).cloned(), &tail, Shard { index, count })
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
        self.inner.ahead.store(Some(Arc::new(Snapshot::new(shards, last.upper.0))));
        tracing::debug!(graph = self.name(), entries = tail.len(), took = ?began.elapsed(), "reads see the end of the log");
        Ok(())
    }

    fn replay(&self) -> Result<(), EngineError> {
        let began = Instant::now();
        lock(&self.inner.base).take();
        let (committer, loading) = (&self.inner.committer, &self.inner.parts.loading);
        let mut tail = std::mem::take(&mut *lock(&self.inner.tail)).into_iter().peekable();
        let mut sent = VecDeque::new();
        while let Some(entry) = tail.next() {
            sent.push_back(entry.upper);
            committer.replay(entry, tail.peek().is_none())?;
            self.wait_for_stages();
            let applied = self.inner.published.upper();
            while sent.front().is_some_and(|end| *end <= applied) {
                sent.pop_front();
                loading.entries.one();
            }
        }
        self.inner.parts.log.set_durable(self.inner.id, committer.next());
        for end in sent {
            committer.wait_applied(end)?;
            loading.entries.one();
        }
        committer.wait_applied_all()?;
        self.inner.ahead.store(None);
        committer.end_replay();
        tracing::debug!(graph = self.name(), took = ?began.elapsed(), "replayed the log");
        Ok(())
    }

    pub fn id(&self) -> GraphId {
        self.inner.id
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn open_cypher(&self) -> bool {
        self.inner.options.open_cypher
    }

    pub fn ids(&self) -> IdScheme {
        self.inner.parts.ids
    }

    pub fn symbols(&self) -> &Symbols {
        &self.inner.parts.symbols
    }

    /// What a record of an ingest stream may take: whatever queries hold, it goes on.
    pub(crate) fn limits(&self) -> Limits<'static> {
        let QueryLimits { time_max, memory_bytes_max, .. } = self.inner.parts.limits;
        Limits { time_max: Some(time_max), buffer_bytes_max: memory_bytes_max, ..Limits::NONE }
    }

    /// What a query of this graph may take.
    pub(crate) fn query_limits(&self) -> Limits<'_> {
        Limits { pool: Some(&self.inner.parts.pool), ..self.limits() }
    }

    /// It is about to be dropped: nothing that goes on should begin in it any more.
    pub fn leave(&self, leaves: bool) {
        self.inner.leaving.store(leaves, Ordering::SeqCst);
    }

    /// An error where it is about to be dropped, or is no more.
    pub fn stays(&self) -> Result<(), EngineError> {
        if self.inner.leaving.load(Ordering::SeqCst) { Err(EngineError::NoSuchGraph(self.name().to_owned())) } else { Ok(()) }
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.inner.parts
    }

    pub(crate) fn committer(&self) -> &Committer {
        &self.inner.committer
    }

    pub(crate) fn standing(&self) -> MutexGuard<'_, FxHashMap<QueryId, Arc<StandingState>>> {
        lock(&self.inner.standing)
    }

    pub(crate) fn add_standing(&self, query: QueryId, state: Arc<StandingState>) {
        let mut standing = self.standing();
        standing.insert(query, state);
        self.inner.standing_count.store(standing.len() as u32, Ordering::Relaxed);
    }

    pub(crate) fn remove_standing(&self, query: QueryId) -> Option<Arc<StandingState>> {
        let mut standing = self.standing();
        let gone = standing.remove(&query);
        self.inner.standing_count.store(standing.len() as u32, Ordering::Relaxed);
        gone
    }

    /// A number for a standing query, in the order in which they are installed.
    pub(crate) fn next_query(&self) -> u32 {
        self.inner.standing_ever.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn standing_count(&self) -> u32 {
        self.inner.standing_count.load(Ordering::Relaxed)
    }

    pub(crate) fn published(&self) -> &Published {
        &self.inner.published
    }

    /// The standing queries as of now. What is asked of them takes locks of theirs, while others who hold those wait for a commit, and commits for the list.
    pub(crate) fn standing_now(&self) -> Vec<(QueryId, Arc<StandingState>)> {
        self.standing().iter().map(|(query, state)| (*query, state.clone())).collect()
    }

    /// How far every output of every standing query has delivered, and the sums of pauses.
    pub(crate) fn delivered(&self) -> Vec<Delivered> {
        let of_query = |(query, state): (QueryId, Arc<StandingState>)| {
            // Before the outputs: neither is kept of a tick behind one of them.
            let kept: Vec<Delivered> = state.kept_pause(query).into_iter().chain(state.kept_held(query)).collect();
            state.delivered_of(query).into_iter().chain(kept).collect::<Vec<_>>()
        };
        self.standing_now().into_iter().flat_map(of_query).collect()
    }

    /// The log is needed from here on, to find again what was not delivered. None while there is nobody to deliver to.
    pub(crate) fn needs_from(&self) -> Option<Tick> {
        self.standing_now().iter().filter_map(|(_, state)| state.needs_from()).min()
    }

    /// Logs how far outputs have delivered results. Where they have come further without any, the next entry takes that along, so that a start need not replay it.
    fn log_delivery(&self) -> Result<(), EngineError> {
        let interval = PROGRESS_INTERVAL + PROGRESS_INTERVAL_BY_QUERY * self.standing_count();
        let outputs = || self.standing_now().iter().flat_map(|(query, state)| state.delivered_of(*query)).collect();
        self.committer().note_progress(interval, outputs);
        self.committer().log_delivered()
    }

    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.inner.checkpoints
    }

    pub fn history(&self) -> &History {
        &self.inner.history
    }

    pub(crate) fn indexes(&self) -> &Catalog {
        &self.inner.indexes
    }

    pub(crate) fn expiry(&self) -> &Arc<Expiry> {
        &self.inner.expiry
    }

    pub(crate) fn downgrade(&self) -> WeakGraph {
        WeakGraph(Arc::downgrade(&self.inner))
    }

    /// What the store knew of the delivery of a query's results when it was opened, by output.
    pub(crate) fn recovered(&self, query: QueryId, output: &Text) -> Option<(Tick, Position)> {
        self.inner.recovered.get(&(query, output.clone())).cloned()
    }

    /// The outputs of queries of which it knew that.
    pub(crate) fn all_recovered(&self) -> impl Iterator<Item = &(QueryId, Text)> {
        self.inner.recovered.keys()
    }

    /// Resolves the names of a plan, once for all its runs.
    pub fn prepare(&self, plan: Plan) -> Arc<Prepared> {
        Arc::new(Prepared::new(plan, self.symbols()))
    }

    /// The present: everything whose commit has returned is in it.
    pub fn snapshot(&self) -> Snapshot {
        match self.ahead() {
            Some(ahead) => Snapshot::clone(&ahead),
            None => self.inner.published.snapshot(),
        }
    }

    /// The present while the workers are not there yet.
    pub(crate) fn ahead(&self) -> Option<Arc<Snapshot>> {
        self.inner.ahead.load_full()
    }

    /// The tick after the last commit that is known, also while the log has yet to be replayed.
    pub fn known_end(&self) -> Tick {
        lock(&self.inner.tail).last().map_or_else(|| self.next(), |entry| entry.upper)
    }

    /// The tick after the last commit.
    pub fn next(&self) -> Tick {
        self.inner.committer.next()
    }

    /// Everything before this tick survives the end of the process (or of power, with `sync_all_writes`).
    pub fn durable(&self) -> Tick {
        self.inner.parts.log.durable(self.inner.id)
    }

    pub fn wait_durable(&self, upper: Tick) -> Result<(), EngineError> {
        self.inner.parts.log.wait_durable(self.inner.id, upper, DURABLE_PATIENCE).map_err(|error| match error {
            StoreError::NoSuchGraph(_) => EngineError::NoSuchGraph(self.name().to_owned()),
            error => error.into(),
        })
    }

    /// Waits until reads show everything that was committed. Queries that write have done so when they return.
    pub fn wait_visible(&self) -> Result<(), EngineError> {
        self.inner.committer.wait_applied_all()
    }

    /// An error once a write to the log has failed: what is in memory holds what was refused then.
    pub(crate) fn readable(&self) -> Result<(), EngineError> {
        self.inner.parts.log.failure().map_or(Ok(()), |failure| Err(EngineError::Refused(failure)))
    }

    /// Where a source stood after its last record that was committed.
    pub fn position(&self, source: &str) -> Option<Position> {
        self.inner.committer.position(source)
    }

    /// Forgets a source that is gone, so that one of the same name starts anew.
    pub fn forget_source(&self, source: &str) -> Result<(), EngineError> {
        self.inner.committer.commit(Change { source: Some((source.into(), Position::default())), ..Change::default() })?;
        Ok(())
    }

    pub fn fresh_id(&self) -> NodeId {
        self.inner.fresh.next(self.ids())
    }

    /// Ingest waits here while memory is tight, while standing queries have too many results that nobody has taken, and while what is due does not
    /// come to its end in time.
    pub(crate) fn wait_for_room(&self) -> Result<(), EngineError> {
        if self.wait_for_room_while(|| true) { Ok(()) } else { Err(EngineError::Closing) }
    }

    /// The same for as long as `goes_on`, which is asked every now and then while results wait. False: there is no room, and weir ends or it does not.
    pub fn wait_for_room_while(&self, goes_on: impl Fn() -> bool) -> bool {
        memory::wait_for_room();
        if !self.wait_for_results(goes_on) {
            return false;
        }
        while self.expiry().is_late() && !self.is_closing() {
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn is_closing(&self) -> bool {
        self.inner.parts.closing.load(Ordering::Relaxed)
    }

    /// Why there is a tick, where an output of a standing query has written it.
    pub fn cause(&self, tick: Tick) -> Option<Arc<Cause>> {
        self.committer().causes.of(tick)
    }

    /// Whether more results of one standing query than this wait for its outputs.
    pub fn has_waiting(&self, results: usize) -> bool {
        self.standing().values().any(|state| state.inbox.waiting() > results)
    }

    /// False: results wait, and weir ends or `goes_on` says no.
    pub(crate) fn wait_for_results(&self, goes_on: impl Fn() -> bool) -> bool {
        while self.has_waiting(RESULTS_WAITING_MAX) {
            if self.is_closing() || !goes_on() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.wait_for_stages();
        true
    }

    /// A little, while standing queries do not keep up. What they cost slows those who write, and never stops them.
    fn wait_for_stages(&self) {
        // Asked first: there may be thousands of queries, and mostly none of them has stages.
        if !self.parts().asides.is_at_work() {
            return;
        }
        let begun = Instant::now();
        let is_behind = |state: &Arc<StandingState>| {
            let looks_through = !state.backfill.done.load(Ordering::Relaxed);
            state.pace.holds_up(looks_through)
        };
        while begun.elapsed() < STAGES_WAIT_MAX && self.standing().values().any(is_behind) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Node ids that nobody has: random, of the form the scheme gives them.
struct FreshIds {
    state: AtomicU64,
}

impl FreshIds {
    fn new() -> FreshIds {
        // The standard library seeds each of these from the operating system.
        FreshIds { state: AtomicU64::new(RandomState::new().build_hasher().finish()) }
    }

    fn random(&self) -> u64 {
        let mut z = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn next(&self, ids: IdScheme) -> NodeId {
        let (high, low) = (self.random(), self.random());
        let version = match ids {
            IdScheme::Long { .. } => return NodeId::new(0, ((low as i64) % (1 << 53)) as u64),
            IdScheme::Uuid | IdScheme::Uuid4 => 4,
            IdScheme::Uuid3 { .. } => 3,
            IdScheme::Uuid5 { .. } => 5,
        };
        NodeId::new(high & !0xf000 | version << 12, low >> 2 | 1 << 63)
    }
}
