//! The web sockets against the real binary: the query protocol of both generations, results, taps.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::socket::{HANDSHAKE, Socket};

const RUNNING: &str = "/api/v1/query/cypher/running";
const STREAMS: &str = "/api/v2/graph/quine/ingests";

/// Longer than anything here takes that comes at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// One of each kind: that answer, that tell, that take.
const KINDS: [&str; 6] = [
    "/api/v1/query",
    "/api/v2/query/ws",
    "/api/v2/lsp",
    "/api/v1/query/standing/q",
    "/api/v2/graph/quine/standingQueries/q:tap",
    "/api/v2/graph/quine/ingests/up",
];

fn weir() -> Weir {
    weir_with(&[])
}

fn weir_with(more: &[&str]) -> Weir {
    Home::new().start(&[&["-Dweir.store.type=in-memory", "-Dweir.workers=1"], more].concat())
}

/// What those of `KINDS` listen to and fill.
fn prepare(weir: &Weir) {
    let query = "MATCH (n) WHERE n.age > 17 RETURN id(n) AS id, n.age AS age";
    let body = json!({"name": "q", "pattern": {"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": query}, "outputs": []});
    weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
    create_upload(weir);
}

fn create_upload(weir: &Weir) {
    let upload =
        json!({"name": "up", "query": "RETURN $that", "source": {"type": "WebSocketFileUpload", "format": {"type": "Line"}}});
    weir.post(STREAMS, &upload).expect(201);
}

/// A connection for which a web socket is asked, and nobody who reads it.
fn bare(weir: &Weir, path: &str) -> TcpStream {
    client::open(weir.address(), "GET", path, HANDSHAKE, b"").expect("weir can be reached")
}

/// All that comes until weir closes.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("weir closes");
    rest
}

fn run(id: i64, query: &str) -> Json {
    json!({"type": "RunQuery", "queryId": id, "query": query, "sort": "TextSort", "parameters": {}, "language": "Cypher"})
}

