//! The lists of the explorer over HTTP: read, and replaced as a whole.

use std::sync::Arc;

use serde_json::Value as Json;
use warp::http::StatusCode;
use weir_cypher_compiler::compile;
use weir_model::Text;

use super::reply::{Reply, blocking};
use super::request::Request;
use crate::app::App;
use crate::error::ApiError;
use crate::wire::style::List;

pub async fn samples(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    get(app, request, List::Samples).await
}

pub async fn set_samples(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    set(app, request, List::Samples).await
}

pub async fn quick(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    get(app, request, List::Quick).await
}

pub async fn set_quick(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    set(app, request, List::Quick).await
}

pub async fn appearances(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    get(app, request, List::Appearances).await
}

pub async fn set_appearances(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    set(app, request, List::Appearances).await
}

pub async fn taps(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    get(app, request, List::Taps).await
}

/// Each of the queries must compile and only read.
pub async fn set_taps(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    let wanted = List::Taps.decode(&request.data()?).map_err(ApiError::Decode)?;
    for query in wanted.as_array().into_iter().flatten().filter_map(|tap| tap["query"].as_str()) {
        app.queries.check_text(query)?;
        let plan = compile(query, &app.procedures.options(&graph, vec![Text::new("that")]))?;
        if plan.facts.writes {
            return Err(ApiError::bad(format!("A tap query must only read, and this one writes: {query}")));
        }
    }
    set(app, request, List::Taps).await
}

/// Under which the list is stored: most are the same for every namespace.
fn key(app: &App, request: &Request, list: List) -> Result<String, ApiError> {
    match list {
        List::Taps => Ok(format!("{}{}", request.graph(app)?.id().metadata_prefix(), list.key())),
        _ => Ok(list.key().to_owned()),
    }
}

async fn get(app: Arc<App>, request: Request, list: List) -> Result<Reply, ApiError> {
    let key = key(&app, &request, list)?;
    let stored = blocking(move || Ok(app.engine.metadata(&key)?)).await?;
    let stored = stored.and_then(|stored| serde_json::from_slice::<Json>(&stored).ok());
    Ok(Reply::Value(list.shown(stored.unwrap_or_else(|| list.usual()), request.family)))
}

async fn set(app: Arc<App>, request: Request, list: List) -> Result<Reply, ApiError> {
    let key = key(&app, &request, list)?;
    let wanted = list.decode(&request.data()?).map_err(ApiError::Decode)?;
    blocking(move || Ok(app.engine.set_metadata(&key, Some(wanted.to_string().as_bytes()))?)).await?;
    Ok(Reply::Empty(StatusCode::NO_CONTENT))
}
