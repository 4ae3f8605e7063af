//! Watching: a View that remembers what was asked of which nodes, and which facts were the answers.

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::{NodeId, Symbol, Value};

use super::lookups::FactOf;
use crate::history::Changed;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

pub struct Watching<'a> {
    base: &'a dyn View,
    seen: RefCell<Seen>,
}

/// What was asked.
#[derive(Default)]
pub struct Seen {
    nodes: FxHashMap<NodeId, Asked>,
    /// Labels by which nodes were listed.
    pub labelled: FxHashSet<Symbol>,
    /// All nodes were listed.
    pub listed: bool,
    /// The facts that were answers.
    pub facts: Vec<FactOf>,
    known: FxHashSet<(NodeId, Symbol, u8)>,
    known_edges: FxHashSet<(EdgeRef, Option<Symbol>)>,
}

/// What was asked of a node. None of a kind asked for stands for all of it.
#[derive(Default)]
struct Asked {
    labels: FxHashSet<Option<Symbol>>,
    properties: FxHashSet<Option<Symbol>>,
    kinds: FxHashSet<Option<Symbol>>,
    edge_properties: bool,
}

impl Seen {
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.keys().copied()
    }

    /// Nodes were listed, so that others than those that were asked about count.
    pub fn has_listed(&self) -> bool {
        self.listed || !self.labelled.is_empty()
    }

    /// Whether a change of a node can have changed an answer.
    pub fn concerns(&self, node: NodeId, change: &Changed) -> bool {
        if self.listed {
            return true;
        }
        if matches!(change, Changed::Label { label, .. } if self.labelled.contains(label)) {
            return true;
        }
        let Some(asked) = self.nodes.get(&node) else { return false };
        let among = |set: &FxHashSet<Option<Symbol>>, symbol: Symbol| set.contains(&None) || set.contains(&Some(symbol));
        match change {
            Changed::Label { label, .. } => among(&asked.labels, *label),
            Changed::Property { key, .. } => among(&asked.properties, *key),
            Changed::Edge { half, .. } => among(&asked.kinds, half.kind),
            Changed::EdgeProperty { .. } => asked.edge_properties,
        }
    }

    fn add(&mut self, fact: FactOf) {
        let is_new = match &fact {
            FactOf::Label { node, label } => self.known.insert((*node, *label, 0)),
            FactOf::Property { node, key, .. } => self.known.insert((*node, *key, 1)),
            FactOf::Edge { edge } => self.known_edges.insert((*edge, None)),
            FactOf::EdgeProperty { edge, key, .. } => self.known_edges.insert((*edge, Some(*key))),
        };
        if is_new {
            self.facts.push(fact);
        }
    }
}

impl<'a> Watching<'a> {
    pub fn new(base: &'a dyn View) -> Watching<'a> {
        Watching { base, seen: RefCell::default() }
    }

    pub fn into_seen(self) -> Seen {
        self.seen.into_inner()
    }

    fn asks(&self, node: NodeId, note: impl FnOnce(&mut Asked)) {
        note(self.seen.borrow_mut().nodes.entry(node).or_default());
    }

    fn asks_edges(&self, node: NodeId, kinds: &[Symbol]) {
        self.asks(node, |asked| match kinds {
            [] => asked.kinds.extend([None]),
            kinds => asked.kinds.extend(kinds.iter().copied().map(Some)),
        });
    }
}

/// The edge that a node has half of.
pub(super) fn edge_fact(node: NodeId, half: HalfEdge) -> FactOf {
    let (source, target) = if half.outgoing { (node, half.other) } else { (half.other, node) };
    FactOf::Edge { edge: EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal } }
}

impl View for Watching<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.asks(node, |asked| {
            asked.properties.insert(Some(key));
        });
        let value = self.base.property(node, key);
        if !value.is_null() {
            self.seen.borrow_mut().add(FactOf::Property { node, key, value: value.clone() });
        }
        value
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.asks(node, |asked| {
            asked.properties.insert(None);
        });
        self.base.properties(node, &mut |key, value| {
            self.seen.borrow_mut().add(FactOf::Property { node, key, value: value.clone() });
            each(key, value);
        });
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.asks(node, |asked| {
            asked.labels.insert(Some(label));
        });
        let has = self.base.has_label(node, label);
        if has {
            self.seen.borrow_mut().add(FactOf::Label { node, label });
        }
        has
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.asks(node, |asked| {
            asked.labels.insert(None);
        });
        self.base.labels(node, &mut |label| {
            self.seen.borrow_mut().add(FactOf::Label { node, label });
            each(label);
        });
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.asks_edges(node, kinds);
        self.base.edges(node, direction, kinds, &mut |half| {
            self.seen.borrow_mut().add(edge_fact(node, half));
            each(half);
        });
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.asks_edges(node, kinds);
        self.base.edges_to(node, other, direction, kinds, &mut |half| {
            self.seen.borrow_mut().add(edge_fact(node, half));
            each(half);
        });
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.asks(edge.source, |asked| {
            asked.kinds.insert(Some(edge.kind));
        });
        let has = self.base.has_edge(edge);
        if has {
            self.seen.borrow_mut().add(FactOf::Edge { edge });
        }
        has
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.asks(edge.source, |asked| asked.edge_properties = true);
        let value = self.base.edge_property(edge, key);
        if !value.is_null() {
            self.seen.borrow_mut().add(FactOf::EdgeProperty { edge, key, value: value.clone() });
        }
        value
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.asks(edge.source, |asked| asked.edge_properties = true);
        self.base.edge_properties(edge, &mut |key, value| {
            self.seen.borrow_mut().add(FactOf::EdgeProperty { edge, key, value: value.clone() });
            each(key, value);
        });
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.seen.borrow_mut().listed = true;
        self.base.nodes(each);
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.seen.borrow_mut().labelled.insert(label);
        self.base.labelled(label, &mut |node| {
            self.seen.borrow_mut().add(FactOf::Label { node, label });
            each(node)
        });
    }
}
