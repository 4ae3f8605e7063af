//! Neighbour: what a pattern asks of the nodes at the other ends of the edges of a hub.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::mutation::{Kind, Tag};
use weir_model::{NodeId, Symbol, Value};

use super::Hub;
use crate::arrangement::{Fact, Facts, Segment, edge_ranges};
use crate::render::Time;
use crate::render::family::Family;
use crate::render::program::{Move, Program};
use crate::render::walk::{Here, NodeReader};
use crate::view::{Direction, HalfEdge};

/// What a pattern asks of the nodes a crossing leads to.
pub(super) struct NeighbourTest {
    node: usize,
    /// The edge that is crossed, as they see it.
    pub(super) back: Edges,
    others: Vec<Edges>,
}

/// An edge of a pattern as one of its nodes sees it.
pub(super) struct Edges {
    pub(super) direction: Direction,
    pub(super) kinds: Vec<Symbol>,
    ranges: SmallVec<[(Tag, Tag); 4]>,
    /// A node needs at least this many of these edges.
    least: usize,
}

impl Edges {
    fn new(direction: Direction, kinds: &[Symbol]) -> Edges {
        Edges { direction, kinds: kinds.to_vec(), ranges: edge_ranges(direction, kinds), least: 1 }
    }

    fn concerns(&self, tag: Tag) -> bool {
        self.ranges.iter().any(|(from, to)| (*from..=*to).contains(&tag))
    }

    /// Whether all that fit another fit this one.
    fn hold(&self, other: &Edges) -> bool {
        let kinds =
            self.kinds.is_empty() || (!other.kinds.is_empty() && other.kinds.iter().all(|kind| self.kinds.contains(kind)));
        kinds && (self.direction == Direction::Both || self.direction == other.direction)
    }

    /// Whether there are enough at a tick.
    fn are_met(&self, facts: &Facts<'_>, at: Time) -> bool {
        facts.has_edges(&self.ranges, self.least, at)
    }

    /// Whether there may be enough at any tick.
    fn may_be_met(&self, facts: &Facts<'_>) -> bool {
        facts.about_edges(self.direction, &self.kinds) >= self.least
    }
}

impl NeighbourTest {
    pub(super) fn new(program: &Program, edge: usize, to: usize) -> Option<NeighbourTest> {
        let node = program.nodes.iter().position(|node| node.slot == to)?;
        let seen = |edge: usize| {
            let view = &program.edges[edge];
            let direction = match (view.directed, view.source == to) {
                (false, _) => Direction::Both,
                (true, true) => Direction::Outgoing,
                (true, false) => Direction::Incoming,
            };
            Edges::new(direction, &view.kinds)
        };
        let back = seen(edge);
        let at_node = |other: &usize| {
            let view = &program.edges[*other];
            *other != edge && (view.source == to || view.target == to)
        };
        let other = |other: usize| {
            let mut edges = seen(other);
            // The edge that was crossed is none of them.
            edges.least += usize::from(edges.hold(&back) && told_apart(program, edge, other));
            edges
        };
        let others = (0..program.edges.len()).filter(at_node).map(other).collect();
        Some(NeighbourTest { node, back, others })
    }

    /// Changes when members come to the family that let more of these nodes through.
    pub(super) fn joined(&self, family: &Family) -> u64 {
        if family.compares(self.node) { family.joined } else { 0 }
    }

    /// Whether the local view of a node may be another one after an update.
    fn local(&self, program: &Program, tag: Tag) -> bool {
        let (view, symbol) = (&program.nodes[self.node], tag.symbol());
        match tag.kind() {
            Kind::Label => view.labels.contains(&symbol),
            Kind::Property => {
                let read = view.reads.iter().any(|(key, _)| *key == symbol);
                read || view.reads_all.is_some() || view.present.contains(&symbol)
            }
            _ => false,
        }
    }

    pub(super) fn concerns(&self, program: &Program, tag: Tag) -> bool {
        self.local(program, tag) || self.back.concerns(tag) || self.others.iter().any(|edges| edges.concerns(tag))
    }

