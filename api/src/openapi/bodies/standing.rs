//! Standing queries: what is asked, and how they and their outputs are.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::{Assembled, Instant, OUTPUTS, Span};
use super::ingest::Rates;

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

/// Rows that are not in the answer, because something of them has no value or is too much to work out.
#[derive(JsonSchema)]
pub struct LeftOut {
    /// How often a row was left out, since the query runs here: each time it is looked at.
    pub rows: u64,
    /// One of the last, and why: in brackets the ids of its nodes and the values that were looked at, or the values of a row of a
    /// stage.
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
    /// `Running`: nothing is known to be wrong, and most servers are asked with the first result; `Retrying`: what failed is
    /// tried again; `Failed`: it has ended by itself; `Parked`: it could not be opened, or too much has come since it ended. In
    /// v2 in capitals.
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
    /// How each of its outputs is, by name; the destinations of a workflow of v2 but the first as `name#2` and so on. There where
    /// it has any.
    pub outputs: Option<BTreeMap<String, OutputState>>,
    /// How long results took, by stage: `commit`, `durable`, `dataflow`, `delivered`, and `whole` from the record to the output.
    /// Those that have been measured.
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
