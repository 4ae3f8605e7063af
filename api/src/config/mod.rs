//! Configuration: from files and overrides to typed settings, with where each value came from.
//!
//!     -Dkey=value  over  WEIR_… of the environment  over  file (HOCON)  over  defaults of the table in `keys`
//!
//! Owns the three roots, the check against the table and the meaning of values. Does not open or start anything.

pub mod hocon;
pub mod keys;
pub mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json};
use thiserror::Error;
use weir_engine::{GraphOptions, Retention};
use weir_model::IdScheme;

use self::hocon::{Kind as Written, Object, Value};
use self::keys::{Effect, KEYS, Kind, STORES_ELSEWHERE};
use crate::queries::QuerySettings;
use crate::tls::TlsFiles;

/// Below each of these the same keys are understood; the later root wins.
const ROOTS: [&str; 3] = ["quine", "service", ROOT];
const ROOT: &str = "weir";

/// How the origins of values begin that stand in no file.
const OF_ENVIRONMENT: &str = "environment variable ";
const OF_COMMAND_LINE: &str = "option -D";

/// Where a value was set, the weakest first.
#[derive(Clone, Copy, PartialEq)]
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
const STORE_PATH: &str = "store.filepath";

/// Where the reference service finds its certificate.
const KEY_STORE_VARIABLES: [&str; 2] = ["SSL_KEYSTORE_PATH", "SSL_KEYSTORE_PASSWORD"];

/// Everything that is wrong with a configuration, each with its place.
#[derive(Debug, Error, PartialEq)]
#[error("{}", .0.join("\n"))]
pub struct ConfigError(pub Vec<String>);

#[derive(Clone, Debug)]
pub struct Settings {
    pub webserver: Webserver,
    pub store: StoreSettings,
    pub ids: IdScheme,
    /// The graph model; none is that of the store.
    pub graph: Option<GraphOptions>,
    /// How much of the past is kept.
    pub retention: Retention,
    /// 0 is one per core.
    pub workers: usize,
    /// How long starting and stopping may take.
    pub timeout: Duration,
    pub query: QuerySettings,
    pub should_resume_ingest: bool,
    pub file_ingest: FileIngest,
    /// Web servers that queries and outputs may ask.
    pub allowed_hosts: Vec<String>,
    pub dump: bool,
    pub log: LogSettings,
    /// Everything in force, nested as it would be written, for people and for `GET admin/config`.
    pub effective: Json,
    /// Keys that were set and do nothing here.
    pub without_effect: Vec<String>,
    /// Every key that has a value, with where that came from.
    pub told: Vec<Told>,
}

/// A key in force, for people.
#[derive(Clone, Debug)]
pub struct Told {
    pub path: &'static str,
    /// Secrets masked.
    pub value: Json,
    pub origin: String,
    pub has_effect: bool,
}

#[derive(Clone, Debug)]
pub struct Webserver {
    pub enabled: bool,
    pub address: String,
    pub port: u16,
    pub body_bytes_max: u64,
    pub connections_max: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    /// Where clients find the server, when that is not where it listens.
    pub advertised: Option<String>,
    pub tls: Option<TlsFiles>,
    /// Where probes find liveness and readiness without TLS.
    pub health_port: Option<u16>,
}

impl Webserver {
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum StoreSettings {
    InMemory,
    /// As in memory, and no history.
    Empty,
    RocksDb {
        path: PathBuf,
        sync_all_writes: bool,
        create_parent_dir: bool,
    },
    /// Without a path, in a temporary file.
    MapDb {
        path: Option<PathBuf>,
        create_parent_dir: bool,
    },
}

impl StoreSettings {
    /// As the reference's summary names it.
    pub fn label(&self) -> &'static str {
        match self {
            StoreSettings::InMemory => "inmemory",
            StoreSettings::Empty => "empty",
            StoreSettings::RocksDb { .. } => "rocksdb",
            StoreSettings::MapDb { .. } => "mapdb",
        }
    }

    /// Where it stays when weir has ended.
    pub fn path(&self) -> Option<&Path> {
        match self {
            StoreSettings::InMemory | StoreSettings::Empty => None,
            StoreSettings::RocksDb { path, .. } => Some(path),
            StoreSettings::MapDb { path, .. } => path.as_deref(),
        }
    }

