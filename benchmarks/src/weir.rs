//! Weir as the passes use it: its queries, a store to open, records and mutations made beforehand, and a thread that counts
//! results.
//!
//! What a file of events goes through in the whole pipe, each pass takes a part of:
//!
//!     lines ─> records ─> mutations ─> graph ─> results
//!
//! Only public parts of the engine are used, as the binary `weir` uses them.

use std::error::Error;
use std::fs;
use std::io::BufRead;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_cypher_compiler::{StandingMode, compile, compile_standing};
use weir_engine::evaluate::{Environment, Evaluator, Limits};
use weir_engine::render::results::ResultRow;
use weir_engine::store::{InMemory, Store};
use weir_engine::view::Empty;
use weir_engine::{Engine, EngineError, Graph, Ingester, Options, Prepared, Retention, Standing, StandingQuery, Start};
use weir_model::{Mutations, NodeId, Position, QueryId, Tick, Value, json};

use crate::data::Processes;
use crate::passes::{End, Mode, Settings, StoreKind};

/// Reads nothing of the graph, so that it takes the fast path of commit; an event without a parent makes no edge.
pub const INGEST: &str = "MATCH (n) WHERE id(n) = idFrom('process', $that.process_id) SET n = $that, n:Process \
    WITH n MATCH (p) WHERE $that.parent_id IS NOT NULL AND id(p) = idFrom('process', $that.parent_id) \
    CREATE (n)-[:parent]->(p)";

/// The simplest there is: a node for a number.
pub const NUMBERS: &str = "MATCH (n) WHERE id(n) = idFrom($that) SET n.number = $that";

const CHAIN: &str = "MATCH (p0)-[:parent]->(p1)-[:parent]->(p2)-[:parent]->(p3) WHERE exists(p0.filename) RETURN";

/// How long a process rests that ends with `End::Rest`.
const REST: Duration = Duration::from_secs(10);

/// The output whose delivery is noted, as a real one's would be.
pub const OUTPUT: &str = "count";

/// A directory of this process, removed with everything in it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(settings: &Settings, name: &str) -> Result<Scratch, Box<dyn Error>> {
        let path = settings.directory.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("store")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: {} is left behind: {error}", self.0.display());
        }
    }
}

pub fn open_store(kind: StoreKind, path: &Path) -> Result<Arc<dyn Store>, Box<dyn Error>> {
    match kind {
        StoreKind::InMemory => Ok(Arc::new(InMemory::default())),
        #[cfg(feature = "rocks-db")]
        StoreKind::RocksDb => {
            use weir_engine::store::{RocksDb, RocksDbOptions};
            Ok(Arc::new(RocksDb::open(RocksDbOptions { create_parent_dir: true, ..RocksDbOptions::new(path) })?))
        }
        #[cfg(not(feature = "rocks-db"))]
        StoreKind::RocksDb => {
            Err(format!("{}: bench was built without the feature rocks-db; use --store in-memory", path.display()).into())
        }
    }
}

/// Not started yet: standing queries that were there before are installed first. What is in memory keeps no history, so that
/// the figures are those of the graph.
pub fn open(store: Arc<dyn Store>, workers: usize) -> Result<Engine, EngineError> {
    let retention = Retention { journal: store.durable(), kept: None };
    Engine::open(store, Options { workers, retention, ..Options::default() })
}

pub fn started(store: Arc<dyn Store>, workers: usize) -> Result<Engine, EngineError> {
    let engine = open(store, workers)?;
    engine.start()?;
    Ok(engine)
}

/// A process of its own runs the pass that fills the store of these settings, and ends as they say.
pub fn fill_apart(settings: &Settings, pass: &str) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["run", pass, "--json"]).args(settings.to_arguments()).stdin(Stdio::null()).stdout(Stdio::null());
    let status = child.status()?;
    if (settings.end == End::Shutdown) != status.success() {
        return Err(format!("the process that fills the store ended with {status}").into());
    }
    Ok(())
}

