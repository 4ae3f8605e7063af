//! Regular expressions as queries write them: in Java's syntax, run in time linear in the text.
//!
//! Most of Java's syntax is that of the `regex` crate. What differs is written over here: `\d`, `\w`, `\s` mean ASCII,
//! `\Q…\E` quotes. Look-around, back-references and possessive repetition need backtracking; patterns that use them are
//! refused with an error that says so.

use std::cell::RefCell;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use crate::expression::{Failure, FailureKind};

/// A pattern whose automaton would be larger than the last is refused. The steps tell how large one is, and with it what a
/// search may cost.
const COMPILED_BYTES: [usize; 4] = [16 << 10, 128 << 10, 1 << 20, 4 << 20];
/// Bytes of an automaton times bytes of a text. A search takes time in proportion to that at worst, about a second for so
/// much, and cannot be broken off.
const WORK_MAX: usize = 1 << 35;
/// Reading a longer pattern alone takes long, whatever becomes of it.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Of a pattern in an error.
const SHOWN_BYTES_MAX: usize = 200;
/// Patterns a thread keeps compiled. Queries have few; a query that makes patterns out of data must not fill memory.
const CACHED_COUNT_MAX: usize = 32;

/// `text =~ pattern`: the whole text matches.
pub fn matches(pattern: &str, text: &str) -> Result<bool, Failure> {
    thread_local!(static CACHE: Cache = const { Cache::new() });
    CACHE.with(|cache| cache.get(pattern, true))?.search(pattern, text).map(|regex| regex.is_match(text))
}

/// The pattern for searching anywhere in this text.
pub fn search(pattern: &str, text: &str) -> Result<Regex, Failure> {
    thread_local!(static CACHE: Cache = const { Cache::new() });
    CACHE.with(|cache| cache.get(pattern, false))?.search(pattern, text).cloned()
}

struct Compiled {
    regex: Regex,
    /// At most so large is the automaton.
    bytes: usize,
}

impl Compiled {
    fn search(&self, pattern: &str, text: &str) -> Result<&Regex, Failure> {
        if self.bytes.saturating_mul(text.len()) <= WORK_MAX {
            return Ok(&self.regex);
        }
        let message = format!(
            "`{}` is too large a regular expression for a text of {} bytes: it could take very long; write a simpler one, \
             or cut the text",
            shown(pattern),
            text.len()
        );
        Err(Failure::new(FailureKind::ConstraintViolation, message))
    }
}

/// Least recently used goes first; with so few entries a vector beats a map.
struct Cache(RefCell<Vec<(String, Rc<Compiled>)>>);

impl Cache {
    const fn new() -> Cache {
        Cache(RefCell::new(Vec::new()))
    }

    fn get(&self, pattern: &str, whole: bool) -> Result<Rc<Compiled>, Failure> {
        let mut entries = self.0.borrow_mut();
        if let Some(at) = entries.iter().position(|(known, _)| known == pattern) {
            let last = entries.len() - 1;
            entries[at..].rotate_left(1);
            return Ok(entries[last].1.clone());
        }
        let regex = Rc::new(compile(pattern, whole)?);
        if entries.len() == CACHED_COUNT_MAX {
            entries.remove(0);
        }
        entries.push((pattern.to_owned(), regex.clone()));
        Ok(regex)
    }
}

fn compile(pattern: &str, whole: bool) -> Result<Compiled, Failure> {
    if pattern.len() > PATTERN_BYTES_MAX {
        let message = format!(
            "`{}` is a regular expression of {} bytes, and one has {PATTERN_BYTES_MAX} at most",
            shown(pattern),
            pattern.len()
        );
        return Err(Failure::new(FailureKind::ConstraintViolation, message));
    }
    let translated = translate(pattern);
    let framed = if whole { format!(r"\A(?:{translated})\z") } else { translated };
    let mut sizes = COMPILED_BYTES.into_iter();
    let built = loop {
        let bytes = sizes.next().unwrap_or_default();
        match RegexBuilder::new(&framed).size_limit(bytes).build() {
            Err(regex::Error::CompiledTooBig(_)) if sizes.len() > 0 => {}
            built => break built.map(|regex| Compiled { regex, bytes }),
        }
    };
    built.map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let hint = if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern.contains(look)) {
            "; look-ahead and look-behind are not supported"
        } else {
            ""
        };
        let message = format!("`{}` is not a regular expression weir can run: {reason}{hint}", shown(pattern));
        Failure::new(FailureKind::ConstraintViolation, message)
    })
}

