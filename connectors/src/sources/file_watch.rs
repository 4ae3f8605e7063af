//! Files that somebody writes to, watched for streams that rest at their ends: one thread for all of them, which looks how long
//! they are, and whether they are still what lies at their place.
//!
//! The system could say when a file is written to (inotify), but not on every file system: what another machine writes, it does
//! not see.

use std::sync::{Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};
use weir_model::lock::lock;

use super::file::Opened;
use crate::bell::Call;

/// How soon it is seen that a file has grown, unless there are very many.
const LOOK: Duration = Duration::from_millis(50);

/// Looking takes no more than this part of a core.
const PART_OF_A_CORE: u32 = 100;

struct Watched {
    /// Gone with its stream.
    file: Weak<Opened>,
    length: u64,
    call: Call,
}

#[derive(Default)]
struct Watch {
    files: Vec<Watched>,
    has_thread: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { files: Vec::new(), has_thread: false });

fn watch() -> MutexGuard<'static, Watch> {
    lock(&WATCH)
}

/// Calls once the file has another length than this one, or something has become of it. False: nobody could be found to look.
pub(super) fn call_when_changed(file: Weak<Opened>, length: u64, call: Call) -> bool {
    let mut watch = watch();
    if !watch.has_thread {
        if thread::Builder::new().name("watch files".to_owned()).spawn(look).is_err() {
            return false;
        }
        watch.has_thread = true;
    }
    watch.files.push(Watched { file, length, call });
    true
}

fn look() {
    let mut pause = LOOK;
    loop {
        thread::sleep(pause);
        let began = Instant::now();
        let mut changed = Vec::new();
        let mut all = watch();
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut all.files).into_iter().partition(Watched::is_unchanged);
        all.files = stay;
        changed.extend(go.into_iter().filter(|watched| watched.file.strong_count() > 0).map(|watched| watched.call));
        if all.files.is_empty() && changed.is_empty() {
            all.has_thread = false;
            return;
        }
        drop(all);
        pause = LOOK.max(began.elapsed() * PART_OF_A_CORE);
        changed.into_iter().for_each(|call| call());
    }
}

impl Watched {
    /// One that cannot be looked at is for its stream to tell of.
    fn is_unchanged(&self) -> bool {
        self.file.upgrade().is_some_and(|file| file.length().is_ok_and(|length| length == self.length) && file.fate().is_none())
    }
}
