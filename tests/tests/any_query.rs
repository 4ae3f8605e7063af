//! Mode AnyQuery over HTTP against the real binary: what it takes and refuses, what comes of it in files and at an endpoint, and
//! that it goes on after the service has ended.

use serde_json::{Value as Json, json};
use weir_tests::endpoint::Endpoint;
use weir_tests::service::{Home, RESULTS_MAX, Weir, wait_until};

const IN_MEMORY: &[&str] = &["-Dweir.store.type=in-memory"];

const TRIANGLES: &str = "MATCH (a)-[:R]->(b)-[:R]->(c)-[:R]->(a) WITH a.k AS k, count(*) AS n WHERE n > 1 RETURN k, n";

fn at(name: &str) -> String {
    format!("/api/v1/query/standing/{name}")
}

fn body(query: &str, mode: Option<&str>, outputs: Json) -> Json {
    let mut body = json!({"pattern": {"type": "Cypher", "query": query}, "includeCancellations": true, "outputs": outputs});
    if let Some(mode) = mode {
        body["pattern"]["mode"] = mode.into();
    }
    body
}

fn edge(weir: &Weir, from: u32, to: u32, present: bool) {
    let ends = format!("MATCH (a), (b) WHERE id(a) = idFrom('n', {from}) AND id(b) = idFrom('n', {to})");
    weir.rows(&match present {
        true => format!("{ends} SET a.k = 1, b.k = 1 CREATE (a)-[:R]->(b)"),
        false => format!("{ends} MATCH (a)-[r:R]->(b) DELETE r"),
    });
}

fn results(lines: &[Json]) -> Vec<(bool, Json)> {
    lines.iter().map(|line| (line["meta"]["isPositiveMatch"] == true, line["data"].clone())).collect()
}

#[test]
fn rows_come_and_are_taken_back_in_a_file_and_at_an_endpoint_also_after_a_restart() {
    let home = Home::new();
    let endpoint = Endpoint::start("/nowhere");
    let weir = home.start(&[]);
    let outputs = json!({
        "file": {"type": "WriteToFile", "path": "out.jsonl"},
        "hook": {"type": "PostToEndpoint", "url": format!("http://{}/hook", endpoint.address()), "parallelism": 1},
    });
    weir.post(&at("rings"), &body(TRIANGLES, Some("AnyQuery"), outputs)).expect(201);
    let info = weir.get(&at("rings")).expect(200).json();
    assert_eq!(info["pattern"], json!({"type": "Cypher", "query": TRIANGLES, "mode": "AnyQuery"}));
    let list = weir.get("/api/v1/query/standing").expect(200).json();
    assert_eq!((list.as_array().map(Vec::len), &list[0]["pattern"]["mode"]), (Some(1), &json!("AnyQuery")));

    // One ring is three rows, one for each node to begin at.
    [(1, 2), (2, 3), (3, 1)].iter().for_each(|(from, to)| edge(&weir, *from, *to, true));
    let three = json!({"k": 1, "n": 3});
    assert_eq!(results(&home.wait_lines("out.jsonl", 1)), [(true, three.clone())]);
    weir.stop();

    // The graph and the query are as they were: nothing is said again, and what changes is said once.
    let weir = home.start(&[]);
    assert_eq!(weir.get(&at("rings")).expect(200).json()["pattern"]["mode"], "AnyQuery");
    [(2, 4), (4, 1)].iter().for_each(|(from, to)| edge(&weir, *from, *to, true));
    let lines = home.wait_lines("out.jsonl", 3);
    assert_eq!(results(&lines), [(true, three.clone()), (true, json!({"k": 1, "n": 6})), (false, three.clone())]);
    assert_eq!(lines[0]["meta"]["resultId"], lines[2]["meta"]["resultId"]);
    edge(&weir, 1, 2, false);
    assert_eq!(results(&home.wait_lines("out.jsonl", 4)[3..]), [(false, json!({"k": 1, "n": 6}))]);
    let mut posted = Vec::new();
    wait_until("the endpoint has what the file has", RESULTS_MAX, || {
        posted.extend(endpoint.take().into_iter().map(|(_, result)| result));
        posted.len() >= 4
    });
    assert_eq!(posted, home.lines("out.jsonl"));
    assert_eq!(weir.delete(&at("rings")).expect(200).json()["name"], "rings");
    weir.get(&at("rings")).expect(404);
    edge(&weir, 1, 2, true);
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 4, "a query that was deleted goes on");
}

