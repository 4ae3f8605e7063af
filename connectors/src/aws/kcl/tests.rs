//! Shards that are shared, handed over and taken from the dead, with real servers that stand in for Amazon's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use weir_model::Position;

use super::*;
use crate::aws::reader::KINESIS;
use crate::aws::server_tests::{Server, check_order};
use crate::conformance::{anything, runtime};
use crate::real_server::wait;
use crate::*;

const PATIENCE: Duration = Duration::from_secs(90);

fn definition(server: &Server, more: Json) -> Json {
    let mut definition = json!({
        "type": "KinesisKCLIngest", "kinesisStreamName": "events", "applicationName": "reader", "endpoint": server.url,
        "initialPosition": "TrimHorizon", "checkpointSettings": {"maxBatchWaitMillis": 300},
        "advancedSettings": {"leaseManagementConfig": {"failoverTimeMillis": 2000, "shardSyncIntervalMillis": 1000},
            "retrievalSpecificConfig": {"type": "PollingConfig", "idleTimeBetweenReadsInMillis": 250}},
    });
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.with(definition)
}

/// One of those that share a stream.
struct Weir {
    runtime: Runtime,
    stream: RecordStream,
    batch: Frames,
    seen: Vec<String>,
    /// Behind the last batch that was said to be durable.
    position: Position,
}

impl Weir {
    fn open(definition: &Json, from: Option<&Position>) -> Weir {
        let runtime = runtime();
        let context = SourceContext { runtime: runtime.handle().clone(), ..anything() };
        let stream = parse_source_v1(definition).unwrap().open(&context, from).unwrap();
        Weir { runtime, stream, batch: Frames::default(), seen: Vec::new(), position: from.cloned().unwrap_or_default() }
    }

    /// Takes what is there, and says that it is durable, or not.
    fn read(&mut self, durable: bool) {
        let limits = Limits { wait_max: Duration::from_millis(20), records_max: 50, ..Limits::default() };
        self.stream.next(&limits, &mut self.batch).unwrap();
        self.seen.extend((0..self.batch.len()).map(|index| String::from_utf8_lossy(self.batch.get(index).bytes).into_owned()));
        if durable {
            self.position = self.batch.position.clone();
            self.stream.durable(&self.position).unwrap();
        }
    }

    fn kill(self) {
        // Waited for: the connections of this runtime are in the pool of the process, and must not be taken while they end.
        self.runtime.shutdown_timeout(PATIENCE);
        // What a source does at its end is not done.
        std::mem::forget(self.stream);
    }
}

