//! Queries as a service: bounded, listed, ended, streamed. The real binary, asked over HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::socket::Socket;

const IN_MEMORY: &str = "-Dweir.store.type=in-memory";
/// Machines under load are slow.
const SOON: Duration = Duration::from_secs(60);
const CYPHER: &str = "/api/v1/query/cypher";
const RUNNING: &str = "/api/v1/query/cypher/running";

/// Rows without end, for as long as anybody takes them.
const ENDLESS: &str =
    "UNWIND range(1, 9999) AS x UNWIND range(1, 9999) AS y UNWIND range(1, 9999) AS z RETURN x, y, z, 'some text'";

/// Works without end, and gives nothing.
const SILENT: &str = "UNWIND range(1, 1000000) AS x UNWIND range(1, 1000000) AS y WITH x, y WHERE x + y < 0 RETURN x";

fn start(settings: &[&str]) -> Weir {
    Home::new().start(&[&[IN_MEMORY], settings].concat())
}

fn fill(weir: &Weir, nodes: u64) {
    for from in (0..nodes).step_by(20_000) {
        let to = (from + 20_000).min(nodes) - 1;
        weir.rows(&format!(
            "UNWIND range({from}, {to}) AS i MATCH (n), (m) WHERE id(n) = idFrom(i) AND id(m) = idFrom(i / 2) \
             SET n.i = i CREATE (n)-[:parent]->(m)"
        ));
    }
}

fn error_of(weir: &Weir, query: &str, status: u16) -> String {
    let answer = weir.query(query).expect(status).json();
    answer[0].as_str().unwrap_or_else(|| panic!("{query}: {answer}")).to_owned()
}

/// Sends a query on a connection of its own and leaves the answer there.
fn open(weir: &Weir, query: &str) -> TcpStream {
    let headers = [("Content-Type", "text/plain"), ("User-Agent", "a test")];
    client::open(weir.address(), "POST", CYPHER, &headers, query.as_bytes()).expect("a connection")
}

fn running(weir: &Weir) -> Vec<Json> {
    weir.get(RUNNING).expect(200).json().as_array().cloned().expect("a list")
}

fn wait_idle(weir: &Weir, limit: Duration) {
    wait_until("no query runs any more", limit, || running(weir).is_empty());
}

// ---- bounds

/// What lies within each other as deep as it may is answered, wherever queries are taken; what lies deeper is refused. Nothing
/// ends the process.
#[test]
fn the_deepest_queries_there_are_end_no_thread() {
    let weir = start(&[]);
    let chain = |operators: usize| format!("1{}", " + 1".repeat(operators));
    let nested = |inner: &str| (0..190).fold("1".to_owned(), |within, _| format!("[{within}{inner}][0]"));
    let deepest = [
        format!("{}RETURN {} AS x", "WITH 1 AS x ".repeat(990), chain(1000)),
        format!("WITH {} AS x {}RETURN x", chain(1000), "WITH x ".repeat(990)),
        format!("RETURN {} AS x{}", chain(1000), " UNION ALL RETURN 1 AS x".repeat(990)),
        format!("CALL {{ {}RETURN {} AS x }} {}RETURN x", "WITH 1 AS y ".repeat(500), chain(1000), "WITH x ".repeat(480)),
        format!("RETURN {}", nested(" + 1 + 1")),
        format!("MATCH (n) WHERE n.x = {} RETURN n", chain(990)),
    ];
    for query in &deepest {
        weir.query(query).expect(200);
        weir.query(&format!("EXPLAIN {query}")).expect(200);
        let doing = format!("CALL cypher.doIt({}) YIELD value RETURN count(*)", json!(query));
        weir.query(&doing).expect(200);
        let standing = json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": query}, "outputs": {}});
        let status = weir.post("/api/v1/query/standing/deep", &standing).status;
        assert!([201, 400].contains(&status), "{status}");
        if status == 201 {
            weir.rows("CREATE (:N {x: 1})");
            weir.catch_up();
            weir.delete("/api/v1/query/standing/deep").expect(200);
        }
        let format = json!({"type": "CypherJson", "query": format!("WITH $that AS that {query}")});
        let stream = json!({"type": "NumberIteratorIngest", "ingestLimit": 3, "format": format});
        let status = weir.post("/api/v1/ingest/deep", &stream).status;
        assert!([200, 400].contains(&status), "{status}");
        if status == 200 {
            wait_until("the stream ends", SOON, || weir.get("/api/v1/ingest/deep").expect(200).json()["status"] == "Completed");
            weir.delete("/api/v1/ingest/deep").expect(200);
        }
    }
    let beyond = [
        format!("RETURN 1{}{}", "*1".repeat(950), " + 1".repeat(950)),
        format!("RETURN {}", nested(&" + 1".repeat(10))),
        format!("RETURN 1 AS x{}", " UNION ALL RETURN 1 AS x".repeat(2_400)),
        (0..10)
            .fold("RETURN 1 AS x".to_owned(), |within, _| format!("{}CALL {{ {within} }} RETURN x", "WITH 1 AS y ".repeat(900))),
        format!("RETURN {}", (0..150).fold("1".to_owned(), |within, _| format!("(1 <= {within} <= 1)"))),
        format!("{}RETURN 1", format!("MATCH (a){} ", "-->()".repeat(990)).repeat(6)),
        format!("{}RETURN 1", format!("MATCH (a){} ", "-->()".repeat(10)).repeat(990)),
        format!("{}RETURN 1", "OPTIONAL MATCH (a)-->()-->()-->() ".repeat(900)),
    ];
    for query in beyond {
        let message = error_of(&weir, &query, 400);
        assert!(message.contains("within each other") || message.contains("at most") || message.contains("nested"), "{message}");
    }
    weir.stop();
}

