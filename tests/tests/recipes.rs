//! The recipes that come with weir, each started as a user would start it, and what it finds in its data.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, binary, wait_until};
use weir_tests::terminal::Terminal;

/// Machines under load are slow.
const SOON: Duration = Duration::from_secs(60);

/// What was printed: each result, and whether it came or went.
fn printed(home: &Home) -> Vec<(bool, Json)> {
    let text = home.read("stdout");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    // In v1 there is a heading before each.
    let body = |line| if str::starts_with(line, "{") { Some(line) } else { line.split_once(" match: ").map(|(_, body)| body) };
    let results = whole.lines().filter_map(body);
    let results = results.map(|body| serde_json::from_str::<Json>(body).expect("JSON is printed"));
    let parted = |mut result: Json| match result.pointer("/meta/isPositiveMatch").and_then(Json::as_bool) {
        Some(positive) => (positive, result["data"].take()),
        None => (true, result),
    };
    results.map(parted).collect()
}

/// Runs a recipe until everything expected is printed, and nothing else.
fn finds(name: &str, expected: &[(bool, Json)]) {
    let home = Home::new();
    let weir = home.start(&["-r", name, "-Dweir.workers=1"]);
    let sorted = |results: &[(bool, Json)]| {
        let mut texts: Vec<String> =
            results.iter().map(|(came, data)| format!("{} {data}", if *came { '+' } else { '-' })).collect();
        texts.sort();
        texts
    };
    let expected = sorted(expected);
    wait_until(&format!("{name} prints {expected:?}"), SOON, || printed(&home).len() >= expected.len());
    weir.stop();
    assert_eq!(sorted(&printed(&home)), expected, "{name}");
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(name).join("recipe.yaml");
    let is_v1 = std::fs::read_to_string(recipe).expect("the recipe").contains("PrintToStandardOut");
    assert_eq!(home.read("stdout").contains("Standing query `"), is_v1, "a heading stands before results in v1, and not in v2");
    assert!(!home.file("data").exists(), "a recipe has a store of its own");
}

fn came(data: Json) -> (bool, Json) {
    (true, data)
}

#[test]
fn fraud_ring() {
    finds("fraud-ring", &[came(json!({"first": "A31", "second": "A32", "third": "A7", "device": "phone-900", "amount": 27003}))]);
}

#[test]
fn process_tree() {
    finds("process-tree", &[came(json!({"reader": 70, "shell": 71, "tool": 72, "user": "ann"}))]);
}

#[test]
fn cdn_logs() {
    let home = Home::new();
    let weir = home.start(&["-r", "cdn-logs", "-Dweir.workers=1"]);
    // The last one that came and did not go.
    wait_until("the asset that is missed is found", SOON, || {
        let last = printed(&home).into_iter().rev().find(|(came, _)| *came);
        last.is_some_and(|(_, data)| data == json!({"path": "/news/2", "misses": 13, "millis": 165.0}))
    });
    weir.stop();
    let results = printed(&home);
    let count = |which: bool| results.iter().filter(|(came, _)| *came == which).count();
    assert_eq!(count(true), count(false) + 1, "{results:?}");
}

#[test]
fn supply_chain() {
    finds("supply-chain", &[came(json!({"lot": "lot-6", "shipment": "shipment-2"}))]);
}

#[test]
fn entity_resolution() {
    let same = |one: i32, other: i32, shared: &str| came(json!({"one": one, "other": other, "shared": shared}));
    finds(
        "entity-resolution",
        &[
            same(1, 2, "ann.bergen@example.com"),
            same(1, 3, "+4930111"),
            same(4, 5, "bo@example.com"),
            same(4, 6, "+4930222"),
            same(7, 8, "cora@example.com"),
        ],
    );
}

#[test]
fn temporal_locality() {
    finds("temporal-locality", &[came(json!({"card": "card-9", "city": "Lima", "other": "Oslo", "minutes": 4}))]);
}

