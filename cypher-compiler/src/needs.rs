//! What a query needs of its parameters, and which ids it enters the graph by: static facts for people who look at a plan, and
//! for whoever makes the values.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::expression::SubqueryKind;
use weir_model::plan::{Operator, Slot, Step};
use weir_model::{Expr, Plan, Text, Value};

use crate::explain::expression_text;
use crate::walk;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// By parameter, the fields that are looked at (`a.b` is a field of a field); none where the whole value is.
    pub parameters: BTreeMap<Text, Option<BTreeSet<String>>>,
    /// The expressions of the ids, as they are written.
    pub ids: BTreeSet<String>,
}

pub fn needs(plan: &Plan) -> Needs {
    let mut root = plan.root.clone();
    let mut finder = Finder { plan, aliases: aliases(&root), needs: Needs::default() };
    walk::operators_mut(&mut root, &mut |operator| finder.operator(operator));
    for (_, slot) in &plan.columns {
        finder.expression(&Expr::Slot(*slot));
    }
    finder.needs.parameters.values_mut().flatten().for_each(without_parts);
    finder.needs
}

/// Slots that hold a parameter and never anything else: `WITH $that AS row`.
fn aliases(root: &Operator) -> BTreeMap<Slot, u32> {
    let mut given: Vec<(Slot, Expr)> = Vec::new();
    walk::operators(root, &mut |operator| match operator {
        Operator::Project { items, .. } | Operator::Aggregate { keys: items, .. } => given.extend(items.iter().cloned()),
        _ => {}
    });
    let mut known: BTreeMap<Slot, u32> = BTreeMap::new();
    loop {
        let before = known.len();
        for (slot, expr) in &given {
            if let Some(parameter) = as_parameter(expr, &known) {
                known.insert(*slot, parameter);
            }
        }
        known.retain(|slot, parameter| {
            let same = |expr: &Expr| match expr {
                Expr::Parameter(of) => of == parameter,
                Expr::Slot(_) => true,
                _ => false,
            };
            given.iter().filter(|(of, _)| of == slot).all(|(_, expr)| same(expr))
        });
        if known.len() == before {
            return known;
        }
    }
}

fn as_parameter(expr: &Expr, aliases: &BTreeMap<Slot, u32>) -> Option<u32> {
    match expr {
        Expr::Parameter(parameter) => Some(*parameter),
        Expr::Slot(slot) => aliases.get(slot).copied(),
        _ => None,
    }
}

/// A field of what is needed anyway is nothing more.
fn without_parts(fields: &mut BTreeSet<String>) {
    let all = fields.clone();
    fields.retain(|field| !field.match_indices('.').any(|(at, _)| all.contains(&field[..at])));
}

struct Finder<'a> {
    plan: &'a Plan,
    aliases: BTreeMap<Slot, u32>,
    needs: Needs,
}