    /// The same elsewhere.
    pub fn at(&self, place: PathBuf) -> StoreSettings {
        let mut moved = self.clone();
        match &mut moved {
            StoreSettings::InMemory | StoreSettings::Empty => {}
            StoreSettings::RocksDb { path, .. } => *path = place,
            StoreSettings::MapDb { path, .. } => *path = Some(place),
        }
        moved
    }
}

#[derive(Clone, Debug, Default)]
pub struct FileIngest {
    pub allowed_directories: Vec<PathBuf>,
    /// Only files that are there when weir starts.
    pub only_present_at_start: bool,
}

#[derive(Clone, Debug)]
pub struct LogSettings {
    pub level: String,
    pub json: bool,
}

/// What the command line says about configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// `-Dkey=value`, in order; the last one wins.
    pub overrides: Vec<(String, String)>,
}

/// Reads everything and checks it.
pub fn load(sources: &Sources, environment: &dyn Fn(&str) -> Option<String>) -> Result<Settings, ConfigError> {
    let one = |error: hocon::HoconError| ConfigError(vec![error.to_string()]);
    let mut root = match &sources.file {
        Some(path) => hocon::parse_file(path).map_err(one)?,
        None => Object::default(),
    };
    for key in KEYS {
        let name = keys::variable(key.path);
        let Some(text) = environment(&name) else { continue };
        let value = hocon::parse_override(&text, &format!("{OF_ENVIRONMENT}{name}")).map_err(one)?;
        let path: Vec<String> = [ROOT].into_iter().chain(key.path.split('.')).map(str::to_owned).collect();
        root.set(&path, value);
    }
    for (key, text) in &sources.overrides {
        let value = hocon::parse_override(text, &format!("{OF_COMMAND_LINE}{key}")).map_err(one)?;
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        root.set(&path, value);
    }
    let root = hocon::resolve(&root, environment).map_err(one)?;
    Reading::new(&root, environment).settings()
}

