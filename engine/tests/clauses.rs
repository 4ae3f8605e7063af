//! What clauses come to, asked by their text of a graph: where an answer depends on what is worked out when, and how often.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use common::own_time;
use weir_cypher_compiler::{Options as CompileOptions, compile, compile_plainly};
use weir_engine::evaluate::Profile;
use weir_engine::store::InMemory;
use weir_engine::{Engine, EngineError, Graph, GraphOptions, Options, QueryOptions};
use weir_model::Value;

fn graph(engine: &Engine) -> Graph {
    engine.create_graph("clauses", GraphOptions::default()).unwrap()
}

fn engine() -> Engine {
    let engine = Engine::open(Arc::new(InMemory::default()), Options::default()).unwrap();
    engine.start().unwrap();
    engine
}

fn ask(graph: &Graph, text: &str) -> Result<Vec<Vec<Value>>, EngineError> {
    let plan = compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
    let mut rows = Vec::new();
    graph.query(&graph.prepare(plan), &[], QueryOptions::default(), &mut |row| {
        rows.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn rows(graph: &Graph, text: &str) -> Vec<Vec<Value>> {
    ask(graph, text).unwrap_or_else(|failure| panic!("{text}: {failure}"))
}

fn number(graph: &Graph, text: &str) -> i64 {
    match rows(graph, text)[0][0] {
        Value::Integer(number) => number,
        ref other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn chance_is_asked_once_for_each_row() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "UNWIND range(1, 1000) AS i CREATE (:N {i: i})");
    let found = number(&graph, "MATCH (n:N) WHERE rand() < 0.5 RETURN count(n)");
    assert!((300..700).contains(&found), "{found} of 1000");
    let case = "UNWIND range(1, 1000) AS i
        WITH CASE toInteger(rand() * 3) WHEN 0 THEN 'a' WHEN 1 THEN 'b' WHEN 2 THEN 'c' END AS x WHERE x IS NULL RETURN count(*)";
    assert_eq!(number(&graph, case), 0);
    for _ in 0..50 {
        let kept = "UNWIND range(1, 9) AS x WITH x ORDER BY x SKIP toInteger(rand() * 4) LIMIT 3 RETURN count(*)";
        assert_eq!(number(&graph, kept), 3);
    }
}

#[test]
fn what_an_optional_subquery_writes_it_writes_for_every_row_and_does_not_see() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "UNWIND range(1, 10) AS i CREATE (:N {i: i})");
    rows(&graph, "MATCH (n:N) OPTIONAL CALL (n) { CREATE (m:N {i: -n.i}) RETURN m } RETURN m LIMIT 3");
    assert_eq!(number(&graph, "MATCH (n:N) RETURN count(n)"), 20);
}

#[test]
fn an_edge_has_what_was_set_by_whatever_name() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "CREATE ({i: 1})-[r:R {old: 1}]->({i: 2}) WITH r AS other SET other = {new: 2}");
    assert_eq!(number(&graph, "MATCH ()-[r:R]->() WHERE r.old IS NULL AND r.new = 2 RETURN count(r)"), 1);
}

#[test]
fn merge_finds_what_it_made_of_another_part_of_its_pattern() {
    let engine = engine();
    let graph = graph(&engine);
    for _ in 0..2 {
        rows(&graph, "MERGE (a:A {k: 1})-[r:R {of: a.k}]->(b:B {k: a.k})");
    }
    assert_eq!(number(&graph, "MATCH (n) RETURN count(n)"), 2);
    assert_eq!(number(&graph, "MATCH (:A {k: 1})-[:R {of: 1}]->(:B {k: 1}) RETURN count(*)"), 1);
    for of in ["MERGE (a:A {k: 1})-[:R]->(:B {k: a.j})", "MERGE (a:C)-[r:R {k: a.j}]->(:D)"] {
        assert!(ask(&graph, of).unwrap_err().to_string().contains("null here"), "{of}");
    }
    assert_eq!(number(&graph, "MATCH (n) RETURN count(n)"), 2);
}

#[test]
fn an_order_may_name_a_group_by_what_it_was_made_of() {
    let engine = engine();
    let graph = graph(&engine);
    let by_list = "UNWIND [3, 1, 1] AS n RETURN [x IN [n] | x + 1] AS k, count(*) ORDER BY [x IN [n] | x + 1]";
    let by_case = "UNWIND ['B', 'a', 'A'] AS n
        RETURN CASE toLower(n) WHEN 'a' THEN 1 ELSE 2 END AS k, count(*) ORDER BY CASE toLower(n) WHEN 'a' THEN 1 ELSE 2 END";
    for text in [by_list, by_case] {
        let counts: Vec<Value> = rows(&graph, text).into_iter().map(|row| row[1].clone()).collect();
        assert_eq!(counts, [Value::Integer(2), Value::Integer(1)], "{text}");
    }
}

