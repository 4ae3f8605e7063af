//! What operators rely on: levels of the log that change while weir runs, the audit log, reporters of figures.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::{Value as Json, json};
use weir_tests::client::{self, Answer};
use weir_tests::endpoint::Endpoint;
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, Weir, binary, takes_at_most};
use weir_tests::terminal::Terminal;

/// How long a line or a report may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long weir may take to read hundreds of thousands of records of its log.
const REPLAY_MAX: Duration = Duration::from_secs(180);

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where weir is to listen, known before it does. Not a port that the system gives out: a client of another test could have it by
/// then.
fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_ports(1)))
}

fn put(weir: &Weir, path: &str, body: &Json) -> weir_tests::client::Answer {
    weir.send("PUT", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}

#[test]
fn levels_change_while_weir_runs() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    assert_eq!(weir.get("/api/v1/admin/log-level").expect(200).json(), json!({"level": "info"}));
    let write = |name: &str| weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('{name}') SET n.x = 1"));
    write("quiet");
    assert_eq!(
        put(&weir, "/api/v2/system/logLevel", &json!({"level": "info,audit=debug"})).expect(200).json(),
        json!({"level": "info,audit=debug"})
    );
    write("loud");
    eventually("the line of a query that writes", || weir.log().contains("query: MATCH (n) WHERE id(n) = idFrom('loud')"));
    assert!(!weir.log().contains("'quiet'"), "it was not asked for then");
    assert_eq!(weir.get("/api/v2/admin/log-level").expect(200).json()["content"]["level"], "info,audit=debug");
    for (wrong, reason) in
        [(json!({"level": "inof"}), "'inof' is no level"), (json!({"level": 1}), "level"), (json!({}), "level")]
    {
        let answer = put(&weir, "/api/v1/admin/log-level", &wrong).expect(400);
        assert!(answer.text().contains(reason), "{}", answer.shown());
    }
    put(&weir, "/api/v1/admin/log-level", &json!({"level": "off"})).expect(200);
    let before = weir.log();
    write("silent");
    weir.post("/api/v1/ingest/none", &json!({"type": "nonsense"})).expect(400);
    assert_eq!(weir.log(), before, "nothing is logged at all");
}

/// An output that does not take its results makes much of the log to be replayed.
#[test]
fn reads_are_answered_while_standing_queries_catch_up() {
    let home = Home::new();
    let weir = home.start(&[]);
    let standing = json!({
        "pattern": {"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n:P) RETURN id(n) AS id, n.x AS x"},
        "outputs": {"away": {"type": "PostToEndpoint", "url": "http://127.0.0.1:9/"}},
    });
    weir.post("/api/v1/query/standing/all", &standing).expect(201);
    for _ in 0..12 {
        weir.rows("UNWIND range(1, 50000) AS n CREATE (:P {x: n})");
    }
    weir.rows("MATCH (n) WHERE id(n) = idFrom('last') SET n:P, n.x = 600000");
    weir.kill();

    let port = free_address();
    let _weir = home.spawn(&[&format!("-Dweir.webserver.port={}", port.port())]);
    let json_type = [("Content-Type", "application/json")];
    let ask =
        |text: &str| client::send(port, "POST", "/api/v1/query/cypher", &json_type, json!({"text": text}).to_string().as_bytes());
    let is_ready = || client::send(port, "GET", "/api/v1/admin/readiness", &[], b"").is_ok_and(|answer| answer.status == 204);
    // Its answer begins before weir is ready, and goes on when that has been for a while.
    let mut pausing = None;
    let pauses = json!({"text": "UNWIND [0, 12000] AS millis CALL util.sleep(millis) RETURN millis"}).to_string();
    let (mut refused, mut taken, mut told, deadline) = (0, 0, false, Instant::now() + REPLAY_MAX);
    while !is_ready() {
        assert!(Instant::now() < deadline, "weir does not become ready");
        let Ok(answer) = ask("MATCH (n) WHERE id(n) = idFrom('last') RETURN n.x") else { continue };
        if answer.status != 200 {
            assert_eq!(answer.status, 503, "{}", answer.shown());
            continue;
        }
        assert_eq!(answer.json()["results"], json!([[600_000]]));
        pausing.get_or_insert_with(|| {
            let body = pauses.clone().into_bytes();
            std::thread::spawn(move || client::send(port, "POST", "/api/v1/query/cypher", &json_type, &body))
        });
        let ready = client::send(port, "GET", "/api/v2/system/readiness", &[], b"").expect("an answer").text();
        told |= ready.contains("entries of the log");
        // Writes are taken as soon as the log is replayed; then streams are still to be restored.
        let write = ask("CREATE (:Q)").expect("an answer");
        match write.status {
            503 if taken == 0 => refused += 1,
            200 => taken += 1,
            _ => panic!("{}", write.shown()),
        }
    }
    assert!(refused > 0 && told, "no read was answered while the log was replayed");
    assert_eq!(ask("MATCH (n:P) RETURN count(n)").expect("an answer").json()["results"], json!([[600_001]]));
    assert_eq!(ask("MATCH (n:Q) RETURN count(n)").expect("an answer").json()["results"], json!([[taken]]));
    let pausing = pausing.expect("a read was answered").join().expect("a thread").expect("a whole answer").expect(200);
    assert_eq!(pausing.json()["results"], json!([[0], [12_000]]));
}

