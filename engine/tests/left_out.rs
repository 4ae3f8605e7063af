//! A row of a standing query for which something has no value is left out and told of, and no other with it: in what is asked of
//! the graph for each row, too, where the oracle leaves out the same. The ad-hoc query ends in an error.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::any::{comparable_rows, random_record};
use common::{Random, Rows, ad_hoc, collect, compile, concatenate, install, node};
use weir_cypher_compiler::{Options as CompileOptions, StandingMode, compile_plainly};
use weir_engine::evaluate::{Environment, Limits, Prepared, evaluate};
use weir_engine::reference::{ReferenceGraph, matches};
use weir_engine::store::InMemory;
use weir_engine::{Engine, Graph, Options, Start};
use weir_model::{Clock, Mutations, NodeId, Value};

fn open(workers: usize) -> Engine {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
    engine.start().unwrap();
    engine
}

/// `z` and `w` are 0 now and then, `x` is a text.
const QUERIES: &[&str] = &[
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WITH a, b, 10 / b.z AS q RETURN id(a) AS a, id(b) AS b, q",
    "MATCH (a:A)-[:r*1..2]->(b) WHERE 10 / b.z > 4 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(b) MATCH (b)-[es:s*0..1]->(c) WHERE all(e IN es WHERE 6 / e.w > 1) \
     RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE 10 / b.z > 4 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (a)-[e:r]->(b)-[:s]->(c) WHERE 10 / e.w > 3 AND 10 / (b.z - c.z) < 9 \
     RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) OPTIONAL MATCH (b)-[:s]->(c) WHERE 6 / (c.z - b.z) > 1 \
     RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) UNWIND range(1, 6 / b.z) AS i RETURN id(a) AS a, id(b) AS b, i",
    // What is looked for by a value, on either side of which there may be none.
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE b.z = 10 / a.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE 4 / b.z = a.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE b.z = 10 / COUNT { (a)-[:r]->() } RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE 10 / COUNT { (b)-[:r]->() } = a.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(c) WITH a, collect(c) AS cs OPTIONAL MATCH (a)-[:s]->(b) WHERE b.z = 10 / head(cs).z \
     RETURN id(a) AS a, id(b) AS b",
    // As a key, to be sorted by, or for one of several aggregates: such a row is none, in CALL as at the top.
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN count(*) AS c, sum(10 / b.z) AS s, collect(10 / b.z) AS l } \
     RETURN id(a) AS a, c, s, l",
    "MATCH (a:A)-[:r]->(b) RETURN id(a) AS a, count(*) AS c, sum(10 / b.z) AS s, collect(10 / b.z) AS l",
    "MATCH (a:A)-[:r]->(b) RETURN a.z AS k, count(*) AS c, count(b.x) AS x, max(4 / b.z) AS m, min(DISTINCT 6 / a.z) AS n",
    "MATCH (a:A)-[:r]->(b) RETURN 6 / b.z AS k, count(*) AS c, sum(4 / a.z) AS s",
    // What an aggregate takes is asked of the graph below it.
    "MATCH (a:A) RETURN a.z AS k, count(*) AS c, sum(10 / COUNT { (a)-[:r]->(:B) }) AS s",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN count(*) AS c, sum(10 / COUNT { (b)-[:s]->() }) AS s } \
     RETURN id(a) AS a, c, s",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) WITH 10 / b.z AS q, count(*) AS c RETURN q, c } RETURN id(a) AS a, q, c",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN 10 / b.z AS q ORDER BY q DESC LIMIT 1 } RETURN id(a) AS a, q",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) WITH b ORDER BY 10 / b.z, id(b) LIMIT 2 RETURN id(b) AS k } \
     RETURN id(a) AS a, k",
    "MATCH (a:A) CALL { WITH a OPTIONAL MATCH (a)-[:r]->(b) WHERE 10 / b.z > 4 RETURN count(b) AS c } RETURN id(a) AS a, c",
    "MATCH (a:A) CALL { WITH a UNWIND [10 / a.z, 10 / a.x] AS q RETURN q UNION ALL WITH a RETURN a.z AS q } RETURN id(a) AS a, q",
    // Within an expression every failure is one of the expression.
    "MATCH (a:A) RETURN id(a) AS a, COUNT { (a)-[:r]->(b) WHERE 10 / b.z > 4 } AS c",
    "MATCH (a:A) RETURN id(a) AS a, [(a)-[:r]->(b) | 10 / b.z] AS l",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:s]->(c) WITH a, c WHERE COUNT { (c)-[:r]->(b) WHERE 10 / b.z > 1 } > 0 \
     RETURN id(a) AS a, id(c) AS c",
];

