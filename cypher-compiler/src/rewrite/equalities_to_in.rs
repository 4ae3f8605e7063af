//! Rule: `n.k = 1 OR n.k = $b` is `n.k IN [1, $b]`, so that an index is asked.
//!
//! It is the same for all values: each of the equations may be true, false or null, and so may IN, which is their OR. But OR ends
//! with the first that is true, and a list has all of its items: so none of them may fail where those before it did not. But for
//! totals of times that do not fit into 64 bits (`$that.at.epochMillis`), which fail here also behind one that is true.

use weir_model::expression::Binary;
use weir_model::plan::{Name, Operator, Slot, Write};
use weir_model::{Expr, Value};

use super::{for_each_expression, literals};
use crate::bind::{Draft, Holds};
use crate::lower::certain::{Known, has_a_value};
use crate::{Options, walk};

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let holds: Vec<Holds> = draft.slots.iter().map(|slot| slot.holds).collect();
    let mut is_deleted = false;
    walk::operators(&draft.root, &mut |operator| {
        is_deleted |= matches!(operator, Operator::Write { writes, .. } if deletes(writes));
    });
    // What may have been deleted fails where it is asked for a property.
    let known = |slot: Slot| match holds.get(slot.0 as usize) {
        Some(holds) if !is_deleted => *holds,
        _ => Holds::Anything,
    };
    let mut changed = false;
    for_each_expression(draft, &mut |expr| {
        if let Some(listed) = listed(expr, &known) {
            *expr = listed;
            changed = true;
        }
    });
    changed
}

fn deletes(writes: &[Write]) -> bool {
    writes.iter().any(|write| match write {
        Write::Delete { .. } => true,
        Write::ForEach { writes, .. } | Write::Merge { then: writes, .. } => deletes(writes),
        _ => false,
    })
}

fn listed(expr: &Expr, known: Known<'_>) -> Option<Expr> {
    let Expr::Or(parts) = expr else { return None };
    let (left, right) = sides(parts.first()?)?;
    let (own, values) = [left, right].into_iter().find_map(|own| Some((own, values(parts, property(own)?, known)?)))?;
    let list = match literals(values.iter().copied()) {
        Some(values) => Expr::Literal(Value::list(values)),
        None => Expr::List(values.into_iter().cloned().collect()),
    };
    Some(Expr::Binary { operator: Binary::In, left: Box::new(own.clone()), right: Box::new(list) })
}

fn sides(part: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Binary { operator: Binary::Equal, left, right } = part else { return None };
    Some((&**left, &**right))
}

/// What a property is equal to, if that is all that is asked, and of values that do not depend on whose property it is.
fn values<'e>(parts: &'e [Expr], own: (Slot, Name), known: Known<'_>) -> Option<Vec<&'e Expr>> {
    let mut values: Vec<&Expr> = Vec::with_capacity(parts.len());
    for part in parts {
        let value = match sides(part)? {
            (left, right) if property(left) == Some(own) => right,
            (left, right) if property(right) == Some(own) => left,
            _ => return None,
        };
        let first = values.first().copied().unwrap_or(value);
        if walk::mentions(value, own.0) || !(has_a_value(value, known) || are_of_one(first, value)) {
            return None;
        }
        values.push(value);
    }
    Some(values)
}

/// Properties of one value, as of a record: where it has the first it can be asked for the others.
fn are_of_one(first: &Expr, value: &Expr) -> bool {
    match (first, value) {
        (Expr::Property { of: one, .. }, Expr::Property { of: other, .. }) => match (&**one, &**other) {
            (Expr::Slot(one), Expr::Slot(other)) => one == other,
            (Expr::Parameter(one), Expr::Parameter(other)) => one == other,
            _ => are_of_one(one, other) && walk::form(one) == walk::form(other),
        },
        _ => false,
    }
}

fn property(expr: &Expr) -> Option<(Slot, Name)> {
    let Expr::Property { of, key } = expr else { return None };
    if let Expr::Slot(slot) = **of { Some((slot, *key)) } else { None }
}
