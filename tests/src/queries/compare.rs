//! Each query answered four ways over the same graph: by the engine with the plan of the compiler, by the evaluator with the
//! plan as written, by the reference, and, where it can be maintained, by what a standing query has reported up to each tick.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Options as CompileOptions, StandingMode, StandingPlan, compile, compile_plainly, compile_standing};
use weir_engine::evaluate::{Environment, Limits, Prepared, evaluate};
use weir_engine::reference::{Question, ReferenceGraph};
use weir_engine::store::InMemory;
use weir_engine::{Engine, EngineError, Graph, GraphOptions, Options, QueryOptions, Standing, StandingQuery, Start};
use weir_model::expression::FailureKind;
use weir_model::{Failure, Mutations, NodeId, Plan, QueryId, Tick, Value};

use super::graph::{History, node};
use super::text::{Query, random_query};
use crate::random::Random;

/// Queries that share a graph: a graph costs more than a query.
const QUERIES_PER_WORLD: usize = 40;
const RECORDS: usize = 60;
/// Every so many records the engine gets them, and what is maintained is looked at; the other answers are compared less often.
const RECORDS_PER_BATCH: usize = 6;
const BATCHES_PER_LOOK: usize = 4;
/// What the reference may try for one answer before its answer is done without.
const CHOICES_MAX: u64 = 2_000_000;
/// The same for what is maintained, which is asked for after every record.
const CHOICES_A_RECORD_MAX: u64 = 4_000;
const PATIENCE: Duration = Duration::from_secs(20);
/// Nobody waits for a product of patterns that nobody would write.
const QUERY_PATIENCE: Duration = Duration::from_millis(500);

const MODES: &[StandingMode] = &[StandingMode::DistinctId, StandingMode::MultipleValues];

type Rows = Vec<Vec<Value>>;
type Answer = Result<Rows, Failure>;
/// Rows with how often they occur.
type Counted = BTreeMap<Vec<Value>, i64>;

/// What a run has seen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub queries: usize,
    /// Refused by the compiler, by both roads alike.
    pub refused: usize,
    /// Failed in every way of answering.
    pub failed: usize,
    /// Without the answer of the reference, which had too much to try.
    pub without_reference: usize,
    /// Also maintained.
    pub maintained: usize,
    pub comparisons: usize,
    /// Answers that were not empty.
    pub filled: usize,
}

/// Two answers that are not alike.
#[derive(Clone, Debug)]
pub struct Difference {
    pub query: Query,
    pub what: String,
    pub history: History,
    /// Only what is maintained differs.
    pub maintained: bool,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.queries += other.queries;
        self.refused += other.refused;
        self.failed += other.failed;
        self.without_reference += other.without_reference;
        self.maintained += other.maintained;
        self.comparisons += other.comparisons;
        self.filled += other.filled;
    }
}

/// One world of a seed: a graph, and queries over it at several moments of its life.
pub fn run(seed: u64) -> Result<Tally, Box<Difference>> {
    let mut random = Random::new(seed);
    let open_cypher = random.once_in(2);
    let history = History::random(&mut random, open_cypher, RECORDS);
    let queries: Vec<Query> = (0..QUERIES_PER_WORLD).map(|_| random_query(&mut random)).collect();
    World::new(history).live(&queries)
}

/// A graph, kept by an engine and by the reference.
pub struct World {
    graph: Graph,
    _engine: Engine,
    reference: ReferenceGraph,
    history: History,
}

/// A query as far as it compiles.
struct Asked<'q> {
    query: &'q Query,
    chosen: Prepared,
    plain: Prepared,
}

/// A query that is maintained.
struct Watched<'q> {
    query: &'q Query,
    mode: StandingMode,
    standing: StandingQuery,
    prepared: Prepared,
    /// The reference has too much to try after every record.
    given_up: bool,
    /// What it has reported.
    reported: Counted,
    /// What the reference says after each record of the batch.
    wanted: Vec<Counted>,
}

