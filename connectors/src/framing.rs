//! From a stream of bytes to frames: buffering, line ends, and the position. Shared by every source that is one long
//! stream of bytes.
//!
//!     ByteStream ─ read ─> buffer ─ cut ─> Frames
//!
//! A position is the offset in the stream of bytes as it is cut: behind decompression and decoding of character sets. Within a
//! list of JSON there follows how many lists are not closed.

use std::time::{Duration, Instant};

use memchr::memchr;
use serde_json::{Value as Json, json};
use weir_model::Position;

use crate::bell::Call;
use crate::decode::{CsvCharacters, CsvFraming, ObjectFraming, Part};
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits, Progress};
use crate::source::Source;

/// Bytes read at once, at first. Room is filled with zeros before it is read into, and most streams are short.
const READ_BYTES_MIN: usize = 16 << 10;
/// Bytes read at once, at most, where as much is there.
const READ_BYTES_MAX: usize = 1 << 20;

/// Bytes shown of a row that is told of, at most.
const SHOWN_BYTES_MAX: usize = 80;

/// Something that gives bytes in order.
pub trait ByteStream: Send {
    /// Reads into the buffer, which is not empty, what is there; waits for it no longer than `wait`.
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError>;

    /// As that of a source: true where the call is made once there is more than nothing.
    fn rest(&mut self, _call: Call) -> bool {
        false
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    End,
}

/// A stream without its first bytes, for one whose offsets say nothing about where its raw bytes lie: going on there means
/// to undo again what was read.
pub struct Skipped {
    stream: Box<dyn ByteStream>,
    left: u64,
}

impl Skipped {
    pub fn new(stream: Box<dyn ByteStream>, left: u64) -> Skipped {
        Skipped { stream, left }
    }
}

impl ByteStream for Skipped {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        loop {
            let count = match self.stream.read(buffer, wait)? {
                Chunk::Bytes(count) => count,
                other => return Ok(other),
            };
            let skipped = count.min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= skipped as u64;
            if skipped < count {
                buffer.copy_within(skipped..count, 0);
                return Ok(Chunk::Bytes(count - skipped));
            }
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        self.stream.rest(call)
    }
}

/// What ends a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// A newline, with a carriage return before it or not.
    Lines,
    /// The brace that closes an object. Between objects there may be brackets, commas and white space; a list that began has to
    /// end.
    JsonObjects,
    /// A newline outside quotes. Empty rows are no records.
    CsvRows(CsvCharacters),
}

pub struct FrameReader {
    stream: Box<dyn ByteStream>,
    framing: Framing,
    cut: Cut,
    record_bytes_max: usize,
    /// Named in errors.
    place: String,
    buffer: Vec<u8>,
    /// How much is read at once by now.
    room: usize,
    /// The bytes of the buffer that are not handed out.
    start: usize,
    end: usize,
    /// Where `start` is in the stream.
    offset: u64,
    /// Rows of CSV that are cut, where all of the stream is.
    rows: Option<u64>,
    ended: bool,
    /// The stream had nothing, and nothing in the buffer is whole. A limit of records a second may leave whole ones there for
    /// long.
    dry: bool,
    /// What comes after the records that were before it.
    failure: Option<ConnectorError>,
}

enum Cut {
    /// The first `scanned` bytes have no newline.
    Lines {
        scanned: usize,
    },
    JsonObjects(ObjectFraming),
    CsvRows(CsvFraming),
}

impl Cut {
    fn new(framing: Framing) -> Cut {
        match framing {
            Framing::Lines => Cut::Lines { scanned: 0 },
            Framing::JsonObjects => Cut::JsonObjects(ObjectFraming::default()),
            Framing::CsvRows(characters) => Cut::CsvRows(CsvFraming::new(characters)),
        }
    }
}