/// A row that goes through more patterns than the stack of its thread holds fails, and nothing else does: not the process, and
/// not the next start, where a standing query does it. Here threads have less than weir gives them otherwise.
#[test]
fn patterns_that_are_too_deep_for_a_thread_end_their_query_alone() {
    let home = Home::new();
    let start = || home.start_with(&[("RUST_MIN_STACK", "3145728")], &[]);
    let weir = start();
    weir.rows(
        "UNWIND range(0, 1100) AS i MATCH (a), (b) WHERE id(a) = idFrom(i) AND id(b) = idFrom(i + 1) CREATE (a)-[:next]->(b)",
    );
    let anchor = "MATCH (a) WHERE id(a) = idFrom(0)";
    let path = |hops: usize| format!("MATCH (a){} ", "-->()".repeat(hops));
    let deep = path(900).repeat(3);
    let standing = format!("MATCH (a:Start) RETURN id(a) AS a, COUNT {{ {}RETURN 1 }} AS count", path(900).repeat(2));
    let standing = json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": standing}, "outputs": {}});
    weir.post("/api/v1/query/standing/deep", &standing).expect(201);
    for text in ["RETURN count(*) AS n", "SET a.x = 1"] {
        let message = error_of(&weir, &format!("{anchor} {deep}{text}"), 400);
        assert!(message.contains("the stack of a thread"), "{message}");
    }
    assert_eq!(weir.rows(&format!("{anchor} {}RETURN count(*), a.x", path(300))), [json!([1, null])]);
    weir.rows(&format!("{anchor} SET a:Start"));
    let told = |weir: &Weir| weir.log().contains("a standing query leaves out") && weir.log().contains("the stack of a thread");
    wait_until("the row is left out", SOON, || told(&weir));
    assert_eq!(weir.rows(&format!("{anchor} RETURN labels(a)")), [json!([["Start"]])]);
    weir.stop();
    let weir = start();
    weir.catch_up();
    assert_eq!(weir.rows(&format!("{anchor} RETURN labels(a)")), [json!([["Start"]])]);
    weir.stop();
}

#[test]
fn queries_that_would_take_everything_end_with_the_name_of_their_limit() {
    // Filled without a limit of time, which a busy machine would come to.
    let home = Home::new();
    let weir = home.start(&[]);
    fill(&weir, 100_000);
    weir.stop();
    let weir = home.start(&["-Dweir.query.timeout=1 s", "-Dweir.query.memory-bytes-max=33554432"]);
    for query in [
        "MATCH (a), (b), (c) RETURN count(*)",
        "MATCH (a)-[*]-(b) RETURN count(*)",
        "MATCH (a), (b) WHERE a.i + b.i < 0 SET a.x = 1",
        "UNWIND range(1, 1000000) AS x UNWIND range(1, 1000000) AS y RETURN sum(x * y)",
    ] {
        takes_at_most(query, Duration::from_secs(5), || {
            let began = Instant::now();
            let error = error_of(&weir, query, 400);
            assert!(error.contains("`query.timeout`") || error.contains("`query.memory-bytes-max`"), "{query}: {error}");
            began.elapsed()
        });
    }
    weir.stop();
    // With time enough to come to the limit of memory also where others use the machine.
    let weir = start(&["-Dweir.query.timeout=30 s", "-Dweir.query.memory-bytes-max=33554432"]);
    fill(&weir, 100_000);
    let before = weir.resident_megabytes();
    for query in [
        "RETURN range(1, 10000000)",
        "UNWIND range(1, 1500) AS x UNWIND range(1, 1500) AS y RETURN collect(x * y) AS l",
        "UNWIND range(1, 900) AS x UNWIND range(1, 900) AS y RETURN x * 1000 + y AS group, count(*)",
        "RETURN reduce(s = 'x', x IN range(1, 60) | s + s)",
        "RETURN reduce(l = [1], x IN range(1, 60) | [l, l])",
        "MATCH (n) WITH collect(n) AS l RETURN [x IN range(1, 9) | l]",
        "MATCH (n) SET n.x = 1, n.y = 'a text of some length', n.z = 2 RETURN n",
    ] {
        let error = error_of(&weir, query, 400);
        assert!(error.contains("`query.memory-bytes-max` is 33554432"), "{query}: {error}");
    }
    assert!(error_of(&weir, "RETURN range(1, 1000000000000)", 400).contains("at most"));
    assert!(error_of(&weir, "RETURN reduce(l = [], x IN range(1, 100000) | [l])", 400).contains("levels deep"));
    let grown = weir.resident_megabytes().saturating_sub(before);
    assert!(grown < 400, "the process grew by {grown} MB");
    // A client may allow less. What it may not have is told as the reference does.
    let answer = weir.send("POST", &format!("{CYPHER}?timeout=50"), &[("Content-Type", "text/plain")], SILENT.as_bytes());
    assert_eq!(answer.expect(500).json(), json!(["The stream has not been completed in 50 milliseconds."]));
    assert_eq!(weir.rows("MATCH (n) WHERE n.x = 1 RETURN count(n)"), [json!([0])]);
}

/// Their client was told that they failed, and they were made all the same.
#[test]
fn changes_that_cannot_be_called_off_are_waited_for() {
    const NODES: u64 = 200_000;
    let weir = start(&["-Dweir.webserver.request-timeout=50 ms"]);
    let cut = weir.query("CALL util.sleep(5000) RETURN 1").expect(500).json();
    assert_eq!(cut, json!(["The stream has not been completed in 50 milliseconds."]));
    let line =
        |n: u64| format!("{{\"type\":\"node\",\"id\":\"00000000-0000-0000-0000-{n:012x}\",\"properties\":{{\"n\":{n}}}}}\n");
    let lines: String = (0..NODES).map(line).collect();
    let began = Instant::now();
    let answer = weir.send("POST", "/api/v1/admin/import", &[("Content-Type", "text/plain")], lines.as_bytes());
    assert_eq!(answer.expect(200).json()["nodes"], NODES);
    assert!(began.elapsed() > Duration::from_millis(50), "that is no test");
}