#[test]
fn what_matches_already_comes_when_it_is_asked_for() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    weir.rows("UNWIND range(1, 3) AS i MATCH (n) WHERE id(n) = idFrom('old', i) SET n.v = i");
    let query = "MATCH (n) WHERE n.v IS NOT NULL RETURN max(n.v) AS top";
    weir.post(&at("top"), &body(query, Some("AnyQuery"), json!({"f": {"type": "WriteToFile", "path": "out.jsonl"}}))).expect(201);
    // At once, and on a graph that does not change.
    weir.send("POST", "/api/v1/query/standing/control/propagate", &[], b"").expect(202);
    assert_eq!(results(&home.wait_lines("out.jsonl", 1)), [(true, json!({"top": 3}))]);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('old', 3) SET n.v = null");
    assert_eq!(results(&home.wait_lines("out.jsonl", 3)[1..]), [(true, json!({"top": 2})), (false, json!({"top": 3}))]);
}

#[test]
fn time_alone_brings_results_and_takes_them_back_also_while_weir_is_down() {
    let home = Home::new();
    let weir = home.start(&[]);
    let query =
        "MATCH (h:Host) WHERE timestamp() - h.seen > 400 AND timestamp() - h.seen <= 1400 RETURN h.name AS host, h.seen AS seen";
    weir.post(&at("silent"), &body(query, None, json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}}))).expect(201);
    assert_eq!(weir.get(&at("silent")).json()["pattern"]["mode"], "AnyQuery");
    let seen = |weir: &Weir| {
        let rows =
            weir.rows("MATCH (h) WHERE id(h) = idFrom('host') SET h:Host, h.name = 'a', h.seen = timestamp() RETURN h.seen");
        rows[0][0].clone()
    };
    let first = json!({"host": "a", "seen": seen(&weir)});
    assert_eq!(results(&home.wait_lines("out.jsonl", 2)), [(true, first.clone()), (false, first)]);
    // It is seen again, and weir ends before anything comes of that.
    let second = json!({"host": "a", "seen": seen(&weir)});
    weir.kill();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let weir = home.start(&[]);
    assert_eq!(results(&home.wait_lines("out.jsonl", 4)[2..]), [(true, second.clone()), (false, second)]);
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), 4);
}

#[test]
fn the_time_conditions_of_the_manual_can_be_maintained() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/standing-queries.md"));
    let manual = manual.expect("the manual is there");
    let (_, section) = manual.split_once("## Conditions on the current time").expect("the section is there");
    let (section, _) = section.split_once("\n## ").expect("and ends");
    let texts = section.split('`').skip(1).step_by(2).filter(|text| text.starts_with("MATCH"));
    let mut count = 0;
    for text in texts {
        count += 1;
        let mode = weir_cypher_compiler::StandingMode::AnyQuery;
        if let Err(problems) = weir_cypher_compiler::compile_standing(text, mode, &Default::default()) {
            panic!("{text}: {}", problems[0]);
        }
    }
    assert!(count >= 7, "{count} queries are shown");
}