#[test]
fn who_changed_what_is_logged() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1", "-Dweir.log.format=json"]);
    let stream =
        json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    weir.post("/api/v1/ingest/numbers?namespace=default", &stream).expect(200);
    weir.get("/api/v1/ingest/numbers").expect(200);
    weir.send("DELETE", "/api/v1/query/standing/nosuch%20one", &[], b"").expect(404);
    put(&weir, "/api/v1/namespace/other", &Json::Null);
    weir.post("/api/v1/query/cypher", &json!({"text": "RETURN 1"})).expect(200);
    // Nothing is kept that a backup would be of.
    weir.get("/api/v1/admin/backup").expect(400);
    weir.get("/api/v1/admin/export").expect(200);
    weir.send("POST", "/api/v1/admin/import?format=nosuch", &[("Content-Type", "text/plain")], b"x").expect(400);
    put(&weir, "/api/v1/algorithm/walk", &json!({"type": "S3Bucket"})).expect(400);
    weir.send("DELETE", "/api/v1/query/cypher/running/999999", &[], b"").expect(404);
    weir.post("/api/v1/query/cypher", &json!({"text": "TERMINATE QUERY '999999'"})).expect(200);
    let lines = || -> Vec<String> {
        let log = weir.log();
        let messages = log.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
        let audited = messages.filter(|line| line["target"] == "audit");
        audited
            .filter_map(|line| {
                line["fields"]["message"].as_str().map(|text| text.split_once(' ').map_or(text, |(_, rest)| rest).to_owned())
            })
            .collect()
    };
    eventually("its lines", || lines().len() >= 8);
    let lines = lines();
    let expected = [
        "POST /api/v1/ingest/numbers: 200",
        "DELETE /api/v1/query/standing/nosuch%20one: 404",
        "PUT /api/v1/namespace/other: 201",
        "GET /api/v1/admin/backup: 400",
        "GET /api/v1/admin/export: 200",
        "POST /api/v1/admin/import: 400",
        "PUT /api/v1/algorithm/walk: 400",
        "DELETE /api/v1/query/cypher/running/999999: 404",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with("127.0.0.1:") && line.ends_with(expected), "{line}");
    }
}

/// Queries are told of where that is asked for: those that write, and those that end others.
#[test]
fn who_ends_queries_is_logged_with_those_who_write() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    put(&weir, "/api/v1/admin/log-level", &json!({"level": "info,audit=debug"})).expect(200);
    weir.rows("SHOW QUERIES YIELD id");
    weir.rows("TERMINATE QUERIES '999998'");
    weir.rows("UNWIND ['999999'] AS id CALL query.terminate(id) YIELD message RETURN message");
    eventually("the last line", || weir.log().contains("query: UNWIND ['999999']"));
    let log = weir.log();
    assert!(log.contains("query: TERMINATE QUERIES '999998'") && !log.contains("query: SHOW QUERIES"), "{log}");
}

#[test]
fn backups_over_http_can_be_turned_off() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=1", "-Dweir.webserver.backups-enabled=false"]);
    let since = || weir.send("POST", "/api/v1/admin/backup", &[("Content-Type", "text/plain")], b"0.0.0");
    for refused in [weir.get("/api/v1/admin/backup"), since()] {
        let refused = refused.expect(400).text();
        assert!(refused.contains("webserver.backups-enabled"), "{refused}");
    }
    weir.get("/api/v1/admin/export").expect(200);
}

#[test]
fn who_changed_what_is_told_though_little_is_logged() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    put(&weir, "/api/v1/admin/log-level", &json!({"level": "warn"})).expect(200);
    put(&weir, "/api/v1/namespace/told", &Json::Null);
    eventually("its line", || weir.log().contains("PUT /api/v1/namespace/told: 201"));
    put(&weir, "/api/v1/admin/log-level", &json!({"level": "warn,audit=off"})).expect(200);
    let before = weir.log();
    put(&weir, "/api/v1/namespace/untold", &Json::Null);
    assert_eq!(weir.log(), before);
}

