//! Conditions that hold, or do not, or are null, whatever the values are: none of them fails. So they may be tested in another
//! order, and of more rows, than the text has it.
//!
//! Stricter than `facts::is_total`, and meant to be: that one is for people, and takes it that values have the types they are
//! used as. Here an answer would differ if that were wrong.

use weir_model::expression::Binary;
use weir_model::plan::Slot;
use weir_model::{Expr, Value};

use crate::bind::Holds;

/// What is in a slot, as far as it is known.
pub type Known<'k> = &'k dyn Fn(Slot) -> Holds;

pub fn is_yes_or_no(condition: &Expr, known: Known<'_>) -> bool {
    use Binary::*;
    let has_a_value = |expr: &Expr| has_a_value(expr, known);
    match condition {
        Expr::Binary { operator: In, left, right } => has_a_value(left) && is_list(right, known),
        Expr::Binary { operator: Equal | NotEqual | Same | Less | LessOrEqual | Greater | GreaterOrEqual, left, right }
        | Expr::Binary { operator: StartsWith | EndsWith | Contains, left, right } => has_a_value(left) && has_a_value(right),
        Expr::IsNull { of, .. } => has_a_value(of),
        Expr::HasLabels { of, .. } => matches!(**of, Expr::Slot(slot) if known(slot) == Holds::Node),
        Expr::Not(of) => is_yes_or_no(of, known),
        Expr::And(all) | Expr::Or(all) => all.iter().all(|condition| is_yes_or_no(condition, known)),
        _ => false,
    }
}

pub fn has_a_value(expr: &Expr, known: Known<'_>) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Slot(_) | Expr::Parameter(_) => true,
        Expr::Property { of, .. } => matches!(**of, Expr::Slot(slot) if matches!(known(slot), Holds::Node | Holds::Edge)),
        Expr::Call { function, arguments } => match (function.name, arguments.as_slice()) {
            ("id" | "strId" | "elementId", [Expr::Slot(slot)]) => known(*slot) == Holds::Node,
            ("idFrom", all) => all.iter().all(|argument| has_a_value(argument, known)),
            _ => false,
        },
        _ => false,
    }
}

/// A list, or null: in anything else nothing can be.
fn is_list(expr: &Expr, known: Known<'_>) -> bool {
    match expr {
        Expr::Literal(value) => matches!(value, Value::List(_) | Value::Null),
        Expr::List(items) => items.iter().all(|item| has_a_value(item, known)),
        _ => false,
    }
}
