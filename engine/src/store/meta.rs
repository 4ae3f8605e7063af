//! Meta: the small records of a durable store, as they are read: graphs, symbols, runs, progress, metadata. How a store gets at
//! its bytes is its own.

use weir_model::Text;

use super::keys::{metadata_key, progress_key, run_key, runs_prefix, take_number};
use super::{GraphId, GraphInfo, Progress, RunId, RunInfo, StoreError, records};

/// Takes a key and its value.
pub type EachRecord<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError>;

pub trait Meta {
    /// An unsealed value.
    fn get(&self, key: &[u8], what: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Hands out the unsealed values whose keys begin with a prefix, with what follows it.
    fn scan_meta(&self, prefix: &[u8], what: &str, each: EachRecord<'_>) -> Result<(), StoreError>;

    /// Something in this store that cannot be.
    fn damaged(&self, what: impl Into<String>, place: &str) -> StoreError;
}

/// The runs of a graph, the oldest first. One that took the place of others is as old as they were.
pub fn runs(store: &impl Meta, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
    let mut runs = Vec::new();
    let what = format!("the list of runs of graph {}", graph.0);
    store.scan_meta(&runs_prefix(graph), &what, &mut |key, value| {
        let id = key.try_into().map(|bytes| RunId(u64::from_be_bytes(bytes)));
        let id = id.map_err(|_| store.damaged("a key of unknown form", &what))?;
        runs.push(records::take_run(id, value).map_err(|wrong| store.damaged(wrong, &what))?);
        Ok(())
    })?;
    runs.sort_by_key(|run| (run.first, run.id));
    Ok(runs)
}

pub fn run(store: &impl Meta, graph: GraphId, run: RunId) -> Result<RunInfo, StoreError> {
    let place = format!("run {} of graph {}", run.0, graph.0);
    let Some(record) = store.get(&run_key(graph, run), &place)? else {
        return Err(StoreError::failed(format!("read {place}"), "there is no such run (any more)"));
    };
    records::take_run(run, &record).map_err(|wrong| store.damaged(wrong, &place))
}

pub fn progress(store: &impl Meta, graph: GraphId) -> Result<Progress, StoreError> {
    let what = format!("the progress of graph {}", graph.0);
    let Some(bytes) = store.get(&progress_key(graph), &what)? else { return Ok(Progress::default()) };
    records::take_progress(&bytes).map_err(|wrong| store.damaged(wrong, &what))
}

pub fn graphs(store: &impl Meta) -> Result<Vec<GraphInfo>, StoreError> {
    let mut graphs = Vec::new();
    let what = "the list of graphs";
    store.scan_meta(b"g", what, &mut |key, value| {
        let id = take_number(key).map(GraphId).ok_or_else(|| store.damaged("a key of unknown form", what))?;
        graphs.push(records::take_graph(id, value).map_err(|wrong| store.damaged(wrong, what))?);
        Ok(())
    })?;
    Ok(graphs)
}

pub fn symbols(store: &impl Meta) -> Result<Vec<Text>, StoreError> {
    let mut symbols = Vec::new();
    let what = "the table of symbols";
    store.scan_meta(b"s", what, &mut |key, value| {
        if take_number(key) != Some(symbols.len() as u32) {
            return Err(store.damaged(format!("symbol {} is missing", symbols.len()), what));
        }
        let name = std::str::from_utf8(value).map_err(|_| store.damaged("a text that is not UTF-8", what))?;
        symbols.push(Text::new(name));
        Ok(())
    })?;
    Ok(symbols)
}

pub fn metadata(store: &impl Meta, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
    store.get(&metadata_key(key), &format!("metadata '{key}'"))
}

pub fn list_metadata(store: &impl Meta, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
    let mut found = Vec::new();
    let what = format!("metadata under '{prefix}'");
    store.scan_meta(&metadata_key(prefix), &what, &mut |rest, value| {
        let rest = std::str::from_utf8(rest).map_err(|_| store.damaged("a key that is not UTF-8", &what))?;
        found.push((format!("{prefix}{rest}"), value.to_vec()));
        Ok(())
    })?;
    Ok(found)
}
