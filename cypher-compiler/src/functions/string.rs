//! Functions of strings. Positions and lengths count UTF-16 code units, as clients of the dialect do.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use weir_model::expression::{Context, Failure, Function};
use weir_model::extent;
use weir_model::value::{Text, Value};

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("left", 2, 2, "left(text :: STRING, length :: INTEGER) :: STRING", left)
        .about("The first so many UTF-16 code units of a text.", "RETURN left('hello', 2)"),
    strict("right", 2, 2, "right(text :: STRING, length :: INTEGER) :: STRING", right)
        .about("The last so many UTF-16 code units of a text.", "RETURN right('hello', 2)"),
    strict("substring", 2, 3, SUBSTRING, substring).about(
        "Text from a place on, counted from 0, to the end or of a length.",
        "RETURN [substring('hello', 2), substring('hello', 1, 3)]",
    ),
    strict("trim", 1, 1, "trim(text :: STRING) :: STRING", |_, a| mapped("trim", a, trim))
        .about("Text without white space at both ends.", "RETURN trim('  a  ')"),
    strict("ltrim", 1, 2, LTRIM, ltrim).about(
        "Text without white space, or some other characters, at its beginning. `trim(LEADING 'x' FROM text)` is the same.",
        "RETURN [ltrim('  a'), ltrim('xax', 'x')]",
    ),
    strict("rtrim", 1, 2, RTRIM, rtrim).about(
        "Text without white space, or some other characters, at its end. `trim(TRAILING 'x' FROM text)` is the same.",
        "RETURN [rtrim('a  '), rtrim('xax', 'x')]",
    ),
    strict("btrim", 1, 2, BTRIM, btrim).about(
        "Text without white space, or some other characters, at both ends. `trim(BOTH 'x' FROM text)` is the same.",
        "RETURN [btrim('  a '), btrim('xaxyx', 'xy')]",
    ),
    strict("char_length", 1, 1, "char_length(text :: STRING) :: INTEGER", |_, a| length("char_length", a))
        .about("How many UTF-16 code units a text has.", "RETURN char_length('abc')"),
    strict("character_length", 1, 1, "character_length(text :: STRING) :: INTEGER", |_, a| length("character_length", a))
        .about("How many UTF-16 code units a text has.", "RETURN character_length('abc')"),
    strict("toLower", 1, 1, "toLower(text :: STRING) :: STRING", |_, a| mapped("toLower", a, lower))
        .about("Text in lower case.", "RETURN toLower('ABC')"),
    strict("toUpper", 1, 1, "toUpper(text :: STRING) :: STRING", |_, a| mapped("toUpper", a, upper))
        .about("Text in upper case.", "RETURN toUpper('abc')"),
    strict("lower", 1, 1, "lower(text :: STRING) :: STRING", |_, a| mapped("lower", a, lower))
        .about("Text in lower case, as toLower.", "RETURN lower('ABC')"),
    strict("upper", 1, 1, "upper(text :: STRING) :: STRING", |_, a| mapped("upper", a, upper))
        .about("Text in upper case, as toUpper.", "RETURN upper('abc')"),
    strict("replace", 3, 3, REPLACE, replace)
        .about("Text with every occurrence of one text replaced by another.", "RETURN replace('banana', 'an', 'AN')"),
    strict("split", 2, 2, "split(text :: STRING, delimiter :: STRING) :: LIST OF STRING", split).about(
        "The parts of a text between occurrences of a delimiter, or of any of a list of them.",
        "RETURN [split('a,b,c', ','), split('a-b_c', ['-', '_'])]",
    ),
];

const SUBSTRING: &str = "substring(text :: STRING, start :: INTEGER, length :: INTEGER) :: STRING";
const LTRIM: &str = "ltrim(text :: STRING, characters :: STRING) :: STRING";
const RTRIM: &str = "rtrim(text :: STRING, characters :: STRING) :: STRING";
const BTRIM: &str = "btrim(text :: STRING, characters :: STRING) :: STRING";
const REPLACE: &str = "replace(text :: STRING, search :: STRING, replacement :: STRING) :: STRING";

/// The length a user sees.
pub(super) fn utf16_length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

/// The code units from one position to another, cut to the text. Half a character becomes `?`.
fn utf16_slice(text: &str, from: usize, to: usize) -> Text {
    if text.is_ascii() {
        let to = to.min(text.len());
        return Text::new(&text[from.min(to)..to]);
    }
    let units = text.encode_utf16().skip(from).take(to.saturating_sub(from));
    char::decode_utf16(units).map(|unit| unit.unwrap_or('?')).collect()
}

