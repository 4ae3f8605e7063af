//! Standing queries: what is asked, and how they and their outputs are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::{Assembled, Instant, OUTPUTS, Span};
use super::ingest::Rates;

/// The language of a pattern.
#[derive(JsonSchema)]
pub enum PatternLanguage {
    /// Cypher.
    Cypher,
}

/// What queries are accepted, and what counts as a result.
#[derive(JsonSchema, serde::Serialize)]
#[schemars(extend("x-words" = true))]
pub enum StandingMode {
    /// One MATCH that returns `DISTINCT id(n)`. A result is a node that begins to match or stops matching.
    DistinctId,
    /// One MATCH that returns a list of expressions. A result is one way of matching.
    MultipleValues,
    /// Any query that only reads. A result is one row of its answer.
    AnyQuery,
}

fn distinct_id() -> StandingMode {
    StandingMode::DistinctId
}

/// The query that is kept up to date.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}]))]
pub struct Pattern {
    /// The language of the query.
    #[serde(rename = "type")]
    pub language: PatternLanguage,
    /// A Cypher query that only reads, without parameters.
    pub query: String,
    /// What queries are accepted, and what counts as a result. When not given, a query that `DistinctId` accepts has that mode,
    /// and any other has `AnyQuery`.
    #[serde(default = "distinct_id")]
    #[schemars(extend("x-default-word" = true))]
    pub mode: StandingMode,
}

fn buffer() -> i32 {
    32
}

/// What becomes of matches that are in the graph before the standing query is created.
#[derive(JsonSchema, serde::Serialize)]
#[schemars(extend("x-words" = true))]
pub enum StartWord {
    /// They are held back until they are asked for with `propagate`. Current v2 asks for them at once, unless `propagateTo` is
    /// `NONE`.
    Now,
    /// They are results, before all others.
    WholeGraph,
}

/// What becomes of matches that are in the graph before the standing query is created.
#[derive(JsonSchema, serde::Serialize)]
#[serde(untagged)]
pub enum StartFrom {
    Word(StartWord),
    /// What has changed since this moment of the past becomes results: matches that are new and, with `includeCancellations`,
    /// cancellations of those that are gone.
    Moment(Instant),
    /// A moment of the past, in milliseconds since 1970. What has changed since then becomes results.
    Millis(u64),
}

fn now() -> StartFrom {
    StartFrom::Word(StartWord::Now)
}

/// A standing query in v1. Its name stands in the path.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}, "outputs": {"log": {"type": "PrintToStandardOut"}}}]))]
pub struct StandingBody {
    /// The query that is kept up to date.
    pub pattern: Pattern,
    /// Where results go, by the names of outputs.
    pub outputs: Assembled<OUTPUTS>,
    /// Whether a cancellation is sent when a match no longer holds. False when not given.
    #[serde(default)]
    pub include_cancellations: bool,
    /// Accepted and shown, without effect: up to 100,000 results may wait for the slowest output before ingest has to wait. 32
    /// when not given.
    #[serde(default = "buffer")]
    pub input_buffer_size: i32,
    /// Whether `outputHashCode` in the status sums up the results, so that two runs can be compared. False when not given.
    #[serde(default)]
    pub should_calculate_result_hash_code: bool,
    /// What becomes of matches that are already in the graph. `Now` when not given.
    #[serde(default = "now")]
    #[schemars(extend("x-default-word" = true))]
    pub start_from: StartFrom,
}

/// The new pattern of a standing query. Its outputs and its name stay.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 20 RETURN DISTINCT id(n) AS id"}}]))]
pub struct StandingReplacement {
    /// The query that takes the place of the current one.
    pub pattern: Pattern,
    /// Whether a cancellation is sent when a match no longer holds. Stays as it is when not given.
    pub include_cancellations: Option<bool>,
}

/// A standing query in v2.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"name": "adults", "pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n) AS id"}, "outputs": [{"name": "log", "destinations": [{"type": "StandardOut"}]}]}]))]
pub struct NamedStandingBody {
    /// The name of the standing query, unique within its graph.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The query that is kept up to date.
    pub pattern: Pattern,
    /// Where results go. None when not given; outputs can be added later.
    #[serde(default)]
    pub outputs: Option<Assembled<OUTPUTS>>,
    /// Whether a cancellation is sent when a match no longer holds. False when not given.
    #[serde(default)]
    pub include_cancellations: bool,
    /// Accepted and shown, without effect: up to 100,000 results may wait for the slowest output before ingest has to wait. 32
    /// when not given.
    #[serde(default = "buffer")]
    pub input_buffer_size: i32,
    /// What becomes of matches that are already in the graph. `Now` when not given.
    #[serde(default = "now")]
    #[schemars(extend("x-default-word" = true))]
    pub start_from: StartFrom,
}

/// How far a query has looked through what is already in the graph.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    /// How many nodes have been looked at.
    pub nodes_looked_at: u64,
    /// How many nodes there are to be looked at.
    pub nodes: u64,
}

/// The pause of a standing query.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingPause {
    /// When the pause began.
    pub since: Instant,
    /// How many results would be sent if the query were resumed now.
    pub held_back: u64,
}

/// Rows that are missing from the answer, because an expression in them has no value (such as a division by zero) or they are too
/// large to work out.
#[derive(JsonSchema)]
pub struct LeftOut {
    /// How many times a row was left out since weir was started. A row may count more than once, and is not taken off when it
    /// goes.
    pub rows: u64,
    /// One of the last such rows, with the reason. In brackets are the ids and values that were looked at.
    pub last: String,
    /// The expression that had no value for that row. Absent if it is not known.
    pub expression: Option<String>,
}

