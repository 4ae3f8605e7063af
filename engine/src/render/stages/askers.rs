//! Askers: which rows looked for nodes by a value, and whom it concerns when nodes change.

use rustc_hash::{FxHashMap, FxHashSet};

use super::each::take_out;
use crate::evaluate::{Moved, Ranges, Sought, Which, is_within};
use crate::index::key::Place;

/// Ranges that lie in one hull, at most.
const TOGETHER: usize = 16;

#[derive(Default)]
pub struct Askers(FxHashMap<Which, Of>);

/// Who looked for some of the same nodes.
#[derive(Default)]
struct Of {
    at: FxHashMap<Place, FxHashSet<u32>>,
    within: Within,
}

impl Askers {
    pub fn insert(&mut self, which: Which, sought: &Sought, row: u32) {
        let of = self.0.entry(which).or_default();
        match sought {
            Sought::At(place) => {
                of.at.entry(*place).or_default().insert(row);
            }
            Sought::Within(ranges) => of.within.insert(ranges, row),
        }
    }

    pub fn remove(&mut self, which: Which, sought: &Sought, row: u32) {
        let Some(of) = self.0.get_mut(&which) else { return };
        match sought {
            Sought::At(place) => take_out(&mut of.at, place, row),
            Sought::Within(ranges) => of.within.remove(ranges, row),
        }
    }

    /// Adds the rows that look for what has moved.
    pub fn concerned(&self, moved: &Moved, rows: &mut FxHashSet<u32>) {
        for (which, place) in &moved.places {
            rows.extend(self.0.get(which).and_then(|of| of.at.get(place)).into_iter().flatten());
        }
        for (which, spot) in &moved.spots {
            if let Some(of) = self.0.get(which) {
                of.within.each(spot, &mut |here| rows.extend(here));
            }
        }
        for of in moved.lost.iter().filter_map(|which| self.0.get(which)) {
            rows.extend(of.at.values().chain(of.within.rows.values()).flatten());
        }
    }
}

/// Who looked for nodes in some ranges.
#[derive(Default)]
struct Within {
    /// Ranges that nobody looks for any more stay for a while: a row that looks again mostly looks for the same.
    rows: FxHashMap<Ranges, FxHashSet<u32>>,
    /// How many ranges nobody looks for any more.
    deserted: usize,
    /// All ranges, each once. One that comes is put together with the last heap, and that with the one before, as long as that is
    /// no larger: so heaps are few, and a range is moved as often as its heap doubles.
    heaps: Vec<Hulls>,
}

impl Within {
    fn insert(&mut self, ranges: &Ranges, row: u32) {
        if let Some(rows) = self.rows.get_mut(ranges) {
            self.deserted -= usize::from(rows.is_empty());
            rows.insert(row);
            return;
        }
        self.rows.insert(ranges.clone(), FxHashSet::from_iter([row]));
        let mut all = vec![ranges.clone()];
        while let Some(last) = self.heaps.pop_if(|last| last.len() <= all.len()) {
            all.extend(last.into_ranges());
        }
        self.heaps.push(Hulls::over(all));
    }

    fn remove(&mut self, ranges: &Ranges, row: u32) {
        let Some(rows) = self.rows.get_mut(ranges) else { return };
        self.deserted += usize::from(rows.remove(&row) && rows.is_empty());
        if self.deserted > TOGETHER + self.rows.len() / 2 {
            self.rows.retain(|_, rows| !rows.is_empty());
            self.deserted = 0;
            self.heaps = vec![Hulls::over(self.rows.keys().cloned().collect())];
        }
    }

    /// The rows whose ranges hold what lies there.
    fn each(&self, spot: &[Place], visit: &mut dyn FnMut(&FxHashSet<u32>)) {
        for hulls in &self.heaps {
            hulls.each(spot, &mut |ranges| self.rows.get(ranges).into_iter().for_each(&mut *visit));
        }
    }
}

/// Ranges in order; above each few of them what all of these lie in, their hull; and so on up to one hull. Ranges that are
/// open at one end have their other ends in order, so a hull of `<= x` and `>= x` is as narrow as the values `x` below it.
struct Hulls(Vec<Vec<Ranges>>);

impl Hulls {
    fn over(mut ranges: Vec<Ranges>) -> Hulls {
        // Most of them come in stretches that are in order.
        ranges.sort();
        let mut layers = Vec::new();
        while ranges.len() > 1 {
            let hulls = ranges.chunks(TOGETHER).map(hull).collect();
            layers.push(std::mem::replace(&mut ranges, hulls));
        }
        layers.push(ranges);
        Hulls(layers)
    }

    fn len(&self) -> usize {
        self.0[0].len()
    }

    fn into_ranges(mut self) -> Vec<Ranges> {
        self.0.swap_remove(0)
    }

