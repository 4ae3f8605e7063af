//! The service: what runs, its configuration, figures and pressure, and what is done to it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::Instant;

/// The version of weir. Fields about Java are there for compatibility.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// The version of weir.
    pub version: String,
    /// The commit that weir was built from, if known.
    pub git_commit: Option<String>,
    /// Always `n/a`.
    pub java_version: String,
    /// Always `n/a`.
    pub java_runtime_version: Option<String>,
    /// How many processors weir may use.
    pub java_available_processors: Option<u32>,
    /// The memory that weir may use, in bytes.
    pub java_max_memory: Option<u64>,
    /// The version of the storage format.
    pub persistence_write_version: String,
    /// Always `Oss`.
    pub quine_type: Option<String>,
}

/// Where the graph is stored.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Persistor {
    /// The type of the store, as `store.type` names it.
    pub persistor_type: String,
    /// Always true: the store is part of weir.
    pub is_local: bool,
}

/// How weir is reached.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSummary {
    /// The address that weir listens on.
    pub address: String,
    /// The port that weir listens on.
    pub port: u16,
    /// Whether weir listens at all.
    pub enabled: bool,
    /// Whether connections are encrypted with TLS.
    pub use_tls: bool,
}

/// The configuration in force, with secrets hidden, and a summary of it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// The whole configuration. The same as `service`.
    #[serde(rename = "quine")]
    pub of_original: BTreeMap<String, Json>,
    /// The whole configuration.
    pub service: BTreeMap<String, Json>,
    /// Where the graph is stored.
    pub persistor: Persistor,
    /// How weir is reached.
    pub webserver: ServerSummary,
    /// The setting `shard-count`. It has no effect.
    pub shard_count: Option<i64>,
    /// The setting `in-memory-soft-node-limit`. It has no effect.
    pub in_memory_soft_node_limit: Option<i64>,
    /// The setting `in-memory-hard-node-limit`. It has no effect.
    pub in_memory_hard_node_limit: Option<i64>,
    /// The types of the metrics reporters that are set up.
    pub metrics_reporter_types: Vec<String>,
    /// The setting `default-api-version`.
    pub default_api_version: String,
}

/// How large a graph is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphSizes {
    /// The name of the graph.
    pub namespace: String,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of nodes of each label. A node with several labels counts for each.
    pub nodes_by_label: BTreeMap<String, u64>,
    /// The number of edges.
    pub edges: u64,
    /// The number of edges of each type.
    pub edges_by_type: BTreeMap<String, u64>,
    /// The bytes that the graph and its history take in the store, without the part that is still in the log.
    pub page_bytes: u64,
    /// What all graphs together take.
    pub store: StoreSizes,
}

/// The approximate size of the whole store, with all graphs: on disk, or in memory for a store that is there.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreSizes {
    /// The bytes of the log.
    pub log_bytes: u64,
    /// The bytes of pages, which hold what checkpoints have taken from the log.
    pub page_bytes: u64,
    /// The bytes of everything else, such as definitions.
    pub other_bytes: u64,
}

/// A hash of a graph. Graphs with equal content have equal hashes.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphHash {
    /// The hash: the decimal digits of a signed integer of 64 bits.
    pub value: String,
    /// The moment that the hash is of: in milliseconds since 1970, in current v2 an instant.
    pub at_time: Json,
}

/// A count.
#[derive(JsonSchema)]
pub struct Counter {
    /// The name of the metric.
    pub name: String,
    /// The count.
    pub count: u64,
}

/// A value at this moment.
#[derive(JsonSchema)]
pub struct Gauge {
    /// The name of the metric.
    pub name: String,
    /// The value.
    pub value: f64,
}

/// How long something took. All times are in milliseconds.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timer {
    /// The name of the metric.
    pub name: String,
    /// The shortest time.
    pub min: f64,
    /// The longest time.
    pub max: f64,
    /// The median.
    pub median: f64,
    /// The mean.
    pub mean: f64,
    /// The 25th percentile.
    pub q1: f64,
    /// The 75th percentile.
    pub q3: f64,
    /// How many times per second it happened, averaged over the last minute.
    pub one_minute_rate: f64,
    /// The 10th percentile.
    #[serde(rename = "10")]
    pub p10: f64,
    /// The 20th percentile.
    #[serde(rename = "20")]
    pub p20: f64,
    /// The 80th percentile.
    #[serde(rename = "80")]
    pub p80: f64,
    /// The 90th percentile.
    #[serde(rename = "90")]
    pub p90: f64,
    /// The 99th percentile.
    #[serde(rename = "99")]
    pub p99: f64,
}

