//! From an object container file of Avro to frames: the header says how its records are read, blocks say how many there are.
//!
//!     ByteStream ─> header ─> block ─ undo its codec ─ pass over a datum ─> frame
//!
//! A position is where a block begins and how many of its records are out. The header is read again from the beginning of the
//! file, so the stream is always opened there.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use serde_json::{Value as Json, json};
use weir_model::Position;

use crate::decode::{AvroDecoder, Decoder};
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits, Progress};
use crate::framing::{ByteStream, Chunk};
use crate::recoding::{RecordDecoder, inflated};
use crate::source::Source;

const MAGIC: &[u8] = b"Obj\x01";
const SYNC_BYTES: usize = 16;

/// Longer headers are none.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// Bytes of a block in the file, at most. What it is undone to is bounded by whoever undoes it.
const BLOCK_BYTES_MAX: usize = 128 << 20;

/// Records of a block that take no bytes at all.
const EMPTY_RECORDS_MAX: u64 = 1 << 16;

/// Bytes read at once, at first.
const READ_BYTES_MIN: usize = 16 << 10;
/// Bytes read at once, at most, where as much is there.
const READ_BYTES_MAX: usize = 1 << 18;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
}

impl Codec {
    fn named(name: &[u8]) -> Result<Codec, String> {
        Ok(match name {
            b"null" => Codec::Null,
            b"deflate" => Codec::Deflate,
            b"snappy" => Codec::Snappy,
            b"zstandard" => Codec::Zstandard,
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(format!("its codec is {other:?}; read are null, deflate, snappy and zstandard"));
            }
        })
    }

    fn undo(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Codec::Null => Ok(bytes.to_vec()),
            Codec::Deflate => inflated(DeflateDecoder::new(bytes), "deflate"),
            Codec::Zstandard => RecordDecoder::Zstd.undo(bytes),
            Codec::Snappy => {
                let (block, sum) = bytes.split_last_chunk::<4>().ok_or("a block is too short for snappy")?;
                let undone = RecordDecoder::Snappy.undo(block)?;
                let mut crc = Crc::new();
                crc.update(&undone);
                if crc.sum() == u32::from_be_bytes(*sum) {
                    Ok(undone)
                } else {
                    Err("the checksum of a block is wrong".to_owned())
                }
            }
        }
    }
}

/// What the header says.
struct Header {
    decoder: Arc<AvroDecoder>,
    codec: Codec,
    sync: [u8; SYNC_BYTES],
}

/// A header whose end has not come. What was read of it once is not read again: it may come in very small pieces.
struct Coming {
    /// Behind the last entry that is whole.
    at: usize,
    /// Entries that are still to come of the part at hand.
    left: u64,
    /// Where the schema lies.
    schema: Option<Range<usize>>,
    codec: Codec,
}

/// A block whose records are handed out.
struct Block {
    /// Where it begins in the file.
    offset: u64,
    bytes: Vec<u8>,
    /// In `bytes`, behind the records that are out.
    at: usize,
    out: u64,
    left: u64,
    empty: u64,
}

pub struct ContainerReader {
    stream: Box<dyn ByteStream>,
    /// Named in errors.
    place: String,
    record_bytes_max: usize,
    logical: bool,
    header: Option<Header>,
    coming: Coming,
    block: Option<Block>,
    /// What was read, taken apart before `start`.
    buffer: Vec<u8>,
    start: usize,
    /// Where the stream puts what comes: room that is made once, and not for each few bytes.
    room: Vec<u8>,
    /// Where `start` lies in the file.
    offset: u64,
    /// Everything before it was handed out in an earlier life: the offset of a block, and records of it.
    from: (u64, u64),
    ended: bool,
    failure: Option<ConnectorError>,
}

/// What could be taken from the buffer.
enum Taken<T> {
    Whole(T),
    /// More bytes have to come.
    Unfinished,
}

impl ContainerReader {
    /// `stream` begins at the beginning of the file, wherever the position lies.
    pub fn new(
        place: &str,
        stream: Box<dyn ByteStream>,
        logical: bool,
        record_bytes_max: usize,
        from: Option<&Position>,
    ) -> Result<ContainerReader, ConnectorError> {
        let wrong = || ConnectorError::Position {
            place: place.to_owned(),
            problem: "the stored position is not one of a container of Avro".to_owned(),
        };
        let from = from.map_or(Ok((0, 0)), |position| place_in(&position.0).ok_or_else(wrong))?;
        Ok(ContainerReader {
            stream,
            place: place.to_owned(),
            record_bytes_max,
            logical,
            header: None,
            coming: Coming { at: MAGIC.len(), left: 0, schema: None, codec: Codec::Null },
            block: None,
            buffer: Vec::new(),
            start: 0,
            room: vec![0; READ_BYTES_MIN],
            offset: 0,
            from,
            ended: false,
            failure: None,
        })
    }

