//! A file, or all that a pattern names; a named pipe, or a file that somebody writes to, which never end.
//!
//! A regular file can be replayed from any position. A pipe keeps nothing: what was read and not committed when the
//! process died is lost. Which file is read is known to `files`; here is how one is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;
use weir_model::lock::lock;

use super::file_watch;
use super::files::{self, Files};
use super::glob::{self, Pattern};
use super::standard_input::wait_readable;
use crate::bell::Call;
use crate::charset::Charset;
use crate::config;
use crate::error::ConnectorError;
use crate::file_head::{Head, identity};
use crate::formats::FileFormat;
use crate::framing::{ByteStream, Chunk, Skipped};
use crate::parquet::ParquetReader;
use crate::recoded_stream::recoded_stream;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;

/// How long nothing more has to come of a file that has been put aside until the new one is read: whoever writes may not know of
/// it yet.
const PUT_ASIDE: Duration = Duration::from_secs(1);

/// What a mark of bytes in UTF-8 takes, behind which no line ends.
const MARK_BYTES: u64 = 3;

/// Reads records from files or a named pipe on the machine of weir.
///
/// Each record of a file has its effect once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileIngest {
    /// How the file is divided into records, and the query that runs on each. `CypherJson` (JSON lines) with the query `CREATE
    /// ($that)` when not given.
    #[serde(default = "FileFormat::create_nodes")]
    pub format: FileFormat,
    /// The path of the file, absolute or relative to the working directory of weir, in one of `file-ingest.allowed-directories`.
    /// With `*`, `?`, `[…]` or `**` in it all files that match are read, in the order of their names.
    pub path: PathBuf,
    /// The character set, by a name that browsers know, such as `UTF-8`, `ISO-8859-1` or `UTF-16`.
    #[serde(default = "config::utf_8")]
    pub encoding: String,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// The most bytes that one record may have. The stream fails at a longer one. 134217728 (128 MiB) in v1 and 1000000 in v2
    /// when not given.
    #[serde(default = "config::line_bytes_max", deserialize_with = "config::positive", rename = "maximumLineSize")]
    #[schemars(range(min = 1))]
    pub line_bytes_max: u32,
    /// How many records to skip at the start. A header row of CSV counts as one.
    #[serde(default, deserialize_with = "config::count")]
    pub start_at_offset: u64,
    /// How many records to read after the skipped ones; then the stream is complete. All when not given.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub ingest_limit: Option<u64>,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to the whole file before it is read, in this order. Lz4 and Snappy data must be in
    /// frames. None when not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_decoders: Vec<RecordDecoder>,
    /// Whether the stream ends with the file or waits for more. When not given, it ends with a regular file and waits at a named
    /// pipe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_ingest_mode: Option<FileIngestMode>,
}

/// What happens at the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum FileIngestMode {
    /// The stream is complete at the end of the file.
    Regular,
    /// The stream waits for more: for what is appended, for the next file after a rotation, and with a pattern for more files.
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
        if glob::is_pattern(&self.path) {
            let nothing = !glob::names_any(&self.path, &context.files)? && !self.follows();
            let problem = "no file matches that may be read; check the pattern, which counts from the working directory, and \
                           file-ingest.allowed-directories, which has to name each directory that files are read from";
            return if nothing { Err(self.refused(problem)) } else { Ok(()) };
        }
        let path = context.files.check(&self.path)?;
        if path.is_dir() {
            return Err(self.refused("is a directory; give the path of a file, or a pattern such as logs/*.jsonl"));
        }
        Ok(())
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        files::shown_place(position, Some(self))
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        Ok(Box::new(Files::open(self, context, from)?))
    }
}

impl FileIngest {
    fn refused(&self, problem: &str) -> ConnectorError {
        ConnectorError::File { path: self.path.clone(), problem: problem.to_owned() }
    }

    /// Whether more is waited for. Of a pipe it is also when that is not said.
    pub(super) fn follows(&self) -> bool {
        self.file_ingest_mode == Some(FileIngestMode::NamedPipe)
    }

    /// What cuts one file into records.
    pub(super) fn source(
        &self,
        context: &SourceContext,
        opened: &Arc<Opened>,
        from: Option<&Position>,
    ) -> Result<Box<dyn Source>, ConnectorError> {
        let place = &opened.place;
        if matches!(self.format, FileFormat::CypherParquet(_)) {
            let file = opened.file.try_clone().map_err(|error| opened.io("cannot open the file", error))?;
            return Ok(Box::new(ParquetReader::of(file, place, context.wanted.as_deref(), from)?));
        }
        let charset = Charset::named(&self.encoding)?;
        let as_it_is = charset == Charset::Utf8 && self.record_decoders.is_empty();
        let ends_with_lines = !matches!(self.format, FileFormat::CypherJsonObjects(_));
        // Of a pipe nothing comes again: there is nothing to go on behind.
        let from = from.filter(|_| opened.identity.is_some());
        self.format.reader(place, self.line_bytes_max as usize, from, |offset| {
            let stream = FileStream::behind(opened.clone(), if as_it_is { offset } else { 0 }, ends_with_lines)?;
            let stream = charset.decoded(recoded_stream(place, &self.record_decoders, Box::new(stream))?);
            Ok(if as_it_is { stream } else { Box::new(Skipped::new(stream, offset)) })
        })
    }
}

