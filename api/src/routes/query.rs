//! Cypher over HTTP: tables, and the nodes and edges of the graph view.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::oneshot;
use tokio::task::block_in_place;
use warp::http::StatusCode;
use weir_cypher_compiler::{
    Needs, Options, Wanted, begins_with_call, compile, draw_standing, explain, explain_noted, explain_operator, needs,
    unknown_parameters, wanted,
};
use weir_engine::evaluate::{Counts, Profile};
use weir_engine::{Answered, EngineError, Graph, QueryOptions, Ways, Write, Written};
use weir_model::expression::FailureKind;
use weir_model::plan::Operator;
use weir_model::{Failure, Plan, Text, Tick, Value};

use super::reply::{Reply, json_bytes, json_parts, json_text};
use super::request::{Common, Request};
use super::standing::plan_json;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::queries::{Answer, Client, Compiled, Pipe, Queries, Running, plans};
use crate::standing;
use crate::wire::family::Family;
use crate::wire::query::{Drawn, QueryBody, Shape, Writer};

pub async fn table(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut asked = Asked::read(&app, &request)?;
    let (wanted, query) = wanted(&asked.body.text);
    asked.body.text = query.into_owned();
    let (text, graph) = (&asked.body.text, &asked.common.graph);
    match wanted {
        Wanted::Plan => Ok(Reply::Value(aside(text, || explanation(&app, graph, &asked.body))?)),
        Wanted::Dataflow => Ok(Reply::Value(aside(text, || dataflow(graph, &asked.body))?)),
        Wanted::Profile => run(app, asked, Shape::Table, true).await,
        Wanted::Answer => run(app, asked, Shape::Table, false).await,
    }
}

pub async fn nodes(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let asked = Asked::read(&app, &request)?;
    run(app, asked, Shape::Drawing(Drawn::Nodes), false).await
}

pub async fn edges(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let asked = Asked::read(&app, &request)?;
    run(app, asked, Shape::Drawing(Drawn::Edges), false).await
}

/// Functions and procedures come with weir; there is nothing to be loaded.
pub async fn user_defined(_: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let body = request.data()?;
    let names = body.as_array().and_then(|items| items.iter().map(|item| item.as_str()).collect::<Option<Vec<_>>>());
    match names.as_deref() {
        None => Err(ApiError::Decode(vec![format!(
            "DecodingFailure at : Got value '{body}' with wrong type, expecting array of strings"
        )])),
        Some([]) if request.family == Family::V1 => Ok(Reply::Empty(StatusCode::OK)),
        Some([]) => Ok(Reply::Value(json!([]))),
        Some(names) => Err(ApiError::bad(format!(
            "{} cannot be loaded: user-defined functions are Java archives, and weir runs no Java",
            names.join(", ")
        ))),
    }
}

/// A query, and who wants what of it.
pub struct Asked {
    pub body: QueryBody,
    pub common: Common,
    client: Client,
    caller: Caller,
    family: Family,
}

impl Asked {
    pub fn read(app: &App, request: &Request) -> Result<Asked, ApiError> {
        let common = request.common(app)?;
        let body = if request.is_text() {
            QueryBody { text: request.text()?.to_owned(), parameters: Vec::new() }
        } else {
            let (body, parameters) = request.data_with("parameters")?;
            QueryBody::decode(&body, parameters).map_err(ApiError::Decode)?
        };
        app.queries.check_text(&body.text)?;
        let (client, caller) = (request.client(), request.caller.clone());
        Ok(Asked { body, common, client, caller, family: request.family })
    }
}