/// Whoever asks, or names something, could otherwise write lines that look as if somebody had done something.
#[test]
fn what_is_sent_makes_no_line_of_the_log() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    put(&weir, "/api/v1/admin/log-level", &json!({"level": "info,audit=debug"})).expect(200);
    let forged = "2026-01-01T00:00:00.000000Z  INFO audit: 10.0.0.7:51234 DELETE /api/v1/forged: 200";
    weir.rows(&format!("MATCH (n) WHERE id(n) = idFrom('x') /*\n{forged}\n*/ SET n.x = 1"));
    eventually("the query", || weir.log().contains("/api/v1/forged: 200"));
    let log = weir.log();
    assert!(log.contains(&format!("query: MATCH (n) WHERE id(n) = idFrom('x') /*\\n{forged}\\n*/ SET n.x = 1\n")), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01")), "{log}");
}

/// Programs read it, and one line that is none of theirs is an error to them.
#[test]
fn a_log_of_objects_holds_nothing_else() {
    let home = Home::new();
    let usual = ["-Dweir.store.type=in-memory", "-Dweir.workers=1", "-Dweir.log.format=json"];
    let lines = |log: &str| -> Vec<Json> {
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    };
    let weir = home.start(&usual);
    let port = format!("-Dweir.webserver.port={}", weir.address().port());
    let (status, log) = home.spawn(&[&usual[..], &[port.as_str()]].concat()).wait_end(PATIENCE);
    let last = lines(&log).pop().expect("why it ended");
    let reason = last["fields"]["message"].as_str().unwrap_or_default();
    assert_eq!((status.code(), &last["level"], reason.contains("the port is in use")), (Some(1), &json!("ERROR"), true), "{log}");
    let (status, log) = home.spawn(&[&usual[..], &["-r", "nowhere.yaml"]].concat()).wait_end(PATIENCE);
    let last = lines(&log).pop().expect("why it did not start");
    let reason = last["fields"]["message"].as_str().unwrap_or_default();
    assert_eq!((status.code(), reason.contains("the recipe nowhere.yaml cannot be read")), (Some(2), true), "{log}");
    // Why it ended is told whatever is logged.
    let (_, log) = home.spawn(&[&usual[..], &[port.as_str(), "-Dweir.log.level=off"]].concat()).wait_end(PATIENCE);
    assert!(log.starts_with("weir: cannot listen on "), "{log}");
    weir.signal(Signal::TERM);
    let (status, log) = weir.wait_end(PATIENCE);
    // The others wrote into the same file.
    let own: Vec<&str> = log.lines().filter(|line| !line.starts_with("weir: cannot listen")).collect();
    let last = lines(&own.join("\n")).pop().expect("a line");
    assert_eq!((status.success(), &last["level"], &last["fields"]["message"]), (true, &json!("INFO"), &json!("stopped")));
}

/// Queries on all the threads there may be for them: the end, which ends them, waits for none of these.
#[test]
fn the_end_needs_no_thread_that_a_query_has() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("what the system gives anyway");
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.query.running-max=512"]);
    let headers = [("Content-Type", "text/plain")];
    let open = || client::open(weir.address(), "POST", "/api/v1/query/cypher", &headers, b"CALL util.sleep(600000)");
    let sleepers: Vec<TcpStream> = (0..512).map(|_| open().expect("a connection")).collect();
    let listed = || weir.get("/api/v1/query/cypher/running").expect(200).json().as_array().map_or(0, Vec::len);
    eventually("the last of the queries", || listed() == sleepers.len());
    // Others that block have their threads meanwhile.
    weir.get("/api/v1/admin/graph-hash-code").expect(200);
    weir.signal(Signal::TERM);
    let (status, log) = weir.wait_end(Duration::from_secs(45));
    assert!(status.success(), "{log}");
}

/// The connections and the memory of a start, and what they need, are told once and where they matter.
#[test]
fn a_start_says_things_once_and_what_matters_first() {
    let home = Home::new();
    let log = home.file("few.log");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""]).arg(binary()).env_remove("WEIR_LOG").current_dir(home.path());
    command.args(["-p", "0", "-Dweir.webserver.address=127.0.0.1", "-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let mut weir = command.stderr(std::fs::File::create(&log).expect("a file")).spawn().expect("weir runs");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let deadline = Instant::now() + PATIENCE;
    let is_told = || [" is ready at ", "connections at a time are taken"].iter().all(|words| said().contains(words));
    while !is_told() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // What serves from now on has been set up a moment later.
    std::thread::sleep(Duration::from_millis(200));
    let _ = (weir.kill(), weir.wait());
    let said = said();
    assert!(said.contains("is ready at") && said.matches("connections at a time are taken").count() == 1, "{said}");

    // No file can be made there, for the graph neither.
    let (status, log) = home.spawn(&["-Dweir.store.filepath=/proc/nothing/here"]).wait_end(PATIENCE);
    assert!(status.code() == Some(1) && log.contains("cannot open the store in /proc/nothing/here"), "{log}");
    assert!(!log.contains("memory is not bounded"), "{log}");
}

/// The store is given its part of `memory.limit`, which has to be known by the time it is opened. RocksDB writes down what it
/// was.
#[test]
fn the_store_takes_no_more_than_its_part_of_the_memory() {
    let home = Home::new();
    home.start(&["-Dweir.store.filepath=one", "-Dweir.workers=1", "-Dweir.memory.limit=512 MiB"]).stop();
    let files = std::fs::read_dir(home.file("one/rocks-db")).expect("the store").map(|file| file.expect("a file").path());
    let is_options =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("OPTIONS-"));
    let options: Vec<String> = files.filter(is_options).map(|path| std::fs::read_to_string(path).expect("a text")).collect();
    // A thirty-second; it is 64 MiB where nothing is bounded.
    let buffer = format!("write_buffer_size={}\n", 16 << 20);
    assert!(options.iter().any(|options| options.contains(&buffer)), "{options:?}");
}

