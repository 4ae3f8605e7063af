//! From the command line to a running service, and its end. The order of things; each thing is elsewhere.

use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, geteuid, getpid, kill_process};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use weir_engine::memory;

use crate::app::{App, StartError};
use crate::cli::{Arguments, Command};
use crate::client::Problem;
use crate::config::{self, ConfigError, MemorySettings, Settings, StoreSettings, Webserver};
use crate::error::chain;
use crate::log::{say, tell};
use crate::metrics::memory_bytes_total;
use crate::queries::{QuerySettings, RUNNING_MAX};
use crate::recipe::{NoRecipe, Recipe};
use crate::server::Answers;
use crate::startup::Startup;
use crate::temporary::Temporary;
use crate::tls::Tls;
use crate::tools::ToolError;
use crate::{ask, cli, demo, live, log, metrics, open_files, server, shell, tools, traces, transfer};

/// How long everything may take to end after it was asked to.
const STOP_MAX: Duration = Duration::from_secs(60);

/// How long the last answers may take to leave once `STOP_MAX` has passed.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// The exit code of a weir that was asked to end and could not do so in good order. What starts weir again when it fails is to
/// leave it then.
const UNFINISHED: u8 = 4;

/// The exit code where the configuration or a recipe is wrong, as where the command line is: starting again mends none of them.
const MISTAKEN: u8 = ask::USAGE;

/// Why weir ends otherwise than in good order.
enum Trouble {
    /// It could not start, or failed.
    Failed(String),
    /// The configuration or the recipe is wrong.
    Mistaken(String),
    /// It was asked to end, and not everything was done.
    Unfinished(String),
}

impl From<ConfigError> for Trouble {
    fn from(error: ConfigError) -> Trouble {
        Trouble::Mistaken(error.to_string())
    }
}

impl From<NoRecipe> for Trouble {
    fn from(why: NoRecipe) -> Trouble {
        match why {
            NoRecipe::Mistaken(_) => Trouble::Mistaken(why.to_string()),
            NoRecipe::Failed(reason) => Trouble::Failed(reason),
        }
    }
}

impl From<StartError> for Trouble {
    fn from(error: StartError) -> Trouble {
        Trouble::Failed(chain(&error))
    }
}

impl From<String> for Trouble {
    fn from(reason: String) -> Trouble {
        Trouble::Failed(reason)
    }
}

/// Runs until asked to stop, or asks another weir.
pub fn run(arguments: &Arguments) -> ExitCode {
    let url = |given: Option<&str>| arguments.url(given, std::env::var("WEIR_URL").ok());
    // Where a tool is told to ask a weir; otherwise it opens the store.
    let asked = |given: &Option<String>| given.as_deref().map(|given| url(Some(given)));
    let with_settings = |act: &dyn Fn(&Settings) -> Result<ExitCode, ToolError>| {
        let settings = match configuration(arguments) {
            Ok((settings, unknown)) => {
                // Who runs weir itself is told in its log; of those who use it this one asks what is in force.
                for problem in unknown.iter().filter(|_| matches!(arguments.command, Some(Command::Config { .. }))) {
                    say(format_args!("weir: {problem}"));
                }
                settings
            }
            Err(error) => return fail(&error.to_string(), ExitCode::from(MISTAKEN)),
        };
        if opens_store(&arguments.command) {
            warn_root(&settings.store);
        }
        act(&settings).unwrap_or_else(|error| match error {
            // As a query says it.
            ToolError::Unreachable(reason) => {
                say(&reason);
                ask::exit_code(&Problem::Unreachable(reason))
            }
            ToolError::Failed(reason) => fail(&reason, ExitCode::FAILURE),
        })
    };
    let with_store =
        |act: &dyn Fn(&StoreSettings) -> Result<ExitCode, ToolError>| with_settings(&|settings| act(&settings.store));
    match &arguments.command {
        Some(Command::Config { .. }) => with_settings(&|settings| Ok(print(config::show::text(settings).as_bytes()))),
        Some(Command::Completions { shell }) => print(&cli::completions(*shell)),
        Some(Command::Manual) => cli::manual().map_or(ExitCode::FAILURE, |page| print(&page)),
        Some(Command::Check) => with_store(&tools::check_store),
        Some(Command::Backup(backup)) => {
            let url = asked(&backup.url);
            with_store(&|store| tools::back_up(backup, url.as_deref(), store))
        }
        Some(Command::Restore { files }) => with_store(&|store| tools::restore_store(store, files)),
        Some(Command::Export { transfer: what, at_time }) => {
            let url = asked(&what.url);
            with_settings(&|settings| transfer::export(what, url.as_deref(), *at_time, settings))
        }
        Some(Command::Import(what)) => {
            let url = asked(&what.url);
            with_settings(&|settings| transfer::import(what, url.as_deref(), settings))
        }
        Some(Command::Shell(target)) => shell::run(target, &url(target.url.as_deref())),
        Some(Command::Query(question)) => ask::run(question, &url(question.target.url.as_deref())),
        Some(Command::Plan(of)) => ask::plan(of, &url(of.url.as_deref())),
        Some(Command::Demo { rate }) => run_service(arguments, Some(*rate)),
        None => run_service(arguments, None),
    }
}