/// Compiles a query, runs it and writes its answer; with `profiled`, how it ran instead.
pub async fn run(app: Arc<App>, asked: Asked, shape: Shape, profiled: bool) -> Result<Reply, ApiError> {
    let began = Instant::now();
    let (compiled, parameters) = compiled(&app, &asked.common.graph, &asked.body)?;
    asked.caller.check_query(&compiled.prepared.plan)?;
    let facts = compiled.prepared.plan.facts;
    asked.client.audit(&asked.body.text, facts);
    // The past may have to be read from the disk, and what ends queries does so once.
    if compiled.quick
        && !facts.at_once
        && !profiled
        && asked.common.at.is_none()
        && let Some(answer) = quickly(&app, &asked, &compiled, &parameters, shape, began).await
    {
        return answer;
    }
    // What writes is never cut short by its client.
    let deadline = asked.common.timeout.filter(|_| !facts.writes).and_then(|timeout| began.checked_add(timeout));
    let Asked { body, common: Common { graph, at, timeout, .. }, client, family, .. } = asked;
    let register = &app.queries.register;
    let listed = if facts.at_once {
        register.begin_unlisted(&body.text, graph.name(), client)
    } else {
        register.begin(&body.text, graph.name(), client)
    };
    let place = app.queries.place(facts, &listed.running);
    let place = match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), place).await.unwrap_or_else(|_| Err(out_of_time(timeout))),
        None => place.await,
    };
    let place = place.inspect_err(|error| listed.running.fail(error))?;
    // Counted from here, as the engine does: what it has waited for a place is not the fault of its client.
    let latest = deadline.or_else(|| Instant::now().checked_add(app.queries.settings.time_max));
    let (pipe, reader) = Pipe::new(listed.running.clone(), app.queries.settings.client_patience, latest);
    tokio::task::spawn_blocking(move || {
        let plan = &compiled.prepared.plan;
        let mut run = Run {
            queries: &app.queries,
            graph: &graph,
            compiled: &compiled,
            parameters: &parameters,
            running: &listed.running,
            at,
            deadline,
            timeout,
            family,
            writer: Writer::new(shape, plan, graph.ids(), family),
            profile: profiled.then(|| Profile::new(plan)),
        };
        let ended = run.rows(&pipe);
        let answer = run.judged(ended);
        answer.as_ref().err().into_iter().for_each(|error| listed.running.fail(error));
        // Whoever reads the answer may ask what runs: not this any more.
        drop((listed, place));
        pipe.end(answer);
    });
    Ok(Reply::Whole(match reader.answer().await? {
        Answer::Whole(body) => json_bytes(body),
        Answer::Parts(parts, cut) => json_parts(parts, cut),
    }))
}

/// A query on a thread of its own.
struct Run<'a> {
    queries: &'a Queries,
    graph: &'a Graph,
    compiled: &'a Compiled,
    parameters: &'a [Value],
    running: &'a Running,
    at: Option<Tick>,
    deadline: Option<Instant>,
    /// What its client gave it, which `deadline` is made of.
    timeout: Option<Duration>,
    family: Family,
    writer: Writer,
    /// Where how it runs is asked for, and not what it answers.
    profile: Option<Profile>,
}

/// How the rows of a query have come to an end.
struct Ended {
    answered: Result<Answered, EngineError>,
    /// Why a row has no place in the answer.
    refused: Option<String>,
    /// No more of them were taken.
    cut: bool,
}

