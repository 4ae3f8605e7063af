//! The graph and its dataflows, in the order of the data path:
//!
//!     record batch -> evaluate -> Mutations -> commit -> Tick -> log -> arrangement -> probe -> match
//!
//! Two handles lead in: `Engine` and `Graph`. The engine never sees Cypher text: it is given plans.

pub mod engine;
pub mod handle;
pub mod ingest;
pub mod evaluate;
pub mod view;
pub mod overlay;
pub mod tracked;
pub mod live;
pub mod query;
pub mod together;
pub mod commit;
mod cause;
pub mod log;
pub mod store;
pub mod checkpoint;
pub mod loading;
pub mod history;
pub mod hash;
pub mod sizes;
pub mod sorter;
pub mod transfer;
pub mod symbols;
pub mod command;
pub mod worker;
pub mod graph;
pub mod arrangement;
pub mod index;
mod alarm;
pub mod expiry;
pub mod render;
pub mod latency;
pub mod memory;
pub mod scheduling;
pub mod standing;
mod inbox;
mod held;
pub mod pause;
pub mod why;
pub mod reference;
pub mod error;

#[cfg(test)]
mod random;

pub use cause::Cause;
pub use engine::{DEFAULT_GRAPH, Engine, GraphOptions, Options, QueryLimits};
pub use error::EngineError;
pub use evaluate::Prepared;
pub use handle::{Graph, RESULTS_WAITING_MAX};
pub use history::{Moment, Past, Retention};
pub use ingest::{Ingested, Ingester, gather};
pub use latency::{Histogram, Latency, Stage};
pub use loading::Loading;
pub use pause::Paused;
pub use query::{Answered, QueryOptions, Ways};
pub use render::aside::LeftOut;
pub use render::{HubBounds, ResultBatch, Row};
pub use standing::{Standing, StandingQuery, Start};
pub use together::{Write, Written};