/// Beside the settings, what is to be said of variables of the environment that set nothing.
fn configuration(arguments: &Arguments) -> Result<(Settings, Vec<String>), ConfigError> {
    let (settings, read) = config::load_here(&arguments.sources(), &|name: &str| std::env::var_os(name))?;
    let given = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let unknown = config::unknown_variables(given, &read, &settings.secrets.environment);
    Ok((settings, unknown))
}

fn fail(reason: &str, code: ExitCode) -> ExitCode {
    log::tell_error(reason);
    code
}

fn print(text: &[u8]) -> ExitCode {
    // Whoever reads it may have read enough.
    let _ = std::io::stdout().write_all(text);
    ExitCode::SUCCESS
}

/// Whether the command works with the store by itself, and asks no weir.
fn opens_store(command: &Option<Command>) -> bool {
    match command {
        Some(Command::Check | Command::Restore { .. }) => true,
        Some(Command::Backup(backup)) => backup.url.is_none(),
        Some(Command::Export { transfer, .. } | Command::Import(transfer)) => transfer.url.is_none(),
        _ => false,
    }
}

/// Root may write everywhere; the weir of whoever the place belongs to cannot open afterwards what root made there.
fn warn_root(store: &StoreSettings) {
    let Some(path) = store.path().filter(|_| geteuid().is_root()) else { return };
    if let Some(owner) = foreign_owner(path) {
        let words = format!(
            "root runs this, and {} belongs to the user {owner}, or lies in a directory that does: a weir of that user cannot open what root \
             makes there. Run it as that user: sudo -u '#{owner}' weir …",
            path.display()
        );
        if log::is_objects_alone() { tracing::warn!("{words}") } else { say(format_args!("weir: {words}")) }
    }
}

/// Who has a store, or the directory above it, if that is not root.
fn foreign_owner(path: &Path) -> Option<u32> {
    let path = std::path::absolute(path).ok()?;
    let above = path.ancestors().skip(1).find(|place| place.exists())?;
    let owners = [path.as_path(), above].into_iter().filter_map(|place| std::fs::metadata(place).ok());
    owners.map(|found| found.uid()).find(|owner| *owner != 0)
}

fn run_service(arguments: &Arguments, demo: Option<u32>) -> ExitCode {
    let (reason, code) = match serve(arguments, demo) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Trouble::Failed(reason)) => (reason, ExitCode::FAILURE),
        Err(Trouble::Mistaken(reason)) => (reason, ExitCode::from(MISTAKEN)),
        Err(Trouble::Unfinished(reason)) => (reason, ExitCode::from(UNFINISHED)),
    };
    fail(&reason, code)
}

