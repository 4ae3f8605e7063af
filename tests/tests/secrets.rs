//! Secrets that are kept elsewhere: in variables of the environment and in files, with the real binary, a real Redis and a server
//! that says what it was sent.

use std::fs;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::endpoint::request;
use weir_tests::redis::Redis;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{COUNT, RESUME, STREAMS, counted, message, numbers_to, refused, refused_v1, set_numbers, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// The header `x-key` of each request, in order.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    /// Answers each request with `{"id": n}`, a new number each time.
    fn start(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut input = BufReader::new(stream.try_clone().expect("a socket"));
                let mut out = stream;
                while let Some((_, headers, _)) = request(&mut input) {
                    let mut keys = asked.0.lock().expect("nobody panics with it");
                    keys.push(headers.get("x-key").cloned().unwrap_or_default());
                    let body = json!({"id": keys.len()}).to_string();
                    drop(keys);
                    let length = body.len();
                    if write!(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
                        .is_err()
                    {
                        break;
                    }
                }
            }
        });
        address
    }

    fn last(&self) -> String {
        self.0.lock().expect("nobody panics with it").last().cloned().unwrap_or_default()
    }
}

fn directories(home: &Home) -> String {
    fs::create_dir_all(home.file("secrets")).expect("a directory");
    format!("-Dweir.secrets.directories=[\"{}\"]", home.file("secrets").display())
}

fn stored(weir: &Weir, stream: &str) -> Json {
    weir.get(&format!("{STREAMS}/{stream}")).expect(200).json()["settings"]["source"].clone()
}

#[test]
fn a_password_in_a_file_is_looked_up_at_each_connection() {
    let Some(redis) = Redis::start("secrets that are kept in files") else { return };
    redis.say(&["CONFIG", "SET", "requirepass", "geheim"]);
    let home = Home::new();
    let arguments = [RESUME[0], &directories(&home)];
    let weir = home.start(&arguments);
    let file = home.file("secrets/redis");
    let reference = json!({"file": file});
    let source = json!({"type": "Redis", "url": redis.url(), "key": "results", "password": reference, "field": "value",
        "startFrom": "Earliest", "format": {"type": "Json"}, "recordDecoders": []});
    // What is not there is told to whoever makes the stream.
    refused(&weir, &source, "password: there is no file");
    refused(&weir, &with(source.clone(), json!({"password": {"file": home.file("secrets/../weir.log")}})), "secrets.directories");
    fs::write(&file, "geheim\n").expect("a file");
    let created = numbers_to(&weir, json!({"type": "Redis", "url": redis.url(), "key": "results", "password": reference}));
    assert!(created.contains(&reference.to_string()) && !created.contains("geheim"), "{created}");
    weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201);
    assert_eq!(stored(&weir, "back"), source);
    set_numbers(&weir, 0..20);
    wait_until("results have come back", PATIENCE, || counted(&weir).0 == 20);

    // Another password from now on; connections that are there stay, so they are cut.
    redis.kill();
    redis.run().expect("it starts again");
    redis.say(&["CONFIG", "SET", "requirepass", "anders"]);
    set_numbers(&weir, 20..30);
    wait_until("the old password is refused", PATIENCE, || message(&weir, "back").contains("the login is refused"));
    fs::write(&file, "anders").expect("a file");
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 30);

    // After a restart without the file the stream waits and says for what.
    weir.kill();
    fs::remove_file(&file).expect("it is there");
    let weir = home.start(&arguments);
    wait_until("the stream says what it lacks", PATIENCE, || message(&weir, "back").contains("there is no file"));
    set_numbers(&weir, 30..40);
    fs::write(&file, "anders\r\n").expect("a file");
    wait_until("all have come back", PATIENCE, || counted(&weir).0 == 40);
    weir.stop();
    assert!(!home.read("weir.log").contains("anders"), "the log holds a secret");
}

