//! Why: what made a match of a standing query's pattern, and where there is none, how far the pattern gets.
//!
//! Worked out when somebody asks, from the graph as of a moment and its history; nothing is kept for it. The pattern is looked
//! for from the nodes that were given, one choice after another, with a bound on how many are tried. Of the choices that come to
//! nothing those are kept that got farthest, each with the condition that it does not meet. What stands above patterns is worked
//! out as of the moment, with what each row was made of (`staged`); since when a row is there is found by going back through the
//! changes it can depend on (`since`).
//!
//!     search    the matches of one pattern, one choice after another, and how far the others get
//!     watching  a View that remembers what was asked, and what the answers were
//!     staged    the answer of a query with stages as of one moment, with what each row was made of
//!     through   what is asked for, looked for in the rows that a stage takes in
//!     narrow    which nodes of the patterns follow from nodes of the answer
//!     sought    a row of the answer of which nothing is known but what it is as a whole
//!     lookups   what a query asks of the graph for one row
//!     since     from which tick on a row has been there
//!     records   which of them ticks were given to

mod search;
mod watching;
mod staged;
mod through;
mod narrow;
mod sought;
mod lookups;
mod since;
mod records;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use weir_model::expression::Failure;
use weir_model::plan::{Name, Operator, Pattern, Plan, Slot};
use weir_model::{Context, Expr, GraphFree, NodeId, Text, Tick, Value};

use crate::error::EngineError;
use crate::evaluate::{Evaluator, Prepared};
use crate::graph::Graph;
use crate::view::EdgeRef;
use search::{Around, Search};

pub use crate::render::stages::derive::{Asks, Level, Of, What};
pub use lookups::{Answered, AskedOf, Fact, FactOf};
pub use records::{OfRecord, Records};
pub use since::Since;
pub use sought::Sought;
pub use staged::{Fits, Found, Matched, Meant, Staged, Stop, Wanted, Worked};

/// Nodes and edges that are tried for one question.
const TRIES_MAX: u64 = 2_000_000;

/// A question may take this long; then what is known by then is told.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Of the choices that got equally far, at most this many are kept.
const REACHED_MAX: usize = 5;

/// A pattern of a standing query, with what its rows go through up to the first stage that is more than a condition or an
/// expression.
pub struct Origin<'p> {
    plan: &'p Plan,
    pub pattern: &'p Pattern,
    ways: Vec<Way<'p>>,
    /// No such stage is there: the rows of the pattern are the results.
    pub whole: bool,
}

#[derive(Clone, Copy)]
enum Way<'p> {
    Filter(&'p Expr),
    Item(Slot, &'p Expr),
}

/// One way in which a pattern matches.
#[derive(Clone, Default, Debug)]
pub struct Made {
    /// The values of all slots of the plan.
    pub row: Vec<Value>,
    /// The nodes, in the order of those of the pattern.
    pub nodes: Vec<NodeId>,
    /// The edges, in the order of those of the pattern.
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
    /// No chain leads from a node to the rest of the pattern. What it would go through is not told.
    NoWay {
        edge: usize,
        from: usize,
    },
    /// A condition of a node, of an edge or of the whole.
    Condition(Expr),
    /// An expression that has no value, and why.
    NoValue(Expr, Failure),
    SameNode(usize, usize),
    SameEdge(usize, usize),
}

/// How much is tried for a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// At most `TRIES_MAX` nodes and edges: choices that come to nothing are all alike after these.
    Tries,
    /// As many as there is time for: one among all is looked for.
    Time,
}

/// What came of a question.
#[derive(Debug)]
pub struct Looked {
    /// The moment that was looked at.
    pub at: Tick,
    /// The choices that got farthest, where nothing matched.
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
    Label {
        node: usize,
        label: Text,
    },
    Property {
        node: usize,
        key: Text,
        value: Value,
    },
    Edge {
        edge: usize,
    },
    EdgeProperty {
        edge: usize,
        key: Text,
        value: Value,
    },
    /// Of a node nothing is asked but that it is there: what has been known of it for longest.
    There {
        node: usize,
        by: FactOf,
    },
}

