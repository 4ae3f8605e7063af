//! The definition of a stream from Kinesis whose shards are shared out among all who read for the same application, in the way of
//! Amazon's client library.
//!
//!     leases: a table of DynamoDB ─> sharing: who reads which shard ─> a Reader for each of ours ─> Reading ─> Frames
//!                      ^───────────── checkpoints <── durable ──────────────────────────────────────┘

mod leases;
mod options;
mod places;
mod sharing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use weir_model::{Position, Value};

pub use options::*;

use self::leases::Table;
use self::sharing::{Rules, Sharing};
use super::access::{Access, AwsCredentials, AwsRegion};
use super::consumer::Consumer;
use super::kinesis::{check_stream, retries};
use super::reader::Pace;
use super::shards::{Places, Reading, Stream};
use crate::config;
use crate::error::ConnectorError;
use crate::formats::StreamFormat;
use crate::names::of_this_machine;
use crate::origin;
use crate::recoding::RecordDecoder;
use crate::secret;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Reads a Kinesis stream together with other readers of the same `applicationName`: they divide the shards among themselves by a
/// lease table in DynamoDB, and take over the shards of a reader that fails.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "KinesisKCLIngest")]
pub struct KinesisKclIngest {
    /// The name of the Kinesis stream.
    pub kinesis_stream_name: String,
    /// The name that all readers share who divide the shards. Also the name of the lease table, unless `tableName` gives another.
    pub application_name: String,
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the stream and the lease table. When not given it is found as the AWS tools find it: in environment
    /// variables, a profile or the settings of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of another server that speaks the protocols of Kinesis and DynamoDB, to be used instead of Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub endpoint: Option<String>,
    /// Where to begin in a shard that no reader of this application has read. `Latest` when not given.
    #[serde(default)]
    pub initial_position: InitialPosition,
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
    /// Buffering settings of Amazon's client library. No effect: weir limits by itself what waits for the graph.
    #[serde(default)]
    pub scheduler_source_settings: SchedulerSourceSettings,
    /// How often progress is written to the lease table. Only what is durable in the graph is ever written.
    #[serde(default)]
    pub checkpoint_settings: CheckpointSettings,
    /// Settings in the names of Amazon's client library. Each says whether it has an effect.
    #[serde(default)]
    pub advanced_settings: AdvancedSettings,
}

impl KinesisKclIngest {
    fn access(&self, context: &SourceContext) -> Access {
        Access::of(&self.credentials, &self.region, &self.endpoint, &context.hosts)
    }

    fn leases(&self) -> LeaseManagementConfig {
        self.advanced_settings.lease_management_config.clone().unwrap_or_default()
    }

    fn table_name(&self) -> &str {
        let own = self.advanced_settings.configs_builder.as_ref().and_then(|builder| builder.table_name.as_deref());
        own.unwrap_or(&self.application_name)
    }

    fn pace(&self) -> Pace {
        let (mut records_max, mut idle_millis) = (None, None);
        if let Some(RetrievalSpecificConfig::PollingConfig { max_records, idle_time_between_reads_in_millis, .. }) =
            &self.advanced_settings.retrieval_specific_config
        {
            (records_max, idle_millis) = (*max_records, *idle_time_between_reads_in_millis);
        }
        Pace::of(records_max, Some(Duration::from_millis(idle_millis.unwrap_or(1_000))))
    }

    /// Who is sent the records, if that is wished for.
    fn consumer(&self) -> Option<Consumer> {
        let Some(RetrievalSpecificConfig::FanOutConfig { consumer_arn, consumer_name, .. }) =
            &self.advanced_settings.retrieval_specific_config
        else {
            return None;
        };
        Some(Consumer { arn: consumer_arn.clone(), name: consumer_name.as_ref().unwrap_or(&self.application_name).clone() })
    }

