//! Values as text: what `toString` returns, what `+` joins to a string, and what error messages show.
//!
//! Floats print as the shortest decimal that reads back, written as Java writes it (`1.0`, `1.0E10`), because that is
//! what clients of the dialect compare with.

use std::fmt::Write;

use crate::id::NodeId;
use crate::value::{Map, Value};

impl Value {
    /// What `toString` returns: text unquoted, temporal values bare, the rest as in `shown`.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        match self {
            Value::Text(text) => out.push_str(text),
            Value::Date(_) | Value::LocalTime(_) | Value::Time(_) => write_temporal(self, &mut out),
            Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_) => write_temporal(self, &mut out),
            other => show(other, &mut out),
        }
        out
    }

    /// The form of messages: text quoted, temporal values in the form of their constructors.
    pub fn shown(&self) -> String {
        let mut out = String::new();
        show(self, &mut out);
        out
    }

    /// As messages name types.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "Null",
            Value::Boolean(_) => "Bool",
            Value::Integer(_) => "Integer",
            Value::Float(_) => "Floating",
            Value::Text(_) => "Str",
            Value::Bytes(_) | Value::Id(_) => "Bytes",
            Value::List(_) => "List(Anything)",
            Value::Map(_) => "Map",
            Value::Date(_) => "Date",
            Value::LocalTime(_) => "LocalTime",
            Value::Time(_) => "Time",
            Value::LocalDateTime(_) => "LocalDateTime",
            Value::DateTime(_) => "DateTime",
            Value::Duration(_) => "Duration",
            Value::Node(_) | Value::FullNode(_) => "Node",
            Value::Edge(_) | Value::FullEdge(_) => "Relationship",
            Value::Path(_) => "Path",
        }
    }
}

/// `1.0`, `0.001`, `1.0E-4`, `1.0E7`, `NaN`, `Infinity`.
pub fn write_float(x: f64, out: &mut String) {
    if x.is_nan() {
        return out.push_str("NaN");
    }
    if x.is_infinite() {
        return out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if x == 0.0 {
        return out.push_str(if x.is_sign_negative() { "-0.0" } else { "0.0" });
    }
    // Rust's own form never uses an exponent; in this range both agree but for the fraction of whole numbers.
    if (1e-3..1e7).contains(&x.abs()) {
        let start = out.len();
        push(out, format_args!("{x}"));
        if !out[start..].contains('.') {
            out.push_str(".0");
        }
        return;
    }
    let shortest = format!("{x:e}");
    // A mantissa has at least two digits; of those with two, the nearest is shown (4.9E-324, not 5.0E-324).
    let scientific = if shortest.contains('.') { shortest } else { format!("{x:.1e}") };
    out.push_str(&scientific.replace('e', "E"));
}

/// The bare ISO text of a temporal value; nothing for others.
pub fn write_temporal(value: &Value, out: &mut String) {
    match value {
        Value::Date(x) => push(out, format_args!("{x}")),
        Value::LocalTime(x) => push(out, format_args!("{x}")),
        Value::Time(x) => push(out, format_args!("{x}")),
        Value::LocalDateTime(x) => push(out, format_args!("{x}")),
        Value::DateTime(x) => push(out, format_args!("{x}")),
        Value::Duration(x) => push(out, format_args!("{x}")),
        _ => {}
    }
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("writing to a String cannot fail");
}

fn show(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Boolean(x) => out.push_str(if *x { "true" } else { "false" }),
        Value::Integer(x) => push(out, format_args!("{x}")),
        Value::Float(x) => write_float(*x, out),
        Value::Text(text) => quote(text, out),
        Value::Bytes(bytes) => {
            out.push_str("bytes(\"");
            bytes.iter().for_each(|byte| push(out, format_args!("{byte:02X}")));
            out.push_str("\")");
        }
        Value::Id(id) => show_id(*id, out),
        Value::List(items) => {
            out.push_str("[ ");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                show(item, out);
            }
            out.push_str(" ]");
        }
        Value::Map(map) => show_map(map, out),
        Value::Date(_) => show_temporal("date", value, out),
        Value::LocalTime(_) => show_temporal("localtime", value, out),
        Value::Time(_) => show_temporal("time", value, out),
        Value::LocalDateTime(_) => show_temporal("localdatetime", value, out),
        Value::DateTime(_) => show_temporal("datetime", value, out),
        Value::Duration(_) => show_temporal("duration", value, out),
        Value::Node(id) => {
            out.push('(');
            show_id(*id, out);
            out.push(')');
        }
        Value::FullNode(node) => {
            out.push('(');
            show_id(node.id, out);
            node.labels.iter().for_each(|label| push(out, format_args!(":{label}")));
            if !node.properties.is_empty() {
                out.push(' ');
                show_map(&node.properties, out);
            }
            out.push(')');
        }
        Value::Edge(edge) => show_edge(edge, out),
        Value::FullEdge(edge) => show_edge(&edge.key, out),
        Value::Path(path) => {
            out.push_str("[ (");
            show_id(path.start, out);
            out.push(')');
            for (edge, node) in &path.steps {
                out.push_str(", ");
                show_edge(edge, out);
                out.push_str(", (");
                show_id(*node, out);
                out.push(')');
            }
            out.push_str(" ]");
        }
    }
}

