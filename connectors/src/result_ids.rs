//! An id for each result that is the same whenever the same result is sent again, for services that drop what they have had.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::delivery::Outgoing;
use crate::destination::Written;

/// Ids of results: the output, the mark, what the result says, and which of equal ones at that mark it is.
pub struct Ids {
    identity: String,
    mark: u64,
    /// Equal results at that mark so far, by their digests.
    equal: HashMap<[u8; 16], u32>,
    /// Of results that come first, once more.
    again: Vec<String>,
    /// Of what was refused, by mark and digest: it may come once more when what comes first is through. Counted anew it would
    /// have another id than after a restart. Forgotten with the next results that are none of those that come first.
    refused: HashMap<(u64, [u8; 16]), Vec<String>>,
}

impl Ids {
    pub fn new(identity: &str) -> Ids {
        Ids { identity: identity.to_owned(), mark: 0, equal: HashMap::new(), again: Vec::new(), refused: HashMap::new() }
    }

    /// Of results as they are to be written. Those that are told to come again come first.
    pub fn of(&mut self, results: &[Outgoing]) -> Vec<String> {
        let mut ids = std::mem::take(&mut self.again);
        ids.truncate(results.len());
        let new = &results[ids.len()..];
        ids.extend(new.iter().map(|result| self.next(result)));
        if !new.is_empty() {
            self.refused.clear();
        }
        ids
    }

    /// What became of these results, which have these ids; None: none of them counts as written. What is left comes first the
    /// next time.
    pub fn after(&mut self, results: &[Outgoing], ids: Vec<String>, written: Option<&Written>) {
        let Some(written) = written else {
            self.again = ids;
            return;
        };
        for (index, _) in &written.refused {
            if let (Some(result), Some(id)) = (results.get(*index), ids.get(*index)) {
                let key = (result.mark, self.digest(result));
                self.refused.entry(key).or_default().push(id.clone());
            }
        }
        self.again = written.left.iter().filter_map(|index| ids.get(*index).cloned()).collect();
    }

    fn next(&mut self, result: &Outgoing) -> String {
        let short = self.digest(result);
        // Which of equal ones gets which of their ids is the same.
        if let Some(id) = self.refused.get_mut(&(result.mark, short)).and_then(Vec::pop) {
            return id;
        }
        if result.mark != self.mark {
            (self.mark, self.equal) = (result.mark, HashMap::new());
        }
        let count = self.equal.entry(short).or_default();
        *count += 1;
        let mut id = format!("weir-{:x}-{count}-", result.mark);
        for byte in short {
            // Writing to a text does not fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    fn digest(&self, result: &Outgoing) -> [u8; 16] {
        let mut digest = Sha256::new();
        digest.update(self.identity.as_bytes());
        digest.update([0, u8::from(result.positive)]);
        digest.update(&result.body);
        let mut short = [0; 16];
        short.copy_from_slice(&digest.finalize()[..16]);
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(body: &str, mark: u64) -> Outgoing {
        Outgoing { body: body.as_bytes().to_vec(), positive: true, mark, id: None }
    }

    #[test]
    fn a_result_has_one_id_whenever_it_is_sent() {
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
        ids.after(&results, first.clone(), Some(&Written { left: vec![1], ..Written::default() }));
        assert_eq!(ids.of(&[results[1].clone(), result("c", 2)])[0], first[1]);
        assert_ne!(Ids::new("other").of(&results), first);
    }
    #[test]
    fn what_is_refused_has_its_id_also_when_it_comes_later() {
        let refused = |indices: &[usize]| Written {
            refused: indices.iter().map(|index| (*index, "no".to_owned())).collect(),
            ..Written::default()
        };
        let results = ["a", "a", "b", "c"].map(|body| result(body, 5)).to_vec();
        let mut ids = Ids::new("output");
        let first = ids.of(&results);
        ids.after(&results, first.clone(), Some(&Written { left: vec![3], ..refused(&[0, 2]) }));
        // What is left comes first, and fails once; then what was refused, as often as it takes.
        let left = vec![results[3].clone()];
        for written in [None, Some(Written::default())] {
            let again = ids.of(&left);
            assert_eq!(again, [first[3].clone()]);
            ids.after(&left, again, written.as_ref());
        }
        let kept = vec![results[0].clone(), results[2].clone()];
        for written in [None, Some(refused(&[0, 1])), Some(refused(&[0, 1])), Some(Written::default())] {
            let again = ids.of(&kept);
            assert_eq!(again, [first[0].clone(), first[2].clone()]);
            ids.after(&kept, again, written.as_ref());
        }
        // What comes then and is equal is another one, also to what came of the same mark before.
        let more = ids.of(&[result("a", 5), result("b", 5), result("a", 6)]);
        assert!(more.iter().all(|id| !first.contains(id)), "{more:?}");
        assert!(more[0].starts_with("weir-5-3-") && more[1].starts_with("weir-5-2-") && more[2].starts_with("weir-6-1-"));
        // What is given up is not remembered for longer than until the next results.
        let given_up = vec![result("d", 7)];
        let its = ids.of(&given_up);
        ids.after(&given_up, its, Some(&refused(&[0])));
        ids.of(&[result("e", 8)]);
        assert!(ids.refused.is_empty());
    }
}
