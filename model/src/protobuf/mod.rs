//! Protobuf: bytes on the wire to values and back, by a schema that is only known at run time.
//!
//!     .proto files ─ declaration ─┐
//!                descriptor set ─┴─ read ─> Schema ─ message ─> MessageType ─┬─ decode: bytes ─> map
//!                                                                            └─ encode: map ─> bytes
//!
//! It is written here because the libraries there are build a tree of messages first, of which values are made in a second step,
//! and bring dependencies that make RocksDB compile again. Whoever calls finds the descriptors and knows which of them may be
//! read.

mod declaration;
mod decode;
mod descriptor;
mod descriptor_bytes;
mod encode;
mod literal;
mod schema;
mod tokens;
mod wire;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use thiserror::Error;

pub use declaration::Declared;
pub use decode::Wanted;
pub use schema::{MessageType, Schema};

/// Messages within messages; what goes deeper is refused.
const DEPTH_MAX: usize = 100;

/// What is wrong with descriptors, with bytes, or with a value that shall become bytes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct ProtobufError(String);

/// What is wrong, and in which field. The path grows on the way out, so that only a failure pays for it.
#[derive(Debug)]
struct Problem {
    path: String,
    what: Cow<'static, str>,
}

type Outcome<T> = Result<T, Box<Problem>>;

impl Problem {
    fn new(what: impl Into<Cow<'static, str>>) -> Box<Problem> {
        Box::new(Problem { path: String::new(), what: what.into() })
    }

    fn within(mut self: Box<Problem>, name: &str) -> Box<Problem> {
        self.path = match self.path.as_str() {
            "" => name.to_owned(),
            inner if inner.starts_with('[') => format!("{name}{inner}"),
            inner => format!("{name}.{inner}"),
        };
        self
    }

    fn told(&self) -> ProtobufError {
        let Problem { path, what } = self;
        ProtobufError(if path.is_empty() { what.to_string() } else { format!("field `{path}`: {what}") })
    }
}

impl From<&'static str> for Box<Problem> {
    fn from(what: &'static str) -> Box<Problem> {
        Problem::new(what)
    }
}