#[test]
fn the_query_protocol_of_v1() {
    let weir = weir();
    weir.rows("MATCH (a) WHERE id(a) = idFrom('w') SET a:Person, a.name = 'Ann'");
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    // What is sent, and all that is answered.
    let finished = json!({"type": "QueryFinished", "queryId": 1});
    let started = |columns: Json| json!({"type": "QueryStarted", "queryId": 1, "isReadOnly": true, "canContainAllNodeScan": false, "columns": columns});
    let rows = |rows: Json| json!({"type": "TabularResults", "queryId": 1, "columns": ["i"], "results": rows});
    let mut batched = run(1, "UNWIND range(1, 5) AS i RETURN i");
    batched["maxResultBatch"] = json!(2);
    let mut timed = run(1, "UNWIND range(1, 3) AS i RETURN i");
    // All of them come sooner, also on a busy machine; with the last of them there is nothing to wait for.
    timed["resultsWithinMillis"] = json!(30_000);
    let mut nodes = run(1, "MATCH (a) WHERE id(a) = idFrom('w') RETURN a");
    nodes["sort"] = json!("NodeSort");
    let mut past_the_clock = run(1, "RETURN 1 AS i");
    past_the_clock["atTime"] = json!(99_999_999_999_999i64);
    let mut past_it_in_words = run(1, "RETURN 1 AS i");
    past_it_in_words["atTime"] = json!("2999-01-01T00:00:00Z");
    let wrong = |text: &str| json!({"type": "MessageError", "error": text});
    let undecodable = |text: &str| wrong(&format!("Failed to deserialize client message:\n{text}"));
    let conversations = [
        (
            run(1, "UNWIND [1, 2] AS i RETURN i"),
            vec![started(json!(["i"])), rows(json!([[1]])), rows(json!([[2]])), finished.clone()],
        ),
        (
            batched,
            vec![started(json!(["i"])), rows(json!([[1], [2]])), rows(json!([[3], [4]])), rows(json!([[5]])), finished.clone()],
        ),
        (timed, vec![started(json!(["i"])), rows(json!([[1], [2], [3]])), finished.clone()]),
        (
            run(1, "UNWIND [1, 0] AS i RETURN 1 / i AS i"),
            vec![
                started(json!(["i"])),
                rows(json!([[1]])),
                json!({"type": "QueryFailed", "queryId": 1, "message": "ArithmeticError"}),
            ],
        ),
        (run(1, "RETURN x"), vec![wrong("CompileError at 1.8 Variable `x` not defined")]),
        (json!({}), vec![undecodable("DecodingFailure at : Missing type discriminator field 'type'!")]),
        (json!("x"), vec![undecodable("DecodingFailure at : Got value '\"x\"' with wrong type, expecting object")]),
        (json!({"type": "RunQuery"}), vec![undecodable("DecodingFailure at .queryId: Missing required field")]),
        (past_the_clock, vec![undecodable("DecodingFailure at .atTime: Value 99999999999999 must be less than system time 1")]),
        // Each is spelt as its author has spelt the other.
        (
            past_it_in_words,
            vec![undecodable("DecodingFailure at .atTime: Value 2999-01-01T00:00:00Z must be less than system time 20")],
        ),
        (json!({"type": "CancelQuery", "queryId": 9}), vec![wrong("Query ID 9 isn't tracking any current query")]),
    ];
    for (sent, expected) in conversations {
        socket.send(&sent.to_string());
        for expected in expected {
            let found = socket.expect();
            let alike = |key: &String| match (&expected[key], &found[key]) {
                // Errors go on after what is compared.
                (Json::String(begin), Json::String(whole)) if key == "error" || key == "message" => {
                    whole.starts_with(begin.as_str())
                }
                (a, b) => a == b,
            };
            assert!(expected.as_object().expect("an object").keys().all(alike), "{sent}: {found} for {expected}");
        }
    }
    socket.send(&nodes.to_string());
    assert!(socket.expect().get("columns").is_none());
    let found = socket.expect();
    assert_eq!((&found["type"], &found["results"][0]["label"]), (&json!("NodeResults"), &json!("Person")), "{found}");
    assert_eq!(socket.expect(), finished);
    // Two with one number; and the end of one that takes long.
    socket.send(&run(1, "CALL util.sleep(100000) RETURN 1 AS i").to_string());
    assert_eq!(socket.expect()["type"], "QueryStarted");
    socket.send(&run(1, "RETURN 2 AS i").to_string());
    assert!(socket.expect()["error"].as_str().is_some_and(|text| text.starts_with("Query ID 1 is already being used")));
    socket.send(&json!({"type": "CancelQuery", "queryId": 1}).to_string());
    assert_eq!(socket.expect(), json!({"type": "MessageOk"}));
    assert_eq!(socket.expect(), finished);
    socket.send_binary(b"abc");
    assert_eq!(socket.expect(), wrong("Binary websocket messages are not yet supported"));
}

#[test]
fn the_query_protocol_of_v2() {
    let weir = weir();
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('w') AND id(b) = idFrom('x') SET a:Person CREATE (a)-[:KNOWS]->(b)");
    for path in ["/api/v2/query/ws", "/api/v2/graph/quine/query/ws"] {
        let mut socket = Socket::open(&weir, path).expect("a socket");
        for (sort, kind, query, key, value) in [
            ("Node", "NodeResults", "MATCH (a:Person) RETURN a, a AS b", "label", "Person"),
            ("Edge", "EdgeResults", "MATCH (:Person)-[e:KNOWS]->() RETURN e, e AS f", "edgeType", "KNOWS"),
        ] {
            let asked =
                json!({"type": "RunQuery", "queryId": 1, "query": query, "sort": sort, "parameters": {}, "language": "Cypher"});
            socket.send(&asked.to_string());
            assert_eq!(socket.expect()["type"], "QueryStarted");
            let found = socket.expect();
            assert_eq!(found["type"], kind, "{path}: {found}");
            let results = found["results"].as_array().expect("a list");
            assert_eq!(results.iter().map(|thing| &thing[key]).collect::<Vec<_>>(), [value, value], "{path}: {found}");
            assert_eq!(socket.expect()["type"], "QueryFinished");
        }
        socket.send(&json!({"type": "RunQuery", "queryId": 1, "query": "RETURN {a: null} AS m", "sort": "Text"}).to_string());
        assert_eq!(socket.expect()["columns"], json!(["m"]));
        assert_eq!(socket.expect()["results"], json!([[{}]]));
        assert_eq!(socket.expect()["type"], "QueryFinished");
        socket.send(&json!({"type": "RunQuery", "queryId": 1, "query": "RETURN 1", "sort": "Text", "zzz": 1}).to_string());
        assert!(socket.expect()["error"].as_str().is_some_and(|text| text.contains("zzz")));
        // What is binary is not even answered.
        socket.send_binary(b"abc");
        socket.send(&json!({"type": "CancelQuery", "queryId": 9}).to_string());
        assert!(socket.expect()["error"].as_str().is_some_and(|text| text.contains("Query ID 9")));
    }
}

