//! What becomes of records that fail, and of a stream that does: `onRecordError` and `onStreamError` of v2.
//!
//! A record that cannot be decoded, or whose query fails, is sent to each of the dead-letter destinations. The stream goes
//! on when they have it: nothing is acknowledged of which nobody has heard.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::config::wrong_type;
use weir_connectors::{
    Delivery, DestinationConfig, DestinationContext, Generation, Outgoing, SourceConfig, SourceContext, destination, secret,
};
use weir_model::{IdScheme, Value};

use super::{lock, refused};
use crate::error::{ApiError, chain};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::{Family, duration_text, parse_duration};
use crate::wire::standing::Output;
use crate::wire::v2::standing::{destination_json, read_destination};

/// Destinations of results that are none of failed records.
pub const NO_LETTER_BOXES: [&str; 6] = ["Drop", "CypherQuery", "Slack", "Elasticsearch", "S3", "Postgres"];

/// What keeps failed records is given this long to take the last of them when the stream ends.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// How soon whoever waits sees that it shall stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

const RECORD: &str = "onRecordError";
const STREAM: &str = "onStreamError";

/// As a definition has it.
pub struct ErrorHandling {
    /// As it was typed, to be stored and read again.
    given: JsonMap<String, Json>,
    retry_settings: Option<Json>,
    /// Whether failed records are told in the log.
    pub log_record: bool,
    boxes: Vec<LetterBox>,
    restarts: Option<RestartSettings>,
}

impl Default for ErrorHandling {
    fn default() -> ErrorHandling {
        ErrorHandling { given: JsonMap::new(), retry_settings: None, log_record: true, boxes: Vec::new(), restarts: None }
    }
}

struct LetterBox {
    output: Output,
    config: Arc<dyn DestinationConfig>,
    form: Form,
}

/// What of a record is sent.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Bytes,
    Json { envelope: bool },
}

#[derive(Clone, Copy)]
struct RestartSettings {
    count: u32,
    within: Duration,
    backoff_min: Duration,
    backoff_max: Duration,
}

impl ErrorHandling {
    /// Out of the definition of a stream.
    pub fn read(definition: &Json) -> Result<ErrorHandling, ApiError> {
        let handling = ErrorHandling::decode(definition)?;
        handling.boxes.iter().try_for_each(|letters| letters.config.check().map_err(refused))?;
        Ok(handling)
    }

    /// The same without a look at what it refers to.
    pub fn decode(definition: &Json) -> Result<ErrorHandling, ApiError> {
        let mut mistakes = Mistakes::default();
        let handling = ErrorHandling::of(definition, &mut mistakes);
        mistakes.or(handling).map_err(ApiError::Decode)
    }

    fn of(definition: &Json, mistakes: &mut Mistakes) -> Option<ErrorHandling> {
        let part = |name: &str| definition.get(name).filter(|value| !value.is_null());
        let given = [RECORD, STREAM].iter().filter_map(|name| Some(((*name).to_owned(), part(name)?.clone())));
        let mut handling = ErrorHandling { given: given.collect(), ..ErrorHandling::default() };
        if let Some(given) = part(RECORD) {
            let fields = Fields::of(given, ".onRecordError", mistakes)?;
            handling.log_record = fields.boolean("logRecord", mistakes).unwrap_or(true);
            handling.retry_settings = fields.get("retrySettings").and_then(|given| retry_settings(given, mistakes));
            if let Some(letters) = fields.get("deadLetterQueueSettings") {
                let letters = Fields::of(letters, ".onRecordError.deadLetterQueueSettings", mistakes)?;
                handling.boxes = letter_boxes(&letters, mistakes);
            }
        }
        if let Some(given) = part(STREAM) {
            handling.restarts = restarts(given, mistakes);
        }
        Some(handling)
    }

    /// Adds what was typed to a definition that is to be stored.
    pub fn store(&self, definition: &mut Json) {
        if let Json::Object(fields) = definition {
            fields.extend(self.given.clone());
        }
    }

