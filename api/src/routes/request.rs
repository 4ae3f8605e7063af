//! A request as handlers see it: the one place for what many routes take (`namespace`, `at-time`, `timeout`, the member of a
//! cluster), and for reading bodies and parameters in the words of each family.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use serde_json::Value as Json;
use warp::http::header::USER_AGENT;
use warp::http::{HeaderMap, Method, Uri};
use weir_connectors::body::Cut;
use weir_engine::Graph;
use weir_model::{NodeId, Tick, Value};

use super::auth;
use crate::app::App;
use crate::auth::Caller;
use crate::clock;
use crate::error::{ApiError, INVALID};
use crate::queries::Client;
use crate::traces::Context;
use crate::wire::decode;
use crate::wire::family::{Family, parse_duration};
use crate::wire::v2::names::no_name;
use crate::wire::values;

/// Bodies up to this are decoded where connections are served.
const AT_ONCE_BYTES_MAX: usize = 16 << 10;

/// How long a query of v2 may take that says nothing about it.
const TIMEOUT_V2: Duration = Duration::from_secs(20);

/// The names that one parameter has.
pub type Names = &'static [&'static str];

pub const AT_TIME: Names = &["at-time", "atTime"];
const TIMEOUT: Names = &["timeout"];
const MEMBER: Names = &["memberIdx", "member-idx"];
/// The header in which clients of today say what `MEMBER` does.
pub const MEMBER_HEADER: &str = "Quine-Member-Idx";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Content {
    None,
    Json,
    Yaml,
    Text,
    Records(Cut),
}

pub struct Request {
    pub family: Family,
    /// The graph in the path, where there is one.
    pub graph_name: Option<String>,
    /// The other texts in the path.
    pub names: Vec<String>,
    pub query: Vec<(String, String)>,
    pub content: Content,
    pub body: Vec<u8>,
    pub headers: HeaderMap,
    pub remote: Option<SocketAddr>,
    /// Where it is traced.
    pub trace: Option<Context>,
    /// The connection, for those that turn it into a web socket.
    pub upgrade: Option<OnUpgrade>,
    pub method: Method,
    pub uri: Uri,
    pub caller: Caller,
}

/// What many routes take besides their own.
pub struct Common {
    pub graph: Graph,
    pub at: Option<Tick>,
    /// As given, in milliseconds.
    pub at_millis: Option<i64>,
    pub timeout: Option<Duration>,
}

impl Request {
    /// The text in place of the n-th `{…}`, that of the graph not counted.
    pub fn name(&self, index: usize) -> &str {
        self.names.get(index).map_or("", String::as_str)
    }

    /// As `name`, for the name of a resource, which the template of the path calls `parameter`.
    pub fn resource(&self, index: usize, parameter: &str) -> Result<&str, ApiError> {
        let name = self.name(index);
        let told = |wrong| ApiError::Decode(vec![format!("{INVALID}path parameter {parameter} ({wrong})")]);
        self.no_name(name).map_or(Ok(name), |wrong| Err(told(wrong)))
    }

    /// A name in the body that shall become that of a resource.
    pub fn check_name(&self, name: &str) -> Result<(), ApiError> {
        self.no_name(name).map_or(Ok(()), |wrong| Err(ApiError::Decode(vec![wrong])))
    }

    /// What is wrong with such names.
    pub fn no_names<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<String> {
        names.filter_map(|name| self.no_name(name)).collect()
    }

    /// Why a text is no name, in the family that is strict about them.
    fn no_name(&self, name: &str) -> Option<String> {
        if self.family == Family::Current { no_name(name) } else { None }
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.any(&[name])
    }

    fn any(&self, names: &[&str]) -> Option<&str> {
        self.given(names).map(|(_, value)| value)
    }