/// A service is told by SIGHUP to read its files again; on a terminal it says that the terminal is gone.
#[test]
fn hang_ups_end_what_was_started_on_a_terminal_alone() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    weir.signal(Signal::HUP);
    eventually("what became of it", || weir.log().contains("SIGHUP changes nothing"));
    weir.get("/api/v1/admin/readiness").expect(204);
    weir.stop();
    let mut command = Command::new(binary());
    command.args(["-p", "0", "-Dweir.workers=1", "-Dweir.store.type=in-memory", "-Dweir.webserver.address=127.0.0.1"]);
    let mut terminal = Terminal::start(command.current_dir(home.path()).env_remove("WEIR_LOG"), 100);
    terminal.wait("stop with Ctrl-C");
    terminal.signal(Signal::HUP);
    terminal.wait("Stopped.");
    assert!(terminal.wait_end().success());
}

/// Who asked for the end is told in one line, also where information is left out of the log.
#[test]
fn the_end_is_told_once() {
    let home = Home::new();
    for level in ["info", "error"] {
        let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
        put(&weir, "/api/v1/admin/log-level", &json!({"level": level})).expect(200);
        weir.signal(Signal::TERM);
        let (status, log) = weir.wait_end(PATIENCE);
        let told: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains("stopping")).collect();
        let [told] = told.as_slice() else { panic!("{level}: {log}") };
        assert!(told.ends_with("stopping, asked by SIGTERM: what was read is written, what was found is delivered"), "{told}");
        assert!(status.success() && log.ends_with("Stopped.\n"), "{log}");
    }
}

/// Who runs weir asks how it is also while it stops; who waits for the answer to a query gets one, and nothing is done by halves.
#[test]
fn an_end_answers_probes_and_queries_that_run() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=1"]);
    let address = weir.address();
    // The port stays open until this has its answer.
    let destination = TcpListener::bind("127.0.0.1:0").expect("a port");
    destination.set_nonblocking(true).expect("a listener");
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Found) RETURN DISTINCT id(n) AS id"});
    let output = json!({"type": "PostToEndpoint", "url": format!("http://{}/", destination.local_addr().expect("a port"))});
    weir.post("/api/v1/query/standing/found", &json!({"pattern": pattern, "outputs": {"out": output}})).expect(201);
    weir.query("CREATE (:Found)").expect(200);
    let mut delivery = None;
    eventually("its result", || {
        delivery = delivery.take().or_else(|| destination.accept().ok());
        delivery.is_some()
    });
    let long = "UNWIND range(1, 1000000) AS x UNWIND range(1, 1000000) AS y WITH x, y WHERE x + y < 0 WITH count(*) AS n";
    let ask = |path: &'static str, text: String| {
        let json_type = [("Content-Type", "application/json")];
        std::thread::spawn(move || client::send(address, "POST", path, &json_type, json!({"text": text}).to_string().as_bytes()))
    };
    let reading = ask("/api/v2/cypher-queries/query-graph", format!("{long} RETURN n"));
    let writing = ask("/api/v1/query/cypher", format!("{long} CREATE (:Half {{n: n}})"));
    eventually("two queries", || weir.rows("SHOW QUERIES").len() == 2);
    let asked = Instant::now();
    weir.signal(Signal::TERM);
    let get = |path: &str| client::send(address, "GET", path, &[], b"");
    // New connections, all of them.
    eventually("readiness", || get("/api/v2/admin/readiness").is_ok_and(|answer| answer.status == 503));
    let readiness = get("/api/v2/admin/readiness").expect("an answer").expect(503);
    assert_eq!(readiness.json()["error"]["message"], "weir is not ready: weir is stopping");
    get("/api/v2/admin/liveness").expect("an answer").expect(204);
    let wordless = get("/api/v1/admin/readiness").expect("an answer").expect(503);
    assert_eq!(wordless.text(), "");
    let current = get("/api/v2/system/readiness").expect("an answer").expect(503);
    for probe in [readiness, wordless, current] {
        assert_eq!(probe.header("retry-after"), Some("5"), "{}", probe.shown());
    }
    let refused = get("/api/v1/query/cypher/running").expect("an answer").expect(503);
    assert_eq!((refused.json(), refused.header("retry-after")), (json!(["weir is stopping"]), Some("5")));
    let refused = get("/api/v2/cypher-queries/running").expect("an answer").expect(503);
    assert_eq!(refused.json()["error"]["message"], "weir is stopping");
    assert_eq!(refused.header("retry-after"), Some("5"));
    let page = get("/docs").expect("an answer").expect(503);
    assert!(page.text().contains("weir is stopping") && page.header("retry-after").is_some(), "{}", page.shown());
    for query in [reading, writing] {
        let answer = query.join().expect("a thread").expect("an answer, though it is none").expect(503);
        assert!(answer.text().contains("cancelled: weir is stopping"), "{}", answer.shown());
        assert!(answer.header("retry-after").is_some());
    }
    assert!(asked.elapsed() >= Duration::from_secs(2), "{:?}", asked.elapsed());
    get("/api/v2/admin/liveness").expect("what was found is still being delivered").expect(204);
    let (mut delivery, _) = delivery.expect("it came");
    delivery.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("weir waits for it");
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success() && !log.contains("they are cut"), "{log}");
    let weir = home.start(&["-Dweir.workers=1"]);
    assert_eq!(weir.rows("MATCH (n:Half) RETURN count(n)"), [json!([0])]);
}

