//! Random walks over HTTP: one answered, or those from every node saved to a file.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value as Json;
use tokio::sync::Semaphore;
use warp::http::StatusCode;

use super::reply::{Reply, blocking};
use super::request::{Common, Request};
use crate::app::App;
use crate::clock;
use crate::error::{ApiError, chain, plain};
use crate::queries::fixed::{self, Fixed};
use crate::transfer::{beside, renamed};
use crate::walk::{self, WalkSettings};
use crate::wire::decode::{Fields, Mistakes};
use crate::wire::family::Family;

/// How many files of walks are written at a time. Each takes a thread for as long as the graph is large.
const SAVES_MAX: usize = 4;

static SAVES: Semaphore = Semaphore::const_new(SAVES_MAX);

/// When a client that finds all of them taken may ask again.
const SAVE_AGAIN_SECONDS: u32 = 30;

pub async fn walk(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let id = request.node(&app, 0)?;
    let settings = settings(&request)?;
    let (common, client) = (request.common(&app)?, request.client());
    let text = settings.shown(&common.graph.ids().text(id));
    let (own, graph) = (app.clone(), common.graph.clone());
    // What is wrong is told at once, and not when there is a place.
    let settings = blocking({
        let (app, graph) = (app.clone(), graph.clone());
        move || settings.check(&Fixed::new(&app, &graph, None)).map(|()| settings)
    })
    .await?;
    fixed::run(&app.queries, &text, &graph, client, move |running| {
        let ask = Fixed::new(&own, &common.graph, common.at).until(&running.cancelled);
        Ok(Reply::Value(Json::from(walk::walk(&ask, &settings, id, 0)?)))
    })
    .await
}

/// Answers when the file is begun; the walks follow. They are listed as a query is, without a place: others go on meanwhile.
pub async fn save(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let settings = settings(&request)?;
    let (common, client) = (request.common(&app)?, request.client());
    let name = decode(&request.data()?).map_err(ApiError::Decode)??;
    let name = name.unwrap_or_else(|| usual_name(&settings, &common));
    let shown = name.clone();
    let turn = SAVES.try_acquire().map_err(|_| ApiError::Busy {
        reason: format!("walks are being saved to {SAVES_MAX} files already; ask again when one of them is whole, or end one"),
        seconds: SAVE_AGAIN_SECONDS,
    })?;
    blocking(move || {
        settings.check(&Fixed::new(&app, &common.graph, common.at))?;
        let (file, unfinished) = make(&app, &name)?;
        let text = format!("{}, saved in {name}", settings.shown("every node"));
        let listed = app.queries.register.begin_long(&text, common.graph.name(), client);
        let work = move || {
            let running = &listed.running;
            let ask = Fixed::new(&app, &common.graph, common.at).until(&running.cancelled);
            let mut written = 0;
            let saved = walk::save(ask, &settings, file, &mut written);
            let saved = saved.map_err(|error| if running.is_cancelled() { running.ending(false) } else { error });
            let named = |()| unfinished.end().map_err(|error| ApiError::Failed(chain(&error)));
            match saved.and_then(named) {
                Ok(()) => tracing::info!("{written} walks are saved in {name}"),
                Err(error) => {
                    running.fail(&error);
                    tracing::error!("not all walks are saved in {name}, so it is not kept: {error}; {written} were written");
                }
            }
            // Last: the end of weir waits for what is listed.
            drop((turn, listed));
        };
        let named = std::thread::Builder::new().name("walks".to_owned());
        named.spawn(work).map(drop).map_err(|error| ApiError::Failed(format!("no thread could be started: {error}")))
    })
    .await?;
    Ok(match request.family {
        Family::V1 => Reply::Whole(plain(StatusCode::ACCEPTED, shown)),
        _ => Reply::Accepted,
    })
}

