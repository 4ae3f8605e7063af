//! Queries as text, compiled and run one after another on one graph: what clauses mean together.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Options, compile};
use weir_model::plan::Operator;
use weir_model::{Failure, IdScheme, Map, Mutations, NodeId, Procedure, Value};

use super::{Environment, Evaluator, Limits, Prepared, evaluate};
use crate::random::Random;
use crate::reference::{self, ReferenceGraph};
use crate::symbols::Symbols;

/// Ids are small integers (scheme `long`), so that `id(n) = 1` anchors.
pub const IDS: IdScheme = IdScheme::Long { consecutive: false };

pub struct Session {
    pub symbols: Symbols,
    pub graph: ReferenceGraph,
    pub fresh: Cell<u64>,
    pub open_cypher: bool,
    /// Known besides those of the table.
    pub procedures: Vec<Arc<Procedure>>,
}

impl Session {
    pub fn new() -> Session {
        Session {
            symbols: Symbols::default(),
            graph: ReferenceGraph::new(),
            fresh: Cell::new(100),
            open_cypher: false,
            procedures: Vec::new(),
        }
    }

    pub fn run(&mut self, query: &str, that: Value) -> Result<Vec<String>, Failure> {
        self.run_within(Limits::default(), query, that)
    }

    pub fn run_within(&mut self, limits: Limits, query: &str, that: Value) -> Result<Vec<String>, Failure> {
        let procedures = self.procedures.clone();
        let options = Options { parameters: vec!["that".into()], ids: IDS, procedures, ..Options::default() };
        let plan = compile(query, &options).unwrap_or_else(|errors| panic!("{query}: {errors:?}"));
        self.run_prepared(&Prepared::of_moments(plan, &self.symbols), limits, that)
    }

    fn run_prepared(&mut self, prepared: &Prepared, limits: Limits, that: Value) -> Result<Vec<String>, Failure> {
        let fresh_id = || {
            self.fresh.set(self.fresh.get() + 1);
            NodeId::new(0, self.fresh.get())
        };
        let environment = Environment {
            view: &self.graph,
            parameters: &[that],
            ids: IDS,
            now: weir_model::Clock::at(1_000),
            fresh_id: &fresh_id,
            limits,
            open_cypher: self.open_cypher,
            recall: None,
        };
        let (mut mutations, mut rows) = (Mutations::default(), Vec::new());
        let result = evaluate(prepared, &self.symbols, &environment, &mut mutations, &mut |row| {
            rows.push(row.iter().map(show).collect::<Vec<_>>().join(" | "));
            ControlFlow::Continue(())
        });
        assert!(result.is_ok() || mutations.is_empty());
        self.graph.apply_all(&mutations);
        result.map(|()| rows)
    }
}

pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Boolean(b) => b.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => format!("{x:?}"),
        Value::Text(text) => format!("'{text}'"),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => show_map(map),
        Value::FullNode(node) => {
            let labels: String = node.labels.iter().map(|label| format!(":{label}")).collect();
            format!("({}{labels} {})", node.id.low, show_map(&node.properties))
        }
        Value::FullEdge(edge) => {
            let (source, target) = (edge.key.source.low, edge.key.target.low);
            format!("[{source}-{}->{target} {}]", edge.key.kind, show_map(&edge.properties))
        }
        other => format!("{other:?}"),
    }
}

fn show_map(map: &Map) -> String {
    let mut entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {}", show(value))).collect();
    entries.sort();
    format!("{{{}}}", entries.join(", "))
}

/// Runs the queries but the last for their effect, and compares the rows of the last, in any order unless it has one.
pub fn check(queries: &[&str], expected: &[&str]) {
    check_in(&mut Session::new(), queries, expected);
}