#[test]
fn what_cannot_be_maintained_is_refused_with_its_place() {
    let weir = Home::new().start(IN_MEMORY);
    for (query, begins) in [
        ("MATCH (n) SET n.x = 1 RETURN n", "CompileError at 1.11 A standing query's results follow from the graph: SET"),
        (
            "MATCH (n)\nWHERE n.x > rand()\nRETURN n",
            "CompileError at 2.13 A standing query's results follow from the graph: `rand()` does not",
        ),
        (
            "MATCH (n) RETURN n.x, timestamp() AS t",
            "CompileError at 1.23 A standing query's results follow from the graph: `timestamp()` does not",
        ),
        ("MATCH (n) WHERE n.x = $p RETURN n", "CompileError at 1.23 Unknown parameter `p`"),
        ("LOAD CSV FROM 'x' AS row RETURN row", "CompileError at 1.1 A standing query's results follow from the graph: LOAD CSV"),
        (
            "CALL db.indexes() YIELD description RETURN description",
            "CompileError at 1.1 A standing query's results follow from the graph: procedure `db.indexes` tells of indexes",
        ),
        (
            "MATCH (n) CALL debug.node(n) YIELD journal RETURN journal",
            "CompileError at 1.11 A standing query's results follow from the graph: procedure `debug.node` tells of the past",
        ),
        ("SHOW INDEXES", "CompileError at 1.1 A standing query's results follow from the graph: SHOW INDEXES tells of indexes"),
        (
            "SHOW QUERIES",
            "CompileError at 1.1 A standing query's results follow from the graph: SHOW QUERIES tells of queries that run",
        ),
        (
            "TERMINATE QUERY '1'",
            "CompileError at 1.1 A standing query's results follow from the graph: TERMINATE QUERY ends queries that run",
        ),
        ("MATCH (n RETURN n", "SyntaxError at 1.10 "),
        ("MATCH (n) RETURN m", "CompileError at 1.18 Variable `m` not defined"),
    ] {
        // With the mode, and without one: then nothing else would take it either.
        for mode in [Some("AnyQuery"), None] {
            let refused = weir.post(&at("x"), &body(query, mode, json!({}))).expect(400).json();
            assert!(refused[0].as_str().is_some_and(|text| text.starts_with(begins)), "{query}: {refused}");
        }
    }
    assert_eq!(weir.get("/api/v1/query/standing").json(), json!([]));
}

#[test]
fn a_text_without_a_mode_is_kept_in_the_one_that_takes_it() {
    let weir = Home::new().start(IN_MEMORY);
    for (query, mode) in [
        ("MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n)", "DistinctId"),
        ("MATCH (n) WHERE n.x > 1 RETURN DISTINCT id(n)", "AnyQuery"),
        ("MATCH (n) RETURN count(*) AS c", "AnyQuery"),
    ] {
        weir.post(&at("x"), &body(query, None, json!({}))).expect(201);
        assert_eq!(weir.delete(&at("x")).expect(200).json()["pattern"]["mode"], mode, "{query}");
    }
    // Who names a mode wants what it promises.
    let refused = |query: &str, mode: &str| weir.post(&at("x"), &body(query, Some(mode), json!({}))).expect(400).json();
    assert_eq!(
        refused("MATCH (n) WHERE n.x > 1 RETURN DISTINCT id(n)", "DistinctId"),
        json!(["DistinctId queries cannot filter"])
    );
    assert_eq!(refused("MATCH (a)-[:R]->(b)-[:R]->(a) RETURN id(a) AS a", "MultipleValues"), json!(["Pattern has a cycle"]));
}

