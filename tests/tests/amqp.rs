//! Queues of AMQP 0.9.1, in and out, with the real binary and a real RabbitMQ, across kills of both and cuts between them.

use std::io::Write;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::server::Server;
use weir_tests::service::{Home, wait_until};
use weir_tests::streams::{
    COUNT, RESUME, STREAMS, counted, counted_together, message, numbers_to, refused_v1, set_numbers, troubled, with,
};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// A tool of somebody else, asking the server for something.
fn tool(server: &Server, name: &str, arguments: &[&str], input: &str) -> String {
    let url = server.said("AMQP_URL").replace("amqp://", "amqp://guest:guest@");
    let mut tool = Command::new(name);
    tool.args(["--url", &url]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tool = tool.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
    tool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it listens");
    let ended = tool.wait_with_output().expect("it ends");
    assert!(ended.status.success() || name == "amqp-get", "{name} {arguments:?}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

fn declare(server: &Server, queue: &str) {
    tool(server, "amqp-declare-queue", &["-q", queue, "-d"], "");
}

/// Messages `{"id": n}` that the server keeps on disk.
fn add(server: &Server, queue: &str, ids: Range<u64>) {
    let lines: String = ids.map(|id| format!("{}\n", json!({"id": id}))).collect();
    tool(server, "amqp-publish", &["-r", queue, "-p", "-l"], &lines);
}

#[test]
fn messages_go_out_and_come_in_across_kills_of_either_side() {
    const PREFETCH: u64 = 200;
    let Some(server) = Server::start("rabbitmq.sh", 4, "queues of RabbitMQ") else { return };
    declare(&server, "events");
    add(&server, "events", 0..3_000);
    // The tool waits for no confirmation: what a server that stops has not given to the queue is gone, up to 400 messages, and
    // what it has not written when it is killed, too.
    wait_until("the queue has them", PATIENCE, || server.ask("messages", "events") == "3000");
    server.restart();
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let definition = json!({"type": "AmqpIngest", "url": server.said("AMQP_URL"), "queue": "events", "prefetch": PREFETCH,
        "format": {"type": "CypherJson", "query": COUNT}, "maximumPerSecond": 1000});
    weir.post("/api/v1/ingest/events", &definition).expect(200);
    for round in 1..=3 {
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > round * 500);
        if round == 2 {
            server.kill();
            server.run().expect("it starts again");
        } else {
            weir.kill();
            weir = home.start(RESUME);
        }
    }
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 3_000);
    let repeated = counted_together(&weir) - 3_000;
    eprintln!("{repeated} of 3000 records have come again after three kills");
    // No bound holds for that: a server that is killed has forgotten the acknowledgements that it had not written yet.
    // All of it is acknowledged, so that nothing is left when the stream ends.
    weir.delete("/api/v1/ingest/events").expect(200);
    assert_eq!(tool(&server, "amqp-get", &["-q", "events"], ""), "");

    // Results: to a queue that is not there yet, over TLS.
    let access = |more: Json| {
        with(
            json!({"type": "Amqp", "url": server.said("AMQP_TLS_URL"), "certificateAuthorities": server.authority(), "password": "guest"}),
            more,
        )
    };
    let created = numbers_to(&weir, access(json!({"routingKey": "results"})));
    assert!(created.contains("Secret(****)"), "{created}");
    set_numbers(&weir, 10_000..10_100);
    wait_until("it is said that they lead nowhere", PATIENCE, || {
        weir.log().contains("a message leads to no queue: 312 NO_ROUTE")
    });
    declare(&server, "results");
    let source = access(
        json!({"queue": "results", "prefetch": 50, "recordDecoders": [], "username": "guest", "format": {"type": "Json"}}),
    );
    let created = weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201).json();
    let mut expected = source.clone();
    expected["password"] = json!("Secret(****)");
    assert_eq!(created["settings"]["source"], expected);
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 == 3_100);
    server.kill();
    set_numbers(&weir, 10_100..10_150);
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "back").contains("cannot connect"));
    server.run().expect("it starts again");
    // A server that is killed may have forgotten a queue that was declared a moment before.
    declare(&server, "results");
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 3_150);

    let said = |name: &str, more: Json, problem: &str| troubled(&weir, name, &with(source.clone(), more), problem);
    said("password", json!({"password": "wrong"}), "403 ACCESS_REFUSED");
    said("queue", json!({"queue": "nowhere"}), "404 NOT_FOUND");
    said("host", json!({"url": format!("{}/nowhere", server.said("AMQP_TLS_URL"))}), "530 NOT_ALLOWED");
    weir.wait_ingest("host", "Failed", PATIENCE);
    weir.stop();
}

