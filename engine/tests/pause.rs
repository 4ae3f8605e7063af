//! Pauses: what comes during one comes with its end, as the difference, whatever happens to the process meanwhile.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(feature = "rocks-db")]

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{QUERIES, Random, Rows, collect, concatenate, expected, node, plans, random_records, share_symbols};
use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_asked, compile_standing};
use weir_engine::store::{InMemory, RocksDb, RocksDbOptions};
use weir_engine::{Engine, EngineError, Graph, Options, QueryOptions, Row, Standing, StandingQuery, Start, checkpoint};
use weir_model::{Mutations, NodeId, Plan, Position, QueryId, Tick, Value};

const OUTPUT: &str = "file";

/// A file output, and what the query was asked for.
#[derive(Default)]
struct Watched {
    lines: Vec<(Tick, bool, Vec<Value>)>,
    /// The record before which it was paused last, while it is.
    paused: Option<usize>,
    /// The records of its pauses, up to but without the second.
    pauses: Vec<(usize, usize)>,
}

fn open(path: &Path, workers: usize) -> Engine {
    let begun = std::time::Instant::now();
    let store = loop {
        match RocksDb::open(RocksDbOptions::new(path)) {
            Ok(store) => break store,
            Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Engine::open(Arc::new(store), Options { workers, ..Options::default() }).expect("a sound store")
}

fn install(graph: &Graph, plans: &[Plan], start: Start, cancellations: bool) -> Vec<StandingQuery> {
    let standing = |(index, plan): (u64, &Plan)| {
        let id = QueryId(NodeId::new(index, 7));
        Standing { id, plan: plan.clone(), cancellations, start, outputs: vec![OUTPUT.into()] }
    };
    (0..).zip(plans).map(|query| graph.install(standing(query)).expect("a maintainable query")).collect()
}

/// Takes what there is before `upper`; notes the place as far as `note` says.
fn deliver(query: &StandingQuery, watched: &mut Watched, upper: Tick, note: impl Fn(Tick) -> bool) {
    let (from, _) = query.delivered(OUTPUT).expect("a known output");
    loop {
        let batch = query.next(Duration::from_secs(20)).expect("a living query").expect("results within 20 s");
        let rows = batch.rows.iter().filter(|row| row.tick >= from);
        watched.lines.extend(rows.map(|row| (row.tick, row.positive, row.row.0.to_vec())));
        if note(batch.upper) {
            let position = Position((watched.lines.len() as u64).to_le_bytes().to_vec());
            query.set_delivered(OUTPUT, batch.upper.max(from), position, true);
        }
        if batch.upper >= upper {
            return;
        }
    }
}

fn toggle(query: &StandingQuery, watched: &mut Watched, record: usize) {
    match watched.paused.take() {
        Some(from) => {
            assert!(query.resume().unwrap() && !query.resume().unwrap(), "it was paused, and is not");
            watched.pauses.push((from, record));
        }
        None => {
            assert!(query.pause().unwrap() && !query.pause().unwrap(), "it was not paused, and is");
            watched.paused = Some(record);
        }
    }
    assert_eq!(query.paused().is_some(), watched.paused.is_some());
}

fn run(seed: u64, cancellations: bool) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed, 260, &scratch.default_graph());
    let plans = plans();
    let expected = expected(&plans, &records, &scratch);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed ^ 0x5555);
    let mut all: Vec<Watched> = plans.iter().map(|_| Watched::default()).collect();
    let mut ticks: Vec<Tick> = Vec::new();
    let mut lives = 0;

    while ticks.len() < records.len() {
        lives += 1;
        let engine = open(directory.path(), 1 + random.below(3) as usize);
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let start = if lives == 1 { Start::WholeGraph } else { Start::Resume };
        let queries = install(&graph, &plans, start, cancellations);
        for (query, watched) in queries.iter().zip(&mut all) {
            let (_, position) = query.delivered(OUTPUT).expect("a known output");
            watched.lines.truncate(position.0.try_into().map_or(0, u64::from_le_bytes) as usize);
            assert_eq!(query.paused().is_some(), watched.paused.is_some(), "a pause outlives the process");
        }
        engine.start().unwrap();

        let until = ticks.len() + 1 + random.below(60) as usize;
        while ticks.len() < until.min(records.len()) {
            let count = (1 + random.below(12) as usize).min(records.len() - ticks.len());
            let upper = graph.apply(concatenate(&records[ticks.len()..ticks.len() + count]), count).unwrap();
            ticks.extend((0..count).map(|i| Tick(upper.0 - count as u64 + i as u64)));
            for (query, watched) in queries.iter().zip(&mut all) {
                let last = ticks.len() == records.len();
                if if last { watched.paused.is_some() } else { random.below(4) == 0 } {
                    toggle(query, watched, ticks.len());
                }
                if random.below(3) == 0 {
                    deliver(query, watched, upper, |_| true);
                }
            }
        }
        let upper = graph.apply(Mutations::default(), 1).unwrap();
        graph.wait_durable(upper).unwrap();
        let last = ticks.len() == records.len();
        for (query, watched) in queries.iter().zip(&mut all) {
            let stop = match random.below(3) {
                _ if last => Tick::MAX,
                0 => Tick::ZERO,
                1 => ticks[random.below(ticks.len() as u64) as usize],
                _ => Tick::MAX,
            };
            deliver(query, watched, upper, |at| at <= stop);
        }
        if random.below(2) == 0 {
            let needed = queries.iter().filter_map(StandingQuery::needs_from).min().unwrap();
            checkpoint::make(&graph, needed.min(upper)).unwrap();
        }
        if random.below(2) == 0 {
            engine.shutdown().unwrap();
        }
    }
    assert!(lives > 3);
    for (index, watched) in all.iter().enumerate() {
        let what = format!("{} with seed {seed}", QUERIES[index].1);
        assert!(watched.paused.is_none());
        let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
        for (tick, positive, row) in &watched.lines {
            *found.entry(*tick).or_default().entry(row.clone()).or_default() += if *positive { 1 } else { -1 };
        }
        let told = |mut rows: Rows| {
            rows.retain(|_, count| *count > 0 || (*count < 0 && cancellations));
            Some(rows).filter(|rows| !rows.is_empty())
        };
        let is_paused = |record: usize| watched.pauses.iter().any(|(from, until)| (*from..*until).contains(&record));
        for (record, tick) in ticks.iter().enumerate() {
            let due = expected[index].get(&record).filter(|_| !is_paused(record)).cloned().and_then(told);
            assert_eq!(found.remove(tick), due, "{what}: record {record}");
        }
        for (from, until) in &watched.pauses {
            let mut difference = Rows::new();
            let changes = expected[index].range(*from..*until).flat_map(|(_, rows)| rows);
            changes.for_each(|(row, count)| *difference.entry(row.clone()).or_default() += count);
            let before = ticks[until - 1];
            let at = found.keys().copied().find(|tick| *tick > before && ticks.get(*until).is_none_or(|next| tick < next));
            let difference = told(difference);
            assert_eq!(at.and_then(|at| found.remove(&at)), difference, "{what}: the end of the pause {from}..{until}");
        }
        assert!(found.is_empty(), "{what}: results at ticks that nothing has: {found:?}");
    }
}

