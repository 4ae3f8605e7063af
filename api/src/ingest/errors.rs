//! What becomes of records that fail, and of a stream that does: `onRecordError` and `onStreamError` of v2.
//!
//! A record that cannot be decoded, or whose query fails, is sent to each of the dead-letter destinations. The stream goes
//! on when they have it: nothing is acknowledged of which nobody has heard.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::{
    ConnectorError, DestinationContext, Generation, LetterForm, RecordSchema, SourceConfig, SourceContext, destination,
    frame_json, secret,
};
use weir_model::{IdScheme, Map, Value};

use super::limit::FailureLimit;
use super::refused;
use crate::error::ApiError;
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::{Family, parse_duration, setting_text};
use crate::wire::letters::{LetterBox, letter_boxes};

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
    /// How many records may fail.
    pub stop_after: Option<FailureLimit>,
    restarts: Option<RestartSettings>,
}

impl Default for ErrorHandling {
    fn default() -> ErrorHandling {
        let (given, boxes) = (JsonMap::new(), Vec::new());
        ErrorHandling { given, retry_settings: None, log_record: true, boxes, stop_after: None, restarts: None }
    }
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
        let check = |(index, letters): (usize, &LetterBox)| letters.config.check().map_err(|error| placed(error, index));
        handling.boxes.iter().enumerate().try_for_each(check).map_err(refused)?;
        Ok(handling)
    }

    /// As `read`, without a look at what the definition refers to.
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
            handling.stop_after = fields.get("stopAfter").and_then(|given| FailureLimit::read(given, mistakes));
            if let Some(letters) = fields.get("deadLetterQueueSettings") {
                let letters = Fields::of(letters, ".onRecordError.deadLetterQueueSettings", mistakes)?;
                handling.boxes = letter_boxes(&letters, "takes no failed records", mistakes);
            }
        }
        if let Some(given) = part(STREAM) {
            let mut of_it = Mistakes::default();
            handling.restarts = restarts(given, &mut of_it);
            mistakes.within(".onStreamError", of_it);
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
        if let Some(limit) = &self.stop_after {
            whole[RECORD]["stopAfter"] = limit.shown();
        }
        whole[STREAM] = match self.restarts {
            None => json!({"type": "LogStreamError"}),
            Some(settings) => json!({
                "type": "RetryStreamError",
                "retryCount": settings.count,
                "within": setting_text(settings.within),
                "minBackoff": setting_text(settings.backoff_min),
                "maxBackoff": setting_text(settings.backoff_max),
            }),
        };
    }

    /// Whether anybody is told of records that fail.
    pub fn tells(&self) -> bool {
        !self.boxes.is_empty()
    }

    /// Whether it was said how often a stream that fails begins again.
    pub fn restarts_are_given(&self) -> bool {
        self.restarts.is_some()
    }

    /// Whether failed records could go there: who creates a stream is told, and not only the stream when it begins.
    pub fn check(
        &self,
        stream: &str,
        config: &dyn SourceConfig,
        ids: IdScheme,
        context: &SourceContext,
    ) -> Result<(), ConnectorError> {
        let open = |(index, letters): (usize, &LetterBox)| {
            secret::check(|| letters.config.stored())?;
            let to = destination_context(stream, index, context);
            letters.config.try_out(&to.files)?;
            fitting_schema(letters, config, ids, context)?;
            letters.config.open(&to, None).map(drop)
        };
        let check = |(index, letters): (usize, &LetterBox)| open((index, letters)).map_err(|error| placed(error, index));
        self.boxes.iter().enumerate().try_for_each(check)
    }

    /// Where failed records go, if anywhere.
    pub fn open(
        &self,
        stream: &str,
        config: &dyn SourceConfig,
        ids: IdScheme,
        context: &SourceContext,
    ) -> Result<Option<DeadLetters>, ConnectorError> {
        if self.boxes.is_empty() {
            return Ok(None);
        }
        let mut open = weir_connectors::DeadLetters::default();
        for (index, letters) in self.boxes.iter().enumerate() {
            let at = destination_context(stream, index, context);
            // It was looked at when the stream was made, perhaps by a version whose letters were other ones.
            let schema = fitting_schema(letters, config, ids, context).map_err(|error| placed(error, index))?;
            let destination = destination::open(&letters.config, &at.output, &at, None)?;
            open.add(&at.output, destination, letters.retries, (letters.form, schema));
        }
        Ok(Some(DeadLetters { open, ids }))
    }

    /// How often the stream begins again by itself.
    pub fn restarts(&self) -> Restarts {
        Restarts { settings: self.restarts, done: 0, last: None }
    }
}

