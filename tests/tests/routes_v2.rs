//! Routes of both generations of v2 against the real binary: their success, their errors, their parameters.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::cases::{Case, Is, case, content, cypher, run, v2_error, weir, with};
use weir_tests::contract::{Sent, breach};
use weir_tests::service::{Home, STOP_MAX};

/// As text, in every family.
const NOT_FOUND: &str = "The requested resource could not be found.";

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
                v2_error(400, "INVALID_ARGUMENT", "ApiError", "Value 2999-01-01T00:00:00Z must be less than system time 20…"),
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
            case(
                "GET /api/v2/admin/shards/size-limits?member-idx=first",
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: query parameter member-idx ('first' is no integer)",
                ),
            ),
            case("GET /api/v2/system/metrics", 200, Is::Json(json!({"gauges": "…"}))),
            case("POST /api/v2/admin/nodes/{id}/request-sleep", 202, accepted()),
            case("POST /api/v2/system/nodes/{id}:requestSleep?graphName=quine", 202, Is::Empty),
            case(
                "POST /api/v2/system/nodes/zzz:requestSleep",
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: path parameter id…"),
            ),
            case("GET /api/v2/admin/roles", 200, Is::Json(json!({"content": "…", "warnings": []}))),
            case("GET /api/v2/auth/me", 404, v2_error(404, "NOT_FOUND", "ApiError", "There are no logins here…")),
            case("POST /api/v2/transformations", 404, v2_error(404, "NOT_FOUND", "ApiError", "This edition is not enabled…")),
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
            case("GET /api/v2/nope", 404, Is::Text(NOT_FOUND)),
            case("POST /api/v2/admin/liveness", 405, Is::Text("HTTP method not allowed, supported methods: GET")),
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

/// In the words of whoever asks; it was `at-time` and a number for all.
#[test]
fn a_moment_to_come_is_refused_by_the_name_and_in_the_form_it_was_given() {
    let weir = weir();
    for (path, given, now, name) in [
        ("graph/quine/hashCode?atTime=", "2999-01-01T00:00:00Z", "20", "atTime"),
        ("graph/quine/hashCode?atTime=", "32472144000000", "1", "atTime"),
        ("admin/graph-hash-code?at-time=", "2999-01-01T00:00:00Z", "20", "at-time"),
    ] {
        let told = weir.get(&format!("/api/v2/{path}{given}")).expect(400).json()["error"]["message"].take();
        let told = told.as_str().unwrap_or_default();
        assert!(
            told.starts_with(&format!("Value {given} must be less than system time {now}"))
                && told.ends_with(&format!(" for query parameter '{name}'")),
            "{told}"
        );
    }
}

/// There is one, so any number will do; what is none is refused. The header is the strongest.
#[test]
fn the_member_of_a_cluster_is_named_in_three_ways() {
    let weir = weir();
    let paths = [
        "/api/v2/system/metrics",
        "/api/v2/system/shardSizeLimits",
        "/api/v2/graph/quine/ingests",
        "/api/v2/admin/metrics",
        "/api/v2/admin/shards/size-limits",
        "/api/v2/ingests",
    ];
    let tried = [
        ("memberIdx=0", None, Ok(())),
        ("member-idx=7", None, Ok(())),
        ("", Some("0"), Ok(())),
        ("memberIdx=one", Some("0"), Ok(())),
        ("memberIdx=one", None, Err("Invalid value for: query parameter memberIdx ('one' is no integer)")),
        ("member-idx=one", None, Err("Invalid value for: query parameter member-idx ('one' is no integer)")),
        ("memberIdx=0", Some("one"), Err("Invalid value for: header Quine-Member-Idx ('one' is no integer)")),
        ("", Some(""), Err("Invalid value for: header Quine-Member-Idx ('' is no integer)")),
    ];
    for path in paths {
        for (query, header, expected) in tried {
            let headers: Vec<(&str, &str)> = header.map(|value| ("quine-member-idx", value)).into_iter().collect();
            let target = format!("{path}?{query}");
            let answer = weir.send("GET", &target, &headers, b"");
            let sent = Sent { method: "GET", target: &target, content_type: None, body: b"" };
            assert_eq!(breach(&sent, &answer), None, "{target} {headers:?}");
            match expected {
                Ok(()) => assert_eq!(answer.status, 200, "{target} {headers:?}: {}", answer.shown()),
                Err(reason) => assert_eq!(answer.expect(400).json()["error"]["message"], reason, "{target} {headers:?}"),
            }
        }
    }
    // v1 knows nothing of members.
    weir.send("GET", "/api/v1/ingest?memberIdx=one", &[("Quine-Member-Idx", "one")], b"").expect(200);
}

