//! Why a standing query has a result or has none, and how its dataflow is drawn: over HTTP in every family, and in the command
//! line, against the real binary.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir, binary};

const LONG: &str = "-Dweir.id.type=long";
const NO_ROW: &str = "no row of the answer has this id; it may have been there earlier: ask as of then, with at-time";
const RISKY: &str = "MATCH (u:User)-[:OWNS]->(d) WHERE d.risk > 7 RETURN id(u) AS u, d.risk AS risk";

/// One query in each family's place.
const PLACES: [&str; 3] =
    ["/api/v1/query/standing/risky", "/api/v2/standing-queries/risky", "/api/v2/graph/quine/standingQueries/risky"];

fn create(weir: &Weir, name: &str, mode: &str, query: &str) {
    let pattern = json!({"type": "Cypher", "mode": mode, "query": query});
    weir.post(&format!("/api/v1/query/standing/{name}"), &json!({"pattern": pattern, "outputs": {}})).expect(201);
}

/// A user, its device, and records that make one a match.
fn weir(home: &Home) -> Weir {
    let weir = home.start(&[LONG, "-Dweir.workers=2"]);
    create(&weir, "risky", "MultipleValues", RISKY);
    weir.rows("MATCH (u), (d) WHERE id(u) = 1 AND id(d) = 2 SET u:User, d.risk = 3 CREATE (u)-[:OWNS]->(d)");
    let query = "MATCH (d) WHERE id(d) = 2 SET d.risk = toInteger($that)";
    let source = json!({"type": "NumberIteratorIngest", "startAtOffset": 5, "ingestLimit": 5, "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/risks", &source).expect(200);
    weir.wait_ingest("risks", "Completed", Duration::from_secs(60));
    weir
}

/// The body without the envelope of its family.
fn bare(answer: Json) -> Json {
    if answer["content"].is_object() { answer["content"].clone() } else { answer }
}

fn ask(weir: &Weir, place: &str, question: Json) -> Json {
    bare(weir.post(&format!("{place}/why"), &question).expect(200).json())
}

#[test]
fn a_match_is_told_with_its_facts_and_their_records() {
    let home = Home::new();
    let weir = weir(&home);
    for place in PLACES {
        let answer = ask(&weir, place, json!({"data": {"u": 1, "risk": 9}}));
        let found = &answer["matches"][0];
        assert_eq!(answer["matches"].as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!((&found["data"], &found["nodes"]), (&json!({"u": 1, "risk": 9}), &json!({"u": "1", "d": "2"})), "{answer}");
        let fact = |is: &dyn Fn(&Json) -> bool| {
            let mut facts = found["facts"].as_array().into_iter().flatten();
            facts.find(|fact| is(fact)).cloned().unwrap_or_else(|| panic!("not among the facts: {answer}"))
        };
        let label = fact(&|fact| fact["label"] == "User");
        let risk = fact(&|fact| fact["property"] == "risk");
        let edge = fact(&|fact| fact["type"] == "OWNS");
        assert_eq!((&risk["value"], &risk["id"]), (&json!(9), &json!("2")));
        assert_eq!((&edge["from"], &edge["to"]), (&json!("1"), &json!("2")));
        // The last record of the stream made it; all the rest was there.
        assert_eq!(found["since"], risk["since"]);
        assert_eq!(risk["record"]["ingest"], "risks", "{answer}");
        assert!(risk["record"]["placeInBatch"].is_u64());
        assert_eq!(risk["record"]["positionAfterBatch"], json!({"records": 5, "at": {"number": 10}}), "{answer}");
        assert_eq!((&label["since"], &label["record"]["ingest"]), (&edge["since"], &Json::Null));
        // The result is found by its id, too, and by the nodes.
        let id = found["resultId"].as_str().expect("an id");
        assert_eq!(ask(&weir, place, json!({"resultId": id}))["matches"], answer["matches"]);
        assert_eq!(ask(&weir, place, json!({"nodes": {"d": "2"}}))["matches"], answer["matches"]);
        assert!(answer["whyNot"].is_null() && ["staged", "gaveUp", "more"].iter().all(|flag| answer[*flag] == false));
    }
}

/// Of a file its name and the byte; of a stream that is gone what the position says by itself.
#[test]
fn where_a_source_stood_is_told_in_its_own_words() {
    let home = Home::new();
    let weir = weir(&home);
    let lines = "{\"id\": 60}\n{\"id\": 61}\n";
    home.write("users.jsonl", lines);
    let query = "MATCH (u), (d) WHERE id(u) = $that.id AND id(d) = 2 SET u:User CREATE (u)-[:OWNS]->(d)";
    let source = json!({"type": "FileIngest", "path": "users.jsonl", "format": {"type": "CypherJson", "query": query}});
    let position = || {
        let answer = ask(&weir, PLACES[0], json!({"data": {"u": 61}}));
        let facts = answer["matches"][0]["facts"].as_array().cloned().unwrap_or_default();
        let label = facts.into_iter().find(|fact| fact["label"] == "User").unwrap_or_else(|| panic!("no label: {answer}"));
        assert_eq!(label["record"]["ingest"], "users", "{answer}");
        label["record"]["positionAfterBatch"].clone()
    };
    weir.post("/api/v1/ingest/users", &source).expect(200);
    weir.wait_ingest("users", "Completed", Duration::from_secs(60));
    assert_eq!(position(), json!({"records": 2, "at": {"file": "users.jsonl", "byte": lines.len()}}));
    weir.delete("/api/v1/ingest/users").expect(200);
    assert_eq!(position(), json!({"records": 2, "at": {"byte": lines.len()}}));
    // Another stream of the name is not asked.
    let other = json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": {"type": "CypherLine", "query": "RETURN 1"}});
    weir.post("/api/v1/ingest/users", &other).expect(200);
    weir.wait_ingest("users", "Completed", Duration::from_secs(60));
    assert_eq!(position(), json!({"records": 2, "at": {"byte": lines.len()}}));
}

/// An id that a cancelled result had is asked for: of the present it is said what to do, and as of then the result is told.
#[test]
fn a_result_that_was_cancelled_is_found_by_its_id_as_of_then() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("MATCH (u), (d) WHERE id(u) = 62 AND id(d) = 2 SET u:User CREATE (u)-[:OWNS]->(d)");
    let then = ask(&weir, PLACES[0], json!({"data": {"u": 62}}));
    let id = then["matches"][0]["resultId"].clone();
    std::thread::sleep(Duration::from_millis(20));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    std::thread::sleep(Duration::from_millis(20));
    weir.rows("MATCH (u:User)-[r:OWNS]->(d) WHERE id(u) = 62 DELETE r");
    let answer = ask(&weir, PLACES[0], json!({"resultId": id}));
    assert_eq!((&answer["matches"], &answer["whyNot"][0]["fails"]), (&json!([]), &json!(NO_ROW)), "{answer}");
    let told = weir.post(&format!("{}/why?at-time={now}", PLACES[0]), &json!({"resultId": id})).expect(200).json();
    assert_eq!(told["matches"][0]["data"], json!({"u": 62, "risk": 9}), "{told}");
}

#[test]
fn where_nothing_matches_the_condition_that_fails_is_told() {
    let home = Home::new();
    let weir = weir(&home);
    let place = PLACES[0];
    let fails = |question: Json| {
        let answer = ask(&weir, place, question);
        assert_eq!(answer["matches"], json!([]), "{answer}");
        answer
    };
    weir.rows("MATCH (d) WHERE id(d) = 2 SET d.risk = 3");
    let answer = fails(json!({"nodes": {"u": "1"}}));
    let first = &answer["whyNot"][0];
    assert_eq!(first["fails"], "where (d.risk > 7) does not hold", "{answer}");
    assert_eq!((&first["values"], &first["nodes"]), (&json!({"d.risk": 3}), &json!({"u": "1", "d": "2"})), "{answer}");
    weir.rows("MATCH (u)-[r:OWNS]->(d) WHERE id(u) = 1 SET d.risk = 9 DELETE r");
    assert_eq!(fails(json!({"nodes": {"u": "1", "d": "2"}}))["whyNot"][0]["fails"], "no edge (u:User)-[:OWNS]->(d) at (u:User)");
    weir.rows("MATCH (u) WHERE id(u) = 1 REMOVE u:User");
    assert_eq!(fails(json!({"data": {"u": 1}}))["whyNot"][0]["fails"], "(u:User) has no label User");
    assert_eq!(fails(json!({"data": {}}))["whyNot"][0]["fails"], "there is no node that could be (u:User)");
    // What matches with other values is told too.
    weir.rows("MATCH (u), (d) WHERE id(u) = 1 AND id(d) = 2 SET u:User, d.risk = 8 CREATE (u)-[:OWNS]->(d)");
    assert_eq!(fails(json!({"data": {"u": 1, "risk": 100}}))["otherResults"], json!([{"u": 1, "risk": 8}]));
}

/// Of the others as many as of what is asked for: looking ends when there are enough.
#[test]
fn of_what_matches_with_other_values_ten_are_told() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("UNWIND range(60, 71) AS i MATCH (u), (d) WHERE id(u) = i AND id(d) = 2 SET u:User CREATE (u)-[:OWNS]->(d)");
    let told = |risk: u64| {
        let answer = ask(&weir, PLACES[0], json!({"data": {"risk": risk}}));
        let count = |of: &str| answer[of].as_array().map(Vec::len);
        (count("matches"), count("otherResults"), answer["more"].clone())
    };
    assert_eq!(told(100), (Some(0), Some(10), json!(false)));
    assert_eq!(told(9), (Some(10), None, json!(true)));
}

