//! What a source knows of a record besides its bytes, in a few bytes: for those who are told of records that fail.
//!
//!     fields   each its name behind its length, a byte for what it is, and its value (texts and bytes behind their lengths)

use weir_model::{Text, Value, json};

const INTEGER: u8 = 0;
const TEXT: u8 = 1;
const BYTES: u8 = 2;
/// A list of maps: each its fields behind their length.
const MAPS: u8 = 3;
/// Names and all in the words of whoever sent it.
const JSON: u8 = 4;

/// Writes the fields of one record.
pub struct Origin<'a>(&'a mut Vec<u8>);

impl<'a> Origin<'a> {
    pub fn of(packed: &'a mut Vec<u8>) -> Origin<'a> {
        Origin(packed)
    }

    pub fn integer(&mut self, name: &'static str, value: i64) {
        self.name(name, INTEGER);
        self.0.extend(value.to_le_bytes());
    }

    pub fn text(&mut self, name: &'static str, value: &str) {
        self.name(name, TEXT);
        self.long(value.as_bytes());
    }

    pub fn bytes(&mut self, name: &'static str, value: &[u8]) {
        self.name(name, BYTES);
        self.long(value);
    }

    /// A list; `each` writes one of them for each of the items.
    pub fn maps<T>(&mut self, name: &'static str, items: impl Iterator<Item = T>, each: impl Fn(&mut Origin<'_>, T)) {
        let mut packed = Vec::new();
        for item in items {
            let mut one = Vec::new();
            each(&mut Origin(&mut one), item);
            Origin(&mut packed).long(&one);
        }
        self.name(name, MAPS);
        self.long(&packed);
    }

    #[cfg(feature = "aws")]
    pub fn json(&mut self, name: &'static str, value: &serde_json::Value) {
        self.name(name, JSON);
        self.long(value.to_string().as_bytes());
    }

    /// What was packed before.
    pub fn raw(&mut self, packed: &[u8]) {
        self.0.extend(packed);
    }

    fn name(&mut self, name: &'static str, kind: u8) {
        self.0.push(name.len() as u8);
        self.0.extend(name.as_bytes());
        self.0.push(kind);
    }

    fn long(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }
}

/// What is told of a record that waits by itself.
pub fn packed(tell: impl FnOnce(&mut Origin<'_>)) -> Vec<u8> {
    let mut packed = Vec::new();
    tell(&mut Origin(&mut packed));
    packed
}

/// What is told of a record: its bytes by this name, and where it comes from.
pub fn frame(name: &str, bytes: Value, origin: &[u8]) -> Value {
    let fields = fields(origin).unwrap_or_default();
    Value::map([(Text::new(name), bytes)].into_iter().chain(fields))
}

fn fields(mut packed: &[u8]) -> Option<Vec<(Text, Value)>> {
    let mut fields = Vec::new();
    while let Some((length, rest)) = packed.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (kind, mut rest) = rest.split_first()?;
        let value = match *kind {
            INTEGER => {
                let (value, after) = rest.split_first_chunk::<8>()?;
                rest = after;
                Value::Integer(i64::from_le_bytes(*value))
            }
            kind => {
                let value = take(&mut rest)?;
                match kind {
                    TEXT => Value::text(std::str::from_utf8(value).ok()?),
                    BYTES => Value::Bytes(value.into()),
                    JSON => json::parse(value).ok()?,
                    _ => Value::List(maps(value)?.into()),
                }
            }
        };
        fields.push((Text::new(std::str::from_utf8(name).ok()?), value));
        packed = rest;
    }
    Some(fields)
}

fn maps(mut packed: &[u8]) -> Option<Vec<Value>> {
    let mut maps = Vec::new();
    while !packed.is_empty() {
        maps.push(Value::map(fields(take(&mut packed)?)?));
    }
    Some(maps)
}

fn take<'a>(packed: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = packed.split_first_chunk::<4>()?;
    let (taken, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *packed = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_told() {
        let mut packed = Vec::new();
        let mut origin = Origin::of(&mut packed);
        origin.text("topic", "t");
        origin.integer("offset", -7);
        origin.bytes("key", &[0, 255]);
        origin.maps("headers", [("a", 1u8), ("b", 2)].into_iter(), |header, (key, value)| {
            header.text("key", key);
            header.bytes("value", &[value]);
        });
        let told = frame("value", Value::Bytes([1][..].into()), &packed);
        let header = |key: &str, value: u8| {
            Value::map([("key".into(), Value::text(key)), ("value".into(), Value::Bytes([value][..].into()))])
        };
        let expected = Value::map([
            ("value".into(), Value::Bytes([1][..].into())),
            ("topic".into(), Value::text("t")),
            ("offset".into(), Value::Integer(-7)),
            ("key".into(), Value::Bytes([0, 255][..].into())),
            ("headers".into(), Value::List(vec![header("a", 1), header("b", 2)].into())),
        ]);
        assert_eq!(told, expected);
        assert_eq!(frame("data", Value::text("x"), &[]), Value::map([("data".into(), Value::text("x"))]));
    }
}
