//! Memory: the graph gives way before the process does.
//!
//! The limit is one of the process. Long before it is reached, large pieces of the graph are put into a file that lies in memory
//! (`space`) instead of on the heap; near it, what of that file was not touched lately leaves memory, and comes back when a read
//! touches it. What else there is cannot leave: where that alone fills the limit, ingest waits. A thread of its own looks after
//! that, and where it does not get its turn, whoever reads.
//!
//!     resident, of the limit    below 50 %      all on the heap
//!                               from 50 %       large new pieces go into the file
//!                               from 85 %       pieces of the file leave memory until 70 % are reached
//!                               95 % all the same    ingest slows

mod allocator;
mod heap;
mod space;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

pub use allocator::{Allocator, holds_graph};
pub use heap::{gather_freed, tend};
use space::Space;
use weir_model::lock::lock;

/// How often the process looks at itself, by how much of the limit is in use: reads of what has left memory bring back
/// gigabytes a second.
const FAR: Duration = Duration::from_millis(100);
const NEAR: Duration = Duration::from_millis(10);
const AT_IT: Duration = Duration::from_millis(1);

/// In hundredths of the limit.
const NEAR_FROM: u64 = 30;
const AT_IT_FROM: u64 = 70;
const INTO_FILE_FROM: u64 = 50;
const LEAVE_FROM: u64 = 85;
const LEAVE_UNTIL: u64 = 70;
const TIGHT_FROM: u64 = 95;

/// Whoever reads looks after memory, too, where nobody has for this long: the thread that does waits for its turn on a busy
/// machine. A read of what has left brings back a few times 64 KiB.
const LATE: Duration = Duration::from_millis(1);

/// The clock is asked once for this many nodes.
const ATTENDED: u32 = 16;

/// How much leaves memory between two looks at what is resident.
const LEAVE_BYTES: usize = 16 << 20;

/// How long a batch of records waits at most while memory is tight.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Whether large new pieces of the graph go into the file.
static INTO_FILE: AtomicBool = AtomicBool::new(false);
static TIGHT: AtomicBool = AtomicBool::new(false);
static NEAR_NOW: AtomicBool = AtomicBool::new(false);
/// When somebody looked last, in nanoseconds of this process.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(0);
static RESIDENT: AtomicU64 = AtomicU64::new(0);
static SPACE: OnceLock<Space> = OnceLock::new();

/// What there is to know of the memory of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    pub limit_bytes: u64,
    pub resident_bytes: u64,
    /// Pieces of the graph that lie in the file, in memory or not.
    pub file_bytes: u64,
    /// Whether ingest is being slowed.
    pub tight: bool,
}

/// Bounds the memory of the process from now on; once in its life. The file lies in `directory` and has no name.
///
/// Works as long as `Allocator` is the allocator of the process.
pub fn bound(limit_bytes: u64, directory: &Path) -> Result<(), String> {
    let space = Space::open(directory)
        .map_err(|error| format!("cannot put a file for the graph into {}: {error}", directory.display()))?;
    if SPACE.set(space).is_err() {
        return Err("the memory of this process is bounded already".to_owned());
    }
    LIMIT.store(limit_bytes, Ordering::Relaxed);
    let watch = move || watch(limit_bytes);
    std::thread::Builder::new().name("memory".into()).spawn(watch).map_err(|error| error.to_string())?;
    Ok(())
}

/// Nothing while memory is not bounded.
pub fn figures() -> Option<Figures> {
    let space = SPACE.get()?;
    Some(Figures {
        limit_bytes: LIMIT.load(Ordering::Relaxed),
        resident_bytes: RESIDENT.load(Ordering::Relaxed),
        file_bytes: space.used() as u64,
        tight: TIGHT.load(Ordering::Relaxed),
    })
}

/// As many bytes as `bytes`, but not more than one of `parts` parts of the limit.
pub fn at_most(bytes: usize, parts: u64) -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => bytes,
        limit => bytes.min((limit / parts) as usize),
    }
}

/// Whether more is in use than is allowed, and nothing more of the graph can leave: for those whose work can be given up.
pub fn is_over_limit() -> bool {
    TIGHT.load(Ordering::Relaxed) && RESIDENT.load(Ordering::Relaxed) > LIMIT.load(Ordering::Relaxed)
}

