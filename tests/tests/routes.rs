//! Routes of v1, and those that are alike in all three families, against the real binary: their success, their errors, their
//! parameters. Those of v2 alone are in `routes_v2.rs`; what the recording holds of v1 is replayed in `wire.rs`, and what is
//! wrong with any row is tried in `every_route.rs`.

use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value as Json, json};
use weir_tests::cases::{Is, case, content, cypher, run, v2_error, weir, with};
use weir_tests::client;
use weir_tests::service::{Home, Weir, wait_until};

const V1_NOT_FOUND: &str = "The requested resource could not be found.";

#[test]
fn v1_administration() {
    let weir = weir();
    run(
        &weir,
        vec![
            case("GET /api/v1/admin/build-info", 200, Is::Json(json!({"version": "…", "javaVersion": "…"}))),
            case("GET /api/v1/admin/config", 200, Is::Json(json!({"quine": {"store": {"type": "in-memory"}}, "service": "…"}))),
            case("POST /api/v1/admin/garbage-collection", 202, Is::Empty),
            case("GET /api/v1/admin/graph-hash-code", 200, Is::Json(json!({"value": "…", "atTime": "…"}))),
            case(
                "GET /api/v1/admin/graph-hash-code?at-time=x",
                400,
                Is::Json(json!(["Invalid integer value 'x' for query parameter 'at-time'"])),
            ),
            case("GET /api/v1/admin/graph-hash-code?namespace=nope", 404, Is::Empty),
            case("GET /api/v1/admin/ingest-usage", 200, Is::Json(json!({"namespaces": [{"namespace": "quine"}]}))),
            case("GET /api/v1/admin/liveness", 204, Is::Empty),
            case("GET /api/v1/admin/readiness", 204, Is::Empty),
            case("GET /api/v1/admin/meta-data", 200, Is::Json(json!({}))),
            case(
                "GET /api/v1/admin/metrics",
                200,
                Is::Json(json!({"atTime": "…", "counters": "…", "timers": "…", "gauges": "…"})),
            ),
            case("POST /api/v1/admin/request-node-sleep/{id}", 202, Is::Empty),
            case("POST /api/v1/admin/request-node-sleep/zzz", 400, Is::Json(json!(["Invalid ID value 'zzz' for segment 'id'"]))),
            with(
                "POST /api/v1/admin/shard-sizes",
                json!({"0": {"softLimit": 1, "hardLimit": 2}}),
                200,
                Is::Json(json!({"0": {"softLimit": 1, "hardLimit": 2}, "1": {"softLimit": 10000, "hardLimit": 75000}})),
            ),
            with(
                "POST /api/v1/admin/shard-sizes",
                json!({"x": {}}),
                400,
                Is::Json(json!(["DecodingFailure at : For input string: \"x\""])),
            ),
            case("GET /api/v1/admin/status", 200, Is::Json(json!({"fullyUp": true, "cluster": {"clusterMembers": {"0": "…"}}}))),
            case("GET /api/v1/admin/shutdown", 404, Is::Text(V1_NOT_FOUND)),
            case("GET /metrics", 200, Is::Text("# HELP weir_build_info")),
            with("POST /api/v1/query/cypher/user-defined", json!([]), 200, Is::Empty),
            with("POST /api/v1/query/cypher/user-defined", json!(["f.jar"]), 400, Is::Json(json!(["f.jar cannot be loaded…"]))),
            with("POST /api/v1/query/cypher/user-defined", json!({}), 400, Is::Json(json!(["DecodingFailure…"]))),
            case("GET /api/v1/query/cypher/running", 200, Is::Json(json!([]))),
            case("DELETE /api/v1/query/cypher/running/9", 404, Is::Empty),
            case("GET /api/v1/query", 400, Is::Text("Expected WebSocket Upgrade request")),
        ],
    );
}

