//! The rim: bytes in, bytes out. A connector never sees the graph.
//!
//!     source ─ frames ─> decode ─ values ─>   …   ─ matches ─> encode ─> delivery ─> destination
//!
//! `SOURCES` and `DESTINATIONS` are all there is. A connector is one struct and one row. Services with a protocol or a client
//! of their own have a folder; `sources/` and `destinations/` hold the rest. What connectors share is here once: bounds and rate
//! limit (`stream`), framing, decoding, encoding, and delivery with its queue, retries and counters.

// In: from services to frames.
mod source;
mod sources;
mod stream;
mod rate;
mod origin;
mod file_policy;
mod file_head;
pub mod frames;
pub mod framing;
mod length_prefix;
mod event_stream;
pub mod body;
pub mod charset;
pub mod recoding;
pub mod recoded_stream;
mod container;
mod feed;
mod keeper;
mod intake;
mod upload;

// From the bytes of records to values.
pub mod formats;
pub mod decode;
pub mod schema;
mod avro;
pub mod parquet;
#[cfg(feature = "javascript")]
pub mod javascript;
pub mod fetch;

// Out: from results to services.
mod output_format;
mod encode;
mod result_ids;
mod moment;
mod compression;
pub mod delivery;
pub mod on_call;
mod dead_letters;
pub mod destination;
mod destinations;
pub mod status_lines;
mod publisher;

// Services with a protocol or a client of their own.
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "aws")]
mod aws;
mod redis;
mod amqp;
mod mqtt;
mod nats;
mod postgres;
pub mod registry;

// Connections.
pub mod http;
mod host_policy;
mod dial;
mod tcp;
mod ends;
mod fields;

// Shared by all of it.
pub mod config;
pub mod secret;
mod error;
pub mod bell;
pub mod thread;
mod names;

// For tests, those of other crates too.
pub mod overheard;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod login_tests;
#[cfg(test)]
mod real_server;

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

pub use dead_letters::{DeadLetters, LetterForm};
pub use delivery::{Delivery, DeliveryCounters, OnRefused, Outgoing, Retries, RetryPolicy};
pub use destination::{Destination, DestinationConfig, DestinationContext};
pub use dial::password_problem;
pub use encode::{Encoder, Envelope, Generation, Meta};
pub use error::{ConnectorError, Fault};
pub use file_policy::{FilePolicy, FileResolution};
pub use frames::{Frames, Limits, Progress};
pub use host_policy::HostPolicy;
pub use intake::{Intake, NotTaken, Taken};
pub use output_format::{OutputFormat, RecordSchema};
pub use secret::SecretPolicy;
pub use source::{RecordQuery, Source, SourceConfig, SourceContext, frame_json};
pub use stream::{RecordStream, shown_position};
pub use upload::{Upload, Uploader};

use destinations::{Drop, PostToEndpoint, PostToSlack, PrintToStandardOut, WriteToElasticsearch, WriteToFile};
use sources::{
    FileIngest, HttpPollIngest, HttpPushIngest, NumberIteratorIngest, ServerSentEventsIngest, StandardInputIngest,
    WebSocketFileUpload, WebsocketSimpleStartupIngest,
};

