//! A graph several times as large as memory may be: every answer is right, and the process stays within its limit.
//!
//! Alone in its file: the limit is one of the process.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(all(feature = "rocks-db", target_os = "linux"))]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Random, collect, compile, install, node};
use weir_cypher_compiler::StandingMode;
use weir_engine::memory::{self, Allocator};
use weir_engine::store::{RocksDb, RocksDbOptions};
use weir_engine::view::{Direction, View};
use weir_engine::{Engine, Graph, Options, Start};
use weir_model::{Mutations, NodeId, Symbol, Value};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const LIMIT: u64 = 320 << 20;
const NODES: u64 = 500_000;
const BATCH: u64 = 2_000;
/// With its node, its number and its edge.
const TEXT: usize = 1_000;

struct Names {
    label: Symbol,
    number: Symbol,
    text: Symbol,
    edge: Symbol,
}

fn names(graph: &Graph) -> Names {
    let symbol = |name: &str| graph.symbols().intern(name);
    Names { label: symbol("A"), number: symbol("number"), text: symbol("text"), edge: symbol("half") }
}

fn text(n: u64, version: u64) -> Value {
    Value::Text(format!("{n}/{version} ").repeat(TEXT / 8).into())
}

/// Which version of its text a node has when there are this many nodes: every seventh was written again along with node `3n`.
fn version(n: u64, nodes: u64) -> u64 {
    u64::from(n.is_multiple_of(7) && n * 3 < nodes)
}

fn mutations(names: &Names, first: u64) -> Mutations {
    let mut mutations = Mutations::default();
    for n in first..first + BATCH {
        mutations.set_label(node(n), names.label, n.is_multiple_of(3));
        mutations.set_property(node(n), names.number, &Value::Integer(n as i64));
        mutations.set_property(node(n), names.text, &text(n, 0));
        if n > 0 {
            mutations.set_edge(node(n), names.edge, node(n / 2), 0, true);
        }
        if n.is_multiple_of(21) {
            mutations.set_property(node(n / 3), names.text, &text(n / 3, 1));
        }
    }
    mutations
}

fn check(graph: &Graph, nodes: u64, random: &mut Random) {
    let (names, snapshot) = (names(graph), graph.snapshot());
    for _ in 0..3_000 {
        let n = random.below(nodes);
        assert_eq!(snapshot.property(node(n), names.number), Value::Integer(n as i64));
        assert_eq!(snapshot.property(node(n), names.text), text(n, version(n, nodes)), "node {n} of {nodes}");
        assert_eq!(snapshot.has_label(node(n), names.label), n.is_multiple_of(3));
        let mut others: Vec<NodeId> = Vec::new();
        snapshot.edges(node(n), Direction::Outgoing, &[names.edge], &mut |half| others.push(half.other));
        assert_eq!(others, if n > 0 { vec![node(n / 2)] } else { vec![] });
    }
    assert_eq!(snapshot.count_labelled(names.label), Some(nodes.div_ceil(3)));
}

fn open(path: &Path) -> Engine {
    let store = RocksDb::open(RocksDbOptions::new(path)).unwrap();
    Engine::open(Arc::new(store), Options { workers: 2, ..Options::default() }).unwrap()
}

/// The most that was ever in memory.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_graph_larger_than_memory_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    memory::bound(LIMIT, directory.path()).unwrap();
    assert!(memory::bound(LIMIT, directory.path()).is_err(), "once in the life of a process");
    let path = directory.path().join("store");
    let mut random = Random(7);

    let engine = open(&path);
    let graph = engine.default_graph();
    let plan = compile(StandingMode::MultipleValues, "MATCH (n:A)-[:half]->(m:A) WHERE n.number % 1000 < 6 RETURN n.number AS n");
    let query = install(&engine, &[plan], Start::WholeGraph, &[]).remove(0);
    engine.start().unwrap();
    let names = names(&graph);
    for first in (0..NODES).step_by(BATCH as usize) {
        memory::wait_for_room();
        graph.apply(mutations(&names, first), 1).unwrap();
        if first == NODES / 2 {
            graph.wait_visible().unwrap();
            check(&graph, first + BATCH, &mut random);
        }
    }
    graph.wait_visible().unwrap();
    check(&graph, NODES, &mut random);
    let matching = |n: &u64| n.is_multiple_of(3) && (n / 2).is_multiple_of(3) && n % 1000 < 6;
    let found: i64 = collect(&query, graph.next()).values().flat_map(|rows| rows.values()).sum();
    assert_eq!(found, (1..NODES).filter(matching).count() as i64);
    let figures = memory::figures().unwrap();
    assert!(figures.file_bytes > LIMIT * 2, "the graph is larger than memory: {figures:?}");
    drop(query);
    engine.shutdown().unwrap();
    drop(graph);
    drop(engine);

    let engine = open(&path);
    engine.start().unwrap();
    check(&engine.default_graph(), NODES, &mut random);
    let figures = memory::figures().unwrap();
    assert!(figures.file_bytes > LIMIT * 2, "also after a restart: {figures:?}");
    engine.shutdown().unwrap();
    // Where every core is busy, reads of what has left bring back more than is looked after in time.
    let peak = peak_bytes();
    assert!(peak < LIMIT * 2, "{peak} bytes were in memory, {LIMIT} are allowed");
}
