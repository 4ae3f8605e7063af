//! Link: an output that has been checked and compiled, with everything it needs, and not yet opened.

use std::sync::Arc;

use weir_connectors::{
    ConnectorError, DestinationConfig, Envelope, FilePolicy, Generation, HostPolicy, RecordSchema, Retries, secret,
};
use weir_cypher_compiler::unknown_parameter;
use weir_engine::Prepared;
use weir_model::Plan;

use super::letters;
use super::taps::Shown;
use crate::error::{ApiError, both};
use crate::ingest::{check_no_command, refused};
use crate::procedures::Preparing;
use crate::wire::letters::{LetterBox, ON_RESULT_ERROR, Refusals};
use crate::wire::standing::{CypherOutput, DestinationOutput, Output, Workflow};

/// An output that has been checked and compiled, and not yet opened.
pub enum Link {
    Query(QueryLink),
    Destination(Box<DestinationLink>),
}

pub struct DestinationLink {
    pub(super) config: Arc<dyn DestinationConfig>,
    pub(super) refusals: Refusals,
    pub(super) retries: Retries,
    /// What letters to each of its dead letters' destinations are written by, where that is a schema.
    pub(super) letter_schemas: Vec<Option<Arc<RecordSchema>>>,
    pub(super) hosts: HostPolicy,
    pub(super) files: FilePolicy,
    pub(super) form: Form,
    pub(super) shown: Shown,
}

/// How results are written at the end.
#[derive(Clone)]
pub struct Form {
    pub(super) envelope: Envelope,
    pub(super) generation: Generation,
    pub(super) positive_only: bool,
    /// With a newline behind each.
    pub(super) lines: bool,
    /// What they are written by; text otherwise.
    pub(super) schema: Option<Arc<RecordSchema>>,
}

impl Form {
    /// Fetches what the format needs.
    fn of(config: &dyn DestinationConfig, generation: Generation, preparing: Preparing<'_>) -> Result<Form, ApiError> {
        let Preparing { procedures, place, .. } = preparing;
        let (mut envelope, mut positive_only) = (config.envelope(generation), config.positive_only());
        let schema = config.format().map(|format| format.schema(config.subject(), procedures.files(), procedures.hosts()));
        let schema = schema.transpose().map_err(|error| refused_at(place, "", error))?.flatten();
        let lines = schema.is_none() && config.is_line(generation);
        if schema.is_some() && generation == Generation::V1 {
            // Records of v1 have no room for whether it is a match.
            (envelope, positive_only) = (Envelope::Bare, true);
        }
        Ok(Form { envelope, generation, positive_only, lines, schema })
    }
}

pub struct QueryLink {
    pub(super) prepared: Arc<Prepared>,
    pub(super) structure: Envelope,
    pub(super) positive_only: bool,
    /// Whose queries are given ids as texts.
    pub(super) generation: Generation,
    /// Who listens behind the queries hears its rows.
    pub(super) enriches: bool,
    pub(super) retries: bool,
    /// At most this many results at a time, where the query only reads.
    parallelism: usize,
    pub(super) next: Option<Box<Link>>,
}

impl Link {
    /// Finds everything that is wrong with an output before anything is kept of it. One that is not new is taken also where a new
    /// one is refused for what its queries call: an earlier version took it, and if it could not be opened, its results would
    /// wait for ever, and the log with them.
    pub fn prepare(output: &Output, preparing: Preparing<'_>) -> Result<Link, ApiError> {
        let Preparing { procedures, place, .. } = preparing;
        match output {
            Output::Destination(DestinationOutput { config, refusals, retries }) => {
                checked(&**config, preparing).map_err(|error| refused_at(place, "", error))?;
                let letter_schema = |(index, to): (usize, &LetterBox)| {
                    let checked = checked(&*to.config, preparing);
                    let schema = checked.and_then(|()| letters::schema(to, procedures.files(), procedures.hosts()));
                    schema.map_err(|error| refused_at(place, &format!(".{ON_RESULT_ERROR}.destinations[{index}]"), error))
                };
                let letter_schemas = refusals.boxes().iter().enumerate().map(letter_schema).collect::<Result<_, _>>()?;
                let form = Form::of(&**config, Generation::V1, preparing)?;
                let shown = Shown { envelope: form.envelope, positive_only: form.positive_only };
                let (config, refusals, retries) = (config.clone(), refusals.clone(), *retries);
                let (hosts, files) = (procedures.hosts().clone(), procedures.files().clone());
                let link = DestinationLink { config, refusals, retries, letter_schemas, hosts, files, form, shown };
                Ok(Link::Destination(Box::new(link)))
            }
            Output::CypherQuery(cypher) => Ok(Link::Query(QueryLink::prepare(cypher, Generation::V1, preparing)?)),
            Output::Workflow(workflow) => Link::of_workflow(workflow, preparing),
        }
    }

