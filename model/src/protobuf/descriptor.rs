//! Descriptors: the messages and enumerations that a `FileDescriptorSet` declares, with the rules of syntax and edition applied
//! to each field. A set is itself Protobuf; its numbers below are those of `google/protobuf/descriptor.proto`.

use super::wire::{Layout, Wire};
use super::{DEPTH_MAX, ProtobufError};

pub const REQUIRED: u64 = 2;
pub const REPEATED: u64 = 3;

#[derive(Default)]
pub struct DescriptorSet<'a> {
    pub messages: Vec<Message<'a>>,
    pub enums: Vec<Enum<'a>>,
}

pub struct Message<'a> {
    pub full_name: String,
    pub fields: Vec<Field<'a>>,
    pub oneof_count: usize,
    pub is_entry: bool,
}

#[derive(Default)]
pub struct Field<'a> {
    pub name: &'a str,
    pub number: u32,
    /// Optional, required or repeated, by number.
    pub label: u64,
    /// Of type, by number.
    pub kind: u64,
    /// Empty for types that have a number of their own.
    pub type_name: &'a str,
    pub default: Option<&'a str>,
    pub oneof: Option<usize>,
    /// The oneof is how proto3 writes down an `optional`.
    pub is_synthetic: bool,
    /// Whether the bytes tell an absent field from one with the default.
    pub presence: bool,
    pub packed: bool,
    /// Texts have to be UTF-8.
    pub strict: bool,
    /// Messages are written as groups.
    pub delimited: bool,
}

pub struct Enum<'a> {
    pub full_name: String,
    pub values: Vec<(&'a str, i32)>,
    pub closed: bool,
}

/// What editions call features: set for a file, and set anew for parts of it.
#[derive(Clone, Copy)]
struct Features {
    presence: u64,
    enums: u64,
    repeated: u64,
    texts: u64,
    messages: u64,
}

const PRESENCE_IMPLICIT: u64 = 2;
const PRESENCE_REQUIRED: u64 = 3;
const ENUMS_CLOSED: u64 = 2;
const REPEATED_PACKED: u64 = 1;
const TEXTS_VERIFIED: u64 = 2;
const MESSAGES_DELIMITED: u64 = 2;

impl Features {
    const PROTO2: Features = Features { presence: 1, enums: ENUMS_CLOSED, repeated: 2, texts: 3, messages: 1 };
    const PROTO3: Features =
        Features { presence: PRESENCE_IMPLICIT, enums: 1, repeated: REPEATED_PACKED, texts: TEXTS_VERIFIED, messages: 1 };
    const EDITIONS: Features = Features { presence: 1, enums: 1, repeated: REPEATED_PACKED, texts: TEXTS_VERIFIED, messages: 1 };

    /// With what the options say whose features have this number.
    fn with(mut self, options: &[&[u8]], number: u32) -> Read<Features> {
        for options in options {
            for part in parts(options) {
                let (found, Part::Sized(features)) = part? else { continue };
                if found == number {
                    self.read(features)?;
                }
            }
        }
        Ok(self)
    }

    fn read(&mut self, features: &[u8]) -> Read<()> {
        for part in parts(features) {
            match part? {
                (1, Part::Number(n)) => self.presence = n,
                (2, Part::Number(n)) => self.enums = n,
                (3, Part::Number(n)) => self.repeated = n,
                (4, Part::Number(n)) => self.texts = n,
                (5, Part::Number(n)) => self.messages = n,
                _ => {}
            }
        }
        Ok(())
    }
}

type Read<T> = Result<T, &'static str>;

enum Part<'a> {
    Number(u64),
    Sized(&'a [u8]),
    /// Of no use here.
    Other,
}

/// The fields of a message, one by one.
fn parts<'a>(bytes: &'a [u8]) -> impl Iterator<Item = Read<(u32, Part<'a>)>> {
    let mut wire = Wire::new(bytes);
    let mut next = move || -> Read<Option<(u32, Part<'a>)>> {
        let Some((number, layout)) = wire.tag()? else { return Ok(None) };
        let part = match layout {
            Layout::Varint => Part::Number(wire.varint()?),
            Layout::Sized => Part::Sized(wire.sized()?),
            _ => {
                wire.skip(number, layout)?;
                Part::Other
            }
        };
        Ok(Some((number, part)))
    };
    let mut failed = false;
    std::iter::from_fn(move || {
        let part = if failed { None } else { next().transpose() };
        failed = matches!(part, Some(Err(_)));
        part
    })
}

fn text(bytes: &[u8]) -> Read<&str> {
    std::str::from_utf8(bytes).map_err(|_| "a name is not UTF-8")
}

pub fn read(set: &[u8]) -> Result<DescriptorSet<'_>, ProtobufError> {
    let wrong =
        |what: &str| ProtobufError(format!("not a descriptor set, as protoc writes it with --descriptor_set_out: {what}"));
    let mut read = DescriptorSet::default();
    for part in parts(set) {
        if let (1, Part::Sized(bytes)) = part.map_err(wrong)? {
            file(bytes, &mut read).map_err(wrong)?;
        }
    }
    if read.messages.is_empty() {
        return Err(wrong("it declares no message"));
    }
    Ok(read)
}