/// All that is answered to a query.
fn answers(socket: &mut Socket, query: &str, sort: &str) -> Vec<Json> {
    let mut asked = run(1, query);
    asked["sort"] = json!(sort);
    socket.send(&asked.to_string());
    let mut all = Vec::new();
    loop {
        let next = socket.expect();
        let is_last = ["QueryFinished", "QueryFailed", "MessageError"].iter().any(|last| next["type"] == *last);
        all.push(next);
        if is_last {
            return all;
        }
    }
}

/// Those that run or wait.
fn running(weir: &Weir) -> Vec<Json> {
    weir.get(RUNNING).expect(200).json().as_array().expect("a list").clone()
}

fn id_of(listed: &Json) -> &str {
    listed["id"].as_str().expect("an id")
}

/// They got their place in their turn, ran and committed, also for sockets that were gone.
#[test]
fn queries_that_wait_for_a_place_end_when_they_are_told_to_and_with_their_socket() {
    let weir = weir_with(&["-Dweir.query.running-max=1"]);
    let open = || Socket::open(&weir, KINDS[0]).expect("a socket");
    let mut holds = open();
    holds.send(&run(1, "CALL util.sleep(100000) RETURN 1 AS i").to_string());
    assert_eq!(holds.expect()["type"], "QueryStarted");
    let write = run(1, "CREATE (w:W) RETURN 1 AS i").to_string();
    let mut cancels = open();
    cancels.send(&write);
    assert_eq!(cancels.expect()["type"], "QueryStarted");
    cancels.send(&json!({"type": "CancelQuery", "queryId": 1}).to_string());
    assert_eq!(cancels.expect()["type"], "MessageOk");
    assert_eq!(cancels.expect()["type"], "QueryFinished");
    for _ in 0..3 {
        let mut goes = open();
        goes.send(&write);
        assert_eq!(goes.expect()["type"], "QueryStarted");
    }
    wait_until("only the first one is left", PATIENCE, || running(&weir).len() == 1);
    holds.send(&json!({"type": "CancelQuery", "queryId": 1}).to_string());
    assert_eq!(holds.expect()["type"], "MessageOk");
    assert_eq!(holds.expect()["type"], "QueryFinished");
    assert_eq!(weir.rows("MATCH (w:W) RETURN count(w)"), [json!([0])]);
}

/// It looked as if it had come to its end.
#[test]
fn a_query_that_somebody_else_ends_has_failed() {
    let weir = weir();
    let over_http = |id: &str| drop(weir.delete(&format!("{RUNNING}/{id}")).expect(200));
    let in_cypher = |id: &str| drop(weir.rows(&format!("TERMINATE QUERY '{id}'")));
    let ways: [&dyn Fn(&str); 2] = [&over_http, &in_cypher];
    let mut socket = Socket::open(&weir, KINDS[0]).expect("a socket");
    for end in ways {
        socket.send(&run(1, "CALL util.sleep(100000) RETURN 1 AS i").to_string());
        assert_eq!(socket.expect()["type"], "QueryStarted");
        end(id_of(&running(&weir)[0]));
        let last = socket.expect();
        assert_eq!(last["type"], "QueryFailed", "{last}");
        assert!(last["message"].as_str().is_some_and(|message| message.contains("The query was cancelled")), "{last}");
        // Who has read that may ask what runs.
        assert_eq!(running(&weir), Vec::<Json>::new());
    }
}

