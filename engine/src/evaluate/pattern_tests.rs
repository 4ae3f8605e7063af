//! Patterns in full: chains, shortest paths, label expressions, and subqueries in expressions.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Options, compile};
use weir_model::expression::FailureKind;
use weir_model::{Clock, Mutations, NodeId, Value};

use super::cypher_tests::{IDS, Session, agrees_with_the_oracle, check, check_fails, check_in, show};
use super::{Environment, Limits, Prepared, evaluate};
use crate::random::Random;
use crate::view::View;
use crate::view::looked::Looked;

/// A chain of four nodes with numbered edges, and a way back from the third to the first.
const CHAIN: &str = "CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(:D {name: 'd'}), \
                     (c)-[:S {n: 4}]->(a)";

#[test]
fn chains() {
    check(&[CHAIN, "MATCH (:A)-[:R*]->(x) RETURN x.name"], &["'b'", "'c'", "'d'"]);
    check(&[CHAIN, "MATCH (:A)-[*2]->(x) RETURN x.name"], &["'c'"]);
    check(&[CHAIN, "MATCH (:A)-[*0..1]->(x) RETURN x.name"], &["'a'", "'b'"]);
    check(&[CHAIN, "MATCH (:A)-[*3..]->(x) RETURN x.name"], &["'a'", "'d'"]);
    check(&[CHAIN, "MATCH (:A)-[*2..1]->(x) RETURN x.name"], &[]);
    check(&[CHAIN, "MATCH (:A)-[*..0]->(x) RETURN x.name"], &[]);
    check(&[CHAIN, "MATCH (:A)<-[*..2]-(x) RETURN x.name"], &["'b'", "'c'"]);
    check(&[CHAIN, "MATCH (:D)-[:R*]-(x) RETURN x.name"], &["'a'", "'b'", "'c'"]);
    check(&[CHAIN, "MATCH (:A)-[r:R*2]->(x) RETURN [e IN r | e.n]"], &["[1, 2]"]);
    check(&[CHAIN, "MATCH (x)<-[r:R*2]-(:A) RETURN [e IN r | e.n]"], &["[2, 1]"]);
    check(&[CHAIN, "MATCH (:D)<-[r:R*2]-(x) RETURN [e IN r | e.n]"], &["[3, 2]"]);
    check(&[CHAIN, "MATCH (:A)-[r:R* {n: 1}]->(x) RETURN x.name"], &["'b'"]);
    check(&[CHAIN, "MATCH (:A)-[r*]->(x) WHERE all(e IN r WHERE e.n < 3) RETURN x.name"], &["'b'", "'c'"]);
    check(&[CHAIN, "MATCH (:A)-[r*]->(x) WHERE none(e IN r WHERE e.n = 2) RETURN x.name"], &["'b'"]);
    check(&[CHAIN, "MATCH p = (:A)-[*]->(x) WHERE all(n IN nodes(p) WHERE n.name < 'c') RETURN x.name"], &["'b'"]);
    check(&[CHAIN, "MATCH (:A)-[r*]->(x) WHERE size(r) = 3 RETURN x.name"], &["'a'", "'d'"]);
    check(&[CHAIN, "MATCH (:A)-[r:R|S*3]->(x:A) RETURN x.name"], &["'a'"]);
    check(&[CHAIN, "MATCH (:A)-[r:!S*]->(x) RETURN x.name"], &["'b'", "'c'", "'d'"]);
    // No edge twice, in one chain and in one MATCH.
    check(&[CHAIN, "MATCH (:D)-[*]-(x:D) RETURN x"], &[]);
    check(&[CHAIN, "MATCH (a:A)-[:R]->()-[*]-(a) RETURN a.name"], &["'a'"]);
    check(
        &[CHAIN, "MATCH (:A)-[*1..2]->(x)-[*1..2]->(y) RETURN x.name, y.name"],
        &["'b' | 'a'", "'b' | 'c'", "'b' | 'd'", "'c' | 'a'", "'c' | 'd'"],
    );
    check(&[CHAIN, "OPTIONAL MATCH (:D)-[r:R*]->(x) RETURN r, x"], &["null | null"]);
    check(&["CREATE (a:A)-[:R]->(a)", "MATCH (a:A)-[r*]-(b) RETURN size(r)"], &["1"]);
}

#[test]
fn chains_that_are_bound() {
    let list = "MATCH (a:A)-[r1]->()-[r2]->(c) WITH a, c, [r1, r2] AS rs ";
    check(&[CHAIN, &format!("{list}MATCH (x)-[rs*]->(y) RETURN x.name, y.name")], &["'a' | 'c'"]);
    check(&[CHAIN, &format!("{list}MATCH (x)-[rs*3]->(y) RETURN x.name, y.name")], &[]);
    check(&[CHAIN, &format!("{list}MATCH (c)-[rs*]->(a) RETURN c")], &[]);
    check(&[CHAIN, &format!("{list}MATCH (c)<-[rs*]-(a) RETURN c")], &[]);
    check(&[CHAIN, &format!("{list}WITH a, c, reverse(rs) AS rs MATCH p = (c)<-[rs*]-(a) RETURN length(p)")], &["2"]);
    check(&[CHAIN, "MATCH (a:A) WITH a, [] AS rs MATCH (a)-[rs*0..]->(b) RETURN b.name"], &["'a'"]);
    check_fails(&[CHAIN, "WITH [1] AS rs MATCH (a)-[rs*]->(b) RETURN b"], "Relationship");
}

