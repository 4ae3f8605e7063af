//! Proof of exactness: what standing queries report, tick by tick, is what a naive evaluation of the whole graph before
//! and after each record says; whatever the number of workers, and however records are batched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_standing};
use weir_engine::evaluate::Prepared;
use weir_engine::reference::{ReferenceGraph, matches};
use weir_engine::store::InMemory;
use weir_engine::{Engine, Options, Standing, StandingQuery, Start};
use weir_model::{Mutations, NodeId, Plan, QueryId, Text, Tick, Value};

/// One of each: local conditions, chains, trees, branches that must differ, values that change, absent properties.
const QUERIES: &[(StandingMode, &str)] = &[
    (StandingMode::DistinctId, "MATCH (n:A) RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n) WHERE n.x <> 1 RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (n:A {x: 1})-[:r]->(m:B) RETURN DISTINCT id(n) AS id"),
    (StandingMode::DistinctId, "MATCH (a)-[:r]->(b)-[:r]->(c)-[:r]->(d) WHERE exists(a.x) RETURN DISTINCT id(a) AS id"),
    (StandingMode::DistinctId, "MATCH (a)<-[:r]-(n)-[:r]->(b) WHERE n.y IS NULL RETURN DISTINCT id(n) AS id"),
    (StandingMode::MultipleValues, "MATCH (n) WHERE n.x > 1 RETURN id(n) AS id, n.x AS x, n.y AS y"),
    (StandingMode::MultipleValues, "MATCH (n) RETURN properties(n) AS all"),
    (StandingMode::MultipleValues, "MATCH (n:A)-[:r]->(m) WHERE n.x < m.x RETURN id(n) AS n, id(m) AS m, m.y AS y"),
    (StandingMode::MultipleValues, "MATCH (a)-[:r]->(b)<-[:s]-(c) RETURN a.x + c.x AS sum, b.y AS y"),
    (StandingMode::MultipleValues, "MATCH (a)<-[:r]-(n)-[:r]->(b) WHERE id(a) <> id(b) RETURN id(a) AS a, id(b) AS b"),
    (StandingMode::MultipleValues, "MATCH (a)-[:r]->(b)-[:s]->(c) WHERE id(a) = id(c) RETURN id(a) AS a, a.x AS x"),
];

const NODES: u64 = 14;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Ids spread like hashes; node 0 is a supernode that half of all edges touch.
fn node(n: u64) -> NodeId {
    NodeId::new((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), n)
}

/// The changes of one record: one to four of any kind, deletions included.
fn random_record(random: &mut Random, engine: &Engine, out: &mut Mutations) {
    let symbols = engine.default_graph();
    let symbol = |name: &str| symbols.symbols().intern(name);
    for _ in 0..=random.below(4) {
        let target = node(random.below(NODES));
        let hub = if random.below(2) == 0 { node(0) } else { node(random.below(NODES)) };
        let (source, other) = if random.below(2) == 0 { (target, hub) } else { (hub, target) };
        match random.below(10) {
            0 => out.set_label(target, symbol(if random.below(2) == 0 { "A" } else { "B" }), random.below(3) > 0),
            1..=3 => {
                let value = match random.below(6) {
                    0 => Value::Null,
                    1 => Value::text("a text that is too long to lie inline"),
                    2 => Value::Float(1.0),
                    n => Value::Integer(n as i64 - 3),
                };
                out.set_property(target, symbol(if random.below(2) == 0 { "x" } else { "y" }), &value);
            }
            4 => {
                out.clear_properties(target);
                out.set_property(target, symbol("x"), &Value::Integer(random.below(4) as i64));
            }
            5 if random.below(4) == 0 => out.clear_properties(target),
            6 | 7 => out.set_edge(source, symbol(if random.below(3) > 0 { "r" } else { "s" }), other, 0, true),
            8 => out.set_edge(source, symbol(if random.below(3) > 0 { "r" } else { "s" }), other, 0, false),
            _ => out.set_edge(target, symbol("r"), target, 0, random.below(2) == 0),
        }
    }
}

