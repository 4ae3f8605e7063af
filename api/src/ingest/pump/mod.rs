//! How the records of one stream travel: two threads, so that reading and decoding go on while the graph is changed. Here are
//! their lives and what they share; what each does stands in `read` and in `commit`.
//!
//!     source ─ next ─> Frames ─ decode, transform ─> Batch ──(bounded)──> evaluate and commit, with the position
//!       ^                                                                        │
//!       └─────────────────────── durable(position) <── positions committed ──────┘
//!
//! Where nothing comes for a while both threads go, if the source can call when something does; what they knew stays behind
//! (`Resting`), and the call starts them again. Thousands of streams that have nothing to do are then thousands of values.
//!
//! One committing thread keeps the order of the stream, which is what makes the stored position true: everything before it has
//! had its effect, nothing after it has. Batches are what the source has at hand: one record when idle, many under load, for
//! which they are given a moment to gather; but not more than take effect in a moment (`BatchSize`), since a pause or an end
//! comes between two of them.
//!
//! Records that are undone or transformed may become far larger than what was read. As many as may be held at once are a batch
//! then, and the rest are others. Between them the source stands where it stood before all of them, as it says nothing else:
//! after a kill there they come again. So less is read at once where records are large.

mod read;
mod commit;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use weir_connectors::bell::Call;
use weir_connectors::decode::Decoder;
use weir_connectors::{ConnectorError, Frames, Limits, RecordStream, SourceContext};
use weir_engine::{Engine, EngineError};
use weir_model::{Position, Tick, Value};

use self::read::Watched;
use super::stream::{BUG, THREAD_PAUSE};
use super::{Status, Stream};
use crate::error::chain;

/// Decoded batches waiting for the committing thread.
const BATCHES_WAITING_MAX: usize = 4;

/// A batch is to take effect within about this time.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// Records of the first batches, of which nobody knows yet how long they take.
const BATCH_RECORDS_FIRST: usize = 1;

/// The threads of a stream go when nothing has come for this long.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// Where the threads of a stream cannot go, they try again later and later, up to this.
const QUIET_TIME_MAX: Duration = Duration::from_secs(64);

/// The first pause before what the workers or the log were late for is tried again. Each try has waited for them itself.
const LATE_PAUSE: Duration = Duration::from_millis(100);
/// `LATE_PAUSE` doubles up to this.
const LATE_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How much of a failed record is shown.
const SAMPLE_CHARACTERS_MAX: usize = 256;

struct Batch {
    records: Vec<Value>,
    /// The number of each record in the stream.
    numbers: Vec<u64>,
    /// Where the source stood after it; before it where the rest of what was read is still to come.
    position: Position,
    ends: bool,
    received: Instant,
    /// What was read, also what came to nothing.
    record_count: usize,
    byte_count: usize,
    /// The records that have come to nothing.
    lost: Vec<Lost>,
    /// What all records were, for those that are to be told of records that failed.
    raw: Option<Arc<Frames>>,
}

/// A record that could not be decoded, or not transformed; then it has a value.
struct Lost {
    number: u64,
    reason: String,
    sample: String,
    decoded: Option<Value>,
}

impl Lost {
    fn shown(&self) -> String {
        let Lost { number, reason, sample, .. } = self;
        format!("record {number}: {reason}: {sample}")
    }
}

/// How many records a batch may have. It grows while batches are quick, up to what sources give at once, and shrinks with the
/// first that is not.
struct BatchSize(AtomicUsize);

impl Default for BatchSize {
    fn default() -> BatchSize {
        BatchSize(AtomicUsize::new(BATCH_RECORDS_FIRST))
    }
}

impl BatchSize {
    fn limits(&self) -> Limits {
        Limits { records_max: self.0.load(Ordering::Relaxed), ..Limits::default() }
    }