#[test]
fn paths_over_chains() {
    let names = "RETURN [n IN nodes(p) | n.name] AS names, [r IN relationships(p) | r.n] AS numbers";
    check(&[CHAIN, &format!("MATCH p = (:A)-[:R*2]->()-->(:D) {names}")], &["['a', 'b', 'c', 'd'] | [1, 2, 3]"]);
    check(&[CHAIN, &format!("MATCH p = (:D)<--()<-[:R*2]-(:A) {names}")], &["['d', 'c', 'b', 'a'] | [3, 2, 1]"]);
    check(&[CHAIN, &format!("MATCH p = (x)<-[:R*2]-(:B) {names}")], &["['d', 'c', 'b'] | [3, 2]"]);
    check(&[CHAIN, "MATCH p = (:A)-[:R*0..1]->() RETURN length(p)"], &["0", "1"]);
    check(&[CHAIN, "MATCH p = (:A)-[*]->(), q = (:A)-[*]->() WHERE p = q RETURN length(p)"], &[]);
    check(&[CHAIN, "MATCH p = (:A)-[*..2]->() MATCH q = (:A)-[:R]->() RETURN p = q, p > q"], &["false | null", "true | null"]);
}

#[test]
fn shortest_paths() {
    let names = "RETURN [n IN nodes(p) | n.name] AS names";
    let between = "MATCH (a:A), (d:D)";
    check(&[CHAIN, &format!("{between}, p = shortestPath((a)-[*]->(d)) {names}")], &["['a', 'b', 'c', 'd']"]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((a)-[*]-(d)) {names}")], &["['a', 'c', 'd']"]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((d)-[*]-(a)) {names}")], &["['d', 'c', 'a']"]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((d)<-[r*]-(a)) RETURN [e IN r | e.n]")], &["[3, 2, 1]"]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((a)-[:R*]-(d)) {names}")], &["['a', 'b', 'c', 'd']"]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((a)-[*..2]->(d)) {names}")], &[]);
    check(&[CHAIN, &format!("{between}, p = shortestPath((d)-[*]->(a)) {names}")], &[]);
    check(&[CHAIN, "MATCH p = shortestPath((:A)-[*]-(:D)) RETURN length(p)"], &["2"]);
    check(
        &[CHAIN, "MATCH (a:A), p = shortestPath((a)-[*0..]-(b)) RETURN length(p), b.name ORDER BY b.name"],
        &["0 | 'a'", "1 | 'b'", "1 | 'c'", "2 | 'd'"],
    );
    check(&[CHAIN, "MATCH (a:A), p = shortestPath((a)-[*]-(b)) RETURN count(p)"], &["3"]);
    // Conditions: on single edges and nodes, and on the whole.
    check(
        &[CHAIN, &format!("{between} MATCH p = shortestPath((a)-[r*]-(d)) WHERE all(e IN r WHERE e.n < 4) {names}")],
        &["['a', 'b', 'c', 'd']"],
    );
    check(
        &[CHAIN, &format!("{between} MATCH p = shortestPath((a)-[*]-(d)) WHERE any(n IN nodes(p) WHERE n:B) {names}")],
        &["['a', 'b', 'c', 'd']"],
    );
    check(&[CHAIN, &format!("{between} MATCH p = shortestPath((a)-[*]-(d)) WHERE none(n IN nodes(p) WHERE n:C) {names}")], &[]);
    check(&[CHAIN, &format!("{between} MATCH p = shortestPath((a)-[*]-(d)) WHERE length(p) > 5 {names}")], &[]);
    let diamond =
        "CREATE (a:A)-[:R]->(:B {n: 1})-[:R]->(d:D), (a)-[:R]->(:B {n: 2})-[:R]->(d), (a)-[:R]->(:B {n: 3})-[:R]->()-[:R]->(d)";
    let middle = "RETURN nodes(p)[1].n";
    check(&[diamond, &format!("MATCH p = allShortestPaths((:A)-[*]->(:D)) {middle}")], &["1", "2"]);
    check(&[diamond, &format!("MATCH p = allShortestPaths((:D)<-[*]-(:A)) {middle}")], &["1", "2"]);
    check(&[diamond, &format!("MATCH p = allShortestPaths((:A)-[*]->(:D)) WHERE nodes(p)[1].n > 1 {middle}")], &["2"]);
    check(&[diamond, &format!("MATCH p = allShortestPaths((:A)-[*]->(:D)) WHERE nodes(p)[1].n > 2 {middle}")], &["3"]);
    check(&[diamond, "MATCH p = shortestPath((:A)-[*]->(:D)) RETURN length(p)"], &["2"]);
    let mut parallel = Session { open_cypher: true, ..Session::new() };
    check_in(
        &mut parallel,
        &["CREATE (a:A)-[:R]->(b:B)-[:R]->(c:C), (a)-[:R]->(b)", "MATCH p = allShortestPaths((:A)-[*]->(:C)) RETURN length(p)"],
        &["2", "2"],
    );
    // As values.
    check(&[CHAIN, &format!("{between} RETURN length(shortestPath((a)-[*]->(d))), shortestPath((d)-[*]->(a))")], &["3 | null"]);
    check(&[diamond, &format!("{between} RETURN size(allShortestPaths((a)-[*]->(d)))")], &["2"]);
}

