//! Files that somebody writes to, watched for streams that rest at their ends: one thread for all of them, which looks how long
//! they are, and whether they are still what lies at their place.
//!
//! The system could say when a file is written to (inotify), but not on every file system: what another machine writes, it does
//! not see.

use std::sync::{Mutex, Weak};
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

struct Watch {
    files: Vec<Watched>,
    has_thread: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { files: Vec::new(), has_thread: false });

/// Calls once the file has another length than this one, or something has become of it. False: nobody could be found to look.
pub(super) fn call_when_changed(file: Weak<Opened>, length: u64, call: Call) -> bool {
    let mut watch = lock(&WATCH);
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
        let Some(changed) = look_once(&WATCH, Watched::is_unchanged) else { return };
        pause = LOOK.max(began.elapsed() * PART_OF_A_CORE);
        changed.into_iter().for_each(|call| call());
    }
}

/// Whom to call. None: there is nothing left to look at, and no thread any more that does.
fn look_once(watch: &Mutex<Watch>, is_unchanged: impl FnMut(&Watched) -> bool) -> Option<Vec<Call>> {
    let files = std::mem::take(&mut lock(watch).files);
    // Without the lock: a file system may hang, and whoever wants to rest would wait for it.
    let (stay, go): (Vec<_>, Vec<_>) = files.into_iter().partition(is_unchanged);
    let changed: Vec<_> = go.into_iter().filter(|watched| watched.file.strong_count() > 0).map(|watched| watched.call).collect();
    let mut all = lock(watch);
    // Others may have come meanwhile.
    all.files.extend(stay);
    if all.files.is_empty() && changed.is_empty() {
        all.has_thread = false;
        return None;
    }
    Some(changed)
}

impl Watched {
    /// One that cannot be looked at is for its stream to tell of.
    fn is_unchanged(&self) -> bool {
        self.file.upgrade().is_some_and(|file| file.length().is_ok_and(|length| length == self.length) && file.fate().is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn files_are_looked_at_without_holding_up_who_comes_meanwhile() {
        let path = Path::new("/dev/null");
        let opened = Arc::new(Opened::open(path, path, None, None).unwrap());
        let called = Arc::new(AtomicU64::new(0));
        // Known by their lengths.
        let watched = |length: u64| {
            let called = called.clone();
            let call: Call = Box::new(move || called.store(length, Ordering::Relaxed));
            Watched { file: Arc::downgrade(&opened), length, call }
        };
        let watch = Mutex::new(Watch { files: vec![watched(1), watched(2)], has_thread: true });
        let lengths = || lock(&watch).files.iter().map(|watched| watched.length).collect::<Vec<_>>();
        // The second has changed, and a third comes while the first is looked at.
        let changed = look_once(&watch, |file| {
            if file.length == 1 {
                watch.try_lock().expect("the lock is free").files.push(watched(3));
            }
            file.length != 2
        });
        let changed = changed.expect("there are more");
        assert_eq!(changed.len(), 1);
        changed.into_iter().for_each(|call| call());
        assert_eq!((called.load(Ordering::Relaxed), lengths()), (2, vec![3, 1]));
        // One that comes while the last is found to be gone is looked at, too.
        let changed = look_once(&watch, |file| {
            if file.length == 1 {
                lock(&watch).files.push(Watched { file: Weak::new(), ..watched(4) });
            }
            false
        });
        assert_eq!((changed.map(|changed| changed.len()), lengths()), (Some(2), vec![4]));
        assert!(lock(&watch).has_thread);
        assert!(look_once(&watch, Watched::is_unchanged).is_none());
        assert!(!lock(&watch).has_thread);
    }
}
