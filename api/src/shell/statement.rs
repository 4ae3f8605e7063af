//! Where statements end: at `;` outside strings, quoted names and comments. Knows nothing else of Cypher.

use std::ops::Range;

/// The statements of a text, without their `;`, each with the byte it begins at, and what follows the last of those. Blank ones
/// are left out.
pub fn split(text: &str) -> (Vec<(usize, &str)>, &str) {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut scanner = Scanner { text, at: 0 };
    while let Some(end) = scanner.next_end() {
        let statement = &text[start..end];
        if !is_blank(statement) {
            let statement = statement.trim_start();
            statements.push((end - statement.len(), statement.trim_end()));
        }
        start = end + 1;
    }
    (statements, &text[start..])
}

/// Whether there is nothing in it but blanks and whole comments. One that goes on is the beginning of a statement.
pub fn is_blank(text: &str) -> bool {
    let mut scanner = Scanner { text, at: 0 };
    while let Some(c) = scanner.peek() {
        let open = scanner.rest().starts_with("/*") && !scanner.rest().contains("*/");
        if open || (!c.is_whitespace() && !scanner.skip_comment()) {
            return false;
        }
        if c.is_whitespace() {
            scanner.at += c.len_utf8();
        }
    }
    true
}

/// The names right behind a `:` or a `.`: labels and types, properties.
pub fn marked_names(text: &str) -> Vec<(char, &str)> {
    let mut names = Vec::new();
    let mut scanner = Scanner { text, at: 0 };
    while let Some((_, c)) = scanner.next_outside() {
        if !matches!(c, ':' | '.') {
            continue;
        }
        let name = scanner.plain_name();
        // `1.5` has no property, and what is called is a function.
        if name.starts_with(|c: char| c.is_alphabetic() || c == '_') && scanner.peek() != Some('(') {
            names.push((c, name));
        }
    }
    names
}

/// Where the quoted name begins, at its back-tick, that the text ends in.
pub fn open_name(text: &str) -> Option<usize> {
    let mut scanner = Scanner { text, at: 0 };
    // The last one. Another right behind it is the same, with a back-tick in it.
    let mut name = 0..0;
    while let Some(c) = scanner.peek() {
        if scanner.skip_comment() {
            continue;
        }
        let start = scanner.at;
        scanner.at += c.len_utf8();
        match c {
            '\'' | '"' => _ = scanner.skip_to(c, true),
            '`' => {
                name.start = if start == name.end { name.start } else { start };
                if !scanner.skip_to(c, false) {
                    return Some(name.start);
                }
                name.end = scanner.at;
            }
            _ => {}
        }
    }
    None
}

/// The parameters of a text: where each stands, its `$` included, and its name.
pub fn parameters(text: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut scanner = Scanner { text, at: 0 };
    while let Some((start, c)) = scanner.next_outside() {
        if c == '$' {
            let name = scanner.name();
            found.push((start..scanner.at, name));
        }
    }
    found
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The place of the next `;` that ends a statement; behind it afterwards.
    fn next_end(&mut self) -> Option<usize> {
        while let Some((at, c)) = self.next_outside() {
            if c == ';' {
                return Some(at);
            }
        }
        None
    }

    /// The next character outside of comments and quotes, and its place; behind it afterwards.
    fn next_outside(&mut self) -> Option<(usize, char)> {
        while let Some(c) = self.peek() {
            if self.skip_comment() {
                continue;
            }
            let start = self.at;
            self.at += c.len_utf8();
            match c {
                '\'' | '"' => _ = self.skip_to(c, true),
                '`' => _ = self.skip_to(c, false),
                _ => return Some((start, c)),
            }
        }
        None
    }

    /// What of a name without back-ticks begins here; behind it afterwards.
    fn plain_name(&mut self) -> &'a str {
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        self.at += name.len();
        name
    }

    /// Whether the quote was there.
    fn skip_to(&mut self, quote: char, escapes: bool) -> bool {
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == quote {
                return true;
            }
            if escapes && c == '\\' {
                self.at += self.peek().map_or(0, char::len_utf8);
            }
        }
        false
    }

    /// The name that begins here, without its back-ticks; behind it afterwards.
    fn name(&mut self) -> String {
        let start = self.at;
        if self.peek() != Some('`') {
            return self.plain_name().to_owned();
        }
        // Two of them are one in the name.
        while self.peek() == Some('`') {
            self.at += 1;
            self.skip_to('`', false);
        }
        self.text[start..self.at].trim_start_matches('`').trim_end_matches('`').replace("``", "`")
    }

    fn skip_comment(&mut self) -> bool {
        let rest = self.rest();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            return false;
        };
        self.at += length;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_where_cypher_says_so() {
        for (text, statements, rest) in [
            ("RETURN 1;", &["RETURN 1"][..], ""),
            ("RETURN 1; ;\n// done;\n;RETURN 2", &["RETURN 1"], "RETURN 2"),
            ("RETURN ';', \"a\\\";\", `;``;`; x", &["RETURN ';', \"a\\\";\", `;``;`"], " x"),
            ("/* ; */ RETURN 1 // ;\n ; ", &["/* ; */ RETURN 1 // ;"], " "),
            ("RETURN 'é;", &[], "RETURN 'é;"),
            ("RETURN '\\", &[], "RETURN '\\"),
            ("", &[], ""),
        ] {
            let (found, behind) = split(text);
            assert!(found.iter().all(|(start, statement)| text[*start..].starts_with(statement)), "{found:?}");
            let found: Vec<&str> = found.into_iter().map(|(_, statement)| statement).collect();
            assert_eq!((found, behind), (statements.to_vec(), rest), "{text}");
        }
        let text = "MATCH (n:Per {a: ':x'})-[:R]->(m) WHERE n.größe > 1.5 // .no\nRETURN text.split(m.`odd`, m.x)";
        assert_eq!(marked_names(text), [(':', "Per"), (':', "R"), ('.', "größe"), ('.', "x")]);
        assert!(is_blank(" /* x */ // y"));
        assert!(!is_blank(" /* x */ y"));
        assert!(!is_blank("// y\n /* x"), "the statement goes on");
        assert_eq!(split("/* a;\nb */ RETURN 3;"), (vec![(0, "/* a;\nb */ RETURN 3")], ""));
        assert_eq!(split("RETURN 1 ;\n RETURN 2 ; x"), (vec![(0, "RETURN 1"), (12, "RETURN 2")], " x"));
    }

    #[test]
    fn names_in_back_ticks_and_parameters_are_found() {
        assert_eq!(open_name("MATCH (n:`a b"), Some(9));
        assert_eq!(open_name("MATCH (n:`a``b"), Some(9));
        assert_eq!(open_name("MATCH (`n`:`a"), Some(11));
        for whole in ["MATCH (n:`a b`", "RETURN '`", "RETURN 1 // `", ""] {
            assert_eq!(open_name(whole), None, "{whole}");
        }
        let named = |start: usize, end: usize, name: &str| (start..end, name.to_owned());
        let text = "RETURN $a, '$b', $`c ``d`, `$e` /* $f */, $größe.x";
        assert_eq!(parameters(text), [named(7, 9, "a"), named(17, 25, "c `d"), named(42, 50, "größe")]);
    }
}
