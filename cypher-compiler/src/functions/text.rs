//! The `text.` functions: regular expressions and URL encoding.

use weir_model::expression::{Context, Failure, FailureKind, Function};
use weir_model::extent;
use weir_model::java_regex;
use weir_model::value::Value;

use super::{strict, wrong_signature};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("text.split", 2, 3, SPLIT, split).about(
        "The parts of a text between matches of a regular expression, at most so many.",
        "RETURN [text.split('a1b22c', '[0-9]+'), text.split('a1b22c', '[0-9]+', 2)]",
    ),
    strict("text.regexFirstMatch", 2, 2, FIRST_MATCH, first_match).about(
        "The first match of a regular expression and its groups; an empty list when there is none.",
        "RETURN text.regexFirstMatch('a=1, b=2', '(\\\\w)=(\\\\d)')",
    ),
    strict("text.regexGroups", 2, 2, GROUPS, groups).about(
        "Every match of a regular expression, each with its groups.",
        "RETURN text.regexGroups('a=1, b=2', '(\\\\w)=(\\\\d)')",
    ),
    strict("text.regexReplaceAll", 3, 3, REPLACE_ALL, replace_all).about(
        "Text with every match of a regular expression replaced; $1 stands for a group.",
        "RETURN text.regexReplaceAll('a=1', '(\\\\w)=(\\\\d)', '$2=$1')",
    ),
    strict("text.urlencode", 1, 3, URL_ENCODE, url_encode).about(
        "Text with what has a meaning in URLs as percent codes; blanks as plus where asked for, and further characters.",
        "RETURN [text.urlencode('a b&c'), text.urlencode('a b', true)]",
    ),
    strict("text.urldecode", 1, 2, URL_DECODE, url_decode).about(
        "Text out of percent codes; plus is a blank unless said otherwise, and malformed text is null.",
        "RETURN [text.urldecode('a%20b+c'), text.urldecode('a+b', false)]",
    ),
];

const SPLIT: &str = "text.split(text :: STRING, regex :: STRING, limit :: INTEGER) :: LIST OF STRING";
const FIRST_MATCH: &str = "text.regexFirstMatch(text :: STRING, regex :: STRING) :: LIST OF STRING";
const GROUPS: &str = "text.regexGroups(text :: STRING, regex :: STRING) :: LIST OF LIST OF STRING";
const REPLACE_ALL: &str = "text.regexReplaceAll(text :: STRING, regex :: STRING, replacement :: STRING) :: STRING";
const URL_ENCODE: &str = "text.urlencode(text :: STRING, usePlusForSpace :: BOOLEAN, encodeExtraChars :: STRING) :: STRING";
const URL_DECODE: &str = "text.urldecode(text :: STRING, decodePlusAsSpace :: BOOLEAN) :: STRING";

/// The limit goes by Java's rules: 0 drops empty strings at the end, a positive one is the most pieces there are, a
/// negative one keeps everything. A match of nothing at the very start splits nothing off.
fn split(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (text, pattern, limit) = match arguments {
        [Value::Text(text), Value::Text(pattern)] => (text, pattern, 0),
        [Value::Text(text), Value::Text(pattern), Value::Integer(limit)] => (text, pattern, *limit),
        _ => return Err(wrong_signature(SPLIT, arguments)),
    };
    let regex = java_regex::search(pattern, text, &|steps| context.spend(steps))?;
    let mut pieces = Vec::new();
    let mut from = 0;
    for found in regex.find_iter(text) {
        context.spend(regex.steps(text, found.end()))?;
        extent::within((pieces.len() + 1) * size_of::<Value>(), context.room())?;
        if limit > 0 && pieces.len() as i64 == limit - 1 {
            break;
        }
        if found.end() == 0 {
            continue;
        }
        pieces.push(&text[from..found.start()]);
        from = found.end();
    }
    pieces.push(&text[from..]);
    // What is not split stays, be it empty.
    while limit == 0 && from > 0 && pieces.last().is_some_and(|piece| piece.is_empty()) {
        pieces.pop();
    }
    Ok(Value::List(pieces.into_iter().map(Value::text).collect()))
}

/// The whole match and its groups, of the first match anywhere; empty when there is none.
fn first_match(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(text), Value::Text(pattern)] = arguments else { return Err(wrong_signature(FIRST_MATCH, arguments)) };
    match java_regex::search(pattern, text, &|steps| context.spend(steps))?.captures(text) {
        Some(captures) => captured(&captures, context.room()),
        None => Ok(Value::list(Vec::new())),
    }
}

fn groups(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(text), Value::Text(pattern)] = arguments else { return Err(wrong_signature(GROUPS, arguments)) };
    let regex = java_regex::search(pattern, text, &|steps| context.spend(steps))?;
    let (mut all, mut left) = (Vec::new(), context.room());
    for captures in regex.captures_iter(text) {
        context.spend(regex.steps(text, captures.get_match().end()))?;
        let found = captured(&captures, left)?;
        left -= extent::measured(&found, left)?;
        all.push(found);
    }
    Ok(Value::list(all))
}

