//! A Slack channel, by its incoming webhook.
//!
//! At most one message an interval: what arrives meanwhile is counted, and the newest is shown. So nothing is ever held
//! back, and nothing grows. At most once: a message that does not get through is dropped and noted. Where nothing may be given
//! up, one that may get through later is sent again, with what has come meanwhile.

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use weir_model::{NodeId, Position};

use super::http_endpoint::{Outcome, post};
use crate::config::{self, Secret};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::http;

/// Posts to a Slack channel: at most one message per interval, with the number of results since the last one and the newest of
/// them.
///
/// A message that Slack does not take is not sent again, unless `onResultError` is `Retry` or `Fail`; the next one is about later
/// results.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostToSlack {
    /// The webhook URL, as Slack gives it.
    pub hook_url: Secret,
    /// Whether cancellations are left out.
    #[serde(default)]
    pub only_positive_match_data: bool,
    /// The shortest time between two messages. 20 s when not given, 1 s at least.
    #[serde(default = "interval", deserialize_with = "config::integer")]
    pub interval_seconds: i64,
}

/// Slack takes no longer text in a section, and refuses the whole message for one.
const TEXT_CHARS_MAX: usize = 3_000;

/// What the data of a result stands between.
const FENCE: &str = "```";

fn interval() -> i64 {
    20
}

impl DestinationConfig for PostToSlack {
    fn settings(&self) -> Json {
        crate::settings("PostToSlack", self)
    }

    fn envelope(&self, generation: Generation) -> Envelope {
        match generation {
            Generation::V1 => Envelope::Bare,
            Generation::V2 => Envelope::WithMetadata,
        }
    }

    fn positive_only(&self) -> bool {
        self.only_positive_match_data
    }

    fn check(&self) -> Result<(), ConnectorError> {
        match self.hook_url.known() {
            Some(known) => http::url("hookUrl", known).map(|_| ()),
            None => Ok(()),
        }
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        if let Some(known) = self.hook_url.known() {
            context.hosts.check(&http::url("hookUrl", known)?)?;
        }
        Ok(Box::new(Channel {
            client: http::client()?,
            runtime: context.runtime.clone(),
            hook_url: self.hook_url.clone(),
            hosts: context.hosts.clone(),
            interval: Duration::from_secs(self.interval_seconds.max(1) as u64),
            posted: None,
            news: News::default(),
            tells_ids: context.generation == Generation::V1,
            stops_at_refused: false,
        }))
    }
}

struct Channel {
    client: Client,
    runtime: Handle,
    hook_url: Secret,
    hosts: HostPolicy,
    interval: Duration,
    posted: Option<Instant>,
    news: News,
    /// What v2 shows of a result has its id.
    tells_ids: bool,
    /// No result is given up.
    stops_at_refused: bool,
}

/// Why there is no message.
enum Unsent {
    /// What is new waits, since Slack cannot be asked.
    Waits(String),
    /// What was new is dropped.
    Refused(String),
    /// It may get through later, after this long at the earliest. What is new is dropped, unless no result is given up.
    Failed(String, Duration),
}

impl Unsent {
    fn error(self) -> ConnectorError {
        let (Unsent::Waits(problem) | Unsent::Refused(problem) | Unsent::Failed(problem, _)) = self;
        ConnectorError::passing("Slack", problem)
    }
}

/// What has arrived since the last message.
#[derive(Clone, Debug, Default)]
struct News {
    results: usize,
    cancellations: usize,
    newest_result: Newest,
    newest_cancellation: Newest,
}

#[derive(Clone, Debug, Default)]
struct Newest {
    body: Vec<u8>,
    id: Option<NodeId>,
}

impl Newest {
    fn blocks(&self, tells_ids: bool) -> impl Iterator<Item = Json> {
        [Some(data(&self.body)), self.id.filter(|_| tells_ids).map(result_id)].into_iter().flatten()
    }
}

impl News {
    fn add(&mut self, result: &Outgoing) {
        let (count, newest) = match result.positive {
            true => (&mut self.results, &mut self.newest_result),
            false => (&mut self.cancellations, &mut self.newest_cancellation),
        };
        *count += 1;
        newest.body.clone_from(&result.body);
        newest.id = result.id;
    }

    fn message(&self, tells_ids: bool) -> Option<Json> {
        let text = match (self.results, self.cancellations) {
            (0, 0) => return None,
            (1, 0) => "New Standing Query Result",
            (0, 1) => "Standing Query Result Cancelled",
            _ => "New Standing Query Updates",
        };
        let mut blocks = Vec::new();
        match self.results {
            0 => {}
            1 => blocks.push(header("New Standing Query Result")),
            n => blocks.extend([header("New Standing Query Results"), section(format!("Latest result of {}:", n - 1))]),
        }
        if self.results > 0 {
            blocks.extend(self.newest_result.blocks(tells_ids));
        }
        match self.cancellations {
            0 => {}
            1 => {
                blocks.push(header("Standing Query Result Cancelled"));
                blocks.extend(self.newest_cancellation.blocks(tells_ids));
            }
            n => blocks.push(header(&format!("Standing Query Results Cancelled: {n}"))),
        }
        Some(json!({"text": text, "blocks": blocks}))
    }
}

