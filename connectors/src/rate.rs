//! The rate limit: a steady schedule, not bursts once a second, so that paced measurements mean something.

use std::time::{Duration, Instant};

/// A record is due every `interval`. Whoever is late may catch up, but only this much: a stream that stood still does not
/// make up for it with a flood.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);
/// Fast streams wake up this often and take a few records each time.
const NAP: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct RateLimiter {
    per_second: f64,
    /// When the next record is due.
    due: Option<Instant>,
}

impl RateLimiter {
    pub fn new(per_second: u32) -> RateLimiter {
        RateLimiter { per_second: f64::from(per_second.max(1)), due: None }
    }

    /// How many records may pass now, at least one; or how long to wait.
    pub fn permits(&mut self, now: Instant) -> Result<usize, Duration> {
        let earliest = now.checked_sub(CATCH_UP_MAX).unwrap_or(now);
        let due = self.due.map_or(now, |due| due.max(earliest));
        self.due = Some(due);
        match now.checked_duration_since(due) {
            Some(late) => Ok((late.as_secs_f64() * self.per_second) as usize + 1),
            None => Err((due - now).max(NAP)),
        }
    }

    /// Records have passed.
    pub fn spend(&mut self, records: usize, now: Instant) {
        let due = self.due.unwrap_or(now);
        self.due = Some(due + Duration::from_secs_f64(records as f64 / self.per_second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a consumer that comes back after each wait; returns the records that passed in the time.
    fn passed(per_second: u32, time: Duration) -> (usize, usize) {
        let mut limiter = RateLimiter::new(per_second);
        let start = Instant::now();
        let (mut now, mut total, mut largest) = (start, 0, 0);
        while now < start + time {
            match limiter.permits(now) {
                Ok(n) => {
                    limiter.spend(n, now);
                    total += n;
                    largest = largest.max(n);
                }
                Err(wait) => now += wait,
            }
        }
        (total, largest)
    }

    #[test]
    fn the_rate_holds_and_batches_are_small() {
        for per_second in [1, 7, 1_000, 100_000, 1_000_000] {
            let (total, largest) = passed(per_second, Duration::from_secs(10));
            let expected = f64::from(per_second) * 10.0;
            assert!((total as f64 - expected).abs() <= expected * 0.001 + 1.0, "{total} at {per_second}/s");
            assert!(largest as f64 <= f64::from(per_second) * 0.005 + 1.0, "{largest} at once at {per_second}/s");
        }
    }

    #[test]
    fn standing_still_is_not_made_up_for() {
        let mut limiter = RateLimiter::new(1_000);
        let start = Instant::now();
        assert_eq!(limiter.permits(start), Ok(1));
        limiter.spend(1, start);
        let permits = limiter.permits(start + Duration::from_secs(60)).unwrap();
        assert!((100..=101).contains(&permits), "{permits}");
    }
}
