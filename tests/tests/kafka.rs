//! Kafka in and out, against a real broker and with the real binary: what is read and how often, what goes on after a
//! kill, what is said when something is wrong.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value as Json, json};
use weir_connectors::{FilePolicy, Frames, HostPolicy, Limits, RecordStream, SourceContext, parse_source_v1};
use weir_model::Position;
use weir_tests::kafka::{Broker, free_ports, shared};
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::streams::{COUNT, RESUME, STREAMS, counted, with};
use weir_tests::toxiproxy::Toxiproxy;

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(150);

fn ingest(broker: &str, topics: Json, query: &str, more: Json) -> Json {
    let format = json!({"type": "CypherJson", "query": query});
    with(json!({"type": "KafkaIngest", "topics": topics, "bootstrapServers": broker, "format": format}), more)
}

fn values(ids: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    ids.map(|id| json!({"id": id}).to_string().into_bytes()).collect()
}

fn produce(broker: &Broker, topic: &str, partition: i32, ids: std::ops::Range<u64>) {
    broker.produce(topic, partition, values(ids).iter().map(|value| Some(value.as_slice())));
}

/// From now on the partition begins there.
fn expire(broker: &Broker, topic: &str, before: i64) {
    let admin: AdminClient<DefaultClientContext> = broker.client().create().expect("a client");
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(before)).expect("an offset");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    runtime.block_on(admin.delete_records(&offsets, &options)).expect("the broker answers");
}

fn wait_counted(weir: &Weir, count: u64) {
    wait_until(&format!("{count} records are in the graph"), PATIENCE, || counted(weir).0 >= count);
    assert_eq!(counted(weir), (count, 1), "{}", weir.log());
}

/// What the stream says of itself while it cannot read.
fn wait_message(weir: &Weir, stream: &str, part: &str) -> String {
    let mut message = String::new();
    wait_until(&format!("stream {stream} says '{part}'; it says '{message}'"), PATIENCE, || {
        let info = weir.get(&format!("/api/v1/ingest/{stream}")).expect(200).json();
        message = info["message"].as_str().unwrap_or_default().to_owned();
        message.contains(part)
    });
    message
}

fn status(weir: &Weir, stream: &str) -> String {
    weir.get(&format!("/api/v1/ingest/{stream}")).expect(200).json()["status"].as_str().expect("a status").to_owned()
}

/// How many records of its partitions the stream has not read; none where it has no partitions, or does not know yet where they
/// end.
fn lag(weir: &Weir, stream: &str) -> Option<u64> {
    weir.get(&format!("/api/v1/ingest/{stream}")).expect(200).json()["stats"]["lag"].as_u64()
}

#[test]
fn all_partitions_are_read_once_across_kills_and_offsets_follow() {
    let Some(broker) = shared("reading partitions across kills, and committed offsets") else { return };
    broker.create_topic("parts", 3);
    (0..3).for_each(|partition| {
        produce(&broker, "parts", partition, partition as u64 * 10_000..partition as u64 * 10_000 + 10_000)
    });
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let commits = json!({"type": "ExplicitCommit", "maxBatch": 100, "maxIntervalMillis": 200});
    let more =
        json!({"autoOffsetReset": "earliest", "offsetCommitting": commits, "maximumPerSecond": 3_000, "groupId": "parts-group"});
    let definition = ingest(&broker.bootstrap(), json!({"parts": [0, 1, 2]}), COUNT, more);
    weir.post("/api/v1/ingest/parts", &definition).expect(200);
    for round in 0..4 {
        // Not more than a moment ago: on a busy machine all may be read before that is looked at.
        wait_until("some more records are read", PATIENCE, || counted(&weir).0 > round * 2_000);
        let committed: i64 = (0..3).filter_map(|partition| broker.committed("parts-group", "parts", partition)).sum();
        weir.kill();
        weir = home.start(RESUME);
        assert!(committed as u64 <= counted(&weir).0, "an offset was committed before its record was durable");
    }
    wait_counted(&weir, 30_000);
    wait_until("all offsets are committed", PATIENCE, || {
        (0..3).all(|partition| broker.committed("parts-group", "parts", partition) == Some(10_000))
    });
    // What a pause leaves is read when it is over.
    weir.put("/api/v1/ingest/parts/pause").expect(200);
    std::thread::sleep(Duration::from_millis(300));
    produce(&broker, "parts", 1, 30_000..30_100);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(counted(&weir).0, 30_000, "a paused stream reads nothing");
    weir.put("/api/v1/ingest/parts/start").expect(200);
    wait_counted(&weir, 30_100);
    weir.delete("/api/v1/ingest/parts").expect(200);
    assert_eq!(broker.committed("parts-group", "parts", 1), Some(10_100), "the last offsets are committed at the end");
    weir.stop();
}

#[test]
fn a_group_reads_topics_by_name_and_by_pattern_from_where_it_shall() {
    let Some(broker) = shared("subscriptions, patterns, where a group begins") else { return };
    broker.create_topic("late-1", 2);
    produce(&broker, "late-1", 0, 0..10);
    let home = Home::new();
    let weir = home.start(RESUME);
    // From the end, which is noted though nothing was read: what comes while weir is away is not missed.
    let session = json!({"kafkaProperties": {"session.timeout.ms": "6000"}});
    weir.post("/api/v1/ingest/end", &ingest(&broker.bootstrap(), json!(["late-1"]), COUNT, session)).expect(200);
    wait_until("the stream knows where it begins", PATIENCE, || lag(&weir, "end") == Some(0));
    // That is made durable once a second, in its turn: what is written then is so later.
    std::thread::sleep(Duration::from_secs(3));
    weir.query("CREATE (:Later)").expect(200);
    weir.kill();
    produce(&broker, "late-1", 0, 10..20);
    produce(&broker, "late-1", 1, 20..30);
    let weir = home.start(RESUME);
    wait_counted(&weir, 20);

    // A pattern finds what is made later, from its beginning.
    let pattern = ingest(
        &broker.bootstrap(),
        json!(["^later-[0-9]+$"]),
        COUNT,
        json!({
            "autoOffsetReset": "earliest", "kafkaProperties": {"topic.metadata.refresh.interval.ms": "500"},
        }),
    );
    broker.create_topic("later-1", 1);
    produce(&broker, "later-1", 0, 100..110);
    weir.post("/api/v1/ingest/pattern", &pattern).expect(200);
    wait_counted(&weir, 30);
    broker.create_topic("later-2", 1);
    broker.create_topic("unrelated-2", 1);
    produce(&broker, "later-2", 0, 110..120);
    produce(&broker, "unrelated-2", 0, 900..910);
    wait_counted(&weir, 40);

    let none = ingest(&broker.bootstrap(), json!(["late-1"]), COUNT, json!({"autoOffsetReset": "none"}));
    weir.post("/api/v1/ingest/none", &none).expect(200);
    let ended = weir.wait_ingest("none", "Failed", PATIENCE);
    assert!(ended["message"].as_str().expect("a message").contains("has committed no offset"), "{ended}");
    weir.stop();
}

#[test]
fn records_are_unpacked_counted_and_bounded() {
    let Some(broker) = shared("record decoders, Drop, raw records, records without a value, ending offsets") else { return };
    broker.create_topic("packed", 2);
    let mut gzip = Vec::new();
    let mut child = std::process::Command::new("gzip")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("gzip runs");
    child.stdin.take().expect("a pipe").write_all(b"{\"id\": 1}").expect("gzip reads");
    gzip.extend(child.wait_with_output().expect("gzip ends").stdout);
    broker.produce("packed", 0, [Some(gzip.as_slice()), None, Some(b"broken"), Some(gzip.as_slice()), Some(b"after")]);
    broker.produce("packed", 1, [None, None, None, Some(gzip.as_slice()), Some(gzip.as_slice())]);
    let weir = Home::new().start(&[]);
    let earliest = |more: Json| with(json!({"autoOffsetReset": "earliest", "endingOffset": 3}), more);
    let every = "CREATE (:Seen {id: $that.id})";
    let topics = json!({"packed": [0, 1]});
    let definition = ingest(&broker.bootstrap(), topics.clone(), every, earliest(json!({"recordDecoders": ["Gzip"]})));
    weir.post("/api/v1/ingest/packed", &definition).expect(200);
    let ended = weir.wait_ingest("packed", "Completed", PATIENCE);
    assert_eq!(ended["stats"]["ingestedCount"], 4, "{ended}");
    assert_eq!(ended["failedRecords"]["count"], 1, "{ended}");
    assert_eq!(weir.rows("MATCH (n:Seen) RETURN count(n), max(n.id)"), [json!([3, 1])]);

    let definition = ingest(&broker.bootstrap(), topics.clone(), "", earliest(json!({"format": {"type": "Drop"}})));
    weir.post("/api/v1/ingest/dropped", &definition).expect(200);
    let ended = weir.wait_ingest("dropped", "Completed", PATIENCE);
    assert_eq!(ended["stats"]["ingestedCount"], 4, "{ended}");

    let raw = json!({"format": {"type": "CypherRaw", "query": "CREATE (:Raw {bytes: $that})"}, "endingOffset": 4});
    weir.post("/api/v1/ingest/raw", &ingest(&broker.bootstrap(), json!({"packed": [0]}), "", earliest(raw))).expect(200);
    weir.wait_ingest("raw", "Completed", PATIENCE);
    assert_eq!(weir.rows("MATCH (n:Raw) RETURN count(n)"), [json!([4])]);
    weir.stop();
}

#[test]
fn the_end_of_a_topic_is_not_that_of_another() {
    let Some(broker) = shared("ending offsets of topics of different length") else { return };
    for topic in ["short", "long", "expired", "other"] {
        broker.create_topic(topic, 1);
    }
    produce(&broker, "short", 0, 0..10);
    // In many parts, of which each answer of the broker has one: the end of the short topic is told when little of this one is
    // read.
    (0..15).for_each(|part| produce(&broker, "long", 0, 1_000 + part * 10..1_010 + part * 10));
    let weir = Home::new().start(&[]);
    let more = |more: Json| with(json!({"autoOffsetReset": "earliest", "endingOffset": 100}), more);
    let little = json!({"kafkaProperties": {"max.partition.fetch.bytes": "1"}});
    let definition = ingest(&broker.bootstrap(), json!({"short": [0], "long": [0]}), COUNT, more(little));
    weir.post("/api/v1/ingest/lengths", &definition).expect(200);
    wait_counted(&weir, 10 + 101);
    assert_eq!(status(&weir, "lengths"), "Running");
    produce(&broker, "short", 0, 10..150);
    weir.wait_ingest("lengths", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (2 * 101, 1));

    // Of a topic that begins behind the ending offset no record says so.
    produce(&broker, "expired", 0, 0..200);
    expire(&broker, "expired", 200);
    produce(&broker, "other", 0, 2_000..2_010);
    let definition = ingest(&broker.bootstrap(), json!({"expired": [0]}), COUNT, more(json!({})));
    weir.post("/api/v1/ingest/expired", &definition).expect(200);
    let ended = weir.wait_ingest("expired", "Completed", PATIENCE);
    assert_eq!(ended["stats"]["ingestedCount"], 0, "{ended}");
    let definition = ingest(&broker.bootstrap(), json!({"expired": [0], "other": [0]}), COUNT, more(json!({})));
    weir.post("/api/v1/ingest/both", &definition).expect(200);
    wait_counted(&weir, 2 * 101 + 10);
    assert_eq!(status(&weir, "both"), "Running");
    produce(&broker, "other", 0, 2_010..2_150);
    weir.wait_ingest("both", "Completed", PATIENCE);
    assert_eq!(counted(&weir), (3 * 101, 1));
    weir.stop();
}

