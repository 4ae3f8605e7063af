//! The options of Amazon's Kinesis client library, as definitions have them. Those that say how that library uses threads, or
//! what it tells CloudWatch, are taken and shown, and change nothing.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use crate::aws::iterator::{IteratorAt, IteratorType, IteratorWord};
use crate::config;
use crate::error::ConnectorError;

/// Where to begin in a shard that no reader of this application has read.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialPosition {
    Word(IteratorWord),
    At(PositionAt),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum PositionAt {
    /// From the first record that arrived at this time, in the time zone of the machine, or later.
    AtTimestamp {
        /// The year, such as 2026.
        year: i16,
        /// The month, from 1 to 12.
        #[schemars(range(min = 1, max = 12))]
        month: i8,
        /// The day of the month, from 1 to 31.
        #[schemars(range(min = 1, max = 31))]
        day_of_month: i8,
        /// The hour, from 0 to 23.
        #[schemars(range(min = 0, max = 23))]
        hour_of_day: i8,
        /// The minute, from 0 to 59.
        #[schemars(range(min = 0, max = 59))]
        minute: i8,
        /// The second, from 0 to 59.
        #[schemars(range(min = 0, max = 59))]
        second: i8,
    },
}

impl Default for InitialPosition {
    fn default() -> InitialPosition {
        InitialPosition::Word(IteratorWord::Latest)
    }
}

impl<'de> Deserialize<'de> for InitialPosition {
    // By hand, so that an error says what is expected; and the words are taken as objects, too.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<InitialPosition, D::Error> {
        let given = Json::deserialize(input)?;
        match given.as_str().or_else(|| given.get("type").and_then(Json::as_str)).unwrap_or_default() {
            "Latest" => Ok(InitialPosition::Word(IteratorWord::Latest)),
            "TrimHorizon" => Ok(InitialPosition::Word(IteratorWord::TrimHorizon)),
            "AtTimestamp" if given.is_object() => {
                let read = config::from_json(&given).map_err(|error| config::nested(error.within("initialPosition")))?;
                Ok(InitialPosition::At(read))
            }
            _ => Err(config::nested(ConnectorError::config(
                "initialPosition",
                format!(
                    "Invalid value: {given} ; valid are \"Latest\", \"TrimHorizon\", and an object with the type AtTimestamp, year, \
                     month, dayOfMonth, hourOfDay, minute and second"
                ),
            ))),
        }
    }
}

impl InitialPosition {
    /// As Kinesis is asked for it.
    pub fn iterator(&self) -> Result<IteratorType, ConnectorError> {
        match *self {
            InitialPosition::Word(word) => Ok(IteratorType::Word(word)),
            InitialPosition::At(PositionAt::AtTimestamp { year, month, day_of_month, hour_of_day, minute, second }) => {
                let local = DateTime::new(year, month, day_of_month, hour_of_day, minute, second, 0);
                let moment = local.and_then(|local| local.to_zoned(local_zone()));
                let millis = moment.ok().and_then(|moment| u64::try_from(moment.timestamp().as_millisecond()).ok());
                let wrong = || ConnectorError::config("initialPosition", "is no moment since 1970");
                Ok(IteratorType::At(IteratorAt::AtTimestamp { millis_since_epoch: millis.ok_or_else(wrong)? }))
            }
        }
    }

    /// What a lease says whose shard nobody has read.
    pub fn sentinel(&self) -> &'static str {
        match self {
            InitialPosition::Word(IteratorWord::Latest) => "LATEST",
            InitialPosition::Word(IteratorWord::TrimHorizon) => "TRIM_HORIZON",
            InitialPosition::At(_) => "AT_TIMESTAMP",
        }
    }
}

/// The time zone of the machine: `TZ`, or what `/etc/localtime` has.
fn local_zone() -> TimeZone {
    if let Some(name) = std::env::var("TZ").ok().filter(|name| !name.is_empty()) {
        let name = name.trim_start_matches(':');
        return TimeZone::get(name).or_else(|_| TimeZone::posix(name)).unwrap_or(TimeZone::UTC);
    }
    let file = std::fs::read("/etc/localtime").ok();
    file.and_then(|bytes| TimeZone::tzif("Local", &bytes).ok()).unwrap_or(TimeZone::UTC)
}

