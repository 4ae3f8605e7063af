//! Cypher over HTTP: tables, and the nodes and edges of the graph view.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value as Json, json};
use warp::reply::Response;
use weir_cypher_compiler::{Options, Wanted, compile, explain, explain_noted, explain_operator, wanted};
use weir_engine::evaluate::{Counts, Profile};
use weir_engine::{Graph, QueryOptions};
use weir_model::plan::Operator;
use weir_model::{Plan, Text, Value};

use super::{Common, Request, blocking, json_text};
use crate::app::App;
use crate::error::ApiError;
use crate::wire::query::{Drawn, QueryBody, Shape, Writer};

pub async fn table(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let (mut body, common) = read(&app, &request)?;
    let (asked, query) = wanted(&body.text);
    body.text = query.into_owned();
    if asked == Wanted::Plan {
        return explanation(&app, &common.graph, &body);
    }
    Ok(json_text(run(app, body, common, Shape::Table, asked == Wanted::Profile).await?))
}

pub async fn nodes(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    draw(app, request, Shape::Drawing(Drawn::Nodes)).await
}

pub async fn edges(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    draw(app, request, Shape::Drawing(Drawn::Edges)).await
}

async fn draw(app: Arc<App>, request: Request, shape: Shape) -> Result<Response, ApiError> {
    let (body, common) = read(&app, &request)?;
    Ok(json_text(run(app, body, common, shape, false).await?))
}

fn read(app: &App, request: &Request) -> Result<(QueryBody, Common), ApiError> {
    let common = request.common(app)?;
    let body = if request.is_text() {
        QueryBody { text: request.text()?.to_owned(), parameters: Vec::new() }
    } else {
        QueryBody::decode(&request.data()?).map_err(ApiError::Bad)?
    };
    Ok((body, common))
}

/// Compiles a query, runs it and writes its answer; with `profiled`, how it ran instead.
async fn run(app: Arc<App>, body: QueryBody, common: Common, shape: Shape, profiled: bool) -> Result<String, ApiError> {
    // Whoever awaits this may go away; then the query is told.
    let given_up = GivenUp(Arc::new(AtomicBool::new(false)));
    let cancelled = given_up.0.clone();
    let Common { graph, at, timeout } = common;
    let answer = blocking(move || {
        let began = Instant::now();
        let (plan, parameters) = compiled(&app, &graph, &body)?;
        if plan.facts.writes && at.is_some() {
            return Err(ApiError::bad("a query that writes cannot run at a past time; leave 'at-time' out"));
        }
        // What writes is never cut short.
        let deadline = timeout.filter(|_| !plan.facts.writes).and_then(|timeout| began.checked_add(timeout));
        let mut writer = Writer::new(shape, &plan, graph.ids());
        let prepared = graph.prepare(plan);
        let mut refused = None;
        let profile = profiled.then(|| Profile::new(&prepared.plan));
        let options = QueryOptions { at, deadline, cancelled: Some(&cancelled), profile: profile.as_ref() };
        let ended =
            graph.query(&prepared, &parameters, options, &mut |row| match if profiled { Ok(()) } else { writer.row(row) } {
                Ok(()) => ControlFlow::Continue(()),
                Err(reason) => {
                    refused = Some(reason);
                    ControlFlow::Break(())
                }
            });
        if let Some(reason) = refused {
            return Err(ApiError::bad(reason));
        }
        match ended {
            Ok(_) => Ok(profile.map_or_else(|| writer.finish(), |profile| profile_of(&prepared.plan, &profile))),
            Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                Err(ApiError::TimeLimit(timeout.unwrap_or_default().as_millis()))
            }
            Err(error) => Err(error.into()),
        }
    })
    .await;
    drop(given_up);
    answer
}

/// Sets its flag when it goes, which includes the case that the client did.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The plan, with the values of its parameters in its order.
fn compiled(app: &App, graph: &Graph, body: &QueryBody) -> Result<(Plan, Vec<Value>), ApiError> {
    let plan = compile(&body.text, &options(app, graph, body))?;
    if let Some(unknown) = plan.parameters.iter().find(|name| body.parameters.iter().all(|(given, _)| given != *name)) {
        return Err(ApiError::bad(unknown_parameter(&body.text, unknown)));
    }
    let parameters = values(&plan, body);
    Ok((plan, parameters))
}

