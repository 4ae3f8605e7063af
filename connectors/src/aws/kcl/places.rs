//! Where shards are read on, and which leases there have to be. Knows no server.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::leases::{Lease, SHARD_END};
use crate::aws::iterator::{IteratorAt, IteratorType, IteratorWord};
use crate::aws::reader::Shard;
use crate::aws::shards::Place;

/// Leases of shards that have none, in the order in which they are to be added. Those behind a shard that has one begin at their
/// first record, since what that one held is read; all others where the stream does.
///
/// That is so as well where somebody else is adding them, or died while he did: of those that begin where the stream does,
/// children come before their parents, so that none of them is seen behind one that has just been added.
pub fn new_leases(shards: &[Shard], all: &[Lease], sentinel: &str, now: u64) -> Vec<Lease> {
    let known: BTreeSet<&str> = all.iter().map(|lease| lease.shard.as_str()).collect();
    // These have a lease, or follow one that has.
    let mut led = known.clone();
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for shard in by_descent(shards) {
        let follows = shard.parents.iter().any(|parent| led.contains(parent.as_str()));
        if follows {
            led.insert(&shard.id);
        }
        if known.contains(shard.id.as_str()) {
            continue;
        }
        let checkpoint = match sentinel {
            _ if follows => "TRIM_HORIZON",
            // Nothing comes any more.
            "LATEST" if shard.closed => SHARD_END,
            _ => sentinel,
        };
        let lease = Lease {
            shard: shard.id.clone(),
            checkpoint: checkpoint.to_owned(),
            parents: shard.parents.clone(),
            from: now,
            ..Lease::default()
        };
        if follows { later.push(lease) } else { first.push(lease) }
    }
    first.reverse();
    first.append(&mut later);
    first
}

/// Parents before their children.
fn by_descent(shards: &[Shard]) -> Vec<&Shard> {
    let (mut left, mut sorted): (Vec<&Shard>, _) = (shards.iter().collect(), Vec::with_capacity(shards.len()));
    while !left.is_empty() {
        let waiting: BTreeSet<&str> = left.iter().map(|shard| shard.id.as_str()).collect();
        let waits = |shard: &&Shard| shard.parents.iter().any(|parent| waiting.contains(parent.as_str()));
        let (behind, mut now): (Vec<&Shard>, Vec<&Shard>) = left.into_iter().partition(waits);
        if now.is_empty() {
            // Each is said to be behind another: no order is right.
            sorted.extend(behind);
            break;
        }
        sorted.append(&mut now);
        left = behind;
    }
    sorted
}

/// Where a shard is read on: behind what the table says or what this one has read itself, whichever is further.
pub fn begins(lease: &Lease, own: Option<Place>, configured: &IteratorType) -> (Option<Place>, IteratorType) {
    let latest = IteratorType::Word(IteratorWord::Latest);
    let of_table = match lease.checkpoint.as_str() {
        SHARD_END => return (Some(Place::Read), latest),
        "TRIM_HORIZON" => (None, latest),
        "AT_TIMESTAMP" if matches!(configured, IteratorType::At(IteratorAt::AtTimestamp { .. })) => {
            (Some(Place::Begun), configured.clone())
        }
        "LATEST" | "AT_TIMESTAMP" => (Some(Place::Begun), latest),
        number => (Some(Place::After(number.to_owned())), latest),
    };
    match (own, &of_table.0) {
        (Some(Place::Read), _) => (Some(Place::Read), of_table.1),
        (Some(Place::After(own)), Some(Place::After(told))) if order(&own, told) == Ordering::Less => of_table,
        (Some(Place::After(own)), _) => (Some(Place::After(own)), of_table.1),
        _ => of_table,
    }
}

/// Sequence numbers are decimal, and too long for any type of integer.
pub fn order(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

pub fn further(number: &str, checkpoint: &str) -> bool {
    let is_number = checkpoint.chars().all(|c| c.is_ascii_digit());
    checkpoint != SHARD_END && (!is_number || order(number, checkpoint) == Ordering::Greater)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(checkpoint: &str) -> Lease {
        Lease { shard: "a".to_owned(), checkpoint: checkpoint.to_owned(), ..Lease::default() }
    }

    #[test]
    fn it_goes_on_behind_what_is_further() {
        let after = |number: &str| Some(Place::After(number.to_owned()));
        let begins = |checkpoint: &str, own: Option<Place>| begins(&lease(checkpoint), own, &IteratorType::default()).0;
        assert_eq!(begins("TRIM_HORIZON", None), None);
        assert_eq!(begins("LATEST", None), Some(Place::Begun));
        assert_eq!(begins("9", after("10")), after("10"));
        assert_eq!(begins("10", after("9")), after("10"));
        assert_eq!(begins("0010", after("9")), after("0010"));
        assert_eq!(begins("LATEST", after("9")), after("9"));
        assert_eq!(begins("9", Some(Place::Read)), Some(Place::Read));
        assert_eq!(begins(SHARD_END, after("9")), Some(Place::Read));
        assert!(further("10", "9") && !further("9", "10") && further("1", "LATEST") && !further("1", SHARD_END));
    }

    #[test]
    fn leases_begin_where_nothing_is_lost() {
        let shard = |id: &str, parent: Option<&str>, closed| Shard {
            id: id.to_owned(),
            parents: parent.into_iter().map(str::to_owned).collect(),
            closed,
        };
        let shards =
            [shard("a", None, true), shard("b", Some("a"), true), shard("c", Some("gone"), false), shard("d", Some("b"), false)];
        let checkpoints = |all: &[Lease], sentinel: &str| -> Vec<String> {
            new_leases(&shards, all, sentinel, 5)
                .into_iter()
                .map(|lease| format!("{} {}", lease.shard, lease.checkpoint))
                .collect()
        };
        // At the beginning what has ended is of no interest, and what is there begins now.
        assert_eq!(checkpoints(&[], "LATEST"), ["d LATEST", "b SHARD_END", "c LATEST", "a SHARD_END"]);
        let from_the_oldest = ["d TRIM_HORIZON", "b TRIM_HORIZON", "c TRIM_HORIZON", "a TRIM_HORIZON"];
        assert_eq!(checkpoints(&[], "TRIM_HORIZON"), from_the_oldest);
        // Later a child begins at its first record, and so do its own, but in their order.
        assert_eq!(checkpoints(&[lease("7")], "LATEST"), ["c LATEST", "b TRIM_HORIZON", "d TRIM_HORIZON"]);
        // Of a parent, too, that is taken off the list.
        let gone = Lease { shard: "gone".to_owned(), ..lease(SHARD_END) };
        assert!(checkpoints(&[gone], "LATEST").contains(&"c TRIM_HORIZON".to_owned()));
        // Wherever somebody has got to who makes the first of them: those that are left are what they would have been.
        for sentinel in ["LATEST", "AT_TIMESTAMP", "TRIM_HORIZON"] {
            let whole = new_leases(&shards, &[], sentinel, 5);
            for made in 0..whole.len() {
                assert_eq!(new_leases(&shards, &whole[..made], sentinel, 5), whole[made..], "{made} of {sentinel}");
            }
        }
        // No list is such that it is never done.
        let circle = [shard("a", Some("b"), false), shard("b", Some("a"), false)];
        assert_eq!(new_leases(&circle, &[], "LATEST", 5).len(), 2);
    }
}
