//! `large`: a graph of --events edges and half as many nodes with five properties each: what it takes of disk and of memory, part
//! by part, and how long it takes from opening its store to the first new match.
//!
//! A process of its own fills the store (`large-fill`), another holds the parts in memory (`large-memory`).

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use weir_cypher_compiler::{StandingMode, compile_standing};
use weir_engine::store::InMemory;
use weir_engine::{Graph, Standing, StandingQuery, Start};
use weir_model::{Mutations, NodeId, QueryId, Symbol, Tick, Value, codec};

use crate::data::mix;
use crate::measure::{Clock, Durations, Run, bytes_on_disk, resident_bytes};
use crate::passes::Settings;
use crate::weir::{self, Counter, Scratch};

/// Nodes of one batch, each a record with its edges.
const NODES_AT_ONCE: u64 = 5_000;

const PATTERN: &str = "MATCH (a:Person)-[:knows]->(b:Person) WHERE a.flagged = true RETURN id(a) AS a, id(b) AS b";

/// A graph in memory counts as at rest when what it takes has stayed the same for this long.
const AT_REST: Duration = Duration::from_secs(3);

/// Edges from each node.
const DEGREE: u64 = 2;

struct Names {
    person: Symbol,
    knows: Symbol,
    flagged: Symbol,
    keys: [Symbol; 5],
}

impl Names {
    fn of(graph: &Graph) -> Names {
        let name = |text: &str| graph.symbols().intern(text);
        let keys = ["number", "name", "country", "balance", "since"].map(name);
        Names { person: name("Person"), knows: name("knows"), flagged: name("flagged"), keys }
    }
}

fn node(n: u64) -> NodeId {
    NodeId::new(mix(n), mix(n ^ 0x5EED))
}

/// As wide as such things are: a number, a name, one of two hundred countries, an amount, a time.
fn properties(n: u64) -> [Value; 5] {
    let at = mix(n.wrapping_mul(3));
    let text = |text: String| Value::Text(text.into());
    [
        Value::Integer(n as i64),
        text(format!("{} {}", FIRST[at as usize % FIRST.len()], LAST[(at >> 16) as usize % LAST.len()])),
        text(format!("C{:03}", (at >> 32) % 200)),
        Value::Float((at >> 40) as f64 / 100.0),
        Value::Integer(1_700_000_000_000 + (at % 100_000_000_000) as i64),
    ]
}

const FIRST: [&str; 12] =
    ["Ada", "Bert", "Carla", "Dmitri", "Eleonore", "Farid", "Gwendolyn", "Hiro", "Ines", "Johannes", "Kwame", "Lucía"];
const LAST: [&str; 12] = [
    "Abel",
    "Bakshi",
    "Castellanos",
    "Dupont",
    "Eriksson",
    "Fernández",
    "Grünwald",
    "Huang",
    "Ivanova",
    "Jansen",
    "Kowalczyk",
    "Lindqvist",
];

fn friend(n: u64, i: u64, nodes: u64) -> u64 {
    mix(n * DEGREE + i + 0xF00D) % nodes
}

/// What is put in, part by part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Nodes,
    Properties,
    Edges,
}

fn put(names: &Names, n: u64, nodes: u64, part: Part, into: &mut Mutations) {
    match part {
        Part::Nodes => into.set_label(node(n), names.person, true),
        Part::Properties => {
            names.keys.iter().zip(properties(n)).for_each(|(key, value)| into.set_property(node(n), *key, &value))
        }
        Part::Edges => (0..DEGREE).for_each(|i| into.set_edge(node(n), names.knows, node(friend(n, i, nodes)), 0, true)),
    }
}

fn fill_with(graph: &Graph, nodes: u64, parts: &[Part]) -> Result<Tick, Box<dyn Error>> {
    let names = Names::of(graph);
    let mut upper = Tick::ZERO;
    for first in (0..nodes).step_by(NODES_AT_ONCE as usize) {
        let mut mutations = Mutations::default();
        let end = (first + NODES_AT_ONCE).min(nodes);
        for n in first..end {
            mutations.start_record((n - first) as u32);
            parts.iter().for_each(|part| put(&names, n, nodes, *part, &mut mutations));
        }
        upper = graph.apply(mutations, (end - first) as usize)?;
    }
    Ok(upper)
}

fn install(graph: &Graph, start: Start) -> Result<StandingQuery, Box<dyn Error>> {
    let options = weir_cypher_compiler::Options { ids: graph.ids(), ..Default::default() };
    let plan =
        compile_standing(PATTERN, StandingMode::MultipleValues, &options).map_err(|problems| problems[0].to_string())?.plan;
    let id = QueryId(NodeId::new(4, 4));
    Ok(graph.install(Standing { id, plan, cancellations: true, start, outputs: vec![weir::OUTPUT.into()] })?)
}

/// Stores the graph and ends.
pub fn fill(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::started(weir::open_store(settings.store, &settings.directory.join("store"))?, settings.workers)?;
    let graph = engine.default_graph();
    let counter = Counter::start(install(&graph, Start::Now)?, |_| ())?;
    let clock = Clock::start()?;
    let upper = fill_with(&graph, settings.events / DEGREE, &[Part::Nodes, Part::Properties, Part::Edges])?;
    counter.finish(upper)?;
    graph.wait_durable(upper)?;
    let run = clock.stop("large-fill", settings.events)?;
    weir::end(&engine, settings.end)?;
    Ok(run)
}

pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let scratch = Scratch::new(settings, "large")?;
    let settings = &Settings { directory: scratch.path(), ..settings.clone() };
    weir::fill_apart(settings, "large-fill")?;
    reopen(settings)
}

