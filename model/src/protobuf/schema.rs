//! Schema: what a descriptor set says, with every name looked up, laid out for decoding and encoding.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::decode::{self, Wanted};
use super::descriptor::{self, DescriptorSet};
use super::wire::Layout;
use super::{ProtobufError, encode, literal};
use crate::id::IdScheme;
use crate::value::{Map, Text, Value};

/// Fields with smaller numbers are found by it.
const DENSE_NUMBERS: u32 = 256;

/// Names that are told where a name says too little.
const TOLD_MAX: usize = 8;

#[derive(Debug)]
pub struct Schema {
    pub(super) messages: Vec<Message>,
    pub(super) enums: Vec<Enum>,
}

/// One message of a schema: what records are decoded and encoded by.
#[derive(Clone, Debug)]
pub struct MessageType {
    pub(super) schema: Arc<Schema>,
    pub(super) place: usize,
}

#[derive(Debug)]
pub(super) struct Message {
    pub full_name: String,
    /// As declared; also the order of the entries of a decoded map.
    pub fields: Vec<Field>,
    /// By number, one more than the place; 0 is none.
    dense: Vec<u32>,
    sparse: FxHashMap<u32, usize>,
    pub names: FxHashMap<Text, usize>,
    /// Of each the places of its members.
    pub oneofs: Vec<Vec<usize>>,
    /// Stands for one entry of a map and nothing else.
    is_entry: bool,
}

#[derive(Debug)]
pub(super) struct Field {
    pub name: Text,
    pub number: u32,
    pub of: Type,
    pub shape: Shape,
    /// What it is where it is absent; none: then its key is absent, too.
    pub default: Option<Value>,
    /// Absent means that it has the default of its type, and the other way round.
    pub implicit: bool,
    pub required: bool,
    pub oneof: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    One,
    /// `packed`: as it is written; both ways are read.
    List {
        packed: bool,
    },
    /// The type is a message of a key and a value.
    Map,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Double,
    Float,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Bool,
    /// `strict`: what is not UTF-8 is refused. Before proto3 it was not.
    Text {
        strict: bool,
    },
    Bytes,
    Enum(usize),
    Message(usize),
    Group(usize),
}

#[derive(Debug)]
pub(super) struct Enum {
    pub full_name: String,
    /// Numbers without a name are no values.
    pub closed: bool,
    pub first: i32,
    pub by_number: FxHashMap<i32, Text>,
    pub by_name: FxHashMap<Text, i32>,
}

impl Schema {
    /// Reads a compiled descriptor set: what `protoc --descriptor_set_out --include_imports` writes.
    pub fn read(descriptors: &[u8]) -> Result<Schema, ProtobufError> {
        let set = descriptor::read(descriptors)?;
        Builder::new(&set)?.schema(&set)
    }

    /// A message by its full name, or the end of it where no other ends so.
    pub fn message(self: &Arc<Schema>, name: &str) -> Result<MessageType, ProtobufError> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let messages = || self.messages.iter().enumerate().filter(|(_, message)| !message.is_entry);
        let found = |place| Ok(MessageType { schema: self.clone(), place });
        if let Some((place, _)) = messages().find(|(_, message)| message.full_name == name) {
            return found(place);
        }
        let ends_so = |full: &str| full.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
        let all: Vec<_> = messages().filter(|(_, message)| ends_so(&message.full_name)).collect();
        let told = |names: &mut dyn Iterator<Item = &str>| names.take(TOLD_MAX).collect::<Vec<_>>().join(", ");
        match all[..] {
            [(place, _)] => found(place),
            [] => {
                let there = told(&mut messages().map(|(_, message)| message.full_name.as_str()));
                Err(ProtobufError(format!("there is no message `{name}` in the descriptor set; there are {there}")))
            }
            _ => {
                let them = told(&mut all.iter().map(|(_, message)| message.full_name.as_str()));
                Err(ProtobufError(format!("`{name}` may be any of {them}; give the full name")))
            }
        }
    }
}

impl MessageType {
    pub fn full_name(&self) -> &str {
        &self.schema.messages[self.place].full_name
    }

    /// The fields of these names, for decoding only those; names that are no fields are ignored.
    pub fn wanted<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Wanted {
        let message = &self.schema.messages[self.place];
        let mut wanted = vec![false; message.fields.len()];
        names.into_iter().filter_map(|name| message.names.get(name)).for_each(|place| wanted[*place] = true);
        Wanted::Fields(wanted.into())
    }

    /// The map that the bytes of one message stand for.
    pub fn decode(&self, bytes: &[u8], wanted: &Wanted) -> Result<Map, ProtobufError> {
        decode::message(&self.schema, self.place, bytes, wanted).map_err(|problem| problem.told())
    }

    /// Appends the bytes of the message that a map stands for. Keys that are no fields, and nulls, are left out. On an error
    /// `out` may have a part of them.
    pub fn encode(&self, map: &Map, ids: IdScheme, out: &mut Vec<u8>) -> Result<(), ProtobufError> {
        encode::message(&self.schema, self.place, map, ids, out).map_err(|problem| problem.told())
    }
}

