//! Rule: what depends on nothing is computed now. Whatever would fail is left, so that it fails when (and only if) it is run.

use std::sync::Arc;

use weir_model::expression::GraphFree;
use weir_model::{Expr, IdScheme, Value};

use super::for_each_expression;
use crate::Options;
use crate::bind::Draft;
use crate::{functions, walk};

pub fn apply(draft: &mut Draft, options: &Options) -> bool {
    let mut changed = false;
    for_each_expression(draft, &mut |expr| changed |= fold_one(expr, options.ids));
    changed
}

/// Folds an expression from its leaves up.
pub fn fold(expr: &mut Expr, ids: IdScheme) {
    walk::rewrite(expr, &mut |expr| {
        fold_one(expr, ids);
    });
}

fn fold_one(expr: &mut Expr, ids: IdScheme) -> bool {
    let folded = match expr {
        Expr::List(items) => literals(items.iter()).map(Value::list),
        Expr::Map(entries) => literals(entries.iter().map(|(_, e)| e))
            .map(|values| Value::Map(Arc::new(entries.iter().map(|(key, _)| key.clone()).zip(values).collect()))),
        Expr::Negate(of) => match **of {
            Expr::Literal(Value::Integer(n)) => n.checked_neg().map(Value::Integer),
            Expr::Literal(Value::Float(n)) => Some(Value::Float(-n)),
            _ => None,
        },
        Expr::Not(of) => match **of {
            Expr::Literal(Value::Boolean(b)) => Some(Value::Boolean(!b)),
            Expr::Literal(Value::Null) => Some(Value::Null),
            _ => None,
        },
        Expr::IsNull { of, negated } => match &**of {
            Expr::Literal(value) => Some(Value::Boolean(value.is_null() != *negated)),
            _ => None,
        },
        Expr::And(items) => return flatten(items, |e| if let Expr::And(inner) = e { Some(std::mem::take(inner)) } else { None }),
        Expr::Or(items) => return flatten(items, |e| if let Expr::Or(inner) = e { Some(std::mem::take(inner)) } else { None }),
        Expr::Binary { left, right, .. } if matches!((&**left, &**right), (Expr::Literal(_), Expr::Literal(_))) => {
            expr.evaluate(&[], &GraphFree::constants(ids)).ok()
        }
        Expr::Call { function, arguments } => literals(arguments.iter()).and_then(|values| {
            // A call with too few or too many arguments is an error that has been noted; it cannot be run.
            let takes = function.arguments_min..=function.arguments_max;
            if !takes.contains(&values.len()) || !functions::is_constant(function, &values) {
                return None;
            }
            if function.null_in_null_out && values.iter().any(Value::is_null) {
                return Some(Value::Null);
            }
            (function.run)(&GraphFree::constants(ids), &values).ok()
        }),
        _ => None,
    };
    match folded {
        Some(value) => {
            *expr = Expr::Literal(value);
            true
        }
        None => false,
    }
}

/// The values, if all are literals.
pub fn literals<'a>(items: impl IntoIterator<Item = &'a Expr>) -> Option<Vec<Value>> {
    items.into_iter().map(|e| if let Expr::Literal(value) = e { Some(value.clone()) } else { None }).collect()
}

/// `(a AND b) AND c` is one conjunction.
fn flatten(items: &mut Vec<Expr>, inner: impl Fn(&mut Expr) -> Option<Vec<Expr>>) -> bool {
    let mut changed = false;
    let mut flat = Vec::with_capacity(items.len());
    for mut item in std::mem::take(items) {
        match inner(&mut item) {
            Some(parts) => {
                flat.extend(parts);
                changed = true;
            }
            None => flat.push(item),
        }
    }
    *items = flat;
    changed
}