/// A file that is read, as its stream, its source and whoever watches it know it.
pub(super) struct Opened {
    file: File,
    place: String,
    /// Where it was found, and another one may lie later.
    path: PathBuf,
    /// None where it is no regular file: there is nothing to be known again.
    identity: Option<(u64, u64)>,
    is_pipe: bool,
    follow: bool,
    /// What it is one of.
    pattern: Option<Arc<Pattern>>,
    /// Bytes from its beginning to where it is read.
    read: AtomicU64,
    head: Mutex<Head>,
    /// Why it has ended, though it is followed.
    ended: OnceLock<Fate>,
}

/// What becomes of a file that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is shorter than what was read of it, or begins otherwise: somebody writes it anew.
    CutOff,
    /// Another file has its name.
    Replaced,
    /// There is a file behind it.
    Passed,
}

impl Opened {
    /// `path` is the file that may be read, `name` where it is looked for.
    pub(super) fn open(
        path: &Path,
        name: &Path,
        mode: Option<FileIngestMode>,
        pattern: Option<Arc<Pattern>>,
    ) -> Result<Opened, ConnectorError> {
        let place = name.display().to_string();
        let io = |doing: &'static str| {
            let place = place.clone();
            move |error| ConnectorError::io(&place, doing, error)
        };
        // Without it, opening a pipe waits until somebody writes to it, and cannot be stopped.
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(|error| match error.kind() {
            // It was there when it was looked for.
            ErrorKind::NotFound => ConnectorError::File { path: name.to_owned(), problem: "there is no such file".to_owned() },
            _ => ConnectorError::io(&place, "cannot open the file", error),
        })?;
        let metadata = file.metadata().map_err(io("cannot look at the file"))?;
        let identity = identity(&metadata);
        let head = if identity.is_some() { Head::of(&file).map_err(io("cannot read the file"))? } else { Head::default() };
        let is_pipe = metadata.file_type().is_fifo();
        let follow = mode.map_or(is_pipe, |mode| mode == FileIngestMode::NamedPipe);
        let (path, read, head) = (name.to_owned(), AtomicU64::new(0), Mutex::new(head));
        Ok(Opened { file, place, path, identity, is_pipe, follow, pattern, read, head, ended: OnceLock::new() })
    }

    pub(super) fn follows(&self) -> bool {
        self.follow
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Where it lies. None where it is no regular file.
    pub(super) fn device(&self) -> Option<u64> {
        self.identity.map(|(device, _)| device)
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        self.file.metadata().map(|found| found.len())
    }

    /// What it is known by.
    pub(super) fn head(&self) -> Head {
        *lock(&self.head)
    }

    /// Whether it begins as one did that was read before. Of what is no regular file nobody can say.
    pub(super) fn begins_with(&self, head: Head) -> bool {
        self.identity.is_none() || head.is_of(&self.file)
    }

    /// Why it has ended.
    pub(super) fn ended(&self) -> Option<Fate> {
        self.ended.get().copied()
    }

    /// What has become of it since it was opened.
    pub(super) fn fate(&self) -> Option<Fate> {
        let known = self.identity.filter(|_| self.follow)?;
        if self.length().is_ok_and(|length| length < self.read.load(Ordering::Relaxed)) {
            return Some(Fate::CutOff);
        }
        // Where nothing lies, the new one is still to come.
        if fs::metadata(&self.path).is_ok_and(|found| identity(&found).is_some_and(|found| found != known)) {
            return Some(Fate::Replaced);
        }
        let passed = |pattern: &Arc<Pattern>| matches!(pattern.after(Some(&self.path), false), Ok(Some(_)));
        self.pattern.as_ref().is_some_and(passed).then_some(Fate::Passed)
    }

    /// A short file is known by more once there is more.
    fn grown(&self) {
        let mut head = lock(&self.head);
        head.grow(&self.file, self.read.load(Ordering::Relaxed));
    }

    fn io(&self, doing: &str, error: io::Error) -> ConnectorError {
        ConnectorError::io(&self.place, doing, error)
    }
}

pub(crate) struct FileStream {
    opened: Arc<Opened>,
    /// There was nothing more the last time.
    at_end: bool,
    /// Somebody has opened the pipe to write to it, and may have left it.
    has_writer: bool,
    /// Since when there is another file to be read.
    put_aside: Option<Instant>,
}

