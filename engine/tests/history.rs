//! History: the graph as of any tick, read back, is what it was, whatever checkpoints, merges and restarts came between.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{NODES, Random, concatenate, node, random_records, share_symbols};
use weir_engine::arrangement::chunk::Chunk;
use weir_engine::history::Changed;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{InMemory, Part, Store, StoreError};
use weir_engine::view::{Direction, EdgeRef, View};
use weir_engine::why::Records;
use weir_engine::{Engine, EngineError, Graph, Ingester, Moment, Options, QueryOptions, Retention, checkpoint};
use weir_model::codec::{decode_edge_property, decode_parallel};
use weir_model::mutation::Kind;
use weir_model::{Mutations, NodeId, Position, Symbol, Tick, Value};

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
            let mut first = Vec::new();
            let all = view.edges_while(id, direction, &[], &mut |half| {
                first.push(half);
                first.len() < 2
            });
            first.sort();
            let some = || first.len() == 2 && first.iter().all(|half| halves.contains(half));
            assert!(if all { first == halves } else { some() }, "{id:?} {direction:?}: {first:?} of {halves:?}");
            let others: BTreeSet<NodeId> = halves.iter().map(|half| half.other).collect();
            for other in others.into_iter().chain([id]) {
                let kinds: Vec<Symbol> = (0..symbols).map(Symbol).collect();
                for kinds in [&[], &kinds[..]] {
                    let mut between = Vec::new();
                    view.edges_to(id, other, direction, kinds, &mut |half| between.push(half));
                    between.sort();
                    assert!(between.iter().eq(halves.iter().filter(|half| half.other == other)), "{id:?} to {other:?}");
                }
            }
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
    look_at(graph, at, graph.symbols().len() as u32)
}

fn look_at(graph: &Graph, at: Tick, symbols: u32) -> String {
    let moment = graph.at(at).unwrap();
    let found = dump(moment.view(), symbols);
    assert!(moment.take_failure().is_none());
    // What was found is also there without the help of the present.
    let past = graph.past(at).unwrap();
    same(&dump(&past, symbols), &found, format_args!("{at}, from the pages alone"));
    assert!(past.take_failure().is_none());
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
    let about = format!("seed {seed}, {workers} workers");
    let (mut reference, mut lived) = (ReferenceGraph::default(), Lived::new());
    let start = || started(open(), workers, &scratch);
    let mut engine = start();
    while lived.len() < records.len() {
        let graph = engine.default_graph();
        let count = (1 + random.below(9) as usize).min(records.len() - lived.len());
        live(&graph, &records[lived.len()..lived.len() + count], &mut reference, &mut lived);
        drop(graph);
        engine = disturbed(engine, &mut random, restarts, &start);
        look_around(&engine.default_graph(), &lived, &mut random, &about);
    }
    look_at_all(&engine.default_graph(), &lived, &about);
    changes_lead_to_each_state(&engine.default_graph(), &lived, &records);
    engine.shutdown().unwrap();
}

fn started(store: Arc<dyn Store>, workers: usize, scratch: &Engine) -> Engine {
    let engine = Engine::open(store, Options { workers, ..Options::default() }).unwrap();
    share_symbols(&scratch.default_graph(), &engine.default_graph());
    engine.start().unwrap();
    engine
}

/// Perhaps there is a checkpoint, a merge or a restart.
fn disturbed(engine: Engine, random: &mut Random, restarts: bool, start: &dyn Fn() -> Engine) -> Engine {
    let graph = engine.default_graph();
    match random.below(12) {
        0..=3 => checkpoint::make(&graph, graph.durable()).unwrap(),
        4 => merge(&graph),
        5 | 6 if restarts => {
            graph.wait_durable(graph.next()).unwrap();
            drop((graph, engine));
            return start();
        }
        _ => {}
    }
    engine
}

fn look_around(graph: &Graph, lived: &Lived, random: &mut Random, about: &str) {
    for _ in 0..3 {
        let (tick, expected) = &lived[random.below(lived.len() as u64) as usize];
        same(&look(graph, *tick), expected, format_args!("{about}, {tick} of {} records", lived.len()));
    }
}

/// Before and after everything was put into pages and merged.
fn look_at_all(graph: &Graph, lived: &Lived, about: &str) {
    for round in 0..2 {
        for (tick, expected) in lived {
            same(&look(graph, *tick), expected, format_args!("{about}, at the end, round {round}, {tick}"));
        }
        let before = Tick(lived[0].0.0 - 1);
        assert_eq!(look(graph, before), dump(&ReferenceGraph::default(), graph.symbols().len() as u32));
        checkpoint::make(graph, graph.durable()).unwrap();
        merge(graph);
    }
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

/// Purges a node: all that a reference knows of it goes, and what may be left of its edges.
fn purge(reference: &ReferenceGraph, gone: NodeId, graph: &Graph) -> Mutations {
    let mut record = Mutations::default();
    reference.labels(gone, &mut |label| record.set_label(gone, label, false));
    record.clear_properties(gone);
    reference.edges(gone, Direction::Both, &[], &mut |half| {
        let (source, target) = if half.outgoing { (gone, half.other) } else { (half.other, gone) };
        record.set_edge(source, half.kind, target, half.ordinal, false);
    });
    let symbol = |name: &str| graph.symbols().intern(name);
    for (other, ordinal) in (0..NODES).flat_map(|n| (0..3).map(move |ordinal| (node(n), ordinal))) {
        for (source, target) in [(gone, other), (other, gone)] {
            record.set_edge_property(source, symbol("r"), target, ordinal, symbol("x"), &Value::Null);
        }
    }
    record.erase(gone);
    record
}

/// What is left of records from before: nothing of the node, and of no edge to it.
fn without(gone: NodeId, record: &mut Mutations) {
    let arena = std::mem::take(&mut record.arena);
    record.rows.retain(|row| {
        let other = match row.tag.kind() {
            Kind::Out | Kind::In => row.payload.as_node(),
            Kind::OutParallel | Kind::InParallel => decode_parallel(row.payload, &arena).0,
            Kind::EdgeProperty => decode_edge_property(row.payload, &arena).0,
            Kind::Label | Kind::Property | Kind::ClearProperties => row.node,
        };
        row.node != gone && other != gone
    });
    record.arena = arena;
}

fn run_with_purges(seed: u64, workers: usize, restarts: bool, open: &dyn Fn() -> Arc<dyn Store>) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let symbols = |graph: &Graph| graph.symbols().len() as u32;
    let mut records = random_records(seed, 150, &scratch.default_graph());
    add_edge_properties(seed, &mut records, &scratch.default_graph());
    let mut random = Random(seed ^ 0x4321);
    let about = format!("seed {seed}, {workers} workers, with purges");
    let (mut reference, mut lived, mut done) = (ReferenceGraph::default(), Lived::new(), Vec::<Mutations>::new());
    let start = || started(open(), workers, &scratch);
    let mut engine = start();
    let mut records = records.into_iter().peekable();
    while records.peek().is_some() {
        let graph = engine.default_graph();
        let mut batch = Vec::new();
        for _ in 0..1 + random.below(9) {
            let purged = (random.below(9) == 0).then(|| node(random.below(NODES)));
            let record = purged.map(|gone| purge(&reference, gone, &graph)).or_else(|| records.next());
            let Some(record) = record else { break };
            if let Some(gone) = purged {
                done.iter_mut().for_each(|record| without(gone, record));
                let mut past = ReferenceGraph::default();
                for (record, (_, state)) in done.iter().zip(&mut lived) {
                    past.apply_all(record);
                    *state = dump(&past, symbols(&graph));
                }
            }
            reference.apply_all(&record);
            lived.push((Tick::MAX, dump(&reference, symbols(&graph))));
            done.push(record.clone());
            batch.push(record);
        }
        let upper = graph.apply(concatenate(&batch), batch.len()).unwrap();
        graph.wait_visible().unwrap();
        lived.iter_mut().rev().zip(1..=batch.len() as u64).for_each(|(state, back)| state.0 = Tick(upper.0 - back));
        drop(graph);
        engine = disturbed(engine, &mut random, restarts, &start);
        look_around(&engine.default_graph(), &lived, &mut random, &about);
    }
    look_at_all(&engine.default_graph(), &lived, &about);
    changes_lead_to_each_state(&engine.default_graph(), &lived, &done);
    engine.shutdown().unwrap();
}

