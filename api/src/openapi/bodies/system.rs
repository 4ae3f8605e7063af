//! The service: what runs, its configuration, figures and pressure, and what is done to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::Instant;

/// What runs here. Clients of the reference service require the fields about Java.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    pub version: String,
    pub git_commit: Option<String>,
    pub java_version: String,
    pub java_runtime_version: Option<String>,
    pub java_available_processors: Option<u32>,
    pub java_max_memory: Option<u64>,
    /// The version of the format of the store.
    pub persistence_write_version: String,
    pub quine_type: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Persistor {
    pub persistor_type: String,
    pub is_local: bool,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSummary {
    pub address: String,
    pub port: u16,
    pub enabled: bool,
    pub use_tls: bool,
}

/// The configuration in force, without secrets, below the roots clients look for; and its summary.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    #[serde(rename = "quine")]
    pub of_original: BTreeMap<String, Json>,
    pub service: BTreeMap<String, Json>,
    pub persistor: Persistor,
    pub webserver: ServerSummary,
    pub shard_count: Option<i64>,
    pub in_memory_soft_node_limit: Option<i64>,
    pub in_memory_hard_node_limit: Option<i64>,
    pub metrics_reporter_types: Vec<String>,
    pub default_api_version: String,
}

/// How large a graph is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphSizes {
    pub namespace: String,
    pub nodes: u64,
    /// A node with several labels counts for each.
    pub nodes_by_label: BTreeMap<String, u64>,
    pub edges: u64,
    pub edges_by_type: BTreeMap<String, u64>,
    /// What the graph's pages take in the store, with its past; what is still in the log comes on top.
    pub page_bytes: u64,
    pub store: StoreSizes,
}

/// What all namespaces take, about: on disk, or in memory where that is where the store is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreSizes {
    pub log_bytes: u64,
    pub page_bytes: u64,
    pub other_bytes: u64,
}

/// A number that equal graphs share.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphHash {
    /// A signed number of 64 bits.
    pub value: String,
    /// Milliseconds, or an instant in v2 as of today.
    pub at_time: Json,
}

#[derive(JsonSchema)]
pub struct Counter {
    pub name: String,
    pub count: u64,
}

#[derive(JsonSchema)]
pub struct Gauge {
    pub name: String,
    pub value: f64,
}

/// Milliseconds.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timer {
    pub name: String,
    pub min: f64,
    pub max: f64,
    pub median: f64,
    pub mean: f64,
    pub q1: f64,
    pub q3: f64,
    /// Events a second.
    pub one_minute_rate: f64,
    #[serde(rename = "10")]
    pub p10: f64,
    #[serde(rename = "20")]
    pub p20: f64,
    #[serde(rename = "80")]
    pub p80: f64,
    #[serde(rename = "90")]
    pub p90: f64,
    #[serde(rename = "99")]
    pub p99: f64,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub at_time: Instant,
    pub counters: Vec<Counter>,
    pub timers: Vec<Timer>,
    pub gauges: Vec<Gauge>,
}

#[derive(JsonSchema)]
pub struct Member {
    pub address: String,
    pub port: u16,
    pub uid: u64,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    pub cluster_members: BTreeMap<String, Member>,
    pub hot_spares: Vec<Member>,
    pub target_size: u32,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// It is ready.
    pub fully_up: bool,
    pub cluster: Cluster,
    /// Why it is not, if so.
    pub not_ready: Option<String>,
    /// Namespaces that cannot be read, with what is wrong with each, if there are any.
    pub damaged_namespaces: Option<BTreeMap<String, String>>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamUsage {
    pub name: String,
    pub ingested_count: u64,
    pub ingested_bytes: u64,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    pub namespace: String,
    pub ingests: Vec<StreamUsage>,
    /// How many there are.
    pub standing_queries: u64,
}

/// What each namespace has taken in.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub at_time: Instant,
    pub namespaces: Vec<NamespaceUsage>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"softLimit": 10000, "hardLimit": 75000}]))]
pub struct ShardLimit {
    pub soft_limit: i32,
    pub hard_limit: i32,
}

#[derive(JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Flow {
    Flowing,
    Constrained,
    Backpressured,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PressureHost {
    pub version: String,
    pub address: String,
    pub port: u16,
    pub pid: u64,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Valve {
    pub is_open: bool,
    pub closed_count: u64,
    /// Always 0: closures are not counted.
    pub one_minute_closures: f64,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStages {
    pub source: Flow,
    pub pre_graph_write: Flow,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamPressure {
    pub name: String,
    pub namespace: String,
    pub source_type: String,
    pub status: String,
    pub rate: f64,
    /// Records a second, at most. There where that is bounded.
    pub rate_limit: Option<u64>,
    pub total_count: u64,
    pub stages: StreamStages,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultQueue {
    pub buffer_count: u64,
    pub backpressure_threshold: u64,
    pub max_size: u64,
    pub threshold_ratio: f64,
    pub capacity_ratio: f64,
    pub total_produced: u64,
    pub total_cancellations: u64,
    /// Left out by destinations, because they came too fast.
    pub total_dropped: u64,
    pub total_consumed: u64,
    /// Results found a second, of the last minute.
    pub production_rate: f64,
    /// Results that the slowest output is through with a second.
    pub consumption_rate: f64,
}

#[derive(JsonSchema)]
pub struct DestinationPressure {
    pub index: u32,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: Flow,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputPressure {
    pub name: String,
    /// Results that it is through with a second: delivered, or given up. Of several destinations the slowest counts.
    pub rate: f64,
    /// How many these are since weir started.
    pub total_count: u64,
    pub has_enrichment: bool,
    pub destinations: Vec<DestinationPressure>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingPressure {
    pub name: String,
    pub namespace: String,
    pub queue: ResultQueue,
    pub outputs: Vec<OutputPressure>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorePressure {
    #[serde(rename = "type")]
    pub kind: String,
    pub write_latency_ms: f64,
    pub read_latency_ms: f64,
}

/// Where records, results and writes stand still.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    pub timestamp: Instant,
    pub host: PressureHost,
    pub namespaces: Vec<String>,
    pub global_valve: Valve,
    pub ingests: Vec<StreamPressure>,
    pub standing_queries: Vec<StandingPressure>,
    pub persistor: StorePressure,
}

/// What is logged.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"level": "info,weir_engine=debug"}]))]
pub struct Logging {
    /// A level (off, error, warn, info, debug, trace), and pairs of a module and a level, with commas between.
    #[schemars(regex(pattern = r"^[A-Za-z_:=, ]{1,200}$"))]
    pub level: String,
}

#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"name": "tests"}]))]
pub struct NewNamespace {
    /// A letter, then letters and digits, 16 in all at most.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9]{0,15}$"))]
    pub name: String,
}

#[derive(JsonSchema)]
pub struct LiveState {
    pub version: String,
    pub store: String,
    /// The last results.
    pub recent: Vec<Json>,
    /// Rates, one a tick.
    pub history: Vec<Json>,
    pub graphs: Vec<Json>,
}

/// It has begun.
#[derive(JsonSchema)]
pub struct Accepted {
    pub message: String,
}
