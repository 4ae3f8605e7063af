//! Functions of maps.

use weir_model::arithmetic::mismatch;
use weir_model::expression::{Context, Failure, Function};
use weir_model::order::compare_text;
use weir_model::value::{Map, MapBuilder, Value};

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("map.fromPairs", 1, 1, FROM_PAIRS, from_pairs)
        .about("A map of pairs of key and value; later pairs win.", "RETURN map.fromPairs([['a', 1], ['b', 2]])"),
    strict("map.sortedProperties", 1, 1, SORTED, sorted_properties)
        .about("The entries of a map as pairs, by key.", "RETURN map.sortedProperties({b: 2, a: 1})"),
    strict("map.merge", 2, 2, "map.merge(first :: MAP, second :: MAP) :: MAP", merge)
        .about("The entries of both maps; the second wins.", "RETURN map.merge({a: 1, b: 1}, {b: 2})"),
    strict("map.removeKey", 2, 2, "map.removeKey(map :: MAP, key :: STRING) :: MAP", remove_key)
        .about("A map without one of its keys.", "RETURN map.removeKey({a: 1, b: 2}, 'a')"),
    strict("map.dropNullValues", 1, 1, "map.dropNullValues(map :: MAP) :: MAP", drop_null_values)
        .about("A map without the entries that are null.", "RETURN map.dropNullValues({a: 1, b: null})"),
];

const FROM_PAIRS: &str = "map.fromPairs(entries :: LIST OF ANY) :: MAP";
const SORTED: &str = "map.sortedProperties(map :: MAP) :: LIST OF ANY";

fn from_pairs(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::List(pairs) = &arguments[0] else { return Err(wrong_signature(FROM_PAIRS, arguments)) };
    let mut map = MapBuilder::with_capacity(pairs.len());
    for pair in pairs.iter() {
        match pair {
            Value::List(pair) if let [Value::Text(key), value] = &pair[..] => map.insert(key.clone(), value.clone()),
            other => return Err(mismatch("List of a Str and a value", other, "key value pair")),
        }
    }
    Ok(Value::Map(map.finish().into()))
}

/// By key, as strings order.
fn sorted_properties(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Map(map) = &arguments[0] else { return Err(wrong_signature(SORTED, arguments)) };
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by(|x, y| compare_text(&x.0, &y.0));
    Ok(Value::List(entries.into_iter().map(|(k, v)| Value::list(vec![Value::Text(k.clone()), v.clone()])).collect()))
}

/// The second map wins.
fn merge(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Map(first), Value::Map(second)] = arguments else {
        return Err(wrong_signature("map.merge(first :: MAP, second :: MAP) :: MAP", arguments));
    };
    Ok(Value::map(first.iter().chain(second.iter()).cloned()))
}

fn remove_key(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Map(map), Value::Text(key)] = arguments else {
        return Err(wrong_signature("map.removeKey(map :: MAP, key :: STRING) :: MAP", arguments));
    };
    let mut map = Map::clone(map);
    map.remove(key);
    Ok(Value::Map(map.into()))
}

/// At the top level only.
fn drop_null_values(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Map(map) = &arguments[0] else {
        return Err(wrong_signature("map.dropNullValues(map :: MAP) :: MAP", arguments));
    };
    Ok(Value::map(map.iter().filter(|(_, value)| !value.is_null()).cloned()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;
    use weir_model::expression::FailureKind;

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::map(entries.iter().map(|(key, value)| ((*key).into(), value.clone())))
    }

    #[test]
    fn maps_are_made_merged_and_reduced() {
        let n = Value::Integer;
        let pair = |key: &str, value: Value| Value::list(vec![Value::text(key), value]);
        let pairs = Value::list(vec![pair("b", n(1)), pair("a", n(2)), pair("b", n(3))]);
        let made = map(&[("b", n(3)), ("a", n(2))]);
        assert_eq!(call("map.fromPairs", &[pairs]), Ok(made.clone()));
        let sorted = Value::list(vec![pair("a", n(2)), pair("b", n(3))]);
        assert_eq!(call("map.sortedProperties", std::slice::from_ref(&made)), Ok(sorted));
        let other = map(&[("a", Value::Null), ("c", n(4))]);
        let merged = map(&[("a", Value::Null), ("b", n(3)), ("c", n(4))]);
        assert_eq!(call("map.merge", &[made, other]), Ok(merged.clone()));
        let without = map(&[("b", n(3)), ("c", n(4))]);
        assert_eq!(call("map.dropNullValues", std::slice::from_ref(&merged)), Ok(without.clone()));
        assert_eq!(call("map.removeKey", &[merged, Value::text("a")]), Ok(without));
        let bad = Value::list(vec![Value::Integer(1)]);
        assert_eq!(call("map.fromPairs", &[bad]).map_err(|f| f.kind), Err(FailureKind::TypeMismatch));
    }
}
