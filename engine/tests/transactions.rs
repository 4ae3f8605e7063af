//! Every query is serializable, and every client reads its own writes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use weir_cypher_compiler::{Options as CompileOptions, compile, expression_text};
use weir_engine::commit::wall_clock_millis;
use weir_engine::store::InMemory;
use weir_engine::{
    Engine, EngineError, Graph, GraphOptions, Ingester, Options, Prepared, QueryLimits, QueryOptions, Write, Written,
};
use weir_model::procedure::Body;
use weir_model::{Mutations, NodeId, Position, Procedure, Value};

fn engine(workers: usize) -> Engine {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
    engine.start().unwrap();
    engine
}

fn prepare(graph: &Graph, text: &str) -> Arc<Prepared> {
    prepare_with(graph, text, Vec::new())
}

fn prepare_with(graph: &Graph, text: &str, procedures: Vec<Arc<Procedure>>) -> Arc<Prepared> {
    let options = CompileOptions { parameters: vec!["that".into()], procedures, ..CompileOptions::default() };
    graph.prepare(compile(text, &options).unwrap_or_else(|problems| panic!("{text}: {}", problems[0])))
}

fn rows(graph: &Graph, query: &Prepared, that: Value) -> Result<Vec<Vec<Value>>, EngineError> {
    let mut rows = Vec::new();
    graph.query(query, &[that], QueryOptions::default(), &mut |row| {
        rows.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn single(graph: &Graph, text: &str) -> Value {
    rows(graph, &prepare(graph, text), Value::Null).unwrap()[0][0].clone()
}

#[test]
fn counters_lose_no_step() {
    let engine = engine(2);
    let graph = engine.default_graph();
    let step = "MATCH (n) WHERE id(n) = idFrom('counter', $that) SET n.count = coalesce(n.count, 0) + 1";
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let graph = graph.clone();
            scope.spawn(move || {
                let query = prepare(&graph, step);
                if thread % 2 == 0 {
                    (0..200).for_each(|_| drop(rows(&graph, &query, Value::Integer(1)).unwrap()));
                } else {
                    let mut ingester = Ingester::new(graph, query);
                    for _ in 0..20 {
                        let done = ingester.ingest(&vec![Value::Integer(1); 10], None).unwrap();
                        assert!(done.failures.is_empty());
                    }
                }
            });
        }
    });
    graph.wait_visible().unwrap();
    let count = single(&graph, "MATCH (n) WHERE id(n) = idFrom('counter', 1) RETURN n.count");
    assert_eq!(count, Value::Integer(800));
    engine.shutdown().unwrap();
}

/// Takes its time whenever it is called, also with the graph locked.
fn slow() -> Arc<Procedure> {
    let body = Body::Rows(Arc::new(|_, _, each| {
        std::thread::sleep(Duration::from_millis(3));
        each(&[Value::Null]).map(drop)
    }));
    let slow = Procedure::declare("test.slow(x :: FLOAT) :: (out :: ANY?)", body).unwrap();
    Arc::new(Procedure { at_hand: true, ..slow })
}