fn file<'a>(bytes: &'a [u8], set: &mut DescriptorSet<'a>) -> Read<()> {
    let (mut package, mut syntax) = ("", "proto2");
    let (mut messages, mut enums, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts(bytes) {
        match part? {
            (2, Part::Sized(name)) => package = text(name)?,
            (4, Part::Sized(message)) => messages.push(message),
            (5, Part::Sized(named)) => enums.push(named),
            (8, Part::Sized(of_file)) => options.push(of_file),
            (12, Part::Sized(name)) => syntax = text(name)?,
            _ => {}
        }
    }
    let usual = match syntax {
        "proto2" => Features::PROTO2,
        "proto3" => Features::PROTO3,
        "editions" => Features::EDITIONS,
        _ => return Err("it has a syntax other than proto2, proto3 and editions"),
    };
    let features = usual.with(&options, 50)?;
    for named in enums {
        enumeration(named, package, features, set)?;
    }
    for bytes in messages {
        message(bytes, package, features, set, 0)?;
    }
    Ok(())
}

fn within(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

fn message<'a>(bytes: &'a [u8], scope: &str, features: Features, set: &mut DescriptorSet<'a>, depth: usize) -> Read<()> {
    if depth > DEPTH_MAX {
        return Err("messages are declared within messages too deeply");
    }
    let (mut name, mut is_entry, mut oneof_count) = ("", false, 0);
    let (mut fields, mut messages, mut enums, mut options) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in parts(bytes) {
        match part? {
            (1, Part::Sized(bytes)) => name = text(bytes)?,
            (2, Part::Sized(bytes)) => fields.push(bytes),
            (3, Part::Sized(bytes)) => messages.push(bytes),
            (4, Part::Sized(bytes)) => enums.push(bytes),
            (7, Part::Sized(bytes)) => options.push(bytes),
            (8, Part::Sized(_)) => oneof_count += 1,
            _ => {}
        }
    }
    if name.is_empty() {
        return Err("a message has no name");
    }
    for part in options.iter().flat_map(|options| parts(options)) {
        if let (7, Part::Number(n)) = part? {
            is_entry = n != 0;
        }
    }
    let (features, full_name) = (features.with(&options, 12)?, within(scope, name));
    for named in enums {
        enumeration(named, &full_name, features, set)?;
    }
    for bytes in messages {
        message(bytes, &full_name, features, set, depth + 1)?;
    }
    let fields = fields.into_iter().map(|bytes| field(bytes, features)).collect::<Read<Vec<_>>>()?;
    set.messages.push(Message { full_name, fields, oneof_count, is_entry });
    Ok(())
}

fn field<'a>(bytes: &'a [u8], features: Features) -> Read<Field<'a>> {
    let mut field = Field { label: 1, ..Field::default() };
    let (mut options, mut packed) = (Vec::new(), None);
    for part in parts(bytes) {
        match part? {
            (1, Part::Sized(bytes)) => field.name = text(bytes)?,
            (3, Part::Number(n)) => field.number = u32::try_from(n).map_err(|_| "the number of a field is too large")?,
            (4, Part::Number(n)) => field.label = n,
            (5, Part::Number(n)) => field.kind = n,
            (6, Part::Sized(bytes)) => field.type_name = text(bytes)?,
            (7, Part::Sized(bytes)) => field.default = Some(text(bytes)?),
            (8, Part::Sized(bytes)) => options.push(bytes),
            (9, Part::Number(n)) => field.oneof = Some(usize::try_from(n).map_err(|_| "a oneof is not there")?),
            (17, Part::Number(n)) => field.is_synthetic = n != 0,
            _ => {}
        }
    }
    if field.name.is_empty() {
        return Err("a field has no name");
    }
    for part in options.iter().flat_map(|options| parts(options)) {
        if let (2, Part::Number(n)) = part? {
            packed = Some(n != 0);
        }
    }
    let features = features.with(&options, 21)?;
    if features.presence == PRESENCE_REQUIRED && field.label == 1 {
        field.label = REQUIRED;
    }
    field.presence = features.presence != PRESENCE_IMPLICIT;
    field.packed = packed.unwrap_or(features.repeated == REPEATED_PACKED);
    field.strict = features.texts == TEXTS_VERIFIED;
    field.delimited = features.messages == MESSAGES_DELIMITED;
    Ok(field)
}

fn enumeration<'a>(bytes: &'a [u8], scope: &str, features: Features, set: &mut DescriptorSet<'a>) -> Read<()> {
    let (mut name, mut values, mut options) = ("", Vec::new(), Vec::new());
    for part in parts(bytes) {
        match part? {
            (1, Part::Sized(bytes)) => name = text(bytes)?,
            (2, Part::Sized(bytes)) => values.push(enum_value(bytes)?),
            (3, Part::Sized(bytes)) => options.push(bytes),
            _ => {}
        }
    }
    if name.is_empty() {
        return Err("an enumeration has no name");
    }
    let closed = features.with(&options, 7)?.enums == ENUMS_CLOSED;
    set.enums.push(Enum { full_name: within(scope, name), values, closed });
    Ok(())
}

fn enum_value(bytes: &[u8]) -> Read<(&str, i32)> {
    let (mut name, mut number) = ("", 0);
    for part in parts(bytes) {
        match part? {
            (1, Part::Sized(bytes)) => name = text(bytes)?,
            // Negative numbers are written in 64 bits.
            (2, Part::Number(n)) => number = n as i32,
            _ => {}
        }
    }
    Ok((name, number))
}
