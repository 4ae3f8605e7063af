//! The hash code of a graph: a number that equal graphs share, in whatever order they came to be, in any store, on any number
//! of workers. It sums up what each node is: its id, labels, properties and the edges that leave it, by name.

use std::hash::{DefaultHasher, Hash, Hasher};

use weir_model::expression::FailureKind;
use weir_model::{Failure, NodeId, Text, Tick, Value, codec};

use crate::error::EngineError;
use crate::graph::Graph;
use crate::symbols::Symbols;
use crate::view::{Direction, EdgeRef, View};

impl Graph {
    /// The hash code of the graph as it is, or was at the end of a tick. Visits every node.
    pub fn hash_code(&self, at: Option<Tick>) -> Result<i64, EngineError> {
        self.hash_code_while(at, &|| true)
    }

    /// As `hash_code`; fails where `go_on` said no before the end.
    pub fn hash_code_while(&self, at: Option<Tick>, go_on: &dyn Fn() -> bool) -> Result<i64, EngineError> {
        let given_up =
            || EngineError::Query(Failure::new(FailureKind::Interrupted, "The hash code was given up before the last node"));
        let Some(at) = at else {
            self.readable()?;
            return hash_code(&self.snapshot(), self.symbols(), go_on).ok_or_else(given_up);
        };
        let moment = self.at(at)?;
        let code = hash_code(moment.view(), self.symbols(), go_on);
        moment.take_failure().map_or(code.ok_or_else(given_up), Err)
    }
}

/// None when `go_on` said no.
fn hash_code(view: &dyn View, symbols: &Symbols, go_on: &dyn Fn() -> bool) -> Option<i64> {
    let (mut sum, mut whole) = (0u64, true);
    view.nodes(&mut |node| {
        whole = go_on();
        if whole {
            // A sum does not ask in which order its parts came.
            sum = sum.wrapping_add(of_node(view, symbols, node));
        }
        whole
    });
    whole.then_some(sum as i64)
}

fn of_node(view: &dyn View, symbols: &Symbols, node: NodeId) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.to_bytes().hash(&mut hasher);
    let mut labels: Vec<Text> = Vec::new();
    view.labels(node, &mut |label| labels.push(symbols.name(label)));
    labels.sort_unstable();
    labels.hash(&mut hasher);
    let mut properties = Vec::new();
    view.properties(node, &mut |key, value| properties.push(named(symbols.name(key), &value)));
    properties.sort_unstable();
    properties.hash(&mut hasher);
    let mut halves = Vec::new();
    view.edges(node, Direction::Outgoing, &[], &mut |half| halves.push(half));
    let edge = |half: crate::view::HalfEdge| {
        let mut properties = Vec::new();
        let edge = EdgeRef { source: node, kind: half.kind, target: half.other, ordinal: half.ordinal };
        view.edge_properties(edge, &mut |key, value| properties.push(named(symbols.name(key), &value)));
        properties.sort_unstable();
        (symbols.name(half.kind), half.other, half.ordinal, properties)
    };
    let mut edges: Vec<_> = halves.into_iter().map(edge).collect();
    edges.sort_unstable();
    edges.hash(&mut hasher);
    hasher.finish()
}

fn named(name: Text, value: &Value) -> (Text, Vec<u8>) {
    let mut bytes = Vec::new();
    codec::encode(value, &mut bytes);
    (name, bytes)
}