/// More than a hundred rows waited, whatever their size; and until the patience was over the query could not be ended, neither
/// by somebody else nor by the end of weir.
#[test]
fn a_client_that_reads_nothing_is_given_little_and_keeps_nothing_from_its_end() {
    let weir = weir();
    // Rows of 2 MB.
    let large = format!("UNWIND range(1, 1000) AS i RETURN {} AS t", ["$t"; 50].join(" + "));
    let mut asked = run(1, &large);
    asked["parameters"] = json!({"t": "x".repeat(40_000)});
    let stuck = || {
        let mut socket = Socket::open(&weir, KINDS[0]).expect("a socket");
        socket.send(&asked.to_string());
        let (mut rows, mut since) = (0, Instant::now());
        wait_until("the query waits for its client", PATIENCE, || {
            let now = running(&weir).first().and_then(|listed| listed["rows"].as_u64()).unwrap_or(0);
            if now != rows {
                (rows, since) = (now, Instant::now());
            }
            rows > 0 && since.elapsed() > Duration::from_secs(2)
        });
        // The system takes some of them, too.
        assert!(rows < 40, "{rows} rows are on their way");
        socket
    };
    let first = stuck();
    weir.delete(&format!("{RUNNING}/{}", id_of(&running(&weir)[0]))).expect(200);
    // The patience is 30 s.
    wait_until("it has ended", Duration::from_secs(10), || running(&weir).is_empty());
    drop(first);
    let second = stuck();
    let began = Instant::now();
    weir.stop();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    drop(second);
}

/// Whether what came over a socket ends with a Close that has this code.
fn is_closed_with(code: u16, answer: &[u8]) -> bool {
    let is_last = |at: usize| at + 2 + usize::from(answer[at + 1]) == answer.len();
    answer.windows(4).enumerate().any(|(at, head)| head[0] == 0x88 && head[2..] == code.to_be_bytes() && is_last(at))
}

/// RFC 6455, 7.1.7: they were cut off without a word, and the system told the client of a reset.
#[test]
fn who_breaks_the_protocol_is_told_how_on_every_socket() {
    let weir = weir();
    prepare(&weir);
    // Twice as long as a message may be, all of which is sent.
    let mut too_long = vec![0x81, 0xff];
    too_long.extend_from_slice(&(8u64 << 20).to_be_bytes());
    too_long.resize(too_long.len() + 4 + (8 << 20), 0);
    let mistakes: [(u16, &[u8]); 3] = [
        // Not masked, and not UTF-8.
        (1002, &[0x81, 1, b'x']),
        (1007, &[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xff]),
        (1009, &too_long),
    ];
    for path in KINDS {
        // There is one upload only.
        let mistakes = if path.ends_with("/up") { &mistakes[2..] } else { &mistakes[..] };
        for (code, frame) in mistakes {
            let mut stream = bare(&weir, path);
            stream.write_all(frame).expect("all of it is read");
            let answer = rest(stream);
            assert!(is_closed_with(*code, &answer), "{path}, {code}: {}", String::from_utf8_lossy(&answer));
        }
    }
    weir.wait_ingest("up", "Failed", PATIENCE);
}

/// The Close had no code: for a client that is none of weir's doing.
#[test]
fn the_end_of_weir_is_told_on_every_socket() {
    let weir = weir();
    prepare(&weir);
    let streams = KINDS.map(|path| {
        let mut stream = bare(&weir, path);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head of an answer");
            head.push(byte[0]);
        }
        (path, stream)
    });
    weir.signal(Signal::TERM);
    for (path, stream) in streams {
        let answer = rest(stream);
        assert!(is_closed_with(1001, &answer), "{path}: {}", String::from_utf8_lossy(&answer));
    }
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success(), "{log}");
}

/// The process ended while the Close lay behind what the client had not taken yet.
#[test]
fn who_takes_what_came_before_late_is_told_of_the_end_of_weir() {
    let weir = weir();
    let query = "MATCH (n) WHERE n.text IS NOT NULL RETURN n.text AS text";
    let body = json!({"name": "long", "pattern": {"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": query}, "outputs": []});
    weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
    let mut stream = bare(&weir, "/api/v1/query/standing/long");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head of an answer");
        head.push(byte[0]);
    }
    // More than the system keeps of a connection.
    let long = "UNWIND range(1, 40) AS n MATCH (a) WHERE id(a) = idFrom('long', n) SET a.text = $text";
    weir.rows_with(long, json!({"text": "x".repeat(1 << 20)}));
    wait_until("results come", PATIENCE, || stream.peek(&mut [0]).is_ok_and(|count| count > 0));
    thread::sleep(Duration::from_millis(500));
    weir.signal(Signal::TERM);
    thread::sleep(Duration::from_secs(1));
    let answer = rest(stream);
    let last = answer.len().saturating_sub(64);
    assert!(is_closed_with(1001, &answer), "{} bytes, at last {}", answer.len(), String::from_utf8_lossy(&answer[last..]));
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success(), "{log}");
}

