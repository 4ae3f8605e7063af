//! Writing: a map as one bare datum. Fields are found by their names; what has no place in the schema is left out, and what does
//! not fit is a failure that says which field and what was expected.

use serde_json::Value as Json;
use weir_model::temporal::{NANOS_PER_SECOND, SECONDS_PER_DAY};
use weir_model::{IdScheme, Map, Value, json};

use super::read::{SCALE_MAX, Unscaled, negated};
use super::shape::{DEPTH_MAX, Field, Logical, Shape, Shapes};

const NANOS_PER_MILLI: i128 = 1_000_000;

pub struct AvroWriter {
    shapes: Shapes,
}

type Outcome = Result<(), String>;

impl AvroWriter {
    /// The schema of a record, and those that it refers to.
    pub fn new(schema: &str, others: &[&str]) -> Result<AvroWriter, String> {
        let shapes = Shapes::read(schema, others, true)?;
        match shapes.plain(&shapes.root) {
            Shape::Record(_) | Shape::Map(_) => Ok(AvroWriter { shapes }),
            _ => Err("a result is a record of fields; the schema is of another type".to_owned()),
        }
    }

    /// Appends the datum of a map. On an error `out` may have a part of it.
    pub fn write(&self, map: &Map, ids: IdScheme, out: &mut Vec<u8>) -> Outcome {
        let writing = Writing { shapes: &self.shapes, ids };
        match self.shapes.plain(&self.shapes.root) {
            Shape::Record(fields) => writing.record(fields, map, 0, out),
            Shape::Map(item) => writing.map(item, map, 0, out),
            // `new` lets no others pass.
            _ => Err("the schema is not of a record".to_owned()),
        }
    }
}

struct Writing<'a> {
    shapes: &'a Shapes,
    ids: IdScheme,
}

