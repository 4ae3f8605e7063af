//! What weir is measured by, in the order a figure is made:
//!
//!     data (the events and what must come out) -> a pass (procs, parse, ...) -> measure (one run) -> compare -> report
//!
//! A pass measures one thing in one process. It does not know of other passes, of repeats or of tables; `compare` starts
//! each pass as a process of its own, in turns, so that memory and processor time are its alone. The generator is used by
//! the tests too.

pub mod passes;
pub mod data;
pub mod decode;
pub mod decode_parquet;
pub mod weir;
pub mod procs;
pub mod parse;
pub mod stages;
pub mod floor;
pub mod http;
pub mod service;
pub mod churn;
pub mod rings;
pub mod watch;
pub mod backfill;
pub mod hub;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod latency;
pub mod restart;
pub mod large;
pub mod reads;
pub mod past;
pub mod measure;
pub mod compare;
pub mod report;
pub mod plot;
