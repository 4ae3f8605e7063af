//! How long a record takes: `latency`, paced below what the pipe can do and durable; `idle`, one change at a time, in memory.
//!
//! Paced records have a moment when they are due, whether or not the pipe is ready for them, and are timed from there: a
//! pipe that stalls is charged for every record it kept waiting.

use std::error::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_engine::render::results::ResultRow;
use weir_engine::{Ingester, Latency as Stages, Stage, Start, wait_for_more};
use weir_model::{Tick, Value, json};

use crate::measure::{Clock, Durations, Latency, Run};
use crate::passes::Settings;
use crate::procs;
use crate::weir::{self, Counter, Scratch};

/// The clock of the system wakes a sleeper about this late; nothing is gained by sleeping less.
const SLEEP_MIN: Duration = Duration::from_micros(50);

/// Paced records flow this long, or until `--events` of them have come.
const SECONDS: f64 = 10.0;

/// Records handed over at a fraction of the rate reached, until their durable results are received.
pub fn paced(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let rate = match settings.rate {
        Some(rate) => rate,
        None => procs::run(settings)?.rate() * settings.load,
    };
    let processes = settings.processes();
    let events = settings.events.min((rate * SECONDS) as u64).max(1);
    let mut lines = Vec::new();
    let ends: Vec<usize> = (0..events)
        .map(|i| {
            processes.write_line(i, &mut lines);
            lines.len()
        })
        .collect();

    let scratch = Scratch::new(settings, "latency")?;
    let engine = weir::started(weir::open_store(settings.store, &scratch.path())?, settings.workers)?;
    let graph = engine.default_graph();
    let query = Arc::new(weir::install_chain(&graph, settings.mode, Start::Now)?);
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?);
    let arrivals = Arrivals::expecting(settings.events);
    let counter = Counter::start(query.clone(), arrivals.noted())?;

    let clock = Clock::start()?;
    let mut records: Vec<Value> = Vec::new();
    let pace = Pace::keep(rate, events, settings.batch, |range| {
        let received = Instant::now();
        records.clear();
        for i in range {
            let start = if i == 0 { 0 } else { ends[i as usize - 1] };
            records.push(json::parse(&lines[start..ends[i as usize]])?);
        }
        let upper = ingester.ingest(&records, None)?.upper;
        // As streams do.
        wait_for_more(records.len(), received);
        Ok(upper)
    })?;
    let counted = counter.finish(pace.upper)?;
    let mut run = clock.stop("latency", events)?;
    engine.shutdown()?;

    run.latency_us = pace.latency(&arrivals);
    run.matches = Some(counted.matches);
    run.expected = Some(crate::data::Processes { count: events, ..processes }.expected_chains(4));
    run.settings = format!(
        "paced at {rate:.0} events/s, record due to durable result received, {:?}, {:?}, {} workers, {:.1} events a batch; {}",
        settings.store,
        settings.mode,
        settings.workers,
        pace.average(),
        of_stages(query.latency())
    );
    Ok(run)
}

/// Where the time of the slowest went: the p99 of each stage.
fn of_stages(latency: &Stages) -> String {
    let of = |stage: Stage| format!("{} {:.1} ms", stage.name(), latency.of(stage).percentile(0.99).as_secs_f64() * 1e3);
    format!("p99 of the stages: {}", Stage::ALL.map(of).join(", "))
}

/// When the results of each tick were received; which event a tick belongs to is known later.
#[derive(Clone)]
pub struct Arrivals(Arc<Mutex<Vec<(Tick, Instant)>>>);

impl Arrivals {
    /// With room for `count` results, so that none of them waits for more.
    pub fn expecting(count: u64) -> Arrivals {
        Arrivals(Arc::new(Mutex::new(Vec::with_capacity(count as usize))))
    }

    /// What a `Counter` calls.
    pub fn noted(&self) -> impl FnMut(&[ResultRow]) + Send + use<> {
        let arrivals = self.0.clone();
        move |rows| {
            let now = Instant::now();
            let mut arrivals = arrivals.lock().unwrap_or_else(|e| e.into_inner());
            arrivals.extend(rows.iter().map(|row| (row.tick, now)));
        }
    }
}