#[test]
fn offsets_are_committed_also_while_a_stream_is_paused() {
    let Some(broker) = shared("offsets committed in a pause") else { return };
    broker.create_topic("held", 1);
    produce(&broker, "held", 0, 0..10);
    let weir = Home::new().start(&[]);
    let commits = json!({"type": "ExplicitCommit", "maxIntervalMillis": 5000});
    let more = json!({"autoOffsetReset": "earliest", "groupId": "held-group", "offsetCommitting": commits});
    weir.post("/api/v1/ingest/held", &ingest(&broker.bootstrap(), json!({"held": [0]}), COUNT, more)).expect(200);
    let committed = || broker.committed("held-group", "held", 0);
    wait_until("the first offsets are committed", PATIENCE, || committed() == Some(10));
    // The next commit is due in some seconds, and by then the stream is paused.
    produce(&broker, "held", 0, 10..20);
    wait_counted(&weir, 20);
    weir.put("/api/v1/ingest/held/pause").expect(200);
    wait_until("the last offsets are committed", PATIENCE, || committed() == Some(20));
    assert_eq!(status(&weir, "held"), "Paused");
    weir.stop();
}

/// By what the client hears while it fetches, and by what the brokers are asked while it does not.
#[test]
fn how_many_records_a_stream_has_not_read_is_told() {
    let Some(broker) = shared("how far streams are behind their topics") else { return };
    broker.create_topic("behind", 2);
    let produced = Cell::new(0);
    let more = |count: u64| {
        let from = produced.replace(produced.get() + 2 * count);
        (0..2).for_each(|partition| {
            let first = from + partition as u64 * count;
            produce(&broker, "behind", partition, first..first + count);
        });
    };
    more(500);
    let weir = Home::new().start(&[]);
    weir.post("/api/v1/ingest/other", &json!({"type": "NumberIteratorIngest", "ingestLimit": 1})).expect(200);
    let slow = json!({"autoOffsetReset": "earliest", "maximumPerSecond": 300});
    weir.post("/api/v1/ingest/behind", &ingest(&broker.bootstrap(), json!(["behind"]), COUNT, slow)).expect(200);
    wait_until("it is known where the partitions end", PATIENCE, || lag(&weir, "behind").is_some());
    weir.put("/api/v1/ingest/behind/pause").expect(200);
    // Before it is noticed that nothing is fetched any more, and after that. Some that are read wait to take effect.
    for _ in 0..2 {
        more(500);
        wait_until("what comes in a pause is counted", PATIENCE, || {
            let all = lag(&weir, "behind").map(|lag| lag + counted(&weir).0);
            all.is_some_and(|all| (produced.get() - 300..=produced.get()).contains(&all))
        });
    }
    weir.put("/api/v1/ingest/behind/start").expect(200);
    wait_counted(&weir, 3_000);
    wait_until("nothing is left", PATIENCE, || lag(&weir, "behind") == Some(0));
    // The mark at the end of a transaction is no record.
    let producer: BaseProducer = broker.client().set("transactional.id", "behind").create().expect("a client");
    producer.init_transactions(PATIENCE).expect("the broker answers");
    producer.begin_transaction().expect("a transaction");
    let record = BaseRecord::<[u8], [u8]>::to("behind").partition(0).payload(br#"{"id": 3000}"#);
    assert!(producer.send(record).is_ok());
    producer.commit_transaction(PATIENCE).expect("the broker commits");
    wait_counted(&weir, 3_001);
    // It is looked once a second.
    std::thread::sleep(Duration::from_secs(2));
    wait_until("nothing is left", PATIENCE, || lag(&weir, "behind") == Some(0));
    assert_eq!(weir.get(&format!("{STREAMS}/behind")).expect(200).json()["stats"]["lag"], 0);
    let figures = weir.get("/metrics").expect(200).text();
    let samples: Vec<_> = figures.lines().filter(|line| line.starts_with("weir_ingest_lag_records{")).collect();
    assert!(samples.len() == 1 && samples[0].contains(r#"ingest="behind""#) && samples[0].ends_with(" 0"), "{samples:?}");
    weir.stop();
}

/// Whoever polls less often is taken for dead.
fn polled_often() -> Json {
    json!({"max.poll.interval.ms": "6000", "session.timeout.ms": "6000"})
}

/// Each of the groups has its one member for longer than that may go without being polled.
fn stay_in_their_groups(broker: &Broker, groups: &[&str]) {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(10) {
        groups.iter().for_each(|group| assert_eq!(broker.members(group), 1, "{group} after {:?}", since.elapsed()));
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// In a pause nobody polled the client: it left its group, and others had its partitions.
#[test]
fn a_stream_that_is_paused_for_long_stays_in_its_group() {
    let Some(broker) = shared("pauses that are longer than max.poll.interval.ms") else { return };
    broker.create_topic("long-pause", 2);
    (0..2).for_each(|partition| {
        produce(&broker, "long-pause", partition, partition as u64 * 10_000..partition as u64 * 10_000 + 10_000)
    });
    let weir = Home::new().start(&[]);
    let commits = json!({"type": "ExplicitCommit", "maxBatch": 100, "maxIntervalMillis": 200});
    let more = json!({"autoOffsetReset": "earliest", "maximumPerSecond": 2_000, "offsetCommitting": commits,
        "kafkaProperties": polled_often()});
    // A pattern, so that it has a client also when nothing comes for longer.
    let definition = ingest(&broker.bootstrap(), json!(["^long-pause$"]), COUNT, more.clone());
    weir.post("/api/v1/ingest/long-pause", &definition).expect(200);
    let ends = with(more, json!({"format": {"type": "Drop"}, "endingOffset": 9_999}));
    weir.post("/api/v1/ingest/long-pause-end", &ingest(&broker.bootstrap(), json!(["long-pause"]), "", ends)).expect(200);
    let put = |verb: &str, streams: &[&str]| {
        streams.iter().for_each(|stream| drop(weir.put(&format!("/api/v1/ingest/{stream}/{verb}")).expect(200)));
    };
    // More has been read ahead by then.
    wait_until("some records are read", PATIENCE, || counted(&weir).0 > 1_000 && broker.members("long-pause-end") == 1);
    put("pause", &["long-pause", "long-pause-end"]);
    std::thread::sleep(Duration::from_secs(1));
    let before = counted(&weir);
    stay_in_their_groups(&broker, &["long-pause", "long-pause-end"]);
    assert_eq!(counted(&weir), before, "a paused stream reads nothing");
    put("start", &["long-pause", "long-pause-end"]);
    wait_counted(&weir, 20_000);
    let ended = weir.wait_ingest("long-pause-end", "Completed", PATIENCE);
    assert_eq!(ended["stats"]["ingestedCount"], 20_000, "{ended}");
    wait_until("all offsets are committed", PATIENCE, || {
        (0..2).all(|partition| broker.committed("long-pause", "long-pause", partition) == Some(10_000))
    });

    // At rest, and paused then. Another that joins does not wait for it either, and what it had comes back.
    std::thread::sleep(Duration::from_secs(3));
    put("pause", &["long-pause"]);
    stay_in_their_groups(&broker, &["long-pause"]);
    let other = broker.member("long-pause", "long-pause");
    wait_until("both are in the group", PATIENCE, || {
        drop(other.poll(Duration::from_millis(20)));
        broker.members("long-pause") == 2
    });
    drop(other);
    wait_until("it is alone again", PATIENCE, || broker.members("long-pause") == 1);
    (0..2).for_each(|partition| {
        produce(&broker, "long-pause", partition, 20_000 + partition as u64 * 10..20_010 + partition as u64 * 10)
    });
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(counted(&weir).0, 20_000, "a paused stream reads nothing");
    put("start", &["long-pause"]);
    wait_counted(&weir, 20_020);
    weir.stop();
}

/// A stream that waits for room in the graph stays in its group, as one does that is paused.
#[test]
fn a_stream_that_the_graph_has_no_room_for_stays_in_its_group() {
    let Some(broker) = shared("graphs without room for longer than max.poll.interval.ms") else { return };
    broker.create_topic("no-room", 1);
    produce(&broker, "no-room", 0, 0..3_000);
    let weir = Home::new().start(&[]);
    let slow = format!("CALL util.sleep(CASE WHEN $that.id = 0 THEN 18000 ELSE 0 END) {COUNT}");
    let more = json!({"autoOffsetReset": "earliest", "kafkaProperties": polled_often()});
    weir.post("/api/v1/ingest/no-room", &ingest(&broker.bootstrap(), json!(["no-room"]), &slow, more)).expect(200);
    wait_until("it is in its group", PATIENCE, || broker.members("no-room") == 1);
    stay_in_their_groups(&broker, &["no-room"]);
    wait_counted(&weir, 3_000);
    weir.stop();
}

#[test]
fn records_that_fail_are_told_with_where_they_come_from() {
    let Some(broker) = shared("dead letters with key, offset and headers") else { return };
    broker.create_topic("failing", 2);
    broker.produce("failing", 1, [Some(b"{\"id\": 1}".as_slice()), Some(b"nonsense")]);
    let producer: BaseProducer = broker.client().create().expect("a client");
    let headers = OwnedHeaders::new().insert(Header { key: "trace", value: Some(b"abc") });
    let record = BaseRecord::<[u8], [u8]>::to("failing").partition(0).key(b"k").payload(b"{").timestamp(1_700_000_000_000);
    assert!(producer.send(record.headers(headers)).is_ok());
    producer.flush(PATIENCE).expect("the broker takes the record");
    let home = Home::new();
    let weir = home.start(&[]);
    let boxes = json!([{"type": "File", "path": "failed.jsonl"}]);
    let more = json!({"autoOffsetReset": "earliest", "endingOffset": 1,
        "onRecordError": {"logRecord": false, "deadLetterQueueSettings": {"destinations": boxes}}});
    weir.post("/api/v1/ingest/failing", &ingest(&broker.bootstrap(), json!({"failing": [0, 1]}), COUNT, more)).expect(200);
    wait_until("both have failed", PATIENCE, || home.lines("failed.jsonl").len() >= 2);
    let mut letters = home.wait_lines("failed.jsonl", 2);
    letters.sort_by_key(|letter| letter["partition"].as_i64());
    let keyed = json!({"value": "ew==", "topic": "failing", "partition": 0, "offset": 0, "timestamp": 1_700_000_000_000_u64,
        "timestampType": "CreateTime", "serializedKeySize": 1, "serializedValueSize": 1, "key": "aw==",
        "headers": [{"key": "trace", "value": "YWJj"}]});
    assert_eq!(letters[0], keyed);
    let bare = json!([letters[1]["value"], letters[1]["offset"], letters[1]["serializedKeySize"], letters[1].get("key")]);
    assert_eq!(bare, json!(["bm9uc2Vuc2U=", 1, -1, null]));
    weir.stop();
}

#[test]
fn definitions_are_shown_as_they_are_and_secrets_are_not() {
    let home = Home::new();
    let weir = home.start(RESUME);
    let more = json!({
        "securityProtocol": "SASL_SSL", "sslKeystorePassword": "hush-1", "endingOffset": 7, "maximumPerSecond": 5,
        "saslJaasConfig": {"type": "PlainLogin", "username": "u", "password": "hush-2"},
        "offsetCommitting": {"type": "ExplicitCommit"}, "recordDecoders": ["Zlib", "Base64"],
        "kafkaProperties": {"sasl.mechanism": "PLAIN", "ssl.key.password": "hush-3", "sasl.oauthbearer.config": "hush-5"},
    });
    let definition = ingest("127.0.0.1:1", json!({"t": [0]}), "RETURN 1", more);
    let expected = "{\"type\":\"KafkaIngest\",\"format\":{\"type\":\"CypherJson\",\"query\":\"RETURN 1\",\"parameter\":\"that\"},\
        \"topics\":{\"t\":[0]},\"parallelism\":16,\"bootstrapServers\":\"127.0.0.1:1\",\"securityProtocol\":\"SASL_SSL\",\
        \"offsetCommitting\":{\"type\":\"ExplicitCommit\",\"maxBatch\":1000,\"maxIntervalMillis\":10000,\"parallelism\":100,\
        \"waitForCommitConfirmation\":true},\"autoOffsetReset\":\"latest\",\"kafkaProperties\":{\"sasl.mechanism\":\"PLAIN\",\
        \"sasl.oauthbearer.config\":\"Secret(****)\",\"ssl.key.password\":\"Secret(****)\"},\"endingOffset\":7,\"maximumPerSecond\":5,\"recordDecoders\":[\"Zlib\",\"Base64\"],\
        \"sslKeystorePassword\":\"Secret(****)\",\"sslTruststorePassword\":null,\"sslKeyPassword\":null,\
        \"saslJaasConfig\":{\"type\":\"PlainLogin\",\"username\":\"u\",\"password\":\"Secret(****)\"}}";
    let expected: Json = serde_json::from_str(expected).expect("JSON");
    weir.post("/api/v1/ingest/shown", &definition).expect(200);
    let output = json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "127.0.0.1:1", "saslJaasConfig":
        {"type": "ScramLogin", "username": "u", "password": "hush-4"}, "kafkaProperties": {"sasl.mechanism": "SCRAM-SHA-256"}});
    let query = json!({"pattern": {"type": "Cypher", "query": "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n)"}, "outputs": {"k": output}});
    weir.post("/api/v1/query/standing/shown", &query).expect(201);
    let shown_output = "{\"type\":\"WriteToKafka\",\"topic\":\"t\",\"bootstrapServers\":\"127.0.0.1:1\",\"format\":{\"type\":\"JSON\"},\
        \"kafkaProperties\":{\"sasl.mechanism\":\"SCRAM-SHA-256\"},\"sslKeystorePassword\":null,\"sslTruststorePassword\":null,\
        \"sslKeyPassword\":null,\"saslJaasConfig\":{\"type\":\"ScramLogin\",\"username\":\"u\",\"password\":\"Secret(****)\"},\
        \"structure\":{\"type\":\"WithMetadata\"}}";
    let check = |weir: &Weir| {
        let stream = weir.get("/api/v1/ingest/shown").expect(200);
        assert_eq!(stream.json()["settings"].to_string(), expected.to_string());
        let query = weir.get("/api/v1/query/standing/shown").expect(200);
        assert_eq!(query.json()["outputs"]["k"].to_string(), shown_output);
        for text in [stream.text(), query.text(), weir.log()] {
            assert!(!text.contains("hush"), "{text}");
        }
    };
    check(&weir);
    weir.kill();
    let weir = home.start(&[]);
    check(&weir);

    // Who shares a group and commits nothing is told what that means.
    let told = "has a groupId and commits no offsets";
    assert!(!weir.log().contains(told));
    weir.post("/api/v1/ingest/member", &ingest("127.0.0.1:1", json!(["t"]), "RETURN 1", json!({"groupId": "g"}))).expect(200);
    wait_until("it is in the log", PATIENCE, || weir.log().contains(told));

    // What an option overrides is told once by each that begins, and not when it is checked.
    let twice = json!({"sslKeyPassword": "hush-6", "kafkaProperties": {"ssl.key.password": "hush-7"}});
    weir.post("/api/v1/ingest/twice", &ingest("127.0.0.1:1", json!(["t"]), "RETURN 1", twice.clone())).expect(200);
    let output = with(json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "127.0.0.1:1"}), twice);
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.x = 1 RETURN DISTINCT id(n)"});
    weir.post("/api/v1/query/standing/twice", &json!({"pattern": pattern, "outputs": {"k": output}})).expect(201);
    let overridden = || weir.log().matches("of the kafkaProperties these have no effect").count();
    wait_until("both have said what is overridden", PATIENCE, || overridden() == 2);

    let refused = |definition: &Json, parts: &[&str]| {
        let answer = weir.post("/api/v1/ingest/refused", definition).expect(400).text();
        assert!(parts.iter().all(|part| answer.contains(part)) && !answer.contains("hush"), "{answer}");
    };
    let with = |more: Json| ingest("127.0.0.1:1", json!(["t"]), "RETURN 1", more);
    refused(&json!({"type": "KafkaIngest", "bootstrapServers": "h:1"}), &["topics", "Missing required field"]);
    for servers in ["nowhere", "http://127.0.0.1:1", "u:hush@127.0.0.1:1"] {
        refused(&ingest(servers, json!(["t"]), "RETURN 1", json!({})), &["bootstrapServers", "host:port"]);
    }
    refused(&ingest("h:1", json!([]), "RETURN 1", json!({})), &["topics", "empty"]);
    refused(&ingest("h:1", json!("t"), "RETURN 1", json!({})), &["topics", "wrong type"]);
    refused(&ingest("h:1", json!(["a b"]), "RETURN 1", json!({})), &["topics", "a b"]);
    refused(&ingest("h:1", json!(["t", "^(x"]), "RETURN 1", json!({})), &["topics", "'^(x' is not a regular expression"]);
    for wrong in [0, -5] {
        refused(
            &with(json!({"offsetCommitting": {"type": "ExplicitCommit", "maxBatch": wrong}})),
            &[".offsetCommitting.maxBatch", "at least"],
        );
    }
    // What no client can be made with.
    for (properties, part) in [
        (json!({"max.poll.interval.ms": "5000"}), "max.poll.interval.ms"),
        (json!({"fetch.max.bytes": "1"}), "fetch.max.bytes"),
        (json!({"ssl.keystore.location": "/nope.p12"}), "ssl.keystore.password"),
        (json!({"group.protocol": "consumer", "session.timeout.ms": "9000"}), "session.timeout.ms"),
    ] {
        refused(&with(json!({"kafkaProperties": properties})), &["kafkaProperties", part]);
    }
    let files = json!({"ssl.certificate.location": "/nope.pem"});
    refused(&with(json!({"securityProtocol": "SSL", "kafkaProperties": files})), &["ssl.certificate.location"]);
    refused(&with(json!({"securityProtocol": "SASL_PLAINTEXT"})), &["securityProtocol", "needs a login; give saslJaasConfig"]);
    refused(
        &with(json!({"kafkaProperties": {"sasl.oauthbearer.client.secret": "hush"}})),
        &["sasl.oauthbearer.client.secret", "OAuthBearerLogin"],
    );
    refused(&with(json!({"autoOffsetReset": "nope"})), &["autoOffsetReset", "latest, earliest, none"]);
    refused(&with(json!({"recordDecoders": ["Lzma"]})), &["recordDecoders", "Zlib, Gzip, Base64, Zstd, Lz4, Snappy"]);
    refused(&with(json!({"kafkaProperties": {"bootstrap.servers": "hush"}})), &["kafkaProperties.bootstrap.servers"]);
    refused(&with(json!({"kafkaProperties": {"no.such": "hush"}})), &["kafkaProperties.no.such"]);
    // librdkafka would take it for the address of a function.
    let pointer = json!({"test.mock.num.brokers": "1", "ut_handle_ProduceResponse": "hush"});
    refused(&with(json!({"kafkaProperties": pointer})), &["kafkaProperties.test.mock.num.brokers"]);
    refused(
        &with(json!({"kafkaProperties": {"linger.ms": 5}})),
        &["kafkaProperties.linger.ms: Got a number", "expecting string"],
    );
    refused(&with(json!({"groupId": "g", "kafkaProperties": {"group.id": "h"}})), &["group.id", "groupId"]);
    let commit = json!({"offsetCommitting": {"type": "ExplicitCommit"}, "kafkaProperties": {"enable.auto.commit": "true"}});
    refused(&with(commit), &["enable.auto.commit", "offsetCommitting"]);
    refused(&with(json!({"saslJaasConfig": {"type": "ScramLogin", "username": "u", "password": "hush"}})), &["sasl.mechanism"]);
    // Nor can one that writes be made.
    let files = json!({"security.protocol": "SSL", "ssl.certificate.location": "/nope.pem"});
    let output = json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "127.0.0.1:1", "kafkaProperties": files});
    let output = json!({"pattern": pattern, "outputs": {"k": output}});
    let answer = weir.post("/api/v1/query/standing/refused", &output).expect(400).text();
    assert!(answer.contains("kafkaProperties") && answer.contains("ssl.certificate.location"), "{answer}");
    // What it says of its protocol counts, as with a stream, in v2 too.
    let output = json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "127.0.0.1:1", "securityProtocol": "SASL_SSL"});
    let v1 = json!({"pattern": pattern, "outputs": {"k": output}});
    let mut output = json!({"type": "Kafka", "topic": "t", "bootstrapServers": "127.0.0.1:1"});
    output["securityProtocol"] = json!({"type": "SaslSsl"});
    let v2 = json!({"name": "refused", "pattern": pattern, "outputs": [{"name": "k", "destinations": [output]}]});
    for (path, body) in [("/api/v1/query/standing/refused", v1), ("/api/v2/graph/quine/standingQueries", v2)] {
        let answer = weir.post(path, &body).expect(400).text();
        assert!(answer.contains("securityProtocol") && answer.contains("SASL_SSL needs a login"), "{answer}");
    }
    assert_eq!(overridden(), 2, "{}", weir.log());
    assert!(!weir.log().contains("hush"));
    weir.stop();
}

