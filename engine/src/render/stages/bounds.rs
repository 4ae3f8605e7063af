//! Bounds: how much stages may do for one row, and how many rows may come of one tick, of how many bytes.
//!
//! A row for which more would have to be looked at is left out, and told of. A tick of which more rows come than memory is made
//! for has no answer: the query ends.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use weir_model::expression::{FailureKind, Subquery};
use weir_model::membership::Lists;
use weir_model::{Context, Expr, Failure, GraphFree, Value, forward_context};

use super::{Row, valued};
use crate::evaluate::{NoValue, weight_beside};
use crate::memory::{at_most, is_over_limit};
use crate::render::health::Health;

/// How much may be looked at for one row.
pub const STEPS_MAX: u32 = 20_000_000;

/// Rows that may come of one tick beyond one for each that went in, at most.
const MADE_MAX: u64 = 10_000_000;

/// One row is there less often than this, so that the sum over ten million rows is still a number.
const TIMES_MAX: u64 = 1 << 38;

/// Bytes that the rows made during one tick may take, where memory is large as well: they are kept, some more than once.
const MADE_BYTES_MAX: usize = 4 << 30;
const PARTS_OF_MEMORY: u64 = 8;

/// Once for this many rows it is looked up whether anybody still wants the answer, and whether there is memory.
const ROWS_BY_LOOK: u64 = 1024;

/// The rows that were made during one tick, beyond one for each that went in.
pub struct Made<'p> {
    health: &'p Health,
    count: Cell<u64>,
    most: Cell<u64>,
    bytes: Cell<usize>,
    bytes_max: usize,
    stopped: Cell<Option<Stop>>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Stop {
    NotWanted,
    Rows,
    Times,
    Bytes,
    Memory,
}

impl<'p> Made<'p> {
    pub fn new(health: &'p Health) -> Made<'p> {
        let (count, most, bytes) = (Cell::new(0), Cell::new(MADE_MAX), Cell::new(0));
        let bytes_max = at_most(MADE_BYTES_MAX, PARTS_OF_MEMORY);
        Made { health, count, most, bytes, bytes_max, stopped: Cell::new(None) }
    }

    /// Another tick.
    pub fn begin(&self) {
        self.count.set(0);
        self.most.set(MADE_MAX);
        self.bytes.set(0);
    }

    /// Allows for rows that go in where it cannot be told which row comes of which.
    pub fn allow(&self, rows: usize) {
        self.most.set(self.most.get() + rows as u64);
    }

    /// Counts the last row of those that came of one, unless it is the first.
    pub fn beyond(&self, found: &[Row]) -> ControlFlow<()> {
        if let [.., before, row] = found { self.one(weight_beside(&row.0, &before.0)) } else { ControlFlow::Continue(()) }
    }

    pub fn one(&self, bytes: usize) -> ControlFlow<()> {
        let (count, bytes) = (self.count.get() + 1, self.bytes.get() + size_of::<Row>() + bytes);
        self.count.set(count);
        self.bytes.set(bytes);
        let looks = count.is_multiple_of(ROWS_BY_LOOK);
        let stop = match () {
            () if count > self.most.get() => Some(Stop::Rows),
            () if bytes > self.bytes_max => Some(Stop::Bytes),
            () if looks && self.health.is_over() => Some(Stop::NotWanted),
            () if looks && is_over_limit() => Some(Stop::Memory),
            () => None,
        };
        self.stopped.set(self.stopped.get().or(stop));
        if self.is_too_many() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// How often a row is there that two rows make. None where that is too often to be counted any more.
    pub fn times(&self, one: i64, other: i64) -> Option<i64> {
        let times = one.checked_mul(other).filter(|times| times.unsigned_abs() < TIMES_MAX);
        if times.is_none() {
            self.stopped.set(self.stopped.get().or(Some(Stop::Times)));
        }
        times
    }

    pub fn is_too_many(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Why the tick has no answer.
    pub fn too_many(&self) -> Option<String> {
        Some(match self.stopped.get()? {
            Stop::NotWanted => "nobody waits for it any more".to_owned(),
            Stop::Rows => format!("at one record more than {MADE_MAX} rows come of it"),
            Stop::Times => format!("at one record a row is there {TIMES_MAX} times or more"),
            Stop::Bytes => format!("at one record rows of more than {} MiB come of it", self.bytes_max >> 20),
            Stop::Memory => format!("at one record {} rows and more come of it, and memory.limit is reached", self.count.get()),
        })
    }
}

/// The context of expressions over rows, in which what one row may take is bounded.
pub struct Bounded<'a> {
    base: &'a GraphFree,
    health: &'a Health,
    spent: Cell<usize>,
    /// Why something of the row has no value.
    failed: RefCell<Option<NoValue>>,
}

impl<'a> Bounded<'a> {
    pub fn new(base: &'a GraphFree, health: &'a Health) -> Bounded<'a> {
        Bounded { base, health, spent: Cell::new(0), failed: RefCell::default() }
    }

    /// Another row.
    pub fn begin(&self) {
        self.spent.set(0);
        self.failed.take();
    }

    /// What was worked out of the row. None where it has no value, which `end` tells.
    pub fn value<T>(&self, evaluated: Result<T, NoValue>) -> Option<T> {
        evaluated.map_err(|none| self.failed.replace(Some(none))).ok()
    }

    /// As `value`, of an expression.
    pub fn evaluate(&self, expr: &Expr, row: &[Value]) -> Option<Value> {
        self.value(valued(expr, row, self))
    }

    /// Tells of a row of which something has no value, or for which it was too much; of one that goes it was told when it came.
    pub fn end(&self, row: &Row, diff: i64) {
        if diff > 0
            && let Some(none) = self.failed.take().or_else(|| self.spend(0).err().map(NoValue::from))
        {
            self.health.leave_out(|| row, &none.failure, none.of.as_ref());
        }
    }
}

impl Context for Bounded<'_> {
    forward_context!(self, self.base);

