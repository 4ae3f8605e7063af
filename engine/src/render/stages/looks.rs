//! Looks: what of the graph was looked at for a row, and which rows a change concerns.
//!
//! Who looked at the labels and properties of a node is not concerned by its edges; who looked for an edge between two nodes is
//! not by those to others. So a node of many edges does not make everybody who looked at it look again each time one comes.
//!
//! A look is kept as a hash of it, of 64 bits. Two that have the same make a row look again in vain.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashSet};
use smallvec::{SmallVec, smallvec};
use weir_model::codec::FactKey;
use weir_model::{NodeId, Symbol, Value};

use crate::arrangement::{Fact, Segment};
use crate::render::results::Row;
use crate::view::tracked::Notes;

#[derive(Clone, Copy, Hash, Debug)]
enum Look {
    /// Labels and properties.
    Own(NodeId),
    /// Edges of a type, or of any.
    Edges(NodeId, Option<Symbol>),
    EdgesTo(NodeId, NodeId),
}

/// A look, as it is kept.
pub type Mark = u64;

impl Look {
    fn mark(self) -> Mark {
        FxBuildHasher.hash_one(self)
    }
}

/// What was looked at for one row.
#[derive(Default)]
pub struct Looks(pub FxHashSet<Mark>);

impl Looks {
    /// Somebody else tells when labels or properties of this node change.
    pub fn leave_own(&mut self, node: NodeId) {
        self.0.remove(&Look::Own(node).mark());
    }

    fn has_all(&self, node: NodeId, kinds: &[Symbol]) -> bool {
        let has = |kind| self.0.contains(&Look::Edges(node, kind).mark());
        has(None) || !kinds.is_empty() && kinds.iter().all(|kind| has(Some(*kind)))
    }
}

impl Notes for Looks {
    fn own(&mut self, node: NodeId) {
        self.0.insert(Look::Own(node).mark());
    }

    fn edges(&mut self, node: NodeId, kinds: &[Symbol]) {
        match kinds {
            [] => drop(self.0.insert(Look::Edges(node, None).mark())),
            kinds => self.0.extend(kinds.iter().map(|kind| Look::Edges(node, Some(*kind)).mark())),
        }
    }

    fn edges_to(&mut self, node: NodeId, other: NodeId, kinds: &[Symbol]) {
        // Whoever goes through the edges of a node mostly asks for their properties next.
        if !self.has_all(node, kinds) {
            self.0.insert(Look::EdgesTo(node, other).mark());
        }
    }
}

/// A change of a node, as far as those who looked at it can tell one from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Touch {
    /// Of its labels and properties.
    Own,
    /// Of an edge of this type, or of a property of one.
    Edges(Symbol),
    /// Of an edge with this node at its other end, or of a property of one.
    EdgesTo(NodeId),
}

impl Touch {
    pub fn each(segment: &Segment, fact: &Fact, each: &mut impl FnMut(Touch)) {
        match segment.key(fact) {
            FactKey::Single => each(Touch::Own),
            FactKey::Node(high, low) | FactKey::Further(high, low, _) => {
                each(Touch::Edges(fact.tag.symbol()));
                each(Touch::EdgesTo(NodeId::new(high, low)));
            }
        }
    }

    /// What of a node a tick touches, each once and in order, as it comes to the stages: edges, of which there may be very many,
    /// in one row.
    pub fn rows(node: NodeId, touches: impl Iterator<Item = Touch>, each: &mut impl FnMut(Row)) {
        let mut marks: SmallVec<[u8; 64]> = SmallVec::new();
        let mut mark = |look: Look| marks.extend_from_slice(&look.mark().to_le_bytes());
        let mut has_edges = false;
        for touch in touches {
            match touch {
                Touch::Own => each(Row(smallvec![Value::Node(node)])),
                Touch::Edges(kind) => {
                    if !std::mem::replace(&mut has_edges, true) {
                        mark(Look::Edges(node, None));
                    }
                    mark(Look::Edges(node, Some(kind)));
                }
                Touch::EdgesTo(other) => mark(Look::EdgesTo(node, other)),
            }
        }
        if has_edges {
            each(Row(smallvec![Value::Bytes(marks.as_slice().into())]));
        }
    }
}