fn shown(pattern: &str) -> String {
    let end = pattern.floor_char_boundary(SHOWN_BYTES_MAX);
    if end == pattern.len() { pattern.to_owned() } else { format!("{}...", &pattern[..end]) }
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    // Depth of `[…]`; inside them classes may not be negated by a flag group, but may nest.
    let mut brackets = 0usize;
    while let Some(c) = rest.chars().next() {
        let escaped = if c == '\\' { rest[1..].chars().next() } else { None };
        let Some(escaped) = escaped else {
            match c {
                '[' => brackets += 1,
                ']' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = &rest[1 + escaped.len_utf8()..];
        match escaped {
            'Q' => {
                let (quoted, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                out.push_str(&regex::escape(quoted));
                rest = after;
            }
            'd' => out.push_str("[0-9]"),
            'D' => out.push_str("[^0-9]"),
            'w' => out.push_str("[a-zA-Z_0-9]"),
            'W' => out.push_str("[^a-zA-Z_0-9]"),
            's' => out.push_str(r"[ \t\n\x0B\f\r]"),
            'S' => out.push_str(r"[^ \t\n\x0B\f\r]"),
            'h' => out.push_str(r"[ \t\u{A0}\u{1680}\u{180E}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}]"),
            'R' if brackets == 0 => out.push_str(r"(?:\r\n|[\n\x0B\f\r\u{85}\u{2028}\u{2029}])"),
            'Z' => out.push_str(r"(?:\n?\z)"),
            'e' => out.push_str(r"\x1B"),
            // The named classes of POSIX are ASCII in both; only their spelling differs.
            'p' | 'P' if let Some((class, after)) = posix(rest) => {
                let negation = if escaped == 'P' { "^" } else { "" };
                out.push_str(&format!("[[:{negation}{class}:]]"));
                rest = after;
            }
            // `\p{IsLatin}` and `\p{InGreek}` are `\p{Latin}` and `\p{Greek}` here.
            'p' | 'P' if rest.starts_with("{Is") || rest.starts_with("{In") => {
                out.push_str(&format!("\\{escaped}{{"));
                rest = &rest[3..];
            }
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out
}

/// The POSIX class of a `{Name}` and what follows it.
fn posix(rest: &str) -> Option<(&'static str, &str)> {
    let (name, after) = rest.strip_prefix('{')?.split_once('}')?;
    let class = match name {
        "Lower" => "lower",
        "Upper" => "upper",
        "ASCII" => "ascii",
        "Alpha" => "alpha",
        "Digit" => "digit",
        "Alnum" => "alnum",
        "Punct" => "punct",
        "Graph" => "graph",
        "Print" => "print",
        "Blank" => "blank",
        "Cntrl" => "cntrl",
        "XDigit" => "xdigit",
        "Space" => "space",
        _ => return None,
    };
    Some((class, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_matches() {
        let check =
            |pattern: &str, text: &str, expected: bool| assert_eq!(matches(pattern, text), Ok(expected), "{pattern} {text}");
        check("a|ab", "ab", true);
        check("a", "ab", false);
        check("(?i)HELLO", "hello", true);
        check(r"\d+", "12", true);
        check(r"\d+", "١٢", false);
        check(r"[\d.]+", "1.2", true);
        check(r"\w+\s\W", "a_1 !", true);
        check(r"\Qa.b\E+", "a.bb", true);
        check(r"\Qa.b\E", "axb", false);
        check(r"\p{Alpha}+\p{IsLatin}", "abé", true);
        check("a.c", "a\nc", false);
        check("(?s)a.c", "a\nc", true);
        check("", "", true);
    }

    /// A million characters, as a query can make them, took seconds to be read.
    #[test]
    fn very_long_patterns_are_refused_before_they_are_read() {
        let failure = search(&"é".repeat(40_000), "a").expect_err("too long");
        assert!(failure.message.contains("of 80000 bytes") && failure.message.len() < 400, "{failure}");
        assert!(search(&"ab".repeat(10_000), "a").is_ok());
    }

    #[test]
    fn what_needs_backtracking_or_too_much_memory_is_refused() {
        for pattern in ["(", "(?=a)b", r"(a)\1", r"(?:\w{1000}){1000}"] {
            let failure = matches(pattern, "x").expect_err(pattern);
            assert_eq!(failure.kind, FailureKind::ConstraintViolation);
            assert!(failure.message.contains(pattern), "{failure}");
        }
    }

    #[test]
    fn what_could_take_very_long_is_refused_before_it_begins() {
        let text = "ab".repeat(1 << 20);
        // Automata of many states at once, which no cache of them helps: time goes with states and text.
        let began = std::time::Instant::now();
        let failure = matches("(?:a|b)*a(?:a|b){9000}", &text).expect_err("too much work");
        assert_eq!(failure.kind, FailureKind::ConstraintViolation);
        assert!(failure.message.contains("cut the text"), "{failure}");
        assert!(search("(?:a|b)*a(?:a|b){9000}", &text).is_err());
        assert_eq!(matches("(?:ab)+", &text), Ok(true));
        assert_eq!(matches("(?:a|b)*a(?:a|b){9}", &text), Ok(true));
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn the_cache_stays_small() {
        for n in 0..100 {
            assert_eq!(matches(&format!("a{n}"), &format!("a{n}")), Ok(true));
        }
        assert_eq!(matches("a99", "a98"), Ok(false));
    }
}