    fn rules(&self) -> Rules {
        let (leases, checkpoints) = (self.leases(), &self.checkpoint_settings);
        Rules {
            failover: Duration::from_millis(leases.failover_time_millis.unwrap_or(10_000)),
            sync: Duration::from_millis(leases.shard_sync_interval_millis.unwrap_or(60_000)),
            clean_up: leases.cleanup_leases_upon_shard_completion.unwrap_or(true),
            leases_max: leases.max_leases_for_worker.map_or(usize::MAX, |most| most as usize),
            hand_over: leases
                .is_graceful_lease_handoff_enabled
                .unwrap_or(true)
                .then(|| Duration::from_millis(leases.graceful_lease_handoff_timeout_millis.unwrap_or(30_000))),
            checkpoint_records: checkpoints.max_batch_size.unwrap_or(1_000),
            checkpoint_after: Duration::from_millis(checkpoints.max_batch_wait_millis.unwrap_or(10_000)),
            checkpoints: !checkpoints.disable_checkpointing,
            sentinel: self.initial_position.sentinel(),
            consumer: self.consumer(),
        }
    }
}

/// What is not given is not shown.
fn without_nulls(settings: Json) -> Json {
    match settings {
        Json::Object(fields) => {
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

impl SourceConfig for KinesisKclIngest {
    fn settings(&self) -> Json {
        without_nulls(crate::settings("KinesisKCLIngest", self))
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        true
    }

    fn frame(&self, bytes: &[u8], origin: &[u8]) -> Value {
        origin::frame("data", Value::Bytes(bytes.into()), origin)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        check_stream("kinesisStreamName", &self.kinesis_stream_name)?;
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let name = self.table_name();
        if !matches!(name.len(), 3..=255) || !name.chars().all(legal) {
            let problem = format!("'{name}' cannot be the name of a table: 3 to 255 letters, digits, '.', '_' and '-'");
            return Err(ConnectorError::config("applicationName", problem));
        }
        if let Some(Consumer { arn: None, name }) = self.consumer() {
            check_stream("advancedSettings.retrievalSpecificConfig.consumerName", &name)?;
        }
        let (leases, checkpoints) = (self.leases(), &self.checkpoint_settings);
        let positive = [
            ("advancedSettings.leaseManagementConfig.failoverTimeMillis", leases.failover_time_millis),
            ("advancedSettings.leaseManagementConfig.shardSyncIntervalMillis", leases.shard_sync_interval_millis),
            ("advancedSettings.leaseManagementConfig.maxLeasesForWorker", leases.max_leases_for_worker.map(u64::from)),
            ("checkpointSettings.maxBatchSize", checkpoints.max_batch_size),
            ("schedulerSourceSettings.bufferSize", self.scheduler_source_settings.buffer_size.map(u64::from)),
        ];
        if let Some((field, _)) = positive.iter().find(|(_, given)| *given == Some(0)) {
            return Err(ConnectorError::config(field, "the number must be at least 1"));
        }
        self.initial_position.iterator()?;
        self.access(context).check()?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        Places::shown(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let place = format!("Kinesis stream {} of application {}", self.kinesis_stream_name, self.application_name);
        let mut places = Places::read(&place, from)?;
        let given = self.advanced_settings.configs_builder.as_ref().and_then(|builder| builder.worker_identifier.clone());
        // By the name of its earlier lives: what it had then is its own at once.
        let worker = given.or(places.worker.take()).unwrap_or_else(of_this_machine);
        places.worker = Some(worker.clone());
        let stream = Stream {
            name: self.kinesis_stream_name.clone(),
            shard_ids: None,
            begin: self.initial_position.iterator()?,
            retries: self.num_retries,
            pace: self.pace(),
        };
        let leases = self.leases();
        let table = Table {
            name: self.table_name().to_owned(),
            retries: self.num_retries,
            provisioned: (leases.billing_mode == Some(BillingMode::Provisioned)).then(|| {
                let capacity = |given: Option<u32>| given.unwrap_or(10);
                (capacity(leases.initial_lease_table_read_capacity), capacity(leases.initial_lease_table_write_capacity))
            }),
        };
        let (access, rules) = (self.access(context), self.rules());
        Ok(Box::new(Reading::share(&context.runtime, &place.clone(), places.clone(), |events, durable, trouble| {
            Sharing::new(place, worker, stream, table, rules, places, events, trouble).run(access.clone(), access, durable)
        })))
    }
}
