//! The service as its users have it: the real binary, asked over HTTP, stopped by signals, started wrongly.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value as Json, json};
use weir_engine::store::{EncodedEntry, Entry, NewSymbols, RocksDb, RocksDbOptions, Store, encode};
use weir_model::Tick;
use weir_tests::client;
use weir_tests::service::{Home, STOP_MAX, Weir, binary, takes_at_most, wait_until};
use weir_tests::socket::Socket;

/// For tests that do not look at durability.
const IN_MEMORY: &[&str] = &["-Dweir.store.type=in-memory"];

/// How soon what was asked for must be seen; machines under load are slow.
const SOON: Duration = Duration::from_secs(60);

/// How quickly an idle weir ends.
const END_MAX: Duration = Duration::from_secs(10);

// ---- start and stop

#[test]
fn it_starts_answers_and_ends_with_zero_when_asked() {
    for signal in [Signal::TERM, Signal::INT] {
        takes_at_most("an idle weir's end", END_MAX, || {
            let home = Home::new();
            let weir = home.start(&[]);
            assert_eq!(weir.get("/api/v1/admin/liveness").status, 204);
            assert_eq!(weir.get("/api/v1/admin/readiness").status, 204);
            let began = Instant::now();
            // Whoever tells a process and then its group does not insist.
            (0..2).for_each(|_| weir.signal(signal));
            let (status, log) = weir.wait_end(STOP_MAX);
            assert!(status.success(), "{status}: {log}");
            began.elapsed()
        });
    }
}

#[test]
fn paths_bodies_and_pages_are_found_by_what_they_mean() {
    let weir = Home::new().start(IN_MEMORY);
    weir.get("/api/v1/%61dmin/liveness").expect(204);
    for (page, place) in [("/dashboard", "./"), ("/home", "./"), ("/explorer-settings/", "../"), ("/home/", "../")] {
        assert_eq!(weir.get(page).expect(307).header("location"), Some(place), "{page}");
    }
    assert_eq!(weir.get("/").expect(200).header("link"), Some("<openapi.json>; rel=\"service-desc\""));
    for (export, name) in [("export", "graph.jsonl"), ("export?format=parquet", "graph.parquet")] {
        let kept = format!("attachment; filename=\"{name}\"");
        assert_eq!(weir.get(&format!("/api/v1/admin/{export}")).expect(200).header("content-disposition"), Some(&*kept));
    }
    // Scheme and host are those the client has asked, whatever a proxy has made of them.
    let moved = weir.get("/api/v1/admin/build-info/?x=1").expect(308);
    assert_eq!(moved.header("location"), Some("/api/v1/admin/build-info?x=1"));
    let ask = |headers: &[(&str, &str)], body: &[u8]| weir.send("POST", "/api/v1/query/cypher", headers, body);
    let latin = ask(&[("content-type", "text/plain; charset=ISO-8859-1")], b"RETURN '\xe9'").expect(200);
    assert_eq!(latin.json()["results"], json!([["é"]]));
    ask(&[("content-type", "text/plain; charset=none-such")], b"RETURN 1").expect(415);
    let packed = ask(&[("content-type", "text/plain"), ("content-encoding", "gzip")], b"\x1f\x8b").expect(415);
    assert!(packed.text().contains("gzip"), "{}", packed.text());
    let lines = [("content-type", "text/plain"), ("content-encoding", "identity"), ("content-encoding", "gzip")];
    assert!(ask(&lines, b"RETURN 1").expect(415).text().contains("gzip"));
}

#[test]
fn options_of_recipes_do_nothing_without_one_and_are_said_to() {
    let weir = Home::new().start(&[IN_MEMORY, &["-x", "a=1", "--no-delete"]].concat());
    assert!(weir.log().contains("no effect here") && weir.log().contains("-x (without -r), --no-delete"), "{}", weir.log());
}

/// Over the configuration goes `WEIR_LOG`, where it says something, and no variable of other programs.
#[test]
fn one_variable_says_what_is_logged() {
    let home = Home::new();
    // Without the line that says where it is, it would not be found to be ready.
    home.start_with(&[("WEIR_LOG", ""), ("RUST_LOG", "off")], IN_MEMORY).stop();
    let mut command = std::process::Command::new(binary());
    command.args(["-p", "0"]).args(IN_MEMORY).env("WEIR_LOG", "inof").current_dir(home.path());
    let output = command.output().expect("weir runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("WEIR_LOG is 'inof': 'inof' is no level"), "{said}");
}

/// One that is misspelt would set nothing, and nobody would know.
#[test]
fn a_variable_that_is_misspelt_is_told() {
    let home = Home::new();
    let given = [("WEIR_WEBSERVER_PROT", "9090"), ("WEIR_SECRET_X", "x"), ("WEIR_SITE", "2"), ("WEIR_SERVICE_HOST", "10.0.0.1")];
    home.write("my.conf", "weir.workers = ${?WEIR_SITE}");
    let weir = home.start_with(&given, &["-Dconfig.file=my.conf", IN_MEMORY[0]]);
    let log = weir.log();
    assert!(log.contains("WEIR_WEBSERVER_PROT sets nothing") && log.contains("did you mean `WEIR_WEBSERVER_PORT`?"), "{log}");
    for (read, _) in &given[1..] {
        assert!(!log.contains(read), "{read} is not told: {log}");
    }
    let config = std::process::Command::new(binary()).arg("config").envs(given).output().expect("weir runs");
    let said = String::from_utf8_lossy(&config.stderr);
    assert!(config.status.success() && said.contains("WEIR_WEBSERVER_PROT sets nothing"), "{said}");
}

#[test]
fn it_ends_when_asked_over_http() {
    takes_at_most("an idle weir's end", END_MAX, || {
        let weir = Home::new().start(IN_MEMORY);
        let began = Instant::now();
        weir.send("POST", "/api/v1/admin/shutdown", &[], b"").expect(202);
        let (status, log) = weir.wait_end(STOP_MAX);
        assert!(status.success(), "{status}: {log}");
        began.elapsed()
    });
}

#[test]
fn a_stop_hands_in_what_was_read_and_delivers_what_was_found() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.should-resume-ingest=true"]);
    standing(&weir, "all", "MATCH (n) WHERE n.i IS NOT NULL RETURN DISTINCT id(n) AS id", "out.jsonl");
    let numbers = json!({"type": "NumberIteratorIngest", "format": {"type": "CypherLine",
        "query": "MATCH (n) WHERE id(n) = idFrom(toInteger($that)) SET n.i = toInteger($that)"}});
    weir.post("/api/v1/ingest/numbers", &numbers).expect(200);
    wait_until("some results are written", SOON, || fs::metadata(home.file("out.jsonl")).is_ok_and(|file| file.len() > 1000));
    weir.stop();
    let lines = home.read("out.jsonl").lines().count();
    // Without resumption nothing is added, and what is there can be compared.
    let weir = home.start(&[]);
    assert_eq!(weir.rows("MATCH (n) WHERE n.i IS NOT NULL RETURN count(n), max(n.i)"), [json!([lines, lines - 1])]);
    assert_eq!(weir.get("/api/v1/ingest/numbers").expect(200).json()["status"], "Restored");
    assert_eq!(home.read("out.jsonl").lines().count(), lines);
    // It can be started by hand, and goes on where it stood.
    weir.put("/api/v1/ingest/numbers/start").expect(200);
    wait_until("the stream goes on", SOON, || {
        weir.rows("MATCH (n) WHERE n.i IS NOT NULL RETURN count(n)")[0][0].as_u64() > Some(lines as u64)
    });
    weir.delete("/api/v1/ingest/numbers").expect(200);
    weir.catch_up();
    let rows = weir.rows("MATCH (n) WHERE n.i IS NOT NULL RETURN count(n), max(n.i)");
    assert_eq!(rows[0][0].as_u64(), rows[0][1].as_u64().map(|most| most + 1), "a number was left out");
}

