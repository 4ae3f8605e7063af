//! Reading bodies: JSON or YAML to typed fields, all mistakes of a record at once, in the words clients know.
//!
//! Does not know any particular body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map as JsonMap, Value as Json};
use weir_connectors::config::wrong_type;

use super::family::plain_word;

/// What stands before the place of a mistake.
pub const AT: &str = "DecodingFailure at ";

/// What stands before the place of a part, behind what is wrong in it.
pub const IN: &str = " (in .";

/// The mistakes found so far. A body with any is refused as a whole.
#[derive(Default, Debug)]
pub struct Mistakes(pub Vec<String>);

impl Mistakes {
    pub fn at(&mut self, path: &str, what: impl AsRef<str>) {
        self.0.push(format!("{AT}{path}: {}", what.as_ref()));
    }

    /// What was found in a part. Clients know the paths within one from there on. Which one it is has to be said besides.
    pub fn within(&mut self, path: &str, part: Mistakes) {
        let placed = |told: String| match told.rsplit_once(IN).filter(|(_, inner)| inner.ends_with(')')) {
            _ if path.is_empty() => told,
            Some((_, inner)) if is_within(&format!(".{inner}"), path) => told,
            Some((said, inner)) => format!("{said} (in {path}.{inner}"),
            None if told.strip_prefix(AT).is_some_and(|place| is_within(place, path)) => told,
            None => format!("{told} (in {path})"),
        };
        self.0.extend(part.0.into_iter().map(placed));
    }

    /// The value if nothing was wrong.
    pub fn or<T>(self, value: Option<T>) -> Result<T, Vec<String>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }
}

/// Whether a text begins with the path itself or one below it: `.ab` is not below `.a`.
fn is_within(place: &str, path: &str) -> bool {
    place.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', ':', ')']))
}

/// JSON text, with the parser's complaint as clients know it. Numbers too large for 64 bits become floats.
pub fn json(text: &[u8]) -> Result<Json, Vec<String>> {
    let text = &*unmarked(text);
    Reads::new().json(text).map_err(|error| no_json(text, &error))
}

fn no_json(text: &[u8], error: &serde_json::Error) -> Vec<String> {
    let what = match error.classify() {
        serde_json::error::Category::Eof => "exhausted input".to_owned(),
        _ => match after_the_end(text, error) {
            Some(c) => format!("expected whitespace or eof got '{c}' (line {}, column {})", error.line(), error.column()),
            None => error.to_string(),
        },
    };
    vec![format!("ParsingFailure: {what}")]
}

/// The text in UTF-8, without the mark that some editors put before it.
pub(super) fn unmarked(text: &[u8]) -> Cow<'_, [u8]> {
    let recoded = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
    };
    match text {
        [0xef, 0xbb, 0xbf, rest @ ..] => Cow::Borrowed(rest),
        [0xff, 0xfe, rest @ ..] => recoded(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => recoded(rest, u16::from_be_bytes),
        _ => Cow::Borrowed(text),
    }
}

/// What follows a value that is complete, if that is what is wrong.
fn after_the_end(text: &[u8], error: &serde_json::Error) -> Option<char> {
    let line = text.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let rest = line.get(error.column().checked_sub(1)?..)?;
    let c = String::from_utf8_lossy(rest).chars().next()?;
    error.to_string().starts_with("trailing characters").then_some(c)
}

/// YAML takes many times longer to read than JSON. Whoever sends more of it than this can send JSON.
pub const YAML_BYTES_MAX: usize = 4 << 20;

/// What the values of a text may take. Short ones become many times as long as they are (`[0,0,…]`), and in YAML what has a name
/// is there again wherever that stands (`*a`).
const VALUES_BYTES_MAX: usize = 128 << 20;

/// What a value takes at least.
const VALUE_BYTES: usize = size_of::<Json>();
/// What an object takes besides, about.
const OBJECT_BYTES: usize = 480;

const TOO_MUCH: &str = "the values in this text would take more than 128 MiB; split it up";

/// Each bracket is looked at again for every one that is open around it.
const YAML_BRACKETS_MAX: usize = 256;

