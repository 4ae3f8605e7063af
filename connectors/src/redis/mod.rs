//! Redis: streams in and out. The protocol is simple enough to be spoken here.
//!
//!     RedisIngest ─ XREAD from the position ─> entries ─> Frames
//!     RedisIngest with a group ─ XREADGROUP ─> entries ─> Feed ─> graph ─ durable ─> XACK
//!     results ─ XADD, all of a batch before the first answer ─> WriteToRedis

mod access;
pub(crate) mod connection;
pub(crate) mod entry;
mod group;
mod ingest;
mod write;

pub use ingest::RedisIngest;
pub use write::WriteToRedis;