#[test]
fn a_pause_comes_to_its_difference() {
    for (seed, cancellations) in [(88172645463325252, true), (2685821657736338717, false), (1181783497276652981, true)] {
        run(seed, cancellations);
    }
}

/// What a query holds back, by the rule: of equal rows those that were told end first, and what was not told ends silently.
#[derive(Default)]
struct Holding {
    /// How often a row is held, and how often it was told since.
    rows: BTreeMap<Vec<Value>, (i64, i64)>,
    /// During a pause.
    net: Option<Rows>,
    asked_in_pause: bool,
}

impl Holding {
    fn hear(&mut self, changes: Rows, cancellations: bool) -> Rows {
        let mut told = Rows::new();
        for (row, count) in changes {
            let (held, known) = self.rows.entry(row.clone()).or_default();
            let silent = (-count - *known).clamp(0, *held);
            *held -= silent;
            let count = count + silent;
            *known += count;
            if count > 0 || (count < 0 && cancellations) {
                told.insert(row, count);
            }
        }
        told
    }

    fn record(&mut self, changes: Rows, cancellations: bool) -> Rows {
        match &mut self.net {
            None => self.hear(changes, cancellations),
            Some(net) => {
                sum(net, changes);
                Rows::new()
            }
        }
    }

    fn ask(&mut self) -> Rows {
        if self.net.is_some() {
            self.asked_in_pause = true;
            return Rows::new();
        }
        let tell = |(row, (held, known)): (&Vec<Value>, &mut (i64, i64))| {
            *known += *held;
            (row.clone(), std::mem::take(held))
        };
        self.rows.iter_mut().map(tell).filter(|(_, count)| *count > 0).collect()
    }

