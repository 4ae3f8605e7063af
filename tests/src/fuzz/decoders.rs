//! Bytes given to each decoder as a stream would give them, and what was read written and read again where there is an inverse.

use std::cell::OnceCell;
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;
use weir_connectors::body::{Cut, Records, uncompressed};
use weir_connectors::charset::Charset;
use weir_connectors::decode::{AvroDecoder, Decoder, JsonDecoder, RawDecoder, RecordFailure, decode};
use weir_connectors::formats::FileFormat;
use weir_connectors::frames::Frame;
use weir_connectors::framing::{ByteStream, Chunk};
use weir_connectors::overheard::{Speaker, listen};
use weir_connectors::parquet::ParquetReader;
use weir_connectors::recoded_stream::recoded_stream;
use weir_connectors::recoding::{RecordDecoder, recoded};
use weir_connectors::registry::{Kind, Registration};
use weir_connectors::{
    ConnectorError, FilePolicy, Frames, HostPolicy, Limits, OutputFormat, Progress, RecordSchema, Source, SourceContext,
};
use weir_model::json::{WantedKeys, parse_wanted};
use weir_model::protobuf::{Declared, MessageType, Schema, Wanted};
use weir_model::{IdScheme, Map, Value};

use super::{Target, samples};

/// Whatever a stream gives, it ends within this many batches, or counts as one that goes on for ever.
const BATCHES_MAX: usize = 1_000_000;
/// The bound of records, small enough that inputs pass it.
const RECORD_BYTES_MAX: usize = 16 << 10;

/// The steps in the order in which samples make them.
pub const STEPS: [RecordDecoder; 6] = [
    RecordDecoder::Zlib,
    RecordDecoder::Gzip,
    RecordDecoder::Base64,
    RecordDecoder::Zstd,
    RecordDecoder::Lz4,
    RecordDecoder::Snappy,
];

/// What inputs are read by: made once.
struct Kit {
    runtime: Runtime,
    /// Readers and writers of the schemas of `samples`.
    avro: Vec<(AvroDecoder, Arc<RecordSchema>)>,
    messages: Vec<MessageType>,
    registered: [Arc<dyn Decoder>; 2],
    table: File,
}

thread_local! {
    static KIT: OnceCell<Kit> = const { OnceCell::new() };
}

/// Gives the bytes to what a target names. An error says which promise was broken; whether something could be read is none. Gives
/// how many values there were.
pub fn feed(target: Target, input: &[u8], turn: u64) -> Result<u64, String> {
    KIT.with(|kit| kit.get_or_init(Kit::new).feed(target, input, turn))
}

impl Kit {
    fn new() -> Kit {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let avro = samples::AVRO_SCHEMAS.iter().enumerate().map(|(at, schema)| {
            let path = directory.path().join(format!("{at}.avsc"));
            std::fs::write(&path, schema).expect("a file");
            let format: OutputFormat = serde_json::from_value(json!({"type": "Avro", "schemaUrl": path})).expect("a format");
            let writer = format.schema(None, &FilePolicy::allow_all(), &HostPolicy::default()).expect("a schema");
            (AvroDecoder::new(schema, true).expect("a schema"), writer.expect("a schema"))
        });
        let avro = avro.collect();
        let schema = Arc::new(Schema::read(samples::DESCRIPTORS).expect("descriptors"));
        let names: std::collections::BTreeSet<&str> = samples::messages().iter().map(|(name, _)| *name).collect();
        let messages = names.iter().map(|name| schema.message(name).expect("a message")).collect();
        let numbered = |kind: &'static str, texts: &'static [&'static str]| {
            let found = texts.iter().enumerate();
            found.map(move |(id, text)| Registration {
                id: id as u32,
                kind: kind.to_owned(),
                text: (*text).to_owned(),
                references: Vec::new(),
            })
        };
        let registered = [
            Kind::Avro { logical: false }.decoder(numbered("AVRO", samples::AVRO_SCHEMAS)),
            Kind::Protobuf { wanted: None }.decoder(numbered("PROTOBUF", samples::DECLARATIONS)),
        ];
        Kit { runtime, avro, messages, registered, table: tempfile::tempfile().expect("a temporary file") }
    }