fn reopen(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let nodes = settings.events / DEGREE;
    let disk_bytes = bytes_on_disk(&settings.directory)?;
    let clock = Clock::start()?;
    let begun = Instant::now();
    let engine = weir::open(weir::open_store(settings.store, &settings.directory.join("store"))?, settings.workers)?;
    let opened = begun.elapsed();
    let graph = engine.default_graph();
    let query = install(&graph, Start::Resume)?;
    engine.start()?;
    let started = begun.elapsed();
    let first = Arc::new(OnceLock::new());
    let seen = first.clone();
    let counter = Counter::start(query, move |rows| {
        if !rows.is_empty() {
            seen.get_or_init(|| begun.elapsed());
        }
    })?;
    // Whoever knows node 0 is flagged: each edge from there completes a match.
    let names = Names::of(&graph);
    let mut mutations = Mutations::default();
    mutations.set_property(node(0), names.flagged, &Value::Boolean(true));
    let upper = graph.apply(mutations, 1)?;
    let matches = counter.finish(upper)?.matches;
    let mut run = clock.stop("large", settings.events)?;
    let mut durations = Durations::new();
    first.get().into_iter().for_each(|elapsed| durations.record(*elapsed));
    run.latency_us = durations.latency();
    (run.matches, run.expected) = (Some(matches), Some(DEGREE));
    run.disk_bytes = disk_bytes;
    let resident = resident_at_rest()?;
    engine.shutdown()?;
    let (plain, compressed) = as_json(nodes)?;
    run.settings = format!(
        "{nodes} nodes with five properties, {} edges, after {:?}: opened in {:.2} s, installed and replayed in {:.2} s; {:.0} MB resident at rest; \
         on disk {:.0} MB, as lines of JSON {:.0} MB, with zstd {:.0} MB; {} workers",
        settings.events,
        settings.end,
        opened.as_secs_f64(),
        (started - opened).as_secs_f64(),
        megabytes(resident),
        megabytes(disk_bytes),
        megabytes(plain),
        megabytes(compressed),
        settings.workers
    );
    Ok(run)
}

/// Graphs of the first part, of the first two and of all three, beside each other, in memory without a past.
pub fn memory(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    const PARTS: [Part; 3] = [Part::Nodes, Part::Properties, Part::Edges];
    let nodes = settings.events / DEGREE;
    let (mut engines, mut taken) = (Vec::new(), [0; 3]);
    let clock = Clock::start()?;
    for (index, taken) in taken.iter_mut().enumerate() {
        let before = resident_at_rest()?;
        let engine = weir::started(Arc::new(InMemory::default()), settings.workers)?;
        let graph = engine.default_graph();
        fill_with(&graph, nodes, &PARTS[..=index])?;
        graph.wait_visible()?;
        *taken = resident_at_rest()?.saturating_sub(before);
        engines.push(engine);
    }
    let mut run = clock.stop("large-memory", settings.events)?;
    engines.iter().try_for_each(|engine| engine.shutdown())?;
    let mut encoded = Vec::new();
    let encoded: u64 = (0..nodes)
        .map(|n| {
            encoded.clear();
            properties(n).iter().for_each(|value| codec::encode(value, &mut encoded));
            encoded.len() as u64
        })
        .sum();
    let of_properties = taken[1].saturating_sub(taken[0]) as f64;
    run.settings = format!(
        "resident at rest: {:.0} B a node with a label, {:.0} B its five properties ({:.2} times what they are encoded in), {:.0} B an edge; {} workers",
        taken[0] as f64 / nodes as f64,
        of_properties / nodes as f64,
        of_properties / encoded as f64,
        taken[2].saturating_sub(taken[1]) as f64 / settings.events as f64,
        settings.workers
    );
    Ok(run)
}

fn resident_at_rest() -> io::Result<u64> {
    let (mut resident, mut since) = (resident_bytes()?, Instant::now());
    while since.elapsed() < AT_REST {
        std::thread::sleep(Duration::from_millis(100));
        let now = resident_bytes()?;
        if now.abs_diff(resident) > resident / 200 {
            (resident, since) = (now, Instant::now());
        }
    }
    Ok(resident)
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// How large the graph is as a stream would bring it, with numbers for ids; and compressed.
fn as_json(nodes: u64) -> io::Result<(u64, u64)> {
    let mut compressed = zstd::Encoder::new(Counting(0), 3)?;
    let mut plain = 0;
    let mut line = Vec::new();
    for n in 0..nodes {
        line.clear();
        let [number, name, country, balance, since] = properties(n).map(|value| as_text(&value));
        writeln!(line, r#"{{"number":{number},"name":{name},"country":{country},"balance":{balance},"since":{since}}}"#)?;
        for i in 0..DEGREE {
            writeln!(line, r#"{{"from":{n},"type":"knows","to":{}}}"#, friend(n, i, nodes))?;
        }
        plain += line.len() as u64;
        compressed.write_all(&line)?;
    }
    Ok((plain, compressed.finish()?.0))
}

fn as_text(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{text}\""),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

struct Counting(u64);

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, feature = "rocks-db"))]
mod tests {
    use super::*;
    use crate::passes::{StoreKind, test_settings};

    #[test]
    fn a_small_one_is_found_again_and_matches() {
        let settings = Settings { store: StoreKind::RocksDb, ..test_settings("large", 2_000) };
        std::fs::create_dir_all(&settings.directory).expect("a directory");
        fill(&settings).expect("it is filled");
        let run = reopen(&settings);
        std::fs::remove_dir_all(&settings.directory).expect("the directory was made");
        let run = run.expect("it is opened");
        assert!(run.count_is_right(), "{run:?}");
    }

    #[test]
    fn the_parts_are_weighed() {
        let run = memory(&test_settings("large-memory", 2_000)).expect("it runs");
        assert!(run.settings.contains("an edge"), "{run:?}");
    }
}