/// Who has fallen silent within a request, or answers no pings, is not waited for; who takes an answer slowly is.
#[test]
fn an_end_waits_for_answers_and_not_for_the_silent() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let address = weir.address();
    let connect = |sent: &[u8]| {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
        stream.write_all(sent).expect("it is taken");
        stream
    };
    let head = "POST /api/v1/query/cypher HTTP/1.1\r\nHost: weir\r\nContent-Type: text/plain\r\n";
    let half_head = connect(head.as_bytes());
    let half_body = connect(format!("{head}Content-Length: 100\r\n\r\nRETURN").as_bytes());
    let no_pings = connect(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    no_pings.peek(&mut [0]).expect("settings");
    let follows = connect(b"GET /live/events HTTP/1.1\r\nHost: weir\r\n\r\n");
    follows.peek(&mut [0]).expect("events begin");
    // More than the system keeps for a client.
    let long = "RETURN range(1, 2000000) AS all";
    let text = [("Content-Type", "text/plain")];
    let slow = client::open(address, "POST", "/api/v1/query/cypher", &text, long.as_bytes()).expect("a connection");
    slow.peek(&mut [0]).expect("an answer begins");
    eventually("the end of its query", || weir.rows("SHOW QUERIES").is_empty());
    weir.signal(Signal::TERM);
    let read = |mut stream: TcpStream| {
        let mut bytes = Vec::new();
        // One that is cut has an end, too.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let refused = read(half_body);
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 5\r\n"), "{refused}");
    assert!(refused.ends_with("[\"weir is stopping\"]"), "{refused}");
    assert_eq!(read(half_head), "");
    read(no_pings);
    let events = read(follows);
    assert!(events.contains("text/event-stream") && events.ends_with("\r\n0\r\n\r\n"), "{events}");
    let answer = read(slow);
    assert!(answer.len() > 10_000_000 && answer.ends_with("]]\r\n2\r\n]}\r\n0\r\n\r\n"), "{} bytes", answer.len());
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success() && !log.contains("they are cut"), "{log}");
}

/// More than the system keeps for a client, which its query waits for.
const MANY_ROWS: &str =
    "WITH reduce(text = 'x', n IN range(1, 10) | text + text) AS text UNWIND range(1, 40000) AS x RETURN x, text";

#[test]
fn an_end_lets_queries_send_rows_to_slow_clients() {
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let text = [("Content-Type", "text/plain")];
    let mut slow =
        client::open(weir.address(), "POST", "/api/v1/query/cypher", &text, MANY_ROWS.as_bytes()).expect("a connection");
    slow.peek(&mut [0]).expect("an answer begins");
    assert_eq!(weir.rows("SHOW QUERIES").len(), 1);
    weir.signal(Signal::TERM);
    // Longer than a query has that sends nothing.
    std::thread::sleep(Duration::from_millis(3500));
    let mut bytes = Vec::new();
    let read = slow.read_to_end(&mut bytes);
    let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(20)..]).into_owned();
    assert!(bytes.len() > 40_000_000 && end.ends_with("]}\r\n0\r\n\r\n"), "{} bytes and {end:?}: {read:?}", bytes.len());
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success() && !log.contains("are ended") && !log.contains("they are cut"), "{log}");
}

