//! The whole way to real servers that stand in for Amazon's, started by `tests/services/`. Where they cannot be had, a test says
//! loudly what it leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};

use super::access::{Access, AwsCredentials, AwsRegion};
use super::client::{Client, Service};
use super::reader::KINESIS;
use super::sqs::SQS;
use crate::config::Secret;
use crate::conformance::{anything, output, runtime};
use crate::real_server::{PATIENCE, RealServer, Way, open, read, results, texts, wait};
use crate::*;

static SNS: Service = Service { name: "sns", target: "", content_type: "application/x-www-form-urlencoded" };

pub(crate) struct Server {
    pub(crate) real: RealServer,
    pub(super) url: String,
}

impl Server {
    pub(crate) fn start(script: &'static str, left_out: &str) -> Option<Server> {
        let real = RealServer::start(script, 2, left_out)?;
        Some(Server { url: format!("http://{}/", real.address(0)), real })
    }

    pub(super) fn access(&self) -> Access {
        let secret = || Secret::plain("test");
        let credentials = AwsCredentials { access_key_id: secret(), secret_access_key: secret(), session_token: None };
        let region = Some(AwsRegion { region: "us-east-1".to_owned() });
        Access { credentials: Some(credentials), region, endpoint: Some(self.url.clone()), hosts: HostPolicy::default() }
    }

    pub(super) fn call(&self, service: &'static Service, operation: &str, body: Json) -> Json {
        let called = runtime().block_on(async {
            let client = Client::open(service, &self.access(), None).await.unwrap();
            client.call(operation, &body).await
        });
        called.unwrap_or_else(|failed| panic!("{operation}: {}", failed.reason))
    }

    fn form(&self, fields: &[(&str, &str)]) -> String {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let called = runtime().block_on(async {
            let client = Client::open(&SNS, &self.access(), None).await.unwrap();
            client.form(&fields).await
        });
        called.unwrap_or_else(|failed| panic!("{}", failed.reason))
    }

    pub(super) fn create_stream(&self, name: &str, shards: u32) {
        self.call(&KINESIS, "CreateStream", json!({"StreamName": name, "ShardCount": shards}));
        let status = || {
            self.call(&KINESIS, "DescribeStreamSummary", json!({"StreamName": name}))["StreamDescriptionSummary"]["StreamStatus"]
                .clone()
        };
        wait(|| status() == "ACTIVE", "the stream is there");
    }

    /// Each key has records of its own, counted.
    pub(super) fn put(&self, stream: &str, keys: u32, numbers: std::ops::Range<u32>) {
        let data = |key: u32, n: u32| STANDARD.encode(json!({"key": key, "n": n}).to_string());
        for n in numbers {
            let records: Vec<Json> =
                (0..keys).map(|key| json!({"PartitionKey": format!("key {key}"), "Data": data(key, n)})).collect();
            let answer = self.call(&KINESIS, "PutRecords", json!({"StreamName": stream, "Records": records}));
            assert_eq!(answer["FailedRecordCount"].as_u64().unwrap_or_default(), 0, "{answer}");
        }
    }

    pub(crate) fn queue(&self, name: &str, attributes: Json) -> String {
        let made = self.call(&SQS, "CreateQueue", json!({"QueueName": name, "Attributes": attributes}));
        // The server may call itself by another name.
        let path = made["QueueUrl"].as_str().unwrap().splitn(4, '/').nth(3).unwrap().to_owned();
        format!("{}{path}", self.url)
    }