/// What is to be run, everything read and checked.
struct Prepared {
    settings: Settings,
    recipe: Option<Recipe>,
    demo: Option<u32>,
    /// The store of a recipe or of the demonstration, and the data of a recipe that came with weir: they go away with it.
    temporary: Vec<Temporary>,
}

fn prepare(arguments: &Arguments, demo: Option<u32>) -> Result<Prepared, Trouble> {
    let (mut settings, unknown) = configuration(arguments)?;
    settings.without_effect.extend(arguments.without_recipe());
    // Whatever is wrong from here on is said as the log is written.
    log::start(&settings.log).map_err(Trouble::Mistaken)?;
    for problem in unknown {
        tracing::warn!("{problem}");
    }
    let mut temporary = Vec::new();
    let recipe = match &arguments.recipe {
        Some(name) => {
            let (recipe, data) = Recipe::load(name, &arguments.recipe_value)?;
            temporary.extend(data);
            Some(recipe)
        }
        None => None,
    };
    open_files::raise();
    let borrows = match (&recipe, demo) {
        (Some(_), _) => Some("the recipe"),
        (None, Some(_)) => Some("the demonstration"),
        (None, None) => None,
    };
    if let Some(what) = borrows.filter(|_| arguments.has_own_store() && settings.store != StoreSettings::InMemory) {
        let why = format!("the store of {what}");
        if cfg!(feature = "rocks-db") {
            let place = Temporary::new(arguments.no_delete)?;
            let store = place.path.join("graph.weir-data");
            if arguments.no_delete {
                tell(format_args!("The data of {what} are in {}", store.display()));
            }
            settings.keep_in(Some(store), &why);
            temporary.push(place);
        } else {
            settings.keep_in(None, &why);
        }
    }
    if let Some(what) = borrows.filter(|_| arguments.no_delete && settings.store == StoreSettings::InMemory) {
        tell(format_args!("The data of {what} are in memory: --no-delete keeps none of them"));
    }
    warn_root(&settings.store);
    Ok(Prepared { settings, recipe, demo, temporary })
}

fn serve(arguments: &Arguments, demo: Option<u32>) -> Result<(), Trouble> {
    let runtime = runtime().map_err(|error| format!("cannot start the threads that serve requests: {error}"))?;
    let on_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    let at_once = {
        let _within = runtime.enter();
        if !on_terminal {
            outlive_hangups()?;
        }
        end_at_once_on_signals(on_terminal)?
    };
    let Prepared { settings, recipe, demo, temporary } = prepare(arguments, demo)?;
    if settings.dump {
        tell(config::show::text(&settings).trim_end());
    }
    if !settings.without_effect.is_empty() {
        tracing::warn!("these settings have no effect here: {}", settings.without_effect.join(", "));
    }
    let result = runtime.block_on(serve_within(settings, recipe, demo, at_once, on_terminal));
    // What still waits for the network has had its time.
    runtime.shutdown_timeout(Duration::from_secs(1));
    drop(temporary);
    result
}

/// With threads for all queries that may run at a time, and as many again for everything else that blocks.
fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().max_blocking_threads(2 * RUNNING_MAX).build()
}

/// Where that cannot be had, which the error says why, weir works as long as the graph has room.
fn bound_memory(settings: &MemorySettings, query: &mut QuerySettings) -> Result<(), String> {
    let Some(Some(limit)) = config::memory(&settings.limit, memory_bytes_total()) else { return Ok(()) };
    memory::bound(limit, &settings.directory)?;
    tracing::debug!("memory is bounded to {} MiB", limit >> 20);
    query.memory_bytes_max = memory::at_most(query.memory_bytes_max, 4);
    query.all_memory_bytes_max = memory::at_most(query.all_memory_bytes_max, 2);
    Ok(())
}

