//! A running output: results in, encoded or by way of its queries, to the delivery at its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
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
use super::{Named, Opened, Sent};
use crate::error::{ApiError, chain};
use crate::wire::letters::Refusals;

/// Batches of results waiting for the queries of one output.
const BATCHES_WAITING_MAX: usize = 16;

/// For the end of a query in front of a destination, after it was asked for; longer than any but one that hangs needs.
const END_GRACE: Duration = Duration::from_secs(2);

/// Why nothing is taken any more from an output that shall end.
const ENDS: &str = "the output ends";

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
    failed: Arc<OnceLock<String>>,
    /// Since when it is being ended: that it takes no more is no failure.
    ending: OnceLock<Instant>,
    taps: Arc<Taps>,
    spans: Arc<Spans>,
    pub(super) chain: Arc<Chain>,
    /// The counters of its destination, or of its query where it has none.
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
        named: Named<'_>,
        graph: &Graph,
        chain_max: u32,
        tap_points: Arc<TapPoints>,
        from: Tick,
        progress: Progress,
    ) -> Result<RunningOutput, ApiError> {
        let rows_upto = Arc::new(AtomicU64::new(0));
        let spans = Arc::new(Spans::new(named, graph.name()));
        let mut progress = noting_rows(rows_upto.clone(), spans.clone(), progress);
        let form = self.link.destination().map(|link| (link.form.clone(), link.retries));
        let taps = Arc::new(Taps::of(&self.link, tap_points, self.ids));
        let tries_failed = self.link.destination().is_some_and(|link| matches!(link.refusals, Refusals::Retry));
        let (end, unfinished) = match (self.destination, form) {
            (Some((destination, on_refused)), Some((form, retries))) => {
                let Form { envelope, generation, positive_only, lines, schema } = form;
                let delivery = Delivery::start(&named.to_string(), destination, on_refused, retries, progress);
                let encoder = Encoder { envelope, generation, ids: self.ids };
                (Some(End { delivery, encoder, positive_only, lines, schema }), None)
            }
            _ => {
                progress(0, Position::default());
                (None, Some(progress))
            }
        };
        let chain = Arc::new(Chain::new(named.query, chain_max));
        let counters = end.as_ref().map_or_else(Arc::default, |end: &End| end.delivery.counters().clone());
        let failed = Arc::new(OnceLock::new());
        let way = match (self.link, end) {
            (Link::Destination(..), Some(end)) => Way::Direct(end),
            (Link::Destination(..), None) => return Err(ApiError::Failed("the destination was not opened".to_owned())),
            (Link::Query(link), end) => {
                let stop = Arc::new(AtomicBool::new(false));
                let stopper = end.as_ref().map(|end| end.delivery.stopper());
                let asker = Asker {
                    name: named.output.to_owned(),
                    query: named.query.to_owned(),
                    graph: graph.clone(),
                    link,
                    has_end: end.is_some(),
                    tries_failed,
                    taps: taps.clone(),
                    stop: stop.clone(),
                    counters: counters.clone(),
                    failed: failed.clone(),
                    told: AtomicBool::default(),
                    chain: chain.clone(),
                };
                let enrichment = Enrichment::new(asker, end, unfinished);
                Way::Enriched { worker: OnCall::new(BATCHES_WAITING_MAX, enrichment), stop, end: stopper }
            }
        };
        let (name, query, ending) = (named.output.to_owned(), named.query.to_owned(), OnceLock::new());
        Ok(RunningOutput { name, query, from, rows_upto, way, failed, ending, taps, spans, chain, counters })
    }
}

