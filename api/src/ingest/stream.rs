//! One stream: its state, its thread, and what is stored and shown of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use weir_connectors::{Intake, RecordQuery, SourceConfig, SourceContext, Upload};
use weir_cypher_compiler::expression_text;
use weir_engine::{Engine, Graph, Prepared, RESULTS_WAITING_MAX, WithoutAnchor};
use weir_model::Text;
use weir_model::lock::lock;

use super::pump::{self, Resting};
use super::{Definition, ErrorHandling, QUERY, SCANS, Transformation, again, key};
use crate::clock;
use crate::error::ApiError;
use crate::meter::Meter;
use crate::procedures::Preparing;
use crate::wire::family::Family;
use crate::wire::v2;

/// A stream that shall end still commits what it has read, for so long: not every source can give it again. A batch that takes
/// longer, also when the stream is paused, is broken off between two records.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// For so long a pause is not answered while a batch takes effect, or a record of it.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(10);

/// What is told of a stream of which a thread has panicked.
pub(super) const BUG: &str = "the stream ended through a bug in weir; the log has the details";

/// Records of which an anchor named no node are told of once in this time.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

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
    pub(super) const ALL: [Status; 6] =
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
pub(super) struct Stored {
    records: u64,
    bytes: u64,
    failed_records: u64,
    kept: Vec<KeptRecord>,
    coming_again: BTreeSet<u64>,
    unnamed_records: u64,
    /// Milliseconds since 1970; none of a stream that is new.
    started: Option<u64>,
    /// Milliseconds.
    ran: u64,
}

pub struct Stream {
    pub name: String,
    pub(super) graph: Graph,
    /// What the engine knows the source by. Another stream of the same name gets another one, so that it starts anew.
    pub(super) source: String,
    pub(super) config: Box<dyn SourceConfig>,
    pub(super) errors: ErrorHandling,
    pub(super) transformation: Transformation,
    pub(super) query: Arc<Prepared>,
    scans: bool,
    /// It came to its end before weir was started this time.
    completed_before: bool,
    state: Mutex<State>,
    /// Whether it should end, or pause: then `state` says since when.
    halts: AtomicBool,
    /// Wakes a stream that is paused, and whoever waits for its pause.
    changed: Condvar,
    /// Its end is waited for by one after another.
    joining: Mutex<()>,
    /// It is stored by one after another, each time as it is then: the last word is the newest.
    storing: Mutex<()>,
    pub(super) records: Meter,
    pub(super) bytes: Meter,
    started: SystemTime,
    /// How long it ran in earlier lives.
    ran: Duration,
    clock: Instant,
    runner: Mutex<Runner>,
}

/// Either there is a thread that runs the stream, or the stream rests here; neither before it was started and once it has ended.
#[derive(Default)]
struct Runner {
    thread: Option<JoinHandle<()>>,
    resting: Option<Resting>,
}

pub(super) struct State {
    status: Status,
    /// Since then the stream should end: it was deleted, or weir stops.
    stopping: Option<Instant>,
    /// Since then it is paused.
    paused: Option<Instant>,
    /// A batch takes effect at the moment.
    committing: bool,
    pub(super) message: Option<String>,
    /// What keeps the source from reading at the moment.
    trouble: Option<String>,
    /// What has happened to what it reads, and does not pass.
    notice: Option<String>,
    /// How many records its source has not read, as far as that is known.
    lag: Option<u64>,
    /// What keeps dead letters from their destination.
    undelivered: Option<String>,
    /// What keeps its records from taking effect.
    late: Option<String>,
    /// Results that nobody has taken keep it from changing the graph.
    waits_for_results: bool,
    ended_after: Option<Duration>,
    failed_records: u64,
    kept: Vec<KeptRecord>,
    /// Those of them, by number, whose batch was left without effect as the stream ended. They are before no position: they are
    /// counted, and come again when it is started again.
    coming_again: BTreeSet<u64>,
    /// Of so many records an anchor of the query named no node,
    unnamed_records: u64,
    /// which was last told then.
    unnamed_told: Option<Instant>,
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
    pub(super) fn message(&self) -> Option<String> {
        let waits = || {
            self.waits_for_results.then(|| {
                format!(
                    "waits: a standing query has more than {RESULTS_WAITING_MAX} results that an output has not taken; `holdsIngest` in its status says which"
                )
            })
        };
        // Of a stream that waits for something else, what it was late for is over.
        let late = || self.late.clone().filter(|_| !self.holds());
        let known = self.message.as_ref().or(self.undelivered.as_ref()).cloned();
        known.or_else(waits).or_else(late).or_else(|| self.trouble.clone()).or_else(|| self.notice.clone())
    }
}

