//! The oracle: a graph in plain maps, and the answer of a query by trying everything.
//!
//! Written to be obviously right, not fast, and to share nothing with `evaluate`, `render` or the arrangement but the
//! meaning of expressions. Tests compare those three with this one; nothing else uses it.
//!
//!     mod.rs       the graph     answer.rs  the operators, rows in vectors     pattern.rs  every choice of nodes and edges
//!     clock.rs     the time of a graph, for tests in which it goes by

mod answer;
mod clock;
mod pattern;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_model::mutation::Kind;
use weir_model::{Mutations, NodeId, Symbol, Value, codec};

pub use self::answer::{Question, matches};
pub use self::clock::pass_to;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

#[derive(Clone, Default, Debug, PartialEq)]
pub struct ReferenceGraph {
    /// Only nodes with something to them.
    nodes: BTreeMap<NodeId, ReferenceNode>,
}

#[derive(Clone, Default, Debug, PartialEq)]
struct ReferenceNode {
    labels: BTreeSet<Symbol>,
    properties: BTreeMap<Symbol, Value>,
    edges: BTreeSet<HalfEdge>,
    /// Of outgoing edges, by type, target, ordinal and key.
    edge_properties: BTreeMap<(Symbol, NodeId, u32, Symbol), Value>,
}

impl ReferenceGraph {
    pub fn new() -> ReferenceGraph {
        ReferenceGraph::default()
    }

    /// Applies the rows of a range of records, in order.
    pub fn apply(&mut self, mutations: &Mutations, records: Range<u32>) {
        for row in mutations.rows.iter().filter(|row| records.contains(&row.record())) {
            let node = self.nodes.entry(row.node).or_default();
            let symbol = row.tag.symbol();
            match row.tag.kind() {
                Kind::Label if row.removes() => {
                    node.labels.remove(&symbol);
                }
                Kind::Label => {
                    node.labels.insert(symbol);
                }
                Kind::Property if row.removes() => {
                    node.properties.remove(&symbol);
                }
                Kind::Property => {
                    node.properties.insert(symbol, codec::decode_payload(row.payload, &mutations.arena));
                }
                Kind::Out | Kind::In => {
                    let outgoing = row.tag.kind() == Kind::Out;
                    node.set_half(HalfEdge { kind: symbol, outgoing, other: row.payload.as_node(), ordinal: 0 }, !row.removes());
                }
                Kind::OutParallel | Kind::InParallel => {
                    let outgoing = row.tag.kind() == Kind::OutParallel;
                    let (other, ordinal) = codec::decode_parallel(row.payload, &mutations.arena);
                    node.set_half(HalfEdge { kind: symbol, outgoing, other, ordinal }, !row.removes());
                }
                Kind::EdgeProperty => {
                    let (target, ordinal, key, value) = codec::decode_edge_property(row.payload, &mutations.arena);
                    if row.removes() {
                        node.edge_properties.remove(&(symbol, target, ordinal, key));
                    } else {
                        node.edge_properties.insert((symbol, target, ordinal, key), value);
                    }
                }
                Kind::ClearProperties => node.properties.clear(),
            }
            if *node == ReferenceNode::default() {
                self.nodes.remove(&row.node);
            }
        }
    }

    pub fn apply_all(&mut self, mutations: &Mutations) {
        self.apply(mutations, 0..u32::MAX);
    }

    /// Every edge, by its outgoing half.
    pub fn all_edges(&self) -> Vec<EdgeRef> {
        let halves = self.nodes.iter().flat_map(|(source, node)| node.edges.iter().map(move |half| (*source, *half)));
        halves
            .filter(|(_, half)| half.outgoing)
            .map(|(source, half)| EdgeRef { source, kind: half.kind, target: half.other, ordinal: half.ordinal })
            .collect()
    }
}

impl ReferenceNode {
    fn set_half(&mut self, half: HalfEdge, present: bool) {
        if present {
            self.edges.insert(half);
        } else {
            self.edges.remove(&half);
        }
    }
}

impl View for ReferenceGraph {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.nodes.get(&node).and_then(|node| node.properties.get(&key)).cloned().unwrap_or_default()
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        for (key, value) in self.nodes.get(&node).iter().flat_map(|node| &node.properties) {
            each(*key, value.clone());
        }
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.labels.contains(&label))
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.nodes.get(&node).iter().flat_map(|node| &node.labels).for_each(|label| each(*label));
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.edges_while(node, direction, kinds, &mut |half| {
            each(half);
            true
        });
    }

    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.nodes
            .get(&node)
            .iter()
            .flat_map(|node| &node.edges)
            .all(|half| !direction.admits(half.outgoing) || !(kinds.is_empty() || kinds.contains(&half.kind)) || each(*half))
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        let half = HalfEdge { kind: edge.kind, outgoing: true, other: edge.target, ordinal: edge.ordinal };
        self.nodes.get(&edge.source).is_some_and(|node| node.edges.contains(&half))
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        let at = (edge.kind, edge.target, edge.ordinal, key);
        self.nodes.get(&edge.source).and_then(|node| node.edge_properties.get(&at)).cloned().unwrap_or_default()
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        for ((kind, target, ordinal, key), value) in self.nodes.get(&edge.source).iter().flat_map(|node| &node.edge_properties) {
            if (*kind, *target, *ordinal) == (edge.kind, edge.target, edge.ordinal) {
                each(*key, value.clone());
            }
        }
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        for node in self.nodes.iter().filter(|(_, node)| node.interesting()).map(|(id, _)| *id) {
            if !each(node) {
                return;
            }
        }
    }
}

impl ReferenceNode {
    /// The properties of an edge that is not there do not make a node worth showing.
    fn interesting(&self) -> bool {
        !(self.labels.is_empty() && self.properties.is_empty() && self.edges.is_empty())
    }
}
