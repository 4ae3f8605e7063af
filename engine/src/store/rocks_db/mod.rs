//! The store in RocksDB, the default one.
//!
//! Three column families, whatever the number of graphs, so that a graph is created and dropped by a few small writes:
//!
//!     log       large values, written in order, dropped soon
//!     pages     written once in order, mostly as ready-made files
//!     meta      small records
//!
//! What lies under which key says `keys`. A run counts once its record is there; what a crash left of others is removed at the
//! next start. The write-ahead log of RocksDB makes writes to all three families atomic and durable.
//!
//! A log begins where the progress of its graph says. What is before that goes when whole files of it do, or when RocksDB writes
//! what is left of one anew: no marks are written over it, which would lie over files of entries and keep RocksDB from moving
//! those to their last level as they are.

mod runs;
#[cfg(test)]
mod tests;
mod tuning;
mod whole;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use rocksdb::{
    BottommostLevelCompaction, ColumnFamily, CompactOptions, DB, DBRawIterator, Env, ErrorKind, FlushOptions, ReadOptions,
    WriteBatch, WriteOptions,
};
use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::lock::{lock, read, write};
use weir_model::{Text, Tick};

use self::tuning::{db_options, families};
use self::whole::{check_end, check_list, check_log, list_of_files};
use super::ahead;
use super::directory::{Directory, create_private, warn_if_open_to_all};
use super::entry::LogReader;
use super::keys::{
    after_prefix, graph_key, log_key, metadata_key, page_key, progress_key, run_key, run_pages, runs_prefix, symbol_key,
    take_number, take_page_key,
};
use super::meta::{self, EachRecord, Meta};
use super::reached::{self, Note, Reached};
use super::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, RunId, RunInfo, Sizes, Store, StoreError,
    records,
};

const LOG: &str = "log";
const PAGES: &str = "pages";
const META: &str = "meta";

/// How much of the log has to be in memory, or in files, for a checkpoint to clear it out.
const SHORTEN_BYTES_MIN: u64 = 8 << 20;

/// A file of the log is moved to its last level, where it can be freed, by a thread of RocksDB's, which is given this long.
const MOVED_TIME_MAX: Duration = Duration::from_millis(100);
/// Between two looks at whether a file of the log has been moved.
const MOVED_LOOK: Duration = Duration::from_millis(5);

/// This many numbers are left out when not all runs there are could be seen: a number must not be given twice.
const RUNS_UNSEEN: u64 = 1 << 32;

/// What `wipe` does.
const WIPE: &str = "rewrite the files that keep what was purged";

/// What is read ahead for whoever goes through a stretch of keys.
const READ_AHEAD_BYTES: usize = 512 << 10;

#[derive(Clone, Debug)]
pub struct RocksDbOptions {
    pub path: PathBuf,
    /// Off: faster, and everything since RocksDB's last flush is lost when the process dies.
    pub write_ahead_log: bool,
    /// Every write survives the loss of power, not only the end of the process.
    pub sync_all_writes: bool,
    /// Create the directories above `path` as well.
    pub create_parent_dir: bool,
}

impl RocksDbOptions {
    pub fn new(path: impl Into<PathBuf>) -> RocksDbOptions {
        RocksDbOptions { path: path.into(), write_ahead_log: true, sync_all_writes: false, create_parent_dir: false }
    }
}

pub struct RocksDb {
    db: DB,
    options: RocksDbOptions,
    graphs: RwLock<Graphs>,
    begins: Begins,
    next_run: AtomicU64,
    /// Runs that are being written.
    unfinished: Mutex<BTreeSet<RunId>>,
    /// Files of runs on their way.
    incoming: PathBuf,
    read_only: bool,
    /// What it was opened without.
    without: Option<StoreError>,
    /// None where nothing is written.
    reached: Option<Mutex<Note>>,
    note_has_failed: AtomicBool,
    /// Something was found damaged. A file that is rewritten is read, and damage that is met then ends all writes.
    is_damaged: AtomicBool,
    /// Last, so that the lock is given back when RocksDB has closed.
    _directory: Directory,
}

