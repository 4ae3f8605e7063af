//! Live: the graph as a query sees it that waits for what comes, as `standing.wiretap` does. Such a query may run for as long as
//! weir does, and what it reads because of a result has to be there: so it sees one moment after another.
//!
//! ```text
//! results of a tick ─ move_on ─> a new snapshot ─ read by what follows ─ rest ─> none is held
//! ```
//!
//! A snapshot holds batches that have been merged into others since. A query that only waits holds none; what is in the middle
//! of listing nodes goes on with the moment it began with.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use weir_model::{NodeId, Symbol, Tick, Value};

use crate::arrangement::Snapshot;
use crate::graph::Graph;
use crate::history::Recall;
use crate::index::Question;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

pub struct Live<'g> {
    graph: &'g Graph,
    /// The past ends where this does.
    recall: &'g Recall<'g>,
    /// What is read. None while nobody has asked anything since it was let go.
    current: RefCell<Option<Rc<Snapshot>>>,
}

impl<'g> Live<'g> {
    pub fn new(graph: &'g Graph, recall: &'g Recall<'g>) -> Live<'g> {
        let live = Live { graph, recall, current: RefCell::default() };
        drop(live.now());
        live
    }

    /// From here on the graph is seen as it is, with everything before a tick. False where the workers did not come to that
    /// within the time; what was seen before is then seen still.
    pub fn move_on(&self, upper: Tick, limit: Duration) -> bool {
        let published = self.graph.published();
        // A graph that was dropped stays as it is, and results of it may still be on their way.
        if !published.wait(upper, limit) && published.dropped().is_none() {
            return false;
        }
        self.rest();
        drop(self.now());
        true
    }

    /// Holds nothing until something is asked.
    pub fn rest(&self) {
        drop(self.current.take());
    }

    fn now(&self) -> Rc<Snapshot> {
        let mut current = self.current.borrow_mut();
        let snapshot = current.get_or_insert_with(|| {
            let snapshot = Rc::new(self.graph.snapshot());
            self.recall.reach(snapshot.tick());
            snapshot
        });
        snapshot.clone()
    }
}

impl View for Live<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.now().property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.now().properties(node, each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.now().has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.now().labels(node, each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.now().edges(node, direction, kinds, each);
    }

    // `edges_while` gives all of one moment: who went on with it later could be at another one.

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.now().count_edges(node, direction, kinds)
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        self.now().about_edges(node, direction, kinds)
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.now().edges_to(node, other, direction, kinds, each);
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.now().has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.now().edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.now().edge_properties(edge, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.now().nodes(each);
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.now().labelled(label, each);
    }

    fn recent(&self, count: usize) -> Vec<NodeId> {
        self.now().recent(count)
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        self.now().count_labelled(label)
    }

    fn about(&self, what: About) -> f64 {
        self.now().about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        self.now().indexes(each);
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.now().index_size(question)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        self.now().index_answer(question, each);
    }

    fn live(&self) -> Option<&Live<'_>> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_model::Mutations;

    use super::*;
    use crate::store::InMemory;
    use crate::{Engine, Options};

    const SOON: Duration = Duration::from_secs(20);

    /// A node that was not there; the tick after that.
    fn add(graph: &Graph, node: u64) -> Tick {
        let mut mutations = Mutations::default();
        mutations.set_label(NodeId::new(0, node), graph.symbols().intern("l"), true);
        let upper = graph.apply(mutations, 1).unwrap();
        graph.confirm(upper).unwrap();
        upper
    }

    fn count(view: &dyn View) -> usize {
        let mut count = 0;
        view.nodes(&mut |_| {
            count += 1;
            true
        });
        count
    }

    #[test]
    fn one_moment_is_seen_after_another_and_none_is_held_between() {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        add(&graph, 1);
        let recall = Recall::new(&graph, Tick::ZERO, false);
        let live = Live::new(&graph, &recall);
        let upper = add(&graph, 2);
        assert_eq!(count(&live), 1, "what comes is not seen before it is asked for");
        assert!(!live.move_on(Tick::MAX, Duration::ZERO), "nothing is of so late a tick");
        assert_eq!(count(&live), 1);
        assert!(live.move_on(upper, SOON));
        assert_eq!(count(&live), 2);
        // Who is in the middle of a list goes on with it.
        let mut listed = 0;
        live.nodes(&mut |_| {
            listed += 1;
            assert!(live.move_on(add(&graph, 2 + listed), SOON));
            true
        });
        assert_eq!((listed, count(&live)), (2, 4));
        let held = Rc::downgrade(&live.now());
        assert!(held.upgrade().is_some());
        live.rest();
        assert!(held.upgrade().is_none(), "nobody reads it");
        add(&graph, 9);
        assert_eq!(count(&live), 5, "where nothing is held, what is asked is answered as of then");
    }
}
