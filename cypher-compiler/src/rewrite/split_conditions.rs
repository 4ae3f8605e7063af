//! Rule: a conjunction among the conditions of a pattern becomes so many conditions; `true` is none.

use weir_model::Expr;
use weir_model::plan::Operator;

use crate::bind::Draft;
use crate::{Options, walk};

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
