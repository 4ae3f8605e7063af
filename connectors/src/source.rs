//! What a source is to the rest: something that fills batches of frames and knows where it stands.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::runtime::Handle;
use weir_model::{Position, Text, Value};

use crate::bell::Call;
use crate::config;
use crate::decode::Decoder;
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::formats::{FileFormat, StreamFormat};
use crate::frames::{Frames, Limits, Progress};
use crate::host_policy::HostPolicy;
use crate::intake::Intake;
use crate::recoding::RecordDecoder;
use crate::stream::{Bounds, RecordStream};
use crate::upload::Upload;

/// One running instance. It is driven by one thread and may block it for `limits.wait_max`, no longer.
///
/// What the caller may rely on: frames come in order; `batch.position` is where to go on after the last of them, so that
/// `open` with it gives exactly the frames that follow (for sources that can be opened at one). What it gives up:
/// after an error the source is not asked again.
pub trait Source: Send {
    /// Fills the batch with what is there: waits for the first record, takes more as long as it need not wait. On an
    /// error, what was read before it has been handed out by an earlier call.
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError>;

    /// Everything up to the position is durable. Only now may the source acknowledge it.
    fn durable(&mut self, _position: &Position) -> Result<(), ConnectorError> {
        Ok(())
    }

    /// Nothing has come for a while. True: nobody need ask the source until it makes the call, which it does when something has
    /// come, when it has ended, and when there is other trouble than before. False: somebody has to go on asking.
    fn rest(&mut self, _call: Call) -> bool {
        false
    }

    /// Nobody asks for more at the moment: the stream is paused, or the graph has no room. Says after how long it wants to be
    /// told so again; None: never. What goes wrong meanwhile is told by the next `next`.
    fn hold(&mut self) -> Option<Duration> {
        None
    }

    /// How many records there are that it has not read, as far as it knows. Asked after each `next` and `hold`, so it does not
    /// wait, and looks no more often than is worth it.
    fn lag(&mut self) -> Option<u64> {
        None
    }

    /// What keeps the source from reading at the moment. It goes on by itself when that has passed.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// What has happened that nobody would see in the records: it does not pass.
    fn notice(&self) -> Option<String> {
        None
    }
}

/// What a definition may use of the process.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Which files may be read.
    pub files: FilePolicy,
    /// Which servers may be asked.
    pub hosts: HostPolicy,
    /// Where waiting for the network happens.
    pub runtime: Handle,
    /// The name of the stream.
    pub stream: String,
    /// The keys of records that anybody looks at; none where that may be all of a record. Others need not be decoded.
    pub wanted: Option<Arc<[Text]>>,
    /// Somebody is told of records that fail, and where they come from.
    pub tells: bool,
}

/// The definition of one kind of source: the struct that is parsed, shown and documented.
pub trait SourceConfig: Send + Sync {
    /// The definition with its defaults filled in, secrets masked, in the notation it came in.
    fn settings(&self) -> serde_json::Value;

    /// As `settings`, with its secrets, to be stored and parsed again.
    fn stored(&self) -> serde_json::Value {
        config::with_secrets(|| self.settings())
    }

    /// What it says of its records.
    fn records(&self) -> RecordOptions<'_>;

    /// The query that runs on each record, where the notation keeps it with the source. Without one records are only counted.
    fn query(&self) -> Option<RecordQuery<'_>> {
        match self.records().format {
            Format::File(format) => Some(format.query()),
            Format::Single(format, _) => format.query(),
        }
    }

    /// What reads a record. It may have to be told by somebody else how, as by a file with a schema.
    fn decoder(&self, context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
        match self.records().format {
            Format::File(format) => Ok(format.decoder(context)),
            Format::Single(format, decoders) => format.recoded(decoders, context),
        }
    }

    /// A record that failed as it is told to others: its bytes alone, or under a name beside what the source knows of it
    /// (`Frames::origin`).
    fn frame(&self, bytes: &[u8], _origin: &[u8]) -> Value {
        Value::Bytes(bytes.into())
    }

    /// A position that this kind of source gave, as people are shown it. None where it says nothing but what it is made of, and
    /// of one that is no such. It is never empty.
    fn shown_position(&self, _position: &[u8]) -> Option<serde_json::Value> {
        None
    }

    /// Whether a record whose effect is durable may come again after a kill, as the other side keeps how far it was read.
    fn comes_again(&self) -> bool {
        false
    }

    /// Where a client brings what it reads.
    fn upload(&self) -> Option<&Upload> {
        None
    }

    /// Where clients hand in records by requests.
    fn intake(&self) -> Option<&Intake> {
        None
    }

    /// Finds what is wrong before anything is kept: values that do not go together, files that are not there.
    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError>;

    /// Starts reading, at a position this kind of source gave.
    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError>;

    /// Starts the stream: the source with its bounds and its rate limit around it.
    fn open(&self, context: &SourceContext, from: Option<&Position>) -> Result<RecordStream, ConnectorError> {
        self.check(context)?;
        let RecordOptions { format, bounds } = self.records();
        RecordStream::open(bounds, from, |from| {
            let source = self.open_source(context, from)?;
            match format {
                Format::File(_) => Ok(source),
                Format::Single(format, _) => format.around(source, context),
            }
        })
    }
}

/// What a definition of any kind says of its records.
pub struct RecordOptions<'a> {
    format: Format<'a>,
    bounds: Bounds,
}

/// What records are.
enum Format<'a> {
    /// Parts of a file, or of another long stream of bytes.
    File(&'a FileFormat),
    /// They come one by one, and this is undone to each before it is read.
    Single(&'a StreamFormat, &'a [RecordDecoder]),
}

impl<'a> RecordOptions<'a> {
    /// The options of a source that is cut into records. The header of the bounds is what the format says.
    pub fn file(format: &'a FileFormat, bounds: Bounds) -> RecordOptions<'a> {
        RecordOptions { format: Format::File(format), bounds: Bounds { header: format.header(), ..bounds } }
    }

    /// The options of a source whose records come one by one.
    pub fn single(format: &'a StreamFormat, decoders: &'a [RecordDecoder], per_second: Option<u32>) -> RecordOptions<'a> {
        RecordOptions { format: Format::Single(format, decoders), bounds: Bounds { per_second, ..Bounds::default() } }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordQuery<'a> {
    pub text: &'a str,
    /// The parameter that carries the record.
    pub parameter: &'a str,
}

/// A record that failed, in JSON: bytes in base64.
pub fn frame_json(frame: &Value) -> serde_json::Value {
    match frame {
        Value::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::List(items) => items.iter().map(frame_json).collect(),
        Value::Map(fields) => fields.iter().map(|(name, value)| (name.to_string(), frame_json(value))).collect(),
        _ => serde_json::Value::Null,
    }
}
