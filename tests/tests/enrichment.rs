//! Queries in outputs of standing queries: several at a time and yet in order, results that they fail on, and who listens to
//! an output that is changed. Against the real binary.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::endpoint::Endpoint;
use weir_tests::service::{Home, RESULTS_MAX, Weir, wait_until};
use weir_tests::socket::Socket;

const PLACE: &str = "/api/v1/query/standing/numbers";
const PLACE_V2: &str = "/api/v2/graph/quine/standingQueries/numbers";

fn create(weir: &Weir, outputs: Json) {
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.i > -1 RETURN n.i AS i"});
    weir.post(PLACE, &json!({"pattern": pattern, "outputs": outputs})).expect(201);
}

fn file(path: &str) -> Json {
    json!({"type": "WriteToFile", "path": path})
}

/// Dead letters with what is known of them.
fn letters(path: &str) -> Json {
    json!({"type": "DeadLetter", "destinations": [
        {"type": "File", "path": path, "outputFormat": {"type": "JSON", "withInfoEnvelope": true}}]})
}

fn asking(query: &str, parallelism: u32, next: Json) -> Json {
    json!({"type": "CypherQuery", "query": query, "parallelism": parallelism, "andThen": next})
}

/// Numbers from one to another, in one commit.
fn set(weir: &Weir, from: u32, to: u32) {
    weir.rows(&format!("UNWIND range({from}, {to}) AS i MATCH (n) WHERE id(n) = idFrom('number', i) SET n.i = i"));
}

fn output(weir: &Weir, name: &str) -> Json {
    weir.get(PLACE).expect(200).json()["stats"]["local"]["outputs"][name].clone()
}

fn state(weir: &Weir, name: &str) -> Json {
    output(weir, name)["state"].clone()
}

fn change(weir: &Weir, target: &str, body: &Json) {
    weir.send("PUT", target, &[("Content-Type", "application/json")], body.to_string().as_bytes()).expect(200);
}

/// The numbers of results in a file, in its order.
fn numbers(lines: &[Json]) -> Vec<u64> {
    lines.iter().filter_map(|line| line["data"]["i"].as_u64()).collect()
}

#[test]
fn queries_that_read_run_side_by_side_and_their_rows_keep_the_order() {
    let home = Home::new();
    let weir = home.start(&[]);
    // Waits as one that works would. Every tenth fails.
    let query = "CALL util.sleep(20) WITH $that.data.i AS i RETURN i, 1 / (i % 10) AS x";
    let of = |name: &str, parallelism| {
        let mut end = file(&format!("{name}.jsonl"));
        end["onResultError"] = letters(&format!("{name}-dead.jsonl"));
        asking(query, parallelism, end)
    };
    create(&weir, json!({"wide": of("wide", 16), "narrow": of("narrow", 1), "plain": file("plain.jsonl")}));
    let begun = Instant::now();
    set(&weir, 1, 100);
    // Until then both wait for the same: a disk that stands still would make them alike.
    let set_took = begun.elapsed();
    let plain = numbers(&home.wait_lines("plain.jsonl", 100));
    let wide = numbers(&home.wait_lines("wide.jsonl", 90));
    let wide_took = begun.elapsed();
    let narrow = numbers(&home.wait_lines("narrow.jsonl", 90));
    let narrow_took = begun.elapsed();
    let (failing, fine): (Vec<u64>, Vec<u64>) = plain.iter().partition(|i| i.is_multiple_of(10));
    assert_eq!((&wide, &narrow), (&fine, &fine));
    for name in ["wide", "narrow"] {
        let dead = home.wait_lines(&format!("{name}-dead.jsonl"), 10);
        let dead: Vec<u64> = dead.iter().filter_map(|letter| letter["result"]["data"]["i"].as_u64()).collect();
        assert_eq!(dead, failing, "{name}");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(narrow_took >= Duration::from_secs(2), "one at a time: {narrow_took:?}");
    assert!(
        cores == 1 || wide_took - set_took < (narrow_took - set_took).mul_f64(0.75),
        "{wide_took:?} side by side, {narrow_took:?} otherwise, {set_took:?} of it before either"
    );
    weir.stop();
}

#[test]
fn queries_that_write_run_in_the_order_of_the_results() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let write = "MATCH (n) WHERE id(n) = idFrom('list') SET n.list = coalesce(n.list, []) + $that.data.i";
    // One that only reads may come before it.
    let through = json!({"type": "CypherQuery", "query": write, "structure": {"type": "WithMetadata"}});
    let outputs = json!({
        "write": {"type": "CypherQuery", "query": write.replace("list", "own"), "parallelism": 16},
        "through": asking("CALL util.sleep(2) RETURN $that.data.i AS i", 16, through),
        "plain": file("plain.jsonl"),
    });
    create(&weir, outputs);
    set(&weir, 1, 200);
    let plain = numbers(&home.wait_lines("plain.jsonl", 200));
    for name in ["write", "through"] {
        wait_until("all are written", RESULTS_MAX, || output(&weir, name)["delivered"] == 200);
    }
    for (node, property) in [("own", "own"), ("list", "list")] {
        let rows = weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('{node}') RETURN n.{property}"));
        assert_eq!(rows[0][0], json!(plain), "{node}");
    }
}