impl FrameReader {
    /// `offset` is where the stream begins.
    pub fn new(place: &str, stream: Box<dyn ByteStream>, framing: Framing, record_bytes_max: usize, offset: u64) -> FrameReader {
        FrameReader {
            stream,
            framing,
            cut: Cut::new(framing),
            record_bytes_max,
            place: place.to_owned(),
            buffer: Vec::new(),
            room: READ_BYTES_MIN,
            start: 0,
            end: 0,
            offset,
            rows: (offset == 0).then_some(0),
            ended: false,
            dry: false,
            failure: None,
        }
    }

    /// Where the offset of a position lies; for whoever opens the stream.
    pub fn offset(place: &str, position: &Position) -> Result<u64, ConnectorError> {
        offset_in(&position.0).ok_or_else(|| ConnectorError::Position {
            place: place.to_owned(),
            problem: "the stored position is not one of this kind of source".to_owned(),
        })
    }

    /// A position as people are shown it.
    pub fn shown_position(position: &[u8]) -> Option<Json> {
        offset_in(position).map(|offset| json!({"byte": offset}))
    }

    /// The reader of a stream that begins at a position.
    pub fn from(mut self, position: Option<&Position>) -> FrameReader {
        if let (Cut::JsonObjects(framing), Some(lists)) = (&mut self.cut, position.and_then(|position| position.0.get(8))) {
            *framing = ObjectFraming::within(*lists);
        }
        self
    }

    /// Lists of JSON that are not closed, so far.
    fn lists(&self) -> u8 {
        match &self.cut {
            Cut::JsonObjects(framing) => framing.lists(),
            Cut::Lines { .. } | Cut::CsvRows(_) => 0,
        }
    }

    /// Moves complete records from the buffer to the batch.
    fn cut(&mut self, limits: &Limits, batch: &mut Frames) -> Result<(), ConnectorError> {
        while self.start < self.end && !batch.full(limits) {
            let bytes = &self.buffer[self.start..self.end];
            let found = match &mut self.cut {
                Cut::Lines { scanned } => {
                    let found = memchr(b'\n', &bytes[*scanned..]).map(|offset| *scanned + offset);
                    *scanned = if found.is_some() { 0 } else { bytes.len() };
                    found
                }
                Cut::CsvRows(framing) => framing.row_end(bytes, self.ended),
                Cut::JsonObjects(framing) => {
                    let (taken, object) = match framing.next(bytes) {
                        Part::Between(count) => (count, None),
                        Part::Object(end) => (end, Some(&bytes[..end])),
                        Part::Unfinished if bytes.len() > self.record_bytes_max => return Err(self.too_long(bytes.len())),
                        Part::Unfinished if self.ended => return Err(self.broken("the object that begins here is not closed")),
                        Part::Unfinished => return Ok(()),
                        Part::Stray => return Err(self.broken("expected an object of JSON")),
                    };
                    if let Some(object) = object {
                        if object.len() > self.record_bytes_max {
                            return Err(self.too_long(object.len()));
                        }
                        batch.push(object);
                    }
                    self.start += taken;
                    self.offset += taken as u64;
                    continue;
                }
            };
            if found.is_none()
                && (self.ended || bytes.len() > self.record_bytes_max)
                && let Cut::CsvRows(framing) = &self.cut
                && let Some(at) = framing.open_quote()
            {
                return Err(self.not_closed(at));
            }
            let Some(end) = found.or(self.ended.then_some(bytes.len())) else {
                return if bytes.len() > self.record_bytes_max { Err(self.too_long(bytes.len())) } else { Ok(()) };
            };
            if end > self.record_bytes_max {
                return Err(self.too_long(end));
            }
            let record = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
            if !(record.is_empty() && matches!(self.cut, Cut::CsvRows(_))) {
                batch.push(record);
            }
            self.rows = self.rows.map(|rows| rows + 1);
            let taken = (end + 1).min(bytes.len());
            self.start += taken;
            self.offset += taken as u64;
        }
        Ok(())
    }