impl Writing<'_> {
    fn record(&self, fields: &[Field], map: &Map, depth: usize, out: &mut Vec<u8>) -> Outcome {
        for field in fields {
            let written = match (map.get(field.name.as_str()), &field.default) {
                (Some(value), default) if !(value.is_null() && default.is_some() && !self.takes(&field.shape, value)) => {
                    self.value(&field.shape, value, depth + 1, out)
                }
                (_, Some(default)) => self.default(&field.shape, default, depth + 1, out),
                (_, None) => self.value(&field.shape, &Value::Null, depth + 1, out),
            };
            written.map_err(|problem| within(&field.name, &problem))?;
        }
        Ok(())
    }

    /// A default is written in JSON: that of a union is of its first branch, bytes are characters up to 255.
    fn default(&self, shape: &Shape, default: &Json, depth: usize, out: &mut Vec<u8>) -> Outcome {
        bounded(depth)?;
        match (shape, default) {
            (Shape::Union(branches), default) => {
                put(0, out);
                let first = branches.first().ok_or("a union has no branches")?;
                self.default(first, default, depth, out)
            }
            (Shape::Bytes | Shape::Fixed(_), Json::String(text)) => {
                let bytes = text.chars().map(|c| u8::try_from(u32::from(c))).collect::<Result<Vec<u8>, _>>();
                let bytes = bytes.map_err(|_| "the default of the schema is not one of bytes")?;
                self.value(shape, &Value::Bytes(bytes.into()), depth, out)
            }
            (Shape::Logical(inner, _), default) => self.default(inner, default, depth, out),
            (Shape::Named(_), default) => self.default(self.shapes.plain(shape), default, depth, out),
            // There may be bytes in these.
            (Shape::Record(fields), Json::Object(entries)) => {
                for field in fields {
                    let written = match entries.get(field.name.as_str()).or(field.default.as_ref()) {
                        Some(default) => self.default(&field.shape, default, depth + 1, out),
                        None => self.value(&field.shape, &Value::Null, depth + 1, out),
                    };
                    written.map_err(|problem| within(&field.name, &problem))?;
                }
                Ok(())
            }
            (Shape::List(item), Json::Array(items)) => {
                if !items.is_empty() {
                    put(items.len() as i64, out);
                }
                items.iter().try_for_each(|default| self.default(item, default, depth + 1, out))?;
                put(0, out);
                Ok(())
            }
            (Shape::Map(item), Json::Object(entries)) => {
                if !entries.is_empty() {
                    put(entries.len() as i64, out);
                }
                for (key, default) in entries {
                    put_bytes(key.as_bytes(), out);
                    self.default(item, default, depth + 1, out)?;
                }
                put(0, out);
                Ok(())
            }
            (shape, default) => {
                let text = default.to_string();
                let value =
                    json::parse(text.as_bytes()).map_err(|error| format!("the default of the schema cannot be read: {error}"))?;
                self.value(shape, &value, depth, out)
            }
        }
    }

    fn value(&self, shape: &Shape, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome {
        bounded(depth)?;
        let expected = |what: &str| Err(format!("expected {what}, but got {}", weir_model::arithmetic::shortened(value)));
        match (shape, value) {
            (Shape::Named(_), value) => return self.value(self.shapes.plain(shape), value, depth + 1, out),
            (Shape::Null, Value::Null) => {}
            (Shape::Boolean, Value::Boolean(yes)) => out.push(u8::from(*yes)),
            (Shape::Integer { short }, Value::Integer(n)) => {
                if *short && i32::try_from(*n).is_err() {
                    return expected("an int of 32 bits");
                }
                put(*n, out);
            }
            (Shape::Float, Value::Float(x)) => out.extend((*x as f32).to_le_bytes()),
            (Shape::Float, Value::Integer(n)) => out.extend((*n as f32).to_le_bytes()),
            (Shape::Double, Value::Float(x)) => out.extend(x.to_le_bytes()),
            (Shape::Double, Value::Integer(n)) => out.extend((*n as f64).to_le_bytes()),
            (Shape::Bytes, Value::Bytes(bytes)) => put_bytes(bytes, out),
            (Shape::Bytes, Value::Id(id) | Value::Node(id)) => put_bytes(&id.to_bytes(), out),
            (Shape::Fixed(size), Value::Bytes(bytes)) if bytes.len() == *size => out.extend_from_slice(bytes),
            (Shape::Fixed(16), Value::Id(id) | Value::Node(id)) => out.extend_from_slice(&id.to_bytes()),
            (Shape::Text, value) => match self.text(value) {
                Some(text) => put_bytes(text.as_bytes(), out),
                None => return expected("a string"),
            },
            (Shape::Enum(symbols), Value::Text(text)) => match symbols.iter().position(|symbol| symbol == text) {
                Some(at) => put(at as i64, out),
                None => return expected("a symbol of the enumeration"),
            },
            (Shape::List(item), Value::List(items)) => {
                if !items.is_empty() {
                    put(items.len() as i64, out);
                }
                for (at, value) in items.iter().enumerate() {
                    self.value(item, value, depth + 1, out).map_err(|problem| within(&format!("[{at}]"), &problem))?;
                }
                put(0, out);
            }
            (Shape::Map(item), Value::Map(map)) => self.map(item, map, depth, out)?,
            (Shape::Record(fields), Value::Map(map)) => self.record(fields, map, depth, out)?,
            (Shape::Union(branches), value) => {
                let Some(at) = self.branch(branches, value) else {
                    return expected("a value of one of the branches of the union");
                };
                put(at as i64, out);
                self.value(&branches[at], value, depth + 1, out)?;
            }
            (Shape::Logical(inner, logical), value) => match self.plain(inner, *logical, value) {
                Some(plain) => self.value(inner, &plain, depth + 1, out)?,
                None => return expected(logical.name()),
            },
            (shape, _) => return expected(shape.name()),
        }
        Ok(())
    }

    fn map(&self, item: &Shape, map: &Map, depth: usize, out: &mut Vec<u8>) -> Outcome {
        if map.iter().next().is_some() {
            put(map.iter().count() as i64, out);
        }
        for (key, value) in map.iter() {
            put_bytes(key.as_bytes(), out);
            self.value(item, value, depth + 1, out).map_err(|problem| within(key, &problem))?;
        }
        put(0, out);
        Ok(())
    }

    /// The first branch that is made for such a value, or else the first that takes it. What is within it is not looked at,
    /// except for the fields of a record that have to be there.
    fn branch(&self, branches: &[Shape], value: &Value) -> Option<usize> {
        let made_for = branches.iter().position(|branch| self.is_made_for(branch, value));
        made_for.or_else(|| branches.iter().position(|branch| self.takes(branch, value)))
    }

    fn is_made_for(&self, shape: &Shape, value: &Value) -> bool {
        match (self.shapes.plain(shape), value) {
            (Shape::Null, Value::Null)
            | (Shape::Boolean, Value::Boolean(_))
            | (Shape::Double, Value::Float(_))
            | (Shape::Bytes, Value::Bytes(_))
            | (Shape::List(_), Value::List(_)) => true,
            (Shape::Integer { short }, Value::Integer(n)) => !short || i32::try_from(*n).is_ok(),
            (Shape::Fixed(size), Value::Bytes(bytes)) => *size == bytes.len(),
            (Shape::Enum(symbols), Value::Text(text)) => symbols.contains(text),
            (Shape::Text, Value::Text(_) | Value::Id(_) | Value::Node(_)) => true,
            (Shape::Record(fields), Value::Map(map)) => {
                let there = |field: &Field| field.default.is_some() || map.get(field.name.as_str()).is_some();
                fields.iter().all(there) && map.iter().all(|(key, _)| fields.iter().any(|field| field.name == *key))
            }
            (Shape::Logical(_, logical), value) => logical.is_made_for(value),
            _ => false,
        }
    }

    fn takes(&self, shape: &Shape, value: &Value) -> bool {
        match (self.shapes.plain(shape), value) {
            (Shape::Float | Shape::Double, Value::Integer(_) | Value::Float(_)) => true,
            (Shape::Bytes | Shape::Fixed(16), Value::Id(_) | Value::Node(_)) => true,
            (Shape::Text, value) => self.text(value).is_some(),
            (Shape::Map(_), Value::Map(_)) => true,
            (Shape::Record(fields), Value::Map(map)) => fields.iter().all(|field| {
                field.default.is_some() || map.get(field.name.as_str()).is_some() || self.takes(&field.shape, &Value::Null)
            }),
            (Shape::Union(branches), value) => self.branch(branches, value).is_some(),
            (Shape::Logical(inner, logical), value) => self.plain(inner, *logical, value).is_some(),
            (shape, value) => self.is_made_for(shape, value),
        }
    }

    /// What stands for a value, and has the length that the schema says.
    fn plain(&self, inner: &Shape, logical: Logical, value: &Value) -> Option<Value> {
        let plain = logical.plain(value, self.ids)?;
        match (logical, self.shapes.plain(inner), &plain) {
            (Logical::Decimal { .. }, Shape::Fixed(size), Value::Bytes(bytes)) => widened(bytes, *size),
            _ => Some(plain),
        }
    }

    fn text(&self, value: &Value) -> Option<String> {
        Some(match value {
            Value::Text(text) => text.as_str().to_owned(),
            Value::Id(id) | Value::Node(id) => self.ids.text(*id),
            Value::Date(_) | Value::LocalTime(_) | Value::Time(_) => value.to_text(),
            Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_) => value.to_text(),
            _ => return None,
        })
    }
}

