//! `weir check`, `weir backup`, `weir restore`: a store as a whole, while no weir works with it; a backup also of a weir that
//! runs. Where the store is, the configuration says, as for the service.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, IsTerminal, Write, stderr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use thiserror::Error;
use weir_engine::store::{Copied, Since, Source, Store, StoreError, back_up as back_up_store, check, end_of, restore};

use crate::app::{open_store, open_to_read};
use crate::client::Problem;
use crate::config::StoreSettings;
use crate::error::chain;
use crate::log::say;
use crate::terminal::counted;
use crate::transfer::progress::size;
use crate::transfer::{Of, Whole, back_up_over_http, beside, renamed};

/// Why a tool has not done what it was told to.
#[derive(Debug, Error)]
pub enum ToolError {
    /// The weir that was to be asked could not be.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Failed(String),
}

impl From<String> for ToolError {
    fn from(reason: String) -> ToolError {
        ToolError::Failed(reason)
    }
}

impl From<Problem> for ToolError {
    fn from(problem: Problem) -> ToolError {
        match problem {
            Problem::Unreachable(reason) => ToolError::Unreachable(reason),
            Problem::Refused(_) => ToolError::Failed(problem.to_string()),
        }
    }
}

/// Reads everything; fails when something is damaged.
pub fn check_store(store: &StoreSettings) -> Result<ExitCode, ToolError> {
    let opened = open_and_tell(store)?;
    // For people who wait. In the mail of a job it would look as if something were wrong.
    let is_watched = stderr().is_terminal();
    let checked = check(&*opened, &mut |what| {
        if is_watched {
            say(format_args!("weir: reading {what}"));
        }
    });
    for damage in &checked.damage {
        println!("{damage}");
    }
    let weir_engine::store::Checked { graphs, chunks, facts, entries, symbols, damage } = &checked;
    let found = match damage.len() {
        0 => "nothing is damaged".to_owned(),
        1 => "1 damage was found; everything not named is sound".to_owned(),
        count => format!("{count} damages were found; everything not named is sound"),
    };
    println!(
        "{}, {} in {}, {} in the log, {}: {found}",
        counted(*graphs, "graph", "graphs"),
        counted(*facts, "fact", "facts"),
        counted(*chunks, "page", "pages"),
        counted(*entries, "entry", "entries"),
        counted(*symbols, "name", "names"),
    );
    Ok(if damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A store to be read. Where it cannot be written to, says why.
pub(crate) fn open_and_tell(store: &StoreSettings) -> Result<Arc<dyn Store>, String> {
    let (opened, reason) = open_to_read(store).map_err(|error| chain(&error))?;
    if let Some(reason) = reason {
        say(format_args!("weir: {}\nweir: what is there is read all the same; nothing is written", chain(&reason)));
    }
    Ok(opened)
}

#[derive(clap::Args, Debug, Clone, Default, PartialEq)]
pub struct Backup {
    /// What is written; it takes the place of one of this name when it is whole
    pub file: PathBuf,

    /// Write only what has come since this backup was made; `weir restore` takes both, in order
    #[arg(long, value_name = "BACKUP")]
    pub since: Option<PathBuf>,

    /// Leave this namespace out, because it is damaged; may be given several times
    #[arg(long, value_name = "NAMESPACE")]
    pub leave_out: Vec<String>,

    /// Ask the weir that runs there, instead of opening the configured store; with an empty text the one at the usual place
    #[arg(long)]
    pub url: Option<String>,

    /// With --url, a file with a token that says who asks, for a weir with logins; WEIR_TOKEN is one
    #[arg(long, value_name = "FILE", requires = "url")]
    pub token_file: Option<PathBuf>,
}

/// `url`: of the weir to be asked, where one is.
pub fn back_up(backup: &Backup, url: Option<&str>, store: &StoreSettings) -> Result<ExitCode, ToolError> {
    let file = &backup.file;
    let failed = |error: &dyn std::error::Error| format!("cannot write the backup {}: {}", file.display(), chain(error));
    if let Some(base) = &backup.since
        && (file == base || fs::canonicalize(file).is_ok_and(|file| fs::canonicalize(base).is_ok_and(|base| base == file)))
    {
        let problem = "is the backup that --since builds on, and would be written over: name another file";
        return Err(format!("{} {problem}", file.display()).into());
    }
    let since = backup.since.as_deref().map(end_of_file).transpose()?;
    let leave_out: Vec<String> = backup.leave_out.iter().map(|name| name.to_ascii_lowercase()).collect();
    let whole = Whole::private(file);
    let write = || -> Result<String, ToolError> {
        let mut out = whole.begin().map_err(|error| failed(&error))?;
        let said = match url {
            Some(url) => {
                let pairs = if leave_out.is_empty() { Vec::new() } else { vec![("leaveOut", leave_out.join(","))] };
                let since = since.as_ref().map(Since::to_string);
                let of = Of { url, namespace: None, token_file: backup.token_file.as_deref() };
                let mut write = |part: &[u8]| out.write_all(part).map_err(|error| failed(&error));
                let bytes = back_up_over_http(of, since, &pairs, &mut write)?;
                size(bytes)
            }
            None => {
                let opened = open_and_tell(store).map_err(|reason| format!("{reason}\nWith --url a weir that runs is asked"))?;
                shown(back_up_store(&*opened, since.as_ref(), &leave_out, &mut out).map_err(|error| failed(&error))?)
            }
        };
        whole.sync(out).map_err(|error| failed(&error))?;
        // What came over the network is looked at before it is called a backup.
        if let (Some(_), Some(unfinished)) = (url, whole.unfinished()) {
            end_of_file(unfinished)?;
        }
        whole.end().map_err(|error| failed(&error))?;
        Ok(said)
    };
    let said = write().inspect_err(|_| whole.give_up())?;
    let without = if leave_out.is_empty() { String::new() } else { format!(", without {}", leave_out.join(", ")) };
    whole.tell(&format!("{said} in {}{without}", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Reads a whole backup, and says where it ends.
fn end_of_file(file: &Path) -> Result<Since, String> {
    let failed = |error: &dyn std::error::Error| format!("cannot read the backup {}: {}", file.display(), chain(error));
    let mut opened = BufReader::new(File::open(file).map_err(|error| failed(&error))?);
    let end = end_of(&mut opened).map_err(|error| failed(&error))?;
    match opened.fill_buf().map_err(|error| failed(&error))? {
        [] => Ok(end),
        _ => Err(format!("{}: {BEHIND}", file.display())),
    }
}

/// It is no backup as weir writes them: two files in one, or one that was written over another.
const BEHIND: &str = "damaged data: the file goes on behind the end of the backup; use another copy of it";

pub fn restore_store(store: &StoreSettings, files: &[PathBuf]) -> Result<ExitCode, ToolError> {
    let Some(path) = store.path() else {
        let problem = "nothing can be restored into a store that lives in memory: set store.type and store.filepath";
        return Err(problem.to_owned().into());
    };
    // A slash at the end would put what lies beside it into it.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.components().collect());
    let must_be_free = || match !path.exists() || fs::read_dir(path).is_ok_and(|mut items| items.next().is_none()) {
        true => Ok(()),
        false => Err(format!("{} is there already: restore into another place (store.filepath)", path.display())),
    };
    must_be_free()?;
    let open = |file: &PathBuf| match File::open(file) {
        Ok(opened) => Ok(BufReader::new(opened)),
        Err(error) => Err(format!("cannot read the backup {}: {error}", file.display())),
    };
    let mut opened_files = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let given_bytes: u64 = opened_files.iter().map(|file| file.get_ref().metadata().map_or(0, |found| found.len())).sum();
    let mut from: Vec<&mut dyn Source> = opened_files.iter_mut().map(|file| file as &mut dyn Source).collect();
    let named = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
    let _alone = Alone::at(path, store)?;
    // Another one may just have come to its end.
    must_be_free()?;
    // Under another name until it is whole, so that nothing takes half a graph for one.
    let unfinished = beside(path, "restoring");
    let remove = || if unfinished.is_dir() { fs::remove_dir_all(&unfinished) } else { fs::remove_file(&unfinished) };
    let failed = |error: &dyn std::error::Error| format!("cannot restore {named}: {}", chain(error));
    let unfit = |error: StoreError| match error {
        StoreError::OutOfOrder { number, problem } => {
            let file = files.get(number - 1).map_or(named.clone(), |file| file.display().to_string());
            format!("cannot restore: {file} {problem}")
        }
        error => failed(&error),
    };
    let mut read = || -> Result<Copied, String> {
        if unfinished.exists() {
            remove().map_err(|error| failed(&error))?;
        }
        let opened = open_store(&store.at(unfinished.clone())).map_err(|error| chain(&error))?;
        let copied = restore(&*opened, &mut from).map_err(unfit)?;
        if given_bytes > copied.bytes { Err(format!("cannot restore {named}: {BEHIND}")) } else { Ok(copied) }
    };
    let copied = read().inspect_err(|_| drop(remove()))?;
    // An empty directory gives way; one that has come to be something since does not.
    let _ = fs::remove_dir(path);
    renamed(&unfinished, path).inspect_err(|_| drop(remove())).map_err(|error| failed(&error))?;
    println!("{} from {named} into {}", shown(copied), path.display());
    Ok(ExitCode::SUCCESS)
}

/// One at a time restores into a place. What another one writes there looks like what one has left that broke off.
struct Alone {
    /// Beside the place, and gone with this.
    file: PathBuf,
    /// Held, not read: closing it gives the lock back.
    _lock: File,
}

impl Alone {
    /// None where there is no directory that the place could be in: what is wrong then is said when the store is opened.
    fn at(path: &Path, store: &StoreSettings) -> Result<Option<Alone>, String> {
        let file = beside(path, "restoring.lock");
        let failed = |error: io::Error| format!("cannot restore into {}: {}: {error}", path.display(), file.display());
        let makes_parent = matches!(
            store,
            StoreSettings::RocksDb { create_parent_dir: true, .. } | StoreSettings::MapDb { create_parent_dir: true, .. }
        );
        if makes_parent && let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        loop {
            let lock = match OpenOptions::new().write(true).create(true).truncate(false).open(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened.map_err(failed)?,
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let hint = "wait until that one has ended, or restore into another place (store.filepath)";
                    return Err(format!("another weir is restoring into {}: {hint}", path.display()));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Who had it before may have removed it since it was opened here, and then it keeps nobody out.
            let is_this = |found: Metadata| lock.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()));
            if fs::metadata(&file).is_ok_and(is_this) {
                return Ok(Some(Alone { file, _lock: lock }));
            }
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // While it is locked still. One that stays does no harm.
        let _ = fs::remove_file(&self.file);
    }
}

fn shown(copied: Copied) -> String {
    let Copied { graphs, chunks, entries, bytes } = copied;
    format!(
        "{}, {}, {} of the log, {}",
        counted(graphs, "graph", "graphs"),
        counted(chunks, "page", "pages"),
        counted(entries, "entry", "entries"),
        size(bytes)
    )
}