/// The metrics of weir.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// When they were read.
    pub at_time: Instant,
    /// Counts.
    pub counters: Vec<Counter>,
    /// Times.
    pub timers: Vec<Timer>,
    /// Values at this moment.
    pub gauges: Vec<Gauge>,
}

/// A member of the cluster.
#[derive(JsonSchema)]
pub struct Member {
    /// The address that it listens on.
    pub address: String,
    /// The port that it listens on.
    pub port: u16,
    /// The id of its process.
    pub uid: u64,
}

/// The cluster, which has one member: this weir.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The members, by index.
    pub cluster_members: BTreeMap<String, Member>,
    /// Always empty.
    pub hot_spares: Vec<Member>,
    /// Always 1.
    pub target_size: u32,
}

/// Whether weir is ready.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Whether weir is ready to take requests.
    pub fully_up: bool,
    /// The cluster, which has one member.
    pub cluster: Cluster,
    /// Why weir is not ready. Absent if it is.
    pub not_ready: Option<String>,
    /// Graphs that cannot be read because their data is damaged, each with what is wrong. Absent if there are none.
    pub damaged_namespaces: Option<BTreeMap<String, String>>,
    /// Graphs for which something fails that weir does for them beside requests, by task, each with the reason. It is tried
    /// again. Tasks are `checkpoints`, `pages`, `delivery`, `clock`, `expiry` and `indexes`. Absent if there are none.
    pub neglected_namespaces: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

/// What an ingest stream has read.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamUsage {
    /// The name of the stream.
    pub name: String,
    /// How many records have been processed.
    pub ingested_count: u64,
    /// How many bytes these had.
    pub ingested_bytes: u64,
}

/// What the ingest streams of a graph have read.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// The name of the graph.
    pub namespace: String,
    /// Its ingest streams.
    pub ingests: Vec<StreamUsage>,
    /// How many standing queries it has.
    pub standing_queries: u64,
}

/// What the ingest streams of each graph have read.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// When the figures were read.
    pub at_time: Instant,
    /// The figures of each graph.
    pub namespaces: Vec<NamespaceUsage>,
}

/// Limits for the nodes in memory of a shard. They are kept and shown, and have no effect.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"softLimit": 10000, "hardLimit": 75000}]))]
pub struct ShardLimit {
    /// The number of nodes above which nodes would be put to sleep. No effect.
    pub soft_limit: i32,
    /// The number of nodes that would not be exceeded. No effect.
    pub hard_limit: i32,
}

/// Whether something flows.
#[derive(JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Flow {
    /// It flows.
    Flowing,
    /// Something waits, and nothing before it is held up.
    Constrained,
    /// It is held up by what comes after it, or holds up what comes before it.
    Backpressured,
}

/// The process that answers.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PressureHost {
    /// The version of weir.
    pub version: String,
    /// The address that it listens on.
    pub address: String,
    /// The port that it listens on.
    pub port: u16,
    /// The id of the process.
    pub pid: u64,
}

/// Whether ingest has to wait, in all graphs.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Valve {
    /// Whether nothing holds ingest up.
    pub is_open: bool,
    /// How many reasons hold ingest up: standing queries with too many undelivered results, and memory that is short.
    pub closed_count: u64,
    /// Always 0; it is there for compatibility.
    pub one_minute_closures: f64,
}

/// Whether an ingest stream is held up, at each of its stages.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStages {
    /// Reading from the source.
    pub source: Flow,
    /// Writing to the graph. The same as `source`.
    pub pre_graph_write: Flow,
}

/// Whether an ingest stream is held up.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamPressure {
    /// The name of the stream.
    pub name: String,
    /// The graph that it writes to.
    pub namespace: String,
    /// The type of its source, in the words of v2.
    pub source_type: String,
    /// The state of the stream, such as `RUNNING`.
    pub status: String,
    /// Records per second, averaged over the last minute.
    pub rate: f64,
    /// The most records per second that the stream may read. Absent if there is no limit.
    pub rate_limit: Option<u64>,
    /// How many records have been processed.
    pub total_count: u64,
    /// Where it is held up.
    pub stages: StreamStages,
}

