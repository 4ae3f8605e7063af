//! The bytes of descriptors: the other way round from `descriptor`, with the numbers of `google/protobuf/descriptor.proto`.

use super::wire::{Layout, put_tag, put_varint};

/// `some_name` is `SomeNameEntry`.
pub fn entry_name(field: &str) -> String {
    let word = |part: &str| {
        let mut characters = part.chars();
        characters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + characters.as_str())
    };
    field.split('_').map(word).collect::<String>() + "Entry"
}

pub fn put_type(name: &str, field: &mut Vec<u8>) {
    let kind = match name {
        "double" => 1,
        "float" => 2,
        "int64" => 3,
        "uint64" => 4,
        "int32" => 5,
        "fixed64" => 6,
        "fixed32" => 7,
        "bool" => 8,
        "string" => 9,
        "bytes" => 12,
        "uint32" => 13,
        "sfixed32" => 15,
        "sfixed64" => 16,
        "sint32" => 17,
        "sint64" => 18,
        // Whether it is a message or an enumeration is seen when all names are known.
        name => return put_bytes(6, name.as_bytes(), field),
    };
    put_number(5, kind, field);
}

pub fn put_feature(name: &str, value: &str, features: &mut Vec<u8>) {
    let (number, values): (u32, [&str; 3]) = match name {
        "features.field_presence" => (1, ["EXPLICIT", "IMPLICIT", "LEGACY_REQUIRED"]),
        "features.enum_type" => (2, ["OPEN", "CLOSED", ""]),
        "features.repeated_field_encoding" => (3, ["PACKED", "EXPANDED", ""]),
        "features.utf8_validation" => (4, ["", "VERIFY", "NONE"]),
        "features.message_encoding" => (5, ["LENGTH_PREFIXED", "DELIMITED", ""]),
        _ => return,
    };
    if let Some(at) = values.iter().position(|known| *known == value) {
        put_number(number, at as u64 + 1, features);
    }
}

/// Features stand in the options: by this number there, and the options by that number in what they are of.
pub fn put_features(in_options: u32, features: &[u8], of: u32, out: &mut Vec<u8>) {
    if !features.is_empty() {
        let mut options = Vec::new();
        put_bytes(in_options, features, &mut options);
        put_bytes(of, &options, out);
    }
}

pub fn put_number(field: u32, number: u64, out: &mut Vec<u8>) {
    put_tag(field, Layout::Varint, out);
    put_varint(number, out);
}

pub fn put_bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(field, Layout::Sized, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
