//! Kafka, in and out, and the only place that knows librdkafka.
//!
//!     broker ─ librdkafka ─> KafkaIngest ─> Frames          offsets are the position, one a partition
//!     results ─> WriteToKafka ─ librdkafka ─> broker        acknowledged records, or transactions that carry the frontier
//!
//! `properties` turns both definitions into a client of librdkafka, with the names the Java clients use.

mod away;
mod client;
mod commits;
mod ingest;
mod lag;
mod login;
mod lookout;
mod member;
mod offsets;
mod producer;
mod properties;
mod property_names;
mod reading;
mod records;
mod topics;
mod transactions;
mod write;

pub use ingest::KafkaIngest;
pub use write::WriteToKafka;

use crate::error::{ConnectorError, Fault};

/// A failure of the broker or of the way to it.
fn failed(place: &str, problem: impl Into<String>, retryable: bool) -> ConnectorError {
    ConnectorError::World { place: place.to_owned(), problem: problem.into(), fault: Fault::World, retryable, source: None }
}
