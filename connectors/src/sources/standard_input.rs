//! What is written into the service's standard input, until it is closed. It keeps nothing: what was read and not
//! committed when the process died is lost.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;
use weir_model::lock::lock;

use crate::charset::Charset;
use crate::config;
use crate::error::ConnectorError;
use crate::formats::FileFormat;
use crate::frames::{Frames, Limits, Progress};
use crate::framing::{ByteStream, Chunk};
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;

/// Reads records from the standard input of weir until it is closed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandardInputIngest {
    /// How the input is divided into records, and the query that runs on each. `CypherJson` (JSON lines) with the query `CREATE
    /// ($that)` when not given.
    #[serde(default = "FileFormat::create_nodes")]
    pub format: FileFormat,
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
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
}

const PLACE: &str = "standard input";

/// Whether this process has read any of it, so that what comes belongs to what came. The input of another process was another
/// one.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// The stream that reads it. Of two, one would have what the other was told is there, and that one wait for more without end.
static READER: Mutex<Option<String>> = Mutex::new(None);

impl SourceConfig for StandardInputIngest {
    fn settings(&self) -> serde_json::Value {
        crate::settings("StandardInputIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        let bounds = Bounds { per_second: self.maximum_per_second, ..Bounds::default() };
        RecordOptions::file(&self.format, bounds)
    }

    fn check(&self, _context: &SourceContext) -> Result<(), ConnectorError> {
        self.format.check()?;
        Charset::named(&self.encoding)?;
        free(lock(&READER).as_deref())
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        self.format.shown_position(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let turn = Turn::take(&READER, &context.stream)?;
        let input = rustix::stdio::stdin().try_clone_to_owned();
        let input = input.map_err(|error| ConnectorError::io(PLACE, "cannot be opened", error))?;
        self.source(File::from(input), from, Some(turn))
    }
}

impl StandardInputIngest {
    /// The input cannot go back: it goes on with what comes now.
    fn source(&self, input: File, from: Option<&Position>, turn: Option<Turn>) -> Result<Box<dyn Source>, ConnectorError> {
        let from = from.filter(|_| BEGUN.load(Ordering::Relaxed));
        let stream = Charset::named(&self.encoding)?.decoded(Box::new(InputStream { input }));
        let source = self.format.reader(PLACE, self.line_bytes_max as usize, from, |_| Ok(stream))?;
        Ok(Box::new(Input { source, begins: from.is_none(), _turn: turn }))
    }
}

/// An error that passes where a stream reads: the next one waits for its end, as after a restart of a weir that let both in.
fn free(reader: Option<&str>) -> Result<(), ConnectorError> {
    let Some(stream) = reader else { return Ok(()) };
    let problem =
        format!("the ingest stream `{stream}` reads it, and only one can at a time; delete that one, or wait for its end");
    Err(ConnectorError::passing(PLACE, problem))
}

/// As long as it is there no other stream reads.
struct Turn(&'static Mutex<Option<String>>);

impl Turn {
    fn take(reader: &'static Mutex<Option<String>>, stream: &str) -> Result<Turn, ConnectorError> {
        let mut kept = lock(reader);
        free(kept.as_deref())?;
        *kept = Some(stream.to_owned());
        Ok(Turn(reader))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

struct Input {
    source: Box<dyn Source>,
    /// None where the input is not that of weir.
    _turn: Option<Turn>,
    /// The next batch is the first.
    begins: bool,
}

impl Source for Input {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let progress = self.source.next(limits, batch)?;
        batch.begins |= std::mem::take(&mut self.begins);
        Ok(progress)
    }
}

/// Reads the descriptor itself: the standard library's `Stdin` has a buffer that a waiting thread could not see.
struct InputStream {
    input: File,
}

impl ByteStream for InputStream {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        // An error is left to the read, which says what it is.
        if !wait_readable(&self.input, wait).unwrap_or(true) {
            return Ok(Chunk::Nothing);
        }
        match self.input.read(buffer) {
            Ok(0) => Ok(Chunk::End),
            Ok(n) => {
                BEGUN.store(true, Ordering::Relaxed);
                Ok(Chunk::Bytes(n))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Chunk::Nothing),
            Err(error) => Err(ConnectorError::io(PLACE, "cannot be read", error)),
        }
    }
}

/// Waits until a read would not block; false when nothing came.
pub(super) fn wait_readable(file: &impl AsFd, wait: Duration) -> rustix::io::Result<bool> {
    let limit = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).map(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use serde_json::json;

    use super::*;
    use crate::conformance::anything;
    use crate::decode::decode;
    use crate::stream::{RecordStream, drain};

    #[test]
    fn the_input_of_another_process_begins_anew() {
        let format = json!({"type": "CypherCsv", "query": "RETURN 1", "headers": true});
        let config: StandardInputIngest = serde_json::from_value(json!({"format": format})).unwrap();
        let decoder = config.format.decoder(&anything());
        let read = |text: &str, from: Option<&Position>, expected: &str| {
            let (input, mut writer) = std::io::pipe().unwrap();
            writer.write_all(text.as_bytes()).unwrap();
            drop(writer);
            let bounds = Bounds { header: config.format.header(), ..Bounds::default() };
            let input = File::from(OwnedFd::from(input));
            let mut stream = RecordStream::open(bounds, from, |from| config.source(input, from, None)).unwrap();
            let (mut records, mut failures, mut position) = (Vec::new(), Vec::new(), Position::default());
            let each = |batch: &Frames| {
                decode(&*decoder, batch, &mut records, &mut failures);
                position = batch.position.clone();
            };
            drain(&mut stream, Duration::from_secs(10), each).unwrap();
            assert_eq!(records.iter().map(weir_model::Value::shown).collect::<Vec<_>>(), [expected]);
            position
        };
        let position = read("a,b\n1,2\n", None, "{ a: \"1\", b: \"2\" }");
        let position = read("3,4\n", Some(&position), "{ a: \"3\", b: \"4\" }");
        BEGUN.store(false, Ordering::Relaxed);
        read("\u{feff}c,d\n5,6\n", Some(&position), "{ c: \"5\", d: \"6\" }");
    }
    /// One of two waited in a read for what the other had taken, and could not be ended.
    #[test]
    fn one_stream_reads_at_a_time() {
        static HERE: Mutex<Option<String>> = Mutex::new(None);
        let turn = Turn::take(&HERE, "first").unwrap();
        let refused = Turn::take(&HERE, "second").err().unwrap();
        assert!(refused.retryable() && refused.to_string().contains("the ingest stream `first` reads it"), "{refused}");
        drop(turn);
        drop(Turn::take(&HERE, "second").unwrap());
        assert!(free(lock(&HERE).as_deref()).is_ok());
    }
}
