//! Ingest streams over HTTP: the create body of v1, and what is shown of a stream.
//!
//! The body is decoded once into `IngestSettings`, with every default filled in; stored, echoed and run from there.

use serde_json::{Value as Json, json};

use super::decode::{Fields, Mistakes, unknown_type};

/// The longest line a v1 client gets without asking.
const LINE_BYTES_MAX: i64 = 134_217_728;
const PARALLELISM: i64 = 16;

const SOURCES: &[&str] = &["FileIngest", "StandardInputIngest", "NumberIteratorIngest"];
const SOURCES_ELSEWHERE: &[&str] = &[
    "KafkaIngest",
    "KinesisIngest",
    "KinesisKCLIngest",
    "PulsarIngest",
    "ServerSentEventsIngest",
    "SQSIngest",
    "S3Ingest",
    "WebsocketSimpleStartupIngest",
];

/// The query of number iterators and of JSON files that are given none.
const NUMBERS_QUERY: &str = "MATCH (x) WHERE id(x) = idFrom(toInteger($that)) SET x.i = toInteger($that)";
const JSON_QUERY: &str = "CREATE ($that)";

/// What a CSV character is called.
pub const CSV_CHARACTERS: &[&str] = &["Backslash", "Comma", "Semicolon", "Colon", "Tab", "Pipe", "DoubleQuote"];

