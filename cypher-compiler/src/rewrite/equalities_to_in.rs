//! Rule: `n.k = 1 OR n.k = 2` is `n.k IN [1, 2]`, so that an index is asked. For constants: of parameters each row would make the
//! list anew.
//!
//! It is the same for all values: each of the equations may be true, false or null, and so may IN, which is their OR.

use weir_model::expression::Binary;
use weir_model::plan::{Name, Slot};
use weir_model::{Expr, Value};

use super::{for_each_expression, literals};
use crate::Options;
use crate::bind::Draft;

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    for_each_expression(draft, &mut |expr| {
        if let Some(listed) = listed(expr) {
            *expr = listed;
            changed = true;
        }
    });
    changed
}

fn listed(expr: &Expr) -> Option<Expr> {
    let Expr::Or(parts) = expr else { return None };
    let mut of: Option<((Slot, Name), &Expr)> = None;
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        let Expr::Binary { operator: Binary::Equal, left, right } = part else { return None };
        let (found, own, value) = match (property(left), property(right)) {
            (Some(found), None) => (found, &**left, &**right),
            (None, Some(found)) => (found, &**right, &**left),
            _ => return None,
        };
        if of.is_some_and(|(known, _)| known != found) {
            return None;
        }
        of = Some((found, own));
        values.push(value.clone());
    }
    let (_, own) = of?;
    let list = Expr::Literal(Value::list(literals(&values)?));
    Some(Expr::Binary { operator: Binary::In, left: Box::new(own.clone()), right: Box::new(list) })
}

fn property(expr: &Expr) -> Option<(Slot, Name)> {
    let Expr::Property { of, key } = expr else { return None };
    if let Expr::Slot(slot) = **of { Some((slot, *key)) } else { None }
}