fn header(text: &str) -> Json {
    json!({"type": "header", "text": {"type": "plain_text", "text": text}})
}

fn section(text: String) -> Json {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text}})
}

fn data(body: &[u8]) -> Json {
    let pretty = serde_json::from_slice::<Json>(body).and_then(|data| serde_json::to_string_pretty(&data));
    let mut text = pretty.unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned());
    shorten(&mut text, TEXT_CHARS_MAX - 2 * FENCE.len());
    section(format!("{FENCE}{text}{FENCE}"))
}

/// Leaves so many characters at most, the last of which says that there were more.
fn shorten(text: &mut String, chars_max: usize) {
    if text.chars().nth(chars_max).is_some() {
        let end = text.char_indices().nth(chars_max - 1).map_or(0, |(end, _)| end);
        text.truncate(end);
        text.push('…');
    }
}

fn result_id(id: NodeId) -> Json {
    json!({"type": "context", "elements": [{"type": "mrkdwn", "text": format!("*Result ID:* {id}")}]})
}

impl Channel {
    /// Anew each time: it may be kept elsewhere.
    fn url(&self) -> Result<Url, ConnectorError> {
        let text = self.hook_url.value()?;
        // What a secret holds is not told.
        let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| ConnectorError::Secret { problem: "the hookUrl is no URL with http or https".to_owned() })?;
        self.hosts.check(&url)?;
        Ok(url)
    }

    /// A message with what is new, if its time has come.
    fn post_in_time(&mut self) -> Result<(), Unsent> {
        if self.posted.is_none_or(|at| at.elapsed() >= self.interval) { self.post() } else { Ok(()) }
    }

    fn post(&mut self) -> Result<(), Unsent> {
        let Some(message) = self.news.message(self.tells_ids) else { return Ok(()) };
        self.posted = Some(Instant::now());
        let url = self.url().map_err(|error| {
            let problem = format!("what is new waits, since the address of Slack cannot be had: {error}");
            Unsent::Waits(problem)
        })?;
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let outcome = self.runtime.block_on(post(&self.client, &url, &headers, message.to_string().into_bytes()));
        // The address itself is the secret; it is not shown.
        let told = |what: &str, problem: String| format!("a message to Slack {what}: {}", problem.replace(url.path(), "/…"));
        let posted = match outcome {
            Outcome::Failed(problem, pause_min) if self.stops_at_refused => {
                return Err(Unsent::Failed(told("does not get through", problem), pause_min));
            }
            Outcome::Taken | Outcome::Held => Ok(()),
            Outcome::Refused(problem) => Err(Unsent::Refused(told("is dropped", problem))),
            Outcome::Failed(problem, pause_min) => Err(Unsent::Failed(told("is dropped", problem), pause_min)),
        };
        self.news = News::default();
        posted
    }
}

