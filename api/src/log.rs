//! Logging: where lines go and which. `WEIR_LOG` says it per module, over the configuration, and `PUT …/log-level` says it
//! anew while weir runs.
//!
//! Logs go to standard error; standard output belongs to the results of standing queries.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Mutex, OnceLock};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, registry, reload};
use weir_connectors::status_lines;
use weir_model::lock::lock;

use crate::config::LogSettings;

/// Of what is said about levels.
const TEXT_BYTES_MAX: usize = 4096;

/// Says nothing unless it is named.
const QUIET: &[&str] = &["aws_config"];

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// Over the configuration.
const VARIABLE: &str = "WEIR_LOG";

/// The target of the lines that say who changed what: information, which stays where less is asked for.
pub const AUDIT: &str = "audit";

/// What is in force, and the way to change it.
struct Control {
    handle: reload::Handle<EnvFilter, Registry>,
    level: Mutex<String>,
    /// Whether every line is an object, and whoever reads them would stumble over words.
    objects_alone: bool,
}

static CONTROL: OnceLock<Control> = OnceLock::new();

/// Sets up logging for the process. An unusable level is an error of the configuration.
pub fn start(settings: &LogSettings) -> Result<(), String> {
    // One that is empty is how an environment says that there is none.
    let given = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty()).map(|text| (VARIABLE, text));
    let (place, text) = given.unwrap_or(("log.level", settings.level.clone()));
    let filter = filter(&text).map_err(|reason| format!("{place} is '{text}': {reason}"))?;
    let (filter, handle) = reload::Layer::new(filter);
    // Where a line cannot be written, neither can a line about that.
    let lines = fmt::layer().with_writer(|| Lines).log_internal_errors(false);
    let lines = match settings.json {
        true => lines.json().boxed(),
        false => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed(),
    };
    // A second start in one process (tests) keeps the first.
    if registry().with(filter).with(lines).try_init().is_ok() {
        let objects_alone = settings.json && !stderr().is_terminal();
        let _ = CONTROL.set(Control { handle, level: Mutex::new(text), objects_alone });
    }
    Ok(())
}

/// Words for whoever started weir. Where standard error cannot be written, on a full disk for example, nobody reads them.
pub fn say(words: impl Display) {
    let line = format!("{words}\n");
    let _ = Lines.write_all(line.as_bytes());
}

/// Whether standard error is for programs: an object a line, and nothing else.
pub fn is_objects_alone() -> bool {
    CONTROL.get().is_some_and(|control| control.objects_alone)
}

/// The same words as an event, where the log is objects alone.
pub fn tell(words: impl Display) {
    if is_objects_alone() { tracing::info!("{words}") } else { say(words) }
}

/// The same, of what is wrong. Why weir ends is said whatever the level.
pub fn tell_error(words: impl Display) {
    if is_objects_alone() && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{words}");
    } else {
        say(format_args!("weir: {words}"));
    }
}

/// Standard error, for whole lines: they stand above those that a recipe has drawn.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    /// Those who log hand in a line as a whole.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        status_lines::above(&stderr(), || stderr().write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// What is logged, as it was said.
pub fn level() -> String {
    CONTROL.get().map_or_else(String::new, |control| lock(&control.level).clone())
}

/// Whether a level can be used.
pub fn check_level(text: &str) -> Result<(), String> {
    filter(text).map(drop)
}

/// From now on.
pub fn set_level(text: &str) -> Result<(), String> {
    let filter = filter(text)?;
    let control = CONTROL.get().ok_or("nothing is logged by this process")?;
    let mut level = lock(&control.level);
    control.handle.reload(filter).map_err(|error| error.to_string())?;
    text.clone_into(&mut level);
    Ok(())
}

fn filter(text: &str) -> Result<EnvFilter, String> {
    let usage = "use off, error, warn, info, debug or trace, or module=level pairs with commas between";
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes; {usage}"));
    }
    // A bare word would be taken for a module, and everything else be silent: so says who mistypes a level.
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    for part in &parts {
        let level = part.rsplit('=').next().unwrap_or_default();
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            return Err(format!("'{level}' is no level; {usage}"));
        }
    }
    let named = |module: &str| parts.iter().any(|part| part.starts_with(module));
    // It tells all it knows of each login, and what matters of that comes as an error of the stream or output.
    let quiet = QUIET.iter().filter(|module| !named(module)).map(|module| format!("{module}=off"));
    let audit = loses_audit(&parts).then(|| format!("{AUDIT}=info"));
    let directives = quiet.chain(audit).chain(parts.iter().map(|part| (*part).to_owned())).collect::<Vec<_>>().join(",");
    EnvFilter::try_new(directives).map_err(|error| format!("{error}; {usage}"))
}

/// Whether who changed what would be left out though nobody asked for that: only `audit=off` does, and `off`, which is silence.
fn loses_audit(parts: &[&str]) -> bool {
    let is_named = parts.iter().any(|part| part.split(['=', '[']).next().is_some_and(|module| module.trim_end() == AUDIT));
    let of_all = parts.iter().rev().find(|part| !part.contains(['=', '[']));
    let is_one_of = |level: &str, levels: &[&str]| levels.iter().any(|known| known.eq_ignore_ascii_case(level));
    !is_named && of_all.is_none_or(|level| is_one_of(level, &["error", "warn"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_changed_what_is_left_out_only_where_that_is_said() {
        for asked in ["warn", "ERROR", "weir_engine=debug", "info,warn", "warn,auditor=off"] {
            let filter = filter(asked).expect("a filter").to_string();
            assert!(filter.contains("audit=info"), "{asked}: {filter}");
        }
        for asked in ["info", "debug", "off", "warn,audit=off", "audit=debug,error"] {
            let filter = filter(asked).expect("a filter").to_string();
            assert!(!filter.contains("audit=info"), "{asked}: {filter}");
        }
    }

    #[test]
    fn levels_and_pairs() {
        for fine in ["info", "INFO", "warn,weir_engine=debug", "off, weir_api::routes=trace"] {
            assert!(filter(fine).is_ok(), "{fine}");
        }
        for (wrong, expected) in
            [("inof", "'inof' is no level"), ("", "'' is no level"), ("info,weir_engine", "'weir_engine'"), ("a=b", "'b'")]
        {
            assert!(filter(wrong).is_err_and(|reason| reason.contains(expected)), "{wrong}");
        }
        assert!(filter(&format!("info{}", ",a=info".repeat(1000))).is_err());
    }
}
