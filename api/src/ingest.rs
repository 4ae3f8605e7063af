//! Ingest streams: created, listed, paused, ended, and brought back after a restart.
//!
//! Owns the life of a stream and what is remembered of it. How its records travel is in `pump`. Does not know any
//! particular source, nor HTTP.

mod errors;
mod limit;
mod pump;
mod transformation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use weir_connectors::{ConnectorError, Intake, RecordQuery, SOURCES, SourceConfig, SourceContext, Upload, secret};
use weir_cypher_compiler::compile;
use weir_engine::{Engine, Graph, Prepared, RESULTS_WAITING_MAX};
use weir_model::Text;
use weir_model::lock::lock;

pub use errors::ErrorHandling;
pub use transformation::Transformation;

use self::pump::Resting;
use crate::clock;
use crate::error::{ApiError, chain};
use crate::meter::Meter;
use crate::procedures::Procedures;
use crate::wire::decode::{Mistakes, refuse_elsewhere};
use crate::wire::family::Family;
use crate::wire::v2;

/// Sources of the reference service that are not here.
const SOURCES_ELSEWHERE: &[&str] = &[
    #[cfg(not(feature = "kafka"))]
    "KafkaIngest",
    #[cfg(not(feature = "aws"))]
    "KinesisIngest",
    #[cfg(not(feature = "aws"))]
    "KinesisKCLIngest",
    "PulsarIngest",
    #[cfg(not(feature = "aws"))]
    "SQSIngest",
    #[cfg(not(feature = "aws"))]
    "S3Ingest",
];

/// What a stream is called in errors.
pub const WHAT: &str = "ingest stream";

/// What whoever makes a stream is told whose query does so.
pub const SCANS: &str =
    "the query of the ingest stream visits every node for each record; give it an anchor: id(n) = idFrom($that.key)";

/// A stream that shall end still commits what it has read, for so long: not every source can give it again. A batch that takes longer, also when the
/// stream is paused, is broken off between two records.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// For so long a pause is not answered while a batch takes effect, or a record of it.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(10);

/// What is told of a stream of which a thread has panicked.
const BUG: &str = "the stream ended through a bug in weir; the log has the details";

/// How many failed records are kept to be looked at; the count goes on.
const FAILURES_KEPT_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Running,
    Paused,
    /// Brought back after a restart, not started.
    Restored,
    Completed,
    Terminated,
    Failed,
}

impl Status {
    const ALL: [Status; 6] =
        [Status::Running, Status::Paused, Status::Restored, Status::Completed, Status::Terminated, Status::Failed];

    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "Running",
            Status::Paused => "Paused",
            Status::Restored => "Restored",
            Status::Completed => "Completed",
            Status::Terminated => "Terminated",
            Status::Failed => "Failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Terminated | Status::Failed)
    }
}

/// A record that had no effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptRecord {
    pub number: u64,
    pub reason: String,
    pub sample: String,
}

/// What is told of a stream after a restart, as it was when it was last stored.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Past {
    records: u64,
    bytes: u64,
    failed_records: u64,
    kept: Vec<KeptRecord>,
    coming_again: BTreeSet<u64>,
    /// Milliseconds since 1970; none of a stream that is new.
    started: Option<u64>,
    /// Milliseconds.
    ran: u64,
}

pub struct Stream {
    pub name: String,
    graph: Graph,
    /// What the engine knows the source by. Another stream of the same name gets another one, so that it starts anew.
    source: String,
    config: Box<dyn SourceConfig>,
    errors: ErrorHandling,
    transformation: Transformation,
    query: Arc<Prepared>,
    scans: bool,
    state: Mutex<State>,
    /// Whether it should end, or pause: then `state` says since when.
    halts: AtomicBool,
    /// Wakes a stream that is paused, and whoever waits for its pause.
    changed: Condvar,
    /// Its end is waited for by one after another.
    joining: Mutex<()>,
    /// It is stored by one after another, each time as it is then: the last word is the newest.
    storing: Mutex<()>,
    records: Meter,
    bytes: Meter,
    started: SystemTime,
    /// How long it ran in earlier lives.
    ran: Duration,
    clock: Instant,
    place: Mutex<Place>,
}

