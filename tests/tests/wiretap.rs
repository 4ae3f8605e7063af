//! `standing.wiretap` in queries, over HTTP and over the query socket: what follows it sees what its results tell of, it ends
//! however it is ended, and it is refused where it would not. The real binary.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::socket::Socket;

/// Machines under load are slow.
const SOON: Duration = Duration::from_secs(60);
const CYPHER: &str = "/api/v1/query/cypher";
const STANDING: &str = "/api/v1/query/standing/wt";
const TAP: &str = "CALL standing.wiretap({name: 'wt'}) YIELD data, meta";

/// One whose results tell of every node with `x`.
fn weir() -> Weir {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=2"]);
    create(&weir);
    weir
}

fn create(weir: &Weir) {
    let pattern =
        json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.x IS NOT NULL RETURN id(n) AS id"});
    weir.post(STANDING, &json!({"pattern": pattern, "includeCancellations": true, "outputs": {}})).expect(201);
}

/// The taps that run: id, text, and how many rows they have given.
fn running(weir: &Weir) -> Vec<Json> {
    let mut rows = weir.rows("CALL query.running() YIELD id, query, rows RETURN id, query, rows");
    rows.retain(|row| row[1].as_str().is_some_and(|text| text.trim_start().starts_with("CALL standing.wiretap")));
    rows
}

/// The ids of the taps that run.
fn taps(weir: &Weir) -> Vec<String> {
    running(weir).iter().filter_map(|row| row[0].as_str().map(str::to_owned)).collect()
}

fn wait_taps(weir: &Weir, count: usize) {
    wait_until(&format!("{count} taps run"), SOON, || taps(weir).len() == count);
}

/// Taps are listed before they listen: nodes are written until `count` taps have each told of one.
fn wait_listening(weir: &Weir, count: usize) {
    wait_until(&format!("{count} taps listen"), SOON, || {
        weir.query("CREATE ({x: 9})").expect(200);
        running(weir).iter().filter(|row| row[2].as_u64().is_some_and(|rows| rows > 0)).count() == count
    });
}

fn run(id: i64, query: &str) -> String {
    json!({"type": "RunQuery", "queryId": id, "query": query, "sort": "TextSort", "parameters": {}, "language": "Cypher"})
        .to_string()
}

/// What a tap gives while nodes are written, until it ends by itself. It listens from some moment on: so they go on coming.
fn tapped(weir: &Weir, query: &str) -> Vec<Json> {
    thread::scope(|scope| {
        let tap = scope.spawn(|| weir.rows(query));
        let mut written = 0;
        wait_until("the tap ends by itself", SOON, || {
            written += 1;
            weir.query(&format!("CREATE (:New {{x: {written}}})-[:OF]->(:Kind {{name: 'k'}})")).expect(200);
            tap.is_finished()
        });
        tap.join().expect("it answers")
    })
}

/// Each came as an empty node: the query saw the graph as it was when it began.
#[test]
fn what_follows_sees_what_a_result_tells_of() {
    let weir = weir();
    let positive = format!("{TAP} WHERE meta.isPositiveMatch");
    // By id, along an edge, as a whole node, and inside a subquery.
    let whole = tapped(&weir, &format!("{positive} MATCH (n)-[:OF]->(k) WHERE id(n) = data.id RETURN n, k.name LIMIT 3"));
    assert_eq!(whole.len(), 3, "{whole:?}");
    for row in &whole {
        assert_eq!(row[0]["labels"], json!(["New"]), "{row}");
        assert!(row[0]["properties"]["x"].is_u64() && row[1] == "k", "{row}");
    }
    let inside = "CALL { WITH data MATCH (n) WHERE id(n) = data.id RETURN n.x AS x }";
    let inside = tapped(&weir, &format!("{positive} {inside} RETURN x IS NOT NULL LIMIT 2"));
    assert_eq!(inside, [json!([true]), json!([true])]);
    // What is looked for by its value, more than once in what would otherwise be one moment.
    let by_value =
        "UNWIND [1, 2] AS twice MATCH (n) WHERE id(n) = data.id MATCH (m:New) WHERE m.x = n.x RETURN count(m) > 0 AS found";
    let by_value = tapped(&weir, &format!("{positive} CALL {{ WITH data {by_value} }} RETURN found LIMIT 4"));
    assert_eq!(by_value, vec![json!([true]); 4]);
    // The past ends where the present does.
    let past = "CALL history.nodeChanges(data.id) YIELD kind RETURN kind LIMIT 1";
    assert_eq!(tapped(&weir, &format!("{positive} {past}")).len(), 1);
    // Counted, it is another view.
    let profiled = tapped(&weir, &format!("PROFILE {positive} MATCH (n:New) WHERE id(n) = data.id RETURN n.x LIMIT 2"));
    assert_eq!(profiled[0][0]["rows"], 2, "{profiled:?}");
    wait_taps(&weir, 0);
}

