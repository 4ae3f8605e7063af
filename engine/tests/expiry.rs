//! Expiry: what ends, ends when its time has come, never before, and whatever happens to the process meanwhile.
//!
//! The oracle reads the log: every commit that the test did not make must be the end of something that was due at its
//! tick, as a naive model of the rules says, and at no tick may anything be long overdue. The model replayed is the graph.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Random, ad_hoc, collect, compile, install, node};
use weir_cypher_compiler::{Options as CompileOptions, StandingMode};
use weir_engine::commit::wall_clock_millis;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{Entry, InMemory, RocksDb, RocksDbOptions, Store};
use weir_engine::view::{Direction, EdgeRef, View};
use weir_engine::{Engine, EngineError, Graph, Ingester, Options, QueryOptions, Start};
use weir_model::mutation::Kind;
use weir_model::temporal::DateTime;
use weir_model::{Mutations, NodeId, Symbol, Tick, Value, codec};

const NODES: u64 = 10;

/// Far more than is promised: the machine that runs the tests has other things to do, and may stand still for a while.
const LATE_MAX: u64 = 30_000;

/// As `LATE_MAX`, for most of what ends.
const MOSTLY_LATE_MAX: u64 = 3_000;

const RULES: &[&str] = &[
    "CREATE EXPIRY FOR (n:A) ON n.until",
    "CREATE EXPIRY b FOR (n:B) ON n.seen AFTER duration('PT0.04S')",
    "CREATE EXPIRY FOR (n:A) ON n.fresh REMOVE n.x",
    "CREATE EXPIRY FOR ()-[r:r]-() ON r.until",
    "CREATE EXPIRY FOR ()-[e:s]->() ON e.at AFTER duration('PT0.02S') REMOVE e.w",
];