    fn given(&self, names: &[&str]) -> Option<(&str, &str)> {
        let found = names.iter().find_map(|name| self.query.iter().find(|(key, _)| key == name));
        found.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The parameter, which must be there.
    pub fn required(&self, name: &str) -> Result<&str, ApiError> {
        self.parameter(name).ok_or_else(|| {
            ApiError::Decode(vec![match self.family {
                Family::V1 => format!("Missing value for query parameter '{name}'"),
                _ => format!("{INVALID}query parameter {name} (missing)"),
            }])
        })
    }

    /// The parameter as a value, if it is one.
    pub fn parsed<T>(
        &self,
        names: Names,
        kind: &str,
        mistakes: &mut Vec<String>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        // In the name its author has used.
        let (name, text) = self.given(names)?;
        let value = parse(text);
        if value.is_none() {
            mistakes.push(match self.family {
                Family::V1 => format!("Invalid {kind} value '{text}' for query parameter '{name}'"),
                _ => format!("{INVALID}query parameter {name} ('{text}' is no {kind})"),
            });
        }
        value
    }

    pub fn integer(&self, names: Names, mistakes: &mut Vec<String>) -> Option<i64> {
        self.parsed(names, "integer", mistakes, |text| text.parse().ok())
    }

    pub fn number(&self, names: Names, mistakes: &mut Vec<String>) -> Option<f64> {
        self.parsed(names, "number", mistakes, |text| text.parse().ok().filter(|x: &f64| x.is_finite()))
    }

    pub fn boolean(&self, names: Names, mistakes: &mut Vec<String>) -> Option<bool> {
        self.parsed(names, "boolean", mistakes, |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    /// The id of a node in the path.
    pub fn node(&self, app: &App, index: usize) -> Result<NodeId, ApiError> {
        let text = self.name(index);
        app.settings.ids.parse(text).ok_or_else(|| {
            ApiError::Decode(vec![match self.family {
                Family::V1 => format!("Invalid ID value '{text}' for segment 'id'"),
                _ => format!("{INVALID}path parameter id ('{text}' is no node id)"),
            }])
        })
    }

    pub fn client(&self) -> Client {
        let agent = self.headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        let who = self.caller.identity().map(|identity| auth::who(identity));
        Client { agent, remote: self.remote, trace: self.trace, who }
    }

    pub fn is_text(&self) -> bool {
        self.content == Content::Text
    }

    pub fn text(&self) -> Result<&str, ApiError> {
        std::str::from_utf8(&self.body).map_err(|error| ApiError::Decode(vec![format!("the body is not UTF-8: {error}")]))
    }

    pub fn data(&self) -> Result<Json, ApiError> {
        self.decoded(|| if self.is_yaml() { decode::yaml(&self.body) } else { decode::json(&self.body) })
    }

    /// The body that is a value of queries.
    pub fn value(&self) -> Result<Value, ApiError> {
        self.decoded(|| values::value(&self.body, self.is_yaml()))
    }

    /// The body, and the object of such values that a field of it is; see `values`.
    pub fn data_with(&self, field: &str) -> Result<(Json, Value), ApiError> {
        self.decoded(|| values::body_with(&self.body, self.is_yaml(), field))
    }

    fn is_yaml(&self) -> bool {
        self.content == Content::Yaml
    }

    fn decoded<T>(&self, decode: impl FnOnce() -> Result<T, Vec<String>>) -> Result<T, ApiError> {
        // Large ones take their time, which other connections must not wait for.
        let decoded = if self.body.len() > AT_ONCE_BYTES_MAX { tokio::task::block_in_place(decode) } else { decode() };
        decoded.map_err(ApiError::Decode)
    }

    /// The graph, the moment to read, and how long that may take.
    pub fn common(&self, app: &App) -> Result<Common, ApiError> {
        let mut mistakes = Vec::new();
        let v2 = self.family.is_v2();
        let names = if v2 { AT_TIME } else { &AT_TIME[..1] };
        let at = if v2 { self.parsed(names, "time", &mut mistakes, millis_of) } else { self.integer(names, &mut mistakes) };
        let timeout = if v2 {
            self.parsed(TIMEOUT, "duration", &mut mistakes, |text| {
                text.parse().ok().map(Duration::from_millis).or_else(|| parse_duration(text))
            })
        } else {
            self.integer(TIMEOUT, &mut mistakes).map(|millis| Duration::from_millis(millis.max(0) as u64))
        };
        if !mistakes.is_empty() {
            return Err(ApiError::Decode(mistakes));
        }
        let graph = self.graph(app)?;
        // Where the system's clock was set back, that of the graph stands at its last change.
        let now = graph.now_millis();
        if at.is_some_and(|at| at > now as i64)
            && let Some((name, given)) = self.given(names)
        {
            let now = clock::spelt_like(given, clock::from_millis(now));
            return Err(ApiError::bad(format!("Value {given} must be less than system time {now} for query parameter '{name}'")));
        }
        Ok(Common {
            graph,
            at: at.map(|millis| Tick::end_of_millis(millis.max(0) as u64)),
            at_millis: at,
            timeout: timeout.or(v2.then_some(TIMEOUT_V2)),
        })
    }

    /// Which member of the cluster shall answer, in v2. There is one, and it answers whatever the number is; what is none is
    /// refused. The header is stronger than the parameters.
    pub fn check_member(&self) -> Result<(), ApiError> {
        if !self.family.is_v2() {
            return Ok(());
        }
        let mut mistakes = Vec::new();
        match self.headers.get(MEMBER_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes())) {
            Some(text) if text.trim().parse::<i64>().is_err() => {
                mistakes.push(format!("{INVALID}header {MEMBER_HEADER} ('{text}' is no integer)"));
            }
            Some(_) => {}
            None => {
                self.integer(MEMBER, &mut mistakes);
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(ApiError::Decode(mistakes)) }
    }

    /// The graph that the path or `namespace` names, of the one member that there is.
    pub fn graph(&self, app: &App) -> Result<Graph, ApiError> {
        self.check_member()?;
        app.graph(self.named_graph())
    }

    /// Its name, where one is named.
    pub fn named_graph(&self) -> Option<&str> {
        self.graph_name.as_deref().or_else(|| self.any(&["namespace", "graphName"]))
    }
}

/// Milliseconds, or an instant such as `2026-03-01T10:00:00Z`.
fn millis_of(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| clock::parse_instant(text))
}
