//! The arrangement: the graph itself, `NodeId -> Fact`, multi-versioned by tick, one shard a worker.
//!
//! `batch` is the columnar form of a set of updates, `build` makes one out of the mutations of a tick, `merge` makes one
//! out of two. `trace` hands them to differential's spine, which decides what is merged when. `facts` reads one node
//! across the batches of a spine, and `snapshot` is all shards at one tick, readable from any thread. `pages` is the form
//! in which the store keeps it all.

pub mod batch;
pub mod build;
pub mod facts;
pub mod merge;
pub mod pages;
pub mod snapshot;
pub mod trace;

pub use batch::{Batch, Fact};
pub use facts::Facts;
pub use snapshot::{Published, Snapshot};
pub use trace::{Layers, SharedBatch};
