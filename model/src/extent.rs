//! Extent: how large a value is when it is written out, parts that are shared counted wherever they appear.
//!
//! A few steps of a query can make a value whose every copy of a part is the same memory, and which nobody could write, hash
//! or compare: `[x, x]`, fifty times over. So whatever makes values out of values measures them here. Nesting is bounded
//! too, since values are walked, and dropped, recursively.

use std::mem::size_of;

use crate::expression::{Context, Failure, FailureKind};
use crate::value::{Map, Value};

/// Deeper nesting is refused. More than JSON may bring, less than the log can read back.
pub const DEPTH_MAX: usize = 400;

/// The largest value where nobody says how large one may be.
pub const ROOM: usize = 256 << 20;

/// Bytes of a value, as far as `room` reaches: what is larger, or nested too deep, is a failure.
#[inline]
pub fn measured(value: &Value, room: usize) -> Result<usize, Failure> {
    if is_flat(value) {
        return within(flat(value), room);
    }
    let mut left = room;
    walk(value, 0, &mut left).map_err(Excess::failure)?;
    Ok(room - left)
}

/// Bytes of a value that was measured when it was made.
pub fn weight(value: &Value) -> usize {
    measured(value, usize::MAX >> 1).unwrap_or(usize::MAX >> 1)
}

/// What a value of so many bytes comes to, before it is made.
pub fn within(bytes: usize, room: usize) -> Result<usize, Failure> {
    if bytes > room { Err(Excess::Bytes.failure()) } else { Ok(bytes) }
}

/// Refuses a sum of texts or lists that is too large, before it is made.
pub(crate) fn check_sum(x: &Value, y: &Value, context: &dyn Context) -> Result<(), Failure> {
    let (bytes, steps) = match (x, y) {
        (Value::Text(a), Value::Text(b)) => (a.len() + b.len(), (a.len() + b.len()) / 256),
        (Value::List(a), Value::List(b)) => ((a.len() + b.len()) * size_of::<Value>(), (a.len() + b.len()) / 8),
        (Value::List(a), _) | (_, Value::List(a)) => ((a.len() + 1) * size_of::<Value>(), a.len() / 8),
        _ => return Ok(()),
    };
    context.spend(steps)?;
    within(bytes, context.room()).map(drop)
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

fn walk(value: &Value, depth: usize, left: &mut usize) -> Result<(), Excess> {
    if depth > DEPTH_MAX {
        return Err(Excess::Depth);
    }
    take(flat(value), left)?;
    match value {
        Value::List(items) => items.iter().try_for_each(|item| walk(item, depth + 1, left)),
        Value::Map(map) => walk_map(map, depth, left),
        Value::FullNode(node) => walk_map(&node.properties, depth, left),
        Value::FullEdge(edge) => walk_map(&edge.properties, depth, left),
        _ => Ok(()),
    }
}

fn walk_map(map: &Map, depth: usize, left: &mut usize) -> Result<(), Excess> {
    map.iter().try_for_each(|(key, value)| {
        take(size_of::<Value>() + key.len(), left)?;
        walk(value, depth + 1, left)
    })
}

fn take(bytes: usize, left: &mut usize) -> Result<(), Excess> {
    *left = left.checked_sub(bytes).ok_or(Excess::Bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn texts_count_their_bytes() {
        assert_eq!(weight(&Value::text("abc")), size_of::<Value>() + 3);
        assert_eq!(within(10, 10), Ok(10));
        assert!(within(11, 10).is_err());
    }
}
