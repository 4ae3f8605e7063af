//! A store that takes only so many definitions more, for tests. All else goes on to one in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_engine::store::{
    EncodedEntry, Entry, GraphId, GraphInfo, InMemory, NewRun, NewSymbols, Part, Progress, RunId, RunInfo, Sizes, Store,
    StoreError,
};
use weir_model::{Text, Tick};

pub struct FullStore {
    store: InMemory,
    pub definitions_left: AtomicUsize,
}

impl Default for FullStore {
    fn default() -> FullStore {
        FullStore { store: InMemory::default(), definitions_left: AtomicUsize::new(usize::MAX) }
    }
}

impl Store for FullStore {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn durable(&self) -> bool {
        self.store.durable()
    }

    fn hold(&self, entry: &Arc<Entry>) {
        self.store.hold(entry);
    }

    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError> {
        self.store.append(group, symbols, sync)
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.read_log(graph, from, each)
    }

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.store.checkpoint(graph, run, progress)
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        self.store.replace_runs(graph, replaced, run)
    }

    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        self.store.runs(graph)
    }

    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.store.read_run(graph, run, part, each)
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.chunk(graph, run, part, number)
    }

    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        self.store.progress(graph)
    }

    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        self.store.create_graph(name, options)
    }

    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        self.store.drop_graph(graph)
    }

    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError> {
        self.store.graphs()
    }

    fn symbols(&self) -> Result<Vec<Text>, StoreError> {
        self.store.symbols()
    }

    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.metadata(key)
    }

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.definitions_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => self.store.put_metadata(key, value),
            Err(_) => Err(StoreError::failed("store metadata", "simulated: No space left on device")),
        }
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete_metadata(key)
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store.list_metadata(prefix)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        self.store.sizes()
    }
}
