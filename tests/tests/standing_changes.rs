//! Standing queries that are changed while they run: paused, given another output. Over HTTP in every family, against the real
//! binary, across restarts.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_engine::store::{RocksDb, RocksDbOptions, Store};
use weir_tests::endpoint::request;
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, RESULTS_MAX, Weir, net, takes_at_most, wait_until};

/// One query in each family's place, with the verbs that pause it and let it go on.
const PAUSES: [(&str, &str, &str); 3] = [
    ("PUT", "/api/v1/query/standing/adults/pause", "/api/v1/query/standing/adults/start"),
    ("POST", "/api/v2/standing-queries/adults/pause", "/api/v2/standing-queries/adults/start"),
    ("POST", "/api/v2/graph/quine/standingQueries/adults:pause", "/api/v2/graph/quine/standingQueries/adults:resume"),
];

const PLACE: &str = "/api/v1/query/standing/adults";

fn create(weir: &Weir, cancellations: bool) {
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.name AS name, n.age AS age"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}});
    weir.post(PLACE, &json!({"pattern": pattern, "includeCancellations": cancellations, "outputs": outputs})).expect(201);
}

fn set(weir: &Weir, name: &str, age: u32) {
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('person', '{name}') SET n.name = '{name}', n.age = {age}"));
}

/// The body without the envelope of its family.
fn bare(answer: Json) -> Json {
    if answer["content"].is_object() { answer["content"].clone() } else { answer }
}

fn send(weir: &Weir, method: &str, target: &str) -> Json {
    bare(weir.send(method, target, &[], b"").expect(200).json())
}

fn results(lines: &[Json]) -> Vec<(bool, Json)> {
    lines.iter().map(|line| (line["meta"]["isPositiveMatch"] == true, line["data"]["name"].clone())).collect()
}

fn paused(query: &Json) -> &Json {
    &query["stats"]["local"]["paused"]
}

#[test]
fn a_pause_holds_back_and_its_end_brings_the_difference() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    set(&weir, "bob", 30);
    home.wait_lines("out.jsonl", 2);
    let mut lines = 2;
    for (method, pause, start) in PAUSES {
        // The time of a pause is its own, not that of what was written before it.
        sleep(Duration::from_millis(20));
        let asked = weir.rows("RETURN timestamp()")[0][0].as_u64().expect("milliseconds");
        let query = send(&weir, method, pause);
        assert_eq!(query["name"], "adults");
        let since = paused(&query)["since"].as_str().expect("since when").to_owned();
        let began = weir.rows_with("RETURN datetime($since).epochMillis", json!({"since": since}));
        assert!(began[0][0].as_u64() >= Some(asked), "{since} is {began:?}, asked at {asked}");
        set(&weir, "eve", 20);
        set(&weir, "bob", 3);
        set(&weir, "zoe", 50);
        set(&weir, "zoe", 5);
        // Twice is as once, and the process may end.
        assert_eq!(paused(&send(&weir, method, pause))["since"], json!(since));
        weir.kill();
        weir = home.start(&[]);
        let query = weir.get(PLACE).expect(200).json();
        assert_eq!(paused(&query)["since"], json!(since), "{query}");
        set(&weir, "tim", 18);
        weir.catch_up();
        assert_eq!(home.lines("out.jsonl").len(), lines, "nothing is delivered in a pause");
        let query = send(&weir, method, start);
        assert!(paused(&query).is_null(), "{query}");
        send(&weir, method, start);
        let found = results(&home.wait_lines("out.jsonl", lines + 3)[lines..]);
        assert_eq!(found, [(true, json!("eve")), (true, json!("tim")), (false, json!("bob"))]);
        // What comes, comes as before.
        for (name, age) in [("eve", 1), ("tim", 1), ("bob", 31)] {
            set(&weir, name, age);
        }
        lines += 6;
        assert_eq!(
            results(&home.wait_lines("out.jsonl", lines)[lines - 3..]),
            [(false, json!("eve")), (false, json!("tim")), (true, json!("bob"))]
        );
    }
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), lines);
}

#[test]
fn what_left_and_came_back_in_a_pause_is_no_news() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    create(&weir, false);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    let (method, pause, start) = PAUSES[0];
    send(&weir, method, pause);
    set(&weir, "ann", 4);
    set(&weir, "ann", 40);
    set(&weir, "bob", 30);
    wait_until("one is held back", RESULTS_MAX, || paused(&weir.get(PLACE).expect(200).json())["heldBack"] == 1);
    send(&weir, method, start);
    assert_eq!(results(&home.wait_lines("out.jsonl", 2)[1..]), [(true, json!("bob"))]);
    set(&weir, "ann", 4);
    set(&weir, "ann", 40);
    assert_eq!(results(&home.wait_lines("out.jsonl", 3)[2..]), [(true, json!("ann"))]);
    for (method, pause, start) in PAUSES {
        for target in [pause, start] {
            weir.send(method, &target.replace("adults", "nobody"), &[], b"").expect(404);
        }
    }
}

/// Changes what is stored of the standing queries of a weir that does not run.
fn change_stored(home: &Home, from: &str, to: &str) {
    let store = RocksDb::open(RocksDbOptions::new(home.file("data"))).expect("a store that nobody uses");
    let stored = store.list_metadata("graph/").expect("what is stored of graphs");
    let mut changed = 0;
    for (key, value) in stored.into_iter().filter(|(key, _)| key.contains("/standing/")) {
        let text = String::from_utf8(value).expect("JSON");
        assert!(text.contains(from), "{text}");
        store.put_metadata(&key, text.replace(from, to).as_bytes()).expect("it takes it");
        changed += 1;
    }
    assert_eq!(changed, 1);
}

/// As where weir is built without what an output needs, for one start or for good.
#[test]
fn a_query_that_a_start_cannot_restore_goes_on_with_the_next_or_is_deleted() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    set(&weir, "eve", 3);
    home.wait_lines("out.jsonl", 1);
    weir.stop();
    change_stored(&home, "WriteToFile", "WriteToNone");
    let weir = home.start(&[]);
    let log = weir.log();
    assert!(log.contains("cannot be restored") && log.contains("The log is kept"), "{log}");
    weir.get(PLACE).expect(404);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.age > 17 RETURN DISTINCT id(n)"});
    let other = json!({"pattern": pattern, "outputs": {}});
    let refused = weir.post(PLACE, &other).expect(400).text();
    assert!(refused.contains("could not be restored"), "{refused}");
    set(&weir, "ann", 4);
    set(&weir, "bob", 30);
    // With this one a checkpoint is made at the end.
    weir.rows("CALL purgeNode(idFrom('person', 'eve'))");
    weir.stop();
    change_stored(&home, "WriteToNone", "WriteToFile");
    let weir = home.start(&[]);
    let found = results(&home.wait_lines("out.jsonl", 3)[1..]);
    assert_eq!(found, [(false, json!("ann")), (true, json!("bob"))]);
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 3, "nothing comes again");

    change_stored(&home, "WriteToFile", "WriteToNone");
    let weir = home.start(&[]);
    assert_eq!(weir.delete(PLACE).expect(200).json()["name"], "adults");
    weir.delete(PLACE).expect(404);
    weir.post(PLACE, &other).expect(201);
    weir.stop();
    let weir = home.start(&[]);
    assert!(!weir.log().contains("cannot be restored"), "{}", weir.log());
    assert_eq!(send(&weir, "DELETE", PLACE)["name"], "adults");
    weir.stop();
}

/// The place of the output in each family, and a definition that writes to a file.
fn other_file(family: usize, path: &str) -> (String, Json) {
    match family {
        0 => (format!("{PLACE}/output/file"), json!({"type": "WriteToFile", "path": path})),
        1 => (
            "/api/v2/standing-queries/adults/outputs/file".to_owned(),
            json!({"name": "file", "destinations": [{"type": "File", "path": path}]}),
        ),
        _ => (
            "/api/v2/graph/quine/standingQueries/adults/outputs/file".to_owned(),
            json!({"destinations": [{"type": "File", "path": path}]}),
        ),
    }
}

fn change(weir: &Weir, target: &str, output: &Json) -> weir_tests::client::Answer {
    weir.send("PUT", target, &[("content-type", "application/json")], output.to_string().as_bytes())
}

fn names(lines: &[Json]) -> impl Iterator<Item = i64> + '_ {
    lines.iter().map(|line| line["data"]["name"].as_i64().expect("a number"))
}

#[test]
fn an_output_is_changed_in_the_middle_of_a_stream_and_no_result_is_lost_or_repeated() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    let query = "WITH toInteger($that) AS k MATCH (n) WHERE id(n) = idFrom('person', k) SET n.name = k, n.age = 18";
    // Without an end: however long the changes take, each is in the middle of it.
    let stream = json!({"type": "NumberIteratorIngest", "startAtOffset": 0, "maximumPerSecond": 4000,
        "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/people", &stream).expect(200);
    let has_some = |file: &str| std::fs::metadata(home.file(file)).is_ok_and(|file| file.len() > 0);
    let mut files = vec!["out.jsonl".to_owned()];
    for change_of in 0..9 {
        wait_until("results come", RESULTS_MAX, || has_some(&files[files.len() - 1]));
        let path = format!("out-{change_of}.jsonl");
        let (target, output) = other_file(change_of % 3, &path);
        let shown = bare(change(&weir, &target, &output).expect(200).json());
        assert!(shown.to_string().contains(&path), "{shown}");
        files.push(path);
        if change_of == 4 {
            weir.kill();
            weir = home.start(&["-Dweir.should-resume-ingest=true"]);
        }
    }
    wait_until("results come to the last one", RESULTS_MAX, || has_some(&files[9]));
    weir.delete("/api/v1/ingest/people").expect(200);
    weir.catch_up();
    let count = weir.rows("MATCH (n) WHERE n.age = 18 RETURN count(n)")[0][0].as_i64().expect("a count");
    let all = || files.iter().flat_map(|file| home.lines(file)).collect::<Vec<_>>();
    wait_until("all results are there", RESULTS_MAX, || all().len() >= count as usize);
    assert!(names(&all()).eq(0..count), "each once, in their order");
    let shown = weir.get(PLACE).expect(200).json();
    assert_eq!(shown["outputs"]["file"]["path"], json!(files[9]));
    weir.stop();
    assert_eq!(all().len(), count as usize);
}

#[test]
fn what_a_destination_did_not_take_the_next_one_gets() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    // Somebody who takes requests and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let target = format!("{PLACE}/output/file");
    change(&weir, &target, &json!({"type": "PostToEndpoint", "url": url})).expect(200);
    set(&weir, "bob", 30);
    set(&weir, "eve", 20);
    // A definition that cannot be opened changes nothing.
    let nowhere = json!({"type": "WriteToFile", "path": "no/such/directory/out.jsonl"});
    change(&weir, &target, &nowhere).expect(400);
    change(&weir, &target, &json!({"type": "Nope"})).expect(400);
    change(&weir, &format!("{PLACE}/output/nope"), &json!({"type": "Drop"})).expect(404);
    assert_eq!(weir.get(PLACE).expect(200).json()["outputs"]["file"]["type"], "PostToEndpoint");
    // The same file again, by way of a query.
    let output = json!({"type": "CypherQuery", "query": "RETURN $that.data.name AS name", "parameter": "that",
        "andThen": {"type": "WriteToFile", "path": "out.jsonl"}});
    change(&weir, &target, &output).expect(200);
    let lines = home.wait_lines("out.jsonl", 3);
    assert_eq!(lines[1..].iter().map(|line| line["data"]["name"].clone()).collect::<Vec<_>>(), [json!("bob"), json!("eve")]);
    // What is behind the last place in it stays: it is another's.
    change(&weir, &target, &json!({"type": "WriteToFile", "path": "out.jsonl"})).expect(200);
    set(&weir, "zoe", 50);
    assert_eq!(results(&home.wait_lines("out.jsonl", 4)[3..]), [(true, json!("zoe"))]);
    weir.stop();
    let weir = home.start(&[]);
    set(&weir, "tim", 60);
    assert_eq!(results(&home.wait_lines("out.jsonl", 5)[4..]), [(true, json!("tim"))]);
    weir.stop();
}