#[test]
fn what_is_purged_was_never_there_in_memory() {
    for (seed, workers) in [(5, 1), (88172645463325252, 2), (77, 4)] {
        run_with_purges(seed, workers, false, &|| Arc::new(InMemory::default()));
    }
}

#[cfg(feature = "rocks-db")]
#[test]
fn what_is_purged_was_never_there_in_rocks_db() {
    for (seed, workers) in [(6, 1), (2685821657736338717, 2), (78, 4)] {
        let directory = tempfile::tempdir().unwrap();
        run_with_purges(seed, workers, true, &|| Arc::new(rocks_db(directory.path())));
    }
}

fn chunk(bytes: &[u8], upper: Tick) -> Chunk {
    Chunk::read(bytes, upper).unwrap()
}

/// Not a byte of it is in the log or the pages, once those were written again.
#[test]
fn what_is_purged_leaves_the_store() {
    let store = Arc::new(InMemory::default());
    let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let symbol = |name: &str| graph.symbols().intern(name);
    let secret = "a secret that is longer than what fits beside a tag";
    let count = || -> Result<usize, StoreError> {
        let mut found = 0;
        let mut look = |bytes: &[u8]| {
            found += usize::from(bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
            Ok(())
        };
        store.read_log(graph.id(), Tick::ZERO, &mut |entry| look(&entry.mutations.arena))?;
        for run in store.runs(graph.id())? {
            for part in [Part::Newest, Part::Older] {
                let mut look = |bytes: &[u8]| look(&chunk(bytes, run.upper).segment().arena);
                store.read_run(graph.id(), run.id, part, &mut look)?;
            }
        }
        Ok(found)
    };
    // A run may be replaced between being listed and being read: then those there are now are read.
    let holds = || loop {
        let listed = store.runs(graph.id()).unwrap();
        match count() {
            Ok(found) => return found,
            Err(error) => assert_ne!(listed, store.runs(graph.id()).unwrap(), "{error}"),
        }
    };
    let mut mutations = Mutations::default();
    mutations.set_property(node(1), symbol("x"), &Value::text(secret));
    mutations.set_edge(node(2), symbol("r"), node(1), 0, true);
    mutations.set_edge_property(node(2), symbol("r"), node(1), 0, symbol("y"), &Value::text(secret));
    mutations.set_property(node(2), symbol("x"), &Value::Integer(1));
    let there = graph.apply(mutations, 1).unwrap();
    graph.wait_durable(there).unwrap();
    assert!(holds() > 0);
    checkpoint::make(&graph, there).unwrap();
    assert!(holds() > 0);
    let mut purged = Mutations::default();
    purged.clear_properties(node(1));
    purged.set_edge(node(2), symbol("r"), node(1), 0, false);
    purged.set_edge_property(node(2), symbol("r"), node(1), 0, symbol("y"), &Value::Null);
    purged.erase(node(1));
    graph.apply(purged, 1).unwrap();
    let begun = std::time::Instant::now();
    while holds() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    let past = Tick(there.0 - 1);
    assert_eq!(graph.past(past).unwrap().property(node(2), symbol("x")), Value::Integer(1));
    let begun = std::time::Instant::now();
    while !store.list_metadata(&format!("{}erased/", graph.id().metadata_prefix())).unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "its note is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    engine.shutdown().unwrap();
}

/// Nor is it in files of RocksDB: those that were small were never written again.
#[cfg(feature = "rocks-db")]
#[test]
fn what_is_purged_leaves_the_files() {
    // No part of them comes twice, so that files do not pack them.
    const SECRETS: [&str; 2] = ["0123456789abcdefghijklmnopqrstuvwxyz", "ZYXWVUTSRQPONMLKJIHGFEDCBA9876543210"];
    let directory = tempfile::tempdir().unwrap();
    let holds = |secret: &str| {
        let mut files = std::fs::read_dir(directory.path().join("rocks-db")).unwrap();
        // One that is listed may be gone when it is read.
        files.any(|file| {
            let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
            bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
        })
    };
    let start = || {
        let engine = Engine::open(Arc::new(rocks_db(directory.path())), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        engine
    };
    let engine = start();
    let graph = engine.default_graph();
    for (n, secret) in (1..).zip(SECRETS) {
        let mut mutations = Mutations::default();
        mutations.set_property(node(n), graph.symbols().intern("x"), &Value::text(secret));
        let there = graph.apply(mutations, 1).unwrap();
        graph.wait_durable(there).unwrap();
        // The first is in pages and was cut from the log, the second is in the log.
        if n == 1 {
            checkpoint::make(&graph, there).unwrap();
        }
    }
    graph.wait_durable(set(&graph, 3, 3)).unwrap();
    // The end writes the log to a file.
    engine.shutdown().unwrap();
    drop((graph, engine));
    let engine = start();
    let graph = engine.default_graph();
    assert!(holds(SECRETS[1]));
    let mut purged = Mutations::default();
    for n in [1, 2] {
        purged.clear_properties(node(n));
        purged.erase(node(n));
    }
    graph.apply(purged, 1).unwrap();
    let begun = std::time::Instant::now();
    while SECRETS.iter().any(|secret| holds(secret)) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(value(&graph, 3, now()), Value::Integer(3));
    engine.shutdown().unwrap();
    drop((graph, engine));
    assert!(!SECRETS.iter().any(|secret| holds(secret)));
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
        let begun = std::time::Instant::now();
        let mut read: Vec<(u64, Value)> = Vec::new();
        let has_changed = |read: &[(u64, Value)]| read.windows(2).any(|pair| pair[0].1 != pair[1].1);
        // Whoever writes may begin late.
        while read.len() < 50 || (!has_changed(&read) && begun.elapsed() < Duration::from_secs(60)) {
            let at = now();
            read.push((at, value(&graph, 1, at)));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for (at, before) in &read {
            assert_eq!(&value(&graph, 1, *at), before);
        }
        assert!(has_changed(&read));
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
    const KEPT: Duration = Duration::from_millis(400);
    let engine = in_memory(Retention { journal: true, kept: Some(KEPT) });
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
    // Of what was before history begins nothing is told but what the first change changed.
    let changes = "MATCH (n {x: 10}) CALL history.propertyChanges(n, 'x') YIELD value, previousValue RETURN previousValue, value";
    let (began, key) = (std::time::Instant::now(), graph.symbols().intern("x"));
    let mut all = vec!["8 9".to_owned(), "9 10".to_owned()];
    loop {
        let recent = set(&graph, 8, 9).millis();
        set(&graph, 8, 10);
        let then = graph.at(Tick::end_of_millis(recent)).map(|moment| moment.view().property(node(8), key));
        let told = rows(&graph, changes, None);
        if now() < recent + KEPT.as_millis() as u64 {
            assert!(matches!(then, Ok(Value::Integer(9))), "{:?}", then.map_err(|error| error.to_string()));
            assert!(!told.is_empty() && all.ends_with(&told), "{told:?}");
            break;
        }
        // On a busy machine it is too long ago by now.
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is read in time");
        all.extend(["10 9".to_owned(), "9 10".to_owned()]);
    }
    std::thread::sleep(Duration::from_millis(500));
    checkpoint::make(&graph, graph.durable()).unwrap();
    merge(&graph);
    // 20,000 versions were written, of 8 facts.
    let pages = engine.sizes().unwrap().pages;
    assert!(pages < 2000, "{pages} bytes of pages");
    let present = value(&graph, 8, now());
    assert_eq!(present, Value::Integer(10));
}

fn rows(graph: &Graph, text: &str, at: Option<u64>) -> Vec<String> {
    let query = graph.prepare(common::ad_hoc(text));
    let options = QueryOptions { at: at.map(Tick::end_of_millis), ..QueryOptions::default() };
    let mut rows = Vec::new();
    let ran = graph.query(&query, &[], options, &mut |row| {
        rows.push(row.iter().map(Value::shown).collect::<Vec<_>>().join(" "));
        std::ops::ControlFlow::Continue(())
    });
    match ran {
        Ok(_) => rows,
        Err(error) => vec![error.to_string()],
    }
}

/// Runs a query that writes; nothing else happens in its millisecond, which is given.
fn write(graph: &Graph, text: &str) -> u64 {
    assert_eq!(rows(graph, text, None), Vec::<String>::new());
    let millis = Tick(graph.next().0 - 1).millis();
    while now() <= millis {
        std::thread::sleep(Duration::from_micros(100));
    }
    millis
}

/// The last change of a graph at rest may be from before history begins, and the present is known all the same.
#[test]
fn a_graph_at_rest_for_longer_than_history_is_kept_still_answers() {
    let engine = in_memory(Retention { journal: true, kept: Some(Duration::from_millis(150)) });
    let graph = engine.default_graph();
    let first = write(&graph, "MATCH (a) WHERE id(a) = idFrom('a') SET a.x = 1");
    std::thread::sleep(Duration::from_millis(300));
    let at = |millis: u64| rows(&graph, &format!("CALL history.nodeAt(idFrom('a'), {millis}) YIELD node RETURN node.x"), None);
    let began = std::time::Instant::now();
    loop {
        let asked = now();
        let told = at(asked);
        if told == ["1"] {
            break;
        }
        // On a busy machine it is too long ago when it is looked for.
        assert!(told[0].contains("no longer kept") && now() >= asked + 150, "{told:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is read in time");
    }
    let changes = "CALL history.nodeChanges(idFrom('a')) YIELD kind RETURN kind";
    // Answered, and what was before history begins is not told.
    assert_eq!(rows(&graph, changes, None), Vec::<String>::new());
    assert!(at(first)[0].contains("no longer kept"), "{:?}", at(first));
    assert!(at(now() + 60_000)[0].contains("future"), "{:?}", at(now() + 60_000));
}

#[test]
fn queries_ask_for_the_past() {
    let engine = in_memory(Retention::default());
    let graph = engine.default_graph();
    let first =
        write(&graph, "MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') SET a:A, a.x = 1 CREATE (a)-[:R]->(b)");
    let second = write(&graph, "MATCH (a)-[r:R]->(b) WHERE id(a) = idFrom('a') SET a.x = 'two' REMOVE a:A DELETE r");
    let third = write(&graph, "MATCH (a) WHERE id(a) = idFrom('a') SET a.x = null");
    let of_x = "CALL history.propertyChanges(idFrom('a'), 'x') YIELD key, value, previousValue, changeTime RETURN key, value, previousValue, changeTime";
    let all = [format!("x 1 null {first}"), format!("x two 1 {second}"), format!("x null two {third}")];
    let found: Vec<String> = rows(&graph, of_x, None).iter().map(|row| row.replace(['\'', '"'], "")).collect();
    assert_eq!(found, all);
    assert_eq!(rows(&graph, of_x, Some(second)).len(), 2);
    assert_eq!(rows(&graph, of_x, Some(first - 1)).len(), 0);
    let some = format!(
        "CALL history.propertyChanges(idFrom('a'), 'x', {{from: {second}, limit: 1}}) YIELD changeTime RETURN changeTime"
    );
    assert_eq!(rows(&graph, &some, None), [second.to_string()]);
    let kinds = "CALL history.nodeChanges(idFrom('a')) YIELD kind, changeTime RETURN kind, count(*) AS c ORDER BY kind";
    let found: Vec<String> = rows(&graph, kinds, None).iter().map(|row| row.replace(['\'', '"'], "")).collect();
    assert_eq!(found, ["edge 2", "label 2", "property 3"]);
    let edges = "CALL history.edgeChanges(idFrom('b'), idFrom('a'), 'R', 'incoming') YIELD action, changeTime RETURN changeTime";
    assert_eq!(rows(&graph, edges, None), [first.to_string(), second.to_string()]);
    let none = "CALL history.edgeChanges(idFrom('b'), idFrom('a'), 'R', 'outgoing') YIELD action RETURN action";
    assert_eq!(rows(&graph, none, None), Vec::<String>::new());
    let node_at = |at: u64| {
        format!("CALL history.nodeAt(idFrom('a'), {at}) YIELD node, edges RETURN node.x, size(labels(node)), size(edges)")
    };
    assert_eq!(rows(&graph, &node_at(first), None), ["1 1 1"]);
    assert_eq!(rows(&graph, &node_at(third), None), ["null 0 0"]);
    // No later than the query around it.
    assert_eq!(rows(&graph, &node_at(third), Some(first)), ["1 1 1"]);
    let query_at = |at: u64| {
        format!("CALL history.queryAt('MATCH (n:A)-[:R]->(m) RETURN n.x + $y AS v', {at}, {{y: 1}}) YIELD value RETURN value.v")
    };
    assert_eq!(rows(&graph, &query_at(first), None), ["2"]);
    assert_eq!(rows(&graph, &query_at(second), None), Vec::<String>::new());
    let writes = rows(&graph, &format!("CALL history.queryAt('CREATE (:New)', {first}) YIELD value RETURN value"), None);
    assert!(writes[0].contains("only read"), "{writes:?}");
    let journal = "CALL debug.node(idFrom('a')) YIELD journal RETURN size(journal)";
    assert_eq!(rows(&graph, journal, None), ["7"]);
    let at_time = "CALL debug.node(idFrom('a')) YIELD atTime, properties RETURN atTime, size(keys(properties))";
    assert_eq!(rows(&graph, at_time, None), ["null 0"]);
    assert_eq!(rows(&graph, at_time, Some(first)), [format!("{first} 2")]);
    let nested = format!(
        "CALL history.queryAt('CALL debug.node(idFrom(\\'a\\')) YIELD atTime, journal RETURN atTime, size(journal) AS s', {first}) YIELD value RETURN value.atTime, value.s"
    );
    assert_eq!(rows(&graph, &nested, None), [format!("{first} 3")]);
    let refused = rows(&graph, "CREATE (:New)", Some(first));
    assert!(refused[0].contains("past time"), "{refused:?}");

    let off = in_memory(Retention { journal: false, kept: None });
    let refused = rows(&off.default_graph(), of_x, None);
    assert!(refused[0].contains("journal is off"), "{refused:?}");
    assert_eq!(rows(&off.default_graph(), journal, None), ["0"]);
}

/// The edges are those of now; the node is what it was, in the pattern and behind it.
#[test]
fn a_pattern_goes_on_from_a_node_of_the_past() {
    let engine = in_memory(Retention::default());
    let graph = engine.default_graph();
    let first = write(
        &graph,
        "MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') SET a:Old, a.x = 1, b.x = 10 CREATE (a)-[:R]->(b)",
    );
    write(&graph, "MATCH (a)-[r:R]->() WHERE id(a) = idFrom('a') SET a:New, a.x = 2 REMOVE a:Old DELETE r");
    write(&graph, "MATCH (a), (c) WHERE id(a) = idFrom('a') AND id(c) = idFrom('c') SET c.x = 20 CREATE (a)-[:R]->(c)");
    let call = format!("CALL history.nodeAt(idFrom('a'), {first}) YIELD node");
    for (pattern, found) in [
        ("(node)-[:R]->(m)", true),
        ("(m)<-[:R]-(node:Old {x: 1})", true),
        ("(node:New)-[:R]->(m)", false),
        ("(node {x: 2})-[:R]->(m)", false),
    ] {
        let expected: &[&str] = if found { &["1 20"] } else { &[] };
        assert_eq!(rows(&graph, &format!("{call} MATCH {pattern} RETURN node.x, m.x"), None), expected, "{pattern}");
    }
    let none = format!("{call} OPTIONAL MATCH (node)-[:S]->(m) RETURN node.x, m.x");
    assert_eq!(rows(&graph, &none, None), ["1 null"]);
}

/// What has not changed since is found where the present finds it.
#[test]
fn indexes_and_counts_answer_for_the_past() {
    let engine = in_memory(Retention::default());
    let graph = engine.default_graph();
    assert_eq!(rows(&graph, "CREATE INDEX FOR (n:L) ON (n.x)", None), Vec::<String>::new());
    let first = write(&graph, "UNWIND range(1, 5000) AS x CREATE (:L {x: x, y: 1})");
    write(&graph, "MATCH (n:L) WHERE n.x IN [10, 11] REMOVE n:L");
    write(&graph, "MATCH (n:L) WHERE n.x = 12 SET n.x = 13");
    let second = write(&graph, "MATCH (n:L) WHERE n.x = 14 DELETE n");
    write(&graph, "CREATE (:L {x: 15}), (:M {x: 15})");
    let asked = "MATCH (n:L) WHERE n.x >= 10 AND n.x <= 15 RETURN n.x ORDER BY n.x";
    assert_eq!(rows(&graph, asked, Some(first)), ["10", "11", "12", "13", "14", "15"]);
    assert_eq!(rows(&graph, asked, Some(second)), ["13", "13", "15"]);
    assert_eq!(rows(&graph, asked, None), ["13", "13", "15", "15"]);
    let count = "MATCH (n:L) RETURN count(n)";
    let counted = |at| rows(&graph, count, at);
    assert_eq!(
        [counted(Some(first - 1)), counted(Some(first)), counted(Some(second)), counted(None)],
        [["0"], ["5000"], ["4997"], ["4998"]]
    );
    // What was known of the same moment is not forgotten, and what happened since is added.
    write(&graph, "MATCH (n:L) WHERE n.x = 15 SET n.x = 10");
    assert_eq!(rows(&graph, asked, Some(first)), ["10", "11", "12", "13", "14", "15"]);
    assert_eq!(rows(&graph, asked, Some(first)), ["10", "11", "12", "13", "14", "15"]);
    assert_eq!(rows(&graph, asked, None), ["10", "10", "13", "13"]);
    let moment = graph.at(Tick::end_of_millis(first)).unwrap();
    let mut indexes = 0;
    moment.view().indexes(&mut |_, _| indexes += 1);
    assert_eq!(indexes, 1);
    // Everything has changed since then: the pages say it all.
    let before = graph.at(Tick::end_of_millis(first - 1)).unwrap();
    before.view().indexes(&mut |_, _| panic!("the present is of no use"));
}

/// A batch that a source brought: its first tick, how many records it has, and where the source stood then.
type Brought = (Tick, u64, String, Vec<u8>);

/// Brings batches with these numbers, each of one of two sources, with queries in between.
fn bring(graph: &Graph, batches: std::ops::Range<u64>, brought: &mut Vec<Brought>) {
    let text = "MATCH (n) WHERE id(n) = idFrom($that) SET n.x = $that";
    let mut ingester = Ingester::new(graph.clone(), graph.prepare(common::ad_hoc(text)));
    for number in batches {
        let (source, position) = (format!("s{}#7", number % 2), format!("{{\"0\":{number}}}").into_bytes());
        let records: Vec<Value> = (0..1 + number % 3).map(|k| Value::Integer((number + k) as i64 % 50)).collect();
        let upper = ingester.ingest(&records, Some((&source, Position(position.clone())))).unwrap().upper;
        brought.push((Tick(upper.0 - records.len() as u64), records.len() as u64, source, position));
        if number % 5 == 0 {
            graph.apply(Mutations::default(), 1).unwrap();
        }
    }
    graph.wait_durable(graph.next()).unwrap();
}

/// Each tick is known to be of its batch, those between batches of none; but of some of the first nothing may be known any more.
/// Says of how many.
fn brought_is_known(graph: &Graph, brought: &[Brought]) -> usize {
    // With the one after each, which is of a query, of the next batch, or of nothing.
    // What is asked for together is mostly not all there is; of a batch it is, for time goes on in between.
    let mut of = BTreeMap::new();
    let records = Records::of(graph);
    for some in brought.chunks(13) {
        let some: BTreeSet<Tick> = some.iter().flat_map(|(at, count, ..)| (at.0..=at.0 + count).map(Tick)).collect();
        let some: Vec<Tick> = some.into_iter().collect();
        of.extend(some.iter().copied().zip(records.find(&some).unwrap()));
    }
    let mut known = |(at, count, source, position): &&Brought| {
        let found: Vec<_> = (at.0..at.0 + count).map(|tick| of.remove(&Tick(tick)).flatten()).collect();
        for (place, found) in (0..).zip(found.iter().flatten()) {
            assert_eq!((found.place, &*found.batch.source, &found.batch.position.0), (place, &**source, position));
        }
        assert!(found.iter().all(|one| one.is_some() == found[0].is_some()), "of a batch all or nothing");
        found[0].is_some()
    };
    let count = brought.iter().filter(&mut known).count();
    assert!(of.values().all(Option::is_none), "queries are no records");
    count
}

/// In the log, in runs, in merged ones, after a restart, in what a backup was restored to; as long as history is kept.
#[cfg(all(feature = "map-db", feature = "rocks-db"))]
#[test]
fn what_sources_brought_is_known_whatever_becomes_of_the_log() {
    use weir_engine::store::{MapDb, MapDbOptions, check, restore};
    for kept in [None, Some(Duration::from_secs(2))] {
        let directory = tempfile::tempdir().unwrap();
        let retention = Retention { journal: true, kept };
        let open = |store: Arc<dyn Store>| {
            let engine = Engine::open(store, Options { workers: 2, retention, ..Options::default() }).unwrap();
            engine.start().unwrap();
            engine
        };
        let (mut brought, mut written) = (Vec::new(), Vec::new());
        for life in 0..2_u64 {
            let engine = open(Arc::new(rocks_db(&directory.path().join("one"))));
            let graph = engine.default_graph();
            for round in 5 * life..5 * life + 5 {
                bring(&graph, 200 * round..200 * (round + 1), &mut brought);
                let known = brought_is_known(&graph, &brought);
                // What came last is, unless the machine has stood still since.
                let last = brought[brought.len() - 1].0.millis();
                let is_kept = kept.is_none_or(|kept| now() < last + kept.as_millis() as u64);
                let least = if kept.is_none() { brought.len() } else { usize::from(is_kept) };
                assert!(known >= least, "{known} of {}", brought.len());
                checkpoint::make(&graph, graph.durable()).unwrap();
                merge(&graph);
            }
            // A part is in the log.
            bring(&graph, 9_000..9_100, &mut brought);
            if kept.is_some() {
                bring(&graph, 9_100..9_101, &mut brought);
                checkpoint::make(&graph, graph.durable()).unwrap();
                let begun = std::time::Instant::now();
                while brought_is_known(&graph, &brought) > 0 {
                    assert!(begun.elapsed() < Duration::from_secs(60), "what history no longer reaches is forgotten");
                    std::thread::sleep(Duration::from_millis(100));
                    merge(&graph);
                }
            }
            written.clear();
            engine.back_up(None, &[], &mut written).unwrap();
            engine.shutdown().unwrap();
        }
        if kept.is_none() {
            let store = MapDb::open(MapDbOptions::new(directory.path().join("two"))).unwrap();
            restore(&store, &mut [&mut std::io::Cursor::new(&written)]).unwrap();
            assert_eq!(check(&store, &mut |_| ()).damage, Vec::<String>::new());
            let engine = open(Arc::new(store));
            assert_eq!(brought_is_known(&engine.default_graph(), &brought), brought.len());
            engine.shutdown().unwrap();
        }
    }
}

#[test]
fn equal_graphs_have_equal_hash_codes() {
    let mut codes = BTreeSet::new();
    for (workers, seed) in [(1, 9), (2, 9), (4, 9)] {
        let engine = Engine::open(Arc::new(InMemory::default()), Options { workers, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        // Other names first, so that symbols have other numbers.
        (0..workers).for_each(|n| {
            graph.symbols().intern(&format!("other {n}"));
        });
        let mut records = random_records(seed, 200, &graph);
        add_edge_properties(seed, &mut records, &graph);
        let mut ticks = Vec::new();
        for batch in records.chunks(workers * 3) {
            let upper = graph.apply(concatenate(batch), batch.len()).unwrap();
            ticks.extend((0..batch.len() as u64).rev().map(|back| Tick(upper.0 - 1 - back)));
        }
        graph.wait_visible().unwrap();
        let then = graph.hash_code(Some(ticks[100])).unwrap();
        checkpoint::make(&graph, graph.durable()).unwrap();
        assert_eq!(graph.hash_code(Some(ticks[100])).unwrap(), then);
        let now = graph.hash_code(None).unwrap();
        assert_eq!(graph.hash_code(Some(ticks[199])).unwrap(), now);
        // Whoever no longer wants it is not worked for.
        for at in [None, Some(ticks[199])] {
            assert!(graph.hash_code_while(at, &|| false).is_err());
        }
        codes.insert((then, now));
    }
    assert_eq!(codes.len(), 1);
    let (then, now) = codes.first().unwrap();
    assert_ne!(then, now);
}

#[cfg(feature = "map-db")]
#[test]
fn every_moment_reads_as_it_was_in_map_db() {
    use weir_engine::store::{MapDb, MapDbOptions};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("graph.weir");
    run(11, 2, true, &|| {
        let begun = std::time::Instant::now();
        loop {
            match MapDb::open(MapDbOptions::new(&path)) {
                Ok(store) => return Arc::new(store),
                Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the file is not free: {problem}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// What a backup that was made while records came in is restored to is a graph there was, and all of its past.
#[cfg(all(feature = "map-db", feature = "rocks-db"))]
#[test]
fn a_backup_is_a_graph_there_was() {
    use weir_engine::store::{MapDb, MapDbOptions, check, restore};
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(Arc::new(rocks_db(&directory.path().join("one"))), Options::default()).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let other = engine.create_graph("other", Default::default()).unwrap();
    set(&other, 1, 7);
    let records = random_records(12, 400, &graph);
    let mut reference = ReferenceGraph::default();
    let mut states = vec![dump(&reference, 6)];
    for record in &records {
        reference.apply_all(record);
        states.push(dump(&reference, 6));
    }
    let mut written = Vec::new();
    let mut ticks = Vec::new();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for (number, record) in records.iter().enumerate() {
                ticks.push(Tick(graph.apply(concatenate(std::slice::from_ref(record)), 1).unwrap().0 - 1));
                if number % 40 == 0 {
                    checkpoint::make(&graph, graph.durable()).unwrap();
                }
            }
        });
        std::thread::sleep(Duration::from_millis(3));
        engine.back_up(None, &[], &mut written).unwrap();
        writing.join().unwrap();
    });
    let path = directory.path().join("two");
    let store = MapDb::open(MapDbOptions::new(&path)).unwrap();
    restore(&store, &mut [&mut std::io::Cursor::new(&written)]).unwrap();
    let checked = check(&store, &mut |_| ());
    assert_eq!(checked.damage, Vec::<String>::new());
    assert_eq!(checked.graphs, 2);
    let restored = Engine::open(Arc::new(store), Options::default()).unwrap();
    restored.start().unwrap();
    let again = restored.default_graph();
    again.wait_visible().unwrap();
    let found = dump(&again.snapshot(), 6);
    let count = states.iter().rposition(|state| *state == found).expect("a state there was");
    for (tick, state) in ticks.iter().zip(&states[1..]).take(count).step_by(7) {
        same(&look_at(&again, *tick, 6), state, format_args!("{tick}"));
    }
    // It may have been made before the first record came.
    let last = count.checked_sub(1).map_or(Tick(ticks[0].0 - 1), |last| ticks[last]);
    assert_eq!(graph.hash_code(Some(last)).unwrap(), again.hash_code(None).unwrap());
    let other = restored.graph("other").unwrap();
    assert_eq!(value(&other, 1, now()), Value::Integer(7));
    let in_memory = in_memory(Retention::default());
    assert!(in_memory.back_up(None, &[], &mut Vec::new()).is_err());
}

/// A client that takes a backup slowly: now and then something happens between two parts.
#[cfg(feature = "rocks-db")]
struct Slow<'a> {
    written: Vec<u8>,
    parts: u64,
    meanwhile: &'a mut dyn FnMut(),
}

#[cfg(feature = "rocks-db")]
impl std::io::Write for Slow<'_> {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        self.parts += 1;
        if self.parts.is_multiple_of(4) {
            (self.meanwhile)();
        }
        self.written.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Streams are made anew all the time while a backup is written: the position of the new one is in the log first, then comes its
/// definition, and then that of the old one is forgotten. What is restored names one whose position it has.
#[cfg(feature = "rocks-db")]
#[test]
fn definitions_in_a_backup_fit_its_log() {
    use weir_engine::store::end_of;
    let directory = tempfile::tempdir().unwrap();
    let one = Options { workers: 1, ..Options::default() };
    let engine = Engine::open(Arc::new(rocks_db(&directory.path().join("a"))), one).unwrap();
    engine.start().unwrap();
    let graphs = [engine.default_graph(), engine.create_graph("other", Default::default()).unwrap()];
    let key = |graph: &Graph| format!("{}ingest/s", graph.id().metadata_prefix());
    let ingest = |graph: &Graph, source: &str| {
        let mut ingester = Ingester::new(graph.clone(), graph.prepare(common::ad_hoc("CREATE ({x: $that})")));
        ingester.ingest(&[Value::Integer(1)], Some((source, Position(vec![1])))).unwrap();
    };
    let mut made = 0;
    let mut make_anew = || {
        made += 1;
        for graph in &graphs {
            let source = format!("s#{made}");
            ingest(graph, &source);
            engine.set_metadata(&key(graph), Some(source.as_bytes())).unwrap();
            graph.forget_source(&format!("s#{}", made - 1)).unwrap();
        }
    };
    (0..20).for_each(|_| make_anew());
    let mut backups: Vec<Vec<u8>> = Vec::new();
    for count in 1..=2 {
        let since = backups.last().map(|last| end_of(&mut std::io::Cursor::new(last)).unwrap());
        let mut slow = Slow { written: Vec::new(), parts: 0, meanwhile: &mut make_anew };
        engine.back_up(since.as_ref(), &[], &mut slow).unwrap();
        assert!(slow.parts > 50, "nothing happened meanwhile");
        backups.push(slow.written);
        let again = put_together(&backups, &directory.path().join(count.to_string()));
        for name in again.graphs() {
            let graph = again.graph(&name).unwrap();
            let source = String::from_utf8(again.metadata(&key(&graph)).unwrap().unwrap()).unwrap();
            assert!(graph.position(&source).is_some(), "{name}, backup {count}: the position of '{source}' is not in it");
        }
        again.shutdown().unwrap();
    }
    engine.shutdown().unwrap();
}

/// A client that stops amid a backup, where the first block of a kind begins, until something has happened.
#[cfg(feature = "rocks-db")]
struct Halting<'a> {
    written: Vec<u8>,
    at: u8,
    meanwhile: Option<&'a mut dyn FnMut()>,
}

#[cfg(feature = "rocks-db")]
impl std::io::Write for Halting<'_> {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        // The head of a block comes on its own.
        if part.len() == 5
            && part[0] == self.at
            && let Some(meanwhile) = self.meanwhile.take()
        {
            meanwhile();
        }
        self.written.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A client that took a backup slowly held up the checkpoints and merges of all graphs. Those of others go on, and checkpoints of
/// the graph that it is at, too, but for the end of it.
#[cfg(feature = "rocks-db")]
#[test]
fn who_fetches_a_backup_slowly_does_not_hold_up_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    // Amid the pages of the first graph, and amid its log.
    for (at, its_own_go_on) in [(b'c', true), (b'e', false)] {
        let place = |name: &str| directory.path().join(format!("{name}-{}", char::from(at)));
        let store = Arc::new(rocks_db(&place("from")));
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graphs = [engine.default_graph(), engine.create_graph("other", Default::default()).unwrap()];
        for graph in &graphs {
            graph.wait_durable(set(graph, 1, 1)).unwrap();
            checkpoint::make(graph, graph.durable()).unwrap();
            set(graph, 2, 2);
        }
        let [first, other] = &graphs;
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            let begun = std::time::Instant::now();
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(40), "{what}, amid '{}'", char::from(at));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        // It asks for a checkpoint at once, and for a merge behind that.
        let purge = |graph: &Graph| {
            let mut purged = Mutations::default();
            purged.clear_properties(node(1));
            purged.erase(node(1));
            graph.apply(purged, 1).unwrap();
            graph.wait_visible().unwrap();
        };
        let upto = |graph: &Graph| store.progress(graph.id()).unwrap().upto;
        let is_merged = |graph: &Graph| {
            let notes = format!("{}erased/", graph.id().metadata_prefix());
            store.list_metadata(&notes).unwrap().is_empty()
        };
        let (began, code) = (upto(first), first.hash_code(None).unwrap());
        let mut meanwhile = || {
            purge(first);
            // Whoever keeps house comes to what is held up.
            std::thread::sleep(Duration::from_millis(200));
            purge(other);
            until("a merge of the other graph waits", &|| is_merged(other));
            if its_own_go_on {
                until("its own checkpoint waits", &|| upto(first) > began);
            }
            assert!(!is_merged(first), "pages that are being read are gone");
            assert_eq!(upto(first) > began, its_own_go_on);
        };
        let mut halting = Halting { written: Vec::new(), at, meanwhile: Some(&mut meanwhile) };
        engine.back_up(None, &[], &mut halting).unwrap();
        assert!(halting.meanwhile.is_none(), "there is no such block");
        until("it is not merged afterwards", &|| is_merged(first));
        let again = put_together(&[halting.written], &place("to"));
        let expected = [if its_own_go_on { first.hash_code(None).unwrap() } else { code }, other.hash_code(None).unwrap()];
        let found = [again.default_graph(), again.graph("other").unwrap()].map(|graph| {
            graph.wait_visible().unwrap();
            graph.hash_code(None).unwrap()
        });
        assert_eq!(found, expected, "amid '{}'", char::from(at));
        assert_ne!(code, first.hash_code(None).unwrap());
        again.shutdown().unwrap();
        engine.shutdown().unwrap();
    }
}

/// What was still to be written of it was gone, and the backup was taken for whole.
#[cfg(feature = "rocks-db")]
#[test]
fn a_graph_that_is_dropped_while_it_is_written_ends_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    // Amid the pages of the graph, and amid its log.
    for at in *b"ce" {
        let store = Arc::new(rocks_db(&directory.path().join(char::from(at).to_string())));
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.create_graph("other", Default::default()).unwrap();
        graph.wait_durable(set(&graph, 1, 1)).unwrap();
        checkpoint::make(&graph, graph.durable()).unwrap();
        graph.wait_durable(set(&graph, 2, 2)).unwrap();
        let mut meanwhile = || assert!(engine.drop_graph("other").unwrap());
        let mut halting = Halting { written: Vec::new(), at, meanwhile: Some(&mut meanwhile) };
        let ended = engine.back_up(None, &[], &mut halting);
        assert!(halting.meanwhile.is_none(), "there is no such block");
        assert!(matches!(ended, Err(EngineError::NoSuchGraph(_))), "amid '{}': {ended:?}", char::from(at));
        engine.back_up(None, &[], &mut Vec::new()).unwrap();
        engine.shutdown().unwrap();
    }
}

/// A backup and those that go on from it, put together after each of them, are the graph and the past there were then: whatever
/// checkpoints and merges came between, and whether a graph is new, gone or idle.
#[cfg(feature = "rocks-db")]
#[test]
fn backups_go_on_from_one_another() {
    use std::io::Cursor;
    use weir_engine::store::{Source, check, end_of, restore};
    let directory = tempfile::tempdir().unwrap();
    for seed in 1..6 {
        let path = directory.path().join(seed.to_string());
        let engine = Engine::open(Arc::new(rocks_db(&path)), Options { workers: 2, ..Options::default() }).unwrap();
        engine.start().unwrap();
        let graph = engine.default_graph();
        let mut random = Random(seed * 77);
        let records = random_records(seed, 900, &graph);
        let mut backups: Vec<Vec<u8>> = Vec::new();
        let mut moments: Vec<(Tick, i64)> = Vec::new();
        for (number, record) in records.iter().enumerate() {
            let upper = graph.apply(concatenate(std::slice::from_ref(record)), 1).unwrap();
            if random.below(12) == 0 {
                graph.wait_durable(upper).unwrap();
                checkpoint::make(&graph, graph.durable()).unwrap();
            }
            if random.below(40) == 0 {
                while graph.history().tend(&AtomicBool::new(false)).unwrap() {}
            }
            match number {
                200 => {
                    set(&engine.create_graph("other", Default::default()).unwrap(), 1, 7);
                }
                600 => assert!(engine.drop_graph("other").unwrap()),
                _ => {}
            }
            if backups.is_empty() || random.below(150) == 0 {
                let since = backups.last().map(|last| end_of(&mut Cursor::new(last)).unwrap());
                let mut written = Vec::new();
                graph.wait_visible().unwrap();
                moments.push((Tick(upper.0 - 1), graph.hash_code(None).unwrap()));
                engine.back_up(since.as_ref(), &[], &mut written).unwrap();
                backups.push(written);
                let mut readers: Vec<Cursor<&Vec<u8>>> = backups.iter().map(Cursor::new).collect();
                let mut sources: Vec<&mut dyn Source> = readers.iter_mut().map(|reader| reader as &mut dyn Source).collect();
                let store = Arc::new(rocks_db(&directory.path().join(format!("{seed}-{}", backups.len()))));
                restore(&*store, &mut sources).unwrap();
                assert_eq!(check(&*store, &mut |_| ()).damage, Vec::<String>::new());
                let again = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
                again.start().unwrap();
                assert_eq!(again.graphs(), engine.graphs());
                let other = again.graph("other").map(|other| value(&other, 1, now()));
                assert_eq!(other, (200..600).contains(&number).then_some(Value::Integer(7)));
                for (moment, code) in &moments {
                    assert_eq!(again.default_graph().hash_code(Some(*moment)).unwrap(), *code, "seed {seed}, record {number}");
                }
            }
        }
        assert!(backups.len() > 2);
        // One is missing, or they come in another order, or are of another store.
        let mut readers: Vec<Cursor<&Vec<u8>>> = backups.iter().map(Cursor::new).collect();
        readers.remove(1);
        let mut sources: Vec<&mut dyn Source> = readers.iter_mut().map(|reader| reader as &mut dyn Source).collect();
        let refused = restore(&InMemory::new(), &mut sources).unwrap_err().to_string();
        assert!(refused.contains("does not go on from the one before it"), "{refused}");
        let refused = restore(&InMemory::new(), &mut sources[1..]).unwrap_err().to_string();
        assert_eq!(refused, "backup 1 goes on from an earlier backup; give that one before it");
        // A weir whose directories have format 3 gave them another title.
        for (number, backup) in backups.iter_mut().enumerate() {
            backup[..16].copy_from_slice(if number == 0 { b"weir backup 1\n\0\n" } else { b"weir backup +1\n\0" });
        }
        let mut readers: Vec<Cursor<&Vec<u8>>> = backups.iter().map(Cursor::new).collect();
        assert!(end_of(&mut readers[backups.len() - 1]).is_ok());
        let mut sources: Vec<&mut dyn Source> = readers.iter_mut().map(|reader| reader as &mut dyn Source).collect();
        let store = rocks_db(&directory.path().join(format!("{seed}-before")));
        restore(&store, &mut sources).unwrap();
        assert_eq!(check(&store, &mut |_| ()).damage, Vec::<String>::new());
        let other =
            Engine::open(Arc::new(rocks_db(&directory.path().join(format!("other-{seed}")))), Options::default()).unwrap();
        let since = end_of(&mut Cursor::new(&backups[0])).unwrap();
        let refused = other.back_up(Some(&since), &[], &mut Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("make a full one"), "{refused}");
    }
}

/// What of backups that go on from one another is put together.
#[cfg(feature = "rocks-db")]
fn put_together(backups: &[Vec<u8>], path: &std::path::Path) -> Engine {
    use std::io::Cursor;
    use weir_engine::store::{Source, check, restore};
    let mut readers: Vec<Cursor<&Vec<u8>>> = backups.iter().map(Cursor::new).collect();
    let mut sources: Vec<&mut dyn Source> = readers.iter_mut().map(|reader| reader as &mut dyn Source).collect();
    let store = Arc::new(rocks_db(path));
    restore(&*store, &mut sources).unwrap();
    assert_eq!(check(&*store, &mut |_| ()).damage, Vec::<String>::new());
    let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    engine
}

#[cfg(feature = "rocks-db")]
fn back_up(engine: &Engine, backups: &mut Vec<Vec<u8>>) {
    use weir_engine::store::end_of;
    let since = backups.last().map(|last| end_of(&mut std::io::Cursor::new(last)).unwrap());
    let mut written = Vec::new();
    engine.back_up(since.as_ref(), &[], &mut written).unwrap();
    backups.push(written);
}

/// Of a store that was copied back, or had lost its end, and was then written otherwise: what was put together was a graph there
/// never was.
#[cfg(all(feature = "map-db", feature = "rocks-db"))]
#[test]
fn a_backup_goes_on_only_where_the_graph_still_is_what_it_was() {
    use std::io::Cursor;
    use weir_engine::store::{MapDb, MapDbOptions, Since, end_of, restore};
    let directory = tempfile::tempdir().unwrap();
    let open = |store: Arc<dyn Store>| {
        let engine = Engine::open(store, Options { workers: 1, ..Options::default() }).unwrap();
        engine.start().unwrap();
        engine
    };
    // The second backup is of the same life as the first, which then has lost its end, or of one that nobody knows any more.
    for is_of_another_life in [false, true] {
        let place = |name: &str| directory.path().join(format!("{name}-{is_of_another_life}"));
        let mut engine = open(Arc::new(rocks_db(&place("a"))));
        let mut backups = Vec::new();
        set(&engine.default_graph(), 1, 1);
        back_up(&engine, &mut backups);
        if is_of_another_life {
            engine.shutdown().unwrap();
            drop(engine);
            engine = open(Arc::new(rocks_db(&place("a"))));
        }
        set(&engine.default_graph(), 2, 2);
        back_up(&engine, &mut backups);
        engine.shutdown().unwrap();
        drop(engine);
        let since: Vec<Since> = backups.iter().map(|backup| end_of(&mut Cursor::new(backup)).unwrap()).collect();
        let stores: [Arc<dyn Store>; 2] =
            [Arc::new(rocks_db(&place("copied"))), Arc::new(MapDb::open(MapDbOptions::new(place("copied.weir"))).unwrap())];
        for store in stores {
            restore(&*store, &mut [&mut Cursor::new(&backups[0])]).unwrap();
            let kind = store.kind();
            let copied = open(store);
            set(&copied.default_graph(), 3, 3);
            let mut nothing = Vec::new();
            let refused = copied.back_up(Some(&since[1]), &[], &mut nothing).unwrap_err().to_string();
            assert!(refused.contains("make a full one") && nothing.is_empty(), "{kind}, {is_of_another_life}: {refused}");
            // It is made of the first.
            let mut more = Vec::new();
            copied.back_up(Some(&since[0]), &[], &mut more).unwrap();
            let code = copied.default_graph().hash_code(None).unwrap();
            let again = put_together(&[backups[0].clone(), more], &place(&format!("again-{kind}")));
            again.default_graph().wait_visible().unwrap();
            assert_eq!(again.default_graph().hash_code(None).unwrap(), code, "{kind}, {is_of_another_life}");
            again.shutdown().unwrap();
            copied.shutdown().unwrap();
        }
        // What both are restored to goes on from the second, and so does the store itself, however often it has begun since.
        let both = put_together(&backups, &place("both"));
        for engine in [both, open(Arc::new(rocks_db(&place("a"))))] {
            set(&engine.default_graph(), 3, 3);
            engine.back_up(Some(&since[1]), &[], &mut Vec::new()).unwrap();
            engine.shutdown().unwrap();
        }
    }
}

/// The first has it in its log, and the second in none of its runs: it was all taken for cut off.
#[cfg(feature = "rocks-db")]
#[test]
fn a_backup_goes_on_from_one_that_a_checkpoint_came_behind() {
    let directory = tempfile::tempdir().unwrap();
    let engine =
        Engine::open(Arc::new(rocks_db(&directory.path().join("a"))), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    // All of it becomes a run, a part, or nothing.
    for (first, becomes_run) in [(1, 3), (10, 2), (20, 0)] {
        let mut backups = Vec::new();
        let ticks: Vec<Tick> = (first..first + 3).map(|n| set(&graph, n, 1)).collect();
        back_up(&engine, &mut backups);
        if let Some(upto) = ticks[..becomes_run].last() {
            checkpoint::make(&graph, *upto).unwrap();
        }
        set(&graph, first + 3, 2);
        back_up(&engine, &mut backups);
        set(&graph, first + 4, 3);
        checkpoint::make(&graph, graph.durable()).unwrap();
        back_up(&engine, &mut backups);
        graph.wait_visible().unwrap();
        let again = put_together(&backups, &directory.path().join(format!("b{first}")));
        assert_eq!(again.default_graph().hash_code(None).unwrap(), graph.hash_code(None).unwrap(), "from {first} on");
    }
}

/// Pages that were written again without a node do not come back from the backup before.
#[cfg(feature = "rocks-db")]
#[test]
fn what_was_purged_between_two_backups_has_no_past_in_both() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(rocks_db(&directory.path().join("a")));
    let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let x = graph.symbols().intern("x");
    let mut backups = Vec::new();
    for n in 1..4 {
        set(&graph, n, 5);
    }
    let before = graph.next();
    let had = |engine: &Engine, n: u64| {
        let moment = engine.default_graph().at(Tick(before.0 - 1)).unwrap();
        moment.view().property(node(n), x)
    };
    back_up(&engine, &mut backups);
    checkpoint::make(&graph, graph.durable()).unwrap();
    let mut purged = Mutations::default();
    purged.clear_properties(node(2));
    purged.erase(node(2));
    graph.wait_durable(graph.apply(purged, 1).unwrap()).unwrap();
    back_up(&engine, &mut backups);
    checkpoint::make(&graph, graph.durable()).unwrap();
    let notes = format!("{}erased/", graph.id().metadata_prefix());
    while !store.list_metadata(&notes).unwrap().is_empty() {
        graph.history().tend(&AtomicBool::new(false)).unwrap();
    }
    set(&graph, 7, 7);
    back_up(&engine, &mut backups);
    graph.wait_visible().unwrap();
    for count in 2..=3 {
        let again = put_together(&backups[..count], &directory.path().join(format!("b{count}")));
        assert_eq!((had(&again, 1), had(&again, 2)), (had(&engine, 1), Value::Null), "of {count}");
    }
    let again = put_together(&backups, &directory.path().join("c"));
    assert_eq!(again.default_graph().hash_code(None).unwrap(), graph.hash_code(None).unwrap());
}

#[cfg(feature = "rocks-db")]
#[test]
fn loading_does_not_grow_with_history() {
    use weir_engine::store::Part;
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::open(Arc::new(rocks_db(directory.path())), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let x = graph.symbols().intern("x");
    for round in 0..16 {
        for n in 0..100 {
            let mut mutations = Mutations::default();
            for at in 0..100u32 {
                mutations.start_record(at);
                mutations.set_property(node(u64::from(at)), x, &Value::Integer(round * 1000 + n));
            }
            graph.apply(mutations, 100).unwrap();
        }
        graph.wait_durable(graph.next()).unwrap();
        checkpoint::make(&graph, graph.durable()).unwrap();
        merge(&graph);
    }
    engine.shutdown().unwrap();
    drop((graph, engine));
    let store = rocks_db(directory.path());
    let id = store.graphs().unwrap()[0].id;
    let (mut newest, mut older) = (0, 0);
    for run in store.runs(id).unwrap() {
        let count = |part, sum: &mut usize| {
            let add = &mut |bytes: &[u8]| {
                *sum += chunk(bytes, run.upper).bytes();
                Ok(())
            };
            store.read_run(id, run.id, part, add).unwrap();
        };
        count(Part::Newest, &mut newest);
        count(Part::Older, &mut older);
    }
    // 160,000 versions of 100 facts.
    assert!(older > 2_000_000, "{older} bytes of history");
    assert!(newest < 800_000, "{newest} bytes to be loaded");
}
