//! Text to tokens. Owns what numbers, strings, names and comments look like; knows no keyword and no grammar.

use unicode_ident::is_xid_continue;
use weir_model::Text;

use crate::error::{Code, Diagnostic, ERROR_COUNT_MAX, Span};

/// A name as it is read whatever is in it: in back-ticks, and on one line.
pub fn quoted_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('`');
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        match c {
            '`' => out.push_str("``"),
            // A back-slash would be read as what escapes a character.
            '\\' if rest.as_str().starts_with('u') => out.push_str("\\u005c"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('`');
    out
}

#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A bare name or a keyword: which of the two depends on where it stands.
    Word(Text),
    /// A name in back-ticks, never a keyword.
    Quoted(Text),
    Text(Text),
    /// Without its sign, so that the smallest integer can be written.
    Integer(u64),
    Float(f64),
    /// Begins like a number and goes on as none is written: `12ab`, `0x`. An error only where a number could stand.
    Malformed,
    Symbol(&'static str),
    End,
}

impl TokenKind {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, TokenKind::Word(own) if own.eq_ignore_ascii_case(word))
    }
}

#[derive(Clone, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// Longest first. Arrows are left in pieces, because `a<-1` and `(a)<-[]-(b)` begin alike.
const SYMBOLS: &[&str] = &[
    "..", "<=", ">=", "<>", "!=", "=~", "+=", "(", ")", "[", "]", "{", "}", ",", ".", ":", ";", "|", "+", "-", "*", "/", "%",
    "^", "=", "<", ">", "$", "!", "&",
];

/// What a text consists of, and what is wrong with it.
pub struct Lexed {
    pub tokens: Vec<Token>,
    pub errors: Vec<Diagnostic>,
    /// Whether the tokens are those that were meant, whatever is wrong with some of them: what is never closed has
    /// swallowed others.
    pub sound: bool,
}

pub fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::with_capacity(text.len() / 4), errors: Vec::new() };
    let mut sound = true;
    loop {
        let read = lexer.skip_blanks().and_then(|more| if more { lexer.token().map(|()| true) } else { Ok(false) });
        match read {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                sound = false;
                lexer.errors.push(*error);
            }
        }
        if lexer.errors.len() >= ERROR_COUNT_MAX {
            sound = false;
            break;
        }
    }
    lexer.push(TokenKind::End, text.len());
    Lexed { tokens: lexer.tokens, errors: lexer.errors, sound }
}

