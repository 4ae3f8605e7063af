//! Queries that would take all time or all memory: each ends with a failure that says so, soon and small.

use std::time::{Duration, Instant};

use weir_model::Value;
use weir_model::expression::FailureKind;

use super::Limits;
use super::cypher_tests::Session;

fn session(nodes: u64) -> Session {
    let mut session = Session::new();
    session.run(&format!("UNWIND range(1, {nodes}) AS i MATCH (n) WHERE id(n) = i SET n.x = i"), Value::Null).expect("made");
    session
}

/// What the query ends with, and how long it took.
fn ends(session: &mut Session, time_max: Duration, query: &str) -> (FailureKind, String, Duration) {
    let limits = Limits { time_max: Some(time_max), buffer_bytes_max: 4 << 20, ..Limits::NONE };
    let began = Instant::now();
    let rows = session.run_within(limits, query, Value::Null).map(|rows| rows.len());
    let failure = rows.expect_err(query);
    (failure.kind, failure.message, began.elapsed())
}

const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(60);

#[test]
fn what_never_ends_ends_with_the_time() {
    let mut session = session(2_000);
    for query in [
        "MATCH (a), (b), (c) RETURN count(*)",
        "MATCH (a), (b), (c) WHERE a.x + b.x + c.x < 0 RETURN a",
        "MATCH (a), (b) WHERE a.nothing < b.nothing RETURN a",
        "UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y UNWIND range(1, 100000) AS z RETURN sum(x * y)",
        "RETURN size([x IN range(1, 30000) WHERE any(y IN range(1, 30000) WHERE y = -x)])",
        "RETURN reduce(n = 0, x IN range(1, 30000) | n + reduce(m = 0, y IN range(1, 30000) | (m + y) % 7))",
        "WITH range(1, 30000) AS l UNWIND l AS x UNWIND l AS y WITH x, y WHERE -1 IN l RETURN count(*)",
        "UNWIND range(1, 100000) AS x CALL { WITH x UNWIND range(1, 100000) AS y RETURN count(y) AS n } RETURN sum(n)",
        "UNWIND range(1, 30000) AS x MATCH (a) WHERE a.x < -x RETURN count(a)",
        "MATCH (a), (b), (c) WHERE a.x + b.x + c.x < 0 SET a.y = 1",
    ] {
        let (kind, message, took) = ends(&mut session, SOON, query);
        assert_eq!(kind, FailureKind::TimeLimit, "{query}: {message}");
        assert!(took < SOON + Duration::from_secs(3), "{query} took {took:?}");
    }
}

