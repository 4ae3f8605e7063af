//! What crosses the wire, as types, where the code that reads or writes it goes field by field: the readers for the sake of
//! error texts that clients know, the writers because families differ. The tests hold every answer they get to these.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::schemas::{Assembled, INGEST_SETTINGS, Instant, OUTPUTS, Span};

/// A query, and the values of its parameters.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"text": "MATCH (n) WHERE id(n) = idFrom($k) RETURN n.name AS name", "parameters": {"k": 7}}]))]
pub struct CypherQuestion {
    /// Cypher.
    pub text: String,
    /// By name, without `$`.
    #[serde(default)]
    pub parameters: BTreeMap<String, Json>,
}

/// A traversal, and the values of what it names.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"text": "g.V().has(key, value)", "parameters": {"key": "name", "value": "Ann"}}]))]
pub struct GremlinQuestion {
    /// Gremlin.
    pub text: String,
    /// By name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Json>,
}

/// Rows, each with as many cells as there are columns.
#[derive(JsonSchema)]
pub struct Table {
    pub columns: Vec<String>,
    pub results: Vec<Vec<Json>>,
}

/// A node as the graph view draws it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiNode {
    pub id: String,
    /// 0: there is one host.
    pub host_index: i32,
    /// The labels, with `:` between.
    pub label: String,
    pub properties: BTreeMap<String, Json>,
}

/// An edge as the graph view draws it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiEdge {
    pub from: String,
    pub edge_type: String,
    pub to: String,
    pub is_directed: bool,
}

/// A query that runs.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningQuery {
    pub id: String,
    /// The beginning of its text.
    pub query: String,
    pub namespace: String,
    pub start_time: Instant,
    pub running_millis: u64,
    /// Given out so far.
    pub rows: u64,
    /// It was told to end.
    pub cancelled: bool,
    pub user_agent: Option<String>,
    pub remote_address: Option<String>,
}

/// How many, and how many a second.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    pub count: u64,
    pub one_minute: f64,
    pub five_minute: f64,
    pub fifteen_minute: f64,
    /// Since the start.
    pub overall: f64,
}

#[derive(JsonSchema)]
#[schemars(extend("x-words" = true))]
pub enum StreamStatus {
    Running,
    /// Stopped by a user; it keeps its position.
    Paused,
    /// There again after a restart, and not started.
    Restored,
    /// At the end of its source.
    Completed,
    /// Stopped by a user, for good.
    Terminated,
    /// Stopped by an error, which `message` has.
    Failed,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStats {
    pub ingested_count: u64,
    pub rates: Rates,
    pub byte_rates: Rates,
    pub start_time: Instant,
    pub total_runtime: Span,
}

/// A record that could not be taken in.
#[derive(JsonSchema)]
pub struct FailedRecord {
    /// Its place in the stream.
    pub number: u64,
    pub reason: String,
    /// Its beginning.
    pub sample: String,
}

#[derive(JsonSchema)]
pub struct FailedRecords {
    pub count: u64,
    /// Some of the first.
    pub first: Vec<FailedRecord>,
}

/// What became of records that were handed in.
#[derive(JsonSchema)]
pub struct PushedRecords {
    /// So many were in the request.
    pub records: u64,
    /// They have had their effect before, by a request with the same key.
    pub repeated: bool,
}

/// An ingest stream, without its name.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamState {
    pub status: StreamStatus,
    pub message: Option<String>,
    pub settings: Assembled<INGEST_SETTINGS>,
    pub stats: StreamStats,
    pub failed_records: Option<FailedRecords>,
}

/// An ingest stream.
#[derive(JsonSchema)]
pub struct Stream {
    pub name: String,
    #[serde(flatten)]
    pub state: StreamState,
}

#[derive(JsonSchema)]
pub enum PatternLanguage {
    Cypher,
}

/// How a standing query counts its results.
#[derive(JsonSchema, serde::Serialize)]
#[schemars(extend("x-words" = true))]
pub enum StandingMode {
    /// The first and the last match of a node.
    DistinctId,
    /// Every row that appears or disappears.
    MultipleValues,
    /// As `MultipleValues`, for any query that reads.
    AnyQuery,
}

fn distinct_id() -> StandingMode {
    StandingMode::DistinctId
}

#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}]))]
pub struct Pattern {
    #[serde(rename = "type")]
    pub language: PatternLanguage,
    /// Cypher that only reads.
    pub query: String,
    #[serde(default = "distinct_id")]
    #[schemars(extend("x-default-word" = true))]
    pub mode: StandingMode,
}

fn buffer() -> i32 {
    32
}

/// Which of the matches that are there already are results.
#[derive(JsonSchema, serde::Serialize)]
#[schemars(extend("x-words" = true))]
pub enum StartWord {
    /// None, until someone asks for them with `propagate`.
    Now,
    /// All of them.
    WholeGraph,
}