/// Ends a process that has filled a store.
pub fn end(engine: &Engine, end: End) -> Result<(), EngineError> {
    match end {
        End::Shutdown => engine.shutdown(),
        // Nothing is flushed and no destructor runs: what is left is what a killed process leaves.
        End::Abort => std::process::abort(),
        End::Rest => {
            std::thread::sleep(REST);
            std::process::abort()
        }
    }
}

/// An engine in memory that holds the events of `procs`.
pub fn filled(settings: &Settings) -> Result<Engine, Box<dyn Error>> {
    let engine = started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    for (mutations, records) in batches(&graph, &settings.processes(), 0..settings.events, settings.batch)? {
        graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    Ok(engine)
}

/// Installs a standing query of any kind.
pub fn install_any(graph: &Graph, number: u64, text: &str, start: Start) -> Result<StandingQuery, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: Vec::new(), ids: graph.ids(), ..Default::default() };
    let standing = compile_standing(text, StandingMode::AnyQuery, &options).map_err(|problems| problems[0].to_string())?;
    let id = QueryId(NodeId::spread(number));
    Ok(graph.install(Standing { id, plan: standing.plan, cancellations: true, start, outputs: Vec::new() })?)
}

/// Ingests each line of JSON, `batch` of them at a time, with how far it has come as the position of its source. Gives the tick
/// after the last of them.
pub fn ingest_lines(mut lines: impl BufRead, ingester: &mut Ingester, source: &str, batch: u64) -> Result<Tick, Box<dyn Error>> {
    let mut records: Vec<Value> = Vec::with_capacity(batch as usize);
    let (mut line, mut upper, mut bytes) = (Vec::new(), Tick::ZERO, 0u64);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)?;
        bytes += read as u64;
        if read > 0 {
            records.push(json::parse(&line)?);
        }
        if records.len() as u64 == batch || (read == 0 && !records.is_empty()) {
            let ingested = ingester.ingest(&records, Some((source, Position(bytes.to_le_bytes().to_vec()))))?;
            if let Some((index, failure)) = ingested.failures.first() {
                return Err(format!("record {index} of a batch failed: {failure}").into());
            }
            upper = ingested.upper;
            records.clear();
        }
        if read == 0 {
            return Ok(upper);
        }
    }
}

/// Compiles an ingest query.
pub fn prepare_any(graph: &Graph, text: &str) -> Result<Arc<Prepared>, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { parameters: vec!["that".into()], ids: graph.ids(), ..Default::default() };
    let plan = compile(text, &options).map_err(|problems| problems[0].to_string())?;
    Ok(graph.prepare(plan))
}

/// As `prepare_any`. A query that reads the graph is an error: the figures would be those of another path.
pub fn prepare(graph: &Graph, text: &str) -> Result<Arc<Prepared>, Box<dyn Error>> {
    let prepared = prepare_any(graph, text)?;
    if prepared.reads(graph.open_cypher()) {
        return Err(format!("this query reads the graph:\n{}", weir_cypher_compiler::explain_plan(&prepared.plan)).into());
    }
    Ok(prepared)
}

pub fn install_chain(graph: &Graph, mode: Mode, start: Start) -> Result<StandingQuery, Box<dyn Error>> {
    let (mode, columns) = match mode {
        Mode::DistinctId => (StandingMode::DistinctId, "DISTINCT id(p0) AS id"),
        Mode::MultipleValues => (StandingMode::MultipleValues, "id(p0) AS p0, id(p1) AS p1, id(p2) AS p2, id(p3) AS p3"),
    };
    let options = weir_cypher_compiler::Options { parameters: Vec::new(), ids: graph.ids(), ..Default::default() };
    let standing = compile_standing(&format!("{CHAIN} {columns}"), mode, &options).map_err(|problems| problems[0].to_string())?;
    let id = QueryId(NodeId::new(4, 4));
    Ok(graph.install(Standing { id, plan: standing.plan, cancellations: true, start, outputs: vec![OUTPUT.into()] })?)
}

pub fn record(processes: &Processes, i: u64, line: &mut Vec<u8>) -> Result<Value, Box<dyn Error>> {
    line.clear();
    processes.write_line(i, line);
    Ok(json::parse(line)?)
}

