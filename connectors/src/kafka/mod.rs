//! Kafka, in and out, and the only place that knows librdkafka.
//!
//!     broker ─ librdkafka ─> KafkaIngest ─> Frames          offsets are the position, one a partition
//!     results ─> WriteToKafka ─ librdkafka ─> broker        acknowledged records, or transactions that carry the frontier
//!
//! `properties` turns both definitions into a client of librdkafka, with the names the Java clients use.
//!
//!     properties      from a definition to the settings of a client
//!     property_names  those that a definition may set under their own names
//!     login           how a client says who it is
//!     client          what a client tells: its log, and what is wrong
//!     topics          what brokers know of topics
//!
//! In:
//!
//!     ingest          the definition of a stream
//!     records         the source while it runs
//!     member          what the client tells it in callbacks
//!     reading         how far each partition has been read
//!     offsets         the position of a stream
//!     commits         when offsets are committed to the broker
//!     lag             how many records have not been read
//!     lookout         one client that reads for all streams on which nothing comes
//!     away            a stream on which nothing comes, and that gives up its own
//!
//! Out:
//!
//!     write           the definition of an output, and the plain way to write
//!     transactions    exactly once
//!     producer        what both ways write with

mod properties;
mod property_names;
mod login;
mod client;
mod topics;
mod ingest;
mod records;
mod member;
mod reading;
mod offsets;
mod commits;
mod lag;
mod lookout;
mod away;
mod write;
mod transactions;
mod producer;

pub use ingest::KafkaIngest;
pub use write::WriteToKafka;

use crate::error::{ConnectorError, Fault};

/// A failure of the broker or of the way to it.
fn failed(place: &str, problem: impl Into<String>, retryable: bool) -> ConnectorError {
    ConnectorError::World { place: place.to_owned(), problem: problem.into(), fault: Fault::World, retryable, source: None }
}
