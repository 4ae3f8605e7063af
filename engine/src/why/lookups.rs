//! Lookups: tells what a query asked of the graph for one row: the facts that were the answer, or where nothing was found, how
//! far it got.

use std::ops::ControlFlow;

use rustc_hash::FxHashMap;
use weir_model::expression::{Failure, Subquery};
use weir_model::plan::{Operator, Pattern, Slot};
use weir_model::{Clock, Context, Expr, Mutations, NodeId, Symbol, Tick, Value};

use super::search::{Around, Search, is_plain, leads_to_chains};
use super::staged::{Staged, Worked};
use super::watching::{Watching, edge_fact};
use super::{Made, Origin, Reached, TRIES_MAX};
use crate::error::EngineError;
use crate::evaluate::{Environment, Evaluator, Limits, Wanted};
use crate::graph::Graph;
use crate::history::{Change, Changed};
use crate::render::Row;
use crate::render::stages::derive::{Asks, Of, What};
use crate::render::stages::holds;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// What is told of one row.
const ANSWERED_MAX: usize = 12;

/// Ways of a pattern that are told.
const MADE_MAX: usize = 3;

/// Rows that go through parts of what is asked.
const ROWS_MAX: usize = 5;

const STEPS_MAX: u32 = 2_000_000;

/// A fact of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum FactOf {
    Label { node: NodeId, label: Symbol },
    Property { node: NodeId, key: Symbol, value: Value },
    Edge { edge: EdgeRef },
    EdgeProperty { edge: EdgeRef, key: Symbol, value: Value },
}

/// With since when it is so; None where history does not reach back, or where it never was otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    pub of: FactOf,
    pub since: Option<Tick>,
}

/// One thing that was asked, and what came of it.
pub struct Answered<'p> {
    pub of: AskedOf<'p>,
    pub found: bool,
    /// Some ways in which a pattern matches.
    pub made: Vec<Made>,
    /// Where it does not, how far it gets.
    pub reached: Vec<Reached>,
    /// The row that a condition was looked at with.
    pub row: Vec<Value>,
}