async fn serve_within(
    mut settings: Settings,
    recipe: Option<Recipe>,
    demo: Option<u32>,
    at_once: Option<JoinHandle<()>>,
    on_terminal: bool,
) -> Result<(), Trouble> {
    let doors = Doors::open(&settings.webserver).await?;
    let (url, serving) = (doors.url(), doors.listener.is_some());
    let directories = recipe.as_ref().map(Recipe::directories).unwrap_or_default();
    let store = described(&settings.store);
    let workers = match settings.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    };
    // Before the store is opened, which takes its share of it.
    let bounded = bound_memory(&settings.memory, &mut settings.query);
    if let Some(settings) = &settings.traces {
        traces::start(settings)?;
    }
    let startup = Arc::new(Startup::default());
    let watch = Startup::watch(&startup);
    let (opened, stop_starting) = watch::channel(false);
    let starting = doors.serve(Answers::Starting(startup.clone()), Answers::StartingHealth(startup.clone()), &stop_starting);
    let app = App::open(settings, &directories, &startup)?;
    // Where the store cannot be opened, that memory is not bounded either is nothing to be told.
    if let Err(problem) = bounded {
        tracing::warn!("memory is not bounded: {problem}; set memory.directory, or memory.limit = none");
    }
    app.start()?;
    drop(watch);
    stop_on_signals(&app, on_terminal)?;
    if let Some(at_once) = at_once {
        at_once.abort();
    }
    let recipe = recipe.map(|recipe| {
        startup.at("the recipe is being started");
        // Creating streams and queries blocks.
        tokio::task::block_in_place(|| recipe.start(&app))
    });
    app.set_ready();
    opened.send_replace(true);
    all_end(starting).await;
    if let Some(tls) = &doors.tls {
        tokio::spawn(tls.clone().follow(app.stopping()));
    }
    // While everything else ends, probes are still told so.
    let (close, closed) = watch::channel(false);
    let mut tasks = doors.serve(Answers::All(app.clone()), Answers::Health(app.clone()), &closed);
    // They are closed when the servers are done.
    drop(doors);
    metrics::reporters::start(&app);
    tasks.push(tokio::spawn(live::tick(app.clone())));
    greet(&url, &store, workers, serving);
    if let Some(recipe) = recipe {
        recipe.follow(&app, &url);
    }
    let demo = match demo {
        Some(rate) => Some(tokio::task::block_in_place(|| demo::start(&app, rate, &url))?),
        None => None,
    };
    let mut stop = app.stopping();
    let _ = stop.wait_for(|stop| *stop).await;
    if let Some(demo) = demo {
        let _ = tokio::task::block_in_place(|| demo.join());
    }
    end(app, tasks, &close).await
}

/// `close`: the ports.
async fn end(app: Arc<App>, tasks: Vec<JoinHandle<()>>, close: &watch::Sender<bool>) -> Result<(), Trouble> {
    let began = Instant::now();
    let ended = tokio::time::timeout(STOP_MAX, shut_down(app)).await;
    close.send_replace(true);
    let left = STOP_MAX.saturating_sub(began.elapsed()).max(LAST_ANSWERS_MAX);
    if tokio::time::timeout(left, all_end(tasks)).await.is_err() {
        tracing::warn!("some requests were not finished when weir ended; they are cut");
    }
    traces::finish().await;
    let reason = match ended {
        Ok(Some(Ok(()))) => {
            match log::is_objects_alone() {
                true => tracing::info!("stopped"),
                false => say("Stopped."),
            }
            return Ok(());
        }
        Ok(Some(Err(error))) => chain(&error),
        Ok(None) => "the end failed: an error in weir itself".to_owned(),
        Err(_) => format!("not everything ended within {} s; what was acknowledged is safe", STOP_MAX.as_secs()),
    };
    Err(Trouble::Unfinished(reason))
}