impl Stream {
    pub(super) fn new(
        preparing: Preparing<'_>,
        (name, source): (&str, String),
        (config, errors, transformation): Definition,
        (status, past): (Status, Stored),
    ) -> Result<Arc<Stream>, ApiError> {
        // Records that are only counted run nothing, and the stream is like any other.
        let query = config.query().unwrap_or(RecordQuery { text: "RETURN null", parameter: "that" });
        let plan = preparing.compile(query.text, query.parameter, QUERY)?;
        if let Some(other) = plan.parameters.iter().find(|name| name.as_str() != query.parameter) {
            return Err(ApiError::bad(format!("Unknown parameter `{other}`; a record is in `${}`", query.parameter)));
        }
        let scans = plan.facts.scans;
        if scans {
            tracing::warn!(ingest = name, "{SCANS}");
        }
        let query = preparing.graph.prepare(plan);
        let completed_before = status == Status::Completed;
        let state = State {
            status,
            stopping: None,
            paused: None,
            committing: false,
            message: None,
            trouble: None,
            notice: None,
            lag: None,
            undelivered: None,
            late: None,
            waits_for_results: false,
            ended_after: None,
            failed_records: past.failed_records,
            kept: past.kept,
            coming_again: past.coming_again,
            unnamed_records: past.unnamed_records,
            unnamed_told: None,
        };
        Ok(Arc::new(Stream {
            name: name.to_owned(),
            graph: preparing.graph.clone(),
            source,
            config,
            errors,
            transformation,
            query,
            scans,
            completed_before,
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
            runner: Mutex::default(),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether its query visits every node.
    pub fn scans(&self) -> bool {
        self.scans
    }

    /// Whether its query may change the graph once more for a record that comes again, as those of its source do.
    pub fn adds_again(&self) -> bool {
        self.config.comes_again() && again::adds(&self.query.plan)
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

    /// How many records its source has not read, as far as that is known.
    pub fn lag(&self) -> Option<u64> {
        self.lock().lag
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

    /// The same, or why it does not get on: what its status tells.
    pub fn told(&self) -> Option<String> {
        self.lock().message()
    }

    /// The records kept aside but the first ones: number, reason and sample of each.
    pub fn kept_from(&self, first: usize) -> Vec<(u64, String, String)> {
        let state = self.lock();
        state.kept.iter().skip(first).map(|kept| (kept.number, kept.reason.clone(), kept.sample.clone())).collect()
    }

    /// Starts the thread, unless it is there or the stream rests.
    pub(super) fn run(self: &Arc<Self>, engine: &Engine, context: &SourceContext) {
        let runner = lock(&self.runner);
        if runner.thread.is_some() || runner.resting.is_some() || self.status().is_terminal() {
            return;
        }
        let context =
            SourceContext { stream: self.name.clone(), wanted: self.wanted(), tells: self.errors.tells(), ..context.clone() };
        self.start_thread(runner, engine, context, None);
    }

    fn start_thread(
        self: &Arc<Self>,
        mut runner: MutexGuard<'_, Runner>,
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
            Ok(handle) => runner.thread = Some(handle),
            Err(error) => self.end(Status::Failed, Some(format!("no thread could be started: {error}"))),
        }
    }

    /// The thread that asks is about to go: the stream rests until its source calls. Gives it back where that cannot be.
    pub(super) fn rest_until_called(
        self: &Arc<Self>,
        mut resting: Resting,
        engine: &Engine,
        context: &SourceContext,
    ) -> Option<Resting> {
        // Whoever calls, stops or starts it waits until it rests, or does not.
        let mut runner = lock(&self.runner);
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
        self.note_lag(resting.lag());
        *runner = Runner { thread: None, resting: Some(resting) };
        None
    }

    /// Something has come for a stream that rests.
    fn wake(self: &Arc<Self>, engine: &Engine, context: SourceContext) {
        let mut runner = lock(&self.runner);
        if let Some(rested) = runner.resting.take() {
            self.start_thread(runner, engine, context, Some(rested));
        }
    }

    /// The keys of a record that its query looks at. Whoever is told of records that fail gets all of them, and so does a
    /// transformation.
    fn wanted(&self) -> Option<Arc<[Text]>> {
        let query = self.config.query().filter(|_| !self.errors.tells() && !self.transformation.is_some())?;
        Some(self.query.plan.keys_asked(query.parameter)?.into_iter().collect())
    }

    pub(super) fn set_running(&self, running: bool) -> Result<(), ApiError> {
        let mut state = self.lock();
        if state.status.is_terminal() {
            let verb = if running { "resume" } else { "pause" };
            // A stream that ended on its own is called failed, as clients know it, until weir is started again.
            let ended = match state.status {
                Status::Terminated => "terminated",
                Status::Completed if self.completed_before => "completed",
                _ => "failed",
            };
            return Err(ApiError::bad(format!("Cannot {verb} a {ended} ingest.")));
        }
        state.status = if running { Status::Running } else { Status::Paused };
        state.paused = if running { None } else { state.paused.or_else(|| Some(Instant::now())) };
        self.halts.store(!running || state.stopping.is_some(), Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.lock().stopping.get_or_insert_with(Instant::now);
        self.halts.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(super) fn join(&self) {
        let _one = lock(&self.joining);
        // Of a stream that rests everything is durable, and nobody has to be waited for. Its source ends where no lock is held.
        let Runner { thread, resting } = std::mem::take(&mut *lock(&self.runner));
        drop(resting);
        if thread.is_some_and(|thread| thread.join().is_err()) {
            self.end(Status::Failed, Some(BUG.to_owned()));
        }
    }

    /// A status to stay with, unless there is one already.
    pub(super) fn end(&self, status: Status, message: Option<String>) {
        let mut state = self.lock();
        if state.status.is_terminal() {
            return;
        }
        state.status = status;
        state.message = message;
        (state.trouble, state.undelivered, state.late, state.lag) = (None, None, None, None);
        drop(state);
        self.freeze();
    }

    /// Takes the end of a stream that failed back. Its position is that of what was committed, and stays.
    pub(super) fn begin_again(&self) {
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

    pub(super) fn freeze(&self) {
        self.lock().ended_after = Some(self.ran + self.clock.elapsed());
        self.records.end();
        self.bytes.end();
    }

    pub(super) fn note_trouble(&self, trouble: Option<String>) {
        self.lock().trouble = trouble;
    }

    pub(super) fn note_notice(&self, notice: Option<String>) {
        if notice.is_some() {
            self.lock().notice = notice;
        }
    }

    pub(super) fn note_lag(&self, lag: Option<u64>) {
        self.lock().lag = lag;
    }

    /// Nothing fails for such a record, and what it was to change is not changed: without this nobody would know.
    pub(super) fn note_unnamed(&self, WithoutAnchor { records, anchor }: &WithoutAnchor) {
        if *records == 0 {
            return;
        }
        let (mut state, now) = (self.lock(), Instant::now());
        state.unnamed_records += records;
        if state.unnamed_told.is_some_and(|told| now - told < TELL_INTERVAL) {
            return;
        }
        state.unnamed_told = Some(now);
        let total = state.unnamed_records;
        drop(state);
        let anchor = anchor.as_ref().map(|anchor| format!("`{}`", expression_text(&self.query.plan, anchor)));
        let anchor = anchor.as_deref().unwrap_or("an anchor (`id(n) = …`)");
        tracing::warn!(
            ingest = self.name,
            "{anchor} in the query of the stream was null, or no id, and so found no node, in {total} records so far: what hangs on that node did not happen for these. Where that is meant, a condition beside it, such as `$that.key IS NOT NULL`, says so"
        );
    }

    pub(super) fn note_undelivered(&self, reason: Option<String>) {
        self.lock().undelivered = reason;
    }

    pub(super) fn note_late(&self, reason: Option<String>) {
        self.lock().late = reason;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping.is_some()
    }

    /// Waits so long. False when it is to end.
    pub(super) fn wait_unless_stopping(&self, pause: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, pause, |state| state.stopping.is_none());
        waited.unwrap_or_else(|e| e.into_inner()).0.stopping.is_none()
    }

    /// Waits while the stream is paused. False when it is to end.
    pub(super) fn may_go_on(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.holds());
        state.unwrap_or_else(|e| e.into_inner()).stopping.is_none()
    }

    /// Waits while the stream is paused, so long at most, and no longer than until there is news. None while it is paused, and
    /// false when it is to end.
    pub(super) fn may_go_on_within(&self, time_max: Duration, is_news: impl Fn() -> bool) -> Option<bool> {
        let waited = self.changed.wait_timeout_while(self.lock(), time_max, |state| state.holds() && !is_news());
        let state = waited.unwrap_or_else(|e| e.into_inner()).0;
        (!state.holds()).then(|| state.stopping.is_none())
    }

    /// There is news for whoever waits for the end of a pause.
    pub(super) fn tell_in_pause(&self) {
        if self.halts.load(Ordering::Relaxed) {
            // Whoever has looked, and does not wait yet, has the lock.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Waits until the graph has room for a batch. False when it is to end without that batch.
    pub(super) fn wait_for_room(&self) -> bool {
        let room = self.graph.wait_for_room_while(|| {
            // It may also be what is due that is late.
            let waits_for_results = self.graph.has_waiting(RESULTS_WAITING_MAX);
            let mut state = self.lock();
            state.waits_for_results = waits_for_results;
            state.may_finish()
        });
        self.lock().waits_for_results = false;
        room
    }

    /// Waits while the stream is paused; then a batch may take effect, until `committed`. False when it is to end without that
    /// batch.
    pub(super) fn may_commit(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.holds());
        let mut state = state.unwrap_or_else(|e| e.into_inner());
        state.committing = state.status == Status::Running && state.may_finish();
        state.committing
    }

    /// Whether a batch has gone on for long enough since the stream was to end or to pause. Asked before each record.
    pub(super) fn breaks_off(&self) -> bool {
        self.halts.load(Ordering::Relaxed) && {
            let state = self.lock();
            [state.stopping, state.paused].into_iter().flatten().any(|since| since.elapsed() >= FINISH_TIME_MAX)
        }
    }

    pub(super) fn committed(&self) {
        self.lock().committing = false;
        self.changed.notify_all();
    }

    /// Waits until no batch takes effect, if that does not take too long.
    pub(super) fn wait_until_committed(&self) {
        let state = self.lock();
        drop(self.changed.wait_timeout_while(state, PAUSE_TIME_MAX, |state| state.committing && state.status == Status::Paused));
    }

    /// Counts a record that had no effect, and keeps it if there is room. The log has the first of them, then every thousandth.
    pub(super) fn set_aside(&self, number: u64, reason: String, sample: String) {
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
    pub(super) fn set_aside_to_come_again(&self, number: u64, reason: String, sample: String) {
        self.set_aside(number, reason, sample);
        self.lock().coming_again.insert(number);
    }

    /// Those that were set aside come again: the rest of their batch is left without effect.
    pub(super) fn let_come_again(&self, numbers: impl Iterator<Item = u64>) {
        self.lock().coming_again.extend(numbers);
    }

    fn runtime(&self, state: &State) -> Duration {
        state.ended_after.unwrap_or_else(|| self.ran + self.clock.elapsed())
    }

    pub(super) fn store(&self, engine: &Engine) -> Result<(), weir_engine::EngineError> {
        let _one = lock(&self.storing);
        let mut settings = self.config.stored();
        self.errors.store(&mut settings);
        self.transformation.show(&mut settings);
        let state = self.lock();
        let past = Stored {
            records: self.records.count(),
            bytes: self.bytes.count(),
            failed_records: state.failed_records,
            kept: state.kept.clone(),
            coming_again: state.coming_again.clone(),
            unnamed_records: state.unnamed_records,
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
    pub(super) fn store_end(&self, engine: &Engine) {
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
        if let Some(lag) = state.lag {
            info["stats"]["lag"] = lag.into();
        }
        if state.unnamed_records > 0 {
            info["stats"]["withoutAnchor"] = state.unnamed_records.into();
        }
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

#[cfg(test)]
pub(super) mod tests {
    use weir_connectors::{FilePolicy, HostPolicy};
    use weir_engine::Options;
    use weir_engine::store::InMemory;

    use super::super::{Ingests, read};
    use super::*;
    use crate::procedures::Procedures;

    pub fn stream() -> (Engine, Arc<Stream>) {
        stream_of(&json!({"type": "NumberIteratorIngest", "ingestLimit": 1}))
    }

    pub fn stream_of(definition: &Json) -> (Engine, Arc<Stream>) {
        let engine = engine();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let definition = read(definition).expect("a definition");
        let (named, life) = (("numbers", "numbers#1".to_owned()), (Status::Running, Stored::default()));
        let graph = engine.default_graph();
        let stream = Stream::new(Preparing::new(&graph, &procedures), named, definition, life).expect("a stream");
        (engine, stream)
    }

    pub fn context(threads: &tokio::runtime::Runtime) -> SourceContext {
        let (files, hosts, runtime) = (FilePolicy::default(), HostPolicy::default(), threads.handle().clone());
        SourceContext { files, hosts, runtime, stream: String::new(), wanted: None, tells: false }
    }

    fn engine() -> Engine {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() });
        engine.expect("an engine in memory")
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

    /// An earlier version took it.
    #[test]
    fn a_stream_that_is_there_comes_back_whatever_its_query_calls() {
        let engine = engine();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let query = "CALL standing.wiretap({name: 'x'}) YIELD data RETURN data";
        let format = json!({"type": "CypherLine", "query": query});
        let definition = json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": format});
        let graph = engine.default_graph();

        let ingests = Ingests::new(engine.clone(), context(&threads), procedures.clone());
        let refused = ingests.create(&graph, "new", &definition).err().expect("it is refused").to_string();
        assert!(refused.contains("cannot stand in the query of an ingest stream"), "{refused}");

        let (named, life) = (("old", "old#1".to_owned()), (Status::Completed, Stored::default()));
        let preparing = Preparing::again(&graph, &procedures);
        let old = Stream::new(preparing, named, read(&definition).expect("a definition"), life);
        old.expect("it is taken").store(&engine).expect("it is stored");
        ingests.restore(false).expect("what is stored is read");
        let names: Vec<String> = ingests.list(&graph).iter().map(|stream| stream.name.clone()).collect();
        assert_eq!(names, ["old"]);
    }

    /// It was not listed any more, and could not be mended.
    #[cfg(feature = "kafka")]
    #[test]
    fn a_stream_comes_back_whatever_has_become_of_the_files_it_names() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("authorities.pem");
        let (mut source, mut letters) = (json!({"type": "KafkaIngest", "topics": ["t"]}), json!({"type": "Kafka", "topic": "t"}));
        for kafka in [&mut source, &mut letters] {
            kafka["bootstrapServers"] = "127.0.0.1:1".into();
            kafka["kafkaProperties"] = json!({"ssl.truststore.location": file});
        }
        let told = json!({"deadLetterQueueSettings": {"destinations": [letters]}});
        let numbers = json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "onRecordError": told});
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        for (definition, mended) in [(numbers, Status::Completed), (source, Status::Running)] {
            let engine = engine();
            let graph = engine.default_graph();
            std::fs::write(&file, "").expect("a file");
            let (named, life) = (("s", "s#1".to_owned()), (Status::Paused, Stored::default()));
            let definition = read(&definition).expect("a definition");
            let stream = Stream::new(Preparing::new(&graph, &procedures), named, definition, life).expect("a stream");
            stream.store(&engine).expect("it is stored");

            std::fs::remove_file(&file).expect("it is there");
            let ingests = Ingests::new(engine, context(&threads), procedures.clone());
            ingests.restore(false).expect("what is stored is read");
            let stream = ingests.get(&graph, "s").expect("it is back");
            assert_eq!(stream.status(), Status::Paused);
            let wait_for = |status: Status| {
                let since = Instant::now();
                while stream.status() != status {
                    assert!(since.elapsed() < Duration::from_secs(60), "{:?}: {:?}", stream.status(), stream.told());
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            ingests.start(&stream).expect("it is started");
            wait_for(Status::Failed);
            let message = stream.message().expect("it is told why");
            assert!(message.contains("ssl.truststore.location") && message.contains("there is no such file"), "{message}");

            std::fs::write(&file, "").expect("a file");
            ingests.start(&stream).expect("it goes on");
            wait_for(mended);
            assert!(ingests.delete(&graph, "s").expect("it ends").is_some());
        }
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
