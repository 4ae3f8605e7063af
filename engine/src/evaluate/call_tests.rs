//! CALL: subqueries, and each procedure as a query calls it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cypher_compiler::procedures;
use weir_model::expression::FailureKind;
use weir_model::procedure::Body;
use weir_model::{Procedure, Value};

use super::Limits;
use super::cypher_tests::{PEOPLE, Session, check, check_fails, check_in};

#[test]
fn subqueries_run_once_a_row() {
    check(
        &["UNWIND [1, 2] AS x CALL { WITH x UNWIND range(1, x) AS y RETURN y } RETURN collect([x, y]) AS v"],
        &["[[1, 1], [2, 1], [2, 2]]"],
    );
    check(&["CALL { RETURN 1 AS a UNION RETURN 2 AS a } RETURN sum(a) AS v"], &["3"]);
    check(&["CALL { RETURN 1 } RETURN 1"], &["1"]);
    check(
        &["UNWIND [3, 1] AS x CALL { WITH x RETURN x AS y UNION WITH x RETURN x * 10 AS y } RETURN x, y"],
        &["3 | 3", "3 | 30", "1 | 1", "1 | 10"],
    );
    // Each run groups, sorts and counts anew; nothing found is no row, unless it aggregates.
    let counted = "MATCH (p:Person) CALL { WITH p MATCH (p)-[:KNOWS]->(q) RETURN count(q) AS c, max(q.name) AS m } \
                   RETURN p.name, c, m";
    check(&[PEOPLE, counted], &["'Ann' | 1 | 'Bob'", "'Bob' | 1 | 'Cid'", "'Cid' | 0 | null"]);
    check(
        &[PEOPLE, "MATCH (p:Person) CALL { WITH p MATCH (p)-[:KNOWS]->(q) RETURN q.name AS n } RETURN p.name, n"],
        &["'Ann' | 'Bob'", "'Bob' | 'Cid'"],
    );
    check(
        &["UNWIND [1, 2] AS x CALL { WITH x UNWIND [5, 7, 6] AS y RETURN y ORDER BY y DESC LIMIT 2 } RETURN x, y"],
        &["1 | 7", "1 | 6", "2 | 7", "2 | 6"],
    );
    check(&["UNWIND [1, 2] AS x CALL { WITH x CALL { WITH x RETURN x + 1 AS y } RETURN y * 2 AS z } RETURN z"], &["4", "6"]);
    check(&["UNWIND range(1, 1000) AS x CALL { WITH x RETURN x AS y } RETURN y LIMIT 2"], &["1", "2"]);
    let deep = 150;
    let nested = format!("{}RETURN 1 AS x{} RETURN x", "CALL { ".repeat(deep), " } RETURN x".repeat(deep - 1) + " }");
    check(&[&nested], &["1"]);
}

#[test]
fn what_call_in_parentheses_brings_in_stays_visible() {
    check(
        &[PEOPLE, "MATCH (p:Person) CALL (p) { MATCH (p)-[:KNOWS]->(q) WITH q RETURN p.name + q.name AS both } RETURN both"],
        &["'AnnBob'", "'BobCid'"],
    );
    check(&["WITH 1 AS a, 2 AS b CALL (*) { RETURN a + b AS c } RETURN c"], &["3"]);
    check(&["WITH 1 AS a CALL () { RETURN 2 AS b } RETURN a, b"], &["1 | 2"]);
    check(&["WITH 2 AS a CALL (a) { UNWIND [1, 2] AS x WITH sum(x) AS s RETURN s * a AS t } RETURN t"], &["6"]);
}

