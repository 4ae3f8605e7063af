//! Clients that are wrong, slow, many or hostile: each is answered or left, with a message that helps, and weir goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use weir_tests::client::{self, Answer};
use weir_tests::service::{Home, START_MAX, Weir, takes_at_most, wait_until};
use weir_tests::socket::Socket;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(60);

const EXPECT: &str = "Expect: 100-continue";

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

fn weir(more: &[&str]) -> Weir {
    Home::new().start(&[&["-Dweir.store.type=in-memory", "-Dweir.workers=1"], more].concat())
}

/// Sends bytes as they are; gives all that comes back until the server closes.
fn raw(weir: &Weir, parts: &[&[u8]], pause: Duration) -> String {
    let mut stream = TcpStream::connect(weir.address()).expect("weir listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
    for part in parts {
        // A server that has had enough closes while we are still talking.
        if stream.write_all(part).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_well(weir: &Weir) {
    weir.get("/api/v2/system/liveness").expect(204);
    assert_eq!(weir.rows("RETURN 1 AS x"), vec![json!([1])]);
    assert!(!weir.log().contains("panicked"), "{}", weir.log());
}

#[test]
fn bodies_that_are_too_long_are_refused_before_they_are_read() {
    let weir = weir(&[]);
    let before = weir.resident_megabytes();
    let head = "POST /api/v1/query/cypher HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let answer = raw(&weir, &[format!("{head}Content-Length: 104857600\r\n\r\n{{").as_bytes()], Duration::ZERO);
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("67108864"), "{answer}");
    // Without a length, in chunks: read up to the limit, and no further.
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let head = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let mut parts = vec![head.as_bytes()];
    parts.resize(101, &chunk);
    let answer = raw(&weir, &parts, Duration::ZERO);
    // It may take longer to send all that than the server waits: then the answer may be lost with the connection, as TCP has it.
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let long = weir.send("POST", "/api/v1/query/cypher", &[("Content-Type", "text/plain")], &vec![b' '; 2 << 20]).expect(400);
    assert!(long.text().contains("query.text-bytes-max"), "{}", long.shown());
    is_well(&weir);
    let after = weir.resident_megabytes();
    assert!(after < before + 200, "from {before} MB to {after} MB");
}

/// Sends all of it, and reads then; gives why that is not how long a definition may be.
fn answer_when_all_is_sent(weir: &Weir, head: &str, parts: &[&[u8]]) -> Result<(), String> {
    let said = |what: &str, error: std::io::Error| format!("{what}: {error}");
    let mut stream = TcpStream::connect(weir.address()).map_err(|error| said("connecting", error))?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit of time");
    stream.set_write_timeout(Some(PATIENCE)).expect("a limit of time");
    stream.write_all(head.as_bytes()).map_err(|error| said("sending the head", error))?;
    if head.contains(EXPECT) {
        let mut asked = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
        stream.read_exact(&mut asked).map_err(|error| said("being asked for the body", error))?;
        assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    for part in parts {
        stream.write_all(part).map_err(|error| said("sending the body", error))?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| said("reading", error))?;
    if answer.starts_with("HTTP/1.1 413 ") && answer.contains("4194304") { Ok(()) } else { Err(answer) }
}

/// They saw a broken pipe: the server closed while they were still sending.
#[test]
fn what_is_too_long_is_told_to_clients_that_read_when_they_have_sent_all() {
    let weir = weir(&[]);
    // Much more than lies in the buffers of a connection.
    let body = vec![b' '; 24 << 20];
    let head = "POST /api/v1/ingest/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let announced = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    let in_chunks = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    let asks = format!("{head}Transfer-Encoding: chunked\r\n{EXPECT}\r\n\r\n");
    let length = format!("{:x}\r\n", body.len());
    let (begin, end) = (length.as_str(), "\r\n0\r\n\r\n");
    for (head, begin, end) in [(announced, "", ""), (in_chunks, begin, end), (asks, begin, end)] {
        let parts = [begin.as_bytes(), &body, end.as_bytes()];
        // A machine under load may take longer to send all of it than weir goes on reading.
        let tries: Vec<String> = (0..3).map_while(|_| answer_when_all_is_sent(&weir, &head, &parts).err()).collect();
        assert!(tries.len() < 3, "{head}: {tries:?}");
    }
    is_well(&weir);
}

/// The end waited for 5 s more, as long as the client went on sending.
#[test]
fn an_end_does_not_wait_for_what_nobody_takes_any_more() {
    takes_at_most("the end", Duration::from_secs(5), || {
        let weir = weir(&[]);
        let mut stream = TcpStream::connect(weir.address()).expect("weir listens");
        let head = "POST /api/v1/query/cypher HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
        stream.write_all(format!("{head}Content-Length: 1000000\r\n\r\n").as_bytes()).expect("it is taken");
        let sender = std::thread::spawn(move || {
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        // It is read meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        weir.signal(Signal::TERM);
        let (status, log) = weir.wait_end(PATIENCE);
        let took = began.elapsed();
        assert!(status.success(), "weir ended with {status}; it said:\n{log}");
        sender.join().expect("it ends with the connection");
        took
    });
}

#[test]
fn bodies_that_cannot_be_read_say_why() {
    let weir = weir(&[]);
    let deep = "[".repeat(100_000);
    let deep_parameters =
        format!("{{\"text\": \"RETURN $a\", \"parameters\": {{\"a\": {}{}}}}}", "[".repeat(5000), "]".repeat(5000));
    let yaml: &[(&str, &str)] = &[("Content-Type", "application/yaml")];
    let anchors = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    for (headers, body, status) in [
        (JSON, deep.as_bytes(), 400),
        (JSON, deep_parameters.as_bytes(), 400),
        (JSON, b"{\"text\": \"RETURN 1\"".as_slice(), 400),
        (JSON, b"{\"text\": \"\xff\xfe\"}", 400),
        (JSON, b"\xff\xfe\x00", 400),
        (JSON, b"{\"text\": \"RETURN $a\", \"parameters\": {\"a\": 1e400}, \"b\": 1e400}", 400),
        (yaml, b"{\"text\": \"RETURN $a\", \"parameters\": {\"a\": 1e400}, \"b\": 1e400}", 400),
        (yaml, b"{text: 'RETURN $a', parameters: {a: .inf}}", 400),
        (yaml, b"{\"text\": \"RETURN '\\ud800'\"}", 400),
        (yaml, deep.as_bytes(), 400),
        (yaml, anchors.as_bytes(), 400),
        (&[("Content-Type", "text/plain")], b"RETURN '\xff'", 400),
        (&[("Content-Type", "image/png")], b"RETURN 1", 415),
        (&[("Content-Type", "nonsense")], b"RETURN 1", 415),
        (&[], b"RETURN 1", 415),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        takes_at_most(&shown, Duration::from_secs(10), || {
            let began = Instant::now();
            for path in ["/api/v1/query/cypher", "/api/v1/query/gremlin"] {
                let answer = weir.send("POST", path, headers, body);
                assert_eq!(answer.status, status, "{shown}: {}", answer.shown());
                assert!(!answer.body.is_empty(), "{shown}: no word about why");
            }
            began.elapsed()
        });
    }
    // Parameters are values, and there is one for what is beyond floats, as in records.
    for headers in [JSON, yaml] {
        let body = b"{\"text\": \"RETURN $a, $b\", \"parameters\": {\"a\": -1e400, \"b\": \"\\ud800\"}}";
        let answer = weir.send("POST", "/api/v1/query/cypher", headers, body).expect(200).json();
        assert_eq!(answer["results"], json!([["-Infinity", "?"]]));
    }
    for (method, path, statuses) in [
        ("PATCH", "/api/v1/ingest/x", [404, 405]),
        ("DELETE", "/api/v2/system/metrics", [405, 405]),
        ("PUT", "/api/v2/graph/quine/cypher:query", [405, 405]),
        ("BREW", "/api/v2/system/metrics", [405, 501]),
        ("GET", "/api/v2/nothing/here", [404, 404]),
    ] {
        let answer = weir.send(method, path, &[], b"");
        assert!(statuses.contains(&answer.status), "{method} {path}: {}", answer.shown());
    }
    is_well(&weir);
}

/// Short values become many times as long as they are.
#[test]
fn bodies_that_would_take_gigabytes_are_refused() {
    let weir = weir(&[]);
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
    let head = "POST /api/v1/ingest/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let long = raw(&weir, &[format!("{head}Content-Length: 4194305\r\n\r\n{{").as_bytes()], Duration::ZERO);
    assert!(long.starts_with("HTTP/1.1 413 ") && long.contains("4194304"), "{long}");
    let named = format!("a: &a {}\nb: [{}]\n", zeros(5_000), vec!["*a"; 5_000].join(", "));
    let yaml = [("Content-Type", "application/yaml")];
    let large = weir.send("POST", "/api/v1/ingest/x", &yaml, named.as_bytes()).expect(400).text();
    assert!(large.contains("128 MiB"), "{large}");
    let ask = |x: &str| {
        let body = format!("{{\"text\": \"RETURN size($x)\", \"parameters\": {{\"x\": {x}}}}}");
        weir.send("POST", "/api/v1/query/cypher", JSON, body.as_bytes())
    };
    let many = ask(&zeros(5 << 20)).expect(400).text();
    assert!(many.contains("4194304 values"), "{many}");
    // Many are taken, and long ones.
    assert_eq!(ask(&zeros(100_000)).expect(200).json()["results"], json!([[100_001]]));
    assert_eq!(ask(&format!("\"{}\"", ",".repeat(20 << 20))).expect(200).json()["results"], json!([[20 << 20]]));
    // So it is with what is put at a single node.
    let id = weir.rows("RETURN idFrom('long')")[0][0].as_str().expect("an id").to_owned();
    let put = |value: &str| weir.send("PUT", &format!("/api/v1/debug/{id}/props?key=x"), JSON, value.as_bytes());
    let many = put(&zeros(5 << 20)).expect(400).text();
    assert!(many.contains("4194304 values"), "{many}");
    put(&format!("\"{}\"", "x".repeat(5 << 20))).expect(200);
    assert_eq!(weir.rows("MATCH (n) WHERE id(n) = idFrom('long') RETURN size(n.x)"), [json!([5 << 20])]);
    is_well(&weir);
}

#[test]
fn pages_from_elsewhere_change_nothing_and_run_nothing() {
    let weir = weir(&[]);
    let (query, text) = ("/api/v1/query/cypher", ("Content-Type", "text/plain"));
    let (evil, own) = (("Origin", "http://evil.example"), format!("http://{}", weir.address()));
    for (method, path) in [
        ("POST", query),
        ("POST", "/api/v2/graph/quine/cypher:query"),
        ("POST", "/api/v1/query/gremlin"),
        ("POST", "/api/v1/admin/import"),
        ("POST", "/api/v1/admin/backup"),
        ("POST", "/api/v1/admin/shutdown"),
        ("PUT", "/api/v1/namespace/other"),
        ("DELETE", "/api/v1/ingest/nope"),
    ] {
        for origin in [evil, ("Origin", "null")] {
            let refused = weir.send(method, path, &[text, origin], b"CREATE (:Evil)").expect(403).text();
            assert!(refused.contains(origin.1) && refused.contains("webserver.allowed-origins"), "{method} {path}: {refused}");
        }
    }
    assert!(weir.log().contains(evil.1), "{}", weir.log());
    assert_eq!(weir.rows("MATCH (n:Evil) RETURN count(n)"), [json!([0])]);
    // weir's own pages, also where a proxy asks by another name; and what only looks.
    let ask = |weir: &Weir, more: &[(&str, &str)]| weir.send("POST", query, &[&[text], more].concat(), b"RETURN 1").status;
    assert_eq!(ask(&weir, &[("Origin", own.as_str())]), 200);
    assert_eq!(ask(&weir, &[("Origin", "https://weir.example.com"), ("X-Forwarded-Host", "weir.example.com")]), 200);
    assert_eq!(ask(&weir, &[("Origin", "https://weir.example.com"), ("Sec-Fetch-Site", "same-origin")]), 200);
    assert_eq!(ask(&weir, &[evil, ("Sec-Fetch-Site", "cross-site")]), 403);
    weir.send("GET", "/api/v1/admin/build-info", &[evil], b"").expect(200);
    let open = Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.webserver.allowed-origins=[\"http://evil.example\"]"]);
    assert_eq!((ask(&open, &[evil]), ask(&open, &[("Origin", "null")])), (200, 403));
    is_well(&weir);
}

/// Browsers ask before they send JSON, and keep an answer from a page unless it says that the page may read it.
#[test]
fn a_page_that_is_named_is_told_that_it_may() {
    let (query, page) = ("/api/v1/query/cypher", "https://ui.example.com");
    let start = |origins: &str| {
        Home::new().start(&["-Dweir.store.type=in-memory", &format!("-Dweir.webserver.allowed-origins=[\"{origins}\"]")])
    };
    let ask_first = |weir: &Weir, origin: &str| {
        let asks =
            [("Origin", origin), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")];
        weir.send("OPTIONS", query, &asks, b"")
    };
    let shown = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    let named = start(page);
    let permission = ask_first(&named, page).expect(204);
    assert_eq!((shown(&permission).as_deref(), permission.header("vary")), (Some(page), Some("origin")));
    let has = |name: &str, value: &str| permission.header(name).is_some_and(|all| all.split(", ").any(|one| one == value));
    assert!(has("access-control-allow-methods", "POST") && has("access-control-allow-headers", "content-type"));
    assert!(permission.header("access-control-max-age").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
    // Answers of every kind, errors too.
    let send = |weir: &Weir, origin: &str, method: &str, path: &str, body: &str| {
        weir.send(method, path, &[("Origin", origin), ("Content-Type", "text/plain")], body.as_bytes())
    };
    for (method, path, body, status) in [
        ("POST", query, "RETURN 1", 200),
        ("POST", query, "RETURN x", 400),
        ("GET", "/api/v2/nothing/here", "", 404),
        ("OPTIONS", query, "", 405),
        ("GET", "/docs/openapi.json", "", 200),
    ] {
        let answer = send(&named, page, method, path, body).expect(status);
        assert_eq!((shown(&answer).as_deref(), answer.header("vary")), (Some(page), Some("origin")), "{method} {path}");
        let exposed = answer.header("access-control-expose-headers").unwrap_or_default();
        assert!(exposed.contains("weir-diagnostics"), "{method} {path}: {exposed}");
    }
    let mut events = client::open(named.address(), "GET", "/live/events", &[("Origin", page)], b"").expect("weir can be reached");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        events.read_exact(&mut byte).expect("the head of an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.contains(&format!("access-control-allow-origin: {page}\r\n")), "{head}");
    // Of others, and where none is named, nothing is said.
    let evil = "http://evil.example";
    let answer = ask_first(&named, evil).expect(405);
    assert_eq!(
        (shown(&answer), answer.header("vary"), answer.header("access-control-allow-methods")),
        (None, Some("origin"), None)
    );
    assert_eq!(shown(&send(&named, evil, "GET", "/api/v1/admin/build-info", "").expect(200)), None);
    assert_eq!(shown(&named.get("/api/v1/admin/build-info").expect(200)), None);
    let usual = weir(&[]);
    assert_eq!(shown(&ask_first(&usual, page).expect(405)), None);
    let own = format!("http://{}", usual.address());
    let answer = send(&usual, &own, "POST", query, "RETURN 1").expect(200);
    assert_eq!((shown(&answer), answer.header("strict-transport-security")), (None, None));
    let open = start("*");
    assert_eq!(shown(&ask_first(&open, "null").expect(204)).as_deref(), Some("null"));
    assert_eq!(shown(&send(&open, evil, "POST", query, "RETURN 1").expect(200)).as_deref(), Some(evil));
}

#[test]
fn slow_clients_are_left() {
    // A limit each: whoever is held up between connecting and sending a head would meet the other one.
    let of_heads = weir(&["-Dweir.webserver.header-timeout=500 ms"]);
    let of_bodies = weir(&["-Dweir.webserver.body-timeout=500 ms"]);
    // A header that never ends, and a body that never comes.
    let body = b"POST /api/v1/query/cypher HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 100\r\n\r\nRETURN";
    takes_at_most("slow clients are left", Duration::from_secs(10), || {
        let began = Instant::now();
        let answer = raw(&of_heads, &[b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"a", b"b"], Duration::from_millis(100));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
        let answer = raw(&of_bodies, &[body], Duration::ZERO);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        began.elapsed()
    });
    is_well(&of_heads);
    is_well(&of_bodies);
}

#[test]
fn thousands_of_idle_sockets_keep_nobody_out() {
    let weir = weir(&["-Dweir.webserver.header-timeout=1 s"]);
    let before = weir.resident_megabytes();
    let mut open: Vec<TcpStream> = Vec::new();
    takes_at_most("an answer beside idle sockets", Duration::from_secs(2), || {
        // Those of the try before have been closed.
        open.clear();
        open.extend((0..2000).map_while(|_| TcpStream::connect(weir.address()).ok()));
        assert!(open.len() >= 500, "only {} sockets can be had here", open.len());
        let began = Instant::now();
        is_well(&weir);
        began.elapsed()
    });
    assert!(weir.resident_megabytes() < before + 200);
    // They have said nothing for longer than they may, so they are closed.
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", weir.pid())).map_or(0, Iterator::count);
    wait_until("most of them are closed", PATIENCE, || descriptors() <= 300);
    drop(open);
    is_well(&weir);
}

#[test]
fn names_are_names_whatever_is_in_them() {
    let weir = weir(&[]);
    let stream =
        json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    for (encoded, name) in [
        ("a%2Fb", "a/b"),
        ("%2E%2E", ".."),
        ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("%E2%9C%93%F0%9F%8C%88", "✓🌈"),
        ("a%20b%3Fc%23d", "a b?c#d"),
        ("%00", "\0"),
        ("control", "control"),
    ] {
        let path = format!("/api/v1/ingest/{encoded}");
        weir.post(&path, &stream).expect(200);
        let listed = weir.get("/api/v1/ingest").expect(200).json();
        assert!(listed.get(name).is_some(), "{name:?}: {listed}");
        assert_eq!(weir.get(&path).expect(200).json()["name"], name);
        assert_eq!(weir.send("DELETE", &path, &[], b"").expect(200).json()["name"], name);
        weir.get(&path).expect(404);
    }
    // A byte that is no part of a character, and names that v2 has rules for.
    let answer = weir.get("/api/v1/ingest/%FF");
    assert!([400, 404].contains(&answer.status), "{}", answer.shown());
    for name in ["", "a/b", "a:b", "é", &"x".repeat(200)] {
        let body = json!({"name": name, "query": "RETURN $that", "source": {"type": "NumberIterator", "limit": 1}});
        weir.post("/api/v2/graph/quine/ingests", &body).expect(400);
    }
    is_well(&weir);
}

#[test]
fn things_may_be_ended_at_any_moment() {
    let weir = weir(&[]);
    let stream = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 1000, "format": {"type": "CypherLine", "query": "MATCH (n) WHERE id(n) = idFrom($that) SET n.x = 1"}});
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let created = weir.post("/api/v1/ingest/busy", &stream).status;
                    let deleted = weir.send("DELETE", "/api/v1/ingest/busy", &[], b"").status;
                    assert!([200, 400].contains(&created) && [200, 404].contains(&deleted), "{created} {deleted}");
                }
            });
        }
    });
    assert_eq!(weir.get("/api/v1/ingest").expect(200).json(), json!({}));
    let short =
        json!({"type": "NumberIteratorIngest", "ingestLimit": 1, "format": {"type": "CypherLine", "query": "RETURN $that"}});
    weir.post("/api/v1/ingest/short", &short).expect(200);
    weir.wait_ingest("short", "Completed", PATIENCE);
    for verb in ["pause", "start"] {
        let answer = weir.send("PUT", &format!("/api/v1/ingest/short/{verb}"), &[], b"").expect(400);
        // Clients know a stream that ended on its own as one that failed.
        assert!(answer.text().contains("a failed ingest"), "{verb}: {}", answer.shown());
    }
    let again = weir.post("/api/v1/ingest/short", &short).expect(400);
    assert!(again.text().contains("short"), "{}", again.shown());
    is_well(&weir);
}

#[test]
fn a_recipe_with_a_field_nobody_knows_says_which() {
    let home = Home::new();
    let recipe = json!({"version": 1, "title": "t", "ingestStream": [], "nonsense": true});
    home.write("recipe.yaml", recipe.to_string());
    let (status, log) = home.spawn(&["-r", "recipe.yaml"]).wait_end(START_MAX);
    assert!(!status.success() && log.contains("ingestStream"), "{log}");
}

/// Rounds of everything above and more, at the end of which weir has no more connections, threads and memory than after the first
/// of them. `WEIR_ABUSE_SECONDS` is how long; `make abuse` sets it.
#[test]
fn nothing_leaks_under_abuse() {
    let times = ["-Dweir.webserver.header-timeout=1 s", "-Dweir.webserver.body-timeout=1 s", "-Dweir.query.client-patience=1 s"];
    // Without a past, which would grow.
    let weir = weir(&[&["-Dweir.store.type=empty"], &times[..]].concat());
    let seconds = std::env::var("WEIR_ABUSE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", weir.pid())).map_or(0, Iterator::count);
    // What a round leaves to limits of time is over when they are.
    let rest = || std::thread::sleep(Duration::from_millis(2500));
    for round in 0..20 {
        abuse(&weir, round);
    }
    rest();
    let look = || (count("fd"), count("task"), weir.resident_megabytes());
    let before = look();
    let (began, mut rounds) = (Instant::now(), 20);
    let mut most = before;
    // A tenth of the time each.
    let mut course = Vec::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        abuse(&weir, rounds);
        rounds += 1;
        let now = look();
        if began.elapsed().as_secs() * 10 >= seconds * (course.len() as u64 + 1) {
            course.push(now.2);
        }
        most = (most.0.max(now.0), most.1.max(now.1), most.2.max(now.2));
    }
    rest();
    // A machine that is busy sees to what is over a little later. What leaked stays.
    let is_left = |after: (usize, usize, u64)| after.0 > before.0 + 5 || after.1 > before.1 + 20 || after.2 > before.2 + 64;
    let (mut after, deadline) = (look(), Instant::now() + PATIENCE);
    while is_left(after) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
        after = look();
    }
    eprintln!(
        "{rounds} rounds in {seconds} s; open files, threads, MB resident: {before:?} before, {most:?} at most, {after:?} after; \
         megabytes in the course of it: {course:?}"
    );
    is_well(&weir);
    let running = || weir.get("/api/v1/query/cypher/running").expect(200).json();
    wait_until("no query runs any more", PATIENCE, || running() == json!([]));
    assert!(after.0 <= before.0 + 5, "open files: {before:?}, then {after:?}");
    // Those of tokio that wait for work come and go.
    assert!(after.1 <= before.1 + 20, "threads: {before:?}, then {after:?}");
    assert!(after.2 <= before.2 + 64, "megabytes: {before:?}, then {after:?}");
}

