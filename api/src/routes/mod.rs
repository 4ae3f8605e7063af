//! The table of routes, and what is the same for all of them: matching, content types, bodies, common parameters.
//!
//! A route is one row: method, path, what body it takes, what it is allowed to, its handler. Handlers are thin: they
//! read parameters, ask the part of the service that knows, and shape the answer.

mod admin;
mod ingest;
mod query;
mod running;
mod standing;
mod ui;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value as Json;
use warp::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use warp::http::{self, HeaderMap, HeaderValue, Method, StatusCode};
use warp::reply::{Reply, Response};
use weir_engine::Graph;
use weir_model::Tick;

use crate::app::App;
use crate::clock;
use crate::error::{self, ApiError};
use crate::queries::Client;
use crate::wire::decode;

/// What a caller must be allowed to. Nothing enforces it until there is sign-on; it stands here so that every route has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capability {
    /// Open to everyone: probes and pages.
    Open,
    SystemRead,
    SystemWrite,
    /// Cypher may write, so one capability covers both until queries are told apart.
    GraphQuery,
    IngestRead,
    IngestWrite,
    StandingRead,
    StandingWrite,
}

/// What body a route takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Takes {
    Nothing,
    /// YAML or JSON.
    Data,
    /// YAML, JSON, or the bare text of a query.
    Query,
}

impl Takes {
    fn expected(self) -> &'static str {
        match self {
            Takes::Nothing => "",
            Takes::Data => "application/yaml or application/json",
            Takes::Query => "application/yaml or application/json or text/plain",
        }
    }
}

type Handler = fn(Arc<App>, Request) -> BoxFuture<'static, Result<Response, ApiError>>;

pub struct Route {
    method: Method,
    /// `{name}` stands for one segment.
    path: &'static str,
    takes: Takes,
    pub capability: Capability,
    /// What it answers with, for `Accept`; empty when any goes.
    gives: &'static str,
    handler: Handler,
}

const JSON: &str = "application/json";

/// Bodies up to this are decoded where connections are served.
const AT_ONCE_BYTES_MAX: usize = 16 << 10;

macro_rules! route {
    ($method:ident $path:literal, $takes:ident, $capability:ident, $gives:expr, $handler:path) => {
        Route {
            method: Method::$method,
            path: $path,
            takes: Takes::$takes,
            capability: Capability::$capability,
            gives: $gives,
            handler: |app, request| Box::pin($handler(app, request)),
        }
    };
}

