//! Pages: runs built from stretches of the log hold, put together, what the log makes of nothing.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{NODES, concatenate, node, own_time, random_records};
use weir_engine::arrangement::build::Shard;
use weir_engine::arrangement::chunk::Chunk;
use weir_engine::arrangement::{Facts, pages};
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{Entry, GraphId, InMemory};
use weir_engine::view::{Direction, View};
use weir_engine::{Engine, Options};
use weir_model::mutation::{Kind, Tag};
use weir_model::{Mutations, Symbol, Tick, Value};

#[test]
fn runs_hold_the_newest_state() {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    for seed in [88172645463325252, 2685821657736338717, 77] {
        let records = random_records(seed, 300, &scratch.default_graph());
        let mut reference = ReferenceGraph::new();
        records.iter().for_each(|record| reference.apply_all(record));
        let mut entries = Vec::new();
        for (index, batch) in records.chunks(7).enumerate() {
            let first = Tick(1000 + 10 * index as u64);
            let (sources, delivered) = (Vec::new(), Vec::new());
            let mutations = Arc::new(concatenate(batch));
            entries.push(Entry {
                graph: GraphId(1),
                first,
                upper: Tick(first.0 + batch.len() as u64),
                mutations,
                sources,
                delivered,
            });
        }
        let upper = entries[entries.len() - 1].upper;
        for stretch in [1, 5, 100] {
            let read = |entries: &[Entry]| {
                let one_time = |mut chunk: Chunk| {
                    chunk.settle();
                    chunk.set_time(upper);
                    chunk
                };
                let written = pages::run(entries).map(|chunk| {
                    let bytes = chunk.write(None).expect("it fits");
                    Chunk::read(&bytes, upper).expect("what was written")
                });
                // A start takes both, what was written and what was not.
                let unwritten = pages::run(entries);
                if entries[0].first.0.is_multiple_of(20) {
                    written.map(one_time).collect::<Vec<_>>()
                } else {
                    unwritten.map(one_time).collect()
                }
            };
            let runs: Vec<_> = entries.chunks(stretch).map(read).collect();
            for count in 1..4 {
                for n in 0..NODES {
                    let shard = Shard { index: node(n).shard(count), count };
                    let base = [pages::newest(&runs, shard, upper)];
                    let facts = Facts::find(&base, node(n));
                    let mut found: Vec<(Symbol, Value)> = Vec::new();
                    facts.properties(upper.0, |key, value| found.push((key, value)));
                    let mut wanted = Vec::new();
                    reference.properties(node(n), &mut |key, value| wanted.push((key, value)));
                    assert_eq!(found, wanted, "properties of node {n} in runs of {stretch} entries");
                    let mut found = Vec::new();
                    facts.edges(Direction::Both, &[], upper.0, &mut |half| found.push(half));
                    let mut wanted = Vec::new();
                    reference.edges(node(n), Direction::Both, &[], &mut |half| wanted.push(half));
                    found.sort();
                    wanted.sort();
                    assert_eq!(found, wanted, "edges of node {n} in runs of {stretch} entries");
                }
            }
        }
    }
}

/// Each `SET n = map` ends what was set before it: what those before have ended is not looked at again.
#[test]
fn a_node_that_is_replaced_often_takes_time_by_how_often() {
    const RECORDS: u32 = 20_000;
    const KEYS: u32 = 5;
    let mut mutations = Mutations::default();
    let mut expected: Vec<(Tag, u64, bool)> = Vec::new();
    for record in 0..RECORDS {
        mutations.start_record(record);
        mutations.clear_properties(node(1));
        // By turns these and others, so that there are removals.
        for key in 0..KEYS {
            let key = Symbol(key + KEYS * (record % 2));
            mutations.set_property(node(1), key, &Value::Integer(i64::from(record)));
            let (tag, tick) = (Tag::new(Kind::Property, key), u64::from(record));
            expected.push((tag, tick, true));
            if record + 1 < RECORDS {
                expected.push((tag, tick + 1, false));
            }
        }
    }
    expected.sort();
    let upper = Tick(u64::from(RECORDS));
    let (sources, delivered) = (Vec::new(), Vec::new());
    let entry = Entry { graph: GraphId(1), first: Tick(0), upper, mutations: Arc::new(mutations), sources, delivered };
    let began = own_time();
    let chunks: Vec<Chunk> = pages::run(&[entry]).collect();
    let took = own_time() - began;
    let [chunk] = &chunks[..] else { panic!("{} chunks of one node", chunks.len()) };
    let versions = chunk.facts(0).iter().filter(|fact| fact.tag.kind() == Kind::Property);
    let found: Vec<_> = versions.map(|fact| (fact.tag, chunk.segment().time(fact), fact.adds())).collect();
    assert!(found == expected, "{} versions where there are {}", found.len(), expected.len());
    // It was half a minute and more.
    assert!(took < Duration::from_secs(5), "{took:?}");
}
