//! Plan -> dataflow: one reader of the plan, for standing queries.
//!
//!     batches of the trace ─> changes ─┬────────────────────────────────────────────┬─> results ─> stages
//!                                      └─> rows bound for other shards ─> walk there ─┘
//!
//!     maintained  a plan taken apart: patterns, found where the graph lies, and the stages above them
//!     program     the paths of a pattern's delta join as moves over slots and symbols
//!     orders      the ways in which the rest of a pattern can be visited, those worth choosing from
//!     queries     the standing queries of a graph, and which families a change can concern
//!     family      patterns that differ in constants alone, walked once
//!     constants   what their nodes are compared with: says whose match a row is
//!     intervals   which of many ranges hold a place
//!     probe       the timely operators, one dataflow for all queries; a row goes on where its next node lies
//!     walk        runs a path depth first against the one trace of the shard; nothing is arranged besides the graph
//!     dense       of nodes that walks meet, the edges that count
//!     hubs        of nodes of very many edges, the neighbours that do
//!     survey      where such matches may begin, for all queries that are installed together
//!     rest        the matches of the graph at rest, when a query is installed
//!     results     rows come together at one worker, in the order of ticks
//!     stages      the answer of everything above patterns, one tick after another
//!     aside       the threads that keep it, beside the workers
//!     health      how a query fares, as all see it: how far it is, what waits, what it leaves out, why it has ended

pub mod maintained;
pub mod program;
mod orders;
pub mod queries;
pub mod family;
mod constants;
mod intervals;
pub mod probe;
mod walk;
mod dense;
mod hubs;
mod survey;
pub mod rest;
pub mod results;
pub mod stages;
pub mod aside;
pub mod health;

use timely::progress::Timestamp;

pub use hubs::HubBounds;
pub use maintained::Maintained;
pub use program::{Program, RenderError};
pub use results::{ResultBatch, ResultRow, Row, RowChange};

/// The dataflow timestamp: the number in a `Tick`.
pub type Time = u64;

/// Names a standing query among those of a graph, the same on all workers: they are given in the order of installation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, serde::Serialize, serde::Deserialize)]
pub struct QueryNumber(pub u32);

/// Names a family among those of a graph, the same on all workers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct FamilyNumber(pub u32);

impl FamilyNumber {
    /// Of a family that is none of a graph's.
    pub const NONE: FamilyNumber = FamilyNumber(0);
}

/// Names a sieve among those of a graph, on one worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SieveNumber(pub u32);

/// Until when a trace may forget so that a reader at `frontier` still sees the moment before it.
pub fn before(frontier: &[Time]) -> Time {
    frontier.first().copied().unwrap_or(Time::minimum()).saturating_sub(1)
}