    fn toggle(&mut self, cancellations: bool) -> Rows {
        let Some(net) = self.net.take() else {
            self.net = Some(Rows::new());
            return Rows::new();
        };
        let mut told = self.hear(net, cancellations);
        if std::mem::take(&mut self.asked_in_pause) {
            sum(&mut told, self.ask());
        }
        told
    }
}

fn sum(to: &mut Rows, rows: Rows) {
    rows.into_iter().for_each(|(row, count)| *to.entry(row).or_default() += count);
    to.retain(|_, count| *count != 0);
}

/// Queries are installed before record `first` and hold back what there is, while they are asked for it, paused, and the process
/// ends, in any order.
fn holds_back(seed: u64, cancellations: bool, first: usize) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed, 240, &scratch.default_graph());
    let plans = plans();
    let expected = expected(&plans, &records, &scratch);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed ^ 0x7777);
    let mut all: Vec<Watched> = plans.iter().map(|_| Watched::default()).collect();
    // What is done to a query, and before which record: true asks for what is held, false begins or ends a pause.
    let mut done: Vec<Vec<(usize, bool)>> = vec![Vec::new(); plans.len()];
    let mut ticks: Vec<Tick> = Vec::new();
    let (mut lives, mut checkpoints) = (0, 0);

    while ticks.len() < records.len() {
        lives += 1;
        let engine = open(directory.path(), 1 + random.below(2) as usize);
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let apply = |ticks: &mut Vec<Tick>, count: usize| {
            let upper = graph.apply(concatenate(&records[ticks.len()..ticks.len() + count]), count).unwrap();
            ticks.extend((0..count).map(|i| Tick(upper.0 - count as u64 + i as u64)));
            upper
        };
        let queries = if lives == 1 {
            engine.start().unwrap();
            if first > 0 {
                apply(&mut ticks, first);
            }
            install(&graph, &plans, Start::Now, cancellations)
        } else {
            let queries = install(&graph, &plans, Start::Resume, cancellations);
            for (query, watched) in queries.iter().zip(&mut all) {
                let (_, position) = query.delivered(OUTPUT).expect("a known output");
                watched.lines.truncate(position.0.try_into().map_or(0, u64::from_le_bytes) as usize);
            }
            engine.start().unwrap();
            queries
        };
        let until = ticks.len() + random.below(40) as usize;
        while ticks.len() < until.min(records.len()) {
            let count = (1 + random.below(9) as usize).min(records.len() - ticks.len());
            let upper = apply(&mut ticks, count);
            for ((query, watched), done) in queries.iter().zip(&mut all).zip(&mut done) {
                match random.below(24) {
                    0 => {
                        query.propagate().unwrap();
                        done.push((ticks.len(), true));
                    }
                    1..=3 => {
                        toggle(query, watched, ticks.len());
                        done.push((ticks.len(), false));
                    }
                    4..=10 => deliver(query, watched, upper, |_| true),
                    _ => {}
                }
            }
            if random.below(4) == 0 {
                graph.wait_durable(upper).unwrap();
                let needed = queries.iter().filter_map(StandingQuery::needs_from).min().unwrap();
                checkpoint::make(&graph, needed.min(upper)).unwrap();
                checkpoints += usize::from(needed > ticks[0]);
            }
        }
        let last = ticks.len() == records.len();
        for ((query, watched), done) in queries.iter().zip(&mut all).zip(&mut done).filter(|_| last) {
            if watched.paused.is_some() {
                toggle(query, watched, ticks.len());
                done.push((ticks.len(), false));
            }
            query.propagate().unwrap();
            done.push((ticks.len(), true));
        }
        let upper = graph.apply(Mutations::default(), 1).unwrap();
        graph.wait_durable(upper).unwrap();
        for (query, watched) in queries.iter().zip(&mut all) {
            let stop = match random.below(3) {
                _ if last => Tick::MAX,
                0 => Tick::ZERO,
                1 => ticks[random.below(ticks.len() as u64) as usize],
                _ => Tick::MAX,
            };
            deliver(query, watched, upper, |at| at <= stop);
        }
        if random.below(2) == 0 {
            engine.shutdown().unwrap();
        }
    }
    assert!(lives > 3 && checkpoints > 0);
    for (index, watched) in all.iter().enumerate() {
        let what = format!("{} with seed {seed}", QUERIES[index].1);
        let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
        for (tick, positive, row) in &watched.lines {
            *found.entry(*tick).or_default().entry(row.clone()).or_default() += if *positive { 1 } else { -1 };
        }
        let mut holding = Holding::default();
        for record in 0..first {
            let changes = expected[index].get(&record).cloned().unwrap_or_default();
            changes.into_iter().for_each(|(row, count)| holding.rows.entry(row).or_default().0 += count);
        }
        for record in first..=records.len() {
            let mut due = Rows::new();
            for (_, asks) in done[index].iter().filter(|(before, _)| *before == record) {
                sum(&mut due, if *asks { holding.ask() } else { holding.toggle(cancellations) });
            }
            let mut between = Rows::new();
            let is_between = |tick: &Tick| ticks.get(record).is_none_or(|next| tick < next) && *tick > Tick::ZERO;
            while let Some(tick) = found.keys().next().copied().filter(is_between) {
                sum(&mut between, found.remove(&tick).unwrap());
            }
            assert_eq!(between, due, "{what}: before record {record}, with {:?}", done[index]);
            if let Some(tick) = ticks.get(record) {
                let changes = expected[index].get(&record).cloned().unwrap_or_default();
                let due = holding.record(changes, cancellations);
                assert_eq!(found.remove(tick).unwrap_or_default(), due, "{what}: record {record}, with {:?}", done[index]);
            }
        }
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

#[test]
fn what_is_held_back_stays_so_whatever_happens_to_the_process() {
    let cases = [
        (88172645463325252, true, 90),
        (2685821657736338717, false, 90),
        (1181783497276652981, true, 0),
        (7664345821815920749, true, 60),
        (6364136223846793005, false, 120),
    ];
    for (seed, cancellations, first) in cases {
        holds_back(seed, cancellations, first);
    }
}

/// What came and went in a pause is not counted, nor what was held, asked for in it, and went.
#[test]
fn what_the_end_of_a_pause_would_bring_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, plan) = (open(directory.path(), 1), &plans()[..1]);
    let graph = engine.default_graph();
    engine.start().unwrap();
    let label = graph.symbols().intern("A");
    let set = |n: u64, there: bool| {
        let mut record = Mutations::default();
        record.set_label(common::node(n), label, there);
        graph.apply(record, 1).unwrap()
    };
    set(1, true);
    set(2, true);
    let query = install(&graph, plan, Start::Now, true).remove(0);
    let mut watched = Watched::default();
    deliver(&query, &mut watched, graph.apply(Mutations::default(), 1).unwrap(), |_| true);
    query.pause().unwrap();
    for (asks, n, there, due) in [(false, 3, true, 1), (true, 1, false, 2), (false, 3, false, 1), (false, 2, false, 0)] {
        if asks {
            assert!(query.propagate().unwrap());
        }
        deliver(&query, &mut watched, set(n, there), |_| true);
        assert_eq!(query.paused().map(|paused| paused.held_back), Some(due), "{n}");
    }
    assert!(query.resume().unwrap());
    deliver(&query, &mut watched, graph.apply(Mutations::default(), 1).unwrap(), |_| true);
    assert!(watched.lines.is_empty(), "{:?}", watched.lines);
}

