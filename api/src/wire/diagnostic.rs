//! What is wrong with a query, in answers.
//!
//! The body is an array of texts, one an error, in the form clients of v1 know; where weir has a suggestion it stands in a
//! line of its own below the caret. Everything else about the errors travels beside the body, in the header
//! `Weir-Diagnostics`: a JSON array in the order of the texts, which clients that do not know it do not see.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use weir_cypher_compiler::Diagnostic;

pub const HEADER: &str = "weir-diagnostics";

/// Proxies refuse answers with long headers. The first errors are told in full, the others in the body alone.
const HEADER_BYTES_MAX: usize = 4096;

pub fn text(diagnostic: &Diagnostic) -> String {
    match &diagnostic.hint {
        Some(hint) => format!("{diagnostic}\n{hint}"),
        None => diagnostic.to_string(),
    }
}

/// An error as JSON: where it is, and what a program can tell it by.
pub fn fields(diagnostic: &Diagnostic) -> Json {
    let mut fields = json!({
        "code": diagnostic.code.name(),
        "kind": diagnostic.kind.name(),
        "line": diagnostic.line,
        "column": diagnostic.column,
        "offset": diagnostic.offset,
        "length": diagnostic.length,
    });
    if let Some(hint) = &diagnostic.hint {
        fields["hint"] = json!(hint);
    }
    if !diagnostic.expected.is_empty() {
        fields["expected"] = json!(diagnostic.expected);
    }
    fields
}

/// The value of the header.
pub fn header(diagnostics: &[Diagnostic]) -> String {
    let mut header = "[".to_owned();
    for diagnostic in diagnostics {
        let next = ascii(&fields(diagnostic).to_string());
        if header.len() + next.len() + 2 > HEADER_BYTES_MAX {
            break;
        }
        if header.len() > 1 {
            header.push(',');
        }
        header.push_str(&next);
    }
    header + "]"
}

/// JSON without characters that have no place in a header.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if (' '..='~').contains(&c) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_cypher_compiler::{Options, compile};

    fn errors(text: &str) -> Vec<Diagnostic> {
        compile(text, &Options::default()).expect_err(text)
    }

    #[test]
    fn a_suggestion_follows_the_caret() {
        assert!(text(&errors("RETURN x")[0]).ends_with('^'));
        let found = errors("MATCH (größe) RETURN gröse");
        let expected = "CompileError at 1.22 Variable `gröse` not defined\n\nMATCH (größe) RETURN gröse\n                     ^\n\
                        did you mean `größe`?";
        assert_eq!(text(&found[0]), expected);
        let header = header(&found);
        assert!(header.is_ascii(), "{header}");
        let fields: Json = serde_json::from_str(&header).expect("JSON");
        let expected = json!([{"code": "UndefinedVariable", "kind": "CompileError", "line": 1, "column": 22, "offset": 21,
            "length": 5, "hint": "did you mean `größe`?"}]);
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_header_stays_short() {
        let found = errors(&format!("RETURN {}", "nothing, ".repeat(100) + "1"));
        let header = header(&found);
        assert!(header.len() <= HEADER_BYTES_MAX && header.len() > 1000, "{}", header.len());
        let fields: Vec<Json> = serde_json::from_str(&header).expect("JSON");
        assert!(fields.len() < found.len());
    }
}