fn settings(request: &Request) -> Result<WalkSettings, ApiError> {
    let mut mistakes = Vec::new();
    let length = request.integer(&["length"], &mut mistakes).unwrap_or(10);
    let count = request.integer(&["count"], &mut mistakes).unwrap_or(5);
    let return_weight = request.number(&["return"], &mut mistakes).unwrap_or(1.0);
    let in_out = request.number(&["in-out", "inOut"], &mut mistakes).unwrap_or(1.0);
    let parallelism = request.integer(&["parallelism"], &mut mistakes).unwrap_or(16);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let wrong = [
        (length < 1, "walk length cannot be less than one."),
        (count < 0, "walk count cannot be less than zero."),
        (return_weight < 0.0, "return parameter cannot be less than zero."),
        (in_out < 0.0, "in-out parameter cannot be less than zero."),
        (parallelism < 1, "parallelism cannot be less than one."),
        (length > i64::from(i32::MAX) || count > i64::from(i32::MAX), "the number is larger than 31 bits."),
    ];
    if let Some((_, reason)) = wrong.iter().find(|(wrong, _)| *wrong) {
        return Err(ApiError::bad(format!("requirement failed: {reason}")));
    }
    Ok(WalkSettings {
        length: length as u32,
        count: count as u32,
        query: request.parameter("query").filter(|query| !query.is_empty()).map(str::to_owned),
        return_weight,
        in_out,
        seed: request.parameter("seed").map(str::to_owned),
    })
}

/// The name of the file, if there is one.
fn decode(body: &Json) -> Result<Result<Option<String>, ApiError>, Vec<String>> {
    let mut mistakes = Mistakes::default();
    let read = Fields::tagged(body, "", &mut mistakes).and_then(|(fields, kind)| match kind {
        "LocalFile" => Some(Ok(fields.text("fileName", &mut mistakes))),
        "S3Bucket" => Some(Err(ApiError::bad("S3Bucket is not in this version of weir; save to a LocalFile"))),
        other => {
            mistakes.at("", format!("No decoder for discriminator '{other}'!"));
            None
        }
    });
    mistakes.or(read)
}

/// `graph-walk-1770091506000_T-6x3-q0-1.0x0.5-_.csv`
fn usual_name(settings: &WalkSettings, common: &Common) -> String {
    let WalkSettings { length, count, query, return_weight, in_out, seed } = settings;
    let now = if common.at_millis.is_none() { "_T" } else { "" };
    let millis = common.at_millis.unwrap_or_else(|| clock::millis(SystemTime::now()) as i64);
    let query = query.as_ref().map_or(0, String::len);
    let seed: String = seed.iter().flat_map(|seed| seed.chars()).filter(|c| c.is_ascii_alphanumeric()).take(64).collect();
    let seed = if seed.is_empty() { "_" } else { &seed };
    format!("graph-walk-{millis}{now}-{length}x{count}-q{query}-{return_weight:?}x{in_out:?}-{seed}.csv")
}

/// A file of walks that has another name until they are all in it, and is gone where they never are.
struct Unfinished {
    file: PathBuf,
    /// None once it has its name.
    part: Option<PathBuf>,
    /// Held, not written: with this it is locked, from its beginning until it has its name.
    _lock: File,
}

impl Unfinished {
    /// Takes its name.
    fn end(mut self) -> io::Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        // One that has come to be there meanwhile is somebody else's.
        if self.file.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        renamed(part, &self.file)?;
        self.part = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = fs::remove_file(part);
        }
    }
}

/// A new file in the working directory where that is an allowed one, in the first allowed directory otherwise. Where weir keeps
/// its own data none is made.
fn make(app: &App, name: &str) -> Result<(File, Unfinished), ApiError> {
    let refused = || ApiError::bad(format!("Invalid file name: {name}"));
    let mut parts = Path::new(name).components();
    if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) || name.ends_with('/') || name.contains('\0') {
        return Err(refused());
    }
    let here = fs::canonicalize(".").ok();
    let files = app.procedures.files();
    let resolved = app.settings.file_ingest.allowed_directories.iter().filter_map(|path| fs::canonicalize(path).ok());
    let allowed: Vec<PathBuf> = resolved.filter(|path| !files.is_own(path)).collect();
    let directory = allowed.iter().find(|path| Some(*path) == here.as_ref()).or_else(|| allowed.first());
    let directory = directory.ok_or_else(|| {
        ApiError::bad("file-ingest.allowed-directories names no directory to write to; add one without weir's own data")
    })?;
    begin(&directory.join(name)).map_err(|(path, error)| {
        tracing::info!("the file {} cannot be made: {error}", path.display());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match error.kind() {
            io::ErrorKind::AlreadyExists => ApiError::bad(format!("the file '{name}' exists already")),
            _ => refused(),
        }
    })
}