/// The values below all roots, laid over one another, while they are turned into settings.
struct Reading<'a> {
    /// By path without the root.
    values: BTreeMap<String, (String, Value)>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl<'a> Reading<'a> {
    fn new(root: &Object, environment: &'a dyn Fn(&str) -> Option<String>) -> Reading<'a> {
        let mut reading = Reading { values: BTreeMap::new(), environment, problems: Vec::new() };
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
        for (name, value) in &root.0 {
            if let Some(wanted) = ROOTS.iter().find(|known| !ROOTS.contains(&name.as_str()) && similar(name, known)) {
                reading.problems.push(format!("{}: there is no root '{name}'; did you mean '{wanted}'?", value.origin));
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
                _ if known.is_some() => {
                    self.values.insert(path.clone(), (format!("{root}.{path}"), value.clone()));
                }
                _ if keys::is_below_free(&path) => {}
                _ => self.problems.push(format!(
                    "{}: '{root}.{path}' is not a key of the configuration; the nearest one is '{root}.{}'",
                    value.origin,
                    keys::nearest(&path)
                )),
            }
        }
    }

    fn settings(mut self) -> Result<Settings, ConfigError> {
        let store_type = self.text("store.type").unwrap_or_default();
        if STORES_ELSEWHERE.contains(&store_type.as_str()) {
            let message = format!(
                "{}: the store '{store_type}' is not built into this version; there are {}",
                self.place("store.type"),
                stores_built_in().join(", ")
            );
            return Err(ConfigError(vec![message]));
        }
        let store = self.store(&store_type);
        let ids = self.ids();
        let webserver = self.webserver();
        let settings = Settings {
            webserver,
            store,
            ids,
            graph: self.text("graph-model").map(|name| GraphOptions { open_cypher: name == "open-cypher" }),
            retention: Retention {
                journal: self.boolean("persistence.journal-enabled"),
                kept: self.text("history").and_then(|text| duration(&text)),
            },
            workers: self.integer("workers") as usize,
            timeout: self.duration("timeout"),
            query: QuerySettings {
                time_max: self.duration("query.timeout"),
                memory_bytes_max: self.integer("query.memory-bytes-max") as usize,
                all_memory_bytes_max: self.integer("query.all-memory-bytes-max") as usize,
                text_bytes_max: self.integer("query.text-bytes-max") as usize,
                running_max: self.integer("query.running-max") as usize,
                slow_after: self.duration("query.slow-after"),
                client_patience: self.duration("query.client-patience"),
            },
            should_resume_ingest: self.boolean("should-resume-ingest"),
            file_ingest: FileIngest {
                allowed_directories: self.texts("file-ingest.allowed-directories").into_iter().map(PathBuf::from).collect(),
                only_present_at_start: self.text("file-ingest.resolution-mode").as_deref() == Some("static"),
            },
            allowed_hosts: self.texts("outgoing-http.allowed-hosts"),
            dump: self.boolean("dump-config"),
            log: LogSettings {
                level: self.text("log.level").unwrap_or_default(),
                json: self.text("log.format").as_deref() == Some("json"),
            },
            effective: Json::Null,
            without_effect: Vec::new(),
            told: Vec::new(),
        };
        self.finish(settings)
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
                let origin = self.values.get(key.path).filter(|(_, value)| !matches!(value.kind, Written::Null));
                let origin = origin.map_or_else(|| "default".to_owned(), |(_, value)| value.origin.to_string());
                let has_effect = key.effect == Effect::Used;
                put(&mut effective, key.path, value.clone());
                settings.told.push(Told { path: key.path, value, origin, has_effect });
            }
        }
        if let Some(path) = settings.store.path() {
            let value = Json::String(path.display().to_string());
            put(&mut effective, STORE_PATH, value.clone());
            if !settings.told.iter().any(|told| told.path == STORE_PATH) {
                let variable = DATA_VARIABLES.iter().find(|name| (self.environment)(name).is_some());
                let origin = match self.values.get("store.path") {
                    Some((_, value)) => value.origin.to_string(),
                    None => variable.map_or("default".to_owned(), |name| format!("{OF_ENVIRONMENT}{name}")),
                };
                settings.told.push(Told { path: STORE_PATH, value, origin, has_effect: true });
            }
        }
        let place = |told: &Told| KEYS.iter().position(|key| key.path == told.path);
        settings.told.sort_by_key(place);
        settings.effective = Json::Object(effective);
        let mut problems = self.problems;
        problems.dedup();
        if problems.is_empty() { Ok(settings) } else { Err(ConfigError(problems)) }
    }

    /// On when it is asked for, or when both variables of the reference are set.
    fn tls(&mut self) -> Option<TlsFiles> {
        let mutual = self.boolean("webserver.use-mtls.enabled");
        let authorities = self.text("webserver.use-mtls.trust-store.path").map(PathBuf::from);
        let key_store = KEY_STORE_VARIABLES.map(|name| (self.environment)(name));
        let wanted = self.checked("webserver.use-tls").and_then(|value| value.as_bool());
        if !wanted.unwrap_or(key_store.iter().all(Option::is_some)) {
            if mutual {
                self.problems.push(format!(
                    "{}: clients show certificates over TLS only; set webserver.use-tls",
                    self.place("webserver.use-mtls.enabled")
                ));
            }
            return None;
        }
        let [key_store, _] = key_store;
        let Some(certificate) = self.text("webserver.tls.certificate").or(key_store) else {
            let place = self.place("webserver.use-tls");
            self.problems.push(format!(
                "{place}: TLS needs a certificate: set webserver.tls.certificate and webserver.tls.private-key to PEM files"
            ));
            return None;
        };
        let private_key = self.text("webserver.tls.private-key").unwrap_or_else(|| certificate.clone());
        if mutual && authorities.is_none() {
            let place = self.place("webserver.use-mtls.enabled");
            self.problems.push(format!(
                "{place}: set webserver.use-mtls.trust-store.path to a PEM file of the certificates that sign those of clients"
            ));
        }
        let client_authorities = authorities.filter(|_| mutual);
        Some(TlsFiles { certificate: certificate.into(), private_key: private_key.into(), client_authorities })
    }

    fn webserver(&mut self) -> Webserver {
        let tls = self.tls();
        let health = self.boolean("webserver.use-mtls.health-endpoints.enabled");
        let advertised = match (self.text("webserver-advertise.address"), self.checked("webserver-advertise.port")) {
            (None, None) => None,
            (Some(address), Some(Json::Number(port))) => {
                let secure = self.checked("webserver-advertise.use-tls").and_then(|value| value.as_bool());
                let scheme = if secure.unwrap_or(tls.is_some()) { "https" } else { "http" };
                let path = self.text("webserver-advertise.path").unwrap_or_default();
                Some(format!("{scheme}://{address}:{port}{path}"))
            }
            _ => {
                self.problems.push("webserver-advertise needs both 'address' and 'port'".to_owned());
                None
            }
        };
        Webserver {
            enabled: self.boolean("webserver.enabled"),
            address: self.text("webserver.address").unwrap_or_default(),
            port: self.integer("webserver.port") as u16,
            body_bytes_max: self.integer("webserver.body-bytes-max") as u64,
            connections_max: self.integer("webserver.connections-max") as usize,
            header_timeout: self.duration("webserver.header-timeout"),
            body_timeout: self.duration("webserver.body-timeout"),
            request_timeout: self.duration("webserver.request-timeout"),
            advertised,
            tls,
            health_port: health.then(|| self.integer("webserver.use-mtls.health-endpoints.port") as u16),
        }
    }

    fn store(&mut self, kind: &str) -> StoreSettings {
        match kind {
            "in-memory" => StoreSettings::InMemory,
            "empty" => StoreSettings::Empty,
            "map-db" if cfg!(feature = "map-db") => StoreSettings::MapDb {
                path: self.text(STORE_PATH).or_else(|| self.text("store.path")).map(PathBuf::from),
                create_parent_dir: self.boolean("store.create-parent-dir"),
            },
            "rocks-db" if cfg!(feature = "rocks-db") => {
                let path = self.text(STORE_PATH).or_else(|| self.text("store.path")).unwrap_or_else(|| {
                    DATA_VARIABLES.iter().find_map(|name| (self.environment)(name)).unwrap_or_else(|| DATA_PATH.to_owned())
                });
                StoreSettings::RocksDb {
                    path: PathBuf::from(path),
                    sync_all_writes: self.boolean("store.sync-all-writes"),
                    create_parent_dir: self.boolean("store.create-parent-dir"),
                }
            }
            // The default of a build without rocks-db; asking for it by name is refused below.
            "rocks-db" if !self.values.contains_key("store.type") => StoreSettings::InMemory,
            other => {
                let message = format!(
                    "{}: there is no store '{other}' here; there are {}",
                    self.place("store.type"),
                    stores_built_in().join(", ")
                );
                self.problems.push(message);
                StoreSettings::InMemory
            }
        }
    }

    fn ids(&mut self) -> IdScheme {
        let kind = self.text("id.type").unwrap_or_default();
        let namespace = match self.text("id.namespace") {
            None => [0; 16],
            Some(text) => match IdScheme::Uuid.parse(&text) {
                Some(id) => id.to_bytes(),
                None => {
                    self.problems.push(format!("{}: '{text}' is not a UUID", self.place("id.namespace")));
                    [0; 16]
                }
            },
        };
        match kind.as_str() {
            "uuid-3" => IdScheme::Uuid3 { namespace },
            "uuid-4" => IdScheme::Uuid4,
            "uuid-5" => IdScheme::Uuid5 { namespace },
            "long" => IdScheme::Long { consecutive: self.values.contains_key("id.consecutive-start") },
            "byte-array" => {
                let message = format!(
                    "{}: ids of type 'byte-array' have no fixed length and weir's have 128 bits; use uuid, uuid-3, uuid-4, uuid-5 or long",
                    self.place("id.type")
                );
                self.problems.push(message);
                IdScheme::Uuid
            }
            _ => IdScheme::Uuid,
        }
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
        match self.checked(path) {
            Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
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
        let Some((name, value)) = self.values.get(path) else { return self.default(path) };
        // `null` takes a key back to its default, which for optional keys is absence.
        if matches!(value.kind, Written::Null) {
            return self.default(path);
        }
        match convert(value, key.kind) {
            Ok(json) => Some(json),
            Err(expected) => {
                let problem = format!("{}: {name} is {}, and should be {expected}", value.origin, describe(value));
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                self.default(path)
            }
        }
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

fn stores_built_in() -> Vec<&'static str> {
    let optional = [("rocks-db", cfg!(feature = "rocks-db")), ("map-db", cfg!(feature = "map-db"))];
    let there = optional.into_iter().filter(|(_, built)| *built).map(|(name, _)| name);
    there.chain(["in-memory", "empty"]).collect()
}

fn similar(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    a == b || (a.len().abs_diff(b.len()) <= 1 && a.chars().zip(b.chars()).filter(|(x, y)| x == y).count() + 1 >= b.len())
}

/// The value as JSON, or what it should have been.
fn convert(value: &Value, kind: Kind) -> Result<Json, String> {
    let text = match &value.kind {
        Written::Text(text) | Written::Number(text) => Some(text.trim().to_owned()),
        Written::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    };
    match kind {
        Kind::Free => Ok(to_json(value)),
        Kind::Texts => match &value.kind {
            Written::Array(items) => {
                items.iter().map(|item| convert(item, Kind::Text)).collect::<Result<Vec<_>, _>>().map(Json::Array)
            }
            _ => Err("a list of texts".to_owned()),
        },
        Kind::Text => text.map(Json::String).ok_or_else(|| "a text".to_owned()),
        Kind::Boolean => match text.as_deref() {
            Some("true" | "yes" | "on") => Ok(Json::Bool(true)),
            Some("false" | "no" | "off") => Ok(Json::Bool(false)),
            _ => Err("true or false".to_owned()),
        },
        Kind::Integer(low, high) => {
            text.and_then(|text| text.parse::<i64>().ok()).filter(|n| (low..=high).contains(n)).map(Json::from).ok_or_else(|| {
                match high {
                    i64::MAX if low == i64::MIN => "a whole number".to_owned(),
                    i64::MAX => format!("a whole number of at least {low}"),
                    _ => format!("a whole number from {low} to {high}"),
                }
            })
        }
        Kind::Size(low, high) => {
            let bytes = text.and_then(|text| size(&text)).and_then(|bytes| i64::try_from(bytes).ok());
            bytes.filter(|bytes| (low..=high).contains(bytes)).map(Json::from).ok_or_else(|| match high {
                i64::MAX => format!("a size such as '64 MiB', of at least {low} bytes"),
                _ => format!("a size such as '64 MiB', from {low} to {high} bytes"),
            })
        }
        Kind::Duration => match text {
            Some(text) if duration(&text).is_some() => Ok(Json::String(text)),
            _ => Err("a duration such as '10 s', '100 ms' or '2 minutes'".to_owned()),
        },
        Kind::OneOf(words) => match text {
            Some(text) if words.contains(&text.as_str()) => Ok(Json::String(text)),
            _ => Err(format!("one of {}", words.join(", "))),
        },
    }
}

fn describe(value: &Value) -> String {
    match &value.kind {
        Written::Null => "null".to_owned(),
        Written::Boolean(flag) => flag.to_string(),
        Written::Number(text) => text.clone(),
        Written::Text(text) => format!("'{text}'"),
        Written::Array(_) => "a list".to_owned(),
        Written::Object(_) | Written::Pending { .. } => "an object".to_owned(),
    }
}

fn to_json(value: &Value) -> Json {
    match &value.kind {
        Written::Null | Written::Pending { .. } => Json::Null,
        Written::Boolean(flag) => Json::Bool(*flag),
        Written::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone())),
        Written::Text(text) => Json::String(text.clone()),
        Written::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Written::Object(object) => Json::Object(object.0.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()),
    }
}

