//! Sources and destinations of the network other than Kafka, with the real binary and servers in this process: what is read
//! and how often, in both notations, across broken connections and kills.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use weir_tests::aws::Amazon;
use weir_tests::endpoint::Endpoint;
use weir_tests::feeds::{Events, web_sockets};
use weir_tests::kafka::free_ports;
use weir_tests::server::Server;
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::socket::Socket;
use weir_tests::streams::{COUNT, RESUME, STREAMS, counted, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

fn stream(weir: &Weir, name: &str) -> Json {
    weir.get(&format!("{STREAMS}/{name}")).expect(200).json()
}

/// They were among those taken in, and nobody was told that they changed nothing.
#[test]
fn records_whose_anchor_is_null_are_counted_and_told_of() {
    let home = Home::new();
    let weir = home.start(&[]);
    let even = "idFrom('even', CASE WHEN toInteger($that) % 2 = 0 THEN toInteger($that) END)";
    let query = format!("MATCH (n) WHERE id(n) = {even} SET n.x = 1");
    let format = json!({"type": "CypherLine", "query": query});
    let numbers = json!({"type": "NumberIteratorIngest", "ingestLimit": 10, "format": format});
    weir.post("/api/v1/ingest/even", &numbers).expect(200);
    weir.wait_ingest("even", "Completed", PATIENCE);
    let counts = |weir: &Weir, stream: &str| {
        let stats = weir.get(stream).expect(200).json()["stats"].clone();
        (stats["ingestedCount"].clone(), stats["withoutAnchor"].clone())
    };
    assert_eq!(counts(&weir, "/api/v1/ingest/even"), (json!(10), json!(5)));
    assert_eq!(counts(&weir, &format!("{STREAMS}/even")), (json!(10), json!(5)));
    assert_eq!(weir.rows("MATCH (n) WHERE n.x = 1 RETURN count(n)"), [json!([5])]);
    let log = weir.log();
    let told = log.lines().filter(|line| line.contains("`idFrom(\"even\", ") && line.contains("null, or no id")).count();
    assert_eq!(told, 1, "{log}");
    weir.stop();
    assert_eq!(counts(&home.start(&[]), "/api/v1/ingest/even").1, json!(5));
}

#[test]
fn server_sent_events_are_read_once_across_cuts_and_kills() {
    let events = Events::start(3_000, 700);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let format = json!({"type": "CypherJson", "query": COUNT});
    let definition = json!({"type": "ServerSentEventsIngest", "url": events.url(), "format": format});
    weir.post("/api/v1/ingest/events", &definition).expect(200);
    // Not so many more than a moment ago: on a busy machine all may be read before that is looked at.
    for least in [300, 900] {
        wait_until("some more events are read", PATIENCE, || counted(&weir).0 > least);
        weir.kill();
        weir = home.start(RESUME);
    }
    weir.wait_ingest("events", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (3_000, 1));
    assert!(events.connections.load(Ordering::Relaxed) >= 5);
    let shown = stream(&weir, "events");
    let source = json!({"type": "ServerSentEvent", "format": {"type": "Json"}, "url": events.url(), "recordDecoders": []});
    assert_eq!((&shown["settings"]["source"], &shown["settings"]["query"]), (&source, &json!(COUNT)));
    // In v2: the format of a record alone, the query beside the source.
    let body = json!({"name": "again", "source": {"type": "ServerSentEvent", "url": events.url(), "format": {"type": "Json"},
        "recordDecoders": ["BASE64"]}, "query": COUNT, "maxPerSecond": 1000});
    weir.post(STREAMS, &body).expect(201);
    wait_until("what is not base64 is kept aside", PATIENCE, || {
        stream(&weir, "again")["failedRecords"]["count"].as_u64() > Some(10)
    });
    let shown = stream(&weir, "again");
    assert_eq!(
        (&shown["settings"]["maxPerSecond"], &shown["settings"]["source"]["recordDecoders"]),
        (&json!(1000), &json!(["BASE64"]))
    );
    assert!(shown["failedRecords"]["first"][0]["reason"].as_str().is_some_and(|reason| reason.contains("not base64")), "{shown}");
    weir.stop();
}

#[test]
fn a_web_socket_is_read_again_after_it_broke_and_to_its_end() {
    let (address, serving) = web_sockets(vec![
        Box::new(|socket| {
            assert_eq!(socket.read().expect("the init message"), Message::text("{\"subscribe\":\"all\"}"));
            (0..500).for_each(|id| socket.send(Message::text(json!({"id": id}).to_string())).expect("weir listens"));
            // It breaks without a word, and behind what was said: were a sign of life left unread, all of it would be torn down.
            let _ = socket.get_ref().shutdown(std::net::Shutdown::Write);
            while socket.read().is_ok() {}
        }),
        Box::new(|socket| {
            assert_eq!(socket.read().expect("the init message"), Message::text("{\"subscribe\":\"all\"}"));
            assert_eq!(socket.read().expect("a sign of life"), Message::text("there?"));
            (500..1000).for_each(|id| socket.send(Message::binary(json!({"id": id}).to_string())).expect("weir listens"));
            let _ = socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "all is said".into() }));
            while socket.read().is_ok() {}
        }),
    ]);
    let weir = Home::new().start(&[]);
    let source = json!({"type": "WebsocketClient", "url": format!("ws://{address}/live"), "format": {"type": "Json"},
        "initMessages": ["{\"subscribe\":\"all\"}"], "characterEncoding": "UTF-8",
        "keepAlive": {"type": "SendMessageInterval", "message": "there?", "interval": "500ms"}});
    let created = weir.post(STREAMS, &json!({"name": "live", "source": source, "query": COUNT})).expect(201).json();
    assert_eq!(created["settings"]["source"], with(source, json!({"initMessages": ["Secret(****)"]})));
    weir.wait_ingest("live", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (1000, 1));
    serving.join().expect("the server was talked to as it expects");

    // Nobody is there: the stream says what it waits for, and ends at once when it is told to.
    let source = json!({"type": "WebsocketSimpleStartupIngest", "url": "ws://127.0.0.1:1/"});
    weir.post("/api/v1/ingest/nobody", &source).expect(200);
    let mut message = String::new();
    wait_until("the stream says what it waits for", PATIENCE, || {
        message = stream(&weir, "nobody")["message"].as_str().unwrap_or_default().to_owned();
        message.contains("refused")
    });
    assert!(message.starts_with("ws://127.0.0.1:1/: "), "{message}");
    assert_eq!(stream(&weir, "nobody")["status"], "RUNNING");
    assert_eq!(weir.delete("/api/v1/ingest/nobody").expect(200).json()["status"], "Terminated");
    let wrong = json!({"name": "w", "source": {"type": "WebsocketClient", "url": "http://h/", "format": {"type": "Json"}}, "query": COUNT});
    let refused = weir.post(STREAMS, &wrong).expect(400);
    assert!(refused.text().contains("must begin with ws:// or wss://"), "{}", refused.text());
    weir.stop();
}

#[test]
fn results_go_out_as_a_reactive_stream_and_come_in_as_one() {
    there_and_back(&Home::new(), json!({"type": "JSON"}), json!({"type": "Json"}));
}

#[test]
fn results_go_out_as_messages_of_protobuf_and_come_in_as_such() {
    let home = Home::new();
    home.write("shapes.desc", include_bytes!("../../model/src/protobuf/vectors/all.desc"));
    let format = json!({"type": "Protobuf", "schemaUrl": "shapes.desc", "typeName": "old.Part"});
    there_and_back(&home, format.clone(), format);
}

