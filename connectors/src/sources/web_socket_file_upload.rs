//! A file that a client uploads over a web socket of weir's own. The stream waits for it, and is complete at its end.
//!
//! Nothing is kept: what was uploaded and not committed when the process died is lost, and the stream fails.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use crate::config;
use crate::error::{ConnectorError, Fault};
use crate::formats::FileFormat;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::stream::Bounds;
use crate::upload::Upload;

/// Reads a file that a client uploads over a web socket, at the path that the stream has in v2.
///
/// One upload per stream.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebSocketFileUpload {
    /// How the file is divided into records, and the query that runs on each. `CypherJson` (JSON lines) with the query `CREATE
    /// ($that)` when not given.
    #[serde(default = "FileFormat::create_nodes")]
    pub format: FileFormat,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    #[serde(skip)]
    upload: Upload,
}

const PLACE: &str = "the upload";

impl SourceConfig for WebSocketFileUpload {
    fn settings(&self) -> serde_json::Value {
        crate::settings("WebSocketFileUpload", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        let bounds = Bounds { per_second: self.maximum_per_second, ..Bounds::default() };
        RecordOptions::file(&self.format, bounds)
    }

    fn upload(&self) -> Option<&Upload> {
        Some(&self.upload)
    }

    fn check(&self, _context: &SourceContext) -> Result<(), ConnectorError> {
        self.format.check()
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        self.format.shown_position(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let stream =
            self.upload.stream(&context.runtime).filter(|_| from.is_none_or(|position| position.0.iter().all(|byte| *byte == 0)));
        let stream = stream.ok_or_else(|| ConnectorError::World {
            place: PLACE.to_owned(),
            problem: "was cut off when weir ended; delete the stream, create it anew and upload the file again".to_owned(),
            fault: Fault::World,
            retryable: false,
            source: None,
        })?;
        let bytes_max = config::line_bytes_max() as usize;
        self.format.reader(PLACE, bytes_max, from, |_| Ok(Box::new(stream)))
    }
}
