//! A value of an answer as people read it: in the words of Cypher, on one line.

use serde_json::{Map, Value as Json};
use weir_model::visible::visible;

/// Strings stand in quotes, so that `"1"` and `1`, `"null"` and `null` are told apart. Nodes and relationships look as they do
/// in patterns.
pub fn cell(value: &Json) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number.to_string()),
        Json::String(text) => quoted(text, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(fields) => match (node(fields), relationship(fields)) {
            (Some((labels, properties)), _) => {
                out.push('(');
                for label in labels.iter().filter_map(Json::as_str) {
                    out.push(':');
                    name(label, out);
                }
                if !properties.is_empty() {
                    if !labels.is_empty() {
                        out.push(' ');
                    }
                    map(properties, out);
                }
                out.push(')');
            }
            (_, Some((kind, properties))) => {
                out.push_str("[:");
                name(kind, out);
                if !properties.is_empty() {
                    out.push(' ');
                    map(properties, out);
                }
                out.push(']');
            }
            _ => map(fields, out),
        },
    }
}

/// An object that the service writes for a node.
fn node(fields: &Map<String, Json>) -> Option<(&Vec<Json>, &Map<String, Json>)> {
    let is_node = fields.len() == 3 && fields.contains_key("id");
    is_node.then(|| Some((fields.get("labels")?.as_array()?, fields.get("properties")?.as_object()?)))?
}

fn relationship(fields: &Map<String, Json>) -> Option<(&str, &Map<String, Json>)> {
    let is_edge = fields.len() == 4 && fields.contains_key("start") && fields.contains_key("end");
    is_edge.then(|| Some((fields.get("name")?.as_str()?, fields.get("properties")?.as_object()?)))?
}

fn map(fields: &Map<String, Json>, out: &mut String) {
    out.push('{');
    for (index, (key, value)) in fields.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        name(key, out);
        out.push_str(": ");
        write(value, out);
    }
    out.push('}');
}

/// In back-ticks where it could not be written without.
fn name(name: &str, out: &mut String) {
    let plain =
        name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain {
        out.push_str(name);
        return;
    }
    out.push('`');
    out.push_str(&visible(&name.replace('`', "``")));
    out.push('`');
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    out.push_str(&visible(&text.replace('\\', "\\\\").replace('"', "\\\"")));
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_shown_in_the_words_of_cypher() {
        for (value, expected) in [
            (json!(null), "null"),
            (json!("null"), "\"null\""),
            (json!([1, 1.0, true, [], {}]), "[1, 1.0, true, [], {}]"),
            (json!({"a b": 1, "größe": "x\n\"y\"\\"}), "{`a b`: 1, größe: \"x\\n\\\"y\\\"\\\\\"}"),
            (json!({"id": "0", "labels": ["P", "a-b"], "properties": {"n": null}}), "(:P:`a-b` {n: null})"),
            (json!({"id": "0", "labels": [], "properties": {}}), "()"),
            (json!({"start": "0", "end": "1", "name": "KNOWS", "properties": {}}), "[:KNOWS]"),
            (json!({"id": "0", "labels": "P", "properties": {}}), "{id: \"0\", labels: \"P\", properties: {}}"),
            (json!("\u{1b}[2J\u{202e}"), "\"\\u001b[2J\\u202e\""),
        ] {
            assert_eq!(cell(&value), expected);
        }
    }
}