/// One kind of source.
pub struct SourceRow {
    /// Its name in v2.
    pub name: &'static str,
    /// Its name in v1 and in recipes of v1.
    pub name_v1: &'static str,
    /// Reads a definition in the notation of v1.
    pub parse_v1: fn(&Json) -> Result<Box<dyn SourceConfig>, ConnectorError>,
    /// A definition to show.
    pub sample: fn() -> Json,
    /// Its options in the notation of v1, from the struct that reads them; without `type`.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

/// One kind of destination.
pub struct DestinationRow {
    pub name: &'static str,
    pub name_v1: &'static str,
    pub parse_v1: fn(&Json) -> Result<Box<dyn DestinationConfig>, ConnectorError>,
    pub sample: fn() -> Json,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

pub static SOURCES: &[SourceRow] = &[
    SourceRow {
        name: "File",
        name_v1: "FileIngest",
        parse_v1: source::<FileIngest>,
        sample: || json!({"type": "FileIngest", "path": "people.jsonl"}),
        schema: SchemaGenerator::subschema_for::<FileIngest>,
    },
    SourceRow {
        name: "NumberIterator",
        name_v1: "NumberIteratorIngest",
        parse_v1: source::<NumberIteratorIngest>,
        sample: || json!({"type": "NumberIteratorIngest", "ingestLimit": 100}),
        schema: SchemaGenerator::subschema_for::<NumberIteratorIngest>,
    },
    SourceRow {
        name: "StdInput",
        name_v1: "StandardInputIngest",
        parse_v1: source::<StandardInputIngest>,
        sample: || json!({"type": "StandardInputIngest"}),
        schema: SchemaGenerator::subschema_for::<StandardInputIngest>,
    },
    SourceRow {
        name: "HttpPush",
        name_v1: "HttpPushIngest",
        parse_v1: source::<HttpPushIngest>,
        sample: || json!({"type": "HttpPushIngest", "keysRemembered": 100}),
        schema: SchemaGenerator::subschema_for::<HttpPushIngest>,
    },
    SourceRow {
        name: "HttpPoll",
        name_v1: "HttpPollIngest",
        parse_v1: source::<HttpPollIngest>,
        sample: || json!({"type": "HttpPollIngest", "url": "https://127.0.0.1:9000/items", "recordsAt": "/items"}),
        schema: SchemaGenerator::subschema_for::<HttpPollIngest>,
    },
    SourceRow {
        name: "ServerSentEvent",
        name_v1: "ServerSentEventsIngest",
        parse_v1: source::<ServerSentEventsIngest>,
        sample: || json!({"type": "ServerSentEventsIngest", "url": "http://127.0.0.1:9000/events"}),
        schema: SchemaGenerator::subschema_for::<ServerSentEventsIngest>,
    },
    SourceRow {
        name: "WebsocketClient",
        name_v1: "WebsocketSimpleStartupIngest",
        parse_v1: source::<WebsocketSimpleStartupIngest>,
        sample: || json!({"type": "WebsocketSimpleStartupIngest", "url": "ws://127.0.0.1:9000/live"}),
        schema: SchemaGenerator::subschema_for::<WebsocketSimpleStartupIngest>,
    },
    SourceRow {
        name: "WebSocketFileUpload",
        name_v1: "WebSocketFileUpload",
        parse_v1: source::<WebSocketFileUpload>,
        sample: || json!({"type": "WebSocketFileUpload"}),
        schema: SchemaGenerator::subschema_for::<WebSocketFileUpload>,
    },
    SourceRow {
        name: "ReactiveStream",
        name_v1: "ReactiveStream",
        parse_v1: source::<sources::ReactiveStream>,
        sample: || json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": 9001}),
        schema: SchemaGenerator::subschema_for::<sources::ReactiveStream>,
    },
    SourceRow {
        name: "Redis",
        name_v1: "RedisIngest",
        parse_v1: source::<redis::RedisIngest>,
        sample: || json!({"type": "RedisIngest", "url": "redis://127.0.0.1:6379", "key": "events", "field": "value"}),
        schema: SchemaGenerator::subschema_for::<redis::RedisIngest>,
    },
    SourceRow {
        name: "Amqp",
        name_v1: "AmqpIngest",
        parse_v1: source::<amqp::AmqpIngest>,
        sample: || json!({"type": "AmqpIngest", "url": "amqp://127.0.0.1:5672", "queue": "events", "prefetch": 500}),
        schema: SchemaGenerator::subschema_for::<amqp::AmqpIngest>,
    },
    SourceRow {
        name: "Mqtt",
        name_v1: "MqttIngest",
        parse_v1: source::<mqtt::MqttIngest>,
        sample: || {
            json!({"type": "MqttIngest", "url": "mqtt://127.0.0.1:1883", "clientId": "weir-devices", "topicFilters": ["devices/+/state"],
                "withTopic": true})
        },
        schema: SchemaGenerator::subschema_for::<mqtt::MqttIngest>,
    },
    SourceRow {
        name: "Nats",
        name_v1: "NatsIngest",
        parse_v1: source::<nats::NatsIngest>,
        sample: || json!({"type": "NatsIngest", "servers": ["nats://127.0.0.1:4222"], "stream": "events", "subjects": ["events.>"]}),
        schema: SchemaGenerator::subschema_for::<nats::NatsIngest>,
    },
    SourceRow {
        name: "Postgres",
        name_v1: "PostgresIngest",
        parse_v1: source::<postgres::PostgresIngest>,
        sample: || {
            json!({"type": "PostgresIngest", "url": "postgres://127.0.0.1:5432/shop", "username": "weir", "publication": "weir",
                "slot": "weir_orders", "snapshot": true})
        },
        schema: SchemaGenerator::subschema_for::<postgres::PostgresIngest>,
    },
    #[cfg(feature = "kafka")]
    SourceRow {
        name: "Kafka",
        name_v1: "KafkaIngest",
        parse_v1: source::<kafka::KafkaIngest>,
        sample: || json!({"type": "KafkaIngest", "topics": ["events"], "bootstrapServers": "127.0.0.1:9092"}),
        schema: SchemaGenerator::subschema_for::<kafka::KafkaIngest>,
    },
    #[cfg(feature = "aws")]
    SourceRow {
        name: "Kinesis",
        name_v1: "KinesisIngest",
        parse_v1: source::<aws::KinesisIngest>,
        sample: || json!({"type": "KinesisIngest", "streamName": "events", "region": {"region": "eu-west-1"}}),
        schema: SchemaGenerator::subschema_for::<aws::KinesisIngest>,
    },
    #[cfg(feature = "aws")]
    SourceRow {
        name: "KinesisKCL",
        name_v1: "KinesisKCLIngest",
        parse_v1: source::<aws::KinesisKclIngest>,
        sample: || {
            json!({"type": "KinesisKCLIngest", "kinesisStreamName": "events", "applicationName": "weir",
                "region": {"region": "eu-west-1"}})
        },
        schema: SchemaGenerator::subschema_for::<aws::KinesisKclIngest>,
    },
    #[cfg(feature = "aws")]
    SourceRow {
        name: "S3",
        name_v1: "S3Ingest",
        parse_v1: source::<aws::S3Ingest>,
        sample: || json!({"type": "S3Ingest", "bucket": "lake", "key": "2026/people.jsonl", "region": {"region": "eu-west-1"}}),
        schema: SchemaGenerator::subschema_for::<aws::S3Ingest>,
    },
    #[cfg(feature = "aws")]
    SourceRow {
        name: "SQS",
        name_v1: "SQSIngest",
        parse_v1: source::<aws::SqsIngest>,
        sample: || json!({"type": "SQSIngest", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/123456789012/events"}),
        schema: SchemaGenerator::subschema_for::<aws::SqsIngest>,
    },
];

/// `CypherQuery` is missing: it needs the graph, so it belongs to whoever knows both.
pub static DESTINATIONS: &[DestinationRow] = &[
    DestinationRow {
        name: "StandardOut",
        name_v1: "PrintToStandardOut",
        parse_v1: destination::<PrintToStandardOut>,
        sample: || json!({"type": "PrintToStandardOut"}),
        schema: SchemaGenerator::subschema_for::<PrintToStandardOut>,
    },
    DestinationRow {
        name: "File",
        name_v1: "WriteToFile",
        parse_v1: destination::<WriteToFile>,
        sample: || json!({"type": "WriteToFile", "path": "results.jsonl", "rotation": {"bytesMax": 100_000_000, "compression": "Gzip", "keepMax": 10}}),
        schema: SchemaGenerator::subschema_for::<WriteToFile>,
    },
    DestinationRow {
        name: "HttpEndpoint",
        name_v1: "PostToEndpoint",
        parse_v1: destination::<PostToEndpoint>,
        sample: || json!({"type": "PostToEndpoint", "url": "http://127.0.0.1:9000/results"}),
        schema: SchemaGenerator::subschema_for::<PostToEndpoint>,
    },
    DestinationRow {
        name: "Elasticsearch",
        name_v1: "WriteToElasticsearch",
        parse_v1: destination::<WriteToElasticsearch>,
        sample: || json!({"type": "WriteToElasticsearch", "urls": ["http://127.0.0.1:9200"], "index": "results-{yyyy}.{MM}"}),
        schema: SchemaGenerator::subschema_for::<WriteToElasticsearch>,
    },
    DestinationRow {
        name: "Slack",
        name_v1: "PostToSlack",
        parse_v1: destination::<PostToSlack>,
        sample: || json!({"type": "PostToSlack", "hookUrl": "https://hooks.example.com/services/T/B/X"}),
        schema: SchemaGenerator::subschema_for::<PostToSlack>,
    },
    DestinationRow {
        name: "ReactiveStream",
        name_v1: "ReactiveStream",
        parse_v1: destination::<destinations::ReactiveStream>,
        sample: || json!({"type": "ReactiveStream", "port": 19_001}),
        schema: SchemaGenerator::subschema_for::<destinations::ReactiveStream>,
    },
    DestinationRow {
        name: "Redis",
        name_v1: "WriteToRedis",
        parse_v1: destination::<redis::WriteToRedis>,
        sample: || json!({"type": "WriteToRedis", "url": "redis://127.0.0.1:6379", "key": "results"}),
        schema: SchemaGenerator::subschema_for::<redis::WriteToRedis>,
    },
    DestinationRow {
        name: "Amqp",
        name_v1: "WriteToAmqp",
        parse_v1: destination::<amqp::WriteToAmqp>,
        sample: || json!({"type": "WriteToAmqp", "url": "amqp://127.0.0.1:5672", "exchange": "results", "routingKey": "numbers"}),
        schema: SchemaGenerator::subschema_for::<amqp::WriteToAmqp>,
    },
    DestinationRow {
        name: "Mqtt",
        name_v1: "WriteToMqtt",
        parse_v1: destination::<mqtt::WriteToMqtt>,
        sample: || json!({"type": "WriteToMqtt", "url": "mqtt://127.0.0.1:1883", "topic": "results/numbers"}),
        schema: SchemaGenerator::subschema_for::<mqtt::WriteToMqtt>,
    },
    DestinationRow {
        name: "Nats",
        name_v1: "WriteToNats",
        parse_v1: destination::<nats::WriteToNats>,
        sample: || json!({"type": "WriteToNats", "servers": ["nats://127.0.0.1:4222"], "subject": "results.numbers"}),
        schema: SchemaGenerator::subschema_for::<nats::WriteToNats>,
    },
    DestinationRow {
        name: "Postgres",
        name_v1: "WriteToPostgres",
        parse_v1: destination::<postgres::WriteToPostgres>,
        sample: || json!({"type": "WriteToPostgres", "url": "postgres://127.0.0.1:5432/shop", "username": "weir", "table": "results"}),
        schema: SchemaGenerator::subschema_for::<postgres::WriteToPostgres>,
    },
    #[cfg(feature = "kafka")]
    DestinationRow {
        name: "Kafka",
        name_v1: "WriteToKafka",
        parse_v1: destination::<kafka::WriteToKafka>,
        sample: || json!({"type": "WriteToKafka", "topic": "results", "bootstrapServers": "127.0.0.1:9092"}),
        schema: SchemaGenerator::subschema_for::<kafka::WriteToKafka>,
    },
    #[cfg(feature = "aws")]
    DestinationRow {
        name: "Kinesis",
        name_v1: "WriteToKinesis",
        parse_v1: destination::<aws::WriteToKinesis>,
        sample: || json!({"type": "WriteToKinesis", "streamName": "results", "region": {"region": "eu-west-1"}}),
        schema: SchemaGenerator::subschema_for::<aws::WriteToKinesis>,
    },
    #[cfg(feature = "aws")]
    DestinationRow {
        name: "S3",
        name_v1: "WriteToS3",
        parse_v1: destination::<aws::WriteToS3>,
        sample: || json!({"type": "WriteToS3", "bucket": "lake", "prefix": "results/", "compression": "Zstd", "region": {"region": "eu-west-1"}}),
        schema: SchemaGenerator::subschema_for::<aws::WriteToS3>,
    },
    #[cfg(feature = "aws")]
    DestinationRow {
        name: "SNS",
        name_v1: "WriteToSNS",
        parse_v1: destination::<aws::WriteToSns>,
        sample: || json!({"type": "WriteToSNS", "topic": "arn:aws:sns:eu-west-1:123456789012:results"}),
        schema: SchemaGenerator::subschema_for::<aws::WriteToSns>,
    },
    #[cfg(feature = "aws")]
    DestinationRow {
        name: "SQS",
        name_v1: "WriteToSQS",
        parse_v1: destination::<aws::WriteToSqs>,
        sample: || json!({"type": "WriteToSQS", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/123456789012/results"}),
        schema: SchemaGenerator::subschema_for::<aws::WriteToSqs>,
    },
    DestinationRow {
        name: "Drop",
        name_v1: "Drop",
        parse_v1: destination::<Drop>,
        sample: || json!({"type": "Drop"}),
        schema: SchemaGenerator::subschema_for::<Drop>,
    },
];

/// Reads the v1 definition of a source: the body that creates an ingest stream.
pub fn parse_source_v1(definition: &Json) -> Result<Box<dyn SourceConfig>, ConnectorError> {
    let kind = config::kind(definition)?;
    let row = SOURCES.iter().find(|row| row.name_v1 == kind).ok_or_else(|| config::unknown_kind(kind))?;
    (row.parse_v1)(definition)
}

/// Reads the v1 definition of an output other than `CypherQuery`.
pub fn parse_destination_v1(definition: &Json) -> Result<Box<dyn DestinationConfig>, ConnectorError> {
    let kind = config::kind(definition)?;
    let row = DESTINATIONS.iter().find(|row| row.name_v1 == kind).ok_or_else(|| config::unknown_kind(kind))?;
    (row.parse_v1)(definition)
}

fn source<C: SourceConfig + DeserializeOwned + 'static>(definition: &Json) -> Result<Box<dyn SourceConfig>, ConnectorError> {
    Ok(Box::new(config::from_json::<C>(definition)?))
}

fn destination<C: DestinationConfig + DeserializeOwned + 'static>(
    definition: &Json,
) -> Result<Box<dyn DestinationConfig>, ConnectorError> {
    Ok(Box::new(config::from_json::<C>(definition)?))
}

/// A definition as JSON, with its secrets, to be stored.
fn stored(kind: &str, config: &impl Serialize) -> Json {
    config::with_secrets(|| settings(kind, config))
}

/// A definition as JSON, defaults filled in, secrets masked, its kind first.
fn settings(kind: &str, config: &impl Serialize) -> Json {
    let mut all = serde_json::Map::new();
    all.insert("type".to_owned(), Json::from(kind));
    if let Ok(Json::Object(fields)) = serde_json::to_value(config) {
        all.extend(fields);
    }
    Json::Object(all)
}
