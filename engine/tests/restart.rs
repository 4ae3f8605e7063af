//! Restarts: whatever was under way when the process ended, the graph holds what was acknowledged, and every output
//! that can be cut back to a position has each result once.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(feature = "rocks-db")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{NODES, QUERIES, Random, Rows, concatenate, expected, install, node, plans, random_records, share_symbols};
use weir_cypher_compiler::StandingMode;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{InMemory, RocksDb, RocksDbOptions, Store};
use weir_engine::view::{Direction, View};
use weir_engine::{Engine, EngineError, Graph, GraphOptions, Ingester, Options, StandingQuery, Start, checkpoint};
use weir_model::{Mutations, Position, Tick, Value};

const OUTPUT: &str = "file";

/// What a file output would hold: it can be cut back to a length.
#[derive(Default)]
struct File {
    lines: Vec<(Tick, bool, Vec<Value>)>,
}

fn open(path: &Path, workers: usize) -> Engine {
    open_with_store(path, workers).1
}

fn open_with_store(path: &Path, workers: usize) -> (Arc<RocksDb>, Engine) {
    // An engine that just ends may be let go by a thread of its own, a moment later.
    let begun = std::time::Instant::now();
    let store = loop {
        match RocksDb::open(RocksDbOptions::new(path)) {
            Ok(store) => break Arc::new(store),
            Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let engine = Engine::open(store.clone(), Options { workers, ..Options::default() }).expect("a sound store");
    (store, engine)
}

/// Takes results until everything before `upper` is in, writing each down and, as far as `note` says, noting the place.
fn deliver(query: &StandingQuery, file: &mut File, upper: Tick, note: impl Fn(Tick) -> bool) {
    let (from, _) = query.delivered(OUTPUT).expect("a known output");
    loop {
        let batch = query.next(Duration::from_secs(20)).expect("a living query").expect("results within 20 s");
        let rows = batch.rows.iter().filter(|row| row.tick >= from);
        file.lines.extend(rows.map(|row| (row.tick, row.positive, row.row.0.to_vec())));
        if note(batch.upper) {
            let position = Position((file.lines.len() as u64).to_le_bytes().to_vec());
            query.set_delivered(OUTPUT, batch.upper.max(from), position, true);
        }
        if batch.upper >= upper {
            return;
        }
    }
}

fn cut_back(query: &StandingQuery, file: &mut File) {
    let (_, position) = query.delivered(OUTPUT).expect("a known output");
    let length = position.0.try_into().map_or(0, u64::from_le_bytes);
    file.lines.truncate(length as usize);
}

fn run(seed: u64) {
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed, 300, &scratch.default_graph());
    let plans = plans();
    let expected = expected(&plans, &records, &scratch);
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random(seed ^ 0x5555);
    let mut files: Vec<File> = plans.iter().map(|_| File::default()).collect();
    let mut ticks: Vec<Tick> = Vec::new();
    let (mut lives, mut ahead) = (0, 0);

    while ticks.len() < records.len() {
        lives += 1;
        let engine = open(directory.path(), 1 + random.below(3) as usize);
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let start = if lives == 1 { Start::WholeGraph } else { Start::Resume };
        let queries = install(&engine, &plans, start, &[OUTPUT]);
        queries.iter().zip(&mut files).for_each(|(query, file)| cut_back(query, file));
        // Reads are right before the standing queries are where the graph is, and nothing is written.
        if random.below(2) == 0 {
            let is_behind = graph.next() < graph.known_end();
            engine.open_reads().unwrap();
            same_graph(&graph, &records[..ticks.len()]);
            if let Some(middle) = ticks.get(ticks.len() / 2) {
                let moment = graph.at(*middle).unwrap();
                same_view(moment.view(), &records[..=ticks.len() / 2]);
                assert!(moment.take_failure().is_none());
            }
            if is_behind {
                ahead += 1;
                assert!(matches!(graph.apply(records[0].clone(), 1), Err(EngineError::Starting)));
            }
        }
        engine.start().unwrap();
        same_graph(&graph, &records[..ticks.len()]);
        assert!(ticks.last().map_or(Tick::ZERO, |tick| tick.next()) <= graph.next(), "a commit was lost");

        let until = ticks.len() + 1 + random.below(60) as usize;
        while ticks.len() < until.min(records.len()) {
            let count = (1 + random.below(12) as usize).min(records.len() - ticks.len());
            let batch = concatenate(&records[ticks.len()..ticks.len() + count]);
            let upper = graph.apply(batch, count).unwrap();
            ticks.extend((0..count).map(|i| Tick(upper.0 - count as u64 + i as u64)));
        }
        let upper = ticks.last().unwrap().next();
        graph.wait_durable(upper).unwrap();
        // Some outputs are up to date, some have stopped noting where they are somewhere on the way, some never began; in some
        // lives none is behind.
        let none_behind = ticks.len() == records.len() || random.below(2) == 0;
        for (query, file) in queries.iter().zip(&mut files) {
            let stop = match random.below(3) {
                _ if none_behind => Tick::MAX,
                0 => Tick::ZERO,
                1 => ticks[random.below(ticks.len() as u64) as usize],
                _ => Tick::MAX,
            };
            deliver(query, file, upper, |at| at <= stop);
        }
        if random.below(2) == 0 {
            let delivered = queries.iter().filter_map(|query| query.delivered(OUTPUT)).map(|(tick, _)| tick).min().unwrap();
            checkpoint::make(&graph, delivered.min(upper)).unwrap();
        }
        same_graph(&graph, &records[..ticks.len()]);
        // Where the outputs stand is in the log by then, or not.
        std::thread::sleep(Duration::from_millis(random.below(2) * 60));
        // In half of the lives the process just ends.
        if random.below(2) == 0 {
            engine.shutdown().unwrap();
        }
    }
    assert!(lives > 3 && ahead > 0, "{lives} lives, {ahead} of them with reads ahead");
    for (index, file) in files.iter().enumerate() {
        let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
        for (tick, positive, row) in &file.lines {
            *found.entry(*tick).or_default().entry(row.clone()).or_default() += if *positive { 1 } else { -1 };
        }
        for (record, tick) in ticks.iter().enumerate() {
            let what = QUERIES[index].1;
            assert_eq!(found.remove(tick), expected[index].get(&record).cloned(), "{what}: record {record} of seed {seed}");
        }
        assert!(found.is_empty(), "results at ticks that no record has: {found:?}");
    }
}

/// The graph is what the records make of nothing.
fn same_graph(graph: &weir_engine::Graph, records: &[Mutations]) {
    graph.wait_visible().unwrap();
    same_view(&graph.snapshot(), records);
}

fn same_view(view: &dyn View, records: &[Mutations]) {
    let mut reference = ReferenceGraph::new();
    records.iter().for_each(|record| reference.apply_all(record));
    for n in 0..NODES {
        let describe = |view: &dyn View| {
            let mut found = Vec::new();
            view.labels(node(n), &mut |label| found.push(format!("label {label:?}")));
            view.properties(node(n), &mut |key, value| found.push(format!("{key:?} = {value:?}")));
            view.edges(node(n), Direction::Both, &[], &mut |half| found.push(format!("{half:?}")));
            found.sort();
            found
        };
        assert_eq!(describe(view), describe(&reference), "node {n}");
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_repeated() {
    for seed in [88172645463325252, 2685821657736338717] {
        run(seed);
    }
}

/// However often the process ends before an output has them, the first results are the same again: all that there was when the
/// query came, at the tick before it, and then what came of each record.
#[test]
fn first_results_are_of_the_graph_that_there_was() {
    const BEFORE: usize = 120;
    for seed in [1181783497276652981, 88172645463325252, 5] {
        let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let records = random_records(seed, 200, &scratch.default_graph());
        let (plans, mut random) = (plans(), Random(seed));
        let expected = expected(&plans, &records, &scratch);
        let directory = tempfile::tempdir().unwrap();
        let (mut ticks, mut begun): (Vec<Tick>, _) = (Vec::new(), Tick::ZERO);
        let mut before: Vec<File> = plans.iter().map(|_| File::default()).collect();
        for life in 0..5 {
            let engine = open(directory.path(), 1 + random.below(3) as usize);
            let graph = engine.default_graph();
            share_symbols(&scratch.default_graph(), &graph);
            let apply = |ticks: &mut Vec<Tick>, until: usize| {
                while ticks.len() < until {
                    ticks.push(Tick(graph.apply(records[ticks.len()].clone(), 1).unwrap().0 - 1));
                }
                graph.wait_durable(graph.next()).unwrap();
            };
            let queries = if life == 0 {
                engine.start().unwrap();
                apply(&mut ticks, BEFORE / 2);
                if random.below(2) == 0 {
                    checkpoint::make(&graph, graph.durable()).unwrap();
                }
                apply(&mut ticks, BEFORE);
                begun = graph.next();
                install(&engine, &plans, Start::WholeGraph, &[OUTPUT])
            } else {
                let queries = install(&engine, &plans, Start::Resume, &[OUTPUT]);
                engine.start().unwrap();
                queries
            };
            let until = ticks.len() + 15;
            apply(&mut ticks, until);
            let needed = queries.iter().filter_map(StandingQuery::needs_from).min().unwrap();
            checkpoint::make(&graph, needed).unwrap();
            for (query, before) in queries.iter().zip(&mut before) {
                let mut file = File::default();
                deliver(query, &mut file, ticks[until - 1].next(), |_| false);
                assert_eq!(file.lines[..before.lines.len()], before.lines, "life {life} of seed {seed}");
                *before = file;
            }
            same_graph(&graph, &records[..until]);
            if random.below(2) == 0 {
                engine.shutdown().unwrap();
            }
        }
        for (index, file) in before.iter().enumerate() {
            let mut found: BTreeMap<Tick, Rows> = BTreeMap::new();
            for (tick, positive, row) in &file.lines {
                *found.entry(*tick).or_default().entry(row.clone()).or_default() += if *positive { 1 } else { -1 };
            }
            let mut there = Rows::default();
            for (row, count) in expected[index].range(..BEFORE).flat_map(|(_, rows)| rows) {
                *there.entry(row.clone()).or_default() += count;
            }
            there.retain(|_, count| *count != 0);
            let what = QUERIES[index].1;
            assert_eq!(found.remove(&Tick(begun.0 - 1)).unwrap_or_default(), there, "{what}: first results of seed {seed}");
            for (record, tick) in ticks.iter().enumerate().skip(BEFORE) {
                assert_eq!(found.remove(tick), expected[index].get(&record).cloned(), "{what}: record {record} of seed {seed}");
            }
            assert!(found.is_empty(), "results at ticks that no record has: {found:?}");
        }
    }
}

/// After the end of a process, what all outputs have of the log is read as if a checkpoint had taken it in. Where there were no
/// results to deliver, an entry takes along how far that is known of those before it.
#[test]
fn what_was_delivered_is_not_replayed() {
    for (what, loaded) in [("everything", 100), ("nothing", 0), ("progress", 99)] {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
        let records = random_records(7, 200, &scratch.default_graph());
        let (before, after) = records.split_at(100);
        for life in [1, 2] {
            let engine = open(directory.path(), 2);
            let graph = engine.default_graph();
            share_symbols(&scratch.default_graph(), &graph);
            if life == 2 {
                same_graph(&graph, &before[..loaded]);
            }
            let start = if life == 1 { Start::WholeGraph } else { Start::Resume };
            let query = install(&engine, &plans()[..1], start, &[OUTPUT]).remove(0);
            engine.start().unwrap();
            let records = if life == 1 { before } else { after };
            let (last, others) = records.split_last().unwrap();
            let mut upper = Tick::ZERO;
            for record in others {
                upper = graph.apply(record.clone(), 1).unwrap();
            }
            if what == "progress" {
                query.set_delivered(OUTPUT, upper, Position::default(), false);
                std::thread::sleep(Duration::from_millis(500));
            }
            upper = graph.apply(last.clone(), 1).unwrap();
            deliver(&query, &mut File::default(), upper, |_| false);
            if what == "everything" {
                query.put_output(OUTPUT, upper, Position::default()).unwrap();
            }
        }
        let engine = open(directory.path(), 3);
        engine.start().unwrap();
        same_graph(&engine.default_graph(), &records);
    }
}

/// What was on its way to be made or deleted when the process was killed keeps none of the log.
#[test]
fn for_queries_and_outputs_that_are_no_more_nothing_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(11, 200, &scratch.default_graph());
    let (before, after) = records.split_at(100);
    for life in [1, 2] {
        let engine = open(directory.path(), 2);
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        let (count, start, outputs, records): (_, _, &[&str], _) = match life {
            1 => (2, Start::WholeGraph, &[OUTPUT, "another"], before),
            _ => (1, Start::Resume, &[OUTPUT], after),
        };
        let query = install(&engine, &plans()[..count], start, outputs).remove(0);
        graph.forget_delivery_to_nobody();
        engine.start().unwrap();
        let upper = records.iter().fold(Tick::ZERO, |_, record| graph.apply(record.clone(), 1).unwrap());
        deliver(&query, &mut File::default(), upper, |_| false);
        query.put_output(OUTPUT, upper, Position::default()).unwrap();
    }
    let engine = open(directory.path(), 3);
    // Before anything is replayed.
    same_graph(&engine.default_graph(), &records);
    engine.start().unwrap();
    same_graph(&engine.default_graph(), &records);
}

/// A tenth of what a checkpoint is made for otherwise.
#[test]
fn the_log_of_a_graph_at_rest_becomes_pages() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(RocksDb::open(RocksDbOptions::new(directory.path())).unwrap());
    let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
    engine.start().unwrap();
    let graph = engine.default_graph();
    let key = graph.symbols().intern("x");
    let mut mutations = Mutations::default();
    (0..160_000).for_each(|n| mutations.set_property(node(n), key, &Value::Integer(n as i64)));
    let upper = graph.apply(mutations, 1).unwrap();
    let begun = std::time::Instant::now();
    while store.progress(graph.id()).unwrap().upto < upper {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays in the log");
        std::thread::sleep(Duration::from_millis(20));
    }
    engine.shutdown().unwrap();
}

/// This many entries are enough for a checkpoint of a graph at rest.
const ENTRIES: usize = 600;

fn label(graph: &Graph, number: u64, there: bool) -> Tick {
    let mut record = Mutations::default();
    record.set_label(node(number), graph.symbols().intern("A"), there);
    graph.apply(record, 1).unwrap()
}

/// The checkpoint of a graph at rest, as soon as all is durable.
fn put_into_pages(graph: &Graph) {
    graph.wait_durable(graph.next()).unwrap();
    checkpoint::consider(graph, true).unwrap();
}

/// Takes what comes before a tick, but for what an output that goes on from `from` skips.
fn come(query: &StandingQuery, from: Tick, upper: Tick) -> Vec<bool> {
    let mut found = Vec::new();
    loop {
        let batch = query.next(Duration::from_secs(20)).unwrap().expect("results within 20 s");
        found.extend(batch.rows.iter().filter(|row| row.tick >= from).map(|row| row.positive));
        if batch.upper >= upper {
            return found;
        }
    }
}

/// The last entry before it only says that a source is gone, and is no work for those who maintain queries.
#[test]
fn what_a_query_has_told_or_holds_when_pages_are_made_is_no_news_after_a_restart() {
    for what in ["held", "told", "followed"] {
        let directory = tempfile::tempdir().unwrap();
        let plans = [common::compile(StandingMode::MultipleValues, "MATCH (n:A) RETURN id(n) AS id")];
        let outputs: &[&str] = if what == "followed" { &[] } else { &[OUTPUT] };
        {
            let (store, engine) = open_with_store(directory.path(), 2);
            // Without `start` nobody makes a checkpoint but this test.
            let graph = engine.default_graph();
            let early = (what == "followed").then(|| install(&engine, &plans, Start::WholeGraph, outputs).remove(0));
            for n in 1..=3 {
                label(&graph, n, true);
            }
            let upper = (0..ENTRIES).fold(Tick::ZERO, |_, _| graph.apply(Mutations::default(), 1).unwrap());
            if let Some(query) = &early {
                assert_eq!(come(query, Tick::ZERO, upper).len(), 3);
            }
            graph.forget_source("source").unwrap();
            let end = graph.next();
            put_into_pages(&graph);
            let upto = store.progress(graph.id()).unwrap().upto;
            assert!(end <= upto && upto <= graph.sent(), "{what}: {upto:?} of {end:?}, {:?}", graph.sent());
            let start = if what == "held" { Start::Now } else { Start::WholeGraph };
            let query = early.unwrap_or_else(|| install(&engine, &plans, start, outputs).remove(0));
            let (sent, count) = (graph.sent(), if what == "told" { 3 } else { 0 });
            let from = query.delivered(OUTPUT).map(|(from, _)| from).unwrap_or_default();
            assert_eq!(come(&query, from, sent).len(), count, "{what}");
            match what {
                "followed" => {
                    query.keep_followed(sent, Position::default(), true);
                    query.log_noted().unwrap();
                }
                _ => query.put_output(OUTPUT, sent, Position::default()).unwrap(),
            }
        }
        let engine = open(directory.path(), 2);
        let graph = engine.default_graph();
        let query = install(&engine, &plans, Start::Resume, outputs).remove(0);
        engine.start().unwrap();
        let (from, _) = query.delivered(OUTPUT).or_else(|| query.followed()).expect("it is known");
        let upper = label(&graph, 4, true);
        assert_eq!(come(&query, from, upper), [true], "{what}: only what is new");
        engine.shutdown().unwrap();
    }
}

/// As by a weir that is built without what its output needs.
#[test]
fn for_a_query_that_a_start_does_not_restore_the_log_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let plans = [common::compile(StandingMode::MultipleValues, "MATCH (n:A) RETURN id(n) AS id")];
    let mut told = Tick::ZERO;
    for life in 1..=4 {
        let (store, engine) = open_with_store(directory.path(), 2);
        let graph = engine.default_graph();
        let upto = || store.progress(graph.id()).unwrap().upto;
        match life {
            1 => {
                engine.start().unwrap();
                let query = install(&engine, &plans, Start::WholeGraph, &[OUTPUT]).remove(0);
                told = label(&graph, 1, true);
                assert_eq!(come(&query, Tick::ZERO, told), [true]);
                query.put_output(OUTPUT, told, Position::default()).unwrap();
            }
            2 => {
                // It was tried.
                let query = install(&engine, &plans, Start::Resume, &[OUTPUT]).remove(0);
                graph.put_standing_off(query.id());
                engine.start().unwrap();
                label(&graph, 1, false);
                label(&graph, 2, true);
                for _ in 0..ENTRIES {
                    graph.apply(Mutations::default(), 1).unwrap();
                }
                put_into_pages(&graph);
                assert!(upto() <= told, "{:?} of {told:?}", upto());
            }
            3 => {
                let query = install(&engine, &plans, Start::Resume, &[OUTPUT]).remove(0);
                graph.forget_delivery_to_nobody();
                engine.start().unwrap();
                let (from, _) = query.delivered(OUTPUT).expect("a known output");
                assert_eq!(from, told);
                assert_eq!(come(&query, from, graph.sent()), [false, true], "what came meanwhile, and nothing again");
            }
            _ => {
                engine.start().unwrap();
                put_into_pages(&graph);
                assert!(upto() <= told, "{:?} of {told:?}", upto());
                // There is no such query any more.
                graph.forget_delivery_to_nobody();
                put_into_pages(&graph);
                assert!(upto() > told);
            }
        }
    }
}

