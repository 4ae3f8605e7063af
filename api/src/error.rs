//! Errors of the API: the one place that turns what went wrong into a status and a body.
//!
//! v1 knows four bodies: an array of texts (400, 500), nothing (404 of a named thing), and plain text for what is not about
//! any resource (unknown path, content types).

use thiserror::Error;
use warp::http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::{Reply, Response};
use weir_cypher_compiler::Diagnostic;
use weir_engine::EngineError;
use weir_model::Failure;
use weir_model::expression::FailureKind;

use crate::wire::diagnostic;

#[derive(Debug, Error)]
pub enum ApiError {
    /// The request is wrong; all reasons at once.
    #[error("{}", .0.join("; "))]
    Bad(Vec<String>),
    /// A query is wrong; all errors of its text.
    #[error("{}", diagnostic_texts(.0).join("; "))]
    Query(Vec<Diagnostic>),
    /// The named thing is not there.
    #[error("there is nothing of that name")]
    Absent,
    #[error("there is no such route")]
    NoRoute,
    #[error("the method is not supported")]
    Method,
    #[error("moved to {0}")]
    Moved(String),
    #[error("the content type {given} is not supported")]
    ContentType { given: String, expected: &'static str },
    #[error("only {0} is available")]
    NotAcceptable(&'static str),
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the body did not arrive in time")]
    SlowBody,
    /// A limit of time was reached.
    #[error("the query was not finished in {0} milliseconds")]
    TimeLimit(u128),
    #[error("weir is not ready: {0}")]
    NotReady(String),
    /// The world or weir failed; the text says what.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    pub fn bad(reason: impl Into<String>) -> ApiError {
        ApiError::Bad(vec![reason.into()])
    }

    pub fn into_response(self) -> Response {
        let texts = |status, texts: &[String]| {
            let body = serde_json::to_string(texts).unwrap_or_else(|_| "[]".to_owned());
            response(status, Some("application/json"), body)
        };
        match self {
            ApiError::Bad(reasons) => texts(StatusCode::BAD_REQUEST, &reasons),
            ApiError::Query(diagnostics) => {
                let mut reply = texts(StatusCode::BAD_REQUEST, &diagnostic_texts(&diagnostics));
                if let Ok(value) = HeaderValue::from_str(&diagnostic::header(&diagnostics)) {
                    reply.headers_mut().insert(diagnostic::HEADER, value);
                }
                reply
            }
            ApiError::Absent => response(StatusCode::NOT_FOUND, None, String::new()),
            ApiError::NoRoute => plain(StatusCode::NOT_FOUND, "The requested resource could not be found."),
            ApiError::Method => {
                let methods = "POST, GET, PUT, DELETE";
                let mut reply =
                    plain(StatusCode::METHOD_NOT_ALLOWED, format!("HTTP method not allowed, supported methods: {methods}"));
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
                reply
            }
            ApiError::Moved(to) => {
                let body =
                    format!("The request, and all future requests should be repeated using <a href=\"{to}\">this URI</a>.");
                let mut reply = response(StatusCode::PERMANENT_REDIRECT, Some("text/html; charset=UTF-8"), body);
                if let Ok(to) = HeaderValue::from_str(&to) {
                    reply.headers_mut().insert(LOCATION, to);
                }
                reply
            }
            ApiError::ContentType { given, expected } => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("The request's Content-Type [{given}] is not supported. Expected:\n{expected}"),
            ),
            ApiError::NotAcceptable(available) => plain(
                StatusCode::NOT_ACCEPTABLE,
                format!("Resource representation is only available with these types:\n{available}"),
            ),
            ApiError::TooLarge(limit) => plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The body is larger than the {limit} bytes that webserver.body-bytes-max allows."),
            ),
            ApiError::SlowBody => plain(StatusCode::REQUEST_TIMEOUT, "The body of the request did not arrive in time."),
            ApiError::TimeLimit(millis) => texts(
                StatusCode::INTERNAL_SERVER_ERROR,
                &[format!("The stream has not been completed in {millis} milliseconds.")],
            ),
            ApiError::NotReady(_) => response(StatusCode::SERVICE_UNAVAILABLE, None, String::new()),
            ApiError::Failed(reason) => {
                tracing::error!("{reason}");
                texts(StatusCode::INTERNAL_SERVER_ERROR, &[reason])
            }
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        match error {
            EngineError::Query(failure) => ApiError::bad(failure_text(&failure)),
            EngineError::NoHistory
            | EngineError::TooLongAgo { .. }
            | EngineError::NotYet(_)
            | EngineError::PastIsReadOnly
            | EngineError::Render(_)
            | EngineError::GraphExists(_) => ApiError::bad(error.to_string()),
            EngineError::NoSuchGraph(_) => ApiError::Absent,
            EngineError::Shared(error) => match &*error {
                EngineError::Query(failure) => ApiError::bad(failure_text(failure)),
                other => ApiError::Failed(chain(other)),
            },
            other => ApiError::Failed(chain(&other)),
        }
    }
}

impl From<Vec<Diagnostic>> for ApiError {
    fn from(diagnostics: Vec<Diagnostic>) -> ApiError {
        ApiError::Query(diagnostics)
    }
}

fn diagnostic_texts(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(diagnostic::text).collect()
}

/// `ArithmeticError / by zero …`: the name of the kind, then the text.
pub fn failure_text(failure: &Failure) -> String {
    let kind = match failure.kind {
        FailureKind::TypeMismatch | FailureKind::KeyIsNoText | FailureKind::NotStorable => "TypeMismatch",
        FailureKind::Arithmetic => "Arithmetic",
        FailureKind::ConstraintViolation | FailureKind::StillConnected | FailureKind::MergeWithNull => "ConstraintViolation",
        FailureKind::WrongSignature => "WrongSignature",
        FailureKind::InvalidArgument
        | FailureKind::OutOfRange
        | FailureKind::NegativeRowCount
        | FailureKind::InvalidRowCount
        | FailureKind::Deleted
        | FailureKind::TimeLimit
        | FailureKind::MemoryLimit
        | FailureKind::Interrupted
        | FailureKind::Runtime => "Runtime",
    };
    format!("{kind}Error {}", failure.message)
}

/// An error with everything that caused it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

pub fn plain(status: StatusCode, body: impl Into<String>) -> Response {
    response(status, Some("text/plain; charset=UTF-8"), body.into())
}

pub fn response(status: StatusCode, content_type: Option<&'static str>, body: String) -> Response {
    let mut reply = warp::http::Response::new(body).into_response();
    *reply.status_mut() = status;
    if let Some(content_type) = content_type {
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    reply
}