    /// A position as people are shown it.
    pub fn shown_position(position: &[u8]) -> Option<Json> {
        place_in(position).map(|(offset, out)| json!({"block": offset, "recordsOfBlock": out}))
    }

    fn broken(&self, problem: impl std::fmt::Display) -> ConnectorError {
        let problem = format!("the container of Avro cannot be read on at byte {}: {problem}", self.offset);
        ConnectorError::Framing { place: self.place.clone(), problem }
    }

    /// Moves records to the batch; false when more bytes have to come first.
    fn cut(&mut self, limits: &Limits, batch: &mut Frames) -> Result<bool, ConnectorError> {
        while !batch.full(limits) {
            if self.block.as_ref().is_some_and(|block| block.left > 0) {
                self.record(batch)?;
                continue;
            }
            let whole = if self.header.is_none() { self.read_header()? } else { self.read_block()? };
            if !whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands out the next record of the block.
    fn record(&mut self, batch: &mut Frames) -> Result<(), ConnectorError> {
        let (Some(header), Some(block)) = (&self.header, &mut self.block) else { return Ok(()) };
        let rest = &block.bytes[block.at..];
        // What is broken is one record that fails, with all that is behind it in its block: nobody knows where the next one
        // begins.
        let (length, broken) = match header.decoder.length(rest) {
            Ok(length) => (length, false),
            Err(_) => (rest.len(), true),
        };
        if !broken && length > self.record_bytes_max {
            let problem =
                format!("a record has {length} bytes, which is more than {}; raise maximumLineSize", self.record_bytes_max);
            return Err(self.broken(problem));
        }
        if length == 0 {
            block.empty += 1;
        }
        block.left = if broken { 0 } else { block.left - 1 };
        block.out += 1;
        block.at += length;
        let again = block.offset < self.from.0 || (block.offset == self.from.0 && block.out <= self.from.1);
        let end = (block.at, block.left, block.empty);
        if !again {
            batch.push(&block.bytes[block.at - length..block.at]);
        }
        match end {
            (_, _, empty) if empty > EMPTY_RECORDS_MAX => {
                Err(self.broken(format!("a block has more than {EMPTY_RECORDS_MAX} records without any bytes")))
            }
            (at, 0, _) if self.block.as_ref().is_some_and(|block| block.bytes.len() != at) => {
                Err(self.broken("a block has bytes behind its last record"))
            }
            _ => Ok(()),
        }
    }

    fn read_header(&mut self) -> Result<bool, ConnectorError> {
        let known = self.buffer.len().min(MAGIC.len());
        if self.buffer[..known] != MAGIC[..known] {
            return Err(self.broken("it does not begin as one"));
        }
        let (header, length) = match self.coming.read(&self.buffer, self.logical) {
            Ok(Taken::Whole(header)) => header,
            Ok(Taken::Unfinished) if self.buffer.len() > HEADER_BYTES_MAX => return Err(self.broken("its header has no end")),
            Ok(Taken::Unfinished) => return Ok(false),
            Err(problem) => return Err(self.broken(problem)),
        };
        self.header = Some(header);
        self.pass(length);
        Ok(true)
    }

    fn read_block(&mut self) -> Result<bool, ConnectorError> {
        let Some(header) = &self.header else { return Ok(false) };
        let mut wire = Wire { bytes: &self.buffer[self.start..], at: 0 };
        let read = |wire: &mut Wire<'_>| -> Result<Taken<(u64, usize)>, String> {
            let (Taken::Whole(count), Taken::Whole(size)) = (wire.integer()?, wire.integer()?) else {
                return Ok(Taken::Unfinished);
            };
            let count = u64::try_from(count).map_err(|_| format!("a block has {count} records"))?;
            let size = usize::try_from(size).ok().filter(|size| *size <= BLOCK_BYTES_MAX);
            let size = size.ok_or_else(|| format!("a block has more than {BLOCK_BYTES_MAX} bytes, or fewer than none"))?;
            Ok(Taken::Whole((count, size)))
        };
        let (count, size) = match read(&mut wire) {
            Ok(Taken::Whole(sizes)) => sizes,
            Ok(Taken::Unfinished) => return Ok(false),
            Err(problem) => return Err(self.broken(problem)),
        };
        let (Taken::Whole(block), Taken::Whole(sync)) = (wire.take(size), wire.take(SYNC_BYTES)) else { return Ok(false) };
        if *sync != header.sync {
            return Err(self.broken("the mark behind a block is not that of the header"));
        }
        let (length, offset) = (wire.at, self.offset);
        if offset >= self.from.0 && count > 0 {
            let bytes = header.codec.undo(block).map_err(|problem| self.broken(problem))?;
            self.block = Some(Block { offset, bytes, at: 0, out: 0, left: count, empty: 0 });
        }
        self.pass(length);
        Ok(true)
    }

    /// What is behind it is not moved: there may be thousands of blocks in what was read at once.
    fn pass(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    fn read(&mut self, wait: Duration) -> Result<Chunk, ConnectorError> {
        let read = self.stream.read(&mut self.room, wait);
        match read {
            Ok(Chunk::Bytes(count)) => {
                // Less than a block is left, and it is moved once, however often more of it comes.
                self.buffer.drain(..std::mem::take(&mut self.start));
                self.buffer.extend_from_slice(&self.room[..count]);
                // What fills its room has more behind it.
                if count == self.room.len() && count < READ_BYTES_MAX {
                    self.room.resize(count * 2, 0);
                }
            }
            Ok(Chunk::End) => self.ended = true,
            _ => {}
        }
        read
    }

    fn position(&self) -> (u64, u64) {
        match &self.block {
            Some(block) if block.left > 0 => (block.offset, block.out),
            _ => (self.offset, 0),
        }
    }

    fn fill(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        loop {
            if self.cut(limits, batch)? {
                return Ok(Progress::More);
            }
            if self.ended {
                return match self.start == self.buffer.len() && self.header.is_some() {
                    true => Ok(Progress::Finished),
                    false => Err(self.broken("it breaks off")),
                };
            }
            let wait = if batch.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            // What was handed out in an earlier life takes its time, too; but each call gets on.
            if self.read(wait)? == Chunk::Nothing || Instant::now() > deadline {
                return Ok(Progress::More);
            }
        }
    }
}

impl Coming {
    fn read(&mut self, bytes: &[u8], logical: bool) -> Result<Taken<(Header, usize)>, String> {
        let sync = loop {
            let mut wire = Wire { bytes, at: self.at };
            if self.left > 0 {
                let Taken::Whole(name) = wire.sized()? else { return Ok(Taken::Unfinished) };
                let Taken::Whole(value) = wire.sized()? else { return Ok(Taken::Unfinished) };
                match name {
                    b"avro.schema" => self.schema = Some(wire.at - value.len()..wire.at),
                    b"avro.codec" => self.codec = Codec::named(value)?,
                    _ => {}
                }
                self.left -= 1;
            } else {
                let Taken::Whole(count) = wire.integer()? else { return Ok(Taken::Unfinished) };
                if count < 0 {
                    let Taken::Whole(_) = wire.integer()? else { return Ok(Taken::Unfinished) };
                }
                if count == 0 {
                    let Taken::Whole(sync) = wire.take(SYNC_BYTES) else { return Ok(Taken::Unfinished) };
                    self.at = wire.at;
                    break sync;
                }
                self.left = count.unsigned_abs();
            }
            self.at = wire.at;
        };
        let mut marker = [0; SYNC_BYTES];
        marker.copy_from_slice(sync);
        let schema = self.schema.clone().and_then(|schema| bytes.get(schema)).ok_or("its header has no schema")?;
        let schema = std::str::from_utf8(schema).map_err(|_| "its schema is not UTF-8")?;
        let decoder = AvroDecoder::new(schema, logical)?;
        Ok(Taken::Whole((Header { decoder: Arc::new(decoder), codec: self.codec, sync: marker }, self.at)))
    }
}

/// Where a block begins, and how many of its records are out.
fn place_in(position: &[u8]) -> Option<(u64, u64)> {
    let (offset, out) = position.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*offset), u64::from_le_bytes(out.try_into().ok()?)))
}

