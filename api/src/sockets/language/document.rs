//! A text that is open in an editor, and its places: the editor counts lines and, in each, units of UTF-16; here bytes count.

use serde_json::{Value as Json, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub character: usize,
}

impl Position {
    pub fn read(json: &Json) -> Option<Position> {
        let number = |name: &str| json[name].as_u64().map(|number| number as usize);
        Some(Position { line: number("line")?, character: number("character")? })
    }

    pub fn json(self) -> Json {
        json!({"line": self.line, "character": self.character})
    }
}

pub struct Document {
    text: String,
}

impl Document {
    pub fn new(text: String) -> Document {
        Document { text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The offset of a place. One beyond the end of its line is the end of the line, one beyond the text its end.
    pub fn offset(&self, position: Position) -> usize {
        let start = match position.line {
            0 => 0,
            line => match self.text.match_indices('\n').nth(line - 1) {
                Some((at, _)) => at + 1,
                None => return self.text.len(),
            },
        };
        let line = self.text[start..].split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let mut units = 0;
        for (at, c) in line.char_indices() {
            // In the middle of a pair is before it.
            if units + c.len_utf16() > position.character {
                return start + at;
            }
            units += c.len_utf16();
        }
        start + line.len()
    }

    pub fn replace(&mut self, start: Position, end: Position, text: &str) {
        let (start, end) = (self.offset(start), self.offset(end));
        self.text.replace_range(start.min(end)..end.max(start), text);
    }

    /// The places of offsets that are asked for in ascending order.
    pub fn places(&self) -> Places<'_> {
        Places { text: &self.text, at: 0, place: Position { line: 0, character: 0 } }
    }
}

/// Walks the text once, however many places are asked for.
pub struct Places<'a> {
    text: &'a str,
    at: usize,
    place: Position,
}

impl Places<'_> {
    pub fn of(&mut self, offset: usize) -> Position {
        let offset = offset.clamp(self.at, self.text.len());
        for c in self.text[self.at..].chars() {
            if self.at >= offset {
                break;
            }
            self.at += c.len_utf8();
            if c == '\n' {
                self.place = Position { line: self.place.line + 1, character: 0 };
            } else {
                self.place.character += c.len_utf16();
            }
        }
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(line: usize, character: usize) -> Position {
        Position { line, character }
    }

    #[test]
    fn places_are_counted_in_utf_16() {
        let document = Document::new("é🌈x\r\nab\n".to_owned());
        for (offset, place) in [(0, (0, 0)), (2, (0, 1)), (6, (0, 3)), (7, (0, 4)), (9, (1, 0)), (11, (1, 2)), (12, (2, 0))] {
            assert_eq!(document.places().of(offset), position(place.0, place.1), "{offset}");
            assert_eq!(document.offset(position(place.0, place.1)), offset, "{place:?}");
        }
        assert_eq!(document.offset(position(0, 2)), 2, "in the middle of a pair");
        assert_eq!(document.offset(position(0, 99)), 7, "beyond the line");
        assert_eq!(document.offset(position(99, 0)), 12, "beyond the text");
        let mut places = document.places();
        assert_eq!((places.of(6), places.of(9), places.of(99)), (position(0, 3), position(1, 0), position(2, 0)));
    }

    #[test]
    fn changes_in_place() {
        let mut document = Document::new("RETURN 1\nLIMIT 2".to_owned());
        document.replace(position(0, 7), position(0, 8), "n.é");
        document.replace(position(1, 0), position(1, 5), "SKIP");
        assert_eq!(document.text(), "RETURN n.é\nSKIP 2");
        // Backwards, and beyond the end.
        document.replace(position(1, 4), position(0, 10), "");
        document.replace(position(9, 9), position(9, 9), "!");
        assert_eq!(document.text(), "RETURN n.é 2!");
    }
}