/// The word was taken off before it was looked whether a table is asked for, and what it stood before ran.
#[test]
fn plans_are_given_where_tables_are_asked_for_and_refused_elsewhere() {
    let weir = weir();
    let made = |weir: &Weir| weir.rows("MATCH (n:Made) RETURN count(n)");
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    for (sort, path) in [("NodeSort", "nodes"), ("EdgeSort", "edges")] {
        for word in ["EXPLAIN", "explain standing", "PROFILE", "/* why */ PROFILE"] {
            let query = format!("{word} CREATE (n:Made) RETURN n");
            let said = answers(&mut socket, &query, sort);
            let text = [("Content-Type", "text/plain")];
            let over_http = weir.send("POST", &format!("/api/v1/query/cypher/{path}"), &text, query.as_bytes()).expect(400);
            let (error, over_http) = (said[0]["error"].as_str().unwrap_or_default(), over_http.json());
            assert!(said.len() == 1 && over_http[0].as_str().is_some_and(|text| error.starts_with(text)), "{query}: {said:?}");
        }
    }
    let explained = answers(&mut socket, "EXPLAIN CREATE (n:Made) RETURN n", "TextSort");
    assert_eq!((&explained[0]["columns"], &explained[1]["columns"]), (&json!(["plan"]), &json!(["plan"])), "{explained:?}");
    assert_eq!(explained[1]["results"][0][0]["isReadOnly"], false, "{explained:?}");
    assert_eq!(made(&weir), [json!([0])], "nothing has run yet");
    // As over HTTP: it runs, and the answer is how.
    let profiled = answers(&mut socket, "PROFILE UNWIND [1, 2] AS i CREATE (n:Made) RETURN i", "TextSort");
    assert_eq!((profiled.len(), &profiled[0]["isReadOnly"]), (3, &json!(false)), "{profiled:?}");
    assert_eq!((&profiled[0]["columns"], &profiled[1]["columns"]), (&json!(["plan"]), &json!(["plan"])), "{profiled:?}");
    let plan = &profiled[1]["results"][0][0];
    assert!(plan["rows"].is_u64() && plan["timeMicros"].is_u64(), "{profiled:?}");
    assert_eq!(made(&weir), [json!([2])]);
    let failed = answers(&mut socket, "PROFILE UNWIND [1, 0] AS i RETURN 1 / i AS x", "TextSort");
    assert_eq!((failed.len(), &failed[1]["type"]), (2, &json!("QueryFailed")), "{failed:?}");
}

/// The socket went on with the graph it had found first.
#[test]
fn a_socket_finds_its_namespace_anew_for_each_message() {
    let weir = weir();
    let text = [("Content-Type", "text/plain")];
    let write = |query: &str| weir.send("POST", "/api/v1/query/cypher?namespace=other", &text, query.as_bytes()).expect(200);
    weir.put("/api/v1/namespace/other").expect(201);
    write("CREATE (:Old)");
    let mut sockets = [("TextSort", "/api/v1/query?namespace=other"), ("Text", "/api/v2/graph/other/query/ws")]
        .map(|(sort, path)| (sort, Socket::open(&weir, path).expect("a socket")));
    let mut editor = Socket::open(&weir, "/api/v1/lsp?namespace=other").expect("a socket");
    let mut ask = |method: &str| {
        editor.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}).to_string());
        editor.expect()
    };
    ask("initialize");
    let mut count = |label: &str| {
        let query = format!("MATCH (n:{label}) RETURN count(n) AS c");
        sockets.iter_mut().map(|(sort, socket)| answers(socket, &query, sort)).collect::<Vec<_>>()
    };
    assert!(count("Old").iter().all(|said| said[1]["results"] == json!([[1]])));
    weir.delete("/api/v1/namespace/other").expect(200);
    for said in count("Old") {
        let error = said[0]["error"].as_str().unwrap_or_default();
        assert!(said.len() == 1 && error.contains("'other' does not exist"), "{said:?}");
    }
    assert_eq!(ask("textDocument/diagnostic")["error"]["code"], -32803);
    weir.put("/api/v1/namespace/other").expect(201);
    write("CREATE (:New)");
    assert!(count("Old").iter().all(|said| said[1]["results"] == json!([[0]])));
    assert!(count("New").iter().all(|said| said[1]["results"] == json!([[1]])));
    // No text is named, which is looked at once the graph is there.
    assert_eq!(ask("textDocument/diagnostic")["error"]["code"], -32602);
}

