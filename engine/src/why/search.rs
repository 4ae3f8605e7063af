//! Search: the matches of one pattern, one choice after another, and how far the others get.

use std::ops::ControlFlow;
use std::time::Instant;

use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::plan::{Name, Pattern, PatternEdge, Slot, Step};
use weir_model::{Context, EdgeKey, Expr, Map, NodeId, Symbol, Value};

use super::{Made, Obstacle, Origin, REACHED_MAX, Reached, Wanted, Way};
use crate::graph::Graph;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// What is looked at.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    pub graph: &'a Graph,
    pub view: &'a dyn View,
    pub context: &'a dyn Context,
    /// Nodes and edges that are tried, at most.
    pub tries_max: u64,
    /// When the search gives up.
    pub deadline: Instant,
}

/// The time is looked at after this many tries.
const TRIES_BETWEEN: u64 = 1024;

/// Tries choices, depth first.
pub struct Search<'a, 'e> {
    origin: &'a Origin<'a>,
    around: Around<'a>,
    given: Vec<(usize, NodeId)>,
    /// By edge: the one that the row binds.
    bound: Vec<Option<EdgeRef>>,
    /// What the row binds to nothing, as OPTIONAL MATCH may: there is no such node or edge.
    unbound: Option<Obstacle>,
    /// Choices that show other values than these are passed over, and of those that fail only the ones are told that show some of
    /// them. Without any, all are gone through.
    pub wanted: &'a [Wanted<'a>],
    each: &'e mut dyn FnMut(&Made) -> ControlFlow<()>,
    symbols: Vec<Symbol>,
    row: Vec<Value>,
    nodes: Vec<Option<NodeId>>,
    edges: Vec<Option<EdgeRef>>,
    /// The match that is handed on, so that no other has to be allocated for the next.
    made: Made,
    pub tries: u64,
    /// More would have had to be tried.
    pub gave_up: bool,
    pub matched: bool,
    /// How much was chosen when the farthest came to nothing.
    farthest: usize,
    pub reached: Vec<Reached>,
}

/// Of the values that are wanted and are read already: whether some are as they are wanted, and whether some are others.
#[derive(Default)]
struct Shown {
    wanted: bool,
    other: bool,
}

/// Whether a pattern can be looked for here: chains and paths are not.
pub fn is_plain(pattern: &Pattern) -> bool {
    pattern.paths.is_empty() && pattern.edges.iter().all(|edge| edge.chain.is_none())
}

