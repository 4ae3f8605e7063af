//! Proof of exactness: what standing queries report, tick by tick, is what a naive evaluation of the whole graph before
//! and after each record says; whatever the number of workers, and however records are batched.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use common::{QUERIES, Rows, collect, compile, concatenate, expected, install, node, plans, random_records, share_symbols};
use weir_cypher_compiler::StandingMode;
use weir_engine::store::InMemory;
use weir_engine::{Engine, HubBounds, Options, Stage, Standing, Start};
use weir_model::{Mutations, NodeId, Plan, QueryId, Text, Tick, Value};

fn run(seed: u64, count: usize, settings: &[(usize, usize)]) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed, count, &scratch.default_graph());
    let plans = plans();
    let expected = expected(&plans, &records, &scratch);
    let changes: usize = expected.iter().flat_map(|query| query.values()).map(|rows| rows.len()).sum();
    assert!(changes > count, "the random graph hardly matches anything: {changes} changes in {count} records");

    for (workers, batch) in settings {
        // The supernode is a hub, and others are.
        let hubs = HubBounds { edges_min: 3, ahead_min: 3, ..HubBounds::default() };
        let options = Options { workers: *workers, hubs, ..Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let queries = install(&engine, &plans, Start::WholeGraph, &[]);
        let mut ticks: Vec<Tick> = Vec::new();
        for records in records.chunks(*batch) {
            let upper = graph.apply(concatenate(records), records.len()).unwrap();
            ticks.extend((0..records.len()).map(|i| Tick(upper.0 - records.len() as u64 + i as u64)));
        }
        let upper = ticks.last().unwrap().next();
        for (index, query) in queries.iter().enumerate() {
            let mut found = collect(query, upper);
            found.values_mut().for_each(|rows| rows.retain(|_, count| *count != 0));
            found.retain(|_, rows| !rows.is_empty());
            let wanted: BTreeMap<Tick, Rows> =
                expected[index].iter().map(|(record, rows)| (ticks[*record], rows.clone())).collect();
            for (record, tick) in ticks.iter().enumerate() {
                assert_eq!(
                    found.get(tick),
                    wanted.get(tick),
                    "{}\nrecord {record} of seed {seed}, {workers} workers, batches of {batch}",
                    QUERIES[index].1
                );
            }
        }
        late_installation(&engine, &plans, &expected);
        engine.shutdown().unwrap();
    }
}

/// A query that is installed on a graph with data reports exactly what matches there.
fn late_installation(engine: &Engine, plans: &[Plan], expected: &[BTreeMap<usize, Rows>]) {
    let graph = engine.default_graph();
    let at = graph.next();
    for (index, plan) in plans.iter().enumerate() {
        let mut wanted = Rows::new();
        for (row, count) in expected[index].values().flatten() {
            *wanted.entry(row.clone()).or_default() += count;
        }
        wanted.retain(|_, count| *count != 0);
        let id = QueryId(NodeId::new(index as u64, 8));
        let standing = Standing { id, plan: plan.clone(), cancellations: true, start: Start::WholeGraph, outputs: Vec::new() };
        let query = graph.install(standing).unwrap();
        let mut found = Rows::new();
        collect(&query, at).into_values().flatten().for_each(|(row, count)| *found.entry(row).or_default() += count);
        assert_eq!(found, wanted, "installed late: {}", QUERIES[index].1);
        graph.drop_standing(id);
    }
}

#[test]
fn every_change_is_reported_once_at_its_tick() {
    for seed in [88172645463325252, 4101842887655102017, 2685821657736338717] {
        run(seed, 400, &[(1, 1), (1, 7), (1, 400), (2, 1), (2, 20), (2, 1000), (4, 3), (4, 100)]);
    }
}