/// The output has ended by itself: for the first reason that is given.
pub(super) fn note_end(failed: &OnceLock<String>, Named { query, output }: Named<'_>, reason: String) {
    if failed.set(reason.clone()).is_ok() {
        tracing::error!(
            query,
            output,
            "the output has ended: {reason}. Results from here on are delivered when it is changed or weir starts again, or never if the output is removed"
        );
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
        // A bug in one output ends that one: whoever hands over results does so for others, too.
        let reason = match catch_unwind(AssertUnwindSafe(|| self.hand_over(results, upper, stop))) {
            Ok(Ok(())) => return,
            Ok(Err(_)) if self.is_ending(stop) => return,
            Ok(Err(reason)) => reason,
            // Also at the end: what comes behind must not be taken to say that this was delivered.
            Err(_) => "what takes its results has panicked; this is a bug".to_owned(),
        };
        let named = Named { query: &self.query, output: &self.name };
        note_end(&self.failed, named, self.end_reason().unwrap_or(reason));
    }

    fn is_ending(&self, stop: &AtomicBool) -> bool {
        stop.load(Ordering::Relaxed) || self.ending.get().is_some()
    }

    fn hand_over(&self, results: &[Sent], upper: Tick, stop: &AtomicBool) -> Result<(), String> {
        // What comes behind results that were not taken any more would be taken to say that these were delivered.
        if self.is_ending(stop) {
            return Err(ENDS.to_owned());
        }
        // They come in the order of their ticks. Those before were heard, too, in that life.
        let new = &results[results.partition_point(|result| result.place.tick < self.from)..];
        // What was held back and is asked for comes between ticks, and may come right where the output begins.
        if self.is_over() || (upper <= self.from && new.is_empty()) {
            return Ok(());
        }
        if !new.is_empty() {
            self.rows_upto.store(upper.0, Ordering::Release);
            self.taps.show(new);
            self.spans.begin(upper, new.len());
        }
        match &self.way {
            Way::Direct(end) => end.send(new.iter(), &[], upper, || self.is_ending(stop)),
            Way::Enriched { worker, .. } => {
                let posted = worker.post((new.to_vec(), upper), || self.is_ending(stop));
                posted.map_err(|refusal| match refusal {
                    Refusal::Stopped => ENDS.to_owned(),
                    Refusal::Ended => "its thread has ended".to_owned(),
                    Refusal::NoThread(error) => format!("no thread could be started: {error}"),
                })
            }
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

    /// Its destination has the results of all earlier ticks, or may lose what it has not, though they may not count as delivered
    /// yet. Where there is no destination, all that is told is what is delivered.
    pub fn taken(&self) -> Tick {
        Tick(match &self.way {
            Way::Direct(end) => end.delivery.taken(),
            Way::Enriched { end, .. } => end.as_ref().map_or(0, Stopper::taken),
        })
    }

    /// Somebody waits until all results before a tick are delivered: what its destination would hold for longer is stored once
    /// all of them are there.
    pub fn store_up_to(&self, upper: Tick) {
        match &self.way {
            Way::Direct(end) => end.delivery.store_up_to(upper.0),
            Way::Enriched { end, .. } => end.iter().for_each(|end| end.store_up_to(upper.0)),
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

    /// When it is to have ended: it is not wanted any more, and is given `patience`. What it is waiting for by now has had some
    /// of that.
    pub fn end_by(&self, patience: Duration) -> Instant {
        let now = Instant::now();
        (self.counters.state().asked.unwrap_or(now) + patience).max(now)
    }

    /// Whoever waits to hand over something need not wait any more.
    pub fn give_up(&self) {
        self.ending.get_or_init(Instant::now);
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
                if !worker.has_ended_within(deadline.saturating_duration_since(Instant::now())) {
                    stop.store(true, Ordering::Relaxed);
                    // It may be waiting for a destination that takes nothing.
                    end.iter().for_each(Stopper::stop);
                    // Like a request, a query that hangs is not waited for; and those that are late are so together.
                    let since = self.ending.get_or_init(Instant::now).elapsed();
                    worker.has_ended_within(END_GRACE.saturating_sub(since));
                }
            }
        }
        self.spans.give_up();
    }
}

impl End {
    /// `failed` do not come to the destination, which is asked what to do with them. None of all this comes where it `ends`
    /// before the last of many results, or a large one, is encoded.
    pub(super) fn send<'a>(
        &self,
        results: impl Iterator<Item = &'a Sent>,
        failed: &[Failed],
        upper: Tick,
        ends: impl Fn() -> bool,
    ) -> Result<(), String> {
        let (mut outgoing, mut unfit) = (Vec::new(), Vec::new());
        let of = |result: &Sent, body| {
            let (positive, mark) = (result.positive, result.place.tick.0);
            Outgoing { body, positive, mark, id: Some(result.id) }
        };
        for result in results.filter(|result| self.is_wanted(result)) {
            if ends() {
                return Err(ENDS.to_owned());
            }
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::{Value as Json, json};
    use weir_connectors::destination::Written;
    use weir_connectors::{ConnectorError, Destination, FilePolicy, HostPolicy, OnRefused};
    use weir_engine::store::InMemory;
    use weir_engine::{Engine, Options};
    use weir_model::{NodeId, Place};

    use super::*;
    use crate::procedures::{Preparing, Procedures};
    use crate::wire::standing::Output;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Takes everything.
    #[derive(Default)]
    struct Takes {
        lossy: bool,
        /// Goes with it.
        _there: Arc<()>,
    }

    impl Destination for Takes {
        fn write(&mut self, _results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
            Ok(Written::default())
        }

        fn lossy(&self) -> bool {
            self.lossy
        }
    }

    fn engine() -> Engine {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() });
        engine.expect("an engine in memory")
    }

    /// Waits in each write for as long as there is the other end.
    struct Hangs(crossbeam_channel::Receiver<()>);

    impl Destination for Hangs {
        fn write(&mut self, _results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
            let _ = self.0.recv();
            Ok(Written::default())
        }
    }

    fn run(engine: &Engine, output: &Json, destination: Option<Takes>, progress: Progress) -> RunningOutput {
        run_to(engine, output, destination.map(|takes| Box::new(takes) as Box<dyn Destination>), progress)
    }

    const NAMED: Named<'static> = Named { query: "adults", output: "hook" };

    fn run_to(engine: &Engine, output: &Json, destination: Option<Box<dyn Destination>>, progress: Progress) -> RunningOutput {
        let opened = opened(engine, output, destination);
        opened.run(NAMED, &engine.default_graph(), 10, Arc::default(), Tick(0), progress).expect("it runs")
    }

    fn opened(engine: &Engine, output: &Json, destination: Option<Box<dyn Destination>>) -> Opened {
        let graph = engine.default_graph();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let output = Output::decode(output).expect("an output");
        let link = Link::prepare(&output, Preparing::new(&graph, &procedures)).expect("nothing is wrong with it");
        let destination = destination.map(|destination| (destination, OnRefused::GiveUp));
        Opened { link, destination, ids: graph.ids() }
    }

    /// Before a tick.
    fn sent(upper: u64) -> Sent {
        let place = Place::before(Tick(upper - 1));
        Sent { place, positive: true, id: NodeId::default(), data: Arc::default(), cause: None }
    }

    fn send(running: &RunningOutput, upper: u64) {
        running.send(&[sent(upper)], Tick(upper), &AtomicBool::new(false));
    }

    fn wait_until(what: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !what() {
            assert!(Instant::now() < deadline, "it did not happen within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn bug(_: Tick, _: Position, _: bool) {
        panic!("on purpose");
    }

    /// Outputs with a destination, with a query before it, and with a query alone; and whether each has a destination.
    fn ways() -> [(Json, bool); 3] {
        let query = json!({"type": "CypherQuery", "query": "RETURN 1 AS x"});
        let both = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": {"type": "Drop"}});
        [(json!({"type": "Drop"}), true), (both, true), (query, false)]
    }

    fn fails(running: &RunningOutput, why: &str) {
        wait_until(|| running.failure().is_some_and(|reason| reason.contains(why)));
    }

    /// Ingest may be waiting for it, and then nothing more is sent that would find it gone.
    #[test]
    fn an_output_that_panics_has_ended_before_anything_more_is_sent() {
        let engine = engine();
        for (output, has_end) in ways() {
            let running = run(&engine, &output, has_end.then(Takes::default), Box::new(bug));
            send(&running, 2);
            fails(&running, "has panicked; this is a bug");
            running.close(Instant::now() + PATIENCE);
        }
    }

    /// Where nothing is to be written, whoever hands over does it, for all outputs of a query.
    #[test]
    fn an_output_that_panics_where_it_is_handed_something_has_ended_and_whoever_hands_over_goes_on() {
        let engine = engine();
        for (output, has_end) in ways() {
            let running = run(&engine, &output, has_end.then(Takes::default), Box::new(bug));
            running.send(&[], Tick(2), &AtomicBool::new(false));
            assert!(running.failure().is_some_and(|reason| reason.contains("has panicked; this is a bug")), "{output}");
            running.close(Instant::now() + PATIENCE);
        }
    }

    #[test]
    fn a_query_whose_destination_is_gone_has_ended_before_anything_more_is_sent() {
        let engine = engine();
        let output = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": {"type": "Drop"}});
        let there = Arc::new(());
        let takes = Takes { lossy: false, _there: there.clone() };
        let running = run(&engine, &output, Some(takes), Box::new(|_, _, _| ()));
        let Way::Enriched { end: Some(end), .. } = &running.way else { panic!("a query before a destination") };
        end.stop();
        send(&running, 2);
        wait_until(|| Arc::strong_count(&there) == 1);
        assert_eq!(running.failure(), None, "nobody has noticed");
        send(&running, 3);
        fails(&running, "the output was closed");
        running.close(Instant::now() + PATIENCE);
    }

    /// What is told of a later tick would say that earlier results were delivered.
    #[test]
    fn an_output_that_ends_takes_nothing_behind_what_it_did_not_take() {
        let engine = engine();
        for (output, has_end) in ways() {
            let told = Arc::new(AtomicU64::new(0));
            let noted = told.clone();
            let progress = Box::new(move |upper: Tick, _: Position, _: bool| _ = noted.fetch_max(upper.0, Ordering::SeqCst));
            let running = run(&engine, &output, has_end.then(Takes::default), progress);
            let stop = AtomicBool::new(true);
            running.send(&[sent(2)], Tick(2), &stop);
            running.send(&[], Tick(3), &stop);
            running.give_up();
            send(&running, 4);
            assert_eq!(running.failure(), None, "{output}");
            running.close(Instant::now() + PATIENCE);
            assert_eq!(told.load(Ordering::SeqCst), 0, "{output}");
        }
    }

    #[test]
    fn many_results_are_not_encoded_to_the_last_where_the_output_ends() {
        let engine = engine();
        let running = run(&engine, &json!({"type": "Drop"}), Some(Takes::default()), Box::new(|_, _, _| ()));
        let Way::Direct(end) = &running.way else { panic!("a destination alone") };
        let (results, looked) = (vec![sent(2); 1_000], AtomicU64::new(0));
        assert!(end.send(results.iter(), &[], Tick(2), || looked.fetch_add(1, Ordering::SeqCst) == 10).is_err());
        assert_eq!(looked.load(Ordering::SeqCst), 11);
        assert_eq!(running.counters.waiting.load(Ordering::SeqCst), 0, "none of them was sent");
        running.close(Instant::now() + PATIENCE);
    }

    /// Whoever removes an output or changes it waits for whoever hands over.
    #[test]
    fn who_waits_for_room_before_a_query_that_hangs_goes_when_the_output_is_given_up() {
        let engine = engine();
        let (go, hangs) = crossbeam_channel::bounded::<()>(0);
        let progress = Box::new(move |_: Tick, _: Position, _: bool| _ = hangs.recv());
        let running = run(&engine, &json!({"type": "CypherQuery", "query": "RETURN 1 AS x"}), None, progress);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| (2..100).for_each(|upper| send(&running, upper)));
            wait_until(|| !running.has_room());
            running.give_up();
            let begun = Instant::now();
            while !sending.is_finished() && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(1));
            }
            let is_gone = sending.is_finished();
            // The scope would wait for one that is still there.
            drop(go);
            assert!(is_gone);
        });
        assert_eq!(running.failure(), None);
        running.close(Instant::now() + PATIENCE);
    }

    /// Its query is through, and waits for the destination when the time is over.
    #[test]
    fn a_query_before_a_destination_that_hangs_is_not_waited_for_longer_than_the_destination() {
        let engine = engine();
        let output = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": {"type": "Drop"}});
        let (go, hangs) = crossbeam_channel::bounded(0);
        let running = run_to(&engine, &output, Some(Box::new(Hangs(hangs))), Box::new(|_, _, _| ()));
        send(&running, 2);
        let begun = Instant::now();
        running.close(begun + Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        drop(go);
    }

    /// Holds what it takes until somebody waits for it.
    #[derive(Default)]
    struct Keeps {
        first: Option<u64>,
    }

    impl Destination for Keeps {
        fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
            self.first = self.first.or(results.first().map(|result| result.mark));
            Ok(Written::default())
        }

        fn store_now(&mut self) {
            self.first = None;
        }

        fn settled(&self, upper: u64) -> u64 {
            self.first.unwrap_or(upper)
        }
    }

    #[test]
    fn what_a_destination_holds_is_delivered_when_somebody_waits_for_it() {
        let engine = engine();
        for (output, _) in ways().into_iter().filter(|(_, has_end)| *has_end) {
            let told = Arc::new(AtomicU64::new(0));
            let noted = told.clone();
            let progress = Box::new(move |upper: Tick, _: Position, _: bool| _ = noted.fetch_max(upper.0, Ordering::SeqCst));
            let running = run_to(&engine, &output, Some(Box::new(Keeps::default())), progress);
            send(&running, 3);
            wait_until(|| running.taken() == Tick(3));
            std::thread::sleep(Duration::from_millis(100));
            assert!(told.load(Ordering::SeqCst) < 3, "{output}");
            running.store_up_to(Tick(3));
            wait_until(|| told.load(Ordering::SeqCst) == 3);
            running.close(Instant::now() + PATIENCE);
        }
    }

    /// They come again for the sake of a slower output.
    #[test]
    fn results_of_an_earlier_life_are_not_heard_again() {
        let (engine, stop) = (engine(), AtomicBool::new(false));
        for (output, has_end) in ways() {
            let tap_points = Arc::<TapPoints>::default();
            let mut heard = tap_points.before.listen();
            let destination = has_end.then(|| Box::<Takes>::default() as Box<dyn Destination>);
            let opened = opened(&engine, &output, destination);
            let running = opened.run(NAMED, &engine.default_graph(), 10, tap_points, Tick(5), Box::new(|_, _, _| ()));
            let running = running.expect("it runs");
            running.send(&[sent(4), sent(5)], Tick(5), &stop);
            // It is told how far they go.
            running.send(&[sent(4)], Tick(6), &stop);
            running.send(&[sent(5), sent(6), sent(7)], Tick(7), &stop);
            let ids: Vec<_> = std::iter::from_fn(|| heard.recv().now_or_never().flatten()).filter_map(|event| event.id).collect();
            assert_eq!(ids, [sent(6), sent(7)].map(|result| result.place.to_string()), "{output}");
            running.close(Instant::now() + PATIENCE);
        }
    }

    #[test]
    fn what_waits_for_a_query_is_not_taken_though_the_destination_may_lose() {
        let engine = engine();
        let output = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": {"type": "Drop"}});
        let takes = Takes { lossy: true, ..Takes::default() };
        let running = run(&engine, &output, Some(takes), Box::new(|_, _, _| ()));
        assert_eq!(running.taken(), Tick(0));
        send(&running, 2);
        wait_until(|| running.taken() == Tick(2));
        running.close(Instant::now() + PATIENCE);
    }
}