#[test]
fn the_destinations_of_a_workflow_change_into_those_of_the_new_one() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    let target = "/api/v2/graph/quine/standingQueries/adults/outputs/file";
    let to = |paths: &[&str]| {
        let destinations: Vec<Json> = paths.iter().map(|path| json!({"type": "File", "path": path})).collect();
        json!({"filter": {"type": "OnlyPositiveMatch"}, "destinations": destinations})
    };
    change(&weir, target, &to(&["out.jsonl", "two.jsonl", "three.jsonl"])).expect(200);
    set(&weir, "bob", 30);
    set(&weir, "bob", 3);
    for (file, lines) in [("out.jsonl", 2), ("two.jsonl", 1), ("three.jsonl", 1)] {
        assert_eq!(home.wait_lines(file, lines).len(), lines, "{file}");
    }
    change(&weir, target, &to(&["four.jsonl"])).expect(200);
    set(&weir, "eve", 20);
    assert_eq!(results(&home.wait_lines("four.jsonl", 1)), [(true, json!("eve"))]);
    let shown = weir.get("/api/v2/graph/quine/standingQueries/adults").expect(200).json();
    assert_eq!(shown["outputs"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["outputs"][0]["destinations"].as_array().map(Vec::len), Some(1), "{shown}");
    change(&weir, target, &json!({"name": "other", "destinations": [{"type": "Drop"}]})).expect(400);
    weir.stop();
    for (file, lines) in [("out.jsonl", 2), ("two.jsonl", 1), ("three.jsonl", 1), ("four.jsonl", 1)] {
        assert_eq!(home.lines(file).len(), lines, "{file}");
    }
}

#[test]
fn a_workflow_is_changed_with_all_its_destinations_or_stays_as_it_was() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    let place = "/api/v2/graph/quine/standingQueries/adults";
    let target = format!("{place}/outputs/file");
    let to = |paths: &[&str]| {
        let destinations: Vec<Json> = paths.iter().map(|path| json!({"type": "File", "path": path})).collect();
        json!({"destinations": destinations})
    };
    let shown = |weir: &Weir| weir.get(place).expect(200).json()["outputs"].take();
    change(&weir, &target, &to(&["out.jsonl", "two.jsonl"])).expect(200);
    let before = shown(&weir);
    let mut expected = Vec::new();
    let refusals = [
        // Known before one of the old ones is disturbed.
        ("ann", ["four.jsonl", "no/such/directory/five.jsonl", "six.jsonl"], "no/such/directory/five.jsonl"),
        // Known when they have ended: the second one goes on in its file, which the third one cannot have, too.
        ("bob", ["four.jsonl", "two.jsonl", "two.jsonl"], "another output writes to this file"),
    ];
    for (name, paths, why) in refusals {
        let refused = change(&weir, &target, &to(&paths)).expect(400).text();
        assert!(refused.contains("The output 'file' stays as it was: ") && refused.contains(why), "{refused}");
        assert_eq!(shown(&weir), before, "{why}");
        set(&weir, name, 40);
        expected.push((true, json!(name)));
        for file in ["out.jsonl", "two.jsonl"] {
            assert_eq!(results(&home.wait_lines(file, expected.len())), expected, "{file}: {why}");
        }
    }
    // Nothing was delivered to a part of what was refused, and nothing of it is there after a restart.
    weir.stop();
    weir = home.start(&[]);
    assert_eq!(shown(&weir), before);
    assert!(home.lines("four.jsonl").is_empty() && home.lines("six.jsonl").is_empty());
    // Each takes what another one had, which is free when all of them have ended; one goes.
    change(&weir, &target, &to(&["two.jsonl", "out.jsonl", "three.jsonl"])).expect(200);
    set(&weir, "eve", 20);
    for (file, lines) in [("out.jsonl", 3), ("two.jsonl", 3), ("three.jsonl", 1)] {
        home.wait_lines(file, lines);
    }
    change(&weir, &target, &to(&["three.jsonl", "two.jsonl"])).expect(200);
    set(&weir, "tim", 30);
    let all = ["ann", "bob", "eve", "tim"].map(|name| (true, json!(name)));
    for (file, expected) in [("out.jsonl", &all[..3]), ("two.jsonl", &all[..]), ("three.jsonl", &all[2..])] {
        assert_eq!(results(&home.wait_lines(file, expected.len())), expected, "{file}");
    }
    weir.stop();
    for (file, lines) in [("out.jsonl", 3), ("two.jsonl", 4), ("three.jsonl", 2), ("four.jsonl", 0)] {
        assert_eq!(home.lines(file).len(), lines, "{file}");
    }
}

#[test]
fn a_workflow_is_added_with_all_its_destinations_or_not_at_all() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    let to = |second: &str| {
        let destinations = json!([{"type": "File", "path": "one.jsonl"}, {"type": "File", "path": second}]);
        json!({"name": "both", "destinations": destinations})
    };
    let place = "/api/v2/graph/quine/standingQueries/adults";
    weir.post(&format!("{place}/outputs"), &to("no/such/directory/two.jsonl")).expect(400);
    let shown = weir.get(place).expect(200).json();
    assert_eq!(shown["outputs"].as_array().map(Vec::len), Some(1), "{shown}");
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    weir.post(&format!("{place}/outputs"), &to("two.jsonl")).expect(201);
    set(&weir, "bob", 30);
    for file in ["one.jsonl", "two.jsonl"] {
        assert_eq!(results(&home.wait_lines(file, 1)), [(true, json!("bob"))], "{file}");
    }
    weir.stop();
}

const IN_FAMILIES: [&str; 3] = [PLACE, "/api/v2/standing-queries/adults", "/api/v2/graph/quine/standingQueries/adults"];

fn pattern(query: &str) -> Json {
    json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": query}})
}

#[test]
fn a_query_is_replaced_in_the_middle_of_a_stream_and_the_outputs_see_one_answer_become_the_other() {
    let home = Home::new();
    let mut weir = home.start(&["-Dweir.workers=2"]);
    create(&weir, true);
    // Every person's age is another one each time.
    let query = "WITH toInteger($that) AS k MATCH (n) WHERE id(n) = idFrom('person', k % 700) SET n.name = 'p' + toString(k % 700), n.age = (k * 7 + k / 700) % 50";
    let stream = json!({"type": "NumberIteratorIngest", "startAtOffset": 0, "maximumPerSecond": 3000,
        "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/people", &stream).expect(200);
    let texts = [
        "MATCH (n) WHERE n.age > 30 RETURN n.name AS name, n.age AS age",
        "MATCH (n) WHERE n.age > 9 AND n.age < 41 RETURN n.name AS name, n.age AS age",
        "MATCH (n) WHERE n.age % 2 = 0 RETURN n.name AS name, n.age AS age",
        "MATCH (n) WITH n.age AS age, max(n.name) AS name RETURN name, age",
        "MATCH (n) WHERE n.age > 20 RETURN n.name AS name, n.age AS age",
    ];
    for (index, text) in texts.iter().enumerate() {
        let lines = home.lines("out.jsonl").len();
        wait_until("results come", RESULTS_MAX, || home.lines("out.jsonl").len() > lines + 50);
        let shown = bare(change(&weir, IN_FAMILIES[index % 3], &pattern(text)).expect(200).json());
        assert_eq!(shown["pattern"]["query"], *text, "{shown}");
        if index % 2 == 1 {
            weir.kill();
            weir = home.start(&["-Dweir.workers=2", "-Dweir.should-resume-ingest=true"]);
            assert_eq!(weir.get(PLACE).expect(200).json()["pattern"]["query"], *text);
        }
    }
    weir.delete("/api/v1/ingest/people").expect(200);
    weir.catch_up();
    let rows = weir.rows(texts[4]);
    let mut answer: Vec<String> = rows.iter().map(|row| json!({"name": row[0], "age": row[1]}).to_string()).collect();
    answer.sort();
    assert!(answer.len() > 100);
    weir.stop();
    assert_eq!(net(&home.lines("out.jsonl")), answer);
}

#[test]
fn the_difference_of_two_patterns_comes_at_the_switch() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    for (name, age) in [("ann", 40), ("bob", 20), ("eve", 10)] {
        set(&weir, name, age);
    }
    let first = home.wait_lines("out.jsonl", 2);
    let asked = |text: &str| {
        let mode = json!({"pattern": {"type": "Cypher", "mode": "MultipleValues", "query": text}});
        change(&weir, PLACE, &mode)
    };
    asked("MATCH (n) WHERE n.age > 30 OR n.age < 15 RETURN n.name AS name, n.age AS age").expect(200);
    let lines = home.wait_lines("out.jsonl", 4);
    assert_eq!(results(&lines[2..]), [(true, json!("eve")), (false, json!("bob"))]);
    assert_eq!(first[1]["meta"]["resultId"], lines[3]["meta"]["resultId"], "equal rows have equal ids");
    // What cannot be, changes nothing.
    asked("MATCH (n) RETURN nothing").expect(400);
    asked("MATCH (n) SET n.x = 1").expect(400);
    let mut outputs = pattern("MATCH (n) RETURN n.name AS name");
    outputs["outputs"] = json!({});
    change(&weir, PLACE, &outputs).expect(400);
    change(&weir, &PLACE.replace("adults", "nobody"), &pattern("MATCH (n) RETURN n.name AS name")).expect(404);
    weir.put(&format!("{PLACE}/pause")).expect(200);
    asked("MATCH (n) RETURN n.name AS name, n.age AS age").expect(400);
    weir.put(&format!("{PLACE}/start")).expect(200);
    // Rows of other columns have nothing to do with those before.
    asked("MATCH (n) WHERE n.age > 30 RETURN n.name AS who").expect(200);
    assert_eq!(home.wait_lines("out.jsonl", 5)[4]["data"], json!({"who": "ann"}));
    set(&weir, "ann", 3);
    assert_eq!(home.wait_lines("out.jsonl", 6)[5]["data"], json!({"who": "ann"}));
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 6);
}

/// Rows are compared and named by the places of their values: those of the query that was there first stay in force, also after
/// a restart and for the next one.
#[test]
fn columns_in_another_order_make_the_same_rows() {
    const TURNED: &str = "MATCH (n) WHERE n.age > 17 RETURN n.age AS age, n.name AS name";
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    let shown = change(&weir, PLACE, &pattern(TURNED)).expect(200).json();
    assert_eq!(shown["pattern"]["query"], TURNED, "{shown}");
    set(&weir, "bob", 20);
    set(&weir, "ann", 3);
    let id = |line: &Json| line["meta"]["resultId"].clone();
    let lines = home.wait_lines("out.jsonl", 3);
    assert_eq!(results(&lines), [(true, json!("ann")), (true, json!("bob")), (false, json!("ann"))]);
    assert_eq!(id(&lines[2]), id(&lines[0]));
    weir.kill();
    weir = home.start(&[]);
    set(&weir, "bob", 21);
    let lines = home.wait_lines("out.jsonl", 5);
    let of_bob = |is_match: bool| lines[3..].iter().find(|line| line["meta"]["isPositiveMatch"] == is_match);
    assert_eq!(of_bob(false).map(id), Some(id(&lines[1])), "{lines:?}");
    assert_eq!(of_bob(true).map(|line| line["data"].clone()), Some(json!({"name": "bob", "age": 21})), "{lines:?}");
    let first = "MATCH (n) WHERE n.age > 17 AND n.age < 60 RETURN n.name AS name, n.age AS age";
    change(&weir, PLACE, &pattern(first)).expect(200);
    let why = weir.post(&format!("{PLACE}/why"), &json!({"data": {"name": "bob"}})).expect(200).json();
    assert_eq!(why["matches"][0]["resultId"], of_bob(true).map(id).unwrap_or_default(), "{why}");
    set(&weir, "eve", 50);
    assert_eq!(results(&home.wait_lines("out.jsonl", 6)[5..]), [(true, json!("eve"))]);
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 6);
}