#[test]
fn a_broker_that_is_away_is_waited_for_and_said_so() {
    let Some(mut broker) = Broker::start(false, "brokers that are away, topics that are not there") else { return };
    broker.create_topic("away", 1);
    produce(&broker, "away", 0, 0..1_000);
    broker.kill();
    let home = Home::new();
    let weir = home.start(RESUME);
    let more =
        json!({"autoOffsetReset": "earliest", "maximumPerSecond": 2_000, "kafkaProperties": {"session.timeout.ms": "6000"}});
    weir.post("/api/v1/ingest/away", &ingest(&broker.bootstrap(), json!(["away"]), COUNT, more.clone())).expect(200);
    let said = wait_message(&weir, "away", "Connection refused");
    assert!(said.contains(&broker.bootstrap()) && status(&weir, "away") == "Running", "{said}");
    weir.post("/api/v1/ingest/nowhere", &ingest("no-such-host.invalid:9092", json!(["away"]), COUNT, json!({}))).expect(200);
    wait_message(&weir, "nowhere", "no-such-host.invalid");
    weir.delete("/api/v1/ingest/nowhere").expect(200);

    broker.run();
    wait_counted(&weir, 1_000);
    wait_until("the stream has nothing to complain of", PATIENCE, || {
        weir.get("/api/v1/ingest/away").expect(200).json()["message"].is_null()
    });
    // Killed while it is read, twice.
    for round in 1..=2 {
        produce(&broker, "away", 0, round * 10_000..round * 10_000 + 4_000);
        wait_until("it is read", PATIENCE, || counted(&weir).0 > 1_000 + (round - 1) * 4_000);
        broker.kill();
        wait_message(&weir, "away", "Kafka");
        broker.run();
        wait_counted(&weir, 1_000 + round * 4_000);
    }

    let missing = ingest(&broker.bootstrap(), json!(["missing"]), COUNT, more);
    weir.post("/api/v1/ingest/missing", &missing).expect(200);
    wait_message(&weir, "missing", "missing");
    broker.create_topic("missing", 1);
    produce(&broker, "missing", 0, 100_000..100_010);
    wait_counted(&weir, 9_010);

    broker.kill();
    wait_message(&weir, "away", "Kafka");
    let began = Instant::now();
    weir.stop();
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?} to stop while the broker was away", began.elapsed());
}

