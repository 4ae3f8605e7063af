//! Graphs that were left behind by weirs of the past, each in its format: opened, asked, gone on with and checked.
//!
//! `tests/kept` has a directory for each format and store. `WEIR_KEEP=tests/kept/NAME cargo test --release --workspace --test
//! product -- --ignored kept::` writes one with the weir that is built, which is done when the format changes; what is in it is
//! said by `fill`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, RESULTS_MAX, Weir, binary, net, wait_until};

/// Each is a commit: enough that an orderly end makes a checkpoint.
const PEOPLE: u64 = 520;

const ADULTS: &str = "MATCH (n:Person) WHERE n.age >= 18 RETURN n.name AS name, n.age AS age";
const PLACE: &str = "/api/v1/query/standing/adults";
const COUNTED: &str = "WITH toInteger($that) AS k MATCH (n) WHERE id(n) = idFrom('counter', k % 7) SET n:Counter, n.sum = coalesce(n.sum, 0) + 1, n.last = k";

/// What a property may be, as text of a query and as it is answered.
fn values() -> [(&'static str, Json); 9] {
    [
        ("-9007199254740993", json!(-9007199254740993_i64)),
        ("0.1", json!(0.1)),
        ("true", json!(true)),
        ("'grün \u{1F308}'", json!("grün \u{1F308}")),
        ("[1, 'two', 3.5, false]", json!([1, "two", 3.5, false])),
        ("{a: 1, b: {c: [2]}}", json!({"a": 1, "b": {"c": [2]}})),
        ("date('2024-02-29')", json!("2024-02-29")),
        ("datetime('2024-02-29T23:59:59.123456789+02:00')", json!("2024-02-29T23:59:59.123456789+02:00")),
        ("duration('PT1H30M')", json!("PT1H30M")),
    ]
}

fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis()
}

fn person(k: u64) -> String {
    format!("id(n) = idFrom('person', {k})")
}

/// People, some of whom know the next; values; a standing query with results; a checkpoint. Then a log behind it, with changes,
/// removals and a stream that is under way, and a kill.
fn fill(home: &Home, arguments: &[&str]) {
    let weir = home.start(arguments);
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": ADULTS});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}});
    weir.post(PLACE, &json!({"pattern": pattern, "includeCancellations": true, "outputs": outputs})).expect(201);
    for k in 0..PEOPLE {
        let knows = if k % 3 == 0 {
            format!(", (m) WHERE id(m) = idFrom('person', {}) AND", (k + 1) % PEOPLE)
        } else {
            " WHERE".to_owned()
        };
        let edge = if k % 3 == 0 { " CREATE (n)-[:KNOWS]->(m)" } else { "" };
        weir.rows(&format!("MATCH (n){knows} {} SET n:Person, n.name = 'p{k}', n.age = {}{edge}", person(k), k % 60));
    }
    for (k, (text, _)) in values().into_iter().enumerate() {
        weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('value', {k}) SET n.value = {text}"));
    }
    weir.stop();
    let weir = home.start(arguments);
    std::thread::sleep(Duration::from_millis(5));
    home.write("moment", millis().to_string());
    std::thread::sleep(Duration::from_millis(5));
    for k in 0..60 {
        weir.rows(&format!("MATCH (n) WHERE {} SET n.age = {}", person(k), 77 - k));
    }
    weir.rows(&format!("MATCH (n) WHERE {} DETACH DELETE n", person(100)));
    weir.rows(&format!("MATCH (n)-[r:KNOWS]->() WHERE {} DELETE r", person(150)));
    weir.rows(&format!("MATCH (n) WHERE {} REMOVE n.name", person(200)));
    let stream = json!({"type": "NumberIteratorIngest", "startAtOffset": 0, "maximumPerSecond": 500, "format": {"type": "CypherLine", "query": COUNTED}});
    weir.post("/api/v1/ingest/numbers", &stream).expect(200);
    std::thread::sleep(Duration::from_millis(500));
    weir.kill();
}

/// Everything that `fill` left, and nothing else.
fn is_all_there(weir: &Weir) {
    let one = |text: &str| weir.rows(text).into_iter().next().unwrap_or_else(|| panic!("no row for {text}"));
    assert_eq!(one("MATCH (n:Person) RETURN count(n)"), json!([PEOPLE - 1]));
    let ages: u64 = (0..PEOPLE).filter(|k| *k != 100).map(|k| if k < 60 { 77 - k } else { k % 60 }).sum();
    assert_eq!(one("MATCH (n:Person) RETURN sum(n.age)"), json!([ages]));
    // One was deleted, and one ended with the person it led to.
    let edges = (0..PEOPLE).filter(|k| k % 3 == 0 && *k != 150 && *k != 99).count();
    assert_eq!(one("MATCH (a:Person)-[r:KNOWS]->(b:Person) RETURN count(r)"), json!([edges]));
    assert_eq!(one(&format!("MATCH (n) WHERE {} RETURN n.name, n.age", person(200))), json!([null, 20]));
    for (k, (text, expected)) in values().into_iter().enumerate() {
        let value = one(&format!("MATCH (n) WHERE id(n) = idFrom('value', {k}) RETURN n.value"));
        assert_eq!(value, json!([expected]), "{text}");
    }
}