#[test]
fn v1_namespaces() {
    let weir = weir();
    let streams = |name: &str| json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": {"type": "CypherJson", "query": format!("CREATE (:{name})")}});
    run(
        &weir,
        vec![
            case("GET /api/v1/namespace", 200, Is::Json(json!(["default"]))),
            case("PUT /api/v1/namespace/Abc", 201, Is::Json(json!(true))),
            case("PUT /api/v1/namespace/abc", 200, Is::Json(json!(false))),
            case("PUT /api/v1/namespace/a-b", 400, Is::Json(json!(["Invalid namespace 'a-b'…"]))),
            case("GET /api/v1/namespace", 200, Is::Json(json!(["default", "abc"]))),
            cypher(
                "POST /api/v1/query/cypher?namespace=abc",
                "CREATE (:X) RETURN 1 AS one",
                200,
                Is::Json(json!({"columns": ["one"], "results": [[1]]})),
            ),
            with("POST /api/v1/ingest/n?namespace=abc", streams("Y"), 200, Is::Empty),
            with(
                "POST /api/v1/query/standing/q?namespace=abc",
                json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n)"}, "outputs": {}}),
                201,
                Is::Empty,
            ),
            case("GET /api/v1/ingest/n", 404, Is::Empty),
            case("DELETE /api/v1/namespace/abc", 200, Is::Json(json!(true))),
            case("DELETE /api/v1/namespace/abc", 200, Is::Json(json!(false))),
            case("DELETE /api/v1/namespace/default", 400, Is::Json(json!(["The default namespace cannot be deleted"]))),
            case("GET /api/v1/ingest?namespace=abc", 200, Is::Json(json!({}))),
            case("GET /api/v1/query/standing?namespace=abc", 404, Is::Empty),
            case("PUT /api/v1/namespace/abc", 201, Is::Json(json!(true))),
            case("GET /api/v1/ingest?namespace=abc", 200, Is::Json(json!({}))),
            cypher(
                "POST /api/v1/query/cypher?namespace=abc",
                "MATCH (n) RETURN count(n) AS n",
                200,
                Is::Json(json!({"results": [[0]]})),
            ),
        ],
    );
}

#[test]
fn single_nodes_in_every_family() {
    let weir = weir();
    let node = json!({"properties": {"name": "Ann"}, "edges": [{"edgeType": "KNOWS", "direction": "Outgoing", "other": "…"}]});
    run(
        &weir,
        vec![
            case("GET /api/v1/debug/{id}", 200, Is::Json(node.clone())),
            case("GET /api/v1/debug/zzz", 400, Is::Json(json!(["Invalid ID value 'zzz' for segment 'id'"]))),
            case(
                "GET /api/v1/debug/{id}/verbose",
                200,
                Is::Json(json!({"labels": ["Person"], "journal": [{"kind": "label"}, {"kind": "edge"}, {"kind": "property"}]})),
            ),
            case("GET /api/v1/debug/{id}/props", 400, Is::Json(json!(["Missing value for query parameter 'key'"]))),
            case("GET /api/v1/debug/{id}/props?key=name", 200, Is::Json(json!("Ann"))),
            case("GET /api/v1/debug/{id}/props?key=nope", 404, Is::Empty),
            case("GET /api/v1/debug/{id}/edges?direction=in", 200, Is::Json(json!([]))),
            case("GET /api/v1/debug/{id}/edges?direction=up", 400, Is::Json(json!(["Invalid direction value 'up'…"]))),
            case("GET /api/v1/debug/{id}/edges/half?type=KNOWS", 200, Is::Json(json!([{"edgeType": "KNOWS"}]))),
            with("PUT /api/v1/debug/{id}/props?key=age", json!(5), 200, Is::Empty),
            case("GET /api/v1/debug/{id}/props?key=age", 200, Is::Json(json!(5))),
            case("DELETE /api/v1/debug/{id}/props?key=age", 200, Is::Empty),
            case("GET /api/v1/debug/{id}/props?key=age", 404, Is::Empty),
            with(
                "PUT /api/v1/debug/{id}",
                json!({"properties": {"p": [1, "x"]}, "edges": [{"edgeType": "A`B", "direction": "Incoming", "other": "{id}"}]}),
                200,
                Is::Empty,
            ),
            case(
                "GET /api/v1/debug/{id}/edges?type=A%60B",
                200,
                Is::Json(json!([{"direction": "Outgoing"}, {"direction": "Incoming"}])),
            ),
            with(
                "DELETE /api/v1/debug/{id}/edges",
                json!([{"edgeType": "A`B", "direction": "Incoming", "other": "{id}"}]),
                200,
                Is::Empty,
            ),
            case("GET /api/v1/debug/{id}/edges?type=A%60B", 200, Is::Json(json!([]))),
            with(
                "PUT /api/v1/debug/{id}/edges",
                json!([{"edgeType": "E", "direction": "Sideways", "other": "{id}"}]),
                400,
                Is::Json(json!(["DecodingFailure at [0].direction…"])),
            ),
            with(
                "PUT /api/v1/debug/{id}",
                json!({"edges": []}),
                400,
                Is::Json(json!(["DecodingFailure at .properties: Missing required field"])),
            ),
            case("GET /api/v2/debug/nodes/{id}", 200, Is::Json(json!({"properties": {"name": "Ann", "p": [1, "x"]}}))),
            case(
                "GET /api/v2/debug/nodes/zzz",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: path parameter id…"),
            ),
            case("GET /api/v2/debug/nodes/{id}/verbose", 200, Is::Json(json!("{…"))),
            case("GET /api/v2/debug/nodes/{id}/props?key=nope", 200, Is::Json(Json::Null)),
            case("GET /api/v2/debug/nodes/{id}/edges?onlyFull=true&limit=1", 200, Is::Json(json!([{"edgeType": "KNOWS"}]))),
            case("PUT /api/v2/debug/nodes/{id}", 405, Is::Text("HTTP method not allowed")),
            case("DELETE /api/v1/debug/{id}", 200, Is::Empty),
            case("GET /api/v1/debug/{id}", 200, Is::Json(json!({"properties": {}, "edges": []}))),
        ],
    );
}