#[test]
fn v2_shutdown() {
    let weir = weir();
    // A namespace that nothing was ever written to does not hold it up.
    let created = case("PUT /api/v1/namespace/empty", 201, Is::Json(json!(true)));
    run(&weir, vec![created, case("POST /api/v2/system:shutdown", 202, Is::Empty)]);
    let (status, log) = weir.wait_end(STOP_MAX);
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
                "POST /api/v2/graph/default/cypher:query?timeout=60s",
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
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .startOffset: Long (in .source))",
                ),
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
                "GET /api/v2/system/backpressure",
                200,
                Is::Json(json!([{"ingests": [{"name": "endless", "rateLimit": 1}, "…", "…", "…"]}])),
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
    weir.wait_ingest("one", "Completed", Duration::from_secs(60));
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
fn what_matched_before_goes_to_every_destination() {
    const QUERIES: usize = 10;
    let home = Home::new();
    // Where outputs are opened, each is durable before the next: the first must not have taken everything by then.
    let weir = home.start(&[]);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('before') SET n.adult = true");
    for query in 0..QUERIES {
        let files = (0..4).map(|file| json!({"type": "File", "path": format!("q{query}-{file}.jsonl")}));
        let body = json!({"name": format!("q{query}"),
            "pattern": {"type": "Cypher", "mode": "DISTINCT_ID", "query": "MATCH (n) WHERE n.adult = true RETURN DISTINCT id(n) AS id"},
            "outputs": [{"name": "files", "destinations": files.collect::<Vec<_>>()}]});
        run(
            &weir,
            vec![with("POST /api/v2/graph/quine/standingQueries?propagateTo=INCLUDE_SLEEPING", body, 201, Is::Json(json!({})))],
        );
    }
    for (query, file) in (0..QUERIES).flat_map(|query| (0..4).map(move |file| (query, file))) {
        home.wait_lines(&format!("q{query}-{file}.jsonl"), 1);
    }
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
    let of_output = |name: &str| {
        let mut body = body("refused", "DISTINCT_ID");
        body["outputs"][0]["name"] = json!(name);
        body
    };
    let slow = json!({"name": "refused", "pattern": {"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n) AS id"},
        "outputs": [{"name": "o", "destinations": [{"type": "Slack", "hookUrl": "http://localhost/", "interval": "often"}]}]});
    // What weir calls the second destination of a workflow, taken for a name.
    let named_alike = {
        let mut body = body("refused", "DistinctId");
        let drop = json!({"type": "Drop"});
        body["outputs"] = json!([{"name": "hook", "destinations": [drop, drop]}, {"name": "hook#2", "destinations": [drop]}]);
        body
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
                "POST /api/v2/graph/quine/standingQueries",
                of_output("b c"),
                400,
                v2_error(400, "INVALID_ARGUMENT", "DecodeError", "Invalid value for: body ('b c' is no name…"),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries",
                slow,
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: body (DecodingFailure at .interval: a duration of whole seconds…",
                ),
            ),
            with(
                "POST /api/v2/graph/quine/standingQueries?propagateTo=NONE&shouldCalculateResultHashCode=true",
                body("three", "DISTINCT_ID"),
                201,
                Is::Json(json!({"name": "three"})),
            ),
            case(
                "GET /api/v2/system/backpressure",
                200,
                Is::Json(
                    json!([{"standingQueries": [{"name": "one", "outputs": [{"name": "hook", "hasEnrichment": true, "destinations": [{"index": 0}, {"index": 1}]}]}, "…", "…"]}]),
                ),
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
            with(
                "POST /api/v2/standing-queries",
                named_alike,
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "ApiError",
                    "There is already a standing query output named `hook#2`, as destination 2 of 'hook' is called; choose another name for one of the two",
                ),
            ),
            with(
                "POST /api/v2/standing-queries/one/outputs",
                output("hook#2"),
                400,
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "ApiError",
                    "There is already a standing query output named `hook#2`, as destination 2 of 'hook' is called; choose another name for one of the two",
                ),
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
                v2_error(
                    400,
                    "INVALID_ARGUMENT",
                    "DecodeError",
                    "Invalid value for: query parameter wakeUpParallelism (must be at least 1)",
                ),
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