#[derive(Clone, Debug, PartialEq)]
pub struct IngestSettings {
    pub source: SourceSettings,
    pub format: Format,
    pub query: String,
    pub parameter: String,
    pub parallelism: i64,
    pub maximum_per_second: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SourceSettings {
    File {
        path: String,
        encoding: String,
        maximum_line_size: i64,
        start_at_offset: i64,
        ingest_limit: Option<i64>,
        /// `Regular` or `NamedPipe`; found out from the file when absent.
        mode: Option<&'static str>,
    },
    StandardInput {
        encoding: String,
        maximum_line_size: i64,
    },
    NumberIterator {
        start_at_offset: i64,
        ingest_limit: Option<i64>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    Line,
    Json,
    Csv { headers: Headers, delimiter: &'static str, quote: &'static str, escape: &'static str },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Headers {
    None,
    FirstRow,
    Names(Vec<String>),
}

impl IngestSettings {
    pub fn decode(body: &Json) -> Result<IngestSettings, Vec<String>> {
        let mut mistakes = Mistakes::default();
        let settings = decode(body, &mut mistakes);
        mistakes.or(settings)
    }

    /// The body as it would be with every default written out.
    pub fn to_json(&self) -> Json {
        let mut format = match &self.format {
            Format::Line => json!({"type": "CypherLine"}),
            Format::Json => json!({"type": "CypherJson"}),
            Format::Csv { .. } => json!({"type": "CypherCsv"}),
        };
        format["query"] = self.query.clone().into();
        format["parameter"] = self.parameter.clone().into();
        if let Format::Csv { headers, delimiter, quote, escape } = &self.format {
            format["headers"] = match headers {
                Headers::None => false.into(),
                Headers::FirstRow => true.into(),
                Headers::Names(names) => names.clone().into(),
            };
            format["delimiter"] = (*delimiter).into();
            format["quoteChar"] = (*quote).into();
            format["escapeChar"] = (*escape).into();
        }
        let mut body = json!({"type": self.type_name(), "format": format});
        let limit = match &self.source {
            SourceSettings::File { path, encoding, maximum_line_size, start_at_offset, ingest_limit, .. } => {
                body["path"] = path.clone().into();
                body["encoding"] = encoding.clone().into();
                body["parallelism"] = self.parallelism.into();
                body["maximumLineSize"] = (*maximum_line_size).into();
                body["startAtOffset"] = (*start_at_offset).into();
                *ingest_limit
            }
            SourceSettings::StandardInput { encoding, maximum_line_size } => {
                body["encoding"] = encoding.clone().into();
                body["parallelism"] = self.parallelism.into();
                body["maximumLineSize"] = (*maximum_line_size).into();
                None
            }
            SourceSettings::NumberIterator { start_at_offset, ingest_limit } => {
                body["startAtOffset"] = (*start_at_offset).into();
                *ingest_limit
            }
        };
        if let Some(limit) = limit {
            body["ingestLimit"] = limit.into();
        }
        if let Some(rate) = self.maximum_per_second {
            body["maximumPerSecond"] = rate.into();
        }
        match self.source {
            SourceSettings::NumberIterator { .. } => body["parallelism"] = self.parallelism.into(),
            SourceSettings::File { mode: Some(mode), .. } => body["fileIngestMode"] = mode.into(),
            _ => {}
        }
        body
    }

    pub fn type_name(&self) -> &'static str {
        match self.source {
            SourceSettings::File { .. } => "FileIngest",
            SourceSettings::StandardInput { .. } => "StandardInputIngest",
            SourceSettings::NumberIterator { .. } => "NumberIteratorIngest",
        }
    }
}

fn decode(body: &Json, mistakes: &mut Mistakes) -> Option<IngestSettings> {
    let (fields, name) = Fields::tagged(body, "", mistakes)?;
    let source = match name {
        "FileIngest" => SourceSettings::File {
            path: fields.required_text("path", mistakes)?,
            encoding: encoding(&fields, mistakes),
            maximum_line_size: line_size(&fields, mistakes),
            start_at_offset: fields.long("startAtOffset", mistakes).unwrap_or(0),
            ingest_limit: fields.long("ingestLimit", mistakes),
            mode: fields.word("fileIngestMode", &["Regular", "NamedPipe"], mistakes),
        },
        "StandardInputIngest" => {
            SourceSettings::StandardInput { encoding: encoding(&fields, mistakes), maximum_line_size: line_size(&fields, mistakes) }
        }
        "NumberIteratorIngest" => SourceSettings::NumberIterator {
            // `startAt` is what older clients write.
            start_at_offset: fields.long("startAtOffset", mistakes).or_else(|| fields.long("startAt", mistakes)).unwrap_or(0),
            ingest_limit: fields.long("ingestLimit", mistakes),
        },
        other => {
            unknown_type(other, "source", SOURCES, SOURCES_ELSEWHERE, mistakes);
            return None;
        }
    };
    let numbers = matches!(source, SourceSettings::NumberIterator { .. });
    let parallelism = fields.int("parallelism", mistakes).unwrap_or(PARALLELISM);
    let rate = fields.int("maximumPerSecond", mistakes).or_else(|| fields.int("throttlePerSecond", mistakes));
    if parallelism < 1 {
        mistakes.at(".parallelism", "must be at least 1");
    }
    if rate.is_some_and(|rate| rate < 1) {
        mistakes.at(".maximumPerSecond", "must be at least 1; leave it out for no limit");
    }
    let (format, query, parameter) = match fields.get("format") {
        Some(value) => decode_format(value, mistakes)?,
        None if numbers => (Format::Line, NUMBERS_QUERY.to_owned(), "that".to_owned()),
        None => (Format::Json, JSON_QUERY.to_owned(), "that".to_owned()),
    };
    // A union reports its first mistake only.
    mistakes.0.truncate(1);
    Some(IngestSettings { source, format, query, parameter, parallelism, maximum_per_second: rate })
}

fn encoding(fields: &Fields<'_>, mistakes: &mut Mistakes) -> String {
    fields.text("encoding", mistakes).unwrap_or_else(|| "UTF-8".to_owned())
}

fn line_size(fields: &Fields<'_>, mistakes: &mut Mistakes) -> i64 {
    let size = fields.int("maximumLineSize", mistakes).unwrap_or(LINE_BYTES_MAX);
    if size < 1 {
        mistakes.at(".maximumLineSize", "must be at least 1");
    }
    size
}

fn decode_format(value: &Json, mistakes: &mut Mistakes) -> Option<(Format, String, String)> {
    let (fields, name) = Fields::tagged(value, ".format", mistakes)?;
    let format = match name {
        "CypherLine" => Format::Line,
        "CypherJson" => Format::Json,
        "CypherCsv" => {
            let mut character = |name: &str, default: &'static str| {
                if fields.get(name).is_none() { Some(default) } else { fields.word(name, CSV_CHARACTERS, mistakes) }
            };
            let (delimiter, quote) = (character("delimiter", "Comma")?, character("quoteChar", "DoubleQuote")?);
            let escape = character("escapeChar", "Backslash")?;
            if delimiter == quote || quote == escape || delimiter == escape {
                mistakes.at("", "delimiter, quoteChar and escapeChar must be three different characters");
            }
            Format::Csv { headers: decode_headers(&fields, mistakes)?, delimiter, quote, escape }
        }
        other => {
            unknown_type(other, "format", &["CypherLine", "CypherJson", "CypherCsv"], &[], mistakes);
            return None;
        }
    };
    let query = fields.required_text("query", mistakes)?;
    let parameter = fields.text("parameter", mistakes).unwrap_or_else(|| "that".to_owned());
    Some((format, query, parameter))
}

fn decode_headers(fields: &Fields<'_>, mistakes: &mut Mistakes) -> Option<Headers> {
    match fields.get("headers") {
        None | Some(Json::Bool(false)) => Some(Headers::None),
        Some(Json::Bool(true)) => Some(Headers::FirstRow),
        Some(Json::Array(names)) if names.iter().all(Json::is_string) => {
            Some(Headers::Names(names.iter().filter_map(Json::as_str).map(str::to_owned).collect()))
        }
        Some(other) => {
            mistakes.at(&fields.path_of("headers"), format!("Got value '{other}' with wrong type, expecting true, false or a list of names"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let settings = IngestSettings::decode(&serde_json::from_str(body).expect("JSON")).expect("decodes");
        assert_eq!(settings.to_json().to_string(), expected);
        assert_eq!(IngestSettings::decode(&settings.to_json()), Ok(settings));
    }

    fn refused(body: &str, expected: &str) {
        let errors = IngestSettings::decode(&serde_json::from_str(body).expect("JSON")).expect_err("should have been refused");
        assert_eq!(errors, [expected]);
    }

    #[test]
    fn defaults_are_written_out() {
        check(
            r#"{"type": "FileIngest", "path": "a.jsonl", "zzz": 1}"#,
            r#"{"type":"FileIngest","format":{"type":"CypherJson","query":"CREATE ($that)","parameter":"that"},"path":"a.jsonl","encoding":"UTF-8","parallelism":16,"maximumLineSize":134217728,"startAtOffset":0}"#,
        );
        check(
            r#"{"type": "NumberIteratorIngest", "ingestLimit": 5, "format": {"type": "CypherCsv", "query": "RETURN 1", "headers": ["a"]}}"#,
            r#"{"type":"NumberIteratorIngest","format":{"type":"CypherCsv","query":"RETURN 1","parameter":"that","headers":["a"],"delimiter":"Comma","quoteChar":"DoubleQuote","escapeChar":"Backslash"},"startAtOffset":0,"ingestLimit":5,"parallelism":16}"#,
        );
    }

    #[test]
    fn mistakes_read_as_recorded() {
        refused("{}", "DecodingFailure at : Missing type discriminator field 'type'!");
        refused("[]", "DecodingFailure at : Got value '[]' with wrong type, expecting object");
        refused(r#"{"type": "Nope"}"#, "DecodingFailure at : No decoder for discriminator 'Nope'!");
        refused(r#"{"type": "FileIngest"}"#, "DecodingFailure at .path: Missing required field");
        refused(r#"{"type": "NumberIteratorIngest", "ingestLimit": 1.5}"#, "DecodingFailure at .ingestLimit: Long");
        refused(
            r#"{"type": "FileIngest", "path": "x", "format": {"type": "CypherCsv", "query": "RETURN 1", "delimiter": ","}}"#,
            "DecodingFailure at .delimiter: Invalid value: , ; valid values are: Backslash, Comma, Semicolon, Colon, Tab, Pipe, DoubleQuote",
        );
        refused(
            r#"{"type": "NumberIteratorIngest", "format": {"type": "CypherLine"}}"#,
            "DecodingFailure at .query: Missing required field",
        );
        refused(
            r#"{"type": "KafkaIngest"}"#,
            "DecodingFailure at : the source 'KafkaIngest' is not in this version of weir; there are FileIngest, StandardInputIngest, NumberIteratorIngest",
        );
    }
}