/// Its answer never came.
#[test]
fn who_wants_no_row_is_answered_at_once() {
    let weir = weir();
    for rest in ["RETURN data LIMIT 0", "RETURN data ORDER BY data.id SKIP 1 LIMIT 0"] {
        assert!(weir.rows(&format!("{TAP} {rest}")).is_empty(), "{rest}");
    }
    assert_eq!(weir.rows(&format!("{TAP} WITH data LIMIT 0 RETURN count(data)")), [json!([0])]);
}

/// Its answer never came, whatever its LIMIT and its limit of time.
#[test]
fn a_query_that_writes_cannot_listen() {
    let weir = weir();
    let began = Instant::now();
    for (query, place) in [
        (format!("{TAP} MATCH (n) WHERE id(n) = data.id SET n.seen = true RETURN n.total LIMIT 1"), "1.6"),
        (format!("{TAP} CALL do.when(true, 'RETURN 1 AS y', '') YIELD value RETURN value LIMIT 1"), "1.6"),
        (format!("EXPLAIN {TAP} CREATE (n)"), "1.14"),
    ] {
        let refused = weir.query(&query).expect(400).text();
        assert!(refused.contains(&format!("CompileError at {place} `standing.wiretap`")), "{query}: {refused}");
        assert!(refused.contains("CypherQuery"), "{query}: {refused}");
    }
    let text = "CALL standing.wiretap({name: \\'wt\\'}) YIELD data RETURN data";
    for query in [
        format!("CALL cypher.doIt('{text}') YIELD value RETURN value LIMIT 1"),
        format!("CALL do.when(true, '{text}', '') YIELD value RETURN value LIMIT 1"),
        format!("CALL cypher.runTimeboxed('{text}', {{}}, 60000) YIELD value RETURN value"),
    ] {
        let refused = weir.query(&query).expect(400).text();
        assert!(refused.contains("standing.wiretap") && refused.contains("another one runs"), "{query}: {refused}");
    }
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    socket.send(&run(1, &format!("{TAP} CREATE (n)")));
    let refused = socket.expect();
    assert_eq!(refused["type"], "MessageError");
    assert!(refused["error"].as_str().is_some_and(|text| text.contains("`standing.wiretap`")), "{refused}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    wait_taps(&weir, 0);
}

#[test]
fn it_ends_however_it_is_ended_and_leaves_nothing() {
    let weir = weir();
    let all = format!("{TAP} RETURN data");
    let text = [("Content-Type", "text/plain")];
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");

    // With its limit of time.
    let ended = weir.send("POST", &format!("{CYPHER}?timeout=200"), &text, all.as_bytes());
    assert!(ended.status >= 400, "{}", ended.shown());
    wait_taps(&weir, 0);

    // When it is told to.
    thread::scope(|scope| {
        let tap = scope.spawn(|| weir.query(&all));
        wait_taps(&weir, 1);
        weir.rows(&format!("TERMINATE QUERY '{}'", taps(&weir)[0]));
        let ended = tap.join().expect("it answers");
        assert!(ended.status >= 400, "{}", ended.shown());
    });
    wait_taps(&weir, 0);
    socket.send(&run(1, &all));
    assert_eq!(socket.expect()["type"], "QueryStarted");
    wait_taps(&weir, 1);
    socket.send(&json!({"type": "CancelQuery", "queryId": 1}).to_string());
    assert_eq!(socket.expect()["type"], "MessageOk");
    assert_eq!(socket.expect()["type"], "QueryFinished");
    wait_taps(&weir, 0);

    // With LIMIT, over the socket; a pause is waited out. However often it has to be tried until it listens, that is one row.
    socket.send(&run(1, &format!("{TAP} MATCH (n) WHERE id(n) = data.id RETURN DISTINCT n.x LIMIT 2")));
    assert_eq!(socket.expect()["type"], "QueryStarted");
    wait_listening(&weir, 1);
    assert_eq!(socket.expect()["results"], json!([[9]]));
    weir.put(&format!("{STANDING}/pause")).expect(200);
    weir.query("CREATE ({x: 7})").expect(200);
    thread::sleep(Duration::from_millis(200));
    assert_eq!(taps(&weir).len(), 1, "it waits");
    weir.put(&format!("{STANDING}/start")).expect(200);
    assert_eq!(socket.expect()["results"], json!([[7]]));
    assert_eq!(socket.expect()["type"], "QueryFinished");
    wait_taps(&weir, 0);

    // When its client leaves, before the first row and behind it.
    let leaves = client::open(weir.address(), "POST", CYPHER, &text, all.as_bytes()).expect("a connection");
    wait_taps(&weir, 1);
    drop(leaves);
    wait_taps(&weir, 0);
    let leaves = client::open(weir.address(), "POST", CYPHER, &text, all.as_bytes()).expect("a connection");
    wait_taps(&weir, 1);
    leaves.set_nonblocking(true).expect("a socket of the system");
    wait_until("a row has come", SOON, || {
        weir.query("CREATE ({x: 8})").expect(200);
        leaves.peek(&mut [0]).is_ok_and(|bytes| bytes > 0)
    });
    drop(leaves);
    wait_taps(&weir, 0);
    socket.send(&run(1, &all));
    assert_eq!(socket.expect()["type"], "QueryStarted");
    wait_taps(&weir, 1);
    drop(socket);
    wait_taps(&weir, 0);

    // When the standing query is deleted: there is no more to come, which is its end, and no failure.
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    socket.send(&run(1, &all));
    assert_eq!(socket.expect()["type"], "QueryStarted");
    thread::scope(|scope| {
        let tap = scope.spawn(|| weir.rows(&all));
        wait_listening(&weir, 2);
        weir.delete(STANDING).expect(200);
        assert!(!tap.join().expect("it answers").is_empty());
    });
    let last = loop {
        let message = socket.expect();
        if message["type"] != "TabularResults" {
            break message;
        }
    };
    assert_eq!(last["type"], "QueryFinished", "{last}");
    wait_taps(&weir, 0);
}

/// They were taken, and failed for each result and each record.
#[test]
fn outputs_and_streams_do_not_listen() {
    let weir = weir();
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.y IS NOT NULL RETURN n.y AS y"});
    let check = |path: &str, body: &Json, place: &str| {
        let refused = weir.post(path, body).expect(400).text();
        assert!(refused.contains("CompileError at 1.6 `standing.wiretap` waits for results without end"), "{refused}");
        assert!(refused.contains(place) && refused.contains("CypherQuery"), "{refused}");
        assert_eq!(weir.get(path).status, 404, "{path} is not there");
    };
    let asks = json!({"type": "CypherQuery", "query": format!("{TAP} RETURN data")});
    let listens = json!({"pattern": pattern, "outputs": {"asks": asks}});
    check("/api/v1/query/standing/other", &listens, "in the query of an output");
    let format = json!({"type": "CypherLine", "query": format!("{TAP} CREATE ({{y: data.id}})")});
    let stream = json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": format});
    check("/api/v1/ingest/taps", &stream, "in the query of an ingest stream");
}
