//! Outputs of standing queries: from results to destinations, by way of Cypher queries where the definition says so.
//!
//!     results ─ encode ─> Delivery ─> destination                       an output that is a destination
//!     results ─ queue ─> query ─ rows ─> … ─ encode ─> Delivery         an output that begins with CypherQuery
//!
//! How far an output has got is reported by its last link, so that nothing counts as delivered before it is. Queries may
//! run again after a crash, destinations that know their place (files) get each result once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir_connectors::delivery::{Delivered, Stopper};
use weir_connectors::on_call::{OnCall, Refusal};
use weir_connectors::{
    DeadLetters, Delivery, DeliveryCounters, DestinationConfig, DestinationContext, Encoder, Envelope, Generation, HostPolicy,
    Meta, OnRefused, Outgoing, RecordSchema, destination, secret,
};
use weir_cypher_compiler::{Options, compile, unknown_parameter};
use weir_engine::{Cause, Graph, Prepared};
use weir_model::{IdScheme, Map, NodeId, Place, Plan, Position, QueryId, Text, Tick};

use crate::error::{ApiError, both, chain};
use crate::events::Live;
use crate::ingest::{check_no_command, refused};
use crate::procedures::Procedures;
use crate::wire::letters::Refusals;
use crate::wire::standing::{CypherOutput, DestinationOutput, Output, Workflow};

mod chain;
mod figures;
mod lane;
mod letters;
mod queries;
mod side_by_side;
mod spans;
mod taps;
use chain::Chain;
pub use figures::{Figures, State};
pub use lane::{Given, Lane};
use letters::Letters;
use queries::{Asker, Failed, Queries};
use spans::Spans;
pub use taps::{Hubs, Tap};
use taps::{Shown, Taps};

/// Batches of results waiting for the queries of one output.
const BATCHES_WAITING_MAX: usize = 16;

/// A result on its way.
#[derive(Clone)]
pub struct Sent {
    pub place: Place,
    pub positive: bool,
    /// The same for a match and its cancellation.
    pub id: NodeId,
    pub data: Arc<Map>,
    /// Of its tick, where an output has written that.
    pub cause: Option<Arc<Cause>>,
}

/// An output that has been checked and compiled, and not yet opened.
pub enum Link {
    Query(QueryLink),
    Destination(DestinationLink),
}

pub struct DestinationLink {
    config: Arc<dyn DestinationConfig>,
    refusals: Refusals,
    /// What letters to each of its dead letters' destinations are written by, where that is a schema.
    letter_schemas: Vec<Option<Arc<RecordSchema>>>,
    hosts: HostPolicy,
    form: Form,
    shown: Shown,
}

/// How results are written at the end.
#[derive(Clone)]
pub struct Form {
    envelope: Envelope,
    generation: Generation,
    positive_only: bool,
    /// With a newline behind each.
    lines: bool,
    /// What they are written by; text otherwise.
    schema: Option<Arc<RecordSchema>>,
}

impl Form {
    /// Fetches what the format needs.
    fn of(config: &dyn DestinationConfig, generation: Generation, procedures: &Procedures) -> Result<Form, ApiError> {
        let (mut envelope, mut positive_only) = (config.envelope(generation), config.positive_only());
        let schema = config.format().map(|format| format.schema(config.subject(), procedures.files(), procedures.hosts()));
        let schema = schema.transpose().map_err(refused)?.flatten();
        let lines = schema.is_none() && config.is_line(generation);
        if schema.is_some() && generation == Generation::V1 {
            // Records of v1 have no room for whether it is a match.
            (envelope, positive_only) = (Envelope::Bare, true);
        }
        Ok(Form { envelope, generation, positive_only, lines, schema })
    }
}

pub struct QueryLink {
    prepared: Arc<Prepared>,
    structure: Envelope,
    positive_only: bool,
    /// Whose queries are given ids as texts.
    generation: Generation,
    /// Who listens behind the queries hears its rows.
    enriches: bool,
    retries: bool,
    /// So many results at a time, where it only reads.
    parallelism: usize,
    next: Option<Box<Link>>,
}

