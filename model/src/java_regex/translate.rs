//! A pattern in Java's syntax, written anew in that of the `regex` crate.
//!
//!     Java's text ──▶ without \Q…\E ──▶ element by element ──▶ the crate's text, with no flag but where one is needed
//!
//! Flags are followed here and not handed on, for most mean something else to the crate. What cannot be said there is
//! refused with a reason.

use super::class::{Set, TERMINATORS};

/// Stand for Java's `$` in a translation; all else below a blank is written in digits there.
const DOLLAR: char = '\0';
const UNIX_DOLLAR: char = '\u{1}';
/// Names of the groups that hold the line terminator after a `$`. No group of Java's has such a name.
pub(super) const CUT: &str = "cut_";
/// Classes within classes; the crate has such a limit of its own for groups.
const CLASS_DEPTH_MAX: usize = 60;

#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub ignore_case: bool,
    pub unicode_case: bool,
    pub unicode_classes: bool,
    unix_lines: bool,
    multi_line: bool,
    dot_all: bool,
    comments: bool,
}

pub(super) struct Translated {
    text: String,
    /// Has a `$` or a `\Z`, which is true before a last line terminator too.
    pub dollar: bool,
    /// Whether all that such a `$` can do is known: nothing behind it takes up the line terminator.
    pub exact: bool,
    /// Every match begins with the `^` of `(?m)`.
    pub caret_led: bool,
}

impl Translated {
    /// With `$` at the end alone.
    pub fn plain(&self) -> String {
        self.text.replace([DOLLAR, UNIX_DOLLAR], r"\z")
    }

    /// With `$` at the end of every line, which is the same in a text of one.
    pub fn line(&self) -> String {
        self.text.replace(DOLLAR, "(?mR:$)").replace(UNIX_DOLLAR, "(?m:$)")
    }

    /// With `$` before a last line terminator too. The match takes that up, into a group of a name with [`CUT`].
    pub fn deciding(&self, crlf: bool) -> String {
        let line_end = if crlf { r"\r\n" } else { r"[\n\r\x{85}\x{2028}\x{2029}]" };
        let mut out = String::with_capacity(self.text.len() + 64);
        for (at, c) in self.text.char_indices() {
            match c {
                DOLLAR => out.push_str(&format!(r"(?:\z|(?<{CUT}{at}>{line_end})\z)")),
                UNIX_DOLLAR => out.push_str(&format!(r"(?:\z|(?<{CUT}{at}>\n)\z)")),
                other => out.push(other),
            }
        }
        out
    }
}

/// Why a pattern cannot be had.
pub(super) struct Refused(pub String);

fn refused<T>(reason: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(reason.into()))
}

pub(super) fn translate(pattern: &str) -> Result<Translated, Refused> {
    let mut reader = Reader {
        chars: unquoted(pattern),
        at: 0,
        flags: Flags::default(),
        out: String::with_capacity(pattern.len() + 16),
        groups: vec![Group::default()],
        reach: 0,
        taken: 0,
        found: Dollars::default(),
        begins: true,
        caret_led: true,
        possessive: None,
    };
    while reader.element()? {}
    reader.ended()
}

/// Java too takes the quotes away first: each quoted character becomes one that means itself.
fn unquoted(pattern: &str) -> Vec<char> {
    let (mut out, mut rest) = (Vec::with_capacity(pattern.len()), pattern);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            out.push(c);
            continue;
        }
        if let Some(quoting) = rest.strip_prefix('Q') {
            let (quoted, after) = quoting.split_once("\\E").unwrap_or((quoting, ""));
            for (at, c) in quoted.chars().enumerate() {
                match c {
                    // What stands before the quote may be a code that more digits would belong to.
                    '0'..='9' if at == 0 => out.extend(['\\', 'x', '3', c]),
                    c if c.is_ascii() && !c.is_ascii_alphanumeric() => out.extend(['\\', c]),
                    c => out.push(c),
                }
            }
            rest = after;
        } else {
            out.push('\\');
            // So that a backslash that is itself escaped begins no quote.
            if let Some(escaped) = rest.chars().next() {
                out.push(escaped);
                rest = &rest[escaped.len_utf8()..];
            }
        }
    }
    out
}