/// Buffering settings of Amazon's client library. They are accepted and shown, and have no effect: weir limits by itself what
/// waits for the graph.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerSourceSettings {
    /// No effect; accepted for compatibility with Amazon's client library.
    #[schemars(range(min = 1))]
    pub buffer_size: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub backpressure_timeout_millis: Option<u64>,
}

/// How often progress is written to the lease table. After a takeover another reader goes on from there.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckpointSettings {
    /// Whether no progress is written, but for the ends of shards. Another reader that takes over a shard then begins at its
    /// initial position.
    pub disable_checkpointing: bool,
    /// Progress is written after this many records. 1000 when not given.
    #[schemars(range(min = 1))]
    pub max_batch_size: Option<u64>,
    /// Progress is written after this time at the latest. 10 s when not given.
    pub max_batch_wait_millis: Option<u64>,
}

/// Settings in the names of Amazon's client library. Those that have no effect in weir are accepted and shown.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdvancedSettings {
    /// Names: of the lease table, and of this reader.
    pub configs_builder: Option<ConfigsBuilder>,
    /// How shards are divided among readers.
    pub lease_management_config: Option<LeaseManagementConfig>,
    /// How records are fetched: by polling, which is the default, or by enhanced fan-out.
    pub retrieval_specific_config: Option<RetrievalSpecificConfig>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub processor_config: Option<ProcessorConfig>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub coordinator_config: Option<CoordinatorConfig>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub lifecycle_config: Option<LifecycleConfig>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub retrieval_config: Option<RetrievalConfig>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub metrics_config: Option<MetricsConfig>,
}

/// Names that the lease table knows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigsBuilder {
    /// The name of the lease table in DynamoDB, which is created if it does not exist. `applicationName` when not given.
    pub table_name: Option<String>,
    /// The name of this reader in the lease table. It must be unique. When not given, one is generated that stays the same for
    /// the life of the stream.
    pub worker_identifier: Option<String>,
}

/// How shards are divided among the readers of an application.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseManagementConfig {
    /// After this time without a sign of life, the shards of a reader are taken over by others. 10 s when not given.
    #[schemars(range(min = 1))]
    pub failover_time_millis: Option<u64>,
    /// How often the list of shards is fetched. 60 s when not given.
    #[schemars(range(min = 1))]
    pub shard_sync_interval_millis: Option<u64>,
    /// Whether the leases of shards that are read to their end and no longer exist are deleted. True when not given.
    pub cleanup_leases_upon_shard_completion: Option<bool>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub ignore_unexpected_child_shards: Option<bool>,
    /// The most shards that this reader takes. No limit when not given.
    #[schemars(range(min = 1))]
    pub max_leases_for_worker: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub max_lease_renewal_threads: Option<u32>,
    /// The billing mode of the lease table if it has to be created. `PAY_PER_REQUEST` when not given.
    pub billing_mode: Option<BillingMode>,
    /// The read capacity of a new lease table that is `PROVISIONED`. 10 when not given.
    #[schemars(range(min = 1))]
    pub initial_lease_table_read_capacity: Option<u32>,
    /// The write capacity of a new lease table that is `PROVISIONED`. 10 when not given.
    #[schemars(range(min = 1))]
    pub initial_lease_table_write_capacity: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub re_balance_threshold_percentage: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub dampening_percentage: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub allow_throughput_overshoot: Option<bool>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub disable_worker_metrics: Option<bool>,
    /// No effect; accepted for compatibility with Amazon's client library.
    #[serde(rename = "maxThroughputPerHostKBps")]
    pub max_throughput_per_host_kbps: Option<f64>,
    /// Whether a shard is handed to another reader only when all that was read of it is durable. True when not given.
    pub is_graceful_lease_handoff_enabled: Option<bool>,
    /// The longest time to wait for such a handover. 30 s when not given.
    pub graceful_lease_handoff_timeout_millis: Option<u64>,
}

/// How DynamoDB bills the lease table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BillingMode {
    /// For a fixed read and write capacity.
    Provisioned,
    /// For each request.
    PayPerRequest,
    /// Accepted for compatibility; it has the effect of `PAY_PER_REQUEST`.
    UnknownToSdkVersion,
}