/// The log is let go of while a query is paused, and what it has held back is not.
#[test]
fn checkpoints_go_on_during_a_pause() {
    let directory = tempfile::tempdir().unwrap();
    let (engine, plan) = (open(directory.path(), 2), &plans()[..1]);
    let graph = engine.default_graph();
    let query = install(&graph, plan, Start::WholeGraph, true).remove(0);
    engine.start().unwrap();
    query.pause().unwrap();
    let label = graph.symbols().intern("A");
    let mut upper = Tick::ZERO;
    for n in 0..10 {
        let mut record = Mutations::default();
        record.set_label(common::node(n), label, true);
        upper = graph.apply(record, 1).unwrap();
    }
    let mut watched = Watched::default();
    deliver(&query, &mut watched, upper, |_| true);
    assert!(watched.lines.is_empty());
    assert_eq!(query.paused().map(|paused| paused.held_back), Some(10));
    let begun = std::time::Instant::now();
    while query.needs_from() < Some(upper) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the log is needed as long as the pause lasts");
        std::thread::sleep(Duration::from_millis(100));
        let next = graph.apply(Mutations::default(), 1).unwrap();
        deliver(&query, &mut watched, next, |_| true);
    }
    checkpoint::make(&graph, upper).unwrap();
    // The process ends. What comes later is added to what was kept.
    drop((query, graph, engine));
    let engine = open(directory.path(), 1);
    let graph = engine.default_graph();
    let query = install(&graph, plan, Start::Resume, true).remove(0);
    engine.start().unwrap();
    let mut record = Mutations::default();
    record.set_label(common::node(3), label, false);
    graph.apply(record, 1).unwrap();
    assert!(query.resume().unwrap());
    let upper = graph.apply(Mutations::default(), 1).unwrap();
    let found = collect(&query, upper);
    assert!(query.needs_from() < Some(upper), "before an output has delivered it, it can be lost");
    assert_eq!(found.values().map(|rows| rows.values().sum::<i64>()).collect::<Vec<_>>(), [9]);
    // Over for all outputs, and gone from the log.
    deliver_nothing(&query, &graph);
    assert!(query.needs_from() > Some(upper));
    graph.drop_standing(query.id());
}

