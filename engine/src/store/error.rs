//! What can go wrong with a store: what, where, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use weir_model::Tick;

use super::GraphId;

#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("cannot use {} as the data directory: {problem}; {hint}", path.display())]
    Directory { path: PathBuf, problem: String, hint: &'static str },
    #[error(
        "the data directory {} is in use by another weir{}: stop that one, or give this one a directory of its own (store.filepath)",
        path.display(),
        holder.map_or(String::new(), |pid| format!(" (process {pid})"))
    )]
    Locked { path: PathBuf, holder: Option<u32> },
    #[error(
        "{} is not a data directory of weir: it holds {found}; give an empty or new directory (store.filepath), nothing was changed in this one",
        path.display()
    )]
    Foreign { path: PathBuf, found: String },
    #[error("{} is not a store of weir: it is {found}; give the path of a file that is not there yet (store.filepath), nothing was changed in this one", path.display())]
    ForeignFile { path: PathBuf, found: &'static str },
    #[error(
        "the data directory {} was written by a newer weir (format {found}, this one knows up to {known}): use that version or a later one",
        path.display()
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    /// What was read is not what was written.
    #[error("damaged data: {what}, in {place}; {hint}")]
    Damaged { what: String, place: String, hint: &'static str },
    /// The backups to be restored, by where they stand among them, the first being 1; `problem` completes its name.
    #[error("backup {number} {problem}")]
    OutOfOrder { number: usize, problem: &'static str },
    /// A backup that left it out unasked might take the place of the last one that has it.
    #[error(
        "namespace '{name}' is damaged and cannot be backed up: {reason}; `--leave-out {name}` (over HTTP `leaveOut={name}`) makes a backup of the others, without it"
    )]
    BackupDamaged { name: String, reason: String },
    /// The disk, the operating system or the server did not do its part.
    #[error("cannot {doing}: {reason}")]
    Failed { doing: String, reason: String },
    /// Of the log, once a write has failed: going on could leave a hole in what was acknowledged.
    #[error(
        "nothing more is written, because a write failed before ({0}); everything acknowledged until then is kept: mend the cause and start weir again"
    )]
    Poisoned(Box<StoreError>),
    #[error("the log is closed because weir is stopping")]
    Stopped,
    #[error("graph {} did not become durable up to tick {tick} within {} s: the disk is very slow or stuck", graph.0, patience.as_secs_f32())]
    TooSlow { graph: GraphId, tick: Tick, patience: Duration },
    #[error("there is no graph number {} in the store: it was dropped", .0.0)]
    NoSuchGraph(GraphId),
}

const RESTORE: &str = "restore the data directory from a backup, or move it away to start empty; weir has changed nothing";

impl StoreError {
    pub fn damaged(what: impl Into<String>, place: impl Into<String>) -> StoreError {
        StoreError::Damaged { what: what.into(), place: place.into(), hint: RESTORE }
    }

    /// `doing` completes "cannot …".
    pub fn failed(doing: impl Into<String>, reason: impl ToString) -> StoreError {
        StoreError::Failed { doing: doing.into(), reason: reason.to_string() }
    }

    /// The error that later calls get after this one.
    pub fn poisoned(self) -> StoreError {
        match self {
            StoreError::Poisoned(_) | StoreError::Stopped => self,
            cause => StoreError::Poisoned(Box::new(cause)),
        }
    }
}
