//! Files that somebody writes to, watched for streams that rest at their ends: how long they are, and whether they are still what
//! lies at their place.
//!
//!     rests ─> QUICK ─ a look takes long ─> SLOW          each has a thread, which looks at all of its files in turn
//!                 <─ looks are quick again ─┘              a call ends it for a file
//!
//! A look at a file of a pattern may list a large directory, and a file system may be slow: what lies elsewhere does not wait for
//! that. Where one does not answer at all, the thread that waits for it is left behind, and another one goes on with what lies on
//! other devices.
//!
//! The system could say when a file is written to (inotify), but not on every file system: what another machine writes, it does
//! not see.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};
use weir_model::lock::lock;

use super::file::Opened;
use crate::bell::Call;

/// How soon it is seen that a file has grown, unless there are very many.
const LOOK: Duration = Duration::from_millis(50);

/// Looking takes no more than this part of a core; quick looks no more than half of it, while there are slow ones.
const PART_OF_A_CORE: f64 = 0.01;

/// A look that takes this long is a slow one.
const SLOW_LOOK: Duration = Duration::from_millis(5);

/// After so many looks in a row that were not slow a file is watched with the quick ones again.
const QUICK_LOOKS: u32 = 10;

/// A look that takes this long is not waited for.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);

struct Watched {
    /// Gone with its stream.
    file: Weak<Opened>,
    /// Where it lies.
    device: Option<u64>,
    length: u64,
    call: Call,
    /// Looks in a row that were not slow.
    quick_looks: u32,
}

/// Files that are looked at one after another.
struct Watch {
    is_slow: bool,
    state: Mutex<State>,
    /// The part of a core that it takes, the bits of an `f64`.
    takes: AtomicU64,
}

struct State {
    files: Vec<Watched>,
    /// What its thread has not come to.
    left: VecDeque<Watched>,
    at: Option<At>,
    has_thread: bool,
    has_guard: bool,
    /// How many threads were left behind. One that was sees by it that another one has taken its place.
    left_behind: u64,
    /// Devices that do not answer.
    silent: Vec<u64>,
}

/// What its thread looks at.
struct At {
    file: Weak<Opened>,
    device: Option<u64>,
    since: Instant,
}

static QUICK: Watch = Watch::new(false);
static SLOW: Watch = Watch::new(true);

/// Calls once the file has another length than this one, or something has become of it. False: nobody could be found to look.
pub(super) fn call_when_changed(opened: &Arc<Opened>, length: u64, call: Call) -> bool {
    let (file, device) = (Arc::downgrade(opened), opened.device());
    QUICK.add(Watched { file, device, length, call, quick_looks: 0 }).is_ok()
}

impl Watch {
    const fn new(is_slow: bool) -> Watch {
        let state = State {
            files: Vec::new(),
            left: VecDeque::new(),
            at: None,
            has_thread: false,
            has_guard: false,
            left_behind: 0,
            silent: Vec::new(),
        };
        Watch { is_slow, state: Mutex::new(state), takes: AtomicU64::new(0) }
    }

    /// Gives the file back where nobody can be found to look.
    fn add(&'static self, watched: Watched) -> Result<(), Watched> {
        let mut state = lock(&self.state);
        if !state.has_thread {
            let number = state.left_behind;
            if start(move || self.run(number)).is_err() {
                return Err(watched);
            }
            state.has_thread = true;
        }
        if !state.has_guard {
            // Without one it is not seen that a file system does not answer.
            state.has_guard = start(move || self.guard()).is_ok();
        }
        state.files.push(watched);
        Ok(())
    }

    /// Its thread. `number`: how many were left behind before.
    fn run(&'static self, number: u64) {
        let mut pause = LOOK;
        loop {
            thread::sleep(pause);
            let Some(took) = self.look_once(number, Watched::is_unchanged) else { return };
            pause = self.pause_after(took);
        }
    }

    fn pause_after(&self, took: Duration) -> Duration {
        let part = match self.is_slow {
            true => PART_OF_A_CORE - QUICK.takes().min(PART_OF_A_CORE / 2.0),
            false if SLOW.takes() > 0.0 => PART_OF_A_CORE / 2.0,
            false => PART_OF_A_CORE,
        };
        let pause = LOOK.max(took.div_f64(part));
        self.takes.store(took.div_duration_f64(pause).to_bits(), Ordering::Relaxed);
        pause
    }

    fn takes(&self) -> f64 {
        f64::from_bits(self.takes.load(Ordering::Relaxed))
    }