/// The key of what an object has from others.
pub(super) const MERGED: &str = "<<";

/// What is said of JSON that is well written and has no value here. YAML makes a text of such a number.
const NO_VALUES: [&str; 4] = ["number out of range", "lone leading surrogate", "unexpected end of hex escape", TOO_MUCH];

/// YAML, or JSON. That is YAML as well, but whose parser knows no pairs of escapes (`\ud83d\ude00`).
pub fn yaml(text: &[u8]) -> Result<Json, Vec<String>> {
    let text = &*unmarked(text);
    if matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
        match Reads::new().json(text) {
            Ok(value) => return Ok(value),
            Err(error) if has_no_value(&error) => return Err(no_json(text, &error)),
            Err(_) => {}
        }
    }
    if text.len() > YAML_BYTES_MAX {
        return Err(vec![format!("ParsingFailure: YAML of more than {YAML_BYTES_MAX} bytes is not read; send JSON")]);
    }
    let mut open = 0usize;
    for byte in text {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > YAML_BRACKETS_MAX {
            return Err(vec![format!("ParsingFailure: more than {YAML_BRACKETS_MAX} brackets are open at once")]);
        }
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(vec!["ParsingFailure: exhausted input".to_owned()]);
    }
    let read = Reads::new().deserialize(serde_yaml_ng::Deserializer::from_slice(text));
    let mut value = read.map_err(|error| vec![format!("ParsingFailure: {error}")])?;
    merge(&mut value);
    Ok(value)
}

/// Reads what YAML and JSON have in common. YAML has numbers that are none (`.inf`, `.nan`), of which JSON makes null without a
/// word. And with its feature `raw_value` serde_json takes an object with one key of its own for the text of another value, which
/// may have such an object in it: so bodies could be nested deeper than it allows otherwise. Here no key is special.
pub(super) struct Reads {
    /// What the values that are still to come may take.
    left: usize,
}

impl Reads {
    pub(super) fn new() -> Reads {
        Reads { left: VALUES_BYTES_MAX }
    }

    /// The one value that a text of JSON holds.
    pub(super) fn json(&mut self, text: &[u8]) -> Result<Json, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let value = self.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(value)
    }

    fn take<E: de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| E::custom(TOO_MUCH))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reads {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.take::<D::Error>(VALUE_BYTES)?;
        deserializer.deserialize_any(self)
    }
}