#[test]
fn what_cannot_start_says_why_and_what_to_do() {
    let home = Home::new();
    home.write("typo.conf", "weir { webserver { prot = 9090 } }");
    home.write("broken.conf", "weir { webserver { ");
    home.write("recipe.yaml", "title: a recipe without a version\n");
    home.write("rootless.conf", "wier { webserver.port = 9090 }");
    home.write("flat.conf", "weir.webserver = 9090");
    home.write(
        "misspelt.yaml",
        "version: 2\ntitle: t\ningestStreams:\n  - {name: a b, source: {type: NumberIterator, bogus: 1}, query: RETURN 1, transform: x}\n",
    );
    home.write("values.yaml", "version: 1\ntitle: t\ningestStreams:\n  - type: FileIngest\n    path: $given\n");
    let running = home.start(&[]);
    let port = format!("-Dweir.webserver.port={}", running.address().port());
    let refused: &[(&[&str], i32, &[&str])] = &[
        (&[&port, "-Dweir.store.type=in-memory"], 1, &["the port is in use", "--port"]),
        (&["-p", "0", "-Dweir.store.filepath=data"], 1, &["data", "weir"]),
        (&["-Dweir.webserver.prot=1"], 2, &["webserver.prot", "webserver.port"]),
        (&["-Dquine.webserver.port=http"], 2, &["webserver.port", "http"]),
        (&["-Dweir.store.type=cassandra"], 2, &["cassandra", "rocks-db"]),
        (&["typo.conf"], 2, &["typo.conf", "webserver.prot"]),
        (&["broken.conf"], 2, &["broken.conf"]),
        (&["absent.conf"], 2, &["absent.conf"]),
        (&["rootless.conf"], 2, &["rootless.conf", "'wier' is no root", "'weir'"]),
        (&["rootless.conf", "-p", "0", "-Dweir.store.type=in-memory"], 2, &["rootless.conf", "'wier' is no root", "'weir'"]),
        (&["flat.conf", "-p", "0", "-Dweir.store.type=in-memory"], 2, &["flat.conf", "'weir.webserver' has keys below it"]),
        (&["-Dweir.store.filepath="], 2, &["weir.store.filepath: the path is empty"]),
        (&["-r", "misspelt.yaml"], 2, &[".source.bogus", ".transform", "'a b' is no name"]),
        (&["-r", "absent.yaml"], 2, &["absent.yaml"]),
        (&["-r", "http://127.0.0.1:1/recipe.yaml"], 1, &["http://127.0.0.1:1/recipe.yaml cannot be read"]),
        (&["-r", "no-such-recipe"], 2, &["no-such-recipe"]),
        (&["-r", "recipe.yaml"], 2, &["'version'"]),
        (&["-r", "values.yaml", "-x", "other=1"], 2, &["given", "--recipe-value"]),
        (&["--no-such-option"], 2, &["--no-such-option"]),
        (&["-Dno-equals-sign"], 2, &["no-equals-sign"]),
        (&["improt", "graph.jsonl"], 2, &["'improt' is neither a command nor a file", "did you mean `import`?"]),
        (&["-Dweir.workers=1", "shell"], 2, &["'-D <KEY=VALUE>' has no effect on `weir shell`"]),
        (&["check", "-r", "recipe.yaml"], 2, &["'-r'"]),
        (&["export", "graph.jsonl", "-p", "1"], 2, &["--url"]),
        (&["shell", "-p", "1", "--url", "http://localhost"], 2, &["--url", "leave out one"]),
        (&["typo.conf", "check"], 2, &["typo.conf", "webserver.prot"]),
        (&["demo", "--rate", "0"], 2, &["--rate", "from 1 to"]),
        (&["recipe.yaml"], 2, &["'recipe.yaml' is a recipe", "`weir -r recipe.yaml`"]),
        (&["fraud-ring"], 2, &["`weir -r fraud-ring`"]),
    ];
    for (arguments, code, texts) in refused {
        let (status, said) = home.spawn_bare(arguments).wait_end(STOP_MAX);
        assert_eq!(status.code(), Some(*code), "{arguments:?}: {said}");
        for text in *texts {
            assert!(said.contains(text), "{arguments:?} should have named {text}: {said}");
        }
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
    // The one that was there is as it was.
    assert_eq!(running.rows("RETURN 1"), [json!([1])]);
    running.stop();
}

#[test]
fn all_three_roots_and_a_file_set_the_same_keys() {
    for root in ["weir", "service", "quine"] {
        let home = Home::new();
        home.write("my.conf", format!("{root} {{ webserver {{ address = 127.0.0.1, port = 0 }}\n store.type = in-memory }}"));
        let mut weir = home.spawn_bare(&["my.conf", &format!("-D{root}.timeout=7 s")]);
        weir.wait_ready();
        let config = weir.get("/api/v1/admin/config").expect(200).json();
        assert_eq!(
            (&config["quine"]["store"]["type"], &config["webserver"]["address"]),
            (&json!("in-memory"), &json!("127.0.0.1")),
            "{config}"
        );
        assert!(config["quine"]["timeout"].as_str().is_some_and(|text| text.starts_with('7')), "{config}");
        weir.stop();
    }
}

#[test]
fn a_recipe_runs_and_leaves_nothing() {
    let home = Home::new();
    home.write("in.jsonl", "{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}\n");
    home.write(
        "recipe.yaml",
        "version: 1
title: three
contributor: nobody
summary: three nodes
description: three nodes
ingestStreams:
  - type: FileIngest
    path: $in_file
    format:
      type: CypherJson
      query: MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n:Seen
standingQueries:
  - pattern:
      type: Cypher
      query: MATCH (n:Seen) RETURN DISTINCT id(n) AS id
    outputs:
      out:
        type: WriteToFile
        path: out.jsonl
nodeAppearances: []
quickQueries: []
sampleQueries: []
",
    );
    let weir = home.start(&["-r", "recipe.yaml", "-x", "in_file=in.jsonl"]);
    wait_until("the results are written", SOON, || {
        fs::read_to_string(home.file("out.jsonl")).is_ok_and(|text| text.lines().count() == 3)
    });
    assert_eq!(weir.rows("MATCH (n) RETURN n.id AS id ORDER BY id"), [json!([1]), json!([2]), json!([3])]);
    let config = weir.get("/api/v1/admin/config").expect(200).json();
    let store = config["quine"]["store"]["filepath"].as_str().expect("a place");
    assert!(weir.log().contains(store) && store.ends_with("/graph.weir-data"), "{store}");
    weir.stop();
    assert!(!home.file("data").exists(), "a recipe has a store of its own");
}

// ---- queries

#[test]
fn queries_answer_tables_nodes_and_edges() {
    let weir = Home::new().start(IN_MEMORY);
    let (ann, bo) = ("3684d3cf-b62e-3437-8fba-25032b2a8a22", "ec557105-215e-34bc-86ea-2fcb95f50d66");
    let answer = weir.query(
        "MATCH (a), (b) WHERE id(a) = idFrom('wire', 1) AND id(b) = idFrom('wire', 2)
         SET a:Person, a.name = 'Ann', a.n = 1, b:Person:Admin, b.name = 'Bo'
         CREATE (a)-[:KNOWS]->(b)",
    );
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"columns":[],"results":[]}"#));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    // A client's next read sees its last write, in every form.
    let rows = weir.rows_with(
        "MATCH (a)-[r]->(b) WHERE a.name = $name RETURN a.n + $more, type(r), strId(b)",
        json!({"name": "Ann", "more": 1.5}),
    );
    assert_eq!(rows, [json!([2.5, "KNOWS", bo])]);
    let nodes =
        weir.send("POST", "/api/v1/query/cypher/nodes", &[("Content-Type", "text/plain")], b"MATCH (n) RETURN n ORDER BY n.name");
    assert_eq!(
        nodes.expect(200).json(),
        json!([
            {"id": ann, "hostIndex": 0, "label": "Person", "properties": {"n": 1, "name": "Ann"}},
            {"id": bo, "hostIndex": 0, "label": "Admin:Person", "properties": {"name": "Bo"}},
        ])
    );
    let edges = weir.post("/api/v1/query/cypher/edges", &json!({"text": "MATCH ()-[r]->() RETURN r", "parameters": {}}));
    assert_eq!(edges.expect(200).json(), json!([{"from": ann, "edgeType": "KNOWS", "to": bo, "isDirected": true}]));
    let yaml = b"text: RETURN $x AS x\nparameters: {x: [1, null, {a: b}]}\n";
    let yaml = weir.send("POST", "/api/v1/query/cypher", &[("Content-Type", "application/yaml")], yaml);
    assert_eq!(yaml.expect(200).json(), json!({"columns": ["x"], "results": [[[1, null, {"a": "b"}]]]}));
}