    fn each(&self, spot: &[Place], visit: &mut dyn FnMut(&Ranges)) {
        let top = self.0.len() - 1;
        self.each_of(top, 0..self.0[top].len(), spot, visit);
    }

    fn each_of(&self, layer: usize, few: std::ops::Range<usize>, spot: &[Place], visit: &mut dyn FnMut(&Ranges)) {
        for at in few {
            let ranges = &self.0[layer][at];
            if !is_within(spot, ranges) {
                continue;
            }
            match layer.checked_sub(1) {
                None => visit(ranges),
                Some(below) => {
                    let end = self.0[below].len().min((at + 1) * TOGETHER);
                    self.each_of(below, at * TOGETHER..end, spot, visit);
                }
            }
        }
    }
}

fn hull(few: &[Ranges]) -> Ranges {
    let of_both = |x: Ranges, y: Ranges| -> Ranges { x.iter().zip(&y).map(|(x, y)| x.around(*y)).collect() };
    few.iter().cloned().reduce(of_both).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use weir_model::Value;
    use weir_model::expression::Binary;

    use super::*;
    use crate::index::key::{Places, both, ordered, ranges};
    use crate::random::Random;

    fn places(operator: Binary, than: i64) -> Vec<Places> {
        ranges(operator, &Value::Integer(than)).expect("known")
    }

    /// What has a value up to `x` and another one from there on, values between two, values on one side, nothing.
    fn random_ranges(random: &mut Random) -> Ranges {
        let x = random.integer_below(100);
        let up_to = |x| places(Binary::LessOrEqual, x)[0];
        let from = |x| places(Binary::GreaterOrEqual, x)[0];
        let between = |x, y| both(places(Binary::GreaterOrEqual, x), &places(Binary::LessOrEqual, y))[0];
        let pair = match random.below(5) {
            0 | 1 => [up_to(x), from(x)],
            2 => [between(x, x + random.integer_below(5)), from(random.integer_below(100))],
            3 => [from(x), up_to(random.integer_below(100))],
            _ => [up_to(x), Places::NOWHERE],
        };
        Ranges::from_iter(pair)
    }

    #[test]
    fn rows_are_concerned_by_what_lies_in_their_ranges_and_by_nothing_else() {
        let mut random = Random(7);
        let (mut within, mut kept) = (Within::default(), Vec::<(Ranges, u32)>::new());
        for row in 0..3_000 {
            // It grows, and in the end it shrinks.
            let goes = !kept.is_empty() && (row >= 2_000 || random.below(3) == 0);
            if goes {
                let (ranges, gone) = kept.swap_remove(random.index_below(kept.len()));
                within.remove(&ranges, gone);
                if random.below(4) == 0 {
                    within.insert(&ranges, gone);
                    kept.push((ranges, gone));
                }
            } else {
                let ranges = random_ranges(&mut random);
                within.insert(&ranges, row);
                kept.push((ranges, row));
            }
            let spot = [0; 2].map(|_| ordered(&Value::Integer(random.integer_below(110))).expect("a number"));
            let mut found: FxHashSet<u32> = FxHashSet::default();
            within.each(&spot, &mut |rows| found.extend(rows));
            let wanted = kept.iter().filter(|(ranges, _)| is_within(&spot, ranges)).map(|(_, row)| *row);
            assert_eq!(found, wanted.collect::<FxHashSet<u32>>(), "at row {row}");
            assert_eq!(within.heaps.iter().map(Hulls::len).sum::<usize>(), within.rows.len());
            assert_eq!(within.deserted, within.rows.values().filter(|rows| rows.is_empty()).count());
        }
        assert!(within.heaps.len() < 16);
    }

    /// Rows that look for what their value lies in: few hulls are in question where few rows are.
    #[test]
    fn most_ranges_are_not_looked_at() {
        let mut within = Within::default();
        for row in 0..10_000 {
            let x = i64::from(row);
            let of = [places(Binary::LessOrEqual, x)[0], places(Binary::GreaterOrEqual, x)[0]];
            within.insert(&Ranges::from_iter(of), row);
        }
        let spot = [4_321, 4_325].map(|n| ordered(&Value::Integer(n)).expect("a number"));
        let mut found: FxHashSet<u32> = FxHashSet::default();
        within.each(&spot, &mut |rows| found.extend(rows));
        assert_eq!(found, (4_321..=4_325).collect::<FxHashSet<u32>>());
        let layers = within.heaps.iter().flat_map(|heap| &heap.0[1..]);
        let hulls = layers.flatten().filter(|hull| is_within(&spot, hull)).count();
        assert!(hulls <= 2 * within.heaps.len(), "{hulls} hulls hold it");
    }
}