/// As JSON is read otherwise.
impl<'de> Visitor<'de> for &mut Reads {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Json, E> {
        Ok((value as f64).into())
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Json, E> {
        Ok((value as f64).into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        let refused = || format!("{} is no number that JSON has; where a text is meant, put it in quotes", yaml_name(value));
        serde_json::Number::from_f64(value).map(Json::Number).ok_or_else(|| E::custom(refused()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Json, E> {
        self.take::<E>(value.len())?;
        Ok(value.into())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Json, E> {
        self.take::<E>(value.len())?;
        Ok(value.into())
    }

    fn visit_none<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(&mut *self)? {
            read.push(item);
        }
        Ok(Json::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        self.take::<A::Error>(OBJECT_BYTES)?;
        let mut read = JsonMap::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.take::<A::Error>(name.len())?;
            let value = fields.next_value_seed(&mut *self)?;
            read.insert(name, value);
        }
        Ok(Json::Object(read))
    }
}

/// As YAML writes a number that is not finite.
fn yaml_name(value: f64) -> &'static str {
    match value {
        f64::INFINITY => ".inf",
        f64::NEG_INFINITY => "-.inf",
        _ => ".nan",
    }
}

fn has_no_value(error: &serde_json::Error) -> bool {
    let said = error.to_string();
    NO_VALUES.iter().any(|reason| said.starts_with(reason))
}

/// `<<: *other`, of one object or several: their fields, where the object has none of that name.
fn merge(value: &mut Json) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(merge),
        Json::Object(map) => {
            map.values_mut().for_each(merge);
            let others = match map.shift_remove(MERGED) {
                Some(Json::Object(other)) => vec![other],
                Some(Json::Array(items)) if items.iter().all(Json::is_object) => {
                    items.into_iter().filter_map(|item| if let Json::Object(other) = item { Some(other) } else { None }).collect()
                }
                // Whoever reads the object says that there is no such field.
                Some(other) => return drop(map.insert(MERGED.to_owned(), other)),
                None => return,
            };
            for (name, value) in others.into_iter().flatten() {
                map.entry(name).or_insert(value);
            }
        }
        _ => {}
    }
}

/// An object whose fields are being read. Inside a tagged union clients know paths from the union on, so `path` is empty there.
pub struct Fields<'a> {
    map: &'a JsonMap<String, Json>,
    path: String,
}

impl<'a> Fields<'a> {
    pub fn of(value: &'a Json, path: &str, mistakes: &mut Mistakes) -> Option<Fields<'a>> {
        match value {
            Json::Object(map) => Some(Fields { map, path: path.to_owned() }),
            other => {
                mistakes.at(path, not_told(other, "object"));
                None
            }
        }
    }

    /// A member of a tagged union: its fields, and the name in `type`.
    pub fn tagged(value: &'a Json, path: &str, mistakes: &mut Mistakes) -> Option<(Fields<'a>, &'a str)> {
        let fields = Fields::of(value, path, mistakes)?;
        match fields.map.get("type") {
            Some(Json::String(name)) => Some((Fields { path: String::new(), ..fields }, name)),
            Some(other) => {
                mistakes.at("", format!("No decoder for discriminator '{other}'!"));
                None
            }
            None => {
                mistakes.at("", "Missing type discriminator field 'type'!");
                None
            }
        }
    }

    /// The value of a field; null counts as absent.
    pub fn get(&self, name: &str) -> Option<&'a Json> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub fn path_of(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    pub fn required(&self, name: &str, mistakes: &mut Mistakes) -> Option<&'a Json> {
        let value = self.get(name);
        if value.is_none() {
            // Clients know the path from the record on, however deep that lies.
            mistakes.at(&format!(".{name}"), "Missing required field");
        }
        value
    }

    /// As `required`, with the whole path, for records of which a body may have several.
    pub fn required_here(&self, name: &str, mistakes: &mut Mistakes) -> Option<&'a Json> {
        let value = self.get(name);
        if value.is_none() {
            mistakes.at(&self.path_of(name), "Missing required field");
        }
        value
    }

    pub fn required_text(&self, name: &str, mistakes: &mut Mistakes) -> Option<String> {
        self.required(name, mistakes)?;
        self.text(name, mistakes)
    }

    /// What something is to be called: nobody can ask for what has an empty name.
    pub fn required_name(&self, mistakes: &mut Mistakes) -> Option<String> {
        self.required_here("name", mistakes)?;
        let name = self.text("name", mistakes)?;
        if name.is_empty() {
            mistakes.at(&self.path_of("name"), "a name has at least one character");
            return None;
        }
        Some(name)
    }

    pub fn text(&self, name: &str, mistakes: &mut Mistakes) -> Option<String> {
        match self.get(name)? {
            Json::String(text) => Some(text.clone()),
            other => {
                mistakes.at(&self.path_of(name), not_told(other, "string"));
                None
            }
        }
    }

