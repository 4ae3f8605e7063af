//! An index changes no answer: queries with it, without it and over plain maps agree after every record, deletions and
//! restarts included.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Random, Rows, answer, node, share_symbols};
use weir_cypher_compiler::{Options as CompileOptions, compile};
use weir_engine::evaluate::Prepared;
use weir_engine::reference::{ReferenceGraph, matches};
use weir_engine::store::{InMemory, Store};
use weir_engine::{Engine, EngineError, Graph, GraphOptions, Ingester, Options, QueryOptions};
use weir_model::{Mutations, Value};

/// Beginnings by label and by value, equality, lists, ranges, prefixes, several at once, and parts that are joined.
const QUERIES: &[&str] = &[
    "MATCH (n:A) RETURN id(n) AS id",
    "MATCH (n:A:B) RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x = 2 RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x = 2.0 RETURN id(n) AS id, n.y AS y",
    "MATCH (n:A {x: 1, y: 'text 1'}) RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x IN [1, 3, null, 'text 2', 3] RETURN id(n) AS id",
    "MATCH (n:B) WHERE n.x > 1 AND n.x <= 4 RETURN id(n) AS id, n.x AS x",
    "MATCH (n:A) WHERE 2 < n.x RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x >= 'text' AND n.x < 'text 3' RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.y STARTS WITH 'text 1' RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x = null RETURN id(n) AS id",
    "MATCH (n:A) WHERE n.x IS NULL RETURN id(n) AS id",
    "MATCH (a:A), (b:B) WHERE a.x = b.x RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A), (b) WHERE a.x = b.y RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(b:B) WHERE b.x = 1 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A {x: 1})-[:r]->(b)<-[:s]-(c:B) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
];

/// Questions the naive evaluator of patterns does not know.
const MORE_QUERIES: &[&str] = &[
    "MATCH (n:A) RETURN count(n) AS n",
    "MATCH (n:B) RETURN count(*) AS n",
    "UNWIND [1, 2, 3, 2, 'text 1'] AS x MATCH (n:A {x: x}) RETURN x, id(n) AS id",
    "UNWIND [1, 2, 3] AS x OPTIONAL MATCH (n:B) WHERE n.x = x + 1 RETURN x, id(n) AS id",
    "MATCH (a:A) MATCH (b:B) WHERE coalesce(b.x, 'none') = coalesce(a.x, 'none') RETURN id(a) AS a, id(b) AS b",
    "MATCH (n:A) RETURN n.x AS x, id(n) AS id ORDER BY x DESC, id SKIP 1 LIMIT 3",
    "MATCH ()-[r]->(:A) WITH r MATCH (a)-[r]-(b) RETURN id(a) AS a, id(b) AS b",
    "MATCH (n:A) WHERE n.x = 1 OR n.x = null OR 2.0 = n.x RETURN id(n) AS id",
    "MATCH (n:A) WITH n WHERE n.x = 2 RETURN id(n) AS id",
    "CALL { MATCH (n:A) RETURN n } WITH DISTINCT n, n.x AS x WHERE x > 1 RETURN id(n) AS id, x",
    "MATCH (a:A), (b:B) WHERE a.x = b.x AND a.y = b.y RETURN id(a) AS a, id(b) AS b",
];

fn open(store: Arc<dyn Store>, workers: usize) -> Engine {
    let engine = Engine::open(store, Options { workers, ..Options::default() }).unwrap();
    engine.start().unwrap();
    engine
}

fn prepare(graph: &Graph, text: &str) -> Arc<Prepared> {
    graph.prepare(compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0])))
}