impl Link {
    /// Finds everything that is wrong with an output before anything is kept of it.
    pub fn prepare(output: &Output, graph: &Graph, procedures: &Arc<Procedures>) -> Result<Link, ApiError> {
        match output {
            Output::Destination(DestinationOutput { config, refusals }) => {
                config.check().map_err(refused)?;
                let schemas = refusals.boxes().iter().map(|to| letters::schema(to, procedures.files(), procedures.hosts()));
                let letter_schemas = schemas.collect::<Result<_, _>>().map_err(refused)?;
                let form = Form::of(&**config, Generation::V1, procedures)?;
                let shown = Shown { envelope: form.envelope, positive_only: form.positive_only };
                let (config, refusals, hosts) = (config.clone(), refusals.clone(), procedures.hosts().clone());
                Ok(Link::Destination(DestinationLink { config, refusals, letter_schemas, hosts, form, shown }))
            }
            Output::CypherQuery(cypher) => Ok(Link::Query(QueryLink::prepare(cypher, Generation::V1, graph, procedures)?)),
            Output::Workflow(workflow) => Link::of_workflow(workflow, graph, procedures),
        }
    }

    /// One destination of a workflow, behind its query if there is one.
    fn of_workflow(workflow: &Workflow, graph: &Graph, procedures: &Arc<Procedures>) -> Result<Link, ApiError> {
        let first = workflow.enrichment.as_ref().map(|cypher| {
            let own = CypherOutput { structure: workflow.structure, and_then: None, ..cypher.clone() };
            QueryLink::prepare(&own, Generation::V2, graph, procedures)
        });
        let (first, mut end) = both(first.transpose(), Link::at_the_end(workflow, graph, procedures))?;
        let Some(mut first) = first else {
            if let Link::Query(query) = &mut end {
                (query.positive_only, query.enriches) = (workflow.only_positive, false);
            }
            return Ok(end);
        };
        (first.positive_only, first.enriches) = (workflow.only_positive, true);
        first.next = Some(Box::new(end));
        Ok(Link::Query(first))
    }

    /// The destination of a workflow.
    fn at_the_end(workflow: &Workflow, graph: &Graph, procedures: &Arc<Procedures>) -> Result<Link, ApiError> {
        let mut end = match &*workflow.destination {
            Output::CypherQuery(cypher) => {
                let cypher = CypherOutput { structure: workflow.envelope(), ..cypher.clone() };
                Link::Query(QueryLink::prepare(&cypher, Generation::V2, graph, procedures)?)
            }
            other => Link::prepare(other, graph, procedures)?,
        };
        if let Link::Destination(DestinationLink { config, form, shown, .. }) = &mut end {
            // All destinations of a workflow are listened to together, whatever form each of them has.
            *shown = Shown { envelope: workflow.structure, positive_only: workflow.only_positive };
            *form = Form::of(&**config, Generation::V2, procedures)?;
            // One in the notation of v1 may ask for nothing but the data.
            if form.envelope != Envelope::Bare && !config.takes_whole() {
                form.envelope = match (form.envelope, workflow.envelope()) {
                    (Envelope::WithTick, Envelope::WithMetadata) => Envelope::WithTick,
                    (_, of_workflow) => of_workflow,
                };
            }
            form.positive_only |= workflow.only_positive;
        }
        Ok(end)
    }

    /// Whether it begins with a query that changes the graph.
    pub fn writes(&self) -> bool {
        matches!(self, Link::Query(query) if query.prepared.writes())
    }

    fn destination(&self) -> Option<&DestinationLink> {
        match self {
            Link::Destination(link) => Some(link),
            Link::Query(query) => query.next.as_ref()?.destination(),
        }
    }
}

