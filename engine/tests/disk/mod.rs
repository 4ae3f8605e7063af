//! A disk that fails on request, below everything this process does with files.
//!
//! The functions of the C library that files are written with are defined here once more. Within the program these are found
//! first, by RocksDB as by the standard library, and hand over to the real ones. Files below the watched directory are on the
//! disk; all others are left alone.
//!
//! What a loss of power leaves is what a file system with a journal promises: of each file at least what was synced; what was
//! created, renamed and removed in the order in which it happened, up to some moment after the last sync of anything. Of a sync
//! that failed, the bytes are lost for good, and a later one does not bring them back, as on Linux.
//!
//! Not simulated: a disk that says it has synced and has not; files that are written in place, which RocksDB does not do. (The
//! one that weir does it with, `weir-reached`, is as it was last written.)

#![allow(unsafe_code, reason = "functions of the C library are called, and defined")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "it is said once for all that hand over")]
#![allow(clippy::missing_transmute_annotations, reason = "the fields say what each is")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the failure")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use libc::{off_t, size_t, ssize_t};

use super::common::Random;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// No room for another byte.
    Full,
    /// A part of what is written finds room, then none.
    Torn,
    /// The file system has become read-only.
    ReadOnly,
    FailedSync,
    /// Nothing that happens from now on reaches the disk.
    PowerLoss,
    /// A file is said to end where it does not.
    ShortRead,
    FailedRead,
    /// No more files can be opened.
    NoFiles,
}

struct File {
    /// Another name of the same file, so that it is there after the others are gone.
    kept: PathBuf,
    /// How many of its bytes are on the disk for good.
    synced: u64,
    sync_failed: bool,
}

enum Change {
    Named(PathBuf, usize),
    Renamed(PathBuf, PathBuf, usize),
    Removed(PathBuf),
}

#[derive(Default)]
struct Disk {
    root: PathBuf,
    attic: PathBuf,
    files: Vec<File>,
    open: HashMap<c_int, usize>,
    names: BTreeMap<PathBuf, usize>,
    /// As of the last sync, and what has happened since.
    names_synced: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    fault: Option<Fault>,
    /// Calls that the fault concerns until it strikes.
    left: u64,
    struck: bool,
}

static WATCHING: AtomicBool = AtomicBool::new(false);
static DISK: Mutex<Option<Disk>> = Mutex::new(None);

/// The disk, while a directory is watched.
fn disk() -> Option<MutexGuard<'static, Option<Disk>>> {
    let watching = WATCHING.load(Ordering::Acquire);
    watching.then(|| DISK.lock().unwrap_or_else(|e| e.into_inner())).filter(|disk| disk.is_some())
}

/// Watches what is in `root`, which is on the disk for good. `attic` is where files that were removed are kept.
pub fn watch(root: &Path, attic: &Path) {
    fs::create_dir_all(attic).unwrap();
    let mut disk = Disk { root: root.to_owned(), attic: attic.to_owned(), ..Disk::default() };
    let mut found = Vec::new();
    list(root, &mut found);
    for path in found {
        let file = disk.keep(&path);
        disk.files[file].synced = fs::metadata(&path).unwrap().len();
        disk.names.insert(path, file);
    }
    disk.names_synced = disk.names.clone();
    *DISK.lock().unwrap_or_else(|e| e.into_inner()) = Some(disk);
    WATCHING.store(true, Ordering::Release);
}

/// The fault strikes from now on, after this many calls that it concerns.
pub fn arm(fault: Fault, after: u64) {
    if let Some(mut disk) = disk() {
        let disk = disk.as_mut().unwrap();
        (disk.fault, disk.left, disk.struck) = (Some(fault), after, false);
    }
}

/// Whether the fault has struck.
pub fn has_struck() -> bool {
    disk().is_some_and(|disk| disk.as_ref().unwrap().struck)
}

