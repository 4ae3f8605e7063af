//! What becomes of ingest streams while outputs hold them back, while what they need is away, when too many of their records
//! fail, and of what is known of them when weir starts again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::endpoint::Endpoint;
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::streams::{COUNT, RESUME, STREAMS, counted, message, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(180);

const QUERIES: &str = "/api/v2/graph/quine/standingQueries";

fn stream(weir: &Weir, name: &str) -> Json {
    weir.get(&format!("{STREAMS}/{name}")).expect(200).json()
}

/// Numbers become nodes, each of which is a result.
fn numbers(name: &str, limit: u64) -> Json {
    json!({"name": name, "source": {"type": "NumberIterator", "limit": limit},
        "query": "MATCH (n) WHERE id(n) = idFrom('number', $that) SET n:Number"})
}

/// How long it may take to pause, to go on and to end, whatever is under way.
const QUICK: Duration = Duration::from_secs(6);

/// `again` brings it back to where it was before.
fn quickly(what: &str, mut again: impl FnMut(), mut act: impl FnMut()) {
    let mut is_first = true;
    takes_at_most(what, QUICK, || {
        if !std::mem::take(&mut is_first) {
            again();
        }
        let begun = Instant::now();
        act();
        begun.elapsed()
    });
}

#[test]
fn streams_that_outputs_hold_back_say_so_end_at_once_and_go_on_after_a_restart() {
    let endpoint = Endpoint::start("/never");
    endpoint.answer_with(503, Duration::ZERO);
    let home = Home::new();
    let weir = home.start(RESUME);
    let to =
        json!({"type": "HttpEndpoint", "url": format!("http://{}/", endpoint.address()), "onResultError": {"type": "Retry"}});
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
    let query = json!({"name": "held", "pattern": pattern, "outputs": [{"name": "out", "destinations": [to]}]});
    weir.post(QUERIES, &query).expect(201);
    for name in ["in", "other"] {
        weir.post(STREAMS, &numbers(name, 500_000)).expect(201);
    }
    let is_held = |weir: &Weir, name: &str| message(weir, name).contains("`holdsIngest` in its status says which");
    for name in ["in", "other"] {
        wait_until(&format!("{name} says what it waits for"), PATIENCE, || is_held(&weir, name));
    }
    let tell = |what: &str| drop(weir.post(&format!("{STREAMS}/in:{what}"), &json!({})).expect(200));
    quickly("a pause", || tell("resume"), || tell("pause"));
    assert_eq!(stream(&weir, "in")["status"], "PAUSED");
    quickly("going on", || tell("pause"), || tell("resume"));
    let begin_again = || {
        weir.post(STREAMS, &numbers("other", 500_000)).expect(201);
        wait_until("it says again what it waits for", PATIENCE, || is_held(&weir, "other"));
    };
    quickly("an end", begin_again, || drop(weir.delete(&format!("{STREAMS}/other")).expect(200)));
    assert_eq!(stream(&weir, "in")["status"], "RUNNING");
    weir.stop();

    let weir = home.start(RESUME);
    wait_until("it waits again", PATIENCE, || is_held(&weir, "in"));
    assert_eq!(stream(&weir, "in")["status"], "RUNNING");
    weir.delete(&format!("{QUERIES}/held")).expect(200);
    let ended = weir.wait_ingest("in", "Completed", PATIENCE * 2);
    assert_eq!(ended["stats"]["ingestedCount"], 500_000, "{ended}");
    assert_eq!(weir.rows("MATCH (n:Number) RETURN count(n)")[0][0], 500_000);
    weir.stop();
}

/// Its records are slow from the first on, or only once there are many in a batch.
#[test]
fn a_stream_whose_query_is_slow_pauses_and_ends_soon() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let slow = "CALL util.sleep(CASE WHEN $that < 20000 THEN 0 ELSE 500 END) MATCH (n) WHERE id(n) = idFrom('number', $that) SET n:Number";
    for (name, start) in [("slow", 20_000), ("slows", 0)] {
        let source = json!({"type": "NumberIterator", "startOffset": start});
        let read = || stream(&weir, name)["stats"]["ingestedCount"].as_u64().unwrap_or_default();
        let begin = || {
            weir.post(STREAMS, &json!({"name": name, "source": source, "query": slow})).expect(201);
            wait_until("something is read", PATIENCE, || read() >= if start == 0 { 19_000 } else { 1 });
            thread::sleep(Duration::from_secs(3));
        };
        let tell = |what: &str| drop(weir.post(&format!("{STREAMS}/{name}:{what}"), &json!({})).expect(200));
        let go_on = || {
            tell("resume");
            thread::sleep(Duration::from_secs(3));
        };
        begin();
        quickly("a pause", go_on, || tell("pause"));
        let paused = read();
        thread::sleep(Duration::from_secs(2));
        assert_eq!(read(), paused, "nothing takes effect in a pause");
        tell("resume");
        if start > 0 {
            wait_until("it goes on", PATIENCE, || read() > paused);
        }
        quickly("an end", begin, || drop(weir.delete(&format!("{STREAMS}/{name}")).expect(200)));
    }
    let numbers = weir.rows("MATCH (n:Number) RETURN count(n)");
    assert!(numbers[0][0].as_u64() >= Some(19_000), "{numbers:?}");
    let begun = Instant::now();
    weir.stop();
    assert!(begun.elapsed() < QUICK, "weir's end took {:?}", begun.elapsed());
}

