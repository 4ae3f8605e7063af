//! Functions from one type to another.

use std::sync::Arc;

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::extent;
use weir_model::value::{FullEdge, FullNode, Map, Value};
use weir_model::{EdgeKey, json};

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("toInteger", 1, 1, "toInteger(value :: ANY) :: INTEGER", to_integer).about(
        "A number, or text of one, as an integer: floats are cut, and what is no number is null. Text of more than 64 bits wraps around.",
        "RETURN [toInteger('7.9'), toInteger('0xff'), toInteger('seven')]",
    ),
    strict("toFloat", 1, 1, "toFloat(value :: ANY) :: FLOAT", to_float).about(
        "A number, or text of one, as a float; what is no number is null.",
        "RETURN [toFloat(7), toFloat(' 1.5 '), toFloat('x')]",
    ),
    strict("toBoolean", 1, 1, "toBoolean(value :: ANY) :: BOOLEAN", to_boolean).about(
        "The words true and false as booleans, in any case; other text is null.",
        "RETURN [toBoolean('TRUE'), toBoolean('yes')]",
    ),
    strict("toString", 1, 1, "toString(value :: ANY) :: STRING", to_string).about(
        "Any value as text, but no list, map, node, relationship or path.",
        "RETURN [toString(1e10), toString(date('2024-02-03'))]",
    ),
    Function { pure: false, asks_graph: true, ..strict("toJson", 1, 1, "toJson(value :: ANY) :: STRING", to_json) }
        .about("Any value as compact JSON.", "RETURN toJson({a: [1, 2.5, null]})"),
    strict("parseJson", 1, 1, "parseJson(text :: STRING) :: ANY", parse_json)
        .about("The value that JSON text stands for; text that is no JSON fails.", "RETURN parseJson('{\"a\": [1, 2.5]}').a"),
    strict("meta.type", 1, 1, "meta.type(value :: ANY) :: STRING", |_, arguments| Ok(Value::text(type_name(&arguments[0]))))
        .about("The name of the value's type.", "RETURN [meta.type(1), meta.type([1]), meta.type(null)]"),
    strict("bytes", 1, 1, "bytes(hex :: STRING) :: BYTES", bytes)
        .about("Bytes out of hexadecimal digits; null when the text is anything else.", "RETURN bytes('ca fe')"),
    strict("convert.stringToBytes", 2, 2, STRING_TO_BYTES, string_to_bytes).about(
        "The bytes of text in an encoding: utf-8, utf-16 or iso-8859-1; null for others.",
        "RETURN convert.stringToBytes('é', 'iso-8859-1')",
    ),
    strict("text.utf8Encode", 1, 1, "text.utf8Encode(text :: STRING) :: BYTES", utf8_encode)
        .about("The bytes of text in UTF-8.", "RETURN text.utf8Encode('é')"),
    strict("text.utf8Decode", 1, 1, "text.utf8Decode(bytes :: BYTES) :: STRING", utf8_decode)
        .about("The text of bytes in UTF-8; what is none becomes U+FFFD.", "RETURN text.utf8Decode(bytes('c3a9'))"),
];

const STRING_TO_BYTES: &str = "convert.stringToBytes(text :: STRING, encoding :: STRING) :: BYTES";

/// As `meta.type` names types.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Boolean(_) => "BOOLEAN",
        Value::Integer(_) => "INTEGER",
        Value::Float(_) => "FLOAT",
        Value::Text(_) => "STRING",
        Value::Bytes(_) | Value::Id(_) => "BYTES",
        Value::List(_) => "LIST OF ANY",
        Value::Map(_) => "MAP",
        Value::Date(_) => "DATE",
        Value::LocalTime(_) => "LOCALTIME",
        Value::Time(_) => "TIME",
        Value::LocalDateTime(_) => "LOCALDATETIME",
        Value::DateTime(_) => "DATETIME",
        Value::Duration(_) => "DURATION",
        Value::Node(_) | Value::FullNode(_) => "NODE",
        Value::Edge(_) | Value::FullEdge(_) => "RELATIONSHIP",
        Value::Path(_) => "PATH",
    }
}

/// Floats are cut, and saturate. Text that is no number is null.
fn to_integer(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(n) => Ok(Value::Integer(*n)),
        Value::Float(x) => Ok(Value::Integer(*x as i64)),
        Value::Text(text) => Ok(integer_of(text).map_or(Value::Null, Value::Integer)),
        _ => Err(wrong_signature("toInteger(value :: ANY) :: INTEGER", arguments)),
    }
}

/// What is put together of other values has no text of its own; `toJson` gives it one.
fn to_string(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::List(_)
        | Value::Map(_)
        | Value::Node(_)
        | Value::FullNode(_)
        | Value::Edge(_)
        | Value::FullEdge(_)
        | Value::Path(_) => Err(wrong_signature("toString(value :: ANY) :: STRING", arguments)),
        other => Ok(Value::text(&other.to_text())),
    }
}