#[test]
fn procedures_are_called_over_http() {
    let home = Home::new();
    home.write("in.csv", "name;age\n\"Ann; B\";30\nBo;\n");
    home.write("in.jsonl", "{\"x\": 1}\n\n{\"x\": [2]}\n");
    let weir = home.start(IN_MEMORY);
    assert_eq!(
        weir.rows("UNWIND [1, 2] AS i CALL int.add(idFrom(i), 'n', i) YIELD result RETURN result"),
        [json!([1]), json!([2])]
    );
    assert_eq!(weir.rows("CALL int.add(idFrom(2), 'n')"), [json!([3])]);
    assert_eq!(weir.rows_with("CALL cypher.doIt", json!({"cypher": "RETURN 1 AS x"})), [json!([{"x": 1}])]);
    let listed = weir.query("SHOW PROCEDURES").expect(200).json();
    assert_eq!(listed["columns"], json!(["name", "signature", "description", "mode"]));
    let names: Vec<&str> = listed["results"].as_array().expect("rows").iter().filter_map(|row| row[0].as_str()).collect();
    for name in ["loadJsonLines", "parseProtobuf", "recentNodes", "standing.wiretap", "toProtobuf"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(names.len() > 30, "{names:?}");

    let csv = "LOAD CSV WITH HEADERS FROM 'in.csv' AS row FIELDTERMINATOR ';' RETURN row.name, row.age";
    assert_eq!(weir.rows(csv), [json!(["Ann; B", "30"]), json!(["Bo", ""])]);
    assert_eq!(weir.rows("LOAD CSV FROM 'in.csv' AS row RETURN size(row) LIMIT 1"), [json!([1])]);
    assert_eq!(weir.rows("CALL loadJsonLines('in.jsonl') YIELD value RETURN value.x"), [json!([1]), json!([[2]])]);
    for query in ["LOAD CSV FROM '/etc/passwd' AS row RETURN row", "CALL loadJsonLines('file:///etc/passwd')"] {
        let refused = weir.query(query).expect(400).text();
        assert!(refused.contains("allowed-directories"), "{refused}");
    }
    weir.query("CALL loadJsonLines('http://127.0.0.1:1/x')").expect(400);

    home.write("shapes.desc", include_bytes!("../../model/src/protobuf/vectors/all.desc"));
    let there_and_back = "CALL toProtobuf({name: 'x', more: [{number: 7}], nobody: 1}, 'shapes.desc', 'shapes.Tree') YIELD protoBytes \
                          CALL parseProtobuf(protoBytes, 'shapes.desc', 'shapes.Tree') YIELD value RETURN protoBytes, value";
    assert_eq!(weir.rows(there_and_back), [json!(["CgF4GgIgBw==", {"name": "x", "more": [{"more": [], "number": 7}]}])]);
    let not_fitting = "CALL toProtobuf({number: 'x'}, 'shapes.desc', 'shapes.Tree') YIELD protoBytes \
                       CALL parseProtobuf(bytes('ff'), 'shapes.desc', 'shapes.Tree') YIELD value RETURN protoBytes, value";
    assert_eq!(weir.rows(not_fitting), [json!([null, null])]);
    for (query, expected) in [
        ("CALL toProtobuf({}, 'shapes.desc', 'Tree')", "`Tree` may be any of shapes.Tree, fresh.Tree"),
        ("CALL toProtobuf({}, 'in.csv', 'Tree')", "not a descriptor set"),
        ("CALL parseProtobuf(bytes(''), '/etc/passwd', 'Tree')", "allowed-directories"),
    ] {
        let refused = weir.query(query).expect(400).text();
        assert!(refused.contains(expected), "{refused}");
    }
    let wrong = weir.query("CALL nope()").expect(400).json();
    assert_eq!(wrong, json!(["CompileError at 1.6 Failed to resolve procedure `nope`\n\nCALL nope()\n     ^"]));
    let wrong = weir.query("CALL standing.wiretap({name: 'nope'})").expect(400).json();
    assert_eq!(wrong, json!(["RuntimeError Cannot find standing query with name `nope`"]));
    assert_eq!(
        weir.query("CALL standing.wiretap({})").expect(400).json(),
        json!(["RuntimeError One of `name` or `id` needs to be specified"])
    );
}

#[test]
fn explain_shows_the_plan_and_profile_what_it_did() {
    let weir = Home::new().start(IN_MEMORY);
    weir.query("UNWIND range(1, 10) AS i CREATE (:N {i: i})").expect(200);
    let plan = weir.query("explain MATCH (n:N) RETURN count(n) AS c").expect(200).json()["results"][0][0].clone();
    assert_eq!((&plan["isReadOnly"], &plan["canContainAllNodeScan"]), (&json!(true), &json!(true)), "{plan}");
    assert!(plan["args"]["plan"].as_str().is_some_and(|text| text.contains("scan 0")), "{plan}");
    let plan = weir.query("PROFILE MATCH (n:N) CALL { WITH n RETURN n.i AS i } RETURN sum(i) AS s").expect(200).json();
    assert_eq!(plan["columns"], json!(["plan"]));
    let root = &plan["results"][0][0];
    let (subquery, scan) = (&root["children"][0], &root["children"][0]["children"][0]);
    assert_eq!((&root["operatorType"], &root["rows"]), (&json!("Aggregate"), &json!(1)), "{root}");
    assert_eq!((&subquery["operatorType"], &subquery["rows"]), (&json!("Subquery"), &json!(10)), "{root}");
    assert_eq!((&scan["operatorType"], &scan["rows"], &scan["factsRead"]), (&json!("Match"), &json!(10), &json!(10)), "{root}");
    assert_eq!(subquery["children"][1]["factsRead"], 10, "{root}");
    assert!(root["args"]["plan"].as_str().is_some_and(|text| text.contains("-- 10 rows, 10 facts, ")), "{root}");
    // What it profiles has happened.
    weir.query("PROFILE CREATE (:Made)").expect(200);
    assert_eq!(weir.rows("MATCH (n:Made) RETURN count(n)"), [json!([1])]);
    let wrong = weir.query("PROFILE RETURN m").expect(400).text();
    assert!(wrong.contains("CompileError at 1.16 "), "{wrong}");
}

/// Milliseconds since 1970, once the one now running is over.
fn moment() -> u128 {
    let now = || std::time::UNIX_EPOCH.elapsed().expect("a clock").as_millis();
    let at = now();
    while now() == at {
        std::thread::sleep(Duration::from_micros(100));
    }
    at
}

#[test]
fn every_query_route_reads_the_past() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    let before = moment();
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') SET a:Past, a.v = 'old' CREATE (a)-[:KNEW]->(b)");
    let then = moment();
    weir.rows("MATCH (a)-[r:KNEW]->(b) WHERE id(a) = idFrom('a') SET a.v = 'new' REMOVE a:Past DELETE r");
    let after = moment();
    for restarts in 0..2 {
        let ask = |route: &str, at: u128, query: &str| {
            let target = format!("/api/v1/query/cypher{route}?at-time={at}");
            weir.send("POST", &target, &[("Content-Type", "text/plain")], query.as_bytes())
        };
        let value = "MATCH (n) WHERE id(n) = idFrom('a') RETURN n.v, labels(n), size([(n)-->(m) | m])";
        let rows = |at: u128| ask("", at, value).expect(200).json()["results"].clone();
        assert_eq!(rows(before), json!([[null, [], 0]]), "{restarts}");
        assert_eq!(rows(then), json!([["old", ["Past"], 1]]), "{restarts}");
        assert_eq!(rows(after), json!([["new", [], 0]]), "{restarts}");
        assert_eq!(rows(1000), json!([[null, [], 0]]), "{restarts}");
        let count = |at: u128| ask("", at, "MATCH (n:Past) RETURN count(n)").expect(200).json()["results"][0][0].clone();
        assert_eq!([count(before), count(then), count(after)], [json!(0), json!(1), json!(0)]);
        let drawn = |route: &str, at: u128, query: &str| ask(route, at, query).expect(200).json().as_array().map(Vec::len);
        let by_label = "MATCH (n:Past) RETURN n";
        assert_eq!((drawn("/nodes", then, by_label), drawn("/nodes", after, by_label)), (Some(1), Some(0)));
        let edges = "MATCH ()-[r:KNEW]->() RETURN r";
        assert_eq!((drawn("/edges", then, edges), drawn("/edges", after, edges)), (Some(1), Some(0)));
        let json_body = br#"{"text": "MATCH (n) WHERE id(n) = idFrom($x) RETURN n.v", "parameters": {"x": "a"}}"#;
        let target = format!("/api/v1/query/cypher?at-time={then}");
        let answer = weir.send("POST", &target, &[("Content-Type", "application/json")], json_body).expect(200);
        assert_eq!(answer.json()["results"], json!([["old"]]));
        let refused = ask("", then, "CREATE (:New)").expect(400).text();
        assert!(refused.contains("past time"), "{refused}");
        if restarts == 0 {
            weir.kill();
            weir = home.start(&[]);
        }
    }
}