/// Secrets never come back in answers or logs.
fn masked(path: &str, value: Json) -> Json {
    let secret = ["password", "secret", "token"].iter().any(|word| path.rsplit('.').next().unwrap_or(path).contains(word));
    match value {
        Json::Object(map) => Json::Object(map.into_iter().map(|(key, value)| (key.clone(), masked(&key, value))).collect()),
        _ if secret => weir_connectors::config::MASKED.into(),
        Json::Array(items) => Json::Array(items.into_iter().map(|item| masked("", item)).collect()),
        other => other,
    }
}

/// Puts a value at a dotted path.
fn put(object: &mut JsonMap<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => {
            object.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| Json::Object(JsonMap::new()));
            if let Json::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// `64 MiB`, `1.5 GB`, `512k`; a bare number is bytes. As in HOCON, one letter stands for a power of two.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim();
    let letter = unit.chars().next().map(|c| c.to_ascii_uppercase());
    let power = match letter {
        None | Some('B') => 0,
        Some(letter) => 1 + "KMGTP".find(letter)? as i32,
    };
    let base: f64 = match unit.get(1..).unwrap_or_default().to_ascii_lowercase().as_str() {
        _ if power == 0 => matches!(unit, "" | "B" | "b" | "byte" | "bytes").then_some(1.0)?,
        "" | "i" | "ib" => 1024.0,
        "b" => 1000.0,
        long => match ["kilobyte", "megabyte", "gigabyte", "terabyte", "petabyte"]
            .iter()
            .position(|name| name[1..] == *long.trim_end_matches('s'))
        {
            Some(_) => 1000.0,
            None => ["kibibyte", "mebibyte", "gibibyte", "tebibyte", "pebibyte"]
                .iter()
                .any(|name| name[1..] == *long.trim_end_matches('s'))
                .then_some(1024.0)?,
        },
    };
    let bytes = number * base.powi(power);
    (bytes.fract() == 0.0 && bytes < 9.2e18).then_some(bytes as u64)
}

