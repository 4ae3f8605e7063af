//! `/metrics` as Prometheus reads it: the text format, names that are meant to be there, and what promtool says of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir, wait_until};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(60);

const DASHBOARD: &str = include_str!("../../packaging/grafana.json");

/// A weir with something to count, under names that are hard to write.
fn weir() -> Weir {
    let weir = Home::new().start(&["-Dweir.workers=1"]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Counted) RETURN DISTINCT id(n) AS id"});
    let query = json!({"name": "quo\"te\\", "pattern": pattern, "outputs": [{"name": "line\nbreak", "destinations": [{"type": "Drop"}]}]});
    weir.post("/api/v2/standing-queries", &query).expect(201);
    let source = json!({"type": "NumberIterator", "limit": 5});
    let stream = json!({"name": "ünïcode", "source": source, "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Counted"});
    weir.post("/api/v2/ingests", &stream).expect(201);
    weir.wait_ingest("%C3%BCn%C3%AFcode", "Completed", PATIENCE);
    // What reads show may have brought results that are not counted yet.
    let found = |line: &str| line.starts_with("weir_standing_results_total{") && line.ends_with(" 5");
    wait_until("its results are counted", PATIENCE, || weir.get("/metrics").expect(200).text().lines().any(found));
    weir
}

/// Name, labels as text, value.
fn samples(text: &str) -> Vec<(String, String, f64)> {
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut families: Vec<&str> = Vec::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and words");
            assert!(helped.insert(name) && !words.is_empty(), "{line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a kind");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "counters and nothing else end in _total: {line}");
            assert!(kinds.insert(name, kind).is_none(), "{line} stands there twice");
            families.push(name);
            continue;
        }
        let end = line.find(['{', ' ']).expect("a name");
        let name = &line[..end];
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
        let of_histogram = |family: &&str| {
            kinds[*family] == "histogram" && matches!(name.strip_prefix(*family), Some("_bucket" | "_sum" | "_count"))
        };
        let name_of_family = families.last().copied().filter(of_histogram).unwrap_or(name);
        assert_eq!(families.last(), Some(&name_of_family), "a family stands in one place, behind its type: {line}");
        assert!(helped.contains(name_of_family), "{line} has no help");
        let (labels, value) = line[end..].rsplit_once(' ').expect("a value");
        assert!(labels.is_empty() || (labels.starts_with('{') && labels.ends_with('}')), "{line}");
        assert!(seen.insert((name, labels)), "{line} stands there twice");
        samples.push((name.to_owned(), labels.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line} has no number"))));
    }
    assert!(text.ends_with('\n'));
    samples
}

