//! Why a standing query with stages has a result or has none, told stage by stage: one example of each construct, against the
//! real binary.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir};

/// Customers, their orders, and a stream that brought one of these.
fn weir(home: &Home) -> Weir {
    let weir = home.start(&["-Dweir.id.type=long", "-Dweir.workers=2"]);
    weir.rows(
        "UNWIND [[1, 'ann'], [2, 'bob'], [3, 'cid']] AS c MATCH (n) WHERE id(n) = c[0] SET n:Customer, n.name = c[1], n.city = 'Ulm'",
    );
    weir.rows(
        "UNWIND [[1, 11, 5], [1, 12, 7], [2, 13, 1]] AS o MATCH (c), (n) WHERE id(c) = o[0] AND id(n) = o[1]
         SET n:Order, n.sum = o[2] CREATE (c)-[:PLACED]->(n)",
    );
    let query = "MATCH (c), (n) WHERE id(c) = 1 AND id(n) = 14 SET n:Order, n.sum = toInteger($that) CREATE (c)-[:PLACED]->(n)";
    let source = json!({"type": "NumberIteratorIngest", "startAtOffset": 9, "ingestLimit": 1, "format": {"type": "CypherLine", "query": query}});
    weir.post("/api/v1/ingest/orders", &source).expect(200);
    weir.wait_ingest("orders", "Completed", Duration::from_secs(60));
    weir
}

/// Creates a query and gives its place.
fn keep(weir: &Weir, name: &str, query: &str) -> String {
    let pattern = json!({"type": "Cypher", "mode": "AnyQuery", "query": query});
    let place = format!("/api/v1/query/standing/{name}");
    weir.post(&place, &json!({"pattern": pattern, "outputs": {}})).expect(201);
    place
}

fn ask(weir: &Weir, place: &str, question: Json) -> Json {
    let answer = weir.post(&format!("{place}/why"), &question).expect(200).json();
    assert_eq!((&answer["staged"], &answer["gaveUp"]), (&json!(true), &json!(false)), "{answer}");
    answer
}

/// The stages of a row by their names, from the answer down, along the first of each.
fn stages(made: &Json) -> Vec<&str> {
    let mut names = Vec::new();
    let mut at = made;
    while let Some(name) = at["stage"].as_str() {
        names.push(name);
        at = &at["of"][0];
    }
    names
}

/// The first stage of a name.
fn stage<'a>(made: &'a Json, name: &str) -> &'a Json {
    let mut at = made;
    while at["stage"] != name {
        assert!(at["stage"].is_string(), "no {name} in {made}");
        at = &at["of"][0];
    }
    at
}

