//! A real Kafka broker for tests: started by `services/kafka.sh` in a temporary directory on loopback, and ended with the
//! last test that uses it. Where it cannot be had, the test says loudly what it leaves out.
//!
//! Topics are filled and read here by librdkafka alone, without weir.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tempfile::TempDir;

use crate::server::wait_gone;

/// For anything a broker on the same machine does.
/// Disks of machines that are shared stand still for the better part of a minute now and then, and a broker with them.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Broker {
    directory: TempDir,
    port: u16,
    /// What the script looks at: where else it listens.
    variables: Vec<(&'static str, String)>,
    /// What the script said: `KAFKA_BOOTSTRAP` and the like.
    said: BTreeMap<String, String>,
}

/// A broker that tests share while any of them runs. None, and a loud word, where there is none to be had.
pub fn shared(left_out: &str) -> Option<Arc<Broker>> {
    static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(broker) = shared.upgrade() {
        return Some(broker);
    }
    let broker = Arc::new(Broker::start(false, left_out)?);
    *shared = Arc::downgrade(&broker);
    Some(broker)
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("services/kafka.sh")
}

impl Broker {
    /// A broker of one's own; `secure` also listens with SASL and TLS.
    pub fn start(secure: bool, left_out: &str) -> Option<Broker> {
        let variables = if secure { vec![("KAFKA_SECURE", "1".to_owned())] } else { Vec::new() };
        Broker::start_with(variables, left_out)
    }

    /// A broker that also listens at `proxied`, and tells whoever comes there that it is found at the proxy.
    pub fn start_behind(proxy: SocketAddr, left_out: &str) -> Option<Broker> {
        Broker::start_with(vec![("KAFKA_PROXY", proxy.to_string())], left_out)
    }