/// Either there is a thread that runs the stream, or the stream rests here; neither before it was started and once it has ended.
#[derive(Default)]
struct Place {
    thread: Option<JoinHandle<()>>,
    resting: Option<Resting>,
}

struct State {
    status: Status,
    /// Since then the stream should end: it was deleted, or weir stops.
    stopping: Option<Instant>,
    /// Since then it is paused.
    paused: Option<Instant>,
    /// A batch takes effect at the moment.
    committing: bool,
    message: Option<String>,
    /// What keeps the source from reading at the moment.
    trouble: Option<String>,
    /// What has happened to what it reads, and does not pass.
    notice: Option<String>,
    /// What keeps dead letters from their destination.
    undelivered: Option<String>,
    /// What keeps its records from taking effect.
    late: Option<String>,
    /// Results that nobody has taken keep it from changing the graph.
    waits_for_results: bool,
    ended_after: Option<Duration>,
    failed_records: u64,
    kept: Vec<KeptRecord>,
    /// Those of them, by number, that ended the stream and are before no position: they are counted, and come again when it is started again.
    coming_again: BTreeSet<u64>,
}

impl State {
    /// Whether it waits until it is started.
    fn holds(&self) -> bool {
        self.status != Status::Running && self.stopping.is_none()
    }

    /// Whether what was read may still be committed.
    fn may_finish(&self) -> bool {
        self.stopping.is_none_or(|since| since.elapsed() < FINISH_TIME_MAX)
    }

    /// Why it does not get on, or has ended.
    fn message(&self) -> Option<String> {
        let waits = || {
            self.waits_for_results.then(|| {
                format!(
                    "waits: a standing query has more than {RESULTS_WAITING_MAX} results that an output has not taken; `holdsIngest` in its status says which"
                )
            })
        };
        let known = self.message.as_ref().or(self.undelivered.as_ref()).or(self.late.as_ref()).cloned();
        known.or_else(waits).or_else(|| self.trouble.clone()).or_else(|| self.notice.clone())
    }
}

pub struct Ingests {
    engine: Engine,
    context: SourceContext,
    procedures: Arc<Procedures>,
    streams: Mutex<BTreeMap<(String, String), Arc<Stream>>>,
    /// What the counts of the streams lack for those of this process: records of streams that were deleted, less (so it wraps) what came in
    /// earlier processes. Changes with `streams`.
    records_besides: AtomicU64,
    /// What there is, and what is stored of it, changes one at a time. Nothing is waited for under it: neither the world nor the end of a stream.
    changing: Mutex<()>,
}

impl Ingests {
    pub fn new(engine: Engine, context: SourceContext, procedures: Arc<Procedures>) -> Ingests {
        Ingests {
            engine,
            context,
            procedures,
            streams: Mutex::default(),
            records_besides: AtomicU64::default(),
            changing: Mutex::default(),
        }
    }

    /// Creates a stream and starts it. The definition is stored first: a crash leaves no stream, or one that can go on.
    pub fn create(&self, graph: &Graph, name: &str, definition: &Json) -> Result<Arc<Stream>, ApiError> {
        let definition = read(definition)?;
        definition.0.query().map_or(Ok(()), |query| self.procedures.check_text(query.text))?;
        definition.2.check()?;
        let free = || match self.get(graph, name) {
            Some(_) => {
                Err(ApiError::bad(format!("Cannot create ingest stream `{name}` (a stream with this name already exists)")))
            }
            None => Ok(()),
        };
        free()?;
        let source = format!("{name}#{}", clock::millis(SystemTime::now()));
        let stream = Stream::new(graph, (name, source), definition, (Status::Running, Past::default()), &self.procedures)?;
        secret::check(|| stream.config.stored()).map_err(refused)?;
        stream.config.check(&SourceContext { stream: name.to_owned(), ..self.context.clone() }).map_err(refused)?;
        stream.errors.check(&stream.source, &*stream.config, stream.graph.ids(), &self.context).map_err(refused)?;
        // Servers may have been asked meanwhile.
        let _one = lock(&self.changing);
        graph.stays()?;
        free()?;
        self.store(&stream)?;
        self.keep(stream.clone());
        stream.run(&self.engine, &self.context);
        Ok(stream)
    }

