//! The rows of an answer while its bytes come in. Knows how an answer is written, and nothing of HTTP.
//!
//!     {"columns": ["a", "b"], "results": [[1, 2], [3, 4]]}
//!
//! What is kept is the row that has begun: an answer may be larger than the memory.

use serde::de::Error as _;
use serde_json::{Error, Value as Json};

use super::Answer;

/// How many brackets are open inside the list of rows.
const ROWS_DEPTH: usize = 2;

#[derive(Default)]
pub struct Reader {
    /// What came and was not read yet.
    bytes: Vec<u8>,
    /// How many of those were looked at.
    at: usize,
    /// How many brackets are open.
    depth: usize,
    /// Inside a text, where brackets mean nothing.
    text: bool,
    escaped: bool,
    /// How many lists of the answer itself began: the columns, the rows.
    lists: usize,
    columns: Option<Vec<String>>,
}

impl Reader {
    /// Takes more of the body; gives the rows that are whole by now.
    pub fn push(&mut self, part: &[u8]) -> serde_json::Result<Vec<Vec<Json>>> {
        self.bytes.extend_from_slice(part);
        let mut rows = Vec::new();
        let mut start = 0;
        while let Some(byte) = self.bytes.get(self.at).copied() {
            self.at += 1;
            let before = self.depth;
            self.step(byte);
            match (&self.columns, before, self.depth) {
                (None, 1, ROWS_DEPTH) => {
                    self.lists += 1;
                    if self.lists == 2 {
                        self.columns = Some(columns(&self.bytes[..self.at])?);
                        start = self.at;
                    }
                }
                (Some(_), ROWS_DEPTH, 3) => start = self.at - 1,
                (Some(_), 3, ROWS_DEPTH) => {
                    rows.push(serde_json::from_slice(&self.bytes[start..self.at])?);
                    start = self.at;
                }
                _ => {}
            }
        }
        self.bytes.drain(..start);
        self.at -= start;
        Ok(rows)
    }

    /// None as long as they have not come.
    pub fn columns(&self) -> Option<&[String]> {
        self.columns.as_deref()
    }

    /// Whether the answer ends where its bytes did.
    pub fn is_whole(&self) -> bool {
        self.columns.is_some() && self.depth == 0
    }

    fn step(&mut self, byte: u8) {
        if self.text {
            let escaped = std::mem::replace(&mut self.escaped, false);
            match byte {
                _ if escaped => {}
                b'\\' => self.escaped = true,
                b'"' => self.text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.text = true,
            b'[' | b'{' => self.depth += 1,
            // What is no JSON at all is found out when a row is read.
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// The columns, out of the answer up to the bracket behind which its rows stand.
fn columns(head: &[u8]) -> serde_json::Result<Vec<String>> {
    let text: Vec<u8> = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !text.ends_with(b"\"results\":[") {
        return Err(Error::custom("its rows do not stand behind its columns"));
    }
    let without_rows = [head, b"]}"].concat();
    Ok(serde_json::from_slice::<Answer>(&without_rows)?.columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_read_wherever_the_answer_is_cut() {
        let rows = json!([[1, "]\"[\\"], [{"a": [[], {}]}, null], ["é", []]]);
        let text = json!({"columns": ["[{", "b\""], "results": rows}).to_string();
        for length in [1, 2, 3, 7, text.len()] {
            let mut reader = Reader::default();
            let mut read = Vec::new();
            for part in text.as_bytes().chunks(length) {
                assert!(!reader.is_whole());
                read.extend(reader.push(part).expect("rows"));
            }
            assert!(reader.is_whole());
            assert_eq!(reader.columns(), Some(&["[{".to_owned(), "b\"".to_owned()][..]));
            assert_eq!(json!(read), rows, "in parts of {length}");
            // Nothing stays behind.
            assert!(reader.bytes.len() < 4, "{:?}", reader.bytes);
        }
        let mut reader = Reader::default();
        assert_eq!(reader.push(b"{\"columns\":[],\"results\":[").expect("no rows").len(), 0);
        assert!(reader.columns().is_some() && !reader.is_whole());
    }

    #[test]
    fn what_is_no_answer_is_not_read() {
        for text in ["<html>", "[1]", "{\"results\": [[1]], \"columns\": [\"a\"]}", "]]]", ""] {
            let mut reader = Reader::default();
            assert!(reader.push(text.as_bytes()).is_err() || !reader.is_whole(), "{text}");
        }
        let mut reader = Reader::default();
        assert!(reader.push(b"{\"columns\":[\"a\"],\"results\":[[1 2]]}").is_err());
    }
}