// ---- running queries

#[test]
fn running_queries_are_listed_and_ended() {
    let weir = start(&[]);
    assert_eq!(running(&weir), Vec::<Json>::new());
    let mut silent = open(&weir, SILENT);
    wait_until("the query is listed", SOON, || running(&weir).len() == 1);
    let listed = running(&weir).remove(0);
    assert_eq!(
        (&listed["query"], &listed["namespace"], &listed["userAgent"]),
        (&json!(SILENT), &json!("quine"), &json!("a test"))
    );
    assert!(listed["remoteAddress"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")), "{listed}");
    assert!(listed["startTime"].is_string() && listed["runningMillis"].is_u64() && listed["rows"] == 0, "{listed}");
    let id = listed["id"].as_str().expect("an id");
    let enveloped = weir.get("/api/v2/cypher-queries/running").expect(200).json();
    assert_eq!(enveloped["content"][0]["id"], *id);
    let ended = weir.delete(&format!("{RUNNING}/{id}")).expect(200).json();
    assert_eq!((&ended["id"], &ended["cancelled"]), (&json!(id), &json!(true)));
    let mut answer = String::new();
    silent.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("was cancelled"), "{answer}");
    assert_eq!(running(&weir), Vec::<Json>::new());
    takes_at_most("the end of a query", Duration::from_secs(1), || {
        let mut silent = open(&weir, SILENT);
        wait_until("the query is listed", SOON, || running(&weir).len() == 1);
        let id = running(&weir)[0]["id"].as_str().expect("an id").to_owned();
        let began = Instant::now();
        weir.delete(&format!("{RUNNING}/{id}")).expect(200);
        silent.read_to_end(&mut Vec::new()).expect("an answer");
        began.elapsed()
    });
    assert_eq!(weir.delete(&format!("{RUNNING}/{id}")).expect(404).text(), "");
    assert_eq!(weir.delete(&format!("{RUNNING}/x")).expect(404).text(), "");
    let gone = weir.delete(&format!("/api/v2/cypher-queries/running/{id}")).expect(404).json();
    assert_eq!(gone["errors"][0]["type"], "ApiError");
}

/// Of a client that had sent more than its request, an empty line or another request, it was not noticed that it left.
#[test]
fn a_query_ends_with_its_client_whatever_else_that_has_sent() {
    let weir = start(&[]);
    let head = format!("POST {CYPHER} HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\nContent-Length: {}", SILENT.len());
    for behind in ["", "\r\n", "GET /api/v1/admin/liveness HTTP/1.1\r\nHost: weir\r\n\r\n"] {
        for half in [false, true] {
            let mut stream = TcpStream::connect(weir.address()).expect("a connection");
            stream.set_read_timeout(Some(SOON)).expect("a limit");
            stream.write_all(format!("{head}\r\n\r\n{SILENT}{behind}").as_bytes()).expect("a request");
            wait_until("the query is listed", SOON, || running(&weir).len() == 1);
            // Who closes the sending side alone is taken for gone, too.
            if half {
                stream.shutdown(Shutdown::Write).expect("it is open");
                let mut answer = Vec::new();
                // What is left unread of what it has sent may break it off.
                let _ = stream.read_to_end(&mut answer);
                assert_eq!(answer, b"", "{behind:?}");
            } else {
                drop(stream);
            }
            wait_idle(&weir, Duration::from_secs(10));
        }
    }
}

#[test]
fn running_queries_are_listed_and_ended_in_cypher() {
    let weir = start(&["-Dweir.query.running-max=1"]);
    assert_eq!(weir.rows("SHOW QUERIES"), Vec::<Json>::new());
    let mut silent = open(&weir, SILENT);
    wait_until("the query is listed", SOON, || running(&weir).len() == 1);
    // There is no place to run in any more, and neither needs one.
    let listed = weir.query("SHOW QUERIES").expect(200).json();
    assert_eq!(
        listed["columns"],
        json!(["id", "query", "namespace", "startTime", "runningMillis", "rows", "cancelled", "userAgent", "remoteAddress"])
    );
    let id = listed["results"][0][0].as_str().expect("an id").to_owned();
    assert_eq!(weir.rows("SHOW QUERIES YIELD query, userAgent AS agent"), [json!([SILENT, "a test"])]);
    let none = "No query with this id runs";
    assert_eq!(weir.rows("TERMINATE QUERIES '999999', 'x'"), [json!(["999999", null, none]), json!(["x", null, none])]);
    assert_eq!(weir.rows(&format!("TERMINATE QUERY '{id}' YIELD query")), [json!([SILENT])]);
    let mut answer = String::new();
    silent.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("was cancelled"), "{answer}");
    assert_eq!(weir.rows(&format!("TERMINATE QUERY {id}")), [json!([id, null, none])]);
    assert!(error_of(&weir, "TERMINATE QUERY", 400).contains("SyntaxError"));
}

/// The answer is a long one: nothing is done twice for that, and nothing waited for.
#[test]
fn many_queries_are_ended_once_and_without_a_place_to_run_in() {
    let weir = start(&["-Dweir.query.running-max=1"]);
    let mut silent = open(&weir, SILENT);
    wait_until("the query is listed", SOON, || running(&weir).len() == 1);
    let id = running(&weir)[0]["id"].as_str().expect("an id").to_owned();
    weir.query("PROFILE SHOW QUERIES").expect(200);
    let others: String = (1_000_000..1_008_000).map(|other| format!(", '{other}'")).collect();
    let told = weir.rows(&format!("TERMINATE QUERIES '{id}'{others}"));
    assert_eq!((told.len(), &told[0]), (8_001, &json!([id, SILENT, "It is told to end"])));
    let mut answer = String::new();
    silent.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("was cancelled"), "{answer}");
}

