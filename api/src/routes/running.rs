//! The queries that run: listed and ended. Routes of our own, in the manner of both families.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use warp::http::StatusCode;
use warp::reply::Response;

use super::{JSON, Request, json as json_reply};
use crate::app::App;
use crate::error::{self, ApiError};

pub async fn list(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    Ok(json_reply(&listed(&app)))
}

/// Answers with the query as it was when it was told to end.
pub async fn cancel(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    cancelled(&app, &request).map(|shown| json_reply(&shown)).ok_or(ApiError::Absent)
}

pub async fn list_enveloped(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    Ok(enveloped(listed(&app)))
}

pub async fn cancel_enveloped(app: Arc<App>, request: Request) -> Result<Response, ApiError> {
    if let Some(shown) = cancelled(&app, &request) {
        return Ok(enveloped(shown));
    }
    let message = format!("there is no running query with the id '{}'", request.name(0));
    let body = json!({"errors": [{"type": "ApiError", "message": message}]});
    Ok(error::response(StatusCode::NOT_FOUND, Some(JSON), body.to_string()))
}

fn listed(app: &App) -> Json {
    app.queries.register.list().iter().map(|running| running.to_json()).collect()
}

fn cancelled(app: &App, request: &Request) -> Option<Json> {
    let id = request.name(0).parse().ok()?;
    app.queries.register.cancel(id).map(|running| running.to_json())
}

fn enveloped(content: Json) -> Response {
    json_reply(&json!({"content": content, "warnings": []}))
}