/// The error goes with the file that it is about.
fn begin(file: &Path) -> Result<(File, Unfinished), (PathBuf, io::Error)> {
    let part = beside(file, "part");
    let locked = make_part(&part).and_then(|made| Ok((made.try_clone()?, made)));
    let (lock, made) = locked.map_err(|error| (part.clone(), error))?;
    let unfinished = Unfinished { file: file.to_owned(), part: Some(part), _lock: lock };
    // Only now: what was saved under this name until a moment ago is there by now.
    if file.symlink_metadata().is_ok() {
        return Err((file.to_owned(), io::ErrorKind::AlreadyExists.into()));
    }
    Ok((made, unfinished))
}

/// Makes a file that others see is being written: its lock goes with the process. One that nobody writes any more was left by a
/// process that was killed, and gives way.
fn make_part(part: &Path) -> io::Result<File> {
    let create = || File::options().write(true).create_new(true).open(part);
    let made = match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Where a link leads is nothing of weir's, and a pipe has whoever opens it wait.
            let is_file = part.symlink_metadata().is_ok_and(|found| found.is_file());
            match is_file.then(|| File::open(part)) {
                Some(Ok(left)) if left.try_lock().is_ok() && is_at(&left, part) => {
                    fs::remove_file(part)?;
                    create()?
                }
                _ => return Err(error),
            }
        }
        made => made?,
    };
    // Before it was locked, somebody else may have taken it for one that was left.
    if matches!(made.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&made, part) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(made)
}

/// Whether a file is the one that has this name.
fn is_at(file: &File, name: &Path) -> bool {
    let both = file.metadata().and_then(|own| Ok((own, name.symlink_metadata()?)));
    both.is_ok_and(|(own, there)| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name was refused until somebody removed it.
    #[test]
    fn what_a_process_left_that_was_killed_gives_way_and_nothing_else_does() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("walks.csv");
        let part = beside(&file, "part");
        fs::write(&part, "a part of them").expect("it is left");
        let (made, unfinished) = begin(&file).expect("nobody writes it");
        assert_eq!(fs::read_to_string(&part).expect("a file"), "");
        drop(made);
        let refused = || begin(&file).err().map(|(path, error)| (path, error.kind()));
        assert_eq!(refused(), Some((part.clone(), io::ErrorKind::AlreadyExists)), "it has not got its name yet");
        unfinished.end().expect("it is whole");
        fs::remove_file(&file).expect("it goes");
        let other = directory.path().join("other");
        fs::write(&other, "of somebody else").expect("a file");
        std::os::unix::fs::symlink(&other, &part).expect("a link");
        assert_eq!(refused(), Some((part.clone(), io::ErrorKind::AlreadyExists)));
        assert_eq!(fs::read_to_string(&other).expect("a file"), "of somebody else");
    }

    #[test]
    fn a_file_of_walks_has_its_name_when_it_is_whole_and_is_gone_otherwise() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("walks.csv");
        let there = || {
            let entries = fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name());
            entries.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let begun = begin(&file).expect("a file");
        assert_eq!(there(), ["walks.csv.part"]);
        let (path, error) = begin(&file).err().expect("another is being written");
        assert_eq!((path, error.kind()), (beside(&file, "part"), io::ErrorKind::AlreadyExists));
        drop(begun);
        assert!(there().is_empty(), "{:?}", there());

        let (_, unfinished) = begin(&file).expect("a file");
        unfinished.end().expect("it has its name");
        assert_eq!(there(), ["walks.csv"]);
        let (path, error) = begin(&file).err().expect("it is there");
        assert_eq!((path, error.kind()), (file.clone(), io::ErrorKind::AlreadyExists));

        let other = directory.path().join("other.csv");
        let (_, unfinished) = begin(&other).expect("a file");
        fs::write(&other, "of somebody else").expect("a file");
        assert!(unfinished.end().is_err());
        assert_eq!(fs::read_to_string(&other).expect("a file"), "of somebody else");
        assert_eq!(there().len(), 2);
    }
}
