//! The definition of a stream from Kafka.

use std::collections::{BTreeMap, BTreeSet};

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use weir_model::{Position, Text, Value};

use super::commits::{ExplicitCommit, Policy};
use super::login::SaslLogin;
use super::offsets::Offsets;
use super::properties::{Access, KafkaProperties, SecurityProtocol, Settings, check_hosts};
use super::records::{Records, Subscription};
use crate::config::{self, Secret};
use crate::error::ConnectorError;
use crate::formats::StreamFormat;
use crate::origin;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Reads the values of records from Kafka topics.
///
/// Each record has its effect once: weir keeps the offsets together with the graph.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KafkaIngest {
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The topics to read: a list of names, whose partitions the members of the consumer group share; a name that begins with `^`
    /// is a regular expression. Or an object from topic to a list of partitions, which are read independently of the group.
    pub topics: Topics,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// The brokers to connect to first, as `host:port`, several separated by commas.
    pub bootstrap_servers: String,
    /// The consumer group. The name of the stream when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// Whether the connection is encrypted, and whether weir logs in. `PLAINTEXT` when not given.
    #[serde(default)]
    pub security_protocol: SecurityProtocol,
    /// When offsets are committed to the broker. Never when not given: weir does not need it to go on after a restart, but other
    /// members of the group do, and other tools see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_committing: Option<OffsetCommitting>,
    /// Where to begin in a partition of which neither the stream nor its group has an offset, or whose records at that offset are
    /// gone. `latest` when not given.
    #[serde(default)]
    pub auto_offset_reset: OffsetReset,
    /// Further settings of the Kafka client, by the names of the Java client or of librdkafka. Settings that an option here
    /// decides, and unknown ones, are refused.
    #[serde(default)]
    pub kafka_properties: KafkaProperties,
    /// The last offset to read in each partition. The stream is complete when all partitions have reached it. No end when not
    /// given.
    #[serde(default, deserialize_with = "ending_offset", skip_serializing_if = "Option::is_none")]
    pub ending_offset: Option<i64>,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to the value of each record before `format` reads it, in this order. None when not
    /// given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
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
}

/// Names of topics, or an object from topic to the partitions to read.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Topics {
    Subscribed(Vec<String>),
    Assigned(BTreeMap<String, Vec<i32>>),
}

/// Where to begin in a partition without a valid offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffsetReset {
    /// With records that come from now on.
    #[default]
    Latest,
    /// With the oldest record that is still there.
    Earliest,
    /// The stream fails.
    None,
}

/// When offsets are committed to the broker.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum OffsetCommitting {
    /// Committed by weir, when the effect of the records is durable.
    ExplicitCommit(ExplicitCommit),
}

impl<'de> Deserialize<'de> for Topics {
    // By hand, so that an error says what is expected.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Topics, D::Error> {
        let given = Json::deserialize(input)?;
        let list = |items: &Vec<Json>| items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        let number = |item: &Json| item.as_i64().and_then(|n| i32::try_from(n).ok());
        let topics = match &given {
            Json::Array(items) => list(items).map(Topics::Subscribed),
            Json::Object(map) => {
                let partitions = |(topic, numbers): (&String, &Json)| {
                    Some((topic.clone(), numbers.as_array()?.iter().map(number).collect::<Option<Vec<i32>>>()?))
                };
                map.iter().map(partitions).collect::<Option<BTreeMap<_, _>>>().map(Topics::Assigned)
            }
            _ => None,
        };
        let problem =
            || format!("Got value '{given}' with wrong type, expecting a list of topics or an object of topics with partitions");
        topics.ok_or_else(|| config::nested(ConnectorError::config("topics", problem())))
    }
}

impl<'de> Deserialize<'de> for OffsetCommitting {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<OffsetCommitting, D::Error> {
        let given = Json::deserialize(input)?;
        let committing = config::kind(&given).and_then(|kind| match kind {
            "ExplicitCommit" => config::from_json(&given).map(OffsetCommitting::ExplicitCommit),
            other => Err(config::unknown_kind(other)),
        });
        committing.map_err(config::inside)
    }
}

fn ending_offset<'de, D: Deserializer<'de>>(input: D) -> Result<Option<i64>, D::Error> {
    config::integer(input).map(Some)
}

/// The rules of Kafka for names of topics.
pub(super) fn check_topic(field: &str, topic: &str) -> Result<(), ConnectorError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if matches!(topic.len(), 1..=249) && topic.chars().all(legal) && topic != "." && topic != ".." {
        return Ok(());
    }
    Err(ConnectorError::config(field, format!("'{topic}' cannot be the name of a topic")))
}