fn run(graph: &Graph, text: &str) -> Result<Vec<Vec<Value>>, EngineError> {
    let mut rows = Vec::new();
    graph.query(&prepare(graph, text), &[], QueryOptions::default(), &mut |row| {
        rows.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// As `prepare`, for a query that asks for `$that`.
fn prepare_with(graph: &Graph, text: &str) -> Arc<Prepared> {
    let options = CompileOptions { parameters: vec!["that".into()], ..CompileOptions::default() };
    graph.prepare(compile(text, &options).unwrap_or_else(|problems| panic!("{text}: {}", problems[0])))
}

fn run_with(graph: &Graph, query: &Prepared, that: Value) -> Result<Vec<Vec<Value>>, EngineError> {
    let mut rows = Vec::new();
    graph.query(query, &[that], QueryOptions::default(), &mut |row| {
        rows.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn random_value(random: &mut Random) -> Value {
    match random.below(9) {
        0 => Value::Null,
        1 => Value::text(&format!("text {}", random.below(4))),
        2 => Value::Float(random.below(4) as f64),
        3 => Value::Boolean(true),
        4 => Value::list(vec![Value::Integer(1)]),
        _ => Value::Integer(random.below(5) as i64),
    }
}

fn random_record(random: &mut Random, graph: &Graph) -> Mutations {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    for _ in 0..=random.below(5) {
        let target = node(random.below(25));
        let name = |random: &mut Random, names: [&'static str; 2]| names[random.below(2) as usize];
        match random.below(8) {
            0..3 => record.set_label(target, symbol(name(random, ["A", "B"])), random.below(4) > 0),
            3..6 => record.set_property(target, symbol(name(random, ["x", "y"])), &random_value(random)),
            6 => record.clear_properties(target),
            _ => {
                let kind = symbol(name(random, ["r", "s"]));
                record.set_edge(target, kind, node(random.below(25)), 0, random.below(4) > 0);
            }
        }
    }
    record
}

fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort();
    rows
}

fn spread(rows: Rows) -> Vec<Vec<Value>> {
    sorted(rows.into_iter().flat_map(|(row, count)| vec![row; count as usize]).collect())
}

fn agree(with: &Graph, without: &Graph, reference: &ReferenceGraph, place: &str) -> usize {
    let mut found = 0;
    for text in QUERIES.iter().chain(MORE_QUERIES) {
        let expected = spread(answer(&prepare(with, text), reference, with));
        assert_eq!(sorted(run(without, text).unwrap()), expected, "without an index: {text}, {place}");
        assert_eq!(sorted(run(with, text).unwrap()), expected, "with indexes: {text}, {place}");
        found += expected.len();
    }
    for text in QUERIES {
        let naive = matches(&prepare(with, text), reference, with.symbols(), with.ids()).unwrap();
        assert_eq!(
            sorted(run(with, text).unwrap()),
            spread(naive.into_iter().collect()),
            "by trying everything: {text}, {place}"
        );
    }
    found
}

fn create_indexes(graph: &Graph) {
    for text in [
        "CREATE INDEX FOR (n:A) ON (n.x)",
        "CREATE INDEX FOR (n:A) ON (n.y)",
        "CREATE LOOKUP INDEX a FOR (n:A)",
        "CREATE INDEX b_x FOR (n:B) ON (n.x)",
    ] {
        assert!(run(graph, text).unwrap().is_empty());
    }
}

fn online(graph: &Graph) -> usize {
    run(graph, "SHOW INDEXES").unwrap().iter().filter(|row| row[1] == Value::text("ONLINE")).count()
}

#[test]
fn answers_are_the_same_after_every_record() {
    for (seed, workers, late) in [(88172645463325252, 1, 0), (4101842887655102017, 2, 60), (2685821657736338717, 3, 150)] {
        let mut random = Random(seed);
        let (with, without) = (open(Arc::new(InMemory::default()), workers), open(Arc::new(InMemory::default()), 1));
        let (with, without) = (with.default_graph(), without.default_graph());
        let mut reference = ReferenceGraph::new();
        let mut found = 0;
        for number in 0..200 {
            if number == late {
                create_indexes(&with);
                assert_eq!(online(&with), 4);
            }
            let record = random_record(&mut random, &with);
            share_symbols(&with, &without);
            reference.apply_all(&record);
            with.apply(record.clone(), 1).unwrap();
            without.apply(record, 1).unwrap();
            with.wait_visible().unwrap();
            without.wait_visible().unwrap();
            found += agree(&with, &without, &reference, &format!("record {number} of seed {seed}"));
        }
        assert!(found > 10_000, "the queries hardly find anything: {found}");
        for name in ["a", "b_x", "index_A_x", "index_A_y"] {
            run(&with, &format!("DROP INDEX {name}")).unwrap();
        }
        assert!(run(&with, "SHOW INDEXES").unwrap().is_empty());
        agree(&with, &without, &reference, "all dropped");
    }
}

#[test]
#[cfg(feature = "rocks-db")]
fn indexes_are_there_after_a_restart() {
    use weir_engine::store::{RocksDb, RocksDbOptions};
    let directory = tempfile::tempdir().unwrap();
    // An engine that just ends may be let go by a thread of its own, a moment later.
    let open_store = || {
        let begun = Instant::now();
        loop {
            let options = RocksDbOptions { create_parent_dir: true, ..RocksDbOptions::new(directory.path().join("store")) };
            match RocksDb::open(options) {
                Ok(store) => return Arc::new(store),
                Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut random = Random(7);
    let mut reference = ReferenceGraph::new();
    let without = open(Arc::new(InMemory::default()), 1);
    for round in 0..4 {
        let engine = open(open_store(), 2);
        let graph = engine.default_graph();
        if round == 0 {
            create_indexes(&graph);
        }
        let began = Instant::now();
        while online(&graph) < 4 {
            assert!(began.elapsed() < Duration::from_secs(20), "indexes are built after a restart");
            std::thread::sleep(Duration::from_millis(1));
        }
        share_symbols(&graph, &without.default_graph());
        agree(&graph, &without.default_graph(), &reference, &format!("begin of round {round}"));
        for number in 0..40 {
            let record = random_record(&mut random, &graph);
            share_symbols(&graph, &without.default_graph());
            reference.apply_all(&record);
            without.default_graph().apply(record.clone(), 1).unwrap();
            graph.apply(record, 1).unwrap();
            graph.wait_visible().unwrap();
            without.default_graph().wait_visible().unwrap();
            if number % 10 == 9 {
                agree(&graph, &without.default_graph(), &reference, &format!("record {number} of round {round}"));
            }
        }
        if round % 2 == 0 {
            engine.shutdown().unwrap();
        } else {
            graph.wait_durable(graph.next()).unwrap();
        }
    }
}

/// Built while records go on coming in, and right for those before, those after and those meanwhile.
#[test]
fn an_index_is_built_while_records_come_in() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let graph = engine.default_graph();
    let text = "MATCH (n) WHERE id(n) = idFrom($that) SET n:A, n.x = $that % 100";
    let options = CompileOptions { parameters: vec!["that".into()], ..CompileOptions::default() };
    let query = graph.prepare(compile(text, &options).unwrap());
    const RECORDS: i64 = 40_000;
    std::thread::scope(|scope| {
        let ingest = scope.spawn(|| {
            let mut ingester = Ingester::new(graph.clone(), query);
            for first in (0..RECORDS).step_by(100) {
                let records: Vec<Value> = (first..first + 100).map(Value::Integer).collect();
                assert!(ingester.ingest(&records, None).unwrap().failures.is_empty());
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        run(&graph, "CREATE INDEX x FOR (n:A) ON (n.x)").unwrap();
        run(&graph, "CREATE LOOKUP INDEX FOR (n:A)").unwrap();
        // In each record the count of one value is at most one ahead of that of another.
        while !ingest.is_finished() {
            let counts = "MATCH (n:A) WHERE n.x IN [0, 1] RETURN n.x AS x, count(n) AS n ORDER BY x";
            let rows = run(&graph, counts).unwrap();
            if let [first, second] = rows.as_slice() {
                let (Value::Integer(first), Value::Integer(second)) = (&first[1], &second[1]) else { panic!("{rows:?}") };
                assert!((0..=1).contains(&(first - second)), "{rows:?}");
            }
        }
    });
    graph.wait_visible().unwrap();
    for (text, expected) in [
        ("MATCH (n:A) WHERE n.x = 37 RETURN count(n)", RECORDS / 100),
        ("MATCH (n:A) WHERE n.x >= 90 RETURN count(n)", RECORDS / 10),
        ("MATCH (n:A) RETURN count(n)", RECORDS),
    ] {
        assert_eq!(run(&graph, text).unwrap(), [[Value::Integer(expected)]], "{text}");
    }
}

/// A query sees its own changes through an index, and of those that race for a value one makes it.
#[test]
fn writes_are_seen_through_indexes_and_stay_serializable() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let graph = engine.default_graph();
    run(&graph, "CREATE INDEX FOR (n:P) ON (n.name)").unwrap();
    let own = "UNWIND [1, 2, 1, 3, 2, 1] AS name MERGE (n:P {name: name}) ON CREATE SET n.count = 1 ON MATCH SET n.count = n.count + 1 \
               WITH DISTINCT n.name AS name, n.count AS count RETURN name, count ORDER BY name";
    let rows: Vec<Vec<Value>> = run(&graph, own).unwrap();
    let last = |name: i64| rows.iter().filter(|row| row[0] == Value::Integer(name)).map(|row| row[1].clone()).max();
    assert_eq!([1, 2, 3].map(last), [3, 2, 1].map(|n| Some(Value::Integer(n))), "{rows:?}");
    let renamed = "MATCH (n:P {name: 1}) SET n.name = 9 WITH n MATCH (m:P {name: 9}) RETURN m.count";
    assert_eq!(run(&graph, renamed).unwrap(), [[Value::Integer(3)]]);
    let gone = "MATCH (n:P {name: 9}) DETACH DELETE n WITH 1 AS one OPTIONAL MATCH (m:P {name: 9}) RETURN m IS NULL";
    assert_eq!(run(&graph, gone).unwrap(), [[Value::Boolean(true)]]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let graph = graph.clone();
            scope.spawn(move || {
                for name in 0..50 {
                    let merge = format!("MERGE (n:P {{name: 'person {name}'}}) SET n.seen = coalesce(n.seen, 0) + 1");
                    run(&graph, &merge).unwrap();
                }
            });
        }
    });
    let people = "MATCH (n:P) WHERE n.name STARTS WITH 'person' RETURN count(n), min(n.seen), max(n.seen)";
    assert_eq!(run(&graph, people).unwrap(), [[50, 4, 4].map(Value::Integer)]);
}

/// Each of them is another value to MERGE, whatever `=` says of it. The last lies in no index.
fn values_apart() -> Vec<Value> {
    let list = |item: Value| Value::list(vec![item]);
    vec![
        Value::text("Ann"),
        Value::text("a text that is long and ends with 1"),
        Value::text("a text that is long and ends with 2"),
        Value::text("1"),
        Value::Integer(1),
        Value::Float(1.0),
        Value::Integer(0),
        Value::Float(0.0),
        Value::Float(-0.0),
        Value::Boolean(true),
        list(Value::Integer(1)),
        list(Value::Float(1.0)),
        list(Value::Float(f64::NAN)),
        Value::Float(f64::NAN),
    ]
}

/// MERGE compares by type and value. An index offers what may be the same; what lies in none is looked for everywhere.
#[test]
fn merge_finds_by_an_index_what_is_the_same() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let (with, without) = (engine.default_graph(), engine.create_graph("without", GraphOptions::default()).unwrap());
    run(&with, "CREATE INDEX FOR (n:P) ON (n.name)").unwrap();
    let merge = "MERGE (n:P {name: $that}) ON CREATE SET n.made = true ON MATCH SET n.made = false RETURN n.made";
    for graph in [&with, &without] {
        run(graph, "CREATE (:P), (:P {other: 1}), (:Q {name: 'Ann'})").unwrap();
        let query = prepare_with(graph, merge);
        for made in [true, false, false] {
            for value in values_apart() {
                let rows = run_with(graph, &query, value.clone()).unwrap();
                assert_eq!(rows, [[Value::Boolean(made)]], "{value:?}");
            }
        }
        let count = Value::Integer(values_apart().len() as i64);
        assert_eq!(run(graph, "MATCH (n:P) WHERE n.name IS NOT NULL RETURN count(n)").unwrap(), [[count]]);
        let refused = run_with(graph, &query, Value::Null).unwrap_err().to_string();
        assert!(refused.contains("`name`, which is null"), "{refused}");
    }
    let query = prepare_with(&with, merge);
    let way = |that: Value| with.ways(&query, &[that]).into_values().next().unwrap();
    for value in values_apart() {
        let is_indexed = !value.is_nan();
        let expected = if is_indexed { "node 0 by the index index_P_name of :P(name)" } else { "node 0 among those with :P" };
        assert_eq!(way(value.clone()), expected, "{value:?}");
    }
    // As EXPLAIN sees it, where no value was given.
    assert_eq!(way(Value::Null), "node 0 by the index index_P_name of :P(name)");
}

/// The merges of one query find what those before them made, by an index and by what its scans keep.
#[test]
fn merges_of_one_query_find_what_it_made() {
    let engine = open(Arc::new(InMemory::default()), 2);
    for (name, indexed) in [("with", true), ("without", false)] {
        let graph = engine.create_graph(name, GraphOptions::default()).unwrap();
        if indexed {
            run(&graph, "CREATE INDEX FOR (n:P) ON (n.name)").unwrap();
        }
        let merges = "UNWIND $that AS name MERGE (n:P {name: name}) ON CREATE SET n.count = 1 ON MATCH SET n.count = n.count + 1";
        let that: Vec<Value> = [values_apart(), values_apart(), values_apart()].concat();
        run_with(&graph, &prepare_with(&graph, merges), Value::list(that)).unwrap();
        let counts = run(&graph, "MATCH (n:P) RETURN count(n), min(n.count), max(n.count)").unwrap();
        assert_eq!(counts, [[values_apart().len() as i64, 3, 3].map(Value::Integer)], "{name} an index");
    }
    // A chain begins where an index knows a node of it.
    let graph = engine.graph("with").unwrap();
    let chain = "UNWIND [1, 2, 1] AS x MERGE (a:P {name: 'Ann'})-[:R]->(b:P {name: x}) RETURN count(DISTINCT b)";
    assert_eq!(run(&graph, chain).unwrap(), [[Value::Integer(2)]]);
    let way = graph.ways(&prepare(&graph, chain), &[]).into_values().next().unwrap();
    assert!(way.contains("by the index index_P_name"), "{way}");
}

/// What scans keep is not taken out again; a node that is deleted is still not asked for.
#[test]
fn what_a_query_has_deleted_is_not_found_again() {
    let engine = open(Arc::new(InMemory::default()), 2);
    for (name, open_cypher) in [("streaming", false), ("cypher", true)] {
        let graph = engine.create_graph(name, GraphOptions { open_cypher }).unwrap();
        let text =
            "UNWIND [1, 2, 3, 4] AS i CALL { WITH i MERGE (n {k: 1}) WITH n, i WHERE i = 2 DETACH DELETE n } RETURN count(*)";
        run(&graph, text).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(run(&graph, "MATCH (n) RETURN count(n)").unwrap(), [[Value::Integer(1)]], "{name}");
        run(&graph, "UNWIND [1, 2, 3, 4] AS i CREATE (:A {k: i})").unwrap();
        let text = "UNWIND [1, 2, 3, 4] AS i CALL { WITH i MATCH (n:A {k: i}) DETACH DELETE n } RETURN count(*)";
        run(&graph, text).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert_eq!(run(&graph, "MATCH (n:A) RETURN count(n)").unwrap(), [[Value::Integer(0)]], "{name}");
    }
}

/// Of merges that race for a value one makes it, whether an index knows it or not.
#[test]
fn of_merges_that_race_for_a_value_one_makes_it() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let graph = engine.default_graph();
    run(&graph, "CREATE INDEX FOR (n:P) ON (n.name)").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let graph = graph.clone();
            scope.spawn(move || {
                let query = prepare_with(&graph, "MERGE (n:P {name: $that}) SET n.seen = coalesce(n.seen, 0) + 1");
                values_apart().into_iter().for_each(|value| drop(run_with(&graph, &query, value).unwrap()));
            });
        }
    });
    let counts = run(&graph, "MATCH (n:P) RETURN count(n), min(n.seen), max(n.seen)").unwrap();
    assert_eq!(counts, [[values_apart().len() as i64, 4, 4].map(Value::Integer)]);
}

/// That a node of a list is not there is read, too: of those who race to make it one does.
#[test]
fn of_those_who_find_no_node_of_a_list_one_makes_it() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let graph = engine.default_graph();
    let text = "OPTIONAL MATCH (n) WHERE id(n) IN [idFrom('race', $that), idFrom('none')] WITH count(n) AS found WHERE found = 0
        MATCH (m) WHERE id(m) = idFrom('race', $that) SET m.there = true CREATE (:Made)";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let graph = graph.clone();
            scope.spawn(move || {
                let query = prepare_with(&graph, text);
                (0..50).for_each(|value| drop(run_with(&graph, &query, Value::Integer(value)).unwrap()));
            });
        }
    });
    assert_eq!(run(&graph, "MATCH (m:Made) RETURN count(m)").unwrap(), [[Value::Integer(50)]]);
}

