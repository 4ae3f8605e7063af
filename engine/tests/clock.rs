//! Conditions on the current time: every result that time alone brings comes, at the first tick of its millisecond, and nothing
//! else does; with one worker and several, in a stream and at rest, and across restarts.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use common::{Random, Rows, ad_hoc, answer_at, collect, compile, concatenate, install, node, share_symbols};
use weir_cypher_compiler::StandingMode;
use weir_engine::evaluate::Prepared;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::InMemory;
use weir_engine::{Engine, Graph, Options, Start};
use weir_model::{Mutations, Plan, Tick, Value};

/// `t` is a time in milliseconds, `d` the same as an instant.
const CLOCKED: &[&str] = &[
    // Not seen for so long.
    "MATCH (n:A) WHERE timestamp() - n.t > 120 RETURN id(n) AS n",
    "MATCH (n) WHERE n.t <= timestamp() RETURN n.t AS t",
    // A window that slides, and how much is in it.
    "MATCH (n) WHERE n.t >= timestamp() - 90 AND n.t < timestamp() + 40 RETURN count(*) AS c, max(n.x) AS x",
    "MATCH (n)-[:r]->(m) WHERE timestamp() > m.t - 50 WITH n, count(m) AS c WHERE c > 1 RETURN id(n) AS n, c",
    // The absence of something in such a window.
    "MATCH (n:A) WHERE NOT EXISTS { (n)-[:r]->(m) WHERE m.t > timestamp() - 150 } RETURN id(n) AS n",
    "MATCH (n:A) RETURN id(n) AS n, COUNT { (n)--(m) WHERE m.t < timestamp() } AS c",
    "MATCH (n:A) OPTIONAL MATCH (n)-[:s]->(m) WHERE m.t > timestamp() RETURN id(n) AS n, m",
    // Instants, and durations.
    "MATCH (n) WHERE n.d < datetime() - duration('PT0.1S') RETURN id(n) AS n",
    "MATCH (n) WHERE datetime().epochMillis >= n.t + coalesce(n.x, 0) * 20 RETURN DISTINCT n.x AS x",
    // As a value, several at a time, and in what stands above.
    "MATCH (n:A) RETURN n.t AS t, n.t < timestamp() AS past, CASE WHEN n.t > timestamp() + 30 THEN 'later' ELSE 'soon' END AS when",
    "MATCH (n) RETURN sum(CASE WHEN timestamp() >= n.t THEN 1 ELSE 0 END) AS past",
    "MATCH (n) WHERE n.t > timestamp() OR n.x = 1 OR timestamp() > n.t + 100 RETURN id(n) AS n",
    "MATCH (a:A), (b:B) WHERE a.x = b.x AND a.t + b.t < 2 * timestamp() RETURN id(a) AS a, id(b) AS b",
    "MATCH (n:A) UNWIND [x IN [10, 60, 110] WHERE timestamp() - x > n.t] AS late RETURN id(n) AS n, late",
    "MATCH (n) WHERE timestamp() > n.t WITH n ORDER BY n.t, id(n) LIMIT 2 RETURN id(n) AS n",
    "MATCH (n:A)-[:r*1..2]->(m) WHERE m.t < timestamp() RETURN id(n) AS n, id(m) AS m",
    "MATCH (n:A) WHERE timestamp() > n.t RETURN n.x AS x UNION MATCH (n:B) WHERE timestamp() < n.t RETURN n.x AS x",
    // In clauses of parts, under an order that goes on, and along paths.
    "MATCH (n:A) WHERE timestamp() > n.t RETURN n.t AS t ORDER BY t DESC LIMIT 1 UNION ALL MATCH (n:B) WHERE timestamp() < n.t RETURN n.t AS t ORDER BY t LIMIT 1",
    "MATCH (n) WHERE timestamp() > n.t WITH n ORDER BY n.t DESC, id(n) RETURN n.t AS t LIMIT 2",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE b.t > timestamp() - 60 RETURN id(a) AS a, count(b) AS c, max(b.x) AS x",
    "MATCH (a) OPTIONAL MATCH (a)-[:r]->(b) WHERE b.t > timestamp() - 80 AND b.x >= 0 RETURN a.x AS x, count(*) AS n, count(b) AS c",
    "MATCH (a) RETURN id(a) AS a, COUNT { MATCH (a)-[:r]->(b) WHERE b.t > timestamp() - 60 WITH DISTINCT b.t AS t RETURN t } AS c",
    "MATCH (a) RETURN id(a) AS a, COLLECT { MATCH (a)-[:r]->(b) WHERE b.t < timestamp() RETURN b.t AS t ORDER BY t LIMIT 2 } AS ts",
    "MATCH p = shortestPath((a:A)-[:r*..3]->(b)) WHERE all(n IN nodes(p) WHERE n.t IS NULL OR n.t < timestamp() + 20) RETURN id(a) AS a, id(b) AS b, length(p) AS l",
    "MATCH (a:A), (b:B) OPTIONAL MATCH p = shortestPath((a)-[:r*..3]->(b)) WHERE all(n IN nodes(p) WHERE n.t IS NULL OR n.t > timestamp() - 60) RETURN id(a) AS a, id(b) AS b, length(p) AS l",
];

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
}

