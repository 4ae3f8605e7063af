//! Fetched: what procedures brought from outside of the graph, kept for the attempts after the first. So is how long they slept.
//!
//! A query that lost its race is evaluated again, in the end with the graph locked. A web server is not asked again for that,
//! least of all while everybody waits: the rows it gave are given again. Where what was changed meanwhile asks for others, the
//! lock is let go, and they are fetched (`Committer::transact_fetching`).

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use weir_model::procedure::Each;
use weir_model::{Failure, Text, Value};

use super::limits::Budget;

/// Bytes that a query which begins anew keeps of what it has fetched, about; with more it fetches all of it again.
const KEPT_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub struct Fetched {
    /// The rows of calls, by procedure and arguments.
    calls: RefCell<FxHashMap<(Text, Vec<Value>), Rows>>,
    /// Bytes that these rows take, about.
    bytes: Cell<usize>,
    /// How long was slept, in all attempts, and how long this one would have. Not by call: one in a loop sleeps each time.
    slept: Cell<Duration>,
    asked: Cell<Duration>,
    closed: Cell<bool>,
}

#[derive(Clone, Default)]
struct Rows {
    rows: Arc<Vec<Vec<Value>>>,
    /// Whether there are no others.
    complete: bool,
}

impl Fetched {
    /// The query is evaluated from its beginning.
    pub fn begin(&self) {
        self.asked.set(Duration::ZERO);
    }

    /// From here on nothing is brought from outside any more.
    pub fn close(&self) {
        self.closed.set(true);
    }