/// Where the log of each graph begins for good, also when the newest writes are lost with the end of RocksDB's write-ahead log.
/// What is before that is left out where RocksDB writes files of the log anew.
type Begins = Arc<Mutex<FxHashMap<GraphId, Tick>>>;

/// Held for reading while entries are written, for writing while a graph comes or goes.
struct Graphs {
    live: FxHashSet<GraphId>,
    next: u32,
}

impl RocksDb {
    pub fn open(options: RocksDbOptions) -> Result<RocksDb, StoreError> {
        let mut directory = Directory::open(&options.path, "rocks-db", options.create_parent_dir)?;
        let files = directory.files();
        let begins = Begins::default();
        if directory.fresh {
            // RocksDB would make it, and its files, for everybody to read.
            create_private(&files).map_err(|error| StoreError::failed(format!("create {}", files.display()), error))?;
        } else {
            warn_if_open_to_all(&files);
            check_log(&files)?;
            check_list(&files, directory.path())?;
        }
        let (db, without) = open_as_far_as_sound(&files, directory.fresh, |whole| {
            let mut db = db_options(directory.fresh, whole);
            db.set_atomic_flush(!options.write_ahead_log);
            // The thread that writes files, of all stores of the process: records do not wait for it. The one that merges them
            // keeps its turn, or the disk would fill up while all cores are busy.
            let mut env = Env::new()?;
            env.lower_high_priority_thread_pool_cpu_priority();
            db.set_env(&env);
            DB::open_cf_descriptors(&db, &files, families(&begins))
        })?;
        let reached = Reached {
            list: list_of_files(&files).unwrap_or_default(),
            ..check_end(db.latest_sequence_number(), directory.path())?
        };
        if directory.fresh {
            directory.set_up()?;
        }
        // Not before that: what is not known in a directory that is being set up is somebody else's.
        let note = directory.path().join(reached::FILE);
        let note = Note::open(&note, reached).map_err(|error| StoreError::failed(format!("write {}", note.display()), error))?;
        let incoming = directory.path().join("incoming");
        let clean = || {
            if incoming.exists() {
                std::fs::remove_dir_all(&incoming)?;
            }
            create_private(&incoming)
        };
        clean().map_err(|error| StoreError::failed(format!("prepare {}", incoming.display()), error))?;
        let mut store = RocksDb {
            db,
            options,
            graphs: RwLock::new(Graphs { live: FxHashSet::default(), next: 0 }),
            begins,
            next_run: AtomicU64::new(0),
            unfinished: Mutex::default(),
            incoming,
            read_only: false,
            reached: Some(Mutex::new(note)),
            note_has_failed: AtomicBool::new(false),
            is_damaged: AtomicBool::new(without.is_some()),
            without,
            _directory: directory,
        };
        store.load_graphs()?;
        store.remove_orphans()?;
        Ok(store)
    }

    /// Opens a store that is there, of which nothing is changed: also where nothing can be written.
    pub fn open_to_read(options: RocksDbOptions) -> Result<RocksDb, StoreError> {
        let directory = Directory::open_to_read(&options.path, "rocks-db")?;
        let (files, begins) = (directory.files(), Begins::default());
        check_log(&files)?;
        check_list(&files, directory.path())?;
        let (db, without) = open_as_far_as_sound(&files, false, |whole| {
            DB::open_cf_descriptors_read_only(&db_options(false, whole), &files, families(&begins), false)
        })?;
        check_end(db.latest_sequence_number(), directory.path())?;
        let mut store = RocksDb {
            db,
            options,
            graphs: RwLock::new(Graphs { live: FxHashSet::default(), next: 0 }),
            begins,
            next_run: AtomicU64::new(0),
            unfinished: Mutex::default(),
            incoming: directory.path().join("incoming"),
            read_only: true,
            reached: None,
            note_has_failed: AtomicBool::new(false),
            is_damaged: AtomicBool::new(without.is_some()),
            without,
            _directory: directory,
        };
        store.load_graphs()?;
        Ok(store)
    }

