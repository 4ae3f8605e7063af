//! History: the graph as of any tick, read back, is what it was, whatever checkpoints, merges and restarts came between.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{NODES, Random, concatenate, node, random_records, share_symbols};
use weir_engine::history::Changed;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{InMemory, Store};
use weir_engine::view::{Direction, EdgeRef, View};
use weir_engine::{Engine, EngineError, Graph, Moment, Options, Retention, checkpoint};
use weir_model::{Mutations, NodeId, Symbol, Tick, Value};

/// Everything a view answers, in a form that can be compared.
fn dump(view: &dyn View, symbols: u32) -> String {
    let mut nodes = Vec::new();
    view.nodes(&mut |id| {
        nodes.push(id);
        true
    });
    assert!(nodes.is_sorted());
    let mut out = String::new();
    for id in nodes {
        let mut facts = BTreeSet::new();
        view.labels(id, &mut |label| {
            facts.insert(format!("label {label:?}"));
        });
        view.properties(id, &mut |key, value| {
            assert_eq!(view.property(id, key), value);
            facts.insert(format!("{key:?} = {value:?}"));
        });
        for direction in [Direction::Outgoing, Direction::Incoming] {
            let mut halves = Vec::new();
            view.edges(id, direction, &[], &mut |half| halves.push(half));
            let mut by_kind = Vec::new();
            for kind in 0..symbols {
                view.edges(id, direction, &[Symbol(kind)], &mut |half| by_kind.push(half));
            }
            halves.sort();
            by_kind.sort();
            assert_eq!(halves, by_kind);
            for half in halves {
                let (source, target) = if half.outgoing { (id, half.other) } else { (half.other, id) };
                let edge = EdgeRef { source, kind: half.kind, target, ordinal: half.ordinal };
                assert!(view.has_edge(edge));
                let mut properties = BTreeSet::new();
                view.edge_properties(edge, &mut |key, value| {
                    assert_eq!(view.edge_property(edge, key), value);
                    properties.insert(format!("{key:?} = {value:?}"));
                });
                facts.insert(format!("{half:?} {properties:?}"));
            }
        }
        writeln!(out, "{id:?}: {facts:?}").unwrap();
    }
    for label in 0..symbols {
        let mut with = Vec::new();
        view.labelled(Symbol(label), &mut |id| {
            assert!(view.has_label(id, Symbol(label)));
            with.push(id);
            true
        });
        writeln!(out, "{label}: {with:?}").unwrap();
    }
    out
}

fn look(graph: &Graph, at: Tick) -> String {
    let moment = graph.at(at).unwrap();
    let found = dump(moment.view(), graph.symbols().len() as u32);
    assert!(moment.failure().is_none());
    found
}

/// Equal, or the first lines that differ.
fn same(found: &str, expected: &str, place: std::fmt::Arguments<'_>) {
    let mut lines = found.lines().zip(expected.lines());
    if let Some((found, expected)) = lines.find(|(found, expected)| found != expected) {
        panic!("{place}\n   found {found}\nexpected {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{place}");
}

/// Merges until there is nothing to merge.
fn merge(graph: &Graph) {
    while graph.history().tend(&AtomicBool::new(false)).unwrap() {}
}

/// What the graph was after each record, with its tick.
type Lived = Vec<(Tick, String)>;

/// Applies some records and notes what the graph is after each.
fn live(graph: &Graph, records: &[Mutations], reference: &mut ReferenceGraph, lived: &mut Lived) {
    let upper = graph.apply(concatenate(records), records.len()).unwrap();
    graph.wait_visible().unwrap();
    for (number, record) in (0..).zip(records) {
        reference.apply_all(record);
        let tick = Tick(upper.0 - records.len() as u64 + number);
        lived.push((tick, dump(reference, graph.symbols().len() as u32)));
    }
}

fn run(seed: u64, workers: usize, restarts: bool, open: &dyn Fn() -> Arc<dyn Store>) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let mut records = random_records(seed, 300, &scratch.default_graph());
    add_edge_properties(seed, &mut records, &scratch.default_graph());
    let mut random = Random(seed ^ 0x1234);
    let (mut reference, mut lived) = (ReferenceGraph::default(), Lived::new());
    let start = || {
        let engine = Engine::open(open(), Options { workers, ..Options::default() }).unwrap();
        share_symbols(&scratch.default_graph(), &engine.default_graph());
        engine.start().unwrap();
        engine
    };
    let mut engine = start();
    while lived.len() < records.len() {
        let graph = engine.default_graph();
        let count = (1 + random.below(9) as usize).min(records.len() - lived.len());
        live(&graph, &records[lived.len()..lived.len() + count], &mut reference, &mut lived);
        match random.below(12) {
            0..=3 => checkpoint::make(&graph, graph.durable()).unwrap(),
            4 => merge(&graph),
            5 | 6 if restarts => {
                graph.wait_durable(graph.next()).unwrap();
                drop((graph, engine));
                engine = start();
            }
            _ => {}
        }
        let graph = engine.default_graph();
        for _ in 0..3 {
            let (tick, expected) = &lived[random.below(lived.len() as u64) as usize];
            let place = format_args!("seed {seed}, {workers} workers, {tick} of {} records", lived.len());
            same(&look(&graph, *tick), expected, place);
        }
    }
    let graph = engine.default_graph();
    for round in 0..2 {
        for (tick, expected) in &lived {
            let place = format_args!("seed {seed}, {workers} workers, at the end, round {round}, {tick}");
            same(&look(&graph, *tick), expected, place);
        }
        let before = Tick(lived[0].0.0 - 1);
        assert_eq!(look(&graph, before), dump(&ReferenceGraph::default(), graph.symbols().len() as u32));
        checkpoint::make(&graph, graph.durable()).unwrap();
        merge(&graph);
    }
    changes_lead_to_each_state(&graph, &lived, &records);
    engine.shutdown().unwrap();
}

