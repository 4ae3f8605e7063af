//! Faults below RocksDB while it runs, from a printed seed: each run ends in a graph that is right, or in a clear refusal.
//!
//! Records are written, with checkpoints, merges and ends in between, until a fault of the disk strikes (`disk::Fault`). Then
//! weir starts on what is left, while the disk misreads, is full, or gives no more files; and once more when the disk is sound.
//! Each of the starts is refused or holds a prefix of what was committed, now and in its past. The last is never refused, for no
//! byte was changed. With `sync_all_writes`, or where power was not lost, all that was acknowledged is there.
//!
//! `WEIR_FAULT_SEEDS=from..to` runs a longer campaign.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]
#![cfg(feature = "rocks-db")]

mod common;
mod disk;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{Random, concatenate, describe, random_records, share_symbols};
use disk::Fault;
use weir_engine::reference::ReferenceGraph;
use weir_engine::store::{InMemory, RocksDb, RocksDbOptions, StoreError, check};
use weir_engine::{Engine, EngineError, Options, checkpoint};
use weir_model::random::STEP;
use weir_model::{Mutations, Tick};

const RECORDS: usize = 40;

const PROCESSES: u64 = 8;
const SEEDS_BY_PROCESS_MIN: u64 = 4;

/// How long the threads of an engine may take to let go of its store.
const CLOSED_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Default, Debug)]
struct Tally {
    /// Of the runs, those in which the fault struck while records were written.
    struck: u32,
    /// Of the starts on a failing disk.
    right: u32,
    refused: u32,
    /// Acknowledged, and not there after a loss of power; never with `sync_all_writes`.
    shorter: u32,
}

/// What was committed: states before and after each record, their ticks as far as they are known.
struct Story {
    records: Vec<Mutations>,
    states: Vec<String>,
    ticks: Vec<Tick>,
    acknowledged: usize,
}

