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
pub mod traces;
pub mod recipe;
mod temporary;
pub mod demo;
pub mod server;
mod origin;
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
mod startup;
mod open_files;
pub mod client;
pub mod terminal;
pub mod ask;
pub mod shell;
mod tools;
mod transfer;

use std::sync::LazyLock;

use weir_connectors::{DESTINATIONS, SOURCES};

pub use start::run;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// With what was built in: the first line for programs, the others for people.
pub static VERSION_LONG: LazyLock<String> = LazyLock::new(|| {
    let sources: Vec<&str> = SOURCES.iter().map(|row| row.name).collect();
    let destinations: Vec<&str> = DESTINATIONS.iter().map(|row| row.name).collect();
    let commit = option_env!("WEIR_COMMIT").map(|commit| format!("\ncommit: {commit}")).unwrap_or_default();
    format!(
        "{VERSION} (stores: {})\nsources: {}\ndestinations: {}\nAPI: v1, v2 (preview, today); query and language-server web sockets; \
         Gremlin\nbuilt for: {} {}{commit}",
        config::stores_built_in().join(", "),
        sources.join(", "),
        destinations.join(", "),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
});