    /// From here on what is wanted is brought from outside again.
    pub fn open(&self) {
        self.closed.set(false);
        if self.bytes.get() > KEPT_BYTES_MAX {
            self.calls.borrow_mut().clear();
            self.bytes.set(0);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Has `sleep` sleep as long as no attempt before has, of what this one asks for up to here.
    pub(super) fn sleep(
        &self,
        procedure: &Text,
        time: Duration,
        sleep: impl FnOnce(Duration) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let asked = self.asked.get().saturating_add(time);
        let left = asked.saturating_sub(self.slept.get());
        if left.is_zero() {
            self.asked.set(asked);
            return Ok(());
        }
        if self.closed.get() {
            return Err(Failure::would_fetch(procedure));
        }
        self.asked.set(asked);
        // Also one that is broken off, as by the end of its time: it would be each time.
        self.slept.set(asked);
        sleep(left)
    }

    /// The rows of a call: those that are kept, then, as far as they are wanted, those that `fetch` gives after them. One that
    /// goes by what is `at_hand` is asked in any case.
    pub(super) fn give(
        &self,
        budget: &Budget,
        (key, at_hand): ((Text, Vec<Value>), bool),
        each: Each,
        fetch: impl FnOnce(Each) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let known = self.calls.borrow().get(&key).cloned().unwrap_or_default();
        for row in known.rows.iter() {
            if each(row)?.is_break() {
                return Ok(());
            }
        }
        if known.complete {
            return Ok(());
        }
        if self.closed.get() && !at_hand {
            return Err(Failure::would_fetch(&key.0));
        }
        let mut rows = known.rows.to_vec();
        let (mut skip, mut complete) = (rows.len(), true);
        fetch(&mut |row| {
            if skip > 0 {
                skip -= 1;
                return Ok(std::ops::ControlFlow::Continue(()));
            }
            self.bytes.set(self.bytes.get().saturating_add(budget.hold(row)?));
            rows.push(row.to_vec());
            let flow = each(row)?;
            complete = flow.is_continue();
            Ok(flow)
        })?;
        self.calls.borrow_mut().insert(key, Rows { rows: Arc::new(rows), complete });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weir_model::expression::FailureKind;

    use super::super::limits::Limits;
    use super::*;

    /// The rows given when `wanted` are wanted, and whether anything was fetched for them.
    fn given(fetched: &Fetched, wanted: usize) -> Result<(Vec<i64>, bool), Failure> {
        given_by(fetched, wanted, false)
    }

    fn given_by(fetched: &Fetched, wanted: usize, at_hand: bool) -> Result<(Vec<i64>, bool), Failure> {
        let (limits, mut rows, mut is_asked) = (Limits::NONE, Vec::new(), false);
        let mut each = |row: &[Value]| {
            rows.extend(row.iter().filter_map(|value| if let Value::Integer(n) = value { Some(*n) } else { None }));
            Ok(if rows.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        let key = (Text::new("load"), vec![Value::text("x")]);
        fetched.give(&Budget::new(&limits), (key, at_hand), &mut each, |each| {
            is_asked = true;
            for n in 0..4 {
                if each(&[Value::Integer(n)])?.is_break() {
                    break;
                }
            }
            Ok(())
        })?;
        Ok((rows, is_asked))
    }

    #[test]
    fn what_was_fetched_is_given_again() {
        let fetched = Fetched::default();
        assert_eq!(given(&fetched, 2), Ok((vec![0, 1], true)));
        assert_eq!(given(&fetched, 2), Ok((vec![0, 1], false)));
        assert_eq!(given(&fetched, 9), Ok((vec![0, 1, 2, 3], true)));
        fetched.close();
        assert_eq!(given(&fetched, 9), Ok((vec![0, 1, 2, 3], false)));
    }

    #[test]
    fn nothing_more_is_fetched_once_it_is_closed() {
        let fetched = Fetched::default();
        given(&fetched, 2).expect("fetched");
        fetched.close();
        assert_eq!(given(&fetched, 2), Ok((vec![0, 1], false)));
        let failure = given(&fetched, 3).expect_err("there is no third");
        assert!(failure.kind == FailureKind::WouldFetch && failure.message.contains("run it again"), "{failure}");
        assert_eq!(given_by(&fetched, 3, true), Ok((vec![0, 1, 2], true)));
        assert!(given(&fetched, 4).is_err());
        fetched.open();
        assert_eq!(given(&fetched, 4), Ok((vec![0, 1, 2, 3], true)));
    }

    #[test]
    fn an_attempt_sleeps_what_none_before_it_has_slept() {
        let fetched = Fetched::default();
        let slept = |millis: u64| {
            let mut slept = 0;
            let sleep = |time: Duration| {
                slept = time.as_millis();
                Ok(())
            };
            let ended = fetched.sleep(&Text::new("util.sleep"), Duration::from_millis(millis), sleep);
            ended.map(|()| slept)
        };
        fetched.begin();
        // As often as it is asked for.
        assert_eq!([slept(5), slept(5), slept(0), slept(7)], [Ok(5), Ok(5), Ok(0), Ok(7)]);
        fetched.begin();
        assert_eq!([slept(5), slept(5)], [Ok(0), Ok(0)]);
        // One that was broken off counts, too.
        let broken = fetched.sleep(&Text::new("util.sleep"), Duration::from_millis(9), |_| Err(Failure::would_fetch("x")));
        assert!(broken.is_err());
        assert_eq!(slept(10), Ok(10));
        fetched.begin();
        fetched.close();
        assert_eq!([slept(5), slept(24)], [Ok(0), Ok(0)]);
        let failure = slept(1).expect_err("others wait");
        assert!(failure.kind == FailureKind::WouldFetch, "{failure}");
        fetched.open();
        fetched.begin();
        assert_eq!(slept(30), Ok(1));
    }

    #[test]
    fn what_takes_too_much_is_not_kept_for_another_round() {
        let fetched = Fetched::default();
        given(&fetched, 4).expect("fetched");
        let bytes = fetched.bytes.get();
        assert!(bytes > 0);
        fetched.open();
        assert_eq!((given(&fetched, 4), fetched.bytes.get()), (Ok((vec![0, 1, 2, 3], false)), bytes));
        fetched.bytes.set(KEPT_BYTES_MAX + 1);
        fetched.open();
        assert_eq!((given(&fetched, 4), fetched.bytes.get()), (Ok((vec![0, 1, 2, 3], true)), bytes));
    }
}