    fn feed(&self, target: Target, input: &[u8], turn: u64) -> Result<u64, String> {
        let frame = Frame { bytes: input, columns: None };
        Ok(match target {
            Target::Json => json_document(input)?,
            Target::JsonObjects => self.stream(json!({"type": "CypherJsonObjects", "query": ""}), input, turn)?,
            Target::Lines => {
                let kind = ["CypherLine", "CypherJson"][(turn / 8 % 2) as usize];
                self.stream(json!({"type": kind, "query": ""}), input, turn)?
            }
            Target::Csv => {
                let characters = ["Comma", "Semicolon", "Tab", "Pipe", "Colon"][(turn / 8 % 5) as usize];
                let headers = [json!(false), json!(true), json!(["a", "b", "a"])][(turn / 64 % 3) as usize].clone();
                let (quote, escape) = [("DoubleQuote", "Backslash"), ("Backslash", "DoubleQuote")][(turn / 256 % 2) as usize];
                let format = json!({"type": "CypherCsv", "query": "", "headers": headers, "delimiter": characters,
                    "quoteChar": quote, "escapeChar": escape});
                self.stream(format, input, turn)?
            }
            Target::Protobuf => {
                let mut read = 0;
                for message in &self.messages {
                    read += protobuf(message, input)?;
                }
                read
            }
            Target::ProtobufDescriptors => match Schema::read(input).map(Arc::new) {
                Ok(schema) => {
                    let messages = self.messages.iter().filter_map(|message| schema.message(message.full_name()).ok());
                    for message in messages {
                        let _ = message.decode(&input[..input.len().min(500)], &Wanted::All);
                        let _ = message.encode(&Map::with_capacity(0), IdScheme::Uuid, &mut Vec::new());
                    }
                    1
                }
                Err(_) => 0,
            },
            Target::ProtobufDeclarations => match std::str::from_utf8(input).ok().and_then(|text| Declared::read(text, &[]).ok())
            {
                Some(declared) => {
                    let message = declared.at(&[(turn % 3) as usize]);
                    let _ = message.map(|message| message.decode(&input[..input.len().min(500)], &Wanted::All));
                    1
                }
                None => 0,
            },
            Target::Avro => match input.split_first() {
                Some((which, datum)) => self.avro(usize::from(*which) % self.avro.len(), datum)?,
                None => 0,
            },
            Target::AvroSchema => {
                let decoder =
                    std::str::from_utf8(input).ok().and_then(|text| AvroDecoder::new(text, turn.is_multiple_of(2)).ok());
                if let Some(decoder) = decoder {
                    for datum in [&[0; 64][..], input] {
                        let _ = decoder.record(Frame { bytes: datum, columns: None });
                        let _ = decoder.length(datum);
                    }
                    1
                } else {
                    0
                }
            }
            Target::AvroContainer => {
                let format = json!({"type": "CypherAvroContainer", "query": "", "logicalTypes": turn.is_multiple_of(2)});
                self.stream(format, input, turn)?
            }
            Target::Parquet => self.table(input)?,
            Target::Registry => self.registered.iter().filter(|decoder| decoder.record(frame).is_ok()).count() as u64,
            Target::Recoding => {
                let chain = [STEPS[(turn % 6) as usize], STEPS[(turn / 6 % 6) as usize]];
                let chain = &chain[..1 + (turn / 36 % 2) as usize];
                // A step that the bytes look like is more often right than one of all.
                let chain = looks_like(input)
                    .map_or(chain.to_vec(), |step| if !turn.is_multiple_of(4) { vec![step] } else { vec![step, chain[0]] });
                u64::from(recoded(&chain, Arc::new(RawDecoder)).record(frame).is_ok())
            }
            Target::RecodedFile => {
                let step = looks_like(input).unwrap_or(STEPS[(turn % 6) as usize]);
                let stream = Pieces::of(input, pieces(turn));
                let stream = recoded_stream("the fuzz", &[step], stream).map_err(|error| error.to_string())?;
                drained(stream)?
            }
            Target::Body => {
                let cut = [Cut::Json, Cut::Lines, Cut::Whole][(turn % 3) as usize];
                let encoding = ["gzip", "deflate", "zstd"][(turn % 3) as usize];
                if let Some(Ok(bytes)) = uncompressed(encoding, input.to_vec(), RECORD_BYTES_MAX)
                    && bytes.len() > RECORD_BYTES_MAX
                {
                    return Err(format!("{} bytes are undone, and the bound is {RECORD_BYTES_MAX}", bytes.len()));
                }
                let records = Records::cut(input.to_vec(), cut).unwrap_or_default();
                let bytes: usize = (0..records.len()).map(|at| records.get(at).len()).sum();
                if bytes > input.len() {
                    return Err(format!("{bytes} bytes of records come from {}", input.len()));
                }
                records.len() as u64
            }
            Target::Nats => self.listen(Speaker::Nats, input, turn),
            Target::Mqtt => self.listen(Speaker::Mqtt, input, turn),
            Target::Amqp => self.listen(Speaker::Amqp, input, turn),
            Target::Redis => self.listen(Speaker::Redis, input, turn),
            Target::Postgres => self.listen(Speaker::Postgres, input, turn),
            Target::KinesisEvents => self.listen(Speaker::KinesisEvents, input, turn),
            Target::ServerSentEvents => self.listen(Speaker::ServerSentEvents, input, turn),
            Target::ReactiveStream => self.listen(Speaker::ReactiveStream, input, turn),
            Target::Lexer | Target::Parser | Target::Binder | Target::Evaluator => return Err("is fed texts".to_owned()),
        })
    }