#[test]
fn subqueries_for_their_effect_pass_each_row_once() {
    let copies = "MATCH (p:Person) CALL { WITH p UNWIND [1, 2] AS i CREATE (:Copy {of: p.name, i: i}) } RETURN p.name";
    check(&[PEOPLE, copies], &["'Ann'", "'Bob'", "'Cid'"]);
    check(&[PEOPLE, copies, "MATCH (c:Copy) RETURN count(*)"], &["6"]);
    // What is created is not met by the match that goes on.
    check(&[PEOPLE, "MATCH (n) CALL { CREATE (:New) } RETURN count(*)"], &["4"]);
    check(&[PEOPLE, "MATCH (n) CALL { CREATE (:New) } MATCH (m:New) RETURN count(DISTINCT m)"], &["4"]);
    check(&[PEOPLE, "MATCH (p:Person) CALL { WITH p SET p.age = p.age + 1 RETURN p.age AS older } RETURN sum(older)"], &["93"]);
    check(&["CALL { CREATE (n:X {a: 1}) RETURN n } RETURN n.a"], &["1"]);
    check(&["UNWIND [1, 2, 1] AS k CALL { WITH k MERGE (n:K {k: k}) RETURN n } RETURN count(DISTINCT n)"], &["2"]);
    check(&["UNWIND [1, 2] AS x CALL { WITH x CREATE ({x: x}) } RETURN x LIMIT 1", "MATCH (n) RETURN count(*)"], &["2"]);
    check(&["CALL { CREATE (:A) }", "MATCH (n:A) RETURN count(*)"], &["1"]);
    // A plan that reads nothing streams; what is not wanted any more happens all the same.
    let limited = "UNWIND [1, 2, 3] AS x CALL { WITH x CREATE (:A {x: x}) } WITH x LIMIT 1 CREATE (:B {x: x})";
    check(&[limited, "MATCH (n) RETURN labels(n), count(*)"], &["['A'] | 3", "['B'] | 1"]);
    let union = "CALL int.add(1, 'x') YIELD result RETURN result UNION ALL CALL int.add(2, 'x') YIELD result RETURN result";
    check(&[&format!("CALL {{ {union} }} RETURN result LIMIT 1"), "MATCH (n) RETURN count(n.x)"], &["2"]);
    check_fails(&[PEOPLE, "MATCH (p:Person) CALL { WITH p SET p.age = 1 / (p.age - 40) } RETURN 1 AS x"], "by zero");
}

#[test]
fn recursion_goes_round_until_its_condition_holds() {
    check(&["CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { RETURN x + 1 AS x } RETURN x"], &["4"]);
    check(&["CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { WITH x + 1 AS x RETURN x } RETURN x"], &["4"]);
    // What is finished in a round comes before what later rounds finish.
    check(
        &["CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { UNWIND [10, 1, 2] AS d RETURN x + d AS x, d } RETURN collect(x)"],
        &["[11, 12, 4, 13, 4, 5, 13, 4, 5]"],
    );
    check(
        &["UNWIND [1, 5] AS y CALL RECURSIVELY WITH y AS n, 1 AS f UNTIL (n = 0) { RETURN n - 1 AS n, f * n AS f } RETURN y, f"],
        &["1 | 1", "5 | 120"],
    );
    let chain = "CREATE (:S {n: 0})-[:R]->({n: 1})-[:R]->({n: 2})-[:R]->({n: 3, end: true})";
    let follow = "MATCH (s:S) CALL RECURSIVELY WITH s AS at, 0 AS hops UNTIL (at.end) \
                  { MATCH (at)-[:R]->(next) SET next.seen = hops RETURN next AS at, hops + 1 AS hops } RETURN at.n, hops";
    check(&[chain, follow], &["3 | 3"]);
    check(&[chain, follow, "MATCH (n) RETURN sum(n.seen)"], &["3"]);
    check(&["CALL RECURSIVELY WITH null AS x UNTIL (x > 3) { RETURN coalesce(x, 0) + 1 AS x } RETURN x"], &["4"]);
    check_fails(
        &["CALL RECURSIVELY WITH 0 AS y, 1 AS x UNTIL (false) { RETURN y, [x] AS x } RETURN x"],
        "recursive subquery return value (variable `x`)",
    );
    let mut session = Session::new();
    let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(30)), ..Limits::NONE };
    let endless = session.run_within(limits, "CALL RECURSIVELY WITH 1 AS x UNTIL (x < 0) { RETURN x } RETURN x", Value::Null);
    assert_eq!(endless.expect_err("never ends").kind, FailureKind::TimeLimit);
}

