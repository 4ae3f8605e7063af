//! One stream: what it is made of, and its thread.
//!
//!     gate     whether it goes on, and who waits until it may
//!     told     why it does not get on, and which records came to nothing
//!     stored   what is stored of it, and shown

mod gate;
mod told;
mod stored;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_connectors::{Intake, RecordQuery, SourceConfig, SourceContext, Upload, fetch};
use weir_engine::{Engine, Graph, Prepared};
use weir_model::Text;
use weir_model::lock::lock;

use self::gate::Gate;
pub use self::gate::Status;
pub(super) use self::stored::{Life, Stored};
use self::told::Told;
use super::pump::{self, Resting};
use super::{Definition, ErrorHandling, QUERY, SCANS, Transformation, again};
use crate::error::ApiError;
use crate::meter::Meter;
use crate::procedures::Preparing;

/// After this long it is tried again to have a thread for a stream that was there before.
pub(super) const THREAD_PAUSE: Duration = Duration::from_secs(1);

/// What is told of a stream of which a thread has panicked.
pub(super) const BUG: &str = "the stream ended through a bug in weir; the log has the details";

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
    /// It is stored by one after another, each time as it is then: the last word is the newest. True once it was forgotten.
    storing: Mutex<bool>,
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

/// What changes of a stream, under one lock: what is told of it is how it stands.
struct State {
    gate: Gate,
    told: Told,
    /// How long it ran, once it has ended.
    ended_after: Option<Duration>,
}