/// One of each kind of client that is wrong, at the same time.
fn abuse(weir: &Weir, round: u32) {
    let query = "/api/v1/query/cypher";
    let head = |length: usize| {
        format!(
            "POST {query} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    std::thread::scope(|scope| {
        // Never a word, half a header, half a body; all leave in the middle.
        scope.spawn(|| drop((0..20).filter_map(|_| TcpStream::connect(weir.address()).ok()).collect::<Vec<_>>()));
        scope.spawn(|| {
            for part in ["GET /api/v1/admin/live", "POST / HTTP/1.1\r\nX: ", "PRI * HTTP/2.0\r\n\r\nSM", "\x16\x03\x01\x02"] {
                if let Ok(mut stream) = TcpStream::connect(weir.address()) {
                    let _ = stream.write_all(part.as_bytes());
                }
            }
        });
        scope.spawn(|| {
            let Ok(mut stream) = TcpStream::connect(weir.address()) else { return };
            let _ = stream.write_all(head(1000).as_bytes()).and_then(|()| stream.write_all(b"RETURN"));
        });
        // Who asks for much, takes a little of it and leaves.
        scope.spawn(|| {
            let text = "UNWIND range(1, 3000) AS x UNWIND range(1, 3000) AS y RETURN x, y, 'a text that is not that short'";
            let Ok(mut stream) = TcpStream::connect(weir.address()) else { return };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = stream.write_all(format!("{}{text}", head(text.len())).as_bytes());
            let _ = stream.read(&mut [0; 4096]);
        });
        scope.spawn(|| {
            let deep = "[".repeat(20_000);
            for body in [deep.as_bytes(), b"\xff\xfe", b"{", b"{\"text\": \"RETURN $nope\"}", &vec![b' '; 1 << 20]] {
                // Where the machine stands still for longer than a body may take, its client is left like any slow one.
                if let Ok(answer) = weir.try_send("POST", query, JSON, body) {
                    assert!([400, 408].contains(&answer.status), "{}", answer.shown());
                }
            }
        });
        // Web sockets that are left open without a word, in the middle of a query.
        scope.spawn(|| {
            let Ok(mut socket) = Socket::open(weir, "/api/v1/query") else { return };
            let run = json!({"type": "RunQuery", "queryId": 1, "query": "UNWIND range(1, 3000) AS x UNWIND range(1, 3000) AS y RETURN x, y", "sort": "TextSort", "parameters": {}, "language": "Cypher"});
            socket.send(&run.to_string());
        });
        scope.spawn(|| {
            let name = format!("stream-{}", round % 3);
            let stream = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 100, "format": {"type": "CypherLine", "query": "MATCH (n) WHERE id(n) = idFrom(0) SET n.x = $that"}});
            weir.post(&format!("/api/v1/ingest/{name}"), &stream).expect(200);
            weir.post(&format!("/api/v1/ingest/{name}"), &stream).expect(400);
            weir.delete(&format!("/api/v1/ingest/{name}")).expect(200);
            let pattern = json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": "MATCH (n) WHERE n.y = 1 RETURN n.x"}, "outputs": {"o": {"type": "Drop"}}});
            weir.post(&format!("/api/v1/query/standing/{name}"), &pattern).expect(201);
            // Who listens to its results is gone with it.
            let listens = client::open(weir.address(), "GET", &format!("/api/v1/query/standing/{name}/results"), &[], b"");
            weir.delete(&format!("/api/v1/query/standing/{name}")).expect(200);
            drop(listens);
        });
    });
}
