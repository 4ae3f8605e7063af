//! What crosses the rim: a record, a `Value`, comes in with its Position, a Match goes out, and its Place says which one it is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::tick::Tick;
use crate::value::Map;

/// Where a source stands. Opaque to everyone but that source; stored in the same write as the effects of the records
/// before it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Position(pub Vec<u8>);

/// Which result of a standing query: the same in every life of the process, and of no other result of the query.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Place {
    pub tick: Tick,
    /// Counted from 1 among the results of the tick; 0 is before the first of them.
    pub number: u32,
    /// Counted from 1 among the rows that an output has made of the result; 0 is the result itself.
    pub row: u32,
}

impl Place {
    /// Before the first result of a tick.
    pub fn before(tick: Tick) -> Place {
        Place { tick, ..Place::default() }
    }

    /// Of the next result, which is of this tick or of a later one.
    pub fn next(self, tick: Tick) -> Place {
        let number = if tick == self.tick { self.number + 1 } else { 1 };
        Place { tick, number, row: 0 }
    }

    /// Reads what is written; a tick alone is what is before its first result.
    pub fn parse(text: &str) -> Option<Place> {
        let mut parts = text.split('-');
        let tick = Tick(parts.next()?.parse().ok()?);
        let mut part = || parts.next().map_or(Some(0), |part| part.parse().ok());
        let place = Place { tick, number: part()?, row: part()? };
        parts.next().is_none().then_some(place)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.tick.0, self.number)?;
        if self.row > 0 { write!(f, "-{}", self.row) } else { Ok(()) }
    }
}

/// One result of a standing query.
#[derive(Clone, Debug)]
pub struct Match {
    /// False for a cancellation: a row reported before no longer matches.
    pub positive: bool,
    /// The tick whose change made or broke the match.
    pub tick: Tick,
    pub data: Arc<Map>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let first = Place::default().next(Tick(1 << 60));
        let (second, later) = (first.next(Tick(1 << 60)), first.next(Tick(1 << 61)));
        assert!(Place::before(first.tick) < first && first < second && second < Place { row: 1, ..second } && second < later);
        for place in [Place::before(Tick(7)), first, second, Place { row: 3, ..second }] {
            assert_eq!(Place::parse(&place.to_string()), Some(place));
        }
        assert_eq!(second.to_string(), "1152921504606846976-2");
        assert_eq!(Place::parse("17"), Some(Place::before(Tick(17))));
        for wrong in ["", "-", "x", "1-", "1-x", "-1", "1-2-3-4", "1-2-", "99999999999999999999"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}
