//! Extent: how large a value is when it is written out, parts that are shared counted wherever they appear.
//!
//! A few steps of a query can make a value whose every copy of a part is the same memory, and which nobody could write, hash
//! or compare: `[x, x]`, fifty times over. So whatever makes values out of values measures them here. Nesting is bounded
//! too, since values are walked, and dropped, recursively.
//!
//! What is made of many values is measured as they come, and they count as held until it is whole (`Parts`, `Holding`): each may
//! be small enough where all of them together are not.

use std::mem::size_of;
use std::sync::Arc;

use crate::expression::{Context, Failure, FailureKind};
use crate::value::{Map, Text, Value};

/// Deeper nesting is refused. More than JSON may bring, less than the log can read back.
pub const DEPTH_MAX: usize = 400;

/// Levels that a property may have at most: a node, or a map of its properties, is one more, and still a value.
pub const STORED_DEPTH_MAX: usize = DEPTH_MAX - 1;

/// The largest value where nobody says how large one may be.
pub const ROOM: usize = 256 << 20;

/// What is made at a time and comes to less than this is not held: most rows and maps are small, and are to cost nothing.
const LIGHT: usize = 4 << 10;

/// Bytes of a value, as far as `room` reaches: what is larger, or nested too deep, is a failure.
#[inline]
pub fn measured(value: &Value, room: usize) -> Result<usize, Failure> {
    measured_at(value, 0, room)
}

/// As `measured`, of a value that will be nested `depth` deep.
#[inline]
fn measured_at(value: &Value, depth: usize, room: usize) -> Result<usize, Failure> {
    if is_flat(value) {
        return within(flat(value), room);
    }
    let mut left = room;
    walk::<false>(value, depth, &mut left).map_err(Excess::failure)?;
    Ok(room - left)
}

/// Bytes of a value that was measured when it was made.
pub fn weight(value: &Value) -> usize {
    measured(value, usize::MAX >> 1).unwrap_or(usize::MAX >> 1)
}

/// Whether a value is nested more than `levels` deep. Most are not nested at all, and cost no call.
#[inline]
pub fn is_deeper(value: &Value, levels: usize) -> bool {
    !is_flat(value) && has_deeper_part(value, levels)
}

fn has_deeper_part(value: &Value, levels: usize) -> bool {
    let part_is_deeper = |part: &Value| levels == 0 || is_deeper(part, levels - 1);
    match value {
        Value::List(items) => items.iter().any(part_is_deeper),
        Value::Map(map) => map.iter().any(|(_, part)| part_is_deeper(part)),
        Value::FullNode(node) => node.properties.iter().any(|(_, part)| part_is_deeper(part)),
        Value::FullEdge(edge) => edge.properties.iter().any(|(_, part)| part_is_deeper(part)),
        _ => false,
    }
}

/// The bytes of a value before it is made; a failure where they are more than `room`.
pub fn within(bytes: usize, room: usize) -> Result<usize, Failure> {
    if bytes > room { Err(Excess::Bytes.failure()) } else { Ok(bytes) }
}

/// Refuses a sum of texts or lists that is too large, before it is made.
pub(crate) fn check_sum(x: &Value, y: &Value, context: &dyn Context) -> Result<(), Failure> {
    let (bytes, steps) = match (x, y) {
        (Value::Text(a), Value::Text(b)) => (a.len() + b.len(), (a.len() + b.len()) / 256),
        (Value::List(a), Value::List(b)) => (copied(a) + copied(b), (a.len() + b.len()) / 8),
        (Value::List(a), one) | (one, Value::List(a)) => (copied(a) + copied(std::slice::from_ref(one)), a.len() / 8),
        _ => return Ok(()),
    };
    context.spend(steps)?;
    within(bytes, context.room()).map(drop)
}

/// What copies of values come to: only texts are there again, the rest is shared.
fn copied(values: &[Value]) -> usize {
    size_of_val(values) + values.iter().map(copied_text).sum::<usize>()
}

fn copied_text(value: &Value) -> usize {
    if let Value::Text(text) = value { text.len() } else { 0 }
}

