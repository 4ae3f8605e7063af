//! Random numbers from a printed seed, so that a failure can be had again.

use weir_model::random::{STEP, mix};

/// splitmix64: good enough to choose with, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The seed in the variable, or one made from the clock; printed either way.
    pub fn from_environment(variable: &str) -> Random {
        let seed = std::env::var(variable).ok().map_or_else(seed_of_the_clock, |text| {
            text.parse().unwrap_or_else(|_| panic!("{variable} is '{text}', which is no number"))
        });
        eprintln!("the seed of this run: {variable}={seed}");
        Random(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Less than the bound, which is above zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn seed_of_the_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 % 1_000_000_000
}
