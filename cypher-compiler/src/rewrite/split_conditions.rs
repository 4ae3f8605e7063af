//! Rule: a conjunction among the conditions of a pattern becomes a condition for each of its terms; `true` is none.
//!
//! And the way back, for those that are tested together after all.

use weir_model::expression::{Binary, SubqueryKind};
use weir_model::plan::Operator;
use weir_model::{Expr, Value};

use crate::bind::Draft;
use crate::{Options, functions, walk};

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    walk::operators_mut(&mut draft.root, &mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            let mut split = Vec::new();
            for condition in std::mem::take(&mut pattern.conditions) {
                changed |= split_into(condition, &mut split);
            }
            pattern.conditions = split;
        }
    });
    changed
}

fn split_into(condition: Expr, into: &mut Vec<Expr>) -> bool {
    match condition {
        Expr::And(parts) => {
            for part in parts {
                split_into(part, into);
            }
            true
        }
        condition if crate::bind::is_true(&condition) => true,
        condition => {
            into.push(condition);
            false
        }
    }
}

/// One condition that holds where all of these do. To WHERE a list says whether it has elements, to AND nothing: what may be one
/// is made a truth value. A filter for each would do, too, but a text may have them by the thousand, within each other.
pub fn joined(conditions: Vec<Expr>) -> Expr {
    let mut parts = Vec::new();
    for condition in conditions {
        split_into(condition, &mut parts);
    }
    match parts.len() {
        1 => parts.remove(0),
        _ => Expr::And(parts.into_iter().map(as_truth).collect()),
    }
}

fn as_truth(condition: Expr) -> Expr {
    use Binary::*;
    let is_truth = match &condition {
        Expr::HasLabels { .. } | Expr::IsNull { .. } | Expr::Quantifier { .. } | Expr::Clocked(_) => true,
        Expr::Not(_) | Expr::And(_) | Expr::Or(_) | Expr::Xor(..) => true,
        Expr::Literal(value) => matches!(value, Value::Null | Value::Boolean(_)),
        Expr::Binary { operator, .. } => !matches!(operator, Add | Subtract | Multiply | Divide | Modulo | Power),
        Expr::Subquery(subquery) => matches!(subquery.kind, SubqueryKind::Exists),
        _ => false,
    };
    if is_truth { condition } else { Expr::Call { function: &functions::HOLDS, arguments: vec![condition] } }
}