    /// Looks at each file, and calls for those that have changed. Says how long that took of it which is done again. None: there
    /// is nothing left to look at, and no thread any more that does, or another one does.
    fn look_once(&'static self, number: u64, is_unchanged: impl Fn(&Watched) -> bool) -> Option<Duration> {
        let mut state = lock(&self.state);
        let files = std::mem::take(&mut state.files);
        let (stay, left): (Vec<_>, Vec<_>) = files.into_iter().partition(|watched| state.is_silent(watched));
        state.files = stay;
        state.left = left.into();
        drop(state);
        let (mut took, mut called) = (Duration::ZERO, false);
        loop {
            let mut state = lock(&self.state);
            let Some(mut watched) = state.left.pop_front() else { break };
            let since = Instant::now();
            state.at = Some(At { file: watched.file.clone(), device: watched.device, since });
            // Without the lock: a file system may hang, and whoever wants to rest would wait for it.
            drop(state);
            let unchanged = is_unchanged(&watched);
            let look = since.elapsed();
            let mut state = lock(&self.state);
            if state.left_behind != number {
                state.silent.retain(|device| Some(*device) != watched.device);
                drop(state);
                self.is_back(watched, unchanged);
                return None;
            }
            state.at = None;
            if !unchanged {
                drop(state);
                (took, called) = (took + look, true);
                watched.call_if_there();
                continue;
            }
            watched.quick_looks = if look < SLOW_LOOK { watched.quick_looks + 1 } else { 0 };
            let stays = if self.is_slow { watched.quick_looks < QUICK_LOOKS } else { watched.quick_looks > 0 };
            if stays {
                took += look;
                state.files.push(watched);
                continue;
            }
            drop(state);
            if let Err(watched) = self.other().add(watched) {
                took += look;
                lock(&self.state).files.push(watched);
            }
        }
        let mut state = lock(&self.state);
        // Who was called may come back soon; others may have come meanwhile.
        if state.files.is_empty() && !called {
            state.has_thread = false;
            self.takes.store(0, Ordering::Relaxed);
            return None;
        }
        Some(took)
    }

    fn other(&self) -> &'static Watch {
        if self.is_slow { &QUICK } else { &SLOW }
    }

    /// The look that was not waited for has ended.
    fn is_back(&'static self, watched: Watched, unchanged: bool) {
        if let Some(file) = watched.file.upgrade() {
            tracing::info!("{}: the file system answers again", file.place());
        }
        let call = if unchanged { self.add(watched).err() } else { Some(watched) };
        call.into_iter().for_each(Watched::call_if_there);
    }

    /// The thread that looks after the other.
    fn guard(&'static self) {
        while self.look_after(LOOK_TIME_MAX) {
            thread::sleep(LOOK_TIME_MAX / 2);
        }
    }

    /// Has another thread go on where one look takes longer than `patience`. False: there is no thread to look after.
    fn look_after(&'static self, patience: Duration) -> bool {
        let mut state = lock(&self.state);
        if !state.has_thread {
            state.has_guard = false;
            return false;
        }
        if state.at.as_ref().is_none_or(|at| at.since.elapsed() < patience) {
            return true;
        }
        let number = state.left_behind + 1;
        if start(move || self.run(number)).is_err() {
            return true;
        }
        state.left_behind = number;
        let left = std::mem::take(&mut state.left);
        state.files.extend(left);
        let Some(At { file, device, .. }) = state.at.take() else { return true };
        state.silent.extend(device);
        drop(state);
        if let Some(file) = file.upgrade() {
            tracing::warn!(
                "{}: the file system has not answered for {patience:?}; until it does, nothing new is seen of files there that \
                 streams at rest follow",
                file.place()
            );
        }
        true
    }
}

impl State {
    fn is_silent(&self, watched: &Watched) -> bool {
        watched.device.is_some_and(|device| self.silent.contains(&device))
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("watch files".to_owned()).spawn(work).map(drop)
}

impl Watched {
    /// One that cannot be looked at is for its stream to tell of.
    fn is_unchanged(&self) -> bool {
        self.file.upgrade().is_some_and(|file| file.length().is_ok_and(|length| length == self.length) && file.fate().is_none())
    }