/// Browsers open connections that they may need later.
#[test]
fn a_connection_without_a_word_holds_up_no_stop() {
    takes_at_most("weir's stop", Duration::from_secs(5), || {
        let weir = Home::new().start(&[]);
        let silent = TcpStream::connect(weir.address()).expect("it listens");
        weir.get("/api/v1/admin/liveness").expect(204);
        let began = Instant::now();
        weir.stop();
        let took = began.elapsed();
        drop(silent);
        took
    });
}

/// Clients that keep their connection send `{}` to routes that need no body, and its bytes may come after the answer could.
#[test]
fn a_body_that_nobody_reads_leaves_the_connection_as_it_is() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let connect = || {
        let stream = TcpStream::connect(weir.address()).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("a limit of time");
        stream.set_nodelay(true).expect("small packets");
        stream
    };
    let mut stream = connect();
    let mut answer_to = |request: &str, length: usize, body: &[u8]| {
        let head = format!("{request}\r\nHost: weir\r\nContent-Length: {length}\r\n\r\n");
        let since = Instant::now();
        loop {
            let began = Instant::now();
            assert!(since.elapsed() < SOON, "the machine is too slow to send a body in time");
            stream.write_all(head.as_bytes()).expect("the head is sent");
            thread::sleep(Duration::from_millis(100));
            let sent = stream.write_all(body);
            // Weir waits a second for it. Where a busy machine let it come later, that is another case.
            if began.elapsed() < Duration::from_millis(500) {
                sent.expect("the body is sent");
                break;
            }
            stream = connect();
        }
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{request}: {error}"));
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        stream.read_exact(&mut vec![0; length]).expect("the body of the answer");
        head
    };
    for (request, status) in [
        ("POST /api/v2/system/nodes/3684d3cf-b62e-3437-8fba-25032b2a8a22:requestSleep HTTP/1.1", 202),
        ("PUT /api/v1/ingest/x/pause HTTP/1.1", 404),
        ("POST /api/v2/nowhere HTTP/1.1", 404),
        ("POST /api/v1/query/cypher HTTP/1.1\r\nContent-Type: image/png", 415),
        ("GET /api/v2/graph/quine/ingests/a:b HTTP/1.1", 400),
    ] {
        let head = answer_to(request, 2, b"{}");
        assert!(head.starts_with(&format!("http/1.1 {status} ")) && !head.contains("connection: close"), "{request}: {head}");
    }
    // Of one that is too long to be waited for it is said that the connection ends.
    let head = answer_to("PUT /api/v1/ingest/x/pause HTTP/1.1", 1 << 20, b"");
    assert!(head.starts_with("http/1.1 404 ") && head.contains("connection: close"), "{head}");
}

#[test]
fn what_is_purged_is_in_no_past() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b') SET a:Past, a.v = 'old', b.v = 1 CREATE (b)-[:KNEW]->(a)");
    let then = moment();
    weir.rows("MATCH (a) WHERE id(a) = idFrom('a') SET a.v = 'older'");
    // One that fails in the end has erased nothing.
    assert_eq!(weir.query("CALL purgeNode(idFrom('a')) UNWIND [1, 0] AS x RETURN 1 / x").status, 400);
    let past = |weir: &Weir| {
        let query = "MATCH (a), (b) WHERE id(a) = idFrom('a') AND id(b) = idFrom('b')
                     RETURN a.v, labels(a), b.v, size([(b)-[:KNEW]->(m) | m]) AS edges";
        let target = format!("/api/v1/query/cypher?at-time={then}");
        let answer = weir.send("POST", &target, &[("Content-Type", "text/plain")], query.as_bytes());
        answer.expect(200).json()["results"][0].clone()
    };
    assert_eq!(past(&weir), json!(["old", ["Past"], 1, 1]));
    weir.query("CALL purgeNode(idFrom('a'))").expect(200);
    let changes = "CALL history.nodeChanges(idFrom('a')) YIELD kind RETURN count(*)";
    for restarts in 0..2 {
        assert_eq!(past(&weir), json!([null, [], 1, 0]), "{restarts}");
        assert_eq!(weir.rows(changes), [json!([0])], "{restarts}");
        if restarts == 0 {
            weir.kill();
            weir = home.start(&[]);
        }
    }
    weir.rows("MATCH (a) WHERE id(a) = idFrom('a') SET a.v = 'new'");
    assert_eq!(past(&weir), json!([null, [], 1, 0]));
    assert_eq!(weir.rows(changes), [json!([1])]);
    weir.stop();
}

/// Time stands still for the graph at its last change. What had just been written was told to be in the future.
#[test]
fn where_the_clock_was_set_back_what_was_just_written_can_be_asked_for() {
    let home = Home::new();
    home.start(&[]).stop();
    let ahead = moment() as u64 + 3_600_000;
    {
        // As if the clock had been there.
        let store = RocksDb::open(RocksDbOptions::new(home.file("data"))).expect("a store that nobody uses");
        let (graph, first) = (store.graphs().expect("its graphs")[0].id, Tick::at_millis(ahead));
        let (sources, delivered) = (Vec::new(), Vec::new());
        let entry = Entry { graph, first, upper: first.next(), mutations: Arc::default(), sources, delivered };
        let mut bytes = Vec::new();
        encode(&entry, Tick::ZERO, &mut bytes).expect("an entry");
        let symbols = NewSymbols { first: store.symbols().expect("its symbols").len(), names: &[] };
        store.append(&[EncodedEntry { graph, first, bytes: &bytes }], symbols, false).expect("it takes it");
    }
    let weir = home.start(&[]);
    let count = "MATCH (n:New) RETURN count(n)";
    let ask = |at: u64| {
        let target = format!("/api/v1/query/cypher?at-time={at}");
        weir.send("POST", &target, &[("Content-Type", "text/plain")], count.as_bytes())
    };
    weir.rows("CREATE (:New)");
    assert_eq!(ask(ahead).expect(200).json()["results"], json!([[1]]));
    weir.rows("CREATE (:New)");
    assert_eq!(ask(ahead).expect(200).json()["results"], json!([[1]]), "it stays");
    let mut socket = Socket::open(&weir, "/api/v1/query").expect("a socket");
    let run = |at: u64| json!({"type": "RunQuery", "queryId": 1, "query": count, "sort": "TextSort", "parameters": {}, "language": "Cypher", "atTime": at});
    socket.send(&run(ahead).to_string());
    assert_eq!(socket.expect()["type"], "QueryStarted");
    assert_eq!(socket.expect()["results"], json!([[1]]));
    assert_eq!(socket.expect()["type"], "QueryFinished");
    // The time is that of the last change.
    let refusal = format!("must be less than system time {}", ahead + 1);
    socket.send(&run(ahead + 2).to_string());
    let refused = socket.expect();
    assert!(refused["error"].as_str().is_some_and(|error| error.contains(&refusal)), "{refused}");
    let refused = ask(ahead + 2).expect(400).text();
    assert!(refused.contains(&refusal), "{refused}");
    weir.stop();
}

#[test]
fn the_past_ends_where_it_is_told() {
    let weir = Home::new().start(&["-Dweir.history=1 h"]);
    let query = b"RETURN 1";
    let answer = weir.send("POST", "/api/v1/query/cypher?at-time=1000", &[("Content-Type", "text/plain")], query).expect(400);
    assert!(answer.text().contains("history begins at"), "{}", answer.shown());
    let weir = Home::new().start(&["-Dweir.persistence.journal-enabled=false"]);
    let answer = weir.send("POST", "/api/v1/query/cypher?at-time=1000", &[("Content-Type", "text/plain")], query).expect(400);
    assert!(answer.text().contains("journal"), "{}", answer.shown());
}