/// With the place of a destination before the option that is wrong.
fn placed(error: ConnectorError, index: usize) -> ConnectorError {
    error.within(&format!("{RECORD}.deadLetterQueueSettings.destinations[{index}]"))
}

fn destination_context(stream: &str, index: usize, context: &SourceContext) -> DestinationContext {
    DestinationContext {
        output: format!("failed records of {stream}"),
        identity: format!("failed-{stream}-{index}"),
        generation: Generation::V2,
        runtime: context.runtime.clone(),
        hosts: context.hosts.clone(),
        files: context.files.clone(),
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
    /// What its source knows of it besides.
    pub origin: &'a [u8],
    /// None where it could not be decoded.
    pub decoded: Option<&'a Value>,
    pub reason: &'a str,
}

/// The destinations of one stream's failed records, at work.
pub struct DeadLetters {
    open: weir_connectors::DeadLetters,
    ids: IdScheme,
}

impl DeadLetters {
    /// Sends them to every destination and waits until all have them. False: stopped before. An error: one will not take them,
    /// ever. `late` is told why a destination has not taken them yet.
    pub fn send(
        &mut self,
        config: &dyn SourceConfig,
        letters: &[Letter<'_>],
        stopping: impl Fn() -> bool,
        late: impl Fn(String),
    ) -> Result<bool, String> {
        let ids = self.ids;
        self.open.send(letters.len(), |index, form, schema| letters[index].body(form, schema, config, ids), stopping, late)
    }

    /// `all`: they have what was sent, as far as it is known.
    pub fn close(self, all: bool) {
        self.open.close(all);
    }
}

impl Letter<'_> {
    fn body(
        &self,
        form: LetterForm,
        schema: Option<&RecordSchema>,
        config: &dyn SourceConfig,
        ids: IdScheme,
    ) -> Result<Vec<u8>, String> {
        let envelope = match (form, schema) {
            (LetterForm::Bytes, _) => return Ok(self.bytes.to_vec()),
            (LetterForm::Message { envelope }, Some(schema)) => return self.message(schema, envelope, config, ids),
            (LetterForm::Message { envelope } | LetterForm::Json { envelope }, _) => envelope,
        };
        let frame = frame_json(&config.frame(self.bytes, self.origin));
        if !envelope {
            return Ok(frame.to_string().into_bytes());
        }
        let mut body = format!("{{\"frame\":{frame},").into_bytes();
        if let Some(decoded) = self.decoded {
            body.extend_from_slice(b"\"decoded\":");
            weir_model::json::write(decoded, ids, &mut body);
            body.push(b',');
        }
        body.extend_from_slice(format!("\"message\":{},\"number\":{}}}", json!(self.reason), self.number).as_bytes());
        Ok(body)
    }

    /// As `body`, by a schema: its fields are those of the object in JSON, and bytes are bytes.
    fn message(
        &self,
        schema: &RecordSchema,
        envelope: bool,
        config: &dyn SourceConfig,
        ids: IdScheme,
    ) -> Result<Vec<u8>, String> {
        // What was decoded may be anything, and what its source knows of a record may be other than the schema has it. Where they
        // do not fit, the record itself is there.
        let full = |origin: &[u8], decoded: Option<&Value>| {
            let frame = config.frame(self.bytes, origin);
            match (envelope, &frame) {
                (false, Value::Map(fields)) => schema.write(fields, ids),
                (false, _) => schema.write(&Map::from_iter([("frame".into(), frame)]), ids),
                (true, _) => {
                    let (reason, number) = (Value::text(self.reason), Value::Integer(self.number as i64));
                    let fields = [("frame".into(), frame), ("message".into(), reason), ("number".into(), number)];
                    let decoded = decoded.map(|decoded| ("decoded".into(), decoded.clone()));
                    schema.write(&fields.into_iter().chain(decoded).collect(), ids)
                }
            }
        };
        let written = full(self.origin, self.decoded).or_else(|_| full(self.origin, None)).or_else(|_| full(&[], None));
        written.map_err(|problem| format!("a dead letter does not fit {}: {problem}", schema.name))
    }
}

/// What letters are written by, if by a schema: one that has a place for something of them.
fn fitting_schema(
    letters: &LetterBox,
    config: &dyn SourceConfig,
    ids: IdScheme,
    context: &SourceContext,
) -> Result<Option<Arc<RecordSchema>>, ConnectorError> {
    let schema = letters.schema(&context.files, &context.hosts)?;
    if let (LetterForm::Message { envelope }, Some(schema)) = (letters.form, &schema) {
        fits(schema, envelope, config, ids).map_err(|problem| ConnectorError::config("outputFormat.typeName", problem))?;
    }
    Ok(schema)
}

/// Whether letters can be written by the schema, and something of them is.
fn fits(schema: &RecordSchema, envelope: bool, config: &dyn SourceConfig, ids: IdScheme) -> Result<(), String> {
    let letter = Letter { number: 1, bytes: b"record", origin: &[], decoded: None, reason: "reason" };
    let written = letter.message(schema, envelope, config, ids)?;
    if schema.write(&Map::default(), ids).is_ok_and(|empty| empty.len() == written.len()) {
        let frame = match config.frame(b"", &[]) {
            Value::Map(fields) if !envelope => fields.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", "),
            _ if envelope => "frame, decoded, message, number".to_owned(),
            _ => "frame".to_owned(),
        };
        return Err(format!("{} has none of the fields that are told: {frame}", schema.name));
    }
    Ok(())
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
        let restarts =
            json!({"type": "RetryStreamError", "retryCount": 2, "within": "31s", "minBackoff": "1s", "maxBackoff": "10s"});
        assert_eq!(shown["onStreamError"], restarts);
        let between = json!({"type": "RetryStreamError", "retryCount": 2, "within": "60500ms", "minBackoff": "1500ms", "maxBackoff": "2500ms"});
        assert_eq!(read(Json::Null, between.clone()).expect("is read")["onStreamError"], between, "nothing is rounded");
        let boxes = &shown["onRecordError"]["deadLetterQueueSettings"]["destinations"];
        assert_eq!(
            boxes[0],
            json!({"type": "File", "path": "failed.jsonl", "outputFormat": {"type": "JSON", "withInfoEnvelope": false}})
        );
        assert_eq!(boxes[1]["outputFormat"]["withInfoEnvelope"], true);
        assert_eq!(shown["onRecordError"]["retrySettings"]["maxBackoff"], 20);
        let registry = json!({"url": "http://h/", "username": "u", "password": "geheim"});
        let redis = json!({"type": "Redis", "url": "redis://h", "key": "failed", "outputFormat":
            {"type": "Protobuf", "schemaRegistry": registry, "subject": "letters", "withInfoEnvelope": true}});
        let shown = read(json!({"deadLetterQueueSettings": {"destinations": [redis]}}), Json::Null).expect("is read");
        assert!(!shown.to_string().contains("geheim"), "{shown}");
        let redis = &shown["onRecordError"]["deadLetterQueueSettings"]["destinations"][0];
        let format = json!({"type": "Protobuf", "schemaRegistry": {"url": "http://h/", "username": "u", "password": "Secret(****)"},
            "subject": "letters", "withInfoEnvelope": true});
        assert_eq!((&redis["outputFormat"], redis.get("format")), (&format, None));
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
        let place = "onRecordError.deadLetterQueueSettings.destinations[0]";
        refused(to(json!({"type": "File"})), Json::Null, &format!("at .path: Missing required field (in .{place})"));
        refused(to(json!({"type": "HttpEndpoint", "url": "x"})), Json::Null, &format!("at .{place}.url: "));
        let format = json!({"type": "File", "path": "x", "outputFormat": {"type": "Protobuf"}});
        refused(
            to(format),
            Json::Null,
            "the destination 'File' holds texts and takes no Protobuf; these do: ReactiveStream, Redis",
        );
        let format = json!({"type": "StandardOut", "outputFormat": {"type": "Avro"}});
        refused(to(format), Json::Null, "there are Bytes, JSON, Protobuf");
        refused(json!({"deadLetterQueueSettings": {"destinations": 5}}), Json::Null, "expecting array");
        refused(json!(5), Json::Null, "expecting object");
        refused(json!({"retrySettings": {"maxRetries": "x"}}), Json::Null, ".onRecordError.retrySettings.maxRetries: Int");
        refused(Json::Null, json!({"type": "RetryStreamError"}), "retryCount: Missing required field (in .onStreamError)");
        refused(Json::Null, json!({"type": "RetryStreamError", "retryCount": 1, "within": "soon"}), "is no duration");
        refused(Json::Null, json!({"type": "Nope"}), "is not one of LogStreamError, RetryStreamError");
    }

    /// An earlier version told them without what is around them now: they became messages with nothing in them.
    #[cfg(feature = "kafka")]
    #[test]
    fn letters_of_a_stored_stream_that_fit_no_more_are_not_written_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("flat.desc");
        // message Flat { bytes value = 1; }
        let sized = |number: u8, bytes: &[u8]| [&[(number << 3) | 2, bytes.len() as u8], bytes].concat();
        let field = [sized(1, b"value"), vec![0x18, 1, 0x20, 1, 0x28, 12]].concat();
        let message = [sized(1, b"Flat"), sized(2, &field)].concat();
        let declared = [sized(1, b"flat.proto"), sized(4, &message), sized(12, b"proto3")].concat();
        std::fs::write(&file, sized(1, &declared)).expect("a file");

        let format = json!({"type": "Protobuf", "schemaUrl": file, "typeName": "Flat", "withInfoEnvelope": false});
        let redis = json!({"type": "Redis", "url": "redis://127.0.0.1:1", "key": "failed", "outputFormat": format});
        let definition = json!({"onRecordError": {"deadLetterQueueSettings": {"destinations": [redis]}}});
        let handling = ErrorHandling::read(&definition).expect("is read");
        let threads = tokio::runtime::Runtime::new().expect("threads");
        let files = weir_connectors::FilePolicy::allow_all();
        let context = SourceContext { files, ..crate::ingest::stream::tests::context(&threads) };
        let source = |committing: Json| {
            let definition =
                json!({"type": "KafkaIngest", "topics": ["t"], "bootstrapServers": "h:1", "offsetCommitting": committing});
            weir_connectors::parse_source_v1(&definition).expect("a source")
        };
        let plain = fitting_schema(&handling.boxes[0], &*source(Json::Null), IdScheme::Uuid, &context);
        assert!(plain.expect("it fits").is_some());
        let committing = source(json!({"type": "ExplicitCommit"}));
        let refused = handling.open("s", &*committing, IdScheme::Uuid, &context).err().expect("it is refused").to_string();
        assert!(refused.contains("Flat has none of the fields that are told"), "{refused}");
        assert!(refused.contains("destinations[0].outputFormat.typeName"), "{refused}");
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