/// How far the results of a standing query are behind the graph.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Results of everything that was committed up to this time have been found.
    pub answered_up_to: Instant,
    /// How long ago that time is, one second at least.
    pub by: Span,
    /// How many changes of the graph have still to be processed.
    pub changes_waiting: u64,
}

/// The last error of an output, also if it has passed.
#[derive(JsonSchema)]
pub struct LastError {
    /// What went wrong, without secrets.
    pub message: String,
    /// When it happened.
    pub at: Instant,
}

/// How a result that cannot be delivered at the moment is tried again.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputRetries {
    /// How many times a result is tried altogether. Absent if it is tried until it works.
    pub max_tries: Option<u32>,
    /// The pause before the second try.
    pub min_backoff: Span,
    /// The longest pause before a try.
    pub max_backoff: Span,
}

/// The state and figures of an output. Counts begin when weir is started or the output is changed.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputState {
    /// `Running`: no error is known; most servers are contacted with the first result. `Retrying`: a failed delivery is being
    /// tried again. `Failed`: the output has ended by itself. `Parked`: the output could not be opened, or too many results have
    /// come since it ended. In v2 in capitals.
    pub state: String,
    /// Why the output is parked or has failed. Absent otherwise.
    pub reason: Option<String>,
    /// How many results were delivered.
    pub delivered: u64,
    /// How many results have been found and are not delivered yet.
    pub waiting: u64,
    /// How long ago the oldest waiting result was found. Zero if none waits.
    pub lag: Span,
    /// How many results were given up.
    pub failed: u64,
    /// How many results were refused by the destination and sent to dead letter destinations instead.
    pub dead_letters: u64,
    /// How many results were left out because they came faster than the destination takes them.
    pub dropped: u64,
    /// How many further attempts were made after a first one failed.
    pub retries: u64,
    /// Whether ingest waits for this output.
    pub holds_ingest: bool,
    /// How results are tried again. Absent while the output is not open.
    pub retry_policy: Option<OutputRetries>,
    /// How many attempts have failed so far for what is being tried again. Absent otherwise.
    pub tries: Option<u32>,
    /// When the next attempt is made. Absent unless one is waited for.
    pub next_try: Option<Instant>,
    /// How long the destination has not answered the current request. Absent unless a request is open.
    pub unanswered_for: Option<Span>,
    /// The last error, also if it has passed. Absent if there was none.
    pub last_error: Option<LastError>,
    /// How many results were left out because outputs wrote to the graph in a loop. Absent if there was no loop.
    pub loops: Option<u64>,
}

/// Figures of a standing query.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingCounts {
    /// Results, cancellations among them: how many, and how many per second.
    pub rates: Rates,
    /// When the standing query was created, or weir was last started if that is later.
    pub start_time: Instant,
    /// How long ago `startTime` is.
    pub total_runtime: Span,
    /// How many results wait for the slowest output.
    pub buffer_size: u64,
    /// A sum over the `data` of all results since weir was started, by which two runs can be compared; 0 unless
    /// `shouldCalculateResultHashCode` was set. A number in v2, a text in v1.
    pub output_hash_code: Json,
    /// How far the query has looked through what is already in the graph. Absent when it is done.
    pub backfill: Option<Backfill>,
    /// How far the replacement of this query has looked through the graph. Absent unless the query is being replaced.
    pub replacement: Option<Backfill>,
    /// The pause of the query. Absent unless it is paused.
    pub paused: Option<StandingPause>,
    /// How far the query is behind the graph. Absent unless it is behind by a second or more.
    pub behind: Option<Behind>,
    /// Rows that are missing from the answer. Absent if there are none.
    pub left_out: Option<LeftOut>,
    /// Why the query has ended by itself, and what to do. Absent unless it has.
    pub failed: Option<String>,
    /// The state of each output, by name. Further destinations of a workflow have names such as `name#2`. Absent if there are no
    /// outputs.
    pub outputs: Option<BTreeMap<String, OutputState>>,
    /// How long results took, by stage: `commit`, `durable`, `dataflow`, `delivered`, and `whole` from the record to the output.
    /// Absent until a result was measured.
    pub latency: Option<BTreeMap<String, Latency>>,
}

/// A part of the dataflow that keeps a standing query up to date.
#[derive(JsonSchema)]
pub struct DataflowPart {
    /// What the part does.
    pub title: String,
    /// More about it, a line each.
    pub details: Vec<String>,
    /// The parts that this one takes its input from.
    pub inputs: Vec<DataflowPart>,
}

/// How long a stage took. Percentiles are not less than the true value, and at most a third more.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// How many results were measured.
    pub count: u64,
    /// The mean, in milliseconds.
    pub mean_millis: f64,
    /// The median, in milliseconds.
    pub p50_millis: f64,
    /// The 90th percentile, in milliseconds.
    pub p90_millis: f64,
    /// The 99th percentile, in milliseconds.
    pub p99_millis: f64,
    /// The 99.9th percentile, in milliseconds.
    pub p999_millis: f64,
    /// The longest, in milliseconds.
    pub max_millis: f64,
}

/// A standing query and its state.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The name of the standing query.
    pub name: String,
    /// The id that weir has given to the standing query, a UUID.
    pub internal_id: String,
    /// The query that is kept up to date.
    pub pattern: Pattern,
    /// Where results go. Secrets are masked.
    pub outputs: Assembled<OUTPUTS>,
    /// Whether a cancellation is sent when a match no longer holds.
    pub include_cancellations: bool,
    /// The value that the query was created with. It has no effect.
    pub input_buffer_size: i32,
    /// What became of matches that were already in the graph. Absent if that is `Now`.
    pub start_from: Option<StartFrom>,
    /// Figures, by member of the cluster. There is one member, `local`.
    pub stats: BTreeMap<String, StandingCounts>,
}
