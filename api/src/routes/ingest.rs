//! Ingest streams over HTTP.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};
use warp::http::StatusCode;

use super::reply::{Reply, blocking};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::ingest::Stream;
use crate::wire::family::Family;
use crate::wire::v2;

const WHAT: &str = "ingest stream";

/// v1: an object from name to stream, and a namespace that is not there has no streams.
pub async fn list(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let family = request.family;
    let streams = match request.graph(&app) {
        Ok(graph) => app.ingests.list(&graph),
        Err(ApiError::Absent(_)) if family == Family::V1 => Vec::new(),
        Err(error) => return Err(error),
    };
    if family == Family::V1 {
        let entries = streams.iter().map(|stream| (stream.name.clone(), stream.to_json(family, false)));
        return Ok(Reply::Value(Json::Object(entries.collect::<JsonMap<_, _>>())));
    }
    Ok(Reply::Items(streams.iter().map(|stream| stream.to_json(family, true)).collect()))
}

pub async fn create(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    let definition = request.data()?;
    blocking(move || app.ingests.create(&graph, request.name(0), &definition)).await?;
    Ok(Reply::Empty(StatusCode::OK))
}

/// v2: the name stands in the body.
pub async fn create_named(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    let (name, definition) = v2::ingest::decode(&request.data()?).map_err(ApiError::Decode)?;
    request.check_name(&name)?;
    let created = blocking(move || app.ingests.create(&graph, &name, &definition)).await;
    let stream = created.map_err(v2::ingest::in_its_words)?;
    Ok(Reply::Created(stream.to_json(request.family, true)))
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(shown(&*find(&app, &request)?, request.family))
}

pub async fn delete(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (graph, family) = (request.graph(&app)?, request.family);
    let name = request.name(0).to_owned();
    let ended = blocking({
        let name = name.clone();
        move || app.ingests.delete(&graph, &name)
    });
    let ended = ended.await?.ok_or_else(|| ApiError::absent(WHAT, &name))?;
    Ok(shown(&ended, family))
}

pub async fn pause(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let stream = find(&app, &request)?;
    blocking(move || app.ingests.pause(&stream).map(|()| shown(&stream, request.family))).await
}

pub async fn start(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let stream = find(&app, &request)?;
    blocking(move || app.ingests.start(&stream).map(|()| shown(&stream, request.family))).await
}

fn shown(stream: &Stream, family: Family) -> Reply {
    Reply::Value(stream.to_json(family, true))
}

pub fn find(app: &App, request: &Request) -> Result<Arc<Stream>, ApiError> {
    let name = request.name(0);
    request.check_name(name)?;
    app.ingests.get(&request.graph(app)?, name).ok_or_else(|| ApiError::absent(WHAT, name))
}
