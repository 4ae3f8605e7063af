//! Whole streams of bytes as they were before compression or base64: files, and what is uploaded.
//!
//! What comes in is pushed through in small pieces, so that a stream which was compressed from a very large one takes no
//! more room than another.

use std::collections::VecDeque;
use std::io::{BufRead, Read, Write};
use std::time::Duration;

use base64::Engine;
use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use crate::bell::Call;
use crate::error::ConnectorError;
use crate::framing::{ByteStream, Chunk};
use crate::recoding::{BASE64, RecordDecoder, SNAPPY_FRAMES, ZSTD_WINDOW_LOG_MAX};

/// Pushed through at once. It comes from about a thousand times as much, at most.
const PIECE_BYTES: usize = 1 << 10;
const READ_BYTES: usize = 1 << 16;

/// Bytes of a block of lz4, at most: what is longer is no block.
const LZ4_BLOCK_BYTES_MAX: usize = 4 << 20;

/// A stream behind a chain of steps, which are undone from left to right.
pub fn recoded_stream(
    place: &str,
    chain: &[RecordDecoder],
    stream: Box<dyn ByteStream>,
) -> Result<Box<dyn ByteStream>, ConnectorError> {
    chain.iter().try_fold(stream, |stream, step| {
        let place = place.to_owned();
        let undo = Undo::new(*step).map_err(|error| ConnectorError::io(&place, "cannot begin to undo it", error))?;
        let (raw, failure) = (vec![0; READ_BYTES], None);
        let recoded = Recoded { place, stream, undo, raw, raw_start: 0, raw_end: 0, out_start: 0, ended: false, failure };
        Ok(Box::new(recoded) as Box<dyn ByteStream>)
    })
}

enum Undo {
    Gzip(Gzip),
    Zlib(Zlib),
    Zstd(Zstd),
    Lz4(Lz4),
    Snappy(Snappy),
    /// What of it makes no whole group yet.
    Base64(Vec<u8>, Vec<u8>),
}

/// Members, one behind the other.
struct Gzip {
    decoder: GzDecoder<Vec<u8>>,
    /// Whether the end of the last one has been seen.
    ended: bool,
}

struct Zlib {
    decoder: Decompress,
    out: Vec<u8>,
    /// Filled with zeros once: flate2 does so with all the room of a vector each time it is given one.
    room: Box<[u8]>,
    /// Whether its end has been seen.
    ended: bool,
}

struct Zstd {
    decoder: ZstdDecoder<'static>,
    out: Vec<u8>,
    room: Box<[u8]>,
    /// Whether all that has come is whole frames.
    ended: bool,
}

/// Frames, whose parts are given to the library one by one: it keeps nothing of one that breaks off.
struct Lz4 {
    decoder: lz4_flex::frame::FrameDecoder<VecDeque<u8>>,
    out: Vec<u8>,
    /// What makes no whole part yet.
    raw: Vec<u8>,
    frame: Option<Lz4Frame>,
    /// Bytes to come of a frame that says to skip it.
    skip: u64,
}

/// What its header says of the parts behind it.
#[derive(Clone, Copy)]
struct Lz4Frame {
    block_checksums: bool,
    content_checksum: bool,
}

/// Frames, whose chunks the library undoes one by one, as those of a stream of its own.
struct Snappy {
    out: Vec<u8>,
    raw: Vec<u8>,
    begun: bool,
}

impl Undo {
    fn new(step: RecordDecoder) -> std::io::Result<Undo> {
        let (out, raw) = (Vec::new(), Vec::new());
        match step {
            RecordDecoder::Gzip => Ok(Undo::Gzip(Gzip { decoder: GzDecoder::new(out), ended: false })),
            RecordDecoder::Zlib => {
                let room = vec![0; READ_BYTES].into();
                Ok(Undo::Zlib(Zlib { decoder: Decompress::new(true), out, room, ended: false }))
            }
            RecordDecoder::Base64 => Ok(Undo::Base64(raw, out)),
            RecordDecoder::Zstd => {
                let mut decoder = ZstdDecoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Ok(Undo::Zstd(Zstd { decoder, out, room: vec![0; READ_BYTES].into(), ended: true }))
            }
            RecordDecoder::Lz4 => {
                let decoder = lz4_flex::frame::FrameDecoder::new(VecDeque::new());
                Ok(Undo::Lz4(Lz4 { decoder, out, raw, frame: None, skip: 0 }))
            }
            RecordDecoder::Snappy => Ok(Undo::Snappy(Snappy { out, raw, begun: false })),
        }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        match self {
            Undo::Gzip(gzip) => gzip.push(piece),
            Undo::Zlib(zlib) => zlib.push(piece),
            Undo::Zstd(zstd) => zstd.push(piece),
            Undo::Lz4(lz4) => lz4.push(piece),
            Undo::Snappy(snappy) => snappy.push(piece),
            Undo::Base64(carried, out) => {
                carried.extend(piece.iter().filter(|byte| !byte.is_ascii_whitespace()));
                let whole = carried.len() / 4 * 4;
                decode(&carried[..whole], out)?;
                carried.drain(..whole);
                Ok(())
            }
        }
    }

