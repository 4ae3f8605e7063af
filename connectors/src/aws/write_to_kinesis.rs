//! An output to Kinesis.
//!
//! At least once: a result counts as delivered when the stream has taken it, and one that was not taken comes again. Each goes
//! to a shard of its own choosing, as in the reference, so there is no order among shards.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;
use weir_model::Position;

use super::access::{Access, AwsCredentials, AwsRegion};
use super::batches::{Batched, Bounds, Request, Sent};
use super::client::{Client, Failed, Opening};
use super::kinesis::check_stream;
use super::reader::KINESIS;
use crate::config;
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::host_policy::HostPolicy;
use crate::output_format::OutputFormat;
use crate::rate::RateLimiter;
use crate::secret;

/// What Kinesis takes in one request.
const RESULTS_MAX: u32 = 500;
const BYTES_MAX: usize = 5 << 20;
/// Every record has one, and where it goes is said by another number.
const PARTITION_KEY: &str = "undefined";
/// Kinesis counts it with what a record holds.
const BYTES_EACH: usize = PARTITION_KEY.len();

/// Writes each result to a Kinesis stream, each to a shard chosen at random, so in no order.
///
/// Each result arrives at least once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToKinesis {
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
    /// The name of the Kinesis stream.
    pub stream_name: String,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// How many requests run at a time. 1 when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kinesis_parallelism: Option<u32>,
    /// The most records in one request, from 1 to 500. 500 when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub kinesis_max_batch_size: Option<u32>,
    /// The most records to write per second. No limit when not given. What Kinesis itself throttles is sent again in any case.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kinesis_max_records_per_second: Option<u32>,
    /// The most bytes to write per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub kinesis_max_bytes_per_second: Option<u32>,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

