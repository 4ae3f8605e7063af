//! `at-time`: nodes with a thousand versions each, read by id as of moments of the past, one after another, in a graph of
//! other things that came in between.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Instant;

use weir_engine::store::Store;
use weir_engine::{Engine, Options, QueryOptions};
use weir_model::random::STEP;
use weir_model::{NodeId, Tick, Value};

use crate::measure::{Clock, Durations, Run, bytes_on_disk};
use crate::passes::{Settings, StoreKind};
use crate::reads;
use crate::weir::{self, Scratch};

const VERSIONS: u64 = 1_000;
const NODES: u64 = 100;
const READS: u64 = 20_000;
const NUMBER: &str = "MATCH (n) WHERE id(n) = $that RETURN n.number";

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let scratch = Scratch::new(settings, "at-time")?;
    let store: std::sync::Arc<dyn Store> = weir::open_store(settings.store, &scratch.path())?;
    let engine = Engine::open(store, Options { workers: settings.workers, ..Options::default() })?;
    engine.start()?;
    let graph = engine.default_graph();
    let number = graph.symbols().intern("number");
    let node = |n: u64| NodeId::new((n + 1).wrapping_mul(STEP), n);
    let batch = settings.events.div_ceil(VERSIONS).max(1);
    let events = weir::batches(&graph, &settings.processes(), 0..settings.events, batch)?;
    let mut moments: Vec<Tick> = Vec::new();
    for (version, (mut mutations, records)) in (0..).zip(events) {
        mutations.start_record(records as u32);
        (0..NODES).for_each(|n| mutations.set_property(node(n), number, &Value::Integer(version)));
        let upper = graph.apply(mutations, records + 1)?;
        moments.push(Tick(upper.0 - 1));
    }
    graph.wait_visible()?;
    let query = reads::prepare(&graph, NUMBER)?;
    let read = |i: u64| -> Result<bool, Box<dyn Error>> {
        let mixed = i.wrapping_mul(STEP) >> 20;
        let version = (mixed / NODES) as usize % moments.len();
        let options = QueryOptions { at: Some(moments[version]), ..QueryOptions::default() };
        let mut found = Value::Null;
        graph.query(&query, &[Value::Id(node(mixed % NODES))], options, &mut |row| {
            found = row[0].clone();
            ControlFlow::Continue(())
        })?;
        Ok(found == Value::Integer(version as i64))
    };
    // The first brings what no page holds yet into memory.
    let began = Instant::now();
    read(moments.len() as u64)?;
    let first = began.elapsed();
    let (mut durations, mut right) = (Durations::new(), 0);
    let clock = Clock::start()?;
    for i in 0..READS {
        let began = Instant::now();
        right += u64::from(read(i)?);
        durations.record(began.elapsed());
    }
    let mut run = clock.stop("at-time", READS)?;
    run.matches = Some(right);
    run.expected = Some(READS);
    run.latency_us = durations.latency();
    if settings.store == StoreKind::RocksDb {
        run.disk_bytes = bytes_on_disk(&scratch.path())?;
    }
    run.settings = format!(
        "one of {NODES} nodes by id at one of {} moments, beside {} events, {:?}; the very first read {:.1} ms",
        moments.len(),
        settings.events,
        settings.store,
        first.as_secs_f64() * 1e3
    );
    engine.shutdown()?;
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_read_is_right() {
        let run = run(&test_settings("at-time", 2_000)).expect("runs");
        assert_eq!(run.matches, Some(READS));
    }
}