/// How many have the same memory; none where there is nothing to share. What others have too is counted where they have it.
#[inline]
fn owners(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => Arc::strong_count(bytes),
        Value::List(items) => Arc::strong_count(items),
        Value::Map(map) => Arc::strong_count(map),
        Value::Path(path) => Arc::strong_count(path),
        Value::FullNode(node) => Arc::strong_count(node),
        Value::FullEdge(edge) => Arc::strong_count(edge),
        _ => 0,
    }
}

/// Bytes that are there for this value alone, where they are more than the value itself.
#[inline]
fn own(value: &Value) -> Result<usize, Failure> {
    match value {
        Value::Text(text) => Ok(text.len()),
        other if owners(other) == 1 => {
            let mut left = usize::MAX >> 1;
            walk::<true>(other, 0, &mut left).map_err(Excess::failure)?;
            Ok((usize::MAX >> 1) - left)
        }
        _ => Ok(0),
    }
}

/// Values that are there while more are made: the arguments of a call, the columns of a row, one side of an operator while the
/// other is looked at. They count as held from the moment they are added until this is dropped.
pub struct Holding<'c> {
    context: &'c dyn Context,
    /// Bytes that are not counted as held yet, as they are few.
    light: usize,
    held: usize,
}

impl<'c> Holding<'c> {
    #[inline]
    pub fn new(context: &'c dyn Context) -> Holding<'c> {
        Holding { context, light: 0, held: 0 }
    }

    /// Counts a copy that is made of a row as held.
    pub fn of_copy(row: &[Value], context: &'c dyn Context) -> Result<Holding<'c>, Failure> {
        let mut holding = Holding::new(context);
        holding.bytes(row.iter().map(copied_text).sum())?;
        Ok(holding)
    }

    #[inline]
    pub fn add(&mut self, value: &Value) -> Result<(), Failure> {
        self.bytes(own(value)?)
    }

    /// As `add`, of a value that has been measured.
    #[inline]
    pub(crate) fn add_measured(&mut self, value: &Value, bytes: usize) -> Result<(), Failure> {
        self.bytes(if owners(value) > 1 { size_of::<Value>() } else { bytes })
    }

    #[inline]
    fn bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.light = self.light.saturating_add(bytes);
        if self.light < LIGHT { Ok(()) } else { self.settle() }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let bytes = std::mem::take(&mut self.light);
        self.context.hold(bytes)?;
        self.held += bytes;
        Ok(())
    }

    /// Releases everything: it was let go.
    #[inline]
    pub fn clear(&mut self) {
        self.light = 0;
        if self.held > 0 {
            self.context.release(std::mem::take(&mut self.held));
        }
    }
}

impl Drop for Holding<'_> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

/// The parts of a list or a map that is being made: what is refused is refused before all of them are there.
pub(crate) struct Parts<'c> {
    holding: Holding<'c>,
    left: usize,
}

impl<'c> Parts<'c> {
    pub fn new(context: &'c dyn Context) -> Parts<'c> {
        Parts { holding: Holding::new(context), left: context.room() }
    }

    #[inline]
    pub fn add(&mut self, part: &Value) -> Result<(), Failure> {
        let bytes = measured_at(part, 1, self.left)?;
        self.left -= bytes;
        self.holding.add_measured(part, bytes)
    }

    #[inline]
    pub fn add_entry(&mut self, key: &Text, value: &Value) -> Result<(), Failure> {
        self.add_bytes(size_of::<Value>() + key.len())?;
        self.add(value)
    }

    /// What is no value of its own.
    #[inline]
    pub fn add_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.left -= within(bytes, self.left)?;
        self.holding.bytes(bytes)
    }
}

enum Excess {
    Bytes,
    Depth,
}

impl Excess {
    fn failure(self) -> Failure {
        match self {
            Excess::Bytes => {
                Failure::new(FailureKind::MemoryLimit, "The query makes a value that is larger than all it may hold")
            }
            Excess::Depth => Failure::new(FailureKind::Runtime, format!("A value is nested more than {DEPTH_MAX} levels deep")),
        }
    }
}

#[inline]
fn is_flat(value: &Value) -> bool {
    !matches!(value, Value::List(_) | Value::Map(_) | Value::FullNode(_) | Value::FullEdge(_))
}