fn query(graph: &Graph, text: &str) -> Result<Vec<Vec<Value>>, EngineError> {
    let mut rows = Vec::new();
    graph.query(&graph.prepare(ad_hoc(text)), &[], QueryOptions::default(), &mut |row| {
        rows.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn run(graph: &Graph, text: &str) -> Vec<Vec<Value>> {
    query(graph, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Waits until the answer of a query is this number.
fn await_count(graph: &Graph, text: &str, count: i64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while run(graph, text) != [[Value::Integer(count)]] {
        assert!(Instant::now() < deadline, "{text} is {:?} and not {count}", run(graph, text));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The rules, as the model reads them: when something ends, and how.
struct Naive {
    a: Symbol,
    b: Symbol,
    r: Symbol,
    s: Symbol,
    until: Symbol,
    seen: Symbol,
    fresh: Symbol,
    x: Symbol,
    at: Symbol,
    w: Symbol,
}

impl Naive {
    fn new(graph: &Graph) -> Naive {
        let [a, b, r, s, until, seen, fresh, x, at, w] =
            ["A", "B", "r", "s", "until", "seen", "fresh", "x", "at", "w"].map(|name| graph.symbols().intern(name));
        Naive { a, b, r, s, until, seen, fresh, x, at, w }
    }

    fn millis(value: &Value) -> Option<u64> {
        match value {
            Value::Integer(millis) => Some(*millis as u64),
            Value::DateTime(at) => Some((at.epoch_second * 1000) as u64 + (at.nano as u64).div_ceil(1_000_000)),
            _ => None,
        }
    }

    /// What has an end: the time, and the changes it brings.
    fn ends(&self, graph: &ReferenceGraph) -> Vec<(u64, Mutations)> {
        let mut ends = Vec::new();
        for node in (0..NODES).map(node) {
            let mut whole = |due: Option<u64>| {
                if let Some(due) = due {
                    let mut removal = Mutations::default();
                    graph.edges(node, Direction::Both, &[], &mut |half| {
                        let (source, target) = if half.outgoing { (node, half.other) } else { (half.other, node) };
                        self.remove_edge(EdgeRef { source, kind: half.kind, target, ordinal: 0 }, &mut removal);
                    });
                    removal.clear_properties(node);
                    [self.a, self.b].into_iter().for_each(|label| removal.set_label(node, label, false));
                    ends.push((due, removal));
                }
            };
            if graph.has_label(node, self.a) {
                whole(Naive::millis(&graph.property(node, self.until)));
            }
            if graph.has_label(node, self.b) {
                whole(Naive::millis(&graph.property(node, self.seen)).map(|seen| seen + 40));
            }
            if graph.has_label(node, self.a)
                && !graph.property(node, self.x).is_null()
                && let Some(due) = Naive::millis(&graph.property(node, self.fresh))
            {
                let mut removal = Mutations::default();
                removal.set_property(node, self.x, &Value::Null);
                ends.push((due, removal));
            }
            graph.edges(node, Direction::Outgoing, &[], &mut |half| {
                let edge = EdgeRef { source: node, kind: half.kind, target: half.other, ordinal: 0 };
                let mut removal = Mutations::default();
                if half.kind == self.r
                    && let Some(due) = Naive::millis(&graph.edge_property(edge, self.until))
                {
                    self.remove_edge(edge, &mut removal);
                    ends.push((due, removal));
                } else if half.kind == self.s
                    && !graph.edge_property(edge, self.w).is_null()
                    && let Some(at) = Naive::millis(&graph.edge_property(edge, self.at))
                {
                    removal.set_edge_property(node, half.kind, half.other, 0, self.w, &Value::Null);
                    ends.push((at + 20, removal));
                }
            });
        }
        ends
    }

    fn remove_edge(&self, edge: EdgeRef, out: &mut Mutations) {
        for key in [self.until, self.at, self.w] {
            out.set_edge_property(edge.source, edge.kind, edge.target, 0, key, &Value::Null);
        }
        out.set_edge(edge.source, edge.kind, edge.target, 0, false);
    }

    fn random(&self, random: &mut Random, out: &mut Mutations) {
        let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
        let time = |random: &mut Random| {
            let millis = wall_clock_millis() + random.below(160) - 20;
            match random.below(8) {
                0 => Value::Null,
                1 => Value::text("soon"),
                2 => Value::Integer(millis as i64 + 1_000_000),
                3 | 4 => {
                    let nano = random.below(1_000_000) as i32 + (millis % 1000) as i32 * 1_000_000;
                    Value::DateTime(Arc::new(DateTime::utc((millis / 1000) as i64, nano)))
                }
                _ => Value::Integer(millis as i64),
            }
        };
        match random.below(12) {
            0 | 1 => out.set_label(source, self.a, random.below(4) > 0),
            2 => out.set_label(source, self.b, random.below(4) > 0),
            3 | 4 => out.set_property(source, self.until, &time(random)),
            5 => out.set_property(source, self.seen, &time(random)),
            6 => out.set_property(source, self.fresh, &time(random)),
            7 => out.set_property(source, self.x, &Value::Integer(random.below(5) as i64)),
            8 => self.remove_edge(EdgeRef { source, kind: self.r, target, ordinal: 0 }, out),
            9 => {
                out.set_edge(source, self.s, target, 0, true);
                out.set_edge_property(source, self.s, target, 0, self.at, &time(random));
                out.set_edge_property(source, self.s, target, 0, self.w, &Value::Float(0.5));
            }
            _ => {
                out.set_edge(source, self.r, target, 0, true);
                out.set_edge_property(source, self.r, target, 0, self.until, &time(random));
            }
        }
    }
}

fn dump(view: &dyn View) -> String {
    let mut out = String::new();
    for node in (0..NODES).map(node) {
        let mut facts = Vec::new();
        view.labels(node, &mut |label| facts.push(format!("{label:?}")));
        view.properties(node, &mut |key, value| facts.push(format!("{key:?} = {value:?}")));
        view.edges(node, Direction::Both, &[], &mut |half| facts.push(format!("{half:?}")));
        view.edges(node, Direction::Outgoing, &[], &mut |half| {
            let edge = EdgeRef { source: node, kind: half.kind, target: half.other, ordinal: half.ordinal };
            view.edge_properties(edge, &mut |key, value| facts.push(format!("{edge:?} {key:?} = {value:?}")));
        });
        facts.sort();
        writeln!(out, "{node}: {facts:?}").unwrap();
    }
    out
}

fn open(store: Arc<dyn Store>, workers: usize) -> (Engine, Graph) {
    let engine = Engine::open(store, Options { workers, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    (engine, graph)
}

/// The changes of each record of an entry.
fn records(entry: &Entry) -> Vec<(Tick, Mutations)> {
    let mut records: BTreeMap<u32, Mutations> = BTreeMap::new();
    for row in &entry.mutations.rows {
        let record = records.entry(row.record()).or_insert_with(|| {
            let mut record = Mutations::default();
            record.arena.clone_from(&entry.mutations.arena);
            record
        });
        record.rows.push(*row);
    }
    records.into_iter().map(|(record, mutations)| (Tick(entry.first.0 + u64::from(record)), mutations)).collect()
}

fn campaign(seed: u64, workers: usize) {
    let directory = tempfile::tempdir().unwrap();
    let store = || -> Arc<dyn Store> { Arc::new(RocksDb::open(RocksDbOptions::new(directory.path())).unwrap()) };
    let mut random = Random(seed | 1);
    let (mut own, mut closed, mut ended) = (BTreeMap::new(), Vec::new(), 0);
    let mut late: Vec<u64> = Vec::new();
    for round in 0..3 {
        let kept = store();
        let (engine, graph) = open(kept.clone(), workers);
        closed.push((wall_clock_millis(), graph.next()));
        if round == 0 {
            RULES.iter().for_each(|rule| drop(run(&graph, rule)));
        }
        let naive = Naive::new(&graph);
        for _ in 0..80 {
            let mut record = Mutations::default();
            (0..=random.below(3)).for_each(|_| naive.random(&mut random, &mut record));
            let upper = graph.apply(record.clone(), 1).unwrap();
            own.insert(Tick(upper.0 - 1), record);
            if random.below(3) == 0 {
                std::thread::sleep(Duration::from_millis(random.below(12)));
            }
        }
        if round == 2 {
            // Whatever ends soon has ended.
            std::thread::sleep(Duration::from_millis(300));
            let deadline = Instant::now() + Duration::from_millis(LATE_MAX);
            let overdue = |graph: &Graph| {
                let mut now = ReferenceGraph::new();
                let mut entries = Vec::new();
                graph.wait_durable(graph.next()).unwrap();
                read(&*kept, graph, &mut entries);
                entries.iter().flat_map(records).for_each(|(_, record)| now.apply_all(&record));
                naive.ends(&now).into_iter().any(|(due, _)| due < wall_clock_millis())
            };
            while overdue(&graph) {
                assert!(Instant::now() < deadline, "seed {seed}: what is due does not end");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if random.below(2) == 0 {
            engine.shutdown().unwrap();
        } else {
            graph.wait_durable(graph.next()).unwrap();
        }
        drop((graph, engine));
        // A thread that was at work lets go of the store a moment later.
        while Arc::strong_count(&kept) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    let kept = store();
    let (engine, graph) = open(kept.clone(), workers);
    let naive = Naive::new(&graph);
    let mut model = ReferenceGraph::new();
    let mut entries = Vec::new();
    read(&*kept, &graph, &mut entries);
    for (tick, record) in entries.iter().flat_map(records) {
        let now = tick.millis();
        // While weir was down nothing could end.
        let up_since = closed.iter().filter(|(_, from)| *from <= tick).map(|(since, _)| *since).max().unwrap_or(0);
        for (due, _) in naive.ends(&model) {
            assert!(now < due.max(up_since) + LATE_MAX, "seed {seed}: overdue for {} ms at {now}", now - due);
        }
        if let Some(expected) = own.remove(&tick) {
            assert_eq!(record.rows.len(), expected.rows.len());
            model.apply_all(&record);
            continue;
        }
        ended += 1;
        let mut after = model.clone();
        after.apply_all(&record);
        let after = dump(&after);
        let legal = naive.ends(&model).into_iter().any(|(due, removal)| {
            let mut ended = model.clone();
            ended.apply_all(&removal);
            let is_it = due <= now && dump(&ended) == after;
            late.extend(is_it.then(|| now.saturating_sub(due.max(up_since))));
            is_it
        });
        let ends: Vec<u64> = naive.ends(&model).into_iter().map(|(due, _)| due).collect();
        assert!(
            legal,
            "seed {seed}: at {now} this ended, of what ends at {ends:?}:\n{:?}\n{}\n{after}",
            record.rows,
            dump(&model)
        );
        model.apply_all(&record);
    }
    assert!(own.is_empty(), "seed {seed}: {} changes are missing", own.len());
    assert!(ended > 20, "seed {seed}: only {ended} ended");
    late.sort_unstable();
    assert!(late[(late.len() - 1) * 9 / 10] < MOSTLY_LATE_MAX, "seed {seed}: late by {late:?} ms");
    assert_eq!(dump(&graph.snapshot()), dump(&model), "seed {seed}");
    drop((graph, engine));
}

fn read(store: &dyn Store, graph: &Graph, entries: &mut Vec<Entry>) {
    store
        .read_log(graph.id(), Tick::ZERO, &mut |entry| {
            entries.push(entry);
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_ends_is_due_and_what_is_due_ends() {
    let seeds: Vec<u64> = (1..7).collect();
    std::thread::scope(|scope| {
        for part in seeds.chunks(3) {
            scope.spawn(move || part.iter().for_each(|seed| campaign(seed * 7919, [1, 2, 4][(*seed % 3) as usize])));
        }
    });
}

#[test]
fn standing_queries_cancel_and_the_past_remembers() {
    let (engine, graph) = open(Arc::new(InMemory::new()), 2);
    let plan = compile(StandingMode::MultipleValues, "MATCH (n:S)-[:r]->(m) RETURN id(n) AS n, m.name AS name");
    let standing = &install(&engine, &[plan], Start::Now, &[])[0];
    run(&graph, "CREATE EXPIRY FOR (n:S) ON n.seen AFTER duration('PT0.3S')");
    let mut lives = 0;
    let began = loop {
        lives += 1;
        let began = wall_clock_millis();
        run(
            &graph,
            &format!(
                "MATCH (n), (m) WHERE id(n) = idFrom(1) AND id(m) = idFrom(2) CREATE (n)-[:r]->(m) SET n:S, n.seen = {began}, m.name = 'm'"
            ),
        );
        // It is seen again, and lives on.
        std::thread::sleep(Duration::from_millis(100));
        if !run(&graph, &format!("MATCH (n:S) SET n.seen = {} RETURN id(n)", began + 200)).is_empty() {
            break began;
        }
        // Where the machine stood still meanwhile it had ended by then, in its time.
        assert!(wall_clock_millis() >= began + 300, "it ended before its time");
        assert!(lives < 100, "it is never seen again in time");
    };
    await_count(&graph, "MATCH (n:S) RETURN count(n)", 0);
    let found = collect(standing, graph.next());
    let last = found.last_key_value().unwrap();
    assert_eq!(found.len(), 2 * lives, "{found:?}");
    for (rows, count) in found.values().zip([1, -1].into_iter().cycle()) {
        assert_eq!(rows.values().copied().collect::<Vec<i64>>(), [count], "{found:?}");
    }
    assert!(last.0.millis() >= began + 500, "it ended {} ms early", began + 500 - last.0.millis());
    let before = graph.at(Tick::end_of_millis(last.0.millis() - 1)).unwrap();
    let label = graph.symbols().intern("S");
    let mut there = 0;
    before.view().labelled(label, &mut |_| {
        there += 1;
        true
    });
    assert_eq!(there, 1, "the past has it");
    assert_eq!(run(&graph, "MATCH (m) RETURN m.name"), [[Value::text("m")]], "the other end stays");
}

/// For fewer rules the graph is not looked through.
#[test]
fn a_rule_that_is_dropped_leaves_the_others_online() {
    let (engine, graph) = open(Arc::new(InMemory::new()), 1);
    run(&graph, "CREATE EXPIRY prices FOR (n:Price) ON n.until");
    run(&graph, "CREATE EXPIRY offers FOR (n:Offer) ON n.until");
    let are_online = || run(&graph, "SHOW EXPIRIES").iter().all(|row| row[1] == Value::text("ONLINE"));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !are_online() {
        assert!(Instant::now() < deadline, "{:?}", run(&graph, "SHOW EXPIRIES"));
        std::thread::sleep(Duration::from_millis(2));
    }
    run(&graph, "DROP EXPIRY prices");
    assert!(are_online(), "{:?}", run(&graph, "SHOW EXPIRIES"));
    drop(engine);
}

/// More than the queue holds, all at once, and a client that goes on writing.
#[test]
fn many_at_once_end_in_slices() {
    const COUNT: u64 = 600_000;
    let (engine, graph) = open(Arc::new(InMemory::new()), 2);
    let (label, until) = (graph.symbols().intern("T"), graph.symbols().intern("until"));
    let due = wall_clock_millis() + 6_000;
    for part in (0..COUNT).collect::<Vec<_>>().chunks(20_000) {
        let mut batch = Mutations::default();
        for n in part {
            let id = NodeId::spread(*n);
            batch.set_label(id, label, true);
            batch.set_property(id, until, &Value::Integer(due as i64 + (*n % 100) as i64));
        }
        graph.apply(batch, 1).unwrap();
    }
    run(&graph, "CREATE EXPIRY t FOR (n:T) ON n.until");
    let (mut slowest, since) = (Duration::ZERO, wall_clock_millis().max(due));
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let began = Instant::now();
        run(&graph, "MATCH (n) WHERE id(n) = idFrom('other') SET n.x = 1");
        slowest = slowest.max(began.elapsed());
        let left = run(&graph, "MATCH (n:T) RETURN count(n)");
        if wall_clock_millis() < due {
            assert_eq!(left, [[Value::Integer(COUNT as i64)]], "some ended early");
        }
        if left == [[Value::Integer(0)]] {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} are left");
        std::thread::sleep(Duration::from_millis(10));
    }
    println!(
        "the last of {COUNT} ended {} ms after it was due; the slowest write took {slowest:?}",
        wall_clock_millis() - due - 99
    );
    // One that waited for all of them would take about as long as they do, however slow the machine is.
    let all = Duration::from_millis(wall_clock_millis().saturating_sub(since));
    assert!(slowest < Duration::from_secs(2).max(all / 2), "a write took {slowest:?}, all of it {all:?}");
    drop(engine);
}

/// A stream of sessions, as fast as it goes or as many a second as `WEIR_EXPIRY_RATE` says, each of which ends half a second
/// later.
#[test]
fn lateness_under_load() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seconds, rate) = (given("WEIR_EXPIRY_SECONDS").unwrap_or(2), given("WEIR_EXPIRY_RATE"));
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(RocksDb::open(RocksDbOptions::new(directory.path())).unwrap());
    let (engine, graph) = open(store.clone(), 2);
    run(&graph, "CREATE EXPIRY FOR (n:T) ON n.seen AFTER duration('PT0.5S')");
    // An output that takes nothing keeps everything in the log.
    let plan = compile(StandingMode::MultipleValues, "MATCH (n:Never) RETURN n.x AS x");
    let _held = install(&engine, &[plan], Start::Now, &["never"]);
    let seen = graph.symbols().intern("seen");
    let text = "MATCH (n) WHERE id(n) = idFrom($that[0]) SET n:T, n.seen = $that[1], n.x = $that[0]";
    let options = CompileOptions { parameters: vec!["that".into()], ..CompileOptions::default() };
    let query = graph.prepare(weir_cypher_compiler::compile(text, &options).unwrap());
    let (began, mut records) = (Instant::now(), 0i64);
    let mut ingester = Ingester::new(graph.clone(), query);
    while began.elapsed() < Duration::from_secs(seconds) {
        let record = |n| Value::list(vec![Value::Integer(n), Value::Integer(wall_clock_millis() as i64)]);
        let batch: Vec<Value> = (records..records + 1000).map(record).collect();
        assert!(ingester.ingest(&batch, None).unwrap().failures.is_empty());
        records += 1000;
        let due = rate.map_or(began, |rate| began + Duration::from_secs_f64(records as f64 / rate as f64));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let took = began.elapsed();
    await_count(&graph, "MATCH (n:T) RETURN count(n)", 0);
    graph.wait_durable(graph.next()).unwrap();
    let (mut due, mut late) = (rustc_hash::FxHashMap::default(), Vec::new());
    let mut entries = Vec::new();
    read(&*store, &graph, &mut entries);
    for entry in &entries {
        for row in entry.mutations.rows.iter() {
            if row.tag.symbol() == seen && !row.removes() {
                let set = Tick(entry.first.0 + u64::from(row.record())).millis();
                let Value::Integer(seen) = codec::decode_payload(row.payload, &entry.mutations.arena) else { panic!("{row:?}") };
                // Not before it was committed: a batch that waited brings times that have passed.
                due.insert(row.node, (seen as u64 + 500).max(set));
            } else if row.tag.kind() == Kind::Label && row.removes() {
                let due = due.remove(&row.node).unwrap();
                let now = Tick(entry.first.0 + u64::from(row.record())).millis();
                late.push(now.checked_sub(due).expect("nothing ends early"));
            }
        }
    }
    assert_eq!((late.len() as i64, due.len()), (records, 0));
    late.sort_unstable();
    let at = |part: f64| late[((late.len() - 1) as f64 * part) as usize];
    println!(
        "{:.0} sessions/s for {took:?}: late by {} ms at the median, {} at 99 %, {} at most",
        records as f64 / took.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    assert!(at(0.9) < MOSTLY_LATE_MAX && at(1.0) < LATE_MAX, "late by {} ms at 90 %, {} at most", at(0.9), at(1.0));
    drop(engine);
}

#[test]
fn rules_are_made_shown_and_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let store = || -> Arc<dyn Store> { Arc::new(RocksDb::open(RocksDbOptions::new(directory.path())).unwrap()) };
    let (engine, graph) = open(store(), 1);
    run(&graph, "CREATE EXPIRY IF NOT EXISTS FOR (n:S) ON n.until");
    run(&graph, "CREATE EXPIRY IF NOT EXISTS FOR (n:S) ON n.until");
    let again = query(&graph, "CREATE EXPIRY other FOR (n:S) ON n.until").unwrap_err().to_string();
    assert_eq!(again, "there is a rule for this already, or one of this name: expiry_S_until");
    let absent = query(&graph, "DROP EXPIRY other").unwrap_err().to_string();
    assert_eq!(absent, "there is no expiry rule named 'other'; SHOW EXPIRIES lists those there are");
    run(&graph, "CREATE EXPIRY seen FOR ()-[r:SEEN]-() ON r.at AFTER duration('PT1H') REMOVE r.w");
    engine.shutdown().unwrap();
    drop((graph, engine));
    let (engine, graph) = open(store(), 1);
    let shown = run(&graph, "SHOW EXPIRIES");
    let names: Vec<String> =
        shown.iter().map(|row| row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    run(&graph, "DROP EXPIRY expiry_S_until");
    run(&graph, "DROP EXPIRY expiry_S_until IF EXISTS");
    run(&graph, "CREATE (:S {until: 1})");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(run(&graph, "MATCH (n:S) RETURN count(n)"), [[Value::Integer(1)]], "no rule ends it");
    run(&graph, "CREATE EXPIRY FOR (n:S) ON n.until");
    await_count(&graph, "MATCH (n:S) RETURN count(n)", 0);
    let other = engine.create_graph("other", Default::default()).unwrap();
    run(&other, "CREATE (:S {until: 1})");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(run(&other, "MATCH (n:S) RETURN count(n)"), [[Value::Integer(1)]], "a rule is of one graph");
}