/// The results of a standing query that wait for its outputs.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultQueue {
    /// How many results wait for the slowest output.
    pub buffer_count: u64,
    /// How many results may wait before ingest has to.
    pub backpressure_threshold: u64,
    /// The same as `backpressureThreshold`.
    pub max_size: u64,
    /// `bufferCount` divided by `backpressureThreshold`. It may exceed 1.
    pub threshold_ratio: f64,
    /// `bufferCount` divided by `maxSize`, at most 1.
    pub capacity_ratio: f64,
    /// How many results were found, cancellations among them.
    pub total_produced: u64,
    /// How many of these were cancellations.
    pub total_cancellations: u64,
    /// How many results were left out by destinations because they came too fast.
    pub total_dropped: u64,
    /// How many results all outputs have taken.
    pub total_consumed: u64,
    /// Results found per second, averaged over the last minute.
    pub production_rate: f64,
    /// Results per second that the slowest output finishes, averaged over the last minute.
    pub consumption_rate: f64,
}

/// Whether a destination keeps up.
#[derive(JsonSchema)]
pub struct DestinationPressure {
    /// The place of the destination in its workflow, counted from 0.
    pub index: u32,
    /// The type of the destination.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether results wait for it, and whether ingest does.
    pub state: Flow,
}

/// Whether an output keeps up.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputPressure {
    /// The name of the output.
    pub name: String,
    /// Results per second that it finishes, delivered or given up, averaged over the last minute. Of several destinations it is
    /// the slowest.
    pub rate: f64,
    /// How many results it has finished since weir was started. Of several destinations it is the slowest.
    pub total_count: u64,
    /// Whether a query runs on each result before it is delivered.
    pub has_enrichment: bool,
    /// Its destinations.
    pub destinations: Vec<DestinationPressure>,
}

/// Whether the outputs of a standing query keep up.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingPressure {
    /// The name of the standing query.
    pub name: String,
    /// Its graph.
    pub namespace: String,
    /// The results that wait for its outputs.
    pub queue: ResultQueue,
    /// Its outputs.
    pub outputs: Vec<OutputPressure>,
}

/// How fast the store is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorePressure {
    /// The type of the store.
    #[serde(rename = "type")]
    pub kind: String,
    /// The median time that a write to the log takes, in milliseconds.
    pub write_latency_ms: f64,
    /// The median time that reading pages takes, in milliseconds.
    pub read_latency_ms: f64,
}

/// Where records, results and writes have to wait.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// When the figures were read.
    pub timestamp: Instant,
    /// The process that answers.
    pub host: PressureHost,
    /// The names of all graphs.
    pub namespaces: Vec<String>,
    /// Whether ingest has to wait, in all graphs.
    pub global_valve: Valve,
    /// The ingest streams of all graphs.
    pub ingests: Vec<StreamPressure>,
    /// The standing queries of all graphs.
    pub standing_queries: Vec<StandingPressure>,
    /// The store.
    pub persistor: StorePressure,
}

/// What is logged.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"level": "info,weir_engine=debug"}]))]
pub struct Logging {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), pairs of a module and a level, or both, separated by commas:
    /// `info,weir_engine=debug`.
    #[schemars(regex(pattern = r"^[A-Za-z_:=, ]{1,200}$"))]
    pub level: String,
}

/// A graph to be created.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"name": "tests"}]))]
pub struct NewNamespace {
    /// The name of the graph: 1 to 16 letters and digits, the first a letter. Upper and lower case are the same.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9]{0,15}$"))]
    pub name: String,
}

/// What the live page shows when it is opened.
#[derive(JsonSchema)]
pub struct LiveState {
    /// The version of weir.
    pub version: String,
    /// The type of the store.
    pub store: String,
    /// The last results, at most 50, the newest first.
    pub recent: Vec<Json>,
    /// The rates of the last minute, two entries per second.
    pub history: Vec<Json>,
    /// The ingest streams and standing queries of each graph.
    pub graphs: Vec<Json>,
}

/// The request was accepted. What it asks for goes on in the background.
#[derive(JsonSchema)]
pub struct Accepted {
    /// A message for people.
    pub message: String,
}
