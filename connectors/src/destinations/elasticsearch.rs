//! An index of Elasticsearch, or of what speaks as it does.
//!
//!     results ─ as many as have different ids and fit ─> POST /_bulk, NDJSON ─> an answer for each: taken, later, refused
//!
//! A document has the id of its result, so that one that is sent again takes its own place. In one request no id comes twice, and
//! what comes later waits while something before it is tried again: of an id the newest is what stays.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use weir_model::Position;

use crate::config::{self, Secret};
use crate::delivery::{Outgoing, unheard, unless_stopped};
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::dial::Certificates;
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::result_ids::Ids;
use crate::{http, moment, secret};

/// Bytes of an answer, at most: it has some hundred for each of the documents.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Characters of what the server says about a document, at most.
const REASON_CHARACTERS_MAX: usize = 300;

/// Documents are named by what they are in a request, and only this of the answer is asked for.
const FILTER: &str = "filter_path=items.*._id,items.*.status,items.*.error.type,items.*.error.reason";

/// Writes each result as a document to an index of Elasticsearch or OpenSearch, many in one request.
///
/// Each result arrives at least once; a document that is sent again replaces itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToElasticsearch {
    /// The `http` or `https` URLs of the servers of one cluster. When one does not answer, the next is asked.
    #[serde(serialize_with = "secret::address")]
    pub urls: Vec<String>,
    /// The name of the index. `{yyyy}`, `{MM}`, `{dd}` and `{HH}` in it stand for the year, month, day and hour, in UTC, at which
    /// the result was found: `results-{yyyy}.{MM}`.
    pub index: String,
    /// The user to log in as, with `password`. Not together with `apiKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of `username`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// An encoded API key, as the server issues it, instead of `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    #[serde(flatten)]
    pub certificates: Certificates,
    /// What a cancellation does. It becomes a document of its own when not given.
    #[serde(default)]
    pub cancellations: Cancellations,
    /// The most documents in one request. 1000 when not given.
    #[serde(default = "batch_documents_max", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub batch_documents_max: u32,
    /// The approximate limit of bytes in one request. 5242880 (5 MiB) when not given. A single document may be longer.
    #[serde(default = "batch_bytes_max", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub batch_bytes_max: u32,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

/// What a cancellation does to the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Cancellations {
    /// It is written as a document of its own, so the index has everything that has come and gone.
    #[default]
    Document,
    /// It deletes the document of the match that it cancels, so the index has what matches now. The index then needs a fixed
    /// name.
    Delete,
}

fn batch_documents_max() -> u32 {
    1000
}

fn batch_bytes_max() -> u32 {
    5 << 20
}

impl WriteToElasticsearch {
    fn urls(&self, hosts: &HostPolicy) -> Result<Vec<Url>, ConnectorError> {
        if self.urls.is_empty() {
            return Err(ConnectorError::config("urls", "is empty"));
        }
        let read = |text: &String| {
            let mut url = http::url("urls", text)?;
            if url.password().is_some() || !url.username().is_empty() {
                let problem = "a name and password belong into `username` and `password`, where they are kept secret";
                return Err(ConnectorError::config("urls", problem));
            }
            http::without_query("urls", &url)?;
            hosts.check(&url)?;
            // An error says that such an address has no path; it begins with http.
            if let Ok(mut path) = url.path_segments_mut() {
                path.pop_if_empty().push("_bulk");
            }
            url.set_query(Some(FILTER));
            Ok(url)
        };
        self.urls.iter().map(read).collect()
    }

    fn client(&self) -> Result<Client, ConnectorError> {
        if self.certificates == Certificates::default() {
            http::client()
        } else {
            http::trusting_client(self.certificates.config()?)
        }
    }
}

