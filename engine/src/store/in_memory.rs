//! The store that lives and ends with the process: what is committed lives in the arrangement.
//!
//! Names of graphs and metadata are held since they are asked for again while weir runs. Of the log it takes what it is given
//! with `hold`, for reads of the past, and makes pages of it as every store does. Symbols are only ever read after a restart,
//! which there is none of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;
use weir_model::lock::lock;
use weir_model::{Text, Tick};

use super::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, RunId, RunInfo, Sizes, Store, StoreError,
};

#[derive(Default)]
pub struct InMemory {
    held: Mutex<Held>,
    forgetful: bool,
}

#[derive(Default)]
struct Held {
    graphs: Vec<GraphInfo>,
    graphs_given: u32,
    metadata: BTreeMap<String, Vec<u8>>,
    kept: FxHashMap<GraphId, Kept>,
    runs_given: u64,
}

/// What a graph has besides its name.
#[derive(Default)]
struct Kept {
    log: VecDeque<Arc<Entry>>,
    runs: Vec<(RunInfo, Arc<Chunks>)>,
    progress: Progress,
}

/// By part.
type Chunks = [Vec<Vec<u8>>; Part::ALL.len()];

impl InMemory {
    pub fn new() -> InMemory {
        InMemory::default()
    }

    /// The store `empty`: it takes no log either, so the past is gone at once.
    pub fn empty() -> InMemory {
        InMemory { forgetful: true, ..InMemory::default() }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    fn run(&self, graph: GraphId, run: RunId) -> Option<Arc<Chunks>> {
        let held = self.held();
        let (_, chunks) = held.kept.get(&graph)?.runs.iter().find(|(info, _)| info.id == run)?;
        Some(chunks.clone())
    }
}

impl Kept {
    /// Takes out the entries before a tick. Like runs that are taken out, they are let go of without the lock: that may take
    /// long, and the log waits for the lock, and so whoever commits to any graph.
    fn cut(&mut self, upto: Tick) -> Vec<Arc<Entry>> {
        let count = self.log.partition_point(|entry| entry.first < upto);
        self.log.drain(..count).collect()
    }

    fn take_runs(&mut self, ids: &[RunId]) -> Vec<(RunInfo, Arc<Chunks>)> {
        let (taken, left) = std::mem::take(&mut self.runs).into_iter().partition(|(run, _)| ids.contains(&run.id));
        self.runs = left;
        taken
    }
}

impl Held {
    fn live(&mut self, graph: GraphId) -> Result<&mut Kept, StoreError> {
        let live = self.graphs.iter().any(|info| info.id == graph);
        if live { Ok(self.kept.entry(graph).or_default()) } else { Err(StoreError::NoSuchGraph(graph)) }
    }

    /// Gives a run that was gathered its number.
    fn add(&mut self, graph: GraphId, gathered: (RunInfo, Chunks)) -> Result<(RunInfo, &mut Kept), StoreError> {
        let (mut info, chunks) = gathered;
        info.id = RunId(self.runs_given);
        self.runs_given += 1;
        let kept = self.live(graph)?;
        kept.runs.push((info, Arc::new(chunks)));
        kept.runs.sort_by_key(|(run, _)| (run.first, run.id));
        Ok((info, kept))
    }
}

fn gather(run: NewRun<'_>) -> Result<(RunInfo, Chunks), StoreError> {
    let mut info = RunInfo { id: RunId(0), first: run.first, upper: run.upper, chunks: Default::default(), bytes: 0 };
    let mut chunks = Chunks::default();
    for chunk in run.chunks {
        let (part, mut bytes) = chunk?;
        bytes.shrink_to_fit();
        info.chunks[part as usize] += 1;
        info.bytes += bytes.len() as u64;
        chunks[part as usize].push(bytes);
    }
    Ok((info, chunks))
}

impl Store for InMemory {
    fn kind(&self) -> &'static str {
        if self.forgetful { "empty" } else { "in-memory" }
    }

    fn durable(&self) -> bool {
        false
    }

    fn remembers(&self) -> bool {
        !self.forgetful
    }

    fn hold(&self, entry: &Arc<Entry>) {
        if self.forgetful {
            return;
        }
        if let Ok(kept) = self.held().live(entry.graph) {
            kept.log.push_back(entry.clone());
        }
    }