#[derive(Clone, Copy)]
pub enum AskedOf<'p> {
    /// Whether it may find nothing.
    Pattern(&'p Pattern, bool),
    Condition(&'p Expr),
}

impl Graph {
    /// What was asked of the graph for a row that went into a stage; not all of it where it gets late.
    pub fn asked<'p>(&self, staged: &'p Staged<'p>, asks: Asks<'p>, row: &Row, view: &dyn View, at: Tick) -> Vec<Answered<'p>> {
        self.asked_with(staged, asks, row, &[], (view, at))
    }

    /// As `asked`, where patterns that look for one of these slots are to find these nodes: `Answered::found` says whether they
    /// do with them.
    pub fn asked_with<'p>(
        &self,
        staged: &'p Staged<'p>,
        asks: Asks<'p>,
        row: &Row,
        given: &[(Slot, NodeId)],
        (view, at): (&dyn View, Tick),
    ) -> Vec<Answered<'p>> {
        let argument = asks.argument(row, staged.plan().width);
        let environment = self.environment(staged, view, at);
        let mut found = Vec::new();
        let mut telling = Telling { graph: self, staged, environment: &environment, given, found: &mut found };
        telling.operator(asks.inner(), &argument, false);
        found.truncate(ANSWERED_MAX);
        found
    }

    /// Why what is asked for a row has no value; None where it has one, or where it is too late to find out.
    pub fn failure_for(&self, staged: &Staged<'_>, asks: Asks<'_>, row: &Row, view: &dyn View, at: Tick) -> Option<Failure> {
        let argument = asks.argument(row, staged.plan().width);
        let (environment, mut ignored) = (self.environment(staged, view, at), Mutations::default());
        let mut evaluator = Evaluator::new(staged.prepared(), self.symbols());
        let mut go_on = |_: &[Value]| ControlFlow::Continue(());
        let nothing = Wanted { slots: &[], in_full: false };
        let run = evaluator.run_part(asks.inner(), &argument, nothing, &environment, &mut ignored, &mut go_on);
        let left_out = || evaluator.take_left_out().map(|(_, none)| none.failure);
        run.err().or_else(left_out).filter(|_| !staged.is_late())
    }

    /// Which rows of a level were found with a node in a slot that what is asked of the graph fills, whether it is handed on or
    /// not. None where what the level asks does not look for it.
    pub fn found_with(
        &self,
        staged: &Staged<'_>,
        worked: &Worked<'_>,
        at: usize,
        (slot, id): (Slot, NodeId),
        view: &dyn View,
    ) -> Option<Vec<bool>> {
        let level = &worked.levels[at];
        let What::Each(asks) = level.what else { return None };
        if !looks_for(asks.inner(), slot) {
            return None;
        }
        let is_it = |value: &Value| self.ids().node_of(value) == Some(id);
        if let Some(place) = level.slots.iter().position(|of| *of == slot) {
            return Some(level.rows.iter().map(|(row, _)| row.0.get(place).is_some_and(is_it)).collect());
        }
        let slots: Vec<usize> = level.slots.iter().chain([&slot]).map(|slot| slot.0 as usize).collect();
        // At the root nodes and edges are given in full.
        let in_full = at == worked.root() && matches!(staged.plan().root, Operator::Subquery { .. });
        let wanted = Wanted { slots: &slots, in_full };
        let (environment, mut ignored) = (self.environment(staged, view, worked.at), Mutations::default());
        let mut evaluator = Evaluator::new(staged.prepared(), self.symbols());
        let mut is = vec![false; level.rows.len()];
        let (rows, mut first) = (&worked.levels[level.inputs[0]].rows, 0);
        for ((row, _), number) in rows.iter().zip(0..) {
            let many = level.rows[first..].iter().take_while(|(_, of)| *of == Of::One(number)).count();
            let (made, of_row) = (first..first + many, asks.argument(row, staged.plan().width));
            first += many;
            if many == 0 || staged.is_late() {
                continue;
            }
            let mut take = |values: &[Value]| {
                if let [found @ .., last] = values
                    && is_it(last)
                {
                    made.clone().filter(|at| level.rows[*at].0.0[..] == *found).for_each(|at| is[at] = true);
                }
                ControlFlow::Continue(())
            };
            // What has no value has no rows.
            let _ = evaluator.run_part(asks.inner(), &of_row, wanted, &environment, &mut ignored, &mut take);
        }
        Some(is)
    }

    /// How the graph is looked at for one row.
    fn environment<'a>(&self, staged: &Staged<'_>, view: &'a dyn View, at: Tick) -> Environment<'a> {
        let deadline = Some(staged.deadline());
        let limits = Limits { steps_max: Some(STEPS_MAX), deadline, time_max: None, ..Limits::default() };
        Environment { limits, ..self.looked_at(view, at) }
    }

    /// How the graph is looked at where rows are told apart by what they show. However late it gets: rows that are passed over
    /// for that would be none that are meant.
    pub(super) fn looked_at<'a>(&self, view: &'a dyn View, at: Tick) -> Environment<'a> {
        Environment {
            view,
            parameters: &[],
            ids: self.ids(),
            now: Clock::at(at.millis() as i64),
            fresh_id: &NodeId::default,
            limits: Limits { time_max: None, ..Limits::default() },
            open_cypher: self.open_cypher(),
            recall: None,
        }
    }

    /// The facts that were the answer: with these alone it would be the same.
    pub fn read_for(&self, staged: &Staged<'_>, asks: Asks<'_>, row: &Row, view: &dyn View, at: Tick) -> Vec<FactOf> {
        let watching = Watching::new(view);
        let scene = staged.scene(self, &watching, at);
        asks.look(row, staged.prepared(), &scene);
        watching.into_seen().facts
    }

    /// What has been known of a node for longest, by its own history: it may have very many neighbours.
    pub(super) fn oldest_of(&self, node: NodeId, at: Tick) -> Result<Option<Fact>, EngineError> {
        let moment = match self.at(at) {
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => self.moment(None)?.0,
            moment => moment?,
        };
        let changes = match self.past(at).and_then(|past| past.all_changes(node)) {
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => Vec::new(),
            changes => changes?,
        };
        let newest: FxHashMap<Key, Tick> = changes.iter().map(|change| (Key::changed(change), change.tick)).collect();
        let (view, mut oldest) = (moment.view(), None::<Fact>);
        let mut take = |key: Key, of: FactOf| {
            let since = newest.get(&key).copied();
            if oldest.as_ref().is_none_or(|oldest| since < oldest.since) {
                oldest = Some(Fact { of, since });
            }
        };
        view.labels(node, &mut |label| take(Key::Label(label), FactOf::Label { node, label }));
        view.properties(node, &mut |key, value| take(Key::Property(key), FactOf::Property { node, key, value }));
        view.edges(node, Direction::Both, &[], &mut |half| take(Key::Edge(half), edge_fact(node, half)));
        moment.take_failure().map_or(Ok(oldest), Err)
    }

    /// Facts with since when each is there. The history of a node is read once for all of them: it may be long.
    pub fn facts(&self, of: Vec<FactOf>, at: Tick) -> Result<Vec<Fact>, EngineError> {
        let past = match self.past(at) {
            Ok(past) => past,
            Err(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => {
                return Ok(of.into_iter().map(|of| Fact { of, since: None }).collect());
            }
            Err(error) => return Err(error),
        };
        let mut newest: FxHashMap<NodeId, FxHashMap<Key, Option<Tick>>> = FxHashMap::default();
        for of in &of {
            newest.entry(of.node()).or_default().insert(Key::of(of), None);
        }
        for (node, facts) in &mut newest {
            for change in past.changes(*node) {
                if let Some(since) = facts.get_mut(&Key::changed(&change)) {
                    *since = Some(change.tick);
                }
            }
        }
        let since = |of: &FactOf| newest.get(&of.node()).and_then(|facts| facts.get(&Key::of(of)).copied().flatten());
        let facts = of.into_iter().map(|of| Fact { since: since(&of), of }).collect();
        match past.take_failure() {
            // What was collected meanwhile is told no more.
            None | Some(EngineError::NoHistory | EngineError::TooLongAgo { .. }) => Ok(facts),
            Some(error) => Err(error),
        }
    }
}

