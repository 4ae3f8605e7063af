//! Topics of MQTT, in and out, with the real binary and a real broker, across kills of both and cuts between them.

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::server::Server;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

const RESUME: &[&str] = &["-Dweir.should-resume-ingest=true"];

const STREAMS: &str = "/api/v2/graph/quine/ingests";

/// Each record counts itself, so that one that is lost or comes twice is seen.
const COUNT: &str = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.count = coalesce(n.count, 0) + 1";

/// Those that a broker repeats: what mosquitto has under way at once.
const UNDER_WAY: u64 = 20;

fn start(left_out: &str) -> Option<Server> {
    Server::start("mqtt.sh", 2, left_out)
}

/// Messages `{"id": n}` that the broker has acknowledged.
fn add(server: &Server, topic: &str, ids: Range<u64>) {
    let mut client = Command::new("mosquitto_pub");
    client.args(["-p", &server.port.to_string(), "-q", "1", "-l", "-t", topic]).stdin(Stdio::piped());
    let mut client = client.spawn().expect("mosquitto_pub runs");
    let lines: String = ids.map(|id| format!("{}\n", json!({"id": id}))).collect();
    client.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it listens");
    assert!(client.wait().expect("it ends").success());
}

/// How many records, how often the one that came most often, and how often all together.
fn counted(weir: &Weir) -> (u64, u64, u64) {
    let rows =
        weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN count(n), coalesce(max(n.count), 0), coalesce(sum(n.count), 0)");
    let number = |at: usize| rows[0][at].as_u64().expect("a count");
    (number(0), number(1), number(2))
}

fn message(weir: &Weir, stream: &str) -> String {
    weir.get(&format!("{STREAMS}/{stream}")).expect(200).json()["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn messages_that_are_not_durable_come_again_across_kills_of_either_side() {
    let Some(server) = start("topics of MQTT, read") else { return };
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let definition = json!({"type": "MqttIngest", "url": server.said("MQTT_URL"), "clientId": "weir", "topicFilters": ["a/+", "b"],
        "format": {"type": "CypherJson", "query": COUNT}, "maximumPerSecond": 500});
    weir.post("/api/v1/ingest/in", &definition).expect(200);
    wait_until("it is subscribed", PATIENCE, || {
        add(&server, "b", 0..1);
        counted(&weir).0 == 1
    });
    add(&server, "other", 5_000..5_010);
    add(&server, "a/b", 1..2_000);
    // What has been acknowledged and is not on disk yet would be lost with the broker, whoever reads.
    std::thread::sleep(Duration::from_secs(1));
    for round in 1..=4 {
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > round * 250);
        if round % 2 == 0 {
            weir.kill();
            weir = home.start(RESUME);
        } else {
            server.kill();
            server.run().expect("it starts again");
        }
    }
    // While weir is away the broker keeps what comes.
    weir.kill();
    add(&server, "a/c", 2_000..2_500);
    weir = home.start(RESUME);
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 2_500);
    let (_, most, all) = counted(&weir);
    eprintln!("{} of 2500 records have come more than once, {most} times at most", all - 2_500);
    // The first message was sent until it was there.
    server.kill();
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "in").contains("cannot connect"));
    let shown = weir.delete("/api/v1/ingest/in").expect(200).json();
    assert_eq!(shown["status"], "Terminated");
    weir.stop();
}

