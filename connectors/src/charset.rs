//! Character sets: any stream of bytes as UTF-8.

use std::time::Duration;

use encoding_rs::{CoderResult, Decoder, Encoding, UTF_16BE};

use crate::bell::Call;
use crate::error::ConnectorError;
use crate::framing::{ByteStream, Chunk};

/// What a name of a character set asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Charset {
    /// UTF-8, or a part of it: nothing is converted.
    Utf8,
    /// ISO-8859-1: each byte is the character of its number.
    Latin1,
    Other(&'static Encoding),
}

impl Charset {
    pub fn named(name: &str) -> Result<Charset, ConnectorError> {
        let upper = name.to_ascii_uppercase();
        match upper.as_str() {
            "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => Ok(Charset::Utf8),
            // Web pages mean windows-1252 by this name; data does not.
            "ISO-8859-1" | "ISO8859-1" | "ISO_8859-1" | "LATIN1" => Ok(Charset::Latin1),
            // Without a byte order mark it is big-endian, unlike on the web.
            "UTF-16" | "UTF16" => Ok(Charset::Other(UTF_16BE)),
            // Browsers know some names for which they show nothing at all; of these no record could be read.
            _ => match Encoding::for_label_no_replacement(name.as_bytes()) {
                Some(encoding) => Ok(Charset::Other(encoding)),
                None => {
                    let problem = match Encoding::for_label(name.as_bytes()) {
                        Some(_) => "is not read here; convert the data, for example with iconv",
                        None => "is not read here; UTF-8 is the default, and iconv converts from most others",
                    };
                    Err(ConnectorError::config("encoding", format!("the character set {name} {problem}")))
                }
            },
        }
    }

    /// A whole text in UTF-8.
    pub fn text(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Charset::Utf8 => bytes,
            Charset::Latin1 => encoding_rs::mem::decode_latin1(&bytes).into_owned().into_bytes(),
            Charset::Other(encoding) => encoding.decode(&bytes).0.into_owned().into_bytes(),
        }
    }

    /// The stream in UTF-8.
    pub fn decoded(self, stream: Box<dyn ByteStream>) -> Box<dyn ByteStream> {
        let decoder = match self {
            Charset::Utf8 => return stream,
            Charset::Latin1 => None,
            Charset::Other(encoding) => Some(encoding.new_decoder()),
        };
        Box::new(Transcoded { stream, decoder, raw: vec![0; 1 << 16], raw_start: 0, raw_end: 0, ended: false })
    }
}

struct Transcoded {
    stream: Box<dyn ByteStream>,
    /// None for ISO-8859-1.
    decoder: Option<Decoder>,
    raw: Vec<u8>,
    raw_start: usize,
    raw_end: usize,
    ended: bool,
}

impl Transcoded {
    /// Decodes what is in `raw`; returns the bytes written.
    fn decode(&mut self, buffer: &mut [u8]) -> usize {
        let raw = &self.raw[self.raw_start..self.raw_end];
        let Some(decoder) = &mut self.decoder else {
            let (read, written) = encoding_rs::mem::convert_latin1_to_utf8_partial(raw, buffer);
            self.raw_start += read;
            return written;
        };
        let (result, read, written, _) = decoder.decode_to_utf8(raw, buffer, self.ended);
        self.raw_start += read;
        if self.ended && result == CoderResult::InputEmpty {
            // A decoder must not be used after its last call.
            self.decoder = None;
        }
        written
    }
}

impl ByteStream for Transcoded {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        loop {
            if self.raw_start == self.raw_end {
                if self.ended && self.decoder.is_none() {
                    return Ok(Chunk::End);
                }
                if !self.ended {
                    match self.stream.read(&mut self.raw, wait)? {
                        Chunk::Bytes(n) => (self.raw_start, self.raw_end) = (0, n),
                        Chunk::Nothing => return Ok(Chunk::Nothing),
                        Chunk::End => self.ended = true,
                    }
                }
            }
            let written = self.decode(buffer);
            if written > 0 {
                return Ok(Chunk::Bytes(written));
            }
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        self.raw_start == self.raw_end && self.stream.rest(call)
    }
}
