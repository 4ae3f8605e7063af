//! Why a standing query has a result or has none, as types (see `bodies`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::schemas::Instant;

/// What is asked about: one of these at least.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{"nodes": {"u": "5", "d": "7"}}]))]
pub struct WhyQuestion {
    /// Results with these values in these columns.
    pub data: Option<BTreeMap<String, Json>>,
    /// Results with this id.
    pub result_id: Option<String>,
    /// Results in which variables of the pattern are these nodes.
    pub nodes: Option<BTreeMap<String, String>>,
}

/// When something was committed.
#[derive(JsonSchema)]
pub struct When {
    pub tick: String,
    pub time: Instant,
}

/// The record that brought a fact.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyRecord {
    /// The stream.
    pub ingest: String,
    /// Among those that could be decoded. A batch that is very large when it is undone or transformed takes effect in parts, and
    /// each counts anew.
    pub place_in_batch: u64,
    /// Where the source stood after the batch: `records`, how many the stream had given by then, and `at`, where the source goes
    /// on, in its own words: file and byte, offsets by topic and partition, and so on. Of a stream that is gone it may be
    /// hexadecimal digits. Before the batch, of such a part that was not the last.
    pub position_after_batch: Json,
}

/// A fact that a match rests on: a label or a property of a node, an edge, a property of an edge.
#[derive(JsonSchema)]
pub struct WhyFact {
    pub node: Option<String>,
    pub id: Option<String>,
    pub label: Option<String>,
    pub property: Option<String>,
    /// Of a property.
    pub value: Option<Json>,
    pub edge: Option<String>,
    pub from: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub to: Option<String>,
    /// Null where history does not reach back.
    pub since: Option<When>,
    /// Null where no stream brought it, or not since history begins.
    pub record: Option<WhyRecord>,
}

/// A result, or one way in which a pattern of the query matches.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyMatch {
    /// The columns, as far as they follow from what is told.
    pub data: BTreeMap<String, Json>,
    pub result_id: Option<String>,
    /// Since when the result is in the answer without a break. Null where that is from the beginning, or as far back as history
    /// goes.
    pub since: Option<When>,
    /// Of a query without stages: which of its patterns matches, with which nodes, and the facts.
    pub pattern: Option<u64>,
    pub nodes: Option<BTreeMap<String, String>>,
    pub facts: Option<Vec<WhyFact>>,
    /// Of a query with stages: how often the result is there.
    pub times: Option<u64>,
    /// Where it would take too much to find out since when: it is there at least since then.
    pub since_at_least: Option<When>,
    /// The last stage of each of up to five equal results.
    pub made: Option<Vec<WhyStage>>,
}

/// A row of a stage of a query, and what it was made of.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyStage {
    /// `Pattern`, `Filter`, `Project`, `Unwind`, `Distinct`, `Union`, `Asked` (what is asked of the graph for each row), `Group`,
    /// `Window` (ORDER BY, SKIP, LIMIT), `Join`, `Optional` (OPTIONAL MATCH that is joined) or `Start`.
    pub stage: String,
    /// What it does, in the words of the query.
    pub says: String,
    /// The row, by the names of variables.
    pub values: BTreeMap<String, Json>,
    /// The rows of the stages below that it was made of; of many the first five.
    pub of: Option<Vec<WhyStage>>,
    /// Group, Distinct: how many rows went in.
    pub rows: Option<u64>,
    /// Union: which part it is of, from 1.
    pub part: Option<u64>,
    /// Window: the place of the row in the order, from 1, and how many rows there are.
    pub place: Option<u64>,
    pub among: Option<u64>,
    /// Pattern: its number, its nodes, and since when all of it is there.
    pub pattern: Option<u64>,
    pub nodes: Option<BTreeMap<String, String>>,
    pub since: Option<When>,
    /// Pattern: what it rests on. Asked: the first 20 facts that were read for the row.
    pub facts: Option<Vec<WhyFact>>,
    pub more_facts: Option<u64>,
    /// Asked: each thing that was asked, and what came of it.
    pub asked: Option<Vec<WhyAsked>>,
    /// Optional, where the row has no match: how far each part of the pattern gets, or by what none of what they find goes with
    /// the row.
    pub why_not: Option<Vec<WhyNot>>,
}

/// Something that was asked of the graph for a row: a pattern, or a condition.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyAsked {
    pub looks_for: Option<String>,
    pub found: Option<bool>,
    /// It stands in OPTIONAL MATCH, EXISTS and the like: where it finds nothing, that is an answer, too.
    pub may_be_none: Option<bool>,
    /// Some of the ways in which it matches, and the edges of each.
    pub nodes: Option<Vec<BTreeMap<String, String>>>,
    pub edges: Option<Vec<Vec<Json>>>,
    /// Which of the nodes that were asked for it was looked for with.
    pub with: Option<BTreeMap<String, String>>,
    /// Where it finds nothing: how far it gets.
    pub why_not: Option<Vec<WhyNot>>,
    /// The condition, and whether it holds.
    #[serde(rename = "where")]
    pub condition: Option<String>,
    pub holds: Option<bool>,
    pub values: Option<BTreeMap<String, Json>>,
}

/// How far a pattern gets, or a row of a query with stages.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyNot {
    /// Where a pattern does not match: which one, and what of it is there.
    pub pattern: Option<u64>,
    pub nodes: Option<BTreeMap<String, String>>,
    pub edges: Option<Vec<String>>,
    /// Where it does: the stage that makes nothing of the row, with the row (`of`) and what it was made of.
    pub stage: Option<String>,
    pub says: Option<String>,
    pub of: Option<Vec<WhyStage>>,
    /// Of what is asked of the graph for the row, as in a stage.
    pub facts: Option<Vec<WhyFact>>,
    pub more_facts: Option<u64>,
    pub asked: Option<Vec<WhyAsked>>,
    /// Of a window.
    pub place: Option<u64>,
    pub among: Option<u64>,
    /// Where no row has all the values that are asked for, and this one has the most of them: those it does not have.
    pub lacks: Option<BTreeMap<String, Json>>,
    /// What is not as it should be.
    pub fails: String,
    /// What the condition looked at.
    pub values: BTreeMap<String, Json>,
}

/// Why a standing query has a result, or has none.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    /// The moment that was looked at.
    pub moment: When,
    /// Ten at most.
    pub matches: Vec<WhyMatch>,
    /// The query has stages above its patterns (aggregates, joins, what is asked row by row): a match is told stage by stage.
    pub staged: bool,
    /// There are others like these; ten are told.
    pub more: bool,
    /// There was too much to try; of a query with stages, matches of its patterns alone are told then, or some facts are left
    /// out.
    pub gave_up: bool,
    /// Where nothing matches: the choices that got farthest, and the rows that got farthest.
    pub why_not: Option<Vec<WhyNot>>,
    /// Where nothing matches: what matches with the nodes that were given, but has other values.
    pub other_results: Option<Vec<Json>>,
}