#[test]
fn walks_in_every_family() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('r') AND id(b) = idFrom('s') SET a.name = 'Ann', b.name = 'Bo' CREATE (a)-[:KNOWS]->(b)");
    let names = json!(["Ann", "Bo", "Ann"]);
    run(
        &weir,
        vec![
            case("GET /api/v1/algorithm/walk/{id}?length=2&query=RETURN%20thisNode.name", 200, Is::Json(names.clone())),
            case("GET /api/v1/algorithm/walk/{id}?length=2&return=0", 200, Is::Json(json!(["…", "…"]))),
            case(
                "GET /api/v1/algorithm/walk/{id}?length=0",
                400,
                Is::Json(json!(["requirement failed: walk length cannot be less than one."])),
            ),
            case(
                "GET /api/v1/algorithm/walk/{id}?query=CREATE%20(x)",
                400,
                Is::Json(json!(["The query of a walk must only read…"])),
            ),
            case("GET /api/v1/algorithm/walk/{id}?query=FOO", 400, Is::Json(json!(["…"]))),
            // Any page can have a browser send it.
            case(
                "GET /api/v1/algorithm/walk/{id}?query=LOAD%20CSV%20FROM%20%27lines.csv%27%20AS%20row%20RETURN%20row",
                400,
                Is::Json(json!(["The query of a walk must not call a procedure or a subquery, nor load a file…"])),
            ),
            case(
                "GET /api/v1/algorithm/walk/{id}?query=CALL%20query.running()%20YIELD%20id%20RETURN%20id",
                400,
                Is::Json(json!(["The query of a walk must not call…"])),
            ),
            case(
                "GET /api/v1/algorithm/walk/{id}?query=RETURN%20COLLECT%20%7B%20CALL%20util.sleep(1)%20RETURN%201%20AS%20x%20%7D",
                400,
                Is::Json(json!(["The query of a walk must not call…"])),
            ),
            case(
                "POST /api/v2/algorithm/nodes/{id}/walk?query=CALL%20util.sleep(1)%20RETURN%201",
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "The query of a walk must not call…"),
            ),
            case("GET /api/v1/algorithm/walk/{id}?namespace=nope", 404, Is::Empty),
            case("POST /api/v2/algorithm/nodes/{id}/walk?length=2&query=RETURN%20thisNode.name", 200, content(names.clone())),
            case(
                "POST /api/v2/graph/quine/algorithms/randomWalk/nodes/{id}:generateRandomWalk?length=2&inOut=0.5&query=RETURN%20thisNode.name",
                200,
                Is::Json(names),
            ),
            case(
                "POST /api/v2/graph/quine/algorithms/randomWalk/nodes/{id}:generateRandomWalk?inOut=x",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: query parameter inOut…"),
            ),
            with(
                "PUT /api/v1/algorithm/walk?length=1&count=2",
                json!({"type": "LocalFile", "fileName": "one.csv"}),
                202,
                Is::Text("one.csv"),
            ),
            with(
                "PUT /api/v1/algorithm/walk",
                json!({"type": "LocalFile", "fileName": "one.csv"}),
                400,
                // It may still be written, under another name.
                Is::Json(json!(["the file 'one.csv…"])),
            ),
            with(
                "PUT /api/v1/algorithm/walk",
                json!({"type": "LocalFile", "fileName": "../x.csv"}),
                400,
                Is::Json(json!(["Invalid file name: ../x.csv"])),
            ),
            with(
                "PUT /api/v1/algorithm/walk",
                json!({"type": "LocalFile", "fileName": "/tmp/x.csv"}),
                400,
                Is::Json(json!(["Invalid file name…"])),
            ),
            with(
                "PUT /api/v1/algorithm/walk",
                json!({"type": "S3Bucket", "bucketName": "b"}),
                400,
                Is::Json(json!(["S3Bucket is not in this version…"])),
            ),
            with(
                "PUT /api/v1/algorithm/walk?length=6&count=3&in-out=0.5",
                json!({"type": "LocalFile"}),
                202,
                Is::Text("graph-walk-"),
            ),
            with(
                "POST /api/v2/algorithm/save-walk",
                json!({"type": "LocalFile", "fileName": "two.csv"}),
                202,
                Is::Json(json!({"message": "…"})),
            ),
            with(
                "POST /api/v2/graph/quine/algorithms/randomWalk:saveWalks",
                json!({"type": "LocalFile", "fileName": "three.csv"}),
                202,
                Is::Empty,
            ),
        ],
    );
    let (file, deadline) = (home.file("one.csv"), Instant::now() + Duration::from_secs(60));
    let rows = loop {
        if let Ok(text) = std::fs::read_to_string(&file) {
            break text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>();
        }
        assert!(Instant::now() < deadline, "the walks are not there");
        std::thread::sleep(Duration::from_millis(5));
    };
    // It has its name once it is whole.
    assert_eq!(rows.len(), 4, "two walks from each of two nodes: {rows:?}");
    assert!(rows.iter().all(|row| row.len() == 3 && row[0] == row[1] && row[1] != row[2]), "{rows:?}");
}