#[test]
fn logins_and_encryption_work_and_wrong_ones_are_told() {
    let Some(broker) = Broker::start(true, "SASL PLAIN, SASL SCRAM, TLS, and wrong passwords") else { return };
    broker.create_topic("safe", 1);
    produce(&broker, "safe", 0, 0..5);
    let weir = Home::new().start(&[]);
    let login = |kind: &str, password: &str| json!({"type": kind, "username": broker.said("KAFKA_USER"), "password": password});
    let secret = broker.said("KAFKA_PASSWORD");
    let trust = json!({"ssl.truststore.location": broker.said("KAFKA_CA"), "ssl.truststore.type": "PEM"});
    let with = |more: Json| with(trust.clone(), more);
    let scram = json!({"sasl.mechanism": "SCRAM-SHA-256"});
    let jaas = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{}\" password=\"{secret}\";",
        broker.said("KAFKA_USER")
    );
    let ways = [
        ("plain", "KAFKA_SASL", json!({"securityProtocol": "SASL_PLAINTEXT", "saslJaasConfig": login("PlainLogin", secret)})),
        (
            "jaas",
            "KAFKA_SASL",
            json!({"securityProtocol": "SASL_PLAINTEXT", "kafkaProperties": {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}}),
        ),
        (
            "scram",
            "KAFKA_SASL",
            json!({"securityProtocol": "SASL_PLAINTEXT", "saslJaasConfig": login("ScramLogin", secret), "kafkaProperties": scram}),
        ),
        ("tls", "KAFKA_TLS", json!({"securityProtocol": "SSL", "kafkaProperties": trust, "sslTruststorePassword": "unused"})),
        (
            "both",
            "KAFKA_SASL_TLS",
            json!({"securityProtocol": "SASL_SSL", "saslJaasConfig": login("ScramLogin", secret), "kafkaProperties": with(scram.clone())}),
        ),
    ];
    for (name, at, more) in &ways {
        let mut more = more.clone();
        more["autoOffsetReset"] = json!("earliest");
        more["endingOffset"] = json!(4);
        let definition =
            ingest(broker.said(at), json!({"safe": [0]}), &COUNT.replace("$that.id)", &format!("'{name}', $that.id)")), more);
        weir.post(&format!("/api/v1/ingest/{name}"), &definition).expect(200);
    }
    for (count, (name, _, _)) in ways.iter().enumerate() {
        let ended = weir.wait_ingest(name, "Completed", PATIENCE);
        assert_eq!(ended["stats"]["ingestedCount"], 5, "{name}, {count}");
    }
    assert_eq!(counted(&weir), (25, 1));

    let wrong = json!({"securityProtocol": "SASL_PLAINTEXT", "saslJaasConfig": login("PlainLogin", "wrong-hush")});
    weir.post("/api/v1/ingest/wrong", &ingest(broker.said("KAFKA_SASL"), json!({"safe": [0]}), COUNT, wrong)).expect(200);
    let said = wait_message(&weir, "wrong", "uthentication");
    assert!(!said.contains("hush"), "{said}");
    let distrusted = json!({"securityProtocol": "SSL"});
    weir.post("/api/v1/ingest/distrusted", &ingest(broker.said("KAFKA_TLS"), json!({"safe": [0]}), COUNT, distrusted))
        .expect(200);
    wait_message(&weir, "distrusted", "certificate");
    // Out again, over the safest of the ways.
    let output = json!({
        "type": "WriteToKafka", "topic": "safe-out", "bootstrapServers": broker.said("KAFKA_SASL_TLS"),
        "saslJaasConfig": login("ScramLogin", secret),
        "kafkaProperties": with(json!({"sasl.mechanism": "SCRAM-SHA-256", "security.protocol": "SASL_SSL"})),
    });
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.out = 1 RETURN n.out AS out", "mode": "MultipleValues"});
    weir.post("/api/v1/query/standing/safe", &json!({"pattern": pattern, "outputs": {"k": output}})).expect(201);
    weir.query("CREATE ({out: 1})").expect(200);
    wait_until("the result is in the topic", PATIENCE, || broker.read("safe-out").len() == 1);
    assert!(!weir.log().contains("hush") && !weir.log().contains(secret));
    weir.stop();
}

#[test]
fn results_are_written_in_order_and_not_lost_when_the_broker_goes() {
    let Some(mut broker) = Broker::start(false, "results written to Kafka, also while the broker goes and comes") else { return };
    for topic in ["in", "direct", "asked"] {
        broker.create_topic(topic, 1);
    }
    let home = Home::new();
    let weir = home.start(RESUME);
    let out = |topic: &str| json!({"type": "WriteToKafka", "topic": topic, "bootstrapServers": broker.bootstrap(), "structure": {"type": "Bare"}});
    let asked = json!({"type": "CypherQuery", "query": "MATCH (n) WHERE id(n) = idFrom($that.data.id) RETURN n.id * 2 AS twice", "andThen": out("asked")});
    let pattern =
        json!({"type": "Cypher", "query": "MATCH (n) WHERE n.id IS NOT NULL RETURN n.id AS id", "mode": "MultipleValues"});
    let query = json!({"pattern": pattern, "outputs": {"direct": out("direct"), "asked": asked}});
    weir.post("/api/v1/query/standing/out", &query).expect(201);
    let definition =
        ingest(&broker.bootstrap(), json!({"in": [0]}), COUNT, json!({"autoOffsetReset": "earliest", "maximumPerSecond": 5_000}));
    weir.post("/api/v1/ingest/in", &definition).expect(200);
    produce(&broker, "in", 0, 0..20_000);
    wait_until("results come", PATIENCE, || broker.read("direct").len() > 1_000);
    broker.kill();
    std::thread::sleep(Duration::from_secs(1));
    broker.run();
    wait_counted(&weir, 20_000);
    for (topic, key, factor) in [("direct", "id", 1), ("asked", "twice", 2)] {
        let number = |text: &String| serde_json::from_str::<Json>(text).expect("JSON")[key].as_u64().expect("a number") / factor;
        wait_until("all results are there", PATIENCE, || broker.read(topic).iter().map(number).max() == Some(19_999));
        let numbers: Vec<u64> = broker.read(topic).iter().map(number).collect();
        // An idempotent producer in one life: each once, in order.
        assert!(numbers.iter().copied().eq(0..20_000), "{topic}: {} results", numbers.len());
    }
    // A result that is too large for the broker is given up, those around it are not.
    weir.query("CREATE ({id: 'small'})").expect(200);
    let large = "x".repeat(3_000_000);
    weir.post("/api/v1/query/cypher", &json!({"text": "CREATE ({id: $large})", "parameters": {"large": large}})).expect(200);
    weir.query("CREATE ({id: 'after'})").expect(200);
    wait_until("the last result is there", PATIENCE, || broker.read("direct").last().is_some_and(|last| last.contains("after")));
    assert_eq!(broker.read("direct").len(), 20_002);
    weir.stop();
}

