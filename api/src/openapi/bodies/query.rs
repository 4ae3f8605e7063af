//! Queries, and what they answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::Instant;

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