#[test]
fn a_query_stays_while_an_output_does_not_take_what_it_has_found() {
    let home = Home::new();
    let weir = home.start(&[]);
    create(&weir, true);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    weir.post(&format!("{PLACE}/output/silent"), &json!({"type": "PostToEndpoint", "url": url})).expect(201);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    let refused = change(&weir, PLACE, &pattern("MATCH (n) RETURN n.name AS name, n.age AS age")).expect(400);
    assert!(refused.text().contains("'silent'"), "{}", refused.text());
    set(&weir, "bob", 3);
    set(&weir, "eve", 30);
    assert_eq!(results(&home.wait_lines("out.jsonl", 2)), [(true, json!("ann")), (true, json!("eve"))]);
    weir.delete(&format!("{PLACE}/output/silent")).expect(200);
    change(&weir, PLACE, &pattern("MATCH (n) RETURN n.name AS name, n.age AS age")).expect(200);
    assert_eq!(results(&home.wait_lines("out.jsonl", 3)[2..]), [(true, json!("bob"))]);
    weir.stop();
}

#[test]
fn a_query_begins_as_of_a_moment_of_the_past() {
    let home = Home::new();
    let weir = home.start(&[]);
    for (name, age) in [("ann", 40), ("bob", 30), ("zoe", 20)] {
        set(&weir, name, age);
    }
    std::thread::sleep(Duration::from_millis(20));
    let rows = weir.rows("RETURN datetime().epochMillis");
    let then = rows[0][0].as_u64().expect("milliseconds");
    std::thread::sleep(Duration::from_millis(20));
    set(&weir, "bob", 3);
    set(&weir, "eve", 50);
    set(&weir, "zoe", 2);
    set(&weir, "zoe", 20);
    let iso =
        weir.rows(&format!("RETURN toString(datetime({{epochMillis: {then}}}))"))[0][0].as_str().expect("a text").to_owned();
    for (index, start) in [json!(then), json!(iso)].into_iter().enumerate() {
        let file = format!("since-{index}.jsonl");
        let text = "MATCH (n) WHERE n.age > 17 RETURN n.name AS name, n.age AS age";
        let body = json!({"pattern": {"type": "Cypher", "mode": "MultipleValues", "query": text}, "includeCancellations": true,
            "outputs": {"file": {"type": "WriteToFile", "path": file}}, "startFrom": start});
        let place = format!("/api/v1/query/standing/since-{index}");
        weir.post(&place, &body).expect(201);
        assert_eq!(results(&home.wait_lines(&file, 2)), [(true, json!("eve")), (false, json!("bob"))]);
        assert!(paused(&weir.get(&place).expect(200).json()).is_null());
    }
    set(&weir, "tim", 60);
    for file in ["since-0.jsonl", "since-1.jsonl"] {
        assert_eq!(results(&home.wait_lines(file, 3)[2..]), [(true, json!("tim"))]);
    }
    for start in [json!(then + 1_000_000_000), json!("yesterday")] {
        let mut body = pattern("MATCH (n) RETURN n.name AS name");
        body["outputs"] = json!({});
        body["startFrom"] = start;
        weir.post("/api/v1/query/standing/never", &body).expect(400);
    }
    weir.get("/api/v1/query/standing/never").expect(404);
    weir.stop();
}

/// What time alone has brought since then comes, too, and then what it brings later.
#[test]
fn a_query_on_the_current_time_begins_as_of_a_moment_of_the_past() {
    let home = Home::new();
    let weir = home.start(&[]);
    // How long after they are written they have waited for ten minutes.
    let set = "SET n.name = one[0], n.at = timestamp() - 600000 + one[1] RETURN max(n.at) - 8000 AS at";
    let rows = "UNWIND [['ann', -1000], ['zoe', -1000], ['bob', 4000], ['eve', 8000]] AS one";
    let written = weir.rows(&format!("{rows} MATCH (n) WHERE id(n) = idFrom('person', one[0]) {set}"));
    let at = written[0][0].as_u64().expect("milliseconds");
    sleep(Duration::from_millis(20));
    let now = || weir.rows("RETURN timestamp()")[0][0].as_u64().expect("milliseconds");
    let then = now();
    assert!(then < at + 604_000, "bob's time has come before anything was asked");
    sleep(Duration::from_millis(20));
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('person', 'zoe') SET n.at = {}", at + 600_000));
    wait_until("bob's time has come", RESULTS_MAX, || now() > at + 604_050);
    let query = "MATCH (n) WHERE timestamp() - n.at > 600000 RETURN n.name AS name";
    let body = json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": query}, "includeCancellations": true,
        "outputs": {"file": {"type": "WriteToFile", "path": "late.jsonl"}}, "startFrom": then});
    weir.post("/api/v1/query/standing/late", &body).expect(201);
    let mut found = results(&home.wait_lines("late.jsonl", 3));
    found.sort_by_key(|(_, name)| name.to_string());
    assert_eq!(found, [(true, json!("bob")), (true, json!("eve")), (false, json!("zoe"))]);
    weir.stop();
}

