//! Where shards are read on, and which leases there have to be. Knows no server.

use std::cmp::Ordering;

use super::leases::{Lease, SHARD_END};
use crate::aws::iterator::{IteratorAt, IteratorType, IteratorWord};
use crate::aws::reader::Shard;
use crate::aws::shards::Place;

/// Leases of shards that have none. At the very beginning all shards that are there begin where the stream does; later ones begin
/// at their first record where their parents are known, since what those held is read.
pub fn new_leases(shards: &[Shard], all: &[Lease], sentinel: &str, now: u64) -> Vec<Lease> {
    let known = |id: &String| all.iter().any(|lease| lease.shard == *id);
    let fresh = all.is_empty();
    let lease = |shard: &Shard| {
        let checkpoint = match sentinel {
            "LATEST" if fresh && shard.closed => SHARD_END,
            _ if fresh || !shard.parents.iter().any(|parent| known(parent) || shards.iter().any(|other| other.id == *parent)) => {
                sentinel
            }
            _ => "TRIM_HORIZON",
        };
        Lease {
            shard: shard.id.clone(),
            checkpoint: checkpoint.to_owned(),
            parents: shard.parents.clone(),
            from: now,
            ..Lease::default()
        }
    };
    shards.iter().filter(|shard| !known(&shard.id)).map(lease).collect()
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
        let shards = [shard("a", None, true), shard("b", Some("a"), false), shard("c", Some("gone"), false)];
        let checkpoints = |all: &[Lease], sentinel: &str| -> Vec<String> {
            new_leases(&shards, all, sentinel, 5)
                .into_iter()
                .map(|lease| format!("{} {}", lease.shard, lease.checkpoint))
                .collect()
        };
        // At the beginning what has ended is of no interest, and what is there begins now.
        assert_eq!(checkpoints(&[], "LATEST"), ["a SHARD_END", "b LATEST", "c LATEST"]);
        assert_eq!(checkpoints(&[], "TRIM_HORIZON"), ["a TRIM_HORIZON", "b TRIM_HORIZON", "c TRIM_HORIZON"]);
        // Later a child begins at its first record.
        assert_eq!(checkpoints(&[lease("7")], "LATEST"), ["b TRIM_HORIZON", "c LATEST"]);
    }
}
