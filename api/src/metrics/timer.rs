//! How long something takes, counted without a lock: percentiles from buckets whose bounds grow by an eighth.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_engine::Histogram;

use crate::meter::Meter;

/// Buckets between two powers of two.
const PARTS: usize = 8;
const BUCKETS: usize = 64 * PARTS;

pub struct Timer {
    /// By nanoseconds.
    buckets: Box<[AtomicU64]>,
    nanos: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
    meter: Meter,
}

impl Default for Timer {
    fn default() -> Timer {
        let zero = || AtomicU64::new(0);
        let buckets = (0..BUCKETS).map(|_| zero()).collect();
        Timer { buckets, nanos: zero(), least: AtomicU64::new(u64::MAX), most: zero(), meter: Meter::default() }
    }
}

impl Timer {
    pub fn took(&self, time: Duration) {
        let nanos = time.as_nanos().min(u128::from(u64::MAX)) as u64;
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.least.fetch_min(nanos, Ordering::Relaxed);
        self.most.fetch_max(nanos, Ordering::Relaxed);
        self.meter.mark(1);
    }

    pub fn count(&self) -> u64 {
        self.meter.count()
    }

    pub fn seconds(&self) -> f64 {
        self.nanos.load(Ordering::Relaxed) as f64 / 1e9
    }

    pub fn median_millis(&self) -> f64 {
        let counts = self.counts();
        self.percentile(&counts, 0.5)
    }

    pub fn to_json(&self, name: &str) -> Json {
        let counts = self.counts();
        let count = counts.iter().sum::<u64>();
        let least = if count == 0 { 0 } else { self.least.load(Ordering::Relaxed) };
        let mean = if count == 0 { 0.0 } else { self.seconds() * 1e3 / count as f64 };
        let most = self.most.load(Ordering::Relaxed) as f64 / 1e6;
        shown(name, (least as f64 / 1e6, mean, most), |share| self.percentile(&counts, share), self.meter.recent())
    }

    fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The percentile in milliseconds, at most what the longest took.
    fn percentile(&self, counts: &[u64], share: f64) -> f64 {
        let wanted = (counts.iter().sum::<u64>() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let most = self.most.load(Ordering::Relaxed) as f64;
        found.map_or(0.0, |index| upper(index).min(most) / 1e6)
    }
}

/// A histogram as a timer, of events that come `rate` times a second. The least of them is not known: shown is the end of the
/// first bucket with anything in it, or the mean where that is less.
pub fn of_histogram(name: &str, histogram: &Histogram, rate: f64) -> Json {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mean = histogram.seconds() * 1e3 / histogram.count().max(1) as f64;
    let at = |share| millis(histogram.percentile(share));
    shown(name, (at(0.0).min(mean), mean, millis(histogram.most())), at, rate)
}

/// As the reference shows timers: milliseconds, and events a second. `at` says within what time this share of them was.
fn shown(name: &str, (least, mean, most): (f64, f64, f64), at: impl Fn(f64) -> f64, rate: f64) -> Json {
    json!({
        "name": name,
        "min": least,
        "max": most,
        "median": at(0.5),
        "mean": mean,
        "q1": at(0.25),
        "q3": at(0.75),
        "oneMinuteRate": rate,
        "90": at(0.9),
        "99": at(0.99),
        "80": at(0.8),
        "20": at(0.2),
        "10": at(0.1),
    })
}

fn bucket(nanos: u64) -> usize {
    let power = nanos.max(1).ilog2() as usize;
    // The bits behind the first one.
    let bits = if power >= 3 { nanos >> (power - 3) } else { nanos << (3 - power) };
    let part = bits as usize & (PARTS - 1);
    power * PARTS + part
}

/// The end of a bucket, in nanoseconds.
fn upper(index: usize) -> f64 {
    let (power, part) = (index / PARTS, index % PARTS);
    2f64.powi(power as i32) * (1.0 + (part + 1) as f64 / PARTS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_an_eighth() {
        let timer = Timer::default();
        assert_eq!((timer.to_json("t")["min"].as_f64(), timer.to_json("t")["99"].as_f64()), (Some(0.0), Some(0.0)));
        for millis in 1..=100 {
            timer.took(Duration::from_millis(millis));
        }
        let shown = timer.to_json("t");
        for (name, expected) in [("10", 10.0), ("q1", 25.0), ("median", 50.0), ("90", 90.0), ("99", 99.0)] {
            let found = shown[name].as_f64().expect("a number");
            assert!((expected..=expected * 1.13).contains(&found), "{name} is {found}");
        }
        assert_eq!((shown["min"].as_f64(), shown["max"].as_f64(), timer.count()), (Some(1.0), Some(100.0), 100));
        assert!((shown["mean"].as_f64().expect("a number") - 50.5).abs() < 0.001);
    }

    #[test]
    fn a_histogram_of_nothing_is_a_timer_of_nothing() {
        let (shown, timer) = (of_histogram("t", &Histogram::default(), 0.0), Timer::default().to_json("t"));
        assert_eq!(shown, timer);
        assert_eq!((shown["min"].as_f64(), shown["mean"].as_f64(), shown["99"].as_f64()), (Some(0.0), Some(0.0), Some(0.0)));
    }

    #[test]
    fn every_time_has_a_bucket() {
        for nanos in [0, 1, 2, 7, 8, 9, 1000, u64::MAX / 2, u64::MAX] {
            assert!(upper(bucket(nanos)) >= nanos as f64, "{nanos}");
        }
    }

    #[test]
    fn the_longest_time_is_counted() {
        let timer = Timer::default();
        timer.took(Duration::MAX);
        assert!(timer.to_json("t")["median"].as_f64().is_some_and(|millis| millis > 1e12));
    }
}
