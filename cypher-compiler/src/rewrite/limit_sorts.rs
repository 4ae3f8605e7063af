//! Rule: a sort under a limit keeps no more rows than can be asked for.

use weir_model::Expr;
use weir_model::expression::Binary;
use weir_model::plan::Operator;

use crate::bind::Draft;
use crate::lower::facts::has_chance;
use crate::{Options, walk};

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    walk::operators_mut(&mut draft.root, &mut |operator| {
        let Operator::Limit { input, count } = operator else { return };
        let (sort, total) = match &mut **input {
            Operator::Skip { input, count: skipped } => (
                &mut **input,
                Expr::Binary { operator: Binary::Add, left: Box::new(skipped.clone()), right: Box::new(count.clone()) },
            ),
            other => (other, count.clone()),
        };
        // What is worked out twice has to be the same twice.
        if let Operator::Sort { limit: limit @ None, .. } = sort
            && !has_chance(&total)
        {
            *limit = Some(total);
            changed = true;
        }
    });
    changed
}
