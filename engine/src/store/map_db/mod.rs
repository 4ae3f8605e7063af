//! The store in one file, by redb: written in Rust alone, so it is there wherever weir is, and the file can be carried away.
//!
//! Three tables with the keys of `keys`, as the store in RocksDB has them. redb has one writer at a time, and what a transaction
//! has committed survives the loss of power; so groups of the log share a sync, and long runs are written in portions between
//! which the log gets its turn. A run counts as long as its record is there; what is left of one without is removed in portions,
//! too (`removal`).

mod begun;
mod removal;
#[cfg(test)]
mod tests;
mod unchanged;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use redb::backends::FileBackend;
use redb::{Database, ReadTransaction, ReadableDatabase, StorageBackend, Table, TableDefinition, TableHandle, WriteTransaction};
use rustc_hash::FxHashSet;
use weir_model::lock::{read, write};
use weir_model::{Text, Tick};

use super::directory::warn_if_open_to_all;
use super::entry::LogReader;
use super::keys::{self, after_prefix, log_key, page_key, progress_key, run_key, take_log_key, take_number, take_page_key};
use super::meta::{self, EachRecord, Meta};
use super::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, RunId, RunInfo, Sizes, Store, StoreError,
    records,
};
use crate::memory::at_most;
use removal::{Leftover, Removal};
use unchanged::Unchanged;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

const LOG: Definition = TableDefinition::new("log");
const PAGES: Definition = TableDefinition::new("pages");
const META: Definition = TableDefinition::new("meta");

/// Names the format of the tables: under the key of this name in `META`, unsealed.
const FORMAT: &[u8] = b"weir-map-db-5";

/// Formats of before, whose entries were not packed, whose chunks held whole values, and at first were not compressed: read, and
/// made one of `FORMAT`.
const FORMATS_BEFORE: [&[u8]; 4] = [b"weir-map-db-4", b"weir-map-db-3", b"weir-map-db-2", b"weir-map-db-1"];

/// Memory for what was read.
const CACHE_BYTES: usize = 64 << 20;

/// A run is written, and removed, in transactions of about this size, so that the log never waits long.
const PORTION_BYTES: usize = 8 << 20;

#[derive(Clone, Debug)]
pub struct MapDbOptions {
    pub path: PathBuf,
    pub create_parent_dir: bool,
    /// The file is of use to nobody after the store is closed.
    pub temporary: bool,
}

impl MapDbOptions {
    pub fn new(path: impl Into<PathBuf>) -> MapDbOptions {
        MapDbOptions { path: path.into(), create_parent_dir: false, temporary: false }
    }
}

pub struct MapDb {
    db: Arc<Database>,
    /// None where nothing is changed.
    removal: Option<Removal>,
    options: MapDbOptions,
    graphs: RwLock<Graphs>,
    next_run: AtomicU64,
    read_only: bool,
}

/// Held for reading while entries are written, for writing while a graph comes or goes.
struct Graphs {
    live: FxHashSet<GraphId>,
    next: u32,
}

type Bytes<'t> = Table<'t, &'static [u8], &'static [u8]>;

impl MapDb {
    pub fn open(options: MapDbOptions) -> Result<MapDb, StoreError> {
        let path = &options.path;
        let refused = |problem: String, hint| StoreError::Directory { path: path.clone(), problem, hint };
        if path.is_dir() {
            return Err(refused("it is a directory".into(), "give a file (store.filepath)"));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir());
        if let Some(parent) = parent {
            if !options.create_parent_dir {
                let hint = "create it, or set store.create-parent-dir = true";
                return Err(refused("the directory above it does not exist".into(), hint));
            }
            std::fs::create_dir_all(parent).map_err(|error| StoreError::failed(format!("create {}", parent.display()), error))?;
        }
        let open = || -> Result<(Database, bool), redb::DatabaseError> {
            let file = FileBackend::new(file(path, options.temporary)?)?;
            begun::empty(&file)?;
            let fresh = file.len()? == 0;
            let db = verifying().set_cache_size(at_most(CACHE_BYTES, 32)).create_with_backend(file)?;
            Ok((db, fresh))
        };
        let opened = open();
        warn_if_open_to_all(path);
        let (db, fresh) = opened.map_err(|error| unusable(path, error))?;
        MapDb::with(db, options, fresh, false)
    }

