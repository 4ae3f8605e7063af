//! Frames: a batch of records as bytes, between a source and the decoders.
//!
//!     source ─ next ─> Frames ─ decode (any thread) ─> values and failures
//!
//! A source only cuts its bytes into frames; a decoder turns one frame into one value. So one thread keeps the order of
//! the stream and others do the work.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use weir_model::{Position, Text};

use crate::decode::Decoder;
use crate::origin::Origin;

/// How much a batch may hold. It is cut earlier when nothing more is there: at once when idle, large under load.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub records_max: usize,
    /// Passed by at most one record.
    pub bytes_max: usize,
    /// How long to wait for the first record. Pausing and stopping take no longer.
    pub wait_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { records_max: 1000, bytes_max: 1 << 20, wait_max: Duration::from_millis(50) }
    }
}

/// Whether there will be more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The stream goes on, also when this batch is empty.
    More,
    /// This batch, which may be empty, was the last.
    Finished,
}

#[derive(Clone, Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
    /// What the source says of each frame besides, where anybody wants to know (`Origin`); fewer than frames where it says
    /// nothing more.
    origins: Vec<Range<usize>>,
    origin_bytes: Vec<u8>,
    /// Counts from 0 over the whole stream: the number of the first frame.
    pub first_number: u64,
    /// Where the source stands after the last frame.
    pub position: Position,
    /// Names of the columns, where a row of the stream gave them.
    pub columns: Option<Arc<[Text]>>,
    /// They are the first of another file, which may have a header of its own.
    pub begins: bool,
    /// What reads them, where the stream itself says how.
    pub decoder: Option<Arc<dyn Decoder>>,
}

/// One record, not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub bytes: &'a [u8],
    pub columns: Option<&'a Arc<[Text]>>,
}

impl Frames {
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of these frames.
    pub fn byte_count(&self, frames: Range<usize>) -> usize {
        self.ranges[frames].iter().map(|range| range.len()).sum()
    }

    pub fn get(&self, index: usize) -> Frame<'_> {
        Frame { bytes: &self.bytes[self.ranges[index].clone()], columns: self.columns.as_ref() }
    }

    /// What the source says of a frame besides its bytes.
    pub fn origin(&self, index: usize) -> &[u8] {
        self.origins.get(index).map_or(&[], |range| &self.origin_bytes[range.clone()])
    }

    /// Makes room for the next batch and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
        self.origins.clear();
        self.origin_bytes.clear();
        self.position.0.clear();
        self.columns = None;
        self.begins = false;
        self.decoder = None;
    }

    /// Adds a frame; for sources.
    pub fn push(&mut self, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.ranges.push(start..self.bytes.len());
    }

    /// Adds what is known of the frame that was added last.
    pub fn tell(&mut self, origin: impl FnOnce(&mut Origin<'_>)) {
        let start = self.origin_bytes.len();
        self.origins.resize(self.ranges.len().saturating_sub(1), start..start);
        origin(&mut Origin::of(&mut self.origin_bytes));
        self.origins.push(start..self.origin_bytes.len());
    }

    /// Whether a source should stop adding.
    pub fn full(&self, limits: &Limits) -> bool {
        self.ranges.len() >= limits.records_max || self.bytes.len() >= limits.bytes_max
    }

    /// Drops the first frames.
    pub fn skip(&mut self, count: usize) {
        self.ranges.drain(..count);
        self.origins.drain(..count.min(self.origins.len()));
        self.first_number += count as u64;
    }
}
