//! Fetched: what procedures brought from outside of the graph, kept for the attempts after the first.
//!
//! A query that lost its race is evaluated again, in the end with the graph locked. A web server is not asked again for that,
//! least of all while everybody waits: the rows it gave are given again.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use weir_model::expression::FailureKind;
use weir_model::procedure::Each;
use weir_model::{Failure, Text, Value};

use super::limits::Budget;

#[derive(Default)]
pub struct Fetched {
    /// By procedure and arguments.
    calls: RefCell<FxHashMap<(Text, Vec<Value>), Rows>>,
    closed: Cell<bool>,
}

#[derive(Clone, Default)]
struct Rows {
    rows: Arc<Vec<Vec<Value>>>,
    /// There are no others.
    complete: bool,
}

impl Fetched {
    /// From here on nothing is brought from outside any more.
    pub fn close(&self) {
        self.closed.set(true);
    }

    /// The rows of a call: those that are kept, then, as far as they are wanted, those that `fetch` gives after them.
    pub(super) fn give(
        &self,
        budget: &Budget,
        key: (Text, Vec<Value>),
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
        if self.closed.get() {
            let message = format!(
                "{} would have to be asked for more while the graph is locked, since others keep changing what this query \
                 reads; run it again",
                key.0
            );
            return Err(Failure::new(FailureKind::Runtime, message));
        }
        let mut rows = known.rows.to_vec();
        let (mut skip, mut complete) = (rows.len(), true);
        fetch(&mut |row| {
            if skip > 0 {
                skip -= 1;
                return Ok(std::ops::ControlFlow::Continue(()));
            }
            budget.hold(row)?;
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

    use super::super::limits::Limits;
    use super::*;

    /// The rows given when so many are wanted, and whether anything was fetched for them.
    fn given(fetched: &Fetched, wanted: usize) -> Result<(Vec<i64>, bool), Failure> {
        let (limits, mut rows, mut is_asked) = (Limits::NONE, Vec::new(), false);
        let mut each = |row: &[Value]| {
            rows.extend(row.iter().filter_map(|value| if let Value::Integer(n) = value { Some(*n) } else { None }));
            Ok(if rows.len() == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        fetched.give(&Budget::new(&limits), (Text::new("load"), vec![Value::text("x")]), &mut each, |each| {
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
        assert!(failure.message.contains("run it again"), "{failure}");
    }
}
