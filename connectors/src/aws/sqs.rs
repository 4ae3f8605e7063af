//! The definition of a stream from a queue of SQS.
//!
//!     ReceiveMessage, readParallelism at a time ─> Feed ─> graph ─ durable ─> Keeper ─> DeleteMessage
//!
//! A message is deleted when what it changed is durable, and kept out of others' sight until then. At least once: one whose
//! deletion was lost comes again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;
use weir_model::{Position, Value};

use super::access::{Access, AwsCredentials, AwsRegion};
use super::client::{Client, Service};
use super::keeper::{Keeper, Kept};
use crate::config;
use crate::error::ConnectorError;
use crate::feed::{self, Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::http;
use crate::origin::{self, Origin, packed};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

pub static SQS: Service = Service { name: "sqs", target: "AmazonSQS", content_type: "application/x-amz-json-1.0" };

/// How long the queue waits for a message before it says that there is none. The most that SQS knows.
const WAIT_SECONDS: u32 = 20;
/// Messages of one answer. The most that SQS knows.
const ANSWER_MESSAGES_MAX: u32 = 10;

/// Reads messages from an SQS queue.
///
/// Each message has its effect at least once: it is deleted when its effect is durable, and may come again when that fails.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SQSIngest")]
pub struct SqsIngest {
    /// How a message is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The URL of the queue.
    pub queue_url: String,
    /// How many requests for messages run at a time, from 1 to 100. 1, the default, keeps the order of a FIFO queue.
    #[serde(default = "read_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1, max = 100))]
    pub read_parallelism: u32,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive", alias = "parallelism")]
    #[schemars(range(min = 1))]
    pub write_parallelism: u32,
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the queue. When not given, the one in `queueUrl`, or else as the AWS tools find it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// Whether messages are deleted when their effect is durable. When false they come again after their visibility timeout.
    #[serde(default = "delete_read_messages")]
    pub delete_read_messages: bool,
    /// The most messages to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each message before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

fn read_parallelism() -> u32 {
    1
}

fn delete_read_messages() -> bool {
    true
}

/// Where the service of a queue is: the queue itself is named in each request.
pub fn service_of(queue_url: &str) -> Result<Url, ConnectorError> {
    let mut url = http::url("queueUrl", queue_url)?;
    if url.path().trim_matches('/').is_empty() {
        return Err(ConnectorError::config("queueUrl", "names no queue"));
    }
    url.set_path("/");
    url.set_query(None);
    Ok(url)
}

impl SourceConfig for SqsIngest {
    fn settings(&self) -> Json {
        let queue_url = http::without_password(&self.queue_url);
        crate::settings("SQSIngest", &SqsIngest { queue_url, ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("SQSIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        true
    }

    fn frame(&self, bytes: &[u8], origin: &[u8]) -> Value {
        origin::frame("body", Value::text(&String::from_utf8_lossy(bytes)), origin)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        context.hosts.check(&service_of(&self.queue_url)?)?;
        if self.read_parallelism > 100 {
            return Err(ConnectorError::config("readParallelism", "100 requests at a time are the most"));
        }
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        feed::shown_number(position)
    }

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let url = service_of(&self.queue_url)?;
        let place = http::shown(&http::url("queueUrl", &self.queue_url)?);
        let access = Access::of(&self.credentials, &self.region, &None, &context.hosts);
        let (keeper, kept) = Keeper::new(self.queue_url.clone(), place.clone(), self.delete_read_messages);
        let told = kept.clone();
        let (queue, readers, tells) = (self.queue_url.clone(), self.read_parallelism, context.tells);
        let feed = Feed::start(&context.runtime, &place.clone(), Vec::new(), |inlet| async move {
            let client = Arc::new(Client::open(&SQS, &access, Some(&url)).await?);
            keeper.start(client.clone());
            let receiver = Receiver { client, queue, place, kept, inlet, tells, count: Mutex::new(0) };
            try_join_all((0..readers).map(|_| receiver.receive())).await.map(|_| ())
        });
        Ok(Box::new(feed.acknowledged_by(Arc::new(told))))
    }
}

struct Receiver {
    client: Arc<Client>,
    queue: String,
    place: String,
    kept: Kept,
    inlet: Inlet,
    /// Others are told where each message comes from.
    tells: bool,
    /// Messages handed on. Held while one is, so that their numbers are their order.
    count: Mutex<u64>,
}

impl Receiver {
    async fn receive(&self) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        let mut request = json!({
            "QueueUrl": self.queue, "MaxNumberOfMessages": ANSWER_MESSAGES_MAX, "WaitTimeSeconds": WAIT_SECONDS,
        });
        if self.tells {
            // The first has a newer name, which not every server knows.
            request["AttributeNames"] = json!(["All"]);
            request["MessageAttributeNames"] = json!(["All"]);
        }
        loop {
            self.kept.room(ANSWER_MESSAGES_MAX, |reason: &str| self.inlet.trouble(reason)).await;
            let answer = match self.client.call("ReceiveMessage", &request).await {
                Ok(answer) => answer,
                Err(failed) if failed.retryable => {
                    self.inlet.trouble(&failed.reason);
                    pauses.wait(Duration::ZERO).await;
                    continue;
                }
                Err(failed) => return Err(failed.fatal(&self.place)),
            };
            self.inlet.works();
            pauses.reset();
            let given = answer["Messages"].as_array().into_iter().flatten();
            let whole =
                given.filter_map(|message| Some((message, message["Body"].as_str()?, message["ReceiptHandle"].as_str()?)));
            let messages: Vec<(&Json, &str, &str)> = whole.collect();
            // All of them, before the first waits for room: who comes behind must not be seen by others meanwhile.
            self.kept.received(messages.iter().map(|(.., receipt)| (*receipt).to_owned()).collect());
            for (message, body, receipt) in messages {
                let mut count = self.count.lock().await;
                *count += 1;
                self.kept.took(*count, receipt);
                let origin = if self.tells { packed(|origin| tell_of(message, origin)) } else { Vec::new() };
                self.inlet.record_from(body.as_bytes().to_vec(), count.to_le_bytes().to_vec(), origin).await;
            }
        }
    }
}

/// Where a message comes from, in the names of Amazon's own client.
fn tell_of(message: &Json, origin: &mut Origin<'_>) {
    for (name, of) in [("messageId", "MessageId"), ("receiptHandle", "ReceiptHandle"), ("md5OfBody", "MD5OfBody")] {
        origin.text(name, message[of].as_str().unwrap_or_default());
    }
    if let Some(sum) = message["MD5OfMessageAttributes"].as_str() {
        origin.text("md5OfMessageAttributes", sum);
    }
    if message["Attributes"].is_object() {
        origin.json("attributes", &message["Attributes"]);
    }
    if let Some(attributes) = message["MessageAttributes"].as_object() {
        let field = |(name, value): (&String, &Json)| {
            let mut letters = name.chars();
            let first = letters.next().map(|c| c.to_ascii_lowercase());
            (first.into_iter().chain(letters).collect::<String>(), value.clone())
        };
        let fields = |value: &Json| value.as_object().into_iter().flatten().map(field).collect::<Json>();
        let attributes = attributes.iter().map(|(name, value)| (name.clone(), fields(value))).collect::<Json>();
        origin.json("messageAttributes", &attributes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::aws::stand_in::{Asked, StandIn};
    use crate::conformance::anything;
    use crate::real_server::wait;
    use crate::source::frame_json;
    use crate::{Frames, Limits, parse_source_v1};

    fn definition(server: &StandIn, more: Json) -> Json {
        let mut definition = json!({"type": "SQSIngest", "queueUrl": format!("{}1/queue", server.url), "region": "us-east-1",
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}, "format": {"type": "CypherRaw", "query": "RETURN 1"}});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        definition
    }

    #[test]
    fn messages_that_wait_for_room_behind_others_are_hidden_as_long_as_the_queue_hides_them() {
        /// Which messages, and for how many seconds.
        type Hidden = BTreeSet<(String, u64)>;
        let hidden: Arc<Mutex<Hidden>> = Arc::default();
        let (all, sent, asked) = (hidden.clone(), AtomicBool::new(false), AtomicBool::new(false));
        let server = StandIn::start(move |now: &Asked| match now.operation.as_str() {
            // Eight of these are more than there is room for.
            "ReceiveMessage" if !sent.swap(true, Ordering::Relaxed) => {
                let body = "x".repeat(1 << 20);
                let message = |n: u32| json!({"MessageId": "m", "ReceiptHandle": format!("r{n}"), "Body": body});
                (200, json!({"Messages": (0..10).map(message).collect::<Vec<_>>()}).to_string())
            }
            "ReceiveMessage" => {
                std::thread::sleep(Duration::from_millis(100));
                (200, "{}".to_owned())
            }
            // A failure that passes.
            "GetQueueAttributes" if !asked.swap(true, Ordering::Relaxed) => (503, "{}".to_owned()),
            "GetQueueAttributes" => (200, json!({"Attributes": {"VisibilityTimeout": "3"}}).to_string()),
            _ => {
                let of = |entry: &Json| Some((entry["ReceiptHandle"].as_str()?.to_owned(), entry["VisibilityTimeout"].as_u64()?));
                all.lock().unwrap().extend(now.body["Entries"].as_array().into_iter().flatten().filter_map(of));
                (200, "{}".to_owned())
            }
        });
        let config = parse_source_v1(&definition(&server, json!({}))).unwrap();
        let stream = config.open(&anything(), None).unwrap();
        let of_all = |seconds: u64| -> Hidden { (0..10).map(|n| (format!("r{n}"), seconds)).collect() };
        wait(|| *hidden.lock().unwrap() == of_all(3), "all are hidden");
        hidden.lock().unwrap().clear();
        // They are given back.
        drop(stream);
        wait(|| of_all(0).is_subset(&hidden.lock().unwrap()), "others may see them");
    }

    #[test]
    fn what_is_known_of_a_message_is_asked_for_where_it_is_told() {
        let sent = AtomicBool::new(false);
        let server = StandIn::start(move |asked: &Asked| {
            if asked.operation != "ReceiveMessage" || sent.swap(true, Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
                return (200, "{}".to_owned());
            }
            let message = json!({"MessageId": "m", "ReceiptHandle": "r", "MD5OfBody": "b", "Body": "{", "MD5OfMessageAttributes": "a",
                "Attributes": {"SentTimestamp": "1700000000000"},
                "MessageAttributes": {"kind": {"StringValue": "x", "DataType": "String"}}});
            (200, json!({"Messages": [message]}).to_string())
        });
        let config = parse_source_v1(&definition(&server, json!({"deleteReadMessages": false}))).unwrap();
        let mut stream = config.open(&SourceContext { tells: true, ..anything() }, None).unwrap();
        let (mut batch, begun) = (Frames::default(), Instant::now());
        while batch.is_empty() && begun.elapsed() < Duration::from_secs(60) {
            stream.next(&Limits::default(), &mut batch).unwrap();
        }
        let told = frame_json(&config.frame(batch.get(0).bytes, batch.origin(0)));
        let expected = json!({"body": "{", "messageId": "m", "receiptHandle": "r", "md5OfBody": "b", "md5OfMessageAttributes": "a",
            "attributes": {"SentTimestamp": "1700000000000"},
            "messageAttributes": {"kind": {"stringValue": "x", "dataType": "String"}}});
        assert_eq!(told, expected);
        let asked = server.asked();
        let receive = asked.iter().find(|asked| asked.operation == "ReceiveMessage").unwrap();
        assert_eq!(receive.body["MessageAttributeNames"], json!(["All"]));
    }
}
