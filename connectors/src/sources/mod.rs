//! The sources, one file each. A file holds only what is peculiar to its service.

mod file;
mod number_iterator;
mod standard_input;

pub(crate) use file::FileStream;
pub use file::{FileIngest, FileIngestMode};
pub use number_iterator::NumberIteratorIngest;
pub use standard_input::StandardInputIngest;
