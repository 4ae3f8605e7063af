//! Intervals: which of many ranges hold a place.
//!
//! The ranges stand in the order in which they begin, and with each how far those around it reach: a tree without pointers, the
//! middle of a stretch its root. Looking one place up costs the logarithm of how many there are, and what is found. How far they
//! reach is worked out by who looks: of thousands that come or go together, each then costs no more than its place in the order.

use std::cell::OnceCell;

use crate::index::key::{Place, Places};

#[derive(Debug)]
pub struct Intervals<T> {
    /// By where they begin, and then by where they end.
    ranges: Vec<(Places, T)>,
    /// Of the stretch whose middle this is: the last place of any range. Not there since a range has come or gone.
    reach: OnceCell<Vec<Place>>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals { ranges: Vec::new(), reach: OnceCell::new() }
    }
}

impl<T> FromIterator<(Places, T)> for Intervals<T> {
    fn from_iter<I: IntoIterator<Item = (Places, T)>>(ranges: I) -> Intervals<T> {
        let mut ranges: Vec<(Places, T)> = ranges.into_iter().collect();
        ranges.sort_by_key(|(range, _)| *range);
        Intervals { ranges, reach: OnceCell::new() }
    }
}

impl<T: Copy + PartialEq> Intervals<T> {
    /// Takes in the ranges of one that has none yet.
    pub fn insert(&mut self, ranges: &[Places], of: T) {
        match ranges {
            [range] => {
                let at = self.ranges.partition_point(|(other, _)| other <= range);
                self.ranges.insert(at, (*range, of));
            }
            // They may be a long list: all of it finds its place at once.
            _ => {
                self.ranges.extend(ranges.iter().map(|range| (*range, of)));
                self.ranges.sort_by_key(|(range, _)| *range);
            }
        }
        self.reach = OnceCell::new();
    }

    /// Takes out all ranges of one, which are these.
    pub fn remove(&mut self, ranges: &[Places], of: T) {
        match ranges {
            [range] => {
                if let Some(at) = self.find(range, of) {
                    self.ranges.remove(at);
                }
            }
            _ => self.ranges.retain(|(_, other)| *other != of),
        }
        self.reach = OnceCell::new();
    }

    /// Gives the ranges of one to another.
    pub fn rename(&mut self, ranges: &[Places], from: T, to: T) {
        for range in ranges {
            if let Some(at) = self.find(range, from) {
                self.ranges[at].1 = to;
            }
        }
    }

    fn find(&self, range: &Places, of: T) -> Option<usize> {
        let first = self.ranges.partition_point(|(other, _)| other < range);
        let same = self.ranges[first..].iter().take_while(|(other, _)| other == range);
        same.zip(first..).find(|((_, one), _)| *one == of).map(|(_, at)| at)
    }

    pub fn any(&self, place: Place) -> bool {
        !self.visit(self.reach(), (0, self.ranges.len()), place, &mut |_| false)
    }

    pub fn each(&self, place: Place, visit: &mut impl FnMut(&T)) {
        self.visit(self.reach(), (0, self.ranges.len()), place, &mut |of| {
            visit(of);
            true
        });
    }

    /// False once `go_on` has said so.
    fn visit(&self, reach: &[Place], (start, end): (usize, usize), place: Place, go_on: &mut impl FnMut(&T) -> bool) -> bool {
        let middle = start + (end - start) / 2;
        if start == end || reach[middle] < place {
            return true;
        }
        let (range, of) = &self.ranges[middle];
        self.visit(reach, (start, middle), place, go_on)
            && (!range.contains(place) || go_on(of))
            && (range.first > place || self.visit(reach, (middle + 1, end), place, go_on))
    }

    fn reach(&self) -> &[Place] {
        self.reach.get_or_init(|| {
            let mut reach: Vec<Place> = self.ranges.iter().map(|(range, _)| range.last).collect();
            measure(&mut reach);
            reach
        })
    }
}

/// Has the middle of a stretch reach as far as all of it, and that of each half as far as the half, and so on.
fn measure(stretch: &mut [Place]) -> Option<Place> {
    let (before, rest) = stretch.split_at_mut(stretch.len() / 2);
    let (root, after) = rest.split_first_mut()?;
    *root = [measure(before), measure(after)].into_iter().flatten().fold(*root, Ord::max);
    Some(*root)
}

#[cfg(test)]
mod tests {
    use weir_model::Value;
    use weir_model::expression::Binary;

    use super::*;
    use crate::index::key::{places, ranges};
    use crate::random::Random;

    #[test]
    fn what_holds_a_place_is_found_and_nothing_else() {
        let between = |first: i64, last: i64| Places {
            first: ranges(Binary::Equal, &Value::Integer(first)).expect("known")[0].first,
            last: ranges(Binary::Equal, &Value::Integer(last)).expect("known")[0].first,
        };
        let mut random = Random(7);
        let mut intervals = Intervals::default();
        let mut kept: Vec<(i64, i64, u32)> = Vec::new();
        for number in 0..300 {
            if number % 3 == 2 {
                let (first, last, gone) = kept.swap_remove(random.index_below(kept.len()));
                intervals.remove(&[between(first, last)], gone);
            }
            let first = random.integer_below(50);
            let last = first + random.integer_below(if number % 10 == 0 { 50 } else { 5 });
            intervals.insert(&[between(first, last)], number);
            kept.push((first, last, number));
            if number % 7 == 0 {
                // Another has it, and one that nobody has is nobody's to give.
                let one = random.index_below(kept.len());
                let (first, last, of) = &mut kept[one];
                intervals.rename(&[between(*first, *last)], *of, *of + 1000);
                intervals.rename(&[between(*first, *last)], *of, 5000);
                *of += 1000;
            }
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
