//! Figures of a running weir, read when somebody asks: as JSON in the names clients know, and for Prometheus.
//!
//! Nothing but the time that the store takes is counted for the sake of these: streams, standing queries and outputs count for
//! themselves, the operating system for the process.

mod process;
mod prometheus;
pub mod reporters;
mod timed_store;
mod timer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_engine::{DEFAULT_GRAPH, Histogram, RESULTS_WAITING_MAX, Stage};

use crate::app::App;
use crate::clock;
use crate::ingest::{Status, Stream};
use crate::outputs::{Figures, State};
use crate::standing::Query;
use crate::wire::standing::Output;
use crate::wire::v2;

pub use self::process::{Process, memory_bytes_total};
pub use self::prometheus::text;
pub use self::reporters::ReporterSettings;
pub use self::timed_store::{StoreTimers, TimedStore};
use self::timer::of_histogram;

/// What clients look for about each shard: nodes do not sleep, and wait for no place, so none of these ever happens.
const NEVER: [&str; 9] = [
    "sleep-counters.woken",
    "sleep-counters.slept-success",
    "sleep-counters.slept-failure",
    "sleep-counters.removed",
    "unlikely.wake-up-failed",
    "unlikely.incomplete-shutdown",
    "unlikely.actor-name-reserved",
    "unlikely.hard-limit-reached",
    "unlikely.wake-up-error",
];
const NEVER_TIMED: [&str; 2] = ["sleep-timers.slept", "sleep-timers.woken"];
/// Of a shard of all graphs.
const NEVER_RELAYED: &str = "delivery-relay-deduplicated";

/// What there is of a graph.
pub struct GraphFigures {
    pub name: String,
    pub streams: Vec<Arc<Stream>>,
    pub queries: Vec<Arc<Query>>,
}

pub fn graphs(app: &App) -> Vec<GraphFigures> {
    let graphs = app.engine.graphs().into_iter().filter_map(|name| app.engine.graph(&name));
    graphs
        .map(|graph| GraphFigures {
            name: graph.name().to_owned(),
            streams: app.ingests.list(&graph),
            queries: app.standing.list(&graph),
        })
        .collect()
}

/// Bytes of the files of the store; none where it has none.
pub fn store_bytes(app: &App) -> Option<u64> {
    app.settings.store.path().map(size)
}

fn size(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    if metadata.is_dir() { directory_bytes(path) } else { metadata.len() }
}

fn directory_bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => directory_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        // It went away meanwhile.
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// `{atTime, counters, timers, gauges}`.
pub fn to_json(app: &App) -> Json {
    let mut counters = JsonMap::new();
    let mut gauges = JsonMap::new();
    let mut timers = Vec::from(app.store_timers.all().map(|(name, timer)| timer.to_json(&format!("persistor.{name}"))));
    let graphs = graphs(app);
    let (shards, nothing) = (app.settings.effective["shard-count"].as_u64().unwrap_or_default().min(1024), Histogram::default());
    for shard in 0..shards {
        counters.insert(format!("shard.shard-{shard}.{NEVER_RELAYED}"), 0.into());
    }
    for graph in &graphs {
        let prefix = if graph.name == DEFAULT_GRAPH { String::new() } else { format!("{}.", graph.name) };
        for stream in &graph.streams {
            counters.insert(format!("{prefix}ingest.{}.count", stream.name), stream.ingested().into());
            counters.insert(format!("{prefix}ingest.{}.bytes", stream.name), stream.ingested_bytes().into());
        }
        for query in &graph.queries {
            of_query(&prefix, query, &mut counters, &mut timers);
        }
        for shard in 0..shards {
            for name in NEVER {
                counters.insert(format!("{prefix}shard.shard-{shard}.{name}"), 0.into());
            }
            for name in NEVER_TIMED {
                timers.push(of_histogram(&format!("{prefix}shard.shard-{shard}.{name}"), &nothing, 0.0));
            }
        }
    }
    let process = Process::read();
    let (used, total) = (process.resident_bytes as f64, memory_bytes_total() as f64);
    for area in ["heap", "total"] {
        gauges.insert(format!("memory.{area}.used"), used.into());
        gauges.insert(format!("memory.{area}.committed"), used.into());
        gauges.insert(format!("memory.{area}.max"), total.into());
        gauges.insert(format!("memory.{area}.usage"), (used / total.max(1.0)).into());
    }
    gauges.insert("shared.valve.ingest".to_owned(), (closed_valves(&graphs) as f64).into());
    gauges.insert("dgn-reg.count".to_owned(), (graphs.iter().map(|graph| graph.queries.len()).sum::<usize>() as f64).into());
    if let Some(bytes) = store_bytes(app) {
        gauges.insert("store.bytes".to_owned(), (bytes as f64).into());
    }
    let named = |(name, value): (String, Json), kind: &str| json!({"name": name, kind: value});
    json!({
        "atTime": clock::instant(SystemTime::now()),
        "counters": counters.into_iter().map(|entry| named(entry, "count")).collect::<Vec<_>>(),
        "timers": timers,
        "gauges": gauges.into_iter().map(|entry| named(entry, "value")).collect::<Vec<_>>(),
    })
}