/// What is known of pages and documents without having them.
#[test]
fn pages_and_documents_are_asked_for_without_their_bodies() {
    let weir = Home::new().start(IN_MEMORY);
    for path in ["/", "/docs", "/v1docs", "/docs/openapi.json", "/openapi.json", "/metrics", "/live/state", "/live/events"] {
        let head = weir.send("HEAD", path, &[], b"").expect(200);
        let length = head.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let mut answer = Vec::new();
        let mut stream = client::open(weir.address(), "HEAD", path, &[], b"").expect("weir can be reached");
        stream.read_to_end(&mut answer).expect("weir closes");
        assert!(answer.ends_with(b"\r\n\r\n"), "{path}: {}", String::from_utf8_lossy(&answer));
        if path == "/live/events" {
            assert_eq!((head.header("content-type"), length), (Some("text/event-stream"), None));
        } else {
            let whole = weir.get(path).expect(200);
            assert_eq!(head.header("content-type"), whole.header("content-type"), "{path}");
            // What has figures in it has others the next time.
            let is_fixed = !["/metrics", "/live/state"].contains(&path);
            assert!(length.is_some_and(|length| length > 0 && (!is_fixed || length == whole.body.len())), "{path}: {length:?}");
        }
        for method in ["OPTIONS", "DELETE"] {
            let refused = weir.send(method, path, &[], b"");
            // As the reference has it, a method is wrong where one asks for methods, and elsewhere nothing is there.
            let expected = if method == "OPTIONS" { (405, Some("GET, HEAD")) } else { (404, None) };
            assert_eq!((refused.status, refused.header("allow")), expected, "{method} {path}");
        }
    }
    weir.send("HEAD", "/dashboard", &[], b"").expect(307);
    weir.send("HEAD", "/nothing/here", &[], b"").expect(404);
    let other = weir.send("HEAD", "/api/v2/openapi.json", &[], b"").expect(405);
    assert_eq!(other.header("allow"), Some("GET"));
}

/// It was taken, and tried for ever, or failed for every record.
#[test]
fn commands_are_no_queries_of_streams_and_outputs() {
    let weir = Home::new().start(IN_MEMORY);
    let pattern = json!({"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n:N) RETURN n.x AS x"});
    let (once, indexes) = ("run that once", weir.rows("SHOW INDEXES"));
    for command in [
        "CREATE INDEX names FOR (n:P) ON (n.name)",
        "DROP INDEX names IF EXISTS",
        "SHOW INDEXES",
        "CREATE EXPIRY FOR (n:Session) ON n.seen AFTER duration('PT30M')",
    ] {
        let stream = json!({"name": "s", "source": {"type": "NumberIterator", "limit": 1}, "query": command});
        let refused = weir.post("/api/v2/graph/quine/ingests", &stream).expect(400).text();
        assert!(refused.contains("The query of an ingest stream") && refused.contains(once), "{command}: {refused}");
        weir.get("/api/v1/ingest/s").expect(404);
        let output = json!({"type": "CypherQuery", "query": command});
        let query = json!({"type": "CypherQuery", "query": "RETURN 1 AS x", "andThen": output});
        for output in [&output, &query] {
            let body = json!({"pattern": pattern, "outputs": {"o": output}});
            let refused = weir.post("/api/v1/query/standing/q", &body).expect(400).text();
            assert!(refused.contains("The query of an output") && refused.contains(once), "{command}: {refused}");
        }
        weir.get("/api/v1/query/standing/q").expect(404);
        let output = json!({"name": "o", "resultEnrichment": {"query": command}, "destinations": [{"type": "Drop"}]});
        let body = json!({"name": "q", "pattern": {"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": pattern["query"]}, "outputs": [output]});
        let refused = weir.post("/api/v2/graph/quine/standingQueries", &body).expect(400).text();
        assert!(refused.contains("The query of an output") && refused.contains(once), "{command}: {refused}");
    }
    assert_eq!(weir.rows("SHOW INDEXES"), indexes);
}

/// As in Neo4j.
#[test]
fn what_is_shown_of_indexes_and_expiry_is_chosen_from() {
    let weir = Home::new().start(IN_MEMORY);
    weir.query("CREATE INDEX names FOR (n:P) ON (n.name)").expect(200);
    weir.query("CREATE LOOKUP INDEX people FOR (n:P)").expect(200);
    weir.query("CREATE EXPIRY seen FOR (n:S) ON n.seen AFTER duration('PT30M')").expect(200);
    let names = [json!(["names"])];
    assert_eq!(weir.rows("SHOW INDEXES YIELD name, type WHERE type = 'RANGE' RETURN name"), names);
    let named = weir.query("SHOW INDEXES YIELD name, type AS sort").expect(200).json();
    assert_eq!(named, json!({"columns": ["name", "sort"], "results": [["names", "RANGE"], ["people", "LOOKUP"]]}));
    assert_eq!(weir.query("SHOW INDEXES YIELD *").expect(200).json(), weir.query("SHOW INDEXES").expect(200).json());
    assert_eq!(weir.rows("SHOW INDEX WHERE property IS NULL"), [json!(["people", "ONLINE", "LOOKUP", "P", null, 0])]);
    assert_eq!(weir.rows("SHOW INDEXES YIELD * RETURN name ORDER BY name DESC LIMIT 1"), [json!(["people"])]);
    assert_eq!(weir.rows("SHOW EXPIRIES YIELD name, on AS key WHERE key = 'seen' RETURN name, key"), [json!(["seen", "seen"])]);
    assert_eq!(weir.rows("SHOW EXPIRIES WHERE label = 'P'"), Vec::<Json>::new());
    weir.query("SHOW INDEXES YIELD name WHERE name = 'names' CREATE (:Kept {name: name})").expect(200);
    assert_eq!(weir.rows("MATCH (n:Kept) RETURN n.name"), names);
    let unknown = weir.query("SHOW INDEXES YIELD nope").expect(400).text();
    assert!(unknown.contains("nope") && unknown.contains("entries"), "{unknown}");
}

