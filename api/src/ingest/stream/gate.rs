//! The gate of a stream: whether it goes on, waits or is to end, and whether a batch of it may take effect now.
//!
//! The API opens and closes it; the two threads of the stream ask before each thing they do, and wait here while it is closed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_engine::RESULTS_WAITING_MAX;

use super::{State, Stream};
use crate::error::ApiError;

/// A stream that shall end still commits what it has read, for at most this long: not every source can give it again. A batch
/// that takes longer, also when the stream is paused, is broken off between two records.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// A pause is answered after this long, even if a batch, or a record of it, still takes effect.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    Running,
    Paused,
    /// Brought back after a restart, not started.
    Restored,
    Completed,
    Terminated,
    Failed,
}

impl Status {
    pub(in crate::ingest) const ALL: [Status; 6] =
        [Status::Running, Status::Paused, Status::Restored, Status::Completed, Status::Terminated, Status::Failed];

    pub fn name(self) -> &'static str {
        match self {
            Status::Running => "Running",
            Status::Paused => "Paused",
            Status::Restored => "Restored",
            Status::Completed => "Completed",
            Status::Terminated => "Terminated",
            Status::Failed => "Failed",
        }
    }

    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Terminated | Status::Failed)
    }
}

pub(super) struct Gate {
    pub(super) status: Status,
    /// Since then the stream should end: it was deleted, or weir stops.
    stopping: Option<Instant>,
    /// Since then it is paused.
    paused: Option<Instant>,
    /// A batch takes effect at the moment.
    committing: bool,
}

impl Gate {
    pub(super) fn new(status: Status) -> Gate {
        Gate { status, stopping: None, paused: None, committing: false }
    }

    /// Whether it waits until it is started.
    pub(super) fn holds(&self) -> bool {
        self.status != Status::Running && self.stopping.is_none()
    }

    /// Takes an end back. Whoever panicked in the middle of a batch has not said that it is over.
    pub(super) fn begin_again(&mut self) {
        (self.status, self.committing) = (Status::Running, false);
    }

    /// Whether what was read may still be committed.
    fn may_finish(&self) -> bool {
        self.stopping.is_none_or(|since| since.elapsed() < FINISH_TIME_MAX)
    }
}

impl Stream {
    pub fn status(&self) -> Status {
        self.lock().gate.status
    }

    pub(in crate::ingest) fn set_running(&self, running: bool) -> Result<(), ApiError> {
        let mut state = self.lock();
        let gate = &mut state.gate;
        if gate.status.is_terminal() {
            let verb = if running { "resume" } else { "pause" };
            // A stream that ended on its own is called failed, as clients know it, until weir is started again.
            let ended = match gate.status {
                Status::Terminated => "terminated",
                Status::Completed if self.completed_before => "completed",
                _ => "failed",
            };
            return Err(ApiError::bad(format!("Cannot {verb} a {ended} ingest.")));
        }
        gate.status = if running { Status::Running } else { Status::Paused };
        gate.paused = if running { None } else { gate.paused.or_else(|| Some(Instant::now())) };
        self.halts.store(!running || gate.stopping.is_some(), Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub(in crate::ingest) fn stop(&self) {
        self.lock().gate.stopping.get_or_insert_with(Instant::now);
        self.halts.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(in crate::ingest) fn is_stopping(&self) -> bool {
        self.lock().gate.stopping.is_some()
    }

    /// Waits for `pause`. False when the stream is to end.
    pub(in crate::ingest) fn wait_unless_stopping(&self, pause: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), pause, |state| state.gate.stopping.is_none());
        waited.unwrap_or_else(|e| e.into_inner()).0.gate.stopping.is_none()
    }

    /// Waits while the stream is paused. False when it is to end.
    pub(in crate::ingest) fn may_go_on(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.gate.holds());
        state.unwrap_or_else(|e| e.into_inner()).gate.stopping.is_none()
    }

    /// Waits while the stream is paused, for at most `time_max`, and only until there is news. None while it is paused, and false
    /// when it is to end.
    pub(in crate::ingest) fn may_go_on_within(&self, time_max: Duration, is_news: impl Fn() -> bool) -> Option<bool> {
        let waited = self.changed.wait_timeout_while(self.lock(), time_max, |state| state.gate.holds() && !is_news());
        let state = waited.unwrap_or_else(|e| e.into_inner()).0;
        (!state.gate.holds()).then(|| state.gate.stopping.is_none())
    }

    /// There is news for whoever waits for the end of a pause.
    pub(in crate::ingest) fn tell_in_pause(&self) {
        if self.halts.load(Ordering::Relaxed) {
            // Whoever has looked, and does not wait yet, has the lock.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// Waits until the graph has room for a batch. False when it is to end without that batch.
    pub(in crate::ingest) fn wait_for_room(&self) -> bool {
        let room = self.graph.wait_for_room_while(|| {
            // It may also be what is due that is late.
            let waits_for_results = self.graph.has_waiting(RESULTS_WAITING_MAX);
            let mut state = self.lock();
            state.told.waits_for_results = waits_for_results;
            state.gate.may_finish()
        });
        self.lock().told.waits_for_results = false;
        room
    }

    /// Waits while the stream is paused; then a batch may take effect, until `committed`. False when it is to end without that
    /// batch.
    pub(in crate::ingest) fn may_commit(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.gate.holds());
        let mut state = state.unwrap_or_else(|e| e.into_inner());
        let gate = &mut state.gate;
        gate.committing = gate.status == Status::Running && gate.may_finish();
        gate.committing
    }

    /// Whether a batch has gone on for long enough since the stream was to end or to pause. Asked before each record.
    pub(in crate::ingest) fn breaks_off(&self) -> bool {
        self.halts.load(Ordering::Relaxed) && {
            let Gate { stopping, paused, .. } = self.lock().gate;
            [stopping, paused].into_iter().flatten().any(|since| since.elapsed() >= FINISH_TIME_MAX)
        }
    }

    pub(in crate::ingest) fn committed(&self) {
        self.lock().gate.committing = false;
        self.changed.notify_all();
    }

    /// Waits until no batch takes effect, if that does not take too long.
    pub(in crate::ingest) fn wait_until_committed(&self) {
        let commits = |state: &mut State| state.gate.committing && state.gate.status == Status::Paused;
        drop(self.changed.wait_timeout_while(self.lock(), PAUSE_TIME_MAX, commits));
    }
}