#[test]
fn a_stream_ends_when_too_many_records_fail_and_goes_on_before_them() {
    let home = Home::new();
    let line = |id: u64| if (40..60).contains(&id) { "nonsense\n".to_owned() } else { format!("{{\"id\": {id}}}\n") };
    home.write("in.jsonl", (0..100).map(line).collect::<String>());
    home.write("one.jsonl", (0..41).map(line).collect::<String>());
    let weir = home.start(&[]);
    let source = json!({"type": "File", "path": "in.jsonl", "format": {"type": "JsonL"}});
    let one = json!({"source": {"type": "File", "path": "one.jsonl", "format": {"type": "JsonL"}}});
    let body = |name: &str, limit: Json, query: &str| json!({"name": name, "source": source, "query": query, "onRecordError": {"stopAfter": limit}});
    let few = json!({"records": 0, "within": "10m"});
    let created = weir.post(STREAMS, &with(body("few", few.clone(), COUNT), one)).expect(201).json();
    assert_eq!(created["settings"]["onRecordError"]["stopAfter"], few);
    let told = "1 records failed within 10m, more than the 0 of onRecordError.stopAfter; the last: record 40: ";
    for _ in 0..2 {
        let ended = weir.wait_ingest("few", "Failed", PATIENCE);
        assert!(ended["message"].as_str().is_some_and(|message| message.starts_with(told)), "{ended}");
        // What ended it is told. Begun again it meets the same, which is counted once.
        assert_eq!(ended["failedRecords"]["count"], 1, "{ended}");
        weir.post(&format!("{STREAMS}/few:resume"), &json!({})).expect(200);
    }
    weir.wait_ingest("few", "Failed", PATIENCE);
    weir.post(STREAMS, &body("enough", json!({"records": 20}), COUNT)).expect(201);
    weir.wait_ingest("enough", "Completed", PATIENCE);
    assert_eq!(stream(&weir, "enough")["failedRecords"]["count"], 20);

    // Those whose query fails are before its position by then.
    let failing = "MATCH (n) WHERE id(n) = idFrom('q', $that.id) SET n.x = 1 / ($that.id - 7)";
    let file = json!({"type": "File", "path": "some.jsonl", "format": {"type": "JsonL"}});
    home.write("some.jsonl", (0..20).map(line).collect::<String>());
    weir.post(STREAMS, &with(body("query", json!({"records": 0}), failing), json!({"source": file}))).expect(201);
    let ended = weir.wait_ingest("query", "Failed", PATIENCE);
    assert!(
        ended["message"]
            .as_str()
            .is_some_and(|message| message.starts_with("1 records failed since the stream was started, more than the 0 of")),
        "{ended}"
    );
    weir.post(&format!("{STREAMS}/query:resume"), &json!({})).expect(200);
    weir.wait_ingest("query", "Completed", PATIENCE);
    for wrong in [json!({}), json!({"records": -1}), json!({"records": 1, "within": "soon"})] {
        assert!(weir.post(STREAMS, &body("wrong", wrong, COUNT)).expect(400).text().contains(".onRecordError.stopAfter."));
    }
    weir.stop();
}

