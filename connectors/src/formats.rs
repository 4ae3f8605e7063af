//! Formats as v1 names them, the query included: what a file-like source cuts its bytes into and how a record is decoded.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use weir_model::json::WantedKeys;
use weir_model::protobuf::Wanted;
use weir_model::{Position, Text};

use crate::charset::Charset;
use crate::config::{self, that};
use crate::container::ContainerReader;
use crate::decode::{AvroDecoder, CsvCharacters, CsvDecoder, Decoder, JsonDecoder, LineDecoder, ProtobufDecoder, RawDecoder};
use crate::error::ConnectorError;
use crate::framing::{ByteStream, FrameReader, Framing};
use crate::recoding::{RecordDecoder, recoded};
use crate::registry::{Kind, Registered, Registry, SchemaRegistry};
use crate::source::{RecordQuery, Source, SourceContext};
use crate::{fetch, schema, secret};

/// How files and other long inputs are divided into records.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum FileFormat {
    /// Each line is a record: a string.
    CypherLine(CypherLine),
    /// Each line is a record: a JSON value.
    CypherJson(CypherJson),
    /// Each JSON object is a record: the objects of an array, or objects that follow one another. They may span lines.
    CypherJsonObjects(CypherJson),
    /// Each row of CSV is a record: a list of strings, or a map when `headers` names the columns.
    CypherCsv(CypherCsv),
    /// Each record of an Avro object container file, decoded by the schema in the file.
    CypherAvroContainer(CypherAvroContainer),
    /// Each row of a Parquet file is a record: a map. For files and S3 objects only.
    CypherParquet(CypherParquet),
}

/// How single messages are decoded.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum StreamFormat {
    /// Each message is a JSON value.
    CypherJson(CypherJson),
    /// Each message is passed to the query as bytes.
    CypherRaw(CypherRaw),
    /// Each message is a Protobuf message.
    CypherProtobuf(CypherProtobuf),
    /// Each message is an Avro datum without a file header, or in the framing of a schema registry.
    CypherAvro(CypherAvro),
    /// Messages are counted and discarded. No query runs.
    Drop,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherRaw {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherAvro {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
    /// Where the schema is found that the records were written with: an `http`, `https` or `file` URL, or the path of a file. Not
    /// together with `schemaRegistry`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The schema registry. Each record begins with five bytes that name its schema there. Not together with `schemaUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
    /// Whether logical types (dates, times, decimals, UUIDs and the like) become values of their own. When false, the default,
    /// they stay the numbers and bytes that they are stored as.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logical_types: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherAvroContainer {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
    /// Not supported; a definition with it is refused. Records are decoded by the schema in the file.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// Whether logical types (dates, times, decimals, UUIDs and the like) become values of their own. When false, the default,
    /// they stay the numbers and bytes that they are stored as.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logical_types: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherParquet {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherProtobuf {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
    /// Where the compiled descriptor set is found, as `protoc --include_imports --descriptor_set_out=FILE` writes it: an `http`,
    /// `https` or `file` URL, or the path of a file. Not together with `schemaRegistry`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The message type of the records: its full name, or the end of it if no other message of the set ends so. Needed with
    /// `schemaUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The schema registry. Each record says which schema and message type it has. Not together with `schemaUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherLine {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherJson {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherCsv {
    /// The Cypher query that runs on each record.
    pub query: String,
    /// The name of the query parameter that carries the record. `that` means the query refers to it as `$that`.
    #[serde(default = "that")]
    pub parameter: String,
    /// `true`: the first row names the columns, and a record is a map. A list of names: these are the columns, and the first row
    /// is a record. `false`, the default: a record is a list.
    #[serde(default)]
    pub headers: CsvHeaders,
    /// The character between two fields. A comma when not given.
    #[serde(default = "comma")]
    pub delimiter: CsvCharacter,
    /// The character around fields that contain delimiters or newlines; doubled within such a field it stands for itself. A
    /// double quote when not given.
    #[serde(default = "double_quote", rename = "quoteChar")]
    pub quote: CsvCharacter,
    /// The character before a delimiter, a quote or itself that is to stand for itself. A backslash when not given.
    #[serde(default = "backslash", rename = "escapeChar")]
    pub escape: CsvCharacter,
}

/// Whether the first row names the columns, or the names themselves.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CsvHeaders {
    FirstRow(bool),
    Names(Vec<String>),
}

/// A character with a meaning in CSV. Delimiter, quote and escape have to differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum CsvCharacter {
    Backslash,
    Comma,
    Semicolon,
    Colon,
    Tab,
    Pipe,
    DoubleQuote,
}

