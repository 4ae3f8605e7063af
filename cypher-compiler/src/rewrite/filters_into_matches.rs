//! Rule: what `WITH … WHERE` asks of a pattern below is a condition of that pattern: `MATCH (n:M) WITH n WHERE n.k = 5` is found
//! by an index, as `MATCH (n:M) WHERE n.k = 5` is.
//!
//! On the way down is only what passes rows on or leaves them out, each for itself: other filters, ORDER BY, DISTINCT of what the
//! condition looks at, what is computed and never fails (and then stands in the condition for its variable), and a CALL. Not
//! LIMIT and SKIP, what groups, and what writes: there the rows that are left out have a say in what becomes of the others.
//!
//! Only conditions that never fail go: they are tested of rows that the filter may not have come to. What fails for a row that
//! one of them leaves out is not asked of it any more where that is asked in the same pattern, or in a filter on the way.

use weir_model::expression::Binary;
use weir_model::plan::{Operator, Pattern, Slot};
use weir_model::{Expr, Value};

use crate::bind::Draft;
use crate::lower::certain::{Known, has_a_value, is_yes_or_no};
use crate::lower::orders::anchored;
use crate::{Options, walk};

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut root = std::mem::replace(&mut draft.root, Operator::Unit);
    let known = |slot: Slot| draft.holds(slot);
    let mut changed = false;
    walk::operators_mut(&mut root, &mut |operator| {
        let Operator::Filter { input, condition } = operator else { return };
        let parts = match std::mem::replace(condition, Expr::Literal(Value::Null)) {
            Expr::And(parts) => parts,
            one => vec![one],
        };
        let mut left = Vec::with_capacity(parts.len());
        for part in parts {
            let may_go = is_yes_or_no(&part, &known) && !walk::slots(&part).is_empty();
            let stays = if may_go { sink(input, part, &known) } else { Some(part) };
            changed |= stays.is_none();
            left.extend(stays);
        }
        match left.len() {
            0 => {
                let inner = std::mem::replace(&mut **input, Operator::Unit);
                *operator = inner;
            }
            1 => *condition = left.remove(0),
            _ => *condition = Expr::And(left),
        }
    });
    draft.root = root;
    changed
}

/// A condition has at most this many parts once its variables are replaced by what they stand for: where each of many variables
/// names the one before twice, the parts double each time.
const PARTS_MAX: usize = 200;

/// How many parts an expression has, where a slot has as many as `of_slot` says.
fn parts(expr: &Expr, of_slot: &dyn Fn(Slot) -> usize) -> usize {
    match expr {
        Expr::Slot(slot) => of_slot(*slot),
        expr => expr.children().into_iter().map(|child| parts(child, of_slot)).fold(1, usize::saturating_add),
    }
}

/// Puts the condition into a pattern below; gives it back where there is none for it.
fn sink(operator: &mut Operator, condition: Expr, known: Known<'_>) -> Option<Expr> {
    let slots = walk::slots(&condition);
    match operator {
        Operator::Filter { input, .. } => sink(input, condition, known),
        Operator::Sort { input, keys, limit: None } if keys.iter().all(|key| has_a_value(&key.expr, known)) => {
            sink(input, condition, known)
        }
        Operator::Distinct { input, slots: kept } if slots.iter().all(|slot| kept.contains(slot)) => {
            sink(input, condition, known)
        }
        Operator::Project { input, items } if items.iter().all(|(_, item)| has_a_value(item, known)) => {
            let of_slot = |slot: Slot| items.iter().find(|(into, _)| *into == slot).map_or(1, |(_, item)| parts(item, &|_| 1));
            if parts(&condition, &of_slot) > PARTS_MAX {
                return Some(condition);
            }
            let mut inside = condition.clone();
            walk::rewrite(&mut inside, &mut |part| {
                if let Expr::Slot(slot) = *part
                    && let Some((_, item)) = items.iter().find(|(into, _)| *into == slot)
                {
                    *part = item.clone();
                }
            });
            // What is known of the new slots may not be known of what they are made of.
            let stays = if is_yes_or_no(&inside, known) { sink(input, inside, known) } else { Some(inside) };
            stays.map(|_| condition)
        }
        Operator::Subquery { input, inner, unit: false } => {
            let (inside, outside) = (inner.filled(), input.filled());
            if slots.iter().all(|slot| inside.contains(slot) && !outside.contains(slot)) {
                sink(inner, condition, known)
            } else {
                Some(condition)
            }
        }
        Operator::Match { input, pattern } => {
            // Of a path, or a chain, a condition may say which of several is looked for: it is asked of the one that was found.
            if slots.iter().any(|slot| is_whole(pattern, *slot)) {
                return Some(condition);
            }
            if !slots.iter().any(|slot| is_found(pattern, *slot)) {
                return sink(input, condition, known);
            }
            let condition = by_lookup(pattern, condition);
            pattern.conditions.push(condition);
            None
        }
        _ => Some(condition),
    }
}

fn is_whole(pattern: &Pattern, slot: Slot) -> bool {
    pattern.paths.iter().any(|path| path.slot == slot)
        || pattern.edges.iter().any(|edge| edge.chain.is_some() && edge.slot == Some(slot))
}

/// Whether the pattern finds what is in the slot, and the rows below do not have it.
fn is_found(pattern: &Pattern, slot: Slot) -> bool {
    pattern.nodes.iter().any(|node| !node.bound && node.slot == slot)
        || pattern.edges.iter().any(|edge| !edge.bound && edge.slot == Some(slot))
}

/// `id(n) = e` of a node that a pattern has found compares it; among the conditions of the pattern it would be an anchor, which
/// takes more for an id, and enters nodes that are not there. As a list of one it leads to the nodes that a scan would find.
fn by_lookup(pattern: &Pattern, condition: Expr) -> Expr {
    let is_anchor = pattern.nodes.iter().any(|node| !node.bound && anchored(&condition, node.slot).is_some());
    match condition {
        Expr::Binary { operator: Binary::Equal, left, right } if is_anchor => {
            let is_id = |side: &Expr| matches!(side, Expr::Call { function, .. } if matches!(function.name, "id" | "strId"));
            let (id, value) = if is_id(&left) { (left, *right) } else { (right, *left) };
            let list = match value {
                Expr::Literal(value) => Expr::Literal(Value::list(vec![value])),
                value => Expr::List(vec![value]),
            };
            Expr::Binary { operator: Binary::In, left: id, right: Box::new(list) }
        }
        other => other,
    }
}
