//! A running weir, asked over HTTP: what `weir shell` and `weir query` have in common.
//!
//! A question that is no longer awaited is given up: the connection closes, and the service stops the query. There is no limit
//! of time but the service's own.

mod parameter;
mod rows;
mod token;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use weir_connectors::http;
use weir_cypher_compiler::DiagnosticKind;
use weir_model::lock::lock;

use crate::error::chain;
use crate::wire::diagnostic::HEADER;

pub use parameter::{Parameter, Parameters};
pub use token::Token;

pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// Connections that were idle for longer are not used again. weir closes them after 30 s, and what is sent on one that is being
/// closed may have been carried out or not.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// How many turns others of the runtime get before a request: one to hear that a connection was closed, one to act on it, and as
/// many to spare.
const TURNS: usize = 4;

/// Takes a part of a body, with how much came so far.
pub type EachPart<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<(), String>;

/// A path, its parameters, and a text that is sent where there is one.
pub type Asked<'a> = (&'a str, &'a [(&'a str, String)], Option<String>);

/// Takes some rows of an answer, with its columns.
pub type EachRows<'a, E> = &'a mut dyn FnMut(&[String], Vec<Vec<Json>>) -> Result<(), E>;

/// Where queries go.
#[derive(Clone, Debug)]
pub struct Client {
    connections: Arc<Mutex<Connections>>,
    /// Without a slash at its end.
    url: String,
    pub namespace: Option<String>,
    /// Who asks, for a weir that wants to know.
    token: Token,
    /// The moment that is read, in milliseconds since 1970; none is the present.
    pub at: Option<u64>,
}

#[derive(Debug)]
struct Connections {
    http: http::Client,
    used: Instant,
}

/// A query on its way. It is written as it stands: a tree of JSON in between would make floats of the numbers.
#[derive(Serialize)]
struct Question<'a> {
    text: &'a str,
    parameters: &'a Parameters,
}

/// The answer to a query.
#[derive(Debug, Deserialize)]
pub struct Answer {
    pub columns: Vec<String>,
    pub results: Vec<Vec<Json>>,
}

/// Why there is none.
#[derive(Debug)]
pub enum Problem {
    /// The service said no: all errors it found.
    Refused(Vec<Mistake>),
    /// The service could not be asked, or broke.
    Unreachable(String),
}

/// An error as the service tells it.
#[derive(Debug, Default)]
pub struct Mistake {
    pub text: String,
    /// How many characters are wrong from the caret on, where the error has a place.
    pub length: Option<usize>,
}