impl FactOf {
    /// The node whose history tells of it.
    fn node(&self) -> NodeId {
        match self {
            FactOf::Label { node, .. } | FactOf::Property { node, .. } => *node,
            FactOf::Edge { edge } | FactOf::EdgeProperty { edge, .. } => edge.source,
        }
    }
}

/// What a fact of a node is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Label(Symbol),
    Property(Symbol),
    Edge(HalfEdge),
    EdgeProperty(HalfEdge, Symbol),
}

impl Key {
    fn of(fact: &FactOf) -> Key {
        let half = |edge: &EdgeRef| HalfEdge { kind: edge.kind, outgoing: true, other: edge.target, ordinal: edge.ordinal };
        match fact {
            FactOf::Label { label, .. } => Key::Label(*label),
            FactOf::Property { key, .. } => Key::Property(*key),
            FactOf::Edge { edge } => Key::Edge(half(edge)),
            FactOf::EdgeProperty { edge, key, .. } => Key::EdgeProperty(half(edge), *key),
        }
    }

    fn changed(change: &Change) -> Key {
        match &change.what {
            Changed::Label { label, .. } => Key::Label(*label),
            Changed::Property { key, .. } => Key::Property(*key),
            Changed::Edge { half, .. } => Key::Edge(*half),
            Changed::EdgeProperty { half, key, .. } => Key::EdgeProperty(*half, *key),
        }
    }
}

/// Whether a pattern in there fills a slot with a node.
fn looks_for(part: &Operator, slot: Slot) -> bool {
    let mut is_sought = false;
    part.each_below(&mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            is_sought |= sought(pattern, slot).is_some();
        }
    });
    is_sought
}

/// The node of a pattern that fills a slot.
fn sought(pattern: &Pattern, slot: Slot) -> Option<usize> {
    pattern.nodes.iter().position(|node| node.slot == slot && !node.bound)
}

struct Telling<'t, 'p> {
    graph: &'t Graph,
    staged: &'p Staged<'p>,
    environment: &'t Environment<'t>,
    given: &'t [(Slot, NodeId)],
    found: &'t mut Vec<Answered<'p>>,
}

/// A pattern as the query asked for it.
#[derive(Clone, Copy)]
struct AskedPattern<'p> {
    pattern: &'p Pattern,
    /// Where it has no rows, a row goes on all the same.
    may_be_none: bool,
    has_rows: bool,
}