fn plans() -> Vec<Plan> {
    CLOCKED.iter().map(|text| compile(StandingMode::AnyQuery, text)).collect()
}

fn record(random: &mut Random, graph: &Graph) -> Mutations {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut out = Mutations::default();
    for _ in 0..=random.below(3) {
        let (one, other) = (node(random.below(9)), node(random.below(9)));
        match random.below(12) {
            0 | 1 => out.set_label(one, symbol(if random.below(2) == 0 { "A" } else { "B" }), random.below(4) > 0),
            2 => out.set_property(one, symbol("x"), &Value::Integer(random.below(3) as i64)),
            3 => out.set_property(one, symbol("t"), &Value::Null),
            4..=7 => {
                let time = now() - 100 + random.below(300) as i64;
                let instant = format!("RETURN datetime({{epochMillis: {time}}}) AS d");
                let prepared = Prepared::new(ad_hoc(&instant), graph.symbols());
                let instant = answer_at(&prepared, &ReferenceGraph::new(), graph, 0).into_keys().next().unwrap().remove(0);
                out.set_property(one, symbol("t"), &Value::Integer(time));
                out.set_property(one, symbol("d"), &instant);
            }
            8 | 9 => out.set_edge(one, symbol("r"), other, 0, true),
            10 => out.set_edge(one, symbol("s"), other, 0, true),
            _ => out.set_edge(one, symbol("r"), other, 0, false),
        }
    }
    out
}

/// What happened, in the order of ticks.
#[derive(Default)]
struct Past {
    records: Vec<(Tick, Mutations)>,
}

impl Past {
    /// Commits some records together.
    fn commit(&mut self, random: &mut Random, graph: &Graph) {
        let records: Vec<Mutations> = (0..=random.below(3)).map(|_| record(random, graph)).collect();
        let upper = graph.apply(concatenate(&records), records.len()).unwrap();
        let first = upper.0 - records.len() as u64;
        self.records.extend((first..).map(Tick).zip(records));
    }

    /// The changes of an answer at each tick at which it changes, those of the milliseconds between included, before `until`.
    fn expected(&self, text: &str, graph: &Graph, until: Tick) -> BTreeMap<Tick, Rows> {
        let prepared = Prepared::new(ad_hoc(text), graph.symbols());
        let (mut reference, mut before, mut changes) = (ReferenceGraph::new(), Rows::new(), BTreeMap::new());
        let mut records = self.records.iter().peekable();
        let begin = records.peek().map_or(0, |(tick, _)| tick.millis());
        let mut look = |reference: &ReferenceGraph, tick: Tick| {
            let after = answer_at(&prepared, reference, graph, tick.millis() as i64);
            let mut change = after.clone();
            for (row, count) in &before {
                *change.entry(row.clone()).or_default() -= count;
            }
            change.retain(|_, count| *count != 0);
            if !change.is_empty() {
                changes.insert(tick, change);
            }
            before = after;
        };
        for millis in begin..=until.millis() {
            let is_within = (self.records[0].0..until).contains(&Tick::at_millis(millis));
            if is_within && records.peek().is_none_or(|(tick, _)| *tick > Tick::at_millis(millis)) {
                look(&reference, Tick::at_millis(millis));
            }
            while let Some((tick, record)) = records.next_if(|(tick, _)| tick.millis() == millis) {
                reference.apply_all(record);
                look(&reference, *tick);
            }
        }
        changes
    }
}

