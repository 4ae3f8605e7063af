//! Files of results that are put aside when they are long or old enough: their names, what becomes of them, and what is known of
//! them after a kill.
//!
//!     out.jsonl ─ synced, renamed ─> out-2026-11-25T12-48-50Z-0000000012-0197ab3c5d600000.jsonl
//!                                        when, its number, and the mark before which all is written
//!     the same ─ compressed aside, synced, renamed ─> ….jsonl.gz
//!
//! A file is put aside between two writes, so its name says what was written: everything before that mark. After a kill the
//! stored position may be of a file that was put aside since. Then what stands in the file at the path came behind that mark,
//! which is not known of and comes again; and what comes again from before the mark is left out. So each result is in one file,
//! once.
//!
//! Compressing and deleting is done by a thread of its own, after which each file is there once and whole, whenever it was
//! killed: it begins with what an earlier one left. At most one file waits for it; the next one is put aside when it is done.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Tick;

use crate::compression::Compression;
use crate::config;
use crate::error::ConnectorError;
use crate::moment;

/// Between two tries to compress what could not be.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How often it is looked whether a file has been kept for long enough, at most and at least.
const AGE_LOOK_MIN: Duration = Duration::from_secs(1);
const AGE_LOOK_MAX: Duration = Duration::from_secs(60);
/// How soon whoever waits for the thread sees that it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// When a file of results is set aside under a name with its time, and how long such files are kept. `bytesMax` or the interval
/// has to be given.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FileRotation")]
pub struct Rotation {
    /// The file is set aside before it would have more than this many bytes. Results of the same moment stay together, so one
    /// such group may make a longer file.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub bytes_max: Option<u64>,
    /// The file is set aside this long after its first result, also when no more results come.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub interval_seconds: Option<u32>,
    /// How files that were set aside are compressed. Not at all when not given.
    #[serde(default)]
    pub compression: Compression,
    /// How many files that were set aside are kept; the oldest are deleted. All when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_max: Option<u32>,
    /// How long a file is kept after it was set aside. The newest is kept in any case. For ever when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub keep_seconds: Option<u32>,
}

impl Rotation {
    pub fn check(&self) -> Result<(), ConnectorError> {
        match (self.bytes_max, self.interval_seconds) {
            (None, None) => Err(ConnectorError::config("rotation", "say when: give bytesMax, intervalSeconds, or both")),
            (Some(0), _) => Err(ConnectorError::config("rotation.bytesMax", "the number must be at least 1")),
            _ => Ok(()),
        }
    }
}

/// Where files are put, and how they are called.
#[derive(Clone, Debug)]
struct Names {
    directory: PathBuf,
    /// The name of the file up to its last dot.
    stem: String,
    /// The name of the file from its last dot on.
    extension: String,
}

/// A file that was put aside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Aside {
    number: u64,
    /// Everything before this mark is in it, or in one before it.
    upto: u64,
    /// When, as the name has it: what comes later sorts behind it.
    when: String,
    name: String,
    compressed: bool,
}

impl Names {
    fn of(path: &Path) -> Names {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Names {
            directory: directory.to_owned(),
            stem: text(path.file_stem()).unwrap_or_default(),
            extension: text(path.extension()).map(|extension| format!(".{extension}")).unwrap_or_default(),
        }
    }

    fn name(&self, when: &str, number: u64, upto: u64) -> String {
        format!("{}-{when}-{number:010}-{upto:016x}{}", self.stem, self.extension)
    }

    /// What is written before it has its name: no pattern for files that are whole finds it.
    fn unfinished(name: &str) -> String {
        format!(".{name}.unfinished")
    }

    fn read(&self, name: &str) -> Option<Aside> {
        let rest = name.strip_prefix(&self.stem)?.strip_prefix('-')?;
        let part = |compression: Compression| {
            let parts = rest.strip_suffix(compression.ending())?.strip_suffix(&self.extension)?;
            let (when, parts) = parts.split_at_checked(20)?;
            let (number, upto) = parts.strip_prefix('-')?.split_once('-')?;
            let is_right = when.ends_with('Z') && number.len() >= 10 && upto.len() == 16;
            let (number, upto) = (number.parse().ok()?, u64::from_str_radix(upto, 16).ok()?);
            let compressed = compression != Compression::None;
            is_right.then(|| Aside { number, upto, when: when.to_owned(), name: name.to_owned(), compressed })
        };
        Compression::ALL.into_iter().find_map(part)
    }

