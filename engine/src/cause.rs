//! Cause: which ticks the outputs of standing queries have written, and what each of them was brought about by.
//!
//!     tick ─ result ─ output writes ─> tick ─ result ─ output writes ─> …
//!
//! A commit that an output makes on a result notes its cause with its tick, so that the results of that tick know how many
//! outputs have written in a row before them. Records and queries of clients note nothing. Whoever hands out results asks for the
//! causes at once; only the newest are known.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use weir_model::Tick;
use weir_model::lock::lock;

/// At most this many writes of outputs are known, the newest. Results of a tick are handed out long before as many others have
/// written.
const KNOWN_MAX: usize = 1 << 18;

/// Why there is a tick.
#[derive(Debug)]
pub struct Cause {
    /// Outputs that have written, one because of the other, this one included.
    pub depth: u32,
    /// The standing queries of these, each once, in the order in which they wrote first.
    pub queries: Arc<[Arc<str>]>,
    /// How many writes of outputs come of the result that the first of them wrote for.
    family: Arc<AtomicU64>,
}

impl Cause {
    /// An output of the query writes because of a result; before it others have, unless a record or a client was the reason.
    pub fn new(query: Arc<str>, before: Option<&Cause>) -> Cause {
        let Some(before) = before else { return Cause { depth: 1, queries: Arc::new([query]), family: Arc::new(1.into()) } };
        let queries = match before.queries.contains(&query) {
            true => before.queries.clone(),
            false => before.queries.iter().cloned().chain([query]).collect(),
        };
        before.family.fetch_add(1, Ordering::Relaxed);
        Cause { depth: before.depth + 1, queries, family: before.family.clone() }
    }

    pub fn family(&self) -> u64 {
        self.family.load(Ordering::Relaxed)
    }
}

/// The causes of ticks of one graph.
#[derive(Default)]
pub struct Causes {
    /// Says without a lock whether there are any.
    any: AtomicBool,
    known: Mutex<VecDeque<(Tick, Arc<Cause>)>>,
}

impl Causes {
    /// To be called in the order of ticks, before anybody can hand out results of this one.
    pub fn note(&self, tick: Tick, cause: Arc<Cause>) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((tick, cause));
        self.any.store(true, Ordering::Release);
    }

    /// None where no output has written the tick.
    pub fn of(&self, tick: Tick) -> Option<Arc<Cause>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let known = self.lock();
        let place = known.binary_search_by_key(&tick, |(of, _)| *of).ok()?;
        Some(known[place].1.clone())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Tick, Arc<Cause>)>> {
        lock(&self.known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_known_by_tick_and_name_who_wrote() {
        let causes = Causes::default();
        assert!(causes.of(Tick(1)).is_none());
        let mut before: Option<Arc<Cause>> = None;
        for (tick, query) in [(3, "a"), (5, "b"), (8, "a"), (9, "b")] {
            let cause = Arc::new(Cause::new(query.into(), before.as_deref()));
            causes.note(Tick(tick), cause.clone());
            before = Some(cause);
        }
        let depth = |tick| causes.of(Tick(tick)).map(|cause| cause.depth);
        assert_eq!([2, 3, 4, 5, 8, 9, 10].map(depth), [None, Some(1), None, Some(2), Some(3), Some(4), None]);
        assert_eq!(before.map(|cause| cause.queries.join(" ")), Some("a b".to_owned()));
        for tick in 10..KNOWN_MAX as u64 + 10 {
            causes.note(Tick(tick), Arc::new(Cause::new("c".into(), None)));
        }
        assert_eq!((depth(9), depth(10)), (None, Some(1)));
    }
}