#[test]
fn a_connection_that_is_cut_repeats_nothing_that_is_under_way() {
    let left_out = "cuts between weir and a broker of MQTT";
    let Some(server) = start(left_out) else { return };
    let Some(proxy) = Toxiproxy::start(left_out) else { return };
    let port = free_ports(1);
    proxy.lead("mqtt", ([127, 0, 0, 1], port).into(), server.address(0));
    let weir = Home::new().start(&[]);
    let source = json!({"type": "Mqtt", "url": format!("mqtt://127.0.0.1:{port}"), "clientId": "weir", "topicFilters": ["in"],
        "withTopic": false, "recordDecoders": [], "format": {"type": "Json"}});
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.count = coalesce(n.count, 0) + 1";
    let created =
        weir.post(STREAMS, &json!({"name": "in", "source": source, "query": query, "maxPerSecond": 400})).expect(201).json();
    assert_eq!(created["settings"]["source"], source);
    wait_until("it is subscribed", PATIENCE, || {
        add(&server, "in", 0..1);
        counted(&weir).0 == 1
    });
    let before = counted(&weir).2;
    add(&server, "in", 1..2_001);
    const CUTS: u64 = 5;
    for round in 1..=CUTS {
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > round * 200);
        proxy.open("mqtt", false);
        std::thread::sleep(Duration::from_millis(300));
        proxy.open("mqtt", true);
    }
    // Nothing passes any more, and nobody is told.
    proxy.poison("mqtt", "timeout", "downstream", json!({"timeout": 0}));
    wait_until("weir notices", PATIENCE, || {
        message(&weir, "in").contains("says nothing") || message(&weir, "in").contains("no answer")
    });
    proxy.cure("mqtt", "timeout", "downstream");
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 2_001);
    // Those whose acknowledgements were under way may come again, no others.
    let repeated = counted(&weir).2 - before - 2_000;
    eprintln!("{repeated} of 2000 records have come again after {} cuts", CUTS + 1);
    assert!(repeated <= (CUTS + 1) * UNDER_WAY, "{repeated}");
    weir.stop();
}

#[test]
fn results_go_out_with_tls_and_a_password_and_come_in_again_with_their_topic() {
    let Some(server) = start("results to topics of MQTT") else { return };
    let weir = Home::new().start(&[]);
    let access = |more: Json| {
        let mut all = json!({"type": "Mqtt", "url": server.said("MQTT_TLS_URL"), "certificateAuthorities": server.authority(),
            "username": "weir", "password": "geheim"});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let source =
        access(json!({"clientId": "back", "topicFilters": ["results/#"], "withTopic": true, "format": {"type": "Json"}}));
    let query = "MATCH (n) WHERE id(n) = idFrom($that.payload.id) SET n.id = $that.payload.id, n.topic = $that.topic, n.count = coalesce(n.count, 0) + 1";
    weir.post(STREAMS, &json!({"name": "back", "source": source, "query": query})).expect(201);
    wait_until("it is subscribed", PATIENCE, || {
        add(&server, "results/first", 7_000..7_001);
        counted(&weir).0 == 1
    });
    assert_eq!(weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN n.topic"), [json!(["results/first"])]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
    let enrichment = json!({"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.value AS id"});
    let query = json!({"name": "numbers", "pattern": pattern, "outputs": [{"name": "mqtt", "resultEnrichment": enrichment,
        "destinations": [access(json!({"topic": "results/numbers"}))]}]});
    let created = weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201).text();
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    let set = |values: Range<u64>| {
        values.for_each(|value| {
            weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) SET n:Number, n.value = {value}")).expect(200);
        });
    };
    set(0..300);
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 == 301);
    std::thread::sleep(Duration::from_secs(1));
    // What comes while the broker is away is delivered when it is back; a result whose answer was lost may come twice.
    server.kill();
    set(300..350);
    server.run().expect("it starts again");
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 351);

    let mut wrong = source.clone();
    (wrong["password"], wrong["clientId"]) = (json!("wrong"), json!("other"));
    weir.post(STREAMS, &json!({"name": "wrong", "source": wrong, "query": COUNT})).expect(201);
    wait_until("the login is refused", PATIENCE, || message(&weir, "wrong").contains("the login is refused"));
    let refused = |more: Json, problem: &str| {
        let mut all = source.clone();
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let told = weir.post(STREAMS, &json!({"name": "refused", "source": all, "query": COUNT})).expect(400).text();
        assert!(told.contains(problem), "{told}");
    };
    refused(json!({"certificateAuthorities": "x"}), "holds no certificate");
    refused(json!({"topicFilters": []}), "topicFilters");
    refused(json!({"clientId": ""}), "clientId");
    refused(json!({"url": "tcp://x"}), "mqtt:// or mqtts://");
    refused(json!({"format": {"type": "Raw"}}), "withTopic");
    weir.stop();
}

#[test]
fn only_allowed_hosts_are_connected_to() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"example.com\"]"]);
    let source = json!({"type": "MqttIngest", "url": "mqtt://127.0.0.1:1", "clientId": "c", "topicFilters": ["t"]});
    let refused = weir.post("/api/v1/ingest/refused", &source).expect(400).text();
    assert!(refused.contains("outgoing-http.allowed-hosts"), "{refused}");
    weir.stop();
}
