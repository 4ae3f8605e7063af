//! A file, read once to its end; or a named pipe, which never ends.
//!
//! A regular file can be replayed from any position. A pipe keeps nothing: what was read and not committed when the
//! process died is lost.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use super::file_watch;
use crate::bell::Call;
use crate::charset::Charset;
use crate::config;
use crate::error::ConnectorError;
use crate::formats::FileFormat;
use crate::framing::{ByteStream, Chunk, Skipped};
use crate::parquet::ParquetReader;
use crate::recoded_stream::recoded_stream;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;

/// Reads records from a file or a named pipe on this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileIngest {
    /// What the file holds, and the query that runs on each record.
    #[serde(default = "FileFormat::create_nodes")]
    pub format: FileFormat,
    /// The file, relative to the working directory of the service or absolute.
    pub path: PathBuf,
    /// Its character set.
    #[serde(default = "config::utf_8")]
    pub encoding: String,
    /// Taken and shown; records are always evaluated in their order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// Bytes of the longest record; a longer one ends the stream.
    #[serde(default = "config::line_bytes_max", deserialize_with = "config::positive", rename = "maximumLineSize")]
    #[schemars(range(min = 1))]
    pub line_bytes_max: u32,
    /// Records skipped at the start; the header row of CSV is one.
    #[serde(default, deserialize_with = "config::count")]
    pub start_at_offset: u64,
    /// Records taken after those.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub ingest_limit: Option<u64>,
    /// Records a second, at most.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// What is undone to the whole file before it is read, in this order: `Gzip`, `Zlib`, `Base64`, `Zstd`,
    /// `Lz4`, `Snappy` (the last two in frames); nothing when not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_decoders: Vec<RecordDecoder>,
    /// Whether the file ends, or more is waited for. Found out when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_ingest_mode: Option<FileIngestMode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum FileIngestMode {
    /// The stream is complete at the end of the file.
    Regular,
    /// At the end of what is there, more is waited for.
    NamedPipe,
}

impl SourceConfig for FileIngest {
    fn settings(&self) -> serde_json::Value {
        crate::settings("FileIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        let bounds = Bounds {
            skip: self.start_at_offset,
            limit: self.ingest_limit,
            per_second: self.maximum_per_second,
            ..Bounds::default()
        };
        RecordOptions::file(&self.format, bounds)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        self.format.check_of_file(Charset::named(&self.encoding)?, &self.record_decoders)?;
        if matches!(self.format, FileFormat::CypherParquet(_)) && self.file_ingest_mode == Some(FileIngestMode::NamedPipe) {
            return Err(ConnectorError::config(
                "fileIngestMode",
                "a file of Parquet is read from its end on, which a pipe has not",
            ));
        }
        let path = context.files.check(&self.path)?;
        if path.is_dir() {
            let problem = "is a directory; give the path of a file".to_owned();
            return Err(ConnectorError::File { path: self.path.clone(), problem });
        }
        Ok(())
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let charset = Charset::named(&self.encoding)?;
        let path = context.files.check(&self.path)?;
        let place = self.path.display().to_string();
        if matches!(self.format, FileFormat::CypherParquet(_)) {
            return Ok(Box::new(ParquetReader::open(&path, &place, context.wanted.as_deref(), from)?));
        }
        let as_it_is = charset == Charset::Utf8 && self.record_decoders.is_empty();
        self.format.reader(&place, self.line_bytes_max as usize, from, |offset| {
            let stream = FileStream::open(&path, &place, self.file_ingest_mode, if as_it_is { offset } else { 0 })?;
            let stream = charset.decoded(recoded_stream(&place, &self.record_decoders, Box::new(stream))?);
            Ok(if as_it_is { stream } else { Box::new(Skipped::new(stream, offset)) })
        })
    }
}

pub(crate) struct FileStream {
    file: Arc<File>,
    place: String,
    follow: bool,
    /// Read until now, counted from the beginning of the file; of no pipe.
    offset: Option<u64>,
}

impl FileStream {
    pub(crate) fn open(
        path: &Path,
        place: &str,
        mode: Option<FileIngestMode>,
        offset: u64,
    ) -> Result<FileStream, ConnectorError> {
        let io = |doing: &'static str| move |error| ConnectorError::io(place, doing, error);
        // Without it, opening a pipe waits until somebody writes to it, and cannot be stopped.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(io("cannot open the file"))?;
        let metadata = file.metadata().map_err(io("cannot look at the file"))?;
        let pipe = metadata.file_type().is_fifo();
        if offset > 0 && !pipe {
            if metadata.len() < offset {
                let problem = format!(
                    "{offset} bytes of the file have been read, and it has {} now; put the file back, or delete the stream and \
                     create it anew",
                    metadata.len()
                );
                return Err(ConnectorError::Position { place: place.to_owned(), problem });
            }
            file.seek(SeekFrom::Start(offset)).map_err(io("cannot go to the stored position"))?;
        }
        let follow = mode.map_or(pipe, |mode| mode == FileIngestMode::NamedPipe);
        let offset = metadata.is_file().then_some(offset);
        Ok(FileStream { file: Arc::new(file), place: place.to_owned(), follow, offset })
    }
}

impl ByteStream for FileStream {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        match (&*self.file).read(buffer) {
            Ok(0) if !self.follow => Ok(Chunk::End),
            // At the end of a file or a pipe nobody writes to, the system has nothing to wait on.
            Ok(0) => {
                thread::sleep(wait);
                Ok(Chunk::Nothing)
            }
            Ok(n) => {
                self.offset = self.offset.map(|offset| offset + n as u64);
                Ok(Chunk::Bytes(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                super::standard_input::wait_readable(&self.file, wait);
                Ok(Chunk::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Chunk::Nothing),
            Err(error) => Err(ConnectorError::io(&self.place, "cannot read the file", error)),
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        let Some(offset) = self.offset.filter(|_| self.follow) else { return false };
        // One that was cut off stays shorter than what was read of it until it has grown again: its length of now is what changes.
        let length = self.file.metadata().map_or(0, |found| found.len());
        length <= offset && file_watch::call_when_changed(Arc::downgrade(&self.file), length, call)
    }
}
