//! The routes: which there are stands in `table`, one row each. Here is what is the same for all of them: finding the row,
//! content types, bodies, limits of time. Handlers are thin: they read parameters, ask the part of the service that knows,
//! and answer with a `Reply`, which looks as its family has it.

mod admin;
mod algorithms;
mod auth;
mod debug;
mod documents;
pub mod gremlin;
mod ingest;
mod logs;
mod matching;
mod namespaces;
pub mod query;
mod query_ui;
mod reply;
mod request;
mod running;
mod shards;
mod sockets;
mod spans;
mod standing;
mod table;
mod transfer;
mod ui;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use warp::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use warp::http::{self, HeaderMap, HeaderValue};
use warp::reply::Response;
use weir_connectors::body::Cut;
use weir_connectors::charset::Charset;

use self::matching::{matches, parse_query};
use self::reply::Reply;
use self::request::Content;
use crate::app::{App, LATE_REQUEST_MAX};
use crate::auth::{Caller, Came, LOGIN_PAGE, Permission};
use crate::client::encoded;
use crate::error::ApiError;
use crate::sockets::is_asked;
use crate::traces::{Context, Span};
use crate::wire::decode;
use crate::wire::family::Family;

pub use self::request::{MEMBER_HEADER, Request};
pub use self::shards::ShardLimits;
pub use self::table::ROUTES;
pub use self::ui::starting;
pub use warp::http::Method;

/// What body a route takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    Nothing,
    /// YAML or JSON: a definition, up to `DEFINITION_BYTES_MAX`.
    Data,
    /// YAML or JSON: values of single nodes, which may be long.
    Value,
    /// YAML, JSON, or the bare text of a query.
    Query,
    /// Records, cut as the content type says.
    Records,
}

impl Takes {
    fn expected(self) -> &'static str {
        match self {
            Takes::Nothing => "",
            Takes::Data | Takes::Value => "application/yaml or application/json",
            Takes::Query => "application/yaml or application/json or text/plain",
            Takes::Records => {
                "application/json or application/x-ndjson or application/jsonl or text/plain or application/octet-stream"
            }
        }
    }
}

type Handler = fn(Arc<App>, Request) -> BoxFuture<'static, Result<Reply, ApiError>>;

pub struct Route {
    pub method: Method,
    /// `{name}` stands for one segment, `{name}:verb` for one that ends so.
    pub path: &'static str,
    pub takes: Takes,
    /// What its caller must be allowed to, where there are logins.
    pub permission: Permission,
    /// What it answers with, for `Accept`; empty when any goes.
    pub gives: &'static str,
    /// The handler's, by which `openapi` knows what it does.
    pub name: &'static str,
    handler: Handler,
}

impl Route {
    pub fn family(&self) -> Family {
        Family::of(self.path)
    }

    /// Whether it can be answered while standing queries are not there yet. A query that writes is refused when it does.
    pub fn only_reads(&self) -> bool {
        let tells_how_far = ["admin::liveness", "admin::readiness"].contains(&self.name);
        let needs_the_rest = ["standing::results", "transfer::back_up", "admin::usage"].contains(&self.name)
            || self.name.starts_with("ingest::")
            || self.is_socket();
        let may_read = self.method == Method::GET || self.is_query();
        !tells_how_far && !needs_the_rest && may_read && self.name != "query::user_defined"
    }

    /// Whether it is given up when its answer does not begin within `webserver.request-timeout`. A query that is given up ends
    /// there. Any other change is made all the same by the thread that is at it, so its client waits for what becomes of it: it
    /// was told of a failure, and the change was made.
    fn is_given_up(&self) -> bool {
        let only_looks = ["standing::why", "algorithms::walk", "transfer::back_up_since"].contains(&self.name);
        self.method == Method::GET || self.is_query() || only_looks
    }

    fn is_query(&self) -> bool {
        ["query::", "gremlin::", "running::"].iter().any(|group| self.name.starts_with(group))
    }

    /// Whether people look at it in a browser.
    pub fn is_page(&self) -> bool {
        PAGES.contains(&self.name)
    }

    /// Whether it turns the connection into a web socket.
    pub fn is_socket(&self) -> bool {
        self.gives == table::SOCKET
    }
}

/// The handlers of pages.
const PAGES: &[&str] = &["ui::page", "ui::explorer", "ui::streams", "documents::page", "documents::page_v1"];

