//! How the records of one stream travel: two threads, so that reading and decoding go on while the graph is changed.
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
//! which they are given a moment to gather; but not more than take effect in a moment (`Pace`), since a pause or an end comes
//! between two of them.
//!
//! Records that are undone or transformed may become far larger than what was read. As many as may be held at once are a batch
//! then, and the rest are others. Between them the source stands where it stood before all of them, as it says nothing else:
//! after a kill there they come again. So less is read at once where records are large.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use weir_connectors::bell::Call;
use weir_connectors::decode::{Decoder, RecordFailure};
use weir_connectors::{ConnectorError, Frames, Limits, Progress, RecordStream, SourceContext, decode};
use weir_engine::store::StoreError;
use weir_engine::{Engine, EngineError, Ingested, Ingester, gather};
use weir_model::{Position, Tick, Value};

use super::errors::{DeadLetters, Letter};
use super::limit::Failures;
use super::stream::BUG;
use super::transformation::{Applied, Running, Stopped, Untransformed};
use super::{Status, Stream, lock};
use crate::error::{chain, failure_text};
use crate::traces::{self, Kind, Span};

/// Decoded batches waiting for the committing thread.
const BATCHES_WAITING_MAX: usize = 4;

/// A batch is to take effect within about this time.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// Records of the first batches, of which nobody knows yet how long they take.
const BATCH_RECORDS_FIRST: usize = 1;

/// A source may get on without a record to show for it; how often that is made durable.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// For so long nothing comes before the threads of a stream go. Where they cannot it is asked again later and later.
const QUIET_TIME: Duration = Duration::from_secs(1);
const QUIET_TIME_MAX: Duration = Duration::from_secs(64);

/// Between two looks, in a pause, whether what was committed last has become durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(50);

/// A source may not do at once what it does about records that are durable: in a pause it is told again, later and later.
const TOLD_AGAIN_MAX: Duration = Duration::from_secs(64);

/// The graph has no room for so long before a source is told that it is not asked for more.
const NO_ROOM_TIME: Duration = Duration::from_secs(1);

/// Between two looks for what a source cannot be opened without: a secret, a schema.
const OPEN_PAUSE: Duration = Duration::from_secs(2);

/// Between two tries of what the workers or the log were late for, longer and longer. Each has waited for them itself.
const LATE_PAUSE: Duration = Duration::from_millis(100);
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
    /// Which records have come to nothing,
    lost: Vec<Lost>,
    /// and what all were, for those that are to be told of records that failed.
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
struct Pace(AtomicUsize);

impl Pace {
    fn new() -> Pace {
        Pace(AtomicUsize::new(BATCH_RECORDS_FIRST))
    }

    fn limits(&self) -> Limits {
        Limits { records_max: self.0.load(Ordering::Relaxed), ..Limits::default() }
    }

