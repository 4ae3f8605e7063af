//! The relations between values: `equals` (Cypher's `=`), `compare` (`<` and its kin), `order` (ORDER BY, min, max) and
//! `same` (identity, which Rust's `==`, `Ord` and `Hash` follow).
//!
//! They differ where it matters to a user:
//!
//!     pair               equals   compare     order      same
//!     1, 1.0             true     equal       tie        no
//!     0.0, -0.0          true     equal       after      no
//!     NaN, NaN           false    no answer   tie        yes, whatever the bits
//!     null, null         null     null        tie        yes
//!     {a: 1}, {b: 1}     false    less        less       no
//!     1, 'x'             false    null        number     no
//!                                             is greater
//!
//! `order` is a total preorder over all types: bytes and ids, maps, nodes, edges, lists, paths, times, dates, durations,
//! strings, booleans, numbers, null. That is openCypher's sequence with the types it does not name put where users of
//! the streaming dialect expect them.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use crate::id::{EdgeKey, NodeId};
use crate::value::{Map, Text, Value};

impl Value {
    /// Cypher's `=`. None is null: a side, or something inside it that decides, is null.
    pub fn equals(&self, other: &Value) -> Option<bool> {
        let Ok(answer) = self.equals_told(other, &|| Ok::<(), Infallible>(()));
        answer
    }

    /// As `equals`. Before each element of lists and maps is looked at `tell` is called, and its error ends the comparison.
    pub(crate) fn equals_told<E>(&self, other: &Value, tell: &impl Fn() -> Result<(), E>) -> Result<Option<bool>, E> {
        use Value::*;
        Ok(Some(match (self, other) {
            (Null, _) | (_, Null) => return Ok(None),
            (Boolean(x), Boolean(y)) => x == y,
            (Integer(x), Integer(y)) => x == y,
            (Float(x), Float(y)) => x == y,
            (Integer(x), Float(y)) | (Float(y), Integer(x)) => integer_with_float(*x, *y) == Some(Ordering::Equal),
            (Text(x), Text(y)) => x == y,
            (List(x), List(y)) => return lists_equal(x, y, tell),
            (Map(x), Map(y)) => return maps_equal(x, y, tell),
            (Duration(x), Duration(y)) => x == y,
            (Id(x), Id(y)) | (Node(x), Node(y)) => x == y,
            (x, y) => match (x.entity(), y.entity()) {
                (Some(x), Some(y)) => x == y,
                // An id is bytes with a mark; the mark does not count here.
                _ => match (x.octets(), y.octets()) {
                    (Some(x), Some(y)) => *x == *y,
                    _ => same(x, y),
                },
            },
        }))
    }

    /// A hash that is the same for any two values, neither of them null, of which `equals` says anything but false.
    pub(crate) fn equality_hash(&self) -> u64 {
        use Value::*;
        let mut hasher = FxHasher::default();
        match self {
            // Those of one length can be null to one another, whatever else is in them.
            List(items) => (tag(self), items.len()).hash(&mut hasher),
            Map(map) => (tag(self), map.len()).hash(&mut hasher),
            Integer(n) => n.hash(&mut hasher),
            Float(x) if *x as i64 as f64 == *x => (*x as i64).hash(&mut hasher),
            Bytes(bytes) => bytes[..].hash(&mut hasher),
            Id(id) => id.to_bytes()[..].hash(&mut hasher),
            Node(id) => id.hash(&mut hasher),
            FullNode(node) => node.id.hash(&mut hasher),
            Edge(key) => key.hash(&mut hasher),
            FullEdge(edge) => edge.key.hash(&mut hasher),
            other => other.hash(&mut hasher),
        }
        hasher.finish()
    }