    fn waiting(&self, queue: &str) -> u64 {
        let names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
        let told = self.call(&SQS, "GetQueueAttributes", json!({"QueueUrl": queue, "AttributeNames": names}));
        names.iter().map(|name| told["Attributes"][name].as_str().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub(super) fn with(&self, definition: Json) -> Json {
        let mut all = json!({"credentials": {"accessKeyId": "test", "secretAccessKey": "test"}, "region": "us-east-1"});
        all.as_object_mut().unwrap().extend(definition.as_object().unwrap().clone());
        all
    }
}

/// What has the same key comes in order, and each once.
pub(super) fn check_order(records: &[String], keys: u32, each: u32) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for record in records {
        let record: Json = serde_json::from_str(record).unwrap();
        let (key, n) = (record["key"].as_u64().unwrap(), record["n"].as_u64().unwrap());
        let expected = last.get(&key).map_or(0, |last| last + 1);
        assert_eq!(n, expected, "key {key}");
        last.insert(key, n);
    }
    assert_eq!(last.len() as u32, keys);
    assert!(last.values().all(|n| *n == u64::from(each) - 1), "{last:?}");
}

#[test]
fn a_stream_of_kinesis_is_read_once_from_every_position() {
    let Some(server) = Server::start("aws.sh", "reading Kinesis") else { return };
    server.create_stream("events", 3);
    server.put("events", 40, 0..25);
    let definition = server.with(json!({
        "type": "KinesisIngest", "streamName": "events", "endpoint": server.url, "iteratorType": "TrimHorizon",
    }));
    let whole = read(&mut open(&definition, None), 1_000, true);
    check_order(&texts(&whole), 40, 25);
    for at in [0, whole.len() / 2, whole.len() - 2] {
        let before = texts(&whole[..=at]);
        let after = texts(&read(&mut open(&definition, Some(&whole[at].1)), 1_000 - before.len(), true));
        check_order(&[before, after].concat(), 40, 25);
    }
    // Nothing more comes, and a moment later does.
    let end = &whole.last().unwrap().1;
    let mut stream = open(&definition, Some(end));
    stream.next(&Limits::default(), &mut Frames::default()).unwrap();
    server.put("events", 40, 25..26);
    assert_eq!(read(&mut stream, 40, true).iter().map(|(texts, _)| texts.len()).sum::<usize>(), 40);

    // One shard, behind a record of it.
    let shards = server.call(&KINESIS, "ListShards", json!({"StreamName": "events"}));
    let shard = shards["Shards"][0]["ShardId"].as_str().unwrap();
    let one = |begin: Json| {
        let mut definition = definition.clone();
        definition["shardIds"] = json!([shard]);
        definition["iteratorType"] = begin;
        definition
    };
    let of_one = texts(&read(&mut open(&one(json!("TrimHorizon")), None), 1, true)).len();
    assert!(of_one > 0);
    let refused =
        |definition: Json| parse_source_v1(&definition).and_then(|config| config.check(&anything())).unwrap_err().to_string();
    let mut many = one(json!({"type": "AtSequenceNumber", "sequenceNumber": "1"}));
    many["shardIds"] = json!(["a", "b"]);
    assert!(refused(many).contains("shardIds"));
    assert!(refused(one(json!("Newest"))).contains("TrimHorizon"));
    // What is not there is said.
    let absent = server.with(json!({"type": "KinesisIngest", "streamName": "absent", "endpoint": server.url}));
    let (mut stream, mut batch) = (open(&absent, None), Frames::default());
    wait(
        || stream.next(&Limits::default(), &mut batch).is_err_and(|error| error.to_string().contains("ResourceNotFound")),
        "a word",
    );
}

#[test]
fn the_newest_of_kinesis_is_what_came_since_the_stream_was_made() {
    let Some(server) = Server::start("aws.sh", "reading Kinesis from now on") else { return };
    server.create_stream("events", 2);
    server.put("events", 10, 0..3);
    // Its clock knows seconds only.
    std::thread::sleep(Duration::from_secs(2));
    let definition = server.with(json!({"type": "KinesisIngest", "streamName": "events", "endpoint": server.url}));
    let (mut stream, mut batch) = (open(&definition, None), Frames::default());
    let since = Instant::now();
    // It begins, and its position says so.
    while since.elapsed() < Duration::from_secs(3) {
        stream.next(&Limits::default(), &mut batch).unwrap();
        assert!(batch.is_empty());
    }
    let position = batch.position.clone();
    drop(stream);
    // While it is away.
    server.put("events", 10, 0..5);
    let records = texts(&read(&mut open(&definition, Some(&position)), 50, true));
    check_order(&records, 10, 5);
}

#[test]
fn children_of_a_shard_are_read_behind_it() {
    let Some(server) = Server::start("kinesis.sh", "resharding of Kinesis") else { return };
    server.create_stream("events", 1);
    server.put("events", 20, 0..10);
    let definition = server.with(json!({
        "type": "KinesisIngest", "streamName": "events", "endpoint": server.url, "iteratorType": "TrimHorizon",
    }));
    let mut stream = open(&definition, None);
    let mut whole = read(&mut stream, 200, true);
    let shards = server.call(&KINESIS, "ListShards", json!({"StreamName": "events"}));
    let shard = shards["Shards"][0]["ShardId"].as_str().unwrap();
    server.put("events", 20, 10..15);
    let middle = (u128::MAX / 2).to_string();
    server.call(&KINESIS, "SplitShard", json!({"StreamName": "events", "ShardToSplit": shard, "NewStartingHashKey": middle}));
    let status = || {
        server.call(&KINESIS, "DescribeStreamSummary", json!({"StreamName": "events"}))["StreamDescriptionSummary"]["StreamStatus"].clone()
    };
    wait(|| status() == "ACTIVE", "the shard is split");
    server.put("events", 20, 15..25);
    whole.extend(read(&mut stream, 300, true));
    check_order(&texts(&whole), 20, 25);
    // Also for who comes later, from the beginning and from each place between.
    let later = read(&mut open(&definition, None), 500, true);
    check_order(&texts(&later), 20, 25);
    for at in (0..later.len()).step_by(later.len() / 4 + 1) {
        let before = texts(&later[..=at]);
        let after = texts(&read(&mut open(&definition, Some(&later[at].1)), 500 - before.len(), true));
        check_order(&[before, after].concat(), 20, 25);
    }
}

/// As a delivery does it: what is left comes again. Returns what was refused.
fn write(destination: &mut dyn Destination, mut results: Vec<Outgoing>) -> usize {
    let (mut refused, since) = (0, Instant::now());
    while !results.is_empty() {
        assert!(since.elapsed() < PATIENCE, "{} results are left", results.len());
        let written = destination.write(&results, 0).unwrap();
        refused += written.refused.len();
        assert!(written.left.is_sorted());
        results = written.left.iter().map(|index| results[*index].clone()).collect();
        if !results.is_empty() {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    refused
}

#[test]
fn kinesis_gets_each_result_and_a_cut_on_the_way_loses_none() {
    let Some(server) = Server::start("aws.sh", "writing Kinesis, and cuts on the way") else { return };
    server.create_stream("results", 2);
    let way = Way::to(server.real.address(0));
    let through = format!("http://{}/", way.address);
    let runtime = runtime();
    let definition = server.with(json!({"type": "WriteToKinesis", "streamName": "results", "endpoint": through}));
    let mut destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
    assert_eq!(write(&mut *destination, results(1_234)), 0);
    let source = server.with(json!({
        "type": "KinesisIngest", "streamName": "results", "endpoint": through, "iteratorType": "TrimHorizon", "numRetries": 1,
    }));
    let mut stream = open(&source, None);
    let first = texts(&read(&mut stream, 1_234, true));
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 1_234);
    way.set(false);
    let left = destination.write(&results(10), 0).unwrap();
    assert_eq!(left.left.len(), 10, "nothing counts as written while nobody is there");
    let mut batch = Frames::default();
    wait(
        || {
            stream.next(&Limits::default(), &mut batch).unwrap();
            stream.trouble().is_some()
        },
        "the stream says what is wrong",
    );
    way.set(true);
    assert_eq!(write(&mut *destination, results(10)), 0);
    assert_eq!(texts(&read(&mut stream, 10, true)).len(), 10);
    // Each shard by itself, as soon as it is asked for again.
    wait(|| stream.trouble().is_none(), "all shards can be read");
}

#[test]
fn messages_are_deleted_when_they_are_durable_and_not_before() {
    let Some(server) = Server::start("aws.sh", "reading SQS") else { return };
    // Long enough for a machine that stands still for a moment to have them hidden longer in time.
    let queue = server.queue("events", json!({"VisibilityTimeout": "6"}));
    let runtime = runtime();
    let to = server.with(json!({"type": "WriteToSQS", "queueUrl": queue}));
    let mut destination = parse_destination_v1(&to).unwrap().open(&output(&runtime), None).unwrap();
    assert_eq!(write(&mut *destination, results(100)), 0);
    assert_eq!(server.waiting(&queue), 100);
    let definition = server.with(json!({"type": "SQSIngest", "queueUrl": queue, "readParallelism": 3}));
    let mut first = open(&definition, None);
    assert_eq!(texts(&read(&mut first, 100, false)).iter().collect::<BTreeSet<_>>().len(), 100);
    // Longer than the queue would hide them, nobody else sees them.
    let (mut second, mut batch) = (open(&definition, None), Frames::default());
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(13) {
        first.next(&Limits::default(), &mut batch).unwrap();
        assert!(batch.is_empty(), "a message came twice");
        second.next(&Limits::default(), &mut batch).unwrap();
        assert!(batch.is_empty(), "a message was seen by two");
    }
    assert_eq!(server.waiting(&queue), 100);
    // Nothing was durable: another gets all of them, soon.
    drop(first);
    let again = texts(&read(&mut second, 100, true));
    assert_eq!(again.iter().collect::<BTreeSet<_>>().len(), 100);
    wait(|| server.waiting(&queue) == 0, "what is durable is deleted");

    let mut keeps = definition.clone();
    keeps["deleteReadMessages"] = json!(false);
    drop(second);
    assert_eq!(write(&mut *destination, results(5)), 0);
    read(&mut open(&keeps, None), 5, true);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(server.waiting(&queue), 5);
}

#[test]
fn queues_and_topics_get_results_in_order_and_what_is_too_large_is_refused() {
    let Some(server) = Server::start("aws.sh", "writing SQS and SNS") else { return };
    let runtime = runtime();
    let numbers = |messages: &[String]| -> Vec<u64> {
        messages.iter().map(|text| serde_json::from_str::<Json>(text).unwrap()["n"].as_u64().unwrap()).collect()
    };
    let fifo = server.queue("ordered.fifo", json!({"FifoQueue": "true"}));
    let to = server.with(json!({"type": "WriteToSQS", "queueUrl": fifo}));
    let mut destination = parse_destination_v1(&to).unwrap().open(&output(&runtime), None).unwrap();
    assert_eq!(write(&mut *destination, results(57)), 0);
    let from = server.with(json!({"type": "SQSIngest", "queueUrl": fifo}));
    assert!(numbers(&texts(&read(&mut open(&from, None), 57, true))).into_iter().eq(0..57));

    let heard = server.queue("heard", json!({}));
    let made = server.form(&[("Action", "CreateTopic"), ("Version", "2010-03-31"), ("Name", "news")]);
    let topic = super::client::element(&made, "TopicArn").unwrap().to_owned();
    let account = topic.rsplit(':').nth(1).unwrap().to_owned();
    server.form(&[
        ("Action", "Subscribe"),
        ("Version", "2010-03-31"),
        ("TopicArn", &topic),
        ("Protocol", "sqs"),
        ("Endpoint", &format!("arn:aws:sqs:us-east-1:{account}:heard")),
        ("Attributes.entry.1.key", "RawMessageDelivery"),
        ("Attributes.entry.1.value", "true"),
    ]);
    let to = server.with(json!({"type": "WriteToSNS", "topic": topic, "endpoint": server.url}));
    let mut destination = parse_destination_v1(&to).unwrap().open(&output(&runtime), None).unwrap();
    assert_eq!(write(&mut *destination, results(25)), 0);
    let from = server.with(json!({"type": "SQSIngest", "queueUrl": heard}));
    let found: BTreeSet<u64> = numbers(&texts(&read(&mut open(&from, None), 25, true))).into_iter().collect();
    assert!(found.into_iter().eq(0..25));
}