/// Evaluates records into one batch of mutations.
pub fn evaluate(
    graph: &Graph,
    evaluator: &mut Evaluator,
    records: &[Value],
    mutations: &mut Mutations,
) -> Result<(), Box<dyn Error>> {
    for (index, record) in records.iter().enumerate() {
        mutations.start_record(index as u32);
        evaluate_one(graph, evaluator, record, mutations)?;
    }
    Ok(())
}

/// Appends what one record changes.
pub fn evaluate_one(
    graph: &Graph,
    evaluator: &mut Evaluator,
    record: &Value,
    mutations: &mut Mutations,
) -> Result<(), Box<dyn Error>> {
    let environment = Environment {
        view: &Empty,
        parameters: std::slice::from_ref(record),
        ids: graph.ids(),
        now: weir_model::Clock::at(0),
        fresh_id: &|| graph.fresh_id(),
        limits: Limits::default(),
        open_cypher: graph.open_cypher(),
        recall: None,
    };
    evaluator.run(&environment, mutations, &mut |_| ControlFlow::Continue(()))?;
    Ok(())
}

/// Mutations with the number of records they come from.
pub type Batch = (Mutations, usize);

/// The events as batches of mutations, ready to be committed.
pub fn batches(graph: &Graph, processes: &Processes, events: Range<u64>, batch: u64) -> Result<Vec<Batch>, Box<dyn Error>> {
    let prepared = prepare(graph, INGEST)?;
    let mut evaluator = Evaluator::new(&prepared, graph.symbols());
    let mut line = Vec::new();
    let mut batches = Vec::with_capacity(((events.end - events.start) / batch + 1) as usize);
    let mut next = events.start;
    while next < events.end {
        let end = (next + batch).min(events.end);
        let records: Vec<Value> = (next..end).map(|i| record(processes, i, &mut line)).collect::<Result<_, _>>()?;
        let mut mutations = Mutations::default();
        evaluate(graph, &mut evaluator, &records, &mut mutations)?;
        mutations.rows.shrink_to_fit();
        mutations.arena.shrink_to_fit();
        batches.push((mutations, records.len()));
        next = end;
    }
    Ok(batches)
}

#[derive(Clone, Copy, Default, Debug)]
pub struct Counted {
    pub matches: u64,
    pub cancellations: u64,
}

/// A thread that takes results as an output would: durable ones, in order, noting how far it is, and passing over what was
/// delivered before a restart.
pub struct Counter {
    thread: JoinHandle<Result<Counted, EngineError>>,
    until: Arc<AtomicU64>,
}

impl Counter {
    /// `each` sees the results of every batch as it arrives.
    pub fn start(
        query: impl Into<Arc<StandingQuery>>,
        mut each: impl FnMut(&[ResultRow]) + Send + 'static,
    ) -> std::io::Result<Counter> {
        let query = query.into();
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let end = until.clone();
        let count = move || {
            let mut counted = Counted::default();
            let (from, _) = query.delivered(OUTPUT).unwrap_or_default();
            let mut upper = Tick::ZERO;
            while upper.0 < end.load(Ordering::SeqCst) {
                let Some(batch) = query.next(Duration::from_millis(2))? else { continue };
                let rows = &batch.rows[batch.rows.partition_point(|row| row.tick < from)..];
                each(rows);
                let positive = rows.iter().filter(|row| row.positive).count() as u64;
                counted.matches += positive;
                counted.cancellations += rows.len() as u64 - positive;
                upper = batch.upper;
                if upper > from {
                    query.set_delivered(OUTPUT, upper, Position::default(), !rows.is_empty());
                }
            }
            Ok(counted)
        };
        let thread = std::thread::Builder::new().name("results".into()).spawn(count)?;
        Ok(Counter { thread, until })
    }

    /// Waits until everything before `upper` has arrived.
    pub fn finish(self, upper: Tick) -> Result<Counted, Box<dyn Error>> {
        self.until.store(upper.0, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the thread that counts results panicked")?.map_err(Into::into)
    }
}
