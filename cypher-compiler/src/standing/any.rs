//! Mode AnyQuery: whatever reads, as a plan that can be maintained.
//!
//! The plan of the ad-hoc query is brought into a form that `render` knows how to keep up to date:
//!
//! - a `Match` over `Unit` is a connected pattern with the paths of its delta join, and graph-free like all above it;
//! - what asks the graph row by row lies in a `Subquery`, which starts at `Argument`: its answer for a row is worked out again
//!   when a node changes that was read for it;
//! - everything else looks at its rows alone.
//!
//! A `Subquery` at the root gives the columns in full, nodes and edges with what is known of them.

use std::collections::BTreeSet;

use weir_model::expression::Binary;
use weir_model::plan::{Name, Operator, Pattern, Slot, SortKey};
use weir_model::{AggregateKind, Expr};

use super::clock::is_clocked;
use super::split;
use crate::bind::{Draft, Holds};
use crate::lower::facts;
use crate::lower::orders::anchored;
use crate::rewrite::joined;
use crate::walk;

/// Brings the draft into the form above. An error is the number of relationships of a pattern that has too many.
pub fn maintainable(draft: &mut Draft) -> Result<(), usize> {
    let root = std::mem::replace(&mut draft.root, Operator::Unit);
    let hydrates = draft.columns.iter().any(|(_, slot)| draft.holds(*slot) != Holds::Plain);
    let mut maintain = Maintain { draft };
    let mut root = maintain.convert(root);
    root = match root {
        root if hydrates => each(root, |argument| argument),
        root @ Operator::Subquery { .. } => Operator::Project { input: Box::new(root), items: Vec::new() },
        root => root,
    };
    set_delta(&mut root)?;
    draft.root = root;
    Ok(())
}

/// The patterns are complete: their paths.
fn set_delta(operator: &mut Operator) -> Result<(), usize> {
    match operator {
        Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => {
            pattern.delta = super::delta::paths(pattern)?;
            Ok(())
        }
        Operator::Union { left, right, .. } | Operator::Join { left, right, .. } => {
            set_delta(left)?;
            set_delta(right)
        }
        other => input_mut(other).map_or(Ok(()), set_delta),
    }
}

/// The one input of an operator whose rows come of it row by row or all together.
fn input_mut(operator: &mut Operator) -> Option<&mut Operator> {
    use Operator::*;
    match operator {
        Filter { input, .. }
        | Project { input, .. }
        | Aggregate { input, .. }
        | Distinct { input, .. }
        | Sort { input, .. }
        | Skip { input, .. }
        | Limit { input, .. }
        | Unwind { input, .. }
        | Subquery { input, .. } => Some(input),
        _ => None,
    }
}

/// A part of the query that asks the graph for each row. Two of them, one after the other, are one.
pub fn each(input: Operator, inner: impl FnOnce(Operator) -> Operator) -> Operator {
    match input {
        Operator::Subquery { input, inner: first, unit: false } => {
            Operator::Subquery { input, inner: Box::new(inner(*first)), unit: false }
        }
        input => Operator::Subquery { input: Box::new(input), inner: Box::new(inner(Operator::Argument)), unit: false },
    }
}

pub struct Maintain<'a> {
    pub draft: &'a mut Draft,
}