/// The client takes any pattern, and one that is none matches nothing, without a word. It says of a setting that holds patterns
/// what is wrong.
fn check_pattern(field: &str, pattern: &str) -> Result<(), ConnectorError> {
    // A comma would separate two of them.
    let checked = ClientConfig::new().set("topic.blacklist", pattern.replace(',', ",,")).create_native_config();
    checked.map(drop).map_err(|error| {
        let problem = match &error {
            KafkaError::ClientConfig(_, description, ..) => {
                description.rsplit_once("\": ").map_or(description.as_str(), |(_, problem)| problem).to_owned()
            }
            other => other.to_string(),
        };
        ConnectorError::config(field, format!("'{pattern}' is not a regular expression: {problem}"))
    })
}

impl Topics {
    fn check(&self) -> Result<(), ConnectorError> {
        let refuse = |problem: String| Err(ConnectorError::config("topics", problem));
        match self {
            Topics::Subscribed(topics) if topics.is_empty() => refuse("is empty".to_owned()),
            Topics::Subscribed(topics) if topics.iter().collect::<BTreeSet<_>>().len() < topics.len() => {
                refuse("names a topic twice".to_owned())
            }
            Topics::Subscribed(topics) => topics.iter().try_for_each(|topic| match topic.starts_with('^') {
                true => check_pattern("topics", topic),
                false => check_topic("topics", topic),
            }),
            Topics::Assigned(topics) if topics.values().all(Vec::is_empty) => refuse("names no partition".to_owned()),
            Topics::Assigned(topics) => topics.iter().try_for_each(|(topic, partitions)| {
                check_topic("topics", topic)?;
                let different: BTreeSet<&i32> = partitions.iter().collect();
                if different.len() != partitions.len() || partitions.iter().any(|partition| *partition < 0) {
                    return refuse(format!("{topic}: partitions are different numbers of at least 0"));
                }
                Ok(())
            }),
        }
    }
}

impl KafkaIngest {
    fn group(&self, stream: &str) -> String {
        let given = self.group_id.as_deref().or(self.kafka_properties.get("group.id"));
        given.unwrap_or(stream).to_owned()
    }

    /// Whether it is in a group that others are in, as it seems.
    fn shares_group(&self) -> bool {
        let given = self.group_id.is_some() || self.kafka_properties.get("group.id").is_some();
        given && matches!(self.topics, Topics::Subscribed(_))
    }

    pub(super) fn client(&self, stream: &str) -> Result<Settings, ConnectorError> {
        let mut decided =
            vec![("security.protocol", "is the option securityProtocol"), ("auto.offset.reset", "is the option autoOffsetReset")];
        if self.group_id.is_some() {
            decided.push(("group.id", "is the option groupId, which is given"));
        }
        if self.offset_committing.is_some() {
            decided.push(("enable.auto.commit", "goes against offsetCommitting, which is given"));
            decided.push(("auto.commit.interval.ms", "goes against offsetCommitting, which is given"));
        }
        let access = Access {
            bootstrap_servers: &self.bootstrap_servers,
            security_protocol: Some(self.security_protocol),
            ssl_keystore_password: self.ssl_keystore_password.as_ref(),
            ssl_truststore_password: self.ssl_truststore_password.as_ref(),
            ssl_key_password: self.ssl_key_password.as_ref(),
            sasl: self.sasl_jaas_config.as_ref(),
            properties: &self.kafka_properties,
            decided: &decided,
        };
        let group = self.group(stream);
        let reset = match self.auto_offset_reset {
            OffsetReset::Latest => "latest",
            OffsetReset::Earliest => "earliest",
            OffsetReset::None => "error",
        };
        let usual = [
            ("client.id", "weir"),
            ("enable.auto.commit", "false"),
            // Read ahead and wait in memory, at most; of one partition, until one of the two is reached.
            ("queued.max.messages.kbytes", "32768"),
            ("queued.min.messages", "50000"),
            // How soon it is seen that there is room again. With the client's own second, what has been read ahead has to last
            // for one: no partition is read faster than 50,000 records a second, whatever the graph could take.
            ("fetch.queue.backoff.ms", "10"),
            // How soon a topic is seen that was made after the stream.
            ("topic.metadata.refresh.interval.ms", "10000"),
            // How long a group waits for a member that was killed, also for the next life of that very member.
            ("session.timeout.ms", "10000"),
            ("reconnect.backoff.max.ms", "2000"),
            ("socket.keepalive.enable", "true"),
        ];
        // There the brokers say how long, and the client takes no word of it.
        let brokers_say = self.kafka_properties.get("group.protocol").is_some_and(|name| name.eq_ignore_ascii_case("consumer"));
        let usual: Vec<_> = usual.into_iter().filter(|(name, _)| !brokers_say || *name != "session.timeout.ms").collect();
        let ends = if self.ending_offset.is_some() { "true" } else { "false" };
        let needed = [
            ("group.id", group.as_str()),
            ("auto.offset.reset", reset),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", ends),
        ];
        access.settings(&usual, &needed)
    }
}

