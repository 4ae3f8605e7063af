//! Kafka in, the chain of four, Kafka out: the binary `weir` beside a broker on the same machine; and the source alone beside
//! librdkafka's own consumer.
//!
//!     events ─> topic ─> weir ─> topic ─> counted here, as a consumer sees them that reads what is committed
//!
//! The broker is somebody else's (`--kafka HOST:PORT`; `make bench-kafka` starts one). Topics are made anew for each run, and
//! the input is filled before anything counts.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;
use weir_connectors::{FilePolicy, Frames, HostPolicy, Limits, SourceContext, parse_source_v1};

use crate::data::Processes;
use crate::http::Server;
use crate::measure::{Clock, Durations, Run};
use crate::passes::{Mode, Settings};
use crate::weir::INGEST;

const PATIENCE: Duration = Duration::from_secs(120);

/// Paced events flow this long, or until `--events` of them have come.
const SECONDS: f64 = 10.0;

type Outcome = Result<Run, Box<dyn Error>>;

struct Broker {
    servers: String,
    /// What no other run has.
    unique: String,
}

impl Broker {
    fn of(settings: &Settings) -> Result<Broker, Box<dyn Error>> {
        let servers = settings.kafka.clone().ok_or("there is no broker: give --kafka HOST:PORT, or run `make bench-kafka`")?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
        Ok(Broker { servers, unique: format!("{}-{now}", std::process::id()) })
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    fn topic(&self, name: &str) -> Result<String, Box<dyn Error>> {
        let topic = format!("{name}-{}", self.unique);
        let admin: AdminClient<DefaultClientContext> = self.client().create()?;
        let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let created = runtime.block_on(admin.create_topics([&new], &AdminOptions::new()))?;
        created.into_iter().next().ok_or("no answer")?.map_err(|(topic, code)| format!("{topic}: {code}"))?;
        Ok(topic)
    }

    fn producer(&self) -> Result<BaseProducer, Box<dyn Error>> {
        // Not idempotent: then it would keep a core busy whenever the broker has five requests to answer.
        Ok(self.client().set("linger.ms", "1").set("acks", "all").set("max.in.flight", "1000").create()?)
    }

    fn fill(&self, topic: &str, processes: &Processes) -> Result<(), Box<dyn Error>> {
        let producer = self.producer()?;
        let mut line = Vec::new();
        for i in 0..processes.count {
            line.clear();
            processes.write_line(i, &mut line);
            send(&producer, topic, line.trim_ascii_end())?;
        }
        Ok(producer.flush(PATIENCE)?)
    }

    /// From the beginning of the only partition.
    fn consumer(&self, topic: &str, group: &str) -> Result<BaseConsumer, Box<dyn Error>> {
        let mut config = self.client();
        config.set("group.id", group).set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Beginning)?;
        consumer.assign(&list)?;
        Ok(consumer)
    }
}

fn send(producer: &BaseProducer, topic: &str, line: &[u8]) -> Result<(), Box<dyn Error>> {
    let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(line);
    while let Err((error, again)) = producer.send(record) {
        if error.rdkafka_error_code() != Some(rdkafka::types::RDKafkaErrorCode::QueueFull) {
            return Err(error.into());
        }
        producer.poll(Duration::from_millis(1));
        record = again;
    }
    Ok(())
}

/// Kafka to Kafka, results acknowledged.
pub fn pipe(settings: &Settings) -> Outcome {
    whole(settings, "pipe", false)
}

/// Kafka to Kafka, results in transactions.
pub fn pipe_once(settings: &Settings) -> Outcome {
    whole(settings, "pipe-once", true)
}

fn whole(settings: &Settings, name: &str, exactly_once: bool) -> Outcome {
    let broker = Broker::of(settings)?;
    let (input, output) = (broker.topic("in")?, broker.topic("out")?);
    let processes = settings.processes();
    broker.fill(&input, &processes)?;
    let server = Server::start(settings, name)?;
    install(&server, &broker, &output, settings.mode, exactly_once)?;
    let consumer = broker.consumer(&output, "bench")?;
    let expected = processes.expected_chains(4);

    let cpu_before = server.cpu_seconds()?;
    let clock = Clock::start()?;
    ingest(&server, &broker, &input)?;
    let (mut found, begun) = (0, Instant::now());
    // To find the coordinator of a group takes a client half a second or a second, once.
    let mut first = None;
    while found < expected && begun.elapsed() < PATIENCE {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            message?;
            found += 1;
            first.get_or_insert_with(|| begun.elapsed());
        }
    }
    let mut run = clock.stop(name, settings.events)?;
    // One too many comes at once, or not at all.
    while let Some(message) = consumer.poll(Duration::from_millis(500)) {
        message?;
        found += 1;
    }
    run.matches = Some(found);
    run.expected = Some(expected);
    run.settings = format!(
        "one partition each way, {} worker(s), {:?}, {:?}, {}; from the request that creates the stream to the last result, the \
         first came after {:.2} s; processor time is the counter's, weir took {:.2} s",
        settings.workers,
        settings.store,
        settings.mode,
        if exactly_once { "transactions" } else { "acknowledged" },
        first.unwrap_or_default().as_secs_f64(),
        server.cpu_seconds()? - cpu_before
    );
    Ok(run)
}

