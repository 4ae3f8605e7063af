//! Spared: what a failure ends.
//!
//! A query that is asked fails as a whole. Of a standing query a row for which something has no value is left out, and the others
//! stay. So while a part of one runs, whoever looks at a row ends that row when its expression fails, as if a condition did not
//! hold (`end_row`), and goes on with the next. An expression that asks the graph (EXISTS and its kin) has no value when anything
//! within it has none: inside of it every failure is its own.
//!
//! It is only looked at where something has failed.

use std::cell::{Cell, RefCell};

use weir_model::expression::FailureKind;
use weir_model::{Expr, Failure, Value};

use super::holds;
use super::operators::{Flow, GO_ON, Run};

#[derive(Default)]
pub(super) struct Spared {
    /// A failure ends a row, and not all.
    pub by_row: Cell<bool>,
    rows: Cell<u64>,
    last: RefCell<Option<Failure>>,
}

impl Spared {
    /// How often a row was left out since this was asked last, and why the last was.
    pub fn take(&self) -> Option<(u64, Failure)> {
        let rows = self.rows.take();
        Some((rows, self.last.take()?))
    }
}

/// What may be spent is spent, or nobody waits any more: so it would be for the next row.
pub(super) fn ends_all(kind: FailureKind) -> bool {
    use FailureKind::{Interrupted, MemoryLimit, SharedMemoryLimit, TimeLimit};
    matches!(kind, TimeLimit | MemoryLimit | SharedMemoryLimit | Interrupted)
}

impl Run<'_> {
    /// Ends the row of which something has no value, or everything.
    #[cold]
    pub(super) fn end_row(&self, failure: Failure) -> Flow {
        if !self.spared.by_row.get() || ends_all(failure.kind) {
            return Err(failure);
        }
        self.spared.rows.set(self.spared.rows.get() + 1);
        self.spared.last.replace(Some(failure));
        GO_ON
    }

    /// Whether a condition holds for a row. One that has no value does not, where that ends the row alone.
    #[inline]
    pub(super) fn holds(&self, condition: &Expr, row: &[Value]) -> Result<bool, Failure> {
        holds(condition, row, self).or_else(|failure| self.end_row(failure).map(|_| false))
    }

    /// Does what may fail while others go on: what it has on the stacks then, and holds, is taken off again.
    pub(super) fn cleanly<T>(&self, act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        if !self.spared.by_row.get() {
            return act();
        }
        let (stacks, bytes) = (self.scratch.mark(), self.budget.bytes());
        let done = act();
        if done.is_err() {
            self.scratch.reset(stacks);
            self.budget.release(self.budget.bytes().saturating_sub(bytes));
        }
        done
    }

    /// Does something of which every failure is one of the whole.
    pub(super) fn as_one<T>(&self, act: impl FnOnce() -> T) -> T {
        let by_row = self.spared.by_row.replace(false);
        let done = act();
        self.spared.by_row.set(by_row);
        done
    }
}