impl Message {
    #[inline]
    pub fn place(&self, number: u32) -> Option<usize> {
        if number < DENSE_NUMBERS {
            return (*self.dense.get(number as usize)? as usize).checked_sub(1);
        }
        self.sparse.get(&number).copied()
    }

    fn new(full_name: String, fields: Vec<Field>, oneof_count: usize, is_entry: bool) -> Result<Message, ProtobufError> {
        let (mut dense, mut sparse, mut names) = (Vec::new(), FxHashMap::default(), FxHashMap::default());
        let mut oneofs = vec![Vec::new(); oneof_count];
        for (place, field) in fields.iter().enumerate() {
            let wrong = |what: &str| ProtobufError(format!("message {full_name} has two fields {what}"));
            if names.insert(field.name.clone(), place).is_some() {
                return Err(wrong(&format!("with the name {}", field.name)));
            }
            let taken = if field.number < DENSE_NUMBERS {
                let at = field.number as usize;
                dense.resize(dense.len().max(at + 1), 0);
                std::mem::replace(&mut dense[at], place as u32 + 1) != 0
            } else {
                sparse.insert(field.number, place).is_some()
            };
            if taken {
                return Err(wrong(&format!("with the number {}", field.number)));
            }
            if let Some(members) = field.oneof.and_then(|at| oneofs.get_mut(at)) {
                members.push(place);
            }
        }
        Ok(Message { full_name, fields, dense, sparse, names, oneofs, is_entry })
    }
}

impl Type {
    /// How a value of it lies behind its tag.
    pub fn layout(self) -> Layout {
        match self {
            Type::Double | Type::Fixed64 | Type::Sfixed64 => Layout::Fixed64,
            Type::Float | Type::Fixed32 | Type::Sfixed32 => Layout::Fixed32,
            Type::Text { .. } | Type::Bytes | Type::Message(_) => Layout::Sized,
            Type::Group(_) => Layout::GroupStart,
            _ => Layout::Varint,
        }
    }

    pub fn is_packable(self) -> bool {
        !matches!(self.layout(), Layout::Sized | Layout::GroupStart)
    }

    /// Of 64 bits, all of them for the amount.
    pub fn is_unsigned_long(self) -> bool {
        matches!(self, Type::Uint64 | Type::Fixed64)
    }

    /// The name a declaration gives it.
    pub fn name(self, schema: &Schema) -> &str {
        match self {
            Type::Double => "double",
            Type::Float => "float",
            Type::Int32 => "int32",
            Type::Int64 => "int64",
            Type::Uint32 => "uint32",
            Type::Uint64 => "uint64",
            Type::Sint32 => "sint32",
            Type::Sint64 => "sint64",
            Type::Fixed32 => "fixed32",
            Type::Fixed64 => "fixed64",
            Type::Sfixed32 => "sfixed32",
            Type::Sfixed64 => "sfixed64",
            Type::Bool => "bool",
            Type::Text { .. } => "string",
            Type::Bytes => "bytes",
            Type::Enum(place) => &schema.enums[place].full_name,
            Type::Message(place) | Type::Group(place) => &schema.messages[place].full_name,
        }
    }

    /// What an absent field of it stands for; messages have nothing such.
    pub fn zero(self, enums: &[Enum]) -> Option<Value> {
        Some(match self {
            Type::Double | Type::Float => Value::Float(0.0),
            Type::Bool => Value::Boolean(false),
            Type::Text { .. } => Value::text(""),
            Type::Bytes => Value::Bytes([].into()),
            Type::Enum(place) => enums[place].value(enums[place].first)?,
            Type::Message(_) | Type::Group(_) => return None,
            _ => Value::Integer(0),
        })
    }
}

impl Enum {
    /// The name of a number, or the number where there is none; nothing where that is no value.
    pub fn value(&self, number: i32) -> Option<Value> {
        match self.by_number.get(&number) {
            Some(name) => Some(Value::Text(name.clone())),
            None => (!self.closed).then(|| Value::Integer(number.into())),
        }
    }
}

/// Where the types of a set will stand, by full name.
struct Builder {
    places: FxHashMap<String, Named>,
}

#[derive(Clone, Copy)]
enum Named {
    Message(usize),
    Enum(usize),
}

impl Builder {
    fn new(set: &DescriptorSet<'_>) -> Result<Builder, ProtobufError> {
        let mut places = FxHashMap::default();
        let messages = set.messages.iter().enumerate().map(|(place, message)| (&message.full_name, Named::Message(place)));
        let enums = set.enums.iter().enumerate().map(|(place, named)| (&named.full_name, Named::Enum(place)));
        for (name, named) in messages.chain(enums) {
            if places.insert(name.clone(), named).is_some() {
                return Err(ProtobufError(format!("the descriptor set defines {name} twice")));
            }
        }
        Ok(Builder { places })
    }