fn comma() -> CsvCharacter {
    CsvCharacter::Comma
}

fn double_quote() -> CsvCharacter {
    CsvCharacter::DoubleQuote
}

fn backslash() -> CsvCharacter {
    CsvCharacter::Backslash
}

impl Default for CsvHeaders {
    fn default() -> CsvHeaders {
        CsvHeaders::FirstRow(false)
    }
}

impl<'de> Deserialize<'de> for CsvHeaders {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<CsvHeaders, D::Error> {
        let given = Json::deserialize(input)?;
        let names = |items: &Vec<Json>| items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        let headers = match &given {
            Json::Bool(first_row) => Some(CsvHeaders::FirstRow(*first_row)),
            Json::Array(items) => names(items).map(CsvHeaders::Names),
            _ => None,
        };
        let problem = || format!("Got value '{given}' with wrong type, expecting true, false or a list of names");
        headers.ok_or_else(|| config::nested(ConnectorError::config("headers", problem())))
    }
}

impl CsvCharacter {
    fn byte(self) -> u8 {
        match self {
            CsvCharacter::Backslash => b'\\',
            CsvCharacter::Comma => b',',
            CsvCharacter::Semicolon => b';',
            CsvCharacter::Colon => b':',
            CsvCharacter::Tab => b'\t',
            CsvCharacter::Pipe => b'|',
            CsvCharacter::DoubleQuote => b'"',
        }
    }
}

impl CypherCsv {
    fn characters(&self) -> CsvCharacters {
        CsvCharacters { delimiter: self.delimiter.byte(), quote: self.quote.byte(), escape: self.escape.byte() }
    }
}

impl<'de> Deserialize<'de> for FileFormat {
    // By hand, so that an error names the option inside the format, which a derived tagged enum forgets.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<FileFormat, D::Error> {
        let given = Json::deserialize(input)?;
        let format = config::kind(&given).and_then(|kind| match kind {
            "CypherLine" => config::from_json(&given).map(FileFormat::CypherLine),
            "CypherJson" => config::from_json(&given).map(FileFormat::CypherJson),
            "CypherJsonObjects" => config::from_json(&given).map(FileFormat::CypherJsonObjects),
            "CypherCsv" => config::from_json(&given).map(FileFormat::CypherCsv),
            "CypherAvroContainer" => config::from_json(&given).map(FileFormat::CypherAvroContainer),
            "CypherParquet" => config::from_json(&given).map(FileFormat::CypherParquet),
            other => Err(config::unknown_kind(other)),
        });
        format.map_err(config::nested)
    }
}

impl FileFormat {
    /// Stores each record as a node of its own: what file-like sources do when nothing is said.
    pub fn create_nodes() -> FileFormat {
        FileFormat::CypherJson(CypherJson { query: "CREATE ($that)".to_owned(), parameter: that() })
    }

