//! How the records of one stream travel: two threads, so that reading and decoding go on while the graph is changed.
//!
//!     source ─ next ─> Frames ─ decode ─> Batch ──(bounded)──> evaluate and commit, with the position
//!       ^                                                             │
//!       └──────────── durable(position) <── positions committed ──────┘
//!
//! One committing thread keeps the order of the stream, which is what makes the stored position true: everything before
//! it has had its effect, nothing after it has. Batches are what the source has at hand: one record when idle, many under load.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_connectors::{Frames, Limits, Progress, RecordStream, SourceContext, decode};
use weir_engine::{Engine, EngineError, Ingester};
use weir_model::{Position, Tick, Value};

use super::{Status, Stream, lock};
use crate::error::{chain, failure_text};

/// Decoded batches waiting for the committing thread.
const BATCHES_WAITING_MAX: usize = 4;

/// A source may get on without a record to show for it; how often that is made durable.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How much of a failed record is shown.
const SAMPLE_CHARACTERS_MAX: usize = 256;

struct Batch {
    records: Vec<Value>,
    /// The number of each record in the stream.
    numbers: Vec<u64>,
    position: Position,
}

/// Positions committed and perhaps not yet durable, in order.
type Committed = Arc<Mutex<VecDeque<(Tick, Position)>>>;

/// Runs a stream until it is exhausted, fails or is stopped.
pub fn run(stream: &Arc<Stream>, engine: &Engine, context: &SourceContext) {
    let committed = Committed::default();
    let (sender, receiver) = bounded(BATCHES_WAITING_MAX);
    let outcome: Result<Ended, String> = std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name(format!("commit {}", stream.name));
        let committer = named.spawn_scoped(scope, || commit(stream, &receiver, &committed));
        let read = match &committer {
            Ok(_) => read(stream, context, sender, &committed),
            Err(error) => Err(format!("no thread could be started: {error}")),
        };
        // The committing thread ends when there is nothing more to come; what it says counts for more.
        match committer.map(|thread| thread.join()) {
            Ok(Ok(commit)) => commit.map_err(|error| chain(&error))?,
            Ok(Err(_)) => return Err("the stream ended through a bug in weir; the log has the details".to_owned()),
            Err(_) => {}
        }
        let (ended, source) = read?;
        if let Some(mut source) = source {
            acknowledge(stream, &mut source, &committed)?;
        }
        // Whoever sees the stream as completed may count on reading all of it.
        stream.graph.wait_visible().map_err(|error| chain(&error))?;
        Ok(ended)
    });
    match outcome {
        Ok(Ended::Exhausted) => stream.end(Status::Completed, None),
        Ok(Ended::Stopped) => return,
        Err(reason) => {
            tracing::error!(ingest = stream.name, "the stream failed: {reason}");
            stream.end(Status::Failed, Some(reason));
        }
    }
    if let Err(error) = stream.store(engine) {
        tracing::error!(ingest = stream.name, "its end could not be stored: {error}");
    }
}

enum Ended {
    Exhausted,
    Stopped,
}

/// Reads until there is no more or the stream is stopped. Gives the source back, for its last acknowledgement.
fn read(
    stream: &Stream,
    context: &SourceContext,
    batches: Sender<Batch>,
    committed: &Committed,
) -> Result<(Ended, Option<RecordStream>), String> {
    // A stream that begins paused or restored opens its source when it is started.
    if !stream.may_go_on() {
        return Ok((Ended::Stopped, None));
    }
    let from = stream.graph.position(&stream.source).filter(|position| !position.0.is_empty());
    let mut source = stream.config.open(context, from.as_ref()).map_err(|error| chain(&error))?;
    let decoder = stream.config.decoder();
    let limits = Limits::default();
    let mut frames = Frames::default();
    let mut undecodable = Vec::new();
    let (mut position, mut sent) = (from.unwrap_or_default(), Instant::now());
    while stream.may_go_on() {
        let progress = source.next(&limits, &mut frames).map_err(|error| chain(&error))?;
        acknowledge(stream, &mut source, committed)?;
        stream.note_trouble(source.trouble());
        let got_on = frames.position != position && sent.elapsed() >= PROGRESS_INTERVAL;
        if !frames.is_empty() || got_on {
            (position, sent) = (frames.position.clone(), Instant::now());
            let mut records = Vec::new();
            decode::decode(&*decoder, &frames, &mut records, &mut undecodable);
            let mut failed = undecodable.iter().map(|failure| failure.number).peekable();
            let all = frames.first_number..frames.first_number + frames.len() as u64;
            let numbers = all.filter(|number| failed.next_if_eq(number).is_none()).collect();
            stream.records.mark(frames.len() as u64);
            stream.bytes.mark(frames.byte_count() as u64);
            if stream.config.query().is_none() {
                records.clear();
            }
            let batch = Batch { records, numbers, position: frames.position.clone() };
            for failure in undecodable.drain(..) {
                stream.set_aside(failure.number, failure.reason, String::from_utf8_lossy(&failure.sample).into_owned());
            }
            if batches.send(batch).is_err() {
                // The committing thread has failed and says why.
                return Ok((Ended::Stopped, None));
            }
        }
        if progress == Progress::Finished {
            return Ok((Ended::Exhausted, Some(source)));
        }
    }
    Ok((Ended::Stopped, Some(source)))
}

/// Tells the source what has become durable since the last time.
fn acknowledge(stream: &Stream, source: &mut RecordStream, committed: &Committed) -> Result<(), String> {
    let durable = stream.graph.durable();
    let mut latest = None;
    let mut waiting = lock(committed);
    while waiting.front().is_some_and(|(upper, _)| *upper <= durable) {
        latest = waiting.pop_front().map(|(_, position)| position);
    }
    drop(waiting);
    latest.map_or(Ok(()), |position| source.durable(&position).map_err(|error| chain(&error)))
}

fn commit(stream: &Stream, batches: &Receiver<Batch>, committed: &Committed) -> Result<(), EngineError> {
    let mut ingester = Ingester::new(stream.graph.clone(), stream.query.clone());
    let mut last = Tick::ZERO;
    for batch in batches {
        let ingested = ingester.ingest(&batch.records, Some((&stream.source, batch.position.clone())))?;
        for (index, failure) in ingested.failures {
            let number = batch.numbers.get(index).copied().unwrap_or_default();
            let sample = batch
                .records
                .get(index)
                .map_or_else(String::new, |record| record.shown().chars().take(SAMPLE_CHARACTERS_MAX).collect());
            stream.set_aside(number, failure_text(&failure), sample);
        }
        last = ingested.upper;
        lock(committed).push_back((ingested.upper, batch.position));
    }
    // A stream is over when its records are safe.
    stream.graph.wait_durable(last)
}
