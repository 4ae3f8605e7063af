//! Reading: a snapshot as one query reads it. Nodes that will be asked for next are found together, and what was found is kept
//! until they are; what they are made of is fetched while those before them are looked at.

use std::cell::RefCell;

use weir_model::{NodeId, Symbol, Value};

use super::facts::{self, Facts, Part};
use super::locate::{Locator, parts};
use super::snapshot::Snapshot;
use crate::index::Question;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// A node is fetched this many nodes before it is looked at.
const AHEAD: usize = 8;

/// This many nodes are fetched together.
const TOGETHER: usize = 16;

/// Once this many others were asked for in a row, nobody comes for the nodes that were expected.
const MISSED_MAX: u32 = 32;

pub struct Reading<'a> {
    snapshot: &'a Snapshot,
    expected: RefCell<Expected<'a>>,
}

#[derive(Default)]
struct Expected<'a> {
    locator: Locator,
    nodes: Vec<Node>,
    parts: Vec<Part<'a>>,
    /// Whether their edges will be asked for, too.
    edges: bool,
    /// The node that was asked for last.
    at: usize,
    /// The first that is not fetched yet.
    ahead: usize,
    /// How often others were asked for since.
    missed: u32,
    /// The nodes of one shard, and their places among all.
    here: Vec<NodeId>,
    places: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Node {
    id: NodeId,
    /// Where its parts begin, newest first, and how many there are.
    start: u32,
    count: u32,
}

impl<'a> Expected<'a> {
    /// These will be asked for next, and no others that were expected before.
    fn begin(&mut self, nodes: &[NodeId], edges: bool, snapshot: &'a Snapshot) {
        let Expected { locator, nodes: all, parts: all_parts, here, places, .. } = self;
        all.clear();
        all_parts.clear();
        all.extend(nodes.iter().map(|id| Node { id: *id, start: 0, count: 0 }));
        for shard in 0..snapshot.shards() {
            here.clear();
            places.clear();
            for (place, node) in nodes.iter().enumerate().filter(|(_, node)| snapshot.shard_of(**node) == shard) {
                here.push(*node);
                places.push(place);
            }
            let batches = snapshot.shard(shard);
            for of_node in locator.find(here, batches).chunk_by(|a, b| a.node == b.node) {
                let node = &mut all[places[of_node[0].node as usize]];
                (node.start, node.count) = (all_parts.len() as u32, of_node.len() as u32);
                all_parts.extend(parts(batches, of_node));
            }
        }
        (self.edges, self.at, self.ahead, self.missed) = (edges, 0, 0, 0);
        self.fetch();
    }

    /// Fetches some nodes, if it is time: one right after the other, so that the processor waits for them together.
    fn fetch(&mut self) {
        if self.ahead < self.nodes.len() && self.ahead < self.at + AHEAD {
            let until = self.nodes.len().min(self.ahead + TOGETHER);
            for node in &self.nodes[self.ahead..until] {
                self.parts_of(node).iter().for_each(|part| part.prefetch(self.edges));
            }
            self.ahead = until;
        }
    }

    fn parts_of(&self, node: &Node) -> &[Part<'a>] {
        &self.parts[node.start as usize..][..node.count as usize]
    }

    /// A node that is expected, the one that was asked for last or a later one.
    fn find(&mut self, id: NodeId) -> Option<&[Part<'a>]> {
        if self.nodes.is_empty() {
            return None;
        }
        let further = self.nodes[self.at..].iter().position(|node| node.id == id);
        self.missed = if further.is_some() { 0 } else { self.missed + 1 };
        if self.missed == MISSED_MAX {
            self.nodes.clear();
            self.at = 0;
        }
        self.at += further?;
        self.fetch();
        Some(self.parts_of(&self.nodes[self.at]))
    }
}

impl<'a> Reading<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Reading<'a> {
        Reading { snapshot, expected: RefCell::default() }
    }

    fn facts(&self, node: NodeId) -> Facts<'a> {
        let expected = self.expected.borrow_mut().find(node).map(|parts| Facts::known(parts.iter().copied()));
        expected.unwrap_or_else(|| self.snapshot.facts(node))
    }

    fn at(&self) -> u64 {
        self.snapshot.tick().0
    }
}

impl View for Reading<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        match self.expected.borrow_mut().find(node) {
            Some(parts) => facts::property(parts, key, self.at()),
            None => self.snapshot.property(node, key),
        }
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.facts(node).properties(self.at(), each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        match self.expected.borrow_mut().find(node) {
            Some(parts) => facts::has_label(parts, label, self.at()),
            None => self.snapshot.has_label(node, label),
        }
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.facts(node).labels(self.at(), each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.facts(node).edges(direction, kinds, self.at(), each);
    }

    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.facts(node).edges_while(direction, kinds, self.at(), each)
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.facts(node).count_edges(direction, kinds, self.at())
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        self.facts(node).about_edges(direction, kinds)
    }

    fn prefetch(&self, nodes: &[NodeId], edges: bool) {
        self.expected.borrow_mut().begin(nodes, edges, self.snapshot);
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.facts(node).edges_to(other, direction, kinds, self.at(), each);
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.snapshot.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.snapshot.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.snapshot.edge_properties(edge, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.snapshot.nodes(each);
    }

    fn recent(&self, count: usize) -> Vec<NodeId> {
        self.snapshot.recent(count)
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.snapshot.labelled(label, each);
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        self.snapshot.count_labelled(label)
    }

    fn about(&self, what: About) -> f64 {
        self.snapshot.about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        self.snapshot.indexes(each);
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.snapshot.index_size(question)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        self.snapshot.index_answer(question, each);
    }
}