/// Each is slower than the one that only counts, loses every race with it, and asks for the past with the graph locked.
#[test]
fn who_asks_for_the_past_and_loses_every_race_counts_too() {
    let engine = engine(2);
    let graph = engine.default_graph();
    let (counted, slow) = (AtomicI64::new(0), slow());
    let count = |text: &str| {
        rows(&graph, &prepare_with(&graph, text, vec![slow.clone()]), Value::Null).unwrap();
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let hot = "MATCH (n) WHERE id(n) = idFrom('hot')";
    let changes = "size([change IN journal WHERE change.kind = 'property' AND change.detail.key = 'count'])";
    // By another number each time: what was asked for once is not asked for again.
    let takes_time = "CALL test.slow(rand()) YIELD out";
    let by_journal = format!("{hot} CALL debug.node(n) YIELD journal {takes_time} SET n.count = {changes} + 1");
    // What it was is not what it is: only that it can be asked.
    let by_moment = format!(
        "{hot} CALL history.nodeAt(n, timestamp() - 2) YIELD node {takes_time}
         SET n.count = coalesce(n.count, 0) + 1, n.before = coalesce(properties(node).count, 0)"
    );
    std::thread::scope(|scope| {
        let slowly = || {
            for _ in 0..5 {
                count(&by_journal);
                count(&by_moment);
            }
        };
        let slow = [scope.spawn(slowly), scope.spawn(slowly), scope.spawn(slowly)];
        while slow.iter().any(|thread| !thread.is_finished()) {
            count(&format!("{hot} SET n.count = coalesce(n.count, 0) + 1"));
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    assert_eq!(single(&graph, &format!("{hot} RETURN n.count")), Value::Integer(counted.into_inner()));
    assert_eq!(single(&graph, &format!("{hot} RETURN n.before < n.count")), Value::Boolean(true));
    engine.shutdown().unwrap();
}

/// Somebody changes the node while the query that has asked for its past is slow; whoever commits later has seen that.
#[test]
fn what_the_past_tells_up_to_now_is_read() {
    let engine = engine(2);
    let graph = engine.default_graph();
    const LATER: Duration = Duration::from_millis(400);
    let asked = [
        "CALL history.nodeChanges(idFrom('a')) YIELD kind WITH count(*) AS seen CALL util.sleep(600)",
        "CALL util.sleep(600) CALL history.nodeAt(idFrom('a'), $that) YIELD node WITH node.x AS seen",
        "CALL util.sleep(600)
         CALL history.queryAt('MATCH (a) WHERE a.x IS NOT NULL RETURN a.x AS x', $that) YIELD value WITH value.x AS seen",
    ];
    let begun = Instant::now();
    let mut before = 0;
    for asked in asked {
        let text = format!("{asked} MATCH (b) WHERE id(b) = idFrom('b') SET b.seen = seen RETURN b.seen");
        let mut is_in_time = false;
        while !is_in_time {
            assert!(begun.elapsed() < Duration::from_secs(120), "what is changed meanwhile comes too late each time");
            before += 1;
            single(&graph, &format!("MATCH (a) WHERE id(a) = idFrom('a') SET a.x = {before} RETURN a.x"));
            std::thread::scope(|scope| {
                let since = Instant::now();
                let at = Value::Integer((wall_clock_millis() + LATER.as_millis() as u64) as i64);
                let slow = scope.spawn(|| rows(&graph, &prepare(&graph, &text), at).unwrap()[0][0].clone());
                std::thread::sleep(Duration::from_millis(50));
                single(&graph, &format!("MATCH (a) WHERE id(a) = idFrom('a') SET a.x = {} RETURN a.x", before + 1));
                // On a busy machine it may come when nobody asks any more, or of a later moment.
                is_in_time = since.elapsed() < LATER;
                let seen = slow.join().unwrap();
                assert!(
                    seen == Value::Integer(before + 1) || (!is_in_time && seen == Value::Integer(before)),
                    "{asked}: {seen:?}"
                );
            });
        }
    }
    engine.shutdown().unwrap();
}

/// Asks for what is outside, by a number that somebody moves on meanwhile, until it is `last`.
fn asking(graph: &Graph, last: i64, asked: &Arc<AtomicI64>) -> Arc<Prepared> {
    asking_after(graph, "", last, asked)
}

/// As `asking`, after something else.
fn asking_after(graph: &Graph, before: &str, last: i64, asked: &Arc<AtomicI64>) -> Arc<Prepared> {
    let (others, asked) = (graph.clone(), asked.clone());
    let moves = prepare(graph, "MATCH (h) WHERE id(h) = idFrom('hot') SET h.n = $that");
    let body = Body::Rows(Arc::new(move |_, arguments, each| {
        let [Value::Integer(n)] = arguments else { return Ok(()) };
        asked.fetch_add(1, Ordering::Relaxed);
        if *n < last {
            rows(&others, &moves, Value::Integer(n + 1)).unwrap();
        }
        each(&[Value::Integer(*n)]).map(drop)
    }));
    let outside = Procedure::declare("test.outside(n :: INTEGER?) :: (out :: INTEGER?)", body).unwrap();
    let hot = "MATCH (h) WHERE id(h) = idFrom('hot')";
    let text = format!("{hot} {before} CALL test.outside(h.n) YIELD out SET h.seen = out RETURN out");
    prepare_with(graph, &text, vec![Arc::new(outside)])
}

/// It loses every race, and with the graph locked it would have to ask for something new: that was its end.
#[test]
fn what_is_asked_outside_may_follow_from_what_is_hot() {
    let engine = engine(1);
    let graph = engine.default_graph();
    for is_ingested in [false, true] {
        single(&graph, "MATCH (h) WHERE id(h) = idFrom('hot') SET h.n = 0, h.seen = null RETURN h.n");
        let asked = Arc::new(AtomicI64::new(0));
        let query = asking(&graph, 9, &asked);
        if is_ingested {
            let failures = Ingester::new(graph.clone(), query).ingest(&[Value::Null], None).unwrap().failures;
            graph.wait_visible().unwrap();
            assert!(failures.is_empty(), "{failures:?}");
        } else {
            assert_eq!(rows(&graph, &query, Value::Null).unwrap(), [[Value::Integer(9)]]);
        }
        assert_eq!(single(&graph, "MATCH (h) WHERE id(h) = idFrom('hot') RETURN h.seen"), Value::Integer(9));
        assert_eq!(asked.load(Ordering::Relaxed), 10, "each once");
    }
    engine.shutdown().unwrap();
}

/// It slept anew each time it was evaluated, the third or fourth time with the graph locked.
#[test]
fn who_is_evaluated_again_does_not_sleep_again() {
    const SLEEP: Duration = Duration::from_secs(1);
    let engine = engine(1);
    let graph = engine.default_graph();
    for is_ingested in [false, true] {
        single(&graph, "MATCH (h) WHERE id(h) = idFrom('hot') SET h.n = 0, h.seen = null RETURN h.n");
        let asked = Arc::new(AtomicI64::new(0));
        // In two pieces.
        let before = format!("UNWIND [1, 1] AS x CALL util.sleep({}) WITH h, count(x) AS slept", SLEEP.as_millis() / 2);
        let query = asking_after(&graph, &before, 9, &asked);
        let begun = Instant::now();
        if is_ingested {
            let failures = Ingester::new(graph.clone(), query).ingest(&[Value::Null], None).unwrap().failures;
            assert!(failures.is_empty(), "{failures:?}");
        } else {
            assert_eq!(rows(&graph, &query, Value::Null).unwrap(), [[Value::Integer(9)]]);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 10, "it was evaluated as often");
        let took = begun.elapsed();
        assert!(took >= SLEEP && took < SLEEP * 5, "{took:?}");
    }
    engine.shutdown().unwrap();
}

/// What is asked for is another thing each time: it ends with the time a query or a record may take, and before that when it is
/// given up.
#[test]
fn what_follows_from_what_is_hot_is_not_asked_outside_for_ever() {
    let limits = QueryLimits { time_max: Duration::from_millis(300), ..QueryLimits::default() };
    let options = Options { workers: 1, limits, ..Options::default() };
    let engine = Engine::open(Arc::new(InMemory::default()), options).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    single(&graph, "MATCH (h) WHERE id(h) = idFrom('hot') SET h.n = 0 RETURN h.n");
    let asked = Arc::new(AtomicI64::new(0));
    let query = asking(&graph, i64::MAX, &asked);
    let refused = |problem: &str| problem.contains("run it again") || problem.contains("ran out of time");
    let problem = rows(&graph, &query, Value::Null).unwrap_err().to_string();
    assert!(refused(&problem), "{problem}");
    let failures = Ingester::new(graph.clone(), query.clone()).ingest(&[Value::Null], None).unwrap().failures;
    assert!(matches!(&failures[..], [(0, failure)] if refused(&failure.message)), "{failures:?}");
    let before = asked.load(Ordering::Relaxed);
    let goes_on = || asked.load(Ordering::Relaxed) < before + 5;
    let given_up = Ingester::new(graph.clone(), query.clone()).ingest_while(&[Value::Null], None, &goes_on).unwrap();
    assert!(given_up.is_none());
    let flag = AtomicBool::new(true);
    let cancelled = QueryOptions { cancelled: Some(&flag), ..QueryOptions::default() };
    let problem = graph.query(&query, &[Value::Null], cancelled, &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(problem.contains("cancelled"), "{problem}");
    assert_eq!(single(&graph, "MATCH (h) WHERE id(h) = idFrom('hot') RETURN h.seen"), Value::Null);
    engine.shutdown().unwrap();
}

/// How often a query is evaluated that reads, while others write for the first time, and then writes; and what it has seen.
fn evaluated(graph: &Graph, read: &str, meanwhile: &str) -> (i64, Value) {
    let asked = Arc::new(AtomicI64::new(0));
    let (others, count, write) = (graph.clone(), asked.clone(), prepare(graph, meanwhile));
    let body = Body::Rows(Arc::new(move |_, _, each| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            rows(&others, &write, Value::Null).unwrap();
        }
        each(&[Value::Null]).map(drop)
    }));
    // By another number each time: what was asked for once is not asked for again.
    let procedure = Procedure::declare("test.meanwhile(x :: FLOAT) :: (out :: ANY?)", body).unwrap();
    let writes = "MATCH (r) WHERE id(r) = idFrom('result') SET r.seen = seen RETURN seen";
    let text = format!("{read} CALL test.meanwhile(rand()) YIELD out {writes}");
    let query = prepare_with(graph, &text, vec![Arc::new(procedure)]);
    let seen = rows(graph, &query, Value::Null).unwrap()[0][0].clone();
    (asked.load(Ordering::Relaxed), seen)
}

/// Whoever went through nodes was in conflict with every commit, and in the end held all of them up.
#[test]
fn who_lists_nodes_is_in_conflict_only_with_what_changes_them() {
    let engine = engine(2);
    let graph = engine.default_graph();
    let made = "MATCH (a), (b), (c) WHERE id(a) = idFrom('m', 1) AND id(b) = idFrom('m', 2) AND id(c) = idFrom('o', 1)
                SET a:MM, b:MM, c:Other, a.k = 1, b.k = 2, c.k = 3";
    let (a, c) = ("MATCH (n) WHERE id(n) = idFrom('m', 1)", "MATCH (n) WHERE id(n) = idFrom('o', 1)");
    let summed = "MATCH (n:MM) WHERE n.k > 0 WITH sum(n.k) AS seen";
    let counted = "MATCH (n:MM) WITH count(n) AS seen";
    let listed = "MATCH (n:MM) WITH collect(id(n)) AS ids WITH size(ids) AS seen";
    let all = "MATCH (n) WITH count(n) AS seen";
    let by_key =
        "WITH 'fre' + substring(toString(rand()), 0, 0) + 'sh' AS key MATCH (n:MM) WITH sum(coalesce(n[key], 0)) AS seen";
    for (read, meanwhile, times, seen) in [
        (summed, format!("{c} SET n.k = 4"), 1, 3),
        (summed, format!("{c} SET n:More"), 1, 3),
        (summed, "CREATE (:Other {k: 9})".to_owned(), 1, 3),
        (summed, format!("{a} SET n.k = 7"), 2, 9),
        (summed, format!("{c} SET n:MM"), 2, 6),
        (summed, "CREATE (:MM {k: 10})".to_owned(), 2, 13),
        (summed, format!("{a} REMOVE n:MM"), 2, 2),
        (counted, format!("{a} SET n:MM, n.k = 7"), 1, 2),
        (counted, "CREATE (:MM)".to_owned(), 2, 3),
        (counted, format!("{a} REMOVE n:MM"), 2, 1),
        (counted, format!("{a} DETACH DELETE n"), 2, 1),
        (listed, format!("{a} SET n.k = null"), 1, 2),
        (listed, format!("{c} SET n:MM"), 2, 3),
        (all, format!("{a} SET n.k = 7"), 1, 3),
        // It has its label still.
        (all, format!("{a} SET n.k = null"), 1, 3),
        (all, "CREATE ({k: 1})".to_owned(), 2, 4),
        (all, format!("{a} CREATE (n)-[:KNOWS]->({{k: 1}})"), 2, 4),
        (all, format!("{a} DETACH DELETE n"), 2, 2),
        // By a key that nobody has written before.
        (by_key, format!("{a} CALL create.setProperty(n, 'fre' + 'sh', 5)"), 2, 5),
    ] {
        rows(&graph, &prepare(&graph, "MATCH (n) DETACH DELETE n"), Value::Null).unwrap();
        rows(&graph, &prepare(&graph, made), Value::Null).unwrap();
        assert_eq!(evaluated(&graph, read, &meanwhile), (times, Value::Integer(seen)), "{read}, {meanwhile}");
    }
    engine.shutdown().unwrap();
}

/// A pattern with a hub at one end is found from its other end. Whatever would change what it finds is in conflict nevertheless.
#[test]
fn who_comes_by_an_index_to_a_hub_is_in_conflict_with_what_changes_the_answer() {
    let engine = engine(2);
    let graph = engine.default_graph();
    let run = |text: &str| rows(&graph, &prepare(&graph, text), Value::Null).unwrap();
    run("CREATE INDEX FOR (n:M) ON (n.k)");
    let hub = "MATCH (h) WHERE id(h) = idFrom('hub')";
    let read = format!("{hub} MATCH (h)<-[:E]-(m:M {{k: 7}}) WITH count(m) AS seen");
    for (meanwhile, times, seen) in [
        ("CREATE (:Other {k: 9})".to_owned(), 1, 1),
        // Of the hub nothing was asked.
        (format!("{hub} CREATE (:M {{k: 9}})-[:E]->(h)"), 1, 1),
        (format!("{hub} CREATE (:M {{k: 7}})-[:E]->(h)"), 2, 2),
        (format!("{hub} MATCH (m:Apart) CREATE (m)-[:E]->(h)"), 2, 2),
        ("MATCH (m:M {k: 8}) SET m.k = 7".to_owned(), 2, 2),
        ("MATCH (:M {k: 7})-[e:E]->() DELETE e".to_owned(), 2, 0),
        ("MATCH (m:M {k: 7}) REMOVE m:M".to_owned(), 2, 0),
    ] {
        run("MATCH (n) DETACH DELETE n");
        run(&format!("{hub} UNWIND range(1, 200) AS i CREATE (:M {{k: i}})-[:E]->(h)"));
        run("CREATE (:M:Apart {k: 7})");
        assert_eq!(evaluated(&graph, &read, &meanwhile), (times, Value::Integer(seen)), "{meanwhile}");
    }
    engine.shutdown().unwrap();
}

/// What is known of what was read counts as held. Where there is no room for it, it may have been anything.
#[test]
fn what_was_read_is_known_as_long_as_there_is_room_for_it() {
    const NODES: i64 = 20_000;
    for (memory_bytes_max, times) in [(64 << 20, 1), (256 << 10, 2)] {
        let limits = QueryLimits { memory_bytes_max, ..QueryLimits::default() };
        let options = Options { workers: 1, limits, ..Options::default() };
        let engine = Engine::open(Arc::new(InMemory::default()), options).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let (label, key) = (graph.symbols().intern("MM"), graph.symbols().intern("k"));
        let mut mutations = Mutations::default();
        for n in 0..NODES {
            let node = NodeId::new(1, n as u64);
            mutations.set_label(node, label, true);
            mutations.set_property(node, key, &Value::Integer(1));
        }
        graph.apply(mutations, 1).unwrap();
        let summed = "MATCH (n:MM) WHERE n.k > 0 WITH sum(n.k) AS seen";
        let seen = evaluated(&graph, summed, "CREATE (:Other {k: 9})");
        assert_eq!(seen, (times, Value::Integer(NODES)), "{memory_bytes_max}");
        engine.shutdown().unwrap();
    }
}

#[test]
fn a_small_write_that_answers_much_runs_alone() {
    let engine = engine(1);
    let graph = engine.default_graph();
    let query = prepare(&graph, "CREATE (:Answer {size: size($that)}) RETURN $that");
    let write = |bytes: usize| {
        let (sender, receiver) = sync_channel(1);
        let done = Box::new(move |written| sender.send(written).unwrap());
        graph.write_together(Write { query: query.clone(), parameters: vec![Value::text(&"x".repeat(bytes))], done });
        receiver.recv().unwrap()
    };
    assert!(matches!(write(1000), Written::Done(rows) if rows.len() == 1));
    assert!(matches!(write(1 << 20), Written::RunAlone));
    assert_eq!(single(&graph, "MATCH (n:Answer) RETURN sum(n.size)"), Value::Integer(1000));
    assert_eq!(rows(&graph, &query, Value::text(&"x".repeat(1 << 20))).unwrap().len(), 1);
    engine.shutdown().unwrap();
}

#[test]
fn of_merges_that_race_one_creates() {
    let engine = engine(2);
    let graph = engine.default_graph();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let graph = graph.clone();
            scope.spawn(move || {
                let query = prepare(&graph, "MERGE (n:Person {name: $that}) RETURN id(n)");
                for name in ["Ada", "Grace", "Edith"] {
                    rows(&graph, &query, Value::text(name)).unwrap();
                }
            });
        }
    });
    assert_eq!(single(&graph, "MATCH (n:Person) RETURN count(n)"), Value::Integer(3));
    engine.shutdown().unwrap();
}

