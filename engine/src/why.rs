//! Why: what made a match of a standing query's pattern, and where there is none, how far the pattern gets.
//!
//! Worked out when somebody asks, from the graph as of a moment and its history; nothing is kept for it. The pattern is looked for from
//! the nodes that were given, one choice after another, with a bound on how many are tried. Of the choices that come to nothing
//! those are kept that got farthest, each with the condition that it does not meet.

use std::ops::ControlFlow;

use weir_model::plan::{Name, Operator, Pattern, Plan, Slot};
use weir_model::{EdgeKey, Expr, GraphFree, Map, NodeId, Position, Symbol, Text, Tick, Value};

use crate::engine::Graph;
use crate::error::EngineError;
use crate::history::Changed;
use crate::store::StoreError;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// Nodes and edges that are tried for one question.
const TRIES_MAX: u64 = 2_000_000;

/// Of the choices that got equally far, so many are kept.
const REACHED_MAX: usize = 5;

/// A pattern of a standing query, with what its rows go through up to the first stage that is more than a condition or an expression.
pub struct Origin<'p> {
    plan: &'p Plan,
    pub pattern: &'p Pattern,
    ways: Vec<Way<'p>>,
    /// No such stage is there: its rows are the results.
    pub whole: bool,
}

#[derive(Clone, Copy)]
enum Way<'p> {
    Filter(&'p Expr),
    Item(Slot, &'p Expr),
}

/// One way in which a pattern matches.
#[derive(Clone, Debug)]
pub struct Made {
    /// The values of all slots of the plan.
    pub row: Vec<Value>,
    /// As the nodes and edges of the pattern.
    pub nodes: Vec<NodeId>,
    pub edges: Vec<EdgeRef>,
}

/// How far a choice got.
#[derive(Clone, Debug)]
pub struct Reached {
    pub row: Vec<Value>,
    pub nodes: Vec<Option<NodeId>>,
    pub edges: Vec<Option<EdgeRef>>,
    pub obstacle: Obstacle,
}

/// What is not as the pattern wants it. Numbers are those of nodes and edges of the pattern.
#[derive(Clone, Debug)]
pub enum Obstacle {
    /// No node is there that could be this one.
    NoNode(usize),
    Label(usize, Name),
    /// No edge leads on from a node.
    NoEdge {
        edge: usize,
        from: usize,
    },
    /// Of a node, of an edge, of the whole.
    Condition(Expr),
    SameNode(usize, usize),
    SameEdge(usize, usize),
}

/// What came of a question.
#[derive(Debug)]
pub struct Looked {
    /// The moment that was looked at.
    pub at: Tick,
    /// Those that got farthest, where nothing matched.
    pub reached: Vec<Reached>,
    /// More would have had to be tried.
    pub gave_up: bool,
}

/// A fact that a match rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub of: ReasonOf,
    /// Since when it is so; None where history does not reach back, or where it never was otherwise.
    pub since: Option<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReasonOf {
    Label { node: usize, label: Text },
    Property { node: usize, key: Text, value: Value },
    Edge { edge: usize },
    EdgeProperty { edge: usize, key: Text, value: Value },
}

/// The record that a tick was given to.
#[derive(Clone, Debug, PartialEq)]
pub struct OfRecord {
    /// Its place in its batch.
    pub place: u64,
    /// Where the source stood after the batch; none for writes that came from no source.
    pub source: Option<(Text, Position)>,
}

/// The patterns that a standing query is maintained by.
pub fn origins(plan: &Plan) -> Vec<Origin<'_>> {
    let mut found = Vec::new();
    collect(plan, &plan.root, &mut Vec::new(), true, &mut found);
    found
}

