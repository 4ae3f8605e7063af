//! What an expression may ask of the graph, answered from the View in force.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::extent::measured;
use weir_model::plan::Name;
use weir_model::{Context, EdgeKey, Failure, FullEdge, FullNode, IdScheme, Map, NodeId, Symbol, Value};

use super::{Environment, Prepared};
use crate::symbols::{SymbolCache, Symbols, UNKNOWN};
use crate::view::{Direction, EdgeRef, View};

/// The symbols one evaluator has met.
pub type Names<'s> = SymbolCache<&'s Symbols>;

/// The Context of a running plan.
pub struct Reader<'r> {
    pub prepared: &'r Prepared,
    pub names: &'r Names<'r>,
    pub view: &'r dyn View,
    pub environment: &'r Environment<'r>,
    /// Shared with the queries that run in place of a call.
    pub deleted: Rc<Deleted>,
}

/// What a query deleted. In the graph model of openCypher it is an error to ask for more than the name of it, told when
/// the query is through: until then nothing of it has left.
#[derive(Default)]
pub struct Deleted {
    nodes: RefCell<FxHashSet<NodeId>>,
    /// Ordinals by source, type and target.
    edges: RefCell<FxHashMap<(NodeId, Symbol, NodeId), BTreeSet<u32>>>,
    pub asked: Cell<bool>,
}

impl Reader<'_> {
    /// This reader over another view.
    pub fn over<'o>(&'o self, view: &'o dyn View) -> Reader<'o> {
        Reader { view, deleted: self.deleted.clone(), ..*self }
    }

    pub fn note_deleted_node(&self, node: NodeId) {
        if self.environment.open_cypher {
            self.deleted.nodes.borrow_mut().insert(node);
        }
    }

    pub fn note_deleted_edge(&self, edge: EdgeRef) {
        if self.environment.open_cypher {
            let between = (edge.source, edge.kind, edge.target);
            self.deleted.edges.borrow_mut().entry(between).or_default().insert(edge.ordinal);
        }
    }

    /// An anchor enters a node whether it is there or not.
    pub fn note_entered(&self, node: NodeId) {
        if self.environment.open_cypher {
            self.deleted.nodes.borrow_mut().remove(&node);
        }
    }

    /// The greatest ordinal of the edges between two nodes that this query deleted.
    pub fn last_deleted(&self, source: NodeId, kind: Symbol, target: NodeId) -> Option<u32> {
        self.deleted.edges.borrow().get(&(source, kind, target)).and_then(|ordinals| ordinals.last().copied())
    }

    /// Whether this query deleted the node, where that is kept.
    pub fn has_deleted(&self, node: NodeId) -> bool {
        self.deleted.nodes.borrow().contains(&node)
    }

    /// Whether there is anything that must not be asked for, where that is kept.
    pub fn has_deleted_any(&self) -> bool {
        !self.deleted.nodes.borrow().is_empty() || !self.deleted.edges.borrow().is_empty()
    }

    pub fn ask_node(&self, node: NodeId) {
        if self.has_deleted(node) {
            self.deleted.asked.set(true);
        }
    }

    pub fn ask_edge(&self, edge: EdgeRef) {
        let deleted = self.deleted.edges.borrow();
        if deleted.get(&(edge.source, edge.kind, edge.target)).is_some_and(|ordinals| ordinals.contains(&edge.ordinal)) {
            self.deleted.asked.set(true);
        }
    }

    /// What is known of a node, also when it was deleted: then nothing.
    fn known_node(&self, id: NodeId) -> FullNode {
        let mut labels = Vec::new();
        self.view.labels(id, &mut |label| {
            if label != self.prepared.existence {
                labels.push(self.names.text(label));
            }
        });
        labels.sort_unstable();
        FullNode { id, labels, properties: self.properties(id) }
    }

    fn known_edge(&self, edge: &EdgeKey) -> FullEdge {
        FullEdge { key: edge.clone(), properties: self.edge_properties(self.edge_ref(edge)) }
    }

    /// Of a type that nobody knows no edge is there.
    pub fn edge_ref(&self, key: &EdgeKey) -> EdgeRef {
        let kind = self.names.find(&key.kind).unwrap_or(UNKNOWN);
        EdgeRef { source: key.source, kind, target: key.target, ordinal: key.ordinal }
    }

    pub fn edge_key(&self, edge: EdgeRef) -> EdgeKey {
        EdgeKey { source: edge.source, kind: self.names.text(edge.kind), target: edge.target, ordinal: edge.ordinal }
    }

    pub fn properties(&self, node: NodeId) -> Map {
        let mut map = Map::default();
        self.view.properties(node, &mut |key, value| map.push_unique(self.names.text(key), value));
        map.sorted()
    }

    pub fn edge_properties(&self, edge: EdgeRef) -> Map {
        let mut map = Map::default();
        self.view.edge_properties(edge, &mut |key, value| map.push_unique(self.names.text(key), value));
        map.sorted()
    }

    /// The value as it leaves the engine: nodes and edges, however deep, with what is known of them. A path becomes the
    /// list of its nodes and edges in turn. `room` is what all that may come to, in bytes.
    pub fn hydrate(&self, value: &Value, room: &mut usize) -> Result<Value, Failure> {
        let full = match value {
            Value::Node(id) => Value::FullNode(self.known_node(*id).into()),
            Value::Edge(key) => Value::FullEdge(self.known_edge(key).into()),
            Value::List(items) if items.iter().any(refers) => return self.hydrate_all(items, room),
            Value::Map(map) if map.iter().any(|(_, value)| refers(value)) => {
                let entries = map.iter().map(|(key, value)| Ok((key.clone(), self.hydrate(value, room)?)));
                return Ok(Value::Map(entries.collect::<Result<Map, Failure>>()?.into()));
            }
            Value::Path(path) => return self.hydrate_all(&path_elements(path), room),
            other => return Ok(other.clone()),
        };
        *room -= measured(&full, *room)?;
        Ok(full)
    }

    fn hydrate_all(&self, items: &[Value], room: &mut usize) -> Result<Value, Failure> {
        Ok(Value::List(items.iter().map(|item| self.hydrate(item, room)).collect::<Result<Vec<_>, _>>()?.into()))
    }
}