    /// The tags that concern it, or None if they cannot be told one by one.
    pub(super) fn tags(&self, program: &Program) -> Option<Vec<Tag>> {
        let (view, edges) = (&program.nodes[self.node], || std::iter::once(&self.back).chain(&self.others));
        if view.reads_all.is_some() || edges().any(|edges| edges.kinds.is_empty()) {
            return None;
        }
        let labels = view.labels.iter().map(|label| Tag::new(Kind::Label, *label));
        let keys = view.present.iter().chain(view.reads.iter().map(|(key, _)| key)).map(|key| Tag::new(Kind::Property, *key));
        // With its types given, each range is one tag.
        let halves = edges().flat_map(|edges| edges.ranges.iter().map(|(tag, _)| *tag));
        Some(labels.chain(keys).chain(halves).collect())
    }

    /// Whether a node has at a tick what is asked of it.
    pub(super) fn is_met(&self, reader: NodeReader<'_>, here: Here<'_, '_>, at: Time, row: &mut Vec<Value>) -> bool {
        self.others.iter().all(|edges| edges.are_met(here.facts, at)) && self.looks_right(reader, here, at, row)
    }

    /// Whether the local view of a node is one that the pattern asks for.
    fn looks_right(&self, reader: NodeReader<'_>, Here { id, facts }: Here<'_, '_>, at: Time, row: &mut Vec<Value>) -> bool {
        let program = &reader.family.program;
        row.resize(program.width, Value::Null);
        row[program.nodes[self.node].slot] = Value::Node(id);
        reader.read(self.node, facts, at, row)
    }

    /// Whether a node that a batch changes may have what is asked of it: its edges at any tick, and its local view at `last` or
    /// at the tick of one of the updates.
    pub(super) fn may_be_met(
        &self,
        reader: NodeReader<'_>,
        here: Here<'_, '_>,
        (segment, updates): (&Segment, &[Fact]),
        last: Time,
        row: &mut Vec<Value>,
    ) -> bool {
        let program = &reader.family.program;
        let local = segment.tags(updates).filter(|(tag, _)| self.local(program, *tag)).map(|(_, fact)| segment.time(fact));
        self.others.iter().all(|edges| edges.may_be_met(here.facts))
            && std::iter::once(last).chain(local).any(|at| self.looks_right(reader, here, at, row))
    }

    /// The edges that a hub would be at the other end of, among those of a node at a tick.
    pub(super) fn each_back(&self, facts: &Facts<'_>, at: Time, hubs: &FxHashMap<NodeId, Hub>, visit: &mut dyn FnMut(HalfEdge)) {
        let Edges { direction, kinds, .. } = &self.back;
        if kinds.is_empty() || facts.about_edges(*direction, kinds) <= hubs.len() {
            return facts.edges(*direction, kinds, at, visit);
        }
        hubs.keys().for_each(|hub| facts.edges_to(*hub, *direction, kinds, at, visit));
    }

    /// Whether a node of a batch is a neighbour of any of these hubs, was one, or becomes one.
    pub(super) fn is_near(
        &self,
        facts: &Facts<'_>,
        (segment, updates): (&Segment, &[Fact]),
        at: Time,
        hubs: &FxHashMap<NodeId, Hub>,
    ) -> bool {
        let mut near = self.each_changed(segment, updates).any(|(half, _)| hubs.contains_key(&half.other));
        if !near {
            self.each_back(facts, at, hubs, &mut |half| near |= hubs.contains_key(&half.other));
        }
        near
    }

    /// The edges that a hub may be at the other end of, among those that come or go in a batch, and whether they come.
    pub(super) fn each_changed<'a>(
        &'a self,
        segment: &'a Segment,
        updates: &'a [Fact],
    ) -> impl Iterator<Item = (HalfEdge, bool)> + 'a {
        updates.iter().filter(|fact| self.back.concerns(fact.tag)).map(|fact| (segment.half(fact), fact.adds()))
    }
}

/// Whether a pattern has two edges that must not be the same.
fn told_apart(program: &Program, one: usize, other: usize) -> bool {
    program.paths.iter().flat_map(|path| &path.moves).any(|step| match step {
        Move::Expand(expansion) => {
            let apart = |a: usize, b: usize| expansion.edge == a && expansion.other_edges.contains(&b);
            apart(one, other) || apart(other, one)
        }
        _ => false,
    })
}
