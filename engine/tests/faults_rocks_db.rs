//! Faults in the files of RocksDB, from a printed seed: what opens is the graph as it was at some moment of what was committed,
//! now and in its past, or it is refused. A directory is written by an engine that ends as a killed process does, and copied;
//! then, of one of its files,
//!
//! - the end is missing (a torn write), or is zeros;
//! - some bits have changed;
//! - or the whole file has.
//!
//! Nothing takes back what was acknowledged, for power was not lost. `WEIR_FAULT_SEEDS=from..to` runs a longer campaign.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(feature = "rocks-db")]

mod common;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use common::{Random, concatenate, describe, random_records, share_symbols};
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{InMemory, RocksDb, RocksDbOptions};
use weir_engine::{Engine, EngineError, Options, checkpoint};
use weir_model::Tick;
use weir_model::random::STEP;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Cut,
    Zeros,
    Flips,
    Gone,
}

#[derive(Default, Debug)]
struct Tally {
    right: u32,
    refused: u32,
}

fn files(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
    found.sort();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), &target).unwrap()),
        }
    }
}

/// The files with their lengths and when they were written to.
fn written_when(of: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    files(of, &mut found);
    let of_file = |file: PathBuf| {
        let metadata = fs::metadata(&file).ok()?;
        Some((file, metadata.len(), metadata.modified().unwrap()))
    };
    found.into_iter().filter_map(of_file).collect()
}

/// As they are at one moment: what is written to meanwhile is copied once more.
fn copy_at_rest(from: &Path, to: &Path) {
    let begun = Instant::now();
    loop {
        let before = written_when(from);
        // Of a try before this one there may be what is gone now.
        let _ = fs::remove_dir_all(to);
        fs::create_dir_all(to).unwrap();
        let copied = before.iter().try_for_each(|(file, ..)| {
            let target = to.join(file.strip_prefix(from).unwrap());
            fs::create_dir_all(target.parent().unwrap())?;
            fs::copy(file, target).map(drop)
        });
        if copied.is_ok() && written_when(from) == before {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it is written to all the time: {copied:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What was committed, and where it lies.
struct Written {
    states: Vec<String>,
    ticks: Vec<Tick>,
    directory: tempfile::TempDir,
}

fn write(seed: u64) -> Written {
    let mut random = Random(seed.wrapping_mul(STEP) | 1);
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed | 1, 60, &scratch.default_graph());
    let mut reference = ReferenceGraph::default();
    let mut states = vec![describe(&reference)];
    for record in &records {
        reference.apply_all(record);
        states.push(describe(&reference));
    }
    let directory = tempfile::tempdir().unwrap();
    let mut ticks = Vec::new();
    let live = directory.path().join("live");
    for part in records.chunks(30) {
        let store = Arc::new(RocksDb::open(RocksDbOptions::new(&live)).unwrap());
        let engine = Engine::open(store.clone(), Options { workers: 1, ..Options::default() }).unwrap();
        let graph = engine.default_graph();
        share_symbols(&scratch.default_graph(), &graph);
        engine.start().unwrap();
        for record in part {
            let upper = graph.apply(concatenate(std::slice::from_ref(record)), 1).unwrap();
            ticks.push(Tick(upper.0 - 1));
            graph.wait_durable(upper).unwrap();
            if random.below(12) == 0 {
                checkpoint::make(&graph, graph.durable()).unwrap();
            }
            if random.below(20) == 0 {
                while graph.history().tend(&std::sync::atomic::AtomicBool::new(false)).unwrap() {}
            }
        }
        // Without an end, as by `kill -9`.
        copy_at_rest(&live, &directory.path().join("killed"));
        drop((graph, engine));
        // A thread that was at work lets go of the store a moment later.
        while Arc::strong_count(&store) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Written { states, ticks, directory }
}

fn damage(file: &Path, fault: Fault, random: &mut Random) {
    let mut bytes = fs::read(file).unwrap();
    let at = random.below(bytes.len().max(1) as u64) as usize;
    match fault {
        Fault::Gone => return fs::remove_file(file).unwrap(),
        Fault::Cut => bytes.truncate(at),
        Fault::Zeros => bytes[at..].fill(0),
        Fault::Flips => {
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
    fs::write(file, bytes).unwrap();
}

fn open(at: &Path, moment: Tick) -> Result<(String, Option<String>), EngineError> {
    let store = RocksDb::open(RocksDbOptions::new(at))?;
    let engine = Engine::open(Arc::new(store), Options { workers: 1, ..Options::default() })?;
    engine.start()?;
    let graph = engine.default_graph();
    graph.wait_visible()?;
    let present = describe(&graph.snapshot());
    // What was lost at the end of a log has no past either.
    if graph.next() <= moment {
        return Ok((present, None));
    }
    let moment = graph.at(moment)?;
    let past = describe(moment.view());
    moment.take_failure().map_or(Ok((present, Some(past))), Err)
}

fn run(seed: u64, written: &Written, tally: &mut Tally) {
    let mut random = Random(seed.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
    let at = written.directory.path().join(format!("run-{seed}"));
    copy(&written.directory.path().join("killed"), &at);
    let mut found = Vec::new();
    files(&at, &mut found);
    // The log of RocksDB's own words and the marks of who uses it are not looked at.
    found.retain(|file| !["LOG", "LOCK", "weir-lock"].contains(&&*file.file_name().unwrap().to_string_lossy()));
    found.retain(|file| {
        fs::metadata(file).unwrap().len() > 0 && !file.file_name().unwrap().to_string_lossy().starts_with("LOG.old")
    });
    let file = found[random.below(found.len() as u64) as usize].clone();
    let fault = [Fault::Cut, Fault::Zeros, Fault::Flips, Fault::Gone][random.below(4) as usize];
    damage(&file, fault, &mut random);
    let name = file.strip_prefix(&at).unwrap().display().to_string();
    let middle = random.below(written.ticks.len() as u64) as usize;
    let opened = catch_unwind(AssertUnwindSafe(|| open(&at, written.ticks[middle])));
    let place = format!("seed {seed}: {fault:?} of {name}");
    match opened {
        Err(_) => panic!("{place}: a panic"),
        Ok(Err(_)) => tally.refused += 1,
        Ok(Ok((present, past))) => {
            let state = written.states.iter().rposition(|state| *state == present);
            let Some(state) = state else { panic!("{place}: a graph that never was") };
            if let Some(past) = past {
                assert_eq!(past, written.states[middle + 1], "{place}: another past");
            }
            let last = written.states.iter().rposition(|other| *other == written.states[written.states.len() - 1]);
            assert!(Some(state) == last, "{place}: only {state} of {last:?} are left");
            tally.right += 1;
        }
    }
    // A thread that was at work may write its last file yet.
    let begun = Instant::now();
    while let Err(error) = fs::remove_dir_all(&at) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{place}: {error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn damaged_files_give_a_graph_there_was_or_a_refusal() {
    let given = std::env::var("WEIR_FAULT_SEEDS").ok();
    let range = given.as_deref().and_then(|text| text.split_once("..")).map(|(from, to)| (from.parse(), to.parse()));
    let (from, to): (u64, u64) = if let Some((Ok(from), Ok(to))) = range { (from, to) } else { (1, 60) };
    let mut tally = Tally::default();
    let mut written = write(from);
    for seed in from..to {
        if seed % 20 == 0 {
            written = write(seed);
        }
        run(seed, &written, &mut tally);
    }
    eprintln!("seeds {from}..{to}: {tally:?}");
    assert!(tally.right > 0 && tally.refused > 0);
}