    /// What `<`, `<=`, `>`, `>=` ask. None where there is no answer: null for most, false when a NaN is the reason
    /// (`is_nan`).
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        use Value::*;
        match (self, other) {
            (Integer(x), Integer(y)) => Some(x.cmp(y)),
            (Float(x), Float(y)) => x.partial_cmp(y),
            (Integer(x), Float(y)) => integer_with_float(*x, *y),
            (Float(x), Integer(y)) => integer_with_float(*y, *x).map(Ordering::reverse),
            (Text(x), Text(y)) => Some(compare_text(x, y)),
            (Boolean(x), Boolean(y)) => Some(x.cmp(y)),
            (List(x), List(y)) => {
                for (x, y) in x.iter().zip(y.iter()) {
                    match x.compare(y)? {
                        Ordering::Equal => {}
                        decided => return Some(decided),
                    }
                }
                Some(x.len().cmp(&y.len()))
            }
            (Bytes(_), Bytes(_)) | (Id(_), Id(_)) | (Map(_), Map(_)) => Some(self.order(other)),
            (Date(_), Date(_)) | (LocalTime(_), LocalTime(_)) => Some(self.order(other)),
            (LocalDateTime(_), LocalDateTime(_)) | (Duration(_), Duration(_)) => Some(self.order(other)),
            // Of one instant in two zones neither is earlier.
            (Time(x), Time(y)) => Some(x.instant().cmp(&y.instant())),
            (DateTime(x), DateTime(y)) => Some((x.epoch_second, x.nano).cmp(&(y.epoch_second, y.nano))),
            _ => None,
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Value::Float(x) if x.is_nan())
    }

    /// The order of ORDER BY, min and max. Ties are values a user sees as alike: 1 and 1.0, two nulls.
    pub fn order(&self, other: &Value) -> Ordering {
        use Value::*;
        match (self, other) {
            (Integer(x), Integer(y)) => x.cmp(y),
            (Text(x), Text(y)) => compare_text(x, y),
            (Float(x), Float(y)) => float_order(*x, *y),
            // The float is compared with the integer as with a number of its own kind: NaN is above everything.
            // And 0 is tied with 0.0 alone: were it with -0.0, too, which is below that, there would be no order of the three.
            (Integer(x), Float(y)) => match integer_with_float(*x, *y) {
                Some(Ordering::Equal) if *y == 0.0 && y.is_sign_negative() => Ordering::Greater,
                order => order.unwrap_or(Ordering::Less),
            },
            (Float(_), Integer(_)) => other.order(self).reverse(),
            (Boolean(x), Boolean(y)) => x.cmp(y),
            (List(x), List(y)) => lexical(x.iter(), y.iter(), Value::order),
            (Map(x), Map(y)) => {
                lexical(sorted(x).into_iter(), sorted(y).into_iter(), |x, y| compare_text(x.0, y.0).then_with(|| x.1.order(y.1)))
            }
            // Times and datetimes order by the instant first, so that what is shown in order is in order.
            (Time(x), Time(y)) => x.instant().cmp(&y.instant()).then(x.offset_seconds.cmp(&y.offset_seconds)),
            (DateTime(x), DateTime(y)) => {
                (x.epoch_second, x.nano).cmp(&(y.epoch_second, y.nano)).then_with(|| x.zone_order().cmp(&y.zone_order()))
            }
            (Duration(x), Duration(y)) => x.length_nanos().cmp(&y.length_nanos()),
            _ => self.rank().cmp(&other.rank()).then_with(|| structural(self, other)),
        }
    }

    /// As `order`, with ties told apart: 1 before 1.0. So which of several values is the least or the greatest does not depend on
    /// which came first.
    pub fn order_fully(&self, other: &Value) -> Ordering {
        self.order(other).then_with(|| structural(self, other))
    }

    /// Structural identity: type and content agree, null is null, maps irrespective of the order of their keys. What
    /// DISTINCT, grouping, the store and the cancellation of matches go by.
    pub fn same(&self, other: &Value) -> bool {
        same(self, other)
    }

    /// Place of the type in `order`.
    fn rank(&self) -> u8 {
        match self {
            Value::Bytes(_) | Value::Id(_) => 0,
            Value::Map(_) => 1,
            Value::Node(_) | Value::FullNode(_) => 2,
            Value::Edge(_) | Value::FullEdge(_) => 3,
            Value::List(_) => 4,
            Value::Path(_) => 5,
            Value::LocalTime(_) => 6,
            Value::Time(_) => 7,
            Value::Date(_) => 8,
            Value::LocalDateTime(_) => 9,
            Value::DateTime(_) => 10,
            Value::Duration(_) => 11,
            Value::Text(_) => 12,
            Value::Boolean(_) => 13,
            Value::Integer(_) | Value::Float(_) => 14,
            Value::Null => 15,
        }
    }

    fn entity(&self) -> Option<Entity<'_>> {
        match self {
            Value::Node(id) => Some(Entity::Node(*id)),
            Value::FullNode(node) => Some(Entity::Node(node.id)),
            Value::Edge(edge) => Some(Entity::Edge(edge)),
            Value::FullEdge(edge) => Some(Entity::Edge(&edge.key)),
            _ => None,
        }
    }

    fn octets(&self) -> Option<std::borrow::Cow<'_, [u8]>> {
        match self {
            Value::Bytes(bytes) => Some(bytes[..].into()),
            Value::Id(id) => Some(id.to_bytes().to_vec().into()),
            _ => None,
        }
    }
}