#[test]
fn counters_and_sets() {
    check(&["MATCH (a) WHERE id(a) = 1 CALL incrementCounter(a, 'c') YIELD count RETURN count"], &["1"]);
    let thrice = "MATCH (a) WHERE id(a) = 1 UNWIND [1, 2, 3] AS i CALL incrementCounter(a, 'c', i) YIELD count RETURN count";
    check(&[thrice], &["1", "3", "6"]);
    check(&[thrice, "MATCH (a) WHERE id(a) = 1 RETURN a.c"], &["6"]);
    // All of them happen, whatever is asked for afterwards.
    check(&[&format!("{thrice} LIMIT 1"), "MATCH (a) WHERE id(a) = 1 RETURN a.c"], &["6"]);
    check(&["CALL int.add(7, 'x', 3) YIELD result RETURN result"], &["3"]);
    check(&["CALL int.add(7, 'x', 3)", "MATCH (a) WHERE id(a) = 7 RETURN a.x"], &["3"]);
    check(&["CALL float.add('7', 'x', 2) YIELD result RETURN result"], &["2.0"]);
    let refused = ["MATCH (a) WHERE id(a) = 1 SET a.c = 'x'", "CALL int.add(1, 'c')"];
    check_fails(&refused, "Expected type(s) Integer but got value \"x\" of type Str in Property accessed by int.add procedure");
    check_fails(&["MATCH (a) WHERE id(a) = 1 SET a.c = 1", "CALL float.add(1, 'c')"], "in Property accessed by float.add");
    check_fails(&["CALL incrementCounter(null, 'd')"], "Expected signature `incrementCounter(node :: NODE, key :: STRING");
    check_fails(&["MATCH (a) WHERE id(a) = 1 SET a.c = 9223372036854775807", "CALL int.add(1, 'c')"], "overflow");

    let inserted = "UNWIND [1, 'x', 1, 1.0, null, [1]] AS i CALL set.insert(1, 's', i) YIELD result RETURN size(result)";
    check(&[inserted], &["1", "2", "2", "3", "4", "5"]);
    check(&["CALL set.union(1, 's', ['x', 'y', 'y', 2])"], &["['x', 'y', 2]"]);
    check(&["CALL set.union(1, 's', [])", "CALL set.insert(1, 's', 3)"], &["[3]"]);
    let multiple = "MATCH (a) WHERE id(a) = 1 SET a.l = [3, 3, 2]";
    check(&[multiple, "CALL set.insert(1, 'l', 9)"], &["[3, 3, 2, 9]"]);
    check_fails(&["MATCH (a) WHERE id(a) = 1 SET a.l = 5", "CALL set.insert(1, 'l', 9)"], "Expected type(s) List");
}

#[test]
fn structure_by_computed_names() {
    let edge =
        "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 CALL create.relationship(a, 'D' + 'YN', {x: 1}, b) YIELD rel RETURN rel";
    check(&[edge], &["[1-DYN->2 {x: 1}]"]);
    check(&[edge, edge, "MATCH (a)-[r:DYN]->(b) RETURN id(a), id(b)"], &["1 | 2"]);
    let mut parallel = Session::new();
    parallel.open_cypher = true;
    check_in(&mut parallel, &[edge, edge, "MATCH (a)-[r:DYN]->(b) RETURN r.x"], &["1", "1"]);
    let labelled = "CREATE (n:A:B {x: 1}) WITH n CALL create.setLabels(n, ['B', 'C']) RETURN labels(n)";
    check(&[labelled], &["['B', 'C']"]);
    check(&["CREATE (n:A) WITH n CALL create.setProperty(n, 'k', [1]) RETURN n.k"], &["[1]"]);
    check(&["CREATE (n:A {k: 1}) WITH n CALL create.setProperty(n, 'k', null) RETURN n.k"], &["null"]);
    // Written to nothing: the row passes.
    check(&["OPTIONAL MATCH (n:None) CALL create.setProperty(n, 'k', 1) RETURN n"], &["null"]);
    for labels in ["[1]", "['', 'A']"] {
        check_fails(
            &[&format!("CREATE (n) WITH n CALL create.setLabels(n, {labels}) RETURN n")],
            "create.setLabels(node :: NODE, labels :: LIST OF STRING) :: VOID",
        );
    }
    check_fails(&[&edge.replace("'D' + 'YN'", "''")], "create.relationship(");
    check(
        &[PEOPLE, "MATCH (n {name: 'Bob'}) CALL purgeNode(n)", "MATCH (n) OPTIONAL MATCH (n)-[r]-() RETURN n.name, count(r)"],
        &["'Ann' | 1", "'Cid' | 0", "'Rex' | 1"],
    );
}