#[test]
fn certificate_watch() {
    finds(
        "certificate-watch",
        &[
            came(json!({"serial": "f002", "issuer": "Fine CA", "name": "r1verbank.example"})),
            came(json!({"serial": "f003", "issuer": "Cheap CA", "name": "login.riverbank.example"})),
        ],
    );
}

#[test]
fn login_anomalies() {
    finds("login-anomalies", &[came(json!({"user": "dan", "attempt": 4, "address": "203.0.113.9"}))]);
}

#[test]
fn internet_of_things() {
    let wasteful = || json!({"room": "north", "window": "window-north"});
    finds("iot", &[(true, wasteful()), (false, wasteful())]);
}

#[test]
fn outages() {
    let reached = || json!({"service": "shop", "because": "database"});
    finds("outages", &[(true, reached()), (false, reached())]);
}

/// A recipe may lie behind a URL, of a web server or of a file.
#[test]
fn a_recipe_is_read_from_a_url() {
    let recipe = json!({"version": 2, "title": "t", "ingestStreams": [
        {"name": "numbers", "source": {"type": "NumberIterator", "limit": 3}, "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n.x = 1"}]});
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/some/recipe", listener.local_addr().expect("an address"));
    let text = recipe.to_string();
    let body = text.clone();
    let serving = std::thread::spawn(move || {
        for (status, body) in [("200 OK", body.as_str()), ("404 Not Found", "")] {
            let (mut stream, _) = listener.accept().expect("weir asks");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + body).as_bytes());
        }
    });
    let home = Home::new();
    home.write("recipe.yaml", &text);
    for place in [url.clone(), format!("file://{}", home.file("recipe.yaml").display())] {
        let weir = home.start(&["-r", &place, "-Dweir.workers=1"]);
        wait_until("its stream has run", SOON, || weir.rows("MATCH (n) RETURN sum(n.x)") == [json!([3])]);
        weir.stop();
    }
    let (status, said) = home.spawn(&["-r", &url]).wait_end(SOON);
    assert!(status.code() == Some(1) && said.contains(&url) && said.contains("404"), "{said}");
    serving.join().expect("it was asked twice");
}

/// Whoever writes as soon as weir is ready finds the queries and streams of the recipe there.
#[test]
fn a_recipe_has_been_started_when_weir_is_ready() {
    let query =
        json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id"}, "outputs": {}});
    let stream = json!({"type": "FileIngest", "path": "nowhere.jsonl"});
    let endless = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 1});
    let recipe = json!({"version": 1, "title": "t", "standingQueries": [query], "ingestStreams": [stream, endless],
        "statusQuery": {"cypherQuery": "RETURN 1"}});
    let home = Home::new();
    home.write("recipe.json", recipe.to_string());
    let weir = home.start(&["-r", "recipe.json", "-Dweir.workers=1"]);
    wait_until("the status query is told", SOON, || weir.log().contains("Status query URL is http"));
    let log = weir.log();
    let said = [
        "Running Standing Query STANDING-1",
        "Ingest Stream INGEST-1 could not be started",
        "Running Ingest Stream INGEST-2",
        " is ready at http",
        "Status query URL is http",
    ];
    assert!(said.map(|text| log.find(text).unwrap_or(usize::MAX)).is_sorted(), "{log}");
    weir.get("/api/v1/ingest/INGEST-2").expect(200);
    weir.stop();
}