    /// Opens a store that is there, of which nothing is changed: also where nothing can be written.
    pub fn open_to_read(options: MapDbOptions) -> Result<MapDb, StoreError> {
        let path = &options.path;
        let file = File::open(path).map_err(|error| StoreError::failed(format!("open {}", shown(path)), error))?;
        let unchanged = Unchanged::new(file).map_err(|error| unusable(path, error))?;
        let db = verifying().set_cache_size(at_most(CACHE_BYTES, 32)).create_with_backend(unchanged);
        let db = db.map_err(|error| unusable(path, error))?;
        MapDb::with(db, options, false, true)
    }

    /// Opens a store in something else that takes bytes at offsets, such as a simulated file.
    pub fn on(backend: impl StorageBackend) -> Result<MapDb, StoreError> {
        let options = MapDbOptions::new("a simulated file");
        let fresh = backend.len().is_ok_and(|length| length == 0);
        let db = verifying().set_cache_size(0).create_with_backend(backend);
        MapDb::with(db.map_err(|error| unusable(&options.path, error))?, options, fresh, false)
    }

    fn with(db: Database, options: MapDbOptions, fresh: bool, read_only: bool) -> Result<MapDb, StoreError> {
        let graphs = RwLock::new(Graphs { live: FxHashSet::default(), next: 0 });
        let (db, next_run) = (Arc::new(db), AtomicU64::new(0));
        let mut store = MapDb { db, removal: None, options, graphs, next_run, read_only: false };
        // In memory alone, where nothing is to be changed.
        store.set_up(fresh)?;
        store.load_graphs()?;
        let orphans = store.find_orphans()?;
        store.read_only = read_only;
        if !read_only {
            let removal = Removal::start(store.db.clone(), shown(&store.options.path));
            store.removal = Some(removal.map_err(|error| StoreError::failed("start the thread that removes leftovers", error))?);
            store.remove_later(orphans);
        }
        Ok(store)
    }

    /// Waits until what belongs to nothing any more has been removed, as far as that can be; for tools and tests.
    pub fn wait_removed(&self) {
        if let Some(removal) = &self.removal {
            removal.wait();
        }
    }

    fn remove_later(&self, leftovers: Vec<Leftover>) {
        if let Some(removal) = self.removal.as_ref().filter(|_| !leftovers.is_empty()) {
            removal.begin(leftovers);
        }
    }

    fn set_up(&self, fresh: bool) -> Result<(), StoreError> {
        let mark =
            || self.write("set up the store", |tables| tables.meta.insert(&b"v"[..], FORMAT).map(drop).map_err(Into::into));
        if fresh {
            return mark();
        }
        let read = self.read()?;
        let tables = read.list_tables().map_err(|error| self.read_error(error.into(), "the list of tables"))?;
        let names: Vec<String> = tables.map(|table| table.name().to_owned()).collect();
        if names.is_empty() {
            // The process ended before it was set up.
            return self.set_up(true);
        }
        let is_ours = names.iter().any(|name| name == META.name());
        let format = if is_ours { self.get_raw(META, b"v")? } else { None };
        if format.as_deref() == Some(FORMAT) {
            return Ok(());
        }
        if format.as_deref().is_some_and(|format| FORMATS_BEFORE.contains(&format)) {
            return mark();
        }
        let found = "a redb file that is not weir's, or a newer one";
        Err(StoreError::ForeignFile { path: self.options.path.clone(), found })
    }

    fn load_graphs(&mut self) -> Result<(), StoreError> {
        let live: FxHashSet<GraphId> = Store::graphs(self)?.into_iter().map(|info| info.id).collect();
        let what = "the number of the next graph";
        let next = self.get(b"n", what)?.map_or(Some(0), |bytes| take_number(&bytes));
        let next = next.filter(|next| live.iter().all(|id| id.0 < *next));
        let next = next.ok_or_else(|| self.damaged("a number that was never given", what))?;
        self.graphs = RwLock::new(Graphs { live, next });
        Ok(())
    }