/// Its client gets no more of it than is on its way.
#[test]
fn an_end_does_not_wait_for_an_answer_that_was_cut() {
    // The system leaves a client after four times as long, which would end this sooner, too.
    let patience = "-Dweir.query.client-patience=3 s";
    takes_at_most("an end with an answer that was cut", Duration::from_secs(6), || {
        let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1", patience]);
        let text = [("Content-Type", "text/plain")];
        let takes_nothing =
            client::open(weir.address(), "POST", "/api/v1/query/cypher", &text, MANY_ROWS.as_bytes()).expect("a connection");
        takes_nothing.peek(&mut [0]).expect("an answer begins");
        eventually("the end of its query", || weir.rows("SHOW QUERIES").is_empty());
        let asked = Instant::now();
        weir.signal(Signal::TERM);
        let (status, log) = weir.wait_end(PATIENCE);
        let took = asked.elapsed();
        assert!(status.success() && !log.contains("they are cut"), "{log}");
        drop(takes_nothing);
        took
    });
}

/// What is left of an answer of HTTP/2 waits for the client to allow more, and not for the connection.
#[test]
fn an_end_waits_for_answers_of_http_2_that_are_taken_slowly() {
    const WINDOW: usize = 65_535;
    let weir = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"]);
    let path = "/api/v2/openapi.json";
    let length = weir.get(path).expect(200).body.len();
    assert!(length > WINDOW, "{length} bytes");
    let mut stream = TcpStream::connect(weir.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
    // GET, http, the authority `weir`, the path.
    let head = [&b"\x82\x86\x01\x04weir\x04"[..], &[path.len() as u8], path.as_bytes()].concat();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is taken");
    stream.write_all(&[&[0, 0, head.len() as u8, 1, 5, 0, 0, 0, 1][..], &head[..]].concat()).expect("it is taken");
    // How long the next piece of the body is, and whether it is the last one.
    let piece = |mut stream: &TcpStream| -> io::Result<(usize, bool)> {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head)?;
            let mut bytes = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut bytes)?;
            if head[3] == 0 {
                return Ok((bytes.len(), head[4] & 1 == 1));
            }
        }
    };
    let mut got = 0;
    while got < WINDOW {
        got += piece(&stream).expect("a part of the answer").0;
    }
    weir.signal(Signal::TERM);
    std::thread::sleep(Duration::from_secs(4));
    for of in [0, 1] {
        stream.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, of, 1, 0, 0, 0]).expect("the connection is still there");
    }
    let mut is_whole = false;
    while !is_whole {
        let (bytes, is_last) = piece(&stream).expect("the rest of the answer");
        (got, is_whole) = (got + bytes, is_last);
    }
    assert_eq!(got, length);
    drop(stream);
    let (status, log) = weir.wait_end(PATIENCE);
    assert!(status.success() && !log.contains("they are cut"), "{log}");
}

#[test]
fn figures_are_handed_on() {
    let influx = Endpoint::start("/nothing");
    let home = Home::new();
    let (host, port) = (influx.address().ip(), influx.address().port());
    home.write(
        "weir.conf",
        format!(
            "weir {{ store.type = in-memory, workers = 1, metrics-reporters = [\
               {{type = jmx}}, {{type = csv, period = 100 ms, log-directory = figures}}, \
               {{type = slf4j, period = 100 ms, logger-name = mine}}, \
               {{type = influxdb, period = 100 ms, host = \"{host}\", port = {port}, database = \"my db\", user = u, password = hush}}] }}"
        ),
    );
    let weir = home.start(&["weir.conf"]);
    let kinds = weir.get("/api/v2/system/config").expect(200);
    assert_eq!(kinds.json()["metricsReporterTypes"], json!(["jmx", "csv", "slf4j", "influxdb"]));
    assert!(!kinds.text().contains("hush"));
    let stream =
        json!({"type": "NumberIteratorIngest", "ingestLimit": 7, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    weir.post("/api/v1/ingest/my%20numbers", &stream).expect(200);
    let file = home.file("figures/ingest.my%20numbers.count.csv");
    eventually("a file of the stream", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.starts_with("t,count\n") && text.ends_with(",7\n"))
    });
    eventually("a line of the log", || weir.log().contains("mine: type=COUNTER, name=ingest.my numbers.count, count=7"));
    let mut requests = Vec::new();
    eventually("a point of the stream", || {
        requests.extend(influx.take());
        requests
            .iter()
            .any(|(_, body)| body.as_str().is_some_and(|text| text.contains("ingest.my\\ numbers.count,member_id=0 count=7i ")))
    });
    assert_eq!(requests[0].0, "/query?q=CREATE%20DATABASE%20%22my%20db%22");
    assert!(requests[1..].iter().all(|(path, _)| path == "/write?db=my%20db&precision=ms"), "{:?}", requests[1]);
    assert!(weir.log().contains("jmx is without effect"));
    weir.stop();
    // A configuration that cannot be meant.
    let refused = home.spawn(&["-Dweir.metrics-reporters=[{type=graphite}]"]);
    let (status, log) = refused.wait_end(PATIENCE);
    assert!(!status.success() && log.contains("metrics-reporters[0]: there is no reporter 'graphite'"), "{log}");
}

