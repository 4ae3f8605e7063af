//! Logging: where lines go and which. `WEIR_LOG` says it per module, over the configuration, and `PUT …/log-level` says it
//! anew while weir runs.
//!
//! Logs go to standard error; standard output belongs to the results of standing queries.

use std::fmt::{Debug, Display};
use std::io::{self, IsTerminal, Write, stderr};
use std::sync::{Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{MakeVisitor, RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, DefaultVisitor, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, registry, reload};
use weir_connectors::status_lines;
use weir_model::lock::lock;
use weir_model::visible::visible;

use crate::config::LogSettings;

/// The longest text about levels.
const TEXT_BYTES_MAX: usize = 4096;

/// Modules that say nothing unless the levels name them.
const QUIET: &[&str] = &["aws_config"];

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// The variable for levels, over the configuration.
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
        false => lines.with_ansi(stderr().is_terminal()).with_target(false).fmt_fields(OneLine::default()).boxed(),
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

/// As `say`, but as an event where the log is objects alone.
pub fn tell(words: impl Display) {
    if is_objects_alone() { tracing::info!("{words}") } else { say(words) }
}

/// An event that also whoever started weir is to read: words where events of its level are left out.
pub fn inform(words: impl Display) {
    if is_objects_alone() || tracing::enabled!(tracing::Level::INFO) { tracing::info!("{words}") } else { say(words) }
}

/// As `tell`, of what is wrong. Why weir ends is said whatever the level.
pub fn tell_error(words: impl Display) {
    if is_objects_alone() && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{words}");
    } else {
        say(format_args!("weir: {words}"));
    }
}

/// The message and the fields of an event as text, on one line whatever is in them: names, queries and reasons are given by
/// others, who could write lines that look like events. (In an object of JSON they cannot.) Also what weir itself says on several
/// lines, such as where a query is wrong, is on one.
#[derive(Default)]
struct OneLine(DefaultFields);

impl<'w> FormatFields<'w> for OneLine {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> std::fmt::Result {
        let mut visitor = self.0.make_visitor(writer);
        fields.record(&mut Escaping(&mut visitor));
        visitor.finish()
    }
}

/// All other kinds of values come as these two.
struct Escaping<'v, 'w>(&'v mut DefaultVisitor<'w>);

impl Visit for Escaping<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.record_debug(field, &format_args!("{}", visible(&format!("{value:?}"))));
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

/// Sets the levels from now on.
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
    use std::sync::Arc;

    use super::*;

    /// What was logged, for whoever has a copy.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let kept = Kept::default();
        let out = kept.clone();
        let lines = fmt::layer().with_writer(move || out.clone()).with_ansi(false).fmt_fields(OneLine::default());
        tracing::subscriber::with_default(registry().with(lines), || {
            let given = "x\n2026-01-01T00:00:00Z  INFO audit: forged\r\u{1b}[2K\u{9b}\u{2028}\\";
            tracing::info!(shown = %given, quoted = given, count = 7, "the output {given}");
        });
        let text = String::from_utf8(lock(&kept.0).clone()).expect("text");
        let line = text.strip_suffix('\n').expect("a whole line");
        assert!(!line.contains(weir_model::visible::steers), "{line:?}");
        let forged = "x\\n2026-01-01T00:00:00Z  INFO audit: forged\\r\\u001b[2K\\u009b\\u2028\\";
        assert!(line.contains(&format!("the output {forged} shown={forged} quoted=\"x\\n2026")), "{line}");
        assert!(line.ends_with(" count=7"), "{line}");
    }

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
