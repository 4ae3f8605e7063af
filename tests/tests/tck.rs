//! The openCypher TCK, every scenario against the committed list of differences.
//!
//! `UPDATE_EXPECT=1` writes the list anew. `WEIR_TCK_FILTER=temporal` runs what has this in its file or name, and prints each
//! failure in full.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use weir_tests::tck::differences::Differences;
use weir_tests::tck::runner::Runner;
use weir_tests::tck::{self, Scenario};

/// A scenario that is not done by then has failed, and the next ones run without waiting for it.
const SCENARIO_LIMIT: Duration = Duration::from_secs(60);

/// Scenarios of the same form that are part of the project. None of them may fail.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cypher");

const OUTCOMES_WAITING_MAX: usize = 64;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tck-differences.txt");

#[test]
fn the_tck_passes_but_for_the_differences_in_the_list() {
    let Some(folder) = tck::folder() else { return };
    let filter = env::var("WEIR_TCK_FILTER").ok();
    let wanted = |scenario: &Scenario| {
        let name = format!("{} {}", scenario.file, scenario.name).to_lowercase();
        filter.as_ref().is_none_or(|filter| name.contains(&filter.to_lowercase()))
            && !scenario.tags.iter().any(|tag| tag == "@ignore")
    };
    let scenarios: Arc<Vec<Scenario>> = Arc::new(tck::scenarios(&folder).unwrap().into_iter().filter(wanted).collect());
    let list = Differences::parse(&fs::read_to_string(LIST).unwrap_or_default()).unwrap();
    let began = Instant::now();
    let outcomes = run_all(&scenarios, &folder);
    let took = began.elapsed();
    let pairs = || scenarios.iter().zip(outcomes.iter().map(|outcome| outcome.as_deref()));

    if filter.is_some() {
        for (scenario, failure) in pairs().filter_map(|(scenario, failure)| Some((scenario, failure?))) {
            let example = scenario.example.map(|example| format!(" #{example}")).unwrap_or_default();
            println!("\n=== {} {}{example}\n{failure}", scenario.file, scenario.name);
        }
    }
    print_summary(pairs(), &list, took);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(LIST, list.updated(pairs()).write()).unwrap();
        return;
    }
    let verdict = list.compare(pairs());
    for (name, failure) in &verdict.failures {
        println!("\n=== UNEXPECTED FAILURE {name}\n{failure}");
    }
    for name in &verdict.passes {
        println!("=== UNEXPECTED PASS {name}: take it off the list");
    }
    assert!(
        verdict.failures.is_empty() && verdict.passes.is_empty(),
        "{} unexpected failures, {} unexpected passes; UPDATE_EXPECT=1 writes {LIST} anew",
        verdict.failures.len(),
        verdict.passes.len()
    );
}

#[test]
fn our_own_scenarios_pass() {
    let scenarios = Arc::new(tck::scenarios(Path::new(OWN)).unwrap());
    assert!(scenarios.len() > 100, "only {} scenarios", scenarios.len());
    let outcomes = run_all(&scenarios, Path::new(OWN));
    let failures: Vec<String> = (scenarios.iter().zip(outcomes))
        .filter_map(|(scenario, failure)| Some((scenario, failure?)))
        .map(|(Scenario { file, name, example, .. }, failure)| format!("=== {file} {name} {example:?}\n{failure}\n"))
        .collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), scenarios.len(), failures.join("\n"));
}

/// Why each scenario fails; None where it passes. One thread runs them in turn, and is given up and replaced when it hangs.
fn run_all(scenarios: &Arc<Vec<Scenario>>, folder: &Path) -> Vec<Option<String>> {
    let runner = Arc::new(Runner::new(folder).unwrap());
    let mut outcomes: Vec<Option<String>> = Vec::new();
    while outcomes.len() < scenarios.len() {
        let (send, receive) = mpsc::sync_channel(OUTCOMES_WAITING_MAX);
        let (from, runner, all) = (outcomes.len(), runner.clone(), scenarios.clone());
        thread::spawn(move || {
            for scenario in &all[from..] {
                let outcome = catch_unwind(AssertUnwindSafe(|| runner.run(scenario).err()));
                if send.send(outcome.unwrap_or_else(|panic| Some(panic_text(&*panic)))).is_err() {
                    return;
                }
            }
        });
        while outcomes.len() < scenarios.len() {
            match receive.recv_timeout(SCENARIO_LIMIT) {
                Ok(outcome) => outcomes.push(outcome),
                Err(_) => {
                    outcomes.push(Some(format!("failed (it hangs): not done in {SCENARIO_LIMIT:?}")));
                    break;
                }
            }
        }
    }
    outcomes
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("failed (it panics): {}", text.unwrap_or("no message").lines().collect::<Vec<_>>().join(" "))
}

/// By folder: scenarios, passes, differences.
fn print_summary<'a>(outcomes: impl Iterator<Item = (&'a Scenario, Option<&'a str>)>, list: &Differences, took: Duration) {
    let mut folders: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (scenario, failure) in outcomes {
        let folder = scenario.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        // The last in the order of bytes.
        for name in [folder, "~ in all"] {
            let counts = folders.entry(name).or_default();
            counts[0] += 1;
            counts[1] += usize::from(failure.is_none());
            counts[2] += usize::from(list.contains(scenario));
        }
    }
    println!("{:40} {:>9} {:>9} {:>11}", "openCypher TCK", "scenarios", "passed", "differences");
    for (folder, [all, passed, known]) in folders {
        println!("{folder:40} {all:>9} {passed:>9} {known:>11}");
    }
    println!("{:.1} s", took.as_secs_f64());
}