#[test]
fn columns_carry_their_names() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 2, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let plan = compile(StandingMode::MultipleValues, "MATCH (n) WHERE n.x > 1 RETURN n.x AS x, n.y AS why");
    let queries = install(&engine, &[plan], Start::Now, &[]);
    let mut record = Mutations::default();
    record.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(5));
    let upper = graph.apply(record, 1).unwrap();
    let batch = loop {
        let batch = queries[0].next(Duration::from_secs(20)).unwrap().expect("results within 20 s");
        if batch.upper >= upper {
            break batch;
        }
    };
    let found: Vec<_> = batch.matches().collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].positive);
    assert_eq!(found[0].data.get("x"), Some(&Value::Integer(5)));
    assert_eq!(found[0].data.iter().map(|(name, _)| name.clone()).collect::<Vec<Text>>(), ["x", "why"]);
    engine.shutdown().unwrap();
}

/// More rows go on at other nodes than wait for those together, at two steps of the way.
#[test]
fn a_star_of_any_size_is_walked_to_its_ends() {
    const ENDS: u64 = 1500;
    for workers in [1, 2] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let text = "MATCH (a)-[:x]->(hub)-[:y]->(b)-[:z]->(c)-[:z]->(d) RETURN id(b) AS b, id(d) AS d";
        let [query] = &install(&engine, &[compile(StandingMode::MultipleValues, text)], Start::Now, &[])[..] else { panic!() };
        let kind = |name: &str| graph.symbols().intern(name);
        let mut star = Mutations::default();
        let mut wanted = Rows::new();
        for n in 0..ENDS {
            let [b, c, d] = [1, 2, 3].map(|step| node(n * 3 + step));
            star.set_edge(node(0), kind("y"), b, 0, true);
            star.set_edge(b, kind("z"), c, 0, true);
            star.set_edge(c, kind("z"), d, 0, true);
            wanted.insert(vec![Value::Id(b), Value::Id(d)], 1);
        }
        graph.apply(star, 1).unwrap();
        for (there, sign) in [(true, 1), (false, -1)] {
            let mut edge = Mutations::default();
            edge.set_edge(node(9_999), kind("x"), node(0), 0, there);
            let upper = graph.apply(edge, 1).unwrap();
            let wanted = wanted.iter().map(|(row, count)| (row.clone(), count * sign)).collect::<Rows>();
            assert_eq!(collect(query, upper).remove(&Tick(upper.0 - 1)), Some(wanted), "{workers} workers");
        }
        engine.shutdown().unwrap();
    }
}

/// Outputs that deliver the same results at the same moment are both in the figures.
#[test]
fn outputs_at_once_are_each_counted() {
    const ROUNDS: u64 = 20_000;
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let plan = compile(StandingMode::MultipleValues, "MATCH (n) WHERE n.x > 0 RETURN n.x AS x");
    let [query] = &install(&engine, &[plan], Start::Now, &["one", "other"])[..] else { panic!() };
    let together = &Barrier::new(2);
    std::thread::scope(|scope| {
        let (done, ends) = mpsc::sync_channel(2);
        let outputs = ["one", "other"].map(|output| {
            let (begin, rounds) = mpsc::sync_channel(1);
            let done = done.clone();
            scope.spawn(move || {
                for upper in rounds {
                    together.wait();
                    query.set_delivered(output, upper, Default::default(), true);
                    done.send(()).unwrap();
                }
            });
            begin
        });
        for round in 1..=ROUNDS {
            let mut record = Mutations::default();
            record.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(round as i64));
            let upper = graph.apply(record, 1).unwrap();
            collect(query, upper);
            outputs.iter().for_each(|output| output.send(upper).unwrap());
            outputs.iter().for_each(|_| ends.recv_timeout(Duration::from_secs(20)).unwrap());
        }
    });
    // Each record but the first takes back a row, too.
    let count = |stage| query.latency().of(stage).count();
    assert_eq!(count(Stage::Dataflow), 2 * ROUNDS - 1);
    assert_eq!(count(Stage::Delivered), 2 * (2 * ROUNDS - 1));
    engine.shutdown().unwrap();
}