/// Sorting a million rows takes a good while of its own, in which nothing is visited.
#[test]
fn a_sort_ends_midway() {
    let weir = start(&[]);
    takes_at_most("a sort's end", Duration::from_millis(700), || {
        let mut stream = open(&weir, "UNWIND range(1, 1000000) AS x RETURN x ORDER BY (x * 7919) % 1000003 DESC, x LIMIT 900000");
        wait_until("the query is listed", SOON, || running(&weir).len() == 1);
        let id = running(&weir)[0]["id"].as_str().expect("an id").to_owned();
        thread::sleep(Duration::from_millis(300));
        weir.delete(&format!("{RUNNING}/{id}"));
        let began = Instant::now();
        let mut answer = String::new();
        // A part of the rows may have left on a fast machine: then the connection breaks off.
        let _ = stream.read_to_string(&mut answer);
        wait_idle(&weir, SOON);
        began.elapsed()
    });
}

#[test]
fn what_all_queries_hold_together_is_bounded_and_who_asks_for_more_is_told() {
    let weir = start(&["-Dweir.query.all-memory-bytes-max=48 MiB", "-Dweir.query.memory-bytes-max=40 MiB"]);
    // Some 30 MB: one fits, two do not.
    let (text, before) = ("a text of a hundred letters ".repeat(4), weir.resident_megabytes());
    let large = format!("UNWIND range(1, 250000) AS x WITH collect('{text}' + x) AS l");
    let stream = open(&weir, &format!("{large} CALL util.sleep(100000) RETURN size(l)"));
    let large = &format!("{large} RETURN size(l)");
    wait_until("the first holds its rows", SOON, || weir.resident_megabytes() >= before + 40);
    let error = error_of(&weir, large, 400);
    assert!(error.contains("`query.all-memory-bytes-max` is 50331648"), "{error}");
    // The one that was there goes on, and what is small needs no room.
    assert_eq!(running(&weir).len(), 1);
    assert_eq!(weir.rows("UNWIND [3, 1, 2] AS x RETURN collect(x) AS l"), [json!([[3, 1, 2]])]);
    drop(stream);
    wait_idle(&weir, SOON);
    assert_eq!(weir.rows(large), [json!([250_000])]);
}

#[test]
fn plans_name_indexes_and_what_a_query_needs() {
    let weir = start(&[]);
    weir.rows("UNWIND range(1, 100) AS i CREATE (:P {name: i})");
    weir.rows("CREATE INDEX names FOR (n:P) ON (n.name)");
    let query = "WITH $that AS row MATCH (n:P {name: row.id}), (m) WHERE id(m) = idFrom('x', row.key.a) RETURN n, m";
    let body = |word: &str| json!({"text": format!("{word} {query}"), "parameters": {"that": {"id": 7, "key": {"a": 1}}}});
    let by = "by the index names of :P(name)";
    let plan = weir.post(CYPHER, &body("EXPLAIN")).expect(200).json()["results"][0][0].clone();
    let text = plan["args"]["plan"].as_str().expect("a text").to_owned();
    assert!(text.contains(by) && text.contains("Parameter $that: id, key.a\n"), "{text}");
    assert_eq!(plan["parameterFields"], json!({"that": ["id", "key.a"]}));
    assert_eq!(plan["nodesById"], json!(["idFrom(\"x\", $that.key.a)"]));
    assert!(plan["args"]["way"].as_str().is_some_and(|way| way.contains(by)), "{plan}");
    let plan = weir.post(CYPHER, &body("PROFILE")).expect(200).json()["results"][0][0].clone();
    let text = plan["args"]["plan"].as_str().expect("a text");
    assert!(text.contains(by) && text.contains(" rows, "), "{text}");
}

#[test]
fn a_call_that_stands_alone_takes_optional_arguments_from_parameters_too() {
    let weir = start(&[]);
    let node = weir.rows("RETURN idFrom('counted')")[0][0].clone();
    let text = "// One more.\n call int.add";
    for (parameters, sum) in [
        (json!({"node": node, "key": "q", "add": 5}), 5),
        (json!({"node": node, "key": "q"}), 6),
        (json!({"key": "q", "add": 2, "node": node, "unused": 1}), 8),
    ] {
        assert_eq!(weir.rows_with(text, parameters), [json!([sum])]);
    }
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    let parameters = json!({"node": node, "key": "q", "add": 10.0});
    let asked = json!({"type": "RunQuery", "queryId": 1, "query": text, "sort": "TextSort", "parameters": parameters, "language": "Cypher"});
    socket.send(&asked.to_string());
    assert_eq!(socket.expect()["type"], "QueryStarted");
    assert_eq!(socket.expect()["results"], json!([[18]]));
}

