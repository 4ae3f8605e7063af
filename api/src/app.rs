//! App: everything the service consists of while it runs, shared by routes, recipes and the demonstration.
//!
//! Owns the order of starting and stopping. Does not know HTTP or the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::watch;
use weir_connectors::{ConnectorError, FilePolicy, FileResolution, HostPolicy, SecretPolicy, SourceContext, secret};
use weir_engine::store::{InMemory, Store, StoreError};
use weir_engine::{DEFAULT_GRAPH, Engine, EngineError, Graph, GraphOptions, Options, QueryLimits};

use crate::auth::Auth;
use crate::config::{Settings, StoreSettings};
use crate::error::ApiError;
use crate::ingest::Ingests;
use crate::live::LiveState;
use crate::log::inform;
use crate::metrics::{StoreTimers, TimedStore};
use crate::procedures::Procedures;
use crate::queries::Queries;
use crate::routes::ShardLimits;
use crate::standing::{StandingQueries, parked};
use crate::startup::Startup;

/// The other name of the default namespace.
const DEFAULT_GRAPH_ALIAS: &str = "default";

/// Why weir takes no requests as it ends.
pub const STOPPING: &str = "weir is stopping";

/// How long a request that has begun may take to come once weir, or the server of its start, stops. A connection that has asked
/// nothing by then is closed.
pub const LATE_REQUEST_MAX: Duration = Duration::from_secs(1);

/// How long the results found before the end may take to reach their destinations.
const DELIVERY_PATIENCE: Duration = Duration::from_secs(20);