    fn call_if_there(self) {
        if self.file.strong_count() > 0 {
            (self.call)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A look at it finds no length but 0.
    fn opened() -> Arc<Opened> {
        let path = Path::new("/dev/null");
        Arc::new(Opened::open(path, path, None, None).unwrap())
    }

    /// Files that are known by their lengths, and those of which somebody was called.
    #[derive(Clone, Default)]
    struct Called(Arc<Mutex<Vec<u64>>>);

    impl Called {
        fn watched(&self, opened: &Arc<Opened>, device: u64, length: u64) -> Watched {
            let called = self.0.clone();
            let call: Call = Box::new(move || lock(&called).push(length));
            Watched { file: Arc::downgrade(opened), device: Some(device), length, call, quick_looks: 0 }
        }

        fn wait_for(&self, expected: &[u64]) {
            let since = Instant::now();
            let sorted = || {
                let mut called = lock(&self.0).clone();
                called.sort_unstable();
                called
            };
            while sorted() != expected {
                assert!(since.elapsed() < Duration::from_secs(60), "{:?} and not {expected:?}", sorted());
                thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// A watch of which the test is the thread.
    fn watch(is_slow: bool, files: Vec<Watched>) -> &'static Watch {
        let watch: &Watch = Box::leak(Box::new(Watch::new(is_slow)));
        let mut state = lock(&watch.state);
        (state.has_thread, state.has_guard) = (true, true);
        state.files = files;
        drop(state);
        watch
    }

    fn lengths(watch: &Watch) -> Vec<u64> {
        lock(&watch.state).files.iter().map(|watched| watched.length).collect()
    }

    #[test]
    fn files_are_looked_at_without_holding_up_who_comes_meanwhile() {
        let (opened, called) = (opened(), Called::default());
        let watch = watch(true, vec![called.watched(&opened, 0, 1), called.watched(&opened, 0, 2)]);
        // The second has changed, and a third comes while the first is looked at.
        let looked = watch.look_once(0, |file| {
            if file.length == 1 {
                watch.state.try_lock().expect("the lock is free").files.push(called.watched(&opened, 0, 3));
            }
            file.length != 2
        });
        assert!(looked.is_some(), "there are more");
        called.wait_for(&[2]);
        assert_eq!(lengths(watch), [3, 1]);
        // One that comes while the last is found to be gone is looked at, too.
        let looked = watch.look_once(0, |file| {
            if file.length == 1 {
                lock(&watch.state).files.push(Watched { file: Weak::new(), ..called.watched(&opened, 0, 4) });
            }
            false
        });
        called.wait_for(&[1, 2, 3]);
        assert_eq!((looked.is_some(), lengths(watch)), (true, vec![4]));
        assert!(lock(&watch.state).has_thread);
        // Of that nobody is left to be called, and there may be others once more.
        assert!(watch.look_once(0, Watched::is_unchanged).is_some());
        assert!(watch.look_once(0, Watched::is_unchanged).is_none());
        called.wait_for(&[1, 2, 3]);
        assert!(!lock(&watch.state).has_thread);
    }

    /// All files waited a hundred times as long as a look at the slowest took.
    #[test]
    fn a_file_that_takes_long_to_look_at_does_not_delay_the_others() {
        let (opened, called) = (opened(), Called::default());
        let watch = watch(false, vec![called.watched(&opened, 0, 0), called.watched(&opened, 0, 1)]);
        let took = watch.look_once(0, |file| {
            if file.length == 1 {
                thread::sleep(20 * SLOW_LOOK);
            }
            true
        });
        assert!(took.is_none_or(|took| took < 20 * SLOW_LOOK), "{took:?}");
        assert!(!lengths(watch).contains(&1));
        // The slow ones are looked at, too.
        called.wait_for(&[1]);
    }

    #[test]
    fn looks_take_a_hundredth_of_a_core_together() {
        let (quick, slow) = (Watch::new(false), Watch::new(true));
        assert_eq!(quick.pause_after(Duration::from_micros(5)), LOOK);
        assert!(quick.pause_after(Duration::from_millis(50)) >= Duration::from_secs(5));
        assert!(quick.takes() <= PART_OF_A_CORE * 1.001);
        assert!(slow.pause_after(Duration::from_millis(50)) >= Duration::from_secs(5));
    }

    /// No stream that rested at a file saw anything any more.
    #[test]
    fn a_file_system_that_does_not_answer_holds_up_no_other() {
        let (opened, called) = (opened(), Called::default());
        let files = [(7, 1), (7, 2), (8, 3)].map(|(device, length)| called.watched(&opened, device, length));
        let watch = watch(true, files.into());
        let (answer, answers) = crossbeam_channel::bounded::<()>(0);
        let stuck = thread::spawn(move || {
            watch.look_once(0, |_| {
                answers.recv().expect("an answer");
                false
            })
        });
        let since = Instant::now();
        while lock(&watch.state).at.is_none() {
            assert!(since.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        assert!(watch.look_after(Duration::from_secs(3600)), "it may take a while");
        assert_eq!(lock(&watch.state).left_behind, 0);
        assert!(watch.look_after(Duration::ZERO));
        called.wait_for(&[3]);
        thread::sleep(3 * LOOK);
        called.wait_for(&[3]);
        answer.send(()).expect("it is waited for");
        assert!(stuck.join().expect("no panic").is_none());
        called.wait_for(&[1, 2, 3]);
    }
}