/// Ends watching. What is on the disk then is written to `to`: all that there is, or what a loss of power leaves.
pub fn leave(power_lost: bool, random: &mut Random, to: &Path) {
    WATCHING.store(false, Ordering::Release);
    let disk = DISK.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap();
    let names = if power_lost { disk.names_after_power_loss(random) } else { disk.names.clone() };
    let mut directories = Vec::new();
    list_directories(&disk.root, &mut directories);
    for directory in directories {
        fs::create_dir_all(to.join(directory.strip_prefix(&disk.root).unwrap())).unwrap();
    }
    for (path, file) in names {
        let file = &disk.files[file];
        let mut bytes = fs::read(&file.kept).unwrap();
        if power_lost && bytes.len() as u64 > file.synced {
            let kept = match random.below(3) {
                0 => file.synced,
                1 if !file.sync_failed => bytes.len() as u64,
                _ => file.synced + random.below(bytes.len() as u64 - file.synced + 1),
            };
            bytes.truncate(kept as usize);
        }
        let target = to.join(path.strip_prefix(&disk.root).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
    let reached = to.join("weir-reached");
    if power_lost && let Ok(mut bytes) = fs::read(&reached) {
        // The system has started anew: what it calls itself is another, each time.
        bytes.iter_mut().take(1).for_each(|byte| *byte = byte.wrapping_add(1));
        fs::write(reached, bytes).unwrap();
    }
}

fn list(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => list(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

fn list_directories(directory: &Path, found: &mut Vec<PathBuf>) {
    found.push(directory.to_owned());
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_dir()) {
        list_directories(&entry.path(), found);
    }
}

impl Disk {
    fn keep(&mut self, path: &Path) -> usize {
        let kept = self.attic.join(self.files.len().to_string());
        // SAFETY: both are strings that end with a zero.
        let linked = unsafe { (real().link)(text(path).as_ptr(), text(&kept).as_ptr()) };
        assert_eq!(linked, 0, "{} cannot be linked to {}", path.display(), kept.display());
        self.files.push(File { kept, synced: 0, sync_failed: false });
        self.files.len() - 1
    }

    fn names_after_power_loss(&self, random: &mut Random) -> BTreeMap<PathBuf, usize> {
        let mut names = self.names_synced.clone();
        let kept = random.below(self.changes.len() as u64 + 1) as usize;
        for change in &self.changes[..kept] {
            match change {
                Change::Named(path, file) => drop(names.insert(path.clone(), *file)),
                Change::Renamed(from, to, file) => {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
                Change::Removed(path) => drop(names.remove(path)),
            }
        }
        names
    }

    fn name(&mut self, path: PathBuf, file: usize) {
        self.names.insert(path.clone(), file);
        self.changes.push(Change::Named(path, file));
    }

    fn remove(&mut self, path: PathBuf) {
        self.names.remove(&path);
        self.changes.push(Change::Removed(path));
    }

    fn watches(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }

    fn is_off(&self) -> bool {
        self.struck && self.fault == Some(Fault::PowerLoss)
    }

    /// Whether one of these faults strikes at this call. A fault of the disk stays; a read fails once.
    fn strikes(&mut self, faults: &[Fault]) -> Option<Fault> {
        let fault = self.fault.filter(|fault| faults.contains(fault))?;
        if self.struck {
            return (!matches!(fault, Fault::ShortRead | Fault::FailedRead)).then_some(fault);
        }
        self.left = self.left.saturating_sub(1);
        self.struck = self.left == 0;
        self.struck.then_some(fault)
    }

    /// What a call that writes is answered, if it fails.
    fn refuses(&mut self) -> Option<c_int> {
        match self.strikes(&[Fault::Full, Fault::ReadOnly, Fault::PowerLoss])? {
            Fault::Full => Some(libc::ENOSPC),
            Fault::ReadOnly => Some(libc::EROFS),
            _ => Some(libc::EIO),
        }
    }

    fn sync(&mut self, number: c_int) -> bool {
        let failed = self.strikes(&[Fault::FailedSync, Fault::PowerLoss]).is_some();
        let Some(index) = self.open.get(&number) else { return !failed };
        let file = &mut self.files[*index];
        file.sync_failed |= failed;
        if !file.sync_failed {
            file.synced = fs::metadata(&file.kept).unwrap().len();
        }
        !failed
    }

    fn sync_names(&mut self) {
        self.names_synced = self.names.clone();
        self.changes.clear();
    }
}

/// The functions of the C library.
struct Real {
    open: unsafe extern "C" fn(*const c_char, c_int, c_uint) -> c_int,
    close: unsafe extern "C" fn(c_int) -> c_int,
    read: unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t,
    pread: unsafe extern "C" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t,
    write: unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t,
    pwrite: unsafe extern "C" fn(c_int, *const c_void, size_t, off_t) -> ssize_t,
    fsync: unsafe extern "C" fn(c_int) -> c_int,
    fdatasync: unsafe extern "C" fn(c_int) -> c_int,
    ftruncate: unsafe extern "C" fn(c_int, off_t) -> c_int,
    rename: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    link: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    unlink: unsafe extern "C" fn(*const c_char) -> c_int,
    unlinkat: unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int,
}

fn real() -> &'static Real {
    static REAL: std::sync::OnceLock<Real> = std::sync::OnceLock::new();
    REAL.get_or_init(|| {
        let find = |name: &CStr| {
            // SAFETY: the name ends with a zero.
            let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
            assert!(!found.is_null(), "{name:?} is not in the C library");
            found
        };
        // SAFETY: these are the types that the C library gives them.
        unsafe {
            use std::mem::transmute as of;
            Real {
                open: of(find(c"open")),
                close: of(find(c"close")),
                read: of(find(c"read")),
                pread: of(find(c"pread")),
                write: of(find(c"write")),
                pwrite: of(find(c"pwrite")),
                fsync: of(find(c"fsync")),
                fdatasync: of(find(c"fdatasync")),
                ftruncate: of(find(c"ftruncate")),
                rename: of(find(c"rename")),
                link: of(find(c"link")),
                unlink: of(find(c"unlink")),
                unlinkat: of(find(c"unlinkat")),
            }
        }
    })
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn fails(code: c_int) -> c_int {
    // SAFETY: the place is the thread's own.
    unsafe { *libc::__errno_location() = code };
    -1
}

/// SAFETY: of who calls: the string ends with a zero.
unsafe fn path(of: *const c_char) -> PathBuf {
    // SAFETY: as above.
    let bytes = unsafe { CStr::from_ptr(of) }.to_bytes();
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

const WRITES: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

// SAFETY: of all that follow: they do what the functions of the same names in the C library do, or fail as those can.

#[unsafe(no_mangle)]
unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let really = || unsafe { (real().open)(name, flags, mode) };
    let Some(mut disk) = disk() else { return really() };
    let disk = disk.as_mut().unwrap();
    let path = unsafe { path(name) };
    if !disk.watches(&path) {
        return really();
    }
    if disk.strikes(&[Fault::NoFiles]).is_some() {
        return fails(libc::EMFILE);
    }
    let known = disk.names.get(&path).copied();
    let is_new = flags & libc::O_CREAT != 0 && (known.is_none() || flags & libc::O_TRUNC != 0);
    if flags & WRITES != 0
        && let Some(error) = disk.refuses()
    {
        return fails(error);
    }
    if is_new && known.is_some() {
        // What was in it may come back.
        unsafe { (real().unlink)(name) };
    }
    let number = really();
    if number < 0 {
        return number;
    }
    let file = if is_new { Some(disk.keep(&path)) } else { known };
    if let Some(file) = file {
        disk.open.insert(number, file);
        if is_new {
            disk.name(path, file);
        }
    }
    number
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open64(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    unsafe { open(name, flags, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn close(number: c_int) -> c_int {
    if let Some(mut disk) = disk() {
        disk.as_mut().unwrap().open.remove(&number);
    }
    unsafe { (real().close)(number) }
}

/// What a read is answered, if it fails.
fn misread(number: c_int) -> Option<ssize_t> {
    let mut disk = disk()?;
    let disk = disk.as_mut().unwrap();
    disk.open.get(&number)?;
    match disk.strikes(&[Fault::ShortRead, Fault::FailedRead])? {
        Fault::ShortRead => Some(0),
        _ => Some(fails(libc::EIO) as ssize_t),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(number: c_int, into: *mut c_void, count: size_t) -> ssize_t {
    misread(number).unwrap_or_else(|| unsafe { (real().read)(number, into, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread(number: c_int, into: *mut c_void, count: size_t, at: off_t) -> ssize_t {
    misread(number).unwrap_or_else(|| unsafe { (real().pread)(number, into, count, at) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pread64(number: c_int, into: *mut c_void, count: size_t, at: off_t) -> ssize_t {
    unsafe { pread(number, into, count, at) }
}

/// How much of what is to be written may be, and after which error no more.
fn room(number: c_int, count: size_t) -> Result<size_t, c_int> {
    let Some(mut disk) = disk() else { return Ok(count) };
    let disk = disk.as_mut().unwrap();
    if !disk.open.contains_key(&number) {
        return Ok(count);
    }
    if let Some(error) = disk.refuses() {
        return Err(error);
    }
    let had_struck = disk.struck;
    match disk.strikes(&[Fault::Torn]) {
        None => Ok(count),
        Some(_) if !had_struck && count > 1 => Ok(count / 2),
        Some(_) => Err(libc::ENOSPC),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(number: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    match if number <= libc::STDERR_FILENO { Ok(count) } else { room(number, count) } {
        Ok(count) => unsafe { (real().write)(number, bytes, count) },
        Err(error) => fails(error) as ssize_t,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(number: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    match room(number, count) {
        Ok(count) => unsafe { (real().pwrite)(number, bytes, count, at) },
        Err(error) => fails(error) as ssize_t,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(number: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    unsafe { pwrite(number, bytes, count, at) }
}

/// None: not of the watched directory.
fn sync(number: c_int) -> Option<c_int> {
    let mut disk = disk()?;
    let disk = disk.as_mut().unwrap();
    let path = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if !disk.watches(&path) {
        return None;
    }
    if !disk.sync(number) {
        return Some(fails(libc::EIO));
    }
    disk.sync_names();
    Some(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(number: c_int) -> c_int {
    sync(number).unwrap_or_else(|| unsafe { (real().fsync)(number) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(number: c_int) -> c_int {
    sync(number).unwrap_or_else(|| unsafe { (real().fdatasync)(number) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate(number: c_int, length: off_t) -> c_int {
    if let Some(mut disk) = disk() {
        let disk = disk.as_mut().unwrap();
        if let Some(index) = disk.open.get(&number).copied() {
            if let Some(error) = disk.refuses() {
                return fails(error);
            }
            let file = &mut disk.files[index];
            file.synced = file.synced.min(length as u64);
        }
    }
    unsafe { (real().ftruncate)(number, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(number: c_int, length: off_t) -> c_int {
    unsafe { ftruncate(number, length) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let (old, new) = unsafe { (path(from), path(to)) };
    let really = || unsafe { (real().rename)(from, to) };
    give_name(&old, really, |disk, file| {
        disk.names.remove(&old);
        disk.names.insert(new.clone(), file);
        disk.changes.push(Change::Renamed(old.clone(), new, file));
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    let (old, new) = unsafe { (path(from), path(to)) };
    let really = || unsafe { (real().link)(from, to) };
    give_name(&old, really, |disk, file| disk.name(new, file))
}

fn give_name(old: &Path, really: impl FnOnce() -> c_int, note: impl FnOnce(&mut Disk, usize)) -> c_int {
    let Some(mut disk) = disk() else { return really() };
    let disk = disk.as_mut().unwrap();
    if let Some(error) = disk.watches(old).then(|| disk.refuses()).flatten() {
        return fails(error);
    }
    let done = really();
    if let (0, Some(file)) = (done, disk.names.get(old).copied()) {
        note(disk, file);
    }
    done
}

fn remove(path: &Path, really: impl FnOnce() -> c_int) -> c_int {
    let Some(mut disk) = disk() else { return really() };
    let disk = disk.as_mut().unwrap();
    if disk.watches(path) && disk.is_off() {
        return fails(libc::EIO);
    }
    if let Some(error) = disk.watches(path).then(|| disk.strikes(&[Fault::ReadOnly])).flatten().map(|_| libc::EROFS) {
        return fails(error);
    }
    let done = really();
    if done == 0 && disk.names.contains_key(path) {
        disk.remove(path.to_owned());
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    remove(&unsafe { path(name) }, || unsafe { (real().unlink)(name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int {
    let within = fs::read_link(format!("/proc/self/fd/{directory}")).unwrap_or_default();
    remove(&within.join(unsafe { path(name) }), || unsafe { (real().unlinkat)(directory, name, flags) })
}