#[test]
fn what_runs_side_by_side_when_weir_is_killed_comes_once_and_in_order() {
    let home = Home::new();
    let weir = home.start(&[]);
    let query = "CALL util.sleep(5) RETURN $that.data.i AS i";
    create(&weir, json!({"wide": asking(query, 16, file("wide.jsonl")), "plain": file("plain.jsonl")}));
    for round in 0..20 {
        set(&weir, round * 20 + 1, round * 20 + 20);
    }
    wait_until("some are there", RESULTS_MAX, || !home.lines("wide.jsonl").is_empty());
    weir.kill();
    let weir = home.start(&[]);
    let plain = numbers(&home.wait_lines("plain.jsonl", 400));
    assert_eq!(numbers(&home.wait_lines("wide.jsonl", 400)), plain);
    weir.stop();
}

#[test]
fn a_result_that_a_query_fails_on_is_dealt_with_as_it_is_chosen() {
    let home = Home::new();
    let weir = home.start(&[]);
    let query = "RETURN 12 / $that.data.i AS i";
    let with = |path: &str, choice: Json| {
        let mut file = file(path);
        file["onResultError"] = choice;
        file
    };
    create(&weir, json!({"chain": asking(query, 16, with("chain.jsonl", letters("chain-dead.jsonl")))}));
    // In v2, of which the form of the result is what the query was given.
    let add = |name: &str, choice: Json, more: Json| {
        let destination = json!({"type": "File", "path": format!("{name}.jsonl"), "onResultError": choice});
        let mut workflow = json!({"name": name, "resultEnrichment": {"query": query}, "destinations": [destination]});
        more.as_object().into_iter().flatten().for_each(|(field, value)| workflow[field] = value.clone());
        weir.post(&format!("{PLACE_V2}/outputs"), &workflow).expect(201);
    };
    add("letters", letters("letters-dead.jsonl"), json!({}));
    let bare = json!({"query": "RETURN 12 / $that.i AS i"});
    let bare = json!({"preEnrichmentTransformation": {"type": "InlineData"}, "resultEnrichment": bare});
    add("bare", letters("bare-dead.jsonl"), bare);
    add("fails", json!({"type": "Fail"}), json!({}));
    add("usual", json!({"type": "GiveUp"}), json!({}));
    let effect = json!({"type": "CypherQuery", "query": query});
    weir.post(&format!("{PLACE}/output/effect"), &effect).expect(201);
    set(&weir, 4, 4);
    for name in ["chain", "letters", "bare", "fails", "usual"] {
        home.wait_lines(&format!("{name}.jsonl"), 1);
    }
    set(&weir, 0, 0);
    for (name, result) in [
        ("chain", json!({"meta": {"isPositiveMatch": true}, "data": {"i": 0}})),
        ("letters", json!({"meta": {"isPositiveMatch": true}, "data": {"i": 0}})),
        ("bare", json!({"i": 0})),
    ] {
        let letter = home.wait_lines(&format!("{name}-dead.jsonl"), 1).remove(0);
        assert_eq!((&letter["standingQuery"], &letter["output"]), (&json!("numbers"), &json!(name)));
        assert!(letter["message"].as_str().is_some_and(|why| why.contains("the query failed on a result")), "{letter}");
        let (of, expected) = (&letter["result"], &result);
        assert_eq!(of["data"], expected["data"], "{letter}");
        assert_eq!(of["meta"]["isPositiveMatch"], expected["meta"]["isPositiveMatch"], "{letter}");
        assert_eq!(of["i"], expected["i"], "{letter}");
        wait_until("it is counted", RESULTS_MAX, || output(&weir, name)["deadLetters"] == 1);
        assert_eq!((&output(&weir, name)["failed"], &state(&weir, name)), (&json!(0), &json!("Running")));
    }
    wait_until("it has ended", RESULTS_MAX, || {
        let shown = output(&weir, "fails");
        shown["state"] == "Failed" && shown["waiting"] == 1
    });
    let failed = output(&weir, "fails");
    assert!(failed["reason"].as_str().is_some_and(|why| why.contains("the query failed on a result")), "{failed}");
    assert_eq!((&failed["waiting"], &failed["failed"]), (&json!(1), &json!(0)), "{failed}");
    for name in ["usual", "effect"] {
        wait_until("what is given up is counted, and over", RESULTS_MAX, || {
            let shown = output(&weir, name);
            shown["failed"] == 1 && shown["waiting"] == 0
        });
        let shown = output(&weir, name);
        assert_eq!(
            (&shown["state"], &shown["waiting"], &shown["deadLetters"]),
            (&json!("Running"), &json!(0), &json!(0)),
            "{shown}"
        );
        let told = shown["lastError"]["message"].as_str().unwrap_or_default();
        assert!(told.contains("the query failed on a result"), "{shown}");
    }
    // What comes then, comes; a restart asks again, and so does another definition, which gets the result.
    set(&weir, 3, 3);
    for name in ["chain", "letters", "bare", "usual"] {
        home.wait_lines(&format!("{name}.jsonl"), 2);
    }
    weir.stop();
    let weir = home.start(&[]);
    wait_until("it ends again", RESULTS_MAX, || state(&weir, "fails") == "Failed");
    assert_eq!(home.lines("fails.jsonl").len(), 1);
    let better = json!({"name": "fails", "destinations": [{"type": "File", "path": "better.jsonl"}]});
    change(&weir, &format!("{PLACE_V2}/outputs/fails"), &better);
    assert_eq!(numbers(&home.wait_lines("better.jsonl", 2)), [0, 3]);
    weir.stop();
}