/// Waits while memory is tight, but not for ever: slow is better than stuck.
pub fn wait_for_room() {
    if !TIGHT.load(Ordering::Relaxed) {
        return;
    }
    let began = Instant::now();
    while TIGHT.load(Ordering::Relaxed) && began.elapsed() < WAIT_MAX {
        std::thread::sleep(NEAR);
    }
}

/// To be called by who reads much of the graph, for each node.
#[inline]
pub fn attend() {
    if NEAR_NOW.load(Ordering::Relaxed) {
        attend_near();
    }
}

/// Whether more is in use than may be left to itself.
fn is_near() -> bool {
    INTO_FILE.load(Ordering::Relaxed)
}

fn attend_near() {
    thread_local!(static READ: Cell<u32> = const { Cell::new(0) });
    let read = READ.get().wrapping_add(1);
    READ.set(read);
    if read.is_multiple_of(ATTENDED) && is_late() {
        // Whoever is at it and was interrupted is waited for: reading on is what must not be.
        let mut hand = hand();
        if is_late() {
            look(LIMIT.load(Ordering::Relaxed), &mut hand);
        }
    }
}

fn is_late() -> bool {
    since_began() > LOOKED.load(Ordering::Relaxed) + LATE.as_nanos() as u64
}

fn since_began() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGAN.elapsed().as_nanos() as u64
}

fn watch(limit: u64) {
    crate::scheduling::prompt();
    let part = |hundredths: u64| limit / 100 * hundredths;
    loop {
        if !look(limit, &mut hand()) {
            tracing::warn!("/proc/self/statm cannot be read: memory is not bounded");
            return;
        }
        std::thread::sleep(match RESIDENT.load(Ordering::Relaxed) {
            resident if resident < part(NEAR_FROM) => FAR,
            resident if resident < part(AT_IT_FROM) => NEAR,
            _ => AT_IT,
        });
    }
}

/// Where in the file the last piece left memory; held by the one thread that looks.
fn hand() -> MutexGuard<'static, usize> {
    static HAND: Mutex<usize> = Mutex::new(0);
    lock(&HAND)
}

/// Looks how much is resident, and does what that asks for. False if that cannot be seen.
fn look(limit: u64, hand: &mut usize) -> bool {
    let part = |hundredths: u64| limit / 100 * hundredths;
    let Some(resident) = resident() else { return false };
    RESIDENT.store(resident, Ordering::Relaxed);
    NEAR_NOW.store(resident > part(NEAR_FROM), Ordering::Relaxed);
    INTO_FILE.store(resident > part(INTO_FILE_FROM), Ordering::Relaxed);
    let left = if resident > part(LEAVE_FROM) { leave(hand, part(LEAVE_UNTIL)) } else { resident };
    let tight = left > part(TIGHT_FROM);
    if tight != TIGHT.swap(tight, Ordering::Relaxed) {
        tell(tight, left, limit);
    }
    LOOKED.store(since_began(), Ordering::Relaxed);
    true
}

/// Lets pieces of the file leave memory, in turn, until no more than `until` is resident or all had their turn. Answers what is
/// resident then.
fn leave(hand: &mut usize, until: u64) -> u64 {
    let Some(space) = SPACE.get() else { return 0 };
    let mut gone = 0;
    loop {
        let resident = resident().unwrap_or_default();
        if resident <= until || gone >= space.end() {
            return resident;
        }
        space.leave(*hand, LEAVE_BYTES);
        gone += LEAVE_BYTES;
        *hand += LEAVE_BYTES;
        if *hand >= space.end() {
            *hand = 0;
        }
    }
}

fn tell(tight: bool, resident: u64, limit: u64) {
    let (resident, limit) = (resident >> 20, limit >> 20);
    if tight {
        tracing::warn!(
            "{resident} MiB are in use of the {limit} MiB that memory.limit allows, and no more of the graph can leave memory: ingest slows"
        );
    } else {
        tracing::info!("memory is no longer tight: {resident} MiB of {limit} MiB");
    }
}

/// Bytes of the process that are in memory, files that are mapped included.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * space::PAGE as u64)
}
