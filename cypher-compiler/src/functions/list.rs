//! Functions of lists, and of strings where they share a name with those of lists.

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::extent;
use weir_model::value::Value;

use super::string::utf16_length;
use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("head", 1, 1, "head(list :: LIST OF ANY) :: ANY", head)
        .about("The first element of a list; null when there is none.", "RETURN head([1, 2, 3])"),
    strict("last", 1, 1, "last(list :: LIST OF ANY) :: ANY", last)
        .about("The last element of a list; null when there is none.", "RETURN last([1, 2, 3])"),
    strict("tail", 1, 1, "tail(list :: LIST OF ANY) :: LIST OF ANY", tail)
        .about("A list without its first element.", "RETURN tail([1, 2, 3])"),
    strict("size", 1, 1, "size(value :: ANY) :: INTEGER", size)
        .about("How many elements a list has, or UTF-16 code units a text.", "RETURN [size([1, 2]), size('abc')]"),
    strict("isEmpty", 1, 1, "isEmpty(value :: ANY) :: BOOLEAN", is_empty)
        .about("Whether there is nothing in a list, a map or a text.", "RETURN [isEmpty([]), isEmpty({a: 1}), isEmpty('')]"),
    strict("length", 1, 1, "length(value :: PATH) :: INTEGER", length).about(
        "How many relationships a path has; for lists and text as size.",
        "CREATE p = (:A)-[:KNOWS]->(:B) RETURN length(p)",
    ),
    strict("reverse", 1, 1, "reverse(value :: ANY) :: ANY", reverse)
        .about("A list or a text from its end to its beginning.", "RETURN [reverse([1, 2]), reverse('abc')]"),
    strict("range", 2, 3, RANGE, range).about(
        "The integers from start to end, both included, in steps of one or as given.",
        "RETURN [range(1, 3), range(10, 0, -5)]",
    ),
    strict("coll.max", 1, 15, "coll.max(value :: ANY, ...) :: ANY", |_, arguments| Ok(extreme(arguments, true)))
        .about("The greatest element of a list, or of the arguments.", "RETURN [coll.max([1, 3, 2]), coll.max('a', 'b')]"),
    strict("coll.min", 1, 15, "coll.min(value :: ANY, ...) :: ANY", |_, arguments| Ok(extreme(arguments, false)))
        .about("The smallest element of a list, or of the arguments.", "RETURN [coll.min([1, 3, 2]), coll.min('a', 'b')]"),
];

const RANGE: &str = "range(start :: INTEGER, end :: INTEGER, step :: INTEGER) :: LIST OF INTEGER";
/// A longer range would not fit memory beside anything else.
const RANGE_LENGTH_MAX: i128 = 20_000_000;

fn items<'a>(signature: &str, arguments: &'a [Value]) -> Result<&'a [Value], Failure> {
    match &arguments[0] {
        Value::List(items) => Ok(items),
        _ => Err(wrong_signature(signature, arguments)),
    }
}

fn head(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(items("head(list :: LIST OF ANY) :: ANY", arguments)?.first().cloned().unwrap_or_default())
}

fn last(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    Ok(items("last(list :: LIST OF ANY) :: ANY", arguments)?.last().cloned().unwrap_or_default())
}

fn tail(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let items = items("tail(list :: LIST OF ANY) :: LIST OF ANY", arguments)?;
    Ok(Value::List(items.get(1..).unwrap_or_default().into()))
}

fn is_empty(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::List(items) => Ok(Value::Boolean(items.is_empty())),
        Value::Map(map) => Ok(Value::Boolean(map.iter().next().is_none())),
        Value::Text(text) => Ok(Value::Boolean(text.is_empty())),
        _ => Err(wrong_signature("isEmpty(value :: ANY) :: BOOLEAN", arguments)),
    }
}

fn size(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    count(&arguments[0]).ok_or_else(|| wrong_signature("size(value :: ANY) :: INTEGER", arguments))
}

/// Of a path: the number of its relationships.
fn length(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Path(path) => Ok(Value::Integer(path.steps.len() as i64)),
        other => count(other).ok_or_else(|| wrong_signature("length(value :: PATH) :: INTEGER", arguments)),
    }
}

fn count(value: &Value) -> Option<Value> {
    match value {
        Value::List(items) => Some(Value::Integer(items.len() as i64)),
        Value::Text(text) => Some(Value::Integer(utf16_length(text) as i64)),
        _ => None,
    }
}

fn reverse(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::List(items) => Ok(Value::List(items.iter().rev().cloned().collect())),
        Value::Text(text) => Ok(Value::Text(text.chars().rev().collect())),
        _ => Err(wrong_signature("reverse(value :: ANY) :: ANY", arguments)),
    }
}