/// The cheaper end: few with the one label, many with the other; an index where there is one.
#[test]
fn patterns_begin_where_it_is_cheapest() {
    let engine = open(Arc::new(InMemory::default()), 2);
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    for n in 0..2_000 {
        record.set_label(node(n), symbol(if n % 500 == 0 { "Few" } else { "Many" }), true);
        record.set_property(node(n), symbol("x"), &Value::Integer(n as i64 % 1_000));
        record.set_edge(node(n), symbol("r"), node(n / 500 * 500), 0, true);
    }
    graph.apply(record, 1).unwrap();
    graph.wait_visible().unwrap();
    let way = |text: &str| {
        let prepared = prepare(&graph, text);
        let ways = graph.ways(&prepared, &[]);
        assert_eq!(ways.len(), 1);
        ways.into_values().next().unwrap()
    };
    let text = "MATCH (a:Many)-[:r]->(b:Few) RETURN count(*)";
    assert_eq!(way(text), "order 2 of 2, node 1 among those with :Few");
    assert_eq!(run(&graph, text).unwrap(), [[Value::Integer(1_996)]]);
    let text = "MATCH (a:Many {x: 7})-[:r]->(b:Few) RETURN count(*)";
    run(&graph, "CREATE INDEX FOR (n:Many) ON (n.x)").unwrap();
    assert_eq!(way(text), "order 1 of 2, node 0 by the index index_Many_x of :Many(x)");
    assert_eq!(run(&graph, text).unwrap(), [[Value::Integer(2)]]);
    run(&graph, "CREATE LOOKUP INDEX FOR (n:Few)").unwrap();
    assert_eq!(way("MATCH (n:Few) RETURN n"), "node 0 by the index index_Few of :Few");
    assert_eq!(way("MATCH (n) RETURN n"), "node 0 among all");
    assert_eq!(way("MATCH (n:Nobody) RETURN n"), "node 0 among those with :Nobody");
    let listed = "id(a) IN [idFrom(1), idFrom(2)]";
    assert_eq!(way(&format!("MATCH (a) WHERE {listed} RETURN a")), "node 0 by ids, at most 2");
    let text = format!("MATCH (a:Many)-[:r]->(b:Few) WHERE {listed} RETURN a");
    assert_eq!(way(&text), "order 1 of 2, node 0 by ids, at most 2");
}

