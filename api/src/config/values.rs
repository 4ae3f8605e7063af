//! Values as they are written in a file, turned into JSON of the kind a key asks for; sizes and durations.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json};

use super::hocon::{Kind as Written, Value};
use super::keys::Kind;

/// The value as JSON, or what it should have been.
pub fn convert(value: &Value, kind: Kind) -> Result<Json, String> {
    let text = match &value.kind {
        Written::Text(text) | Written::Number(text) => Some(text.trim().to_owned()),
        Written::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    };
    let found = match kind {
        Kind::Free => Some(to_json(value)),
        Kind::Texts => items(value)
            .and_then(|items| items.into_iter().map(|item| convert(item, Kind::Text).ok()).collect::<Option<Vec<_>>>())
            .map(Json::Array),
        Kind::Objects => items(value).map(|items| items.into_iter().map(to_json).collect()),
        Kind::Text => text.map(Json::String),
        Kind::Boolean => match text.as_deref() {
            Some("true" | "yes" | "on") => Some(Json::Bool(true)),
            Some("false" | "no" | "off") => Some(Json::Bool(false)),
            _ => None,
        },
        Kind::Integer(low, high) => {
            text.and_then(|text| text.parse::<i64>().ok()).filter(|n| (low..=high).contains(n)).map(Json::from)
        }
        Kind::Size(low, high) => {
            let bytes = text.and_then(|text| size(&text)).and_then(|bytes| i64::try_from(bytes).ok());
            bytes.filter(|bytes| (low..=high).contains(bytes)).map(Json::from)
        }
        Kind::Memory(low) => {
            let known = |text: &String| memory(text, u64::MAX).is_some_and(|bytes| bytes.is_none_or(|bytes| bytes >= low));
            text.filter(known).map(Json::String)
        }
        Kind::Share => {
            let share = text.and_then(|text| text.parse::<f64>().ok()).filter(|share| (0.0..=1.0).contains(share));
            share.map(Json::from)
        }
        Kind::Duration => text.filter(|text| duration(text).is_some()).map(Json::String),
        Kind::OneOf(words) => text.filter(|text| words.contains(&text.as_str())).map(Json::String),
    };
    found.ok_or_else(|| kind.expected())
}

/// The items of a list. As HOCON has it, an object whose keys are numbers is one, too; its other keys are passed over.
fn items(value: &Value) -> Option<Vec<&Value>> {
    match &value.kind {
        Written::Array(items) => Some(items.iter().collect()),
        Written::Object(object) => {
            let numbered = object.0.iter().filter_map(|(key, item)| Some((key.parse::<u32>().ok()?, item)));
            let ordered: BTreeMap<u32, &Value> = numbered.collect();
            (!ordered.is_empty()).then(|| ordered.into_values().collect())
        }
        _ => None,
    }
}

/// The key whose values are all secrets.
pub const TRACE_HEADERS: &str = "traces.headers";

pub fn describe(value: &Value) -> String {
    match &value.kind {
        Written::Null => "null".to_owned(),
        Written::Boolean(flag) => flag.to_string(),
        Written::Number(text) => text.clone(),
        Written::Text(text) => format!("'{text}'"),
        Written::Array(_) => "a list".to_owned(),
        Written::Object(_) | Written::Pending { .. } => "an object".to_owned(),
    }
}

fn to_json(value: &Value) -> Json {
    match &value.kind {
        Written::Null | Written::Pending { .. } => Json::Null,
        Written::Boolean(flag) => Json::Bool(*flag),
        // What would not stay as it is written may be no number to whoever wrote it.
        Written::Number(text) => {
            let number = serde_json::from_str(text)
                .ok()
                .filter(|number: &Json| serde_json::to_string(number).is_ok_and(|written| written == *text));
            number.unwrap_or_else(|| Json::String(text.clone()))
        }
        Written::Text(text) => Json::String(text.clone()),
        Written::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Written::Object(object) => Json::Object(object.0.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()),
    }
}

