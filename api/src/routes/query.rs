//! Cypher over HTTP: tables, and the nodes and edges of the graph view.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value as Json, json};
use warp::reply::Response;
use weir_cypher_compiler::{Options, compile, explain, explain_plan};
use weir_engine::QueryOptions;
use weir_model::plan::Operator;
use weir_model::{Plan, Text, Value};

use super::{Common, Request, blocking, json_text};
use crate::app::App;
use crate::error::ApiError;
use crate::wire::query::{Drawn, QueryBody, Shape, Writer};

pub async fn table(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let (body, common) = read(&app, &request)?;
    if let Some(query) = explained(&body.text) {
        return explanation(&app, query, &body);
    }
    let body = run(app, body, common, Shape::Table).await?;
    Ok(json_text(body))
}

pub async fn nodes(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    draw(app, request, Shape::Drawing(Drawn::Nodes)).await
}

pub async fn edges(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    draw(app, request, Shape::Drawing(Drawn::Edges)).await
}

async fn draw(app: Arc<App>, request: Request, shape: Shape) -> Result<Response, ApiError> {
    let (body, common) = read(&app, &request)?;
    Ok(json_text(run(app, body, common, shape).await?))
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

/// Compiles a query, runs it and writes its answer.
async fn run(app: Arc<App>, body: QueryBody, common: Common, shape: Shape) -> Result<String, ApiError> {
    // Whoever awaits this may go away; then the query is told.
    let given_up = GivenUp(Arc::new(AtomicBool::new(false)));
    let cancelled = given_up.0.clone();
    let Common { graph, at, timeout } = common;
    let answer = blocking(move || {
        let began = Instant::now();
        let (plan, parameters) = compiled(&app, &body)?;
        if plan.facts.writes && at.is_some() {
            return Err(ApiError::bad("a query that writes cannot run at a past time; leave 'at-time' out"));
        }
        // What writes is never cut short.
        let deadline = timeout.filter(|_| !plan.facts.writes).and_then(|timeout| began.checked_add(timeout));
        let mut writer = Writer::new(shape, &plan, graph.ids());
        let prepared = graph.prepare(plan);
        let mut refused = None;
        let options = QueryOptions { at, deadline, cancelled: Some(&cancelled) };
        let ended = graph.query(&prepared, &parameters, options, &mut |row| match writer.row(row) {
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
            Ok(_) => Ok(writer.finish()),
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
fn compiled(app: &App, body: &QueryBody) -> Result<(Plan, Vec<Value>), ApiError> {
    let names: Vec<Text> = body.parameters.iter().map(|(name, _)| name.clone()).collect();
    let plan = compile(&body.text, &Options { parameters: names, ids: app.settings.ids })?;
    if let Some(unknown) = plan.parameters.iter().find(|name| body.parameters.iter().all(|(given, _)| given != *name)) {
        return Err(ApiError::bad(unknown_parameter(&body.text, unknown)));
    }
    let value =
        |name: &Text| body.parameters.iter().find(|(given, _)| given == name).map_or(Value::Null, |(_, value)| value.clone());
    let parameters = plan.parameters.iter().map(value).collect();
    Ok((plan, parameters))
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

/// The query behind EXPLAIN, if that is what the text asks for.
fn explained(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (word, rest) = text.split_at_checked("explain".len())?;
    (word.eq_ignore_ascii_case("explain") && rest.starts_with(char::is_whitespace)).then_some(rest)
}

/// One column `plan`, one row: the operators, nested, with the stages of the compiler as text beside the root.
fn explanation(app: &App, query: &str, body: &QueryBody) -> Result<Response, ApiError> {
    let options = Options { parameters: body.parameters.iter().map(|(name, _)| name.clone()).collect(), ids: app.settings.ids };
    let plan = compile(query, &options)?;
    let mut shown = operator(&plan.root);
    shown["canContainAllNodeScan"] = plan.facts.scans.into();
    shown["isReadOnly"] = (!plan.facts.writes).into();
    shown["isIdempotent"] = (!plan.facts.impure).into();
    shown["args"] = json!({"plan": explain_plan(&plan), "stages": explain(query, &options)?});
    shown["identifiers"] = plan.columns.iter().map(|(name, _)| Json::String(name.to_string())).collect();
    Ok(json_text(json!({"columns": ["plan"], "results": [[shown]]}).to_string()))
}

fn operator(root: &Operator) -> Json {
    let debug = format!("{root:?}");
    let name: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
    let mut children: Vec<Json> = root.input().map(operator).into_iter().collect();
    match root {
        Operator::Union { right, .. } => children.push(operator(right)),
        Operator::Optional { inner, .. } => children.push(operator(inner)),
        _ => {}
    }
    json!({"operatorType": name, "args": {}, "identifiers": [], "children": children})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explain_is_a_word_of_its_own() {
        assert_eq!(explained(" explain RETURN 1"), Some(" RETURN 1"));
        assert_eq!(explained("EXPLAIN\nRETURN 1"), Some("\nRETURN 1"));
        assert_eq!(explained("EXPLAINED"), None);
        assert_eq!(explained("é"), None);
    }

    #[test]
    fn unknown_parameters_read_as_recorded() {
        assert_eq!(unknown_parameter("RETURN $p", "p"), "CompileError at 1.8 Unknown parameter `p`\n\nRETURN $p\n       ^");
        assert_eq!(
            unknown_parameter("MATCH (a)\nRETURN $é", "é"),
            "CompileError at 2.8 Unknown parameter `é`\n\nRETURN $é\n       ^"
        );
    }
}
