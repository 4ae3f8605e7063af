//! Sort: rows by the values of expressions, all of them or only the first.
//!
//! A query can end while it sorts: sorting stops every now and then to look whether it has to.

use std::cmp::Ordering;

use weir_model::plan::{Operator, SortKey};
use weir_model::{Expr, Failure, Value};

use super::limits::{Budget, weight_of};
use super::operators::{ENTRY_BYTES, Flow, GO_ON, Next, Run, STOP};

/// Rows that are sorted in one go.
const PIECE: usize = 1024;

/// Rows that are merged between two looks at the clock.
const STRETCH: usize = 256;

impl Run<'_> {
    pub(super) fn sort(&self, input: &Operator, keys: &[SortKey], limit: Option<&Expr>, row: &mut [Value], next: Next) -> Flow {
        // The operators above have looked at what it is made of. A sum of SKIP and LIMIT beyond all integers is none.
        let limit = limit.and_then(|limit| self.count(limit, "LIMIT", row).ok());
        // Each entry holds its sort keys and then its row. Sorting is stable: ties stay in the order they came.
        let mut entries: Vec<Vec<Value>> = Vec::new();
        let mut held = self.budget.held();
        let order = |x: &Vec<Value>, y: &Vec<Value>| {
            for (i, key) in keys.iter().enumerate() {
                let order = x[i].order(&y[i]);
                if order != Ordering::Equal {
                    return if key.descending { order.reverse() } else { order };
                }
            }
            Ordering::Equal
        };
        self.drain(input, row, &mut |row| {
            let mut entry = Vec::with_capacity(keys.len() + row.len());
            if let Err(failure) = self.push_values(keys.iter().map(|key| &key.expr), row, &mut entry) {
                return self.end_row(failure).map(drop);
            }
            entry.extend_from_slice(row);
            held.bytes(ENTRY_BYTES)?;
            held.row(&entry, entries.last().map_or(&[], Vec::as_slice))?;
            entries.push(entry);
            // A top-k lets go of the rest every now and then.
            if let Some(limit) = limit
                && entries.len() >= limit.saturating_mul(2).saturating_add(1024)
            {
                sort_stably(&mut entries, &order, self.budget)?;
                entries.truncate(limit);
                held.clear();
                for entry in &entries {
                    held.bytes(ENTRY_BYTES + weight_of(entry))?;
                }
            }
            Ok(())
        })?;
        sort_stably(&mut entries, &order, self.budget)?;
        entries.truncate(limit.unwrap_or(usize::MAX));
        for entry in &mut entries {
            if next(&mut entry[keys.len()..])?.is_break() {
                return STOP;
            }
        }
        GO_ON
    }
}

/// As `slice::sort_by`, which cannot be stopped midway: pieces are sorted, and merged two by two.
fn sort_stably<T: Default>(entries: &mut Vec<T>, order: &dyn Fn(&T, &T) -> Ordering, budget: &Budget) -> Result<(), Failure> {
    for piece in entries.chunks_mut(PIECE) {
        budget.steps(piece.len())?;
        piece.sort_by(order);
    }
    let mut merged: Vec<T> = Vec::with_capacity(if entries.len() > PIECE { entries.len() } else { 0 });
    let mut width = PIECE;
    while width < entries.len() {
        for pair in entries.chunks_mut(2 * width) {
            let (left, right) = pair.split_at_mut(width.min(pair.len()));
            merge(left, right, &mut merged, order, budget)?;
        }
        std::mem::swap(entries, &mut merged);
        merged.clear();
        width *= 2;
    }
    Ok(())
}

fn merge<T: Default>(
    left: &mut [T],
    right: &mut [T],
    merged: &mut Vec<T>,
    order: &dyn Fn(&T, &T) -> Ordering,
    budget: &Budget,
) -> Result<(), Failure> {
    let (mut x, mut y, mut since) = (0, 0, 0);
    while x < left.len() && y < right.len() {
        // Of equals those that came first.
        let next = if order(&left[x], &right[y]) == Ordering::Greater {
            y += 1;
            &mut right[y - 1]
        } else {
            x += 1;
            &mut left[x - 1]
        };
        merged.push(std::mem::take(next));
        since += 1;
        if since == STRETCH {
            budget.steps(STRETCH)?;
            since = 0;
        }
    }
    merged.extend(left[x..].iter_mut().chain(&mut right[y..]).map(std::mem::take));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use weir_model::expression::FailureKind;
    use weir_model::random::STEP;

    use super::super::Limits;
    use super::*;

    fn numbers(count: usize) -> Vec<(u64, usize)> {
        let key = |i: usize| (i as u64).wrapping_mul(STEP) >> 52;
        (0..count).map(|i| (key(i), i)).collect()
    }

    #[test]
    fn it_sorts_as_the_library_does() {
        let budget = Budget::new(&Limits::NONE);
        for count in [0, 1, 2, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7, 20_000] {
            let (mut ours, mut theirs) = (numbers(count), numbers(count));
            sort_stably(&mut ours, &|x, y| x.0.cmp(&y.0), &budget).expect("no limit");
            theirs.sort_by_key(|entry| entry.0);
            assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn it_ends_midway_when_nobody_waits_any_more() {
        let cancelled = AtomicBool::new(false);
        let limits = Limits { cancelled: Some(&cancelled), ..Limits::NONE };
        let (budget, compared) = (Budget::new(&limits), Cell::new(0));
        let order = |x: &(u64, usize), y: &(u64, usize)| {
            compared.set(compared.get() + 1);
            cancelled.store(compared.get() > 300_000, Relaxed);
            x.cmp(y)
        };
        let failure = sort_stably(&mut numbers(100_000), &order, &budget).expect_err("cancelled");
        assert_eq!(failure.kind, FailureKind::Interrupted);
        assert!(compared.get() < 400_000, "{} comparisons", compared.get());
    }
}