impl<'p> Telling<'_, 'p> {
    /// Tells of an operator that starts at `Argument`, and gives some of its rows. `may_be_none`: where it has none, a row goes
    /// on all the same.
    fn operator(&mut self, operator: &'p Operator, argument: &[Value], may_be_none: bool) -> Vec<Vec<Value>> {
        if self.found.len() >= ANSWERED_MAX || self.staged.is_late() {
            return Vec::new();
        }
        let rows = match operator.input() {
            Some(input) => self.operator(input, argument, may_be_none),
            None => return vec![argument.to_vec()],
        };
        let own = self.rows(operator, argument);
        match operator {
            Operator::Match { pattern, .. } => {
                rows.iter().for_each(|row| self.pattern(AskedPattern { pattern, may_be_none, has_rows: !own.is_empty() }, row));
                let conditions: Vec<&'p Expr> =
                    pattern.nodes.iter().flat_map(|node| &node.conditions).chain(&pattern.conditions).collect();
                own.iter().for_each(|row| conditions.iter().copied().for_each(|condition| self.subqueries(condition, row)));
            }
            Operator::Optional { inner, .. } => {
                for row in &rows {
                    self.operator(inner, row, true);
                }
            }
            Operator::Subquery { inner, .. } => {
                for row in &rows {
                    self.operator(inner, row, may_be_none);
                }
            }
            // The left is its input.
            Operator::Union { right, .. } => {
                self.operator(right, argument, may_be_none);
            }
            Operator::Filter { condition, .. } => rows.iter().for_each(|row| self.condition(condition, row)),
            Operator::Project { items, .. } => {
                rows.iter().for_each(|row| items.iter().for_each(|(_, expr)| self.subqueries(expr, row)));
            }
            _ => {}
        }
        own
    }

    fn rows(&self, operator: &Operator, argument: &[Value]) -> Vec<Vec<Value>> {
        let slots: Vec<usize> = (0..argument.len()).collect();
        let all = Wanted { slots: &slots, in_full: false };
        let (mut rows, mut ignored) = (Vec::new(), Mutations::default());
        let mut evaluator = Evaluator::new(self.staged.prepared(), self.graph.symbols());
        // What has no value has no rows.
        let _ = evaluator.run_part(operator, argument, all, self.environment, &mut ignored, &mut |row| {
            rows.push(row.to_vec());
            if rows.len() < ROWS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        rows
    }

    fn pattern(&mut self, asked: AskedPattern<'p>, row: &[Value]) {
        let AskedPattern { pattern, may_be_none, has_rows } = asked;
        let (mut made, mut reached, mut gave_up) = (Vec::new(), Vec::new(), false);
        let given: Vec<(usize, NodeId)> =
            self.given.iter().filter_map(|(slot, id)| Some((sought(pattern, *slot)?, *id))).collect();
        if is_plain(pattern) || (!has_rows && leads_to_chains(pattern)) {
            let origin = Origin::of(self.staged.plan(), pattern);
            let mut evaluator = Evaluator::new(self.staged.prepared(), self.graph.symbols());
            evaluator.in_context(self.environment, &mut |context| {
                let (graph, view, deadline) = (self.graph, self.environment.view, self.staged.deadline());
                let around = Around { graph, view, context, tries_max: TRIES_MAX / 10, deadline };
                let mut take = |one: &Made| {
                    made.push(one.clone());
                    if made.len() < MADE_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                };
                let mut search = Search::new(&origin, around, Some(row), &given, &mut take);
                let _ = search.go_on();
                gave_up = search.gave_up;
                if !search.matched {
                    reached = std::mem::take(&mut search.reached);
                }
            });
        }
        // What was broken off says nothing.
        if self.staged.is_late() {
            return;
        }
        // Nor does it where there was too much to try: then it is as the query has it.
        let found =
            if is_plain(pattern) && !(gave_up && given.is_empty()) { !made.is_empty() } else { has_rows || !made.is_empty() };
        let of = AskedOf::Pattern(pattern, may_be_none);
        self.found.push(Answered { of, found, made, reached, row: row.to_vec() });
    }

    fn condition(&mut self, condition: &'p Expr, row: &[Value]) {
        let mut found = false;
        let mut evaluator = Evaluator::new(self.staged.prepared(), self.graph.symbols());
        evaluator.in_context(self.environment, &mut |context: &dyn Context| {
            found = holds(condition, row, context);
        });
        if self.staged.is_late() {
            return;
        }
        let of = AskedOf::Condition(condition);
        self.found.push(Answered { of, found, made: Vec::new(), reached: Vec::new(), row: row.to_vec() });
        self.subqueries(condition, row);
    }

    fn subqueries(&mut self, expr: &'p Expr, row: &[Value]) {
        if let Expr::Subquery(subquery) = expr {
            let subquery: &'p Subquery = subquery;
            // What is asked within is asked for its rows, not for this one.
            self.operator(&subquery.plan, row, true);
        } else {
            expr.children().into_iter().for_each(|child| self.subqueries(child, row));
        }
    }
}
