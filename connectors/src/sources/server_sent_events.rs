//! Server-sent events: what a web server tells over a request that stays open.
//!
//! When the connection ends the next one begins behind the newest event, by its id (`Last-Event-ID`). That id is the
//! position: also after a restart weir goes on behind the newest event that had its effect, as far as the server can. A
//! server that ignores ids keeps nothing: what it said meanwhile is lost.

use std::time::Duration;

use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::{Position, Value};

use crate::config;
use crate::error::ConnectorError;
use crate::event_stream::EventParser;
use crate::feed::{Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::http::{self, Asked};
use crate::origin::{self, packed};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// After a server has closed in order and has not said when to come again: as long as browsers wait.
const RETRY: Duration = Duration::from_secs(3);
const RETRY_MAX: Duration = Duration::from_secs(60);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Reads server-sent events from a web server; the data of an event is the record.
///
/// After a lost connection it goes on after the last event, if the server gives events ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSentEventsIngest {
    /// How the data of an event is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)`
    /// when not given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The `http` or `https` URL of the events.
    pub url: String,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most events to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to the data of each event before `format` reads it, in this order. None when not
    /// given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

impl SourceConfig for ServerSentEventsIngest {
    fn settings(&self) -> serde_json::Value {
        let url = http::without_password(&self.url);
        crate::settings("ServerSentEventsIngest", &ServerSentEventsIngest { url, ..self.clone() })
    }

    fn stored(&self) -> serde_json::Value {
        crate::stored("ServerSentEventsIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn frame(&self, bytes: &[u8], origin: &[u8]) -> Value {
        origin::frame("data", Value::text(&String::from_utf8_lossy(bytes)), origin)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        context.hosts.check(&http::url("url", &self.url)?)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        std::str::from_utf8(position).ok().map(|id| serde_json::json!({"lastEventId": id}))
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let url = http::url("url", &self.url)?;
        let place = http::shown(&url);
        let id = from.map(|position| position.0.clone()).unwrap_or_default();
        let listener = Listener {
            client: http::staying_client(&context.hosts)?,
            url,
            place: place.clone(),
            parser: EventParser::new(String::from_utf8_lossy(&id).into_owned()),
            last_id: String::from_utf8_lossy(&id).into_owned(),
        };
        Ok(Box::new(Feed::start(&context.runtime, &place, id, |inlet| listener.listen(inlet))))
    }
}

struct Listener {
    client: Client,
    url: reqwest::Url,
    place: String,
    parser: EventParser,
    /// The id of the newest event that was handed on, or had nothing to be.
    last_id: String,
}

/// How a connection went.
enum Ended {
    /// The server wants nobody to come back.
    ForGood,
    /// In order: after some events, or after none.
    Closed(bool),
    /// It may work later, after this long at the earliest.
    Failed(String, Duration),
}

impl Listener {
    async fn listen(mut self, inlet: Inlet) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        loop {
            let ended = self.connection(&inlet).await?;
            let retry = self.parser.retry.map(|retry| retry.min(RETRY_MAX));
            match ended {
                Ended::ForGood => {
                    inlet.works();
                    return Ok(());
                }
                Ended::Closed(some) => {
                    let lasted = inlet.ended();
                    // So do servers that are asked now and then: nothing is wrong.
                    inlet.works();
                    if some || lasted {
                        pauses.reset();
                    }
                    // The next connection has to show for itself that it works.
                    inlet.ended();
                    pauses.wait(retry.unwrap_or(if lasted { Duration::ZERO } else { RETRY })).await;
                }
                Ended::Failed(reason, least) => {
                    inlet.again_after(&reason, least.max(retry.unwrap_or_default()), &mut pauses).await;
                }
            }
        }
    }

    async fn connection(&mut self, inlet: &Inlet) -> Result<Ended, ConnectorError> {
        let mut request = self.client.get(self.url.clone()).header(ACCEPT, "text/event-stream").header(CACHE_CONTROL, "no-store");
        // One with control characters cannot be said.
        if let Some(id) = HeaderValue::from_bytes(self.last_id.as_bytes()).ok().filter(|id| !id.is_empty()) {
            request = request.header(LAST_EVENT_ID, id);
        }
        let answer = match http::ask(&self.place, request).await {
            Asked::Answered(answer) => answer,
            Asked::Failed(reason, least) => return Ok(Ended::Failed(reason, least)),
            Asked::Refused(error) => return Err(error),
        };
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(Ended::ForGood);
        }
        let given = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !given.trim_start().to_ascii_lowercase().starts_with("text/event-stream") {
            let problem = format!("the server answered with '{given}', expected text/event-stream");
            return Err(http::refusal(&self.place, problem));
        }
        inlet.begun();
        self.read(answer, inlet).await
    }

    async fn read(&mut self, mut answer: Response, inlet: &Inlet) -> Result<Ended, ConnectorError> {
        self.parser.begin_anew(self.last_id.clone());
        let (mut events, mut some) = (Vec::new(), false);
        loop {
            let chunk = match answer.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(Ended::Closed(some)),
                Err(error) => return Ok(Ended::Failed(http::chain(&error.without_url()), Duration::ZERO)),
            };
            let read = self.parser.push(&chunk, &mut events);
            for event in events.drain(..) {
                some = true;
                // By such events a server says that it is there (those of weir, Quine and of all that is made with Pekko do).
                if event.data.is_empty() {
                    continue;
                }
                let origin = packed(|origin| {
                    for (name, text) in
                        [("id", &event.id), ("eventType", &event.kind)].into_iter().filter(|(_, text)| !text.is_empty())
                    {
                        origin.text(name, text);
                    }
                    if let Some(retry) = event.retry {
                        origin.integer("retry", whole_millis(retry));
                    }
                });
                inlet.record_from(event.data, event.id.clone().into_bytes(), origin).await;
                self.last_id = event.id;
            }
            // An event without data, too, says how far the server is.
            if self.last_id != self.parser.ended_id {
                self.last_id.clone_from(&self.parser.ended_id);
                inlet.stands(self.last_id.clone().into_bytes()).await;
            }
            read.map_err(|problem| ConnectorError::Framing { place: self.place.clone(), problem })?;
        }
    }
}

