//! Exact: values as JSON from which the very same values are read again. What JSON has no form for is a map of one entry
//! whose key begins with `$`; so is a map that itself looks like that.
//!
//!     {"$float": "NaN"}   {"$float": "2"}   {"$bytes": "cafe"}   {"$id": "3ae8…"}   {"$date": 19000}
//!     {"$datetime": [second, nano, offset, zone]}   {"$duration": [months, days, seconds, nanos]}   {"$map": {"$date": "no date"}}

use std::sync::Arc;

use super::write::{write, write_string};
use crate::id::{IdScheme, NodeId};
use crate::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, Time};
use crate::value::{Map, Text, Value};

/// Larger ones do not fit an integer, and are read as floats anyway.
const WHOLE_MAX: f64 = 1e19;

/// Appends a value that can be a property.
pub fn write_exact(value: &Value, out: &mut Vec<u8>) {
    match value {
        // A whole number would be read as an integer, and for what is no number JSON has no form.
        Value::Float(x) if !x.is_finite() || (x.fract() == 0.0 && x.abs() < WHOLE_MAX) => {
            put(out, "float", |out| write_string(&x.to_string(), out));
        }
        Value::Bytes(bytes) => put(out, "bytes", |out| write_string(&hex(bytes), out)),
        Value::Id(id) => put(out, "id", |out| write_string(&hex(&id.to_bytes()), out)),
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                out.extend_from_slice(if i > 0 { b"," } else { b"" });
                write_exact(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) if map.iter().any(|(key, _)| key.starts_with('$')) => put(out, "map", |out| write_exact_map(map, out)),
        Value::Map(map) => write_exact_map(map, out),
        Value::Date(date) => numbers(out, "date", &[date.epoch_day], None),
        Value::LocalTime(time) => numbers(out, "localtime", &[time.nano_of_day], None),
        Value::Time(time) => numbers(out, "time", &[time.nano_of_day, time.offset_seconds.into()], None),
        Value::LocalDateTime(at) => numbers(out, "localdatetime", &[at.epoch_day, at.nano_of_day], None),
        Value::DateTime(at) => {
            let parts = [at.epoch_second, at.nano.into(), at.offset_seconds.into()];
            numbers(out, "datetime", &parts, at.zone.as_ref());
        }
        Value::Duration(d) => numbers(out, "duration", &[d.months, d.days, d.seconds, d.nanos.into()], None),
        plain => write(plain, IdScheme::default(), out),
    }
}

/// The entries of a map, whatever their keys.
pub fn write_exact_map(map: &Map, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (key, value)) in map.iter().enumerate() {
        out.extend_from_slice(if i > 0 { b"," } else { b"" });
        write_string(key, out);
        out.push(b':');
        write_exact(value, out);
    }
    out.push(b'}');
}

fn put(out: &mut Vec<u8>, name: &str, content: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"$");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    content(out);
    out.push(b'}');
}

fn numbers(out: &mut Vec<u8>, name: &str, numbers: &[i64], text: Option<&Text>) {
    let numbers = numbers.iter().map(|number| Value::Integer(*number)).chain(text.map(|text| Value::Text(text.clone())));
    let numbers: Vec<Value> = numbers.collect();
    put(out, name, |out| write(&Value::list(numbers), IdScheme::default(), out));
}

/// The value that was meant by what was parsed. None when a map with `$` means nothing.
pub fn read_exact(parsed: Value) -> Option<Value> {
    match parsed {
        Value::List(items) => Some(Value::list(items.iter().cloned().map(read_exact).collect::<Option<_>>()?)),
        Value::Map(map) => match map.iter().next() {
            Some((key, value)) if map.len() == 1 && key.starts_with('$') => special(&key[1..], value),
            _ if map.iter().any(|(key, _)| key.starts_with('$')) => None,
            _ => Some(Value::Map(read_exact_map(&map)?.into())),
        },
        plain => Some(plain),
    }
}

/// As `read_exact`, for what `write_exact_map` wrote.
pub fn read_exact_map(parsed: &Map) -> Option<Map> {
    parsed.iter().map(|(key, value)| Some((key.clone(), read_exact(value.clone())?))).collect()
}

