//! A running output: results in, encoded or by way of its queries, to the delivery at its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir_connectors::delivery::{Delivered, Stopper};
use weir_connectors::on_call::{OnCall, Refusal};
use weir_connectors::{Delivery, DeliveryCounters, Encoder, Envelope, Outgoing, RecordSchema};
use weir_engine::Graph;
use weir_model::{Position, Tick};

use super::chain::Chain;
use super::enrichment::{Asker, Enrichment, Failed};
use super::link::{Form, Link};
use super::spans::Spans;
use super::taps::{TapPoints, Taps};
use super::{Opened, Sent, whose};
use crate::error::{ApiError, chain};
use crate::wire::letters::Refusals;

/// Batches of results waiting for the queries of one output.
const BATCHES_WAITING_MAX: usize = 16;

/// Called when everything before the tick is out: with where the destination stands, and whether anything was sent for it.
pub type Progress = Box<dyn FnMut(Tick, Position, bool) + Send>;

/// A running output.
pub struct RunningOutput {
    pub name: String,
    query: String,
    /// Results of earlier ticks were delivered in an earlier life.
    from: Tick,
    rows_upto: Arc<AtomicU64>,
    way: Way,
    /// Why it has ended by itself, once that is known here.
    failed: OnceLock<String>,
    /// It is being ended: that it takes no more is no failure.
    ending: AtomicBool,
    taps: Arc<Taps>,
    spans: Arc<Spans>,
    pub(super) chain: Arc<Chain>,
    /// Of its destination, or of its query where it has none.
    pub counters: Arc<DeliveryCounters>,
}

enum Way {
    Direct(End),
    Enriched { worker: OnCall<Enrichment>, stop: Arc<AtomicBool>, end: Option<Stopper> },
}

/// Results, and the tick before which there are no more.
pub(super) type Batch = (Vec<Sent>, Tick);

/// The last link.
pub(super) struct End {
    pub(super) delivery: Delivery,
    encoder: Encoder,
    positive_only: bool,
    lines: bool,
    schema: Option<Arc<RecordSchema>>,
}

impl Opened {
    /// Starts delivering results of the query, those of `from` and later.
    pub fn run(
        self,
        (query, name): (&str, &str),
        graph: &Graph,
        (chain_max, tap_points): (u32, Arc<TapPoints>),
        from: Tick,
        progress: Progress,
    ) -> Result<RunningOutput, ApiError> {
        let rows_upto = Arc::new(AtomicU64::new(0));
        let spans = Arc::new(Spans::new(query, name, graph.name()));
        let mut progress = noting_rows(rows_upto.clone(), spans.clone(), progress);
        let form = self.link.destination().map(|link| link.form.clone());
        let taps = Arc::new(Taps::of(&self.link, tap_points, self.ids));
        let tries_failed = self.link.destination().is_some_and(|link| matches!(link.refusals, Refusals::Retry));
        let (end, unfinished) = match (self.destination, form) {
            (Some((destination, on_refused)), Some(Form { envelope, generation, positive_only, lines, schema })) => {
                let delivery = Delivery::start(&whose(query, name), destination, on_refused, progress);
                let encoder = Encoder { envelope, generation, ids: self.ids };
                (Some(End { delivery, encoder, positive_only, lines, schema }), None)
            }
            _ => {
                progress(0, Position::default());
                (None, Some(progress))
            }
        };
        let chain = Arc::new(Chain::new(query, chain_max));
        let counters = end.as_ref().map_or_else(Arc::default, |end: &End| end.delivery.counters().clone());
        let way = match (self.link, end) {
            (Link::Destination(..), Some(end)) => Way::Direct(end),
            (Link::Destination(..), None) => return Err(ApiError::Failed("the destination was not opened".to_owned())),
            (Link::Query(link), end) => {
                let stop = Arc::new(AtomicBool::new(false));
                let stopper = end.as_ref().map(|end| end.delivery.stopper());
                let asker = Asker {
                    name: name.to_owned(),
                    query: query.to_owned(),
                    graph: graph.clone(),
                    link,
                    has_end: end.is_some(),
                    tries_failed,
                    taps: taps.clone(),
                    stop: stop.clone(),
                    counters: counters.clone(),
                    told: AtomicBool::default(),
                    chain: chain.clone(),
                };
                let enrichment = Enrichment::new(asker, end, unfinished);
                Way::Enriched { worker: OnCall::new(BATCHES_WAITING_MAX, enrichment), stop, end: stopper }
            }
        };
        let (failed, ending) = (OnceLock::new(), AtomicBool::new(false));
        let (name, query) = (name.to_owned(), query.to_owned());
        Ok(RunningOutput { name, query, from, rows_upto, way, failed, ending, taps, spans, chain, counters })
    }
}

/// Turns marks into progress, and knows whether rows were among what a mark covers.
fn noting_rows(rows_upto: Arc<AtomicU64>, spans: Arc<Spans>, mut progress: Progress) -> Delivered {
    let mut noted = 0;
    Box::new(move |mark, position| {
        if mark == 0 {
            return;
        }
        let upto = rows_upto.load(Ordering::Acquire);
        let rows = upto > noted;
        if rows {
            noted = mark.min(upto);
            spans.end(Tick(mark));
        }
        progress(Tick(mark), position, rows);
    })
}