/// White space as a regular expression's `\s` means it.
fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\x0B' | '\x0C' | '\r')
}

/// Everything up to the space counts as white, control characters included.
fn white(c: char) -> bool {
    c <= ' '
}

fn trim(text: &str) -> Cow<'_, str> {
    text.trim_matches(white).into()
}

fn lower(text: &str) -> Cow<'_, str> {
    text.to_lowercase().into()
}

fn upper(text: &str) -> Cow<'_, str> {
    text.to_uppercase().into()
}

fn mapped(name: &str, arguments: &[Value], f: fn(&str) -> Cow<'_, str>) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Text(text) => Ok(Value::text(&f(text))),
        _ => Err(wrong_signature(&format!("{name}(text :: STRING) :: STRING"), arguments)),
    }
}

fn length(name: &str, arguments: &[Value]) -> Result<Value, Failure> {
    match &arguments[0] {
        Value::Text(text) => Ok(Value::Integer(utf16_length(text) as i64)),
        _ => Err(wrong_signature(&format!("{name}(text :: STRING) :: INTEGER"), arguments)),
    }
}

fn btrim(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    without(BTRIM, arguments, white, |text, is_cut| text.trim_matches(is_cut))
}

fn ltrim(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    without(LTRIM, arguments, blank, |text, is_cut| text.trim_start_matches(is_cut))
}

fn rtrim(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    without(RTRIM, arguments, blank, |text, is_cut| text.trim_end_matches(is_cut))
}

/// More bytes of characters are put where each is found at once.
const CHARACTERS_LOOKED_THROUGH: usize = 64;

/// A text cut at some of its ends: without white space, or without the characters that are given.
fn without(
    signature: &str,
    arguments: &[Value],
    space: fn(char) -> bool,
    cut: for<'t> fn(&'t str, &dyn Fn(char) -> bool) -> &'t str,
) -> Result<Value, Failure> {
    match arguments {
        [Value::Text(text)] => Ok(Value::text(cut(text, &space))),
        // Looked through for each character of a long text, they would take for ever.
        [Value::Text(text), Value::Text(characters)] if characters.len() > CHARACTERS_LOOKED_THROUGH => {
            let characters: FxHashSet<char> = characters.chars().collect();
            Ok(Value::text(cut(text, &|c| characters.contains(&c))))
        }
        [Value::Text(text), Value::Text(characters)] => Ok(Value::text(cut(text, &|c| characters.contains(c)))),
        _ => Err(wrong_signature(signature, arguments)),
    }
}

/// A negative count is none.
fn left(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match arguments {
        [Value::Text(text), Value::Integer(count)] => Ok(Value::Text(utf16_slice(text, 0, units(*count)))),
        _ => Err(wrong_signature("left(text :: STRING, length :: INTEGER) :: STRING", arguments)),
    }
}

fn right(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match arguments {
        [Value::Text(text), Value::Integer(count)] => {
            let length = utf16_length(text);
            Ok(Value::Text(utf16_slice(text, length.saturating_sub(units(*count)), length)))
        }
        _ => Err(wrong_signature("right(text :: STRING, length :: INTEGER) :: STRING", arguments)),
    }
}

/// A negative start acts as 0; what lies outside the text is left out.
fn substring(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (text, start, end) = match arguments {
        [Value::Text(text), Value::Integer(start)] => (text, *start, usize::MAX),
        [Value::Text(text), Value::Integer(start), Value::Integer(count)] => {
            (text, *start, units(*start).saturating_add(units(*count)))
        }
        _ => return Err(wrong_signature(SUBSTRING, arguments)),
    };
    Ok(Value::Text(utf16_slice(text, units(start), end)))
}

fn units(n: i64) -> usize {
    usize::try_from(n.max(0)).unwrap_or(usize::MAX)
}

fn replace(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    match arguments {
        [Value::Text(text), Value::Text(search), Value::Text(replacement)] => {
            let grows = replacement.len().saturating_sub(search.len());
            // Only what could be too large is counted beforehand.
            if grows.saturating_mul(text.len() + 1) > context.room() / 2 {
                let bytes = text.matches(search.as_str()).count().saturating_mul(grows) + text.len();
                extent::within(bytes, context.room())?;
            }
            Ok(Value::text(&text.replace(search.as_str(), replacement)))
        }
        _ => Err(wrong_signature(REPLACE, arguments)),
    }
}

