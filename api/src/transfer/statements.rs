//! Cypher text: a graph as statements that make it, one a line, each ended by `;`. To be read by people, and by everything that
//! runs Cypher; `weir import` runs it line by line.

use std::fmt::Write;

use weir_cypher_compiler::quoted_name;
use weir_engine::transfer::Item;
use weir_model::text_form::write_temporal;
use weir_model::{IdScheme, Map, NodeId, Value};

/// Of a graph in which an id names a node, whether it was written or not.
pub fn write_item(item: &Item, ids: IdScheme, out: &mut Vec<u8>) {
    let mut text = String::new();
    match item {
        Item::Node(node) => {
            let _ = write!(text, "MATCH (n) WHERE id(n) = {} SET ", literal_id(node.id, ids));
            let labels: String = node.labels.iter().map(|label| format!(":{}", name(label))).collect();
            let labels = (!labels.is_empty()).then(|| format!("n{labels}"));
            let properties = node.properties.iter().map(|(key, value)| format!("n.{} = {}", name(key), literal(value, ids)));
            text.push_str(&labels.into_iter().chain(properties).collect::<Vec<_>>().join(", "));
        }
        Item::Edge(edge) => {
            let (source, target) = (literal_id(edge.source, ids), literal_id(edge.target, ids));
            let _ = write!(text, "MATCH (a), (b) WHERE id(a) = {source} AND id(b) = {target} CREATE (a)-[:{}", name(&edge.kind));
            if !edge.properties.is_empty() {
                let _ = write!(text, " {}", literal_map(&edge.properties, ids));
            }
            text.push_str("]->(b)");
        }
    }
    text.push_str(";\n");
    out.extend_from_slice(text.as_bytes());
}

fn literal_id(id: NodeId, ids: IdScheme) -> String {
    match ids {
        IdScheme::Long { .. } => ids.text(id),
        _ => format!("quineId('{}')", ids.text(id)),
    }
}

/// In back-ticks where it is no plain word, and on one line.
fn name(name: &str) -> String {
    let plain =
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain {
        return name.to_owned();
    }
    quoted_name(name)
}

fn leaves_the_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

fn escape(c: char, out: &mut String) {
    let _ = write!(out, "\\u{:04x}", c as u32);
}

fn literal(value: &Value, ids: IdScheme) -> String {
    match value {
        Value::Float(x) if x.is_nan() => "(0.0 / 0.0)".to_owned(),
        Value::Float(x) if x.is_infinite() => if *x > 0.0 { "(1.0 / 0.0)" } else { "(-1.0 / 0.0)" }.to_owned(),
        Value::Text(text) => literal_text(text),
        Value::Bytes(bytes) => {
            format!("bytes('{}')", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Value::Id(id) => literal_id(*id, ids),
        Value::List(items) => format!("[{}]", items.iter().map(|item| literal(item, ids)).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => literal_map(map, ids),
        Value::Date(_) => temporal("date", value),
        Value::LocalTime(_) => temporal("localtime", value),
        Value::Time(_) => temporal("time", value),
        Value::LocalDateTime(_) => temporal("localdatetime", value),
        Value::DateTime(_) => temporal("datetime", value),
        Value::Duration(_) => temporal("duration", value),
        // The one integer whose size is not a number of its own.
        Value::Integer(i64::MIN) => "(-9223372036854775807 - 1)".to_owned(),
        plain => plain.to_text(),
    }
}

fn literal_map(map: &Map, ids: IdScheme) -> String {
    let entries = map.iter().map(|(key, value)| format!("{}: {}", name(key), literal(value, ids)));
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}

fn temporal(function: &str, value: &Value) -> String {
    let mut text = String::new();
    write_temporal(value, &mut text);
    format!("{function}('{text}')")
}

/// The literal of a text, on one line.
fn literal_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if leaves_the_line(c) => escape(c, &mut out),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_on_one_line() {
        for (given, expected) in [
            ("plain_1", "plain_1"),
            ("a b", "`a b`"),
            ("tick`", "`tick```"),
            ("a\nb\r\u{2028}", r"`a\u000ab\u000d\u2028`"),
            (r"\d\u000a\", r"`\d\u005cu000a\`"),
        ] {
            assert_eq!(name(given), expected);
        }
    }
}