/// A short text whose parts stand in each other, and are each asked for more than once.
#[test]
fn what_is_asked_for_often_is_not_written_out_often() {
    let nest = |deep: usize, around: &dyn Fn(String) -> String| (0..deep).fold("n.x".to_owned(), |within, _| around(within));
    let begun = own_time();
    for expression in [
        nest(40, &|within| format!("CASE {within} WHEN 1 THEN 2 WHEN 3 THEN 4 ELSE n END")),
        nest(40, &|within| format!("CASE n.y WHEN {within} THEN 2 ELSE n.z END")),
        nest(40, &|within| format!("CASE WHEN ({within}):A|B|!C THEN n END")),
    ] {
        let plan = compile(&format!("MATCH (n) RETURN {expression} AS x"), &CompileOptions::default()).unwrap();
        assert!(format!("{plan:?}").len() < 200_000);
    }
    let written_out = nest(40, &|within| format!("CASE n.y WHEN 1, 2, 3 THEN {within} END"));
    let refused = compile(&format!("MATCH (n) RETURN {written_out} AS x"), &CompileOptions::default()).unwrap_err();
    assert!(refused[0].to_string().contains("nested too deep"), "{}", refused[0]);
    let took = own_time() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn times_that_no_clock_shows_are_refused() {
    let engine = engine();
    let graph = graph(&engine);
    for text in ["RETURN localtime('86400000', 'A')", "RETURN time({hour: 1, offsetSeconds: -2147483648})"] {
        assert!(ask(&graph, text).is_err(), "{text}");
    }
}

#[test]
fn an_order_is_that_of_the_item_it_says_however_it_is_written() {
    let engine = engine();
    let graph = graph(&engine);
    for order in ["-x", "- x", "(-x)"] {
        let found = rows(&graph, &format!("UNWIND [3, 1, 2] AS x RETURN -x AS x ORDER BY {order}"));
        assert_eq!(found, [-3, -2, -1].map(|x| vec![Value::Integer(x)]), "{order}");
    }
}

#[test]
fn a_name_in_back_ticks_is_not_taken_for_what_it_looks_like() {
    let engine = engine();
    let graph = graph(&engine);
    let found = rows(
        &graph,
        "UNWIND [{a: 1, `n.a`: 3}, {a: 2, `n.a`: 1}] AS n WITH n, n.`n.a` AS `n.a` RETURN `n.a` + 0 AS x ORDER BY n.a + 0",
    );
    assert_eq!(found, [3, 1].map(|x| vec![Value::Integer(x)]));
}

#[test]
fn what_is_not_there_takes_nothing() {
    let engine = engine();
    let graph = graph(&engine);
    for set in ["z += w", "z = w", "z += properties(z)", "z = {a: 1}"] {
        let found = rows(&graph, &format!("OPTIONAL MATCH (z:Z) OPTIONAL MATCH (w:Z) SET {set} RETURN z"));
        assert_eq!(found, [[Value::Null]], "{set}");
    }
    rows(&graph, "CREATE (:Z)");
    assert!(ask(&graph, "MATCH (z:Z) SET z += null").is_err());
}

/// Thousands of items, of which each is looked for among all others.
#[test]
fn a_long_projection_is_compiled_soon() {
    let many = |of: &dyn Fn(usize) -> String| (0..5_000).map(of).collect::<Vec<_>>().join(", ");
    let begun = own_time();
    for text in [
        format!(
            "UNWIND [1] AS v RETURN DISTINCT {} ORDER BY {}",
            many(&|i| format!("v + {i} AS a{i}")),
            many(&|i| format!("v + {i} + 1"))
        ),
        format!("UNWIND [1] AS v RETURN {}", many(&|i| format!("count(v + {i})"))),
    ] {
        let compiled = compile(&text, &CompileOptions::default());
        assert!(compiled.is_ok(), "{}", compiled.unwrap_err()[0]);
    }
    let took = own_time() - begun;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Nothing tells a node of which nothing is left from one that has no such property.
#[test]
fn a_node_that_was_deleted_is_not_scanned_again() {
    let engine = engine();
    for (name, open_cypher) in [("streaming", false), ("cypher", true)] {
        let graph = engine.create_graph(name, GraphOptions { open_cypher }).unwrap();
        rows(&graph, "CREATE ({y: 1}), ({y: 2})");
        let deleted = "UNWIND [1, 2, 3, 4] AS i
            CALL { WITH i MATCH (n) WHERE coalesce(n.x, 0) = 0 WITH n, n.y AS y LIMIT 1 DETACH DELETE n RETURN y }
            RETURN count(*), sum(y)";
        assert_eq!(rows(&graph, deleted), [[Value::Integer(2), Value::Integer(3)]], "{name}");
    }
}

#[test]
fn a_node_that_comes_back_is_scanned_again() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "MATCH (n) WHERE id(n) = idFrom('a') SET n.y = 0");
    // There for the rows 1, 4 and 7.
    let text = "UNWIND range(1, 8) AS i
        CALL {
            WITH i OPTIONAL MATCH (n) WHERE coalesce(n.x, 0) = 0
            WITH i, collect(n) AS found, count(n) AS c
            FOREACH (n IN found | DETACH DELETE n)
            WITH i, c MATCH (m) WHERE id(m) = idFrom('a')
            FOREACH (y IN CASE i % 3 WHEN 0 THEN [i] ELSE [] END | SET m.y = y)
            RETURN c
        }
        RETURN sum(c)";
    assert_eq!(number(&graph, text), 3);
}