#[test]
fn what_grows_ends_with_the_memory() {
    let mut session = session(2_000);
    for query in [
        "RETURN range(1, 10000000)",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x RETURN collect(x)",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x WITH x ORDER BY -x RETURN x",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x RETURN DISTINCT x",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x RETURN x AS group, count(*)",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x RETURN percentileCont(x, 0.5)",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x RETURN count(DISTINCT x)",
        "UNWIND range(1, 300) AS x UNWIND range(1, 300) AS y RETURN x, y UNION UNWIND range(1, 300) AS x RETURN x, 1 AS y",
        "RETURN reduce(s = 'x', x IN range(1, 60) | s + s)",
        "RETURN reduce(l = [1], x IN range(1, 60) | l + l)",
        "RETURN reduce(l = [1], x IN range(1, 60) | [l, l])",
        "RETURN reduce(m = {a: 1}, x IN range(1, 60) | {a: m, b: m})",
        "WITH [1] AS l WITH [l,l,l,l,l,l,l,l] AS l WITH [l,l,l,l,l,l,l,l] AS l WITH [l,l,l,l,l,l,l,l] AS l
         WITH [l,l,l,l,l,l,l,l] AS l WITH [l,l,l,l,l,l,l,l] AS l WITH [l,l,l,l,l,l,l,l] AS l RETURN l",
        "RETURN [x IN range(1, 1000) | [y IN range(1, 1000) | [z IN range(1, 1000) | z]]]",
        "RETURN replace(reduce(s = 'x', x IN range(1, 18) | s + s), 'x', reduce(s = 'x', x IN range(1, 18) | s + s))",
        "RETURN text.regexReplaceAll(reduce(s = 'x', x IN range(1, 18) | s + s), 'x', reduce(s = 'x', x IN range(1, 18) | s + s))",
        "RETURN size(split(reduce(s = 'x', x IN range(1, 18) | s + s), ''))",
        "RETURN size(text.split(reduce(s = 'x', x IN range(1, 18) | s + s), ''))",
        "RETURN size(text.regexGroups(reduce(s = 'x', x IN range(1, 18) | s + s), 'x'))",
        "MATCH (a) MATCH (b) WITH a, b ORDER BY a.x RETURN a",
        "MATCH (n) WITH collect(n) AS l RETURN [x IN range(1, 100) | l]",
        "MATCH (n) WITH collect(n) + collect(n) + collect(n) AS l UNWIND [1] AS x RETURN {a: l, b: l, c: l, d: l, e: l, f: l, g: l, h: l, i: l, j: l}",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x CREATE (n {x: x})",
        "UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b WITH a * 1000 + b AS x MATCH (n) WHERE id(n) = x SET n.y = x",
        "FOREACH (a IN range(1, 1000) | FOREACH (b IN range(1, 1000) | CREATE (n {x: a})))",
        "CALL RECURSIVELY WITH [1] AS l UNTIL (size(l) < 0) { RETURN l + l AS l } RETURN l",
        "CALL RECURSIVELY WITH 1 AS x UNTIL (x < 0) { UNWIND [x, x, x] AS y RETURN y AS x } RETURN x",
        "RETURN COLLECT { MATCH (a), (b) RETURN a.x }",
        "RETURN size([x IN range(1, 100000) | x] + [x IN range(1, 100000) | x])",
        "MATCH (n) WITH collect(n) AS l RETURN size(toJson([x IN range(1, 40) | l]))",
        "RETURN parseJson('[' + reduce(s = '1,', x IN range(1, 18) | s + s) + '1]')[0]",
        "RETURN size(text.regexFirstMatch(reduce(s = 'x', x IN range(1, 19) | s + s), '(((((((((x+)))))))))'))",
        "RETURN size(text.regexReplaceAll(reduce(s = 'x', x IN range(1, 19) | s + s), '(x+)', '$1$1$1$1$1$1$1$1$1'))",
        // The ids that are found, before those that come again are one; and beside a list the ids that are found in it.
        "WITH range(1, 60000) AS l MATCH (n) WHERE id(n) IN l OR id(n) IN l OR id(n) IN l RETURN count(n)",
        "MATCH (n) WHERE id(n) IN [x IN range(1, 66000) | CASE WHEN x < 7 THEN reduce(s = 'x', y IN range(1, 17) | s + s) ELSE x END]
         RETURN count(n)",
    ] {
        let (kind, message, _) = ends(&mut session, LATE, query);
        assert_eq!(kind, FailureKind::MemoryLimit, "{query}: {message}");
    }
}

/// The text is an eighth of what a query may hold; here are always more than eight of it, none of which is too large alone.
#[test]
fn what_is_there_at_a_time_counts_together() {
    let mut session = session(1);
    let each = |of: &dyn Fn(usize) -> String, between: &str| (0..10).map(of).collect::<Vec<_>>().join(between);
    let columns = each(&|i| format!("t + '{i}' AS c{i}"), ", ");
    let one_by_one = each(&|i| format!("*, t + '{i}' AS c{i}"), " WITH ");
    let made = each(&|i| format!("t + '{i}'"), ", ");
    let lists = each(&|i| format!("UNWIND [t + '{i}', 1] AS c{i}"), " ");
    let inside = each(&|i| format!("[c{i} IN [size(t)] | "), "");
    let again = each(&|i| format!("FOREACH (c{i} IN [t + '{i}', 1] | "), "");
    for query in [
        format!("WITH {columns} RETURN size(c0)"),
        format!("WITH {one_by_one} RETURN size(t)"),
        format!("RETURN size([{made}][0])"),
        format!("RETURN size(coalesce({made}))"),
        format!("RETURN size({{a: [{made}]}}.a)"),
        format!("{lists} RETURN count(*)"),
        format!("RETURN {inside}t{}", "]".repeat(10)),
        format!("{again} CREATE (n {{x: 1}}){}", ")".repeat(10)),
        format!("RETURN 1 AS one ORDER BY {made}"),
        format!("RETURN {made}, count(*)"),
        format!("WITH [t] AS l RETURN size({})", each(&|_| "l".to_owned(), " + ")),
        "UNWIND range(1, 10) AS i RETURN i, max(t + i)".to_owned(),
        "RETURN reduce(a = t, x IN [1] | reduce(b = a + x, y IN [1] | reduce(c = b + y, z IN [1] | size(a + b + c))))".to_owned(),
    ] {
        let query = format!("WITH reduce(s = 'x', x IN range(1, 19) | s + s) AS t {query}");
        let (kind, message, _) = ends(&mut session, LATE, &query);
        assert_eq!(kind, FailureKind::MemoryLimit, "{query}: {message}");
    }
}