#[test]
fn what_a_stream_has_read_is_known_after_a_restart() {
    let home = Home::new();
    home.write("in.jsonl", "{\"id\": 1}\nnonsense\n{\"id\": 2}\n");
    let weir = home.start(RESUME);
    let source = json!({"type": "File", "path": "in.jsonl", "format": {"type": "JsonL"}});
    weir.post(STREAMS, &json!({"name": "done", "source": source, "query": COUNT})).expect(201);
    let push = json!({"type": "HttpPush", "format": {"type": "Json"}});
    weir.post(STREAMS, &json!({"name": "push", "source": push, "query": COUNT})).expect(201);
    let say = |weir: &Weir, body: &[u8]| {
        drop(weir.send("POST", &format!("{STREAMS}/push/records"), &[("Content-Type", "application/x-ndjson")], body).expect(200))
    };
    say(&weir, b"{\"id\": 10}\nrubbish\n");
    weir.wait_ingest("done", "Completed", PATIENCE);
    let known = |weir: &Weir, name: &str| {
        let shown = stream(weir, name);
        json!([
            shown["status"],
            shown["stats"]["ingestedCount"],
            shown["stats"]["byteRates"]["count"],
            shown["stats"]["startTime"],
            shown["failedRecords"]
        ])
    };
    let before = ["done", "push"].map(|name| known(&weir, name));
    assert_eq!((&before[0][1], &before[0][4]["first"][0]["sample"]), (&json!(3), &json!("nonsense")), "{before:?}");
    weir.stop();
    let weir = home.start(RESUME);
    assert_eq!(["done", "push"].map(|name| known(&weir, name)), before);
    say(&weir, b"{\"id\": 11}\nrubbish\n");
    assert_eq!(
        (&stream(&weir, "push")["stats"]["ingestedCount"], &stream(&weir, "push")["failedRecords"]["count"]),
        (&json!(4), &json!(2))
    );
    // What came before it is no news of this one.
    let state = || weir.get("/live/state").expect(200).json();
    let total = || state()["history"].as_array().and_then(|rates| rates.last()?["totalRecords"].as_u64());
    wait_until("the live page counts since the start", PATIENCE, || total() == Some(2));
    weir.stop();
}

/// Serves a schema of Avro until it is told to stop, at this address again when it is begun again.
struct Schemas {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: thread::JoinHandle<()>,
}

impl Schemas {
    fn start(port: u16) -> Schemas {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        let serving = thread::spawn(move || {
            let text = r#"{"type": "record", "name": "p", "fields": [{"name": "id", "type": "long"}]}"#;
            while !stopped.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let _ = stream.set_nonblocking(false).and_then(|()| stream.read(&mut [0; 4096]));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
                let _ = stream.write_all((head + text).as_bytes());
            }
        });
        Schemas { address, stop, serving }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.serving.join().expect("the server ends");
    }
}