impl Source for ContainerReader {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let filled = self.fill(limits, batch);
        // Before the first block nothing is passed that would not have to be read again.
        let (offset, out) = self.position().max(self.from);
        batch.position.0.clear();
        batch.position.0.extend_from_slice(&offset.to_le_bytes());
        batch.position.0.extend_from_slice(&out.to_le_bytes());
        batch.decoder = self.header.as_ref().map(|header| header.decoder.clone() as Arc<dyn Decoder>);
        match filled {
            // The caller first gets what was before the error.
            Err(error) if !batch.is_empty() => {
                self.failure = Some(error);
                Ok(Progress::More)
            }
            other => other,
        }
    }
}

/// Bytes that may not have come in full.
struct Wire<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Wire<'a> {
    fn take(&mut self, count: usize) -> Taken<&'a [u8]> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..count)) {
            Some(taken) => {
                self.at += count;
                Taken::Whole(taken)
            }
            None => Taken::Unfinished,
        }
    }

    fn integer(&mut self) -> Result<Taken<i64>, String> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(10) {
            let Taken::Whole(&[byte]) = self.take(1) else { return Ok(Taken::Unfinished) };
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(Taken::Whole((number >> 1) as i64 ^ -((number & 1) as i64)));
            }
        }
        Err("a number has more than ten bytes".to_owned())
    }

    fn sized(&mut self) -> Result<Taken<&'a [u8]>, String> {
        let Taken::Whole(length) = self.integer()? else { return Ok(Taken::Unfinished) };
        Ok(self.take(usize::try_from(length).map_err(|_| format!("a length is {length}"))?))
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
