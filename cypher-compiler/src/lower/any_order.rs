//! Which subqueries answer the same in whatever order edges are listed: whoever runs them need not put those in order.
//! A plan that is made plainly says it of none.

use weir_model::Expr;
use weir_model::expression::SubqueryKind;
use weir_model::plan::{Operator, Pattern, Slot, Step};

use super::certain::{has_a_value, is_yes_or_no};
use crate::bind::Holds;
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

fn never_fails(pattern: &Pattern) -> bool {
    let known = |slot: Slot| {
        let is_edge = pattern.edges.iter().any(|edge| edge.slot == Some(slot));
        match pattern.nodes.iter().any(|node| node.slot == slot) {
            true => Holds::Node,
            false if is_edge => Holds::Edge,
            false => Holds::Anything,
        }
    };
    let mut steps = pattern.steps.iter().chain(pattern.orders.iter().flatten());
    let mut of_nodes = pattern.nodes.iter().flat_map(|node| &node.conditions);
    let mut of_edges = pattern.edges.iter().flat_map(|edge| &edge.conditions);
    pattern.edges.iter().all(|edge| edge.chain.is_none() && !edge.bound)
        && steps.all(|step| match step {
            Step::Bound { .. } | Step::Scan { .. } | Step::Expand { .. } | Step::Test { .. } => true,
            Step::Seek { id, .. } => has_a_value(id, &known),
            _ => false,
        })
        && of_nodes.all(|condition| is_yes_or_no(condition, &known))
        && of_edges.all(|condition| is_yes_or_no(condition, &known))
        && pattern.conditions.iter().all(|condition| is_yes_or_no(condition, &known))
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
            ("MATCH (n:A) WHERE EXISTS { (n)-[:R]->(m) WHERE m.x = 1 OR m.x = 2 } RETURN n.x AS x".to_owned(), true),
            ("MATCH (n:A) WHERE EXISTS { (n)-[:R]->(m) WHERE m.x IN n.l } RETURN n.x AS x".to_owned(), false),
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