fn special(name: &str, value: &Value) -> Option<Value> {
    match (name, value) {
        ("float", Value::Text(text)) => text.parse().ok().map(Value::Float),
        ("bytes", Value::Text(text)) => Some(Value::Bytes(bytes(text)?.into())),
        ("id", Value::Text(text)) => Some(Value::Id(NodeId::from_bytes(bytes(text)?.try_into().ok()?))),
        ("map", Value::Map(map)) => Some(Value::Map(read_exact_map(map)?.into())),
        (_, Value::List(parts)) => temporal(name, parts),
        _ => None,
    }
}

fn temporal(name: &str, parts: &[Value]) -> Option<Value> {
    let (numbers, zone) = match parts.split_last() {
        Some((Value::Text(zone), numbers)) => (numbers, Some(zone.clone())),
        _ => (parts, None),
    };
    let numbers = numbers.iter().map(|number| if let Value::Integer(n) = number { Some(*n) } else { None });
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    let small = |n: i64| i32::try_from(n).ok();
    Some(match (name, &numbers[..]) {
        ("date", [epoch_day]) => Value::Date(Date { epoch_day: *epoch_day }),
        ("localtime", [nano_of_day]) => Value::LocalTime(LocalTime { nano_of_day: *nano_of_day }),
        ("time", [nano_of_day, offset]) => Value::Time(Time { nano_of_day: *nano_of_day, offset_seconds: small(*offset)? }),
        ("localdatetime", [epoch_day, nano_of_day]) => {
            Value::LocalDateTime(LocalDateTime { epoch_day: *epoch_day, nano_of_day: *nano_of_day })
        }
        ("datetime", [epoch_second, nano, offset]) => {
            let (nano, offset_seconds) = (small(*nano)?, small(*offset)?);
            Value::DateTime(Arc::new(DateTime { epoch_second: *epoch_second, nano, offset_seconds, zone }))
        }
        ("duration", [months, days, seconds, nanos]) => {
            let nanos = small(*nanos)?;
            Value::Duration(Arc::new(Duration { months: *months, days: *days, seconds: *seconds, nanos }))
        }
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let plain = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    if plain { digits.chunks(2).map(pair).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let at = DateTime { epoch_second: 1_700_000_000, nano: 5, offset_seconds: 3600, zone: Some("Europe/Berlin".into()) };
        let map: Map = [("$date".into(), Value::text("none")), ("a".into(), Value::Float(-0.0))].into_iter().collect();
        let values = [
            Value::Boolean(true),
            Value::Integer(i64::MIN),
            Value::Float(1.0),
            Value::Float(0.1),
            Value::Float(1e300),
            Value::Float(f64::NEG_INFINITY),
            Value::Float(f64::NAN),
            Value::text("a \"text\"\n\u{1}é"),
            Value::Bytes(vec![0, 255, 16].into()),
            Value::Id(NodeId::new(1, u64::MAX)),
            Value::Date(Date { epoch_day: -5 }),
            Value::LocalTime(LocalTime { nano_of_day: 7 }),
            Value::Time(Time { nano_of_day: 7, offset_seconds: -60 }),
            Value::LocalDateTime(LocalDateTime { epoch_day: 3, nano_of_day: 4 }),
            Value::DateTime(at.clone().into()),
            Value::DateTime(DateTime { zone: None, ..at }.into()),
            Value::Duration(Duration { months: 1, days: -2, seconds: 3, nanos: 4 }.into()),
            Value::Map(map.into()),
        ];
        let all = Value::list([&values[..], &[Value::list(values.to_vec())]].concat());
        let mut text = Vec::new();
        write_exact(&all, &mut text);
        let text = String::from_utf8(text).unwrap();
        let again = read_exact(parse(text.as_bytes()).unwrap()).unwrap();
        assert_eq!(format!("{all:?}"), format!("{again:?}"), "{text}");
        for wrong in
            [r#"{"$float": 1}"#, r#"{"$what": 1}"#, r#"{"$bytes": "0g"}"#, r#"[{"$date": []}]"#, r#"{"$map": {}, "a": 1}"#]
        {
            assert!(read_exact(parse(wrong.as_bytes()).unwrap()).is_none(), "{wrong}");
        }
    }
}