/// A query that begins as of a moment tells of what has come and gone since then, whether it is `restarted` before it has looked
/// through the graph or not.
fn begins_as_of_a_moment(seed: u64, cancellations: bool, restarted: bool) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed, 160, &scratch.default_graph());
    let plans = plans();
    let expected = expected(&plans, &records, &scratch);
    let directory = tempfile::tempdir().unwrap();
    let mut engine = open(directory.path(), 2);
    let mut graph = engine.default_graph();
    share_symbols(&scratch.default_graph(), &graph);
    engine.start().unwrap();
    let ticks: Vec<Tick> = records[..130].iter().map(|record| Tick(graph.apply(record.clone(), 1).unwrap().0 - 1)).collect();
    let moments: Vec<usize> = (0..plans.len()).map(|index| (index * 37 + 11) % 120).collect();
    let standing = |index: usize, start| {
        let id = QueryId(NodeId::new(index as u64, 7));
        Standing { id, plan: plans[index].clone(), cancellations, start, outputs: vec![OUTPUT.into()] }
    };
    let mut queries: Vec<StandingQuery> = Vec::new();
    for (index, moment) in moments.iter().enumerate() {
        let query = graph.install(standing(index, Start::Summed)).unwrap();
        let mut then = Vec::new();
        let (mode, text) = QUERIES[index];
        let options = QueryOptions { at: Some(ticks[*moment]), ..QueryOptions::default() };
        graph
            .query(&graph.prepare(compile_asked(text, mode, &CompileOptions::default()).unwrap()), &[], options, &mut |row| {
                then.push((Row::from_slice(row), 1));
                ControlFlow::Continue(())
            })
            .unwrap();
        query.take_off(then);
        query.keep_sum().unwrap();
        assert!(query.is_summed() && query.paused().is_none());
        queries.push(query);
    }
    if restarted {
        drop((queries, graph, engine));
        engine = open(directory.path(), 1);
        graph = engine.default_graph();
        queries = (0..plans.len()).map(|index| graph.install(standing(index, Start::Resume)).unwrap()).collect();
        engine.start().unwrap();
    }
    for record in &records[130..145] {
        graph.apply(record.clone(), 1).unwrap();
    }
    let before: Vec<Tick> = queries
        .iter()
        .map(|query| {
            while query.backfill().is_some() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(query.is_summed() && query.resume().unwrap() && !query.is_summed());
            query.summed_until()
        })
        .collect();
    let later: Vec<Tick> = records[145..].iter().map(|record| Tick(graph.apply(record.clone(), 1).unwrap().0 - 1)).collect();
    let upper = graph.apply(Mutations::default(), 1).unwrap();
    for (index, query) in queries.iter().enumerate() {
        let told = |mut rows: Rows| {
            rows.retain(|_, count| *count > 0 || (*count < 0 && cancellations));
            Some(rows).filter(|rows| !rows.is_empty())
        };
        let mut due: BTreeMap<Tick, Rows> = BTreeMap::new();
        let mut since = Rows::new();
        let changes = expected[index].range(moments[index] + 1..145).flat_map(|(_, rows)| rows);
        changes.for_each(|(row, count)| *since.entry(row.clone()).or_default() += count);
        due.extend(told(since).map(|rows| (Tick(before[index].0 - 1), rows)));
        let each = expected[index].range(145..).filter_map(|(record, rows)| Some((later[record - 145], told(rows.clone())?)));
        due.extend(each);
        let mut found = collect(query, upper);
        found.retain(|_, rows| !rows.is_empty());
        assert_eq!(found, due, "{} as of record {} with seed {seed}", QUERIES[index].1, moments[index]);
    }
    drop(engine);
}

