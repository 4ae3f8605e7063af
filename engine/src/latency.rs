//! Latency: how long it takes from a record to its results, measured where it happens.
//!
//!     record ─> commit ─┬─> durable ──┬─> delivered
//!                       └─> dataflow ─┘
//!
//! A clock is read once for a batch of records, a group of the log, a batch of results and what an output reports, never for a
//! record. So all results of one batch of records share its times, and the first record of a batch has waited for the last.
//! What happened too long ago is not remembered: results of the graph at rest, of a replay after a start, and of batches that
//! left the bounded memory of this page are not counted.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_model::Tick;
use weir_model::lock::lock;

/// Batches of records whose times are remembered.
const COMMITS_MAX: usize = 4096;

/// Batches of results that wait for their outputs, whose times are remembered for each query.
const UNDERWAY_MAX: usize = 1024;

/// A stretch of the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// From the moment the engine is given a batch of records (or a source hands it on) to its commit.
    Commit,
    /// From the commit until it survives the end of the process. Not of stores that keep nothing.
    Durable,
    /// From the commit until the result is found. Side by side with `Durable`.
    Dataflow,
    /// From the later of the two until an output has delivered it, for each output.
    Delivered,
    /// All of it, from the record to each output.
    Whole,
}

impl Stage {
    pub const ALL: [Stage; 5] = [Stage::Commit, Stage::Durable, Stage::Dataflow, Stage::Delivered, Stage::Whole];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Commit => "commit",
            Stage::Durable => "durable",
            Stage::Dataflow => "dataflow",
            Stage::Delivered => "delivered",
            Stage::Whole => "whole",
        }
    }
}

const BUCKETS: usize = 80;

/// The ends of the buckets in nanoseconds: ten a decade, from a microsecond to 80 seconds. What took longer is in one more.
const BOUNDS: [u64; BUCKETS] = {
    let steps = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
    let mut bounds = [0; BUCKETS];
    let (mut at, mut decade) = (0, 100);
    while at < BUCKETS {
        bounds[at] = steps[at % 10] * decade;
        at += 1;
        if at.is_multiple_of(10) {
            decade *= 10;
        }
    }
    bounds
};

/// Durations, counted without a lock.
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS + 1],
    nanos: AtomicU64,
    most: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let zero = |_| AtomicU64::new(0);
        Histogram { buckets: std::array::from_fn(zero), nanos: zero(0), most: zero(0) }
    }
}

impl Histogram {
    fn add(&self, time: Duration, count: u64) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.nanos.fetch_add(nanos.saturating_mul(count), Ordering::Relaxed);
        self.most.fetch_max(nanos, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// How many took no longer. Exact at the bounds of buckets.
    pub fn within(&self, time: Duration) -> u64 {
        let nanos = time.as_nanos();
        let whole = BOUNDS.iter().zip(&self.buckets).take_while(|(bound, _)| u128::from(**bound) <= nanos);
        whole.map(|(_, count)| count.load(Ordering::Relaxed)).sum()
    }

    pub fn seconds(&self) -> f64 {
        self.nanos.load(Ordering::Relaxed) as f64 / 1e9
    }

    pub fn most(&self) -> Duration {
        Duration::from_nanos(self.most.load(Ordering::Relaxed))
    }

    /// How long this share of them took at most: no less than the truth, and up to a third more.
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count.load(Ordering::Relaxed);
            seen >= wanted
        });
        let bound = bucket.and_then(|bucket| BOUNDS.get(bucket)).copied().unwrap_or(u64::MAX);
        Duration::from_nanos(bound).min(self.most())
    }
}

/// When a batch of records came and was committed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Committed {
    first: Tick,
    upper: Tick,
    received: Instant,
    at: Instant,
}

/// The commits of a graph, as far as they are remembered.
#[derive(Default)]
pub struct Commits(Mutex<VecDeque<Committed>>);

impl Commits {
    /// Called in the order of ticks.
    pub fn note(&self, first: Tick, upper: Tick, received: Option<Instant>) {
        let at = Instant::now();
        let mut commits = lock(&self.0);
        if commits.len() == COMMITS_MAX {
            commits.pop_front();
        }
        commits.push_back(Committed { first, upper, received: received.unwrap_or(at), at });
    }

    /// The first tick that was committed at or after this one. None where there is none, and where nothing is known of it, as of
    /// what was replayed.
    pub(crate) fn first_from(&self, tick: Tick) -> Option<Tick> {
        let commits = lock(&self.0);
        let place = commits.partition_point(|commit| commit.upper <= tick);
        let commit = commits.get(place)?;
        // What came before the first one that is remembered may be among them.
        let is_forgotten = place == 0 && commits.len() == COMMITS_MAX;
        Some(if is_forgotten { tick } else { commit.first.max(tick) })
    }

    /// Of results in the order of ticks: which commits they come from, and how many of each.
    fn of(&self, ticks: impl Iterator<Item = Tick>) -> Vec<(Committed, u64)> {
        let commits = lock(&self.0);
        let mut found: Vec<(Committed, u64)> = Vec::new();
        for tick in ticks {
            if let Some((last, count)) = found.last_mut()
                && last.first <= tick
                && tick < last.upper
            {
                *count += 1;
                continue;
            }
            let place = commits.partition_point(|commit| commit.upper <= tick);
            found.extend(commits.get(place).filter(|commit| commit.first <= tick).map(|commit| (*commit, 1)));
        }
        found
    }
}

/// How long the results of one standing query took.
#[derive(Default)]
pub struct Latency {
    stages: [Histogram; 5],
    underway: Mutex<VecDeque<Underway>>,
}