/// What is known about `$` so far. One that holds before a last line terminator is exact as long as nothing behind it
/// can take up that terminator, or ask what stands there.
#[derive(Clone, Copy, Default)]
struct Dollars {
    java: bool,
    unix: bool,
    end: bool,
    inexact: bool,
}

#[derive(Default)]
struct Group {
    flags: Flags,
    /// [`Reader::reach`] at its beginning, and at the ends of its alternatives so far.
    entered: u64,
    left: u64,
}

/// How often an element may come.
#[derive(Clone, Copy, Default)]
struct Times {
    none: bool,
    many: bool,
}

/// In [`Reader::reach`]: a `$`.
const FROM_DOLLAR: u64 = 1;
/// Groups nest deeper than that only where a program wrote the pattern; there nothing is known about `$`.
const TRACKED_DEPTH_MAX: usize = 63;

enum Escape {
    Char(char),
    Set(Set),
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    flags: Flags,
    out: String,
    /// The outermost is the pattern itself.
    groups: Vec<Group>,
    /// From where one may have come to here past nothing but what could be a line terminator, or nothing at all: from a
    /// `$`, and with a bit for each depth from the beginning of the group that is open there.
    reach: u64,
    /// Where such a way has led on through a line terminator.
    taken: u64,
    found: Dollars,
    /// Whether an alternative of the pattern begins here.
    begins: bool,
    caret_led: bool,
    /// The last element repeats these characters and gives none back.
    possessive: Option<Set>,
}

impl Reader {
    /// One element with its repetition; false at the end.
    fn element(&mut self) -> Result<bool, Refused> {
        let Some(c) = self.peek() else { return Ok(false) };
        let begins = std::mem::take(&mut self.begins) && self.groups.len() == 1;
        self.given_back(c)?;
        if begins && c != '^' && !(c == '(' && self.is_flag_group()) {
            self.caret_led = false;
        }
        self.at += 1;
        match c {
            '(' => return self.open(begins).map(|()| true),
            ')' => {
                if self.groups.len() == 1 {
                    return refused("a `)` closes no group");
                }
                self.close()?;
            }
            '|' => {
                self.out.push('|');
                let own = self.depth_bit();
                let reach = self.reach;
                let group = self.group();
                group.left |= reach;
                self.reach = group.entered | own;
                self.begins = self.groups.len() == 1;
            }
            '[' => {
                let set = self.class(true, 0)?;
                self.folded(set)?;
            }
            '.' => {
                let set = match self.flags {
                    Flags { dot_all: true, .. } => Set { items: r"\x00-\x{10FFFF}".to_owned(), terminators: 0b11111 },
                    Flags { unix_lines: true, .. } => Set { items: r"^\n".to_owned(), terminators: 0b11110 },
                    _ => Set { items: r"^\n\r\x{85}\x{2028}\x{2029}".to_owned(), terminators: 0 },
                };
                self.set(set)?;
            }
            '^' if self.flags.multi_line => {
                self.assertion(if self.flags.unix_lines { "(?m:^)" } else { "(?mR:^)" });
                if begins && matches!(self.peek(), Some('?' | '*' | '{')) {
                    self.caret_led = false;
                }
                self.repetition(None)?;
            }
            '^' => {
                self.caret_led &= !begins;
                self.assertion(r"\A");
                self.repetition(None)?;
            }
            '$' if self.flags.multi_line => {
                self.out.push_str(if self.flags.unix_lines { "(?m:$)" } else { "(?mR:$)" });
                self.repetition(None)?;
            }
            '$' => self.dollar()?,
            '*' | '+' | '?' => return refused(format!("nothing stands before the `{c}`")),
            '{' => {
                // Java takes a second count for one of nothing.
                self.at -= 1;
                let length = self.out.len();
                self.repetition(None)?;
                self.out.truncate(length);
            }
            '\\' => self.escaped()?,
            other => self.literal(other)?,
        }
        Ok(true)
    }