impl Maintain<'_> {
    fn convert(&mut self, operator: Operator) -> Operator {
        use Operator::*;
        match operator {
            Match { input, pattern } => {
                let input = self.convert(*input);
                self.matched(input, pattern)
            }
            Filter { input, condition } => {
                let input = self.convert(*input);
                self.filter(input, vec![condition])
            }
            Project { input, mut items } => {
                let mut input = self.convert(*input);
                items.iter_mut().for_each(|(_, expr)| self.copy_reads(&mut input, expr));
                if items.iter().any(|(_, expr)| self.asks(expr)) {
                    return each(input, |argument| Project { input: Box::new(argument), items });
                }
                Project { input: Box::new(input), items }
            }
            Aggregate { input, mut keys, mut aggregates } => {
                let input = self.convert(*input);
                let ordered = aggregates.iter().any(|(_, aggregate)| aggregate.kind == AggregateKind::Collect);
                let arguments = aggregates.iter_mut().flat_map(|(_, aggregate)| &mut aggregate.arguments);
                let input = self.compute_first(input, keys.iter_mut().map(|(_, key)| key).chain(arguments).collect());
                let input = if ordered { self.in_order(input) } else { input };
                Aggregate { input: Box::new(input), keys, aggregates }
            }
            Distinct { input, slots } => Distinct { input: Box::new(self.convert(*input)), slots },
            Sort { input, mut keys, limit } => {
                let input = self.convert(*input);
                let input = self.compute_first(input, keys.iter_mut().map(|key| &mut key.expr).collect());
                Sort { input: Box::new(input), keys, limit }
            }
            Skip { input, count } => {
                let input = self.convert(*input);
                Skip { input: Box::new(self.in_order(input)), count }
            }
            Limit { input, count } => {
                let input = self.convert(*input);
                // SKIP and LIMIT of one clause show one window, whose order stands below SKIP.
                let input = if matches!(input, Skip { .. }) { input } else { self.in_order(input) };
                Limit { input: Box::new(input), count }
            }
            Unwind { input, mut list, into } => {
                let mut input = self.convert(*input);
                self.copy_reads(&mut input, &mut list);
                if self.asks(&list) {
                    return each(input, |argument| Unwind { input: Box::new(argument), list, into });
                }
                Unwind { input: Box::new(input), list, into }
            }
            Optional { input, inner, nulls } => {
                let input = self.convert(*input);
                self.optional(input, *inner, nulls)
            }
            // What is there for its effect has none in a query that only reads.
            Subquery { input, unit: true, .. } => self.convert(*input),
            Subquery { input, mut inner, unit } => {
                let input = self.convert(*input);
                let (mentioned, filled) = (inner.mentioned(), input.filled());
                if !mentioned.is_disjoint(&filled) {
                    return each(input, |argument| Subquery { input: Box::new(argument), inner, unit });
                }
                begin_at_unit(&mut inner);
                let inner = self.convert(*inner);
                match input {
                    Unit => inner,
                    input => Join { left: Box::new(input), right: Box::new(inner), keys: Vec::new(), nulls: None },
                }
            }
            Call { input, procedure, arguments, yields } => {
                let input = self.convert(*input);
                each(input, |argument| Call { input: Box::new(argument), procedure, arguments, yields })
            }
            Recurse { input, first, state, variables, inner, again, until } => {
                let input = self.convert(*input);
                each(input, |argument| Recurse { input: Box::new(argument), first, state, variables, inner, again, until })
            }
            Union { left, right, distinct } => {
                Union { left: Box::new(self.convert(*left)), right: Box::new(self.convert(*right)), distinct }
            }
            Join { left, right, keys, nulls } => {
                Join { left: Box::new(self.convert(*left)), right: Box::new(self.convert(*right)), keys, nulls }
            }
            // Queries that write were refused before.
            other @ (Unit | Argument | Schema(_) | Write { .. } | Merge { .. }) => other,
        }
    }

    fn asks(&self, expr: &Expr) -> bool {
        facts::asks(self.draft, expr)
    }

    /// Expressions of an operator that looks at its rows alone: those that ask the graph or the clock are worked out below it.
    fn compute_first(&mut self, mut input: Operator, expressions: Vec<&mut Expr>) -> Operator {
        let (mut items, mut asks) = (Vec::new(), false);
        for expr in expressions {
            self.copy_reads(&mut input, expr);
            if self.asks(expr) || is_clocked(expr) {
                asks |= self.asks(expr);
                let slot = self.draft.new_slot_for("", expr);
                items.push((slot, std::mem::replace(expr, Expr::Slot(slot))));
            }
        }
        if items.is_empty() {
            return input;
        }
        let project = |input| Operator::Project { input: Box::new(input), items };
        match asks {
            true => each(input, project),
            false => project(input),
        }
    }

    /// What `collect`, SKIP and LIMIT look at is still in the order of an ORDER BY of an earlier clause, which then stands right
    /// below them, too.
    fn in_order(&mut self, mut input: Operator) -> Operator {
        if matches!(input, Operator::Sort { .. }) {
            return input;
        }
        match self.order_below(&mut input) {
            Some(keys) => Operator::Sort { input: Box::new(input), keys, limit: None },
            None => input,
        }
    }

    /// The keys of an ORDER BY further below, as slots that are filled there and go with each row. What makes rows of each row
    /// keeps their order; those of DISTINCT, an aggregate and UNION have none.
    fn order_below(&mut self, operator: &mut Operator) -> Option<Vec<SortKey>> {
        match operator {
            Operator::Sort { input, keys, .. } => {
                let mut items = Vec::new();
                for key in keys.iter_mut() {
                    let slot = self.draft.new_slot_for("", &key.expr);
                    items.push((slot, std::mem::replace(&mut key.expr, Expr::Slot(slot))));
                }
                let below = std::mem::replace(&mut **input, Operator::Unit);
                **input = Operator::Project { input: Box::new(below), items };
                Some(keys.clone())
            }
            Operator::Match { input, .. }
            | Operator::Filter { input, .. }
            | Operator::Project { input, .. }
            | Operator::Skip { input, .. }
            | Operator::Limit { input, .. }
            | Operator::Unwind { input, .. }
            | Operator::Call { input, .. }
            | Operator::Recurse { input, .. }
            | Operator::Subquery { input, unit: true, .. }
            | Operator::Join { left: input, nulls: Some(_), .. } => self.order_below(input),
            Operator::Join { left, right, nulls: None, .. } => self.order_of_each(left, right),
            // Where nothing is found inside, the keys of there are null already. They do not join `nulls`: a node that is found
            // inside may be one of the row around.
            Operator::Subquery { input, inner, unit: false } | Operator::Optional { input, inner, .. } => {
                self.order_of_each(input, inner)
            }
            _ => None,
        }
    }

    /// Of rows that are made for each of others, by a query of their own: these come in their order, and what is made for one of
    /// them in the order of that query. Of these that are equal, or have no order, what is made for one still comes together.
    fn order_of_each(&mut self, outer: &mut Operator, inner: &mut Operator) -> Option<Vec<SortKey>> {
        let (of_outer, of_inner) = (self.order_below(outer), self.order_below(inner));
        let Some(of_inner) = of_inner else { return of_outer };
        let mut keys = of_outer.unwrap_or_default();
        keys.extend(told_apart_by(outer).into_iter().map(|slot| SortKey { expr: Expr::Slot(slot), descending: false }));
        keys.extend(of_inner);
        Some(keys)
    }

    /// The conditions, those that look at rows alone first.
    pub fn filter(&mut self, mut input: Operator, conditions: Vec<Expr>) -> Operator {
        let (mut free, mut asking) = (Vec::new(), Vec::new());
        let flat = conditions.into_iter().flat_map(|condition| match condition {
            Expr::And(all) => all,
            other => vec![other],
        });
        for mut condition in flat {
            self.copy_reads(&mut input, &mut condition);
            if self.asks(&condition) { asking.push(condition) } else { free.push(condition) }
        }
        for condition in free {
            input = Operator::Filter { input: Box::new(input), condition };
        }
        match asking.len() {
            0 => input,
            _ => each(input, |argument| Operator::Filter { input: Box::new(argument), condition: joined(asking) }),
        }
    }

    /// A pattern over converted input.
    fn matched(&mut self, input: Operator, pattern: Pattern) -> Operator {
        if matches!(input, Operator::Unit) {
            return self.source(pattern);
        }
        let bound = pattern.nodes.iter().any(|node| node.bound) || pattern.edges.iter().any(|edge| edge.bound);
        let (filled, own) = (input.filled(), pattern.slots());
        let is_outer = |slot: &Slot| filled.contains(slot) && !own.contains(slot);
        let enters_from_outside = pattern.nodes.iter().any(|node| {
            let conditions = node.conditions.iter().chain(&pattern.conditions);
            conditions.filter_map(|condition| anchored(condition, node.slot)).any(|id| id.slots().iter().any(is_outer))
        });
        if bound || enters_from_outside {
            return match split::merged(input, pattern) {
                Ok(merged) => self.rematched(merged),
                Err(apart) => {
                    let (input, pattern) = *apart;
                    each(input, |argument| Operator::Match { input: Box::new(argument), pattern })
                }
            };
        }
        let mut pattern = pattern;
        // A chain that asks for something of the rows so far is followed when they are there.
        if pattern.edges.iter().any(|edge| split::chain_slots(edge).any(|slot| is_outer(&slot))) {
            return self.begun_at_pieces(input, pattern);
        }
        // A part of its own, which conditions may compare with the rows so far.
        let across = split::take_across(&mut pattern, &is_outer);
        let right = self.source(pattern);
        self.joined(input, right, across)
    }

    /// Filters over one `Match`, into which the pattern above it was taken: its conditions may now be placed anew.
    pub fn rematched(&mut self, operator: Operator) -> Operator {
        match operator {
            Operator::Filter { input, condition } => {
                let input = self.rematched(*input);
                self.filter(input, vec![condition])
            }
            Operator::Match { pattern, .. } => self.source(pattern),
            other => other,
        }
    }

    /// Two sides side by side, and what must hold across them; equations are the keys.
    pub fn joined(&mut self, mut left: Operator, mut right: Operator, across: Vec<Expr>) -> Operator {
        let (keys, rest) = self.keys(&mut left, &mut right, across);
        let join = Operator::Join { left: Box::new(left), right: Box::new(right), keys, nulls: None };
        self.filter(join, rest)
    }

    /// Of what must hold across two sides the equations, as keys, and the rest.
    pub fn keys(&mut self, left: &mut Operator, right: &mut Operator, mut across: Vec<Expr>) -> (Vec<(Expr, Expr)>, Vec<Expr>) {
        for condition in &mut across {
            self.copy_reads(left, condition);
            self.copy_reads(right, condition);
        }
        let (of_left, of_right) = (left.filled(), right.filled());
        let only = |expr: &Expr, of: &BTreeSet<Slot>, not: &BTreeSet<Slot>| {
            let slots = expr.slots();
            slots.iter().any(|slot| of.contains(slot)) && !slots.iter().any(|slot| not.contains(slot))
        };
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for condition in across {
            match condition {
                Expr::Binary { operator: Binary::Equal, left: one, right: other }
                    if only(&one, &of_left, &of_right) && only(&other, &of_right, &of_left) =>
                {
                    keys.push((*one, *other));
                }
                Expr::Binary { operator: Binary::Equal, left: one, right: other }
                    if only(&one, &of_right, &of_left) && only(&other, &of_left, &of_right) =>
                {
                    keys.push((*other, *one));
                }
                condition => rest.push(condition),
            }
        }
        // What a key asks is asked below, for each row of its side: above, it would be for every pair of rows.
        let take = |side: &mut Operator| std::mem::replace(side, Operator::Unit);
        *left = self.compute_first(take(left), keys.iter_mut().map(|(key, _)| key).collect());
        *right = self.compute_first(take(right), keys.iter_mut().map(|(_, key)| key).collect());
        (keys, rest)
    }

    /// Replaces what an expression reads of the nodes and edges of a maintained pattern below by slots that the pattern fills.
    pub fn copy_reads(&mut self, below: &mut Operator, expr: &mut Expr) {
        match expr {
            Expr::Property { of, key } => {
                if let Expr::Slot(slot) = **of
                    && let Some(read) = self.read(below, slot, Some(*key))
                {
                    *expr = Expr::Slot(read);
                    return;
                }
            }
            Expr::Call { function, arguments } if function.name == "properties" => {
                if let [Expr::Slot(slot)] = arguments.as_slice()
                    && let Some(read) = self.read(below, *slot, None)
                {
                    *expr = Expr::Slot(read);
                    return;
                }
            }
            // The slots of a subquery are its own affair.
            Expr::Subquery(_) => return,
            _ => {}
        }
        for child in walk::children_mut(expr) {
            self.copy_reads(below, child);
        }
    }

    /// The slot into which a pattern below copies a property of the node or edge in `slot`, or all of those of a node.
    fn read(&mut self, below: &mut Operator, slot: Slot, key: Option<Name>) -> Option<Slot> {
        match below {
            Operator::Match { input, pattern } if matches!(**input, Operator::Unit) => {
                if let Some(node) = pattern.nodes.iter_mut().find(|node| node.slot == slot) {
                    let Some(key) = key else {
                        let all = node.reads_all.unwrap_or_else(|| self.draft.new_slot("", Holds::Plain));
                        node.reads_all = Some(all);
                        return Some(all);
                    };
                    return Some(self.read_into(&mut node.reads, key));
                }
                let edge = pattern.edges.iter_mut().find(|edge| edge.slot == Some(slot))?;
                Some(self.read_into(&mut edge.reads, key?))
            }
            Operator::Project { input, items } => match items.iter().find(|(into, _)| *into == slot) {
                Some((_, Expr::Slot(from))) => self.read(input, *from, key),
                Some(_) => None,
                None => self.read(input, slot, key),
            },
            Operator::Unwind { into, .. } if *into == slot => None,
            Operator::Filter { input, .. } | Operator::Unwind { input, .. } => self.read(input, slot, key),
            Operator::Subquery { input, inner, .. } if !inner.filled().contains(&slot) || is_only_bound(inner, slot) => {
                self.read(input, slot, key)
            }
            Operator::Join { left, right, nulls: None, .. } => self.read(left, slot, key).or_else(|| self.read(right, slot, key)),
            Operator::Join { right, nulls: Some(nulls), .. } if nulls.contains(&slot) => {
                let read = match &mut **right {
                    // What belongs to a node that tells rows apart does not tell them further apart.
                    Operator::Distinct { input, slots } => {
                        let read = self.read(input, slot, key)?;
                        slots.extend((!slots.contains(&read)).then_some(read));
                        read
                    }
                    right => self.read(right, slot, key)?,
                };
                nulls.extend((!nulls.contains(&read)).then_some(read));
                Some(read)
            }
            Operator::Join { left, .. } => self.read(left, slot, key),
            _ => None,
        }
    }

    fn read_into(&mut self, reads: &mut Vec<(Name, Slot)>, key: Name) -> Slot {
        if let Some((_, slot)) = reads.iter().find(|(known, _)| *known == key) {
            return *slot;
        }
        let slot = self.draft.new_slot("", Holds::Plain);
        reads.push((key, slot));
        slot
    }
}