/// RFC 6455, 5.5.1: who is sent a Close sends one.
#[test]
fn a_close_is_answered_on_every_socket() {
    let weir = weir();
    prepare(&weir);
    for path in KINDS {
        let mut stream = bare(&weir, path);
        // A Close with the code 1000, masked with zeros.
        stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).expect("the connection is open");
        let answer = rest(stream);
        assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(&[0x88, 2, 0x03, 0xe8]), "{path}: {answer:?}");
    }
}

/// They left the count with the task that had accepted them.
#[test]
fn every_socket_is_a_connection_until_it_is_closed() {
    let weir = weir_with(&["-Dweir.webserver.connections-max=1"]);
    prepare(&weir);
    for path in KINDS {
        let socket = Socket::open(&weir, path).expect("a socket");
        let mut other = client::open(weir.address(), "GET", "/api/v2/system/liveness", &[], b"").expect("the system takes it");
        let mut first = [0];
        other.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit of time");
        assert!(other.read(&mut first).is_err(), "{path}: there was room beside the socket");
        drop(socket);
        other.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
        let answer = rest(other);
        assert!(answer.starts_with(b"HTTP/1.1 204 "), "{path}: {}", String::from_utf8_lossy(&answer));
    }
}

/// A client whose machine has gone says nothing, and does not close either.
#[test]
fn who_answers_no_pings_is_gone_on_every_socket() {
    let weir = weir_with(&["-Dweir.query.client-patience=1 s"]);
    prepare(&weir);
    let gone = KINDS.map(|path| (path, bare(&weir, path)));
    let mut listens = Socket::open(&weir, "/api/v2/graph/quine/standingQueries/q:tap").expect("a socket");
    let mut slow = bare(&weir, "/api/v1/query");
    thread::scope(|scope| {
        let heard = scope.spawn(|| listens.expect());
        // A text of which a part comes now and then, for longer than nothing may.
        slow.write_all(&[0x81, 0x80 | 12, 0, 0, 0, 0]).expect("the connection is open");
        for _ in 0..12 {
            thread::sleep(Duration::from_millis(600));
            slow.write_all(b"x").expect("the connection is open");
        }
        for (path, stream) in gone {
            let told = rest(stream);
            assert!(told.starts_with(b"HTTP/1.1 101 ") && told.ends_with(&[0x89, 0, 0x89, 0, 0x89, 0]), "{path}: {told:?}");
        }
        // A Close, so that it ends.
        slow.write_all(&[0x88, 0x80, 0, 0, 0, 0]).expect("the connection is open");
        let told = String::from_utf8_lossy(&rest(slow)).into_owned();
        assert!(told.contains("MessageError"), "{told}");
        weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n.age = 20");
        assert_eq!(heard.join().expect("it is there all the time")["meta"]["isPositiveMatch"], true);
    });
    let failed = weir.wait_ingest("up", "Failed", PATIENCE);
    assert!(failed["message"].as_str().is_some_and(|message| message.contains("nothing comes from the client")), "{failed}");
}