#[test]
fn a_variable_is_read_that_the_operator_allows() {
    let home = Home::new();
    let (asked, sent) = (Asked::default(), Asked::default());
    let (from, to) = (asked.start(), sent.start());
    let poll = |reference: Json| {
        json!({"type": "HttpPollIngest", "url": format!("http://{from}/"), "intervalSeconds": 1, "headers": {"X-Key": reference},
            "format": {"type": "CypherJson", "query": COUNT}})
    };
    let variables = [("WEIR_SECRET_KEY", "first"), ("HIDDEN", "hush")];
    let weir = home.start_with(&variables, RESUME);
    refused_v1(
        &weir,
        &poll(json!({"env": "HIDDEN"})),
        "headers.X-Key: the environment variable HIDDEN is not one that secrets.environment allows",
    );
    refused_v1(
        &weir,
        &poll(json!({"env": "WEIR_SECRET_OTHER"})),
        "headers.X-Key: the environment variable WEIR_SECRET_OTHER is not set",
    );
    refused_v1(&weir, &poll(json!({"file": "/etc/hostname"})), "not directly in a directory that secrets.directories names");
    refused_v1(&weir, &poll(json!({"env": ["hush"]})), "headers.X-Key: a secret takes a text");
    refused_v1(&weir, &poll(json!("Secret(****)")), "headers.X-Key: Secret(****) is the mask and not the secret");
    let post = |reference: Json| {
        json!({"pattern": {"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"},
            "outputs": {"out": {"type": "PostToEndpoint", "url": format!("http://{to}/"), "headers": {"x-key": reference}}}})
    };
    let told = weir.post("/api/v1/query/standing/numbers", &post(json!({"env": "WEIR_SECRET_NO"}))).expect(400).text();
    assert!(told.contains("headers.x-key: the environment variable WEIR_SECRET_NO is not set"), "{told}");
    // A definition as it is told, sent to another server, would have the mask used for the secret.
    weir.post("/api/v1/query/standing/shown", &post(json!("hush"))).expect(201);
    let shown = weir.get("/api/v1/query/standing/shown").expect(200).json();
    let told = weir.post("/api/v1/query/standing/numbers", &json!({"pattern": shown["pattern"], "outputs": shown["outputs"]}));
    let told = told.expect(400).text();
    assert!(told.contains("headers.x-key: Secret(****) is the mask and not the secret"), "{told}");
    weir.delete("/api/v1/query/standing/shown").expect(200);
    weir.post("/api/v1/query/standing/numbers", &post(json!({"env": "WEIR_SECRET_KEY"}))).expect(201);
    weir.post("/api/v1/ingest/polled", &poll(json!({"env": "WEIR_SECRET_KEY"}))).expect(200);
    wait_until("it is asked with the key", PATIENCE, || asked.last() == "first");
    set_numbers(&weir, 0..1);
    wait_until("it is sent with the key", PATIENCE, || sent.last() == "first");
    for shown in ["/api/v1/ingest/polled", "/api/v1/query/standing/numbers"] {
        let shown = weir.get(shown).expect(200).text();
        assert!(shown.contains(r#"{"env":"WEIR_SECRET_KEY"}"#) && !shown.contains("first"), "{shown}");
    }
    weir.kill();

    // A restart without it: results and requests wait, and nothing is given up.
    let weir = home.start(RESUME);
    wait_until("the stream says what it lacks", PATIENCE, || message(&weir, "polled").contains("WEIR_SECRET_KEY is not set"));
    set_numbers(&weir, 1..2);
    wait_until("the output says what it lacks", PATIENCE, || home.read("weir.log").contains("a secret cannot be had"));
    thread::sleep(Duration::from_secs(4));
    let shown = weir.get("/api/v1/query/standing/numbers").expect(200).text();
    assert!(!shown.contains(r#""failed":1"#), "{shown}");
    weir.kill();
    let weir = home.start_with(&[("WEIR_SECRET_KEY", "second")], RESUME);
    wait_until("it is asked with the new key", PATIENCE, || asked.last() == "second");
    wait_until("what waited is sent with it", PATIENCE, || sent.last() == "second");
    weir.stop();

    // The operator may allow others, and no longer these.
    let allowed = "-Dweir.secrets.environment=[\"HIDDEN\"]";
    let weir = home.start_with(&variables, &[RESUME[0], allowed]);
    weir.post("/api/v1/ingest/hidden", &poll(json!({"env": "HIDDEN"}))).expect(200);
    wait_until("it is asked with that", PATIENCE, || asked.last() == "hush");
    refused_v1(&weir, &poll(json!({"env": "WEIR_SECRET_KEY"})), "secrets.environment");
    weir.stop();
}