#[test]
fn a_kill_in_the_middle_of_a_replacement_leaves_one_query_or_the_other() {
    const TEXTS: [&str; 2] = [
        "MATCH (n) WHERE n.age > 30 RETURN n.name AS name, n.age AS age",
        "MATCH (n) WHERE n.age % 3 = 0 RETURN n.name AS name, n.age AS age",
    ];
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    let query = "WITH toInteger($that) AS k MATCH (n) WHERE id(n) = idFrom('person', k % 300) SET n.name = 'p' + toString(k % 300), n.age = (k * 7) % 50";
    let stream = json!({"type": "NumberIteratorIngest", "startAtOffset": 0, "ingestLimit": 15_000, "maximumPerSecond": 2500,
        "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/people", &stream).expect(200);
    let mut seen = [0; 2];
    for round in 0..10 {
        let (address, body) = (weir.address(), pattern(TEXTS[round % 2]).to_string());
        let asked = std::thread::spawn(move || {
            let headers = [("content-type", "application/json")];
            weir_tests::client::send(address, "PUT", PLACE, &headers, body.as_bytes()).is_ok_and(|answer| answer.status == 200)
        });
        std::thread::sleep(Duration::from_millis(3 * round as u64));
        weir.kill();
        let answered = asked.join().expect("the request ends");
        weir = home.start(&["-Dweir.should-resume-ingest=true"]);
        let shown = weir.get(PLACE).expect(200).json()["pattern"]["query"].clone();
        let is_new = shown == TEXTS[round % 2];
        assert!(is_new || !answered, "what was answered is done: {shown}");
        seen[usize::from(is_new)] += 1;
    }
    println!("the old query was there {} times, the new one {} times", seen[0], seen[1]);
    weir.wait_ingest("people", "Completed", RESULTS_MAX * 3);
    let text = weir.get(PLACE).expect(200).json()["pattern"]["query"].as_str().expect("a text").to_owned();
    let rows = weir.rows(&text);
    let mut answer: Vec<String> = rows.iter().map(|row| json!({"name": row[0], "age": row[1]}).to_string()).collect();
    answer.sort();
    weir.stop();
    assert_eq!(net(&home.lines("out.jsonl")), answer);
}

/// Those that wait for nothing are no load, and weir does not wait for them one after another.
#[test]
fn hundreds_of_idle_queries_are_no_load_and_end_together() {
    const QUERIES: u32 = 200;
    let home = Home::new();
    let weir = home.start(&[]);
    weir.rows("UNWIND range(1, 50000) AS i MATCH (n) WHERE id(n) = idFrom('many', i) SET n.x = i");
    let threads_before = weir.threads_named("");
    for n in 0..QUERIES {
        let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": format!("MATCH (n) WHERE n.age = {n} RETURN n.name AS name")});
        let file = json!({"type": "WriteToFile", "path": format!("{n}.jsonl")});
        let greeted = json!({"type": "CypherQuery", "query": "RETURN 'hello ' + $that.data.name AS text", "andThen": file});
        let outputs = json!({"file": if n % 2 == 0 { greeted } else { file }});
        weir.post(&format!("/api/v1/query/standing/age-{n}"), &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    }
    assert_eq!(weir.threads_named("results "), 0, "also while they look through the graph");
    // Those that have nothing to do go.
    let waits = Instant::now();
    while weir.threads_named("") > threads_before + 4 {
        assert!(waits.elapsed() < RESULTS_MAX, "{} threads, {threads_before} before", weir.threads_named(""));
        sleep(Duration::from_millis(50));
    }
    // Once they have looked through the graph, and what was written is where it stays; and then on.
    let mut calm = 0;
    wait_until(&format!("{QUERIES} idle queries are no load"), RESULTS_MAX * 2, || {
        let (before, began) = (processor_time(&weir), Instant::now());
        sleep(Duration::from_secs(2));
        let share = (processor_time(&weir) - before).as_secs_f64() / began.elapsed().as_secs_f64();
        eprintln!("{QUERIES} idle queries take {share:.2} of a core");
        calm = if share < 0.15 { calm + 1 } else { 0 };
        calm == 2
    });
    for (n, expected) in [(7, json!({"name": "ann"})), (8, json!({"text": "hello ann"}))] {
        set(&weir, "ann", n);
        assert_eq!(home.wait_lines(&format!("{n}.jsonl"), 1)[0]["data"], expected);
    }
    // Few results are no work for a thread of each.
    for n in 0..QUERIES {
        set(&weir, "bob", n);
        let lines = home.wait_lines(&format!("{n}.jsonl"), if n == 7 || n == 8 { 2 } else { 1 });
        assert!(lines.iter().any(|line| line["data"].to_string().contains("bob")), "{lines:?}");
    }
    assert_eq!(weir.threads_named("results "), 0);
    let (mut last, mut tries) = (Some(weir), 0);
    takes_at_most("weir's stop", Duration::from_secs(3), || {
        let weir = last.take().unwrap_or_else(|| {
            // Each has delivered once more.
            let weir = home.start(&[]);
            tries += 1;
            for n in 0..QUERIES {
                set(&weir, &format!("cora {tries}"), n);
                home.wait_lines(&format!("{n}.jsonl"), tries + if n == 7 || n == 8 { 2 } else { 1 });
            }
            weir
        });
        let began = Instant::now();
        weir.stop();
        began.elapsed()
    });
}

fn processor_time(weir: &Weir) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", weir.pid())).expect("it runs");
    // Behind the name, in hundredths of a second: of the program, and of the system for it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

fn propagate(weir: &Weir) {
    weir.send("POST", "/api/v1/query/standing/control/propagate", &[], b"").expect(202);
}

/// What was answered with 201 or 202 comes, however soon the process ends, and into a file once.
#[test]
fn what_was_asked_for_comes_though_the_process_ends_at_once() {
    const COUNT: usize = 30_000;
    let home = Home::new();
    let mut weir = home.start(&[]);
    weir.rows(&format!("UNWIND range(1, {COUNT}) AS i MATCH (n) WHERE id(n) = idFrom('n', i) SET n.x = i"));
    // In v2 it is asked for when the query is created.
    for (name, mode, text) in [
        ("a", "DISTINCT_ID", "MATCH (n) WHERE n.x IS NOT NULL RETURN DISTINCT id(n) AS id"),
        ("b", "ANY_QUERY", "MATCH (n) WHERE n.x > 0 RETURN n.x AS x"),
    ] {
        let outputs = json!([{"name": "file", "destinations": [{"type": "File", "path": format!("{name}.jsonl")}]}]);
        let pattern = json!({"type": "Cypher", "mode": mode, "query": text});
        let body = json!({"name": name, "pattern": pattern, "includeCancellations": true, "outputs": outputs});
        weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
        weir.kill();
        weir = home.start(&[]);
        home.wait_lines(&format!("{name}.jsonl"), COUNT);
    }
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.x > 0 RETURN n.x AS x"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "c.jsonl"}});
    weir.post("/api/v1/query/standing/c", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    propagate(&weir);
    weir.kill();
    weir = home.start(&[]);
    home.wait_lines("c.jsonl", COUNT);
    propagate(&weir);
    weir.stop();
    for name in ["a", "b", "c"] {
        let lines = home.lines(&format!("{name}.jsonl"));
        let all: std::collections::BTreeSet<String> = lines.iter().map(|line| line["data"].to_string()).collect();
        assert_eq!((lines.len(), all.len()), (COUNT, COUNT), "{name}");
    }
}

#[test]
fn what_is_held_back_outlives_the_process_in_every_mode() {
    let home = Home::new();
    let mut weir = home.start(&["-Dweir.workers=2"]);
    weir.rows("UNWIND [1, 2, 3] AS i MATCH (n) WHERE id(n) = idFrom('n', i) SET n.x = i");
    let modes = [("DistinctId", "DISTINCT strId(n) AS x"), ("MultipleValues", "n.x AS x"), ("AnyQuery", "n.x AS x")];
    for (mode, columns) in modes {
        for cancellations in [true, false] {
            let pattern =
                json!({"type": "Cypher", "mode": mode, "query": format!("MATCH (n) WHERE n.x IS NOT NULL RETURN {columns}")});
            let name = format!("{mode}-{cancellations}");
            let outputs = json!({"file": {"type": "WriteToFile", "path": format!("{name}.jsonl")}});
            let body = json!({"pattern": pattern, "includeCancellations": cancellations, "outputs": outputs});
            weir.post(&format!("/api/v1/query/standing/{name}"), &body).expect(201);
        }
    }
    let told = |lines: usize| {
        let of_mode = |(mode, _): &(&str, &str)| {
            let lines = home.wait_lines(&format!("{mode}-true.jsonl"), lines);
            lines.iter().map(|line| line["meta"]["isPositiveMatch"] == true).collect::<Vec<bool>>()
        };
        modes.iter().map(of_mode).collect::<Vec<_>>()
    };
    let end = |weir: &Weir, x: u32| drop(weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('n', {x}) SET n.x = NULL")));
    for (ended, orderly) in [(1, true), (7, false)] {
        match orderly {
            true => weir.stop(),
            false => weir.kill(),
        }
        weir = home.start(&["-Dweir.workers=1"]);
        end(&weir, ended);
    }
    weir.catch_up();
    assert_eq!(told(0), vec![Vec::<bool>::new(); 3], "nothing was asked for, and what ends before that leaves no trace");
    propagate(&weir);
    assert_eq!(told(2), [[true, true]; 3]);
    weir.kill();
    weir = home.start(&["-Dweir.workers=2"]);
    end(&weir, 2);
    propagate(&weir);
    assert_eq!(told(3), [[true, true, false]; 3]);
    weir.stop();
    for (mode, _) in modes {
        assert_eq!(home.lines(&format!("{mode}-true.jsonl")).len(), 3);
        assert_eq!(home.lines(&format!("{mode}-false.jsonl")).len(), 2);
    }
}

#[test]
fn what_is_held_back_stays_so_when_a_query_is_replaced() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    for (name, age) in [("ann", 40), ("bob", 20), ("eve", 30)] {
        set(&weir, name, age);
    }
    create(&weir, true);
    set(&weir, "zoe", 18);
    let text = |least: u32| format!("MATCH (n) WHERE n.age > {least} RETURN n.name AS name, n.age AS age");
    assert_eq!(results(&home.wait_lines("out.jsonl", 1)), [(true, json!("zoe"))]);
    // Of those that go only the one that was told is taken back.
    change(&weir, PLACE, &pattern(&text(25))).expect(200);
    assert_eq!(results(&home.wait_lines("out.jsonl", 2)[1..]), [(false, json!("zoe"))]);
    weir.kill();
    weir = home.start(&[]);
    // Not told, and gone.
    set(&weir, "eve", 3);
    set(&weir, "zoe", 3);
    // What the new one has, and the old one had not, is told.
    set(&weir, "tim", 9);
    change(&weir, PLACE, &pattern(&text(8))).expect(200);
    assert_eq!(results(&home.wait_lines("out.jsonl", 4)[2..]), [(true, json!("bob")), (true, json!("tim"))]);
    propagate(&weir);
    assert_eq!(results(&home.wait_lines("out.jsonl", 5)[4..]), [(true, json!("ann"))]);
    set(&weir, "ann", 4);
    assert_eq!(results(&home.wait_lines("out.jsonl", 6)[5..]), [(false, json!("ann"))]);
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 6);
}

/// A server that takes requests and never answers.
fn silent() -> (std::net::TcpListener, String) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    (silent, url)
}

/// How an output is, as the family of v1 has it.
fn output(weir: &Weir, name: &str) -> Json {
    weir.get(PLACE).expect(200).json()["stats"]["local"]["outputs"][name].take()
}

#[test]
fn an_output_that_hangs_holds_up_no_other_and_ingest_no_sooner_than_the_limit() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    create(&weir, false);
    let (_silent, url) = silent();
    weir.post(&format!("{PLACE}/output/hook"), &json!({"type": "PostToEndpoint", "url": url})).expect(201);
    let pattern =
        json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.name AS name"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "other.jsonl"}});
    weir.post("/api/v1/query/standing/other", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    let query = "WITH toInteger($that) AS k MATCH (n) WHERE id(n) = idFrom('person', k) SET n.name = k, n.age = 18";
    let stream = json!({"type": "NumberIteratorIngest", "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/people", &stream).expect(200);
    // Before its first request has taken too long, after which it is tried again.
    wait_until("the output hangs", RESULTS_MAX, || {
        let hook = output(&weir, "hook");
        hook["state"] == "Running" && hook["unansweredFor"].as_u64() > Some(0)
    });
    wait_until("ingest waits for the output that hangs", RESULTS_MAX * 3, || output(&weir, "hook")["holdsIngest"] == true);
    let ingested = || weir.get("/api/v1/ingest/people").expect(200).json()["stats"]["ingestedCount"].as_u64().expect("a count");
    // What hangs keeps nothing from the others: all that came in has gone out there.
    let lines = |file: &str| home.read(file).lines().count() as u64;
    let has_all = |count: u64| {
        let file = output(&weir, "file");
        let is_told = file["delivered"] == count && file["waiting"] == 0;
        is_told && ["out.jsonl", "other.jsonl"].iter().all(|file| lines(file) == count)
    };
    let (mut count, mut stands) = (0, 0);
    wait_until("it stands still, and the others have all", RESULTS_MAX * 3, || {
        sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut count, ingested());
        // A busy machine may look like that once.
        stands = if before == count && has_all(count) { stands + 1 } else { 0 };
        stands == 4
    });
    assert!(count > 100_000, "{count}");
    let (hook, file) = (output(&weir, "hook"), output(&weir, "file"));
    assert_eq!((&hook["delivered"], &hook["waiting"]), (&json!(0), &json!(count)), "{hook}");
    assert!((hook["state"] == "Running" || hook["state"] == "Retrying") && hook["lag"].as_u64() > Some(0), "{hook}");
    assert_eq!((&hook["retryPolicy"]["maxTries"], &file["retryPolicy"]["maxTries"]), (&json!(6), &Json::Null), "{hook} {file}");
    assert_eq!((&file["delivered"], &file["waiting"], &file["holdsIngest"]), (&json!(count), &json!(0), &json!(false)), "{file}");
    // A stream of another graph waits for nothing.
    weir.post("/api/v2/namespaces", &json!({"name": "calm"})).expect(201);
    let format = json!({"type": "CypherLine", "query": "RETURN $that"});
    let calm = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 1, "format": format});
    weir.post("/api/v1/ingest/calm?namespace=calm", &calm).expect(200);
    // Rates move every few seconds: the first of them may have nothing of what came.
    let pressure = || weir.get("/api/v2/system/backpressure").expect(200).json()[0].take();
    let rates = |pressure: &Json| {
        let all = pressure["standingQueries"].as_array().cloned().unwrap_or_default();
        let adults = all.into_iter().find(|query| query["name"] == "adults").unwrap_or_default();
        let file = adults["outputs"].as_array().and_then(|all| all.iter().find(|output| output["name"] == "file")).cloned();
        (adults["queue"]["productionRate"].as_f64(), file.and_then(|file| file["rate"].as_f64()))
    };
    wait_until("rates are known", RESULTS_MAX, || {
        let (produced, file) = rates(&pressure());
        produced > Some(0.0) && file > Some(0.0)
    });
    let pressure = pressure();
    assert_eq!(pressure["globalValve"]["closedCount"], 1, "{pressure}");
    let stream = |name: &str| pressure["ingests"].as_array().and_then(|all| all.iter().find(|stream| stream["name"] == name));
    for (name, state) in [("people", "BACKPRESSURED"), ("calm", "FLOWING")] {
        let told = stream(name).map(|stream| (&stream["status"], &stream["stages"]));
        assert_eq!(told, Some((&json!("RUNNING"), &json!({"source": state, "preGraphWrite": state}))), "{name}: {pressure}");
    }
    let adults = pressure["standingQueries"].as_array().and_then(|all| all.iter().find(|query| query["name"] == "adults"));
    let rate = |name: &str| adults.and_then(|query| query["queue"][name].as_f64());
    assert!(rate("productionRate") > Some(0.0) && rate("consumptionRate") == Some(0.0), "{pressure}");
    let of = |name: &str| adults.and_then(|query| query["outputs"].as_array()?.iter().find(|output| output["name"] == name));
    let state = |name: &str| of(name).map(|output| output["destinations"][0]["state"].clone());
    assert_eq!((state("hook"), state("file")), (Some(json!("BACKPRESSURED")), Some(json!("FLOWING"))), "{pressure}");
    let done = |name: &str| of(name).map(|output| (output["totalCount"].as_u64(), output["rate"].as_f64() > Some(0.0)));
    assert_eq!((done("hook"), done("file")), (Some((Some(0), false)), Some((Some(count), true))), "{pressure}");
    // Queries that write are not held.
    set(&weir, "ann", 40);
    wait_until("what was written by hand comes", RESULTS_MAX, || lines("out.jsonl") == count + 1);
    // Without it, all goes on.
    weir.delete(&format!("{PLACE}/output/hook")).expect(200);
    wait_until("ingest goes on", RESULTS_MAX, || ingested() > count);
    weir.delete("/api/v1/ingest/people").expect(200);
    weir.catch_up();
    let all = weir.rows("MATCH (n) WHERE n.age > 17 RETURN count(n)")[0][0].as_u64().expect("a count");
    for (file, wanted) in [("out.jsonl", all), ("other.jsonl", all)] {
        wait_until("the rest has come", RESULTS_MAX, || lines(file) == wanted);
    }
    let names: std::collections::BTreeSet<String> = home.read("out.jsonl").lines().map(str::to_owned).collect();
    assert_eq!(names.len() as u64, all, "each once");
    weir.stop();
}

