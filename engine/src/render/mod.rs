//! Plan -> dataflow: one reader of the plan, for standing queries.
//!
//!     batches of the trace ─> changes ─┬────────────────────────────────────────────┬─> results ─> stages
//!                                      └─> rows bound for other shards ─> walk there ─┘
//!
//! `maintained` takes a plan apart: patterns, which are found where the graph lies, and the stages above them, which run
//! where results come together. `program` turns the paths of a pattern's delta join into moves over slots and symbols, in all `orders` worth choosing from. `walk`
//! runs them depth first against the one trace of the shard; nothing is arranged besides the graph. Patterns that differ in `constants` alone
//! are a `family`, which is walked once; `queries` knows which families a change can concern. Of the nodes that walks meet `dense` keeps the edges that count, and `hubs` of those with very many the neighbours that do. `probe` holds the timely operators, one
//! dataflow for all queries: where a row must go on at a node of another shard it is sent there. `rest` finds the matches of a graph at rest.
//! `results` brings rows into the order of ticks; `stages` keeps the answer of everything above patterns, one tick after another, `aside` of the workers.

pub mod aside;
mod constants;
mod dense;
pub mod family;
mod hubs;
mod intervals;
pub mod maintained;
mod orders;
pub mod probe;
pub mod program;
pub mod queries;
pub mod rest;
pub mod results;
pub mod stages;
mod walk;

use timely::progress::Timestamp;

pub use hubs::HubBounds;
pub use maintained::Maintained;
pub use program::{Program, RenderError};
pub use results::{ResultBatch, Row, RowChange};

/// The dataflow timestamp: the number in a `Tick`.
pub type Time = u64;

/// Until when a trace may forget so that a reader at `frontier` still sees the moment before it.
pub fn before(frontier: &[Time]) -> Time {
    frontier.first().copied().unwrap_or(Time::minimum()).saturating_sub(1)
}