/// Results in one format, served and read again in another.
fn there_and_back(home: &Home, out: Json, back: Json) {
    let weir = home.start(&[]);
    let port = free_ports(1);
    let destination = json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": port, "format": out});
    let query = json!({"name": "numbers", "pattern": {"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"},
        "outputs": [{"name": "stream", "resultEnrichment":
            {"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.value AS id"}, "destinations": [destination]}]});
    let created = weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201).json();
    assert_eq!(created["outputs"][0]["destinations"][0], destination);
    let source = json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port, "format": back});
    let created = weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201).json();
    assert_eq!(created["settings"]["source"], source);
    // What comes while nobody is connected is gone: until the first has come back, numbers are sent one by one.
    let mut value = 0;
    let mut number = || {
        value += 1;
        weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) SET n:Number, n.value = {value}")).expect(200);
        value
    };
    wait_until("a result has come back", PATIENCE, || {
        number();
        std::thread::sleep(Duration::from_millis(20));
        counted(&weir).0 > 0
    });
    let first = weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN min(n.id)")[0][0].as_i64().expect("a number");
    let last = (0..100).map(|_| number()).last().expect("a number");
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 as i64 == last - first + 1);
    assert_eq!(counted(&weir).1, 1);
    weir.delete("/api/v2/graph/quine/standingQueries/numbers").expect(200);
    weir.wait_ingest("back", "Completed", PATIENCE);
    if out["type"] == "Protobuf" {
        let mut wrong = query.clone();
        wrong["outputs"][0]["destinations"][0]["format"]["typeName"] = json!("Nothing");
        let refused = weir.post("/api/v2/graph/quine/standingQueries", &wrong).expect(400).text();
        assert!(refused.contains("there is no message `Nothing` in the descriptor set"), "{refused}");
        wrong["outputs"][0]["destinations"][0]["format"]["schemaUrl"] = json!("/etc/passwd");
        let refused = weir.post("/api/v2/graph/quine/standingQueries", &wrong).expect(400).text();
        assert!(refused.contains("allowed-directories"), "{refused}");
    }
    weir.stop();
}

/// What comes within the interval is one message: how many results, and the newest of them.
#[test]
fn results_are_told_to_a_channel_of_slack() {
    let endpoint = Endpoint::start("/never");
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let url = format!("http://{}/services/secret", endpoint.address());
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.age AS age"});
    // Longer than a busy machine takes from the first message to the next results.
    let outputs = json!({"slack": {"type": "PostToSlack", "hookUrl": url, "intervalSeconds": 10}});
    let body = json!({"pattern": pattern, "outputs": outputs, "includeCancellations": true});
    weir.post("/api/v1/query/standing/adults", &body).expect(201);
    let mut messages = Vec::new();
    let mut wait = |count: usize| {
        wait_until("a message comes", PATIENCE, || {
            messages.extend(endpoint.take());
            messages.len() >= count
        });
        let (path, message) = messages[count - 1].clone();
        assert_eq!((path.as_str(), messages.len()), ("/services/secret", count));
        message
    };
    weir.rows("MATCH (n) WHERE id(n) = idFrom('first') SET n.age = 18");
    let first = wait(1);
    assert_eq!(first["text"], "New Standing Query Result");
    assert_eq!(first["blocks"][1]["text"], json!({"type": "mrkdwn", "text": "```{\n  \"age\": 18\n}```"}));
    let id = first["blocks"][2]["elements"][0]["text"].as_str().and_then(|text| text.strip_prefix("*Result ID:* "));
    let id = id.unwrap_or_else(|| panic!("{first}")).to_owned();
    weir.rows("MATCH (f) WHERE id(f) = idFrom('first') SET f.age = 3 WITH 1 AS one UNWIND [20, 21, 22] AS age MATCH (n) WHERE id(n) = idFrom(age) SET n.age = age");
    let second = wait(2);
    assert_eq!(second["text"], "New Standing Query Updates");
    let texts: Vec<&str> =
        second["blocks"].as_array().into_iter().flatten().filter_map(|block| block["text"]["text"].as_str()).collect();
    assert_eq!((texts[0], texts[1]), ("New Standing Query Results", "Latest result of 2:"), "{second}");
    assert_eq!(texts[3], "Standing Query Result Cancelled", "{second}");
    assert!(texts[4].contains("\"age\": 18"), "{second}");
    let told = second["blocks"].as_array().and_then(|blocks| blocks.last()).map(|block| &block["elements"][0]["text"]);
    assert_eq!(told, Some(&json!(format!("*Result ID:* {id}"))), "a match and its cancellation have one id: {second}");
    assert!(!weir.log().contains("/services/secret"), "{}", weir.log());
    weir.stop();
}

