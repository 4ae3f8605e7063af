//! Single stages of the pipe, for the budget line by line: `evaluate`, `log`, `commit`, `dataflow`. And `numbers`, the
//! least a record costs.
//!
//! What goes into a stage is made before the clock starts, so a run is charged for that stage alone, except in peak memory.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::evaluate::Evaluator;
use weir_engine::log::{Log, LogOptions};
use weir_engine::store::{Entry, InMemory};
use weir_engine::symbols::Symbols;
use weir_engine::{Ingester, Start};
use weir_model::random::STEP;
use weir_model::{Mutations, NodeId, Tick, Value};

use crate::measure::{Clock, Run, bytes_on_disk, resident_bytes};
use crate::passes::{Settings, StoreKind};
use crate::weir::{self, Counter, Scratch};

/// At most this many records are made once and evaluated again and again: more than any cache holds.
const RECORDS_KEPT: u64 = 100_000;

/// How long the log is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records to mutations.
pub fn evaluate(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), 1)?;
    let graph = engine.default_graph();
    let prepared = weir::prepare(&graph, weir::INGEST)?;
    let mut line = Vec::new();
    let kept = settings.events.min(RECORDS_KEPT);
    let records: Vec<Value> = (0..kept).map(|i| weir::record(&settings.processes(), i, &mut line)).collect::<Result<_, _>>()?;
    let clock = Clock::start()?;
    let (mut events, mut rows) = (0u64, 0u64);
    while events < settings.events {
        for batch in records.chunks(settings.batch as usize) {
            // As an Ingester does it: everything anew for each batch.
            let mut evaluator = Evaluator::new(&prepared, graph.symbols());
            let mut mutations = Mutations::default();
            mutations.rows.reserve(batch.len() * 16);
            weir::evaluate(&graph, &mut evaluator, batch, &mut mutations)?;
            rows += mutations.rows.len() as u64;
            events += batch.len() as u64;
        }
    }
    let mut run = clock.stop("evaluate", events)?;
    run.settings =
        format!("values to mutations, {} events a batch, {:.1} rows an event", settings.batch, rows as f64 / events as f64);
    Ok(run)
}

/// Mutations to durable entries, with no graph behind.
pub fn log(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), 1)?;
    let batches = weir::batches(&engine.default_graph(), &settings.processes(), 0..settings.events, settings.batch)?;
    let scratch = Scratch::new(settings, "log")?;
    let store = weir::open_store(settings.store, &scratch.path())?;
    let graph = store.create_graph("log", b"")?;
    let log = Log::start(store, Arc::new(Symbols::default()), LogOptions::default());
    let mut next = Tick(1);
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        let upper = Tick(next.0 + records as u64);
        let mutations = Arc::new(mutations);
        let entry = Entry { graph, first: next, upper, mutations, sources: Vec::new(), delivered: Vec::new() };
        log.room(&entry, PATIENCE)?.submit(Arc::new(entry))?;
        next = upper;
    }
    log.wait_durable(graph, next, PATIENCE)?;
    let mut run = clock.stop("log", settings.events)?;
    if settings.store == StoreKind::RocksDb {
        run.disk_bytes = bytes_on_disk(&scratch.path())?;
    }
    run.settings = format!("mutations to durable entries, {:?}, {} events an entry", settings.store, settings.batch);
    log.shutdown()?;
    Ok(run)
}

/// Mutations to the graph: look up, build, merge.
pub fn commit(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    maintain(settings, "commit", false)
}

/// Mutations to counted results: what `commit` does, and the standing chain of four.
pub fn dataflow(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    maintain(settings, "dataflow", true)
}

fn maintain(settings: &Settings, name: &str, standing: bool) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let batches = weir::batches(&graph, &settings.processes(), 0..settings.events, settings.batch)?;
    let query = standing.then(|| weir::install_chain(&graph, settings.mode, Start::Now)).transpose()?;
    let counter = query.map(|query| Counter::start(query, |_| ())).transpose()?;
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        upper = graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    let counted = counter.map(|counter| counter.finish(upper)).transpose()?;
    let mut run = clock.stop(name, settings.events)?;
    if let Some(counted) = counted {
        run.matches = Some(counted.matches);
        run.expected = Some(settings.processes().expected_chains(4));
    }
    let Settings { workers, batch, .. } = settings;
    run.settings = format!(
        "mutations to {}, in memory, {workers} workers, {batch} events a batch",
        match standing {
            true => format!("counted results, {:?}", settings.mode),
            false => "the graph".to_owned(),
        }
    );
    engine.shutdown()?;
    Ok(run)
}

