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

/// The format of files and other long streams of bytes.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum FileFormat {
    /// Every line is a string.
    CypherLine(CypherLine),
    /// Every line is a JSON value.
    CypherJson(CypherJson),
    /// Objects of one JSON array, or one behind the other, over as many lines as they like.
    CypherJsonObjects(CypherJson),
    /// Rows of comma separated values: lists or maps of strings.
    CypherCsv(CypherCsv),
    /// An object container file of Avro, which says itself how its records are read.
    CypherAvroContainer(CypherAvroContainer),
    /// A file of Parquet: each row is a map. Files and objects of S3 are read, and of them only the columns that the query names.
    CypherParquet(CypherParquet),
}

/// The format of sources whose records come one by one.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum StreamFormat {
    /// Every record is a JSON value.
    CypherJson(CypherJson),
    /// Every record is a string of bytes.
    CypherRaw(CypherRaw),
    /// Every record is a message of Protobuf.
    CypherProtobuf(CypherProtobuf),
    /// Every record is a datum of Avro, without a header or behind the number of its schema in a registry.
    CypherAvro(CypherAvro),
    /// Records are read, counted and forgotten.
    Drop,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherRaw {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherAvro {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record, `that` when not given.
    #[serde(default = "that")]
    pub parameter: String,
    /// Where the schema the records were written with is found: a URL with http, https or file, or the path of a file. Not with
    /// `schemaRegistry`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The registry whose schemas the records name, each by five bytes at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
    /// Whether dates, times, decimals and the like become values of their own; when not, as by default, they are the
    /// numbers and bytes they are written as.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logical_types: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherAvroContainer {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record, `that` when not given.
    #[serde(default = "that")]
    pub parameter: String,
    /// Refused: records are read by the schema of the file, not by another one.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// Whether dates, times, decimals and the like become values of their own; when not, as by default, they are the
    /// numbers and bytes they are written as.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logical_types: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherParquet {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CypherProtobuf {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record, `that` when not given.
    #[serde(default = "that")]
    pub parameter: String,
    /// Where the compiled descriptor set is found, as protoc writes it with `--descriptor_set_out --include_imports`: a URL with
    /// http, https or file, or the path of a file. Not with `schemaRegistry`.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub schema_url: Option<String>,
    /// The message the records are: its full name, or the end of it where no other message of the set ends so. Goes with
    /// `schemaUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// The registry whose schemas the records name; they say themselves which message of it they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<SchemaRegistry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherLine {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherJson {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record.
    #[serde(default = "that")]
    pub parameter: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CypherCsv {
    /// Cypher that runs on each record.
    pub query: String,
    /// The parameter that carries the record.
    #[serde(default = "that")]
    pub parameter: String,
    /// `true`: the first row names the columns. A list: these are the names. `false`: there are none, and a record is a
    /// list.
    #[serde(default)]
    pub headers: CsvHeaders,
    /// Between two fields.
    #[serde(default = "comma")]
    pub delimiter: CsvCharacter,
    /// Around a field with delimiters or newlines in it.
    #[serde(default = "double_quote", rename = "quoteChar")]
    pub quote: CsvCharacter,
    /// Before a character that shall stand for itself.
    #[serde(default = "backslash", rename = "escapeChar")]
    pub escape: CsvCharacter,
}

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CsvHeaders {
    FirstRow(bool),
    Names(Vec<String>),
}

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
