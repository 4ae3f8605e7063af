//! What a query did to a graph, counted as the TCK counts: the difference of what was there before and after.

use std::collections::BTreeSet;

use weir_engine::Graph;
use weir_engine::view::{Direction, EdgeRef, View};
use weir_model::{NodeId, Text};

/// Everything in a graph, in a form that can be compared.
#[derive(Default)]
pub struct Observation {
    nodes: BTreeSet<NodeId>,
    edges: BTreeSet<EdgeRef>,
    /// Distinct names in the whole graph.
    labels: BTreeSet<Text>,
    /// Entity, key and value as text: a changed value is one removed and one added.
    properties: BTreeSet<(String, Text, String)>,
}

impl Observation {
    pub fn of(graph: &Graph) -> Observation {
        let (snapshot, symbols) = (graph.snapshot(), graph.symbols());
        let mut seen = Observation::default();
        snapshot.nodes(&mut |node| {
            seen.nodes.insert(node);
            true
        });
        for node in &seen.nodes {
            snapshot.labels(*node, &mut |label| {
                seen.labels.insert(symbols.name(label));
            });
            snapshot.properties(*node, &mut |key, value| {
                seen.properties.insert((format!("{node:?}"), symbols.name(key), value.shown()));
            });
            snapshot.edges(*node, Direction::Outgoing, &[], &mut |half| {
                seen.edges.insert(EdgeRef { source: *node, kind: half.kind, target: half.other, ordinal: half.ordinal });
            });
        }
        for edge in &seen.edges {
            snapshot.edge_properties(*edge, &mut |key, value| {
                seen.properties.insert((format!("{edge:?}"), symbols.name(key), value.shown()));
            });
        }
        // In the graph model of openCypher a node is there by a fact of its own, which is no label of anybody's.
        seen.labels.remove("");
        seen
    }

    /// The counters that are not zero, in the order of their names.
    pub fn changes_to(&self, after: &Observation) -> Vec<(String, i64)> {
        let mut counters = Vec::new();
        count("nodes", &self.nodes, &after.nodes, &mut counters);
        count("relationships", &self.edges, &after.edges, &mut counters);
        count("labels", &self.labels, &after.labels, &mut counters);
        count("properties", &self.properties, &after.properties, &mut counters);
        counters.sort();
        counters
    }
}

fn count<T: Ord>(name: &str, before: &BTreeSet<T>, after: &BTreeSet<T>, counters: &mut Vec<(String, i64)>) {
    for (sign, number) in [('+', after.difference(before).count()), ('-', before.difference(after).count())] {
        if number > 0 {
            counters.push((format!("{sign}{name}"), number as i64));
        }
    }
}