/// Of the parameters in the order of the plan; null for those that are not given.
fn values(plan: &Plan, body: &QueryBody) -> Vec<Value> {
    let value =
        |name: &Text| body.parameters.iter().find(|(given, _)| given == name).map_or(Value::Null, |(_, value)| value.clone());
    plan.parameters.iter().map(value).collect()
}

/// In the words and at the place clients know.
fn unknown_parameter(query: &str, name: &str) -> String {
    let at = query.find(&format!("${name}")).or_else(|| query.find(&format!("$`{name}`"))).unwrap_or(0);
    let line_start = query[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = query[line_start..].lines().next().unwrap_or_default();
    let column = query[line_start..at].chars().count();
    let number = query[..at].matches('\n').count() + 1;
    format!("CompileError at {number}.{} Unknown parameter `{name}`\n\n{line}\n{}^", column + 1, " ".repeat(column))
}

fn options(app: &App, graph: &Graph, body: &QueryBody) -> Options {
    app.procedures.options(graph, body.parameters.iter().map(|(name, _)| name.clone()).collect())
}

/// One column `plan`, one row: the operators, nested, with the stages of the compiler as text beside the root.
fn explanation(app: &App, graph: &Graph, body: &QueryBody) -> Result<Response, ApiError> {
    let options = options(app, graph, body);
    let prepared = graph.prepare(compile(&body.text, &options)?);
    let (plan, parameters) = (&*prepared.plan, values(&prepared.plan, body));
    let ways = graph.ways(&prepared, &parameters);
    let note = |operator: &Operator| ways.get(&std::ptr::from_ref(operator)).cloned().unwrap_or_default();
    let mut shown = shown(plan, None);
    shown["args"] = json!({"plan": explain_noted(plan, &note), "stages": explain(&body.text, &options)?});
    Ok(json_text(answer(shown)))
}

/// As `explanation`, with what each operator did.
fn profile_of(plan: &Plan, profile: &Profile) -> String {
    let note = |operator: &Operator| {
        let Counts { rows, facts, time } = profile.of(operator);
        format!("{rows} rows, {facts} facts, {:.3} ms", time.as_secs_f64() * 1e3)
    };
    let mut shown = shown(plan, Some(profile));
    shown["args"] = json!({"plan": explain_noted(plan, &note)});
    answer(shown)
}

fn answer(plan: Json) -> String {
    json!({"columns": ["plan"], "results": [[plan]]}).to_string()
}

fn shown(plan: &Plan, profile: Option<&Profile>) -> Json {
    let mut shown = operator(plan, &plan.root, profile);
    shown["canContainAllNodeScan"] = plan.facts.scans.into();
    shown["isReadOnly"] = (!plan.facts.writes).into();
    shown["isIdempotent"] = (!plan.facts.impure).into();
    shown["cannotFail"] = (!plan.facts.fallible).into();
    shown["identifiers"] = plan.columns.iter().map(|(name, _)| Json::String(name.to_string())).collect();
    shown
}

fn operator(plan: &Plan, of: &Operator, profile: Option<&Profile>) -> Json {
    let details = explain_operator(plan, of);
    let name: String = details.chars().take_while(|c| c.is_alphanumeric()).collect();
    let children: Vec<Json> = of.children().into_iter().map(|child| operator(plan, child, profile)).collect();
    let mut shown = json!({"operatorType": name, "args": {"details": details}, "identifiers": [], "children": children});
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

    #[test]
    fn unknown_parameters_read_as_recorded() {
        assert_eq!(unknown_parameter("RETURN $p", "p"), "CompileError at 1.8 Unknown parameter `p`\n\nRETURN $p\n       ^");
        assert_eq!(
            unknown_parameter("MATCH (a)\nRETURN $é", "é"),
            "CompileError at 2.8 Unknown parameter `é`\n\nRETURN $é\n       ^"
        );
    }
}
