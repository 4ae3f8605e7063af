//! How long a query may run and how much it may hold, and the counting of it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::extent::weight;
use weir_model::{Failure, Value};

use super::pool::{Pool, Share};
use super::stack;
use crate::view::View;

#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    pub deadline: Option<Instant>,
    /// As `deadline`, from the first look at the clock on: what is done before that never looks.
    pub time_max: Option<Duration>,
    /// Set by whoever no longer wants the answer.
    pub cancelled: Option<&'a AtomicBool>,
    /// What sorting, grouping and collecting rows may hold at a time, with the row at hand and what is made of it, estimated.
    pub buffer_bytes_max: usize,
    /// What this query and others may hold together.
    pub pool: Option<&'a Pool>,
    /// How many nodes, edges and elements may be visited, about: for those who only try whether it is quick, or whose answer may
    /// not depend on the clock.
    pub steps_max: Option<u32>,
}

impl Limits<'_> {
    pub const NONE: Limits<'static> =
        Limits { deadline: None, time_max: None, cancelled: None, buffer_bytes_max: usize::MAX, pool: None, steps_max: None };
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Limits { time_max: Some(Duration::from_secs(120)), buffer_bytes_max: 512 << 20, ..Limits::NONE }
    }
}

/// Looking at the clock costs as much as a few steps of most queries; a step of some takes milliseconds.
const STEPS_BETWEEN_CHECKS: u32 = 128;

pub(super) struct Budget<'a> {
    limits: &'a Limits<'a>,
    /// Steps since the last look at the clock.
    steps: Cell<u32>,
    /// Steps before the last look at the clock.
    checked: Cell<u32>,
    /// When `Limits::time_max` is over.
    ends: Cell<Option<Instant>>,
    bytes: Cell<usize>,
    share: Share<'a>,
    /// See `stack`.
    lowest: usize,
    /// Where it may be noted what is asked, and how much was noted there before.
    view: Option<(&'a dyn View, usize)>,
    /// What has been noted since, as of the last look at the clock.
    noted: Cell<usize>,
}