/// Nobody reads the file of a stream that is not started: more than fits was waited with for ever.
#[test]
fn an_upload_ends_with_a_stream_that_never_ran() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=1"]);
    create_upload(&weir);
    weir.stop();
    let weir = home.start(&["-Dweir.workers=1"]);
    assert_eq!(weir.get("/api/v1/ingest/up").expect(200).json()["status"], "Restored");
    let mut socket = Socket::open(&weir, &format!("{STREAMS}/up")).expect("a socket");
    assert_eq!(socket.expect(), json!({"type": "Ack"}));
    // There is room for a megabyte, and so not for the last one.
    for _ in 0..18 {
        socket.send(&"x".repeat(60_000));
    }
    thread::sleep(Duration::from_millis(500));
    weir.delete("/api/v1/ingest/up").expect(200);
    assert_eq!(socket.expect(), json!({"type": "Error", "message": "the stream has ended"}));
    assert_eq!(socket.message(), None);
    weir.stop();
}

/// A browser opens a web socket for any page, wherever that is from.
#[test]
fn pages_from_elsewhere_open_no_sockets_unless_they_are_named() {
    let weir = weir();
    prepare(&weir);
    let own = format!("http://{}", weir.address());
    for path in KINDS {
        for origin in ["http://evil.example", "http://127.0.0.1:1", "null"] {
            let headers = [HANDSHAKE, &[("Origin", origin)][..]].concat();
            let refused = weir.send("GET", path, &headers, b"").expect(403).text();
            assert!(refused.contains(origin) && refused.contains("webserver.allowed-origins"), "{path}: {refused}");
        }
        // Nor has one of these taken the place of the file that is uploaded.
        assert!(Socket::open_with(&weir, path, &[("Origin", own.as_str())]).is_ok(), "{path}");
    }
    assert!(weir.log().contains("http://evil.example"), "{}", weir.log());
    let opens = |weir: &Weir, headers: &[(&str, &str)]| match Socket::open_with(weir, KINDS[0], headers) {
        Ok(_) => true,
        Err(head) => {
            assert!(head.starts_with("HTTP/1.1 403 "), "{headers:?}: {head}");
            false
        }
    };
    // Behind a proxy, which says what it was asked.
    let page = ("Origin", "https://weir.example.com");
    assert!(!opens(&weir, &[page]) && opens(&weir, &[page, ("X-Forwarded-Host", "weir.example.com")]));
    // Anything else is asked as ever: browsers keep the answer to themselves.
    weir.send("GET", "/api/v1/admin/liveness", &[page], b"").expect(204);
    let named = weir_with(&["-Dweir.webserver.allowed-origins=[\"https://weir.example.com\"]"]);
    assert!(opens(&named, &[page]) && !opens(&named, &[("Origin", "http://weir.example.com")]));
    let open = weir_with(&["-Dweir.webserver.allowed-origins=[\"*\"]"]);
    assert!(opens(&open, &[page]) && opens(&open, &[("Origin", "null")]));
}

#[test]
fn results_and_what_flows_through_outputs() {
    let weir = weir();
    let body = json!({"name": "q", "pattern": {"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": "MATCH (n) WHERE n.age > 17 RETURN id(n) AS id, n.age AS age"},
        "outputs": [{"name": "o", "preEnrichmentTransformation": {"type": "InlineData"},
            "resultEnrichment": {"query": "MATCH (n) WHERE id(n) = $that.id RETURN n.name AS name"}, "destinations": [{"type": "Drop"}]}]});
    weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
    let base = "/api/v2/graph/quine/standingQueries/q";
    let mut v1 = Socket::open(&weir, "/api/v1/query/standing/q").expect("a socket");
    let mut raw = Socket::open(&weir, &format!("{base}:tap")).expect("a socket");
    let mut before = Socket::open(&weir, &format!("{base}/outputs/o:tapPreEnrichment")).expect("a socket");
    let mut after = Socket::open(&weir, &format!("{base}/outputs/o:tap")).expect("a socket");
    assert!(Socket::open(&weir, "/api/v1/query/standing/nope").err().is_some_and(|head| head.starts_with("HTTP/1.1 404 ")));
    weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n.age = 20, n.name = 'Ann'");
    for socket in [&mut v1, &mut raw] {
        let result = socket.expect();
        assert_eq!((&result["meta"]["isPositiveMatch"], &result["data"]["age"]), (&json!(true), &json!(20)), "{result}");
    }
    assert_eq!(before.expect()["age"], 20);
    assert_eq!(after.expect(), json!({"name": "Ann"}));
    weir.delete("/api/v1/query/standing/q").expect(200);
    assert_eq!(v1.message(), None);
}