/// Events that were handed over as they were due.
pub struct Pace {
    begun: Instant,
    rate: f64,
    events: u64,
    /// The tick of the first event of each batch, and its number.
    batches: Vec<(Tick, u64)>,
    /// The tick after the last event.
    pub upper: Tick,
}

impl Pace {
    /// Hands over all events that are due, at most `batch` at once; `hand_over` gives the tick after them.
    pub fn keep(
        rate: f64,
        events: u64,
        batch: u64,
        mut hand_over: impl FnMut(Range<u64>) -> Result<Tick, Box<dyn Error>>,
    ) -> Result<Pace, Box<dyn Error>> {
        let mut pace = Pace { begun: Instant::now(), rate, events, batches: Vec::new(), upper: Tick::ZERO };
        let mut next = 0;
        while next < events {
            let now = Instant::now();
            let first = next;
            while next < events && pace.due(next) <= now && next - first < batch {
                next += 1;
            }
            if next == first {
                std::thread::sleep(pace.due(next).saturating_duration_since(now).max(SLEEP_MIN));
                continue;
            }
            pace.upper = hand_over(first..next)?;
            pace.batches.push((Tick(pace.upper.0 - (next - first)), first));
        }
        Ok(pace)
    }

    fn due(&self, event: u64) -> Instant {
        self.begun + Duration::from_secs_f64(event as f64 / self.rate)
    }

    /// From when an event was due until each of its results was received.
    pub fn latency(&self, arrivals: &Arrivals) -> Option<Latency> {
        let mut durations = Durations::new();
        for (tick, at) in arrivals.0.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            let (first_tick, first) = self.batches[self.batches.partition_point(|(first, _)| first <= tick) - 1];
            durations.record(at.saturating_duration_since(self.due(first + tick.0 - first_tick.0)));
        }
        durations.latency()
    }

    /// Events a batch.
    pub fn average(&self) -> f64 {
        self.events as f64 / self.batches.len() as f64
    }
}

/// Changes timed on an idle engine.
const CHANGES: u64 = 5_000;

/// A pause before each, so that every thread has gone to sleep.
const PAUSE: Duration = Duration::from_micros(500);

/// One change on an engine where nothing else happens, in memory, until its match is received.
pub fn idle(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::filled(settings)?;
    let graph = engine.default_graph();
    let processes = settings.processes();
    let query = weir::install_chain(&graph, settings.mode, Start::Now)?;
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?);
    let patience = Duration::from_secs(60);
    // The graph at rest is looked through first; that is not what is measured.
    let mut line = Vec::new();
    let mut matches = 0;
    let mut durations = Durations::new();
    let clock = Clock::start()?;
    for i in settings.events..settings.events + CHANGES {
        let record = [weir::record(&processes, i, &mut line)?];
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        let upper = ingester.ingest(&record, None)?.upper;
        loop {
            let batch = query.next(patience)?.ok_or("no result within a minute")?;
            if !batch.rows.is_empty() {
                matches += batch.rows.len() as u64;
                // Not the first ones, which wait for the rest to be looked through.
                if i >= settings.events + CHANGES / 10 {
                    durations.record(begun.elapsed());
                }
            }
            if batch.upper >= upper {
                break;
            }
        }
    }
    let mut run = clock.stop("idle", CHANGES)?;
    engine.shutdown()?;
    let chains = |count| crate::data::Processes { count, ..processes }.expected_chains(4);
    run.matches = Some(matches);
    run.expected = Some(chains(settings.events + CHANGES) - chains(settings.events));
    run.latency_us = durations.latency();
    run.settings = format!(
        "one event at a time {} µs after the one before, in memory, {} workers, {} events there already, handed over to result received",
        PAUSE.as_micros(),
        settings.workers,
        settings.events
    );
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_record_is_timed_once() {
        let settings = Settings { rate: Some(5_000.0), ..test_settings("latency", 2_000) };
        let run = paced(&settings).expect("it runs");
        std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
        assert!(run.count_is_right() && run.seconds >= 0.39, "{run:?}");
        let latency = run.latency_us.expect("there were results");
        assert!(latency.p50 > 1.0 && latency.p50 <= latency.max, "{run:?}");
    }

    #[test]
    fn an_idle_engine_answers_every_change() {
        let run = idle(&test_settings("idle", 1_000)).expect("it runs");
        assert!(run.count_is_right() && run.matches > Some(4_000), "{run:?}");
    }
}
