//! Through: an expression over the rows of a stage becomes one over the rows that the stage takes in. So a value that is asked
//! for in the answer is looked for as far down as rows still have it.

use weir_model::Expr;
use weir_model::plan::{Operator, Slot};

/// What an expression over the rows of a part of the plan is over the row that the part begins with, which starts at `Argument`.
/// None where it is of what the part itself finds or makes.
pub fn before(part: &Operator, expr: &Expr) -> Option<Expr> {
    let none_of = |fills: &dyn Fn(Slot) -> bool| !expr.slots().into_iter().any(fills);
    match part {
        Operator::Argument => Some(expr.clone()),
        Operator::Filter { input, .. }
        | Operator::Sort { input, .. }
        | Operator::Skip { input, .. }
        | Operator::Limit { input, .. }
        | Operator::Distinct { input, .. }
        | Operator::Subquery { input, unit: true, .. } => before(input, expr),
        Operator::Project { input, items } => before(input, &of_items(expr, items)?),
        Operator::Aggregate { input, keys, .. } => {
            // What is neither key nor aggregate is that of the row it began with.
            if none_of(&|slot| fills_itself(part, slot)) {
                return Some(expr.clone());
            }
            let key = |slot: Slot| keys.iter().find(|(into, _)| *into == slot).map(|(_, key)| key.clone());
            before(input, &replaced(expr, &key)?)
        }
        Operator::Match { input, .. } | Operator::Unwind { input, .. } | Operator::Call { input, .. } => {
            if none_of(&|slot| fills_itself(part, slot)) { before(input, expr) } else { None }
        }
        // Where nothing is found the row goes on as it was.
        Operator::Optional { input, inner, .. } => {
            let is_left = none_of(&|slot| fills_itself(part, slot) || fills(inner, slot));
            if is_left { before(input, expr) } else { None }
        }
        Operator::Subquery { input, inner, .. } => before(input, &before(inner, expr)?),
        _ => None,
    }
}

/// As `replaced`, with items in place of the slots that they fill; other slots stay.
pub fn of_items(expr: &Expr, items: &[(Slot, Expr)]) -> Option<Expr> {
    let item = |slot: Slot| items.iter().find(|(into, _)| *into == slot).map_or(Expr::Slot(slot), |(_, item)| item.clone());
    replaced(expr, &|slot| Some(item(slot)))
}

/// The expression with others in place of its slots. None where one has no other, or stands where it cannot be replaced.
pub fn replaced(expr: &Expr, other: &dyn Fn(Slot) -> Option<Expr>) -> Option<Expr> {
    let inside = |of: &Expr| Some(Box::new(replaced(of, other)?));
    Some(match expr {
        Expr::Literal(_) => expr.clone(),
        Expr::Slot(slot) => other(*slot)?,
        Expr::Property { of, key } => Expr::Property { of: inside(of)?, key: *key },
        Expr::HasLabels { of, labels } => Expr::HasLabels { of: inside(of)?, labels: labels.clone() },
        Expr::IsNull { of, negated } => Expr::IsNull { of: inside(of)?, negated: *negated },
        Expr::Negate(of) => Expr::Negate(inside(of)?),
        Expr::Binary { operator, left, right } => {
            Expr::Binary { operator: *operator, left: inside(left)?, right: inside(right)? }
        }
        Expr::Call { function, arguments } => {
            let arguments = arguments.iter().map(|argument| replaced(argument, other)).collect::<Option<Vec<Expr>>>()?;
            Expr::Call { function, arguments }
        }
        // What has slots of its own.
        rest => {
            let stays = |slot: Slot| matches!(other(slot), Some(Expr::Slot(same)) if same == slot);
            if !rest.slots().into_iter().all(stays) {
                return None;
            }
            rest.clone()
        }
    })
}

/// Whether an expression may ask the graph for more than there is in the row.
pub fn asks(expr: &Expr) -> bool {
    let here = match expr {
        Expr::Property { .. } | Expr::HasLabels { .. } | Expr::Index { .. } | Expr::Subquery(_) => true,
        Expr::Call { function, .. } => function.asks_graph,
        _ => false,
    };
    here || expr.children().into_iter().any(asks)
}