/// None where it has panicked. On a thread of its own: those of the runtime may all be busy with what only this ends.
async fn shut_down(app: Arc<App>) -> Option<Result<(), StartError>> {
    let (tell, told) = oneshot::channel();
    let (own, runtime) = (app.clone(), Handle::current());
    let work = move || {
        let _within = runtime.enter();
        let ended = own.shut_down();
        // What it holds goes before the process may end.
        drop(own);
        // Who asked may have waited long enough.
        let _ = tell.send(ended);
    };
    match std::thread::Builder::new().name("the end".to_owned()).spawn(work) {
        Ok(_) => {
            drop(app);
            told.await.ok()
        }
        // Then on this one, which has nothing else to do.
        Err(_) => Some(tokio::task::block_in_place(|| app.shut_down())),
    }
}

async fn all_end(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        // One that has panicked has ended, too.
        let _ = task.await;
    }
}

/// The keys that name the files of TLS.
const TLS_FILES: &str = "webserver.tls, webserver.use-mtls.trust-store";

/// The ports that weir listens at; none without a web server.
struct Doors {
    webserver: Webserver,
    listener: Option<Arc<TcpListener>>,
    tls: Option<Arc<Tls>>,
    health: Option<Arc<TcpListener>>,
}

impl Doors {
    /// Before anything else: a port is the quickest thing to find taken, and nothing has been touched yet. Certificates that
    /// cannot be used are a mistake of the configuration.
    async fn open(webserver: &Webserver) -> Result<Doors, Trouble> {
        let mut doors = Doors { webserver: webserver.clone(), listener: None, tls: None, health: None };
        if webserver.enabled {
            let unusable = |reason: String| Trouble::Mistaken(format!("{TLS_FILES}: {reason}"));
            doors.tls = webserver.tls.clone().map(Tls::open).transpose().map_err(unusable)?;
            doors.listener = Some(Arc::new(server::bind(webserver).await?));
            if let Some(port) = webserver.health_port {
                doors.health = Some(Arc::new(server::bind_health(port).await?));
            }
            // Here, so that it is told once.
            doors.webserver.connections_max = open_files::connections(webserver.connections_max);
        }
        Ok(doors)
    }

    fn url(&self) -> String {
        server::url(&self.webserver, self.listener.as_ref().and_then(|listener| listener.local_addr().ok()))
    }

    /// The servers at them, until `stop` says so.
    fn serve(&self, answers: Answers, health: Answers, stop: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
        let open = |answers, listener: &Option<Arc<TcpListener>>, tls: &Option<Arc<Tls>>| {
            let listener = listener.clone()?;
            Some(tokio::spawn(server::serve(answers, self.webserver.clone(), listener, tls.clone(), stop.clone())))
        };
        open(answers, &self.listener, &self.tls).into_iter().chain(open(health, &self.health, &None)).collect()
    }
}

fn described(store: &StoreSettings) -> String {
    match store {
        StoreSettings::InMemory => "in memory, gone when weir stops".to_owned(),
        StoreSettings::Empty => "none (empty), gone when weir stops, as is the past at once".to_owned(),
        StoreSettings::RocksDb { path, .. } => format!("rocks-db in {}", path.display()),
        StoreSettings::MapDb { path: Some(path), .. } => format!("map-db in {}", path.display()),
        StoreSettings::MapDb { path: None, .. } => "map-db in a temporary file".to_owned(),
    }
}

fn greet(url: &str, store: &str, workers: usize, serving: bool) {
    let place = if serving { format!("at {url}") } else { "without a web server".to_owned() };
    if !std::io::stderr().is_terminal() {
        tracing::info!("weir {} is ready {place}; store: {store}", crate::VERSION);
        return;
    }
    let mut text = format!("weir {} is ready {place}\n  store     {store}\n  workers   {workers}\n", crate::VERSION);
    if serving {
        text.push_str(&format!("  the API   {url}/docs\n  ask it    weir shell --url {url}\n"));
    }
    text.push_str("  stop with Ctrl-C");
    say(text);
}