#[test]
fn the_text_is_strict_and_says_what_happened() {
    let weir = weir();
    let answer = weir.get("/metrics").expect(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let samples = samples(&answer.text());
    let value = |name: &str, part: &str| {
        let found = samples.iter().find(|(known, labels, _)| known == name && labels.contains(part));
        found.unwrap_or_else(|| panic!("no {name} with {part} in {samples:?}")).2
    };
    assert_eq!(value("weir_ingest_records_total", r#"ingest="ünïcode""#), 5.0);
    assert_eq!(value("weir_standing_results_total", r#"query="quo\"te\\""#), 5.0);
    assert_eq!(value("weir_output_failed_total", r#"output="line\nbreak""#), 0.0);
    assert_eq!(value("weir_ready", ""), 1.0);
    // What was written took its time.
    assert!(value("weir_store_operations_total", "persist-event") >= 1.0);
    assert!(value("weir_store_seconds_total", "persist-event") > 0.0);
    let mut figures = weir.get("/api/v1/admin/metrics").expect(200).json();
    for name in [
        "shard.shard-0.sleep-counters.woken",
        "shard.shard-3.unlikely.hard-limit-reached",
        "shard.shard-3.delivery-relay-deduplicated",
    ] {
        let counters = figures["counters"].as_array().into_iter().flatten();
        assert_eq!(counters.filter(|counter| **counter == json!({"name": name, "count": 0})).count(), 1, "{name}: {figures}");
    }
    let timers = figures["timers"].take();
    let timer = timers.as_array().into_iter().flatten().find(|timer| timer["name"] == "persistor.persist-event");
    let of = |name: &str| timer.and_then(|timer| timer[name].as_f64()).expect("a number");
    assert!(of("min") > 0.0 && of("min") <= of("median") && of("median") <= of("99") && of("99") <= of("max"), "{timers}");
    for name in ["shard.shard-0.sleep-timers.slept", "shard.shard-3.sleep-timers.woken"] {
        let found: Vec<_> = timers.as_array().into_iter().flatten().filter(|timer| timer["name"] == name).collect();
        assert!(found.len() == 1 && found[0]["99"] == json!(0.0) && found[0]["oneMinuteRate"] == json!(0.0), "{name}: {timers}");
    }
    assert!(value("process_resident_memory_bytes", "") > 1e6 && value("weir_store_bytes", "") > 0.0);
}

/// Every result is in a bucket of each stage it has gone through, in the figures as in the status of the query.
#[test]
fn latency_is_measured_by_stage() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=2"]);
    let pattern = json!({"type": "Cypher", "mode": "AnyQuery", "query": "MATCH (n:Counted) RETURN n.i AS i"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}, "none": {"type": "Drop"}});
    weir.rows("MATCH (n) WHERE id(n) = idFrom('was there') SET n:Counted");
    let body = json!({"pattern": pattern, "outputs": outputs, "includeCancellations": true});
    weir.post("/api/v1/query/standing/timed", &body).expect(201);
    weir.post("/api/v1/query/standing/control/propagate", &json!({})).expect(202);
    home.wait_lines("out.jsonl", 1);
    let status = |path: &str| weir.get(path).expect(200).json();
    assert!(status("/api/v1/query/standing/timed")["stats"]["local"]["latency"].is_null(), "what was there has no latency");
    let source = json!({"type": "NumberIteratorIngest", "ingestLimit": 50,
        "format": {"type": "CypherLine", "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Counted, n.i = $that"}});
    weir.post("/api/v1/ingest/numbers", &source).expect(200);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('one more') SET n:Counted");
    home.wait_lines("out.jsonl", 52);
    let counts = || {
        let latency = status("/api/v1/query/standing/timed")["stats"]["local"]["latency"].take();
        ["commit", "durable", "dataflow", "delivered", "whole"].map(|stage| latency[stage]["count"].as_u64().unwrap_or(0))
    };
    wait_until("both outputs have said so", PATIENCE, || counts() == [51, 51, 51, 102, 102]);
    let latency = status("/api/v2/graph/quine/standingQueries/timed")["stats"]["local"]["latency"].take();
    let of = |stage: &str, name: &str| latency[stage][name].as_f64().unwrap_or_else(|| panic!("no {name} of {stage}: {latency}"));
    for stage in ["commit", "durable", "dataflow", "delivered", "whole"] {
        let (p50, p99, most) = (of(stage, "p50Millis"), of(stage, "p99Millis"), of(stage, "maxMillis"));
        assert!(p50 <= p99 && p99 <= most && of(stage, "meanMillis") <= most, "{latency}");
    }
    assert!(of("whole", "maxMillis") >= of("delivered", "maxMillis") && of("whole", "maxMillis") < 60_000.0, "{latency}");
    let figures = weir.get("/api/v1/admin/metrics").expect(200).json();
    let figure = |kind: &str, name: &str| {
        let found = figures[kind].as_array().into_iter().flatten().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} among {kind}: {figures}")).clone()
    };
    assert_eq!(figure("counters", "standing-queries.consumption.timed")["count"], 52, "{figures}");
    let timer = figure("timers", "standing-queries.queue-time.timed");
    let millis = |name: &str| timer[name].as_f64().unwrap_or_else(|| panic!("no {name}: {timer}"));
    let grows = ["min", "10", "20", "q1", "median", "q3", "80", "90", "99", "max"];
    assert!(millis("min") > 0.0 && grows.map(millis).is_sorted(), "{timer}");
    assert!((millis("min")..=millis("max")).contains(&millis("mean")) && millis("oneMinuteRate") >= 0.0, "{timer}");
    assert_eq!(millis("max"), of("delivered", "maxMillis"), "{timer}");
    let samples = samples(&weir.get("/metrics").expect(200).text());
    let find = |name: &str, part: &str| {
        let found = samples.iter().find(|(known, labels, _)| known == name && labels.contains(part));
        found.unwrap_or_else(|| panic!("no {name} with {part}")).2
    };
    assert_eq!(find("weir_standing_latency_seconds_count", r#"stage="dataflow""#), 51.0);
    assert_eq!(find("weir_standing_latency_seconds_bucket", r#"stage="whole",le="+Inf""#), 102.0);
    assert_eq!(find("weir_standing_latency_seconds_bucket", r#"stage="whole",le="60""#), 102.0);
    assert!(find("weir_standing_latency_seconds_sum", r#"stage="commit""#) > 0.0);
}

#[test]
fn promtool_finds_nothing_wrong() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/services/prometheus.sh");
    let there = || Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let install = || Command::new(script).arg("install").status().is_ok_and(|status| status.success());
    if !there() && (!install() || !there()) {
        eprintln!("**** LEFT OUT: promtool cannot be installed; the strict reader of this file has looked");
        return;
    }
    let text = weir().get("/metrics").expect(200).text();
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    promtool.stdin.take().expect("its input").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let text = weir().get("/metrics").expect(200).text();
    let mut names: BTreeSet<String> = samples(&text).into_iter().map(|(name, ..)| name).collect();
    // Of some there are samples only where something has them.
    names.extend(text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split_once(' ')?.0.to_owned())));
    let dashboard: Json = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array()).flatten();
    for expression in targets.map(|target| target["expr"].as_str().expect("an expression")) {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("weir_") || word.starts_with("process_")) {
            assert!(names.contains(name), "the dashboard asks for {name}, which is not there");
        }
    }
}