/// What does not fit into 64 bits wraps around, of any length: ids are made of keys without a sign.
fn integer_of(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let signed = |size: u64| if negative { (size as i64).wrapping_neg() } else { size as i64 };
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")).filter(|hex| !hex.is_empty()) {
        return hex.chars().try_fold(0, |size: u64, c| Some(size << 4 | u64::from(c.to_digit(16)?))).map(signed);
    }
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    let unsigned = if negative { unsigned } else { unsigned.strip_prefix('+').unwrap_or(unsigned) };
    is_decimal(unsigned).then(|| whole_part(unsigned)).flatten().map(signed)
}

/// What stands before the point of a decimal number, digit by digit: a float holds no more than 53 bits of it. None where the
/// exponent is beyond all that is in use.
fn whole_part(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let out_of_range = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let exponent: i64 = exponent.parse().unwrap_or(out_of_range);
    let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| u64::from(digit - b'0'));
    if exponent > i64::from(i32::MAX) && digits().any(|digit| digit != 0) {
        return None;
    }
    // The digits before the point once the exponent has moved it. Behind the last that is written all are 0.
    let places = exponent.saturating_add(whole.len() as i64).max(0) as usize;
    let size = digits().take(places).fold(0, |size: u64, digit| size.wrapping_mul(10).wrapping_add(digit));
    // Ten to the 64 is a multiple of two to the 64.
    let zeros = places.saturating_sub(whole.len() + fraction.len()).min(64);
    Some((0..zeros).fold(size, |size, _| size.wrapping_mul(10)))
}

/// Digits with an optional fraction and exponent; no sign, no words.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty()) && digits(exponent) && !exponent.is_empty()
}

/// White space around the number is allowed, as are `NaN`, `Infinity` and a type letter at the end.
fn to_float(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Integer(n) => Ok(Value::Float(*n as f64)),
        Value::Float(x) => Ok(Value::Float(*x)),
        Value::Text(text) => Ok(float_of(text).map_or(Value::Null, Value::Float)),
        _ => Err(wrong_signature("toFloat(value :: ANY) :: FLOAT", arguments)),
    }
}

fn float_of(text: &str) -> Option<f64> {
    let text = text.trim_matches(|c| c <= ' ');
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    match unsigned {
        "NaN" => return Some(f64::NAN),
        "Infinity" => return Some(sign * f64::INFINITY),
        _ => {}
    }
    let unsigned = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        return hex_float_of(hex).map(|x| sign * x);
    }
    if !is_decimal(unsigned) {
        return None;
    }
    unsigned.parse::<f64>().ok().map(|x| sign * x)
}

/// `1.8p1`: hexadecimal digits with an optional fraction, and the power of two they are multiplied by, which is never left out.
fn hex_float_of(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.chars().chain(fraction.chars());
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_number = !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
    if !is_number || digits().next().is_none() || !digits().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let out_of_range = if exponent.starts_with('-') { i32::MIN } else { i32::MAX };
    let mut power = i64::from(exponent.parse().unwrap_or(out_of_range)) - 4 * fraction.len() as i64;
    let mut significand: u64 = 0;
    for digit in digits().filter_map(|c| c.to_digit(16)) {
        if significand >> 60 == 0 {
            significand = significand << 4 | u64::from(digit);
        } else {
            // More than a float holds: it only says whether the rest is more than nothing, which decides about rounding.
            significand |= u64::from(digit != 0);
            power += 4;
        }
    }
    // In two steps, because the power alone may lie outside of what a float can be.
    let power = power.clamp(-2000, 2000) as i32;
    Some(significand as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2))
}

/// Text other than the two words is null.
fn to_boolean(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Boolean(x) => Ok(Value::Boolean(*x)),
        Value::Text(text) => Ok(match text.trim_matches(|c| c <= ' ').to_ascii_lowercase().as_str() {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => Value::Null,
        }),
        _ => Err(wrong_signature("toBoolean(value :: ANY) :: BOOLEAN", arguments)),
    }
}

/// Nodes and edges are shown with what is known of them now; so the graph is asked. Keys are in order: equal values have equal
/// texts.
fn to_json(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (mut out, mut room) = (Vec::new(), context.room());
    json::write(&complete(context, &arguments[0], &mut room)?, context.ids(), &mut out);
    Ok(Value::text(&String::from_utf8_lossy(&out)))
}

