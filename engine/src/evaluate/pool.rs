//! What all queries hold that run at a time: one count, from which each takes a share as it grows.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_model::Failure;
use weir_model::expression::FailureKind;

/// A query takes this much at a time, so that queries do not count together for every row.
const STEP_BYTES: usize = 256 << 10;

/// A query that holds less than this is not counted: most never touch the pool.
const FREE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct Pool {
    bytes_max: usize,
    taken: AtomicUsize,
}

impl Pool {
    pub fn new(bytes_max: usize) -> Pool {
        Pool { bytes_max, taken: AtomicUsize::new(0) }
    }

    /// What queries hold now, rounded up for each.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |taken: usize| taken.checked_add(bytes).filter(|total| *total <= self.bytes_max);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one query has taken. It goes back when the query ends.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    pool: Option<&'a Pool>,
    taken: Cell<usize>,
}

impl<'a> Share<'a> {
    pub fn of(pool: Option<&'a Pool>) -> Share<'a> {
        Share { pool, taken: Cell::new(0) }
    }

    /// The query is going to hold `bytes` in all. Fails where others have taken what it would need.
    pub fn cover(&self, bytes: usize) -> Result<(), Failure> {
        let (Some(pool), taken) = (self.pool, self.taken.get()) else { return Ok(()) };
        if bytes <= taken || bytes <= FREE_BYTES {
            return Ok(());
        }
        let more = (bytes - taken).div_ceil(STEP_BYTES).saturating_mul(STEP_BYTES);
        if !pool.take(more) {
            let message = format!(
                "All queries that run hold {} bytes together, and there is no room for more of this one; try again later, or narrow its pattern",
                pool.taken()
            );
            return Err(Failure::new(FailureKind::SharedMemoryLimit, message));
        }
        self.taken.set(taken + more);
        Ok(())
    }

    /// The query holds only `bytes` from now on.
    pub fn shrink(&self, bytes: usize) {
        let taken = self.taken.get();
        // Some is kept: what shrinks mostly grows again.
        let kept = bytes.div_ceil(STEP_BYTES).saturating_add(1).saturating_mul(STEP_BYTES);
        if let Some(pool) = self.pool.filter(|_| taken > kept + STEP_BYTES) {
            pool.give_back(taken - kept);
            self.taken.set(kept);
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool {
            pool.give_back(self.taken.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_share_what_there_is_and_give_it_back() {
        let pool = Pool::new(4 * STEP_BYTES);
        let (first, second) = (Share::of(Some(&pool)), Share::of(Some(&pool)));
        first.cover(FREE_BYTES).expect("is not counted");
        assert_eq!(pool.taken(), 0);
        first.cover(3 * STEP_BYTES - 1).expect("fits");
        second.cover(STEP_BYTES).expect("fits");
        assert_eq!(pool.taken(), 4 * STEP_BYTES);
        assert_eq!(second.cover(STEP_BYTES + 1).expect_err("full").kind, FailureKind::SharedMemoryLimit);
        first.shrink(0);
        assert_eq!(pool.taken(), 2 * STEP_BYTES);
        second.cover(2 * STEP_BYTES).expect("there is room again");
        drop((first, second));
        assert_eq!(pool.taken(), 0);
        Share::of(None).cover(usize::MAX).expect("nobody counts");
    }
}
