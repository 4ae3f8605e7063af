//! A data directory: whose it is, which format it has, and that only one process uses it.
//!
//!     weir-data       three lines: what this is, the format, the kind of store; written last when it is set up
//!     weir-data.new   the same while it is being set up, so that a crash on the way is told from a lost file
//!     weir-lock       locked while in use; holds the number of the process
//!     <kind>/         the store's own files
//!
//! Knows nothing of what the store puts there.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Of everything below the directory. Raised when an older weir could not read what this one writes.
pub const FORMAT: u32 = 7;

/// The oldest format this weir reads; what it writes into such a directory makes that one of `FORMAT`.
const OLDEST: u32 = 2;

const MARKER: &str = "weir-data";
const MARKER_NEW: &str = "weir-data.new";
const LOCK: &str = "weir-lock";
const TITLE: &str = "weir data directory";

#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    kind: &'static str,
    /// Held, not read: closing it gives the lock back. None where it is only read and there is nothing to lock.
    _lock: Option<File>,
    /// Nothing is in it yet: the store sets itself up and then says `set_up`.
    pub fresh: bool,
}

impl Directory {
    pub fn open(path: &Path, kind: &'static str, create_parent: bool) -> Result<Directory, StoreError> {
        create(path, create_parent)?;
        refuse_foreign(path, kind)?;
        let lock = lock(path)?;
        let mut directory = Directory { path: path.to_owned(), kind, _lock: Some(lock), fresh: false };
        match fs::read(path.join(MARKER)) {
            Ok(marker) if directory.check(&marker)? < FORMAT => directory.raise()?,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => directory.begin()?,
            Err(error) => return Err(refused(path, format!("its file {MARKER} cannot be read ({error})"), PERMISSIONS)),
        }
        Ok(directory)
    }

    /// Opens a directory that is there, of which nothing is changed: also where nothing can be.
    pub fn open_to_read(path: &Path, kind: &'static str) -> Result<Directory, StoreError> {
        let lock = lock_to_read(path)?;
        let marker = fs::read(path.join(MARKER))
            .map_err(|error| refused(path, format!("its file {MARKER} cannot be read ({error})"), PERMISSIONS))?;
        let directory = Directory { path: path.to_owned(), kind, _lock: lock, fresh: false };
        directory.check(&marker)?;
        Ok(directory)
    }