#[test]
fn a_file_is_uploaded_over_a_web_socket() {
    let weir = Home::new().start(&[]);
    let create = |name: &str, format: Json| {
        let body = json!({"name": name, "source": {"type": "WebSocketFileUpload", "format": format}, "query": COUNT});
        let created = weir.post(STREAMS, &body).expect(201).json();
        assert_eq!(created["settings"]["source"], body["source"]);
        format!("{STREAMS}/{name}")
    };
    let path = create("upload", json!({"type": "JsonL"}));
    let mut socket = Socket::open(&weir, &path).expect("a web socket");
    assert_eq!(socket.expect(), json!({"type": "Ack"}));
    let text: String = (0..5_000).map(|id| json!({"id": id}).to_string() + "\n").collect::<String>() + "nonsense";
    for (index, piece) in text.as_bytes().chunks(1_000).enumerate() {
        let binary = index % 2 == 0;
        if binary { socket.send_binary(piece) } else { socket.send(std::str::from_utf8(piece).expect("ASCII")) }
    }
    socket.send("");
    let said: Vec<Json> = std::iter::from_fn(|| socket.message()).collect();
    let (last, before) = said.split_last().expect("a word");
    assert_eq!(last, &json!({"type": "Complete", "finalCount": 5_001}));
    let error = before.iter().find(|said| said["type"] == "Error").expect("a record failed");
    assert_eq!((&error["index"], &error["record"]), (&json!(5_000), &json!("nonsense")));
    // What is safe is seen by reads a moment later.
    weir.catch_up();
    assert_eq!((counted(&weir), stream(&weir, "upload")["status"].as_str()), ((5_000, 1), Some("COMPLETED")));
    let again = Socket::open(&weir, &path).err().expect("one upload is all a stream gets");
    assert!(again.contains("400"), "{again}");

    // An older path, a client that closes at the end, one that breaks off, a stream of another kind.
    create("closed", json!({"type": "Json"}));
    let mut socket = Socket::open(&weir, "/api/v2/ingests/closed").expect("a web socket");
    socket.send("[{\"id\": 6001},\n {\"id\": 60");
    socket.send("02}]");
    socket.close();
    weir.wait_ingest("closed", "Completed", PATIENCE);
    assert_eq!(counted(&weir).0, 5_002);
    let path = create("broken", json!({"type": "Line"}));
    let mut socket = Socket::open(&weir, &path).expect("a web socket");
    socket.send("half a li");
    drop(socket);
    let failed = weir.wait_ingest("broken", "Failed", PATIENCE);
    assert!(failed["message"].as_str().is_some_and(|message| message.contains("ended before its time")), "{failed}");
    // The live page says so, too.
    let live = weir.get("/live/state").expect(200).json();
    let shown = live["graphs"][0]["ingests"].as_array().into_iter().flatten().find(|stream| stream["name"] == "broken");
    assert_eq!(shown.map(|stream| &stream["message"]), Some(&failed["message"]), "{live}");
    weir.post("/api/v1/ingest/numbers", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
    assert!(Socket::open(&weir, &format!("{STREAMS}/numbers")).err().is_some_and(|answer| answer.contains("400")));
    assert!(Socket::open(&weir, &format!("{STREAMS}/absent")).err().is_some_and(|answer| answer.contains("404")));
    weir.stop();
}

#[test]
fn records_that_fail_go_to_every_dead_letter_destination() {
    let endpoint = Endpoint::start("/never");
    let home = Home::new();
    let lines: String =
        (0..300).map(|n| if n % 3 == 0 { "{".to_owned() } else { json!({"n": n % 2}).to_string() } + "\n").collect();
    home.write("records.jsonl", &lines);
    let boxes = json!([{"type": "File", "path": "failed.jsonl"},
        {"type": "HttpEndpoint", "url": format!("http://{}/failed", endpoint.address()), "headers": {"Token": "geheim"},
         "outputFormat": {"type": "JSON", "withInfoEnvelope": true}}]);
    let body = json!({"name": "records", "source": {"type": "File", "path": "records.jsonl", "format": {"type": "JsonL"}},
        "query": "CREATE (n:Record {quotient: 1 / $that.n})",
        "onRecordError": {"logRecord": false, "deadLetterQueueSettings": {"destinations": boxes}}});
    let mut weir = home.start(RESUME);
    let created = weir.post(STREAMS, &body).expect(201).json();
    assert!(!created.to_string().contains("geheim"), "{created}");
    let info = weir.wait_ingest("records", "Completed", PATIENCE);
    assert_eq!(weir.rows("MATCH (n:Record) RETURN count(n)")[0][0], 100);
    // A hundred do not decode, a hundred divide by zero.
    assert_eq!(info["failedRecords"]["count"], 200);
    assert_eq!(home.lines("failed.jsonl").len(), 200);
    let told = endpoint.take();
    assert_eq!(told.len(), 200);
    let number = |number: u64| &told.iter().find(|(_, letter)| letter["number"] == number).expect("it was told of").1;
    assert_eq!((&number(0)["frame"], number(0).get("decoded")), (&json!("ew=="), None));
    assert!(number(0)["message"].as_str().is_some_and(|message| message.contains("not JSON")));
    assert_eq!(number(4)["decoded"], json!({"n": 0}));
    assert!(!weir.log().contains("a record had no effect"), "logRecord is false");
    // They are known after a restart, and with their secrets.
    weir.kill();
    weir = home.start(RESUME);
    let shown = stream(&weir, "records")["settings"]["onRecordError"].clone();
    assert_eq!(shown, created["settings"]["onRecordError"]);
    // A destination that cannot be had is a mistake of who creates the stream, or ends one that is there with the reason.
    let mut nowhere = body.clone();
    nowhere["name"] = json!("nowhere");
    nowhere["source"] = json!({"type": "NumberIterator"});
    nowhere["maxPerSecond"] = json!(1);
    nowhere["onRecordError"]["deadLetterQueueSettings"]["destinations"] = json!([{"type": "File", "path": "no/where.jsonl"}]);
    assert!(weir.post(STREAMS, &nowhere).expect(400).text().contains("no/where.jsonl"));
    weir.get(&format!("{STREAMS}/nowhere")).expect(404);
    std::fs::create_dir(home.file("no")).expect("a directory");
    weir.post(STREAMS, &nowhere).expect(201);
    weir.post(&format!("{STREAMS}/nowhere:pause"), &Json::Null).expect(200);
    std::fs::remove_dir_all(home.file("no")).expect("it can be removed");
    weir.kill();
    weir = home.start(RESUME);
    weir.post(&format!("{STREAMS}/nowhere:resume"), &Json::Null).expect(200);
    let failed = weir.wait_ingest("nowhere", "Failed", PATIENCE);
    assert!(failed["message"].as_str().is_some_and(|message| message.contains("no/where.jsonl")), "{failed}");
    nowhere["onRecordError"]["deadLetterQueueSettings"]["destinations"] = json!([{"type": "Slack", "hookUrl": "http://h/"}]);
    assert!(weir.post(STREAMS, &nowhere).expect(400).text().contains("takes no failed records"));
    weir.stop();
}

#[test]
fn records_that_fail_are_told_as_messages_of_protobuf() {
    let home = Home::new();
    home.write("letters.desc", include_bytes!("../../model/src/protobuf/vectors/letters.desc"));
    home.write("records.jsonl", "");
    let weir = home.start(RESUME);
    let port = free_ports(1);
    let format =
        |name: &str| json!({"type": "Protobuf", "schemaUrl": "letters.desc", "typeName": name, "withInfoEnvelope": true});
    let body = |name: &str, format: Json| {
        let letters = json!([{"type": "ReactiveStream", "address": "127.0.0.1", "port": port, "outputFormat": format}]);
        json!({"name": name, "source": {"type": "File", "path": "records.jsonl", "fileIngestMode": "NamedPipe", "format": {"type": "JsonL"}},
            "query": "CREATE (:Record {quotient: 1 / $that.n})",
            "onRecordError": {"logRecord": false, "deadLetterQueueSettings": {"destinations": letters}}})
    };
    let refused = |format: Json, expected: &str| {
        let refused = weir.post(STREAMS, &body("wrong", format)).expect(400).text();
        assert!(refused.contains(expected), "{refused}");
    };
    refused(format("letters.Absent"), "outputFormat.typeName");
    refused(format("letters.Wrong"), "a dead letter does not fit letters.Wrong: field `message`");
    refused(format("letters.Nothing"), "letters.Nothing has none of the fields that are told: frame, decoded, message, number");
    let mut bare = format("letters.Nothing");
    bare["withInfoEnvelope"] = json!(false);
    refused(bare, "letters.Nothing has none of the fields that are told: frame");
    refused(json!({"type": "Protobuf", "typeName": "Letter"}), "outputFormat.schemaUrl");
    let created = weir.post(STREAMS, &body("records", format("letters.Letter"))).expect(201).json();
    let shown = &created["settings"]["onRecordError"]["deadLetterQueueSettings"]["destinations"][0];
    assert_eq!((&shown["outputFormat"], shown.get("format")), (&format("letters.Letter"), None));

    // Read back by a stream, as whoever gets them would.
    let source = json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port,
        "format": {"type": "Protobuf", "schemaUrl": "letters.desc", "typeName": "Letter"}});
    let query = "MATCH (n) WHERE id(n) = idFrom('letter', $that.number) SET n:Letter, n = $that, n.frame = text.utf8Decode($that.frame), n.n = $that.decoded.n";
    weir.post(STREAMS, &json!({"name": "letters", "source": source, "query": query})).expect(201);
    let is_there = |frame: &str| {
        let query = "MATCH (n:Letter {frame: $frame}) RETURN count(n)";
        weir.rows_with(query, json!({"frame": frame}))[0][0] != json!(0)
    };
    let push = |records: &str| {
        let mut file = std::fs::OpenOptions::new().append(true).open(home.file("records.jsonl")).expect("the file");
        std::io::Write::write_all(&mut file, records.as_bytes()).expect("written");
    };
    wait_until("the stream of letters is connected", PATIENCE, || {
        push("{\n");
        std::thread::sleep(Duration::from_millis(20));
        is_there("{")
    });
    // One that does not decode, one that divides by zero, and one whose decoded form has no place in the message.
    let failing = ["[", "{\"n\": 0}", "{\"n\": \"text\"}"];
    push(&(failing.join("\n") + "\n"));
    wait_until("all letters have come back", PATIENCE, || failing.iter().all(|frame| is_there(frame)));
    let rows = weir.rows("MATCH (n:Letter) RETURN n.frame, n.n, n.message ORDER BY n.number DESC LIMIT 3");
    assert_eq!((&rows[0][0], &rows[0][1]), (&json!("{\"n\": \"text\"}"), &Json::Null));
    assert_eq!((&rows[1][0], &rows[1][1]), (&json!("{\"n\": 0}"), &json!(0)));
    assert_eq!((&rows[2][0], &rows[2][1]), (&json!("["), &Json::Null));
    assert!(rows[2][2].as_str().is_some_and(|message| message.contains("not JSON")), "{rows:?}");
    weir.stop();
}

