//! Whether files of RocksDB that are there are whole, where it goes on without a word when they are not.

use std::path::Path;

use super::super::StoreError;
use super::super::reached::{self, List, Reached};

/// RocksDB begins without a word where its write-ahead log is missing, and with it what was written last. There always is one,
/// also an empty one.
pub fn check_log(files: &Path) -> Result<(), StoreError> {
    let listed = std::fs::read_dir(files).map_err(|error| StoreError::failed(format!("list {}", files.display()), error))?;
    if listed.filter_map(Result::ok).any(|item| item.path().extension().is_some_and(|extension| extension == "log")) {
        return Ok(());
    }
    let what = "what was written last is missing (there is no *.log): the directory was copied in part, or a file was deleted";
    Err(StoreError::damaged(what, files.display().to_string()))
}

/// RocksDB begins without a word as well where the end of its write-ahead log is missing. Says how far the store reaches.
/// `found` is the number of the last write.
pub fn check_end(found: u64, directory: &Path) -> Result<Reached, StoreError> {
    let least = read_reached(directory)?;
    if found >= least.written {
        return Ok(Reached { written: found, closed: false, ..least });
    }
    let what = format!(
        "the last {} of {} writes are missing: a file of RocksDB's write-ahead log (*.log) was cut off or removed, or the directory was copied while it was in use",
        least.written - found,
        least.written
    );
    let hint = "restore it from a backup, or remove its file weir-reached to go on without them";
    Err(StoreError::Damaged { what, place: directory.display().to_string(), hint })
}

fn read_reached(directory: &Path) -> Result<Reached, StoreError> {
    let path = directory.join(reached::FILE);
    Reached::read(&path).map_err(|error| StoreError::failed(format!("read {}", path.display()), error))
}

/// Files that are not in RocksDB's list it deletes as it opens: it takes a list whose end is missing for what a crash left.
pub fn check_list(files: &Path, directory: &Path) -> Result<(), StoreError> {
    let Some((number, bytes)) = current_list(files) else { return Ok(()) };
    if read_reached(directory)?.list.is_in(number, &bytes) {
        return Ok(());
    }
    let what =
        format!("MANIFEST-{number:06} is not what was written: RocksDB's list of its files was cut off or is an older one");
    Err(StoreError::damaged(what, files.display().to_string()))
}

pub fn list_of_files(files: &Path) -> Option<List> {
    current_list(files).map(|(number, bytes)| List::of(number, &bytes))
}

/// The number of RocksDB's list of files, and what is in it. None where there is none, which RocksDB itself tells.
fn current_list(files: &Path) -> Option<(u64, Vec<u8>)> {
    let current = std::fs::read_to_string(files.join("CURRENT")).ok()?;
    let name = current.trim();
    Some((name.strip_prefix("MANIFEST-")?.parse().ok()?, std::fs::read(files.join(name)).ok()?))
}