    /// Where the store keeps its own files.
    pub fn files(&self) -> PathBuf {
        self.path.join(self.kind)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts over with an empty directory, or one that a crash left half set up.
    fn begin(&mut self) -> Result<(), StoreError> {
        let begin = || {
            self.write_marker()?;
            match fs::remove_dir_all(self.files()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        };
        begin().map_err(|error| refused(&self.path, format!("it cannot be written to ({error})"), PERMISSIONS))?;
        self.fresh = true;
        Ok(())
    }

    fn write_marker(&self) -> std::io::Result<()> {
        let mut marker = File::create(self.path.join(MARKER_NEW))?;
        write!(marker, "{TITLE}\nformat {FORMAT}\nstore {}\n", self.kind)?;
        marker.sync_all()
    }

    fn rename_marker(&self) -> std::io::Result<()> {
        fs::rename(self.path.join(MARKER_NEW), self.path.join(MARKER))?;
        File::open(&self.path)?.sync_all()
    }

    /// Marks a directory of an earlier format as one of this, before anything is written that the earlier weir cannot read.
    fn raise(&self) -> Result<(), StoreError> {
        self.write_marker()
            .and_then(|()| self.rename_marker())
            .map_err(|error| refused(&self.path, format!("it cannot be written to ({error})"), PERMISSIONS))
    }

    /// The store's files are there and will be from now on.
    pub fn set_up(&mut self) -> Result<(), StoreError> {
        self.rename_marker().map_err(|error| refused(&self.path, format!("it cannot be written to ({error})"), PERMISSIONS))?;
        self.fresh = false;
        Ok(())
    }

    /// The format it has.
    fn check(&self, marker: &[u8]) -> Result<u32, StoreError> {
        let text = String::from_utf8_lossy(marker);
        let mut lines = text.lines();
        let title = lines.next();
        let format = lines.next().and_then(|line| line.strip_prefix("format ")).and_then(|n| n.parse::<u32>().ok());
        let kind = lines.next().and_then(|line| line.strip_prefix("store "));
        let place = || self.path.join(MARKER).display().to_string();
        match (title, format, kind) {
            (Some(TITLE), Some(found), _) if found > FORMAT => {
                Err(StoreError::Newer { path: self.path.clone(), found, known: FORMAT })
            }
            (Some(TITLE), Some(found), _) if found < OLDEST => {
                let problem = format!("it was written by an earlier weir (format {found}, this one knows {OLDEST} to {FORMAT})");
                Err(refused(&self.path, problem, "give a new directory (store.filepath) and ingest again, or use that version"))
            }
            (Some(TITLE), Some(found), Some(kind)) if kind == self.kind => Ok(found),
            (Some(TITLE), Some(_), Some(kind)) => {
                let problem = format!("it holds a store of type {kind}, not {}", self.kind);
                Err(refused(&self.path, problem, "set store.type to what it holds, or give another directory (store.filepath)"))
            }
            _ => Err(StoreError::damaged("a marker that is not one", place())),
        }
        .and_then(|format| if self.files().is_dir() { Ok(format) } else { Err(self.without_files()) })
    }

    fn without_files(&self) -> StoreError {
        StoreError::damaged(format!("the sub-directory {} is missing", self.kind), self.path.display().to_string())
    }
}

/// Makes a directory for its user alone, whoever may look into the one above: secrets of streams are among the data.
pub fn create_private(path: &Path) -> std::io::Result<()> {
    private().create(path)
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// What is there keeps the rights it has, which may be meant. That every user may read it hardly is.
pub fn warn_if_open_to_all(path: &Path) {
    if is_open_to_all(path) {
        let path = path.display();
        tracing::warn!(
            "every user of this machine can read {path}, and secrets of streams are among the data; if that is not meant: \
             chmod go-rwx {path}"
        );
    }
}

/// Whether those who are neither its user nor in its group may read a file, or find what they know the name of in a directory,
/// and get there.
fn is_open_to_all(path: &Path) -> bool {
    let lets = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| {
            let needed = if found.is_dir() { 0o001 } else { 0o004 };
            found.permissions().mode() & needed != 0
        })
    };
    lets(path) && fs::canonicalize(path).is_ok_and(|path| path.ancestors().skip(1).all(lets))
}

const PERMISSIONS: &str = "check that the path is right and that weir's user may write there";

fn refused(path: &Path, problem: String, hint: &'static str) -> StoreError {
    StoreError::Directory { path: path.to_owned(), problem, hint }
}

fn create(path: &Path, create_parent: bool) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    if path.exists() {
        return Err(refused(path, "it is not a directory".into(), "give a directory (store.filepath)"));
    }
    // The parent of a bare name is "", which stands for the working directory.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if !create_parent && parent.is_some_and(|parent| !parent.is_dir()) {
        let hint = "create it, or set store.create-parent-dir = true";
        return Err(refused(path, "the directory above it does not exist".into(), hint));
    }
    let made = parent.map_or(Ok(()), fs::create_dir_all);
    let made = made.and_then(|()| private().recursive(true).create(path));
    made.map_err(|error| refused(path, format!("it cannot be created ({error})"), PERMISSIONS))
}

