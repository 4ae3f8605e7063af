//! Streams of JetStream, in and out, with the real binary and a real server, across kills of both and faults between them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::nats::Client;
use weir_tests::server::Server;
use weir_tests::service::{Home, wait_until};
use weir_tests::streams::{
    COUNT, RESUME, STREAMS, counted, message, numbers_to, refused, refused_v1, set_numbers, troubled, with,
};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(150);

fn start(left_out: &str) -> Option<(Server, Client)> {
    let server = Server::start("nats.sh", 2, left_out)?;
    let client = Client::connect(server.address(0));
    Some((server, client))
}

fn url(server: &Server) -> String {
    server.said("NATS_URL")
}

#[test]
fn messages_are_read_once_across_kills_of_either_side() {
    let Some((server, mut client)) = start("streams of NATS, read") else { return };
    client.add_stream("events", "events.>", json!({}));
    client.add("events.a", 0..4_000);
    client.add("events.other", 90_000..90_100);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let format = json!({"type": "CypherJson", "query": COUNT});
    let definition = json!({"type": "NatsIngest", "servers": [url(&server)], "stream": "events", "subjects": ["events.a", "events.b.*"],
        "startFrom": "Earliest", "format": format, "maximumPerSecond": 1500});
    weir.post("/api/v1/ingest/events", &definition).expect(200);
    for round in 0..4 {
        // Not more than a moment ago: on a busy machine all may be read before that is looked at.
        wait_until("some more messages are read", PATIENCE, || counted(&weir).0 > round * 600);
        if round % 2 == 0 {
            weir.kill();
            weir = home.start(RESUME);
        } else {
            server.kill();
            server.run().expect("it starts again");
        }
    }
    // One that is no record, and then more.
    client = Client::connect(server.address(0));
    client.publish("events.b.c", ["nonsense".to_owned()].into_iter());
    client.add("events.b.c", 4_000..5_000);
    wait_until("all messages are read", PATIENCE, || counted(&weir).0 >= 5_000);
    assert_eq!(counted(&weir), (5_000, 1));
    assert_eq!(weir.get(&format!("{STREAMS}/events")).expect(200).json()["failedRecords"]["count"], 1);

    // While the server is away the stream says so, and ends at once.
    server.kill();
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "events").contains("cannot connect"));
    let shown = weir.delete("/api/v1/ingest/events").expect(200).json();
    assert_eq!(shown["status"], "Terminated");
    weir.stop();
}

#[test]
fn a_stream_begins_with_what_comes_and_notices_that_another_has_taken_its_name() {
    let Some((server, mut client)) = start("streams of NATS, from their end on") else { return };
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let source = json!({"type": "Nats", "format": {"type": "Json"}, "servers": [url(&server)], "stream": "late", "subjects": [],
        "startFrom": "Latest", "recordDecoders": []});
    let created = weir.post(STREAMS, &json!({"name": "late", "source": source, "query": COUNT})).expect(201).json();
    assert_eq!(created["settings"]["source"], source);
    // One that is not there is waited for.
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "late").contains("there is no stream late"));
    client.add_stream("late", "late", json!({}));
    // Until weir has found out where the end is.
    wait_until("something new is read", PATIENCE, || {
        client.add("late", 0..1);
        counted(&weir).0 == 1
    });
    weir.kill();
    client.add("late", 1..11);
    weir = home.start(RESUME);
    wait_until("what came meanwhile is read", PATIENCE, || counted(&weir).0 == 11);
    assert_eq!(weir.rows("MATCH (n) WHERE n.id > 0 RETURN max(n.count)"), [json!([1])]);
    client.ask("STREAM.DELETE.late", &json!({}));
    client.add_stream("late", "late", json!({}));
    weir.wait_ingest("late", "Failed", PATIENCE);
    assert!(message(&weir, "late").contains("delete this ingest stream and create it anew"), "{}", message(&weir, "late"));
    weir.stop();
}