/// Each output waited for half a minute, one after another, and nothing was read until then.
#[test]
fn a_schema_server_that_stays_silent_holds_up_neither_a_start_nor_an_end() {
    let schemas = Schemas::start(free_ports(1));
    let (address, served) = (schemas.address, free_ports(2));
    let format = |name: &str| json!({"type": "Avro", "schemaUrl": format!("http://{address}/{name}.avsc")});
    let home = Home::new();
    let weir = home.start(RESUME);
    let push = json!({"type": "HttpPush", "format": format("in")});
    weir.post(STREAMS, &json!({"name": "in", "source": push, "query": format!("{COUNT}, n:Read")})).expect(201);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Read) RETURN DISTINCT id(n) AS id"});
    let output = |name: &str, port: u16| {
        let to = json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": port, "format": format(name)});
        let enrichment = json!({"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.id AS id"});
        json!({"name": name, "resultEnrichment": enrichment, "destinations": [to]})
    };
    let outputs = [output("a", served), output("b", served + 1)];
    weir.post(QUERIES, &json!({"name": "q", "pattern": pattern, "outputs": outputs})).expect(201);
    weir.stop();
    schemas.stop();

    // What connects waits in its queue.
    let silent = TcpListener::bind(address).expect("its port");
    let begun = Instant::now();
    let weir = home.start(RESUME);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let outputs = weir.get("/api/v1/query/standing/q").expect(200).json()["stats"]["local"]["outputs"].take();
    assert_eq!([&outputs["a"]["state"], &outputs["b"]["state"]], ["Parked"; 2], "{outputs}");
    let begun = Instant::now();
    weir.delete(&format!("{STREAMS}/in")).expect(200);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    weir.stop();
    drop(silent);
}

#[test]
fn schemas_that_are_away_at_the_start_are_waited_for() {
    let schemas = Schemas::start(free_ports(1));
    let (port, served) = (schemas.address.port(), free_ports(1));
    let avro = json!({"type": "Avro", "schemaUrl": format!("http://{}/p.avsc", schemas.address)});
    let home = Home::new();
    let weir = home.start(RESUME);
    let push = json!({"type": "HttpPush", "format": avro});
    weir.post(STREAMS, &json!({"name": "in", "source": push, "query": format!("{COUNT}, n:Read")})).expect(201);
    let out = json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": served, "format": avro});
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Read) RETURN DISTINCT id(n) AS id"});
    let output = json!({"name": "out", "resultEnrichment": {"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.id AS id"}, "destinations": [out]});
    weir.post(QUERIES, &json!({"name": "q", "pattern": pattern, "outputs": [output]})).expect(201);
    weir.stop();
    schemas.stop();

    let weir = home.start(RESUME);
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "in").contains("p.avsc"));
    assert_eq!(stream(&weir, "in")["status"], "RUNNING");
    let state = |weir: &Weir| weir.get("/api/v1/query/standing/q").expect(200).json()["stats"]["local"]["outputs"]["out"].take();
    let parked = state(&weir);
    assert_eq!(parked["state"], "Parked", "{parked}");
    let schemas = Schemas::start(port);
    wait_until("the stream reads, and the output is open", PATIENCE, || {
        message(&weir, "in").is_empty() && state(&weir)["state"] == "Running"
    });
    // 7, as Avro writes it.
    weir.send("POST", &format!("{STREAMS}/in/records"), &[("Content-Type", "application/octet-stream")], &[14]).expect(200);
    assert_eq!(counted(&weir), (1, 1));
    weir.stop();
    schemas.stop();
}

/// One of two was told that there is more, and waited for that in a read: it could not be ended, and neither could weir.
#[test]
fn standard_input_is_read_by_one_stream_at_a_time() {
    let home = Home::new();
    let (input, mut lines) = std::io::pipe().expect("a pipe");
    let weir = home.start_reading(input, &[]);
    let definition = json!({"type": "StandardInputIngest", "format": {"type": "CypherJson", "query": COUNT}});
    weir.post("/api/v1/ingest/first", &definition).expect(200);
    lines.write_all(b"{\"id\": 1}\n").expect("weir reads");
    wait_until("it is read", PATIENCE, || counted(&weir) == (1, 1));
    let refused = weir.post("/api/v1/ingest/second", &definition).expect(400).text();
    assert!(refused.contains("the ingest stream `first` reads it"), "{refused}");

    weir.delete("/api/v1/ingest/first").expect(200);
    weir.post("/api/v1/ingest/second", &definition).expect(200);
    lines.write_all(b"{\"id\": 2}\n").expect("weir reads on");
    wait_until("it is read by the other", PATIENCE, || counted(&weir) == (2, 1));
    weir.stop();
    drop(lines);
}
