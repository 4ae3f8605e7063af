//! Engine: a store, its log, the workers and the graphs (namespaces) in it. How it is opened, looked after and shut down.
//!
//! Everything outside goes through this handle and those of its graphs (`Graph`). Both are cheap to clone.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weir_model::lock::{lock, read, write};
use weir_model::{IdScheme, codec};

use crate::alarm::{Alarms, CLOCK};
use crate::commit::WORKERS_PATIENCE;
use crate::error::{EngineError, caught};
use crate::evaluate::pool::Pool;
use crate::graph::Graph;
use crate::history::cache::ChunkCache;
use crate::history::{self, Retention};
use crate::loading::Loading;
use crate::log::{Log, LogOptions};
use crate::render::HubBounds;
use crate::render::aside::Asides;
use crate::store::{Backup, Copied, GraphId, GraphInfo, Part, Since, Sizes, Store, StoreError};
use crate::symbols::Symbols;
use crate::worker::Workers;
use crate::{checkpoint, index, memory, scheduling};

/// The graph that is there without being created; the default namespace.
pub const DEFAULT_GRAPH: &str = "quine";

/// How often frontiers of delivery that no commit took along are logged, and how often checkpoints are considered.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_millis(20);

/// How soon a graph is looked at again that a query has locked.
const LOCKED_LOOK: Duration = Duration::from_millis(5);

/// So often the runs of a graph are looked for that have come while others went into a backup; what comes after that, checkpoints
/// wait for. Each time there are fewer of them, unless they come faster than the backup is fetched.
const LOOKS_FOR_RUNS: usize = 4;

/// What failed for a graph is tried again after this long, and after twice as long each time it fails again: a checkpoint or a
/// merge may have done all of its work before it fails.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest time until what failed for a graph is tried again.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How often it is told that housekeeping cannot be done, of one reason.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// Worker threads, each with a shard of every graph; 0 is one per core.
    pub workers: usize,
    pub ids: IdScheme,
    /// Each commit reaches the disk before it counts as durable, not only the operating system.
    pub sync_all_writes: bool,
    pub limits: QueryLimits,
    pub retention: Retention,
    /// The options of the default graph. None: those the store has, and the default ones where it has none yet.
    pub graph: Option<GraphOptions>,
    /// Expiry rules are known and not followed: for tools, which look and leave things as they are.
    pub nothing_ends: bool,
    pub hubs: HubBounds,
}

/// What a query may take, where its caller allows no less. Also what each record of an ingest stream may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    pub time_max: Duration,
    /// Memory for what one query sorts, groups, collects and writes.
    pub memory_bytes_max: usize,
    /// Memory of all queries that run at a time; records of ingest streams do not count.
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
    /// Read by whoever stores metadata, many at a time; written by whoever needs it to stay as it is.
    defining: RwLock<()>,
    stopping: AtomicBool,
    housekeepers: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    /// Those that are to end. The list is not locked any more when this returns: what they are at may have to do with it.
    fn take_housekeepers(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.housekeepers))
    }
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
    /// Held while commands are sent, so that all workers see one order. Whoever holds it waits for no worker.
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
    pub alarms: Arc<Alarms>,
    /// Who works for the stages of standing queries.
    pub asides: Arc<Asides>,
    pub loading: Arc<Loading>,
    /// Set when weir is about to end: nobody waits for room any more.
    pub closing: Arc<AtomicBool>,
}

impl Engine {
    /// Opens a store: its graphs are loaded up to their checkpoints. Standing queries that were there before are installed next
    /// (`Start::Resume`), then `start` replays what the log holds beyond. Nothing is committed to them before that.
    pub fn open(store: Arc<dyn Store>, options: Options) -> Result<Engine, EngineError> {
        Engine::open_watched(store, options, Arc::default())
    }

