//! The pass `procs-churn`: processes start as in `procs`, and earlier ones change, move to another parent and go; the chain of
//! four must report what begins and what ends.
//!
//! What must come out is counted from outside, by a table of processes that is brought up to date event by event.
//!
//! `procs-churn-ingest` is the same as a stream brings it: lines of JSON, one query that tells what each of them says, and a
//! store.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use weir_engine::evaluate::Evaluator;
use weir_engine::store::InMemory;
use weir_engine::{Graph, Ingester, Start};
use weir_model::{Mutations, NodeId, Tick, Value};

use crate::data::{Processes, mix};
use crate::measure::{Clock, Run};
use crate::passes::{Mode, Settings};
use crate::weir::{self, Batch, Counted, Counter, Scratch};

/// Of a hundred events, those that give an earlier process another file name, or none.
const CHANGES: u64 = 10;
/// Of a hundred events, those that move an earlier process to another parent.
const MOVES: u64 = 2;
/// Of a hundred events, those that end an earlier process.
const ENDS: u64 = 2;

/// A change, a move or an end concerns one of this many processes before it.
const WITHIN: u64 = 3_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    Start(u64),
    /// The file name is another one now, or none.
    Name(u64, bool),
    Move(u64, u64),
    End(u64),
}

/// What is known of the processes so far.
#[derive(Default)]
struct Known {
    parents: Vec<Option<u64>>,
    named: Vec<bool>,
    lives: Vec<bool>,
    children: HashMap<u64, Vec<u64>>,
}

impl Known {
    fn set_parent(&mut self, process: u64, parent: Option<u64>) {
        let before = std::mem::replace(&mut self.parents[process as usize], parent);
        if let Some(siblings) = before.and_then(|before| self.children.get_mut(&before)) {
            siblings.retain(|child| *child != process);
        }
        if let Some(parent) = parent {
            self.children.entry(parent).or_default().push(process);
        }
    }

    fn apply(&mut self, event: Event, processes: &Processes) {
        match event {
            Event::Start(process) => {
                self.parents.push(None);
                self.named.push(true);
                self.lives.push(true);
                self.set_parent(process, processes.parent(process));
            }
            Event::Name(process, named) => self.named[process as usize] = named,
            Event::Move(process, parent) => self.set_parent(process, Some(parent)),
            Event::End(process) => {
                self.set_parent(process, None);
                for child in self.children.remove(&process).unwrap_or_default() {
                    self.parents[child as usize] = None;
                }
                self.named[process as usize] = false;
                self.lives[process as usize] = false;
            }
        }
    }

    /// The rest of the chain of four that begins here.
    fn chain(&self, process: u64) -> Option<[u64; 3]> {
        let parent = |process: u64| self.parents[process as usize];
        self.named.get(process as usize).filter(|named| **named)?;
        let first = parent(process)?;
        let second = parent(first)?;
        Some([first, second, parent(second)?])
    }

    /// The processes whose match may depend on one: those at most three steps below it.
    fn below(&self, process: u64) -> Vec<u64> {
        let mut all = vec![process];
        let mut begin = 0;
        for _ in 0..3 {
            let end = all.len();
            for at in begin..end {
                all.extend(self.children.get(&all[at]).into_iter().flatten());
            }
            begin = end;
        }
        all
    }
}

/// Matches that begin, and those that end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Expected {
    matches: u64,
    cancellations: u64,
}

/// Makes the events, one after another.
struct Stream {
    processes: Processes,
    mode: Mode,
    known: Known,
    expected: Expected,
    next: u64,
}

impl Stream {
    fn new(settings: &Settings) -> Stream {
        let (processes, mode) = (settings.processes(), settings.mode);
        Stream { processes, mode, known: Known::default(), expected: Expected::default(), next: 0 }
    }

    fn event(&mut self, i: u64) -> Event {
        let (kind, which) = (mix(self.processes.seed ^ mix(3 * i)), mix(self.processes.seed ^ mix(3 * i + 1)));
        let earlier = |below: u64, random: u64| (below > 0).then(|| below - 1 - random % below.min(WITHIN));
        let target = earlier(self.next, which).filter(|process| self.known.lives[*process as usize]);
        match (kind % 100, target) {
            (0..CHANGES, Some(process)) => Event::Name(process, kind / 100 % 3 > 0),
            (n, Some(process)) if (CHANGES..CHANGES + MOVES).contains(&n) => {
                earlier(process, kind / 100).map_or_else(|| self.start(), |parent| Event::Move(process, parent))
            }
            (n, Some(process)) if (CHANGES + MOVES..CHANGES + MOVES + ENDS).contains(&n) => Event::End(process),
            _ => self.start(),
        }
    }

