//! JSON: one document a frame, and where an object ends in a stream of them.

use memchr::{memchr2, memchr3};
use weir_model::Value;
use weir_model::json::{self, WantedKeys};

use super::Decoder;
use crate::frames::Frame;

#[derive(Default)]
pub struct JsonDecoder {
    pub wanted: WantedKeys,
}

impl Decoder for JsonDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        json::parse_wanted(frame.bytes, self.wanted).map_err(|error| format!("the record is not JSON: {error}"))
    }
}

/// Finds objects in a buffer that fills up: what was looked at once is not looked at again. Whether an object is one is for
/// the decoder to say.
#[derive(Clone, Debug, Default)]
pub struct ObjectFraming {
    /// Lists around it that are not closed, of those that were seen to begin.
    lists: u8,
    /// From the start of the object.
    scanned: usize,
    depth: u64,
    in_text: bool,
}

/// What a buffer begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// This many bytes that belong to no object.
    Between(usize),
    /// An object of this many bytes.
    Object(usize),
    /// Some of an object.
    Unfinished,
    /// Something that may not stand there.
    Stray,
}

impl ObjectFraming {
    /// Goes on where this many lists are not closed.
    pub fn within(lists: u8) -> ObjectFraming {
        ObjectFraming { lists, ..ObjectFraming::default() }
    }

    /// How many lists are not closed.
    pub fn lists(&self) -> u8 {
        self.lists
    }

    /// `bytes` is not empty, and is what was given before and more, until something was found.
    pub fn next(&mut self, bytes: &[u8]) -> Part {
        if self.depth == 0 {
            let between = bytes.iter().take_while(|byte| b" \t\r\n,[]".contains(byte)).count();
            return match bytes.get(between) {
                _ if between > 0 => {
                    self.see_lists(&bytes[..between]);
                    Part::Between(between)
                }
                Some(b'{') => {
                    (self.scanned, self.depth) = (1, 1);
                    self.next(bytes)
                }
                _ => Part::Stray,
            };
        }
        while self.scanned < bytes.len() {
            let rest = &bytes[self.scanned..];
            let found = if self.in_text { memchr2(b'"', b'\\', rest) } else { memchr3(b'"', b'{', b'}', rest) };
            let Some(offset) = found else {
                self.scanned = bytes.len();
                break;
            };
            let at = self.scanned + offset;
            self.scanned = at + 1;
            match bytes[at] {
                b'\\' if at + 1 == bytes.len() => {
                    // What it escapes has not come yet.
                    self.scanned = at;
                    break;
                }
                b'\\' => self.scanned = at + 2,
                b'"' => self.in_text = !self.in_text,
                b'{' => self.depth += 1,
                _ => self.depth -= 1,
            }
            if self.depth == 0 {
                self.scanned = 0;
                return Part::Object(at + 1);
            }
        }
        Part::Unfinished
    }

    /// More of them than a byte counts are no list of records.
    fn see_lists(&mut self, between: &[u8]) {
        for byte in between {
            match byte {
                b'[' => self.lists = self.lists.saturating_add(1),
                // Of one that began before a position of an earlier weir nothing is known.
                b']' => self.lists = self.lists.saturating_sub(1),
                _ => {}
            }
        }
    }
}