    /// Pages of runs that were not completed, or were replaced, and what is left of graphs that were dropped: the process ended
    /// before they were removed.
    fn find_orphans(&mut self) -> Result<Vec<Leftover>, StoreError> {
        let live = self.read_graphs().live.clone();
        let mut complete = FxHashSet::default();
        for graph in &live {
            complete.extend(self.runs(*graph)?.into_iter().map(|run| (*graph, run.id)));
        }
        let mut next = complete.iter().map(|(_, run)| run.0 + 1).max().unwrap_or(0);
        let unknown = |place| self.damaged("a key of unknown form", place);
        let mut orphans = Vec::new();
        let mut from = Vec::new();
        while let Some(key) = self.first_key(PAGES, &from)? {
            let (graph, run) = take_page_key(&key).ok_or_else(|| unknown("the pages"))?;
            next = next.max(run.0 + 1);
            let pages = Leftover::of_run(graph, run);
            from.clone_from(&pages.to);
            if !complete.contains(&(graph, run)) {
                orphans.push(pages);
            }
        }
        from.clear();
        while let Some(key) = self.first_key(LOG, &from)? {
            let (graph, _) = take_log_key(&key).ok_or_else(|| unknown("the log"))?;
            let log = Leftover::of_graph(LOG, graph);
            from.clone_from(&log.to);
            if !live.contains(&graph) {
                orphans.push(log);
            }
        }
        self.next_run = AtomicU64::new(next);
        Ok(orphans)
    }

    fn first_key(&self, table: Definition, from: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut found = None;
        self.scan(table, from, &[u8::MAX; 24], &mut |key, _| {
            found = Some(key.to_vec());
            Err(StoreError::Stopped)
        })
        .or_else(stopped)?;
        Ok(found)
    }

