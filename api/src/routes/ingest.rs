//! Ingest streams over HTTP.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};
use warp::http::StatusCode;
use warp::reply::Response;

use super::{Request, blocking, empty, json as json_reply};
use crate::app::App;
use crate::error::ApiError;
use crate::ingest::Stream;

/// An object from name to stream. A namespace that is not there has no streams.
pub async fn list(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let streams = match request.graph(&app) {
        Ok(graph) => app.ingests.list(&graph),
        Err(ApiError::Absent) => Vec::new(),
        Err(error) => return Err(error),
    };
    let entries = streams.iter().map(|stream| (stream.name.clone(), stream.to_json(false)));
    Ok(json_reply(&Json::Object(entries.collect::<JsonMap<_, _>>())))
}

pub async fn create(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let graph = request.graph(&app)?;
    let definition = request.data()?;
    blocking(move || app.ingests.create(&graph, request.name(0), &definition)).await?;
    Ok(empty(StatusCode::OK))
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let stream = find(&app, &request)?;
    Ok(json_reply(&stream.to_json(true)))
}

pub async fn delete(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let graph = request.graph(&app)?;
    let ended = blocking(move || app.ingests.delete(&graph, request.name(0))).await?;
    Ok(json_reply(&ended.ok_or(ApiError::Absent)?.to_json(true)))
}

pub async fn pause(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let stream = find(&app, &request)?;
    blocking(move || app.ingests.pause(&stream).map(|()| json_reply(&stream.to_json(true)))).await
}

pub async fn start(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    let stream = find(&app, &request)?;
    blocking(move || app.ingests.start(&stream).map(|()| json_reply(&stream.to_json(true)))).await
}

fn find(app: &App, request: &Request) -> Result<Arc<Stream>, ApiError> {
    app.ingests.get(&request.graph(app)?, request.name(0)).ok_or(ApiError::Absent)
}
