//! Why a standing query has a result or has none, as types (see `bodies`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::schemas::Instant;

/// Which results of a standing query are asked about. Give at least one of the fields; what is given has to hold together.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"nodes": {"u": "5", "d": "7"}}]))]
pub struct WhyQuestion {
    /// Asks about results that have these values in these columns.
    pub data: Option<BTreeMap<String, Json>>,
    /// Asks about the result with this `resultId`, a UUID.
    pub result_id: Option<String>,
    /// Asks about results in which variables of the pattern stand for these nodes: from the name of a variable to the id of a
    /// node.
    pub nodes: Option<BTreeMap<String, String>>,
}

/// A moment at which something was committed.
#[derive(JsonSchema)]
pub struct When {
    /// The tick, as the decimal digits of an integer of 64 bits. Its milliseconds since 1970 are `tick >> 20`.
    pub tick: String,
    /// The same moment as a time in UTC.
    pub time: Instant,
}

/// The record of an ingest stream that brought a fact.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyRecord {
    /// The name of the ingest stream.
    pub ingest: String,
    /// The place of the record in its batch, counted from 0 among the records that could be decoded. A very large batch may take
    /// effect in parts; each part then counts from 0.
    pub place_in_batch: u64,
    /// Where the source stood after the batch. `records` is how many records the stream had given by then; `at` is where the
    /// source goes on, in its own terms, such as a file and byte, or offsets by topic and partition. Of a stream that has been
    /// deleted it may be hexadecimal digits. For a part of a large batch that was not the last, it is where the source stood
    /// before the batch. Null if nothing can be read again.
    pub position_after_batch: Json,
}

/// A fact that a match rests on: a label or a property of a node, an edge, or a property of an edge.
#[derive(JsonSchema)]
pub struct WhyFact {
    /// The variable of the node. Only of facts about nodes.
    pub node: Option<String>,
    /// The id of the node. Only of facts about nodes.
    pub id: Option<String>,
    /// The label that the node has. Only of a label.
    pub label: Option<String>,
    /// The name of the property. Only of a property.
    pub property: Option<String>,
    /// The value of the property. Only of a property.
    pub value: Option<Json>,
    /// The edge, as the pattern has it. Only of facts about edges.
    pub edge: Option<String>,
    /// The id of the node that the edge begins at. Only of facts about edges.
    pub from: Option<String>,
    /// The type of the edge. Only of facts about edges.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The id of the node that the edge leads to. Only of facts about edges.
    pub to: Option<String>,
    /// When the fact came to be. Null if that is longer ago than history is kept.
    pub since: Option<When>,
    /// The record that brought the fact. Null if no ingest stream brought it, or history does not reach back to it.
    pub record: Option<WhyRecord>,
}

/// A result, or one way in which a pattern of the query matches.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyMatch {
    /// The values of the columns, as far as they are known from this match.
    pub data: BTreeMap<String, Json>,
    /// The `resultId` of the result. Null if the match alone does not make a result.
    pub result_id: Option<String>,
    /// From when on the result has been in the answer without a break. Null if that is not known, or longer ago than history is
    /// kept.
    pub since: Option<When>,
    /// The number of the pattern that matches, counted from 0. Only for queries without stages.
    pub pattern: Option<u64>,
    /// The ids of the nodes that were found, by the names of variables. Only for queries without stages.
    pub nodes: Option<BTreeMap<String, String>>,
    /// The facts that the match rests on. Only for queries without stages.
    pub facts: Option<Vec<WhyFact>>,
    /// How many times the row is in the answer. Only for queries with stages.
    pub times: Option<u64>,
    /// A moment since when the result has been in the answer at least, if finding the exact one would take too long. Null
    /// otherwise.
    pub since_at_least: Option<When>,
    /// How the result was made: the last stage of it, for each of up to five equal rows. Only for queries with stages.
    pub made: Option<Vec<WhyStage>>,
}

