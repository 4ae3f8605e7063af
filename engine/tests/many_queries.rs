//! Many standing queries at once, which differ in constants and share what they can: installed and dropped while a random stream
//! runs, each reports at every tick what the ad-hoc query answers, from its installation on.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Random, Rows, ad_hoc, answer, collect, compile, node, share_symbols};
use weir_cypher_compiler::StandingMode;
use weir_engine::evaluate::Prepared;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::InMemory;
use weir_engine::{Engine, Graph, Options, Standing, StandingQuery, Start};
use weir_model::plan::Plan;
use weir_model::{Mutations, NodeId, QueryId, Tick, Value};

const NODES: u64 = 9;

const WORDS: [&str; 4] = ["a", "b", "a text of more than thirteen bytes", "a text of more than thirteen bytes too"];

fn random_value(random: &mut Random) -> Value {
    match random.below(9) {
        0 => Value::Null,
        1 => Value::Float(random.below(4) as f64 / 2.0),
        2 | 3 => Value::text(WORDS[random.below(4) as usize]),
        4 => Value::Boolean(random.below(2) == 0),
        5 => Value::list(vec![Value::Integer(random.below(2) as i64)]),
        _ => Value::Integer(random.below(5) as i64 - 1),
    }
}

/// A constant as it is written, and as often as not the same as another's.
fn random_constant(random: &mut Random) -> String {
    match random_value(random) {
        Value::Null => "null".to_owned(),
        Value::Float(x) => format!("{x:?}"),
        Value::Text(text) => format!("'{text}'"),
        Value::Boolean(b) => b.to_string(),
        Value::List(items) => format!("[{}]", if items[0] == Value::Integer(0) { 0 } else { 1 }),
        Value::Integer(n) => n.to_string(),
        other => panic!("{other:?}"),
    }
}

/// One of a few shapes, with constants of its own.
fn random_query(random: &mut Random) -> String {
    let (shape, id) = (random.below(19), node(random.below(NODES)));
    let mut c = || random_constant(random);
    match shape {
        0 => format!("MATCH (n:A) WHERE n.x = {} RETURN id(n) AS n, n.y AS y", c()),
        1 => format!("MATCH (n:A) WHERE n.x = {} AND n.y = {} RETURN id(n) AS n", c(), c()),
        2 => format!("MATCH (n) WHERE n.x > {} RETURN id(n) AS n", c()),
        3 => format!("MATCH (n) WHERE {} <= n.x AND n.x < {} RETURN id(n) AS n, n.x AS x", c(), c()),
        4 => format!("MATCH (n) WHERE n.y = {} AND n.x >= {} RETURN id(n) AS n", c(), c()),
        5 => format!("MATCH (n:A) WHERE n.x IN [{}, {}, {}] RETURN id(n) AS n", c(), c(), c()),
        6 => "MATCH (n) WHERE n.x STARTS WITH 'a text' RETURN id(n) AS n".to_owned(),
        7 => format!("MATCH (a)-[:r]->(b)-[:r]->(c) WHERE a.x = {} RETURN id(a) AS a, id(c) AS c", c()),
        8 => format!("MATCH (a)-[:r]->(b)-[:r]->(c) WHERE a.x = {} AND c.y = {} RETURN id(a) AS a, id(b) AS b", c(), c()),
        9 => format!("MATCH (a {{x: {}}})-[:r]->(b {{x: {}}})-[:r]->(a) RETURN id(a) AS a", c(), c()),
        10 => format!("MATCH (n:A) WHERE n.x = {} RETURN n.y AS y, count(*) AS c", c()),
        11 => format!("MATCH (n)-[:r]->(m) WHERE id(m) = '{id}' RETURN id(n) AS n, m.x AS x"),
        12 => format!("MATCH (n)-[:r]->(m) WHERE n.x = {} AND '{id}' = strId(m) RETURN id(n) AS n", c()),
        13 => format!("MATCH (n:A)-[:r]->(m)-[:r]->(o) WHERE id(n) = quineId('{id}') RETURN id(m) AS m, id(o) AS o"),
        // What is asked of the graph row by row, each of which looks at few nodes.
        14 => format!("MATCH (n:A) WHERE id(n) = '{id}' AND n.x = {} RETURN n.y AS y", c()),
        15 => format!("MATCH (n:A) WHERE n.x = {} AND NOT EXISTS {{ (n)-[:r]->({{y: {}}}) }} RETURN id(n) AS n", c(), c()),
        16 => format!("MATCH (n) WHERE n.x = {} RETURN id(n) AS n, COUNT {{ (n)-[:r]->(:A) }} AS c", c()),
        17 => format!("MATCH (n)-[:r]->(m) WHERE n.y = {} AND NOT EXISTS {{ (m)-[:r]->(n) }} RETURN id(n) AS n, id(m) AS m", c()),
        _ => format!("MATCH (n) WHERE n.x = {} OPTIONAL MATCH (n)-[:r]->(m:A) RETURN id(n) AS n, id(m) AS m", c()),
    }
}

