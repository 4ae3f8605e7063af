//! JSON text to a value, in one pass.
//!
//! A number that is whole and fits 64 bits becomes an integer, however it is written (`42.0`, `1e3`): ids are made of
//! such values, so the rule decides which node a record belongs to. Of keys that occur twice the last wins. Half a
//! surrogate pair becomes `?`, as it does wherever strings leave a JVM.

use std::borrow::Cow;
use std::sync::Arc;

use thiserror::Error;

use crate::value::{MapBuilder, Value};

/// Deeper nesting is refused: a few bytes a level must not be able to use up the stack.
const DEPTH_MAX: usize = 256;

/// Entries of a map for which there is room from the beginning, at most.
const ENTRIES_GUESS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message} at byte {offset}")]
pub struct JsonError {
    /// Counts from 0.
    pub offset: usize,
    pub message: String,
}

/// Which keys of the outermost map are wanted. Of the others some may come all the same: what is kept is a bit for each key.
#[derive(Clone, Copy, Debug)]
pub struct WantedKeys(u64);

impl WantedKeys {
    pub fn of<'k>(keys: impl IntoIterator<Item = &'k str>) -> WantedKeys {
        WantedKeys(keys.into_iter().fold(0, |bits, key| bits | 1 << key_bit(key.as_bytes())))
    }
}

/// All keys are wanted.
impl Default for WantedKeys {
    fn default() -> WantedKeys {
        WantedKeys(u64::MAX)
    }
}

/// The one value the bytes hold, white space around it allowed.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    parse_wanted(bytes, WantedKeys::default())
}

/// As `parse`, where not every key is wanted. What is left out has to be valid JSON all the same.
pub fn parse_wanted(bytes: &[u8], wanted: WantedKeys) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError { offset: error.valid_up_to(), message: "the text is not UTF-8".to_owned() })?;
    let mut parser = Parser { text, bytes, at: 0, depth: 0, entries: ENTRIES_GUESS_MAX, wanted };
    parser.skip_blanks();
    let value = parser.value::<true>()?;
    parser.skip_blanks();
    if parser.at < bytes.len() { Err(parser.expected("the end of the text")) } else { Ok(value) }
}

struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// About how many entries the next map has: as many as the one before it in a list. Maps of a list are alike, and room that
    /// is not needed would stay with each. Of other maps nothing is known.
    entries: usize,
    wanted: WantedKeys,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a value. One that nobody wants (`KEEP` is false) has to be valid all the same, and comes out as null.
    fn value<const KEEP: bool>(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                let text = self.string()?;
                Ok(if KEEP { Value::Text(text.into()) } else { Value::Null })
            }
            Some(b'{') => self.nested(Parser::map::<KEEP>),
            Some(b'[') => self.nested(Parser::list::<KEEP>),
            Some(b'-' | b'0'..=b'9') => self.number::<KEEP>(),
            Some(b't') => self.word("true", Value::Boolean(true)),
            Some(b'f') => self.word("false", Value::Boolean(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.expected("a value")),
        }
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Result<Value, JsonError>) -> Result<Value, JsonError> {
        if self.depth == DEPTH_MAX {
            return Err(self.error(format!("nested deeper than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        self.at += 1;
        self.skip_blanks();
        let value = inside(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn map<const KEEP: bool>(&mut self) -> Result<Value, JsonError> {
        // A guess that spares the usual record a second allocation.
        let most = ENTRIES_GUESS_MAX.min(self.entries);
        let guess = if KEEP { ((self.bytes.len() - self.at) / 24).min(most) } else { 0 };
        let mut map = MapBuilder::with_capacity(guess);
        // One bit a key, by its length and its ends: only keys whose bit is taken can be there already.
        let mut seen = 0u64;
        if self.peek() != Some(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.expected("a key in double quotes"));
                }
                self.at += 1;
                let key = self.string()?;
                self.skip_blanks();
                self.take(b':', "`:`")?;
                self.skip_blanks();
                let bit = 1u64 << key_bit(key.as_bytes());
                self.entries = ENTRIES_GUESS_MAX;
                if !KEEP || (self.depth == 1 && self.wanted.0 & bit == 0) {
                    self.value::<false>()?;
                } else if seen & bit == 0 {
                    seen |= bit;
                    let value = self.value::<true>()?;
                    map.push_unique(key.into(), value);
                } else {
                    let value = self.value::<true>()?;
                    map.insert(key.into(), value);
                }
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b'}') => break,
                    _ => return Err(self.expected("`,` or `}`")),
                }
                self.skip_blanks();
            }
        }
        self.at += 1;
        if !KEEP {
            return Ok(Value::Null);
        }
        let map = map.finish();
        self.entries = map.len();
        Ok(Value::Map(Arc::new(map)))
    }

    fn list<const KEEP: bool>(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        if self.peek() != Some(b']') {
            loop {
                let item = self.value::<KEEP>()?;
                if KEEP {
                    items.push(item);
                }
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => self.at += 1,
                    Some(b']') => break,
                    _ => return Err(self.expected("`,` or `]`")),
                }
                self.skip_blanks();
            }
        }
        self.at += 1;
        Ok(if KEEP { Value::list(items) } else { Value::Null })
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, JsonError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.expected("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn take(&mut self, byte: u8, name: &str) -> Result<(), JsonError> {
        if self.peek() != Some(byte) {
            return Err(self.expected(name));
        }
        self.at += 1;
        Ok(())
    }

    /// The rest of a string whose opening quote is behind.
    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let start = self.at;
        self.at = plain_end(self.bytes, start);
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Ok(Cow::Borrowed(&self.text[start..self.at - 1]))
            }
            _ => self.string_with_escapes(start).map(Cow::Owned),
        }
    }

    #[cold]
    fn string_with_escapes(&mut self, start: usize) -> Result<String, JsonError> {
        let mut out = String::from(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(0..0x20) => return Err(self.error("a control character in a string must be escaped".to_owned())),
                Some(_) => {
                    let from = self.at;
                    self.at = plain_end(self.bytes, from);
                    out.push_str(&self.text[from..self.at]);
                }
                None => return Err(self.expected("`\"`, the end of the string")),
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let c = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return Err(self.expected("one of `\" \\ / b f n r t u` after a backslash")),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let high = self.hex()?;
        if (0xD800..0xDC00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex()?;
            if (0xDC00..0xE000).contains(&low) {
                let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or('?'));
            }
            self.at = before;
        }
        Ok(char::from_u32(high).unwrap_or('?'))
    }

    fn hex(&mut self) -> Result<u32, JsonError> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return Err(self.expected("four hexadecimal digits")) };
        let code = digits.iter().fold(0, |code, digit| code << 4 | char::from(*digit).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(code)
    }

    fn number<const KEEP: bool>(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let first = self.at;
        let mut whole = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            whole = whole.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digit_count = self.at - first;
        if digit_count == 0 {
            return Err(self.expected("a digit"));
        }
        if digit_count > 1 && self.bytes[first] == b'0' {
            self.at = first;
            return Err(self.error("a number must not begin with a zero".to_owned()));
        }
        // Eighteen digits always fit.
        if digit_count <= 18 && !matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return Ok(Value::Integer(if negative { -(whole as i64) } else { whole as i64 }));
        }
        self.long_number::<KEEP>(start, first)
    }

    fn long_number<const KEEP: bool>(&mut self, start: usize, first: usize) -> Result<Value, JsonError> {
        let (whole, mut fraction, mut exponent) = (&self.text[first..self.at], "", 0i64);
        if self.peek() == Some(b'.') {
            self.at += 1;
            fraction = self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            let sign = match self.peek() {
                Some(b'-') => -1,
                _ => 1,
            };
            self.at += usize::from(matches!(self.peek(), Some(b'-' | b'+')));
            // What is out of range here is far out of the range of numbers.
            exponent = sign * self.digits()?.parse::<i64>().unwrap_or(i64::MAX / 2);
        }
        if !KEEP {
            return Ok(Value::Null);
        }
        let negative = first > start;
        if let Some(n) = whole_number(negative, whole, fraction, exponent) {
            return Ok(Value::Integer(n));
        }
        let text = &self.text[start..self.at];
        text.parse().map(Value::Float).map_err(|_| JsonError { offset: start, message: format!("`{text}` is not a number") })
    }

    fn digits(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.expected("a digit")) } else { Ok(&self.text[start..self.at]) }
    }

    #[cold]
    fn error(&self, message: String) -> JsonError {
        JsonError { offset: self.at, message }
    }

    #[cold]
    fn expected(&self, what: &str) -> JsonError {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => format!("`{}`", c.escape_debug()),
            None => "the end of the text".to_owned(),
        };
        self.error(format!("expected {what}, found {found}"))
    }
}

