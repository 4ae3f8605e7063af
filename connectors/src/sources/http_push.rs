//! Records that clients post to weir itself, `…/ingest/{name}/records`. How requests become records and when they are
//! answered is in `intake`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use crate::config;
use crate::error::ConnectorError;
use crate::formats::StreamFormat;
use crate::intake::{self, Intake};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Keys that may be remembered: with more of them, what is stored beside each batch would outweigh it.
const KEYS_MAX: u64 = 10_000;

/// Takes records that clients send to the `records` path of the stream.
///
/// A request with an `Idempotency-Key` has its effect once, however often it is sent.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpPushIngest {
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// How many of the newest `Idempotency-Key`s are remembered, at most 10000. A request whose key is remembered has no further
    /// effect. 1000 when not given.
    #[serde(default = "keys_remembered", deserialize_with = "config::count")]
    pub keys_remembered: u64,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each record before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
    #[serde(skip)]
    intake: Intake,
}

fn keys_remembered() -> u64 {
    1_000
}

impl SourceConfig for HttpPushIngest {
    fn settings(&self) -> serde_json::Value {
        crate::settings("HttpPushIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn intake(&self) -> Option<&Intake> {
        Some(&self.intake)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.keys_remembered > KEYS_MAX {
            return Err(ConnectorError::config("keysRemembered", format!("{KEYS_MAX} keys are the most")));
        }
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<serde_json::Value> {
        intake::shown_position(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let place = format!("the records that clients post to {}", context.stream);
        self.intake.open(&place, self.keys_remembered as usize, &context.runtime, from)
    }
}