#[test]
fn a_call_that_may_give_no_row_is_kept_up_to_date() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    let query = "MATCH (n:A) OPTIONAL CALL (n) { MATCH (n)-[:R]->(m) RETURN m.x AS x } RETURN n.k AS k, x";
    weir.post(&at("calls"), &body(query, Some("AnyQuery"), json!({"f": {"type": "WriteToFile", "path": "out.jsonl"}})))
        .expect(201);
    let row = |x: Json| json!({"k": 1, "x": x});
    weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n:A, n.k = 1");
    assert_eq!(results(&home.wait_lines("out.jsonl", 1)), [(true, row(Json::Null))]);
    let ends = "MATCH (n), (m) WHERE id(n) = idFrom('a') AND id(m) = idFrom('b')";
    weir.rows(&format!("{ends} SET m.x = 7 CREATE (n)-[:R]->(m)"));
    assert_eq!(results(&home.wait_lines("out.jsonl", 3)[1..]), [(true, row(json!(7))), (false, row(Json::Null))]);
    assert_eq!(weir.rows(query), [json!([1, 7])]);
    weir.rows(&format!("{ends} MATCH (n)-[r:R]->(m) DELETE r"));
    assert_eq!(results(&home.wait_lines("out.jsonl", 5)[3..]), [(true, row(Json::Null)), (false, row(json!(7)))]);
    assert_eq!(weir.rows(query), [json!([1, null])]);
}

/// As the manual says near its beginning.
#[test]
fn what_the_usual_mode_answers_otherwise_than_the_query() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    weir.rows("CREATE (:A {x: 1}), (:A {x: 1.0}), (:A), (n:A) CREATE (n)-[:R]->(n)");
    weir.rows("CREATE (n), (m) CREATE (n)-[:R]->(m) CREATE (n)-[:S]->(m)");
    for (index, (query, usual, asked)) in [
        ("MATCH (n:A) WHERE n.x <> 1 RETURN DISTINCT id(n) AS i", 3, 0),
        ("MATCH (n:A) WHERE n.x = 1 RETURN DISTINCT id(n) AS i", 1, 2),
        ("MATCH (n:A)-[:R]->(m) RETURN DISTINCT id(n) AS i", 0, 1),
        ("MATCH (a)<-[:R]-(n)-[:S]->(b) RETURN DISTINCT id(n) AS i", 0, 1),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(weir.rows(query).len(), asked, "{query}");
        for (mode, found, kept) in [(None, usual, "DistinctId"), (Some("AnyQuery"), asked, "AnyQuery")] {
            let (name, file) = (format!("{kept}{index}"), format!("{kept}{index}.jsonl"));
            let mut body = body(query, mode, json!({"f": {"type": "WriteToFile", "path": file}}));
            body["startFrom"] = "WholeGraph".into();
            weir.post(&at(&name), &body).expect(201);
            let info = || weir.get(&at(&name)).expect(200).json();
            assert_eq!(info()["pattern"]["mode"], kept);
            wait_until("the graph has been looked through", RESULTS_MAX, || info()["stats"]["local"].get("backfill").is_none());
            home.wait_lines(&file, found);
        }
    }
    // Nothing comes late, either.
    weir.stop();
    assert_eq!([0, 1, 2, 3].map(|index| home.lines(&format!("DistinctId{index}.jsonl")).len()), [3, 1, 0, 0]);
}

