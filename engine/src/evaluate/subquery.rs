//! The Context of a running plan: what its reader answers, and subqueries, which only the run itself can answer.

use std::cell::Cell;

use weir_model::expression::{Subquery, SubqueryKind};
use weir_model::extent::{Holding, weight};
use weir_model::membership::Lists;
use weir_model::plan::{Operator, PatternNode, Step};
use weir_model::{Context, Failure, Value, forward_context};

use super::operators::{Run, STOP};
use super::pattern::with_symbols;
use crate::view::Direction;

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
        let answer = self.cleanly(|| self.as_one(|| self.unanchored.within(true, || self.answer(subquery, &mut inner))));
        inner.clear();
        self.scratch.buffers.borrow_mut().push(inner);
        answer
    }
}

impl Run<'_> {
    fn answer(&self, subquery: &Subquery, row: &mut [Value]) -> Result<Value, Failure> {
        let before = self.scratch.any_order.replace(subquery.any_order);
        let answer = self.answer_in_order(subquery, row);
        self.scratch.any_order.set(before);
        answer
    }

    fn answer_in_order(&self, subquery: &Subquery, row: &mut [Value]) -> Result<Value, Failure> {
        match &subquery.kind {
            SubqueryKind::Exists => Ok(Value::Boolean(self.run(&subquery.plan, row, &mut |_| STOP)?.is_break())),
            SubqueryKind::Count => {
                if let Some(count) = self.count_at_node(&subquery.plan, row) {
                    return Ok(Value::Integer(count));
                }
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

    /// How many rows the plan gives, where these are the edges of one node and nothing is asked of them: so a node of very many
    /// is counted without listing them.
    fn count_at_node(&self, plan: &Operator, row: &[Value]) -> Option<i64> {
        let Operator::Match { input, pattern } = plan else { return None };
        let (Operator::Argument, [edge]) = (&**input, pattern.edges.as_slice()) else { return None };
        let (near, far) = match pattern.nodes.as_slice() {
            [near, far] if near.bound && !far.bound => (near, far),
            [far, near] if near.bound && !far.bound => (near, far),
            _ => return None,
        };
        let is_plain = |node: &PatternNode| node.labels.is_empty() && node.conditions.is_empty();
        // What a step looks up is no condition any more.
        let is_step_plain = |step: &Step| matches!(step, Step::Bound { .. } | Step::Expand { .. });
        let is_all = is_plain(near)
            && is_plain(far)
            && edge.conditions.is_empty()
            && pattern.conditions.is_empty()
            && pattern.steps.iter().all(is_step_plain);
        if !is_all || edge.bound || edge.chain.is_some() || edge.source == edge.target {
            return None;
        }
        let node = match &row[near.slot.0 as usize] {
            Value::Node(id) => *id,
            // Its edges are those it has now, as in the pattern.
            Value::FullNode(full) => full.id,
            _ => return None,
        };
        let leads_away = pattern.nodes[edge.source].slot == near.slot;
        let direction = match (edge.directed, leads_away) {
            (false, _) => Direction::Both,
            (true, true) => Direction::Outgoing,
            (true, false) => Direction::Incoming,
        };
        let count = with_symbols(self, &edge.kinds, |kinds| {
            let view = self.reader.view;
            let mut count = view.count_edges(node, direction, kinds);
            if direction == Direction::Both {
                // Both halves of a loop are at the node, and it is one edge.
                view.edges_to(node, node, Direction::Outgoing, kinds, &mut |_| count -= 1);
            }
            count
        });
        Some(count as i64)
    }
}
