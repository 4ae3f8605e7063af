//! Many standing queries at once over the stream of `procs`: how much slower the graph becomes with each, what one more costs
//! those that are there, and what an idle one holds in memory.
//!
//! The queries differ in their constants, as those of an alerting system do. How often each must match follows from the number of
//! an event alone: which user and which program it is of.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{StandingMode, compile_standing};
use weir_engine::store::InMemory;
use weir_engine::{EngineError, Graph, Ingester, Standing, StandingQuery, Start};
use weir_model::{NodeId, QueryId, Tick};

use crate::data::{PROGRAMS, Processes, USERS};
use crate::measure::{Clock, Durations, Run, resident_bytes};
use crate::passes::Settings;
use crate::weir::{self, Counted};

/// Query number `k` of many that look at one node.
fn local(k: u64) -> String {
    let (user, program) = (k % USERS, k / USERS);
    format!("MATCH (n:Process) WHERE n.user = 'user{user}' AND n.filename = '/usr/bin/prog{program}' RETURN DISTINCT id(n) AS id")
}

/// Query number `k` of many that share a chain of three.
fn chain(k: u64) -> String {
    format!("MATCH (p0)-[:parent]->(p1)-[:parent]->(p2) WHERE p0.filename = '/usr/bin/prog{k}' RETURN DISTINCT id(p0) AS id")
}

pub fn install(graph: &Graph, number: u64, text: &str, start: Start) -> Result<StandingQuery, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: Vec::new(), ids: graph.ids(), ..Default::default() };
    let standing = compile_standing(text, StandingMode::DistinctId, &options).map_err(|problems| problems[0].to_string())?;
    let id = QueryId(NodeId::spread(number));
    Ok(graph.install(Standing { id, plan: standing.plan, cancellations: true, start, outputs: Vec::new() })?)
}

/// `--queries` of them, each of one node.
pub fn distinct(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let watched = |i: u64| (i % PROGRAMS) * USERS + i % USERS < settings.queries;
    let expected = (0..settings.events).filter(|i| watched(*i)).count() as u64;
    run(settings, "watch", local, expected)
}

/// `--queries` of them over one chain of three, whose first process runs another program each.
pub fn sharing(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let processes = settings.processes();
    let chained = |i: &u64| processes.parent(*i).and_then(|parent| processes.parent(parent)).is_some();
    let expected = (0..settings.events).filter(|i| i % PROGRAMS < settings.queries).filter(chained).count() as u64;
    run(settings, "watch-chain", chain, expected)
}

fn run(settings: &Settings, name: &str, text: fn(u64) -> String, expected: u64) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let batches = weir::batches(&graph, &settings.processes(), 0..settings.events, settings.batch)?;
    let before = resident_bytes()?;
    let begun = Instant::now();
    let queries: Vec<StandingQuery> =
        (0..settings.queries).map(|k| install(&graph, k, &text(k), Start::Now)).collect::<Result<_, _>>()?;
    graph.wait_visible()?;
    let (installed, held) = (begun.elapsed(), resident_bytes()?.saturating_sub(before));
    let watchers = Watchers::start(queries)?;
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        upper = graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    let counted = watchers.finish(upper)?;
    let mut run = clock.stop(name, settings.events)?;
    run.matches = Some(counted.matches);
    run.expected = Some(expected);
    let Settings { queries, workers, batch, .. } = settings;
    run.settings = format!(
        "mutations to counted results of {queries} queries, in memory, {workers} workers, {batch} events a batch; installed in {:.0} ms, \
         {:.1} KB each",
        installed.as_secs_f64() * 1_000.0,
        held as f64 / 1_024.0 / *queries as f64
    );
    engine.shutdown()?;
    Ok(run)
}

/// One thread that takes the results of many queries, of each when it has some.
struct Watchers {
    thread: JoinHandle<Result<Counted, EngineError>>,
    until: Arc<AtomicU64>,
}

/// Between a look at whether it is the end, and the next.
const ROUND: Duration = Duration::from_millis(2);

impl Watchers {
    fn start(queries: Vec<StandingQuery>) -> std::io::Result<Watchers> {
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let end = until.clone();
        let (calls, called) = mpsc::sync_channel(queries.len());
        let (counted, uppers) = (Counted::default(), vec![0; queries.len()]);
        let mut counting = Counting { queries, calls, counted, uppers };
        let count = move || {
            let all = 0..counting.queries.len();
            all.clone().try_for_each(|number| counting.take(number))?;
            while end.load(Ordering::SeqCst) == u64::MAX {
                called.recv_timeout(ROUND).map_or(Ok(()), |number| counting.take(number))?;
            }
            for number in all {
                counting.take(number)?;
                while counting.uppers[number] < end.load(Ordering::SeqCst) {
                    std::thread::sleep(ROUND);
                    counting.take(number)?;
                }
            }
            Ok(counting.counted)
        };
        let thread = std::thread::Builder::new().name("results".into()).spawn(count)?;
        Ok(Watchers { thread, until })
    }