    fn listen(&self, speaker: Speaker, input: &[u8], turn: u64) -> u64 {
        self.runtime.block_on(listen(speaker, input, pieces(turn))).0
    }

    /// A stream of bytes in a format of files, in one of several sets of characters, to its end or its first error.
    fn stream(&self, format: serde_json::Value, input: &[u8], turn: u64) -> Result<u64, String> {
        let charset = Charset::named(
            ["UTF-8", "UTF-8", "UTF-8", "UTF-16", "ISO-8859-1", "windows-1252", "Shift_JIS", "UTF-16LE"][(turn % 8) as usize],
        );
        let container = format["type"] == "CypherAvroContainer";
        let format: FileFormat = serde_json::from_value(format).map_err(|error| error.to_string())?;
        let stream = Pieces::of(input, pieces(turn / 8));
        // Texts alone have sets of characters.
        let stream = if container { stream } else { charset.map_err(|error| error.to_string())?.decoded(stream) };
        let reader = format.reader("the fuzz", RECORD_BYTES_MAX, None, |_| Ok(stream));
        let wanted = turn.is_multiple_of(5).then(|| Arc::from(["a".into()]));
        let context = SourceContext {
            files: FilePolicy::default(),
            hosts: HostPolicy::default(),
            runtime: self.runtime.handle().clone(),
            stream: String::new(),
            wanted,
            tells: false,
        };
        let mut header = format.header();
        let mut columns = None;
        drive(reader.map_err(|error| error.to_string())?, &*format.decoder(&context), |batch| {
            if batch.is_empty() {
                return;
            }
            if let Some(characters) = header.take() {
                let names = weir_connectors::decode::split_row(batch.get(0).bytes, characters);
                columns = names.ok().map(Arc::from);
                batch.skip(1);
            }
            batch.columns.clone_from(&columns);
        })
    }

    /// Of what can be read, what is written by the same schema reads the same.
    fn avro(&self, which: usize, datum: &[u8]) -> Result<u64, String> {
        let (reader, writer) = &self.avro[which];
        let Ok(value) = reader.record(Frame { bytes: datum, columns: None }) else { return Ok(0) };
        if reader.length(datum) != Ok(datum.len()) {
            return Err(format!(
                "what is read is {} bytes long, and what is passed over {:?}",
                datum.len(),
                reader.length(datum)
            ));
        }
        let Value::Map(map) = &value else { return Err("no record".to_owned()) };
        // Not all that can be read can be written: a float of an endless fraction goes into a branch of another width.
        let Ok(written) = writer.write(map, IdScheme::Uuid) else { return Ok(1) };
        let again = reader
            .record(Frame { bytes: &written, columns: None })
            .map_err(|problem| format!("what is written cannot be read: {problem}"))?;
        if again.shown() == value.shown() {
            Ok(1)
        } else {
            Err(format!("reads {} and, written, {}", value.shown(), again.shown()))
        }
    }

    fn table(&self, input: &[u8]) -> Result<u64, String> {
        let mut file = &self.table;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(input)).map_err(|error| error.to_string())?;
        let copy = self.table.try_clone().map_err(|error| error.to_string())?;
        match ParquetReader::of(copy, "the fuzz", None, None) {
            Ok(reader) => drive(Box::new(reader), &RawDecoder, |_| {}),
            Err(_) => Ok(0),
        }
    }
}

/// How much comes at once.
fn pieces(turn: u64) -> usize {
    [1 << 20, 1, 7, 1 << 12][(turn % 4) as usize]
}