/// `10 s`, `1.5 minutes`, `100ms`; a bare number is milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let seconds = match text[split..].trim() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1e-9,
        "us" | "micro" | "micros" | "microsecond" | "microseconds" => 1e-6,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "second" | "seconds" => 1.0,
        "m" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str, overrides: &[(&str, &str)]) -> Result<Settings, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("weir.conf");
        std::fs::write(&file, text).expect("write");
        let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        load(&Sources { file: Some(file), overrides }, &|_| None).map_err(|error| error.to_string())
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
        assert_eq!(settings.timeout, Duration::from_secs(120));
        assert_eq!(settings.ids, IdScheme::Uuid);
        assert_eq!(settings.file_ingest.allowed_directories, [PathBuf::from(".")]);
        assert_eq!(settings.effective["webserver"]["port"], 8080);
        assert!(!settings.should_resume_ingest);
    }

    #[test]
    fn every_default_of_the_table_is_of_its_kind() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let value = hocon::parse_override(key.default, "default").expect("parses");
            assert_eq!(convert(&value, key.kind).err(), None, "{}", key.path);
        }
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
        fails("quine.id.type = byte-array", &["128 bits"]);
        fails("quine.webserver.use-tls = true", &["TLS needs a certificate", "webserver.tls.certificate"]);
        fails("quine = 5", &["'quine' is a root"]);
        fails("quin.webserver.port = 1", &["did you mean 'quine'?"]);
        fails("quine.a = 1\nquine.timeout = x", &["'quine.a'", "line 2"]);
    }

    #[test]
    fn settings_of_other_engines_are_accepted_and_said_to_do_nothing() {
        let settings = load_text("quine { shard-count = 8, labels-property = L }\npekko { x = 1 }", &[]).expect("loads");
        assert_eq!(settings.without_effect, ["labels-property", "shard-count"]);
        assert_eq!(settings.effective["labels-property"], "L");
    }

    #[test]
    fn optional_limits_can_be_switched_off() {
        assert!(load_text("quine.in-memory-soft-node-limit = null", &[]).is_ok());
    }

    #[test]
    fn passwords_are_not_shown() {
        let settings = load_text("quine.metrics-reporters = [{type: influxdb, password: hunter2}]", &[]).expect("loads");
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

    #[test]
    fn the_graph_model_is_chosen_or_left_to_the_store() {
        let model = |text: &str| load_text(text, &[]).expect("loads").graph;
        assert_eq!(model(""), None);
        assert_eq!(model("weir.graph-model = streaming"), Some(GraphOptions { open_cypher: false }));
        assert_eq!(model("weir.graph-model = open-cypher"), Some(GraphOptions { open_cypher: true }));
        fails("weir.graph-model = other", &["graph-model"]);
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64 MiB", 64 << 20),
            ("64m", 64 << 20),
            ("1kB", 1000),
            ("1.5 KiB", 1536),
            ("7", 7),
            ("7 bytes", 7),
            ("2 megabytes", 2_000_000),
            ("1 kibibyte", 1024),
        ] {
            assert_eq!(size(text), Some(expected), "{text}");
        }
        for text in ["", "x", "1 X", "0.5 B", "1 Mx", "-1"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [("10 s", 10_000), ("100ms", 100), ("2 minutes", 120_000), ("1.5 h", 5_400_000), ("250", 250)] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(duration("ten"), None);
        assert_eq!(duration("1 fortnight"), None);
    }
}