fn random_record(random: &mut Random, graph: &Graph, nodes: u64) -> Mutations {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut out = Mutations::default();
    for _ in 0..=random.below(3) {
        let (source, target) = (node(random.below(nodes)), node(random.below(nodes)));
        match random.below(8) {
            0 => out.set_label(target, symbol("A"), random.below(3) > 0),
            1 | 2 => out.set_property(target, symbol("x"), &random_value(random)),
            3 => out.set_property(target, symbol("y"), &random_value(random)),
            4 if random.below(3) == 0 => out.clear_properties(target),
            5 => out.set_edge(source, symbol("r"), target, 0, false),
            _ => out.set_edge(source, symbol("r"), target, 0, true),
        }
    }
    out
}

struct Watched {
    query: StandingQuery,
    prepared: Prepared,
    text: String,
    /// The net rows after each record since its installation.
    wanted: Vec<(Tick, Rows)>,
    /// Whether what was there at its installation is reported.
    whole: bool,
    /// What was there at its installation.
    before: Rows,
}

/// A query before it is installed.
struct Ready {
    plan: Plan,
    prepared: Prepared,
    text: String,
    before: Rows,
}

impl Ready {
    fn new(graph: &Graph, reference: &ReferenceGraph, text: String) -> Ready {
        let plan = compile(StandingMode::AnyQuery, &text);
        let prepared = Prepared::new(ad_hoc(&text), graph.symbols());
        let before = answer(&prepared, reference, graph);
        Ready { plan, prepared, text, before }
    }

    fn install(self, graph: &Graph, number: u64, whole: bool) -> Watched {
        let Ready { plan, prepared, text, before } = self;
        let id = QueryId(NodeId::new(number, 11));
        let start = if whole { Start::WholeGraph } else { Start::Now };
        let query = graph.install(Standing { id, plan, cancellations: true, start, outputs: Vec::new() }).unwrap();
        Watched { query, prepared, text, wanted: Vec::new(), whole, before }
    }
}

impl Watched {
    fn install(graph: &Graph, reference: &ReferenceGraph, number: u64, text: String, whole: bool) -> Watched {
        let ready = Ready::new(graph, reference, text);
        ready.install(graph, number, whole)
    }

    fn check(&self, upper: Tick, about: &str) {
        let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
        if !self.wanted.is_empty() || self.whole {
            found = collect(&self.query, upper);
        }
        let net = |rows: &Rows, into: &mut Rows| rows.iter().for_each(|(row, n)| *into.entry(row.clone()).or_default() += n);
        if self.whole {
            let mut sum = Rows::new();
            let mut at = found.into_iter().peekable();
            for (tick, wanted) in &self.wanted {
                while let Some((_, rows)) = at.next_if(|(found, _)| found <= tick) {
                    net(&rows, &mut sum);
                }
                sum.retain(|_, count| *count != 0);
                assert_eq!(&sum, wanted, "{} at {tick:?}, {about}", self.text);
            }
            return;
        }
        // What was there at the installation and ends does so silently, so only rows that were never there then are compared.
        for (tick, rows) in &found {
            assert!(self.wanted.iter().any(|(wanted, _)| wanted == tick), "{} at {tick:?}: {rows:?}, {about}", self.text);
        }
        let mut sum = Rows::new();
        let mut at = found.into_iter().peekable();
        for (tick, wanted) in &self.wanted {
            while let Some((_, rows)) = at.next_if(|(found, _)| found <= tick) {
                net(&rows, &mut sum);
            }
            let new = |rows: &Rows| -> Rows {
                let new = rows.iter().filter(|(row, count)| **count != 0 && !self.before.contains_key(*row));
                new.map(|(row, count)| (row.clone(), *count)).collect()
            };
            assert_eq!(new(&sum), new(wanted), "{} at {tick:?}, {about}", self.text);
        }
    }
}

fn run(seed: u64, workers: usize, at_once: usize) {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let mut random = Random(seed);
    let mut reference = ReferenceGraph::new();
    let mut watched: Vec<Watched> = Vec::new();
    let about = format!("seed {seed}, {workers} workers, {at_once} records at once");
    let mut changes = 0;
    // After the last record. What a query holds back is noted behind it, which no query has to answer for.
    let mut upper = graph.next();
    for round in 0..120u64 {
        for _ in 0..random.below(4) {
            let (text, whole) = (random_query(&mut random), random.below(2) == 0);
            watched.push(Watched::install(&graph, &reference, round * 10 + watched.len() as u64 * 10_000, text, whole));
        }
        if watched.len() > 30 {
            let gone = watched.swap_remove(random.below(watched.len() as u64) as usize);
            gone.check(upper, &about);
            graph.drop_standing(gone.query.id());
        }
        let records: Vec<Mutations> = (0..at_once).map(|_| random_record(&mut random, &graph, NODES)).collect();
        upper = graph.apply(common::concatenate(&records), records.len()).unwrap();
        for (record, number) in records.iter().zip(0..) {
            reference.apply_all(record);
            let tick = Tick(upper.0 - at_once as u64 + number);
            for one in &mut watched {
                let rows = answer(&one.prepared, &reference, &graph);
                changes += usize::from(one.wanted.last().is_some_and(|(_, last)| *last != rows));
                one.wanted.push((tick, rows));
            }
        }
    }
    assert!(changes > 100, "hardly anything happens: {changes}");
    watched.iter().for_each(|one| one.check(upper, &about));
    engine.shutdown().unwrap();
}

