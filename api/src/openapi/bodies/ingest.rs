//! Ingest streams.

use schemars::JsonSchema;

use super::super::schemas::{Assembled, INGEST_SETTINGS, Instant, Span};

/// A count, and how fast it has grown.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// The total.
    pub count: u64,
    /// The rate per second, averaged over the last minute.
    pub one_minute: f64,
    /// The rate per second, averaged over the last five minutes.
    pub five_minute: f64,
    /// The rate per second, averaged over the last fifteen minutes.
    pub fifteen_minute: f64,
    /// The rate per second since weir was started, or since the stream or query was created if that is later. Of a stream that
    /// has ended, up to its end.
    pub overall: f64,
}

/// The state of an ingest stream.
#[derive(JsonSchema)]
#[schemars(extend("x-words" = true))]
pub enum StreamStatus {
    /// It reads records, or waits for them.
    Running,
    /// It was paused by a user and keeps its position.
    Paused,
    /// It is back after a restart of weir and waits to be started.
    Restored,
    /// It has reached the end of its source.
    Completed,
    /// It was ended for good by a user.
    Terminated,
    /// It ended with an error, which `message` gives. It can be started again.
    Failed,
}

/// Figures of an ingest stream.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamStats {
    /// How many records have been processed, those that failed included.
    pub ingested_count: u64,
    /// Records: how many, and how many per second.
    pub rates: Rates,
    /// Bytes: how many, and how many per second.
    pub byte_rates: Rates,
    /// When the stream was created.
    pub start_time: Instant,
    /// How long the stream has run.
    pub total_runtime: Span,
    /// How many records of its source the stream has not read yet. Only for Kafka, while that is known.
    pub lag: Option<u64>,
    /// How many records found no node, because a node id in the query (`id(n) = …`) was null or not an id. Absent if there are
    /// none.
    pub without_anchor: Option<u64>,
}

/// A record that had no effect.
#[derive(JsonSchema)]
pub struct FailedRecord {
    /// The number of the record in the stream, counted from 0.
    pub number: u64,
    /// Why it failed.
    pub reason: String,
    /// The beginning of the record.
    pub sample: String,
}

/// Records that had no effect, because they could not be decoded or their query failed.
#[derive(JsonSchema)]
pub struct FailedRecords {
    /// How many records failed.
    pub count: u64,
    /// Some of the first of them.
    pub first: Vec<FailedRecord>,
}

/// What became of records that were sent in a request.
#[derive(JsonSchema)]
pub struct PushedRecords {
    /// How many records the request had.
    pub records: u64,
    /// Whether the records had their effect before, by an earlier request with the same `Idempotency-Key`.
    pub repeated: bool,
}

/// The state of an ingest stream.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamState {
    /// Whether it runs, and if not, why.
    pub status: StreamStatus,
    /// Why the stream failed, or what it waits for. Absent if there is nothing to say.
    pub message: Option<String>,
    /// The definition of the stream. Secrets are masked.
    pub settings: Assembled<INGEST_SETTINGS>,
    /// Figures of the stream.
    pub stats: StreamStats,
    /// The records that failed. Absent if there are none.
    pub failed_records: Option<FailedRecords>,
}

/// An ingest stream.
#[derive(JsonSchema)]
pub struct Stream {
    /// The name of the stream.
    pub name: String,
    #[serde(flatten)]
    pub state: StreamState,
}
