//! Rule: `x IN [e]` is `x = e`, so that an id in a list of one is an anchor.

use weir_model::expression::Binary;
use weir_model::{Expr, Value};

use super::for_each_expression;
use crate::Options;
use crate::bind::Draft;

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    for_each_expression(draft, &mut |expr| {
        if let Expr::Binary { operator: operator @ Binary::In, right, .. } = expr
            && let Some(element) = only_element(right)
        {
            *operator = Binary::Equal;
            **right = element;
            changed = true;
        }
    });
    changed
}

fn only_element(list: &Expr) -> Option<Expr> {
    match list {
        Expr::List(items) if items.len() == 1 => Some(items[0].clone()),
        Expr::Literal(Value::List(items)) if items.len() == 1 => Some(Expr::Literal(items[0].clone())),
        _ => None,
    }
}