    /// One that also listens as these variables of the script say.
    pub fn start_with(variables: Vec<(&'static str, String)>, left_out: &str) -> Option<Broker> {
        let directory = tempfile::Builder::new().prefix("weir-kafka-").tempdir().expect("a temporary directory");
        let installed = Command::new("bash").arg(script()).arg("install").stdin(Stdio::null()).output().expect("bash runs");
        if !installed.status.success() {
            let reason = String::from_utf8_lossy(&installed.stderr);
            let reason = reason.trim().lines().last().unwrap_or("no reason given");
            eprintln!("**** LEFT OUT: {left_out}. There is no Kafka broker: tests/services/kafka.sh install: {reason}");
            return None;
        }
        let mut broker = Broker { directory, port: free_ports(8), variables, said: BTreeMap::new() };
        broker.run();
        Some(broker)
    }

    /// Starts it, on the data it has.
    pub fn run(&mut self) {
        let mut command = Command::new("bash");
        command.arg(script()).arg("start").arg(self.directory.path()).arg(self.port.to_string()).stdin(Stdio::null());
        let started = command.envs(self.variables.iter().cloned()).output().expect("bash runs");
        let said = String::from_utf8_lossy(&started.stdout);
        assert!(started.status.success(), "the broker did not start: {}", String::from_utf8_lossy(&started.stderr));
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.said = said.lines().filter_map(pair).collect();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let pid = fs::read_to_string(self.directory.path().join("pid")).expect("the broker runs");
        let pid = pid.split_whitespace().next().expect("a number");
        let killed = Command::new("kill").arg("-9").arg(pid).status().expect("kill runs");
        assert!(killed.success());
        wait_gone(pid);
    }

    /// Where clients connect: `KAFKA_BOOTSTRAP`, or with SASL and TLS another.
    pub fn said(&self, name: &str) -> &str {
        self.said.get(name).unwrap_or_else(|| panic!("the script said no {name}"))
    }

    pub fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where a proxy finds it.
    pub fn proxied(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + 5))
    }

    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        config
    }

    pub fn create_topic(&self, topic: &str, partitions: i32) {
        self.create_topic_with(topic, partitions, &[]);
    }

    /// With settings of its own.
    pub fn create_topic_with(&self, topic: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("a client");
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let created = runtime.block_on(admin.create_topics([&new], &options)).expect("the broker answers");
        created.into_iter().for_each(|topic| assert!(topic.is_ok(), "{topic:?}"));
    }

    /// Waits until it is gone.
    pub fn delete_topic(&self, topic: &str) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let deleted = runtime.block_on(admin.delete_topics(&[topic], &options)).expect("the broker answers");
        deleted.into_iter().for_each(|topic| assert!(topic.is_ok(), "{topic:?}"));
        let there = || {
            let metadata = admin.inner().fetch_metadata(None, PATIENCE).expect("the broker answers");
            metadata.topics().iter().any(|found| found.name() == topic)
        };
        while there() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// From now on the topic has `count` partitions.
    pub fn add_partitions(&self, topic: &str, count: usize) {
        let admin: AdminClient<DefaultClientContext> = self.client().create().expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let made = runtime.block_on(admin.create_partitions(&[NewPartitions::new(topic, count)], &options));
        made.expect("the broker answers").into_iter().for_each(|topic| assert!(topic.is_ok(), "{topic:?}"));
    }

    /// How many members a group has that know their partitions.
    pub fn members(&self, group: &str) -> usize {
        let consumer: BaseConsumer = self.client().create().expect("a client");
        // Whose groups a broker keeps it may still be reading.
        let until = Instant::now() + PATIENCE;
        let told = loop {
            match consumer.fetch_group_list(Some(group), PATIENCE) {
                Err(KafkaError::GroupListFetch(RDKafkaErrorCode::CoordinatorLoadInProgress)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                told => break told.expect("the broker answers"),
            }
        };
        told.groups()
            .iter()
            .filter(|told| told.name() == group && told.state() == "Stable")
            .map(|told| told.members().len())
            .sum()
    }

    /// Another member of a group, which reads a topic from its beginning.
    pub fn member(&self, group: &str, topic: &str) -> BaseConsumer {
        let mut config = self.client();
        config.set("group.id", group).set("auto.offset.reset", "earliest").set("session.timeout.ms", "6000");
        let consumer: BaseConsumer = config.create().expect("a client");
        consumer.subscribe(&[topic]).expect("a subscription");
        consumer
    }

    /// Writes values to a partition and waits until the broker has them. None is a record without a value.
    pub fn produce<'v>(&self, topic: &str, partition: i32, values: impl IntoIterator<Item = Option<&'v [u8]>>) {
        let producer: BaseProducer = self.client().create().expect("a client");
        for value in values {
            let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
            record.payload = value;
            while let Err((error, again)) = producer.send(record) {
                assert!(error.to_string().contains("Queue full"), "{error}");
                producer.poll(Duration::from_millis(1));
                record = again;
            }
        }
        producer.flush(PATIENCE).expect("the broker takes the records");
    }

    /// The values of all records of a topic, partition by partition, as a consumer sees them that reads what is committed.
    pub fn read(&self, topic: &str) -> Vec<String> {
        let mut config = self.client();
        config.set("group.id", "reader").set("enable.partition.eof", "true").set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.set("enable.auto.commit", "false").create().expect("a client");
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("the broker answers");
        let mut all = TopicPartitionList::new();
        for partition in metadata.topics()[0].partitions() {
            all.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("an offset");
        }
        consumer.assign(&all).expect("an assignment");
        let mut values: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        let (mut ended, deadline) = (0, Instant::now() + PATIENCE);
        while ended < all.count() {
            assert!(Instant::now() < deadline, "{topic} was not read within {PATIENCE:?}");
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let value = String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned();
                    values.entry(message.partition()).or_default().push(value);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
                // A broker that has just been started is not ready for everything.
                Some(Err(_)) | None => {}
            }
        }
        values.into_values().flatten().collect()
    }

    /// Leaves behind what a producer of transactions may that was killed: an offset of its group, of the same name, that belongs
    /// to no transaction under way, and so is neither committed nor aborted. Only brokers that do not verify take it in.
    pub fn leave_pending_offset(&self, id: &str, topic: &str) {
        let mut stream = TcpStream::connect(self.bootstrap()).expect("the broker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let text = |text: &str| [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat();
        let mut ask = |request: i16, body: &[u8]| {
            let (version, number, client) = (0_i16, 0_i32, text("left"));
            let head = [&request.to_be_bytes()[..], &version.to_be_bytes(), &number.to_be_bytes(), &client].concat();
            stream.write_all(&((head.len() + body.len()) as i32).to_be_bytes()).expect("the broker reads");
            stream.write_all(&[&head, body].concat()).expect("the broker reads");
            let mut length = [0; 4];
            stream.read_exact(&mut length).expect("the broker answers");
            let mut answer = vec![0; i32::from_be_bytes(length) as usize];
            stream.read_exact(&mut answer).expect("the broker answers");
            // Behind the number of the request, and how long a client should wait.
            answer.split_off(8)
        };
        let lasts = 60_000_i32.to_be_bytes();
        // InitProducerId: whether it failed, and the producer's id and epoch.
        let since = Instant::now();
        let producer = loop {
            let answer = ask(22, &[&text(id), &lasts[..]].concat());
            if let Some(([0, 0], producer)) = answer.split_first_chunk() {
                break producer.to_vec();
            }
            assert!(since.elapsed() < PATIENCE, "the broker knows no producer: {answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        // TxnOffsetCommit: a topic, its partition 0, offset 0, nothing with it.
        let one = 1_i32.to_be_bytes();
        let offset = [[0; 12].as_slice(), &(-1_i16).to_be_bytes()].concat();
        let answer = ask(28, &[&text(id), &text(id), &producer, &one[..], &text(topic), &one, &offset].concat());
        assert!(answer.ends_with(&[0, 0]), "the broker does not take it in: {answer:?}");
    }

    /// The offset a group has committed, as far as the broker says: one that has just been started may not know yet who keeps it.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().expect("a client");
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let told = consumer.committed_offsets(list, PATIENCE).ok()?;
        match told.elements()[0].offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Nothing else could be done about it.
        let _ = Command::new("bash").arg(script()).arg("stop").arg(self.directory.path()).stdin(Stdio::null()).output();
    }
}

/// The first of `count` ports in a row that nobody listens on, and that no other test has been given: it may be about to listen
/// there, or have killed what did and be about to start it again.
pub fn free_ports(count: u16) -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let first = listener.local_addr().expect("an address").port();
        drop(listener);
        // Below those the system itself gives out, as far as possible.
        let first = 10_000 + first % 20_000;
        let free = |port: u16| !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok();
        if (first..first + count).all(free) {
            given.extend(first..first + count);
            return first;
        }
    }
}
