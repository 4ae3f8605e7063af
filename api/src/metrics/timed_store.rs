//! A store that tells how long it takes. Everything goes on to the one inside.

use std::sync::Arc;
use std::time::Instant;

use weir_engine::store::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, RunId, RunInfo, Sizes, Store, StoreError,
};
use weir_model::{Text, Tick};

use super::timer::Timer;

/// By what the reference service calls the like of it.
#[derive(Default)]
pub struct StoreTimers {
    /// A group of entries of the log is written.
    pub persist_event: Timer,
    /// Pages are made of the log, or of other pages.
    pub persist_snapshot: Timer,
    /// The log is read.
    pub get_journal: Timer,
    /// A chunk of pages is read.
    pub get_latest_snapshot: Timer,
    /// Definitions and progress are written.
    pub set_standing_query_state: Timer,
    /// Definitions and progress are read.
    pub get_standing_query_states: Timer,
}

impl StoreTimers {
    pub fn all(&self) -> [(&'static str, &Timer); 6] {
        [
            ("persist-event", &self.persist_event),
            ("persist-snapshot", &self.persist_snapshot),
            ("get-journal", &self.get_journal),
            ("get-latest-snapshot", &self.get_latest_snapshot),
            ("set-standing-query-state", &self.set_standing_query_state),
            ("get-standing-query-states", &self.get_standing_query_states),
        ]
    }
}

pub struct TimedStore {
    pub store: Arc<dyn Store>,
    pub timers: Arc<StoreTimers>,
}

fn timed<T>(timer: &Timer, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = act();
    timer.took(began.elapsed());
    result
}

impl Store for TimedStore {
    fn kind(&self) -> &'static str {
        self.store.kind()
    }

    fn durable(&self) -> bool {
        self.store.durable()
    }

    fn read_only(&self) -> bool {
        self.store.read_only()
    }

    fn remembers(&self) -> bool {
        self.store.remembers()
    }

    fn hold(&self, entry: &Arc<Entry>) {
        self.store.hold(entry);
    }

    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError> {
        timed(&self.timers.persist_event, || self.store.append(group, symbols, sync))
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        timed(&self.timers.get_journal, || self.store.read_log(graph, from, each))
    }

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        timed(&self.timers.persist_snapshot, || self.store.checkpoint(graph, run, progress))
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        timed(&self.timers.persist_snapshot, || self.store.replace_runs(graph, replaced, run))
    }

    fn wipe(&self, graph: GraphId) -> Result<(), StoreError> {
        self.store.wipe(graph)
    }

    fn rewrites(&self) -> bool {
        self.store.rewrites()
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
        timed(&self.timers.get_latest_snapshot, || self.store.read_run(graph, run, part, each))
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        timed(&self.timers.get_latest_snapshot, || self.store.chunk(graph, run, part, number))
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
        timed(&self.timers.get_standing_query_states, || self.store.metadata(key))
    }

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        timed(&self.timers.set_standing_query_state, || self.store.put_metadata(key, value))
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        timed(&self.timers.set_standing_query_state, || self.store.delete_metadata(key))
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        timed(&self.timers.get_standing_query_states, || self.store.list_metadata(prefix))
    }

    fn loaded(&self, sound: bool) {
        self.store.loaded(sound);
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        self.store.sizes()
    }
}
