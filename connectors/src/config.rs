//! Definitions as they are typed: from JSON to a connector's struct, with errors that name the option, and the option
//! fragments that several connectors share. It does not know any connector.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use crate::error::ConnectorError;
pub use crate::secret::{MASKED, Secret, with_secrets};

/// What stands between the field and the problem in the message of a nested definition: `from_json` inside a
/// `Deserialize` has only a message to hand on.
const NESTED: char = '\u{0}';

/// Reads a definition. Unknown fields are ignored and null means absent, as in v1.
pub fn from_json<T: DeserializeOwned>(definition: &Json) -> Result<T, ConnectorError> {
    let Json::Object(fields) = definition else {
        return Err(ConnectorError::config("", format!("Got value '{definition}' with wrong type, expecting object")));
    };
    let given: serde_json::Map<String, Json> =
        fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect();
    serde_path_to_error::deserialize(Json::Object(given)).map_err(|error| {
        let path = match error.path().to_string() {
            path if path == "." => String::new(),
            path => path,
        };
        let message = error.inner().to_string();
        if let Some((field, problem)) = message.split_once(NESTED) {
            return ConnectorError::config(field, problem);
        }
        let (field, problem) = plain_problem(&message, at(definition, &path));
        let field = match (path.is_empty(), field.is_empty()) {
            (false, false) => format!("{path}.{field}"),
            _ => path + field,
        };
        ConnectorError::Config { field, problem }
    })
}

/// The value at a path. Names may have dots in them, as those of properties have.
fn at<'d>(definition: &'d Json, path: &str) -> Option<&'d Json> {
    let inside = |(dot, _): (usize, &str)| at(definition.get(&path[..dot])?, &path[dot + 1..]);
    definition.get(path).or_else(|| path.match_indices('.').find_map(inside))
}

/// The kind of a tagged definition (`"type"`).
pub fn kind(definition: &Json) -> Result<&str, ConnectorError> {
    if !definition.is_object() {
        return Err(ConnectorError::config("", format!("Got value '{definition}' with wrong type, expecting object")));
    }
    let kind = definition.get("type").and_then(Json::as_str);
    kind.ok_or_else(|| ConnectorError::config("", "Missing type discriminator field 'type'!"))
}

pub fn unknown_kind(kind: &str) -> ConnectorError {
    ConnectorError::config("", format!("No decoder for discriminator '{kind}'!"))
}

/// Hands the error of a nested definition through serde without losing which option it is about.
pub fn nested<E: serde::de::Error>(error: ConnectorError) -> E {
    match error {
        ConnectorError::Config { field, problem } => E::custom(format!("{field}{NESTED}{problem}")),
        other => E::custom(other.to_string()),
    }
}

/// Serde's words in those of the API: (the field when the message names one, the problem).
fn plain_problem<'m>(message: &'m str, value: Option<&Json>) -> (&'m str, String) {
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return (field, "Missing required field".to_owned());
    }
    if let Some((variant, known)) = message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected ")) {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return ("", format!("Invalid value: {variant} ; valid values are: {}", known.join(", ")));
    }
    if let (true, Some((_, expected)), Some(value)) =
        (message.starts_with("invalid type: "), message.split_once(", expected "), value)
    {
        let expected = match expected.trim_start_matches("a ") {
            "path string" => "string",
            "map" => "object",
            "sequence" => "array",
            other => other,
        };
        return ("", format!("Got value '{value}' with wrong type, expecting {expected}"));
    }
    ("", message.to_owned())
}

/// A whole number, also as text (`"8"`), as v1 takes it.
fn whole(value: &Json) -> Option<i64> {
    match value {
        Json::Number(n) => n.as_i64().or_else(|| n.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64)),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// `deserialize_with` for a count: a whole number of at least 0.
pub fn count<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let n = whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Long"))?;
    u64::try_from(n).map_err(|_| D::Error::custom(format!("{n} is too small; give a number of at least 0")))
}

/// `deserialize_with` for an optional count.
pub fn optional_count<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    count(input).map(Some)
}

/// `deserialize_with` for any whole number.
pub fn integer<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Long"))
}

/// `deserialize_with` for how many of something there are at once, or may be: at least 1.
pub fn positive<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let n = whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Int"))?;
    let n = u32::try_from(n).ok().filter(|n| (1..=i32::MAX as u32).contains(n));
    n.ok_or_else(|| D::Error::custom("the number must be at least 1 and fit 31 bits"))
}

/// `deserialize_with` for an optional number of at least 1.
pub fn optional_positive<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    positive(input).map(Some)
}

/// `deserialize_with` for a port.
pub fn port<'de, D: Deserializer<'de>>(input: D) -> Result<u16, D::Error> {
    let port = whole(&Json::deserialize(input)?).and_then(|n| u16::try_from(n).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| D::Error::custom("give the number of a port, 1 to 65535"))
}

/// Simultaneous queries of a stream.
pub fn ingest_parallelism() -> u32 {
    16
}

/// The parameter a query finds its record or result in.
pub fn that() -> String {
    "that".to_owned()
}

pub fn utf_8() -> String {
    "UTF-8".to_owned()
}

/// 128 MiB.
pub fn line_bytes_max() -> u32 {
    134_217_728
}