#[test]
fn a_row_without_a_value_takes_no_other_with_it() {
    const RECORDS: usize = 150;
    for (seed, workers, batch) in [(88172645463325252, 1, 1), (4101842887655102017, 2, 7)] {
        let engine = open(workers);
        let graph = engine.default_graph();
        let mut random = Random(seed);
        let records: Vec<Mutations> = (0..RECORDS)
            .map(|_| {
                let mut record = Mutations::default();
                random_record(&mut random, &graph, &mut record);
                record
            })
            .collect();
        let plans: Vec<_> = QUERIES.iter().map(|text| compile(StandingMode::AnyQuery, text)).collect();
        let installed = install(&engine, &plans, Start::WholeGraph, &[]);
        let plainly = |text: &&str| match compile_plainly(text, &CompileOptions::default()) {
            Ok(plan) => Prepared::new(plan, graph.symbols()),
            Err(problems) => panic!("{text}: {}", problems[0]),
        };
        let oracles: Vec<Prepared> = QUERIES.iter().map(plainly).collect();
        let (mut reference, mut answers) = (ReferenceGraph::new(), vec![Rows::new(); QUERIES.len()]);
        for (number, records) in records.chunks(batch).enumerate() {
            records.iter().for_each(|record| reference.apply_all(record));
            let upper = graph.apply(concatenate(records), records.len()).unwrap();
            for (at, text) in QUERIES.iter().enumerate() {
                let answer = &mut answers[at];
                for (row, count) in collect(&installed[at], upper).into_values().flat_map(|rows| comparable_rows(rows, false)) {
                    *answer.entry(row).or_default() += count;
                }
                answer.retain(|_, count| *count != 0);
                let wanted = matches(&oracles[at], &reference, graph.symbols(), graph.ids()).unwrap();
                let wanted = comparable_rows(wanted, false);
                assert_eq!(*answer, wanted, "seed {seed}, batch {number} of {batch}\n{text}");
            }
        }
        let told = installed.iter().filter(|query| query.left_out().is_some()).count();
        assert!(told > QUERIES.len() / 2, "only {told} have left something out");
        engine.shutdown().unwrap();
    }
}

/// An `A`, with an edge to each of three nodes.
fn three(graph: &Graph) -> Mutations {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut record = Mutations::default();
    record.set_label(node(0), symbol("A"), true);
    for (number, x) in [(1, 2), (2, 0), (3, 5)] {
        record.set_property(node(number), symbol("x"), &Value::Integer(x));
        record.set_property(node(number), symbol("y"), &if x == 0 { Value::text("none") } else { Value::Integer(x) });
        record.set_edge(node(0), symbol("r"), node(number), 0, true);
    }
    record
}

fn integers(rows: &[&[i64]]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| row.iter().map(|n| Value::Integer(*n)).collect()).collect()
}

#[test]
fn what_is_left_out_is_told_and_fails_the_ad_hoc_query() {
    for (text, wanted, left_out) in [
        ("MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WITH a, b, 10 / b.x AS q RETURN q", integers(&[&[2], &[5]]), 1),
        ("MATCH (a:A)-[:r*1..3]->(b) WHERE 10 / b.x > 1 RETURN b.x AS x", integers(&[&[2], &[5]]), 1),
        ("MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE 1 / (b.x - b.x) > 0 RETURN b.x AS x", vec![vec![Value::Null]], 3),
        (
            "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN count(*) AS c, sum(10 / b.x) AS s } RETURN c, s",
            integers(&[&[2, 7]]),
            1,
        ),
        // Also at the top, and below an aggregate whose argument is asked of the graph.
        (
            "MATCH (a:A)-[:r]->(b) WITH id(a) AS a, count(*) AS c, sum(10 / b.x) AS s, max(20 / b.x) AS m RETURN c, s, m",
            integers(&[&[2, 7, 10]]),
            1,
        ),
        (
            "MATCH (a:A)-[:r]->(b) WITH id(a) AS a, count(*) AS c, sum(10 / (b.x + COUNT { (b)-[:s]->() })) AS s RETURN c, s",
            integers(&[&[2, 7]]),
            1,
        ),
        // Of two groups one has no sum.
        ("MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN b.x > 1 AS k, sum(b.y) AS s } RETURN s", integers(&[&[7]]), 1),
        ("MATCH (a:A) RETURN COUNT { (a)-[:r]->(b) WHERE 10 / b.x > 1 } AS c", vec![], 1),
        // Of each round one row has no answer to when it ends.
        (
            "MATCH (a:A) CALL RECURSIVELY WITH 3 AS n UNTIL (10 / n > 9) { UNWIND [n - 1, 0] AS m RETURN m AS n } RETURN n",
            integers(&[&[1]]),
            2,
        ),
    ] {
        let engine = open(1);
        let graph = engine.default_graph();
        let query = install(&engine, &[compile(StandingMode::AnyQuery, text)], Start::WholeGraph, &[]).remove(0);
        let upper = graph.apply(three(&graph), 1).unwrap();
        let rows: Rows = collect(&query, upper).into_values().flatten().collect();
        let wanted: Rows = wanted.into_iter().map(|row| (row, 1)).collect();
        assert_eq!(rows, wanted, "{text}");
        let told = query.left_out().unwrap_or_else(|| panic!("{text}: none is left out"));
        assert_eq!(told.rows, left_out, "{text}: {told:?}");

        let (prepared, mut reference) = (Prepared::new(ad_hoc(text), graph.symbols()), ReferenceGraph::new());
        reference.apply_all(&three(&graph));
        let environment = Environment {
            view: &reference,
            parameters: &[],
            ids: graph.ids(),
            now: Clock::at(0),
            fresh_id: &NodeId::default,
            limits: Limits::NONE,
            open_cypher: graph.open_cypher(),
            recall: None,
        };
        let mut go_on = |_: &[Value]| ControlFlow::Continue(());
        let asked = evaluate(&prepared, graph.symbols(), &environment, &mut Mutations::default(), &mut go_on);
        assert!(asked.is_err(), "{text}");
        engine.shutdown().unwrap();
    }
}