fn show_map(map: &Map, out: &mut String) {
    out.push_str("{ ");
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        push(out, format_args!("{key}: "));
        show(value, out);
    }
    out.push_str(" }");
}

fn show_edge(edge: &crate::id::EdgeKey, out: &mut String) {
    out.push('(');
    show_id(edge.source, out);
    push(out, format_args!(")-[:{}]->(", edge.kind));
    show_id(edge.target, out);
    out.push(')');
}

fn show_id(id: NodeId, out: &mut String) {
    push(out, format_args!("#{:016X}{:016X}", id.high, id.low));
}

fn show_temporal(name: &str, value: &Value, out: &mut String) {
    push(out, format_args!("{name}(\""));
    write_temporal(value, out);
    out.push_str("\")");
}

/// In double quotes, with the escapes of JSON and everything beyond ASCII as `\uXXXX`.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    push(out, format_args!("\\u{unit:04X}"));
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Text;

    #[test]
    fn floats_print_as_java_prints_them() {
        let check = |x: f64, expected: &str| assert_eq!(Value::Float(x).to_text(), expected);
        check(1.0, "1.0");
        check(-0.0, "-0.0");
        check(100.0, "100.0");
        check(0.1, "0.1");
        check(0.001, "0.001");
        check(9e-4, "9.0E-4");
        check(1e7, "1.0E7");
        check(9_999_999.0, "9999999.0");
        check(12_345_678.9, "1.23456789E7");
        check(1e10, "1.0E10");
        check(1e-5, "1.0E-5");
        check(-2.5e-10, "-2.5E-10");
        check(f64::from_bits(1), "4.9E-324");
        check(f64::MAX, "1.7976931348623157E308");
        check(f64::NAN, "NaN");
        check(f64::NEG_INFINITY, "-Infinity");
    }

    #[test]
    fn nested_values_are_quoted() {
        let list = Value::list(vec![Value::Integer(1), Value::text("a\"é"), Value::Null]);
        assert_eq!(list.to_text(), r#"[ 1, "a\"\u00E9", null ]"#);
        assert_eq!(Value::list(vec![]).to_text(), "[  ]");
        assert_eq!(Value::map([]).to_text(), "{  }");
        assert_eq!(Value::map([(Text::new("k"), Value::Boolean(true))]).to_text(), "{ k: true }");
        assert_eq!(Value::text("a\"b").to_text(), "a\"b");
        assert_eq!(Value::Bytes(vec![0xca, 0xfe].into()).to_text(), "bytes(\"CAFE\")");
    }

    #[test]
    fn temporal_values_are_bare_alone_and_constructors_inside() {
        let date = Value::Date(crate::value::Date { epoch_day: 19_756 });
        assert_eq!(date.to_text(), "2024-02-03");
        assert_eq!(date.shown(), "date(\"2024-02-03\")");
    }
}
