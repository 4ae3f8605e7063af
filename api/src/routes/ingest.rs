//! Ingest streams over HTTP.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json, json};
use warp::http::StatusCode;
use weir_connectors::NotTaken;
use weir_connectors::body::{Records, encodings, told_encodings, uncompressed};

use super::reply::{Reply, blocking};
use super::request::{Content, Request};
use crate::app::App;
use crate::error::{ApiError, INVALID};
use crate::ingest::{ADDS, SCANS, Status, Stream, WHAT};
use crate::openapi::unknown;
use crate::wire::family::Family;
use crate::wire::v2;

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const KEY_BYTES_MAX: usize = 255;

/// When a client may come again: to a graph that is behind, and to a stream that somebody has to start.
const BEHIND_SECONDS: u32 = 1;
const PAUSED_SECONDS: u32 = 5;

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
    let body = request.data()?;
    let decoded = v2::ingest::decode(&body).map_err(ApiError::Decode);
    let decoded = decoded.and_then(|named| request.check_name(&named.0).map(|_| named));
    // In the notation of v1 with a name nothing is told.
    let has_source = body.get("source").is_some();
    let mut warnings = if has_source { unknown::warnings("IngestBody", &body) } else { Vec::new() };
    let words = if has_source { v2::ingest::in_its_place } else { v2::ingest::in_its_words };
    let create = move || {
        let created = decoded.and_then(|(name, definition)| app.ingests.create(&graph, &name, &definition).map_err(words));
        created.map_err(|error| if has_source { app.ingests.with_the_query(error, &graph, &body) } else { error })
    };
    let stream = blocking(create).await?;
    warnings.extend(stream.scans().then(|| SCANS.to_owned()));
    warnings.extend(stream.adds_again().then(|| ADDS.to_owned()));
    Ok(Reply::Created(stream.to_json(request.family, true), warnings))
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(shown(&*find(&app, &request)?, request.family))
}

pub async fn delete(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (graph, family) = (request.graph(&app)?, request.family);
    let name = request.resource(0, "ingestName")?.to_owned();
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

/// Records for a stream that takes them by requests. Answered when they are durable and can be read.
pub async fn push(app: Arc<App>, mut request: Request) -> Result<Reply, ApiError> {
    let stream = find(&app, &request)?;
    let name = stream.name.clone();
    let intake =
        stream.intake().ok_or_else(|| ApiError::bad(format!("the ingest stream `{name}` takes no records over HTTP")))?;
    match stream.status() {
        Status::Running => {}
        Status::Paused | Status::Restored => {
            return Err(ApiError::Busy { reason: format!("the ingest stream `{name}` is paused"), seconds: PAUSED_SECONDS });
        }
        status => return Err(ApiError::bad(format!("the ingest stream `{name}` has ended ({})", status.name()))),
    }
    let key = key(&request)?;
    let records = records(&mut request, app.settings.webserver.body_bytes_max)?;
    let busy = |reason: &str, seconds| ApiError::Busy { reason: format!("{reason} (ingest stream `{name}`)"), seconds };
    let taken = intake.hand_in(records, key.as_deref()).await.map_err(|not_taken| match not_taken {
        NotTaken::Full => busy("the graph is behind, and nothing was taken; send it again later", BEHIND_SECONDS),
        NotTaken::Late => {
            busy("the records are not durable in time; send them again with the same Idempotency-Key", BEHIND_SECONDS)
        }
        NotTaken::Ended => busy("the stream was stopped before the records were durable", PAUSED_SECONDS),
    })?;
    // Whoever has the answer may count on reading what was changed.
    blocking(move || stream.wait_visible()).await?;
    Ok(Reply::Value(json!({"records": taken.records, "repeated": taken.repeated})))
}

/// What the request is known by when it comes again.
fn key(request: &Request) -> Result<Option<String>, ApiError> {
    let Some(key) = request.headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| matches!(key.len(), 1..=KEY_BYTES_MAX));
    let wrong =
        || ApiError::Decode(vec![format!("{INVALID}header {IDEMPOTENCY_KEY} (give 1 to {KEY_BYTES_MAX} characters of ASCII)")]);
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

fn records(request: &mut Request, bytes_max: u64) -> Result<Records, ApiError> {
    let told = told_encodings(&request.headers);
    let body = std::mem::take(&mut request.body);
    let Content::Records(cut) = request.content else { return Err(ApiError::Failed("the route takes no records".to_owned())) };
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let read = || {
        let unknown = || ApiError::ContentEncoding { given: told.clone(), expected: format!("none, or {}", encodings()) };
        let body = uncompressed(&told, body, bytes_max).ok_or_else(unknown)?;
        let wrong = |problem| ApiError::Decode(vec![format!("ParsingFailure: {problem}")]);
        Records::cut(body.map_err(wrong)?, cut).map_err(wrong)
    };
    // Large ones take their time, which other connections must not wait for.
    tokio::task::block_in_place(read)
}

fn shown(stream: &Stream, family: Family) -> Reply {
    Reply::Value(stream.to_json(family, true))
}

pub fn find(app: &App, request: &Request) -> Result<Arc<Stream>, ApiError> {
    let name = request.resource(0, "ingestName")?;
    app.ingests.get(&request.graph(app)?, name).ok_or_else(|| ApiError::absent(WHAT, name))
}