/// Both ends belong to it; empty when the step leads away from the end.
fn range(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (start, end, step) = match arguments {
        [Value::Integer(start), Value::Integer(end)] => (*start, *end, 1),
        [Value::Integer(start), Value::Integer(end), Value::Integer(step)] => (*start, *end, *step),
        _ => return Err(Failure { kind: FailureKind::InvalidArgument, ..wrong_signature(RANGE, arguments) }),
    };
    if step == 0 {
        return Err(Failure::new(FailureKind::OutOfRange, "step cannot be 0."));
    }
    let length = ((i128::from(end) - i128::from(start)) / i128::from(step) + 1).max(0);
    if (step > 0) != (start <= end) && start != end {
        return Ok(Value::list(Vec::new()));
    }
    if length > RANGE_LENGTH_MAX {
        let message = format!("range({start}, {end}, {step}) has {length} elements; at most {RANGE_LENGTH_MAX} are allowed");
        return Err(Failure::new(FailureKind::InvalidArgument, message));
    }
    extent::within(length as usize * size_of::<Value>(), context.room())?;
    // The sum fits also where the product alone does not.
    let element = |i: i64| Value::Integer(start.wrapping_add(i.wrapping_mul(step)));
    Ok(Value::List((0..length as i64).map(element).collect()))
}

/// One list means its elements. Nulls inside it take part: null is the largest.
fn extreme(arguments: &[Value], largest: bool) -> Value {
    let values = match arguments {
        [Value::List(items)] => items,
        several => several,
    };
    // Of values that tie, the first.
    let best = values.iter().reduce(|best, value| {
        let order = value.order(best);
        let better = if largest { order.is_gt() } else { order.is_lt() };
        if better { value } else { best }
    });
    best.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn integers(items: &[i64]) -> Value {
        Value::list(items.iter().map(|n| Value::Integer(*n)).collect())
    }

    fn check(name: &str, arguments: &[Value], expected: Value) {
        assert_eq!(call(name, arguments), Ok(expected), "{name}{arguments:?}");
    }

    #[test]
    fn ends_of_lists() {
        check("head", &[integers(&[1, 2])], Value::Integer(1));
        check("last", &[integers(&[1, 2])], Value::Integer(2));
        check("head", &[integers(&[])], Value::Null);
        check("tail", &[integers(&[1, 2])], integers(&[2]));
        check("tail", &[integers(&[])], integers(&[]));
        check("reverse", &[integers(&[1, 2])], integers(&[2, 1]));
        check("reverse", &[Value::text("ab")], Value::text("ba"));
        check("size", &[Value::text("a🌈")], Value::Integer(3));
        check("size", &[integers(&[1])], Value::Integer(1));
    }

    #[test]
    fn ranges_include_both_ends() {
        let range = |a: i64, b: i64, step: i64| call("range", &[Value::Integer(a), Value::Integer(b), Value::Integer(step)]);
        check("range", &[Value::Integer(1), Value::Integer(3)], integers(&[1, 2, 3]));
        assert_eq!(range(0, 10, 4), Ok(integers(&[0, 4, 8])));
        assert_eq!(range(3, 1, -1), Ok(integers(&[3, 2, 1])));
        assert_eq!(range(3, 1, 1), Ok(integers(&[])));
        assert_eq!(range(1, 3, -5), Ok(integers(&[])));
        assert_eq!(range(0, 2, -5), Ok(integers(&[])));
        assert_eq!(range(2, 2, -1), Ok(integers(&[2])));
        assert_eq!(range(i64::MIN, i64::MAX, i64::MAX), Ok(integers(&[i64::MIN, -1, i64::MAX - 1])));
        assert_eq!(range(i64::MAX - 1, i64::MAX, 1), Ok(integers(&[i64::MAX - 1, i64::MAX])));
        assert!(range(1, 2, 0).is_err());
        assert!(range(i64::MIN, i64::MAX, 1).is_err());
    }

    #[test]
    fn extremes_count_nulls_inside_a_list() {
        check("coll.max", &[integers(&[1, 3, 2])], Value::Integer(3));
        check("coll.max", &[Value::Integer(1), Value::Float(1.0)], Value::Integer(1));
        check("coll.min", &[Value::Integer(2), Value::text("a")], Value::text("a"));
        check("coll.max", &[Value::list(vec![Value::Integer(1), Value::Null])], Value::Null);
        check("coll.min", &[integers(&[])], Value::Null);
        check("coll.max", &[Value::Integer(1), Value::Null], Value::Null);
    }
}