/// A program that ends with whoever holds it.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines of a pipe are records, in the character set that is said; its end is that of the stream, and weir goes on.
#[test]
fn records_come_in_over_standard_input() {
    let home = Home::new();
    let source = json!({"type": "StdInput", "format": {"type": "Line"}, "characterEncoding": "ISO-8859-1"});
    let query = "MATCH (n) WHERE id(n) = idFrom($that) SET n.word = $that";
    let pattern =
        json!({"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": "MATCH (n) WHERE n.word IS NOT NULL RETURN n.word AS word"});
    let outputs = json!([{"preEnrichmentTransformation": {"type": "InlineData"}, "destinations": [{"type": "File", "path": "words.jsonl"}]}]);
    let recipe = json!({"version": 2, "title": "t", "ingestStreams": [{"name": "in", "source": source, "query": query, "parallelism": 1}],
        "standingQueries": [{"pattern": pattern, "outputs": outputs}],
        "statusQuery": {"cypherQuery": "MATCH (n) WHERE n.word IS NOT NULL RETURN count(n) AS words"}});
    home.write("recipe.json", recipe.to_string());
    let mut command = Command::new(binary());
    command.args(["-r", "recipe.json", "-W", "-Dweir.workers=1"]).current_dir(home.path());
    let log = std::fs::File::create(home.file("log")).expect("a file");
    let mut weir = Ends(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().expect("weir starts"));
    let mut pipe = weir.0.stdin.take().expect("its input");
    pipe.write_all(b"eins\nzw\xf6lf\n").expect("weir reads");
    home.wait_lines("words.jsonl", 2);
    pipe.write_all(b"drei").expect("weir reads on");
    drop(pipe);
    let mut words: Vec<Json> = home.wait_lines("words.jsonl", 3).into_iter().map(|mut line| line["word"].take()).collect();
    words.sort_by_key(Json::to_string);
    assert_eq!(words, [json!("drei"), json!("eins"), json!("zwölf")]);
    wait_until("the end is told", SOON, || home.read("log").contains("in status is completed and ingested 3"));
    wait_until("the status query is answered", SOON, || home.read("log").contains("words | 3"));
    assert!(!home.read("log").contains("Status query URL"), "nothing listens there: {}", home.read("log"));
    assert!(weir.0.try_wait().expect("a child can be waited for").is_none(), "weir goes on: {}", home.read("log"));
}

#[test]
fn factors_come_back_from_a_service() {
    // None that the system gives to a connection of another test.
    let free = free_ports(1);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes/factors/service.py");
    let service =
        Command::new("python3").arg(script).args(["0", &format!("http://127.0.0.1:{free}")]).stdout(Stdio::piped()).spawn();
    let Ok(service) = service else {
        eprintln!("**** LEFT OUT: there is no python3 to run the service of the recipe 'factors'");
        return;
    };
    let mut service = Ends(service);
    let mut port = String::new();
    BufReader::new(service.0.stdout.take().expect("its output")).read_line(&mut port).expect("the port it is on");
    let home = Home::new();
    let (listen, port) = (format!("-Dweir.webserver.port={free}"), port.trim());
    let value = format!("service=http://127.0.0.1:{port}/factors");
    let arguments = ["-r", "factors", "-x", &value, "-Dweir.webserver.address=127.0.0.1", "-Dweir.workers=1", &listen];
    let mut weir = home.spawn_bare(&arguments);
    weir.wait_ready();
    let count = "MATCH (f:Number)-[:FACTOR_OF]->(n:Number) RETURN count(*)";
    wait_until("each factor has an edge to its number", SOON, || weir.rows(count) == [json!([37])]);
    let twelve = weir.rows("MATCH (f)-[:FACTOR_OF]->(n:Number {value: 12}) RETURN f.value AS factor ORDER BY factor");
    assert_eq!(twelve, [json!([1]), json!([2]), json!([3]), json!([4]), json!([6]), json!([12])]);
}