/// They are handed over as one, and the output has room for that.
#[test]
fn results_of_one_query_that_an_output_does_not_take_hold_ingest_too() {
    const COUNT: usize = 100_001;
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    create(&weir, false);
    let (_silent, url) = silent();
    weir.post(&format!("{PLACE}/output/hook"), &json!({"type": "PostToEndpoint", "url": url})).expect(201);
    weir.rows(&format!("UNWIND range(1, {COUNT}) AS k MATCH (n) WHERE id(n) = idFrom('person', k) SET n.name = k, n.age = 18"));
    wait_until("ingest would wait", RESULTS_MAX, || output(&weir, "hook")["holdsIngest"] == true);
    assert_eq!(output(&weir, "hook")["waiting"], COUNT);
    let closed = || weir.get("/api/v2/system/backpressure").expect(200).json()[0]["globalValve"]["closedCount"].take();
    assert_eq!(closed(), 1);
    wait_until("the other has all", RESULTS_MAX, || output(&weir, "file")["delivered"] == COUNT);
    weir.delete(&format!("{PLACE}/output/hook")).expect(200);
    wait_until("ingest would go on", RESULTS_MAX, || closed() == 0);
    weir.stop();
}

/// Whatever hung, was tried again or could not be reached: each output goes on by itself where it stood.
#[test]
fn after_a_restart_each_output_goes_on_where_it_stood() {
    const COUNT: usize = 80;
    let home = Home::new();
    let weir = home.start(&[]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/down");
    create(&weir, false);
    let hook = json!({"type": "PostToEndpoint", "url": format!("http://{}/down", endpoint.address()), "parallelism": 1,
        "onResultError": {"type": "Retry"}});
    weir.post(&format!("{PLACE}/output/hook"), &hook).expect(201);
    (0..COUNT).for_each(|k| set(&weir, &format!("p{k}"), 20));
    home.wait_lines("out.jsonl", COUNT);
    wait_until("it is tried again", RESULTS_MAX, || output(&weir, "hook")["state"] == "Retrying");
    let hook = output(&weir, "hook");
    assert!(hook["lastError"]["message"].as_str().is_some_and(|error| error.contains("500")), "{hook}");
    assert!(hook["tries"].as_u64() > Some(0) && hook["lastError"]["at"].is_string() && hook["delivered"] == 0, "{hook}");
    assert!(hook["retryPolicy"]["minBackoff"] == 100 && hook["retryPolicy"]["maxTries"].is_null(), "{hook}");
    weir.kill();
    endpoint.wait_alone();
    endpoint.begin_anew(200, Duration::ZERO);
    let weir = home.start(&[]);
    wait_until("what was not delivered is", RESULTS_MAX, || endpoint.received() >= COUNT);
    set(&weir, "last", 20);
    wait_until("what came then, too", RESULTS_MAX, || endpoint.received() > COUNT);
    let names: Vec<Json> = endpoint.take().into_iter().map(|(_, body)| body["data"]["name"].clone()).collect();
    let expected: Vec<Json> = (0..COUNT).map(|k| json!(format!("p{k}"))).chain([json!("last")]).collect();
    assert_eq!(names, expected, "each once, in their order");
    assert_eq!(home.wait_lines("out.jsonl", COUNT + 1).len(), COUNT + 1);
    wait_until("it is said to run", RESULTS_MAX, || output(&weir, "hook")["state"] == "Running");
    weir.stop();
}

/// In every notation, across a restart, and where the output is changed as it runs.
#[test]
fn how_often_and_how_soon_a_destination_is_tried_can_be_said() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/down");
    let url = format!("http://{}/down", endpoint.address());
    create(&weir, false);
    let place = format!("{PLACE}/output/hook");
    let hook = |policy: Json| json!({"type": "PostToEndpoint", "url": url, "retryPolicy": policy});
    let refused = weir.post(&place, &hook(json!({"minBackoffMillis": 500, "maxBackoffMillis": 20}))).expect(400);
    assert!(refused.text().contains("retryPolicy.maxBackoffMillis"), "{}", refused.text());
    let policy = json!({"maxTries": 2, "minBackoffMillis": 20, "maxBackoffMillis": 3000});
    weir.post(&place, &hook(policy.clone())).expect(201);
    let workflow = json!({"name": "v2", "destinations": [
        {"type": "HttpEndpoint", "url": url, "retryPolicy": {"maxTries": 2, "minBackoff": "20ms", "maxBackoff": "3s"}}]});
    let workflows = "/api/v2/graph/quine/standingQueries/adults/outputs";
    weir.post(workflows, &workflow).expect(201);
    // By itself it is tried until it works.
    let away = |policy: Json| json!({"type": "WriteToRedis", "url": "redis://127.0.0.1:1", "key": "k", "retryPolicy": policy});
    let at_redis = format!("{PLACE}/output/redis");
    weir.post(&at_redis, &away(json!({"maxTries": 5}))).expect(201);
    let changed = bare(change(&weir, &at_redis, &away(policy.clone())).expect(200).json());
    assert!(changed.to_string().contains("\"maxTries\":2"), "{changed}");
    // A file has each result once.
    let file = json!({"type": "WriteToFile", "path": home.file("kept.jsonl"), "retryPolicy": policy});
    let refused = weir.post(&format!("{PLACE}/output/kept"), &file).expect(400);
    assert!(refused.text().contains("retryPolicy.maxTries"), "{}", refused.text());
    for round in 0..2 {
        set(&weir, &format!("p{round}"), 20);
        for name in ["hook", "v2", "redis"] {
            wait_until("it is given up", RESULTS_MAX, || output(&weir, name)["failed"] == 1);
            let told = output(&weir, name);
            assert_eq!(told["retryPolicy"], json!({"maxTries": 2, "minBackoff": 20, "maxBackoff": 3000}), "{told}");
            assert_eq!(told["retries"], 1, "{told}");
        }
        let shown = weir.get(PLACE).expect(200).json();
        for name in ["hook", "redis"] {
            assert_eq!(shown["outputs"][name]["retryPolicy"], policy, "{shown}");
        }
        let shown = weir.get("/api/v2/graph/quine/standingQueries/adults").expect(200).json();
        let of_v2 = shown["outputs"].as_array().and_then(|all| all.iter().find(|output| output["name"] == "v2"));
        let policy = of_v2.map(|output| &output["destinations"][0]["retryPolicy"]);
        assert_eq!(policy, Some(&workflow["destinations"][0]["retryPolicy"]), "{shown}");
        // All have said how far they are.
        wait_until("it is noted", RESULTS_MAX, || ["hook", "v2", "redis"].iter().all(|name| output(&weir, name)["waiting"] == 0));
        weir.stop();
        weir = home.start(&[]);
    }
    weir.stop();
}

/// Whatever led to it: how the graph came to be what it was when the query came is no result of it.
#[test]
fn first_results_that_nobody_took_are_the_same_after_a_restart() {
    let home = Home::new();
    let mut weir = home.start(&["-Dweir.id.type=long"]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(503, Duration::ZERO);
    for k in 0..20 {
        weir.rows(&format!("MATCH (n) WHERE id(n) = {} SET n:L, n.v = {k}", k % 3));
    }
    let queries = [
        ("rows", "AnyQuery", "MATCH (n:L) RETURN n.v AS v", vec![json!({"v": 17}), json!({"v": 18}), json!({"v": 19})]),
        ("sum", "AnyQuery", "MATCH (n:L) RETURN count(*) AS c, sum(n.v) AS s", vec![json!({"c": 3, "s": 54})]),
        ("values", "MultipleValues", "MATCH (n:L) RETURN n.v AS v", vec![json!({"v": 17}), json!({"v": 18}), json!({"v": 19})]),
        ("ids", "DistinctId", "MATCH (n:L) RETURN DISTINCT id(n) AS id", (0..3).map(|id| json!({"id": id})).collect()),
    ];
    for (name, mode, query, _) in &queries {
        let output = json!({"type": "PostToEndpoint", "url": format!("http://{}/{name}", endpoint.address()), "parallelism": 1,
            "structure": {"type": "WithTick"}, "onResultError": {"type": "Retry"}});
        let pattern = json!({"type": "Cypher", "mode": mode, "query": query});
        let body =
            json!({"pattern": pattern, "startFrom": "WholeGraph", "includeCancellations": false, "outputs": {"hook": output}});
        weir.post(&format!("/api/v1/query/standing/{name}"), &body).expect(201);
    }
    // What comes of later changes comes behind it.
    weir.rows("MATCH (n) WHERE id(n) = 0 SET n.v = 30");
    // Each by itself: one may have been tried often before another one is.
    let are_tried = || queries.iter().all(|(name, ..)| endpoint.received_at(&format!("/{name}")) >= 2);
    wait_until("all are tried", RESULTS_MAX, are_tried);
    let tried = endpoint.take();
    for again in [true, false] {
        match again {
            true => weir.kill(),
            false => weir.stop(),
        }
        endpoint.wait_alone();
        endpoint.take();
        weir = home.start(&["-Dweir.id.type=long"]);
        wait_until("all are tried again", RESULTS_MAX, are_tried);
    }
    endpoint.begin_anew(200, Duration::ZERO);
    let later = |name: &str| usize::from(name != "ids");
    let all: usize = queries.iter().map(|(name, _, _, first)| first.len() + later(name)).sum();
    wait_until("all have come", RESULTS_MAX, || endpoint.received() >= all);
    sleep(Duration::from_millis(300));
    let came = endpoint.take();
    for (name, _, _, first) in &queries {
        let of = |requests: &[(String, Json)]| -> Vec<Json> {
            requests.iter().filter(|(path, _)| path == &format!("/{name}")).map(|(_, body)| body.clone()).collect()
        };
        let rows = of(&came);
        let data: Vec<Json> = rows.iter().map(|row| row["data"].clone()).collect();
        assert_eq!((&data[..first.len()], rows.len()), (&first[..], first.len() + later(name)), "{name}: {rows:?}");
        let ticks = rows[..first.len()].iter().map(|row| row["meta"]["tick"].as_str().expect("a tick"));
        assert!(ticks.clone().all(|tick| Some(tick) == ticks.clone().next()), "{name}: at one tick: {rows:?}");
        assert_eq!(of(&tried)[0], rows[0], "{name}: what was tried before the restart");
    }
    weir.stop();
}

/// What has not been answered for as long as an output gets for its end is not waited for again.
#[test]
fn a_query_whose_destination_hangs_is_deleted_at_once() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(200, Duration::from_secs(60));
    create(&weir, false);
    let hook = json!({"type": "PostToEndpoint", "url": format!("http://{}/", endpoint.address())});
    let mut deleted = 0;
    takes_at_most("its deletion", Duration::from_secs(3), || {
        if deleted > 0 {
            create(&weir, false);
        }
        weir.post(&format!("{PLACE}/output/hook"), &hook).expect(201);
        set(&weir, "ann", 20 + deleted);
        wait_until("it hangs", RESULTS_MAX, || output(&weir, "hook")["unansweredFor"].as_u64() > Some(5_000));
        wait_until("the file has it", RESULTS_MAX, || output(&weir, "file")["waiting"] == 0);
        let begun = Instant::now();
        weir.delete(PLACE).expect(200);
        deleted += 1;
        begun.elapsed()
    });
    // What it did not take is told, and nothing of the one that took all.
    let left = |log: &str| log.lines().filter(|line| line.contains("are gone with it: 1")).count();
    wait_until("what is left is told", RESULTS_MAX, || left(&weir.log()) >= deleted as usize);
    assert_eq!(weir.log().matches("are gone with it").count(), deleted as usize, "{}", weir.log());
    weir.stop();
}