    /// Adds the parts of v2 to what is shown of a stream, secrets masked.
    pub fn show(&self, whole: &mut Json, family: Family) {
        let boxes: Vec<Json> = self.boxes.iter().map(|letters| letters.shown(family)).collect();
        whole[RECORD] = json!({"logRecord": self.log_record, "deadLetterQueueSettings": {"destinations": boxes}});
        if let Some(settings) = &self.retry_settings {
            whole[RECORD]["retrySettings"] = settings.clone();
        }
        whole[STREAM] = match self.restarts {
            None => json!({"type": "LogStreamError"}),
            Some(settings) => json!({
                "type": "RetryStreamError",
                "retryCount": settings.count,
                "within": duration_text(settings.within),
                "minBackoff": duration_text(settings.backoff_min),
                "maxBackoff": duration_text(settings.backoff_max),
            }),
        };
    }

    /// Whether anybody is told of records that fail.
    pub fn tells(&self) -> bool {
        !self.boxes.is_empty()
    }

    /// Whether failed records could go there: who creates a stream is told, and not only the stream when it begins.
    pub fn check(&self, stream: &str, context: &SourceContext) -> Result<(), weir_connectors::ConnectorError> {
        let open = |(index, letters): (usize, &LetterBox)| {
            secret::check(|| letters.config.stored())?;
            letters.config.open(&destination_context(stream, index, context), None).map(drop)
        };
        self.boxes.iter().enumerate().try_for_each(open)
    }

    /// Where failed records go, if anywhere.
    pub fn open(
        &self,
        stream: &str,
        ids: IdScheme,
        context: &SourceContext,
    ) -> Result<Option<DeadLetters>, weir_connectors::ConnectorError> {
        if self.boxes.is_empty() {
            return Ok(None);
        }
        let open = |(index, letters): (usize, &LetterBox)| {
            let at = destination_context(stream, index, context);
            let destination = destination::open(&letters.config, &at, None)?;
            let reached = Arc::new((AtomicU64::new(0), Mutex::new(()), Condvar::new()));
            let telling = reached.clone();
            let delivered = Box::new(move |mark, _| {
                telling.0.store(mark, Ordering::Release);
                let _told = lock(&telling.1);
                telling.2.notify_all();
            });
            Ok(Running {
                delivery: Delivery::of_all(&at.output, destination, delivered),
                form: letters.form,
                retries: 0,
                reached,
            })
        };
        let running = self.boxes.iter().enumerate().map(open).collect::<Result<_, _>>()?;
        Ok(Some(DeadLetters { running, mark: 0, ids }))
    }

    /// How often the stream begins again by itself.
    pub fn restarts(&self) -> Restarts {
        Restarts { settings: self.restarts, done: 0, last: None }
    }
}

fn destination_context(stream: &str, index: usize, context: &SourceContext) -> DestinationContext {
    DestinationContext {
        output: format!("failed records of {stream}"),
        identity: format!("failed-{stream}-{index}"),
        generation: Generation::V2,
        runtime: context.runtime.clone(),
        hosts: context.hosts.clone(),
    }
}

/// Decoders give the same answer each time, so that there is nothing to try again; the settings are taken and shown.
fn retry_settings(given: &Json, mistakes: &mut Mistakes) -> Option<Json> {
    let fields = Fields::of(given, ".onRecordError.retrySettings", mistakes)?;
    let factor = fields.get("randomFactor").map_or(Some(0.2), Json::as_f64);
    if factor.is_none() {
        mistakes.at(".onRecordError.retrySettings.randomFactor", "Double");
    }
    let mut number = |name: &str, usual: i64| fields.int(name, mistakes).unwrap_or(usual);
    Some(json!({
        "minBackoff": number("minBackoff", 2000),
        "maxBackoff": number("maxBackoff", 20),
        "randomFactor": factor?,
        "maxRetries": number("maxRetries", 6),
    }))
}