impl QueryLink {
    /// How many results may be asked about at a time. Where one of the queries writes it is one after another, so that their
    /// effects have the order of the results.
    fn threads(&self) -> usize {
        let behind = match self.next.as_deref() {
            Some(Link::Query(next)) => next.threads(),
            _ => usize::MAX,
        };
        if self.prepared.writes() { 1 } else { self.parallelism.min(behind) }
    }
}

/// Whether the values are there that an output refers to.
pub fn check_secrets(output: &Output) -> Result<(), ApiError> {
    match output {
        Output::Destination(DestinationOutput { config, refusals }) => {
            let all = std::iter::once(config).chain(refusals.boxes().iter().map(|letters| &letters.config));
            all.into_iter().try_for_each(|config| secret::check(|| config.stored()).map_err(refused))
        }
        Output::CypherQuery(cypher) => cypher.and_then.as_deref().map_or(Ok(()), check_secrets),
        Output::Workflow(workflow) => check_secrets(&workflow.destination),
    }
}

impl QueryLink {
    fn prepare(
        cypher: &CypherOutput,
        generation: Generation,
        graph: &Graph,
        procedures: &Arc<Procedures>,
    ) -> Result<QueryLink, ApiError> {
        let next = || {
            let next = cypher.and_then.as_deref().map(|next| match next {
                Output::CypherQuery(next) => QueryLink::prepare(next, generation, graph, procedures).map(Link::Query),
                other => Link::prepare(other, graph, procedures),
            });
            next.transpose()
        };
        let plan = QueryLink::plan(cypher, graph, procedures);
        let (plan, next) = match generation {
            // Clients of v1 are told the first that is wrong.
            Generation::V1 => (plan?, next()?),
            Generation::V2 => both(plan, next())?,
        };
        let prepared = graph.prepare(plan);
        Ok(QueryLink {
            prepared,
            structure: cypher.structure,
            positive_only: false,
            generation,
            enriches: next.is_some(),
            retries: cypher.should_retry,
            parallelism: usize::try_from(cypher.parallelism).unwrap_or(1),
            next: next.map(Box::new),
        })
    }

    /// Its own query alone.
    fn plan(cypher: &CypherOutput, graph: &Graph, procedures: &Arc<Procedures>) -> Result<Plan, ApiError> {
        let options = procedures.options(graph, vec![Text::new(&cypher.parameter)]);
        let plan = compile(&cypher.query, &Options { runs_as: Some("the query of an output"), ..options })?;
        if let Some(other) = plan.parameters.iter().find(|name| **name != cypher.parameter) {
            let hint = format!("a result is in `${}`", cypher.parameter);
            return Err(vec![unknown_parameter(&cypher.query, other).with_hint(Some(hint))].into());
        }
        check_no_command(&plan, "an output")?;
        if plan.facts.scans && !cypher.allow_all_node_scan {
            return Err(ApiError::bad(format!(
                "Cypher query may contain full node scan; re-write without possible full node scan, or pass allowAllNodeScan true. \
                 The provided query was: {}",
                cypher.query
            )));
        }
        Ok(plan)
    }
}

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
    chain: Arc<Chain>,
    /// Of its destination, or of its query where it has none.
    pub counters: Arc<DeliveryCounters>,
}

impl Sent {
    /// As those who listen get it.
    pub fn live(&self, encoder: &Encoder) -> Live {
        let mut body = Vec::with_capacity(128);
        encoder.row(&self.meta(), &self.data, &mut body);
        let name = if self.positive { "result" } else { "cancellation" };
        Live { name, id: Some(self.place.to_string()), data: String::from_utf8_lossy(&body).into_owned() }
    }

    fn meta(&self) -> Meta {
        Meta { positive: self.positive, id: Some(self.id), place: self.place }
    }
}

enum Way {
    Direct(End),
    Queries { worker: OnCall<Queries>, stop: Arc<AtomicBool>, end: Option<Stopper> },
}

/// Results, and the tick before which there are no more.
type Batch = (Vec<Sent>, Tick);