impl DestinationConfig for WriteToElasticsearch {
    fn settings(&self) -> Json {
        crate::settings("WriteToElasticsearch", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn check(&self) -> Result<(), ConnectorError> {
        let encrypted = self.urls(&HostPolicy::default())?.iter().any(|url| url.scheme() == "https");
        self.certificates.settled()?;
        self.certificates.check(encrypted, "write the URLs with https://")?;
        let index = IndexName::read(&self.index)?;
        if self.cancellations == Cancellations::Delete && index.moves() {
            let problem =
                "with `cancellations` as `Delete` the index has one name: a match and its cancellation come at different times";
            return Err(ConnectorError::config("index", problem));
        }
        match (&self.username, &self.password, &self.api_key) {
            (Some(_), None, _) => Err(ConnectorError::config("password", "is missing: a name alone is not enough")),
            (None, Some(_), _) => Err(ConnectorError::config("username", "is missing: a password alone is not enough")),
            (Some(_), _, Some(_)) => {
                Err(ConnectorError::config("apiKey", "goes in the place of `username` and `password`; give one of the two"))
            }
            _ => Ok(()),
        }
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        self.check()?;
        let urls = self.urls(&context.hosts)?;
        let server = |url: &Url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?));
        let servers: Vec<String> = urls.iter().filter_map(server).collect();
        Ok(Box::new(Bulk {
            place: format!("Elasticsearch at {}", servers.join(", ")),
            index: IndexName::read(&self.index)?,
            definition: self.clone(),
            client: self.client()?,
            runtime: context.runtime.clone(),
            ids: Ids::new(&context.identity),
            urls,
            next_url: 0,
            stop: Arc::default(),
            stops_at_refused: false,
        }))
    }
}

/// The name of an index, with parts that the time gives.
#[derive(Clone, PartialEq, Debug)]
struct IndexName(Vec<Part>);

#[derive(Clone, PartialEq, Debug)]
enum Part {
    Text(String),
    /// Which of the parts of a moment, and in how many digits.
    Moment(usize, usize),
}

impl IndexName {
    fn read(text: &str) -> Result<IndexName, ConnectorError> {
        let wrong = |problem: String| Err(ConnectorError::config("index", problem));
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, behind)) = behind.split_once('}') else { return wrong("has a { without its }".to_owned()) };
            let moment = match name {
                "yyyy" => Part::Moment(0, 4),
                "MM" => Part::Moment(1, 2),
                "dd" => Part::Moment(2, 2),
                "HH" => Part::Moment(3, 2),
                other => return wrong(format!("has {{{other}}}; there are {{yyyy}}, {{MM}}, {{dd}} and {{HH}}")),
            };
            parts.extend([Part::Text(before.to_owned()), moment]);
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        let name = IndexName(parts);
        // As the servers judge it.
        let shown = name.at(0);
        let odd = |c: char| c.is_uppercase() || c.is_control() || c.is_whitespace() || r#"\/*?"<>|,#:}"#.contains(c);
        if shown.is_empty()
            || shown.len() > 255
            || shown.starts_with(['-', '_', '+'])
            || matches!(shown.as_str(), "." | "..")
            || shown.contains(odd)
        {
            return wrong(format!(
                "'{text}' cannot be the name of an index: small letters, digits, and - _ . but at its beginning"
            ));
        }
        Ok(name)
    }

    fn moves(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Moment(..)))
    }

    fn at(&self, mark: u64) -> String {
        let moment = moment::parts(mark);
        let written = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Moment(which, digits) => format!("{:0digits$}", moment[*which]),
        };
        self.0.iter().map(written).collect()
    }
}

struct Bulk {
    place: String,
    definition: WriteToElasticsearch,
    index: IndexName,
    client: Client,
    runtime: Handle,
    ids: Ids,
    urls: Vec<Url>,
    /// The one that is asked next.
    next_url: usize,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
    /// Nothing is sent behind a request in which something is refused.
    stops_at_refused: bool,
}

/// What became of a document.
#[derive(Clone, PartialEq, Debug)]
enum Fate {
    Taken,
    Later(String),
    Refused(String),
}

/// What became of a request.
enum Asked {
    Answered(Vec<Fate>),
    /// It is too long, or something in it keeps all of it from being read.
    TooMuch(String),
    Failed(ConnectorError),
}