/// A group that took no part is null. Groups that lie in one another have the same text, each a copy of it.
fn captured(captures: &regex::Captures<'_>, room: usize) -> Result<Value, Failure> {
    extent::within(captures.iter().flatten().map(|group| group.len()).sum(), room)?;
    let groups = captures.iter().map(|group| group.map_or(Value::Null, |group| Value::text(group.as_str())));
    Ok(Value::List(groups.collect()))
}

fn replace_all(context: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(text), Value::Text(pattern), Value::Text(replacement)] = arguments else {
        return Err(wrong_signature(REPLACE_ALL, arguments));
    };
    let regex = java_regex::search(pattern, text, &|steps| context.spend(steps))?;
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for captures in regex.captures_iter(text) {
        let Some(found) = captures.get(0) else { continue };
        out.push_str(&text[from..found.start()]);
        expand(replacement, (&regex, &captures), context.room(), &mut out)?;
        from = found.end();
        context.spend(regex.steps(text, from))?;
        extent::within(out.len(), context.room())?;
    }
    out.push_str(&text[from..]);
    Ok(Value::text(&out))
}

/// `$1` and `${name}` stand for groups; a backslash takes the meaning from what follows.
fn expand(
    replacement: &str,
    (regex, captures): (&java_regex::Search, &regex::Captures<'_>),
    room: usize,
    out: &mut String,
) -> Result<(), Failure> {
    let bad = |what: &str| Failure::new(FailureKind::InvalidArgument, format!("{what} in the replacement `{replacement}`"));
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        // One replacement can name a long group often.
        extent::within(out.len(), room)?;
        match c {
            '\\' => out.push(rest.next().ok_or_else(|| bad("A backslash stands at the end"))?),
            '$' => {
                let after = rest.as_str();
                if let Some((name, behind)) = after.strip_prefix('{').and_then(|named| named.split_once('}')) {
                    if !regex.has_group(name) {
                        return Err(bad(&format!("No group `{name}`, named")));
                    }
                    out.push_str(captures.name(name).map_or("", |group| group.as_str()));
                    rest = behind.chars();
                    continue;
                }
                let mut number =
                    rest.next().and_then(|c| c.to_digit(10)).ok_or_else(|| bad("`$` is not followed by a group"))? as usize;
                if number >= captures.len() {
                    return Err(bad(&format!("No group {number}, named")));
                }
                // More digits belong to the number as long as there is such a group.
                while let Some(digit) = rest.as_str().chars().next().and_then(|c| c.to_digit(10)) {
                    let longer = number * 10 + digit as usize;
                    if longer >= captures.len() {
                        break;
                    }
                    number = longer;
                    rest.next();
                }
                out.push_str(captures.get(number).map_or("", |group| group.as_str()));
            }
            other => out.push(other),
        }
    }
    Ok(())
}

/// Percent encoding of UTF-8. The reserved characters of RFC 3986 are always encoded; the others asked for default to
/// those that break up HTML and templates.
fn url_encode(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (text, plus, extra) = match arguments {
        [Value::Text(text)] => (text, false, None),
        [Value::Text(text), Value::Boolean(plus)] => (text, *plus, None),
        [Value::Text(text), Value::Text(extra)] => (text, false, Some(extra.as_str())),
        [Value::Text(text), Value::Boolean(plus), Value::Text(extra)] => (text, *plus, Some(extra.as_str())),
        _ => return Err(wrong_signature(URL_ENCODE, arguments)),
    };
    let extra = extra.unwrap_or("\"{}<>");
    if !extra.is_ascii() {
        return Err(wrong_signature(URL_ENCODE, arguments));
    }
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let encoded = !byte.is_ascii() || b"%:/?#[]@!$&'()*+,;= ".contains(&byte) || extra.as_bytes().contains(&byte);
        match byte {
            b' ' if plus => out.push('+'),
            _ if encoded => out.push_str(&format!("%{byte:02X}")),
            _ => out.push(char::from(byte)),
        }
    }
    Ok(Value::text(&out))
}

/// Null when a percent sign is not followed by two hexadecimal digits.
fn url_decode(_: &dyn Context, arguments: &[Value]) -> Result<Value, Failure> {
    let (text, plus) = match arguments {
        [Value::Text(text)] => (text, true),
        [Value::Text(text), Value::Boolean(plus)] => (text, *plus),
        _ => return Err(wrong_signature(URL_DECODE, arguments)),
    };
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if plus => out.push(b' '),
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return Ok(Value::Null) };
                out.push((high << 4 | low) as u8);
            }
            other => out.push(other),
        }
    }
    Ok(Value::text(&String::from_utf8_lossy(&out)))
}

#[cfg(test)]
mod tests {
    use weir_model::expression::GraphFree;
    use weir_model::forward_context;
    use weir_model::id::IdScheme;

    use super::super::testing::call;
    use super::*;

    /// There is no time left.
    struct Late(GraphFree);

    impl Context for Late {
        forward_context!(self, self.0);

        fn spend(&self, _: usize) -> Result<(), Failure> {
            Err(Failure::new(FailureKind::TimeLimit, "late"))
        }
        fn now_millis(&self) -> i64 {
            self.0.now_millis()
        }
    }

