//! Space: a file without a name that is mapped into memory, and given out in pieces of pages.
//!
//! What is asked for is reserved on the disk first, so that a full disk is a refusal and never a signal, and some of it is left;
//! in large steps, for each is a transaction of the file system. What is given back is given out again; the file never shrinks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use weir_model::lock::lock;

pub const PAGE: usize = 4096;

/// Addresses that are kept free for the file; it takes memory and disk only where it is used.
const RESERVED_MAX: usize = 1 << 40;
const RESERVED_MIN: usize = 1 << 32;

/// How much the file grows by.
const STEP: usize = 64 << 20;

/// This much of the disk is left to others, to the log of the store above all; of a small one a tenth.
const LEFT_FREE: u64 = 1 << 30;

pub struct Space {
    file: File,
    base: usize,
    /// How many addresses are kept.
    length: usize,
    pieces: Mutex<Pieces>,
    /// As the pieces have them, for those who must not wait while the disk makes room.
    end: AtomicUsize,
    used: AtomicUsize,
}

#[derive(Default)]
struct Pieces {
    /// By where they begin; no two of them touch.
    free: BTreeMap<usize, usize>,
    /// The pieces of `free` by how long they are, and where they begin.
    by_length: BTreeSet<(usize, usize)>,
    /// Nothing was given out from here on.
    end: usize,
    used: usize,
    /// How much of the file the disk has room for.
    on_disk: usize,
}

impl Pieces {
    fn add_free(&mut self, at: usize, length: usize) {
        self.free.insert(at, length);
        self.by_length.insert((length, at));
    }

    fn remove_free(&mut self, at: usize, length: usize) {
        self.free.remove(&at);
        self.by_length.remove(&(length, at));
    }

    /// The shortest that is long enough, and of these the first, so that the file stays short.
    fn take(&mut self, length: usize, most: usize) -> Option<usize> {
        let at = match self.by_length.range((length, 0)..).next().copied() {
            Some((free, at)) => {
                self.remove_free(at, free);
                if free > length {
                    self.add_free(at + length, free - length);
                }
                at
            }
            None if self.end + length <= most => {
                self.end += length;
                self.end - length
            }
            None => return None,
        };
        self.used += length;
        Some(at)
    }

    fn give_back(&mut self, mut at: usize, mut length: usize) {
        self.used -= length;
        if let Some((before, free)) = self.free.range(..at).next_back().map(|(before, free)| (*before, *free))
            && before + free == at
        {
            self.remove_free(before, free);
            (at, length) = (before, free + length);
        }
        if let Some(free) = self.free.get(&(at + length)).copied() {
            self.remove_free(at + length, free);
            length += free;
        }
        if at + length == self.end {
            self.end = at;
        } else {
            self.add_free(at, length);
        }
    }
}

impl Space {
    pub fn open(directory: &Path) -> io::Result<Space> {
        let file = nameless(directory)?;
        let mut length = RESERVED_MAX;
        // Where addresses are rationed (`ulimit -v`), fewer will do.
        let base = loop {
            match map(&file, length) {
                Ok(base) => break base,
                Err(_) if length > RESERVED_MIN => length /= 2,
                Err(error) => return Err(error),
            }
        };
        Ok(Space { file, base, length, pieces: Mutex::default(), end: AtomicUsize::new(0), used: AtomicUsize::new(0) })
    }