/// Of DISTINCT each once, however many matches show it.
#[test]
fn what_many_matches_show_is_told_once() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("UNWIND range(60, 71) AS i MATCH (u), (d) WHERE id(u) = i AND id(d) = 2 SET u:User CREATE (u)-[:OWNS]->(d)");
    weir.rows("MATCH (u), (d) WHERE id(u) = 60 AND id(d) = 3 SET d.risk = 4 CREATE (u)-[:OWNS]->(d)");
    create(&weir, "risks", "AnyQuery", "MATCH (u:User)-[:OWNS]->(d) RETURN DISTINCT d.risk AS risk");
    for question in [json!({"data": {"risk": 100}}), json!({"resultId": "00000000-0000-0000-0000-000000000001"})] {
        let answer = ask(&weir, "/api/v1/query/standing/risks", question);
        let mut others = answer["otherResults"].as_array().cloned().unwrap_or_default();
        others.sort_by_key(|other| other["risk"].as_u64());
        assert_eq!(others, [json!({"risk": 4}), json!({"risk": 9})], "{answer}");
        assert_eq!(answer["staged"], false, "{answer}");
    }
}

#[test]
fn an_expression_without_a_value_is_told() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("MATCH (a) WHERE id(a) = 20 SET a:A, a.i = 0");
    create(&weir, "quotient", "MultipleValues", "MATCH (a:A) RETURN id(a) AS a, 10 / a.i AS q");
    let answer = ask(&weir, "/api/v1/query/standing/quotient", json!({"nodes": {"a": "20"}}));
    let stop = &answer["whyNot"][0];
    let fails = stop["fails"].as_str().expect("what fails");
    assert!(fails.starts_with("no value: (10 / a.i): ") && fails.to_lowercase().contains("zero"), "{answer}");
    assert_eq!((&answer["matches"], &stop["values"]), (&json!([]), &json!({"a.i": 0})), "{answer}");
    create(&weir, "condition", "MultipleValues", "MATCH (a:A) WHERE 10 / a.i > 2 RETURN id(a) AS a");
    let answer = ask(&weir, "/api/v1/query/standing/condition", json!({"nodes": {"a": "20"}}));
    let fails = answer["whyNot"][0]["fails"].as_str().expect("what fails");
    assert!(fails.starts_with("no value: ((10 / a.i) > 2): "), "{answer}");
}

