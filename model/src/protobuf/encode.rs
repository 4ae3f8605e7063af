//! Encoding: a map becomes the bytes of a message. Keys that are no fields, and nulls, are left out; a value that does not fit
//! its field is a failure that names both.
//!
//! Fields are written in the order of their numbers, as everybody does, so that equal maps give equal bytes.

use super::schema::{Enum, Field, Message, Schema, Shape, Type};
use super::wire::{Layout, put_sized, put_tag, put_varint, zigzag};
use super::{DEPTH_MAX, Outcome, Problem};
use crate::id::IdScheme;
use crate::temporal::{Date, LocalDateTime, LocalTime, NANOS_PER_SECOND};
use crate::value::{Map, Text, Value};

const NANOS_PER_MILLI: i64 = 1_000_000;

pub fn message(schema: &Schema, place: usize, map: &Map, ids: IdScheme, out: &mut Vec<u8>) -> Outcome<()> {
    Encoding { schema, ids }.message(place, map, 0, out)
}

struct Encoding<'s> {
    schema: &'s Schema,
    ids: IdScheme,
}

impl Encoding<'_> {
    fn message(&self, place: usize, map: &Map, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
        if depth > DEPTH_MAX {
            return Err(Problem::new(format!("messages lie within messages deeper than {DEPTH_MAX}")));
        }
        let message = &self.schema.messages[place];
        let given = map.iter().filter(|(_, value)| !value.is_null());
        let mut given: Vec<(&Field, &Value)> =
            given.filter_map(|(name, value)| Some((&message.fields[*message.names.get(name)?], value))).collect();
        given.sort_unstable_by_key(|(field, _)| field.number);
        one_of_each(message, &given)?;
        for (field, value) in given {
            self.field(field, value, depth, out).map_err(|problem| problem.within(&field.name))?;
        }
        let absent = |field: &&Field| field.required && map.get(&field.name).is_none_or(Value::is_null);
        match message.fields.iter().find(absent) {
            Some(field) => Err(Problem::new("it is required and absent").within(&field.name)),
            None => Ok(()),
        }
    }

    fn field(&self, field: &Field, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
        match (field.shape, value) {
            (Shape::One, value) => {
                let before = out.len();
                put_tag(field.number, field.of.layout(), out);
                let at = out.len();
                self.value(field, value, depth, out)?;
                let plain = !matches!(field.of, Type::Message(_) | Type::Group(_));
                if field.implicit && plain && out[at..].iter().all(|byte| *byte == 0) {
                    // The default of its type: absent says the same.
                    out.truncate(before);
                }
            }
            (Shape::List { packed: true }, Value::List(items)) if items.is_empty() => {}
            (Shape::List { packed: true }, Value::List(items)) => {
                put_tag(field.number, Layout::Sized, out);
                put_sized(out, |out| {
                    let mut items = items.iter().enumerate();
                    items.try_for_each(|(at, item)| {
                        self.value(field, item, depth, out).map_err(|problem| problem.within(&format!("[{at}]")))
                    })
                })?;
            }
            (Shape::List { packed: false }, Value::List(items)) => {
                for (at, item) in items.iter().enumerate() {
                    put_tag(field.number, field.of.layout(), out);
                    self.value(field, item, depth, out).map_err(|problem| problem.within(&format!("[{at}]")))?;
                }
            }
            (Shape::List { .. }, other) => {
                return Err(Problem::new(format!("expected a list of {}, but got {}", self.name(field.of), shown(other))));
            }
            (Shape::Map, Value::Map(map)) => {
                for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                    let entry = |out: &mut Vec<u8>| self.entry(field, key, value, depth + 1, out);
                    put_tag(field.number, Layout::Sized, out);
                    put_sized(out, entry).map_err(|problem| problem.within(&format!("[{key:?}]")))?;
                }
            }
            (Shape::Map, other) => return Err(Problem::new(format!("expected a map, but got {}", shown(other)))),
        }
        Ok(())
    }

    fn entry(&self, field: &Field, key: &Text, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
        let Type::Message(place) = field.of else { return Err("a map has entries that are no messages".into()) };
        let [of_key, of_value] = &self.schema.messages[place].fields[..] else {
            return Err("a map has entries without a key or a value".into());
        };
        let expected = || Problem::new(format!("expected a key of type {}", self.name(of_key.of)));
        let key = match of_key.of {
            Type::Text { .. } => Value::Text(key.clone()),
            Type::Bool => Value::Boolean(key.parse().map_err(|_| expected())?),
            of if of.is_unsigned_long() => Value::Integer(key.parse::<u64>().map_err(|_| expected())? as i64),
            _ => Value::Integer(key.parse().map_err(|_| expected())?),
        };
        // Both are always written, as everybody does.
        for (part, value) in [(of_key, &key), (of_value, value)] {
            put_tag(part.number, part.of.layout(), out);
            self.value(part, value, depth, out)?;
        }
        Ok(())
    }

    /// What stands behind the tag of a value.
    fn value(&self, field: &Field, value: &Value, depth: usize, out: &mut Vec<u8>) -> Outcome<()> {
        let expected = || Problem::new(format!("expected {}, but got {}", self.name(field.of), shown(value)));
        match (field.of, value) {
            (Type::Message(place), value) => {
                let map = self.as_map(place, value).ok_or_else(expected)?;
                put_sized(out, |out| self.message(place, &map, depth + 1, out))?;
            }
            (Type::Group(place), value) => {
                let map = self.as_map(place, value).ok_or_else(expected)?;
                self.message(place, &map, depth + 1, out)?;
                put_tag(field.number, Layout::GroupEnd, out);
            }
            (Type::Double, Value::Float(x)) => out.extend(x.to_le_bytes()),
            (Type::Double, Value::Integer(n)) => out.extend((*n as f64).to_le_bytes()),
            (Type::Float, Value::Float(x)) => out.extend((*x as f32).to_le_bytes()),
            (Type::Float, Value::Integer(n)) => out.extend((*n as f32).to_le_bytes()),
            (Type::Bool, Value::Boolean(yes)) => out.push(u8::from(*yes)),
            (Type::Bytes, Value::Bytes(bytes)) => put_bytes(bytes, out),
            (Type::Bytes, Value::Id(id) | Value::Node(id)) => put_bytes(&id.to_bytes(), out),
            (Type::Text { .. }, value) => put_bytes(self.as_text(value).ok_or_else(expected)?.as_bytes(), out),
            (Type::Enum(place), value) => {
                let named = &self.schema.enums[place];
                let number = enum_number(named, value).ok_or_else(|| match value {
                    Value::Text(_) => Problem::new(format!("enum {} has no value {}", named.full_name, shown(value))),
                    _ => expected(),
                })?;
                put_varint(i64::from(number) as u64, out);
            }
            (of, value) => put_integer(of, as_integer(of, value).ok_or_else(expected)?, out),
        }
        Ok(())
    }

    fn name(&self, of: Type) -> &str {
        of.name(self.schema)
    }

    /// The map that stands for a value in a message of this type.
    fn as_map(&self, place: usize, value: &Value) -> Option<Map> {
        let whole = |name: &str, n: i64| (Text::new(name), Value::Integer(n));
        let day = |date: Date| {
            let (year, month, day) = date.civil();
            [whole("year", year), whole("month", month), whole("day", day)]
        };
        let clock = |nano_of_day: i64| {
            let second = nano_of_day / NANOS_PER_SECOND;
            let nanos = nano_of_day % NANOS_PER_SECOND;
            [
                whole("hours", second / 3600),
                whole("minutes", second / 60 % 60),
                whole("seconds", second % 60),
                whole("nanos", nanos),
            ]
        };
        let local = |at: LocalDateTime| day(at.date()).into_iter().chain(clock(at.nano_of_day));
        Some(match (self.schema.messages[place].full_name.as_str(), value) {
            (_, Value::Map(map)) => Map::clone(map),
            (_, Value::FullNode(node)) => {
                let labels = node.labels.iter().map(|label| Value::Text(label.clone())).collect();
                Map::from_iter([
                    (Text::new("id"), Value::Id(node.id)),
                    (Text::new("labels"), Value::list(labels)),
                    (Text::new("properties"), Value::Map(node.properties.clone().into())),
                ])
            }
            ("google.protobuf.Timestamp", Value::DateTime(at)) => {
                Map::from_iter([whole("seconds", at.epoch_second), whole("nanos", at.nano.into())])
            }
            ("google.protobuf.Duration", Value::Duration(length)) => {
                let nanos = length.length_nanos();
                let second = i128::from(NANOS_PER_SECOND);
                let seconds = i64::try_from(nanos / second).ok()?;
                Map::from_iter([whole("seconds", seconds), whole("nanos", (nanos % second) as i64)])
            }
            ("google.type.DateTime", Value::DateTime(at)) => {
                let offset = Map::from_iter([whole("seconds", at.offset_seconds.into())]);
                local(at.local()).chain([(Text::new("utc_offset"), Value::Map(offset.into()))]).collect()
            }
            ("google.type.DateTime", Value::LocalDateTime(at)) => local(*at).collect(),
            ("google.type.Date", Value::Date(date)) => day(*date).into_iter().collect(),
            ("google.type.TimeOfDay", Value::Time(time)) => clock(time.nano_of_day).into_iter().collect(),
            ("google.type.TimeOfDay", Value::LocalTime(time)) => clock(time.nano_of_day).into_iter().collect(),
            _ => return None,
        })
    }

    fn as_text(&self, value: &Value) -> Option<Text> {
        Some(match value {
            Value::Text(text) => text.clone(),
            Value::Id(id) | Value::Node(id) => Text::from(self.ids.text(*id)),
            Value::Date(_) | Value::LocalTime(_) | Value::Time(_) => Text::from(value.to_text()),
            Value::LocalDateTime(_) | Value::DateTime(_) | Value::Duration(_) => Text::from(value.to_text()),
            _ => return None,
        })
    }
}