/// Where the word stands that a text begins with, behind blanks and comments, and whether something keeps it from what follows.
pub fn first_word(text: &str) -> Option<(Span, bool)> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), errors: Vec::new() };
    if !lexer.skip_blanks().ok()? || !lexer.peek().is_some_and(is_name_start) {
        return None;
    }
    let span = Span { start: lexer.at, end: lexer.at + lexer.word_length() };
    lexer.at = span.end;
    // A comment that is never closed is one, too.
    let apart = lexer.skip_blanks().is_err() || lexer.at > span.end;
    Some((span, apart))
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// Errors after which reading goes on as if nothing were wrong.
    errors: Vec<Diagnostic>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.tokens.push(Token { kind, span: Span { start, end: self.at } });
    }

    /// An error from `start` to where reading stands.
    fn error(&self, start: usize, code: Code, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::syntax(self.text, Span { start, end: self.at.max(start) }, code, message))
    }

    /// False at the end of the text.
    fn skip_blanks(&mut self) -> Result<bool, Box<Diagnostic>> {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => {
                        let span = Span { start: self.at, end: self.at + 2 };
                        self.at = self.text.len();
                        let message = "The comment that begins here is never closed: expected '*/'";
                        return Err(Box::new(Diagnostic::syntax(self.text, span, Code::UnexpectedSyntax, message)));
                    }
                }
            } else {
                match self.peek() {
                    None => return Ok(false),
                    Some(c) if c.is_whitespace() || matches!(c, '\u{feff}' | '\u{1c}'..='\u{1f}') => self.at += c.len_utf8(),
                    Some(_) => return Ok(true),
                }
            }
        }
    }

    fn token(&mut self) -> Result<(), Box<Diagnostic>> {
        let start = self.at;
        let Some(c) = self.peek() else { return Ok(()) };
        if is_name_start(c) {
            self.at += self.word_length();
            self.push(TokenKind::Word(Text::new(&self.text[start..self.at])), start);
            return Ok(());
        }
        if c.is_ascii_digit() || (c == '.' && self.dot_begins_number()) {
            return self.number(start);
        }
        match c {
            '`' => self.quoted_name(start),
            '\'' | '"' => self.string(start, c),
            _ => match SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol)) {
                Some(symbol) => {
                    self.at += symbol.len();
                    self.push(TokenKind::Symbol(symbol), start);
                    Ok(())
                }
                None => {
                    self.at += c.len_utf8();
                    let code = if c.is_ascii() { Code::UnexpectedSyntax } else { Code::InvalidUnicodeCharacter };
                    Err(self.error(start, code, format!("Invalid input '{c}'")))
                }
            },
        }
    }

    fn word_length(&self) -> usize {
        self.rest().find(|c: char| !is_name_part(c)).unwrap_or(self.rest().len())
    }

    /// `.5` is a number, but not in `a.5`, and `1..5` has no number `.5` in it.
    fn dot_begins_number(&self) -> bool {
        let after_operand = match self.tokens.last().map(|token| &token.kind) {
            Some(TokenKind::Word(_) | TokenKind::Quoted(_)) => self.tokens.last().is_some_and(|token| token.span.end == self.at),
            Some(TokenKind::Symbol(symbol)) => matches!(*symbol, ")" | "]" | "}"),
            _ => false,
        };
        !after_operand && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit())
    }

    fn number(&mut self, start: usize) -> Result<(), Box<Diagnostic>> {
        let rest = self.rest();
        for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8)] {
            if prefixes.iter().any(|prefix| rest.starts_with(prefix)) {
                let length = rest.find(|c: char| !is_name_part(c)).unwrap_or(rest.len());
                // `_` stands between digits, nowhere else.
                let groups = rest[2..length].split('_');
                let well_formed = groups.clone().all(|group| !group.is_empty() && group.chars().all(|c| c.is_digit(radix)));
                let digits: String = groups.collect();
                self.at += length;
                if !well_formed {
                    self.push(TokenKind::Malformed, start);
                    return Ok(());
                }
                let written = &self.text[start..self.at];
                let value = u64::from_str_radix(&digits, radix).ok().filter(|n| *n <= 1 << 63);
                if value.is_none() {
                    let message = format!("The integer {written} does not fit into 64 bits");
                    let error = self.error(start, Code::IntegerOverflow, message);
                    self.errors.push(*error);
                }
                self.push(TokenKind::Integer(value.unwrap_or(0)), start);
                return Ok(());
            }
        }
        let bytes = rest.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let digits = |mut at: usize| {
            while is_digit(at) || (bytes.get(at) == Some(&b'_') && is_digit(at + 1)) {
                at += 1;
            }
            at
        };
        let mut end = digits(0);
        let mut is_float = false;
        if bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
            end = digits(end + 1);
            is_float = true;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if is_digit(end + 1 + sign) {
                end = digits(end + 1 + sign);
                is_float = true;
            }
        }
        let trailing = rest[end..].find(|c: char| !is_name_part(c)).unwrap_or(rest.len() - end);
        self.at += end + trailing;
        if trailing > 0 {
            self.push(TokenKind::Malformed, start);
            return Ok(());
        }
        let written = &self.text[start..self.at];
        let plain = written.replace('_', "");
        let value = if is_float {
            plain.parse::<f64>().ok().filter(|n| n.is_finite()).map(TokenKind::Float)
        } else {
            plain.parse::<u64>().ok().filter(|n| *n <= 1 << 63).map(TokenKind::Integer)
        };
        let kind = value.unwrap_or_else(|| {
            let (code, message) = match is_float {
                true => (Code::FloatingPointOverflow, "floating point number is too large".to_owned()),
                false => (Code::IntegerOverflow, format!("The integer {written} does not fit into 64 bits")),
            };
            self.errors.push(Diagnostic::compile(self.text, Span { start, end: self.at }, code, message));
            TokenKind::Integer(0)
        });
        self.push(kind, start);
        Ok(())
    }

    fn quoted_name(&mut self, start: usize) -> Result<(), Box<Diagnostic>> {
        let mut name = String::new();
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == '\\' {
                name.push(self.numbered().unwrap_or(c));
            } else if c != '`' {
                name.push(c);
            } else if self.peek() == Some('`') {
                self.at += 1;
                name.push('`');
            } else {
                self.push(TokenKind::Quoted(Text::from(name)), start);
                return Ok(());
            }
        }
        Err(self.error(start, Code::UnexpectedSyntax, "The name that begins here is never closed: expected '`'"))
    }

    /// A character by its number, `\u000a`, which lets a name stand on one line. Anything else behind a back-slash means itself.
    fn numbered(&mut self) -> Option<char> {
        let digits = self.rest().strip_prefix('u')?.get(..4)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let c = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_number)?)?;
        self.at += 5;
        Some(c)
    }

    fn string(&mut self, start: usize, quote: char) -> Result<(), Box<Diagnostic>> {
        let mut value = String::new();
        self.at += 1;
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == quote {
                self.push(TokenKind::Text(Text::from(value)), start);
                return Ok(());
            }
            if c == '\\' {
                if let Err(error) = self.escape(&mut value) {
                    self.errors.push(*error);
                }
            } else {
                value.push(c);
            }
        }
        Err(Box::new(Diagnostic::syntax(
            self.text,
            Span { start: self.text.len(), end: self.text.len() },
            Code::UnexpectedSyntax,
            format!("Unexpected end of input: expected {quote} to close the string that began at offset {start}"),
        )))
    }

    fn escape(&mut self, value: &mut String) -> Result<(), Box<Diagnostic>> {
        let Some(c) = self.peek() else { return Ok(()) };
        self.at += c.len_utf8();
        match c {
            '\\' | '\'' | '"' | '`' => value.push(c),
            'b' => value.push('\u{8}'),
            'f' => value.push('\u{c}'),
            'n' => value.push('\n'),
            'r' => value.push('\r'),
            't' => value.push('\t'),
            'u' => {
                let mut code = self.hexadecimal(4)?;
                if (0xd800..0xdc00).contains(&code) && self.rest().starts_with("\\u") {
                    let back = self.at;
                    self.at += 2;
                    let low = self.hexadecimal(4)?;
                    match low {
                        0xdc00..0xe000 => code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00),
                        _ => self.at = back,
                    }
                }
                // Half a surrogate pair is no character; it prints as `?`, as it does in answers of the reference.
                value.push(char::from_u32(code).unwrap_or('?'));
            }
            'U' => {
                let from = self.at;
                let code = self.hexadecimal(8)?;
                if code > u32::from(char::MAX) {
                    let message = format!("There is no unicode character {code:08X}: the last is 0010FFFF");
                    return Err(self.error(from, Code::InvalidUnicodeLiteral, message));
                }
                value.push(char::from_u32(code).unwrap_or('?'));
            }
            // An unknown escape keeps both characters, so that regular expressions need no doubled back-slash.
            _ => {
                value.push('\\');
                value.push(c);
            }
        }
        Ok(())
    }

    fn hexadecimal(&mut self, length: usize) -> Result<u32, Box<Diagnostic>> {
        let digits: String = self.rest().chars().take(length).take_while(char::is_ascii_hexdigit).collect();
        if digits.len() < length {
            self.at += digits.len();
            let found = self.peek().map_or("end of input".to_owned(), |c| format!("'{c}'"));
            let words = if length == 4 { "four" } else { "eight" };
            return Err(self.error(
                self.at,
                Code::InvalidUnicodeLiteral,
                format!("Invalid input {found}: expected {words} hexadecimal digits specifying a unicode character"),
            ));
        }
        self.at += length;
        Ok(u32::from_str_radix(&digits, 16).unwrap_or(0xfffd))
    }
}

