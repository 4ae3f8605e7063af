//! Nodes as they are, for whoever looks for a mistake.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

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
