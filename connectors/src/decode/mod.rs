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

use weir_model::Value;

pub use crate::avro::AvroDecoder;
pub use csv::{CsvCharacters, CsvDecoder, CsvFraming, split_row};
pub use json::{JsonDecoder, ObjectFraming, Part};
pub use line::LineDecoder;
pub use protobuf::ProtobufDecoder;
pub use raw::RawDecoder;

use crate::frames::{Frame, Frames};

/// How much of a failed record is kept to show.
const SAMPLE_BYTES_MAX: usize = 256;

pub trait Decoder: Send + Sync {
    /// The value of one frame, or why there is none.
    fn record(&self, frame: Frame<'_>) -> Result<Value, String>;
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
    records.reserve(frames.len());
    let decoder = frames.decoder.as_deref().unwrap_or(decoder);
    for index in 0..frames.len() {
        let frame = frames.get(index);
        match decoder.record(frame) {
            Ok(value) => records.push(value),
            Err(reason) => failures.push(RecordFailure {
                number: frames.first_number + index as u64,
                reason,
                sample: frame.bytes[..frame.bytes.len().min(SAMPLE_BYTES_MAX)].to_vec(),
            }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