#[test]
fn what_looks_like_a_mistake_is_told_to_whoever_creates_a_stream() {
    let home = Home::new();
    home.write("records.jsonl", "");
    let weir = home.start(&[]);
    let body = |name: &str, query: &str| json!({"name": name, "query": query, "source": {"type": "File", "path": "records.jsonl", "format": {"type": "JsonL"}}});
    let sound = weir.post(STREAMS, &body("sound", "MATCH (n) WHERE id(n) = idFrom($that.id) SET n = $that")).expect(201);
    assert_eq!((sound.header("warning"), &sound.json()["warnings"]), (None, &json!([])));
    let mut odd = body("odd", "MATCH (n) WHERE n.id = $that.id SET n = $that");
    odd["source"]["startOfset"] = json!(5);
    let created = weir.post(STREAMS, &odd).expect(201);
    let told = created.header("warning").expect("warnings").to_owned();
    assert!(
        told.starts_with("199 quine \".source.startOfset is no field")
            && told.contains(", 199 quine \"the query of the ingest stream visits every node"),
        "{told}"
    );
    assert_eq!(created.json()["warnings"].as_array().map(Vec::len), Some(2));
    let anew = "CREATE (n:Event) SET n = $that";
    let once = weir.post(STREAMS, &body("once", anew)).expect(201);
    assert_eq!(once.json()["warnings"], json!([]), "each record of a file has its effect once");
    let mut again = body("again", anew);
    again["source"] = json!({"type": "Mqtt", "url": "mqtt://127.0.0.1:1", "topicFilters": ["events"], "clientId": "weir", "format": {"type": "Json"}});
    let created = weir.post(STREAMS, &again).expect(201);
    assert!(created.header("warning").is_some_and(|told| told.contains("may come again")), "{}", created.text());
    weir.stop();
}

#[test]
fn all_that_is_wrong_with_a_stream_is_told_at_once() {
    let weir = Home::new().start(&[]);
    let body = json!({"name": "wrong", "query": "RETURN nosuch($that)", "source": {"type": "NumberIterator", "limit": "many"},
        "onRecordError": {"logRecord": 5}, "transformation": {"type": "Python", "function": "x"}});
    let told = weir.post(STREAMS, &body).expect(400).text();
    for part in [".limit: Long (in .source)", ".onRecordError.logRecord", "'Python'", "nosuch"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Also where the source cannot be read at all.
    let body = json!({"name": "wrong", "query": "RETURN nosuch($that)", "source": {"type": "Nope"}});
    let told = weir.post(STREAMS, &body).expect(400).text();
    assert!(told.contains("'Nope' names no known source") && told.contains("nosuch"), "{told}");
    weir.stop();
}

#[test]
fn kafka_is_asked_where_hosts_are_allowed() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"kafka.example.com\"]"]);
    let source = |servers: &str, login: Json| {
        json!({"name": "k", "query": "RETURN 1", "source": {"type": "Kafka", "topics": ["t"], "bootstrapServers": servers, "saslJaasConfig": login,
            "format": {"type": "Json"}}})
    };
    let refused = |body: Json, field: &str| {
        let text = weir.post(STREAMS, &body).expect(400).text();
        assert!(text.contains(field) && text.contains("outgoing-http.allowed-hosts"), "{text}");
    };
    refused(source("kafka.example.com:9092, 127.0.0.1:1", Json::Null), "bootstrapServers");
    let token =
        json!({"type": "OAuthBearerLogin", "clientId": "c", "clientSecret": "s", "tokenEndpointUrl": "http://127.0.0.1:1/token"});
    refused(source("kafka.example.com:9092", token), "saslJaasConfig.tokenEndpointUrl");
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n) AS id"});
    let output = json!({"name": "o", "destinations": [{"type": "Kafka", "topic": "t", "bootstrapServers": "127.0.0.1:1"}]});
    let text = weir
        .post("/api/v2/graph/quine/standingQueries", &json!({"name": "q", "pattern": pattern, "outputs": [output]}))
        .expect(400)
        .text();
    assert!(text.contains("bootstrapServers") && text.contains("outgoing-http.allowed-hosts"), "{text}");
    weir.stop();
}

#[test]
fn a_message_that_slack_refuses_is_no_delivery() {
    let (home, endpoint) = (Home::new(), Endpoint::start("/never"));
    endpoint.answer_with(403, Duration::ZERO);
    let weir = home.start(&[]);
    let letters = json!({"type": "DeadLetter", "destinations": [{"type": "File", "path": "dead.jsonl"}]});
    let slack = json!({"type": "Slack", "hookUrl": format!("http://{}/hook", endpoint.address()), "interval": "1s", "onResultError": letters});
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Seen) RETURN DISTINCT id(n) AS id"});
    let outputs = json!([{"name": "slack", "destinations": [slack]}]);
    weir.post("/api/v2/graph/quine/standingQueries", &json!({"name": "q", "pattern": pattern, "outputs": outputs})).expect(201);
    weir.query("CREATE (:Seen)").expect(200);
    home.wait_lines("dead.jsonl", 1);
    let output = || weir.get("/api/v1/query/standing/q").expect(200).json()["stats"]["local"]["outputs"]["slack"].clone();
    wait_until("it is counted", PATIENCE, || output()["deadLetters"] == 1);
    let output = output();
    assert_eq!(output["delivered"], 0, "{output}");
    assert!(output["lastError"]["message"].as_str().is_some_and(|why| why.contains("403")), "{output}");
    weir.stop();
}

