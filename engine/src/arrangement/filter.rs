//! Filter: of the nodes of a segment with many facts, which edges are surely not among them.
//!
//! A new edge of a large node is looked for in each batch that knows the node, and not found. Jumping about among thousands of
//! facts for that waits for memory a dozen times; here it waits once.

use weir_model::codec::FactKey;
use weir_model::mutation::Tag;
use weir_model::random::STEP;

/// Nodes with no more facts than this are not in a filter: looking through them is as fast.
pub const FEW: usize = 8;

/// Keys that share a word of 64 bits: of those that are not there, about one in thirty passes.
const KEYS_A_WORD: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<u64>);

impl Filter {
    /// What `hash` gives for each key.
    pub fn of(hashes: &[u64]) -> Filter {
        let mut words = vec![0; hashes.len().div_ceil(KEYS_A_WORD)];
        for hash in hashes {
            let at = word(*hash, words.len());
            words[at] |= bits(*hash);
        }
        Filter(words)
    }

    /// False where the key is not there. A segment that was read from a store has no filter, and may have any.
    pub fn may_have(&self, hash: u64) -> bool {
        self.0.is_empty() || self.0[word(hash, self.0.len())] & bits(hash) == bits(hash)
    }
}

/// Of the key of an edge, or of a property of one, and where the facts of its node begin in their segment. None of other facts,
/// which are found fast.
pub fn hash(start: usize, tag: Tag, key: FactKey) -> Option<u64> {
    let (a, b) = match key {
        FactKey::Single => return None,
        FactKey::Node(a, b) => (a, b),
        FactKey::Further(a, b, c) => (a ^ c.wrapping_mul(STEP), b),
    };
    let place = (start as u64) << 32 | u64::from(tag.0);
    let mixed = (a ^ b.rotate_left(32) ^ place.wrapping_mul(STEP)).wrapping_mul(STEP);
    Some((mixed ^ mixed >> 32).wrapping_mul(STEP))
}

/// By the high bits; those within the word are others.
fn word(hash: u64, words: usize) -> usize {
    ((u128::from(hash) * words as u128) >> 64) as usize
}

fn bits(hash: u64) -> u64 {
    1 << (hash >> 14 & 63) | 1 << (hash >> 20 & 63) | 1 << (hash >> 26 & 63)
}

#[cfg(test)]
mod tests {
    use weir_model::Symbol;
    use weir_model::mutation::Kind;

    use super::*;

    #[test]
    fn all_that_is_there_may_be_and_little_else() {
        let tag = Tag::new(Kind::Out, Symbol(3));
        let node = |n: u64| FactKey::Node(n.wrapping_mul(STEP), n);
        let further = |n: u64| FactKey::Further(7, n, n % 3);
        for key in [&node as &dyn Fn(u64) -> FactKey, &further] {
            let hash = |start: usize, n: u64| hash(start, tag, key(n)).expect("the key of an edge");
            let hashes: Vec<u64> = (0..5000).map(|n| hash(n as usize / 100 * 100, n)).collect();
            let filter = Filter::of(&hashes);
            assert!(hashes.iter().all(|hash| filter.may_have(*hash)));
            let wrong = |hashes: &mut dyn Iterator<Item = u64>| hashes.filter(|hash| filter.may_have(*hash)).count();
            assert!(wrong(&mut (5000..15000).map(|n| hash(100, n))) < 1000, "one of ten at most");
            assert!(wrong(&mut (0..5000).map(|n| hash(5001, n))) < 500, "the edges of other nodes");
        }
        assert!(Filter::default().may_have(1) && super::hash(0, tag, FactKey::Single).is_none());
    }
}
