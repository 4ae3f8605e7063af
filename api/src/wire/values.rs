//! Bodies that hold values of queries: the parameters of one, the properties of a node.
//!
//! In JSON they are read as records are, from the text itself: a tree of it has floats in place of `9007199254740993.0`, and
//! neither `1e400` nor half a surrogate pair. YAML is a tree before anybody sees it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map as JsonMap, Value as Json};
use weir_model::json::parse;
use weir_model::{Text, Value};

use super::decode::{Finite, json, unmarked, yaml};

/// What floats begin at that are beyond 64 bits.
const TOO_LARGE: f64 = -(i64::MIN as f64);

/// A body that is a value as a whole.
pub fn value(body: &[u8], is_yaml: bool) -> Result<Value, Vec<String>> {
    match parse(&unmarked(body)) {
        Ok(value) => Ok(value),
        // What is wrong is told as of any other body, and YAML is more than JSON.
        Err(_) => tree(body, is_yaml).map(|tree| to_value(&tree)),
    }
}

/// A body of which one field is an object of values: the body, in which an object stays an object there, and these. They are
/// null where the field is not an object.
pub fn body_with(body: &[u8], is_yaml: bool, field: &str) -> Result<(Json, Value), Vec<String>> {
    if let Some(read) = apart(&unmarked(body), field) {
        return read;
    }
    let tree = tree(body, is_yaml)?;
    let values = tree.get(field).filter(|values| values.is_object()).map_or(Value::Null, to_value);
    Ok((tree, values))
}

/// None where it is no object of JSON, or one that cannot be read.
fn apart(body: &[u8], field: &str) -> Option<Result<(Json, Value), Vec<String>>> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let (mut tree, mut values) = (JsonMap::new(), Value::Null);
    for (name, raw) in fields {
        let read = if name == field && raw.get().starts_with('{') {
            values = match parse(raw.get().as_bytes()) {
                Ok(values) => values,
                Err(error) => return Some(Err(vec![format!("DecodingFailure at .{field}: {error} of it")])),
            };
            Json::Object(JsonMap::new())
        } else {
            serde_json::from_str(raw.get()).map(|Finite(read)| read).ok()?
        };
        tree.insert(name, read);
    }
    Some(Ok((Json::Object(tree), values)))
}

fn tree(body: &[u8], is_yaml: bool) -> Result<Json, Vec<String>> {
    if is_yaml { yaml(body) } else { json(body) }
}

/// Whole numbers of 64 bits are integers however they are written, others floats.
fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(n), _) => Value::Integer(n),
            (None, Some(x)) if x.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&x) => Value::Integer(x as i64),
            (None, x) => Value::Float(x.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::text(text),
        Json::Array(items) => Value::list(items.iter().map(to_value).collect()),
        Json::Object(map) => Value::map(map.iter().map(|(key, value)| (Text::new(key), to_value(value)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as j;

    /// The values of `p`, shown with their types.
    fn read(text: &str, is_yaml: bool) -> String {
        match body_with(text.as_bytes(), is_yaml, "p") {
            Ok((_, Value::Map(map))) => format!("{:?}", map.get("x").expect("x")),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn numbers_and_texts_in_json_are_read_as_in_records() {
        for (text, expected) in [
            ("1.0", "Integer(1)"),
            ("2.5", "Float(2.5)"),
            ("-0.0", "Integer(0)"),
            ("9007199254740993.0", "Integer(9007199254740993)"),
            ("9223372036854775807.0", "Integer(9223372036854775807)"),
            ("9223372036854775808", "Float(9.223372036854776e18)"),
            ("1e-400", "Float(0.0)"),
            ("1e400", "Float(inf)"),
            ("-1e400", "Float(-inf)"),
            ("\"a\\ud800b\"", "Text(\"a?b\")"),
            ("[1e0]", "List([Integer(1)])"),
        ] {
            // JSON is YAML as well.
            for is_yaml in [false, true] {
                assert_eq!(read(&format!("\u{feff}{{\"text\": \"a\", \"p\" : {{\"x\": {text}}}}}"), is_yaml), expected, "{text}");
                let whole = value(text.as_bytes(), is_yaml).map(|value| format!("{value:?}"));
                assert_eq!(whole.as_deref(), Ok(expected), "{text}");
            }
        }
        assert_eq!(read("p:\n  x: 1.0\n", true), "Integer(1)");
        assert_eq!(read("p: {x: 9223372036854774784.0}", true), "Integer(9223372036854774784)");
        assert_eq!(read("p: {x: 9223372036854775808.0}", true), "Float(9.223372036854776e18)");
        assert_eq!(value(b"[a]", true), Ok(Value::list(vec![Value::text("a")])));
    }

    #[test]
    fn the_rest_of_a_body_is_as_it_was() {
        let body = |text: &str| body_with(text.as_bytes(), false, "p").map(|(body, values)| (body, values.is_null()));
        assert_eq!(body(r#"{"p": {"x": 1e400}, "a": [1], "p": {}}"#), Ok((j!({"a": [1], "p": {}}), false)));
        assert_eq!(body(r#"{"p": [1.0]}"#), Ok((j!({"p": [1.0]}), true)));
        assert_eq!(body(r#"{"a": null}"#), Ok((j!({"a": null}), true)));
        assert_eq!(body("[1]"), Ok((j!([1]), true)));
        for (text, reason) in [
            ("{\"p\": {}", "ParsingFailure: exhausted input"),
            ("{\"p\": {}} x", "ParsingFailure: expected whitespace or eof got 'x' (line 1, column 11)"),
            ("{\"p\": {},\n\"a\": 1e400}", "ParsingFailure: number out of range at line 2 column "),
            ("{\"p\": [1e400]}", "ParsingFailure: number out of range at line 1 column "),
        ] {
            let said = body(text).expect_err(text).join("\n");
            assert!(said.starts_with(reason), "{text}: {said}");
        }
        assert!(body_with(b"{\"p\": {\"x\": \"\xff\"}}", false, "p").is_err());
        let deep = format!("{{\"p\": {{\"x\": {}{}}}}}", "[".repeat(100_000), "]".repeat(100_000));
        let said = body(&deep).expect_err("too deep").join("\n");
        assert_eq!(said, "DecodingFailure at .p: nested deeper than 256 levels at byte 261 of it");
        assert!(value("[".repeat(100_000).as_bytes(), false).is_err());
    }
}
