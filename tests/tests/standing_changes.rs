//! Standing queries that are changed while they run: paused, given another output. Over HTTP in every family, against the real
//! binary, across restarts.

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, RESULTS_MAX, Weir, wait_until};

/// The same query in each family's place, with the verbs that pause it and let it go on.
const PAUSES: [(&str, &str, &str); 3] = [
    ("PUT", "/api/v1/query/standing/adults/pause", "/api/v1/query/standing/adults/start"),
    ("POST", "/api/v2/standing-queries/adults/pause", "/api/v2/standing-queries/adults/start"),
    ("POST", "/api/v2/graph/quine/standingQueries/adults:pause", "/api/v2/graph/quine/standingQueries/adults:resume"),
];

const PLACE: &str = "/api/v1/query/standing/adults";

fn create(weir: &Weir, cancellations: bool) {
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.age > 17 RETURN n.name AS name, n.age AS age"});
    let outputs = json!({"file": {"type": "WriteToFile", "path": "out.jsonl"}});
    weir.post(PLACE, &json!({"pattern": pattern, "includeCancellations": cancellations, "outputs": outputs})).expect(201);
}

fn set(weir: &Weir, name: &str, age: u32) {
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('person', '{name}') SET n.name = '{name}', n.age = {age}"));
}

/// The body without the envelope of its family.
fn bare(answer: Json) -> Json {
    if answer["content"].is_object() { answer["content"].clone() } else { answer }
}

fn send(weir: &Weir, method: &str, target: &str) -> Json {
    bare(weir.send(method, target, &[], b"").expect(200).json())
}

fn results(lines: &[Json]) -> Vec<(bool, Json)> {
    lines.iter().map(|line| (line["meta"]["isPositiveMatch"] == true, line["data"]["name"].clone())).collect()
}

fn paused(query: &Json) -> &Json {
    &query["stats"]["local"]["paused"]
}

#[test]
fn a_pause_holds_back_and_its_end_brings_the_difference() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    create(&weir, true);
    set(&weir, "ann", 40);
    set(&weir, "bob", 30);
    home.wait_lines("out.jsonl", 2);
    let mut lines = 2;
    for (method, pause, start) in PAUSES {
        let query = send(&weir, method, pause);
        assert_eq!(query["name"], "adults");
        let since = paused(&query)["since"].as_str().expect("since when").to_owned();
        set(&weir, "eve", 20);
        set(&weir, "bob", 3);
        set(&weir, "zoe", 50);
        set(&weir, "zoe", 5);
        // Twice is as once, and the process may end.
        assert_eq!(paused(&send(&weir, method, pause))["since"], json!(since));
        weir.kill();
        weir = home.start(&[]);
        let query = weir.get(PLACE).expect(200).json();
        assert_eq!(paused(&query)["since"], json!(since), "{query}");
        set(&weir, "tim", 18);
        weir.catch_up();
        assert_eq!(home.lines("out.jsonl").len(), lines, "nothing is delivered in a pause");
        let query = send(&weir, method, start);
        assert!(paused(&query).is_null(), "{query}");
        send(&weir, method, start);
        let found = results(&home.wait_lines("out.jsonl", lines + 3)[lines..]);
        assert_eq!(found, [(true, json!("eve")), (true, json!("tim")), (false, json!("bob"))]);
        // What comes, comes as before.
        for (name, age) in [("eve", 1), ("tim", 1), ("bob", 31)] {
            set(&weir, name, age);
        }
        lines += 6;
        assert_eq!(
            results(&home.wait_lines("out.jsonl", lines)[lines - 3..]),
            [(false, json!("eve")), (false, json!("tim")), (true, json!("bob"))]
        );
    }
    weir.stop();
    assert_eq!(home.lines("out.jsonl").len(), lines);
}

#[test]
fn what_left_and_came_back_in_a_pause_is_no_news() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    create(&weir, false);
    set(&weir, "ann", 40);
    home.wait_lines("out.jsonl", 1);
    let (method, pause, start) = PAUSES[0];
    send(&weir, method, pause);
    set(&weir, "ann", 4);
    set(&weir, "ann", 40);
    set(&weir, "bob", 30);
    wait_until("one is held back", RESULTS_MAX, || paused(&weir.get(PLACE).expect(200).json())["heldBack"] == 1);
    send(&weir, method, start);
    assert_eq!(results(&home.wait_lines("out.jsonl", 2)[1..]), [(true, json!("bob"))]);
    set(&weir, "ann", 4);
    set(&weir, "ann", 40);
    assert_eq!(results(&home.wait_lines("out.jsonl", 3)[2..]), [(true, json!("ann"))]);
    for (method, pause, start) in PAUSES {
        for target in [pause, start] {
            weir.send(method, &target.replace("adults", "nobody"), &[], b"").expect(404);
        }
    }
}
