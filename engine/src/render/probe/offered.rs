//! Offered: what a batch changes, as changes of atoms of the families it can concern. Nothing here knows of timely: what is found
//! is given back.

use weir_model::mutation::Kind;
use weir_model::plan::Atom;
use weir_model::{Expr, Symbol, Value};

use super::spent::Spent;
use crate::arrangement::build::Located;
use crate::arrangement::{Batch, Fact, Facts, Segment};
use crate::render::Time;
use crate::render::dense::Dense;
use crate::render::family::Family;
use crate::render::program::{EdgeView, NodeView, Path, Version};
use crate::render::queries::{Origin, Queries, Route};
use crate::render::walk::{Change, Findings, Ground, Here, Walk};
use crate::view::HalfEdge;

/// A batch on offer to the families of all queries.
pub(super) struct Offered<'a> {
    pub(super) queries: &'a Queries,
    pub(super) batch: &'a Batch,
    pub(super) located: &'a Located,
    pub(super) ground: Ground<'a>,
    pub(super) spent: &'a Spent,
}

/// A change of a node that a path of a family begins at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    route: Route,
    /// The tick of the change; 0 for `Origin::EdgeView`, which is offered once for all ticks of the batch.
    time: Time,
    /// For `Origin::Edge`, the place of the edge among the updates of the node; otherwise 0.
    place: usize,
}

/// A node that the batch changes.
struct ChangedNode<'f, 'a> {
    here: Here<'f, 'a>,
    segment: &'a Segment,
    updates: &'a [Fact],
    /// Its changed edges as they were last looked at: mostly the next route asks for the same.
    seen: SeenEdges,
}

/// An edge that came or went, offered as an edge of a pattern.
#[derive(Clone, Copy)]
pub struct EdgeChange<'c> {
    pub change: Change,
    /// The edge of the pattern.
    pub edge: usize,
    /// The edge of the graph, by its outgoing half.
    pub half: HalfEdge,
    /// Those conditions of the pattern on the edge that are not known to hold.
    pub conditions: &'c [Expr],
}

impl<'a> Offered<'a> {
    /// Walks everything the batch changes, node by node, for the families it can concern. What begins or ends to pass a sieve is
    /// left to `walk_turns`.
    pub(super) fn walk(&self, findings: &mut Findings) {
        let routes = &self.queries.routes;
        // What comes or goes, in the order of the facts; and what is looked at before and after, once for each tick.
        let mut edges: Vec<Offer> = Vec::new();
        let mut views: Vec<Offer> = Vec::new();
        // Most changes concern the family the last one did.
        let mut current: Option<&Family> = None;
        let mut row: Vec<Value> = Vec::new();
        for (index, id) in self.batch.ids.iter().enumerate() {
            let (segment, updates) = self.batch.node(index);
            edges.clear();
            views.clear();
            for (place, (tag, fact)) in segment.tags(updates).enumerate() {
                if routes.may_concern(tag) {
                    routes.each(tag, |route| match route.from {
                        Origin::Edge => edges.push(Offer { route, time: segment.time(fact), place }),
                        Origin::Node => views.push(Offer { route, time: segment.time(fact), place: 0 }),
                        Origin::EdgeView => views.push(Offer { route, time: 0, place: 0 }),
                    });
                }
            }
            if edges.is_empty() && views.is_empty() {
                continue;
            }
            views.sort_unstable();
            views.dedup();
            let facts = self.located.facts(self.batch, index);
            let here = Here { id: *id, facts: &facts };
            let mut node = ChangedNode { here, segment, updates, seen: SeenEdges::default() };
            for offer in edges.iter().chain(&views) {
                let family = match current {
                    Some(family) if family.number == offer.route.family => family,
                    _ => {
                        let Some(family) = self.queries.family(offer.route.family) else { continue };
                        if let Some(before) = current.replace(family) {
                            self.go_on(before, findings);
                        }
                        row.clear();
                        row.resize(family.program.width, Value::Null);
                        family
                    }
                };
                self.walk_from(family, *offer, &mut node, &mut row, findings);
            }
        }
        if let Some(last) = current {
            self.go_on(last, findings);
        }
    }