impl Bulk {
    /// The id of a document; without one it is not for Elasticsearch to know.
    fn id_of<'i>(&self, result: &Outgoing, stable: &'i str) -> std::borrow::Cow<'i, str> {
        match (self.definition.cancellations, result.id) {
            (Cancellations::Delete, Some(id)) => id.to_string().into(),
            _ => stable.into(),
        }
    }

    /// Results from `first` on that go out together: where they end, and the body.
    fn request(&self, results: &[Outgoing], ids: &[String], first: usize, count_max: usize) -> (usize, Vec<u8>) {
        let (bytes_max, mut body, mut end) = (self.definition.batch_bytes_max as usize, Vec::new(), first);
        let mut seen = HashSet::new();
        while end < results.len() && end - first < count_max {
            let (result, id) = (&results[end], self.id_of(&results[end], &ids[end]));
            if (end > first && body.len() + result.body.len() > bytes_max) || !seen.insert(id.clone()) {
                break;
            }
            let target = json!({"_index": self.index.at(result.mark), "_id": id});
            if !result.positive && self.definition.cancellations == Cancellations::Delete {
                body.extend_from_slice(json!({"delete": target}).to_string().as_bytes());
            } else {
                body.extend_from_slice(json!({"index": target}).to_string().as_bytes());
                body.push(b'\n');
                body.extend_from_slice(&result.body);
            }
            body.push(b'\n');
            end += 1;
        }
        (end, body)
    }

    async fn ask(&mut self, body: Vec<u8>, count: usize) -> Result<Asked, ConnectorError> {
        let login = match (&self.definition.username, &self.definition.password, &self.definition.api_key) {
            (Some(username), Some(password), _) => {
                use base64::Engine;
                let both = format!("{username}:{}", password.value()?);
                Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(both)))
            }
            (_, _, Some(key)) => Some(format!("ApiKey {}", key.value()?)),
            _ => None,
        };
        let mut request = self.client.post(self.urls[self.next_url].clone()).header(CONTENT_TYPE, "application/x-ndjson");
        if let Some(login) = login {
            let held = HeaderValue::from_str(&login);
            let mut value = held
                .map_err(|_| ConnectorError::Secret { problem: "it holds characters that a header cannot carry".to_owned() })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let asking = async {
            match request.body(body).send().await {
                Ok(answer) => self.answered(answer, count).await,
                Err(error) => Asked::Failed(ConnectorError::passing(&self.place, http::chain(&error.without_url()))),
            }
        };
        let asked = unless_stopped(&self.stop, asking).await.unwrap_or_else(|| Asked::Failed(unheard(&self.place)));
        if matches!(asked, Asked::Failed(_)) {
            self.next_url = (self.next_url + 1) % self.urls.len();
        }
        Ok(asked)
    }

    async fn answered(&self, answer: reqwest::Response, count: usize) -> Asked {
        let status = answer.status();
        let body = match http::whole(answer, ANSWER_BYTES_MAX).await {
            Ok(body) => body,
            Err(problem) => {
                return Asked::Failed(ConnectorError::passing(&self.place, format!("the answer breaks off: {problem}")));
            }
        };
        let parsed: Json = serde_json::from_slice(&body).unwrap_or_default();
        let said = error_of(&parsed["error"]).map(|said| format!(": {said}")).unwrap_or_default();
        let told = format!("the server answered {status}{said}");
        match status {
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => Asked::TooMuch(told),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Asked::Failed(ConnectorError::passing(
                &self.place,
                format!("{told}; check `username` and `password`, or `apiKey`, and what they may write"),
            )),
            _ if http::may_pass(status) || status == StatusCode::NOT_FOUND => {
                Asked::Failed(ConnectorError::passing(&self.place, told))
            }
            _ if !status.is_success() => Asked::Failed(http::refusal(&self.place, told)),
            _ => match fates(&parsed, count) {
                Some(fates) => Asked::Answered(fates),
                None => {
                    let problem = "the answer does not tell of each document; is it an Elasticsearch that was asked?".to_owned();
                    Asked::Failed(ConnectorError::passing(&self.place, problem))
                }
            },
        }
    }

    async fn send(&mut self, results: &[Outgoing], ids: &[String]) -> Result<Written, ConnectorError> {
        let usual = self.definition.batch_documents_max as usize;
        let (mut written, mut first, mut count_max) = (Written::default(), 0, usual);
        while first < results.len() {
            let (end, body) = self.request(results, ids, first, count_max);
            let fates = match self.ask(body, end - first).await {
                Ok(Asked::Answered(fates)) => fates,
                // Halves until the one is found that is too much.
                Ok(Asked::TooMuch(_)) if end - first > 1 => {
                    count_max = (end - first) / 2;
                    continue;
                }
                Ok(Asked::TooMuch(problem)) => vec![Fate::Refused(problem)],
                Ok(Asked::Failed(error)) | Err(error) if error.retryable() && first > 0 => {
                    written.left_reason.get_or_insert(error.to_string());
                    written.left.extend(first..end);
                    written.leave_untried(end..results.len());
                    break;
                }
                Ok(Asked::Failed(error)) | Err(error) => return Err(error),
            };
            count_max = usual;
            for (index, fate) in (first..).zip(fates) {
                match fate {
                    Fate::Taken => {}
                    Fate::Refused(problem) => written.refused.push((index, problem)),
                    Fate::Later(problem) => {
                        written.left.push(index);
                        written.left_reason.get_or_insert(format!("{}: {problem}", self.place));
                    }
                }
            }
            first = end;
            // What comes later must not overtake what is tried again.
            if written.holds_up(self.stops_at_refused) {
                written.leave_untried(first..results.len());
                break;
            }
        }
        Ok(written)
    }
}