#[test]
fn a_query_that_fails_is_tried_until_it_does_not_where_that_is_chosen() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let mut end = file("out.jsonl");
    end["onResultError"] = json!({"type": "Retry"});
    let query = "MATCH (n) WHERE id(n) = idFrom('by') RETURN 12 / n.by AS i";
    weir.rows("MATCH (n) WHERE id(n) = idFrom('by') SET n.by = 0");
    create(&weir, json!({"tries": asking(query, 16, end)}));
    set(&weir, 1, 3);
    wait_until("it is tried again", RESULTS_MAX, || {
        let shown = output(&weir, "tries");
        shown["state"] == "Retrying" && shown["retries"].as_u64() > Some(1)
    });
    assert_eq!(output(&weir, "tries")["failed"], 0);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('by') SET n.by = 3");
    assert_eq!(numbers(&home.wait_lines("out.jsonl", 3)), [4, 4, 4]);
    wait_until("it runs", RESULTS_MAX, || state(&weir, "tries") == "Running");
    // One that is tried for ever holds up the end of its query no longer than others that are late,
    weir.rows("MATCH (n) WHERE id(n) = idFrom('by') SET n.by = 0");
    set(&weir, 4, 4);
    wait_until("it is tried again", RESULTS_MAX, || state(&weir, "tries") == "Retrying");
    weir.delete(PLACE).expect(200);
    // and that of weir not at all.
    weir.stop();
}

#[test]
fn who_listens_to_an_output_goes_on_with_what_takes_its_place() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    create(&weir, json!({}));
    let place = format!("{PLACE_V2}/outputs");
    weir.post(&place, &json!({"name": "o", "destinations": [{"type": "File", "path": "one.jsonl"}]})).expect(201);
    let mut before = Socket::open(&weir, &format!("{place}/o:tapPreEnrichment")).expect("a socket");
    let mut after = Socket::open(&weir, &format!("{place}/o:tap")).expect("a socket");
    set(&weir, 1, 1);
    assert_eq!((&before.expect()["data"]["i"], &after.expect()["data"]["i"]), (&json!(1), &json!(1)));
    let other = json!({"name": "o", "preEnrichmentTransformation": {"type": "InlineData"},
        "resultEnrichment": {"query": "RETURN $that.i * 10 AS ten"}, "destinations": [{"type": "File", "path": "two.jsonl"}]});
    change(&weir, &format!("{place}/o"), &other);
    set(&weir, 2, 2);
    assert_eq!((before.expect(), after.expect()), (json!({"i": 2}), json!({"ten": 20})));
    assert_eq!(home.wait_lines("two.jsonl", 1), [json!({"ten": 20})]);
}