    fn load_graphs(&mut self) -> Result<(), StoreError> {
        let live: FxHashSet<GraphId> = Store::graphs(self)?.into_iter().map(|info| info.id).collect();
        let next = match self.get(b"n", "the number of the next graph")? {
            Some(bytes) => {
                take_number(&bytes).ok_or_else(|| self.damaged("a length that does not match", "the number of the next graph"))?
            }
            None => 0,
        };
        if live.iter().any(|id| id.0 >= next) {
            return Err(self.damaged("a graph with a number that was never given", "the list of graphs"));
        }
        self.graphs = RwLock::new(Graphs { live, next });
        Ok(())
    }

    /// Removes pages of runs that a crash kept from being completed. What is damaged stays: it is for those to tell who read it.
    fn remove_orphans(&mut self) -> Result<(), StoreError> {
        let (mut complete, mut damaged) = (FxHashSet::default(), FxHashSet::default());
        let (live, graphs) = {
            let known = self.read_graphs();
            (known.live.clone(), known.next)
        };
        for graph in live {
            match self.runs(graph) {
                Ok(runs) => complete.extend(runs.into_iter().map(|run| (graph, run.id))),
                Err(StoreError::Damaged { .. }) => drop(damaged.insert(graph)),
                Err(error) => return Err(error),
            }
        }
        let mut next = complete.iter().map(|(_, run)| run.0 + 1).max().unwrap_or(0);
        let (mut batch, mut gone) = (WriteBatch::default(), Vec::new());
        let pages = self.family(PAGES);
        let mut iterator = self.db.raw_iterator_cf(pages);
        iterator.seek_to_first();
        let (mut at, mut unseen) = (GraphId(0), 0);
        // One seek a run: on to the key after all of its chunks.
        loop {
            let Some(key) = iterator.key() else {
                match iterator.status() {
                    Ok(()) => break,
                    Err(error) if damage(&error).is_some() => {
                        // On to the next graph. Numbers of runs that are not seen here are not given again.
                        tracing::warn!(graph = at.0, "pages that cannot be read are passed over: {error}");
                        unseen = RUNS_UNSEEN;
                        at = GraphId(at.0 + 1);
                        if at.0 >= graphs {
                            break;
                        }
                        iterator.seek(at.0.to_be_bytes());
                        continue;
                    }
                    Err(error) => return Err(self.read_error(error, "the pages")),
                }
            };
            let Some((graph, run)) = take_page_key(key) else {
                return Err(self.damaged("a key of unknown form", "the pages"));
            };
            at = graph;
            next = next.max(run.0 + 1);
            let end = run_pages(graph, RunId(run.0 + 1));
            if !complete.contains(&(graph, run)) && !damaged.contains(&graph) {
                tracing::info!(graph = graph.0, run = run.0, "removing pages that a crash left incomplete");
                batch.delete_range_cf(pages, run_pages(graph, run), end);
                gone.push((run_pages(graph, run), end));
            }
            iterator.seek(end);
        }
        drop(iterator);
        if !batch.is_empty() {
            self.write(batch, false, "remove incomplete pages")?;
        }
        for (from, end) in gone {
            self.free(PAGES, &from, &end);
        }
        self.next_run = AtomicU64::new(next + unseen);
        Ok(())
    }