/// The fate of each document in the order of the request, if all of them are told.
fn fates(answer: &Json, count: usize) -> Option<Vec<Fate>> {
    let items = answer["items"].as_array().filter(|items| items.len() == count)?;
    let fate = |item: &Json| {
        let (operation, told) = item.as_object()?.iter().next()?;
        let status = told["status"].as_u64().and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok())?;
        let problem = || {
            let said = error_of(&told["error"]).unwrap_or_else(|| "without a reason".to_owned());
            format!("a document was answered with {}: {said}", status.as_u16())
        };
        Some(match status {
            _ if status.is_success() => Fate::Taken,
            // It is not there, which is what was asked for.
            StatusCode::NOT_FOUND if operation == "delete" => Fate::Taken,
            // Rights, an index that is not there yet or takes nothing now, and two writers at once.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::CONFLICT => {
                Fate::Later(problem())
            }
            _ if http::may_pass(status) || concerns_index(&told["error"]) => Fate::Later(problem()),
            _ => Fate::Refused(problem()),
        })
    };
    items.iter().map(fate).collect()
}

/// Whether it is the index that takes no document as it is, which somebody may mend, though the status says that it is the
/// document. By the beginning of the reason where the type is also that of documents: what follows may be words of theirs.
fn concerns_index(error: &Json) -> bool {
    let reason = error["reason"].as_str().unwrap_or_default();
    match error["type"].as_str() {
        Some("index_closed_exception") => true,
        // It would have to be made, and the cluster has as many shards as it may: "[1000]/[1000] maximum normal shards open".
        Some("validation_exception") => reason.contains("maximum") && reason.contains("shards open"),
        // Of an alias.
        Some("illegal_argument_exception") => reason.starts_with("no write index"),
        _ => false,
    }
}

/// What a server calls a failure, and its words.
fn error_of(error: &Json) -> Option<String> {
    if let Some(text) = error.as_str() {
        return Some(text.chars().take(REASON_CHARACTERS_MAX).collect());
    }
    let kind = error["type"].as_str()?;
    let reason = error["reason"].as_str().unwrap_or_default();
    Some(format!("{kind}: {}", reason.chars().take(REASON_CHARACTERS_MAX).collect::<String>()))
}

