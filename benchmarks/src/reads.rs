//! Ad-hoc reads inside the engine: `reads`, single nodes by id while records come in; `expand`, two steps away from a node
//! with a hundred neighbours; `count`, how many nodes have a label; `plan`, text to plan.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_cypher_compiler::compile;
use weir_engine::store::InMemory;
use weir_engine::{Graph, Ingester, Prepared, QueryOptions};
use weir_model::random::STEP;
use weir_model::{IdScheme, Mutations, NodeId, Value};

use crate::measure::{Clock, Durations, Run};
use crate::passes::Settings;
use crate::weir;

const POINT: &str = "MATCH (n) WHERE id(n) = idFrom('process', $that) RETURN n.filename";
const TWO_HOPS: &str = "MATCH (a)-[:knows]->(b)-[:knows]->(c) WHERE id(a) = $that RETURN c.number";
const COUNT_WHERE: &str = "MATCH (n:Person) WHERE n.number >= 0 RETURN count(n)";
const COUNT: &str = "MATCH (n:Person) RETURN count(n)";

/// How long nodes are read.
const READING: Duration = Duration::from_secs(5);

/// Records a second that come in meanwhile.
const INGESTED_RATE: u64 = 20_000;
const INGESTED_BATCH: u64 = 100;

const DEGREE: u64 = 100;
const EXPANSIONS: u64 = 500;
const COUNTS: u64 = 5;
const PLANS: u64 = 20_000;

pub fn prepare(graph: &Graph, text: &str) -> Result<Arc<Prepared>, Box<dyn Error>> {
    Ok(graph.prepare(plan(graph.ids(), text)?))
}

fn plan(ids: IdScheme, text: &str) -> Result<weir_model::Plan, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: vec!["that".into()], ids, ..Default::default() };
    Ok(compile(text, &options).map_err(|problems| problems[0].to_string())?)
}

/// The rows of a query: how many, and the first value of the last.
fn ask(graph: &Graph, query: &Prepared, that: Value) -> Result<(u64, Value), Box<dyn Error>> {
    let (mut rows, mut last) = (0, Value::Null);
    graph.query(query, &[that], QueryOptions::default(), &mut |row| {
        rows += 1;
        last = row.first().cloned().unwrap_or_default();
        ControlFlow::Continue(())
    })?;
    Ok((rows, last))
}