    /// A number, or text that is one: clients send both.
    fn whole(&self, name: &str, kind: &str, limits: (i64, i64), mistakes: &mut Mistakes) -> Option<i64> {
        let value = self.get(name)?;
        let number = match value {
            Json::Number(number) => {
                number.as_i64().or_else(|| number.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64))
            }
            Json::String(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.filter(|n| (limits.0..=limits.1).contains(n));
        if number.is_none() {
            mistakes.at(&self.path_of(name), kind);
        }
        number
    }

    pub fn int(&self, name: &str, mistakes: &mut Mistakes) -> Option<i64> {
        self.whole(name, "Int", (i32::MIN.into(), i32::MAX.into()), mistakes)
    }

    pub fn long(&self, name: &str, mistakes: &mut Mistakes) -> Option<i64> {
        self.whole(name, "Long", (i64::MIN, i64::MAX), mistakes)
    }

    pub fn boolean(&self, name: &str, mistakes: &mut Mistakes) -> Option<bool> {
        match self.get(name)? {
            Json::Bool(flag) => Some(*flag),
            other => {
                mistakes.at(&self.path_of(name), not_told(other, "'true' or 'false'"));
                None
            }
        }
    }

    /// One of a few words; absent is the first of them.
    pub fn word(&self, name: &str, words: &[&'static str], mistakes: &mut Mistakes) -> Option<&'static str> {
        let text = self.text(name, mistakes)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            mistakes.at(&self.path_of(name), format!("Invalid value: {text} ; valid values are: {}", words.join(", ")));
        }
        found
    }

    /// As `word`, in any of the spellings of the families: `NamedPipe`, `NAMED_PIPE`, `{"type": "NamedPipe"}`.
    pub fn any_word(&self, name: &str, words: &[&'static str], mistakes: &mut Mistakes) -> Option<&'static str> {
        let value = self.get(name)?;
        let found = plain_word(value).and_then(|word| words.iter().find(|known| **known == word).copied());
        if found.is_none() {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            mistakes.at(&self.path_of(name), format!("Invalid value: {shown} ; valid values are: {}", words.join(", ")));
        }
        found
    }

    /// A list of texts.
    pub fn text_list(&self, name: &str, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        let value = self.get(name)?;
        let texts = value.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if texts.is_none() {
            mistakes.at(&self.path_of(name), format!("Got value '{value}' with wrong type, expecting array of strings"));
        }
        texts
    }

    /// An object of texts, such as headers.
    pub fn texts(&self, name: &str, mistakes: &mut Mistakes) -> Vec<(String, String)> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let Some(fields) = Fields::of(value, &self.path_of(name), mistakes) else { return Vec::new() };
        fields.map.keys().filter_map(|key| Some((key.clone(), fields.text(key, mistakes)?))).collect()
    }

    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Json)> + use<'a> {
        self.map.iter()
    }
}

/// What is said of a value of another kind. A list or an object may hold a definition with its secrets.
fn not_told(given: &Json, expected: &str) -> String {
    match given {
        Json::Array(_) | Json::Object(_) => wrong_type(given, expected),
        told => format!("Got value '{told}' with wrong type, expecting {expected}"),
    }
}

/// Says so when a `type` exists in the reference service and not here; other unknown ones are for the decoder to refuse.
pub fn refuse_elsewhere(definition: &Json, what: &str, elsewhere: &[&str], known: &[&str], mistakes: &mut Mistakes) {
    if let Some(name) = definition.get("type").and_then(Json::as_str).filter(|name| elsewhere.contains(name)) {
        mistakes.at("", format!("the {what} '{name}' is not in this version of weir; there are {}", known.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json as j;

    #[test]
    fn of_a_part_is_told_where_it_is() {
        let said = |text: &str| Mistakes(vec![text.to_owned()]);
        let (mut inner, mut outer) = (Mistakes::default(), Mistakes::default());
        inner.within(".b[1]", said("DecodingFailure at .c: Long"));
        inner.within(".b[2]", said("DecodingFailure at .b[2].c: Long"));
        outer.within(".a[0]", inner);
        outer.within("", said("DecodingFailure at .d: Long"));
        // The path is in there, and yet not where the mistake is.
        outer.within(".b[1]", said("DecodingFailure at .c: Long (in .a.b[1])"));
        outer.within(".a", said("DecodingFailure at .ab: Got value '.a' with wrong type"));
        outer.within(".a", said("DecodingFailure at .c: Long (in .a.b)"));
        outer.within(".a", said("DecodingFailure at .a: Long"));
        let expected = [
            "DecodingFailure at .c: Long (in .a[0].b[1])",
            "DecodingFailure at .b[2].c: Long (in .a[0])",
            "DecodingFailure at .d: Long",
            "DecodingFailure at .c: Long (in .b[1].a.b[1])",
            "DecodingFailure at .ab: Got value '.a' with wrong type (in .a)",
            "DecodingFailure at .c: Long (in .a.b)",
            "DecodingFailure at .a: Long",
        ];
        assert_eq!(outer.0, expected);
    }

    #[test]
    fn mistakes_read_as_clients_know_them() {
        let mut mistakes = Mistakes::default();
        let value = j!({"a": 5, "b": "x", "c": "8", "d": 1.5, "e": true});
        let fields = Fields::of(&value, "", &mut mistakes).expect("an object");
        assert_eq!(fields.required_text("a", &mut mistakes), None);
        assert_eq!(fields.int("b", &mut mistakes), None);
        assert_eq!(fields.int("c", &mut mistakes), Some(8));
        assert_eq!(fields.long("d", &mut mistakes), None);
        assert_eq!(fields.boolean("e", &mut mistakes), Some(true));
        assert_eq!(fields.required_text("z", &mut mistakes), None);
        assert_eq!(fields.word("b", &["p", "q"], &mut mistakes), None);
        let expected = [
            "DecodingFailure at .a: Got value '5' with wrong type, expecting string",
            "DecodingFailure at .b: Int",
            "DecodingFailure at .d: Long",
            "DecodingFailure at .z: Missing required field",
            "DecodingFailure at .b: Invalid value: x ; valid values are: p, q",
        ];
        assert_eq!(mistakes.0, expected);
    }

    #[test]
    fn bodies_that_are_no_json() {
        assert_eq!(json(b"{"), Err(vec!["ParsingFailure: exhausted input".to_owned()]));
        assert_eq!(json(b""), Err(vec!["ParsingFailure: exhausted input".to_owned()]));
        let garbage = "ParsingFailure: expected whitespace or eof got 'x' (line 1, column 9)";
        assert_eq!(json(b"{\"a\":1} x"), Err(vec![garbage.to_owned()]));
        assert!(json("[".repeat(100_000).as_bytes()).is_err());
        assert_eq!(yaml(b"a: [1, x]").expect("yaml"), j!({"a": [1, "x"]}));
    }

    #[test]
    fn json_is_yaml_of_any_size_and_with_any_escape() {
        assert_eq!(yaml(br#" {"a": "\ud83d\ude00"}"#), Ok(j!({"a": "\u{1f600}"})));
        let long = "x".repeat(YAML_BYTES_MAX);
        assert_eq!(yaml(j!([long]).to_string().as_bytes()), Ok(j!([long])));
        assert!(yaml(format!("a: {long}").as_bytes()).is_err());
        assert_eq!(yaml(b"{a: [b]}"), Ok(j!({"a": ["b"]})));
    }

    #[test]
    fn what_values_take_is_bounded() {
        let said = |read: Result<Json, Vec<String>>| read.expect_err("too much").join("\n");
        let list = format!("{{\"a\": [{}0]}}", "0,".repeat(VALUES_BYTES_MAX / VALUE_BYTES));
        for read in [json(list.as_bytes()), yaml(list.as_bytes())] {
            let said = said(read);
            assert!(said.starts_with("ParsingFailure: ") && said.contains(TOO_MUCH), "{said}");
        }
        let objects = format!("[{}{{}}]", "{},".repeat(VALUES_BYTES_MAX / OBJECT_BYTES));
        assert!(said(json(objects.as_bytes())).contains(TOO_MUCH));
        // A few KB, which name what is in them again and again.
        let named = |of: &str, items: usize| yaml(format!("a: &a {of}\nb: [{}]", vec!["*a"; items].join(", ")).as_bytes());
        let numbers = format!("[{}]", vec!["0"; 2_000].join(", "));
        assert!(named(&numbers, 10).is_ok());
        assert!(said(named(&numbers, 2_000)).contains(TOO_MUCH));
        let text = "x".repeat(1 << 20);
        assert!(named(&text, 10).is_ok());
        assert!(said(named(&text, 200)).contains(TOO_MUCH));
    }

    #[test]
    fn what_has_no_value_is_refused_with_its_place() {
        for (text, reason) in [
            ("{\"a\": [1,\n1e400]}", "number out of range at line 2 column "),
            ("{\"a\": [1,\n-1e999999999999]}", "number out of range at line 2 column "),
            ("[\n\"\\ud800\"]", "unexpected end of hex escape at line 2 column "),
            ("[\n\"\\ud800\\u0041\"]", "lone leading surrogate in hex escape at line 2 column "),
            ("[\n\"\\udc00\"]", "lone leading surrogate in hex escape at line 2 column "),
        ] {
            for decoded in [json(text.as_bytes()), yaml(text.as_bytes())] {
                let said = decoded.expect_err(text).join("\n");
                assert!(said.starts_with(&format!("ParsingFailure: {reason}")), "{text}: {said}");
            }
        }
    }

    #[test]
    fn yaml_is_read_as_json_is_and_what_json_has_not_is_refused() {
        let text = "a: [1, -2, 1.5, 18446744073709551615, true, ~, x]\n1: '.inf'\ntrue: {b: \".nan\", c: 1e400}\na2: 3\n";
        let expected =
            j!({"a": [1, -2, 1.5, u64::MAX, true, null, "x"], "1": ".inf", "true": {"b": ".nan", "c": "1e400"}, "a2": 3});
        assert_eq!(yaml(text.as_bytes()), Ok(expected));
        assert_eq!(yaml(b"a: 1\nb: 2\na: 3"), Ok(j!({"a": 3, "b": 2})));
        for (text, reason) in [
            ("a:\n  b: .inf", "ParsingFailure: a.b: .inf is no number that JSON has; where a text is meant, put it in quotes"),
            ("{a: -.Inf}", "ParsingFailure: a: -.inf is no number that JSON has"),
            ("- 1\n- .NaN", "ParsingFailure: .[1]: .nan is no number that JSON has"),
            (".nan", "ParsingFailure: .nan is no number that JSON has"),
        ] {
            let said = yaml(text.as_bytes()).expect_err(text).join("\n");
            assert!(said.starts_with(reason), "{text}: {said}");
        }
        assert!(yaml(b"a: !tag [x]").is_err());
        // As in JSON.
        for number in ["99999999999999999999", "-99999999999999999999", "1000000000000000000000000000000000000000000"] {
            assert_eq!(yaml(format!("a: {number}").as_bytes()), json(format!("{{\"a\": {number}}}").as_bytes()), "{number}");
        }
    }

    #[test]
    fn no_key_of_a_body_is_special() {
        let text = br#"{"a": {"$serde_json::private::RawValue": "[1]"}}"#;
        for decoded in [json(text), yaml(text)] {
            let body = decoded.expect("an object");
            assert_eq!(body["a"]["$serde_json::private::RawValue"], "[1]");
        }
    }

    #[test]
    fn objects_are_merged() {
        let text = b"one: &one {a: 1, b: 1}\ntwo: &two {<<: *one, b: 2}\nboth: [{<<: [*two, {b: 4, c: 4}], a: 3}]\nodd: {<<: 5}";
        let expected =
            j!({"one": {"a": 1, "b": 1}, "two": {"a": 1, "b": 2}, "both": [{"a": 3, "b": 2, "c": 4}], "odd": {"<<": 5}});
        assert_eq!(yaml(text), Ok(expected));
    }

    #[test]
    fn a_mark_before_the_text_is_taken_off() {
        assert_eq!(json(b"\xef\xbb\xbf{\"a\": 1}"), Ok(j!({"a": 1})));
        assert_eq!(yaml(b"\xef\xbb\xbfversion: 1\ntitle: x"), Ok(j!({"version": 1, "title": "x"})));
        assert_eq!(yaml(b"\xff\xfea\0:\0 \x001\0"), Ok(j!({"a": 1})));
        assert_eq!(json(b"\xfe\xff\0[\0]"), Ok(j!([])));
        let garbage = "ParsingFailure: expected whitespace or eof got 'x' (line 1, column 4)";
        assert_eq!(json(b"\xef\xbb\xbf{} x"), Err(vec![garbage.to_owned()]));
    }
}
