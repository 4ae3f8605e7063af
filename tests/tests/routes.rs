//! Routes of v1, and those that are alike in all three families, against the real binary: their success, their errors, their
//! parameters. Those of v2 alone are in `routes_v2.rs`; what the recording holds of v1 is replayed in `wire.rs`, and what is
//! wrong with any row is tried in `every_route.rs`.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::cases::{Is, case, content, cypher, run, v2_error, weir, with};
use weir_tests::service::{Home, Weir};

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
                Is::Json(json!(["the file 'one.csv' exists already"])),
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
        let text = std::fs::read_to_string(&file).expect("the file is there at once");
        let rows: Vec<Vec<String>> = text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        if rows.len() == 4 && text.ends_with('\n') {
            break rows;
        }
        assert!(Instant::now() < deadline, "two walks from each of two nodes: {text}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(rows.iter().all(|row| row.len() == 3 && row[0] == row[1] && row[1] != row[2]), "{rows:?}");
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