/// Each place of a list is a step, and two lists are gone through side by side.
#[test]
fn long_lists_are_looked_for_within_the_limits_of_the_query() {
    let engine = open(Arc::new(InMemory::default()), 1);
    let graph = engine.default_graph();
    run(&graph, "CREATE INDEX FOR (n:P) ON (n.k)").unwrap();
    run(&graph, "UNWIND range(1, 100) AS k CREATE (:P {k: k})").unwrap();
    let list = |range: std::ops::Range<i64>| Value::list(range.map(Value::Integer).collect());
    let both = prepare_with(&graph, "MATCH (n:P) WHERE n.k IN $that[0] AND n.k IN $that[1] RETURN count(n)");
    let lists = Value::list(vec![list(51..20_000), list(0..20_000)]);
    assert_eq!(run_with(&graph, &both, lists).unwrap(), [[Value::Integer(50)]]);
    // None of them is there, so no node is visited.
    let query = prepare_with(&graph, "MATCH (n:P) WHERE n.k IN $that RETURN count(n)");
    let within = |steps: u32| {
        let options = QueryOptions { steps_max: Some(steps), ..QueryOptions::default() };
        graph.query(&query, &[list(1_000..6_000)], options, &mut |_| ControlFlow::Continue(())).map(drop)
    };
    assert!(within(50_000).is_ok());
    let refused = within(1_000).unwrap_err().to_string();
    assert!(refused.contains("visits too much"), "{refused}");
}

