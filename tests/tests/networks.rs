//! What a network does to connections, to connectors that have no test file of their own for it: over HTTP, web sockets, reactive
//! streams, and Amazon's. Records are read and results arrive, each at least once, whatever was cut, reset, delayed, slowed,
//! stalled or half open meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::aws::Amazon;
use weir_tests::client::send;
use weir_tests::elasticsearch::Elasticsearch;
use weir_tests::endpoint::Endpoint;
use weir_tests::feeds::{Events, Numbers};
use weir_tests::kafka::free_ports;
use weir_tests::polled::Polled;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{COUNT, STREAMS, counted, numbers_to, set_numbers, with};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: a request that nobody answers is given up after a while.
const PATIENCE: Duration = Duration::from_secs(180);

/// What comes during each fault.
const MORE: u64 = 40;

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").trim_end_matches('/').parse().expect("an address")
}

/// The proxy, and where it listens for this server.
fn behind(left_out: &str, server: SocketAddr) -> Option<(Toxiproxy, u16)> {
    let proxy = Toxiproxy::start(left_out)?;
    let port = free_ports(1);
    proxy.lead("server", ([127, 0, 0, 1], port).into(), server);
    Some((proxy, port))
}

/// Numbers become results during each fault, and are waited for.
fn results_arrive(weir: &Weir, proxy: &Toxiproxy, arrived: impl Fn() -> BTreeSet<u64>) {
    let next = Cell::new(0);
    let more = || {
        set_numbers(weir, next.get()..next.get() + MORE);
        next.set(next.get() + MORE);
    };
    let all = |what: &str| {
        wait_until(&format!("{what}: all results have arrived"), PATIENCE, || arrived().len() as u64 == next.get());
    };
    more();
    all("before");
    proxy.each_fault("server", |_| more(), all);
}

#[test]
fn results_reach_an_endpoint_of_http() {
    let endpoint = Endpoint::start("/never");
    let Some((proxy, port)) =
        behind("results over HTTP behind a network that cuts, resets, slows and stalls", endpoint.address())
    else {
        return;
    };
    let weir = Home::new().start(&[]);
    let to = json!({"type": "HttpEndpoint", "url": format!("http://127.0.0.1:{port}/"), "onResultError": {"type": "Retry"}});
    numbers_to(&weir, to);
    let arrived = RefCell::new(BTreeSet::new());
    results_arrive(&weir, &proxy, || {
        let bodies = endpoint.take().into_iter().map(|(_, body)| body);
        arrived.borrow_mut().extend(bodies.filter_map(|body| body.pointer("/data/id").or(body.get("id"))?.as_u64()));
        arrived.borrow().clone()
    });
    weir.stop();
}