/// A batch of results that have been found, in the order of ticks.
pub(crate) struct Found<T> {
    pub ticks: T,
    pub upper: Tick,
    pub at: Instant,
}

/// Results on the way to the outputs.
struct Underway {
    upper: Tick,
    received: Instant,
    ready: Instant,
    count: u64,
}

impl Latency {
    pub fn of(&self, stage: Stage) -> &Histogram {
        &self.stages[stage as usize]
    }

    /// Results of a batch are durable: at `durable`, where the store keeps anything.
    pub(crate) fn ready(
        &self,
        results: Found<impl Iterator<Item = Tick>>,
        commits: &Commits,
        durable: impl Fn(Tick) -> Option<Instant>,
        has_outputs: bool,
    ) {
        let Found { ticks, upper, at: found } = results;
        for (commit, count) in commits.of(ticks) {
            let since = |end: Instant| end.saturating_duration_since(commit.at);
            self.of(Stage::Commit).add(commit.at.saturating_duration_since(commit.received), count);
            self.of(Stage::Dataflow).add(since(found), count);
            let durable = durable(commit.upper);
            if let Some(durable) = durable {
                self.of(Stage::Durable).add(since(durable), count);
            }
            let mut underway = lock(&self.underway);
            if has_outputs && underway.len() < UNDERWAY_MAX {
                let ready = durable.map_or(found, |durable| durable.max(found));
                underway.push_back(Underway { upper, received: commit.received, ready, count });
            }
        }
    }

    /// An output has delivered what comes before `upper`; of what comes before `from` it had said so. All have delivered what
    /// comes before `by_all`.
    pub(crate) fn delivered(&self, from: Tick, upper: Tick, by_all: Tick) {
        let mut underway = lock(&self.underway);
        if underway.is_empty() {
            return;
        }
        let now = Instant::now();
        for results in underway.iter().filter(|results| from < results.upper && results.upper <= upper) {
            self.of(Stage::Delivered).add(now.saturating_duration_since(results.ready), results.count);
            self.of(Stage::Whole).add(now.saturating_duration_since(results.received), results.count);
        }
        while underway.front().is_some_and(|results| results.upper <= by_all) {
            underway.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_no_less_than_the_truth_and_a_third_more_at_most() {
        let histogram = Histogram::default();
        assert_eq!((histogram.count(), histogram.percentile(0.5)), (0, Duration::ZERO));
        for millis in 1..=1000 {
            histogram.add(Duration::from_millis(millis), 1);
        }
        for (share, truth) in [(0.1, 100.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.percentile(share).as_secs_f64() * 1e3;
            assert!((truth..=truth * 1.34).contains(&found), "{share}: {found}");
        }
        assert_eq!(histogram.within(Duration::from_millis(250)), 250);
        assert_eq!((histogram.count(), histogram.most()), (1000, Duration::from_secs(1)));
        histogram.add(Duration::MAX, 1);
        assert_eq!(histogram.count(), 1001, "the longest is counted");
    }

    #[test]
    fn bounds_grow() {
        assert!(BOUNDS.windows(2).all(|two| two[0] < two[1]));
        assert_eq!((BOUNDS[0], BOUNDS[BUCKETS - 1]), (1_000, 80_000_000_000));
    }

    #[test]
    fn results_find_their_commit_and_each_output_is_counted_once() {
        let commits = Commits::default();
        commits.note(Tick(10), Tick(20), None);
        commits.note(Tick(30), Tick(31), None);
        let ticks = [5, 10, 19, 20, 30].map(Tick);
        let counts: Vec<u64> = commits.of(ticks.into_iter()).iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1], "ticks that no commit gave have none");
        let latency = Latency::default();
        let results = Found { ticks: ticks.into_iter(), upper: Tick(31), at: Instant::now() };
        latency.ready(results, &commits, |_| None, true);
        assert_eq!(Stage::ALL.map(|stage| latency.of(stage).count()), [3, 0, 3, 0, 0]);
        // One of two outputs, the other, and the first one again.
        latency.delivered(Tick::ZERO, Tick(31), Tick::ZERO);
        latency.delivered(Tick::ZERO, Tick(31), Tick(31));
        latency.delivered(Tick(31), Tick(40), Tick(31));
        assert_eq!(Stage::ALL.map(|stage| latency.of(stage).count()), [3, 0, 3, 6, 6]);
        assert!(lock(&latency.underway).is_empty());
    }

    #[test]
    fn what_is_not_answered_begins_with_the_first_commit_after_what_is() {
        let commits = Commits::default();
        assert_eq!(commits.first_from(Tick(5)), None);
        commits.note(Tick(10), Tick(20), None);
        commits.note(Tick(3000), Tick(3001), None);
        let firsts = [5, 10, 15, 20, 2999, 3000, 3001].map(|tick| commits.first_from(Tick(tick)).map(|tick| tick.0));
        assert_eq!(firsts, [Some(10), Some(10), Some(15), Some(3000), Some(3000), Some(3000), None]);
        (0..COMMITS_MAX as u64).for_each(|n| commits.note(Tick(4000 + n), Tick(4001 + n), None));
        assert_eq!(commits.first_from(Tick(3001)), Some(Tick(3001)), "it may be one that is forgotten");
        assert_eq!(commits.first_from(Tick(4001)), Some(Tick(4001)));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let commits = Commits::default();
        (0..3 * COMMITS_MAX as u64).for_each(|n| commits.note(Tick(n), Tick(n + 1), None));
        assert_eq!(lock(&commits.0).len(), COMMITS_MAX);
        assert!(commits.of(std::iter::once(Tick(0))).is_empty());
    }
}