/// The slots by which rows are told apart, those of a row around them aside. What is read of a node or an edge, and what is
/// worked out of a row, follows from these.
fn told_apart_by(operator: &Operator) -> BTreeSet<Slot> {
    use Operator::*;
    let and = |input: &Operator, own: Vec<Slot>| &told_apart_by(input) | &own.into_iter().collect();
    match operator {
        Unit | Argument | Schema(_) => BTreeSet::new(),
        Match { input, pattern } => {
            let nodes = pattern.nodes.iter().filter(|node| !node.bound).map(|node| node.slot);
            let edges = pattern.edges.iter().filter(|edge| !edge.bound).filter_map(|edge| edge.slot);
            and(input, nodes.chain(edges).chain(pattern.paths.iter().map(|path| path.slot)).collect())
        }
        Aggregate { .. } => operator.fills().into_iter().collect(),
        Distinct { slots, .. } | Union { distinct: Some(slots), .. } => slots.iter().copied().collect(),
        Union { left, right, distinct: None } => &left.filled() & &right.filled(),
        Join { left, right, nulls: None, .. } | Subquery { input: left, inner: right, unit: false } => {
            &told_apart_by(left) | &told_apart_by(right)
        }
        Join { left: input, .. }
        | Optional { input, .. }
        | Unwind { input, .. }
        | Merge { input, .. }
        | Call { input, .. }
        | Recurse { input, .. } => and(input, operator.fills()),
        Filter { input, .. }
        | Project { input, .. }
        | Sort { input, .. }
        | Skip { input, .. }
        | Limit { input, .. }
        | Write { input, .. }
        | Subquery { input, .. } => told_apart_by(input),
    }
}