#[test]
fn a_consumer_keeps_what_is_not_durable_and_streams_may_share_it() {
    let Some((server, mut client)) = start("consumers of NATS") else { return };
    client.add_stream("work", "work", json!({"retention": "workqueue"}));
    client.add("work", 0..3_000);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let definition = |more: Json| {
        with(
            json!({"type": "NatsIngest", "servers": [url(&server)], "stream": "work", "startFrom": "Earliest",
            "format": {"type": "CypherJson", "query": COUNT}, "maximumPerSecond": 800}),
            more,
        )
    };
    // Such a stream wants to be told what is done.
    weir.post("/api/v1/ingest/wrong", &definition(json!({}))).expect(200);
    weir.wait_ingest("wrong", "Failed", PATIENCE);
    assert!(message(&weir, "wrong").contains("give the name of a consumer"), "{}", message(&weir, "wrong"));
    for name in ["one", "two"] {
        weir.post(&format!("/api/v1/ingest/{name}"), &definition(json!({"consumer": "weir"}))).expect(200);
    }
    wait_until("some messages are read", PATIENCE, || counted(&weir).0 > 500);
    weir.kill();
    weir = home.start(RESUME);
    wait_until("some more are read", PATIENCE, || counted(&weir).0 > 1_500);
    server.kill();
    server.run().expect("it starts again");
    wait_until("all messages are read", PATIENCE, || counted(&weir).0 == 3_000);
    client = Client::connect(server.address(0));
    // A message is gone from such a stream when it is acknowledged.
    wait_until("all messages are acknowledged", PATIENCE, || client.count("work") == 0);
    for name in ["one", "two"] {
        let read = weir.get(&format!("{STREAMS}/{name}")).expect(200).json()["stats"]["ingestedCount"].as_u64().expect("a count");
        assert!(read > 0, "{name} has read nothing");
    }
    // Another stream of the name counts anew: its messages are not those that were known.
    client.ask("STREAM.DELETE.work", &json!({}));
    client.add_stream("work", "work", json!({"retention": "workqueue"}));
    client.add("work", 3_000..6_000);
    wait_until("all messages of the new stream are read", PATIENCE, || counted(&weir).0 == 6_000);
    weir.stop();
}

#[test]
fn a_consumer_that_is_deleted_is_made_anew_with_all_that_is_there() {
    let Some((server, mut client)) = start("consumers of NATS that are deleted") else { return };
    client.add_stream("events", "events", json!({}));
    client.add("events", 0..5);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let source =
        json!({"type": "Nats", "format": {"type": "Json"}, "servers": [url(&server)], "stream": "events", "consumer": "weir"});
    weir.post(STREAMS, &json!({"name": "events", "source": source, "query": COUNT})).expect(201);
    let consumers = |client: &mut Client| client.ask("STREAM.INFO.events", &json!({}))["state"]["consumer_count"].as_u64();
    wait_until("there is a consumer", PATIENCE, || consumers(&mut client) == Some(1));
    // It begins with what comes from then on.
    client.add("events", 5..10);
    wait_until("what is new is read", PATIENCE, || counted(&weir).0 == 5);
    client.ask("CONSUMER.DELETE.events.weir", &json!({}));
    client.add("events", 10..15);
    wait_until("all is read while weir runs", PATIENCE, || counted(&weir).0 == 15);
    weir.stop();
    client.ask("CONSUMER.DELETE.events.weir", &json!({}));
    client.add("events", 15..20);
    weir = home.start(RESUME);
    wait_until("all is read after a restart", PATIENCE, || counted(&weir).0 == 20);
    weir.stop();
}

#[test]
fn results_go_out_with_tls_and_logins_and_come_in_again() {
    let Some((server, mut client)) = start("results to streams of NATS") else { return };
    client.add_stream("results", "results.>", json!({}));
    let weir = Home::new().start(&[]);
    let tls_url = url(&server).replace("nats://", "tls://");
    let access = |more: Json| {
        with(
            json!({"type": "Nats", "servers": ["nats://127.0.0.1:1", tls_url], "certificateAuthorities": server.authority()}),
            more,
        )
    };
    let output = access(json!({"subject": "results.numbers", "username": "weir", "password": "geheim"}));
    let created = numbers_to(&weir, output);
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    let source = access(
        json!({"stream": "results", "startFrom": "Earliest", "format": {"type": "Json"}, "credentials": server.said("NATS_SEED")}),
    );
    let created = weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201).text();
    assert!(!created.contains(&server.said("NATS_SEED")), "{created}");
    set_numbers(&weir, 0..100);
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 == 100);
    // What comes while the server is away is delivered when it is back, and what it has got already is dropped there.
    server.kill();
    set_numbers(&weir, 100..150);
    server.run().expect("it starts again");
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 150);
    assert_eq!(counted(&weir), (150, 1));
    client = Client::connect(server.address(0));
    assert_eq!(client.count("results"), 150);

    let mut wrong = source.clone();
    wrong.as_object_mut().expect("an object").remove("credentials");
    (wrong["username"], wrong["password"]) = (json!("weir"), json!("wrong"));
    troubled(&weir, "password", &wrong, "the login is refused");
    wrong["certificateAuthorities"] = json!(null);
    troubled(&weir, "stranger", &wrong, "cannot connect");
    wrong["certificateAuthorities"] = json!("x");
    refused(&weir, &wrong, "holds no certificate");
    weir.stop();
}