/// Of a query whose columns show no node: rows are found by their values and their ids, and of values that are in no row it is
/// told how far those get that have them, though others match.
#[test]
fn where_no_column_shows_a_node() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("UNWIND [[50, 'ann'], [51, 'bob'], [52, 'cid']] AS p MATCH (n) WHERE id(n) = p[0] SET n:Person, n.name = p[1]");
    weir.rows("UNWIND [50, 52] AS p MATCH (n), (d) WHERE id(n) = p AND id(d) = 2 CREATE (n)-[:OWNS]->(d)");
    create(&weir, "owners", "MultipleValues", "MATCH (p:Person)-[:OWNS]->(d) RETURN p.name AS name, d.risk AS risk");
    let place = "/api/v1/query/standing/owners";
    let answer = ask(&weir, place, json!({"data": {"name": "cid"}}));
    let found = &answer["matches"][0];
    assert_eq!((&found["data"], &found["nodes"]["p"]), (&json!({"name": "cid", "risk": 9}), &json!("52")), "{answer}");
    let by_id = ask(&weir, place, json!({"resultId": found["resultId"]}));
    assert_eq!((&by_id["matches"], &by_id["gaveUp"]), (&answer["matches"], &json!(false)), "{by_id}");
    let answer = ask(&weir, place, json!({"data": {"name": "bob"}}));
    assert_eq!((&answer["matches"], answer["whyNot"].as_array().map(Vec::len)), (&json!([]), Some(1)), "{answer}");
    let stop = &answer["whyNot"][0];
    assert_eq!(stop["fails"], "no edge (p:Person)-[:OWNS]->(d) at (p:Person)", "{answer}");
    assert_eq!(stop["nodes"], json!({"p": "51"}), "{answer}");
    assert_eq!(answer["otherResults"].as_array().map(Vec::len), Some(2), "{answer}");
    let answer = ask(&weir, place, json!({"resultId": "00000000-0000-0000-0000-000000000001"}));
    assert_eq!(answer["whyNot"][0]["fails"], NO_ROW, "{answer}");
    assert_eq!(answer["otherResults"].as_array().map(Vec::len), Some(2), "{answer}");
    // Where nothing matches at all, an id says no less than that.
    weir.rows("MATCH (p:Person)-[r:OWNS]->() DELETE r");
    let answer = ask(&weir, place, json!({"resultId": found["resultId"]}));
    assert_eq!(answer["whyNot"][0]["fails"], "no edge (p:Person)-[:OWNS]->(d) at (p:Person)", "{answer}");
}

