//! Results to objects of S3, with the real binary and a server that stands in for Amazon's, across kills of weir.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::aws::Amazon;
use weir_tests::client::send;
use weir_tests::service::{Home, wait_until};
use weir_tests::streams::{RESUME, numbers_to, set_numbers, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// The objects of a bucket, by name.
fn objects(amazon: &Amazon, bucket: &str) -> BTreeMap<String, Vec<u8>> {
    let address = amazon.address.parse().expect("an address");
    let list = send(address, "GET", &format!("/{bucket}?list-type=2"), &[], b"").expect("an answer").text();
    let names = list.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()));
    names
        .map(|name| {
            let answer = send(address, "GET", &format!("/{bucket}/{name}"), &[], b"").expect("an answer");
            (name, answer.expect(200).body)
        })
        .collect()
}

/// The numbers in objects, in the order of names and lines.
fn numbers(objects: &BTreeMap<String, Vec<u8>>) -> Vec<u64> {
    let text = |(name, body): (&String, &Vec<u8>)| {
        let mut text = String::new();
        match name.rsplit('.').next() {
            Some("gz") => drop(flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut text).expect("gzip")),
            Some("zst") => text = String::from_utf8(zstd::decode_all(body.as_slice()).expect("zstd")).expect("text"),
            _ => text = String::from_utf8(body.clone()).expect("text"),
        }
        assert!(text.ends_with('\n'), "{name} ends in the middle of a line");
        text
    };
    let number = |line: &str| serde_json::from_str::<Json>(line).expect("JSON")["id"].as_u64().expect("a number");
    objects.iter().map(text).flat_map(|text| text.lines().map(number).collect::<Vec<_>>()).collect()
}

#[test]
fn each_result_is_in_one_object_across_kills() {
    let Some(amazon) = Amazon::start("results to objects of S3") else { return };
    amazon.put("/lake", b"");
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let to = amazon
        .with(json!({"type": "S3", "bucket": "lake", "prefix": "results/day=1/", "compression": "Gzip", "objectResultsMax": 40,
        "interval": "2s"}));
    let created = numbers_to(&weir, to);
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    for round in 0..6 {
        set_numbers(&weir, round * 100..(round + 1) * 100);
        if round % 2 == 0 {
            // While some are held and some are just stored.
            wait_until("something is stored", PATIENCE, || !objects(&amazon, "lake").is_empty());
        }
        weir.kill();
        weir = home.start(RESUME);
    }
    wait_until("all results are stored", PATIENCE, || numbers(&objects(&amazon, "lake")).len() >= 600);
    std::thread::sleep(Duration::from_secs(3));
    let stored = objects(&amazon, "lake");
    let found = numbers(&stored);
    let distinct: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!((found.len(), distinct.len()), (600, 600), "each is there once: {:?}", stored.keys());
    assert!(found.is_sorted(), "names sort as results came: {:?}", stored.keys());
    assert!(stored.keys().all(|name| name.starts_with("results/day=1/20") && name.ends_with(".jsonl.gz")), "{:?}", stored.keys());
    eprintln!("600 results in {} objects", stored.len());
    // An orderly end stores what is held, and nothing comes again.
    set_numbers(&weir, 600..610);
    weir.stop();
    assert_eq!(numbers(&objects(&amazon, "lake")).len(), 610);
    let weir = home.start(RESUME);
    set_numbers(&weir, 610..611);
    wait_until("one more is stored", PATIENCE, || numbers(&objects(&amazon, "lake")).len() >= 611);
    assert!(numbers(&objects(&amazon, "lake")).into_iter().eq(0..611));
    weir.stop();
}

/// The switch waits until all that the old query has found is delivered, and an object would be due long after it has given up.
#[test]
fn a_query_is_replaced_at_once_though_its_results_wait_for_an_object() {
    let Some(amazon) = Amazon::start("results to S3 of a query that is replaced") else { return };
    amazon.put("/lake", b"");
    let weir = Home::new().start(&[]);
    numbers_to(&weir, amazon.with(json!({"type": "S3", "bucket": "lake", "interval": "600s"})));
    set_numbers(&weir, 0..10);
    assert!(objects(&amazon, "lake").is_empty(), "there is not enough for an object");
    let query = "MATCH (n:Number) WHERE n.value >= 0 RETURN DISTINCT id(n) AS id";
    let body = json!({"pattern": {"type": "Cypher", "query": query}}).to_string();
    let headers = [("Content-Type", "application/json")];
    weir.send("PUT", "/api/v1/query/standing/numbers", &headers, body.as_bytes()).expect(200);
    assert!(numbers(&objects(&amazon, "lake")).into_iter().eq(0..10), "what the old one has found");
    // What comes behind that waits as before.
    set_numbers(&weir, 10..12);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(numbers(&objects(&amazon, "lake")).len(), 10);
    weir.stop();
    assert!(numbers(&objects(&amazon, "lake")).into_iter().eq(0..12));
}

#[test]
fn results_count_as_delivered_when_they_are_stored_and_a_bucket_is_waited_for() {
    let Some(amazon) = Amazon::start("results to a bucket of S3 that comes later") else { return };
    let home = Home::new();
    let weir = home.start(&[]);
    let to = amazon.with(json!({"type": "S3", "bucket": "later", "interval": "1s", "compression": "Zstd"}));
    for (more, problem) in [
        (json!({"bucket": "a/b"}), "cannot be the name of a bucket"),
        (json!({"prefix": "../"}), "prefix"),
        (json!({"credentials": {"accessKeyId": {"env": "WEIR_SECRET_NO"}, "secretAccessKey": "x"}}), "WEIR_SECRET_NO is not set"),
    ] {
        let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
        let output = json!({"name": "out", "destinations": [with(to.clone(), more)]});
        let body = json!({"name": "refused", "pattern": pattern, "outputs": [output]});
        let told = weir.post("/api/v2/graph/quine/standingQueries", &body).expect(400).text();
        assert!(told.contains(problem), "{told}");
    }
    numbers_to(&weir, to);
    set_numbers(&weir, 0..30);
    wait_until("the output says what it waits for", PATIENCE, || home.read("weir.log").contains("NoSuchBucket"));
    let state = || {
        let shown = weir.get("/api/v1/query/standing/numbers").expect(200).json()["stats"]["local"]["outputs"]["out"].take();
        (shown["state"] == "Retrying", shown["retries"].as_u64() > Some(0))
    };
    wait_until("it is said to be tried again", PATIENCE, || state() == (true, true));
    amazon.put("/later", b"");
    wait_until("all results are stored", PATIENCE, || numbers(&objects(&amazon, "later")).len() == 30);
    wait_until("nothing is tried again", PATIENCE, || state() == (false, true));
    assert!(objects(&amazon, "later").keys().all(|name| name.ends_with(".jsonl.zst")));
    weir.stop();
}
