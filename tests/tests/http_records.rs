//! Records over HTTP, with the real binary: those that clients hand in, and those that weir asks for, across kills.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::polled::Polled;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{COUNT, RESUME, STREAMS, counted, message, refused, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

const JSON: (&str, &str) = ("Content-Type", "application/json");
const LINES: (&str, &str) = ("Content-Type", "application/x-ndjson");

fn items(ids: std::ops::Range<u64>) -> String {
    Json::from_iter(ids.map(|id| json!({"id": id}))).to_string()
}

fn push_stream(weir: &Weir, name: &str, more: Json) {
    let definition = with(json!({"type": "HttpPushIngest", "format": {"type": "CypherJson", "query": COUNT}}), more);
    weir.post(&format!("/api/v1/ingest/{name}"), &definition).expect(200);
}

#[test]
fn records_are_cut_as_their_content_type_says_in_every_family() {
    let weir = Home::new().start(&[]);
    push_stream(&weir, "in", json!({}));
    let v1 = "/api/v1/ingest/in/records";
    let all = [v1, "/api/v2/ingests/in/records", "/api/v2/graph/quine/ingests/in/records"];
    let taken = |records: u64| json!({"records": records, "repeated": false});
    let expected = [taken(2), json!({"content": taken(2), "warnings": []}), taken(2)];
    for (path, expected) in all.iter().zip(expected) {
        let body = items(0..2);
        let answer = weir.send("POST", path, &[JSON], body.as_bytes()).expect(200).json();
        assert_eq!(answer, expected, "{path}");
    }
    assert_eq!(counted(&weir), (2, 3));
    let say = |headers: &[(&str, &str)], body: &[u8]| weir.send("POST", v1, headers, body);
    assert_eq!(say(&[LINES], b"{\"id\": 10}\n\n{\"id\": 11}\r\nnonsense\n").expect(200).json(), taken(3));
    assert_eq!(say(&[("Content-Type", "text/plain; charset=utf-8")], b"{\"id\": 12}").expect(200).json(), taken(1));
    assert_eq!(say(&[("Content-Type", "application/octet-stream")], b"{\"id\":\n13}").expect(200).json(), taken(1));
    assert_eq!(say(&[JSON], b"{\"id\":\n14}").expect(200).json(), taken(1));
    assert_eq!(say(&[JSON], b"[]").expect(200).json(), taken(0));
    assert_eq!(say(&[], b"").expect(200).json(), taken(0));
    // zlib of `{"id": 15}`, as Python makes it.
    let zlib = b"\x78\x9c\xab\x56\xca\x4c\x51\xb2\x52\x30\x34\xad\x05\x00\x0f\xf6\x02\xca";
    let answer = say(&[JSON, ("Content-Encoding", "deflate")], zlib);
    assert_eq!(answer.expect(200).json(), taken(1));
    // What was answered can be read.
    assert_eq!(counted(&weir).0, 8);
    assert_eq!(weir.get("/api/v1/ingest/in").expect(200).json()["failedRecords"]["count"], 1);

    assert!(say(&[JSON], b"[1,").expect(400).text().contains("is not closed"));
    assert!(say(&[JSON, ("Content-Encoding", "gzip")], b"no").expect(400).text().contains("the body is not gzip"));
    let told = say(&[JSON, ("Content-Encoding", "gzip, identity, deflate")], b"no").expect(400).text();
    assert!(told.contains("the body is not deflate"), "{told}");
    // Several lines are one list: what was done last is undone first.
    let lines = |first, last| say(&[JSON, ("Content-Encoding", first), ("Content-Encoding", last)], zlib);
    assert_eq!(lines("deflate", "identity").expect(200).json(), taken(1));
    let told = lines("deflate", "gzip").expect(400).text();
    assert!(told.contains("the body is not gzip"), "{told}");
    assert!(lines("deflate", "br").expect(415).text().starts_with("The request's Content-Encoding [deflate, br]"));
    let refused = say(&[JSON, ("Content-Encoding", "br")], b"no").expect(415).text();
    assert!(refused.starts_with("The request's Content-Encoding [br] is not supported"), "{refused}");
    assert!(refused.contains("none, or gzip, x-gzip, deflate, zstd, identity"), "{refused}");
    say(&[("Content-Type", "image/png")], b"no").expect(415);
    assert!(say(&[JSON, ("Idempotency-Key", "")], b"[]").expect(400).text().contains("idempotency-key"));
    weir.send("POST", "/api/v1/ingest/absent/records", &[JSON], b"[]").expect(404);
    weir.post("/api/v1/ingest/other", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
    assert!(
        weir.send("POST", "/api/v1/ingest/other/records", &[JSON], b"[]")
            .expect(400)
            .text()
            .contains("takes no records over HTTP")
    );
    weir.stop();
}

#[test]
fn what_was_answered_is_there_after_a_kill_and_a_key_has_its_effect_once() {
    const CLIENTS: u64 = 4;
    const REQUESTS: u64 = 150;
    const RECORDS: u64 = 25;
    let home = Home::new();
    let mut weir = home.start(RESUME);
    // Requests of this stream are handed on in parts, so that a kill finds some of them half done.
    push_stream(&weir, "in", json!({"maximumPerSecond": 4000}));
    let address = Arc::new(Mutex::new(weir.address()));
    let answered = Arc::new(AtomicU64::new(0));
    let repeated = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (address, answered, repeated, over) = (address.clone(), answered.clone(), repeated.clone(), over.clone());
            thread::spawn(move || {
                for request in 0..REQUESTS {
                    let first = (client * REQUESTS + request) * RECORDS;
                    let (key, body) = (format!("{client}-{request}"), items(first..first + RECORDS));
                    loop {
                        assert!(!over.load(Ordering::Relaxed), "the request {key} was never answered");
                        let to: SocketAddr = *address.lock().unwrap();
                        let headers = [JSON, ("Idempotency-Key", key.as_str())];
                        let answer = client::send(to, "POST", "/api/v1/ingest/in/records", &headers, body.as_bytes());
                        if let Some(answer) = answer.ok().filter(|answer| answer.status == 200) {
                            repeated.fetch_add(u64::from(answer.json()["repeated"] == true), Ordering::Relaxed);
                            answered.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            })
        })
        .collect();
    for round in 1..=4 {
        let begun = Instant::now();
        let part = CLIENTS * REQUESTS * round / 5;
        while answered.load(Ordering::Relaxed) < part {
            assert!(begun.elapsed() < PATIENCE, "{} requests were answered", answered.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(1));
        }
        weir.kill();
        weir = home.start(RESUME);
        *address.lock().unwrap() = weir.address();
    }
    let begun = Instant::now();
    while clients.iter().any(|client| !client.is_finished()) && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
    }
    over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("all requests are answered"));
    assert_eq!(counted(&weir), (CLIENTS * REQUESTS * RECORDS, 1));
    eprintln!("{} requests, {} of them had had their effect before", CLIENTS * REQUESTS, repeated.load(Ordering::Relaxed));
    // Once more, long after.
    let answer = weir.send("POST", "/api/v1/ingest/in/records", &[JSON, ("Idempotency-Key", "3-149")], items(0..5).as_bytes());
    assert_eq!(answer.expect(200).json(), json!({"records": 5, "repeated": true}));
    assert_eq!(counted(&weir), (CLIENTS * REQUESTS * RECORDS, 1));
    weir.stop();
}

