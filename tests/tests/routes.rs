//! Every route of the three families against the real binary: its success, its errors, its parameters. One weir for all
//! cases, which run in their order, and hold what the OpenAPI documents promise. What the recording holds of v1 is replayed in `wire.rs`.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::client::Answer;
use weir_tests::contract::{Sent, breach};
use weir_tests::service::{Home, Weir};

const DATA: &str = "application/json";
const TEXT: &str = "text/plain";

/// What an answer must be.
enum Is {
    /// No body.
    Empty,
    /// JSON, with at least these fields; `"…"` stands for anything.
    Json(Json),
    /// A text that begins so.
    Text(&'static str),
}

struct Case {
    request: &'static str,
    content_type: &'static str,
    body: String,
    status: u16,
    is: Is,
}

fn case(request: &'static str, status: u16, is: Is) -> Case {
    Case { request, content_type: "", body: String::new(), status, is }
}

fn with(request: &'static str, body: Json, status: u16, is: Is) -> Case {
    Case { request, content_type: DATA, body: body.to_string(), status, is }
}

fn cypher(request: &'static str, text: &str, status: u16, is: Is) -> Case {
    Case { request, content_type: TEXT, body: text.to_owned(), status, is }
}

/// An error of v2, in which each generation finds its own key.
fn v2_error(status: u16, word: &str, kind: &str, message: &str) -> Is {
    Is::Json(
        json!({"errors": [{"type": kind, "message": message}], "error": {"code": status, "status": word, "message": message}}),
    )
}

fn content(content: Json) -> Is {
    Is::Json(json!({"content": content, "warnings": []}))
}

/// `{id}` in paths stands for the node `idFrom('r')`.
fn run(weir: &Weir, cases: Vec<Case>) {
    let id = weir.rows("RETURN idFrom('r')")[0][0].as_str().expect("an id").to_owned();
    let mut wrong = Vec::new();
    for case in cases {
        let request = case.request.replace("{id}", &id);
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let headers: &[(&str, &str)] = if case.content_type.is_empty() { &[] } else { &[("Content-Type", case.content_type)] };
        let body = case.body.replace("{id}", &id);
        let answer = weir.send(method, path, headers, body.as_bytes());
        let content_type = (!case.content_type.is_empty()).then_some(case.content_type);
        let sent = Sent { method, target: path, content_type, body: body.as_bytes() };
        if let Some(how) = check(&case, &answer).err().or_else(|| breach(&sent, &answer)) {
            wrong.push(format!("{request}\n  {how}\n  answered {}", answer.shown()));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(case: &Case, answer: &Answer) -> Result<(), String> {
    if answer.status != case.status {
        return Err(format!("status {} for {}", answer.status, case.status));
    }
    match &case.is {
        Is::Empty if answer.body.is_empty() => Ok(()),
        Is::Empty => Err("a body".to_owned()),
        Is::Text(begin) if answer.text().starts_with(begin) => Ok(()),
        Is::Text(begin) => Err(format!("should begin with {begin}")),
        Is::Json(expected) => {
            if answer.header("content-type") != Some(DATA) {
                return Err("not JSON by its content type".to_owned());
            }
            fits(expected, &answer.json(), "")
        }
    }
}

/// Objects may hold more than is expected.
fn fits(expected: &Json, found: &Json, at: &str) -> Result<(), String> {
    match (expected, found) {
        (Json::String(any), _) if any == "…" => Ok(()),
        (Json::Object(a), Json::Object(b)) => a.iter().try_for_each(|(key, expected)| {
            let found = b.get(key).ok_or_else(|| format!("{at}/{key} is missing"))?;
            fits(expected, found, &format!("{at}/{key}"))
        }),
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().try_for_each(|(index, (a, b))| fits(a, b, &format!("{at}/{index}")))
        }
        (Json::String(begin), Json::String(whole)) if begin.strip_suffix('…').is_some_and(|begin| whole.starts_with(begin)) => {
            Ok(())
        }
        _ if expected == found => Ok(()),
        _ => Err(format!("{at} is {found} for {expected}")),
    }
}

fn weir() -> Weir {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('r') AND id(b) = idFrom('s') SET a:Person, a.name = 'Ann', b.name = 'Bo' CREATE (a)-[:KNOWS]->(b)");
    weir
}

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
            case("GET /api/v1/debug/{id}/verbose", 200, Is::Json(json!({"labels": ["Person"]}))),
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
                Is::Json(json!(["Invalid file name: one.csv"])),
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
    let (file, deadline) = (home.file("one.csv"), Instant::now() + Duration::from_secs(10));
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

#[test]
fn v2_system() {
    let weir = weir();
    let limits = json!({"0": {"softLimit": 5, "hardLimit": 6}});
    let accepted = || Is::Json(json!({"message": "…"}));
    run(
        &weir,
        vec![
            case(
                "GET /api/v2/admin/system-info",
                200,
                content(json!({"version": "…", "javaAvailableProcessors": "…", "quineType": "Oss"})),
            ),
            case("GET /api/v2/system/systemInfo", 200, Is::Json(json!({"version": "…", "javaMaxMemory": "…"}))),
            case("GET /api/v2/admin/config", 200, content(json!({"quine": "…", "persistor": {"persistorType": "inmemory"}}))),
            case(
                "GET /api/v2/system/config",
                200,
                Is::Json(json!({"persistor": {"persistorType": "inmemory", "isLocal": true}})),
            ),
            case("POST /api/v2/admin/garbage-collection", 202, accepted()),
            case(
                "GET /api/v2/admin/graph-hash-code?at-time=2999-01-01T00:00:00Z",
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "Value 32472144000000 must be less than system time…"),
            ),
            case("GET /api/v2/admin/graph-hash-code", 200, content(json!({"value": "…", "atTime": "…"}))),
            case("GET /api/v2/graph/quine/hashCode", 200, Is::Json(json!({"value": "…", "atTime": "20…"}))),
            case(
                "GET /api/v2/graph/nope/hashCode",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The namespace 'nope' does not exist"),
            ),
            case(
                "GET /api/v2/graph/quine/hashCode?atTime=soon",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: query parameter atTime ('soon' is no time)"),
            ),
            case("GET /api/v2/admin/license-usage", 200, content(json!({"namespaces": "…"}))),
            case("GET /api/v2/admin/liveness", 204, Is::Empty),
            case("GET /api/v2/system/liveness", 204, Is::Empty),
            case("GET /api/v2/admin/readiness", 204, Is::Empty),
            case("GET /api/v2/system/readiness", 204, Is::Empty),
            case("GET /api/v2/admin/metadata", 200, content(json!({}))),
            case("GET /api/v2/system/metadata", 200, Is::Json(json!({}))),
            case("GET /api/v2/admin/metrics?memberIdx=0", 200, content(json!({"counters": "…"}))),
            case("GET /api/v2/system/metrics", 200, Is::Json(json!({"gauges": "…"}))),
            case("POST /api/v2/admin/nodes/{id}/request-sleep", 202, accepted()),
            case("POST /api/v2/system/nodes/{id}:requestSleep?graphName=quine", 202, Is::Empty),
            case(
                "POST /api/v2/system/nodes/zzz:requestSleep",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: path parameter id…"),
            ),
            case("GET /api/v2/admin/roles", 404, v2_error(404, "NOT_FOUND", "ApiError", "This edition is not enabled…")),
            case("GET /api/v2/auth/me", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            case("POST /api/v2/transformations", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            with("POST /api/v2/admin/shards/size-limits", limits.clone(), 200, content(limits.clone())),
            case("GET /api/v2/admin/shards/size-limits", 200, content(limits.clone())),
            case("GET /api/v2/system/shardSizeLimits", 200, Is::Json(limits)),
            with(
                "PATCH /api/v2/system/shardSizeLimits",
                json!({"9": {"softLimit": 1, "hardLimit": 1}}),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "The following shards do not exist: 9"),
            ),
            case("GET /api/v2/admin/status", 200, content(json!({"fullyUp": true}))),
            case("GET /api/v2/system/status", 200, Is::Json(json!({"fullyUp": true}))),
            case(
                "GET /api/v2/system/backpressure",
                200,
                Is::Json(json!([{"globalValve": {"isOpen": true}, "namespaces": ["quine"], "ingests": []}])),
            ),
            case("GET /api/v2/namespaces", 200, content(json!(["default"]))),
            with("POST /api/v2/namespaces", json!({"name": "abc"}), 201, content(json!("abc"))),
            with("POST /api/v2/namespaces", json!({"name": "abc"}), 204, Is::Empty),
            with(
                "POST /api/v2/namespaces",
                json!({"name": "1"}),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "Invalid namespace…"),
            ),
            with(
                "POST /api/v2/namespaces",
                json!({}),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body (…"),
            ),
            case("PUT /api/v2/namespaces/def", 201, content(json!("def"))),
            case("DELETE /api/v2/namespaces/abc", 200, content(json!("abc"))),
            case("DELETE /api/v2/namespaces/abc", 200, content(json!("abc"))),
            case("GET /api/v2/nope", 404, Is::Text(V1_NOT_FOUND)),
            case("POST /api/v2/admin/liveness", 405, Is::Text("HTTP method not allowed")),
            Case {
                request: "POST /api/v2/namespaces",
                content_type: "text/csv",
                body: "x".to_owned(),
                status: 415,
                is: Is::Text("The request's Content-Type"),
            },
        ],
    );
}

#[test]
fn v2_shutdown() {
    let weir = weir();
    // A namespace that nothing was ever written to does not hold it up.
    let created = case("PUT /api/v1/namespace/empty", 201, Is::Json(json!(true)));
    run(&weir, vec![created, case("POST /api/v2/system:shutdown", 202, Is::Empty)]);
    let (status, log) = weir.wait_end(Duration::from_secs(30));
    assert!(status.success(), "{log}");
}

#[test]
fn v2_queries() {
    let weir = weir();
    let table = json!({"columns": ["name", "map"], "results": [["Ann", {"b": [null]}]]});
    let text = "MATCH (n) WHERE id(n) = idFrom('r') RETURN n.name AS name, {a: null, b: [null]} AS map";
    let node = json!([{"id": "…", "hostIndex": 0, "label": "Person", "properties": {"name": "Ann"}}]);
    let edge = json!([{"from": "…", "edgeType": "KNOWS", "to": "…", "isDirected": true}]);
    let nodes = "MATCH (n) WHERE id(n) = idFrom('r') RETURN n";
    let edges = "MATCH (n)-[r]->() WHERE id(n) = idFrom('r') RETURN r";
    let cypher_error = |message: &str| {
        Is::Json(json!({"errors": [{"type": "CypherError", "message": message}],
            "error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"type": "ErrorInfo", "reason": "CYPHER_ERROR", "domain": "quine.io", "metadata": {}}]}}))
    };
    run(
        &weir,
        vec![
            cypher("POST /api/v2/cypher-queries/query-graph", text, 200, content(table.clone())),
            cypher("POST /api/v2/graph/quine/cypher:query", text, 200, Is::Json(table)),
            with(
                "POST /api/v2/graph/default/cypher:query?timeout=5s",
                json!({"text": "RETURN $x AS x", "parameters": {"x": 1.0}}),
                200,
                Is::Json(json!({"columns": ["x"], "results": [[1]]})),
            ),
            cypher("POST /api/v2/cypher-queries/query-nodes", nodes, 200, content(node.clone())),
            cypher("POST /api/v2/graph/quine/cypher:queryNodes", nodes, 200, Is::Json(node)),
            cypher("POST /api/v2/cypher-queries/query-edges", edges, 200, content(edge.clone())),
            cypher("POST /api/v2/graph/quine/cypher:queryEdges", edges, 200, Is::Json(edge)),
            cypher("POST /api/v2/cypher-queries/query-graph", "RETURN x", 400, cypher_error("CompileError at 1.8 …")),
            cypher("POST /api/v2/graph/quine/cypher:query", "RETURN 1/0", 400, cypher_error("ArithmeticError…")),
            cypher("POST /api/v2/graph/quine/cypher:query", "", 400, cypher_error("…")),
            cypher("POST /api/v2/graph/nope/cypher:query", "RETURN 1", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            cypher(
                "POST /api/v2/graph/quine/cypher:query?timeout=never",
                "RETURN 1",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: query parameter timeout…"),
            ),
            cypher(
                "POST /api/v2/graph/quine/cypher:query?timeout=50",
                "CALL util.sleep(5000) RETURN 1",
                500,
                v2_error(500, "INTERNAL", "ApiError", "The stream has not been completed in 50 milliseconds."),
            ),
            cypher("POST /api/v2/cypher-queries/query-graph", "EXPLAIN RETURN 1", 200, content(json!({"columns": ["plan"]}))),
            with(
                "POST /api/v2/cypher-queries/user-defined",
                json!(["f.jar"]),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "f.jar cannot be loaded…"),
            ),
            with("POST /api/v2/cypher-queries/user-defined", json!([]), 200, content(json!([]))),
            case("GET /api/v2/cypher-queries/running", 200, content(json!([]))),
            case(
                "DELETE /api/v2/cypher-queries/running/9",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "there is no running query with the id '9'"),
            ),
            case("GET /api/v2/graph/quine/query/ws", 400, Is::Text("Expected WebSocket Upgrade request")),
            with(
                "POST /api/v2/graph/quine/cypher:query",
                json!({"parameters": {}}),
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .text: Missing required field)",
                ),
            ),
        ],
    );
}

#[test]
fn v2_ingest_streams() {
    let weir = weir();
    let body = |name: &str| json!({"name": name, "source": {"type": "NumberIterator", "startOffset": 2, "limit": 10}, "query": "MATCH (n) WHERE id(n) = idFrom('num', $that) SET n.seq = $that", "parallelism": 4});
    let endless = json!({"name": "endless", "source": {"type": "NumberIterator"}, "query": "RETURN $that", "maxPerSecond": 1});
    let source = json!({"type": "NumberIterator", "startOffset": 2, "limit": 10});
    run(
        &weir,
        vec![
            case("GET /api/v2/ingests", 200, content(json!([]))),
            with(
                "POST /api/v2/ingests",
                body("one"),
                201,
                content(json!({"name": "one", "status": "…", "settings": source, "stats": {"totalRuntime": "…"}})),
            ),
            with(
                "POST /api/v2/ingests",
                body("one"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "Cannot create ingest stream `one`…"),
            ),
            with("POST /api/v2/ingests?namespace=nope", body("one"), 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            with(
                "POST /api/v2/graph/quine/ingests",
                body("two"),
                201,
                Is::Json(
                    json!({"name": "two", "settings": {"name": "two", "source": source, "query": "…", "parameter": "that", "parallelism": 4}, "content": {"name": "two"}, "warnings": []}),
                ),
            ),
            with(
                "POST /api/v2/graph/quine/ingests",
                body("a b"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body ('a b' is no name…"),
            ),
            with(
                "POST /api/v2/graph/quine/ingests",
                json!({"name": "x", "source": {"type": "DeltaSharingCdf"}, "query": "RETURN 1"}),
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .source: the source 'DeltaSharingCdf' is not in this version…",
                ),
            ),
            with(
                "POST /api/v2/ingests",
                json!({"name": "x", "source": {"type": "NumberIterator", "startOffset": "?"}, "query": "RETURN 1"}),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body (DecodingFailure at .startOffset: …"),
            ),
            with(
                "POST /api/v2/ingests",
                json!({"name": "x", "source": {"type": "NumberIterator"}, "query": "RETURN x"}),
                400,
                Is::Json(json!({"errors": [{"type": "CypherError"}]})),
            ),
            with(
                "POST /api/v2/ingests",
                json!({"name": "x", "source": {"type": "File", "path": "nope.txt", "format": {"type": "Line"}}, "query": "RETURN 1"}),
                400,
                Is::Json(json!({"errors": [{"type": "ApiError"}]})),
            ),
            with(
                "POST /api/v2/ingests",
                json!({"name": "old", "type": "NumberIteratorIngest", "ingestLimit": 1}),
                201,
                content(json!({"name": "old"})),
            ),
            with("POST /api/v2/graph/quine/ingests", endless, 201, Is::Json(json!({"status": "RUNNING"}))),
            case(
                "GET /api/v2/graph/quine/ingests",
                200,
                Is::Json(
                    json!({"items": [{"name": "endless"}, {"name": "old"}, {"name": "one"}, {"name": "two"}], "content": "…", "warnings": []}),
                ),
            ),
            case(
                "POST /api/v2/graph/quine/ingests/endless:pause",
                200,
                Is::Json(json!({"name": "endless", "status": "PAUSED", "settings": {"maxPerSecond": 1}})),
            ),
            case(
                "POST /api/v2/graph/quine/ingests/endless:resume",
                200,
                Is::Json(json!({"status": "RUNNING", "stats": {"totalRuntime": "…"}})),
            ),
            case("POST /api/v2/ingests/endless/pause", 200, content(json!({"status": "Paused"}))),
            case("POST /api/v2/ingests/endless/start", 200, content(json!({"status": "Running"}))),
            case(
                "GET /api/v1/ingest/endless",
                200,
                Is::Json(json!({"status": "Running", "settings": {"type": "NumberIteratorIngest", "maximumPerSecond": 1}})),
            ),
            case("DELETE /api/v2/ingests/endless", 200, content(json!({"name": "endless", "status": "Terminated"}))),
            case(
                "GET /api/v2/ingests/endless",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The ingest stream 'endless' does not exist"),
            ),
            case("DELETE /api/v2/graph/quine/ingests/endless", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            case("POST /api/v2/graph/quine/ingests/nope:pause", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            case("GET /api/v2/graph/quine/ingests/a:b", 400, v2_error(400, "INVALID_ARGUMENT", "DecodeError", "…")),
        ],
    );
    weir.wait_ingest("one", "Completed", Duration::from_secs(10));
    run(
        &weir,
        vec![
            case(
                "POST /api/v2/ingests/one/pause",
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "Cannot pause a failed ingest."),
            ),
            case(
                "GET /api/v2/graph/quine/ingests/one",
                200,
                Is::Json(json!({"status": "COMPLETED", "stats": {"ingestedCount": 10}})),
            ),
            cypher(
                "POST /api/v1/query/cypher",
                "MATCH (n) WHERE id(n) = idFrom('num', 2) RETURN n.seq AS s",
                200,
                Is::Json(json!({"results": [[2]]})),
            ),
        ],
    );
}

#[test]
fn v2_standing_queries() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('before') SET n.adult = true, n.name = 'Bo'");
    let body = |name: &str, mode: &str| {
        json!({"name": name, "pattern": {"type": "Cypher", "mode": mode, "query": "MATCH (n) WHERE n.adult = true RETURN DISTINCT id(n) AS id"},
            "outputs": [{"name": "hook", "filter": {"type": "OnlyPositiveMatch"},
                "resultEnrichment": {"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.name AS name"},
                "destinations": [{"type": "File", "path": format!("{name}-1.jsonl")}, {"type": "File", "path": format!("{name}-2.jsonl")}]}]})
    };
    let output = |name: &str| json!({"name": name, "preEnrichmentTransformation": {"type": "InlineData"}, "destinations": [{"type": "Drop"}]});
    run(
        &weir,
        vec![
            case("GET /api/v2/standing-queries", 200, content(json!([]))),
            with(
                "POST /api/v2/standing-queries",
                body("one", "DistinctId"),
                201,
                content(
                    json!({"name": "one", "pattern": {"mode": "DistinctId"}, "outputs": [{"name": "hook", "destinations": [{"type": "File"}, {"type": "File"}]}], "stats": {"local": {"outputHashCode": 0, "totalRuntime": "…"}}}),
                ),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries",
                body("two", "DISTINCT_ID"),
                201,
                Is::Json(json!({"name": "two", "pattern": {"mode": "DISTINCT_ID"}, "content": {"name": "two"}, "warnings": []})),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries?propagateTo=NONE&shouldCalculateResultHashCode=true",
                body("three", "DISTINCT_ID"),
                201,
                Is::Json(json!({"name": "three"})),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries?propagateTo=ALL",
                body("x", "DISTINCT_ID"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: query parameter propagateTo…"),
            ),
            with(
                "POST /api/v2/standing-queries",
                body("one", "DistinctId"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "There is already a standing query named 'one'"),
            ),
            with(
                "POST /api/v2/standing-queries",
                body("x", "Nope"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body (DecodingFailure at .mode: …"),
            ),
            with(
                "POST /api/v2/standing-queries",
                json!({"name": "x", "pattern": {"type": "Cypher", "query": "MATCH (n RETURN n"}}),
                400,
                Is::Json(json!({"errors": [{"type": "CypherError"}]})),
            ),
            case(
                "GET /api/v2/graph/quine/standingQueries",
                200,
                Is::Json(json!({"items": [{"name": "one"}, {"name": "three"}, {"name": "two"}]})),
            ),
            with("POST /api/v2/standing-queries/one/outputs", output("more"), 201, Is::Empty),
            with(
                "POST /api/v2/standing-queries/one/outputs",
                output("more"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "There is already a standing query output named 'more'"),
            ),
            with(
                "POST /api/v2/standing-queries/nope/outputs",
                output("more"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "The standing query 'nope' does not exist"),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries/two/outputs",
                output("bad:name"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "…"),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries/two/outputs",
                json!({"name": "o", "destinations": [{"type": "Nope"}]}),
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .destinations[0]: type 'Nope' names no known destination…",
                ),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries/two/outputs",
                json!({"name": "o", "resultEnrichment": {"query": "CREATE (n)"}, "destinations": [{"type": "Drop"}, {"type": "Drop"}]}),
                400,
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "The resultEnrichment of 'o' changes the graph…"),
            ),
            case(
                "DELETE /api/v2/graph/quine/standingQueries/one/outputs/more",
                200,
                Is::Json(json!({"name": "more", "destinations": [{"type": "Drop"}]})),
            ),
            case(
                "DELETE /api/v2/standing-queries/one/outputs/more",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The output 'more' does not exist"),
            ),
            case(
                "GET /api/v1/query/standing/one",
                200,
                Is::Json(
                    json!({"outputs": {"hook": {"type": "CypherQuery", "andThen": {"type": "WriteToFile"}}, "hook#2": "…"}}),
                ),
            ),
            case("PUT /api/v2/standing-queries/control/propagate", 202, Is::Json(json!({"message": "…"}))),
            case("POST /api/v2/graph/quine/standingQueries:propagate?includeSleeping=true&wakeUpParallelism=2", 202, Is::Empty),
            case(
                "POST /api/v2/graph/quine/standingQueries:propagate?wakeUpParallelism=0",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "…"),
            ),
            case(
                "GET /api/v2/standing-queries/nope",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The standing query 'nope' does not exist"),
            ),
            case("GET /api/v2/graph/quine/standingQueries/two:tap", 400, Is::Text("Expected WebSocket Upgrade request")),
            case("GET /api/v2/graph/quine/standingQueries/nope:tap", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
            case(
                "GET /api/v2/graph/quine/standingQueries/two/outputs/nope:tap",
                404,
                v2_error(404, "NOT_FOUND", "ApiError", "The output 'nope' does not exist"),
            ),
            case(
                "GET /api/v2/graph/quine/standingQueries/two/outputs/hook:tapPreEnrichment",
                400,
                Is::Text("Expected WebSocket Upgrade request"),
            ),
        ],
    );
    // The rows of the enrichment, to every destination; what matched before was propagated.
    weir.rows("MATCH (n) WHERE id(n) = idFrom('after') SET n.adult = true, n.name = 'Ann'");
    for file in ["two-1.jsonl", "two-2.jsonl", "one-1.jsonl"] {
        let lines = home.wait_lines(file, 2);
        let mut names: Vec<String> = lines.iter().map(Json::to_string).collect();
        names.sort_unstable();
        assert_eq!(names, [r#"{"name":"Ann"}"#, r#"{"name":"Bo"}"#], "{file}");
    }
    run(
        &weir,
        vec![
            case(
                "DELETE /api/v2/standing-queries/one/outputs/hook",
                200,
                content(json!({"name": "hook", "destinations": ["…", "…"]})),
            ),
            case("GET /api/v2/standing-queries/one", 200, content(json!({"outputs": []}))),
            case("DELETE /api/v2/standing-queries/one", 200, content(json!({"name": "one"}))),
            case("DELETE /api/v2/graph/quine/standingQueries/two", 200, Is::Json(json!({"name": "two"}))),
            case("DELETE /api/v2/graph/quine/standingQueries/two", 404, v2_error(404, "NOT_FOUND", "ApiError", "…")),
        ],
    );
}
