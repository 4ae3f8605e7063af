//! Begun: a file that redb was setting up when its process ended, which it takes for a file of something else from then on.
//!
//!     redb's mark 9 | the rest of its header 311 | nothing yet
//!
//! redb makes the file as long as it is to be, writes the header without its mark, and then the mark. Nothing has been stored
//! before that, so a file without the mark and with nothing behind the header is emptied, and redb begins anew.

use std::io;
use std::ops::Bound;

use redb::{BackendError, StorageBackend};

/// How long the file is with which redb begins. One of another length is left alone, whatever is in it.
const BEGUN_BYTES: u64 = 1_056_768;

const MARK_BYTES: usize = 9;
const HEADER_BYTES: usize = 320;

/// Where the header says how large pages are, which is always the same.
const PAGE_SIZE: std::ops::Range<usize> = 12..16;
const PAGE_BYTES: u32 = 4096;

/// Empties a file that was only begun, unless somebody else is at it.
pub fn empty(file: &impl StorageBackend) -> Result<(), BackendError> {
    const WHOLE: (Bound<u64>, Bound<u64>) = (Bound::Unbounded, Bound::Unbounded);
    if !is_begun(file)? {
        return Ok(());
    }
    match file.try_lock_range(WHOLE.0, WHOLE.1) {
        Ok(true) => {}
        // redb says that it is in use; where there are no locks, that it is of something else.
        Ok(false) | Err(BackendError::Unsupported) => return Ok(()),
        Err(error) => return Err(error),
    }
    // Who was at it may have gone on until it was locked.
    let emptied = is_begun(file).and_then(|is_begun| if is_begun { file.set_len(0) } else { Ok(()) });
    file.unlock_range(WHOLE.0, WHOLE.1)?;
    Ok(emptied?)
}

fn is_begun(file: &impl StorageBackend) -> io::Result<bool> {
    if file.len()? != BEGUN_BYTES {
        return Ok(false);
    }
    let mut bytes = vec![0; BEGUN_BYTES as usize];
    file.read(0, &mut bytes)?;
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let is_headed = is_zero(header) || (is_zero(&header[..MARK_BYTES]) && header[PAGE_SIZE] == PAGE_BYTES.to_le_bytes());
    Ok(is_headed && is_zero(rest))
}