/// Why weir does not start, or not end in good order, and why a tool cannot work with the store. Whoever tells it tells what
/// caused it, too: see `chain`.
#[derive(Debug, Error)]
pub enum StartError {
    /// What the configuration allows cannot be allowed.
    #[error(transparent)]
    Configuration(#[from] ConnectorError),
    /// As `Configuration`, for the directories that this key names.
    #[error("{key}")]
    Directories { key: &'static str, source: ConnectorError },
    #[error("logins cannot be had: {0}")]
    Logins(String),
    #[error("cannot open the store in {place}")]
    Store { place: String, source: StoreError },
    #[error("there is no store in {0}: store.filepath, or a configuration file, says where it is")]
    NoStore(String),
    /// It is gone when weir ends: it holds nothing for a tool, and would keep nothing of what that puts there.
    #[error(
        "the store that is configured holds nothing before weir runs, and nothing afterwards: set store.type and store.filepath"
    )]
    NothingStays,
    #[error("cannot {doing}")]
    Engine { doing: &'static str, source: EngineError },
    #[error("cannot {doing}")]
    Restore { doing: &'static str, source: ApiError },
    #[error("the store could not be closed cleanly")]
    Close(#[source] EngineError),
}

pub struct App {
    pub settings: Settings,
    pub engine: Engine,
    pub ingests: Ingests,
    pub standing: StandingQueries,
    pub live: Arc<LiveState>,
    /// How queries are compiled, and what they may call besides what the compiler knows.
    pub procedures: Arc<Procedures>,
    pub queries: Queries,
    /// Who may ask, where there are logins.
    pub auth: Option<Auth>,
    pub shard_limits: ShardLimits,
    pub store_timers: Arc<StoreTimers>,
    startup: Arc<Startup>,
    ready: AtomicBool,
    stop: watch::Sender<bool>,
}

impl App {
    /// Opens the store and brings back the graph and the standing queries that were there. From here on reads are answered;
    /// `start` does the rest. `recipe_directories` may be read besides those of the configuration.
    pub fn open(settings: Settings, recipe_directories: &[PathBuf], startup: &Arc<Startup>) -> Result<Arc<App>, StartError> {
        let hosts = HostPolicy::new(&settings.allowed_hosts)?;
        let files = file_policy(&settings, recipe_directories)?;
        let secrets = SecretPolicy::new(settings.secrets.directories.clone(), settings.secrets.environment.clone());
        secret::allow(secrets?);
        let procedures = Procedures::new(files.clone(), hosts.clone(), settings.query.text_bytes_max);
        let context =
            SourceContext { files, hosts, runtime: Handle::current(), stream: String::new(), wanted: None, tells: false };
        let store_timers = Arc::new(StoreTimers::default());
        let store = Arc::new(TimedStore { store: open_store(&settings.store)?, timers: store_timers.clone() });
        let sync_all_writes = matches!(settings.store, StoreSettings::RocksDb { sync_all_writes: true, .. });
        let limits = QueryLimits {
            time_max: settings.query.time_max,
            memory_bytes_max: settings.query.memory_bytes_max,
            all_memory_bytes_max: settings.query.all_memory_bytes_max,
        };
        let options = Options {
            workers: settings.workers,
            ids: settings.ids,
            sync_all_writes,
            limits,
            retention: settings.retention,
            graph: settings.graph,
            nothing_ends: false,
            ..Options::default()
        };
        let auth = settings.auth.as_ref().map(Auth::new).transpose().map_err(|error| StartError::Logins(error.to_string()))?;
        startup.at("the graph is being read");
        let engine = Engine::open_watched(store, options, startup.loading()).map_err(cannot("open the graph"))?;
        let live = Arc::new(LiveState::default());
        let app = App {
            ingests: Ingests::new(engine.clone(), context, procedures.clone()),
            standing: StandingQueries::new(engine.clone(), live.clone(), procedures.clone(), settings.chain_max),
            live,
            procedures,
            engine,
            queries: Queries::new(settings.query.clone()),
            auth,
            shard_limits: ShardLimits::default(),
            store_timers,
            settings,
            startup: startup.clone(),
            ready: AtomicBool::new(false),
            stop: watch::channel(false).0,
        };
        startup.at("standing queries are being restored");
        app.standing.restore().map_err(cannot_bring_back("restore the standing queries"))?;
        app.engine.open_reads().map_err(cannot("read the log"))?;
        let app = Arc::new(app);
        if let Some(auth) = &app.auth {
            auth.follow_provider(app.stopping());
        }
        app.procedures.connect(&app);
        startup.answer_reads(&app);
        Ok(app)
    }

    /// Leads the standing queries to where the graph is, so that nothing passes them by, then begins streams anew.
    pub fn start(self: &Arc<App>) -> Result<(), StartError> {
        self.startup.at("reads are answered, and what the log holds is being replayed");
        self.engine.start().map_err(cannot("replay the log"))?;
        self.startup.at("streams are being restored");
        let restored = self.ingests.restore(self.settings.should_resume_ingest);
        restored.map_err(cannot_bring_back("restore the ingest streams"))?;
        tokio::spawn(parked::look_after(Arc::downgrade(self), self.standing.parked()));
        Ok(())
    }

    /// Everything that was to run when it was started does: from here on every request is answered.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Why requests should not be sent here, if so.
    pub fn not_ready(&self) -> Option<String> {
        match (*self.stop.borrow(), self.is_ready()) {
            (true, _) => Some(STOPPING.to_owned()),
            (false, false) => Some(self.startup.reason()),
            (false, true) => self.engine.log_failure().map(|failure| failure.to_string()),
        }
    }

    /// Asks the process to end; it does so on its own. A second request changes nothing.
    pub fn stop(&self, who: &str) {
        if !self.stop.send_replace(true) {
            inform(format_args!("stopping, asked by {who}: what was read is written, what was found is delivered"));
        }
    }

    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Waits until weir is asked to stop.
    pub async fn stopped(&self) {
        let _ = self.stopping().wait_for(|stop| *stop).await;
    }

    /// Waits until weir is asked to stop, and for `time` after that.
    pub async fn stopped_for(&self, time: Duration) {
        self.stopped().await;
        tokio::time::sleep(time).await;
    }

    /// The graph of a namespace; none, `quine` and `default` name the one that is always there.
    pub fn graph(&self, namespace: Option<&str>) -> Result<Graph, ApiError> {
        let Some(namespace) = namespace else { return Ok(self.engine.default_graph()) };
        let name = valid_namespace(namespace)?;
        match name.as_str() {
            DEFAULT_GRAPH | DEFAULT_GRAPH_ALIAS => Ok(self.engine.default_graph()),
            name => match self.engine.graph(name) {
                Some(graph) => Ok(graph),
                None => {
                    self.engine.check_graph(name)?;
                    Err(ApiError::absent("namespace", name))
                }
            },
        }
    }

    /// The namespaces for which something is not done for now that should be; what, and why.
    pub fn neglected(&self) -> Vec<(String, BTreeMap<&'static str, String>)> {
        let graphs = self.engine.graphs().into_iter().filter_map(|name| self.engine.graph(&name));
        graphs.map(|graph| (graph.name().to_owned(), graph.neglected())).filter(|(_, neglected)| !neglected.is_empty()).collect()
    }

    /// The names of all namespaces, the default one first; also of those that are damaged.
    pub fn namespaces(&self) -> Vec<String> {
        let damaged = self.engine.damaged().into_iter().map(|(name, _)| name);
        let mut others: Vec<_> = self.engine.graphs().into_iter().filter(|name| name != DEFAULT_GRAPH).chain(damaged).collect();
        others.sort();
        std::iter::once(DEFAULT_GRAPH_ALIAS.to_owned()).chain(others).collect()
    }

    /// The name as it is kept, and whether the namespace is new. It is like the default one.
    pub fn create_namespace(&self, name: &str) -> Result<(String, bool), ApiError> {
        let name = valid_namespace(name)?;
        if matches!(name.as_str(), DEFAULT_GRAPH | DEFAULT_GRAPH_ALIAS) {
            return Ok((name, false));
        }
        let options = GraphOptions { open_cypher: self.engine.default_graph().open_cypher() };
        match self.engine.create_graph(&name, options) {
            Ok(_) => Ok((name, true)),
            Err(EngineError::GraphExists(_)) => Ok((name, false)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends what runs in a namespace and forgets it. Answers with its name, and whether it was there.
    pub fn delete_namespace(&self, name: &str) -> Result<(String, bool), ApiError> {
        let name = valid_namespace(name)?;
        if matches!(name.as_str(), DEFAULT_GRAPH | DEFAULT_GRAPH_ALIAS) {
            return Err(ApiError::bad("The default namespace cannot be deleted"));
        }
        let Some(graph) = self.engine.graph(&name) else {
            // Of one that is damaged nothing runs.
            let dropped = self.engine.drop_graph(&name)?;
            return Ok((name, dropped));
        };
        graph.leave(true);
        let dropped = self.empty(&graph).and_then(|()| Ok(self.engine.drop_graph(&name)?));
        if dropped.is_err() {
            graph.leave(false);
        }
        Ok((name, dropped?))
    }

    /// Ends what runs in a namespace that is left. What else is noted of it goes with it, all at once.
    fn empty(&self, graph: &Graph) -> Result<(), ApiError> {
        self.standing.delete_all(graph, || self.ingests.delete_all(graph))
    }

    /// The end: sources stop and hand in what they have read, results found so far are delivered, queries that run get a moment
    /// more, the store is closed.
    pub fn shut_down(&self) -> Result<(), StartError> {
        self.live.broadcast.close();
        self.engine.close_ingest();
        let queries = || self.queries.shut_down();
        std::thread::scope(|scope| {
            let beside = std::thread::Builder::new().name("last queries".to_owned()).spawn_scoped(scope, queries);
            self.ingests.shut_down();
            self.standing.shut_down(Instant::now() + DELIVERY_PATIENCE);
            if beside.is_err() {
                queries();
            }
        });
        self.engine.shutdown().map_err(StartError::Close)
    }
}

/// `doing` completes "cannot …".
fn cannot(doing: &'static str) -> impl FnOnce(EngineError) -> StartError {
    move |source| StartError::Engine { doing, source }
}

/// As `cannot`, for what a restart brings back.
fn cannot_bring_back(doing: &'static str) -> impl FnOnce(ApiError) -> StartError {
    move |source| StartError::Restore { doing, source }
}

/// The name as it is kept.
fn valid_namespace(name: &str) -> Result<String, ApiError> {
    let lower = name.to_ascii_lowercase();
    let valid = lower.starts_with(|c: char| c.is_ascii_lowercase())
        && lower.len() <= 16
        && lower.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if valid {
        return Ok(lower);
    }
    Err(ApiError::bad(format!("Invalid namespace '{name}': a namespace has 1 to 16 letters and digits and begins with a letter")))
}

fn file_policy(settings: &Settings, recipe_directories: &[PathBuf]) -> Result<FilePolicy, StartError> {
    let files = &settings.file_ingest;
    let resolution = if files.only_present_at_start { FileResolution::Static } else { FileResolution::Dynamic };
    let directories: Vec<_> = files.allowed_directories.iter().chain(recipe_directories).cloned().collect();
    let within = |key| move |source| StartError::Directories { key, source };
    let policy = FilePolicy::new(&directories, resolution).map_err(within("file-ingest.allowed-directories"))?;
    let policy = policy.except(settings.store.path());
    match &settings.file_output {
        None => Ok(policy),
        Some(directories) => policy.writing_in(directories).map_err(within("file-output.allowed-directories")),
    }
}

/// For tools that change nothing, and work with what is there: a wrong path is no empty store. Also a store that cannot be
/// written to, on a disk that is full or mounted read-only. Says why it cannot be.
pub(crate) fn open_to_read(settings: &StoreSettings) -> Result<(Arc<dyn Store>, Option<StartError>), StartError> {
    must_be_there(settings)?;
    let reason = match open(settings) {
        Ok(store) => return Ok((store, None)),
        Err(error) => cannot_open(settings, error),
    };
    match settings {
        #[cfg(feature = "rocks-db")]
        StoreSettings::RocksDb { path, .. } => {
            match weir_engine::store::RocksDb::open_to_read(weir_engine::store::RocksDbOptions::new(path)) {
                Ok(store) => Ok((Arc::new(store) as Arc<dyn Store>, Some(reason))),
                Err(_) => Err(reason),
            }
        }
        #[cfg(feature = "map-db")]
        StoreSettings::MapDb { path: Some(path), .. } => {
            match weir_engine::store::MapDb::open_to_read(weir_engine::store::MapDbOptions::new(path)) {
                Ok(store) => Ok((Arc::new(store) as Arc<dyn Store>, Some(reason))),
                Err(_) => Err(reason),
            }
        }
        _ => Err(reason),
    }
}

/// For tools: where the store is, which is to be there before weir runs and afterwards.
pub(crate) fn must_stay(settings: &StoreSettings) -> Result<&Path, StartError> {
    settings.path().ok_or(StartError::NothingStays)
}

fn must_be_there(settings: &StoreSettings) -> Result<(), StartError> {
    let path = must_stay(settings)?;
    let is_there = |path: &Path| match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_some()),
        Ok(found) => found.len() > 0,
        // Whatever is wrong with it is said when it is opened.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    };
    if is_there(path) { Ok(()) } else { Err(StartError::NoStore(shown(path))) }
}

pub(crate) fn open_store(settings: &StoreSettings) -> Result<Arc<dyn Store>, StartError> {
    open(settings).map_err(|error| cannot_open(settings, error))
}

fn cannot_open(settings: &StoreSettings, source: StoreError) -> StartError {
    StartError::Store { place: settings.path().map(shown).unwrap_or_default(), source }
}

fn open(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    match settings {
        StoreSettings::InMemory => Ok(Arc::new(InMemory::default())),
        StoreSettings::Empty => Ok(Arc::new(InMemory::empty())),
        #[cfg(feature = "map-db")]
        StoreSettings::MapDb { path, create_parent_dir } => {
            let name = || {
                std::env::temp_dir().join(format!(
                    "weir-{}-{}.map-db",
                    std::process::id(),
                    crate::clock::millis(std::time::SystemTime::now())
                ))
            };
            let options = weir_engine::store::MapDbOptions {
                create_parent_dir: *create_parent_dir,
                temporary: path.is_none(),
                ..weir_engine::store::MapDbOptions::new(path.clone().unwrap_or_else(name))
            };
            Ok(Arc::new(weir_engine::store::MapDb::open(options)?))
        }
        #[cfg(not(feature = "map-db"))]
        StoreSettings::MapDb { .. } => Err(StoreError::failed("open it", "this weir is built without the store map-db")),
        #[cfg(feature = "rocks-db")]
        StoreSettings::RocksDb { path, sync_all_writes, create_parent_dir } => {
            let options = weir_engine::store::RocksDbOptions {
                sync_all_writes: *sync_all_writes,
                create_parent_dir: *create_parent_dir,
                ..weir_engine::store::RocksDbOptions::new(path)
            };
            Ok(Arc::new(weir_engine::store::RocksDb::open(options)?))
        }
        #[cfg(not(feature = "rocks-db"))]
        StoreSettings::RocksDb { .. } => Err(StoreError::failed("open it", "this weir is built without the store rocks-db")),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