    /// As `open`; `loading` says meanwhile how far it is, and `start` goes on with it.
    ///
    /// Damage in one graph is no reason to do without the others: it is set aside, as it is, and the rest is opened. Damage in
    /// the default graph, or in what all share, is an error.
    pub fn open_watched(store: Arc<dyn Store>, mut options: Options, loading: Arc<Loading>) -> Result<Engine, EngineError> {
        memory::tend();
        codec::on_unreadable(tell_unreadable);
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
            alarms: Arc::default(),
            asides: Arc::new(Asides::new(count)),
            loading,
            closing: Arc::default(),
        };
        let (graphs, damaged) = load_graphs(&parts)?;
        let shared = Shared {
            parts,
            graphs: RwLock::new(graphs),
            damaged: RwLock::new(damaged),
            naming: Mutex::new(()),
            defining: RwLock::default(),
            stopping: AtomicBool::new(false),
            housekeepers: Mutex::default(),
        };
        let engine = Engine { shared: Arc::new(shared) };
        engine.begin_default_graph(options.graph)?;
        Ok(engine)
    }

    /// Creates the default graph where the store has none. An error where it is of another model than the one that is wanted.
    fn begin_default_graph(&self, wanted: Option<GraphOptions>) -> Result<(), EngineError> {
        match (self.graph(DEFAULT_GRAPH), wanted) {
            (None, wanted) => drop(self.create_graph(DEFAULT_GRAPH, wanted.unwrap_or_default())?),
            (Some(graph), Some(wanted)) if graph.options() != wanted => {
                return Err(EngineError::OtherModel { stored: graph.options().name(), wanted: wanted.name() });
            }
            _ => {}
        }
        Ok(())
    }

    /// From here on reads are answered with everything that was committed, while `start` has yet to lead the standing queries
    /// there.
    pub fn open_reads(&self) -> Result<(), EngineError> {
        self.all().iter().try_for_each(Graph::look_ahead)
    }

    /// Replays the log beyond the checkpoints and begins housekeeping.
    pub fn start(&self) -> Result<(), EngineError> {
        let mut indexes = Vec::new();
        let loading = &self.shared.parts.loading;
        let graphs = self.all();
        graphs.iter().for_each(|graph| loading.entries.add_expected(graph.entries_to_replay() as u64));
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
            let build = move || index::build_all(indexes, WORKERS_PATIENCE);
            let builder = std::thread::Builder::new().name("indexes".to_owned()).spawn(build);
            lock(&self.shared.housekeepers).push(builder.map_err(|error| EngineError::Workers(error.to_string()))?);
        }
        Ok(())
    }

    /// A thread that gives ticks to graphs whose standing queries wait for the clock.
    fn watch_clock(&self) -> Result<JoinHandle<()>, EngineError> {
        let (engine, alarms) = (Arc::downgrade(&self.shared), self.shared.parts.alarms.clone());
        let mut retries = Retries::default();
        let get_past = move |id, moment| {
            let graph = engine.upgrade().and_then(|shared| (Engine { shared }).all().into_iter().find(|graph| graph.id() == id));
            // Of one that is gone nobody waits.
            graph.is_none_or(|graph| {
                let now = Instant::now();
                if !retries.may_try(id, now) {
                    return false;
                }
                let got_past = caught(|| graph.committer().get_past(moment));
                graph.note_care(CLOCK, got_past.as_ref().err());
                retries.note(id, got_past.is_err(), now);
                got_past.unwrap_or_else(|error| {
                    tracing::error!(graph = graph.name(), "standing queries that wait for the clock wait on: {error}");
                    // Any other says that nothing is accepted any more.
                    !matches!(error, EngineError::Panicked(_) | EngineError::Store(StoreError::TooSlow { .. }))
                })
            })
        };
        let run = move || {
            scheduling::prompt();
            alarms.watch(get_past);
        };
        std::thread::Builder::new().name(CLOCK.to_owned()).spawn(run).map_err(|error| EngineError::Workers(error.to_string()))
    }

    /// A thread that does something for every graph, now and then, until the engine ends. A graph for which that fails is left
    /// alone for a while.
    fn housekeeper(
        &self,
        name: &'static str,
        begin: fn(),
        mut keep: impl FnMut(&Graph) -> Result<(), EngineError> + Send + 'static,
    ) -> Result<JoinHandle<()>, EngineError> {
        let engine = Arc::downgrade(&self.shared);
        let run = move || {
            begin();
            // Of the graph, too: what goes into pages, and pages that are merged.
            memory::holds_graph();
            // What cannot be done is tried again later, and told now and then.
            let mut retries = Retries::default();
            let mut told: FxHashMap<(GraphId, String), Instant> = FxHashMap::default();
            while let Some(shared) = engine.upgrade().filter(|shared| !shared.stopping.load(Ordering::Relaxed)) {
                told.retain(|_, at| at.elapsed() < TELL_INTERVAL);
                let graphs = (Engine { shared }).all();
                retries.0.retain(|id, _| graphs.iter().any(|graph| graph.id() == *id));
                for graph in graphs {
                    if !retries.may_try(graph.id(), Instant::now()) {
                        continue;
                    }
                    let kept = caught(|| keep(&graph));
                    graph.note_care(name, kept.as_ref().err());
                    retries.note(graph.id(), kept.is_err(), Instant::now());
                    if let Err(error) = kept {
                        told.entry((graph.id(), error.to_string())).or_insert_with(|| {
                            tracing::error!(graph = graph.name(), task = name, "{error}");
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
        let graph = Graph::create(parts, id, name.to_owned(), options).inspect_err(|_| {
            // The error is the one that is told.
            let _ = self.drop_stored(id, name);
        })?;
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
            return self.drop_stored(id, name).map(|()| true);
        }
        let Some(graph) = write(&self.shared.graphs).remove(name) else {
            return Ok(false);
        };
        graph.expiry().stop();
        graph.leave(true);
        graph.committer().end(name);
        parts.log.forget(graph.id());
        self.drop_stored(graph.id(), name).map(|()| true)
    }

    /// Drops what the store has of a graph that nobody can reach. Where that fails the name stays taken, and it can be dropped
    /// again.
    fn drop_stored(&self, id: GraphId, name: &str) -> Result<(), EngineError> {
        let dropped = self.shared.parts.store.drop_graph(id);
        let mut damaged = write(&self.shared.damaged);
        match &dropped {
            Ok(()) => drop(damaged.remove(name)),
            Err(error) => {
                let left = || Damaged { id, reason: format!("it was to be dropped, and the store still has it ({error})") };
                damaged.entry(name.to_owned()).or_insert_with(left);
            }
        }
        Ok(dropped?)
    }

    pub fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.shared.parts.store.metadata(key)?)
    }

    /// Stores or removes a small value. Durable when this returns.
    pub fn set_metadata(&self, key: &str, value: Option<&[u8]>) -> Result<(), EngineError> {
        let store = &self.shared.parts.store;
        let _not_looked_at = read(&self.shared.defining);
        match value {
            Some(value) => store.put_metadata(key, value)?,
            None => store.delete_metadata(key)?,
        }
        Ok(())
    }

    pub fn metadata_list(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        Ok(self.shared.parts.store.list_metadata(prefix)?)
    }

    /// Writes everything that is committed to a backup, or what was committed since another, graph by graph, while all goes on.
    /// Of the graph that is being written merges wait, and checkpoints while its end is: its newest runs and its log. A graph
    /// that cannot be read is an error, unless it is among those that are to be left out.
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
            // Whoever fetches it may take hours for the runs of a graph. They stay, so none is missing when its turn comes, while
            // checkpoints cut the log and add others.
            let _no_merges = graph.history().no_merges();
            if graph.committer().check_there().is_err() {
                continue;
            }
            let written = self.back_up_graph(&mut backup, &info, &graph);
            // Of one that was dropped meanwhile there may be a part, which must not be taken for the whole.
            graph.committer().check_there()?;
            written?;
        }
        Ok(backup.finish()?)
    }

    /// Writes a graph of which nobody merges runs.
    fn back_up_graph(&self, backup: &mut Backup<'_>, info: &GraphInfo, graph: &Graph) -> Result<(), EngineError> {
        let mut begun = backup.begin_graph(info, graph.durable())?;
        for _ in 0..LOOKS_FOR_RUNS {
            backup.runs(&mut begun)?;
        }
        // Before it is asked how far the log is to go: a later checkpoint might put more than that into a run.
        let _no_checkpoints = checkpoint::no_checkpoints(graph);
        let (own, until) = loop {
            // What a definition refers to (where a source stood, how far an output has delivered) is in the log before the
            // definition is stored, and is noted as gone only when the next one is. So the log up to here fits those there
            // are now, and no others.
            let as_it_is = write(&self.shared.defining);
            if let Some(until) = graph.try_next() {
                break (self.shared.parts.store.list_metadata(&info.id.metadata_prefix())?, until);
            }
            // Whoever defines something must not wait for the query that has the graph locked.
            drop(as_it_is);
            std::thread::sleep(LOCKED_LOOK);
        };
        graph.wait_durable(until)?;
        Ok(backup.end_graph(begun, &own, until)?)
    }

    /// How much the store takes.
    pub fn sizes(&self) -> Result<Sizes, EngineError> {
        Ok(self.shared.parts.store.sizes()?)
    }

    /// Those who wait to ingest until results are taken are refused from now on. The first step of an orderly end.
    pub fn close_ingest(&self) {
        self.shared.parts.closing.store(true, Ordering::Relaxed);
    }

    /// Ends: what was committed is applied, logged and, as far as results are delivered, put into pages. Where something fails
    /// the rest is done all the same; gives the first error.
    pub fn shutdown(&self) -> Result<(), EngineError> {
        if self.shared.stopping.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.close_ingest();
        self.shared.parts.alarms.stop();
        for keeper in self.shared.take_housekeepers() {
            let _ = keeper.join();
        }
        let graphs = self.all();
        graphs.iter().for_each(|graph| graph.expiry().stop());
        // How far outputs are comes first, for all graphs: what is not in the log is delivered again after the next start.
        type Step = fn(&Graph) -> Result<(), EngineError>;
        let steps: [Step; 3] = [
            |graph| graph.committer().log_delivered(),
            |graph| graph.wait_durable(graph.next()),
            |graph| checkpoint::consider(graph, true),
        ];
        let mut failure = None;
        for (step, graph) in steps.iter().flat_map(|step| graphs.iter().map(move |graph| (step, graph))) {
            match step(graph) {
                // It was dropped meanwhile.
                Ok(()) | Err(EngineError::NoSuchGraph(_)) => {}
                Err(error) => {
                    tracing::error!(graph = graph.name(), "the graph does not end as it should: {error}");
                    failure.get_or_insert(error);
                }
            }
        }
        self.shared.parts.workers.stop(&self.shared.parts.sending);
        self.shared.parts.asides.stop();
        let logged = self.shared.parts.log.shutdown();
        failure.map_or(Ok(()), Err).and(logged.map_err(EngineError::from))
    }
}

