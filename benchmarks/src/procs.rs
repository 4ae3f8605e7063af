//! The pass `procs`: the whole pipe, from a file of JSON to durable results of the chain of four, counted.
//!
//! One thread reads, parses and evaluates; the engine's own threads commit, log and maintain; one thread takes results.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;

use weir_engine::{Ingester, Start};

use crate::measure::{Clock, Run, bytes_on_disk, resident_bytes};
use crate::passes::{Settings, StoreKind};
use crate::weir::{self, Counter, Scratch};

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let file = BufReader::with_capacity(1 << 20, File::open(settings.events_file()?)?);
    let scratch = Scratch::new(settings, "procs")?;
    let memory_before = resident_bytes()?;
    let engine = weir::started(weir::open_store(settings.store, &scratch.path())?, settings.workers)?;
    let graph = engine.default_graph();
    let query = weir::install_chain(&graph, settings.mode, Start::Now)?;
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?);
    let counter = Counter::start(query, |_| ())?;

    let clock = Clock::start()?;
    let upper = weir::ingest_lines(file, &mut ingester, "procs", settings.batch)?;
    let counted = counter.finish(upper)?;
    graph.wait_durable(upper)?;
    let mut run = clock.stop("procs", settings.events)?;
    run.memory_per_event = Some(resident_bytes()?.saturating_sub(memory_before) as f64 / settings.events as f64);
    if settings.store == StoreKind::RocksDb {
        run.disk_bytes = bytes_on_disk(&scratch.path())?;
    }
    run.matches = Some(counted.matches);
    run.expected = Some(settings.processes().expected_chains(4));
    let Settings { store, mode, workers, batch, .. } = settings;
    run.settings =
        format!("file of JSON to counted results, {store:?}, {mode:?}, {workers} workers, batches of up to {batch} events");
    let facts: usize = graph.snapshot().shape().iter().flatten().sum();
    run.settings += &format!(", {:.1} facts an event", facts as f64 / settings.events as f64);
    engine.shutdown()?;
    if counted.cancellations > 0 {
        return Err(format!("{} cancellations, where nothing ends", counted.cancellations).into());
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::{Mode, test_settings};

    #[test]
    fn the_whole_pipe_counts_right() {
        for (workers, mode) in [(1, Mode::DistinctId), (2, Mode::MultipleValues)] {
            let settings = Settings { workers, mode, ..test_settings("procs", 3_000) };
            let run = run(&settings).expect("it runs");
            std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
            assert!(run.count_is_right() && run.matches > Some(2_000), "{run:?}");
        }
    }
}