    /// Brings back what was there before a restart. With `resume`, streams that ran go on where they stood.
    pub fn restore(&self, resume: bool) -> Result<(), ApiError> {
        for graph in self.engine.graphs().iter().filter_map(|name| self.engine.graph(name)) {
            for (key, stored) in self.engine.metadata_list(&key(&graph, ""))? {
                match self.revive(&graph, &stored, resume) {
                    Ok(stream) => {
                        self.records_besides.fetch_sub(stream.ingested(), Ordering::Relaxed);
                        self.keep(stream.clone());
                        if stream.status() == Status::Running {
                            stream.run(&self.engine, &self.context);
                        }
                    }
                    Err(error) => tracing::error!("the ingest stream stored as '{key}' cannot be restored: {error}"),
                }
            }
        }
        Ok(())
    }

    fn revive(&self, graph: &Graph, stored: &[u8], resume: bool) -> Result<Arc<Stream>, ApiError> {
        let stored: Json = serde_json::from_slice(stored).map_err(|error| ApiError::Failed(error.to_string()))?;
        let text = |field: &str| stored[field].as_str().unwrap_or_default();
        let before = Status::ALL.into_iter().find(|status| status.name() == text("status")).unwrap_or(Status::Restored);
        let status = match before {
            Status::Running | Status::Restored if resume => Status::Running,
            Status::Running => Status::Restored,
            other => other,
        };
        let settings = &stored["settings"];
        let definition = read(settings)?;
        // Of one that an earlier version stored nothing is known.
        let past = Past::deserialize(&stored["past"]).unwrap_or_default();
        let named = (text("name"), text("source").to_owned());
        let stream = Stream::new(graph, named, definition, (status, past), &self.procedures)?;
        if let Some(message) = stored["message"].as_str() {
            stream.lock().message = Some(message.to_owned());
        }
        if status.is_terminal() {
            stream.freeze();
        }
        Ok(stream)
    }

    pub fn get(&self, graph: &Graph, name: &str) -> Option<Arc<Stream>> {
        lock(&self.streams).get(&(graph.name().to_owned(), name.to_owned())).cloned()
    }

    /// By name.
    pub fn list(&self, graph: &Graph) -> Vec<Arc<Stream>> {
        lock(&self.streams).iter().filter(|((of, _), _)| of == graph.name()).map(|(_, stream)| stream.clone()).collect()
    }

    /// How many records came from all streams since the start, those that were deleted included.
    pub fn records(&self) -> u64 {
        let streams = lock(&self.streams);
        let there: u64 = streams.values().map(|stream| stream.ingested()).sum();
        there.wrapping_add(self.records_besides.load(Ordering::Relaxed))
    }

    /// Those of a graph that is left, in which none comes any more.
    pub fn last_of(&self, graph: &Graph) -> Vec<Arc<Stream>> {
        let _one = lock(&self.changing);
        self.list(graph)
    }

    /// Holds a stream. Nothing more of it takes effect when this has returned, or has waited for long.
    pub fn pause(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        let one = lock(&self.changing);
        self.still_there(stream)?;
        stream.set_running(false)?;
        self.store(stream)?;
        drop(one);
        stream.wait_committed();
        Ok(())
    }

    /// Lets a stream go on where it stood: one that was paused, brought back, or failed.
    pub fn start(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        let _one = lock(&self.changing);
        self.still_there(stream)?;
        if stream.status() == Status::Failed {
            stream.begin_again();
        }
        stream.set_running(true)?;
        stream.run(&self.engine, &self.context);
        self.store(stream)
    }