/// The shortest that meets a condition on the whole may be longer than the shortest by more than one edge.
#[test]
fn shortest_paths_with_a_condition_on_the_whole() {
    let detour = "CREATE (a:A {n: 'a'})-[:R {w: 1}]->(b:B {n: 'b'}), \
                  (a)-[:R {w: 2}]->(:X {n: 'x'})-[:R {w: 2}]->(:X {n: 'y'})-[:R {w: 2}]->(b)";
    let met = [
        "length(p) > 1",
        "length(p) <> 1",
        "any(n IN nodes(p) WHERE n.n = 'x')",
        "reduce(total = 0, r IN relationships(p) | total + r.w) > 1",
    ];
    for search in ["shortestPath", "allShortestPaths"] {
        let found = |chain: &str, condition: &str, expected: &[&str]| {
            let query = format!("MATCH (a:A), (b:B) MATCH p = {search}({chain}) WHERE {condition} RETURN length(p)");
            check(&[detour, &query], expected);
        };
        for condition in met {
            found("(a)-[:R*]->(b)", condition, &["3"]);
            found("(b)<-[:R*]-(a)", condition, &["3"]);
            found("(a)-[:R*]-(b)", condition, &["3"]);
            found("(a)-[:R*..3]->(b)", condition, &["3"]);
            found("(a)-[:R*..2]->(b)", condition, &[]);
        }
        found("(a)-[:R*]->(b)", "length(p) > 3", &[]);
        found("(a)-[:R*]->(b)", "length(p) = 2", &[]);
    }
}

/// Where very many ways lead on, those are left out that do not lead to the end in time.
#[test]
fn shortest_paths_with_a_condition_on_the_whole_among_many() {
    let mut session = Session::new();
    let ends = "CREATE (:A)-[:R]->(b:B), (:C)-[:R]->(d)-[:R]->(b), (d)-[:R]->()-[:R]->(b)";
    let many = "UNWIND range(1, 1500) AS i MATCH (a:A), (c:C) CREATE (a)-[:R]->(f)-[:R]->(c), (f)-[:R]->()";
    let all = "MATCH (a:A), (b:B) MATCH p = allShortestPaths((a)-[:R*]->(b)) WHERE";
    check_in(&mut session, &[ends, many, &format!("{all} length(p) > 1 RETURN length(p), count(*)")], &["4 | 1500"]);
    check_in(&mut session, &[&format!("{all} length(p) > 4 RETURN length(p), count(*)")], &["5 | 1500"]);
    check_in(&mut session, &[&format!("{all} length(p) > 5 RETURN length(p)")], &[]);
    let one = "MATCH (a:A), (b:B) MATCH p = shortestPath((a)-[:R*]->(b)) WHERE length(p) > 4 RETURN length(p)";
    check_in(&mut session, &[one], &["5"]);
}

#[test]
fn label_expressions() {
    let nodes = "CREATE (:A {n: 1}), (:A:B {n: 2}), (:B {n: 3}), ({n: 4})";
    let found = |pattern: &str, expected: &[&str]| check(&[nodes, &format!("MATCH {pattern} RETURN n.n")], expected);
    found("(n:A|B)", &["1", "2", "3"]);
    found("(n:A&B)", &["2"]);
    found("(n:A:B)", &["2"]);
    found("(n:!A)", &["3", "4"]);
    found("(n:%)", &["1", "2", "3"]);
    found("(n:!%)", &["4"]);
    found("(n:(A|B)&!(A&B))", &["1", "3"]);
    found("(n WHERE n.n > 2)", &["3", "4"]);
    found("(n:A WHERE n.n > 1)", &["2"]);
    found("(n) WHERE n:A|B AND NOT n:A&B", &["1", "3"]);
    check(
        &[nodes, "MATCH (n) RETURN n.n, n:A|B, n:!A&%"],
        &["1 | true | false", "2 | true | false", "3 | true | true", "4 | false | false"],
    );
    check(&[CHAIN, "MATCH ()-[r:!S]->() RETURN r.n"], &["1", "2", "3"]);
    check(&[CHAIN, "MATCH ()-[r:%]->() RETURN count(r)"], &["4"]);
    check(&[CHAIN, "MATCH ()-[r:R|S WHERE r.n > 2]->() RETURN r.n, r:S"], &["3 | false", "4 | true"]);
}