#[test]
fn ids_are_texts_in_queries_of_v2_and_ids_in_those_of_v1() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let query = "MATCH (n) WHERE n.i = 1 RETURN id(n) AS id, [id(n)] AS ids, {id: id(n)} AS map";
    // That it is taken says that no node is looked for by a scan.
    let asks = "MATCH (n) WHERE id(n) = $that.data.id AND strId(n) = $that.data.map.id \
        RETURN n.name AS name, $that.data.id = id(n) AS id, $that.data.ids = [strId(n)] AS texts";
    let body = json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": query},
        "outputs": {"old": asking(asks, 16, file("old.jsonl"))}});
    weir.post(PLACE, &body).expect(201);
    let more = "'user ' + $that.data.id = 'user ' + strId(n) AS joined, idFrom('alert', $that.data.id) = idFrom('alert', strId(n)) AS derived";
    let add = |workflow: Json| weir.post(&format!("{PLACE_V2}/outputs"), &workflow).expect(201);
    add(json!({"name": "new", "resultEnrichment": {"query": format!("{asks}, {more}")},
        "destinations": [{"type": "File", "path": "new.jsonl"}]}));
    // A destination, with the data alone, and behind another query.
    add(json!({"name": "end", "preEnrichmentTransformation": {"type": "InlineData"}, "destinations": [
        {"type": "CypherQuery", "query": "MATCH (n) WHERE id(n) = $that.id SET n.told = 'by ' + $that.id"}]}));
    add(json!({"name": "behind", "resultEnrichment": {"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN id(n) AS id"},
        "destinations": [{"type": "CypherQuery", "query": "MATCH (n) WHERE id(n) = $that.id SET n.behind = 'by ' + $that.id"}]}));
    weir.rows("MATCH (n) WHERE id(n) = idFrom('a') SET n.name = 'Ann', n.i = 1");
    let old = home.wait_lines("old.jsonl", 1).remove(0);
    assert_eq!(old["data"], json!({"name": "Ann", "id": true, "texts": false}));
    let new = home.wait_lines("new.jsonl", 1).remove(0);
    assert_eq!(new, json!({"name": "Ann", "id": false, "texts": true, "joined": true, "derived": true}));
    let written = "MATCH (n) WHERE id(n) = idFrom('a') RETURN n.told = 'by ' + strId(n), n.behind = 'by ' + strId(n)";
    wait_until("both have written", RESULTS_MAX, || weir.rows(written) == [json!([true, true])]);
}

#[test]
fn who_listens_to_a_workflow_hears_each_result_once_whatever_becomes_of_its_destinations() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.i > -1 RETURN n.i AS i"});
    weir.post(PLACE, &json!({"pattern": pattern, "includeCancellations": true, "outputs": {}})).expect(201);
    let (refuses, hangs) = (Endpoint::start(""), Endpoint::start(""));
    refuses.answer_with(400, Duration::ZERO);
    hangs.answer_with(200, Duration::from_secs(60));
    let url = |endpoint: &Endpoint| format!("http://{}/", endpoint.address());
    let fail = json!({"type": "Fail"});
    let post = |to: &Endpoint| json!({"type": "HttpEndpoint", "url": url(to), "parallelism": 1, "onResultError": fail});
    let place = format!("{PLACE_V2}/outputs");
    let listen = |name: &str, first: Json, enrichment: Option<&str>| {
        let mut workflow = json!({"name": name, "destinations": [first, {"type": "File", "path": format!("{name}.jsonl")}]});
        if let Some(query) = enrichment {
            workflow["resultEnrichment"] = json!({"query": query});
        }
        weir.post(&place, &workflow).expect(201);
        ["tapPreEnrichment", "tap"].map(|tap| Socket::open(&weir, &format!("{place}/{name}:{tap}")).expect("a socket"))
    };
    let slack = json!({"type": "Slack", "hookUrl": url(&refuses), "onlyPositiveMatchData": true});
    let mut fails = listen("fails", post(&refuses), None);
    let mut slack = listen("slack", slack, None);
    let [mut hung, mut rows] = listen("hangs", post(&hangs), Some("UNWIND [1, 2] AS x RETURN $that.data.i * 10 + x AS i"));
    // More commits than an output that hangs has room for.
    let many = 1..=200;
    for i in many.clone() {
        set(&weir, i, i);
        if i == 1 {
            wait_until("the first has failed", RESULTS_MAX, || state(&weir, "fails") == "Failed");
        }
    }
    for i in many {
        for socket in fails.iter_mut().chain(&mut slack).chain([&mut hung]) {
            let result = socket.expect();
            assert_eq!((&result["data"]["i"], &result["meta"]["isPositiveMatch"]), (&json!(i), &json!(true)), "{result}");
        }
        assert_eq!([rows.expect(), rows.expect()], [1, 2].map(|x| json!({"i": i * 10 + x})));
    }
    // The filter is that of the workflow, which has none.
    weir.rows("MATCH (n) WHERE id(n) = idFrom('number', 7) SET n.i = -7");
    for socket in fails.iter_mut().chain(&mut slack) {
        let result = socket.expect();
        assert_eq!((&result["data"]["i"], &result["meta"]["isPositiveMatch"]), (&json!(7), &json!(false)), "{result}");
    }
}
