//! Search: the matches of one pattern, one choice after another, and how far the others get.

use std::ops::ControlFlow;
use std::time::Instant;

use weir_model::expression::Binary;
use weir_model::plan::{Name, Pattern, Step};
use weir_model::{Context, EdgeKey, Expr, Map, NodeId, Symbol, Value};

use super::{Made, Obstacle, Origin, REACHED_MAX, Reached, Way};
use crate::evaluate::node_of;
use crate::handle::Graph;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub graph: &'a Graph,
    pub view: &'a dyn View,
    pub context: &'a dyn Context,
    /// So many nodes and edges are tried, and until then.
    pub tries_max: u64,
    pub deadline: Instant,
}

/// After so many tries the time is looked at.
const TRIES_BETWEEN: u64 = 1024;

/// Tries choices, depth first.
pub struct Search<'a, 'e> {
    origin: &'a Origin<'a>,
    around: Around<'a>,
    given: Vec<(usize, NodeId)>,
    /// A node that the row binds to nothing, as OPTIONAL MATCH may: no node is it.
    unbound: Option<usize>,
    each: &'e mut dyn FnMut(&Made) -> ControlFlow<()>,
    symbols: Vec<Symbol>,
    row: Vec<Value>,
    nodes: Vec<Option<NodeId>>,
    edges: Vec<Option<EdgeRef>>,
    pub tries: u64,
    /// More would have had to be tried.
    pub gave_up: bool,
    pub matched: bool,
    /// How much was chosen when the farthest came to nothing.
    farthest: usize,
    pub reached: Vec<Reached>,
}

/// Whether a pattern can be looked for here: chains and paths are not.
pub fn is_plain(pattern: &Pattern) -> bool {
    pattern.paths.is_empty() && pattern.edges.iter().all(|edge| edge.chain.is_none())
}

impl<'a, 'e> Search<'a, 'e> {
    /// Of a pattern that stands in a row, what the row binds is given.
    pub fn new(
        origin: &'a Origin<'a>,
        around: Around<'a>,
        argument: Option<&[Value]>,
        given: &[(usize, NodeId)],
        each: &'e mut dyn FnMut(&Made) -> ControlFlow<()>,
    ) -> Search<'a, 'e> {
        let (plan, pattern) = (origin.plan, origin.pattern);
        let row = argument.map_or_else(|| vec![Value::Null; plan.width.max(1)], <[Value]>::to_vec);
        let symbol = |name: &str| around.graph.symbols().intern(name);
        let (mut given, mut unbound) = (given.to_vec(), None);
        for (number, node) in pattern.nodes.iter().enumerate().filter(|(_, node)| node.bound) {
            match row.get(node.slot.0 as usize).and_then(|value| node_of(value, around.graph.ids())) {
                Some(id) => given.push((number, id)),
                None => unbound = unbound.or(Some(number)),
            }
        }
        let mut edges = vec![None; pattern.edges.len()];
        for (edge, found) in pattern.edges.iter().zip(&mut edges).filter(|(edge, _)| edge.bound) {
            if let Some(Value::Edge(key)) = edge.slot.and_then(|slot| row.get(slot.0 as usize)) {
                *found = Some(EdgeRef { source: key.source, kind: symbol(&key.kind), target: key.target, ordinal: key.ordinal });
                given.extend([(edge.source, key.source), (edge.target, key.target)]);
            }
        }
        Search {
            origin,
            around,
            given,
            unbound,
            each,
            symbols: plan.names.iter().map(|name| symbol(name)).collect(),
            row,
            nodes: vec![None; pattern.nodes.len()],
            edges,
            tries: 0,
            gave_up: false,
            matched: false,
            farthest: 0,
            reached: Vec::new(),
        }
    }

    /// The row of a match.
    pub fn fill(&mut self, nodes: &[NodeId], edges: &[EdgeRef]) -> Vec<Value> {
        let pattern = self.origin.pattern;
        for (number, (node, id)) in pattern.nodes.iter().zip(nodes).enumerate() {
            self.nodes[number] = Some(*id);
            self.row[node.slot.0 as usize] = Value::Node(*id);
            let _ = self.look_at_node(number, *id);
        }
        for (number, found) in edges.iter().enumerate() {
            self.edges[number] = Some(*found);
            let _ = self.look_at_edge(number, *found);
        }
        std::mem::take(&mut self.row)
    }

