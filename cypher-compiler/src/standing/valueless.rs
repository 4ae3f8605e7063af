//! Valueless: what a standing query asks of nothing but constants and never gets. An ad-hoc query ends with an error there; a
//! standing query leaves out each row that asks, and stays empty, so whoever creates it is told.
//!
//! Constants are worked out when a query is compiled, all but those that fail: these are what is looked for. Only what is surely
//! worked out wherever it stands: a branch of CASE, or a later term of OR, may be there just for what never comes. So is what
//! stands with a condition that never holds, as in `WHERE false AND …`: nothing comes of it in any case.

use weir_model::expression::FailureKind;
use weir_model::plan::Operator;
use weir_model::{Expr, GraphFree, IdScheme, Plan, Value};

use crate::functions;
use crate::rewrite::literals;

/// A sentence for each part of a query that fails whenever it is asked.
pub fn valueless(plan: &Plan, ids: IdScheme) -> Vec<String> {
    let mut found = Vec::new();
    rows(&plan.root, &GraphFree::constants(ids), &mut found);
    found
}

/// Whether an operator may have rows. Of one that has none, and what it has its rows from, nothing is told.
fn rows(operator: &Operator, context: &GraphFree, found: &mut Vec<String>) -> bool {
    let told = found.len();
    let below: Vec<bool> = operator.children().into_iter().map(|child| rows(child, context, found)).collect();
    let is_reached = match operator {
        Operator::Union { .. } => below.contains(&true),
        Operator::Optional { .. } | Operator::Subquery { unit: true, .. } | Operator::Join { nulls: Some(_), .. } => {
            below.first() != Some(&false)
        }
        _ => !below.contains(&false),
    };
    if is_reached {
        let mut expressions = Vec::new();
        operator.expressions(&mut expressions);
        expressions.into_iter().for_each(|expr| look(expr, context, found));
    }
    let has_rows = match operator {
        Operator::Filter { condition, .. } => is_reached && !never_holds(condition),
        Operator::Match { pattern, .. } => {
            let mut conditions = pattern.nodes.iter().flat_map(|node| &node.conditions).chain(&pattern.conditions);
            is_reached && !conditions.any(never_holds)
        }
        Operator::Aggregate { keys, .. } => is_reached || keys.is_empty(),
        _ => is_reached,
    };
    if !has_rows {
        found.truncate(told);
    }
    has_rows
}

fn never_holds(condition: &Expr) -> bool {
    match condition {
        Expr::Literal(value) => matches!(value, Value::Null | Value::Boolean(false)),
        Expr::And(terms) => terms.iter().any(never_holds),
        _ => false,
    }
}

fn look(expr: &Expr, context: &GraphFree, found: &mut Vec<String>) {
    match expr {
        Expr::And(terms) | Expr::Or(terms) => terms.iter().take(1).for_each(|term| look(term, context, found)),
        Expr::Case { branches, .. } => branches.iter().take(1).for_each(|(condition, _)| look(condition, context, found)),
        Expr::Comprehension { list, .. } | Expr::Quantifier { list, .. } | Expr::Reduce { list, .. } => {
            look(list, context, found)
        }
        Expr::Subquery(_) => {}
        expr if is_constant(expr) => {
            let told = failure(expr, context).filter(|told| !found.contains(told));
            found.extend(told);
        }
        expr => expr.children().into_iter().for_each(|child| look(child, context, found)),
    }
}

/// Whether it is made of constants and is always the same.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Call { function, arguments } => {
            !function.asks_graph && literals(arguments).is_some_and(|values| functions::is_constant(function, &values))
        }
        Expr::Binary { .. } | Expr::Negate(_) | Expr::Not(_) | Expr::Xor(..) | Expr::Index { .. } | Expr::Slice { .. } => {
            literals(expr.children()).is_some()
        }
        _ => false,
    }
}