/// Another pattern waits much longer for the outputs than a deletion does, and nobody wants it any more. Nor does any other query
/// wait for that.
#[test]
fn a_query_that_is_being_replaced_is_deleted_without_waiting_for_that() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    create(&weir, false);
    let (_silent, url) = silent();
    weir.post(&format!("{PLACE}/output/hook"), &json!({"type": "PostToEndpoint", "url": url})).expect(201);
    set(&weir, "ann", 20);
    wait_until("it hangs", RESULTS_MAX, || output(&weir, "hook")["unansweredFor"].as_u64() > Some(0));
    std::thread::scope(|scope| {
        let text = "MATCH (n) WHERE n.age > 30 RETURN n.name AS name, n.age AS age";
        let replaced = scope.spawn(|| change(&weir, PLACE, &pattern(text)));
        sleep(Duration::from_secs(1));
        let begun = Instant::now();
        let mut other = pattern(text);
        other["outputs"] = json!({});
        weir.post("/api/v1/query/standing/other", &other).expect(201);
        assert!(!replaced.is_finished(), "{:?}", begun.elapsed());
        weir.delete(PLACE).expect(200);
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        let refused = replaced.join().expect("it is answered").expect(400).text();
        assert!(refused.contains("has ended"), "{refused}");
    });
    weir.stop();
}

#[test]
fn a_query_whose_outputs_have_everything_is_deleted_at_once() {
    let home = Home::new();
    let weir = home.start(&[]);
    let mut deleted = 0;
    takes_at_most("its deletion", Duration::from_secs(2), || {
        create(&weir, false);
        set(&weir, "ann", 20 + deleted);
        deleted += 1;
        home.wait_lines("out.jsonl", deleted as usize);
        // By then the log says that it is delivered, which is no work for the query.
        sleep(Duration::from_millis(300));
        let begun = Instant::now();
        weir.delete(PLACE).expect(200);
        begun.elapsed()
    });
    weir.stop();
}

/// Who adds or removes an output may have found a query that is deleted before it is their turn.
#[test]
fn a_query_that_was_deleted_does_not_come_back_with_a_change_of_its_outputs() {
    const SLOW: &str = "/api/v1/query/standing/slow";
    let home = Home::new();
    let weir = home.start(&[]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(200, Duration::from_secs(3));
    let place = format!("{PLACE}/output");
    for (age, removes) in [(20, false), (21, true)] {
        create(&weir, false);
        let pattern =
            json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.age AS age"});
        let hook = json!({"type": "PostToEndpoint", "url": format!("http://{}/", endpoint.address()), "parallelism": 1});
        weir.post(SLOW, &json!({"pattern": pattern, "outputs": {"hook": hook}})).expect(201);
        endpoint.take();
        set(&weir, "ann", age);
        wait_until("it is asked", RESULTS_MAX, || endpoint.received() > 0);
        std::thread::scope(|scope| {
            // Until this one has its answer, changes of others wait.
            scope.spawn(|| weir.delete(SLOW).expect(200));
            wait_until("it is being deleted", RESULTS_MAX, || weir.get(SLOW).status == 404);
            let deleted = scope.spawn(|| weir.delete(PLACE));
            sleep(Duration::from_millis(300));
            let changed = match removes {
                true => weir.delete(&format!("{place}/file")),
                false => weir.post(&format!("{place}/more"), &json!({"type": "Drop"})),
            };
            deleted.join().expect("it is answered").expect(200);
            // Mostly the first that waited is the first to go on.
            let first = if removes { 200 } else { 201 };
            assert!([404, first].contains(&changed.status), "{}", changed.shown());
        });
        weir.get(PLACE).expect(404);
    }
    weir.stop();
    let weir = home.start(&[]);
    weir.get(PLACE).expect(404);
    assert_eq!(weir.get("/api/v1/query/standing").expect(200).json(), json!([]));
    weir.stop();
}

/// Whatever id the query has in each.
#[test]
fn two_runs_over_the_same_rows_have_one_hash() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let values = "MATCH (n) WHERE n.age = 40 RETURN n.name AS name, n.age AS age";
    let modes = [
        ("MultipleValues", values),
        ("AnyQuery", values),
        ("DistinctId", "MATCH (n) WHERE n.age = 40 RETURN DISTINCT id(n) AS id"),
    ];
    for (mode, query) in modes {
        let pattern = json!({"type": "Cypher", "mode": mode, "query": query});
        let body = json!({"pattern": pattern, "shouldCalculateResultHashCode": true, "outputs": {}});
        let run = |names: [&str; 2]| {
            weir.post(PLACE, &body).expect(201);
            names.iter().for_each(|name| set(&weir, name, 40));
            let stats = || weir.get(PLACE).expect(200).json()["stats"]["local"].take();
            wait_until("both have come", RESULTS_MAX, || stats()["rates"]["count"] == 2);
            let hash = stats()["outputHashCode"].take();
            weir.delete(PLACE).expect(200);
            names.iter().for_each(|name| set(&weir, name, 1));
            hash
        };
        let hash = run(["ann", "bob"]);
        assert!(hash.is_string() && hash != "0", "{mode}: {hash}");
        assert_eq!(run(["bob", "ann"]), hash, "{mode}");
        assert_ne!(run(["ann", "eve"]), hash, "{mode}");
    }
    weir.stop();
}

#[test]
fn all_that_is_wrong_with_outputs_of_v2_is_told_together() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.age = 40 RETURN DISTINCT id(n) AS id"});
    let to_two = |name: &str, query: &str| {
        let enrichment = json!({"query": query});
        json!({"name": name, "resultEnrichment": enrichment, "destinations": [{"type": "Drop"}, {"type": "Drop"}]})
    };
    let errors = |outputs: Json| {
        let body = json!({"name": "adults", "pattern": pattern, "outputs": outputs});
        weir.post("/api/v2/graph/quine/standingQueries", &body).expect(400).json()["errors"].take()
    };
    let right = json!({"name": "right", "destinations": [{"type": "Drop"}]});
    let (unknown, scans) = (to_two("unknown", "RETURN $nobody AS x"), to_two("scans", "MATCH (n) RETURN n.name AS name"));
    // One alone as ever, and once for all destinations.
    let one = errors(json!([right, unknown]));
    assert_eq!((one.as_array().map(Vec::len), &one[0]["type"]), (Some(1), &json!("CypherError")), "{one}");
    let both = errors(json!([unknown, right, scans]));
    assert_eq!(both.as_array().map(Vec::len), Some(2), "{both}");
    for (at, name, why) in [(0, "unknown", "nobody"), (1, "scans", "full node scan")] {
        let told = both[at]["message"].as_str().unwrap_or_default();
        assert!(told.starts_with(&format!("The output '{name}': ")) && told.contains(why), "{both}");
    }
    // Of all parts of one, and beside what is wrong with the pattern.
    let output = |query: &str| json!({"type": "CypherQuery", "query": query});
    let destinations = json!([output("MATCH (n) DELETE n"), output("RETURN $nobody AS x")]);
    let parts = errors(json!([{"name": "parts", "resultEnrichment": {"query": "CREATE (n"}, "destinations": destinations}]));
    assert_eq!(parts.as_array().map(Vec::len), Some(3), "{parts}");
    for (at, why) in ["CREATE (n", "full node scan", "nobody"].iter().enumerate() {
        let told = parts[at]["message"].as_str().unwrap_or_default();
        assert!(told.starts_with("The output 'parts': ") && told.contains(why), "{parts}");
    }
    let body = json!({"name": "adults", "pattern": {"type": "Cypher", "query": "MATCH (n"}, "outputs": [scans]});
    let told = weir.post("/api/v2/graph/quine/standingQueries", &body).expect(400).json()["errors"].take();
    assert_eq!(told.as_array().map(Vec::len), Some(2), "{told}");
    for (at, why) in ["MATCH (n", "The output 'scans': "].iter().enumerate() {
        assert!(told[at]["message"].as_str().is_some_and(|message| message.contains(why)), "{told}");
    }
    // v1 has one error.
    let outputs = json!({"one": output("RETURN $nobody AS x"), "two": output("MATCH (n) RETURN n.name AS name")});
    let told = weir.post(PLACE, &json!({"pattern": pattern, "outputs": outputs})).expect(400).json();
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    weir.get(PLACE).expect(404);
    weir.stop();
}

#[test]
fn what_is_wrong_with_a_destination_of_v2_is_told_with_its_place() {
    const QUERIES: &str = "/api/v2/graph/quine/standingQueries";
    const WRONG: &str = "DecodingFailure at .url: the URL must begin with http:// or https://";
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.age = 40 RETURN DISTINCT id(n) AS id"});
    let errors = |outputs: Json| {
        let body = json!({"name": "new", "pattern": pattern, "outputs": outputs});
        let told = weir.post(QUERIES, &body).expect(400).json()["errors"].take();
        let texts = told.as_array().into_iter().flatten().filter_map(|error| error["message"].as_str());
        texts.map(str::to_owned).collect::<Vec<String>>()
    };
    let to = |url: &str| json!({"type": "HttpEndpoint", "url": url});
    let (nothing, wrong) = (json!({"type": "Drop"}), to("ftp://x/"));
    // All of it can be read, and is looked at then.
    let one = errors(json!([{"name": "a", "destinations": [nothing]}, {"name": "b", "destinations": [nothing, wrong]}]));
    assert_eq!(one, [format!("Invalid value for: body ({WRONG} (in .outputs[1].destinations[1]))")]);
    let each = errors(json!([{"name": "a", "destinations": [wrong, nothing, wrong]}]));
    let told = |index| format!("Invalid value for: body (The output 'a': {WRONG} (in .outputs[0].destinations[{index}]))");
    assert_eq!(each, [told(0), told(2)]);
    // Behind one that cannot be read.
    let both = errors(json!([{"name": "a", "destinations": [{"type": "Nowhere"}, wrong]}]));
    assert!(both.len() == 2 && both[0].contains(".outputs[0].destinations[0]: type 'Nowhere'"), "{both:?}");
    assert_eq!(both[1], format!("The output 'a': {WRONG} (in .outputs[0].destinations[1])"));
    // What its dead letters go to.
    let mut lettered = to("http://127.0.0.1:1/");
    lettered["onResultError"] = json!({"type": "DeadLetter", "destinations": [to("http://127.0.0.1:1/"), wrong]});
    let letters = errors(json!([{"name": "a", "destinations": [lettered]}]));
    let place = ".outputs[0].destinations[0].onResultError.destinations[1]";
    assert_eq!(letters, [format!("Invalid value for: body ({WRONG} (in {place}))")]);
    // A body that is one output; and v1, whose clients know the place from the output on.
    create(&weir, false);
    let body = json!({"name": "a", "destinations": [nothing, wrong]});
    let added = weir.post(&format!("{QUERIES}/adults/outputs"), &body).expect(400).text();
    assert!(added.contains(&format!("{WRONG} (in .destinations[1])")), "{added}");
    let of_v1 = weir.post(&format!("{PLACE}/output/a"), &json!({"type": "PostToEndpoint", "url": "ftp://x/"})).expect(400);
    assert_eq!(of_v1.json(), json!([WRONG]));
    weir.stop();
}

/// A file is tried with all the rest, and opened when nothing is wrong.
#[test]
fn files_that_cannot_be_written_are_told_together_and_with_what_else_is_wrong() {
    const QUERIES: &str = "/api/v2/graph/quine/standingQueries";
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.age = 40 RETURN DISTINCT id(n) AS id"});
    let to = |name: &str, path: &str| json!({"name": name, "destinations": [{"type": "File", "path": path}]});
    let wrong = json!({"name": "c", "destinations": [{"type": "HttpEndpoint", "url": "ftp://x/"}]});
    let outputs = [to("a", "no/one.jsonl"), to("right", "right.jsonl"), to("b", "no/two.jsonl"), wrong];
    for (outputs, whys) in [(&outputs[..3], ["no/one.jsonl", "no/two.jsonl"]), (&outputs[2..], ["no/two.jsonl", ".url: "])] {
        let body = json!({"name": "new", "pattern": pattern, "outputs": outputs});
        let told = weir.post(QUERIES, &body).expect(400).json()["errors"].take();
        assert_eq!(told.as_array().map(Vec::len), Some(2), "{told}");
        let text = told.to_string();
        assert!(whys.iter().all(|why| text.contains(why)), "{told}");
        assert!(!home.file("right.jsonl").exists(), "nothing of it is made");
    }
    weir.stop();
}

