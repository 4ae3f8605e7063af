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
    /// Ids of results that come first, once more.
    again: Vec<String>,
    /// What is refused is among them.
    refused_comes_again: bool,
    /// What has an id that is known is dropped.
    known_is_dropped: bool,
}

impl Ids {
    pub fn new(identity: &str) -> Ids {
        Ids {
            identity: identity.to_owned(),
            mark: 0,
            equal: HashMap::new(),
            again: Vec::new(),
            refused_comes_again: false,
            known_is_dropped: false,
        }
    }

    /// What is refused comes again like what is left. Counted anew it would have another id than after a restart.
    pub fn refused_comes_again(&mut self) {
        self.refused_comes_again = true;
    }

    /// The other side drops what has an id that it knows. What was taken and comes once more, behind what it had overtaken, gets
    /// another one.
    pub fn known_is_dropped(&mut self) {
        self.known_is_dropped = true;
    }

    /// The ids of results as they are to be written. Those that are told to come again come first.
    pub fn of(&mut self, results: &[Outgoing]) -> Vec<String> {
        let mut ids = std::mem::take(&mut self.again);
        ids.truncate(results.len());
        let new = &results[ids.len()..];
        ids.extend(new.iter().map(|result| self.next(result)));
        ids
    }

    /// What became of the results that have these ids; None: none of them counts as written. What is left comes first the next
    /// time.
    pub fn after(&mut self, ids: Vec<String>, written: Option<&Written>) {
        let Some(written) = written else {
            self.again = ids;
            return;
        };
        let refused = written.refused.iter().map(|(index, _)| *index).filter(|_| self.refused_comes_again);
        let mut again: Vec<usize> = written.left.iter().copied().chain(refused).collect();
        again.sort_unstable();
        let its = |index: usize| {
            let id = ids.get(index)?;
            let is_new = self.known_is_dropped && written.overtook.binary_search(&index).is_ok();
            Some(if is_new { format!("{id}+") } else { id.clone() })
        };
        self.again = again.into_iter().filter_map(its).collect();
    }

    /// Of what was to come again, this says what does. What comes in the place of the others has ids of its own.
    pub fn gave_up(&mut self, comes_again: &[bool]) {
        let mut comes_again = comes_again.iter();
        self.again.retain(|_| comes_again.next().is_some_and(|again| *again));
    }

    fn next(&mut self, result: &Outgoing) -> String {
        let short = self.digest(result);
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
        ids.after(first.clone(), Some(&Written { left: vec![1], ..Written::default() }));
        assert_eq!(ids.of(&[results[1].clone(), result("c", 2)])[0], first[1]);
        assert_ne!(Ids::new("other").of(&results), first);
    }

    /// It had the id of what was given up, and a service that drops what it has had dropped it.
    #[test]
    fn what_comes_in_the_place_of_what_was_given_up_has_an_id_of_its_own() {
        let results = ["a", "b", "c", "d"].map(|body| result(body, 5)).to_vec();
        let mut ids = Ids::new("output");
        let first = ids.of(&results[..3]);
        for written in [None, Some(Written { left: vec![0, 1, 2], ..Written::default() })] {
            ids.after(first.clone(), written.as_ref());
            ids.gave_up(&[true; 3]);
            assert_eq!(ids.of(&results[..3]), first);
        }
        ids.after(first.clone(), None);
        ids.gave_up(&[false, true, false]);
        let next = ids.of(&[results[1].clone(), results[3].clone()]);
        assert_eq!(next[0], first[1]);
        assert!(!first.contains(&next[1]), "{next:?}");
        ids.after(next, None);
        ids.gave_up(&[false, false]);
        assert!(!first.contains(&ids.of(&[result("e", 5)])[0]));
    }

    #[test]
    fn what_was_taken_and_comes_once_more_has_another_id_where_what_is_known_is_dropped() {
        let results = ["a", "b", "c"].map(|body| result(body, 5)).to_vec();
        for drops in [false, true] {
            let mut ids = Ids::new("output");
            if drops {
                ids.known_is_dropped();
            }
            let first = ids.of(&results);
            ids.after(first.clone(), Some(&Written { left: vec![0, 1, 2], overtook: vec![1], ..Written::default() }));
            let again = ids.of(&results);
            assert_eq!((&again[0], &again[2]), (&first[0], &first[2]), "these were not taken");
            assert_eq!(again[1] != first[1], drops);
            // That one is kept, until it is taken.
            ids.after(again.clone(), None);
            assert_eq!(ids.of(&results), again);
        }
    }

    #[test]
    fn what_is_refused_keeps_its_id_where_it_comes_again() {
        let refused = |indices: &[usize]| Written {
            refused: indices.iter().map(|index| (*index, "no".to_owned())).collect(),
            ..Written::default()
        };
        let results = ["a", "a", "b", "c", "d"].map(|body| result(body, 5)).to_vec();
        let mut ids = Ids::new("output");
        ids.refused_comes_again();
        let first = ids.of(&results);
        // In its place among what is left, as often as it takes.
        ids.after(first.clone(), Some(&Written { left: vec![1, 3, 4], ..refused(&[0]) }));
        let again: Vec<Outgoing> = [0, 1, 3, 4].map(|index| results[index].clone()).to_vec();
        let its: Vec<String> = [0, 1, 3, 4].map(|index| first[index].clone()).to_vec();
        for written in [None, Some(Written { left: vec![2, 3], ..refused(&[1, 0]) }), Some(Written::default())] {
            assert_eq!(ids.of(&again), its);
            ids.after(its.clone(), written.as_ref());
        }
        // What comes then and is equal is another one, also to what came of the same mark before.
        let more = ids.of(&[result("a", 5), result("b", 5), result("a", 6)]);
        assert!(more.iter().all(|id| !first.contains(id)), "{more:?}");
        assert!(more[0].starts_with("weir-5-3-") && more[1].starts_with("weir-5-2-") && more[2].starts_with("weir-6-1-"));
        // Elsewhere it is given up, and what comes next is none of them.
        let mut ids = Ids::new("output");
        let first = ids.of(&results);
        ids.after(first.clone(), Some(&Written { left: vec![4], ..refused(&[0]) }));
        assert_eq!(ids.of(&results[4..]), first[4..]);
    }
}