/// What asks over HTTP goes by the proxy that the environment names, but for the hosts that it excepts.
#[test]
fn a_proxy_of_the_environment_is_used() {
    let (proxy, direct) = (Endpoint::start("/never"), Endpoint::start("/never"));
    let home = Home::new();
    let proxy_url = format!("http://{}", proxy.address());
    let weir = home.start_with(&[("http_proxy", &proxy_url), ("no_proxy", "127.0.0.1")], &[]);
    let output = |url: String| json!({"type": "HttpEndpoint", "url": url});
    let query = json!({"name": "numbers", "pattern": {"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"},
        "outputs": [{"name": "far", "destinations": [output("http://results.invalid/far".to_owned())]},
            {"name": "near", "destinations": [output(format!("http://{}/near", direct.address()))]}]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201);
    weir.query("CREATE (:Number)").expect(200);
    wait_until("both have the result", PATIENCE, || proxy.received() > 0 && direct.received() > 0);
    let targets = |endpoint: &Endpoint| endpoint.take().into_iter().map(|(target, _)| target).collect::<Vec<_>>();
    assert_eq!(targets(&proxy), ["http://results.invalid/far"]);
    assert_eq!(targets(&direct), ["/near"]);
    weir.stop();
}

#[test]
fn dead_letters_are_waited_for_and_what_refuses_them_for_good_fails_the_stream() {
    let endpoint = Endpoint::start("/never");
    let home = Home::new();
    home.write("records.jsonl", "{\n{\"id\": 1}\n{\"id\": 2}\n");
    let boxes = json!([{"type": "HttpEndpoint", "url": format!("http://{}/failed", endpoint.address())}]);
    let body = |name: &str| {
        json!({"name": name, "source": {"type": "File", "path": "records.jsonl", "format": {"type": "JsonL"}}, "query": COUNT,
            "onRecordError": {"deadLetterQueueSettings": {"destinations": boxes}}})
    };
    let weir = home.start(RESUME);
    endpoint.answer_with(503, Duration::ZERO);
    weir.post(STREAMS, &body("waits")).expect(201);
    // Longer than an output tries to post a result.
    wait_until("it was tried often", PATIENCE, || endpoint.received() > 7);
    let info = stream(&weir, "waits");
    assert_eq!(info["status"], "RUNNING", "{info}");
    assert!(
        info["message"].as_str().is_some_and(|message| message.contains("dead letters wait") && message.contains("503")),
        "{info}"
    );
    assert_eq!((info["stats"]["ingestedCount"].as_u64(), counted(&weir).0), (Some(0), 0), "{info}");
    endpoint.answer_with(200, Duration::ZERO);
    let info = weir.wait_ingest("waits", "Completed", PATIENCE);
    assert_eq!((&info["message"], &info["stats"]["ingestedCount"], counted(&weir)), (&Json::Null, &json!(3), (2, 1)), "{info}");
    endpoint.answer_with(401, Duration::ZERO);
    weir.post(STREAMS, &body("refused")).expect(201);
    let info = weir.wait_ingest("refused", "Failed", PATIENCE);
    let message = info["message"].as_str().unwrap_or_default();
    assert!(message.contains("a dead letter cannot be delivered") && message.contains("401"), "{info}");
    assert_eq!(counted(&weir), (2, 1), "nothing goes past it");
    endpoint.answer_with(200, Duration::ZERO);
    weir.post(&format!("{STREAMS}/refused:resume"), &Json::Null).expect(200);
    let info = weir.wait_ingest("refused", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (2, 2));
    assert_eq!(info["failedRecords"]["count"], 1, "it came twice, and is counted once: {info}");
    // One that waits can be stopped.
    endpoint.answer_with(503, Duration::ZERO);
    takes_at_most("the end of a stream that waits", Duration::from_secs(10), || {
        weir.post(STREAMS, &body("stopped")).expect(201);
        wait_until("it waits", PATIENCE, || stream(&weir, "stopped")["message"].is_string());
        let begun = Instant::now();
        weir.delete(&format!("{STREAMS}/stopped")).expect(200);
        begun.elapsed()
    });
    weir.stop();
}

/// Nothing comes after the record that fails, and its source stays open.
#[test]
fn a_stream_of_which_a_dead_letter_is_refused_fails_without_another_record() {
    let endpoint = Endpoint::start("/never");
    let home = Home::new();
    let boxes = json!([{"type": "HttpEndpoint", "url": format!("http://{}/failed", endpoint.address())}]);
    let body = json!({"name": "open", "source": {"type": "HttpPush", "format": {"type": "Json"}},
        "query": "CREATE (:Record {quotient: 1 / $that.n})",
        "onRecordError": {"deadLetterQueueSettings": {"destinations": boxes}}});
    let weir = home.start(RESUME);
    weir.post(STREAMS, &body).expect(201);
    let say = |records: &str| {
        let lines = [("Content-Type", "application/x-ndjson")];
        weir.send("POST", &format!("{STREAMS}/open/records"), &lines, records.as_bytes())
    };
    let fails = |records: u64| {
        let info = weir.wait_ingest("open", "Failed", PATIENCE);
        let message = info["message"].as_str().unwrap_or_default();
        assert!(message.contains("a dead letter cannot be delivered") && message.contains("401"), "{info}");
        assert_eq!(info["failedRecords"]["count"], records, "{info}");
        weir.post(&format!("{STREAMS}/open:resume"), &Json::Null).expect(200);
    };
    say("{\"n\": 1}\n").expect(200);
    endpoint.answer_with(401, Duration::ZERO);
    // Its query fails, so it has been passed when that is told. Whoever sent it is not to send it again.
    say("{\"n\": 0}\n").expect(200);
    fails(1);
    assert!(weir.log().contains("1 may be lost"), "{}", weir.log());
    // It does not decode, and nothing goes past it.
    say("{\n").expect(503);
    fails(2);
    endpoint.answer_with(200, Duration::ZERO);
    say("{\n").expect(200);
    let info = stream(&weir, "open");
    assert_eq!((&info["status"], &info["failedRecords"]["count"]), (&json!("RUNNING"), &json!(2)), "{info}");
    assert_eq!(weir.rows("MATCH (n:Record) RETURN count(n)")[0][0], 1);
    weir.stop();
}

#[test]
fn a_stream_of_a_slow_query_is_paused_and_deleted_between_its_records() {
    let home = Home::new();
    let weir = home.start(&[]);
    let query =
        "UNWIND range(1, 300000) AS x WITH count(x) AS c MATCH (n) WHERE id(n) = idFrom('slow', $that) SET n.slow = $that";
    let format = json!({"type": "CypherLine", "query": query});
    let lines: String = (0..5_000).map(|n| format!("{n}\n")).collect();
    home.write("lines", lines);
    weir.post("/api/v1/ingest/slow", &json!({"type": "FileIngest", "path": "lines", "format": format})).expect(200);
    let ingested = || weir.get("/api/v1/ingest/slow").expect(200).json()["stats"]["ingestedCount"].as_u64();
    let had_effect = || weir.rows("MATCH (n) WHERE n.slow IS NOT NULL RETURN count(n)")[0][0].as_u64();
    wait_until("some had their effect", PATIENCE, || ingested() > Some(20));
    weir.put("/api/v1/ingest/slow/pause").expect(200);
    let count = ingested();
    assert!(count < Some(5_000), "the query is slow no more");
    wait_until("what was counted is seen", PATIENCE, || had_effect() == count);
    // Of records as slow as these some would have come.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((ingested(), had_effect()), (count, count));
    weir.put("/api/v1/ingest/slow/start").expect(200);
    wait_until("more had their effect", PATIENCE, || ingested() > count);
    let begun = Instant::now();
    weir.delete("/api/v1/ingest/slow").expect(200);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    weir.stop();
}

#[test]
fn a_schema_that_does_not_come_holds_up_no_other_stream() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (asked, told) = std::sync::mpsc::sync_channel(16);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || {
                use std::io::{Read, Write};
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
                let _ = asked.send(());
                while stream.write_all(b" ").is_ok() {
                    std::thread::sleep(Duration::from_millis(300));
                }
            });
        }
    });
    let home = Home::new();
    let weir = home.start(&[]);
    let format = json!({"type": "CypherAvro", "query": "RETURN 1", "schemaUrl": format!("http://{address}/s.avsc")});
    let definition = json!({"type": "ServerSentEventsIngest", "url": "http://127.0.0.1:1/", "format": format});
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| weir.post("/api/v1/ingest/slow", &definition));
        told.recv_timeout(PATIENCE).expect("the schema is asked for");
        let begun = Instant::now();
        weir.post("/api/v1/ingest/quick", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
        weir.delete("/api/v1/ingest/quick").expect(200);
        // Whoever comes first has the name.
        weir.post("/api/v1/ingest/slow", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
        assert!(!slow.is_finished(), "the others took {:?}", begun.elapsed());
        let answer = slow.join().expect("it is answered").expect(400).text();
        assert!(answer.contains("was not there in full within"), "{answer}");
    });
    assert_eq!(weir.get("/api/v1/ingest/slow").expect(200).json()["settings"]["type"], "NumberIteratorIngest");
    weir.stop();
}