/// Net, and what an empty graph answers at the tick of the first record.
fn settled(found: BTreeMap<Tick, Rows>, first: Tick) -> BTreeMap<Tick, Rows> {
    let mut settled: BTreeMap<Tick, Rows> = BTreeMap::new();
    for (tick, rows) in found {
        let at = settled.entry(tick.max(first)).or_default();
        rows.into_iter().for_each(|(row, count)| *at.entry(row).or_default() += count);
    }
    settled.values_mut().for_each(|rows| rows.retain(|_, count| *count != 0));
    settled.retain(|_, rows| !rows.is_empty());
    settled
}

#[test]
fn what_time_brings_comes_at_its_millisecond() {
    for (seed, workers) in [(0x9E37_79B9_7F4A_7C15, 1), (0x2545_F491_4F6C_DD1D, 2), (88_172_645_463_325_252, 3)] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let queries = install(&engine, &plans(), Start::WholeGraph, &[]);
        let (mut random, mut past) = (Random(seed), Past::default());
        for _ in 0..60 {
            past.commit(&mut random, &graph);
            std::thread::sleep(Duration::from_millis(random.below(12)));
        }
        // At rest, time alone goes on until all has turned.
        std::thread::sleep(Duration::from_millis(450));
        let until = graph.apply(Mutations::default(), 1).unwrap();
        for (query, text) in queries.iter().zip(CLOCKED) {
            let found = settled(collect(query, until), past.records[0].0);
            let expected = past.expected(text, &graph, until);
            assert_eq!(found, expected, "{text} with {workers} workers");
            assert!(
                expected.keys().filter(|tick| tick.0 & 0xF_FFFF == 0).count() > 3,
                "{text}: time alone brought next to nothing"
            );
        }
        engine.shutdown().unwrap();
    }
}

#[test]
fn it_comes_within_milliseconds_when_nothing_else_happens() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let query = install(&engine, &[compile(StandingMode::AnyQuery, CLOCKED[1])], Start::WholeGraph, &[]).remove(0);
    let mut late = Vec::new();
    for _ in 0..20 {
        let due = now() + 30;
        let mut record = Mutations::default();
        record.set_property(node(1), graph.symbols().intern("t"), &Value::Integer(due));
        let committed = Tick(graph.apply(record, 1).unwrap().0 - 1);
        let deadline = Instant::now() + Duration::from_secs(30);
        'found: loop {
            assert!(Instant::now() < deadline, "nothing came");
            for result in query.next(Duration::from_millis(100)).unwrap().into_iter().flat_map(|batch| batch.rows) {
                if result.positive && result.row.0.as_slice() == [Value::Integer(due)] {
                    // On a busy machine it may be over by the time it is written.
                    assert_eq!(result.tick, Tick::at_millis(due as u64).max(committed), "not early, not late");
                    break 'found;
                }
            }
        }
        late.push(now() - due);
    }
    late.sort_unstable();
    assert!(late[0] >= 0, "before its time: {late:?}");
    assert!(late[late.len() / 2] < 50, "late by {late:?} ms");
    engine.shutdown().unwrap();
}

