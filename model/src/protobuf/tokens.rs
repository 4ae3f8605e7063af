//! Tokens of a `.proto` file: words, numbers, strings and signs, without white space and comments.

/// One token, with the line it stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    pub kind: Kind,
    /// Of a string what is between its quotes, as it is written.
    pub text: &'a str,
    pub line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A name, also one with dots in it, or a number.
    Word,
    Text,
    Sign,
}

/// Cuts a file into tokens; an error says what is wrong and where.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    // As editors of Windows leave it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(at) {
        let rest = &text[at..];
        let (kind, length) = match byte {
            b'\n' => {
                line += 1;
                at += 1;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                // The star that it begins with does not end it.
                let end = rest[2..].find("*/").ok_or_else(|| format!("line {line}: a comment has no end"))? + 4;
                line += lines(&rest[..end]);
                at += end;
                continue;
            }
            quote @ (b'"' | b'\'') => {
                let length = string_length(rest.as_bytes(), *quote).ok_or_else(|| format!("line {line}: a string has no end"))?;
                found.push(Token { kind: Kind::Text, text: &rest[1..length - 1], line });
                at += length;
                continue;
            }
            byte if is_word(*byte) => (Kind::Word, word_length(rest.as_bytes())),
            byte if byte.is_ascii() => (Kind::Sign, 1),
            _ => return Err(format!("line {line}: there is a character outside of strings and comments that is not ASCII")),
        };
        found.push(Token { kind, text: &rest[..length], line });
        at += length;
    }
    Ok(found)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.'
}

/// The sign of an exponent belongs to its number.
fn word_length(bytes: &[u8]) -> usize {
    let is_number = bytes.iter().find(|byte| **byte != b'.').is_some_and(u8::is_ascii_digit);
    let is_behind = |at: &usize| match bytes[*at] {
        b'+' | b'-' => !is_number || !matches!(bytes[at - 1], b'e' | b'E'),
        byte => !is_word(byte),
    };
    (1..bytes.len()).find(is_behind).unwrap_or(bytes.len())
}

/// With both quotes. A string ends in its line.
fn string_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'\n' => return None,
            b'\\' => at += 2,
            byte if *byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

fn lines(text: &str) -> u32 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u32
}