impl Run<'_> {
    /// Runs it; its rows go into the pipe as they come.
    fn rows(&mut self, pipe: &Pipe) -> Ended {
        let (mut refused, mut cut) = (None, false);
        let profiled = self.profile.is_some();
        let options = QueryOptions {
            at: self.at,
            deadline: self.deadline,
            cancelled: Some(&self.running.cancelled),
            profile: self.profile.as_ref(),
            may_listen: true,
            ..QueryOptions::default()
        };
        let answered = self.graph.query(&self.compiled.prepared, self.parameters, options, &mut |row| {
            self.running.rows.fetch_add(1, Ordering::Relaxed);
            if profiled {
                return ControlFlow::Continue(());
            }
            match self.writer.row(row) {
                Ok(()) => {
                    let pushed = pipe.push(self.writer.written());
                    cut |= pushed.is_break();
                    pushed
                }
                Err(reason) => {
                    refused = Some(reason);
                    ControlFlow::Break(())
                }
            }
        });
        Ended { answered, refused, cut }
    }

    /// The rest of its answer, or why it has none.
    fn judged(self, Ended { answered, refused, cut }: Ended) -> Result<Vec<u8>, ApiError> {
        if let Some(reason) = refused {
            return Err(ApiError::Cypher(reason));
        }
        match answered {
            // One that got to its end all the same has its answer.
            Ok(answered) if cut && self.running.is_cancelled() => Err(self.running.ending(answered.committed.is_some())),
            Ok(_) => Ok(match self.profile {
                Some(profile) => {
                    let ways = self.graph.ways(&self.compiled.prepared, self.parameters);
                    let shown = profile_of(&self.compiled.prepared.plan, &ways, &profile);
                    self.family.body(shown).to_string().into_bytes()
                }
                None => self.writer.finish().into_bytes(),
            }),
            Err(EngineError::Query(failure)) if self.running.is_stopped() && failure.kind == FailureKind::Interrupted => {
                Err(self.running.ending(false))
            }
            Err(_) if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) => Err(out_of_time(self.timeout)),
            Err(error) => Err(self.queries.explained(error)),
        }
    }
}

/// What is told where the time that a client gave its query is over.
fn out_of_time(timeout: Option<Duration>) -> ApiError {
    ApiError::TimeLimit(timeout.unwrap_or_default().as_millis())
}

/// Runs here and now what is over in no time. None where it is not that quick after all: then nothing has happened yet.
async fn quickly(
    app: &App,
    asked: &Asked,
    compiled: &Compiled,
    parameters: &[Value],
    shape: Shape,
    began: Instant,
) -> Option<Result<Reply, ApiError>> {
    let answer = if compiled.prepared.writes() {
        together(asked, compiled, parameters, shape).await
    } else {
        at_once(asked, compiled, parameters, shape)
    };
    let answer = answer?.map_err(|error| app.queries.explained(error));
    if let Some(mut span) = asked.client.span(&asked.body.text, asked.common.graph.name()) {
        span.since(began);
        answer.as_ref().err().into_iter().for_each(|error| span.fail(error.to_string()));
    }
    Some(answer.map(|body| Reply::Whole(json_text(body))))
}

/// Steps that a read may take on a thread that serves connections: a fraction of a millisecond.
const STEPS_AT_ONCE_MAX: u32 = 4096;

/// Bytes that a read may give on a thread that serves connections.
const BYTES_AT_ONCE_MAX: usize = 256 << 10;