    fn read_graphs(&self) -> std::sync::RwLockReadGuard<'_, Graphs> {
        read(&self.graphs)
    }

    fn family(&self, name: &str) -> &ColumnFamily {
        self.db.cf_handle(name).expect("every family was opened with the database")
    }

    /// `sync` beyond what the options say anyway.
    fn write(&self, batch: WriteBatch, sync: bool, doing: &str) -> Result<(), StoreError> {
        let sync = sync || self.options.sync_all_writes;
        let mut options = WriteOptions::default();
        options.disable_wal(!self.options.write_ahead_log);
        options.set_sync(sync && self.options.write_ahead_log);
        let place = || format!("{doing} in {}", self.options.path.display());
        let before = self.db.latest_sequence_number();
        self.db.write_opt(batch, &options).map_err(|error| StoreError::failed(place(), with_advice(&error)))?;
        if !self.options.write_ahead_log {
            // Only a flush makes anything durable.
            return if sync { self.flush(true) } else { Ok(()) };
        }
        let written = self.db.latest_sequence_number();
        // Others may have written since the sync, and without one unless all do.
        let synced = if self.options.sync_all_writes {
            written
        } else if sync {
            before
        } else {
            0
        };
        self.note_reached(Reached { written, synced, ..Reached::default() });
        Ok(())
    }

    /// What was written is written, also where no note can be made of it: an older one asks for less.
    fn note_reached(&self, reached: Reached) {
        if let Err(error) = self.has_reached(reached)
            && !self.note_has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "that the end of the log is lost may not be noticed");
        }
    }

    fn has_reached(&self, reached: Reached) -> Result<(), StoreError> {
        let Some(note) = &self.reached else { return Ok(()) };
        let mut note = lock(note);
        let doing = || format!("write {} in {}", reached::FILE, self.options.path.display());
        note.raise(reached).map_err(|error| StoreError::failed(doing(), error))
    }

    /// Writes what is in memory to files, which empties the write-ahead log: all families together, since they share it.
    fn flush(&self, wait: bool) -> Result<(), StoreError> {
        let families = [self.family(LOG), self.family(PAGES), self.family(META)];
        let mut options = FlushOptions::default();
        options.set_wait(wait);
        let doing = || format!("flush {}", self.options.path.display());
        let before = self.db.latest_sequence_number();
        self.db.flush_cfs_opt(&families, &options).map_err(|error| StoreError::failed(doing(), with_advice(&error)))?;
        if !wait {
            return Ok(());
        }
        let list = list_of_files(self.db.path()).unwrap_or_default();
        self.note_reached(Reached { written: before, synced: before, list, closed: false });
        Ok(())
    }

    /// Stands on the first key of `from..to`. For one pass, so nothing of it is kept in the cache.
    fn iterate(&self, family: &str, from: Vec<u8>, to: Vec<u8>) -> DBRawIterator<'_> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(to);
        options.fill_cache(false);
        options.set_readahead_size(READ_AHEAD_BYTES);
        let mut iterator = self.db.raw_iterator_cf_opt(self.family(family), options);
        iterator.seek(from);
        iterator
    }

    fn read_error(&self, error: rocksdb::Error, place: &str) -> StoreError {
        match damage(&error) {
            Some(what) => self.damaged(what, place),
            None => StoreError::failed(format!("read {place} from {}", self.options.path.display()), with_advice(&error)),
        }
    }

    fn must_be_live(&self, graph: GraphId) -> Result<(), StoreError> {
        if self.read_graphs().live.contains(&graph) { Ok(()) } else { Err(StoreError::NoSuchGraph(graph)) }
    }

    /// After a cut of the log of a graph, if that is worth a file: the next start has less to read, and what was cut goes.
    fn shorten_log(&self, graph: GraphId, upto: Tick) {
        let bytes = |property| self.db.property_int_value_cf(self.family(LOG), property).ok().flatten().unwrap_or(0);
        if bytes("rocksdb.cur-size-all-mem-tables").max(bytes("rocksdb.total-sst-files-size")) <= SHORTEN_BYTES_MIN {
            return;
        }
        if let Err(error) = self.flush(true) {
            tracing::warn!(%error, "the log stays as long as it is");
            return;
        }
        // Where it begins is in a file now.
        self.begins().insert(graph, upto);
        let deadline = Instant::now() + MOVED_TIME_MAX;
        while bytes("rocksdb.num-files-at-level0") > 0 && Instant::now() < deadline {
            std::thread::sleep(MOVED_LOOK);
        }
        self.free(LOG, &log_key(graph, Tick::ZERO), &log_key(graph, upto));
        self.tidy_log();
    }

    fn begins(&self) -> MutexGuard<'_, FxHashMap<GraphId, Tick>> {
        lock(&self.begins)
    }

    /// RocksDB's write-ahead log, on the disk.
    fn ahead_bytes(&self) -> Result<u64, StoreError> {
        let files = std::fs::read_dir(self.db.path())
            .map_err(|error| StoreError::failed(format!("list {}", self.db.path().display()), error))?;
        Ok(files
            .filter_map(Result::ok)
            .filter(|item| item.path().extension().is_some_and(|extension| extension == "log"))
            .filter_map(|item| item.metadata().ok())
            .map(|metadata| metadata.len())
            .sum())
    }

    /// Files in which a little is not dead outlive a cut of the log, as do those of several graphs: what is dead in them goes
    /// now, if there is much of it beside what is not.
    fn tidy_log(&self) {
        if self.is_damaged.load(Ordering::Relaxed) {
            return;
        }
        let size = self.db.property_int_value_cf(self.family(LOG), "rocksdb.total-sst-files-size");
        if !size.is_ok_and(|bytes| bytes > Some(SHORTEN_BYTES_MIN)) {
            return;
        }
        let live: Vec<GraphId> = self.read_graphs().live.iter().copied().collect();
        let mut bytes = 0;
        for graph in live {
            let Ok(progress) = self.progress(graph) else { return };
            let end = after_prefix(&graph.0.to_be_bytes());
            let mut iterator = self.iterate(LOG, log_key(graph, progress.upto).to_vec(), end);
            while let Some(entry) = iterator.value() {
                bytes += entry.len() as u64;
                if bytes > SHORTEN_BYTES_MIN {
                    return;
                }
                iterator.next();
            }
        }
        self.db.compact_range_cf(self.family(LOG), None::<&[u8]>, None::<&[u8]>);
    }

    /// Has pages of a graph that is gone rewritten. Files that were never merged, or that hold pages of other graphs, are not
    /// freed as a whole, and nothing else would rewrite them.
    fn rewrite_pages(&self, graph: GraphId) {
        let prefix = graph.0.to_be_bytes();
        if !self.is_damaged.load(Ordering::Relaxed) {
            self.db.compact_range_cf(self.family(PAGES), Some(prefix), Some(after_prefix(&prefix)));
        }
    }

    /// Frees whole files of keys from `from` and below `to` at once; what shares a file with others goes when RocksDB
    /// next rewrites it.
    fn free(&self, family: &str, from: &[u8], to: &[u8]) {
        // RocksDB takes the end of this range in: a file whose last key were `to` itself would go as well.
        if let Err(error) = self.db.delete_file_in_range_cf(self.family(family), from, &before(to)[..]) {
            tracing::warn!(%error, "disk space is freed later");
        }
    }

    /// How much of what RocksDB does with its files has failed so far, if that is known.
    fn failures(&self) -> Option<u64> {
        self.db.property_int_value("rocksdb.background-errors").ok().flatten()
    }

    /// Has the files rewritten that have keys from `from` and below `to`, or marks over such keys, also those of the last level.
    /// RocksDB's threads do so; others write meanwhile.
    fn rewrite(&self, family: &str, from: &[u8], to: &[u8]) {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        self.db.compact_range_cf_opt(self.family(family), Some(from), Some(&before(to)[..]), &options);
    }
}