/// A node or an edge, however much of it a value carries.
#[derive(PartialEq)]
enum Entity<'a> {
    Node(NodeId),
    Edge(&'a EdgeKey),
}

/// Strings order by UTF-16 code units. UTF-8 agrees, except that characters beyond the first plane are pairs of units
/// below U+E000.
pub fn compare_text(x: &str, y: &str) -> Ordering {
    let (x, y) = (x.as_bytes(), y.as_bytes());
    let order = x.cmp(y);
    if order == Ordering::Equal {
        return order;
    }
    match x.iter().zip(y).find(|(x, y)| x != y) {
        Some((0xF0.., 0xEE | 0xEF)) => Ordering::Less,
        Some((0xEE | 0xEF, 0xF0..)) => Ordering::Greater,
        _ => order,
    }
}

/// Three-valued AND over the equality of pairs.
fn lists_equal<E>(x: &[Value], y: &[Value], tell: &impl Fn() -> Result<(), E>) -> Result<Option<bool>, E> {
    if x.len() != y.len() {
        return Ok(Some(false));
    }
    let mut result = Some(true);
    for (x, y) in x.iter().zip(y) {
        tell()?;
        match x.equals_told(y, tell)? {
            Some(true) => {}
            Some(false) => return Ok(Some(false)),
            None => result = None,
        }
    }
    Ok(result)
}

/// As `lists_equal`, of the values under the same keys.
fn maps_equal<E>(x: &Map, y: &Map, tell: &impl Fn() -> Result<(), E>) -> Result<Option<bool>, E> {
    let mut result = Some(true);
    let all = each_pair::<E>(x, y, |x, y| {
        tell()?;
        Ok(match x.equals_told(y, tell)? {
            Some(equal) => equal,
            None => {
                result = None;
                true
            }
        })
    })?;
    Ok(if all { result } else { Some(false) })
}