/// Two nodes and an edge: a walk has no end but its length.
fn with_an_endless_way(weir: &Weir) -> String {
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('r') AND id(b) = idFrom('s') SET a.name = 'Ann' CREATE (a)-[:KNOWS]->(b)");
    weir.rows("RETURN idFrom('r')")[0][0].as_str().expect("an id").to_owned()
}

#[test]
fn a_walk_that_does_not_fit_says_so() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.query.memory-bytes-max=1 MiB"]);
    let id = with_an_endless_way(&weir);
    for query in ["", "&query=RETURN%20thisNode.name"] {
        let answer = weir.get(&format!("/api/v1/algorithm/walk/{id}?length=2000000000{query}")).expect(400).text();
        assert!(answer.contains("query.memory-bytes-max"), "{answer}");
    }
}

#[test]
fn a_walk_is_listed_has_a_place_and_ends_when_nobody_waits_for_it() {
    let one_for_long = ["-Dweir.store.type=in-memory", "-Dweir.query.running-max=1", "-Dweir.query.timeout=10 minutes"];
    let weir = Home::new().start(&one_for_long);
    // It contributes nothing, and so takes no memory.
    let id = with_an_endless_way(&weir);
    let path = format!("/api/v1/algorithm/walk/{id}?length=2000000000&query=WITH%20thisNode%20WHERE%20false%20RETURN%201");
    let open = || client::open(weir.address(), "GET", &path, &[], b"").expect("a connection");
    let running = || weir.get("/api/v1/query/cypher/running").expect(200).json().as_array().cloned().expect("a list");
    let soon = Duration::from_secs(60);
    let gone = open();
    wait_until("it is listed", soon, || running().len() == 1);
    let shown = running()[0]["query"].as_str().expect("a text").to_owned();
    assert!(shown.starts_with("random walk of 2000000000 steps from ") && shown.contains(&id), "{shown}");
    let text = [("Content-Type", "text/plain")];
    let waits = client::open(weir.address(), "POST", "/api/v1/query/cypher", &text, b"MATCH (n) RETURN count(n)");
    wait_until("a query waits for the place", soon, || running().len() == 2);
    drop(gone);
    wait_until("both are over", soon, || running().is_empty());
    drop(waits);
    // Somebody else may end it, too.
    let mut ended = open();
    wait_until("it is listed", soon, || running().len() == 1);
    // What is wrong is told though there is no place.
    let refused = weir.get(&format!("/api/v1/algorithm/walk/{id}?query=CREATE%20(x)%20RETURN%201")).expect(400).text();
    assert!(refused.contains("must only read"), "{refused}");
    let number = running()[0]["id"].as_str().expect("an id").to_owned();
    weir.delete(&format!("/api/v1/query/cypher/running/{number}")).expect(200);
    let mut answer = String::new();
    ended.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("was cancelled"), "{answer}");
}

