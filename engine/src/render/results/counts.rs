//! Counts: how often each row is there, in maps that grow a part at a time.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::hint::black_box;

use rustc_hash::{FxBuildHasher, FxHashMap};
use weir_model::random::STEP;
use weir_model::{NodeId, Value};

use super::{Row, RowChange};

/// How often each row is there now. Most queries in mode DistinctId have rows of a single id.
#[derive(Default)]
pub(super) struct Counts {
    ids: Parted<NodeId>,
    rows: Parted<Row>,
}

/// Counts in one small map while they are few, as those of most queries are, and then in many: one large one would stop
/// everything for milliseconds whenever it grows.
struct Parted<K> {
    /// None at first, then one, then `PARTS`.
    parts: Vec<FxHashMap<K, i64>>,
}

/// With more counts than this there are `PARTS` maps.
const FEW: usize = 1024;

pub(in crate::render) const PARTS: usize = 256;

/// The part of a hash. The last gets about twice as many as the first, and those between in between: maps of one size would all
/// grow at once.
pub(in crate::render) fn part_of(hash: u16) -> usize {
    // log2(1 + h), nearly, of a hash between 0 and 1.
    let hash = u64::from(hash);
    ((hash * (88_244 - ((22_708 * hash) >> 16))) >> 24) as usize % PARTS
}

impl Counts {
    /// Looks up the counts that will be added to: they lie far apart, and the processor waits for many of them together.
    pub(super) fn touch(&self, changes: &[RowChange]) {
        black_box(changes.iter().fold(0, |sum, change| match change.row.0.as_slice() {
            [Value::Id(id)] => sum ^ self.ids.get(id).unwrap_or(0),
            _ => sum ^ self.rows.get(&change.row).unwrap_or(0),
        }));
    }

    /// Adds to the count of a row and says how often it was there before and is after.
    pub(super) fn add(&mut self, row: &Row, diff: i64) -> (i64, i64) {
        match row.0.as_slice() {
            [Value::Id(id)] => self.ids.add(*id, diff),
            _ => self.rows.add(row.clone(), diff),
        }
    }
}

impl<K> Default for Parted<K> {
    fn default() -> Parted<K> {
        Parted { parts: Vec::new() }
    }
}

impl<K: Hash + Eq> Parted<K> {
    fn part(&self, key: &K) -> usize {
        if self.parts.len() < PARTS {
            return 0;
        }
        // The maps themselves use the other bits of a hash.
        part_of((FxBuildHasher.hash_one(key).wrapping_mul(STEP) >> 32) as u16)
    }

    fn get(&self, key: &K) -> Option<i64> {
        self.parts.get(self.part(key))?.get(key).copied()
    }

    /// Adds to a count and says what it was before and is after.
    fn add(&mut self, key: K, diff: i64) -> (i64, i64) {
        match self.parts.as_slice() {
            [] => self.parts.push(FxHashMap::default()),
            [few] if few.len() > FEW => {
                let few = std::mem::take(&mut self.parts[0]);
                self.parts.resize_with(PARTS, FxHashMap::default);
                for (key, count) in few {
                    let part = self.part(&key);
                    self.parts[part].insert(key, count);
                }
            }
            _ => {}
        }
        let part = self.part(&key);
        let counts = &mut self.parts[part];
        match counts.entry(key) {
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                *entry.get_mut() += diff;
                if before + diff == 0 {
                    entry.remove();
                }
                (before, before + diff)
            }
            Entry::Vacant(entry) => {
                if diff != 0 {
                    entry.insert(diff);
                }
                (0, diff)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_different_sizes() {
        let mut sizes = [0; PARTS];
        (0..=u16::MAX).for_each(|hash| sizes[part_of(hash)] += 1);
        assert!(sizes.iter().all(|size| *size > 0));
        let (least, most) = (*sizes.iter().min().unwrap() as f64, *sizes.iter().max().unwrap() as f64);
        assert!((1.8..2.4).contains(&(most / least)), "{least} and {most}");
        assert!((0..u16::MAX).all(|hash| part_of(hash) <= part_of(hash + 1)));
    }
}