    /// Ends a stream, waits for it, and forgets it. Answers with it as it ended.
    pub fn delete(&self, graph: &Graph, name: &str) -> Result<Option<Arc<Stream>>, ApiError> {
        let one = lock(&self.changing);
        let Some(stream) = self.get(graph, name) else { return Ok(None) };
        stream.stop();
        drop(one);
        stream.join();
        stream.end(Status::Terminated, None);
        let _one = lock(&self.changing);
        // Somebody else may have deleted it, too, and yet another one created one of its name.
        if self.is_there(&stream) {
            self.engine.set_metadata(&key(graph, name), None)?;
            graph.forget_source(&stream.source)?;
            let mut streams = lock(&self.streams);
            streams.remove(&(graph.name().to_owned(), name.to_owned()));
            self.records_besides.fetch_add(stream.ingested(), Ordering::Relaxed);
        }
        Ok(Some(stream))
    }

    fn is_there(&self, stream: &Arc<Stream>) -> bool {
        self.get(&stream.graph, &stream.name).is_some_and(|there| Arc::ptr_eq(&there, stream))
    }

    /// Not one that was deleted meanwhile, or is about to be: it would be stored again.
    fn still_there(&self, stream: &Arc<Stream>) -> Result<(), ApiError> {
        if self.is_there(stream) && !stream.is_stopping() { Ok(()) } else { Err(ApiError::absent(WHAT, &stream.name)) }
    }

    /// Weir stops: every stream hands in what it has read, as far as that takes no longer than `FINISH_TIME_MAX`, and ends. Their status is as it was, so that they come back.
    pub fn shut_down(&self) {
        let streams: Vec<_> = lock(&self.streams).values().cloned().collect();
        streams.iter().for_each(|stream| stream.stop());
        for stream in streams {
            stream.join();
            let _one = lock(&self.changing);
            // The end of one that has ended is stored.
            if self.is_there(&stream)
                && !stream.status().is_terminal()
                && let Err(error) = self.store(&stream)
            {
                tracing::warn!(ingest = stream.name, "how much it has read could not be stored: {error}");
            }
        }
    }

    fn keep(&self, stream: Arc<Stream>) {
        lock(&self.streams).insert((stream.graph.name().to_owned(), stream.name.clone()), stream);
    }

    fn store(&self, stream: &Stream) -> Result<(), ApiError> {
        Ok(stream.store(&self.engine)?)
    }
}