    fn read(&mut self, wait: Duration) -> Result<Chunk, ConnectorError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // A record longer than the buffer doubles it: the size stays in proportion to the record.
        let room = self.room.max(self.end);
        if self.buffer.len() < self.end + room {
            self.buffer.resize(self.end + room, 0);
        }
        let chunk = self.stream.read(&mut self.buffer[self.end..self.end + room], wait)?;
        match chunk {
            Chunk::Bytes(n) => {
                self.end += n;
                // What fills its room has more behind it.
                if n == room {
                    self.room = (self.room * 2).min(READ_BYTES_MAX);
                }
                self.drop_byte_order_mark();
            }
            Chunk::Nothing => {}
            Chunk::End => self.ended = true,
        }
        Ok(chunk)
    }

    /// Spreadsheets begin their files with one; it is no part of the first record.
    fn drop_byte_order_mark(&mut self) {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        if self.offset == 0 && self.start == 0 && self.buffer[..self.end].starts_with(MARK) {
            self.start = MARK.len();
            self.offset = MARK.len() as u64;
            self.cut = Cut::new(self.framing);
        }
    }

    fn broken(&self, problem: &str) -> ConnectorError {
        ConnectorError::Framing { place: self.place.clone(), problem: format!("at byte {}: {problem}", self.offset) }
    }

    /// A row of CSV would take all that follows for one field: how much of that was meant cannot be known.
    fn not_closed(&self, quote: usize) -> ConnectorError {
        let bytes = &self.buffer[self.start..self.end];
        let row = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let row = String::from_utf8_lossy(&row[..row.len().min(SHOWN_BYTES_MAX)]);
        let number = self.rows.map_or_else(|| "the row".to_owned(), |rows| format!("row {}", rows + 1));
        let (offset, read) = (self.offset + quote as u64, bytes.len() - quote - 1);
        let problem = format!(
            "the quote opened at byte {offset} is not closed in the {read} bytes that follow, in {number}, which begins with `{}`; mend it, \
             or choose another quoteChar",
            row.trim_end_matches('\r')
        );
        ConnectorError::Framing { place: self.place.clone(), problem }
    }

    fn too_long(&self, bytes: usize) -> ConnectorError {
        let (max, offset) = (self.record_bytes_max, self.offset);
        let problem = format!(
            "Read {bytes} bytes which is more than {max} without seeing a line terminator, in the record at byte {offset}; \
             raise maximumLineSize or choose the format the data has"
        );
        ConnectorError::Framing { place: self.place.clone(), problem }
    }
}

fn offset_in(position: &[u8]) -> Option<u64> {
    match position.split_first_chunk() {
        Some((offset, [] | [_])) => Some(u64::from_le_bytes(*offset)),
        _ => None,
    }
}

impl Source for FrameReader {
    fn rest(&mut self, call: Call) -> bool {
        if !self.dry || !self.stream.rest(call) {
            return false;
        }
        // Of a thousand files that nobody writes to the buffers would be a gigabyte.
        self.buffer = self.buffer[self.start..self.end].to_vec();
        (self.start, self.end, self.room) = (0, self.buffer.len(), READ_BYTES_MIN);
        true
    }

    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let deadline = Instant::now() + limits.wait_max;
        self.dry = false;
        let result = loop {
            if let Err(error) = self.cut(limits, batch) {
                break Err(error);
            }
            if batch.full(limits) || (self.ended && self.start == self.end) {
                break Ok(());
            }
            if self.ended {
                continue;
            }
            let wait = if batch.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match self.read(wait) {
                Ok(Chunk::Nothing) => {
                    self.dry = true;
                    break Ok(());
                }
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        batch.position.0.clear();
        batch.position.0.extend_from_slice(&self.offset.to_le_bytes());
        batch.position.0.extend(Some(self.lists()).filter(|lists| *lists > 0));
        let result = match result {
            Ok(()) if self.ended && self.start == self.end && self.lists() > 0 => {
                Err(self.broken("the data ends, and the list of JSON is not closed"))
            }
            other => other,
        };
        match result {
            Err(error) if batch.is_empty() => Err(error),
            // The caller first gets what was before the error.
            Err(error) => {
                self.failure = Some(error);
                Ok(Progress::More)
            }
            _ if self.ended && self.start == self.end => Ok(Progress::Finished),
            _ => Ok(Progress::More),
        }
    }
}
