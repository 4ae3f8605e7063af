//! A directory of this process alone, which goes with whoever holds it; and when the process was killed, with the next one that
//! makes one.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::process::geteuid;

use crate::clock;

const BEGINNING: &str = "weir-recipe-";

/// Of the file beside a directory that is held with a lock as long as somebody uses the directory.
const LOCK: &str = ".lock";

/// Names that are tried. Where all may write, somebody else may have something of the first.
const NAMES_MAX: usize = 8;

/// Removed when it is dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Temporary {
    pub path: PathBuf,
    /// None where it is to be kept.
    lock: Option<File>,
}

impl Temporary {
    pub fn new(keep: bool) -> Result<Temporary, String> {
        Temporary::within(&std::env::temp_dir(), keep)
    }

    fn within(place: &Path, keep: bool) -> Result<Temporary, String> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        remove_left(place);
        first_free(place, keep, || {
            let made = MADE.fetch_add(1, Ordering::Relaxed);
            format!("{BEGINNING}{}-{}-{made}", std::process::id(), clock::millis(SystemTime::now()))
        })
    }

    fn at(path: &Path, keep: bool) -> io::Result<Temporary> {
        let lock = if keep { None } else { Some(locked(&lock_of(path))?) };
        if let Err(error) = fs::create_dir(path) {
            if lock.is_some() {
                let _ = fs::remove_file(lock_of(path));
            }
            return Err(error);
        }
        Ok(Temporary { path: path.to_owned(), lock })
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = fs::remove_dir_all(&self.path);
            let _ = fs::remove_file(lock_of(&self.path));
        }
    }
}

fn first_free(place: &Path, keep: bool, mut name: impl FnMut() -> String) -> Result<Temporary, String> {
    let mut left = NAMES_MAX;
    loop {
        left -= 1;
        let path = place.join(name());
        let made = fs::create_dir_all(place).and_then(|()| Temporary::at(&path, keep));
        match made {
            Err(error) if left > 0 && matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) => {}
            made => return made.map_err(|error| format!("cannot make the directory {}: {error}", path.display())),
        }
    }
}

fn lock_of(directory: &Path) -> PathBuf {
    let mut path = directory.as_os_str().to_owned();
    path.push(LOCK);
    path.into()
}

/// A file that is locked as soon as anybody can see it under this name.
fn locked(path: &Path) -> io::Result<File> {
    let unseen = path.with_extension("new");
    let file = File::options().write(true).create_new(true).open(&unseen)?;
    if let Err(error) = file.lock().and_then(|()| fs::rename(&unseen, path)) {
        let _ = fs::remove_file(&unseen);
        return Err(error);
    }
    Ok(file)
}

/// One that this user made. Where all may write, somebody else may have laid a link or a pipe there, or a lock beside a directory
/// that has none because it is to be kept.
fn own_lock(path: &Path) -> Option<File> {
    let options = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let lock = File::options().read(true).custom_flags(options).open(path).ok()?;
    let found = lock.metadata().ok()?;
    (found.is_file() && found.uid() == geteuid().as_raw()).then_some(lock)
}

/// Removes what those who were killed have left.
fn remove_left(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(directory) = name.to_str().filter(|name| name.starts_with(BEGINNING)).and_then(|name| name.strip_suffix(LOCK))
        else {
            continue;
        };
        let Some(lock) = own_lock(&entry.path()) else { continue };
        match lock.try_lock() {
            Ok(()) => {
                let directory = place.join(directory);
                if !directory.exists() || fs::remove_dir_all(&directory).is_ok() {
                    let _ = fs::remove_file(entry.path());
                }
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_goes_with_the_next_and_what_is_in_use_stays() {
        let place = tempfile::tempdir().expect("a directory");
        let names = || {
            let entries = fs::read_dir(place.path()).expect("the directory");
            entries.map(|entry| entry.expect("an entry").path()).collect::<std::collections::BTreeSet<_>>()
        };
        let used = Temporary::within(place.path(), false).expect("a directory");
        let kept = Temporary::within(place.path(), true).expect("a directory");
        let left = Temporary::within(place.path(), false).expect("a directory");
        fs::write(left.path.join("data"), "data").expect("written");
        // As one that is killed.
        let (left_path, mut left) = (left.path.clone(), std::mem::ManuallyDrop::new(left));
        drop(left.lock.take());
        assert!(left_path.exists());
        let next = Temporary::within(place.path(), false).expect("a directory");
        assert!(!left_path.exists() && !lock_of(&left_path).exists());
        assert!(used.path.exists() && kept.path.exists() && next.path.exists());
        let kept_path = kept.path.clone();
        drop((used, kept, next));
        assert_eq!(names(), [kept_path].into());
    }

    #[test]
    fn locks_that_are_somebody_elses_or_no_files_are_left_alone() {
        let (place, elsewhere) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let made = |name: &str| {
            let path = place.path().join(format!("{BEGINNING}{name}"));
            fs::create_dir(&path).expect("a directory");
            path
        };
        let (linked, piped, foreign) = (made("linked"), made("piped"), made("foreign"));
        let target = elsewhere.path().join("a file");
        fs::write(&target, "").expect("written");
        std::os::unix::fs::symlink(&target, lock_of(&linked)).expect("a link");
        let pipe = std::process::Command::new("mkfifo").arg(lock_of(&piped)).status().expect("mkfifo runs");
        assert!(pipe.success());
        let mut all = vec![linked, piped];
        if geteuid().is_root() {
            fs::write(lock_of(&foreign), "").expect("written");
            std::os::unix::fs::chown(lock_of(&foreign), Some(65534), None).expect("given away");
            all.push(foreign);
        } else {
            eprintln!("**** LEFT OUT: only root can make a lock of somebody else");
        }
        drop(Temporary::within(place.path(), false).expect("a directory"));
        for path in all {
            assert!(path.exists() && fs::symlink_metadata(lock_of(&path)).is_ok(), "{}", path.display());
        }
    }

    /// A directory that was there was taken, whoever had made it.
    #[test]
    fn what_is_there_already_is_not_taken() {
        let place = tempfile::tempdir().expect("a directory");
        for (taken, first, keep) in [("one", "one", false), ("one", "one", true), ("two.new", "two", false)] {
            let there = place.path().join(taken);
            fs::create_dir_all(&there).expect("a directory");
            let mut names = [first, "free"].into_iter();
            let made = first_free(place.path(), keep, || names.next().expect("a name").to_owned()).expect("a directory");
            assert_eq!(made.path, place.path().join("free"), "{taken}");
            assert!(there.exists() && !lock_of(&place.path().join(first)).exists(), "{taken}");
            drop(made);
            let _ = fs::remove_dir(place.path().join("free"));
        }
        let error = first_free(Path::new("/proc/self"), false, || "x".to_owned()).expect_err("nobody can");
        assert!(error.contains("cannot make the directory /proc/self/x"), "{error}");
    }
}
