//! Decoding: the bytes of a message become a map, in one walk over them.
//!
//! Each field of a message has a slot that fills as the bytes come, and the map is made of the slots at the end: so entries stand
//! as declared, the last of several values wins, and absent fields have their defaults. A message that comes in several pieces is
//! one message whose bytes are those of the pieces, one behind the other; that is why it waits in its slot until all have come.

use std::sync::Arc;

use super::schema::{Field, Message, Schema, Shape, Type};
use super::wire::{Layout, Wire, unzigzag};
use super::{DEPTH_MAX, Outcome, Problem};
use crate::value::{Map, Text, Value};

/// Slots of the messages of one record, for free and for each of its bytes. Most take bytes; but an empty message of a type with
/// a thousand fields takes two and has a thousand defaults.
const SLOTS_FREE: usize = 1 << 20;
const SLOTS_PER_BYTE: usize = 4;

/// Which fields of the outermost message are decoded. The others are passed over, and their keys are absent.
#[derive(Clone, Debug, Default)]
pub enum Wanted {
    #[default]
    All,
    /// By place, for the message it was made for.
    Fields(Box<[bool]>),
}

pub fn message(schema: &Schema, place: usize, bytes: &[u8], wanted: &Wanted) -> Outcome<Map> {
    let wanted = match wanted {
        Wanted::All => None,
        Wanted::Fields(places) => Some(&**places),
    };
    let left = SLOTS_FREE.saturating_add(bytes.len().saturating_mul(SLOTS_PER_BYTE));
    let mut decoding = Decoding { schema, slots: Vec::with_capacity(schema.messages[place].fields.len()), left };
    decoding.message(place, &[bytes], wanted, 0)
}

