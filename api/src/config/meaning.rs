//! What the values of keys mean: the checked texts and numbers as settings, and the rules between several keys.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde_json::Value as Json;
use weir_engine::{GraphOptions, Retention};
use weir_model::IdScheme;

use super::keys::{Kind, STORES_ELSEWHERE};
use super::settings::{FileIngest, LogSettings, MemorySettings, SecretSettings, Settings, StoreSettings, Webserver};
use super::values::{TRACE_HEADERS, convert, describe, duration};
use super::{
    ConfigError, DATA_PATH, DATA_VARIABLES, Layer, MEMORY_DIRECTORY, OF_ENVIRONMENT, OTHER_STORE_PATH, Reading, STORE, STORE_PATH,
};
use crate::auth::{AuthSettings, Hidden, OidcClient, may_be_plain};
use crate::log;
use crate::metrics::ReporterSettings;
use crate::origin::is_origin;
use crate::queries::QuerySettings;
use crate::tls::TlsFiles;
use crate::traces::TraceSettings;

const EMPTY_PATH: &str = "the path is empty; write one, or leave it out";

const HEALTH_ENABLED: &str = "webserver.use-mtls.health-endpoints.enabled";
const HEALTH_PORT: &str = "webserver.use-mtls.health-endpoints.port";

const ISSUER: &str = "auth.oidc.issuer";

/// Where the reference service finds its certificate.
const KEY_STORE_VARIABLES: [&str; 2] = ["SSL_KEYSTORE_PATH", "SSL_KEYSTORE_PASSWORD"];

