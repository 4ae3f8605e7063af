//! What can go wrong in the engine, told apart by who has to do something about it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thiserror::Error;
use weir_model::{Failure, Tick, Value};

use crate::render::RenderError;
use crate::store::StoreError;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The query ran into something: its author can mend it.
    #[error(transparent)]
    Query(#[from] Failure),
    /// Of several writes that were committed together.
    #[error(transparent)]
    Shared(Arc<EngineError>),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error("a graph named '{0}' exists already")]
    GraphExists(String),
    #[error(
        "the graph in this store has the graph model `{stored}`, not `{wanted}`; leave the setting out, or use another store"
    )]
    OtherModel { stored: &'static str, wanted: &'static str },
    #[error(
        "the nodes of this store have ids of `id.type` {stored}, not {wanted}: their ids would be shown wrong, and new ones made otherwise; set `id.type` to what the store has, or use another store"
    )]
    OtherIds { stored: String, wanted: String },
    /// Reads must not show what may be gone after the next start, and the graph in memory holds it.
    #[error("the graph is not read now, because it holds changes of which it is not known whether they stay: {0}")]
    Refused(StoreError),
    /// What was read of it is not what was written. The others work.
    #[error(
        "namespace '{name}' is damaged: {reason}. Nothing of it is read or written, and it stays as it is: restore the store from a backup, or drop the namespace to go on without it; the others work"
    )]
    GraphDamaged { name: String, reason: String },
    #[error("there is an index for this already, or one of this name: {0}")]
    IndexExists(String),
    #[error("there is no index named '{0}'; SHOW INDEXES lists those there are")]
    NoSuchIndex(String),
    #[error("there is a rule for this already, or one of this name: {0}")]
    ExpiryExists(String),
    #[error("there is no expiry rule named '{0}'; SHOW EXPIRIES lists those there are")]
    NoSuchExpiry(String),
    #[error("there is no graph named '{0}'")]
    NoSuchGraph(String),
    #[error("this standing query is installed already")]
    StandingExists,
    #[error("this standing query was dropped")]
    StandingGone,
    #[error(
        "the graph's workers did not catch up within a minute; nothing acknowledged is lost. Where they do not catch up later either, delete the standing query that, as weir's log says, keeps them busy, or restart weir"
    )]
    WorkersStuck,
    /// Whoever runs the query again makes its changes twice. Those who can wait have what it answers.
    #[error("the changes of the query are made, but it is not known yet that they stay; look for them before it is run again")]
    Unconfirmed {
        upper: Tick,
        rows: Vec<Vec<Value>>,
        #[source]
        error: Box<EngineError>,
    },
    #[error(
        "weir is starting: until the standing queries have caught up with the log, reads are answered and nothing is written"
    )]
    Starting,
    #[error("the service is ending; the stream resumes where it was when it is started again")]
    Closing,
    #[error("cannot start the worker threads: {0}")]
    Workers(String),
    #[error("only the present can be read: the journal is off (persistence.journal-enabled), so no history is kept")]
    NoHistory,
    #[error(
        "the graph as of {asked} is no longer kept: history begins at {begins} (milliseconds since 1970); weir.history says how much is kept"
    )]
    TooLongAgo { asked: u64, begins: u64 },
    #[error("the moment {0} (milliseconds since 1970) lies in the future")]
    NotYet(u64),
    #[error("a query that writes cannot run at a past time; leave 'at-time' out")]
    PastIsReadOnly,
    /// Of what threads do for a graph that keep house, build an index, or commit small writes.
    #[error("an error in weir itself; please report it: {0}")]
    Panicked(String),
}

/// Does something for a graph on a thread that also has other things to do. A panic is a failure like any other: the thread would
/// end with it, nobody would do any of this again, and nobody would say so. Locks go on after a panic, and what they guard is
/// whole.
pub(crate) fn caught<R>(act: impl FnOnce() -> Result<R, EngineError>) -> Result<R, EngineError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(EngineError::Panicked(text.unwrap_or("no reason is given").to_owned()))
    })
}

impl EngineError {
    /// Whether it may pass, and what asked for it has not happened: the workers or the log are late, for a disk is slow, or the
    /// machine was suspended.
    pub fn is_passing(&self) -> bool {
        matches!(self, EngineError::WorkersStuck | EngineError::Store(StoreError::TooSlow { .. }))
    }

    /// Of changes that are made: why it is not known that they stay. That a write of the log failed says no more: what it was to
    /// write is whole after the next start, or not there (see `Store`). Errors that say that they do not stay are told as they
    /// are.
    pub(crate) fn unconfirmed(upper: Tick, rows: Vec<Vec<Value>>, error: EngineError) -> EngineError {
        match error {
            EngineError::WorkersStuck | EngineError::Store(StoreError::TooSlow { .. } | StoreError::Poisoned(_)) => {
                EngineError::Unconfirmed { upper, rows, error: Box::new(error) }
            }
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::GraphId;

    #[test]
    fn what_happens_late_may_be_tried_again_and_what_has_happened_may_not() {
        let slow = || StoreError::TooSlow { graph: GraphId(0), tick: Tick(7), patience: Duration::ZERO };
        assert!(EngineError::WorkersStuck.is_passing() && EngineError::from(slow()).is_passing());
        let made = EngineError::unconfirmed(Tick(7), Vec::new(), slow().into());
        for error in [made, slow().poisoned().into(), StoreError::Stopped.into(), EngineError::Starting] {
            assert!(!error.is_passing(), "{error}");
        }
    }

    #[test]
    fn what_may_yet_stay_is_not_told_as_if_it_had_not_happened() {
        let of = |error| EngineError::unconfirmed(Tick(7), vec![vec![Value::Integer(1)]], error);
        let slow = StoreError::TooSlow { graph: GraphId(0), tick: Tick(7), patience: Duration::ZERO };
        let failed = StoreError::failed("sync the log", "an error of the disk").poisoned();
        for error in [EngineError::WorkersStuck, slow.into(), failed.into()] {
            let reason = error.to_string();
            let EngineError::Unconfirmed { upper, rows, error } = of(error) else { panic!("{reason}") };
            assert_eq!((upper, rows.len(), error.to_string()), (Tick(7), 1, reason));
        }
        assert!(matches!(of(EngineError::NoSuchGraph("n".to_owned())), EngineError::NoSuchGraph(_)));
        assert!(matches!(of(StoreError::Stopped.into()), EngineError::Store(StoreError::Stopped)));
    }
}