/// What stands between the delimiters, where they are tried in their order. The empty one stands between all characters. Each
/// character takes as long as there are delimiters, so the clock is looked at on the way.
fn parts<'a>(
    text: &'a str,
    delimiters: &'a [&'a str],
    context: &'a dyn Context,
) -> Box<dyn Iterator<Item = Result<&'a str, Failure>> + 'a> {
    if let [delimiter] = delimiters
        && !delimiter.is_empty()
    {
        return Box::new(text.split(*delimiter).map(Ok::<_, Failure>));
    }
    let each_character = delimiters.contains(&"");
    // One that is long may be compared for long.
    let looks: usize = delimiters.iter().map(|delimiter| 1 + delimiter.len() / 32).sum();
    let mut looked = 0;
    let mut found = move |text: &str| -> Result<Option<(usize, usize)>, Failure> {
        for (at, _) in text.char_indices() {
            looked += looks;
            if looked >= 8 * PIECES {
                context.spend(std::mem::take(&mut looked) / 8)?;
            }
            let here = &text[at..];
            match delimiters.iter().find(|one| !one.is_empty() && here.starts_with(**one)) {
                Some(delimiter) => return Ok(Some((at, delimiter.len()))),
                None if each_character && at > 0 => return Ok(Some((at, 0))),
                None => {}
            }
        }
        Ok(None)
    };
    let mut rest = Some(text);
    Box::new(std::iter::from_fn(move || {
        let text = rest.take()?;
        Some(found(text).map(|next| match next {
            Some((at, length)) => {
                rest = Some(&text[at + length..]);
                &text[..at]
            }
            None => text,
        }))
    }))
}

/// The clock is looked at each time after this many pieces.
const PIECES: usize = 1024;

/// Empty strings at the end are dropped; a text without the delimiter is one piece.
fn split(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let refused = || wrong_signature("split(text :: STRING, delimiter :: STRING) :: LIST OF STRING", arguments);
    let (Value::Text(text), delimiters) = (&arguments[0], &arguments[1]) else { return Err(refused()) };
    let delimiters: Vec<&str> = match delimiters {
        Value::Text(delimiter) => vec![delimiter.as_str()],
        Value::List(all) => all
            .iter()
            .map(|one| if let Value::Text(one) = one { Ok(one.as_str()) } else { Err(refused()) })
            .collect::<Result<_, _>>()?,
        _ => return Err(refused()),
    };
    if text.is_empty() {
        return Ok(Value::list(vec![Value::text("")]));
    }
    // A text can be cut into as many pieces as it has characters, and each is a value.
    if text.len().saturating_mul(size_of::<Value>()) > context.room() {
        let count = parts(text, &delimiters, context).try_fold(0_usize, |count, piece| piece.map(|_| count + 1))?;
        extent::within(count.saturating_mul(size_of::<Value>()), context.room())?;
    }
    let mut pieces: Vec<Value> = Vec::new();
    for piece in parts(text, &delimiters, context) {
        pieces.push(Value::text(piece?));
        // Those at the end that are empty take time as well.
        if pieces.len().is_multiple_of(PIECES) {
            context.spend(PIECES / 8)?;
        }
    }
    while let Some(Value::Text(last)) = pieces.last()
        && last.is_empty()
    {
        pieces.pop();
    }
    Ok(Value::list(pieces))
}

#[cfg(test)]
mod tests {
    use super::super::testing::call;
    use super::*;
    use std::cell::Cell;
    use weir_model::expression::{FailureKind, GraphFree};
    use weir_model::{IdScheme, forward_context};

    fn check(name: &str, arguments: &[Value], expected: &str) {
        assert_eq!(call(name, arguments), Ok(Value::text(expected)), "{name}{arguments:?}");
    }

    fn texts(items: &[&str]) -> Value {
        Value::list(items.iter().map(|item| Value::text(item)).collect())
    }

    #[test]
    fn pieces_are_cut_by_code_units() {
        let n = Value::Integer;
        check("left", &[Value::text("hello"), n(2)], "he");
        check("left", &[Value::text("hello"), n(-1)], "");
        check("right", &[Value::text("hello"), n(2)], "lo");
        check("right", &[Value::text("hello"), n(99)], "hello");
        check("substring", &[Value::text("hello"), n(1)], "ello");
        check("substring", &[Value::text("hello"), n(1), n(3)], "ell");
        check("substring", &[Value::text("hello"), n(-2), n(3)], "hel");
        check("substring", &[Value::text("hello"), n(9), n(1)], "");
        check("substring", &[Value::text("hello"), n(1), n(i64::MAX)], "ello");
        check("substring", &[Value::text("a🌈b"), n(3)], "b");
        check("left", &[Value::text("a🌈b"), n(2)], "a?");
    }