#[test]
fn patterns_as_predicates() {
    let found =
        |condition: &str, expected: &[&str]| check(&[CHAIN, &format!("MATCH (n) WHERE {condition} RETURN n.name")], expected);
    found("(n)-->(:C)", &["'b'"]);
    found("NOT (n)-->()", &["'d'"]);
    found("(n)-[:R]->() AND (n)-[:S]->()", &["'c'"]);
    found("(n)-[:S]->() OR (:C)-[:S]->(n)", &["'a'", "'c'"]);
    found("(n)-[*2]->({name: 'd'})", &["'b'"]);
    found("exists((n)-->(:C))", &["'b'"]);
    found("exists { (n)-->(m) WHERE m.name = 'c' }", &["'b'"]);
    found("EXISTS { MATCH (n)-->(m) RETURN m }", &["'a'", "'b'", "'c'"]);
    found("EXISTS { MATCH (n)-->(m) WITH n, count(*) AS c WHERE c = 2 RETURN true }", &["'c'"]);
    found("EXISTS { MATCH (m) WHERE EXISTS { (n)-[:S]->(m) } }", &["'c'"]);
    found("COUNT { (n)--() } = 3", &["'c'"]);
    found("COUNT { MATCH (n)-->(m) RETURN DISTINCT m.none } = 1", &["'a'", "'b'", "'c'"]);
    found("'d' IN COLLECT { MATCH (n)-->(m) RETURN m.name }", &["'c'"]);
    found("size([(n)-->(m) | m]) = 2", &["'c'"]);
    found("CASE WHEN (n)-->(:A) THEN true ELSE false END", &["'c'"]);
    found("EXISTS { MATCH (n)-->(m) RETURN m UNION MATCH (n)<--(m:C) RETURN m }", &["'a'", "'b'", "'c'", "'d'"]);
    check(&[CHAIN, "OPTIONAL MATCH (n:None) RETURN exists((n)-->()), COUNT { (n)-->() }, [(n)-->(m) | m]"], &["false | 0 | []"]);
    check(&[CHAIN, "MATCH (n:C) OPTIONAL MATCH (n)-[r]->(m) WHERE (m)-->(:B) RETURN r.n"], &["4"]);
    check(&[CHAIN, "MATCH (n), (m) WHERE (n)-[:S]-(m) RETURN n.name, m.name"], &["'a' | 'c'", "'c' | 'a'"]);
}

#[test]
fn comprehensions_of_patterns() {
    check(&[CHAIN, "MATCH (n:C) RETURN [(n)-->(m) WHERE m.name <> 'a' | m.name] AS l"], &["['d']"]);
    check(&[CHAIN, "MATCH (n:A) RETURN [p = (n)-[*]->(:D) | length(p)] AS l"], &["[3]"]);
    check(&[CHAIN, "MATCH p = (:A)-->() RETURN [x IN nodes(p) | size([(x)-->(:C) | 1])] AS l"], &["[0, 1]"]);
    check(
        &[CHAIN, "MATCH (n)-->(m) WITH n, [(n)-->(x) | x.name] AS l, count(m) AS c RETURN c, size(l)"],
        &["1 | 1", "1 | 1", "2 | 2"],
    );
    check(&[CHAIN, "MATCH (n:B) RETURN COLLECT { MATCH (n)--(m) RETURN m.name ORDER BY m.name DESC LIMIT 1 } AS l"], &["['c']"]);
    check(&[CHAIN, "MATCH (n:A) RETURN [(n)-[r]->(m) | [(m)-[s]->(o) | r.n + s.n]] AS l"], &["[[3]]"]);
    check(&[CHAIN, "MATCH (n:B) SET n.degree = COUNT { (n)--() } RETURN n.degree"], &["2"]);
    let of_all_kinds = "CREATE (n:L)-[:R]->(n), (n)-[:R]->(:M), (:M)-[:R]->(n), (n)-[:S]->(:M)";
    let counted = "MATCH (n:L) RETURN COUNT { (n)-[:R]->() }, COUNT { (n)<-[:R]-() }, COUNT { (n)-[:R]-() }, COUNT { (n)-[:S|R|S]-() }, \
                   COUNT { (n)--() }, COUNT { (n)-->(n) }, COUNT { (n)-->(:M) }, COUNT { (n:M)-->() }, COUNT { (n)-->(m {x: 1}) }";
    check(&[of_all_kinds, counted], &["2 | 2 | 3 | 4 | 4 | 1 | 2 | 0 | 0"]);
    let anchored = "MATCH (n:L)-[:S]->(x) RETURN COUNT { (n)-->(m) WHERE id(m) = id(x) }, COUNT { (n)-->(m) WHERE id(m) = null }, \
                    COUNT { (n)--(m) WHERE strId(m) = strId(n) }, COUNT { (n)-->(m) WHERE id(m) IN [id(x), id(n)] }, \
                    COUNT { (n)-->(m) WHERE m = x }";
    check(&[of_all_kinds, anchored], &["1 | 0 | 1 | 2 | 1"]);
    check(&[CHAIN, "MATCH (n:A) SET n.x = 1 WITH n RETURN [(n)-->(m) WHERE m.x IS NULL | n.x] AS l"], &["[1]"]);
}

