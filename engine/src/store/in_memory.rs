//! The store that keeps nothing: what is committed lives in the arrangement and is gone with the process.
//!
//! Names of graphs and metadata are held for as long as the store is, since they are asked for again while weir runs.
//! Log, symbols and runs are only ever read after a restart, which there is none of, so they are let go at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use weir_model::{Text, Tick};

use super::{EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Progress, RunId, RunInfo, Sizes, Store, StoreError};

#[derive(Default)]
pub struct InMemory {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    graphs: Vec<GraphInfo>,
    graphs_given: u32,
    metadata: BTreeMap<String, Vec<u8>>,
}

impl InMemory {
    pub fn new() -> InMemory {
        InMemory::default()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Store for InMemory {
    fn kind(&self) -> &'static str {
        "in-memory"
    }

    fn durable(&self) -> bool {
        false
    }

    fn append(&self, _: &[EncodedEntry<'_>], _: NewSymbols<'_>, _: bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn read_log(&self, _: GraphId, _: Tick, _: &mut dyn FnMut(Entry) -> Result<(), StoreError>) -> Result<(), StoreError> {
        Ok(())
    }

    fn checkpoint(&self, _: GraphId, _: NewRun<'_>, _: &Progress) -> Result<(), StoreError> {
        Ok(())
    }

    fn replace_runs(&self, _: GraphId, _: &[RunId], _: NewRun<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn runs(&self, _: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        Ok(Vec::new())
    }

    fn read_run(&self, graph: GraphId, run: RunId, _: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        Err(StoreError::failed(format!("read run {} of graph {}", run.0, graph.0), "an in-memory store keeps no runs"))
    }

    fn progress(&self, _: GraphId) -> Result<Progress, StoreError> {
        Ok(Progress::default())
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
        let prefix = graph.metadata_prefix();
        held.metadata.retain(|key, _| !key.starts_with(&prefix));
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
        Ok(Sizes::default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance;
    use super::InMemory;

    #[test]
    fn conforms() {
        conformance::check(&|part| part(&|| Box::new(InMemory::new())));
    }
}