#[test]
fn documents_reach_elasticsearch() {
    let server = Elasticsearch::start("Basic d2VpcjpnZWhlaW0=");
    let left_out = "results to Elasticsearch behind a network that cuts, resets, slows and stalls";
    let Some((proxy, port)) = behind(left_out, address(&server.url())) else { return };
    let weir = Home::new().start(&[]);
    let urls = [format!("http://127.0.0.1:{port}")];
    let to = json!({"type": "Elasticsearch", "urls": urls, "index": "numbers", "username": "weir", "password": "geheim"});
    // Documents are whole results.
    let pattern = json!({"type": "Cypher", "mode": "MULTIPLE_VALUES", "query": "MATCH (n:Number) RETURN n.value AS id"});
    let query = json!({"name": "numbers", "pattern": pattern, "outputs": [{"name": "out", "destinations": [to]}]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201);
    results_arrive(&weir, &proxy, || {
        server.numbers("numbers").into_iter().filter_map(|number| u64::try_from(number).ok()).collect()
    });
    weir.stop();
}

#[test]
fn what_is_polled_is_read() {
    let server = Polled::start(100);
    let left_out = "HTTP that is asked again and again, behind a network that cuts, resets, slows and stalls";
    let Some((proxy, port)) = behind(left_out, address(&server.url(""))) else { return };
    let weir = Home::new().start(&[]);
    let source = json!({"type": "HttpPoll", "url": format!("http://127.0.0.1:{port}/pages"), "interval": "1s", "format": {"type": "Json"},
        "recordsAt": "/data/items", "cursorAt": "/next", "cursorParameter": "after"});
    weir.post(STREAMS, &json!({"name": "in", "source": source, "query": COUNT})).expect(201);
    let all = |what: &str| {
        let count = server.count.load(Ordering::Relaxed);
        wait_until(&format!("{what}: all records are read"), PATIENCE, || counted(&weir).0 == count);
    };
    all("before");
    let more = |_: &str| {
        server.count.fetch_add(MORE, Ordering::Relaxed);
    };
    proxy.each_fault("server", more, all);
    assert_eq!(counted(&weir).1, 1, "each once");
    weir.stop();
}

#[test]
fn events_of_a_server_are_read() {
    const EVENTS: u64 = 30_000;
    let events = Events::start(EVENTS, 3_000);
    let left_out = "server-sent events behind a network that cuts, resets, slows and stalls";
    let url = events.url();
    let server = url.strip_suffix("/events").expect("a path");
    let Some((proxy, port)) = behind(left_out, address(server)) else { return };
    let weir = Home::new().start(&[]);
    let source = json!({"type": "ServerSentEvent", "url": format!("http://127.0.0.1:{port}/events"), "format": {"type": "Json"}});
    weir.post(STREAMS, &json!({"name": "in", "source": source, "query": COUNT})).expect(201);
    wait_until("some are read", PATIENCE, || counted(&weir).0 > 0);
    let before = Cell::new(0);
    proxy.each_fault(
        "server",
        |_| before.set(counted(&weir).0),
        |fault| {
            wait_until(&format!("{fault}: it goes on"), PATIENCE, || {
                let now = counted(&weir).0;
                now > before.get() || now == EVENTS
            });
        },
    );
    wait_until("all are read", PATIENCE, || counted(&weir).0 == EVENTS);
    weir.stop();
}

/// A message that does not get through is dropped; what comes then is told.
#[test]
fn slack_is_told_again() {
    let endpoint = Endpoint::start("/never");
    let Some((proxy, port)) = behind("Slack behind a network that cuts, resets, slows and stalls", endpoint.address()) else {
        return;
    };
    let weir = Home::new().start(&[]);
    numbers_to(&weir, json!({"type": "Slack", "hookUrl": format!("http://127.0.0.1:{port}/hook"), "interval": "1s"}));
    let next = Cell::new(0);
    let more = || {
        set_numbers(&weir, next.get()..next.get() + 1);
        next.set(next.get() + 1);
    };
    let told = |what: &str| {
        endpoint.take();
        wait_until(&format!("{what}: a message arrives"), PATIENCE, || {
            more();
            std::thread::sleep(Duration::from_millis(200));
            endpoint.received() > 0
        });
    };
    told("before");
    proxy.each_fault("server", |_| more(), told);
    weir.stop();
}

/// An object is read on from where its connection broke off.
#[test]
fn objects_of_s3_are_read() {
    const LEFT_OUT: &str = "objects of S3 behind a network that cuts, resets, slows and stalls";
    const RECORDS: u64 = 25_000;
    let Some(amazon) = Amazon::start(LEFT_OUT) else { return };
    let Some((proxy, port)) = behind(LEFT_OUT, amazon.address.parse().expect("an address")) else { return };
    amazon.put("/lake", b"");
    // More than is read ahead.
    let filling = "x".repeat(1_000);
    let lines: String = (0..RECORDS).map(|id| json!({"id": id, "filling": filling}).to_string() + "\n").collect();
    amazon.put("/lake/large.jsonl", lines.as_bytes());
    let weir = Home::new().start(&[]);
    let source = amazon.with(json!({"type": "S3", "bucket": "lake", "key": "large.jsonl", "format": {"type": "JsonL"}}));
    let source = with(source, json!({"endpoint": format!("http://127.0.0.1:{port}/")}));
    weir.post(STREAMS, &json!({"name": "in", "source": source, "query": COUNT, "maxPerSecond": 2_000})).expect(201);
    wait_until("some are read", PATIENCE, || counted(&weir).0 > 0);
    proxy.each_fault("server", |_| (), |_| ());
    weir.wait_ingest("in", "Completed", 2 * PATIENCE);
    assert_eq!(counted(&weir), (RECORDS, 1));
    weir.stop();
}

/// Kinesis and SQS both ways, SNS, results to S3: one server is all of Amazon.
#[test]
fn records_and_results_get_to_and_from_amazon() {
    const LEFT_OUT: &str = "Amazon's services behind a network that cuts, resets, slows and stalls";
    let Some(amazon) = Amazon::start(LEFT_OUT) else { return };
    let Some((proxy, port)) = behind(LEFT_OUT, amazon.address.parse().expect("an address")) else { return };
    for stream in ["in", "out"] {
        amazon.create_stream(stream, 1);
    }
    amazon.put("/lake", b"");
    let [queue, records, heard] = ["results", "records", "heard"].map(|name| amazon.create_queue(name));
    let topic = amazon.create_topic("news", "heard");
    let through = |definition: Json| {
        let endpoint = json!({"endpoint": format!("http://127.0.0.1:{port}/")});
        with(amazon.with(definition), endpoint)
    };
    let weir = Home::new().start(&[]);
    let kinesis = |name: &str| json!({"type": "Kinesis", "streamName": name, "format": {"type": "Json"}, "iteratorType": {"type": "TrimHorizon"}});
    weir.post(STREAMS, &json!({"name": "in", "source": through(kinesis("in")), "query": COUNT})).expect(201);
    let sqs = |at: &str, queue: &str| {
        let access = json!({"credentials": {"accessKeyId": "test", "secretAccessKey": "geheim"}, "region": "us-east-1"});
        with(access, json!({"type": "SQS", "queueUrl": format!("http://{at}{queue}")}))
    };
    let (format, proxied) = (json!({"format": {"type": "Json"}}), format!("127.0.0.1:{port}"));
    let back = |name: &str, source: Json| {
        let query = format!("MATCH (n) WHERE id(n) = idFrom('{name}', $that.id) SET n.id = $that.id, n.{name} = true");
        weir.post(STREAMS, &json!({"name": name, "source": source, "query": query})).expect(201);
    };
    back("taken", with(sqs(&proxied, &records), format.clone()));
    // What comes back is read without the proxy.
    back("kinesis", amazon.with(kinesis("out")));
    back("sqs", with(sqs(&amazon.address, &queue), format.clone()));
    back("sns", with(sqs(&amazon.address, &heard), format));
    let destinations = json!([
        through(json!({"type": "Kinesis", "streamName": "out"})),
        sqs(&proxied, &queue),
        through(json!({"type": "SNS", "topic": topic})),
        through(json!({"type": "S3", "bucket": "lake", "interval": "1s"}))
    ]);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
    let enrichment = json!({"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.value AS id"});
    let output = json!({"name": "out", "resultEnrichment": enrichment, "destinations": destinations});
    let query = json!({"name": "numbers", "pattern": pattern, "outputs": [output]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201);

    let next = Cell::new(0);
    let more = || {
        amazon.put_records("in", next.get()..next.get() + MORE);
        amazon.send_messages(&records, next.get()..next.get() + MORE);
        set_numbers(&weir, next.get()..next.get() + MORE);
        next.set(next.get() + MORE);
    };
    let came_back = |name: &str| weir.rows(&format!("MATCH (n) WHERE n.{name} RETURN count(n)"))[0][0].as_u64().unwrap_or(0);
    let stored =
        || -> u64 { objects(&amazon, "lake").iter().flat_map(|text| text.lines()).collect::<BTreeSet<_>>().len() as u64 };
    let all = |what: &str| {
        let count = next.get();
        wait_until(&format!("{what}: all records are read"), PATIENCE, || counted(&weir).0 == count);
        for name in ["taken", "kinesis", "sqs", "sns"] {
            wait_until(&format!("{what}: {name} has all"), PATIENCE, || came_back(name) == count);
        }
        wait_until(&format!("{what}: S3 has all results"), PATIENCE, || stored() == count);
    };
    more();
    all("before");
    proxy.each_fault("server", |_| more(), all);
    weir.stop();
}

/// By leases in a table of DynamoDB, asked for and sent.
#[test]
fn shards_that_are_leased_are_read() {
    const LEFT_OUT: &str = "leases of Kinesis behind a network that cuts, resets, slows and stalls";
    let Some(amazon) = Amazon::start(LEFT_OUT) else { return };
    let Some((proxy, port)) = behind(LEFT_OUT, amazon.address.parse().expect("an address")) else { return };
    amazon.create_stream("leased", 2);
    let weir = Home::new().start(&[]);
    let retrievals = [
        ("asked", json!({"type": "PollingConfig", "idleTimeBetweenReads": "250ms"})),
        ("sent", json!({"type": "FanOutConfig", "consumerName": "sent"})),
    ];
    for (name, retrieval) in retrievals {
        let leases = json!({"failoverTime": "3s", "shardSyncInterval": "1s"});
        let source = amazon.with(json!({"type": "KinesisKCL", "kinesisStreamName": "leased", "applicationName": name,
            "format": {"type": "Json"}, "initialPosition": {"type": "TrimHorizon"}, "checkpointSettings": {"maxBatchWait": "300ms"},
            "advancedSettings": {"leaseManagementConfig": leases, "retrievalSpecificConfig": retrieval}}));
        let source = with(source, json!({"endpoint": format!("http://127.0.0.1:{port}/")}));
        let query = format!("MATCH (n) WHERE id(n) = idFrom('{name}', $that.id) SET n.{name} = true");
        weir.post(STREAMS, &json!({"name": name, "source": source, "query": query})).expect(201);
    }
    let next = Cell::new(0);
    let more = || {
        amazon.put_records("leased", next.get()..next.get() + MORE);
        next.set(next.get() + MORE);
    };
    let all = |what: &str| {
        for name in ["asked", "sent"] {
            let read = || weir.rows(&format!("MATCH (n) WHERE n.{name} RETURN count(n)"))[0][0].as_u64();
            wait_until(&format!("{what}: all records are {name}"), PATIENCE, || read() == Some(next.get()));
        }
    };
    more();
    all("before");
    proxy.each_fault("server", |_| more(), all);
    weir.stop();
}

/// All numbers that the server tells become nodes, whatever happens to the connections meanwhile.
fn numbers_are_read(left_out: &str, server: &Numbers, source: impl Fn(u16) -> Json) {
    let Some((proxy, port)) = behind(left_out, server.address) else { return };
    let weir = Home::new().start(&[]);
    weir.post(STREAMS, &json!({"name": "in", "source": source(port), "query": COUNT})).expect(201);
    let all = |what: &str| {
        wait_until(&format!("{what}: all numbers are read"), PATIENCE, || counted(&weir).0 == server.count());
    };
    server.more(MORE);
    all("before");
    proxy.each_fault("server", |_| server.more(MORE), all);
    weir.stop();
}

#[test]
fn web_sockets_are_read() {
    let left_out = "web sockets behind a network that cuts, resets, slows and stalls";
    numbers_are_read(left_out, &Numbers::over_web_sockets(), |port| {
        let keep_alive = json!({"type": "PingPongInterval", "interval": "200ms"});
        json!({"type": "WebsocketClient", "url": format!("ws://127.0.0.1:{port}/"), "format": {"type": "Json"}, "keepAlive": keep_alive})
    });
}

#[test]
fn reactive_streams_are_read() {
    let left_out = "reactive streams behind a network that cuts, resets, slows and stalls";
    numbers_are_read(
        left_out,
        &Numbers::over_a_reactive_stream(),
        |port| json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port, "format": {"type": "Json"}, "reconnect": true}),
    );
}