    /// Files that were put aside, the oldest first, and what was not finished.
    fn list(&self) -> io::Result<(Vec<Aside>, Vec<PathBuf>)> {
        let (mut found, mut unfinished) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".unfinished"));
            match (self.read(&name), inner) {
                (Some(aside), _) => found.push(aside),
                (None, Some(inner)) if self.read(inner).is_some() => unfinished.push(entry.path()),
                _ => {}
            }
        }
        found.sort_unstable();
        Ok((found, unfinished))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// What a position says besides the length of the file at the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// The number of the file that was put aside last.
    pub number: u64,
    /// What comes again from before this mark is in files that were put aside.
    pub repeated_upto: u64,
    /// Everything before this mark is in files that were put aside or in the file at the path.
    pub upto: u64,
    /// When the first result came into the file at the path, in milliseconds since 1970.
    pub since: u64,
}

impl Known {
    pub const BYTES: usize = 32;

    pub fn to_bytes(self) -> [u8; Known::BYTES] {
        let mut bytes = [0; Known::BYTES];
        let numbers = [self.number, self.repeated_upto, self.upto, self.since];
        bytes.chunks_exact_mut(8).zip(numbers).for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Known::BYTES]) -> Known {
        let (numbers, _) = bytes.as_chunks::<8>();
        let number = |index: usize| numbers.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Known { number: number(0), repeated_upto: number(1), upto: number(2), since: number(3) }
    }
}

/// The files that an output has put aside.
pub struct Rotated {
    /// None where no more are put aside, and what comes again has to be told from what is new.
    rotation: Option<Rotation>,
    names: Names,
    pub known: Known,
    /// When the file was put aside that was last, as its name has it.
    when: String,
    keeper: Keeper,
}

impl Rotated {
    /// Looks at what is there. True: a file has been put aside since the position was stored, so that nothing of what the file at
    /// the path holds is known of.
    pub fn open(rotation: Option<&Rotation>, path: &Path, known: Option<Known>) -> Result<(Rotated, bool), ConnectorError> {
        let names = Names::of(path);
        let cannot = |error| ConnectorError::io(&path.display().to_string(), "cannot look for files that were put aside", error);
        let newest = names.list().map_err(cannot)?.0.pop();
        let mut now = known.unwrap_or_default();
        let found = newest.as_ref().filter(|newest| newest.number > now.number);
        let put_aside_since = known.is_some() && found.is_some();
        if let Some(newest) = found {
            now.number = newest.number;
            if put_aside_since {
                (now.repeated_upto, now.upto) = (newest.upto.max(now.repeated_upto), newest.upto.max(now.upto));
                now.since = 0;
            }
        }
        let keeper = Keeper::new(&names, rotation);
        let when = newest.map(|newest| newest.when).unwrap_or_default();
        let mut rotated = Rotated { rotation: rotation.cloned(), names, known: now, when, keeper };
        rotated.keeper.begin();
        Ok((rotated, put_aside_since))
    }

    /// Whether a result comes again that was put aside.
    pub fn repeats(&self, mark: u64) -> bool {
        mark < self.known.repeated_upto
    }

    /// Everything before this mark is written.
    pub fn wrote(&mut self, upper: u64) {
        self.known.upto = self.known.upto.max(upper);
        if upper > self.known.repeated_upto {
            // All of that has come again; what is as old and comes now is asked for.
            self.known.repeated_upto = 0;
        }
    }

    /// Says that `length` bytes are in the file at the path.
    pub fn grown(&mut self, length: u64) {
        match length {
            0 => self.known.since = 0,
            _ if self.known.since == 0 => self.known.since = now_millis(),
            // The clock was put back.
            _ => self.known.since = self.known.since.min(now_millis()),
        }
    }

    /// Whether a file of `length` bytes is put aside before `more` come.
    pub fn is_due(&self, length: u64, more: u64) -> bool {
        let Some(Rotation { bytes_max, interval_seconds, .. }) = &self.rotation else { return false };
        let age = now_millis().saturating_sub(self.known.since);
        length > 0
            && (bytes_max.is_some_and(|max| more > 0 && length + more > max)
                || interval_seconds.is_some_and(|seconds| age >= u64::from(seconds) * 1000))
    }