enum Slot<'a> {
    Empty,
    Value(Value),
    /// A message that is not decoded yet.
    Message(&'a [u8]),
    Pieces(Vec<&'a [u8]>),
    List(Vec<Value>),
    Entries(Vec<(Text, Value)>),
}

struct Decoding<'s, 'a> {
    schema: &'s Schema,
    /// Of the message at hand, and below those of the messages around it.
    slots: Vec<Slot<'a>>,
    /// Slots there may still be.
    left: usize,
}

impl<'s, 'a> Decoding<'s, 'a> {
    fn message(&mut self, place: usize, pieces: &[&'a [u8]], wanted: Option<&[bool]>, depth: usize) -> Outcome<Map> {
        let message = &self.schema.messages[place];
        let base = self.fill(message, pieces, wanted, depth)?;
        let mut map = Map::with_capacity(message.fields.len());
        for (at, field) in message.fields.iter().enumerate() {
            if wanted.is_some_and(|wanted| wanted.get(at) == Some(&false)) {
                continue;
            }
            let slot = std::mem::replace(&mut self.slots[base + at], Slot::Empty);
            if let Some(value) = self.value(field, slot, depth).map_err(|problem| problem.within(&field.name))? {
                // A message names no field twice.
                map.push_unique(field.name.clone(), value);
            }
        }
        self.slots.truncate(base);
        Ok(map)
    }

    /// Reads all pieces of a message; returns where its slots begin.
    fn fill(&mut self, message: &'s Message, pieces: &[&'a [u8]], wanted: Option<&[bool]>, depth: usize) -> Outcome<usize> {
        if depth > DEPTH_MAX {
            return Err(Problem::new(format!("messages lie within messages deeper than {DEPTH_MAX}")));
        }
        let count = message.fields.len();
        self.left = self.left.checked_sub(count).ok_or("the message has far more absent fields than bytes")?;
        let base = self.slots.len();
        self.slots.resize_with(base + count, || Slot::Empty);
        for piece in pieces {
            let mut wire = Wire::new(piece);
            while let Some((number, layout)) = wire.tag()? {
                let Some(at) = message.place(number) else {
                    wire.skip(number, layout)?;
                    continue;
                };
                let field = &message.fields[at];
                if !fits(field, layout) {
                    wire.skip(number, layout)?;
                    continue;
                }
                if let Some(oneof) = field.oneof {
                    for other in message.oneofs[oneof].iter().filter(|other| **other != at) {
                        self.slots[base + other] = Slot::Empty;
                    }
                }
                if wanted.is_some_and(|wanted| wanted.get(at) == Some(&false)) {
                    wire.skip(number, layout)?;
                    continue;
                }
                self.field(field, layout, &mut wire, base + at, depth).map_err(|problem| problem.within(&field.name))?;
            }
        }
        Ok(base)
    }

    fn field(&mut self, field: &Field, layout: Layout, wire: &mut Wire<'a>, slot: usize, depth: usize) -> Outcome<()> {
        match (field.shape, field.of) {
            (Shape::One, Type::Message(_) | Type::Group(_)) => {
                let piece = piece(field, wire)?;
                self.slots[slot] = match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
                    Slot::Message(first) => Slot::Pieces(vec![first, piece]),
                    Slot::Pieces(mut pieces) => {
                        pieces.push(piece);
                        Slot::Pieces(pieces)
                    }
                    _ => Slot::Message(piece),
                };
            }
            (Shape::One, of) => match self.scalar(of, wire)? {
                Some(value) => self.slots[slot] = Slot::Value(value),
                // An entry of a map with such a value is none.
                None if field.implicit => self.slots[slot] = Slot::Value(Value::Null),
                None => {}
            },
            (Shape::List { .. }, Type::Message(place) | Type::Group(place)) => {
                let piece = piece(field, wire)?;
                let item = self.message(place, &[piece], None, depth + 1)?;
                self.push(slot, Value::Map(Arc::new(item)));
            }
            (Shape::List { .. }, of) if layout == Layout::Sized && of.is_packable() => {
                let mut packed = Wire::new(wire.sized()?);
                let mut items = match std::mem::replace(&mut self.slots[slot], Slot::Empty) {
                    Slot::List(items) => items,
                    _ => Vec::new(),
                };
                while !packed.is_empty() {
                    items.extend(self.scalar(of, &mut packed)?);
                }
                self.slots[slot] = Slot::List(items);
            }
            (Shape::List { .. }, of) => {
                if let Some(item) = self.scalar(of, wire)? {
                    self.push(slot, item);
                }
            }
            (Shape::Map, Type::Message(place)) => {
                if let Some(entry) = self.entry(&self.schema.messages[place], wire.sized()?, depth + 1)? {
                    match &mut self.slots[slot] {
                        Slot::Entries(entries) => entries.push(entry),
                        empty => *empty = Slot::Entries(vec![entry]),
                    }
                }
            }
            (Shape::Map, _) => return Err("a map has entries that are no messages".into()),
        }
        Ok(())
    }

    fn push(&mut self, slot: usize, item: Value) {
        match &mut self.slots[slot] {
            Slot::List(items) => items.push(item),
            empty => *empty = Slot::List(vec![item]),
        }
    }

    /// None where the value is of no meaning to the schema, as a number that its enumeration does not have.
    fn entry(&mut self, message: &'s Message, bytes: &'a [u8], depth: usize) -> Outcome<Option<(Text, Value)>> {
        let base = self.fill(message, &[bytes], None, depth)?;
        let [key, value] = &message.fields[..] else { return Err("a map has entries without a key or a value".into()) };
        let mut part = |at: usize, field: &'s Field| -> Outcome<Value> {
            let slot = match (std::mem::replace(&mut self.slots[base + at], Slot::Empty), field.of) {
                (Slot::Empty, Type::Message(_)) => Slot::Message(&[]),
                (slot, _) => slot,
            };
            Ok(self.value(field, slot, depth)?.unwrap_or_default())
        };
        let (key, value) = (part(0, key)?, part(1, value)?);
        self.slots.truncate(base);
        if value.is_null() {
            return Ok(None);
        }
        let key = match key {
            Value::Text(text) => text,
            Value::Integer(number) if message.fields[0].of.is_unsigned_long() => Text::from((number as u64).to_string()),
            other => Text::from(other.to_text()),
        };
        Ok(Some((key, value)))
    }

    fn value(&mut self, field: &Field, slot: Slot<'a>, depth: usize) -> Outcome<Option<Value>> {
        let of_pieces = |decoding: &mut Self, pieces: &[&'a [u8]]| {
            let (Type::Message(place) | Type::Group(place)) = field.of else { return Ok(None) };
            let map = decoding.message(place, pieces, None, depth + 1)?;
            Ok(Some(Value::Map(Arc::new(map))))
        };
        match slot {
            Slot::Empty if field.required => Err("it is required and absent".into()),
            Slot::Empty => Ok(field.default.clone()),
            Slot::Value(value) => Ok(Some(value)),
            Slot::Message(piece) => of_pieces(self, &[piece]),
            Slot::Pieces(pieces) => of_pieces(self, &pieces),
            Slot::List(items) => Ok(Some(Value::list(items))),
            Slot::Entries(entries) => Ok(Some(Value::map(entries))),
        }
    }

    /// None for a number that a closed enumeration does not have: then it is as if the field had not come.
    #[inline]
    fn scalar(&self, of: Type, wire: &mut Wire<'a>) -> Outcome<Option<Value>> {
        Ok(Some(match of {
            Type::Double => Value::Float(f64::from_le_bytes(wire.fixed64()?)),
            Type::Float => Value::Float(f64::from(f32::from_le_bytes(wire.fixed32()?))),
            // What is too wide is cut off, here as everywhere.
            Type::Int32 => Value::Integer(i64::from(wire.varint()? as i32)),
            Type::Uint32 => Value::Integer(i64::from(wire.varint()? as u32)),
            // The larger half of unsigned numbers becomes negative: the same 64 bits.
            Type::Int64 | Type::Uint64 => Value::Integer(wire.varint()? as i64),
            Type::Sint32 => Value::Integer(unzigzag(u64::from(wire.varint()? as u32))),
            Type::Sint64 => Value::Integer(unzigzag(wire.varint()?)),
            Type::Fixed32 => Value::Integer(i64::from(u32::from_le_bytes(wire.fixed32()?))),
            Type::Sfixed32 => Value::Integer(i64::from(i32::from_le_bytes(wire.fixed32()?))),
            Type::Fixed64 | Type::Sfixed64 => Value::Integer(i64::from_le_bytes(wire.fixed64()?)),
            Type::Bool => Value::Boolean(wire.varint()? != 0),
            Type::Text { strict } => {
                let bytes = wire.sized()?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => Value::text(text),
                    Err(_) if strict => return Err("a string is not UTF-8".into()),
                    Err(_) => Value::text(&String::from_utf8_lossy(bytes)),
                }
            }
            Type::Bytes => Value::Bytes(wire.sized()?.into()),
            Type::Enum(place) => return Ok(self.schema.enums[place].value(wire.varint()? as i32)),
            Type::Message(_) | Type::Group(_) => return Err("a message stands where a plain value belongs".into()),
        }))
    }
}

/// What is laid out otherwise than declared is none of the schema's, and passed over as all of that is.
fn fits(field: &Field, layout: Layout) -> bool {
    layout == field.of.layout()
        || (layout == Layout::Sized && matches!(field.shape, Shape::List { .. }) && field.of.is_packable())
}

fn piece<'a>(field: &Field, wire: &mut Wire<'a>) -> Result<&'a [u8], &'static str> {
    if matches!(field.of, Type::Group(_)) { wire.group(field.number) } else { wire.sized() }
}
