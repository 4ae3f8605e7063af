//! What is told of a request in a trace, in the words that OpenTelemetry has for HTTP servers.

use std::net::SocketAddr;

use hyper::body::Incoming;
use warp::http::header::USER_AGENT;
use warp::http::{Request, StatusCode};

use super::Route;
use crate::traces::{self, Span};

/// Probes, pages and figures are asked for all the time, and tell nothing. Of a path the names are told, of what stands behind
/// its question mark nothing.
pub fn begin(route: &Route, remote: SocketAddr, request: &Request<Incoming>) -> Option<Span> {
    if is_quiet(route.name) {
        return None;
    }
    let mut span = traces::of_request(request.headers(), || format!("{} {}", route.method, route.path))?;
    span.set("http.request.method", route.method.as_str());
    span.set("http.route", route.path);
    span.set("url.path", request.uri().path());
    span.set("client.address", remote.ip().to_string());
    span.set("client.port", u64::from(remote.port()));
    if let Some(agent) = request.headers().get(USER_AGENT) {
        span.set("user_agent.original", String::from_utf8_lossy(agent.as_bytes()).into_owned());
    }
    Some(span)
}

fn is_quiet(handler: &str) -> bool {
    let quiet = ["admin::liveness", "admin::readiness", "admin::not_enabled"];
    quiet.contains(&handler) || ["ui::", "documents::"].iter().any(|group| handler.starts_with(group))
}

/// An error of the client is none of the server.
pub fn end(span: &mut Option<Span>, status: StatusCode) {
    let Some(span) = span else { return };
    span.set("http.response.status_code", u64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(status.canonical_reason().unwrap_or_default());
    }
}
