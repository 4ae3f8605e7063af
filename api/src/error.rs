//! Errors of the API: the one place that turns what went wrong into a status and a body.
//!
//! v1 knows four bodies: an array of texts (400, 500), nothing (404 of a named thing), and plain text for what is not about
//! any resource (unknown path, content types). v2 has plain text for the latter too, and otherwise one object in which each
//! of its generations finds its own key.

use serde_json::{Value as Json, json};
use thiserror::Error;
use warp::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use warp::http::{HeaderValue, StatusCode};
use warp::reply::{Reply, Response};
use weir_cypher_compiler::Diagnostic;
use weir_engine::EngineError;
use weir_engine::store::StoreError;
use weir_model::expression::FailureKind;
use weir_model::{Failure, NodeId};

use crate::app::STOPPING;
use crate::wire::decode::Mistakes;
use crate::wire::diagnostic;
use crate::wire::family::Family;

/// When a client may ask again that weir leaves as it stops, or that comes before weir is ready.
pub const BACK_SECONDS: u32 = 5;

#[derive(Debug, Error)]
pub enum ApiError {
    /// The request is wrong; all reasons at once.
    #[error("{}", .0.join("; "))]
    Bad(Vec<String>),
    /// The request could not be read; all reasons at once.
    #[error("{}", .0.join("; "))]
    Decode(Vec<String>),
    /// A query failed as it ran; the kind of failure first.
    #[error("{0}")]
    Cypher(String),
    /// A query is wrong; all errors of its text.
    #[error("{}", diagnostic_texts(.0).join("; "))]
    Query(Vec<Diagnostic>),
    /// The named thing is not there.
    #[error("{0}")]
    Absent(String),
    /// It was there.
    #[error("{0}")]
    Gone(String),
    /// Nobody knows who asks.
    #[error("{reason}")]
    Unauthenticated {
        reason: String,
        /// There is a credential, and it does not hold.
        is_wrong: bool,
    },
    /// Whoever asks may not do that.
    #[error("{0}")]
    Forbidden(String),
    /// A browser is to log in there first.
    #[error("to be asked after a login")]
    LogIn(String),
    #[error("there is no such route")]
    NoRoute,
    #[error("the method is not supported")]
    Method(String),
    #[error("moved to {0}")]
    Moved(String),
    /// For now: a later version may have a page there.
    #[error("to be found at {0}")]
    Elsewhere(&'static str),
    #[error("the content type {given} is not supported")]
    ContentType { given: String, expected: &'static str },
    #[error("the content encoding {given} is not supported")]
    ContentEncoding { given: String, expected: String },
    #[error("only {0} is available")]
    NotAcceptable(&'static str),
    #[error("the body is larger than {most} bytes")]
    TooLarge { most: u64, why: &'static str },
    #[error("the body did not arrive in time")]
    SlowBody,
    /// A limit of time was reached.
    #[error("the query was not finished in {0} milliseconds")]
    TimeLimit(u128),
    #[error("weir is not ready: {0}")]
    NotReady(String),
    /// Not now; the same request may be taken in `seconds`.
    #[error("{reason}")]
    Busy { reason: String, seconds: u32 },
    /// The world or weir failed; the text says what.
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    pub fn bad(reason: impl Into<String>) -> ApiError {
        ApiError::Bad(vec![reason.into()])
    }

    /// Weir ends, and takes nothing more.
    pub fn stopping() -> ApiError {
        ApiError::Busy { reason: STOPPING.to_owned(), seconds: BACK_SECONDS }
    }

    /// `what` is not there under that name.
    pub fn absent(what: &str, name: &str) -> ApiError {
        ApiError::Absent(format!("The {what} '{name}' does not exist"))
    }

    /// Whether it is the request that is wrong.
    pub fn is_of_request(&self) -> bool {
        matches!(self, ApiError::Bad(_) | ApiError::Decode(_) | ApiError::Query(_))
    }

    /// What is wrong, one by one where it is the request.
    pub fn reasons(&self) -> Vec<String> {
        match self {
            ApiError::Bad(reasons) | ApiError::Decode(reasons) => reasons.clone(),
            other => vec![other.to_string()],
        }
    }

    /// With what else is wrong with the request. What is no mistake of it says nothing of what is.
    pub fn and(self, other: ApiError) -> ApiError {
        match (self.is_of_request(), other.is_of_request()) {
            (_, false) => return self,
            (false, true) => return other,
            (true, true) => {}
        }
        let mut all = self.reasons();
        let known = all.len();
        for reason in other.reasons() {
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        if all.len() == known {
            return self;
        }
        let are_unreadable = matches!((&self, &other), (ApiError::Decode(_), ApiError::Decode(_)));
        if are_unreadable { ApiError::Decode(all) } else { ApiError::Bad(all) }
    }

    /// What is wrong with a part of the request, with its place where that is not said.
    pub fn within(self, place: &str) -> ApiError {
        let placed = |reasons: Vec<String>| {
            let mut placed = Mistakes::default();
            placed.within(place, Mistakes(reasons));
            placed.0
        };
        match self {
            ApiError::Bad(reasons) => ApiError::Bad(placed(reasons)),
            ApiError::Decode(reasons) => ApiError::Decode(placed(reasons)),
            other => other,
        }
    }

    pub fn into_response(self, family: Family) -> Response {
        let internal = StatusCode::INTERNAL_SERVER_ERROR;
        match self {
            ApiError::Bad(reasons) => texts(family, StatusCode::BAD_REQUEST, Kind::Api, &reasons),
            ApiError::Decode(reasons) => texts(family, StatusCode::BAD_REQUEST, Kind::Decode, &reasons),
            ApiError::Cypher(reason) => texts(family, StatusCode::BAD_REQUEST, Kind::Cypher, &[reason]),
            ApiError::Query(diagnostics) => {
                let mut reply = texts(family, StatusCode::BAD_REQUEST, Kind::Cypher, &diagnostic_texts(&diagnostics));
                if let Ok(value) = HeaderValue::from_str(&diagnostic::header(&diagnostics)) {
                    reply.headers_mut().insert(diagnostic::HEADER, value);
                }
                reply
            }
            ApiError::Absent(_) if family == Family::V1 => response(StatusCode::NOT_FOUND, None, String::new()),
            ApiError::Absent(reason) => texts(family, StatusCode::NOT_FOUND, Kind::Api, &[reason]),
            ApiError::Gone(reason) => texts(family, StatusCode::GONE, Kind::Api, &[reason]),
            ApiError::Unauthenticated { reason, is_wrong } => {
                let challenge = challenge(is_wrong.then_some(("invalid_token", reason.as_str())));
                challenged(challenge, texts(family, StatusCode::UNAUTHORIZED, Kind::Api, &[reason]))
            }
            ApiError::Forbidden(reason) => {
                let challenge = challenge(Some(("insufficient_scope", &reason)));
                challenged(challenge, texts(family, StatusCode::FORBIDDEN, Kind::Api, &[reason]))
            }
            ApiError::LogIn(to) => {
                let mut reply = response(StatusCode::FOUND, None, String::new());
                reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                if let Ok(to) = HeaderValue::from_str(&to) {
                    reply.headers_mut().insert(LOCATION, to);
                }
                reply
            }
            ApiError::NoRoute => plain(StatusCode::NOT_FOUND, "The requested resource could not be found."),
            ApiError::Method(methods) => {
                let mut reply =
                    plain(StatusCode::METHOD_NOT_ALLOWED, format!("HTTP method not allowed, supported methods: {methods}"));
                if let Ok(methods) = HeaderValue::from_str(&methods) {
                    reply.headers_mut().insert(ALLOW, methods);
                }
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
            ApiError::Elsewhere(to) => {
                let mut reply = response(StatusCode::TEMPORARY_REDIRECT, None, String::new());
                reply.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
                reply
            }
            ApiError::ContentType { given, expected } => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("The request's Content-Type [{given}] is not supported. Expected:\n{expected}"),
            ),
            ApiError::ContentEncoding { given, expected } => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("The request's Content-Encoding [{given}] is not supported. Expected:\n{expected}"),
            ),
            ApiError::NotAcceptable(available) => plain(
                StatusCode::NOT_ACCEPTABLE,
                format!("Resource representation is only available with these types:\n{available}"),
            ),
            ApiError::TooLarge { most, why } => {
                plain(StatusCode::PAYLOAD_TOO_LARGE, format!("The body is larger than the {most} bytes {why}."))
            }
            ApiError::SlowBody => plain(StatusCode::REQUEST_TIMEOUT, "The body of the request did not arrive in time."),
            ApiError::TimeLimit(millis) => {
                texts(family, internal, Kind::Api, &[format!("The stream has not been completed in {millis} milliseconds.")])
            }
            ApiError::NotReady(_) if family == Family::V1 => {
                again_in(BACK_SECONDS, response(StatusCode::SERVICE_UNAVAILABLE, None, String::new()))
            }
            ApiError::NotReady(reason) => {
                let reason = format!("weir is not ready: {reason}");
                again_in(BACK_SECONDS, texts(family, StatusCode::SERVICE_UNAVAILABLE, Kind::Api, &[reason]))
            }
            ApiError::Busy { reason, seconds } => {
                again_in(seconds, texts(family, StatusCode::SERVICE_UNAVAILABLE, Kind::Api, &[reason]))
            }
            ApiError::Failed(reason) => {
                let request = uuid();
                tracing::error!(request, "{reason}");
                let shown = if family.is_v2() { format!("{reason} (request {request}; the log has it too)") } else { reason };
                texts(family, internal, Kind::Failure(request), &[shown])
            }
        }
    }
}

/// How clients are told which credential is wanted, and what is wrong with the one there was (RFC 6750).
fn challenge(wrong: Option<(&str, &str)>) -> String {
    let plain = |text: &str| -> String {
        let kept = text.chars().filter(|c| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\'));
        kept.collect()
    };
    match wrong {
        None => "Bearer realm=\"weir\"".to_owned(),
        Some((error, reason)) => {
            format!("Bearer realm=\"weir\", error=\"{error}\", error_description=\"{}\"", plain(reason))
        }
    }
}

fn challenged(challenge: String, mut reply: Response) -> Response {
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    reply
}

/// What an error of v2 is about.
enum Kind {
    Api,
    Decode,
    Cypher,
    /// Of the request with this id.
    Failure(String),
}

/// The body of an error. v2 carries the key of the preview and the key of the current generation: each client reads its own.
fn texts(family: Family, status: StatusCode, kind: Kind, texts: &[String]) -> Response {
    let body = if family == Family::V1 { json!(texts) } else { v2_body(status, &kind, texts) };
    response(status, Some("application/json"), body.to_string())
}

fn v2_body(status: StatusCode, kind: &Kind, texts: &[String]) -> Json {
    let read = |text: &String| match kind {
        Kind::Decode if !text.starts_with(INVALID) => format!("{INVALID}body ({text})"),
        _ => text.clone(),
    };
    let texts: Vec<String> = texts.iter().map(read).collect();
    let name = match kind {
        Kind::Api | Kind::Failure(_) => "ApiError",
        Kind::Decode => "DecodeError",
        Kind::Cypher => "CypherError",
    };
    let errors: Vec<Json> = texts.iter().map(|text| json!({"type": name, "message": text})).collect();
    let help = texts.iter().skip(1).map(|text| json!({"type": "Help", "message": text}));
    let about = match kind {
        Kind::Cypher => Some(json!({"type": "ErrorInfo", "reason": "CYPHER_ERROR", "domain": "quine.io", "metadata": {}})),
        Kind::Failure(request) => Some(json!({"type": "RequestInfo", "requestId": request})),
        Kind::Api | Kind::Decode => None,
    };
    let details: Vec<Json> = about.into_iter().chain(help).collect();
    let word = match status {
        StatusCode::BAD_REQUEST => "INVALID_ARGUMENT",
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        // What was asked for has passed the range of what is kept.
        StatusCode::GONE => "OUT_OF_RANGE",
        StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    let message = texts.first().cloned().unwrap_or_default();
    json!({
        "errors": errors,
        "error": {"code": status.as_u16(), "status": word, "message": message, "details": details},
    })
}

/// What a message of v2 begins with that names the part of the request that could not be read.
pub const INVALID: &str = "Invalid value for: ";

/// Random enough to find a request in the log.
pub fn uuid() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    NodeId::new(random() & !0xf000 | 0x4000, random() >> 2 | 1 << 63).to_string()
}

/// Two parts of a request, or all that is wrong with them.
pub fn both<A, B>(first: Result<A, ApiError>, second: Result<B, ApiError>) -> Result<(A, B), ApiError> {
    match (first, second) {
        (Err(first), Err(second)) => Err(first.and(second)),
        (first, second) => Ok((first?, second?)),
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        ApiError::from(&error)
    }
}

impl From<&EngineError> for ApiError {
    fn from(error: &EngineError) -> ApiError {
        match error {
            EngineError::Query(failure) => ApiError::Cypher(failure_text(failure)),
            EngineError::NoHistory
            | EngineError::TooLongAgo { .. }
            | EngineError::NotYet(_)
            | EngineError::PastIsReadOnly
            | EngineError::Render(_)
            | EngineError::GraphExists(_) => ApiError::bad(error.to_string()),
            // Of queries that are commands: they fail while they run, as others do.
            EngineError::IndexExists(_)
            | EngineError::NoSuchIndex(_)
            | EngineError::ExpiryExists(_)
            | EngineError::NoSuchExpiry(_) => ApiError::Cypher(format!("RuntimeError {error}")),
            EngineError::Starting => ApiError::NotReady(error.to_string()),
            // What asked for it has not happened.
            EngineError::Store(StoreError::Stopped) => ApiError::stopping(),
            EngineError::NoSuchGraph(name) => ApiError::absent("namespace", name),
            EngineError::Shared(error) => ApiError::from(&**error),
            other => ApiError::Failed(chain(other)),
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
        | FailureKind::SharedMemoryLimit
        | FailureKind::Interrupted
        | FailureKind::WouldFetch
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

/// An answer whose client may ask again after `seconds`.
pub fn again_in(seconds: u32, mut reply: Response) -> Response {
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    reply
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_late_for_the_log_is_to_come_again() {
        let late = EngineError::from(StoreError::Stopped);
        assert!(matches!(ApiError::from(EngineError::Shared(late.into())), ApiError::Busy { .. }));
    }
}
