//! Counts upwards: a source that needs nothing outside, for tries and measurements.
//!
//! A frame is the decimal text of the number, so that a line format gives strings and JSON gives integers.

use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use crate::config::{self, that};
use crate::error::ConnectorError;
use crate::formats::{CypherLine, FileFormat};
use crate::frames::{Frames, Limits, Progress};
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;

/// Generates ascending integers, for tests and measurements.
///
/// Needs nothing outside weir.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NumberIteratorIngest {
    /// How a number is passed to the query, and the query: `CypherLine` gives it as a string, `CypherJson` as an integer.
    #[serde(default = "store_number")]
    pub format: FileFormat,
    /// The first number. 0 when not given.
    #[serde(default, deserialize_with = "config::integer", alias = "startAt")]
    pub start_at_offset: i64,
    /// How many numbers to generate; then the stream is complete. Without it the stream never ends.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub ingest_limit: Option<u64>,
    /// The most numbers to generate per second. No limit when not given.
    #[serde(
        default,
        deserialize_with = "config::optional_positive",
        alias = "throttlePerSecond",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
}

fn store_number() -> FileFormat {
    let query = "MATCH (x) WHERE id(x) = idFrom(toInteger($that)) SET x.i = toInteger($that)".to_owned();
    FileFormat::CypherLine(CypherLine { query, parameter: that() })
}

impl SourceConfig for NumberIteratorIngest {
    fn settings(&self) -> serde_json::Value {
        crate::settings("NumberIteratorIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        let bounds = Bounds { limit: self.ingest_limit, per_second: self.maximum_per_second, ..Bounds::default() };
        RecordOptions::file(&self.format, bounds)
    }

    fn check(&self, _context: &SourceContext) -> Result<(), ConnectorError> {
        self.format.check()
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        Some(serde_json::json!({"number": i64::from_le_bytes(position.try_into().ok()?)}))
    }

    fn open_source(&self, _context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let next = match from {
            None => self.start_at_offset,
            Some(position) => {
                let bytes = position.0.as_slice().try_into().map_err(|_| ConnectorError::Position {
                    place: "number iterator".to_owned(),
                    problem: "the stored position is not one of this kind of source".to_owned(),
                })?;
                i64::from_le_bytes(bytes)
            }
        };
        Ok(Box::new(Numbers { next, text: Vec::new() }))
    }
}

struct Numbers {
    next: i64,
    text: Vec<u8>,
}

impl Source for Numbers {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        while !batch.full(limits) {
            self.text.clear();
            write!(self.text, "{}", self.next).expect("writing into memory does not fail");
            batch.push(&self.text);
            self.next = self.next.wrapping_add(1);
        }
        batch.position.0.clear();
        batch.position.0.extend_from_slice(&self.next.to_le_bytes());
        Ok(Progress::More)
    }
}