/// Whether two maps have the same keys, and `holds` does of the values under each. Entries of maps of one origin lie in one
/// order, so they are walked through side by side; where they part, few are searched, and many put in order.
fn each_pair<E>(x: &Map, y: &Map, mut holds: impl FnMut(&Value, &Value) -> Result<bool, E>) -> Result<bool, E> {
    const SEARCHED_MAX: usize = 16;
    if x.len() != y.len() {
        return Ok(false);
    }
    let mut passed = 0;
    for (x, y) in x.iter().zip(y.iter()).take_while(|(x, y)| x.0 == y.0) {
        if !holds(&x.1, &y.1)? {
            return Ok(false);
        }
        passed += 1;
    }
    if x.len() - passed > SEARCHED_MAX {
        for (x, y) in rest_in_order(x, passed).into_iter().zip(rest_in_order(y, passed)) {
            if x.0 != y.0 || !holds(&x.1, &y.1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    for (key, value) in x.iter().skip(passed) {
        let Some((_, other)) = y.iter().skip(passed).find(|(other, _)| other == key) else { return Ok(false) };
        if !holds(value, other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn rest_in_order(map: &Map, from: usize) -> Vec<&(Text, Value)> {
    let mut entries: Vec<&(Text, Value)> = map.iter().skip(from).collect();
    entries.sort_unstable_by(|(x, _), (y, _)| x.cmp(y));
    entries
}

/// Exact, where a conversion to float would round the integer. None when the float is NaN.
fn integer_with_float(x: i64, y: f64) -> Option<Ordering> {
    if y.is_nan() {
        return None;
    }
    // 2^63 is a float; every float below it and at or above -2^63 truncates to an i64 exactly.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if y >= LIMIT {
        return Some(Ordering::Less);
    }
    if y < -LIMIT {
        return Some(Ordering::Greater);
    }
    let truncated = y.trunc();
    Some(x.cmp(&(truncated as i64)).then_with(|| truncated.partial_cmp(&y).unwrap_or(Ordering::Equal)))
}

/// Numeric, -0.0 below 0.0, NaN above everything and all NaN alike.
fn float_order(x: f64, y: f64) -> Ordering {
    match (x.is_nan(), y.is_nan()) {
        (false, false) => x.total_cmp(&y),
        (x, y) => x.cmp(&y),
    }
}

fn lexical<T>(mut x: impl Iterator<Item = T>, mut y: impl Iterator<Item = T>, order: impl Fn(T, T) -> Ordering) -> Ordering {
    loop {
        match (x.next(), y.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => match order(x, y) {
                Ordering::Equal => {}
                decided => return decided,
            },
        }
    }
}

fn sorted(map: &Map) -> Vec<(&Text, &Value)> {
    let mut entries: Vec<_> = map.iter().map(|(key, value)| (key, value)).collect();
    entries.sort_by(|x, y| compare_text(x.0, y.0));
    entries
}

/// A float as bits that agree exactly when the floats are the same.
pub(crate) fn identity_bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

fn same(x: &Value, y: &Value) -> bool {
    use Value::*;
    match (x, y) {
        (Null, Null) => true,
        (Boolean(x), Boolean(y)) => x == y,
        (Integer(x), Integer(y)) => x == y,
        (Float(x), Float(y)) => identity_bits(*x) == identity_bits(*y),
        (Text(x), Text(y)) => x == y,
        (Bytes(x), Bytes(y)) => x == y,
        (Id(x), Id(y)) | (Node(x), Node(y)) => x == y,
        (List(x), List(y)) => std::sync::Arc::ptr_eq(x, y) || x == y,
        (Map(x), Map(y)) => std::sync::Arc::ptr_eq(x, y) || x == y,
        (Date(x), Date(y)) => x == y,
        (LocalTime(x), LocalTime(y)) => x == y,
        (Time(x), Time(y)) => x == y,
        (LocalDateTime(x), LocalDateTime(y)) => x == y,
        (DateTime(x), DateTime(y)) => x == y,
        (Duration(x), Duration(y)) => x == y,
        (Edge(x), Edge(y)) => x == y,
        (Path(x), Path(y)) => x.start == y.start && x.steps == y.steps,
        (FullNode(x), FullNode(y)) => x.id == y.id && x.labels == y.labels && x.properties == y.properties,
        (FullEdge(x), FullEdge(y)) => x.key == y.key && x.properties == y.properties,
        _ => false,
    }
}

/// A total order that agrees with `same`, for sorted collections; cheap rather than meaningful.
fn structural(x: &Value, y: &Value) -> Ordering {
    use Value::*;
    match (x, y) {
        (Boolean(x), Boolean(y)) => x.cmp(y),
        (Integer(x), Integer(y)) => x.cmp(y),
        (Float(x), Float(y)) => float_order(*x, *y),
        (Text(x), Text(y)) => x.as_str().cmp(y),
        (Bytes(x), Bytes(y)) => x.cmp(y),
        (Id(x), Id(y)) | (Node(x), Node(y)) => x.cmp(y),
        (List(x), List(y)) => x.cmp(y),
        (Map(x), Map(y)) => x.cmp(y),
        (Date(x), Date(y)) => x.cmp(y),
        (LocalTime(x), LocalTime(y)) => x.cmp(y),
        (Time(x), Time(y)) => (x.nano_of_day, x.offset_seconds).cmp(&(y.nano_of_day, y.offset_seconds)),
        (LocalDateTime(x), LocalDateTime(y)) => x.cmp(y),
        (DateTime(x), DateTime(y)) => (x.epoch_second, x.nano, x.zone_order()).cmp(&(y.epoch_second, y.nano, y.zone_order())),
        (Duration(x), Duration(y)) => (x.months, x.days, x.seconds, x.nanos).cmp(&(y.months, y.days, y.seconds, y.nanos)),
        (Edge(x), Edge(y)) => x.cmp(y),
        (Path(x), Path(y)) => x.start.cmp(&y.start).then_with(|| x.steps.cmp(&y.steps)),
        (FullNode(x), FullNode(y)) => {
            x.id.cmp(&y.id).then_with(|| x.labels.cmp(&y.labels)).then_with(|| x.properties.cmp(&y.properties))
        }
        (FullEdge(x), FullEdge(y)) => x.key.cmp(&y.key).then_with(|| x.properties.cmp(&y.properties)),
        _ => tag(x).cmp(&tag(y)),
    }
}

/// One number per variant.
fn tag(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Boolean(_) => 1,
        Value::Integer(_) => 2,
        Value::Float(_) => 3,
        Value::Text(_) => 4,
        Value::Bytes(_) => 5,
        Value::Id(_) => 6,
        Value::List(_) => 7,
        Value::Map(_) => 8,
        Value::Date(_) => 9,
        Value::LocalTime(_) => 10,
        Value::Time(_) => 11,
        Value::LocalDateTime(_) => 12,
        Value::DateTime(_) => 13,
        Value::Duration(_) => 14,
        Value::Node(_) => 15,
        Value::Edge(_) => 16,
        Value::Path(_) => 17,
        Value::FullNode(_) => 18,
        Value::FullEdge(_) => 19,
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        same(self, other)
    }
}

impl Eq for Value {}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        structural(self, other)
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(tag(self));
        match self {
            Value::Null => {}
            Value::Boolean(x) => x.hash(state),
            Value::Integer(x) => x.hash(state),
            Value::Float(x) => identity_bits(*x).hash(state),
            Value::Text(x) => x.hash(state),
            Value::Bytes(x) => x.hash(state),
            Value::Id(x) | Value::Node(x) => x.hash(state),
            Value::List(x) => x.hash(state),
            Value::Map(x) => x.hash(state),
            Value::Date(x) => x.hash(state),
            Value::LocalTime(x) => x.hash(state),
            Value::Time(x) => x.hash(state),
            Value::LocalDateTime(x) => x.hash(state),
            Value::DateTime(x) => x.hash(state),
            Value::Duration(x) => x.hash(state),
            Value::Edge(x) => x.hash(state),
            Value::Path(x) => {
                x.start.hash(state);
                x.steps.hash(state);
            }
            Value::FullNode(x) => x.id.hash(state),
            Value::FullEdge(x) => x.key.hash(state),
        }
    }
}

/// Irrespective of the order of keys, as are `Ord` and `Hash`.
impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        let Ok(all) = each_pair(self, other, |x, y| Ok::<bool, Infallible>(x == y));
        all
    }
}