fn collect<'p>(plan: &'p Plan, operator: &'p Operator, ways: &mut Vec<Way<'p>>, whole: bool, found: &mut Vec<Origin<'p>>) {
    let before = ways.len();
    match operator {
        Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => {
            let ways = ways.iter().rev().copied().collect();
            found.push(Origin { plan, pattern, ways, whole });
        }
        Operator::Filter { input, condition } => {
            ways.push(Way::Filter(condition));
            collect(plan, input, ways, whole, found);
        }
        Operator::Project { input, items } => {
            ways.extend(items.iter().rev().map(|(slot, expr)| Way::Item(*slot, expr)));
            collect(plan, input, ways, whole, found);
        }
        Operator::Distinct { input, .. } => collect(plan, input, ways, whole, found),
        Operator::Aggregate { input, keys, .. } => {
            // Columns that are named after a key hold it.
            let mut known: Vec<Slot> = keys.iter().map(|(slot, _)| *slot).collect();
            let mut below: Vec<Way<'p>> = keys.iter().map(|(slot, expr)| Way::Item(*slot, expr)).collect();
            for way in ways.iter().rev() {
                if let Way::Item(slot, Expr::Slot(from)) = way
                    && known.contains(from)
                {
                    known.push(*slot);
                    below.push(*way);
                }
            }
            below.reverse();
            collect(plan, input, &mut below, false, found);
        }
        // What is asked for each row is no part of it.
        Operator::Subquery { input, .. } | Operator::Optional { input, .. } | Operator::Recurse { input, .. } => {
            collect(plan, input, &mut Vec::new(), false, found);
        }
        other => other.children().into_iter().for_each(|child| collect(plan, child, &mut Vec::new(), false, found)),
    }
    ways.truncate(before);
}

impl Origin<'_> {
    /// Which slots hold something when a row of the pattern has come so far.
    pub fn fills(&self, slot: Slot) -> bool {
        self.pattern.slots().contains(&slot) || self.ways.iter().any(|way| matches!(way, Way::Item(of, _) if *of == slot))
    }

    /// The node of the pattern whose id a column shows.
    pub fn node_of(&self, column: Slot) -> Option<usize> {
        let node = |slot: Slot| self.pattern.nodes.iter().position(|node| node.slot == slot);
        node(column).or_else(|| {
            self.ways.iter().find_map(|way| match way {
                Way::Item(slot, Expr::Call { function, arguments }) if *slot == column => match arguments.as_slice() {
                    [Expr::Slot(of)] if matches!(function.name, "id" | "strId") => node(*of),
                    _ => None,
                },
                _ => None,
            })
        })
    }
}

impl Graph {
    /// Looks for matches of a pattern in which some of its nodes are the given ones, as of a moment; none is the present.
    pub fn why(
        &self,
        origin: &Origin<'_>,
        given: &[(usize, NodeId)],
        at: Option<Tick>,
        each: &mut dyn FnMut(&Made) -> ControlFlow<()>,
    ) -> Result<Looked, EngineError> {
        let look = |view: &dyn View, at: Tick, each: &mut dyn FnMut(&Made) -> ControlFlow<()>| {
            let mut search = Search::new((self, at), origin, view, given, each);
            let _ = search.go_on();
            Looked { at, reached: if search.matched { Vec::new() } else { search.reached }, gave_up: search.tries > TRIES_MAX }
        };
        let Some(at) = at else {
            self.readable()?;
            let snapshot = self.snapshot();
            return Ok(look(&snapshot, snapshot.tick(), each));
        };
        let moment = self.at(at)?;
        let looked = look(moment.view(), at, each);
        moment.failure().map_or(Ok(looked), Err)
    }

    /// The facts that a match rests on, and since when each is there.
    pub fn reasons(&self, origin: &Origin<'_>, made: &Made, at: Tick) -> Result<Vec<Reason>, EngineError> {
        let mut reasons = Vec::new();
        let text = |name: &Name| origin.plan.names.get(name.0 as usize).cloned().unwrap_or_default();
        let symbol = |name: &Name| self.symbols().intern(&text(name));
        let value = |slot: &Slot| made.row.get(slot.0 as usize).cloned().unwrap_or_default();
        let changes = |node: NodeId| match self.changes(node, at) {
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => Ok(Vec::new()),
            found => found,
        };
        for (number, (node, id)) in origin.pattern.nodes.iter().zip(&made.nodes).enumerate() {
            let changes = changes(*id)?;
            let since =
                |is: &dyn Fn(&Changed) -> bool| changes.iter().rev().find(|change| is(&change.what)).map(|change| change.tick);
            for name in &node.labels {
                let wanted = symbol(name);
                let since = since(&|what| matches!(what, Changed::Label { label, .. } if *label == wanted));
                reasons.push(Reason { of: ReasonOf::Label { node: number, label: text(name) }, since });
            }
            for (name, slot) in &node.reads {
                let wanted = symbol(name);
                let since = since(&|what| matches!(what, Changed::Property { key, .. } if *key == wanted));
                reasons.push(Reason { of: ReasonOf::Property { node: number, key: text(name), value: value(slot) }, since });
            }
        }
        for (number, (edge, found)) in origin.pattern.edges.iter().zip(&made.edges).enumerate() {
            let changes = changes(found.source)?;
            let half = HalfEdge { kind: found.kind, outgoing: true, other: found.target, ordinal: found.ordinal };
            let since =
                |is: &dyn Fn(&Changed) -> bool| changes.iter().rev().find(|change| is(&change.what)).map(|change| change.tick);
            let came = since(&|what| matches!(what, Changed::Edge { half: other, .. } if *other == half));
            reasons.push(Reason { of: ReasonOf::Edge { edge: number }, since: came });
            for (name, slot) in &edge.reads {
                let wanted = symbol(name);
                let is =
                    |what: &Changed| matches!(what, Changed::EdgeProperty { half: of, key, .. } if *of == half && *key == wanted);
                let of = ReasonOf::EdgeProperty { edge: number, key: text(name), value: value(slot) };
                reasons.push(Reason { of, since: since(&is) });
            }
        }
        Ok(reasons)
    }