    /// A batch of this many records took this long.
    fn learn(&self, records: usize, took: Duration) {
        if records == 0 {
            return;
        }
        let fit = records as f64 * BATCH_TIME.as_secs_f64() / took.as_secs_f64().max(1e-9);
        let now = self.0.load(Ordering::Relaxed);
        // Twice as many at most: one quick record says little of a thousand.
        let next = (fit as usize).clamp(1, 2 * now).min(Limits::default().records_max);
        self.0.store(next, Ordering::Relaxed);
    }
}

/// What the two threads of a stream tell each other.
#[derive(Default)]
struct Shared {
    /// Positions committed and perhaps not yet durable, in order.
    positions: Mutex<VecDeque<(Tick, Position)>>,
    batch_size: BatchSize,
    /// Batches that were handed over and have not been committed yet, also the one that is at it.
    under_way: AtomicUsize,
    /// The committing thread has ended.
    over: AtomicBool,
}

impl Shared {
    fn is_committing(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Says that the committing thread ends, in whichever way: whoever reads would learn it only with the next batch otherwise, and
/// perhaps none comes.
struct Over<'a> {
    stream: &'a Stream,
    shared: &'a Shared,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        self.stream.tell_in_pause();
    }
}

/// Why a stream failed.
struct Failed {
    reason: String,
    /// It may work when it begins again.
    passing: bool,
}

impl From<ConnectorError> for Failed {
    fn from(error: ConnectorError) -> Failed {
        Failed { reason: chain(&error), passing: error.retryable() }
    }
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Failed {
        Failed::for_good(chain(&error))
    }
}

impl Failed {
    fn for_good(reason: String) -> Failed {
        Failed { reason, passing: false }
    }
}

/// What a stream is while it has no threads. Everything it has read is durable, and its source knows.
pub struct Resting {
    source: RecordStream,
    decoder: Arc<dyn Decoder>,
    /// That of the last batch.
    position: Position,
}

/// Runs a stream until it is exhausted, fails, is stopped, or rests; it may have rested before.
pub fn run(stream: &Arc<Stream>, engine: &Engine, context: &SourceContext, rested: Option<Resting>) {
    run_with(stream, engine, context, rested, || weir_connectors::thread::named("commit", &stream.name));
}

/// `committers` makes the builder of each committing thread.
fn run_with(
    stream: &Arc<Stream>,
    engine: &Engine,
    context: &SourceContext,
    mut rested: Option<Resting>,
    mut committers: impl FnMut() -> thread::Builder,
) {
    let mut restarts = stream.errors.restarts();
    let mut quiet_time = QUIET_TIME;
    loop {
        match attempt(stream, context, rested.take(), quiet_time, committers()) {
            Ok((Ended::Exhausted, _)) => stream.end(Status::Completed, None),
            Ok((Ended::Quiet, Some(resting))) => match stream.rest_until_called(resting, engine, context) {
                None => return,
                awake => {
                    rested = awake;
                    quiet_time = (quiet_time * 2).min(QUIET_TIME_MAX);
                    continue;
                }
            },
            Ok((Ended::Threadless(reason), opened)) => {
                tracing::warn!(ingest = stream.name, "the stream is tried again in {THREAD_PAUSE:?}: {reason}");
                rested = opened;
                // It may take long until there is one, and a member of a group be thrown out of that.
                if let Some(resting) = &mut rested {
                    let _ = resting.source.hold();
                }
                stream.note_trouble(Some(reason));
                if stream.wait_unless_stopping(THREAD_PAUSE) {
                    continue;
                }
                return;
            }
            Ok((Ended::Stopped | Ended::Quiet, _)) => return,
            Err(Failed { reason, passing }) => {
                // Nobody reads, and how much comes meanwhile is not known.
                stream.note_lag(None);
                let pause = if passing { restarts.next() } else { None };
                if let Some(pause) = pause {
                    tracing::warn!(ingest = stream.name, "the stream failed and begins again in {pause:?}: {reason}");
                    stream.note_trouble(Some(reason));
                    if stream.wait_unless_stopping(pause) {
                        continue;
                    }
                    return;
                }
                tracing::error!(ingest = stream.name, "the stream failed: {reason}");
                stream.end(Status::Failed, Some(reason));
            }
        }
        break;
    }
    stream.store_end(engine);
}