impl Stream {
    fn new(
        graph: &Graph,
        (name, source): (&str, String),
        (config, errors, transformation): Definition,
        (status, past): (Status, Past),
        procedures: &Arc<Procedures>,
    ) -> Result<Arc<Stream>, ApiError> {
        // Records that are only counted run nothing, and the stream is like any other.
        let query = config.query().unwrap_or(RecordQuery { text: "RETURN null", parameter: "that" });
        let plan = compile(query.text, &procedures.options(graph, vec![Text::new(query.parameter)]))?;
        if let Some(other) = plan.parameters.iter().find(|name| name.as_str() != query.parameter) {
            return Err(ApiError::bad(format!("Unknown parameter `{other}`; a record is in `${}`", query.parameter)));
        }
        let scans = plan.facts.scans;
        if scans {
            tracing::warn!(ingest = name, "{SCANS}");
        }
        let query = graph.prepare(plan);
        let state = State {
            status,
            stopping: None,
            paused: None,
            committing: false,
            message: None,
            trouble: None,
            notice: None,
            undelivered: None,
            late: None,
            waits_for_results: false,
            ended_after: None,
            failed_records: past.failed_records,
            kept: past.kept,
            coming_again: past.coming_again,
        };
        Ok(Arc::new(Stream {
            name: name.to_owned(),
            graph: graph.clone(),
            source,
            config,
            errors,
            transformation,
            query,
            scans,
            state: Mutex::new(state),
            halts: AtomicBool::new(false),
            changed: Condvar::new(),
            joining: Mutex::default(),
            storing: Mutex::default(),
            records: Meter::from(past.records),
            bytes: Meter::from(past.bytes),
            started: past.started.map_or_else(SystemTime::now, |millis| UNIX_EPOCH + Duration::from_millis(millis)),
            ran: Duration::from_millis(past.ran),
            clock: Instant::now(),
            place: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether its query visits every node.
    pub fn scans(&self) -> bool {
        self.scans
    }

    pub fn status(&self) -> Status {
        self.lock().status
    }

    pub fn ingested(&self) -> u64 {
        self.records.count()
    }

    pub fn ingested_bytes(&self) -> u64 {
        self.bytes.count()
    }

    /// What kind of source it reads, as v1 names it.
    pub fn kind(&self) -> String {
        self.config.settings()["type"].as_str().unwrap_or_default().to_owned()
    }

    /// Records a second, at most; none where that is not bounded.
    pub fn rate_limit(&self) -> Option<u64> {
        self.config.settings()["maximumPerSecond"].as_u64()
    }

    pub fn records_per_second(&self) -> f64 {
        self.records.recent()
    }

    pub fn failed_records(&self) -> u64 {
        self.lock().failed_records
    }

    /// Where its file is uploaded, if it reads one so.
    pub fn upload(&self) -> Option<&Upload> {
        self.config.upload()
    }

    /// Waits until reads show what it has committed.
    pub fn wait_visible(&self) -> Result<(), ApiError> {
        Ok(self.graph.wait_visible()?)
    }

    /// Where clients hand in records, if it takes them so.
    pub fn intake(&self) -> Option<&Intake> {
        self.config.intake()
    }

    /// Why it has ended.
    pub fn message(&self) -> Option<String> {
        self.lock().message.clone()
    }

    /// The records kept aside but the first ones: number, reason and sample of each.
    pub fn kept_from(&self, first: usize) -> Vec<(u64, String, String)> {
        let state = self.lock();
        state.kept.iter().skip(first).map(|kept| (kept.number, kept.reason.clone(), kept.sample.clone())).collect()
    }

    /// Starts the thread, unless it is there or the stream rests.
    fn run(self: &Arc<Self>, engine: &Engine, context: &SourceContext) {
        let place = lock(&self.place);
        if place.thread.is_some() || place.resting.is_some() || self.status().is_terminal() {
            return;
        }
        let context =
            SourceContext { stream: self.name.clone(), wanted: self.wanted(), tells: self.errors.tells(), ..context.clone() };
        self.start_thread(place, engine, context, None);
    }

    fn start_thread(
        self: &Arc<Self>,
        mut place: MutexGuard<'_, Place>,
        engine: &Engine,
        context: SourceContext,
        rested: Option<Resting>,
    ) {
        let (stream, engine) = (self.clone(), engine.clone());
        let named = weir_connectors::thread::named("ingest", &self.name);
        let run = move || {
            let _end = EndIfPanics { stream: &stream, engine: &engine };
            pump::run(&stream, &engine, &context, rested);
        };
        match named.spawn(run) {
            Ok(handle) => place.thread = Some(handle),
            Err(error) => self.end(Status::Failed, Some(format!("no thread could be started: {error}"))),
        }
    }

    /// The thread that asks is about to go: the stream rests until its source calls. Gives it back where that cannot be.
    fn rest_until_called(self: &Arc<Self>, mut resting: Resting, engine: &Engine, context: &SourceContext) -> Option<Resting> {
        // Whoever calls, stops or starts it waits until it rests, or does not.
        let mut place = lock(&self.place);
        if self.is_stopping() {
            return Some(resting);
        }
        let (stream, engine, context) = (Arc::downgrade(self), engine.clone(), context.clone());
        let call = Box::new(move || {
            if let Some(stream) = stream.upgrade() {
                stream.wake(&engine, context);
            }
        });
        if !resting.rest(call) {
            return Some(resting);
        }
        // What has changed since it was looked at, when nobody could be called for it.
        self.note_trouble(resting.trouble());
        *place = Place { thread: None, resting: Some(resting) };
        None
    }

    /// Something has come for a stream that rests.
    fn wake(self: &Arc<Self>, engine: &Engine, context: SourceContext) {
        let mut place = lock(&self.place);
        if let Some(rested) = place.resting.take() {
            self.start_thread(place, engine, context, Some(rested));
        }
    }

    /// The keys of a record that its query looks at. Whoever is told of records that fail gets all of them, and so does a transformation.
    fn wanted(&self) -> Option<Arc<[Text]>> {
        let query = self.config.query().filter(|_| !self.errors.tells() && !self.transformation.is_some())?;
        Some(self.query.plan.keys_asked(query.parameter)?.into_iter().collect())
    }

    fn set_running(&self, running: bool) -> Result<(), ApiError> {
        let mut state = self.lock();
        if state.status.is_terminal() {
            let verb = if running { "resume" } else { "pause" };
            // A stream that ended on its own is called failed, as clients know it.
            let ended = if state.status == Status::Terminated { "terminated" } else { "failed" };
            return Err(ApiError::bad(format!("Cannot {verb} a {ended} ingest.")));
        }
        state.status = if running { Status::Running } else { Status::Paused };
        state.paused = if running { None } else { state.paused.or_else(|| Some(Instant::now())) };
        self.halts.store(!running || state.stopping.is_some(), Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn stop(&self) {
        self.lock().stopping.get_or_insert_with(Instant::now);
        self.halts.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn join(&self) {
        let _one = lock(&self.joining);
        // Of a stream that rests everything is durable, and nobody has to be waited for. Its source ends where no lock is held.
        let Place { thread, resting } = std::mem::take(&mut *lock(&self.place));
        drop(resting);
        if thread.is_some_and(|thread| thread.join().is_err()) {
            self.end(Status::Failed, Some(BUG.to_owned()));
        }
    }

    /// A status to stay with, unless there is one already.
    fn end(&self, status: Status, message: Option<String>) {
        let mut state = self.lock();
        if state.status.is_terminal() {
            return;
        }
        state.status = status;
        state.message = message;
        (state.trouble, state.undelivered, state.late) = (None, None, None);
        drop(state);
        self.freeze();
    }

    /// Takes the end of a stream that failed back. Its position is that of what was committed, and stays.
    fn begin_again(&self) {
        if self.status() != Status::Failed {
            // Somebody else was faster, and the thread is that of a stream that runs.
            return;
        }
        self.join();
        let mut state = self.lock();
        state.status = Status::Running;
        (state.message, state.ended_after) = (None, None);
        self.records.go_on();
        self.bytes.go_on();
    }

    fn freeze(&self) {
        self.lock().ended_after = Some(self.ran + self.clock.elapsed());
        self.records.end();
        self.bytes.end();
    }

    fn note_trouble(&self, trouble: Option<String>) {
        self.lock().trouble = trouble;
    }

    fn note_notice(&self, notice: Option<String>) {
        if notice.is_some() {
            self.lock().notice = notice;
        }
    }

    fn note_undelivered(&self, reason: Option<String>) {
        self.lock().undelivered = reason;
    }

    fn note_late(&self, reason: Option<String>) {
        self.lock().late = reason;
    }

    fn is_stopping(&self) -> bool {
        self.lock().stopping.is_some()
    }

    /// Waits so long. False when it is to end.
    fn wait_unless_stopping(&self, pause: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, pause, |state| state.stopping.is_none());
        waited.unwrap_or_else(|e| e.into_inner()).0.stopping.is_none()
    }

    /// Waits while the stream is paused. False when it is to end.
    fn may_go_on(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.holds());
        state.unwrap_or_else(|e| e.into_inner()).stopping.is_none()
    }

    /// Waits while the stream is paused, so long at most, and no longer than until there is news. None while it is paused, and false when it is to end.
    fn may_go_on_within(&self, time_max: Duration, is_news: impl Fn() -> bool) -> Option<bool> {
        let waited = self.changed.wait_timeout_while(self.lock(), time_max, |state| state.holds() && !is_news());
        let state = waited.unwrap_or_else(|e| e.into_inner()).0;
        (!state.holds()).then(|| state.stopping.is_none())
    }

    /// There is news for whoever waits for the end of a pause.
    fn tell_in_pause(&self) {
        if self.halts.load(Ordering::Relaxed) {
            // Whoever has looked, and does not wait yet, has the lock.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Waits until the graph has room for a batch. False when it is to end without that batch.
    fn wait_for_room(&self) -> bool {
        let room = self.graph.wait_for_room_while(|| {
            let mut state = self.lock();
            state.waits_for_results = true;
            state.may_finish()
        });
        self.lock().waits_for_results = false;
        room
    }

    /// Waits while the stream is paused; then a batch may take effect, until `committed`. False when it is to end without that batch.
    fn may_commit(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.holds());
        let mut state = state.unwrap_or_else(|e| e.into_inner());
        state.committing = state.status == Status::Running && state.may_finish();
        state.committing
    }

    /// Whether a batch has gone on for long enough since the stream was to end or to pause. Asked before each record.
    fn breaks_off(&self) -> bool {
        self.halts.load(Ordering::Relaxed) && {
            let state = self.lock();
            [state.stopping, state.paused].into_iter().flatten().any(|since| since.elapsed() >= FINISH_TIME_MAX)
        }
    }

    fn committed(&self) {
        self.lock().committing = false;
        self.changed.notify_all();
    }

    /// Waits until no batch takes effect, if that does not take too long.
    fn wait_committed(&self) {
        let state = self.lock();
        drop(self.changed.wait_timeout_while(state, PAUSE_TIME_MAX, |state| state.committing && state.status == Status::Paused));
    }

    /// Counts a record that had no effect, and keeps it if there is room. The log has the first of them, then every thousandth.
    fn set_aside(&self, number: u64, reason: String, sample: String) {
        let mut state = self.lock();
        if state.coming_again.remove(&number) {
            return;
        }
        state.failed_records += 1;
        if self.errors.log_record && (state.failed_records <= 10 || state.failed_records.is_multiple_of(1000)) {
            let count = state.failed_records;
            tracing::warn!(ingest = self.name, record = number, count, "a record had no effect: {reason}");
        }
        if state.kept.len() < FAILURES_KEPT_MAX {
            state.kept.push(KeptRecord { number, reason, sample });
        }
    }

    /// The same of records that end the stream.
    fn set_aside_to_come_again(&self, number: u64, reason: String, sample: String) {
        self.set_aside(number, reason, sample);
        self.lock().coming_again.insert(number);
    }

    fn runtime(&self, state: &State) -> Duration {
        state.ended_after.unwrap_or_else(|| self.ran + self.clock.elapsed())
    }

    fn store(&self, engine: &Engine) -> Result<(), weir_engine::EngineError> {
        let _one = lock(&self.storing);
        let mut settings = self.config.stored();
        self.errors.store(&mut settings);
        self.transformation.show(&mut settings);
        let state = self.lock();
        let past = Past {
            records: self.records.count(),
            bytes: self.bytes.count(),
            failed_records: state.failed_records,
            kept: state.kept.clone(),
            coming_again: state.coming_again.clone(),
            started: Some(clock::millis(self.started)),
            ran: self.runtime(&state).as_millis() as u64,
        };
        let stored = json!({
            "name": self.name,
            "source": self.source,
            "status": state.status.name(),
            "message": state.message,
            "settings": settings,
            "past": past,
        });
        drop(state);
        engine.set_metadata(&key(&self.graph, &self.name), Some(stored.to_string().as_bytes()))
    }

    /// The end of one that has ended by itself.
    fn store_end(&self, engine: &Engine) {
        if let Err(error) = self.store(engine) {
            tracing::error!(ingest = self.name, "its end could not be stored: {error}");
        }
    }

    /// What clients see; `name` where the answer is not an object keyed by it.
    pub fn to_json(&self, family: Family, with_name: bool) -> Json {
        let state = self.lock();
        let mut info = if with_name { json!({"name": self.name}) } else { json!({}) };
        info["status"] = family.word(state.status.name()).into();
        if let Some(message) = state.message() {
            info["message"] = message.into();
        }
        let settings = self.config.settings();
        info["settings"] = if family.is_v2() {
            v2::ingest::shown(&self.name, &settings, (&self.errors, &self.transformation), family)
        } else {
            settings
        };
        let runtime = self.runtime(&state);
        info["stats"] = json!({
            "ingestedCount": self.records.count(),
            "rates": self.records.to_json(),
            "byteRates": self.bytes.to_json(),
            "startTime": clock::instant(self.started),
            "totalRuntime": family.duration(runtime),
        });
        if state.failed_records > 0 {
            let kept = state
                .kept
                .iter()
                .map(|record| json!({"number": record.number, "reason": record.reason, "sample": record.sample}));
            info["failedRecords"] = json!({"count": state.failed_records, "first": kept.collect::<Vec<_>>()});
        }
        info
    }
}

/// A stream of which the thread panics has failed: nobody waits for the thread of one that runs, and would see it.
struct EndIfPanics<'a> {
    stream: &'a Stream,
    engine: &'a Engine,
}

impl Drop for EndIfPanics<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stream.end(Status::Failed, Some(BUG.to_owned()));
            self.stream.store_end(self.engine);
        }
    }
}

/// The settings of a stored stream as they may be shown: secrets masked. None where they cannot be read.
pub fn shown(settings: &Json) -> Option<Json> {
    let mut shown = parse(settings).ok()?.settings();
    ErrorHandling::decode(settings).ok()?.show(&mut shown, Family::Current);
    Transformation::read(settings).ok()?.show(&mut shown);
    Some(shown)
}

/// What a definition says of the source, of failures, and of records before their query.
type Definition = (Box<dyn SourceConfig>, ErrorHandling, Transformation);

fn read(definition: &Json) -> Result<Definition, ApiError> {
    Ok((parse(definition)?, ErrorHandling::read(definition)?, Transformation::read(definition)?))
}

fn parse(definition: &Json) -> Result<Box<dyn SourceConfig>, ApiError> {
    let known: Vec<&str> = SOURCES.iter().map(|row| row.name_v1).collect();
    let mut mistakes = Mistakes::default();
    refuse_elsewhere(definition, "source", SOURCES_ELSEWHERE, &known, &mut mistakes);
    mistakes.or(Some(())).map_err(ApiError::Decode)?;
    weir_connectors::parse_source_v1(definition).map_err(refused)
}

/// Where a definition is stored: with its graph, so that it goes when the graph does.
fn key(graph: &Graph, name: &str) -> String {
    format!("{}ingest/{name}", graph.id().metadata_prefix())
}

/// A definition that cannot work, in the words clients know.
pub fn refused(error: ConnectorError) -> ApiError {
    match error {
        ConnectorError::Config { field, problem } if field.is_empty() => {
            ApiError::Decode(vec![format!("DecodingFailure at : {problem}")])
        }
        ConnectorError::Config { field, problem } => ApiError::Decode(vec![format!("DecodingFailure at .{field}: {problem}")]),
        other => ApiError::bad(chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use weir_connectors::{FilePolicy, HostPolicy};
    use weir_engine::Options;
    use weir_engine::store::InMemory;

    use super::*;

    pub(super) fn stream() -> (Engine, Arc<Stream>) {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() });
        let engine = engine.expect("an engine in memory");
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let definition = read(&json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect("a definition");
        let (named, life) = (("numbers", "numbers#1".to_owned()), (Status::Running, Past::default()));
        let stream = Stream::new(&engine.default_graph(), named, definition, life, &procedures).expect("a stream");
        (engine, stream)
    }

    fn stored_status(engine: &Engine, stream: &Stream) -> Json {
        let stored = engine.metadata(&key(&stream.graph, &stream.name)).expect("it can be read").expect("it is there");
        serde_json::from_slice::<Json>(&stored).expect("JSON")["status"].clone()
    }

    #[test]
    fn a_stream_of_which_the_thread_panics_has_failed() {
        let (engine, stream) = stream();
        let (of, on) = (stream.clone(), engine.clone());
        let thread = std::thread::spawn(move || {
            let _end = EndIfPanics { stream: &of, engine: &on };
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        assert_eq!(stream.status(), Status::Failed);
        assert_eq!(stream.message().as_deref(), Some(BUG));
        assert_eq!(stored_status(&engine, &stream), "Failed");
    }

    #[test]
    fn what_is_stored_last_is_how_it_is() {
        let (engine, stream) = stream();
        std::thread::scope(|scope| {
            let another_stores = lock(&stream.storing);
            let waits = scope.spawn(|| stream.store(&engine));
            // Long enough to have looked, for one that did so before its turn.
            std::thread::sleep(Duration::from_millis(50));
            stream.end(Status::Completed, None);
            drop(another_stores);
            waits.join().expect("no panic").expect("it is stored");
        });
        assert_eq!(stored_status(&engine, &stream), "Completed");
    }
}
