//! The definition of a stream from Kinesis.
//!
//! Its position says where each shard stands, so a stream goes on where it was: what the reference forgets at a restart is kept.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use weir_model::{Position, Value};

use super::access::{Access, AwsCredentials, AwsRegion};
use super::iterator::IteratorType;
use super::reader::Pace;
use super::shards::{Places, Reading, Stream};
use crate::config;
use crate::error::ConnectorError;
use crate::formats::StreamFormat;
use crate::origin;
use crate::recoding::RecordDecoder;
use crate::secret;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Reads the records of a Kinesis stream.
///
/// Each record has its effect once, and the records of a partition key stay in order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KinesisIngest {
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The name of the Kinesis stream.
    pub stream_name: String,
    /// The ids of the shards to read; the stream is complete when they have ended. All shards, also those that are added later,
    /// when not given or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_ids: Option<BTreeSet<String>>,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the stream. When not given it is found as the AWS tools find it: in environment variables, a profile or
    /// the settings of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of another server that speaks the same protocol, to be used instead of Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub endpoint: Option<String>,
    /// Where to begin in a shard that this stream has not read before. `Latest`, which is the moment the stream was created, when
    /// not given.
    #[serde(default)]
    pub iterator_type: IteratorType,
    /// How many times in a row a request may fail before the `message` of the stream says what is wrong. With 0 it says so at the
    /// first failure. The stream keeps trying in any case.
    #[serde(default = "retries", deserialize_with = "config::times")]
    pub num_retries: u32,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each record before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

pub fn retries() -> u32 {
    3
}

/// The rules of Kinesis for names of streams.
pub fn check_stream(field: &str, name: &str) -> Result<(), ConnectorError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if matches!(name.len(), 1..=128) && name.chars().all(legal) {
        return Ok(());
    }
    Err(ConnectorError::config(field, format!("'{name}' cannot be the name of a stream")))
}

impl KinesisIngest {
    fn access(&self, context: &SourceContext) -> Access {
        Access::of(&self.credentials, &self.region, &self.endpoint, &context.hosts)
    }
}

impl SourceConfig for KinesisIngest {
    fn settings(&self) -> Json {
        crate::settings("KinesisIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn frame(&self, bytes: &[u8], origin: &[u8]) -> Value {
        origin::frame("data", Value::Bytes(bytes.into()), origin)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        check_stream("streamName", &self.stream_name)?;
        if self.iterator_type.is_of_one_shard() && self.shard_ids.as_ref().map_or(0, BTreeSet::len) != 1 {
            let problem = "a sequence number is one of a shard: give that shard, and no other, in shardIds";
            return Err(ConnectorError::config("iteratorType", problem));
        }
        self.access(context).check()?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        Places::shown(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let place = format!("Kinesis stream {}", self.stream_name);
        let places = Places::read(&place, from)?;
        let stream = Stream {
            name: self.stream_name.clone(),
            shard_ids: self.shard_ids.clone().filter(|ids| !ids.is_empty()),
            begin: self.iterator_type.clone(),
            retries: self.num_retries,
            pace: Pace::default(),
        };
        Ok(Box::new(Reading::start(&context.runtime, &place, self.access(context), stream, places)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::conformance::anything;
    use crate::parse_source_v1;

    #[test]
    fn the_first_failure_may_be_one_too_many() {
        let definitions = [
            json!({"type": "KinesisIngest", "streamName": "events"}),
            json!({"type": "KinesisKCLIngest", "kinesisStreamName": "events", "applicationName": "weir"}),
        ];
        for mut definition in definitions {
            definition["numRetries"] = json!(0);
            let config = parse_source_v1(&definition).unwrap();
            config.check(&anything()).unwrap();
            assert_eq!(config.settings()["numRetries"], 0);
            definition["numRetries"] = json!(-1);
            let told = parse_source_v1(&definition).map(drop).unwrap_err().to_string();
            assert!(told.contains("numRetries"), "{told}");
        }
    }
}
