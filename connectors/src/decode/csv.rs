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
    /// Where the newest quote that opens a field stands.
    opened: usize,
    /// Everything before is understood; counts from the start of the row, as does the next.
    scanned: usize,
    /// A delimiter before this was escaped.
    escaped_before: usize,
}

impl CsvFraming {
    pub fn new(characters: CsvCharacters) -> CsvFraming {
        CsvFraming { characters, quoted: false, opened: 0, scanned: 0, escaped_before: 0 }
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
                self.opened = at;
            }
        }
        None
    }

    /// Where in the row the quote stands that what was given so far does not close.
    pub fn open_quote(&self) -> Option<usize> {
        self.quoted.then_some(self.opened)
    }
}

/// The fields of one row without its newline.
pub fn split_row(row: &[u8], characters: CsvCharacters) -> Result<Vec<Text>, String> {
    let mut fields = Vec::new();
    split(row, characters, |field| fields.push(field))?;
    Ok(fields)
}

fn split(row: &[u8], characters: CsvCharacters, mut each: impl FnMut(Text)) -> Result<(), String> {
    let CsvCharacters { delimiter, quote, escape } = characters;
    // Looked at once: the three characters are of one byte, so that they cut nothing in two.
    let valid = std::str::from_utf8(row).ok();
    let slice = |from: usize, to: usize| match valid.and_then(|row| row.get(from..to)) {
        Some(field) => Text::new(field),
        None => Text::from_utf8_lossy(&row[from..to]),
    };
    let mut at = 0;
    // A field is a slice of the row unless something in it has to go.
    let mut rewritten = Vec::new();
    loop {
        if row.get(at) == Some(&quote) {
            rewritten.clear();
            let opened = at;
            at += 1;
            let plain = loop {
                let rest = row.get(at..).unwrap_or_default();
                let Some(offset) = memchr2(quote, escape, rest) else {
                    return Err(format!("the quote opened at byte {opened} of the row is not closed"));
                };
                let begun = at;
                at += offset;
                if begun == opened + 1 && row[at] == quote && row.get(at + 1) != Some(&quote) {
                    at += 1;
                    break true;
                }
                rewritten.extend_from_slice(&rest[..offset]);
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
                        break false;
                    }
                }
            };
            each(if plain { slice(opened + 1, at - 1) } else { Text::from_utf8_lossy(&rewritten) });
            match row.get(at) {
                None => return Ok(()),
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
                each(slice(start, end));
            } else {
                rewritten.extend_from_slice(&row[plain..end]);
                each(Text::from_utf8_lossy(&rewritten));
            }
            if end == row.len() {
                return Ok(());
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
        let Some(columns) = self.columns.as_ref().or(frame.columns) else {
            let mut fields = Vec::new();
            split(frame.bytes, self.characters, |field| fields.push(Value::Text(field)))?;
            return Ok(Value::list(fields));
        };
        let mut map = Map::with_capacity(columns.len());
        let mut names = columns.iter();
        // One bit a name: only names whose bit is taken can be there already.
        let mut seen = 0u64;
        split(frame.bytes, self.characters, |field| {
            let Some(name) = names.next() else { return };
            let bit = 1u64 << name_bit(name.as_bytes());
            if seen & bit == 0 {
                seen |= bit;
                map.push_unique(name.clone(), Value::Text(field));
            } else {
                // A header may name two columns alike, and then the last wins.
                map.insert(name.clone(), Value::Text(field));
            }
        })?;
        Ok(Value::Map(Arc::new(map)))
    }
}

/// Names that are alike have the same bit; most that are not have different ones.
fn name_bit(name: &[u8]) -> u32 {
    let at = |index: usize| u32::from(name.get(index).copied().unwrap_or_default());
    let length = name.len();
    let mixed =
        at(0).wrapping_mul(31) ^ at(length / 2).wrapping_mul(131) ^ at(length.wrapping_sub(1)).wrapping_mul(7) ^ length as u32;
    (mixed ^ (mixed >> 6)) & 63
}