    /// Walks the path of a family that begins at a change of a node.
    fn walk_from(
        &self,
        family: &'a Family,
        Offer { route, time, place }: Offer,
        node: &mut ChangedNode<'_, 'a>,
        row: &mut [Value],
        findings: &mut Findings,
    ) {
        let (number, here) = (usize::from(route.path), node.here);
        let path = &family.program.paths[number];
        let one_time = (route.from != Origin::EdgeView).then_some(time);
        if !has_needs(path, here.facts, one_time) {
            return;
        }
        self.spent.visit(family, self.ground, findings, |walk| match (path.atom, route.from) {
            (Atom::Node(view), _) => change_of_view(walk, number, view, here, time, row),
            (Atom::Edge(edge), Origin::EdgeView) => change_of_edges(walk, number, edge, node, row),
            (Atom::Edge(edge), _) => {
                let fact = &node.updates[place];
                let change = Change { path: number, time, diff: if fact.adds() { 1 } else { -1 } };
                let conditions = &family.program.edges[edge].conditions;
                change_of_edge(walk, EdgeChange { change, edge, half: node.segment.half(fact), conditions }, here, row);
            }
        });
    }

    /// Goes on with the rows that wait for a node, which are all of this family.
    fn go_on(&self, family: &'a Family, findings: &mut Findings) {
        if findings.has_waiting() {
            self.spent.visit(family, self.ground, findings, |walk| walk.go_on());
        }
    }

    /// Walks from the edges that begin or end to pass a sieve, one path after another.
    pub(super) fn walk_turns(&self, dense: &Dense, findings: &mut Findings) {
        let mut row: Vec<Value> = Vec::new();
        for (sieve, turns) in dense.turns() {
            for (number, path) in self.queries.routes.of_sieve(sieve) {
                let (path, Some(family)) = (usize::from(*path), self.queries.family(*number)) else { continue };
                let Atom::Edge(edge) = family.program.paths[path].atom else { continue };
                row.clear();
                row.resize(family.program.width, Value::Null);
                self.spent.visit(family, self.ground, findings, |walk| {
                    for of_node in turns.chunk_by(|a, b| a.node == b.node) {
                        let node = of_node[0].node;
                        let facts = self.located.facts(self.batch, node);
                        if !has_needs(&family.program.paths[path], &facts, None) {
                            continue;
                        }
                        let here = Here { id: self.batch.ids[node], facts: &facts };
                        for turn in of_node {
                            let change = Change { path, time: turn.time, diff: if turn.begins { 1 } else { -1 } };
                            // That its conditions hold is what the sieve has found.
                            change_of_edge(walk, EdgeChange { change, edge, half: turn.half, conditions: &[] }, here, &mut row);
                        }
                    }
                    walk.go_on();
                });
            }
        }
    }
}

/// False where the node lacks an edge that every match has that begins here along this path. `time` is the tick of the change,
/// or none where there are changes at several: then it only counts whether there may be such an edge at any of them.
pub fn has_needs(path: &Path, facts: &Facts<'_>, time: Option<Time>) -> bool {
    path.needs.iter().all(|need| {
        let at = match need.version {
            Version::After => time,
            Version::Before => time.and_then(|time| time.checked_sub(1)),
        };
        facts.may_have(&need.ranges, at.unwrap_or(Time::MAX))
    })
}

/// Walks from an edge that came or went, once for each way round in which it fits the pattern. `here` is its source.
pub fn change_of_edge<'a>(
    walk: &mut Walk<'a, '_>,
    EdgeChange { change, edge, half, conditions }: EdgeChange<'_>,
    here: Here<'_, 'a>,
    row: &mut [Value],
) {
    let view = &walk.program.edges[edge];
    let (id, other) = (here.id, half.other);
    walk.put(edge, row, [id, other], half);
    let both = [[id, other], [other, id]];
    let ways = if view.directed || id == other { 1 } else { 2 };
    for [source, target] in &both[..ways] {
        if view.source == view.target && source != target {
            continue;
        }
        row[view.source] = Value::Node(*source);
        row[view.target] = Value::Node(*target);
        if conditions.iter().all(|condition| walk.family.passes(condition, row)) {
            walk.run(change, 0, row, Some(here));
        }
    }
}

