//! Avro: data to values and back, by a schema that is only known at run time.
//!
//!     schema ─ shape ─> Shapes ─┬─ read: bytes ─> value
//!                               └─ write: map ─> bytes
//!
//! Schemas are parsed by the library; data are read and written here, straight from and into values and within bounds.

mod read;
mod shape;
mod write;

pub use read::{AvroDecoder, decimal};
pub use write::AvroWriter;
