//! Source and decode: reads a stream, and hands what was read over to be committed, decoded and transformed.
//!
//!     Watched ─ next ─> Frames ─ decode_batch ─> Batch ─ hand_over ─> the committing thread
//!
//! A source is looked after also while the stream is paused or the graph has no room: it is told what becomes durable, and that
//! nobody asks for more.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{SendTimeoutError, Sender};
use weir_connectors::decode::{Decoder, RecordFailure};
use weir_connectors::{ConnectorError, Frames, Limits, Progress, RecordStream, SourceContext, decode};
use weir_engine::store::StoreError;
use weir_engine::wait_for_more;
use weir_model::lock::lock;
use weir_model::{Position, Tick};

use super::{Batch, Ended, Failed, Lost, Resting, Shared, sample};
use crate::error::chain;
use crate::ingest::Stream;
use crate::ingest::transformation::{Applied, Running, Stopped, Untransformed};

/// How often it is made durable that a source got on without a record to show for it.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// In a pause, the time between two looks whether what was committed last has become durable.
const DURABLE_PAUSE: Duration = Duration::from_millis(50);

/// What was committed first is late when it is not durable after this long.
const DURABLE_PATIENCE: Duration = Duration::from_secs(60);

/// A source may not do at once what it does about records that are durable: in a pause it is told again, later and later.
const TOLD_AGAIN_MAX: Duration = Duration::from_secs(64);

/// When the graph has had no room for this long, a source is told that it is not asked for more.
const NO_ROOM_TIME: Duration = Duration::from_secs(1);

/// The time between two looks for what a source cannot be opened without: a secret, a schema.
const OPEN_PAUSE: Duration = Duration::from_secs(2);

/// Opens the source where the stream stands, and what reads its records. None when the stream is to end before they can be.
fn open(stream: &Arc<Stream>, context: &SourceContext, shared: &Shared) -> Result<Option<Resting>, ConnectorError> {
    let from = stream.graph.position(&stream.source).filter(|position| !position.0.is_empty());
    loop {
        let opened = stream.while_wanted(|| -> Result<_, ConnectorError> {
            let source = stream.config.open(context, from.as_ref())?;
            Ok((source, stream.config.decoder(context)?))
        });
        match opened {
            Ok((source, decoder)) => {
                let position = source.position();
                return Ok(Some(Resting { source, decoder, position }));
            }
            // It may be an end that has broken it off, and nobody is told.
            Err(_) if stream.is_stopping() => return Ok(None),
            // What it needs is kept elsewhere, and may be there later. How often that is tried may have been said.
            Err(error) if error.retryable() && (!stream.errors.restarts_are_given() || error.is_of_secret()) => {
                stream.note_trouble(Some(chain(&error)));
            }
            Err(error) => return Err(error),
        }
        if !stream.wait_unless_stopping(OPEN_PAUSE) || !stream.may_go_on() || shared.is_over() {
            return Ok(None);
        }
    }
}

