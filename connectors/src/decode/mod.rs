//! Bytes to values: one decoder a format. Pure and shareable, so that several threads can decode one stream.
//!
//! A record that does not decode is kept aside with its reason; the records around it are not touched. Any bytes are an
//! answer or a failure, never a panic.

mod csv;
mod json;
mod line;
mod protobuf;
mod raw;

use std::fmt;

use weir_model::{Value, extent};

pub use crate::avro::AvroDecoder;
pub use csv::{CsvCharacters, CsvDecoder, CsvFraming, split_row};
pub use json::{JsonDecoder, ObjectFraming, Part};
pub use line::LineDecoder;
pub use protobuf::ProtobufDecoder;
pub use raw::RawDecoder;

use crate::frames::{Frame, Frames};

/// How much of a failed record is kept to show.
const SAMPLE_BYTES_MAX: usize = 256;

/// Values of a batch that are held at once, but for the last of them, where they may be far larger than what was read.
pub const VALUES_BYTES_MAX: usize = 64 << 20;

pub trait Decoder: Send + Sync {
    /// The value of one frame, or why there is none.
    fn record(&self, frame: Frame<'_>) -> Result<Value, String>;

    /// Whether a value may be far larger than its frame. Only then it is measured.
    fn expands(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a decoder")
    }
}

/// A record that has no value.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordFailure {
    /// Counts from 0 over the whole stream.
    pub number: u64,
    pub reason: String,
    /// The first bytes of the record.
    pub sample: Vec<u8>,
}

/// Appends the values of the frames to `records`, in order, and what failed to `failures`.
pub fn decode(decoder: &dyn Decoder, frames: &Frames, records: &mut Vec<Value>, failures: &mut Vec<RecordFailure>) {
    let mut next = 0;
    while next < frames.len() {
        (next, _) = decode_some(decoder, frames, next, records, failures);
    }
}

/// As `decode`, from the frame `first` on, up to that with which the values come to `VALUES_BYTES_MAX`. Says which frame is the
/// next, and how many bytes the values have that were measured.
pub fn decode_some(
    decoder: &dyn Decoder,
    frames: &Frames,
    first: usize,
    records: &mut Vec<Value>,
    failures: &mut Vec<RecordFailure>,
) -> (usize, usize) {
    records.reserve(frames.len() - first);
    let decoder = frames.decoder.as_deref().unwrap_or(decoder);
    let (expands, mut bytes) = (decoder.expands(), 0_usize);
    for index in first..frames.len() {
        let frame = frames.get(index);
        match decoder.record(frame) {
            Ok(value) => {
                if expands {
                    bytes = bytes.saturating_add(extent::weight(&value));
                }
                records.push(value);
            }
            Err(reason) => failures.push(RecordFailure {
                number: frames.first_number + index as u64,
                reason,
                sample: frame.bytes[..frame.bytes.len().min(SAMPLE_BYTES_MAX)].to_vec(),
            }),
        }
        if bytes >= VALUES_BYTES_MAX {
            return (index + 1, bytes);
        }
    }
    (frames.len(), bytes)
}

#[cfg(test)]
pub(crate) mod tests;