fn one_of_each(message: &Message, given: &[(&Field, &Value)]) -> Outcome<()> {
    for (at, (field, _)) in given.iter().enumerate() {
        if field.oneof.is_none() {
            continue;
        }
        if let Some((other, _)) = given[..at].iter().find(|(other, _)| other.oneof == field.oneof) {
            let of = &message.full_name;
            return Err(Problem::new(format!("{of} can have `{}` or `{}`, but not both", other.name, field.name)));
        }
    }
    Ok(())
}

/// What a value is as a number of 64 bits.
fn as_integer(of: Type, value: &Value) -> Option<i64> {
    let plain = matches!(of, Type::Int64 | Type::Sint64 | Type::Sfixed64);
    if matches!(of, Type::Bool | Type::Bytes | Type::Double | Type::Float) {
        return None;
    }
    Some(match value {
        Value::Integer(n) => *n,
        Value::DateTime(at) if plain => at.epoch_millis(),
        Value::Duration(length) if plain => i64::try_from(length.length_nanos() / i128::from(NANOS_PER_MILLI)).ok()?,
        Value::Date(date) if plain => date.epoch_day,
        Value::LocalTime(LocalTime { nano_of_day }) if plain => *nano_of_day,
        Value::LocalDateTime(at) if plain => at.with_offset(0, None).epoch_millis(),
        _ => return None,
    })
}

/// Of too many bits those that have room are kept, as the reference service has it.
fn put_integer(of: Type, n: i64, out: &mut Vec<u8>) {
    match of {
        Type::Int32 => put_varint(i64::from(n as i32) as u64, out),
        Type::Uint32 => put_varint(u64::from(n as u32), out),
        Type::Sint32 => put_varint(zigzag(i64::from(n as i32)), out),
        Type::Sint64 => put_varint(zigzag(n), out),
        Type::Fixed32 | Type::Sfixed32 => out.extend((n as u32).to_le_bytes()),
        Type::Fixed64 | Type::Sfixed64 => out.extend(n.to_le_bytes()),
        _ => put_varint(n as u64, out),
    }
}

fn enum_number(named: &Enum, value: &Value) -> Option<i32> {
    match value {
        Value::Text(name) => named.by_name.get(name).copied(),
        Value::Integer(n) => i32::try_from(*n).ok().filter(|n| !named.closed || named.by_number.contains_key(n)),
        _ => None,
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn shown(value: &Value) -> String {
    crate::arithmetic::shortened(value)
}
