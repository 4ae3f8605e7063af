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

/// Where the reading of a shard begins that no application of this name has read before.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum InitialPosition {
    Word(IteratorWord),
    At(PositionAt),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum PositionAt {
    /// The first record that came at this time, in the time zone of the machine, or later.
    AtTimestamp {
        year: i16,
        #[schemars(range(min = 1, max = 12))]
        month: i8,
        #[schemars(range(min = 1, max = 31))]
        day_of_month: i8,
        #[schemars(range(min = 0, max = 23))]
        hour_of_day: i8,
        #[schemars(range(min = 0, max = 59))]
        minute: i8,
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

/// How what was read waits for the graph. Taken and shown: weir bounds it by itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerSourceSettings {
    #[schemars(range(min = 1))]
    pub buffer_size: Option<u32>,
    pub backpressure_timeout_millis: Option<u64>,
}

/// When the lease table is told how far a shard has been read.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckpointSettings {
    /// Whether it is told nothing. Then others begin a shard where the stream began.
    pub disable_checkpointing: bool,
    /// After so many records; 1000 when not given.
    #[schemars(range(min = 1))]
    pub max_batch_size: Option<u64>,
    /// After this time; 10 s when not given.
    pub max_batch_wait_millis: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdvancedSettings {
    pub configs_builder: Option<ConfigsBuilder>,
    pub lease_management_config: Option<LeaseManagementConfig>,
    pub retrieval_specific_config: Option<RetrievalSpecificConfig>,
    pub processor_config: Option<ProcessorConfig>,
    pub coordinator_config: Option<CoordinatorConfig>,
    pub lifecycle_config: Option<LifecycleConfig>,
    pub retrieval_config: Option<RetrievalConfig>,
    pub metrics_config: Option<MetricsConfig>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigsBuilder {
    /// The lease table; `applicationName` when not given.
    pub table_name: Option<String>,
    /// Who this is for the others; a name that nobody else has when not given.
    pub worker_identifier: Option<String>,
}

/// How shards are shared out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseManagementConfig {
    /// Who has not been heard of for so long has lost its shards; 10 s when not given.
    #[schemars(range(min = 1))]
    pub failover_time_millis: Option<u64>,
    /// How often shards are listed; 60 s when not given.
    #[schemars(range(min = 1))]
    pub shard_sync_interval_millis: Option<u64>,
    /// Whether leases of shards that are read and gone are deleted; true when not given.
    pub cleanup_leases_upon_shard_completion: Option<bool>,
    pub ignore_unexpected_child_shards: Option<bool>,
    /// Shards this one has at most; any number when not given.
    #[schemars(range(min = 1))]
    pub max_leases_for_worker: Option<u32>,
    pub max_lease_renewal_threads: Option<u32>,
    /// How the lease table is paid for, where it is made; PAY_PER_REQUEST when not given.
    pub billing_mode: Option<BillingMode>,
    /// Of a table that is PROVISIONED; 10 when not given.
    #[schemars(range(min = 1))]
    pub initial_lease_table_read_capacity: Option<u32>,
    /// Of a table that is PROVISIONED; 10 when not given.
    #[schemars(range(min = 1))]
    pub initial_lease_table_write_capacity: Option<u32>,
    pub re_balance_threshold_percentage: Option<u32>,
    pub dampening_percentage: Option<u32>,
    pub allow_throughput_overshoot: Option<bool>,
    pub disable_worker_metrics: Option<bool>,
    #[serde(rename = "maxThroughputPerHostKBps")]
    pub max_throughput_per_host_kbps: Option<f64>,
    /// Whether a shard changes hands when what was read of it is durable; true when not given.
    pub is_graceful_lease_handoff_enabled: Option<bool>,
    /// How long that is waited for; 30 s when not given.
    pub graceful_lease_handoff_timeout_millis: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BillingMode {
    Provisioned,
    PayPerRequest,
    UnknownToSdkVersion,
}

/// How records are fetched.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum RetrievalSpecificConfig {
    /// Kinesis sends them as they come, to a consumer that has its own share of each shard (enhanced fan-out).
    FanOutConfig {
        /// Of a consumer that is there already.
        #[serde(default)]
        consumer_arn: Option<String>,
        /// Of the consumer, which is registered where there is none; `applicationName` when not given.
        #[serde(default)]
        consumer_name: Option<String>,
        #[serde(default)]
        max_describe_stream_summary_retries: Option<u32>,
        #[serde(default)]
        max_describe_stream_consumer_retries: Option<u32>,
        #[serde(default)]
        register_stream_consumer_retries: Option<u32>,
        #[serde(default)]
        retry_backoff_millis: Option<u64>,
    },
    PollingConfig {
        /// Of one request; 2000 when not given.
        #[serde(default)]
        #[schemars(range(min = 1, max = 10000))]
        max_records: Option<u32>,
        #[serde(default)]
        retry_get_records_in_seconds: Option<u32>,
        #[serde(default)]
        max_get_records_thread_pool: Option<u32>,
        /// Between two requests for one shard; 1 s when not given, 200 ms at least.
        #[serde(default)]
        idle_time_between_reads_in_millis: Option<u64>,
    },
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessorConfig {
    pub call_process_records_even_for_empty_record_list: Option<bool>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CoordinatorConfig {
    pub parent_shard_poll_interval_millis: Option<u64>,
    pub skip_shard_sync_at_worker_initialization_if_leases_exist: Option<bool>,
    pub shard_prioritization: Option<ShardPrioritization>,
    pub client_version_config: Option<ClientVersionConfig>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum ShardPrioritization {
    NoOpShardPrioritization,
    ParentsFirstShardPrioritization { max_depth: u32 },
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum ClientVersionConfig {
    #[serde(rename = "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X")]
    CompatibleWith2,
    #[serde(rename = "CLIENT_VERSION_CONFIG_3X")]
    Version3,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleConfig {
    pub task_backoff_time_millis: Option<u64>,
    pub log_warning_for_task_after_millis: Option<u64>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrievalConfig {
    pub list_shards_backoff_time_in_millis: Option<u64>,
    pub max_list_shards_retry_attempts: Option<u32>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricsConfig {
    pub metrics_buffer_time_millis: Option<u64>,
    pub metrics_max_queue_size: Option<u32>,
    pub metrics_level: Option<MetricsLevel>,
    pub metrics_enabled_dimensions: Option<BTreeSet<MetricsDimension>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetricsLevel {
    None,
    Summary,
    Detailed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetricsDimension {
    OperationDimensionName,
    ShardIdDimensionName,
    StreamIdentifier,
    WorkerIdentifier,
}