/// Takes whatever comes, and answers from the table. What is left of the body was not wanted.
pub async fn answer(app: Arc<App>, remote: SocketAddr, request: &mut http::Request<Incoming>) -> Response {
    let (family, heads) = (Family::of(request.uri().path()), request.method() == Method::HEAD);
    let response = respond(app, remote, request, family).await.unwrap_or_else(|error| error.into_response(family));
    if heads { without_body(response) } else { response }
}

async fn respond(
    app: Arc<App>,
    remote: SocketAddr,
    request: &mut http::Request<Incoming>,
    family: Family,
) -> Result<Response, ApiError> {
    let path = request.uri().path();
    // Pages, documents and figures; what is under /api/ has its own methods.
    let is_page = request.method() == Method::HEAD && !path.starts_with(API);
    let method = if is_page { Method::GET } else { request.method().clone() };
    let found = find(&method, path, is_asked(request.headers()));
    let (route, names) = found.ok_or_else(|| no_route(request, family))?;
    let target = request.uri().path().to_owned();
    let mut span = spans::begin(route, remote, request);
    let trace = span.as_ref().and_then(Span::context);
    let came = Came { method: request.method(), uri: request.uri(), headers: request.headers() };
    let admitted = admitted(&app, route, came).await;
    let caller = admitted.as_ref().ok().cloned();
    let handled = async { handled(app, remote, request, route, names, trace, admitted?).await };
    let mut response = handled.await.unwrap_or_else(|error| error.into_response(family));
    if matches!(caller, Some(Caller::Known(_))) {
        // What somebody may see is not for the next one, nor for whoever uses the browser after a logout.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    logs::audit(route, remote, caller.as_ref(), &target, response.status());
    spans::end(&mut span, response.status());
    Ok(response)
}

/// Who asks, if they may. What is refused here has read no body and run nothing.
async fn admitted(app: &App, route: &Route, came: Came<'_>) -> Result<Caller, ApiError> {
    let Some(auth) = &app.auth else { return Ok(Caller::Anyone) };
    if route.permission == Permission::Open {
        return Ok(Caller::Nobody);
    }
    // By the row: the path that was sent may write it in another way.
    match auth.identify(came, !route.path.starts_with(API), &app.settings.webserver).await {
        Ok(identity) => {
            let caller = Caller::Known(identity);
            caller.check(route.permission)?;
            Ok(caller)
        }
        // Somebody looks at a page, who can log in and come back. Pages lie beside each other, whatever a proxy puts before them.
        Err(ApiError::Unauthenticated { .. }) if auth.takes_browsers() && route.is_page() && wants_page(came.headers) => {
            let back = came.uri.path_and_query().map_or("/", |target| target.as_str());
            Err(ApiError::LogIn(format!("{LOGIN_PAGE}?returnTo={}", encoded(back))))
        }
        Err(error) => Err(error),
    }
}

/// Whether a browser asks for something that it shows.
fn wants_page(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    lines.any(|line| line.contains("text/html"))
}

/// The answer to HEAD: what is known of the body, and nothing of it. Over HTTP/2 nobody else leaves it out.
fn without_body(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(head, Default::default())
}

async fn handled(
    app: Arc<App>,
    remote: SocketAddr,
    received: &mut http::Request<Incoming>,
    route: &'static Route,
    mut names: Vec<String>,
    trace: Option<Context>,
    caller: Caller,
) -> Result<Response, ApiError> {
    let family = route.family();
    let upgrade = route.is_socket().then(|| hyper::upgrade::on(&mut *received));
    let graph_name = route.path.starts_with(table::OF_GRAPH).then(|| names.remove(0));
    let query = parse_query(received.uri().query().unwrap_or_default());
    let mut request = Request {
        family,
        graph_name,
        names,
        query,
        content: Content::None,
        body: Vec::new(),
        headers: std::mem::take(received.headers_mut()),
        remote: Some(remote),
        trace,
        upgrade,
        method: received.method().clone(),
        uri: received.uri().clone(),
        caller,
    };
    if route.takes != Takes::Nothing {
        request.content = content(route.takes, family, &request.headers)?;
        let read = read_body(received, &request.headers, route.takes, app.settings.webserver.body_bytes_max);
        let read = tokio::time::timeout(app.settings.webserver.body_timeout, read);
        // Nobody waits for the rest of one that weir would take nothing from any more.
        request.body = tokio::select! {
            biased;
            read = read => read.map_err(|_| ApiError::SlowBody)??,
            () = app.stopped_for(LATE_REQUEST_MAX) => return Err(ApiError::stopping()),
        };
        if route.takes != Takes::Records {
            request.body = in_utf8(request.body, &request.headers, route.takes)?;
        }
    }
    if !route.is_socket() && !accepts(&request.headers, route.gives) {
        return Err(ApiError::NotAcceptable(route.gives));
    }
    let limit = app.settings.webserver.request_timeout;
    let answer = (route.handler)(app, request);
    let answer = if route.is_given_up() {
        tokio::time::timeout(limit, answer).await.map_err(|_| ApiError::TimeLimit(limit.as_millis()))?
    } else {
        answer.await
    };
    Ok(answer?.into_response(family))
}

/// Routes whose path holds no name, by path. Most requests are for one of these.
static FIXED: LazyLock<HashMap<&'static str, Vec<&'static Route>>> = LazyLock::new(|| {
    let mut fixed: HashMap<&str, Vec<&Route>> = HashMap::new();
    for route in ROUTES.iter().filter(|route| !route.path.contains('{')) {
        fixed.entry(route.path).or_default().push(route);
    }
    fixed
});

/// The row for a path. `upgrade`: the connection is to become a web socket; where a path is both, others do not get that row.
pub fn find(method: &Method, path: &str, upgrade: bool) -> Option<(&'static Route, Vec<String>)> {
    if let Some(route) = FIXED.get(path).and_then(|routes| routes.iter().find(|route| route.method == *method)) {
        return Some((route, Vec::new()));
    }
    let mut found =
        ROUTES.iter().filter(|route| route.method == *method).filter_map(|route| Some((route, matches(route.path, path)?)));
    let (first, names) = found.next()?;
    if first.is_socket() && !upgrade {
        return found.find(|(route, _)| route.path == first.path).or(Some((first, names)));
    }
    Some((first, names))
}

/// What is said where no row fits: a wrong method, a path with a slash too many, or nothing there.
fn no_route(request: &http::Request<Incoming>, family: Family) -> ApiError {
    const METHODS: &str = "POST, GET, PUT, DELETE";
    let (method, path) = (request.method(), request.uri().path());
    let at = |path: &str| ROUTES.iter().filter(|route| matches(route.path, path).is_some()).collect::<Vec<_>>();
    let asks_of_it = method == Method::HEAD || method == Method::OPTIONS;
    if asks_of_it && path.starts_with(API_V1) {
        return ApiError::Method(METHODS.to_owned());
    }
    let there = at(path);
    // Elsewhere v1 knows no wrong methods.
    if (family.is_v2() || asks_of_it) && !there.is_empty() {
        let mut methods: Vec<&str> = there.iter().map(|route| route.method.as_str()).collect();
        if !path.starts_with(API) {
            methods.push(Method::HEAD.as_str());
        }
        methods.sort_unstable();
        methods.dedup();
        return ApiError::Method(methods.join(", "));
    }
    let gets = method == Method::GET || method == Method::HEAD;
    match path.strip_suffix('/') {
        Some(shorter) if !at(shorter).is_empty() => {
            let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
            // By which scheme and host it is reached only a proxy knows, and of pages what it puts before them.
            let to = match shorter.rsplit_once('/') {
                Some((_, page)) if !path.starts_with(API) => format!("../{page}"),
                _ => shorter.to_owned(),
            };
            ApiError::Moved(to + &query)
        }
        // They begin behind whatever a proxy puts before them.
        Some(shorter) if gets && OTHER_PAGES.contains(&shorter) => ApiError::Elsewhere("../"),
        None if gets && OTHER_PAGES.contains(&path) => ApiError::Elsewhere("./"),
        _ => ApiError::NoRoute,
    }
}

/// What is under these is no page.
const API: &str = "/api/";
const API_V1: &str = "/api/v1";

/// Where the service that weir is compatible with has its pages: who kept such an address finds the page that there is.
const OTHER_PAGES: [&str; 3] = ["/home", "/dashboard", "/explorer-settings"];

fn content(takes: Takes, family: Family, headers: &HeaderMap) -> Result<Content, ApiError> {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if takes == Takes::Records {
        let given = given.unwrap_or("application/octet-stream");
        let cut = Cut::of(&essence(given));
        let unknown = || ApiError::ContentType { given: given.to_owned(), expected: takes.expected() };
        return cut.map(Content::Records).ok_or_else(unknown);
    }
    // As the reference has it: without a type, a body of v1 is a stream of bytes, which nothing takes; one of v2 is data.
    let given = given.unwrap_or(if family.is_v2() { "application/yaml" } else { "application/octet-stream" });
    match essence(given).as_str() {
        "application/json" => Ok(Content::Json),
        "application/yaml" => Ok(Content::Yaml),
        "text/plain" if takes == Takes::Query => Ok(Content::Text),
        _ => Err(ApiError::ContentType { given: given.to_owned(), expected: takes.expected() }),
    }
}

/// A text in the character set that its content type names.
fn in_utf8(body: Vec<u8>, headers: &HeaderMap, takes: Takes) -> Result<Vec<u8>, ApiError> {
    let mut lines = headers.get_all(CONTENT_ENCODING).iter();
    if let Some(given) = lines.find(|given| !given.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let given = String::from_utf8_lossy(given.as_bytes()).into_owned();
        return Err(ApiError::ContentEncoding { given, expected: "none".to_owned() });
    }
    let Some(given) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return Ok(body) };
    let parameters = given.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let named = parameters.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let Some((_, name)) = named else { return Ok(body) };
    let unknown = |_| ApiError::ContentType { given: given.to_owned(), expected: takes.expected() };
    Ok(Charset::named(name.trim().trim_matches('"')).map_err(unknown)?.text(body))
}