/// Of a housekeeper: the graphs for which it failed the last time, each with when it is tried again, and how long after that.
#[derive(Default)]
struct Retries(FxHashMap<GraphId, (Instant, Duration)>);

impl Retries {
    fn may_try(&self, graph: GraphId, now: Instant) -> bool {
        self.0.get(&graph).is_none_or(|(at, _)| *at <= now)
    }

    fn note(&mut self, graph: GraphId, failed: bool, now: Instant) {
        if !failed {
            self.0.remove(&graph);
            return;
        }
        let after = self.0.get(&graph).map_or(RETRY_AFTER, |(_, after)| (*after * 2).min(RETRY_AFTER_MAX));
        self.0.insert(graph, (now + after, after));
    }
}

/// The end without `shutdown`, as the end of the process would be: what is in the log is safe, the rest is let go.
impl Drop for Shared {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.parts.closing.store(true, Ordering::Relaxed);
        self.parts.alarms.stop();
        for keeper in self.take_housekeepers() {
            // The last handle may have been the housekeeper's own.
            if keeper.thread().id() != std::thread::current().id() {
                let _ = keeper.join();
            }
        }
        for graph in self.graphs.get_mut().unwrap_or_else(|e| e.into_inner()).values() {
            graph.expiry().stop();
        }
        self.parts.workers.stop(&self.parts.sending);
        self.parts.asides.stop();
    }
}