impl Destination for Channel {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let before = self.stops_at_refused.then(|| self.news.clone());
        results.iter().for_each(|result| self.news.add(result));
        let mut written = Written::default();
        match (self.post_in_time(), before) {
            (Ok(()) | Err(Unsent::Waits(_)), _) => return Ok(written),
            (Err(Unsent::Failed(problem, pause_min)), Some(before)) => {
                // These come again.
                self.news = before;
                written.left.extend(0..results.len());
                written.left_reason = Some(problem);
                written.pause_min = pause_min;
            }
            (Err(Unsent::Refused(problem) | Unsent::Failed(problem, _)), _) => {
                written.refused.extend((0..results.len()).map(|index| (index, problem.clone())));
            }
        }
        // What comes again before its time would be taken to wait for it, and count as delivered.
        written.pause_min = written.pause_min.max(self.interval);
        Ok(written)
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        self.post_in_time().map_err(Unsent::error)
    }

    fn rests(&self) -> bool {
        self.news.results + self.news.cancellations == 0
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        self.post().map_err(Unsent::error)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;
    use crate::conformance::{bodies, output, runtime};
    use crate::destination::tests::other_side;
    use crate::destinations::http_tests::next_request;

    fn news(results: &[(bool, &str)]) -> News {
        let mut news = News::default();
        for ((positive, body), low) in results.iter().zip(1..) {
            let id = Some(NodeId::new(0, low));
            news.add(&Outgoing { body: body.as_bytes().to_vec(), positive: *positive, mark: 0, id });
        }
        news
    }

    fn message(results: &[(bool, &str)]) -> Json {
        news(results).message(false).unwrap()
    }

    #[test]
    fn messages_say_what_is_new() {
        assert!(News::default().message(true).is_none());
        let one = message(&[(true, r#"{"a":1}"#)]);
        assert_eq!(one["text"], "New Standing Query Result");
        assert_eq!(one["blocks"][1]["text"]["text"], "```{\n  \"a\": 1\n}```");
        assert_eq!(message(&[(false, "{}")])["text"], "Standing Query Result Cancelled");
        let many = message(&[(true, "{}"), (false, "{}"), (true, r#"{"a":2}"#), (false, "{}")]);
        assert_eq!(many["text"], "New Standing Query Updates");
        let texts: Vec<&str> = many["blocks"].as_array().unwrap().iter().map(|b| b["text"]["text"].as_str().unwrap()).collect();
        let expected = [
            "New Standing Query Results",
            "Latest result of 1:",
            "```{\n  \"a\": 2\n}```",
            "Standing Query Results Cancelled: 2",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn the_text_of_a_result_is_no_longer_than_slack_takes() {
        let shown = |body: &str| message(&[(true, body)])["blocks"][1]["text"]["text"].as_str().unwrap().to_owned();
        // Quotes and backticks are 8 characters.
        let fits = format!("\"{}\"", "ä".repeat(TEXT_CHARS_MAX - 8));
        assert_eq!(shown(&fits), format!("```{fits}```"));
        for longer in [1, 2, 100_000] {
            let text = shown(&format!("\"{}\"", "ä".repeat(TEXT_CHARS_MAX - 8 + longer)));
            assert_eq!(text, format!("```\"{}…```", "ä".repeat(TEXT_CHARS_MAX - 8)));
            assert_eq!(text.chars().count(), TEXT_CHARS_MAX);
        }
    }

    #[test]
    fn what_may_get_through_later_is_sent_again_where_nothing_is_given_up() {
        let status = Arc::new(AtomicU16::new(200));
        let answering = status.clone();
        let (address, taken) = other_side(move |connection, taken| {
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut writer = connection;
            while let Some((_, body)) = next_request(&mut reader) {
                let status = answering.load(Ordering::SeqCst);
                if status == 200 {
                    taken.lock().unwrap().push(body);
                }
                if write!(writer, "HTTP/1.1 {status} S\r\ncontent-length: 0\r\n\r\n").is_err() {
                    break;
                }
            }
        });
        let runtime = runtime();
        let definition = json!({"type": "PostToSlack", "hookUrl": format!("http://{address}/secret"), "intervalSeconds": 1});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let interval = Duration::from_secs(1);
        for (stops, left) in [(false, vec![]), (true, vec![0, 1])] {
            let mut slack = config.open(&output(&runtime), None).unwrap();
            if stops {
                slack.stops_at_refused();
            }
            let results = bodies(&["1", "2"]);
            status.store(503, Ordering::SeqCst);
            let written = slack.write(&results, 0).unwrap();
            assert_eq!((&written.left, written.refused.is_empty(), slack.rests()), (&left, stops, true));
            assert!(written.pause_min >= interval, "sooner it would only wait for its time");
            assert!(written.left_reason.is_none_or(|reason| !reason.contains("secret")));
            std::thread::sleep(interval);
            // What Slack refuses for good is no better for it.
            status.store(403, Ordering::SeqCst);
            assert_eq!(slack.write(&results, 0).unwrap().refused.len(), 2);
            std::thread::sleep(interval);
            status.store(200, Ordering::SeqCst);
            let written = slack.write(&results, 0).unwrap();
            assert!(written.left.is_empty() && written.refused.is_empty());
            let told = std::mem::take(&mut *taken.lock().unwrap());
            assert!(told.len() == 1 && told[0].contains("Latest result of 1:"), "each is counted once: {told:?}");
            // What waits for its time is taken, and told in one that gets through.
            slack.write(&results, 0).unwrap();
            status.store(503, Ordering::SeqCst);
            std::thread::sleep(interval);
            assert!(slack.idle().is_err());
            assert_eq!(slack.rests(), !stops);
            status.store(200, Ordering::SeqCst);
            std::thread::sleep(interval);
            slack.idle().unwrap();
            assert_eq!(std::mem::take(&mut *taken.lock().unwrap()).len(), usize::from(stops));
        }
    }

    #[test]
    fn outputs_of_v1_tell_the_id_of_what_they_show() {
        let shown = |results: &[(bool, &str)]| {
            let message = news(results).message(true).unwrap();
            let kinds = |block: &Json| block["type"].as_str().unwrap().to_owned();
            let kinds: Vec<String> = message["blocks"].as_array().unwrap().iter().map(kinds).collect();
            (kinds.join(" "), message)
        };
        let id = |low: u64| {
            let text = format!("*Result ID:* 00000000-0000-0000-0000-{low:012}");
            json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text}]})
        };
        for positive in [true, false] {
            let (kinds, message) = shown(&[(positive, "{}")]);
            assert_eq!((kinds.as_str(), &message["blocks"][2]), ("header section context", &id(1)));
        }
        let (kinds, message) = shown(&[(true, "{}"), (false, "{}"), (true, "{}"), (false, "{}")]);
        assert_eq!((kinds.as_str(), &message["blocks"][3]), ("header section section context header", &id(3)));
    }
}