/// Letters of every script, and what connects words.
fn is_name_start(c: char) -> bool {
    c.is_alphabetic()
        || matches!(c, '_' | '\u{203f}' | '\u{2040}' | '\u{fe33}' | '\u{fe34}' | '\u{fe4d}'..='\u{fe4f}' | '\u{ff3f}')
}

/// Also the marks that combine with letters, and signs of currencies.
fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || is_name_start(c) || is_xid_continue(c) || matches!(c, '\u{a2}'..='\u{a5}' | '\u{20a0}'..='\u{20cf}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let lexed = lex(text);
        let shown = match lexed.errors.first() {
            None => lexed
                .tokens
                .iter()
                .map(|token| match &token.kind {
                    TokenKind::Word(w) => w.to_string(),
                    TokenKind::Quoted(w) => format!("`{w}`"),
                    TokenKind::Text(t) => format!("{t:?}"),
                    TokenKind::Integer(n) => n.to_string(),
                    TokenKind::Float(n) => format!("{n:?}"),
                    TokenKind::Symbol(s) => s.to_string(),
                    TokenKind::Malformed => "malformed".into(),
                    TokenKind::End => "end".into(),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Some(error) => format!("{}.{} {}", error.line, error.column, error.message),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn numbers() {
        check("1 0x1F 0o17 1_000 1.5 .5 1e3 1E-3", "1 31 15 1000 1.5 0.5 1000.0 0.001 end");
        check("[1..3] *1..2 a.b x[..5]", "[ 1 .. 3 ] * 1 .. 2 a . b x [ .. 5 ] end");
        check("9223372036854775808", "9223372036854775808 end");
        check("9223372036854775809", "1.1 The integer 9223372036854775809 does not fit into 64 bits");
        check("1abc 0xZ 0x +", "malformed malformed malformed + end");
        check("1_0.2_5e1_0 0xf_f 0o1_7", "102500000000.0 255 15 end");
        check("1_ 1__0 0x_1 0x1_ 0x1__0 0o_7 1.5_ 1e5_", &format!("{}end", "malformed ".repeat(8)));
        check("1_.5", "malformed 0.5 end");
        check("RETURN 1e400", "1.8 floating point number is too large");
    }

    #[test]
    fn strings_and_names() {
        check(r#"'it\'s' "\d\n" '\u00e9' '\U0001F308' '\ud83c\udf08'"#, "\"it's\" \"\\\\d\\n\" \"é\" \"🌈\" \"🌈\" end");
        check("`odd name` `tick``` größe", "`odd name` `tick`` größe end");
        check(r"`a\u000ab` `\u0060` `\d\u00g1\u+0a1\ud83c` `\u005cu000a`", "`a\nb` ``` `\\d\\u00g1\\u+0a1\\ud83c` `\\u000a` end");
        check("नमस्ते e\u{301}te\u{301} 名前2 a‿b price€ $price", "नमस्ते e\u{301}te\u{301} 名前2 a‿b price€ $ price end");
        check(r"RETURN '\u00g1'", "1.13 Invalid input 'g': expected four hexadecimal digits specifying a unicode character");
        check(r"'\U0010FFFF' '\U0000D800'", "\"\\u{10ffff}\" \"?\" end");
        for code in ["0011FFFF", "00110000", "FFFFFFFF"] {
            check(&format!(r"RETURN '\U{code}'"), &format!("1.11 There is no unicode character {code}: the last is 0010FFFF"));
        }
        check("'abc", "1.5 Unexpected end of input: expected ' to close the string that began at offset 0");
    }

    #[test]
    fn comments_and_unknown_characters() {
        check("a // b\n /* c */ d", "a d end");
        check("/* never", "1.1 The comment that begins here is never closed: expected '*/'");
        check("42 — 41", "1.4 Invalid input '—'");
    }
}
