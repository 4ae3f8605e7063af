//! The end of a worker that panics, which is that of the process. So it happens in one of its own: this test once more.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use std::os::unix::process::ExitStatusExt;
use std::process::Command as Process;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_engine::arrangement::Published;
use weir_engine::command::{Base, Command};
use weir_engine::store::{Entry, GraphId};
use weir_engine::worker::Workers;
use weir_model::{Mutations, Tick};

const PANICS: &str = "WEIR_TEST_WORKER_PANICS";

/// A worker that ended alone left a process that said it was ready and answered no read.
#[test]
fn a_process_ends_with_its_worker() {
    if std::env::var_os(PANICS).is_some() {
        return hand_over_out_of_order();
    }
    let mut again = Process::new(std::env::current_exe().unwrap());
    let ended = again.args(["--exact", "a_process_ends_with_its_worker", "--nocapture"]).env(PANICS, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.signal().is_some(), "{} {said}", ended.status);
    assert!(said.contains("entries come in the order of ticks"), "{said}");
}

fn hand_over_out_of_order() {
    let workers = Workers::start(2).unwrap();
    let graph = GraphId(1);
    let published = Arc::new(Published::new(workers.count()));
    workers.send(&Command::CreateGraph { graph, published, base: Arc::new(Base { shards: Vec::new(), upper: Tick(10) }) });
    // Two that may become one batch.
    for first in [20, 15] {
        let (first, upper, mutations) = (Tick(first), Tick(first + 1), Arc::new(Mutations::default()));
        workers.send(&Command::Apply(Arc::new(Entry {
            graph,
            first,
            upper,
            mutations,
            sources: Vec::new(),
            delivered: Vec::new(),
        })));
    }
    std::thread::sleep(Duration::from_secs(20));
    workers.stop(&Mutex::new(()));
}