    fn start(&mut self) -> Event {
        self.next += 1;
        Event::Start(self.next - 1)
    }

    /// Applies an event to what is known, and counts what begins and ends by it.
    fn count(&mut self, event: Event) {
        let process = match event {
            Event::Start(process) | Event::Name(process, _) | Event::Move(process, _) | Event::End(process) => process,
        };
        let concerned = self.known.below(process);
        let before: Vec<Option<[u64; 3]>> = concerned.iter().map(|process| self.known.chain(*process)).collect();
        self.known.apply(event, &self.processes);
        for (process, before) in concerned.into_iter().zip(before) {
            let after = self.known.chain(process);
            // With the chain as its result, another one is another match.
            let same = before == after || (self.mode == Mode::DistinctId && before.is_some() == after.is_some());
            if !same {
                self.expected.cancellations += u64::from(before.is_some());
                self.expected.matches += u64::from(after.is_some());
            }
        }
    }
}

/// The events as mutations, ready to be committed, and what they must give.
fn batches(graph: &Graph, settings: &Settings) -> Result<(Vec<Batch>, Expected), Box<dyn Error>> {
    let prepared = weir::prepare(graph, weir::INGEST)?;
    let mut evaluator = Evaluator::new(&prepared, graph.symbols());
    let symbol = |name: &str| graph.symbols().intern(name);
    let (label, parent_of, filename) = (symbol("Process"), symbol("parent"), symbol("filename"));
    let processes = settings.processes();
    let mut stream = Stream::new(settings);
    let mut ids: Vec<NodeId> = Vec::new();
    let (mut line, mut batches) = (Vec::new(), Vec::new());
    let mut i = 0;
    while i < settings.events {
        let mut mutations = Mutations::default();
        let first = i;
        while i < settings.events && i - first < settings.batch {
            let event = stream.event(i);
            mutations.start_record((i - first) as u32);
            match event {
                Event::Start(process) => {
                    let at = mutations.rows.len();
                    let record = weir::record(&processes, process, &mut line)?;
                    weir::evaluate_one(graph, &mut evaluator, &record, &mut mutations)?;
                    ids.push(mutations.rows[at].node);
                }
                Event::Name(process, named) => {
                    let name = if named { Value::text(&format!("/usr/bin/other{i}")) } else { Value::Null };
                    mutations.set_property(ids[process as usize], filename, &name);
                }
                Event::Move(process, parent) => {
                    if let Some(before) = stream.known.parents[process as usize] {
                        mutations.set_edge(ids[process as usize], parent_of, ids[before as usize], 0, false);
                    }
                    mutations.set_edge(ids[process as usize], parent_of, ids[parent as usize], 0, true);
                }
                Event::End(process) => {
                    let id = ids[process as usize];
                    mutations.clear_properties(id);
                    mutations.set_label(id, label, false);
                    if let Some(parent) = stream.known.parents[process as usize] {
                        mutations.set_edge(id, parent_of, ids[parent as usize], 0, false);
                    }
                    for child in stream.known.children.get(&process).into_iter().flatten() {
                        mutations.set_edge(ids[*child as usize], parent_of, id, 0, false);
                    }
                }
            }
            stream.count(event);
            i += 1;
        }
        batches.push((mutations, (i - first) as usize));
    }
    Ok((batches, stream.expected))
}

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
    let graph = engine.default_graph();
    let (batches, expected) = batches(&graph, settings)?;
    let query = weir::install_chain(&graph, settings.mode, Start::Now)?;
    let counter = Counter::start(query, |_| ())?;
    let mut upper = Tick::ZERO;
    let clock = Clock::start()?;
    for (mutations, records) in batches {
        upper = graph.apply(mutations, records)?;
    }
    graph.wait_visible()?;
    let counted = counter.finish(upper)?;
    let run = clock.stop("procs-churn", settings.events)?;
    engine.shutdown()?;
    compared(run, "mutations to counted results, in memory", settings, counted, expected)
}

