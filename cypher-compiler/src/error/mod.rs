//! Diagnostics: what is wrong with a query, where, and what to do about it.
//!
//! Owns the translation of a place in the text into line, column and caret. Does not know any grammar.

mod code;
mod spelling;

use std::fmt;

pub use code::{Code, Example};
pub use spelling::nearest;

/// More errors of one text are not told: whoever makes that many has made one mistake many times.
pub const ERROR_COUNT_MAX: usize = 50;

/// Of a longer line only the part around the error is quoted.
const EXCERPT_LENGTH_MAX: usize = 400;

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

impl DiagnosticKind {
    pub fn name(self) -> &'static str {
        match self {
            DiagnosticKind::Syntax => "SyntaxError",
            DiagnosticKind::Compile => "CompileError",
            DiagnosticKind::Pattern => "PatternError",
        }
    }
}

/// One thing wrong with a query. `{}` prints the form clients know (`CompileError at 1.8 message`, the line, a caret),
/// `{:#}` underlines all that is wrong and adds the hint.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub kind: DiagnosticKind,
    pub code: Code,
    pub message: String,
    /// Both count from 1, in characters.
    pub line: usize,
    pub column: usize,
    /// Counts from 0, in characters.
    pub offset: usize,
    /// How many characters of the line are wrong; at least 1.
    pub length: usize,
    /// The source line the error lies in; the part of it around the error, where it is very long.
    pub excerpt: String,
    /// How many characters of the excerpt come before the error.
    pub indent: usize,
    /// For syntax errors: what would have been understood here.
    pub expected: Vec<String>,
    pub hint: Option<String>,
}

impl Diagnostic {
    pub fn new(text: &str, span: Span, kind: DiagnosticKind, code: Code, message: impl Into<String>) -> Diagnostic {
        let start = span.start.min(text.len());
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let column = before[line_start..].chars().count();
        let wrong = text[start..span.end.clamp(start, text.len())].lines().next().unwrap_or_default();
        let (excerpt, indent) = excerpt(line, column);
        Diagnostic {
            kind,
            code,
            message: message.into(),
            line: before.matches('\n').count() + 1,
            column: column + 1,
            offset: before.chars().count(),
            length: wrong.trim_end().chars().count().max(1),
            excerpt,
            indent,
            expected: Vec::new(),
            hint: None,
        }
    }

    pub fn syntax(text: &str, span: Span, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(text, span, DiagnosticKind::Syntax, code, message)
    }

    pub fn compile(text: &str, span: Span, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(text, span, DiagnosticKind::Compile, code, message)
    }

    pub fn with_hint(mut self, hint: Option<String>) -> Diagnostic {
        self.hint = hint;
        self
    }
}

/// What is quoted of a line, and how many characters of it come before the error.
fn excerpt(line: &str, column: usize) -> (String, usize) {
    if line.len() <= EXCERPT_LENGTH_MAX || line.chars().count() <= EXCERPT_LENGTH_MAX {
        return (line.to_owned(), column);
    }
    let from = column.saturating_sub(EXCERPT_LENGTH_MAX / 2);
    let mut rest = line.chars().skip(from);
    let mut quoted: String = if from > 0 { "…".to_owned() } else { String::new() };
    quoted.extend(rest.by_ref().take(EXCERPT_LENGTH_MAX));
    if rest.next().is_some() {
        quoted.push('…');
    }
    (quoted, column - from + usize::from(from > 0))
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = f.alternate();
        if self.kind == DiagnosticKind::Pattern && !full {
            return f.write_str(&self.message);
        }
        writeln!(f, "{} at {}.{} {}\n", self.kind.name(), self.line, self.column, self.message)?;
        if !full {
            return write!(f, "{}\n{}^", self.excerpt, " ".repeat(self.indent));
        }
        // Tabs stay tabs, so that the caret stands where the terminal puts the character.
        let indent: String = self.excerpt.chars().take(self.indent).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let there = self.excerpt.chars().count().saturating_sub(self.indent).max(1);
        write!(f, "{}\n{indent}{}", self.excerpt, "^".repeat(self.length.min(there)))?;
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters_and_the_line_is_quoted() {
        let text = "MATCH (ñ)\n  RETURN mn";
        let span = Span { start: text.len() - 2, end: text.len() };
        let d = Diagnostic::compile(text, span, Code::UndefinedVariable, "no `mn`");
        assert_eq!(d.to_string(), "CompileError at 2.10 no `mn`\n\n  RETURN mn\n         ^");
        assert_eq!(format!("{d:#}"), "CompileError at 2.10 no `mn`\n\n  RETURN mn\n         ^^");
        assert_eq!(d.offset, 19);
    }

    #[test]
    fn of_a_long_line_the_part_around_the_error_is_quoted() {
        let text = format!("RETURN [{}é, {}", "1, ".repeat(1000), "2, ".repeat(1000));
        let start = text.find('é').unwrap();
        let d = Diagnostic::compile(&text, Span { start, end: start + 2 }, Code::UndefinedVariable, "no");
        assert_eq!(d.excerpt.chars().count(), EXCERPT_LENGTH_MAX + 2);
        assert_eq!(d.excerpt.chars().nth(d.indent), Some('é'));
        assert_eq!(d.column, start + 1);
        // An error at the very end, and one beyond it.
        for start in [text.len(), text.len() + 9] {
            let d = Diagnostic::compile(&text, Span { start, end: start }, Code::UndefinedVariable, "no");
            assert_eq!((d.length, d.excerpt.chars().count()), (1, d.indent));
        }
    }

    #[test]
    fn every_code_is_named_once() {
        let names: std::collections::HashSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }
}