#[test]
fn a_standing_query_that_is_deleted_posts_nothing_more() {
    let endpoint = Endpoint::start("/never");
    endpoint.answer_with(200, Duration::from_secs(1));
    let home = Home::new();
    let weir = home.start(&[]);
    let output = json!({"type": "PostToEndpoint", "url": format!("http://{}/", endpoint.address()), "parallelism": 1});
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Hit) RETURN DISTINCT id(n)"});
    weir.post("/api/v1/query/standing/q", &json!({"pattern": pattern, "outputs": {"o": output}})).expect(201);
    weir.query("UNWIND range(1, 300) AS x CREATE (:Hit {x: x})").expect(200);
    wait_until("results are posted", PATIENCE, || endpoint.received() > 2);
    weir.delete("/api/v1/query/standing/q").expect(200);
    // One may be under way.
    std::thread::sleep(Duration::from_millis(2_500));
    let posted = endpoint.received();
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(endpoint.received(), posted);
    assert!(posted < 100, "{posted}");
    weir.stop();
}

#[test]
fn a_standing_query_that_is_deleted_delivers_what_it_has_found() {
    const RESULTS: u64 = 120;
    let endpoint = Endpoint::start("/never");
    // The first request of each, and no other: an output that works is given its time from when it asks, and most of that is for
    // all the others.
    endpoint.answer_with(200, Duration::from_millis(1_500));
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let to =
        |path: &str| json!({"type": "PostToEndpoint", "url": format!("http://{}{path}", endpoint.address()), "parallelism": 1});
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n:Hit) RETURN n.x AS x"});
    let outputs = json!({"one": to("/one"), "two": to("/two")});
    weir.post("/api/v1/query/standing/q", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    let hit = |x: u64| drop(weir.query(&format!("CREATE (:Hit {{x: {x}}})")).expect(200));
    hit(0);
    wait_until("both are asked", PATIENCE, || endpoint.received() >= 2);
    std::thread::sleep(Duration::from_millis(100));
    endpoint.answer_with(200, Duration::ZERO);
    // Each comes by itself: that is more than an output has room for while its first request is under way.
    (1..RESULTS).for_each(hit);
    weir.delete("/api/v1/query/standing/q").expect(200);
    let posted = endpoint.take();
    for path in ["/one", "/two"] {
        let values: Vec<u64> =
            posted.iter().filter(|(to, _)| to == path).filter_map(|(_, body)| body["data"]["x"].as_u64()).collect();
        assert!(values.iter().copied().eq(0..RESULTS), "{path}: {values:?}\n{}", weir.log());
    }
    assert!(!weir.log().contains("are gone with it"), "{}", weir.log());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(endpoint.received(), 0, "nothing comes behind the answer");
    weir.stop();
}

#[test]
fn a_stream_that_failed_goes_on_where_it_stood() {
    let home = Home::new();
    let letters = || std::fs::create_dir_all(home.file("no")).expect("a directory");
    letters();
    let boxes = json!([{"type": "File", "path": "no/where.jsonl"}]);
    let body = json!({"name": "numbers", "source": {"type": "NumberIterator"}, "maxPerSecond": 500,
        "query": "MATCH (n) WHERE id(n) = idFrom('seen', $that) SET n.number = $that, n.times = coalesce(n.times, 0) + 1",
        "onRecordError": {"deadLetterQueueSettings": {"destinations": boxes}}});
    let mut weir = home.start(RESUME);
    weir.post(STREAMS, &body).expect(201);
    let read = |weir: &Weir| {
        let rows =
            weir.rows("MATCH (n) WHERE n.number IS NOT NULL RETURN count(n), max(n.number) - min(n.number) + 1, max(n.times)");
        let number = |at: usize| rows[0][at].as_u64().unwrap_or(0);
        (number(0), number(1), number(2))
    };
    for round in 0..3 {
        let before = read(&weir).0;
        wait_until("numbers come", PATIENCE, || read(&weir).0 > before + 100);
        // What it cannot go on without is gone, and it fails when it begins.
        std::fs::remove_dir_all(home.file("no")).expect("it can be removed");
        weir.kill();
        weir = home.start(RESUME);
        let failed = weir.wait_ingest("numbers", "Failed", PATIENCE);
        assert!(failed["message"].as_str().is_some_and(|message| message.contains("no/where.jsonl")), "{failed}");
        weir.post(&format!("{STREAMS}/numbers:pause"), &Json::Null).expect(400);
        // Nothing is mended yet.
        weir.post(&format!("{STREAMS}/numbers:resume"), &Json::Null).expect(200);
        weir.wait_ingest("numbers", "Failed", PATIENCE);
        if round > 0 {
            weir.kill();
            weir = home.start(RESUME);
            assert_eq!(stream(&weir, "numbers")["status"], "FAILED");
        }
        letters();
        // However many say so at once.
        std::thread::scope(|scope| {
            let resume = || {
                let shown = weir.post(&format!("{STREAMS}/numbers:resume"), &Json::Null).expect(200).json();
                assert_eq!((&shown["status"], &shown["message"]), (&json!("RUNNING"), &Json::Null), "{shown}");
            };
            (0..8).for_each(|_| drop(scope.spawn(resume)));
        });
    }
    let before = read(&weir).0;
    wait_until("numbers come again", PATIENCE, || read(&weir).0 > before + 100);
    weir.post(&format!("{STREAMS}/numbers:pause"), &Json::Null).expect(200);
    let (count, spread, times) = read(&weir);
    assert_eq!((count, times), (spread, 1), "none is missing, none came twice");
    weir.delete(&format!("{STREAMS}/numbers")).expect(200);
    weir.post(&format!("{STREAMS}/numbers:resume"), &Json::Null).expect(404);
    weir.stop();
}

