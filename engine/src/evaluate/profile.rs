//! Profile: how often each operator of a plan gave a row, what it read for that, and how long it took itself.
//!
//! Operators call each other, so at every moment exactly one of them is at work: whoever is entered or returned to gets
//! what is counted from then on.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use weir_model::plan::Operator;
use weir_model::{NodeId, Plan, Symbol, Value};

use crate::index::Question;
use crate::view::live::Live;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// Of one plan; filled by one run.
pub struct Profile {
    /// By address: the plan is not moved while it runs.
    numbers: FxHashMap<*const Operator, usize>,
    counted: RefCell<Vec<Counts>>,
    at_work: Cell<Option<usize>>,
    since: Cell<Instant>,
    /// Facts read since then.
    facts: Cell<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub rows: u64,
    pub facts: u64,
    pub time: Duration,
}

impl Profile {
    pub fn new(plan: &Plan) -> Profile {
        fn number(operator: &Operator, numbers: &mut FxHashMap<*const Operator, usize>) {
            numbers.insert(std::ptr::from_ref(operator), numbers.len());
            operator.children().into_iter().for_each(|child| number(child, numbers));
        }
        let mut numbers = FxHashMap::default();
        number(&plan.root, &mut numbers);
        let counted = RefCell::new(vec![Counts::default(); numbers.len()]);
        Profile { numbers, counted, at_work: Cell::new(None), since: Cell::new(Instant::now()), facts: Cell::new(0) }
    }

    /// What an operator of the plan did.
    pub fn of(&self, operator: &Operator) -> Counts {
        self.number(operator).map_or(Counts::default(), |number| self.counted.borrow()[number])
    }

    /// A run begins: what an earlier attempt counted is forgotten.
    pub(super) fn begin(&self) {
        self.counted.borrow_mut().fill(Counts::default());
        self.at_work.set(None);
        self.facts.set(0);
        self.since.set(Instant::now());
    }

    /// Operators of queries that run in place of a call have none: what they do is done by the call.
    pub(super) fn number(&self, operator: &Operator) -> Option<usize> {
        self.numbers.get(&std::ptr::from_ref(operator)).copied()
    }

    /// Gives what was counted to the one at work, and lets another work. Answers who it was.
    pub(super) fn enter(&self, number: Option<usize>) -> Option<usize> {
        let now = Instant::now();
        let before = self.at_work.replace(number);
        if let Some(before) = before {
            let counts = &mut self.counted.borrow_mut()[before];
            counts.time += now.duration_since(self.since.get());
            counts.facts += self.facts.get();
        }
        self.facts.set(0);
        self.since.set(now);
        before
    }

    pub(super) fn row(&self, number: usize) {
        self.counted.borrow_mut()[number].rows += 1;
    }

    pub(super) fn read(&self, count: u64) {
        self.facts.set(self.facts.get() + count);
    }
}

/// A view that counts what is read: every answer about one label, property or edge is a fact, and so is a node in a list.
pub(super) struct Counting<'a> {
    pub base: &'a dyn View,
    pub profile: &'a Profile,
}

impl View for Counting<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.profile.read(1);
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.properties(node, &mut |key, value| {
            self.profile.read(1);
            each(key, value);
        });
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.profile.read(1);
        self.base.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.base.labels(node, &mut |label| {
            self.profile.read(1);
            each(label);
        });
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges(node, direction, kinds, &mut |half| {
            self.profile.read(1);
            each(half);
        });
    }

    /// Not counted: who lists a node's edges in pieces passes over some of them again, and counts each once.
    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.base.edges_while(node, direction, kinds, each)
    }

    /// One look-up, however many there are.
    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.profile.read(1);
        self.base.count_edges(node, direction, kinds)
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        self.base.about_edges(node, direction, kinds)
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.base.edges_to(node, other, direction, kinds, &mut |half| {
            self.profile.read(1);
            each(half);
        });
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.profile.read(1);
        self.base.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.profile.read(1);
        self.base.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.base.edge_properties(edge, &mut |key, value| {
            self.profile.read(1);
            each(key, value);
        });
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.base.nodes(&mut |node| {
            self.profile.read(1);
            each(node)
        });
    }

    fn recent(&self, count: usize) -> Vec<NodeId> {
        let found = self.base.recent(count);
        self.profile.read(found.len() as u64);
        found
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.base.labelled(label, &mut |node| {
            self.profile.read(1);
            each(node)
        });
    }

    fn prefetch(&self, nodes: &[NodeId], edges: bool) {
        self.base.prefetch(nodes, edges);
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        self.base.count_labelled(label)
    }

    fn about(&self, what: About) -> f64 {
        self.base.about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        self.base.indexes(each);
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.base.index_size(question)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        self.base.index_answer(question, &mut |node| {
            self.profile.read(1);
            each(node);
        });
    }

    fn noted_bytes(&self) -> usize {
        self.base.noted_bytes()
    }

    fn note_everything(&self) {
        self.base.note_everything();
    }

    fn live(&self) -> Option<&Live<'_>> {
        self.base.live()
    }
}
