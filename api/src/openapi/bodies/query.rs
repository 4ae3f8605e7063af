//! Queries, and what they answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

use super::super::schemas::Instant;

/// A Cypher query and its parameters.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"text": "MATCH (n) WHERE id(n) = idFrom($k) RETURN n.name AS name", "parameters": {"k": 7}}]))]
pub struct CypherQuestion {
    /// The text of the query.
    pub text: String,
    /// The values of the parameters, by name without `$`. None when not given.
    #[serde(default)]
    pub parameters: BTreeMap<String, Json>,
}

/// A Gremlin traversal and the values of its variables.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"text": "g.V().has(key, value)", "parameters": {"key": "name", "value": "Ann"}}]))]
pub struct GremlinQuestion {
    /// The text of the traversal.
    pub text: String,
    /// The values of the variables, by name. None when not given.
    #[serde(default)]
    pub parameters: BTreeMap<String, Json>,
}

/// The rows that a query returns.
#[derive(JsonSchema)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows. Each has one value per column, in the order of `columns`.
    pub results: Vec<Vec<Json>>,
}

/// A node, in the form that a graph view draws.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiNode {
    /// The id of the node.
    pub id: String,
    /// Always 0: there is one host.
    pub host_index: i32,
    /// The labels of the node, separated by `:`.
    pub label: String,
    /// The values of its properties, by name.
    pub properties: BTreeMap<String, Json>,
}

/// An edge, in the form that a graph view draws.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UiEdge {
    /// The id of the node that it begins at.
    pub from: String,
    /// The type of the edge.
    pub edge_type: String,
    /// The id of the node that it leads to.
    pub to: String,
    /// Whether the edge has a direction.
    pub is_directed: bool,
}

/// A query that runs, or waits for a place to run in.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningQuery {
    /// The id by which the query can be ended.
    pub id: String,
    /// The beginning of the text.
    pub query: String,
    /// The graph that is asked.
    pub namespace: String,
    /// When the query was received.
    pub start_time: Instant,
    /// How long ago that was, in milliseconds.
    pub running_millis: u64,
    /// How many rows it has returned so far.
    pub rows: u64,
    /// Whether it was told to end.
    pub cancelled: bool,
    /// The `User-Agent` of the client, if it sent one.
    pub user_agent: Option<String>,
    /// The address and port of the client, if known.
    pub remote_address: Option<String>,
}

/// Where random walks are saved.
#[derive(JsonSchema)]
#[serde(tag = "type")]
#[schemars(extend("examples" = [{"type": "LocalFile", "fileName": "walks.csv"}]))]
pub enum WalkFile {
    /// A new file in one of `file-ingest.allowed-directories`: the working directory if it is among them, or else the first.
    LocalFile {
        /// The name of the file, without a directory. It must not exist yet. A name is generated when not given.
        #[serde(rename = "fileName")]
        file_name: Option<String>,
    },
}
