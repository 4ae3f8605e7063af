//! The web sockets against the real binary: the query protocol of both generations, results, taps.

use std::io::{Read, Write};

use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::service::{Home, Weir};
use weir_tests::socket::Socket;

fn weir() -> Weir {
    Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"])
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
    timed["resultsWithinMillis"] = json!(50);
    let mut nodes = run(1, "MATCH (a) WHERE id(a) = idFrom('w') RETURN a");
    nodes["sort"] = json!("NodeSort");
    let mut past_the_clock = run(1, "RETURN 1 AS i");
    past_the_clock["atTime"] = json!(99_999_999_999_999i64);
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
        (past_the_clock, vec![undecodable("DecodingFailure at .atTime: Value 99999999999999 must be less than system time")]),
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
    socket.send(&run(1, "CALL util.sleep(20000) RETURN 1 AS i").to_string());
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

/// RFC 6455, 5.5.1: who is sent a Close sends one.
#[test]
fn a_close_is_answered_on_every_socket() {
    let weir = weir();
    let body =
        json!({"name": "q", "pattern": {"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n) AS id"}, "outputs": []});
    weir.post("/api/v2/graph/quine/standingQueries", &body).expect(201);
    let upload =
        json!({"name": "up", "query": "RETURN $that", "source": {"type": "WebSocketFileUpload", "format": {"type": "Line"}}});
    weir.post("/api/v2/graph/quine/ingests", &upload).expect(201);
    let mut key = vec![("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13")];
    key.extend([("Upgrade", "websocket"), ("Connection", "Upgrade")]);
    for path in [
        "/api/v1/query",
        "/api/v2/query/ws",
        "/api/v2/lsp",
        "/api/v1/query/standing/q",
        "/api/v2/graph/quine/standingQueries/q:tap",
        "/api/v2/graph/quine/ingests/up",
    ] {
        let mut stream = client::open(weir.address(), "GET", path, &key, b"").expect("weir can be reached");
        // A Close with the code 1000, masked with zeros.
        stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).expect("the connection is open");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("the server closes");
        assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(&[0x88, 2, 0x03, 0xe8]), "{path}: {answer:?}");
    }
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
