//! Configuration: from files and overrides to typed settings, with where each value came from.
//!
//!     -Dkey=value  over  WEIR_… of the environment  over  file (HOCON)  over  defaults of the table in `keys`
//!
//! Owns the three roots and the check against the table; `meaning` knows what the values are for. Does not open or start
//! anything.

pub mod hocon;
pub mod keys;
mod meaning;
mod properties;
mod settings;
pub mod show;
mod values;
mod variables;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json};
use thiserror::Error;
use weir_connectors::config::MASKED;

use self::hocon::{Kind as Written, Object, Value};
use self::keys::{Effect, KEYS, Key};
use self::values::{convert, describe, masked, put};
use crate::metrics::ReporterSettings;

pub use self::meaning::stores_built_in;
pub use self::settings::{FileIngest, LogSettings, MemorySettings, Settings, StoreSettings, Told, Webserver};
pub use self::values::{duration, memory, size, unit_seconds};
pub use self::variables::unknown_variables;

/// Below each of these the same keys are understood; the later root wins.
const ROOTS: [&str; 3] = ["quine", "service", ROOT];
const ROOT: &str = "weir";

/// How the origins of values begin that stand in no file.
const OF_ENVIRONMENT: &str = "environment variable ";
const OF_COMMAND_LINE: &str = "option -D";

/// Where a value was set, the weakest first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Layer {
    File,
    Environment,
    CommandLine,
}

impl Layer {
    const ALL: [Layer; 3] = [Layer::File, Layer::Environment, Layer::CommandLine];

    fn of(value: &Value) -> Layer {
        match &*value.origin.source {
            source if source.starts_with(OF_COMMAND_LINE) => Layer::CommandLine,
            source if source.starts_with(OF_ENVIRONMENT) => Layer::Environment,
            _ => Layer::File,
        }
    }
}

/// What takes part in the decision where things lie when no key says so.
const DATA_VARIABLES: [&str; 2] = ["WEIR_DATA", "QUINE_DATA"];
const DATA_PATH: &str = "graph.weir-data";
const STORE: &str = "store.";
const STORE_PATH: &str = "store.filepath";
const OTHER_STORE_PATH: &str = "store.path";
const MEMORY_DIRECTORY: &str = "memory.directory";

/// Everything that is wrong with a configuration, each with its place.
#[derive(Debug, Error, PartialEq)]
#[error("{}", .0.join("\n"))]
pub struct ConfigError(pub Vec<String>);

/// What the command line says about configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// `-Dkey=value`, in order; the last one wins.
    pub overrides: Vec<(String, String)>,
    /// Whether what is run brings a store along, in the place of the configured one.
    pub has_own_store: bool,
}

