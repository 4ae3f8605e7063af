//! Where statements end: at `;` outside strings, quoted names and comments. Knows nothing else of Cypher.

/// The statements of a text, without their `;`, and what follows the last of those. Blank ones are left out.
pub fn split(text: &str) -> (Vec<&str>, &str) {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut scanner = Scanner { text, at: 0 };
    while let Some(end) = scanner.next_end() {
        let statement = &text[start..end];
        if !is_blank(statement) {
            statements.push(statement.trim());
        }
        start = end + 1;
    }
    (statements, &text[start..])
}

/// Whether there is nothing in it but blanks and comments.
pub fn is_blank(text: &str) -> bool {
    let mut scanner = Scanner { text, at: 0 };
    while let Some(c) = scanner.peek() {
        if !c.is_whitespace() && !scanner.skip_comment() {
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
    while let Some(c) = scanner.peek() {
        if scanner.skip_comment() {
            continue;
        }
        scanner.at += c.len_utf8();
        match c {
            '\'' | '"' => scanner.skip_to(c, true),
            '`' => scanner.skip_to(c, false),
            ':' | '.' => {
                let rest = scanner.rest();
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let start = scanner.at;
                scanner.at += end;
                // `1.5` has no property, and what is called is a function.
                if rest.starts_with(|c: char| c.is_alphabetic() || c == '_') && scanner.peek() != Some('(') {
                    names.push((c, &text[start..start + end]));
                }
            }
            _ => {}
        }
    }
    names
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
        while let Some(c) = self.peek() {
            if self.skip_comment() {
                continue;
            }
            self.at += c.len_utf8();
            match c {
                ';' => return Some(self.at - 1),
                '\'' | '"' => self.skip_to(c, true),
                '`' => self.skip_to(c, false),
                _ => {}
            }
        }
        None
    }

    fn skip_to(&mut self, quote: char, escapes: bool) {
        while let Some(c) = self.peek() {
            self.at += c.len_utf8();
            if c == quote {
                return;
            }
            if escapes && c == '\\' {
                self.at += self.peek().map_or(0, char::len_utf8);
            }
        }
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
            assert_eq!(split(text), (statements.to_vec(), rest), "{text}");
        }
        let text = "MATCH (n:Per {a: ':x'})-[:R]->(m) WHERE n.größe > 1.5 // .no\nRETURN text.split(m.`odd`, m.x)";
        assert_eq!(marked_names(text), [(':', "Per"), (':', "R"), ('.', "größe"), ('.', "x")]);
        assert!(is_blank(" /* x */ // y"));
        assert!(!is_blank(" /* x */ y"));
    }
}
