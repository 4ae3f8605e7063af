//! Side by side: what takes long for each of many items is done by several threads, and comes back in the order of the items.
//!
//!     items ─ one after another, as long as they are quick or few ─> out
//!               └ the rest, in parts, to the thread that asks and to helpers ─> out, by part
//!
//! Whether helpers pay is measured: to start one costs some ten microseconds, and those that share memory get into each
//! other's way where there is next to nothing to do. It does not know what is done.

use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// An item that takes less is quicker done than given to another thread.
const ITEM_MIN: Duration = Duration::from_micros(50);

/// With less than this left to do, no helper is asked.
const LEFT_MIN: Duration = Duration::from_millis(2);

/// After this long it is known what the items of a batch take. Until then, what those of the last batch took counts.
const TRIAL: Duration = Duration::from_millis(1);

/// The clock is read at each of the first items, then at one in this many: that is cheap, and not free.
const LOOK: usize = 16;

/// Parts for each thread, so that one which got the slow ones is not waited for long.
const PARTS: usize = 8;

/// More threads than cores would only take turns.
static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// Threads that help at the moment, with whatever: thousands of outputs do not have more than there are cores.
static HELPING: AtomicUsize = AtomicUsize::new(0);

/// Why an item is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Halt {
    /// Nothing more is wanted.
    Stopped,
    /// It would have to be waited for. Helpers do not wait, so that they are there for others: the thread that asks does.
    Waits,
}

/// How one kind of items is done.
pub struct SideBySide {
    whose: String,
    /// At most, with the one that asks.
    threads: usize,
    /// What an item took in the last batch.
    cost: Duration,
}

impl SideBySide {
    /// `whose` names the helpers.
    pub fn new(whose: &str, threads_max: usize) -> SideBySide {
        SideBySide { whose: whose.to_owned(), threads: threads_max.min(*CORES), cost: Duration::ZERO }
    }

    /// Whether items take so long that many at a time are welcome.
    pub fn wants_many(&self) -> bool {
        self.threads > 1 && self.cost >= ITEM_MIN
    }

    /// Does each of the items with `one`, which adds to what it is given, or leaves that as it was and says why; it is told
    /// whether it may wait. Put one behind the other, what is given back is what one thread would have made of the items.
    /// None: stopped before.
    pub fn each<T: Sync, O: Default + Send>(
        &mut self,
        items: &[T],
        one: impl Fn(&T, &mut O, bool) -> Result<(), Halt> + Sync,
    ) -> Option<Vec<O>> {
        let begun = Instant::now();
        let mut first = O::default();
        for (done, item) in items.iter().enumerate() {
            let left = items.len() - done;
            if self.pays(begun, done, left)
                && let Some(helpers) = Helpers::call((self.threads - 1).min(left - 1))
            {
                let alone = begun.elapsed();
                let (parts, beside) = self.spread(&items[done..], &helpers, &one)?;
                self.learn(alone + beside, items.len());
                return Some(std::iter::once(first).chain(parts).collect());
            }
            one(item, &mut first, true).ok()?;
        }
        self.learn(begun.elapsed(), items.len());
        Some(vec![first])
    }

    fn pays(&self, begun: Instant, done: usize, left: usize) -> bool {
        if self.threads < 2 || left < 2 || (done >= LOOK && !done.is_multiple_of(LOOK)) {
            return false;
        }
        let spent = begun.elapsed();
        let cost = if done > 0 && spent >= TRIAL { divided(spent, done) } else { self.cost };
        cost >= ITEM_MIN && cost.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)) >= LEFT_MIN
    }

    fn learn(&mut self, spent: Duration, items: usize) {
        if items > 0 {
            self.cost = divided(spent, items);
        }
    }

    /// What the parts come to, in their order, and how long all threads were at it together.
    fn spread<T: Sync, O: Default + Send>(
        &self,
        items: &[T],
        helpers: &Helpers,
        one: &(impl Fn(&T, &mut O, bool) -> Result<(), Halt> + Sync),
    ) -> Option<(Vec<O>, Duration)> {
        let parts: Vec<&[T]> = items.chunks(items.len().div_ceil(PARTS * (helpers.0 + 1))).collect();
        let (next, stopped, nanos) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
        let work = |may_wait: bool| {
            let begun = Instant::now();
            let mut taken = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(left) = parts.get(index).copied() else { break };
                let mut part = Part { index, out: O::default(), left };
                if part.go_on(one, may_wait) == Err(Halt::Stopped) {
                    stopped.store(true, Ordering::Relaxed);
                }
                taken.push(part);
            }
            nanos.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            taken
        };
        let mut taken = thread::scope(|scope| {
            // Where there is no thread to be had, the others do its parts.
            let start = |_| weir_connectors::thread::named("query", &self.whose).spawn_scoped(scope, || work(false)).ok();
            let started: Vec<_> = (0..helpers.0).filter_map(start).collect();
            let mut taken = work(true);
            started.into_iter().for_each(|helper| match helper.join() {
                Ok(parts) => taken.extend(parts),
                Err(bug) => resume_unwind(bug),
            });
            taken
        });
        taken.sort_unstable_by_key(|part| part.index);
        if stopped.into_inner() {
            return None;
        }
        for part in &mut taken {
            part.go_on(one, true).ok()?;
        }
        Some((taken.into_iter().map(|part| part.out).collect(), Duration::from_nanos(nanos.into_inner())))
    }
}

