//! Askers: which rows looked for nodes by a value, and whom it concerns when nodes change.

use rustc_hash::{FxHashMap, FxHashSet};

use super::each::take_out;
use crate::evaluate::{Moved, Ranges, Sought, Which, is_within};
use crate::index::key::Place;

#[derive(Default)]
pub struct Askers(FxHashMap<Which, Of>);

/// Who looked for some of the same nodes.
#[derive(Default)]
struct Of {
    at: FxHashMap<Place, FxHashSet<u32>>,
    /// Looked through for each node that changes: that is little beside what a row costs that is looked at again.
    within: FxHashMap<Ranges, FxHashSet<u32>>,
}

impl Askers {
    pub fn insert(&mut self, which: Which, sought: &Sought, row: u32) {
        let of = self.0.entry(which).or_default();
        match sought {
            Sought::At(place) => of.at.entry(*place).or_default().insert(row),
            Sought::Within(ranges) => of.within.entry(ranges.clone()).or_default().insert(row),
        };
    }

    pub fn remove(&mut self, which: Which, sought: &Sought, row: u32) {
        let Some(of) = self.0.get_mut(&which) else { return };
        match sought {
            Sought::At(place) => take_out(&mut of.at, place, row),
            Sought::Within(ranges) => take_out(&mut of.within, ranges, row),
        }
    }

    /// Adds the rows that look for what has moved.
    pub fn concerned(&self, moved: &Moved, rows: &mut FxHashSet<u32>) {
        for (which, place) in &moved.places {
            rows.extend(self.0.get(which).and_then(|of| of.at.get(place)).into_iter().flatten());
        }
        for (which, spot) in &moved.spots {
            let within = self.0.get(which).into_iter().flat_map(|of| &of.within);
            rows.extend(within.filter(|(ranges, _)| is_within(spot, ranges)).flat_map(|(_, rows)| rows));
        }
        for of in moved.lost.iter().filter_map(|which| self.0.get(which)) {
            rows.extend(of.at.values().chain(of.within.values()).flatten());
        }
    }
}
