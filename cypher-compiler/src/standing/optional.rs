//! OPTIONAL MATCH as a join of its own: the pattern is maintained like any other, and a row that has no match stays with nulls.
//!
//! Asked row by row, a node that very many edges come to would have all of them gone through at each. So the pattern stands for
//! itself, taken together with the one that its nodes are bound by: that one finds no node that cannot be among the rows. What
//! leaves rows out in between (LIMIT, HAVING, what is asked of the graph) may leave few, of which few are asked more cheaply than
//! all are kept; then, and for chains, paths, and conditions on other rows than by `=`, it stays a question for each row.

use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::{Operator, Pattern, Slot};

use super::any::{Maintain, each};
use super::clock::is_clocked;
use super::delta::EDGES_MAX;
use super::split;
use crate::bind::Holds;
use crate::lower::facts;
use crate::lower::orders::anchored;

impl Maintain<'_> {
    /// `input` is converted.
    pub fn optional(&mut self, mut input: Operator, inner: Operator, nulls: Vec<Slot>) -> Operator {
        match self.beside(&mut input, &inner) {
            Some((right, keys)) => Operator::Join { left: Box::new(input), right: Box::new(right), keys, nulls: Some(nulls) },
            None => each(input, |argument| Operator::Optional { input: Box::new(argument), inner: Box::new(inner), nulls }),
        }
    }

    /// The pattern as a source of its own, and what its rows must have in common with those below.
    fn beside(&mut self, input: &mut Operator, inner: &Operator) -> Option<(Operator, Vec<(Expr, Expr)>)> {
        let mut pattern = stands_alone(inner)?;
        let (own, filled) = (pattern.slots(), input.filled());
        let mut bound: Vec<Slot> = pattern.nodes.iter().filter(|node| node.bound).map(|node| node.slot).collect();
        let mut from = Operator::Unit;
        if !bound.is_empty() {
            let found = base(input, &bound)?;
            // Nodes of the row that conditions look at belong to what is maintained, too.
            let mentioned = inner.mentioned();
            let is_known = |slot: &Slot| mentioned.contains(slot) && !own.contains(slot);
            let more: Vec<Slot> = nodes_of(&found).filter(is_known).collect();
            bound.extend(more);
            from = base(input, &bound)?;
            forget_reads(&mut from);
        }
        let is_outer = |slot: &Slot| filled.contains(slot) && !bound.contains(slot) && !own.contains(slot);
        let across = split::take_across(&mut pattern, &is_outer);
        let is_entered = pattern.nodes.iter().any(|node| across.iter().any(|condition| anchored(condition, node.slot).is_some()));
        let found: Vec<Slot> = own.iter().copied().filter(|slot| !bound.contains(slot)).collect();
        let too_many = pattern.edges.len() > EDGES_MAX || edges_of(&from) > BASE_EDGES_MAX;
        if is_entered || too_many || !across.iter().all(|condition| self.is_key(input, &found, condition)) {
            return None;
        }
        let mut right = if bound.is_empty() {
            self.source(pattern)
        } else {
            let apart = self.tells_apart(&from, &mut pattern, &bound);
            let merged = self.rematched(split::merged(from, pattern).ok()?);
            match apart {
                Some(slots) => Operator::Distinct { input: Box::new(merged), slots },
                None => merged,
            }
        };
        let (equal, rest) = self.keys(input, &mut right, across);
        // Conditions on pairs of rows, which a join that must know whether there is any does not test.
        if !rest.is_empty() {
            return None;
        }
        let same = bound.into_iter().map(|slot| (Expr::Slot(slot), Expr::Slot(slot)));
        Some((right, same.chain(equal).collect()))
    }

    /// Whether a condition is an equation of which the rows' side has a value in each of them: a row for which that is worked out
    /// below the join, and has none, would not come to it. `found` is what the pattern alone finds.
    fn is_key(&mut self, input: &mut Operator, found: &[Slot], condition: &Expr) -> bool {
        let Expr::Binary { operator: Binary::Equal, left, right } = condition else { return false };
        let is_of_row = |side: &Expr| !side.slots().iter().any(|slot| found.contains(slot));
        [left, right].into_iter().filter(|side| is_of_row(side)).all(|side| {
            let mut side = (**side).clone();
            self.copy_reads(input, &mut side);
            let is_of_node = matches!(&side, Expr::Property { of, .. }
                if matches!(**of, Expr::Slot(slot) if self.draft.holds(slot) == Holds::Node));
            is_of_node || !(facts::asks(self.draft, &side) || is_clocked(&side))
        })
    }

    /// By what the matches of the pattern are told apart, whatever else it took to bind its nodes; None where that is nothing.
    fn tells_apart(&mut self, from: &Operator, pattern: &mut Pattern, bound: &[Slot]) -> Option<Vec<Slot>> {
        if edges_of(from) == 0 && nodes_of(from).all(|node| bound.contains(&node)) {
            return None;
        }
        for edge in &mut pattern.edges {
            edge.slot.get_or_insert_with(|| self.draft.new_slot("", Holds::Edge));
        }
        let own = pattern.slots();
        let besides = bound.iter().copied().filter(|slot| !own.contains(slot)).collect::<Vec<Slot>>();
        Some([own, besides].concat())
    }
}

