//! Removal: nodes and edges as the facts that go with them.

use weir_model::{Mutations, NodeId, Symbol, Value};

use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// The edges of a node, each once.
pub fn edges_of(view: &dyn View, node: NodeId) -> Vec<EdgeRef> {
    let mut halves: Vec<HalfEdge> = Vec::new();
    view.edges(node, Direction::Both, &[], &mut |half| halves.push(half));
    let edge = |half: HalfEdge| {
        let (source, target) = if half.outgoing { (node, half.other) } else { (half.other, node) };
        // A self loop is listed by its outgoing half.
        let wanted = half.outgoing || source != target;
        wanted.then_some(EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal })
    };
    halves.into_iter().filter_map(edge).collect()
}

/// Everything a node has but its edges.
pub fn node(view: &dyn View, node: NodeId, mutations: &mut Mutations) {
    mutations.clear_properties(node);
    view.labels(node, &mut |label| mutations.set_label(node, label, false));
}

/// A node with its edges.
pub fn detach_node(view: &dyn View, id: NodeId, mutations: &mut Mutations) {
    edges_of(view, id).into_iter().for_each(|found| edge(view, found, mutations));
    node(view, id, mutations);
}

pub fn edge(view: &dyn View, edge: EdgeRef, mutations: &mut Mutations) {
    edge_properties(view, edge, mutations);
    mutations.set_edge(edge.source, edge.kind, edge.target, edge.ordinal, false);
}

pub fn edge_properties(view: &dyn View, edge: EdgeRef, mutations: &mut Mutations) {
    view.edge_properties(edge, &mut |key, _| edge_property(edge, key, mutations));
}

pub fn edge_property(edge: EdgeRef, key: Symbol, mutations: &mut Mutations) {
    mutations.set_edge_property(edge.source, edge.kind, edge.target, edge.ordinal, key, &Value::Null);
}
