//! The destinations that need no folder of their own, as services with a protocol or a client of theirs do. A file holds only
//! what is peculiar to its destination; `rotation` belongs to `file`.

mod standard_out;
mod file;
mod rotation;
mod http_endpoint;
mod elasticsearch;
mod slack;
mod reactive_stream;
mod drop;

pub use drop::Drop;
pub use elasticsearch::WriteToElasticsearch;
pub use file::WriteToFile;
pub use http_endpoint::PostToEndpoint;
pub use reactive_stream::ReactiveStream;
pub use slack::PostToSlack;
pub use standard_out::PrintToStandardOut;

#[cfg(test)]
mod http_tests;
#[cfg(test)]
mod rotation_tests;