/// The last key of its length that comes before this one.
fn before(key: &[u8]) -> Vec<u8> {
    let mut last = key.to_vec();
    for byte in last.iter_mut().rev() {
        let borrowed = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrowed {
            break;
        }
    }
    last
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        if self.read_only {
            return;
        }
        // With the write-ahead log this only makes the next start quicker.
        let flushed = self.flush(true);
        let is_flushed = flushed.is_ok();
        match flushed {
            Ok(()) => {
                let graphs: Vec<GraphId> = self.read_graphs().live.iter().copied().collect();
                let begins = graphs.into_iter().filter_map(|graph| Some((graph, self.progress(graph).ok()?.upto)));
                let begins: Vec<(GraphId, Tick)> = begins.collect();
                self.begins().extend(begins);
                self.tidy_log();
            }
            Err(error) => {
                let may_be_lost = !self.options.write_ahead_log;
                tracing::error!(%error, may_be_lost, "the store was closed without writing its memory to files");
            }
        }
        self.db.cancel_all_background_work(true);
        // What could not be synced may be lost after all.
        let failed = self.failures().unwrap_or(1);
        let (list, closed) = (list_of_files(self.db.path()).unwrap_or_default(), is_flushed && failed == 0);
        if let Err(error) = self.has_reached(Reached { list, closed, ..Reached::default() }) {
            tracing::warn!(%error, "a copy of this store that was broken off may not be noticed");
        }
    }
}

