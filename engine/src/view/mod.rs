//! View: what a query reads. A snapshot, a snapshot with the writes of a running transaction over it, a moment of the
//! past, and the reference evaluator's plain maps all answer these questions; `evaluate` does not know which it has.
//!
//! Every id names a node: one that was never written has no labels, properties or edges.

pub(crate) mod overlay;
pub(crate) mod tracked;
pub(crate) mod live;
#[cfg(test)]
pub(crate) mod looked;

use weir_model::{NodeId, Symbol, Value};

use self::live::Live;
use crate::index::Question;

/// One half of an edge as seen from a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HalfEdge {
    pub kind: Symbol,
    pub outgoing: bool,
    /// The node at the other end.
    pub other: NodeId,
    pub ordinal: u32,
}

/// An edge by what identifies it, in symbols.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeRef {
    pub source: NodeId,
    pub kind: Symbol,
    pub target: NodeId,
    pub ordinal: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Outgoing,
    Incoming,
    Both,
}

impl Direction {
    /// The direction of the same edges as their other ends see them.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
            Direction::Both => Direction::Both,
        }
    }

    /// Whether a half edge that leads away, or comes in, is one of these.
    pub fn admits(self, outgoing: bool) -> bool {
        match self {
            Direction::Both => true,
            Direction::Outgoing => outgoing,
            Direction::Incoming => !outgoing,
        }
    }
}

/// Answers what a query asks of a graph, all of it as of one moment unless it is `live`.
///
/// What has a body here may be left out: it is answered by the other methods, or as not known. Those that say "about" are for a
/// choice between ways to the same answer, and never part of it.
pub trait View {
    /// Null where the node has no such property.
    fn property(&self, node: NodeId, key: Symbol) -> Value;

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value));

    fn has_label(&self, node: NodeId, label: Symbol) -> bool;

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol));

    /// The half edges at a node. `kinds` empty means every type. A self loop has two halves: with `Both` it is offered
    /// twice, once outgoing and once incoming.
    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge));

    /// As `edges`, in the same order each time, for as long as `each` answers that more are wanted. A view that cannot break off
    /// gives all of them nevertheless. Answers whether all were given.
    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.edges(node, direction, kinds, &mut |half| {
            each(half);
        });
        true
    }

    /// As `edges_while`, for callers to whom the order does not matter, as long as it is the same each time.
    fn some_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.edges_while(node, direction, kinds, each)
    }

    /// How many half edges `edges` lists.
    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        let mut count = 0;
        self.edges(node, direction, kinds, &mut |_| count += 1);
        count
    }

    /// About how many half edges `edges` would list, where that is known without listing them; otherwise 0.
    fn about_edges(&self, _node: NodeId, _: Direction, _kinds: &[Symbol]) -> usize {
        0
    }

    /// Whether a scan for all nodes shows the node: it has a label, a property or half an edge.
    fn shows(&self, node: NodeId) -> bool {
        let mut found = false;
        self.labels(node, &mut |_| found = true);
        if !found {
            self.properties(node, &mut |_, _| found = true);
        }
        if !found {
            self.some_edges(node, Direction::Both, &[], &mut |_| {
                found = true;
                false
            });
        }
        found
    }

    /// Those of `edges` that lead to `other`. Where they can be looked up, the cost is that of the edges between the two nodes,
    /// and not of all that the node has.
    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.edges(node, direction, kinds, &mut |half| {
            if half.other == other {
                each(half);
            }
        });
    }

    /// Whether this very edge is there.
    fn has_edge(&self, edge: EdgeRef) -> bool;

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value;

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value));

    /// Every node that has at least one label, property or half edge, in the order of ids. `each` answers whether to go on.
    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool);

    /// Those of `nodes` that have the label.
    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.nodes(&mut |node| !self.has_label(node, label) || each(node));
    }

    /// Those of `nodes` that were written last, the last one first, each once and not more than `count`, as far as that is known.
    /// There may be others, and none may be given.
    fn recent(&self, _count: usize) -> Vec<NodeId> {
        Vec::new()
    }

    /// Says that these nodes will be asked for next: with `edges` for their edges too, otherwise for labels and properties alone.
    /// So a view that has to wait for memory can wait for all of it at once.
    fn prefetch(&self, _: &[NodeId], _edges: bool) {}

    /// How many `labelled` would list, where that is known without listing them.
    fn count_labelled(&self, _: Symbol) -> Option<u64> {
        None
    }

    /// About how many there are.
    fn about(&self, _: About) -> f64 {
        0.0
    }

    /// Calls `each` for every index there is: with its label and, unless it is one of the label alone, with its property.
    fn indexes(&self, _: &mut dyn FnMut(Symbol, Option<Symbol>)) {}

    /// How much work `index_answer` is. Asked only where there is an index for the question.
    fn index_size(&self, _: &Question) -> u64 {
        0
    }

    /// The nodes of the answer, in no order. Some may come more than once, and some that are not of the answer may come, too.
    fn index_answer(&self, _: &Question, _: &mut dyn FnMut(NodeId)) {}

    /// For a view that notes what is asked (`tracked`): about how much memory its notes take.
    fn noted_bytes(&self) -> usize {
        0
    }

    /// For a view that notes what is asked: from here on everything counts as asked for, and single notes are let go of.
    fn note_everything(&self) {}

    /// For a view that notes what is asked: the view below it, to ask without a note.
    fn untracked(&self) -> Option<&dyn View> {
        None
    }

    /// For a view that shows one moment after another: what moves it on.
    fn live(&self) -> Option<&Live<'_>> {
        None
    }
}

/// What `View::about` counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    Nodes,
    /// Nodes with a label.
    Labelled(Symbol),
    /// Edges of a type, or of any.
    Edges(Option<Symbol>),
}

/// The view of a query that reads nothing.
pub struct Empty;

impl View for Empty {
    fn property(&self, _: NodeId, _: Symbol) -> Value {
        Value::Null
    }
    fn properties(&self, _: NodeId, _: &mut dyn FnMut(Symbol, Value)) {}
    fn has_label(&self, _: NodeId, _: Symbol) -> bool {
        false
    }
    fn labels(&self, _: NodeId, _: &mut dyn FnMut(Symbol)) {}
    fn edges(&self, _: NodeId, _: Direction, _: &[Symbol], _: &mut dyn FnMut(HalfEdge)) {}
    fn has_edge(&self, _: EdgeRef) -> bool {
        false
    }
    fn edge_property(&self, _: EdgeRef, _: Symbol) -> Value {
        Value::Null
    }
    fn edge_properties(&self, _: EdgeRef, _: &mut dyn FnMut(Symbol, Value)) {}
    fn nodes(&self, _: &mut dyn FnMut(NodeId) -> bool) {}
}