    /// Waits until what was put aside before is compressed. False: told to stop before.
    pub fn wait(&mut self, stop: &AtomicBool) -> bool {
        self.keeper.wait(stop)
    }

    /// Gives the file at the path its name, once all of it is on the disk.
    pub fn put_aside(&mut self, path: &Path) -> io::Result<()> {
        let number = self.known.number + 1;
        let when = moment::text(Tick::at_millis(now_millis()).0).max(self.when.clone());
        let name = self.names.name(&when, number, self.known.upto);
        fs::rename(path, self.names.directory.join(&name))?;
        tracing::info!("{} was put aside as {name}", path.display());
        self.when = when;
        self.known = Known { number, since: 0, ..self.known };
        self.names.sync_directory()?;
        self.keeper.begin();
        Ok(())
    }

    /// What goes on beside. An error says what is wrong with that, and is met by trying again.
    pub fn look(&mut self) -> Result<(), ConnectorError> {
        self.keeper.look()
    }

    /// Whether nobody has to look, with `length` bytes in the file at the path.
    pub fn rests(&self, length: u64) -> bool {
        let waits = length > 0 && self.rotation.as_ref().is_some_and(|rotation| rotation.interval_seconds.is_some());
        !waits && self.keeper.rests()
    }
}

fn now_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Compresses and deletes what was put aside, beside whoever writes.
struct Keeper {
    job: Option<Job>,
    thread: Option<JoinHandle<Done>>,
    /// There is more to do than the thread has seen.
    again: bool,
    /// Its last run.
    done: Done,
    ended: Instant,
}

/// What a run has come to.
#[derive(Default)]
struct Done {
    problem: Option<ConnectorError>,
    /// There are files that will have been kept for long enough.
    ages: bool,
}

#[derive(Clone)]
struct Job {
    names: Names,
    rotation: Rotation,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    fn new(names: &Names, rotation: Option<&Rotation>) -> Keeper {
        let job = rotation.map(|rotation| Job { names: names.clone(), rotation: rotation.clone(), stop: Arc::default() });
        Keeper { job, thread: None, again: false, done: Done::default(), ended: Instant::now() }
    }

    fn begin(&mut self) {
        let Some(job) = self.job.clone() else { return };
        self.again = self.is_at_work();
        if self.again {
            return;
        }
        self.end();
        let place = job.names.stem.clone();
        match crate::thread::named("put aside", &place).spawn(move || job.run()) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => self.done.problem = Some(ConnectorError::io(&place, "cannot start a thread", error)),
        }
    }

    fn is_at_work(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Takes in what the thread has come to.
    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            let panicked = |_| Done {
                problem: Some(ConnectorError::passing("file", "its keeper has panicked; this is a bug".to_owned())),
                ages: false,
            };
            self.done = thread.join().unwrap_or_else(panicked);
            self.ended = Instant::now();
        }
    }

    fn wait(&mut self, stop: &AtomicBool) -> bool {
        loop {
            while self.is_at_work() {
                if stop.load(Ordering::Relaxed) {
                    return false;
                }
                thread::sleep(LOOK);
            }
            self.end();
            if !self.again {
                return true;
            }
            self.begin();
        }
    }

    fn look(&mut self) -> Result<(), ConnectorError> {
        let Some(job) = &self.job else { return Ok(()) };
        if self.is_at_work() {
            return Ok(());
        }
        let keep = Duration::from_secs(job.rotation.keep_seconds.unwrap_or_default().into());
        let was_at_work = self.thread.is_some();
        self.end();
        let is_due = match &self.done {
            Done { problem: Some(_), .. } => self.ended.elapsed() >= AGAIN_AFTER,
            Done { ages: true, .. } => self.ended.elapsed() >= (keep / 4).clamp(AGE_LOOK_MIN, AGE_LOOK_MAX),
            _ => false,
        };
        if self.again || is_due {
            self.begin();
        }
        // Told once a run.
        if was_at_work && let Some(problem) = &self.done.problem {
            return Err(ConnectorError::passing("files that were put aside", problem.to_string()));
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        self.thread.is_none() && !self.again && self.done.problem.is_none() && !self.done.ages
    }
}

