//! Transformations of records in JavaScript: one function, called with each record, whose answer takes the record's place.
//!
//!     records ─> Script ─(a thread of its own)─> engine: limits, sandbox ─> convert: values there and back ─> records
//!
//! A script has a second for a record and bounded memory; it remembers nothing between records. What the engine cannot interrupt
//! (a builtin that searches a very long text) is given up with its thread: whoever waits for it does not wait long.

mod convert;
mod engine;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_model::Value;

use crate::thread;

/// For one record; and for reading the script itself.
const RECORD_TIME_MAX: Duration = Duration::from_secs(1);

/// How much later than that a script is given up that does not let itself be interrupted.
const GRACE: Duration = Duration::from_secs(2);

/// How soon whoever waits sees that it shall stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Bytes of the thread's stack: what the engine may use of it is less.
const STACK_BYTES: usize = 4 << 20;

/// What becomes of records, in order, up to one with which the new values come to `VALUES_BYTES_MAX`.
#[derive(PartialEq, Debug, Default)]
pub struct Transformed {
    /// The new value of each, or why there is none.
    pub outcomes: Vec<Result<Value, String>>,
    /// Bytes of the new values, about.
    pub bytes: usize,
}

/// A script that is ready, on its thread.
pub struct Script {
    /// None when it is given up.
    records: Option<Sender<Arc<Vec<Value>>>>,
    done: Receiver<Transformed>,
    watch: Arc<Watch>,
}

/// Why records were not transformed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// The stream is to end.
    Asked,
    /// The script does not end, or the engine is broken.
    GivenUp(String),
}

impl Script {
    /// Reads the text of a function. An error says what is wrong with it.
    pub fn start(name: &str, text: &str) -> Result<Script, String> {
        let (records, jobs) = bounded(1);
        let (sender, done) = bounded(1);
        let (telling, ready) = bounded(1);
        let watch = Arc::new(Watch::new());
        let (watched, text) = (watch.clone(), text.to_owned());
        watch.begin();
        let named = thread::named("javascript", name).stack_size(STACK_BYTES);
        let spawned = named.spawn(move || engine::work(&text, &watched, &telling, &jobs, &sender));
        spawned.map_err(|error| format!("no thread could be started: {error}"))?;
        match ready.recv_timeout(RECORD_TIME_MAX + GRACE) {
            Ok(read) => read.map(|()| Script { records: Some(records), done, watch }),
            Err(_) => Err("it takes too long to be read".to_owned()),
        }
    }

    /// Transforms records in order: all, or as many of the first as may be held at once. After an error the script is not asked
    /// again.
    pub fn apply(&mut self, records: Arc<Vec<Value>>, stopping: impl Fn() -> bool) -> Result<Transformed, Stopped> {
        let broken = || Stopped::GivenUp("the transformation cannot go on".to_owned());
        let count = records.len();
        // What it counts from lies as far back as the last records, and its thread may have to wait for its turn.
        self.watch.begin();
        self.records.as_ref().ok_or_else(broken)?.send(records).map_err(|_| broken())?;
        loop {
            match self.done.recv_timeout(STOP_LOOK) {
                Ok(done) if done.outcomes.len() == count || !self.watch.is_cancelled() => return Ok(done),
                Ok(_) => return Err(Stopped::Asked),
                Err(RecvTimeoutError::Disconnected) => return Err(broken()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stopping() {
                self.watch.cancel();
            }
            if self.watch.running() > RECORD_TIME_MAX + GRACE {
                self.records = None;
                let reason = "the transformation does not end, and cannot be made to: a builtin function works on for too long";
                return Err(if stopping() { Stopped::Asked } else { Stopped::GivenUp(reason.to_owned()) });
            }
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.watch.cancel();
    }
}

/// What the thread and those who wait for it know of each other.
struct Watch {
    base: Instant,
    /// When the record it works on began, in milliseconds since `base`.
    begun: AtomicU64,
    cancelled: AtomicBool,
}

impl Watch {
    fn new() -> Watch {
        Watch { base: Instant::now(), begun: AtomicU64::new(0), cancelled: AtomicBool::new(false) }
    }

    fn begin(&self) {
        self.begun.store(self.base.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn running(&self) -> Duration {
        self.base.elapsed().saturating_sub(Duration::from_millis(self.begun.load(Ordering::Relaxed)))
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
