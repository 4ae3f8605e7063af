//! Outputs that write to the graph what brings them results again: cut, counted and named; and chains that end are left alone.

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, RESULTS_MAX, Weir, wait_until};

/// How many write one because of the other at most, unless a test says something else.
const CHAIN_MAX: u64 = 100;

fn create(weir: &Weir, name: &str, pattern: &str, write: &str) {
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": pattern});
    let outputs = json!({"write": {"type": "CypherQuery", "query": write}, "file": {"type": "WriteToFile", "path": format!("{name}.jsonl")}});
    weir.post(&format!("/api/v1/query/standing/{name}"), &json!({"pattern": pattern, "outputs": outputs})).expect(201);
}

fn output(weir: &Weir, query: &str) -> Json {
    weir.get(&format!("/api/v1/query/standing/{query}")).expect(200).json()["stats"]["local"]["outputs"]["write"].clone()
}

fn number(weir: &Weir, node: &str, property: &str) -> u64 {
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('{node}') RETURN n.{property}"))[0][0].as_u64().unwrap_or(0)
}

const COUNTS_ON: &str = "MATCH (n) WHERE id(n) = $that.data.id SET n.count = $that.data.count + 1";

#[test]
fn a_query_that_feeds_itself_is_cut_and_goes_on() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.standing.chain-max=100"]);
    create(&weir, "self", "MATCH (n) WHERE n.count >= 0 RETURN id(n) AS id, n.count AS count", COUNTS_ON);
    for (round, node) in (1..).zip(["a", "b", "c"]) {
        weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('{node}') SET n.count = 0"));
        wait_until("the loop is cut", RESULTS_MAX, || {
            let shown = output(&weir, "self");
            shown["loops"] == round && shown["failed"] == round
        });
        assert_eq!(number(&weir, node, "count"), CHAIN_MAX);
    }
    let output = output(&weir, "self");
    let told = output["lastError"]["message"].as_str().expect("an error");
    assert!(told.contains("loop") && told.contains("'self'") && told.contains("standing.chain-max"), "{told}");
    assert_eq!((&output["state"], &output["failed"]), (&json!("Running"), &json!(3)), "{output}");
    let log = weir.log();
    assert_eq!(log.lines().filter(|line| line.contains("WARN") && line.contains("loop")).count(), 1, "{log}");
    let metrics = weir.get("/metrics").expect(200).text();
    let line = metrics.lines().find(|line| line.starts_with("weir_output_loops_total{") && line.contains("\"write\""));
    assert!(line.is_some_and(|line| line.ends_with(" 3")), "{line:?}");
    // The other output has them all.
    home.wait_lines("self.jsonl", 3 * (CHAIN_MAX as usize + 1));
    weir.stop();
}

/// Recipes calculate in this way, one node or one round after another.
#[test]
fn a_series_that_is_long_and_ends_is_told_and_left_alone() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let pattern = "MATCH (n) WHERE n.count >= 0 AND n.count < 2000 RETURN id(n) AS id, n.count AS count";
    create(&weir, "series", pattern, COUNTS_ON);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n.count = 0");
    wait_until("the series comes to its end", RESULTS_MAX, || number(&weir, "a", "count") == 2000);
    let shown = output(&weir, "series");
    assert!(shown["loops"].is_null() && shown["failed"].as_u64().unwrap_or(0) == 0, "{shown}");
    let log = weir.log();
    let told = |line: &&str| line.contains("WARN") && line.contains("'series'") && line.contains("weir.standing.chain-max");
    assert_eq!(log.lines().filter(told).count(), 1, "{log}");
    weir.stop();
}

#[test]
fn queries_that_feed_each_other_are_named_and_a_chain_that_ends_is_left_alone() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.standing.chain-max=7"]);
    let step = |from: &str, to: &str| {
        let pattern = format!("MATCH (n) WHERE n.{from} > 0 RETURN id(n) AS id, n.{from} AS count");
        create(&weir, from, &pattern, &format!("MATCH (n) WHERE id(n) = $that.data.id SET n.{to} = $that.data.count + 1"));
    };
    // A chain of five.
    for (from, to) in [("one", "two"), ("two", "three"), ("three", "four"), ("four", "five"), ("five", "six")] {
        step(from, to);
    }
    // A loop of two.
    step("ping", "pong");
    step("pong", "ping");
    for round in 1..=20 {
        weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('chain') SET n.one = {}", 10 * round));
        wait_until("the chain comes to its end", RESULTS_MAX, || number(&weir, "chain", "six") == 10 * round + 5);
    }
    assert!(["one", "two", "three", "four", "five"].iter().all(|name| output(&weir, name)["loops"].is_null()));
    weir.rows("MATCH (n) WHERE id(n) = idFrom('loop') SET n.ping = 1");
    wait_until("the loop is cut", RESULTS_MAX, || output(&weir, "pong")["loops"] == 1);
    assert_eq!((number(&weir, "loop", "pong"), number(&weir, "loop", "ping")), (8, 7));
    let told = output(&weir, "pong")["lastError"]["message"].to_string();
    assert!(told.contains("'ping' -> 'pong'"), "{told}");
    assert!(output(&weir, "ping")["loops"].is_null());
}

#[test]
fn what_brings_more_each_time_ends_too() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.standing.chain-max=8"]);
    let pattern = "MATCH (n:Leaf) RETURN n.depth AS depth, n.path AS path";
    // Two for each: 2 to the power of 9, less one, and no more.
    let write = "UNWIND ['l', 'r'] AS side WITH $that.data.path + side AS path, $that.data.depth + 1 AS depth \
        MATCH (n) WHERE id(n) = idFrom('leaf', path) SET n:Leaf, n.path = path, n.depth = depth";
    create(&weir, "grow", pattern, write);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('leaf', '') SET n:Leaf, n.path = '', n.depth = 0");
    wait_until("all ends are cut", RESULTS_MAX, || output(&weir, "grow")["loops"] == 256);
    assert_eq!(weir.rows("MATCH (n:Leaf) RETURN count(*), max(n.depth)")[0], json!([511, 8]));
}

/// Each write brings a match and the cancellation of the one before, and the output writes for both.
#[test]
fn a_loop_with_cancellations_comes_to_its_end() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.standing.chain-max=200"]);
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.count >= 0 RETURN id(n) AS id, n.count AS count"});
    let count = "MATCH (n) WHERE id(n) = $that.data.id SET n.count = n.count + 1";
    let query =
        json!({"pattern": pattern, "includeCancellations": true, "outputs": {"write": {"type": "CypherQuery", "query": count}}});
    weir.post("/api/v1/query/standing/twice", &query).expect(201);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n.count = 0");
    wait_until("the loop is cut", 2 * RESULTS_MAX, || {
        let shown = output(&weir, "twice");
        shown["loops"].as_u64() > Some(0) && shown["waiting"] == 0
    });
    let counted = number(&weir, "a", "count");
    assert!((20_000..25_000).contains(&counted), "{counted}");
    let told = output(&weir, "twice")["lastError"]["message"].to_string();
    assert!(told.contains("20000 writes of outputs come of one result") && told.contains("'twice'"), "{told}");
    weir.stop();
}
