//! A web server that is asked again and again: each answer brings records, those that are new since the last one.
//!
//!     GET url?cursor=… ─> answer, unless it is what it was ─ cut ─> Feed
//!
//! The server says that nothing is new by 304, to the `ETag` or the date of its last answer; one that knows neither is known
//! by the digest of what it says. With a cursor each answer says where the next one begins. The position holds all of that, so
//! that weir goes on in the middle of an answer, too, if the server gives the same one again.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName};
use reqwest::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use reqwest::{Client, Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use weir_model::Position;

use crate::body::{self, Cut, Records};
use crate::config::{self, Secret};
use crate::error::ConnectorError;
use crate::feed::{Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::http;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// From a request to the end of its answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);

/// A longer answer is refused.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Requests records from a web server at regular intervals.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpPollIngest {
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The `http` or `https` URL to request.
    pub url: String,
    /// The pause between two requests. One minute when not given.
    #[serde(default = "interval_seconds", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub interval_seconds: u32,
    /// Headers to send with each request, by name. Their values are secret: they are never shown. With headers, redirects are not
    /// followed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// A JSON Pointer to the records within a JSON answer, such as `/data/items`. When not given, each element of a list is a
    /// record, any other JSON is one record, and an answer of JSON lines is one record per line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_at: Option<String>,
    /// A JSON Pointer to the cursor within a JSON answer, such as `/next`, to be sent with the next request. An answer with
    /// records and a new cursor is followed by the next request at once. No cursor when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_at: Option<String>,
    /// The parameter of the URL that carries the cursor. `cursor` when not given.
    #[serde(default = "cursor_parameter")]
    pub cursor_parameter: String,
    /// The cursor to send with the first request. None when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor_start: Option<String>,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each record before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

fn interval_seconds() -> u32 {
    60
}

fn cursor_parameter() -> String {
    "cursor".to_owned()
}

impl SourceConfig for HttpPollIngest {
    fn settings(&self) -> Json {
        let url = http::without_password(&self.url);
        crate::settings("HttpPollIngest", &HttpPollIngest { url, ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("HttpPollIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        context.hosts.check(&http::url("url", &self.url)?)?;
        for (field, pointer) in [("recordsAt", &self.records_at), ("cursorAt", &self.cursor_at)] {
            if pointer.as_ref().is_some_and(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
                return Err(ConnectorError::config(field, "is no JSON Pointer: it begins with a slash, as /items"));
            }
        }
        if self.cursor_parameter.is_empty() {
            return Err(ConnectorError::config("cursorParameter", "is empty"));
        }
        http::headers(&self.headers, true)?;
        self.decoder(context).map(|_| ())
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let url = http::url("url", &self.url)?;
        let place = http::shown(&url);
        let stood = match from.filter(|position| !position.0.is_empty()) {
            None => Stood { cursor: self.cursor_start.clone(), ..Stood::default() },
            Some(position) => serde_json::from_slice(&position.0).map_err(|_| ConnectorError::Position {
                place: place.clone(),
                problem: "the stored position is not one of this kind of source".to_owned(),
            })?,
        };
        // A redirect could lead headers to where they are not meant to be.
        let client = if self.headers.is_empty() { http::fetching_client(&context.hosts)? } else { http::download_client()? };
        let position = stood.position();
        let poller = Poller { client, url, place: place.clone(), definition: self.clone(), stood };
        Ok(Box::new(Feed::start(&context.runtime, &place, position, |inlet| poller.poll(inlet))))
    }
}

impl HttpPollIngest {
    /// The records of an answer, as they are written there, and its cursor.
    fn cut(&self, body: Vec<u8>, cut: Cut) -> Result<(Records, Option<String>), String> {
        let records = |body, cut| Records::cut(body, cut).map_err(|problem| format!("the answer: {problem}"));
        if self.records_at.is_none() && self.cursor_at.is_none() {
            // What is broken as a whole is no record: the next answer may be a sound one.
            if cut == Cut::Json && !body.trim_ascii().is_empty() {
                serde_json::from_slice::<IgnoredAny>(&body).map_err(no_json)?;
            }
            return Ok((records(body, cut)?, None));
        }
        let whole: &RawValue = serde_json::from_slice(&body).map_err(no_json)?;
        let found = match &self.cursor_at {
            Some(pointer) => at(whole, pointer)?.value(),
            None => None,
        };
        let cursor = match found.map(|found| serde_json::from_str::<Json>(found.get())).transpose().map_err(no_json)? {
            Some(Json::String(text)) => Some(text).filter(|text| !text.is_empty()),
            Some(Json::Number(_)) => found.map(|number| number.get().to_owned()),
            _ => None,
        };
        let Some(pointer) = &self.records_at else { return Ok((records(body, cut)?, cursor)) };
        let records = match at(whole, pointer)? {
            // Some servers leave out what is empty.
            Found::Nothing => Records::default(),
            Found::Value(found) if found.get() == "null" => Records::default(),
            Found::Value(found) => records(found.get().as_bytes().to_vec(), Cut::Json)?,
            Found::NoWay => {
                let problem = "the way there leads through what has no such parts";
                return Err(format!("the answer: nothing can lie at {pointer} (recordsAt): {problem}"));
            }
        };
        Ok((records, cursor))
    }
}

/// An answer as it was before it was compressed. `None` where it is not known how to undo that.
fn plain(encodings: &str, body: Vec<u8>) -> Option<Result<Vec<u8>, String>> {
    // Nothing is compressed to nothing by servers that name the encoding all the same.
    if body.is_empty() {
        return Some(Ok(body));
    }
    let undone = body::uncompressed(encodings, body, ANSWER_BYTES_MAX)?;
    Some(undone.map_err(|problem| format!("the answer: {problem}")))
}

/// What lies at a JSON Pointer.
enum Found<'a> {
    Value(&'a RawValue),
    Nothing,
    /// Nor can it: what has no parts is on the way, or a list of which no element is named.
    NoWay,
}

impl<'a> Found<'a> {
    fn value(self) -> Option<&'a RawValue> {
        match self {
            Found::Value(value) => Some(value),
            Found::Nothing | Found::NoWay => None,
        }
    }
}

fn at<'a>(mut value: &'a RawValue, pointer: &str) -> Result<Found<'a>, String> {
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let within = match value.get().as_bytes().first() {
            Some(b'{') => {
                let fields = serde_json::from_str::<HashMap<String, &RawValue>>(value.get());
                fields.map(|fields| fields.get(&token).copied())
            }
            Some(b'[') => {
                let Ok(at) = token.parse::<usize>() else { return Ok(Found::NoWay) };
                let items = serde_json::from_str::<Vec<&RawValue>>(value.get());
                items.map(|items| items.get(at).copied())
            }
            Some(b'n') => return Ok(Found::Nothing),
            _ => return Ok(Found::NoWay),
        };
        let Some(found) = within.map_err(no_json)? else { return Ok(Found::Nothing) };
        value = found;
    }
    Ok(Found::Value(value))
}

fn no_json(error: serde_json::Error) -> String {
    format!("the answer is no JSON: {error}")
}

/// Where the source stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
struct Stood {
    /// The cursor of the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// What the server calls its last answer, if that was handed on as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// The digest of the last answer to this request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// How many records of that answer are handed on; all where none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
}

impl Stood {
    fn position(&self) -> Vec<u8> {
        // Of the beginning there is none.
        if *self == Stood::default() { Vec::new() } else { serde_json::to_vec(self).unwrap_or_default() }
    }
}

struct Poller {
    client: Client,
    url: Url,
    place: String,
    definition: HttpPollIngest,
    stood: Stood,
}

/// How a request went.
enum Asked {
    /// There is more to be asked for at once.
    More,
    Done,
    /// It may work later, after this long at the earliest.
    Failed(String, Duration),
}

struct Answer {
    etag: Option<String>,
    modified: Option<String>,
    cut: Cut,
    body: Vec<u8>,
}

impl Poller {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.definition.interval_seconds.into())
    }

    async fn poll(mut self, inlet: Inlet) -> Result<(), ConnectorError> {
        let interval = self.interval();
        let mut pauses = Pauses::new();
        loop {
            match self.ask(&inlet).await? {
                Asked::Failed(reason, least) => {
                    inlet.trouble(&reason);
                    pauses.wait(least).await;
                    continue;
                }
                Asked::More => {}
                Asked::Done => tokio::time::sleep(interval).await,
            }
            pauses.reset();
        }
    }

    async fn ask(&mut self, inlet: &Inlet) -> Result<Asked, ConnectorError> {
        let headers = match http::headers(&self.definition.headers, false) {
            Ok(headers) => headers,
            Err(error) if error.retryable() => return Ok(Asked::Failed(error.to_string(), Duration::ZERO)),
            Err(error) => return Err(error),
        };
        let mut url = self.url.clone();
        if let Some(cursor) = &self.stood.cursor {
            url.query_pairs_mut().append_pair(&self.definition.cursor_parameter, cursor);
        }
        let mut request = self.client.get(url).header(ACCEPT, "application/json, application/x-ndjson;q=0.9, */*;q=0.8");
        if let Some(etag) = &self.stood.etag {
            request = request.header(IF_NONE_MATCH, etag);
        }
        if let Some(modified) = &self.stood.modified {
            request = request.header(IF_MODIFIED_SINCE, modified);
        }
        let asking = async {
            match request.headers(headers).send().await {
                Ok(answer) => self.answer(answer).await,
                // What a policy or a broken redirect refused stays refused.
                Err(error) if error.is_redirect() || error.is_builder() => {
                    Err(Failed::Refused(http::chain(&error.without_url())))
                }
                Err(error) => Err(Failed::Passing(http::chain(&error.without_url()), Duration::ZERO)),
            }
        };
        let answered = tokio::time::timeout(ANSWER_TIME_MAX, asking).await;
        let late = || Failed::Passing(format!("the answer took longer than {} s", ANSWER_TIME_MAX.as_secs()), Duration::ZERO);
        match answered.unwrap_or_else(|_| Err(late())) {
            Ok(None) => {
                inlet.works();
                Ok(Asked::Done)
            }
            Ok(Some(answer)) => match self.take(answer, inlet).await {
                Ok(asked) => Ok(asked),
                // The next answer may be a sound one.
                Err(problem) => Ok(Asked::Failed(problem, self.interval())),
            },
            Err(Failed::Passing(reason, least)) => Ok(Asked::Failed(reason, least)),
            Err(Failed::Refused(problem)) => Err(http::refusal(&self.place, problem)),
        }
    }

    /// None where nothing is new.
    async fn answer(&self, answer: Response) -> Result<Option<Answer>, Failed> {
        let status = answer.status();
        let text = |name: HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match status {
            StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT => return Ok(None),
            _ if status.is_success() => {}
            _ if http::may_pass(status) => {
                let least = http::retry_after(answer.headers());
                return Err(Failed::Passing(format!("the server answered {status}"), least));
            }
            _ => return Err(Failed::Refused(format!("the server answered {status}"))),
        }
        let given = text(CONTENT_TYPE).unwrap_or_default();
        let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let json = matches!(self.definition.format, StreamFormat::CypherJson(_)) || self.definition.records_at.is_some();
        // Plain text is what servers call anything.
        let cut = match Cut::of(&essence).filter(|_| essence != "text/plain") {
            Some(Cut::Lines) => Cut::Lines,
            Some(Cut::Json) => Cut::Json,
            _ if json => Cut::Json,
            _ => Cut::Whole,
        };
        let (etag, modified) = (text(ETAG), text(LAST_MODIFIED));
        let encodings = body::told_encodings(answer.headers());
        let body = http::whole(answer, ANSWER_BYTES_MAX).await.map_err(|problem| Failed::Passing(problem, Duration::ZERO))?;
        let Some(body) = plain(&encodings, body) else {
            // The next answer will be no other.
            return Err(Failed::Refused(format!(
                "the answer has the Content-Encoding '{encodings}'; read are {}. Have the server send one of these, as by \
                 \"headers\": {{\"Accept-Encoding\": \"gzip\"}}",
                body::encodings()
            )));
        };
        let body = body.map_err(|problem| Failed::Passing(problem, self.interval()))?;
        Ok(Some(Answer { etag, modified, cut, body }))
    }

    async fn take(&mut self, answer: Answer, inlet: &Inlet) -> Result<Asked, String> {
        let digest = digest(&answer.body);
        let same = self.stood.digest.as_ref() == Some(&digest);
        let Answer { etag, modified, cut, body } = answer;
        let (records, cursor) = self.definition.cut(body, cut)?;
        inlet.works();
        let done = match self.stood.part {
            Some(part) if same => part,
            None if same => records.len(),
            _ => 0,
        };
        // The answer to another request is another one, whatever it says.
        let next = match cursor.filter(|cursor| self.stood.cursor.as_ref() != Some(cursor)) {
            Some(cursor) => Stood { cursor: Some(cursor), ..Stood::default() },
            None => Stood { cursor: self.stood.cursor.clone(), etag, modified, digest: Some(digest.clone()), part: None },
        };
        let followed = next.cursor != self.stood.cursor && !records.is_empty();
        for index in done..records.len() {
            let position = if index + 1 == records.len() {
                next.position()
            } else {
                let cursor = self.stood.cursor.clone();
                Stood { cursor, digest: Some(digest.clone()), part: Some(index + 1), ..Stood::default() }.position()
            };
            inlet.record(records.get(index).to_vec(), position).await;
        }
        if done >= records.len() && next != self.stood {
            inlet.stands(next.position()).await;
        }
        self.stood = next;
        Ok(if followed { Asked::More } else { Asked::Done })
    }
}