    fn symbol(&self, name: Name) -> Symbol {
        self.symbols[name.0 as usize]
    }

    /// Goes on with what is not chosen yet: nodes that are given, then an edge at a chosen node, then any node.
    pub fn go_on(&mut self) -> ControlFlow<()> {
        if let Some(node) = self.unbound {
            return self.fails(Obstacle::NoNode(node));
        }
        let pattern = self.origin.pattern;
        let open = |(node, _): &(usize, NodeId)| self.nodes.get(*node).is_some_and(Option::is_none);
        let given = self.given.iter().copied().find(open);
        if let Some((node, id)) = given {
            return self.choose_node(node, id);
        }
        let ends = |at: usize| (self.nodes[pattern.edges[at].source], self.nodes[pattern.edges[at].target]);
        let open = |at: &usize| self.edges[*at].is_none() && ends(*at) != (None, None);
        // Between two chosen nodes first: that is a look, not a way on.
        let mut numbers: Vec<usize> = (0..pattern.edges.len()).filter(open).collect();
        numbers.sort_by_key(|at| matches!(ends(*at), (None, _) | (_, None)));
        if let Some(edge) = numbers.first() {
            let open_end = match ends(*edge) {
                (None, _) => Some(pattern.edges[*edge].source),
                (_, None) => Some(pattern.edges[*edge].target),
                _ => None,
            };
            // To a node that is named it is a look, too: this one may have very many edges.
            return match open_end.and_then(|node| self.named(node).map(|id| (node, id))) {
                Some((node, id)) => self.choose_node(node, id),
                None => self.choose_edge(*edge),
            };
        }
        let open: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_none()).collect();
        if let Some((node, id)) = open.iter().find_map(|node| Some((*node, self.named(*node)?))) {
            return self.choose_node(node, id);
        }
        // There are fewer of those that have a label.
        match open.iter().find(|node| !pattern.nodes[**node].labels.is_empty()).or(open.first()) {
            Some(node) => self.choose_any(*node),
            None => self.complete(),
        }
    }

    /// The node that a condition, or a step of the pattern, says it is.
    fn named(&self, number: usize) -> Option<NodeId> {
        let pattern = self.origin.pattern;
        let slot = pattern.nodes[number].slot;
        let is_id = |expr: &Expr| matches!(expr, Expr::Call { function, arguments } if function.name == "id" && matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == slot));
        // It looks at what is not chosen yet.
        let is_open = |expr: &Expr| {
            let mentioned = expr.slots();
            let nodes = pattern
                .nodes
                .iter()
                .zip(&self.nodes)
                .filter(|(_, id)| id.is_none())
                .flat_map(|(node, _)| node.reads.iter().map(|(_, slot)| *slot).chain([node.slot]));
            let edges =
                pattern.edges.iter().zip(&self.edges).filter(|(_, found)| found.is_none()).filter_map(|(edge, _)| edge.slot);
            nodes.chain(edges).any(|slot| mentioned.contains(&slot))
        };
        let sought = pattern.steps.iter().find_map(|step| match step {
            Step::Seek { node, id } if *node == number && !is_open(id) => Some(id),
            _ => None,
        });
        let equal = pattern.nodes[number].conditions.iter().find_map(|condition| match condition {
            Expr::Binary { operator: Binary::Equal, left, right } if is_id(left) && right.slots().is_empty() => Some(&**right),
            Expr::Binary { operator: Binary::Equal, left, right } if is_id(right) && left.slots().is_empty() => Some(&**left),
            _ => None,
        });
        let value = sought.or(equal)?.evaluate(&self.row, self.around.context).ok()?;
        node_of(&value, self.around.graph.ids())
    }

    /// Counts a try; Break when there were too many, or it is too late.
    fn try_one(&mut self) -> ControlFlow<()> {
        self.tries += 1;
        let looks_at_time = self.tries.is_multiple_of(TRIES_BETWEEN);
        self.gave_up |= self.tries > self.around.tries_max || (looks_at_time && Instant::now() >= self.around.deadline);
        if self.gave_up { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// This choice comes to nothing.
    fn fails(&mut self, obstacle: Obstacle) -> ControlFlow<()> {
        let chosen = self.nodes.iter().flatten().count() + self.edges.iter().flatten().count();
        if chosen > self.farthest || self.reached.is_empty() {
            self.farthest = chosen;
            self.reached.clear();
        }
        if !self.matched && chosen == self.farthest && self.reached.len() < REACHED_MAX {
            let (row, nodes, edges) = (self.row.clone(), self.nodes.clone(), self.edges.clone());
            self.reached.push(Reached { row, nodes, edges, obstacle });
        }
        ControlFlow::Continue(())
    }

    fn choose_any(&mut self, node: usize) -> ControlFlow<()> {
        let label = self.origin.pattern.nodes[node].labels.first().map(|label| self.symbol(*label));
        let (view, mut chosen) = (self.around.view, None);
        // Each is tried when it comes: all of them may be more than there is memory for.
        let mut take = |id: NodeId| {
            let flow = self.choose_node(node, id);
            let going = flow.is_continue();
            chosen = Some(flow);
            going
        };
        match label {
            Some(label) => view.labelled(label, &mut take),
            None => view.nodes(&mut take),
        }
        chosen.unwrap_or_else(|| self.fails(Obstacle::NoNode(node)))
    }

    fn choose_node(&mut self, number: usize, id: NodeId) -> ControlFlow<()> {
        self.try_one()?;
        let pattern = self.origin.pattern;
        let node = &pattern.nodes[number];
        let slot = node.slot.0 as usize;
        self.nodes[number] = Some(id);
        self.row[slot] = Value::Node(id);
        let obstacle = self.look_at_node(number, id);
        let flow = match obstacle {
            Some(obstacle) => self.fails(obstacle),
            None => self.go_on(),
        };
        self.nodes[number] = None;
        self.row[slot] = Value::Null;
        flow
    }

    /// Puts what the pattern reads of a node into the row, and says what is not as it should be.
    fn look_at_node(&mut self, number: usize, id: NodeId) -> Option<Obstacle> {
        let pattern = self.origin.pattern;
        let node = &pattern.nodes[number];
        for (a, b) in pattern.distinct_nodes.iter().filter(|(a, b)| *a == number || *b == number) {
            if self.nodes[*a].is_some() && self.nodes[*a] == self.nodes[*b] {
                return Some(Obstacle::SameNode(*a, *b));
            }
        }
        if let Some(label) = node.labels.iter().find(|label| !self.around.view.has_label(id, self.symbol(**label))) {
            return Some(Obstacle::Label(number, *label));
        }
        // A node of which nothing is known is no match where nothing else is asked; one that is named or bound always is one.
        let is_entered =
            node.bound || pattern.steps.iter().any(|step| matches!(step, Step::Seek { node, .. } if *node == number));
        if pattern.edges.is_empty() && node.labels.is_empty() && !is_entered && !self.around.view.shows(id) {
            return Some(Obstacle::NoNode(number));
        }
        for (key, slot) in &node.reads {
            self.row[slot.0 as usize] = self.around.view.property(id, self.symbol(*key));
        }
        if let Some(slot) = node.reads_all {
            let mut map = Map::default();
            let symbols = self.around.graph.symbols();
            self.around.view.properties(id, &mut |key, value| map.push_unique(symbols.name(key), value));
            self.row[slot.0 as usize] = Value::Map(map.sorted().into());
        }
        self.first_unmet(&node.conditions)
    }

    fn first_unmet(&self, conditions: &[Expr]) -> Option<Obstacle> {
        conditions.iter().find_map(|condition| self.unmet(condition))
    }

    fn unmet(&self, condition: &Expr) -> Option<Obstacle> {
        match condition.look(&self.row, self.around.context) {
            Ok(value) if value.is_true() => None,
            Ok(_) => Some(Obstacle::Condition(condition.clone())),
            Err(failure) => Some(Obstacle::NoValue(condition.clone(), failure)),
        }
    }

    /// A step that names another node than the one that was chosen: that was found by an edge, or by another step.
    fn not_sought(&self) -> Option<Obstacle> {
        let pattern = self.origin.pattern;
        pattern.steps.iter().find_map(|step| {
            let Step::Seek { node, id } = step else { return None };
            match id.evaluate(&self.row, self.around.context) {
                Ok(value) if node_of(&value, self.around.graph.ids()) == self.nodes[*node] => None,
                Ok(_) => {
                    let left = Box::new(Expr::Slot(pattern.nodes[*node].slot));
                    Some(Obstacle::Condition(Expr::Binary { operator: Binary::Equal, left, right: Box::new(id.clone()) }))
                }
                Err(failure) => Some(Obstacle::NoValue(id.clone(), failure)),
            }
        })
    }

    fn choose_edge(&mut self, number: usize) -> ControlFlow<()> {
        let pattern = self.origin.pattern;
        let edge = &pattern.edges[number];
        // A type that is named twice is one.
        let mut kinds: Vec<Symbol> = edge.kinds.iter().map(|kind| self.symbol(*kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let (from, to, outgoing) = match self.nodes[edge.source] {
            Some(_) => (edge.source, edge.target, true),
            None => (edge.target, edge.source, false),
        };
        let Some(id) = self.nodes[from] else { return ControlFlow::Continue(()) };
        let direction = match (edge.directed, outgoing) {
            (false, _) => Direction::Both,
            (true, true) => Direction::Outgoing,
            (true, false) => Direction::Incoming,
        };
        let (view, expected) = (self.around.view, self.nodes[to]);
        let mut crossed: Option<ControlFlow<()>> = None;
        // Each is tried when it comes: a node may have more of them than there is memory for.
        let mut take = |half: HalfEdge| {
            let second_half_of_loop = direction == Direction::Both && half.other == id && !half.outgoing;
            if !second_half_of_loop && crossed != Some(ControlFlow::Break(())) {
                crossed = Some(self.cross(number, (id, half), (to, expected)));
            }
        };
        match expected {
            Some(other) => view.edges_to(id, other, direction, &kinds, &mut take),
            None => view.edges(id, direction, &kinds, &mut take),
        }
        crossed.unwrap_or_else(|| self.fails(Obstacle::NoEdge { edge: number, from }))
    }

    /// Goes over an edge to a node, which may be chosen already.
    fn cross(
        &mut self,
        number: usize,
        (id, half): (NodeId, HalfEdge),
        (to, expected): (usize, Option<NodeId>),
    ) -> ControlFlow<()> {
        self.try_one()?;
        let (source, target) = if half.outgoing { (id, half.other) } else { (half.other, id) };
        let found = EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal };
        self.edges[number] = Some(found);
        let flow = match self.look_at_edge(number, found) {
            Some(obstacle) => self.fails(obstacle),
            None if expected.is_some() => self.go_on(),
            None => self.choose_node(to, half.other),
        };
        self.edges[number] = None;
        flow
    }

    fn look_at_edge(&mut self, number: usize, found: EdgeRef) -> Option<Obstacle> {
        let pattern = self.origin.pattern;
        let edge = &pattern.edges[number];
        for (a, b) in pattern.distinct_edges.iter().filter(|(a, b)| *a == number || *b == number) {
            if self.edges[*a].is_some() && self.edges[*a] == self.edges[*b] {
                return Some(Obstacle::SameEdge(*a, *b));
            }
        }
        if let Some(slot) = edge.slot {
            let kind = self.around.graph.symbols().name(found.kind);
            let key = EdgeKey { source: found.source, kind, target: found.target, ordinal: found.ordinal };
            self.row[slot.0 as usize] = Value::Edge(key.into());
        }
        for (key, slot) in &edge.reads {
            self.row[slot.0 as usize] = self.around.view.edge_property(found, self.symbol(*key));
        }
        self.first_unmet(&edge.conditions)
    }

    /// Everything is chosen: the conditions of the whole, and what the row goes through.
    fn complete(&mut self) -> ControlFlow<()> {
        if let Some(obstacle) = self.first_unmet(&self.origin.pattern.conditions).or_else(|| self.not_sought()) {
            return self.fails(obstacle);
        }
        let origin = self.origin;
        for way in &origin.ways {
            let obstacle = match way {
                Way::Filter(condition) => self.unmet(condition),
                Way::Item(slot, expr) => match expr.evaluate(&self.row, self.around.context) {
                    Ok(value) => {
                        self.row[slot.0 as usize] = value;
                        None
                    }
                    // A row for which an expression has no value is no result.
                    Err(failure) => Some(Obstacle::NoValue((*expr).clone(), failure)),
                },
            };
            if let Some(obstacle) = obstacle {
                return self.fails(obstacle);
            }
        }
        let nodes: Vec<NodeId> = self.nodes.iter().copied().flatten().collect();
        let edges: Vec<EdgeRef> = self.edges.iter().copied().flatten().collect();
        self.matched = true;
        (self.each)(&Made { row: self.row.clone(), nodes, edges })
    }
}