fn of_query(prefix: &str, query: &Query, counters: &mut JsonMap<String, Json>, timers: &mut Vec<Json>) {
    let name = |what: &str| format!("{prefix}standing-queries.{what}.{}", query.name);
    // Cancellations are results, too.
    counters.insert(name("results"), query.result_count().into());
    counters.insert(name("cancellations"), query.cancellation_count().into());
    counters.insert(name("dropped"), dropped(query).into());
    counters.insert(name("consumption"), consumed(query, &query.figures()).into());
    let installed = query.installed();
    let delivered = installed.latency().of(Stage::Delivered);
    timers.push(of_histogram(&name("queue-time"), delivered, query.results_per_second()));
}

/// Results that destinations have left out because they came too fast.
fn dropped(query: &Query) -> u64 {
    query.outputs().iter().map(|output| output.counters.dropped.load(Ordering::Relaxed)).sum()
}

/// Results that every output has taken. What one has taken and another has not is counted among the results, and waits.
fn consumed(query: &Query, figures: &[(Figures, bool)]) -> u64 {
    let behind = figures.iter().map(|(output, _)| output.behind).max().unwrap_or(0);
    query.result_count().saturating_sub(behind as u64)
}

/// How many results a second every output is through with: as many as the slowest of those that take any. Where none does,
/// nothing waits for them.
fn consumed_per_second(query: &Query, figures: &[(Figures, bool)]) -> f64 {
    let taking = figures.iter().filter(|(output, _)| matches!(output.state, State::Running | State::Retrying));
    taking.map(|(output, _)| output.done.1).min_by(f64::total_cmp).unwrap_or_else(|| query.results_per_second())
}

/// What all ingest waits for: memory that is short.
fn memory_is_tight() -> bool {
    weir_engine::memory::figures().is_some_and(|memory| memory.tight)
}

/// What ingest of the graph alone waits for: its queries.
fn closed_of(graph: &GraphFigures) -> usize {
    graph.queries.iter().filter(|query| query.waiting() > RESULTS_WAITING_MAX).count()
}

fn closed_valves(graphs: &[GraphFigures]) -> usize {
    usize::from(memory_is_tight()) + graphs.iter().map(closed_of).sum::<usize>()
}

