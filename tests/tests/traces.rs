//! Traces: what arrives at a collector of OpenTelemetry while weir works, and that one that is away holds nothing up.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_tests::collector::{Collector, Span};
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::socket::Socket;

/// Machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(60);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";

const SERVER: u8 = 2;
const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;

fn start(home: &Home, endpoint: &str, more: &[&str]) -> Weir {
    let endpoint = format!("-Dweir.traces.endpoint={endpoint}");
    home.start(&[&["-Dweir.store.type=in-memory", "-Dweir.workers=1", &endpoint], more].concat())
}

/// A query in a trace of its client's.
fn ask(weir: &Weir, text: &str, flags: &str, status: u16) {
    let parent = format!("00-{TRACE}-{CLIENT}-{flags}");
    let headers = [("Content-Type", "text/plain"), ("traceparent", parent.as_str()), ("User-Agent", "a test")];
    weir.send("POST", "/api/v1/query/cypher?timeout=60000", &headers, text.as_bytes()).expect(status);
}

fn figure(weir: &Weir, name: &str) -> f64 {
    let text = weir.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

#[test]
fn what_weir_does_is_told() {
    let collector = Collector::start();
    let home = Home::new();
    let weir = start(
        &home,
        &collector.endpoint(),
        &["-Dweir.traces.headers.x-api-key=hush", "-Dweir.traces.service-name=graph of tests"],
    );
    // Three kinds of answers: at once, in parts, and none.
    ask(&weir, "RETURN 1 AS one", "01", 200);
    ask(&weir, "UNWIND range(1, 50000) AS x RETURN x", "01", 200);
    ask(&weir, "RETURN 1 / 0", "01", 400);
    ask(&weir, "RETURN 'not told'", "00", 200);
    weir.rows("RETURN 'no parent'");
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a web socket");
    socket.send(&json!({"type": "RunQuery", "queryId": 7, "query": "RETURN 'over a socket' AS x", "sort": "TextSort", "parameters": {}, "language": "Cypher"}).to_string());
    while socket.expect()["type"] != "QueryFinished" {}
    let pattern = json!({"type": "Cypher", "mode": "AnyQuery", "query": "MATCH (n:Counted) RETURN n.i AS i"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}});
    weir.post("/api/v1/query/standing/counted", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    let source = json!({"type": "NumberIteratorIngest", "ingestLimit": 50,
        "format": {"type": "CypherLine", "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Counted, n.i = $that"}});
    weir.post("/api/v1/ingest/numbers", &source).expect(200);
    home.wait_lines("out.jsonl", 50);
    let sum = |name: &str, attribute: &str| -> u64 {
        let spans = collector.spans();
        spans
            .iter()
            .filter(|span| span.name == name)
            .map(|span| span.attribute(attribute).parse::<u64>().expect("a number"))
            .sum()
    };
    wait_until("all records and results are told", PATIENCE, || {
        (sum("ingest numbers", "weir.records"), sum("deliver file", "weir.results")) == (50, 50)
    });
    let shown = weir.get("/api/v2/system/config").expect(200).text() + &weir.log();
    assert!(!shown.contains("hush"), "{shown}");
    // What is under way when weir ends is told, too.
    weir.rows("RETURN 'the last'");
    weir.stop();

    let spans = collector.spans();
    let query = |text: &str| -> &Span {
        let mut found = spans.iter().filter(|span| span.name == "query" && span.attribute("db.query.text").contains(text));
        let first = found.next().unwrap_or_else(|| panic!("no query {text} in {spans:#?}"));
        assert!(found.next().is_none(), "{text} is told twice");
        first
    };
    let request_of = |query: &Span| -> &Span {
        let mut found = spans.iter().filter(|span| Some(&span.id) == query.parent.as_ref());
        found.next().unwrap_or_else(|| panic!("no parent of {query:?}"))
    };
    for (text, status) in [("RETURN 1 AS one", "200"), ("range(1, 50000)", "200"), ("RETURN 1 / 0", "400")] {
        let (query, request) = (query(text), request_of(query(text)));
        assert_eq!((query.trace.as_str(), request.trace.as_str(), request.parent.as_deref()), (TRACE, TRACE, Some(CLIENT)));
        assert_eq!((query.kind, request.kind, request.name.as_str()), (1, SERVER, "POST /api/v1/query/cypher"));
        assert_eq!(query.error.is_some(), status == "400", "{query:?}");
        // A mistake of the client's is none of the server's.
        assert_eq!(request.error, None);
        assert!(query.began >= request.began && query.ended >= query.began, "{query:?} in {request:?}");
        let expected = [
            ("http.request.method", "POST"),
            ("http.route", "/api/v1/query/cypher"),
            ("url.path", "/api/v1/query/cypher"),
            ("http.response.status_code", status),
            ("client.address", "127.0.0.1"),
            ("user_agent.original", "a test"),
        ];
        assert!(request.has(&expected), "{request:?}");
        assert!(query.has(&[("db.system.name", "weir"), ("db.namespace", "quine")]), "{query:?}");
    }
    assert_eq!(query("range(1, 50000)").attribute("weir.rows"), "50000");
    assert!(query("1 / 0").error.as_ref().is_some_and(|reason| reason.contains("ArithmeticError")), "{:?}", query("1 / 0"));
    assert_eq!(request_of(query("over a socket")).name, "GET /api/v1/query");
    for text in ["no parent", "the last"] {
        let request = request_of(query(text));
        assert!(request.parent.is_none() && request.trace != TRACE, "{request:?}");
    }
    assert!(spans.iter().all(|span| !span.attribute("db.query.text").contains("not told")));
    for (name, kind, of) in [("ingest numbers", CONSUMER, "weir.ingest"), ("deliver file", PRODUCER, "weir.output")] {
        for span in spans.iter().filter(|span| span.name == name) {
            assert!(span.kind == kind && span.parent.is_none() && span.error.is_none(), "{span:?}");
            assert!(name.ends_with(span.attribute(of)) && span.attribute("weir.namespace") == "quine", "{span:?}");
        }
    }
    assert!(spans.iter().any(|span| span.has(&[("weir.standing_query", "counted")])));
    let paths: Vec<&str> = spans.iter().map(|span| span.attribute("url.path")).collect();
    assert!(
        paths.iter().all(|path| !path.contains("liveness") && !path.contains("/metrics") && !path.contains('?')),
        "{paths:?}"
    );
    for span in &spans {
        assert!(span.resource.get("service.name").is_some_and(|name| name == "graph of tests"), "{:?}", span.resource);
        assert!(span.resource.contains_key("service.version") && span.resource.contains_key("service.instance.id"));
        let since_1970 = Duration::from_secs(1_700_000_000).as_nanos();
        assert!(span.began > since_1970 && span.ended - span.began < Duration::from_secs(200).as_nanos(), "{span:?}");
    }
    let mut ids: Vec<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "ids are there once");
    for headers in collector.headers() {
        assert_eq!((headers["content-type"].as_str(), headers["x-api-key"].as_str()), ("application/json", "hush"));
    }
}

