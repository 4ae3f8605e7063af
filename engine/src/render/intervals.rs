//! Intervals: which of many ranges hold a place.
//!
//! The ranges stand in the order in which they begin, and with each how far those around it reach: a tree without pointers, the
//! middle of a stretch its root. Looking one place up costs the logarithm of how many there are, and what is found.

use crate::index::key::{Place, Places};

#[derive(Debug)]
pub struct Intervals<T> {
    /// By where they begin.
    ranges: Vec<(Places, T)>,
    /// Of the stretch whose middle this is: the last place of any range.
    reach: Vec<Place>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals { ranges: Vec::new(), reach: Vec::new() }
    }
}

impl<T> FromIterator<(Places, T)> for Intervals<T> {
    fn from_iter<I: IntoIterator<Item = (Places, T)>>(ranges: I) -> Intervals<T> {
        let mut intervals = Intervals { ranges: ranges.into_iter().collect(), reach: Vec::new() };
        intervals.ranges.sort_by_key(|(range, _)| range.first);
        intervals.measure();
        intervals
    }
}

impl<T> Intervals<T> {
    pub fn insert(&mut self, range: Places, of: T) {
        let at = self.ranges.partition_point(|(other, _)| other.first <= range.first);
        self.ranges.insert(at, (range, of));
        self.measure();
    }

    pub fn remove(&mut self, is_it: impl Fn(&T) -> bool) {
        self.ranges.retain(|(_, of)| !is_it(of));
        self.measure();
    }

    pub fn any(&self, place: Place) -> bool {
        !self.visit(0, self.ranges.len(), place, &mut |_| false)
    }

    pub fn each(&self, place: Place, visit: &mut impl FnMut(&T)) {
        self.visit(0, self.ranges.len(), place, &mut |of| {
            visit(of);
            true
        });
    }

    /// False once `go_on` has said so.
    fn visit(&self, start: usize, end: usize, place: Place, go_on: &mut impl FnMut(&T) -> bool) -> bool {
        let middle = start + (end - start) / 2;
        if start == end || self.reach[middle] < place {
            return true;
        }
        let (range, of) = &self.ranges[middle];
        self.visit(start, middle, place, go_on)
            && (!range.contains(place) || go_on(of))
            && (range.first > place || self.visit(middle + 1, end, place, go_on))
    }

    fn measure(&mut self) {
        self.reach.clear();
        self.reach.extend(self.ranges.iter().map(|(range, _)| range.last));
        let length = self.ranges.len();
        self.measure_between(0, length);
    }

    fn measure_between(&mut self, start: usize, end: usize) -> Option<Place> {
        if start == end {
            return None;
        }
        let middle = start + (end - start) / 2;
        let around = self.measure_between(start, middle).max(self.measure_between(middle + 1, end));
        self.reach[middle] = around.map_or(self.reach[middle], |around| around.max(self.reach[middle]));
        Some(self.reach[middle])
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Value;
    use weir_model::expression::Binary;

    use super::*;
    use crate::index::key::{places, ranges};

    #[test]
    fn what_holds_a_place_is_found_and_nothing_else() {
        let between = |first: i64, last: i64| Places {
            first: ranges(Binary::Equal, &Value::Integer(first)).expect("known")[0].first,
            last: ranges(Binary::Equal, &Value::Integer(last)).expect("known")[0].first,
        };
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            ((state >> 33) % n) as i64
        };
        let mut intervals = Intervals::default();
        let mut kept: Vec<(i64, i64, u32)> = Vec::new();
        for number in 0..300 {
            if number % 3 == 2 {
                let (_, _, gone) = kept.swap_remove(random(kept.len() as u64) as usize);
                intervals.remove(|of| *of == gone);
            }
            let first = random(50);
            let last = first + random(if number % 10 == 0 { 50 } else { 5 });
            intervals.insert(between(first, last), number);
            kept.push((first, last, number));
            for at in 0..60 {
                let place = places(&Value::Integer(at))[0];
                let mut found = Vec::new();
                intervals.each(place, &mut |of| found.push(*of));
                found.sort_unstable();
                let mut wanted: Vec<u32> =
                    kept.iter().filter(|(first, last, _)| (*first..=*last).contains(&at)).map(|(.., of)| *of).collect();
                wanted.sort_unstable();
                assert_eq!(found, wanted);
                assert_eq!(intervals.any(place), !found.is_empty());
            }
        }
    }
}
