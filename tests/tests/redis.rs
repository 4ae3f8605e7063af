//! Streams of Redis, in and out, with the real binary and a real server, across kills of both.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::free_ports;
use weir_tests::redis::Redis;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{
    COUNT, RESUME, STREAMS, counted, counted_together, message, numbers_to, refused, refused_v1, set_numbers, troubled, with,
};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(180);

#[test]
fn entries_are_read_once_across_kills_of_either_side() {
    let Some(redis) = Redis::start("streams of Redis, read") else { return };
    redis.add("events", 0..4_000);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let format = json!({"type": "CypherJson", "query": COUNT});
    let definition = json!({"type": "RedisIngest", "url": redis.url(), "key": "events", "field": "value", "startFrom": "Earliest",
        "format": format, "maximumPerSecond": 1500});
    weir.post("/api/v1/ingest/events", &definition).expect(200);
    let mut end = 4_000;
    for round in 0..4 {
        let before = counted(&weir).0;
        // However quickly it reads meanwhile, there is more to come.
        redis.add("events", end..end + 250);
        end += 250;
        wait_until("some more entries are read", PATIENCE, || counted(&weir).0 > before);
        if round % 2 == 0 {
            weir.kill();
            weir = home.start(RESUME);
        } else {
            redis.kill();
            redis.run().expect("it starts again");
        }
    }
    // One that is no record, one without the field, and then more.
    redis.say(&["XADD", "events", "*", "value", "nonsense"]);
    redis.say(&["XADD", "events", "*", "other", "{}"]);
    redis.add("events", end..6_000);
    wait_until("all entries are read", PATIENCE, || counted(&weir).0 >= 6_000);
    assert_eq!(counted(&weir), (6_000, 1));
    assert_eq!(weir.get(&format!("{STREAMS}/events")).expect(200).json()["failedRecords"]["count"], 1);

    // While the server is away the stream says so, and ends at once.
    redis.kill();
    wait_until("the stream says what it waits for", PATIENCE, || message(&weir, "events").contains("cannot connect"));
    let shown = weir.delete("/api/v1/ingest/events").expect(200).json();
    assert_eq!(shown["status"], "Terminated");
    redis.run().expect("it starts again");

    // What has another kind cannot become a stream by waiting.
    redis.say(&["SET", "plain", "x"]);
    let wrong = json!({"type": "RedisIngest", "url": redis.url(), "key": "plain", "startFrom": "Earliest"});
    weir.post("/api/v1/ingest/wrong", &wrong).expect(200);
    weir.wait_ingest("wrong", "Failed", PATIENCE);
    assert!(message(&weir, "wrong").contains("something else than a stream"), "{}", message(&weir, "wrong"));
    weir.stop();
}

#[test]
fn a_stream_begins_with_what_comes_and_a_record_may_be_all_fields() {
    let Some(redis) = Redis::start("streams of Redis, from their end on") else { return };
    redis.say(&["XADD", "late", "*", "id", "old"]);
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let source = json!({"type": "Redis", "format": {"type": "Json"}, "url": redis.url(), "key": "late", "startFrom": "Latest", "recordDecoders": []});
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.count = coalesce(n.count, 0) + 1, n.name = $that.name";
    let created = weir.post(STREAMS, &json!({"name": "late", "source": source, "query": query})).expect(201).json();
    assert_eq!(created["settings"]["source"], source);
    // Until the stream has found out where the end is.
    wait_until("something new is read", PATIENCE, || {
        redis.say(&["XADD", "late", "*", "id", "first", "name", "é"]);
        counted(&weir).0 == 1
    });
    weir.kill();
    redis.say(&["XADD", "late", "*", "id", "meanwhile", "name", "x"]);
    weir = home.start(RESUME);
    wait_until("what came meanwhile is read", PATIENCE, || counted(&weir).0 == 2);
    assert_eq!(weir.rows("MATCH (n) WHERE n.name = 'x' RETURN n.count"), [json!([1])]);
    assert!(weir.rows("MATCH (n) WHERE id(n) = idFrom('old') RETURN n.count")[0][0].is_null());
    weir.stop();
}