/// Where a run of bytes ends that stand for themselves in a string: at a quote, a backslash or a control character.
/// Eight bytes at a time; a byte of the result of `below` and `zero` is not zero where the byte asked for is. Bytes above the
/// first hit may be marked wrongly, which does not matter.
fn plain_end(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let hits = zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\'))) | control;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    at + bytes.get(at..).map_or(0, |rest| rest.iter().take_while(plain).count())
}

fn key_bit(key: &[u8]) -> u32 {
    let (first, last) = (key.first().copied().unwrap_or(0), key.last().copied().unwrap_or(0));
    let middle = key.get(key.len() / 2).copied().unwrap_or(0);
    let mixed = u32::from(first) << 16 ^ u32::from(last) << 8 ^ u32::from(middle) ^ (key.len() as u32) << 24;
    mixed.wrapping_mul(0x9E37_79B1) >> 26
}

/// The value of a decimal when it is whole and fits; exact, because floats are not.
fn whole_number(negative: bool, whole: &str, fraction: &str, exponent: i64) -> Option<i64> {
    let fraction = fraction.trim_end_matches('0');
    if exponent == 0 && !fraction.is_empty() {
        return None;
    }
    // The number is `digits` times ten to the `exponent`.
    let digits = format!("{whole}{fraction}");
    let mut exponent = exponent - fraction.len() as i64;
    let mut digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    while exponent < 0 && digits.ends_with('0') {
        digits = &digits[..digits.len() - 1];
        exponent += 1;
    }
    if !(0..=18).contains(&exponent) || digits.len() > 19 {
        return None;
    }
    let size = digits.parse::<i128>().ok()?.checked_mul(10i128.pow(exponent as u32))?;
    i64::try_from(if negative { -size } else { size }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Text;

    fn check(text: &str, expected: Value) {
        assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
    }

    #[test]
    fn what_is_wanted_comes_and_what_is_not_has_to_be_right() {
        let text = r#"{"id": 1, "note": "a \"b\"", "at": {"id": 2, "note": "x"}, "n": [1], "id": 3, "\u0061t2": -1.5, "e": ""}"#;
        let whole = parse(text.as_bytes()).unwrap();
        for wanted in [&["id"][..], &["note", "e"], &["at"], &["at2"], &["n", "id"], &["none"], &[]] {
            let some = parse_wanted(text.as_bytes(), WantedKeys::of(wanted.iter().copied())).unwrap();
            let (Value::Map(whole), Value::Map(some)) = (&whole, &some) else { panic!("{some:?}") };
            wanted.iter().for_each(|key| assert_eq!(some.get(key), whole.get(key), "{key} of {wanted:?}"));
            assert!(some.len() < whole.len());
        }
        let nothing = WantedKeys::of([]);
        assert_eq!(parse_wanted(br#"[{"id": 1}]"#, nothing), parse(br#"[{"id": 1}]"#));
        for wrong in
            [r#"{"a": "\x"}"#, "{\"a\": \"\n\"}", r#"{"a": "b}"#, r#"{"a": 01}"#, r#"{"a": [1,]}"#, r#"{"a"}"#, r#"{"a": }"#]
        {
            assert_eq!(parse_wanted(wrong.as_bytes(), nothing), parse(wrong.as_bytes()), "{wrong}");
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn maps_of_a_list_have_the_room_that_they_need() {
        let text = format!("[{}\"{}\"]", "{\"a\": 0}, {\"b\": 1}, ".repeat(20), "x".repeat(1000));
        let Ok(Value::List(items)) = parse(text.as_bytes()) else { panic!("{text}") };
        let room = |item: &Value| if let Value::Map(map) = item { Some(map.room()) } else { None };
        let rooms: Vec<usize> = items.iter().filter_map(room).collect();
        assert_eq!((rooms.len(), rooms[0]), (40, ENTRIES_GUESS_MAX), "nothing is known before the first");
        assert!(rooms[1..].iter().all(|room| *room == 1), "{rooms:?}");
    }

    #[test]
    fn whole_numbers_are_integers_however_written() {
        use Value::{Float, Integer};
        for (text, expected) in [
            ("0", Integer(0)),
            ("-0", Integer(0)),
            ("-0.0", Integer(0)),
            ("42", Integer(42)),
            ("42.0", Integer(42)),
            ("1e3", Integer(1000)),
            ("1200e-2", Integer(12)),
            ("1.5e1", Integer(15)),
            ("0e99999999999999999999", Integer(0)),
            ("9223372036854775807", Integer(i64::MAX)),
            ("-9223372036854775808", Integer(i64::MIN)),
            ("9223372036854775807.0", Integer(i64::MAX)),
            ("9223372036854775808", Float(9_223_372_036_854_775_808.0)),
            ("999999999999999999", Integer(999_999_999_999_999_999)),
            ("1.5", Float(1.5)),
            ("-2.5E-3", Float(-0.0025)),
            ("1e400", Float(f64::INFINITY)),
            ("1e99999999999999999999", Float(f64::INFINITY)),
            ("1e-400", Float(0.0)),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn strings_keep_their_characters() {
        check(r#""""#, Value::text(""));
        check(r#""abcdefghijklmnopqrstuvwxyz""#, Value::text("abcdefghijklmnopqrstuvwxyz"));
        check(r#""é日🌈""#, Value::text("é日🌈"));
        check(r#""a\"\\\/\b\f\n\r\tz""#, Value::text("a\"\\/\u{8}\u{c}\n\r\tz"));
        check(r#""\u0041\u00e9\ud83c\udf08!""#, Value::text("Aé🌈!"));
        check(r#""\ud83c x \udf08\ud83c\u0041""#, Value::text("? x ??A"));
        // Every length around the width of a step, with the end in every place.
        for length in 0..40 {
            let text = "x".repeat(length);
            check(&format!("\"{text}\""), Value::text(&text));
            check(&format!("\"{text}\\n\""), Value::text(&format!("{text}\n")));
            assert!(parse(format!("\"{text}\u{1}\"").as_bytes()).is_err());
        }
        check("\"\u{7f}\u{80}\"", Value::text("\u{7f}\u{80}"));
    }

    #[test]
    fn maps_keep_their_order_and_the_last_of_equal_keys() {
        let text = r#" { "a" : 1 , "b" : [ ] , "c" : { } , "a" : [ true , false , null ] } "#;
        let expected = [
            (Text::new("a"), Value::list(vec![Value::Boolean(true), Value::Boolean(false), Value::Null])),
            (Text::new("b"), Value::list(vec![])),
            (Text::new("c"), Value::map([])),
        ];
        let Ok(Value::Map(map)) = parse(text.as_bytes()) else { panic!("a map") };
        assert_eq!(map.iter().cloned().collect::<Vec<_>>(), expected);
        // Many keys, many of them with one bit.
        let many = (0..200).map(|n| format!("\"key{n}\":{n}")).collect::<Vec<_>>().join(",");
        let Ok(Value::Map(map)) = parse(format!("{{{many},{many}}}").as_bytes()) else { panic!("a map") };
        assert_eq!(map.len(), 200);
        assert!((0..200).all(|n| map.get(&format!("key{n}")) == Some(&Value::Integer(n))));
    }

    #[test]
    fn what_is_no_json_says_where() {
        for (text, offset, message) in [
            ("", 0, "expected a value, found the end of the text"),
            ("{\"a\":}", 5, "expected a value, found `}`"),
            ("[1 2]", 3, "expected `,` or `]`, found `2`"),
            ("{a:1}", 1, "expected a key in double quotes, found `a`"),
            ("[1,]", 3, "expected a value, found `]`"),
            ("nul", 0, "expected a value, found `n`"),
            ("1 x", 2, "expected the end of the text, found `x`"),
            ("\"abc", 4, "expected `\"`, the end of the string, found the end of the text"),
            ("\"\\x\"", 2, "expected one of `\" \\ / b f n r t u` after a backslash, found `x`"),
            ("\"\\u12\"", 3, "expected four hexadecimal digits, found `1`"),
            ("012", 0, "a number must not begin with a zero"),
            ("1.", 2, "expected a digit, found the end of the text"),
            ("-", 1, "expected a digit, found the end of the text"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(JsonError { offset, message: message.to_owned() }), "{text}");
        }
        assert_eq!(parse(b"\"\xff\"").map_err(|e| e.offset), Err(1));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
        assert!(parse(format!("{}{}", "[".repeat(256), "]".repeat(256)).as_bytes()).is_ok());
    }
}