#[test]
fn merging_in_foreach() {
    check(
        &["FOREACH (x IN [1, 2, 1] | MERGE (n:N {x: x}) ON MATCH SET n.again = true)", "MATCH (n:N) RETURN n.x, n.again"],
        &["1 | true", "2 | null"],
    );
    check(
        &[
            "CREATE (:N {x: 1}), (:N {x: 1})",
            "FOREACH (x IN [1, 2] | MERGE (n:N {x: x}) SET n.y = x MERGE (n)-[:R]->(:M {y: n.y}))",
            "MATCH (n:N)-[:R]->(m) RETURN n.y, m.y",
        ],
        &["1 | 1", "1 | 1", "2 | 2"],
    );
    check(
        &[
            "CREATE (:A {n: 1})",
            "MATCH (a:A) FOREACH (x IN [1, 2] | MERGE (a)-[:R]->(b:B) SET b.x = x)",
            "MATCH (b:B) RETURN b.x",
        ],
        &["2"],
    );
}

/// A long chain neither overflows the stack nor takes forever.
#[test]
fn chains_may_be_long() {
    let mut session = Session::new();
    let create = "UNWIND range(1, 20000) AS i MATCH (a), (b) WHERE id(a) = i AND id(b) = i + 1 CREATE (a)-[:R]->(b)";
    session.run(create, Value::Null).expect("creates");
    let ends = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 20001 ";
    check_in(&mut session, &[&format!("{ends} MATCH (a)-[r:R*]->(b) RETURN size(r)")], &["20000"]);
    check_in(&mut session, &[&format!("{ends} MATCH p = shortestPath((a)-[:R*]-(b)) RETURN length(p)")], &["20000"]);
}

/// A node that a value has in full begins a pattern like any other, and stays what the value says.
#[test]
fn patterns_go_on_from_a_node_in_full() {
    let edge = "MATCH (n) WHERE id(n) = idFrom('a') SET n:Stored CREATE (n)-[:R]->(:X {y: 1})";
    let node = "WITH gen.node.from('a', 1) AS g";
    let row = format!("{node} MATCH (g)-[:R]->(x) RETURN x.y, keys(g), labels(g), COUNT {{ (g)-->() }}");
    check(&[edge, &row], &["1 | ['0'] | [] | 1"]);
    check(&[edge, &format!("{node} MATCH (x:X)<--(g) RETURN x.y")], &["1"]);
    check(&[edge, &format!("{node} MATCH (g:Stored)-->(x) RETURN x.y")], &[]);
    check(&[edge, &format!("{node} MATCH (g {{`0`: 'none'}})-->(x) RETURN x.y")], &[]);
    check(&[edge, &format!("{node} MATCH (x:X) RETURN length(shortestPath((g)-[:R*]->(x)))")], &["1"]);
    check(&[edge, &format!("{node} MATCH p = (g)-[:R*]->(x) RETURN size(nodes(p))")], &["2"]);
    check(&[edge, &format!("{node} MERGE (g)-[:R]->(x:X) ON MATCH SET x.y = 2 RETURN x.y")], &["2"]);
    check_fails(&["WITH coalesce(1) AS g MATCH (g)-->(x) RETURN x"], "Node");
}

#[test]
fn subqueries_may_be_nested() {
    let nested = format!(
        "MATCH (n) WHERE {}n.name = 'a'{} RETURN n.name",
        "EXISTS { MATCH (n)--(m) WHERE ".repeat(40),
        " RETURN m }".repeat(40)
    );
    check(&[CHAIN, &nested], &["'a'"]);
    let nested = format!("MATCH (n:A) RETURN {}1{} AS l", "[(n)-[:R]->() | ".repeat(40), "]".repeat(40));
    check(&[CHAIN, &nested], &[&format!("{}1{}", "[".repeat(40), "]".repeat(40))]);
}

/// Between twelve nodes, each joined to each, there are more chains than can ever be listed.
#[test]
fn chains_end_with_the_time_and_memory_of_their_query() {
    let mut session = Session::new();
    let create =
        "UNWIND range(1, 12) AS i UNWIND range(1, 12) AS j MATCH (a), (b) WHERE id(a) = i AND id(b) = j CREATE (a)-[:R]->(b)";
    session.run(create, Value::Null).expect("creates");
    let soon = || Limits { deadline: Some(Instant::now() + Duration::from_millis(50)), ..Limits::default() };
    for query in [
        "MATCH (a)-[*]->(b) RETURN count(*)",
        "MATCH (a) WHERE EXISTS { MATCH (a)-[r*]-(b) WHERE size(r) < 0 } RETURN count(*)",
        "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 2 MATCH p = shortestPath((a)-[*]-(b)) WHERE length(p) > 200 RETURN p",
    ] {
        let failure = session.run_within(soon(), query, Value::Null).expect_err(query);
        assert_eq!(failure.kind, FailureKind::TimeLimit, "{query}: {failure}");
    }
    let little = Limits { buffer_bytes_max: 10_000, ..Limits::default() };
    let failure = session.run_within(little, "RETURN size([(a)-[*3]->(b) | id(a)])", Value::Null).expect_err("too many");
    assert!(failure.message.contains("10000 bytes"), "{failure}");
    // A limit is enough, and so is an end that nothing leads to.
    check_in(&mut session, &["MATCH (a)-[*]->(b) RETURN 1 AS one LIMIT 2"], &["1", "1"]);
    let apart = "MATCH (a), (b) WHERE id(a) = 1 AND id(b) = 99 MATCH (a)-[r*]->(b) RETURN count(r)";
    check_in(&mut session, &["CREATE (n:Alone)", apart], &["0"]);
}

