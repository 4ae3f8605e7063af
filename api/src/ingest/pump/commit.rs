//! Evaluate and commit: gives the batches of a stream to the graph, one after another, each with its position.
//!
//! Before the position goes past a record that failed it is set aside, and whoever is to be told of it has heard.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Receiver;
use weir_connectors::{Frames, SourceContext};
use weir_engine::{EngineError, Ingested, Ingester};
use weir_model::lock::lock;
use weir_model::{Tick, Value};

use super::{Batch, Failed, Lost, Shared, in_time, sample};
use crate::error::{chain, failure_text};
use crate::ingest::Stream;
use crate::ingest::errors::{DeadLetters, Letter};
use crate::ingest::limit::Failures;
use crate::traces::{self, Kind, Span};

/// False: some of what was read is left, since the stream is to end.
pub(super) fn commit(
    stream: &Arc<Stream>,
    context: &SourceContext,
    batches: Receiver<Batch>,
    shared: &Shared,
) -> Result<bool, Failed> {
    let open = || stream.errors.open(&stream.source, &*stream.config, stream.graph.ids(), context);
    let letters = match stream.while_wanted(open) {
        // It may be the end that has broken it off.
        Err(_) if stream.is_stopping() => return Ok(false),
        letters => letters?,
    };
    let mut committing = Committing::new(stream, shared, letters);
    let all = committing.commit_batches(batches);
    let Committing { letters, last, told, .. } = committing;
    if let Some(letters) = letters {
        letters.close(told);
    }
    // A stream is over when its records are safe, and one that fails tells its source of those that are.
    let durable = in_time(stream, || stream.graph.wait_durable(last).map(Some));
    let (all, durable) = (all?, durable?);
    Ok(all && durable.is_some())
}

/// What commits the batches of a stream.
struct Committing<'a> {
    stream: &'a Stream,
    shared: &'a Shared,
    ingester: Ingester,
    failures: Failures,
    /// Who is told of records that failed.
    letters: Option<DeadLetters>,
    /// Where the graph stands after the last batch that had an effect.
    last: Tick,
    /// Whether everybody has heard of the records that failed.
    told: bool,
}