impl Meta for RocksDb {
    fn get(&self, key: &[u8], what: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sealed = self.db.get_pinned_cf(self.family(META), key).map_err(|error| self.read_error(error, what))?;
        let open = |sealed: rocksdb::DBPinnableSlice<'_>| records::unseal(key, &sealed).map(<[u8]>::to_vec);
        sealed.map(open).transpose().map_err(|wrong| self.damaged(wrong, what))
    }

    fn scan_meta(&self, prefix: &[u8], what: &str, each: EachRecord<'_>) -> Result<(), StoreError> {
        let mut iterator = self.iterate(META, prefix.to_vec(), after_prefix(prefix));
        while let Some((key, sealed)) = iterator.item() {
            let value = records::unseal(key, sealed).map_err(|wrong| self.damaged(wrong, what))?;
            each(&key[prefix.len()..], value)?;
            iterator.next();
        }
        iterator.status().map_err(|error| self.read_error(error, what))
    }

    fn damaged(&self, what: impl Into<String>, place: &str) -> StoreError {
        StoreError::damaged(what, format!("{place} ({})", self.options.path.display()))
    }
}

impl Store for RocksDb {
    fn kind(&self) -> &'static str {
        "rocks-db"
    }

    fn durable(&self) -> bool {
        true
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn opened_without(&self) -> Option<String> {
        self.without.as_ref().map(ToString::to_string)
    }

    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError> {
        let bytes: usize = group.iter().map(|entry| entry.bytes.len() + 64).sum();
        let mut batch = WriteBatch::with_capacity_bytes(bytes);
        for (number, name) in (symbols.first..).zip(symbols.names) {
            let key = symbol_key(number as u32);
            batch.put_cf(self.family(META), key, records::seal(&key, name.as_bytes().to_vec()));
        }
        let graphs = self.read_graphs();
        for entry in group.iter().filter(|entry| graphs.live.contains(&entry.graph)) {
            batch.put_cf(self.family(LOG), log_key(entry.graph, entry.first), entry.bytes);
        }
        self.write(batch, sync, "append to the log")
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let place = || format!("the log of graph {}", graph.0);
        let mut iterator = self.iterate(LOG, log_key(graph, from).to_vec(), after_prefix(&graph.0.to_be_bytes()));
        // The iterator sees the log as of now; a checkpoint from here on moves the beginning, but takes nothing away.
        let from = from.max(self.progress(graph)?.upto);
        iterator.seek(log_key(graph, from));
        let mut reader = LogReader::new(graph, from);
        while let Some((key, bytes)) = iterator.item() {
            let first = key.last_chunk().map(|tick| Tick(u64::from_be_bytes(*tick))).unwrap_or_default();
            each(reader.decode(first, bytes)?)?;
            iterator.next();
        }
        iterator.status().map_err(|error| self.read_error(error, &place()))
    }

    fn hold(&self, _: &Arc<Entry>) {}

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.must_be_live(graph)?;
        let mut batch = WriteBatch::default();
        let unfinished = self.begin_run();
        let info = self.write_run(graph, unfinished.id, run, &mut batch)?;
        let key = progress_key(graph);
        batch.put_cf(self.family(META), key, records::seal(&key, records::put_progress(progress)));
        self.complete_run(graph, unfinished.id, batch, false)?;
        self.shorten_log(graph, progress.upto);
        Ok(info)
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        self.must_be_live(graph)?;
        let mut batch = WriteBatch::default();
        let unfinished = self.begin_run();
        let info = self.write_run(graph, unfinished.id, run, &mut batch)?;
        replaced.iter().for_each(|old| batch.delete_cf(self.family(META), run_key(graph, *old)));
        // Files go at once, also from the disk: what says that nobody needs them must be there before.
        self.complete_run(graph, unfinished.id, batch, true)?;
        for old in replaced {
            self.clear_run(graph, *old);
        }
        self.free_between_runs(graph);
        Ok(info)
    }

    /// Only files that have something of it are rewritten, however long the log and the pages are. The flush makes RocksDB's
    /// write-ahead log obsolete up to then; it deletes what is, for nothing in `tuning` has it kept or used again.
    fn wipe(&self, graph: GraphId) -> Result<(), StoreError> {
        self.must_be_live(graph)?;
        if !self.rewrites() {
            return Err(StoreError::failed(WIPE, "a namespace is damaged"));
        }
        let failures = self.failures();
        let upto = self.progress(graph)?.upto;
        let gaps = self.between_runs(graph)?;
        self.mark_lost(&gaps)?;
        self.flush(true)?;
        // Where the log begins is in a file now. Another checkpoint may have gone on meanwhile.
        self.begins().entry(graph).and_modify(|begin| *begin = upto.max(*begin)).or_insert(upto);
        if upto > Tick::ZERO {
            let (from, to) = (log_key(graph, Tick::ZERO), log_key(graph, upto));
            self.free(LOG, &from, &to);
            self.rewrite(LOG, &from, &to);
        }
        for (from, to) in &gaps {
            self.rewrite(PAGES, from, to);
        }
        // Of one that was dropped meanwhile nothing more is to be noted.
        self.must_be_live(graph)?;
        // RocksDB does not answer what came of each.
        match self.failures() == failures {
            true => Ok(()),
            false => Err(StoreError::failed(WIPE, "RocksDB could not; its own log, LOG, says why")),
        }
    }

    fn rewrites(&self) -> bool {
        !self.is_damaged.load(Ordering::Relaxed)
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
        let (from, to) = (page_key(graph, run, part, 0), run_pages(graph, RunId(run.0 + 1)));
        let chunks = info.chunks[part as usize];
        let mut iterator = self.iterate(PAGES, from.to_vec(), to.to_vec());
        let mut count = 0;
        while let Some((key, sealed)) = iterator.item() {
            if key != page_key(graph, run, part, count) {
                break;
            }
            let chunk_place = || format!("{place}, chunk {count}");
            each(records::unseal(key, sealed).map_err(|wrong| self.damaged(wrong, &chunk_place()))?)?;
            count += 1;
            iterator.next();
        }
        iterator.status().map_err(|error| self.read_error(error, &place))?;
        if count == chunks { Ok(()) } else { Err(self.damaged(format!("chunk {count} of {chunks} is missing"), &place)) }
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let place = || format!("run {} of graph {}, chunk {number}", run.0, graph.0);
        let key = page_key(graph, run, part, number);
        let sealed = self.db.get_pinned_cf(self.family(PAGES), key).map_err(|error| self.read_error(error, &place()))?;
        let open = |sealed: rocksdb::DBPinnableSlice<'_>| records::unseal(&key, &sealed).map(<[u8]>::to_vec);
        sealed.map(open).transpose().map_err(|wrong| self.damaged(wrong, &place()))
    }

    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        meta::progress(self, graph)
    }

    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        let mut graphs = write(&self.graphs);
        let id = GraphId(graphs.next);
        let mut batch = WriteBatch::default();
        let key = graph_key(id);
        batch.put_cf(self.family(META), key, records::seal(&key, records::put_graph(name, options)));
        batch.put_cf(self.family(META), b"n", records::seal(b"n", (id.0 + 1).to_be_bytes().to_vec()));
        self.write(batch, false, "create a graph")?;
        graphs.live.insert(id);
        graphs.next += 1;
        Ok(id)
    }

    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        let mut graphs = write(&self.graphs);
        if !graphs.live.contains(&graph) {
            return Ok(());
        }
        let prefix = graph.0.to_be_bytes();
        let end = after_prefix(&prefix);
        let mut batch = WriteBatch::default();
        let meta = self.family(META);
        batch.delete_cf(meta, graph_key(graph));
        batch.delete_cf(meta, progress_key(graph));
        for prefix in [runs_prefix(graph), metadata_key(&graph.metadata_prefix())] {
            batch.delete_range_cf(meta, &prefix, &after_prefix(&prefix));
        }
        for family in [LOG, PAGES] {
            batch.delete_range_cf(self.family(family), &prefix[..], &end[..]);
        }
        // On the disk before its files go from there.
        self.write(batch, true, "drop a graph")?;
        graphs.live.remove(&graph);
        drop(graphs);
        self.begins().remove(&graph);
        self.free(LOG, &prefix, &end);
        self.free(PAGES, &prefix, &end);
        self.rewrite_pages(graph);
        // What it had in the write-ahead log takes disk until that is emptied, which nothing else may do for long.
        if self.ahead_bytes()? > SHORTEN_BYTES_MIN {
            self.flush(true)?;
        }
        self.tidy_log();
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
        let key = metadata_key(key);
        let mut batch = WriteBatch::default();
        batch.put_cf(self.family(META), &key, records::seal(&key, value.to_vec()));
        self.write(batch, false, "store metadata")
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        batch.delete_cf(self.family(META), metadata_key(key));
        self.write(batch, false, "delete metadata")
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        meta::list_metadata(self, prefix)
    }

    fn loaded(&self, sound: bool) {
        if self.read_only {
            return;
        }
        if !sound || self.is_damaged.load(Ordering::Relaxed) {
            self.is_damaged.store(true, Ordering::Relaxed);
            tracing::warn!(
                "files of the store are not rewritten while a namespace is damaged: what is deleted frees less of the disk"
            );
            return;
        }
        for family in [LOG, PAGES] {
            if let Err(error) = self.db.set_options_cf(self.family(family), &[("disable_auto_compactions", "false")]) {
                tracing::warn!(%error, "files of the store are not rewritten");
            }
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        if self.read_only {
            return Ok(());
        }
        if !self.options.write_ahead_log {
            return self.flush(true);
        }
        let doing = || format!("sync {}", self.options.path.display());
        let before = self.db.latest_sequence_number();
        self.db.flush_wal(true).map_err(|error| StoreError::failed(doing(), with_advice(&error)))?;
        self.note_reached(Reached { written: before, synced: before, ..Reached::default() });
        Ok(())
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        let files = |family| {
            let size = self.db.property_int_value_cf(self.family(family), "rocksdb.total-sst-files-size");
            size.map(|size| size.unwrap_or(0)).map_err(|error| self.read_error(error, "the sizes of files"))
        };
        Ok(Sizes { log: files(LOG)? + self.ahead_bytes()?, pages: files(PAGES)?, other: files(META)? })
    }
}