/// What turns for very many rows at once takes longer than a turn of the stages does.
#[test]
fn what_takes_long_holds_up_nothing_that_comes_later() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let texts =
        ["MATCH (a:A) WHERE timestamp() > a.t RETURN id(a) AS a", "MATCH (b:B) WHERE timestamp() > b.t RETURN id(b) AS b"];
    let plans = texts.map(|text| compile(StandingMode::AnyQuery, text));
    let queries = install(&engine, &plans, Start::WholeGraph, &[]);
    let (mut found, rounds) = ([0, 0], 4);
    for round in 0..rounds {
        let due = now() + 300;
        let mut record = Mutations::default();
        let mut add = |n: u64, label: &str, due: i64| {
            record.set_label(node(n + round * 20_000), symbol(label), true);
            record.set_property(node(n + round * 20_000), symbol("t"), &Value::Integer(due));
        };
        (0..15_000).for_each(|n| add(n, "A", due));
        add(15_000, "A", due + 150);
        add(15_001, "B", due + 200);
        graph.apply(record, 1).unwrap();
        let wanted = [(round as usize + 1) * 15_001, round as usize + 1];
        let deadline = Instant::now() + Duration::from_secs(30);
        while found != wanted {
            assert!(Instant::now() < deadline, "round {round}: {found:?} of {wanted:?} came");
            for (query, found) in queries.iter().zip(&mut found) {
                let batch = query.next(Duration::from_millis(5)).unwrap();
                *found += batch.map_or(0, |batch| batch.rows.iter().filter(|row| row.positive).count());
            }
        }
    }
    engine.shutdown().unwrap();
}

#[cfg(feature = "rocks-db")]
#[test]
fn restarts_change_nothing() {
    use weir_engine::checkpoint;
    use weir_engine::store::{RocksDb, RocksDbOptions};

    let directory = tempfile::tempdir().unwrap();
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    for name in ["A", "B", "x", "t", "d", "r", "s"] {
        scratch.default_graph().symbols().intern(name);
    }
    let (mut random, mut past) = (Random(0x1234_5678_9ABC_DEF1), Past::default());
    let mut found: Vec<BTreeMap<Tick, Rows>> = vec![BTreeMap::new(); CLOCKED.len()];
    let lives = 6;
    let mut until = Tick::ZERO;
    for life in 0..lives {
        let begun = Instant::now();
        let store = loop {
            match RocksDb::open(RocksDbOptions::new(directory.path())) {
                Ok(store) => break store,
                Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "{problem}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let engine = Engine::open(Arc::new(store), Options { workers: 1 + life % 2, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let start = if life == 0 { Start::WholeGraph } else { Start::Resume };
        let queries = install(&engine, &plans(), start, &["out"]);
        engine.start().unwrap();
        for _ in 0..15 {
            past.commit(&mut random, &graph);
            std::thread::sleep(Duration::from_millis(random.below(12)));
        }
        if life + 1 == lives {
            std::thread::sleep(Duration::from_millis(450));
        }
        until = graph.apply(Mutations::default(), 1).unwrap();
        graph.wait_durable(until).unwrap();
        for (query, found) in queries.iter().zip(&mut found) {
            // Some outputs stop noting somewhere: what they were given after that comes again, the same.
            let stop = if life + 1 < lives && random.below(2) == 0 {
                past.records[random.below(past.records.len() as u64) as usize].0
            } else {
                Tick::MAX
            };
            let (from, _) = query.delivered("out").unwrap();
            found.split_off(&from);
            loop {
                let batch = query.next(Duration::from_secs(20)).unwrap().expect("results within 20 s");
                for result in batch.rows.iter().filter(|row| row.tick >= from) {
                    let count = found.entry(result.tick).or_default().entry(result.row.0.to_vec()).or_default();
                    *count += if result.positive { 1 } else { -1 };
                }
                if batch.upper <= stop {
                    query.set_delivered("out", batch.upper.max(from), Default::default(), true);
                }
                if batch.upper >= until {
                    break;
                }
            }
        }
        if random.below(2) == 0 {
            let delivered = queries.iter().map(|query| query.delivered("out").unwrap().0).min().unwrap();
            checkpoint::make(&graph, delivered.min(until)).unwrap();
        }
        if random.below(2) == 0 {
            engine.shutdown().unwrap();
        }
        drop((queries, graph, engine));
        // Time goes on meanwhile.
        std::thread::sleep(Duration::from_millis(random.below(80)));
    }
    let graph = scratch.default_graph();
    for (found, text) in found.into_iter().zip(CLOCKED) {
        assert_eq!(settled(found, past.records[0].0), past.expected(text, &graph, until), "{text}");
    }
}
