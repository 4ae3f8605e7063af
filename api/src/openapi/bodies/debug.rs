//! Nodes as they are, for whoever looks for a mistake.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::Value as Json;

/// The properties and edges of a node.
#[derive(JsonSchema)]
#[schemars(extend("examples" = [{"properties": {"name": "Ann"}, "edges": []}]))]
pub struct DebugNode {
    /// The values of its properties, by name.
    pub properties: BTreeMap<String, Json>,
    /// Its edges, seen from this node.
    pub edges: Vec<crate::wire::half_edge::HalfEdge>,
}

/// Everything that is known of a node.
#[derive(JsonSchema)]
pub struct DebugState {
    /// Its properties, each with the type of its value, such as `Integer(7)`.
    pub properties: BTreeMap<String, String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// Its edges, seen from this node.
    pub edges: Vec<crate::wire::half_edge::HalfEdge>,
    /// Always empty; it is there for compatibility.
    pub subscribers: Vec<Json>,
    /// Always empty; it is there for compatibility.
    pub subscriptions: Vec<Json>,
    /// The changes of the node, as the procedure `debug.node` shows them. Empty if no history is kept.
    pub journal: Vec<Json>,
    /// A hash of the content of the node. Nodes with equal content have equal hashes.
    #[serde(rename = "graphNodeHashCode")]
    pub graph_node_hash_code: i64,
}