#[test]
fn a_query_that_begins_as_of_a_moment_tells_the_difference() {
    begins_as_of_a_moment(88172645463325252, true, false);
    begins_as_of_a_moment(2685821657736338717, true, true);
    begins_as_of_a_moment(1181783497276652981, false, true);
}

/// What is asked of as of a moment, in a graph that `record` was written to.
fn summed_since(graph: &Graph, text: &str, record: Mutations) -> StandingQuery {
    let at = Tick(graph.apply(record, 1).unwrap().0 - 1);
    let plan = compile_standing(text, StandingMode::AnyQuery, &CompileOptions::default()).unwrap().plan;
    let standing = Standing { id: QUERY, plan, cancellations: true, start: Start::Summed, outputs: vec![OUTPUT.into()] };
    let query = graph.install(standing).unwrap();
    let mut then = Vec::new();
    let options = QueryOptions { at: Some(at), ..QueryOptions::default() };
    let asked = compile_asked(text, StandingMode::AnyQuery, &CompileOptions::default()).unwrap();
    graph
        .query(&graph.prepare(asked), &[], options, &mut |row| {
            then.push((Row::from_slice(row), 1));
            ControlFlow::Continue(())
        })
        .unwrap();
    query.take_off(then);
    query.keep_sum().unwrap();
    query.put_output(OUTPUT, Tick::ZERO, Position::default()).unwrap();
    query
}

fn again(graph: &Graph, text: &str) -> StandingQuery {
    let plan = compile_standing(text, StandingMode::AnyQuery, &CompileOptions::default()).unwrap().plan;
    let standing = Standing { id: QUERY, plan, cancellations: true, start: Start::Resume, outputs: vec![OUTPUT.into()] };
    graph.install(standing).unwrap()
}

fn wait_for_rest(query: &StandingQuery) {
    let begun = Instant::now();
    while query.backfill().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it looks through a graph of one node");
        std::thread::sleep(Duration::from_millis(1));
    }
}

const QUERY: QueryId = QueryId(NodeId { high: 7, low: 7 });

/// Of nodes with a label, a graph in which node 0 is one with `x`; and the same without.
fn labelled(graph: &Graph, is_there: bool) -> Mutations {
    let mut record = Mutations::default();
    record.set_label(node(0), graph.symbols().intern("A"), is_there);
    record.set_property(node(0), graph.symbols().intern("x"), &if is_there { Value::Integer(2) } else { Value::Null });
    record
}

/// An aggregate without keys has a row of the empty graph, too. Its output may be past what the log knows of the sum: then it was
/// told nothing of that row, which the sum lacks all the same. It was taken for known, and the end of the sum cancelled what
/// nobody had been told of.
#[test]
fn what_the_sum_lacks_is_found_again_however_far_the_output_is() {
    for text in ["MATCH (n:A) RETURN max(n.x) AS m", "MATCH (n:B) RETURN count(*) AS m UNION MATCH (n:A) RETURN max(n.x) AS m"] {
        // Whether the row was taken before the process ended, and whether the sum had been ended by then.
        for (taken, ended) in [(false, true), (true, true), (true, false), (false, false)] {
            let directory = tempfile::tempdir().unwrap();
            let case = format!("{text}, taken: {taken}, ended: {ended}");
            {
                let engine = open(directory.path(), 1);
                engine.start().unwrap();
                let graph = engine.default_graph();
                let mut other = Mutations::default();
                other.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(1));
                let query = summed_since(&graph, text, other);
                wait_for_rest(&query);
                if ended {
                    query.resume().unwrap();
                }
            }
            // The output gets past the very first tick, and that comes into the log.
            {
                let engine = open(directory.path(), 1);
                let graph = engine.default_graph();
                let query = again(&graph, text);
                engine.start().unwrap();
                wait_for_rest(&query);
                if taken {
                    let batch = query.next(Duration::from_secs(20)).unwrap().expect("at least progress");
                    assert!(batch.rows.is_empty(), "{case}: {batch:?}");
                }
                query.set_delivered(OUTPUT, Tick(1), Position::default(), true);
                let upper = graph.apply(labelled(&graph, true), 1).unwrap();
                graph.wait_durable(upper).unwrap();
            }
            let engine = open(directory.path(), 1);
            let graph = engine.default_graph();
            let query = again(&graph, text);
            engine.start().unwrap();
            if !ended {
                wait_for_rest(&query);
                query.resume().unwrap();
            }
            let upper = graph.apply(labelled(&graph, false), 1).unwrap();
            let row = |value: Value, count| (vec![value], count);
            let comes = Rows::from([row(Value::Integer(2), 1), row(Value::Null, -1)]);
            let goes = Rows::from([row(Value::Integer(2), -1), row(Value::Null, 1)]);
            let mut found = collect(&query, upper);
            found.retain(|_, rows| !rows.is_empty());
            assert_eq!(found.into_values().collect::<Vec<_>>(), [comes, goes], "{case}");
        }
    }
}