#[test]
fn a_graph_that_is_behind_says_so_and_so_does_a_stream_that_is_paused() {
    let weir = Home::new().start(&[]);
    let source = json!({"type": "HttpPush", "format": {"type": "Json"}, "keysRemembered": 5, "recordDecoders": []});
    let body = json!({"name": "slow", "source": source, "query": COUNT, "maxPerSecond": 20});
    let created = weir.post(STREAMS, &body).expect(201).json();
    assert_eq!(created["settings"]["source"], source);
    let address = weir.address();
    let path = format!("{STREAMS}/slow/records");
    // Two of them fill the room, and each takes five seconds.
    let large: String = (0..100).map(|id| format!("{}\n", json!({"id": id, "filling": "x".repeat(30_000)}))).collect();
    let push = |path: String, body: String| {
        thread::spawn(move || client::send(address, "POST", &path, &[LINES], body.as_bytes()).expect("an answer"))
    };
    let begun = Instant::now();
    let pushes: Vec<_> = (0..5).map(|_| push(path.clone(), large.clone())).collect();
    let answers: Vec<_> = pushes.into_iter().map(|push| push.join().expect("it ends")).collect();
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    answers.iter().for_each(|answer| *by_status.entry(answer.status).or_default() += 1);
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert!(!refused.is_empty() && by_status[&200] >= 2 && by_status.len() == 2, "{by_status:?} after {:?}", begun.elapsed());
    assert!(
        refused.iter().all(|answer| answer.header("retry-after") == Some("1") && answer.text().contains("the graph is behind"))
    );
    // What was refused was not taken.
    wait_until("all is counted", PATIENCE, || counted(&weir).0 == 100);
    assert_eq!(counted(&weir), (100, by_status[&200] as u64));

    weir.send("POST", &format!("{STREAMS}/slow:pause"), &[], b"").expect(200);
    let paused = weir.send("POST", &path, &[LINES], b"{\"id\": 1}").expect(503);
    assert!(paused.text().contains("is paused") && paused.header("retry-after") == Some("5"), "{}", paused.shown());
    weir.send("POST", &format!("{STREAMS}/slow:resume"), &[], b"").expect(200);
    weir.send("POST", &path, &[LINES], b"{\"id\": 100}").expect(200);
    assert_eq!(counted(&weir).0, 101);
    // Whoever waits when the stream is deleted is told at once. All of it would take most of a minute: it is not over when a busy
    // machine comes to look.
    let waiting = push(path.clone(), (0..1_000).map(|id| format!("{}\n", json!({"id": id}))).collect());
    wait_until("some of it is taken", PATIENCE, || counted(&weir).1 > by_status[&200] as u64);
    weir.delete(&format!("{STREAMS}/slow")).expect(200);
    let begun = Instant::now();
    let answer = waiting.join().expect("it ends");
    assert!(answer.status == 503 && answer.text().contains("was stopped before"), "{}", answer.shown());
    assert!(begun.elapsed() < Duration::from_secs(5));
    weir.stop();
}