fn letter_boxes(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Vec<LetterBox> {
    let path = fields.path_of("destinations");
    let Some(given) = fields.get("destinations") else { return Vec::new() };
    let Some(given) = given.as_array() else {
        mistakes.at(&path, wrong_type(given, "array"));
        return Vec::new();
    };
    let read = |(index, given): (usize, &Json)| LetterBox::read(given, &format!("{path}[{index}]"), mistakes);
    given.iter().enumerate().filter_map(read).collect()
}

impl LetterBox {
    fn read(given: &Json, path: &str, mistakes: &mut Mistakes) -> Option<LetterBox> {
        let (fields, kind) = Fields::tagged(given, path, mistakes)?;
        if NO_LETTER_BOXES.contains(&kind) {
            mistakes.at(path, format!("the destination '{kind}' takes no failed records"));
            return None;
        }
        let form = match fields.get("outputFormat") {
            None => Form::Json { envelope: false },
            Some(format) => {
                let (inner, name) = Fields::tagged(format, &format!("{path}.outputFormat"), mistakes)?;
                match name {
                    "Bytes" => Form::Bytes,
                    "JSON" => Form::Json { envelope: inner.boolean("withInfoEnvelope", mistakes).unwrap_or(false) },
                    "Protobuf" => {
                        let problem = "Protobuf is not in this version of weir; there are Bytes, JSON";
                        mistakes.at(&format!("{path}.outputFormat"), problem);
                        return None;
                    }
                    other => {
                        mistakes.at(
                            &format!("{path}.outputFormat"),
                            format!("type '{other}' names no format; there are Bytes, JSON"),
                        );
                        return None;
                    }
                }
            }
        };
        let output = read_destination(given, path, mistakes)?;
        let Output::Destination(config) = &output else {
            mistakes.at(path, format!("the destination '{kind}' takes no failed records"));
            return None;
        };
        Some(LetterBox { config: config.clone(), output, form })
    }

    fn shown(&self, family: Family) -> Json {
        let mut shown = destination_json(&self.output, family);
        shown["outputFormat"] = match self.form {
            Form::Bytes => json!({"type": "Bytes"}),
            Form::Json { envelope } => json!({"type": "JSON", "withInfoEnvelope": envelope}),
        };
        shown
    }
}

fn restarts(given: &Json, mistakes: &mut Mistakes) -> Option<RestartSettings> {
    let (fields, kind) = Fields::tagged(given, ".onStreamError", mistakes)?;
    let mut duration = |name: &str, usual: u64| match fields.get(name) {
        None => Some(Duration::from_secs(usual)),
        Some(given) => {
            let read = given.as_str().and_then(parse_duration).filter(|duration| !duration.is_zero());
            if read.is_none() {
                mistakes.at(&format!(".onStreamError.{name}"), format!("'{given}' is no duration, such as 10s or 1m30s"));
            }
            read
        }
    };
    match kind {
        "LogStreamError" => None,
        "RetryStreamError" => {
            let times = (duration("within", 31), duration("minBackoff", 10), duration("maxBackoff", 10));
            fields.required("retryCount", mistakes)?;
            let count = fields.int("retryCount", mistakes).and_then(|count| u32::try_from(count).ok());
            if count.is_none() {
                mistakes.at(".onStreamError.retryCount", "give a number of at least 0");
            }
            let (within, backoff_min, backoff_max) = (times.0?, times.1?, times.2?);
            Some(RestartSettings { count: count?, within, backoff_min, backoff_max: backoff_max.max(backoff_min) })
        }
        other => {
            mistakes.at(".onStreamError", format!("type '{other}' is not one of LogStreamError, RetryStreamError"));
            None
        }
    }
}

/// The restarts of one stream.
pub struct Restarts {
    settings: Option<RestartSettings>,
    done: u32,
    last: Option<Instant>,
}

impl Restarts {
    /// How long to wait before the next one. None when there is none.
    pub fn next(&mut self) -> Option<Duration> {
        let settings = self.settings?;
        if self.last.is_some_and(|last| last.elapsed() > settings.within) {
            self.done = 0;
        }
        if self.done >= settings.count {
            return None;
        }
        self.done += 1;
        self.last = Some(Instant::now());
        let growing = settings.backoff_min.saturating_mul(1 << (self.done - 1).min(20));
        Some(growing.min(settings.backoff_max))
    }
}

/// A record that failed.
pub struct Letter<'a> {
    pub number: u64,
    pub bytes: &'a [u8],
    /// None where it could not be decoded.
    pub decoded: Option<&'a Value>,
    pub reason: &'a str,
}