/// A run with what it found and what it should have.
fn compared(mut run: Run, what: &str, settings: &Settings, counted: Counted, expected: Expected) -> Result<Run, Box<dyn Error>> {
    if counted.matches != expected.matches {
        return Err(format!("{counted:?}, where {expected:?} are expected").into());
    }
    run.matches = Some(counted.matches + counted.cancellations);
    run.expected = Some(expected.matches + expected.cancellations);
    run.settings = format!(
        "{what}, {:?}, {} workers, {} events a batch; {} matches, {} cancellations",
        settings.mode, settings.workers, settings.batch, counted.matches, counted.cancellations
    );
    Ok(run)
}

/// One event of each kind. Edges that go are looked up: this query reads the graph.
const INGEST: &str = "MATCH (n) WHERE id(n) = idFrom('process', $that.process_id)
    CALL { WITH n WITH n WHERE $that.event_type = 'process_start' SET n = $that, n:Process }
    CALL { WITH n WITH n WHERE $that.event_type = 'process_name' SET n.filename = $that.filename }
    CALL { WITH n WITH n WHERE $that.event_type = 'process_move' MATCH (n)-[e:parent]->() DELETE e }
    CALL { WITH n WITH n WHERE $that.event_type = 'process_end' DETACH DELETE n }
    WITH n WHERE $that.parent_id IS NOT NULL
    MATCH (p) WHERE id(p) = idFrom('process', $that.parent_id)
    CREATE (n)-[:parent]->(p)";

/// The file of events, written anew, and what they must give.
fn events_file(settings: &Settings) -> Result<(PathBuf, Expected), Box<dyn Error>> {
    fs::create_dir_all(&settings.directory)?;
    let path = settings.directory.join(format!("churn-{}-{}-{}.jsonl", settings.seed, settings.events, std::process::id()));
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    let mut stream = Stream::new(settings);
    let mut line = Vec::new();
    for i in 0..settings.events {
        let event = stream.event(i);
        line.clear();
        match event {
            Event::Start(process) => stream.processes.write_line(process, &mut line),
            Event::Name(process, true) => {
                writeln!(line, r#"{{"event_type":"process_name","process_id":{process},"filename":"/usr/bin/other{i}"}}"#)?
            }
            Event::Name(process, false) => {
                writeln!(line, r#"{{"event_type":"process_name","process_id":{process},"filename":null}}"#)?;
            }
            Event::Move(process, parent) => {
                writeln!(line, r#"{{"event_type":"process_move","process_id":{process},"parent_id":{parent}}}"#)?;
            }
            Event::End(process) => writeln!(line, r#"{{"event_type":"process_end","process_id":{process}}}"#)?,
        }
        out.write_all(&line)?;
        stream.count(event);
    }
    out.flush()?;
    Ok((path, stream.expected))
}

pub fn ingest(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let (path, expected) = events_file(settings)?;
    let file = BufReader::with_capacity(1 << 20, File::open(&path)?);
    // Nobody else reads it.
    fs::remove_file(&path)?;
    let scratch = Scratch::new(settings, "churn")?;
    let engine = weir::started(weir::open_store(settings.store, &scratch.path())?, settings.workers)?;
    let graph = engine.default_graph();
    let counter = Counter::start(weir::install_chain(&graph, settings.mode, Start::Now)?, |_| ())?;
    let mut ingester = Ingester::new(graph.clone(), weir::prepare_any(&graph, INGEST)?);
    let clock = Clock::start()?;
    let upper = weir::ingest_lines(file, &mut ingester, "churn", settings.batch)?;
    let counted = counter.finish(upper)?;
    graph.wait_durable(upper)?;
    let run = clock.stop("procs-churn-ingest", settings.events)?;
    engine.shutdown()?;
    compared(run, &format!("file of JSON to counted results, {:?}", settings.store), settings, counted, expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn cancellations_are_counted_as_exactly_as_matches() {
        for (workers, mode) in [(1, Mode::DistinctId), (2, Mode::MultipleValues)] {
            let settings = Settings { workers, mode, ..test_settings("churn", 8_000) };
            let run = run(&settings).expect("it runs");
            assert!(run.count_is_right() && run.matches > Some(6_000), "{run:?}");
            assert!(!run.settings.contains(" 0 cancellations"), "{run:?}");
            // As lines of JSON, these events give the same matches.
            let ingested = ingest(&settings).expect("it runs");
            std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
            assert_eq!((ingested.matches, ingested.expected), (run.matches, run.expected));
        }
    }
}