#[test]
fn the_graph_model_stays_with_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let open = |graph: Option<GraphOptions>| {
        let store = RocksDb::open(RocksDbOptions::new(directory.path())).expect("the directory is free");
        Engine::open(Arc::new(store), Options { workers: 1, graph, ..Options::default() })
    };
    let model = |open_cypher| Some(GraphOptions { open_cypher });
    assert!(open(model(true)).unwrap().default_graph().open_cypher());
    assert!(open(None).unwrap().default_graph().open_cypher());
    let refused = open(model(false)).err().expect("another model is not what the store has");
    assert!(refused.to_string().contains("`open-cypher`, not `streaming`"), "{refused}");
}

/// How far the outputs of queries and the sources were, a checkpoint keeps; not of those that are gone.
#[test]
fn of_what_is_gone_nothing_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let plans = plans();
    for (life, checkpoints) in [(0, true), (1, false), (2, true)] {
        let store = Arc::new(RocksDb::open(RocksDbOptions::new(directory.path())).unwrap());
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        let kept = || {
            if checkpoints {
                graph.wait_durable(graph.next()).unwrap();
                checkpoint::make(&graph, graph.durable()).unwrap();
            }
            let progress = store.progress(graph.id()).unwrap();
            (progress.delivered.len(), progress.sources.len())
        };
        let start = if life == 0 { Start::WholeGraph } else { Start::Resume };
        let queries = install(&engine, &plans[..1 + usize::from(life < 2)], start, &[OUTPUT, "another"]);
        if life == 2 {
            // What went in a life without a checkpoint, the log says.
            assert_eq!(graph.position("source"), None);
            assert_eq!(queries[0].delivered(OUTPUT), Some((Tick(7), Position(vec![1]))));
            assert_eq!(queries[0].delivered("another"), Some((Tick::ZERO, Position::default())));
        }
        engine.start().unwrap();
        let write = graph.prepare(common::ad_hoc("MATCH (n) WHERE id(n) = idFrom($that) SET n.x = $that"));
        let record = [Value::Integer(life)];
        Ingester::new(graph.clone(), write.clone()).ingest(&record, Some(("source", Position(vec![7])))).unwrap();
        queries.iter().for_each(|query| query.set_delivered(OUTPUT, Tick(7), Position(vec![1]), true));
        if life == 0 {
            assert_eq!(kept(), (6, 1), "of two queries with two outputs and a beginning, and of a source");
        } else if life == 1 {
            graph.drop_standing(queries[1].id());
            queries[0].remove_output("another");
            graph.forget_source("source").unwrap();
            kept();
        } else {
            graph.forget_source("source").unwrap();
            assert_eq!(kept(), (2, 0), "{:?}", store.progress(graph.id()).unwrap());
            graph.drop_standing(queries[0].id());
            Ingester::new(graph.clone(), write).ingest(&record, None).unwrap();
            assert_eq!(kept(), (0, 0));
        }
        engine.shutdown().unwrap();
    }
}