/// The destinations of one stream's failed records, at work.
pub struct DeadLetters {
    running: Vec<Running>,
    mark: u64,
    ids: IdScheme,
}

struct Running {
    delivery: Delivery,
    form: Form,
    /// Tries beyond the first, of what it has taken.
    retries: u64,
    /// The mark that has been reached, and its bell.
    reached: Arc<(AtomicU64, Mutex<()>, Condvar)>,
}

impl DeadLetters {
    /// Sends them to every destination and waits until all have them. False: stopped before. An error: one will not take them, ever.
    /// `late` is told why a destination has not taken them yet.
    pub fn send(
        &mut self,
        config: &dyn SourceConfig,
        letters: &[Letter<'_>],
        stopping: impl Fn() -> bool,
        late: impl Fn(String),
    ) -> Result<bool, String> {
        if letters.is_empty() {
            return Ok(true);
        }
        self.mark += 1;
        for running in &self.running {
            let outgoing = |letter: &Letter<'_>| {
                let body = letter.body(running.form, config, self.ids);
                Outgoing { body, positive: true, mark: self.mark, id: None }
            };
            running.delivery.send(letters.iter().map(outgoing).collect(), self.mark).map_err(|error| chain(&error))?;
        }
        let number = letters.len();
        for running in &self.running {
            let (reached, told, bell) = &*running.reached;
            let tries = || running.delivery.counters().retries.load(Ordering::Relaxed);
            let mut before = running.retries;
            while reached.load(Ordering::Acquire) < self.mark {
                if let Some(reason) = running.delivery.failure() {
                    return Err(format!("a dead letter cannot be delivered: {reason}"));
                }
                if stopping() {
                    return Ok(false);
                }
                if let (now @ 1.., Some(reason)) = (tries(), running.delivery.counters().last_error())
                    && now != before
                {
                    before = now;
                    late(format!("{number} dead letters wait for their destination: {reason}"));
                }
                drop(bell.wait_timeout(lock(told), STOP_LOOK));
            }
        }
        for running in &mut self.running {
            running.retries = running.delivery.counters().retries.load(Ordering::Relaxed);
        }
        Ok(true)
    }

    /// `all`: they have what was sent, as far as it is known.
    pub fn close(self, all: bool) {
        for running in self.running {
            running.delivery.close(if all { CLOSE_TIME_MAX } else { Duration::ZERO });
        }
    }
}