/// From opening the source, or from where it rested, to its end; with what stays behind where it is quiet, or could not begin.
fn attempt(
    stream: &Arc<Stream>,
    context: &SourceContext,
    rested: Option<Resting>,
    quiet_time: Duration,
    committer: thread::Builder,
) -> Result<(Ended, Option<Resting>), Failed> {
    let shared = &Shared::default();
    let mut opened = rested;
    let (sender, receiver) = bounded(BATCHES_WAITING_MAX);
    thread::scope(|scope| {
        // The receiver goes when the thread does, or whoever sends would wait for ever.
        let started = committer.spawn_scoped(scope, move || {
            let _over = Over { stream, shared };
            commit::commit(stream, context, receiver, shared)
        });
        let committing = match started {
            Ok(committing) => committing,
            // Nothing has been read.
            Err(error) => return Ok((Ended::Threadless(format!("no thread could be started: {error}")), opened)),
        };
        let read = read::read(stream, context, &mut opened, quiet_time, sender, shared);
        // The committing thread ends when there is nothing more to come.
        let commit = committing.join();
        // Whatever has failed, what was committed before has had its effect: a source that does not hear of it gives it again.
        let told = opened.iter_mut().try_for_each(|at| Watched::new(stream, shared, &mut at.source).acknowledge().map(|_| ()));
        // What that thread says counts for more.
        let all = match commit {
            Ok(commit) => commit?,
            Err(_) => return Err(Failed::for_good(BUG.to_owned())),
        };
        let ended = read?;
        told?;
        if !all {
            // The source may be at its end; the stream is not.
            return Ok((Ended::Stopped, None));
        }
        if matches!(ended, Ended::Quiet) {
            return Ok((ended, opened));
        }
        drop(opened);
        // Whoever sees the stream as completed may count on reading all of it.
        let visible = in_time(stream, || stream.graph.wait_visible().map(Some))?;
        Ok((if visible.is_some() { ended } else { Ended::Stopped }, None))
    })
}

enum Ended {
    Exhausted,
    Stopped,
    /// Nothing comes, and nothing is under way.
    Quiet,
    /// There is no thread that could commit, for this reason, which passes.
    Threadless(String),
}

impl Resting {
    /// See `Source::rest`.
    pub fn rest(&mut self, call: Call) -> bool {
        self.source.rest(call)
    }

    /// See `Source::trouble`.
    pub fn trouble(&self) -> Option<String> {
        self.source.trouble()
    }

    /// See `Source::lag`.
    pub fn lag(&mut self) -> Option<u64> {
        self.source.lag()
    }
}

/// Tries again where the workers or the log are late, which may pass: a disk was slow, the machine was suspended. What fails so
/// has not happened. None where `attempt` says so, or the stream is to end.
fn in_time<T>(stream: &Stream, mut attempt: impl FnMut() -> Result<Option<T>, EngineError>) -> Result<Option<T>, EngineError> {
    let mut pause = LATE_PAUSE;
    loop {
        match attempt() {
            Err(error) if error.is_passing() => {
                tracing::warn!(ingest = stream.name, "the stream waits, and tries again in {pause:?}: {error}");
                stream.note_late(Some(format!("waits: {error}")));
            }
            done => {
                stream.note_late(None);
                return done;
            }
        }
        if !stream.wait_unless_stopping(pause) {
            return Ok(None);
        }
        pause = (pause * 2).min(LATE_PAUSE_MAX);
    }
}