/// A server may say any number.
fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use serde_json::json;

    use super::*;
    use crate::conformance::{anything, run, takes_less_than};
    use crate::frames::{Frames, Limits};

    const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

    type Answering = Box<dyn FnOnce(&mut TcpStream) + Send>;

    /// Answers connection after connection; says what was asked for.
    fn server(answers: Vec<Answering>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://user:secret@{}/events?token=1", listener.local_addr().unwrap());
        let answering = thread::spawn(move || {
            let answer = |answer: Answering| {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
                    head.push(byte[0]);
                }
                answer(&mut stream);
                String::from_utf8(head).unwrap()
            };
            answers.into_iter().map(answer).collect()
        });
        (url, answering)
    }

    fn says(text: &str) -> Answering {
        let text = text.to_owned();
        Box::new(move |stream| stream.write_all(text.as_bytes()).unwrap())
    }

    fn source(url: &str) -> Box<dyn SourceConfig> {
        let definition = json!({"type": "ServerSentEventsIngest", "url": url, "recordDecoders": ["Base64"],
            "format": {"type": "CypherJson", "query": "RETURN 1"}});
        crate::parse_source_v1(&definition).unwrap()
    }

    #[test]
    fn a_pause_is_told_as_no_less_than_nothing() {
        assert_eq!([1500, u64::MAX].map(|millis| whole_millis(Duration::from_millis(millis))), [1500, i64::MAX]);
    }

    #[test]
    fn events_come_again_after_each_disconnection_from_where_it_was() {
        let (url, asked) = server(vec![
            says(&format!("{FINE}retry: 1\n\ndata: MQ==\nid: a1\n\ndata: Mg==\nid: a2\n\ndata: Mw==")),
            says("HTTP/1.1 503 Not Now\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
            // Two signs of life among them, one of which says how far the server is.
            says(&format!("{FINE}: nothing\n\ndata:\n\ndata: !\nid: a3\n\ndata: NA==\nid: a4\n\ndata:\nid: a5\n\n")),
            says("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        ]);
        let config = source(&url);
        assert!(!config.settings().to_string().contains("secret") && config.stored().to_string().contains("secret"));
        let mut run = run(&*config, None, &Limits { wait_max: Duration::from_secs(10), ..Limits::default() }).unwrap();
        assert_eq!(run.records, ["1", "2", "4"]);
        assert_eq!(run.failures.len(), 1);
        assert!(run.finished);
        let asked = asked.join().unwrap();
        let ids: Vec<_> = asked.iter().map(|head| head.lines().find_map(|line| line.strip_prefix("last-event-id: "))).collect();
        assert_eq!(ids, [None, Some("a2"), Some("a2"), Some("a5")]);
        assert!(asked[0].contains("accept: text/event-stream") && asked[0].contains("authorization: Basic "));

        // After a restart, too.
        let (url, asked) = server(vec![says("HTTP/1.1 204 No Content\r\n\r\n")]);
        let (_, position) = run.positions.pop().unwrap();
        assert!(self::run_from(&url, &position));
        assert!(asked.join().unwrap()[0].contains("last-event-id: a5"));
    }

    #[test]
    fn a_server_that_closes_or_cannot_answer_is_left_alone_for_as_long_as_it_asks_for() {
        let end = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        let away = |first: String| {
            let (url, asked) = server(vec![says(&first), says(end)]);
            let begun = std::time::Instant::now();
            let limits = Limits { wait_max: Duration::from_secs(20), ..Limits::default() };
            assert!(run(&*source(&url), None, &limits).unwrap().finished);
            asked.join().unwrap();
            begun.elapsed()
        };
        assert!(away(format!("{FINE}data: MQ==\n\n")) >= Duration::from_secs(3), "it does not say when");
        takes_less_than(Duration::from_secs(3), "a retry of 1 ms", || away(format!("{FINE}retry: 1\ndata: MQ==\n\n")));
        let busy = "HTTP/1.1 429 Too Many\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert!(away(busy.to_owned()) >= Duration::from_secs(2));
    }

    #[test]
    fn one_that_breaks_off_again_and_again_works_when_it_has_lasted() {
        // Fewer bytes come than are said to.
        let broken = || {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\n";
            says(&format!("{head}data: MQ==\n\n"))
        };
        let waits: Answering = Box::new(|stream| {
            stream.write_all(format!("{FINE}data: Mg==\n\n").as_bytes()).unwrap();
            // Until nobody listens any more.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let (url, asked) = server(vec![broken(), broken(), waits]);
        let mut stream = source(&url).open(&anything(), None).unwrap();
        let limits = Limits { records_max: 1, wait_max: Duration::from_secs(60), ..Limits::default() };
        let mut batch = Frames::default();
        for expected in ["MQ==", "MQ==", "Mg=="] {
            batch.clear();
            stream.next(&limits, &mut batch).unwrap();
            assert_eq!((batch.len(), batch.get(0).bytes), (1, expected.as_bytes()));
        }
        assert!(stream.trouble().is_some(), "what it says to all who come says nothing");
        drop(stream);
        asked.join().unwrap();
    }

    #[test]
    fn an_id_that_no_header_can_say_is_left_out() {
        let (url, asked) = server(vec![
            says(&format!("{FINE}retry: 1\n\ndata: MQ==\nid: a\u{1}b\n\n")),
            says("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        ]);
        let run = run(&*source(&url), None, &Limits { wait_max: Duration::from_secs(10), ..Limits::default() }).unwrap();
        assert!(run.finished);
        assert!(!asked.join().unwrap()[1].contains("last-event-id"));
    }

    fn run_from(url: &str, position: &Position) -> bool {
        run(&*source(url), Some(position), &Limits { wait_max: Duration::from_secs(10), ..Limits::default() }).unwrap().finished
    }

    #[test]
    fn what_is_no_stream_of_events_ends_the_source_with_the_reason() {
        let refused = |answer: &str| {
            let (url, asked) = server(vec![says(answer)]);
            let limits = Limits { wait_max: Duration::from_secs(10), ..Limits::default() };
            let problem = run(&*source(&url), None, &limits).err().unwrap().to_string();
            asked.join().unwrap();
            assert!(!problem.contains("secret") && !problem.contains("token"), "{problem}");
            problem
        };
        assert!(refused("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").contains("the server answered 404 Not Found"));
        let html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n";
        assert!(refused(html).contains("the server answered with 'text/html', expected text/event-stream"));
        let long = format!("{FINE}data: {}", "x".repeat(6 << 20));
        let (url, asked) = server(vec![Box::new(move |stream| drop(stream.write_all(long.as_bytes())))]);
        let limits = Limits { wait_max: Duration::from_secs(10), ..Limits::default() };
        let problem = run(&*source(&url), None, &limits).err().unwrap();
        assert!(problem.to_string().contains("a line of an event has more than"), "{problem}");
        asked.join().unwrap();
    }

    #[test]
    fn a_server_that_is_away_is_waited_for_and_stopping_does_not_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://u:hush@{address}/?token=hush");
        drop(listener);
        takes_less_than(Duration::from_millis(500), "stopping", || {
            let mut stream = source(&url).open(&anything(), None).unwrap();
            let mut batch = Frames::default();
            let trouble = (0..1_000).find_map(|_| {
                stream.next(&Limits::default(), &mut batch).unwrap();
                stream.trouble()
            });
            let trouble = trouble.unwrap();
            let is_told = trouble.contains("refused") && trouble.contains(&address.to_string());
            assert!(is_told && !trouble.contains("hush"), "{trouble}");
            let begun = std::time::Instant::now();
            drop(stream);
            begun.elapsed()
        });
        assert!(source("ftp://x/").check(&anything()).is_err());
    }
}