#[test]
fn a_query_may_begin_with_the_whole_graph() {
    let home = Home::new();
    let weir = home.start(&[]);
    edge(&weir, 1, 2, true);
    let query = "MATCH (a)-[:R]->(b) RETURN a.k AS k";
    let outputs = |path: &str| json!({"file": {"type": "WriteToFile", "path": path}});
    for (name, start) in [("all", "WholeGraph"), ("later", "Now")] {
        let mut body = body(query, Some("MultipleValues"), outputs(&format!("{name}.jsonl")));
        body["startFrom"] = start.into();
        weir.post(&at(name), &body).expect(201);
    }
    let workflow = json!({"name": "named", "destinations": [{"type": "File", "path": "named.jsonl"}]});
    let pattern = json!({"type": "Cypher", "query": query, "mode": "MULTIPLE_VALUES"});
    let named = json!({"name": "named", "pattern": pattern, "outputs": [workflow], "startFrom": "WHOLE_GRAPH"});
    weir.post("/api/v2/standing-queries", &named).expect(201);
    let row = |line: &Json| line["data"].clone();
    assert_eq!(home.wait_lines("all.jsonl", 1).iter().map(row).collect::<Vec<_>>(), [json!({"k": 1})]);
    home.wait_lines("named.jsonl", 1);
    edge(&weir, 3, 4, true);
    assert_eq!(home.wait_lines("later.jsonl", 1).len(), 1, "what was there is no result");
    assert_eq!(home.wait_lines("all.jsonl", 2).len(), 2);
    let begin = |weir: &Weir, place: &str| weir.get(place).expect(200).json().get("startFrom").cloned();
    let places = [at("all"), at("later"), "/api/v2/graph/quine/standingQueries/named".to_owned()];
    let begun = places.each_ref().map(|place| begin(&weir, place));
    assert_eq!(begun, [Some(json!("WholeGraph")), None, Some(json!("WHOLE_GRAPH"))]);
    weir.stop();
    // Once is enough, also after a restart.
    let weir = home.start(&[]);
    assert_eq!(places.each_ref().map(|place| begin(&weir, place)), begun);
    edge(&weir, 5, 6, true);
    assert_eq!(home.wait_lines("all.jsonl", 3).len(), 3);
    assert_eq!(home.wait_lines("later.jsonl", 2).len(), 2);
    let mut wrong = body(query, None, json!({}));
    wrong["startFrom"] = "Yesterday".into();
    let refused = weir.post(&at("wrong"), &wrong).expect(400).text();
    assert!(refused.contains("Now, WholeGraph, a moment"), "{refused}");
    wrong["pattern"]["mode"] = "Nope".into();
    let refused = weir.post(&at("wrong"), &wrong).expect(400).text();
    assert!(refused.contains("DistinctId, MultipleValues, AnyQuery"), "{refused}");
}

/// Some twenty relationships make millions of paths: they took all memory of the machine, for fewer rows than a tick may have.
#[test]
fn a_query_that_makes_more_than_memory_holds_ends_alone() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.memory.limit=400M"]);
    let outputs = |path: &str| json!({"file": {"type": "WriteToFile", "path": path}});
    weir.post(
        &at("paths"),
        &body("MATCH (a:A) OPTIONAL MATCH p = (a)-[*]-() RETURN count(p) AS n", None, outputs("paths.jsonl")),
    )
    .expect(201);
    weir.post(&at("pairs"), &body("MATCH (a)-[:R]->(b) RETURN count(*) AS n", None, outputs("pairs.jsonl"))).expect(201);
    let node = |i: u32| format!("MATCH (a) WHERE id(a) = idFrom('n', {i}) SET a:A");
    (0..7).for_each(|i| drop(weir.rows(&node(i))));
    let pairs = "UNWIND range(0, 6) AS i UNWIND range(0, 6) AS k WITH i, k WHERE i < k";
    weir.rows(&format!("{pairs} MATCH (a), (b) WHERE id(a) = idFrom('n', i) AND id(b) = idFrom('n', k) CREATE (a)-[:R]->(b)"));
    wait_until("the query has ended", RESULTS_MAX, || {
        let failed = weir.get(&at("paths")).expect(200).json()["stats"]["local"]["failed"].as_str().map(str::to_owned);
        failed.inspect(|why| assert!(why.contains("at one record"), "{why}")).is_some()
    });
    wait_until("the other goes on", RESULTS_MAX, || {
        home.lines("pairs.jsonl").iter().any(|line| line["data"] == json!({"n": 21}))
    });
    let resident = weir.resident_megabytes();
    assert!(resident < 400, "{resident} MB");
    assert_eq!(weir.rows("MATCH (n:A) RETURN count(n)"), [json!([7])]);
}

