//! Values of queries in YAML, by the rules of JSON: `9007199254740993.0` is that integer, and `1e400` is `Infinity`.
//!
//! The parser makes floats of the numbers that have a fraction or an exponent, and texts of those no float has room for. So the
//! text is read twice where it has such floats: first to learn which of its values they are, counted as they come, and then with
//! these as texts.
//!
//! Does not refuse anything of its own: `decode::yaml` has read the text before.

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use weir_model::json::parse;
use weir_model::{Map, Text, Value};

use super::decode::MERGED;

pub fn read(text: &[u8]) -> Result<Value, serde_yaml_ng::Error> {
    let (value, floats) = pass(text, Vec::new())?;
    if floats.is_empty() { Ok(value) } else { Ok(pass(text, floats)?.0) }
}

/// The value, and which values in it are floats that were not known.
fn pass(text: &[u8], known: Vec<usize>) -> Result<(Value, Vec<usize>), serde_yaml_ng::Error> {
    let mut pass = Pass { text, count: 0, known: known.into_iter().peekable(), floats: Vec::new() };
    let value = pass.deserialize(serde_yaml_ng::Deserializer::from_slice(text))?;
    Ok((value, pass.floats))
}

struct Pass<'t> {
    text: &'t [u8],
    /// How many values have begun.
    count: usize,
    /// The numbers of values that are known to be floats, in order, as far as those are still to come.
    known: Peekable<IntoIter<usize>>,
    floats: Vec<usize>,
}

impl<'de> DeserializeSeed<'de> for &mut Pass<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let number = self.count;
        self.count += 1;
        match self.known.next_if_eq(&number) {
            Some(_) => deserializer.deserialize_str(Written),
            None => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for &mut Pass<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.floats.push(self.count - 1);
        Ok(Value::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Value, E> {
        let number = if is_too_large(value) && is_plain(self.text, value) { number(value) } else { None };
        Ok(number.unwrap_or_else(|| Value::text(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::text(value))
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(&mut *self)? {
            read.push(item);
        }
        Ok(Value::list(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(name) = fields.next_key::<String>()? {
            read.push((Text::from(name), fields.next_value_seed(&mut *self)?));
        }
        Ok(merged(read))
    }
}

/// A number that is known to be one, as its text.
struct Written;

impl Visitor<'_> for Written {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        number(text).ok_or_else(|| E::custom(format!("{text} is no number that JSON has")))
    }
}

/// A number as YAML has it, such as `+.5`, as JSON would read it.
fn number(text: &str) -> Option<Value> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, exponent) = unsigned.split_at(unsigned.find(['e', 'E']).unwrap_or(unsigned.len()));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // JSON has no zeros before a number, and at least one digit on both sides of the point.
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    parse(format!("{sign}{whole}.{fraction}{exponent}").as_bytes()).ok()
}

/// Whether a text would be a number if floats had room for it. Digits behind a zero are none in YAML.
fn is_too_large(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_counting = || unsigned.starts_with('0') && unsigned.bytes().all(|byte| byte.is_ascii_digit());
    unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok_and(f64::is_infinite)
        && !is_counting()
}

/// Whether a part of a text stands there as what it looks like: without quotes, and not said to be a text (`!!str 1e400`).
fn is_plain(text: &[u8], part: &str) -> bool {
    let at = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let before = at.and_then(|at| text.get(..at));
    before.is_some_and(|before| !matches!(before.last(), Some(b'"' | b'\'')) && !before.trim_ascii_end().ends_with(b"!!str"))
}

/// `<<: *other`, of one map or several: their entries, where the map has none of that name.
fn merged(entries: Vec<(Text, Value)>) -> Value {
    let as_map = |value: &Value| if let Value::Map(map) = value { Some(map.clone()) } else { None };
    let others: Option<Vec<Arc<Map>>> = match entries.iter().rev().find(|(name, _)| name == MERGED) {
        Some((_, Value::List(items))) => items.iter().rev().map(as_map).collect(),
        Some((_, other)) => as_map(other).map(|other| vec![other]),
        None => None,
    };
    let Some(others) = others else { return Value::map(entries) };
    // Of equal names the last one counts.
    let own = entries.into_iter().filter(|(name, _)| name != MERGED);
    Value::map(others.iter().flat_map(|other| other.iter().cloned()).chain(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(read(text.as_bytes()).expect("YAML"), parse(expected.as_bytes()).expect("JSON"), "{text}");
        let shown = format!("{:?}", read(text.as_bytes()).expect("YAML"));
        assert_eq!(shown, format!("{:?}", parse(expected.as_bytes()).expect("JSON")), "{text}");
    }

    #[test]
    fn numbers_are_those_of_json() {
        for text in [
            "1.0",
            "1e3",
            "-0.0",
            "2.5",
            "9007199254740993.0",
            "9007199254740993",
            "-9223372036854775808",
            "9223372036854775807.0",
            "9223372036854775808",
            "18446744073709551615",
            "99999999999999999999",
            "-99999999999999999999",
            "1e400",
            "-1E+999999999999",
            "1e-400",
            "0.1",
            "[1.5, \"1.5\", 9007199254740993.0, \"1e400\", [1e400, \"a\"], {\"x\": 3.0}]",
        ] {
            check(text, text);
            check(&format!("a:\n  é: {text}\nb: 'x'"), &format!("{{\"a\": {{\"é\": {text}}}, \"b\": \"x\"}}"));
            check(&format!("[\"\", {text}, -.5, +1.5]"), &format!("[\"\", {text}, -0.5, 1.5]"));
        }
        check("[+.5, 7., 01.5, -.0e1, 0x1F, 007, 0o17]", "[0.5, 7, 1.5, 0, 31, \"007\", 15]");
    }

    #[test]
    fn texts_stay_texts() {
        check(
            "[\"1e400\", '1.0', !!str 1.0, !!str 1e400, inf, nan, 1_000, e5, .]",
            r#"["1e400", "1.0", "1.0", "1e400", "inf", "nan", "1_000", "e5", "."]"#,
        );
        check("a: |\n  1e400\nb: 1e400 x\nc: ~\nd: yes", r#"{"a": "1e400\n", "b": "1e400 x", "c": null, "d": "yes"}"#);
        check(&format!("0{}", "1".repeat(400)), &format!("\"0{}\"", "1".repeat(400)));
    }

    #[test]
    fn what_is_told_once_and_meant_again_is_read_as_often() {
        check(
            "one: &one {a: 1.0, b: 2.5}\ntwo: [*one, &x 3.0, *x, 1.5]",
            r#"{"one": {"a": 1, "b": 2.5}, "two": [{"a": 1, "b": 2.5}, 3, 3, 1.5]}"#,
        );
        check(
            "one: &one {a: 1.0, b: 1}\ntwo: &two {<<: *one, b: 2.5}\nboth: {<<: [*two, {b: 4, c: 4.0}], a: 3}\nodd: {<<: 5}",
            r#"{"one": {"a": 1, "b": 1}, "two": {"a": 1, "b": 2.5}, "both": {"b": 2.5, "c": 4, "a": 3}, "odd": {"<<": 5}}"#,
        );
        check("a: 1.0\nb: 2\na: 3.5", r#"{"a": 3.5, "b": 2}"#);
    }
}