    /// Which records ticks were given to, as far back as the log reaches: None for those that a checkpoint has taken out of it.
    pub fn records_of(&self, ticks: &[Tick]) -> Result<Vec<Option<OfRecord>>, EngineError> {
        let mut found = vec![None; ticks.len()];
        let Some(last) = ticks.iter().max() else { return Ok(found) };
        let store = &self.parts().store;
        let from = store.progress(self.id())?.upto;
        let read = store.read_log(self.id(), from, &mut |entry| {
            if entry.first > *last {
                return Err(StoreError::Stopped);
            }
            for (tick, found) in ticks.iter().zip(&mut found) {
                if entry.first <= *tick && *tick < entry.upper {
                    *found = Some(OfRecord { place: tick.0 - entry.first.0, source: entry.sources.first().cloned() });
                }
            }
            Ok(())
        });
        match read {
            Ok(()) | Err(StoreError::Stopped) => Ok(found),
            Err(error) => Err(error.into()),
        }
    }
}

/// Tries choices, depth first.
struct Search<'a, 'e> {
    origin: &'a Origin<'a>,
    graph: &'a Graph,
    view: &'a dyn View,
    given: &'a [(usize, NodeId)],
    each: &'e mut dyn FnMut(&Made) -> ControlFlow<()>,
    context: GraphFree,
    symbols: Vec<Symbol>,
    row: Vec<Value>,
    nodes: Vec<Option<NodeId>>,
    edges: Vec<Option<EdgeRef>>,
    tries: u64,
    matched: bool,
    /// How much was chosen when the farthest came to nothing.
    farthest: usize,
    reached: Vec<Reached>,
}

impl<'a, 'e> Search<'a, 'e> {
    fn new(
        (graph, at): (&'a Graph, Tick),
        origin: &'a Origin<'a>,
        view: &'a dyn View,
        given: &'a [(usize, NodeId)],
        each: &'e mut dyn FnMut(&Made) -> ControlFlow<()>,
    ) -> Search<'a, 'e> {
        let plan = origin.plan;
        Search {
            origin,
            graph,
            view,
            given,
            each,
            context: GraphFree::rows(graph.ids(), &plan.names).at(at.millis() as i64),
            symbols: plan.names.iter().map(|name| graph.symbols().intern(name)).collect(),
            row: vec![Value::Null; plan.width.max(1)],
            nodes: vec![None; origin.pattern.nodes.len()],
            edges: vec![None; origin.pattern.edges.len()],
            tries: 0,
            matched: false,
            farthest: 0,
            reached: Vec::new(),
        }
    }

    fn symbol(&self, name: Name) -> Symbol {
        self.symbols[name.0 as usize]
    }

    /// Goes on with what is not chosen yet: nodes that are given, then an edge at a chosen node, then any node.
    fn go_on(&mut self) -> ControlFlow<()> {
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
            return self.choose_edge(*edge);
        }
        match self.nodes.iter().position(Option::is_none) {
            Some(node) => self.choose_any(node),
            None => self.complete(),
        }
    }