/// Ten groups of floats, of which one changes with each record.
pub fn sums(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let text = "MATCH (n:Thing) RETURN n.group AS group, sum(n.value) AS sum, avg(n.value) AS mean";
    above_patterns(settings, "stage-sums", text)
}

/// Ten rows from the middle of all in order, of which one changes with each record.
pub fn window(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let skip = settings.events / 2;
    above_patterns(
        settings,
        "stage-window",
        &format!("MATCH (n:Thing) RETURN n.value AS value ORDER BY value SKIP {skip} LIMIT 10"),
    )
}

/// Records that change something, `--batch` of them at a time.
const CHANGES: u64 = 20_000;

/// A stage runs no longer than this: one where each change costs as much as all rows has done few by then.
const STAGE_TIME: Duration = Duration::from_secs(20);

fn above_patterns(settings: &Settings, name: &str, text: &str) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let [label, group, value] = ["Thing", "group", "value"].map(|name| graph.symbols().intern(name));
    let node = NodeId::spread;
    let number = |n: u64| Value::Float((n.wrapping_mul(STEP) >> 20) as f64 * 1e-7);
    let mut mutations = Mutations::default();
    for n in 0..settings.events {
        mutations.set_label(node(n), label, true);
        mutations.set_property(node(n), group, &Value::Integer((n % 10) as i64));
        mutations.set_property(node(n), value, &number(n));
    }
    graph.apply(mutations, 1)?;
    let query = weir::install_any(&graph, 0, text, Start::WholeGraph)?;
    let wait = |upper: Tick| -> Result<u64, Box<dyn Error>> {
        let mut rows = 0;
        loop {
            let batch = query.next(Duration::from_secs(120))?.ok_or("no result within two minutes")?;
            rows += batch.rows.len() as u64;
            if batch.upper >= upper {
                return Ok(rows);
            }
        }
    };
    wait(graph.next())?;
    let clock = Clock::start()?;
    let (begun, mut changed, mut upper) = (Instant::now(), 0, Tick::ZERO);
    while changed < CHANGES && begun.elapsed() < STAGE_TIME {
        let mut mutations = Mutations::default();
        for record in 0..settings.batch {
            let n = (changed + record).wrapping_mul(7919) % settings.events;
            mutations.start_record(record as u32);
            mutations.set_property(node(n), value, &number(settings.events + changed + record));
        }
        upper = graph.apply(mutations, settings.batch as usize)?;
        changed += settings.batch;
    }
    let rows = wait(upper)?;
    let mut run = clock.stop(name, changed)?;
    let Settings { events, batch, .. } = settings;
    run.settings = format!(
        "changes of one value each to results, in memory, {events} values there, {batch} changes a batch, {rows} results"
    );
    engine.shutdown()?;
    Ok(run)
}

/// Numbers to nodes with one property: no text to parse, nothing to watch.
pub fn numbers(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let scratch = Scratch::new(settings, "numbers")?;
    let memory_before = resident_bytes()?;
    let engine = weir::started(weir::open_store(settings.store, &scratch.path())?, settings.workers)?;
    let graph = engine.default_graph();
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::NUMBERS)?);
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    let mut next = 0;
    while next < settings.events {
        let end = (next + settings.batch).min(settings.events);
        let records: Vec<Value> = (next..end).map(|n| Value::Integer(n as i64)).collect();
        upper = ingester.ingest(&records, None)?.upper;
        next = end;
    }
    graph.wait_visible()?;
    graph.wait_durable(upper)?;
    let mut run = clock.stop("numbers", settings.events)?;
    run.memory_per_event = Some(resident_bytes()?.saturating_sub(memory_before) as f64 / settings.events as f64);
    if settings.store == StoreKind::RocksDb {
        run.disk_bytes = bytes_on_disk(&scratch.path())?;
    }
    let Settings { store, workers, batch, .. } = settings;
    run.settings = format!("numbers to nodes, {store:?}, {workers} workers, {batch} events a batch");
    engine.shutdown()?;
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_stage_runs_and_the_dataflow_counts_right() {
        for batch in [1, 100] {
            let settings = Settings { batch, ..test_settings(&format!("stages-{batch}"), 1_000) };
            for stage in [evaluate, log, commit, numbers, sums, window] {
                let run = stage(&settings).expect("it runs");
                assert!(run.events == 1_000 || run.events == CHANGES, "{run:?}");
            }
            for workers in [1, 2] {
                let run = dataflow(&Settings { workers, ..settings.clone() }).expect("it runs");
                assert!(run.count_is_right() && run.matches > Some(500), "{run:?}");
            }
            // Not every stage makes it.
            let _ = std::fs::remove_dir_all(&settings.directory);
        }
    }
}