/// The pattern that binds the nodes is found once more only if it has at most this many edges.
const BASE_EDGES_MAX: usize = 8;

/// The pattern of an OPTIONAL MATCH, with what is asked of the row alone, where it is one of single edges.
fn stands_alone(inner: &Operator) -> Option<Pattern> {
    let Operator::Match { input, pattern } = inner else { return None };
    let mut pattern = pattern.clone();
    let mut below = &**input;
    while let Operator::Filter { input, condition } = below {
        pattern.conditions.push(condition.clone());
        below = input;
    }
    let is_plain = pattern.paths.is_empty() && pattern.edges.iter().all(|edge| edge.chain.is_none() && !edge.bound);
    (is_plain && matches!(below, Operator::Argument)).then_some(pattern)
}

/// The pattern by which these slots are filled with nodes, where nothing above it leaves rows out.
fn base(operator: &Operator, bound: &[Slot]) -> Option<Operator> {
    let is_among = |slot: &Slot| bound.contains(slot);
    // Found once more for each of what was made one row of, it would be found as often as both together.
    let of_one = |input: &Operator| base(input, bound).filter(|found| edges_of(found) == 0);
    let hands_on = |items: &[(Slot, Expr)]| {
        items.iter().filter(|(slot, _)| is_among(slot)).all(|(slot, expr)| matches!(expr, Expr::Slot(of) if of == slot))
    };
    match operator {
        Operator::Match { .. } | Operator::Filter { .. } => is_source(operator, bound).then(|| operator.clone()),
        Operator::Project { input, items } if hands_on(items) => base(input, bound),
        Operator::Aggregate { input, keys, .. } => {
            let is_key = |slot: &Slot| keys.iter().any(|(key, _)| key == slot);
            if bound.iter().all(is_key) && hands_on(keys) { of_one(input) } else { None }
        }
        Operator::Distinct { input, slots } if bound.iter().all(|slot| slots.contains(slot)) => of_one(input),
        Operator::Unwind { input, into, .. } if !is_among(into) => base(input, bound),
        // A node that is given by its id.
        Operator::Subquery { input, inner, unit: false } if matches!(**input, Operator::Unit) => match &**inner {
            Operator::Match { input, pattern } if matches!(**input, Operator::Argument) => {
                let alone = Operator::Match { input: Box::new(Operator::Unit), pattern: pattern.clone() };
                is_source(&alone, bound).then_some(alone)
            }
            _ => None,
        },
        Operator::Join { left, right, nulls: Some(nulls), .. } => {
            base(if bound.iter().any(|slot| nulls.contains(slot)) { right } else { left }, bound)
        }
        _ => None,
    }
}

/// A pattern with nothing but conditions above it.
fn pattern_of(operator: &Operator) -> Option<&Pattern> {
    match operator {
        Operator::Filter { input, .. } => pattern_of(input),
        Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => Some(pattern),
        _ => None,
    }
}

fn edges_of(operator: &Operator) -> usize {
    pattern_of(operator).map_or(0, |pattern| pattern.edges.len())
}

/// Drops what a pattern copies for the operators above alone: none of its own conditions asks for it.
fn forget_reads(operator: &mut Operator) {
    let mut conditions = Vec::new();
    operator.all_expressions(&mut conditions);
    let asked: Vec<Slot> = conditions.into_iter().flat_map(Expr::slots).collect();
    let Some(pattern) = pattern_mut(operator) else { return };
    let reads = pattern.nodes.iter_mut().map(|node| &mut node.reads).chain(pattern.edges.iter_mut().map(|edge| &mut edge.reads));
    reads.for_each(|reads| reads.retain(|(_, slot)| asked.contains(slot)));
    pattern.nodes.iter_mut().for_each(|node| node.reads_all = node.reads_all.filter(|slot| asked.contains(slot)));
}

fn pattern_mut(operator: &mut Operator) -> Option<&mut Pattern> {
    match operator {
        Operator::Filter { input, .. } => pattern_mut(input),
        Operator::Match { pattern, .. } => Some(pattern),
        _ => None,
    }
}

fn nodes_of(operator: &Operator) -> impl Iterator<Item = Slot> {
    pattern_of(operator).into_iter().flat_map(|pattern| &pattern.nodes).map(|node| node.slot)
}

/// Whether an operator is a pattern with nothing but conditions above it, and has these nodes.
fn is_source(operator: &Operator, bound: &[Slot]) -> bool {
    pattern_of(operator).is_some() && bound.iter().all(|slot| nodes_of(operator).any(|node| node == *slot))
}
