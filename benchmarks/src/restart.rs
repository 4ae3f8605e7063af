//! The pass `restart`: from opening a store with all events of `procs` in it to the first new match.
//!
//! Another process has filled the store (`fill`), and has ended: by a shutdown, or as if killed at once.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir_engine::{Ingester, Start};
use weir_model::Tick;

use crate::data::Processes;
use crate::measure::{Clock, Durations, Run, bytes_on_disk};
use crate::passes::Settings;
use crate::weir::{self, Counter, Scratch};

/// Events after the restart: enough that some make a match.
const NEW: u64 = 1_000;

/// Stores the events, takes all results, and ends.
pub fn fill(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(weir::open_store(settings.store, &settings.directory.join("store"))?, settings.workers)?;
    let graph = engine.default_graph();
    let counter = Counter::start(weir::install_chain(&graph, settings.mode, Start::Now)?, |_| ())?;
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    let mut next = 0;
    while next < settings.events {
        // In portions, so that not everything is in memory twice.
        let end = (next + 100_000).min(settings.events);
        for (mutations, records) in weir::batches(&graph, &settings.processes(), next..end, settings.batch)? {
            upper = graph.apply(mutations, records)?;
        }
        next = end;
    }
    let counted = counter.finish(upper)?;
    // The note of the last delivery follows at its own pace.
    std::thread::sleep(Duration::from_millis(200));
    let mut run = clock.stop("fill", settings.events)?;
    run.matches = Some(counted.matches);
    run.expected = Some(settings.processes().expected_chains(4));
    weir::end(&engine, settings.end)?;
    Ok(run)
}

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let scratch = Scratch::new(settings, "restart")?;
    let settings = &Settings { directory: scratch.path(), ..settings.clone() };
    weir::fill_apart(settings, "fill")?;
    let disk_bytes = bytes_on_disk(&settings.directory)?;
    reopen(settings, disk_bytes)
}

fn reopen(settings: &Settings, disk_bytes: u64) -> Result<Run, Box<dyn Error>> {
    let all = Processes { count: settings.events + NEW, ..settings.processes() };
    let expected = all.expected_chains(4) - settings.processes().expected_chains(4);
    let mut durations = Durations::new();
    let clock = Clock::start()?;
    let begun = Instant::now();
    let engine = weir::open(weir::open_store(settings.store, &settings.directory.join("store"))?, settings.workers)?;
    let opened = begun.elapsed();
    let graph = engine.default_graph();
    let query = weir::install_chain(&graph, settings.mode, Start::Resume)?;
    engine.start()?;
    let started = begun.elapsed();
    let first = Arc::new(OnceLock::new());
    let seen = first.clone();
    let counter = Counter::start(query, move |rows| {
        if !rows.is_empty() {
            seen.get_or_init(|| begun.elapsed());
        }
    })?;
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?);
    let mut line = Vec::new();
    let new: Vec<_> = (settings.events..all.count).map(|i| weir::record(&all, i, &mut line)).collect::<Result<_, _>>()?;
    let upper = ingester.ingest(&new, None)?.upper;
    let matches = counter.finish(upper)?.matches;
    first.get().into_iter().for_each(|elapsed| durations.record(*elapsed));
    let mut run = clock.stop("restart", settings.events)?;
    engine.shutdown()?;
    run.matches = Some(matches);
    run.expected = Some(expected);
    run.disk_bytes = disk_bytes;
    run.latency_us = durations.latency();
    let (opened, replayed) = (opened.as_secs_f64(), (started - opened).as_secs_f64());
    run.settings = format!(
        "store of {} events after {:?}, opening to first new match; opened in {opened:.2} s, installed and replayed in {replayed:.2} s, {} workers",
        settings.events, settings.end, settings.workers
    );
    Ok(run)
}

#[cfg(all(test, feature = "rocks-db"))]
mod tests {
    use super::*;
    use crate::passes::{StoreKind, test_settings};

    #[test]
    fn a_store_goes_on_where_it_was_left() {
        let settings = Settings { store: StoreKind::RocksDb, ..test_settings("restart", 2_000) };
        std::fs::create_dir_all(&settings.directory).expect("a directory");
        let filled = fill(&settings).expect("it is filled");
        assert!(filled.count_is_right(), "{filled:?}");
        let run = reopen(&settings, 0);
        std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
        let run = run.expect("it is opened");
        assert!(run.count_is_right() && run.matches > Some(900), "{run:?}");
    }
}