/// Leaves alone what is not ours, before anything is written.
fn refuse_foreign(path: &Path, kind: &str) -> Result<(), StoreError> {
    if path.join(MARKER).exists() {
        return Ok(());
    }
    let unreadable = |error| refused(path, format!("it cannot be read ({error})"), PERMISSIONS);
    let mut names = Vec::new();
    for item in fs::read_dir(path).map_err(unreadable)? {
        names.push(item.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    let half_set_up = names.iter().any(|name| name == MARKER_NEW);
    let ours = |name: &String| name == LOCK || name == MARKER_NEW || (name == kind && half_set_up);
    names.retain(|name| !ours(name));
    names.sort();
    match names.as_slice() {
        [] => Ok(()),
        [name] => Err(StoreError::Foreign { path: path.to_owned(), found: format!("'{name}'") }),
        [name, rest @ ..] => {
            Err(StoreError::Foreign { path: path.to_owned(), found: format!("'{name}' and {} more", rest.len()) })
        }
    }
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path.join(LOCK));
    let mut file = open.map_err(|error| refused(path, format!("its file {LOCK} cannot be opened ({error})"), PERMISSIONS))?;
    let locked = file.try_lock();
    must_be_locked(locked, &mut file, path)?;
    let note = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    note(&mut file).map_err(|error| refused(path, format!("it cannot be written to ({error})"), PERMISSIONS))?;
    Ok(file)
}

/// So that nobody writes meanwhile.
fn lock_to_read(path: &Path) -> Result<Option<File>, StoreError> {
    let mut file = match File::open(path.join(LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(path, format!("its file {LOCK} cannot be opened ({error})"), PERMISSIONS)),
    };
    let locked = file.try_lock_shared();
    must_be_locked(locked, &mut file, path)?;
    Ok(Some(file))
}

fn must_be_locked(locked: Result<(), TryLockError>, file: &mut File, path: &Path) -> Result<(), StoreError> {
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only to be helpful: the number may not be there yet.
            let _ = file.read_to_string(&mut holder);
            Err(StoreError::Locked { path: path.to_owned(), holder: holder.trim().parse().ok() })
        }
        Err(TryLockError::Error(error)) => {
            Err(refused(path, format!("it cannot be locked ({error})"), "use a file system that can lock files"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<Directory, StoreError> {
        Directory::open(path, "rocks-db", false)
    }

    /// A directory that was set up, with nothing in the store.
    fn set_up(path: &Path) {
        let mut directory = open(path).unwrap();
        assert!(directory.fresh);
        fs::create_dir(directory.files()).unwrap();
        directory.set_up().unwrap();
    }

    #[test]
    fn is_set_up_once_and_locked_while_open() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        set_up(&path);
        let directory = open(&path).unwrap();
        assert!(!directory.fresh);
        match open(&path) {
            Err(StoreError::Locked { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(directory);
        open(&path).unwrap();
    }

    #[test]
    fn a_crash_while_setting_up_starts_over() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = open(temporary.path()).unwrap();
        fs::create_dir(directory.files()).unwrap();
        fs::write(directory.files().join("half"), "x").unwrap();
        drop(directory);
        let directory = open(temporary.path()).unwrap();
        assert!(directory.fresh && !directory.files().exists());
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("CURRENT"), "x").unwrap();
        assert!(matches!(open(temporary.path()), Err(StoreError::Foreign { found, .. }) if found == "'CURRENT'"));
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1);

        let file = temporary.path().join("CURRENT");
        assert!(matches!(open(&file), Err(StoreError::Directory { .. })));
    }

    #[test]
    fn parents_are_created_when_asked() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b/c");
        let refusal = open(&path).unwrap_err().to_string();
        assert!(refusal.contains("create-parent-dir"), "{refusal}");
        Directory::open(&path, "rocks-db", true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "for weir's user alone");
    }

    #[test]
    fn what_everybody_can_read_is_known() {
        let temporary = tempfile::tempdir().unwrap();
        let may = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let inner = temporary.path().join("inner");
        create_private(&inner).unwrap();
        let file = inner.join("file");
        fs::write(&file, "x").unwrap();
        may(temporary.path(), 0o755);
        may(&file, 0o644);
        assert!(!is_open_to_all(&inner) && !is_open_to_all(&file), "nobody else gets there");
        may(&inner, 0o711);
        // Where temporary files are for their user alone there is nobody to read these.
        let place = fs::canonicalize(temporary.path()).unwrap();
        let reached = place.ancestors().all(|above| fs::metadata(above).unwrap().permissions().mode() & 0o001 != 0);
        assert_eq!((is_open_to_all(&inner), is_open_to_all(&file)), (reached, reached));
        may(&file, 0o640);
        assert!(!is_open_to_all(&file), "a group is given rights by somebody who means it");
        may(&file, 0o644);
        may(temporary.path(), 0o750);
        assert!(!is_open_to_all(&inner) && !is_open_to_all(&file));
    }

    #[test]
    fn newer_older_other_garbled_or_half_copied_directories_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        set_up(path);
        let with_marker = |text: &str| {
            fs::write(path.join(MARKER), text).unwrap();
            open(path).unwrap_err()
        };
        assert!(matches!(
            with_marker("weir data directory\nformat 99\nsomething\n"),
            StoreError::Newer { found: 99, known: FORMAT, .. }
        ));
        assert!(with_marker("weir data directory\nformat 1\nstore rocks-db\n").to_string().contains("earlier weir"));
        let marker = |store: &str| format!("weir data directory\nformat {FORMAT}\nstore {store}\n");
        assert!(with_marker(&marker("map-db")).to_string().contains("map-db"));
        assert!(matches!(with_marker("weir data"), StoreError::Damaged { .. }));
        assert!(matches!(with_marker("\u{0}"), StoreError::Damaged { .. }));
        fs::remove_dir(path.join("rocks-db")).unwrap();
        let half = with_marker(&marker("rocks-db"));
        assert!(matches!(half, StoreError::Damaged { .. }), "{half}");
    }
}
