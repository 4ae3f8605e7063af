//! Topics of MQTT, in and out, with the real binary and a real broker, across kills of both and cuts between them.

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::server::Server;
use weir_tests::service::{Home, wait_until};
use weir_tests::streams::{
    COUNT, RESUME, STREAMS, counted, counted_together, message, numbers_to, refused, refused_v1, set_numbers, troubled, with,
};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(90);

/// Acknowledgements that are lost on the way when a connection is cut: those of 50 ms.
const LOST_MAX: u64 = 20;

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

/// The broker writes to its disk and answers in turns: one whose disk stands still answers no more until that is over.
fn comes_round(server: &Server) {
    add(server, "other", 5_010..5_011);
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
    comes_round(&server);
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
    let (most, all) = (counted(&weir).1, counted_together(&weir));
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
    let before = counted_together(&weir);
    add(&server, "in", 1..2_001);
    const CUTS: u64 = 5;
    for _ in 0..CUTS {
        // Each cut finds many under way, and more become durable before the next connection.
        let enough = (counted(&weir).0 + 100).min(1_900);
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > enough);
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
    let repeated = counted_together(&weir) - before - 2_000;
    eprintln!("{repeated} of 2000 records have come again after {} cuts", CUTS + 1);
    assert!(repeated <= (CUTS + 1) * LOST_MAX, "{repeated}");
    let next = std::cell::Cell::new(2_001);
    let during = |_: &str| {
        add(&server, "in", next.get()..next.get() + 100);
        next.set(next.get() + 100);
    };
    proxy.each_fault("mqtt", during, |fault| {
        wait_until(&format!("{fault}: all are read"), PATIENCE, || counted(&weir).0 == next.get());
    });
    weir.stop();
}

#[test]
fn results_get_through_what_a_network_does() {
    const LEFT_OUT: &str = "results to MQTT behind a network that cuts, resets, slows and stalls";
    let Some(server) = start(LEFT_OUT) else { return };
    let Some(proxy) = Toxiproxy::start(LEFT_OUT) else { return };
    let port = free_ports(1);
    proxy.lead("mqtt", ([127, 0, 0, 1], port).into(), server.address(0));
    let weir = Home::new().start(&[]);
    // What comes back is read without the proxy.
    let source = json!({"type": "Mqtt", "url": server.said("MQTT_URL"), "clientId": "back", "topicFilters": ["out"], "format": {"type": "Json"}});
    weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201);
    wait_until("it is subscribed", PATIENCE, || {
        add(&server, "out", 0..1);
        counted(&weir).0 == 1
    });
    numbers_to(&weir, json!({"type": "Mqtt", "url": format!("mqtt://127.0.0.1:{port}"), "topic": "out"}));
    let next = std::cell::Cell::new(1);
    let during = |_: &str| {
        set_numbers(&weir, next.get()..next.get() + 40);
        next.set(next.get() + 40);
    };
    // A result whose acknowledgement was lost may come twice.
    proxy.each_fault("mqtt", during, |fault| {
        wait_until(&format!("{fault}: all results have arrived"), PATIENCE, || counted(&weir).0 == next.get());
    });
    weir.stop();
}

#[test]
fn results_go_out_with_tls_and_a_password_and_come_in_again_with_their_topic() {
    let Some(server) = start("results to topics of MQTT") else { return };
    let weir = Home::new().start(&[]);
    let access = |more: Json| {
        with(
            json!({"type": "Mqtt", "url": server.said("MQTT_TLS_URL"), "certificateAuthorities": server.authority(),
            "username": "weir", "password": "geheim"}),
            more,
        )
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
    let created = numbers_to(&weir, access(json!({"topic": "results/numbers"})));
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    set_numbers(&weir, 0..300);
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 == 301);
    std::thread::sleep(Duration::from_secs(1));
    comes_round(&server);
    // What comes while the broker is away is delivered when it is back; a result whose answer was lost may come twice.
    server.kill();
    set_numbers(&weir, 300..350);
    server.run().expect("it starts again");
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 351);

    let mut wrong = source.clone();
    (wrong["password"], wrong["clientId"]) = (json!("wrong"), json!("other"));
    troubled(&weir, "wrong", &wrong, "the login is refused");
    let refused = |more: Json, problem: &str| refused(&weir, &with(source.clone(), more), problem);
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
    refused_v1(&weir, &source, "outgoing-http.allowed-hosts");
    weir.stop();
}