/// As the reference has it.
#[test]
fn a_stream_that_completed_before_a_restart_is_called_so() {
    let home = Home::new();
    let mut weir = home.start(&[]);
    weir.post("/api/v1/ingest/one", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
    for ended in ["failed", "completed"] {
        weir.wait_ingest("one", "Completed", SOON);
        for (path, verb) in [("start", "resume"), ("pause", "pause")] {
            let refused = weir.put(&format!("/api/v1/ingest/one/{path}")).expect(400);
            assert_eq!(refused.json(), json!([format!("Cannot {verb} a {ended} ingest.")]));
        }
        weir.stop();
        weir = home.start(&[]);
    }
    weir.stop();
}

/// What is answered to what is wrong: method, target, content type, body, status, content type, body.
type Wrong = (&'static str, &'static str, &'static str, &'static str, u16, Option<&'static str>, &'static str);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const PLAIN: Option<&str> = Some("text/plain; charset=UTF-8");
const NOT_FOUND: &str = "The requested resource could not be found.";
const CYPHER: &str = "/api/v1/query/cypher";
const S: &str = "/api/v1/query/standing/new";
const I: &str = "/api/v1/ingest/new";
const SQ: &str = r#""pattern":{"type":"Cypher","query":"MATCH (n) WHERE n.sq = 1 RETURN DISTINCT id(n) AS id"}"#;

/// As the reference service answers. Where the body ends in `…` only what is before it counts.
const WRONG: &[Wrong] = &[
    ("GET", "/api/v1", "", "", 404, PLAIN, NOT_FOUND),
    ("GET", "/api/v1/nope", "", "", 404, PLAIN, NOT_FOUND),
    ("GET", "/api/v1//admin/build-info", "", "", 404, PLAIN, NOT_FOUND),
    ("POST", "/api/v1/admin/liveness", "", "", 404, PLAIN, NOT_FOUND),
    ("DELETE", "/", "", "", 404, PLAIN, NOT_FOUND),
    ("GET", CYPHER, "", "", 404, PLAIN, NOT_FOUND),
    ("OPTIONS", CYPHER, "", "", 405, PLAIN, "HTTP method not allowed, supported methods: POST, GET, PUT, DELETE"),
    ("HEAD", "/api/v1/admin/build-info", "", "", 405, PLAIN, ""),
    (
        "GET",
        "/api/v1/admin/build-info/",
        "",
        "",
        308,
        Some("text/html; charset=UTF-8"),
        "The request, and all future requests should be repeated using <a href=\"/api/v1/admin/build-info\">this URI</a>.",
    ),
    // Bodies.
    (
        "POST",
        CYPHER,
        "",
        "RETURN 1",
        415,
        PLAIN,
        "The request's Content-Type [application/octet-stream] is not supported. Expected:\napplication/yaml or application/json or text/plain",
    ),
    (
        "POST",
        CYPHER,
        "text/yaml",
        "text: RETURN 1",
        415,
        PLAIN,
        "The request's Content-Type [text/yaml] is not supported. Expected:\napplication/yaml or application/json or text/plain",
    ),
    ("POST", I, TEXT, "{}", 415, PLAIN, "The request's Content-Type [text/plain…"),
    ("POST", CYPHER, JSON, "{\"text\":", 400, Some(JSON), r#"["ParsingFailure: exhausted input"]"#),
    ("POST", CYPHER, JSON, "", 400, Some(JSON), r#"["ParsingFailure: exhausted input"]"#),
    ("POST", CYPHER, JSON, "{\"parameters\": {}}", 400, Some(JSON), r#"["DecodingFailure at .text: Missing required field"]"#),
    (
        "POST",
        CYPHER,
        JSON,
        r#"{"text": "RETURN 1", "parameters": [1]}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .parameters: Got value '[1]' with wrong type, expecting object"]"#,
    ),
    (
        "POST",
        CYPHER,
        JSON,
        "[]",
        400,
        Some(JSON),
        r#"["DecodingFailure at .text: Missing required field","DecodingFailure at .parameters: Missing required field","DecodingFailure at : Invalid JSON object: []"]"#,
    ),
    // Parameters.
    (
        "POST",
        "/api/v1/query/cypher?at-time=abc",
        TEXT,
        "RETURN 1",
        400,
        Some(JSON),
        r#"["Invalid integer value 'abc' for query parameter 'at-time'"]"#,
    ),
    (
        "POST",
        "/api/v1/query/cypher?at-time=99999999999999",
        TEXT,
        "RETURN 1",
        400,
        Some(JSON),
        r#"["Value 99999999999999 must be less than system time …"#,
    ),
    (
        "POST",
        "/api/v1/query/cypher?timeout=1.5",
        TEXT,
        "RETURN 1",
        400,
        Some(JSON),
        r#"["Invalid integer value '1.5' for query parameter 'timeout'"]"#,
    ),
    // Cypher.
    (
        "POST",
        CYPHER,
        TEXT,
        "RETURN $p",
        400,
        Some(JSON),
        r#"["CompileError at 1.8 Unknown parameter `p`\n\nRETURN $p\n       ^"]"#,
    ),
    ("POST", CYPHER, TEXT, "RETURN x", 400, Some(JSON), "[\"…"),
    ("POST", CYPHER, TEXT, "RETRUN 1", 400, Some(JSON), "[\"…"),
    ("POST", CYPHER, TEXT, "", 400, Some(JSON), "[\"…"),
    ("POST", CYPHER, TEXT, "RETURN 1 / 0", 400, Some(JSON), "[\"ArithmeticError …"),
    (
        "POST",
        "/api/v1/query/cypher/nodes",
        TEXT,
        "RETURN 1",
        400,
        Some(JSON),
        r#"["TypeMismatchError Expected type(s) Node but got value 1 of type Integer in node query return value"]"#,
    ),
    (
        "POST",
        "/api/v1/query/cypher/edges",
        TEXT,
        "RETURN 1",
        400,
        Some(JSON),
        r#"["TypeMismatchError Expected type(s) Relationship but got value 1 of type Integer in edge query return value"]"#,
    ),
    // Ingest streams.
    ("GET", "/api/v1/ingest/nope", "", "", 404, None, ""),
    ("DELETE", "/api/v1/ingest/nope", "", "", 404, None, ""),
    ("PUT", "/api/v1/ingest/nope/pause", "", "", 404, None, ""),
    ("PUT", "/api/v1/ingest/nope/start", "", "", 404, None, ""),
    ("POST", "/api/v1/ingest", JSON, "{}", 404, PLAIN, NOT_FOUND),
    ("POST", I, JSON, "{}", 400, Some(JSON), r#"["DecodingFailure at : Missing type discriminator field 'type'!"]"#),
    ("POST", I, JSON, r#"{"type": "Nope"}"#, 400, Some(JSON), r#"["DecodingFailure at : No decoder for discriminator 'Nope'!"]"#),
    ("POST", I, JSON, r#"{"type": "FileIngest"}"#, 400, Some(JSON), r#"["DecodingFailure at .path: Missing required field"]"#),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "FileIngest", "path": 5}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .path: Got value '5' with wrong type, expecting string"]"#,
    ),
    ("POST", I, JSON, r#"{"type": "FileIngest", "path": "no-such-file"}"#, 400, Some(JSON), "[\"…"),
    ("POST", I, JSON, r#"{"type": "FileIngest", "path": "/etc/passwd"}"#, 400, Some(JSON), "[\"…"),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "NumberIteratorIngest", "parallelism": "x"}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .parallelism: Int"]"#,
    ),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "NumberIteratorIngest", "ingestLimit": 1.5}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .ingestLimit: Long"]"#,
    ),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "NumberIteratorIngest", "format": {"type": "CypherLine"}}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .query: Missing required field"]"#,
    ),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "NumberIteratorIngest", "format": {"type": "CypherLine", "query": "RETURN ("}}"#,
        400,
        Some(JSON),
        "[\"…",
    ),
    (
        "POST",
        I,
        JSON,
        r#"{"type": "NumberIteratorIngest", "format": {"type": "CypherLine", "query": "RETURN $x"}}"#,
        400,
        Some(JSON),
        "[\"Unknown parameter `x`…",
    ),
    ("POST", I, JSON, "[]", 400, Some(JSON), r#"["DecodingFailure at : Got value '[]' with wrong type, expecting object"]"#),
    // Standing queries.
    ("GET", "/api/v1/query/standing/nope", "", "", 404, None, ""),
    ("DELETE", "/api/v1/query/standing/nope", "", "", 404, None, ""),
    ("POST", "/api/v1/query/standing/nope/output/o", JSON, r#"{"type": "Drop"}"#, 404, None, ""),
    ("DELETE", "/api/v1/query/standing/nope/output/o", "", "", 404, None, ""),
    ("POST", S, JSON, r#"{"outputs": {}}"#, 400, Some(JSON), r#"["DecodingFailure at .pattern: Missing required field"]"#),
    (
        "POST",
        S,
        JSON,
        r#"{"pattern": 5, "outputs": 5}"#,
        400,
        Some(JSON),
        r#"["DecodingFailure at .pattern: Got value '5' with wrong type, expecting object","DecodingFailure at .outputs: Got value '5' with wrong type, expecting object"]"#,
    ),
    (
        "POST",
        S,
        JSON,
        r#"{"pattern": {"type": "Cypher", "query": "MATCH (n"}, "outputs": {}}"#,
        400,
        Some(JSON),
        "[\"SyntaxError at 1.9 …",
    ),
    (
        "POST",
        S,
        JSON,
        r#"{"pattern": {"type": "Cypher", "query": "MATCH (n) RETURN id(n) AS id", "mode": "DistinctId"}, "outputs": {}}"#,
        400,
        Some(JSON),
        "[\"DistinctId Standing Queries must specify a `DISTINCT` keyword…",
    ),
    (
        "POST",
        "/api/v1/query/standing/control/propagate?include-sleeping=x",
        "",
        "",
        400,
        Some(JSON),
        r#"["Invalid boolean value 'x' for query parameter 'include-sleeping'"]"#,
    ),
];

#[test]
fn what_is_wrong_is_answered_as_clients_know_it() {
    let weir = Home::new().start(IN_MEMORY);
    let mut failures = Vec::new();
    for (method, target, content, body, status, content_type, expected) in WRONG {
        let headers: Vec<(&str, &str)> = Some(("Content-Type", *content)).filter(|_| !content.is_empty()).into_iter().collect();
        let answer = weir.send(method, target, &headers, body.as_bytes());
        let text = answer.text();
        let as_expected = expected.strip_suffix('…').map_or(text == *expected, |begin| text.starts_with(begin));
        if answer.status != *status || answer.header("content-type") != *content_type || !as_expected {
            failures.push(format!(
                "{method} {target} {body}\n  expected {status} {content_type:?} {expected}\n  got      {}",
                answer.shown()
            ));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), WRONG.len(), failures.join("\n"));
    // None of it left anything behind.
    assert_eq!(weir.get("/api/v1/ingest").json(), json!({}));
    assert_eq!(weir.get("/api/v1/query/standing").json(), json!([]));
    assert!(!weir.log().contains("panicked"), "{}", weir.log());
}

// ---- ingest

#[test]
fn broken_records_are_counted_and_the_stream_goes_on() {
    let home = Home::new();
    home.write(
        "in.jsonl",
        "{\"id\": 1, \"by\": 1}\nno json\n{\"id\": 2, \"by\": 0}\n\n{\"id\": 3, \"by\": 2}\n{\"id\": 4, \"by\"\n{\"id\": 5, \"by\": 1}\n",
    );
    let weir = home.start(IN_MEMORY);
    // The property is set before the division fails: nothing of the record may stay.
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id SET n.share = 10 / $that.by";
    let file = json!({"type": "FileIngest", "path": "in.jsonl", "format": {"type": "CypherJson", "query": query}});
    weir.post("/api/v1/ingest/broken", &file).expect(200);
    let stream = weir.wait_ingest("broken", "Completed", SOON);
    assert_eq!(weir.rows("MATCH (n) RETURN n.id AS id, n.share ORDER BY id"), [json!([1, 10]), json!([3, 5]), json!([5, 10])]);
    let failed = &stream["failedRecords"];
    let numbers: Vec<&Json> = failed["first"].as_array().expect("samples").iter().map(|record| &record["number"]).collect();
    assert!(failed["count"].as_u64() == Some(numbers.len() as u64) && (3..=4).contains(&numbers.len()), "{stream}");
    let reasons = failed.to_string();
    assert!(reasons.contains("no json") && reasons.contains("ArithmeticError"), "{reasons}");
}

#[test]
fn a_csv_file_with_headers_is_read_by_name() {
    let home = Home::new();
    home.write("in.csv", "id,name,note\n1,Ann,\"a, \"\"quoted\"\" one\"\n2,Bo\n");
    let weir = home.start(IN_MEMORY);
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n = $that";
    let file = json!({"type": "FileIngest", "path": "in.csv", "format": {"type": "CypherCsv", "headers": true, "query": query}});
    weir.post("/api/v1/ingest/csv", &file).expect(200);
    weir.wait_ingest("csv", "Completed", SOON);
    let rows = weir.rows("MATCH (n) RETURN n.id AS id, n.name, n.note ORDER BY id");
    assert_eq!(rows, [json!(["1", "Ann", "a, \"quoted\" one"]), json!(["2", "Bo", null])]);
}

#[test]
fn a_stream_may_call_procedures_and_subqueries() {
    let home = Home::new();
    home.write("in.jsonl", "{\"k\": 1, \"l\": [1, 2]}\n{\"k\": 1, \"l\": []}\n{\"k\": 2, \"l\": [3]}\n");
    let weir = home.start(IN_MEMORY);
    let query = "MATCH (n) WHERE id(n) = idFrom('k', $that.k) CALL incrementCounter(n, 'seen') YIELD count SET n.last = count \
                 WITH n CALL { WITH n UNWIND $that.l AS x MATCH (m) WHERE id(m) = idFrom('l', x) SET m.x = x CREATE (n)-[:HAS]->(m) } \
                 CALL reify.time(datetime('2024-02-29T10:11:12Z'), ['hour']) YIELD node CREATE (n)-[:AT]->(node)";
    let file = json!({"type": "FileIngest", "path": "in.jsonl", "format": {"type": "CypherJson", "query": query}});
    weir.post("/api/v1/ingest/calls", &file).expect(200);
    let ended = weir.wait_ingest("calls", "Completed", SOON);
    assert_eq!(ended["stats"]["ingestedCount"], 3, "{ended}");
    let rows =
        weir.rows("MATCH (n)-[:AT]->(t:hour) OPTIONAL MATCH (n)-[:HAS]->(m) RETURN n.last, count(m), t.period ORDER BY n.last");
    assert_eq!(rows, [json!([1, 1, "hour"]), json!([2, 2, "hour"])]);
}

#[test]
fn a_stream_is_paused_started_and_deleted() {
    let weir = Home::new().start(IN_MEMORY);
    let count = || weir.rows("MATCH (n) WHERE n.i IS NOT NULL RETURN count(n)")[0][0].as_u64().expect("a number");
    let numbers = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 500});
    weir.post("/api/v1/ingest/a%20b", &numbers).expect(200);
    let again = weir.post("/api/v1/ingest/a%20b", &numbers).expect(400);
    assert_eq!(again.json(), json!(["Cannot create ingest stream `a b` (a stream with this name already exists)"]));
    wait_until("numbers arrive", SOON, || count() > 10);
    assert_eq!(weir.put("/api/v1/ingest/a%20b/pause").expect(200).json()["status"], "Paused");
    // Nothing takes effect any more, and reads show all that has.
    weir.catch_up();
    let paused = count();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(count(), paused);
    let stream = weir.get("/api/v1/ingest").expect(200).json()["a b"].clone();
    assert_eq!((&stream["status"], stream["stats"]["ingestedCount"].as_u64()), (&json!("Paused"), Some(paused)), "{stream}");
    assert_eq!(weir.put("/api/v1/ingest/a%20b/start").expect(200).json()["status"], "Running");
    wait_until("numbers arrive again", SOON, || count() > paused + 10);
    let ended = weir.delete("/api/v1/ingest/a%20b").expect(200).json();
    assert_eq!((&ended["name"], &ended["status"]), (&json!("a b"), &json!("Terminated")));
    weir.catch_up();
    assert_eq!(ended["stats"]["ingestedCount"].as_u64(), Some(count()));
    weir.get("/api/v1/ingest/a%20b").expect(404);
    // A stream of the same name starts anew.
    weir.post("/api/v1/ingest/a%20b", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
    let stream = weir.wait_ingest("a%20b", "Completed", SOON);
    assert_eq!(stream["stats"]["ingestedCount"], 1);
    let answer = weir.put("/api/v1/ingest/a%20b/pause").expect(400);
    assert_eq!(answer.json(), json!(["Cannot pause a failed ingest."]));
    // The live page goes on counting.
    let both = ended["stats"]["ingestedCount"].as_u64().map(|count| count + 1);
    let state = || weir.get("/live/state").expect(200).json();
    let total = || state()["history"].as_array().and_then(|rates| rates.last()?["totalRecords"].as_u64());
    wait_until("the live page counts the records of both", SOON, || total() == both);
}

// ---- standing queries

#[test]
fn results_are_written_to_files_where_that_is_allowed_and_never_into_weirs_own_data() {
    let home = Home::new();
    fs::create_dir(home.file("out")).expect("a directory");
    let create = |weir: &Weir, name: &str, path: &str| {
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.adult = true RETURN DISTINCT id(n) AS id"});
        let body = json!({"pattern": pattern, "outputs": {"file": {"type": "WriteToFile", "path": path}}});
        weir.post(&format!("/api/v1/query/standing/{name}"), &body)
    };
    let weir = home.start(&[]);
    for path in ["data/new.jsonl", "out/../data/new.jsonl"] {
        let refused = create(&weir, "own", path).expect(400).text();
        assert!(refused.contains("its own data"), "{refused}");
    }
    assert!(!home.file("data/new.jsonl").exists());
    create(&weir, "anywhere", "anywhere.jsonl").expect(201);
    create(&weir, "in", "out/in.jsonl").expect(201);
    weir.stop();

    let weir = home.start(&["-Dweir.file-output.allowed-directories.0=out"]);
    let refused = create(&weir, "elsewhere", "elsewhere.jsonl").expect(400).text();
    assert!(refused.contains("file-output.allowed-directories"), "{refused}");
    create(&weir, "allowed", "out/allowed.jsonl").expect(201);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 1) SET n.adult = true");
    home.wait_lines("out/in.jsonl", 1);
    home.wait_lines("out/allowed.jsonl", 1);
    assert_eq!(fs::read_to_string(home.file("anywhere.jsonl")).expect("it was made"), "");
    // One of before waits, and says why.
    let told = "anywhere.jsonl: the file is not directly in a directory that file-output";
    wait_until("it is said why it waits", SOON, || weir.log().contains(told));
    weir.stop();
}

#[test]
fn a_standing_query_lives_from_creation_to_deletion() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    let one = "/api/v1/query/standing/adults";
    let pattern =
        json!({"type": "Cypher", "query": "MATCH (n) WHERE n.adult = true RETURN DISTINCT id(n) AS id", "mode": "DistinctId"});
    let body = json!({"pattern": pattern, "includeCancellations": true, "outputs": {"file": {"type": "WriteToFile", "path": "out.jsonl"}}});
    assert_eq!(weir.post(one, &body).expect(201).text(), "");
    let taken = weir.post(one, &body).expect(400).json();
    assert_eq!(taken, json!(["There is already a standing query named 'adults'"]));

    let info = weir.get(one).expect(200).json();
    assert_eq!(
        (&info["name"], &info["includeCancellations"], &info["inputBufferSize"]),
        (&json!("adults"), &json!(true), &json!(32))
    );
    assert_eq!(
        info["outputs"]["file"],
        json!({"type": "WriteToFile", "path": "out.jsonl", "structure": {"type": "WithMetadata"}})
    );
    let list = weir.get("/api/v1/query/standing").expect(200).json();
    assert_eq!((list.as_array().map(Vec::len), &list[0]["internalId"]), (Some(1), &info["internalId"]));

    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 1) SET n.adult = true");
    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 1) SET n.age = 19");
    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 1) SET n.adult = false");
    let id = weir.rows("RETURN idFrom('p', 1)")[0][0].clone();
    let lines = home.wait_lines("out.jsonl", 2);
    let result =
        |line: &Json| (line["meta"]["isPositiveMatch"].clone(), line["data"]["id"].clone(), line["meta"]["resultId"].clone());
    let ((first, of, result_id), (second, also_of, same_id)) = (result(&lines[0]), result(&lines[1]));
    assert_eq!((first, second, &of, also_of, result_id), (json!(true), json!(false), &id, id.clone(), same_id));

    // Another output has what comes from here on; a query in it reads the graph, and passes rows on.
    let named = json!({"type": "CypherQuery", "query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.name AS name",
        "andThen": {"type": "WriteToFile", "path": "names.jsonl", "structure": {"type": "Bare"}}});
    weir.post(&format!("{one}/output/names"), &named).expect(201);
    let taken = weir.post(&format!("{one}/output/names"), &named).expect(400).json();
    assert_eq!(taken, json!(["There is already a standing query output named 'names'"]));
    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 2) SET n.adult = true, n.name = 'Ann'");
    assert_eq!(home.wait_lines("names.jsonl", 1), [json!({"name": "Ann"})]);
    home.wait_lines("out.jsonl", 3);
    let removed = weir.delete(&format!("{one}/output/names")).expect(200).json();
    assert_eq!(removed["type"], "CypherQuery");
    weir.delete(&format!("{one}/output/names")).expect(404);

    // Handed to the outputs, and then counted.
    let count = || weir.get(one).expect(200).json()["stats"]["local"]["rates"]["count"].take();
    wait_until("the results are counted", SOON, || count() == 3);
    let before = weir.delete(one).expect(200).json();
    assert_eq!((&before["name"], &before["stats"]["local"]["rates"]["count"]), (&json!("adults"), &json!(3)), "{before}");
    weir.get(one).expect(404);
    weir.rows("MATCH (n) WHERE id(n) = idFrom('p', 3) SET n.adult = true");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(home.lines("out.jsonl").len(), 3, "a query that was deleted goes on");
}