    fn append(&self, _: &[EncodedEntry<'_>], _: NewSymbols<'_>, _: bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let entries: Vec<Arc<Entry>> = match self.held().kept.get(&graph) {
            Some(kept) => kept.log.iter().skip_while(|entry| entry.first < from).cloned().collect(),
            None => return Ok(()),
        };
        entries.iter().try_for_each(|entry| each(Entry::clone(entry)))
    }

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.held().live(graph)?;
        let gathered = gather(run)?;
        let mut held = self.held();
        let (info, kept) = held.add(graph, gathered)?;
        kept.progress = progress.clone();
        let gone = kept.cut(progress.upto);
        drop(held);
        drop(gone);
        Ok(info)
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        self.held().live(graph)?;
        let gathered = gather(run)?;
        let mut held = self.held();
        let (info, kept) = held.add(graph, gathered)?;
        let gone = kept.take_runs(replaced);
        drop(held);
        drop(gone);
        Ok(info)
    }

    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        Ok(self.held().kept.get(&graph).map_or(Vec::new(), |kept| kept.runs.iter().map(|(info, _)| *info).collect()))
    }

    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let place = || format!("read run {} of graph {}", run.0, graph.0);
        let chunks = self.run(graph, run).ok_or_else(|| StoreError::failed(place(), "there is no such run (any more)"))?;
        chunks[part as usize].iter().try_for_each(|chunk| each(chunk))
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let chunks = self.run(graph, run);
        Ok(chunks.and_then(|chunks| chunks[part as usize].get(number as usize).cloned()))
    }

    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        Ok(self.held().kept.get(&graph).map_or_else(Progress::default, |kept| kept.progress.clone()))
    }

    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        let mut held = self.held();
        let id = GraphId(held.graphs_given);
        held.graphs_given += 1;
        held.graphs.push(GraphInfo { id, name: name.to_owned(), options: options.to_vec() });
        Ok(id)
    }

    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        let mut held = self.held();
        held.graphs.retain(|info| info.id != graph);
        let gone = held.kept.remove(&graph);
        let prefix = graph.metadata_prefix();
        held.metadata.retain(|key, _| !key.starts_with(&prefix));
        drop(held);
        drop(gone);
        Ok(())
    }

    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError> {
        Ok(self.held().graphs.clone())
    }

    fn symbols(&self) -> Result<Vec<Text>, StoreError> {
        Ok(Vec::new())
    }

    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.held().metadata.get(key).cloned())
    }

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.held().metadata.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        self.held().metadata.remove(key);
        Ok(())
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let held = self.held();
        let from = held.metadata.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(from.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        let held = self.held();
        let pages = held.kept.values().flat_map(|kept| &kept.runs).map(|(info, _)| info.bytes).sum();
        let log = held.kept.values().flat_map(|kept| &kept.log).map(|entry| entry.size() as u64).sum();
        let other = held.metadata.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok(Sizes { log, pages, other })
    }
}

#[cfg(test)]
mod tests {
    use weir_model::Mutations;

    use super::super::conformance;
    use super::*;

    #[test]
    fn conforms() {
        conformance::check(&|part| part(&|| Box::new(InMemory::new())));
    }

    #[test]
    fn what_is_taken_out_is_let_go_of_by_whoever_takes_it() {
        let store = InMemory::new();
        let graph = store.create_graph("g", &[]).unwrap();
        for first in [1, 2, 3].map(Tick) {
            let (upper, mutations) = (first.next(), Arc::new(Mutations::default()));
            store.hold(&Arc::new(Entry { graph, first, upper, mutations, sources: Vec::new(), delivered: Vec::new() }));
        }
        let chunk: Result<(Part, Vec<u8>), StoreError> = Ok((Part::Newest, vec![7; 100]));
        let mut chunks = std::iter::once(chunk);
        let run = NewRun { first: Tick(0), upper: Tick(1), chunks: &mut chunks };
        let info = store.checkpoint(graph, run, &Progress::default()).unwrap();
        let mut held = store.held();
        let kept = held.live(graph).unwrap();
        let (run, entry) = (Arc::downgrade(&kept.runs[0].1), Arc::downgrade(&kept.log[0]));
        let gone = (kept.take_runs(&[info.id]), kept.cut(Tick(3)));
        assert_eq!((kept.runs.len(), kept.log.len()), (0, 1));
        drop(held);
        assert!(run.upgrade().is_some() && entry.upgrade().is_some(), "it went while others waited for the lock");
        drop(gone);
        assert!(run.upgrade().is_none() && entry.upgrade().is_none());
    }
}
