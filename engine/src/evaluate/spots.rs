//! Spots: finds nodes by ranges of several properties at once.
//!
//! They stand in the order of the first of their places, in a tree of which each part knows its hull: of every place, the first
//! and the last in it. A range that is open at one end holds half of them by the first place (`d.first <= x`); the hulls of the
//! others (`d.last >= x`) tell which parts have none of these. So where the places go together, a look costs the logarithm of how
//! many there are, and what is found; where they do not, up to as many as the first place leaves.

use smallvec::SmallVec;
use weir_model::NodeId;

use crate::index::key::{Place, Places};

/// Nodes, or parts, in one part, at most. One more still has room where a vector has grown to hold 32.
const TOGETHER: usize = 31;

/// Where the properties of a node lie, in the order of the keys.
pub type Spot = SmallVec<[Place; 2]>;

/// Where the properties of a node are to lie, in the order of the keys.
pub type Ranges = SmallVec<[Places; 2]>;

pub fn is_within(spot: &[Place], ranges: &[Places]) -> bool {
    spot.iter().zip(ranges).all(|(place, places)| places.contains(*place))
}

type Entry = (NodeId, Spot);

type Key = (Place, NodeId);

/// By what entries are in order.
fn order((node, spot): &Entry) -> Key {
    (spot[0], *node)
}

#[derive(Default)]
pub(super) struct Spots {
    root: Part,
}

impl Spots {
    pub fn insert(&mut self, node: NodeId, spot: Spot) {
        if let Some(beside) = self.root.insert((node, spot)) {
            let before = std::mem::take(&mut self.root);
            self.root = Part::over(vec![before, beside], Vec::new());
        }
    }

    /// Takes out a node, `first` being the first of its places.
    pub fn remove(&mut self, node: NodeId, first: Place) -> Option<Spot> {
        let spot = self.root.remove((first, node));
        if self.root.parts.len() == 1
            && let Some(only) = self.root.parts.pop()
        {
            self.root = only;
        }
        spot
    }

    /// The nodes in these ranges, in the order of their ids; and how many spots and hulls had to be looked at.
    pub fn within(&self, ranges: &[Places]) -> (Vec<NodeId>, usize) {
        let mut found = Vec::new();
        let looked_at = self.root.within(ranges, &mut found);
        found.sort_unstable();
        (found, looked_at)
    }
}

/// All parts of a part are equally deep. None but the root is without nodes.
#[derive(Default)]
struct Part {
    /// Nothing in it comes before this, and everything in the parts before it does.
    least: Option<Key>,
    hull: Ranges,
    /// The parts in it; none where it is one of the lowest.
    parts: Vec<Part>,
    /// The nodes in it, where it is one of the lowest.
    nodes: Vec<Entry>,
}

impl Part {
    fn over(parts: Vec<Part>, nodes: Vec<Entry>) -> Part {
        let least = parts.first().map_or_else(|| nodes.first().map(order), |part| part.least);
        let mut part = Part { least, hull: Ranges::new(), parts, nodes };
        part.hull = part.measured();
        part
    }

    fn count(&self) -> usize {
        self.parts.len() + self.nodes.len()
    }

    /// Gives the further half of what is in it when that has become too much.
    fn insert(&mut self, entry: Entry) -> Option<Part> {
        let key = order(&entry);
        self.least = self.least.min(Some(key));
        widen(&mut self.hull, entry.1.iter().copied().map(Places::only));
        if self.parts.is_empty() {
            let at = self.nodes.partition_point(|other| order(other) < key);
            self.nodes.insert(at, entry);
        } else {
            let at = self.parts.partition_point(|part| part.least <= Some(key)).saturating_sub(1);
            if let Some(beside) = self.parts[at].insert(entry) {
                self.parts.insert(at + 1, beside);
            }
        }
        (self.count() > TOGETHER).then(|| self.halve())
    }

    fn halve(&mut self) -> Part {
        let parts = self.parts.split_off(self.parts.len() / 2);
        let nodes = self.nodes.split_off(self.nodes.len() / 2);
        self.hull = self.measured();
        Part::over(parts, nodes)
    }

    fn remove(&mut self, key: Key) -> Option<Spot> {
        let spot = if self.parts.is_empty() {
            let at = self.nodes.binary_search_by_key(&key, order).ok()?;
            self.nodes.remove(at).1
        } else {
            let at = self.parts.partition_point(|part| part.least <= Some(key)).checked_sub(1)?;
            let spot = self.parts[at].remove(key)?;
            self.settle(at);
            spot
        };
        // What lay inside of the hull did not make it.
        if spot.iter().zip(&self.hull).any(|(place, places)| *place == places.first || *place == places.last) {
            self.hull = self.measured();
        }
        Some(spot)
    }

    /// A part without nodes goes; one of few becomes one with that beside it, so that there are not many of them.
    fn settle(&mut self, at: usize) {
        if self.parts[at].count() == 0 {
            self.parts.remove(at);
            return;
        }
        for at in [at, at.saturating_sub(1)] {
            if let Some([one, next]) = self.parts.get(at..at + 2)
                && one.count() + next.count() <= TOGETHER / 2
            {
                let next = self.parts.remove(at + 1);
                self.parts[at].append(next);
            }
        }
    }

    fn append(&mut self, next: Part) {
        widen(&mut self.hull, next.hull.iter().copied());
        self.parts.extend(next.parts);
        self.nodes.extend(next.nodes);
    }

    fn measured(&self) -> Ranges {
        let mut hull = Ranges::new();
        self.parts.iter().for_each(|part| widen(&mut hull, part.hull.iter().copied()));
        self.nodes.iter().for_each(|(_, spot)| widen(&mut hull, spot.iter().copied().map(Places::only)));
        hull
    }

