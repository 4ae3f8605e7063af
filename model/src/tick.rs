//! The logical time of the whole system.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wall-clock milliseconds in the high 44 bits, a sequence number in the low 20. One number is the dataflow timestamp,
/// the position in the log, the version in the store and the meaning of `at-time`. It never goes back, even when the
/// clock does: then the sequence number runs on and may carry into the milliseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tick(pub u64);

impl Tick {
    const SEQUENCE_BITS: u32 = 20;
    pub const ZERO: Tick = Tick(0);
    pub const MAX: Tick = Tick(u64::MAX);

    /// The first tick of a millisecond since 1970.
    pub fn at_millis(millis: u64) -> Tick {
        Tick(millis << Self::SEQUENCE_BITS)
    }

    /// The last tick of a millisecond: what `at-time` reads.
    pub fn end_of_millis(millis: u64) -> Tick {
        Tick(((millis + 1) << Self::SEQUENCE_BITS) - 1)
    }

    pub fn millis(self) -> u64 {
        self.0 >> Self::SEQUENCE_BITS
    }

    pub fn next(self) -> Tick {
        Tick(self.0 + 1)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis(), self.0 & ((1 << Self::SEQUENCE_BITS) - 1))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