#[test]
fn an_object_of_s3_is_read_once_in_both_notations_across_kills() {
    let Some(amazon) = Amazon::start("objects of S3 with kills of weir") else { return };
    const RECORDS: u64 = 4_000;
    amazon.put("/lake", b"");
    let lines = |from: u64| (from..from + RECORDS).map(|n| json!({"id": n}).to_string() + "\n").collect::<String>();
    amazon.put("/lake/day/one.jsonl", lines(0).as_bytes());
    amazon.put("/lake/day/two.jsonl", lines(RECORDS).as_bytes());
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let one = amazon.with(json!({"type": "S3Ingest", "bucket": "lake", "key": "day/one.jsonl", "maximumPerSecond": 2_000,
        "format": {"type": "CypherJson", "query": COUNT}}));
    weir.post("/api/v1/ingest/one", &one).expect(200);
    let two = amazon.with(json!({"type": "S3", "bucket": "lake", "key": "day/two.jsonl", "format": {"type": "JsonL"},
        "startOffset": 0, "characterEncoding": "UTF-8"}));
    let two = json!({"name": "two", "source": two, "query": COUNT, "maxPerSecond": 2_000});
    let created = weir.post(STREAMS, &two).expect(201).json();
    assert!(!created.to_string().contains("geheim"), "{created}");
    assert_eq!(created["settings"]["source"]["bucket"], "lake");
    for least in [1_000, 3_000] {
        wait_until("some records have come", PATIENCE, || counted(&weir).0 > least);
        weir.kill();
        weir = home.start(RESUME);
    }
    for name in ["one", "two"] {
        weir.wait_ingest(name, "Completed", PATIENCE);
    }
    assert_eq!(counted(&weir), (2 * RECORDS, 1));
    let refused = weir.post("/api/v1/ingest/none", &amazon.with(json!({"type": "S3Ingest", "bucket": "l/k", "key": "k"})));
    assert!(refused.expect(400).text().contains("cannot be the name of a bucket"));
    weir.post("/api/v1/ingest/absent", &amazon.with(json!({"type": "S3Ingest", "bucket": "lake", "key": "absent"}))).expect(200);
    let failed = weir.wait_ingest("absent", "Failed", PATIENCE);
    assert!(failed["message"].as_str().is_some_and(|message| message.contains("NoSuchKey")), "{failed}");
    weir.stop();
}

#[test]
fn two_weirs_share_the_shards_of_kinesis_across_kills() {
    let Some(amazon) = Amazon::start("shards of Kinesis that weirs share") else { return };
    amazon.create_stream("events", 4);
    amazon.put_records("events", 0..3_000);
    let source = amazon.with(json!({"type": "KinesisKCL", "kinesisStreamName": "events", "applicationName": "weirs",
        "format": {"type": "Json"}, "initialPosition": {"type": "TrimHorizon"}, "checkpointSettings": {"maxBatchWait": "300ms"},
        "advancedSettings": {"leaseManagementConfig": {"failoverTime": "12s", "shardSyncInterval": "2s"}}}));
    let body = json!({"name": "shared", "source": source, "query": COUNT, "maxPerSecond": 1_000});
    let homes = [Home::new(), Home::new()];
    let mut first = homes[0].start(RESUME);
    let created = first.post(STREAMS, &body).expect(201).json();
    assert!(!created.to_string().contains("geheim"), "{created}");
    let shown = &created["settings"]["source"];
    assert_eq!(
        (&shown["checkpointSettings"]["maxBatchWait"], &shown["initialPosition"]["type"]),
        (&json!("300ms"), &json!("TrimHorizon"))
    );
    // What it has is its own when it comes back in time, and it goes on to the record.
    for least in [500, 1_500] {
        wait_until("some records have come", PATIENCE, || counted(&first).0 > least);
        first.kill();
        first = homes[0].start(RESUME);
    }
    wait_until("all records have come", PATIENCE, || counted(&first).0 == 3_000);
    // Another one takes its part while records come.
    let second = homes[1].start(RESUME);
    second.post(STREAMS, &body).expect(201);
    let mut put = 3_000;
    wait_until("the second one has a part", 2 * PATIENCE, || {
        // No faster than they are read, or the rest of the test would wait for that.
        std::thread::sleep(Duration::from_millis(200));
        amazon.put_records("events", put..put + 100);
        put += 100;
        counted(&second).0 > 500
    });
    first.kill();
    first = homes[0].start(RESUME);
    amazon.put_records("events", put..put + 1_000);
    put += 1_000;
    wait_until("all records have come to one or the other", PATIENCE, || counted(&first).0 + counted(&second).0 >= put);
    assert_eq!((counted(&first).0 + counted(&second).0, counted(&first).1, counted(&second).1), (put, 1, 1));
    // The second ends and gives its shards back: they need not be missed first.
    second.stop();
    let before = counted(&first).0;
    amazon.put_records("events", put..put + 1_000);
    wait_until("the first one has all shards", PATIENCE, || counted(&first).0 == before + 1_000);
    first.stop();
}

/// As Amazon speaks it: enhanced fan-out is a stream of HTTP/2 with TLS.
#[test]
fn kinesis_sends_records_over_http_2() {
    const LEFT_OUT: &str = "enhanced fan-out of Kinesis over HTTP/2 and TLS";
    let Some(amazon) = Amazon::start(LEFT_OUT) else { return };
    let variables = [("BACKEND", amazon.address.as_str()), ("PROTOCOLS", "h2")];
    let Some(proxy) = Server::start_with(&variables, "nghttpx.sh", 1, LEFT_OUT) else { return };
    amazon.create_stream("sent", 2);
    amazon.put_records("sent", 0..1_000);
    let source = amazon.with(json!({"type": "KinesisKCL", "kinesisStreamName": "sent", "applicationName": "fan",
        "endpoint": format!("https://{}/", proxy.address(0)), "format": {"type": "Json"}, "initialPosition": {"type": "TrimHorizon"},
        "checkpointSettings": {"maxBatchWait": "300ms"},
        "advancedSettings": {"retrievalSpecificConfig": {"type": "FanOutConfig", "consumerName": "fan"}}}));
    let home = Home::new();
    let trusted = proxy.directory().join("ca.pem");
    let trusted = [("SSL_CERT_FILE", trusted.to_str().expect("a path"))];
    let mut weir = home.start_with(&trusted, RESUME);
    weir.post(STREAMS, &json!({"name": "sent", "source": source, "query": COUNT})).expect(201);
    wait_until("what was there has come", PATIENCE, || counted(&weir).0 == 1_000);
    // What comes now is sent at once, on streams that stay.
    for round in 1..6 {
        let began = Instant::now();
        amazon.put_records("sent", round * 1_000..round * 1_000 + 1_000);
        wait_until("what was put has come", PATIENCE, || counted(&weir).0 == (round + 1) * 1_000);
        eprintln!("1,000 records were put and have come over HTTP/2 within {:?}", began.elapsed());
    }
    weir.kill();
    amazon.put_records("sent", 6_000..7_000);
    weir = home.start_with(&trusted, RESUME);
    wait_until("what came meanwhile has come", PATIENCE, || counted(&weir).0 == 7_000);
    assert_eq!(counted(&weir), (7_000, 1));
    weir.stop();
    let asked = || proxy.made("asked");
    wait_until("the proxy tells of the subscriptions", PATIENCE, || asked().contains("SubscribeToShard"));
    let others: Vec<String> = asked().lines().filter(|line| !line.starts_with("h2 ")).map(str::to_owned).collect();
    assert!(others.is_empty(), "not over HTTP/2: {others:?}");
}

