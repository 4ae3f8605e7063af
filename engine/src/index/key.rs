//! Where a value lies in an index: values that are equal at one place, and values in order at places in order.
//!
//!     class 8 | value 104 | part of the node ids 16        = the 128 bits of a node id
//!
//! A place says less than the value: long texts share theirs with others that begin alike, lists share one. So what an index
//! finds holds every node that is meant and some that are not, and whoever asks looks again.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::{IdScheme, NodeId, Value};

/// A place, without the part of the node ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(u128);

/// Both ends belong to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Places {
    pub first: Place,
    pub last: Place,
}

/// All nodes of an index by label lie here.
pub const LABEL: Place = Place(1 << 120);
/// No value lies here.
pub const FAILS: Place = Place(0);
const BOOLEAN: u8 = 2;
const NUMBER: u8 = 3;
const DATETIME: u8 = 4;
/// Texts by how they begin, for ranges.
const TEXT: u8 = 5;
/// Texts by hash, for equality.
const HASHED_TEXT: u8 = 6;
const OTHER: u8 = 7;
/// Nodes themselves, which no index holds.
const NODE: u8 = 8;

const TEXT_BYTES: usize = 13;

impl Place {
    fn new(class: u8, value: u128) -> Place {
        Place(u128::from(class) << 120 | value << 16)
    }

    /// As the key of an arrangement. Nodes of one place are spread over keys by their ids, so that none of them grows without
    /// bound, in the order of their ids.
    pub fn key(self, node: NodeId) -> NodeId {
        let part = if node.high == 0 { node.low } else { node.high } >> 48;
        NodeId::new((self.0 >> 64) as u64, self.0 as u64 | part)
    }

    pub fn first_key(self) -> NodeId {
        NodeId::new((self.0 >> 64) as u64, self.0 as u64)
    }

    pub fn last_key(self) -> NodeId {
        NodeId::new((self.0 >> 64) as u64, self.0 as u64 | 0xffff)
    }
}

impl Places {
    pub fn only(place: Place) -> Places {
        Places { first: place, last: place }
    }

    pub const NOWHERE: Places = Places { first: Place(u128::MAX), last: Place(0) };

