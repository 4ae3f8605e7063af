//! AMQP 0.9.1, as RabbitMQ speaks it: queues in, exchanges out. Frames, and methods in them; some twenty are needed.
//!
//!     AmqpIngest ─ consumer, some unacknowledged ─> messages ─> Feed ─> graph ─ durable ─> basic.ack
//!     results ─ basic.publish, confirmed ─> WriteToAmqp

mod access;
pub(crate) mod connection;
mod frame;
mod ingest;
mod unacknowledged;
mod write;

pub use ingest::AmqpIngest;
pub use write::WriteToAmqp;