fn divided(spent: Duration, items: usize) -> Duration {
    spent / u32::try_from(items).unwrap_or(u32::MAX).max(1)
}

/// Some items that lie behind each other.
struct Part<'i, T, O> {
    index: usize,
    out: O,
    /// The items that are not done.
    left: &'i [T],
}

impl<T, O> Part<'_, T, O> {
    fn go_on(&mut self, one: &impl Fn(&T, &mut O, bool) -> Result<(), Halt>, may_wait: bool) -> Result<(), Halt> {
        while let Some((item, left)) = self.left.split_first() {
            one(item, &mut self.out, may_wait)?;
            self.left = left;
        }
        Ok(())
    }
}

/// This many threads may help, until it is dropped.
struct Helpers(usize);

impl Helpers {
    fn call(most: usize) -> Option<Helpers> {
        let mut called = 0;
        let call = |helping: usize| {
            called = most.min((*CORES - 1).saturating_sub(helping));
            Some(helping + called)
        };
        HELPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, call).ok()?;
        (called > 0).then_some(Helpers(called))
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        HELPING.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;

    fn slow(item: &u64, out: &mut Vec<u64>, _: bool) -> Result<(), Halt> {
        thread::sleep(Duration::from_micros(200));
        out.push(*item);
        Ok(())
    }

    fn numbers(count: u64) -> Vec<u64> {
        (0..count).collect()
    }

    #[test]
    fn slow_items_are_done_by_several_and_come_in_their_order() {
        if *CORES == 1 {
            return;
        }
        let mut beside = SideBySide::new("test", 16);
        let threads = Mutex::new(HashSet::new());
        // Other tests of this process may have called all helpers for a moment.
        for _ in 0..100 {
            let done = beside.each(&numbers(100), |item, out: &mut Vec<u64>, may_wait| {
                threads.lock().unwrap().insert(thread::current().id());
                slow(item, out, may_wait)
            });
            assert_eq!(done.unwrap().concat(), numbers(100));
            if threads.lock().unwrap().len() > 1 {
                return assert!(beside.wants_many());
            }
        }
        panic!("one thread did all of it");
    }

    #[test]
    fn what_is_quick_or_alone_or_shall_be_is_done_by_the_one_that_asks() {
        // On a busy machine a quick item may seem slow.
        let quick = (0..100).any(|_| {
            let done = SideBySide::new("test", 16).each(&numbers(50_000), |item, out: &mut Vec<u64>, _| {
                out.push(*item);
                Ok(())
            });
            let parts = done.unwrap();
            assert_eq!(parts.concat(), numbers(50_000));
            parts.len() == 1
        });
        assert!(quick);
        for (items, threads) in [(30, 1), (1, 16)] {
            let parts = SideBySide::new("test", threads).each(&numbers(items), slow).unwrap();
            assert_eq!(parts, [numbers(items)]);
        }
    }

    #[test]
    fn helpers_leave_what_has_to_be_waited_for() {
        let mut beside = SideBySide::new("test", 16);
        for _ in 0..20 {
            let done = beside.each(&numbers(64), |item, out: &mut Vec<u64>, may_wait| {
                if item.is_multiple_of(7) && !may_wait {
                    return Err(Halt::Waits);
                }
                slow(item, out, may_wait)
            });
            assert_eq!(done.unwrap().concat(), numbers(64));
        }
    }

    #[test]
    fn nothing_is_given_back_where_it_is_stopped() {
        let mut beside = SideBySide::new("test", 16);
        for at in [0, 40, 63] {
            let done = beside.each(
                &numbers(64),
                |item, out: &mut Vec<u64>, may_wait| {
                    if *item == at { Err(Halt::Stopped) } else { slow(item, out, may_wait) }
                },
            );
            assert!(done.is_none());
        }
    }
}