#[test]
fn what_a_text_would_be_maintained_by_is_shown_without_a_standing_query() {
    let weir = start(&[]);
    let asked = |text: &str| weir.post(CYPHER, &json!({"text": text}));
    let plan =
        asked(" explain Standing\nMATCH (a:A)-[:r]->(b) WHERE b.x = 1 RETURN DISTINCT id(a)").expect(200).json()["results"][0][0]
            .clone();
    let text = plan["args"]["plan"].as_str().expect("a text").to_owned();
    assert!(text.contains("DistinctId") && text.contains("Changes of "), "{text}");
    assert!(plan["inputs"][0]["title"].is_string(), "{plan}");
    let query = "MATCH (a)-[:r]->(b) RETURN a.x AS x, count(*) AS c";
    let shown = asked(&format!("EXPLAIN STANDING {query}")).expect(200).json()["results"][0][0]["args"].clone();
    assert!(shown["plan"].as_str().is_some_and(|text| text.contains("AnyQuery")), "{shown}");
    // It is the plan of the query, once there is one.
    let body = json!({"pattern": {"type": "Cypher", "query": query}, "outputs": {}});
    weir.post("/api/v1/query/standing/counts", &body).expect(201);
    let of_query = weir.get("/api/v1/query/standing/counts/plan?format=text").expect(200).text();
    let drawn_of_query = weir.get("/api/v1/query/standing/counts/plan?format=mermaid").expect(200).text();
    assert_eq!(shown, json!({"plan": of_query, "mermaid": drawn_of_query}));
    let refused = asked("EXPLAIN STANDING MATCH (n) WHERE n.x > rand() RETURN n.x AS x").expect(400).text();
    assert!(refused.contains("rand"), "{refused}");
    // A word like another where it stands for nothing else.
    assert_eq!(weir.rows("RETURN 1 AS standing"), [json!([1])]);
}

#[test]
fn queries_end_when_their_client_goes() {
    let weir = start(&[]);
    let writing = SILENT.replace("RETURN x", "CREATE (n {x: x})");
    for query in [SILENT, ENDLESS, "CALL util.sleep(100000)", &writing] {
        // Some of that is this test's own looking.
        takes_at_most(query, Duration::from_millis(400), || {
            let stream = open(&weir, query);
            wait_until("the query is listed", SOON, || running(&weir).len() == 1);
            let began = Instant::now();
            drop(stream);
            wait_idle(&weir, SOON);
            began.elapsed()
        });
    }
}

/// They got their place in their turn, ran and committed, and a limit of time was kept by those alone that ran.
#[test]
fn what_waits_for_a_place_ends_when_it_is_told_to_and_when_its_time_is_over() {
    let weir = start(&["-Dweir.query.running-max=1"]);
    let mut silent = open(&weir, SILENT);
    wait_until("the query is listed", SOON, || running(&weir).len() == 1);
    let end = |place: usize| {
        let id = running(&weir)[place]["id"].as_str().expect("an id").to_owned();
        weir.delete(&format!("{RUNNING}/{id}")).expect(200);
    };
    let mut waits = open(&weir, "CALL util.sleep(1) CREATE (w:W) RETURN 1 AS i");
    wait_until("the other one is listed", SOON, || running(&weir).len() == 2);
    end(1);
    let mut answer = String::new();
    waits.read_to_string(&mut answer).expect("an answer while the first one runs");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("was cancelled"), "{answer}");
    let text = [("Content-Type", "text/plain")];
    let late = weir.send("POST", &format!("{CYPHER}?timeout=500"), &text, b"CALL util.sleep(1) RETURN 1 AS i");
    assert!(late.status != 200 && late.text().contains("500 milliseconds"), "{}", late.shown());
    assert_eq!(running(&weir).len(), 1);
    end(0);
    silent.read_to_string(&mut answer).expect("an answer");
    wait_idle(&weir, SOON);
    assert_eq!(weir.rows("MATCH (w:W) RETURN count(w)"), [json!([0])]);
}

/// The time in which its client has to take the rows began before it waited: one that took them all was told it had not.
#[test]
fn what_a_query_waits_for_its_place_is_not_taken_from_its_client() {
    let weir = start(&["-Dweir.query.running-max=1", "-Dweir.query.timeout=8 s"]);
    let before = [1, 2].map(|count| {
        let sleeps = open(&weir, "CALL util.sleep(5000)");
        wait_until("the query is listed", SOON, || running(&weir).len() == count);
        sleeps
    });
    let some = "x".repeat(100);
    assert_eq!(weir.rows(&format!("UNWIND range(1, 200000) AS i RETURN i, '{some}' AS some")).len(), 200_000);
    drop(before);
}

#[test]
fn only_so_many_run_at_a_time_and_the_others_wait() {
    let weir = start(&["-Dweir.query.running-max=1"]);
    let first = open(&weir, SILENT);
    wait_until("the query is listed", SOON, || running(&weir).len() == 1);
    let second = open(&weir, "MATCH (n) RETURN count(n)");
    wait_until("the other is listed", SOON, || running(&weir).len() == 2);
    // What is over in no time needs no place, and what can be asked of the service needs none either.
    assert_eq!(weir.rows("RETURN 1"), [json!([1])]);
    assert_eq!(running(&weir).len(), 2);
    drop(first);
    wait_idle(&weir, SOON);
    drop(second);
}