#[test]
fn a_client_reads_its_writes() {
    let engine = engine(3);
    let graph = engine.default_graph();
    let write = prepare(&graph, "MATCH (n) WHERE id(n) = idFrom($that) SET n.x = $that");
    let read = prepare(&graph, "MATCH (n) WHERE id(n) = idFrom($that) RETURN n.x");
    for n in 0..500 {
        rows(&graph, &write, Value::Integer(n)).unwrap();
        assert_eq!(rows(&graph, &read, Value::Integer(n)).unwrap(), [[Value::Integer(n)]]);
    }
    engine.shutdown().unwrap();
}

#[test]
fn a_failing_record_leaves_no_trace_and_the_others_go_on() {
    let engine = engine(1);
    let graph = engine.default_graph();
    let query = prepare(&graph, "MATCH (n) WHERE id(n) = idFrom($that.k) SET n.a = 1, n.b = 10 / $that.d");
    let record = |k: i64, d: i64| Value::map([("k".into(), Value::Integer(k)), ("d".into(), Value::Integer(d))]);
    let mut ingester = Ingester::new(graph.clone(), query);
    let position = Position(vec![7]);
    let done = ingester.ingest(&[record(1, 5), record(2, 0), record(3, 2)], Some(("file", position.clone()))).unwrap();
    assert_eq!(done.failures.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    assert_eq!(graph.position("file"), Some(position));
    graph.wait_visible().unwrap();
    assert_eq!(single(&graph, "MATCH (n) RETURN count(n)"), Value::Integer(2));
    assert_eq!(single(&graph, "MATCH (n) WHERE id(n) = idFrom(2) RETURN n.a"), Value::Null);
    engine.shutdown().unwrap();
}

/// They were counted like all others, and nobody was told that they changed nothing.
#[test]
fn records_of_which_an_anchor_names_no_node_are_counted() {
    let engine = engine(1);
    let graph = engine.default_graph();
    let records = [Value::Integer(1), Value::Null, Value::text("x")].map(|k| Value::map([("k".into(), k)]));
    let number = "MATCH (n) WHERE id(n) = idFrom('u', toInteger($that.k))";
    for (text, wanted) in [
        (format!("{number} SET n.x = 1"), 2),
        // One that reads is evaluated elsewhere, and again where others were faster.
        (format!("{number} SET n.x = coalesce(n.x, 0) + 1"), 2),
        ("MATCH (n) WHERE id(n) = toString($that.k) SET n.x = 1".to_owned(), 3),
        // Each counts once, however much of it is missing.
        (format!("UNWIND [1, 2] AS i {number} SET n.x = i"), 2),
        // It would be told of twice.
        (format!("WITH 1 / size([x IN [$that.k] WHERE x IS NOT NULL]) AS y {number} SET n.x = y"), 1),
        // An id that nobody has written is one.
        ("MATCH (n) WHERE id(n) = idFrom('never', $that.k IS NULL) SET n.x = 1".to_owned(), 0),
        // Where it is meant.
        ("MATCH (n) WHERE $that.k IS NOT NULL AND id(n) = idFrom($that.k) SET n.x = 1".to_owned(), 0),
        ("OPTIONAL MATCH (n) WHERE id(n) = idFrom($that.k) CREATE (:Seen {it: n IS NULL})".to_owned(), 0),
        ("CREATE (:Seen {count: COUNT { MATCH (n) WHERE id(n) = idFrom($that.k) }})".to_owned(), 0),
        // But behind it, whether it found something or not.
        (format!("OPTIONAL MATCH (o) WHERE id(o) = idFrom($that.none) WITH o {number} SET n.x = o IS NULL"), 2),
        (format!("OPTIONAL MATCH (o) WHERE id(o) = idFrom(7) WITH o {number} SET n.x = o IS NULL"), 2),
    ] {
        let query = prepare(&graph, &text);
        let unanchored = Ingester::new(graph.clone(), query.clone()).ingest(&records, None).unwrap().unanchored;
        assert_eq!(unanchored.records, wanted, "{text}");
        let anchor = unanchored.anchor.map(|anchor| expression_text(&query.plan, &anchor));
        if wanted == 2 {
            assert_eq!(anchor.as_deref(), Some("idFrom(\"u\", toInteger($that.k))"), "{text}");
        }
        assert!(wanted > 0 || anchor.is_none(), "{text}: {anchor:?}");
    }
    // It is told in the words of the query: which place in a row it was says nothing to whoever wrote it.
    for (text, told) in [
        ("UNWIND [[1], []] AS r MATCH (n) WHERE id(n) = idFrom('u', r[1]) SET n.x = 1", "idFrom(\"u\", r[1])"),
        ("MATCH (o) WHERE id(o) = idFrom(7) MATCH (n) WHERE id(n) = idFrom('u', o.none) SET n.x = 1", "idFrom(\"u\", o.none)"),
    ] {
        let query = prepare(&graph, text);
        let unanchored = Ingester::new(graph.clone(), query.clone()).ingest(&records, None).unwrap().unanchored;
        let anchor = unanchored.anchor.map(|anchor| expression_text(&query.plan, &anchor));
        assert_eq!((unanchored.records, anchor.as_deref()), (3, Some(told)), "{text}");
    }
    // What was missed on the way to a failure is told with that, and is not the anchor of those that count.
    let text = "CALL { MATCH (n) WHERE id(n) = idFrom('a', toInteger($that.a)) SET n.x = 1 RETURN count(*) AS c }
                MATCH (m) WHERE id(m) = idFrom('b', toInteger($that.b)) SET m.x = 1 / $that.c";
    let record = |[a, b, c]: [Value; 3]| Value::map([("a".into(), a), ("b".into(), b), ("c".into(), c)]);
    let (one, zero) = (Value::Integer(1), Value::Integer(0));
    let records = [[Value::Null, one.clone(), zero], [one.clone(), Value::Null, one]].map(record);
    let query = prepare(&graph, text);
    let ingested = Ingester::new(graph.clone(), query.clone()).ingest(&records, None).unwrap();
    let anchor = ingested.unanchored.anchor.map(|anchor| expression_text(&query.plan, &anchor));
    assert_eq!((ingested.failures.len(), ingested.unanchored.records), (1, 1));
    assert_eq!(anchor.as_deref(), Some("idFrom(\"b\", toInteger($that.b))"));
    engine.shutdown().unwrap();
}

#[test]
fn hundreds_of_graphs_come_and_go_apart() {
    let engine = engine(2);
    let mut took = Vec::new();
    for n in 0..200 {
        let began = Instant::now();
        let graph = engine.create_graph(&format!("graph{n}"), GraphOptions::default()).unwrap();
        rows(&graph, &prepare(&graph, "CREATE (:Only {n: $that})"), Value::Integer(n)).unwrap();
        took.push(began.elapsed());
    }
    assert!(matches!(engine.create_graph("graph7", GraphOptions::default()), Err(EngineError::GraphExists(_))));
    for n in 0..200 {
        let began = Instant::now();
        let graph = engine.graph(&format!("graph{n}")).unwrap();
        assert_eq!(single(&graph, "MATCH (n:Only) RETURN collect(n.n)"), Value::list(vec![Value::Integer(n)]));
        assert!(engine.drop_graph(&format!("graph{n}")).unwrap());
        took.push(began.elapsed());
    }
    assert_eq!(engine.graphs(), [weir_engine::DEFAULT_GRAPH]);
    // Milliseconds each; the bound is wide because tests share their machine, which may stand still for a few of them.
    took.sort_unstable();
    assert!(took[took.len() / 2] < Duration::from_millis(50), "{took:?}");
    assert!(took.iter().sum::<Duration>() < Duration::from_secs(60), "{took:?}");
    engine.shutdown().unwrap();
}

#[test]
fn parallel_edges_where_they_are_allowed() {
    let engine = engine(1);
    let plain = engine.default_graph();
    let parallel = engine.create_graph("parallel", GraphOptions { open_cypher: true }).unwrap();
    for (graph, wanted) in [(&plain, 1), (&parallel, 2)] {
        let create = "MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') CREATE (a)-[:knows {since: $that}]->(b)";
        let create = prepare(graph, create);
        rows(graph, &create, Value::Integer(1)).unwrap();
        rows(graph, &create, Value::Integer(2)).unwrap();
        assert_eq!(single(graph, "MATCH ()-[r:knows]->() RETURN count(r)"), Value::Integer(wanted));
        let newest = single(graph, "MATCH ()-[r:knows]->() RETURN max(r.since)");
        assert_eq!(newest, Value::Integer(2));
        for kinds in ["", ":knows", ":knows|knows"] {
            let between = format!(
                "MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') MATCH (a)-[r{kinds}]->(b) RETURN count(r)"
            );
            assert_eq!(single(graph, &between), Value::Integer(wanted), "{kinds}");
        }
    }
    engine.shutdown().unwrap();
}

#[test]
fn an_edge_costs_the_same_however_many_its_node_has() {
    const EDGES: i64 = 60_000;
    let engine = engine(1);
    let graph = engine.create_graph("parallel", GraphOptions { open_cypher: true }).unwrap();
    let began = Instant::now();
    let write = |text: &str| rows(&graph, &prepare(&graph, text), Value::Integer(EDGES)).unwrap();
    // Of two types, and to each node one more beside it; a part comes, and goes, in later batches.
    write("CREATE (:Hub {id: 0}) WITH 1 AS one UNWIND range(1, $that) AS n CREATE ({n: n})");
    let spokes = "MATCH (hub:Hub), (far) WHERE far.n IS NOT NULL";
    write(&format!("{spokes} CREATE (hub)-[:pays {{amount: far.n, note: 'n'}}]->(far) CREATE (hub)-[:knows]->(far)"));
    write(&format!("{spokes} AND far.n % 3 = 0 CREATE (hub)-[:pays {{amount: 1}}]->(far)"));
    write(&format!("{spokes} AND far.n % 5 = 0 MATCH (hub)-[r:knows]->(far) DELETE r"));
    write("MATCH (:Hub)-[r:pays]->(far) WHERE far.n % 4 = 0 SET r.amount = 2");
    let sum = "MATCH (:Hub)-[r:pays]->() RETURN sum(r.amount)";
    let of = |n: i64| if n % 4 == 0 { 2 } else { n } + if n % 12 == 0 { 2 } else { i64::from(n % 3 == 0) };
    assert_eq!(single(&graph, sum), Value::Integer((1..=EDGES).map(of).sum()));
    let whole = "MATCH (:Hub)-[r:pays]->() RETURN sum(size(keys(r)))";
    assert_eq!(single(&graph, whole), Value::Integer(2 * EDGES + EDGES / 3));
    let between = format!("{spokes} MATCH (hub)-[r]-(far) RETURN count(r)");
    assert_eq!(single(&graph, &between), Value::Integer(EDGES + EDGES / 3 + EDGES - EDGES / 5));
    graph.hash_code(None).unwrap();
    write("MATCH (:Hub)-[r:pays]->() DELETE r");
    assert_eq!(single(&graph, &between), Value::Integer(EDGES - EDGES / 5));
    // Were all of them looked at for each, it would take minutes.
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    engine.shutdown().unwrap();
}