impl Drop for Keeper {
    /// What it does not finish, the next one does. It has ended when another may begin.
    fn drop(&mut self) {
        if let Some(job) = &self.job {
            job.stop.store(true, Ordering::Relaxed);
        }
        self.end();
    }
}

impl Job {
    fn run(&self) -> Done {
        match self.work() {
            Ok(ages) => Done { problem: None, ages },
            Err(_) if self.is_stopped() => Done::default(),
            Err(problem) => Done { problem: Some(problem), ages: true },
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Room is made before more is needed.
    fn work(&self) -> Result<bool, ConnectorError> {
        let directory = &self.names.directory;
        let (mut found, unfinished) =
            self.names.list().map_err(|error| self.problem(directory, "cannot look for files that were put aside", error))?;
        unfinished.iter().for_each(|path| drop(fs::remove_file(path)));
        // Of one that is there in both forms the compressed one is whole.
        let whole: Vec<u64> = found.iter().filter(|aside| aside.compressed).map(|aside| aside.number).collect();
        let (twice, once): (Vec<Aside>, Vec<Aside>) =
            found.drain(..).partition(|aside| !aside.compressed && whole.contains(&aside.number));
        twice.iter().try_for_each(|aside| self.delete(aside))?;
        let first_kept = once.len().saturating_sub(self.rotation.keep_max.map_or(usize::MAX, |max| max as usize));
        let oldest_kept = self.rotation.keep_seconds.map(|seconds| {
            let since = now_millis().saturating_sub(u64::from(seconds) * 1000);
            moment::text(Tick::at_millis(since).0)
        });
        let mut kept = Vec::new();
        for (index, aside) in once.iter().enumerate() {
            let is_newest = index + 1 == once.len();
            // The newest says which one is next, and what was written before a kill.
            if !is_newest && (index < first_kept || oldest_kept.as_ref().is_some_and(|oldest| aside.when < *oldest)) {
                self.delete(aside)?;
            } else {
                kept.push(aside);
            }
        }
        if self.rotation.compression != Compression::None {
            kept.iter().filter(|aside| !aside.compressed).try_for_each(|aside| self.compress(aside))?;
        }
        Ok(self.rotation.keep_seconds.is_some() && kept.len() > 1)
    }

    fn delete(&self, aside: &Aside) -> Result<(), ConnectorError> {
        let path = self.names.directory.join(&aside.name);
        match fs::remove_file(&path) {
            // Others may take them away.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.problem(&path, "cannot delete the file", error)),
            _ => Ok(()),
        }
    }

    fn compress(&self, aside: &Aside) -> Result<(), ConnectorError> {
        let at = |name: &str| self.names.directory.join(name);
        let compressed = format!("{}{}", aside.name, self.rotation.compression.ending());
        let (from, unfinished) = (at(&aside.name), at(&Names::unfinished(&compressed)));
        let written = self.write_compressed(&from, &unfinished);
        let named = written.and_then(|()| {
            fs::rename(&unfinished, at(&compressed))?;
            self.names.sync_directory()
        });
        match named {
            Ok(()) => self.delete(aside),
            // Somebody has taken it away.
            Err(_) if !from.exists() => {
                let _ = fs::remove_file(&unfinished);
                Ok(())
            }
            Err(error) => {
                // Half of it only takes room.
                let _ = fs::remove_file(&unfinished);
                Err(self.problem(&from, "cannot compress the file", error))
            }
        }
    }

    fn write_compressed(&self, from: &Path, to: &Path) -> io::Result<()> {
        let from = File::open(from)?;
        let metadata = from.metadata()?;
        let into = File::create(to)?;
        into.set_permissions(metadata.permissions())?;
        let into = self.rotation.compression.pour(&mut Stoppable { from, stop: &self.stop }, into)?;
        into.set_modified(metadata.modified()?)?;
        into.sync_all()
    }

    fn problem(&self, path: &Path, doing: &str, error: io::Error) -> ConnectorError {
        ConnectorError::io(&path.display().to_string(), doing, error)
    }
}

/// A file whose reading ends with an error when it shall.
struct Stoppable<'s> {
    from: File,
    stop: &'s AtomicBool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it shall end"));
        }
        self.from.read(buffer)
    }
}