#[test]
fn what_is_there() {
    check(&[PEOPLE, "CALL recentNodes(2) YIELD node RETURN count(node)"], &["2"]);
    check(&[PEOPLE, "CALL recentNodes() YIELD node RETURN count(node.name)"], &["4"]);
    check(&[PEOPLE, "CALL recentNodes(-1) YIELD node RETURN count(*)"], &["0"]);
    check(&[PEOPLE, "CALL recentNodeIds(1) YIELD nodeId RETURN meta.type(nodeId)"], &["'STRING'"]);
    // What the query itself has written is newer than all else, and comes once.
    let recent = |count: u32| format!("CREATE (n:New {{x: 1}}) WITH n CALL recentNodes({count}) YIELD node");
    check(&[PEOPLE, &format!("{} RETURN id(node) = id(n)", recent(1))], &["true"]);
    check(&[PEOPLE, &format!("{} RETURN count(node), count(DISTINCT node)", recent(100))], &["5 | 5"]);
    check(&[PEOPLE, "CALL dbms.labels()"], &["'Dog'", "'Person'"]);
    check(&[PEOPLE, "CALL db.relationshipTypes()"], &["'KNOWS'", "'OWNS'"]);
    check(&[PEOPLE, "CALL db.propertyKeys()"], &["'age'", "'name'"]);
    check(&["CALL db.indexes()"], &[]);
    check(&["CALL subscribers(1)"], &[]);
    check_fails(&["CALL subscriptions('no id')"], "subscriptions(node :: NODE)");
    let filtered = |filter: &str| {
        format!("MATCH (n {{name: 'Bob'}}) CALL getFilteredEdges(n, {filter}) YIELD edge RETURN startNode(edge).name, type(edge)")
    };
    check(&[PEOPLE, &filtered("[], [], []")], &["'Ann' | 'KNOWS'", "'Bob' | 'KNOWS'"]);
    check(&[PEOPLE, &filtered("['KNOWS', 'NOPE'], ['Outgoing'], []")], &["'Bob' | 'KNOWS'"]);
    check(&[PEOPLE, &filtered("['NOPE'], [], []")], &[]);
    check(&[PEOPLE, &filtered("[], ['undirected'], []")], &[]);
    check(&[PEOPLE, &filtered("[], [], [n]")], &[]);
    check_fails(&[PEOPLE, &filtered("[], ['up'], []")], "`outgoing`, `incoming` or `undirected`, but got `up`");
    check(
        &["CREATE (a:A {x: 'y'})-[:R]->(a) WITH a CALL debug.node(a) YIELD properties, edges, journal, atTime \
           RETURN properties, size(edges), journal, atTime"],
        &["{__LABEL: '[ \"A\" ]', x: '\"y\"'} | 2 | [] | null"],
    );
    check(&["CALL debug.sleep(1)"], &[]);
    check(&["CALL util.sleep(1) RETURN 5 AS x"], &["5"]);
    // The clock of the query stands still, that of the moment does not.
    let clocks = "WITH datetime.realtime() AS moment, datetime() AS query, timestamp() AS millis CALL util.sleep(5) \
                  RETURN datetime.realtime() > moment, datetime() = query, timestamp() = millis";
    check(&[clocks], &["true | true | true"]);
    let real = "RETURN date.realtime() > date(), localdatetime.realtime() > localdatetime(), datetime.realtime() > datetime()";
    check(&[real], &["true | true | true"]);
    check_fails(&["CALL util.sleep(-1)"], "not negative");
    check(&["CALL log('hello')"], &["'\"hello\"'"]);
    check(&["CALL log('nope', {a: 1.5}) YIELD log RETURN log"], &["'{ a: 1.5 }'"]);
    check(&["CALL log(5)"], &["'5'"]);
    // What was asked to be logged is null, and not the level.
    check(&["CALL log('info', null)"], &["'null'"]);
    check(&["CALL log(null)"], &["'null'"]);
    check_fails(&["CALL log(null, 'x')"], "Expected signature `log(level :: ANY, value :: ANY)");
}