impl Stream {
    pub(super) fn new(
        preparing: Preparing<'_>,
        name: &str,
        source: String,
        Definition { config, errors, transformation }: Definition,
        Life { status, message, past }: Life,
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
        let told = Told {
            message,
            failed_records: past.failed_records,
            kept: past.kept,
            coming_again: past.coming_again,
            unanchored_records: past.unanchored_records,
            ..Told::default()
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
            state: Mutex::new(State { gate: Gate::new(status), told, ended_after: None }),
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

    fn lock(&self) -> MutexGuard<'_, State> {
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
        let (stream, on, within) = (self.clone(), engine.clone(), context.clone());
        let named = weir_connectors::thread::named("ingest", &self.name);
        // What goes with a thread that cannot be had is gone.
        let rested = Arc::new(Mutex::new(rested));
        let taken = rested.clone();
        let run = move || {
            let _end = EndIfPanics { stream: &stream, engine: &on };
            let rested = lock(&taken).take();
            pump::run(&stream, &on, &within, rested);
        };
        let error = match named.spawn(run) {
            Ok(handle) => {
                runner.thread = Some(handle);
                return;
            }
            Err(error) => format!("no thread could be started: {error}"),
        };
        let rested = lock(&rested).take();
        if let Some(rested) = rested {
            return self.wake_later(runner, engine, context, rested, error);
        }
        drop(runner);
        self.end(Status::Failed, Some(error));
        self.store_end(engine);
    }

    /// Something has come for a stream that rests, and for this reason there is no thread at the moment: it rests on, and is
    /// tried again, as its source has called, and does not do so again.
    fn wake_later(
        self: &Arc<Self>,
        mut runner: MutexGuard<'_, Runner>,
        engine: &Engine,
        context: SourceContext,
        rested: Resting,
        reason: String,
    ) {
        tracing::warn!(ingest = self.name, "the stream is tried again in {THREAD_PAUSE:?}: {reason}");
        self.note_trouble(Some(reason));
        runner.resting = Some(rested);
        drop(runner);
        let (stream, engine) = (Arc::downgrade(self), engine.clone());
        context.runtime.clone().spawn(async move {
            tokio::time::sleep(THREAD_PAUSE).await;
            if let Some(stream) = stream.upgrade() {
                stream.wake(&engine, context);
            }
        });
    }

    /// What `work` fetches is given up when the stream is to end.
    pub(super) fn while_wanted<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let stream = self.clone();
        fetch::while_wanted(move || !stream.is_stopping(), work)
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

    /// What it is made of while it rests, taken out of a stream that is to end: nothing more comes of it.
    pub(super) fn take_resting(&self) -> Option<Resting> {
        lock(&self.runner).resting.take()
    }

    /// The keys of a record that its query looks at. Whoever is told of records that fail gets all of them, and so does a
    /// transformation.
    fn wanted(&self) -> Option<Arc<[Text]>> {
        let query = self.config.query().filter(|_| !self.errors.tells() && !self.transformation.is_some())?;
        Some(self.query.plan.keys_asked(query.parameter)?.into_iter().collect())
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
        if state.gate.status.is_terminal() {
            return;
        }
        state.gate.status = status;
        state.told.end(message);
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
        state.gate.begin_again();
        (state.told.message, state.ended_after) = (None, None);
        self.records.go_on();
        self.bytes.go_on();
    }

    pub(super) fn freeze(&self) {
        self.lock().ended_after = Some(self.ran + self.clock.elapsed());
        self.records.end();
        self.bytes.end();
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
    use serde_json::{Value as Json, json};
    use weir_connectors::{FilePolicy, HostPolicy};
    use weir_engine::Options;
    use weir_engine::store::InMemory;

    use super::super::{Ingests, key, read};
    use super::*;
    use crate::procedures::Procedures;

    pub fn stream() -> (Engine, Arc<Stream>) {
        stream_of(&json!({"type": "NumberIteratorIngest", "ingestLimit": 1}))
    }

    pub fn stream_of(definition: &Json) -> (Engine, Arc<Stream>) {
        let engine = engine();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let definition = read(definition).expect("a definition");
        let graph = engine.default_graph();
        let (preparing, life) = (Preparing::new(&graph, &procedures), Life::first(Status::Running));
        let stream = Stream::new(preparing, "numbers", "numbers#1".to_owned(), definition, life).expect("a stream");
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

        let (preparing, life) = (Preparing::again(&graph, &procedures), Life::first(Status::Completed));
        let definition = read(&definition).expect("a definition");
        let old = Stream::new(preparing, "old", "old#1".to_owned(), definition, life);
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
            let (preparing, life) = (Preparing::new(&graph, &procedures), Life::first(Status::Paused));
            let definition = read(&definition).expect("a definition");
            let stream = Stream::new(preparing, "s", "s#1".to_owned(), definition, life).expect("a stream");
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

    /// A pause waited for it in vain.
    #[test]
    fn a_batch_in_which_a_stream_panicked_is_over_when_it_begins_again() {
        let (_engine, stream) = stream();
        assert!(stream.may_commit());
        stream.end(Status::Failed, Some(BUG.to_owned()));
        stream.begin_again();
        stream.set_running(false).expect("it is paused");
        let begun = Instant::now();
        stream.wait_until_committed();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    /// Its client was told that it is there, and it failed, as the log was closed.
    #[test]
    fn no_stream_begins_once_weir_stops() {
        let engine = engine();
        let graph = engine.default_graph();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let definition = json!({"type": "NumberIteratorIngest", "ingestLimit": 1});
        let (preparing, life) = (Preparing::new(&graph, &procedures), Life::first(Status::Paused));
        let there = Stream::new(preparing, "there", "there#1".to_owned(), read(&definition).expect("a definition"), life);
        there.expect("a stream").store(&engine).expect("it is stored");
        let ingests = Ingests::new(engine.clone(), context(&threads), procedures);
        ingests.restore(false).expect("what is stored is read");
        let there = ingests.get(&graph, "there").expect("it is back");

        ingests.shut_down();
        assert!(matches!(ingests.create(&graph, "late", &definition).err(), Some(ApiError::Busy { .. })));
        assert!(ingests.get(&graph, "late").is_none());
        assert!(engine.metadata(&key(&graph, "late")).expect("it can be read").is_none());
        assert!(matches!(ingests.start(&there), Err(ApiError::Busy { .. })));
        assert_eq!((there.status(), stored_status(&engine, &there)), (Status::Paused, json!("Paused")));
    }

    /// It rested for ever, or was gone.
    #[test]
    fn a_stream_that_no_thread_could_be_had_for_when_it_was_called_is_tried_again() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let (engine, stream) = stream_of(&json!({"type": "HttpPushIngest"}));
        let context = context(&threads);
        let wait_for = |is_so: &dyn Fn(&Runner) -> bool| {
            let since = Instant::now();
            while !is_so(&lock(&stream.runner)) {
                assert!(since.elapsed() < Duration::from_secs(60), "{:?}", stream.told());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        stream.run(&engine, &context);
        wait_for(&|runner| runner.resting.is_some());
        let mut runner = lock(&stream.runner);
        let rested = runner.resting.take().expect("it rests");
        stream.wake_later(runner, &engine, context, rested, "none is left".to_owned());
        wait_for(&|runner| runner.thread.is_some());
        stream.stop();
        stream.join();
        assert_eq!(stream.status(), Status::Running);
    }

    /// Where the store was stuck, all of them waited.
    #[test]
    fn whoever_waits_for_a_stream_to_be_stored_holds_up_no_other() {
        let engine = engine();
        let graph = engine.default_graph();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let ingests = Ingests::new(engine.clone(), context(&threads), procedures);
        let definition = json!({"type": "HttpPushIngest"});
        let [one, other] = ["one", "other"].map(|name| match ingests.create(&graph, name, &definition) {
            Ok(stream) => stream,
            Err(error) => panic!("{error}"),
        });
        let (ingests, graph, one, other, definition) = (&ingests, &graph, &one, &other, &definition);
        let others = move || -> Result<(), ApiError> {
            ingests.pause(other)?;
            ingests.start(other)?;
            ingests.create(graph, "third", definition)?;
            ingests.delete(graph, "third").map(drop)
        };
        let (done, all_done) = std::sync::mpsc::sync_channel(1);
        let ended = std::thread::scope(|scope| {
            let stuck = lock(&one.storing);
            let pauses = scope.spawn(|| ingests.pause(one).map_err(|error| error.to_string()));
            let since = Instant::now();
            while one.status() != Status::Paused && since.elapsed() < Duration::from_secs(50) {
                std::thread::sleep(Duration::from_millis(5));
            }
            scope.spawn(move || done.send(others().map_err(|error| error.to_string())));
            let ended = all_done.recv_timeout(Duration::from_secs(50));
            let waits = !pauses.is_finished();
            drop(stuck);
            (ended, waits, pauses.join().expect("no panic"))
        });
        assert_eq!(ended, (Ok(Ok(())), true, Ok(())));
        ingests.shut_down();
    }

    /// Whoever paused it at the same time brought it back with the next start.
    #[test]
    fn what_is_forgotten_is_not_stored_again() {
        let (engine, stream) = stream();
        let is_stored = || engine.metadata(&key(&stream.graph, &stream.name)).expect("it can be read").is_some();
        stream.store(&engine).expect("it is stored");
        assert!(is_stored());
        stream.forget(&engine).expect("it is forgotten");
        stream.store(&engine).expect("it stays so");
        assert!(!is_stored());
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
