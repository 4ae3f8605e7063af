//! The service: configuration, HTTP, streams, standing queries, recipes, the demonstration. Modules in the order in which
//! they come into play.
//!
//!     command line ─> configuration ─> App (engine, streams, standing queries) ─> server ─> routes
//!                  └> shell, ask ─> client ─ HTTP ─> another weir

pub mod cli;
pub mod config;
pub mod log;
pub mod app;
pub mod procedures;
pub mod queries;
pub mod ingest;
pub mod standing;
pub mod outputs;
mod why;
mod result_id;
mod walk;
pub mod metrics;
pub mod recipe;
mod temporary;
pub mod demo;
pub mod server;
pub mod tls;
pub mod routes;
pub mod wire;
pub mod openapi;
pub mod events;
mod sockets;
pub mod live;
pub mod meter;
pub mod clock;
pub mod error;
mod start;
pub mod client;
pub mod terminal;
pub mod ask;
pub mod shell;
mod tools;
mod transfer;

pub use start::run;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// With what was built in.
pub const VERSION_LONG: &str = match (cfg!(feature = "rocks-db"), cfg!(feature = "map-db")) {
    (true, true) => concat!(env!("CARGO_PKG_VERSION"), " (stores: rocks-db, map-db, in-memory, empty)"),
    (true, false) => concat!(env!("CARGO_PKG_VERSION"), " (stores: rocks-db, in-memory, empty)"),
    (false, true) => concat!(env!("CARGO_PKG_VERSION"), " (stores: map-db, in-memory, empty)"),
    (false, false) => concat!(env!("CARGO_PKG_VERSION"), " (stores: in-memory, empty)"),
};