#[test]
fn walks_that_are_cut_are_not_told_as_saved_and_only_so_many_are_saved_at_a_time() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.query.slow-after=1 ms"]);
    with_an_endless_way(&weir);
    let save = |name: &str| {
        let body = json!({"type": "LocalFile", "fileName": name}).to_string();
        let path = "/api/v1/algorithm/walk?length=1&count=2000000000";
        weir.send("PUT", path, &[("Content-Type", "application/json")], body.as_bytes())
    };
    for name in ["a.csv", "b.csv", "c.csv", "d.csv"] {
        save(name).expect(202);
    }
    save("e.csv").expect(503);
    let running = || weir.get("/api/v1/query/cypher/running").expect(200).json().as_array().cloned().expect("a list");
    let listed = running();
    let first = listed.iter().find(|query| query["query"].as_str().is_some_and(|text| text.ends_with("saved in a.csv")));
    let number = first.and_then(|query| query["id"].as_str()).expect("it is listed");
    weir.delete(&format!("/api/v1/query/cypher/running/{number}")).expect(200);
    wait_until("it is over", Duration::from_secs(60), || running().len() == 3);
    save("e.csv").expect(202);
    assert!(home.file("b.csv.part").exists() && !home.file("b.csv").exists());
    weir.signal(Signal::TERM);
    let (status, log) = weir.wait_end(Duration::from_secs(50));
    assert!(status.success(), "{log}");
    assert!(!log.contains("a query took long: random walk"), "they take as long as the graph is large: {log}");
    for name in ["a.csv", "b.csv", "c.csv", "d.csv", "e.csv"] {
        assert!(log.contains(&format!("not all walks are saved in {name}, so it is not kept: ")), "{name}: {log}");
        assert!(!home.file(name).exists() && !home.file(&format!("{name}.part")).exists(), "{name}");
    }
}

#[test]
fn edges_of_a_node_are_chosen_before_they_are_held() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.query.memory-bytes-max=1 MiB"]);
    let hub = "MATCH (h) WHERE id(h) = idFrom('hub')";
    // What a query writes counts, too.
    for from in (0..1500).step_by(250) {
        let others = format!("UNWIND range({from}, {}) AS i", from + 249);
        weir.rows(&format!("{others} {hub} MATCH (n) WHERE id(n) = idFrom(i) CREATE (h)-[:OUT]->(n)"));
    }
    weir.rows(&format!("{hub} MATCH (n) WHERE id(n) = idFrom(7) CREATE (n)-[:IN]->(h)"));
    let ids = weir.rows("RETURN idFrom('hub'), idFrom(7)");
    let (hub, seven) = (ids[0][0].as_str().expect("an id"), ids[0][1].as_str().expect("an id"));
    let path = format!("/api/v1/debug/{hub}");
    for all in [path.clone(), format!("{path}/verbose"), format!("{path}/edges"), format!("{path}/edges?limit=1400")] {
        let answer = weir.get(&all).expect(400).text();
        assert!(answer.contains("query.memory-bytes-max"), "{all}: {answer}");
    }
    let edges = |parameters: &str| weir.get(&format!("{path}/edges?{parameters}")).expect(200).json();
    assert_eq!(edges("limit=3").as_array().map(Vec::len), Some(3));
    let out = json!({"edgeType": "OUT", "direction": "Outgoing", "other": seven});
    let into = json!({"edgeType": "IN", "direction": "Incoming", "other": seven});
    assert_eq!(edges(&format!("other={seven}")), json!([out, into]));
    assert_eq!(edges(&format!("other={seven}&limit=1")), json!([out]));
    assert_eq!(edges("direction=in"), json!([into]));
    assert_eq!(edges("type=IN"), json!([into]));
    for none in ["type=NOPE", "type=", "direction=undirected", "type=IN&direction=out"] {
        assert_eq!(edges(none), json!([]), "{none}");
    }
}

