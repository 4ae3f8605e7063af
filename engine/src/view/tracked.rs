//! Tracked: a View that remembers what was asked, so that a committer can tell whether an answer still holds.
//!
//! A transaction tracks its snapshot, below the overlay with its own writes: what it has written itself is no reason to try
//! again. Stages of standing queries track the graph at a tick, to know when a row has to look again.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashSet;
use weir_model::{NodeId, Symbol, Value};

use crate::commit::ReadSet;
use crate::index::{Question, Questions};
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// What a node takes that is noted, about.
const NOTED_BYTES: usize = 32;

/// What is kept of what was read.
pub trait Notes: Default {
    /// Labels or properties of a node.
    fn own(&mut self, node: NodeId);
    /// Its edges of these types; of all where none are named.
    fn edges(&mut self, node: NodeId, kinds: &[Symbol]);
    /// Those that lead to one other node, or come from it.
    fn edges_to(&mut self, node: NodeId, other: NodeId, kinds: &[Symbol]);
    /// What that takes, about; nothing where somebody else sees to it that it stays small.
    fn bytes(&self) -> usize {
        0
    }
}

/// The nodes of which anything was read. An edge is read at its source.
impl Notes for FxHashSet<NodeId> {
    fn own(&mut self, node: NodeId) {
        self.insert(node);
    }

    fn edges(&mut self, node: NodeId, _: &[Symbol]) {
        self.insert(node);
    }

    fn edges_to(&mut self, node: NodeId, _: NodeId, _: &[Symbol]) {
        self.insert(node);
    }

    fn bytes(&self) -> usize {
        self.len() * NOTED_BYTES
    }
}

pub struct Tracked<'a, N = FxHashSet<NodeId>> {
    base: &'a dyn View,
    notes: RefCell<N>,
    /// The labels by which nodes were listed or counted; and whether all of them were listed. Of a node in such a list nothing is
    /// read yet but that it is there, or has the label.
    labels: RefCell<Vec<Symbol>>,
    listed: Cell<bool>,
    /// Anything may have been read, so nothing is noted any more.
    everything: Cell<bool>,
    questions: RefCell<Questions>,
}

impl<'a> Tracked<'a> {
    pub fn new(base: &'a dyn View) -> Tracked<'a> {
        Tracked::noting(base, FxHashSet::default())
    }

    pub fn into_reads(self) -> ReadSet {
        ReadSet {
            nodes: self.notes.into_inner(),
            labels: self.labels.into_inner(),
            listed: self.listed.get(),
            everything: self.everything.get(),
            questions: self.questions.into_inner().asked(),
        }
    }
}

impl<'a, N: Notes> Tracked<'a, N> {
    pub fn noting(base: &'a dyn View, notes: N) -> Tracked<'a, N> {
        Tracked {
            base,
            notes: RefCell::new(notes),
            labels: RefCell::default(),
            listed: Cell::new(false),
            everything: Cell::new(false),
            questions: RefCell::default(),
        }
    }

    /// Nodes were listed, or anything may have been read.
    pub fn scanned(&self) -> bool {
        self.listed.get() || self.everything.get() || !self.labels.borrow().is_empty()
    }

    /// What was noted; nothing where that does not say all: nodes were listed, or an index was asked.
    pub fn into_notes(self) -> Option<N> {
        let all = !self.scanned() && self.questions.borrow().is_empty();
        all.then(|| self.notes.into_inner())
    }

    fn note(&self, note: impl FnOnce(&mut N)) {
        if !self.everything.get() {
            note(&mut self.notes.borrow_mut());
        }
    }

    fn own(&self, node: NodeId) {
        self.note(|notes| notes.own(node));
    }

    fn edge(&self, edge: EdgeRef) {
        self.note(|notes| notes.edges_to(edge.source, edge.target, &[edge.kind]));
    }

    fn label(&self, label: Symbol) {
        let mut labels = self.labels.borrow_mut();
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
}

impl<N: Notes> View for Tracked<'_, N> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.own(node);
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.own(node);
        self.base.properties(node, each)
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.own(node);
        self.base.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.own(node);
        self.base.labels(node, each)
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.note(|notes| notes.edges(node, kinds));
        self.base.edges(node, direction, kinds, each)
    }

    /// However few of them were wanted: one that comes or goes may be among those.
    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.note(|notes| notes.edges(node, kinds));
        self.base.edges_while(node, direction, kinds, each)
    }

    fn some_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.note(|notes| notes.edges(node, kinds));
        self.base.some_edges(node, direction, kinds, each)
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.note(|notes| notes.edges(node, kinds));
        self.base.count_edges(node, direction, kinds)
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        self.base.about_edges(node, direction, kinds)
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.note(|notes| notes.edges_to(node, other, kinds));
        self.base.edges_to(node, other, direction, kinds, each)
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.edge(edge);
        self.base.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.edge(edge);
        self.base.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.edge(edge);
        self.base.edge_properties(edge, each)
    }

    fn untracked(&self) -> Option<&dyn View> {
        Some(self.base)
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.listed.set(true);
        self.base.nodes(each)
    }

    /// Whatever is written is among the last.
    fn recent(&self, count: usize) -> Vec<NodeId> {
        self.note_everything();
        self.base.recent(count)
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.label(label);
        self.base.labelled(label, each)
    }

    fn prefetch(&self, nodes: &[NodeId], edges: bool) {
        self.base.prefetch(nodes, edges);
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        self.label(label);
        self.base.count_labelled(label)
    }

    fn about(&self, what: About) -> f64 {
        self.base.about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        self.base.indexes(each)
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.base.index_size(question)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        if !self.everything.get() {
            self.questions.borrow_mut().note(question);
        }
        // Whether one of these still is an answer is a question about it.
        self.base.index_answer(question, &mut |node| {
            self.own(node);
            each(node);
        })
    }

    fn noted_bytes(&self) -> usize {
        self.notes.borrow().bytes() + self.questions.borrow().bytes()
    }

    fn note_everything(&self) {
        self.everything.set(true);
        drop(self.notes.take());
        drop(self.questions.take());
    }
}