    fn read_graphs(&self) -> std::sync::RwLockReadGuard<'_, Graphs> {
        read(&self.graphs)
    }

    /// One transaction: all of it is there afterwards, or nothing.
    fn write(&self, doing: &str, act: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>) -> Result<(), StoreError> {
        let run = || -> Result<(), redb::Error> {
            let mut transaction: WriteTransaction = self.db.begin_write()?;
            transaction.set_two_phase_commit(true);
            let mut tables = Tables {
                log: transaction.open_table(LOG)?,
                pages: transaction.open_table(PAGES)?,
                meta: transaction.open_table(META)?,
            };
            act(&mut tables)?;
            drop(tables);
            transaction.commit()?;
            Ok(())
        };
        let doing = || format!("{doing} in {}", shown(&self.options.path));
        if self.read_only {
            return Err(StoreError::failed(doing(), "it was opened to be read only"));
        }
        run().map_err(|error| StoreError::failed(doing(), error))
    }

    fn read(&self) -> Result<ReadTransaction, StoreError> {
        self.db.begin_read().map_err(|error| self.read_error(error.into(), "the store"))
    }

    fn get_raw(&self, table: Definition, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let find = || -> Result<_, redb::Error> {
            let table = self.db.begin_read()?.open_table(table)?;
            Ok(table.get(key)?.map(|value| value.value().to_vec()))
        };
        find().map_err(|error| self.read_error(error, "a value"))
    }

    /// Hands out `from..to` as of now.
    fn scan(&self, table: Definition, from: &[u8], to: &[u8], each: EachRecord<'_>) -> Result<(), StoreError> {
        let transaction = self.read()?;
        self.scan_in(&transaction, table, from, to, each)
    }

    fn scan_in(
        &self,
        transaction: &ReadTransaction,
        table: Definition,
        from: &[u8],
        to: &[u8],
        each: EachRecord<'_>,
    ) -> Result<(), StoreError> {
        let failed = |error: redb::Error| self.read_error(error, table.name());
        let table = transaction.open_table(table).map_err(|error| failed(error.into()))?;
        for item in table.range(from..to).map_err(|error| failed(error.into()))? {
            let (key, value) = item.map_err(|error| failed(error.into()))?;
            each(key.value(), value.value())?;
        }
        Ok(())
    }

    fn read_error(&self, error: redb::Error, place: &str) -> StoreError {
        match error {
            redb::Error::Corrupted(what) => self.damaged(what, place),
            other => StoreError::failed(format!("read {place} from {}", shown(&self.options.path)), other),
        }
    }

    /// Writes the chunks of a run, in portions; the last of them is left for the transaction that completes it.
    fn write_run(&self, graph: GraphId, id: RunId, run: NewRun<'_>) -> Result<(RunInfo, Vec<Sealed>), StoreError> {
        let mut info = RunInfo { id, first: run.first, upper: run.upper, chunks: Default::default(), bytes: 0 };
        let (mut waiting, mut bytes) = (Vec::new(), 0);
        for chunk in run.chunks {
            let (part, chunk) = chunk?;
            let key = page_key(graph, id, part, info.chunks[part as usize]);
            info.chunks[part as usize] += 1;
            info.bytes += chunk.len() as u64;
            bytes += chunk.len();
            waiting.push((key, records::seal(&key, chunk)));
            if bytes >= PORTION_BYTES {
                let portion = std::mem::take(&mut waiting);
                self.write("write pages", |tables| put(&mut tables.pages, &portion))?;
                bytes = 0;
            }
        }
        Ok((info, waiting))
    }

    fn must_be_live(&self, graph: GraphId) -> Result<(), StoreError> {
        if self.read_graphs().live.contains(&graph) { Ok(()) } else { Err(StoreError::NoSuchGraph(graph)) }
    }

    /// Writes a run and completes it. What there is of one that fails is removed. Where not even that is known, as the file
    /// failed, redb refuses to write anything more.
    fn add_run(
        &self,
        graph: GraphId,
        run: NewRun<'_>,
        act: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>,
    ) -> Result<RunInfo, StoreError> {
        self.must_be_live(graph)?;
        let id = RunId(self.next_run.fetch_add(1, Ordering::Relaxed));
        let added = self.write_run(graph, id, run).and_then(|(info, rest)| self.complete(graph, info, &rest, act));
        added.inspect_err(|_| self.remove_later(vec![Leftover::of_run(graph, id)]))
    }

    /// Completes a run, unless its graph was dropped while it was written.
    fn complete(
        &self,
        graph: GraphId,
        info: RunInfo,
        rest: &[Sealed],
        act: impl FnOnce(&mut Tables<'_>) -> Result<(), redb::Error>,
    ) -> Result<RunInfo, StoreError> {
        let graphs = self.read_graphs();
        if !graphs.live.contains(&graph) {
            return Err(StoreError::NoSuchGraph(graph));
        }
        self.write("complete a checkpoint", |tables| {
            put(&mut tables.pages, rest)?;
            tables.seal(&run_key(graph, info.id), records::put_run(&info))?;
            act(tables)
        })?;
        Ok(info)
    }
}

type Sealed = ([u8; 20], Vec<u8>);

struct Tables<'t> {
    log: Bytes<'t>,
    pages: Bytes<'t>,
    meta: Bytes<'t>,
}

impl Tables<'_> {
    fn seal(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), redb::Error> {
        self.meta.insert(key, &records::seal(key, value)[..])?;
        Ok(())
    }
}

fn put(table: &mut Bytes<'_>, chunks: &[Sealed]) -> Result<(), redb::Error> {
    for (key, chunk) in chunks {
        table.insert(&key[..], &chunk[..])?;
    }
    Ok(())
}

fn remove(table: &mut Bytes<'_>, from: &[u8], to: &[u8]) -> Result<(), redb::Error> {
    Ok(table.retain_in(from..to, |_, _| false)?)
}

/// The file, to be written to. A new one is for its user alone, as secrets of streams are among the data; a temporary one lies
/// where others could have put something else under its name.
fn file(path: &Path, temporary: bool) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).create_new(temporary).truncate(false).mode(0o600).open(path)
}

