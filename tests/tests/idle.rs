//! Streams that have nothing to do, with the real binary: hundreds of them are no threads, hardly any memory and no work; and
//! what comes for one of them is there at once.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_tests::kafka::Broker;
use weir_tests::service::{Home, Weir, takes_at_most, wait_until};
use weir_tests::streams::{RESUME, counted};

const STREAMS: u64 = 300;

/// Generous: machines under load are slow, and brokers on them.
const PATIENCE: Duration = Duration::from_secs(180);
/// For hundreds that are deleted while they rest.
const DELETED_TIME_MAX: Duration = Duration::from_secs(60);

/// Of the service, over what it has without streams: each stream of old had two.
const THREADS_MAX: u64 = 60;
/// What a stream may keep. It is 60 to 70 once the allocator has given back what threads had, which takes it longer on a machine
/// that has other things to do; of old it was 200 and, of files, 1,200.
const KILOBYTES_PER_STREAM_MAX: u64 = 400;
/// Of a core, all streams together. Two threads for each that look 20 times a second were a multiple.
const PROCESSOR_PART_MAX: f64 = 0.05;
const MEASURED: Duration = Duration::from_secs(4);

const QUERY: &str = "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id";

/// A number of `/proc/<pid>/status`.
fn status(weir: &Weir, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", weir.pid())).expect("a running weir");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("a number")
}

/// How long it has been at work, in hundredths of a second.
fn at_work(weir: &Weir) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/stat", weir.pid())).expect("a running weir");
    let (_, fields) = text.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<u64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    fields.iter().sum()
}

/// Within one of a few stretches of time: what has to be done now and then may fall into one, work that does not end is in each.
fn works_next_to_nothing(weir: &Weir) {
    takes_at_most("the work of streams that rest", MEASURED.mul_f64(PROCESSOR_PART_MAX), || {
        let before = at_work(weir);
        sleep(MEASURED);
        Duration::from_millis(10 * (at_work(weir) - before))
    });
}

fn rest(weir: &Weir, threads: u64) {
    wait_until("the threads go", PATIENCE, || status(weir, "Threads") <= threads + THREADS_MAX);
}

#[test]
fn streams_that_rest_cost_next_to_nothing_and_wake_at_once() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let (threads, kilobytes) = (status(&weir, "Threads"), status(&weir, "VmRSS"));
    let format = json!({"type": "CypherJson", "query": QUERY});
    for n in 0..STREAMS {
        let file = format!("{n}.jsonl");
        home.write(&file, format!("{{\"id\": {n}}}\n{{\"id\": "));
        let file = json!({"type": "FileIngest", "path": file, "fileIngestMode": "NamedPipe", "format": format});
        weir.post(&format!("/api/v1/ingest/file{n}"), &file).expect(200);
        let push = json!({"type": "HttpPushIngest", "format": format});
        weir.post(&format!("/api/v1/ingest/push{n}"), &push).expect(200);
    }
    let ids = || weir.rows("MATCH (n) WHERE n.id IS NOT NULL RETURN count(n)")[0][0].as_u64().expect("a count");
    wait_until("all lines are read", PATIENCE, || ids() == STREAMS);
    rest(&weir, threads);
    // What threads had, the allocator gives back some seconds later.
    let most = kilobytes + 2 * STREAMS * KILOBYTES_PER_STREAM_MAX;
    wait_until("the memory is given back", PATIENCE, || status(&weir, "VmRSS") < most);
    works_next_to_nothing(&weir);

    // The rest of a line, for each of the files, and as many requests.
    let began = Instant::now();
    for n in 0..STREAMS {
        let mut file = OpenOptions::new().append(true).open(home.file(&format!("{n}.jsonl"))).expect("the file");
        writeln!(file, "{}}}", 10_000 + n).expect("a line");
        let body = json!([{"id": 20_000 + n}]).to_string();
        let target = format!("/api/v1/ingest/push{n}/records");
        weir.send("POST", &target, &[("Content-Type", "application/json")], body.as_bytes()).expect(200);
    }
    wait_until("all that came is there", PATIENCE, || ids() == 3 * STREAMS);
    eprintln!("{} streams woke and {} records came within {:?}", 2 * STREAMS, 2 * STREAMS, began.elapsed());
    rest(&weir, threads);

    // One that is paused while it rests reads nothing; once it goes on, it does.
    weir.put("/api/v1/ingest/file0/pause").expect(200);
    let mut file = OpenOptions::new().append(true).open(home.file("0.jsonl")).expect("the file");
    writeln!(file, "{{\"id\": 30000}}").expect("a line");
    sleep(Duration::from_millis(500));
    assert_eq!(ids(), 3 * STREAMS);
    weir.put("/api/v1/ingest/file0/start").expect(200);
    wait_until("what came meanwhile is there", PATIENCE, || ids() == 3 * STREAMS + 1);

    // A limit leaves records where they are for longer than it takes to rest.
    home.write("slow.jsonl", "{\"id\": 30001}\n{\"id\": 30002}\n{\"id\": 30003}\n{\"id\": 30004}\n");
    let slow = json!({"type": "FileIngest", "path": "slow.jsonl", "fileIngestMode": "NamedPipe", "format": format, "maximumPerSecond": 1});
    weir.post("/api/v1/ingest/slow", &slow).expect(200);
    wait_until("all are read, one each second", PATIENCE, || ids() == 3 * STREAMS + 5);

    // And one that is deleted while it rests is gone at once.
    let began = Instant::now();
    (1..STREAMS).for_each(|n| drop(weir.delete(&format!("/api/v1/ingest/push{n}")).expect(200)));
    assert!(began.elapsed() < DELETED_TIME_MAX, "{:?}", began.elapsed());
    weir.stop();
}