    /// One destination of a workflow, behind its query if there is one.
    fn of_workflow(workflow: &Workflow, preparing: Preparing<'_>) -> Result<Link, ApiError> {
        let first = workflow.enrichment.as_ref().map(|cypher| {
            let own = CypherOutput { structure: workflow.structure, and_then: None, ..cypher.clone() };
            QueryLink::prepare(&own, Generation::V2, preparing)
        });
        // Of one that was there before nobody has the body at hand.
        let place = if preparing.is_new { workflow.place.as_str() } else { "" };
        let (first, mut end) = both(first.transpose(), Link::at_the_end(workflow, Preparing { place, ..preparing }))?;
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
    fn at_the_end(workflow: &Workflow, preparing: Preparing<'_>) -> Result<Link, ApiError> {
        let mut end = match &*workflow.destination {
            Output::CypherQuery(cypher) => {
                let cypher = CypherOutput { structure: workflow.envelope(), ..cypher.clone() };
                Link::Query(QueryLink::prepare(&cypher, Generation::V2, preparing)?)
            }
            other => Link::prepare(other, preparing)?,
        };
        if let Link::Destination(link) = &mut end {
            let DestinationLink { config, form, shown, .. } = &mut **link;
            // All destinations of a workflow are listened to together, whatever form each of them has.
            *shown = Shown { envelope: workflow.structure, positive_only: workflow.only_positive };
            *form = Form::of(&**config, Generation::V2, preparing)?;
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

    pub(super) fn destination(&self) -> Option<&DestinationLink> {
        match self {
            Link::Destination(link) => Some(link),
            Link::Query(query) => query.next.as_ref()?.destination(),
        }
    }
}

impl QueryLink {
    /// How many results may be asked about at a time. Where one of the queries writes it is one after another, so that their
    /// effects have the order of the results.
    pub(super) fn threads(&self) -> usize {
        let behind = match self.next.as_deref() {
            Some(Link::Query(next)) => next.threads(),
            _ => usize::MAX,
        };
        if self.prepared.writes() { 1 } else { self.parallelism.min(behind) }
    }

    fn prepare(cypher: &CypherOutput, generation: Generation, preparing: Preparing<'_>) -> Result<QueryLink, ApiError> {
        let next = || {
            let next = cypher.and_then.as_deref().map(|next| match next {
                Output::CypherQuery(next) => QueryLink::prepare(next, generation, preparing).map(Link::Query),
                other => Link::prepare(other, preparing),
            });
            next.transpose()
        };
        let plan = QueryLink::plan(cypher, preparing);
        let (plan, next) = match generation {
            // Clients of v1 are told the first that is wrong.
            Generation::V1 => (plan?, next()?),
            Generation::V2 => both(plan, next())?,
        };
        let prepared = preparing.graph.prepare(plan);
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
    fn plan(cypher: &CypherOutput, preparing: Preparing<'_>) -> Result<Plan, ApiError> {
        let plan = preparing.compile(&cypher.query, &cypher.parameter, "the query of an output")?;
        if let Some(other) = plan.parameters.iter().find(|name| **name != cypher.parameter) {
            let hint = format!("a result is in `${}`", cypher.parameter);
            return Err(vec![unknown_parameter(&cypher.query, other).with_hint(Some(hint))].into());
        }
        if preparing.is_new {
            check_no_command(&plan, "an output")?;
        }
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

/// Whether a destination could work. One that was there before is not tried: a start would take longer, and what is wrong with it
/// is told when it is opened.
fn checked(config: &dyn DestinationConfig, preparing: Preparing<'_>) -> Result<(), ConnectorError> {
    config.check()?;
    if preparing.is_new { config.try_out(preparing.procedures.files()) } else { Ok(()) }
}

/// What is wrong with a destination, or a part of it, and where that is, for those who are told a place: clients of v1 know what
/// they have sent as one.
fn refused_at(place: &str, part: &str, error: ConnectorError) -> ApiError {
    if place.is_empty() { refused(error) } else { refused(error).within(&format!("{place}{part}")) }
}

/// Whether the values are there that an output refers to.
pub fn check_secrets(output: &Output) -> Result<(), ApiError> {
    match output {
        Output::Destination(DestinationOutput { config, refusals, .. }) => {
            let all = std::iter::once(config).chain(refusals.boxes().iter().map(|letters| &letters.config));
            all.into_iter().try_for_each(|config| secret::check(|| config.stored()).map_err(refused))
        }
        Output::CypherQuery(cypher) => cypher.and_then.as_deref().map_or(Ok(()), check_secrets),
        Output::Workflow(workflow) => check_secrets(&workflow.destination),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::{Value as Json, json};
    use weir_connectors::{Destination, DestinationContext};
    use weir_engine::store::InMemory;
    use weir_engine::{Engine, Options as EngineOptions};
    use weir_model::Position;

    use super::*;
    use crate::procedures::Procedures;
    use crate::wire::v2;

    /// Counts how often it was tried.
    #[derive(Default)]
    struct Tried(AtomicUsize);

    impl DestinationConfig for Tried {
        fn settings(&self) -> Json {
            json!({"type": "Tried"})
        }

        fn try_out(&self, _: &FilePolicy) -> Result<(), ConnectorError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn open(&self, _: &DestinationContext, _: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
            Err(ConnectorError::config("type", "is not opened"))
        }
    }

    /// A start of many outputs would take long.
    #[test]
    fn only_what_is_new_is_tried_before_it_is_opened() {
        let engine = Engine::open(Arc::new(InMemory::default()), EngineOptions { workers: 1, ..EngineOptions::default() });
        let graph = engine.expect("an engine in memory").default_graph();
        let procedures = Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX);
        let tried = Arc::new(Tried::default());
        let to = DestinationOutput { config: tried.clone(), refusals: Refusals::GiveUp, retries: Retries::default() };
        let output = Output::Destination(to);
        for (preparing, count) in [(Preparing::again(&graph, &procedures), 0), (Preparing::new(&graph, &procedures), 1)] {
            Link::prepare(&output, preparing).map(drop).expect("nothing is wrong with it");
            assert_eq!(tried.0.load(Ordering::Relaxed), count);
        }
    }

    /// An earlier version took it, and nobody would take the results that wait for it.
    #[test]
    fn an_output_that_is_there_is_taken_whatever_its_query_calls() {
        let engine = Engine::open(Arc::new(InMemory::default()), EngineOptions { workers: 1, ..EngineOptions::default() });
        let engine = engine.expect("an engine in memory");
        let (graph, hosts) = (engine.default_graph(), HostPolicy::default());
        let procedures = Procedures::new(FilePolicy::default(), hosts, usize::MAX);
        let of_v1 = |body: Json| Output::decode(&body).expect("an output");
        let of_v2 = |mut body: Json| {
            body["name"] = "o".into();
            let (_, mut parts) = v2::standing::decode_workflow(&body).expect("a workflow");
            parts.remove(0).1
        };
        for text in ["CALL standing.wiretap({name: 'x'}) YIELD data RETURN data", "CREATE INDEX FOR (n:A) ON (n.x)"] {
            let query = json!({"type": "CypherQuery", "query": text});
            for output in [
                of_v1(query.clone()),
                of_v1(json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": query})),
                of_v2(json!({"resultEnrichment": {"query": text}, "destinations": [{"type": "Drop"}]})),
                of_v2(json!({"destinations": [query]})),
            ] {
                let preparing = Preparing::new(&graph, &procedures);
                let is_taken = |is_new| Link::prepare(&output, Preparing { is_new, ..preparing }).is_ok();
                assert!(is_taken(false) && !is_taken(true), "{text}");
            }
        }
    }
}