impl World {
    pub fn new(history: History) -> World {
        let graph = Some(GraphOptions { open_cypher: history.open_cypher });
        let options = Options { workers: 2, graph, ..Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options).expect("an empty store opens");
        // Not started: there is nothing to replay, and housekeeping sleeps when it is to end.
        World { graph: engine.default_graph(), _engine: engine, reference: ReferenceGraph::new(), history }
    }

    /// Goes through the history, and compares what the queries answer on the way.
    pub fn live(mut self, queries: &[Query]) -> Result<Tally, Box<Difference>> {
        let mut tally = Tally { queries: queries.len(), ..Tally::default() };
        let mut asked = Vec::new();
        let mut watched = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            match caught(|| self.compiled(query)) {
                Ok(Some(found)) => asked.push(found),
                Ok(None) => tally.refused += 1,
                Err(what) => return Err(self.difference(query, what, false)),
            }
            match caught(|| self.watch(query, number as u64)) {
                Ok(found) => watched.extend(found),
                Err(what) => return Err(self.difference(query, what, true)),
            }
        }
        let records = self.history.records.clone();
        let batches = records.chunks(RECORDS_PER_BATCH);
        let last = batches.len() - 1;
        for (at, batch) in batches.enumerate() {
            self.advance(batch, &mut watched)?;
            if at % BATCHES_PER_LOOK == BATCHES_PER_LOOK - 1 || at == last {
                for query in &asked {
                    self.look(query, &mut tally)?;
                }
            }
        }
        tally.maintained = watched.iter().filter(|one| !one.given_up).count();
        Ok(tally)
    }

    fn difference(&self, query: &Query, what: String, maintained: bool) -> Box<Difference> {
        Box::new(Difference { query: query.clone(), what, history: self.history.clone(), maintained })
    }

    fn prepare(&self, plan: Plan) -> Prepared {
        Prepared::new(plan, self.graph.symbols())
    }

    /// None where both roads refuse the text.
    fn compiled<'q>(&self, query: &'q Query) -> Result<Option<Asked<'q>>, String> {
        let options = CompileOptions { ids: self.graph.ids(), ..CompileOptions::default() };
        match (compile(&query.text, &options), compile_plainly(&query.text, &options)) {
            (Ok(chosen), Ok(plain)) => Ok(Some(Asked { query, chosen: self.prepare(chosen), plain: self.prepare(plain) })),
            (Err(_), Err(_)) => Ok(None),
            (Err(problems), _) => Err(format!("the rules end in an error: {}", problems[0])),
            (_, Err(problems)) => Err(format!("only the plain plan is refused: {}", problems[0])),
        }
    }

    /// The query installed in every mode that takes it.
    fn watch<'q>(&self, query: &'q Query, number: u64) -> Result<Vec<Watched<'q>>, String> {
        let options = CompileOptions { ids: self.graph.ids(), ..CompileOptions::default() };
        let mut watched = Vec::new();
        for (place, mode) in MODES.iter().enumerate() {
            let Ok(StandingPlan { plan, .. }) = compile_standing(&query.text, *mode, &options) else { continue };
            let id = QueryId(NodeId::new(number, place as u64));
            let standing =
                Standing { id, plan: plan.clone(), cancellations: true, start: Start::WholeGraph, outputs: Vec::new() };
            let standing = self.graph.install(standing).map_err(|error| format!("not installed in mode {mode:?}: {error}"))?;
            let prepared = self.prepare(plan);
            watched.push(Watched {
                query,
                mode: *mode,
                standing,
                prepared,
                given_up: false,
                reported: Counted::new(),
                wanted: Vec::new(),
            });
        }
        Ok(watched)
    }

    /// Some records more, as one batch; what is maintained is compared at the tick of each.
    fn advance(&mut self, batch: &[super::graph::Record], watched: &mut [Watched]) -> Result<(), Box<Difference>> {
        let mut all = Mutations::default();
        watched.iter_mut().for_each(|watched| watched.wanted.clear());
        for (index, record) in batch.iter().enumerate() {
            let mutations = self.history.mutations(record, self.graph.symbols());
            all.start_record(index as u32);
            all.append(&mutations);
            self.reference.apply_all(&mutations);
            for one in watched.iter_mut().filter(|one| !one.given_up) {
                let question = Question { choices_max: CHOICES_A_RECORD_MAX, ..self.question(&one.prepared, &[]) };
                match question.matches() {
                    Ok(wanted) => one.wanted.push(wanted),
                    Err(Failure { kind: FailureKind::Interrupted, .. }) => {
                        one.given_up = true;
                        self.graph.drop_standing(one.standing.id());
                    }
                    Err(failure) => return Err(self.difference(one.query, failure.message, true)),
                }
            }
        }
        let upper = self.graph.apply(all, batch.len()).expect("the store takes it");
        self.graph.wait_visible().expect("the workers are there");
        for one in watched.iter_mut().filter(|one| !one.given_up) {
            self.compare_reported(one, upper, batch.len()).map_err(|what| self.difference(one.query, what, true))?;
        }
        Ok(())
    }

    fn compare_reported(&self, one: &mut Watched, upper: Tick, records: usize) -> Result<(), String> {
        let mut changes: BTreeMap<Tick, Counted> = BTreeMap::new();
        loop {
            let batch = match one.standing.next(PATIENCE) {
                Ok(Some(batch)) => batch,
                Ok(None) => return Err("the standing query reports nothing any more".to_owned()),
                Err(error) => return Err(format!("the standing query failed: {error}")),
            };
            for result in batch.rows {
                let count = changes.entry(result.tick).or_default().entry(result.row.0.to_vec()).or_default();
                *count += if result.positive { 1 } else { -1 };
            }
            if batch.upper >= upper {
                break;
            }
        }
        for (index, wanted) in one.wanted.iter().enumerate() {
            let tick = Tick(upper.0 - records as u64 + index as u64);
            let due = changes.range(..=tick).map(|(tick, _)| *tick).collect::<Vec<_>>();
            for rows in due.into_iter().filter_map(|tick| changes.remove(&tick)) {
                for (row, count) in rows {
                    *one.reported.entry(row).or_default() += count;
                }
            }
            one.reported.retain(|_, count| *count != 0);
            if one.reported != *wanted {
                return Err(format!(
                    "in mode {:?}, after record {index} of the batch, the standing query has reported\n{}but the reference has\n{}",
                    one.mode,
                    shown(&one.reported),
                    shown(wanted)
                ));
            }
        }
        Ok(())
    }

    fn question<'a>(&'a self, prepared: &'a Prepared, parameters: &'a [Value]) -> Question<'a> {
        Question {
            prepared,
            graph: &self.reference,
            symbols: self.graph.symbols(),
            ids: self.graph.ids(),
            parameters,
            choices_max: CHOICES_MAX,
        }
    }

    /// Asks one query in the three ways that do not wait for changes.
    fn look(&self, asked: &Asked, tally: &mut Tally) -> Result<(), Box<Difference>> {
        let parameters = parameters(&asked.chosen.plan);
        let answers = caught(|| {
            let chosen = self.by_engine(&asked.chosen, &parameters);
            let plain = self.by_evaluator(&asked.plain, &parameters);
            Ok([chosen, plain, self.question(&asked.plain, &parameters).answer()])
        });
        let answers = answers.map_err(|what| self.difference(asked.query, what, false))?;
        tally.comparisons += 1;
        tally.without_reference += usize::from(is_interrupted(&answers[2]));
        tally.failed += usize::from(answers[0].is_err());
        tally.filled += usize::from(answers[0].as_ref().is_ok_and(|rows| !rows.is_empty()));
        // Who ran out of time has not answered.
        let ways: Vec<(&str, Answer)> = ["the engine", "the plain plan", "the reference"]
            .into_iter()
            .zip(answers)
            .filter(|(_, answer)| !is_interrupted(answer))
            .collect();
        let alike: Vec<Result<Rows, ()>> = ways.iter().map(|(_, answer)| canonical(answer, asked.query)).collect();
        if alike.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(());
        }
        let mut what = String::new();
        for (way, answer) in &ways {
            what += &format!("{way}:\n{}", shown_answer(answer));
        }
        Err(self.difference(asked.query, what, false))
    }

    fn by_engine(&self, prepared: &Prepared, parameters: &[Value]) -> Answer {
        let mut rows = Rows::new();
        let options = QueryOptions { deadline: Some(Instant::now() + QUERY_PATIENCE), ..QueryOptions::default() };
        let answered = self.graph.query(prepared, parameters, options, &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        });
        match answered {
            Ok(_) => Ok(rows),
            Err(EngineError::Query(failure)) => Err(failure),
            Err(other) => panic!("the engine is no longer there: {other}"),
        }
    }

    fn by_evaluator(&self, prepared: &Prepared, parameters: &[Value]) -> Answer {
        let mut rows = Rows::new();
        let fresh_id = || NodeId::default();
        let environment = Environment {
            view: &self.reference,
            parameters,
            ids: self.graph.ids(),
            now_millis: 0,
            fresh_id: &fresh_id,
            limits: Limits { deadline: Some(Instant::now() + QUERY_PATIENCE), ..Limits::default() },
            open_cypher: self.history.open_cypher,
        };
        let answered = evaluate(prepared, self.graph.symbols(), &environment, &mut Mutations::default(), &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        });
        answered.map(|()| rows)
    }
}