/// `room` is what the nodes and edges may come to in full, each wherever it appears.
fn complete(context: &dyn Context, value: &Value, room: &mut usize) -> Result<Value, Failure> {
    let full = match value {
        Value::Node(id) => Value::FullNode(Arc::new(context.full_node(*id))),
        Value::Edge(edge) => Value::FullEdge(Arc::new(context.full_edge(edge))),
        Value::List(items) => {
            let items = items.iter().map(|item| complete(context, item, room));
            return Ok(Value::list(items.collect::<Result<_, _>>()?));
        }
        Value::Map(map) => return Ok(Value::Map(in_order(context, map, room)?.into())),
        Value::FullNode(node) => {
            let properties = in_order(context, &node.properties, room)?;
            return Ok(Value::FullNode(Arc::new(FullNode { properties, ..FullNode::clone(node) })));
        }
        Value::FullEdge(edge) => {
            let properties = in_order(context, &edge.properties, room)?;
            return Ok(Value::FullEdge(Arc::new(FullEdge { properties, ..FullEdge::clone(edge) })));
        }
        Value::Path(path) => {
            let mut items = vec![complete(context, &Value::Node(path.start), room)?];
            for (edge, node) in &path.steps {
                items.push(complete(context, &Value::Edge(Arc::new(EdgeKey::clone(edge))), room)?);
                items.push(complete(context, &Value::Node(*node), room)?);
            }
            return Ok(Value::list(items));
        }
        other => return Ok(other.clone()),
    };
    *room -= extent::measured(&full, *room)?;
    complete(context, &full, room)
}

fn in_order(context: &dyn Context, map: &Map, room: &mut usize) -> Result<Map, Failure> {
    map.in_order().into_iter().map(|(key, value)| Ok((key.clone(), complete(context, value, room)?))).collect()
}