type Rows = BTreeMap<Vec<Value>, i64>;

/// The changes of each query at each record, as the oracle sees them.
fn expected(plans: &[Plan], records: &[Mutations], engine: &Engine) -> Vec<BTreeMap<usize, Rows>> {
    let graph = engine.default_graph();
    plans
        .iter()
        .map(|plan| {
            let prepared = Prepared::new(plan.clone(), graph.symbols());
            let mut reference = ReferenceGraph::new();
            let mut before = Rows::new();
            let mut changes = BTreeMap::new();
            for (index, record) in records.iter().enumerate() {
                reference.apply_all(record);
                let after = matches(&prepared, &reference, graph.symbols(), graph.ids()).expect("a plan the oracle knows");
                let mut change = after.clone();
                for (row, count) in &before {
                    *change.entry(row.clone()).or_default() -= count;
                }
                change.retain(|_, count| *count != 0);
                if !change.is_empty() {
                    changes.insert(index, change);
                }
                before = after;
            }
            changes
        })
        .collect()
}

fn compile(mode: StandingMode, text: &str) -> Plan {
    match compile_standing(text, mode, &CompileOptions::default()) {
        Ok(standing) => standing.plan,
        Err(problems) => panic!("{text}: {}", problems[0]),
    }
}

fn install(engine: &Engine, plans: &[Plan], start: Start) -> Vec<StandingQuery> {
    let graph = engine.default_graph();
    let install = |(index, plan): (usize, &Plan)| {
        let id = QueryId(NodeId::new(index as u64, 7));
        let standing = Standing { id, plan: plan.clone(), cancellations: true, start, outputs: Vec::new() };
        graph.install(standing).expect("a maintainable query")
    };
    plans.iter().enumerate().map(install).collect()
}

/// Everything a query reports before `upper`, net, by tick.
fn collect(query: &StandingQuery, upper: Tick) -> BTreeMap<Tick, Rows> {
    let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
    loop {
        let batch = query.next(Duration::from_secs(20)).expect("a living query").expect("results within 20 s");
        for result in batch.rows {
            let count = found.entry(result.tick).or_default().entry(result.row.0.to_vec()).or_default();
            *count += if result.positive { 1 } else { -1 };
        }
        if batch.upper >= upper {
            return found;
        }
    }
}

fn run(seed: u64, count: usize, settings: &[(usize, usize)]) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let mut random = Random(seed);
    let records: Vec<Mutations> = (0..count)
        .map(|_| {
            let mut record = Mutations::default();
            random_record(&mut random, &scratch, &mut record);
            record
        })
        .collect();
    let plans: Vec<Plan> = QUERIES.iter().map(|(mode, text)| compile(*mode, text)).collect();
    let expected = expected(&plans, &records, &scratch);
    let changes: usize = expected.iter().flat_map(|query| query.values()).map(|rows| rows.len()).sum();
    assert!(changes > count, "the random graph hardly matches anything: {changes} changes in {count} records");

    for (workers, batch) in settings {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: *workers, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        // The same symbols as the records were made with.
        (0..scratch.default_graph().symbols().len())
            .for_each(|i| drop(graph.symbols().intern(&scratch.default_graph().symbols().name(weir_model::Symbol(i as u32)))));
        let queries = install(&engine, &plans, Start::WholeGraph);
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

/// The records as one batch.
fn concatenate(records: &[Mutations]) -> Mutations {
    let mut all = Mutations::default();
    for (index, record) in records.iter().enumerate() {
        all.start_record(index as u32);
        all.append(record);
    }
    all
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
    let queries = install(&engine, &[plan], Start::Now);
    let mut record = Mutations::default();
    record.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(5));
    let upper = graph.apply(record, 1).unwrap();
    let batch = loop {
        let batch = queries[0].next(Duration::from_secs(10)).unwrap().unwrap();
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
