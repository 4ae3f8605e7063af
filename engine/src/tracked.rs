//! Tracked: a View that remembers what was asked, so that a committer can tell whether an answer still holds.
//!
//! A batch that commits as a whole tracks its snapshot, below the overlay with its own writes. A committer that repeats
//! single records of a batch tracks that overlay too: a record may have read what a repeated one wrote.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashSet;
use weir_model::{NodeId, Symbol, Value};

use crate::view::{Direction, EdgeRef, HalfEdge, View};

pub struct Tracked<'a> {
    base: &'a dyn View,
    nodes: RefCell<FxHashSet<NodeId>>,
    scanned: Cell<bool>,
}

impl<'a> Tracked<'a> {
    pub fn new(base: &'a dyn View) -> Tracked<'a> {
        Tracked::reusing(base, FxHashSet::default())
    }

    /// With a set from an earlier run, emptied, so that a batch of records does not allocate one each.
    pub fn reusing(base: &'a dyn View, mut nodes: FxHashSet<NodeId>) -> Tracked<'a> {
        nodes.clear();
        Tracked { base, nodes: RefCell::new(nodes), scanned: Cell::new(false) }
    }

    /// All nodes were listed: every commit is a conflict.
    pub fn scanned(&self) -> bool {
        self.scanned.get()
    }

    /// The nodes of which anything was read. An edge is read at its source.
    pub fn into_nodes(self) -> FxHashSet<NodeId> {
        self.nodes.into_inner()
    }

    fn read(&self, node: NodeId) {
        self.nodes.borrow_mut().insert(node);
    }
}

impl View for Tracked<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.read(node);
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.read(node);
        self.base.properties(node, each)
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.read(node);
        self.base.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.read(node);
        self.base.labels(node, each)
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.read(node);
        self.base.edges(node, direction, kinds, each)
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.read(edge.source);
        self.base.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.read(edge.source);
        self.base.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.read(edge.source);
        self.base.edge_properties(edge, each)
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.scanned.set(true);
        self.base.nodes(each)
    }
}