    /// Some pages, whatever is in them; none if the disk is full.
    pub fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        let length = bytes.next_multiple_of(PAGE);
        let mut pieces = self.pieces();
        let at = pieces.take(length, self.length)?;
        let missing = pieces.end.saturating_sub(pieces.on_disk);
        if missing > 0 {
            let reserved = [missing.next_multiple_of(STEP), missing]
                .into_iter()
                .find(|more| reserve(&self.file, pieces.on_disk, *more).is_ok());
            match reserved {
                Some(more) => pieces.on_disk += more,
                None => {
                    pieces.give_back(at, length);
                    return None;
                }
            }
        }
        self.show(&pieces);
        NonNull::new((self.base + at) as *mut u8)
    }

    /// Takes back what `allocate` gave for as many bytes. Nobody looks at it any more.
    pub fn release(&self, place: NonNull<u8>, bytes: usize) {
        let mut pieces = self.pieces();
        pieces.give_back(place.as_ptr() as usize - self.base, bytes.next_multiple_of(PAGE));
        self.show(&pieces);
    }

    fn show(&self, pieces: &Pieces) {
        self.end.store(pieces.end, Ordering::Relaxed);
        self.used.store(pieces.used, Ordering::Relaxed);
    }

    pub fn contains(&self, place: *const u8) -> bool {
        (place as usize).wrapping_sub(self.base) < self.length
    }

    /// Lets some pages leave memory; what is in them stays in the file.
    pub fn leave(&self, from: usize, bytes: usize) {
        let to = (from + bytes).min(self.end());
        if from < to {
            self.let_go(from, to - from);
        }
    }

    pub fn end(&self) -> usize {
        self.end.load(Ordering::Relaxed)
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        lock(&self.pieces)
    }

    #[expect(unsafe_code, reason = "pages of a mapping are told apart from others by their address alone")]
    fn let_go(&self, at: usize, length: usize) {
        // SAFETY: the range lies in this mapping, which is shared with its file, so that no content is lost.
        unsafe { libc::madvise((self.base + at) as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// A file that goes with the process, readable by it alone.
fn nameless(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        return Ok(file);
    }
    let path = directory.join(format!(".memory-{}", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[expect(unsafe_code, reason = "a mapping is made by the kernel and is nobody's memory but this one's")]
fn map(file: &File, length: usize) -> io::Result<usize> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: the kernel chooses the address, so nothing that is there is touched; pages are used only after `reserve`.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base as usize) }
}

#[expect(unsafe_code, reason = "neither std nor rustix as it is built here reserves a part of a file")]
fn reserve(file: &File, at: usize, length: usize) -> io::Result<()> {
    let (size, free) = disk(file)?;
    if !leaves_enough(size, free, length as u64) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    // SAFETY: a call about a file that is open.
    let done = unsafe { libc::posix_fallocate(file.as_raw_fd(), at as libc::off_t, length as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(done)) }
}

fn leaves_enough(size: u64, free: u64, taken: u64) -> bool {
    free >= taken + LEFT_FREE.min(size / 10)
}

/// How large the disk of a file is, and how much of it is free.
#[expect(unsafe_code, reason = "neither std nor rustix as it is built here tells of disks")]
fn disk(file: &File) -> io::Result<(u64, u64)> {
    let mut told = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the file is open, and there is room for what is told of it.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), told.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: any bytes are a value of this type, and the call has written it.
    let told = unsafe { told.assume_init() };
    Ok((told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize))
}

impl Drop for Space {
    #[expect(unsafe_code, reason = "what was mapped is unmapped")]
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's; whoever drops the space has given everything back.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_taken_given_back_and_joined() {
        let mut pieces = Pieces::default();
        let all: Vec<usize> = (0..4).map(|_| pieces.take(10, 100).unwrap()).collect();
        assert_eq!(all, [0, 10, 20, 30]);
        pieces.give_back(10, 10);
        assert_eq!(pieces.take(11, 100), Some(40));
        assert_eq!(pieces.take(4, 100), Some(10));
        pieces.give_back(20, 10);
        assert_eq!(pieces.free, BTreeMap::from([(14, 16)]));
        pieces.give_back(10, 4);
        assert_eq!(pieces.free, BTreeMap::from([(10, 20)]));
        assert_eq!((pieces.used, pieces.end), (31, 51));
        assert_eq!(pieces.take(60, 100), None, "more than is reserved");
        pieces.give_back(40, 11);
        pieces.give_back(30, 10);
        pieces.give_back(0, 10);
        assert_eq!((pieces.free.len(), pieces.by_length.len(), pieces.used, pieces.end), (0, 0, 0, 0));
    }

    #[test]
    fn a_part_of_the_disk_is_left_to_others() {
        let (size, step) = (100 << 30, STEP as u64);
        assert!(leaves_enough(size, LEFT_FREE + step, step) && !leaves_enough(size, LEFT_FREE + step - 1, step));
        let small = 1 << 30;
        assert!(leaves_enough(small, small / 10 + step, step) && !leaves_enough(small, small / 10, step));
        let (size, free) = disk(&tempfile::tempfile().unwrap()).unwrap();
        assert!(size > 0 && free <= size);
    }

    #[test]
    #[expect(unsafe_code, reason = "the pages are written and read as their owner would")]
    fn what_left_memory_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let space = Space::open(directory.path()).unwrap();
        let sizes = [1, PAGE, 3 * PAGE + 1, 1 << 20];
        let places: Vec<_> = sizes.iter().map(|size| space.allocate(*size).unwrap()).collect();
        for (place, size) in places.iter().zip(sizes) {
            assert!(space.contains(place.as_ptr()));
            // SAFETY: as many bytes were given out, to nobody else.
            unsafe { place.as_ptr().write_bytes(size as u8 | 1, size) };
        }
        space.leave(0, space.end());
        for (place, size) in places.iter().zip(sizes) {
            // SAFETY: as above, and all were written.
            let bytes = unsafe { std::slice::from_raw_parts(place.as_ptr(), size) };
            assert!(bytes.iter().all(|byte| *byte == size as u8 | 1));
        }
        space.release(places[3], sizes[3]);
        assert_eq!(space.allocate(sizes[3]), Some(places[3]));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");
        assert!(!space.contains(std::ptr::from_ref(&space).cast()));
    }
}
