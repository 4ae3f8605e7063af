//! JSON, both ways: `parse` makes values out of records and parameters, `write` shows values to clients.
//!
//! Both go straight between bytes and `Value`, without a tree in between: they stand on the path of every record in and
//! every result out. Neither knows where the bytes come from or go.

mod exact;
mod parse;
mod write;

pub use exact::{read_exact, read_exact_map, write_exact, write_exact_map};
pub use parse::{JsonError, WantedKeys, parse, parse_wanted};
pub use write::{write, write_string};