/// The number of a tick, which is text.
fn tick(since: &Json) -> u64 {
    since["tick"].as_str().and_then(|tick| tick.parse().ok()).unwrap_or_else(|| panic!("no tick: {since}"))
}

#[test]
fn a_result_is_there_since_its_first_match() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("MATCH (a), (b) WHERE id(a) = 30 AND id(b) = 31 SET a:D CREATE (a)-[:K]->(b)");
    weir.rows("MATCH (a), (b) WHERE id(a) = 30 AND id(b) = 32 CREATE (a)-[:K]->(b)");
    create(&weir, "distinct", "DistinctId", "MATCH (a:D)-[:K]->(b) RETURN DISTINCT id(a) AS a");
    let place = "/api/v1/query/standing/distinct";
    let answer = ask(&weir, place, json!({"data": {"a": 30}}));
    let matches = answer["matches"].as_array().expect("matches");
    assert_eq!(matches.len(), 2, "both edges: {answer}");
    let edges = matches.iter().flat_map(|found| found["facts"].as_array().into_iter().flatten());
    let edges: Vec<u64> = edges.filter(|fact| fact["type"] == "K").map(|fact| tick(&fact["since"])).collect();
    let first = edges.iter().min().copied().expect("an edge");
    assert!(matches.iter().all(|found| tick(&found["since"]) == first), "since the first: {answer}");
    // The id of the result follows from that of the node, whether the result is there or not.
    let id = matches[0]["resultId"].clone();
    assert_eq!(ask(&weir, place, json!({"resultId": id}))["matches"], answer["matches"]);
    weir.rows("MATCH (a:D)-[r:K]->() DELETE r");
    let answer = ask(&weir, place, json!({"resultId": id}));
    assert_eq!(answer["whyNot"][0]["fails"], "no edge (a:D)-[:K]->(b) at (a:D)", "{answer}");
    // An id that nothing has, of the present and not of 1970.
    let answer = ask(&weir, place, json!({"resultId": "00000000-0000-0000-0000-000000000001"}));
    assert_eq!((&answer["matches"], &answer["gaveUp"]), (&json!([]), &json!(false)), "{answer}");
    assert_eq!(answer["whyNot"][0]["fails"], NO_ROW, "{answer}");
    assert!(tick(&answer["moment"]) > first, "{answer}");
}