/// One line each, of what took long: over HTTP, over a web socket, or until somebody ended it. Parameters are not told.
#[test]
fn slow_queries_are_logged() {
    // Long enough that what is quick stays below it on a busy machine, too.
    let weir = start(&["-Dweir.query.slow-after=3 s", "-Dweir.log.format=json"]);
    let lines = || -> Vec<Json> {
        let all = weir.log().lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()).collect::<Vec<_>>();
        all.into_iter().filter(|line| line["target"] == "weir::slow_query").collect()
    };
    let wait_line = |number: usize| -> Json {
        wait_until("the line is in the log", SOON, || lines().len() >= number);
        let line = lines().remove(number - 1);
        assert_eq!(line["level"], "WARN", "{line}");
        line["fields"].clone()
    };
    weir.put("/api/v1/namespace/other").expect(201);
    let slow = "CALL util.sleep(3400) UNWIND [$p, 2] AS x RETURN x";
    let body = json!({"text": slow, "parameters": {"p": "hush"}});
    weir.post(&format!("{CYPHER}?namespace=other"), &body).expect(200);
    let line = wait_line(1);
    assert_eq!(line["message"], format!("a query took long: {slow}"));
    assert_eq!((&line["namespace"], &line["rows"], &line["cancelled"]), (&json!("other"), &json!(2), &json!(false)));
    assert!(line["millis"].as_u64().is_some_and(|millis| (3_400..60_000).contains(&millis)), "{line}");
    weir.rows("RETURN 'quick'");
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    let asked = json!({"type": "RunQuery", "queryId": 1, "query": "CALL util.sleep(3401)", "sort": "TextSort", "parameters": {}, "language": "Cypher"});
    socket.send(&asked.to_string());
    assert_eq!(wait_line(2)["message"], "a query took long: CALL util.sleep(3401)");
    let waiting = open(&weir, SILENT);
    wait_until("it runs long enough", SOON, || {
        running(&weir)
            .iter()
            .any(|query| query["query"] == SILENT && query["runningMillis"].as_u64().is_some_and(|so_far| so_far > 3_000))
    });
    let id = running(&weir)[0]["id"].as_str().expect("an id").to_owned();
    weir.delete(&format!("{RUNNING}/{id}")).expect(200);
    let line = wait_line(3);
    assert_eq!((&line["message"], &line["cancelled"]), (&json!(format!("a query took long: {SILENT}")), &json!(true)));
    assert_eq!(line["id"].to_string(), id);
    drop(waiting);
    assert!(!weir.log().contains("'quick'") && !weir.log().contains("hush"), "{}", weir.log());
    assert_eq!(lines().len(), 3);
}

// ---- streaming

#[test]
fn rows_leave_from_the_first_on_and_memory_stays() {
    let weir = start(&[]);
    let query = "UNWIND range(1, 1000) AS x UNWIND range(1, 1000) AS y RETURN x * 1000 + y AS n, 'some text to carry around'";
    let begin = || {
        let mut stream = open(&weir, query);
        let mut first = [0; 1];
        stream.read_exact(&mut first).expect("an answer");
        stream
    };
    takes_at_most("the first row", Duration::from_millis(200), || {
        let began = Instant::now();
        drop(begin());
        began.elapsed()
    });
    wait_idle(&weir, SOON);
    let before = weir.resident_megabytes();
    let mut stream = begin();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the whole answer");
    let text = String::from_utf8_lossy(&rest);
    assert!(text.to_ascii_lowercase().contains("transfer-encoding: chunked"));
    assert!(weir.resident_megabytes().saturating_sub(before) < 60, "{} MB before, {} now", before, weir.resident_megabytes());
    let whole = weir.query(query).expect(200).json();
    assert_eq!(whole["results"].as_array().map(Vec::len), Some(1_000_000));
    assert_eq!(whole["results"][999_999], json!([1_001_000, "some text to carry around"]));
}

#[test]
fn a_failure_among_the_rows_keeps_its_status_or_breaks_the_answer() {
    let weir = start(&[]);
    let early = "UNWIND range(1, 100) AS x RETURN 1 / (x - 100)";
    assert!(error_of(&weir, early, 400).contains("ArithmeticError"));
    let late = "UNWIND range(1, 1000) AS x UNWIND range(1, 1000) AS y RETURN 1 / (x * 1000 + y - 901000)";
    let headers = [("Content-Type", "text/plain")];
    let broken = weir.try_send("POST", CYPHER, &headers, late.as_bytes());
    assert!(broken.is_err(), "a part was taken for the whole");
    wait_idle(&weir, SOON);
}

#[test]
fn clients_that_take_nothing_are_waited_for_in_bounds() {
    // Long enough that all of them run when they are looked for, also on a busy machine.
    let weir = start(&["-Dweir.query.client-patience=10 s"]);
    let before = weir.resident_megabytes();
    let streams: Vec<TcpStream> = (0..10).map(|_| open(&weir, ENDLESS)).collect();
    wait_until("they run", SOON, || running(&weir).len() == 10);
    assert!(weir.resident_megabytes().saturating_sub(before) < 200);
    wait_idle(&weir, SOON);
    drop(streams);
}

// ---- outgoing requests

/// A web server that counts its requests, and changes what the query reads before it answers.
#[test]
fn a_query_that_loses_its_race_asks_the_web_server_once() {
    let weir = start(&[]);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('counter') SET n.x = 0");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/rows", listener.local_addr().expect("an address"));
    let address = weir.address();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let _ = stream.read(&mut [0; 4096]);
        let disturb = b"MATCH (n) WHERE id(n) = idFrom('counter') SET n.x = 10";
        client::send(address, "POST", CYPHER, &[("Content-Type", "text/plain")], disturb).expect("an answer");
        let body = "{\"add\": 1}\n{\"add\": 2}\n";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
        // Nobody else is answered: a second request would fail the query.
    });
    let query = format!(
        "MATCH (n) WHERE id(n) = idFrom('counter') WITH n, n.x AS x CALL loadJsonLines('{url}') YIELD value \
         WITH n, x, sum(value.add) AS more SET n.x = x + more RETURN n.x"
    );
    assert_eq!(weir.rows(&query), [json!([13])]);
    server.join().expect("the server ends");
}