#[test]
fn a_standing_query_is_wiretapped_and_may_not_call() {
    let weir = Home::new().start(IN_MEMORY);
    for query in ["CALL recentNodes(1) YIELD node RETURN node", "MATCH (n) CALL { WITH n RETURN 1 AS x } RETURN n.x AS x"] {
        let body = json!({"pattern": {"type": "Cypher", "query": query, "mode": "MultipleValues"}, "outputs": {}});
        weir.post("/api/v1/query/standing/calls", &body).expect(400);
    }
    let body = json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.tapped IS NOT NULL RETURN n.tapped AS x",
        "mode": "MultipleValues"}, "outputs": {}});
    weir.post("/api/v1/query/standing/tapped", &body).expect(201);
    std::thread::scope(|scope| {
        let tap = scope.spawn(|| {
            weir.rows("CALL standing.wiretap({name: 'tapped'}) YIELD data, meta RETURN data.x IS NOT NULL, meta.isPositiveMatch LIMIT 2")
        });
        let mut made = 0;
        wait_until("the tap has two results", SOON, || {
            made += 1;
            weir.query(&format!("CREATE ({{tapped: {made}}})")).expect(200);
            tap.is_finished()
        });
        assert_eq!(tap.join().expect("answers"), [json!([true, true]), json!([true, true])]);
    });
    // Without rows it ends with its time, and its status; with rows the answer would break off.
    let asked = Instant::now();
    let ended = weir.send(
        "POST",
        "/api/v1/query/cypher?timeout=200",
        &[("Content-Type", "text/plain")],
        b"CALL standing.wiretap({name: 'tapped'}) YIELD data WITH data WHERE data.x < 0 RETURN data",
    );
    assert!(ended.status >= 400 && asked.elapsed() < SOON, "{}", ended.shown());
}

