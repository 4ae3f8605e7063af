//! The three families of routes. They share every handler; what differs is here and in `reply`: how a success is wrapped,
//! how an error looks, how words and times are spelt.

use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json, json};

use crate::config::unit_seconds;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `/api/v1`: bare bodies, errors as lists of texts.
    V1,
    /// `/api/v2` in kebab-case: bodies in an envelope.
    Preview,
    /// `/api/v2` in camelCase, mostly below `/api/v2/graph/{graphName}`: bare bodies, colon verbs.
    Current,
}

/// Where paths of the current family begin; every other one of v2 is of the preview.
const CURRENT: [&str; 6] =
    ["/api/v2/graph/", "/api/v2/system", "/api/v2/queryUi/", "/api/v2/debug/", "/api/v2/openapi.json", "/api/v2/lsp"];

impl Family {
    pub fn of(path: &str) -> Family {
        match path {
            _ if !path.starts_with("/api/v2") => Family::V1,
            _ if CURRENT.iter().any(|begin| path.starts_with(begin)) => Family::Current,
            _ => Family::Preview,
        }
    }

    pub fn is_v2(self) -> bool {
        self != Family::V1
    }

    /// A word of an enumeration, which is PascalCase everywhere else.
    pub fn word(self, word: &str) -> String {
        if self == Family::Current { screaming(word) } else { word.to_owned() }
    }

    /// How long something took or takes.
    pub fn duration(self, duration: Duration) -> Json {
        if self == Family::Current { duration_text(duration).into() } else { (duration.as_millis() as u64).into() }
    }

    /// v2 leaves out what is null; in lists it stays, since places count there.
    pub fn tidy(self, value: &mut Json) {
        if self.is_v2() {
            without_nulls(value);
        }
    }

    /// A value as the body of a success.
    pub fn body(self, value: Json) -> Json {
        self.body_with(value, Vec::new())
    }

    fn body_with(self, mut value: Json, warnings: Vec<String>) -> Json {
        self.tidy(&mut value);
        if self == Family::Preview { json!({"content": value, "warnings": warnings}) } else { value }
    }

    /// A resource on a path that both generations of v2 name: the bare fields, and the same again as `content`.
    pub fn resource(self, mut value: Json, warnings: Vec<String>) -> Json {
        if self != Family::Current {
            return self.body_with(value, warnings);
        }
        self.tidy(&mut value);
        let content = value.clone();
        if let Json::Object(fields) = &mut value {
            fields.insert("content".to_owned(), content);
            fields.insert("warnings".to_owned(), warnings.into());
        }
        value
    }

    /// A list of resources.
    pub fn items(self, items: Vec<Json>) -> Json {
        let mut items = Json::Array(items);
        self.tidy(&mut items);
        match self {
            Family::Current => json!({"items": items, "content": items, "warnings": []}),
            _ => self.body(items),
        }
    }
}

/// `DistinctId` as `DISTINCT_ID`.
pub fn screaming(word: &str) -> String {
    // What has been shouted already, such as SASL_SSL, stays.
    if !word.chars().any(|c| c.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut out = String::with_capacity(word.len() + 4);
    for (index, c) in word.chars().enumerate() {
        if index > 0 && c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// `DISTINCT_ID` as `DistinctId`; every other spelling stays.
pub fn pascal(word: &str) -> String {
    if word.is_empty() || !word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
        return word.to_owned();
    }
    let part = |part: &str| part.chars().take(1).chain(part.chars().skip(1).map(|c| c.to_ascii_lowercase())).collect::<String>();
    word.split('_').map(part).collect()
}

/// A word in any of the spellings, as it is kept.
pub fn plain_word(value: &Json) -> Option<String> {
    match value {
        Json::String(word) => Some(pascal(word)),
        Json::Object(tagged) => tagged.get("type")?.as_str().map(pascal),
        _ => None,
    }
}

/// `2h15m`, `1m10s`, `250ms`; nothing is `0s`.
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis() as u64;
    if millis < 1000 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    let seconds = millis / 1000;
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect()
}

/// As `duration_text`, for a setting, which is read again as it is shown: nothing is rounded.
pub fn setting_text(duration: Duration) -> String {
    match duration.as_nanos() {
        nanos if nanos.is_multiple_of(1_000_000_000) => duration_text(duration),
        nanos if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        nanos if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        nanos => format!("{nanos}ns"),
    }
}

/// `1h30m`, `500ms`, `2.5 s`, `2 days`: one or more numbers with their units. None when it is something else.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(split);
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let seconds = unit_seconds(unit)?;
        total = total.checked_add(Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?)?;
        rest = next.trim_start();
    }
    Some(total)
}

fn without_nulls(value: &mut Json) {
    match value {
        Json::Object(fields) => {
            let kept: JsonMap<String, Json> = std::mem::take(fields).into_iter().filter(|(_, value)| !value.is_null()).collect();
            *fields = kept;
            fields.values_mut().for_each(without_nulls);
        }
        Json::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_their_family() {
        for (path, family) in [
            ("/api/v1/ingest", Family::V1),
            ("/live/state", Family::V1),
            ("/api/v2/ingests", Family::Preview),
            ("/api/v2/admin/liveness", Family::Preview),
            ("/api/v2/system:shutdown", Family::Current),
            ("/api/v2/system/config", Family::Current),
            ("/api/v2/graph/quine/ingests", Family::Current),
            ("/api/v2/query-ui/sample-queries", Family::Preview),
            ("/api/v2/queryUi/sampleQueries", Family::Current),
        ] {
            assert_eq!(Family::of(path), family, "{path}");
        }
    }

    #[test]
    fn words_are_spelt_both_ways() {
        for (pascal_case, shouted) in [("DistinctId", "DISTINCT_ID"), ("Gzip", "GZIP"), ("NamedPipe", "NAMED_PIPE")] {
            assert_eq!((screaming(pascal_case).as_str(), pascal(shouted).as_str()), (shouted, pascal_case));
        }
        assert_eq!((screaming("SASL_SSL").as_str(), pascal("latest").as_str()), ("SASL_SSL", "latest"));
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [("2h15m", 8_100_000), ("1m10s", 70_000), ("250ms", 250), ("0s", 0), ("20s", 20_000)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
            assert_eq!(setting_text(Duration::from_millis(millis)), text);
        }
        for (given, shown) in [("1.5s", "1500ms"), ("2h1ms", "7200001ms"), ("1s1us", "1000001us"), ("7ns", "7ns")] {
            let read = parse_duration(given).expect("a duration");
            assert_eq!((setting_text(read).as_str(), parse_duration(shown)), (shown, Some(read)), "{given}");
        }
        for (text, hours) in [("2d", 48), ("1 day 6 hours", 30)] {
            assert_eq!(parse_duration(text), Some(Duration::from_hours(hours)), "{text}");
        }
        for wrong in ["", "5", "s", "1x", "1h-2m", "."] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bodies_of_the_families() {
        let value = json!({"a": 1, "b": null, "c": [null, {"d": null}]});
        assert_eq!(Family::V1.body(value.clone()), value);
        assert_eq!(Family::Preview.body(value.clone()).to_string(), r#"{"content":{"a":1,"c":[null,{}]},"warnings":[]}"#);
        assert_eq!(
            Family::Current.resource(json!({"name": "x"}), Vec::new()).to_string(),
            r#"{"name":"x","content":{"name":"x"},"warnings":[]}"#
        );
        assert_eq!(Family::Current.items(vec![json!(1)]).to_string(), r#"{"items":[1],"content":[1],"warnings":[]}"#);
    }
}