fn read_all(weirs: &mut [&mut Weir], count: usize) {
    let since = Instant::now();
    loop {
        weirs.iter_mut().for_each(|weir| weir.read(true));
        let seen: Vec<usize> = weirs.iter().map(|weir| weir.seen.len()).collect();
        if seen.iter().sum::<usize>() >= count {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{seen:?} of {count}; {:?}", weirs[0].stream.trouble());
    }
}

fn owners(server: &Server) -> BTreeMap<String, usize> {
    let listed = server.call(&super::leases::DYNAMODB, "ListTables", json!({}));
    if !listed["TableNames"].as_array().unwrap().contains(&json!("reader")) {
        return BTreeMap::new();
    }
    let told = server.call(&super::leases::DYNAMODB, "Scan", json!({"TableName": "reader", "ConsistentRead": true}));
    let mut owners = BTreeMap::new();
    for item in told["Items"].as_array().unwrap() {
        if let (Some(owner), None) = (item["leaseOwner"]["S"].as_str(), item["checkpointOwner"]["S"].as_str()) {
            *owners.entry(owner.to_owned()).or_insert(0) += 1;
        }
    }
    owners
}

fn own(worker: &str) -> Json {
    json!({"configsBuilder": {"workerIdentifier": worker},
        "leaseManagementConfig": {"failoverTimeMillis": 2000, "shardSyncIntervalMillis": 1000},
        "retrievalSpecificConfig": {"type": "PollingConfig", "idleTimeBetweenReadsInMillis": 250}})
}

fn sorted(records: &[&Weir]) -> Vec<String> {
    let mut all: Vec<String> = records.iter().flat_map(|weir| weir.seen.clone()).collect();
    all.sort();
    all
}

fn expected(keys: u32, each: u32) -> Vec<String> {
    let mut all: Vec<String> =
        (0..each).flat_map(|n| (0..keys).map(move |key| json!({"key": key, "n": n}).to_string())).collect();
    all.sort();
    all
}

#[test]
fn shards_are_shared_and_handed_over_without_loss_or_repetition() {
    let Some(server) = Server::start("aws.sh", "sharing of the shards of Kinesis") else { return };
    server.create_stream("events", 4);
    server.put("events", 40, 0..10);
    let mut first = Weir::open(&definition(&server, json!({"advancedSettings": own("first")})), None);
    read_all(&mut [&mut first], 400);
    check_order(&first.seen, 40, 10);
    assert_eq!(owners(&server), BTreeMap::from([("first".to_owned(), 4)]));

    // Another one comes, while records do.
    let mut second = Weir::open(&definition(&server, json!({"advancedSettings": own("second")})), None);
    let (since, mut n) = (Instant::now(), 10);
    while owners(&server).get("second") != Some(&2) {
        assert!(since.elapsed() < PATIENCE, "{:?}", owners(&server));
        server.put("events", 40, n..n + 1);
        n += 1;
        for _ in 0..5 {
            first.read(true);
            second.read(true);
        }
    }
    server.put("events", 40, n..n + 5);
    n += 5;
    read_all(&mut [&mut first, &mut second], 40 * n as usize);
    assert!(
        sorted(&[&first, &second]) == expected(40, n),
        "each record went to one of them, once: {:?}",
        (first.seen.len(), second.seen.len(), n)
    );
    assert!(!second.seen.is_empty());

    // The first one ends, and gives its shards back at once.
    let Weir { stream, seen, .. } = first;
    drop(stream);
    assert!(owners(&server).keys().eq(["second"]), "{:?}", owners(&server));
    server.put("events", 40, n..n + 5);
    let before = second.seen.len();
    read_all(&mut [&mut second], before + 200);
    let mut all = [seen, second.seen.clone()].concat();
    all.sort();
    assert!(all == expected(40, n + 5));
}

/// Kinesis sends the records, and nobody asks for them.
fn sent(worker: &str) -> Json {
    let mut settings = own(worker);
    settings["retrievalSpecificConfig"] = json!({"type": "FanOutConfig", "consumerName": "fan"});
    settings
}

#[test]
fn records_that_are_sent_come_once_in_order_and_shards_are_handed_over() {
    let Some(server) = Server::start("aws.sh", "enhanced fan-out of Kinesis") else { return };
    server.create_stream("events", 2);
    server.put("events", 30, 0..10);
    let of_first = definition(&server, json!({"advancedSettings": sent("first")}));
    let mut first = Weir::open(&of_first, None);
    read_all(&mut [&mut first], 300);
    // As soon as they come, not when somebody asks next.
    let mut waits: Vec<Duration> = (10..15)
        .map(|n| {
            server.put("events", 30, n..n + 1);
            // How long the server takes to take them says nothing.
            let begun = Instant::now();
            read_all(&mut [&mut first], 30 * (n as usize + 1));
            begun.elapsed()
        })
        .collect();
    waits.sort();
    assert!(waits[2] < Duration::from_secs(1), "{waits:?}");
    check_order(&first.seen, 30, 15);
    let consumers = |stream: &Json| {
        let arn = stream["StreamDescriptionSummary"]["StreamARN"].clone();
        server.call(&KINESIS, "ListStreamConsumers", json!({"StreamARN": arn}))["Consumers"].clone()
    };
    let stream = server.call(&KINESIS, "DescribeStreamSummary", json!({"StreamName": "events"}));
    let registered = consumers(&stream);
    assert_eq!((registered.as_array().unwrap().len(), &registered[0]["ConsumerName"]), (1, &json!("fan")));

    // Another one of the same consumer comes, and gets one of the shards.
    let mut second = Weir::open(&definition(&server, json!({"advancedSettings": sent("second")})), None);
    let (since, mut n) = (Instant::now(), 15);
    while owners(&server).get("second") != Some(&1) {
        assert!(since.elapsed() < PATIENCE, "{:?}", owners(&server));
        server.put("events", 30, n..n + 1);
        n += 1;
        for _ in 0..5 {
            first.read(true);
            second.read(true);
        }
    }
    server.put("events", 30, n..n + 5);
    n += 5;
    read_all(&mut [&mut first, &mut second], 30 * n as usize);
    assert!(sorted(&[&first, &second]) == expected(30, n), "each went to one of them, once");
    assert!(!second.seen.is_empty());

    // One is killed and goes on where it was, to the record.
    let (position, before) = (first.position.clone(), first.seen.clone());
    first.kill();
    server.put("events", 30, n..n + 5);
    n += 5;
    let mut again = Weir::open(&of_first, Some(&position));
    let since = Instant::now();
    while before.len() + again.seen.len() + second.seen.len() < 30 * n as usize {
        assert!(since.elapsed() < PATIENCE, "{} and {}", again.seen.len(), second.seen.len());
        again.read(true);
        second.read(true);
    }
    let mut all = [before, again.seen.clone(), second.seen.clone()].concat();
    all.sort();
    assert!(all == expected(30, n), "{} of {}", all.len(), 30 * n);
}

#[test]
fn a_subscription_that_is_lost_is_made_again_and_its_end_is_that_of_the_shard() {
    let Some(server) = Server::start("aws.sh", "lost subscriptions of enhanced fan-out") else { return };
    server.create_stream("events", 1);
    server.put("events", 20, 0..3);
    // Its clock knows seconds only.
    std::thread::sleep(Duration::from_secs(2));
    let mut settings = sent("one");
    settings["retrievalSpecificConfig"] = json!({"type": "FanOutConfig"});
    let of = definition(&server, json!({"advancedSettings": settings, "initialPosition": "Latest"}));
    let mut weir = Weir::open(&of, None);
    let shown = |operation: &str, body: Json| server.call(&KINESIS, operation, body);
    let arn = shown("DescribeStreamSummary", json!({"StreamName": "events"}))["StreamDescriptionSummary"]["StreamARN"].clone();
    let consumer = || shown("ListStreamConsumers", json!({"StreamARN": arn}))["Consumers"][0].clone();
    wait(
        || {
            weir.read(true);
            consumer()["ConsumerName"] == "reader" && !owners(&server).is_empty()
        },
        "the consumer has the name of the application",
    );
    // Only what comes from now on; and before the subscription there is nothing that it could be lost from.
    std::thread::sleep(Duration::from_secs(6));
    let (since, mut probes) = (Instant::now(), 0);
    while weir.seen.is_empty() {
        assert!(since.elapsed() < PATIENCE, "nothing is sent; {:?}", weir.stream.trouble());
        server.put("events", 1, probes..probes + 1);
        probes += 1;
        for _ in 0..20 {
            weir.read(true);
        }
    }
    let last = json!({"key": 0, "n": probes - 1}).to_string();
    wait(
        || {
            weir.read(true);
            weir.seen.contains(&last)
        },
        "the last of those that were to show that there is a subscription",
    );
    weir.seen.clear();
    server.put("events", 20, 0..5);
    read_all(&mut [&mut weir], 100);
    // Somebody else takes the subscription, and goes.
    let shard = shown("ListShards", json!({"StreamName": "events"}))["Shards"][0]["ShardId"].clone();
    let position = json!({"Type": "LATEST"});
    let taken = json!({"ConsumerARN": consumer()["ConsumerARN"], "ShardId": shard, "StartingPosition": position});
    let runtime = runtime();
    let theirs = runtime.block_on(async {
        let client = crate::aws::client::Client::open(&KINESIS, &server.access(), None).await.unwrap();
        let mut events = client.listen("SubscribeToShard", &taken).await.unwrap();
        events.next().await.unwrap();
        events
    });
    server.put("events", 20, 5..8);
    for _ in 0..20 {
        weir.read(true);
    }
    runtime.block_on(async { std::mem::drop(theirs) });
    server.put("events", 20, 8..10);
    read_all(&mut [&mut weir], 200);
    check_order(&weir.seen, 20, 10);
    // The shard ends, and its children are read.
    let middle = (u128::MAX / 2).to_string();
    shown("SplitShard", json!({"StreamName": "events", "ShardToSplit": shard, "NewStartingHashKey": middle}));
    server.put("events", 20, 10..15);
    read_all(&mut [&mut weir], 300);
    check_order(&weir.seen, 20, 15);
}

#[test]
fn after_a_kill_it_goes_on_where_it_was_and_others_take_what_it_leaves() {
    let Some(server) = Server::start("aws.sh", "leases of the dead") else { return };
    server.create_stream("events", 2);
    server.put("events", 30, 0..20);
    // The table is told little, so that what weir has kept itself is further.
    let of = definition(&server, json!({"checkpointSettings": {"maxBatchWaitMillis": 3_600_000, "maxBatchSize": 200}}));
    let mut weir = Weir::open(&of, None);
    let since = Instant::now();
    while weir.seen.len() < 330 {
        assert!(since.elapsed() < PATIENCE);
        weir.read(true);
    }
    let (position, before) = (weir.position.clone(), weir.seen.clone());
    // Read, and not durable.
    weir.read(false);
    weir.kill();
    let begun = Instant::now();
    let mut again = Weir::open(&of, Some(&position));
    read_all(&mut [&mut again], 600 - before.len());
    assert!(begun.elapsed() < Duration::from_secs(30), "its own leases are its own at once: {:?}", begun.elapsed());
    let all = [before, again.seen.clone()].concat();
    check_order(&all, 30, 20);

    server.put("events", 30, 20..25);
    read_all(&mut [&mut again], 600 - 330 + 150 - 60);
    again.kill();
    // Another one, which knows the table alone: nothing is missing, and what the table was not told comes again.
    let mut other = Weir::open(&of, None);
    server.put("events", 30, 25..30);
    wait(
        || {
            other.read(true);
            let last = |key: u32| json!({"key": key, "n": 29}).to_string();
            (0..30).all(|key| other.seen.contains(&last(key)))
        },
        "the other reads to the end",
    );
    for key in 0..30 {
        let of_key: Vec<u64> = other
            .seen
            .iter()
            .filter_map(|record| serde_json::from_str::<Json>(record).ok())
            .filter(|record| record["key"] == key)
            .filter_map(|record| record["n"].as_u64())
            .collect();
        assert!(of_key.windows(2).all(|pair| pair[0] + 1 == pair[1]) && of_key[0] <= 25, "{key}: {of_key:?}");
    }
}

#[test]
fn who_was_asked_and_died_answers_when_it_is_back() {
    let Some(server) = Server::start("aws.sh", "owners of leases that die while they are asked") else { return };
    server.create_stream("events", 2);
    server.put("events", 30, 0..5);
    let of_first = definition(&server, json!({"advancedSettings": own("first")}));
    let mut first = Weir::open(&of_first, None);
    read_all(&mut [&mut first], 150);
    let kept = first.seen.clone();
    // Handed on and never durable: it cannot go, as it is asked to.
    server.put("events", 30, 5..10);
    let since = Instant::now();
    while first.seen.len() < 300 {
        assert!(since.elapsed() < PATIENCE);
        first.read(false);
    }
    let mut second = Weir::open(&definition(&server, json!({"advancedSettings": own("second")})), None);
    wait(|| owners(&server).values().sum::<usize>() == 1, "the second one asks for a shard");
    for _ in 0..50 {
        second.read(true);
    }
    assert!(second.seen.is_empty(), "it waits for the answer");
    let position = first.position.clone();
    first.kill();
    let mut again = Weir::open(&of_first, Some(&position));
    read_all(&mut [&mut again, &mut second], 150);
    assert!(!second.seen.is_empty());
    let mut all = [kept, again.seen.clone(), second.seen.clone()].concat();
    all.sort();
    assert!(all == expected(30, 10), "{} of 300", all.len());
}

#[test]
fn the_newest_is_what_came_since_the_lease_was_made() {
    let Some(server) = Server::start("aws.sh", "sharing Kinesis from now on") else { return };
    server.create_stream("events", 2);
    server.put("events", 10, 0..3);
    // Its clock knows seconds only.
    std::thread::sleep(Duration::from_secs(2));
    let of = definition(&server, json!({"initialPosition": {"type": "Latest"}}));
    let mut weir = Weir::open(&of, None);
    let since = Instant::now();
    while owners(&server).is_empty() {
        assert!(since.elapsed() < PATIENCE);
        weir.read(true);
        std::thread::sleep(Duration::from_millis(100));
    }
    // Before anything was read and kept; while nobody is there.
    weir.kill();
    std::thread::sleep(Duration::from_secs(2));
    server.put("events", 10, 0..5);
    let mut weir = Weir::open(&of, None);
    read_all(&mut [&mut weir], 50);
    check_order(&weir.seen, 10, 5);
}

#[test]
fn children_of_a_shard_are_read_behind_it_whoever_reads_them() {
    let Some(server) = Server::start("kinesis.sh", "resharding of shared streams") else { return };
    let Some(tables) = Server::start("aws.sh", "resharding of shared streams") else { return };
    server.create_stream("events", 1);
    server.put("events", 20, 0..10);
    let config: KinesisKclIngest = config::from_json(&definition(&server, json!({}))).unwrap();
    let runtime = runtime();
    let open = |worker: &str, from: Option<&Position>| {
        let stream = Stream {
            name: "events".to_owned(),
            shard_ids: None,
            begin: config.initial_position.iterator().unwrap(),
            retries: 3,
            pace: config.pace(),
        };
        let table = Table { name: "reader".to_owned(), retries: 3, provisioned: Some((5, 5)) };
        let places = Places::read("here", from).unwrap();
        let (rules, worker) = (config.rules(), worker.to_owned());
        let (of_stream, of_table) = (server.access(), tables.access());
        Reading::share(runtime.handle(), "here", places.clone(), |events, durable, trouble| {
            let sharing = Sharing::new("here".to_owned(), worker, stream, table, rules, places, events, trouble);
            sharing.run(of_stream, of_table, durable)
        })
    };
    let read = |weirs: &mut [Reading], count: usize| {
        let (mut seen, mut batch, since) = (vec![Vec::new(); weirs.len()], Frames::default(), Instant::now());
        while seen.iter().map(Vec::len).sum::<usize>() < count {
            assert!(since.elapsed() < PATIENCE, "{:?} of {count}", seen.iter().map(Vec::len).collect::<Vec<_>>());
            for (weir, seen) in weirs.iter_mut().zip(&mut seen) {
                batch.clear();
                weir.next(&Limits { wait_max: Duration::from_millis(20), ..Limits::default() }, &mut batch).unwrap();
                weir.durable(&batch.position).unwrap();
                seen.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
            }
        }
        seen
    };
    let mut weirs = vec![open("first", None)];
    let mut whole = read(&mut weirs, 200).concat();
    let shards = server.call(&KINESIS, "ListShards", json!({"StreamName": "events"}));
    let shard = shards["Shards"][0]["ShardId"].as_str().unwrap();
    server.put("events", 20, 10..15);
    let middle = (u128::MAX / 2).to_string();
    server.call(&KINESIS, "SplitShard", json!({"StreamName": "events", "ShardToSplit": shard, "NewStartingHashKey": middle}));
    let status = || {
        server.call(&KINESIS, "DescribeStreamSummary", json!({"StreamName": "events"}))["StreamDescriptionSummary"]["StreamStatus"]
            .clone()
    };
    wait(|| status() == "ACTIVE", "the shard is split");
    server.put("events", 20, 15..25);
    whole.extend(read(&mut weirs, 300).concat());
    check_order(&whole, 20, 25);
    // Another one gets one of the children, and nothing of what was read.
    weirs.push(open("second", None));
    let since = Instant::now();
    while !owners(&tables).contains_key("second") {
        assert!(since.elapsed() < PATIENCE, "{:?}", owners(&tables));
        assert!(read(&mut weirs, 0).concat().is_empty());
        let mut batch = Frames::default();
        weirs.iter_mut().for_each(|weir| {
            batch.clear();
            weir.next(&Limits { wait_max: Duration::from_millis(20), ..Limits::default() }, &mut batch).unwrap();
            weir.durable(&batch.position).unwrap();
            assert!(batch.is_empty());
        });
    }
    server.put("events", 20, 25..30);
    let seen = read(&mut weirs, 100);
    assert!(seen.iter().all(|seen| !seen.is_empty()), "{:?}", seen.iter().map(Vec::len).collect::<Vec<_>>());
    check_order(&[whole, seen.concat()].concat(), 20, 30);
}

#[test]
fn definitions_are_read_as_the_library_has_them() {
    let definition = json!({"type": "KinesisKCLIngest", "kinesisStreamName": "events", "applicationName": "app",
    "format": {"type": "Drop"},
    "initialPosition": {"type": "AtTimestamp", "year": 2026, "month": 1, "dayOfMonth": 2, "hourOfDay": 3, "minute": 4, "second": 5},
    "schedulerSourceSettings": {"bufferSize": 5, "backpressureTimeoutMillis": 60_000},
    "checkpointSettings": {"disableCheckpointing": true, "maxBatchSize": 7, "maxBatchWaitMillis": 8},
    "advancedSettings": {
        "configsBuilder": {"tableName": "leases", "workerIdentifier": "me"},
        "leaseManagementConfig": {"failoverTimeMillis": 1, "billingMode": "PAY_PER_REQUEST", "maxThroughputPerHostKBps": 1.5,
            "isGracefulLeaseHandoffEnabled": false},
        "retrievalSpecificConfig": {"type": "PollingConfig", "maxRecords": 9, "retryGetRecordsInSeconds": 1},
        "processorConfig": {"callProcessRecordsEvenForEmptyRecordList": true},
        "coordinatorConfig": {"shardPrioritization": {"type": "ParentsFirstShardPrioritization", "maxDepth": 2},
            "clientVersionConfig": "CLIENT_VERSION_CONFIG_3X"},
        "lifecycleConfig": {"taskBackoffTimeMillis": 500}, "retrievalConfig": {"maxListShardsRetryAttempts": 3},
        "metricsConfig": {"metricsLevel": "NONE", "metricsEnabledDimensions": ["STREAM_IDENTIFIER", "WORKER_IDENTIFIER"]},
    }});
    let config = parse_source_v1(&definition).unwrap();
    config.check(&anything()).unwrap();
    let shown = config.settings();
    for (option, value) in definition.as_object().unwrap() {
        let same = match option.as_str() {
            "advancedSettings" => value.as_object().unwrap().iter().all(|(group, fields)| {
                fields.as_object().unwrap().iter().all(|(name, value)| shown["advancedSettings"][group][name] == *value)
            }),
            _ => shown[option] == *value,
        };
        assert!(same, "{option}: {}", shown[option]);
    }
    assert_eq!(parse_source_v1(&shown).unwrap().settings(), shown);
    let refused = |more: Json, field: &str| {
        let mut wrong = definition.clone();
        wrong.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match parse_source_v1(&wrong).and_then(|config| config.check(&anything())) {
            Err(ConnectorError::Config { field: named, .. }) => assert_eq!(named, field),
            other => panic!("{more}: {other:?}"),
        }
    };
    refused(json!({"initialPosition": "Newest"}), "initialPosition");
    refused(json!({"initialPosition": {"type": "AtTimestamp", "year": 2026}}), "initialPosition.month");
    let day = |day: u8| json!({"initialPosition": {"type": "AtTimestamp", "year": 2026, "month": 2, "dayOfMonth": day, "hourOfDay": 0, "minute": 0, "second": 0}});
    refused(day(30), "initialPosition");
    refused(
        json!({"advancedSettings": {"retrievalSpecificConfig": {"type": "FanOutConfig", "consumerName": "a b"}}}),
        "advancedSettings.retrievalSpecificConfig.consumerName",
    );
    refused(
        json!({"advancedSettings": {"leaseManagementConfig": {"billingMode": "FREE"}}}),
        "advancedSettings.leaseManagementConfig.billingMode",
    );
    refused(json!({"applicationName": "a b", "advancedSettings": {}}), "applicationName");
    refused(json!({"checkpointSettings": {"maxBatchSize": 0}}), "checkpointSettings.maxBatchSize");
}