/// What one tick touched.
#[derive(Default)]
pub struct Touched {
    /// The looks that see something else now.
    pub marks: Vec<Mark>,
    /// Nodes of which labels or properties changed.
    pub own: Vec<NodeId>,
}

/// The node whose labels or properties were touched, where that is what a row says.
pub fn own_of(row: &Row) -> Option<NodeId> {
    if let [Value::Node(node)] = &*row.0 { Some(*node) } else { None }
}

/// The looks that see something else where a row says what was touched.
pub fn marks_of(row: &Row) -> impl Iterator<Item = Mark> + '_ {
    let (own, others): (Option<Mark>, &[[u8; size_of::<Mark>()]]) = match &*row.0 {
        [Value::Node(node)] => (Some(Look::Own(*node).mark()), &[]),
        [Value::Bytes(marks)] => (None, marks.as_chunks().0),
        _ => (None, &[]),
    };
    own.into_iter().chain(others.iter().map(|mark| Mark::from_le_bytes(*mark)))
}

impl Touched {
    pub fn add(&mut self, row: &Row) {
        self.own.extend(own_of(row));
        self.marks.extend(marks_of(row));
    }

    pub fn settle(&mut self) {
        self.marks.sort_unstable();
        self.marks.dedup();
        self.own.sort_unstable();
        self.own.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_concerns_those_who_looked_there() {
        let (node, other, third) = (NodeId::new(1, 2), NodeId::new(3, 4), NodeId::new(5, 6));
        let (kind, another) = (Symbol(7), Symbol(8));
        let touched = |touches: &[Touch]| {
            let mut touched = Touched::default();
            Touch::rows(node, touches.iter().copied(), &mut |row| touched.add(&row));
            touched.settle();
            touched
        };
        let sees = |touched: &Touched, look: Look| touched.marks.binary_search(&look.mark()).is_ok();
        let mut rows = Vec::new();
        Touch::rows(node, [Touch::Own, Touch::Edges(kind), Touch::EdgesTo(other)].into_iter(), &mut |row| rows.push(row));
        let marks: Vec<Vec<Mark>> = rows.iter().map(|row| marks_of(row).collect()).collect();
        let edges = [Look::Edges(node, None), Look::Edges(node, Some(kind)), Look::EdgesTo(node, other)];
        assert_eq!(marks, [vec![Look::Own(node).mark()], edges.map(Look::mark).to_vec()], "each row by itself");
        assert_eq!(rows.iter().map(own_of).collect::<Vec<_>>(), [Some(node), None]);
        let own = touched(&[Touch::Own]);
        assert_eq!((&own.own[..], own.marks.len()), (&[node][..], 1));
        assert!(sees(&own, Look::Own(node)) && !sees(&own, Look::Own(other)));
        let edges = touched(&[Touch::Edges(kind), Touch::EdgesTo(other)]);
        assert!(edges.own.is_empty());
        for (look, expected) in [
            (Look::Own(node), false),
            (Look::Edges(node, None), true),
            (Look::Edges(node, Some(kind)), true),
            (Look::Edges(node, Some(another)), false),
            (Look::EdgesTo(node, other), true),
            (Look::EdgesTo(node, third), false),
            (Look::EdgesTo(other, node), false),
        ] {
            assert_eq!(sees(&edges, look), expected, "{look:?}");
        }
    }

    #[test]
    fn who_looked_at_all_edges_needs_no_note_of_one() {
        let (node, other, kind) = (NodeId::new(1, 2), NodeId::new(3, 4), Symbol(5));
        let mut looks = Looks::default();
        looks.edges(node, &[kind]);
        looks.edges_to(node, other, &[kind]);
        assert_eq!(looks.0.len(), 1);
        looks.edges_to(node, other, &[]);
        assert_eq!(looks.0.len(), 2);
        looks.edges(other, &[]);
        looks.edges_to(other, node, &[kind]);
        assert_eq!(looks.0.len(), 3);
    }
}