#[test]
fn records_are_transformed_before_their_query_and_what_fails_is_kept_aside() {
    let endpoint = Endpoint::start("/never");
    let home = Home::new();
    let lines: String = (0..500).map(|n| format!("{{\"who\": {{\"id\": {n}}}, \"when\": \"2026-01-02T03:04:05Z\"}}\n")).collect();
    home.write("records.jsonl", lines + "{\n");
    let function = "that => {
        if (that.who.id % 100 === 7) throw new Error(`not ${that.who.id}`);
        if (that.who.id === 300) for (;;);
        return {id: that.who.id, day: new Date(that.when)};
    }";
    let boxes = json!([{"type": "HttpEndpoint", "url": format!("http://{}/failed", endpoint.address()),
        "outputFormat": {"type": "JSON", "withInfoEnvelope": true}}]);
    let mut body = json!({"name": "records", "source": {"type": "File", "path": "records.jsonl", "format": {"type": "JsonL"}},
        "query": "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.day = $that.day, n.count = coalesce(n.count, 0) + 1",
        "transformation": {"type": "JavaScript", "function": function},
        "onRecordError": {"logRecord": false, "deadLetterQueueSettings": {"destinations": boxes}}});
    let mut weir = home.start(RESUME);
    let created = weir.post(STREAMS, &body).expect(201).json();
    assert_eq!(created["settings"]["transformation"], body["transformation"]);
    let info = weir.wait_ingest("records", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (494, 1));
    assert_eq!(weir.rows("MATCH (n) WHERE n.id = 5 RETURN toString(n.day)")[0][0], "2026-01-02T03:04:05Z");
    assert_eq!(info["failedRecords"]["count"], 7, "{info}");
    let told = endpoint.take();
    let letter = |number: u64| &told.iter().find(|(_, letter)| letter["number"] == number).expect("it was told of").1;
    assert_eq!(letter(107)["decoded"]["who"]["id"], 107);
    assert_eq!(letter(107)["message"], "the transformation failed: Error: not 107");
    assert!(letter(300)["message"].as_str().is_some_and(|message| message.contains("longer than 1 s")), "{}", letter(300));
    assert_eq!(letter(500).get("decoded"), None);
    // It is there after a restart, and still at work.
    weir.kill();
    weir = home.start(RESUME);
    assert_eq!(stream(&weir, "records")["settings"]["transformation"], body["transformation"]);
    body["name"] = json!("endless");
    body["source"] = json!({"type": "NumberIterator", "startOffset": 1_000});
    body["transformation"]["function"] = json!("n => ({id: n})");
    body["maxPerSecond"] = json!(5_000);
    weir.post(STREAMS, &body).expect(201);
    wait_until("numbers come", PATIENCE, || counted(&weir).0 > 1_000);
    weir.kill();
    weir = home.start(RESUME);
    let before = counted(&weir).0;
    wait_until("more numbers come", PATIENCE, || counted(&weir).0 > before);
    assert_eq!(counted(&weir).1, 1);
    weir.delete(&format!("{STREAMS}/endless")).expect(200);
    body["transformation"]["function"] = json!("n => ");
    let refused = weir.post(STREAMS, &body).expect(400).text();
    assert!(refused.contains(".transformation.function") && refused.contains("SyntaxError"), "{refused}");
    // A stream whose script does not end is ended all the same.
    body["transformation"]["function"] = json!("n => { for (;;); }");
    takes_at_most("the end of a stream whose script does not end", Duration::from_secs(5), || {
        weir.post(STREAMS, &body).expect(201);
        let begun = Instant::now();
        weir.delete(&format!("{STREAMS}/endless")).expect(200);
        begun.elapsed()
    });
    weir.stop();
}

#[test]
fn records_that_become_very_large_take_effect_in_parts() {
    let home = Home::new();
    let lines: String = (0..40).map(|n| format!("{{\"id\": {n}}}\n")).collect();
    home.write("records.jsonl", lines);
    // The first are small, so that many are read at once when the others come.
    let function = "that => ({id: that.id, text: 'x'.repeat(that.id < 15 ? 1 : 12000000)})";
    let body = json!({"name": "records", "source": {"type": "File", "path": "records.jsonl", "format": {"type": "JsonL"}},
        "query": "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.size = size($that.text), n.count = coalesce(n.count, 0) + 1",
        "transformation": {"type": "JavaScript", "function": function}});
    let weir = home.start(RESUME);
    weir.post(STREAMS, &body).expect(201);
    let info = weir.wait_ingest("records", "Completed", PATIENCE);
    assert_eq!((counted(&weir), &info["stats"]["ingestedCount"]), ((40, 1), &json!(40)));
    assert_eq!(weir.rows("MATCH (n) RETURN sum(n.size)")[0][0], 300_000_015);
    weir.stop();
}

#[test]
fn avro_is_read_by_a_schema_from_a_web_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let schema = format!("http://{}/person.avsc", listener.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        let text = r#"{"type": "record", "name": "p", "fields": [{"name": "id", "type": "long"}, {"name": "born", "type": {"type": "int", "logicalType": "date"}}]}"#;
        let (mut stream, _) = listener.accept().expect("weir asks");
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
        let _ = std::io::Write::write_all(&mut stream, (head + text).as_bytes());
    });
    let (address, talking) = web_sockets(vec![Box::new(|socket| {
        // 7, 2022-01-08; then what does not fit.
        socket.send(Message::binary(vec![14, 0xf0, 0xa8, 2])).expect("weir listens");
        socket.send(Message::binary(vec![14])).expect("weir listens");
        let _ = socket.close(None);
        while socket.read().is_ok() {}
    })]);
    let home = Home::new();
    let weir = home.start(&[]);
    let format = json!({"type": "Avro", "schemaUrl": schema, "logicalTypes": true});
    let body = json!({"name": "people", "query": "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.born = $that.born",
        "source": {"type": "WebsocketClient", "url": format!("ws://{address}/"), "format": format}});
    let created = weir.post(STREAMS, &body).expect(201).json();
    assert_eq!(created["settings"]["source"]["format"], format);
    weir.wait_ingest("people", "Completed", PATIENCE);
    assert_eq!(weir.rows("MATCH (n) WHERE id(n) = idFrom(7) RETURN toString(n.born)")[0][0], "2022-01-08");
    assert_eq!(stream(&weir, "people")["failedRecords"]["count"], 1);
    talking.join().expect("the server was talked to as it expects");
    serving.join().expect("the schema was asked for");
    let mut wrong = body.clone();
    wrong["name"] = json!("wrong");
    wrong["source"]["format"]["schemaUrl"] = json!("/etc/passwd");
    assert!(weir.post(STREAMS, &wrong).expect(400).text().contains("allowed-directories"));
    weir.stop();
}

#[test]
fn a_file_of_parquet_is_read_once_across_kills() {
    let home = Home::new();
    home.write("rows.parquet", include_bytes!("../../connectors/src/parquet_vectors/snappy.parquet"));
    let mut weir = home.start(RESUME);
    let source = json!({"type": "File", "path": "rows.parquet", "format": {"type": "Parquet"}, "startOffset": 0, "characterEncoding": "UTF-8"});
    let query = format!("{COUNT}, n.tags = $that.tags, n.street = $that.where.street");
    let created =
        weir.post(STREAMS, &json!({"name": "rows", "source": source, "query": query, "maxPerSecond": 40})).expect(201).json();
    assert_eq!(created["settings"]["source"]["format"], source["format"]);
    for _ in 0..2 {
        let before = counted(&weir).0;
        wait_until("some more rows are read", PATIENCE, || counted(&weir).0 > before);
        weir.kill();
        weir = home.start(RESUME);
    }
    weir.wait_ingest("rows", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (150, 1));
    assert_eq!(weir.rows("MATCH (n) WHERE id(n) = idFrom(7) RETURN n.tags, n.street"), [json!([[null, "t1", "t2"], "s7"])]);
    let wrong = json!({"name": "in", "source": {"type": "StdInput", "format": {"type": "Parquet"}}, "query": COUNT});
    assert!(weir.post(STREAMS, &wrong).expect(400).text().contains("only files and objects of S3"));
    weir.stop();
}