#[test]
fn walks_are_not_saved_into_weirs_own_data() {
    let home = Home::new();
    std::fs::create_dir_all(home.file("data")).expect("a directory");
    std::fs::create_dir(home.file("out")).expect("a directory");
    let body = json!({"type": "LocalFile", "fileName": "x.csv"}).to_string();
    let json = [("Content-Type", "application/json")];
    let save = |weir: &Weir| weir.send("PUT", "/api/v1/algorithm/walk?length=1", &json, body.as_bytes());
    let weir = home.start(&["-Dweir.file-ingest.allowed-directories.0=data"]);
    let refused = save(&weir).expect(400).text();
    assert!(refused.contains("weir's own data"), "{refused}");
    weir.stop();
    let weir = home.start(&["-Dweir.file-ingest.allowed-directories.0=data", "-Dweir.file-ingest.allowed-directories.1=out"]);
    save(&weir).expect(202);
    weir.stop();
    assert!(home.file("out/x.csv").exists() && !home.file("data/x.csv").exists());
}

#[test]
fn the_lists_of_the_explorer_in_every_family() {
    let weir = weir();
    let predicate = json!({"propertyKeys": [], "knownValues": {}});
    let quick =
        |sort: Json| json!([{"predicate": predicate, "quickQuery": {"name": "n", "querySuffix": "RETURN n", "sort": sort}}]);
    let tap = json!([{"name": "t", "standingQueryName": "q", "query": "RETURN $that"}]);
    run(
        &weir,
        vec![
            case("GET /api/v2/query-ui/sample-queries", 200, content(json!([{"name": "…"}, {"name": "…"}]))),
            with("PUT /api/v2/query-ui/sample-queries", json!([{"name": "a", "query": "b"}]), 204, Is::Empty),
            case("GET /api/v1/query-ui/sample-queries", 200, Is::Json(json!([{"name": "a", "query": "b"}]))),
            case("GET /api/v2/queryUi/sampleQueries", 200, Is::Json(json!([{"name": "a", "query": "b"}]))),
            with(
                "PUT /api/v2/queryUi/sampleQueries",
                json!([{"name": "a"}]),
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .query: Missing required field)",
                ),
            ),
            with("PUT /api/v2/queryUi/quickQueries", quick(json!("TEXT")), 204, Is::Empty),
            case("GET /api/v2/queryUi/quickQueries", 200, Is::Json(quick(json!("TEXT")))),
            case("GET /api/v2/query-ui/quick-queries", 200, content(quick(json!({"type": "Text"})))),
            case("GET /api/v1/query-ui/quick-queries", 200, Is::Json(quick(json!("Text")))),
            with(
                "PUT /api/v2/query-ui/quick-queries",
                quick(json!("Up")),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body (…"),
            ),
            with(
                "PUT /api/v2/query-ui/node-appearances",
                json!([{"predicate": predicate, "icon": "ion-person"}]),
                204,
                Is::Empty,
            ),
            case("GET /api/v2/queryUi/nodeAppearances", 200, Is::Json(json!([{"icon": "\u{f213}"}]))),
            with("PUT /api/v2/queryUi/nodeAppearances", json!({}), 400, v2_error(400, "INVALID_ARGUMENT", "DecodeError", "…")),
            case("GET /api/v2/graph/quine/queryUi/tapQueries", 200, Is::Json(json!([]))),
            with("PUT /api/v2/graph/quine/queryUi/tapQueries", tap, 204, Is::Empty),
            case(
                "GET /api/v2/graph/quine/queryUi/tapQueries",
                200,
                Is::Json(json!([{"name": "t", "preEnrichment": false, "syntheticEdges": []}])),
            ),
            with(
                "PUT /api/v2/graph/quine/queryUi/tapQueries",
                json!([{"name": "t", "standingQueryName": "q", "query": "CREATE (n)"}]),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "A tap query must only read…"),
            ),
            case(
                "GET /api/v2/graph/nope/queryUi/tapQueries",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The namespace 'nope' does not exist"),
            ),
        ],
    );
}
