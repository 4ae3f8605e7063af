//! Random: numbers that nobody foresees by looking at them, and that come again from the same seed (SplitMix64). Good enough to
//! choose with, not for secrets.

/// From one state to the next, by wrapping addition. A product with it has its high bits spread, as it is odd and of no pattern.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of a state. States that are alike give numbers that are not.
#[inline]
pub fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let numbers = |seed: u64| [1, 2, 3].map(|n: u64| mix(seed.wrapping_add(STEP.wrapping_mul(n))));
        assert_eq!(numbers(1_234_567), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(mix(0), 0);
    }
}
