//! A value as compact JSON, the form of query results and of `toJson`.
//!
//! Integers have all their digits; floats print as in `text_form`, with NaN and the infinities as strings; bytes are
//! base64; ids and everything temporal are strings.

use crate::id::{EdgeKey, IdScheme, NodeId};
use crate::text_form::{write_float, write_temporal};
use crate::value::{Map, Text, Value};

/// Appends to `out`.
pub fn write(value: &Value, ids: IdScheme, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Integer(n) => write_integer(*n, out),
        Value::Float(x) => {
            let mut text = String::with_capacity(24);
            write_float(*x, &mut text);
            if x.is_finite() { out.extend_from_slice(text.as_bytes()) } else { write_string(&text, out) }
        }
        Value::Text(text) => write_string(text, out),
        Value::Bytes(bytes) => {
            out.push(b'"');
            write_base64(bytes, out);
            out.push(b'"');
        }
        Value::Id(id) => write_id(*id, ids, out),
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, ids, out);
            }
            out.push(b']');
        }
        Value::Map(map) => write_map(map, ids, out),
        Value::Date(_) | Value::LocalTime(_) | Value::Time(_) => temporal(value, out),
        Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_) => temporal(value, out),
        Value::Node(id) => write_node(*id, &[], &Map::default(), ids, out),
        Value::FullNode(node) => write_node(node.id, &node.labels, &node.properties, ids, out),
        Value::Edge(edge) => write_edge(edge, &Map::default(), ids, out),
        Value::FullEdge(edge) => write_edge(&edge.key, &edge.properties, ids, out),
        Value::Path(path) => {
            out.push(b'[');
            write_node(path.start, &[], &Map::default(), ids, out);
            for (edge, node) in &path.steps {
                out.push(b',');
                write_edge(edge, &Map::default(), ids, out);
                out.push(b',');
                write_node(*node, &[], &Map::default(), ids, out);
            }
            out.push(b']');
        }
    }
}

/// In quotes, escaped as little as JSON allows.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..0x20) {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            other => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(other >> 4)], HEX[usize::from(other & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[from..]);
    out.push(b'"');
}

fn write_integer(n: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// The standard alphabet, padded.
fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let mut group = [0u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for place in 0..4 {
            let known = place <= chunk.len();
            out.push(if known { ALPHABET[(bits >> (18 - 6 * place) & 63) as usize] } else { b'=' });
        }
    }
}

fn temporal(value: &Value, out: &mut Vec<u8>) {
    let mut text = String::with_capacity(32);
    write_temporal(value, &mut text);
    write_string(&text, out);
}

fn write_id(id: NodeId, ids: IdScheme, out: &mut Vec<u8>) {
    write_string(&ids.text(id), out);
}

fn write_map(map: &Map, ids: IdScheme, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write(value, ids, out);
    }
    out.push(b'}');
}

fn write_node(id: NodeId, labels: &[Text], properties: &Map, ids: IdScheme, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    write_id(id, ids, out);
    out.extend_from_slice(b",\"labels\":[");
    for (i, label) in labels.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(label, out);
    }
    out.extend_from_slice(b"],\"properties\":");
    write_map(properties, ids, out);
    out.push(b'}');
}

fn write_edge(edge: &EdgeKey, properties: &Map, ids: IdScheme, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"start\":");
    write_id(edge.source, ids, out);
    out.extend_from_slice(b",\"end\":");
    write_id(edge.target, ids, out);
    out.extend_from_slice(b",\"name\":");
    write_string(&edge.kind, out);
    out.extend_from_slice(b",\"properties\":");
    write_map(properties, ids, out);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;
    use crate::value::{Date, FullNode};

    fn json(value: &Value, ids: IdScheme) -> String {
        let mut out = Vec::new();
        write(value, ids, &mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn values_have_the_form_clients_know() {
        let check = |value: Value, expected: &str| assert_eq!(json(&value, IdScheme::Uuid), expected);
        check(Value::Integer(i64::MIN), "-9223372036854775808");
        check(Value::Float(1.0), "1.0");
        check(Value::Float(1e21), "1.0E21");
        check(Value::Float(f64::NEG_INFINITY), "\"-Infinity\"");
        check(Value::text("a\"\\\n\u{1}é"), "\"a\\\"\\\\\\n\\u0001é\"");
        check(Value::Bytes(b"any carnal pleas".as_slice().into()), "\"YW55IGNhcm5hbCBwbGVhcw==\"");
        check(Value::Bytes([0xca, 0xfe].as_slice().into()), "\"yv4=\"");
        check(Value::Date(Date { epoch_day: 0 }), "\"1970-01-01\"");
        check(Value::Id(NodeId::new(1, 2)), "\"00000000-0000-0001-0000-000000000002\"");
        check(Value::map([(Text::new("k"), Value::list(vec![Value::Null, Value::Boolean(true)]))]), "{\"k\":[null,true]}");
    }

    #[test]
    fn nodes_and_edges_show_their_ids_as_text() {
        let node = Value::FullNode(
            FullNode {
                id: NodeId::new(0, 7),
                labels: vec![Text::new("A"), Text::new("B")],
                properties: [(Text::new("x"), Value::Integer(1))].into_iter().collect(),
            }
            .into(),
        );
        let long = IdScheme::Long { consecutive: false };
        assert_eq!(json(&node, long), r#"{"id":"7","labels":["A","B"],"properties":{"x":1}}"#);
        let edge = EdgeKey { source: NodeId::new(0, 1), kind: Text::new("T"), target: NodeId::new(0, 2), ordinal: 0 };
        assert_eq!(json(&Value::Edge(edge.into()), long), r#"{"start":"1","end":"2","name":"T","properties":{}}"#);
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"{"a":[1,-2.5,"x\ty",{"b":null}],"c":true,"d":{},"e":1.0E-7}"#;
        let value = parse(text.as_bytes()).expect("JSON");
        assert_eq!(json(&value, IdScheme::Uuid), text);
    }
}