#[test]
fn what_time_brought_is_there_since_then() {
    let home = Home::new();
    let weir = weir(&home);
    create(&weir, "late", "AnyQuery", "MATCH (a:Late) WHERE timestamp() - a.seen > 300 RETURN id(a) AS a");
    weir.rows("MATCH (a) WHERE id(a) = 40 SET a:Late, a.seen = timestamp()");
    std::thread::sleep(Duration::from_millis(600));
    // Whatever else is written: the present goes on.
    weir.rows("MATCH (a) WHERE id(a) = 41 SET a.x = 1");
    let answer = ask(&weir, "/api/v1/query/standing/late", json!({"data": {"a": 40}}));
    let found = &answer["matches"][0];
    let seen = found["facts"].as_array().into_iter().flatten().find(|fact| fact["property"] == "seen").expect("when it was seen");
    assert!(tick(&found["since"]) > tick(&seen["since"]), "it came later than what it rests on: {answer}");
    assert!(tick(&found["since"]) < tick(&answer["moment"]), "{answer}");
}

#[test]
fn the_past_is_asked_too() {
    let home = Home::new();
    let weir = weir(&home);
    std::thread::sleep(Duration::from_millis(20));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    std::thread::sleep(Duration::from_millis(20));
    weir.rows("MATCH (d) WHERE id(d) = 2 SET d.risk = 0");
    let question = json!({"data": {"u": 1, "risk": 9}});
    assert_eq!(ask(&weir, PLACES[0], question.clone())["matches"], json!([]));
    let then = weir.post(&format!("{}/why?at-time={now}", PLACES[0]), &question).expect(200).json();
    assert_eq!(then["matches"][0]["data"], question["data"], "{then}");
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let home = Home::new();
    let weir = weir(&home);
    for (question, reason) in [
        (json!({}), "give `data`, `resultId` or `nodes`"),
        (json!({"nodes": {"x": "1"}}), "no pattern of the query has a node 'x'; there are u, d"),
        (json!({"nodes": {"u": "nobody"}}), "'nobody' is no id of a node"),
        (json!({"data": {"nope": 1}}), "the query has no column 'nope'"),
        (json!({"resultId": "xx"}), "'xx' is no id of a result"),
    ] {
        for place in PLACES {
            let refused = weir.post(&format!("{place}/why"), &question).expect(400).text();
            assert!(refused.contains(reason), "{question}: {refused}");
        }
    }
    // What is not there comes before what is wrong with the question.
    for place in PLACES.map(|place| place.replace("risky", "nobody")) {
        weir.post(&format!("{place}/why"), &json!({"data": {}})).expect(404);
        weir.post(&format!("{place}/why"), &json!({})).expect(404);
    }
    weir.get("/api/v1/query/standing/nobody/plan").expect(404);
    weir.get(&format!("{}/plan?format=svg", PLACES[0])).expect(400);
}

#[test]
fn the_dataflow_is_drawn() {
    let home = Home::new();
    let weir = weir(&home);
    for place in PLACES {
        let plan = bare(weir.get(&format!("{place}/plan")).expect(200).json());
        assert!(plan["title"].as_str().is_some_and(|title| title.starts_with("Results u")), "{plan}");
        let pattern = &plan["inputs"][0]["inputs"][0];
        assert_eq!(pattern["title"], "Pattern (u:User)-[:OWNS]->(d)", "{plan}");
        assert_eq!(pattern["inputs"].as_array().map(Vec::len), Some(3), "one for each node and edge: {plan}");
        let text = weir.get(&format!("{place}/plan?format=text")).expect(200);
        assert!(text.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
        assert!(text.text().contains("└─ Project"), "{}", text.text());
        let drawing = weir.get(&format!("{place}/plan?format=mermaid")).expect(200).text();
        assert!(drawing.starts_with("flowchart BT\n") && drawing.contains("n1 --> n0"), "{drawing}");
    }
    let program = binary();
    let url = format!("http://{}", weir.address());
    let run = |arguments: &[&str]| {
        let output = Command::new(&program).arg("plan").args(arguments).args(["--url", &url]).output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, tree, _) = run(&["risky"]);
    assert_eq!((code, tree), (Some(0), weir.get(&format!("{}/plan?format=text", PLACES[0])).expect(200).text()));
    assert!(run(&["risky", "--format", "mermaid"]).1.starts_with("flowchart BT"));
    let (code, out, error) = run(&["no body"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    assert!(error.contains(&format!("there is no standing query 'no body' at {url}")), "{error}");
    assert_eq!(run(&["risky", "--format", "svg"]).0, Some(2));
}