/// Where results begin.
#[derive(JsonSchema, serde::Serialize)]
#[serde(untagged)]
pub enum StartFrom {
    Word(StartWord),
    /// With what has come and gone since a moment.
    Moment(Instant),
    /// The same, in milliseconds since 1970.
    Millis(u64),
}

fn now() -> StartFrom {
    StartFrom::Word(StartWord::Now)
}

/// A standing query of v1; its name stands in the path.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}, "outputs": {"log": {"type": "PrintToStandardOut"}}}]))]
pub struct StandingBody {
    pub pattern: Pattern,
    pub outputs: Assembled<OUTPUTS>,
    /// Whether matches that are no more are told.
    #[serde(default)]
    pub include_cancellations: bool,
    /// Results that may wait before ingest is slowed down.
    #[serde(default = "buffer")]
    pub input_buffer_size: i32,
    /// Whether the results are summed up to a number.
    #[serde(default)]
    pub should_calculate_result_hash_code: bool,
    #[serde(default = "now")]
    #[schemars(extend("x-default-word" = true))]
    pub start_from: StartFrom,
}

/// What a standing query is replaced by. Its outputs stay.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 20 RETURN DISTINCT id(n) AS id"}}]))]
pub struct StandingReplacement {
    pub pattern: Pattern,
    /// Whether matches that are no more are told; without it, as it was.
    pub include_cancellations: Option<bool>,
}

/// A standing query.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"name": "adults", "pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}, "outputs": [{"name": "log", "destinations": [{"type": "StandardOut"}]}]}]))]
pub struct NamedStandingBody {
    #[schemars(length(min = 1))]
    pub name: String,
    pub pattern: Pattern,
    #[serde(default)]
    pub outputs: Option<Assembled<OUTPUTS>>,
    /// Whether matches that are no more are told.
    #[serde(default)]
    pub include_cancellations: bool,
    /// Results that may wait before ingest is slowed down.
    #[serde(default = "buffer")]
    pub input_buffer_size: i32,
    #[serde(default = "now")]
    #[schemars(extend("x-default-word" = true))]
    pub start_from: StartFrom,
}

/// How far the graph at rest has been looked through.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    pub nodes_looked_at: u64,
    pub nodes: u64,
}

/// A pause, while it lasts.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingPause {
    pub since: Instant,
    /// How many results the end of the pause would bring now.
    pub held_back: u64,
}

/// Rows that are not in the answer, because too much would have to be looked at for them.
#[derive(JsonSchema)]
pub struct LeftOut {
    pub rows: u64,
    /// The values of the last one, and what was too much.
    pub last: String,
}

/// How far a query is that takes longer than changes come.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Results of what was committed before are there.
    pub answered_up_to: Instant,
    /// How long ago that was, at least a second.
    pub by: Span,
    pub changes_waiting: u64,
}

/// What went wrong last, also when it passed.
#[derive(JsonSchema)]
pub struct LastError {
    pub message: String,
    pub at: Instant,
}

/// How failures that may pass are met.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRetries {
    /// Not there where it is tried until it works.
    pub max_tries: Option<u32>,
    pub min_backoff: Span,
    pub max_backoff: Span,
}

/// How an output is.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputState {
    /// `Running`; `Retrying`: what failed is tried again; `Failed`: it has ended by itself; `Parked`: it could not be opened, or too much has come since it
    /// ended. In v2 in capitals.
    pub state: String,
    /// Why it is parked or has failed.
    pub reason: Option<String>,
    /// Results since weir started or the output was changed, as are the counts below.
    pub delivered: u64,
    /// Results that are not delivered yet.
    pub waiting: u64,
    /// How long ago the oldest of these was found.
    pub lag: Span,
    /// Given up.
    pub failed: u64,
    /// Refused, and taken by the destinations of dead letters.
    pub dead_letters: u64,
    /// Left out because they came too fast.
    pub dropped: u64,
    /// Tries beyond the first.
    pub retries: u64,
    /// Whether ingest waits for this output.
    pub holds_ingest: bool,
    pub retry_policy: Option<OutputRetries>,
    /// Tries so far of what is tried again; there only while something is.
    pub tries: Option<u32>,
    /// When the next try is; there only while it is waited for.
    pub next_try: Option<Instant>,
    /// How long the destination has not answered; there only while it is asked.
    pub unanswered_for: Option<Span>,
    pub last_error: Option<LastError>,
    /// There only where a loop through the graph was found: results that it did not write for.
    pub loops: Option<u64>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingCounts {
    pub rates: Rates,
    pub start_time: Instant,
    pub total_runtime: Span,
    /// Results that wait.
    pub buffer_size: u64,
    /// A number in v2, in v1 a text.
    pub output_hash_code: Json,
    pub backfill: Option<Backfill>,
    /// How far the graph has been looked through for the query that shall take the place of this one; there only until it has.
    pub replacement: Option<Backfill>,
    /// There only while the query is paused.
    pub paused: Option<StandingPause>,
    /// There only while changes of the graph wait for the query: it takes longer than they come.
    pub behind: Option<Behind>,
    /// There only where rows were left out.
    pub left_out: Option<LeftOut>,
    /// There only when the query has ended by itself, because it cost too much: why, and what to do.
    pub failed: Option<String>,
    /// How each of its outputs is, by name; the destinations of a workflow of v2 but the first as `name#2` and so on. There where it has any.
    pub outputs: Option<BTreeMap<String, OutputState>>,
    /// How long results took, by stage: `commit`, `durable`, `dataflow`, `delivered`, and `whole` from the record to the output. Those
    /// that have been measured.
    pub latency: Option<BTreeMap<String, Latency>>,
}