    pub fn query(&self) -> RecordQuery<'_> {
        let (text, parameter) = match self {
            FileFormat::CypherLine(format) => (&format.query, &format.parameter),
            FileFormat::CypherJson(format) | FileFormat::CypherJsonObjects(format) => (&format.query, &format.parameter),
            FileFormat::CypherCsv(format) => (&format.query, &format.parameter),
            FileFormat::CypherAvroContainer(format) => (&format.query, &format.parameter),
            FileFormat::CypherParquet(format) => (&format.query, &format.parameter),
        };
        RecordQuery { text, parameter }
    }

    /// Checks the format of bytes that come one after the other.
    pub fn check(&self) -> Result<(), ConnectorError> {
        match self {
            FileFormat::CypherParquet(_) => Err(parquet_elsewhere()),
            _ => self.check_of_file(Charset::Utf8, &[]),
        }
    }

    /// Checks the format of what is read at any place once it is whole. Of Parquet, which says itself how it is written, nothing
    /// is undone to the whole.
    pub fn check_of_file(&self, charset: Charset, decoders: &[RecordDecoder]) -> Result<(), ConnectorError> {
        if matches!(self, FileFormat::CypherParquet(_)) {
            let refused = |field: &str| {
                Err(ConnectorError::config(field, "goes not with Parquet, which says itself how it is written; leave it out"))
            };
            return match charset {
                Charset::Utf8 if decoders.is_empty() => Ok(()),
                Charset::Utf8 => refused("recordDecoders"),
                _ => refused("encoding"),
            };
        }
        if let FileFormat::CypherAvroContainer(CypherAvroContainer { schema_url: Some(_), .. }) = self {
            let problem = "records are read by the schema of the file itself in this version of weir; leave it out";
            return Err(ConnectorError::config("format.schemaUrl", problem));
        }
        let FileFormat::CypherCsv(csv) = self else { return Ok(()) };
        if csv.delimiter == csv.quote || csv.quote == csv.escape || csv.delimiter == csv.escape {
            return Err(ConnectorError::config(
                "format",
                "delimiter, quoteChar and escapeChar must be three different characters",
            ));
        }
        Ok(())
    }

    /// What cuts a stream into records, from a position it gave. `open` starts the stream behind as many bytes as it is given.
    pub fn reader(
        &self,
        place: &str,
        record_bytes_max: usize,
        from: Option<&Position>,
        open: impl FnOnce(u64) -> Result<Box<dyn ByteStream>, ConnectorError>,
    ) -> Result<Box<dyn Source>, ConnectorError> {
        let framing = match self {
            FileFormat::CypherLine(_) | FileFormat::CypherJson(_) => Framing::Lines,
            FileFormat::CypherJsonObjects(_) => Framing::JsonObjects,
            FileFormat::CypherCsv(csv) => Framing::CsvRows(csv.characters()),
            FileFormat::CypherAvroContainer(format) => {
                let reader = ContainerReader::new(place, open(0)?, format.logical_types, record_bytes_max, from)?;
                return Ok(Box::new(reader));
            }
            FileFormat::CypherParquet(_) => return Err(parquet_elsewhere()),
        };
        let offset = from.map_or(Ok(0), |position| FrameReader::offset(place, position))?;
        Ok(Box::new(FrameReader::new(place, open(offset)?, framing, record_bytes_max, offset).from(from)))
    }

    /// A position that the reader of such a file gave, as people are shown it.
    pub fn shown_position(&self, position: &[u8]) -> Option<Json> {
        match self {
            FileFormat::CypherLine(_)
            | FileFormat::CypherJson(_)
            | FileFormat::CypherJsonObjects(_)
            | FileFormat::CypherCsv(_) => FrameReader::shown_position(position),
            FileFormat::CypherAvroContainer(_) => ContainerReader::shown_position(position),
            FileFormat::CypherParquet(_) => crate::parquet::shown_position(position),
        }
    }

    /// How the header row reads, where there is one.
    pub fn header(&self) -> Option<CsvCharacters> {
        match self {
            FileFormat::CypherCsv(csv) => (csv.headers == CsvHeaders::FirstRow(true)).then(|| csv.characters()),
            _ => None,
        }
    }

    pub fn decoder(&self, context: &SourceContext) -> Arc<dyn Decoder> {
        match self {
            // The stream brings another one.
            FileFormat::CypherAvroContainer(_) | FileFormat::CypherParquet(_) => Arc::new(RawDecoder),
            FileFormat::CypherLine(_) => Arc::new(LineDecoder),
            FileFormat::CypherJson(_) | FileFormat::CypherJsonObjects(_) => Arc::new(json(context)),
            FileFormat::CypherCsv(csv) => {
                let columns = match &csv.headers {
                    CsvHeaders::FirstRow(_) => None,
                    CsvHeaders::Names(names) => Some(names.iter().map(|name| Text::new(name)).collect()),
                };
                Arc::new(CsvDecoder { characters: csv.characters(), columns })
            }
        }
    }
}

fn parquet_elsewhere() -> ConnectorError {
    let problem = "Parquet is read from its end and at many places: only files and objects of S3 are";
    ConnectorError::config("format", problem)
}

impl<'de> Deserialize<'de> for StreamFormat {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<StreamFormat, D::Error> {
        let given = Json::deserialize(input)?;
        let format = config::kind(&given).and_then(|kind| match kind {
            "CypherJson" => config::from_json(&given).map(StreamFormat::CypherJson),
            "CypherRaw" => config::from_json(&given).map(StreamFormat::CypherRaw),
            "CypherAvro" => config::from_json(&given).map(StreamFormat::CypherAvro),
            "CypherProtobuf" => config::from_json(&given).map(StreamFormat::CypherProtobuf),
            "Drop" => Ok(StreamFormat::Drop),
            other => Err(config::unknown_kind(other)),
        });
        format.map_err(config::nested)
    }
}

impl StreamFormat {
    /// Stores each record as a node of its own: what such sources do when nothing is said.
    pub fn create_nodes() -> StreamFormat {
        StreamFormat::CypherJson(CypherJson { query: "CREATE ($that)".to_owned(), parameter: that() })
    }