/// While it reads a graph weir lives, and says what it is at; then it is ready, on the same port.
#[test]
fn a_start_that_takes_time_is_told() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=1"]);
    let stream = json!({"type": "NumberIteratorIngest", "ingestLimit": 300_000, "format": {"type": "CypherLine",
        "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n:Number, n.value = $that, n.text = 'number ' + $that"}});
    weir.post("/api/v1/ingest/numbers", &stream).expect(200);
    weir.wait_ingest("numbers", "Completed", Duration::from_secs(120));
    weir.kill();
    let port = free_address();
    let mut weir = home.spawn(&["-Dweir.workers=1", &format!("-Dweir.webserver.port={}", port.port())]);
    let ask = |path: &str| client::send(port, "GET", path, &[], b"");
    let (mut lived, mut reasons) = (0, Vec::new());
    let deadline = Instant::now() + REPLAY_MAX;
    loop {
        assert!(Instant::now() < deadline, "weir does not become ready: {reasons:?}");
        let Ok(readiness) = ask("/api/v2/admin/readiness") else { continue };
        if readiness.status == 204 {
            break;
        }
        assert_eq!((readiness.status, readiness.header("retry-after")), (503, Some("5")), "{}", readiness.shown());
        let reason = readiness.json()["error"]["message"].as_str().expect("a reason").to_owned();
        assert!(reason.starts_with("weir is not ready: ") && reason.contains("started"), "{reason}");
        reasons.push(reason);
        let [liveness, other] = ["/api/v1/admin/liveness", "/api/v1/ingest"].map(|path| ask(path).map(|answer| answer.status));
        lived += u32::from(liveness.is_ok_and(|status| status == 204));
        assert!(other.is_ok_and(|status| [503, 200].contains(&status)));
        // A browser is shown a page, and asks again by itself.
        let page = ask("/docs").expect("an answer");
        assert!(page.status == 200 || page.text().contains("http-equiv=\"refresh\""), "{}", page.shown());
    }
    assert!(lived > 0 && reasons.iter().any(|reason| reason.contains("the graph is being read")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains(" entries of the log re")), "{reasons:?}");
    weir.wait_ready();
    assert_eq!(weir.rows("MATCH (n:Number) RETURN count(n)"), [json!([300_000])]);
}

/// The first process of a container is not ended by a signal that it does not watch for.
#[test]
fn the_first_process_of_a_container_can_be_ended_while_it_starts() {
    let alone = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).arg(program);
        command
    };
    if !alone(Path::new("true")).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("left out: there are no namespaces of processes for this user here (unshare of util-linux)");
        return;
    }
    // A recipe that does not come keeps weir from starting.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    silent.set_nonblocking(true).expect("a listener");
    let url = format!("http://{}/recipe.yaml", silent.local_addr().expect("a port"));
    let home = Home::new();
    let mut command = alone(&binary());
    command.args(["-r", &url]).current_dir(home.path()).stderr(Stdio::piped()).env("no_proxy", "127.0.0.1");
    let mut outside = command.spawn().expect("unshare runs");
    let children = format!("/proc/{0}/task/{0}/children", outside.id());
    let (mut first, mut asked) = (None, None);
    eventually("the request for the recipe", || {
        let ids = std::fs::read_to_string(&children).unwrap_or_default();
        first = ids.split_whitespace().next().and_then(|id| Pid::from_raw(id.parse().ok()?));
        asked = asked.take().or_else(|| silent.accept().ok());
        first.is_some() && asked.is_some()
    });
    kill_process(first.expect("it is there"), Signal::TERM).expect("a signal can be sent to it");
    let deadline = Instant::now() + PATIENCE;
    while outside.try_wait().expect("a child").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let is_over = outside.try_wait().expect("a child").is_some();
    let _ = (outside.kill(), outside.wait());
    let mut said = String::new();
    outside.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(is_over && said.contains("SIGTERM before weir was ready"), "{said}");
}