#[test]
fn a_collector_that_has_no_time_is_asked_again() {
    let collector = Collector::start();
    collector.answer_next(503, "Retry-After: 0\r\n", "");
    collector.answer_next(429, "", "");
    let weir = start(&Home::new(), &collector.endpoint(), &[]);
    ask(&weir, "RETURN 'patient'", "01", 200);
    wait_until("the spans are taken at the third try", PATIENCE, || collector.spans().len() == 2);
    assert_eq!(collector.headers().len(), 3);
    wait_until("they are counted", PATIENCE, || figure(&weir, "weir_traces_sent_total") == 2.0);
    assert_eq!(figure(&weir, "weir_traces_dropped_total"), 0.0);
    // One that takes some and not others says how many; one that takes none is not asked again.
    collector.answer_next(200, "", r#"{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too many"}}"#);
    ask(&weir, "RETURN 'some'", "01", 200);
    wait_until("one is dropped", PATIENCE, || figure(&weir, "weir_traces_dropped_total") == 1.0);
    collector.answer_next(400, "", "");
    ask(&weir, "RETURN 'none'", "01", 200);
    wait_until("two more are", PATIENCE, || figure(&weir, "weir_traces_dropped_total") == 3.0);
    assert_eq!((figure(&weir, "weir_traces_sent_total"), collector.headers().len()), (3.0, 5));
    assert!(weir.log().contains("too many") && weir.log().contains("400"), "{}", weir.log());
    weir.stop();
}

#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let endpoint = format!("http://127.0.0.1:{}/v1/traces", free_ports(1));
    takes_at_most("weir's end", Duration::from_secs(10), || {
        let weir = start(&Home::new(), &endpoint, &[]);
        let began = Instant::now();
        for number in 0..10_000 {
            weir.rows(&format!("RETURN {number}"));
            if began.elapsed() > Duration::from_secs(5) {
                break;
            }
        }
        let ending = Instant::now();
        weir.stop();
        ending.elapsed()
    });
}

#[test]
fn nothing_is_told_that_is_not_asked_for() {
    let collector = Collector::start();
    let weir = start(&Home::new(), &collector.endpoint(), &["-Dweir.traces.ratio=0"]);
    weir.rows("RETURN 1");
    ask(&weir, "RETURN 2", "01", 200);
    wait_until("what the client wants told is", PATIENCE, || collector.spans().len() == 2);
    weir.stop();
    assert_eq!(collector.spans().len(), 2);
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    assert!(!weir.get("/metrics").expect(200).text().contains("weir_traces"));
    for (setting, reason) in [
        ("-Dweir.traces.endpoint=localhost:4318", "traces.endpoint should be a URL"),
        ("-Dweir.traces.endpoint=http://user:hush@x/v1/traces", "traces.endpoint should be a URL"),
    ] {
        let (status, log) = Home::new().spawn(&[setting]).wait_end(PATIENCE);
        assert!(!status.success() && log.contains(reason) && !log.contains("hush"), "{log}");
    }
    let named = ["-Dweir.traces.endpoint=http://localhost/v1/traces", "-Dweir.traces.headers={\"no header\" = hush}"];
    let (status, log) = Home::new().spawn(&named).wait_end(PATIENCE);
    assert!(!status.success() && log.contains("'no header'") && !log.contains("hush"), "{log}");
}