#[test]
fn weirs_of_a_group_share_a_stream_and_lose_nothing_when_one_of_them_or_the_server_is_killed() {
    let Some(redis) = Redis::start("groups of Redis") else { return };
    redis.add("events", 0..4_000);
    // However much one of them reads while the other one is away, there is more for both.
    let mut end = 4_000;
    let mut more_than = |read: u64| {
        if end < read + 2_000 {
            redis.add("events", end..end + 1_000);
            end += 1_000;
        }
        end
    };
    let pending = || redis.say(&["XPENDING", "events", "readers"]).lines().next().unwrap_or_default().to_owned();
    let homes = [Home::new(), Home::new()];
    let [mut first, mut second] = [0, 1].map(|index: usize| homes[index].start(RESUME));
    let source = json!({"type": "Redis", "format": {"type": "Json"}, "url": redis.url(), "key": "events", "field": "value", "group": "readers",
        "claimAfter": "2s", "startFrom": "Earliest", "recordDecoders": []});
    for weir in [&first, &second] {
        let body = json!({"name": "in", "source": source, "query": COUNT, "maxPerSecond": 400});
        let created = weir.post(STREAMS, &body).expect(201).json();
        assert_eq!(created["settings"]["source"], source);
    }
    let mut read = |first: &Weir, second: &Weir| {
        let read = [counted(first).0, counted(second).0];
        more_than(read[0] + read[1]);
        read
    };
    wait_until("both read", PATIENCE, || read(&first, &second).into_iter().all(|count| count > 300));
    first.kill();
    first = homes[0].start(RESUME);
    let before = counted(&first).0;
    wait_until("it goes on", PATIENCE, || read(&first, &second)[0] > before + 300);
    redis.kill();
    redis.run().expect("it starts again");
    let before = counted(&second).0;
    wait_until("they go on", PATIENCE, || read(&first, &second)[1] > before + 100);
    // No more of them.
    let entries = more_than(0);
    // What it was given is taken over while it is away.
    second.kill();
    wait_until("all is done without it", PATIENCE, || {
        let last = redis.say(&["XINFO", "GROUPS", "events"]);
        pending() == "0"
            && last.contains(redis.say(&["XREVRANGE", "events", "+", "-", "COUNT", "1"]).lines().next().unwrap_or_default())
    });
    second = homes[1].start(RESUME);
    let ids = |weir: &Weir| -> BTreeSet<u64> {
        weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN n.id").iter().filter_map(|row| row[0].as_u64()).collect()
    };
    let all: BTreeSet<u64> = ids(&first).union(&ids(&second)).copied().collect();
    assert!(all.into_iter().eq(0..entries));
    let repeated = counted_together(&first) + counted_together(&second) - entries;
    eprintln!("{repeated} of {entries} records have come again after two kills of weir and one of the server");
    first.stop();
    second.stop();
}