/// Opens the store. The threads of an engine that has gone let go of it a moment later.
fn open(at: &Path, sync: bool) -> Result<RocksDb, StoreError> {
    let deadline = Instant::now() + CLOSED_TIME_MAX;
    loop {
        match RocksDb::open(RocksDbOptions { sync_all_writes: sync, ..RocksDbOptions::new(at) }) {
            Err(StoreError::Locked { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_micros(200)),
            opened => return opened,
        }
    }
}

/// Opens the store and works on it. Nobody has it any more by the end: what is there then is looked at.
fn with_engine<T>(at: &Path, sync: bool, work: impl FnOnce(&Engine) -> Result<T, EngineError>) -> Result<T, EngineError> {
    let options = Options { workers: 1, sync_all_writes: sync, ..Options::default() };
    let store = Arc::new(open(at, sync)?);
    let done = Engine::open(store.clone(), options).and_then(|engine| work(&engine));
    let deadline = Instant::now() + CLOSED_TIME_MAX;
    while Arc::strong_count(&store) > 1 {
        assert!(Instant::now() < deadline, "somebody holds the store");
        std::thread::sleep(Duration::from_micros(200));
    }
    done
}

fn write(
    at: &Path,
    sync: bool,
    random: &mut Random,
    scratch: &Engine,
    story: &mut Story,
    fault: Fault,
) -> Result<(), EngineError> {
    let armed_at = random.below(RECORDS as u64) as usize;
    let mut armed = false;
    while story.acknowledged < RECORDS {
        with_engine(at, sync, |engine| {
            let graph = engine.default_graph();
            share_symbols(&scratch.default_graph(), &graph);
            engine.start()?;
            while story.acknowledged < RECORDS {
                let done = story.acknowledged;
                if done >= armed_at && !armed {
                    disk::arm(fault, 1 + random.below(12));
                    armed = true;
                }
                let count = (1 + random.below(6) as usize).min(RECORDS - done);
                let upper = graph.apply(concatenate(&story.records[done..done + count]), count)?;
                story.ticks.truncate(done);
                story.ticks.extend((0..count as u64).rev().map(|back| Tick(upper.0 - 1 - back)));
                graph.wait_durable(upper)?;
                story.acknowledged = done + count;
                if random.below(4) == 0 {
                    checkpoint::make(&graph, graph.durable())?;
                }
                if random.below(6) == 0 {
                    while graph.history().tend(&AtomicBool::new(false))? {}
                }
                if random.below(8) == 0 {
                    break;
                }
            }
            if random.below(2) == 0 { engine.shutdown() } else { Ok(()) }
        })?;
    }
    Ok(())
}

/// The graph as it is, and as it was at `moment` if that is not missing at its end.
fn read(at: &Path, moment: Option<Tick>, sound: bool) -> Result<(String, Option<String>), EngineError> {
    with_engine(at, false, |engine| {
        engine.start()?;
        let graph = engine.default_graph();
        graph.wait_visible()?;
        let present = describe(&graph.snapshot());
        let past = match moment.filter(|moment| *moment < graph.next()) {
            None => None,
            Some(moment) => {
                let moment = graph.at(moment)?;
                let past = describe(moment.view());
                if let Some(error) = moment.take_failure() {
                    return Err(error);
                }
                Some(past)
            }
        };
        engine.shutdown()?;
        Ok((present, past))
    })
    .inspect(|_| {
        if sound {
            let checked = check(&open(at, false).unwrap(), &mut |_| ());
            assert!(checked.damage.is_empty(), "{:?}", checked.damage);
        }
    })
}

fn run(seed: u64, tally: &mut Tally) {
    let mut random = Random(seed.wrapping_mul(STEP) | 1);
    let scratch = Engine::open(Arc::new(InMemory::default()), Options { workers: 1, ..Options::default() }).unwrap();
    let records = random_records(seed | 1, RECORDS, &scratch.default_graph());
    let mut reference = ReferenceGraph::default();
    let mut states = vec![describe(&reference)];
    for record in &records {
        reference.apply_all(record);
        states.push(describe(&reference));
    }
    let mut story = Story { records, states, ticks: Vec::new(), acknowledged: 0 };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);

    let faults = [
        Fault::Full,
        Fault::Torn,
        Fault::ReadOnly,
        Fault::FailedSync,
        Fault::FailedSync,
        Fault::PowerLoss,
        Fault::PowerLoss,
        Fault::ShortRead,
        Fault::FailedRead,
        Fault::NoFiles,
    ];
    let fault = faults[random.below(faults.len() as u64) as usize];
    let sync = random.below(2) == 0;
    std::fs::create_dir(at("first")).unwrap();
    disk::watch(&at("first"), &at("attic-1"));
    let live = catch_unwind(AssertUnwindSafe(|| write(&at("first"), sync, &mut random, &scratch, &mut story, fault)));
    let place = format!("seed {seed}: {fault:?}, sync {sync}, {} acknowledged", story.acknowledged);
    let live = live.unwrap_or_else(|_| panic!("{place}: a panic"));
    let struck = disk::has_struck();
    assert!(struck || live.is_ok(), "{place}: a failure without a fault: {live:?}");
    tally.struck += u32::from(struck);
    let mut power_lost = fault == Fault::PowerLoss || random.below(2) == 0;
    disk::leave(power_lost, &mut random, &at("second"));

    let moment = (story.acknowledged > 0).then(|| random.below(story.acknowledged as u64) as usize);
    let tick = moment.map(|moment| story.ticks[moment]);
    // What was not acknowledged may be there or not, but in order.
    let least = if sync { story.acknowledged } else { 0 };
    let is_right = |(present, past): &(String, Option<String>), least: usize| {
        let is_as_it_was = past.as_ref().is_none_or(|past| Some(past) == moment.map(|moment| &story.states[moment + 1]));
        story.states[least..].contains(present) && is_as_it_was
    };

    let later = [Fault::ShortRead, Fault::FailedRead, Fault::NoFiles, Fault::Full, Fault::PowerLoss, Fault::FailedSync];
    let second = later[random.below(later.len() as u64) as usize];
    let place = format!("{place}, power lost {power_lost}, then {second:?}");
    disk::watch(&at("second"), &at("attic-2"));
    disk::arm(second, 1 + random.below(60));
    let opened = catch_unwind(AssertUnwindSafe(|| read(&at("second"), tick, false)));
    let opened = opened.unwrap_or_else(|_| panic!("{place}: a panic at the start"));
    let struck = disk::has_struck();
    match opened {
        Ok(read) => {
            assert!(is_right(&read, if power_lost { least } else { story.acknowledged }), "{place}: a wrong answer");
            tally.right += 1;
        }
        Err(error) => {
            assert!(struck, "{place}: refused although nothing failed: {error}");
            tally.refused += 1;
        }
    }
    let lost_again = second == Fault::PowerLoss || random.below(2) == 0;
    power_lost |= lost_again;
    disk::leave(lost_again, &mut random, &at("third"));

    let opened = catch_unwind(AssertUnwindSafe(|| read(&at("third"), tick, true)));
    let opened = opened.unwrap_or_else(|_| panic!("{place}: a panic on a sound disk"));
    let opened = opened.unwrap_or_else(|error| panic!("{place}, power lost {power_lost}: refused on a sound disk: {error}"));
    assert!(
        is_right(&opened, if power_lost { least } else { story.acknowledged }),
        "{place}, power lost {power_lost}: a wrong answer"
    );
    tally.shorter += u32::from(!story.states[story.acknowledged..].contains(&opened.0));
}

#[test]
fn each_fault_ends_in_a_right_graph_or_in_a_refusal() {
    let given = std::env::var("WEIR_FAULT_SEEDS").ok();
    let range = given.as_deref().and_then(|text| text.split_once("..")).map(|(from, to)| (from.parse(), to.parse()));
    let (from, to) = if let Some((Ok(from), Ok(to))) = range { (from, to) } else { (1, 60) };
    if to - from > SEEDS_BY_PROCESS_MIN * PROCESSES {
        return side_by_side(from, to);
    }
    let mut tally = Tally::default();
    for seed in from..to {
        run(seed, &mut tally);
    }
    eprintln!("seeds {from}..{to}: {tally:?}");
    assert!(tally.struck > 0);
}

/// A process has one disk, and waits most of the time: for RocksDB, which tries again a second later what a disk refused.
fn side_by_side(from: u64, to: u64) {
    let part = |n: u64| from + (to - from) * n / PROCESSES;
    let start = |n| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--nocapture").env("WEIR_FAULT_SEEDS", format!("{}..{}", part(n), part(n + 1)));
        command.spawn().unwrap()
    };
    let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    let ended: Vec<bool> = processes.into_iter().map(|mut process| process.wait().unwrap().success()).collect();
    assert!(ended.iter().all(|ended| *ended), "one of the processes failed, and says above what and with which seed");
}