#[test]
fn what_matched_before_is_reported_when_propagated_and_once() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    weir.rows("UNWIND range(1, 5) AS i MATCH (n) WHERE id(n) = idFrom('old', i) SET n.v = i");
    standing(&weir, "all", "MATCH (n) WHERE n.v IS NOT NULL RETURN DISTINCT id(n) AS id", "out.jsonl");
    weir.rows("MATCH (n) WHERE id(n) = idFrom('new', 1) SET n.v = 1");
    home.wait_lines("out.jsonl", 1);
    for _ in 0..2 {
        weir.send("POST", "/api/v1/query/standing/control/propagate", &[], b"").expect(202);
        home.wait_lines("out.jsonl", 6);
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(home.lines("out.jsonl").len(), 6, "propagated twice is reported twice");
}

#[test]
fn results_are_heard_as_they_come() {
    let weir = Home::new().start(IN_MEMORY);
    let body = json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.v = 1 RETURN n.w AS w", "mode": "MultipleValues"},
        "includeCancellations": true, "outputs": {}});
    weir.post("/api/v1/query/standing/heard", &body).expect(201);
    let target = "/api/v1/query/standing/heard/results";
    let stream = client::open(weir.address(), "GET", target, &[("Accept", "text/event-stream")], b"").expect("a connection");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("an event within the time"));
    // The first bytes are an empty event: from then on nothing is missed.
    assert!(lines.by_ref().any(|line| line.starts_with("data:")));
    weir.rows("MATCH (n) WHERE id(n) = idFrom('h') SET n.v = 1, n.w = 'é'");
    let data = lines.by_ref().find(|line| line.starts_with("data:{")).expect("a result");
    assert!(data.contains("\"isPositiveMatch\":true") && data.ends_with(r#""data":{"w":"é"}}"#), "{data}");
    weir.rows("MATCH (n) WHERE id(n) = idFrom('h') SET n.v = 2");
    let data = lines.by_ref().find(|line| line.starts_with("data:{")).expect("a cancellation");
    assert!(data.contains("\"isPositiveMatch\":false"), "{data}");
    // As recorded: not 404, which the socket answers.
    let absent = weir.get("/api/v1/query/standing/nope/results").expect(400);
    assert_eq!(absent.text(), "No Standing Query with the provided name was found");
    weir.stop();
}

#[test]
fn a_file_that_cannot_be_written_refuses_the_query_and_leaves_nothing() {
    let home = Home::new();
    let weir = home.start(IN_MEMORY);
    let body: Json =
        serde_json::from_str(&format!(r#"{{{SQ}, "outputs": {{"f": {{"type": "WriteToFile", "path": "no/such/place"}}}}}}"#))
            .expect("JSON");
    let answer = weir.post(S, &body).expect(400);
    assert!(answer.text().contains("no/such/place"), "{}", answer.shown());
    weir.get(S).expect(404);
    // The same name is free.
    weir.post(S, &serde_json::from_str(&format!(r#"{{{SQ}, "outputs": {{}}}}"#)).expect("JSON")).expect(201);
}

// ---- helpers

fn standing(weir: &Weir, name: &str, query: &str, file: &str) {
    let outputs = json!({"file": {"type": "WriteToFile", "path": file}});
    let body = json!({"pattern": {"type": "Cypher", "query": query}, "includeCancellations": true, "outputs": outputs});
    weir.post(&format!("/api/v1/query/standing/{name}"), &body).expect(201);
}