#[test]
fn only_allowed_hosts_are_asked() {
    let weir = start(&["-Dweir.outgoing-http.allowed-hosts=[\"localhost:9\", \"*.example.com\"]"]);
    for query in [
        "LOAD CSV FROM 'http://127.0.0.1:9/x' AS row RETURN row",
        "CALL loadJsonLines('http://169.254.169.254/latest/meta-data') YIELD value RETURN value",
    ] {
        let error = error_of(&weir, query, 400);
        assert!(error.contains("outgoing-http.allowed-hosts"), "{error}");
    }
    assert!(!error_of(&weir, "LOAD CSV FROM 'http://localhost:9/x' AS row RETURN row", 400).contains("allowed-hosts"));
    let standing = json!({"pattern": {"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"},
        "outputs": {"hook": {"type": "PostToEndpoint", "url": "http://127.0.0.1:9/"}}});
    let refused = |path: &str, body: Json| {
        let refused = weir.post(path, &body).expect(400).text();
        assert!(refused.contains("outgoing-http.allowed-hosts"), "{body}: {refused}");
    };
    refused("/api/v1/query/standing/x", standing);
    let cypher = json!({"type": "CypherJson", "query": "RETURN $that"});
    let url = "http://127.0.0.1:9/";
    for source in [
        json!({"type": "ServerSentEventsIngest", "url": url, "format": cypher}),
        json!({"type": "WebsocketSimpleStartupIngest", "url": "ws://127.0.0.1:9/", "initMessages": [], "format": cypher}),
    ] {
        refused("/api/v1/ingest/x", source);
    }
    let numbers = json!({"type": "NumberIterator", "limit": 1});
    let dead = json!({"deadLetterQueueSettings": {"destinations": [{"type": "HttpEndpoint", "url": url}]}});
    let stream = json!({"name": "x", "source": numbers, "query": "RETURN $that", "onRecordError": dead});
    refused("/api/v2/graph/quine/ingests", stream);
    for destination in [json!({"type": "Slack", "hookUrl": url}), json!({"type": "HttpEndpoint", "url": url})] {
        let output = json!({"name": "o", "destinations": [destination]});
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        refused("/api/v2/standing-queries", json!({"name": "x", "pattern": pattern, "outputs": [output]}));
    }
    assert_eq!((weir.get("/api/v1/ingest").json(), weir.get("/api/v1/query/standing").json()), (json!({}), json!([])));
}

// ---- bad input

#[test]
fn bodies_made_to_take_long_are_refused_soon() {
    let weir = start(&[]);
    let send = |kind: &str, body: &[u8]| {
        let mut told = String::new();
        takes_at_most(kind, Duration::from_secs(5), || {
            let began = Instant::now();
            let answer = weir.send("POST", CYPHER, &[("Content-Type", kind)], body);
            let took = began.elapsed();
            told = answer.expect(400).text();
            took
        });
        told
    };
    assert!(send("text/plain", "x ".repeat(10_000_000).as_bytes()).contains("query.text-bytes-max"));
    assert!(send("application/yaml", "[".repeat(1_000_000).as_bytes()).contains("brackets"));
    assert!(send("application/yaml", &[b'x'; 5 << 20]).contains("send JSON"));
    assert!(send("application/yaml", "- ".repeat(500_000).as_bytes()).contains("ParsingFailure"));
    let levels = (0..12u8).map(|n| {
        let (here, below) = (char::from(b'b' + n), char::from(b'a' + n));
        format!("{here}: &{here} [{}]\n", vec![format!("*{below}"); 9].join(","))
    });
    let bomb = format!("a: &a [x,x,x,x,x,x,x,x,x]\n{}", levels.collect::<String>());
    assert!(send("application/yaml", bomb.as_bytes()).contains("Failure"));
    let deep = format!("{{\"text\":\"RETURN 1\",\"parameters\":{{\"a\":{}", "[".repeat(1_000_000));
    assert!(send("application/json", deep.as_bytes()).contains("recursion limit"));
    assert!(send("text/plain", b"RETURN '\xff'").contains("UTF-8"));
    let keys: Vec<String> = (0..200_000).map(|n| format!("\"k{n}\":{n}")).collect();
    let many = format!("{{\"text\":\"RETURN size(keys($p))\",\"parameters\":{{\"p\":{{{}}}}}}}", keys.join(","));
    let answer = weir.send("POST", CYPHER, &[("Content-Type", "application/json")], many.as_bytes());
    assert_eq!(answer.expect(200).json()["results"], json!([[200_000]]));
}

/// Each takes a moment, and minutes where each parameter is looked for among all the others, or in the whole text.
#[test]
fn queries_with_very_many_parameters_are_answered_soon() {
    let weir = start(&[]);
    let names: Vec<String> = (0..80_000).map(|n| format!("p{n}")).collect();
    let text = format!("RETURN size([${}])", names.join(",$"));
    let send = |given: &[String]| {
        let given: serde_json::Map<String, Json> = given.iter().map(|name| (name.clone(), json!(1))).collect();
        let body = json!({"text": text, "parameters": given});
        let mut answer = None;
        takes_at_most("an answer", Duration::from_secs(5), || {
            let began = Instant::now();
            answer = Some(weir.post(CYPHER, &body));
            began.elapsed()
        });
        answer.expect("one that was tried")
    };
    assert_eq!(send(&names).expect(200).json()["results"], json!([[80_000]]));
    let told = send(&[]).expect(400).json();
    assert_eq!(told.as_array().map(Vec::len), Some(50), "as of all errors of a text");
    let second = "CompileError at 1.18 Unknown parameter `p1`";
    assert!(told[1].as_str().is_some_and(|error| error.starts_with(second)), "{}", told[1]);
    let told = send(&names[..names.len() - 1]).expect(400).json();
    assert_eq!(told.as_array().map(Vec::len), Some(1));
    assert!(told[0].as_str().is_some_and(|error| error.contains("Unknown parameter `p79999`")), "{}", told[0]);
}

