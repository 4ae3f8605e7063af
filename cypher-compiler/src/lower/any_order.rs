//! Which subqueries answer the same in whatever order edges are listed: whoever runs them need not put those in order.
//! A plan that is made plainly says it of none.

use weir_model::Expr;
use weir_model::expression::{Binary, SubqueryKind};
use weir_model::plan::{Operator, Pattern, Slot, Step};

use crate::walk;

/// Marks the subqueries in the expressions of an operator. Their plans have their orders.
pub fn mark(operator: &mut Operator) {
    walk::expressions_mut(operator, &mut |expr| {
        walk::rewrite(expr, &mut |part| {
            if let Expr::Subquery(subquery) = part {
                subquery.any_order = !matches!(subquery.kind, SubqueryKind::Collect(_)) && takes_any_order(&subquery.plan);
            }
        });
    });
}

/// Whether it follows from the graph if the plan gives a row, and how many, in whatever order edges are listed: it finds
/// patterns, and nothing that it asks can fail, as then the order would tell whether it fails before it finds. That more was
/// looked at than a row may take is the one failure left, and may come in one order and not in another.
fn takes_any_order(plan: &Operator) -> bool {
    match plan {
        Operator::Argument => true,
        Operator::Match { input, pattern } => takes_any_order(input) && never_fails(pattern),
        Operator::Project { input, items } => {
            takes_any_order(input) && items.iter().all(|(_, item)| matches!(item, Expr::Slot(_) | Expr::Literal(_)))
        }
        _ => false,
    }
}

/// Stricter than `facts::is_total`, and meant to be: that one is for people, and takes it that values have the types they are
/// used as. Here an answer would differ if that were wrong.
fn never_fails(pattern: &Pattern) -> bool {
    let mut steps = pattern.steps.iter().chain(pattern.orders.iter().flatten());
    let mut of_nodes = pattern.nodes.iter().flat_map(|node| &node.conditions);
    let mut of_edges = pattern.edges.iter().flat_map(|edge| &edge.conditions);
    pattern.edges.iter().all(|edge| edge.chain.is_none() && !edge.bound)
        && steps.all(|step| match step {
            Step::Bound { .. } | Step::Scan { .. } | Step::Expand { .. } | Step::Test { .. } => true,
            Step::Seek { id, .. } => has_a_value(id, pattern),
            _ => false,
        })
        && of_nodes.all(|condition| is_yes_or_no(condition, pattern))
        && of_edges.all(|condition| is_yes_or_no(condition, pattern))
        && pattern.conditions.iter().all(|condition| is_yes_or_no(condition, pattern))
}

/// A condition of the pattern that holds or not, or is null.
fn is_yes_or_no(condition: &Expr, pattern: &Pattern) -> bool {
    match condition {
        Expr::Binary { operator: Binary::Equal | Binary::NotEqual | Binary::Same, left, right } => {
            has_a_value(left, pattern) && has_a_value(right, pattern)
        }
        Expr::IsNull { of, .. } => has_a_value(of, pattern),
        Expr::HasLabels { of, .. } => matches!(**of, Expr::Slot(slot) if is_node(slot, pattern)),
        Expr::Not(of) => is_yes_or_no(of, pattern),
        Expr::And(all) | Expr::Or(all) => all.iter().all(|condition| is_yes_or_no(condition, pattern)),
        _ => false,
    }
}

fn has_a_value(expr: &Expr, pattern: &Pattern) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Slot(_) | Expr::Parameter(_) => true,
        Expr::Property { of, .. } => match **of {
            Expr::Slot(slot) => is_node(slot, pattern) || pattern.edges.iter().any(|edge| edge.slot == Some(slot)),
            _ => false,
        },
        _ => false,
    }
}

fn is_node(slot: Slot, pattern: &Pattern) -> bool {
    pattern.nodes.iter().any(|node| node.slot == slot)
}

#[cfg(test)]
mod tests {
    use crate::{Options, compile};

    #[test]
    fn what_takes_any_order_is_marked_wherever_it_stands() {
        let exists = "EXISTS { (n)-[:R]->() }";
        for (query, expected) in [
            (format!("MATCH (n:A) WHERE {exists} RETURN n.x AS x"), true),
            (format!("MATCH (n:A) RETURN size([i IN [1, 2] WHERE {exists} | i]) AS x"), true),
            (format!("MATCH (n:A) SET n.x = {exists}"), true),
            (format!("MATCH (n:A) MATCH (m) WHERE id(m) = CASE WHEN {exists} THEN $a ELSE $b END RETURN m.x AS x"), true),
            ("MATCH (n:A) RETURN COUNT { (n)-[:R]->() } AS x".to_owned(), true),
            ("MATCH (n:A) RETURN COUNT { MATCH (n)-[:R]->(m) RETURN DISTINCT m } AS x".to_owned(), false),
            ("MATCH (n:A) RETURN COLLECT { MATCH (n)-[:R]->(m) RETURN m.x } AS x".to_owned(), false),
            ("MATCH (n:A) WHERE EXISTS { (n)-[:R]->(m) WHERE 10 / m.x > 1 } RETURN n.x AS x".to_owned(), false),
        ] {
            let plan = compile(&query, &Options::default()).unwrap_or_else(|errors| panic!("{query}: {errors:?}"));
            assert_eq!(format!("{:?}", plan.root).contains("any_order: true"), expected, "{query}");
        }
    }
}
