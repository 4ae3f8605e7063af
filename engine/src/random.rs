//! Random: numbers from a seed, for the tests of single modules. The same seed gives the same test.

/// A linear congruential generator: good enough to choose with, and the same everywhere.
pub struct Random(pub u64);

impl Random {
    /// Less than `n`, which is above zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % n
    }

    /// As `below`, for what is kept as an integer.
    pub fn integer_below(&mut self, n: u64) -> i64 {
        self.below(n) as i64
    }

    /// A place in a list of `count` items, which is not empty.
    pub fn index_below(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    pub fn one_of<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.index_below(choices.len())]
    }
}