impl Eq for Map {}

impl Ord for Map {
    fn cmp(&self, other: &Map) -> Ordering {
        lexical(sorted(self).into_iter(), sorted(other).into_iter(), |x, y| x.cmp(&y))
    }
}

impl PartialOrd for Map {
    fn partial_cmp(&self, other: &Map) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut sum = 0u64;
        for entry in self.iter() {
            let mut hasher = FxHasher::default();
            entry.hash(&mut hasher);
            sum = sum.wrapping_add(hasher.finish());
        }
        state.write_usize(self.len());
        state.write_u64(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn list(items: &[Value]) -> Value {
        Value::list(items.to_vec())
    }

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::map(entries.iter().map(|(key, value)| (Text::new(key), value.clone())))
    }

    fn hash(value: &Value) -> u64 {
        let mut hasher = FxHasher::default();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn equality_is_three_valued() {
        use Value::*;
        let check = |x: Value, y: Value, expected: Option<bool>| {
            assert_eq!(x.equals(&y), expected, "{x:?} = {y:?}");
            assert_eq!(y.equals(&x), expected, "{y:?} = {x:?}");
        };
        check(Null, Null, None);
        check(Integer(1), Float(1.0), Some(true));
        check(Integer(i64::MAX), Float(i64::MAX as f64), Some(false));
        check(Float(f64::NAN), Float(f64::NAN), Some(false));
        check(Float(-0.0), Float(0.0), Some(true));
        check(Integer(1), Value::text("1"), Some(false));
        check(list(&[Integer(1), Null]), list(&[Integer(1), Null]), None);
        check(list(&[Integer(1), Null]), list(&[Integer(2), Null]), Some(false));
        check(list(&[Null]), list(&[Null, Null]), Some(false));
        check(map(&[("a", Integer(1)), ("b", Null)]), map(&[("b", Null), ("a", Integer(1))]), None);
        check(map(&[("a", Integer(1))]), map(&[("b", Integer(1))]), Some(false));
        let id = NodeId::new(1, 2);
        check(Id(id), Bytes(Arc::new(id.to_bytes())), Some(true));
        check(Date(crate::value::Date { epoch_day: 3 }), Date(crate::value::Date { epoch_day: 3 }), Some(true));
    }

    /// Searched key by key each comparison would take a thousand million steps.
    #[test]
    fn maps_of_many_keys_are_compared_in_little_more_than_their_length() {
        const KEYS: i64 = 50_000;
        let entry = |n: i64| (Text::from(format!("k{n}")), Value::Integer(n));
        let one = Value::map((0..KEYS).map(entry));
        let turned = Value::map((0..KEYS).rev().map(entry));
        let open = Value::map((0..KEYS).map(|n| if n == 9 { (entry(n).0, Value::Null) } else { entry(n) }));
        let other_value = Value::map((0..KEYS).rev().map(|n| (entry(n).0, Value::Integer(n.max(1)))));
        let other_key = Value::map((1..=KEYS).rev().map(entry));
        let begun = std::time::Instant::now();
        for (other, equal, is_same) in [
            (&one, Some(true), true),
            (&turned, Some(true), true),
            (&open, None, false),
            (&other_value, Some(false), false),
            (&other_key, Some(false), false),
        ] {
            assert_eq!((one.equals(other), other.equals(&one)), (equal, equal));
            assert_eq!((one == *other, *other == one), (is_same, is_same));
        }
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }

    #[test]
    fn maps_are_equal_in_whatever_order_their_keys_lie() {
        for length in [1, 2, 3, 16, 17, 18, 40] {
            let entry = |n: i64| (Text::from(format!("k{n}")), Value::Integer(n));
            let one = Value::map((0..length).map(entry));
            // From side by side to turned round.
            for turned in 0..=length {
                let keys = || (0..length - turned).chain((length - turned..length).rev());
                let alike = Value::map(keys().map(entry));
                assert_eq!((one.equals(&alike), one == alike), (Some(true), true), "{length} {turned}");
                for differs in 0..length {
                    let changed = |key: i64, value: i64| {
                        let differently = |n: i64| {
                            let (key, value) = if n == differs { (key, value) } else { (n, n) };
                            (entry(key).0, Value::Integer(value))
                        };
                        Value::map(keys().map(differently))
                    };
                    for other in [changed(differs, -1), changed(length, differs)] {
                        assert_eq!((one.equals(&other), one == other), (Some(false), false), "{length} {turned} {differs}");
                    }
                }
            }
        }
    }

    #[test]
    fn comparison_answers_within_a_type_only() {
        use Ordering::*;
        use Value::*;
        assert_eq!(Integer(1).compare(&Float(1.5)), Some(Less));
        assert_eq!(Float(-1.5).compare(&Integer(-1)), Some(Less));
        assert_eq!(Integer(1).compare(&Value::text("1")), None);
        assert_eq!(Float(f64::NAN).compare(&Integer(1)), None);
        assert_eq!(list(&[Integer(1), Null]).compare(&list(&[Integer(2), Integer(0)])), Some(Less));
        assert_eq!(list(&[Integer(1), Null]).compare(&list(&[Integer(1), Integer(0)])), None);
        assert_eq!(list(&[Integer(1)]).compare(&list(&[Integer(1), Null])), Some(Less));
        assert_eq!(Boolean(false).compare(&Boolean(true)), Some(Less));
    }

    #[test]
    fn of_one_instant_in_two_zones_neither_time_is_earlier() {
        const HOUR: i64 = 3_600_000_000_000;
        let time = |hour: i64, offset_hours: i32| {
            Value::Time(crate::value::Time { nano_of_day: hour * HOUR, offset_seconds: offset_hours * 3600 })
        };
        let (utc, east, later) = (time(10, 0), time(11, 1), time(11, 0));
        assert_eq!((utc.compare(&east), east.compare(&utc)), (Some(Ordering::Equal), Some(Ordering::Equal)));
        assert_eq!(utc.equals(&east), Some(false));
        assert_eq!((utc.order(&east), east.order(&utc)), (Ordering::Less, Ordering::Greater));
        assert_eq!((east.compare(&later), later.compare(&east)), (Some(Ordering::Less), Some(Ordering::Greater)));
    }

    #[test]
    fn what_is_tied_with_one_is_tied_with_all_that_are() {
        let list = |first: Value, second: i64| Value::list(vec![first, Value::Integer(second)]);
        let (zero, above, below) = (Value::Integer(0), Value::Float(0.0), Value::Float(-0.0));
        let lists = [list(zero.clone(), 2), list(below.clone(), 3), list(above.clone(), 1)];
        let others = [Value::Integer(1), Value::Float(1.0), Value::Float(-1.0), Value::Float(f64::NAN)];
        let all: Vec<Value> = [zero.clone(), above.clone(), below.clone()].into_iter().chain(lists).chain(others).collect();
        for (x, y) in all.iter().flat_map(|x| all.iter().map(move |y| (x, y))) {
            assert_eq!(x.order(y), y.order(x).reverse(), "{x:?} {y:?}");
            for z in &all {
                if x.order(y).is_le() && y.order(z).is_le() {
                    assert!(x.order(z).is_le(), "{x:?} {y:?} {z:?}");
                }
            }
        }
        assert_eq!((zero.order(&above), zero.order(&below)), (Ordering::Equal, Ordering::Greater));
        assert_eq!(zero.equals(&below), Some(true));
    }

    #[test]
    fn the_order_of_types_and_of_strings_is_total() {
        use Value::*;
        let ascending = [
            Bytes(Arc::new([1])),
            map(&[]),
            map(&[("a", Integer(1))]),
            Node(NodeId::new(0, 1)),
            list(&[]),
            list(&[Integer(1)]),
            list(&[Integer(1), Integer(0)]),
            Date(crate::value::Date { epoch_day: 0 }),
            Value::text(""),
            Value::text("a\u{1F308}"),
            Value::text("a\u{FF3A}"),
            Boolean(false),
            Boolean(true),
            Float(f64::NEG_INFINITY),
            Integer(i64::MIN),
            Integer(0),
            Float(0.5),
            Integer(i64::MAX),
            Float(f64::INFINITY),
            Float(f64::NAN),
            Null,
        ];
        for (i, x) in ascending.iter().enumerate() {
            for (j, y) in ascending.iter().enumerate() {
                assert_eq!(x.order(y), i.cmp(&j), "{x:?} against {y:?}");
            }
        }
        assert_eq!(Integer(1).order(&Float(1.0)), Ordering::Equal);
    }

    #[test]
    fn identity_agrees_with_hash_and_ord() {
        use Value::*;
        let nan = Float(f64::from_bits(f64::NAN.to_bits() | 1));
        let alike = [
            (Float(f64::NAN), nan),
            (Null, Null),
            (map(&[("a", Integer(1)), ("b", Float(2.0))]), map(&[("b", Float(2.0)), ("a", Integer(1))])),
        ];
        for (x, y) in alike {
            assert!(x == y && x.cmp(&y) == Ordering::Equal && hash(&x) == hash(&y), "{x:?} and {y:?}");
        }
        let different = [
            (Integer(1), Float(1.0)),
            (Float(0.0), Float(-0.0)),
            (map(&[("a", Null)]), map(&[])),
            (Id(NodeId::new(0, 1)), Node(NodeId::new(0, 1))),
        ];
        for (x, y) in different {
            assert!(x != y && x.cmp(&y) != Ordering::Equal && x.cmp(&y) == y.cmp(&x).reverse(), "{x:?} and {y:?}");
        }
    }
}