/// Who starts weir by hand is told where it is, what it works with, and what to do next.
#[test]
fn a_start_on_a_terminal_says_what_there_is_and_what_to_do_next() {
    let home = Home::new();
    let mut command = Command::new(binary());
    command.args(["-p", "0", "-Dweir.workers=2", "-Dweir.store.type=in-memory", "-Dweir.webserver.address=127.0.0.1"]);
    let mut terminal = Terminal::start(command.current_dir(home.path()).env_remove("WEIR_LOG"), 100);
    terminal.wait("is ready at http://127.0.0.1:");
    let first = terminal.wait("\n  store     in memory, gone when weir stops\n  workers   2\n");
    assert!(!first.contains("is ready") && !first.contains('\n'), "it is said once: {first}");
    terminal.wait("  the API   http://127.0.0.1:");
    let port = terminal.wait("/docs\n");
    let next = terminal.wait("\n  stop with Ctrl-C\n");
    assert_eq!(next, format!("  ask it    weir shell --url http://127.0.0.1:{port}"));
    terminal.interrupt();
    terminal.wait("Stopped.");
    assert!(terminal.wait_end().success());
}

/// One file that says what is in it, and brings its own manual and completions.
#[test]
fn the_binary_says_what_it_is() {
    let say = |arguments: &[&str]| {
        let output = Command::new(binary()).args(arguments).output().expect("weir runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let version = say(&["--version"]);
    let (first, rest) = version.split_once('\n').expect("more than a line");
    assert!(first.starts_with(&format!("weir {} (stores: rocks-db, ", weir_api::VERSION)), "{version}");
    for part in ["sources: File, ", "destinations: ", "API: v1, v2", &format!("built for: {}", std::env::consts::OS)] {
        assert!(rest.lines().any(|line| line.starts_with(part)), "{part} is missing: {version}");
    }
    let manual = say(&["manual"]);
    assert!(manual.contains(".TH weir 1") && manual.contains(".SH \"WEIR QUERY\"") && manual.contains("Exit codes"), "{manual}");
    assert!(say(&["completions", "bash"]).contains("--recipe-value") && say(&["completions", "fish"]).contains("recipe-value"));
}

/// A thread still within RocksDB or librdkafka when weir ends would find their locks destroyed, and the process be aborted.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn an_end_destroys_nothing_that_threads_may_be_within() {
    // The loader tells when it has a library set up, and when it has it destroy what it has.
    let output = Command::new(binary()).args(["completions", "bash"]).env("LD_DEBUG", "files").output().expect("weir runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.ends_with(b"\nfi\n"), "{output:?}");
    assert!(told.contains("calling init") && !told.contains("calling fini"), "{told}");
}

/// Writes, standing queries and streams come to a namespace while it is dropped: each happens or is refused, nobody waits, and
/// the next one of its name has nothing of them.
#[test]
fn a_namespace_is_dropped_while_things_begin_in_it() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory", "-Dweir.workers=2"]);
    home.write("lines", "{}\n".repeat(20));
    let standing = json!({
        "pattern": {"type": "Cypher", "mode": "MultipleValues", "query": "MATCH (n) WHERE n.x = 1 RETURN id(n) AS id"},
        "outputs": {}
    });
    let stream = json!({
        "type": "FileIngest", "path": home.file("lines"), "parallelism": 1,
        "format": {"type": "CypherJson", "query": "CREATE (:Y)"}
    });
    let quick = |began: Instant, what: &str| assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
    for round in 0..25 {
        weir.put("/api/v1/namespace/n1").expect(201);
        let goes_on = AtomicBool::new(true);
        let until_refused = |what: &str, ask: &dyn Fn() -> Answer| {
            while goes_on.load(Ordering::Relaxed) {
                let (began, answer) = (Instant::now(), ask());
                quick(began, what);
                // A stream or query of this name may be there already.
                assert!(matches!(answer.status, 200 | 201 | 400 | 404), "{what}: {}", answer.shown());
            }
        };
        std::thread::scope(|scope| {
            let cypher = "/api/v1/query/cypher?namespace=n1";
            scope.spawn(|| {
                until_refused("a write", &|| weir.send("POST", cypher, &[("Content-Type", "text/plain")], b"CREATE (:Z)"))
            });
            scope.spawn(|| until_refused("a write elsewhere", &|| weir.query("CREATE (:Ok)")));
            scope.spawn(|| until_refused("a query", &|| weir.post("/api/v1/query/standing/s?namespace=n1", &standing)));
            scope.spawn(|| until_refused("a stream", &|| weir.post("/api/v1/ingest/i?namespace=n1", &stream)));
            std::thread::sleep(Duration::from_millis(5 * (round % 5)));
            let began = Instant::now();
            weir.delete("/api/v1/namespace/n1").expect(200);
            quick(began, "the drop");
            std::thread::sleep(Duration::from_millis(10));
            goes_on.store(false, Ordering::Relaxed);
        });
        weir.put("/api/v1/namespace/n1").expect(201);
        assert_eq!(weir.get("/api/v1/query/standing?namespace=n1").expect(200).json(), json!([]), "round {round}");
        assert_eq!(weir.get("/api/v1/ingest?namespace=n1").expect(200).json(), json!({}), "round {round}");
        weir.delete("/api/v1/namespace/n1").expect(200);
    }
}
