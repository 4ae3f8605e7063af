//! What a configuration says, typed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value as Json;
use weir_engine::{GraphOptions, Retention};
use weir_model::IdScheme;

use super::keys::KEYS;
use super::values::put;
use super::{MEMORY_DIRECTORY, STORE_PATH};
use crate::auth::AuthSettings;
use crate::metrics::ReporterSettings;
use crate::queries::QuerySettings;
use crate::tls::TlsFiles;
use crate::traces::TraceSettings;

#[derive(Clone, Debug)]
pub struct Settings {
    pub webserver: Webserver,
    /// Logins, where there are any.
    pub auth: Option<AuthSettings>,
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
    /// Takes another store than the configured one, in memory where there is no place for one, and tells so. What has no room
    /// in memory lies beside it, unless another place was given.
    pub fn keep_in(&mut self, place: Option<PathBuf>, why: &str) {
        self.told.retain(|told| !["store.type", STORE_PATH].contains(&told.path));
        if let Some(store) = self.effective.get_mut("store").and_then(Json::as_object_mut) {
            store.remove("filepath");
        }
        self.store = match place {
            Some(path) => StoreSettings::RocksDb { path, sync_all_writes: false, create_parent_dir: true },
            None => StoreSettings::InMemory,
        };
        let path = self.store.path().map(|path| Json::from(path.display().to_string()));
        let kind = if path.is_some() { "rocks-db" } else { "in-memory" };
        for (key, value) in [("store.type", Some(kind.into())), (STORE_PATH, path)] {
            let Some(value) = value else { continue };
            if let Json::Object(effective) = &mut self.effective {
                put(effective, key, value.clone());
            }
            self.told.push(Told { path: key, value, origin: why.to_owned(), note: "" });
        }
        if self.told.iter().all(|told| told.path != MEMORY_DIRECTORY) {
            self.memory.directory = MemorySettings::directory_beside(&self.store);
        }
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

impl MemorySettings {
    /// Beside the store, where there is one on the disk.
    pub(super) fn directory_beside(store: &StoreSettings) -> PathBuf {
        let above = |path: &Path| path.ancestors().find(|above| above.is_dir()).map(Path::to_path_buf);
        let here = |path: &Path| if path.is_relative() { Path::new(".").join(path) } else { path.to_path_buf() };
        store.path().and_then(|path| above(&here(path))).unwrap_or_else(std::env::temp_dir)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn loaded(overrides: &[(&str, &str)]) -> Settings {
        let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        load(&Sources { overrides, ..Sources::default() }, &|_| None).expect("loads")
    }

    /// The file for what has no room was made beside the store that was not used, which may lie on a disk that is read-only.
    #[test]
    fn what_has_no_room_in_memory_lies_beside_the_store_that_is_used() {
        let place = tempfile::tempdir().expect("a directory");
        let store = place.path().join("graph.weir-data");
        let mut settings = loaded(&[("weir.store.path", "/proc/none")]);
        settings.keep_in(Some(store.clone()), "a test");
        assert_eq!((settings.memory.directory.as_path(), settings.store.path()), (place.path(), Some(store.as_path())));
        let mut settings = loaded(&[("weir.memory.directory", "/given")]);
        settings.keep_in(Some(store), "a test");
        assert_eq!(settings.memory.directory, Path::new("/given"));
    }

    #[test]
    fn a_store_in_memory_can_take_the_place_of_another() {
        let mut settings = loaded(&[("weir.store.path", "/proc/none")]);
        settings.keep_in(None, "a test");
        assert_eq!((&settings.store, settings.memory.directory), (&StoreSettings::InMemory, std::env::temp_dir()));
        assert_eq!(settings.effective["store"]["type"], "in-memory");
        assert_eq!(settings.effective["store"].get("filepath"), None);
        let told: Vec<_> = settings.told.iter().filter(|told| ["store.type", STORE_PATH].contains(&told.path)).collect();
        assert_eq!((told.len(), told[0].origin.as_str()), (1, "a test"));
    }
}