/// Every route, by group. The first that matches is taken, so fixed segments stand before `{name}`.
pub static ROUTES: &[Route] = &[
    route!(GET "/", Nothing, Open, "", ui::page),
    route!(GET "/live/state", Nothing, Open, JSON, ui::state),
    route!(GET "/live/events", Nothing, Open, "", ui::events),
    //
    route!(GET "/api/v1/admin/build-info", Nothing, SystemRead, JSON, admin::build_info),
    route!(GET "/api/v1/admin/config", Nothing, SystemRead, JSON, admin::config),
    route!(GET "/api/v1/admin/liveness", Nothing, Open, "", admin::liveness),
    route!(GET "/api/v1/admin/readiness", Nothing, Open, "", admin::readiness),
    route!(GET "/api/v1/admin/meta-data", Nothing, SystemRead, JSON, admin::metadata),
    route!(POST "/api/v1/admin/shutdown", Nothing, SystemWrite, "", admin::shutdown),
    //
    route!(POST "/api/v1/query/cypher", Query, GraphQuery, JSON, query::table),
    route!(POST "/api/v1/query/cypher/nodes", Query, GraphQuery, JSON, query::nodes),
    route!(POST "/api/v1/query/cypher/edges", Query, GraphQuery, JSON, query::edges),
    route!(GET "/api/v1/query/cypher/running", Nothing, GraphQuery, JSON, running::list),
    route!(DELETE "/api/v1/query/cypher/running/{id}", Nothing, GraphQuery, JSON, running::cancel),
    route!(GET "/api/v2/cypher-queries/running", Nothing, GraphQuery, JSON, running::list_enveloped),
    route!(DELETE "/api/v2/cypher-queries/running/{id}", Nothing, GraphQuery, JSON, running::cancel_enveloped),
    //
    route!(GET "/api/v1/ingest", Nothing, IngestRead, JSON, ingest::list),
    route!(POST "/api/v1/ingest/{name}", Data, IngestWrite, "", ingest::create),
    route!(GET "/api/v1/ingest/{name}", Nothing, IngestRead, JSON, ingest::get),
    route!(DELETE "/api/v1/ingest/{name}", Nothing, IngestWrite, JSON, ingest::delete),
    route!(PUT "/api/v1/ingest/{name}/pause", Nothing, IngestWrite, JSON, ingest::pause),
    route!(PUT "/api/v1/ingest/{name}/start", Nothing, IngestWrite, JSON, ingest::start),
    //
    route!(GET "/api/v1/query/standing", Nothing, StandingRead, JSON, standing::list),
    route!(POST "/api/v1/query/standing/control/propagate", Nothing, StandingWrite, "", standing::propagate),
    route!(POST "/api/v1/query/standing/{name}", Data, StandingWrite, "", standing::create),
    route!(GET "/api/v1/query/standing/{name}", Nothing, StandingRead, JSON, standing::get),
    route!(DELETE "/api/v1/query/standing/{name}", Nothing, StandingWrite, JSON, standing::delete),
    route!(GET "/api/v1/query/standing/{name}/results", Nothing, StandingRead, "", standing::results),
    route!(POST "/api/v1/query/standing/{name}/output/{output}", Data, StandingWrite, "", standing::add_output),
    route!(DELETE "/api/v1/query/standing/{name}/output/{output}", Nothing, StandingWrite, JSON, standing::remove_output),
];

/// Takes whatever comes, and answers from the table.
pub async fn answer(app: Arc<App>, remote: SocketAddr, request: http::Request<Incoming>) -> Response {
    let (head, body) = request.into_parts();
    respond(app, remote, head, body).await.unwrap_or_else(ApiError::into_response)
}

async fn respond(app: Arc<App>, remote: SocketAddr, head: http::request::Parts, body: Incoming) -> Result<Response, ApiError> {
    let (method, path, query) = (head.method, head.uri.path(), head.uri.query().unwrap_or_default());
    if method == Method::HEAD || method == Method::OPTIONS {
        return Err(ApiError::Method);
    }
    let headers = head.headers;
    let (route, names) = find(&method, path).ok_or_else(|| no_route(path, query, &headers))?;
    let query = parse_query(query);
    let mut request = Request { names, query, content: Content::None, body: Vec::new(), headers, remote: Some(remote) };
    if route.takes != Takes::Nothing {
        request.content = content(route.takes, &request.headers)?;
        let read = read_body(body, &request.headers, app.settings.webserver.body_bytes_max);
        let read = tokio::time::timeout(app.settings.webserver.body_timeout, read).await;
        request.body = read.map_err(|_| ApiError::SlowBody)??;
    }
    if !accepts(&request.headers, route.gives) {
        return Err(ApiError::NotAcceptable(route.gives));
    }
    let limit = app.settings.webserver.request_timeout;
    tokio::time::timeout(limit, (route.handler)(app, request)).await.map_err(|_| ApiError::TimeLimit(limit.as_millis()))?
}

fn find(method: &Method, path: &str) -> Option<(&'static Route, Vec<String>)> {
    ROUTES.iter().filter(|route| route.method == *method).find_map(|route| Some((route, matches(route.path, path)?)))
}

/// The segments that stand for `{…}`, decoded.
fn matches(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        let segment = segments.next()?;
        if part.starts_with('{') {
            names.push(percent_decode(segment, false).filter(|name| !name.is_empty())?);
        } else if part != segment {
            return None;
        }
    }
    segments.next().is_none().then_some(names)
}