impl DestinationConfig for WriteToKinesis {
    fn settings(&self) -> Json {
        crate::settings("WriteToKinesis", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn is_line(&self, generation: Generation) -> bool {
        generation == Generation::V2
    }

    fn check(&self) -> Result<(), ConnectorError> {
        check_stream("streamName", &self.stream_name)?;
        if self.kinesis_max_batch_size.is_some_and(|size| size > RESULTS_MAX) {
            return Err(ConnectorError::config("kinesisMaxBatchSize", format!("Kinesis takes {RESULTS_MAX} at most")));
        }
        Ok(())
    }

    fn try_out(&self, _files: &FilePolicy) -> Result<(), ConnectorError> {
        Access::of(&self.credentials, &self.region, &self.endpoint, &HostPolicy::default()).try_region(KINESIS.name, None)
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let access = Access::of(&self.credentials, &self.region, &self.endpoint, &context.hosts);
        access.check()?;
        Ok(Box::new(Batched {
            stop: Arc::default(),
            stops_at_refused: false,
            runtime: context.runtime.clone(),
            client: Opening { service: &KINESIS, access, address: None, client: OnceCell::new() },
            bounds: Bounds {
                // A second's worth, so that a limit is kept to within a second.
                results_max: [self.kinesis_max_batch_size, self.kinesis_max_records_per_second]
                    .into_iter()
                    .flatten()
                    .fold(RESULTS_MAX, u32::min) as usize,
                // As much; a record that is longer goes alone, and what follows waits the longer.
                bytes_max: self.kinesis_max_bytes_per_second.map_or(BYTES_MAX, |bytes| BYTES_MAX.min(bytes as usize)),
                bytes_each: BYTES_EACH,
            },
            at_once: self.kinesis_parallelism.unwrap_or(1) as usize,
            together_max: usize::MAX,
            request: Put {
                stream: self.stream_name.clone(),
                records: RefCell::new(self.kinesis_max_records_per_second.map(RateLimiter::new)),
                bytes: RefCell::new(self.kinesis_max_bytes_per_second.map(RateLimiter::new)),
            },
        }))
    }
}

struct Put {
    stream: String,
    records: RefCell<Option<RateLimiter>>,
    bytes: RefCell<Option<RateLimiter>>,
}

/// Any of the places between the shards' bounds.
fn anywhere() -> String {
    let part = || u128::from(RandomState::new().build_hasher().finish());
    ((part() << 64) | part()).to_string()
}

/// Waits until more may pass.
async fn pace(limiter: &RefCell<Option<RateLimiter>>, amount: usize) {
    loop {
        let wait = match &mut *limiter.borrow_mut() {
            None => return,
            Some(limiter) => match limiter.permits(Instant::now()) {
                Ok(_) => return limiter.spend(amount, Instant::now()),
                Err(wait) => wait,
            },
        };
        tokio::time::sleep(wait).await;
    }
}

impl Request for Put {
    async fn send(&self, client: &Client, results: &[Outgoing], range: Range<usize>) -> Sent {
        let results = &results[range.clone()];
        pace(&self.records, results.len()).await;
        pace(&self.bytes, results.iter().map(|result| result.body.len() + BYTES_EACH).sum()).await;
        let record = |result: &Outgoing| json!({"Data": STANDARD.encode(&result.body), "PartitionKey": PARTITION_KEY, "ExplicitHashKey": anywhere()});
        let records: Vec<Json> = results.iter().map(record).collect();
        let stream = &self.stream;
        let answer = client.call("PutRecords", &json!({"StreamName": stream, "Records": records})).await?;
        let told = answer["Records"].as_array().map(Vec::as_slice).unwrap_or_default();
        if told.len() != records.len() {
            let reason = format!("Kinesis stream {stream}: the answer speaks of {} records of {}", told.len(), records.len());
            return Err(Failed { code: String::new(), reason, retryable: true });
        }
        let failed = |(index, told): (usize, &Json)| {
            let code = told["ErrorCode"].as_str()?.to_owned();
            let words = told["ErrorMessage"].as_str().unwrap_or_default();
            Some((index, Failed { reason: format!("Kinesis stream {stream}: {code}: {words}"), code, retryable: true }))
        };
        Ok(range.zip(told).filter_map(failed).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::{bodies, output, runtime};
    use crate::parse_destination_v1;
    use crate::real_server::results;

    #[test]
    fn an_answer_that_does_not_speak_of_each_record_delivers_none() {
        let server = StandIn::start(|asked| {
            let taken = json!({"SequenceNumber": "1", "ShardId": "a"});
            let failed = json!({"ErrorCode": "InternalFailure", "ErrorMessage": "later"});
            match asked.body["StreamName"].as_str() {
                Some("whole") => (200, json!({"FailedRecordCount": 1, "Records": [taken, failed, taken]}).to_string()),
                Some("part") => (200, json!({"FailedRecordCount": 0, "Records": [taken]}).to_string()),
                Some("nothing") => (200, String::new()),
                _ => (200, "{}".to_owned()),
            }
        });
        let runtime = runtime();
        for (stream, left) in [("whole", vec![1]), ("part", vec![0, 1, 2]), ("nothing", vec![0, 1, 2]), ("none", vec![0, 1, 2])] {
            let definition = json!({"type": "WriteToKinesis", "streamName": stream, "region": "us-east-1", "endpoint": server.url,
                "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
            let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
            let written = destination.write(&results(3), 0).unwrap();
            assert_eq!((written.left, written.refused.len()), (left, 0), "{stream}");
        }
    }

    /// Up to 5 MiB left at once, and the next only after that many seconds.
    #[test]
    fn no_request_has_more_bytes_than_go_in_a_second() {
        let server = StandIn::start(|asked| {
            let count = asked.body["Records"].as_array().map_or(0, Vec::len);
            let taken = json!({"SequenceNumber": "1", "ShardId": "a"});
            (200, json!({"FailedRecordCount": 0, "Records": vec![taken; count]}).to_string())
        });
        let runtime = runtime();
        let definition = json!({"type": "WriteToKinesis", "streamName": "s", "region": "us-east-1", "endpoint": server.url,
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}, "kinesisMaxBytesPerSecond": 20});
        let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        // Ten bytes each, of which nine are the partition key; the fourth is longer than all that goes in a second.
        let results = bodies(&["1", "2", "3", &"x".repeat(40)]);
        let began = Instant::now();
        let written = destination.write(&results, 0).unwrap();
        assert_eq!((written.left.len(), written.refused.len()), (0, 0));
        let counts: Vec<usize> = server.asked().iter().map(|asked| asked.body["Records"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [2, 1, 1]);
        // A second for the first two, and half a one for the third.
        assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    }
}
