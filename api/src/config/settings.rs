//! What a configuration says, typed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use weir_engine::{GraphOptions, Retention};
use weir_model::IdScheme;

use super::STORE_PATH;
use super::keys::KEYS;
use super::values::put;
use crate::metrics::ReporterSettings;
use crate::queries::QuerySettings;
use crate::tls::TlsFiles;
use crate::traces::TraceSettings;

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
    pub memory: MemorySettings,
    pub query: QuerySettings,
    /// Outputs that write one because of the other, at most.
    pub chain_max: u32,
    pub should_resume_ingest: bool,
    pub file_ingest: FileIngest,
    /// Where outputs may write files; anywhere when not given.
    pub file_output: Option<Vec<PathBuf>>,
    /// Web servers that queries and outputs may ask.
    pub allowed_hosts: Vec<String>,
    pub secrets: SecretSettings,
    pub dump: bool,
    pub log: LogSettings,
    /// Where figures are written from time to time.
    pub reporters: Vec<ReporterSettings>,
    /// Where traces are told, if they are.
    pub traces: Option<TraceSettings>,
    /// Everything in force, nested as it would be written, for people and for `GET admin/config`.
    pub effective: Json,
    /// Keys that were set and do nothing here.
    pub without_effect: Vec<String>,
    /// Every key that has a value, with where that came from.
    pub told: Vec<Told>,
}

impl Settings {
    /// Takes another store than the configured one, and tells so.
    pub fn keep_in(&mut self, path: PathBuf, why: &str) {
        for (key, value) in [("store.type", Json::from("rocks-db")), (STORE_PATH, path.display().to_string().into())] {
            if let Json::Object(effective) = &mut self.effective {
                put(effective, key, value.clone());
            }
            self.told.retain(|told| told.path != key);
            self.told.push(Told { path: key, value, origin: why.to_owned(), note: "" });
        }
        self.store = StoreSettings::RocksDb { path, sync_all_writes: false, create_parent_dir: true };
        self.tell_in_order();
    }

    /// As the table of keys has them.
    pub(super) fn tell_in_order(&mut self) {
        self.told.sort_by_key(|told| KEYS.iter().position(|key| key.path == told.path));
    }
}

/// What definitions may refer to for a secret.
#[derive(Clone, Debug)]
pub struct SecretSettings {
    /// Variables of the environment, or with a star behind it what their names begin with.
    pub environment: Vec<String>,
    /// Files that lie directly in these.
    pub directories: Vec<PathBuf>,
}

/// What the process may have of memory.
#[derive(Clone, Debug)]
pub struct MemorySettings {
    /// As it is written: a size, a part of all there is, or `none`.
    pub limit: String,
    /// Where the file is kept for what has no room.
    pub directory: PathBuf,
}

/// A key in force, for people.
#[derive(Clone, Debug)]
pub struct Told {
    pub path: &'static str,
    /// Secrets masked.
    pub value: Json,
    pub origin: String,
    /// What of it does nothing here; empty where all of it has its effect.
    pub note: &'static str,
}

#[derive(Clone, Debug)]
pub struct Webserver {
    pub enabled: bool,
    pub address: String,
    pub port: u16,
    pub body_bytes_max: u64,
    /// Whether whoever reaches the port can have a backup.
    pub backups_enabled: bool,
    pub connections_max: usize,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub request_timeout: Duration,
    /// Pages from elsewhere that may open web sockets, change things and run queries.
    pub allowed_origins: Vec<String>,
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

    /// These settings, for a store in another place.
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