#[test]
fn a_connection_that_is_cut_or_stalls_loses_nothing() {
    const PREFETCH: u64 = 100;
    let left_out = "faults between weir and RabbitMQ";
    let Some(server) = Server::start("rabbitmq.sh", 4, left_out) else { return };
    let Some(proxy) = Toxiproxy::start(left_out) else { return };
    let port = free_ports(1);
    proxy.lead("amqp", ([127, 0, 0, 1], port).into(), server.address(0));
    declare(&server, "in");
    declare(&server, "out");
    let weir = Home::new().start(&[]);
    let url = format!("amqp://127.0.0.1:{port}/%2f");
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n:Event, n.id = $that.id, n.count = coalesce(n.count, 0) + 1";
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Event) RETURN DISTINCT id(n) AS id"});
    let output = json!({"type": "Amqp", "url": url, "routingKey": "out"});
    weir.post(
        "/api/v2/graph/quine/standingQueries",
        &json!({"name": "out", "pattern": pattern, "outputs": [{"name": "amqp", "destinations": [output]}]}),
    )
    .expect(201);
    let source = json!({"type": "Amqp", "url": url, "queue": "in", "prefetch": PREFETCH, "format": {"type": "Json"}});
    weir.post(STREAMS, &json!({"name": "in", "source": source, "query": query, "maxPerSecond": 500})).expect(201);
    add(&server, "in", 0..2_000);
    for round in 1..=3 {
        wait_until("some more are read", PATIENCE, || counted(&weir).0 > round * 300);
        proxy.open("amqp", false);
        std::thread::sleep(Duration::from_millis(300));
        proxy.open("amqp", true);
    }
    proxy.poison("amqp", "timeout", "downstream", json!({"timeout": 0}));
    wait_until("weir notices", PATIENCE, || {
        message(&weir, "in").contains("says nothing") || message(&weir, "in").contains("no answer")
    });
    proxy.cure("amqp", "timeout", "downstream");
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 2_000);
    let repeated = counted_together(&weir) - 2_000;
    eprintln!("{repeated} of 2000 records have come again after four cuts");
    assert!(repeated <= 4 * PREFETCH, "{repeated}");
    // Every node has its result in the queue, once or more often.
    let mut found = std::collections::BTreeSet::new();
    wait_until("all results are out", PATIENCE, || {
        // Whatever is there at once: each message takes a program of its own, and thousands of them more than any patience.
        while let Ok(result) = serde_json::from_str::<Json>(&tool(&server, "amqp-get", &["-q", "out"], "")) {
            found.insert(result["data"]["id"].to_string());
        }
        found.len() == 2_000
    });
    let next = std::cell::Cell::new(2_000);
    let during = |_: &str| {
        add(&server, "in", next.get()..next.get() + 100);
        next.set(next.get() + 100);
    };
    proxy.each_fault("amqp", during, |fault| {
        wait_until(&format!("{fault}: all are read"), PATIENCE, || counted(&weir).0 == next.get());
    });
    weir.stop();
}

#[test]
fn definitions_that_cannot_work_are_refused() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"example.com\"]"]);
    let refused = |more: Json, problem: &str| {
        refused_v1(&weir, &with(json!({"type": "AmqpIngest", "url": "amqp://example.com", "queue": "q"}), more), problem);
    };
    refused(json!({"url": "amqp://127.0.0.1:1"}), "outgoing-http.allowed-hosts");
    refused(json!({"url": "http://example.com"}), "amqp:// or amqps://");
    refused(json!({"url": "amqp://u:p@example.com"}), "belong into `username` and `password`");
    refused(json!({"queue": ""}), "queue");
    refused(json!({"prefetch": 0}), "prefetch");
    refused(json!({"prefetch": 65536}), "65535 messages are the most");
    weir.stop();
}
