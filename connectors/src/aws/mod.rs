//! Amazon's services, and the only place that knows how they are spoken to.
//!
//!     access: who, where ─> client: signed requests, JSON or forms ─> kinesis, sqs, sns
//!                        ├> object: the bytes of an object ─> s3; bucket: objects put into one ─> write_to_s3
//!                        ├> leases: who reads which shard ─> kcl
//!                        └> events: answers that go on, for consumers of kcl
//!
//! Credentials and signatures are made by Amazon's own crates; the few operations that are needed go over weir's HTTP client
//! (docs/decisions/0018-aws-without-service-crates.md).

mod access;
mod batches;
mod bucket;
mod client;
mod consumer;
pub(crate) mod events;
mod iterator;
mod kcl;
mod keeper;
mod kinesis;
mod object;
mod reader;
mod s3;
mod shards;
mod signature;
mod sns;
mod sqs;
mod write_to_kinesis;
mod write_to_s3;
mod write_to_sqs;

pub use kcl::KinesisKclIngest;
pub use kinesis::KinesisIngest;
pub use s3::S3Ingest;
pub use sns::WriteToSns;
pub use sqs::SqsIngest;
pub use write_to_kinesis::WriteToKinesis;
pub use write_to_s3::WriteToS3;
pub use write_to_sqs::WriteToSqs;

#[cfg(test)]
mod object_tests;
#[cfg(test)]
pub(crate) mod server_tests;
#[cfg(test)]
mod stand_in;
