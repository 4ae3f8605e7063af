//! What tests of sources and outputs share: records that count themselves, numbers that go out and may come in again, definitions
//! put together.

use std::ops::Range;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::service::{Weir, wait_until};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub const STREAMS: &str = "/api/v2/graph/quine/ingests";

/// Streams go on after a restart.
pub const RESUME: &[&str] = &["-Dweir.should-resume-ingest=true"];

/// Each record counts itself, so that one that is lost or comes twice is seen.
pub const COUNT: &str = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.count = coalesce(n.count, 0) + 1";

/// How many records, and how often the one that came most often.
pub fn counted(weir: &Weir) -> (u64, u64) {
    let rows = weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN count(n), coalesce(max(n.count), 0)");
    (rows[0][0].as_u64().expect("a count"), rows[0][1].as_u64().expect("a count"))
}

/// How often all records together.
pub fn counted_together(weir: &Weir) -> u64 {
    let rows = weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN coalesce(sum(n.count), 0)");
    rows[0][0].as_u64().expect("a sum")
}

/// What a stream says that it waits for, or has ended of.
pub fn message(weir: &Weir, stream: &str) -> String {
    weir.get(&format!("{STREAMS}/{stream}")).expect(200).json()["message"].as_str().unwrap_or_default().to_owned()
}

/// A definition with more options, or other ones.
pub fn with(mut definition: Json, more: Json) -> Json {
    let Json::Object(more) = more else { panic!("{more} are no options") };
    definition.as_object_mut().expect("an object").extend(more);
    definition
}

/// The definition of an ingest stream, in the notation of v1, is refused for that.
pub fn refused_v1(weir: &Weir, definition: &Json, problem: &str) {
    let told = weir.post("/api/v1/ingest/refused", definition).expect(400).text();
    assert!(told.contains(problem), "{told}");
}

/// The definition of a source, in the notation of v2, is refused for that.
pub fn refused(weir: &Weir, source: &Json, problem: &str) {
    let told = weir.post(STREAMS, &json!({"name": "refused", "source": source, "query": COUNT})).expect(400).text();
    assert!(told.contains(problem), "{told}");
}

/// A stream of this source says that it cannot read.
pub fn troubled(weir: &Weir, stream: &str, source: &Json, problem: &str) {
    weir.post(STREAMS, &json!({"name": stream, "source": source, "query": COUNT})).expect(201);
    wait_until(problem, PATIENCE, || message(weir, stream).contains(problem));
}

/// Numbers go to the destination, as `{"data": {"id": n}}`. Says what weir answers.
pub fn numbers_to(weir: &Weir, destination: Json) -> String {
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
    let enrichment = json!({"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.value AS id"});
    let output = json!({"name": "out", "resultEnrichment": enrichment, "destinations": [destination]});
    let query = json!({"name": "numbers", "pattern": pattern, "outputs": [output]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201).text()
}

pub fn set_numbers(weir: &Weir, values: Range<u64>) {
    for value in values {
        weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) SET n:Number, n.value = {value}")).expect(200);
    }
}
