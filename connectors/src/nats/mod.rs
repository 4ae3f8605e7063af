//! NATS with JetStream: streams in and out. The protocol is a dozen words of text, JetStream is JSON on top of it; both are
//! spoken here (docs/decisions/0025).
//!
//!     NatsIngest ─ consumer behind the position, pulled ─> messages ─> Feed
//!     results ─ published with their ids, all of a batch before the first answer ─> WriteToNats

mod access;
pub(crate) mod connection;
mod credentials;
mod ingest;
pub(crate) mod jetstream;
mod unacknowledged;
mod write;

pub use ingest::NatsIngest;
pub use write::WriteToNats;