impl<'a> Committing<'a> {
    fn new(stream: &'a Stream, shared: &'a Shared, letters: Option<DeadLetters>) -> Committing<'a> {
        let ingester = Ingester::new(stream.graph.clone(), stream.query.clone());
        let failures = Failures::new(stream.errors.stop_after);
        Committing { stream, shared, ingester, failures, letters, last: Tick::ZERO, told: true }
    }

    /// False: some of them are left, since the stream is to end.
    fn commit_batches(&mut self, batches: Receiver<Batch>) -> Result<bool, Failed> {
        for batch in batches {
            if !self.commit_batch(batch)? {
                return Ok(false);
            }
            // After its position is there: whoever sees that nothing is under way looks for that.
            self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(true)
    }

    /// False where the stream is to end: with this batch, or before it.
    fn commit_batch(&mut self, batch: Batch) -> Result<bool, Failed> {
        let stream = self.stream;
        let lost = || batch.lost.last().map_or_else(String::new, Lost::shown);
        if let Err(reason) = self.failures.add(batch.lost.len(), lost) {
            for Lost { number, reason, sample, .. } in batch.lost {
                stream.set_aside_to_come_again(number, reason, sample);
            }
            return Err(Failed::for_good(reason));
        }
        // Told before the position goes past them: a record that nobody has heard of comes again.
        let heard = self.set_lost_aside(&batch);
        self.told = matches!(heard, Ok(true));
        let mut span = None;
        let take = || self.take_effect(&batch, &mut span);
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
        self.last = ingested.upper;
        stream.note_unanchored(&ingested.unanchored);
        let heard = self.set_ineffective_aside(&batch, &without_effect);
        self.told = matches!(heard, Ok(true));
        // Also where a dead letter is refused, or nobody waits for it any more: the batch has had its effect, and would have it
        // twice.
        if batch.ends {
            lock(&self.shared.positions).push_back((ingested.upper, batch.position));
            stream.tell_in_pause();
        }
        if !heard? {
            return Ok(false);
        }
        let last_reason = || without_effect.last().map_or_else(String::new, |(_, why)| why.clone());
        self.failures.add(without_effect.len(), last_reason).map_err(Failed::for_good)?;
        Ok(true)
    }

    /// Sets aside what came to nothing before its query, and tells of it. False when the stream is stopped before all have heard.
    fn set_lost_aside(&mut self, batch: &Batch) -> Result<bool, Failed> {
        for Lost { number, reason, sample, .. } in &batch.lost {
            self.stream.set_aside(*number, reason.clone(), sample.clone());
        }
        let lost = batch.raw.iter().flat_map(|frames| batch.lost.iter().map(move |lost| (frames, lost)));
        let lost = lost.map(|(frames, lost)| letter(frames, lost.number, lost.decoded.as_ref(), &lost.reason));
        self.tell(&lost.collect::<Vec<_>>())
    }

    /// As `set_lost_aside`, for records whose query failed: `failures` has their indices, and the reasons.
    fn set_ineffective_aside(&mut self, batch: &Batch, failures: &[(usize, String)]) -> Result<bool, Failed> {
        for (index, reason) in failures {
            let number = batch.numbers.get(*index).copied().unwrap_or_default();
            self.stream.set_aside(number, reason.clone(), batch.records.get(*index).map_or_else(String::new, sample));
        }
        let ineffective = batch.raw.iter().flat_map(|frames| failures.iter().map(move |failure| (frames, failure)));
        let ineffective = ineffective.filter_map(|(frames, (index, reason))| {
            Some(letter(frames, *batch.numbers.get(*index)?, batch.records.get(*index), reason))
        });
        let ineffective = ineffective.collect::<Vec<_>>();
        let told = self.tell(&ineffective);
        if !matches!(told, Ok(true)) {
            // They are before the position that was committed, and come no more.
            let (ingest, count) = (&self.stream.name, ineffective.len());
            let records: Vec<u64> = ineffective.iter().map(|letter| letter.number).collect();
            tracing::warn!(ingest, ?records, "the stream ends before its dead letters were delivered: {count} may be lost");
        }
        told
    }

    /// False when the stream is stopped before all have heard.
    fn tell(&mut self, letters: &[Letter<'_>]) -> Result<bool, Failed> {
        let stream = self.stream;
        let Some(boxes) = &mut self.letters else { return Ok(true) };
        let late = |reason: String| stream.note_undelivered(Some(reason));
        let sent = boxes.send(&*stream.config, letters, || stream.is_stopping(), late).map_err(Failed::for_good);
        if !letters.is_empty() {
            stream.note_undelivered(None);
        }
        sent
    }

    /// None where the stream is to end without the batch. A pause breaks off what takes long; it is begun anew afterwards. After
    /// an error nothing has happened.
    fn take_effect(&mut self, batch: &Batch, span: &mut Option<Span>) -> Result<Option<Ingested>, EngineError> {
        let (stream, batch_size) = (self.stream, &self.shared.batch_size);
        while stream.wait_for_room() && stream.may_commit() {
            let progress = Some((stream.source.as_str(), batch.position.clone()));
            *span = begin_span(stream, batch);
            let begun = Instant::now();
            let ingested =
                self.ingester.received(batch.received).ingest_while(&batch.records, progress, &|| !stream.breaks_off());
            if let Ok(Some(ingested)) = &ingested {
                batch_size.learn(batch.record_count, ingested.took);
                stream.records.mark(batch.record_count as u64);
                stream.bytes.mark(batch.byte_count as u64);
            }
            stream.committed();
            match ingested {
                Ok(None) => batch_size.learn(1, begun.elapsed()),
                Ok(ingested) => return Ok(ingested),
                Err(error) => {
                    span.iter_mut().for_each(|span| span.fail(chain(&error)));
                    return Err(error);
                }
            }
        }
        Ok(None)
    }
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

fn letter<'a>(frames: &'a Frames, number: u64, decoded: Option<&'a Value>, reason: &'a str) -> Letter<'a> {
    let index = number.checked_sub(frames.first_number).and_then(|index| usize::try_from(index).ok());
    let (bytes, origin): (&[u8], &[u8]) = match index.filter(|index| *index < frames.len()) {
        Some(index) => (frames.get(index).bytes, frames.origin(index)),
        None => (&[], &[]),
    };
    Letter { number, bytes, origin, decoded, reason }
}