impl Client {
    pub fn new(url: &str, namespace: Option<String>, token: Token) -> Result<Client, Problem> {
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let connections = Arc::new(Mutex::new(Connections::new()?));
        Ok(Client { connections, url: url.trim_end_matches('/').to_owned(), namespace, token, at: None })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The version of the service.
    pub async fn version(&self) -> Result<String, Problem> {
        let request = self.token.shown_with(self.http().await?.get(format!("{}/api/v1/admin/build-info", self.url)))?;
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let body: Json = serde_json::from_slice(&body).unwrap_or_default();
        match body["version"].as_str() {
            Some(version) => Ok(version.to_owned()),
            None if matches!(status, 401 | 403) => Err(self.not_let_in(&body)),
            None => Err(Problem::Unreachable(format!("{} answers, but not as weir does (status {status})", self.url))),
        }
    }

    /// Runs a query. `time_max_ms` is a limit the service keeps, for queries that only read.
    pub async fn query(&self, text: &str, parameters: &Parameters, time_max_ms: Option<u64>) -> Result<Answer, Problem> {
        self.read(&self.ask(text, parameters, time_max_ms).await?)
    }

    /// The body of an answer.
    pub fn read(&self, body: &[u8]) -> Result<Answer, Problem> {
        serde_json::from_slice(body).map_err(|error| self.illegible(&error))
    }

    /// As `query`, but gives the body of the answer as it came.
    pub async fn ask(&self, text: &str, parameters: &Parameters, time_max_ms: Option<u64>) -> Result<Vec<u8>, Problem> {
        let mut body = Vec::new();
        let mut part = |bytes: &[u8]| {
            body.extend_from_slice(bytes);
            Ok::<(), Problem>(())
        };
        self.ask_in_parts(text, parameters, time_max_ms, &mut part).await?;
        Ok(body)
    }

    /// Runs a query whose rows are taken as they come, some at a time: first none or more, when the columns are known.
    pub async fn rows<E: From<Problem>>(&self, text: &str, parameters: &Parameters, take: EachRows<'_, E>) -> Result<(), E> {
        let mut reader = rows::Reader::default();
        let mut part = |bytes: &[u8]| {
            let rows = reader.push(bytes).map_err(|error| self.illegible(&error))?;
            reader.columns().map_or(Ok(()), |columns| take(columns, rows))
        };
        self.ask_in_parts(text, parameters, None, &mut part).await?;
        if reader.is_whole() { Ok(()) } else { Err(self.illegible(&"it has no end").into()) }
    }

    async fn ask_in_parts<E: From<Problem>>(
        &self,
        text: &str,
        parameters: &Parameters,
        time_max_ms: Option<u64>,
        part: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        const PATH: &str = "/api/v1/query/cypher";
        let pairs: Vec<_> = time_max_ms.map(|limit| ("timeout", limit.to_string())).into_iter().collect();
        let body = serde_json::to_string(&Question { text, parameters });
        let body = body.map_err(|error| Problem::refused(format!("the query cannot be written as JSON: {error}")))?;
        let request = self.http().await?.post(self.target(PATH, &pairs)).header("content-type", "application/json");
        let request = self.token.shown_with(request)?.body(body);
        let mut answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status().as_u16();
        if status != 200 {
            let lengths = answer.headers().get(HEADER).map(|value| lengths(value.as_bytes())).unwrap_or_default();
            let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
            let name = self.namespace.as_deref().unwrap_or("default");
            let problem = match status {
                404 => self.absent("namespace", name, PATH).await,
                _ => self.refusal(status, &body, &lengths).await,
            };
            return Err(problem.into());
        }
        while let Some(bytes) = answer.chunk().await.map_err(|error| self.broken_off(&error))? {
            part(&bytes)?;
        }
        Ok(())
    }

    /// Takes the body of an answer about something, of a kind and with a name, part by part, with how much it was so far. Gives
    /// how much it was; an answer that breaks off is an error.
    pub async fn download(&self, of: (&str, &str), (path, pairs, text): Asked<'_>, part: EachPart<'_>) -> Result<u64, Problem> {
        let (http, target) = (self.http().await?, self.target(path, pairs));
        let request = match text {
            Some(text) => http.post(target).header("content-type", "text/plain").body(text),
            None => http.get(target),
        };
        let request = self.token.shown_with(request)?;
        let mut answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status().as_u16();
        if status != 200 {
            let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
            let (kind, name) = of;
            return Err(if status == 404 { self.absent(kind, name, path).await } else { self.refusal(status, &body, &[]).await });
        }
        let mut so_far = 0;
        while let Some(bytes) = answer.chunk().await.map_err(|error| self.unreachable(&error))? {
            so_far += bytes.len() as u64;
            part(&bytes, so_far).map_err(Problem::Unreachable)?;
        }
        Ok(so_far)
    }

    /// Sends a text into the namespace, and gives the body of the answer.
    pub async fn upload(&self, path: &str, pairs: &[(&str, String)], text: Vec<u8>) -> Result<Vec<u8>, Problem> {
        let request = self.http().await?.post(self.target(path, pairs)).header("content-type", "text/plain");
        let request = self.token.shown_with(request)?.body(text);
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let name = self.namespace.as_deref().unwrap_or("default");
        match status {
            200 => Ok(body.into()),
            404 => Err(self.absent("namespace", name, path).await),
            _ => Err(self.refusal(status, &body, &[]).await),
        }
    }

    fn target(&self, path: &str, pairs: &[(&str, String)]) -> String {
        let mut asked: Vec<(&str, String)> = pairs.to_vec();
        asked.extend(self.namespace.iter().map(|namespace| ("namespace", namespace.clone())));
        asked.extend(self.at.map(|at| ("at-time", at.to_string())));
        format!("{}{path}{}", self.url, query_string(&asked))
    }

    /// Told with what to do, by a weir that knows its clients.
    fn not_let_in(&self, body: &Json) -> Problem {
        let said = body[0].as_str().unwrap_or("it does not say why");
        let hint = if self.token.is_there() { "" } else { "; give a token with --token-file or in WEIR_TOKEN" };
        Problem::refused(format!("{} does not let you in: {said}{hint}", self.url))
    }

    async fn refusal(&self, status: u16, body: &[u8], lengths: &[usize]) -> Problem {
        if status == 401 {
            return self.not_let_in(&serde_json::from_slice(body).unwrap_or_default());
        }
        // v1 has no body for this, as the reference has none.
        let why = if status == 503 && body.is_empty() { self.why_not_ready().await } else { None };
        let body = why.as_deref().map_or(body, str::as_bytes);
        let mistake = |(index, text): (usize, &String)| Mistake { text: text.clone(), length: lengths.get(index).copied() };
        match serde_json::from_slice::<Vec<String>>(body) {
            Ok(texts) if !texts.is_empty() => Problem::Refused(texts.iter().enumerate().map(mistake).collect()),
            _ => {
                let said = String::from_utf8_lossy(body);
                Problem::refused(format!("{} answers with status {status} {}", self.url, said.trim()).trim_end().to_owned())
            }
        }
    }

    /// None where it has become ready, too.
    async fn why_not_ready(&self) -> Option<String> {
        let answer = self.http().await.ok()?.get(format!("{}/api/v2/admin/readiness", self.url)).send().await.ok()?;
        let body: Json = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
        body["error"]["message"].as_str().map(str::to_owned)
    }

    /// What 404 means: the thing is not there, or no weir is.
    async fn absent(&self, kind: &str, name: &str, path: &str) -> Problem {
        if matches!(self.version().await, Err(Problem::Unreachable(_))) {
            let reason = format!("no weir answers at {0}: {0}{path} was asked, and is not there (status 404)", self.url);
            return Problem::Unreachable(reason);
        }
        let there = self
            .namespace
            .as_ref()
            .filter(|_| kind != "namespace")
            .map_or(String::new(), |name| format!(" in the namespace '{name}'"));
        Problem::refused(format!("there is no {kind} '{name}'{there} at {}", self.url))
    }

    /// Connections that can be used: the runtime may not have run since the last request, and then has not heard which were
    /// closed.
    async fn http(&self) -> Result<http::Client, Problem> {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let mut connections = lock(&self.connections);
        if connections.used.elapsed() > IDLE_MAX {
            *connections = Connections::new()?;
        }
        connections.used = Instant::now();
        Ok(connections.http.clone())
    }

    fn illegible(&self, reason: &dyn fmt::Display) -> Problem {
        Problem::Unreachable(format!("the answer of {} cannot be read: {reason}", self.url))
    }

    /// weir has no other way to say that a query failed whose first rows are sent.
    fn broken_off(&self, error: &dyn std::error::Error) -> Problem {
        let reason = "the query failed while it ran, or weir cannot be reached any more";
        Problem::Unreachable(format!("the answer of {} broke off; {reason}: {}", self.url, chain(error)))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Problem {
        let reason = chain(error);
        Problem::Unreachable(format!("weir at {} cannot be asked: {reason}{}", self.url, hint(&self.url, &reason)))
    }
}

/// What to do about the mistakes that are made most, of which the libraries say only what they saw.
fn hint(url: &str, reason: &str) -> String {
    // A server that speaks TLS answers plain HTTP with an alert, and closes.
    let is_no_http =
        ["invalid HTTP version", "connection closed before message completed"].iter().any(|seen| reason.contains(seen));
    match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(place), _) if is_no_http => format!("; does it speak TLS? Give --url https://{place}"),
        // One that speaks plain HTTP says so in words, which are no message of TLS.
        (_, Some(place)) if reason.contains("InvalidContentType") => {
            format!("; does it speak HTTP without TLS? Give --url http://{place}")
        }
        _ if reason.contains("CaUsedAsEndEntity") => {
            "; the certificate that it shows is that of an authority, which no server may show: make one with \
             basicConstraints=CA:FALSE (docs/configuration.md#tls)"
                .to_owned()
        }
        _ if ["Connection refused", "dns error"].iter().any(|seen| reason.contains(seen)) => {
            "; does weir run there? --url or WEIR_URL says where it listens".to_owned()
        }
        _ => String::new(),
    }
}