/// When whoever asks now has waited long enough.
pub fn deadline() -> Instant {
    Instant::now() + TIME_MAX
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

impl<'p> Origin<'p> {
    /// The pattern alone.
    pub fn of(plan: &'p Plan, pattern: &'p Pattern) -> Origin<'p> {
        Origin { plan, pattern, ways: Vec::new(), whole: false }
    }

    /// Which slots hold something when a row of the pattern has come so far.
    pub fn fills(&self, slot: Slot) -> bool {
        self.pattern.slots().contains(&slot) || self.ways.iter().any(|way| matches!(way, Way::Item(of, _) if *of == slot))
    }

    /// What a column shows, over what the pattern itself fills; None where more lies between.
    pub fn expr_of(&self, column: Slot) -> Option<Expr> {
        let mut expr = Expr::Slot(column);
        for way in self.ways.iter().rev() {
            if let (Way::Item(slot, of), Expr::Slot(at)) = (way, &expr)
                && slot == at
            {
                expr = (*of).clone();
            }
        }
        let (shown, filled) = (expr.slots(), self.pattern.slots());
        (!shown.is_empty() && shown.iter().all(|slot| filled.contains(slot))).then_some(expr)
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
    /// Looks for matches of a pattern in which some of its nodes are the given ones, as of a moment; none is the present. There
    /// is time until the deadline. Where values are wanted, what shows others is passed over, and of choices that come to nothing
    /// those are told that show some of these.
    pub fn why(
        &self,
        origin: &Origin<'_>,
        given: &[(usize, NodeId)],
        wanted: &[Wanted<'_>],
        (patience, deadline): (Patience, Instant),
        at: Option<Tick>,
        each: &mut dyn FnMut(&Made) -> ControlFlow<()>,
    ) -> Result<Looked, EngineError> {
        let (moment, at) = self.moment(at)?;
        let tries_max = if patience == Patience::Time { u64::MAX } else { TRIES_MAX };
        let (mut gave_up, mut reached) = (false, Vec::new());
        let mut look = |context: &dyn Context| {
            let around = Around { graph: self, view: moment.view(), context, tries_max, deadline };
            let mut search = Search::new(origin, around, None, given, &mut *each);
            search.wanted = wanted;
            let _ = search.go_on();
            gave_up = search.gave_up;
            if !search.matched {
                reached = std::mem::take(&mut search.reached);
            }
        };
        // The pattern itself looks at its row alone.
        if wanted.iter().any(|(expr, _)| through::asks(expr)) {
            let prepared = Prepared::new(origin.plan.clone(), self.symbols());
            Evaluator::new(&prepared, self.symbols()).in_context(&self.looked_at(moment.view(), at), &mut look);
        } else {
            look(&GraphFree::rows(self.ids(), &origin.plan.names).at(at.millis() as i64));
        }
        moment.take_failure().map_or(Ok(Looked { at, reached, gave_up }), Err)
    }

    /// The facts that a match rests on, and since when each is there.
    pub fn reasons(&self, origin: &Origin<'_>, made: &Made, at: Tick) -> Result<Vec<Reason>, EngineError> {
        let mut found: Vec<(ReasonOf, FactOf)> = Vec::new();
        let text = |name: &Name| origin.plan.names.get(name.0 as usize).cloned().unwrap_or_default();
        let symbol = |name: &Name| self.symbols().intern(&text(name));
        let value = |slot: &Slot| made.row.get(slot.0 as usize).cloned().unwrap_or_default();
        for (number, (node, id)) in origin.pattern.nodes.iter().zip(&made.nodes).enumerate() {
            let node_id = *id;
            for name in &node.labels {
                let of = FactOf::Label { node: node_id, label: symbol(name) };
                found.push((ReasonOf::Label { node: number, label: text(name) }, of));
            }
            let mut read: Vec<(Text, Value)> = node.reads.iter().map(|(name, slot)| (text(name), value(slot))).collect();
            if let Some(Value::Map(all)) = node.reads_all.map(|slot| value(&slot)) {
                let others = all.iter().filter(|(key, _)| read.iter().all(|(known, _)| known != key));
                let others: Vec<(Text, Value)> = others.cloned().collect();
                read.extend(others);
            }
            for (key, value) in read {
                let of = FactOf::Property { node: node_id, key: self.symbols().intern(&key), value: value.clone() };
                found.push((ReasonOf::Property { node: number, key, value }, of));
            }
        }
        for (number, (edge, of)) in origin.pattern.edges.iter().zip(&made.edges).enumerate() {
            found.push((ReasonOf::Edge { edge: number }, FactOf::Edge { edge: *of }));
            for (name, slot) in &edge.reads {
                let fact = FactOf::EdgeProperty { edge: *of, key: symbol(name), value: value(slot) };
                found.push((ReasonOf::EdgeProperty { edge: number, key: text(name), value: value(slot) }, fact));
            }
        }
        let (of, facts): (Vec<ReasonOf>, Vec<FactOf>) = found.into_iter().unzip();
        let facts = self.facts(facts, at)?;
        let mut reasons: Vec<Reason> = of.into_iter().zip(facts).map(|(of, fact)| Reason { of, since: fact.since }).collect();
        let is_known = |reason: &Reason| !matches!(&reason.of, ReasonOf::Property { value: Value::Null, .. });
        if let ([id], []) = (made.nodes.as_slice(), made.edges.as_slice())
            && !reasons.iter().any(is_known)
        {
            let oldest = self.oldest_of(*id, at)?;
            reasons.extend(oldest.map(|fact| Reason { of: ReasonOf::There { node: 0, by: fact.of }, since: fact.since }));
        }
        Ok(reasons)
    }
}