#[test]
fn a_topic_that_takes_little_at_once_gets_all_but_what_is_too_large() {
    const RESULTS: u64 = 4_000;
    let Some(broker) = shared("results for topics whose max.message.bytes is less than a request of the client") else { return };
    broker.create_topic("little-in", 1);
    for (topic, bytes, partitions) in [("little", "20000", 1), ("little-once", "20000", 1), ("least", "700", 3)] {
        broker.create_topic_with(topic, partitions, &[("max.message.bytes", bytes)]);
    }
    let home = Home::new();
    let weir = home.start(&[]);
    let out = |topic: &str, once: bool| {
        json!({"type": "WriteToKafka", "topic": topic, "bootstrapServers": broker.bootstrap(), "structure": {"type": "Bare"},
            "exactlyOnce": once})
    };
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.id IS NOT NULL RETURN n.id AS id, n.text AS text",
        "mode": "MultipleValues"});
    let outputs = json!({"little": out("little", false), "once": out("little-once", true), "least": out("least", false)});
    weir.post("/api/v1/query/standing/little", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    // Half a kilobyte each, thousands at a time, and two of thirty among them.
    let large = [RESULTS / 2, RESULTS / 2 + 1];
    let records: Vec<Vec<u8>> = (0..RESULTS)
        .map(|id| json!({"id": id, "text": "x".repeat(if large.contains(&id) { 30_000 } else { 500 })}).to_string().into_bytes())
        .collect();
    broker.produce("little-in", 0, records.iter().map(|record| Some(record.as_slice())));
    let query = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.text = $that.text";
    let definition = ingest(&broker.bootstrap(), json!({"little-in": [0]}), query, json!({"autoOffsetReset": "earliest"}));
    weir.post("/api/v1/ingest/little", &definition).expect(200);
    let expected: Vec<u64> = (0..RESULTS).filter(|id| !large.contains(id)).collect();
    for topic in ["little", "little-once", "least"] {
        wait_until(&format!("all results are in {topic}"), PATIENCE, || broker.read(topic).len() >= expected.len());
        let id = |line: &String| serde_json::from_str::<Json>(line).expect("JSON")["id"].as_u64().expect("a number");
        let mut ids: Vec<u64> = broker.read(topic).iter().map(id).collect();
        // What was refused with others comes behind what was taken meanwhile, once; transactions keep the order.
        if topic != "little-once" {
            ids.sort_unstable();
        }
        assert!(ids == expected, "{topic} has {} results", ids.len());
    }
    // The others go on, and what is said of the two names their size.
    let failed = || {
        let text = weir.get("/metrics").text();
        text.lines().filter(|line| line.starts_with("weir_output_failed_total") && line.ends_with(" 2")).count()
    };
    wait_until("two results of each output are counted as given up", PATIENCE, || failed() == 3);
    wait_until("it is in the log", PATIENCE, || weir.log().contains("is more than its topic takes (max.message.bytes)"));
    weir.stop();
}

/// What a run with kills must leave in the topic: each count of each id once as a match, and once taken back if another
/// follows.
fn expected(records: &[u64]) -> BTreeMap<(u64, u64, bool), u64> {
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    let mut results = BTreeMap::new();
    for id in records {
        let count = seen.entry(*id).or_default();
        if *count > 0 {
            *results.entry((*id, *count, false)).or_default() += 1;
        }
        *count += 1;
        *results.entry((*id, *count, true)).or_default() += 1;
    }
    results
}

fn results(broker: &Broker, topic: &str) -> BTreeMap<(u64, u64, bool), u64> {
    let mut results = BTreeMap::new();
    for line in broker.read(topic) {
        let line: Json = serde_json::from_str(&line).expect("JSON");
        let number = |key: &str| line["data"][key].as_u64().expect("a number");
        let positive = line["meta"]["isPositiveMatch"].as_bool().expect("a boolean");
        *results.entry((number("id"), number("count"), positive)).or_default() += 1;
    }
    results
}

/// `WEIR_KAFKA_KILLS` says how often weir or the broker is killed (10), `WEIR_KAFKA_SEED` when (the clock).
#[test]
fn each_result_is_in_the_topic_once_whoever_is_killed() {
    let Some(mut broker) = Broker::start(false, "exactly once from Kafka to Kafka across kills") else { return };
    let kills = std::env::var("WEIR_KAFKA_KILLS").map_or(10, |text| text.parse().expect("WEIR_KAFKA_KILLS is a number"));
    let mut random = weir_tests::random::Random::from_environment("WEIR_KAFKA_SEED");
    let records: Vec<u64> = (0..kills * 4_000).map(|_| random.below(500)).collect();
    broker.create_topic("events", 1);
    broker.create_topic("results", 3);
    let lines: Vec<Vec<u8>> = records.iter().map(|id| json!({"id": id}).to_string().into_bytes()).collect();
    broker.produce("events", 0, lines.iter().map(|line| Some(line.as_slice())));

    let home = Home::new();
    let settings = ["-Dweir.should-resume-ingest=true", "-Dweir.workers=2"];
    let mut weir = home.start(&settings);
    let output = json!({"type": "WriteToKafka", "topic": "results", "bootstrapServers": broker.bootstrap(), "exactlyOnce": true});
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.count IS NOT NULL RETURN n.id AS id, n.count AS count", "mode": "MultipleValues"});
    let query = json!({"pattern": pattern, "includeCancellations": true, "outputs": {"once": output}});
    weir.post("/api/v1/query/standing/once", &query).expect(201);
    let definition = ingest(
        &broker.bootstrap(),
        json!({"events": [0]}),
        COUNT,
        json!({"autoOffsetReset": "earliest", "maximumPerSecond": 6_000}),
    );
    weir.post("/api/v1/ingest/events", &definition).expect(200);
    let (mut of_weir, mut of_broker) = (0, 0);
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(200 + random.below(800)));
        if random.once_in(4) {
            of_broker += 1;
            broker.kill();
            std::thread::sleep(Duration::from_millis(random.below(1_000)));
            broker.run();
        } else {
            of_weir += 1;
            weir.kill();
            weir = home.start(&settings);
        }
    }
    eprintln!("{of_weir} kills of weir, {of_broker} of the broker, {} records", records.len());
    let limit = PATIENCE + Duration::from_secs(records.len() as u64 / 1_000);
    let all = || weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN sum(n.count)")[0][0].as_u64();
    wait_until("all records are in the graph", limit, || all() == Some(records.len() as u64));
    let expected = expected(&records);
    wait_until("all results are in the topic", limit, || {
        std::thread::sleep(Duration::from_millis(300));
        results(&broker, "results").values().sum::<u64>() >= expected.values().sum::<u64>()
    });
    let found = results(&broker, "results");
    let wrong: BTreeSet<_> = expected.keys().chain(found.keys()).filter(|key| expected.get(key) != found.get(key)).collect();
    let shown: Vec<_> = wrong.iter().take(10).map(|key| (key, expected.get(key), found.get(key))).collect();
    assert!(wrong.is_empty(), "{} results are not there as often as they should be: {shown:?}\n{}", wrong.len(), weir.log());
    weir.stop();
}

#[test]
fn an_offset_that_a_killed_weir_left_pending_holds_nothing_up() {
    let variables = vec![("KAFKA_VERIFIES", "false".to_owned())];
    let Some(broker) = Broker::start_with(variables, "exactly once after an offset without a transaction") else { return };
    broker.create_topic("pending-in", 1);
    broker.create_topic("pending-out", 1);
    let home = Home::new();
    let weir = home.start(RESUME);
    let output = json!({
        "type": "WriteToKafka", "topic": "pending-out", "bootstrapServers": broker.bootstrap(), "exactlyOnce": true,
        "kafkaProperties": {"transactional.id": "pending"},
    });
    let query = json!({
        "pattern": {"type": "Cypher", "mode": "AnyQuery", "query": "MATCH (n) WHERE n.id IS NOT NULL RETURN n.id AS id"},
        "outputs": {"once": output},
    });
    weir.post("/api/v1/query/standing/pending", &query).expect(201);
    let more = json!({"autoOffsetReset": "earliest"});
    weir.post("/api/v1/ingest/pending", &ingest(&broker.bootstrap(), json!({"pending-in": [0]}), COUNT, more)).expect(200);
    produce(&broker, "pending-in", 0, 0..100);
    let written = |count: usize| wait_until("results are in the topic", PATIENCE, || broker.read("pending-out").len() >= count);
    written(100);
    weir.kill();
    broker.leave_pending_offset("pending", "pending-out");
    produce(&broker, "pending-in", 0, 100..150);
    let weir = home.start(RESUME);
    written(150);
    let ids: BTreeSet<String> = broker.read("pending-out").into_iter().collect();
    assert_eq!((ids.len(), broker.read("pending-out").len()), (150, 150), "{}", weir.log());
    weir.stop();
}

/// What the old query told belongs to the transactions before the switch, and what the new one brings to those behind it.
#[test]
fn what_a_query_brings_that_takes_the_place_of_another_is_in_the_topic_once() {
    const EACH: u64 = 8_000;
    let Some(broker) = shared("a query that is replaced while its results go to Kafka exactly once") else { return };
    broker.create_topic("replace-in", 1);
    broker.create_topic("replace-out", 1);
    let home = Home::new();
    let weir = home.start(&["-Dweir.workers=2"]);
    let pattern = |divisor: u64| {
        let query = format!("MATCH (n) WHERE n.id % {divisor} = 0 RETURN n.id AS id");
        json!({"pattern": {"type": "Cypher", "mode": "AnyQuery", "query": query}})
    };
    let place = "/api/v1/query/standing/divided";
    let output =
        json!({"type": "WriteToKafka", "topic": "replace-out", "bootstrapServers": broker.bootstrap(), "exactlyOnce": true});
    let query = with(pattern(2), json!({"includeCancellations": true, "outputs": {"once": output}}));
    weir.post(place, &query).expect(201);
    let more = json!({"autoOffsetReset": "earliest", "maximumPerSecond": 3_000});
    weir.post("/api/v1/ingest/replace", &ingest(&broker.bootstrap(), json!({"replace-in": [0]}), COUNT, more)).expect(200);
    let mut records = 0;
    for divisor in [3, 5, 2, 7, 3] {
        // They come for some seconds.
        produce(&broker, "replace-in", 0, records..records + EACH);
        wait_until("records come", PATIENCE, || counted(&weir).0 > records + EACH / 16);
        records += EACH;
        weir.send("PUT", place, &[("content-type", "application/json")], pattern(divisor).to_string().as_bytes()).expect(200);
    }
    wait_counted(&weir, records);
    let net = || {
        let mut net: BTreeMap<u64, i64> = BTreeMap::new();
        for line in broker.read("replace-out") {
            let line: Json = serde_json::from_str(&line).expect("JSON");
            let positive = line["meta"]["isPositiveMatch"].as_bool().expect("a boolean");
            *net.entry(line["data"]["id"].as_u64().expect("a number")).or_default() += if positive { 1 } else { -1 };
        }
        net.retain(|_, count| *count != 0);
        net
    };
    let expected: BTreeMap<u64, i64> = (0..records).step_by(3).map(|id| (id, 1)).collect();
    // What a switch brings need not be in one transaction: the last result may be there before others.
    let deadline = Instant::now() + PATIENCE;
    let mut found = net();
    while found != expected && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(300));
        found = net();
    }
    let wrong: BTreeSet<_> = expected.keys().chain(found.keys()).filter(|id| expected.get(id) != found.get(id)).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong, from {:?} on", wrong.len(), expected.len(), wrong.first());
    weir.stop();
}