impl Logical {
    fn is_made_for(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Logical::Date, Value::Date(_))
                | (Logical::Time(_), Value::LocalTime(_))
                | (Logical::Timestamp(_), Value::DateTime(_))
                | (Logical::LocalTimestamp(_), Value::LocalDateTime(_))
                | (Logical::Duration, Value::Duration(_))
                | (Logical::Uuid, Value::Id(_))
        )
    }

    /// What stands for a value: a number, or bytes. One that is that already is taken as it is.
    fn plain(self, value: &Value, ids: IdScheme) -> Option<Value> {
        let units = |nanos: i128, unit: i64| i64::try_from(nanos.div_euclid(i128::from(unit))).ok().map(Value::Integer);
        match (self, value) {
            (Logical::Date, Value::Date(date)) => Some(Value::Integer(date.epoch_day)),
            (Logical::Time(unit), Value::LocalTime(time)) => units(i128::from(time.nano_of_day), unit),
            (Logical::Timestamp(unit), Value::DateTime(at)) => {
                units(i128::from(at.epoch_second) * i128::from(NANOS_PER_SECOND) + i128::from(at.nano), unit)
            }
            (Logical::LocalTimestamp(unit), Value::LocalDateTime(at)) => {
                let seconds = i128::from(at.epoch_day) * i128::from(SECONDS_PER_DAY);
                units(seconds * i128::from(NANOS_PER_SECOND) + i128::from(at.nano_of_day), unit)
            }
            (Logical::Duration, Value::Duration(length)) => {
                let millis = i128::from(length.seconds) * 1000 + i128::from(length.nanos) / NANOS_PER_MILLI;
                let parts = [i128::from(length.months), i128::from(length.days), millis].map(u32::try_from);
                let [Ok(months), Ok(days), Ok(millis)] = parts else { return None };
                Some(Value::Bytes([months, days, millis].map(u32::to_le_bytes).concat().into()))
            }
            (Logical::Uuid, Value::Id(id) | Value::Node(id)) => Some(Value::Bytes(id.to_bytes().as_slice().into())),
            (Logical::Uuid, Value::Text(text)) => ids.parse(text).map(|id| Value::Bytes(id.to_bytes().as_slice().into())),
            (Logical::Decimal { precision, scale }, Value::Text(text)) => decimal(text, precision, scale),
            (Logical::Decimal { precision, scale }, Value::Integer(n)) => decimal(&n.to_string(), precision, scale),
            (Logical::Date | Logical::Time(_) | Logical::Timestamp(_) | Logical::LocalTimestamp(_), Value::Integer(_)) => {
                Some(value.clone())
            }
            (Logical::Duration | Logical::Uuid | Logical::Decimal { .. }, Value::Bytes(_)) => Some(value.clone()),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Logical::Date => "a date",
            Logical::Time(_) => "a local time",
            Logical::Timestamp(_) => "a datetime",
            Logical::LocalTimestamp(_) => "a local datetime",
            Logical::Duration => "a duration without negative parts",
            Logical::Decimal { .. } => {
                "a decimal number, as text, with no more digits, before and behind the point, than the schema has"
            }
            Logical::Uuid => "a UUID",
        }
    }
}