/// How records are fetched.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum RetrievalSpecificConfig {
    /// Enhanced fan-out: Kinesis pushes records to a registered consumer that has its own throughput.
    FanOutConfig {
        /// The ARN of a consumer that is already registered.
        #[serde(default)]
        consumer_arn: Option<String>,
        /// The name of the consumer. It is registered if it does not exist, and stays when the stream is deleted.
        /// `applicationName` when not given.
        #[serde(default)]
        consumer_name: Option<String>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        max_describe_stream_summary_retries: Option<u32>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        max_describe_stream_consumer_retries: Option<u32>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        register_stream_consumer_retries: Option<u32>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        retry_backoff_millis: Option<u64>,
    },
    /// Records are requested again and again; the default.
    PollingConfig {
        /// The most records that one request asks for, from 1 to 10000. 2000 when not given; more than 2000 has the effect of
        /// 2000.
        #[serde(default)]
        #[schemars(range(min = 1, max = 10000))]
        max_records: Option<u32>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        retry_get_records_in_seconds: Option<u32>,
        /// No effect; accepted for compatibility with Amazon's client library.
        #[serde(default)]
        max_get_records_thread_pool: Option<u32>,
        /// The pause between two requests for one shard, 200 ms at least. 1 s when not given.
        #[serde(default)]
        idle_time_between_reads_in_millis: Option<u64>,
    },
}

/// Record processing of Amazon's client library. No effect in weir.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessorConfig {
    /// No effect; accepted for compatibility with Amazon's client library.
    pub call_process_records_even_for_empty_record_list: Option<bool>,
}

/// Coordination settings of Amazon's client library. No effect in weir.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoordinatorConfig {
    /// No effect; accepted for compatibility with Amazon's client library.
    pub parent_shard_poll_interval_millis: Option<u64>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub skip_shard_sync_at_worker_initialization_if_leases_exist: Option<bool>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub shard_prioritization: Option<ShardPrioritization>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub client_version_config: Option<ClientVersionConfig>,
}

/// The order in which shards are processed. No effect in weir, which reads a shard when its parents have been read.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ShardPrioritization {
    /// No particular order.
    NoOpShardPrioritization,
    /// Parents before children, down to a depth of `maxDepth`.
    ParentsFirstShardPrioritization {
        /// The depth.
        max_depth: u32,
    },
}

/// The version of the lease protocol. No effect: weir writes the rows of version 2.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum ClientVersionConfig {
    /// Compatible with version 2.
    #[serde(rename = "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X")]
    CompatibleWith2,
    /// Version 3.
    #[serde(rename = "CLIENT_VERSION_CONFIG_3X")]
    Version3,
}

/// Task settings of Amazon's client library. No effect in weir.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleConfig {
    /// No effect; accepted for compatibility with Amazon's client library.
    pub task_backoff_time_millis: Option<u64>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub log_warning_for_task_after_millis: Option<u64>,
}

/// Settings for listing shards of Amazon's client library. No effect in weir.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrievalConfig {
    /// No effect; accepted for compatibility with Amazon's client library.
    pub list_shards_backoff_time_in_millis: Option<u64>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub max_list_shards_retry_attempts: Option<u32>,
}

/// CloudWatch settings of Amazon's client library. No effect: weir sends nothing to CloudWatch.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricsConfig {
    /// No effect; accepted for compatibility with Amazon's client library.
    pub metrics_buffer_time_millis: Option<u64>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub metrics_max_queue_size: Option<u32>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub metrics_level: Option<MetricsLevel>,
    /// No effect; accepted for compatibility with Amazon's client library.
    pub metrics_enabled_dimensions: Option<BTreeSet<MetricsDimension>>,
}

/// How much is sent to CloudWatch. No effect in weir.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetricsLevel {
    /// Nothing.
    None,
    /// Summaries.
    Summary,
    /// Everything.
    Detailed,
}

/// A dimension of CloudWatch metrics. No effect in weir.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetricsDimension {
    OperationDimensionName,
    ShardIdDimensionName,
    StreamIdentifier,
    WorkerIdentifier,
}