#[test]
fn a_server_that_stalls_or_is_cut_off_is_left_and_nothing_is_lost() {
    let left_out = "faults between weir and NATS";
    let Some((server, mut client)) = start(left_out) else { return };
    let Some(proxy) = Toxiproxy::start(left_out) else { return };
    let port = free_ports(1);
    proxy.lead("nats", ([127, 0, 0, 1], port).into(), server.address(0));
    let through = format!("nats://127.0.0.1:{port}");
    client.add_stream("events", "events", json!({}));
    client.add_stream("copies", "copies", json!({}));
    let weir = Home::new().start(&[]);
    let source =
        json!({"type": "Nats", "servers": [through], "stream": "events", "startFrom": "Earliest", "format": {"type": "Json"}});
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n:Event, n.id = $that.id, n.count = coalesce(n.count, 0) + 1";
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Event) RETURN DISTINCT id(n) AS id"});
    let output = json!({"type": "Nats", "servers": [through], "subject": "copies"});
    weir.post(
        "/api/v2/graph/quine/standingQueries",
        &json!({"name": "copies", "pattern": pattern, "outputs": [{"name": "nats", "destinations": [output]}]}),
    )
    .expect(201);
    weir.post(STREAMS, &json!({"name": "events", "source": source, "query": query, "maxPerSecond": 2000})).expect(201);
    client.add("events", 0..3_000);
    wait_until("some messages are read", PATIENCE, || counted(&weir).0 > 100);
    // Nothing passes any more, and nobody is told.
    proxy.poison("nats", "timeout", "downstream", json!({"timeout": 0}));
    client.add("events", 3_000..4_000);
    wait_until("weir notices", PATIENCE, || {
        message(&weir, "events").contains("says nothing") || message(&weir, "events").contains("no answer")
    });
    proxy.cure("nats", "timeout", "downstream");
    wait_until("all messages are read", PATIENCE, || counted(&weir).0 == 4_000);
    // Cut after some bytes, again and again.
    proxy.poison("nats", "limit_data", "downstream", json!({"bytes": 40_000}));
    client.add("events", 4_000..6_000);
    wait_until("most are read", PATIENCE, || counted(&weir).0 > 5_000);
    proxy.cure("nats", "limit_data", "downstream");
    wait_until("all are read", PATIENCE, || counted(&weir).0 == 6_000);
    assert_eq!(counted(&weir), (6_000, 1));
    wait_until("all results are out", PATIENCE, || client.count("copies") >= 6_000);
    assert_eq!(client.count("copies"), 6_000, "repetitions are dropped by their ids");
    let next = std::cell::Cell::new(6_000);
    let during = |_: &str| {
        client.add("events", next.get()..next.get() + 300);
        next.set(next.get() + 300);
    };
    proxy.each_fault("nats", during, |fault| {
        wait_until(&format!("{fault}: all are read"), PATIENCE, || counted(&weir).0 == next.get());
        assert_eq!(counted(&weir), (next.get(), 1), "{fault}");
    });
    wait_until("all results are out", PATIENCE, || client.count("copies") >= next.get());
    assert_eq!(client.count("copies"), next.get());
    weir.stop();
}

#[test]
fn definitions_that_cannot_work_are_refused() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"example.com\"]"]);
    let refused = |more: Json, problem: &str| {
        refused_v1(&weir, &with(json!({"type": "NatsIngest", "servers": ["nats://example.com"], "stream": "s"}), more), problem);
    };
    refused(json!({"servers": ["nats://127.0.0.1:1"]}), "outgoing-http.allowed-hosts");
    refused(json!({"servers": []}), "servers");
    refused(json!({"servers": ["http://example.com"]}), "nats:// or tls://");
    refused(json!({"servers": ["nats://u:p@example.com"]}), "belong into `username` and `password`");
    refused(json!({"stream": "a.b"}), "stream");
    refused(json!({"subjects": ["a b"]}), "is no subject");
    refused(json!({"username": "u"}), "password");
    refused(json!({"token": "t", "username": "u", "password": "p"}), "give one of");
    refused(json!({"credentials": "nothing"}), "holds no seed");
    weir.stop();
}