    fn finish(self, upper: Tick) -> Result<Counted, Box<dyn Error>> {
        self.until.store(upper.0, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the thread that counts results panicked")?.map_err(Into::into)
    }
}

struct Counting {
    queries: Vec<StandingQuery>,
    /// The numbers of queries that have something.
    calls: SyncSender<usize>,
    counted: Counted,
    uppers: Vec<u64>,
}

impl Counting {
    /// Takes what a query has found; from then on the query calls when there is more.
    fn take(&mut self, number: usize) -> Result<(), EngineError> {
        let query = &self.queries[number];
        loop {
            while let Some(batch) = query.next(Duration::ZERO)? {
                let positive = batch.rows.iter().filter(|row| row.positive).count() as u64;
                self.counted.matches += positive;
                self.counted.cancellations += batch.rows.len() as u64 - positive;
                self.uppers[number] = batch.upper.0;
                // Progress alone: there is some after each tick.
                if batch.rows.is_empty() {
                    break;
                }
            }
            let calls = self.calls.clone();
            // There is room for a call of each; at the end nobody hears them any more.
            if query.rest(move || _ = calls.try_send(number)) {
                return Ok(());
            }
        }
    }
}

/// How long single changes are timed with nothing else going on, and again while queries are installed.
const TIMED: Duration = Duration::from_secs(3);

/// Between one installation and the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Single changes of a graph of `--events` that `--queries` watch, timed until their match is received, while one more query
/// after another is installed and dropped.
pub fn installing(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    while_installing(settings, "installing", |graph, number| install(graph, number, &local(number), Start::Now))
}

const ROW_BY_ROW: &str =
    "MATCH (n:Process) OPTIONAL MATCH (n)-[:parent*1..1]->(p) RETURN n.filename AS program, count(p) AS parents";

/// As `installing`, where what is installed is worked out row by row.
pub fn installing_any(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    while_installing(settings, "installing-any", |graph, number| weir::install_any(graph, number, ROW_BY_ROW, Start::Now))
}

type InstallOne = fn(&Graph, u64) -> Result<StandingQuery, Box<dyn Error>>;

fn while_installing(settings: &Settings, name: &str, install_one: InstallOne) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let processes = settings.processes();
    // Before there is anything: each would look through the graph at rest otherwise, one after another.
    let watched: Vec<StandingQuery> =
        (0..settings.queries).map(|k| install(&graph, k, &local(k), Start::Now)).collect::<Result<_, _>>()?;
    for (mutations, records) in weir::batches(&graph, &processes, 0..settings.events, settings.batch)? {
        graph.apply(mutations, records)?;
    }
    let query = weir::install_chain(&graph, settings.mode, Start::Now)?;
    let watchers = Watchers::start(watched)?;
    let mut pulse = Pulse {
        ingester: Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?),
        query,
        processes,
        next: settings.events,
        matches: 0,
    };
    // The graph at rest is looked through first.
    pulse.beat(TIMED, &mut Durations::new())?;
    let mut alone = Durations::new();
    pulse.beat(TIMED, &mut alone)?;

    let stop = Arc::new(AtomicBool::new(false));
    let ended = stop.clone();
    let (number, other) = (settings.queries, graph.clone());
    let installer = std::thread::spawn(move || -> Result<(Durations, Durations), String> {
        let (mut calls, mut caught_up) = (Durations::new(), Durations::new());
        while !ended.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let from = other.next();
            let query = install_one(&other, number).map_err(|error| error.to_string())?;
            calls.record(begun.elapsed());
            loop {
                let batch = query.next(Duration::from_millis(20)).map_err(|error| error.to_string())?;
                if batch.is_some_and(|batch| batch.upper >= from) {
                    break;
                }
            }
            caught_up.record(begun.elapsed());
            other.drop_standing(query.id());
            std::thread::sleep(PAUSE);
        }
        Ok((calls, caught_up))
    });
    let mut timed = Durations::new();
    let clock = Clock::start()?;
    let first = pulse.next;
    pulse.beat(TIMED, &mut timed)?;
    let mut run = clock.stop(name, pulse.next - first)?;
    stop.store(true, Ordering::Relaxed);
    let (calls, caught_up) = installer.join().map_err(|_| "the thread that installs panicked")??;
    let upper = graph.next();
    watchers.finish(upper)?;
    engine.shutdown()?;
    run.latency_us = timed.latency();
    run.matches = Some(pulse.matches);
    let chains = |count| Processes { count, ..processes }.expected_chains(4);
    run.expected = Some(chains(pulse.next) - chains(settings.events));
    let text = |durations: &Durations| {
        durations.latency().map_or(String::new(), |l| format!("p50 {:.2} ms, max {:.2} ms", l.p50 / 1_000.0, l.max / 1_000.0))
    };
    run.settings = format!(
        "one change after another while queries are installed beside {}, in memory, {} workers, {} events there already; alone: {}; the \
         call that installs: {}; until it has seen the graph at rest: {}",
        settings.queries,
        settings.workers,
        settings.events,
        text(&alone),
        text(&calls),
        text(&caught_up)
    );
    Ok(run)
}

/// Single changes, one after another.
struct Pulse {
    ingester: Ingester,
    query: StandingQuery,
    processes: Processes,
    next: u64,
    matches: u64,
}

impl Pulse {
    fn beat(&mut self, time: Duration, durations: &mut Durations) -> Result<(), Box<dyn Error>> {
        let (end, mut line) = (Instant::now() + time, Vec::new());
        while Instant::now() < end {
            let record = [weir::record(&self.processes, self.next, &mut line)?];
            self.next += 1;
            let begun = Instant::now();
            let upper = self.ingester.ingest(&record, None)?.upper;
            loop {
                let batch = self.query.next(Duration::from_secs(60))?.ok_or("no result within a minute")?;
                if !batch.rows.is_empty() {
                    self.matches += batch.rows.len() as u64;
                    durations.record(begun.elapsed());
                }
                if batch.upper >= upper {
                    break;
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_query_gets_its_matches() {
        for (queries, workers) in [(1, 1), (40, 2), (400, 1)] {
            let settings = Settings { queries, workers, ..test_settings("watch", 4_000) };
            for pass in [distinct, sharing] {
                let run = pass(&settings).expect("it runs");
                assert!(run.count_is_right() && run.matches > Some(0), "{run:?}");
            }
        }
    }
}