impl FileStream {
    /// A file that is read once, from its beginning to its end.
    pub(crate) fn whole(path: &Path, place: &str) -> Result<FileStream, ConnectorError> {
        FileStream::behind(Arc::new(Opened::open(path, Path::new(place), None, None)?), 0, false)
    }

    /// Goes on behind `offset` bytes, behind which a line has ended.
    fn behind(opened: Arc<Opened>, offset: u64, ends_with_lines: bool) -> Result<FileStream, ConnectorError> {
        if offset > 0 {
            let wrong = |problem: String| ConnectorError::Position { place: opened.place.clone(), problem };
            let length = opened.length().map_err(|error| opened.io("cannot look at the file", error))?;
            if length < offset {
                return Err(wrong(format!(
                    "{offset} bytes of the file have been read, and it has {length} now; put the file back, or delete the stream and \
                     create it anew"
                )));
            }
            let mut before = [b'\n'];
            if ends_with_lines && offset < length && offset != MARK_BYTES {
                opened.file.read_exact_at(&mut before, offset - 1).map_err(|error| opened.io("cannot read the file", error))?;
            }
            if before != [b'\n'] {
                return Err(wrong(format!(
                    "{offset} bytes of the file have been read, and no line ends there now: it has been changed; put the file back, \
                     or delete the stream and create it anew"
                )));
            }
            (&opened.file).seek(SeekFrom::Start(offset)).map_err(|error| opened.io("cannot go to the stored position", error))?;
            opened.read.store(offset, Ordering::Relaxed);
        }
        Ok(FileStream { opened, at_end: false, has_writer: false, put_aside: None })
    }

    /// Waits for somebody to write to a pipe. Nothing is read of one that nobody has written to yet, and that is not its end.
    fn waits_for_a_writer(&mut self, wait: Duration) -> bool {
        if !self.opened.is_pipe || self.has_writer || self.opened.read.load(Ordering::Relaxed) > 0 {
            return false;
        }
        // The system tells of bytes, and of whoever came and left without any.
        self.has_writer = wait_readable(&self.opened.file, wait).unwrap_or(false);
        true
    }

    fn end(&mut self, fate: Fate) -> Chunk {
        let (place, read) = (&self.opened.place, self.opened.read.load(Ordering::Relaxed));
        match fate {
            Fate::CutOff => {
                tracing::warn!("{place} was cut off after {read} bytes were read; it is read again from its beginning")
            }
            Fate::Replaced => tracing::info!("{place} is another file now; {read} bytes of the old one were read, to its end"),
            Fate::Passed => tracing::info!("{place} is read to its end, {read} bytes, and there is another file behind it"),
        }
        let _ = self.opened.ended.set(fate);
        Chunk::End
    }
}

impl ByteStream for FileStream {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        if self.opened.ended().is_some() {
            return Ok(Chunk::End);
        }
        match (&self.opened.file).read(buffer) {
            Ok(0) if !self.opened.follow && self.waits_for_a_writer(wait) => Ok(Chunk::Nothing),
            Ok(0) if !self.opened.follow => Ok(Chunk::End),
            // At the end of a file or a pipe nobody writes to, the system has nothing to wait on.
            Ok(0) => {
                self.at_end = true;
                match self.opened.fate() {
                    None => self.put_aside = None,
                    Some(Fate::CutOff) => return Ok(self.end(Fate::CutOff)),
                    Some(fate) if self.put_aside.get_or_insert_with(Instant::now).elapsed() >= PUT_ASIDE => {
                        return Ok(self.end(fate));
                    }
                    Some(_) => {}
                }
                thread::sleep(wait);
                Ok(Chunk::Nothing)
            }
            Ok(n) => {
                if self.opened.follow && self.opened.identity.is_some() {
                    // One that was cut off may have grown beyond where it was read before anybody looked.
                    if std::mem::take(&mut self.at_end) && !self.opened.begins_with(self.opened.head()) {
                        return Ok(self.end(Fate::CutOff));
                    }
                    self.put_aside = None;
                }
                self.opened.read.fetch_add(n as u64, Ordering::Relaxed);
                if self.opened.identity.is_some() {
                    self.opened.grown();
                }
                Ok(Chunk::Bytes(n))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // An error is left to the next read.
                let _ = wait_readable(&self.opened.file, wait);
                Ok(Chunk::Nothing)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Chunk::Nothing),
            Err(error) => Err(self.opened.io("cannot read the file", error)),
        }
    }

    fn rest(&mut self, call: Call) -> bool {
        if !self.opened.follow || self.opened.identity.is_none() || self.opened.fate().is_some() {
            return false;
        }
        let length = self.opened.length().unwrap_or_default();
        length <= self.opened.read.load(Ordering::Relaxed) && file_watch::call_when_changed(&self.opened, length, call)
    }
}