/// None when it takes too long.
fn at_once(asked: &Asked, compiled: &Compiled, parameters: &[Value], shape: Shape) -> Option<Result<String, EngineError>> {
    let graph = &asked.common.graph;
    let mut writer = Writer::new(shape, &compiled.prepared.plan, graph.ids(), asked.family);
    let mut whole = true;
    let options = QueryOptions { steps_max: Some(STEPS_AT_ONCE_MAX), ..QueryOptions::default() };
    let ended = graph.query(&compiled.prepared, parameters, options, &mut |row| {
        whole = writer.row(row).is_ok() && writer.written().len() <= BYTES_AT_ONCE_MAX;
        if whole { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match ended {
        Err(EngineError::Query(failure)) if failure.kind == FailureKind::TimeLimit => None,
        Err(error) => Some(Err(error)),
        Ok(_) => whole.then(|| Ok(writer.finish())),
    }
}

/// None when it takes too long, too many others wait, or there is no thread for it.
async fn together(asked: &Asked, compiled: &Compiled, parameters: &[Value], shape: Shape) -> Option<Result<String, EngineError>> {
    let graph = &asked.common.graph;
    let (sender, receiver) = oneshot::channel();
    graph.write_together(Write {
        query: compiled.prepared.clone(),
        parameters: parameters.to_vec(),
        done: Box::new(move |written| {
            // A client that went away does not want to know.
            let _ = sender.send(written);
        }),
    });
    match outcome(receiver).await {
        Written::Done(rows) => {
            let mut writer = Writer::new(shape, &compiled.prepared.plan, graph.ids(), asked.family);
            match rows.iter().try_for_each(|row| writer.row(row)) {
                Ok(()) => Some(Ok(writer.finish())),
                Err(reason) => Some(Err(Failure::new(FailureKind::TypeMismatch, reason).into())),
            }
        }
        Written::Failed(error) => Some(Err(EngineError::Shared(error))),
        Written::RunAlone => None,
    }
}

/// How a write went. Where it met a bug nobody says so, and the thread goes on with those behind it: it may have been committed
/// by then, so it does not run again.
async fn outcome(told: oneshot::Receiver<Written>) -> Written {
    let unknown = || "it is not known whether the changes of the query are made; look for them before it is run again".to_owned();
    told.await.unwrap_or_else(|_| Written::Failed(Arc::new(EngineError::Panicked(unknown()))))
}

/// The plan, with the values of its parameters in its order.
pub fn compiled(app: &App, graph: &Graph, body: &QueryBody) -> Result<(Arc<Compiled>, Vec<Value>), ApiError> {
    let given = if begins_with_call(&body.text) { names(body) } else { Vec::new() };
    let compile = || compile(&body.text, &app.procedures.options(graph, given.clone()));
    let get = || app.queries.plans.get(graph, &body.text, &given, compile);
    let compiled = aside(&body.text, get)?;
    let (names, given) = (&compiled.prepared.plan.parameters, by_name(body));
    let values: Option<Vec<Value>> = names.iter().map(|name| given.get(name.as_str()).copied().cloned()).collect();
    match values {
        Some(values) => Ok((compiled, values)),
        None => Err(unknown_parameters(&body.text, names.iter().filter(|name| !given.contains_key(name.as_str()))).into()),
    }
}

/// Compiling a text that is long is kept from the threads that serve connections.
fn aside<T>(text: &str, compile: impl FnOnce() -> T) -> T {
    if text.len() > plans::TEXT_BYTES_MAX { block_in_place(compile) } else { compile() }
}

/// The values of the parameters in the order of the plan; null for those that are not given.
fn values(plan: &Plan, body: &QueryBody) -> Vec<Value> {
    let given = by_name(body);
    plan.parameters.iter().map(|name| given.get(name.as_str()).copied().cloned().unwrap_or_default()).collect()
}

/// The parameters by name: tens of thousands may be given, and as many be asked for.
fn by_name(body: &QueryBody) -> HashMap<&str, &Value> {
    body.parameters.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

fn options(app: &App, graph: &Graph, body: &QueryBody) -> Options {
    app.procedures.options(graph, names(body))
}

/// The names of the parameters, by the alphabet.
fn names(body: &QueryBody) -> Vec<Text> {
    let mut names: Vec<Text> = body.parameters.iter().map(|(name, _)| name.clone()).collect();
    names.sort_unstable();
    names
}

/// One column `plan`, one row: the operators, nested, with the stages of the compiler as text beside the root.
pub fn explanation(app: &App, graph: &Graph, body: &QueryBody) -> Result<Json, ApiError> {
    let options = options(app, graph, body);
    let prepared = graph.prepare(compile(&body.text, &options)?);
    let (plan, parameters) = (&*prepared.plan, values(&prepared.plan, body));
    let ways = graph.ways(&prepared, &parameters);
    let note = |operator: &Operator| ways.get(&std::ptr::from_ref(operator)).cloned().unwrap_or_default();
    let mut shown = shown(plan, &ways, None);
    let needs = needs(plan);
    shown["args"]["plan"] = (needs_text(&needs) + &explain_noted(plan, &note)).into();
    shown["args"]["stages"] = explain(&body.text, &options)?.into();
    let fields = |fields: &Option<BTreeSet<String>>| fields.as_ref().map_or(json!(["*"]), |fields| json!(fields));
    shown["parameterFields"] =
        needs.parameters.iter().map(|(name, of)| (name.to_string(), fields(of))).collect::<serde_json::Map<_, _>>().into();
    shown["nodesById"] = json!(needs.ids);
    Ok(answer(shown))
}

/// What it would be maintained by as a standing query whose body names no mode.
pub fn dataflow(graph: &Graph, body: &QueryBody) -> Result<Json, ApiError> {
    let drawn = draw_standing(&standing::compiled_text(graph, &body.text)?);
    let mut shown = plan_json(&drawn);
    shown["args"] = json!({"plan": drawn.text(), "mermaid": drawn.mermaid()});
    Ok(answer(shown))
}

/// What the query needs of its parameters and which nodes it enters by id, a line each.
fn needs_text(needs: &Needs) -> String {
    let mut text = String::new();
    for (name, fields) in &needs.parameters {
        let fields = fields.as_ref().map(|fields| fields.iter().cloned().collect::<Vec<_>>().join(", "));
        text.push_str(&format!("Parameter ${name}: {}\n", fields.as_deref().unwrap_or("all of it")));
    }
    if !needs.ids.is_empty() {
        text.push_str(&format!("Nodes by id: {}\n", needs.ids.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    text
}

/// As `explanation`, with what each operator did.
pub fn profile_of(plan: &Plan, ways: &Ways, profile: &Profile) -> Json {
    let note = |operator: &Operator| {
        let Counts { rows, facts, time } = profile.of(operator);
        let way = ways.get(&std::ptr::from_ref(operator)).filter(|way| !way.is_empty());
        let way = way.map_or(String::new(), |way| format!(", {way}"));
        format!("{rows} rows, {facts} facts, {:.3} ms{way}", time.as_secs_f64() * 1e3)
    };
    let mut shown = shown(plan, ways, Some(profile));
    shown["args"]["plan"] = explain_noted(plan, &note).into();
    answer(shown)
}

fn answer(plan: Json) -> Json {
    json!({"columns": ["plan"], "results": [[plan]]})
}

fn shown(plan: &Plan, ways: &Ways, profile: Option<&Profile>) -> Json {
    let mut shown = operator(plan, &plan.root, ways, profile);
    shown["canContainAllNodeScan"] = plan.facts.scans.into();
    shown["isReadOnly"] = (!plan.facts.writes).into();
    shown["isIdempotent"] = (!plan.facts.impure).into();
    shown["cannotFail"] = (!plan.facts.fallible).into();
    shown["identifiers"] = plan.columns.iter().map(|(name, _)| Json::String(name.to_string())).collect();
    shown
}

fn operator(plan: &Plan, of: &Operator, ways: &Ways, profile: Option<&Profile>) -> Json {
    let details = explain_operator(plan, of);
    let name: String = details.chars().take_while(|c| c.is_alphanumeric()).collect();
    let children: Vec<Json> = of.children().into_iter().map(|child| operator(plan, child, ways, profile)).collect();
    let mut shown = json!({"operatorType": name, "args": {"details": details}, "identifiers": [], "children": children});
    if let Some(way) = ways.get(&std::ptr::from_ref(of)).filter(|way| !way.is_empty()) {
        shown["args"]["way"] = way.as_str().into();
    }
    if let Some(Counts { rows, facts, time }) = profile.map(|profile| profile.of(of)) {
        shown["rows"] = rows.into();
        shown["factsRead"] = facts.into();
        shown["timeMicros"] = (time.as_micros() as u64).into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was told that weir ends, which is not so.
    #[tokio::test]
    async fn of_a_write_that_met_a_bug_nobody_claims_to_know_how_it_went() {
        let (sender, told) = oneshot::channel();
        drop::<oneshot::Sender<Written>>(sender);
        let Written::Failed(error) = outcome(told).await else { panic!("it would run again") };
        let ApiError::Failed(reason) = ApiError::from(EngineError::Shared(error)) else { panic!("nobody's mistake but weir's") };
        assert!(reason.contains("an error in weir itself") && reason.contains("it is not known whether"), "{reason}");
    }
}
