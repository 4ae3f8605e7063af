//! Which keys of a parameter a plan looks at, so that whoever decodes records needs not decode the rest.
//!
//! Every operator and every write is named here: one that is new does not compile until it is said what of it counts.

use std::collections::BTreeSet;

use crate::expression::Expr;
use crate::plan::{Operator, Pattern, Plan, Step, Write};
use crate::value::{Text, Value};

impl Plan {
    /// The keys of a parameter that is a map; none where the plan may look at all of it.
    pub fn keys_asked(&self, parameter: &str) -> Option<BTreeSet<Text>> {
        let mut asked = BTreeSet::new();
        let Some(at) = self.parameters.iter().position(|name| name == parameter) else { return Some(asked) };
        let mut asking = Asking { plan: self, parameter: at as u32, asked: &mut asked, whole: false };
        asking.operator(&self.root);
        if asking.whole { None } else { Some(asked) }
    }
}

struct Asking<'a> {
    plan: &'a Plan,
    parameter: u32,
    asked: &'a mut BTreeSet<Text>,
    /// It is used by itself, and not only by its keys.
    whole: bool,
}

impl Asking<'_> {
    fn expression(&mut self, expr: &Expr) {
        let is_it = |of: &Expr| matches!(of, Expr::Parameter(at) if *at == self.parameter);
        match expr {
            Expr::Property { of, key } if is_it(of) => match self.plan.names.get(key.0 as usize) {
                Some(name) => drop(self.asked.insert(name.clone())),
                None => self.whole = true,
            },
            Expr::Index { of, index } if is_it(of) => match &**index {
                Expr::Literal(Value::Text(name)) => drop(self.asked.insert(name.clone())),
                _ => self.whole = true,
            },
            Expr::Subquery(subquery) => {
                self.operator(&subquery.plan);
                // What is collected, and the expressions of the plan once more.
                expr.children().into_iter().for_each(|child| self.expression(child));
            }
            of if is_it(of) => self.whole = true,
            other => other.children().into_iter().for_each(|child| self.expression(child)),
        }
    }

    fn expressions<'e>(&mut self, all: impl IntoIterator<Item = &'e Expr>) {
        all.into_iter().for_each(|expr| self.expression(expr));
    }

    fn operator(&mut self, operator: &Operator) {
        use Operator::*;
        operator.children().into_iter().for_each(|child| self.operator(child));
        match operator {
            Unit | Argument | Schema(_) | Distinct { .. } | Union { .. } | Optional { .. } | Subquery { .. } => {}
            Match { pattern, .. } => self.pattern(pattern),
            Filter { condition, .. } => self.expression(condition),
            Project { items, .. } => self.expressions(items.iter().map(|(_, item)| item)),
            Aggregate { keys, aggregates, .. } => {
                self.expressions(keys.iter().map(|(_, key)| key));
                self.expressions(aggregates.iter().flat_map(|(_, aggregate)| &aggregate.arguments));
            }
            Sort { keys, limit, .. } => self.expressions(keys.iter().map(|key| &key.expr).chain(limit)),
            Skip { count, .. } | Limit { count, .. } => self.expression(count),
            Unwind { list, .. } => self.expression(list),
            Write { writes, .. } => self.writes(writes),
            Merge { pattern, create, on_create, on_match, .. } => {
                self.pattern(pattern);
                [create, on_create, on_match].into_iter().for_each(|writes| self.writes(writes));
            }
            Call { arguments, .. } => self.expressions(arguments),
            Recurse { first, until, .. } => self.expressions(first.iter().chain([until])),
            Join { keys, .. } => self.expressions(keys.iter().flat_map(|(left, right)| [left, right])),
        }
    }

    fn writes(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::CreateNode { properties, .. } | Write::CreateEdge { properties, .. } => self.expressions(properties),
                Write::SetProperty { target, value, .. } => self.expressions([target, value]),
                Write::SetProperties { value, .. } => self.expression(value),
                Write::AddLabels { .. } | Write::RemoveLabels { .. } => {}
                Write::RemoveProperty { target, .. } | Write::Delete { target, .. } => self.expression(target),
                Write::ForEach { list, writes, .. } => {
                    self.expression(list);
                    self.writes(writes);
                }
                Write::Merge { pattern, create, on_create, on_match, then } => {
                    self.pattern(pattern);
                    [create, on_create, on_match, then].into_iter().for_each(|writes| self.writes(writes));
                }
            }
        }
    }

    fn pattern(&mut self, pattern: &Pattern) {
        // What is presumed is part of conditions.
        let Pattern {
            nodes,
            edges,
            conditions,
            steps,
            orders,
            presumed: _,
            delta,
            distinct_edges: _,
            distinct_nodes: _,
            paths: _,
        } = pattern;
        self.expressions(nodes.iter().flat_map(|node| &node.conditions));
        for edge in edges {
            self.expressions(&edge.conditions);
            if let Some(chain) = &edge.chain {
                self.expressions(chain.edges.iter().chain(&chain.nodes).map(|(_, condition)| condition).chain(&chain.whole));
            }
        }
        self.expressions(conditions);
        let other = orders.iter().chain(delta.iter().map(|path| &path.steps));
        for step in [steps].into_iter().chain(other).flatten() {
            match step {
                Step::Seek { id, .. } => self.expression(id),
                Step::SeekEach { ids: lookups, .. } | Step::Scan { lookups, .. } => {
                    self.expressions(lookups.iter().flat_map(|lookup| [&lookup.of, &lookup.value]));
                }
                Step::Bound { .. } | Step::Ends { .. } | Step::Expand { .. } | Step::Test { .. } => {}
            }
        }
    }
}