/// Edges of the random records get properties, and some parallel ones come and go.
fn add_edge_properties(seed: u64, records: &mut [Mutations], graph: &Graph) {
    let symbol = |name: &str| graph.symbols().intern(name);
    let mut random = Random(seed ^ 0x777);
    for record in records {
        if random.below(4) > 0 {
            continue;
        }
        let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
        let ordinal = random.below(3) as u32;
        let (there, value) = (random.below(3) > 0, random.below(4));
        let value = if value == 0 { Value::Null } else { Value::Integer(value as i64) };
        record.set_edge(source, symbol("r"), target, ordinal, there);
        record.set_edge_property(source, symbol("r"), target, ordinal, symbol("x"), &value);
    }
}

/// The changes of a node, put together, are what it was at the end; and none of them says nothing.
fn changes_lead_to_each_state(graph: &Graph, lived: &Lived, records: &[Mutations]) {
    assert_eq!(lived.len(), records.len());
    // One more, so that the last record is of the past.
    let mut last = Mutations::default();
    last.set_property(NodeId::new(1, 1), graph.symbols().intern("x"), &Value::Integer(1));
    graph.apply(last, 1).unwrap();
    graph.wait_visible().unwrap();
    let Moment::Past(past) = graph.at(lived[lived.len() - 1].0).unwrap() else { panic!("something came after") };
    for n in 0..NODES {
        let (mut labels, mut properties) = (BTreeSet::new(), std::collections::BTreeMap::new());
        let mut tick = Tick::ZERO;
        for change in past.changes(node(n)) {
            assert!(change.tick >= tick);
            tick = change.tick;
            match change.what {
                Changed::Label { label, there: true } => assert!(labels.insert(label)),
                Changed::Label { label, there: false } => assert!(labels.remove(&label)),
                Changed::Property { key, before, after } => {
                    let known = if after.is_null() { properties.remove(&key) } else { properties.insert(key, after) };
                    assert_eq!(known.unwrap_or_default(), before);
                }
                Changed::Edge { .. } | Changed::EdgeProperty { .. } => {}
            }
        }
        let mut found = BTreeSet::new();
        past.labels(node(n), &mut |label| {
            found.insert(label);
        });
        assert_eq!(labels, found);
        let mut found = std::collections::BTreeMap::new();
        past.properties(node(n), &mut |key, value| drop(found.insert(key, value)));
        assert_eq!(properties, found);
    }
}

#[test]
fn every_moment_reads_as_it_was_in_memory() {
    for (seed, workers) in [(5, 1), (88172645463325252, 2), (77, 4)] {
        run(seed, workers, false, &|| Arc::new(InMemory::default()));
    }
}

#[cfg(feature = "rocks-db")]
#[test]
fn every_moment_reads_as_it_was_in_rocks_db() {
    for (seed, workers) in [(6, 1), (2685821657736338717, 2), (78, 4)] {
        let directory = tempfile::tempdir().unwrap();
        run(seed, workers, true, &|| Arc::new(rocks_db(directory.path())));
    }
}

