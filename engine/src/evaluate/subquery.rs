//! The Context of a running plan: what its reader answers, and subqueries, which only the run itself can answer.

use std::cell::Cell;

use weir_model::expression::{Subquery, SubqueryKind};
use weir_model::extent::{Holding, weight};
use weir_model::{Context, Failure, Value, forward_context};

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
                let flow = self.run(&subquery.plan, row, &mut |_| STOP)?;
                Ok(Value::Boolean(flow.is_break()))
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
}