impl Letter<'_> {
    fn body(&self, form: Form, config: &dyn SourceConfig, ids: IdScheme) -> Vec<u8> {
        let frame = match form {
            Form::Bytes => return self.bytes.to_vec(),
            Form::Json { .. } => config.frame(self.bytes),
        };
        if form == (Form::Json { envelope: false }) {
            return frame.to_string().into_bytes();
        }
        let mut body = format!("{{\"frame\":{frame},").into_bytes();
        if let Some(decoded) = self.decoded {
            body.extend_from_slice(b"\"decoded\":");
            weir_model::json::write(decoded, ids, &mut body);
            body.push(b',');
        }
        body.extend_from_slice(format!("\"message\":{},\"number\":{}}}", json!(self.reason), self.number).as_bytes());
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: Json, stream: Json) -> Result<Json, Vec<String>> {
        match ErrorHandling::read(&json!({"onRecordError": record, "onStreamError": stream})) {
            Ok(handling) => {
                let mut stored = json!({});
                handling.store(&mut stored);
                let mut whole = json!({});
                handling.show(&mut whole, Family::Current);
                let mut again = json!({});
                ErrorHandling::read(&stored).expect("what is stored is read").show(&mut again, Family::Current);
                assert_eq!(whole, again);
                Ok(whole)
            }
            Err(ApiError::Decode(mistakes)) => Err(mistakes),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn settings_are_shown_with_their_defaults_and_without_secrets() {
        let shown = read(Json::Null, Json::Null).expect("nothing is fine");
        let nothing = json!({"logRecord": true, "deadLetterQueueSettings": {"destinations": []}});
        assert_eq!(shown, json!({"onRecordError": nothing, "onStreamError": {"type": "LogStreamError"}}));
        let record = json!({"logRecord": false, "retrySettings": {"maxRetries": 3}, "deadLetterQueueSettings": {"destinations": [
            {"type": "File", "path": "failed.jsonl"},
            {"type": "HttpEndpoint", "url": "http://h/", "headers": {"A": "geheim"}, "outputFormat": {"type": "JSON", "withInfoEnvelope": true}},
        ]}});
        let shown = read(record, json!({"type": "RetryStreamError", "retryCount": 2, "minBackoff": "1s"})).expect("is read");
        assert!(!shown.to_string().contains("geheim"), "{shown}");
        let boxes = &shown["onRecordError"]["deadLetterQueueSettings"]["destinations"];
        assert_eq!(
            boxes[0],
            json!({"type": "File", "path": "failed.jsonl", "outputFormat": {"type": "JSON", "withInfoEnvelope": false}})
        );
        assert_eq!(boxes[1]["outputFormat"]["withInfoEnvelope"], true);
        assert_eq!(shown["onRecordError"]["retrySettings"]["maxBackoff"], 20);
        let restarts =
            json!({"type": "RetryStreamError", "retryCount": 2, "within": "31s", "minBackoff": "1s", "maxBackoff": "10s"});
        assert_eq!(shown["onStreamError"], restarts);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let refused = |record: Json, stream: Json, expected: &str| {
            let mistakes = read(record, stream).expect_err("should have been refused");
            assert!(mistakes.iter().any(|mistake| mistake.contains(expected)), "{mistakes:?}");
        };
        let to = |destination: Json| json!({"deadLetterQueueSettings": {"destinations": [destination]}});
        refused(
            to(json!({"type": "Slack", "hookUrl": "http://h/"})),
            Json::Null,
            "the destination 'Slack' takes no failed records",
        );
        refused(to(json!({"type": "Nope"})), Json::Null, "names no known destination");
        refused(to(json!({"type": "File"})), Json::Null, "path: Missing required field");
        let format = json!({"type": "File", "path": "x", "outputFormat": {"type": "Protobuf"}});
        refused(to(format), Json::Null, "Protobuf is not in this version");
        refused(json!({"deadLetterQueueSettings": {"destinations": 5}}), Json::Null, "expecting array");
        refused(json!(5), Json::Null, "expecting object");
        refused(json!({"retrySettings": {"maxRetries": "x"}}), Json::Null, ".onRecordError.retrySettings.maxRetries: Int");
        refused(Json::Null, json!({"type": "RetryStreamError"}), "retryCount: Missing required field");
        refused(Json::Null, json!({"type": "RetryStreamError", "retryCount": 1, "within": "soon"}), "is no duration");
        refused(Json::Null, json!({"type": "Nope"}), "is not one of LogStreamError, RetryStreamError");
    }

    #[test]
    fn restarts_are_counted_and_their_pauses_grow() {
        let definition =
            json!({"onStreamError": {"type": "RetryStreamError", "retryCount": 3, "minBackoff": "1s", "maxBackoff": "3s"}});
        let mut restarts = ErrorHandling::read(&definition).expect("is read").restarts();
        let pauses: Vec<_> = std::iter::from_fn(|| restarts.next()).map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 3]);
        assert_eq!(ErrorHandling::read(&json!({})).expect("is read").restarts().next(), None);
    }
}