    fn spend(&self, steps: usize) -> Result<(), Failure> {
        self.spent.set(self.spent.get().saturating_add(steps));
        if self.spent.get() > STEPS_MAX as usize {
            let message = "The query looks at too many elements of lists; bound them";
            return Err(Failure::new(FailureKind::TimeLimit, message));
        }
        if self.health.is_over() {
            return Err(Failure::new(FailureKind::Interrupted, "The query was cancelled"));
        }
        Ok(())
    }
    fn now_millis(&self) -> i64 {
        self.base.now_millis()
    }
    fn is_kept(&self) -> bool {
        self.base.is_kept()
    }
    fn subquery(&self, subquery: &Subquery, row: &[Value]) -> Result<Value, Failure> {
        self.base.subquery(subquery, row)
    }
    fn room(&self) -> usize {
        self.base.room()
    }
    fn lists(&self) -> Option<&Lists> {
        self.base.lists()
    }
}

#[cfg(test)]
mod tests {
    use weir_model::IdScheme;

    use super::*;

    #[test]
    fn rows_of_one_tick_are_bounded_by_number_by_size_and_by_how_often_they_are_there() {
        let health = Health::of_nobody(IdScheme::default());
        let reason = |made: Made<'_>| made.too_many().unwrap_or_default();
        let made = Made::new(&health);
        assert!((0..MADE_MAX).all(|_| made.one(0).is_continue()) && made.one(0).is_break());
        assert!(reason(made).contains("10000000 rows"));
        let made = Made::new(&health);
        let path = Value::List((0..1000).map(Value::Integer).collect::<Vec<_>>().into());
        let row = Row::from_slice(&[path]);
        let found = [Row::default(), row.clone()];
        let count = (0..MADE_MAX).take_while(|_| made.beyond(&found).is_continue()).count();
        assert!((100_000..MADE_BYTES_MAX / 24_000 + 1).contains(&count), "{count}");
        assert!(reason(made).contains("4096 MiB"));
        // What a row shares with the one before it is there once.
        let made = Made::new(&health);
        assert!((0..count * 10).all(|_| made.beyond(&[row.clone(), row.clone()]).is_continue()));
        let made = Made::new(&health);
        assert_eq!((made.times(-3, 5), made.times(1 << 37, 1)), (Some(-15), Some(1 << 37)));
        assert_eq!((made.is_too_many(), made.times(1 << 19, 1 << 19), made.times(i64::MAX, 2)), (false, None, None));
        assert!(reason(made).contains("is there 274877906944 times"));
    }
}
