//! Spared: whether a failure ends the whole run, or only the row it happened at.
//!
//! An ad-hoc query fails as a whole. A standing query leaves out the row for which an expression has no value, and keeps the
//! others: while a part of its plan runs, an operator whose expression fails goes on with the next row, as if a condition had not
//! held (`end_row`). An expression that asks the graph (EXISTS and the like) has no value where anything within it fails.
//!
//! Nothing of this costs anything until something fails.

use std::cell::{Cell, RefCell};

use weir_model::expression::FailureKind;
use weir_model::{Expr, Failure, Value};

use super::holds;
use super::operators::{Flow, GO_ON, Run};

/// Why something of a row has no value, and which expression of the plan that is, where it is known.
#[derive(Clone, Debug)]
pub struct NoValue {
    pub failure: Failure,
    pub of: Option<Expr>,
}

impl NoValue {
    #[cold]
    pub fn of(expr: &Expr, failure: Failure) -> NoValue {
        NoValue { failure, of: Some(expr.clone()) }
    }
}

impl From<Failure> for NoValue {
    fn from(failure: Failure) -> NoValue {
        NoValue { failure, of: None }
    }
}

#[derive(Default)]
pub(super) struct Spared {
    /// Whether a failure ends a row alone.
    pub by_row: Cell<bool>,
    /// How many rows were left out.
    rows: Cell<u64>,
    /// Why the last of them was.
    last: RefCell<Option<NoValue>>,
}

impl Spared {
    /// How often a row was left out since this was asked last, and why the last was.
    pub fn take(&self) -> Option<(u64, NoValue)> {
        let rows = self.rows.take();
        Some((rows, self.last.take()?))
    }
}

/// Whether the next row would fail, too: no time or memory is left, or nobody waits for the answer any more.
pub(super) fn ends_all(kind: FailureKind) -> bool {
    use FailureKind::{Interrupted, MemoryLimit, SharedMemoryLimit, TimeLimit};
    matches!(kind, TimeLimit | MemoryLimit | SharedMemoryLimit | Interrupted)
}

impl Run<'_> {
    /// Leaves out the row at which something failed, or ends the run.
    pub(super) fn end_row(&self, failure: Failure) -> Flow {
        self.end_row_of(None, failure)
    }

    /// As `end_row`, where it is known which expression has no value.
    #[cold]
    pub(super) fn end_row_of(&self, expr: Option<&Expr>, failure: Failure) -> Flow {
        if !self.spared.by_row.get() || ends_all(failure.kind) {
            return Err(failure);
        }
        self.spared.rows.set(self.spared.rows.get() + 1);
        self.spared.last.replace(Some(NoValue { failure, of: expr.cloned() }));
        GO_ON
    }

    /// Whether a condition holds for a row. One that has no value does not, where that ends the row alone.
    #[inline]
    pub(super) fn holds(&self, condition: &Expr, row: &[Value]) -> Result<bool, Failure> {
        holds(condition, row, self).or_else(|failure| self.end_row_of(Some(condition), failure).map(|_| false))
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
