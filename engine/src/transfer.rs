//! Transfer: a graph as a sequence of things with names, out and in. What they look like as text is for others to say.
//!
//! Out comes every node that has a label or a property of its own, and every edge, as of one tick. Taken in, in whatever
//! order, they make an equal graph: one with the same hash code.

use weir_model::expression::FailureKind;
use weir_model::{Failure, Map, Mutations, NodeId, Text, Tick, Value};

use crate::commit::Change;
use crate::error::EngineError;
use crate::graph::Graph;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

#[derive(Clone, Debug)]
pub enum Item {
    Node(NodeItem),
    Edge(EdgeItem),
}

#[derive(Clone, Default, Debug)]
pub struct NodeItem {
    pub id: NodeId,
    /// It is there by itself, whatever is known of it: in the graph model of openCypher.
    pub created: bool,
    pub labels: Vec<Text>,
    pub properties: Map,
}

#[derive(Clone, Default, Debug)]
pub struct EdgeItem {
    pub source: NodeId,
    pub kind: Text,
    pub target: NodeId,
    /// Tells edges between the same nodes apart.
    pub ordinal: u32,
    pub properties: Map,
}

/// The label by which a node is there in the graph model of openCypher.
const EXISTENCE: &str = "";

fn nameless(what: &str) -> EngineError {
    Failure::new(FailureKind::Runtime, format!("A {what} has at least one character")).into()
}

impl Graph {
    /// Hands out everything, until `each` says no: each node, followed by the edges that leave it.
    pub fn export(&self, at: Option<Tick>, each: &mut dyn FnMut(Item) -> bool) -> Result<(), EngineError> {
        let Some(at) = at else {
            self.readable()?;
            let snapshot = self.snapshot();
            // What is given out stays, also where the log fails meanwhile.
            self.wait_durable_at(snapshot.tick())?;
            self.export_view(&snapshot, each);
            return Ok(());
        };
        let moment = self.at(at)?;
        self.export_view(moment.view(), each);
        moment.take_failure().map_or(Ok(()), Err)
    }

    /// About how many nodes there are.
    pub fn about_nodes(&self) -> u64 {
        self.snapshot().about(About::Nodes) as u64
    }

    fn export_view(&self, view: &dyn View, each: &mut dyn FnMut(Item) -> bool) {
        let name = |symbol| self.symbols().name(symbol);
        view.nodes(&mut |id| {
            let mut node = NodeItem { id, ..NodeItem::default() };
            view.labels(id, &mut |label| match name(label) {
                label if label == EXISTENCE => node.created = true,
                label => node.labels.push(label),
            });
            view.properties(id, &mut |key, value| node.properties.insert(name(key), value));
            let has_own = node.created || !node.labels.is_empty() || !node.properties.is_empty();
            if has_own && !each(Item::Node(node)) {
                return false;
            }
            let mut halves: Vec<HalfEdge> = Vec::new();
            view.edges(id, Direction::Outgoing, &[], &mut |half| halves.push(half));
            halves.into_iter().all(|half| {
                let edge = EdgeRef { source: id, kind: half.kind, target: half.other, ordinal: half.ordinal };
                let mut properties = Map::default();
                view.edge_properties(edge, &mut |key, value| properties.insert(name(key), value));
                each(Item::Edge(EdgeItem {
                    source: id,
                    kind: name(half.kind),
                    target: half.other,
                    ordinal: half.ordinal,
                    properties,
                }))
            })
        });
    }

    /// Takes things in, each a record of its own. Gives the tick after the last.
    pub fn import(&self, items: &[Item]) -> Result<Tick, EngineError> {
        let mut mutations = Mutations::default();
        let number = |name: &str| self.symbols().number(name);
        for (record, item) in items.iter().enumerate() {
            mutations.start_record(record as u32);
            match item {
                Item::Node(node) => {
                    if node.labels.iter().any(|label| label.is_empty()) {
                        return Err(nameless("label"));
                    }
                    // In the other model a node is there by what is known of it.
                    if node.created && self.open_cypher() {
                        mutations.set_label(node.id, number(EXISTENCE)?, true);
                    }
                    for label in &node.labels {
                        mutations.set_label(node.id, number(label)?, true);
                    }
                    for (key, value) in node.properties.iter().filter(|(_, value)| !value.is_null()) {
                        mutations.set_property(node.id, number(key)?, value);
                    }
                }
                Item::Edge(edge) => {
                    let EdgeItem { source, target, ordinal, .. } = *edge;
                    if edge.kind.is_empty() {
                        return Err(nameless("relationship type"));
                    }
                    let kind = number(&edge.kind)?;
                    mutations.set_edge(source, kind, target, ordinal, true);
                    for (key, value) in edge.properties.iter().filter(|(_, value): &&(Text, Value)| !value.is_null()) {
                        mutations.set_edge_property(source, kind, target, ordinal, number(key)?, value);
                    }
                }
            }
        }
        self.wait_for_room()?;
        self.committer().commit(Change { mutations, records: items.len(), ..Change::default() })
    }
}
