//! How long a query may run and how much it may hold, and the counting of it.

use std::cell::Cell;
use std::mem::size_of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weir_model::expression::FailureKind;
use weir_model::{Failure, Value};

#[derive(Clone, Copy)]
pub struct Limits<'a> {
    pub deadline: Option<Instant>,
    /// Set by whoever no longer wants the answer.
    pub cancelled: Option<&'a AtomicBool>,
    /// What sorting, grouping and collecting rows may hold at a time, estimated.
    pub buffer_bytes_max: usize,
}

impl Limits<'_> {
    pub const NONE: Limits<'static> = Limits { deadline: None, cancelled: None, buffer_bytes_max: usize::MAX };
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { buffer_bytes_max: 1 << 30, ..Limits::NONE }
    }
}

/// Looking at the clock costs more than a step of most queries.
const STEPS_BETWEEN_CHECKS: u32 = 4096;

pub(super) struct Budget<'a> {
    limits: &'a Limits<'a>,
    steps: Cell<u32>,
    bytes: Cell<usize>,
}

impl<'a> Budget<'a> {
    pub fn new(limits: &'a Limits<'a>) -> Budget<'a> {
        Budget { limits, steps: Cell::new(0), bytes: Cell::new(0) }
    }

    /// Called for every node, edge and element a query visits.
    #[inline]
    pub fn step(&self) -> Result<(), Failure> {
        let steps = self.steps.get() + 1;
        if steps < STEPS_BETWEEN_CHECKS {
            self.steps.set(steps);
            return Ok(());
        }
        self.steps.set(0);
        self.check()
    }

    /// Whether there is still time and interest; for those who wait.
    #[cold]
    pub fn check(&self) -> Result<(), Failure> {
        let stop = |why: &str| Err(Failure::new(FailureKind::Interrupted, why));
        if self.limits.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return stop("The query was cancelled");
        }
        if self.limits.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return stop("The query ran out of time; anchor its pattern with id(n) = ..., or allow it more");
        }
        Ok(())
    }

    /// Counts values that an operator keeps.
    pub fn hold(&self, values: &[Value]) -> Result<usize, Failure> {
        self.hold_bytes(weight_of(values))
    }

    /// As `hold`, for what is not made of values.
    pub fn hold_bytes(&self, bytes: usize) -> Result<usize, Failure> {
        self.step()?;
        let total = self.bytes.get() + bytes;
        if total > self.limits.buffer_bytes_max {
            let message = format!(
                "The query holds more than {} bytes of rows; narrow its pattern, or LIMIT what it sorts and collects",
                self.limits.buffer_bytes_max
            );
            return Err(Failure::new(FailureKind::Interrupted, message));
        }
        self.bytes.set(total);
        Ok(bytes)
    }

    /// Whether so much more could be held and half of what is allowed would be left: for what is kept only to save time.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes.get().saturating_add(bytes) <= self.limits.buffer_bytes_max / 2
    }

    /// Limits for a part of the query that has less time: what is held outside counts there too.
    pub fn shortened(&self, deadline: Instant) -> Limits<'a> {
        let deadline = self.limits.deadline.map_or(deadline, |outer| outer.min(deadline));
        let buffer_bytes_max = self.limits.buffer_bytes_max.saturating_sub(self.bytes.get());
        Limits { deadline: Some(deadline), buffer_bytes_max, ..*self.limits }
    }

    pub fn release(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }
}

pub(super) fn weight_of(values: &[Value]) -> usize {
    values.iter().map(weight).sum()
}

/// Bytes of a value, counting one level of what it points at: an estimate that costs nothing.
fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.len() * size_of::<Value>(),
            Value::Map(map) => map.len() * 2 * size_of::<Value>(),
            _ => 0,
        }
}
