//! CSV: where a row ends, and what its fields are.
//!
//! A field that begins with the quote character runs to the closing one, newlines and delimiters included; two quotes, or
//! the escape character and a quote, are a quote inside it. Elsewhere the escape character takes the meaning from a
//! delimiter, a quote or itself, and stands for itself before anything else. All values are text. `CsvFraming` and
//! `split_row` read the same language: the first has to know which newline ends a row, the second what lies before it.

use std::sync::Arc;

use memchr::{memchr2, memchr3};
use weir_model::{Map, Text, Value};

use super::Decoder;
use crate::frames::Frame;

/// The three characters with a meaning. They differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CsvCharacters {
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
}

/// Finds the end of a row in a buffer that fills up: what was looked at once is not looked at again.
#[derive(Clone, Debug)]
pub struct CsvFraming {
    characters: CsvCharacters,
    quoted: bool,
    /// Everything before is understood; counts from the start of the row, as does the next.
    scanned: usize,
    /// A delimiter before this was escaped.
    escaped_before: usize,
}

impl CsvFraming {
    pub fn new(characters: CsvCharacters) -> CsvFraming {
        CsvFraming { characters, quoted: false, scanned: 0, escaped_before: 0 }
    }

    /// Where the newline of the row that begins at the start of `bytes` stands. `bytes` is what was given before, and
    /// more. After a row is found the next call is about the next row.
    pub fn row_end(&mut self, bytes: &[u8], all: bool) -> Option<usize> {
        let CsvCharacters { delimiter, quote, escape } = self.characters;
        while self.scanned < bytes.len() {
            let rest = &bytes[self.scanned..];
            let found = if self.quoted { memchr2(quote, escape, rest) } else { memchr3(quote, escape, b'\n', rest) };
            let Some(offset) = found else {
                self.scanned = bytes.len();
                break;
            };
            let at = self.scanned + offset;
            if bytes[at] == b'\n' && !self.quoted {
                *self = CsvFraming::new(self.characters);
                return Some(at);
            }
            let next = bytes.get(at + 1);
            if next.is_none() && !all {
                // What the character means depends on the one after it.
                self.scanned = at;
                break;
            }
            self.scanned = at + 1;
            if bytes[at] == escape {
                if next.is_some_and(|b| [delimiter, quote, escape].contains(b)) {
                    self.scanned = at + 2;
                    self.escaped_before = at + 2;
                }
            } else if self.quoted {
                match next {
                    Some(b) if *b == quote => self.scanned = at + 2,
                    _ => self.quoted = false,
                }
            } else {
                let after_delimiter = at > 0 && bytes[at - 1] == delimiter && at > self.escaped_before;
                self.quoted = at == 0 || after_delimiter;
            }
        }
        None
    }
}

/// The fields of one row without its newline.
pub fn split_row(row: &[u8], characters: CsvCharacters) -> Result<Vec<Text>, String> {
    let CsvCharacters { delimiter, quote, escape } = characters;
    let mut fields = Vec::new();
    let mut at = 0;
    // A field is a slice of the row unless something in it has to go.
    let mut rewritten = Vec::new();
    loop {
        if row.get(at) == Some(&quote) {
            rewritten.clear();
            let opened = at;
            at += 1;
            loop {
                let rest = row.get(at..).unwrap_or_default();
                let Some(offset) = memchr2(quote, escape, rest) else {
                    return Err(format!("the quote opened at byte {opened} of the row is not closed"));
                };
                rewritten.extend_from_slice(&rest[..offset]);
                at += offset;
                match (row[at] == escape, row.get(at + 1)) {
                    (true, Some(b)) if [delimiter, quote, escape].contains(b) => {
                        rewritten.push(*b);
                        at += 2;
                    }
                    (true, _) => {
                        rewritten.push(escape);
                        at += 1;
                    }
                    (false, Some(b)) if *b == quote => {
                        rewritten.push(quote);
                        at += 2;
                    }
                    (false, _) => {
                        at += 1;
                        break;
                    }
                }
            }
            fields.push(Text::from_utf8_lossy(&rewritten));
            match row.get(at) {
                None => return Ok(fields),
                Some(b) if *b == delimiter => at += 1,
                Some(_) => return Err(format!("expected a delimiter or the end of the row after the quote before byte {at}")),
            }
        } else {
            let start = at;
            rewritten.clear();
            let mut plain = start;
            let end = loop {
                let rest = &row[at..];
                let Some(offset) = memchr2(delimiter, escape, rest) else { break row.len() };
                at += offset;
                if row[at] == delimiter {
                    break at;
                }
                if row.get(at + 1).is_some_and(|b| [delimiter, quote, escape].contains(b)) {
                    rewritten.extend_from_slice(&row[plain..at]);
                    plain = at + 1;
                    at += 2;
                } else {
                    at += 1;
                }
            };
            if plain == start {
                fields.push(Text::from_utf8_lossy(&row[start..end]));
            } else {
                rewritten.extend_from_slice(&row[plain..end]);
                fields.push(Text::from_utf8_lossy(&rewritten));
            }
            if end == row.len() {
                return Ok(fields);
            }
            at = end + 1;
        }
    }
}

pub struct CsvDecoder {
    pub characters: CsvCharacters,
    /// Names given by the definition; a row of the stream may give them instead.
    pub columns: Option<Arc<[Text]>>,
}

impl Decoder for CsvDecoder {
    /// A list of texts, or a map where columns have names. A column that the row lacks is absent; one without a name is
    /// dropped.
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let fields = split_row(frame.bytes, self.characters)?;
        let Some(columns) = self.columns.as_ref().or(frame.columns) else {
            return Ok(Value::list(fields.into_iter().map(Value::Text).collect()));
        };
        let mut map = Map::with_capacity(columns.len().min(fields.len()));
        for (name, field) in columns.iter().zip(fields) {
            // Not `push_unique`: a header may name two columns alike, and then the last wins.
            map.insert(name.clone(), Value::Text(field));
        }
        Ok(Value::Map(Arc::new(map)))
    }
}
