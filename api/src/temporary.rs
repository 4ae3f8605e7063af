//! A directory of this process alone, which goes with whoever holds it; and when the process was killed, with the next one that
//! makes one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::clock;

const BEGINNING: &str = "weir-recipe-";

/// Of the file beside a directory that is held with a lock as long as somebody uses the directory.
const LOCK: &str = ".lock";

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
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{BEGINNING}{}-{}-{made}", std::process::id(), clock::millis(SystemTime::now()));
        let path = place.join(name);
        let cannot = |error: io::Error| format!("cannot make the directory {}: {error}", path.display());
        let lock = if keep { None } else { Some(locked(&lock_of(&path)).map_err(cannot)?) };
        fs::create_dir_all(&path).map_err(cannot)?;
        Ok(Temporary { path, lock })
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

fn lock_of(directory: &Path) -> PathBuf {
    let mut path = directory.as_os_str().to_owned();
    path.push(LOCK);
    path.into()
}

/// A file that is locked as soon as anybody can see it under this name.
fn locked(path: &Path) -> io::Result<File> {
    let unseen = path.with_extension("new");
    let file = File::options().write(true).create_new(true).open(&unseen)?;
    file.lock()?;
    fs::rename(unseen, path)?;
    Ok(file)
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
        let Ok(lock) = File::open(entry.path()) else { continue };
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
}
