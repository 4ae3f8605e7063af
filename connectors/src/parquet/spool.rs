//! Spool: a file of Parquet that comes as a stream of bytes. It is kept in a file without a name, in the temporary directory of
//! the system, until it is whole, and read from there.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use weir_model::{Position, Text};

use super::ParquetReader;
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits, Progress};
use crate::framing::{ByteStream, Chunk};
use crate::source::Source;

/// Taken from the stream at once.
const READ_BYTES: usize = 1 << 18;

pub struct Spool {
    place: String,
    wanted: Option<Arc<[Text]>>,
    from: Position,
    state: State,
}

enum State {
    Coming {
        stream: Box<dyn ByteStream>,
        file: File,
        buffer: Vec<u8>,
    },
    Whole(Box<ParquetReader>),
    /// An error has ended it.
    Broken,
}

impl Spool {
    pub fn start(
        place: &str,
        stream: Box<dyn ByteStream>,
        wanted: Option<Arc<[Text]>>,
        from: Option<&Position>,
    ) -> Result<Spool, ConnectorError> {
        let file = tempfile::tempfile();
        let file = file.map_err(|error| ConnectorError::io(place, "cannot keep it in the temporary directory", error))?;
        let state = State::Coming { stream, file, buffer: vec![0; READ_BYTES] };
        Ok(Spool { place: place.to_owned(), wanted, from: from.cloned().unwrap_or_default(), state })
    }
}

impl Source for Spool {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        loop {
            if let State::Whole(reader) = &mut self.state {
                return reader.next(limits, batch);
            }
            let State::Coming { mut stream, mut file, mut buffer } = std::mem::replace(&mut self.state, State::Broken) else {
                return Ok(Progress::Finished);
            };
            let left = deadline.saturating_duration_since(Instant::now());
            self.state = match stream.read(&mut buffer, left)? {
                Chunk::End => {
                    State::Whole(Box::new(ParquetReader::of(file, &self.place, self.wanted.as_deref(), Some(&self.from))?))
                }
                Chunk::Bytes(count) => {
                    let kept = file.write_all(&buffer[..count]);
                    kept.map_err(|error| ConnectorError::io(&self.place, "cannot keep it in the temporary directory", error))?;
                    State::Coming { stream, file, buffer }
                }
                Chunk::Nothing => State::Coming { stream, file, buffer },
            };
            if matches!(self.state, State::Coming { .. }) && Instant::now() >= deadline {
                batch.position.0.clone_from(&self.from.0);
                return Ok(Progress::More);
            }
        }
    }
}
