//! The definition of an output to Kafka, and the plain way to write it: at least once, in order.
//!
//! A result counts as delivered when the broker has acknowledged it. The producer is idempotent and never gives up by
//! itself, so what the broker could not take now is not overtaken by what comes later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::Producer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use weir_model::Position;

use super::failed;
use super::login::SaslLogin;
use super::producer::{Failure, RECORDS_MAX, TopicProducer, is_refusal};
use super::properties::{Access, KafkaProperties, SecurityProtocol, Settings, check_hosts};
use super::transactions::Transactions;
use crate::config::Secret;
use crate::delivery::{Outgoing, RetryPolicy};
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::output_format::OutputFormat;

/// How long one call waits for the broker before it says that it does.
pub(super) const WRITE_TIME_MAX: Duration = Duration::from_secs(2);

/// Writes each result to a Kafka topic, as the value of a record without a key.
///
/// Each result arrives at least once, or exactly once with `exactlyOnce`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToKafka {
    /// The name of the topic.
    pub topic: String,
    /// The brokers to connect to first, as `host:port`, several separated by commas.
    pub bootstrap_servers: String,
    /// Whether the connection is encrypted, and whether weir logs in. When not given, `security.protocol` among the properties
    /// says so, or else `PLAINTEXT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_protocol: Option<SecurityProtocol>,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
    /// Further settings of the Kafka client, by the names of the Java client or of librdkafka. Settings that an option here
    /// decides, and unknown ones, are refused.
    #[serde(default)]
    pub kafka_properties: KafkaProperties,
    /// The password of the client's key store (PKCS#12).
    #[serde(default)]
    pub ssl_keystore_password: Option<Secret>,
    /// Accepted for compatibility, without effect: certificates to trust are PEM, which has no password.
    #[serde(default)]
    pub ssl_truststore_password: Option<Secret>,
    /// The password of the client's private key.
    #[serde(default)]
    pub ssl_key_password: Option<Secret>,
    /// The login at the broker, for `SASL_SSL` and `SASL_PLAINTEXT`.
    #[serde(default)]
    pub sasl_jaas_config: Option<SaslLogin>,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
    /// Whether results are written in transactions. Consumers with `isolation.level=read_committed` then see each result exactly
    /// once, some milliseconds later. False when not given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exactly_once: bool,
}

impl WriteToKafka {
    fn client(&self, transactional_id: Option<&str>) -> Result<Settings, ConnectorError> {
        let why = "goes against exactlyOnce, which is given";
        let decided: &[(&str, &str)] = if self.exactly_once {
            &[("enable.idempotence", why), ("acks", why), ("request.required.acks", why)]
        } else {
            &[("transactional.id", "is only used with exactlyOnce, which is not given")]
        };
        let access = Access {
            bootstrap_servers: &self.bootstrap_servers,
            security_protocol: self.security_protocol,
            ssl_keystore_password: self.ssl_keystore_password.as_ref(),
            ssl_truststore_password: self.ssl_truststore_password.as_ref(),
            ssl_key_password: self.ssl_key_password.as_ref(),
            sasl: self.sasl_jaas_config.as_ref(),
            properties: &self.kafka_properties,
            decided,
        };
        let given = |name: &str| self.kafka_properties.get(name);
        // As Java's producers decide it: whoever wants fewer acknowledgements cannot have this.
        let conflict = given("acks").or(given("request.required.acks")).is_some_and(|acks| !matches!(acks, "all" | "-1"))
            || given("retries").is_some_and(|retries| retries == "0")
            || given("max.in.flight.requests.per.connection").and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 5);
        let idempotent = if conflict { "false" } else { "true" };
        let usual = [
            ("client.id", "weir"),
            ("enable.idempotence", idempotent),
            // For ever: weir keeps what is not acknowledged, and its order.
            ("message.timeout.ms", "0"),
            ("reconnect.backoff.max.ms", "2000"),
            ("socket.keepalive.enable", "true"),
        ];
        match transactional_id {
            // A transaction bounds the time; it is aborted and written again.
            Some(id) => {
                let usual: Vec<_> = usual.into_iter().filter(|(name, _)| *name != "message.timeout.ms").collect();
                access.settings(&usual, &[("transactional.id", id), ("enable.idempotence", "true")])
            }
            None => access.settings(&usual, &[]),
        }
    }
}