    /// None where nothing runs on the records.
    pub fn query(&self) -> Option<RecordQuery<'_>> {
        let (text, parameter) = match self {
            StreamFormat::CypherJson(format) => (&format.query, &format.parameter),
            StreamFormat::CypherRaw(format) => (&format.query, &format.parameter),
            StreamFormat::CypherProtobuf(format) => (&format.query, &format.parameter),
            StreamFormat::CypherAvro(format) => (&format.query, &format.parameter),
            StreamFormat::Drop => return None,
        };
        Some(RecordQuery { text, parameter })
    }

    /// Fetches the schema where the format has one.
    pub fn decoder(&self, context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
        Ok(match self {
            StreamFormat::CypherJson(_) => Arc::new(json(context)),
            StreamFormat::CypherRaw(_) | StreamFormat::Drop => Arc::new(RawDecoder),
            StreamFormat::CypherProtobuf(protobuf) => return protobuf.decoder(context).map_err(|error| error.within("format")),
            StreamFormat::CypherAvro(avro) => return avro.decoder(context).map_err(|error| error.within("format")),
        })
    }

    /// As `decoder`, behind what is undone to each record.
    pub fn recoded(&self, decoders: &[RecordDecoder], context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
        if self.registry().is_some() && !decoders.is_empty() {
            let problem = "records that name a schema of a registry are read as they are; leave it out";
            return Err(ConnectorError::config("recordDecoders", problem));
        }
        Ok(recoded(decoders, self.decoder(context)?))
    }

    fn registry(&self) -> Option<&SchemaRegistry> {
        match self {
            StreamFormat::CypherAvro(avro) => avro.schema_registry.as_ref(),
            StreamFormat::CypherProtobuf(protobuf) => protobuf.schema_registry.as_ref(),
            _ => None,
        }
    }

    /// The source with the schemas that its records name, where they name any.
    pub fn around(&self, source: Box<dyn Source>, context: &SourceContext) -> Result<Box<dyn Source>, ConnectorError> {
        let Some(registry) = self.registry() else { return Ok(source) };
        let kind = match self {
            StreamFormat::CypherAvro(avro) => Kind::Avro { logical: avro.logical_types },
            _ => Kind::Protobuf { wanted: context.wanted.clone() },
        };
        let registry = Registry::open(registry, &context.hosts)?;
        Ok(Box::new(Registered::new(source, kind, registry, &context.runtime)))
    }
}

impl CypherProtobuf {
    fn decoder(&self, context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
        let (url, name) = match (&self.schema_url, &self.type_name, &self.schema_registry) {
            (Some(url), Some(name), None) => (url, name),
            (Some(_), None, None) => return Err(ConnectorError::config("typeName", "Missing required field")),
            (None, None, Some(registry)) => return by_its_number(registry, context),
            (None, Some(_), Some(_)) => {
                return Err(ConnectorError::config(
                    "typeName",
                    "records say which message of a registry's schema they are; leave it out",
                ));
            }
            (url, ..) => return Err(one_place(url.is_some())),
        };
        let message = schema::message(url, name, &context.files, &context.hosts)?;
        let wanted = match &context.wanted {
            None => Wanted::All,
            Some(keys) => message.wanted(keys.iter().map(Text::as_str)),
        };
        Ok(Arc::new(ProtobufDecoder { message, wanted }))
    }
}

impl CypherAvro {
    fn decoder(&self, context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
        let url = match (&self.schema_url, &self.schema_registry) {
            (Some(url), None) => url,
            (None, Some(registry)) => return by_its_number(registry, context),
            (url, _) => return Err(one_place(url.is_some())),
        };
        let schema = schema::text(url, &context.files, &context.hosts)?;
        let decoder = AvroDecoder::new(&schema, self.logical_types);
        let wrong = |problem| ConnectorError::config("schemaUrl", format!("{}: {problem}", fetch::shown(url)));
        Ok(Arc::new(decoder.map_err(wrong)?))
    }
}

/// The stream brings another one with each batch.
fn by_its_number(registry: &SchemaRegistry, context: &SourceContext) -> Result<Arc<dyn Decoder>, ConnectorError> {
    registry.check(&context.hosts).map_err(|error| error.within("schemaRegistry"))?;
    Ok(Arc::new(RawDecoder))
}

fn one_place(both: bool) -> ConnectorError {
    let problem =
        if both { "goes not with schemaRegistry; give one of the two" } else { "is missing: give it, or schemaRegistry" };
    ConnectorError::config("schemaUrl", problem)
}

/// Decodes what the query of a stream looks at.
fn json(context: &SourceContext) -> JsonDecoder {
    let wanted = context.wanted.as_ref().map(|keys| WantedKeys::of(keys.iter().map(Text::as_str)));
    JsonDecoder { wanted: wanted.unwrap_or_default() }
}