enum Failed {
    Passing(String, Duration),
    Refused(String),
}

fn digest(body: &[u8]) -> String {
    let mut text = String::new();
    for byte in &Sha256::digest(body)[..16] {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(more: Json, body: &str, expected: &[&str], cursor: Option<&str>) {
        let mut definition = json!({"url": "http://h/"});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let definition: HttpPollIngest = serde_json::from_value(definition).unwrap();
        let (records, found) = definition.cut(body.as_bytes().to_vec(), Cut::Json).unwrap();
        let records: Vec<_> = (0..records.len()).map(|at| std::str::from_utf8(records.get(at)).unwrap()).collect();
        assert_eq!((records.as_slice(), found.as_deref()), (expected, cursor), "{body}");
    }

    #[test]
    fn where_no_records_can_lie_is_told() {
        let cut = |at: &str, body: &str| {
            let definition: HttpPollIngest = serde_json::from_value(json!({"url": "http://h/", "recordsAt": at})).unwrap();
            definition.cut(body.as_bytes().to_vec(), Cut::Json).map(|(records, _)| records.len())
        };
        for (at, body) in [("/data/items", r#"{"data": "x"}"#), ("/data/items", r#"{"data": [[1]]}"#), ("/items", "7")] {
            let problem = cut(at, body).unwrap_err();
            assert!(problem.contains(at) && problem.contains("recordsAt"), "{problem}");
        }
        // What is only left out may be there next time.
        for body in [r#"{"data": {}}"#, r#"{"data": null}"#, r#"{"data": {"items": []}}"#, r#"{"data": {"items": null}}"#, "{}"] {
            assert_eq!(cut("/data/items", body), Ok(0), "{body}");
        }
        assert_eq!(cut("/data/7", r#"{"data": [1]}"#), Ok(0));
    }

    #[test]
    fn an_answer_that_is_compressed_is_undone() {
        let text = b"[1, 2]".to_vec();
        for (encoding, body) in [
            ("", text.clone()),
            ("gzip", crate::recoding::tests::gzip(&text)),
            ("deflate", crate::recoding::tests::zlib(&text)),
            ("zstd", zstd::encode_all(text.as_slice(), 0).unwrap()),
        ] {
            assert_eq!(plain(encoding, body), Some(Ok(text.clone())), "{encoding}");
        }
        assert!(plain("gzip", text.clone()).unwrap().unwrap_err().contains("is not gzip"));
        assert_eq!(plain("br", text), None);
        assert_eq!(plain("br", Vec::new()), Some(Ok(Vec::new())), "there is nothing to undo");
    }

    #[test]
    fn records_are_what_the_server_said() {
        let items = r#"{"k": 1.3436424411240121e-164, "k": 123456789012345678901}"#;
        let body = format!(r#"{{"a/b": [0, {{"items": [{items}, [1]]}}], "next": 12345678901234567890123, "none": null}}"#);
        let at = |records: &str, cursor: &str| json!({"recordsAt": records, "cursorAt": cursor});
        check(at("/a~1b/1/items", "/next"), &body, &[items, "[1]"], Some("12345678901234567890123"));
        check(at("/a~1b/1/items/0", "/none"), &body, &[items], None);
        check(at("/none", "/a~1b/0/0"), &body, &[], None);
        check(at("", "/0/c"), r#"[{"c": "\u0031"}]"#, &[r#"{"c": "\u0031"}"#], Some("1"));
    }
}
