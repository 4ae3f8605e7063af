//! The Context of a running plan: what its reader answers, and subqueries, which only the run itself can answer.

use std::cell::Cell;

use weir_model::expression::{Binary, Subquery, SubqueryKind};
use weir_model::extent::{Holding, weight};
use weir_model::membership::Lists;
use weir_model::plan::{Operator, Pattern, Slot, Step};
use weir_model::{Context, Expr, Failure, Value, forward_context};

use super::operators::{Run, STOP};

impl Context for Run<'_> {
    forward_context!(self, self.reader);

    fn now_millis(&self) -> i64 {
        self.reader.now_millis()
    }

    fn clock_millis(&self) -> i64 {
        self.reader.clock_millis()
    }

    fn turns(&self) -> Option<&Cell<i64>> {
        self.reader.turns()
    }

    fn spend(&self, steps: usize) -> Result<(), Failure> {
        self.budget.steps(steps)
    }

    fn room(&self) -> usize {
        self.budget.room()
    }

    fn hold(&self, bytes: usize) -> Result<(), Failure> {
        self.budget.hold_bytes(bytes).map(drop)
    }

    fn release(&self, bytes: usize) {
        self.budget.release(bytes);
    }

    fn lists(&self) -> Option<&Lists> {
        Some(&self.scratch.lists)
    }

    /// The plan runs over a copy of the row. What a list of results holds is counted until it is handed over.
    fn subquery(&self, subquery: &Subquery, row: &[Value]) -> Result<Value, Failure> {
        let _held = Holding::of_copy(row, self)?;
        let mut inner = self.scratch.buffers.borrow_mut().pop().unwrap_or_default();
        inner.clear();
        inner.extend_from_slice(row);
        inner.resize(self.prepared.plan.width.max(1), Value::Null);
        let answer = self.cleanly(|| self.as_one(|| self.answer(subquery, &mut inner)));
        inner.clear();
        self.scratch.buffers.borrow_mut().push(inner);
        answer
    }
}

impl Run<'_> {
    fn answer(&self, subquery: &Subquery, row: &mut [Value]) -> Result<Value, Failure> {
        match &subquery.kind {
            SubqueryKind::Exists => {
                let before = self.scratch.any_order.replace(self.takes_any_order(&subquery.plan));
                let flow = self.run(&subquery.plan, row, &mut |_| STOP);
                self.scratch.any_order.set(before);
                Ok(Value::Boolean(flow?.is_break()))
            }
            SubqueryKind::Count => {
                let mut count = 0;
                self.drain(&subquery.plan, row, &mut |_| {
                    count += 1;
                    self.budget.step()
                })?;
                Ok(Value::Integer(count))
            }
            SubqueryKind::Collect(item) => {
                let (mut items, mut held) = (Vec::new(), self.budget.held());
                self.drain(&subquery.plan, row, &mut |row| {
                    let value = item.evaluate(row, self)?;
                    held.bytes(weight(&value))?;
                    items.push(value);
                    Ok(())
                })?;
                Ok(Value::list(items))
            }
        }
    }
    /// Looked up once a run.
    fn takes_any_order(&self, plan: &Operator) -> bool {
        let number = std::ptr::from_ref(plan) as usize;
        *self.remembered.borrow_mut().any_order.entry(number).or_insert_with(|| takes_any_order(plan))
    }
}

/// Whether it follows from the graph if the plan gives a row, in whatever order edges are listed: it finds patterns, and nothing
/// that it asks can fail, as then the order would tell whether it fails before it finds. That more was looked at than a row may
/// take is the one failure left, and may come in one order and not in another.
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