/// The text of an id is none to `=`, but an anchor takes it.
#[test]
fn an_anchor_is_one_however_many_nodes_there_are() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "CREATE (a:A)-[:R]->(b:B) SET a.ref = strId(b)");
    let text = "MATCH (a:A)-[:R]->(b:B) WHERE id(b) = a.ref RETURN count(*)";
    assert_eq!(number(&graph, text), 1);
    rows(&graph, "UNWIND range(1, 3000) AS i CREATE (:A)");
    assert_eq!(number(&graph, text), 1);
}

/// Conditions that are tested together are one each: to AND a list is nothing.
#[test]
fn a_list_beside_other_conditions_says_whether_it_has_elements() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "CREATE (:A {x: 1, tags: ['x']})-[:R]->(:A {x: 1, tags: []})-[:R]->(:A {x: 1}), (:A {x: 2, tags: ['x']})");
    for (text, count) in [
        ("MATCH (n:A) MATCH (n {x: 1}) WHERE n.tags RETURN count(*)", 1),
        ("MATCH (n:A) MATCH (n {x: 1}) WHERE n.tags AND n.x IN [n.x] RETURN count(*)", 1),
        ("MATCH p = (a:A)-[:R]->(b) WHERE length(p) = 1 AND nodes(p)[0].tags RETURN count(*)", 1),
        ("MATCH p = (a:A)-[:R]->(b) WHERE length(p) = 1 AND nodes(p)[1].tags RETURN count(*)", 0),
    ] {
        assert_eq!(number(&graph, text), count, "{text}");
    }
    let refused = ask(&graph, "MATCH (n:A) MATCH (n {x: 1}) WHERE n.x RETURN n").expect_err("a number is no condition");
    assert!(refused.to_string().contains("a condition"), "{refused}");
}

/// What is said of one node means the same, whichever of it leads there and whichever is looked at when an edge has led there.
#[test]
fn anchors_of_one_node_mean_the_same_in_any_order() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "MATCH (n) WHERE id(n) = idFrom(1) SET n.x = 1");
    let shown = rows(&graph, "MATCH (n) WHERE id(n) = idFrom(1) RETURN strId(n)");
    let Value::Text(text) = &shown[0][0] else { panic!("{shown:?}") };
    let text = format!("'{}'", text.as_str());
    for (first, second, expected) in [
        ("idFrom(1)", text.as_str(), 1),
        (text.as_str(), "idFrom(1)", 1),
        (text.as_str(), text.as_str(), 1),
        ("idFrom(2)", text.as_str(), 0),
        (text.as_str(), "idFrom(2)", 0),
        (text.as_str(), "'no id'", 0),
    ] {
        let asked = format!("MATCH (n) WHERE id(n) = {first} AND id(n) = {second} RETURN count(n)");
        assert_eq!(number(&graph, &asked), expected, "{asked}");
    }
    rows(&graph, "CREATE (a:A)-[:R]->(b:B {k: 1}) SET a.ref = strId(b)");
    rows(&graph, "CREATE (a:A {ref: 'no id'})-[:R]->(b:B {k: 1})");
    assert_eq!(number(&graph, "MATCH (a:A)-[:R]->(b:B {k: 1}) WHERE id(b) = a.ref RETURN count(*)"), 1);
}