/// An engine that just ends may be let go by a thread of its own, a moment later.
#[cfg(feature = "rocks-db")]
fn rocks_db(path: &std::path::Path) -> weir_engine::store::RocksDb {
    let begun = std::time::Instant::now();
    loop {
        match weir_engine::store::RocksDb::open(weir_engine::store::RocksDbOptions::new(path)) {
            Ok(store) => return store,
            Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn in_memory(retention: Retention) -> Engine {
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 2, retention, ..Options::default() }).unwrap();
    engine.start().unwrap();
    engine
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Sets a property of a node; nothing else happens in the same millisecond.
fn set(graph: &Graph, n: u64, value: i64) -> Tick {
    let mut mutations = Mutations::default();
    mutations.set_property(node(n), graph.symbols().intern("x"), &Value::Integer(value));
    let upper = graph.apply(mutations, 1).unwrap();
    graph.wait_visible().unwrap();
    while now() <= upper.millis() {
        std::thread::sleep(Duration::from_micros(100));
    }
    upper
}

/// The value at the end of a millisecond.
fn value(graph: &Graph, n: u64, millis: u64) -> Value {
    let moment = graph.at(Tick::end_of_millis(millis)).unwrap();
    moment.view().property(node(n), graph.symbols().intern("x"))
}

#[test]
fn a_moment_is_exact_to_the_millisecond() {
    let engine = in_memory(Retention::default());
    let graph = engine.default_graph();
    assert_eq!(value(&graph, 1, 1000), Value::Null);
    let first = set(&graph, 1, 1).millis();
    let second = set(&graph, 1, 2).millis();
    set(&graph, 2, 3);
    assert_eq!(value(&graph, 1, first - 1), Value::Null);
    assert_eq!(value(&graph, 1, first), Value::Integer(1));
    assert_eq!(value(&graph, 1, second - 1), Value::Integer(1));
    assert_eq!(value(&graph, 1, second), Value::Integer(2));
    assert_eq!(value(&graph, 1, now()), Value::Integer(2));
    assert!(matches!(graph.at(Tick::end_of_millis(now() + 100_000)), Err(EngineError::NotYet(_))));
}

/// What was read as of the running millisecond stays the answer for it.
#[test]
fn a_moment_that_was_read_does_not_change() {
    let engine = in_memory(Retention::default());
    let graph = engine.default_graph();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                let mut mutations = Mutations::default();
                mutations.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(n));
                graph.apply(mutations, 1).unwrap();
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        let read: Vec<(u64, Value)> = (0..50)
            .map(|_| {
                let at = now();
                (at, value(&graph, 1, at))
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for (at, before) in &read {
            assert_eq!(&value(&graph, 1, *at), before);
        }
        assert!(read.windows(2).any(|pair| pair[0].1 != pair[1].1));
    });
}

#[test]
fn without_a_journal_only_the_present_is_there() {
    let engine = in_memory(Retention { journal: false, kept: None });
    let graph = engine.default_graph();
    let first = set(&graph, 1, 1).millis();
    set(&graph, 1, 2);
    assert!(matches!(graph.at(Tick::end_of_millis(first)), Err(EngineError::NoHistory)));
    checkpoint::make(&graph, graph.durable()).unwrap();
    let sizes = engine.sizes().unwrap();
    assert_eq!((sizes.log, sizes.pages), (0, 0));
}

#[test]
fn what_is_older_than_the_retention_is_refused_and_collected() {
    let retention = Retention { journal: true, kept: Some(Duration::from_millis(400)) };
    let engine = in_memory(retention);
    let graph = engine.default_graph();
    let mut long_ago = 0;
    for round in 0..5 {
        for n in 0..200 {
            let mut mutations = Mutations::default();
            for at in 0..20 {
                mutations.start_record(at);
                mutations.set_property(node(n % 7), graph.symbols().intern("x"), &Value::Integer(i64::from(at) + round * 1000));
            }
            graph.apply(mutations, 20).unwrap();
        }
        long_ago = if round == 0 { set(&graph, 8, 8).millis() } else { long_ago };
        checkpoint::make(&graph, graph.durable()).unwrap();
        std::thread::sleep(Duration::from_millis(120));
        merge(&graph);
    }
    let Err(EngineError::TooLongAgo { begins, .. }) = graph.at(Tick::end_of_millis(long_ago)) else { panic!("too old") };
    assert!(begins > long_ago);
    let recent = set(&graph, 8, 9).millis();
    set(&graph, 8, 10);
    assert_eq!(value(&graph, 8, recent), Value::Integer(9));
    std::thread::sleep(Duration::from_millis(500));
    checkpoint::make(&graph, graph.durable()).unwrap();
    merge(&graph);
    // 20,000 versions were written, of 8 facts.
    let pages = engine.sizes().unwrap().pages;
    assert!(pages < 2000, "{pages} bytes of pages");
    let present = value(&graph, 8, now());
    assert_eq!(present, Value::Integer(10));
}