/// Whether a pattern can be followed up to its chains, to tell how far one without a match gets. What the row binds is no way.
pub fn leads_to_chains(pattern: &Pattern) -> bool {
    let mut chains = pattern.edges.iter().filter(|edge| edge.chain.is_some()).peekable();
    chains.peek().is_some() && chains.all(|chain| !chain.bound)
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
            match row.get(node.slot.0 as usize).and_then(|value| around.graph.ids().node_of(value)) {
                Some(id) => given.push((number, id)),
                None => unbound = unbound.or(Some(Obstacle::NoNode(number))),
            }
        }
        let mut bound = vec![None; pattern.edges.len()];
        for (number, edge) in pattern.edges.iter().enumerate().filter(|(_, edge)| edge.bound) {
            let key: &EdgeKey = match edge.slot.and_then(|slot| row.get(slot.0 as usize)) {
                Some(Value::Edge(key)) => key,
                Some(Value::FullEdge(full)) => &full.key,
                _ => {
                    unbound = unbound.or(Some(Obstacle::NoEdge { edge: number, from: edge.source }));
                    continue;
                }
            };
            let kind = symbol(&key.kind);
            bound[number] = Some(EdgeRef { source: key.source, kind, target: key.target, ordinal: key.ordinal });
        }
        Search {
            origin,
            around,
            given,
            bound,
            unbound,
            wanted: &[],
            each,
            symbols: plan.names.iter().map(|name| symbol(name)).collect(),
            row,
            nodes: vec![None; pattern.nodes.len()],
            edges: vec![None; pattern.edges.len()],
            made: Made::default(),
            tries: 0,
            gave_up: false,
            matched: false,
            farthest: 0,
            reached: Vec::new(),
        }
    }

    /// Other nodes are given, of a pattern that stands in no row. What was tried before counts on.
    pub fn give(&mut self, given: &[(usize, NodeId)]) {
        self.given.clear();
        self.given.extend_from_slice(given);
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

    /// Goes on with what is not chosen yet: nodes that are given, edges that are, then an edge at a chosen node, then any node.
    pub fn go_on(&mut self) -> ControlFlow<()> {
        if let Some(obstacle) = self.unbound.clone() {
            return self.fails(obstacle);
        }
        let pattern = self.origin.pattern;
        let open = |(node, _): &(usize, NodeId)| self.nodes.get(*node).is_some_and(Option::is_none);
        let given = self.given.iter().copied().find(open);
        if let Some((node, id)) = given {
            return self.choose_node(node, id);
        }
        let bound = (0..self.edges.len()).find_map(|at| Some((at, self.bound[at].filter(|_| self.edges[at].is_none())?)));
        if let Some((edge, found)) = bound {
            return self.choose_bound(edge, found);
        }
        let (nodes, edges) = (&self.nodes, &self.edges);
        let ends = |at: usize| (nodes[pattern.edges[at].source], nodes[pattern.edges[at].target]);
        let is_chain = |at: usize| pattern.edges[at].chain.is_some();
        let open = || (0..edges.len()).filter(|at| edges[*at].is_none() && ends(*at) != (None, None));
        // Between two chosen nodes first: that is a look, not a way on.
        let plain = || open().filter(|at| !is_chain(*at));
        let between = plain().find(|at| matches!(ends(*at), (Some(_), Some(_))));
        if let Some(edge) = between.or_else(|| plain().next()) {
            let open_end = match ends(edge) {
                (None, _) => Some(pattern.edges[edge].source),
                (_, None) => Some(pattern.edges[edge].target),
                _ => None,
            };
            // To a node that is named it is a look, too: this one may have very many edges.
            return match open_end.and_then(|node| self.named(node).map(|id| (node, id))) {
                Some((node, id)) => self.choose_node(node, id),
                None => self.choose_edge(edge),
            };
        }
        // What chains lead to is not followed: with what they do not touch the search goes on, and ends at the first of them.
        let chain = open().next();
        let touched = |node: usize| {
            let ends = |edge: &PatternEdge| edge.source == node || edge.target == node;
            chain.is_some() && pattern.edges.iter().zip(edges).any(|(edge, chosen)| chosen.is_none() && ends(edge))
        };
        let open = || (0..nodes.len()).filter(|node| nodes[*node].is_none() && !touched(*node));
        let named = open().find_map(|node| Some((node, self.named(node)?)));
        // There are fewer of those that have a label.
        let first = open().find(|node| !pattern.nodes[*node].labels.is_empty()).or_else(|| open().next());
        match (named, first, chain) {
            (Some((node, id)), ..) => self.choose_node(node, id),
            (None, Some(node), _) => self.choose_any(node),
            (None, None, Some(edge)) => {
                let PatternEdge { source, target, .. } = pattern.edges[edge];
                let from = if nodes[source].is_some() { source } else { target };
                self.fails(Obstacle::NoWay { edge, from })
            }
            (None, None, None) => self.complete(),
        }
    }

    /// The node that a condition, or a step of the pattern, says it is.
    fn named(&self, number: usize) -> Option<NodeId> {
        let pattern = self.origin.pattern;
        let slot = pattern.nodes[number].slot;
        let is_node = |expr: &Expr| matches!(expr, Expr::Slot(of) if *of == slot);
        let is_id = |expr: &Expr| match expr {
            Expr::Call { function, arguments } => function.name == "id" && matches!(arguments.as_slice(), [of] if is_node(of)),
            expr => is_node(expr),
        };
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
        self.around.graph.ids().node_of(&value)
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
        if !self.wanted.is_empty() && !self.shown(Some(&obstacle)).wanted {
            return ControlFlow::Continue(());
        }
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

    /// What is chosen so far shows of what is wanted. Of what the obstacle names nothing may have been read.
    fn shown(&self, obstacle: Option<&Obstacle>) -> Shown {
        let (nodes, edges) = match obstacle {
            Some(Obstacle::NoNode(node) | Obstacle::Label(node, _)) => ([Some(*node), None], [None; 2]),
            Some(Obstacle::SameNode(a, b)) => ([Some(*a), Some(*b)], [None; 2]),
            Some(Obstacle::SameEdge(a, b)) => ([None; 2], [Some(*a), Some(*b)]),
            _ => ([None; 2], [None; 2]),
        };
        let pattern = self.origin.pattern;
        let is_read = |slot: &Slot| {
            let of_node = pattern.nodes.iter().enumerate().any(|(at, node)| {
                let is_its = node.slot == *slot || node.reads_all == Some(*slot) || node.reads.iter().any(|(_, of)| of == slot);
                is_its && self.nodes[at].is_some() && !nodes.contains(&Some(at))
            });
            of_node
                || pattern.edges.iter().enumerate().any(|(at, edge)| {
                    let is_its = edge.slot == Some(*slot) || edge.reads.iter().any(|(_, of)| of == slot);
                    is_its && self.edges[at].is_some() && !edges.contains(&Some(at))
                })
        };
        let mut shown = Shown::default();
        for (expr, fits) in self.wanted.iter().filter(|(expr, _)| expr.slots().iter().all(is_read)) {
            match expr.evaluate(&self.row, self.around.context).is_ok_and(|value| fits(&value)) {
                true => shown.wanted = true,
                false => shown.other = true,
            }
        }
        shown
    }

    /// What is chosen is in no row that is wanted.
    fn is_another(&self) -> bool {
        !self.wanted.is_empty() && self.shown(None).other
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
            None if self.is_another() => ControlFlow::Continue(()),
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
            Ok(value) if value.holds() => None,
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
                Ok(value) if self.around.graph.ids().node_of(&value) == self.nodes[*node] => None,
                Ok(_) => {
                    let left = Box::new(Expr::Slot(pattern.nodes[*node].slot));
                    Some(Obstacle::Condition(Expr::Binary { operator: Binary::Equal, left, right: Box::new(id.clone()) }))
                }
                Err(failure) => Some(Obstacle::NoValue(id.clone(), failure)),
            }
        })
    }

    /// Takes the edge that the row binds, if it is one the pattern wants: as it leads, and where the pattern names no direction
    /// the other way round, too.
    fn choose_bound(&mut self, number: usize, found: EdgeRef) -> ControlFlow<()> {
        let pattern = self.origin.pattern;
        let edge = &pattern.edges[number];
        let has_kind = edge.kinds.is_empty() || edge.kinds.iter().any(|kind| self.symbol(*kind) == found.kind);
        let mut is_crossed = false;
        if has_kind && self.around.view.has_edge(found) {
            let is_one_way = edge.directed || found.source == found.target;
            let ways = [(found.source, found.target), (found.target, found.source)];
            for (source, target) in ways.into_iter().take(if is_one_way { 1 } else { 2 }) {
                let may_be = |node: usize, id: NodeId| self.nodes[node].is_none_or(|chosen| chosen == id);
                let is_loop = edge.source == edge.target;
                if !may_be(edge.source, source) || !may_be(edge.target, target) || (is_loop && source != target) {
                    continue;
                }
                is_crossed = true;
                self.cross_bound(number, found, [(edge.source, source), (edge.target, target)])?;
            }
        }
        if is_crossed { ControlFlow::Continue(()) } else { self.fails(Obstacle::NoEdge { edge: number, from: edge.source }) }
    }

    /// Goes on with an edge that the row binds, between these nodes.
    fn cross_bound(&mut self, number: usize, found: EdgeRef, ends: [(usize, NodeId); 2]) -> ControlFlow<()> {
        self.try_one()?;
        self.edges[number] = Some(found);
        let flow = match self.look_at_edge(number, found) {
            Some(obstacle) => self.fails(obstacle),
            None => {
                let before = self.given.len();
                self.given.extend(ends);
                let flow = self.go_on();
                self.given.truncate(before);
                flow
            }
        };
        self.edges[number] = None;
        flow
    }

    fn choose_edge(&mut self, number: usize) -> ControlFlow<()> {
        let pattern = self.origin.pattern;
        let edge = &pattern.edges[number];
        // A type that is named twice is one.
        let mut kinds: SmallVec<[Symbol; 4]> = edge.kinds.iter().map(|kind| self.symbol(*kind)).collect();
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
            None if self.is_another() => ControlFlow::Continue(()),
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
        if let Some(slot) = edge.slot.filter(|_| !edge.bound) {
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
        self.matched = true;
        let mut made = std::mem::take(&mut self.made);
        made.row.clone_from(&self.row);
        made.nodes.clear();
        made.nodes.extend(self.nodes.iter().copied().flatten());
        made.edges.clear();
        made.edges.extend(self.edges.iter().copied().flatten());
        let flow = (self.each)(&made);
        self.made = made;
        flow
    }
}