#[test]
fn a_stream_that_is_paused_answers_those_whose_records_are_durable() {
    let home = Home::new();
    let weir = home.start(&[]);
    push_stream(&weir, "in", json!({"format": {"type": "CypherJson", "query": format!("CALL util.sleep(3000) {COUNT}")}}));
    let path = "/api/v1/ingest/in/records";
    let waiting = client::open(weir.address(), "POST", path, &[JSON], b"{\"id\": 1}").expect("weir listens");
    // From when it was sent. The record takes effect while the stream is about to pause, and is durable a little later.
    thread::sleep(Duration::from_millis(1500));
    weir.put("/api/v1/ingest/in/pause").expect(200);
    let begun = Instant::now();
    let answer = client::read(waiting, false).expect("an answer").expect(200);
    assert_eq!(answer.json(), json!({"records": 1, "repeated": false}));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(weir.get("/api/v1/ingest/in").expect(200).json()["status"], "Paused");
    assert_eq!(counted(&weir), (1, 1));
    weir.stop();
}

fn poll(weir: &Weir, name: &str, url: &str, more: Json) {
    let source = with(json!({"type": "HttpPoll", "url": url, "interval": "1s", "format": {"type": "Json"}}), more);
    weir.post(STREAMS, &json!({"name": name, "source": source, "query": COUNT, "maxPerSecond": 1000})).expect(201);
}