/// What is too large to be worked out here may well have a value.
fn failure(expr: &Expr, context: &GraphFree) -> Option<String> {
    let failure = expr.evaluate(&[], context).err()?;
    let is_too_much = matches!(
        failure.kind,
        FailureKind::TimeLimit | FailureKind::MemoryLimit | FailureKind::SharedMemoryLimit | FailureKind::Interrupted
    );
    (!is_too_much).then(|| format!("a part of the query never has a value, and each row that asks for it is left out: {failure}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, StandingMode, compile_standing};

    #[track_caller]
    fn check(mode: StandingMode, text: &str, wanted: &[&str]) {
        let standing = compile_standing(text, mode, &Options::default()).expect("it is taken");
        let found = valueless(&standing.plan, IdScheme::default());
        let is_told = |(found, wanted): (&String, &&str)| found.contains(wanted);
        assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(is_told), "{text}: {found:?}, not {wanted:?}");
    }

    #[test]
    fn what_fails_for_every_row_is_told() {
        use StandingMode::{AnyQuery, MultipleValues};
        let text = "MATCH (a) WHERE strId(a) = strId(idFrom('acct', 0)) RETURN a.x AS x";
        check(AnyQuery, text, &["Expected signature `strId(node :: NODE) :: STRING`"]);
        check(AnyQuery, "MATCH (a) RETURN 1 / 0 + a.x AS x, 1 / 0 AS y", &["never has a value"]);
        check(AnyQuery, "MATCH (a) WITH a, count(*) AS c WHERE c > 1 / 0 RETURN c", &["never has a value"]);
        check(AnyQuery, "MATCH (a) UNWIND [1, 2] AS i RETURN [x IN range(1, 2, 0) | x] AS l, i", &["step cannot be 0"]);
        check(MultipleValues, "MATCH (a) WHERE a.x > 1 / 0 RETURN a.x AS x", &["never has a value"]);
    }

    #[test]
    fn what_may_have_one_or_may_not_be_asked_for_is_not() {
        for text in [
            "MATCH (a) WHERE strId(a) = '1' AND id(a) = idFrom('acct', 0) RETURN a.x AS x",
            "MATCH (a) RETURN CASE WHEN a.x = 1 THEN 1 / 0 ELSE 2 END AS x",
            "MATCH (a) RETURN a.x = 1 OR 1 / 0 = 1 AS x",
            "MATCH (a) RETURN 1 / a.x AS x, toUpper(null) AS y, size(range(1, 1000000)) AS z",
            "MATCH (a) RETURN [x IN a.l | x + 1 / 0] AS l",
            "MATCH (a) WHERE a.at < timestamp() RETURN a.at AS at",
        ] {
            check(StandingMode::AnyQuery, text, &[]);
        }
    }

    #[test]
    fn what_stands_with_what_never_holds_is_not() {
        for text in [
            "MATCH (a) WHERE false AND a.x > 1 / 0 RETURN a.x AS x",
            "MATCH (a) WHERE a.x = 1 AND (false AND 1 / 0 = 1) RETURN a.x AS x",
            "MATCH (a) WHERE a.x > 1 / 0 AND 1 > 2 RETURN a.x AS x",
            "MATCH (a) WHERE false RETURN 1 / 0 + a.x AS x",
            "MATCH (a)-[:R]->(b) WHERE null AND a.x + b.x > 1 / 0 RETURN b.x AS x",
            "MATCH (a) WHERE true OR a.x > 1 / 0 RETURN a.x AS x",
            "MATCH (a) RETURN NOT (false AND 1 / 0 = a.x) AS x",
        ] {
            check(StandingMode::AnyQuery, text, &[]);
            check(StandingMode::MultipleValues, text, &[]);
        }
        for text in [
            "MATCH (a), (b)-[:R]->(c) WHERE false AND a.x > 1 / 0 AND b.x = a.x RETURN a.x AS x",
            "MATCH (a) WITH a, 1 / 0 AS y WHERE false RETURN a.x AS x, y",
            "MATCH (a) WHERE false RETURN sum(1 / 0) AS x",
            "MATCH (a) OPTIONAL MATCH (a)-[:R]->(b) WHERE false AND b.x > 1 / 0 RETURN a.x AS x, b.x AS y",
        ] {
            check(StandingMode::AnyQuery, text, &[]);
        }
        for text in [
            "MATCH (a) WHERE false WITH count(*) AS c RETURN c + 1 / 0 AS x",
            "MATCH (a) OPTIONAL MATCH (a)-[:R]->(b) WHERE false RETURN a.x + 1 / 0 AS x",
            "MATCH (a) WHERE false RETURN a.x AS x UNION ALL MATCH (a) RETURN 1 / 0 + a.x AS x",
            "MATCH (a) WHERE a.y = 1 AND a.x > 1 / 0 RETURN a.x AS x",
        ] {
            check(StandingMode::AnyQuery, text, &["never has a value"]);
        }
    }
}