#[test]
fn the_texts_of_queries_that_stay_are_bounded_too_but_not_at_a_restart() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.query.text-bytes-max=300"]);
    let long = |query: &str| format!("{query}{}", " ".repeat(400));
    let ids = "MATCH (n) RETURN DISTINCT id(n)";
    let pattern = |query: &str| json!({"type": "Cypher", "query": query});
    let enriched = |query: &str| {
        let cypher = json!({"query": query, "parameter": "that"});
        json!({"name": "q", "resultEnrichment": cypher, "destinations": [{"type": "Drop"}]})
    };
    let inner = json!({"type": "CypherQuery", "query": long("RETURN 1 AS x"), "andThen": {"type": "PrintToStandardOut"}});
    let outer = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": inner});
    let numbers = json!({"type": "NumberIteratorIngest", "startAtOffset": 0, "ingestLimit": 1});
    let mut stream = json!({"format": {"type": "CypherJson", "query": long("RETURN $that")}});
    stream.as_object_mut().expect("an object").extend(numbers.as_object().expect("an object").clone());
    let named = |query: &str| json!({"name": "x", "source": {"type": "NumberIterator", "limit": 1}, "query": query});

    let short = json!({"pattern": pattern(ids), "outputs": {"o": {"type": "Drop"}}});
    weir.post("/api/v1/query/standing/short", &short).expect(201);
    let v1 = "/api/v1/query/standing/x";
    let current = "/api/v2/graph/quine/standingQueries";
    let of_v2 = |query: &str, outputs: Json| json!({"name": "x", "pattern": pattern(query), "outputs": outputs});
    for (method, place, body) in [
        ("POST", v1, json!({"pattern": pattern(&long(ids)), "outputs": {}})),
        ("POST", v1, json!({"pattern": pattern(ids), "outputs": {"o": outer.clone()}})),
        ("POST", "/api/v2/standing-queries", of_v2(&long(ids), json!([]))),
        ("POST", current, of_v2(&long(ids), json!([]))),
        ("POST", current, of_v2(ids, json!([enriched(&long("RETURN 1 AS x"))]))),
        ("PUT", "/api/v1/query/standing/short", json!({"pattern": pattern(&long(ids))})),
        ("POST", "/api/v1/query/standing/short/output/p", outer.clone()),
        ("PUT", "/api/v1/query/standing/short/output/o", outer.clone()),
        ("POST", "/api/v2/graph/quine/standingQueries/short/outputs", enriched(&long("RETURN 1 AS x"))),
        ("POST", "/api/v1/ingest/x", stream.clone()),
        ("POST", "/api/v2/graph/quine/ingests", named(&long("RETURN $that"))),
        ("POST", "/api/v2/ingests", named(&long("RETURN $that"))),
    ] {
        let sent = body.to_string();
        let refused = weir.send(method, place, &[("Content-Type", "application/json")], sent.as_bytes()).expect(400).text();
        let said = "and `query.text-bytes-max` is 300; send data as parameters";
        assert!(refused.contains("The text of the query has 4") && refused.contains(said), "{method} {place}: {refused}");
    }
    assert_eq!(weir.get("/api/v1/ingest").json(), json!({}));
    assert_eq!(weir.get("/api/v1/query/standing").json().as_array().map(Vec::len), Some(1));
    weir.stop();
    // What is there was taken once.
    let weir = home.start(&[]);
    weir.post(v1, &json!({"pattern": pattern(&long(ids)), "outputs": {"o": {"type": "Drop"}}})).expect(201);
    weir.post("/api/v1/query/standing/x/output/p", &outer).expect(201);
    weir.post("/api/v1/ingest/x", &stream).expect(200);
    weir.stop();
    let weir = home.start(&["-Dweir.query.text-bytes-max=300"]);
    assert_eq!(weir.get(v1).expect(200).json()["outputs"]["p"]["type"], "CypherQuery");
    weir.get("/api/v1/ingest/x").expect(200);
}

#[test]
fn a_bad_name_is_told_where_it_stands() {
    let weir = start(&[]);
    let told = |method: &str, place: &str, body: Option<Json>| {
        let (headers, sent) = match &body {
            Some(body) => (vec![("Content-Type", "application/json")], body.to_string()),
            None => (Vec::new(), String::new()),
        };
        let refused = weir.send(method, place, &headers, sent.as_bytes()).expect(400).json();
        refused["error"]["details"].to_string() + &refused["errors"].to_string()
    };
    let of = |parameter: &str| format!("Invalid value for: path parameter {parameter} ('a b' is no name");
    for (method, place) in [("GET", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume"), ("GET", "/plan")] {
        let found = told(method, &format!("/api/v2/graph/quine/standingQueries/a%20b{place}"), None);
        assert!(found.contains(&of("standingQueryName")) && !found.contains("body"), "{method} {place}: {found}");
    }
    for (method, place) in [("GET", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume")] {
        let found = told(method, &format!("/api/v2/graph/quine/ingests/a%20b{place}"), None);
        assert!(found.contains(&of("ingestName")) && !found.contains("body"), "{method} {place}: {found}");
    }
    let found = told("DELETE", "/api/v2/graph/quine/standingQueries/one/outputs/a%20b", None);
    assert!(found.contains(&of("outputName")), "{found}");
    // In a body it is still one of the body.
    let stream = json!({"name": "a b", "source": {"type": "NumberIterator", "limit": 1}, "query": "RETURN $that"});
    let found = told("POST", "/api/v2/graph/quine/ingests", Some(stream));
    assert!(found.contains("Invalid value for: body ('a b' is no name"), "{found}");
}

#[test]
fn sockets_that_say_nothing_are_closed() {
    let weir = start(&["-Dweir.webserver.header-timeout=1 s"]);
    let connect = || TcpStream::connect(weir.address()).expect("a connection");
    let mut silent: Vec<TcpStream> = (0..300).map(|_| connect()).collect();
    let mut slow = connect();
    slow.write_all(b"GET /api/v1/admin/liveness HTTP/1.1\r\n").expect("sent");
    let mut undecided = connect();
    undecided.write_all(b"PRI * HT").expect("sent");
    silent.extend([slow, undecided]);
    assert_eq!(weir.get("/api/v1/admin/liveness").status, 204);
    for mut stream in silent {
        stream.set_read_timeout(Some(SOON)).expect("a socket");
        // A reset is an end too.
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it was not closed");
    }
}