/// Signals so close together are one: `timeout` and others tell a process, and then its group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// The name of the signal that the terminal is gone.
const HANGUP: &str = "SIGHUP";

/// SIGINT and SIGTERM as they come, and SIGHUP where weir was started on a terminal.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: Option<unix::Signal>,
}

impl Signals {
    fn watch(on_terminal: bool) -> Result<Signals, String> {
        let hangup = on_terminal.then(|| watch_for(SignalKind::hangup())).transpose()?;
        Ok(Signals { interrupt: watch_for(SignalKind::interrupt())?, terminate: watch_for(SignalKind::terminate())?, hangup })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        let Signals { interrupt, terminate, hangup } = self;
        let hangup = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
            _ = hangup => HANGUP,
        }
    }
}

fn watch_for(kind: SignalKind) -> Result<unix::Signal, String> {
    signal(kind).map_err(|error| format!("cannot watch for signals: {error}"))
}

/// Without a terminal SIGHUP asks a service to read its files again; who does not watch for it is ended by the kernel.
fn outlive_hangups() -> Result<(), String> {
    let mut hangups = watch_for(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tracing::info!(
                "{HANGUP} changes nothing: certificates that change are read again by themselves, the configuration when weir starts"
            );
        }
    });
    Ok(())
}

/// While there is nothing yet that could end in order. Who does not watch for these signals is ended by the kernel, except for
/// the first process of a container, which does it itself.
fn end_at_once_on_signals(on_terminal: bool) -> Result<Option<JoinHandle<()>>, String> {
    if !getpid().is_init() {
        return Ok(None);
    }
    let mut signals = Signals::watch(on_terminal)?;
    Ok(Some(tokio::spawn(async move {
        let name = signals.next().await;
        tell(format_args!("{name} before weir was ready: ending at once. What was acknowledged is safe."));
        end_at_once();
    })))
}

/// Signals ask for an orderly end; a second one does not wait for it, but for that of a terminal, which tells it as it likes.
fn stop_on_signals(app: &Arc<App>, on_terminal: bool) -> Result<(), String> {
    let mut signals = Signals::watch(on_terminal)?;
    let app = app.clone();
    tokio::spawn(async move {
        let mut asked: Option<Instant> = None;
        loop {
            let name = signals.next().await;
            if let Some(asked) = asked {
                if asked.elapsed() < ONE_SIGNAL || name == HANGUP {
                    continue;
                }
                tell(format_args!("{name} again: ending at once. What was acknowledged is safe."));
                end_at_once();
            }
            asked = Some(Instant::now());
            app.stop(name);
        }
    });
    Ok(())
}

/// As with SIGKILL, and nothing behind it: destructors would wait for threads.
fn end_at_once() {
    let _ = kill_process(getpid(), Signal::KILL);
    // The first process of a container is not ended by that.
    std::process::abort()
}

/// Ends the process as it stands, in a command as behind `run`: what libraries have static may be in use by their threads.
pub fn exit(code: u8) -> ! {
    #[expect(unsafe_code, reason = "the standard library ends a process only through what is to be left out here")]
    // SAFETY: nothing comes after it that could rely on anything.
    unsafe {
        libc::_exit(i32::from(code))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn places_of_others_are_known() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = directory.path().join("graph.weir-data");
        std::fs::write(&store, "").expect("a file");
        if !geteuid().is_root() {
            assert_eq!(foreign_owner(&store), Some(geteuid().as_raw()));
            return;
        }
        assert_eq!(foreign_owner(&store), None);
        // Within a container there may be no others.
        if chown(directory.path(), Some(12_345), None).is_ok() {
            assert_eq!(foreign_owner(&store), Some(12_345), "what root made before is in there");
            assert_eq!(foreign_owner(&directory.path().join("absent/graph")), Some(12_345));
        }
    }
}
