//! Defaults as descriptors write them: the text of `[default = …]`.

use super::schema::{Enum, Type};
use crate::value::Value;

/// The value of a default, or why it is none.
pub fn value(text: &str, of: Type, enums: &[Enum]) -> Result<Value, String> {
    let wrong = || format!("its default {text:?} is not of its type");
    let float = || match text {
        "inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        "nan" => Ok(f64::NAN),
        _ => text.parse::<f64>().map_err(|_| wrong()),
    };
    Ok(match of {
        Type::Double => Value::Float(float()?),
        Type::Float => Value::Float(f64::from(float()? as f32)),
        Type::Bool => Value::Boolean(text.parse().map_err(|_| wrong())?),
        Type::Text { .. } => Value::text(text),
        Type::Bytes => Value::Bytes(unescaped(text).ok_or_else(wrong)?.into()),
        Type::Enum(place) => enums[place].by_name.get(text).map(|_| Value::text(text)).ok_or_else(wrong)?,
        Type::Uint64 | Type::Fixed64 => Value::Integer(text.parse::<u64>().map_err(|_| wrong())? as i64),
        Type::Message(_) | Type::Group(_) => return Err(wrong()),
        _ => Value::Integer(text.parse().map_err(|_| wrong())?),
    })
}

/// The text of a string as a declaration writes it.
pub fn text(literal: &str) -> Option<String> {
    String::from_utf8(unescaped(literal)?).ok()
}

/// Bytes are written as a string of C is.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (escaped, after) = rest.split_first()?;
        rest = after;
        bytes.push(match escaped {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'x' | b'X' => {
                let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                let (number, after) = rest.split_at(digits);
                rest = after;
                u8::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()?
            }
            b'0'..=b'7' => {
                let digits = rest.iter().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let (more, after) = rest.split_at(digits);
                rest = after;
                let number = more.iter().fold(u32::from(escaped - b'0'), |number, digit| number * 8 + u32::from(digit - b'0'));
                u8::try_from(number).ok()?
            }
            other => *other,
        });
    }
    Some(bytes)
}
