//! The rival: `procs` through drasi-core, everything in memory.
//!
//! Reads a file of events as `bench data` writes it, feeds each event as a node and an edge to one continuous query (the chain
//! of four over `parent`), counts the rows added, and compares them with the number found by following the parents.
//! Prints one JSON object in the shape `bench compare` reads. Knows nothing of weir but the format of the events.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Instant;

use drasi_core::evaluation::context::QueryPartEvaluationContext;
use drasi_core::evaluation::functions::FunctionRegistry;
use drasi_core::models::{Element, ElementMetadata, ElementPropertyMap, ElementReference, SourceChange};
use drasi_core::query::{ContinuousQuery, QueryBuilder};
use drasi_functions_cypher::CypherFunctionSet;
use drasi_query_cypher::CypherParser;
use serde_json::{Value, json};

/// The allocator of weir.
#[path = "../../../../engine/src/memory/heap.rs"]
mod heap;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

const QUERY: &str = "MATCH (p0:Process)-[:parent]->(p1:Process)-[:parent]->(p2:Process)-[:parent]->(p3:Process) \
                     WHERE p0.filename IS NOT NULL \
                     RETURN p0.process_id AS p0, p1.process_id AS p1, p2.process_id AS p2, p3.process_id AS p3";

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: drasi-rival EVENTS.jsonl")?;
    // As the engines beside it: one thread does the work, so the figure is one per core.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run(&path))
}

async fn run(path: &str) -> Result<(), Box<dyn Error>> {
    let functions = Arc::new(FunctionRegistry::new()).with_cypher_function_set();
    let parser = Arc::new(CypherParser::new(functions.clone()));
    let query = QueryBuilder::new(QUERY, parser).with_function_registry(functions).try_build().await?;

    let lines = BufReader::new(fs::File::open(path)?).lines();
    let mut parents: HashMap<i64, Option<i64>> = HashMap::new();
    let mut microseconds: Vec<u64> = Vec::new();
    let (mut added, mut removed) = (0u64, 0u64);
    let start = Instant::now();
    for line in lines {
        let line = line?;
        let begun = Instant::now();
        let event: Value = serde_json::from_str(&line)?;
        let id = event["process_id"].as_i64().ok_or("an event without process_id")?;
        let parent = event["parent_id"].as_i64();
        let when = event["timestamp"].as_u64().ok_or("an event without timestamp")?;
        count(&query, node(id, when, event), &mut added, &mut removed).await?;
        if let Some(parent) = parent {
            count(&query, edge(id, parent, when), &mut added, &mut removed).await?;
        }
        microseconds.push(begun.elapsed().as_micros() as u64);
        parents.insert(id, parent);
    }
    let seconds = start.elapsed().as_secs_f64();

    let up = |id: i64| parents.get(&id).copied().flatten();
    let expected = parents.keys().filter(|id| up(**id).and_then(up).and_then(up).is_some()).count() as u64;
    microseconds.sort_unstable();
    let at = |share: f64| {
        microseconds.get(((microseconds.len() as f64 * share) as usize).min(microseconds.len().saturating_sub(1))).copied()
    };
    let result = json!({
        "name": "drasi", "events": parents.len(), "seconds": seconds, "cpu_seconds": cpu_seconds()?,
        "peak_rss_bytes": peak_rss_bytes()?, "disk_bytes": 0, "matches": added - removed, "expected": expected,
        "settings": "drasi-core 0.5.10, one thread, in memory, JSON parsed by serde_json",
        "latency_us": { "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0) },
    });
    println!("{result}");
    if added - removed != expected {
        return Err(format!("{} matches found, {expected} expected", added - removed).into());
    }
    Ok(())
}

async fn count(query: &ContinuousQuery, change: SourceChange, added: &mut u64, removed: &mut u64) -> Result<(), Box<dyn Error>> {
    for row in query.process_source_change(change).await? {
        match row {
            QueryPartEvaluationContext::Adding { .. } => *added += 1,
            QueryPartEvaluationContext::Removing { .. } => *removed += 1,
            _ => {}
        }
    }
    Ok(())
}

fn node(id: i64, when: u64, event: Value) -> SourceChange {
    SourceChange::Insert {
        element: Element::Node {
            metadata: metadata(&id.to_string(), "Process", when),
            properties: ElementPropertyMap::from(event),
        },
    }
}

/// `(child)-[:parent]->(parent)`: in drasi's words the edge's in-node is where it starts.
fn edge(child: i64, parent: i64, when: u64) -> SourceChange {
    SourceChange::Insert {
        element: Element::Relation {
            metadata: metadata(&format!("{child}>{parent}"), "parent", when),
            in_node: ElementReference::new("procs", &child.to_string()),
            out_node: ElementReference::new("procs", &parent.to_string()),
            properties: ElementPropertyMap::new(),
        },
    }
}

fn metadata(id: &str, label: &str, when: u64) -> ElementMetadata {
    ElementMetadata { reference: ElementReference::new("procs", id), labels: Arc::new([Arc::from(label)]), effective_from: when }
}

/// User and system time of this process, in the hundredths of a second the kernel reports.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in brackets and may hold spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |field: usize| fields.get(field).and_then(|text| text.parse::<f64>().ok()).ok_or("/proc/self/stat has an unknown form");
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

fn peak_rss_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc/self/status has no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}