#[test]
fn what_a_network_does_to_connections_loses_nothing() {
    const LEFT_OUT: &str = "Kafka behind a network that cuts, stalls, slows and resets";
    let Some(proxy) = Toxiproxy::start(LEFT_OUT) else { return };
    let listen = SocketAddr::from(([127, 0, 0, 1], free_ports(1)));
    let Some(broker) = Broker::start_behind(listen, LEFT_OUT) else { return };
    proxy.lead("kafka", listen, broker.proxied());
    ["in", "out", "out-once"].iter().for_each(|topic| broker.create_topic(topic, 1));
    let home = Home::new();
    let weir = home.start(&[]);
    let kafka = |topic: &str, once: bool| {
        // Where a connection has stalled, waiting is over soon.
        let properties = json!({"socket.timeout.ms": "3000"});
        json!({"type": "WriteToKafka", "topic": topic, "bootstrapServers": listen.to_string(), "exactlyOnce": once,
            "structure": {"type": "Bare"}, "kafkaProperties": properties})
    };
    let pattern = json!({"type": "Cypher", "query": "MATCH (n) WHERE n.id IS NOT NULL RETURN id(n) AS node, n.id AS id",
        "mode": "MultipleValues"});
    let outputs = json!({"plain": kafka("out", false), "once": kafka("out-once", true)});
    weir.post("/api/v1/query/standing/ids", &json!({"pattern": pattern, "outputs": outputs})).expect(201);
    let more =
        json!({"autoOffsetReset": "earliest", "maximumPerSecond": 1_000, "kafkaProperties": {"socket.timeout.ms": "3000"}});
    weir.post("/api/v1/ingest/in", &ingest(&listen.to_string(), json!({"in": [0]}), COUNT, more)).expect(200);
    let written = |topic: &str| -> Vec<u64> {
        let id = |line: &String| serde_json::from_str::<Json>(line).expect("JSON")["id"].as_u64().expect("a number");
        broker.read(topic).iter().map(id).collect()
    };
    let produced = Cell::new(0);
    let more = || {
        let from = produced.get();
        produced.set(from + 1_000);
        produce(&broker, "in", 0, from..from + 1_000);
    };
    more();
    wait_until("the first records are read", PATIENCE, || counted(&weir).0 > 0);
    proxy.each_fault(
        "kafka",
        |_| more(),
        |fault| {
            wait_counted(&weir, produced.get());
            for topic in ["out", "out-once"] {
                wait_until(&format!("{fault}: all results are in {topic}"), PATIENCE, || {
                    written(topic).len() as u64 >= produced.get()
                });
            }
        },
    );
    for topic in ["out", "out-once"] {
        // Idempotent or in transactions, and nobody was killed.
        assert!(written(topic).into_iter().eq(0..produced.get()), "{topic} lacks results, has some twice, or in another order");
    }
    weir.stop();
}

#[test]
fn several_weirs_share_a_group_and_hand_partitions_over() {
    let Some(broker) = shared("several weirs in one group") else { return };
    broker.create_topic("shared", 4);
    let homes = [Home::new(), Home::new(), Home::new()];
    let commits = json!({"type": "ExplicitCommit", "maxBatch": 50, "maxIntervalMillis": 100});
    let more =
        json!({"autoOffsetReset": "earliest", "groupId": "together", "offsetCommitting": commits, "maximumPerSecond": 150});
    let join = |home: &Home| {
        let weir = home.start(&[]);
        weir.post("/api/v1/ingest/shared", &ingest(&broker.bootstrap(), json!(["shared"]), COUNT, more.clone())).expect(200);
        weir
    };
    let produced = Cell::new(0);
    let more = |count: u64| {
        let from = produced.replace(produced.get() + count);
        (0..4).for_each(|partition| {
            let base = partition as u64 * 1_000_000 + from;
            produce(&broker, "shared", partition, base..base + count);
        });
    };
    // Whoever joins on a busy machine takes longer than the others have records: they are given some whenever few are left.
    let reads = |what: &str, weir: &Weir, least: u64, others: &[&Weir]| {
        wait_until(what, PATIENCE, || {
            let own = counted(weir).0;
            let all = own + others.iter().map(|other| counted(other).0).sum::<u64>();
            if all + 800 > 4 * produced.get() {
                more(200);
            }
            own > least
        });
    };
    more(1_000);
    let first = join(&homes[0]);
    reads("the first weir reads", &first, 200, &[]);
    let second = join(&homes[1]);
    reads("the second weir reads", &second, 200, &[&first]);
    // One leaves in order while a third comes.
    first.delete("/api/v1/ingest/shared").expect(200);
    let third = join(&homes[2]);
    reads("the third weir reads", &third, 50, &[&first, &second]);
    let weirs = [first, second, third];
    let read = |weir: &Weir| -> Vec<(u64, u64)> {
        let rows = weir.rows("MATCH (n) WHERE n.count IS NOT NULL RETURN n.id, n.count");
        rows.iter().map(|row| (row[0].as_u64().expect("an id"), row[1].as_u64().expect("a count"))).collect()
    };
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    wait_until("every record is read", PATIENCE, || {
        times.clear();
        weirs.iter().flat_map(read).for_each(|(id, count)| *times.entry(id).or_default() += count);
        times.len() as u64 == 4 * produced.get()
    });
    // Nobody was killed: what was read was committed before its partition went to another.
    assert!(
        times.values().all(|count| *count == 1),
        "{:?}",
        times.iter().filter(|(_, count)| **count > 1).take(10).collect::<Vec<_>>()
    );
    weirs.into_iter().for_each(|weir| weir.stop());
}

/// One member of a group, without a graph: what it reads is durable when the test says so.
struct Member {
    stream: RecordStream,
    batch: Frames,
    read: Vec<u64>,
    position: Position,
}

impl Member {
    fn join(definition: &Json, runtime: &tokio::runtime::Runtime, from: Option<&Position>) -> Member {
        let context = SourceContext {
            files: FilePolicy::allow_all(),
            hosts: HostPolicy::default(),
            runtime: runtime.handle().clone(),
            stream: "member".to_owned(),
            wanted: None,
            tells: false,
        };
        let config = parse_source_v1(definition).expect("a definition");
        let stream = config.open(&context, from).expect("a stream");
        Member { stream, batch: Frames::default(), read: Vec::new(), position: Position::default() }
    }

    fn look(&mut self, durable: bool) {
        self.stream.next(&Limits::default(), &mut self.batch).expect("the stream goes on");
        let id = |bytes: &[u8]| serde_json::from_slice::<Json>(bytes).expect("JSON")["id"].as_u64().expect("a number");
        self.read.extend((0..self.batch.len()).map(|index| id(self.batch.get(index).bytes)));
        self.position = self.batch.position.clone();
        if durable {
            self.stream.durable(&self.position).expect("the position is its own");
        }
    }
}

/// A partition that goes to another member is paused until what was read of it is durable. The one that comes back to the
/// same member was paused for ever: a group that was given out again left partitions that nobody read.
#[test]
fn a_partition_that_was_paused_for_a_hand_over_and_comes_back_is_read() {
    let Some(broker) = shared("partitions that come back to a member of a group") else { return };
    broker.create_topic("back", 2);
    (0..2).for_each(|partition| produce(&broker, "back", partition, partition as u64 * 100..partition as u64 * 100 + 10));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let commits = json!({"type": "ExplicitCommit", "maxBatch": 1, "maxIntervalMillis": 50});
    let more = json!({"autoOffsetReset": "earliest", "groupId": "back", "offsetCommitting": commits});
    let definition = ingest(&broker.bootstrap(), json!(["back"]), COUNT, more);
    let mut first = Member::join(&definition, &runtime, None);
    wait_until("the first member reads", PATIENCE, || {
        first.look(false);
        first.read.len() == 20
    });
    // Both partitions are taken from it, and one comes back. Nothing it read is durable until it has been asked for a while.
    let mut second = Member::join(&definition, &runtime, None);
    // From when the group is no longer the one member's alone, which on a busy machine it is for a while.
    let mut since: Option<Instant> = None;
    wait_until("a hand-over", PATIENCE, || {
        let lasts = |seconds: u64| since.is_some_and(|since| since.elapsed() > Duration::from_secs(seconds));
        first.look(lasts(4));
        second.look(true);
        let is_over = lasts(6) && broker.members("back") == 2;
        if since.is_none() && broker.members("back") != 1 {
            since = Some(Instant::now());
        }
        is_over
    });
    (0..2).for_each(|partition| produce(&broker, "back", partition, partition as u64 * 100 + 10..partition as u64 * 100 + 20));
    let all = |members: [&Member; 2]| members.iter().flat_map(|member| member.read.clone()).collect::<BTreeSet<u64>>().len();
    let since = Instant::now();
    while all([&first, &second]) < 40 && since.elapsed() < PATIENCE {
        first.look(true);
        second.look(true);
    }
    assert!(!second.read.is_empty(), "nothing was handed over");
    assert_eq!(all([&first, &second]), 40, "first {:?}, second {:?}", first.read, second.read);
    // The group is left in good order: the other reads on at once, not when a session is over.
    drop(first);
    (0..2).for_each(|partition| produce(&broker, "back", partition, partition as u64 * 100 + 20..partition as u64 * 100 + 30));
    let since = Instant::now();
    while second.read.iter().filter(|id| *id % 100 >= 20).count() < 20 && since.elapsed() < PATIENCE {
        second.look(true);
    }
    assert_eq!(second.read.iter().filter(|id| *id % 100 >= 20).count(), 20, "{:?}", second.read);
}

