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
use crate::feed::{Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::http;
use crate::origin::{self, packed};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

pub static SQS: Service = Service { name: "sqs", target: "AmazonSQS", content_type: "application/x-amz-json-1.0" };

/// How long the queue waits for a message before it says that there is none. The most that SQS knows.
const WAIT_SECONDS: u32 = 20;
/// Messages of one answer. The most that SQS knows.
const ANSWER_MESSAGES_MAX: u32 = 10;

/// Reads the bodies of messages from a queue of SQS.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SQSIngest")]
pub struct SqsIngest {
    /// What a message holds, and the query that runs on each.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The address of the queue.
    pub queue_url: String,
    /// Requests for messages at a time; 1 keeps the order of a FIFO queue as far as the graph.
    #[serde(default = "read_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1, max = 100))]
    pub read_parallelism: u32,
    /// Taken and shown; records are always evaluated in their order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive", alias = "parallelism")]
    #[schemars(range(min = 1))]
    pub write_parallelism: u32,
    /// Who asks; found as every program of Amazon's does when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// Where the queue is; what its address says, or found in the same way, when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// Whether messages are deleted when what they changed is durable. Those that are not come again.
    #[serde(default = "delete_read_messages")]
    pub delete_read_messages: bool,
    /// Messages a second, at most.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// What is undone to a message before it is read, in this order.
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

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let url = service_of(&self.queue_url)?;
        let place = http::shown(&http::url("queueUrl", &self.queue_url)?);
        let access = Access::of(&self.credentials, &self.region, &None, &context.hosts);
        let (keeper, kept) = Keeper::new(self.queue_url.clone(), place.clone(), self.delete_read_messages);
        let told = kept.clone();
        let (queue, readers) = (self.queue_url.clone(), self.read_parallelism);
        let feed = Feed::start(&context.runtime, &place.clone(), Vec::new(), |inlet| async move {
            let client = Arc::new(Client::open(&SQS, &access, Some(&url)).await?);
            keeper.start(client.clone());
            let receiver = Receiver { client, queue, place, kept, inlet, count: Mutex::new(0) };
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
    /// Messages handed on. Held while one is, so that their numbers are their order.
    count: Mutex<u64>,
}

impl Receiver {
    async fn receive(&self) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        let request = json!({
            "QueueUrl": self.queue, "MaxNumberOfMessages": ANSWER_MESSAGES_MAX, "WaitTimeSeconds": WAIT_SECONDS,
        });
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
            for message in answer["Messages"].as_array().into_iter().flatten() {
                let (Some(body), Some(receipt)) = (message["Body"].as_str(), message["ReceiptHandle"].as_str()) else { continue };
                let mut count = self.count.lock().await;
                *count += 1;
                self.kept.took(*count, receipt);
                let origin = packed(|origin| {
                    for (name, of) in [("messageId", "MessageId"), ("receiptHandle", "ReceiptHandle"), ("md5OfBody", "MD5OfBody")]
                    {
                        origin.text(name, message[of].as_str().unwrap_or_default());
                    }
                });
                self.inlet.record_from(body.as_bytes().to_vec(), count.to_le_bytes().to_vec(), origin).await;
            }
        }
    }
}