    /// Only what was found was counted, so that a search for the first match cost nothing.
    #[test]
    fn every_search_is_counted_before_it_begins() {
        for (name, arguments) in [
            ("text.split", vec!["ab", "x"]),
            ("text.regexFirstMatch", vec!["ab", "x"]),
            ("text.regexGroups", vec!["ab", "x"]),
            ("text.regexReplaceAll", vec!["ab", "x", ""]),
        ] {
            let arguments: Vec<Value> = arguments.into_iter().map(Value::text).collect();
            let function = super::super::find(name).expect(name);
            let ended = (function.run)(&Late(GraphFree::rows(IdScheme::Uuid, &[])), &arguments);
            assert_eq!(ended.map_err(|failure| failure.kind), Err(FailureKind::TimeLimit), "{name}");
        }
    }

    /// A text of nothing but delimiters has no parts in the end, and took as long as one of many.
    #[test]
    fn parts_that_are_empty_are_counted() {
        let arguments = [Value::text(&",".repeat(2_000)), Value::text(",")];
        let function = super::super::find("split").expect("split");
        let ended = (function.run)(&Late(GraphFree::rows(IdScheme::Uuid, &[])), &arguments);
        assert_eq!(ended.map_err(|failure| failure.kind), Err(FailureKind::TimeLimit));
    }

    fn texts(items: &[&str]) -> Value {
        Value::list(items.iter().map(|item| Value::text(item)).collect())
    }

    fn on_texts(name: &str, arguments: &[&str]) -> Result<Value, Failure> {
        call(name, &arguments.iter().map(|text| Value::text(text)).collect::<Vec<_>>())
    }

    #[test]
    fn matches_come_with_their_groups() {
        let first = on_texts("text.regexFirstMatch", &["ab 12 cd 34", r"(\S+) (\d+)(x)?"]);
        let expected = [Value::text("ab 12"), Value::text("ab"), Value::text("12"), Value::Null];
        assert_eq!(first, Ok(Value::list(expected.to_vec())));
        assert_eq!(on_texts("text.regexFirstMatch", &["ab", r"\d"]), Ok(Value::list(vec![])));
        let all = on_texts("text.regexGroups", &["a1b2", r"([a-z])(\d)"]);
        assert_eq!(all, Ok(Value::list(vec![texts(&["a1", "a", "1"]), texts(&["b2", "b", "2"])])));
        assert_eq!(on_texts("text.regexGroups", &["a", "("]).map_err(|f| f.kind), Err(FailureKind::ConstraintViolation));
    }

    #[test]
    fn replacements_name_groups() {
        let replace = |text: &str, pattern: &str, with: &str| on_texts("text.regexReplaceAll", &[text, pattern, with]);
        assert_eq!(replace("a1b2", r"([a-z])(\d)", "$2$1-"), Ok(Value::text("1a-2b-")));
        assert_eq!(replace("ab", "(?<x>a)", r"${x}$10\$"), Ok(Value::text("aa0$b")));
        assert!(replace("ab", "a", "$1").is_err());
        assert!(replace("ab", "(?<x>a)", "${y}").is_err());
        assert_eq!(replace("ab", "(?<x>c)?b", "${x}-"), Ok(Value::text("a-")));
        assert!(replace("ab", "a", "\\").is_err());
    }

    #[test]
    fn splits_go_by_the_limit() {
        let split = |text: &str, pattern: &str, limit: i64| {
            call("text.split", &[Value::text(text), Value::text(pattern), Value::Integer(limit)])
        };
        assert_eq!(split("a,b;;", "[,;]", 0), Ok(texts(&["a", "b"])));
        assert_eq!(split("a,b;;", "[,;]", -1), Ok(texts(&["a", "b", "", ""])));
        assert_eq!(split("a,b,c", ",", 2), Ok(texts(&["a", "b,c"])));
        assert_eq!(split(",,", ",", 0), Ok(texts(&[])));
        assert_eq!(split("ab", "", -1), Ok(texts(&["a", "b", ""])));
        assert_eq!(split("abc", "", 0), Ok(texts(&["a", "b", "c"])));
        assert_eq!(split("", ",", 0), Ok(texts(&[""])));
    }

    #[test]
    fn urls_are_encoded_and_decoded() {
        assert_eq!(on_texts("text.urlencode", &["a b/é{~"]), Ok(Value::text("a%20b%2F%C3%A9%7B~")));
        assert_eq!(on_texts("text.urlencode", &["a{b", "b"]), Ok(Value::text("a{%62")));
        assert_eq!(call("text.urlencode", &[Value::text("a b"), Value::Boolean(true)]), Ok(Value::text("a+b")));
        assert!(on_texts("text.urlencode", &["a", "é"]).is_err());
        assert_eq!(on_texts("text.urldecode", &["a+b%2f%C3%A9"]), Ok(Value::text("a b/é")));
        assert_eq!(call("text.urldecode", &[Value::text("a+b"), Value::Boolean(false)]), Ok(Value::text("a+b")));
        assert_eq!(on_texts("text.urldecode", &["%4"]), Ok(Value::Null));
    }
}
