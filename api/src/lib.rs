//! The service: configuration, HTTP, streams, standing queries, recipes, the demonstration. Modules in the order in which
//! they come into play.
//!
//!     command line ─> configuration ─> App (engine, streams, standing queries) ─> server ─> routes
//!                  └> shell, ask ─> client ─ HTTP ─> another weir

pub mod cli;
pub mod config;
mod log;
mod app;
mod procedures;
mod queries;
mod ingest;
mod standing;
mod outputs;
mod why;
mod result_id;
mod walk;
mod metrics;
mod traces;
mod recipe;
mod temporary;
mod demo;
mod server;
mod leaving;
mod origin;
mod auth;
mod tls;
pub mod routes;
pub mod wire;
pub mod openapi;
mod events;
mod sockets;
mod live;
mod meter;
mod clock;
mod error;
mod start;
mod startup;
mod open_files;
pub mod client;
mod terminal;
mod ask;
mod shell;
mod tools;
mod transfer;

use std::sync::LazyLock;

use weir_connectors::{DESTINATIONS, SOURCES};

pub use start::{exit, run};

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