    /// Gives how much it looked at.
    fn within(&self, ranges: &[Places], found: &mut Vec<NodeId>) -> usize {
        if !meets(&self.hull, ranges) {
            return 1;
        }
        found.extend(self.nodes.iter().filter(|(_, spot)| is_within(spot, ranges)).map(|(node, _)| *node));
        let below: usize = self.parts.iter().map(|part| part.within(ranges, found)).sum();
        1 + self.nodes.len() + below
    }
}

fn widen(hull: &mut Ranges, by: impl Iterator<Item = Places>) {
    if hull.is_empty() {
        return hull.extend(by);
    }
    for (places, by) in hull.iter_mut().zip(by) {
        *places = places.around(by);
    }
}

/// Whether something in the hull may lie in the ranges.
fn meets(hull: &[Places], ranges: &[Places]) -> bool {
    hull.iter().zip(ranges).map(|(hull, range)| hull.both(*range)).all(|both| both.first <= both.last)
}

#[cfg(test)]
mod tests {
    use weir_model::Value;
    use weir_model::expression::Binary;

    use super::*;
    use crate::index::key::{ordered, ranges};
    use crate::random::Random;

    fn spot(numbers: [i64; 2]) -> Spot {
        numbers.iter().map(|n| ordered(&Value::Integer(*n)).expect("a number")).collect()
    }

    fn up_to(last: i64) -> Places {
        ranges(Binary::LessOrEqual, &Value::Integer(last)).expect("known")[0]
    }

    fn from(first: i64) -> Places {
        ranges(Binary::GreaterOrEqual, &Value::Integer(first)).expect("known")[0]
    }

    /// Open at one end or at the other, closed, or empty.
    fn random_range(random: &mut Random) -> Places {
        let x = random.integer_below(50);
        match random.below(3) {
            0 => up_to(x),
            1 => from(x),
            _ => from(x).both(up_to(x - 1 + random.integer_below(6))),
        }
    }

    /// How many parts there are, all of which are as they should be.
    fn checked(part: &Part) -> usize {
        assert_eq!(part.hull, part.measured());
        assert!(part.count() <= TOGETHER && (part.parts.is_empty() || part.nodes.is_empty()));
        assert!(part.nodes.is_sorted_by_key(order) && part.parts.is_sorted_by_key(|below| below.least));
        assert!(part.parts.iter().all(|below| below.count() > 0));
        1 + part.parts.iter().map(checked).sum::<usize>()
    }

    #[test]
    fn what_lies_in_ranges_is_found_and_nothing_else() {
        let mut random = Random(7);
        let (mut spots, mut kept) = (Spots::default(), Vec::<(NodeId, Spot)>::new());
        for number in 0..6_000u64 {
            // It grows, and in the end it shrinks.
            let goes = !kept.is_empty() && (number >= 4_000 || random.below(3) == 0);
            if goes {
                let (node, spot) = kept.swap_remove(random.index_below(kept.len()));
                assert_eq!(spots.remove(node, spot[0]), Some(spot));
                assert_eq!(spots.remove(node, up_to(0).first), None);
            } else {
                let node = NodeId::new(random.below(9), number);
                let spot = spot([random.integer_below(50), random.integer_below(50)]);
                spots.insert(node, spot.clone());
                kept.push((node, spot));
            }
            let ranges = Ranges::from_iter([random_range(&mut random), random_range(&mut random)]);
            let mut wanted: Vec<NodeId> =
                kept.iter().filter(|(_, spot)| is_within(spot, &ranges)).map(|(node, _)| *node).collect();
            wanted.sort_unstable();
            assert_eq!(spots.within(&ranges).0, wanted, "at {number}");
            if number.is_multiple_of(50) {
                checked(&spots.root);
            }
        }
    }

    /// Each has a value from one on and up to another: half of them begin before any.
    #[test]
    fn what_is_open_at_one_end_is_not_looked_through() {
        let mut spots = Spots::default();
        for number in 0..20_000u64 {
            let first = 10 * number as i64;
            spots.insert(NodeId::new(0, number), spot([first, first + 15]));
        }
        for (x, wanted) in [(3, 0..1), (100_003, 9_999..10_001), (199_998, 19_999..20_000)] {
            let (found, looked_at) = spots.within(&[up_to(x), from(x)]);
            assert_eq!(found, wanted.map(|number| NodeId::new(0, number)).collect::<Vec<_>>());
            assert!(looked_at < 400, "{looked_at} looked at for {x}");
        }
        // All that begin late, and those alone.
        let (found, looked_at) = spots.within(&[from(199_000), from(0)]);
        assert!(found.len() == 100 && looked_at < 400, "{looked_at} looked at");
    }

    #[test]
    fn parts_of_few_become_one() {
        let mut spots = Spots::default();
        let of = |number: u64| (NodeId::new(0, number), spot([number as i64, 0]));
        (0..3_000u64).map(of).for_each(|(node, spot)| spots.insert(node, spot));
        for (node, spot) in (0..3_000u64).filter(|number| !number.is_multiple_of(32)).map(of) {
            assert_eq!(spots.remove(node, spot[0]), Some(spot));
        }
        let count = checked(&spots.root);
        assert!(count <= 30, "{count} parts");
        assert_eq!(spots.within(&[from(0), from(0)]).0.len(), 94);
        for (node, spot) in (0..3_000u64).filter(|number| number.is_multiple_of(32)).map(of) {
            assert_eq!(spots.remove(node, spot[0]), Some(spot));
        }
        assert_eq!((checked(&spots.root), spots.root.count(), spots.within(&[from(0), from(0)]).0.len()), (1, 0, 0));
    }
}