/// Of keys that are wanted the same is read as of all.
fn json_document(input: &[u8]) -> Result<u64, String> {
    let all = JsonDecoder::default().record(Frame { bytes: input, columns: None });
    let some = parse_wanted(input, WantedKeys::of(["a"]));
    match (&all, &some) {
        (Ok(Value::Map(all)), Ok(Value::Map(some))) => {
            let shown = |map: &Map| map.get("a").map(Value::shown);
            if shown(all) != shown(some) {
                return Err("a wanted key reads differently than all of them".to_owned());
            }
        }
        (Ok(_), Err(error)) => return Err(format!("the whole can be read, and less of it not: {error}")),
        _ => {}
    }
    let serde = serde_json::from_slice::<serde::de::IgnoredAny>(input);
    if all.is_ok()
        && serde
            .as_ref()
            .is_err_and(|error| !error.to_string().contains("recursion") && !error.to_string().contains("out of range"))
    {
        return Err(format!("is read, and another parser says that it is no JSON: {serde:?}"));
    }
    Ok(u64::from(all.is_ok()))
}

/// What can be read can be written, and reads the same then.
fn protobuf(message: &MessageType, input: &[u8]) -> Result<u64, String> {
    let told = |problem: String| format!("{}: {problem}", message.full_name());
    let Ok(value) = message.decode(input, &Wanted::All) else { return Ok(0) };
    let mut written = Vec::new();
    // Some values have no way back: a moment that is none, a number of an enumeration without a name.
    if message.encode(&value, IdScheme::Uuid, &mut written).is_err() {
        return Ok(1);
    }
    let again =
        message.decode(&written, &Wanted::All).map_err(|error| told(format!("what is written cannot be read: {error}")))?;
    let (value, again) = (Value::Map(Arc::new(value)).shown(), Value::Map(Arc::new(again)).shown());
    if value == again { Ok(1) } else { Err(told(format!("reads {value} and, written, {again}"))) }
}

/// Runs a source to its end or its first error, and decodes what it gives.
fn drive(mut source: Box<dyn Source>, decoder: &dyn Decoder, mut each: impl FnMut(&mut Frames)) -> Result<u64, String> {
    let limits = Limits { wait_max: Duration::ZERO, records_max: 100, ..Limits::default() };
    let (mut batch, mut values, mut failures) = (Frames::default(), Vec::new(), Vec::<RecordFailure>::new());
    let mut count = 0;
    for _ in 0..BATCHES_MAX {
        batch.clear();
        let progress = source.next(&limits, &mut batch);
        each(&mut batch);
        decode(decoder, &batch, &mut values, &mut failures);
        count += values.len() as u64;
        values.clear();
        failures.clear();
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Finished) | Err(_) => return Ok(count),
        }
    }
    Err(format!("has no end after {BATCHES_MAX} batches"))
}

/// What comes of a file may be a thousand times as much, and none of it is kept: more of the same shows nothing new.
const UNDONE_ENOUGH: u64 = 64 << 20;

fn drained(mut stream: Box<dyn ByteStream>) -> Result<u64, String> {
    let mut buffer = vec![0; 1 << 16];
    let mut count = 0;
    loop {
        match stream.read(&mut buffer, Duration::ZERO) {
            Ok(Chunk::Bytes(0)) => return Err("gives nothing and says that it is something".to_owned()),
            Ok(Chunk::Bytes(bytes)) => count += bytes as u64,
            Ok(Chunk::Nothing) => return Err("waits for what has come".to_owned()),
            Ok(Chunk::End) | Err(_) => return Ok(count),
        }
        if count >= UNDONE_ENOUGH {
            return Ok(count);
        }
    }
}

fn looks_like(input: &[u8]) -> Option<RecordDecoder> {
    match input {
        [0x78, ..] => Some(RecordDecoder::Zlib),
        [0x1f, 0x8b, ..] => Some(RecordDecoder::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(RecordDecoder::Zstd),
        [4, 0x22, 0x4d, 0x18, ..] => Some(RecordDecoder::Lz4),
        [_, 0x80..=0xff, ..] => Some(RecordDecoder::Snappy),
        _ => None,
    }
}

/// A stream of bytes that gives no more at once than a piece.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    piece_bytes: usize,
}

impl Pieces {
    fn of(bytes: &[u8], piece_bytes: usize) -> Box<dyn ByteStream> {
        Box::new(Pieces { bytes: bytes.to_vec(), at: 0, piece_bytes })
    }
}

impl ByteStream for Pieces {
    fn read(&mut self, buffer: &mut [u8], _: Duration) -> Result<Chunk, ConnectorError> {
        let count = buffer.len().min(self.piece_bytes).min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(if count == 0 { Chunk::End } else { Chunk::Bytes(count) })
    }
}