/// As the openCypher suite has them, among what it does not print here.
#[test]
fn chains_beside_bound_edges() {
    let line = "CREATE (n0:Node)-[:EDGE]->(n1:Node)-[:EDGE]->(n2:Node)-[:EDGE]->(n3:Node)";
    let around = "MATCH ()-[r:EDGE]-() MATCH p = (n)-[*0..1]-()-[r]-()-[*0..1]-(m) RETURN count(p)";
    check(&[line, around], &["32"]);
    check(&[line, "MATCH (a:Node)-[:EDGE*3]->(b) WITH a, b MATCH (a)-[*]-(b) DETACH DELETE a, b RETURN count(*)"], &["1"]);
    check(&["CREATE (:A)-[:T]->(:B)", "MATCH ()-[r*0..1]-() RETURN type(last(r))"], &["'T'", "'T'", "null", "null"]);
    check(
        &[CHAIN, "MATCH (a), (b) WHERE a.name = 'a' AND (a)-[:R]->(b:B) OR (a)-[:R*]->(b:None) RETURN DISTINCT b.name"],
        &["'b'"],
    );
    check(&[CHAIN, "MATCH (a:A)-[:R|R|R]->(b) RETURN count(*)"], &["1"]);
    check(&[CHAIN, "MATCH (a)-[r1:R]->(b)-[r2*1..2]->(c) WHERE NOT r1 IN r2 RETURN count(*)"], &["6"]);
}

impl Random {
    /// A MATCH with a chain in it.
    fn chain_query(&mut self) -> String {
        let length = self.one_of(&["*", "*0..2", "*1..3", "*2", "*0", "*2..3", "*0..1"]);
        let search = if length == "*" || self.below(3) == 0 { self.one_of(&["shortestPath", "allShortestPaths"]) } else { "" };
        let length = if search.is_empty() { length } else { self.one_of(&["*", "*0..", "*..3", "*..2"]) };
        let kind = self.one_of(&["", ":T", ":U", ":T|U", ":!T"]);
        let weight = self.one_of(&["", "", "", " {w: 1}"]);
        let (left, right) = [("-", "->"), ("<-", "-"), ("-", "-")][self.below(3) as usize];
        let (x, y) = (self.node(), self.node());
        let chain = format!("{x}{left}[r{kind}{length}{weight}]{right}{y}");
        let part = if search.is_empty() { format!("p = {chain}") } else { format!("p = {search}({chain})") };
        let more = match self.below(4) {
            0 => format!(", {}-[s]-{}", self.node(), self.node()),
            1 => format!(", {}", self.node()),
            _ => String::new(),
        };
        let clauses = format!("MATCH {part}{more}");
        let names: Vec<&str> = ["a", "b", "c"].into_iter().filter(|name| clauses.contains(&format!("({name}"))).collect();
        let some = self.one_of(&names);
        let condition = match self.below(9) {
            0 => "WHERE all(e IN r WHERE e.w > 0)".to_owned(),
            1 => format!("WHERE none(e IN relationships(p) WHERE e.w = {some}.p)"),
            2 => format!("WHERE id({some}) = 1 AND all(n IN nodes(p) WHERE n.p IS NULL OR n.p > 0)"),
            3 => format!("WHERE length(p) > 1 AND id({some}) = 2"),
            4 => "WHERE any(n IN nodes(p) WHERE n:B)".to_owned(),
            _ => String::new(),
        };
        // Of several that are shortest any may be given.
        let shown = if search == "shortestPath" { "length(p)" } else { "[e IN r | id(startNode(e))], [n IN nodes(p) | id(n)]" };
        let ids: Vec<String> = names.iter().map(|name| format!("id({name})")).collect();
        format!("{clauses} {condition} RETURN {}, {shown}", ids.join(", "))
    }
}

#[test]
fn random_chains_agree_with_the_oracle() {
    let (mut found, mut empty) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut session = Session { open_cypher: seed % 2 == 0, ..Session::new() };
        // The oracle tries every way; few edges keep them few.
        for query in random.graph().into_iter().take(13) {
            session.run(&query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
        }
        for _ in 0..5 {
            let query = random.chain_query();
            *(if agrees_with_the_oracle(&mut session, &query, seed) == 0 { &mut empty } else { &mut found }) += 1;
        }
    }
    assert!(found > 200 && empty > 50, "the queries should mean something: {found} with rows, {empty} without");
}

