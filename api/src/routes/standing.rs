//! Standing queries over HTTP.

use std::sync::Arc;

use serde_json::Value as Json;
use warp::http::StatusCode;
use warp::reply::Response;

use super::{Request, blocking, empty, json as json_reply};
use crate::app::App;
use crate::error::{ApiError, plain};
use crate::events;
use crate::standing::Query;
use crate::wire::standing::{Output, StandingSettings};

pub async fn list(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let graph = request.graph(&app)?;
    let queries = app.standing.list(&graph);
    Ok(json_reply(&Json::Array(queries.iter().map(|query| query.to_json()).collect())))
}

pub async fn create(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let graph = request.graph(&app)?;
    let settings = StandingSettings::decode(&request.data()?).map_err(ApiError::Bad)?;
    blocking(move || app.standing.create(&graph, request.name(0), settings)).await?;
    Ok(empty(StatusCode::CREATED))
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    Ok(json_reply(&find(&app, &request)?.to_json()))
}

/// Answers with the query as it was before.
pub async fn delete(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let query = find(&app, &request)?;
    blocking(move || {
        let before = query.to_json();
        let deleted = app.standing.delete(&query)?;
        if deleted { Ok(json_reply(&before)) } else { Err(ApiError::Absent) }
    })
    .await
}

pub async fn add_output(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let query = find(&app, &request)?;
    let output = Output::decode(&request.data()?).map_err(ApiError::Bad)?;
    blocking(move || app.standing.add_output(&query, request.name(1), output)).await?;
    Ok(empty(StatusCode::CREATED))
}

pub async fn remove_output(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let query = find(&app, &request)?;
    let removed = blocking(move || app.standing.remove_output(&query, request.name(1))).await?;
    Ok(json_reply(&removed.ok_or(ApiError::Absent)?.to_json()))
}

/// Reports what matched when a query was created. Nothing sleeps here, so `include-sleeping` changes nothing.
pub async fn propagate(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let mut mistakes = Vec::new();
    request.boolean("include-sleeping", &mut mistakes);
    let parallelism = request.integer("wake-up-parallelism", &mut mistakes);
    if parallelism.is_some_and(|count| count < 1) {
        mistakes.push("wake-up-parallelism must be at least 1".to_owned());
    }
    if !mistakes.is_empty() {
        return Err(ApiError::Bad(mistakes));
    }
    let graph = request.graph(&app)?;
    blocking(move || {
        app.standing.propagate(&graph);
        Ok(())
    })
    .await?;
    Ok(empty(StatusCode::ACCEPTED))
}

/// Results from now on, as server-sent events.
pub async fn results(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    match find(&app, &request) {
        Ok(query) => Ok(events::stream(query.results.listen())),
        Err(ApiError::Absent) => Ok(plain(StatusCode::NOT_FOUND, "No Standing Query with the provided name was found")),
        Err(error) => Err(error),
    }
}

fn find(app: &App, request: &Request) -> Result<Arc<Query>, ApiError> {
    app.standing.get(&request.graph(app)?, request.name(0)).ok_or(ApiError::Absent)
}
