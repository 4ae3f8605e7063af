//! Sorter: sorts items whose keys are spread evenly, as hashes are, in linear time.

/// Up to this many items are not worth the bins.
const FEW: usize = 16;

/// Kept from one sort to the next, so that its room is used again.
#[derive(Default)]
pub struct Sorter<T> {
    sorted: Vec<T>,
    bins: Vec<u32>,
}

impl<T: Copy + Default + Ord> Sorter<T> {
    /// Puts each item into one of about as many bins as there are items, and sorts those: nothing is left to do there if the keys
    /// are spread evenly, as hashes are, or ticks. If they are not, it is an ordinary sort. Greater items have no smaller key.
    pub fn sort(&mut self, items: &mut Vec<T>, key: impl Fn(&T) -> u64) {
        let (Some(first), Some(last)) = (items.iter().map(&key).min(), items.iter().map(&key).max()) else { return };
        if items.len() <= FEW {
            return items.sort_unstable();
        }
        let bits = items.len().ilog2() + 1;
        let shift = (u64::BITS - (last - first).leading_zeros()).saturating_sub(bits);
        let bin = |item: &T| ((key(item) - first) >> shift) as usize;
        self.bins.clear();
        self.bins.resize(1 << bits, 0);
        items.iter().for_each(|item| self.bins[bin(item)] += 1);
        let mut begin = 0;
        for count in &mut self.bins {
            (*count, begin) = (begin, begin + *count);
        }
        self.sorted.clear();
        self.sorted.resize(items.len(), T::default());
        for item in &*items {
            let place = &mut self.bins[bin(item)];
            self.sorted[*place as usize] = *item;
            *place += 1;
        }
        // Now each number is where its bin ends.
        let mut begin = 0;
        for end in &self.bins {
            self.sorted[begin as usize..*end as usize].sort_unstable();
            begin = *end;
        }
        std::mem::swap(items, &mut self.sorted);
    }
}

#[cfg(test)]
mod tests {
    use weir_model::random::STEP;

    use super::*;

    #[test]
    fn it_sorts_whatever_the_keys_are() {
        let hash = |n: u64| n.wrapping_mul(STEP);
        let spread: [&dyn Fn(u64) -> u64; 5] = [&hash, &|n| hash(n) >> 50, &|_| 7, &|n| u64::MAX - n % 3, &|n| 1 << (n % 64)];
        let mut sorter = Sorter::default();
        for key in spread {
            for count in [0, 1, 2, 3, 64, 1000] {
                let mut items: Vec<(u64, u64)> = (0..count).map(|n| (key(n), hash(n + 9))).collect();
                let mut expected = items.clone();
                expected.sort_unstable();
                sorter.sort(&mut items, |item| item.0);
                assert_eq!(items, expected);
            }
        }
    }
}