/// One thread reads nodes by id, one after another, while another hands in records.
pub fn points(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::filled(settings)?;
    let graph = engine.default_graph();
    let processes = settings.processes();
    let ingest = weir::prepare(&graph, weir::INGEST)?;
    let query = prepare(&graph, POINT)?;
    let done = AtomicBool::new(false);
    let events = settings.events;
    let read = || -> Result<(u64, u64, f64, Durations), String> {
        let (mut reads, mut found, mut durations) = (0u64, 0u64, Durations::new());
        let before = clock_gettime(ClockId::ThreadCPUTime);
        let begun = Instant::now();
        while begun.elapsed() < READING {
            // Far apart in memory, as ids are.
            let wanted = reads.wrapping_mul(STEP) % events;
            let began = Instant::now();
            let (_, value) = ask(&graph, &query, Value::Integer(wanted as i64)).map_err(|error| error.to_string())?;
            durations.record(began.elapsed());
            reads += 1;
            found += u64::from(!value.is_null());
        }
        let after = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = (after.tv_sec - before.tv_sec) as f64 + (after.tv_nsec - before.tv_nsec) as f64 / 1e9;
        Ok((reads, found, cpu, durations))
    };
    let hand_in = || -> Result<u64, String> {
        let mut ingester = Ingester::new(graph.clone(), ingest.clone());
        let (mut next, mut line) = (events, Vec::new());
        let begun = Instant::now();
        while !done.load(Ordering::Relaxed) {
            let due = Duration::from_secs_f64((next - events) as f64 / INGESTED_RATE as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
            let records = (next..next + INGESTED_BATCH).map(|i| weir::record(&processes, i, &mut line));
            let records = records.collect::<Result<Vec<Value>, Box<dyn Error>>>().map_err(|error| error.to_string())?;
            ingester.ingest(&records, None).map_err(|error| error.to_string())?;
            next += INGESTED_BATCH;
        }
        Ok(next - events)
    };
    let clock = Clock::start()?;
    let (read, handed_in) = std::thread::scope(|scope| -> Result<_, Box<dyn Error>> {
        let handing = scope.spawn(hand_in);
        let read = std::thread::Builder::new().name("reads".into()).spawn_scoped(scope, read)?.join();
        done.store(true, Ordering::Relaxed);
        let handed_in = handing.join().map_err(|_| "the thread that hands records in panicked")??;
        Ok((read.map_err(|_| "the thread that reads panicked")??, handed_in))
    })?;
    let (reads, found, cpu, durations) = read;
    let mut run = clock.stop("reads", reads)?;
    run.matches = Some(found);
    run.expected = Some(reads);
    run.latency_us = durations.latency();
    run.settings = format!(
        "one of {events} nodes by id, {:.0} reads by CPU second of the thread that reads, {:.0} records/s meanwhile, {} workers",
        reads as f64 / cpu,
        handed_in as f64 / READING.as_secs_f64(),
        settings.workers
    );
    engine.shutdown()?;
    Ok(run)
}

/// A node with a hundred neighbours that have a hundred each: ten thousand rows, again and again from other nodes.
pub fn expand(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (knows, number) = (graph.symbols().intern("knows"), graph.symbols().intern("number"));
    let nodes = (settings.events / DEGREE).max(DEGREE + 1);
    for first in (0..nodes).step_by(1_000) {
        let mut mutations = Mutations::default();
        for n in first..(first + 1_000).min(nodes) {
            mutations.set_property(spread(n), number, &Value::Integer(n as i64));
            // Neighbours lie anywhere.
            (0..DEGREE).for_each(|i| mutations.set_edge(spread(n), knows, spread((n * 31 + i * 7_919 + 1) % nodes), 0, true));
        }
        graph.apply(mutations, 1)?;
    }
    graph.wait_visible()?;
    let query = prepare(&graph, TWO_HOPS)?;
    let (mut durations, mut rows, mut first) = (Durations::new(), 0, Durations::new());
    let clock = Clock::start()?;
    for i in 0..EXPANSIONS {
        let start = Value::Id(spread(i * 104_729 % nodes));
        let began = Instant::now();
        let mut to_first = None;
        graph.query(&query, &[start], QueryOptions::default(), &mut |_| {
            to_first.get_or_insert_with(|| began.elapsed());
            rows += 1;
            ControlFlow::Continue(())
        })?;
        durations.record(began.elapsed());
        first.record(to_first.unwrap_or_default());
    }
    let mut run = clock.stop("expand", rows)?;
    run.latency_us = durations.latency();
    let to_first = first.latency().map_or(0.0, |latency| latency.p50);
    let edges = nodes * DEGREE;
    run.settings = format!(
        "two steps from a node, {DEGREE} edges each, {:.0} rows a query, first row after {to_first:.0} µs (median), {edges} edges",
        rows as f64 / EXPANSIONS as f64
    );
    engine.shutdown()?;
    Ok(run)
}

/// Nodes by label, counted for the first time and again.
pub fn count(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (person, number) = (graph.symbols().intern("Person"), graph.symbols().intern("number"));
    let (mut expected, batch) = (0, 10_000);
    for first in (0..settings.events).step_by(batch) {
        let mut mutations = Mutations::default();
        for n in first..(first + batch as u64).min(settings.events) {
            // Not all of them, so that each has to be looked at.
            if n % 3 > 0 {
                mutations.set_label(spread(n), person, true);
                expected += 1;
            }
            mutations.set_property(spread(n), number, &Value::Integer(n as i64));
        }
        graph.apply(mutations, 1)?;
    }
    graph.wait_visible()?;
    let query = prepare(&graph, COUNT)?;
    let (mut durations, mut found, mut first) = (Durations::new(), 0, None);
    let clock = Clock::start()?;
    for _ in 0..COUNTS {
        let began = Instant::now();
        let (_, count) = ask(&graph, &query, Value::Null)?;
        durations.record(began.elapsed());
        first.get_or_insert(began.elapsed());
        found += u64::from(count == Value::Integer(expected));
    }
    let listed = Instant::now();
    let conditioned = prepare(&graph, COUNT_WHERE)?;
    let (_, count) = ask(&graph, &conditioned, Value::Null)?;
    let listed = listed.elapsed();
    let mut run = clock.stop("count", settings.events)?;
    run.matches = Some(found + u64::from(count == Value::Integer(expected)));
    run.expected = Some(COUNTS + 1);
    run.latency_us = durations.latency();
    run.settings = format!(
        "{expected} of {} nodes by label, first count {:.0} ms; with a condition on a property {:.0} ms; {} workers",
        settings.events,
        first.unwrap_or_default().as_secs_f64() * 1e3,
        listed.as_secs_f64() * 1e3,
        settings.workers
    );
    engine.shutdown()?;
    Ok(run)
}

/// The ingest query of `procs`, parsed and planned.
pub fn plans(_: &Settings) -> Result<Run, Box<dyn Error>> {
    let mut durations = Durations::new();
    let clock = Clock::start()?;
    for _ in 0..PLANS {
        let began = Instant::now();
        std::hint::black_box(plan(IdScheme::Uuid, weir::INGEST)?);
        durations.record(began.elapsed());
    }
    let mut run = clock.stop("plan", PLANS)?;
    run.latency_us = durations.latency();
    run.settings = "the ingest query of `procs`, text to plan".to_owned();
    Ok(run)
}

/// Ids that lie as hashes do.
fn spread(n: u64) -> NodeId {
    let mixed = (n + 1).wrapping_mul(STEP);
    NodeId::new(mixed ^ mixed >> 29, n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn counts_are_right() {
        let settings = test_settings("reads", 20_000);
        for pass in [expand, count, plans] {
            let run = pass(&settings).expect("it runs");
            assert!(run.count_is_right() && run.latency_us.is_some(), "{run:?}");
        }
        let rows = expand(&settings).expect("it runs").events;
        // A node may be its own neighbour, and no edge is crossed twice.
        assert!((EXPANSIONS * DEGREE * (DEGREE - 1)..=EXPANSIONS * DEGREE * DEGREE).contains(&rows), "{rows}");
    }
}