/// Whether an operator in there puts something of its own into a slot.
fn fills(part: &Operator, slot: Slot) -> bool {
    let mut any = false;
    part.each_below(&mut |operator| any |= fills_itself(operator, slot));
    any
}

fn fills_itself(operator: &Operator, slot: Slot) -> bool {
    // What is bound stays as it is.
    let is_bound = matches!(operator, Operator::Match { pattern, .. } if pattern.is_bound(slot));
    !is_bound && operator.fills().contains(&slot)
}

#[cfg(test)]
mod tests {
    use weir_model::plan::{Name, Pattern, PatternNode};
    use weir_model::{Aggregate, AggregateKind, Value};

    use super::*;

    fn slot(n: u32) -> Expr {
        Expr::Slot(Slot(n))
    }

    fn property(of: u32) -> Expr {
        Expr::Property { of: Box::new(slot(of)), key: Name(0) }
    }

    fn project(input: Operator, items: Vec<(Slot, Expr)>) -> Operator {
        Operator::Project { input: Box::new(input), items }
    }

    fn shown(part: &Operator, expr: &Expr) -> String {
        before(part, expr).map_or_else(|| "nothing".to_owned(), |expr| format!("{expr:?}"))
    }

    /// A node that was renamed, and a property of it.
    #[test]
    fn an_expression_is_followed_to_what_it_is_made_of() {
        let part = project(project(Operator::Argument, vec![(Slot(2), slot(1))]), vec![(Slot(3), property(2))]);
        assert_eq!(shown(&part, &slot(3)), format!("{:?}", property(1)));
        assert_eq!(shown(&part, &property(2)), format!("{:?}", property(1)));
        assert_eq!(shown(&part, &slot(7)), format!("{:?}", slot(7)), "what stands in no item");
        let list = Operator::Unwind { input: Box::new(Operator::Argument), list: slot(1), into: Slot(4) };
        assert_eq!(shown(&list, &slot(4)), "nothing");
        assert_eq!(shown(&list, &slot(1)), format!("{:?}", slot(1)));
    }

    #[test]
    fn a_node_that_a_pattern_goes_on_from_is_of_the_row_and_one_that_it_finds_is_not() {
        let node = |slot: u32, bound: bool| {
            let (labels, conditions, reads) = Default::default();
            PatternNode { slot: Slot(slot), bound, labels, conditions, reads, reads_all: None }
        };
        let pattern = Pattern { nodes: vec![node(1, true), node(2, false)], ..Pattern::default() };
        let part = Operator::Match { input: Box::new(Operator::Argument), pattern };
        assert_eq!(shown(&part, &property(1)), format!("{:?}", property(1)));
        assert_eq!(shown(&part, &property(2)), "nothing");
    }

    #[test]
    fn what_is_found_or_counted_for_a_row_is_not_of_the_row() {
        let inner = project(Operator::Argument, vec![(Slot(5), Expr::Literal(Value::Integer(1)))]);
        let (input, nulls) = (Box::new(Operator::Argument), vec![Slot(5)]);
        let optional = Operator::Optional { input, inner: Box::new(inner), nulls };
        assert_eq!((shown(&optional, &slot(5)), shown(&optional, &slot(1))), ("nothing".to_owned(), format!("{:?}", slot(1))));
        let count = Aggregate { kind: AggregateKind::CountRows, arguments: Vec::new(), distinct: false };
        let (keys, aggregates) = (vec![(Slot(6), property(5))], vec![(Slot(8), count)]);
        let counted = Operator::Aggregate { input: Box::new(optional), keys, aggregates };
        let call = Operator::Subquery { input: Box::new(Operator::Argument), inner: Box::new(counted), unit: false };
        assert_eq!(shown(&call, &slot(8)), "nothing");
        assert_eq!(shown(&call, &slot(6)), "nothing", "a key that is of what was found");
        assert_eq!(shown(&call, &property(1)), format!("{:?}", property(1)));
    }
}