/// The last link.
struct End {
    delivery: Delivery,
    encoder: Encoder,
    positive_only: bool,
    lines: bool,
    schema: Option<Arc<RecordSchema>>,
}

/// An opened destination, or none for queries that run for their effect.
pub struct Opened {
    link: Link,
    destination: Option<(Box<dyn weir_connectors::Destination>, OnRefused)>,
    ids: IdScheme,
}

/// What an output is called where it is told of.
fn whose(query: &str, output: &str) -> String {
    format!("{output} of standing query {query}")
}

impl Opened {
    /// Opens the destination at the end of the output, behind a position it gave before.
    pub fn open(
        (id, query): (QueryId, &str),
        name: &str,
        link: Link,
        ids: IdScheme,
        from: Option<&Position>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Opened, ApiError> {
        let open = |DestinationLink { config, refusals, letter_schemas, hosts, form, .. }: &DestinationLink| {
            let (output, identity) = (name.to_owned(), format!("{}-{name}", id.0));
            let (generation, runtime, hosts) = (form.generation, runtime.clone(), hosts.clone());
            let context = DestinationContext { output, identity, generation, runtime, hosts };
            let whose = whose(query, name);
            let opened = destination::open(config, &whose, &context, from)?;
            let on_refused = match refusals {
                Refusals::GiveUp => OnRefused::GiveUp,
                Refusals::Fail => OnRefused::End,
                Refusals::Retry => OnRefused::Retry,
                Refusals::DeadLetter(boxes) => {
                    let mut open = DeadLetters::default();
                    let whose = format!("dead letters of {whose}");
                    for (index, (letters, schema)) in boxes.iter().zip(letter_schemas).enumerate() {
                        let identity = format!("{}-dead-{index}", context.identity);
                        let context = DestinationContext { identity, generation: Generation::V2, ..context.clone() };
                        let destination = destination::open(&letters.config, &whose, &context, None)?;
                        open.add(&whose, destination, (letters.form, schema.clone()));
                    }
                    OnRefused::Letters(Box::new(Letters::new(open, (query, name), ids)))
                }
            };
            Ok((opened, on_refused))
        };
        let destination = link.destination().map(open).transpose().map_err(refused)?;
        Ok(Opened { link, destination, ids })
    }

    /// Where the destination stands, to be stored before the first result.
    pub fn position(&self) -> Position {
        self.destination.as_ref().map_or_else(Position::default, |(destination, _)| destination.position())
    }

    /// Starts delivering results of the query, those of `from` and later.
    pub fn run(
        self,
        (query, name): (&str, &str),
        graph: &Graph,
        (chain_max, hubs): (u32, Arc<Hubs>),
        from: Tick,
        progress: Progress,
    ) -> Result<RunningOutput, ApiError> {
        let rows_upto = Arc::new(AtomicU64::new(0));
        let spans = Arc::new(Spans::new(query, name, graph.name()));
        let mut progress = noting_rows(rows_upto.clone(), spans.clone(), progress);
        let form = self.link.destination().map(|link| link.form.clone());
        let taps = Arc::new(Taps::of(&self.link, hubs, self.ids));
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
                let queries = Queries::new(asker, end, unfinished);
                Way::Queries { worker: OnCall::new(BATCHES_WAITING_MAX, queries), stop, end: stopper }
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
            Way::Queries { worker, .. } => {
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
            Way::Queries { worker, .. } => worker.is_free(),
        }
    }

    /// Whether what is sent next is taken without waiting for the other side.
    pub fn has_room(&self) -> bool {
        match &self.way {
            Way::Direct(end) => end.delivery.has_room(),
            Way::Queries { worker, .. } => worker.has_room(),
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
            Way::Queries { end, .. } => end.as_ref().and_then(Stopper::failure),
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
            Way::Queries { stop, end, .. } => {
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
            Way::Queries { mut worker, stop, end } => {
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
    fn send<'a>(&self, results: impl Iterator<Item = &'a Sent>, failed: &[Failed], upper: Tick) -> Result<(), String> {
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