impl Finder<'_> {
    fn operator(&mut self, operator: &mut Operator) {
        match operator {
            // To give the value another name needs nothing of it.
            Operator::Project { items, .. } | Operator::Aggregate { keys: items, .. } => {
                items.retain(|(slot, _)| !self.aliases.contains_key(slot));
            }
            _ => {}
        }
        walk::expressions_mut(operator, &mut |expr| self.expression(expr));
        walk::patterns_mut(operator, &mut |pattern| {
            for step in pattern.steps.iter().chain(pattern.orders.iter().flatten()) {
                let ids: Vec<&Expr> = match step {
                    Step::Seek { id, .. } => vec![id],
                    Step::SeekEach { ids, .. } => ids.iter().map(|lookup| &lookup.value).collect(),
                    _ => Vec::new(),
                };
                for id in ids {
                    let mut named = id.clone();
                    walk::rewrite(&mut named, &mut |part| {
                        if let Some(parameter) = as_parameter(part, &self.aliases) {
                            *part = Expr::Parameter(parameter);
                        }
                    });
                    self.needs.ids.insert(expression_text(self.plan, &named));
                    self.expression(id);
                }
            }
        });
    }

    fn expression(&mut self, expr: &Expr) {
        if let Some((parameter, path)) = self.path(expr) {
            let Some(name) = self.plan.parameters.get(parameter as usize) else { return };
            let fields = self.needs.parameters.entry(name.clone()).or_insert_with(|| Some(BTreeSet::new()));
            match fields {
                Some(fields) if !path.is_empty() => {
                    fields.insert(path.join("."));
                }
                fields => *fields = None,
            }
            return;
        }
        match expr {
            // Its operators are visited by themselves.
            Expr::Subquery(subquery) => {
                if let SubqueryKind::Collect(item) = &subquery.kind {
                    self.expression(item);
                }
            }
            _ => walk::children(expr).into_iter().for_each(|child| self.expression(child)),
        }
    }

    /// The parameter, and the fields on the way.
    fn path(&self, expr: &Expr) -> Option<(u32, Vec<String>)> {
        let (of, key) = match expr {
            Expr::Property { of, key } => (of, self.plan.names.get(key.0 as usize)?.to_string()),
            Expr::Index { of, index } => match &**index {
                Expr::Literal(Value::Text(key)) => (of, key.to_string()),
                _ => return None,
            },
            _ => return Some((as_parameter(expr, &self.aliases)?, Vec::new())),
        };
        let (parameter, mut path) = self.path(of)?;
        path.push(key);
        Some((parameter, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, compile};

    fn check(text: &str, parameters: &str, ids: &[&str]) {
        let needs = needs(&compile(text, &Options::default()).expect(text));
        let shown: Vec<String> = needs
            .parameters
            .iter()
            .map(|(name, fields)| match fields {
                None => format!("{name}: all"),
                Some(fields) => format!("{name}: {}", fields.iter().cloned().collect::<Vec<_>>().join(" ")),
            })
            .collect();
        assert_eq!(shown.join(", "), parameters, "{text}");
        assert_eq!(needs.ids.iter().map(String::as_str).collect::<Vec<_>>(), ids, "{text}");
    }

    #[test]
    fn fields_of_parameters_are_found_under_other_names_too() {
        check("MATCH (n) WHERE id(n) IN $ids RETURN n", "ids: all", &["$ids"]);
        check("RETURN $that.a + $that.b.c + $other AS x", "other: all, that: a b.c", &[]);
        check("RETURN $that.b.c AS x, $that.b AS y", "that: b", &[]);
        check(
            "WITH $that AS row MATCH (n) WHERE id(n) = idFrom('o', row.id) SET n.x = row.x",
            "that: id x",
            &["idFrom(\"o\", $that.id)"],
        );
        check("WITH $that AS row WITH row AS r, 1 AS one RETURN r['k'] AS k", "that: k", &[]);
        check("WITH $that AS row RETURN row", "that: all", &[]);
        check("WITH $that AS row MATCH (n) WHERE id(n) = idFrom(row.id) SET n = row", "that: all", &["idFrom($that.id)"]);
        check("UNWIND $that.items AS i RETURN i.x AS x", "that: items", &[]);
        check("FOREACH (x IN $that.l | CREATE (:N {v: x, w: $that.w}))", "that: l w", &[]);
        check("WITH $a AS x RETURN EXISTS { MATCH (n) WHERE n.y = x.f } AS e", "a: f", &[]);
        check("MATCH (n) WHERE n.x = 1 RETURN n", "", &[]);
    }

    /// What has had two names was told by the first, which another variable may have by then.
    #[test]
    fn ids_are_told_by_no_name_that_is_another_variables() {
        let by = |name: &str| format!("MATCH (n) WHERE id(n) = idFrom('u', {name}.none)");
        for (text, told) in [
            (format!("UNWIND $x AS a UNWIND [{{}}] AS b {} RETURN n", by("a")), "idFrom(\"u\", a.none)"),
            (format!("UNWIND $x AS a UNWIND [{{}}] AS b WITH a AS b, b AS a {} RETURN n", by("b")), "idFrom(\"u\", #0.none)"),
            (format!("UNWIND $x AS a WITH a AS b {} RETURN n", by("b")), "idFrom(\"u\", #0.none)"),
            (format!("CALL {{ UNWIND $x AS a RETURN a AS b }} {} RETURN n", by("b")), "idFrom(\"u\", #0.none)"),
            // A name of the answer is none that the query goes on with.
            (format!("UNWIND $x AS a {} RETURN a AS b, n", by("a")), "idFrom(\"u\", a.none)"),
            (format!("UNWIND $x AS a WITH a {} RETURN n", by("a")), "idFrom(\"u\", a.none)"),
        ] {
            check(&text, "x: all", &[told]);
        }
    }
}