#[test]
fn one_relationship_of_two_names_is_no_two_relationships() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "CREATE (:A)-[:R]->(:B)-[:R]->(:C)");
    let named = "MATCH ()-[r]->() WITH r AS a, r AS b";
    assert_eq!(number(&graph, &format!("{named} MATCH ()-[a]->(), ()-[b]->() RETURN count(*)")), 0);
    assert_eq!(number(&graph, &format!("{named} MATCH ()-[a]->()-[b]->() RETURN count(*)")), 0);
    // Each clause by itself may have it.
    assert_eq!(number(&graph, &format!("{named} MATCH ()-[a]->() MATCH ()-[b]->() RETURN count(*)")), 2);
    let twice = "MATCH ()-[r]->() WITH r AS a MATCH ()-[a]->()-[a]->() RETURN count(*)";
    assert!(compile(twice, &CompileOptions::default()).is_err());
}

#[test]
fn components_that_do_not_fit_are_refused() {
    let engine = engine();
    let graph = graph(&engine);
    for (of, components) in [
        ("datetime({year: 999999999})", &["epochMillis"][..]),
        ("datetime({year: -999999999})", &["epochMillis"][..]),
        ("duration({seconds: 9223372036854775807})", &["milliseconds", "microseconds", "nanoseconds"][..]),
    ] {
        for component in components {
            let failure = ask(&graph, &format!("WITH {of} AS x RETURN x.{component}")).unwrap_err().to_string();
            assert!(failure.contains("64 bits"), "{of}.{component}: {failure}");
        }
    }
    let fitting = "WITH duration({seconds: 9223372036854775807}) AS x RETURN x.hours";
    assert_eq!(number(&graph, fitting), i64::MAX / 3600);
    assert_eq!(number(&graph, "WITH datetime({year: 1969, month: 12, day: 31}) AS x RETURN x.epochMillis"), -86_400_000);
}

#[test]
fn how_a_merge_inside_foreach_looks_for_nodes_is_told() {
    let engine = engine();
    let graph = graph(&engine);
    let ways = |text: &str| {
        let plan = compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
        graph.ways(&graph.prepare(plan), &[]).into_values().collect::<Vec<String>>()
    };
    assert_eq!(ways("FOREACH (x IN [1] | MERGE (n:P {name: x}))"), ["node 0 among those with :P"]);
    assert_eq!(
        ways("FOREACH (x IN [1] | MERGE (n:P {name: x}) MERGE (m:Q {name: x}))"),
        ["node 0 among those with :P; node 0 among those with :Q"]
    );
    assert!(ways("FOREACH (x IN [1] | CREATE (n:P {name: x}))").is_empty());
}