/// Nothing that happens later brings one.
#[test]
fn an_output_to_amazon_without_a_region_is_refused_and_one_that_was_taken_stops_no_start() {
    let home = Home::new();
    let start = |region: &str| {
        let nowhere =
            [("AWS_CONFIG_FILE", "none"), ("AWS_SHARED_CREDENTIALS_FILE", "none"), ("AWS_EC2_METADATA_DISABLED", "true")];
        let regions = [("AWS_REGION", region), ("AWS_DEFAULT_REGION", region)];
        home.start_with(&[&nowhere[..], &regions].concat(), &[])
    };
    let weir = start("");
    create(&weir, false);
    let place = format!("{PLACE}/output/hook");
    let kinesis = json!({"type": "WriteToKinesis", "streamName": "results"});
    let sqs = json!({"type": "WriteToSQS", "queueUrl": "http://127.0.0.1:1/1/results"});
    for output in [&kinesis, &sqs] {
        let refused = weir.post(&place, output).expect(400).text();
        assert!(refused.contains(".region: is not given"), "{refused}");
    }
    let of_v2 = json!({"name": "hook", "destinations": [{"type": "Kinesis", "streamName": "results"}]});
    let refused = weir.post("/api/v2/graph/quine/standingQueries/adults/outputs", &of_v2).expect(400).text();
    assert!(refused.contains(".region: is not given"), "{refused}");
    let said = json!({"type": "WriteToSQS", "queueUrl": "http://127.0.0.1:1/1/results", "region": "eu-west-1"});
    weir.post(&format!("{PLACE}/output/said"), &said).expect(201);
    weir.delete(&format!("{PLACE}/output/said")).expect(200);
    weir.stop();
    let weir = start("eu-west-1");
    weir.post(&place, &kinesis).expect(201);
    weir.stop();
    let weir = start("");
    set(&weir, "ann", 40);
    wait_until("it has failed", RESULTS_MAX, || output(&weir, "hook")["state"] == "Failed");
    let hook = output(&weir, "hook");
    assert!(hook["reason"].as_str().is_some_and(|reason| reason.contains("`region`: is not given")), "{hook}");
    weir.stop();
}

/// What a machine of Amazon's tells of itself: that it is in eu-west-1.
#[derive(Clone, Default)]
struct Machine {
    connections: Arc<AtomicUsize>,
    /// How often it was asked for the region.
    asked: Arc<AtomicUsize>,
}