#[test]
fn walks() {
    let path = "MATCH (a), (b), (c) WHERE id(a) = 1 AND id(b) = 2 AND id(c) = 3 CREATE (a)-[:R]->(b)-[:R]->(c)";
    let walk = |rest: &str| format!("CALL random.walk(1, {rest}) YIELD walk RETURN walk");
    check(&[path, &walk("0")], &["['1']"]);
    check(&[path, &walk("-1")], &["['1']"]);
    check(&[path, "CALL random.walk(1)"], &["['1', '2']"]);
    check(&[path, &walk("4, 0.0, 1.0, 'seed'")], &["['1', '2', '3', '2', '1']"]);
    check(&[path, &walk("4, 1.0, 0.0, 'seed'")], &["['1', '2', '1', '2', '1']"]);
    check(&[path, "CALL random.walk(9, 5)"], &["['9']"]);
    check(
        &[
            path,
            "WITH 'x' AS s CALL random.walk(1, 9, 1, 1, s) YIELD walk AS a CALL random.walk(1, 9, 1, 1, s) YIELD walk AS b RETURN a = b, size(a)",
        ],
        &["true | 10"],
    );
    check_fails(&["CALL random.walk('nope')"], "`random.walk` expects a node or node ID as the first argument");
}

#[test]
fn queries_in_place_of_a_call() {
    check(&["CALL do.when(true, 'RETURN 1 AS x', 'RETURN 2 AS x')"], &["{x: 1}"]);
    check(&["CALL do.when(false, 'RETURN 1 AS x') YIELD value RETURN value"], &["{}"]);
    check(&["CALL do.when(true, 'UNWIND [1, 2] AS x RETURN x, x * $k AS y', '', {k: 10})"], &["{x: 1, y: 10}", "{x: 2, y: 20}"]);
    let set = "MATCH (a) WHERE id(a) = 1 CALL do.when(true, 'SET n.x = $v', '', {n: a, v: 7}) YIELD value RETURN value";
    check(&[set], &[]);
    check(&[set, "MATCH (a) WHERE id(a) = 1 RETURN a.x"], &["7"]);
    check(&["CALL do.when(true, 'RETURN k AS x', '', {k: 1})"], &["{x: 1}"]);
    check(&["CALL cypher.doIt('CREATE (n:Do {x: $v}) RETURN n.x AS x', {v: 1})"], &["{x: 1}"]);
    let each = "UNWIND range(1, 3) AS i CALL cypher.doIt('MATCH (n) WHERE id(n) = 1 SET n.sum = coalesce(n.sum, 0) + $i RETURN n', {i: i}) \
                YIELD value RETURN value.n.sum";
    check(&[each, "MATCH (n) WHERE id(n) = 1 RETURN n.sum"], &["6"]);
    check(&["CALL cypher.do.case([false, 'RETURN 1 AS x', true, 'RETURN 2 AS x'], 'RETURN 3 AS x')"], &["{x: 2}"]);
    check(&["CALL cypher.do.case([], 'RETURN 9 AS x')"], &["{x: 9}"]);
    check(&["CALL cypher.do.case([null, 'RETURN 1 AS x'])"], &["{}"]);
    check_fails(&["CALL cypher.do.case([true])"], "odd length 1");
    check_fails(
        &["CALL cypher.do.case([1, 'RETURN 1 AS x'])"],
        "Expected type(s) Bool but got value 1 of type Integer in condition",
    );
    check_fails(&["CALL cypher.do.case([true, 5])"], "Expected type(s) Str but got value 5 of type Integer in query statement");
    check_fails(&["CALL cypher.doIt('')"], "Unexpected end of input");
    check_fails(&["CALL do.when(null, 'RETURN 1 AS x')"], "Expected signature `do.when(condition :: BOOLEAN");
    check_fails(&["CALL do.when(true, 'RETURN nope')"], "CompileError at 1.8 Variable `nope` not defined");
    check_fails(&["CALL cypher.doIt('RETURN $missing AS x')"], "Unknown parameter `missing`");
    // A query that is its own parameter.
    check_fails(
        &["CALL cypher.doIt('CALL cypher.doIt($q, {q: $q})', {q: 'CALL cypher.doIt($q, {q: $q})'})"],
        "nested more than 10 deep",
    );
}

