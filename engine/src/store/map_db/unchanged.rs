//! Unchanged: a file that redb may take for one it writes to, and of which nothing is changed. What is written is kept in memory,
//! by pages.
//!
//! redb can open a file to be read, too, but neither verifies nor mends it then; and a disk often becomes read-only because
//! something went wrong while weir wrote.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};
use weir_model::lock::lock;

const PAGE_BYTES: u64 = 4096;

#[derive(Debug)]
pub struct Unchanged {
    file: FileBackend,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    length: u64,
    /// From here on the file has nothing more to say: it was cut there.
    cut_at: u64,
    /// Pages that were written, by their numbers.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Unchanged {
    pub fn new(file: File) -> Result<Unchanged, DatabaseError> {
        let file = FileBackend::new(file)?;
        let length = file.len()?;
        Ok(Unchanged { file, changes: Mutex::new(Changes { length, cut_at: length, pages: BTreeMap::new() }) })
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        lock(&self.changes)
    }

    /// As the file has it, with zeros behind its end.
    fn read_file(&self, cut_at: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = cut_at.saturating_sub(offset).min(out.len() as u64) as usize;
        let (there, new) = out.split_at_mut(there);
        new.fill(0);
        if there.is_empty() { Ok(()) } else { self.file.read(offset, there) }
    }
}

/// The pages that `length` bytes lie in, each with where they begin in it, and the part of the bytes.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES) as usize;
        let count = (PAGE_BYTES as usize - within).min(length - done);
        done += count;
        (count > 0).then_some((at / PAGE_BYTES, within, done - count..done))
    })
}

impl StorageBackend for Unchanged {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset + out.len() as u64 > changes.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(changes.cut_at, offset, out)?;
        for (number, within, part) in pieces(offset, out.len()) {
            if let Some(page) = changes.pages.get(&number) {
                let length = part.len();
                out[part].copy_from_slice(&page[within..within + length]);
            }
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = length;
        changes.cut_at = changes.cut_at.min(length);
        changes.pages.split_off(&length.div_ceil(PAGE_BYTES));
        if let Some(last) = changes.pages.get_mut(&(length / PAGE_BYTES)) {
            last[(length % PAGE_BYTES) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        changes.length = changes.length.max(offset + data.len() as u64);
        for (number, within, part) in pieces(offset, data.len()) {
            if !changes.pages.contains_key(&number) {
                let mut page = vec![0; PAGE_BYTES as usize];
                self.read_file(changes.cut_at, number * PAGE_BYTES, &mut page)?;
                changes.pages.insert(number, page);
            }
            if let Some(page) = changes.pages.get_mut(&number) {
                page[within..within + part.len()].copy_from_slice(&data[part]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // Only who writes to a file needs it alone: others may read it meanwhile, and nobody may write.

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is changed, and one that only seems to be, are the same to whoever reads them.
    #[test]
    fn what_is_read_is_what_was_written() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, other) = (temporary.path().join("a"), temporary.path().join("b"));
        let before: Vec<u8> = (0..20_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &before).unwrap();
        std::fs::write(&other, &before).unwrap();
        let unchanged = Unchanged::new(File::open(&path).unwrap()).unwrap();
        let changed = FileBackend::new(File::options().read(true).write(true).open(&other).unwrap()).unwrap();
        let both: [&dyn StorageBackend; 2] = [&unchanged, &changed];
        let steps: [(u64, Option<&[u8]>); 8] = [
            (10, Some(&[1; 5000])),
            (4096, Some(&[2; 4096])),
            (19_990, Some(&[3; 100])),
            (9_000, None),
            (30_000, None),
            (12_000, Some(&[4; 9000])),
            (12_289, None),
            (16_384, None),
        ];
        for (at, written) in steps {
            let contents = both.map(|file| {
                match written {
                    Some(bytes) => file.write(at, bytes).unwrap(),
                    None => file.set_len(at).unwrap(),
                }
                let mut all = vec![9; file.len().unwrap() as usize];
                file.read(0, &mut all).unwrap();
                assert!(file.read(1, &mut all.clone()).is_err());
                all
            });
            assert!(contents[0] == contents[1], "at {at}");
        }
        assert!(std::fs::read(&path).unwrap() == before);
    }
}