/// Which row it was: its nodes, as far as they are found, and the values that were looked at.
#[test]
fn what_is_left_out_is_told_with_its_nodes() {
    for (text, nodes, looked_at) in [
        ("MATCH (b) WHERE b.x IS NOT NULL RETURN b.x AS x, 10 / b.x AS q", &[2][..], "0"),
        ("MATCH (a:A)-[:r]->(b) RETURN b.x AS x, 10 / b.x AS q", &[0, 2][..], "0"),
        ("MATCH (a:A)-[:r]->(b) WHERE 10 / b.x > 1 RETURN id(a) AS a", &[2][..], "0"),
        ("MATCH (a:A)-[:r]->(b) WHERE 10 / (b.x + a.z) > 1 RETURN id(a) AS a", &[0, 2][..], "0, 0"),
        ("MATCH (a:A)-[e:r]->(b) WHERE 10 / e.w > 1 RETURN id(a) AS a", &[0, 2][..], "0"),
    ] {
        let engine = open(1);
        let graph = engine.default_graph();
        let symbol = |name: &str| graph.symbols().intern(name);
        let query = install(&engine, &[compile(StandingMode::AnyQuery, text)], Start::WholeGraph, &[]).remove(0);
        let mut record = three(&graph);
        record.set_property(node(0), symbol("z"), &Value::Integer(0));
        for (number, w) in [(1, 4), (2, 0), (3, 5)] {
            record.set_edge_property(node(0), symbol("r"), node(number), 0, symbol("w"), &Value::Integer(w));
        }
        let ids: Vec<String> = nodes.iter().map(|number| graph.ids().text(node(*number))).collect();
        let wanted = |told: &str| {
            let (row, _) = told.strip_prefix('(').and_then(|rest| rest.split_once("): ")).unwrap();
            let values: Vec<&str> = row.split(", ").collect();
            let (mut before, mut after) = (values[..ids.len()].to_vec(), ids.iter().map(String::as_str).collect::<Vec<_>>());
            // The compiler chooses their order.
            before.sort_unstable();
            after.sort_unstable();
            before == after && values[ids.len()..].join(", ") == looked_at && told.contains("zero")
        };
        collect(&query, graph.apply(record, 1).unwrap());
        let told = query.left_out().unwrap_or_else(|| panic!("{text}: none is left out"));
        assert!(wanted(&told.last), "{text}: {told:?}, of {ids:?}");
        // Found from `a` on, beside others that are not left out. Of so many one is noted in a tenth of a second.
        std::thread::sleep(std::time::Duration::from_millis(150));
        for is_there in [false, true] {
            let mut record = Mutations::default();
            record.set_label(node(0), symbol("A"), is_there);
            collect(&query, graph.apply(record, 1).unwrap());
        }
        let again = query.left_out().unwrap();
        assert!(wanted(&again.last), "{text}: {again:?}, of {ids:?}");
        assert!(nodes.len() == 1 || again.rows > told.rows, "{text}: {told:?}, {again:?}");
        engine.shutdown().unwrap();
    }
}

/// Text to which the time is joined runs no way: a row that is compared by it would stay as it was when it was looked at last.
#[test]
fn a_row_in_which_the_time_is_joined_to_text_is_left_out() {
    let engine = open(1);
    let graph = engine.default_graph();
    let text = "MATCH (n) WHERE timestamp() + n.grace > n.until RETURN n.x AS x";
    let query = install(&engine, &[compile(StandingMode::AnyQuery, text)], Start::WholeGraph, &[]).remove(0);
    let mut record = Mutations::default();
    for (x, grace, until) in [
        (1, Value::Integer(5), Value::Integer(7)),
        (2, Value::text("s"), Value::text("1")),
        // No answer, now and at any time.
        (3, Value::text("s"), Value::Integer(7)),
    ] {
        for (key, value) in [("x", &Value::Integer(x)), ("grace", &grace), ("until", &until)] {
            record.set_property(node(x as u64), graph.symbols().intern(key), value);
        }
    }
    let upper = graph.apply(record, 1).unwrap();
    let rows: Rows = collect(&query, upper).into_values().flatten().collect();
    assert_eq!(rows, Rows::from([(vec![Value::Integer(1)], 1)]));
    let told = query.left_out().unwrap();
    assert_eq!(told.rows, 1, "{told:?}");
    assert!(told.last.contains("joined to text"), "{told:?}");
    engine.shutdown().unwrap();
}
