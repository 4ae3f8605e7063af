//! Ingest streams.

use schemars::JsonSchema;

use super::super::schemas::{Assembled, INGEST_SETTINGS, Instant, Span};

/// How many, and how many a second.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    pub count: u64,
    pub one_minute: f64,
    pub five_minute: f64,
    pub fifteen_minute: f64,
    /// Since the start.
    pub overall: f64,
}

#[derive(JsonSchema)]
#[schemars(extend("x-words" = true))]
pub enum StreamStatus {
    Running,
    /// Stopped by a user; it keeps its position.
    Paused,
    /// There again after a restart, and not started.
    Restored,
    /// At the end of its source.
    Completed,
    /// Stopped by a user, for good.
    Terminated,
    /// Stopped by an error, which `message` has.
    Failed,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStats {
    pub ingested_count: u64,
    pub rates: Rates,
    pub byte_rates: Rates,
    pub start_time: Instant,
    pub total_runtime: Span,
    /// Records that its source has not read yet. Of Kafka, while the stream has partitions and it is known where these end.
    pub lag: Option<u64>,
    /// Records of which an anchor of the query (`id(n) = …`) named no node: it was null, or no id.
    pub without_anchor: Option<u64>,
}

/// A record that could not be taken in.
#[derive(JsonSchema)]
pub struct FailedRecord {
    /// Its place in the stream.
    pub number: u64,
    pub reason: String,
    /// Its beginning.
    pub sample: String,
}

#[derive(JsonSchema)]
pub struct FailedRecords {
    pub count: u64,
    /// Some of the first.
    pub first: Vec<FailedRecord>,
}

/// What became of records that were handed in.
#[derive(JsonSchema)]
pub struct PushedRecords {
    /// So many were in the request.
    pub records: u64,
    /// They have had their effect before, by a request with the same key.
    pub repeated: bool,
}

/// An ingest stream, without its name.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamState {
    pub status: StreamStatus,
    pub message: Option<String>,
    pub settings: Assembled<INGEST_SETTINGS>,
    pub stats: StreamStats,
    pub failed_records: Option<FailedRecords>,
}

/// An ingest stream.
#[derive(JsonSchema)]
pub struct Stream {
    pub name: String,
    #[serde(flatten)]
    pub state: StreamState,
}