    fn ended(mut self) -> Result<Translated, Refused> {
        if self.groups.len() > 1 {
            return refused("a group is not closed");
        }
        let Dollars { java, unix, end, inexact } = self.found;
        let dollar = java || unix;
        self.caret_led &= !self.begins;
        Ok(Translated {
            text: self.out,
            dollar,
            // Where the text ends depends on which `$` it is, and `\z` knows another end.
            exact: !dollar || !(inexact || end || java && unix),
            caret_led: self.caret_led,
        })
    }

    /// The next character, which in comments mode is none of a comment.
    fn peek(&mut self) -> Option<char> {
        while self.flags.comments {
            match self.chars.get(self.at)? {
                ' ' | '\t'..='\r' => self.at += 1,
                '#' => {
                    let unix = self.flags.unix_lines;
                    let ends = |c: &char| if unix { *c == '\n' } else { TERMINATORS.contains(c) };
                    self.at += self.chars[self.at..].iter().position(ends)?;
                }
                _ => break,
            }
        }
        self.chars.get(self.at).copied()
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the pattern itself is never closed")
    }

    fn depth_bit(&mut self) -> u64 {
        match self.groups.len() - 1 {
            0 => 0,
            depth @ 1..=TRACKED_DEPTH_MAX => FROM_DOLLAR << depth,
            _ => {
                self.found.inexact = true;
                0
            }
        }
    }

    fn is_flag_group(&self) -> bool {
        let rest = self.chars.get(self.at + 1..).unwrap_or_default();
        let Some(flags) = rest.strip_prefix(&['?']) else { return false };
        flags.iter().find(|c| !c.is_ascii_alphabetic() && **c != '-') == Some(&')')
    }