/// Where partitions begin that the stream has not read. Where the group had read nothing of one of them, all others began where
/// they ended, whatever it had read of these.
#[test]
fn what_the_group_has_read_counts_in_partitions_that_the_stream_has_not() {
    let Some(broker) = shared("partitions of which a group has read some") else { return };
    const TOPIC: &str = "in-part";
    broker.create_topic(TOPIC, 4);
    let more = |offsets: std::ops::Range<u64>| {
        (0..4).for_each(|partition| {
            let base = partition as u64 * 100;
            produce(&broker, TOPIC, partition, base + offsets.start..base + offsets.end);
        });
    };
    more(0..10);
    let committed = |by: &BaseConsumer, offsets: &[(i32, i64)]| {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(TOPIC, *partition, Offset::Offset(*offset)).expect("an offset");
        }
        by.commit(&list, CommitMode::Sync).is_ok()
    };
    let administrator: BaseConsumer = broker.client().set("group.id", TOPIC).create().expect("a client");
    wait_until("it is committed", PATIENCE, || committed(&administrator, &[(1, 4), (3, 3)]));
    drop(administrator);
    // By its name it has the first two partitions, and commits what the test says.
    let mut other = broker.client();
    other.set("group.id", TOPIC).set("client.id", "other").set("enable.auto.commit", "false").set("session.timeout.ms", "6000");
    let other: BaseConsumer = other.create().expect("a client");
    other.subscribe(&[TOPIC]).expect("a subscription");
    let has = |count: usize| {
        drop(other.poll(Duration::from_millis(20)));
        other.assignment().is_ok_and(|assigned| assigned.count() == count)
    };
    wait_until("the other is in the group", PATIENCE, || has(4));

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let commits = json!({"type": "ExplicitCommit", "maxBatch": 1, "maxIntervalMillis": 50});
    let definition = ingest(&broker.bootstrap(), json!([TOPIC]), COUNT, json!({"groupId": TOPIC, "offsetCommitting": commits}));
    let mut first = Member::join(&definition, &runtime, None);
    wait_until("it reads what the group has not", PATIENCE, || {
        first.look(true);
        has(2) && first.read.len() >= 7
    });
    assert_eq!(first.read, (303..310).collect::<Vec<u64>>());
    // What it knows of the others' partitions lies in its position.
    let position = first.position.clone();
    drop(first);
    wait_until("the other is alone", PATIENCE, || has(4));
    more(10..15);
    let mut second = Member::join(&definition, &runtime, Some(&position));
    wait_until("it reads on", PATIENCE, || {
        second.look(true);
        has(2) && second.read.len() >= 10
    });
    // The other has been behind, and ends. Of its first partition the group has read nothing.
    wait_until("it is committed", PATIENCE, || has(2) && committed(&other, &[(1, 6)]));
    drop(other);
    let expected: Vec<u64> = [10..15, 106..115, 210..215, 310..315].into_iter().flatten().collect();
    wait_until("it reads all partitions", PATIENCE, || {
        second.look(true);
        second.read.len() >= expected.len()
    });
    (0..20).for_each(|_| second.look(true));
    second.read.sort_unstable();
    assert_eq!(second.read, expected);
}

/// Offsets of a topic say nothing of another one with its name.
#[test]
fn a_topic_that_was_made_anew_is_read_as_a_new_one() {
    let Some(broker) = shared("topics that are deleted and made anew") else { return };
    let anew = |topic: &str, ids: std::ops::Range<u64>| {
        broker.delete_topic(topic);
        broker.create_topic(topic, 1);
        produce(&broker, topic, 0, ids);
    };
    let names = ["anew", "anew-committed", "anew-named", "anew-latest", "anew-none"];
    for (index, name) in names.iter().enumerate() {
        broker.create_topic(name, 1);
        produce(&broker, name, 0, index as u64 * 1_000..index as u64 * 1_000 + 50);
    }
    let mut first = rdkafka::TopicPartitionList::new();
    first.add_partition_offset("anew-none", 0, rdkafka::Offset::Offset(0)).expect("an offset");
    let committer: BaseConsumer = broker.client().set("group.id", "anew-none").create().expect("a client");
    committer.commit(&first, CommitMode::Sync).expect("the broker commits");
    drop(committer);
    let home = Home::new();
    let weir = home.start(RESUME);
    for name in names {
        let more = match name {
            "anew-committed" => json!({"autoOffsetReset": "earliest",
                "offsetCommitting": {"type": "ExplicitCommit", "maxIntervalMillis": 100}}),
            "anew-latest" => json!({}),
            "anew-none" => json!({"autoOffsetReset": "none"}),
            _ => json!({"autoOffsetReset": "earliest"}),
        };
        let topics = if name == "anew-named" { json!({name: [0]}) } else { json!([name]) };
        weir.post(&format!("/api/v1/ingest/{name}"), &ingest(&broker.bootstrap(), topics, COUNT, more)).expect(200);
    }
    wait_counted(&weir, 200);
    // That of which nothing is read knows by then where it stands.
    wait_until("it is known where the last one begins", PATIENCE, || lag(&weir, "anew-latest") == Some(0));
    std::thread::sleep(Duration::from_secs(3));
    weir.stop();

    // With more records than were read of the one before.
    names.iter().enumerate().for_each(|(index, name)| {
        let first = index as u64 * 1_000 + 100;
        anew(name, first..first + 80);
    });
    let weir = home.start(RESUME);
    wait_counted(&weir, 200 + 3 * 80);
    for name in names.iter().filter(|name| **name != "anew-none") {
        let (message, from) = (
            wait_message(&weir, name, "deleted and made anew"),
            if *name == "anew-latest" { "its end" } else { "its beginning" },
        );
        assert!(message.contains(&format!("topic {name} ")) && message.contains(from), "{message}");
    }
    assert!(weir.log().contains("topic anew was deleted and made anew"), "{}", weir.log());
    let ended = weir.wait_ingest("anew-none", "Failed", PATIENCE);
    assert!(
        ended["message"].as_str().is_some_and(|message| message.contains("made anew, and autoOffsetReset is none")),
        "{ended}"
    );
    wait_until("the offset is that of the new one", PATIENCE, || {
        broker.committed("anew-committed", "anew-committed", 0) == Some(80)
    });

    // While it is read, with as many records; and with fewer, where the client goes back by itself.
    anew("anew", 200..280);
    anew("anew-named", 2_200..2_210);
    wait_counted(&weir, 200 + 3 * 80 + 90);
    std::thread::sleep(Duration::from_secs(15));
    assert_eq!(counted(&weir), (200 + 3 * 80 + 90, 1), "{}", weir.log());
    produce(&broker, "anew-latest", 0, 3_200..3_210);
    wait_counted(&weir, 200 + 3 * 80 + 100);
    weir.stop();
}

/// Two members of a group, of which each has two of the four partitions, and has read ten records of each.
fn two_members(broker: &Broker, topic: &str, properties: Json) -> [(Home, Weir); 2] {
    broker.create_topic(topic, 4);
    let commits = json!({"type": "ExplicitCommit", "maxIntervalMillis": 500});
    let more =
        json!({"autoOffsetReset": "earliest", "groupId": topic, "offsetCommitting": commits, "kafkaProperties": properties});
    let definition = ingest(&broker.bootstrap(), json!([topic]), COUNT, more);
    let both = [(); 2].map(|()| {
        let home = Home::new();
        let weir = home.start(RESUME);
        weir.post(&format!("/api/v1/ingest/{topic}"), &definition).expect(200);
        (home, weir)
    });
    // Who comes second has partitions when the first has given them back.
    wait_until("both have partitions", PATIENCE, || both.iter().all(|(_, weir)| lag(weir, topic).is_some()));
    (0..4).for_each(|partition| produce(broker, topic, partition, partition as u64 * 1_000..partition as u64 * 1_000 + 10));
    wait_until("each reads its half", PATIENCE, || both.iter().all(|(_, weir)| counted(weir).0 == 20));
    wait_until("that is committed", PATIENCE, || (0..4).all(|partition| broker.committed(topic, topic, partition) == Some(10)));
    both
}

/// One that came back went on where it stood itself in all that it had ever read, and read once more what others had read and
/// committed meanwhile.
#[test]
fn a_member_that_comes_back_goes_on_where_the_others_are() {
    let Some(broker) = shared("members of a group that end and come back") else { return };
    const TOPIC: &str = "returns";
    let properties = json!({"session.timeout.ms": "6000"});
    let [(_, first), (home, second)] = two_members(&broker, TOPIC, properties);
    let more = |ids: std::ops::Range<u64>| {
        (0..4).for_each(|partition| {
            let base = partition as u64 * 1_000;
            produce(&broker, TOPIC, partition, base + ids.start..base + ids.end);
        });
    };
    let committed = |offset: i64| (0..4).all(|partition| broker.committed(TOPIC, TOPIC, partition) == Some(offset));
    let together = |second: &Weir| counted(&first).0 + counted(second).0;

    // Killed, and the other reads all.
    second.kill();
    more(10..110);
    wait_until("the first reads all partitions", PATIENCE, || counted(&first).0 == 20 + 400);
    wait_until("that is committed", PATIENCE, || committed(110));
    let second = home.start(RESUME);
    wait_until("it has partitions again", PATIENCE, || lag(&second, TOPIC).is_some());
    more(110..120);
    wait_until("all is read", PATIENCE, || together(&second) >= 480);
    wait_until("all is committed", PATIENCE, || committed(120));
    assert_eq!((together(&second), counted(&second)), (480, (40, 1)), "{}", second.log());

    // In good order, and there is no other when it comes back.
    second.stop();
    wait_until("the first is alone", PATIENCE, || broker.members(TOPIC) == 1);
    more(120..220);
    wait_until("that is committed", PATIENCE, || committed(220));
    // What is committed is safe, which can be a moment before reads show it.
    first.catch_up();
    assert_eq!(counted(&first).0, 440 + 400, "{}", first.log());
    first.delete(&format!("/api/v1/ingest/{TOPIC}")).expect(200);
    let second = home.start(RESUME);
    more(220..230);
    wait_until("the last records are read", PATIENCE, || committed(230));
    second.catch_up();
    assert_eq!((counted(&first).0, counted(&second)), (840, (80, 1)), "{}", second.log());
    second.stop();
    first.stop();
}

/// The mark by which a group's offset shows that another weir committed it is missing where an administrator moved the offset,
/// and misleads where the store was put back.
#[test]
fn offsets_that_are_moved_and_stores_that_are_put_back_change_nothing() {
    let Some(broker) = shared("a group's offsets that an administrator moves, and a store from a backup") else { return };
    const TOPIC: &str = "moved";
    broker.create_topic(TOPIC, 1);
    produce(&broker, TOPIC, 0, 0..10);
    let commits = json!({"type": "ExplicitCommit", "maxIntervalMillis": 200});
    let more = json!({"autoOffsetReset": "earliest", "groupId": TOPIC, "offsetCommitting": commits});
    let (home, older) = (Home::new(), Home::new());
    let weir = home.start(RESUME);
    weir.post("/api/v1/ingest/moved", &ingest(&broker.bootstrap(), json!([TOPIC]), COUNT, more)).expect(200);
    let committed = |offset: i64| {
        wait_until("it is committed", PATIENCE, || broker.committed(TOPIC, TOPIC, 0) == Some(offset));
    };
    committed(10);
    weir.stop();
    let copied = std::process::Command::new("cp").arg("-a").arg(home.path().join(".")).arg(older.path()).status();
    assert!(copied.expect("cp runs").success());

    produce(&broker, TOPIC, 0, 10..20);
    let mut moved = TopicPartitionList::new();
    moved.add_partition_offset(TOPIC, 0, Offset::Offset(15)).expect("an offset");
    let administrator: BaseConsumer = broker.client().set("group.id", TOPIC).create().expect("a client");
    wait_until("the offset is moved", PATIENCE, || administrator.commit(&moved, CommitMode::Sync).is_ok());
    let weir = home.start(RESUME);
    wait_counted(&weir, 20);
    committed(20);
    weir.stop();

    let weir = older.start(RESUME);
    wait_counted(&weir, 20);
    weir.stop();
}