/// Opens a file when every page of it fits its checksum: in a tree that has lost a branch everything else looks well.
fn verifying() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_check_integrity_on_open(true);
    builder
}

/// Why a file could not be opened.
fn unusable(path: &Path, error: redb::DatabaseError) -> StoreError {
    use redb::{DatabaseError, StorageError};
    match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::Locked { path: path.to_owned(), holder: None },
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
            StoreError::ForeignFile { path: path.to_owned(), found: "a file of something else" }
        }
        DatabaseError::Storage(StorageError::Corrupted(what)) => StoreError::damaged(what, shown(path)),
        other => StoreError::failed(format!("open {}", shown(path)), other),
    }
}

/// The end of a scan that was looked at as far as it was wanted.
fn stopped(error: StoreError) -> Result<(), StoreError> {
    if matches!(error, StoreError::Stopped) { Ok(()) } else { Err(error) }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Drop for MapDb {
    fn drop(&mut self) {
        // Before the file is somebody else's.
        self.removal = None;
        if self.options.temporary {
            // Open files may be removed; where not, the next start of the machine does it.
            let _ = std::fs::remove_file(&self.options.path);
        }
    }
}

impl Meta for MapDb {
    fn get(&self, key: &[u8], what: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let open = |sealed: Vec<u8>| records::unseal(key, &sealed).map(<[u8]>::to_vec);
        self.get_raw(META, key)?.map(open).transpose().map_err(|wrong| self.damaged(wrong, what))
    }

    fn scan_meta(&self, prefix: &[u8], what: &str, each: EachRecord<'_>) -> Result<(), StoreError> {
        self.scan(META, prefix, &after_prefix(prefix), &mut |key, sealed| {
            let value = records::unseal(key, sealed).map_err(|wrong| self.damaged(wrong, what))?;
            each(&key[prefix.len()..], value)
        })
    }

    fn damaged(&self, what: impl Into<String>, place: &str) -> StoreError {
        StoreError::damaged(what, format!("{place} ({})", shown(&self.options.path)))
    }
}

impl Store for MapDb {
    fn kind(&self) -> &'static str {
        "map-db"
    }

    fn durable(&self) -> bool {
        true
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn hold(&self, _: &Arc<Entry>) {}

    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, _: bool) -> Result<(), StoreError> {
        let graphs = self.read_graphs();
        self.write("append to the log", |tables| {
            for (number, name) in (symbols.first..).zip(symbols.names) {
                tables.seal(&keys::symbol_key(number as u32), name.as_bytes().to_vec())?;
            }
            for entry in group.iter().filter(|entry| graphs.live.contains(&entry.graph)) {
                tables.log.insert(&log_key(entry.graph, entry.first)[..], entry.bytes)?;
            }
            Ok(())
        })
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Of a graph that was dropped some of it is there for a while.
        if !self.read_graphs().live.contains(&graph) {
            return Ok(());
        }
        // One transaction sees the log and how far it was cut as of one moment.
        let transaction = self.read()?;
        let mut upto = Tick::ZERO;
        let key = progress_key(graph);
        let what = format!("the progress of graph {}", graph.0);
        self.scan_in(&transaction, META, &key, &after_prefix(&key), &mut |key, sealed| {
            let progress = records::unseal(key, sealed).and_then(records::take_progress);
            upto = progress.map_err(|wrong| self.damaged(wrong, &what))?.upto;
            Ok(())
        })?;
        let from = from.max(upto);
        let mut reader = LogReader::new(graph, from);
        let end = after_prefix(&graph.0.to_be_bytes());
        self.scan_in(&transaction, LOG, &log_key(graph, from), &end, &mut |key, bytes| {
            let first = key.last_chunk().map(|tick| Tick(u64::from_be_bytes(*tick))).unwrap_or_default();
            each(reader.decode(first, bytes)?)
        })
    }

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.add_run(graph, run, |tables| {
            tables.seal(&progress_key(graph), records::put_progress(progress))?;
            remove(&mut tables.log, &log_key(graph, Tick::ZERO), &log_key(graph, progress.upto))
        })
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        let info = self.add_run(graph, run, |tables| {
            for old in replaced {
                tables.meta.remove(&run_key(graph, *old)[..])?;
            }
            Ok(())
        })?;
        self.remove_later(replaced.iter().map(|old| Leftover::of_run(graph, *old)).collect());
        Ok(info)
    }

    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        meta::runs(self, graph)
    }

    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let place = format!("run {} of graph {}", run.0, graph.0);
        let info = meta::run(self, graph, run)?;
        let chunks = info.chunks[part as usize];
        let mut count = 0;
        self.scan(PAGES, &page_key(graph, run, part, 0), &page_key(graph, run, part, chunks), &mut |key, sealed| {
            if key != page_key(graph, run, part, count) {
                return Err(StoreError::Stopped);
            }
            let chunk = records::unseal(key, sealed).map_err(|wrong| self.damaged(wrong, &format!("{place}, chunk {count}")))?;
            count += 1;
            each(chunk)
        })
        .or_else(|error| if count < chunks { stopped(error) } else { Err(error) })?;
        if count == chunks { Ok(()) } else { Err(self.damaged(format!("chunk {count} of {chunks} is missing"), &place)) }
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let place = || format!("run {} of graph {}, chunk {number}", run.0, graph.0);
        let key = page_key(graph, run, part, number);
        let find = || -> Result<_, redb::Error> {
            let transaction = self.db.begin_read()?;
            // Of a run that was replaced some chunks are there for a while.
            if transaction.open_table(META)?.get(&run_key(graph, run)[..])?.is_none() {
                return Ok(None);
            }
            Ok(transaction.open_table(PAGES)?.get(&key[..])?.map(|value| value.value().to_vec()))
        };
        let open = |sealed: Vec<u8>| records::unseal(&key, &sealed).map(<[u8]>::to_vec);
        let found = find().map_err(|error| self.read_error(error, "a value"))?;
        found.map(open).transpose().map_err(|wrong| self.damaged(wrong, &place()))
    }

    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        meta::progress(self, graph)
    }

    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        let mut graphs = write(&self.graphs);
        let id = GraphId(graphs.next);
        self.write("create a graph", |tables| {
            tables.seal(&keys::graph_key(id), records::put_graph(name, options))?;
            tables.seal(b"n", (id.0 + 1).to_be_bytes().to_vec())
        })?;
        graphs.live.insert(id);
        graphs.next += 1;
        Ok(id)
    }

    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        let mut graphs = write(&self.graphs);
        if !graphs.live.contains(&graph) {
            return Ok(());
        }
        self.write("drop a graph", |tables| {
            tables.meta.remove(&keys::graph_key(graph)[..])?;
            tables.meta.remove(&progress_key(graph)[..])?;
            for prefix in [keys::runs_prefix(graph), keys::metadata_key(&graph.metadata_prefix())] {
                remove(&mut tables.meta, &prefix, &after_prefix(&prefix))?;
            }
            Ok(())
        })?;
        graphs.live.remove(&graph);
        drop(graphs);
        self.remove_later(vec![Leftover::of_graph(LOG, graph), Leftover::of_graph(PAGES, graph)]);
        Ok(())
    }

    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError> {
        meta::graphs(self)
    }

    fn symbols(&self) -> Result<Vec<Text>, StoreError> {
        meta::symbols(self)
    }

    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        meta::metadata(self, key)
    }

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.write("store metadata", |tables| tables.seal(&keys::metadata_key(key), value.to_vec()))
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        self.write("delete metadata", |tables| {
            tables.meta.remove(&keys::metadata_key(key)[..])?;
            Ok(())
        })
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        meta::list_metadata(self, prefix)
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Every transaction was.
        Ok(())
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        let stored = |table: Definition| -> Result<u64, redb::Error> {
            let table = self.db.begin_read()?.open_table(table)?;
            Ok(redb::ReadableTableMetadata::stats(&table)?.stored_bytes())
        };
        let size = |table| stored(table).map_err(|error| self.read_error(error, "the sizes of tables"));
        Ok(Sizes { log: size(LOG)?, pages: size(PAGES)?, other: size(META)? })
    }
}
