//! Bodies that hold values of queries: the parameters of one, the properties of a node.
//!
//! They are read as records are, from the text itself: a tree of it has floats in place of `9007199254740993.0`, and neither
//! `1e400` nor half a surrogate pair.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map as JsonMap, Value as Json};
use weir_model::Value;
use weir_model::json::parse;

use super::decode::{Reads, json, unmarked, yaml};
use super::yaml_values;

/// The most values of one body. Each takes a hundred bytes or two while it is read, beside what is in texts.
const VALUES_MAX: usize = 4 << 20;

/// A body that is a value as a whole.
pub fn value(body: &[u8], is_yaml: bool) -> Result<Value, Vec<String>> {
    let text = &*unmarked(body);
    few_enough(text)?;
    match parse(text) {
        Ok(value) => Ok(value),
        // YAML is more than JSON.
        Err(_) if is_yaml => {
            yaml(body)?;
            in_yaml(body)
        }
        // What is wrong is told as of any other body.
        Err(error) => Err(json(body).err().unwrap_or_else(|| vec![format!("ParsingFailure: {error}")])),
    }
}

/// A body of which one field is an object of values: the body, in which an object stays an object there, and these. They are
/// null where the field is not an object.
pub fn body_with(body: &[u8], is_yaml: bool, field: &str) -> Result<(Json, Value), Vec<String>> {
    let text = &*unmarked(body);
    few_enough(text)?;
    if let Some(read) = apart(text, field) {
        return read;
    }
    let tree = if is_yaml { yaml(body)? } else { json(body)? };
    if !tree.get(field).is_some_and(Json::is_object) {
        return Ok((tree, Value::Null));
    }
    let whole = in_yaml(body)?;
    let values = if let Value::Map(fields) = &whole { fields.get(field).cloned() } else { None };
    Ok((tree, values.unwrap_or(Value::Null)))
}

/// Values of a text that `yaml` has taken.
fn in_yaml(body: &[u8]) -> Result<Value, Vec<String>> {
    yaml_values::read(&unmarked(body)).map_err(|error| vec![format!("ParsingFailure: {error}")])
}

fn few_enough(text: &[u8]) -> Result<(), Vec<String>> {
    if has_too_many(text) {
        return Err(vec![format!("ParsingFailure: a body of more than {VALUES_MAX} values is not read; send it in parts")]);
    }
    Ok(())
}

/// Whether JSON holds more than `VALUES_MAX` values. Known before any of them is made, and without a look at most bodies: each
/// takes two bytes, with what divides it from the next.
fn has_too_many(text: &[u8]) -> bool {
    if text.len() / 2 <= VALUES_MAX {
        return false;
    }
    let (mut count, mut in_text, mut is_escaped) = (1_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b',' | b'[' | b'{' if !in_text => count += 1,
            _ => {}
        }
    }
    count > VALUES_MAX
}

/// None where it is no object of JSON, or one that cannot be read.
fn apart(body: &[u8], field: &str) -> Option<Result<(Json, Value), Vec<String>>> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let (mut tree, mut values, mut reads) = (JsonMap::new(), Value::Null, Reads::new());
    for (name, raw) in fields {
        let read = if name == field && raw.get().starts_with('{') {
            values = match parse(raw.get().as_bytes()) {
                Ok(values) => values,
                Err(error) => return Some(Err(vec![format!("DecodingFailure at .{field}: {error} of it")])),
            };
            Json::Object(JsonMap::new())
        } else {
            reads.json(raw.get().as_bytes()).ok()?
        };
        tree.insert(name, read);
    }
    Some(Ok((Json::Object(tree), values)))
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
        assert_eq!(read("p:\n  x: 9007199254740993.0\n", true), "Integer(9007199254740993)");
        assert_eq!(read("p:\n  x: 99999999999999999999\n", true), "Float(1e20)");
        assert_eq!(read("p:\n  x: [1e400, '1e400']\n", true), "List([Float(inf), Text(\"1e400\")])");
        assert_eq!(read("other: &o {x: 9007199254740993.0}\np: {<<: *o}\n", true), "Integer(9007199254740993)");
        assert_eq!(read("other: {p: &o {x: -1e400}}\n<<: {p: *o}\n", true), "Float(-inf)");
        assert_eq!(value(b"- -1e400", true), Ok(Value::list(vec![Value::Float(f64::NEG_INFINITY)])));
        let wrong = value(b"- .inf", true).expect_err("no number of JSON").join("\n");
        assert!(wrong.starts_with("ParsingFailure: .[0]: .inf is no number that JSON has; "), "{wrong}");
        assert_eq!(read("p: {x: 9223372036854774784.0}", true), "Integer(9223372036854774784)");
        assert_eq!(read("p: {x: 9223372036854775808.0}", true), "Float(9.223372036854776e18)");
        assert_eq!(value(b"[a]", true), Ok(Value::list(vec![Value::text("a")])));
    }

    #[test]
    fn values_are_counted_and_what_is_in_texts_is_not() {
        let body = |x: &str| body_with(format!("{{\"p\": {{\"x\": {x}}}}}").as_bytes(), false, "p");
        for (item, count) in [("0", VALUES_MAX), ("[ ]", VALUES_MAX / 2), ("{\"\\\"\": {}}", VALUES_MAX / 3)] {
            let said = body(&format!("[{}0]", format!("{item},").repeat(count))).expect_err(item).join("\n");
            assert_eq!(said, "ParsingFailure: a body of more than 4194304 values is not read; send it in parts", "{item}");
            let whole = value(format!("[{}0]", format!("{item},").repeat(count)).as_bytes(), false);
            assert_eq!(whole.map(|_| ()), Err(vec![said]), "{item}");
        }
        let text = ",[\\\"{\\\\".repeat(VALUES_MAX);
        let (_, values) = body(&format!("\"{text}\"")).expect("one value");
        let Value::Map(values) = values else { panic!("no map") };
        assert!(values.get("x") == Some(&Value::text(&",[\"{\\".repeat(VALUES_MAX))));
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
