//! Meters: how many, and how many a second over the last minute, five and fifteen.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_model::lock::lock;

/// How often the moving averages move.
const STEP: Duration = Duration::from_secs(5);
const MINUTES: [f64; 3] = [1.0, 5.0, 15.0];

pub struct Meter {
    /// Counted in an earlier life, of which no rate knows.
    before: u64,
    /// Since then.
    count: AtomicU64,
    began: Instant,
    averages: Mutex<Averages>,
}

struct Averages {
    stepped: Instant,
    counted: u64,
    rates: Option<[f64; 3]>,
    /// Set when the stream has ended: rates stay as they were.
    ended: Option<Instant>,
}

impl Default for Meter {
    fn default() -> Meter {
        let now = Instant::now();
        let averages = Mutex::new(Averages { stepped: now, counted: 0, rates: None, ended: None });
        Meter { before: 0, count: AtomicU64::new(0), began: now, averages }
    }
}

impl Meter {
    /// Goes on counting there.
    pub fn from(before: u64) -> Meter {
        Meter { before, ..Meter::default() }
    }

    pub fn mark(&self, count: u64) {
        // Before it is counted: the intervals that are over have nothing of it. Only one thread at a time needs to move the
        // averages; the others go on.
        if let Ok(mut averages) = self.averages.try_lock() {
            averages.step(self.counted());
        }
        self.count.fetch_add(count, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.before + self.counted()
    }

    fn counted(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Freezes the rates.
    pub fn end(&self) {
        let mut averages = lock(&self.averages);
        averages.step(self.counted());
        averages.ended.get_or_insert_with(Instant::now);
    }

    /// After an end: the time in between counts as one in which nothing came.
    pub fn go_on(&self) {
        lock(&self.averages).ended = None;
    }

    /// The last minute's rate; before the first five seconds are over, the overall one.
    pub fn recent(&self) -> f64 {
        let mut averages = lock(&self.averages);
        averages.step(self.counted());
        averages.rates.map_or_else(|| self.overall(averages.ended), |rates| rates[0])
    }

    fn overall(&self, ended: Option<Instant>) -> f64 {
        let seconds = ended.unwrap_or_else(Instant::now).duration_since(self.began).as_secs_f64();
        if seconds > 0.0 { self.counted() as f64 / seconds } else { 0.0 }
    }

    pub fn to_json(&self) -> Json {
        let mut averages = lock(&self.averages);
        averages.step(self.counted());
        let [one, five, fifteen] = averages.rates.unwrap_or_default();
        json!({
            "count": self.count(),
            "oneMinute": one,
            "fiveMinute": five,
            "fifteenMinute": fifteen,
            "overall": self.overall(averages.ended),
        })
    }
}

impl Averages {
    fn step(&mut self, count: u64) {
        if self.ended.is_some() {
            return;
        }
        while self.stepped.elapsed() >= STEP {
            let rate = (count - self.counted) as f64 / STEP.as_secs_f64();
            self.counted = count;
            self.stepped += STEP;
            self.rates = Some(match self.rates {
                None => [rate; 3],
                Some(rates) => {
                    let mut next = rates;
                    for (average, minutes) in next.iter_mut().zip(MINUTES) {
                        let weight = 1.0 - (-STEP.as_secs_f64() / 60.0 / minutes).exp();
                        *average += weight * (rate - *average);
                    }
                    next
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_and_freeze() {
        let meter = Meter::default();
        meter.mark(10);
        let shown = meter.to_json();
        assert_eq!((shown["count"].as_u64(), shown["oneMinute"].as_f64()), (Some(10), Some(0.0)));
        let mut averages = Averages { stepped: Instant::now() - STEP, counted: 0, rates: None, ended: None };
        averages.step(50);
        assert_eq!(averages.rates, Some([10.0; 3]));
        averages.stepped -= STEP;
        averages.step(50);
        let [one, five, fifteen] = averages.rates.expect("set");
        assert!(one < five && five < fifteen && fifteen < 10.0);
        meter.end();
        meter.mark(5);
        assert_eq!(meter.to_json()["count"], 15);
        let frozen = meter.to_json()["overall"].clone();
        assert_eq!(meter.to_json()["overall"], frozen);
        meter.go_on();
        assert_ne!(meter.to_json()["overall"], frozen);
        let again = Meter::from(15);
        again.mark(2);
        assert_eq!(again.count(), 17);
        assert!(again.overall(Some(again.began + Duration::from_secs(1))) == 2.0, "what was before is no rate");
    }

    #[test]
    fn what_comes_after_a_while_did_not_come_before_it() {
        let meter = Meter::default();
        lock(&meter.averages).stepped -= 4 * STEP;
        meter.mark(50);
        assert_eq!(meter.recent(), 0.0);
        lock(&meter.averages).stepped -= STEP;
        let newest = 10.0 * (1.0 - (-STEP.as_secs_f64() / 60.0).exp());
        assert!((meter.recent() - newest).abs() < 1e-9, "{} is not {newest}", meter.recent());
    }
}