/// Whether anything in the value needs `hydrate`.
pub fn refers(value: &Value) -> bool {
    match value {
        Value::Node(_) | Value::Edge(_) | Value::Path(_) => true,
        Value::List(items) => items.iter().any(refers),
        Value::Map(map) => map.iter().any(|(_, value)| refers(value)),
        _ => false,
    }
}

/// What UNWIND makes of a value: of null nothing.
pub fn unwound(value: Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::List(items) => items.to_vec(),
        Value::Path(path) => path_elements(&path),
        other => vec![other],
    }
}

/// Node, edge, node, ...
pub fn path_elements(path: &weir_model::Path) -> Vec<Value> {
    let mut elements = vec![Value::Node(path.start)];
    for (edge, node) in &path.steps {
        elements.push(Value::Edge(edge.clone().into()));
        elements.push(Value::Node(*node));
    }
    elements
}

impl Context for Reader<'_> {
    fn parameter(&self, index: u32) -> &Value {
        self.environment.parameters.get(index as usize).unwrap_or(&Value::Null)
    }

    fn name(&self, name: Name) -> &str {
        &self.prepared.plan.names[name.0 as usize]
    }

    fn property(&self, node: NodeId, key: Name) -> Value {
        self.ask_node(node);
        self.view.property(node, self.prepared.symbol(key))
    }

    fn property_by_text(&self, node: NodeId, key: &str) -> Value {
        self.ask_node(node);
        // Also of one that nobody has written yet it is noted that it was asked for.
        self.view.property(node, self.names.find(key).unwrap_or(UNKNOWN))
    }

    fn has_label(&self, node: NodeId, label: Name) -> bool {
        self.ask_node(node);
        self.view.has_label(node, self.prepared.symbol(label))
    }

    fn edge_property(&self, edge: &EdgeKey, key: &str) -> Value {
        let edge = self.edge_ref(edge);
        self.ask_edge(edge);
        self.view.edge_property(edge, self.names.find(key).unwrap_or(UNKNOWN))
    }

    fn full_node(&self, id: NodeId) -> FullNode {
        self.ask_node(id);
        self.known_node(id)
    }

    fn full_edge(&self, edge: &EdgeKey) -> FullEdge {
        self.ask_edge(self.edge_ref(edge));
        self.known_edge(edge)
    }

    fn degree(&self, node: NodeId) -> usize {
        let mut count = 0;
        self.view.edges(node, Direction::Both, &[], &mut |_| count += 1);
        count
    }

    fn ids(&self) -> IdScheme {
        self.environment.ids
    }

    fn now_millis(&self) -> i64 {
        self.environment.now.millis
    }

    fn turns(&self) -> Option<&Cell<i64>> {
        self.environment.now.turns()
    }

    fn clock_millis(&self) -> i64 {
        crate::commit::wall_clock_millis() as i64
    }
}