/// A stored value reads as null where it cannot be read. One may be asked for very often, so it is told less and less.
fn tell_unreadable(bytes: usize) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if count.is_power_of_two() {
        tracing::error!(
            bytes,
            count,
            "a property reads as null, as what is stored cannot be read: it is nested more than 512 levels deep, or damaged"
        );
    }
}

/// The graphs of a store by name: those that work, and those that are set aside.
type Loaded = (BTreeMap<String, Graph>, BTreeMap<String, Damaged>);

/// Loads the graphs of a store. Those that cannot be read are set aside, and the others are there all the same.
fn load_graphs(parts: &Parts) -> Result<Loaded, EngineError> {
    let infos = parts.store.graphs()?;
    note_ids(parts, &infos)?;
    for info in &infos {
        // What is wrong with it is said when it is loaded.
        let runs = parts.store.runs(info.id).unwrap_or_default();
        parts.loading.pages.add_expected(runs.iter().map(|run| run.chunks[Part::Newest as usize]).sum());
    }
    let (mut graphs, mut damaged) = (BTreeMap::new(), BTreeMap::new());
    for info in infos {
        let options = GraphOptions { open_cypher: info.options == OPEN_CYPHER };
        match Graph::load(parts, info.id, info.name.clone(), options) {
            Ok(graph) => drop(graphs.insert(info.name, graph)),
            Err(error) => drop(damaged.insert(info.name.clone(), set_aside(info.id, &info.name, error)?)),
        }
    }
    Ok((graphs, damaged))
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

/// The key of metadata under which the scheme of ids is kept that the nodes of a store have.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::InMemory;
    use crate::store::conformance::FaultyStore;

    fn options() -> Options {
        Options { workers: 1, ..Options::default() }
    }

    /// Waits for one thing after another, for 40 s in all from now on.
    fn patience() -> impl Fn(&str, &dyn Fn() -> bool) {
        let begun = Instant::now();
        move |what, is_so| {
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(40), "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[test]
    fn a_graph_whose_drop_failed_keeps_its_name_and_can_be_dropped_again() {
        let store = Arc::new(FaultyStore::new(Arc::new(InMemory::new()), usize::MAX));
        let engine = Engine::open(store.clone(), options()).unwrap();
        engine.start().unwrap();
        let create = || engine.create_graph("other", GraphOptions::default());
        create().unwrap_or_else(|error| panic!("{error}"));
        store.is_full.store(true, Ordering::SeqCst);
        for _ in 0..2 {
            let failed = engine.drop_graph("other").unwrap_err().to_string();
            assert!(failed.contains("simulated"), "{failed}");
            assert!(engine.graph("other").is_none());
            let taken = create().err().expect("the store has it still").to_string();
            assert!(taken.contains("it was to be dropped") && taken.contains("simulated"), "{taken}");
        }
        store.is_full.store(false, Ordering::SeqCst);
        assert!(engine.drop_graph("other").unwrap());
        assert!(!engine.drop_graph("other").unwrap());
        assert!(engine.damaged().is_empty());
        create().unwrap_or_else(|error| panic!("{error}"));
        let names: Vec<String> = store.graphs().unwrap().into_iter().map(|info| info.name).collect();
        assert_eq!(names, [DEFAULT_GRAPH, "other"]);
        engine.shutdown().unwrap();
    }

    /// The list of those that keep house was locked while each was waited for.
    #[test]
    fn the_end_waits_for_who_keeps_house_with_nothing_locked() {
        let engine = Engine::open(Arc::new(InMemory::new()), options()).unwrap();
        engine.start().unwrap();
        let of = engine.clone();
        let keeper = std::thread::spawn(move || {
            while !of.shared.stopping.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The end has come to wait for it.
            std::thread::sleep(Duration::from_millis(200));
            lock(&of.shared.housekeepers).clear();
        });
        lock(&engine.shared.housekeepers).push(keeper);
        let (sender, has_ended) = crossbeam_channel::bounded(1);
        let ending = engine.clone();
        std::thread::spawn(move || sender.send(ending.shutdown()).unwrap());
        has_ended.recv_timeout(Duration::from_secs(40)).expect("the end waits for ever").unwrap();
    }

    #[test]
    fn what_failed_is_tried_again_later_each_time_and_at_once_after_it_went_well() {
        let (mut retries, begin) = (Retries::default(), Instant::now());
        let [ill, well] = [GraphId(1), GraphId(2)];
        let mut now = begin;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(retries.may_try(ill, now) && retries.may_try(well, now));
            retries.note(ill, true, now);
            retries.note(well, false, now);
            let failed = now;
            while !retries.may_try(ill, now) {
                now += Duration::from_millis(500);
                assert!(retries.may_try(well, now));
            }
            pauses.push((now - failed).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        retries.note(ill, false, now);
        assert!(retries.may_try(ill, now) && retries.0.is_empty());
        retries.note(ill, true, now);
        assert!(!retries.may_try(ill, now) && retries.may_try(ill, now + RETRY_AFTER));
    }

    #[test]
    fn a_checkpoint_that_fails_is_not_tried_all_the_time() {
        let store = Arc::new(FaultyStore::new(Arc::new(InMemory::new()), usize::MAX));
        let engine = Engine::open(store.clone(), options()).unwrap();
        engine.start().unwrap();
        let (until, begun) = (patience(), Instant::now());
        store.is_full.store(true, Ordering::SeqCst);
        // One is due at once.
        let graph = engine.default_graph();
        let (mut purged, node) = (weir_model::Mutations::default(), weir_model::NodeId::new(1, 2));
        purged.set_label(node, graph.symbols().intern("l"), false);
        purged.erase(node);
        graph.apply(purged, 1).unwrap();
        let tries = || store.refused.load(Ordering::SeqCst);
        until("none was tried", &|| tries() > 0);
        std::thread::sleep(Duration::from_millis(700));
        let (tried, took) = (tries(), begun.elapsed());
        assert!(tried as u64 <= 1 + took.as_secs(), "{tried} times in {took:?}");
        store.is_full.store(false, Ordering::SeqCst);
        until("it was not tried again", &|| !store.runs(graph.id()).unwrap().is_empty());
        engine.shutdown().unwrap();
    }

    /// The thread ended with it, and nobody kept house for any graph from then on.
    #[test]
    fn a_panic_of_who_keeps_house_is_a_failure_for_one_graph() {
        let engine = Engine::open(Arc::new(InMemory::new()), options()).unwrap();
        let ill = engine.default_graph();
        let well = engine.create_graph("other", GraphOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let (is_mended, kept) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mended, count, id) = (is_mended.clone(), kept.clone(), ill.id());
        let keep = move |graph: &Graph| {
            assert!(graph.id() != id || mended.load(Ordering::SeqCst), "simulated: of {}", graph.name());
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let keeper = engine.housekeeper("pages", || (), keep).unwrap();
        lock(&engine.shared.housekeepers).push(keeper);
        let until = patience();
        until("the other is kept no more", &|| !ill.neglected().is_empty() && kept.load(Ordering::SeqCst) > 5);
        let told = ill.neglected().remove("pages").unwrap();
        assert!(told.contains("an error in weir itself") && told.contains("simulated: of quine"), "{told}");
        assert!(well.neglected().is_empty());
        is_mended.store(true, Ordering::SeqCst);
        until("it is not tried again", &|| ill.neglected().is_empty());
        engine.shutdown().unwrap();
    }

    /// The thread ended with it, and no query that waits for the clock was woken from then on.
    #[test]
    fn the_clock_is_watched_after_a_panic() {
        use weir_model::Tick;

        use crate::alarm::Alarm;
        use crate::commit::wall_clock_millis;

        let store = Arc::new(FaultyStore::new(Arc::new(InMemory::new()), usize::MAX));
        let engine = Engine::open(store.clone(), options()).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let until = patience();
        let is_told = || graph.neglected().contains_key(CLOCK);
        let wait_for = |moment: u64| {
            let mut alarm = Alarm::new(graph.parts().alarms.clone(), graph.id(), 1000);
            alarm.set(Some(moment));
            alarm
        };
        store.panics.store(true, Ordering::SeqCst);
        let moment = wall_clock_millis();
        let waiting = wait_for(moment);
        until("nobody says that it failed", &is_told);
        store.panics.store(false, Ordering::SeqCst);
        until("it is not tried again", &|| graph.sent() > Tick::at_millis(moment));
        until("it is said to fail", &|| !is_told());
        drop(waiting);
        // One that goes takes along what is said of it.
        store.panics.store(true, Ordering::SeqCst);
        let waiting = wait_for(wall_clock_millis() + 5);
        until("nobody says that it failed again", &is_told);
        drop(waiting);
        until("it is said to fail though nobody waits", &|| !is_told());
        store.panics.store(false, Ordering::SeqCst);
        engine.shutdown().unwrap();
    }

    /// What had no room was taken for done, and the query waited until something else was written.
    #[test]
    fn the_clock_goes_on_when_the_log_has_room_again() {
        use weir_model::Tick;

        use crate::alarm::Alarm;
        use crate::commit::wall_clock_millis;

        let engine = Engine::open(Arc::new(InMemory::new()), options()).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let until = patience();
        let full = graph.parts().log.full();
        let moment = wall_clock_millis();
        let mut alarm = Alarm::new(graph.parts().alarms.clone(), graph.id(), 1000);
        alarm.set(Some(moment));
        until("nobody says that there is no room", &|| graph.neglected().contains_key(CLOCK));
        assert!(graph.sent() <= Tick::at_millis(moment));
        drop(full);
        until("it is not tried again", &|| graph.sent() > Tick::at_millis(moment));
        drop(alarm);
        engine.shutdown().unwrap();
    }

    #[test]
    #[cfg(feature = "rocks-db")]
    fn what_fails_at_the_end_of_one_graph_is_done_for_the_others() {
        use weir_model::{Mutations, NodeId, Position, QueryId, Tick};

        use crate::store::{Delivered, RocksDb, RocksDbOptions};

        let temporary = tempfile::tempdir().unwrap();
        let sound: Arc<dyn Store> = Arc::new(RocksDb::open(RocksDbOptions::new(temporary.path())).unwrap());
        let store = Arc::new(FaultyStore::new(sound.clone(), usize::MAX));
        let query = QueryId(NodeId::new(1, 2));
        let delivered = Delivered { query, output: "file".into(), tick: Tick(7), position: Position(vec![3]) };
        // Without `start` nobody but the end writes down how far an output is.
        let engine = Engine::open(store.clone(), options()).unwrap();
        let other = engine.create_graph("other", GraphOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        for graph in [&engine.default_graph(), &other] {
            // Enough for a checkpoint.
            for _ in 0..600 {
                graph.apply(Mutations::default(), 1).unwrap();
            }
            graph.committer().note_delivered(delivered.clone());
        }
        store.is_full.store(true, Ordering::SeqCst);
        let failed = engine.shutdown().unwrap_err().to_string();
        assert!(failed.contains("simulated"), "{failed}");
        assert!(matches!(engine.shared.parts.log.check(), Err(StoreError::Stopped)));
        drop((other, engine));
        let engine = Engine::open(sound, options()).unwrap();
        for graph in engine.all() {
            let known = graph.recovered(query, &delivered.output);
            assert_eq!(known, Some((delivered.tick, delivered.position.clone())), "{}", graph.name());
        }
        assert_eq!(engine.all().len(), 2);
    }
}