    fn schema(&self, set: &DescriptorSet<'_>) -> Result<Schema, ProtobufError> {
        let enums = set.enums.iter().map(read_enum).collect::<Result<Vec<_>, _>>()?;
        let mut messages = Vec::with_capacity(set.messages.len());
        for message in &set.messages {
            let fields = message.fields.iter().map(|field| {
                let wrong =
                    |what: String| ProtobufError(format!("field {} of message {}: {what}", field.name, message.full_name));
                self.field(set, message, field, &enums).map_err(wrong)
            });
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            messages.push(Message::new(message.full_name.clone(), fields, message.oneof_count, message.is_entry)?);
        }
        for message in messages.iter().filter(|message| message.is_entry) {
            let shapes: Vec<_> = message.fields.iter().map(|field| (field.number, field.shape)).collect();
            if shapes != [(1, Shape::One), (2, Shape::One)] {
                return Err(ProtobufError(format!("{} is no entry of a map: it needs a key and a value", message.full_name)));
            }
        }
        Ok(Schema { messages, enums })
    }

    fn field(
        &self,
        set: &DescriptorSet<'_>,
        message: &descriptor::Message<'_>,
        field: &descriptor::Field<'_>,
        enums: &[Enum],
    ) -> Result<Field, String> {
        let of = self.kind(set, message, field)?;
        if !(1..1 << 29).contains(&field.number) {
            return Err(format!("{} is not the number of a field", field.number));
        }
        let shape = match (field.label, of) {
            (descriptor::REPEATED, Type::Message(place)) if set.messages[place].is_entry => Shape::Map,
            (descriptor::REPEATED, _) => Shape::List { packed: field.packed && of.is_packable() },
            _ => Shape::One,
        };
        let oneof = field.oneof.filter(|_| !field.is_synthetic);
        if oneof.is_some_and(|at| at >= message.oneof_count) {
            return Err("it is of a oneof that there is not".to_owned());
        }
        // The parts of an entry have no presence, however they are declared.
        let implicit = message.is_entry || (!field.presence && field.oneof.is_none() && field.label != descriptor::REQUIRED);
        let default = match (shape, field.default) {
            (Shape::List { .. }, _) => Some(Value::list(Vec::new())),
            (Shape::Map, _) => Some(Value::map([])),
            (Shape::One, Some(text)) if !message.is_entry => Some(literal::value(text, of, enums)?),
            (Shape::One, _) if implicit => of.zero(enums),
            (Shape::One, _) => None,
        };
        let required = field.label == descriptor::REQUIRED;
        Ok(Field { name: Text::new(field.name), number: field.number, of, shape, default, implicit, required, oneof })
    }

    fn kind(
        &self,
        set: &DescriptorSet<'_>,
        message: &descriptor::Message<'_>,
        field: &descriptor::Field<'_>,
    ) -> Result<Type, String> {
        // Neither maps nor what is in them.
        let delimited = |place: usize| field.delimited && !message.is_entry && !set.messages[place].is_entry;
        Ok(match field.kind {
            1 => Type::Double,
            2 => Type::Float,
            3 => Type::Int64,
            4 => Type::Uint64,
            5 => Type::Int32,
            6 => Type::Fixed64,
            7 => Type::Fixed32,
            8 => Type::Bool,
            9 => Type::Text { strict: field.strict },
            12 => Type::Bytes,
            13 => Type::Uint32,
            15 => Type::Sfixed32,
            16 => Type::Sfixed64,
            17 => Type::Sint32,
            18 => Type::Sint64,
            // Only a parser leaves it out, where a name says enough.
            0 | 10 | 11 | 14 => match (self.named(&message.full_name, field.type_name)?, field.kind) {
                (Named::Message(place), 10) => Type::Group(place),
                (Named::Message(place), 0 | 11) if delimited(place) => Type::Group(place),
                (Named::Message(place), 0 | 11) => Type::Message(place),
                (Named::Enum(place), 0 | 14) => Type::Enum(place),
                _ => return Err(format!("{} is a type of another kind", field.type_name)),
            },
            other => return Err(format!("{other} is the number of no type")),
        })
    }

    /// A full name begins with a dot; others are looked for from the inside out.
    fn named(&self, scope: &str, name: &str) -> Result<Named, String> {
        if let Some(full) = name.strip_prefix('.') {
            let found = self.places.get(full).copied();
            return found.ok_or_else(|| {
                format!("its type {full} is not in the descriptor set; protoc puts it there with --include_imports")
            });
        }
        let mut scope = scope;
        loop {
            let full = if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") };
            if let Some(found) = self.places.get(&full) {
                return Ok(*found);
            }
            if scope.is_empty() {
                return Err(format!("its type {name:?} is not in the descriptor set"));
            }
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
        }
    }
}

fn read_enum(named: &descriptor::Enum<'_>) -> Result<Enum, ProtobufError> {
    let (mut by_number, mut by_name) = (FxHashMap::default(), FxHashMap::default());
    for (name, number) in &named.values {
        // Of several names for a number the first is shown.
        by_number.entry(*number).or_insert_with(|| Text::new(name));
        by_name.insert(Text::new(name), *number);
    }
    let first = named.values.first().ok_or_else(|| ProtobufError(format!("enum {} has no values", named.full_name)))?.1;
    Ok(Enum { full_name: named.full_name.clone(), closed: named.closed, first, by_number, by_name })
}
