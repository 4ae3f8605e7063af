//! Runs on their way into RocksDB and out of it: given a number, written as keys or as files, completed, removed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use rocksdb::{Cache, IngestExternalFileOptions, SstFileWriter, WriteBatch};
use weir_model::lock::lock;

use super::super::keys::{page_key, run_key, run_pages};
use super::super::{GraphId, NewRun, Part, RunId, RunInfo, StoreError, meta, records};
use super::tuning::pages_options;
use super::{META, PAGES, RocksDb, with_advice};
use crate::memory::at_most;
use crate::scheduling::breathe;

/// A smaller run is written as keys, along with its record; a larger one as files that RocksDB takes over.
pub const SMALL_RUN_BYTES_MAX: usize = 1 << 20;
const FILE_BYTES_MAX: usize = 64 << 20;

/// A run that is gone is removed key by key if it has no more than this.
const KEYS_CLEARED_MAX: usize = 256;

impl RocksDb {
    fn unfinished(&self) -> MutexGuard<'_, BTreeSet<RunId>> {
        lock(&self.unfinished)
    }

    /// Gives a run its number. As long as what is given back lives, its pages are left alone though nothing says that it is
    /// there.
    pub(super) fn begin_run(&self) -> Unfinished<'_> {
        // The lock is held so that nobody sees a later number before this one is among the unfinished.
        let mut unfinished = self.unfinished();
        let id = RunId(self.next_run.fetch_add(1, Ordering::Relaxed));
        unfinished.insert(id);
        Unfinished { store: self, id }
    }

    /// Writes the chunks of a run; a small one goes into the batch that will complete it.
    pub(super) fn write_run(
        &self,
        graph: GraphId,
        id: RunId,
        run: NewRun<'_>,
        batch: &mut WriteBatch,
    ) -> Result<RunInfo, StoreError> {
        let mut info = RunInfo { id, first: run.first, upper: run.upper, chunks: Default::default(), bytes: 0 };
        // By part: keys within a file ascend, and files do not overlap.
        let mut waiting: [Waiting; Part::ALL.len()] = Default::default();
        let mut files = IncomingFiles { store: self, run: id, paths: Vec::new() };
        for chunk in run.chunks {
            let (part, chunk) = chunk?;
            let number = &mut info.chunks[part as usize];
            let key = page_key(graph, id, part, *number);
            *number += 1;
            info.bytes += chunk.len() as u64;
            let waiting = &mut waiting[part as usize];
            waiting.bytes += chunk.len();
            waiting.chunks.push((key, records::seal(&key, chunk)));
            if waiting.bytes >= at_most(FILE_BYTES_MAX, 8) {
                files.write(&std::mem::take(waiting).chunks)?;
            }
        }
        if files.paths.is_empty() && info.bytes <= SMALL_RUN_BYTES_MAX as u64 {
            for (key, chunk) in waiting.iter().flat_map(|waiting| &waiting.chunks) {
                batch.put_cf(self.family(PAGES), key, chunk);
            }
        } else {
            for waiting in waiting.iter().filter(|waiting| !waiting.chunks.is_empty()) {
                files.write(&waiting.chunks)?;
            }
            files.hand_over()?;
        }
        let key = run_key(graph, id);
        batch.put_cf(self.family(META), key, records::seal(&key, records::put_run(&info)));
        Ok(info)
    }

    /// Completes a run. Pages that will never count are removed.
    pub(super) fn complete_run(&self, graph: GraphId, run: RunId, batch: WriteBatch, sync: bool) -> Result<(), StoreError> {
        self.complete(graph, batch, sync).inspect_err(|error| {
            if let StoreError::NoSuchGraph(_) = error {
                self.clear_run(graph, run);
                self.rewrite_pages(graph);
            }
        })
    }

    /// Completes a run, unless its graph was dropped while it was written.
    fn complete(&self, graph: GraphId, batch: WriteBatch, sync: bool) -> Result<(), StoreError> {
        let graphs = self.read_graphs();
        if !graphs.live.contains(&graph) {
            return Err(StoreError::NoSuchGraph(graph));
        }
        self.write(batch, sync, "complete a checkpoint")
    }

    /// Removes the pages of a run that is gone: files of its own at once, what shares a file with others key by key. A mark over
    /// the whole range would be written to a file and stay there for ever, as long as there are pages below it. What a crash
    /// leaves is removed at the next start.
    pub(super) fn clear_run(&self, graph: GraphId, run: RunId) {
        let (from, to) = (run_pages(graph, run), run_pages(graph, RunId(run.0 + 1)));
        self.free(PAGES, &from, &to);
        let mut batch = WriteBatch::default();
        let mut iterator = self.iterate(PAGES, from.to_vec(), to.to_vec());
        while let Some(key) = iterator.key() {
            if batch.len() == KEYS_CLEARED_MAX {
                batch.clear();
                batch.delete_range_cf(self.family(PAGES), from, to);
                break;
            }
            batch.delete_cf(self.family(PAGES), key);
            iterator.next();
        }
        if !batch.is_empty()
            && let Err(error) = self.write(batch, false, "remove pages")
        {
            tracing::warn!(%error, "disk space is freed at the next start");
        }
    }

    /// Frees the files in which nothing is but marks of pages that were removed key by key: RocksDB would keep one that has a
    /// single mark for ever.
    pub(super) fn free_between_runs(&self, graph: GraphId) {
        let Ok(gaps) = self.between_runs(graph) else { return };
        for (from, to) in gaps {
            self.free(PAGES, &from, &to);
        }
    }

    /// Where pages of a graph are of no run that is there or being written: each from a key on, before another.
    pub(super) fn between_runs(&self, graph: GraphId) -> Result<Vec<Gap>, StoreError> {
        // Asked first: a run that is not unfinished any more is among the others then.
        let (mut ids, next) = {
            let unfinished = self.unfinished();
            (unfinished.clone(), RunId(self.next_run.load(Ordering::Relaxed)))
        };
        ids.extend(meta::runs(self, graph)?.iter().map(|run| run.id));
        // Who has been given a number since then may still be writing.
        ids.retain(|id| *id < next);
        ids.insert(next);
        let (mut gaps, mut from) = (Vec::new(), RunId(0));
        for id in ids {
            if from < id {
                gaps.push((run_pages(graph, from), run_pages(graph, id)));
            }
            from = RunId(id.0 + 1);
        }
        Ok(gaps)
    }

    /// Pages between runs that can be seen have no marks any more: a file with the marks of a run alone may have gone before what
    /// it marked. They get some again.
    pub(super) fn mark_lost(&self, gaps: &[Gap]) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        for (from, to) in gaps {
            if self.iterate(PAGES, from.to_vec(), to.to_vec()).valid() {
                batch.delete_range_cf(self.family(PAGES), from, to);
            }
        }
        if batch.is_empty() { Ok(()) } else { self.write(batch, false, "remove pages") }
    }
}