fn flat(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Path(path) => size_of_val(&path.steps[..]),
            _ => 0,
        }
}

/// Takes the bytes of a value off what is left. `OWN`: without parts that others have as well.
fn walk<const OWN: bool>(value: &Value, depth: usize, left: &mut usize) -> Result<(), Excess> {
    if depth > DEPTH_MAX {
        return Err(Excess::Depth);
    }
    if OWN && owners(value) > 1 {
        return take(size_of::<Value>(), left);
    }
    take(flat(value), left)?;
    match value {
        Value::List(items) => items.iter().try_for_each(|item| walk::<OWN>(item, depth + 1, left)),
        Value::Map(map) => walk_map::<OWN>(map, depth, left),
        Value::FullNode(node) => walk_map::<OWN>(&node.properties, depth, left),
        Value::FullEdge(edge) => walk_map::<OWN>(&edge.properties, depth, left),
        _ => Ok(()),
    }
}

fn walk_map<const OWN: bool>(map: &Map, depth: usize, left: &mut usize) -> Result<(), Excess> {
    map.iter().try_for_each(|(key, value)| {
        take(size_of::<Value>() + key.len(), left)?;
        walk::<OWN>(value, depth + 1, left)
    })
}

fn take(bytes: usize, left: &mut usize) -> Result<(), Excess> {
    *left = left.checked_sub(bytes).ok_or(Excess::Bytes)?;
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::expression::{Binary, Expr, Function, GraphFree};
    use crate::forward_context;
    use crate::id::IdScheme;

    #[test]
    fn shared_parts_count_wherever_they_appear() {
        let mut value = Value::list(vec![Value::Integer(1)]);
        for _ in 0..20 {
            value = Value::list(vec![value.clone(), value]);
        }
        let bytes = weight(&value);
        assert!(bytes > 2_000_000 * size_of::<Value>(), "{bytes}");
        assert_eq!(measured(&value, 1 << 20).map_err(|failure| failure.kind), Err(FailureKind::MemoryLimit));
        for _ in 0..100 {
            value = Value::list(vec![value.clone(), value]);
        }
        // Sixty more doublings change nothing in how long it takes to find out.
        assert_eq!(measured(&value, 1 << 20).map_err(|failure| failure.kind), Err(FailureKind::MemoryLimit));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| (0..levels).fold(Value::Null, |value, _| Value::list(vec![value]));
        assert!(measured(&nested(DEPTH_MAX), ROOM).is_ok());
        let failure = measured(&nested(DEPTH_MAX + 1), ROOM).expect_err("too deep");
        assert!(failure.message.contains("400 levels"), "{failure}");
    }

    #[test]
    fn what_is_stored_leaves_room_for_what_it_is_stored_in() {
        for innermost in [Value::Null, Value::list(Vec::new())] {
            for (levels, fits) in [(0, true), (STORED_DEPTH_MAX, true), (STORED_DEPTH_MAX + 1, false), (2 * DEPTH_MAX, false)] {
                let nest = |value: Value, level: usize| match level % 2 {
                    0 => Value::list(vec![value]),
                    _ => Value::map([(Text::new("k"), value)]),
                };
                let value = (0..levels).fold(innermost.clone(), nest);
                assert_eq!(is_deeper(&value, STORED_DEPTH_MAX), !fits, "{levels}");
                assert_eq!(measured(&Value::map([(Text::new("p"), value)]), ROOM).is_ok(), fits, "{levels}");
            }
        }
    }

    /// Counts steps, and what is held: at most `most` bytes.
    pub(crate) struct Counting {
        most: usize,
        held: Cell<usize>,
        pub(crate) spent: Cell<usize>,
        base: GraphFree,
    }

    impl Counting {
        pub(crate) fn new(most: usize) -> Counting {
            Counting { most, held: Cell::new(0), spent: Cell::new(0), base: GraphFree::rows(IdScheme::Uuid, &[]) }
        }
    }

    impl Context for Counting {
        forward_context!(self, self.base);

        fn spend(&self, steps: usize) -> Result<(), Failure> {
            self.spent.set(self.spent.get() + steps);
            Ok(())
        }
        fn hold(&self, bytes: usize) -> Result<(), Failure> {
            self.held.set(self.held.get() + within(bytes, self.room())?);
            Ok(())
        }
        fn release(&self, bytes: usize) {
            self.held.set(self.held.get() - bytes);
        }
        fn room(&self) -> usize {
            self.most - self.held.get()
        }
        fn now_millis(&self) -> i64 {
            self.base.now_millis()
        }
    }

    pub(crate) const fn function(run: fn(&dyn Context, &[Value]) -> Result<Value, Failure>) -> Function {
        Function {
            name: "made",
            arguments_min: 0,
            arguments_max: usize::MAX,
            signature: "",
            description: "",
            example: "",
            null_in_null_out: false,
            pure: false,
            asks_graph: false,
            run,
        }
    }

    #[test]
    fn values_count_from_the_first_on_and_are_let_go() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        static NOTHING: Function = function(|_, _| Ok(Value::Null));
        static MAKE: Function = function(|_, _| {
            MADE.fetch_add(1, Ordering::Relaxed);
            Ok(Value::text(&"x".repeat(10_000)))
        });
        let make = || Expr::Call { function: &MAKE, arguments: Vec::new() };
        let many = |n: usize| std::iter::repeat_with(make).take(n).collect::<Vec<_>>();
        let call = |n: usize| Expr::Call { function: &NOTHING, arguments: many(n) };
        let map = |n: usize| Expr::Map((0..n).map(|i| (Text::from(i.to_string()), make())).collect());
        // Inside one another, so that the left side is there while the right one is made.
        let sides = |n: usize| {
            let equal = |right| Expr::Binary { operator: Binary::Equal, left: Box::new(make()), right: Box::new(right) };
            (1..n).fold(make(), |right, _| equal(right))
        };
        let made = |expr: &Expr| {
            let context = Counting::new(100_000);
            MADE.store(0, Ordering::Relaxed);
            let kind = expr.evaluate(&[], &context).map(drop).map_err(|failure| failure.kind);
            assert_eq!(context.held.get(), 0, "{expr:?}");
            (kind, MADE.load(Ordering::Relaxed))
        };
        for expr in [call(200), Expr::List(many(200)), map(200), sides(200)] {
            let (kind, count) = made(&expr);
            assert_eq!(kind, Err(FailureKind::MemoryLimit));
            assert!(count <= 11, "{count} were made");
        }
        for expr in [call(5), Expr::List(many(5)), map(5), sides(5)] {
            assert_eq!(made(&expr), (Ok(()), 5));
        }
    }

    #[test]
    fn lists_are_added_with_what_is_copied() {
        let context = Counting::new(100_000);
        let texts = Value::list(vec![Value::text(&"x".repeat(30_000)); 2]);
        assert!(check_sum(&texts, &Value::Integer(1), &context).is_ok());
        assert!(check_sum(&texts, &texts, &context).is_err());
        let nested = Value::list(vec![texts]);
        assert!(check_sum(&nested, &nested, &context).is_ok());
    }

    #[test]
    fn what_others_have_too_counts_there() {
        let context = Counting::new(100_000);
        let list = Value::list(vec![Value::Integer(1); 1_000]);
        let added = |value: &Value| {
            let mut holding = Holding::new(&context);
            holding.add(value).expect("there is room");
            context.held.get()
        };
        assert_eq!(added(&list), weight(&list));
        let other = list.clone();
        assert_eq!((added(&list), added(&other)), (0, 0));
        assert_eq!(added(&Value::list(vec![list.clone(), other.clone()])), 0);
        // Little is not held.
        assert_eq!(added(&Value::text(&"x".repeat(LIGHT - 1))), 0);
        assert_eq!(added(&Value::text(&"x".repeat(LIGHT))), LIGHT);
    }

    #[test]
    fn texts_count_their_bytes() {
        assert_eq!(weight(&Value::text("abc")), size_of::<Value>() + 3);
        assert_eq!(within(10, 10), Ok(10));
        assert!(within(11, 10).is_err());
    }
}