    /// What lies in both of them.
    pub fn both(self, other: Places) -> Places {
        Places { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    /// Both of them, and what lies between.
    pub fn around(self, other: Places) -> Places {
        Places { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    pub fn contains(&self, place: Place) -> bool {
        (self.first..=self.last).contains(&place)
    }

    fn class(class: u8) -> Places {
        Places { first: Place::new(class, 0), last: Place::new(class, (1 << 104) - 1) }
    }
}

impl std::ops::RangeBounds<Place> for Places {
    fn start_bound(&self) -> std::ops::Bound<&Place> {
        std::ops::Bound::Included(&self.first)
    }

    fn end_bound(&self) -> std::ops::Bound<&Place> {
        std::ops::Bound::Included(&self.last)
    }
}

/// Where a stored value lies. Nothing that equals or is compared with nothing lies anywhere.
pub fn places(value: &Value) -> SmallVec<[Place; 2]> {
    let mut places = SmallVec::new();
    places.extend(equal(value));
    if let Value::Text(text) = value {
        places.push(text_place(text));
    }
    places
}

/// Where every value lies that is equal to this one. None if none is.
pub fn equal(value: &Value) -> Option<Place> {
    match value {
        Value::Text(text) => {
            let mut hasher = FxHasher::default();
            text.hash(&mut hasher);
            Some(Place::new(HASHED_TEXT, u128::from(hasher.finish())))
        }
        _ => ordered(value),
    }
}

/// Where a node lies by its id. Those that show the same id lie at one place.
pub fn node(id: NodeId, ids: IdScheme) -> Place {
    let value = match ids {
        IdScheme::Long { .. } => u128::from(id.low),
        _ => u128::from(id.high) << 40 ^ u128::from(id.low),
    };
    Place::new(NODE, value)
}

/// The place of a value among those it can be compared with. Of two places that are the same nothing is known.
pub fn ordered(value: &Value) -> Option<Place> {
    Some(match value {
        Value::Null => return None,
        Value::Float(x) if x.is_nan() => return None,
        Value::Float(x) => number(*x),
        // Rounding keeps the order.
        Value::Integer(n) => number(*n as f64),
        Value::Boolean(b) => Place::new(BOOLEAN, u128::from(*b)),
        Value::Text(text) => text_place(text),
        Value::DateTime(at) => {
            Place::new(DATETIME, u128::from(at.epoch_second as u64 ^ 1 << 63) << 32 | u128::from(at.nano as u32))
        }
        _ => Place::new(OTHER, 0),
    })
}

fn number(x: f64) -> Place {
    // Minus zero is zero.
    let bits = (x + 0.0).to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    Place::new(NUMBER, u128::from(ordered) << 40)
}

fn text_place(text: &str) -> Place {
    Place::new(TEXT, text_prefix(text, 0))
}

/// The first bytes, filled up.
fn text_prefix(text: &str, fill: u8) -> u128 {
    let mut bytes = [fill; 16];
    for (to, from) in bytes[16 - TEXT_BYTES..].iter_mut().zip(text.bytes()) {
        // Texts order by UTF-16: what needs four bytes comes before the last of those with three.
        *to = match from {
            0xEE | 0xEF => from | 0x10,
            other => other,
        };
    }
    u128::from_be_bytes(bytes) & ((1 << 104) - 1)
}

/// Whether what is asked for lies at one place: what is the same lies where what is equal does.
pub fn is_equality(operator: Binary) -> bool {
    matches!(operator, Binary::Equal | Binary::Same)
}

/// Where values lie for which `value operator of` can be true. None where an index does not know.
pub fn ranges(operator: Binary, of: &Value) -> Option<Vec<Places>> {
    let within = |limit: &dyn Fn(Places, Place) -> Places| {
        let Some(place) = ordered(of) else { return Vec::new() };
        vec![limit(Places::class((place.0 >> 120) as u8), place)]
    };
    match (operator, of) {
        (Binary::Equal, _) => Some(equal(of).map(Places::only).into_iter().collect()),
        // Null is the same as null and NaN as NaN, and neither lies anywhere.
        (Binary::Same, _) => equal(of).map(|place| vec![Places::only(place)]),
        (Binary::In, Value::List(items)) => Some(items.iter().filter_map(equal).map(Places::only).collect()),
        (Binary::In, Value::Null) => Some(Vec::new()),
        (Binary::StartsWith, Value::Text(text)) => {
            let (first, last) = (Place::new(TEXT, text_prefix(text, 0)), Place::new(TEXT, text_prefix(text, 0xff)));
            Some(vec![Places { first, last }])
        }
        (Binary::Less | Binary::LessOrEqual, _) => Some(within(&|class, last| Places { last, ..class })),
        (Binary::Greater | Binary::GreaterOrEqual, _) => Some(within(&|class, first| Places { first, ..class })),
        _ => None,
    }
}

/// What lies in both. Texts lie in two classes, which do not meet: then either is right, and the narrower one is taken.
pub fn both(x: Vec<Places>, y: &[Places]) -> Vec<Places> {
    let class = |places: &Places| places.first.0 >> 120;
    let hashed = |all: &[Places]| all.iter().any(|places| class(places) == u128::from(HASHED_TEXT));
    match (hashed(&x), hashed(y)) {
        (true, false) => return x,
        (false, true) => return y.to_vec(),
        _ => {}
    }
    // Side by side: lists that a query brings may be long, and all pairs of two of them would take for ever.
    let (x, y) = (apart(x), apart(y.to_vec()));
    let (mut x, mut y) = (&x[..], &y[..]);
    let mut found = Vec::new();
    while let ([one, ..], [other, ..]) = (x, y) {
        found.extend(Some(one.both(*other)).filter(|places| places.first <= places.last));
        // What ends first meets nothing that follows on the other side.
        if one.last < other.last {
            x = &x[1..];
        } else {
            y = &y[1..];
        }
    }
    found
}

/// Puts places in order and apart from each other, so that none of them is looked at twice.
pub fn apart(mut places: Vec<Places>) -> Vec<Places> {
    places.retain(|range| range.first <= range.last);
    places.sort_unstable();
    places.dedup_by(|range, before| {
        let is_joined = range.first <= before.last;
        if is_joined {
            before.last = before.last.max(range.last);
        }
        is_joined
    });
    places
}

#[cfg(test)]
mod tests {
    use weir_model::Value;

    use super::*;
    use crate::random::Random;

    fn values() -> Vec<Value> {
        let texts = ["", "a", "ab", "a long text with an end", "a long text with another", "\u{ffff}", "\u{10000}", "é"];
        let floats = [0.0, -0.0, 1.0, -1.5, 2e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9_007_199_254_740_993.0];
        let integers = [0, 1, -1, i64::MAX, i64::MIN, 9_007_199_254_740_993, 9_007_199_254_740_992];
        let mut values: Vec<Value> = texts.iter().map(|text| Value::text(text)).collect();
        values.extend(floats.map(Value::Float));
        values.extend(integers.map(Value::Integer));
        values.extend([Value::Null, Value::Boolean(true), Value::Boolean(false)]);
        let items = [Value::Integer(1), Value::Float(1.0), Value::Float(f64::NAN), Value::Null];
        values.extend(items.map(|item| Value::list(vec![item])));
        values
    }

    /// Every pair for which a condition is true is found.
    #[test]
    fn what_is_true_is_found() {
        let found = |stored: &Value, operator: Binary, of: &Value| {
            let ranges = ranges(operator, of).expect("an operator indexes know");
            places(stored).iter().any(|place| ranges.iter().any(|range| range.contains(*place)))
        };
        for (x, y) in values().iter().flat_map(|x| values().into_iter().map(move |y| (x.clone(), y))) {
            if x.equals(&y) == Some(true) {
                assert!(found(&x, Binary::Equal, &y), "{x:?} = {y:?}");
                assert!(found(&x, Binary::In, &Value::list(vec![Value::Null, y.clone()])), "{x:?} IN [{y:?}]");
            }
            if x.same(&y) && !x.is_null() && !x.is_nan() {
                assert!(found(&x, Binary::Same, &y), "{x:?} is the same as {y:?}");
            }
            match x.compare(&y) {
                Some(order) if order.is_lt() => assert!(found(&x, Binary::Less, &y), "{x:?} < {y:?}"),
                Some(order) if order.is_gt() => assert!(found(&x, Binary::Greater, &y), "{x:?} > {y:?}"),
                Some(_) => assert!(found(&x, Binary::LessOrEqual, &y) && found(&x, Binary::GreaterOrEqual, &y)),
                None => {}
            }
            if let (Value::Text(text), Value::Text(start)) = (&x, &y)
                && text.starts_with(start.as_str())
            {
                assert!(found(&x, Binary::StartsWith, &y), "{x:?} STARTS WITH {y:?}");
            }
        }
    }

    #[test]
    fn what_is_far_is_not() {
        let misses = |stored: Value, operator: Binary, of: Value| {
            let ranges = ranges(operator, &of).expect("known");
            !places(&stored).iter().any(|place| ranges.iter().any(|range| range.contains(*place)))
        };
        assert!(misses(Value::Integer(1), Binary::Equal, Value::Integer(2)));
        assert!(misses(Value::Integer(1), Binary::Greater, Value::Float(1.5)));
        assert!(misses(Value::text("a long text with an end"), Binary::Equal, Value::text("a long text with another")));
        assert!(misses(Value::text("b"), Binary::StartsWith, Value::text("a")));
        assert!(misses(Value::Null, Binary::Less, Value::Integer(1)));
        assert!(misses(Value::Integer(1), Binary::Same, Value::Integer(2)));
        assert_eq!(ranges(Binary::In, &Value::Integer(1)), None);
        assert_eq!(ranges(Binary::Same, &Value::Null), None);
        assert_eq!(ranges(Binary::Same, &Value::Float(f64::NAN)), None);
        assert_eq!(ranges(Binary::Equal, &Value::Float(f64::NAN)), Some(Vec::new()));
        let between = both(
            ranges(Binary::Greater, &Value::Integer(1)).expect("known"),
            &ranges(Binary::Less, &Value::Integer(5)).expect("known"),
        );
        let within = |n: i64| places(&Value::Integer(n)).iter().any(|place| between.iter().any(|range| range.contains(*place)));
        assert!(within(3) && !within(0) && !within(6) && between.len() == 1);
    }

    #[test]
    fn what_lies_in_both_is_found_in_one_pass() {
        let place = |n: u64| Place::new(NUMBER, u128::from(n));
        let lies = |all: &[Places], n: u64| all.iter().any(|range| range.contains(place(n)));
        for seed in 0..2000 {
            let mut random = Random(seed);
            let mut some = || -> Vec<Places> {
                let range = |random: &mut Random| {
                    let first = random.below(30);
                    // Some end before they begin.
                    Places { first: place(first), last: place((first + random.below(6)).saturating_sub(1)) }
                };
                (0..random.below(8)).map(|_| range(&mut random)).collect()
            };
            let (x, y) = (some(), some());
            let found = both(x.clone(), &y);
            for n in 0..40 {
                assert_eq!(lies(&found, n), lies(&x, n) && lies(&y, n), "seed {seed}: {n} of {x:?} and {y:?}");
            }
            assert!(found.is_sorted_by(|a, b| a.last < b.first), "seed {seed}: {found:?}");
        }
        let again = vec![Places::only(place(1)); 1000];
        assert_eq!(both(again.clone(), &again), [Places::only(place(1))]);
        let long: Vec<Places> = (0..200_000).map(|n| Places::only(place(n))).collect();
        let other: Vec<Places> = (0..200_000).rev().map(|n| Places::only(place(2 * n))).collect();
        assert_eq!(both(long, &other).len(), 100_000);
    }
}