impl Reading<'_> {
    pub fn settings(mut self) -> Result<Settings, ConfigError> {
        self.take_other_store_path();
        let mut store_type = self.text("store.type").unwrap_or_default();
        let mut without_effect = Vec::new();
        // The default of a build without rocks-db is what it has.
        let is_left_out = self.values.contains_key("store.type")
            && ["rocks-db", "map-db"].contains(&&*store_type)
            && !stores_built_in().contains(&&*store_type);
        if self.has_own_store && (is_left_out || STORES_ELSEWHERE.contains(&&*store_type)) {
            // Whatever is said of it is about a store of another kind.
            self.values.retain(|path, _| !path.starts_with(STORE));
            without_effect.push(format!("store.type (the store '{store_type}' is not built in, and what is run has its own)"));
            store_type = self.text("store.type").unwrap_or_default();
        } else {
            self.problems.append(&mut self.store_problems);
        }
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
        let auth = self.auth();
        let memory = self.memory(&store);
        let settings = Settings {
            webserver,
            auth,
            store,
            ids,
            graph: self.text("graph-model").map(|name| GraphOptions { open_cypher: name == "open-cypher" }),
            retention: Retention {
                journal: self.boolean("persistence.journal-enabled"),
                kept: self.text("history").and_then(|text| duration(&text)),
            },
            workers: self.integer("workers") as usize,
            memory,
            query: QuerySettings {
                time_max: self.duration("query.timeout"),
                memory_bytes_max: self.integer("query.memory-bytes-max") as usize,
                all_memory_bytes_max: self.integer("query.all-memory-bytes-max") as usize,
                text_bytes_max: self.integer("query.text-bytes-max") as usize,
                running_max: self.integer("query.running-max") as usize,
                slow_after: self.duration("query.slow-after"),
                client_patience: self.duration("query.client-patience"),
            },
            chain_max: self.integer("standing.chain-max") as u32,
            should_resume_ingest: self.boolean("should-resume-ingest"),
            file_ingest: FileIngest {
                allowed_directories: self.texts("file-ingest.allowed-directories").into_iter().map(PathBuf::from).collect(),
                only_present_at_start: self.text("file-ingest.resolution-mode").as_deref() == Some("static"),
            },
            file_output: self
                .given_texts("file-output.allowed-directories")
                .map(|texts| texts.into_iter().map(PathBuf::from).collect()),
            allowed_hosts: self.texts("outgoing-http.allowed-hosts"),
            secrets: SecretSettings {
                environment: self.texts("secrets.environment"),
                directories: self.texts("secrets.directories").into_iter().map(PathBuf::from).collect(),
            },
            dump: self.boolean("dump-config"),
            log: LogSettings { level: self.log_level(), json: self.text("log.format").as_deref() == Some("json") },
            reporters: self.reporters(),
            traces: self.traces(),
            effective: Json::Null,
            without_effect,
            told: Vec::new(),
        };
        self.finish(settings)
    }

    /// On when it is asked for, or when both variables of the reference are set.
    fn tls(&mut self) -> Option<TlsFiles> {
        let mutual = self.boolean("webserver.use-mtls.enabled");
        let authorities = self.path("webserver.use-mtls.trust-store.path");
        let (certificate, private_key) = (self.path("webserver.tls.certificate"), self.path("webserver.tls.private-key"));
        if authorities.is_some() && !self.values.contains_key("webserver.use-mtls.enabled") {
            self.problems.push(format!(
                "{}: a trust store is given, and no certificate is asked of clients; set webserver.use-mtls.enabled",
                self.place("webserver.use-mtls.trust-store.path")
            ));
        }
        let key_store = KEY_STORE_VARIABLES.map(|name| (self.environment)(name));
        let wanted = self.checked("webserver.use-tls").and_then(|value| value.as_bool());
        if !wanted.unwrap_or(key_store.iter().all(Option::is_some)) {
            if mutual {
                self.problems.push(format!(
                    "{}: clients show certificates over TLS only; set webserver.use-tls",
                    self.place("webserver.use-mtls.enabled")
                ));
            }
            let given = [("webserver.tls.certificate", certificate), ("webserver.tls.private-key", private_key)];
            if let Some((key, _)) = given.iter().find(|(_, path)| path.is_some() && wanted.is_none()) {
                let place = self.place(key);
                self.problems
                    .push(format!("{place}: a certificate or its key is given, and TLS is not on; set webserver.use-tls"));
            }
            return None;
        }
        let [key_store, _] = key_store;
        let Some(certificate) = certificate.or(key_store.map(PathBuf::from)) else {
            let place = self.place("webserver.use-tls");
            self.problems.push(format!(
                "{place}: TLS needs a certificate: set webserver.tls.certificate and webserver.tls.private-key to PEM files"
            ));
            return None;
        };
        let private_key = private_key.unwrap_or_else(|| certificate.clone());
        if mutual && authorities.is_none() {
            let place = self.place("webserver.use-mtls.enabled");
            self.problems.push(format!(
                "{place}: set webserver.use-mtls.trust-store.path to a PEM file of the certificates that sign those of clients"
            ));
        }
        let client_authorities = authorities.filter(|_| mutual);
        Some(TlsFiles { certificate, private_key, client_authorities })
    }

    fn webserver(&mut self) -> Webserver {
        let tls = self.tls();
        let health = self.boolean(HEALTH_ENABLED).then(|| self.integer(HEALTH_PORT) as u16);
        let (address, port) = (self.text("webserver.address").unwrap_or_default(), self.integer("webserver.port") as u16);
        // Port 0 is any that is free.
        if health.is_some_and(|health| health == port && port != 0) && is_on_loopback(&address) {
            self.problems.push(format!(
                "{}: {port} is the port of the web server, too (webserver.port); probes need one of their own",
                self.place(HEALTH_PORT)
            ));
        }
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
            address,
            port,
            body_bytes_max: self.integer("webserver.body-bytes-max") as u64,
            backups_enabled: self.boolean("webserver.backups-enabled"),
            connections_max: self.integer("webserver.connections-max") as usize,
            header_timeout: self.duration("webserver.header-timeout"),
            body_timeout: self.duration("webserver.body-timeout"),
            request_timeout: self.duration("webserver.request-timeout"),
            allowed_origins: self.origins("webserver.allowed-origins"),
            advertised,
            tls,
            health_port: health,
        }
    }

    /// None where there are no logins. Whatever is set up of them without being enough is a mistake: a weir that is open to
    /// everybody must not come of one.
    fn auth(&mut self) -> Option<AuthSettings> {
        let enabled = self.checked("auth.enabled").and_then(|value| value.as_bool());
        let issuer = self.text(ISSUER);
        let (id, secret, audience) =
            (self.text("auth.oidc.client-id"), self.text("auth.oidc.client-secret"), self.text("auth.oidc.audience"));
        if enabled == Some(false) {
            return None;
        }
        let Some(issuer) = issuer else {
            // What `weir config` prints has every default in it.
            let given: Vec<String> = self.values.keys().filter(|path| path.starts_with("auth.")).cloned().collect();
            let of_logins = given.into_iter().find(|path| self.checked(path) != self.default(path));
            if let Some(path) = of_logins {
                let place = self.place(&path);
                self.problems.push(format!("{place}: logins need a provider; set {ISSUER}, or auth.enabled = false"));
            }
            return None;
        };
        let plain_http = self.boolean("auth.oidc.plain-http");
        let settings = AuthSettings {
            issuer,
            client: id.map(|id| OidcClient { id, secret: secret.clone().map(Hidden::new) }),
            audience,
            scopes: self.texts("auth.oidc.scopes"),
            roles_claim: self.text("auth.oidc.roles-claim").unwrap_or_default(),
            session_lifetime: self.duration("auth.session.lifetime"),
            sessions_max: self.integer("auth.session.count-max") as usize,
            plain_http,
        };
        let is_url = settings.issuer.split_once("://").is_some_and(|(scheme, place)| {
            matches!(scheme, "http" | "https") && !place.is_empty() && !place.contains(['?', '#', '@', ' '])
        });
        let is_open = settings.issuer.starts_with("http://") && !plain_http && !may_be_plain(&settings.issuer);
        let empty = |text: Option<&str>| text.is_some_and(str::is_empty);
        let wrong = [
            (!is_url, ISSUER, "it should be a URL such as https://login.example.com/realms/weir, without ? and #"),
            (
                is_open,
                ISSUER,
                "without TLS anybody on the way may log in as somebody else; use https, or set auth.oidc.plain-http",
            ),
            (
                settings.client.is_none() && settings.audience.is_none(),
                ISSUER,
                "nobody could log in; set auth.oidc.client-id for browsers, auth.oidc.audience for bearer tokens, or both",
            ),
            (
                settings.client.is_none() && secret.is_some(),
                "auth.oidc.client-secret",
                "a secret needs the client whose it is; set auth.oidc.client-id",
            ),
            (empty(settings.audience.as_deref()), "auth.oidc.audience", "it is empty; write one, or leave it out"),
            (
                empty(settings.client.as_ref().map(|client| client.id.as_str())),
                "auth.oidc.client-id",
                "it is empty; write one, or leave it out",
            ),
            (!settings.scopes.iter().any(|scope| scope == "openid"), "auth.oidc.scopes", "openid must be among them"),
            (settings.roles_claim.is_empty(), "auth.oidc.roles-claim", "it is empty; write one, or leave it out"),
            (settings.session_lifetime.is_zero(), "auth.session.lifetime", "a login that ends at once is none"),
        ];
        for (_, path, reason) in wrong.iter().filter(|(is_wrong, ..)| *is_wrong) {
            let place = self.place(path);
            self.problems.push(format!("{place}: {reason}"));
        }
        Some(settings)
    }

    /// One that no browser sends would let nobody in.
    fn origins(&mut self, key: &str) -> Vec<String> {
        let origins = self.texts(key);
        for wrong in origins.iter().filter(|origin| !is_origin(origin)) {
            self.problems.push(format!(
                "{}: '{wrong}' is no origin; write it as browsers do, such as 'https://weir.example.com:8443', or '*' for all",
                self.place(key)
            ));
        }
        origins
    }

    /// Beside the store, where there is one on the disk.
    fn memory(&mut self, store: &StoreSettings) -> MemorySettings {
        let directory = self.path(MEMORY_DIRECTORY);
        MemorySettings {
            limit: self.text("memory.limit").unwrap_or_default(),
            directory: directory.unwrap_or_else(|| MemorySettings::directory_beside(store)),
        }
    }

    fn store(&mut self, kind: &str) -> StoreSettings {
        match kind {
            "in-memory" => StoreSettings::InMemory,
            "empty" => StoreSettings::Empty,
            "map-db" if cfg!(feature = "map-db") => {
                StoreSettings::MapDb { path: self.path(STORE_PATH), create_parent_dir: self.boolean("store.create-parent-dir") }
            }
            "rocks-db" if cfg!(feature = "rocks-db") => StoreSettings::RocksDb {
                path: self.path(STORE_PATH).unwrap_or_else(|| self.usual_path()),
                sync_all_writes: self.boolean("store.sync-all-writes"),
                create_parent_dir: self.boolean("store.create-parent-dir"),
            },
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

    /// Where the data lie when no key says so.
    fn usual_path(&mut self) -> PathBuf {
        let given = DATA_VARIABLES.iter().find_map(|name| (self.environment)(name).map(|path| (name, path)));
        let Some((name, path)) = given else { return DATA_PATH.into() };
        if path.is_empty() {
            self.problems.push(format!("{OF_ENVIRONMENT}{name}: {EMPTY_PATH}"));
        }
        path.into()
    }

    /// An empty path names nothing, and what opens it could not say which key it came from.
    fn path(&mut self, key: &str) -> Option<PathBuf> {
        let path = self.text(key)?;
        if path.is_empty() {
            self.problems.push(format!("{}: {EMPTY_PATH}", self.place(key)));
        }
        Some(path.into())
    }

    /// `store.path` is another name of `store.filepath`: it takes its place where a stronger source has it. Where both stand in
    /// one, nothing says which is meant.
    fn take_other_store_path(&mut self) {
        let Some(other) = self.values.remove(OTHER_STORE_PATH) else { return };
        if let Some(one) = self.values.get(STORE_PATH) {
            let text = |value| convert(value, Kind::Text);
            if Layer::of(&one.1) == Layer::of(&other.1) && text(&one.1) != text(&other.1) {
                let [one, other] = [one, &other].map(|(name, value)| (name, &value.origin, describe(value)));
                self.problems.push(format!(
                    "{}: {} is {}, and {}, which means the same, is {} ({}); leave one of them out",
                    other.1, other.0, other.2, one.0, one.2, one.1
                ));
            }
            if Layer::of(&one.1) >= Layer::of(&other.1) {
                return;
            }
        }
        self.values.insert(STORE_PATH.to_owned(), other);
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
            _ => IdScheme::Uuid,
        }
    }

    /// What is wrong with one is told by its place in the list.
    fn reporters(&mut self) -> Vec<ReporterSettings> {
        let Some(Json::Array(items)) = self.checked("metrics-reporters") else {
            return Vec::new();
        };
        let mut reporters = Vec::new();
        for (index, item) in items.iter().enumerate() {
            match ReporterSettings::read(item) {
                Ok(reporter) => reporters.push(reporter),
                Err(reason) => self.problems.push(format!("{}[{index}]: {reason}", self.place("metrics-reporters"))),
            }
        }
        reporters
    }

    fn log_level(&mut self) -> String {
        let level = self.text("log.level").unwrap_or_default();
        if let Err(reason) = log::check_level(&level) {
            self.problems.push(format!("{} is '{level}': {reason}", self.place("log.level")));
        }
        level
    }

    /// None without an endpoint.
    fn traces(&mut self) -> Option<TraceSettings> {
        let headers = match self.checked(TRACE_HEADERS) {
            Some(Json::Object(fields)) => {
                // A key that consists of digits is one all the same.
                let text = |value: &Json| match value {
                    Json::String(text) => Some(text.clone()),
                    Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
                    Json::Null | Json::Array(_) | Json::Object(_) => None,
                };
                fields.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect()
            }
            _ => None,
        };
        if headers.is_none() {
            self.problems.push(format!("{} should be an object of texts", self.place(TRACE_HEADERS)));
        }
        let ratio = self.checked("traces.ratio").and_then(|ratio| ratio.as_f64()).unwrap_or(1.0);
        let service_name = self.text("traces.service-name").unwrap_or_default();
        let endpoint = self.text("traces.endpoint").filter(|endpoint| !endpoint.is_empty())?;
        let authority = ["http://", "https://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme));
        match authority.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default()) {
            Some(authority) if !authority.is_empty() && !authority.contains('@') => {}
            // It is not shown: it may hold a password.
            _ => self.problems.push(format!(
                "{} should be a URL such as 'http://localhost:4318/v1/traces'; keys and passwords stand in {TRACE_HEADERS}",
                self.place("traces.endpoint")
            )),
        }
        Some(TraceSettings { endpoint, headers: headers.unwrap_or_default(), service_name, ratio })
    }
}

/// Whether who listens there is reached at 127.0.0.1 as well.
fn is_on_loopback(address: &str) -> bool {
    address == "localhost"
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// The types of store that this binary has.
pub fn stores_built_in() -> Vec<&'static str> {
    let optional = [("rocks-db", cfg!(feature = "rocks-db")), ("map-db", cfg!(feature = "map-db"))];
    let there = optional.into_iter().filter(|(_, built)| *built).map(|(name, _)| name);
    there.chain(["in-memory", "empty"]).collect()
}