/// One snapshot, of the one member.
pub fn backpressure(app: &App) -> Json {
    let graphs = graphs(app);
    let closed = closed_valves(&graphs);
    let of_streams = |graph: &GraphFigures| {
        let is_held = memory_is_tight() || closed_of(graph) > 0;
        graph.streams.iter().map(|stream| stream_state(&graph.name, stream, is_held)).collect::<Vec<_>>()
    };
    let ingests: Vec<Json> = graphs.iter().flat_map(of_streams).collect();
    let queries: Vec<Json> =
        graphs.iter().flat_map(|graph| graph.queries.iter().map(|query| query_state(&graph.name, query))).collect();
    let webserver = &app.settings.webserver;
    let mut namespaces = app.namespaces();
    if let Some(first) = namespaces.first_mut() {
        *first = DEFAULT_GRAPH.to_owned();
    }
    json!([{
        "timestamp": clock::instant(SystemTime::now()),
        "host": {"version": crate::VERSION, "address": webserver.address, "port": webserver.port, "pid": std::process::id()},
        "namespaces": namespaces,
        "globalValve": {"isOpen": closed == 0, "closedCount": closed, "oneMinuteClosures": 0.0},
        "ingests": ingests,
        "standingQueries": queries,
        "persistor": {
            "type": app.settings.store.label(),
            "writeLatencyMs": app.store_timers.persist_event.median_millis(),
            "readLatencyMs": app.store_timers.get_latest_snapshot.median_millis(),
        },
    }])
}

fn stream_state(namespace: &str, stream: &Stream, is_held: bool) -> Json {
    let state = if is_held && stream.status() == Status::Running { "BACKPRESSURED" } else { "FLOWING" };
    let mut shown = json!({
        "name": stream.name,
        "namespace": namespace,
        "sourceType": v2::ingest::kind(&stream.kind()),
        "status": crate::wire::family::screaming(stream.status().name()),
        "rate": stream.records_per_second(),
        "totalCount": stream.ingested(),
        "stages": {"source": state, "preGraphWrite": state},
    });
    if let Some(limit) = stream.rate_limit() {
        shown["rateLimit"] = limit.into();
    }
    shown
}

fn query_state(namespace: &str, query: &Query) -> Json {
    let (waiting, cancelled, dropped) = (query.waiting(), query.cancellation_count(), dropped(query));
    let figures = query.figures();
    let consumed = consumed(query, &figures);
    // Each destination of a workflow is an output here.
    let mut outputs: Vec<Json> = Vec::new();
    for (output, holds) in &figures {
        let behind = output.behind > 0 || output.count(|counters| counters.waiting.load(Ordering::Relaxed)) > 0;
        let definition = query.output_settings(&output.name);
        let enriched = match &definition {
            Some(Output::CypherQuery(cypher)) => cypher.and_then.is_some(),
            Some(Output::Workflow(workflow)) => workflow.enrichment.is_some(),
            _ => false,
        };
        let state = match behind {
            _ if *holds => "BACKPRESSURED",
            true => "CONSTRAINED",
            false => "FLOWING",
        };
        let kind = definition.as_ref().map_or("Drop".to_owned(), v2::standing::destination_kind);
        let name = definition.as_ref().and_then(Output::workflow).unwrap_or(&output.name);
        let at = outputs.iter().position(|known| known["name"] == name).unwrap_or(outputs.len());
        let (count, rate) = output.done;
        if at == outputs.len() {
            outputs.push(json!({"name": name, "rate": rate, "totalCount": count, "hasEnrichment": enriched, "destinations": []}));
        }
        // It is through with a result when all its destinations are.
        let workflow = &mut outputs[at];
        workflow["rate"] = workflow["rate"].as_f64().unwrap_or(0.0).min(rate).into();
        workflow["totalCount"] = workflow["totalCount"].as_u64().unwrap_or(0).min(count).into();
        if let Some(destinations) = workflow["destinations"].as_array_mut() {
            let index = destinations.len();
            destinations.push(json!({"index": index, "type": kind, "state": state}));
        }
    }
    let ratio = waiting as f64 / RESULTS_WAITING_MAX as f64;
    json!({
        "name": query.name,
        "namespace": namespace,
        "queue": {
            "bufferCount": waiting,
            "backpressureThreshold": RESULTS_WAITING_MAX,
            "maxSize": RESULTS_WAITING_MAX,
            "thresholdRatio": ratio,
            "capacityRatio": ratio.min(1.0),
            "totalProduced": consumed + waiting as u64,
            "totalCancellations": cancelled,
            "totalDropped": dropped,
            "totalConsumed": consumed,
            "productionRate": query.results_per_second(),
            "consumptionRate": consumed_per_second(query, &figures),
        },
        "outputs": outputs,
    })
}