/// A part of the dataflow of a standing query, and what it stands on.
#[derive(JsonSchema)]
pub struct DataflowPart {
    pub title: String,
    pub details: Vec<String>,
    pub inputs: Vec<DataflowPart>,
}

/// How long a stage took. Percentiles are no less than the truth, and up to a third more.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub count: u64,
    pub mean_millis: f64,
    pub p50_millis: f64,
    pub p90_millis: f64,
    pub p99_millis: f64,
    pub p999_millis: f64,
    pub max_millis: f64,
}

/// A standing query, with what it has found.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    pub name: String,
    pub internal_id: String,
    pub pattern: Pattern,
    pub outputs: Assembled<OUTPUTS>,
    pub include_cancellations: bool,
    pub input_buffer_size: i32,
    /// Where results began, unless with what came from then on.
    pub start_from: Option<StartFrom>,
    /// By member of the cluster; there is one, `local`.
    pub stats: BTreeMap<String, StandingCounts>,
}

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
    pub total_dropped: u64,
    pub total_consumed: u64,
    pub production_rate: f64,
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
    pub rate: f64,
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

/// Where walks are saved.
#[derive(JsonSchema)]
#[serde(tag = "type")]
#[schemars(extend("examples" = [{"type": "LocalFile", "fileName": "walks.csv"}]))]
pub enum WalkFile {
    /// A new file in an allowed directory.
    LocalFile {
        /// A plain name; made up when not given.
        #[serde(rename = "fileName")]
        file_name: Option<String>,
    },
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

/// What is known of a node.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"properties": {"name": "Ann"}, "edges": []}]))]
pub struct DebugNode {
    pub properties: BTreeMap<String, Json>,
    pub edges: Vec<crate::wire::half_edge::HalfEdge>,
}

/// The same with the kinds of its values.
#[derive(JsonSchema)]
pub struct DebugState {
    pub properties: BTreeMap<String, String>,
    pub labels: Vec<String>,
    pub edges: Vec<crate::wire::half_edge::HalfEdge>,
    pub subscribers: Vec<Json>,
    pub subscriptions: Vec<Json>,
    /// What happened to the node, as the procedure `debug.node` shows it; nothing where no history is kept.
    pub journal: Vec<Json>,
    /// Of what the node is, so that equal nodes have equal ones.
    #[serde(rename = "graphNodeHashCode")]
    pub graph_node_hash_code: i64,
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

/// What is wrong, as the preview tells it.
#[derive(JsonSchema)]
pub struct PreviewError {
    #[serde(rename = "type")]
    pub kind: PreviewErrorKind,
    pub message: String,
}

#[derive(JsonSchema)]
pub enum PreviewErrorKind {
    ApiError,
    DecodeError,
    CypherError,
}

/// More about an error: further messages, the kind of a failed query, the number of the request in the log.
#[derive(JsonSchema)]
#[serde(tag = "type")]
pub enum ErrorDetail {
    RequestInfo {
        #[serde(rename = "requestId")]
        request_id: String,
    },
    Help {
        message: String,
    },
    ErrorInfo {
        reason: String,
        domain: String,
        metadata: ErrorMetadata,
    },
}

/// Empty so far.
#[derive(JsonSchema)]
pub struct ErrorMetadata(pub BTreeMap<String, String>);

#[derive(JsonSchema)]
pub struct CurrentError {
    /// The status of the answer.
    pub code: u16,
    pub status: String,
    pub message: String,
    pub details: Vec<ErrorDetail>,
}

/// What is wrong: each generation of v2 finds its own key.
#[derive(JsonSchema)]
pub struct Failure {
    pub errors: Vec<PreviewError>,
    pub error: CurrentError,
}

/// It has begun.
#[derive(JsonSchema)]
pub struct Accepted {
    pub message: String,
}
