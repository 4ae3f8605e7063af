//! Whether a query changes the graph once more when it runs on the same record again.
//!
//! It sees what is written down: a value that a query reads of a property, carries along in a variable and writes back is not
//! found.

use weir_model::expression::Binary;
use weir_model::plan::{Name, Operator, Plan, Slot, Write};
use weir_model::{Expr, Text};

/// Whether it may, as far as that can be seen.
pub fn adds(plan: &Plan) -> bool {
    let mut left = vec![&plan.root];
    while let Some(operator) = left.pop() {
        let adds = match operator {
            Operator::Write { writes, .. } | Operator::Merge { on_match: writes, .. } => {
                writes.iter().any(|write| is_more(write, &plan.names))
            }
            Operator::Call { procedure, .. } => procedure.writes && !procedure.idempotent,
            _ => false,
        };
        if adds {
            return true;
        }
        left.extend(operator.children());
    }
    false
}

fn is_more(write: &Write, names: &[Text]) -> bool {
    match write {
        Write::CreateNode { .. } => true,
        Write::SetProperty { target: Expr::Slot(slot), key, value } => goes_on(value, *slot, &|read| read == *key),
        Write::SetProperties { target, value: Expr::Map(entries), .. } => entries
            .iter()
            .any(|(key, value)| goes_on(value, *target, &|read| names.get(read.0 as usize).is_some_and(|name| name == key))),
        Write::ForEach { writes, .. } => writes.iter().any(|write| is_more(write, names)),
        Write::Merge { on_match, then, .. } => on_match.iter().chain(then).any(|write| is_more(write, names)),
        _ => false,
    }
}

/// Whether a value is reckoned from the property that it becomes. One that is only chosen or compared (`coalesce(n.x, 1)`,
/// `CASE WHEN n.x > 1 THEN n.x ELSE 1 END`) is the same the second time.
fn goes_on(value: &Expr, target: Slot, is_key: &dyn Fn(Name) -> bool) -> bool {
    use Binary::*;
    let mut left = vec![(value, false)];
    while let Some((part, is_reckoned)) = left.pop() {
        let is_reckoned = match part {
            Expr::Property { of, key } if is_reckoned && matches!(**of, Expr::Slot(slot) if slot == target) && is_key(*key) => {
                return true;
            }
            Expr::Case { branches, otherwise } => {
                left.extend(branches.iter().map(|(_, then)| (then, is_reckoned)));
                left.push((&**otherwise, is_reckoned));
                continue;
            }
            Expr::Binary { operator: Add | Subtract | Multiply | Divide | Modulo | Power, .. } => true,
            // A comparison.
            Expr::Binary { .. } => continue,
            Expr::Negate(_) | Expr::Not(_) | Expr::Reduce { .. } => true,
            _ => is_reckoned,
        };
        left.extend(part.children().into_iter().map(|part| (part, is_reckoned)));
    }
    false
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::Options;

    use super::*;

    #[test]
    fn what_adds_something_each_time_is_found() {
        let adds = |query: &str| {
            let query = format!("MATCH (n) WHERE id(n) = idFrom($that.id) {query}");
            adds(&weir_cypher_compiler::compile(&query, &Options::default()).unwrap_or_else(|error| panic!("{query}: {error:?}")))
        };
        for query in [
            "CREATE (:Event {of: $that.id})-[:OF]->(n)",
            "SET n.seen = n.seen + 1",
            "SET n.x = 1, n.all = coalesce(n.all, []) + [$that.x]",
            "SET n += {seen: n.seen + 1}",
            "SET n.seen = CASE WHEN $that.x > 1 THEN coalesce(n.seen, 0) + 1 ELSE 0 END",
            "SET n.flag = NOT n.flag",
            "SET n.total = reduce(s = n.total, x IN $that.all | s + x)",
            "CALL incrementCounter(n, 'seen') YIELD count RETURN count",
            "FOREACH (x IN $that.all | CREATE (:Item {x: x}))",
            "MERGE (m:Day {at: $that.at}) ON CREATE SET m.seen = 1 ON MATCH SET m.seen = m.seen + 1",
            "CALL { WITH n CREATE (m) RETURN m } RETURN m",
        ] {
            assert!(adds(query), "{query}");
        }
        for query in [
            "SET n = $that",
            "SET n.seen = $that.seen + 1, n.other = n.seen",
            "SET n.first = coalesce(n.first, $that.at)",
            "SET n.max = CASE WHEN n.max > $that.x THEN n.max ELSE $that.x END",
            "SET n.max = CASE WHEN n.max + 1 > $that.x THEN n.max ELSE $that.x END",
            "SET n.count = $that.x + CASE WHEN n.count > 5 THEN 1 ELSE 0 END",
            "SET n += {seen: $that.seen + 1, other: n.seen + 1, first: coalesce(n.first, $that.at)}",
            "MATCH (m) WHERE id(m) = idFrom($that.other) CREATE (n)-[:OF]->(m) SET n.seen = m.seen + 1",
            "MERGE (m:Day {at: $that.at}) ON CREATE SET m.seen = 1",
            "CALL set.insert(n, 'all', $that.x) YIELD result RETURN result",
            "RETURN n.seen + 1",
        ] {
            assert!(!adds(query), "{query}");
        }
    }
}