/// A subquery answers what the same pattern answers in clauses of its own.
#[test]
fn subqueries_agree_with_clauses() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let mut session = Session { open_cypher: seed % 2 == 0, ..Session::new() };
        for query in random.graph() {
            session.run(&query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
        }
        for _ in 0..5 {
            let kind = random.one_of(&["", ":T", ":U", "*1..2", ":T*0..2", ":!U"]);
            let (left, right) = [("-", "->"), ("<-", "-"), ("-", "-")][random.below(3) as usize];
            let (other, last) = (random.node().replace("(a", "(b"), random.node());
            let pattern = format!("(a){left}[r{kind}]{right}{other}-->{last}");
            let condition = random.one_of(&["", " WHERE b.p = 1", " WHERE b.p > a.p OR b:B", " WHERE NOT (b)-[:T]->(a)"]);
            let pattern = if pattern.contains("(b") { format!("{pattern}{condition}") } else { pattern };
            let clauses = format!("MATCH (a:V) OPTIONAL MATCH {pattern} RETURN id(a) AS id, count(r) AS c");
            let mut run = |query: &str| {
                let mut rows = session.run(query, Value::Null).unwrap_or_else(|failure| panic!("{query}: {failure}"));
                rows.sort();
                rows
            };
            let expected = run(&clauses);
            for expression in [
                format!("COUNT {{ {pattern} }}"),
                format!("COUNT {{ MATCH {pattern} }}"),
                format!("size([{pattern} | 1])"),
                format!("size(COLLECT {{ MATCH {pattern} RETURN 1 AS one }})"),
            ] {
                assert_eq!(run(&format!("MATCH (a:V) RETURN id(a), {expression}")), expected, "seed {seed}: {expression}");
            }
            let exists = format!("MATCH (a:V) WHERE EXISTS {{ {pattern} }} RETURN id(a)");
            let some: Vec<String> = expected
                .iter()
                .filter_map(|row| Some(row.split_once(" | ").filter(|(_, count)| *count != "0")?.0.to_owned()))
                .collect();
            assert_eq!(run(&exists), some, "seed {seed}: {exists}");
        }
    }
}

/// A session with these edges between nodes by number.
fn with_edges(kind: &str, edges: impl IntoIterator<Item = (u64, u64)>) -> Session {
    let mut session = Session::new();
    let (kind, mut mutations) = (session.symbols.intern(kind), Mutations::default());
    for (source, target) in edges {
        mutations.set_edge(NodeId::new(0, source), kind, NodeId::new(0, target), 0, true);
    }
    session.graph.apply_all(&mutations);
    session
}

fn prepared(session: &Session, query: &str) -> Prepared {
    let options = Options { ids: IDS, ..Options::default() };
    Prepared::new(compile(query, &options).unwrap_or_else(|errors| panic!("{query}: {errors:?}")), &session.symbols)
}

fn answer(session: &Session, view: &dyn View, prepared: &Prepared) -> Vec<String> {
    let environment = Environment {
        view,
        parameters: &[],
        ids: IDS,
        now: Clock::at(1_000),
        fresh_id: &NodeId::default,
        limits: Limits::default(),
        open_cypher: false,
        recall: None,
    };
    let mut rows = Vec::new();
    let ended = evaluate(prepared, &session.symbols, &environment, &mut Mutations::default(), &mut |row| {
        rows.push(row.iter().map(show).collect::<Vec<_>>().join(" | "));
        ControlFlow::Continue(())
    });
    ended.expect("it has an answer");
    rows
}

const HUB_EDGES: u64 = 10_000;

/// Who wants one edge of very many does not have all of them listed.
#[test]
fn edges_of_a_hub_are_listed_as_far_as_they_are_wanted() {
    let session = with_edges("E", (1..=HUB_EDGES).map(|leaf| (0, leaf)).chain([(0, 0)]));
    let hub = "MATCH (h) WHERE id(h) = 0";
    for (query, row, most) in [
        (format!("{hub} RETURN EXISTS {{ (h)-[:E]->() }}"), "true", 200),
        (format!("{hub} RETURN EXISTS {{ (h)--(m) WHERE id(m) > -1 }}"), "true", 200),
        (format!("{hub} AND (h)-[:E]->() RETURN 1"), "1", 200),
        (format!("{hub} MATCH (h)-[:E]->(m) RETURN 1 LIMIT 1"), "1", 200),
        (format!("{hub} MATCH (h)-[:E]->(m) MATCH (m)<-[:E]-(g) RETURN id(g) LIMIT 1"), "0", 400),
        // Each once, and little is listed twice.
        (format!("{hub} MATCH (h)-[:E]->(m) RETURN count(m), count(DISTINCT m)"), "10001 | 10001", 12_000),
        (format!("{hub} MATCH (h)-[:E]-(m) RETURN count(m), count(DISTINCT m)"), "10001 | 10001", 12_000),
        (format!("{hub} RETURN EXISTS {{ (h)-[:E]->(:None) }}"), "false", 12_000),
    ] {
        let prepared = prepared(&session, &query);
        let looked = Looked::new(&session.graph, true);
        assert_eq!(answer(&session, &looked, &prepared), [row], "{query}");
        assert!(looked.listed.get() < most, "{query}: {} half edges listed", looked.listed.get());
        // Where listing cannot be broken off, the answer is the same, and nothing is listed twice.
        let whole = Looked::new(&session.graph, false);
        assert_eq!(answer(&session, &whole, &prepared), [row], "{query}");
        assert!(whole.listed.get() < 12_000, "{query}: {} half edges listed", whole.listed.get());
    }
}