/// Before a stream has been silent for long it has a client of its own: four threads and what they need.
#[test]
fn streams_from_kafka_rest_keep_their_groups_and_wake_at_once() {
    const STREAMS: u64 = 20;
    let Some(broker) = Broker::start(false, "streams from Kafka that rest") else { return };
    broker.create_topic("idle", 1);
    let weir = Home::new().start(&["-Dweir.store.type=in-memory"]);
    let produce = |id: u64| broker.produce("idle", 0, [Some(json!({"id": id}).to_string().as_bytes())]);
    produce(0);
    for n in 0..STREAMS {
        let query = format!("MATCH (n) WHERE id(n) = idFrom({n}, $that.id) SET n.id = $that.id");
        let definition = json!({"type": "KafkaIngest", "topics": ["idle"], "bootstrapServers": broker.bootstrap(),
            "autoOffsetReset": "earliest", "format": {"type": "CypherJson", "query": query},
            "offsetCommitting": {"type": "ExplicitCommit", "maxIntervalMillis": 500},
            // Whoever polls less often is taken for dead.
            "kafkaProperties": {"max.poll.interval.ms": "9000", "session.timeout.ms": "6000"}});
        weir.post(&format!("/api/v1/ingest/kafka{n}"), &definition).expect(200);
    }
    let ids = || weir.rows("MATCH (n) WHERE n.id IS NOT NULL RETURN count(n)")[0][0].as_u64().expect("a count");
    wait_until("each stream has read the record", PATIENCE, || ids() == STREAMS);
    let rest = || wait_until("the streams rest", PATIENCE, || weir.threads_named("ingest ") == 0);
    rest();
    let woke = |count: u64| {
        let began = Instant::now();
        produce(count);
        wait_until("each stream has read the next record", PATIENCE, || ids() == STREAMS * (count + 1));
        eprintln!("{STREAMS} streams from Kafka woke and read within {:?}", began.elapsed());
    };
    woke(1);
    rest();
    // Longer than a client may go without being polled: it is polled in time, and stays in its group.
    sleep(Duration::from_secs(12));
    assert!(!weir.log().contains("max.poll.interval.ms"), "{}", weir.log());
    woke(2);
    rest();
    let committed = |n: u64| broker.committed(&format!("kafka{n}"), "idle", 0);
    assert!((0..STREAMS).all(|n| committed(n) == Some(3)), "streams rest only when their offsets are committed");
    weir.stop();
}