/// How many rows a query has, and how many facts were read for them.
fn profiled(graph: &Graph, text: &str) -> (u64, u64) {
    let query = graph.prepare(compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{}", problems[0])));
    let profile = Profile::new(&query.plan);
    let (mut rows, mut facts) = (0, 0);
    let options = QueryOptions { profile: Some(&profile), ..QueryOptions::default() };
    graph
        .query(&query, &[], options, &mut |_| {
            rows += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    query.plan.root.each_below(&mut |operator| facts += profile.of(operator).facts);
    (rows, facts)
}

/// A list of ids leads to the nodes that it names, each once; no other is looked at.
#[test]
fn a_list_of_ids_looks_at_the_nodes_that_it_names() {
    let engine = engine();
    let graph = graph(&engine);
    rows(&graph, "UNWIND range(1, 1000) AS i MATCH (n) WHERE id(n) = idFrom('q', i) SET n:Q");
    let collected = "MATCH (m) WHERE id(m) = idFrom('q', 7) WITH collect(strId(m)) AS ids \
                     MATCH (n:Q) WHERE strId(n) IN ids RETURN strId(n)";
    for (text, named) in [
        ("MATCH (n:Q) WHERE id(n) IN [idFrom('q', 1), idFrom('q', 2), idFrom('q', 1), null, 'no id', 3] RETURN strId(n)", 2),
        ("MATCH (n:Q) WHERE id(n) = idFrom('q', 1) OR id(n) = idFrom('q', 2) RETURN strId(n)", 2),
        ("MATCH (n:Q) WHERE id(n) IN [x IN range(1, 50) | idFrom('q', x)] RETURN strId(n)", 50),
        (collected, 1),
        ("MATCH (n:Q) WHERE id(n) IN [] RETURN strId(n)", 0),
    ] {
        // One fact each: that it has the label.
        assert_eq!(profiled(&graph, text), (named, named), "{text}");
    }
}

/// Edges are listed in pieces, and each counts once.
#[test]
fn an_edge_that_is_listed_is_one_fact() {
    let engine = engine();
    let graph = graph(&engine);
    let hub = "MATCH (h) WHERE id(h) = idFrom('hub') ";
    rows(&graph, &format!("{hub} UNWIND range(1, 1500) AS i MATCH (n) WHERE id(n) = idFrom(i) CREATE (h)-[:E]->(n)"));
    for (rest, facts_wanted) in [("MATCH (h)-[:E]->(m) RETURN count(m)", 1500), ("MATCH (h)-[:E]->(m) RETURN 1 LIMIT 1", 64)] {
        assert_eq!(profiled(&graph, &format!("{hub} {rest}")), (1, facts_wanted), "{rest}");
    }
}

/// What ids or earlier clauses lead into goes on from the end with fewer edges, or from what an index finds where that is less.
#[test]
fn an_anchored_pattern_goes_on_where_it_takes_least() {
    let engine = engine();
    let graph = graph(&engine);
    let at = |name: &str| format!("MATCH (h) WHERE id(h) = idFrom('{name}')");
    rows(&graph, &format!("{} UNWIND range(1, 400) AS i CREATE (:M {{k: i}})-[:E]->(h)", at("hub")));
    rows(&graph, &format!("MATCH (m:M) WHERE m.k < 4 {} CREATE (m)-[:F]->(h)", at("few")));
    let way = |text: &str| {
        let plan = compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
        graph.ways(&graph.prepare(plan), &[]).into_values().collect::<Vec<String>>().join("; ")
    };
    let is_found = |text: &str, wanted: u64| {
        let (found, facts) = profiled(&graph, text);
        assert!(found == wanted && facts < 60, "{text}: {found} rows, {facts} facts");
    };
    for (pattern, expected) in
        [("(h)<-[:E]-(m)-[:F]->(x)", "order 2 of 2, on from node 2"), ("(x)<-[:F]-(m)-[:E]->(h)", "order 1 of 2, on from node 0")]
    {
        let text = format!("MATCH {pattern} WHERE id(h) = idFrom('hub') AND id(x) = idFrom('few') RETURN m.k");
        is_found(&text, 3);
        assert_eq!(way(&text), expected, "{text}");
    }
    let after_it = format!("{} MATCH (h)<-[:E]-(m:M {{k: 77}}) RETURN m.x", at("hub"));
    let after_it = after_it.as_str();
    let by_id = "MATCH (h)<-[:E]-(m:M {k: 77}) WHERE id(h) = idFrom('hub') RETURN m.x";
    let of_few = "MATCH (h)<-[:F]-(m:M {k: 3}) WHERE id(h) = idFrom('few') RETURN m.x";
    for text in [after_it, by_id] {
        assert!(profiled(&graph, text).1 >= 400, "{text}");
    }
    assert_eq!(way(by_id), "order 1 of 2, on from node 0");
    // To list those with a label would be in conflict with each node that gets it.
    rows(&graph, "MATCH (m:M) WHERE m.k > 390 SET m:Few");
    rows(&graph, "CREATE LOOKUP INDEX few FOR (n:Few)");
    let of_label = "MATCH (h)<-[:E]-(m:Few {k: 395}) WHERE id(h) = idFrom('hub') RETURN m.x";
    assert_eq!(way(of_label), "order 1 of 2, on from node 0");
    assert!(profiled(&graph, of_label).1 >= 400);
    assert_eq!(way("MATCH (m:Few {k: 395}) RETURN m.x"), "node 0 by the index few of :Few");
    rows(&graph, "CREATE INDEX ms FOR (n:M) ON (n.k)");
    let of_both = "MATCH (h)<-[:E]-(m:M:Few) WHERE id(h) = idFrom('hub') AND m.k > 380 RETURN m.x";
    assert_eq!(way(of_both), "order 2 of 2, node 1 by the index ms of :M(k)");
    assert_eq!(profiled(&graph, of_both).0, 10);
    for text in [after_it, by_id, of_few] {
        is_found(text, 1);
    }
    assert_eq!(way(by_id), "order 2 of 2, node 1 by the index ms of :M(k)");
    assert_eq!(way(of_few), "order 1 of 2, on from node 0");
    // Of each row by itself.
    let of_each = "UNWIND ['few', 'hub', 'few'] AS name MATCH (h)<-[:E|F]-(m:M {k: 3}) WHERE id(h) = idFrom(name) RETURN m.x";
    is_found(of_each, 3);
    // MERGE looks in the same way, and finds or makes what it did.
    let merge = |k: u32| format!("{} MERGE (h)<-[:E]-(m:M {{k: {k}}}) ON CREATE SET m.made = true RETURN m.made", at("hub"));
    rows(&graph, "CREATE (:M {k: 2000})");
    let made = Value::Boolean(true);
    for (k, expected) in [(77, Value::Null), (1000, made.clone()), (1000, made.clone()), (2000, made.clone()), (2000, made)] {
        assert_eq!(rows(&graph, &merge(k)), [[expected]], "{k}");
    }
    is_found(&merge(77), 1);
    assert_eq!(number(&graph, "MATCH (m:M) RETURN count(m)"), 403);
    assert_eq!(number(&graph, &format!("{} MATCH (h)<-[:E]-(m) RETURN count(m)", at("hub"))), 402);
}

/// Whether a query fails follows from what it asks and of which nodes, in the order of its text, and not from where it would take
/// least to go on: there nobody might be asked.
#[test]
fn where_something_fails_a_pattern_goes_on_as_its_text_says() {
    let engine = engine();
    for (name, open_cypher) in [("streaming", false), ("cypher", true)] {
        let graph = engine.create_graph(name, GraphOptions { open_cypher }).unwrap();
        let at = |name: &str| format!("MATCH (h) WHERE id(h) = idFrom('{name}')");
        rows(&graph, &format!("{} UNWIND range(1, 400) AS i CREATE (:M {{k: i, j: i}})-[:E {{w: i}}]->(h)", at("hub")));
        rows(&graph, &format!("MATCH (m:M) WHERE m.k < 4 {} CREATE (m)-[:F]->(h)", at("few")));
        rows(&graph, "CREATE (:D {k: 1})");
        let between = |row: &str, end: &str, condition: &str| {
            format!(
                "UNWIND [{row}] AS r MATCH (h)<-[e:E]-(m)-[:F]->(x)
                 WHERE id(h) = idFrom('hub') AND id(x) = idFrom('{end}') AND {condition} RETURN m.k"
            )
        };
        for (condition, works, fails) in [
            ("m.k = 1 / r.z", "{z: 1}", "{z: 0}"),
            ("e.w = 1 / r.z", "{z: 1}", "{z: 0}"),
            ("m.k IN r.z", "{z: [1]}", "{z: 7}"),
            ("m.k = r.z.a", "{z: {a: 1}}", "{z: 7}"),
        ] {
            let (found, facts) = profiled(&graph, &between(works, "few", condition));
            assert!(found == 1 && facts < 60, "{name}: {condition}: {found} rows, {facts} facts");
            for end in ["few", "bare"] {
                assert!(ask(&graph, &between(fails, end, condition)).is_err(), "{name}: {condition}, {end}");
            }
        }
        rows(&graph, "CREATE INDEX FOR (n:M) ON (n.k)");
        let by_index = |z: u32, end: &str| {
            format!(
                "UNWIND [{{z: {z}}}] AS r MATCH (h)<-[:E]-(m:M)
                 WHERE id(h) = idFrom('{end}') AND m.j > 10 / r.z AND m.k = 5000 RETURN m.k"
            )
        };
        let (found, facts) = profiled(&graph, &by_index(1, "hub"));
        assert!(found == 0 && facts < 60, "{name}: {found} rows, {facts} facts");
        assert!(ask(&graph, &by_index(0, "hub")).is_err(), "{name}");
        // Here nobody is asked.
        assert!(rows(&graph, &by_index(0, "bare")).is_empty(), "{name}");
        let of_no_edge = "MATCH (a), (b) WHERE id(a) = idFrom('few') AND id(b) = idFrom('hub') UNWIND [{e: 1}] AS q
            UNWIND [q.e] AS r MATCH (a)-[r]->(b)<-[:E]-(m:M {k: 5000}) RETURN m.k";
        assert!(ask(&graph, of_no_edge).unwrap_err().to_string().contains("Relationship"), "{name}");
        // What was deleted is no error to ask for but in the graph model of openCypher.
        for others in ["", ", (d)"] {
            let of_deleted = format!(
                "MATCH (d:D) DELETE d WITH d MATCH (h)<-[:E]-(m)-[:F]->(x){others}
                 WHERE id(h) = idFrom('hub') AND id(x) = idFrom('bare') AND m.k = d.k RETURN m.k"
            );
            let answer = ask(&graph, &of_deleted);
            match open_cypher {
                true => assert!(answer.unwrap_err().to_string().contains("deleted before"), "{name}: {of_deleted}"),
                false => assert!(answer.unwrap().is_empty(), "{name}: {of_deleted}"),
            }
        }
    }
}

/// What is read by a query that runs as of a past moment counts as what is read of the present.
#[test]
fn what_is_read_of_the_past_is_counted() {
    let engine = engine();
    let graph = graph(&engine);
    let hub = "MATCH (h) WHERE id(h) = idFrom('hub')";
    rows(&graph, &format!("{hub} UNWIND range(1, 10) AS i MATCH (n) WHERE id(n) = idFrom(i) SET n.x = i CREATE (h)-[:E]->(n)"));
    let pause = || std::thread::sleep(Duration::from_millis(5));
    pause();
    let at = number(&graph, "RETURN timestamp()");
    pause();
    rows(&graph, "MATCH (n) WHERE id(n) = idFrom('later') SET n.x = 1");
    let query = "MATCH (h)-[:E]->(n) WHERE id(h) = idFrom('hub') AND n.x > 0 RETURN n.x AS x";
    let present = profiled(&graph, query);
    // Of each an edge and a property.
    assert!(present.0 == 10 && present.1 >= 20, "{present:?}");
    let past = format!("CALL history.queryAt(\"{query}\", {at}) YIELD value RETURN value.x");
    assert_eq!(profiled(&graph, &past), present);
}

#[test]
fn nodes_that_a_query_removes_take_no_place_among_those_written_last() {
    let engine = engine();
    let graph = graph(&engine);
    for n in 1..=30 {
        rows(&graph, &format!("MATCH (n) WHERE id(n) = idFrom('recent', {n}) SET n.x = {n}"));
    }
    let text = "MATCH (n) WHERE n.x > 20 SET n.x = null WITH count(n) AS gone CALL recentNodes(10) YIELD node RETURN node.x";
    let expected: Vec<Value> = (11..=20).rev().map(Value::Integer).collect();
    assert_eq!(rows(&graph, text).concat(), expected);
}

/// What leads to nodes by a list of their ids answers as the condition does that is asked of every node.
#[test]
fn a_list_of_ids_is_the_condition_that_it_was() {
    let engine = engine();
    for (name, open_cypher) in [("streaming", false), ("cypher", true)] {
        let graph = engine.create_graph(name, GraphOptions { open_cypher }).unwrap();
        rows(&graph, "UNWIND range(1, 4) AS i MATCH (n) WHERE id(n) = idFrom('q', i) SET n:Q, n.i = i");
        rows(&graph, "MATCH (a), (b) WHERE id(a) = idFrom('q', 1) AND id(b) = idFrom('q', 2) CREATE (a)-[:R]->(b)");
        // It has an edge alone.
        rows(&graph, "MATCH (a), (b) WHERE id(a) = idFrom('q', 2) AND id(b) = idFrom('q', 8) CREATE (a)-[:R]->(b)");
        let asked = |text: &str, is_plain: bool| {
            let compile = if is_plain { compile_plainly } else { compile };
            let plan = compile(text, &CompileOptions::default()).unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
            let mut rows = Vec::new();
            graph.query(&graph.prepare(plan), &[], QueryOptions::default(), &mut |row| {
                rows.push(format!("{row:?}"));
                ControlFlow::Continue(())
            })?;
            rows.sort();
            Ok::<_, EngineError>(rows)
        };
        for (text, count) in [
            (
                "MATCH (n) WHERE id(n) IN [idFrom('q', 1), idFrom('q', 9), null, idFrom('q', 1), 'x', 1.5, [1], idFrom('q', 8)] RETURN n.i",
                Some(2),
            ),
            ("MATCH (n) WHERE NOT id(n) IN [idFrom('q', 1), idFrom('q', 2)] RETURN n.i", Some(3)),
            ("WITH null AS l MATCH (n) WHERE id(n) IN l RETURN n.i", Some(0)),
            (
                "WITH [idFrom('q', 1), idFrom('q', 2)] AS l, 5 AS x MATCH (n)-[:R]->(m) WHERE id(m) IN l OR id(m) = x RETURN n.i, m.i",
                Some(1),
            ),
            (
                "UNWIND [1, 2, 2, 4] AS x OPTIONAL MATCH (n) WHERE id(n) IN [idFrom('q', x), idFrom('q', x + 1)] AND n.i < 4 RETURN x, n.i",
                Some(7),
            ),
            ("MATCH (n) MATCH (n) WHERE id(n) IN [idFrom('q', 1), idFrom('q', 3)] RETURN n.i", Some(2)),
            ("MATCH (a:Q), (b:Q) WHERE id(b) IN [id(a), idFrom('q', 1)] RETURN a.i, b.i", Some(7)),
            (
                "MATCH (a:Q) RETURN a.i, EXISTS { MATCH (a)-[:R]->(b) WHERE id(b) IN [idFrom('q', a.i + 1), idFrom('q', 7)] } AS e, \
                 COUNT { MATCH (b) WHERE id(b) IN [idFrom('q', a.i), idFrom('q', a.i)] } AS c",
                Some(4),
            ),
            ("MATCH (a:Q) RETURN a.i, [(b)-[:R]->(a) WHERE id(b) IN [idFrom('q', 1), idFrom('q', 2)] | b.i] AS l", Some(4)),
            (
                "MATCH (n) WHERE id(n) = idFrom('q', 1) WITH strId(n) AS s MATCH (m) WHERE strId(m) IN [s, toUpper(s), s] RETURN m.i",
                Some(1),
            ),
            // A text in a list of several is no id.
            (
                "MATCH (n) WHERE id(n) = idFrom('q', 1) WITH strId(n) AS s MATCH (m) WHERE id(m) IN [s, idFrom('q', 2)] RETURN m.i",
                Some(1),
            ),
            // Behind WITH an id is compared: it neither enters what is not there nor is the text of one.
            ("MATCH (n) WITH n WHERE id(n) = idFrom('q', 1) RETURN n.i", Some(1)),
            ("MATCH (n) WITH n WHERE id(n) = idFrom('q', 9) RETURN n.i", Some(0)),
            ("MATCH (n) WITH n WHERE id(n) = idFrom('q', 8) RETURN n.i", Some(1)),
            ("MATCH (n) WITH n, strId(n) AS s WHERE id(n) = s RETURN n.i", Some(0)),
            ("MATCH (a:Q) MATCH (n) WITH a, n, a.i AS i WHERE id(n) = idFrom('q', i) RETURN n.i", Some(4)),
            // Other conditions are those of the pattern, unless the rows that they leave out have a say in the others.
            (
                "CALL { MATCH (n) RETURN n } WITH DISTINCT n ORDER BY n.i WHERE n.i = 1 OR n.i = null OR 3.0 = n.i RETURN n.i",
                Some(2),
            ),
            ("MATCH (n) WITH n WHERE NOT (n.i = 1 OR n.i = null) RETURN n.i", Some(0)),
            ("MATCH (n) WITH n WHERE NOT (n.i = 1 OR n.i = 'x') RETURN n.i", Some(3)),
            ("MATCH (n) WITH n ORDER BY n.i LIMIT 2 WHERE n.i = 3 RETURN n.i", Some(0)),
            ("MATCH (n) OPTIONAL MATCH (n)-[:R]->(m) WITH n, m WHERE m.i = 2 RETURN n.i", Some(1)),
            ("MATCH (a:Q)-[r:R]->(b) WITH r, b, b.i AS i WHERE i IS NOT NULL AND b:Q RETURN b.i", Some(1)),
            ("UNWIND [{k: 1}, {k: 2}, {k: null}, {k: 3}] AS m WITH m WHERE m.k = 1 OR m.k = null OR m.k = 2 RETURN m.k", Some(2)),
            // What fails does so where there is a node to ask.
            ("WITH {l: 5} AS m MATCH (n) WHERE id(n) IN m.l RETURN n.i", None),
            ("WITH {l: 5} AS m MATCH (n:Nope) WHERE id(n) IN m.l RETURN n.i", Some(0)),
            ("WITH 0 AS zero MATCH (n) WHERE id(n) IN [1 / zero, idFrom('q', 1)] RETURN n.i", None),
            ("WITH 0 AS zero MATCH (n) WHERE id(n) = idFrom('q', 1) OR id(n) = 1 / zero RETURN n.i", None),
        ] {
            let (found, expected) = (asked(text, false).ok(), asked(text, true).ok());
            assert_eq!(found, expected, "{name}: {text}");
            assert_eq!(found.map(|rows| rows.len()), count, "{name}: {text}");
        }
        // A node that the query itself has deleted is not there.
        let deleted = "MATCH (n) WHERE id(n) = idFrom('q', 3) DETACH DELETE n
            WITH count(*) AS c MATCH (m) WHERE id(m) IN [idFrom('q', 3), idFrom('q', 4)] RETURN m.i";
        assert_eq!(rows(&graph, deleted), [[Value::Integer(4)]], "{name}");
    }
}