    /// So many records have taken so long.
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

/// What the committing thread tells the one that reads.
#[derive(Default)]
struct Committed {
    /// Positions committed and perhaps not yet durable, in order.
    positions: Mutex<VecDeque<(Tick, Position)>>,
    /// That thread has ended.
    over: AtomicBool,
}

impl Committed {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Says that the committing thread ends, in whichever way: whoever reads would learn it only with the next batch otherwise, and
/// perhaps none comes.
struct Over<'a>(&'a Stream, &'a Committed);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.1.over.store(true, Ordering::Release);
        self.0.tell_in_pause();
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
pub fn run(stream: &Arc<Stream>, engine: &Engine, context: &SourceContext, mut rested: Option<Resting>) {
    let mut restarts = stream.errors.restarts();
    let mut quiet_time = QUIET_TIME;
    loop {
        match attempt(stream, context, rested.take(), quiet_time) {
            Ok((Ended::Exhausted, _)) => stream.end(Status::Completed, None),
            Ok((Ended::Quiet, Some(resting))) => match stream.rest_until_called(resting, engine, context) {
                None => return,
                awake => {
                    rested = awake;
                    quiet_time = (quiet_time * 2).min(QUIET_TIME_MAX);
                    continue;
                }
            },
            Ok((Ended::Stopped | Ended::Quiet, _)) => return,
            Err(Failed { reason, passing }) => {
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

/// From opening the source, or from where it rested, to its end; where it is quiet, with what stays behind.
fn attempt(
    stream: &Stream,
    context: &SourceContext,
    rested: Option<Resting>,
    quiet_time: Duration,
) -> Result<(Ended, Option<Resting>), Failed> {
    let (committed, pace, mut opened) = (Committed::default(), Pace::new(), rested);
    let (sender, receiver) = bounded(BATCHES_WAITING_MAX);
    std::thread::scope(|scope| {
        let named = weir_connectors::thread::named("commit", &stream.name);
        // The receiver goes when the thread does, or whoever sends would wait for ever.
        let committer = named.spawn_scoped(scope, {
            let ways = (&committed, &pace);
            move || {
                let _over = Over(stream, ways.0);
                commit(stream, context, receiver, ways)
            }
        });
        let read = match &committer {
            Ok(_) => read(stream, context, (&mut opened, quiet_time), sender, (&committed, &pace)),
            Err(error) => Err(Failed::for_good(format!("no thread could be started: {error}"))),
        };
        // The committing thread ends when there is nothing more to come.
        let commit = committer.map(|thread| thread.join());
        // Whatever has failed, what was committed before has had its effect: a source that does not hear of it gives it again.
        let told = opened.iter_mut().try_for_each(|at| acknowledge(stream, &mut at.source, &committed).map(drop));
        // What that thread says counts for more.
        let all = match commit {
            Ok(Ok(commit)) => commit?,
            Ok(Err(_)) => return Err(Failed::for_good(BUG.to_owned())),
            Err(_) => false,
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
}

/// Opens the source where the stream stands, and what reads its records. None when the stream is to end before they can be.
fn open(stream: &Stream, context: &SourceContext, committed: &Committed) -> Result<Option<Resting>, ConnectorError> {
    let from = stream.graph.position(&stream.source).filter(|position| !position.0.is_empty());
    loop {
        let source = stream.config.open(context, from.as_ref());
        match source.and_then(|source| Ok((source, stream.config.decoder(context)?))) {
            Ok((source, decoder)) => {
                let position = source.position();
                return Ok(Some(Resting { source, decoder, position }));
            }
            // What it needs is kept elsewhere, and may be there later. How often that is tried may have been said.
            Err(error) if error.retryable() && (!stream.errors.restarts_are_given() || error.is_of_secret()) => {
                stream.note_trouble(Some(chain(&error)));
            }
            Err(error) => return Err(error),
        }
        if !stream.wait_unless_stopping(OPEN_PAUSE) || !stream.may_go_on() || committed.is_over() {
            return Ok(None);
        }
    }
}

/// Reads until there is no more, the stream is stopped, or nothing is committed any more. The source stays where it was opened,
/// for its last acknowledgement, also after an error.
fn read(
    stream: &Stream,
    context: &SourceContext,
    (opened, quiet_time): (&mut Option<Resting>, Duration),
    batches: Sender<Batch>,
    (committed, pace): (&Committed, &Pace),
) -> Result<Ended, Failed> {
    // A stream that begins paused or restored opens its source when it is started. That of one that has rested is there, and is
    // looked after also in a pause.
    if opened.is_none() && stream.may_go_on() {
        *opened = open(stream, context, committed)?;
    }
    let Some(Resting { source, decoder, position }) = opened else { return Ok(Ended::Stopped) };
    let mut frames = Frames::default();
    let mut transformation = stream.transformation.start(&stream.name).map_err(Failed::for_good)?;
    let (mut sent, mut busy) = (Instant::now(), Instant::now());
    // What a transformation keeps, and who is told of records that failed, is not given up for a while of silence.
    let may_rest = transformation.is_none() && !stream.errors.tells();
    let (mut told, mut room) = (None, usize::MAX);
    while may_go_on(stream, source, committed, &mut told)? {
        let limits = pace.limits();
        let limits = Limits { records_max: limits.records_max.min(room), ..limits };
        let progress = source.next(&limits, &mut frames)?;
        let received = Instant::now();
        told = acknowledge(stream, source, committed)?.or(told);
        stream.note_trouble(source.trouble());
        stream.note_notice(source.notice());
        stream.note_lag(source.lag());
        let got_on = frames.position != *position && sent.elapsed() >= PROGRESS_INTERVAL;
        if !frames.is_empty() || got_on {
            let before = std::mem::replace(position, frames.position.clone());
            sent = Instant::now();
            let give = |batch| hand_over(stream, &batches, batch, (&mut *source, committed, &mut told));
            let read = Read { frames: &frames, before: &before, received };
            let Some(bytes) = pass_on(stream, &read, &**decoder, &mut transformation, give)? else { break };
            room = room_after(frames.len(), bytes, room);
            if progress == Progress::More && !frames.full(&limits) {
                gather(frames.len(), received);
            }
        }
        if progress == Progress::Finished {
            return Ok(Ended::Exhausted);
        }
        if !frames.is_empty() || frames.position != *position || !lock(&committed.positions).is_empty() {
            busy = Instant::now();
        } else if may_rest && batches.is_empty() && busy.elapsed() >= quiet_time {
            return Ok(Ended::Quiet);
        }
    }
    Ok(Ended::Stopped)
}

/// Gives a batch to the committing thread. While there is no room for it the source is looked after as in a pause. False: that
/// thread has ended.
fn hand_over(
    stream: &Stream,
    batches: &Sender<Batch>,
    mut batch: Batch,
    (source, committed, told): (&mut RecordStream, &Committed, &mut Option<Position>),
) -> Result<bool, ConnectorError> {
    if !batch.ends {
        // There may be room for each part at once, and yet they take long together.
        hold(stream, source);
    }
    let mut patience = NO_ROOM_TIME;
    loop {
        batch = match batches.send_timeout(batch, patience) {
            Ok(()) => return Ok(true),
            Err(SendTimeoutError::Disconnected(_)) => return Ok(false),
            Err(SendTimeoutError::Timeout(batch)) => batch,
        };
        if let Some(position) = acknowledge(stream, source, committed)? {
            *told = Some(position);
        }
        patience = hold(stream, source);
    }
}

/// Tells the source that nobody asks for more at the moment. Says after how long it is to be told so again.
fn hold(stream: &Stream, source: &mut RecordStream) -> Duration {
    let wait = source.hold().unwrap_or(TOLD_AGAIN_MAX);
    stream.note_trouble(source.trouble());
    stream.note_lag(source.lag());
    wait
}

/// What was read at once.
struct Read<'a> {
    frames: &'a Frames,
    /// Where the source stood before that.
    before: &'a Position,
    received: Instant,
}

/// Gives what was read as one batch, or as many as its values want. Says what they came to, as far as that was measured; None
/// when the stream is to end before that, or nobody takes them any more.
fn pass_on(
    stream: &Stream,
    read: &Read<'_>,
    decoder: &dyn Decoder,
    transformation: &mut Option<Running>,
    mut give: impl FnMut(Batch) -> Result<bool, ConnectorError>,
) -> Result<Option<usize>, Failed> {
    let raw = stream.errors.tells().then(|| Arc::new(read.frames.clone()));
    let (mut next, mut all) = (0, 0_usize);
    loop {
        let Some((mut batch, bytes)) = decoded(stream, read, next, decoder, transformation)? else { return Ok(None) };
        next += batch.record_count;
        all = all.saturating_add(bytes);
        batch.raw.clone_from(&raw);
        let ends = batch.ends;
        if !give(batch)? {
            return Ok(None);
        }
        if ends {
            return Ok(Some(all));
        }
    }
}

/// How many records may be read at once after so many whose values came to so many bytes: half of what may be held, so that
/// others need not be cut.
fn room_after(records: usize, bytes: usize, before: usize) -> usize {
    if records == 0 {
        return before;
    }
    let fit = (decode::VALUES_BYTES_MAX / 2).saturating_mul(records).checked_div(bytes).unwrap_or(usize::MAX);
    fit.clamp(1, before.saturating_mul(2))
}

/// What was read, from one record on, decoded and transformed, as much as may be held at once, with its bytes where they were
/// measured. None when the stream is to end before that.
fn decoded(
    stream: &Stream,
    read: &Read<'_>,
    first: usize,
    decoder: &dyn Decoder,
    transformation: &mut Option<Running>,
) -> Result<Option<(Batch, usize)>, Failed> {
    let frames = read.frames;
    let (mut records, mut undecodable) = (Vec::new(), Vec::new());
    let (mut next, bytes) = decode::decode_some(decoder, frames, first, &mut records, &mut undecodable);
    let mut failed = undecodable.iter().map(|failure| failure.number).peekable();
    let all = frames.first_number + first as u64..frames.first_number + next as u64;
    let mut numbers: Vec<u64> = all.filter(|number| failed.next_if_eq(number).is_none()).collect();
    if stream.config.query().is_none() {
        records.clear();
    }
    let applied = match transformation {
        None => Applied::default(),
        Some(running) => match running.apply(&mut records, &mut numbers, || stream.is_stopping()) {
            Ok(applied) => applied,
            Err(Stopped::Asked) => return Ok(None),
            Err(Stopped::GivenUp(reason)) => return Err(Failed::for_good(reason)),
        },
    };
    if let Some(number) = applied.next {
        // From there on all is decoded again, with what comes next.
        next = (number - frames.first_number) as usize;
        undecodable.retain(|failure| failure.number < number);
    }
    let mut lost = Vec::new();
    for RecordFailure { number, reason, sample } in undecodable {
        lost.push(Lost { number, reason, sample: String::from_utf8_lossy(&sample).into_owned(), decoded: None });
    }
    for Untransformed { number, reason, record } in applied.untransformed {
        lost.push(Lost { number, reason, sample: sample(&record), decoded: Some(record) });
    }
    let ends = next == frames.len();
    let position = if ends { frames.position.clone() } else { read.before.clone() };
    let (record_count, byte_count, received) = (next - first, frames.byte_count(first..next), read.received);
    let batch = Batch { records, numbers, position, ends, received, record_count, byte_count, lost, raw: None };
    Ok(Some((batch, bytes.saturating_add(applied.bytes))))
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

/// Waits while the stream is paused, and tells the source meanwhile what becomes durable: somebody may wait for that. False when
/// it is to end, or nothing is committed any more.
fn may_go_on(
    stream: &Stream,
    source: &mut RecordStream,
    committed: &Committed,
    told: &mut Option<Position>,
) -> Result<bool, ConnectorError> {
    let (mut again, mut hold_at) = (DURABLE_PAUSE, Instant::now() + DURABLE_PAUSE);
    let mut tell_at = Instant::now() + again;
    loop {
        if committed.is_over() {
            return Ok(false);
        }
        let waiting = lock(&committed.positions).len();
        let time_max = match waiting {
            0 => tell_at.min(hold_at).saturating_duration_since(Instant::now()),
            _ => DURABLE_PAUSE,
        };
        let is_news = || committed.is_over() || lock(&committed.positions).len() != waiting;
        if let Some(goes_on) = stream.may_go_on_within(time_max, is_news) {
            return Ok(goes_on);
        }
        if let Some(position) = acknowledge(stream, source, committed)? {
            *told = Some(position);
            again = DURABLE_PAUSE;
            tell_at = Instant::now() + again;
        } else if waiting == 0 && Instant::now() >= tell_at {
            if let Some(position) = told {
                source.durable(position)?;
            }
            again = (again * 2).min(TOLD_AGAIN_MAX);
            tell_at = Instant::now() + again;
        }
        hold_at = Instant::now() + hold(stream, source);
    }
}

/// Tells the source what has become durable since the last time, and says what that was.
fn acknowledge(stream: &Stream, source: &mut RecordStream, committed: &Committed) -> Result<Option<Position>, ConnectorError> {
    let durable = stream.graph.durable();
    let mut latest = None;
    let mut waiting = lock(&committed.positions);
    while waiting.front().is_some_and(|(upper, _)| *upper <= durable) {
        latest = waiting.pop_front().map(|(_, position)| position);
    }
    drop(waiting);
    if let Some(position) = &latest {
        source.durable(position)?;
    }
    Ok(latest)
}

/// False: some of what was read is left, since the stream is to end.
fn commit(
    stream: &Stream,
    context: &SourceContext,
    batches: Receiver<Batch>,
    (committed, pace): (&Committed, &Pace),
) -> Result<bool, Failed> {
    let mut letters = stream.errors.open(&stream.source, stream.graph.ids(), context)?;
    let (mut last, mut told) = (Tick::ZERO, true);
    let all = commit_batches(stream, batches, &mut letters, (committed, pace), (&mut last, &mut told));
    if let Some(letters) = letters {
        letters.close(told);
    }
    // A stream is over when its records are safe, and one that fails tells its source of those that are.
    let durable = in_time(stream, || stream.graph.wait_durable(last).map(Some));
    let (all, durable) = (all?, durable?);
    Ok(all && durable.is_some())
}

/// The same before the end. Says where the graph stands after the last batch that had an effect, and whether everybody has heard
/// of the records that failed.
fn commit_batches(
    stream: &Stream,
    batches: Receiver<Batch>,
    letters: &mut Option<DeadLetters>,
    (committed, pace): (&Committed, &Pace),
    (last, told): (&mut Tick, &mut bool),
) -> Result<bool, Failed> {
    let mut ingester = Ingester::new(stream.graph.clone(), stream.query.clone());
    let mut failures = Failures::new(stream.errors.stop_after);
    for batch in batches {
        let lost = || batch.lost.last().map_or_else(String::new, Lost::shown);
        if let Err(reason) = failures.add(batch.lost.len(), lost) {
            for Lost { number, reason, sample, .. } in batch.lost {
                stream.set_aside_to_come_again(number, reason, sample);
            }
            return Err(Failed::for_good(reason));
        }
        // Told before the position goes past them: a record that nobody has heard of comes again.
        let heard = set_lost_aside(stream, letters, &batch);
        *told = matches!(heard, Ok(true));
        let mut span = None;
        let take = || take_effect(stream, &mut ingester, &batch, pace, &mut span);
        let taken = match heard {
            Ok(true) => in_time(stream, take).map_err(Failed::from),
            left => left.map(|_| None),
        };
        if !matches!(taken, Ok(Some(_))) {
            // What is left here has had no effect and is before no position.
            stream.let_come_again(batch.lost.iter().map(|lost| lost.number));
        }
        let Some(ingested) = taken? else { return Ok(false) };
        if let Some(span) = &mut span {
            span.set("weir.records.failed", ingested.failures.len() as u64);
        }
        drop(span);
        let without_effect: Vec<_> = ingested.failures.iter().map(|(index, failure)| (*index, failure_text(failure))).collect();
        *last = ingested.upper;
        let heard = set_ineffective_aside(stream, letters, &batch, &without_effect);
        *told = matches!(heard, Ok(true));
        // Also where a dead letter is refused, or nobody waits for it any more: the batch has had its effect, and would have it
        // twice.
        if batch.ends {
            lock(&committed.positions).push_back((ingested.upper, batch.position));
            stream.tell_in_pause();
        }
        if !heard? {
            return Ok(false);
        }
        let last_reason = || without_effect.last().map_or_else(String::new, |(_, why)| why.clone());
        failures.add(without_effect.len(), last_reason).map_err(Failed::for_good)?;
    }
    Ok(true)
}

/// Tries again where the workers or the log are late, which may pass: a disk was slow, the machine was suspended. What fails so
/// has not happened. None where `attempt` says so, or the stream is to end.
fn in_time<T>(stream: &Stream, mut attempt: impl FnMut() -> Result<Option<T>, EngineError>) -> Result<Option<T>, EngineError> {
    let mut pause = LATE_PAUSE;
    loop {
        match attempt() {
            Err(error @ (EngineError::WorkersStuck | EngineError::Store(StoreError::TooSlow { .. }))) => {
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

/// Sets aside what came to nothing before its query, and tells of it. False when the stream is stopped before all have heard.
fn set_lost_aside(stream: &Stream, letters: &mut Option<DeadLetters>, batch: &Batch) -> Result<bool, Failed> {
    for Lost { number, reason, sample, .. } in &batch.lost {
        stream.set_aside(*number, reason.clone(), sample.clone());
    }
    let lost = batch.raw.iter().flat_map(|frames| batch.lost.iter().map(move |lost| (frames, lost)));
    let lost = lost.map(|(frames, lost)| letter(frames, lost.number, lost.decoded.as_ref(), &lost.reason));
    tell(stream, letters, &lost.collect::<Vec<_>>())
}

/// The same of records whose query failed: those indices, for those reasons.
fn set_ineffective_aside(
    stream: &Stream,
    letters: &mut Option<DeadLetters>,
    batch: &Batch,
    failures: &[(usize, String)],
) -> Result<bool, Failed> {
    for (index, reason) in failures {
        let number = batch.numbers.get(*index).copied().unwrap_or_default();
        stream.set_aside(number, reason.clone(), batch.records.get(*index).map_or_else(String::new, sample));
    }
    let ineffective = batch.raw.iter().flat_map(|frames| failures.iter().map(move |failure| (frames, failure)));
    let ineffective = ineffective.filter_map(|(frames, (index, reason))| {
        Some(letter(frames, *batch.numbers.get(*index)?, batch.records.get(*index), reason))
    });
    let ineffective = ineffective.collect::<Vec<_>>();
    let told = tell(stream, letters, &ineffective);
    if !matches!(told, Ok(true)) {
        // They are before the position that was committed, and come no more.
        let (ingest, count) = (&stream.name, ineffective.len());
        let records: Vec<u64> = ineffective.iter().map(|letter| letter.number).collect();
        tracing::warn!(ingest, ?records, "the stream ends before its dead letters were delivered: {count} may be lost");
    }
    told
}

/// None where the stream is to end without the batch. A pause breaks off what takes long; it is begun anew afterwards. After an
/// error nothing has happened.
fn take_effect(
    stream: &Stream,
    ingester: &mut Ingester,
    batch: &Batch,
    pace: &Pace,
    span: &mut Option<Span>,
) -> Result<Option<Ingested>, EngineError> {
    while stream.wait_for_room() && stream.may_commit() {
        let progress = Some((stream.source.as_str(), batch.position.clone()));
        *span = begin_span(stream, batch);
        let begun = Instant::now();
        let ingested = ingester.received(batch.received).ingest_while(&batch.records, progress, &|| !stream.breaks_off());
        if let Ok(Some(ingested)) = &ingested {
            pace.learn(batch.record_count, ingested.took);
            stream.records.mark(batch.record_count as u64);
            stream.bytes.mark(batch.byte_count as u64);
        }
        stream.committed();
        match ingested {
            Ok(None) => pace.learn(1, begun.elapsed()),
            Ok(ingested) => return Ok(ingested),
            Err(error) => {
                span.iter_mut().for_each(|span| span.fail(chain(&error)));
                return Err(error);
            }
        }
    }
    Ok(None)
}

/// From the source having given the records to their being committed.
fn begin_span(stream: &Stream, batch: &Batch) -> Option<Span> {
    if batch.records.is_empty() {
        return None;
    }
    let mut span = traces::begin(Kind::Consumer, || format!("ingest {}", stream.name))?;
    span.since(batch.received);
    span.set("weir.namespace", stream.graph.name());
    span.set("weir.ingest", stream.name.as_str());
    span.set("weir.records", batch.records.len() as u64);
    Some(span)
}

fn sample(record: &Value) -> String {
    record.shown().chars().take(SAMPLE_CHARACTERS_MAX).collect()
}

fn letter<'a>(frames: &'a Frames, number: u64, decoded: Option<&'a Value>, reason: &'a str) -> Letter<'a> {
    let index = number.checked_sub(frames.first_number).and_then(|index| usize::try_from(index).ok());
    let (bytes, origin): (&[u8], &[u8]) = match index.filter(|index| *index < frames.len()) {
        Some(index) => (frames.get(index).bytes, frames.origin(index)),
        None => (&[], &[]),
    };
    Letter { number, bytes, origin, decoded, reason }
}

/// False when the stream is stopped before all have heard.
fn tell(stream: &Stream, boxes: &mut Option<DeadLetters>, letters: &[Letter<'_>]) -> Result<bool, Failed> {
    let Some(boxes) = boxes else { return Ok(true) };
    let late = |reason: String| stream.note_undelivered(Some(reason));
    let sent = boxes.send(&*stream.config, letters, || stream.is_stopping(), late).map_err(Failed::for_good);
    if !letters.is_empty() {
        stream.note_undelivered(None);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::stream;
    use super::*;

    #[test]
    fn what_the_workers_or_the_log_are_late_for_is_tried_again() {
        let (_engine, stream) = stream();
        let shown = || stream.lock().message();
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
    fn batches_are_as_large_as_their_query_is_quick() {
        let pace = Pace::new();
        let size = || pace.limits().records_max;
        let run = |each: Duration| {
            let records = size();
            pace.learn(records, each * records as u32);
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
        pace.learn(1, Duration::from_micros(5));
        assert_eq!(size(), 500);
        pace.learn(0, Duration::from_secs(9));
        assert_eq!(size(), 500);
        pace.learn(1, Duration::ZERO);
        assert_eq!(size(), 1000);
    }

    #[test]
    fn less_is_read_at_once_where_values_are_large() {
        let most = decode::VALUES_BYTES_MAX;
        // Nothing was measured, or there was nothing.
        assert_eq!([room_after(100, 0, usize::MAX), room_after(0, 0, 7)], [usize::MAX, 7]);
        assert_eq!(room_after(100, most, usize::MAX), 50);
        assert_eq!(room_after(50, most / 2, 50), 50);
        assert_eq!(room_after(1, 4 * most, 50), 1);
        // One that is small says little of those that come.
        assert_eq!([room_after(1, 10, 1), room_after(1, 0, usize::MAX / 2 + 1)], [2, usize::MAX]);
    }
}
