//! What is answered about a text: its mistakes, the kinds of its words, what could stand at a place, what a name means.

use serde_json::{Value as Json, json};
use weir_cypher_compiler::language::{self, Described, Gives, KEYWORDS, Wanted};
use weir_cypher_compiler::{Diagnostic, Options, compile, procedures, wanted};

use super::document::{Document, Position};
use super::names::Names;

/// Numbers of the protocol.
const ERROR: u8 = 1;
const METHOD: u8 = 2;
const FUNCTION: u8 = 3;
const VARIABLE: u8 = 6;
const CLASS: u8 = 7;
const PROPERTY: u8 = 10;
const KEYWORD: u8 = 14;

pub fn diagnostics(document: &Document, options: &Options) -> Json {
    let text = document.text();
    let items: Vec<Json> = match is_blank(text) {
        true => Vec::new(),
        false => {
            compile(&wanted(text).1, options).err().unwrap_or_default().iter().map(|error| diagnostic(text, error)).collect()
        }
    };
    json!({"kind": "full", "items": items})
}

/// Nothing but blanks and comments is no mistake yet.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty() || text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with("//"))
}

fn diagnostic(text: &str, error: &Diagnostic) -> Json {
    let line = text.split('\n').nth(error.line - 1).unwrap_or_default().trim_end_matches('\r');
    let units = |count: usize| line.chars().take(count).map(char::len_utf16).sum::<usize>();
    let place = |column: usize| Position { line: error.line - 1, character: units(column) }.json();
    let message = match &error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    };
    json!({
        "range": {"start": place(error.column - 1), "end": place(error.column - 1 + error.length)},
        "severity": ERROR,
        "source": error.kind.name(),
        "code": error.code.name(),
        "message": message,
    })
}

/// Five numbers a word: lines and units since the word before, its length, its class, no modifiers. A word that goes over
/// several lines is one on each.
pub fn tokens(document: &Document) -> Json {
    let text = document.text();
    let (mut places, mut last, mut data) = (document.places(), Position { line: 0, character: 0 }, Vec::new());
    for (span, class) in language::marks(text) {
        let mut start = span.start;
        for line in text[span.start..span.end].split_inclusive('\n') {
            let length: usize = line.trim_end_matches(['\n', '\r']).chars().map(char::len_utf16).sum();
            if length > 0 {
                let place = places.of(start);
                let since = if place.line == last.line { last.character } else { 0 };
                data.extend([place.line - last.line, place.character - since, length, class as usize, 0]);
                last = place;
            }
            start += line.len();
        }
    }
    json!({"data": data})
}

pub fn kind(document: &Document, options: &Options) -> Json {
    let kind = match language::gives(document.text(), options) {
        Gives::Nodes => "node",
        Gives::Table => "table",
        Gives::SideEffects => "sideEffects",
        Gives::Unknown => "unknown",
    };
    json!({"kind": kind})
}

pub fn hover(document: &Document, offset: usize, options: &Options) -> Json {
    let text = document.text();
    let Some((range, after_call)) = language::name_at(text, offset) else { return Json::Null };
    let name = &text[range.clone()];
    // Of `n.name` the whole name means nothing; of `text.split(` it does.
    let called = text[range.end..].trim_start().starts_with(['(', '{']);
    let described = if after_call {
        language::procedure(name, options)
    } else if called {
        language::function(name)
    } else {
        None
    };
    let shown = match described {
        Some(Described { signature, about, example }) => {
            format!("```cypher\n{signature}\n```\n{about}\n\n```cypher\n{example}\n```")
        }
        None => match keyword(name) {
            Some((word, about)) => format!("**{word}**\n\n{about}"),
            None => return Json::Null,
        },
    };
    let mut places = document.places();
    let (start, end) = (places.of(range.start), places.of(range.end));
    json!({"contents": {"kind": "markdown", "value": shown}, "range": {"start": start.json(), "end": end.json()}})
}

/// The keyword that a word is, or that begins with it.
fn keyword(word: &str) -> Option<&'static (&'static str, &'static str)> {
    let is = |whole: &str| whole.split(' ').any(|part| part.eq_ignore_ascii_case(word));
    KEYWORDS.iter().find(|(whole, _)| whole.eq_ignore_ascii_case(word)).or_else(|| KEYWORDS.iter().find(|(whole, _)| is(whole)))
}

pub fn completion(document: &Document, offset: usize, names: &Names, options: &Options) -> Json {
    let text = document.text();
    let (start, wanted) = language::wanted(&text[..offset]);
    let word = text[start..offset].to_lowercase();
    let mut places = document.places();
    let range = json!({"start": places.of(start).json(), "end": places.of(offset).json()});
    let mut items: Vec<Json> = Vec::new();
    let mut add = |label: &str, kind: u8, detail: &str| {
        if label.to_lowercase().starts_with(&word) {
            let mut item = json!({"label": label, "kind": kind, "textEdit": {"range": range, "newText": label}});
            if !detail.is_empty() {
                item["detail"] = detail.into();
            }
            items.push(item);
        }
    };
    match wanted {
        Wanted::Label => {
            names.labels.iter().for_each(|name| add(name, CLASS, "label"));
            names.types.iter().for_each(|name| add(name, CLASS, "relationship type"));
        }
        Wanted::Property => names.keys.iter().for_each(|name| add(name, PROPERTY, "")),
        Wanted::Parameter => language::parameters(text).iter().for_each(|name| add(name, VARIABLE, "parameter")),
        Wanted::Procedure => procedures::all(options).iter().for_each(|found| add(&found.name, METHOD, &found.signature())),
        Wanted::Any => {
            language::visible(text, offset).iter().for_each(|name| add(name, VARIABLE, "variable"));
            KEYWORDS.iter().for_each(|(word, about)| add(word, KEYWORD, about));
            for name in language::function_names() {
                add(name, FUNCTION, &language::function(name).map(|found| found.signature).unwrap_or_default());
            }
        }
    }
    json!({"isIncomplete": false, "items": items})
}