    #[test]
    fn white_space_and_case() {
        check("trim", &[Value::text("\u{1} a \n")], "a");
        check("ltrim", &[Value::text(" \ta ")], "a ");
        check("rtrim", &[Value::text(" a\u{1}")], " a\u{1}");
        check("btrim", &[Value::text("\u{1} a \n")], "a");
        check("btrim", &[Value::text("yñxaxñy"), Value::text(&"xyñ".repeat(30))], "a");
        check("ltrim", &[Value::text("xyax"), Value::text("xy")], "ax");
        check("rtrim", &[Value::text("xayx"), Value::text("xy")], "xa");
        check("toUpper", &[Value::text("straße")], "STRASSE");
        check("toLower", &[Value::text("ÀB")], "àb");
        check("replace", &[Value::text("aXbX"), Value::text("X"), Value::text("--")], "a--b--");
    }

    #[test]
    fn split_drops_what_is_empty_at_the_end() {
        let split = |text: &str, delimiter: &str| call("split", &[Value::text(text), Value::text(delimiter)]);
        assert_eq!(split("a,b,,", ","), Ok(texts(&["a", "b"])));
        assert_eq!(split(",a", ","), Ok(texts(&["", "a"])));
        assert_eq!(split("", ","), Ok(texts(&[""])));
        assert_eq!(split(",", ","), Ok(texts(&[])));
        assert_eq!(split("añb", ""), Ok(texts(&["a", "ñ", "b"])));
        assert_eq!(split("a.b", "."), Ok(texts(&["a", "b"])));
        let split = |text: &str, delimiters: &[&str]| call("split", &[Value::text(text), texts(delimiters)]);
        assert_eq!(split("a-b_c-", &["-", "_"]), Ok(texts(&["a", "b", "c"])));
        assert_eq!(split("a--b-c", &["--", "-"]), Ok(texts(&["a", "b", "c"])));
        assert_eq!(split("a b", &[]), Ok(texts(&["a b"])));
        assert_eq!(split("añ-b", &["", "-"]), Ok(texts(&["a", "ñ", "b"])));
        assert!(call("split", &[Value::text("a"), Value::list(vec![Value::Integer(1)])]).is_err());
    }

    /// Has time for `left` steps.
    struct Hurried {
        left: Cell<usize>,
        base: GraphFree,
    }

    impl Context for Hurried {
        forward_context!(self, self.base);

        fn now_millis(&self) -> i64 {
            0
        }
        fn spend(&self, steps: usize) -> Result<(), Failure> {
            let left = self.left.get().checked_sub(steps).ok_or_else(|| Failure::new(FailureKind::TimeLimit, "no time"))?;
            self.left.set(left);
            Ok(())
        }
    }

    /// A text without any of them is looked through once, and each of its characters for each of them.
    #[test]
    fn to_split_by_very_many_delimiters_ends_with_the_time() {
        let (text, delimiters) = ("x".repeat(2_000), (0..1_000).map(|n| Value::text(&format!("y{n}"))).collect());
        let arguments = [Value::text(&text), Value::list(delimiters)];
        let ran = |steps: usize| {
            let context = Hurried { left: Cell::new(steps), base: GraphFree::constants(IdScheme::Uuid) };
            let ended = split(&context, &arguments).map_err(|failure| failure.kind);
            (ended, context.left.get())
        };
        assert_eq!(ran(200_000).0, Err(FailureKind::TimeLimit));
        let (ended, left) = ran(1_000_000);
        assert_eq!(ended, Ok(texts(&[text.as_str()])));
        assert!(left < 1_000_000 - 240_000, "{left}");
    }

    #[test]
    fn other_types_are_refused_and_null_is_null() {
        assert_eq!(call("left", &[Value::Null, Value::Integer(1)]), Ok(Value::Null));
        let failure = call("trim", &[Value::Integer(1)]).expect_err("not a string");
        assert_eq!(failure.kind, FailureKind::WrongSignature);
        assert_eq!(failure.message, "Expected signature `trim(text :: STRING) :: STRING` but got arguments 1");
    }
}