fn parse_json(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Text(text) = &arguments[0] else {
        return Err(wrong_signature("parseJson(text :: STRING) :: ANY", arguments));
    };
    // A value takes more than the two characters that there may be of it; each but the first stands behind one of these.
    if text.len().saturating_mul(size_of::<Value>()) > context.room() {
        let values = 1 + text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[')).count();
        extent::within(values.saturating_mul(size_of::<Value>()), context.room())?;
    }
    json::parse(text.as_bytes()).map_err(|error| {
        Failure::new(
            FailureKind::InvalidArgument,
            format!("parseJson: {error}, in {}", weir_model::arithmetic::shortened(&arguments[0])),
        )
    })
}

/// White space is ignored; anything else that is no pair of hexadecimal digits makes the result null.
fn bytes(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let Value::Text(text) = &arguments[0] else {
        return Err(wrong_signature("bytes(hex :: STRING) :: BYTES", arguments));
    };
    let digits: Option<Vec<u32>> = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect();
    Ok(match digits {
        Some(digits) if digits.len() % 2 == 0 => {
            Value::Bytes(digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
        }
        _ => Value::Null,
    })
}

/// An encoding that is not known makes the result null; characters outside Latin-1 become `?`.
fn string_to_bytes(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(text), Value::Text(encoding)] = arguments else {
        return Err(wrong_signature(STRING_TO_BYTES, arguments));
    };
    Ok(match encoding.to_lowercase().as_str() {
        "utf-8" => Value::Bytes(text.as_bytes().into()),
        "utf-16" => Value::Bytes([0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()),
        "iso-8859-1" => Value::Bytes(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()),
        _ => Value::Null,
    })
}

fn utf8_encode(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Text(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(wrong_signature("text.utf8Encode(text :: STRING) :: BYTES", arguments)),
    }
}

fn utf8_decode(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Bytes(bytes) => Ok(Value::text(&String::from_utf8_lossy(bytes))),
        Value::Id(id) => Ok(Value::text(&String::from_utf8_lossy(&id.to_bytes()))),
        _ => Err(wrong_signature("text.utf8Decode(bytes :: BYTES) :: STRING", arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;

    fn check(name: &str, argument: Value, expected: Value) {
        assert_eq!(call(name, std::slice::from_ref(&argument)), Ok(expected), "{name}({argument:?})");
    }

    #[test]
    fn numbers_out_of_text() {
        use Value::{Float, Integer, Null};
        for (text, expected) in [
            ("7", Integer(7)),
            ("-7", Integer(-7)),
            ("7.9", Integer(7)),
            ("2e3", Integer(2000)),
            ("9223372036854775808", Integer(i64::MIN)),
            ("18446744073709551615", Integer(-1)),
            ("18446744073709551616", Integer(0)),
            ("-9223372036854775809", Integer(i64::MAX)),
            ("340282366920938463463374607431768211463", Integer(7)),
            ("9007199254740993.0", Integer(9_007_199_254_740_993)),
            ("-9007199254740993.9", Integer(-9_007_199_254_740_993)),
            ("+9007199254740993e0", Integer(9_007_199_254_740_993)),
            ("9.007199254740993e15", Integer(9_007_199_254_740_993)),
            ("90071992547409931E-1", Integer(9_007_199_254_740_993)),
            ("9223372036854775807.9", Integer(i64::MAX)),
            ("9223372036854775808.0", Integer(i64::MIN)),
            ("-9223372036854775808.5", Integer(i64::MIN)),
            ("-9223372036854775809.0", Integer(i64::MAX)),
            ("922337203685477580.7e1", Integer(i64::MAX)),
            ("1e18", Integer(1_000_000_000_000_000_000)),
            ("1e19", Integer(-8_446_744_073_709_551_616)),
            ("1e400", Integer(0)),
            ("1e99999999999999999999", Null),
            ("1e-99999999999999999999", Integer(0)),
            ("0.000e99999999999999999999", Integer(0)),
            ("0.0012e3", Integer(1)),
            ("-.5", Integer(0)),
            ("5.", Integer(5)),
            ("-+5.0", Null),
            ("++5.0", Null),
            ("1e", Null),
            (".", Null),
            ("0xff", Integer(255)),
            ("0xffffffffffffffff", Integer(-1)),
            ("0x8000000000000000", Integer(i64::MIN)),
            ("-0xffffffffffffffff", Integer(1)),
            ("0x70000000000000005", Integer(5)),
            ("0xfg", Null),
            ("-0x10", Integer(-16)),
            (" 7", Null),
            ("", Null),
            ("seven", Null),
            ("inf", Null),
            ("0x", Null),
        ] {
            check("toInteger", Value::text(text), expected);
        }
        check("toInteger", Float(-7.9), Integer(-7));
        check("toInteger", Float(1e300), Integer(i64::MAX));
        check("toInteger", Float(f64::NAN), Integer(0));
        for (text, expected) in [
            (" 1.5 ", Float(1.5)),
            ("-Infinity", Float(f64::NEG_INFINITY)),
            ("NaN", Float(f64::NAN)),
            ("1f", Float(1.0)),
            (".5", Float(0.5)),
            ("inf", Null),
            ("", Null),
            ("1e", Null),
            ("0x1p3", Float(8.0)),
            ("0x1.8p1", Float(3.0)),
            (" -0X.8P-1d ", Float(-0.25)),
            ("0x1.fffffffffffffp1023", Float(f64::MAX)),
            ("0x0.0000000000001p-1022", Float(f64::from_bits(1))),
            ("0x1.00000000000008p0", Float(1.0)),
            ("0x1.000000000000080000000000000000001p0", Float(1.0 + f64::EPSILON)),
            ("0x1p99999999999", Float(f64::INFINITY)),
            ("0x1p-99999999999", Float(0.0)),
            ("0x0p9999", Float(0.0)),
            ("0x1", Null),
            ("0x1p", Null),
            ("0x.p1", Null),
            ("0xp1", Null),
            ("0x1p1.5", Null),
        ] {
            check("toFloat", Value::text(text), expected);
        }
        assert_eq!(call("toInteger", &[Value::Boolean(true)]).map_err(|f| f.kind), Err(FailureKind::WrongSignature));
    }

    #[test]
    fn booleans_and_strings() {
        check("toBoolean", Value::text(" TRUE "), Value::Boolean(true));
        check("toBoolean", Value::text("yes"), Value::Null);
        check("toString", Value::Float(1e10), Value::text("1.0E10"));
        check("toString", Value::Boolean(false), Value::text("false"));
        check("meta.type", Value::list(vec![]), Value::text("LIST OF ANY"));
    }

    #[test]
    fn json_there_and_back() {
        let text = Value::text(r#"{"a":[1.0,"x"]}"#);
        let parsed = call("parseJson", &[text]).expect("JSON");
        check("toJson", parsed, Value::text(r#"{"a":[1,"x"]}"#));
        let failure = call("parseJson", &[Value::text("{")]).expect_err("no JSON");
        assert!(failure.message.contains("expected a key"), "{failure}");
    }

    #[test]
    fn bytes_out_of_text() {
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
        check("bytes", Value::text("ca fe"), bytes(&[0xca, 0xfe]));
        check("bytes", Value::text("caf"), Value::Null);
        check("bytes", Value::text("zz"), Value::Null);
        check("text.utf8Encode", Value::text("é"), bytes(&[0xc3, 0xa9]));
        check("text.utf8Decode", bytes(&[0xc3, 0xa9, 0xff]), Value::text("é\u{FFFD}"));
        let encode = |encoding: &str| call("convert.stringToBytes", &[Value::text("aé"), Value::text(encoding)]);
        assert_eq!(encode("UTF-16"), Ok(bytes(&[0xfe, 0xff, 0, 0x61, 0, 0xe9])));
        assert_eq!(encode("iso-8859-1"), Ok(bytes(&[0x61, 0xe9])));
        assert_eq!(encode("ebcdic"), Ok(Value::Null));
    }
}
