//! Diagnostics: what is wrong with a query, where, and what to do about it.
//!
//! Owns the translation of a place in the text into line, column and caret. Does not know any grammar.

use std::fmt;

/// A stretch of the query text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn to(self, end: Span) -> Span {
        Span { start: self.start, end: end.end }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticKind {
    /// The text is not Cypher.
    Syntax,
    /// The text is Cypher, but means nothing, or something weir does not do.
    Compile,
    /// A standing query that says what its mode cannot do. Clients know these by their message alone.
    Pattern,
}

/// One thing wrong with a query. `{}` prints the form clients know (`CompileError at 1.8 message`, the line, a caret),
/// `{:#}` adds the hint.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub kind: DiagnosticKind,
    /// A stable word for the error (`UndefinedVariable`, `HasACycle`, `Unsupported`), after the openCypher TCK where it has one.
    pub code: &'static str,
    pub message: String,
    /// Both count from 1, in characters.
    pub line: usize,
    pub column: usize,
    /// Counts from 0, in characters.
    pub offset: usize,
    /// The source line the error lies in.
    pub excerpt: String,
    /// For syntax errors: what would have been understood here.
    pub expected: Vec<String>,
    pub hint: Option<String>,
}

impl Diagnostic {
    pub fn new(text: &str, span: Span, kind: DiagnosticKind, code: &'static str, message: impl Into<String>) -> Diagnostic {
        let before = &text[..span.start.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        Diagnostic {
            kind,
            code,
            message: message.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            offset: before.chars().count(),
            excerpt: line.to_owned(),
            expected: Vec::new(),
            hint: None,
        }
    }

    pub fn syntax(text: &str, span: Span, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(text, span, DiagnosticKind::Syntax, code, message)
    }

    pub fn compile(text: &str, span: Span, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(text, span, DiagnosticKind::Compile, code, message)
    }

    pub fn with_hint(mut self, hint: Option<String>) -> Diagnostic {
        self.hint = hint;
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DiagnosticKind::Syntax => "SyntaxError",
            DiagnosticKind::Compile => "CompileError",
            DiagnosticKind::Pattern if f.alternate() => "PatternError",
            DiagnosticKind::Pattern => return f.write_str(&self.message),
        };
        writeln!(f, "{kind} at {}.{} {}\n", self.line, self.column, self.message)?;
        write!(f, "{}\n{}^", self.excerpt, " ".repeat(self.column - 1))?;
        match &self.hint {
            Some(hint) if f.alternate() => write!(f, "\n{hint}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// `did you mean …?` for a name that is close to one of the known ones.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let wanted = name.to_lowercase();
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    known
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// Edits (insert, delete, replace) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters_and_the_line_is_quoted() {
        let text = "MATCH (ñ)\n  RETURN m";
        let d = Diagnostic::compile(text, Span { start: text.len() - 1, end: text.len() }, "UndefinedVariable", "no `m`");
        assert_eq!(d.to_string(), "CompileError at 2.10 no `m`\n\n  RETURN m\n         ^");
        assert_eq!(d.offset, 19);
    }

    #[test]
    fn nearest_names() {
        assert_eq!(nearest("tolowre", ["toLower", "toUpper"].into_iter()), Some("did you mean `toLower`?".into()));
        assert_eq!(nearest("xyz", ["toLower"].into_iter()), None);
    }
}