/// Secrets never come back in answers or logs.
pub fn masked(path: &str, value: Json) -> Json {
    let secret = ["password", "secret", "token"].iter().any(|word| path.rsplit('.').next().unwrap_or(path).contains(word));
    match value {
        // Keys of others are in them, under whatever name.
        Json::Object(map) if path == TRACE_HEADERS => {
            map.into_iter().map(|(name, _)| (name, Json::from(weir_connectors::config::MASKED))).collect()
        }
        Json::Object(map) => Json::Object(map.into_iter().map(|(key, value)| (key.clone(), masked(&key, value))).collect()),
        _ if secret => weir_connectors::config::MASKED.into(),
        Json::Array(items) => Json::Array(items.into_iter().map(|item| masked("", item)).collect()),
        other => other,
    }
}

/// Puts a value at a dotted path.
pub fn put(object: &mut JsonMap<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| Json::Object(JsonMap::new()));
            if let Json::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// As `size`, or as `70%` of all there is; `none` is no bound.
pub fn memory(text: &str, total: u64) -> Option<Option<u64>> {
    let text = text.trim();
    if text == "none" {
        return Some(None);
    }
    let Some(part) = text.strip_suffix('%') else { return size(text).map(Some) };
    let part: u64 = part.trim().parse().ok().filter(|part| (1..=100).contains(part))?;
    Some(Some(total / 100 * part))
}

/// `64 MiB`, `1.5 GB`, `512k`; a bare number is bytes. As in HOCON, one letter stands for a power of two.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim();
    let letter = unit.chars().next().map(|c| c.to_ascii_uppercase());
    let power = match letter {
        None | Some('B') => 0,
        Some(letter) => 1 + "KMGTP".find(letter)? as i32,
    };
    let base: f64 = match unit.get(1..).unwrap_or_default().to_ascii_lowercase().as_str() {
        _ if power == 0 => matches!(unit, "" | "B" | "b" | "byte" | "bytes").then_some(1.0)?,
        "" | "i" | "ib" => 1024.0,
        "b" => 1000.0,
        long => match ["kilobyte", "megabyte", "gigabyte", "terabyte", "petabyte"]
            .iter()
            .position(|name| name[1..] == *long.trim_end_matches('s'))
        {
            Some(_) => 1000.0,
            None => ["kibibyte", "mebibyte", "gibibyte", "tebibyte", "pebibyte"]
                .iter()
                .any(|name| name[1..] == *long.trim_end_matches('s'))
                .then_some(1024.0)?,
        },
    };
    let bytes = number * base.powi(power);
    (bytes.fract() == 0.0 && bytes < 9.2e18).then_some(bytes as u64)
}

/// `10 s`, `1.5 minutes`, `100ms`; a bare number is milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let seconds = match text[split..].trim() {
        "" => 1e-3,
        unit => unit_seconds(unit)?,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

/// What a unit of time is called, in seconds.
pub fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1e-9,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1e-6,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::hocon;
    use crate::config::keys::KEYS;

    #[test]
    fn every_default_of_the_table_is_of_its_kind() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let value = hocon::parse_override(key.default, "default").expect("parses");
            assert_eq!(convert(&value, key.kind).err(), None, "{}", key.path);
        }
    }

    #[test]
    fn parts_of_memory() {
        let of = |text| memory(text, 1000);
        assert_eq!((of("70%"), of(" 5 % "), of("none")), (Some(Some(700)), Some(Some(50)), Some(None)));
        assert_eq!((of("1 KiB"), of("0%"), of("101%"), of("a%"), of("x")), (Some(Some(1024)), None, None, None, None));
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64 MiB", 64 << 20),
            ("64m", 64 << 20),
            ("1kB", 1000),
            ("1.5 KiB", 1536),
            ("7", 7),
            ("7 bytes", 7),
            ("2 megabytes", 2_000_000),
            ("1 kibibyte", 1024),
        ] {
            assert_eq!(size(text), Some(expected), "{text}");
        }
        for text in ["", "x", "1 X", "0.5 B", "1 Mx", "-1"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("10 s", 10_000),
            ("100ms", 100),
            ("2 minutes", 120_000),
            ("1.5 h", 5_400_000),
            ("250", 250),
            ("30 sec", 30_000),
            ("2 mins", 120_000),
            ("1 hr", 3_600_000),
            ("2000 µs", 2),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("ten"), None);
        assert_eq!(duration("1 fortnight"), None);
    }
}