    /// There is nothing more to come.
    fn finish(&mut self) -> Result<(), String> {
        const EARLY: &str = "ends too early";
        match self {
            Undo::Gzip(gzip) if gzip.ended => Ok(()),
            Undo::Gzip(gzip) => gzip.decoder.try_finish().map_err(|error| format!("the gzip {EARLY}: {error}")),
            Undo::Zlib(zlib) if zlib.ended => Ok(()),
            Undo::Zlib(_) => Err(format!("the zlib {EARLY}")),
            Undo::Zstd(zstd) if zstd.ended => Ok(()),
            Undo::Zstd(_) => Err(format!("the zstd {EARLY}")),
            Undo::Lz4(lz4) if lz4.frame.is_none() && lz4.raw.is_empty() && lz4.skip == 0 => Ok(()),
            Undo::Lz4(_) => Err(format!("the lz4 {EARLY}")),
            Undo::Snappy(snappy) if snappy.raw.is_empty() => Ok(()),
            Undo::Snappy(_) => Err(format!("the snappy {EARLY}")),
            Undo::Base64(carried, out) => decode(&std::mem::take(carried), out),
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Undo::Gzip(gzip) => gzip.decoder.get_mut(),
            Undo::Zlib(Zlib { out, .. }) | Undo::Zstd(Zstd { out, .. }) | Undo::Lz4(Lz4 { out, .. }) => out,
            Undo::Snappy(Snappy { out, .. }) | Undo::Base64(_, out) => out,
        }
    }
}

fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    BASE64.decode_vec(text, out).map_err(|error| format!("this is not base64: {error}"))
}

impl Gzip {
    fn push(&mut self, mut piece: &[u8]) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("this is not gzip: {error}");
        loop {
            if self.ended {
                // Tapes and disks fill their last block with zeros.
                piece = &piece[piece.iter().take_while(|byte| **byte == 0).count()..];
            }
            if piece.is_empty() {
                return Ok(());
            }
            if std::mem::take(&mut self.ended) {
                self.decoder = GzDecoder::new(std::mem::take(self.decoder.get_mut()));
            }
            let read = self.decoder.write(piece).map_err(wrong)?;
            piece = &piece[read..];
            if read == 0 {
                self.decoder.try_finish().map_err(wrong)?;
                self.ended = true;
            }
        }
    }
}

impl Zlib {
    fn push(&mut self, mut piece: &[u8]) -> Result<(), String> {
        while !self.ended {
            let (read, written) = (self.decoder.total_in(), self.decoder.total_out());
            let status = self.decoder.decompress(piece, &mut self.room, FlushDecompress::None);
            self.ended = status.map_err(|error| format!("this is not zlib: {error}"))? == Status::StreamEnd;
            let (read, written) = ((self.decoder.total_in() - read) as usize, (self.decoder.total_out() - written) as usize);
            self.out.extend_from_slice(&self.room[..written]);
            piece = &piece[read..];
            // What fills its room may have more behind it, though all that has come is taken.
            if piece.is_empty() && written < self.room.len() {
                return Ok(());
            }
            if read == 0 && written == 0 && !self.ended {
                return Err("this is not zlib".to_owned());
            }
        }
        if piece.is_empty() { Ok(()) } else { Err(format!("{} bytes come behind the end of the zlib", piece.len())) }
    }
}

impl Zstd {
    fn push(&mut self, mut piece: &[u8]) -> Result<(), String> {
        loop {
            let status = self.decoder.run_on_buffers(piece, &mut self.room);
            let status = status.map_err(|error| format!("this is not zstd: {error}"))?;
            self.out.extend_from_slice(&self.room[..status.bytes_written]);
            piece = &piece[status.bytes_read..];
            self.ended = status.remaining == 0;
            if piece.is_empty() && (self.ended || status.bytes_written < self.room.len()) {
                return Ok(());
            }
            if status.bytes_read == 0 && status.bytes_written == 0 {
                return Err("this is not zstd".to_owned());
            }
        }
    }
}

impl Lz4 {
    const MAGIC: u32 = 0x184D_2204;

    fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        self.raw.extend_from_slice(piece);
        let mut taken = 0;
        loop {
            let skipped = (self.raw.len() - taken).min(usize::try_from(self.skip).unwrap_or(usize::MAX));
            taken += skipped;
            self.skip -= skipped as u64;
            let Some(length) = self.part(taken)?.filter(|length| taken + length <= self.raw.len()) else { break };
            self.decoder.get_mut().extend(&self.raw[taken..taken + length]);
            taken += length;
            while !self.decoder.get_ref().is_empty() {
                let block = self.decoder.fill_buf().map_err(|error| format!("this is not lz4: {error}"))?;
                self.out.extend_from_slice(block);
                let length = block.len();
                self.decoder.consume(length);
            }
        }
        self.raw.drain(..taken);
        Ok(())
    }

    /// How long the part is that begins there, where enough of it has come to know: a header, a block with its length, the end of
    /// a frame.
    fn part(&mut self, at: usize) -> Result<Option<usize>, String> {
        let raw = &self.raw[at..];
        let Some((word, rest)) = raw.split_first_chunk::<4>() else { return Ok(None) };
        let word = u32::from_le_bytes(*word);
        let Some(frame) = self.frame else {
            if word & 0xFFFF_FFF0 == 0x184D_2A50 {
                self.skip = rest.first_chunk::<4>().map_or(0, |length| 8 + u64::from(u32::from_le_bytes(*length)));
                // The next turn begins by skipping it.
                return Ok((self.skip > 0).then_some(0));
            }
            if word != Lz4::MAGIC {
                return Err("this is not lz4 in frames".to_owned());
            }
            let Some(flags) = rest.first() else { return Ok(None) };
            let length = 7 + if flags & 0x08 != 0 { 8 } else { 0 } + if flags & 0x01 != 0 { 4 } else { 0 };
            if raw.len() < length {
                return Ok(None);
            }
            self.frame = Some(Lz4Frame { block_checksums: flags & 0x10 != 0, content_checksum: flags & 0x04 != 0 });
            return Ok(Some(length));
        };
        let checksum = |is_there: bool| if is_there { 4 } else { 0 };
        if word == 0 {
            let length = 4 + checksum(frame.content_checksum);
            if raw.len() >= length {
                self.frame = None;
            }
            return Ok(Some(length));
        }
        let length = (word & 0x7FFF_FFFF) as usize;
        if length > LZ4_BLOCK_BYTES_MAX {
            return Err(format!("this is not lz4: a block of {length} bytes"));
        }
        Ok(Some(4 + length + checksum(frame.block_checksums)))
    }
}

impl Snappy {
    fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        self.raw.extend_from_slice(piece);
        let mut taken = 0;
        while let Some(([kind, a, b, c], _)) = self.raw[taken..].split_first_chunk::<4>() {
            if !self.begun && *kind != SNAPPY_FRAMES[0] {
                return Err("this is not snappy in frames".to_owned());
            }
            self.begun = true;
            let end = taken + 4 + u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            if end > self.raw.len() {
                break;
            }
            let mut chunk = snap::read::FrameDecoder::new(SNAPPY_FRAMES.chain(&self.raw[taken..end]));
            chunk.read_to_end(&mut self.out).map_err(|error| format!("this is not snappy: {error}"))?;
            taken = end;
        }
        self.raw.drain(..taken);
        Ok(())
    }
}

struct Recoded {
    place: String,
    stream: Box<dyn ByteStream>,
    undo: Undo,
    raw: Vec<u8>,
    raw_start: usize,
    raw_end: usize,
    /// How much of what is undone was handed out before.
    out_start: usize,
    ended: bool,
    /// What comes after all that was undone before it.
    failure: Option<ConnectorError>,
}

impl ByteStream for Recoded {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        loop {
            let out = self.undo.out();
            if self.out_start < out.len() {
                let count = buffer.len().min(out.len() - self.out_start);
                buffer[..count].copy_from_slice(&out[self.out_start..self.out_start + count]);
                self.out_start += count;
                return Ok(Chunk::Bytes(count));
            }
            out.clear();
            self.out_start = 0;
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.ended {
                return Ok(Chunk::End);
            }
            if self.raw_start == self.raw_end {
                match self.stream.read(&mut self.raw, wait)? {
                    Chunk::Bytes(count) => (self.raw_start, self.raw_end) = (0, count),
                    Chunk::Nothing => return Ok(Chunk::Nothing),
                    Chunk::End => self.ended = true,
                }
            }
            let piece = &self.raw[self.raw_start..self.raw_end.min(self.raw_start + PIECE_BYTES)];
            let undone = if self.ended { self.undo.finish() } else { self.undo.push(piece) };
            self.raw_start += if self.ended { 0 } else { piece.len() };
            self.failure = undone.err().map(|problem| ConnectorError::Framing { place: self.place.clone(), problem });
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        self.raw_start == self.raw_end && self.out_start == self.undo.out().len() && self.stream.rest(call)
    }
}