/// What is shown to a weir that asks its clients for certificates: the file of WEIR_CERT, with its key there or in that of
/// WEIR_KEY.
fn certificate() -> Result<Option<Vec<u8>>, String> {
    let read = |name: &str| {
        let file = std::env::var_os(name).filter(|file| !file.is_empty());
        let read =
            |file: PathBuf| std::fs::read(&file).map_err(|error| format!("{name}: {} cannot be read: {error}", file.display()));
        file.map(PathBuf::from).map(read).transpose()
    };
    let (certificate, key) = (read("WEIR_CERT")?, read("WEIR_KEY")?);
    Ok(certificate.map(|certificate| [certificate, key.unwrap_or_default()].join(&b'\n')))
}

impl Connections {
    fn new() -> Result<Connections, Problem> {
        let http = certificate().and_then(|shown| {
            http::patient_client_showing(shown.as_deref()).map_err(|error| match shown {
                Some(_) => format!("WEIR_CERT and WEIR_KEY: {}", chain(&error)),
                None => chain(&error),
            })
        });
        Ok(Connections { http: http.map_err(Problem::Unreachable)?, used: Instant::now() })
    }
}

impl Problem {
    pub fn refused(text: String) -> Problem {
        Problem::Refused(vec![Mistake { text, length: None }])
    }

    /// This problem with the places of a longer text, in which `before` stands before the query.
    pub fn behind(mut self, before: &str) -> Problem {
        if let Problem::Refused(mistakes) = &mut self {
            mistakes.iter_mut().for_each(|mistake| mistake.move_behind(before));
        }
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unreachable(reason) => f.write_str(reason),
            Problem::Refused(mistakes) => {
                let texts: Vec<String> = mistakes.iter().map(Mistake::underlined).collect();
                f.write_str(&texts.join("\n\n"))
            }
        }
    }
}