/// A node that comes in every row is deleted once: its edges were listed for each of them.
#[test]
fn a_hub_that_is_deleted_with_its_neighbours_is_listed_a_few_times() {
    const LEAVES: usize = 1_000;
    let session = with_edges("E", (1..=LEAVES as u64).map(|leaf| (leaf, 0)));
    let hub = "MATCH (h)<-[r:E]-(m) WHERE id(h) = 0";
    for deletion in [
        "DETACH DELETE m, h",
        "DETACH DELETE h, m",
        "DELETE r, h",
        "DELETE h, r, m",
        "FOREACH (x IN [m, h] | DETACH DELETE x)",
        "WITH h, collect(m) AS leaves FOREACH (x IN leaves | DETACH DELETE x DETACH DELETE h)",
    ] {
        let looked = Looked::new(&session.graph, true);
        answer(&session, &looked, &prepared(&session, &format!("{hub} {deletion}")));
        let listed = looked.listed.get();
        assert!(listed < 10 * LEAVES, "{deletion}: {listed} half edges listed");
    }
    let mut session = session;
    let both = format!("{hub} DETACH DELETE m, h");
    check_in(&mut session, &[&both, "MATCH (n) RETURN count(n)"], &["0"]);
}

/// From two leaves of a hub both sides come to it, and neither goes on to all the others.
#[test]
fn shortest_paths_do_not_go_through_all_edges_of_a_hub() {
    let tail = [(2, 20_001), (20_001, 20_002), (20_002, 20_003), (20_002, 20_004), (20_002, 20_005)];
    let session = with_edges("E", (1..=HUB_EDGES).map(|leaf| (0, leaf)).chain(tail));
    let listed = |from: u64, to: u64, knows: bool, length: &str| {
        let ends = format!("MATCH (a), (b) WHERE id(a) = {from} AND id(b) = {to}");
        let query = format!("{ends} MATCH p = shortestPath((a)-[*..5]-(b)) RETURN length(p)");
        let looked = Looked::new(&session.graph, knows);
        assert_eq!(answer(&session, &looked, &prepared(&session, &query)), [length], "{from} to {to}");
        looked.listed.get()
    };
    for knows in [true, false] {
        assert!(listed(1, 3, knows, "2") < 20);
        assert!(listed(3, 1, knows, "2") < 20);
    }
    // The hub comes last, also where the other side has more nodes to go on from.
    assert!(listed(1, 20_002, true, "4") < 50);
    assert!(listed(20_002, 1, true, "4") < 50);
}

/// No edge twice, also where there are so many that it is kept which are taken.
#[test]
fn long_fixed_chains_cross_each_edge_once() {
    const HOPS: usize = 35;
    let ring = |nodes: u64| with_edges("T", (0..nodes).map(|n| (n, (n + 1) % nodes)));
    let single = "-[:T]-()".repeat(HOPS);
    let mixed = format!("{}-[:T*2]-(){}", "-[:T]-()".repeat(HOPS - 10), "-[:T]-()".repeat(8));
    for (nodes, expected) in [(HOPS as u64 + 5, "80"), (HOPS as u64, "70"), (HOPS as u64 - 1, "0")] {
        let session = ring(nodes);
        for chain in [&single, &mixed] {
            let query = format!("MATCH (n){chain} RETURN count(*)");
            assert_eq!(answer(&session, &session.graph, &prepared(&session, &query)), [expected], "{nodes} nodes: {chain}");
        }
    }
}

/// Each edge of a pattern is not compared with all pairs of others: four times as many cost about four times as much.
#[test]
fn a_long_fixed_chain_costs_by_its_length() {
    let session = with_edges("T", (0..200).map(|n| (n, n + 1)));
    let took = |hops: usize| {
        let query = format!("UNWIND range(1, 300) AS i MATCH (a){} WHERE id(a) = 0 RETURN count(*)", "-[:T]->()".repeat(hops));
        let prepared = prepared(&session, &query);
        let once = || {
            let begun = Instant::now();
            assert_eq!(answer(&session, &session.graph, &prepared), ["300"]);
            begun.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap_or_default()
    };
    let (short, long) = (took(40), took(160));
    assert!(long < short * 20, "{long:?} for 160 hops, {short:?} for 40");
}