/// Where what the sum lacks was there at the checkpoint a start begins with, and has gone since, it is found as well.
#[test]
fn what_the_sum_lacks_of_a_checkpoint_is_found_again() {
    const TEXT: &str = "MATCH (n:A) RETURN n.x AS x";
    let directory = tempfile::tempdir().unwrap();
    {
        let engine = open(directory.path(), 1);
        engine.start().unwrap();
        let graph = engine.default_graph();
        let upper = graph.apply(labelled(&graph, true), 1).unwrap();
        graph.wait_durable(upper).unwrap();
        checkpoint::make(&graph, upper).unwrap();
        // Since then it has gone.
        let mut other = Mutations::default();
        other.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(1));
        let query = summed_since(&graph, TEXT, other);
        let upper = graph.apply(labelled(&graph, false), 1).unwrap();
        query.set_delivered(OUTPUT, upper, Position::default(), true);
        graph.apply(Mutations::default(), 1).unwrap();
    }
    let engine = open(directory.path(), 1);
    let graph = engine.default_graph();
    let query = again(&graph, TEXT);
    engine.start().unwrap();
    wait_for_rest(&query);
    query.resume().unwrap();
    let found: Vec<Rows> = collect(&query, query.summed_until()).into_values().filter(|rows| !rows.is_empty()).collect();
    assert_eq!(found, [Rows::from([(vec![Value::Integer(2)], -1)])]);
}

/// Whoever takes results works from the installation on. The end of the sum was committed then, and reached the workers before
/// the ticks that were replayed.
#[test]
fn nothing_is_committed_before_the_log_has_been_replayed() {
    const TEXT: &str = "MATCH (n:A) RETURN max(n.x) AS m";
    let directory = tempfile::tempdir().unwrap();
    {
        let engine = open(directory.path(), 1);
        engine.start().unwrap();
        let graph = engine.default_graph();
        summed_since(&graph, TEXT, labelled(&graph, true));
    }
    for ahead in [false, true] {
        let engine = open(directory.path(), 2);
        let graph = engine.default_graph();
        let query = again(&graph, TEXT);
        wait_for_rest(&query);
        let is_refused = || {
            assert!(matches!(query.resume(), Err(EngineError::Starting)) && query.is_summed());
            assert!(matches!(query.pause(), Ok(false)), "it is one already");
            assert!(matches!(graph.apply(Mutations::default(), 1), Err(EngineError::Starting)));
        };
        is_refused();
        if ahead {
            engine.open_reads().unwrap();
            is_refused();
        }
        engine.start().unwrap();
        if ahead {
            assert!(query.resume().unwrap());
            assert_eq!(collect(&query, query.summed_until()).into_values().map(|rows| rows.len()).sum::<usize>(), 0);
        }
    }
}

fn deliver_nothing(query: &StandingQuery, graph: &Graph) {
    query.set_delivered(OUTPUT, graph.next(), Position::default(), true);
    let upper = graph.apply(Mutations::default(), 1).unwrap();
    collect(query, upper);
    query.set_delivered(OUTPUT, upper.next(), Position::default(), true);
}
