//! Rule: `WHERE n:Label` of a node of the pattern is `(n:Label)`.

use weir_model::Expr;
use weir_model::plan::Operator;

use crate::bind::Draft;
use crate::{Options, walk};

pub fn apply(draft: &mut Draft, _: &Options) -> bool {
    let mut changed = false;
    walk::operators_mut(&mut draft.root, &mut |operator| {
        let Operator::Match { pattern, .. } = operator else { return };
        for condition in std::mem::take(&mut pattern.conditions) {
            let node = match &condition {
                Expr::HasLabels { of, labels } => match **of {
                    Expr::Slot(slot) => pattern.nodes.iter_mut().find(|node| node.slot == slot).map(|node| (node, labels)),
                    _ => None,
                },
                _ => None,
            };
            match node {
                Some((node, labels)) => {
                    node.labels.extend(labels.iter().filter(|label| !node.labels.contains(label)).copied().collect::<Vec<_>>());
                    changed = true;
                }
                None => pattern.conditions.push(condition),
            }
        }
    });
    changed
}