#[test]
fn commands_that_cannot_be_are_errors() {
    let engine = open(Arc::new(InMemory::default()), 1);
    let graph = engine.default_graph();
    run(&graph, "CREATE INDEX one FOR (n:A) ON (n.x)").unwrap();
    let refused = |text: &str| run(&graph, text).expect_err(text).to_string();
    assert!(refused("CREATE INDEX one FOR (n:A) ON (n.y)").contains("one"));
    assert!(refused("CREATE INDEX two FOR (n:A) ON (n.x)").contains("one"));
    assert!(refused("DROP INDEX two").contains("SHOW INDEXES"));
    run(&graph, "CREATE INDEX two IF NOT EXISTS FOR (n:A) ON (n.x)").unwrap();
    run(&graph, "DROP INDEX two IF EXISTS").unwrap();
    let shown = run(&graph, "SHOW INDEXES").unwrap();
    let listed = run(&graph, "CALL db.indexes() YIELD description RETURN description").unwrap();
    assert_eq!(listed, [[Value::text("INDEX ON :A(x)")]]);
    let texts = ["one", "ONLINE", "RANGE", "A", "x"].map(Value::text);
    assert_eq!(shown, [texts.into_iter().chain([Value::Integer(0)]).collect::<Vec<_>>()]);
}