/// As `load`, from variables as the system has them. Beside the settings, which of them have been asked for.
pub fn load_here(
    sources: &Sources,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(Settings, BTreeSet<String>), ConfigError> {
    // A file may take any of them.
    let (read, no_text) = (RefCell::new(BTreeSet::new()), RefCell::new(BTreeSet::new()));
    let loaded = load(sources, &|name: &str| {
        read.borrow_mut().insert(name.to_owned());
        let text = variable(name)?.into_string();
        if text.is_err() {
            no_text.borrow_mut().insert(name.to_owned());
        }
        text.ok()
    });
    let no_text = no_text.into_inner().into_iter();
    let mut problems: Vec<String> =
        no_text.map(|name| format!("{OF_ENVIRONMENT}{name}: its value is not UTF-8, and so no text")).collect();
    match loaded {
        Ok(settings) if problems.is_empty() => Ok((settings, read.into_inner())),
        Ok(_) => Err(ConfigError(problems)),
        Err(error) => {
            problems.extend(error.0);
            Err(ConfigError(problems))
        }
    }
}

/// Reads everything and checks it.
pub fn load(sources: &Sources, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings, ConfigError> {
    let one = |error: hocon::HoconError| ConfigError(vec![error.to_string()]);
    let mut given = Vec::new();
    if let Some(path) = &sources.file {
        given.push(hocon::parse_file(path).map_err(one)?);
    }
    let in_files = given.len();
    let properties = properties::read(&sources.overrides);
    for key in KEYS {
        let name = keys::variable(key.path);
        let Some(text) = environment(&name) else { continue };
        let value = hocon::parse_override(&text, &format!("{OF_ENVIRONMENT}{name}")).map_err(one)?;
        given.push(alone(&format!("{ROOT}.{}", key.path), value));
    }
    if let Some(level) = &properties.level {
        given.push(alone(&format!("{ROOT}.log.level"), properties::value(level).map_err(one)?));
    }
    for (key, text) in &sources.overrides {
        given.push(alone(key, hocon::parse_override(text, &format!("{OF_COMMAND_LINE}{key}")).map_err(one)?));
    }
    let mut written = Object::default();
    given.iter().for_each(|source| written.merge(source.clone()));
    let root = hocon::resolve(&written, environment).map_err(one)?;
    let mut reading = Reading::new(&root, environment, sources.has_own_store);
    for (index, source) in given.iter().enumerate() {
        let source = hocon::resolve_part(source, &written, environment);
        reading.problems.extend(wrong_roots(&source, index < in_files));
        reading.problems.extend(Reading::new(&source, environment, sources.has_own_store).mistakes());
    }
    reading.problems.extend(properties.problems);
    let mut settings = reading.settings()?;
    settings.without_effect.extend(properties.without_effect);
    let others = properties.others.iter().filter(|key| !written.refers_to(&key.split('.').collect::<Vec<_>>()));
    settings.without_effect.extend(others.map(|key| format!("-D{key} (it is below none of '{}')", ROOTS.join("', '"))));
    Ok(settings)
}

/// What sets one key.
fn alone(key: &str, value: Value) -> Object {
    let mut object = Object::default();
    object.set(&key.split('.').map(str::to_owned).collect::<Vec<_>>(), value);
    object
}

/// Of one source: roots that are meant for one of ours; and a file that has none of ours says nothing, whatever else is given.
fn wrong_roots(source: &Object, is_file: bool) -> Vec<String> {
    let others = || source.0.iter().filter(|(name, _)| !ROOTS.contains(&name.as_str()));
    let meant = others().filter_map(|(name, value)| {
        let meant = ROOTS.iter().find(|known| similar(name, known))?;
        Some(format!("{}: '{name}' is no root; did you mean '{meant}'?", value.origin))
    });
    let mut problems: Vec<String> = meant.collect();
    let first =
        others().next().filter(|_| is_file && problems.is_empty() && ROOTS.iter().all(|known| source.get(known).is_none()));
    problems.extend(first.map(|(name, value)| {
        let roots = ROOTS.join("', '");
        format!("{}: '{name}' is no root, and none is there; keys stand below '{roots}'", value.origin)
    }));
    problems
}

/// The values below all roots, laid over one another, while they are turned into settings.
struct Reading<'a> {
    /// By path without the root.
    values: BTreeMap<String, (String, Value)>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    has_own_store: bool,
    /// Keys of the store that are not known, where it may be that it is not used.
    store_problems: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(root: &Object, environment: &'a dyn Fn(&str) -> Option<String>, has_own_store: bool) -> Reading<'a> {
        let mut reading =
            Reading { values: BTreeMap::new(), environment, problems: Vec::new(), has_own_store, store_problems: Vec::new() };
        // An override is laid over the file whatever their roots: so everything from files first, then all overrides.
        for layer in Layer::ALL {
            for name in ROOTS {
                match root.get(name) {
                    Some(Value { kind: Written::Object(object), .. }) => reading.flatten(name, "", object, layer),
                    Some(other) if layer == Layer::File => {
                        reading.problems.push(format!(
                            "{}: '{name}' is a root and holds an object, not {}",
                            other.origin,
                            describe(other)
                        ));
                    }
                    _ => {}
                }
            }
        }
        reading
    }

    fn flatten(&mut self, root: &str, prefix: &str, object: &Object, layer: Layer) {
        for (name, value) in &object.0 {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let known = keys::find(&path);
            match &value.kind {
                Written::Object(inner) if known.is_none() => self.flatten(root, &path, inner, layer),
                _ if Layer::of(value) != layer => {}
                // It takes a key back to its default, which for optional keys is absence.
                Written::Null if known.is_some() => {
                    self.values.remove(&path);
                }
                _ if known.is_some() => {
                    self.values.insert(path.clone(), (format!("{root}.{path}"), value.clone()));
                }
                _ if keys::is_below_free(&path) => {}
                _ if keys::is_above(&path) => self.problems.push(format!(
                    "{}: '{root}.{path}' has keys below it and holds an object, not {}",
                    value.origin,
                    describe(value)
                )),
                _ => {
                    let hint = match keys::nearest(&path) {
                        Some(nearest) => format!("the nearest one is '{root}.{nearest}'"),
                        None => "`weir config` lists them".to_owned(),
                    };
                    let of_store = self.has_own_store && path.starts_with(STORE);
                    let problems = if of_store { &mut self.store_problems } else { &mut self.problems };
                    problems.push(format!("{}: '{root}.{path}' is not a key of the configuration; {hint}", value.origin));
                }
            }
        }
    }

    /// What is wrong with the values of one source, whether they are in force or not: an option that happens to be laid over it
    /// must not decide whether a file is accepted. The sign for a secret is none of that, for an option may well bring the
    /// secret.
    fn mistakes(mut self) -> Vec<String> {
        let wrong = KEYS.iter().filter_map(|key| self.converted(key)?.err());
        let wrong: Vec<String> = wrong.collect();
        self.problems.extend(wrong);
        self.problems
    }

    /// Checks what nobody asked for, and writes down what is in force.
    fn finish(mut self, mut settings: Settings) -> Result<Settings, ConfigError> {
        let mut effective = JsonMap::new();
        for key in KEYS {
            let given = self.values.contains_key(key.path);
            let value = self.checked(key.path);
            match key.effect {
                // The store `map-db` has a log in any case, and those who come from elsewhere may say that theirs had none.
                Effect::Refused(_) if key.path == "store.write-ahead-log" && settings.store.label() == "mapdb" => {
                    settings.without_effect.extend(given.then(|| key.path.to_owned()));
                }
                Effect::Refused(reason) if given && value != self.default(key.path) => {
                    self.problems.push(format!("{}: {reason}", self.place(key.path)));
                }
                Effect::Ignored if given => settings.without_effect.push(key.path.to_owned()),
                _ => {}
            }
            if let Some(value) = value {
                let value = masked(key.path, value);
                let origin = self.values.get(key.path);
                let origin = origin.map_or_else(|| "default".to_owned(), |(_, value)| value.origin.to_string());
                let note = match key.effect {
                    Effect::Used if key.path == "metrics-reporters" && settings.reporters.contains(&ReporterSettings::Jmx) => {
                        "jmx is without effect here"
                    }
                    Effect::Used => "",
                    _ => "without effect here",
                };
                put(&mut effective, key.path, value.clone());
                settings.told.push(Told { path: key.path, value, origin, note });
            }
        }
        if let Some(path) = settings.store.path() {
            let value = Json::String(path.display().to_string());
            put(&mut effective, STORE_PATH, value.clone());
            if !settings.told.iter().any(|told| told.path == STORE_PATH) {
                let variable = DATA_VARIABLES.iter().find(|name| (self.environment)(name).is_some());
                let origin = variable.map_or("default".to_owned(), |name| format!("{OF_ENVIRONMENT}{name}"));
                settings.told.push(Told { path: STORE_PATH, value, origin, note: "" });
            }
        }
        settings.tell_in_order();
        settings.effective = Json::Object(effective);
        let mut problems: Vec<String> = Vec::new();
        for problem in self.problems {
            // Of a source, and of the whole.
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        if problems.is_empty() { Ok(settings) } else { Err(ConfigError(problems)) }
    }

    fn place(&self, path: &str) -> String {
        match self.values.get(path) {
            Some((name, value)) => format!("{}: {name}", value.origin),
            None => path.to_owned(),
        }
    }

    fn text(&mut self, path: &str) -> Option<String> {
        match self.checked(path) {
            Some(Json::String(text)) => Some(text),
            _ => None,
        }
    }

    fn texts(&mut self, path: &str) -> Vec<String> {
        self.given_texts(path).unwrap_or_default()
    }

    fn given_texts(&mut self, path: &str) -> Option<Vec<String>> {
        match self.checked(path) {
            Some(Json::Array(items)) => Some(items.iter().filter_map(Json::as_str).map(str::to_owned).collect()),
            _ => None,
        }
    }

    fn boolean(&mut self, path: &str) -> bool {
        self.checked(path).and_then(|value| value.as_bool()).unwrap_or_default()
    }

    fn integer(&mut self, path: &str) -> i64 {
        self.checked(path).and_then(|value| value.as_i64()).unwrap_or_default()
    }

    fn duration(&mut self, path: &str) -> Duration {
        self.text(path).and_then(|text| duration(&text)).unwrap_or_default()
    }

    /// The value in force, as JSON, of the kind the table asks for. A wrong one is reported and the default stands in.
    fn checked(&mut self, path: &str) -> Option<Json> {
        let key = keys::find(path)?;
        let problem = match self.converted(key) {
            None => return self.default(path),
            Some(Ok(json)) if is_masked(&json) => format!(
                "{} is '{MASKED}', which only stands for a secret that is not shown; write the secret, or leave the line out",
                self.place(path)
            ),
            Some(Ok(json)) => return Some(json),
            Some(Err(problem)) => problem,
        };
        self.problems.push(problem);
        self.default(path)
    }

    /// What was written, as JSON, or what is wrong with it. None without anything.
    fn converted(&self, key: &Key) -> Option<Result<Json, String>> {
        let (name, value) = self.values.get(key.path)?;
        Some(convert(value, key.kind).map_err(|expected| {
            let known = match &value.kind {
                Written::Text(text) => keys::why_refused(key.path, text.trim()),
                _ => None,
            };
            match known {
                Some(reason) => format!("{}: {name}: {reason}; it should be {expected}", value.origin),
                None => format!("{}: {name} is {}, and should be {expected}", value.origin, describe(value)),
            }
        }))
    }

    fn default(&self, path: &str) -> Option<Json> {
        let key = keys::find(path)?;
        if key.default.is_empty() {
            return None;
        }
        let value = hocon::parse_override(key.default, "default").ok()?;
        convert(&value, key.kind).ok()
    }
}

/// Whether it, or anything in it, is what is shown in the place of a secret.
fn is_masked(value: &Json) -> bool {
    match value {
        Json::String(text) => text == MASKED,
        Json::Array(items) => items.iter().any(is_masked),
        Json::Object(fields) => fields.values().any(is_masked),
        _ => false,
    }
}

/// One letter more, less or another, or the same letters in another order.
fn similar(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(&a) == sorted(&b)
        || (a.len().abs_diff(b.len()) <= 1 && a.chars().zip(b.chars()).filter(|(x, y)| x == y).count() + 1 >= b.len())
}

#[cfg(test)]
mod tests {
    use weir_engine::{GraphOptions, Retention};
    use weir_model::IdScheme;

    use super::*;

    #[test]
    fn what_stands_for_a_secret_is_not_taken_for_one() {
        for line in [
            format!("weir.webserver.use-mtls.trust-store.password = \"{MASKED}\""),
            format!("weir.traces.headers {{ authorization = \"{MASKED}\" }}"),
        ] {
            let refused = load_text(&line, &[]).expect_err("is refused");
            assert!(refused.contains("only stands for a secret that is not shown"), "{line}: {refused}");
        }
    }

    fn load_text(text: &str, overrides: &[(&str, &str)]) -> Result<Settings, String> {
        load_for(text, overrides, false)
    }

    fn load_for(text: &str, overrides: &[(&str, &str)], has_own_store: bool) -> Result<Settings, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("weir.conf");
        std::fs::write(&file, text).expect("write");
        let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        load(&Sources { file: Some(file), overrides, has_own_store }, &|_| None).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn fails(text: &str, expected: &[&str]) {
        let error = load_text(text, &[]).expect_err("should have been refused");
        expected.iter().for_each(|part| assert!(error.contains(part), "{error}"));
    }

    #[test]
    fn defaults_hold_without_a_file() {
        let settings = load(&Sources::default(), &|_| None).expect("loads");
        assert_eq!(settings.webserver.port, 8080);
        assert_eq!(settings.webserver.address, "0.0.0.0");
        assert_eq!(settings.query.time_max, Duration::from_secs(120));
        assert_eq!(settings.ids, IdScheme::Uuid);
        assert_eq!(settings.file_ingest.allowed_directories, [PathBuf::from(".")]);
        assert_eq!(settings.file_output, None);
        assert_eq!(settings.effective["webserver"]["port"], 8080);
        assert!(!settings.should_resume_ingest);
    }

    #[test]
    fn all_roots_and_overrides() {
        let text =
            "quine { webserver.port = 1, id.type = long }\nservice.webserver { address = localhost }\nweir.webserver.port = 2";
        let settings = load_text(text, &[]).expect("loads");
        assert_eq!((settings.webserver.port, settings.webserver.address.as_str()), (2, "localhost"));
        assert_eq!(settings.ids, IdScheme::Long { consecutive: false });
        let settings = load_text(text, &[("quine.webserver.port", "9090"), ("quine.webserver.port", "9091")]).expect("loads");
        assert_eq!(settings.webserver.port, 9091);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        fails("quine.webserver.prot = 1", &["line 1", "'quine.webserver.prot' is not a key", "'quine.webserver.port'"]);
        fails(
            "service.webserver {\n  port = many\n}",
            &["line 2, column 10", "service.webserver.port is 'many'", "from 0 to 65535"],
        );
        fails("quine.webserver.port = 70000", &["70000"]);
        fails("quine.timeout = soon", &["a duration such as"]);
        fails("quine.store.type = cassandra", &["'cassandra' is not built into this version", "in-memory"]);
        fails("quine.store.type = nonsense", &["no store 'nonsense'"]);
        fails("quine.id.type = byte-array", &["128 bits", "it should be one of uuid, uuid-3"]);
        fails("quine.webserver.use-tls = true", &["TLS needs a certificate", "webserver.tls.certificate"]);
        fails(
            "weir.traces { endpoint = \"http://u:hush@x/v1/traces\" }",
            &["weir.traces.endpoint should be a URL", "traces.headers"],
        );
        fails(
            "weir.traces { endpoint = x, ratio = 2 }",
            &["line 1", "weir.traces.ratio is 2, and should be a number from 0 to 1"],
        );
        fails(
            "weir.webserver.allowed-origins = [\"https://a.example\", b.example]",
            &["weir.webserver.allowed-origins: 'b.example' is no origin", "'https://weir.example.com:8443'"],
        );
        fails("weir.traces.headers = { a = [] }", &["traces.headers should be an object of texts"]);
        fails("quine = 5", &["'quine' is a root"]);
        fails("quin.webserver.port = 1", &["did you mean 'quine'?"]);
        fails("quine.a = 1\nquine.timeout = x", &["'quine.a'", "line 2"]);
        fails("wier { webserver.port = 1 }", &["line 1", "'wier' is no root; did you mean 'weir'?"]);
        fails("foo { a = 1 }", &["line 1", "'foo' is no root", "'quine', 'service', 'weir'"]);
        fails("quine.id.type = string", &["should be one of uuid, uuid-3, uuid-4, uuid-5, long"]);
        assert!(load_text("quine.id.type = string", &[]).is_err_and(|error| !error.contains("byte-array")));
        fails("quine.metrics-reporters = 5", &["quine.metrics-reporters is 5, and should be a list of objects"]);
    }

    /// What an option sets was once laid over the file before the file was looked at.
    #[test]
    fn options_hide_nothing_that_is_wrong_in_a_file() {
        let given: &[(&str, &str)] =
            &[("weir.webserver.port", "1"), ("weir.store.type", "in-memory"), ("weir.webserver.use-mtls.enabled", "no")];
        for (text, expected) in [
            ("foo { a = 1 }", "line 1, column 5: 'foo' is no root, and none is there"),
            ("wier { store.type = map-db }", "'wier' is no root; did you mean 'weir'?"),
            ("weir = 5", "'weir' is a root and holds an object, not 5"),
            ("weir.webserver = 5", "'weir.webserver' has keys below it and holds an object, not 5"),
            ("five = 5, weir.webserver = ${five}", "'weir.webserver' has keys below it and holds an object, not 5"),
            ("weir.webserver.port = many", "weir.webserver.port is 'many', and should be a whole number"),
            ("weir.store.type { a = 1 }", "weir.store.type is an object, and should be a text"),
        ] {
            let error = load_text(text, given).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
            assert_eq!(error.lines().count(), 1, "{text}: {error}");
        }
        // What is not there is not missed where something else has its place, and a root in a file may be empty.
        for text in ["weir.webserver.port = ${MISSING}", "weir {}", "", "pekko { a = 1 }, service.workers = 1"] {
            assert_eq!(load_text(text, given).map(|settings| settings.webserver.port), Ok(1), "{text}");
        }
    }

    #[test]
    fn options_hide_nothing_that_is_wrong_in_one_another() {
        for (key, text, expected) in [
            ("weir", "5", "option -Dweir: 'weir' is a root and holds an object, not 5"),
            ("weir.webserver", "5", "option -Dweir.webserver: 'weir.webserver' has keys below it"),
            ("weir.webserver", "{prot: 1}", "'weir.webserver.prot' is not a key"),
            ("weir.webserver.port", "x", "option -Dweir.webserver.port: weir.webserver.port is 'x'"),
            ("wier.webserver.port", "1", "option -Dwier.webserver.port: 'wier' is no root; did you mean 'weir'?"),
        ] {
            let error = load_text("", &[(key, text), ("weir.webserver.port", "1")]).expect_err(text);
            assert!(error.contains(expected), "{key}={text}: {error}");
        }
        // A block is laid under what comes after it.
        let settings = load_text("", &[("weir.webserver", "{port: 1, address: localhost}"), ("weir.webserver.port", "2")]);
        let webserver = settings.expect("loads").webserver;
        assert_eq!((webserver.port, webserver.address.as_str()), (2, "localhost"));
        // A secret that is not shown is brought by an option.
        let key = "weir.webserver.use-mtls.trust-store.password";
        assert!(load_text(&format!("{key} = \"{MASKED}\""), &[(key, "hush")]).is_ok());
    }

    #[test]
    fn options_below_no_root_are_said_to_do_nothing() {
        let without_effect = |text: &str, key: &str| load_text(text, &[(key, "1")]).expect("loads").without_effect;
        let said = "(it is below none of 'quine', 'service', 'weir')";
        assert_eq!(without_effect("", "foo"), [format!("-Dfoo {said}")]);
        assert_eq!(without_effect("", "pekko.http.x"), [format!("-Dpekko.http.x {said}")]);
        // A file may take them.
        assert!(without_effect("weir.workers = ${n}", "n").is_empty());
        assert!(without_effect("weir.workers = ${site.n}", "site.n").is_empty());
        assert_eq!(without_effect("weir.workers = ${?site.m}", "site.n").len(), 1);
    }

    #[test]
    fn an_empty_path_is_named() {
        let error = load_text("", &[("weir.store.filepath", "")]).expect_err("it is empty");
        assert_eq!(error, "option -Dweir.store.filepath: weir.store.filepath: the path is empty; write one, or leave it out");
        fails("weir.memory.directory = \"\"", &["line 1", "weir.memory.directory: the path is empty"]);
        let map_db = "weir.store { type = map-db, path = \" \" }";
        assert_eq!(
            load_text(map_db, &[]).is_err_and(|error| error.contains("weir.store.path: the path is empty")),
            cfg!(feature = "map-db")
        );
    }

    #[test]
    fn a_store_with_two_paths_is_refused_or_has_the_stronger() {
        let path = |text: &str, overrides: &[(&str, &str)]| {
            let settings = load_text(&format!("weir.store.type = map-db\n{text}"), overrides)?;
            assert!(settings.told.iter().all(|told| told.path != OTHER_STORE_PATH));
            Ok::<_, String>(settings.store.path().map(|path| path.display().to_string()).unwrap_or_default())
        };
        let both = "quine.store.filepath = /a\nweir.store.path = /b";
        let error = path(both, &[]).expect_err("two paths");
        assert!(
            error.contains("line 3")
                && error.contains("weir.store.path is '/b', and quine.store.filepath, which means the same, is '/a'"),
            "{error}"
        );
        assert!(path("", &[("weir.store.filepath", "/a"), ("weir.store.path", "/b")]).is_err());
        assert_eq!(path("weir.store { filepath = /a, path = /a }", &[]), Ok("/a".to_owned()));
        assert_eq!(path("weir.store { filepath = null, path = /b }", &[]), Ok("/b".to_owned()));
        assert_eq!(path("weir.store.filepath = /a", &[("weir.store.path", "/b")]), Ok("/b".to_owned()));
        assert_eq!(path("weir.store.path = /a", &[("weir.store.filepath", "/b")]), Ok("/b".to_owned()));
    }

    #[test]
    fn lists_may_be_objects_with_numbers() {
        let directories =
            |text: &str, overrides: &[(&str, &str)]| load_text(text, overrides).expect("loads").file_ingest.allowed_directories;
        let key = "quine.file-ingest.allowed-directories";
        let both = [PathBuf::from("/a"), PathBuf::from("/b")];
        assert_eq!(directories(&format!("{key}.10=/b\n{key}.2=/a"), &[]), both);
        assert_eq!(directories(&format!("{key} {{ 0 = /a, x = /c, 1 = /b }}"), &[]), both);
        assert_eq!(directories("", &[(&format!("{key}.0"), "/a"), (&format!("{key}.1"), "/b")]), both);
        assert_eq!(directories(&format!("{key} = [/c]"), &[(&format!("{key}.0"), "/a")]), both[..1]);
        fails(&format!("{key} {{ x = /c }}"), &["should be a list of texts"]);
        let written = |text: &str| load_text(text, &[]).expect("loads").file_output;
        assert_eq!(written("weir.file-output.allowed-directories = [/a, /b]"), Some(both.to_vec()));
        assert_eq!(written("weir.file-output.allowed-directories = []"), Some(Vec::new()));
        let reporter =
            load_text("", &[("quine.metrics-reporters.0.type", "slf4j"), ("quine.metrics-reporters.0.period", "10 s")]);
        assert_eq!(reporter.map(|settings| settings.reporters.len()), Ok(1));
    }

    #[test]
    fn settings_of_other_engines_are_accepted_and_said_to_do_nothing() {
        let settings = load_text("quine { shard-count = 8, labels-property = L }\npekko { x = 1 }", &[]).expect("loads");
        assert_eq!(settings.without_effect, ["labels-property", "shard-count"]);
        assert_eq!(settings.effective["labels-property"], "L");
    }

    #[test]
    fn properties_of_java_mean_what_they_can() {
        let settings = load_text("", &[("thatdot.loglevel", "DEBUG"), ("qp.enabled", "true")]).expect("loads");
        assert_eq!(
            (settings.log.level.as_str(), settings.without_effect.as_slice()),
            ("info,weir=debug", ["-Dqp.enabled".to_owned()].as_slice())
        );
        let settings = load_text("", &[("thatdot.loglevel", "DEBUG"), ("weir.log.level", "error")]).expect("loads");
        assert_eq!(settings.log.level, "error");
        let error = load_text("", &[("config.resource", "x.conf")]).expect_err("should have been refused");
        assert!(error.contains("-Dconfig.file=<FILE>"), "{error}");
    }

    #[test]
    fn null_is_as_if_nothing_were_written() {
        let settings = load_text("quine { in-memory-soft-node-limit = null, shard-count = 8 }", &[]).expect("loads");
        assert_eq!(settings.without_effect, ["shard-count"]);
        let settings = load_text("weir.id { type = long, consecutive-start = null }", &[]).expect("loads");
        assert_eq!(settings.ids, IdScheme::Long { consecutive: false });
        // Later roots and options take back what others set.
        let settings = load_text("quine.webserver.port = 1, weir.webserver.port = null", &[]).expect("loads");
        assert_eq!(settings.webserver.port, 8080);
        let settings = load_text("quine.store.write-ahead-log = false", &[("weir.store.write-ahead-log", "null")]);
        assert!(settings.is_ok_and(|settings| settings.without_effect.is_empty()));
        fails(
            "weir.webserver.use-mtls { enabled = null, trust-store.path = a.pem }",
            &["a trust store is given, and no certificate is asked of clients"],
        );
        let error = load_text("weir.store { type = null, filepath = \"\" }", &[]).err().unwrap_or_default();
        assert_eq!(error.contains("the path is empty"), cfg!(feature = "rocks-db"), "{error}");
        assert!(!error.contains("there is no store"), "{error}");
    }

    #[test]
    fn what_is_written_stays_as_it_is() {
        let headers = |text: &str, environment: &dyn Fn(&str) -> Option<OsString>| {
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("weir.conf");
            std::fs::write(&file, format!("weir.traces {{ endpoint = \"http://x/v1/traces\", headers {{ key = {text} }} }}"))
                .expect("write");
            let loaded = load_here(&Sources { file: Some(file), ..Sources::default() }, environment);
            let traces = loaded.map(|(settings, _)| settings.traces.map(|traces| format!("{:?}", traces.headers)));
            traces.map_err(|error| error.to_string())
        };
        for text in ["12345678", "1e5", "0123", "true", "1.50", "null"] {
            let found = headers("${?TRACES_KEY}", &|name: &str| (name == "TRACES_KEY").then(|| OsString::from(text)));
            assert!(found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|found| found.contains(text))), "{found:?}");
        }
        for text in ["12345678", "1e5", "1.50", "true"] {
            let found = headers(text, &|_| None);
            assert!(found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|found| found.contains(text))), "{found:?}");
        }
        // Where a number is asked for, a text is one.
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("weir.conf");
        std::fs::write(&file, "weir { workers = ${N}, dump-config = ${B}, timeout = ${T} }").expect("write");
        let variables = |name: &str| match name {
            "N" => Some(OsString::from("3")),
            "B" => Some(OsString::from("yes")),
            "T" => Some(OsString::from("5")),
            _ => None,
        };
        let (settings, read) = load_here(&Sources { file: Some(file), ..Sources::default() }, &variables).expect("loads");
        assert_eq!((settings.workers, settings.dump, &settings.effective["timeout"]), (3, true, &Json::from("5")));
        assert!(read.contains("N") && read.contains("WEIR_WORKERS"));
    }

    /// One that could not be read was taken for one that is not set, and the default stood in for it.
    #[test]
    fn a_variable_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        let load = |text: &str, wrong: &str| {
            let directory = tempfile::tempdir().expect("a directory");
            let file = directory.path().join("weir.conf");
            std::fs::write(&file, text).expect("write");
            let variable = |name: &str| (name == wrong).then(|| OsString::from_vec(b"/data/\xff".to_vec()));
            load_here(&Sources { file: Some(file), ..Sources::default() }, &variable).map(|_| ()).map_err(|error| error.0)
        };
        let problem = |name: &str| -> Result<(), Vec<String>> {
            Err(vec![format!("environment variable {name}: its value is not UTF-8, and so no text")])
        };
        assert_eq!(load("weir.file-ingest.allowed-directories = [${?PLACE}]", "PLACE"), problem("PLACE"));
        assert_eq!(load("", "WEIR_WORKERS"), problem("WEIR_WORKERS"));
        assert_eq!(load("", "PLACE"), Ok(()), "nobody asked for it");
        let both = load("weir.workers = ${PLACE}", "PLACE").expect_err("it is missing");
        assert!(both[0].contains("not UTF-8") && both.len() == 2, "{both:?}");
    }

    #[test]
    fn passwords_are_not_shown() {
        let settings =
            load_text("quine.metrics-reporters = [{type: influxdb, period: 10 s, password: hunter2}]", &[]).expect("loads");
        assert!(!settings.effective.to_string().contains("hunter2"));
    }

    #[cfg(feature = "rocks-db")]
    #[test]
    fn the_store_lies_where_it_is_told() {
        let settings = load_text("service.store { type = rocks-db, path = /x/y, sync-all-writes = yes }", &[]).expect("loads");
        let expected = StoreSettings::RocksDb { path: "/x/y".into(), sync_all_writes: true, create_parent_dir: false };
        assert_eq!(settings.store, expected);
    }

    #[test]
    fn stores_in_one_file_and_stores_of_nothing() {
        let store = |text: &str| load_text(text, &[]).map(|settings| (settings.store, settings.without_effect));
        let text = "quine.store { type = map-db, filepath = /x/y.db, write-ahead-log = no, commit-interval = 5 s, number-partitions = 2 }";
        let (found, without_effect) = store(text).expect("loads");
        assert_eq!(found, StoreSettings::MapDb { path: Some("/x/y.db".into()), create_parent_dir: false });
        let ignored = ["store.write-ahead-log", "store.number-partitions", "store.commit-interval"];
        assert_eq!(without_effect.iter().filter(|key| ignored.contains(&&***key)).count(), 3);
        assert_eq!(store("weir.store.type = map-db").map(|(store, _)| store.path().is_none()), Ok(true));
        assert!(store("weir.store { type = map-db, number-partitions = 0 }").is_err());
        assert_eq!(store("weir.store.type = empty").map(|(store, _)| store), Ok(StoreSettings::Empty));
    }

    /// Recipes and the demonstration bring one along. What is wrong with one that is there is said to them, too.
    #[test]
    fn a_store_that_is_not_used_need_not_be_there() {
        let elsewhere = "quine.store { type = cassandra, keyspace = q, endpoints = [\"a:1\"], local { replication = 3 } }";
        let settings = load_for(elsewhere, &[("weir.store.filepath", "data")], true).expect("the store is not used");
        let expected = "store.type (the store 'cassandra' is not built in, and what is run has its own)";
        assert_eq!(settings.without_effect, [expected]);
        assert!(settings.told.iter().all(|told| told.value != "cassandra" && told.value != "data"), "{:?}", settings.told);
        let error = load_text(elsewhere, &[]).expect_err("it would be used");
        assert!(error.contains("'cassandra' is not built into this version"), "{error}");
        let in_memory = load_for("quine.store.type = cassandra", &[("weir.store.type", "in-memory")], true);
        let in_memory = in_memory.expect("it is not used");
        assert_eq!((in_memory.store, in_memory.without_effect), (StoreSettings::InMemory, Vec::new()));
        // As one that this build leaves out.
        for kind in ["rocks-db", "map-db"] {
            let loaded = load_for(&format!("weir.store.type = {kind}"), &[], true).expect(kind);
            assert_eq!(loaded.without_effect.is_empty(), stores_built_in().contains(&kind), "{kind}");
        }
        for text in ["weir.store.filepaht = x", "weir { store.type = cassandra, webserver.prot = 1 }"] {
            let error = load_for(text, &[], true).expect_err(text);
            assert!(error.contains("is not a key of the configuration"), "{error}");
        }
    }

    #[test]
    fn how_much_of_the_past_is_kept() {
        let retention = |text: &str| load_text(text, &[]).map(|settings| settings.retention);
        assert_eq!(retention(""), Ok(Retention::default()));
        let days = Retention { journal: true, kept: Some(Duration::from_secs(30 * 86_400)) };
        assert_eq!(retention("weir.history = 30d"), Ok(days));
        let off = Retention { journal: false, kept: None };
        assert_eq!(retention("quine.persistence.journal-enabled = false"), Ok(off));
        assert!(retention("weir.history = long").is_err_and(|problem| problem.contains("history")));
    }

    /// A weir that is open to everybody must not come of a slip in what sets up logins.
    #[test]
    fn logins_are_off_on_or_a_mistake() {
        let auth = |text: &str| load_text(&format!("weir.auth {{ {text} }}"), &[]).map(|settings| settings.auth);
        assert_eq!(load_text("", &[]).map(|settings| settings.auth), Ok(None));
        let issuer = "oidc.issuer = \"https://login.example/realms/weir\"";
        let both =
            auth(&format!("{issuer}, oidc.client-id = weir, oidc.client-secret = hush, oidc.audience = api")).expect("is fine");
        let both = both.expect("it is on");
        assert_eq!((both.issuer.as_str(), both.audience.as_deref()), ("https://login.example/realms/weir", Some("api")));
        assert_eq!((both.roles_claim.as_str(), both.session_lifetime.as_secs(), both.sessions_max), ("roles", 8 * 3600, 10_000));
        assert!(
            auth("session.lifetime = 8 h, oidc.plain-http = false").is_ok_and(|auth| auth.is_none()),
            "they are the defaults"
        );
        assert!(auth(&format!("enabled = false, {issuer}, oidc.client-id = weir")).is_ok_and(|auth| auth.is_none()));
        assert!(auth(&format!("{issuer}, oidc.audience = api")).is_ok_and(|auth| auth.is_some_and(|auth| auth.client.is_none())));
        let plain = |host: &str, more: &str| auth(&format!("oidc.issuer = \"http://{host}/\", oidc.audience = a{more}")).is_ok();
        assert!(plain("127.0.0.1:8180", "") && plain("localhost", "") && !plain("login.example", ""));
        assert!(plain("login.example", ", oidc.plain-http = on"));
        for (text, expected) in [
            ("oidc.client-id = weir", "logins need a provider"),
            ("oidc.audience = api", "logins need a provider"),
            ("session.lifetime = 1 h", "logins need a provider"),
            ("enabled = true", "logins need a provider"),
            (issuer, "nobody could log in"),
            ("oidc.issuer = login, oidc.audience = a", "should be a URL"),
            ("oidc.issuer = \"https://x/?a\", oidc.audience = a", "should be a URL"),
            ("oidc.issuer = \"http://login.example\", oidc.audience = a", "without TLS"),
            (&format!("{issuer}, oidc.audience = \"\""), "it is empty"),
            (&format!("{issuer}, oidc.audience = a, oidc.client-secret = hush"), "set auth.oidc.client-id"),
            (&format!("{issuer}, oidc.audience = a, oidc.scopes = [email]"), "openid must be among them"),
            (&format!("{issuer}, oidc.audience = a, session.lifetime = 0 s"), "ends at once"),
            ("oidc.isuer = x", "is not a key"),
        ] {
            let refused = auth(text).expect_err(text);
            assert!(refused.contains(expected) && !refused.contains("hush"), "{text}: {refused}");
        }
        let settings = load_text(&format!("weir.auth {{ {issuer}, oidc.client-id = w, oidc.client-secret = hush }}"), &[]);
        let settings = settings.expect("is fine");
        assert!(!settings.effective.to_string().contains("hush") && !format!("{settings:?}").contains("hush"));
    }

    #[test]
    fn the_graph_model_is_chosen_or_left_to_the_store() {
        let model = |text: &str| load_text(text, &[]).expect("loads").graph;
        assert_eq!(model(""), None);
        assert_eq!(model("weir.graph-model = streaming"), Some(GraphOptions { open_cypher: false }));
        assert_eq!(model("weir.graph-model = open-cypher"), Some(GraphOptions { open_cypher: true }));
        fails("weir.graph-model = other", &["graph-model"]);
    }
}