#[test]
fn pages_are_asked_for_one_behind_the_other_and_each_record_has_its_effect_once() {
    let server = Polled::start(5_000);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    poll(
        &weir,
        "pages",
        &server.url("/pages?size=all"),
        json!({"recordsAt": "/data/items", "cursorAt": "/next", "cursorParameter": "after",
        "headers": {"X-Key": "geheim"}}),
    );
    let shown = weir.get(&format!("{STREAMS}/pages")).expect(200).text();
    assert!(shown.contains("Secret(****)") && !shown.contains("geheim"), "{shown}");
    for round in 1..=3 {
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > round * 1_100);
        weir.kill();
        server.wrong.store(3, Ordering::Relaxed);
        weir = home.start(RESUME);
    }
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 5_000);
    server.count.store(5_010, Ordering::Relaxed);
    wait_until("new ones are read", PATIENCE, || counted(&weir).0 == 5_010);
    assert_eq!(counted(&weir), (5_010, 1));
    let asked = server.asked();
    assert_eq!(asked[0], "/pages?size=all  geheim");
    assert!(asked.iter().any(|asked| asked == "/pages?size=all&after=5000  geheim"), "{asked:?}");
    weir.stop();
}

#[test]
fn an_answer_that_is_what_it_was_brings_nothing() {
    let server = Polled::start(10);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    poll(&weir, "all", &server.url("/all"), json!({}));
    poll(&weir, "lines", &server.url("/lines"), json!({}));
    wait_until("both are read", PATIENCE, || counted(&weir) == (10, 2));
    server.asked();
    let mut asked = Vec::new();
    wait_until("both are asked again", PATIENCE, || {
        asked.extend(server.asked());
        asked.contains(&"/all \"10\"".to_owned()) && asked.contains(&"/lines".to_owned())
    });
    // A restart knows what it had.
    weir.kill();
    weir = home.start(RESUME);
    server.asked();
    let mut asked = Vec::new();
    wait_until("both are asked once more", PATIENCE, || {
        asked.extend(server.asked());
        asked.contains(&"/all \"10\"".to_owned()) && asked.contains(&"/lines".to_owned())
    });
    assert!(!asked.contains(&"/all".to_owned()), "{asked:?}");
    assert_eq!(counted(&weir), (10, 2));
    server.count.store(11, Ordering::Relaxed);
    wait_until("both have another answer", PATIENCE, || counted(&weir) == (11, 4));
    // One that is wrong is not the end, and is said.
    weir.delete(&format!("{STREAMS}/lines")).expect(200);
    // By turns until each was seen: a message is there no longer than until the next.
    server.wrong.store(3_000, Ordering::Relaxed);
    let mut said = Vec::new();
    wait_until("each kind of wrong answer is told", PATIENCE, || {
        said.push(message(&weir, "all"));
        ["503", "is no JSON", "end of file"].iter().all(|word| said.iter().any(|said| said.contains(word)))
    });
    server.wrong.store(0, Ordering::Relaxed);
    server.count.store(12, Ordering::Relaxed);
    wait_until("it goes on", PATIENCE, || counted(&weir) == (12, 5));
    // One that weir cannot read, now or later, is the end.
    poll(&weir, "brotli", &server.url("/brotli"), json!({}));
    let failed = weir.wait_ingest("brotli", "Failed", PATIENCE);
    let told = failed["message"].as_str().unwrap_or_default();
    assert!(told.contains("the Content-Encoding 'br'") && told.contains("Accept-Encoding"), "{failed}");
    let refused = |more: Json, problem: &str| {
        let source = json!({"type": "HttpPoll", "url": server.url("/all"), "format": {"type": "Json"}});
        refused(&weir, &with(source, more), problem);
    };
    refused(json!({"recordsAt": "items"}), "is no JSON Pointer");
    refused(json!({"url": "ftp://x"}), "must begin with http");
    refused(json!({"headers": {"a b": "c"}}), "is no name of an HTTP header");
    refused(json!({"interval": "0s"}), "interval");
    weir.stop();
}