#[test]
fn queries_that_come_and_go_report_what_is_so() {
    for seed in [88172645463325252, 2685821657736338717] {
        for (workers, at_once) in [(1, 1), (1, 13), (2, 5), (4, 8)] {
            run(seed, workers, at_once);
        }
    }
}

/// Of a graph that is there, many are installed at once. They look through it together while it changes, and some go before they
/// have.
#[test]
fn queries_that_are_installed_at_once_find_what_was_there() {
    const MANY_NODES: u64 = 3000;
    for (seed, workers) in [(88172645463325252, 1), (2685821657736338717, 2), (1181783497276652981, 3)] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let mut random = Random(seed);
        let mut reference = ReferenceGraph::new();
        let change = |random: &mut Random, reference: &mut ReferenceGraph, count: usize| {
            let records: Vec<Mutations> = (0..count).map(|_| random_record(random, &graph, MANY_NODES)).collect();
            records.iter().for_each(|record| reference.apply_all(record));
            graph.apply(common::concatenate(&records), count).unwrap()
        };
        change(&mut random, &mut reference, 6000);
        let mut watched: Vec<Watched> = Vec::new();
        for burst in 0..3u64 {
            let mut texts: Vec<String> = (0..24).map(|_| random_query(&mut random)).collect();
            texts.push("MATCH (n:NotThere) RETURN id(n) AS n".to_owned());
            texts.push("MATCH (a)-[:notThere]->(b) RETURN id(a) AS a".to_owned());
            let ready: Vec<Ready> = texts.into_iter().map(|text| Ready::new(&graph, &reference, text)).collect();
            for (one, number) in ready.into_iter().zip(0..) {
                watched.push(one.install(&graph, burst * 1000 + number, true));
                if number % 5 == 0 {
                    change(&mut random, &mut reference, 2);
                }
            }
            let gone = watched.swap_remove(random.below(watched.len() as u64) as usize);
            graph.drop_standing(gone.query.id());
        }
        let upper = change(&mut random, &mut reference, 1);
        for one in &mut watched {
            one.wanted.push((Tick(upper.0 - 1), answer(&one.prepared, &reference, &graph)));
            one.check(upper, &format!("seed {seed}, {workers} workers"));
        }
        engine.shutdown().unwrap();
    }
}

/// One program for all, and a table of constants: what a thousand queries add must not be a thousand times what one does.
#[test]
fn a_thousand_queries_install_and_go() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 2, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    share_symbols(&scratch.default_graph(), &graph);
    let install = |n: u64| {
        let plan = compile(StandingMode::MultipleValues, &format!("MATCH (n) WHERE n.x = {n} RETURN id(n) AS id, n.x AS x"));
        let id = QueryId(NodeId::new(n, 12));
        graph.install(Standing { id, plan, cancellations: true, start: Start::Now, outputs: Vec::new() }).unwrap()
    };
    let queries: Vec<StandingQuery> = (0..1000).map(install).collect();
    let mut all = Mutations::default();
    for n in 0..2000u64 {
        all.start_record(n as u32);
        all.set_property(node(n), graph.symbols().intern("x"), &Value::Integer(n as i64));
    }
    let upper = graph.apply(all, 2000).unwrap();
    for (query, n) in queries.iter().zip(0..) {
        let found: Vec<Rows> = collect(query, upper).into_values().collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].keys().all(|row| row[1] == Value::Integer(n)));
    }
    for query in &queries {
        graph.drop_standing(query.id());
    }
    // Whoever still listens is told.
    let begun = Instant::now();
    while queries[999].next(Duration::from_millis(10)).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the query is still there");
    }
    engine.shutdown().unwrap();
}

#[test]
fn whoever_waits_for_results_can_be_roused() {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let plan = compile(StandingMode::MultipleValues, "MATCH (n) WHERE n.x = 1 RETURN id(n) AS id");
    let id = QueryId(NodeId::new(1, 12));
    let query = graph.install(Standing { id, plan, cancellations: true, start: Start::Now, outputs: Vec::new() }).unwrap();
    // What there is to say of the installation.
    while query.next(Duration::from_millis(50)).unwrap().is_some() {}
    let begun = Instant::now();
    std::thread::scope(|scope| {
        // A worker that was held up may say more of it yet.
        let waits = scope.spawn(|| while query.next(Duration::from_secs(60)).unwrap().is_some() {});
        std::thread::sleep(Duration::from_millis(20));
        query.rouse();
        waits.join().unwrap();
    });
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited for {:?}", begun.elapsed());
    engine.shutdown().unwrap();
}