/// Streams from Kafka on which nothing comes for half a minute have one client together; and what comes for one of them is there
/// at once, and once. `WEIR_IDLE_STREAMS=1000` does it with a thousand streams.
#[test]
fn streams_from_kafka_have_one_client_together_when_nothing_comes() {
    /// Those of one client.
    const CLIENT_THREADS_MAX: usize = 12;
    /// Compilers and a broker run beside it.
    const KILOBYTES_PER_STREAM_MAX: u64 = 300;
    let streams: u64 = std::env::var("WEIR_IDLE_STREAMS").map_or(150, |count| count.parse().expect("a number of streams"));
    let Some(broker) = Broker::start(false, "streams from Kafka that have no client") else { return };
    let topic = |n: u64| if n.is_multiple_of(2) { "one-for-many".to_owned() } else { format!("one-for-one-{n}") };
    broker.create_topic("one-for-many", 1);
    (1..streams).step_by(2).for_each(|n| broker.create_topic(&topic(n), 1));
    let own: Vec<String> = (1..streams).step_by(2).map(topic).collect();
    let value = |id: u64| json!({"id": id}).to_string();
    let produce = |topic: &str, id: u64| broker.produce(topic, 0, [Some(value(id).as_bytes())]);
    let produce_all = |id: u64| {
        produce("one-for-many", id);
        own.iter().for_each(|topic| produce(topic, id));
    };
    let home = Home::new();
    let mut weir = home.start(RESUME);
    let (threads, kilobytes) = (status(&weir, "Threads"), status(&weir, "VmRSS"));
    let client_threads = |weir: &Weir| weir.threads_named("rdk:");
    let mut client_threads_most = 0;
    for n in 0..streams {
        let query = format!("MATCH (n) WHERE id(n) = idFrom({n}, $that.id) SET n.count = coalesce(n.count, 0) + 1");
        // A group's member, and a reader of a partition.
        let topics = if n.is_multiple_of(3) { json!({topic(n): [0]}) } else { json!([topic(n)]) };
        let definition = json!({"type": "KafkaIngest", "topics": topics, "bootstrapServers": broker.bootstrap(),
            "autoOffsetReset": "earliest", "format": {"type": "CypherJson", "query": query}});
        weir.post(&format!("/api/v1/ingest/kafka{n}"), &definition).expect(200);
    }
    produce_all(0);
    // Of very many, or on a slow machine, the first give theirs up before the last have read.
    wait_until("each stream has read the first record", PATIENCE, || {
        client_threads_most = client_threads_most.max(client_threads(&weir));
        counted(&weir).0 >= streams
    });
    let wait_counted = |weir: &Weir, count: u64| {
        wait_until("each stream has read the record", PATIENCE, || counted(weir).0 >= count);
        assert_eq!(counted(weir), (count, 1), "{}", weir.log());
    };
    let part = |weir: &Weir| {
        let before = at_work(weir);
        sleep(MEASURED);
        (at_work(weir) - before) as f64 / 100.0 / MEASURED.as_secs_f64()
    };
    let told = |weir: &Weir, when: &str| {
        let (memory, threads) = (status(weir, "VmRSS") / 1024, status(weir, "Threads"));
        eprintln!("{streams} streams {when}: {memory} MB, {threads} threads, {:.1} % of a core", part(weir) * 100.0);
    };
    wait_counted(&weir, streams);
    client_threads_most = client_threads_most.max(client_threads(&weir));
    assert!(client_threads_most > 3 * streams.min(200) as usize, "each has a client at first");
    sleep(Duration::from_secs(3));
    told(&weir, "with a client each");
    let away = |weir: &Weir| {
        wait_until("the clients go", PATIENCE, || client_threads(weir) <= CLIENT_THREADS_MAX);
        wait_until("the threads go", PATIENCE, || status(weir, "Threads") <= threads + THREADS_MAX);
    };
    away(&weir);
    let most = kilobytes + streams * KILOBYTES_PER_STREAM_MAX;
    wait_until("the memory is given back", PATIENCE, || status(&weir, "VmRSS") < most);
    works_next_to_nothing(&weir);
    sleep(Duration::from_secs(10));
    told(&weir, "with one together");

    produce(&topic(1), 1);
    let began = Instant::now();
    wait_counted(&weir, streams + 1);
    eprintln!("the first record after a rest was there within {:?} after the broker had it", began.elapsed());
    let began = Instant::now();
    produce_all(2);
    wait_counted(&weir, 2 * streams + 1);
    eprintln!("{streams} streams had read one each within {:?} after the first was sent", began.elapsed());
    assert!(client_threads(&weir) <= CLIENT_THREADS_MAX, "a record now and then needs no client");

    // Killed while they rest: they go on where they were.
    wait_until("the threads go", PATIENCE, || status(&weir, "Threads") <= threads + THREADS_MAX);
    weir.kill();
    produce_all(3);
    weir = home.start(RESUME);
    wait_counted(&weir, 3 * streams + 1);
    away(&weir);
    produce_all(4);
    wait_counted(&weir, 4 * streams + 1);
    weir.stop();
}
