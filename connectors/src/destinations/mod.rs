//! The destinations, one file each. A file holds only what is peculiar to its service.

mod drop;
mod elasticsearch;
mod file;
mod http_endpoint;
mod reactive_stream;
mod rotation;
mod slack;
mod standard_out;

pub use drop::Drop;
pub use elasticsearch::WriteToElasticsearch;
pub use file::WriteToFile;
pub use http_endpoint::PostToEndpoint;
pub use reactive_stream::ReactiveStream;
pub use slack::PostToSlack;
pub use standard_out::{LogLevel, LogMode, PrintToStandardOut};

#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod rotation_tests;