    /// Counts a try; Break when there were too many.
    fn try_one(&mut self) -> ControlFlow<()> {
        self.tries += 1;
        if self.tries > TRIES_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
        let mut candidates = Vec::new();
        let mut take = |id: NodeId| {
            candidates.push(id);
            (candidates.len() as u64) < TRIES_MAX
        };
        match label {
            Some(label) => self.view.labelled(label, &mut take),
            None => self.view.nodes(&mut take),
        }
        if candidates.is_empty() {
            return self.fails(Obstacle::NoNode(node));
        }
        candidates.into_iter().try_for_each(|id| self.choose_node(node, id))
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
        if let Some(label) = node.labels.iter().find(|label| !self.view.has_label(id, self.symbol(**label))) {
            return Some(Obstacle::Label(number, *label));
        }
        // A node of which nothing is known is no match where nothing else is asked.
        if pattern.edges.is_empty() && node.labels.is_empty() && !self.is_there(id) {
            return Some(Obstacle::NoNode(number));
        }
        for (key, slot) in &node.reads {
            self.row[slot.0 as usize] = self.view.property(id, self.symbol(*key));
        }
        if let Some(slot) = node.reads_all {
            let mut map = Map::default();
            let symbols = self.graph.symbols();
            self.view.properties(id, &mut |key, value| map.push_unique(symbols.name(key), value));
            self.row[slot.0 as usize] = Value::Map(map.into());
        }
        self.first_unmet(&node.conditions).map(Obstacle::Condition)
    }

    fn is_there(&self, id: NodeId) -> bool {
        let mut there = false;
        self.view.labels(id, &mut |_| there = true);
        self.view.properties(id, &mut |_, _| there = true);
        self.view.edges(id, Direction::Both, &[], &mut |_| there = true);
        there
    }

    fn first_unmet(&self, conditions: &[Expr]) -> Option<Expr> {
        conditions.iter().find(|condition| !self.holds(condition)).cloned()
    }

    fn holds(&self, condition: &Expr) -> bool {
        condition.look(&self.row, &self.context).is_ok_and(|value| value.is_true())
    }

    fn choose_edge(&mut self, number: usize) -> ControlFlow<()> {
        let pattern = self.origin.pattern;
        let edge = &pattern.edges[number];
        let kinds: Vec<Symbol> = edge.kinds.iter().map(|kind| self.symbol(*kind)).collect();
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
        let expected = self.nodes[to];
        let mut halves: Vec<HalfEdge> = Vec::new();
        self.view.edges(id, direction, &kinds, &mut |half| {
            let second_half_of_loop = direction == Direction::Both && half.other == id && !half.outgoing;
            let wanted = expected.is_none_or(|expected| expected == half.other);
            if wanted && !second_half_of_loop && (halves.len() as u64) < TRIES_MAX {
                halves.push(half);
            }
        });
        if halves.is_empty() {
            return self.fails(Obstacle::NoEdge { edge: number, from });
        }
        for half in halves {
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
            flow?;
        }
        ControlFlow::Continue(())
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
            let kind = self.graph.symbols().name(found.kind);
            let key = EdgeKey { source: found.source, kind, target: found.target, ordinal: found.ordinal };
            self.row[slot.0 as usize] = Value::Edge(key.into());
        }
        for (key, slot) in &edge.reads {
            self.row[slot.0 as usize] = self.view.edge_property(found, self.symbol(*key));
        }
        self.first_unmet(&edge.conditions).map(Obstacle::Condition)
    }

    /// Everything is chosen: the conditions of the whole, and what the row goes through.
    fn complete(&mut self) -> ControlFlow<()> {
        if let Some(unmet) = self.first_unmet(&self.origin.pattern.conditions) {
            return self.fails(Obstacle::Condition(unmet));
        }
        let origin = self.origin;
        for way in &origin.ways {
            match way {
                Way::Filter(condition) if !self.holds(condition) => return self.fails(Obstacle::Condition((*condition).clone())),
                Way::Filter(_) => {}
                Way::Item(slot, expr) => match expr.evaluate(&self.row, &self.context) {
                    Ok(value) => self.row[slot.0 as usize] = value,
                    // A row for which an expression has no value is no result.
                    Err(_) => return self.fails(Obstacle::Condition((*expr).clone())),
                },
            }
        }
        let nodes: Vec<NodeId> = self.nodes.iter().copied().flatten().collect();
        let edges: Vec<EdgeRef> = self.edges.iter().copied().flatten().collect();
        self.matched = true;
        (self.each)(&Made { row: self.row.clone(), nodes, edges })
    }
}