#[test]
fn a_timebox_ends_without_a_failure() {
    check(&["CALL cypher.runTimeboxed('UNWIND [1, 2] AS x RETURN x', {}, 60000)"], &["{x: 1}", "{x: 2}"]);
    let endless = "CALL cypher.runTimeboxed('CREATE (:Before) WITH 1 AS one CALL util.sleep(600000) RETURN one', {}, 50) YIELD value RETURN value";
    let began = Instant::now();
    check(&[endless, "MATCH (n:Before) RETURN count(*)"], &["1"]);
    assert!(began.elapsed() < Duration::from_secs(30));
    let many = "UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y WITH x WHERE x < 0 RETURN x";
    check(&[&format!("CALL cypher.runTimeboxed('{many}', {{}}, 20) YIELD value RETURN value")], &[]);
}

#[test]
fn waiting_ends_with_the_time_of_the_query() {
    let mut session = Session::new();
    let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(30)), ..Limits::NONE };
    let failure = session.run_within(limits, "CALL util.sleep(600000)", Value::Null).expect_err("takes too long");
    assert_eq!(failure.kind, FailureKind::TimeLimit);
}

#[test]
fn time_becomes_nodes() {
    let day =
        "CALL reify.time(datetime('2024-02-29T10:11:12.5+02:00'), ['year', 'day']) YIELD node RETURN node.period, labels(node)";
    check(&[day], &["'day' | ['day']"]);
    let edges = "MATCH (a)-[r]->(b) RETURN toString(a.start), type(r), toString(b.start) ORDER BY toString(a.start), type(r)";
    let mut session = Session::new();
    session.run(day, Value::Null).expect("runs");
    let once = session.run(edges, Value::Null).expect("runs");
    assert_eq!(once.len(), 5, "{once:#?}");
    assert_eq!(once.iter().filter(|edge| edge.contains("'DAY'")).count(), 1, "{once:#?}");
    session.run(day, Value::Null).expect("runs");
    assert_eq!(session.run(edges, Value::Null).expect("runs"), once, "it is idempotent");
    check(
        &[
            "CALL reify.time(datetime('2024-02-29T10:11:12Z'), ['Hour'])",
            "MATCH (n) WHERE id(n) = idFrom('time-node', 'hour', '2024-02-29T10:00:00Z') RETURN n.period",
        ],
        &["'hour'"],
    );
    check(&["CALL reify.time() YIELD node RETURN node.period"], &["'second'"]);
    check(&["CALL reify.time", "MATCH (n:second)-[:NEXT]->() RETURN count(*)"], &["2"]);
    check(&["CALL reify.time(datetime('2024-02-29T10:11:12Z')) YIELD node RETURN node.period"], &["'second'"]);
    // What lacks its moment is not filed under that of the query.
    for (arguments, refused) in [
        ("null", ":: (node :: NODE)` but got arguments null"),
        ("null, ['day']", "but got arguments null, ["),
        ("null, null", "but got arguments null, null"),
        ("datetime('2024-02-29T10:11:12Z'), null", "2024-02-29T10:11:12Z\"), null"),
    ] {
        check_fails(&[&format!("CALL reify.time({arguments}) YIELD node RETURN node")], refused);
    }
    check(&["CALL reify.time('day') YIELD node RETURN node.period"], &["'day'"]);
    check_fails(&["CALL reify.time('2024')"], "must contain only valid period specifiers");
    check_fails(&["CALL reify.time(datetime('2024-02-29T10:11:12Z'), [])"], "Argument 'periods' must not be empty");
    check_fails(
        &["CALL reify.time(datetime('2024-02-29T10:11:12Z'), 'day')"],
        "Expected signature `reify.time(timestamp :: DATETIME",
    );
}