impl RunningOutput {
    /// Hands over the results of complete ticks; waits while the output is behind. `stop` ends the waiting.
    pub fn send(&self, results: &[Sent], upper: Tick, stop: &AtomicBool) {
        let new = results.iter().filter(|result| result.place.tick >= self.from);
        // What was held back and is asked for comes between ticks, and may come right where the output begins.
        if self.is_over() || (upper <= self.from && new.clone().next().is_none()) {
            return;
        }
        if !results.is_empty() {
            self.rows_upto.store(upper.0, Ordering::Release);
            self.taps.show(results);
            self.spans.begin(upper, results.len());
        }
        let sent = match &self.way {
            Way::Direct(end) => end.send(new, &[], upper),
            Way::Enriched { worker, .. } => {
                let posted = worker.post((new.cloned().collect(), upper), || stop.load(Ordering::Relaxed));
                posted.map_err(|refusal| match refusal {
                    Refusal::Stopped => "weir stops".to_owned(),
                    Refusal::Ended => "its thread has ended".to_owned(),
                    Refusal::NoThread(error) => format!("no thread could be started: {error}"),
                })
            }
        };
        if let Err(reason) = sent
            && !stop.load(Ordering::Relaxed)
            && !self.ending.load(Ordering::Relaxed)
            && self.failed.set(self.end_reason().unwrap_or_else(|| reason.clone())).is_ok()
        {
            tracing::error!(
                query = self.query,
                output = self.name,
                "the output has ended: {reason}. Results from here on are delivered when it is changed or weir starts again, or never if the output is removed"
            );
        }
    }

    /// Whether what is sent next is taken without waiting.
    pub fn is_free(&self) -> bool {
        match &self.way {
            Way::Direct(end) => end.delivery.is_free(),
            Way::Enriched { worker, .. } => worker.is_free(),
        }
    }

    /// Whether what is sent next is taken without waiting for the other side.
    pub fn has_room(&self) -> bool {
        match &self.way {
            Way::Direct(end) => end.delivery.has_room(),
            Way::Enriched { worker, .. } => worker.has_room(),
        }
    }

    /// It has ended by itself, and takes no more.
    pub fn is_over(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Why it has ended by itself.
    pub fn failure(&self) -> Option<String> {
        self.failed.get().cloned().or_else(|| self.end_reason())
    }

    /// Why its destination takes no more.
    fn end_reason(&self) -> Option<String> {
        match &self.way {
            Way::Direct(end) => end.delivery.failure(),
            Way::Enriched { end, .. } => end.as_ref().and_then(Stopper::failure),
        }
    }

    /// When it is to have ended, which is not wanted any more and given so long: what it has been waiting for by now has had
    /// some of that.
    pub fn end_by(&self, patience: Duration) -> Instant {
        let now = Instant::now();
        (self.counters.state().asked.unwrap_or(now) + patience).max(now)
    }

    /// Whoever waits to hand over something need not wait any more.
    pub fn give_up(&self) {
        self.ending.store(true, Ordering::Relaxed);
        match &self.way {
            Way::Direct(end) => end.delivery.stopper().stop(),
            Way::Enriched { stop, end, .. } => {
                stop.store(true, Ordering::Relaxed);
                end.iter().for_each(Stopper::stop);
            }
        }
    }

    /// Ends the output; what is waiting is delivered as far as the time allows.
    pub fn close(self, deadline: Instant) {
        match self.way {
            Way::Direct(end) => {
                end.delivery.close(deadline.saturating_duration_since(Instant::now()));
            }
            Way::Enriched { mut worker, stop, end } => {
                worker.hang_up();
                let ended = worker.has_ended_within(deadline.saturating_duration_since(Instant::now()));
                stop.store(true, Ordering::Relaxed);
                if !ended {
                    // It may be waiting for a destination that takes nothing.
                    end.iter().for_each(Stopper::stop);
                }
                if worker.join().is_err() {
                    tracing::error!(query = self.query, output = self.name, "the output ended through a bug in weir");
                }
            }
        }
        self.spans.give_up();
    }
}

impl End {
    /// `failed` do not come to the destination, which is asked what to do with them.
    pub(super) fn send<'a>(&self, results: impl Iterator<Item = &'a Sent>, failed: &[Failed], upper: Tick) -> Result<(), String> {
        let (mut outgoing, mut unfit) = (Vec::new(), Vec::new());
        let of = |result: &Sent, body| {
            let (positive, mark) = (result.positive, result.place.tick.0);
            Outgoing { body, positive, mark, id: Some(result.id) }
        };
        for result in results.filter(|result| self.is_wanted(result)) {
            match self.body(result) {
                Ok(body) => outgoing.push(of(result, body)),
                Err(problem) => unfit.push((of(result, self.text(result, self.encoder.envelope)), problem)),
            }
        }
        for Failed { result, structure, reason } in failed {
            match self.is_wanted(result) {
                true => unfit.push((of(result, self.text(result, *structure)), reason.clone())),
                // It would not have been sent.
                false => self.delivery.counters().given_up(1, reason),
            }
        }
        self.delivery.send_all(outgoing, unfit, upper.0).map_err(|error| chain(&error))
    }

    fn is_wanted(&self, result: &Sent) -> bool {
        result.positive || !self.positive_only
    }

    /// An error says why it does not fit the schema.
    fn body(&self, result: &Sent) -> Result<Vec<u8>, String> {
        let Some(schema) = &self.schema else { return Ok(self.text(result, self.encoder.envelope)) };
        let encoded = self.encoder.record(schema, &result.meta(), &result.data);
        encoded.map_err(|problem| format!("a result does not fit {}: {problem}", schema.name))
    }

    fn text(&self, result: &Sent, envelope: Envelope) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        Encoder { envelope, ..self.encoder }.row(&result.meta(), &result.data, &mut body);
        if self.lines {
            body.push(b'\n');
        }
        body
    }
}