/// Reads until there is no more, the stream is stopped, or nothing is committed any more. The source stays where it was opened,
/// for its last acknowledgement, also after an error.
pub(super) fn read(
    stream: &Arc<Stream>,
    context: &SourceContext,
    opened: &mut Option<Resting>,
    quiet_time: Duration,
    batches: Sender<Batch>,
    shared: &Shared,
) -> Result<Ended, Failed> {
    // A stream that begins paused or restored opens its source when it is started. That of one that has rested is there, and is
    // looked after also in a pause.
    if opened.is_none() && stream.may_go_on() {
        *opened = open(stream, context, shared)?;
    }
    let Some(Resting { source, decoder, position }) = opened else { return Ok(Ended::Stopped) };
    let mut watched = Watched::new(stream, shared, source);
    let mut frames = Frames::default();
    let mut transformation = stream.transformation.start(&stream.name).map_err(Failed::for_good)?;
    let (mut sent, mut busy) = (Instant::now(), Instant::now());
    // What a transformation keeps, and who is told of records that failed, is not given up for a while of silence.
    let may_rest = transformation.is_none() && !stream.errors.tells();
    let mut room = usize::MAX;
    while watched.may_go_on()? {
        let limits = shared.batch_size.limits();
        let limits = Limits { records_max: limits.records_max.min(room), ..limits };
        let progress = watched.source.next(&limits, &mut frames)?;
        let received = Instant::now();
        watched.acknowledge()?;
        stream.note_trouble(watched.source.trouble());
        stream.note_notice(watched.source.notice());
        stream.note_lag(watched.source.lag());
        let got_on = frames.position != *position && sent.elapsed() >= PROGRESS_INTERVAL;
        if !frames.is_empty() || got_on {
            let before = std::mem::replace(position, frames.position.clone());
            sent = Instant::now();
            let give = |batch| watched.hand_over(&batches, batch);
            let read = Read { frames: &frames, before: &before, received };
            let Some(bytes) = pass_on(stream, &read, &**decoder, &mut transformation, give)? else { break };
            room = room_after(frames.len(), bytes, room);
            if progress == Progress::More && !frames.full(&limits) {
                wait_for_more(frames.len(), received);
            }
        }
        if progress == Progress::Finished {
            return Ok(Ended::Exhausted);
        }
        // First whether anything is under way: what was is among the positions then.
        let is_committing = shared.is_committing() || !lock(&shared.positions).is_empty();
        if is_committing || !frames.is_empty() || frames.position != *position {
            busy = Instant::now();
        } else if may_rest && busy.elapsed() >= quiet_time {
            return Ok(Ended::Quiet);
        }
    }
    Ok(Ended::Stopped)
}

/// The source of a stream, which is looked after also while it is not asked for records.
pub(super) struct Watched<'a> {
    stream: &'a Stream,
    shared: &'a Shared,
    source: &'a mut RecordStream,
    /// What it was told last to be durable.
    told: Option<Position>,
    /// The first commit that is not durable, and since when it is the first.
    oldest: Option<(Tick, Instant)>,
    /// Whether the stream may say that it is late. It may do so from the beginning, by whoever looked after the source before.
    is_late: bool,
}