impl Destination for Bulk {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let ids = self.ids.of(results);
        let sent = self.runtime.clone().block_on(self.send(results, &ids));
        self.ids.after(ids, sent.as_ref().ok());
        sent
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
        self.ids.refused_comes_again();
    }

    fn gave_up(&mut self, comes_again: &[bool]) {
        self.ids.gave_up(comes_again);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;

    use weir_model::{NodeId, Tick};

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::{nothing_overtakes_what_is_refused, other_side};
    use crate::destinations::http_tests::next_request;

    fn definition(more: Json) -> Result<WriteToElasticsearch, ConnectorError> {
        let mut given = json!({"urls": ["http://a:9200/below/", "http://b"], "index": "r-{yyyy}.{MM}.{dd}-{HH}"});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config::from_json::<WriteToElasticsearch>(&given).and_then(|read| read.check().map(|()| read))
    }

    fn bulk(more: Json) -> Bulk {
        let (definition, runtime) = (definition(more).unwrap(), runtime());
        Bulk {
            place: "x".to_owned(),
            index: IndexName::read(&definition.index).unwrap(),
            client: definition.client().unwrap(),
            runtime: output(&runtime).runtime,
            ids: Ids::new("x"),
            urls: definition.urls(&HostPolicy::default()).unwrap(),
            definition,
            next_url: 0,
            stop: Arc::default(),
            stops_at_refused: false,
        }
    }

    fn result(body: &str, positive: bool, id: u64) -> Outgoing {
        let mark = Tick::at_millis(1_772_323_199_999).0;
        Outgoing { body: body.as_bytes().to_vec(), positive, mark, id: Some(NodeId::new(0, id)) }
    }

    #[test]
    fn a_request_is_lines_of_what_is_done_and_to_what() {
        let results = [result(r#"{"a":1}"#, true, 1), result(r#"{"a":2}"#, false, 1), result(r#"{"a":3}"#, true, 2)];
        let ids: Vec<String> = ["i", "j", "k"].map(str::to_owned).to_vec();
        let documents = bulk(json!({"batchDocumentsMax": 5}));
        let (end, body) = documents.request(&results, &ids, 0, 5);
        let expected = concat!(
            r#"{"index":{"_index":"r-2026.02.28-23","_id":"i"}}"#,
            "\n",
            r#"{"a":1}"#,
            "\n",
            r#"{"index":{"_index":"r-2026.02.28-23","_id":"j"}}"#,
            "\n",
            r#"{"a":2}"#,
            "\n",
            r#"{"index":{"_index":"r-2026.02.28-23","_id":"k"}}"#,
            "\n",
            r#"{"a":3}"#,
            "\n",
        );
        assert_eq!((end, String::from_utf8(body).unwrap().as_str()), (3, expected));
        assert_eq!(documents.request(&results, &ids, 1, 1).0, 2);
        assert_eq!(documents.urls[0].as_str(), format!("http://a:9200/below/_bulk?{FILTER}"));
        // A cancellation does not go out with its match, which must be there first.
        let deleting = bulk(json!({"cancellations": "Delete", "index": "now"}));
        let (end, body) = deleting.request(&results, &ids, 0, 5);
        let id = NodeId::new(0, 1).to_string();
        assert_eq!(
            (end, String::from_utf8(body).unwrap()),
            (1, format!("{{\"index\":{{\"_index\":\"now\",\"_id\":\"{id}\"}}}}\n{{\"a\":1}}\n"))
        );
        let (end, body) = deleting.request(&results, &ids, 1, 1);
        assert_eq!(
            (end, String::from_utf8(body).unwrap()),
            (2, format!("{{\"delete\":{{\"_index\":\"now\",\"_id\":\"{id}\"}}}}\n"))
        );
        // One that is longer than all may be goes alone.
        let short = bulk(json!({"batchBytesMax": 1}));
        assert_eq!(short.request(&results, &ids, 0, 5).0, 1);
    }

    #[test]
    fn each_document_has_its_answer() {
        let item = |operation: &str, status: u16| json!({operation: {"_id": "x", "status": status, "error": {"type": "t", "reason": "r"}}});
        let statuses =
            [("index", 201), ("index", 429), ("index", 400), ("delete", 404), ("index", 404), ("index", 503), ("delete", 409)];
        let items: Vec<Json> = statuses.iter().map(|(operation, status)| item(operation, *status)).collect();
        let told = fates(&json!({"items": items}), 7).unwrap();
        let kinds: String = told
            .iter()
            .map(|fate| match fate {
                Fate::Taken => 't',
                Fate::Later(_) => 'l',
                Fate::Refused(_) => 'r',
            })
            .collect();
        assert_eq!(kinds, "tlrtlll");
        assert_eq!(told[2], Fate::Refused("a document was answered with 400: t: r".to_owned()));
        for odd in [
            json!({}),
            json!({"items": [{}]}),
            json!({"items": [item("index", 201), item("index", 201)]}),
            json!({"items": [{"index": {}}]}),
        ] {
            assert_eq!(fates(&odd, 1), None, "{odd}");
        }
    }

    #[test]
    fn an_index_that_takes_no_document_is_waited_for() {
        let fate = |kind: &str, reason: &str| {
            let told = json!({"_id": "x", "status": 400, "error": {"type": kind, "reason": reason}});
            fates(&json!({"items": [{"index": told}]}), 1).unwrap().remove(0)
        };
        let full = "Validation Failed: 1: this action would add [2] total shards, but this cluster currently has [1000]/[1000] \
                    maximum normal shards open;";
        let alias = "no write index is defined for alias [results]. The write index may be explicitly disabled using \
                     is_write_index=false or the alias points to multiple indices without one being designated as a write index";
        for (kind, reason) in [
            ("index_closed_exception", "closed"),
            ("validation_exception", full),
            ("validation_exception", "this cluster currently has [999]/[1000] maximum shards open;"),
            ("illegal_argument_exception", alias),
        ] {
            let problem = format!("a document was answered with 400: {kind}: {reason}");
            assert_eq!(fate(kind, reason), Fate::Later(problem));
        }
        for (kind, reason) in [
            ("document_parsing_exception", "[1:9] failed to parse: no write index, maximum shards open"),
            ("mapper_parsing_exception", "failed to parse field [data.id] of type [long]"),
            ("validation_exception", "Validation Failed: 1: type is missing;"),
            ("illegal_argument_exception", "mapper [data.id] cannot be changed: no write index"),
            ("illegal_argument_exception", "Limit of total fields [1000] has been exceeded"),
        ] {
            assert!(matches!(fate(kind, reason), Fate::Refused(_)), "{kind}: {reason}");
        }
    }

    /// A server that answers each document of each request, takes those that can be parsed, and keeps them.
    fn serve(mut connection: TcpStream, taken: &Mutex<Vec<String>>) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        while let Some((_, body)) = next_request(&mut reader) {
            let items: Vec<Json> = body
                .lines()
                .skip(1)
                .step_by(2)
                .map(|document| match serde_json::from_str::<Json>(document) {
                    Ok(_) => {
                        taken.lock().unwrap().push(document.to_owned());
                        json!({"index": {"status": 201}})
                    }
                    Err(_) => json!({"index": {"status": 400, "error": {"type": "document_parsing_exception"}}}),
                })
                .collect();
            let answer = json!({"items": items}).to_string();
            write!(connection, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).unwrap();
        }
    }

    #[test]
    fn nothing_overtakes_a_document_that_is_refused_but_what_is_in_its_request() {
        let (address, taken) = other_side(serve);
        let runtime = runtime();
        let config = |batch_documents_max: u32| {
            let definition = json!({"type": "WriteToElasticsearch", "urls": [format!("http://{address}")], "index": "results",
                "batchDocumentsMax": batch_documents_max});
            crate::parse_destination_v1(&definition).unwrap()
        };
        let results = bodies(&["1", "2", "no", "3", "4"]);
        let open = || config(1).open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken.lock().unwrap().clone());
        // In requests of two it goes with the next one.
        taken.lock().unwrap().clear();
        let mut destination = config(2).open(&output(&runtime), None).unwrap();
        destination.stops_at_refused();
        let written = destination.write(&results, 1).unwrap();
        assert_eq!((written.refused[0].0, written.left, written.untried), (2, vec![4], vec![4]));
        assert_eq!(*taken.lock().unwrap(), ["1", "2", "3"]);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let problem = |more: Json| definition(more).unwrap_err().to_string();
        for index in ["", "A", "-a", "_a", "a b", "a{", "a{mm}", "a}", "..", "a*", "a/b", &"x".repeat(256)] {
            assert!(problem(json!({"index": index})).contains("option `index`"), "{index}");
        }
        assert!(problem(json!({"urls": []})).contains("is empty"));
        assert!(problem(json!({"urls": ["http://u:p@h"]})).contains("kept secret"));
        for url in ["http://h/?pipeline=hush", "http://h/#hush"] {
            let problem = problem(json!({"urls": ["http://a", url]}));
            assert_eq!(problem, "option `urls`: what stands behind a ? or # is not read; give it as options");
        }
        assert!(problem(json!({"username": "u"})).contains("option `password`"));
        assert!(problem(json!({"password": "p"})).contains("option `username`"));
        assert!(problem(json!({"username": "u", "password": "p", "apiKey": "k"})).contains("option `apiKey`"));
        assert!(problem(json!({"certificateAuthorities": "x"})).contains("certificateAuthorities"));
        let authorities = include_str!("../../../tests/tls/ca.pem");
        for (urls, refused) in [(json!(["http://a"]), true), (json!(["http://a", "https://b"]), false)] {
            let checked = definition(json!({"urls": urls, "certificateAuthorities": authorities}));
            let problem = checked.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(problem.contains("takes effect with TLS only"), refused, "{urls}: {problem}");
        }
        assert!(problem(json!({"cancellations": "Delete"})).contains("the index has one name"));
        assert!(problem(json!({"batchBytesMax": 0})).contains("batchBytesMax"));
    }
}
