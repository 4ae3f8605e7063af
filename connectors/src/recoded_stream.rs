//! Whole streams of bytes as they were before compression or base64: files, and what is uploaded.
//!
//! What comes in is pushed through in small pieces, so that a stream which was compressed from a very large one takes no
//! more room than another.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use crate::bell::Call;
use crate::error::ConnectorError;
use crate::framing::{ByteStream, Chunk};
use crate::recoding::RecordDecoder;

/// Pushed through at once. It comes from about a thousand times as much, at most.
const PIECE_BYTES: usize = 1 << 10;
const READ_BYTES: usize = 1 << 16;

/// A stream behind a chain of steps, which are undone from left to right.
pub fn recoded_stream(
    place: &str,
    chain: &[RecordDecoder],
    stream: Box<dyn ByteStream>,
) -> Result<Box<dyn ByteStream>, ConnectorError> {
    chain.iter().try_fold(stream, |stream, step| {
        let undo = Undo::new(*step)?;
        let place = place.to_owned();
        let recoded =
            Recoded { place, stream, undo, raw: vec![0; READ_BYTES], raw_start: 0, raw_end: 0, out_start: 0, ended: false };
        Ok(Box::new(recoded) as Box<dyn ByteStream>)
    })
}

/// What can be undone piece by piece.
pub fn check(chain: &[RecordDecoder]) -> Result<(), ConnectorError> {
    chain.iter().try_for_each(|step| Undo::new(*step).map(drop))
}

enum Undo {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(Zlib),
    /// What of it makes no whole group yet.
    Base64(Vec<u8>, Vec<u8>),
}

struct Zlib {
    decoder: Decompress,
    out: Vec<u8>,
    /// Filled with zeros once: flate2 does so with all the room of a vector each time it is given one.
    room: Box<[u8]>,
    /// Whether its end has been seen.
    ended: bool,
}

impl Undo {
    fn new(step: RecordDecoder) -> Result<Undo, ConnectorError> {
        match step {
            RecordDecoder::Gzip => Ok(Undo::Gzip(MultiGzDecoder::new(Vec::new()))),
            RecordDecoder::Zlib => {
                let room = vec![0; READ_BYTES].into();
                Ok(Undo::Zlib(Zlib { decoder: Decompress::new(true), out: Vec::new(), room, ended: false }))
            }
            RecordDecoder::Base64 => Ok(Undo::Base64(Vec::new(), Vec::new())),
            RecordDecoder::Zstd | RecordDecoder::Lz4 | RecordDecoder::Snappy => {
                let problem = "zstd, lz4 and snappy are undone record by record only; whole files may be gzip, zlib and base64";
                Err(ConnectorError::config("recordDecoders", problem))
            }
        }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        match self {
            Undo::Gzip(decoder) => decoder.write_all(piece).map_err(|error| format!("this is not gzip: {error}")),
            Undo::Zlib(zlib) => zlib.push(piece),
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
            Undo::Gzip(decoder) => decoder.try_finish().map_err(|error| format!("the gzip {EARLY}: {error}")),
            Undo::Zlib(zlib) if zlib.ended => Ok(()),
            Undo::Zlib(_) => Err(format!("the zlib {EARLY}")),
            Undo::Base64(carried, out) => decode(&std::mem::take(carried), out),
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match self {
            Undo::Gzip(decoder) => decoder.get_mut(),
            Undo::Zlib(Zlib { out, .. }) | Undo::Base64(_, out) => out,
        }
    }
}

fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    STANDARD.decode_vec(text, out).map_err(|error| format!("this is not base64: {error}"))
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

struct Recoded {
    place: String,
    stream: Box<dyn ByteStream>,
    undo: Undo,
    raw: Vec<u8>,
    raw_start: usize,
    raw_end: usize,
    /// Of what is undone, handed out before.
    out_start: usize,
    ended: bool,
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
            undone.map_err(|problem| ConnectorError::Framing { place: self.place.clone(), problem })?;
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        self.raw_start == self.raw_end && self.out_start == self.undo.out().len() && self.stream.rest(call)
    }
}