fn sample(record: &Value) -> String {
    record.shown().chars().take(SAMPLE_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::json;
    use weir_connectors::body::{Cut, Records};
    use weir_engine::store::StoreError;

    use super::super::stream::tests::{context, stream, stream_of};
    use super::*;

    #[test]
    fn what_the_workers_or_the_log_are_late_for_is_tried_again() {
        let (_engine, stream) = stream();
        let shown = || stream.told();
        let mut tries = 0;
        let done = in_time(&stream, || {
            tries += 1;
            match tries {
                1 => Err(EngineError::WorkersStuck),
                2 => {
                    assert!(shown().is_some_and(|message| message.starts_with("waits: the graph's workers")));
                    let (graph, tick, patience) = (stream.graph.id(), Tick(1), Duration::from_secs(60));
                    Err(StoreError::TooSlow { graph, tick, patience }.into())
                }
                _ => {
                    assert!(shown().is_some_and(|message| message.ends_with("the disk is very slow or stuck")));
                    Ok(Some(7))
                }
            }
        });
        assert!(matches!(done, Ok(Some(7))));
        assert_eq!((tries, shown(), stream.status()), (3, None, Status::Running));

        let mut tries = 0;
        let happened = in_time(&stream, || -> Result<Option<()>, EngineError> {
            tries += 1;
            let error = Box::new(EngineError::WorkersStuck);
            Err(EngineError::Unconfirmed { upper: Tick(7), rows: Vec::new(), error })
        });
        assert!(matches!(happened, Err(EngineError::Unconfirmed { .. })));
        assert_eq!(tries, 1, "it would be made twice");

        stream.stop();
        let stopped = in_time(&stream, || -> Result<Option<()>, EngineError> { Err(EngineError::WorkersStuck) });
        assert!(matches!(stopped, Ok(None)));
    }

    #[test]
    fn how_far_a_stream_is_behind_is_not_known_while_it_waits_to_begin_again() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        // Nobody gives the schema.
        let format = json!({"type": "CypherProtobuf", "query": "RETURN $that AS x", "typeName": "X",
            "schemaUrl": "http://127.0.0.1:1/x"});
        let again = json!({"type": "RetryStreamError", "retryCount": 1, "minBackoff": "60s", "maxBackoff": "60s"});
        let (engine, stream) = stream_of(&json!({"type": "HttpPushIngest", "format": format, "onStreamError": again}));
        stream.note_lag(Some(7));
        let (told, lag) = std::thread::scope(|scope| {
            scope.spawn(|| run(&stream, &engine, &context(&threads), None));
            let since = Instant::now();
            while stream.told().is_none() && since.elapsed() < Duration::from_secs(50) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let seen = (stream.told(), stream.lag());
            stream.stop();
            seen
        });
        assert!(told.is_some_and(|told| told.contains("127.0.0.1:1")) && lag.is_none(), "{lag:?}");
        assert_eq!(stream.status(), Status::Running, "it was to begin again");
    }

    /// It had failed for good, with the first thread of a stream that had rested started again and the second one not.
    #[test]
    fn a_stream_that_gets_no_thread_to_commit_goes_on_when_there_is_one() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let (engine, stream) = stream_of(&json!({"type": "HttpPushIngest"}));
        let context = context(&threads);
        let source = stream.config.open(&context, None).expect("a source");
        let (position, decoder) = (source.position(), stream.config.decoder(&context).expect("a decoder"));
        // No system has that much for a stack.
        let none = || thread::Builder::new().stack_size(1 << 60);
        let resting = Some(Resting { source, decoder, position });
        let Ok((Ended::Threadless(_), opened)) = attempt(&stream, &context, resting, QUIET_TIME, none()) else {
            panic!("it has failed");
        };
        assert!(opened.is_some(), "the source is there, with what it knows");

        let (intake, mut tries) = (stream.intake().expect("it takes records").clone(), 0);
        let records = Records::cut(b"{}".to_vec(), Cut::Whole).expect("a record");
        let told = thread::scope(|scope| {
            scope.spawn(|| {
                run_with(&stream, &engine, &context, opened, || {
                    tries += 1;
                    if tries == 1 { none() } else { thread::Builder::new() }
                });
            });
            let since = Instant::now();
            while stream.told().is_none() && since.elapsed() < Duration::from_secs(50) {
                thread::sleep(Duration::from_millis(5));
            }
            let told = stream.told();
            let taken = threads.block_on(intake.hand_in(records, None));
            assert_eq!(taken.map(|taken| taken.records), Ok(1));
            stream.stop();
            told
        });
        assert!(told.is_some_and(|told| told.starts_with("no thread could be started")));
        assert_eq!((stream.status(), stream.told(), stream.ingested()), (Status::Running, None, 1));
        stream.join();
    }

    /// Its source would not be looked after until there is room, and a member of a group be thrown out of that.
    #[test]
    fn a_stream_is_not_quiet_while_its_only_batch_is_being_committed() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let (_engine, stream) = stream_of(&json!({"type": "HttpPushIngest"}));
        let (context, shared, quiet_time) = (context(&threads), Shared::default(), Duration::from_millis(500));
        let (sender, receiver) = bounded(BATCHES_WAITING_MAX);
        let intake = stream.intake().expect("it takes records").clone();
        let records = Records::cut(b"{}".to_vec(), Cut::Whole).expect("a record");
        threads.spawn(async move { intake.hand_in(records, None).await });
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| read::read(&stream, &context, &mut None, quiet_time, sender, &shared));
            let batch = receiver.recv_timeout(Duration::from_secs(60)).expect("a batch");
            std::thread::sleep(3 * quiet_time);
            assert!(!reads.is_finished(), "nobody asks for more");
            // As the committing thread does.
            drop(batch);
            shared.under_way.fetch_sub(1, Ordering::AcqRel);
            assert!(matches!(reads.join().expect("no panic"), Ok(Ended::Quiet)));
        });
    }

    #[test]
    fn the_end_of_a_stream_does_not_wait_for_schemas() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        silent.set_nonblocking(true).expect("a socket");
        let url = format!("http://{}/x", silent.local_addr().expect("an address"));
        let format = json!({"type": "CypherProtobuf", "query": "RETURN $that AS x", "typeName": "X", "schemaUrl": url});
        let written = json!({"type": "Protobuf", "typeName": "X", "schemaUrl": url, "withInfoEnvelope": false});
        let letters = json!({"type": "Redis", "url": "redis://127.0.0.1:1", "key": "failed", "outputFormat": written});
        for definition in [
            json!({"type": "HttpPushIngest", "format": format}),
            json!({"type": "HttpPushIngest", "onRecordError": {"deadLetterQueueSettings": {"destinations": [letters]}}}),
        ] {
            let (engine, stream) = stream_of(&definition);
            std::thread::scope(|scope| {
                let runs = scope.spawn(|| run(&stream, &engine, &context(&threads), None));
                let since = Instant::now();
                let mut asked = silent.accept();
                while asked.is_err() && since.elapsed() < Duration::from_secs(50) {
                    std::thread::sleep(Duration::from_millis(5));
                    asked = silent.accept();
                }
                let begun = Instant::now();
                stream.stop();
                runs.join().expect("no panic");
                // A schema is waited for 30 s.
                assert!(asked.is_ok() && begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            });
            assert_eq!(stream.status(), Status::Running, "it has not failed: {:?}", stream.told());
        }
    }

    #[test]
    fn batches_are_as_large_as_their_query_is_quick() {
        let batch_size = BatchSize::default();
        let size = || batch_size.limits().records_max;
        let run = |each: Duration| {
            let records = size();
            batch_size.learn(records, each * records as u32);
        };
        (0..5).for_each(|_| run(Duration::from_micros(5)));
        assert_eq!(size(), 32);
        run(Duration::from_millis(20));
        assert_eq!(size(), 5);
        run(Duration::from_secs(3));
        assert_eq!(size(), 1);
        (0..20).for_each(|_| run(Duration::from_micros(5)));
        assert_eq!(size(), Limits::default().records_max);
        // As soon as it is slow.
        run(Duration::from_micros(400));
        assert_eq!(size(), 250);
        // What comes one by one says how long one takes.
        batch_size.learn(1, Duration::from_micros(5));
        assert_eq!(size(), 500);
        batch_size.learn(0, Duration::from_secs(9));
        assert_eq!(size(), 500);
        batch_size.learn(1, Duration::ZERO);
        assert_eq!(size(), 1000);
    }
}