#[test]
fn what_a_network_does_to_connections_loses_and_repeats_nothing() {
    const LEFT_OUT: &str = "Redis behind a network that cuts, resets, slows and stalls";
    let Some(redis) = Redis::start(LEFT_OUT) else { return };
    let Some(proxy) = Toxiproxy::start(LEFT_OUT) else { return };
    let port = free_ports(1);
    proxy.lead("redis", ([127, 0, 0, 1], port).into(), redis.url().trim_start_matches("redis://").parse().expect("an address"));
    let weir = Home::new().start(&[]);
    let through = format!("redis://127.0.0.1:{port}");
    numbers_to(&weir, json!({"type": "Redis", "url": through, "key": "results"}));
    let source = json!({"type": "Redis", "url": through, "key": "events", "field": "value", "startFrom": "Earliest",
        "recordDecoders": [], "format": {"type": "Json"}});
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n:Number, n.id = $that.id, n.value = $that.id, n.count = coalesce(n.count, 0) + 1";
    redis.add("events", 0..1_000);
    weir.post(STREAMS, &json!({"name": "in", "source": source, "query": query, "maxPerSecond": 2000})).expect(201);
    let next = std::cell::Cell::new(1_000);
    let during = |_: &str| {
        redis.add("events", next.get()..next.get() + 500);
        next.set(next.get() + 500);
    };
    proxy.each_fault("redis", during, |fault| {
        wait_until(&format!("{fault}: all entries are read"), PATIENCE, || counted(&weir).0 == next.get());
        assert_eq!(counted(&weir), (next.get(), 1), "{fault}");
    });
    // A result whose answer was lost may be there twice.
    let results = || -> BTreeSet<u64> {
        let said = redis.say(&["XRANGE", "results", "-", "+"]);
        let results = said.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok()).filter_map(|result| {
            let found = result.pointer("/data/id").or_else(|| result.get("id"))?;
            found.as_u64()
        });
        results.collect()
    };
    wait_until("all results are out", PATIENCE, || results().len() as u64 == next.get());
    weir.stop();
}

#[test]
fn results_go_out_with_tls_and_a_password_and_come_in_again() {
    let Some(redis) = Redis::start("results to streams of Redis") else { return };
    redis.say(&["CONFIG", "SET", "requirepass", "geheim"]);
    let weir = Home::new().start(&[&format!("-Dweir.secrets.directories=[\"{}\"]", redis.directory().display())]);
    let access = |more: Json| {
        with(
            json!({"type": "Redis", "url": redis.tls_url(), "certificateAuthorities": redis.authority(),
                "clientCertificate": redis.made("client.pem"), "clientKey": redis.made("client.key"), "password": "geheim", "key": "results"}),
            more,
        )
    };
    let created = numbers_to(&weir, access(json!({"lengthMax": 100_000})));
    assert!(created.contains("Secret(****)") && !created.contains("geheim"), "{created}");
    assert!(!created.contains("PRIVATE"), "{created}");
    let key = json!({"file": redis.directory().join("client.key")});
    let source = access(json!({"clientKey": key, "field": "value", "startFrom": "Earliest", "format": {"type": "Json"}}));
    weir.post(STREAMS, &json!({"name": "back", "source": source, "query": COUNT})).expect(201);
    set_numbers(&weir, 0..100);
    wait_until("all results have come back", PATIENCE, || counted(&weir).0 == 100);
    // What comes while the server is away is delivered when it is back; a result whose answer was lost may come twice.
    redis.kill();
    set_numbers(&weir, 100..150);
    redis.run().expect("it starts again");
    redis.say(&["CONFIG", "SET", "requirepass", "geheim"]);
    wait_until("the others have come back, too", PATIENCE, || counted(&weir).0 == 150);

    let wrong = with(source.clone(), json!({"password": "wrong"}));
    troubled(&weir, "wrong", &wrong, "the login is refused");
    troubled(
        &weir,
        "unknown",
        &with(source.clone(), json!({"clientCertificate": null, "clientKey": null})),
        "CertificateRequired",
    );
    refused(&weir, &with(source.clone(), json!({"clientKey": null})), "clientKey: is missing");
    refused(&weir, &with(source.clone(), json!({"clientCertificate": null})), "clientCertificate: is missing");
    refused(&weir, &with(source.clone(), json!({"clientKey": "geheim"})), "is no private key in PEM");
    refused(&weir, &with(source, json!({"certificateAuthorities": "x"})), "holds no certificate");
    weir.stop();
}

#[test]
fn only_allowed_hosts_are_connected_to() {
    let weir = Home::new().start(&["-Dweir.outgoing-http.allowed-hosts=[\"example.com\"]"]);
    let source = json!({"type": "RedisIngest", "url": "redis://127.0.0.1:1", "key": "k"});
    refused_v1(&weir, &source, "outgoing-http.allowed-hosts");
    weir.stop();
}
