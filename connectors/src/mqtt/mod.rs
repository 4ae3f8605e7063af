//! MQTT 3.1.1: topics in and out. A packet is a byte for its kind, a length, and some fields; all are spoken here.
//!
//!     MqttIngest ─ session that the broker keeps ─> messages ─> Feed ─> graph ─ durable ─> PUBACK
//!     results ─ PUBLISH, some before the first answer ─> WriteToMqtt

mod access;
pub(crate) mod connection;
mod ingest;
pub(crate) mod packet;
mod unacknowledged;
mod write;

pub use ingest::MqttIngest;
pub use write::WriteToMqtt;