    fn open(&mut self, begins: bool) -> Result<(), Refused> {
        let outer = self.flags;
        if self.peek() != Some('?') {
            self.out.push('(');
        } else {
            self.at += 1;
            let rest = &self.chars[self.at..];
            match rest {
                ['=' | '!', ..] | ['<', '=' | '!', ..] => return refused("look-ahead and look-behind are not supported"),
                ['>', ..] => return refused("atomic groups, `(?>...)`, are not supported"),
                ['<', named @ ..] => {
                    let length = named.iter().position(|c| *c == '>').unwrap_or(named.len());
                    let name: String = named[..length].iter().collect();
                    let plain = name.chars().all(|c| c.is_ascii_alphanumeric());
                    if length == named.len() || !plain || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                        return refused("the name of a group is not letters and digits between `<` and `>`");
                    }
                    self.at += length + 2;
                    self.out.push_str(&format!("(?<{name}>"));
                }
                _ => {
                    if self.read_flags()? {
                        // They hold to the end of the group they stand in.
                        self.begins = begins;
                        return Ok(());
                    }
                    self.out.push_str("(?:");
                }
            }
        }
        self.groups.push(Group { flags: outer, entered: self.reach, left: 0 });
        self.reach |= self.depth_bit();
        Ok(())
    }

    /// `(?i)`, which is whole, or `(?i:`.
    fn read_flags(&mut self) -> Result<bool, Refused> {
        let mut on = true;
        while let Some(c) = self.chars.get(self.at).copied() {
            self.at += 1;
            let flags = &mut self.flags;
            match c {
                ')' => return Ok(true),
                ':' => return Ok(false),
                '-' => on = false,
                'i' => flags.ignore_case = on,
                'u' => flags.unicode_case = on,
                'd' => flags.unix_lines = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_all = on,
                'x' => flags.comments = on,
                'U' => (flags.unicode_classes, flags.unicode_case) = (on, on),
                other => return refused(format!("there is no flag `{other}`")),
            }
        }
        refused("a group is not closed")
    }

    fn close(&mut self) -> Result<(), Refused> {
        let own = self.depth_bit();
        let Some(group) = self.groups.pop() else { return refused("a `)` closes no group") };
        self.out.push(')');
        self.flags = group.flags;
        self.reach |= group.left;
        let times = self.repetition(None)?;
        // The end of a round is the beginning of the next.
        if times.many && self.reach & FROM_DOLLAR != 0 && self.taken & own != 0 {
            self.found.inexact = true;
        }
        if times.none {
            self.reach |= group.entered;
        }
        self.reach &= !own;
        self.taken &= !own;
        Ok(())
    }

    /// `$` and `\Z`.
    fn dollar(&mut self) -> Result<(), Refused> {
        self.out.push(if self.flags.unix_lines { UNIX_DOLLAR } else { DOLLAR });
        if self.flags.unix_lines {
            self.found.unix = true
        } else {
            self.found.java = true
        }
        self.reach |= FROM_DOLLAR;
        self.repetition(None).map(|_| ())
    }

    /// What is true at the end of a text need not be before its last line terminator.
    fn assertion(&mut self, text: &str) {
        self.out.push_str(text);
        self.takes();
    }

    /// Here a line terminator may be taken up.
    fn takes(&mut self) {
        self.found.inexact |= self.reach & FROM_DOLLAR != 0;
        self.taken |= self.reach;
    }

    fn set(&mut self, set: Set) -> Result<(), Refused> {
        self.out.push_str(&format!("[{}]", set.items));
        self.one_of(set)
    }

    /// By all of Unicode, where that is asked for, only the crate itself can fold.
    fn folded(&mut self, set: Set) -> Result<(), Refused> {
        if !(self.flags.ignore_case && self.flags.unicode_case) {
            return self.set(set);
        }
        self.out.push_str(&format!("(?i:[{}])", set.items));
        self.one_of(set)
    }

    fn literal(&mut self, c: char) -> Result<(), Refused> {
        let set = Set::range(c, c, self.flags);
        if self.flags.ignore_case && (c.is_ascii_alphabetic() || self.flags.unicode_case) {
            return self.folded(set);
        }
        if c < ' ' {
            self.out.push_str(&format!(r"\x{:02X}", c as u32));
        } else {
            self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
        self.one_of(set)
    }

    /// Behind what was written for one character.
    fn one_of(&mut self, set: Set) -> Result<(), Refused> {
        let takes = set.terminators != 0;
        if takes {
            self.takes();
        }
        if !self.repetition(Some(set))?.none && !takes {
            self.reach = 0;
        }
        Ok(())
    }

    /// The repetition of what was just written, if there is one.
    fn repetition(&mut self, set: Option<Set>) -> Result<Times, Refused> {
        let Some(c) = self.peek() else { return Ok(Times::default()) };
        let times = match c {
            '?' | '*' | '+' => {
                self.out.push(c);
                self.at += 1;
                Times { none: c != '+', many: c != '?' }
            }
            '{' => {
                let rest = &self.chars[self.at..];
                let Some(length) = rest.iter().position(|c| *c == '}') else { return refused("a count is not closed") };
                let count: String = rest[1..length].iter().collect();
                let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
                if !match count.split_once(',') {
                    Some((least, most)) => digits(least) && (most.is_empty() || digits(most)),
                    None => digits(&count),
                } {
                    return refused(format!("`{{{count}}}` is no count; write `\\{{` for the brace itself"));
                }
                self.out.push_str(&format!("{{{count}}}"));
                self.at += length + 1;
                Times { none: count.starts_with('0'), many: true }
            }
            _ => return Ok(Times::default()),
        };
        match self.peek() {
            Some('?') => {
                self.out.push('?');
                self.at += 1;
            }
            Some('+') => {
                self.at += 1;
                let Some(set) = set else {
                    return refused("possessive repetition (`*+`) of more than one character is not supported");
                };
                self.possessive = Some(set);
            }
            _ => {}
        }
        Ok(times)
    }

    /// To give nothing back makes no difference where what follows could not use it: at the end, or before a character
    /// that is not repeated.
    fn given_back(&mut self, next: char) -> Result<(), Refused> {
        let Some(set) = self.possessive.take() else { return Ok(()) };
        let outermost = self.groups.len() == 1;
        let escaped = self.chars.get(self.at + 1).copied();
        let after = match (next, escaped) {
            ('|', _) if outermost => return Ok(()),
            ('\\', Some(c)) if !c.is_ascii_alphanumeric() => Some((c, self.at + 2)),
            ('\\' | '[' | '(' | ')' | '|' | '.' | '^' | '$' | '{' | '?' | '*' | '+', _) => None,
            (c, _) => Some((c, self.at + 1)),
        };
        let different = after.is_some_and(|(c, at)| {
            let optional = matches!(self.chars.get(at), Some('?' | '*' | '{')) || self.flags.comments;
            !optional && set.lacks(c)
        });
        if different {
            return Ok(());
        }
        refused("possessive repetition (`*+`) is not supported before what it could have repeated")
    }

    fn escaped(&mut self) -> Result<(), Refused> {
        let Some(c) = self.chars.get(self.at).copied() else { return refused("a backslash stands at the end") };
        let zero_width = match c {
            'A' => r"\A",
            'b' if self.chars[self.at + 1..].starts_with(&['{', 'g', '}']) => {
                return refused(r"`\b{g}` is not supported");
            }
            'b' => r"\b",
            'B' => r"\B",
            'z' => {
                self.found.end = true;
                r"\z"
            }
            'Z' => {
                self.at += 1;
                return self.dollar();
            }
            'R' => {
                self.at += 1;
                self.takes();
                self.out.push_str(r"(?:\r\n|[\n\x0B\f\r\x{85}\x{2028}\x{2029}])");
                return self.repetition(None).map(|_| ());
            }
            'G' => return refused(r"`\G` is not supported"),
            'X' => return refused(r"`\X` is not supported"),
            'k' | '1'..='9' => return refused("back-references are not supported"),
            _ => match self.escape()? {
                Escape::Char(c) => return self.literal(c),
                Escape::Set(set) => return self.set(set),
            },
        };
        self.at += 1;
        self.assertion(zero_width);
        self.repetition(None).map(|_| ())
    }

    /// What a backslash makes of what follows it, inside of classes or not.
    fn escape(&mut self) -> Result<Escape, Refused> {
        let Some(c) = self.chars.get(self.at).copied() else { return refused("a backslash stands at the end") };
        self.at += 1;
        let code = match c {
            'p' | 'P' => {
                let set = self.property()?;
                return Ok(Escape::Set(if c == 'P' { set.negated() } else { set }));
            }
            'a' => 0x07,
            'e' => 0x1B,
            'f' => 0x0C,
            'n' => 0x0A,
            'r' => 0x0D,
            't' => 0x09,
            'c' => {
                let Some(control) = self.chars.get(self.at) else { return refused(r"nothing follows `\c`") };
                self.at += 1;
                *control as u32 ^ 64
            }
            '0' => self.octal()?,
            'x' if self.chars.get(self.at) == Some(&'{') => {
                let rest = &self.chars[self.at + 1..];
                let Some(length) = rest.iter().position(|c| *c == '}') else { return refused("a code is not closed") };
                self.at += 1;
                let code = self.hexadecimal(length)?;
                self.at += 1;
                code
            }
            'x' => self.hexadecimal(2)?,
            'u' => self.utf16()?,
            other => match Set::predefined(other, self.flags) {
                Some(set) => return Ok(Escape::Set(set)),
                None if other.is_ascii_alphanumeric() => return refused(format!("`\\{other}` is not supported")),
                None => other as u32,
            },
        };
        match char::from_u32(code) {
            Some(c) => Ok(Escape::Char(c)),
            None => refused("a code is that of no character"),
        }
    }

    fn hexadecimal(&mut self, length: usize) -> Result<u32, Refused> {
        let digits: String = self.chars[self.at..].iter().take(length).collect();
        if digits.is_empty() || digits.len() < length || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return refused("a code has too few hexadecimal digits");
        }
        self.at += length;
        Ok(u32::from_str_radix(&digits, 16).unwrap_or(u32::MAX))
    }

    /// Java's characters beyond 16 bits are two codes.
    fn utf16(&mut self) -> Result<u32, Refused> {
        let high = self.hexadecimal(4)?;
        if (0xD800..0xDC00).contains(&high) && self.chars[self.at..].starts_with(&['\\', 'u']) {
            self.at += 2;
            let low = self.hexadecimal(4)?;
            if (0xDC00..0xE000).contains(&low) {
                return Ok(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
            }
        }
        Ok(high)
    }

    /// Up to three digits, as far as they are a byte.
    fn octal(&mut self) -> Result<u32, Refused> {
        let (mut code, from) = (0, self.at);
        while let Some(digit) = self.chars.get(self.at).and_then(|c| c.to_digit(8)) {
            if self.at - from == 3 || code * 8 + digit > 0o377 {
                break;
            }
            code = code * 8 + digit;
            self.at += 1;
        }
        if self.at == from { refused(r"`\0` is not followed by an octal digit") } else { Ok(code) }
    }

    fn property(&mut self) -> Result<Set, Refused> {
        let rest = &self.chars[self.at..];
        let (name, length): (String, usize) = match rest {
            ['{', named @ ..] => {
                let Some(length) = named.iter().position(|c| *c == '}') else { return refused("a property is not closed") };
                (named[..length].iter().collect(), length + 2)
            }
            [letter, ..] => (letter.to_string(), 1),
            [] => return refused("a property has no name"),
        };
        self.at += length;
        match Set::property(&name, self.flags) {
            Some(set) => Ok(set),
            None => refused(format!("no property of characters is known as `{name}`")),
        }
    }

    /// Behind its `[`, or, where the members of a class are cut by `&&`, behind that: then its `]` is left standing.
    fn class(&mut self, bracketed: bool, depth: usize) -> Result<Set, Refused> {
        if depth > CLASS_DEPTH_MAX {
            return refused("classes stand too deep within each other");
        }
        let negated = bracketed && self.peek() == Some('^');
        self.at += usize::from(negated);
        let mut set: Option<Set> = None;
        loop {
            match self.peek() {
                None => return refused("a class is not closed"),
                Some('[') => {
                    self.at += 1;
                    set = Some(Set::joined(set, self.class(true, depth + 1)?));
                }
                Some('&') if self.chars.get(self.at + 1) == Some(&'&') => {
                    self.at += 2;
                    let mut right = None;
                    while let Some(c) = self.peek().filter(|c| !matches!(c, ']' | '&')) {
                        self.at += usize::from(c == '[');
                        right = Some(Set::joined(right, self.class(c == '[', depth + 1)?));
                    }
                    set = match (set, right) {
                        (Some(left), Some(right)) => Some(left.and(right)),
                        (None, None) => return refused("`&&` stands between no classes"),
                        (left, right) => left.or(right),
                    };
                }
                // As the first it stands for itself.
                Some(']') if set.is_some() => {
                    self.at += usize::from(bracketed);
                    break;
                }
                Some(c) => {
                    let member = self.member(c)?;
                    set = Some(Set::joined(set, member));
                }
            }
        }
        match set {
            Some(set) if negated => Ok(set.negated()),
            Some(set) => Ok(set),
            None => refused("a class is empty"),
        }
    }

    /// One character of a class, a range, or a class with a name.
    fn member(&mut self, c: char) -> Result<Set, Refused> {
        self.at += 1;
        let first = match c {
            '\\' => match self.escape_in_class()? {
                Escape::Char(c) => c,
                Escape::Set(set) => return Ok(set),
            },
            c => c,
        };
        let last = self.peek().filter(|c| *c == '-').and_then(|_| self.chars.get(self.at + 1).copied());
        let last = match last {
            None | Some('[' | ']') => return Ok(Set::range(first, first, self.flags)),
            Some(_) => {
                self.at += 1;
                match self.peek() {
                    None => return refused("a class is not closed"),
                    Some(c) => {
                        self.at += 1;
                        c
                    }
                }
            }
        };
        let last = match last {
            '\\' => match self.escape_in_class()? {
                Escape::Char(c) => c,
                Escape::Set(_) => return refused("a range ends in a class"),
            },
            c => c,
        };
        if last < first { refused("a range ends before it begins") } else { Ok(Set::range(first, last, self.flags)) }
    }

    fn escape_in_class(&mut self) -> Result<Escape, Refused> {
        match self.chars.get(self.at) {
            // A range can begin with it, where it is the vertical tab it once was.
            Some('v') if self.chars.get(self.at + 1) == Some(&'-') => {
                self.at += 1;
                Ok(Escape::Char('\u{B}'))
            }
            _ => self.escape(),
        }
    }
}
