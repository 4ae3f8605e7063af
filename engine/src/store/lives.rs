//! Lives: of a graph, each from its first change after a start of weir on. Each has a number that no other has, and begins where
//! the graph ended by then. So a backup that holds what this graph is still made of is told from one whose end was lost since, as
//! the power went, or the store was copied back or restored, and written otherwise: ticks go on as if nothing had happened.
//!
//!     graph/N/lives    the newest last: number 8, begins 8
//!
//! They are metadata of the graph, so a backup has them, and what it is restored to goes on with them.

use std::hash::{BuildHasher, Hasher, RandomState};

use weir_model::Tick;

use super::bytes::{Reader, Wrong};
use super::{GraphId, Store, StoreError};

/// So many are kept, the newest. No backup goes on from one that was made in an older life.
const LIVES_MAX: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub number: u64,
    pub begins: Tick,
}

/// Notes that a graph, which ends here, is about to be written to.
pub fn begin(store: &dyn Store, graph: GraphId, end: Tick) -> Result<(), StoreError> {
    if !store.durable() || store.read_only() {
        return Ok(());
    }
    let mut lives = lives_of(store, graph)?;
    // Of each graph another one: in a restored store the graphs may have one another's ids.
    lives.push(Life { number: RandomState::new().build_hasher().finish(), begins: end });
    let forgotten = lives.len().saturating_sub(LIVES_MAX);
    store.put_metadata(&lives_key(graph), &encode(&lives[forgotten..]))
}

pub fn lives_of(store: &dyn Store, graph: GraphId) -> Result<Vec<Life>, StoreError> {
    let key = lives_key(graph);
    let Some(value) = store.metadata(&key)? else { return Ok(Vec::new()) };
    decode(&value).map_err(|wrong| StoreError::damaged(wrong, format!("metadata '{key}'")))
}

/// Whether all that the graph had in a life by then, or without a number before the first that is known, is still in it.
pub fn still_hold(lives: &[Life], number: Option<u64>, upto: Tick) -> bool {
    let place = number.map(|number| lives.iter().position(|life| life.number == number));
    let later = match place {
        None => lives,
        Some(None) => return false,
        Some(Some(place)) => &lives[place + 1..],
    };
    later.iter().all(|later| upto <= later.begins)
}

pub fn lives_key(graph: GraphId) -> String {
    format!("{}lives", graph.metadata_prefix())
}

fn encode(lives: &[Life]) -> Vec<u8> {
    lives.iter().flat_map(|life| [life.number, life.begins.0]).flat_map(u64::to_le_bytes).collect()
}

pub fn decode(bytes: &[u8]) -> Result<Vec<Life>, Wrong> {
    let mut reader = Reader(bytes);
    let mut lives = Vec::new();
    while !reader.0.is_empty() {
        lives.push(Life { number: reader.u64()?, begins: reader.tick()? });
    }
    Ok(lives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_life_did_not_begin_with_is_lost() {
        let lives = [(7, 0), (8, 10), (9, 20)].map(|(number, begins)| Life { number, begins: Tick(begins) });
        assert_eq!(decode(&encode(&lives)), Ok(lives.to_vec()));
        assert!(decode(&encode(&lives)[1..]).is_err());
        let still = |number, upto| still_hold(&lives, Some(number), Tick(upto));
        assert_eq!([still(7, 10), still(7, 11), still(8, 20), still(8, 21), still(9, 99)], [true, false, true, false, true]);
        assert!(!still(6, 0), "nobody knows that life");
        // As of before there were lives.
        assert!(still_hold(&lives, None, Tick::ZERO) && !still_hold(&lives, None, Tick(1)));
        assert!(still_hold(&lives[1..], None, Tick(10)) && !still_hold(&lives[1..], None, Tick(11)));
        assert!(still_hold(&[], None, Tick(11)));
        // The power took more than the last life had written.
        let less = [(7, 0), (8, 10), (9, 5)].map(|(number, begins)| Life { number, begins: Tick(begins) });
        assert!(!still_hold(&less, Some(7), Tick(8)));
    }

    #[cfg(feature = "map-db")]
    #[test]
    fn the_newest_are_kept_in_a_store_that_stays() {
        use crate::store::{InMemory, MapDb, MapDbOptions};
        let directory = tempfile::tempdir().unwrap();
        let store = MapDb::open(MapDbOptions::new(directory.path().join("graph.weir"))).unwrap();
        let graph = store.create_graph("a", b"").unwrap();
        let many = vec![Life { number: 0, begins: Tick(1) }; LIVES_MAX];
        store.put_metadata(&lives_key(graph), &encode(&many)).unwrap();
        for end in [5, 6] {
            begin(&store, graph, Tick(end)).unwrap();
        }
        let lives = lives_of(&store, graph).unwrap();
        assert_eq!(lives.len(), LIVES_MAX);
        let [.., before, one, other] = &lives[..] else { panic!("{lives:?}") };
        assert_eq!([before.begins, one.begins, other.begins], [1, 5, 6].map(Tick));
        assert!(one.number != other.number && one.number != before.number);
        // Of what ends with the process there are no backups.
        let store = InMemory::new();
        let graph = store.create_graph("a", b"").unwrap();
        begin(&store, graph, Tick(5)).unwrap();
        assert_eq!(store.list_metadata("").unwrap(), []);
    }
}
