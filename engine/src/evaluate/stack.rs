//! Stack: how deep a run may go before its thread has too little of its stack left.
//!
//! The operators of a plan and the steps of its patterns stand on the stack within each other, those of all clauses together,
//! and a thread that comes to the end of its stack takes the whole process with it. So whoever goes deeper compares an address.
//! Where a stack ends the standard library does not say; how large it is made for each thread that is started, it does.

use std::cell::Cell;
use std::sync::LazyLock;

/// How large the standard library makes the stack of a thread: as this variable says, or else `DEFAULT_BYTES`.
const VARIABLE: &str = "RUST_MIN_STACK";
const DEFAULT_BYTES: usize = 2 << 20;

/// One part in this many is left for what asks no more how much there is: the deepest expression of a row, a read from the disk.
/// What was on the stack before the first run of a thread comes off it, too.
const PARTS: usize = 4;

static BYTES: LazyLock<usize> = LazyLock::new(|| {
    let said = std::env::var(VARIABLE).ok();
    said.and_then(|bytes| bytes.parse().ok()).unwrap_or(DEFAULT_BYTES)
});

thread_local! {
    /// The highest address at which a run of this thread began; the stack grows towards lower ones.
    static TOP: Cell<usize> = const { Cell::new(0) };
}

/// The lowest address that a run that begins here may come to.
pub(super) fn lowest() -> usize {
    let top = TOP.get().max(here());
    TOP.set(top);
    top.saturating_sub(*BYTES - *BYTES / PARTS)
}

/// From here on this thread counts as having `bytes` left, whatever it really has.
#[cfg(test)]
pub(super) fn leave(bytes: usize) {
    TOP.set(here() + (*BYTES - *BYTES / PARTS).saturating_sub(bytes));
}

/// The address at which the stack stands.
#[inline]
pub(super) fn here() -> usize {
    let local = 0_u8;
    (&raw const local).addr()
}
