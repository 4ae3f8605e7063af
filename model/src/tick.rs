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

    /// The first tick of a millisecond since 1970. One that no tick can have is later than all of them: an overflow would make it
    /// one of the past.
    pub fn at_millis(millis: u64) -> Tick {
        Tick(millis.saturating_mul(1 << Self::SEQUENCE_BITS))
    }

    /// The last tick of a millisecond: what `at-time` reads.
    pub fn end_of_millis(millis: u64) -> Tick {
        Tick(Tick::at_millis(millis).0 | ((1 << Self::SEQUENCE_BITS) - 1))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_beyond_all_ticks_is_none_of_the_past() {
        let last = Tick::MAX.millis();
        assert_eq!((Tick::at_millis(last).millis(), Tick::end_of_millis(last)), (last, Tick::MAX));
        assert_eq!(Tick::end_of_millis(5), Tick(Tick::at_millis(6).0 - 1));
        for millis in [last + 1, 35_184_372_088_837, 99_999_999_999_999, u64::MAX] {
            assert_eq!((Tick::at_millis(millis), Tick::end_of_millis(millis)), (Tick::MAX, Tick::MAX), "{millis}");
        }
    }
}