#[test]
fn a_group_is_told_with_its_rows_and_their_facts() {
    let home = Home::new();
    let weir = weir(&home);
    let place = keep(
        &weir,
        "busy",
        "MATCH (c:Customer)-[:PLACED]->(o:Order) WITH c, count(o) AS orders, sum(o.sum) AS total WHERE orders > 2 RETURN c.name AS name, orders, total",
    );
    let answer = ask(&weir, &place, json!({"data": {"name": "ann"}}));
    let found = &answer["matches"][0];
    assert_eq!(found["data"], json!({"name": "ann", "orders": 3, "total": 21}), "{answer}");
    let made = &found["made"][0];
    let group = stage(made, "Group");
    assert_eq!(
        (&group["rows"], &group["values"]["orders"], &group["values"]["total"]),
        (&json!(3), &json!(3), &json!(21)),
        "{group}"
    );
    assert_eq!(group["of"].as_array().map(Vec::len), Some(3), "{group}");
    // The record of the stream made it: its facts are those of the newest row.
    let of_stream =
        group["of"].as_array().into_iter().flatten().find(|row| row["nodes"]["o"] == "14").expect("a row of order 14");
    let facts = of_stream["facts"].as_array().expect("facts");
    let sum = facts.iter().find(|fact| fact["property"] == "sum").expect("its sum");
    assert_eq!((&sum["value"], &sum["record"]["ingest"], &sum["id"]), (&json!(9), &json!("orders"), &json!("14")), "{sum}");
    assert!(facts.iter().any(|fact| fact["type"] == "PLACED") && facts.iter().any(|fact| fact["label"] == "Order"), "{facts:?}");
    assert_eq!(found["since"], of_stream["since"], "it is there since that record: {answer}");
    // The result is found by its id, too, and by a node that it was made of.
    assert_eq!(ask(&weir, &place, json!({"resultId": found["resultId"]}))["matches"], answer["matches"]);
    assert_eq!(ask(&weir, &place, json!({"nodes": {"o": "12"}}))["matches"], answer["matches"]);
    // HAVING: the value that is compared.
    let answer = ask(&weir, &place, json!({"nodes": {"c": "2"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!(
        (&answer["matches"], &stop["stage"], &stop["values"]),
        (&json!([]), &json!("Filter"), &json!({"orders": 1})),
        "{answer}"
    );
    assert_eq!((&stop["fails"], &stop["of"][0]["rows"]), (&json!("where (orders > 2) does not hold"), &json!(1)), "{answer}");
    // No row of the pattern at all, and another value than there is.
    let answer = ask(&weir, &place, json!({"nodes": {"c": "3"}}));
    assert_eq!(answer["whyNot"][0]["fails"], "no edge (c:Customer)-[:PLACED]->(o:Order) at (c:Customer)", "{answer}");
    let answer = ask(&weir, &place, json!({"data": {"name": "ann", "orders": 4}}));
    assert_eq!(answer["otherResults"], json!([{"name": "ann", "orders": 3, "total": 21}]), "{answer}");
    // A value that is in no row, though others are: how far those get that have it.
    let counts = keep(&weir, "counts", "MATCH (c:Customer)-[:PLACED]->(o:Order) RETURN c.name AS name, count(o) AS orders");
    let answer = ask(&weir, &counts, json!({"data": {"name": "cid"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!(stop["fails"], "no edge (c:Customer)-[:PLACED]->(o:Order) at (c:Customer)", "{answer}");
    assert_eq!(stop["nodes"], json!({"c": "3"}), "{answer}");
    let answer = ask(&weir, &counts, json!({"data": {"name": "dan"}}));
    assert_eq!(answer["whyNot"][0]["fails"], "no match of the pattern has these values", "{answer}");
    // What was asked of the past.
    weir.rows("MATCH (c)-[r:PLACED]->(o) WHERE id(o) = 12 DELETE r");
    assert_eq!(ask(&weir, &place, json!({"data": {"name": "ann"}}))["whyNot"][0]["values"], json!({"orders": 2}));
}

#[test]
fn since_when_is_told_though_facts_are_older_or_newer() {
    let home = Home::new();
    let weir = weir(&home);
    let place = keep(&weir, "cities", "MATCH (c:Customer) RETURN DISTINCT c.city AS city, 1 AS one ORDER BY city LIMIT 3");
    let first = ask(&weir, &place, json!({"data": {"city": "Ulm"}}));
    let found = &first["matches"][0];
    assert_eq!(stage(&found["made"][0], "Distinct")["rows"], 3, "{first}");
    // Another customer there changes nothing, and that the first ones go changes nothing either.
    weir.rows("MATCH (n) WHERE id(n) = 4 SET n:Customer, n.city = 'Ulm'");
    weir.rows("UNWIND [1, 2, 3] AS i MATCH (n) WHERE id(n) = i SET n.city = 'Bonn'");
    let later = ask(&weir, &place, json!({"data": {"city": "Ulm"}}));
    assert_eq!(later["matches"][0]["since"], found["since"], "{later}");
    assert!(found["since"]["tick"].is_string() && later["matches"][0]["sinceAtLeast"].is_null(), "{later}");
    // It went and came again.
    weir.rows("MATCH (n) WHERE id(n) = 4 SET n.city = 'Bonn'");
    weir.rows("MATCH (n) WHERE id(n) = 4 SET n.city = 'Ulm'");
    let again = ask(&weir, &place, json!({"data": {"city": "Ulm"}}));
    assert_ne!(again["matches"][0]["since"], found["since"], "{again}");
}

#[test]
fn what_was_not_found_is_told_too() {
    let home = Home::new();
    let weir = weir(&home);
    // OPTIONAL MATCH.
    let place =
        keep(&weir, "last", "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o) WHERE o.sum > 6 RETURN id(c) AS c, id(o) AS o");
    let answer = ask(&weir, &place, json!({"data": {"c": 2}}));
    let joined = stage(&answer["matches"][0]["made"][0], "Optional");
    assert_eq!((&answer["matches"][0]["data"], &joined["says"]), (&json!({"c": 2, "o": null}), &json!("the same c")), "{answer}");
    assert_eq!(joined["whyNot"][0]["fails"], "where (o.sum > 6) does not hold", "{answer}");
    let answer = ask(&weir, &place, json!({"data": {"c": 1, "o": 12}}));
    let joined = stage(&answer["matches"][0]["made"][0], "Optional");
    let facts = joined["of"][1]["facts"].as_array().into_iter().flatten();
    assert!(facts.clone().any(|fact| fact["property"] == "sum" && fact["value"] == 7 && fact["since"].is_object()), "{answer}");
    // A row that was not matched is none with a node that it could have been matched with.
    assert_eq!(ask(&weir, &place, json!({"nodes": {"c": "1", "o": "12"}}))["matches"][0]["data"], json!({"c": 1, "o": 12}));
    let answer = ask(&weir, &place, json!({"nodes": {"c": "2", "o": "12"}}));
    assert_eq!(answer["matches"], json!([]), "{answer}");
    // Nor does it seem not to be matched where something else is asked for.
    weir.rows("MATCH (o), (x) WHERE id(o) = 12 AND id(x) = 77 CREATE (o)-[:HAS]->(x)");
    let text = "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o {sum: 7}) OPTIONAL MATCH (o)-[:HAS]->(x)
                RETURN id(c) AS c, id(o) AS o, id(x) AS x";
    let place = keep(&weir, "twice", text);
    let answer = ask(&weir, &place, json!({"data": {"c": 1, "o": 99}}));
    assert_eq!(answer["otherResults"], json!([{"c": 1, "o": 12, "x": 77}]), "{answer}");
    // Of several parts each is told of, whatever is handed on; and what goes together nowhere though each is there.
    weir.rows("MATCH (n) WHERE id(n) = 20 SET n:Shop, n.city = 'Bonn'");
    let text = "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o:Order), (s:Shop) WHERE s.city = c.city AND s.open
                RETURN c.name AS name, id(o) AS o, id(s) AS s";
    let place = keep(&weir, "parts", text);
    let fails = |name: &str| -> Vec<String> {
        let answer = ask(&weir, &place, json!({"data": {"name": name}}));
        let joined = stage(&answer["matches"][0]["made"][0], "Optional");
        let all = joined["whyNot"].as_array().into_iter().flatten();
        all.map(|one| one["fails"].as_str().expect("what fails").to_owned()).collect()
    };
    let told = fails("cid");
    for part in ["-[:PLACED]->(o:Order)", "open"] {
        assert!(told.iter().any(|fails| fails.contains(part)), "{part}: {told:?}");
    }
    weir.rows("MATCH (n) WHERE id(n) = 20 SET n.open = true");
    assert_eq!(fails("ann"), ["no row of the other part has the same c"]);
    // What is asked row by row.
    let text = "MATCH (c:Customer) WITH c, size(c.name) + 3 AS least OPTIONAL MATCH (c)-[:PLACED]->(o) WHERE o.sum > least
                RETURN id(c) AS c, id(o) AS o";
    let place = keep(&weir, "asked", text);
    let answer = ask(&weir, &place, json!({"data": {"c": 2}}));
    let asked = stage(&answer["matches"][0]["made"][0], "Asked");
    let looked =
        asked["asked"].as_array().into_iter().flatten().find(|asked| asked["found"] == false).expect("what was not found");
    assert_eq!((&answer["matches"][0]["data"], &looked["mayBeNone"]), (&json!({"c": 2, "o": null}), &json!(true)), "{answer}");
    assert_eq!(looked["whyNot"][0]["fails"], "where (o.sum > least) does not hold", "{answer}");
    // A chain: from where none leads on, and what is missing before it.
    for (name, pattern, fails) in [
        (
            "chain",
            "(c)-[:PLACED*1..3]->(x:Order)",
            "no way (c)-[:PLACED*1..3]->(x:Order) at (c) that meets the rest of the pattern",
        ),
        ("behind", "(c)-[:KNOWS]->(d)-[:PLACED*1..3]->(x:Order)", "no edge (c)-[:KNOWS]->(d) at (c)"),
        // What the chain does not touch is looked for all the same.
        ("beside", "(c)-[:PLACED*1..3]->(x:Order), (s:Bazaar)", "there is no node that could be (s:Bazaar)"),
    ] {
        let place = keep(&weir, name, &format!("MATCH (c:Customer) OPTIONAL MATCH {pattern} RETURN id(c) AS c, id(x) AS x"));
        let answer = ask(&weir, &place, json!({"data": {"c": 3}}));
        let asked = &stage(&answer["matches"][0]["made"][0], "Asked")["asked"];
        let looked = asked.as_array().into_iter().flatten().find(|asked| asked["found"] == false).expect("what was not found");
        assert_eq!(looked["whyNot"][0]["fails"], fails, "{answer}");
    }
    // NOT EXISTS.
    let place = keep(
        &weir,
        "idle",
        "MATCH (c:Customer) WHERE NOT EXISTS { (c)-[:PLACED]->(o:Order) WHERE o.sum > 6 } RETURN c.name AS name",
    );
    let answer = ask(&weir, &place, json!({"data": {"name": "bob"}}));
    let asked = &stage(&answer["matches"][0]["made"][0], "Asked")["asked"];
    let looked = asked.as_array().into_iter().flatten().find(|asked| asked["looksFor"].is_string()).expect("the pattern");
    assert_eq!(
        (&looked["found"], &looked["whyNot"][0]["fails"]),
        (&json!(false), &json!("where (o.sum > 6) does not hold")),
        "{answer}"
    );
    let answer = ask(&weir, &place, json!({"nodes": {"c": "1"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!(
        (&stop["stage"], &stop["fails"]),
        (&json!("Asked"), &json!("what is asked of the graph for this row gives nothing")),
        "{answer}"
    );
    let asked = stop["asked"].as_array().into_iter().flatten();
    let told: Vec<&str> = asked.filter_map(|asked| asked["where"].as_str()).collect();
    let in_words = "NOT EXISTS { (c)-[:PLACED]->(o:Order) WHERE (o.sum > 6) }";
    assert!(told.iter().any(|told| told.contains(in_words)), "as it would be written: {told:?}");
    let found = stop["asked"].as_array().into_iter().flatten().find(|asked| asked["looksFor"].is_string()).expect("the pattern");
    assert_eq!((&found["found"], &found["nodes"][0]["c"]), (&json!(true), &json!("1")), "{answer}");
    // With a node of the anti-pattern: whether it is found with that one.
    for (o, is_found) in [("12", true), ("11", false)] {
        let answer = ask(&weir, &place, json!({"nodes": {"c": "1", "o": o}}));
        let asked = answer["whyNot"][0]["asked"].as_array().into_iter().flatten();
        let found = asked.clone().find(|asked| asked["looksFor"].is_string()).expect("the pattern");
        assert_eq!((&found["found"], &found["with"]), (&json!(is_found), &json!({"o": o})), "{answer}");
        match is_found {
            true => assert_eq!(found["edges"][0][0], json!({"from": "1", "type": "PLACED", "to": o}), "{answer}"),
            false => assert_eq!(found["whyNot"][0]["fails"], "where (o.sum > 6) does not hold", "{answer}"),
        }
    }
}

/// What a query asks of the graph at last (OPTIONAL MATCH, a property after LIMIT or CALL) is no wall for what is asked for.
#[test]
fn values_are_looked_for_below_what_is_asked_for_each_row() {
    let home = Home::new();
    let weir = weir(&home);
    let place = keep(
        &weir,
        "no_seven",
        "MATCH (c:Customer) WHERE NOT EXISTS { (c)-[:PLACED]->(o {sum: 7}) } OPTIONAL MATCH (c)-[:PLACED]->(p) RETURN c.name AS n, p.sum AS s",
    );
    let answer = ask(&weir, &place, json!({"data": {"n": "ann"}}));
    let stop = &answer["whyNot"][0];
    let told = stop["asked"].as_array().into_iter().flatten().find(|asked| asked["where"].is_string()).expect("a condition");
    assert_eq!((&answer["matches"], &stop["stage"], &told["holds"]), (&json!([]), &json!("Asked"), &json!(false)), "{answer}");
    let condition = told["where"].as_str().unwrap_or_default();
    assert!(condition.contains("NOT EXISTS {") && condition.contains("(o.sum = 7)"), "{answer}");
    // Nothing that is found later.
    assert_eq!(stage(&stop["of"][0], "Pattern")["values"], json!({"c": "1", "c.name": "ann"}), "{answer}");
    // Another value of what is found.
    let place =
        keep(&weir, "sums", "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o:Order) RETURN c.name AS name, o.sum AS sum");
    let answer = ask(&weir, &place, json!({"data": {"name": "bob", "sum": 6}}));
    assert_eq!(answer["otherResults"], json!([{"name": "bob", "sum": 1}]), "{answer}");
    // A property that is read when the rows are chosen.
    let place = keep(&weir, "first", "MATCH (c:Customer) WITH c ORDER BY c.name LIMIT 1 RETURN c.city AS city, c.name AS name");
    let answer = ask(&weir, &place, json!({"data": {"name": "bob"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!((&stop["stage"], &stop["place"], &stop["among"]), (&json!("Window"), &json!(2), &json!(3)), "{answer}");
    let answer = ask(&weir, &place, json!({"data": {"name": "dan"}}));
    assert_eq!(answer["whyNot"][0]["fails"], "no match of the pattern has these values", "{answer}");
    // Values that no row has together: what becomes of the rows that have the most of them.
    let answer = ask(&weir, &place, json!({"data": {"name": "bob", "city": "Bonn"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!(
        (&stop["stage"], &stop["place"], &stop["lacks"]),
        (&json!("Window"), &json!(2), &json!({"city": "Bonn"})),
        "{answer}"
    );
    let answer = ask(&weir, &place, json!({"data": {"name": "dan", "city": "Ulm"}}));
    assert_eq!(answer["otherResults"], json!([{"city": "Ulm", "name": "ann"}]), "{answer}");
    assert!(!answer["whyNot"].to_string().contains("no match of the pattern"), "{answer}");
    let answer = ask(&weir, &place, json!({"data": {"name": "dan", "city": "Bonn"}}));
    assert_eq!(answer["whyNot"][0]["fails"], "no match of the pattern has these values", "{answer}");
    let place = keep(
        &weir,
        "most",
        "MATCH (c:Customer)-[:PLACED]->(o:Order) WITH c, count(o) AS orders ORDER BY orders DESC LIMIT 1 RETURN c.name AS name, orders",
    );
    let answer = ask(&weir, &place, json!({"data": {"name": "bob"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!((&stop["stage"], &stop["place"], &stop["among"]), (&json!("Window"), &json!(2), &json!(2)), "{answer}");
    // How far those get that have it, though the pattern does not read it.
    let answer = ask(&weir, &place, json!({"data": {"name": "cid"}}));
    let stop = &answer["whyNot"][0];
    assert_eq!(stop["fails"], "no edge (c:Customer)-[:PLACED]->(o:Order) at (c:Customer)", "{answer}");
    assert_eq!(stop["nodes"], json!({"c": "3"}), "{answer}");
    // Of two that are found for each row.
    let query = "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o:Order) RETURN c.name AS name, id(o) AS o, o.sum AS s";
    let place = keep(&weir, "found", query);
    let answer = ask(&weir, &place, json!({"data": {"o": 11, "s": 7}}));
    let mut others: Vec<Json> = answer["otherResults"].as_array().cloned().unwrap_or_default();
    others.sort_by_key(|other| other["o"].as_i64());
    assert_eq!(json!(others), json!([{"name": "ann", "o": 11, "s": 5}, {"name": "ann", "o": 12, "s": 7}]), "{answer}");
    // A condition on what was counted for each.
    let place = keep(
        &weir,
        "idle",
        "MATCH (c:Customer) CALL { WITH c MATCH (c)-[:PLACED]->(o) RETURN count(o) AS n } WITH c, n WHERE n = 0 RETURN c.name AS name, n",
    );
    assert_eq!(ask(&weir, &place, json!({"data": {"name": "cid"}}))["matches"][0]["data"], json!({"name": "cid", "n": 0}));
    let answer = ask(&weir, &place, json!({"data": {"name": "bob"}}));
    let stop = &answer["whyNot"][0];
    assert!(stop["fails"].as_str().is_some_and(|fails| fails.ends_with(" = 0) does not hold")), "{answer}");
    let values: Vec<&Json> = stop["values"].as_object().into_iter().flat_map(|values| values.values()).collect();
    assert_eq!((&stop["stage"], values), (&json!("Filter"), vec![&json!(1)]), "{answer}");
}

#[test]
fn orders_unions_and_joins_are_told() {
    let home = Home::new();
    let weir = weir(&home);
    // ORDER BY … LIMIT.
    let place = keep(&weir, "top", "MATCH (o:Order) RETURN id(o) AS o, o.sum AS sum ORDER BY sum DESC LIMIT 2");
    let answer = ask(&weir, &place, json!({"data": {"o": 12}}));
    let window = stage(&answer["matches"][0]["made"][0], "Window");
    assert_eq!((&window["place"], &window["among"]), (&json!(2), &json!(4)), "{answer}");
    let answer = ask(&weir, &place, json!({"data": {"o": 11}}));
    let stop = &answer["whyNot"][0];
    assert_eq!((&stop["stage"], &stop["place"], &stop["among"]), (&json!("Window"), &json!(3), &json!(4)), "{answer}");
    assert_eq!(stop["fails"], "it is number 3 of 4 in order, and only those to number 2 are shown", "{answer}");
    // UNION.
    let place = keep(&weir, "names", "MATCH (c:Customer) RETURN c.name AS x UNION ALL MATCH (o:Order) RETURN o.sum AS x");
    let part = |x: Json| {
        let answer = ask(&weir, &place, json!({"data": {"x": x}}));
        stage(&answer["matches"][0]["made"][0], "Union")["part"].clone()
    };
    assert_eq!((part(json!("bob")), part(json!(5))), (json!(1), json!(2)));
    // Parts that no edge connects.
    let place = keep(&weir, "same", "MATCH (a:Customer), (b:Order) WHERE a.rank = b.sum RETURN a.name AS a, id(b) AS b");
    let answer = ask(&weir, &place, json!({"nodes": {"b": "11"}}));
    assert!(answer["whyNot"].as_array().is_some_and(|all| !all.is_empty()), "{answer}");
    weir.rows("MATCH (c) WHERE id(c) = 1 SET c.rank = 5");
    let answer = ask(&weir, &place, json!({"nodes": {"b": "11"}}));
    let join = stage(&answer["matches"][0]["made"][0], "Join");
    let facts = |side: usize| join["of"][side]["facts"].as_array().map(Vec::len);
    assert!(facts(0) > Some(0) && facts(1) > Some(0), "both parts have their facts: {answer}");
    assert_eq!((&join["of"][0]["nodes"], &join["of"][1]["nodes"]), (&json!({"a": "1"}), &json!({"b": "11"})), "{answer}");
    let answer = ask(&weir, &place, json!({"nodes": {"b": "12"}}));
    assert_eq!(
        (&answer["whyNot"][0]["stage"], &answer["whyNot"][0]["values"]),
        (&json!("Join"), &json!({"b.sum": 7})),
        "{answer}"
    );
    // A pattern after a group, and each of a list.
    let place = keep(
        &weir,
        "after",
        "MATCH (c:Customer)-[:PLACED]->(o) WITH c, collect(o.sum) AS sums MATCH (c)-[:PLACED]->(p) WHERE p.sum = 5 UNWIND sums AS s RETURN c.name AS name, s",
    );
    let answer = ask(&weir, &place, json!({"data": {"name": "ann", "s": 9}}));
    let names = stages(&answer["matches"][0]["made"][0]);
    assert!(names.contains(&"Unwind") && names.contains(&"Group"), "{names:?} of {answer}");
}

#[test]
fn two_nodes_that_do_not_go_together_are_told() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("MATCH (c) WHERE id(c) = 1 SET c.rank = 5");
    let place = keep(&weir, "pairs", "MATCH (a:Customer), (b:Order) WHERE a.rank = b.sum RETURN id(a) AS a, id(b) AS b");
    assert_eq!(ask(&weir, &place, json!({"nodes": {"a": "1", "b": "11"}}))["matches"][0]["data"], json!({"a": 1, "b": 11}));
    // Each by itself is in a result or could be in one.
    for question in [json!({"nodes": {"a": "1", "b": "12"}}), json!({"data": {"a": 1, "b": 12}})] {
        let answer = ask(&weir, &place, question);
        let stop = &answer["whyNot"][0];
        assert_eq!(
            (&stop["stage"], &stop["fails"], &stop["values"]),
            (&json!("Join"), &json!("where a.rank = b.sum does not hold"), &json!({"a.rank": 5, "b.sum": 7})),
            "{answer}"
        );
        assert_eq!((&stop["of"][0]["nodes"], &stop["of"][1]["nodes"]), (&json!({"a": "1"}), &json!({"b": "12"})), "{answer}");
        assert_eq!((&answer["matches"], answer["whyNot"].as_array().map(Vec::len)), (&json!([]), Some(1)), "{answer}");
    }
}

#[test]
fn nodes_are_asked_for_wherever_they_are_looked_for() {
    let home = Home::new();
    let weir = weir(&home);
    // The chain is followed from the order: the customer is found for each row, and is not handed on.
    let place = keep(&weir, "reached", "MATCH (c)-[:PLACED*1..2]->(o:Order {sum: 5}) RETURN o.sum AS sum");
    let answer = ask(&weir, &place, json!({"nodes": {"c": "1"}}));
    assert_eq!(answer["matches"][0]["data"], json!({"sum": 5}), "{answer}");
    let answer = ask(&weir, &place, json!({"nodes": {"c": "2"}}));
    assert_eq!(answer["whyNot"][0]["fails"], "what is asked of the graph finds no c with this id", "{answer}");
    // OPTIONAL MATCH.
    let place = keep(&weir, "maybe", "MATCH (c:Customer) OPTIONAL MATCH (c)-[:PLACED]->(o) RETURN c.name AS name, id(o) AS o");
    let answer = ask(&weir, &place, json!({"nodes": {"o": "13"}}));
    assert_eq!(
        (&answer["matches"][0]["data"], &answer["matches"][1]),
        (&json!({"name": "bob", "o": 13}), &Json::Null),
        "{answer}"
    );
    let refused = weir.post(&format!("{place}/why"), &json!({"nodes": {"x": "1"}})).expect(400).text();
    assert!(refused.contains("no pattern of the query has a node 'x'; there are c, o"), "{refused}");
}

#[test]
fn stages_that_have_no_value_say_why() {
    let home = Home::new();
    let weir = weir(&home);
    weir.rows("MATCH (o) WHERE id(o) = 13 SET o.sum = 0");
    let place = keep(&weir, "grouped", "MATCH (o:Order) WITH 10 / o.sum AS q, count(*) AS n RETURN q, n");
    let answer = ask(&weir, &place, json!({"nodes": {"o": "13"}}));
    let fails = answer["whyNot"][0]["fails"].as_str().expect("what fails");
    assert!(fails.starts_with("no value: (10 / o.sum): "), "{answer}");
}

/// More nodes than rows that are worked out for one question.
#[test]
fn one_of_very_many_is_found() {
    let home = Home::new();
    let weir = weir(&home);
    for from in (100..270_100).step_by(30_000) {
        weir.rows(&format!("UNWIND range({from}, {}) AS k MATCH (a) WHERE id(a) = k SET a:P, a.i = k % 97", from + 29_999));
    }
    weir.rows("UNWIND range(101, 105) AS k MATCH (a), (b) WHERE id(a) = 100 AND id(b) = k CREATE (a)-[:K]->(b)");
    let queries = [
        ("count", "MATCH (a:P) RETURN id(a) AS a, count(*) AS n", 1),
        ("maybe", "MATCH (a:P) OPTIONAL MATCH (a)-[:K]->(b) RETURN id(a) AS a, count(b) AS n", 5),
        ("counted", "MATCH (a:P) RETURN id(a) AS a, COUNT { (a)-[:K]->() } AS n", 5),
        ("chain", "MATCH (a:P) OPTIONAL MATCH (a)-[:K*1..2]->(b) WITH a, count(b) AS n RETURN id(a) AS a, n", 5),
        ("both", "MATCH (a:P) RETURN id(a) AS a, 5 AS n UNION MATCH (b:P) RETURN id(b) AS a, 7 AS n", 5),
    ];
    for (name, query, n) in queries {
        let place = keep(&weir, name, query);
        let data = json!({"a": 100, "n": n});
        let answer = ask(&weir, &place, json!({"data": data}));
        let found = &answer["matches"][0];
        assert_eq!(found["data"], data, "{name}: {answer}");
        assert!(found["since"]["tick"].is_string(), "{name}: since when is known: {answer}");
        let by_id = ask(&weir, &place, json!({"resultId": found["resultId"]}));
        assert_eq!((&by_id["matches"], &by_id["gaveUp"]), (&answer["matches"], &json!(false)), "{name}");
        if name != "both" {
            let by_node = ask(&weir, &place, json!({"nodes": {"a": "100"}}));
            assert_eq!(by_node["matches"], answer["matches"], "{name}");
        }
    }
    // A node as a whole.
    let place = keep(&weir, "whole", "MATCH (a:P) OPTIONAL MATCH (a)-[:K]->(b) RETURN a, count(b) AS n");
    let by_node = ask(&weir, &place, json!({"nodes": {"a": "100"}}));
    let data = &by_node["matches"][0]["data"];
    assert!(data["a"].is_object() && data["n"] == 5, "{by_node}");
    assert_eq!(ask(&weir, &place, json!({"data": data}))["matches"], by_node["matches"]);
}
