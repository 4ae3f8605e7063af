//! The arrangement: the graph itself, `NodeId -> Fact`, multi-versioned by tick, one shard a worker.
//!
//!     segment     facts in columns, with everything they point at
//!     bundle      the properties of a node that came together, as one fact
//!     filter      which edges nodes of many facts surely do not have
//!     batch       an index of nodes over segments: the net change of a tick, or of many
//!     locate      where many nodes lie, found together
//!     prefetch    memory asked for before it is read
//!     build       mutations of ticks -> one batch
//!     merge       batches that follow one another -> one
//!     trace       the batches of a shard, and what is merged when
//!     facts       one node, read across the batches
//!     snapshot    all shards at one tick, readable from any thread
//!     reading     a snapshot as one query reads it
//!     estimate    what a batch holds, counted
//!
//! The store keeps it all in another form:
//!
//!     pages       runs of sorted nodes, made out of the log; and the batch a graph starts from, made out of runs
//!     versions    what of them holds at a tick
//!     chunk       some nodes of a run as bytes
//!     columns     how the facts of a chunk are written
//!     packing     numbers in few bits
//!     numbering   the nodes of a run as numbers

pub mod segment;
pub mod bundle;
mod filter;
pub mod batch;
pub mod locate;
mod prefetch;
pub mod build;
pub mod merge;
pub mod trace;
pub mod facts;
pub mod snapshot;
pub mod reading;
pub mod estimate;
pub mod pages;
pub mod versions;
pub mod chunk;
mod columns;
mod packing;
pub mod numbering;

pub use batch::Batch;
pub use facts::{Facts, Part, edge_ranges};
pub use reading::Reading;
pub use segment::{Fact, Segment};
pub use snapshot::{LastChanges, Published, Snapshot, walk};
pub use trace::{Layers, Leisure, SharedBatch};