/// Where all know each other a chain of eight has tens of millions of matches from each node. Everything stood still until memory
/// was gone.
#[test]
fn a_pattern_that_leads_too_far_ends_its_query_alone() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.memory.limit=400M"]);
    let all = "UNWIND range(1, 12) AS i UNWIND range(1, 12) AS k WITH i, k WHERE i <> k";
    let ends = "MATCH (a), (b) WHERE id(a) = idFrom('n', i) AND id(b) = idFrom('n', k)";
    let chain: String = (1..8).map(|n| format!("-[:R]->(a{n})")).collect();
    let file = json!({"file": {"type": "WriteToFile", "path": "pairs.jsonl"}});
    weir.post(&at("pairs"), &body("MATCH (a)-[:R]->(b) RETURN count(*) AS n", None, file)).expect(201);
    let create = |name: &str, mode: &str, start: &str| {
        let mut body = body(&format!("MATCH (a0){chain} RETURN a1.k AS k"), Some(mode), json!({}));
        body["startFrom"] = start.into();
        weir.post(&at(name), &body).expect(201);
    };
    let has_ended = |name: &str| {
        let status = weir.get(&at(name)).expect(200).json();
        let why = status["stats"]["local"]["failed"].as_str().map(str::to_owned);
        why.inspect(|why| assert!(why.contains("matches were found at one time"), "{why}")).is_some()
    };
    // As it comes about, and as it is there already.
    create("staged", "AnyQuery", "Now");
    create("direct", "MultipleValues", "Now");
    weir.rows(&format!("{all} {ends} CREATE (a)-[:R]->(b)"));
    create("staged-later", "AnyQuery", "WholeGraph");
    create("direct-later", "MultipleValues", "WholeGraph");
    for name in ["staged", "direct", "staged-later", "direct-later"] {
        wait_until(name, RESULTS_MAX, || has_ended(name));
    }
    weir.rows(&format!("WITH 1 AS i, 13 AS k {ends} CREATE (a)-[:R]->(b)"));
    wait_until("the other goes on", RESULTS_MAX, || {
        home.lines("pairs.jsonl").iter().any(|line| line["data"] == json!({"n": 133}))
    });
    weir.delete(&at("direct")).expect(200);
    let resident = weir.resident_megabytes();
    assert!(resident < 400, "{resident} MB");
}

/// More than may wait, but most of them are the same.
#[test]
fn any_number_of_matches_is_counted_when_a_query_is_installed() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.memory.limit=400M"]);
    weir.rows("UNWIND range(1, 3000) AS i MATCH (h), (a) WHERE id(h) = idFrom('h') AND id(a) = idFrom('a', i) SET a.k = i % 2 CREATE (a)-[:R]->(h)");
    let query = "MATCH (a)-[:R]->(h)<-[:R]-(b) RETURN a.k AS k, count(*) AS n";
    let mut body = body(query, None, json!({"file": {"type": "WriteToFile", "path": "star.jsonl"}}));
    body["startFrom"] = "WholeGraph".into();
    weir.post(&at("star"), &body).expect(201);
    let counts: Vec<Json> = home.wait_lines("star.jsonl", 2).iter().map(|line| line["data"].clone()).collect();
    let each = 1500 * 2999;
    assert_eq!(counts, [json!({"k": 0, "n": each}), json!({"k": 1, "n": each})]);
    assert_eq!(weir.rows("MATCH (a)-[:R]->(h) RETURN count(*)"), [json!([3000])]);
}

/// Until there is a first answer nothing says how late the next is: it was said to be decades.
#[test]
fn a_query_is_not_behind_while_its_first_answer_is_worked_out() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    weir.rows("UNWIND range(1, 100000) AS i MATCH (a) WHERE id(a) = idFrom('a', i) SET a:A, a.i = i");
    let pattern = json!({"type": "Cypher", "query": "MATCH (a:A) RETURN a.i AS i ORDER BY i LIMIT 3", "mode": "ANY_QUERY"});
    let workflow = json!({"name": "o", "destinations": [{"type": "File", "path": "out.jsonl"}]});
    weir.post("/api/v2/graph/quine/standingQueries", &json!({"name": "first", "pattern": pattern, "outputs": [workflow]}))
        .expect(201);
    wait_until("the first answer is there", RESULTS_MAX, || {
        let shown = weir.get(&at("first")).expect(200).json();
        let upto = shown["stats"]["local"]["behind"]["answeredUpTo"].as_str().unwrap_or("2026");
        assert!(!upto.starts_with("1970"), "{shown}");
        let figures = weir.get("/metrics").expect(200).text();
        let behind = figures.lines().find(|line| line.starts_with("weir_standing_behind_seconds{")).expect("a figure");
        let seconds = behind.rsplit(' ').next().and_then(|seconds| seconds.parse::<f64>().ok()).expect("a number");
        assert!(seconds < 3600.0, "{behind}");
        home.lines("out.jsonl").len() == 3
    });
}