impl DestinationConfig for WriteToKafka {
    fn settings(&self) -> Json {
        crate::settings("WriteToKafka", &WriteToKafka { kafka_properties: self.kafka_properties.masked(), ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("WriteToKafka", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn subject(&self) -> Option<String> {
        Some(format!("{}-value", self.topic))
    }

    fn is_line(&self, generation: Generation) -> bool {
        generation == Generation::V2
    }

    fn commits_with_results(&self) -> bool {
        self.exactly_once
    }

    fn why_kept(&self) -> Option<&'static str> {
        let why = "with exactlyOnce the results of a transaction would be given up together, and whether they are in the topic \
                   may not be known";
        self.exactly_once.then_some(why)
    }

    fn check(&self) -> Result<(), ConnectorError> {
        super::ingest::check_topic("topic", &self.topic)?;
        match self.client(self.exactly_once.then_some("weir")) {
            // What is kept elsewhere is looked up when it is needed.
            Ok(_) | Err(ConnectorError::Secret { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn try_out(&self, _files: &FilePolicy) -> Result<(), ConnectorError> {
        match self.client(self.exactly_once.then_some("weir")) {
            // How far it has delivered is read.
            Ok(settings) if self.exactly_once => settings.try_to_write().and_then(|()| settings.try_to_read()),
            Ok(settings) => settings.try_to_write(),
            Err(ConnectorError::Secret { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let place = format!("Kafka at {}", self.bootstrap_servers);
        let usual = format!("weir-{}", context.identity);
        let id = self.exactly_once.then(|| self.kafka_properties.get("transactional.id").unwrap_or(&usual));
        let settings = self.client(id)?;
        check_hosts(&self.bootstrap_servers, &settings, &context.hosts)?;
        settings.tell_left_out(&place);
        if let Some(id) = id {
            return Ok(Box::new(Transactions::open(place, self.topic.clone(), id.to_owned(), settings)?));
        }
        let producer = Some(TopicProducer::new(&place, &self.topic, &settings)?);
        Ok(Box::new(Acknowledged {
            place,
            topic: self.topic.clone(),
            settings,
            producer,
            sending: Sending::default(),
            stops_at_refused: false,
            stop: Arc::default(),
        }))
    }
}

struct Acknowledged {
    place: String,
    topic: String,
    settings: Settings,
    /// None after an error it cannot recover from; made anew by the next call.
    producer: Option<TopicProducer>,
    /// What an earlier call began: the same results come again, until some are given up.
    sending: Sending,
    /// Nothing more is handed over behind what was refused, either.
    stops_at_refused: bool,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct Sending {
    /// The first index the producer was not given.
    handed: usize,
    /// Indexes before `handed` that are to be given once more.
    again: Vec<usize>,
    failed: Vec<Failure>,
}

impl Sending {
    /// What is to be given once more comes before anything newer.
    fn hand_over(&mut self, producer: &TopicProducer, results: &[Outgoing]) -> Option<KafkaError> {
        if self.again.is_empty() {
            let handed = producer.hand_over(results, self.handed..results.len());
            self.handed = handed.next.unwrap_or(results.len());
            return handed.error;
        }
        self.again.sort_unstable();
        let handed = producer.hand_over(results, self.again.iter().copied());
        self.again.retain(|index| handed.next.is_some_and(|next| *index >= next));
        handed.error
    }
}

impl Destination for Acknowledged {
    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let deadline = Instant::now() + WRITE_TIME_MAX;
        let producer = match self.producer.take() {
            Some(producer) => producer,
            None => TopicProducer::new(&self.place, &self.topic, &self.settings)?,
        };
        let mut sending = std::mem::take(&mut self.sending);
        let mut all_told = producer.client().in_flight_count() == 0;
        loop {
            let mut error = None;
            // As `Written::holds_up` has it: what comes again is not overtaken, whatever it failed of.
            let halted = sending.failed.iter().any(|(_, code)| self.stops_at_refused || !is_refusal(*code));
            if all_told && halted && sending.again.is_empty() {
                break;
            }
            if all_told {
                error = sending.hand_over(&producer, results);
            }
            all_told = producer.wait();
            let failures = producer.failures();
            sending.failed.extend(failures.told);
            sending.again.extend(failures.together);
            if all_told && sending.again.is_empty() && sending.handed == results.len() {
                break;
            }
            if let Some((_, reason)) = producer.client().client().fatal_error() {
                // What it had is gone; it is not known which of the records were written.
                return Err(failed(&self.place, format!("the producer has to begin anew: {reason}"), true));
            }
            let reason = match error {
                Some(error) => error.to_string(),
                None if Instant::now() < deadline && !self.stop.load(Ordering::Relaxed) => continue,
                None => producer.trouble().unwrap_or_else(|| "the broker has not acknowledged all records yet".to_owned()),
            };
            (self.producer, self.sending) = (Some(producer), sending);
            return Err(failed(&self.place, reason, true));
        }
        let mut written = Written::default();
        sending.failed.sort_unstable_by_key(|(index, _)| *index);
        for (index, code) in sending.failed {
            if is_refusal(code) {
                written.refused.push((index, producer.refusal(code, &results[index])));
            } else {
                written.left.push(index);
                written.left_reason.get_or_insert_with(|| format!("{}: topic {}: {code}", self.place, self.topic));
            }
        }
        if written.left.is_empty() {
            producer.voice().clear();
        }
        written.leave_untried(sending.handed..results.len());
        self.producer = Some(producer);
        Ok(written)
    }

    fn gave_up(&mut self, _comes_again: &[bool]) {
        // What was handed over is known by its place among the results, which is another one from now on. What of it is not in
        // the topic yet goes with the producer.
        if std::mem::take(&mut self.sending).handed > 0 {
            self.producer = None;
        }
    }

    fn results_max(&self) -> usize {
        RECORDS_MAX
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if let Some(producer) = &self.producer {
            producer.hear();
        }
        Ok(())
    }

    fn rests(&self) -> bool {
        self.producer.is_none()
    }

    fn retry(&self) -> RetryPolicy {
        // The producer itself does not ask more often than it should; this is how soon its success is seen.
        RetryPolicy { tries_max: None, backoff_min: Duration::from_millis(20), backoff_max: Duration::from_millis(500) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use rdkafka::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::error::KafkaError;
    use rdkafka::message::Message;
    use rdkafka::mocking::MockCluster;
    use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
    use serde_json::{Value as Json, json};

    use crate::conformance::{bodies, output, runtime};
    use crate::delivery::Outgoing;
    use crate::destination::tests::{nothing_overtakes_what_is_refused, write, write_up_to};
    use crate::file_policy::FilePolicy;
    use crate::kafka::producer::{BYTES_MAX, RECORDS_MAX};
    use crate::kafka::write::WRITE_TIME_MAX;

    const TOPIC: &str = "results";

    /// All that is in the topic, in its order.
    fn taken(servers: &str) -> Vec<String> {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", servers).set("group.id", "reader").set("enable.partition.eof", "true");
        let consumer: BaseConsumer = client.set("enable.auto.commit", "false").create().unwrap();
        let mut all = TopicPartitionList::new();
        all.add_partition_offset(TOPIC, 0, Offset::Beginning).unwrap();
        consumer.assign(&all).unwrap();
        let (mut values, since) = (Vec::new(), Instant::now());
        loop {
            assert!(since.elapsed() < Duration::from_secs(60), "{} records were read", values.len());
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => values.push(String::from_utf8(message.payload().unwrap().to_vec()).unwrap()),
                Some(Err(KafkaError::PartitionEOF(_))) => return values,
                // It is not connected yet.
                Some(Err(_)) | None => {}
            }
        }
    }

    #[test]
    fn nothing_overtakes_a_record_that_is_refused_but_what_was_handed_over_with_it() {
        let (runtime, broker) = (runtime(), MockCluster::new(1).unwrap());
        broker.create_topic(TOPIC, 1, 1).unwrap();
        let servers = broker.bootstrap_servers();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": servers});
        let config = crate::parse_destination_v1(&definition).unwrap();
        // More than the client sends, and with any other one more than is handed over at once.
        let long = "x".repeat(BYTES_MAX);
        let results = bodies(&["1", "2", &long, "3", "4"]);
        let open = || config.open(&output(&runtime), None).unwrap();
        nothing_overtakes_what_is_refused(open, &results, 2, || taken(&servers));
    }

    /// They were taken for those before them, and not handed over.
    #[test]
    fn what_comes_behind_results_that_were_given_up_is_written() {
        let (runtime, broker) = (runtime(), MockCluster::new(1).unwrap());
        broker.create_topic(TOPIC, 1, 1).unwrap();
        let servers = broker.bootstrap_servers();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": servers});
        let mut destination = crate::parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        write(&mut *destination, &bodies(&["1"]));
        broker.broker_down(1).unwrap();
        assert!(destination.write(&bodies(&["2", "3"]), 0).unwrap_err().retryable());
        destination.gave_up(&[false, true]);
        broker.broker_up(1).unwrap();
        let written = write(&mut *destination, &bodies(&["3", "4", "5"]));
        assert!(written.left.is_empty() && written.refused.is_empty(), "{written:?}");
        let taken = taken(&servers);
        assert_eq!((&taken[0], &taken[taken.len() - 3..]), (&"1".to_owned(), &["3", "4", "5"].map(str::to_owned)[..]));
    }

    #[test]
    fn a_transaction_waits_for_a_broker_that_is_gone_says_so_soon_and_goes_on() {
        let (runtime, broker) = (runtime(), MockCluster::new(1).unwrap());
        broker.create_topic(TOPIC, 1, 1).unwrap();
        let servers = broker.bootstrap_servers();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": servers, "exactlyOnce": true});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let mut destination = config.open(&output(&runtime), None).unwrap();
        let mut upper = 0;
        let mut next = |texts: &[&str]| {
            upper += 1;
            let results: Vec<_> = bodies(texts).into_iter().map(|result| Outgoing { mark: upper - 1, ..result }).collect();
            (results, upper)
        };
        let (results, upper) = next(&["1", "2"]);
        write_up_to(&mut *destination, &results, upper);
        broker.broker_down(1).unwrap();
        let (results, upper) = next(&["3", "4"]);
        let since = Instant::now();
        for _ in 0..2 {
            let error = destination.write(&results, upper).unwrap_err();
            assert!(error.retryable() && !error.to_string().contains("aborted"), "{error}");
        }
        assert!(since.elapsed() < Duration::from_secs(20), "it took {:?} to say so twice", since.elapsed());
        broker.broker_up(1).unwrap();
        write_up_to(&mut *destination, &results, upper);
        assert_eq!(taken(&servers), ["1", "2", "3", "4"]);
    }

    #[test]
    fn a_transaction_waits_for_no_records_once_its_output_ends() {
        let (runtime, broker) = (runtime(), MockCluster::new(1).unwrap());
        broker.create_topic(TOPIC, 1, 1).unwrap();
        let servers = broker.bootstrap_servers();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": servers, "exactlyOnce": true});
        let mut destination = crate::parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        let stop = Arc::<AtomicBool>::default();
        destination.ends_by(&stop);
        write_up_to(&mut *destination, &bodies(&["1"]), 1);
        broker.broker_down(1).unwrap();
        let results: Vec<_> = bodies(&["2"]).into_iter().map(|result| Outgoing { mark: 1, ..result }).collect();
        stop.store(true, Ordering::Relaxed);
        let since = Instant::now();
        let error = destination.write(&results, 2).unwrap_err();
        assert!(error.retryable(), "{error}");
        assert!(since.elapsed() < WRITE_TIME_MAX / 2, "it took {:?}", since.elapsed());
    }

    /// It said that it had waited for too long, for the first seconds.
    #[test]
    fn a_transaction_says_first_why_its_broker_cannot_be_reached() {
        let runtime = runtime();
        // Nobody listens there any more.
        let address = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": address.to_string(),
            "exactlyOnce": true});
        let mut destination = crate::parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
        let error = destination.write(&bodies(&["1"]), 1).unwrap_err();
        assert!(error.retryable() && error.to_string().contains("Connection refused"), "{error}");
    }

    #[test]
    fn what_no_client_can_be_made_with_is_refused() {
        let check = |exactly_once: bool, properties: Json| {
            let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": "127.0.0.1:1",
                "exactlyOnce": exactly_once, "kafkaProperties": properties});
            let config = crate::parse_destination_v1(&definition).unwrap();
            config.check().and_then(|()| config.try_out(&FilePolicy::default()))
        };
        for exactly_once in [false, true] {
            check(exactly_once, json!({"linger.ms": "5"})).unwrap();
            for (properties, words) in [
                (json!({"security.protocol": "SSL", "ssl.certificate.location": "/nope.pem"}), "ssl.certificate.location"),
                (json!({"ssl.keystore.location": "/nope.p12", "security.protocol": "SSL"}), "ssl.keystore.password"),
            ] {
                let refused = check(exactly_once, properties).unwrap_err().to_string();
                assert!(refused.contains("kafkaProperties") && refused.contains(words), "{refused}");
            }
        }
        // How far it has delivered is read.
        let reads = json!({"fetch.max.bytes": "1"});
        let writes = json!({"enable.idempotence": "true", "max.in.flight": "6"});
        for (exactly_once, properties, words) in [(true, reads, "fetch.max.bytes"), (false, writes, "max.in.flight")] {
            let refused = check(exactly_once, properties).unwrap_err().to_string();
            assert!(refused.contains("kafkaProperties") && refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn the_protocol_is_given_as_to_a_stream() {
        let parse = |protocol: &str, properties: Json| {
            crate::parse_destination_v1(&json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": "127.0.0.1:1",
                "securityProtocol": protocol, "kafkaProperties": properties}))
        };
        let refused = |protocol: &str, properties: Json| {
            let config = parse(protocol, properties).unwrap();
            config.check().and_then(|()| config.try_out(&FilePolicy::default())).unwrap_err().to_string()
        };
        let config = parse("SSL", json!({})).unwrap();
        for kept in [config.settings(), config.stored()] {
            assert_eq!(kept["securityProtocol"], "SSL", "{kept}");
        }
        assert!(refused("SSL", json!({"ssl.certificate.location": "/nope.pem"})).contains("ssl.certificate.location"));
        let no_login = refused("SASL_PLAINTEXT", json!({}));
        assert!(no_login.contains("`securityProtocol`: SASL_PLAINTEXT needs a login"), "{no_login}");
        let twice = refused("SSL", json!({"security.protocol": "PLAINTEXT"}));
        assert!(twice.contains("kafkaProperties.security.protocol"), "{twice}");
        assert!(twice.contains("is the option securityProtocol"), "{twice}");
        let unknown = parse("TLS", json!({})).err().unwrap().to_string();
        assert!(unknown.contains("valid values are: PLAINTEXT, SSL, SASL_SSL, SASL_PLAINTEXT"), "{unknown}");
    }

    #[test]
    fn nothing_overtakes_records_that_failed_and_come_again() {
        let (runtime, broker) = (runtime(), MockCluster::new(1).unwrap());
        broker.create_topic(TOPIC, 1, 1).unwrap();
        let servers = broker.bootstrap_servers();
        let definition = json!({"type": "WriteToKafka", "topic": TOPIC, "bootstrapServers": servers,
            "kafkaProperties": {"acks": "1"}});
        let config = crate::parse_destination_v1(&definition).unwrap();
        let mut destination = config.open(&output(&runtime), None).unwrap();
        // One more than is handed over at once.
        let count = RECORDS_MAX + 1;
        let texts: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let mut results = bodies(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        broker.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
        let written = write(&mut *destination, &results);
        assert!(written.left.len() > 1 && written.refused.is_empty(), "{written:?}");
        assert_eq!(written.untried, [count - 1]);
        let mut expected: Vec<String> =
            (0..count).filter(|n| written.left.binary_search(n).is_err()).map(|n| n.to_string()).collect();
        assert_eq!(taken(&servers), expected);
        expected.extend(written.left.iter().map(usize::to_string));
        results = written.left.iter().map(|index| results[*index].clone()).collect();
        assert!(write(&mut *destination, &results).left.is_empty());
        assert_eq!(taken(&servers), expected);
    }
}
