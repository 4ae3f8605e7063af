//! What standing queries that come and go leave on the heap: nothing.
//!
//! Alone in its file: it counts what the whole process holds.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{compile, node};
use weir_cypher_compiler::StandingMode;
use weir_engine::store::InMemory;
use weir_engine::{Engine, EngineError, Graph, Options, Retention, Standing, Start};
use weir_model::{Mutations, NodeId, QueryId, Value};

struct Counting;

static HELD: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "allocators are")]
// SAFETY: all of it is the system's; only the sizes are summed up.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Long enough for a worker on a machine that has other things to do, too.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is held while nothing happens: the workers take queries away after `drop_standing` has answered. More than `expected` is
/// waited for: they may not be done.
fn held_at_rest(expected: i64) -> i64 {
    let mut least = i64::MAX;
    let begun = Instant::now();
    let mut since = begun;
    while since.elapsed() < Duration::from_millis(300) || (least > expected && begun.elapsed() < PATIENCE) {
        let held = HELD.load(Ordering::Relaxed);
        if held < least {
            (least, since) = (held, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
    least
}

fn write(graph: &Graph, n: u64) {
    let mut record = Mutations::default();
    record.set_property(node(1), graph.symbols().intern("x"), &Value::Integer(n as i64 % 2));
    graph.apply(record, 1).unwrap();
}

fn come_and_go(graph: &Graph, start: Start, times: u64, writes: bool) {
    let text = "MATCH (n)-[:r]->(m) WHERE n.x = 1 RETURN n.x, count(m)";
    for n in 0..times {
        let plan = compile(StandingMode::AnyQuery, text);
        let id = QueryId(NodeId::new(n, 12));
        let query = graph.install(Standing { id, plan, cancellations: true, start, outputs: Vec::new() }).unwrap();
        if writes {
            write(graph, n);
        }
        graph.drop_standing(id);
        let gone = Instant::now() + Duration::from_secs(20);
        while !matches!(query.next(Duration::from_millis(1)), Err(EngineError::StandingGone)) {
            assert!(Instant::now() < gone, "the query is still there");
        }
    }
}

#[test]
fn queries_that_come_and_go_leave_nothing_on_the_heap() {
    const TIMES: u64 = 500;
    // Writes are not to be kept either.
    let retention = Retention { journal: false, kept: None };
    let engine = Engine::open(Arc::new(InMemory::default()), Options { workers: 2, retention, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    // More commits than are remembered for the latency of results, and more changes than for `recentNodes`.
    for n in 0..5_000 {
        write(&graph, n);
    }
    for start in [Start::Now, Start::WholeGraph] {
        for writes in [false, true] {
            come_and_go(&graph, start, TIMES, writes);
            let before = held_at_rest(i64::MAX);
            come_and_go(&graph, start, TIMES, writes);
            let left_max = 8 * TIMES as i64;
            let left = held_at_rest(before + left_max) - before;
            assert!(left <= left_max, "{TIMES} queries left {left} B, writes: {writes}");
        }
    }
    engine.shutdown().unwrap();
}