/// A row in a stage of a query, and the rows that it was made of.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyStage {
    /// The kind of stage: `Pattern`, `Filter`, `Project`, `Unwind`, `Distinct`, `Union`, `Asked` (what is looked up in the graph
    /// for each row, such as EXISTS), `Group`, `Window` (ORDER BY, SKIP, LIMIT), `Join`, `Optional` (OPTIONAL MATCH that is
    /// joined) or `Start`.
    pub stage: String,
    /// What the stage does, in the words of the query.
    pub says: String,
    /// The values of the row, by the names of variables.
    pub values: BTreeMap<String, Json>,
    /// The rows of the stages below that this row was made of; of many only the first five.
    pub of: Option<Vec<WhyStage>>,
    /// How many rows went into this one. Only of `Group` and `Distinct`.
    pub rows: Option<u64>,
    /// Which part of the UNION the row comes from, counted from 1. Only of `Union`.
    pub part: Option<u64>,
    /// The place of the row in the order, counted from 1. Only of `Window`.
    pub place: Option<u64>,
    /// How many rows were ordered. Only of `Window`.
    pub among: Option<u64>,
    /// The number of the pattern, counted from 0. Only of `Pattern`.
    pub pattern: Option<u64>,
    /// The ids of the nodes that were found, by the names of variables. Only of `Pattern`.
    pub nodes: Option<BTreeMap<String, String>>,
    /// From when on all facts of the match are there. Only of `Pattern`.
    pub since: Option<When>,
    /// The facts that the row rests on. Of `Pattern` all of them, of `Asked` the first 20 that were read.
    pub facts: Option<Vec<WhyFact>>,
    /// How many facts were read beyond those that are listed. Only of `Asked`.
    pub more_facts: Option<u64>,
    /// What was looked up in the graph for the row, and what was found. Only of `Asked`.
    pub asked: Option<Vec<WhyAsked>>,
    /// Only of `Optional`, if nothing was matched: how far each part of the pattern gets, or why none of what was found goes with
    /// the row.
    pub why_not: Option<Vec<WhyNot>>,
}

/// A pattern or a condition that was looked up in the graph for a row.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyAsked {
    /// The pattern that was looked for.
    pub looks_for: Option<String>,
    /// Whether the pattern was found.
    pub found: Option<bool>,
    /// Whether the row stays when nothing is found, as with OPTIONAL MATCH and EXISTS.
    pub may_be_none: Option<bool>,
    /// Some of the matches: for each of them the ids of nodes by the names of variables.
    pub nodes: Option<Vec<BTreeMap<String, String>>>,
    /// The edges of these matches, in the same order.
    pub edges: Option<Vec<Vec<Json>>>,
    /// Those of the nodes in the question that the pattern was looked for with, by the names of variables.
    pub with: Option<BTreeMap<String, String>>,
    /// If nothing was found: how far the pattern gets.
    pub why_not: Option<Vec<WhyNot>>,
    /// The condition that was evaluated.
    #[serde(rename = "where")]
    pub condition: Option<String>,
    /// Whether the condition holds.
    pub holds: Option<bool>,
    /// The values that the condition looked at.
    pub values: Option<BTreeMap<String, Json>>,
}

/// How far a pattern, or a row of a query with stages, gets, and what it fails at.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// The number of the pattern that does not match, counted from 0.
    pub pattern: Option<u64>,
    /// The ids of the nodes that were found, by the names of variables.
    pub nodes: Option<BTreeMap<String, String>>,
    /// The edges that were found, as the pattern has them.
    pub edges: Option<Vec<String>>,
    /// The kind of stage at which the row ends, as in `WhyStage`.
    pub stage: Option<String>,
    /// What that stage does, in the words of the query.
    pub says: Option<String>,
    /// The row, and the rows that it was made of.
    pub of: Option<Vec<WhyStage>>,
    /// The facts that were read for the row.
    pub facts: Option<Vec<WhyFact>>,
    /// How many facts were read beyond those that are listed.
    pub more_facts: Option<u64>,
    /// What was looked up in the graph for the row.
    pub asked: Option<Vec<WhyAsked>>,
    /// The place of the row in the order, counted from 1. Only where ORDER BY, SKIP and LIMIT leave it out.
    pub place: Option<u64>,
    /// How many rows were ordered. Only where ORDER BY, SKIP and LIMIT leave the row out.
    pub among: Option<u64>,
    /// If no row has all values of the question and this one has most of them: the values that it does not have.
    pub lacks: Option<BTreeMap<String, Json>>,
    /// What the pattern or row fails at, in words.
    pub fails: String,
    /// The values that the failing condition looked at. Empty if it is no condition.
    pub values: BTreeMap<String, Json>,
}

/// Why a standing query has a result, or has none.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    /// The moment as of which the graph was examined.
    pub moment: When,
    /// The results that the question asks about, or matches of the patterns; at most ten.
    pub matches: Vec<WhyMatch>,
    /// Whether the query has stages above its patterns, such as aggregates, joins and EXISTS. Its results are then explained
    /// stage by stage.
    pub staged: bool,
    /// Whether there are more matches than the ten that are listed.
    pub more: bool,
    /// Whether the search was ended because it took too long. The answer may then lack matches or facts.
    pub gave_up: bool,
    /// If nothing matches: the attempts that get farthest.
    pub why_not: Option<Vec<WhyNot>>,
    /// If nothing matches: results with the given nodes but with other values; at most ten.
    pub other_results: Option<Vec<Json>>,
}