/// A record whose offset is committed, with the place that is, as clients of the reference service are told of it.
fn committable(record: Value) -> Value {
    let field = |name: &str| match &record {
        Value::Map(fields) => fields.get(name).map(|value| (Text::new(name), value.clone())),
        _ => None,
    };
    let place = Value::map(["topic", "partition", "offset"].into_iter().filter_map(field));
    // Commits carry none here.
    let offset = Value::map([("partitionOffset".into(), place), ("metadata".into(), Value::text(""))]);
    Value::map([("record".into(), record), ("committableOffset".into(), offset)])
}

impl SourceConfig for KafkaIngest {
    fn settings(&self) -> Json {
        crate::settings("KafkaIngest", &KafkaIngest { kafka_properties: self.kafka_properties.masked(), ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("KafkaIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn frame(&self, bytes: &[u8], origin: &[u8]) -> Value {
        let record = origin::frame("value", Value::Bytes(bytes.into()), origin);
        if self.offset_committing.is_some() { committable(record) } else { record }
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        self.topics.check()?;
        if self.ending_offset.is_some_and(|offset| offset < 0) {
            return Err(ConnectorError::config("endingOffset", "offsets are at least 0"));
        }
        if self.group(&context.stream).is_empty() {
            return Err(ConnectorError::config("groupId", "is empty; leave it out, and the group has the name of the stream"));
        }
        // What is kept elsewhere is looked up when it is needed.
        match self.client(&context.stream) {
            Ok(settings) => {
                check_hosts(&self.bootstrap_servers, &settings, &context.hosts)?;
                settings.try_to_read()?;
            }
            Err(ConnectorError::Secret { .. }) => {}
            Err(error) => return Err(error),
        }
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        Offsets::shown(position)
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let place = format!("Kafka at {}", self.bootstrap_servers);
        let from = from.map_or(Ok(Offsets::default()), |position| Offsets::read(&place, position))?;
        let settings = self.client(&context.stream)?;
        check_hosts(&self.bootstrap_servers, &settings, &context.hosts)?;
        settings.tell_left_out(&place);
        let policy = match &self.offset_committing {
            Some(OffsetCommitting::ExplicitCommit(explicit)) => Policy::Explicit(explicit.clone()),
            None if settings.client.get("enable.auto.commit") == Some("true") => Policy::Client,
            None => Policy::Never,
        };
        if matches!(policy, Policy::Never) && self.shares_group() {
            tracing::warn!(
                "{place}: the stream has a groupId and commits no offsets, so other members of the group know nothing of what it has read: give \
                 offsetCommitting, or leave the groupId out"
            );
        }
        let subscription = Subscription {
            topics: self.topics.clone(),
            group: self.group(&context.stream),
            reset: self.auto_offset_reset,
            ending_offset: self.ending_offset,
            tells: context.tells,
        };
        Ok(Box::new(Records::open(place, settings, subscription, policy, from, &context.runtime)?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::origin::packed;
    use crate::parse_source_v1;
    use crate::source::frame_json;

    #[test]
    fn a_record_whose_offset_is_committed_is_told_with_it() {
        let origin = packed(|origin| {
            origin.text("topic", "t");
            origin.integer("partition", 3);
            origin.integer("offset", 17);
        });
        let told = |committing: Json| {
            let definition =
                json!({"type": "KafkaIngest", "topics": ["t"], "bootstrapServers": "h:1", "offsetCommitting": committing});
            frame_json(&parse_source_v1(&definition).unwrap().frame(b"x", &origin))
        };
        let record = json!({"value": "eA==", "topic": "t", "partition": 3, "offset": 17});
        assert_eq!(told(Json::Null), record);
        let place = json!({"topic": "t", "partition": 3, "offset": 17});
        let committable = json!({"partitionOffset": place, "metadata": ""});
        assert_eq!(told(json!({"type": "ExplicitCommit"})), json!({"record": record, "committableOffset": committable}));
    }
}
