//! The suite every store passes, and a store that fails on demand.
//!
//! `check` is given a way to open the same store again and again: what it wrote before must be there after. A store
//! that is not durable is held to the rest, and to being empty when opened again.

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_model::lock::lock;
use weir_model::{Mutations, NodeId, Position, QueryId, Symbol, Text, Tick, Value};

use super::*;

/// Opens the store as after a restart; whoever holds it has let go of it before.
pub type Open<'a> = &'a dyn Fn() -> Box<dyn Store>;

type Case<'a> = &'a mut dyn FnMut(Open<'_>);

/// Runs the suite; each part opens a store of its own with `fresh`.
pub fn check(fresh: &dyn Fn(Case<'_>)) {
    for part in
        [metadata, graphs, symbols, log, log_without_gaps, checkpoints, large_runs, merged_runs, broken_runs, dropping, backups]
    {
        fresh(&mut |open| part(open));
    }
}

/// An entry of `records` records, the first at `first`, that differ from those of other entries.
pub fn entry(graph: GraphId, first: u64, records: u64) -> Entry {
    let mut mutations = Mutations::default();
    for record in 0..records {
        mutations.start_record(record as u32);
        let (node, other) = (NodeId::new(first, record), NodeId::new(record, first));
        mutations.set_label(node, Symbol(1), true);
        mutations.set_property(node, Symbol(2), &Value::Integer(first as i64));
        mutations.set_property(node, Symbol(3), &Value::Text("a text that is too long to lie inline".into()));
        mutations.set_edge(node, Symbol(4), other, 0, true);
        mutations.set_edge(node, Symbol(4), other, 7, true);
        mutations.set_edge_property(node, Symbol(4), other, 7, Symbol(5), &Value::Integer(1));
        mutations.set_property(node, Symbol(6), &Value::Null);
    }
    Entry {
        graph,
        first: Tick(first),
        upper: Tick(first + records.max(1)),
        mutations: Arc::new(mutations),
        sources: vec![("numbers".into(), Position(first.to_le_bytes().to_vec()))],
        delivered: vec![delivered(first)],
    }
}

fn delivered(tick: u64) -> Delivered {
    Delivered { query: QueryId(NodeId::new(7, 8)), output: "out".into(), tick: Tick(tick), position: Position(vec![1, 2]) }
}

pub fn same(a: &Entry, b: &Entry) -> bool {
    let text = |entry: &Entry| {
        let Entry { graph, first, upper, mutations, sources, delivered } = entry;
        format!("{graph:?} {first} {upper} {:?} {:?} {sources:?} {delivered:?}", mutations.rows, mutations.arena)
    };
    text(a) == text(b)
}

/// Writes entries as one group, each saying that it follows the one before.
pub fn append(store: &dyn Store, entries: &[Entry]) {
    if !store.durable() {
        return entries.iter().for_each(|entry| store.hold(&Arc::new(entry.clone())));
    }
    let mut after = Tick::ZERO;
    let encoded: Vec<Vec<u8>> = entries
        .iter()
        .map(|entry| {
            let mut bytes = Vec::new();
            encode(entry, after, &mut bytes).unwrap();
            after = entry.upper;
            bytes
        })
        .collect();
    let group: Vec<EncodedEntry<'_>> = entries
        .iter()
        .zip(&encoded)
        .map(|(entry, bytes)| EncodedEntry { graph: entry.graph, first: entry.first, bytes })
        .collect();
    store.append(&group, NewSymbols::default(), false).unwrap();
}

pub fn read_log(store: &dyn Store, graph: GraphId, from: u64) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    store.read_log(graph, Tick(from), &mut |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

fn firsts(store: &dyn Store, graph: GraphId, from: u64) -> Vec<u64> {
    read_log(store, graph, from).unwrap().iter().map(|entry| entry.first.0).collect()
}

fn read_run(store: &dyn Store, graph: GraphId, run: RunId, part: Part) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    store
        .read_run(graph, run, part, &mut |chunk| {
            chunks.push(chunk.to_vec());
            Ok(())
        })
        .unwrap();
    let found: Vec<Vec<u8>> = (0..chunks.len() as u64).map(|n| store.chunk(graph, run, part, n).unwrap().unwrap()).collect();
    assert_eq!(found, chunks);
    assert_eq!(store.chunk(graph, run, part, chunks.len() as u64).unwrap(), None);
    chunks
}

/// The chunks of the part that is there in every run.
fn newest(chunks: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Result<(Part, Vec<u8>), StoreError>> {
    chunks.map(|chunk| Ok((Part::Newest, chunk)))
}

/// The store after a restart, where it lives on.
fn reopened(store: Box<dyn Store>, open: Open<'_>) -> Box<dyn Store> {
    if !store.durable() {
        return store;
    }
    drop(store);
    open()
}

fn metadata(open: Open<'_>) {
    let store = open();
    store.put_metadata("stream/b", b"2").unwrap();
    store.put_metadata("stream/a", b"1").unwrap();
    store.put_metadata("streams", b"not one").unwrap();
    store.put_metadata("stream/a", b"one").unwrap();
    store.put_metadata("stream/c", b"").unwrap();
    store.delete_metadata("stream/b").unwrap();
    store.delete_metadata("never there").unwrap();
    let look = |store: &dyn Store| {
        let listed = store.list_metadata("stream/").unwrap();
        assert_eq!(listed, [("stream/a".to_owned(), b"one".to_vec()), ("stream/c".to_owned(), Vec::new())]);
        assert_eq!(store.metadata("stream/a").unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(store.metadata("stream/b").unwrap(), None);
        assert_eq!(store.list_metadata("").unwrap().len(), 3);
    };
    look(&*store);
    let durable = store.durable();
    drop(store);
    let store = open();
    if durable {
        look(&*store);
    } else {
        assert_eq!(store.list_metadata("").unwrap(), []);
    }
}

fn graphs(open: Open<'_>) {
    let store = open();
    let ids: Vec<GraphId> = (0..300).map(|n| store.create_graph(&format!("graph{n}"), &[n as u8]).unwrap()).collect();
    store.drop_graph(ids[10]).unwrap();
    store.drop_graph(ids[299]).unwrap();
    store.drop_graph(ids[299]).unwrap();
    let found = store.graphs().unwrap();
    assert_eq!(found.len(), 298);
    assert_eq!(found[0], GraphInfo { id: ids[0], name: "graph0".to_owned(), options: vec![0] });
    assert!(found.iter().all(|info| info.id != ids[10]));
    let durable = store.durable();
    drop(store);
    let store = open();
    assert_eq!(store.graphs().unwrap(), if durable { found } else { Vec::new() });
    let new = store.create_graph("new", b"").unwrap();
    assert!(!durable || !ids.contains(&new), "a number was given twice");
}

fn symbols(open: Open<'_>) {
    let store = open();
    let names: Vec<Text> = (0..1000).map(|n| Text::new(format!("symbol {n}"))).collect();
    store.append(&[], NewSymbols { first: 0, names: &names[..3] }, false).unwrap();
    store.append(&[], NewSymbols { first: 3, names: &names[3..] }, true).unwrap();
    let durable = store.durable();
    drop(store);
    assert_eq!(open().symbols().unwrap(), if durable { names } else { Vec::new() });
}

fn log(open: Open<'_>) {
    let store = open();
    let [a, b] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
    assert_eq!(firsts(&*store, a, 0), []);
    let entries = [entry(a, 10, 5), entry(a, 15, 0), entry(a, 20, 100)];
    append(&*store, &entries);
    append(&*store, &[entry(b, 12, 1)]);
    let store = reopened(store, open);
    let found = read_log(&*store, a, 0).unwrap();
    assert_eq!(found.len(), 3);
    assert!(found.iter().zip(&entries).all(|(found, written)| same(found, written)));
    assert_eq!(firsts(&*store, a, 15), [15, 20]);
    assert_eq!(firsts(&*store, a, 120), []);
    assert_eq!(firsts(&*store, b, 0), [12]);

    // The callback's error ends the reading and comes out as it is.
    let mut seen = 0;
    let stopped = store.read_log(a, Tick::ZERO, &mut |_| {
        seen += 1;
        Err(StoreError::Stopped)
    });
    assert!(matches!(stopped, Err(StoreError::Stopped)) && seen == 1);
}

fn log_without_gaps(open: Open<'_>) {
    let store = open();
    let graph = store.create_graph("a", b"").unwrap();
    append(&*store, &[entry(graph, 10, 5)]);
    // Says that an entry ended at 17, which is not there.
    let mut bytes = Vec::new();
    let late = entry(graph, 20, 1);
    encode(&late, Tick(17), &mut bytes).unwrap();
    store.append(&[EncodedEntry { graph, first: late.first, bytes: &bytes }], NewSymbols::default(), false).unwrap();
    if store.durable() {
        let error = read_log(&*store, graph, 0).unwrap_err().to_string();
        assert!(error.contains("missing") && error.contains("graph 0"), "{error}");
    }
}

fn checkpoints(open: Open<'_>) {
    let store = open();
    let [a, b] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
    append(&*store, &[entry(a, 10, 5), entry(a, 15, 5), entry(a, 20, 5)]);
    append(&*store, &[entry(b, 10, 5)]);
    assert_eq!(store.progress(a).unwrap(), Progress::default());
    let chunks = vec![b"first".to_vec(), b"".to_vec(), b"third".to_vec()];
    let parts = [(Part::Newest, 0), (Part::Older, 0), (Part::Newest, 1), (Part::Newest, 2), (Part::Index, 0), (Part::Batches, 0)];
    let mut mixed = parts.iter().map(|(part, number)| Ok((*part, chunks[*number].clone())));
    let progress = Progress { upto: Tick(20), sources: vec![("s".into(), Position(vec![9]))], delivered: vec![delivered(19)] };
    let run = NewRun { first: Tick(10), upper: Tick(20), chunks: &mut mixed };
    let info = store.checkpoint(a, run, &progress).unwrap();
    let look = |store: &dyn Store| {
        assert_eq!(firsts(store, a, 0), [20]);
        assert_eq!(firsts(store, b, 0), [10]);
        assert_eq!(store.progress(a).unwrap(), progress);
        assert_eq!(store.progress(b).unwrap(), Progress::default());
        let runs = store.runs(a).unwrap();
        assert_eq!(runs, [info]);
        assert_eq!((info.chunks, info.first, info.upper), ([3, 1, 1, 1], Tick(10), Tick(20)));
        assert_eq!(read_run(store, a, info.id, Part::Newest), chunks);
        assert_eq!(read_run(store, a, info.id, Part::Older), chunks[..1]);
        assert_eq!(read_run(store, a, info.id, Part::Index), chunks[..1]);
        assert_eq!(read_run(store, a, info.id, Part::Batches), chunks[..1]);
        assert_eq!(store.runs(b).unwrap(), []);
        assert!(store.read_run(b, info.id, Part::Newest, &mut |_| Ok(())).is_err());
        assert_eq!(store.chunk(b, info.id, Part::Newest, 0).unwrap(), None);
    };
    look(&*store);
    let store = reopened(store, open);
    look(&*store);

    // A run without pages only moves on the progress: deliveries alone fill the log as well.
    let run = NewRun { first: Tick(20), upper: Tick(25), chunks: &mut std::iter::empty() };
    store.checkpoint(a, run, &Progress { upto: Tick(25), ..progress.clone() }).unwrap();
    assert_eq!(firsts(&*store, a, 25), []);
    assert_eq!(store.runs(a).unwrap().len(), 2);
}

/// More than a store would keep in one piece.
fn large_runs(open: Open<'_>) {
    let store = open();
    let graph = store.create_graph("a", b"").unwrap();
    let chunk = |n: u64| -> Vec<u8> { (0..40_000u64).flat_map(|i| (i.wrapping_mul(n + 1) >> 3).to_le_bytes()).collect() };
    for (start, upto) in [(0, 460), (460, 470)] {
        let progress = Progress { upto: Tick(upto), ..Progress::default() };
        // By turns, so that each part outgrows a file while the other does too.
        let mut chunks = (start..upto).map(|n| Ok((if n % 2 == 0 { Part::Newest } else { Part::Older }, chunk(n))));
        store.checkpoint(graph, NewRun { first: Tick(start), upper: progress.upto, chunks: &mut chunks }, &progress).unwrap();
    }
    let store = reopened(store, open);
    for (part, mut expected) in [(Part::Newest, 0), (Part::Older, 1)] {
        for run in store.runs(graph).unwrap() {
            let each = &mut |bytes: &[u8]| {
                assert!(bytes == chunk(expected), "chunk {expected}");
                expected += 2;
                Ok(())
            };
            store.read_run(graph, run.id, part, each).unwrap();
        }
        assert!(expected >= 470, "{expected}");
    }
    assert!(store.sizes().unwrap().pages > 0);
}

fn merged_runs(open: Open<'_>) {
    let store = open();
    let graph = store.create_graph("a", b"").unwrap();
    for n in 0..4u64 {
        let progress = Progress { upto: Tick(n + 1), ..Progress::default() };
        let mut chunks = newest(std::iter::once(vec![n as u8]));
        store.checkpoint(graph, NewRun { first: Tick(n), upper: Tick(n + 1), chunks: &mut chunks }, &progress).unwrap();
    }
    let runs = store.runs(graph).unwrap();
    let old: Vec<RunId> = runs[1..3].iter().map(|run| run.id).collect();
    let mut chunks = newest(std::iter::once(b"merged".to_vec()));
    let info = store.replace_runs(graph, &old, NewRun { first: Tick(1), upper: Tick(3), chunks: &mut chunks }).unwrap();
    let store = reopened(store, open);
    let runs = store.runs(graph).unwrap();
    assert_eq!(runs[1], info);
    let contents: Vec<_> = runs.iter().map(|run| read_run(&*store, graph, run.id, Part::Newest).concat()).collect();
    assert_eq!(contents, [vec![0], b"merged".to_vec(), vec![3]]);
    assert!(store.read_run(graph, old[0], Part::Newest, &mut |_| Ok(())).is_err());
    assert_eq!(store.chunk(graph, old[0], Part::Newest, 0).unwrap(), None);
}

/// A run with an error among its chunks is as if it had never been begun.
fn broken_runs(open: Open<'_>) {
    let store = open();
    let graph = store.create_graph("a", b"").unwrap();
    append(&*store, &[entry(graph, 10, 5)]);
    let broken = || (0..200u8).map(|n| if n < 150 { Ok((Part::Newest, vec![n; 1 << 20])) } else { Err(StoreError::Stopped) });
    let progress = Progress { upto: Tick(15), ..Progress::default() };
    let run = NewRun { first: Tick(10), upper: Tick(15), chunks: &mut broken() };
    assert!(matches!(store.checkpoint(graph, run, &progress), Err(StoreError::Stopped)));
    let run = NewRun { first: Tick(10), upper: Tick(15), chunks: &mut newest(std::iter::once(vec![1])) };
    let kept = store.checkpoint(graph, run, &progress).unwrap();
    let run = NewRun { first: Tick(10), upper: Tick(15), chunks: &mut broken() };
    assert!(matches!(store.replace_runs(graph, &[kept.id], run), Err(StoreError::Stopped)));
    let store = reopened(store, open);
    assert_eq!(store.runs(graph).unwrap(), [kept]);
    assert_eq!(read_run(&*store, graph, kept.id, Part::Newest), [vec![1]]);
}

/// What is restored from a backup is what was backed up, also where graphs have other numbers.
fn restored(store: &dyn Store, backup: &[u8]) -> Result<Copied, StoreError> {
    restore(store, &mut [&mut Cursor::new(backup)])
}

fn backups(open: Open<'_>) {
    let store = open();
    store.create_graph("gone", b"").unwrap();
    store.drop_graph(GraphId(0)).unwrap();
    let graph = store.create_graph("a", b"options").unwrap();
    append(&*store, &[entry(graph, 10, 5), entry(graph, 15, 5), entry(graph, 20, 5), entry(graph, 25, 5)]);
    let progress = Progress { upto: Tick(20), sources: vec![("s".into(), Position(vec![9]))], delivered: vec![delivered(19)] };
    let mut chunks = Part::ALL.into_iter().map(|part| Ok((part, vec![part as u8])));
    store.checkpoint(graph, NewRun { first: Tick(10), upper: Tick(20), chunks: &mut chunks }, &progress).unwrap();
    store.put_metadata(&format!("{}query", graph.metadata_prefix()), b"x").unwrap();
    store.put_metadata("setting", b"y").unwrap();
    let mut written = Vec::new();
    let copied = back_up(&*store, None, &[], &mut written).unwrap();
    assert_eq!((copied.graphs, copied.chunks, copied.entries, copied.bytes), (1, 4, 2, written.len() as u64));
    let other = InMemory::new();
    assert_eq!(restored(&other, &written).unwrap(), copied);
    let found = other.graphs().unwrap();
    assert_eq!((found[0].name.as_str(), &found[0].options[..], found[0].id), ("a", &b"options"[..], GraphId(0)));
    assert_eq!(firsts(&other, GraphId(0), 0), [20, 25]);
    assert_eq!(other.progress(GraphId(0)).unwrap(), progress);
    let run = other.runs(GraphId(0)).unwrap()[0];
    assert_eq!((run.first, run.upper, run.chunks), (Tick(10), Tick(20), [1; 4]));
    Part::ALL.into_iter().for_each(|part| assert_eq!(read_run(&other, GraphId(0), run.id, part), [vec![part as u8]]));
    assert_eq!(other.metadata("graph/0/query").unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(other.metadata("setting").unwrap().as_deref(), Some(&b"y"[..]));
    assert!(restored(&other, &written).is_err(), "into what is not empty");
    // Cut short or changed anywhere, it is refused.
    for at in 0..written.len() {
        assert!(restored(&InMemory::new(), &written[..at]).is_err(), "cut at {at}");
        let mut changed = written.clone();
        changed[at] ^= 0x20;
        assert!(restored(&InMemory::new(), &changed).is_err(), "byte {at}");
    }
    // And back into a store of this kind.
    store.drop_graph(graph).unwrap();
    store.delete_metadata("setting").unwrap();
    restored(&*store, &written).unwrap();
    let store = reopened(store, open);
    let graph = store.graphs().unwrap()[0].id;
    assert_eq!(firsts(&*store, graph, 0), [20, 25]);
    assert_eq!(store.progress(graph).unwrap(), progress);
}

fn dropping(open: Open<'_>) {
    let store = open();
    let [a, b] = ["a", "b"].map(|name| store.create_graph(name, b"").unwrap());
    for graph in [a, b] {
        append(&*store, &[entry(graph, 10, 5), entry(graph, 15, 5)]);
        let progress = Progress { upto: Tick(15), ..Progress::default() };
        let mut chunks = newest(std::iter::once(b"page".to_vec()));
        store.checkpoint(graph, NewRun { first: Tick(10), upper: Tick(15), chunks: &mut chunks }, &progress).unwrap();
        store.put_metadata(&format!("{}query", graph.metadata_prefix()), b"x").unwrap();
    }
    store.drop_graph(a).unwrap();
    // The log may still hold entries of it.
    append(&*store, &[entry(a, 30, 5)]);
    append(&*store, &[entry(b, 30, 5)]);
    let mut chunks = newest(std::iter::once(b"page".to_vec()));
    let run = NewRun { first: Tick(15), upper: Tick(20), chunks: &mut chunks };
    assert!(matches!(store.checkpoint(a, run, &Progress::default()), Err(StoreError::NoSuchGraph(id)) if id == a));
    let look = |store: &dyn Store| {
        assert_eq!(firsts(store, a, 0), []);
        assert_eq!(store.runs(a).unwrap(), []);
        assert_eq!(store.progress(a).unwrap(), Progress::default());
        assert_eq!(store.list_metadata(&a.metadata_prefix()).unwrap(), []);
        assert_eq!(firsts(store, b, 15), [15, 30]);
        assert_eq!(store.runs(b).unwrap().len(), 1);
        assert_eq!(store.list_metadata(&b.metadata_prefix()).unwrap().len(), 1);
    };
    look(&*store);
    look(&*reopened(store, open));
}

/// Passes everything on to another store, except that the n-th append and all later ones fail.
pub struct FaultyStore {
    pub inner: Arc<dyn Store>,
    pub appends_left: AtomicUsize,
    /// Checkpoints, and drops of graphs, fail as long as it is set.
    pub is_full: AtomicBool,
    /// How many have failed so.
    pub refused: AtomicUsize,
    /// To hold an entry is a panic as long as it is set.
    pub panics: AtomicBool,
    /// To store metadata fails as long as it is set.
    pub takes_no_metadata: AtomicBool,
    /// Files are not rewritten as long as it is set, as where a namespace is damaged.
    pub is_damaged: AtomicBool,
    /// Appends wait as long as somebody has it locked, as on a disk that is stuck.
    pub stuck: Mutex<()>,
}

impl FaultyStore {
    pub fn new(inner: Arc<dyn Store>, appends: usize) -> FaultyStore {
        FaultyStore {
            inner,
            appends_left: AtomicUsize::new(appends),
            is_full: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
            panics: AtomicBool::new(false),
            takes_no_metadata: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
            stuck: Mutex::default(),
        }
    }

    fn has_room(&self, for_what: &'static str) -> Result<(), StoreError> {
        match self.is_full.load(Ordering::SeqCst) {
            true => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                Err(StoreError::failed(for_what, "simulated: No space left on device"))
            }
            false => Ok(()),
        }
    }
}

impl Store for FaultyStore {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn durable(&self) -> bool {
        self.inner.durable()
    }

    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError> {
        drop(lock(&self.stuck));
        let count_down = |left: usize| left.checked_sub(1);
        match self.appends_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down) {
            Ok(_) => self.inner.append(group, symbols, sync),
            Err(_) => Err(StoreError::failed("append to the log", "simulated: No space left on device")),
        }
    }

    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.read_log(graph, from, each)
    }

    fn hold(&self, entry: &Arc<Entry>) {
        assert!(!self.panics.load(Ordering::SeqCst), "simulated: a mistake in weir");
        self.inner.hold(entry);
    }

    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError> {
        self.has_room("write a checkpoint")?;
        self.inner.checkpoint(graph, run, progress)
    }

    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError> {
        self.inner.replace_runs(graph, replaced, run)
    }

    fn wipe(&self, graph: GraphId) -> Result<(), StoreError> {
        self.inner.wipe(graph)
    }

    fn rewrites(&self) -> bool {
        !self.is_damaged.load(Ordering::SeqCst) && self.inner.rewrites()
    }

    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError> {
        self.inner.runs(graph)
    }

    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.read_run(graph, run, part, each)
    }

    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.chunk(graph, run, part, number)
    }

    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError> {
        self.inner.progress(graph)
    }

    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError> {
        self.inner.create_graph(name, options)
    }

    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError> {
        self.has_room("drop a graph")?;
        self.inner.drop_graph(graph)
    }

    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError> {
        self.inner.graphs()
    }

    fn symbols(&self) -> Result<Vec<Text>, StoreError> {
        self.inner.symbols()
    }

    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.metadata(key)
    }

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        if self.takes_no_metadata.load(Ordering::SeqCst) {
            return Err(StoreError::failed("store metadata", "simulated: No space left on device"));
        }
        self.inner.put_metadata(key, value)
    }

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError> {
        self.inner.delete_metadata(key)
    }

    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.list_metadata(prefix)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn sizes(&self) -> Result<Sizes, StoreError> {
        self.inner.sizes()
    }
}
