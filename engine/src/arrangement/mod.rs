//! The arrangement: the graph itself, `NodeId -> Fact`, multi-versioned by tick, one shard a worker.
//!
//! `segment` holds facts in columns, with a `filter` of the edges of large nodes and the properties of a node as a `bundle`, and `batch` is an index of nodes over some; `build` makes one out of the mutations of a
//! tick, `merge` one out of several. `trace` decides what is merged when. `locate` finds many nodes at a time, `facts` reads one
//! across the batches, and `snapshot` is all shards at one tick, readable from any thread, as `reading` by one query. `pages` are the form in which the store keeps it all,
//! in pieces called `chunk`, and `versions` says what of them holds when.

pub mod batch;
pub mod build;
pub mod bundle;
pub mod chunk;
mod columns;
pub mod estimate;
pub mod facts;
mod filter;
pub mod locate;
pub mod merge;
pub mod numbering;
mod packing;
pub mod pages;
mod prefetch;
pub mod reading;
pub mod segment;
pub mod snapshot;
pub mod trace;
pub mod versions;

pub use batch::Batch;
pub use facts::{Facts, Part, edge_ranges};
pub use reading::Reading;
pub use segment::{Fact, Segment};
pub use snapshot::{Published, Snapshot, walk};
pub use trace::{Layers, Leisure, SharedBatch};
