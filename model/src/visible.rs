//! Text of others on one line, for logs and terminals: what would break the line or steer the terminal stands as an escape, so
//! that nobody who names things or asks writes lines that look like somebody else's.

/// Everything else stays as it is, backslashes too: it is for people to read, not to be read back.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if steers(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Also what turns the direction of writing around.
pub fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_escaped_and_nothing_else() {
        for (text, expected) in [
            ("größe \\n \"x\" e\u{301} 👩\u{200d}🚀", "größe \\n \"x\" e\u{301} 👩\u{200d}🚀"),
            ("a\r\n\tb", "a\\r\\n\\tb"),
            ("\u{1b}[2J\u{7f}\u{85}\u{9b}1A", "\\u001b[2J\\u007f\\u0085\\u009b1A"),
            ("\u{2028}\u{2029}\u{202e}\u{2066}", "\\u2028\\u2029\\u202e\\u2066"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
