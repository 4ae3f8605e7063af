//! The definition of a stream from an object of S3.
//!
//!     GetObject, from where the stream stands ─> ObjectStream ─> FileFormat::reader ─> Frames
//!
//! Its position holds the version of the object (its ETag) before the place in it: what has been changed meanwhile is an error,
//! and not a stream of two halves.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map as JsonMap, Value as Json};
use weir_model::Position;

use super::access::{Access, AwsCredentials, AwsRegion};
use super::object::{self, ObjectStream, Wanted};
use crate::charset::Charset;
use crate::config::{self, that};
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::formats::{CypherLine, FileFormat};
use crate::frames::{Frames, Limits, Progress};
use crate::framing::Skipped;
use crate::parquet::Spool;
use crate::recoded_stream::recoded_stream;
use crate::recoding::RecordDecoder;
use crate::secret;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;

/// Reads one S3 object to its end.
///
/// Each record has its effect once; an object that is replaced meanwhile fails the stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3Ingest {
    /// How the object is divided into records, and the query that runs on each. When not given, each line becomes a node with the
    /// text in `content`.
    #[serde(default = "store_line")]
    pub format: FileFormat,
    /// The name of the bucket.
    pub bucket: String,
    /// The key of the object in the bucket.
    pub key: String,
    /// The character set, by a name that browsers know, such as `UTF-8`, `ISO-8859-1` or `UTF-16`.
    #[serde(default = "config::utf_8")]
    pub encoding: String,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the bucket. When not given it is found as the AWS tools find it, or asked of S3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of another server that speaks the same protocol, to be used instead of Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub endpoint: Option<String>,
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
    /// Decodings and decompressions to apply to the whole object before it is read, in this order. Lz4 and Snappy data must be in
    /// frames. None when not given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_decoders: Vec<RecordDecoder>,
}

fn store_line() -> FileFormat {
    let query = "MATCH (x) WHERE id(x) = idFrom($that) SET x.content = $that".to_owned();
    FileFormat::CypherLine(CypherLine { query, parameter: that() })
}

impl S3Ingest {
    fn access(&self, context: &SourceContext) -> Access {
        Access::of(&self.credentials, &self.region, &self.endpoint, &context.hosts)
    }
}

impl SourceConfig for S3Ingest {
    fn settings(&self) -> Json {
        crate::settings("S3Ingest", self)
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
        object::check_name(&self.bucket, &self.key)?;
        self.format.check_of_file(Charset::named(&self.encoding)?, &self.record_decoders)?;
        self.access(context).check()
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        let (version, within) = parts(position)?;
        let mut shown = JsonMap::new();
        shown.insert("object".to_owned(), format!("s3://{}/{}", self.bucket, self.key).into());
        shown.insert("version".to_owned(), version.into());
        if !within.is_empty() {
            let Json::Object(within) = self.format.shown_position(within)? else { return None };
            shown.extend(within);
        }
        Some(Json::Object(shown))
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let charset = Charset::named(&self.encoding)?;
        let place = format!("s3://{}/{}", self.bucket, self.key);
        let from = from.filter(|position| !position.0.is_empty()).map(|position| apart(&place, position)).transpose()?;
        let version: Arc<OnceLock<String>> = Arc::default();
        if let Some((known, _)) = &from {
            // It is empty: nobody else has it yet.
            let _ = version.set(known.clone());
        }
        let trouble = Trouble::new(&place);
        let as_it_is = charset == Charset::Utf8 && self.record_decoders.is_empty();
        let position = from.as_ref().map(|(_, position)| position);
        let bytes = |at| {
            let wanted = Wanted {
                access: self.access(context),
                bucket: self.bucket.clone(),
                key: self.key.clone(),
                at,
                place: place.clone(),
                version: version.clone(),
                trouble: trouble.clone(),
            };
            Box::new(ObjectStream::start(&context.runtime, wanted))
        };
        let inner = if matches!(self.format, FileFormat::CypherParquet(_)) {
            Box::new(Spool::start(&place, bytes(0), context.wanted.clone(), position)?)
        } else {
            self.format.reader(&place, self.line_bytes_max as usize, position, |offset| {
                let stream = bytes(if as_it_is { offset } else { 0 });
                let stream = charset.decoded(recoded_stream(&place, &self.record_decoders, stream)?);
                Ok(if as_it_is { stream } else { Box::new(Skipped::new(stream, offset)) })
            })?
        };
        Ok(Box::new(Object { inner, version, trouble }))
    }
}

/// What cuts the object into records, with the version of the object in its position.
struct Object {
    inner: Box<dyn Source>,
    /// None until S3 has answered for the first time.
    version: Arc<OnceLock<String>>,
    trouble: Trouble,
}

impl Source for Object {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let progress = self.inner.next(limits, batch)?;
        match self.version.get() {
            Some(version) => batch.position = together(version, &batch.position),
            None => batch.position.0.clear(),
        }
        Ok(progress)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get()
    }
}

fn together(version: &str, position: &Position) -> Position {
    let mut whole = Vec::with_capacity(2 + version.len() + position.0.len());
    whole.extend_from_slice(&(version.len() as u16).to_le_bytes());
    whole.extend_from_slice(version.as_bytes());
    whole.extend_from_slice(&position.0);
    Position(whole)
}

fn apart(place: &str, position: &Position) -> Result<(String, Position), ConnectorError> {
    let (version, within) = parts(&position.0).ok_or_else(|| ConnectorError::Position {
        place: place.to_owned(),
        problem: "the stored position is not one of S3; delete the stream and create it anew".to_owned(),
    })?;
    Ok((version.to_owned(), Position(within.to_vec())))
}

fn parts(position: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = position.split_first_chunk::<2>()?;
    let (version, within) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(version).ok()?, within))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_and_damage_is_found() {
        let whole = together("\"abc\"", &Position(vec![1, 2, 3]));
        assert_eq!(apart("x", &whole).unwrap(), ("\"abc\"".to_owned(), Position(vec![1, 2, 3])));
        for end in 0..7 {
            assert!(apart("x", &Position(whole.0[..end].to_vec())).is_err());
        }
    }

    #[test]
    fn lines_are_stored_as_in_v1_when_nothing_is_said() {
        let config =
            crate::parse_source_v1(&serde_json::json!({"type": "S3Ingest", "bucket": "lake", "key": "a/b.txt"})).unwrap();
        assert_eq!(
            config.settings().to_string(),
            r#"{"type":"S3Ingest","format":{"type":"CypherLine","query":"MATCH (x) WHERE id(x) = idFrom($that) SET x.content = $that","parameter":"that"},"bucket":"lake","key":"a/b.txt","encoding":"UTF-8","parallelism":16,"maximumLineSize":134217728,"startAtOffset":0}"#
        );
    }
}
