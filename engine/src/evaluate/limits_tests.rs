//! Queries that would take all time or all memory: each ends with a failure that says so, soon and small.

use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::{NodeId, Symbol, Value};

use super::cypher_tests::Session;
use super::limits::Budget;
use super::pool::Pool;
use super::{Limits, stack};
use crate::reference::ReferenceGraph;
use crate::view::View;
use crate::view::tracked::Tracked;

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
        let mut once = || {
            let (kind, message, took) = ends(&mut session, SOON, query);
            assert_eq!(kind, FailureKind::TimeLimit, "{query}: {message}");
            took
        };
        // The machine may stand still now and then, but not every time.
        let ends_soon = (0..3).any(|_| once() < SOON + Duration::from_secs(3));
        assert!(ends_soon, "{query} takes more than {SOON:?} and 3 s each time");
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

/// However the steps lie within each other: those of long patterns, of many, or of the operators around them. The process ended.
#[test]
fn what_goes_too_deep_ends_before_the_stack_does() {
    let deep = || {
        let mut session = Session::new();
        let chain = "UNWIND range(0, 999) AS i MATCH (a), (b) WHERE id(a) = i AND id(b) = i + 1 CREATE (a)-[:E]->(b)";
        session.run(chain, Value::Null).expect("a chain");
        stack::leave(512 << 10);
        let path = |hops: usize| format!("MATCH (a){} ", "-->()".repeat(hops));
        let optional = "OPTIONAL MATCH (a)-->()-->() ";
        let mut run = |patterns: &str| session.run(&format!("MATCH (a) WHERE id(a) = 0 {patterns}"), Value::Null);
        let count = |patterns: String| format!("{patterns}RETURN count(*) AS n");
        for patterns in [
            count(path(900).repeat(3)),
            count(path(10).repeat(250)),
            count(optional.repeat(900)),
            format!("RETURN COUNT {{ {}RETURN 1 }} AS n", path(900).repeat(2)),
            format!("{}SET a.deep = true", path(900).repeat(3)),
        ] {
            let failure = run(&patterns).expect_err("it is too deep");
            assert!(failure.kind == FailureKind::Runtime && failure.message.contains("stack"), "{}: {failure}", &patterns[..60]);
        }
        for patterns in [count(path(30)), count(path(3).repeat(10)), count(optional.repeat(10))] {
            assert_eq!(run(&patterns), Ok(vec!["1".to_owned()]), "{patterns}");
        }
        assert_eq!(run("RETURN a.deep AS deep"), Ok(vec!["null".to_owned()]));
    };
    // With more than it takes otherwise: a test that fails must not end the others with it.
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(deep).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
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
        "MATCH (n) WITH collect(n) AS l UNWIND range(1, 1000) AS x WITH l, x, count(*) AS c RETURN sum(c) AS n",
        "MATCH (n) WITH {all: collect(n)} AS m UNWIND range(1, 1000) AS x WITH DISTINCT m, x RETURN count(x) AS n",
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

/// Nodes are found by all that they have to equal, whatever of it comes first, and all of them meet.
#[test]
fn several_equalities_find_nodes_together() {
    let mut session = session(1);
    // By the first of them alone it is more than a million.
    let limits = Limits { steps_max: Some(200_000), ..Limits::NONE };
    let mut answers = |query: &str, expected: &str| {
        assert_eq!(session.run_within(limits, query, Value::Null).as_deref(), Ok(&[expected.to_owned()][..]), "{query}");
    };
    let made = "CREATE (:A {type: 'x', id: i}) CREATE (:B {type: 'x', id: i})";
    answers(&format!("UNWIND range(1, 2000) AS i {made} RETURN count(*)"), "2000");
    for conditions in ["a.type = b.type AND a.id = b.id", "a.type + '' = b.type + '' AND a.id = b.id"] {
        answers(&format!("MATCH (a:A), (b:B) WHERE {conditions} RETURN count(*)"), "2000");
    }
    let twice = "UNWIND [1, 2] AS again UNWIND range(1, 2000) AS i";
    // NaN is the same as NaN, and equals nothing.
    for (label, properties) in [("C", "type: 'x', id: i"), ("D", "type: sqrt(-1), id: i")] {
        answers(&format!("{twice} MERGE (n:{label} {{{properties}}}) RETURN count(DISTINCT n)"), "2000");
        answers(&format!("MATCH (n:{label}) RETURN count(*)"), "2000");
    }
}

/// A long list is searched a few times and not for every row, one that is made is not copied for every item, and one that rows
/// are grouped by is not gone through for each of them.
#[test]
fn long_lists_take_as_long_as_they_are() {
    let mut session = session(1);
    // Otherwise they take most of a minute.
    let limits = Limits { time_max: Some(Duration::from_secs(20)), ..Limits::default() };
    let list = Value::list((1..=40_000).map(Value::Integer).collect());
    let literal = (1..=40_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    for query in [
        "UNWIND range(20001, 60000) AS x WITH x WHERE x IN $that RETURN count(*) AS n".to_owned(),
        format!("UNWIND range(20001, 60000) AS x WITH x WHERE x IN [{literal}] RETURN count(*) AS n"),
        "RETURN size(reduce(l = [], x IN range(1, 40000) | l + x)) / 2 AS n".to_owned(),
        "WITH range(1, 80000) AS l UNWIND l AS x WITH l, x, count(*) AS c RETURN count(*) / 4 AS n".to_owned(),
        "WITH {all: range(1, 80000)} AS m UNWIND m.all AS x WITH DISTINCT m, x RETURN count(*) / 4 AS n".to_owned(),
    ] {
        let rows = session.run_within(limits, &query, list.clone());
        assert_eq!(rows, Ok(vec!["20000".to_owned()]), "{}", &query[..40]);
    }
}

/// Of how many nodes it is known that they were read, beside rows of `row_bytes`; and whether it may have been anything.
fn noted(limits: Limits, nodes: u64, row_bytes: usize) -> (usize, bool) {
    let graph = ReferenceGraph::new();
    let tracked = Tracked::new(&graph);
    let budget = Budget::noting(&limits, &tracked);
    for n in 0..nodes {
        tracked.property(NodeId::new(0, n), Symbol(0));
        budget.step().expect("there is no limit of time");
    }
    budget.hold_bytes(row_bytes).expect("there is room for the rows");
    drop(budget);
    let reads = tracked.into_reads();
    (reads.nodes.len(), reads.everything)
}

#[test]
fn what_is_noted_of_what_is_read_counts_as_held_and_gives_way() {
    let limits = Limits { buffer_bytes_max: 1 << 20, ..Limits::NONE };
    assert_eq!(noted(limits, 10_000, 1_000), (10_000, false));
    assert_eq!(noted(limits, 100_000, 1_000), (0, true));
    assert_eq!(noted(limits, 10_000, 1_000_000), (0, true), "the rows are in need of it");
    let pool = Pool::new(1 << 20);
    let shared = Limits { pool: Some(&pool), ..Limits::NONE };
    assert_eq!(noted(shared, 10_000, 1_000), (10_000, false));
    assert_eq!(noted(shared, 100_000, 1_000), (0, true));
    assert_eq!(pool.taken(), 0);
}
