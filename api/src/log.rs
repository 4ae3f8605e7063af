//! Logging: where lines go and which. `WEIR_LOG` (or `RUST_LOG`) says it per module, over the configuration.
//!
//! Logs go to standard error; standard output belongs to the results of standing queries.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::LogSettings;

/// Sets up logging for the process. An unusable level is an error of the configuration.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    let given = ["WEIR_LOG", "RUST_LOG"].iter().find_map(|name| std::env::var(name).ok().map(|text| (*name, text)));
    let (place, text) = given.unwrap_or(("log.level", settings.level.clone()));
    let filter = EnvFilter::try_new(&text).map_err(|error| {
        format!("{place} is '{text}': {error}; use error, warn, info, debug or trace, or module=level pairs with commas between")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = if settings.json {
        lines.json().try_init()
    } else {
        lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
    Ok(())
}
