//! Edges that a pattern crosses and nobody asks for: no value is made of them.

use std::collections::BTreeSet;

use weir_model::plan::{Operator, Slot};
use weir_model::{Expr, Plan};

use crate::walk;

/// For plans that only read, and that run as a whole: who takes one apart may look into any slot.
pub fn leave_out_edges(plan: &mut Plan) {
    if plan.facts.writes {
        return;
    }
    let mut seen: BTreeSet<Slot> = plan.columns.iter().map(|(_, slot)| *slot).collect();
    by_operators(&plan.root, &mut seen);
    walk::operators_mut(&mut plan.root, &mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            let unseen = pattern.edges.iter_mut().filter(|edge| edge.slot.is_some_and(|slot| !seen.contains(&slot)));
            unseen.for_each(|edge| edge.slot = None);
        }
    });
}

/// What the operators look at, apart from what a pattern itself keeps of the edges that it crosses.
fn by_operators(root: &Operator, seen: &mut BTreeSet<Slot>) {
    let mut expressions = Vec::new();
    root.all_expressions(&mut expressions);
    expressions.into_iter().for_each(|expr| by_expression(expr, seen));
    by_others(root, seen);
}

/// What the operators look at without an expression.
fn by_others(root: &Operator, seen: &mut BTreeSet<Slot>) {
    root.each_below(&mut |operator| match operator {
        Operator::Match { pattern, .. } => {
            let known = pattern.edges.iter().filter(|edge| edge.bound || edge.chain.is_some());
            seen.extend(known.filter_map(|edge| edge.slot));
        }
        Operator::Distinct { slots, .. } | Operator::Union { distinct: Some(slots), .. } => seen.extend(slots),
        Operator::Recurse { again, .. } => seen.extend(again),
        _ => {}
    });
}

fn by_expression(expr: &Expr, seen: &mut BTreeSet<Slot>) {
    match expr {
        Expr::Slot(slot) => {
            seen.insert(*slot);
        }
        // The expressions in its plan are its children.
        Expr::Subquery(subquery) => by_others(&subquery.plan, seen),
        _ => {}
    }
    expr.children().into_iter().for_each(|child| by_expression(child, seen));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, compile};

    /// How many edges of patterns have a slot.
    fn kept(text: &str) -> usize {
        let mut kept = 0;
        let mut plan = compile(text, &Options::default()).unwrap();
        walk::operators_mut(&mut plan.root, &mut |operator| {
            if let Operator::Match { pattern, .. } = operator {
                kept += pattern.edges.iter().filter(|edge| edge.slot.is_some()).count();
            }
        });
        kept
    }

    #[test]
    fn only_edges_that_are_asked_for_have_a_slot() {
        assert_eq!(kept("MATCH (a)-[:R]->(b)-[:R]->(c) RETURN c.x"), 0);
        assert_eq!(kept("MATCH (a)-[r:R]->(b)-[s:R]->(c) RETURN c.x"), 0);
        assert_eq!(kept("MATCH (a)-[r:R]->(b)-[s:R]->(c) RETURN c.x, type(s)"), 1);
        assert_eq!(kept("MATCH (a)-[r:R]->(b) WITH DISTINCT r RETURN 1"), 1);
        assert_eq!(kept("MATCH (a)-[r:R]->(b) RETURN count(r)"), 1);
        assert_eq!(kept("MATCH (a)-[r:R]->(b) RETURN count(*)"), 0);
        assert_eq!(kept("MATCH (a)-[r:R]->(b) RETURN *"), 1);
        assert_eq!(kept("MATCH (a) WHERE EXISTS { (a)-[:R]->(b)-[:R]->(c) } RETURN a"), 0);
        assert_eq!(kept("MATCH (a)-[r]->(b) MATCH (c)-[r]->(d) RETURN d"), 2);
        assert_eq!(kept("MATCH (a)-[r]->(b) RETURN [(b)-[r]->(c) | c]"), 2);
        assert_eq!(kept("MATCH p = (a)-[r]->(b)-[s]->(c) RETURN p"), 0);
        assert_eq!(kept("MATCH (a)-[r]->(b) CALL { WITH r RETURN type(r) AS t } RETURN t"), 1);
        assert_eq!(kept("MATCH (a)-[r]->(b) SET r.x = 1"), 1);
        assert_eq!(kept("MATCH (a)-[r]->(b) WHERE r.x > 1 RETURN b"), 1);
    }
}
