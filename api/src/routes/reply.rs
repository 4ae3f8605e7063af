//! What handlers answer with, and how each family sends it.

use std::time::Duration;

use futures_util::Stream;
use serde_json::{Value as Json, json};
use warp::http::header::{CACHE_CONTROL, CONTENT_TYPE, WARNING};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::{Reply as _, Response};

use crate::error::{self, ApiError};
use crate::wire::family::Family;

pub const JSON: &str = "application/json";

pub enum Reply {
    /// 200 with a value.
    Value(Json),
    /// 200 with a list of named things.
    Items(Vec<Json>),
    /// 201 with the thing that is there now, and what whoever made it should look at.
    Created(Json, Vec<String>),
    /// 202: it has begun.
    Accepted,
    /// No body.
    Empty(StatusCode),
    /// As it is: streams, pages, plain texts.
    Whole(Response),
}

impl Reply {
    pub fn into_response(self, family: Family) -> Response {
        match self {
            Reply::Value(value) => json_text(family.body(value).to_string()),
            Reply::Items(items) => json_text(family.items(items).to_string()),
            Reply::Created(value, warnings) => {
                let texts: Vec<String> =
                    warnings.iter().map(|warning| format!("199 quine \"{}\"", in_a_header(warning))).collect();
                let body = family.resource(value, warnings).to_string();
                let mut response = error::response(StatusCode::CREATED, Some(JSON), body);
                if let Ok(texts) = HeaderValue::from_str(&texts.join(", "))
                    && !texts.is_empty()
                {
                    response.headers_mut().insert(WARNING, texts);
                }
                response
            }
            Reply::Accepted if family == Family::Preview => {
                let body = json!({"message": "The request has been accepted and its work has begun."});
                error::response(StatusCode::ACCEPTED, Some(JSON), body.to_string())
            }
            Reply::Accepted => error::response(StatusCode::ACCEPTED, None, String::new()),
            Reply::Empty(status) => error::response(status, None, String::new()),
            Reply::Whole(response) => response,
        }
    }
}

/// A text between quotes in a header.
fn in_a_header(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '"' || c == '\\' {
                '\''
            } else if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        })
        .collect()
}

/// Runs what blocks (queries, creating and stopping things) away from the threads that serve connections.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::Failed(format!("a task failed: {error}")))?
}

pub fn json_bytes(body: Vec<u8>) -> Response {
    let mut reply = warp::http::Response::new(body).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// A body that leaves as it comes. An error breaks the connection.
pub fn json_parts(parts: impl Stream<Item = std::io::Result<Vec<u8>>> + Send + Sync + 'static) -> Response {
    let mut reply = warp::reply::stream(parts).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

pub fn json_text(body: String) -> Response {
    error::response(StatusCode::OK, Some(JSON), body)
}

/// A page or a document, which may be kept so long.
pub fn document(content_type: &'static str, body: impl Into<String>, keep: Duration) -> Response {
    let mut reply = error::response(StatusCode::OK, Some(content_type), body.into());
    let control = if keep.is_zero() { "no-cache".to_owned() } else { format!("max-age={}", keep.as_secs()) };
    if let Ok(control) = HeaderValue::from_str(&control) {
        reply.headers_mut().insert(CACHE_CONTROL, control);
    }
    reply
}
