//! What an anchor takes for an id, written out.
//!
//! `id(n) = e` enters the graph at the node that `e` names, be it by the text of its id or by its bytes: that is more than `=`
//! takes. A plan that begins elsewhere, at what has changed or at every node in turn, tests the condition instead, and it is to
//! mean the same there. So it becomes `n = nodeWithId(e)`, which still is an anchor to who enters by it.

use weir_model::expression::Binary;
use weir_model::plan::{Operator, Pattern, Slot};
use weir_model::{Expr, IdScheme, Value};

use super::orders::anchored;
use crate::bind::{Draft, is_shortest};
use crate::{functions, walk};

pub fn write_out(draft: &mut Draft, ids: IdScheme) {
    walk::operators_mut(&mut draft.root, &mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            of_pattern(pattern, ids);
        }
    });
}

/// Whether a value is what `write_out` makes of one: nothing else in a text is a node that is no variable.
pub fn names_node(value: &Expr) -> bool {
    match value {
        Expr::Literal(Value::Node(_)) => true,
        Expr::Call { function, .. } => function.name == functions::NODE_WITH_ID.name,
        _ => false,
    }
}

fn of_pattern(pattern: &mut Pattern, ids: IdScheme) {
    // A node that is bound is there already: of that one it is a comparison.
    let found: Vec<Slot> = pattern.nodes.iter().filter(|node| !node.bound).map(|node| node.slot).collect();
    let shortest = pattern.edges.iter().filter(|edge| is_shortest(edge)).filter_map(|edge| edge.slot);
    // What looks at them is tested when they are there, and leads nowhere.
    let late: Vec<Slot> = pattern.paths.iter().map(|path| path.slot).chain(shortest).collect();
    let conditions = pattern.nodes.iter_mut().flat_map(|node| &mut node.conditions).chain(&mut pattern.conditions);
    for condition in conditions {
        each_conjunct(condition, &mut |condition| {
            let written = found.iter().find_map(|slot| Some((*slot, named(condition, *slot, ids)?)));
            if let Some((slot, node)) = written
                && !late.iter().any(|slot| walk::mentions(condition, *slot))
            {
                *condition = Expr::Binary { operator: Binary::Equal, left: Box::new(Expr::Slot(slot)), right: Box::new(node) };
            }
        });
    }
}

/// A conjunction is as many conditions, whether or not it was taken apart.
fn each_conjunct(condition: &mut Expr, change: &mut dyn FnMut(&mut Expr)) {
    match condition {
        Expr::And(parts) => parts.iter_mut().for_each(|part| each_conjunct(part, change)),
        condition => change(condition),
    }
}

/// The node that a condition says is in the slot; None where it is no anchor of it, or `=` takes no less.
fn named(condition: &Expr, slot: Slot, ids: IdScheme) -> Option<Expr> {
    let value = anchored(condition, slot)?;
    if names_node(value) || is_exact(condition) {
        return None;
    }
    let known = if let Expr::Literal(value) = value { ids.node_of(value) } else { None };
    Some(match known {
        Some(id) => Expr::Literal(Value::Node(id)),
        None => Expr::Call { function: &functions::NODE_WITH_ID, arguments: vec![value.clone()] },
    })
}

/// Whether both sides are ids as `id` gives them, or texts as `strId` does: these are equal where they name the same node.
pub fn is_exact(condition: &Expr) -> bool {
    let Expr::Binary { left, right, .. } = condition else { return false };
    let form = |expr: &Expr| match expr {
        Expr::Literal(Value::Id(_)) => Some("id"),
        Expr::Call { function, .. } => match function.name {
            "id" | "idFrom" | "locIdFrom" | "quineId" => Some("id"),
            "strId" => Some("strId"),
            _ => None,
        },
        _ => None,
    };
    form(left).is_some() && form(left) == form(right)
}