impl Mistake {
    fn move_behind(&mut self, before: &str) {
        let moved = [DiagnosticKind::Syntax, DiagnosticKind::Compile].iter().find_map(|kind| {
            let kind = kind.name();
            let (place, rest) = self.text.strip_prefix(kind)?.strip_prefix(" at ")?.split_once(' ')?;
            let (line, column) = place.split_once('.')?;
            let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
            let last = before.rsplit('\n').next().filter(|_| line == 1).unwrap_or_default();
            let (line, column) = (line + before.matches('\n').count(), column + last.chars().count());
            Some(format!("{kind} at {line}.{column} {rest}"))
        });
        if let Some(moved) = moved {
            self.text = moved;
        }
    }

    /// The text, with all that is wrong underlined: the service marks where it begins.
    pub fn underlined(&self) -> String {
        let Some(length) = self.length.filter(|length| *length > 1) else { return self.text.clone() };
        let lines: Vec<&str> = self.text.split('\n').collect();
        let caret = lines.iter().position(|line| line.trim_start() == "^").filter(|at| *at > 0);
        let Some(at) = caret else { return self.text.clone() };
        let indent = lines[at].chars().count() - 1;
        let there = lines[at - 1].chars().count().saturating_sub(indent).max(1);
        let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        lines[at] = format!("{}{}", " ".repeat(indent), "^".repeat(length.min(there)));
        lines.join("\n")
    }
}

/// The lengths of mistakes, from the header with what the texts do not say.
fn lengths(header: &[u8]) -> Vec<usize> {
    let Ok(all) = serde_json::from_slice::<Vec<Json>>(header) else { return Vec::new() };
    all.iter().map(|fields| fields["length"].as_u64().unwrap_or(1) as usize).collect()
}

fn query_string(pairs: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (key, value) in pairs {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(key);
        out.push('=');
        out.push_str(&encoded(value));
    }
    out
}

/// As it may stand in a path or behind a question mark.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_underlined() {
        let text = "CompileError at 1.8 Variable `nope` not defined\n\nRETURN nope\n       ^\ndid you mean `note`?";
        let mistake = |length| Mistake { text: text.to_owned(), length };
        assert_eq!(mistake(None).underlined(), text);
        assert_eq!(mistake(Some(4)).underlined(), text.replace('^', "^^^^"));
        assert_eq!(mistake(Some(400)).underlined(), text.replace('^', "^^^^"));
        let plain = Mistake { text: "ArithmeticError".to_owned(), length: Some(3) };
        assert_eq!(plain.underlined(), "ArithmeticError");
    }

    #[test]
    fn places_are_those_of_the_whole_text() {
        let moved = |text: &str, before: &str| Problem::refused(text.to_owned()).behind(before).to_string();
        let text = "CompileError at 1.8 Variable `nope` not defined\n\nRETURN nope\n       ^";
        assert_eq!(moved(text, ""), text);
        assert_eq!(moved(text, "RETURN 'é';\n// é\n é;"), text.replace("1.8", "3.11"));
        assert_eq!(moved(text, "RETURN 1;\n"), text.replace("1.8", "2.8"));
        assert_eq!(moved("SyntaxError at 2.3 no", "RETURN 1; "), "SyntaxError at 2.3 no");
        assert_eq!(moved("SyntaxError at 2.3 no", "\n\n; "), "SyntaxError at 4.3 no");
        for told in ["ArithmeticError / by zero at 1.8 x", "SyntaxError at once", "CompileError at 1.x y"] {
            assert_eq!(moved(told, "\n\n"), told);
        }
    }

    #[test]
    fn usual_mistakes_have_a_hint() {
        let plain =
            hint("http://localhost:8443", "error sending request: client error (SendRequest): invalid HTTP version parsed");
        assert_eq!(plain, "; does it speak TLS? Give --url https://localhost:8443");
        let secure = hint("https://localhost:8080", "(Connect): received corrupt message of type InvalidContentType");
        assert_eq!(secure, "; does it speak HTTP without TLS? Give --url http://localhost:8080");
        let authority = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))";
        assert!(hint("https://localhost:8443", authority).contains("basicConstraints=CA:FALSE"));
        assert!(hint("http://localhost:8080", "tcp connect error: Connection refused (os error 111)").contains("--url"));
        assert_eq!(hint("https://localhost:8443", "connection closed before message completed"), "");
    }

    #[test]
    fn query_strings_are_encoded() {
        assert_eq!(query_string(&[]), "");
        assert_eq!(
            query_string(&[("namespace", "a b&é".into()), ("timeout", "5".into())]),
            "?namespace=a%20b%26%C3%A9&timeout=5"
        );
    }
}