/// A content type without its parameters.
fn essence(given: &str) -> String {
    given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn accepts(headers: &HeaderMap, gives: &str) -> bool {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut all = lines.filter(|line| !line.trim().is_empty()).peekable();
    if gives.is_empty() || all.peek().is_none() {
        return true;
    }
    // Of the ranges that it is in, the narrowest says whether it is wanted.
    let narrowest = all.flat_map(|ranges| ranges.split(',')).filter_map(|range| preference(range, gives)).max();
    narrowest.is_some_and(|(_, wanted)| wanted)
}

/// How narrow a range of `Accept` is, and whether it is wanted, of one that a content type is in.
fn preference(range: &str, gives: &str) -> Option<(u8, bool)> {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let family = gives.split('/').next().unwrap_or_default();
    let narrow = match name.strip_suffix("/*") {
        _ if name.eq_ignore_ascii_case(gives) => 2,
        Some(wanted) if wanted.eq_ignore_ascii_case(family) => 1,
        Some("*") => 0,
        _ => return None,
    };
    let weight = parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    let refused = weight.is_some_and(|(_, weight)| weight.trim().parse::<f32>() == Ok(0.0));
    Some((narrow, !refused))
}

/// A definition takes many times its length while it is read, and none is nearly as long as records are.
const DEFINITION_BYTES_MAX: u64 = decode::YAML_BYTES_MAX as u64;

/// How long a body may be, of those that may be as long as the configuration says, and what is said of a longer one.
fn longest(takes: Takes, bytes_max: u64) -> (u64, &'static str) {
    if takes == Takes::Data && bytes_max > DEFINITION_BYTES_MAX {
        return (DEFINITION_BYTES_MAX, "that it may have here; send data as records of a stream or as parameters of a query");
    }
    (bytes_max, "that webserver.body-bytes-max allows")
}

/// Of a request whose client waits to be asked for its body: it was asked, and sends it.
#[derive(Clone, Copy)]
pub struct BodyAsked;

async fn read_body(
    received: &mut http::Request<Incoming>,
    headers: &HeaderMap,
    takes: Takes,
    bytes_max: u64,
) -> Result<Vec<u8>, ApiError> {
    let (most, why) = longest(takes, bytes_max);
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse::<u64>().ok());
    if announced.is_some_and(|length| length > most) {
        return Err(ApiError::TooLarge { most, why });
    }
    if headers.contains_key(EXPECT) {
        received.extensions_mut().insert(BodyAsked);
    }
    let body = received.body_mut();
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(1 << 20) as usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad(format!("the body could not be read: {error}")))?;
        // Trailers mean nothing here.
        let Ok(chunk) = frame.into_data() else { continue };
        if (bytes.len() + chunk.len()) as u64 > most {
            return Err(ApiError::TooLarge { most, why });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_has_its_own_place() {
        for (index, route) in ROUTES.iter().enumerate() {
            let place = |route: &Route| (route.method.clone(), route.path, route.is_socket());
            let other = ROUTES[..index].iter().find(|other| place(other) == place(route));
            assert!(other.is_none(), "{}", route.path);
        }
    }

    #[test]
    fn no_route_hides_another() {
        for route in ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let (found, _) = find(&route.method, &path, route.is_socket()).unwrap_or_else(|| panic!("{path} is not found"));
            assert_eq!((found.path, found.is_socket()), (route.path, route.is_socket()));
        }
        let (route, names) = find(&Method::POST, "/api/v1/query/standing/control/propagate", false).expect("a route");
        assert_eq!((route.path, names.len()), ("/api/v1/query/standing/control/propagate", 0));
    }

    #[test]
    fn what_changes_something_and_cannot_be_called_off_is_waited_for() {
        let is_given_up = |method: Method, path: &str| {
            let (route, _) = find(&method, path, false).unwrap_or_else(|| panic!("{path} is not found"));
            route.is_given_up()
        };
        let queries = ["/api/v1/query/cypher", "/api/v2/graph/g/cypher:query", "/api/v1/query/gremlin"];
        for path in queries.into_iter().chain(["/api/v1/query/standing/q/why", "/api/v1/admin/backup"]) {
            assert!(is_given_up(Method::POST, path), "{path}");
        }
        assert!(is_given_up(Method::GET, "/api/v1/admin/graph-hash-code"));
        for path in ["/api/v1/admin/import", "/api/v1/ingest/s", "/api/v1/ingest/s/records", "/api/v1/query/standing/q"] {
            assert!(!is_given_up(Method::POST, path), "{path}");
        }
        for path in ["/api/v1/namespace/n", "/api/v1/query/standing/q", "/api/v1/ingest/s", "/api/v1/debug/1"] {
            assert!(!is_given_up(Method::DELETE, path), "{path}");
        }
    }

    #[test]
    fn content_types() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().expect("a header"));
            headers
        };
        let v1 = Family::V1;
        assert_eq!(content(Takes::Data, v1, &with("application/json; charset=utf-8")).ok(), Some(Content::Json));
        assert_eq!(content(Takes::Query, v1, &with("text/plain;charset=UTF-8")).ok(), Some(Content::Text));
        assert!(content(Takes::Data, v1, &with("text/plain")).is_err());
        assert!(content(Takes::Query, v1, &with("text/yaml")).is_err());
        assert!(content(Takes::Data, v1, &HeaderMap::new()).is_err());
        assert_eq!(content(Takes::Data, Family::Preview, &HeaderMap::new()).ok(), Some(Content::Yaml));
        let lines = content(Takes::Records, v1, &with("Application/X-NDJSON; charset=utf-8")).ok();
        assert_eq!(lines, Some(Content::Records(Cut::Lines)));
        assert_eq!(content(Takes::Records, v1, &HeaderMap::new()).ok(), Some(Content::Records(Cut::Whole)));
        for (name, _) in weir_connectors::body::CONTENT_TYPES {
            assert!(Takes::Records.expected().contains(name), "{name}");
        }
    }

    #[test]
    fn definitions_are_short() {
        assert_eq!(longest(Takes::Data, 64 << 20).0, 4 << 20);
        for takes in [Takes::Value, Takes::Query, Takes::Records] {
            assert_eq!(longest(takes, 64 << 20), (64 << 20, "that webserver.body-bytes-max allows"));
        }
        assert_eq!(longest(Takes::Data, 1 << 20), (1 << 20, "that webserver.body-bytes-max allows"));
    }

    #[test]
    fn accept_headers() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().expect("a header"));
            headers
        };
        assert!(accepts(&with("text/html, application/*;q=0.5"), reply::JSON));
        assert!(accepts(&with("*/*"), reply::JSON));
        assert!(!accepts(&with("text/plain"), reply::JSON));
        assert!(accepts(&with("text/plain"), "") && accepts(&HeaderMap::new(), reply::JSON));
        assert!(accepts(&with(""), reply::JSON), "nothing is said");
        assert!(!accepts(&with("application/json;q=0"), reply::JSON));
        assert!(!accepts(&with("*/*, application/json; charset=utf-8; Q=0.000"), reply::JSON));
        assert!(accepts(&with("*/*;q=0, Application/JSON;q=0.001"), reply::JSON));
        assert!(!accepts(&with("application/*;q=0, */*"), reply::JSON));
        let mut several = with("text/plain");
        several.append(ACCEPT, "text/html, application/json".parse().expect("a header"));
        assert!(accepts(&several, reply::JSON));
        several.append(ACCEPT, "application/json;q=0".parse().expect("a header"));
        assert!(accepts(&several, reply::JSON), "one of two that say the same of it wants it");
    }
}