impl<'a> Budget<'a> {
    /// Of a run on this thread.
    pub fn new(limits: &'a Limits<'a>) -> Budget<'a> {
        Budget {
            limits,
            steps: Cell::new(0),
            checked: Cell::new(0),
            ends: Cell::new(None),
            bytes: Cell::new(0),
            share: Share::of(limits.pool),
            lowest: stack::lowest(),
            view: None,
            noted: Cell::new(0),
        }
    }

    /// What is noted of what is asked of this view counts as held. Where it is in the way it is let go.
    pub fn noting(limits: &'a Limits<'a>, view: &'a dyn View) -> Budget<'a> {
        Budget { view: Some((view, view.noted_bytes())), ..Budget::new(limits) }
    }

    /// Called for every node, edge and element a query visits.
    #[inline]
    pub fn step(&self) -> Result<(), Failure> {
        self.steps(1)
    }

    /// Called for `count` nodes, edges and elements at once.
    #[inline]
    pub fn steps(&self, count: usize) -> Result<(), Failure> {
        let steps = self.steps.get().saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.steps.set(steps);
        if steps < STEPS_BETWEEN_CHECKS { self.go_deeper() } else { self.check() }
    }

    /// Whether there is stack left to go on with; for those who stand on it once for each part of a query.
    #[inline]
    pub fn go_deeper(&self) -> Result<(), Failure> {
        if stack::here() >= self.lowest { Ok(()) } else { Err(too_deep()) }
    }

    /// Whether there is still time and interest; for those who wait.
    #[cold]
    pub fn check(&self) -> Result<(), Failure> {
        self.go_deeper()?;
        self.checked.set(self.checked.get().saturating_add(self.steps.replace(0)));
        if let Some((view, before)) = self.view {
            self.noted.set(view.noted_bytes().saturating_sub(before));
            self.cover(self.bytes.get())?;
        }
        if self.limits.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Failure::new(FailureKind::Interrupted, "The query was cancelled"));
        }
        let stop = |message| Err(Failure::new(FailureKind::TimeLimit, message));
        if self.limits.steps_max.is_some_and(|most| self.checked.get() > most) {
            return stop("The query visits too much of the graph; narrow its pattern");
        }
        if self.limits.deadline.is_none() && self.limits.time_max.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        if self.ends.get().is_none() {
            self.ends.set(self.limits.time_max.and_then(|most| now.checked_add(most)));
        }
        let over = |ends: Option<Instant>| ends.is_some_and(|ends| now >= ends);
        if over(self.limits.deadline) || over(self.ends.get()) {
            return stop("The query ran out of time; anchor its pattern with id(n) = ..., or allow it more");
        }
        Ok(())
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Bytes that are not held.
    pub fn room(&self) -> usize {
        self.limits.buffer_bytes_max.saturating_sub(self.bytes.get())
    }

    /// Counts values that are kept until `release`.
    pub fn hold(&self, values: &[Value]) -> Result<usize, Failure> {
        self.hold_bytes(weight_of(values))
    }

    /// As `hold`, for what is not made of values.
    pub fn hold_bytes(&self, bytes: usize) -> Result<usize, Failure> {
        self.step()?;
        let total = self.bytes.get().saturating_add(bytes);
        self.cover(total)?;
        self.bytes.set(total);
        Ok(bytes)
    }

    /// Makes room for this many bytes, beside what is noted. What is noted only saves an attempt: without it the query is as
    /// right.
    fn cover(&self, total: usize) -> Result<(), Failure> {
        let with_notes = total.saturating_add(self.noted.get());
        if with_notes <= self.limits.buffer_bytes_max && self.share.cover(with_notes).is_ok() {
            return Ok(());
        }
        if let Some((view, _)) = self.view
            && self.noted.replace(0) > 0
        {
            view.note_everything();
        }
        if total > self.limits.buffer_bytes_max {
            let message = format!(
                "The query holds more than {} bytes of rows; narrow its pattern, or LIMIT what it sorts and collects",
                self.limits.buffer_bytes_max
            );
            return Err(Failure::new(FailureKind::MemoryLimit, message));
        }
        self.share.cover(total)
    }

    /// Whether these bytes could be held as well and half of what is allowed would be left: for what is kept only to save time.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes.get().saturating_add(bytes) <= self.limits.buffer_bytes_max / 2
    }

    /// Limits for a part of the query that has less time: what is held outside counts there too.
    pub fn shortened(&self, deadline: Instant) -> Limits<'a> {
        let deadline = [Some(deadline), self.limits.deadline, self.ends.get()].into_iter().flatten().min();
        Limits { deadline, buffer_bytes_max: self.room(), ..*self.limits }
    }

    pub fn release(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.share.shrink(self.bytes.get().saturating_add(self.noted.get()));
    }

    /// Nothing yet, to be counted as it grows and let go as a whole.
    pub fn held(&self) -> Held<'_, 'a> {
        Held { budget: self, bytes: 0 }
    }
}

/// To be told where the end of the stack comes near.
#[cold]
fn too_deep() -> Failure {
    let message = "The patterns and clauses of the query are too many for one query: each row goes through all of them at once, \
                   which the stack of a thread is too small for; ask it in several queries, or with fewer relationships";
    Failure::new(FailureKind::Runtime, message)
}

/// What an operator keeps. Dropped with it.
pub(super) struct Held<'b, 'a> {
    budget: &'b Budget<'a>,
    bytes: usize,
}

impl Held<'_, '_> {
    /// One more row, after another: what both have in common is there once.
    pub fn row(&mut self, row: &[Value], before: &[Value]) -> Result<(), Failure> {
        self.bytes(weight_beside(row, before))
    }

    pub fn bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += self.budget.hold_bytes(bytes)?;
        Ok(())
    }

    /// Something that is kept took `before` bytes, and takes `after` now.
    pub fn change(&mut self, before: usize, after: usize) -> Result<(), Failure> {
        if after < before {
            self.bytes -= before - after;
            self.budget.release(before - after);
            return Ok(());
        }
        if after > before { self.bytes(after - before) } else { Ok(()) }
    }

    /// Everything was let go.
    pub fn clear(&mut self) {
        self.budget.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        self.clear();
    }
}

pub(super) fn weight_of(values: &[Value]) -> usize {
    values.iter().map(weight).sum()
}

/// Lists and maps that a row has from where the row before has them too are the same memory.
pub fn weight_beside(row: &[Value], before: &[Value]) -> usize {
    let shared = |value: &Value, other: &Value| match (value, other) {
        (Value::List(x), Value::List(y)) => std::sync::Arc::ptr_eq(x, y),
        (Value::Map(x), Value::Map(y)) => std::sync::Arc::ptr_eq(x, y),
        _ => false,
    };
    let own = |(at, value): (usize, &Value)| match before.get(at) {
        Some(other) if shared(value, other) => size_of::<Value>(),
        _ => weight(value),
    };
    row.iter().enumerate().map(own).sum()
}