#[test]
fn what_comes_after_a_fault_goes_out_as_a_reactive_stream() {
    let served = free_ports(1);
    let left_out = "results as a reactive stream behind a network that cuts, resets, slows and stalls";
    let Some((proxy, port)) = behind(left_out, ([127, 0, 0, 1], served).into()) else { return };
    let weir = Home::new().start(&[]);
    numbers_to(&weir, json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": served, "format": {"type": "JSON"}}));
    let source =
        json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port, "format": {"type": "Json"}, "reconnect": true});
    let query = "WITH coalesce($that.data.id, $that.id) AS id MATCH (n) WHERE id(n) = idFrom('back', id) SET n.back = id";
    weir.post(STREAMS, &json!({"name": "back", "source": source, "query": query})).expect(201);
    let next = Cell::new(0);
    let told = || weir.rows("MATCH (n) WHERE n.back IS NOT NULL RETURN coalesce(max(n.back), -1)")[0][0].as_i64().unwrap_or(-1);
    // What comes while nobody is connected is gone.
    let told_again = |what: &str| {
        let from = next.get() as i64;
        wait_until(&format!("{what}: results are told"), PATIENCE, || {
            set_numbers(&weir, next.get()..next.get() + 1);
            next.set(next.get() + 1);
            told() >= from
        });
    };
    told_again("before");
    proxy.each_fault("server", |_| set_numbers(&weir, next.get()..next.replace(next.get() + MORE) + MORE), told_again);
    weir.stop();
}

/// The texts of the objects of a bucket.
fn objects(amazon: &Amazon, bucket: &str) -> Vec<String> {
    let address = amazon.address.parse().expect("an address");
    let list = send(address, "GET", &format!("/{bucket}?list-type=2"), &[], b"").expect("an answer").text();
    let names = list.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0));
    names.map(|name| send(address, "GET", &format!("/{bucket}/{name}"), &[], b"").expect("an answer").text()).collect()
}