impl<'a> Watched<'a> {
    pub(super) fn new(stream: &'a Stream, shared: &'a Shared, source: &'a mut RecordStream) -> Watched<'a> {
        Watched { stream, shared, source, told: None, oldest: None, is_late: true }
    }

    /// Waits while the stream is paused, and tells the source meanwhile what becomes durable: somebody may wait for that. False
    /// when it is to end, or nothing is committed any more.
    fn may_go_on(&mut self) -> Result<bool, ConnectorError> {
        let (stream, shared) = (self.stream, self.shared);
        let (mut again, mut hold_at) = (DURABLE_PAUSE, Instant::now() + DURABLE_PAUSE);
        let mut tell_at = Instant::now() + again;
        loop {
            if shared.is_over() {
                return Ok(false);
            }
            let waiting = lock(&shared.positions).len();
            let time_max = match waiting {
                0 => tell_at.min(hold_at).saturating_duration_since(Instant::now()),
                _ => DURABLE_PAUSE,
            };
            let is_news = || shared.is_over() || lock(&shared.positions).len() != waiting;
            if let Some(goes_on) = stream.may_go_on_within(time_max, is_news) {
                return Ok(goes_on);
            }
            if self.acknowledge()? {
                again = DURABLE_PAUSE;
                tell_at = Instant::now() + again;
            } else if waiting == 0 && Instant::now() >= tell_at {
                if let Some(position) = &self.told {
                    self.source.durable(position)?;
                }
                again = (again * 2).min(TOLD_AGAIN_MAX);
                tell_at = Instant::now() + again;
            }
            hold_at = Instant::now() + self.hold();
        }
    }

    /// Gives a batch to the committing thread. While there is no room for it the source is looked after as in a pause. False:
    /// that thread has ended.
    fn hand_over(&mut self, batches: &Sender<Batch>, mut batch: Batch) -> Result<bool, ConnectorError> {
        if !batch.ends {
            // There may be room for each part at once, and yet they take long together.
            self.hold();
        }
        let mut patience = NO_ROOM_TIME;
        // Before it is taken, as it may be committed at once. Where nobody takes it the stream ends, and does not rest.
        self.shared.under_way.fetch_add(1, Ordering::AcqRel);
        loop {
            batch = match batches.send_timeout(batch, patience) {
                Ok(()) => return Ok(true),
                Err(SendTimeoutError::Disconnected(_)) => return Ok(false),
                Err(SendTimeoutError::Timeout(batch)) => batch,
            };
            self.acknowledge()?;
            patience = self.hold();
        }
    }

    /// Tells the source that nobody asks for more at the moment. Says after how long it is to be told so again.
    fn hold(&mut self) -> Duration {
        let wait = self.source.hold().unwrap_or(TOLD_AGAIN_MAX);
        self.stream.note_trouble(self.source.trouble());
        self.stream.note_lag(self.source.lag());
        wait
    }

    /// Tells the source what has become durable since the last time. False: nothing has.
    pub(super) fn acknowledge(&mut self) -> Result<bool, ConnectorError> {
        let durable = self.stream.graph.durable();
        let mut latest = None;
        let mut waiting = lock(&self.shared.positions);
        while waiting.front().is_some_and(|(upper, _)| *upper <= durable) {
            latest = waiting.pop_front().map(|(_, position)| position);
        }
        let oldest = waiting.front().map(|(upper, _)| *upper);
        drop(waiting);
        self.note_oldest(oldest);
        let Some(position) = latest else { return Ok(false) };
        self.source.durable(&position)?;
        self.told = Some(position);
        Ok(true)
    }

    /// Commits go on as long as the log has room, however long nothing becomes durable: without this nobody would know.
    fn note_oldest(&mut self, oldest: Option<Tick>) {
        if self.oldest.map(|(upper, _)| upper) != oldest {
            self.oldest = oldest.map(|upper| (upper, Instant::now()));
        }
        let late = self.oldest.filter(|(_, since)| since.elapsed() >= DURABLE_PATIENCE);
        if late.is_none() && !self.is_late {
            return;
        }
        self.is_late = late.is_some();
        self.stream.note_undurable(late.map(|(tick, _)| {
            let slow = StoreError::TooSlow { graph: self.stream.graph.id(), tick, patience: DURABLE_PATIENCE };
            format!("what was read is not durable yet: {slow}")
        }));
    }
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
        let Some((mut batch, bytes)) = decode_batch(stream, read, next, decoder, transformation)? else { return Ok(None) };
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

/// How many records may be read at once after `records` whose values came to `bytes`: half of what may be held, so that others
/// need not be cut.
fn room_after(records: usize, bytes: usize, before: usize) -> usize {
    if records == 0 {
        return before;
    }
    let fit = (decode::VALUES_BYTES_MAX / 2).saturating_mul(records).checked_div(bytes).unwrap_or(usize::MAX);
    fit.clamp(1, before.saturating_mul(2))
}

/// What was read, from one record on, decoded and transformed, as much as may be held at once, with its bytes where they were
/// measured. None when the stream is to end before that.
fn decode_batch(
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
        // Records that are only counted go no further.
        records.clear();
        numbers.clear();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::stream::tests::{context, stream};

    /// Below the bound of the log's line a stream went on, and said nothing.
    #[test]
    fn it_is_told_when_what_was_committed_does_not_become_durable() {
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let (_engine, stream) = stream();
        let shared = Shared::default();
        let mut source = stream.config.open(&context(&threads), None).expect("a source");
        let mut watched = Watched::new(&stream, &shared, &mut source);
        let never = Tick(u64::MAX);
        lock(&shared.positions).push_back((never, Position(vec![1])));
        assert!(matches!(watched.acknowledge(), Ok(false)));
        assert!(stream.told().is_none(), "it has only begun");
        let begun = Instant::now().checked_sub(DURABLE_PATIENCE).expect("the machine runs for a minute");
        watched.oldest = Some((never, begun));
        assert!(matches!(watched.acknowledge(), Ok(false)));
        let told = stream.told().expect("it is late");
        assert!(told.ends_with("the disk is very slow or stuck"), "{told}");
        // Whatever takes effect meanwhile.
        stream.note_late(None);
        assert_eq!(stream.told().as_ref(), Some(&told));
        // As where it has become durable.
        lock(&shared.positions).clear();
        assert!(matches!(watched.acknowledge(), Ok(false)));
        assert!(stream.told().is_none());
        // It does not stay with one that has ended.
        stream.note_undurable(Some(told));
        stream.end(crate::ingest::Status::Completed, None);
        assert!(stream.told().is_none());
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