#[test]
fn help_lists_what_can_be_called() {
    check(&["CALL help.functions() YIELD name WHERE name = 'toUpper' RETURN name"], &["'toUpper'"]);
    check(&["CALL help.functions() YIELD name RETURN count(*) > 100"], &["true"]);
    check(&["CALL help.builtins() YIELD name WHERE name IN ['abs', 'idFrom'] RETURN name"], &["'abs'"]);
    check(
        &["CALL help.procedures() YIELD name, mode WHERE name IN ['int.add', 'recentNodes', 'load.csv'] RETURN name, mode"],
        &["'int.add' | 'WRITE'", "'recentNodes' | 'READ'"],
    );
    check(
        &["SHOW PROCEDURES YIELD name WHERE name STARTS WITH 'help.'"],
        &["'help.builtins'", "'help.functions'", "'help.procedures'"],
    );
    check(&["SHOW PROCEDURES EXECUTABLE BY CURRENT USER YIELD name WHERE name = 'help.builtins'"], &["'help.builtins'"]);
}

/// A procedure that answers from a table: those rows whose first columns are the arguments.
fn table(signature: &str, rows: Vec<Vec<Value>>) -> Arc<Procedure> {
    let inputs = signature.split(')').next().expect("a signature").matches("::").count();
    let body = Body::Rows(Arc::new(move |_, arguments, each| {
        for row in rows.iter().filter(|row| row[..inputs] == *arguments) {
            if each(&row[inputs..])?.is_break() {
                break;
            }
        }
        Ok(())
    }));
    Arc::new(Procedure::declare(signature, body).expect("a signature"))
}

/// Who runs a stream's query or an output's gives it the view of one moment, and waits for its end.
#[test]
fn nothing_listens_where_one_moment_is_read() {
    let mut session = Session::new();
    let gives = Body::Rows(Arc::new(|_, _, each| each(&[Value::map([]), Value::map([])]).map(drop)));
    session.procedures = vec![Arc::new(procedures::declared("standing.wiretap", gives).expect("it is in the table"))];
    let failure = session.run("CALL standing.wiretap({name: 'x'}) YIELD data RETURN data", Value::Null).expect_err("no end");
    assert!(failure.message.contains("`standing.wiretap`") && failure.message.contains("CypherQuery"), "{failure}");
}

#[test]
fn callers_bring_their_own_procedures() {
    let text = Value::text;
    let rows = vec![vec![Value::Integer(1), text("a")], vec![Value::Integer(2), text("b")], vec![Value::Null, text("nix")]];
    let mut session = Session::new();
    session.procedures = vec![
        table("test.rows(in :: INTEGER?) :: (out :: STRING?)", rows),
        table("test.nothing() :: ()", vec![vec![]]),
        table("test.float(in :: FLOAT?) :: (out :: STRING?)", vec![vec![Value::Float(42.0), text("close enough")]]),
        table("test.labels() :: (label :: STRING?)", vec![vec![text("A")], vec![text("B")]]),
    ];
    check_in(&mut session, &["CALL TEST.rows(1)"], &["'a'"]);
    check_in(&mut session, &["CALL test.rows(null) YIELD out AS x RETURN x"], &["'nix'"]);
    check_in(&mut session, &["UNWIND [2, 1, 5] AS i CALL test.rows(i) YIELD out RETURN i, out"], &["2 | 'b'", "1 | 'a'"]);
    check_in(&mut session, &["CALL test.float(42)"], &["'close enough'"]);
    check_in(&mut session, &["UNWIND [1, 2] AS i CALL test.nothing() RETURN i"], &["1", "2"]);
    check_in(&mut session, &["CALL test.nothing"], &[]);
    check_in(&mut session, &["CALL test.labels() YIELD label WHERE label > 'A' RETURN label"], &["'B'"]);
    check_in(
        &mut session,
        &["CALL test.labels() YIELD label WITH count(*) AS c CALL test.labels() YIELD label RETURN *"],
        &["2 | 'A'", "2 | 'B'"],
    );
    check_in(&mut session, &["CALL help.procedures() YIELD name WHERE name STARTS WITH 'test.' RETURN count(*)"], &["4"]);
    check_in(
        &mut session,
        &["CALL do.when(true, 'CALL test.labels() YIELD label RETURN label', '')"],
        &["{label: 'A'}", "{label: 'B'}"],
    );
}
