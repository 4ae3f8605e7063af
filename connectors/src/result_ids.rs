//! An id for each result that is the same whenever the same result is sent again, for services that drop what they have had.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::delivery::Outgoing;

/// Ids of results: the output, the mark, what the result says, and which of equal ones at that mark it is.
pub struct Ids {
    identity: String,
    mark: u64,
    /// Equal results at that mark so far, by their digests.
    equal: HashMap<[u8; 16], u32>,
    /// Of results that come first, once more.
    again: Vec<String>,
}

impl Ids {
    pub fn new(identity: &str) -> Ids {
        Ids { identity: identity.to_owned(), mark: 0, equal: HashMap::new(), again: Vec::new() }
    }

    /// Of results as they are to be written. Those that are told to come again come first.
    pub fn of(&mut self, results: &[Outgoing]) -> Vec<String> {
        let mut ids = std::mem::take(&mut self.again);
        ids.truncate(results.len());
        let new = &results[ids.len()..];
        ids.extend(new.iter().map(|result| self.next(result)));
        ids
    }

    /// What is not written, and comes first the next time.
    pub fn again(&mut self, ids: Vec<String>) {
        self.again = ids;
    }

    fn next(&mut self, result: &Outgoing) -> String {
        if result.mark != self.mark {
            (self.mark, self.equal) = (result.mark, HashMap::new());
        }
        let mut digest = Sha256::new();
        digest.update(self.identity.as_bytes());
        digest.update([0, u8::from(result.positive)]);
        digest.update(&result.body);
        let mut short = [0; 16];
        short.copy_from_slice(&digest.finalize()[..16]);
        let count = self.equal.entry(short).or_default();
        *count += 1;
        let mut id = format!("weir-{:x}-{count}-", result.mark);
        for byte in short {
            // Writing to a text does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_one_id_whenever_it_is_sent() {
        let result = |body: &str, mark: u64| Outgoing { body: body.as_bytes().to_vec(), positive: true, mark, id: None };
        let results = [result("a", 1), result("a", 1), result("b", 1), result("a", 2)];
        let mut ids = Ids::new("output");
        let first = ids.of(&results);
        let mut distinct = first.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{first:?}");
        // After a restart, in one go or in several, in another order within the mark.
        let mut ids = Ids::new("output");
        let swapped =
            [ids.of(&[results[2].clone(), results[0].clone()]), ids.of(&[results[1].clone(), results[3].clone()])].concat();
        assert_eq!(swapped, [&first[2], &first[0], &first[1], &first[3]].map(String::clone));
        // Those that are tried again keep theirs, also when equal ones are done.
        ids.again(vec![first[1].clone()]);
        assert_eq!(ids.of(&[results[1].clone(), result("c", 2)])[0], first[1]);
        assert_ne!(Ids::new("other").of(&results), first);
    }
}