impl Machine {
    /// Listens until the process ends, at the address it gives back.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let machine = self.clone();
        spawn(move || {
            for stream in listener.incoming().flatten() {
                machine.connections.fetch_add(1, Ordering::SeqCst);
                let asked = machine.asked.clone();
                spawn(move || {
                    let Ok(mut out) = stream.try_clone() else { return };
                    let mut input = BufReader::new(stream);
                    while let Some((path, ..)) = request(&mut input) {
                        let (status, body) = match path.as_str() {
                            "/latest/api/token" => (200, "token"),
                            "/latest/meta-data/placement/region" => {
                                asked.fetch_add(1, Ordering::SeqCst);
                                (200, "eu-west-1")
                            }
                            _ => (404, ""),
                        };
                        let head = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 21600\r\nContent-Length:";
                        let answer = format!("HTTP/1.1 {status} -\r\n{head} {}\r\n\r\n{body}", body.len());
                        if out.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }
}

/// Those that others share would end with the look.
#[test]
fn the_region_of_a_new_output_is_looked_for_over_connections_of_its_own() {
    let (home, machine) = (Home::new(), Machine::default());
    let address = machine.start();
    let variables = [
        ("AWS_CONFIG_FILE", "none"),
        ("AWS_SHARED_CREDENTIALS_FILE", "none"),
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", address.as_str()),
    ];
    let weir = home.start_with(&variables, &[]);
    create(&weir, false);
    let credentials = json!({"accessKeyId": "test", "secretAccessKey": "test"});
    let sqs = json!({"type": "WriteToSQS", "queueUrl": "http://127.0.0.1:1/1/results", "credentials": credentials});
    weir.post(&format!("{PLACE}/output/first"), &sqs).expect(201);
    let asked = machine.asked.load(Ordering::SeqCst);
    assert!(asked > 0, "the machine is asked before the output is made");
    set(&weir, "ann", 40);
    wait_until("the output asks for its region", RESULTS_MAX, || machine.asked.load(Ordering::SeqCst) > asked);
    // Its connection stays.
    let connections = machine.connections.load(Ordering::SeqCst);
    weir.post(&format!("{PLACE}/output/second"), &sqs).expect(201);
    assert!(machine.connections.load(Ordering::SeqCst) > connections);
    weir.stop();
}

#[test]
fn what_cannot_be_read_hides_nothing_that_is_wrong_besides() {
    const QUERIES: &str = "/api/v2/graph/quine/standingQueries";
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let send = |method: &str, target: &str, body: &Json| {
        weir.send(method, target, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    };
    #[track_caller]
    fn check(told: &Json, whys: &[&str]) {
        assert_eq!(told.as_array().map(Vec::len), Some(whys.len()), "{told}");
        for (at, why) in whys.iter().enumerate() {
            assert!(told[at]["message"].as_str().is_some_and(|message| message.contains(why)), "{why}: {told}");
        }
    }
    let unknown = json!({"query": "RETURN $nobody AS x"});
    let to_nowhere =
        json!({"name": "wrong", "resultEnrichment": unknown, "destinations": [{"type": "Drop"}, {"type": "Nowhere"}]});
    let scans = json!({"name": "scans", "resultEnrichment": {"query": "MATCH (n) RETURN n.name AS name"}, "destinations": [{"type": "Drop"}]});
    let body = json!({"name": "adults", "pattern": {"type": "Cypher", "query": "MATCH (n"}, "outputs": [scans, to_nowhere]});
    let told = send("POST", QUERIES, &body).expect(400).json()["errors"].take();
    check(&told, &[".outputs[1].destinations[1]: type 'Nowhere'", "MATCH (n", "The output 'scans': ", "The output 'wrong': "]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n", "mode": "Nope"});
    let told = send("POST", QUERIES, &json!({"name": "adults", "pattern": pattern})).expect(400).json()["errors"].take();
    check(&told, &[".mode: Invalid value: Nope", "MATCH (n"]);
    // What a mode takes is not said to be wrong where none is named.
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN count(*) AS c", "mode": "Nope"});
    let told = send("POST", QUERIES, &json!({"name": "adults", "pattern": pattern})).expect(400).json()["errors"].take();
    check(&told, &[".mode: Invalid value: Nope"]);
    // One problem alone is told as ever.
    create(&weir, false);
    let adults = format!("{QUERIES}/adults");
    let told = send("PUT", &adults, &json!({"pattern": {"type": "Cypher"}})).expect(400).json()["errors"].take();
    check(&told, &["Invalid value for: body (DecodingFailure at .query: Missing required field"]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n"});
    let body = json!({"pattern": pattern, "outputs": [], "includeCancellations": "maybe"});
    let told = send("PUT", &adults, &body).expect(400).json()["errors"].take();
    check(&told, &[".outputs: outputs stay as they are", ".includeCancellations: ", "MATCH (n"]);
    // What a query that is there has no use for: a mistake, or a field that is misspelt.
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.age > 30 RETURN n.name AS name, n.age AS age"});
    let told = send("PUT", &adults, &json!({"pattern": pattern, "startFrom": "WholeGraph"})).expect(400).json()["errors"].take();
    check(&told, &[".startFrom: the query goes on"]);
    let replaced = send("PUT", &adults, &json!({"pattern": pattern, "includeCancelations": true})).expect(200).json();
    let warned = ".includeCancelations is no field that is known here, and has no effect";
    assert_eq!((&replaced["warnings"], &replaced["includeCancellations"]), (&json!([warned]), &json!(false)), "{replaced}");
    // An output that is added, and one that is changed.
    let told = send("POST", &format!("{adults}/outputs"), &to_nowhere).expect(400).json()["errors"].take();
    check(&told, &[".destinations[1]: type 'Nowhere'", "nobody"]);
    let nameless = json!({"resultEnrichment": unknown, "destinations": [{"type": "Drop"}]});
    let told = send("POST", &format!("{adults}/outputs"), &nameless).expect(400).json()["errors"].take();
    check(&told, &[".name: Missing required field", "nobody"]);
    let told = send("PUT", &format!("{adults}/outputs/wrong"), &to_nowhere).expect(400).json()["errors"].take();
    check(&told, &[".destinations[1]: type 'Nowhere'", "nobody"]);
    // What has no effect in them. A new one is answered without a body.
    let place = format!("{adults}/outputs");
    let (mut sound, mut odd) =
        (json!({"name": "sound", "destinations": [{"type": "Drop"}]}), json!({"name": "odd", "filtre": {}}));
    odd["destinations"] = json!([{"type": "Drop", "colour": 1}]);
    let added = send("POST", &place, &sound).expect(201);
    assert_eq!((added.header("warning"), added.body.is_empty()), (None, true));
    let added = send("POST", &place, &odd).expect(201);
    let header = added.header("warning").unwrap_or_default().to_owned();
    let expected =
        [".destinations[0].colour", ".filtre"].map(|path| format!("{path} is no field that is known here, and has no effect"));
    let both: Vec<String> = expected.iter().map(|text| format!("199 quine \"{text}\"")).collect();
    let mut told: Vec<&str> = header.split(", 199 ").map(|part| part.trim_start_matches("199 ")).collect();
    told.sort_unstable();
    assert_eq!(told, both.iter().map(|text| text.trim_start_matches("199 ")).collect::<Vec<_>>());
    let changed = send("PUT", &format!("{place}/odd"), &odd).expect(200);
    assert!(changed.header("warning").is_some_and(|header| header.contains(".filtre is no field")));
    let mut told: Vec<String> = serde_json::from_value(changed.json()["warnings"].take()).expect("texts");
    told.sort_unstable();
    assert_eq!(told, expected);
    sound["filter"] = json!({"type": "OnlyPositiveMatch"});
    let changed = send("PUT", &format!("{place}/sound"), &sound).expect(200);
    assert_eq!((changed.header("warning"), changed.json()["warnings"].take()), (None, json!([])));
    weir.stop();
}

/// What it still delivers then does not count: the log would be kept for it, and never cut again.
#[test]
fn the_log_is_not_kept_for_an_output_that_is_removed_while_it_delivers() {
    /// Commits: enough that an orderly end makes a checkpoint.
    const COMMITS: u32 = 520;
    const STORE: &str = "-Dweir.store.filepath=store";
    let home = Home::new();
    let weir = home.start(&[STORE]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(200, Duration::from_secs(2));
    create(&weir, false);
    let hook = json!({"type": "PostToEndpoint", "url": format!("http://{}/", endpoint.address()), "parallelism": 1});
    weir.post(&format!("{PLACE}/output/hook"), &hook).expect(201);
    set(&weir, "ann", 20);
    set(&weir, "bob", 20);
    wait_until("it is asked", RESULTS_MAX, || endpoint.received() > 0);
    weir.delete(&format!("{PLACE}/output/hook")).expect(200);
    // Each a result for the other output, which has it at once.
    (0..COMMITS).for_each(|k| set(&weir, "ann", 21 + k % 2));
    home.wait_lines("out.jsonl", 2 + COMMITS as usize);
    weir.stop();
    let checked = std::process::Command::new(weir_tests::service::binary())
        .current_dir(home.path())
        .args(["check", STORE])
        .output()
        .expect("weir runs");
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    let entries = told.split(" entr").next().and_then(|before| before.rsplit(' ').next()?.parse::<u32>().ok());
    assert!(entries.is_some_and(|entries| entries < COMMITS / 5), "{told}");
}

#[test]
fn what_a_destination_refuses_for_good_is_dealt_with_as_it_is_chosen() {
    let home = Home::new();
    let weir = home.start(&[]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(422, Duration::ZERO);
    let url = format!("http://{}/", endpoint.address());
    create(&weir, true);
    let letters = json!({"type": "DeadLetter", "destinations": [
        {"type": "File", "path": "dead.jsonl", "outputFormat": {"type": "JSON", "withInfoEnvelope": true}},
        {"type": "HttpEndpoint", "url": format!("http://{}/none", endpoint.address()), "headers": {"A": "hush"}, "outputFormat": {"type": "Bytes"}}]});
    let add = |name: &str, destination: Json| {
        let workflow = json!({"name": name, "destinations": [destination]});
        weir.post("/api/v2/graph/quine/standingQueries/adults/outputs", &workflow)
    };
    let to = |choice: Json| json!({"type": "HttpEndpoint", "url": url, "parallelism": 1, "onResultError": choice});
    for (wrong, named) in [
        (json!({"type": "Nope"}), "is not one of GiveUp, Fail, Retry, DeadLetter"),
        (json!({"type": "DeadLetter"}), "at least one destination is needed"),
        (json!({"type": "DeadLetter", "destinations": [{"type": "Slack", "hookUrl": "http://h/"}]}), "takes no dead letters"),
        (
            json!({"type": "DeadLetter", "destinations": [{"type": "File", "path": "x", "onResultError": {"type": "Fail"}}]}),
            "has no onResultError",
        ),
        (json!(5), "expecting object"),
    ] {
        assert!(add("wrong", to(wrong.clone())).expect(400).text().contains(named), "{wrong}");
    }
    add("letters", to(letters)).expect(201);
    let shown = weir.get("/api/v2/graph/quine/standingQueries/adults").expect(200).text();
    assert!(shown.contains("onResultError") && !shown.contains("hush"), "{shown}");
    add("fails", to(json!({"type": "Fail"}))).expect(201);
    add("usual", to(json!({"type": "GiveUp"}))).expect(201);
    set(&weir, "ann", 40);
    let dead = home.wait_lines("dead.jsonl", 1).remove(0);
    assert_eq!((&dead["standingQuery"], &dead["output"]), (&json!("adults"), &json!("letters")));
    assert_eq!((&dead["result"]["data"]["name"], &dead["isPositiveMatch"]), (&json!("ann"), &json!(true)), "{dead}");
    assert!(dead["message"].as_str().is_some_and(|why| why.contains("422")) && dead["resultId"].is_string(), "{dead}");
    assert!(dead["tick"].as_str().is_some_and(|tick| tick.parse::<u64>().is_ok()), "{dead}");
    // The other box refuses it: nothing is lost, the output ends and says so.
    wait_until("it has ended", RESULTS_MAX, || output(&weir, "letters")["state"] == "Failed");
    wait_until("as has the other", RESULTS_MAX, || output(&weir, "fails")["state"] == "Failed");
    for name in ["letters", "fails"] {
        let shown = output(&weir, name);
        assert!(shown["reason"].as_str().is_some_and(|why| why.contains("422")), "{shown}");
        assert_eq!((&shown["waiting"], &shown["delivered"], &shown["failed"]), (&json!(1), &json!(0), &json!(0)), "{shown}");
    }
    // Counted, and then no more waited for.
    wait_until("what is given up is counted", RESULTS_MAX, || {
        let usual = output(&weir, "usual");
        usual["failed"] == 1 && usual["waiting"] == 0
    });
    assert_eq!(output(&weir, "usual")["state"], "Running");
    // Another definition gets what is there.
    let target = "/api/v2/graph/quine/standingQueries/adults/outputs/letters";
    let better = to(json!({"type": "DeadLetter", "destinations": [{"type": "File", "path": "dead2.jsonl"}]}));
    change(&weir, target, &json!({"destinations": [better]})).expect(200);
    assert_eq!(home.wait_lines("dead2.jsonl", 1)[0]["data"]["name"], "ann");
    wait_until("it is counted", RESULTS_MAX, || output(&weir, "letters")["deadLetters"] == 1);
    let figures = weir.get("/metrics").expect(200).text();
    for line in [
        r#"weir_output_dead_letters_total{namespace="quine",query="adults",output="letters"} 1"#,
        r#"weir_output_ended{namespace="quine",query="adults",output="fails"} 1"#,
        r#"weir_output_waiting{namespace="quine",query="adults",output="fails"} 1"#,
    ] {
        assert!(figures.contains(line), "{line} is not in {figures}");
    }
    change(&weir, &format!("{PLACE}/output/fails"), &json!({"type": "WriteToFile", "path": "fails.jsonl"})).expect(200);
    assert_eq!(results(&home.wait_lines("fails.jsonl", 1)), [(true, json!("ann"))]);
    // It is shown, and read again.
    let shown = |weir: &Weir| {
        let v2 = weir.get("/api/v2/graph/quine/standingQueries/adults").expect(200).json()["outputs"].take();
        (v2, weir.get(PLACE).expect(200).json()["outputs"].take())
    };
    let before = shown(&weir);
    assert_eq!(before.1["letters"]["onResultError"]["destinations"][0]["type"], "WriteToFile", "{}", before.1);
    let warned = "output usual of standing query adults: 1 results were not delivered";
    wait_until("what was given up is told", RESULTS_MAX, || weir.log().contains(warned));
    weir.stop();
    let weir = home.start(&[]);
    assert_eq!(shown(&weir), before);
    let in_v2 = before.0.as_array().and_then(|all| all.iter().find(|workflow| workflow["name"] == "letters")).cloned();
    let boxes = in_v2.map(|workflow| workflow["destinations"][0]["onResultError"].clone()).expect("the output");
    let expected = json!({"type": "DeadLetter", "destinations": [{"type": "File", "path": "dead2.jsonl", "outputFormat": {"type": "JSON", "withInfoEnvelope": false}}]});
    assert_eq!(boxes, expected);
    weir.stop();
}

#[test]
fn refused_results_are_told_as_messages_of_protobuf() {
    let home = Home::new();
    home.write("letters.desc", include_bytes!("../../model/src/protobuf/vectors/letters.desc"));
    let weir = home.start(&[]);
    let endpoint = weir_tests::endpoint::Endpoint::start("/none");
    endpoint.answer_with(422, Duration::ZERO);
    create(&weir, true);
    // None that the system gives to a connection of another test.
    let ports = free_ports(4);
    let kinds = [("Refused", true, ports), ("RefusedText", true, ports + 1), ("Result", false, ports + 2)];
    let letters = |(name, envelope, port): (&str, bool, u16)| {
        json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": port, "outputFormat":
            {"type": "Protobuf", "schemaUrl": "letters.desc", "typeName": format!("letters.{name}"), "withInfoEnvelope": envelope}})
    };
    let add = |boxes: Json| {
        let choice = json!({"type": "DeadLetter", "destinations": boxes});
        let to = json!({"type": "HttpEndpoint", "url": format!("http://{}/", endpoint.address()), "onResultError": choice});
        weir.post("/api/v2/graph/quine/standingQueries/adults/outputs", &json!({"name": "letters", "destinations": [to]}))
    };
    for (name, expected) in [
        ("Absent", "outputFormat.typeName"),
        ("Wrong", "a dead letter does not fit letters.Wrong: field `message`"),
        ("Nothing", "letters.Nothing has none of the fields that are told: standingQuery, output, message"),
    ] {
        let refused = add(json!([letters((name, true, ports + 3))])).expect(400).text();
        assert!(refused.contains(expected), "{refused}");
    }
    add(kinds.into_iter().map(letters).collect()).expect(201);
    let whole = "n.name = $that.result.data.name, n.query = $that.standingQuery, n.positive = $that.isPositiveMatch, n.id = $that.resultId";
    let text = "n.name = parseJson($that.result).data.name";
    for ((name, _, port), set) in kinds.into_iter().zip([whole, text, "n.name = $that.data.name"]) {
        // Read back by a stream, as whoever gets them would.
        let source = json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port,
            "format": {"type": "Protobuf", "schemaUrl": "letters.desc", "typeName": name}});
        let query = format!("CREATE (n:{name} {{tick: $that.tick, message: $that.message}}) SET {set}");
        weir.post("/api/v2/graph/quine/ingests", &json!({"name": name, "source": source, "query": query})).expect(201);
    }
    // What comes before a stream is connected is not told there.
    let mut number = 0;
    wait_until("each kind of letter has come back", RESULTS_MAX, || {
        number += 1;
        set(&weir, &format!("p{number}"), 40);
        sleep(Duration::from_millis(20));
        kinds.iter().all(|(name, ..)| weir.rows(&format!("MATCH (n:{name}) RETURN count(n) > 0"))[0][0] == true)
    });
    let one = |query: &str| weir.rows(query).remove(0);
    let found = one("MATCH (n:Refused) RETURN n.name, n.query, n.positive, n.id, n.tick, n.message LIMIT 1");
    assert!(found[0].as_str().is_some_and(|name| name.starts_with('p')), "{found}");
    assert_eq!((&found[1], &found[2]), (&json!("adults"), &json!(true)));
    assert!(found[3].is_string() && found[4].as_u64() > Some(1 << 40), "{found}");
    assert!(found[5].as_str().is_some_and(|why| why.contains("422")), "{found}");
    let found = one("MATCH (n:RefusedText) RETURN n.name, n.tick LIMIT 1");
    assert!(found[0].is_string() && found[1].as_str().is_some_and(|tick| tick.parse::<u64>().is_ok()), "{found}");
    assert!(one("MATCH (n:Result) RETURN n.name LIMIT 1")[0].is_string());
    wait_until("the output goes on", RESULTS_MAX, || output(&weir, "letters")["state"] == "Running");
    weir.stop();
}

/// It held up whoever created or changed a standing query, and the next start, until somebody read.
#[test]
fn an_output_to_a_pipe_that_nobody_reads_holds_up_nobody() {
    use std::process::{Child, Command};

    let home = Home::new();
    assert!(Command::new("mkfifo").arg(home.file("pipe")).status().expect("mkfifo runs").success());
    let read_into = |name: &str| -> Child {
        let into = std::fs::File::create(home.file(name)).expect("a file");
        Command::new("cat").arg(home.file("pipe")).stdout(into).spawn().expect("cat runs")
    };
    let weir = home.start(&[]);
    let pattern =
        json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.name AS name"});
    let with_pipe = json!({"pattern": pattern, "outputs": {"pipe": {"type": "WriteToFile", "path": "pipe"}}});
    let refused = weir.post(PLACE, &with_pipe).expect(400).text();
    assert!(refused.contains("nobody reads this pipe"), "{refused}");
    let mut reader = read_into("first.jsonl");
    // It may not have come as far as the pipe.
    wait_until("the query is created", RESULTS_MAX, || weir.post(PLACE, &with_pipe).status == 201);
    set(&weir, "ann", 40);
    home.wait_lines("first.jsonl", 1);
    weir.stop();
    assert!(reader.wait().expect("it ends with the pipe").success());

    let weir = home.start(&[]);
    assert_eq!(output(&weir, "pipe")["state"], "Parked", "{}", output(&weir, "pipe"));
    set(&weir, "bob", 30);
    let mut reader = read_into("second.jsonl");
    let lines = home.wait_lines("second.jsonl", 1);
    assert_eq!(lines[0]["data"]["name"], "bob");
    assert_eq!(output(&weir, "pipe")["state"], "Running");
    weir.stop();
    assert!(reader.wait().expect("it ends with the pipe").success());
}