#[test]
fn what_has_no_value_is_told_as_it_is_written() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    let queries = [
        ("returned", "MATCH (a:A) RETURN 10 / a.i AS q"),
        ("condition", "MATCH (a:A)-[:r]->(b) WHERE 10 / a.i > 1 RETURN b.i AS i"),
        ("above", "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WITH b, 10 / a.i AS q RETURN q, b.i AS i"),
        ("asked", "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) WHERE 10 / a.i > b.i RETURN b LIMIT 1 } RETURN b.i AS i"),
        ("key", "MATCH (a:A)-[:r]->(b) RETURN 10 / a.i AS k, count(*) AS c"),
    ];
    for (name, query) in queries {
        weir.post(&at(name), &body(query, Some("AnyQuery"), json!({}))).expect(201);
    }
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('acct', 0) AND id(b) = idFrom('acct', 1) SET a:A, a.i = 0, b.i = 1 CREATE (a)-[:r]->(b)");
    for (name, query) in queries {
        let left_out = || weir.get(&at(name)).expect(200).json()["stats"]["local"]["leftOut"].clone();
        wait_until("the row is left out", RESULTS_MAX, || left_out()["rows"].as_u64() > Some(0));
        let told = left_out();
        assert!(told["expression"].as_str().is_some_and(|text| text.contains("(10 / a.i)")), "{query}: {told}");
    }
}

/// It was taken, and stayed empty without a word.
#[test]
fn what_never_has_a_value_is_told_to_whoever_creates_a_query() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    let empty = "MATCH (a:A) WHERE strId(a) = strId(idFrom('acct', 0)) RETURN a.i AS i";
    let of_v2 = |name: &str, query: &str| json!({"name": name, "pattern": {"type": "Cypher", "query": query, "mode": "ANY_QUERY"}, "outputs": []});
    let place = "/api/v2/graph/quine/standingQueries";
    let created = weir.post(place, &of_v2("told", empty)).expect(201);
    let warnings = created.json()["warnings"].clone();
    let told = warnings[0].as_str().unwrap_or_default();
    assert!(told.contains("never has a value") && told.contains("strId(node :: NODE)"), "{warnings}");
    assert_eq!(warnings.as_array().map(Vec::len), Some(1));
    assert!(created.header("warning").is_some_and(|header| header.contains("never has a value")));
    weir.post(&at("logged"), &body(empty, Some("AnyQuery"), json!({}))).expect(201);
    let logged = |line: &str| line.contains("logged") && line.contains("never has a value");
    wait_until("the log says so", RESULTS_MAX, || weir.log().lines().any(logged));
    // A row that is left out is told of with the name of the query, too.
    weir.rows("MATCH (a) WHERE id(a) = idFrom('acct', 0) SET a:A, a.i = 1");
    let left_out = |line: &str| line.contains("told") && line.contains("leaves out what belongs to a row");
    wait_until("the row is left out", RESULTS_MAX, || weir.log().lines().any(left_out));
    let sound = weir.post(place, &of_v2("sound", "MATCH (a:A) RETURN strId(a) AS i")).expect(201);
    assert_eq!((sound.header("warning"), &sound.json()["warnings"]), (None, &json!([])));
}