/// On a terminal each stream shows how far it is; in a pipe it says a line at its end.
#[test]
fn progress_is_drawn_on_a_terminal_and_told_in_a_pipe() {
    let home = Home::new();
    let stream = |count: u32| json!({"type": "NumberIteratorIngest", "ingestLimit": count, "maximumPerSecond": 100, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    let write = |count: u32| {
        let recipe = json!({"version": 1, "title": "t", "ingestStreams": [stream(count)], "standingQueries": [
            {"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n) AS id"}, "outputs": {}}]});
        home.write("recipe.json", recipe.to_string());
    };
    // For so long that it is seen under way also on a busy machine.
    write(900);
    let mut command = Command::new(binary());
    command.args(["-r", "recipe.json", "-p", "0", "-Dweir.workers=1", "-Dweir.webserver.address=127.0.0.1"]);
    let mut terminal = Terminal::start(command.current_dir(home.path()), 100);
    terminal.wait("░");
    let line = terminal.wait("a second");
    assert!(line.contains(" % INGEST-1 status is running and ingested "), "{line}");
    terminal.wait("STANDING-1 count 0, 0 a second");
    terminal.wait("INGEST-1 status is completed and ingested 900");
    terminal.interrupt();
    assert!(terminal.wait_end().success());

    write(3);
    let weir = home.start(&["-r", "recipe.json", "-Dweir.workers=1"]);
    wait_until("its end is told", SOON, || weir.log().contains("\nINGEST-1 status is completed and ingested 3\n"));
    assert!(!weir.log().contains("| =>") && !weir.log().contains('\u{1b}'), "{}", weir.log());
}

/// Programs read such a log, and one line that is none of theirs is an error to them.
#[test]
fn progress_is_an_event_where_the_log_is_objects() {
    let home = Home::new();
    let stream =
        json!({"type": "NumberIteratorIngest", "ingestLimit": 3, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    home.write("recipe.json", json!({"version": 1, "title": "t", "ingestStreams": [stream]}).to_string());
    let weir = home.start(&["-r", "recipe.json", "-Dweir.workers=1", "-Dweir.log.format=json"]);
    let end = "INGEST-1 status is completed and ingested 3";
    let is_told = |line: &str| serde_json::from_str::<Json>(line).is_ok_and(|event| event["fields"]["message"] == end);
    wait_until("its end is told", SOON, || weir.log().lines().any(|line| line.contains(end)));
    let log = weir.log();
    assert!(log.lines().any(is_told), "{log}");
}

/// What leaves a terminal at its top cannot be drawn over.
#[test]
fn no_more_is_drawn_than_the_terminal_has_lines() {
    let home = Home::new();
    let stream =
        json!({"type": "NumberIteratorIngest", "maximumPerSecond": 1, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    let recipe = json!({"version": 1, "title": "t", "ingestStreams": vec![stream; 60]});
    home.write("recipe.json", recipe.to_string());
    let mut command = Command::new(binary());
    command.args(["-r", "recipe.json", "-p", "0", "-Dweir.workers=1", "-Dweir.webserver.address=127.0.0.1"]);
    let mut terminal = Terminal::start(command.current_dir(home.path()), 100);
    // Of 50 lines the cursor is in the last.
    terminal.wait("INGEST-48 status is running");
    terminal.wait(" | => … and 12 more\n");
    terminal.wait(" | => … and 12 more\n");
    let is_drawn = |line: &&String| line.starts_with(" | => ");
    wait_until("they are drawn over", SOON, || terminal.screen().iter().filter(is_drawn).count() == 49);
    terminal.interrupt();
    assert!(terminal.wait_end().success());
}

/// Results, what is said and the answer of the status query are written above the lines that show how far it is, and stay.
#[test]
fn what_is_written_while_progress_is_drawn_stays() {
    let home = Home::new();
    let stream = json!({"name": "numbers", "source": {"type": "NumberIterator", "limit": 40}, "maxPerSecond": 5, "parallelism": 1,
        "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n.number = $that"});
    let pattern = json!({"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": "MATCH (n) WHERE n.number IS NOT NULL RETURN n.number AS number"});
    let outputs = json!([{"preEnrichmentTransformation": {"type": "InlineData"}, "destinations": [{"type": "StandardOut"}]}]);
    let recipe = json!({"version": 2, "title": "t", "ingestStreams": [stream],
        "nodeAppearances": [{"predicate": {"propertyKeys": [], "knownValues": {}}}],
        "standingQueries": [{"name": "all", "pattern": pattern, "outputs": outputs}],
        "statusQuery": {"cypherQuery": "MATCH (n) WHERE n.number IS NOT NULL RETURN count(n) > 3 AS several"}});
    home.write("recipe.json", recipe.to_string());
    let mut command = Command::new(binary());
    command.args(["-r", "recipe.json", "-p", "0", "-Dweir.workers=1", "-Dweir.webserver.address=127.0.0.1"]);
    let mut terminal = Terminal::start(command.current_dir(home.path()), 150);
    terminal.wait("Using 1 node appearance\n");
    terminal.wait("Status query URL is http");
    let results = |screen: &[String]| screen.iter().filter(|line| line.starts_with("{\"number\":")).count();
    terminal.wait("numbers status is completed and ingested 40");
    let told = |screen: &[String]| screen.iter().any(|line| line == "several | true");
    // What is written may be read in pieces.
    wait_until("results and answer are on the screen, and below them one line of progress", SOON, || {
        let screen = terminal.screen();
        let drawn: Vec<usize> = (0..screen.len()).filter(|at| screen[*at].starts_with(" | => ")).collect();
        let is_last = drawn == [screen.len().saturating_sub(2)] && screen[drawn[0]].starts_with(" | => all count 40, ");
        results(&screen) == 40 && told(&screen) && is_last
    });
    terminal.interrupt();
    assert!(terminal.wait_end().success());
}

/// What is said to be the store of a recipe is one, and is there afterwards.
#[test]
fn a_store_that_is_kept_can_be_opened() {
    let home = Home::new();
    let place = home.path().display().to_string();
    for (name, more) in [("a recipe", ["-r", "fraud-ring"]), ("the demonstration", ["demo", "--rate=50"])] {
        let weir = home.start_with(&[("TMPDIR", place.as_str())], &[&more[..], &["--no-delete", "-Dweir.workers=1"]].concat());
        let log = weir.log();
        let store =
            log.lines().find_map(|line| line.strip_prefix("The data of ")?.split_once(" are in ")).map(|(_, store)| store);
        let store = store.unwrap_or_else(|| panic!("{name}: {log}")).to_owned();
        weir.stop();
        let checked =
            Command::new(binary()).args(["check", &format!("-Dweir.store.filepath={store}")]).output().expect("weir runs");
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
        assert!(!home.file("data").exists(), "{name} leaves the configured store alone");
    }
}

/// A configuration of the reference service may name a store that weir has not: a recipe does not use it, unless it is told to.
#[test]
fn a_store_that_a_recipe_does_not_use_need_not_be_there() {
    let home = Home::new();
    home.write("quine.conf", "quine { store { type = cassandra, keyspace = q, endpoints = [\"127.0.0.1:1\"] } }");
    for more in [&["-r", "fraud-ring"][..], &["demo", "--rate=50"]] {
        let weir = home.start(&[&["quine.conf", "-Dweir.workers=1"][..], more].concat());
        let log = weir.log();
        assert!(log.contains("no effect here: store.type (the store 'cassandra' is not built in"), "{log}");
        weir.stop();
        let (status, said) = home.spawn(&[&["quine.conf", "--force-config"][..], more].concat()).wait_end(SOON);
        assert!(status.code() == Some(2) && said.contains("'cassandra' is not built into this version"), "{said}");
    }
}

/// The demonstration leaves nothing behind, unless it is to work with the configured store.
#[test]
fn the_demonstration_has_a_store_of_its_own() {
    let home = Home::new();
    let place = home.path().display().to_string();
    let weir = home.start_with(&[("TMPDIR", place.as_str())], &["demo", "-Dweir.workers=1"]);
    assert!(!weir.log().contains("no effect here"), "{}", weir.log());
    let query = "/api/v1/query/standing/viewer-shell-download";
    wait_until("its query is there", SOON, || weir.get(query).status == 200);
    weir.stop();
    let left = || std::fs::read_dir(home.path()).expect("a directory").flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left().filter(|name| name.to_string_lossy().starts_with("weir-recipe-")).collect();
    assert!(!home.file("data").exists() && left.is_empty(), "{left:?}");
    home.start(&["demo", "--force-config", "-Dweir.workers=1"]).stop();
    assert!(home.file("data").exists(), "the configured store is taken where that is asked for");
}
