//! Looked: a View that counts the half edges it gives, for tests.

use std::cell::Cell;

use weir_model::{NodeId, Symbol, Value};

use crate::view::{Direction, EdgeRef, HalfEdge, View};

pub struct Looked<'a> {
    base: &'a dyn View,
    breaks_off: bool,
    pub listed: Cell<usize>,
}

impl<'a> Looked<'a> {
    /// One that does not break off gives all edges, whatever is wanted of them, and knows nothing of how many there are.
    pub fn new(base: &'a dyn View, breaks_off: bool) -> Looked<'a> {
        Looked { base, breaks_off, listed: Cell::new(0) }
    }
}

impl View for Looked<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.properties(node, each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.base.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.base.labels(node, each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges(node, direction, kinds, &mut |half| {
            self.listed.set(self.listed.get() + 1);
            each(half);
        });
    }

    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.base.edges_while(node, direction, kinds, &mut |half| {
            self.listed.set(self.listed.get() + 1);
            each(half) || !self.breaks_off
        })
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.base.count_edges(node, direction, kinds)
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        let mut count = 0;
        self.base.edges(node, direction, kinds, &mut |_| count += usize::from(self.breaks_off));
        count
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges_to(node, other, direction, kinds, &mut |half| {
            self.listed.set(self.listed.get() + 1);
            each(half);
        });
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.base.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.base.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.edge_properties(edge, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.base.nodes(each);
    }
}

/// `View::edges_while` of some node.
type Listing<'a> = &'a dyn Fn(&mut dyn FnMut(HalfEdge) -> bool) -> bool;

/// What `list` lists for whoever takes `more` more each time.
pub fn by_stretches(more: usize, list: Listing<'_>) -> Vec<HalfEdge> {
    let mut found = Vec::new();
    loop {
        let (passed, mut given) = (found.len(), 0);
        let all = list(&mut |half| {
            given += 1;
            if given > passed {
                found.push(half);
            }
            given < passed + more
        });
        if all {
            return found;
        }
        assert_eq!(given, passed + more, "it was broken off elsewhere");
    }
}