fn is_interrupted(answer: &Answer) -> bool {
    matches!(answer, Err(failure) if failure.kind == FailureKind::Interrupted)
}

/// A panic is a difference too: it is made small and shown like the others.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("panics\n".to_owned()))
}

/// What the queries' parameters are.
fn parameters(plan: &Plan) -> Vec<Value> {
    let value = |name: &str| match name {
        "a" => Value::Id(node(0)),
        "b" => Value::Id(node(1)),
        "p" => Value::Integer(1),
        "q" => Value::list(vec![Value::Integer(0), Value::Null, Value::Integer(2)]),
        _ => Value::text("ab"),
    };
    plan.parameters.iter().map(|name| value(name)).collect()
}

/// The answer with everything in one order that nobody gave one: the rows, unless they are sorted, and what was collected.
fn canonical(answer: &Answer, query: &Query) -> Result<Rows, ()> {
    let Ok(rows) = answer else { return Err(()) };
    let mut rows = rows.clone();
    if query.text.contains("collect(") {
        rows.iter_mut().flatten().for_each(|value| *value = sorted_list(value));
    }
    if !query.ordered {
        rows.sort();
    }
    Ok(rows)
}

/// A list of numbers may have been collected; its order is then nobody's. The order of others is compared.
fn sorted_list(value: &Value) -> Value {
    match value {
        Value::List(items) if items.iter().all(|item| matches!(item, Value::Integer(_))) => {
            let mut items = items.to_vec();
            items.sort();
            Value::list(items)
        }
        other => other.clone(),
    }
}

fn shown(rows: &Counted) -> String {
    rows.iter().map(|(row, count)| format!("    {count} x {}\n", shown_row(row))).collect()
}

fn shown_row(row: &[Value]) -> String {
    row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" | ")
}

fn shown_answer(answer: &Answer) -> String {
    match answer {
        Ok(rows) => rows.iter().map(|row| format!("    {}\n", shown_row(row))).collect(),
        Err(failure) => format!("    fails: {failure}\n"),
    }
}
