//! The graph and its dataflows, in the order of the data path:
//!
//!     record batch -> evaluate -> Mutations -> commit -> Tick -> log -> arrangement -> probe -> match
//!
//! Two handles lead in: `Engine` and `Graph`. The engine never sees Cypher text: it is given plans.

mod engine;
mod graph;
mod ingest;
pub mod evaluate;
pub mod view;
mod query;
mod together;
pub mod commit;
mod cause;
pub mod log;
pub mod store;
pub mod checkpoint;
mod loading;
pub mod history;
mod hash;
mod sizes;
mod sorter;
pub mod transfer;
pub mod symbols;
pub mod command;
pub mod worker;
mod shard;
pub mod arrangement;
mod index;
mod alarm;
mod expiry;
pub mod render;
mod latency;
pub mod memory;
pub mod scheduling;
mod standing;
pub mod why;
pub mod reference;
mod error;

#[cfg(test)]
mod random;

pub use cause::Cause;
pub use engine::{DEFAULT_GRAPH, Engine, GraphOptions, Options, QueryLimits};
pub use error::EngineError;
pub use evaluate::Prepared;
pub use graph::{Graph, RESULTS_WAITING_MAX};
pub use history::{Moment, Past, Retention};
pub use ingest::{Ingested, Ingester, Unanchored, wait_for_more};
pub use latency::{Histogram, Latency, Stage};
pub use loading::Loading;
pub use query::{Answered, QueryOptions, Ways};
pub use render::health::LeftOut;
pub use render::{HubBounds, ResultBatch, ResultRow, Row};
pub use standing::{Paused, Standing, StandingQuery, Start};
pub use together::{Write, Written};