pub fn check_in(session: &mut Session, queries: &[&str], expected: &[&str]) {
    let (last, setup) = queries.split_last().expect("a query");
    for query in setup {
        session.run(query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
    }
    let mut rows = session.run(last, Value::Null).unwrap_or_else(|failure| panic!("{last}: {failure}"));
    let mut expected: Vec<String> = expected.iter().map(|row| row.to_string()).collect();
    if !last.contains("ORDER BY") {
        rows.sort();
        expected.sort();
    }
    assert_eq!(rows, expected, "{queries:#?}");
}

pub fn check_fails(queries: &[&str], fragment: &str) {
    let mut session = Session::new();
    let (last, setup) = queries.split_last().expect("a query");
    for query in setup {
        session.run(query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
    }
    let before = session.graph.clone();
    let failure = session.run(last, Value::Null).expect_err(last);
    assert!(failure.message.contains(fragment), "{last}: {failure}");
    assert!(before == session.graph, "{last}: a failed query changes nothing");
}

/// Three people in a row, and a dog.
pub(super) const PEOPLE: &str = "CREATE (a:Person {name: 'Ann', age: 30})-[:KNOWS]->(b:Person {name: 'Bob', age: 20}), \
                      (b)-[:KNOWS]->(c:Person {name: 'Cid', age: 40}), (a)-[:OWNS]->(:Dog {name: 'Rex'})";

/// An edge to nothing is none, and neither are the nodes that it would have led to.
#[test]
fn a_pattern_that_leads_to_null_is_not_created() {
    let lone = "OPTIONAL MATCH (x:Nope) ";
    let count = "MATCH (n) RETURN labels(n), n.k";
    for (write, left) in [
        ("CREATE (x)-[:R]->(q:Q {k: 1})-[:R]->(:Q {k: 2}), (z:Z {k: 3}) RETURN q, z.k", &["['Z'] | 3"][..]),
        ("CREATE (x)-[:R]->(x) RETURN x", &[]),
        ("MERGE (x)-[:R]->(q:Q {k: 1}) ON CREATE SET q.made = true RETURN q", &[]),
        ("MERGE (z:Z {k: 3}) CREATE (z)-[:R]->(x) RETURN x", &["['Z'] | 3"]),
    ] {
        check(&[&format!("{lone}{write}"), &format!("{lone}{write}"), &count.replace("RETURN", "RETURN DISTINCT")], left);
    }
}

#[test]
fn a_named_path_to_null_is_null_and_the_row_passes() {
    for (query, row) in [
        ("OPTIONAL MATCH (a:Missing) CREATE p = (a)-[:R]->(b:B) RETURN p, b", "null | null"),
        ("OPTIONAL MATCH (a:Missing) MERGE p = (a)-[:R]->(b:B) RETURN p, b", "null | null"),
        ("OPTIONAL MATCH (a:Missing) CREATE p = (a)-[:R]->(:B), q = (:C)-[:R]->(:D) RETURN p, length(q)", "null | 1"),
        ("OPTIONAL MATCH (a:Missing) CREATE q = (:C)-[:R]->(:D), p = (a)-[:R]->(:B) RETURN p, length(q)", "null | 1"),
    ] {
        check(&[query], &[row]);
    }
    // In FOREACH as well, where the path of the element before is not taken for that of this one.
    let each = "MATCH (c:C) OPTIONAL MATCH (a:Missing) FOREACH (x IN [c, a] | CREATE p = (x)-[:R]->(:B), q = (:D) \
                FOREACH (n IN nodes(p) + nodes(q) | SET n.both = true) \
                FOREACH (n IN nodes(p) | SET n.seen = coalesce(n.seen, 0) + 1) \
                FOREACH (n IN nodes(q) | SET n.seen = 7))";
    check(
        &["CREATE (:C)", each, "MATCH (n) RETURN labels(n), n.seen, n.both"],
        &["['B'] | 1 | true", "['C'] | 1 | true", "['D'] | 7 | true", "['D'] | 7 | null"],
    );
}

/// A MERGE that leads to null creates nothing: then what is there takes on nothing either, and ON CREATE does not run.
#[test]
fn a_merge_that_leads_to_null_does_nothing_at_all() {
    let there = "CREATE (:C {made: 0})";
    let all = "MATCH (n) RETURN labels(n), n.made, n.x";
    for merge in [
        "MERGE (a)-[r:R]->(b:B) ON CREATE SET c.made = c.made + 1",
        "MERGE (a)-[r:R]->(b:B)-[:R]->(c) ON CREATE SET c.made = c.made + 1",
        "MERGE (a)-[r:R]->(c:L {x: 1})",
        "MERGE (c:L {x: 1})<-[r:R]-(a)",
    ] {
        let merge = format!("MATCH (c:C) OPTIONAL MATCH (a:Missing) {merge} RETURN r");
        check(&[there, &merge], &["null"]);
        check(&[there, &merge, all], &["['C'] | 0 | null"]);
    }
    let each = "MATCH (c:C) OPTIONAL MATCH (a:Missing) FOREACH (x IN [c, a, c] | \
                MERGE (x)-[:R]->(b:B) ON CREATE SET c.made = c.made + 1 SET b.x = 1)";
    check(&[there, each, all], &["['B'] | null | 1", "['C'] | 1 | null"]);
}

#[test]
fn reading() {
    check(&["RETURN 1 + 1 AS two"], &["2"]);
    check(&["MATCH (n) WHERE id(n) = 7 RETURN n"], &["(7 {})"]);
    check(&["MATCH (n) WHERE id(n) = null RETURN n"], &[]);
    check(&[PEOPLE, "MATCH (n:Person) RETURN n.name"], &["'Ann'", "'Bob'", "'Cid'"]);
    check(&[PEOPLE, "MATCH (n:Person {age: 20}) RETURN n.name"], &["'Bob'"]);
    check(&[PEOPLE, "MATCH (n) WHERE n.age > 25 AND n:Person RETURN n.name"], &["'Ann'", "'Cid'"]);
    check(&[PEOPLE, "MATCH (a)-[:KNOWS]->(b)-[:KNOWS]->(c) RETURN a.name, c.name"], &["'Ann' | 'Cid'"]);
    check(&[PEOPLE, "MATCH (a {name: 'Bob'})--(b) RETURN b.name"], &["'Ann'", "'Cid'"]);
    check(&[PEOPLE, "MATCH (a {name: 'Ann'})-[r]->(b) RETURN r.none, b.name"], &["null | 'Bob'", "null | 'Rex'"]);
    check(&[PEOPLE, "MATCH (a)-[:KNOWS|OWNS]->(b) RETURN count(*)"], &["3"]);
    check(&[PEOPLE, "MATCH (a:Dog), (b:Person) RETURN count(*)"], &["3"]);
    check(&[PEOPLE, "MATCH (a)--(b)--(a) RETURN a"], &[]);
    check(&[PEOPLE, "MATCH (a:Dog) MATCH (b)-[r]->(a) RETURN b.name, r"], &["'Ann' | [101-OWNS->104 {}]"]);
}

#[test]
fn optional_match() {
    check(
        &[PEOPLE, "MATCH (a:Person) OPTIONAL MATCH (a)-[:KNOWS]->(b) RETURN a.name, b.name"],
        &["'Ann' | 'Bob'", "'Bob' | 'Cid'", "'Cid' | null"],
    );
    check(
        &[PEOPLE, "MATCH (a:Person) OPTIONAL MATCH (a)-[:KNOWS]->(b) OPTIONAL MATCH (b)-[:KNOWS]->(c) RETURN a.name, c.name"],
        &["'Ann' | 'Cid'", "'Bob' | null", "'Cid' | null"],
    );
    check(
        &[PEOPLE, "MATCH (a:Person) OPTIONAL MATCH (a)-[:KNOWS]->(b) WHERE b.age > 30 RETURN a.name, b.name"],
        &["'Ann' | null", "'Bob' | 'Cid'", "'Cid' | null"],
    );
}

#[test]
fn projection() {
    check(&[PEOPLE, "MATCH (n:Person) RETURN n.name AS x ORDER BY n.age DESC"], &["'Cid'", "'Ann'", "'Bob'"]);
    check(&[PEOPLE, "MATCH (n:Person) RETURN n.name AS x ORDER BY x SKIP 1 LIMIT 1"], &["'Bob'"]);
    check(&["UNWIND [1, 2, 2, null, null] AS x RETURN DISTINCT x"], &["1", "2", "null"]);
    check(&["UNWIND [1, 2, 2, null] AS x RETURN count(x), count(*), sum(x), collect(x)"], &["3 | 4 | 5 | [1, 2, 2]"]);
    check(&["UNWIND [1, 2, 3, 4] AS x RETURN x % 2 AS odd, sum(x)"], &["0 | 6", "1 | 4"]);
    check(&["UNWIND [] AS x RETURN count(*), max(x)"], &["0 | null"]);
    check(&["UNWIND [3, 1, 2] AS x WITH x ORDER BY x LIMIT 2 RETURN collect(x)"], &["[1, 2]"]);
    check(&["WITH 1 AS a, 2 AS b WITH b AS a, a AS b RETURN a, b"], &["2 | 1"]);
    check(&["UNWIND [1, 2, 3] AS x WITH x WHERE x > 1 RETURN x"], &["2", "3"]);
    check(&["UNWIND null AS x RETURN x"], &[]);
    check(&["RETURN 1 AS x UNION RETURN 1 AS x"], &["1"]);
    check(&["RETURN 1 AS x UNION ALL RETURN 1 AS x"], &["1", "1"]);
}

/// An expression may have variables of its own, also of the name of one in the row.
#[test]
fn how_many_rows_may_be_worked_out() {
    let some = "UNWIND [1, 2, 3, 4] AS x RETURN x ORDER BY x";
    check(&[&format!("{some} LIMIT size([y IN [7, 8, 9] WHERE y > 7 | y])")], &["1", "2"]);
    check(&[&format!("{some} SKIP reduce(t = 0, x IN [1, 2] | t + x)")], &["4"]);
    let case = "CASE WHEN all(x IN [1] WHERE x = 1) THEN 2 ELSE 0 END";
    check(&[&format!("{some} SKIP size([x IN [1] | [y IN [x] | x]]) LIMIT {case}")], &["2", "3"]);
    check(&["CREATE (:N), (:N)", &format!("{some} LIMIT COUNT {{ MATCH (n:N) RETURN n }}")], &["1", "2"]);
    let that = Value::list(vec![Value::Integer(5)]);
    let rows = Session::new().run(&format!("{some} LIMIT size([y IN $that | y])"), that);
    assert_eq!(rows, Ok(vec!["1".to_owned()]));
}

/// A node that keeps what it was in a property grows by a level each time: it stays readable, and who makes it too deep is told.
#[test]
fn what_is_stored_can_be_read_again() {
    let mut session = Session::new();
    let node = "MATCH (n) WHERE id(n) = 1";
    let deep = |levels: usize| format!("reduce(x = 1, i IN range(1, {levels}) | [x])");
    session.run(&format!("{node} SET n.v = 0"), Value::Null).expect("runs");
    let keep = format!("{node} SET n.before = properties(n), n.v = n.v + 1");
    let kept = (0..500).find(|_| session.run(&keep, Value::Null).is_err());
    assert_eq!(kept, Some(weir_model::extent::STORED_DEPTH_MAX));
    for (query, place) in [
        (keep, "`before` of node 1 "),
        (format!("{node} SET n.before = n"), "`before` of node 1 "),
        (format!("{node} SET n += {{before: n}}"), "`before` of node 1 "),
        (format!("{node} SET n = {{a: 1, b: [n]}}"), "`b` of node 1 "),
        (format!("{node} CREATE ({{c: n}})"), "`c` of node "),
        (format!("{node} CREATE (n)-[r:R]->(n) SET r.d = {}", deep(400)), "`d` of relationship R from 1 to 1 "),
        (format!("{node} CALL create.setProperty(n, 'e', {})", deep(400)), "`e` of node 1 "),
        (format!("CALL set.insert(1, 'f', {})", deep(399)), "`f` of node 1 "),
        (format!("{node} CALL create.relationship(n, 'R', {{g: n}}, n) YIELD rel RETURN rel"), "`g` of relationship R "),
    ] {
        let failure = session.run(&query, Value::Null).expect_err(&query);
        let told = failure.message.contains(place) && failure.message.contains("more than 399 levels deep");
        assert!(told, "{query}: {failure}");
    }
    // Both as a node and as a map of its properties it is as deep as a value may be.
    for whole in ["n", "properties(n)"] {
        let rows = session.run(&format!("{node} RETURN {whole}"), Value::Null).expect("it can be read");
        assert!(rows[0].contains("v: 399") && rows[0].contains("v: 0"), "{rows:?}");
    }
    session.run(&format!("{node} CREATE (n)-[r:R {{h: {}}}]->(n)", deep(399)), Value::Null).expect("runs");
    assert_eq!(session.run("MATCH ()-[r:R]->() RETURN r", Value::Null).expect("it can be read").len(), 1);
}

#[test]
fn creating() {
    check(&["CREATE (n:A:B {x: 1, y: null}) RETURN n"], &["(101:A:B {x: 1})"]);
    check(&["CREATE ()", "MATCH (n) RETURN n"], &[]);
    check(&["CREATE (a {x: 1})-[r:T]->(b {y: 2}) RETURN r", "MATCH (a)-[:T]->(b) RETURN a.x, b.y"], &["1 | 2"]);
    let edge = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 CREATE (a)-[:T]->(b)";
    check(&[edge, edge, "MATCH (a)-[:T]->(b) RETURN id(a), id(b)"], &["1 | 2"]);
    let mut parallel = Session { open_cypher: true, ..Session::new() };
    check_in(&mut parallel, &[edge, edge, "MATCH (a)-[:T]->(b) RETURN id(a), id(b)"], &["1 | 2", "1 | 2"]);
    check_in(&mut parallel, &["MATCH (a)-[r]->(b) WITH r LIMIT 1 DELETE r", edge, "MATCH ()-[r]->() RETURN count(r)"], &["2"]);
    check(&["UNWIND [1, 2, 3, 4, 5] AS x CREATE (:N {x: x})", "MATCH (n:N) RETURN sum(n.x)"], &["15"]);
    check(&["UNWIND [1, 2, 3, 4, 5] AS x CREATE (n:N {x: x}) RETURN n.x LIMIT 1", "MATCH (n:N) RETURN count(*)"], &["5"]);
}

/// Operators are nested as deep as there are clauses.
#[test]
fn many_clauses() {
    let query: String = (0..900).map(|i| format!("CREATE (:N {{i: {i}}})\n")).collect();
    check(&[&query, "MATCH (n:N) RETURN count(*), sum(n.i)"], &["900 | 404550"]);
    let read: String = (0..400).map(|i| format!("MATCH (n{i}:N) WHERE n{i}.i = {i} WITH *\n")).collect();
    check(&["UNWIND range(0, 399) AS i CREATE (:N {i: i})", &format!("{read} RETURN n399.i")], &["399"]);
}

#[test]
fn setting() {
    let at = |set: &str| format!("MATCH (n) WHERE id(n) = 1 {set}");
    let read = at("RETURN n");
    let after = |sets: &[&str], expected: &str| {
        let mut queries: Vec<String> = sets.iter().map(|set| at(set)).collect();
        queries.push(read.clone());
        check(&queries.iter().map(String::as_str).collect::<Vec<_>>(), &[expected]);
    };
    after(&["SET n.a = 1, n.b = n.a"], "(1 {a: 1, b: 1})");
    after(&["SET n.a = 1", "SET n.a = null"], "(1 {})");
    after(&["SET n:X, n.a = 1", "SET n = {b: 2, c: null}"], "(1:X {b: 2})");
    after(&["SET n = {a: 1, b: 2}", "SET n += {b: null, c: 3}"], "(1 {a: 1, c: 3})");
    after(&["SET n:X:Y", "REMOVE n:X"], "(1:Y {})");
    after(&["SET n.a = 1, n.b = 2", "REMOVE n.a"], "(1 {b: 2})");
    check(&["MATCH (n), (m) WHERE id(n) = 1 AND id(m) = 2 SET n.x = 1 SET m = n RETURN m"], &["(2 {x: 1})"]);
    check(&["MATCH (n), (m) WHERE id(n) = 1 AND id(m) = 1 SET n.x = 1 RETURN m.x"], &["1"]);
    check(&["OPTIONAL MATCH (n:None) SET n.x = 1 RETURN n"], &["null"]);
    check(&[PEOPLE, "MATCH (n:Person) SET n.age = n.age + 1", "MATCH (n:Person) RETURN sum(n.age)"], &["93"]);
}

#[test]
fn the_record_of_an_ingest() {
    let query = "MATCH (n), (p) WHERE id(n) = $that.id AND id(p) = $that.parent \
                 SET n = $that, n:Process CREATE (n)-[:parent]->(p)";
    let mut session = Session::new();
    for (id, parent) in [(2, 1), (3, 2)] {
        let that = Value::map([("id".into(), Value::Integer(id)), ("parent".into(), Value::Integer(parent))]);
        session.run(query, that).expect("the record is taken");
    }
    check_in(
        &mut session,
        &["MATCH (a:Process)-[:parent]->(b) RETURN a, id(b)"],
        &["(2:Process {id: 2, parent: 1}) | 1", "(3:Process {id: 3, parent: 2}) | 2"],
    );
    let plan = compile(query, &Options { parameters: vec!["that".into()], ids: IDS, ..Options::default() }).expect("compiles");
    assert!(!Prepared::new(plan, &session.symbols).reads(false), "an ingest query of this form takes the fast path");
}

/// As above with ids made by `idFrom`, again and again; prints what a record costs.
#[test]
fn an_ingest_query_streams() {
    let query = "MATCH (n), (p) WHERE id(n) = idFrom('process', $that.process_id) \
                 AND id(p) = idFrom('process', $that.parent_id) SET n = $that, n:Process CREATE (n)-[:parent]->(p)";
    let plan = compile(query, &Options { parameters: vec!["that".into()], ids: IdScheme::Uuid, ..Options::default() })
        .expect("compiles");
    let symbols = Symbols::default();
    let prepared = Prepared::new(plan, &symbols);
    let graph = ReferenceGraph::new();
    let fresh_id = || NodeId::default();
    let mut evaluator = Evaluator::new(&prepared, &symbols);
    let mut mutations = Mutations::default();
    let records: Vec<Value> = (0..1000)
        .map(|n| {
            let numbers = ["process_id", "parent_id", "time", "session"].map(|key| (key.into(), Value::Integer(n)));
            let texts =
                ["user", "host", "name", "path", "line", "hash"].map(|key| (key.into(), Value::text("a text not inline")));
            Value::map(numbers.into_iter().chain(texts))
        })
        .collect();
    let mut best = Duration::MAX;
    for _ in 0..20 {
        mutations.clear();
        let start = Instant::now();
        for (number, record) in records.iter().enumerate() {
            mutations.start_record(number as u32);
            let environment = Environment {
                view: &graph,
                parameters: std::slice::from_ref(record),
                ids: IdScheme::Uuid,
                now: weir_model::Clock::at(0),
                fresh_id: &fresh_id,
                limits: Limits::NONE,
                open_cypher: false,
                recall: None,
            };
            evaluator.run(&environment, &mut mutations, &mut |_| ControlFlow::Continue(())).expect("the record is taken");
        }
        best = best.min(start.elapsed());
    }
    assert_eq!(mutations.rows.len(), 1000 * (1 + 10 + 1 + 2));
    println!("evaluate with idFrom, one process event: {} ns", best.as_nanos() / 1000);
}

#[test]
fn edge_properties() {
    let create = "CREATE (:A)-[:T {w: 1}]->(:B)";
    check(&[create, "MATCH ()-[r:T]->() RETURN r.w"], &["1"]);
    check(&[create, "MATCH ()-[r]->() SET r.w = 2, r.v = 3", "MATCH ()-[r]->() RETURN r"], &["[101-T->102 {v: 3, w: 2}]"]);
    check(&[create, "MATCH ()-[r]->() SET r = {v: 3} RETURN r"], &["[101-T->102 {v: 3}]"]);
    check(&[create, "MATCH ()-[r {w: 1}]->() RETURN count(r)"], &["1"]);
}

#[test]
fn deleting() {
    check(&[PEOPLE, "MATCH (n:Person) DETACH DELETE n", "MATCH (n) RETURN n.name"], &["'Rex'"]);
    check(&[PEOPLE, "MATCH (:Dog)<-[r]-() DELETE r", "MATCH ()-[r]->() RETURN count(r)"], &["2"]);
    check(&[PEOPLE, "MATCH (d:Dog)<-[r]-() DELETE d, r", "MATCH (n) RETURN count(n)"], &["3"]);
    check_fails(&[PEOPLE, "MATCH (d:Dog) DELETE d"], "1 edge");
    check(&["MATCH (n) WHERE id(n) = 1 SET n:X, n.a = 1", "MATCH (n:X) DELETE n", "MATCH (n) RETURN n"], &[]);
}

#[test]
fn merging() {
    let merge = "MERGE (n:N {x: 1}) ON CREATE SET n.how = 'created' ON MATCH SET n.how = 'matched' RETURN n.how";
    check(&[merge], &["'created'"]);
    check(&[merge, merge], &["'matched'"]);
    check(&["UNWIND [1, 2, 1] AS x MERGE (n:N {x: x})", "MATCH (n:N) RETURN n.x"], &["1", "2"]);
    let edge = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 MERGE (a)-[:T]->(b)";
    check(&[edge, edge, "MATCH ()-[r]->() RETURN count(r)"], &["1"]);
    check(&[PEOPLE, "MATCH (a:Dog) MERGE (a)-[:EATS]->(f:Food) RETURN f"], &["(105:Food {})"]);
    // A ring of which one node is there: the others are null until they are created, and no end of nothing.
    let ring = "(c:C)-[:R]->(b:B {x: 1})-[:R]->(d:D)<-[:R]-(c)";
    let merge = format!("MATCH (c:C) MERGE {} ON CREATE SET d.made = true", ring.replace("c:C", "c"));
    let asked = format!("MATCH {ring} RETURN b.x, d.made");
    check(&["CREATE (:C)", &merge, &merge, &asked], &["1 | true"]);
    check(&["CREATE (:C)", &merge, &merge, "MATCH ()-[r]->() RETURN count(r)"], &["3"]);
    let each = "MATCH (c:C) FOREACH (x IN [1, 2, 1] | MERGE (c)-[:R]->(b:B {x: x}) ON CREATE SET b.made = true)";
    check(&["CREATE (:C)", each, "MATCH (:C)-[:R]->(b) RETURN b.x, b.made"], &["1 | true", "2 | true"]);
}

#[test]
fn nodes_that_are_bound_take_on_what_a_chain_says_of_them() {
    let of = |clause: &str| format!("MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 {clause} (a:A {{k: 1}})-[:T]->(b:B)");
    let (create, merge) = (of("CREATE"), of("MERGE"));
    let chains = "MATCH (a:A {k: 1})-[:T]->(b:B) RETURN count(*)";
    let set = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 SET a:A, a.k = 2, b:B CREATE (a)-[:T]->(b)";
    check(&[&create, chains], &["1"]);
    check(&[&merge, &merge, chains], &["1"]);
    check(&[set, chains], &["0"]);
    check(&[set, &(merge + " ON CREATE SET a.made = true"), "MATCH (a {k: 1}) RETURN a.made"], &["true"]);
}

#[test]
fn foreach() {
    check(&["FOREACH (x IN [1, 2, 3] | CREATE (:N {x: x}))", "MATCH (n:N) RETURN sum(n.x)"], &["6"]);
    check(&["MATCH (n) WHERE id(n) = 1 FOREACH (x IN null | SET n.x = x) RETURN n"], &["(1 {})"]);
}

#[test]
fn failures() {
    check_fails(
        &["UNWIND [true, 5] AS x WITH x WHERE x RETURN x"],
        "Expected type(s) Bool but got value 5 of type Integer in a condition",
    );
    check_fails(&["MATCH (n) WHERE id(n) = 1 SET n.a = 1 SET n.b = 1 / 0"], "");
    check_fails(&["UNWIND [1, 'x'] AS x MATCH (n) WHERE id(n) = 1 SET n.v = x SET x.y = 1"], "");
    check_fails(&["RETURN 1 AS x SKIP $that"], "SKIP");
}

impl Random {
    /// Nodes 1 to 5, all with the label V, some with A and B and a property p, and some edges, self loops among them.
    pub fn graph(&mut self) -> Vec<String> {
        let mut queries = Vec::new();
        for node in 1..=5 {
            let more = self.one_of(&["", ", n:A", ", n:B, n:A", ", n.p = 1", ", n.p = 2, n:A", ", n.p = 'x'"]);
            queries.push(format!("MATCH (n) WHERE id(n) = {node} SET n:V{more}"));
        }
        for _ in 0..self.below(24) {
            let (a, b, kind) = (self.below(5) + 1, self.below(5) + 1, self.one_of(&["T", "U"]));
            let weight = self.one_of(&["", " {w: 1}", " {w: 2}"]);
            queries.push(format!("MATCH (a), (b) WHERE id(a) = {a} AND id(b) = {b} CREATE (a)-[:{kind}{weight}]->(b)"));
        }
        queries
    }

    pub fn node(&mut self) -> String {
        let name = self.one_of(&["a", "b", "c"]);
        format!("({name}{})", self.one_of(&["", "", "", "", "", "", ":A", ":B", ":A:B", " {p: 1}"]))
    }

    /// A MATCH of one to three edges over up to three nodes, so that cycles and repeated nodes are common.
    fn query(&mut self) -> String {
        let mut parts = vec![format!("({})", self.one_of(&["a", "b", "c"]))];
        for i in 0..1 + self.below(5) / 2 {
            let (from, to) = (self.node(), self.node());
            let kind = self.one_of(&["", "", ":T", ":U", ":T|U"]);
            let weight = self.one_of(&["", "", "", "", "", "", " {w: 1}"]);
            let (left, right) = [("-", "->"), ("<-", "-"), ("-", "-")][self.below(3) as usize];
            parts.push(format!("{from}{left}[r{i}{kind}{weight}]{right}{to}"));
        }
        let clauses = if self.below(3) == 0 { parts.join(" MATCH ") } else { parts.join(", ") };
        let names: Vec<&str> = ["a", "b", "c"].into_iter().filter(|name| clauses.contains(&format!("({name}"))).collect();
        let (x, y) = (self.one_of(&names), self.one_of(&names));
        let condition = match self.below(8) {
            0 => format!(" WHERE id({x}) = {}", self.below(5) + 1),
            1 => format!(" WHERE {x}.p = {y}.p"),
            2 => format!(" WHERE {x}.p IS NULL OR {y}:B"),
            3 => format!(" WHERE id({x}) = 1 AND {y}.p > 1"),
            _ => String::new(),
        };
        let ids: Vec<String> = names.iter().map(|name| format!("id({name})")).collect();
        format!("MATCH {clauses}{condition} RETURN {}{}", self.one_of(&["", "DISTINCT "]), ids.join(", "))
    }
}

/// The table of names forgets none: it must not grow with what is asked for in vain.
#[test]
fn what_only_reads_gives_no_name_a_number() {
    let mut session = Session::new();
    session.run("RETURN 1", Value::Null).expect("it reads");
    let before = session.symbols.len();
    let text = "MATCH (n:Ghost {name: 'x'})-[:HAUNTS|FLEES]->(m) WHERE m.since > 0 OR m['other'] = 1 RETURN n.name, labels(m)";
    let plan = compile(text, &Options { ids: IDS, ..Options::default() }).expect("it compiles");
    let prepared = Prepared::of_moments(plan, &session.symbols);
    let ask = |session: &mut Session| session.run_prepared(&prepared, Limits::default(), Value::Null).expect("it reads");
    assert!(ask(&mut session).is_empty());
    assert_eq!(session.symbols.len(), before);
    // What was prepared before knows names that come later.
    let write = "CREATE (:Ghost {name: 'x'})-[:HAUNTS]->(:House {since: 1})";
    session.run(write, Value::Null).expect("it writes");
    assert_eq!(ask(&mut session), ["'x' | ['House']"]);
    assert_eq!((session.symbols.get("name").is_some(), session.symbols.get("FLEES")), (true, None));
}

#[test]
fn names_beyond_those_there_can_be_are_refused_and_found_nowhere() {
    let mut session = Session { symbols: Symbols::with_most(3), ..Session::new() };
    let map = || Value::map([("y".into(), Value::Integer(1))]);
    let mut run = |text: &str| session.run(text, map());
    assert_eq!(run("CREATE (n:A {x: 1}) SET n.x = 2 RETURN n.x").ok(), Some(vec!["2".to_owned()]));
    for (text, name) in [
        ("CREATE (:B)", "`B`"),
        ("MATCH (n:A) SET n.y = 1", "`y`"),
        ("MATCH (n:A) SET n += $that", "`y`"),
        ("MATCH (n:A) CREATE (n)-[:R]->(n)", "`R`"),
        ("MATCH (n:A) CALL create.setLabels(n, ['C']) RETURN n", "`C`"),
    ] {
        let refused = run(text).expect_err(text).message;
        assert!(refused.contains(name) && refused.contains("as many as it can"), "{text}: {refused}");
    }
    assert_eq!(run("MATCH (n:A) WHERE n.y IS NULL AND NOT n:B RETURN n.x").ok(), Some(vec!["2".to_owned()]));
    assert_eq!(run("MATCH (n:B)-[:R]-(m) RETURN n").ok(), Some(vec![]));
    // A write may ask for any, and take away what is nowhere.
    for text in [
        "MATCH (n:A) WHERE n.y IS NULL AND NOT (n)-[:R]->() SET n.x = n.x + coalesce(n.z, 1)",
        "MATCH (n:A) REMOVE n.y, n:B SET n.z = null, n += {w: null}",
        "MATCH (n:A) FOREACH (v IN [] | CREATE (:B {y: v}))",
        "OPTIONAL MATCH (n:B) SET n.y = 1",
    ] {
        assert_eq!(run(text).err(), None, "{text}");
    }
    assert_eq!(run("MATCH (n:A) RETURN n.x, keys(n), labels(n)").ok(), Some(vec!["3 | ['x'] | ['A']".to_owned()]));
}

/// Asks the evaluator and the oracle, who must say the same. How many rows it was.
pub fn agrees_with_the_oracle(session: &mut Session, query: &str, seed: u64) -> usize {
    let mut rows = session.run(query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
    rows.sort();
    let plan = compile(query, &Options { parameters: vec![], ids: IDS, ..Options::default() }).expect("compiled before");
    let prepared = Prepared::new(plan, &session.symbols);
    let answer = reference::matches(&prepared, &session.graph, &session.symbols, IDS).expect("a plan for the oracle");
    let mut expected: Vec<String> = Vec::new();
    for (row, count) in answer {
        let row = row.iter().map(show).collect::<Vec<_>>().join(" | ");
        expected.extend(std::iter::repeat_n(row, count as usize));
    }
    expected.sort();
    assert_eq!(rows, expected, "seed {seed}: {query}");
    rows.len()
}

#[test]
fn random_patterns_agree_with_the_oracle() {
    let (mut found, mut empty) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut session = Session { open_cypher: seed % 2 == 0, ..Session::new() };
        for query in random.graph() {
            session.run(&query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
        }
        for _ in 0..5 {
            let query = random.query();
            *(if agrees_with_the_oracle(&mut session, &query, seed) == 0 { &mut empty } else { &mut found }) += 1;
        }
    }
    assert!(found > 300 && empty > 100, "the queries should mean something: {found} with rows, {empty} without");
}

impl Random {
    /// A MATCH of two or three edges or chains that hang together, entered at one or two nodes.
    fn entered_query(&mut self) -> String {
        let (mut there, mut parts) = (vec!["h"], Vec::new());
        for i in 0..2 + self.below(2) {
            let (from, to) = (self.one_of(&there), self.one_of(&["h", "m", "x", "y"]));
            there.push(to);
            let kind = self.one_of(&["", ":T", ":U", ":T|U"]);
            let length = self.one_of(&["", "", "", "", "*1..2"]);
            let more = self.one_of(&["", "", "", ":A {p: 2}", ":V {p: 1}"]);
            let (left, right) = [("-", "->"), ("<-", "-"), ("-", "-")][self.below(3) as usize];
            parts.push(format!("({from}){left}[r{i}{kind}{length}]{right}({to}{more})"));
        }
        there.sort_unstable();
        there.dedup();
        let anchored = there.iter().filter(|name| ["h", "x"].contains(name));
        let conditions: Vec<String> = anchored.map(|name| format!("id({name}) = {}", self.below(5) + 1)).collect();
        let ids: Vec<String> = there.iter().map(|name| format!("id({name})")).collect();
        format!("MATCH {} WHERE {} RETURN {}", parts.join(", "), conditions.join(" AND "), ids.join(", "))
    }
}

/// Lets the pattern of a query be visited in another of its orders. False where there are no more.
fn take_order(operator: &mut Operator, number: usize) -> bool {
    if let Operator::Match { pattern, .. } = operator
        && number < pattern.orders.len()
    {
        pattern.steps = pattern.orders.swap_remove(number);
        pattern.orders.clear();
        return true;
    }
    operator.children_mut().into_iter().any(|child| take_order(child, number))
}

#[test]
fn a_pattern_is_the_same_in_all_its_orders() {
    let (mut orders, mut found, mut of_many) = (0, 0, 0);
    for seed in 0..250 {
        let mut random = Random(seed);
        let mut session = Session { open_cypher: seed % 2 == 0, ..Session::new() };
        // The oracle tries every way; few edges keep them few.
        for query in random.graph().into_iter().take(20) {
            session.run(&query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
        }
        for _ in 0..5 {
            let query = random.entered_query();
            agrees_with_the_oracle(&mut session, &query, seed);
            let expected = sorted(session.run(&query, Value::Null).expect("it ran before"));
            let plan = compile(&query, &Options { ids: IDS, ..Options::default() }).expect("compiled before");
            let before = orders;
            for number in 0.. {
                let mut other = plan.clone();
                if !take_order(&mut other.root, number) {
                    break;
                }
                let prepared = Prepared::of_moments(other, &session.symbols);
                let rows = session.run_prepared(&prepared, Limits::default(), Value::Null).expect("it ran before");
                assert_eq!(sorted(rows), expected, "seed {seed}, order {number}: {query}");
                orders += 1;
                found += expected.len();
            }
            of_many += usize::from(orders > before && !expected.is_empty());
        }
    }
    let met = format!("{orders} orders, {found} rows, {of_many} queries with a row and another order");
    assert!(orders > 300 && found > 100 && of_many > 20, "the queries should mean something: {met}");
}

impl Random {
    /// One clause or two that change the graph, for none, one or many rows.
    fn change(&mut self) -> String {
        let (a, b, n) = (self.below(2) + 1, self.below(3) + 1, self.below(3));
        let (kind, label) = (self.one_of(&["T", "U"]), self.one_of(&["A", "B"]));
        match self.below(15) {
            0 => format!("MATCH (n) WHERE id(n) = {a} SET n.p = {n}, n.q = n.p, n:{label}"),
            1 => format!("MATCH (n) WHERE id(n) = {a} SET n = {{p: {n}}}"),
            2 => format!(
                "MATCH (n:{label}) SET n.p = CASE WHEN n.p IS NULL THEN 0 ELSE n.p + 1 END, n.r = 'a text that is not stored inline'"
            ),
            3 => format!("MATCH (n) WHERE id(n) = {a} REMOVE n:{label}, n.p"),
            4..7 => {
                format!("MATCH (a), (b) WHERE id(a) = {a} AND id(b) = {b} CREATE (a)-[r:{kind} {{w: {n}}}]->(b) SET a.made = r.w")
            }
            7 => format!("MATCH (a)-[r:{kind}]->(b) WHERE id(a) = {a} SET r.w = r.w + 1, b.seen = r.w"),
            8 => format!("MATCH (a)-[r]-(b) WHERE id(a) = {a} DELETE r"),
            9 => format!("MATCH (a:{label}) WHERE a.p = {n} DETACH DELETE a"),
            10 => format!("MATCH (a) WHERE id(a) = {a} MERGE (a)-[r:{kind}]->(c:{label}) ON MATCH SET c.p = {n}"),
            11 | 14 => format!("MATCH (n) WHERE id(n) = {a} SET n.q = n.r, n.made = n.seen, n.all = n.q"),
            12 => format!("MATCH (a), (b) WHERE id(a) = {a} AND id(b) = {b} CREATE (a)-[:{kind}]->(b)"),
            _ => format!("MATCH (a)-->(b) CREATE (:{label} {{p: a.p}})"),
        }
    }
}

/// A query reads its own writes: many changes in one query do what they do one by one.
#[test]
fn one_query_of_many_clauses_is_many_queries() {
    for seed in 0..1000 {
        let mut random = Random(seed);
        let changes: Vec<String> = (0..2 + random.below(20)).map(|_| random.change()).collect();
        let (before, after) = changes.split_at(changes.len() / 2);
        let new = || Session { open_cypher: seed % 2 == 0, ..Session::new() };
        let (mut one_by_one, mut at_once) = (new(), new());
        let after_at_once = after.join("\nWITH count(*) AS rows\n");
        for (session, changes) in [(&mut one_by_one, after), (&mut at_once, &[after_at_once][..])] {
            for change in before.iter().chain(changes) {
                session.run(change, Value::Null).unwrap_or_else(|failure| panic!("{change}: {failure}"));
            }
        }
        let everything = "MATCH (n) OPTIONAL MATCH (n)-[r]->(m) RETURN n, r, m";
        let expected = one_by_one.run(everything, Value::Null).map(sorted);
        assert_eq!(at_once.run(everything, Value::Null).map(sorted), expected, "seed {seed}: {changes:#?}");
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}