/// Where the broker gives out the partitions (KIP-848), and says itself how long it waits for a member.
#[test]
fn a_group_whose_partitions_the_broker_gives_out_hands_them_over() {
    let Some(broker) = shared("groups of the newer protocol") else { return };
    const TOPIC: &str = "newer";
    let [(_, first), (home, second)] = two_members(&broker, TOPIC, json!({"group.protocol": "consumer"}));
    second.stop();
    let more = |ids: std::ops::Range<u64>| {
        (0..4).for_each(|partition| {
            let base = partition as u64 * 1_000;
            produce(&broker, TOPIC, partition, base + ids.start..base + ids.end);
        });
    };
    more(10..110);
    wait_until("the first reads all partitions", PATIENCE, || counted(&first).0 == 20 + 400);
    let second = home.start(RESUME);
    wait_until("it has partitions again", PATIENCE, || lag(&second, TOPIC).is_some());
    more(110..120);
    wait_until("all is committed", PATIENCE, || (0..4).all(|partition| broker.committed(TOPIC, TOPIC, partition) == Some(120)));
    first.catch_up();
    second.catch_up();
    assert_eq!((counted(&first).0, counted(&second)), (440, (40, 1)), "{}", second.log());
    second.stop();
    first.stop();
}

#[test]
fn a_partition_that_is_not_there_is_named_and_waited_for() {
    let Some(broker) = shared("partitions that are named and not there") else { return };
    broker.create_topic("few", 2);
    produce(&broker, "few", 0, 0..10);
    let weir = Home::new().start(RESUME);
    // Nor is its topic. It took the client half a minute to say so.
    let gone = ingest(&broker.bootstrap(), json!({"made-late": [0]}), COUNT, json!({"autoOffsetReset": "earliest"}));
    takes_at_most("a word about a topic that is not there", Duration::from_secs(20), || {
        weir.delete("/api/v1/ingest/gone");
        weir.post("/api/v1/ingest/gone", &gone).expect(200);
        let since = Instant::now();
        wait_message(&weir, "gone", "topic made-late is not there, and is waited for");
        since.elapsed()
    });
    broker.create_topic("made-late", 1);
    produce(&broker, "made-late", 0, 40..50);
    wait_counted(&weir, 10);
    wait_until("it is there", PATIENCE, || weir.get("/api/v1/ingest/gone").expect(200).json()["message"].is_null());
    weir.delete("/api/v1/ingest/gone").expect(200);
    weir.query("MATCH (n) DETACH DELETE n").expect(200);
    for (name, reset) in [("few", "earliest"), ("late", "latest")] {
        let definition = ingest(&broker.bootstrap(), json!({"few": [0, 7]}), COUNT, json!({"autoOffsetReset": reset}));
        weir.post(&format!("/api/v1/ingest/{name}"), &definition).expect(200);
        wait_message(&weir, name, "topic few has 2 partitions, counted from 0, and 7 is waited for");
    }
    wait_counted(&weir, 10);
    weir.delete("/api/v1/ingest/late").expect(200);
    wait_message(&weir, "few", "7 is waited for");
    broker.add_partitions("few", 8);
    produce(&broker, "few", 7, 20..30);
    wait_counted(&weir, 20);
    wait_until("nothing is wrong any more", PATIENCE, || weir.get("/api/v1/ingest/few").expect(200).json()["message"].is_null());
    weir.stop();
}

/// A stream on which nothing comes for half a minute has no client and is not in its group. What changes meanwhile it sees all
/// the same.
#[test]
fn what_changes_while_streams_have_no_client_is_seen() {
    let mut broker = match Broker::start(true, "streams that have no client, and what changes meanwhile") {
        Some(broker) => broker,
        None => return,
    };
    let names = ["committed", "grown", "joined", "paused", "deleted", "many", "named", "guarded", "anew"];
    for (index, name) in names.into_iter().enumerate() {
        broker.create_topic(name, if name == "joined" { 2 } else { 1 });
        produce(&broker, name, 0, index as u64 * 100_000..index as u64 * 100_000 + 10);
    }
    let ids = |name: &str, ids: std::ops::Range<u64>| {
        let first = names.iter().position(|other| *other == name).expect("a name") as u64 * 100_000;
        first + ids.start..first + ids.end
    };
    let weir = Home::new().start(RESUME);
    for name in names {
        let commits = json!({"type": "ExplicitCommit", "maxBatch": 1, "maxIntervalMillis": 100});
        let login =
            json!({"type": "PlainLogin", "username": broker.said("KAFKA_USER"), "password": broker.said("KAFKA_PASSWORD")});
        let trust = json!({"ssl.truststore.location": broker.said("KAFKA_CA"), "ssl.truststore.type": "PEM"});
        let more = match name {
            "guarded" => json!({"autoOffsetReset": "earliest", "bootstrapServers": broker.said("KAFKA_SASL_TLS"),
                "securityProtocol": "SASL_SSL", "saslJaasConfig": login, "kafkaProperties": trust}),
            "committed" | "joined" => json!({"autoOffsetReset": "earliest", "offsetCommitting": commits}),
            _ => json!({"autoOffsetReset": "earliest"}),
        };
        let topics = if name == "named" { json!({"named": [0]}) } else { json!([name]) };
        weir.post(&format!("/api/v1/ingest/{name}"), &ingest(&broker.bootstrap(), topics, COUNT, more)).expect(200);
    }
    let in_groups = |broker: &Broker| -> usize { names.iter().map(|name| broker.members(name)).sum() };
    // On a busy machine the first have left before the last are there.
    let mut members = BTreeSet::new();
    wait_until("each that subscribes is in its group", PATIENCE, || {
        members.extend(names.into_iter().filter(|name| broker.members(name) == 1));
        members.len() == names.len() - 1
    });
    let mut count = 10 * names.len() as u64;
    wait_counted(&weir, count);
    assert!(!members.contains("named"), "{members:?}");
    wait_until("they leave their groups", PATIENCE, || in_groups(&broker) == 0);
    assert_eq!(broker.committed("committed", "committed", 0), Some(10));

    // The broker goes: that is said, and over when it is back.
    broker.kill();
    names.iter().for_each(|name| drop(wait_message(&weir, name, "127.0.0.1")));
    broker.run();
    let all_well =
        || names.iter().all(|name| weir.get(&format!("/api/v1/ingest/{name}")).expect(200).json()["message"].is_null());
    wait_until("nothing is wrong any more", PATIENCE, all_well);
    assert_eq!(in_groups(&broker), 0, "nobody needs a client for that");

    // Paused while it has none, and deleted.
    weir.put("/api/v1/ingest/paused/pause").expect(200);
    produce(&broker, "paused", 0, ids("paused", 10..20));
    let began = Instant::now();
    weir.delete("/api/v1/ingest/deleted").expect(200);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(counted(&weir).0, count, "a paused stream reads nothing");
    weir.put("/api/v1/ingest/paused/start").expect(200);
    count += 10;
    wait_counted(&weir, count);

    // The login, and whom to trust, are those of the stream.
    produce(&broker, "guarded", 0, ids("guarded", 10..20));
    count += 10;
    wait_counted(&weir, count);
    assert_eq!(broker.members("guarded"), 0);

    // Made anew, with as many records as were read of the one before.
    broker.delete_topic("anew");
    broker.create_topic("anew", 1);
    produce(&broker, "anew", 0, ids("anew", 10..20));
    count += 10;
    wait_counted(&weir, count);
    wait_message(&weir, "anew", "topic anew was deleted and made anew");

    // What is read has to be committed, which takes a member.
    produce(&broker, "committed", 0, ids("committed", 10..20));
    count += 10;
    wait_counted(&weir, count);
    wait_until("offsets are committed", PATIENCE, || broker.committed("committed", "committed", 0) == Some(20));
    assert_eq!(broker.members("committed"), 1);

    // More than fits is read all the same, and once.
    produce(&broker, "many", 0, ids("many", 10..60_010));
    count += 60_000;
    wait_counted(&weir, count);
    produce(&broker, "named", 0, ids("named", 10..60_010));
    count += 60_000;
    wait_counted(&weir, count);

    // A partition that is new.
    broker.add_partitions("grown", 2);
    produce(&broker, "grown", 1, ids("grown", 10..20));
    count += 10;
    wait_counted(&weir, count);

    // Somebody else has come, and has both partitions. What is written then is for the members of the group.
    let other = broker.member("joined", "joined");
    let mut read = BTreeSet::new();
    let mut poll = || {
        while let Some(Ok(message)) = other.poll(Duration::from_millis(20)) {
            read.insert((message.partition(), message.offset()));
        }
        read.clone()
    };
    wait_until("the other is in the group", PATIENCE, || {
        poll();
        broker.members("joined") == 1
    });
    produce(&broker, "joined", 0, ids("joined", 10..11));
    wait_until("both are in the group", PATIENCE, || {
        poll();
        broker.members("joined") == 2
    });
    (0..2).for_each(|partition| {
        produce(&broker, "joined", partition, ids("joined", 100 + partition as u64 * 100..110 + partition as u64 * 100))
    });
    let own = || -> BTreeSet<u64> {
        let rows = weir.rows("MATCH (n) WHERE n.count IS NOT NULL AND n.id >= 200100 AND n.id < 200300 RETURN n.id");
        rows.iter().map(|row| row[0].as_u64().expect("an id")).collect()
    };
    wait_until("all are read", PATIENCE, || {
        let others = poll().into_iter().filter(|(partition, offset)| *offset >= if *partition == 0 { 11 } else { 0 }).count();
        others + own().len() >= 20
    });
    assert_eq!(own().len(), 10, "each reads one of the partitions");
    assert_eq!(counted(&weir).1, 1, "{}", weir.log());
    weir.stop();
}