/// A path with a slash too many is sent to the one without; anything else is not there.
fn no_route(path: &str, query: &str, headers: &HeaderMap) -> ApiError {
    match path.strip_suffix('/') {
        Some(shorter) if ROUTES.iter().any(|route| matches(route.path, shorter).is_some()) => {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            ApiError::Moved(format!("http://{host}{shorter}{query}"))
        }
        _ => ApiError::NoRoute,
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Content {
    None,
    Json,
    Yaml,
    Text,
}

fn content(takes: Takes, headers: &HeaderMap) -> Result<Content, ApiError> {
    // As the reference has it: without a type, a body is a stream of bytes, which nothing takes.
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/octet-stream");
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" => Ok(Content::Json),
        "application/yaml" => Ok(Content::Yaml),
        "text/plain" if takes == Takes::Query => Ok(Content::Text),
        _ => Err(ApiError::ContentType { given: given.to_owned(), expected: takes.expected() }),
    }
}

fn accepts(headers: &HeaderMap, gives: &str) -> bool {
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return true };
    let family = gives.split('/').next().unwrap_or_default();
    gives.is_empty()
        || accept
            .split(',')
            .map(|range| range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
            .any(|range| range == "*/*" || range == gives || range.strip_suffix("/*").is_some_and(|wanted| wanted == family))
}

async fn read_body(mut body: Incoming, headers: &HeaderMap, bytes_max: u64) -> Result<Vec<u8>, ApiError> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(ApiError::TooLarge(bytes_max));
    }
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(1 << 20) as usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad(format!("the body could not be read: {error}")))?;
        // Trailers mean nothing here.
        let Ok(chunk) = frame.into_data() else { continue };
        if (bytes.len() + chunk.len()) as u64 > bytes_max {
            return Err(ApiError::TooLarge(bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A request as handlers see it.
pub struct Request {
    names: Vec<String>,
    query: Vec<(String, String)>,
    content: Content,
    body: Vec<u8>,
    headers: HeaderMap,
    remote: Option<SocketAddr>,
}

/// What many routes take besides their own.
struct Common {
    graph: Graph,
    at: Option<Tick>,
    timeout: Option<Duration>,
}

impl Request {
    /// The text in place of the n-th `{…}`.
    fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn integer(&self, name: &str, mistakes: &mut Vec<String>) -> Option<i64> {
        let text = self.parameter(name)?;
        let value = text.parse().ok();
        if value.is_none() {
            mistakes.push(format!("Invalid integer value '{text}' for query parameter '{name}'"));
        }
        value
    }

    fn boolean(&self, name: &str, mistakes: &mut Vec<String>) -> Option<bool> {
        match self.parameter(name)? {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            text => {
                mistakes.push(format!("Invalid boolean value '{text}' for query parameter '{name}'"));
                None
            }
        }
    }

    fn client(&self) -> Client {
        let agent = self.headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        Client { agent, remote: self.remote }
    }

    fn is_text(&self) -> bool {
        self.content == Content::Text
    }

    fn text(&self) -> Result<&str, ApiError> {
        std::str::from_utf8(&self.body).map_err(|error| ApiError::bad(format!("the body is not UTF-8: {error}")))
    }

    fn data(&self) -> Result<Json, ApiError> {
        let decode = || if self.content == Content::Yaml { decode::yaml(&self.body) } else { decode::json(&self.body) };
        // Large ones take their time, which other connections must not wait for.
        let decoded = if self.body.len() > AT_ONCE_BYTES_MAX { tokio::task::block_in_place(decode) } else { decode() };
        decoded.map_err(ApiError::Bad)
    }

    /// `namespace`, `at-time` and `timeout`.
    fn common(&self, app: &App) -> Result<Common, ApiError> {
        let mut mistakes = Vec::new();
        let at = self.integer("at-time", &mut mistakes);
        let timeout = self.integer("timeout", &mut mistakes);
        if !mistakes.is_empty() {
            return Err(ApiError::Bad(mistakes));
        }
        let now = clock::millis(SystemTime::now());
        if let Some(at) = at.filter(|at| *at > now as i64) {
            return Err(ApiError::bad(format!("Value {at} must be less than system time {now} for query parameter 'at-time'")));
        }
        Ok(Common {
            graph: self.graph(app)?,
            at: at.map(|millis| Tick::end_of_millis(millis.max(0) as u64)),
            timeout: timeout.map(|millis| Duration::from_millis(millis.max(0) as u64)),
        })
    }

    /// The graph that `namespace` names.
    fn graph(&self, app: &App) -> Result<Graph, ApiError> {
        app.graph(self.parameter("namespace"))
    }
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| percent_decode(text, true).unwrap_or_else(|| text.to_owned());
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// None when the result is not UTF-8.
fn percent_decode(text: &str, plus_is_space: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                decoded.push(value);
                at += 2;
            }
            (b'+', _) if plus_is_space => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).ok()
}

/// Runs what blocks (queries, creating and stopping things) away from the threads that serve connections.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::Failed(format!("a task failed: {error}")))?
}

fn json(value: &Json) -> Response {
    json_text(value.to_string())
}

fn json_bytes(body: Vec<u8>) -> Response {
    let mut reply = warp::http::Response::new(body).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// A body that leaves as it comes. An error breaks the connection.
fn json_parts(parts: impl Stream<Item = std::io::Result<Vec<u8>>> + Send + Sync + 'static) -> Response {
    let mut reply = warp::reply::stream(parts).into_response();
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

fn json_text(body: String) -> Response {
    error::response(StatusCode::OK, Some(JSON), body)
}

fn empty(status: StatusCode) -> Response {
    error::response(status, None, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_by_segment() {
        assert_eq!(matches("/a/{x}/b", "/a/1/b"), Some(vec!["1".to_owned()]));
        assert_eq!(matches("/a/{x}", "/a/%C3%A9%2Fb"), Some(vec!["é/b".to_owned()]));
        assert_eq!(matches("/a/{x}", "/a/"), None);
        assert_eq!(matches("/a/{x}", "/a/1/2"), None);
        assert_eq!(matches("/a/{x}", "/a/%ff"), None);
        let (route, names) = find(&Method::POST, "/api/v1/query/standing/control/propagate").expect("a route");
        assert_eq!((route.path, names.len()), ("/api/v1/query/standing/control/propagate", 0));
    }

    #[test]
    fn every_route_has_its_own_place() {
        for (index, route) in ROUTES.iter().enumerate() {
            assert!(
                ROUTES[..index].iter().all(|other| (&other.method, other.path) != (&route.method, route.path)),
                "{}",
                route.path
            );
        }
    }

    #[test]
    fn content_types() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().expect("a header"));
            headers
        };
        assert_eq!(content(Takes::Data, &with("application/json; charset=utf-8")).ok(), Some(Content::Json));
        assert_eq!(content(Takes::Query, &with("text/plain;charset=UTF-8")).ok(), Some(Content::Text));
        assert!(content(Takes::Data, &with("text/plain")).is_err());
        assert!(content(Takes::Query, &with("text/yaml")).is_err());
        assert!(content(Takes::Data, &HeaderMap::new()).is_err());
    }

    #[test]
    fn accept_headers() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().expect("a header"));
            headers
        };
        assert!(accepts(&with("text/html, application/*;q=0.5"), JSON));
        assert!(accepts(&with("*/*"), JSON));
        assert!(!accepts(&with("text/plain"), JSON));
        assert!(accepts(&with("text/plain"), ""));
    }

    #[test]
    fn query_strings() {
        let parsed = parse_query("a=1&b=x%20y+z&c&=3&d=%zz");
        let pairs: Vec<(&str, &str)> = parsed.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x y z"), ("c", ""), ("", "3"), ("d", "%zz")]);
    }
}