/// What is damaged, if that is what an error says.
fn damage(error: &rocksdb::Error) -> Option<String> {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Corruption => Some(text),
        _ if text.contains("No such file or directory") => {
            Some(format!("a file is missing ({text}): the directory was copied in part, or a file was deleted"))
        }
        _ => None,
    }
}

/// Opens a database, if need be without tables that are damaged or missing: what was in them is told by those who read it, for it
/// may be of one graph only. Says what it is without. `open` is asked to open the whole, or as much as there is.
fn open_as_far_as_sound(
    files: &Path,
    fresh: bool,
    open: impl Fn(bool) -> Result<DB, rocksdb::Error>,
) -> Result<(DB, Option<StoreError>), StoreError> {
    let error = match open(true) {
        Ok(db) => return Ok((db, None)),
        Err(error) => error,
    };
    let damage = match damage(&error) {
        Some(what) => StoreError::damaged(what, files.display().to_string()),
        None if error.kind() == ErrorKind::InvalidArgument => {
            StoreError::damaged(error.into_string(), files.display().to_string())
        }
        None => return Err(StoreError::failed(format!("open {}", files.display()), with_advice(&error))),
    };
    if fresh {
        return Err(damage);
    }
    ahead::verify(files)?;
    let Ok(db) = open(false) else { return Err(damage) };
    tracing::error!("the store is opened without what is damaged: {damage}");
    Ok((db, Some(damage)))
}

/// What RocksDB says, and what can be done about it where that is plain.
fn with_advice(error: &rocksdb::Error) -> String {
    let text = error.to_string();
    let advice = if text.contains("No space left") {
        "; free space on the disk"
    } else if text.contains("Too many open files") {
        "; raise the limit of open files (ulimit -n)"
    } else if text.contains("Read-only file system") || text.contains("Permission denied") {
        "; check that weir's user may write there"
    } else {
        ""
    };
    text + advice
}