/// Walks from edges of which properties are read: from each that came, went or has other properties, as it was and as it is.
fn change_of_edges<'a>(walk: &mut Walk<'a, '_>, path: usize, edge: usize, node: &mut ChangedNode<'_, 'a>, row: &mut [Value]) {
    let view = &walk.program.edges[edge];
    if !node.seen.is_of(view) {
        node.seen = SeenEdges::new(view, (node.segment, node.updates), node.here.facts);
    }
    for SeenEdge { half, time, was, is } in &node.seen.edges {
        for (values, diff) in [(was, -1), (is, 1)] {
            let Some(values) = values else { continue };
            view.reads.iter().zip(values).for_each(|((_, slot), value)| row[*slot].clone_from(value));
            let change = Change { path, time: *time, diff };
            change_of_edge(walk, EdgeChange { change, edge, half: *half, conditions: &view.conditions }, node.here, row);
        }
    }
}

/// The edges of a node that a batch changes, as edges of a pattern see them. Most edges of a pattern see the same.
#[derive(Default)]
struct SeenEdges {
    kinds: Vec<Symbol>,
    keys: Vec<Symbol>,
    edges: Vec<SeenEdge>,
}

struct SeenEdge {
    half: HalfEdge,
    time: Time,
    /// Its properties; none where it is not there.
    was: Option<Vec<Value>>,
    is: Option<Vec<Value>>,
}

impl SeenEdges {
    fn new(view: &EdgeView, updates: (&Segment, &[Fact]), facts: &Facts<'_>) -> SeenEdges {
        let keys: Vec<Symbol> = view.reads.iter().map(|(key, _)| *key).collect();
        let seen = |(half, time): (HalfEdge, Time)| {
            let mut read = |at: Time| -> Option<Vec<Value>> {
                let property = |key: &Symbol| facts.edge_property(half.kind, half.other, half.ordinal, *key, at);
                facts.has_half(half, at).then(|| keys.iter().map(property).collect())
            };
            let (was, is) = (time.checked_sub(1).and_then(&mut read), read(time));
            (was != is).then_some(SeenEdge { half, time, was, is })
        };
        let edges = touched_edges((&view.kinds, &keys), updates).into_iter().filter_map(seen).collect();
        SeenEdges { kinds: view.kinds.clone(), keys, edges }
    }

    fn is_of(&self, view: &EdgeView) -> bool {
        !self.keys.is_empty() && self.kinds == view.kinds && self.keys.iter().eq(view.reads.iter().map(|(key, _)| key))
    }
}

/// The edges of these types, or of any, that lead away from a node which an update is about, of the edge or of one of these
/// properties, and when.
fn touched_edges((kinds, keys): (&[Symbol], &[Symbol]), (segment, updates): (&Segment, &[Fact])) -> Vec<(HalfEdge, Time)> {
    let mut touched: Vec<(HalfEdge, Time)> = Vec::new();
    for fact in updates {
        let kind = fact.tag.symbol();
        if !kinds.is_empty() && !kinds.contains(&kind) {
            continue;
        }
        let (other, ordinal) = match fact.tag.kind() {
            Kind::Out | Kind::OutParallel => {
                let half = segment.half(fact);
                (half.other, half.ordinal)
            }
            Kind::EdgeProperty => {
                let (target, ordinal, key, _) = weir_model::codec::decode_edge_property(fact.payload, &segment.arena);
                if !keys.contains(&key) {
                    continue;
                }
                (target, ordinal)
            }
            _ => continue,
        };
        touched.push((HalfEdge { kind, outgoing: true, other, ordinal }, segment.time(fact)));
    }
    touched.sort_unstable();
    touched.dedup();
    touched
}

/// Walks from a node whose local view may have changed at a tick. Where it has, the matches with the old view go, and those with
/// the new one come.
fn change_of_view<'a>(walk: &mut Walk<'a, '_>, path: usize, node: usize, here: Here<'_, 'a>, time: Time, row: &mut [Value]) {
    let program = walk.program;
    let view = &program.nodes[node];
    row[view.slot] = Value::Node(here.id);
    let reader = walk.node_reader();
    let was = reader.read(node, here.facts, Version::Before.tick(time), row);
    let old = was.then(|| row.to_vec());
    let is = reader.read(node, here.facts, time, row);
    if let Some(mut old) = old {
        if is && seen(view, &old) == seen(view, row) {
            return;
        }
        walk.run(Change { path, time, diff: -1 }, 0, &mut old, Some(here));
    }
    if is {
        walk.run(Change { path, time, diff: 1 }, 0, row, Some(here));
    }
}

/// What a row has read of a node.
fn seen(view: &NodeView, row: &[Value]) -> Vec<Value> {
    let slots = view.reads.iter().map(|(_, slot)| *slot).chain(view.reads_all);
    slots.map(|slot| row[slot].clone()).collect()
}