#[test]
fn what_nests_without_end_is_refused() {
    let mut session = session(1);
    for query in [
        "RETURN reduce(l = [], x IN range(1, 100000) | [l])",
        "RETURN reduce(m = {}, x IN range(1, 100000) | {m: m})",
        "RETURN reduce(l = [], x IN range(1, 100000) | [] + [l])",
        "CALL RECURSIVELY WITH [] AS l UNTIL (size(l) < 0) { RETURN [l] AS l } RETURN l",
    ] {
        let (kind, message, _) = ends(&mut session, LATE, query);
        assert!(kind == FailureKind::Runtime && message.contains("levels deep"), "{query}: {message}");
    }
}

/// What is let go of does not count, and what is there once counts once.
#[test]
fn what_fits_runs() {
    let mut session = session(300);
    for query in [
        "UNWIND range(1, 3000) AS x CALL { WITH x UNWIND range(1, 100) AS y RETURN collect(y) AS l } RETURN count(l) AS n",
        "UNWIND range(1, 3000) AS x CALL { WITH x UNWIND range(1, 100) AS y RETURN DISTINCT y ORDER BY y } RETURN count(y) AS n",
        "UNWIND range(1, 3000) AS x RETURN count(COLLECT { UNWIND range(1, 100) AS y RETURN y }) AS n",
        "MATCH (n) WITH collect(n.x) AS l UNWIND range(1, 3000) AS x WITH l, x ORDER BY x RETURN count(l) AS n",
        "RETURN size(reduce(l = [], x IN range(1, 2000) | l + x)) AS n",
        "UNWIND range(1, 30000) AS x WITH x ORDER BY x LIMIT 3 RETURN count(x) AS n",
        "UNWIND range(1, 100) AS i WITH reduce(s = 'x', x IN range(1, 17) | s + s) AS t WITH t AS a, t AS b RETURN count(a + b) AS n",
        "UNWIND range(1, 100) AS i WITH reduce(s = 'x', x IN range(1, 17) | s + s) + i AS t RETURN max(t) AS n",
    ] {
        let limits = Limits { buffer_bytes_max: 1 << 20, ..Limits::default() };
        let rows = session.run_within(limits, query, Value::Null);
        assert_eq!(rows.as_ref().map(Vec::len), Ok(1), "{query}: {rows:?}");
    }
}

#[test]
fn who_only_tries_gives_up_soon() {
    let mut session = session(2_000);
    let limits = Limits { steps_max: Some(1_000), ..Limits::NONE };
    let failure = session.run_within(limits, "MATCH (n) RETURN count(*)", Value::Null).expect_err("too many steps");
    assert_eq!(failure.kind, FailureKind::TimeLimit);
    assert!(session.run_within(limits, "MATCH (n) WHERE id(n) = 7 RETURN n.x", Value::Null).is_ok());
}

/// A long list is searched a few times and not for every row, and one that is made is not copied for every item.
#[test]
fn long_lists_take_as_long_as_they_are() {
    let mut session = session(1);
    // Otherwise they take most of a minute.
    let limits = Limits { time_max: Some(Duration::from_secs(5)), ..Limits::default() };
    let list = Value::list((1..=40_000).map(Value::Integer).collect());
    let literal = (1..=40_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    for query in [
        "UNWIND range(20001, 60000) AS x WITH x WHERE x IN $that RETURN count(*) AS n".to_owned(),
        format!("UNWIND range(20001, 60000) AS x WITH x WHERE x IN [{literal}] RETURN count(*) AS n"),
        "RETURN size(reduce(l = [], x IN range(1, 40000) | l + x)) / 2 AS n".to_owned(),
    ] {
        let rows = session.run_within(limits, &query, list.clone());
        assert_eq!(rows, Ok(vec!["20000".to_owned()]), "{}", &query[..40]);
    }
}