/// From the moment an event is due to its result being read from the output topic.
pub fn pipe_latency(settings: &Settings) -> Outcome {
    let rate = match settings.rate {
        Some(rate) => rate,
        None => pipe(settings)?.rate() * settings.load,
    };
    let broker = Broker::of(settings)?;
    let (input, output) = (broker.topic("paced-in")?, broker.topic("paced-out")?);
    let processes = Processes { count: settings.events.min((rate * SECONDS) as u64).max(1), ..settings.processes() };
    let server = Server::start(settings, "pipe-latency")?;
    // The number of the event that completes a chain: its first process is the newest.
    install(&server, &broker, &output, Mode::MultipleValues, false)?;
    ingest(&server, &broker, &input)?;
    let consumer = broker.consumer(&output, "bench")?;
    let producer = broker.producer()?;
    let expected = processes.expected_chains(4);
    std::thread::sleep(Duration::from_secs(2));

    let clock = Clock::start()?;
    let begun = Instant::now();
    let due = move |i: u64| begun + Duration::from_secs_f64(i as f64 / rate);
    let paced = std::thread::spawn(move || -> Result<(), String> {
        let mut line = Vec::new();
        for i in 0..processes.count {
            let wait = due(i).saturating_duration_since(Instant::now());
            if wait > Duration::from_micros(200) {
                producer.poll(Duration::ZERO);
                std::thread::sleep(wait);
            }
            line.clear();
            processes.write_line(i, &mut line);
            send(&producer, &input, line.trim_ascii_end()).map_err(|error| error.to_string())?;
        }
        producer.flush(PATIENCE).map_err(|error| error.to_string())
    });
    let (mut found, mut durations) = (0, Durations::new());
    while found < expected && begun.elapsed() < PATIENCE {
        let Some(message) = consumer.poll(Duration::from_millis(100)) else { continue };
        let message = message?;
        let result: serde_json::Value = serde_json::from_slice(message.payload().unwrap_or_default())?;
        let event = result["data"]["event"].as_u64().ok_or("a result without its event")?;
        found += 1;
        // Not the first second, when everything happens for the first time.
        if event as f64 >= rate {
            durations.record(Instant::now().saturating_duration_since(due(event)));
        }
    }
    paced.join().map_err(|_| "the producer panicked")??;
    let mut run = clock.stop("pipe-latency", processes.count)?;
    run.matches = Some(found);
    run.expected = Some(expected);
    run.latency_us = durations.latency();
    run.settings = format!(
        "{rate:.0} events/s, from due to read from the output topic, producer and consumer beside weir and the broker, {} worker(s), {:?}",
        settings.workers, settings.store
    );
    Ok(run)
}

fn install(server: &Server, broker: &Broker, output: &str, mode: Mode, exactly_once: bool) -> Result<(), Box<dyn Error>> {
    let chain = "MATCH (p0)-[:parent]->(p1)-[:parent]->(p2)-[:parent]->(p3) WHERE exists(p0.filename)";
    let (mode, columns) = match mode {
        Mode::DistinctId => ("DistinctId", "DISTINCT id(p0) AS id"),
        Mode::MultipleValues => ("MultipleValues", "p0.process_id AS event"),
    };
    let mut destination = json!({"type": "WriteToKafka", "topic": output, "bootstrapServers": broker.servers});
    if exactly_once {
        destination["exactlyOnce"] = json!(true);
    }
    let pattern = json!({"type": "Cypher", "query": format!("{chain} RETURN {columns}"), "mode": mode});
    let body = json!({"pattern": pattern, "outputs": {"kafka": destination}});
    server.post("/api/v1/query/standing/chains", &body.to_string())
}

fn ingest(server: &Server, broker: &Broker, input: &str) -> Result<(), Box<dyn Error>> {
    server.post("/api/v1/ingest/events", &definition(broker, input, json!({"type": "CypherJson", "query": INGEST})).to_string())
}

fn definition(broker: &Broker, input: &str, format: serde_json::Value) -> serde_json::Value {
    json!({
        "type": "KafkaIngest", "topics": {input: [0]}, "bootstrapServers": broker.servers, "autoOffsetReset": "earliest",
        "format": format,
    })
}

/// Weir's source, its records counted and dropped.
pub fn source(settings: &Settings) -> Outcome {
    let broker = Broker::of(settings)?;
    let input = broker.topic("source")?;
    broker.fill(&input, &settings.processes())?;
    let config = parse_source_v1(&definition(&broker, &input, json!({"type": "Drop"})))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let (files, hosts, runtime) = (FilePolicy::default(), HostPolicy::default(), runtime.handle().clone());
    let context = SourceContext { files, hosts, runtime, stream: "bench".to_owned(), wanted: None, tells: false };
    let (mut batch, limits) = (Frames::default(), Limits::default());
    let begun = Instant::now();
    let mut stream = config.open(&context, None)?;
    while batch.is_empty() && begun.elapsed() < PATIENCE {
        stream.next(&limits, &mut batch)?;
    }
    let clock = Clock::start()?;
    let mut count = batch.len() as u64;
    while count < settings.events && begun.elapsed() < PATIENCE {
        stream.next(&limits, &mut batch)?;
        count += batch.len() as u64;
    }
    counted(clock.stop("kafka-source", settings.events)?, count)
}

/// The consumer of librdkafka, as it comes, its records counted.
pub fn client(settings: &Settings) -> Outcome {
    let broker = Broker::of(settings)?;
    let input = broker.topic("client")?;
    broker.fill(&input, &settings.processes())?;
    let (mut count, begun) = (0, Instant::now());
    let consumer = broker.consumer(&input, "client")?;
    while count == 0 && begun.elapsed() < PATIENCE {
        count += u64::from(consumer.poll(Duration::from_millis(100)).transpose()?.is_some());
    }
    let clock = Clock::start()?;
    while count < settings.events && begun.elapsed() < PATIENCE {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            message?;
            count += 1;
        }
    }
    counted(clock.stop("kafka-client", settings.events)?, count)
}

fn counted(run: Run, count: u64) -> Outcome {
    let settings = "one partition, from the first record to the last".to_owned();
    Ok(Run { matches: Some(count), expected: Some(run.events), settings, ..run })
}