impl Shape {
    fn name(&self) -> &'static str {
        match self {
            Shape::Null => "null",
            Shape::Boolean => "a boolean",
            Shape::Integer { .. } => "an integer",
            Shape::Float | Shape::Double => "a number",
            Shape::Bytes => "bytes",
            Shape::Fixed(_) => "as many bytes as the schema says",
            Shape::Text => "a string",
            Shape::List(_) => "a list",
            Shape::Map(_) | Shape::Record(_) => "a map",
            Shape::Union(_) => "a value of the union",
            Shape::Enum(_) => "a symbol of the enumeration",
            Shape::Named(_) | Shape::Logical(..) => "another value",
        }
    }
}

/// A number without its point, in two's complement, the greatest byte first and as few of them as will do. None with more digits
/// than it may have, or than are read.
fn decimal(text: &str, precision: usize, scale: usize) -> Option<Value> {
    let is_negative = text.starts_with('-');
    let amount = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (front, back) = amount.split_once('.').unwrap_or((amount, ""));
    let are_digits = [front, back].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    if !are_digits || front.len() + back.len() == 0 || back.len() > scale || scale > SCALE_MAX {
        return None;
    }
    let digits = format!("{front}{back:0<scale$}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > precision {
        return None;
    }
    let number = unscaled(digits)?;
    let number = if is_negative { negated(number) } else { number };
    let sign = number[0];
    let spare = number.windows(2).take_while(|pair| pair[0] == sign && (pair[1] ^ sign) < 0x80).count();
    Some(Value::Bytes(number[spare..].into()))
}

/// The amount of these digits; its first byte is that of the sign.
fn unscaled(digits: &str) -> Option<Unscaled> {
    let mut number: Unscaled = [0; size_of::<Unscaled>()];
    for digit in digits.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in number.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if number[0] > 0 {
            return None;
        }
    }
    Some(number)
}

/// A number in two's complement, in `size` bytes. None where it needs more.
fn widened(bytes: &[u8], size: usize) -> Option<Value> {
    let spare = size.checked_sub(bytes.len())?;
    let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
    Some(Value::Bytes([&vec![sign; spare][..], bytes].concat().into()))
}

fn bounded(depth: usize) -> Outcome {
    if depth > DEPTH_MAX { Err(format!("values lie within values deeper than {DEPTH_MAX}")) } else { Ok(()) }
}

fn within(name: &str, problem: &str) -> String {
    match problem.strip_prefix("field `") {
        Some(inner) if inner.starts_with('[') => format!("field `{name}{inner}"),
        Some(inner) => format!("field `{name}.{inner}"),
        None => format!("field `{name}`: {problem}"),
    }
}

/// Zigzag, seven bits a byte.
fn put(n: i64, out: &mut Vec<u8>) {
    let mut left = ((n << 1) ^ (n >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
