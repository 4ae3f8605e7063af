//! A collector of traces: takes OTLP over HTTP in its JSON form, decodes all of it strictly, and remembers the spans.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::endpoint::request;

/// A client that says nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(20);

/// The protocol's own words, and no others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Export {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Encoded>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    name: String,
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Encoded {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: Option<String>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    key: String,
    value: AnyValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum AnyValue {
    StringValue(String),
    IntValue(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    #[serde(default)]
    code: u8,
    #[serde(default)]
    message: String,
}

/// A span as it was told.
#[derive(Clone, Debug)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub kind: u8,
    /// Nanoseconds since 1970.
    pub began: u128,
    pub ended: u128,
    pub attributes: BTreeMap<String, String>,
    pub error: Option<String>,
    pub resource: BTreeMap<String, String>,
}

#[derive(Default)]
struct State {
    spans: Vec<Span>,
    /// The headers of each request.
    headers: Vec<BTreeMap<String, String>>,
    /// What the next requests are answered, in order; then 200.
    answers: VecDeque<(u16, &'static str, String)>,
    /// What could not be decoded.
    wrong: Vec<String>,
}

/// Listens until the process ends.
#[derive(Clone)]
pub struct Collector {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Collector {
    pub fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let collector = Collector { address: listener.local_addr().expect("an address"), state: Arc::default() };
        let own = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let collector = own.clone();
                thread::spawn(move || collector.serve(stream));
            }
        });
        collector
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    /// How a request to come is answered: status, headers with their line ends, body. Its spans are not taken unless it is 200.
    pub fn answer_next(&self, status: u16, headers: &'static str, body: &str) {
        self.state().answers.push_back((status, headers, body.to_owned()));
    }

    /// All spans so far. Anything that was not in the protocol is a failure of the test.
    pub fn spans(&self) -> Vec<Span> {
        let state = self.state();
        assert!(state.wrong.is_empty(), "{:?}", state.wrong);
        state.spans.clone()
    }

    /// The headers of each request, in the order of arrival.
    pub fn headers(&self) -> Vec<BTreeMap<String, String>> {
        self.state().headers.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let Ok(mut out) = stream.try_clone() else { return };
        let mut input = BufReader::new(stream);
        while let Some((path, headers, body)) = request(&mut input) {
            let mut state = self.state();
            let (status, more, said) = state.answers.pop_front().unwrap_or((200, "", "{}".to_owned()));
            state.headers.push(headers);
            if path != "/v1/traces" {
                state.wrong.push(format!("a request to {path}"));
            }
            if status == 200 {
                match decode(&body) {
                    Ok(spans) => state.spans.extend(spans),
                    Err(reason) => state.wrong.push(format!("{reason}: {}", String::from_utf8_lossy(&body))),
                }
            }
            drop(state);
            let answer = format!("HTTP/1.1 {status} x\r\n{more}Content-Length: {}\r\n\r\n{said}", said.len());
            if out.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn decode(body: &[u8]) -> Result<Vec<Span>, String> {
    let export: Export = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let mut spans = Vec::new();
    for of_resource in export.resource_spans {
        let resource = attributes(of_resource.resource.attributes)?;
        for of_scope in of_resource.scope_spans {
            if of_scope.scope.name != "weir" || of_scope.scope.version.is_empty() {
                return Err("a scope without name and version".to_owned());
            }
            for encoded in of_scope.spans {
                spans.push(span(encoded, &resource)?);
            }
        }
    }
    Ok(spans)
}

fn span(encoded: Encoded, resource: &BTreeMap<String, String>) -> Result<Span, String> {
    let id = |text: String, digits: usize| {
        let fine =
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()) && text.bytes().any(|byte| byte != b'0');
        if fine { Ok(text) } else { Err(format!("'{text}' is no id of {digits} digits")) }
    };
    let nanoseconds = |text: &str| text.parse::<u128>().map_err(|_| format!("'{text}' is no time"));
    if !(1..=5).contains(&encoded.kind) || encoded.status.code > 2 {
        return Err(format!("kind {} or status {}", encoded.kind, encoded.status.code));
    }
    Ok(Span {
        trace: id(encoded.trace_id, 32)?,
        id: id(encoded.span_id, 16)?,
        parent: encoded.parent_span_id.map(|parent| id(parent, 16)).transpose()?,
        name: encoded.name,
        kind: encoded.kind,
        began: nanoseconds(&encoded.start_time_unix_nano)?,
        ended: nanoseconds(&encoded.end_time_unix_nano)?,
        attributes: attributes(encoded.attributes)?,
        error: (encoded.status.code == 2).then_some(encoded.status.message),
        resource: resource.clone(),
    })
}

fn attributes(all: Vec<Attribute>) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for Attribute { key, value } in all {
        let value = match value {
            AnyValue::StringValue(text) => text,
            AnyValue::IntValue(number) => {
                number.parse::<i64>().map_err(|_| format!("{key} is '{number}', which is no integer"))?;
                number
            }
        };
        if found.insert(key.clone(), value).is_some() {
            return Err(format!("{key} is there twice"));
        }
    }
    Ok(found)
}

impl Span {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    pub fn has(&self, attributes: &[(&str, &str)]) -> bool {
        attributes.iter().all(|(name, value)| self.attribute(name) == *value)
    }
}