/// What came and did not go, and what the graph answers.
fn net_and_answer(home: &Home, weir: &Weir) -> (Vec<String>, Vec<String>) {
    let row = |row: &Json| json!({"name": row[0], "age": row[1]}).to_string();
    let mut answer: Vec<String> = weir.rows(ADULTS).iter().map(row).collect();
    answer.sort();
    (net(&home.lines("out.jsonl")), answer)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a kept directory") {
        let entry = entry.expect("its entry");
        let place = to.join(entry.file_name());
        match entry.file_type().expect("what it is").is_dir() {
            true => copy(&entry.path(), &place),
            false => drop(fs::copy(entry.path(), place).expect("a copy")),
        }
    }
}

/// What weir is told of the store a directory is of.
fn store_of(name: &str) -> &'static [&'static str] {
    if name.ends_with("map-db") { &["-Dweir.store.type=map-db"] } else { &[] }
}

#[test]
fn each_format_of_the_past_is_opened_and_gone_on_with() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept");
    let mut names: Vec<String> = fs::read_dir(&kept)
        .expect("tests/kept")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    let of_two = (3..=7).flat_map(|format| ["map-db", "rocks-db"].map(|store| format!("format-{format}-{store}")));
    assert_eq!(names, ["format-2-rocks-db".to_owned()].into_iter().chain(of_two).collect::<Vec<_>>());
    for name in names {
        println!("{name}");
        let home = Home::new();
        copy(&kept.join(&name), home.path());
        let (store, moment) = (store_of(&name), home.read("moment").parse::<u128>().expect("a time"));
        let weir = home.start(&[store, &["-Dweir.should-resume-ingest=true"]].concat());
        is_all_there(&weir);
        let sum_at = |millis: u128| {
            let target = format!("/api/v1/query/cypher?at-time={millis}");
            weir.send("POST", &target, &[("Content-Type", "text/plain")], b"MATCH (n:Person) RETURN sum(n.age)")
        };
        let ages: u64 = (0..PEOPLE).map(|k| k % 60).sum();
        assert_eq!(sum_at(moment).expect(200).json()["results"], json!([[ages]]));
        // Pages of format 2 have the newest version of each fact and no other.
        let early = sum_at(moment - 10_000);
        match name.starts_with("format-2") {
            true => assert!(early.expect(400).text().contains("history"), "what is not known any more is refused"),
            false => assert_eq!(early.expect(200).json()["results"], json!([[0]])),
        }
        // The stream goes on where it stood: each number counts once.
        let counted = "MATCH (n:Counter) RETURN sum(n.sum), max(n.last)";
        let begun = weir.rows(counted)[0][1].as_u64().expect("a number");
        wait_until("the stream goes on", RESULTS_MAX, || {
            weir.rows(counted)[0][1].as_u64().is_some_and(|last| last > begun + 100)
        });
        weir.delete("/api/v1/ingest/numbers").expect(200);
        weir.catch_up();
        let row = &weir.rows(counted)[0];
        assert_eq!(row[0].as_u64(), row[1].as_u64().map(|last| last + 1), "{row}");
        // So does the standing query.
        weir.rows(&format!("MATCH (n) WHERE {} SET n.age = 3", person(0)));
        wait_until("its results are those of the graph", RESULTS_MAX, || {
            let (net, answer) = net_and_answer(&home, &weir);
            net == answer
        });
        weir.stop();
        let checked = Command::new(binary())
            .args(["check", "-Dweir.store.filepath=data"])
            .args(store)
            .current_dir(home.path())
            .output()
            .expect("weir check runs");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        let again = home.start(store);
        assert_eq!(again.rows("MATCH (n:Person) RETURN count(n)"), [json!([PEOPLE - 1])]);
        again.stop();
    }
}

#[test]
#[ignore = "writes a directory to keep, with WEIR_KEEP=DIRECTORY"]
fn one_more_is_kept() {
    let into = PathBuf::from(std::env::var_os("WEIR_KEEP").expect("WEIR_KEEP=DIRECTORY"));
    let name = into.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let home = Home::new();
    fill(&home, store_of(&name));
    let _ = fs::remove_dir_all(&into);
    copy(home.path(), &into);
    // What is written for people to read is not needed.
    ["weir.log", "stdout", "data/weir-lock"].iter().for_each(|name| drop(fs::remove_file(into.join(name))));
    for entry in fs::read_dir(into.join("data/rocks-db")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if ["LOG", "LOCK", "IDENTITY", "OPTIONS"].iter().any(|unneeded| name.to_string_lossy().starts_with(unneeded)) {
            fs::remove_file(entry.path()).expect("a file that can be removed");
        }
    }
}