type Gap = ([u8; 20], [u8; 20]);

/// Chunks of a part of a run until there are enough for a file.
#[derive(Default)]
struct Waiting {
    chunks: Vec<([u8; 20], Vec<u8>)>,
    bytes: usize,
}

/// A run that is not complete.
pub struct Unfinished<'a> {
    store: &'a RocksDb,
    pub id: RunId,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.store.unfinished().remove(&self.id);
    }
}

/// Files of a run until RocksDB takes them over; removed when that does not come to be.
struct IncomingFiles<'a> {
    store: &'a RocksDb,
    run: RunId,
    paths: Vec<PathBuf>,
}

impl IncomingFiles<'_> {
    fn write(&mut self, chunks: &[([u8; 20], Vec<u8>)]) -> Result<(), StoreError> {
        let path = self.store.incoming.join(format!("{}-{}.sst", self.run.0, self.paths.len()));
        self.paths.push(path.clone());
        let options = pages_options(&Cache::new_lru_cache(0));
        let write = || {
            let mut writer = SstFileWriter::create(&options);
            writer.open(&path)?;
            for (key, chunk) in chunks {
                writer.put(key, chunk)?;
                breathe();
            }
            writer.finish()
        };
        write().map_err(|error| StoreError::failed(format!("write pages to {}", path.display()), with_advice(&error)))
    }

    fn hand_over(self) -> Result<(), StoreError> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let store = self.store;
        let taken = store.db.ingest_external_file_cf_opts(store.family(PAGES), &options, self.paths.clone());
        taken.map_err(|error| StoreError::failed(format!("add pages to {}", store.options.path.display()), with_advice(&error)))
    }
}

impl Drop for IncomingFiles<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            // Gone already when they were taken over.
            let _ = std::fs::remove_file(path);
        }
    }
}