/// Whether the slot stands in there only as a node or edge that was bound outside.
fn is_only_bound(inner: &Operator, slot: Slot) -> bool {
    let mut only = true;
    inner.each_below(&mut |operator| {
        let here = match operator {
            Operator::Match { pattern, .. } => {
                pattern.nodes.iter().any(|node| node.slot == slot && !node.bound)
                    || pattern.edges.iter().any(|edge| edge.slot == Some(slot) && !edge.bound)
            }
            Operator::Optional { nulls, .. } => nulls.contains(&slot),
            Operator::Project { items, .. } => items.iter().any(|(into, _)| *into == slot),
            Operator::Aggregate { .. } | Operator::Call { .. } | Operator::Recurse { .. } => true,
            Operator::Unwind { into, .. } => *into == slot,
            _ => false,
        };
        only &= !here;
    });
    only
}

/// A subquery that stands for itself begins with nothing.
fn begin_at_unit(operator: &mut Operator) {
    if matches!(operator, Operator::Argument) {
        *operator = Operator::Unit;
        return;
    }
    // What an operator does for each row of its input begins with that row.
    let for_each_row = matches!(operator, Operator::Optional { .. } | Operator::Subquery { .. } | Operator::Recurse { .. });
    operator.children_mut().into_iter().take(if for_each_row { 1 } else { 2 }).for_each(begin_at_unit);
}
