//! The definition of a stream from topics of MQTT, and what reads it: in a session that the broker keeps while weir is away, at
//! least once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use weir_model::Position;

use super::access::{ALIVE_SECONDS, Login, MqttAccess, is_topic};
use super::packet::{Packet, Publish, subscribe};
use super::unacknowledged::Unacknowledged;
use crate::config;
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::feed::{self, Inlet, Reads};
use crate::formats::StreamFormat;
use crate::keeper::Keeper;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// The broker answers when weir says that it is there; when nothing has come for this long, the broker is gone.
const SILENCE_MAX: Duration = Duration::from_secs(ALIVE_SECONDS as u64);

/// What the broker says of a topic that is not for us.
const NOT_SUBSCRIBED: u8 = 0x80;

/// Subscribes to topics of an MQTT 3.1.1 broker, with quality of service 1.
///
/// Each message has its effect at least once: it is acknowledged when its effect is durable.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MqttIngest {
    /// How a message is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: MqttAccess,
    /// The client id, by which the broker keeps the session. No other client may use it.
    pub client_id: String,
    /// The topics to subscribe to. The wildcards `+` and `#` are allowed.
    pub topic_filters: Vec<String>,
    /// Whether the record is an object of `topic`, `payload` (parsed as JSON if it is, else a string) and `retained`. When false,
    /// the default, the record is the payload alone. With true a payload that is not UTF-8 fails.
    #[serde(default)]
    pub with_topic: bool,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most messages to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each payload before `format` reads it, in this order. None when not given. Not
    /// together with `withTopic`.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

impl SourceConfig for MqttIngest {
    fn settings(&self) -> Json {
        crate::settings("MqttIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        true
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.client_id.is_empty() || self.client_id.len() > u16::MAX.into() {
            return Err(ConnectorError::config("clientId", "is empty, or longer than 65535 bytes"));
        }
        if self.topic_filters.is_empty() {
            return Err(ConnectorError::config("topicFilters", "is empty"));
        }
        if let Some(topic) = self.topic_filters.iter().find(|topic| !is_topic(topic, true)) {
            return Err(ConnectorError::config("topicFilters", format!("{topic:?} is no topic")));
        }
        if self.with_topic
            && (!self.record_decoders.is_empty() || !matches!(self.format, StreamFormat::CypherJson(_) | StreamFormat::Drop))
        {
            return Err(ConnectorError::config("withTopic", "goes with records of JSON and without recordDecoders only"));
        }
        self.access.check(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        feed::shown_number(position)
    }

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("topics {} of {}", self.topic_filters.join(", "), login.place);
        let keeper = Arc::new(Keeper::default());
        let reader = Reader { login, definition: self.clone(), keeper: keeper.clone(), subscribed: false };
        Ok(Box::new(keeper.feed(&context.runtime, &place, Vec::new(), reader)))
    }
}

struct Reader {
    login: Login,
    definition: MqttIngest,
    keeper: Arc<Keeper<Unacknowledged>>,
    /// The broker has said that the session has the topics.
    subscribed: bool,
}

impl Reads for Reader {
    async fn connection(&mut self, inlet: &Inlet) -> Result<Infallible, Refused> {
        let connected = self.login.connect(&self.definition.client_id, false).await;
        // A broker that could not be reached may be one that is restored from an older state, of before it was told.
        self.subscribed &= matches!(connected, Ok((_, true)));
        let (mut connection, kept) = connected?;
        self.keeper.connected(connection.writer.clone(), |waiting| waiting.connected(kept));
        if self.subscribed {
            // Told once more, it would send all retained messages once more.
            inlet.connected();
        } else {
            connection.writer.send(&subscribe(&self.definition.topic_filters, 1)).await?;
        }
        let asked = Instant::now();
        loop {
            match connection.packet(Instant::now() + SILENCE_MAX).await? {
                None => connection.incoming.heard_within(SILENCE_MAX)?,
                Some(Packet::Subscribed(levels)) => {
                    if let Some(at) = levels.iter().position(|level| *level == NOT_SUBSCRIBED) {
                        let topic = self.definition.topic_filters.get(at).map_or("", String::as_str);
                        return Err(Refused::Passing(format!("the broker does not let us read the topic {topic}")));
                    }
                    self.subscribed = true;
                    inlet.connected();
                }
                Some(Packet::Publish(message)) => {
                    if let Some(record) = self.keeper.took(|waiting, record| waiting.took(record, &message)) {
                        inlet.numbered(self.record(message), record).await;
                    }
                }
                // Messages of the session may come before the answer, and take long. One that only says that it is there will
                // not.
                Some(_) if !self.subscribed && asked.elapsed() > SILENCE_MAX => {
                    return Err(Refused::Passing("the broker does not answer any more".to_owned()));
                }
                Some(_) => {}
            }
        }
    }
}

impl Reader {
    fn record(&self, message: Publish) -> Vec<u8> {
        if self.definition.with_topic { with_topic(message) } else { message.payload }
    }
}

/// A payload that is no text is the record itself, which fails then: no JSON could say its bytes.
fn with_topic(message: Publish) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&message.payload) else { return message.payload };
    let payload = serde_json::from_str::<Json>(text).unwrap_or_else(|_| Json::from(text));
    json!({"topic": message.topic, "payload": payload, "retained": message.retained}).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::conformance::anything;
    use crate::parse_source_v1;

    #[test]
    fn topics_are_subscribed_to_once_as_long_as_the_broker_keeps_the_session() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mqtt://{}", listener.local_addr().unwrap());
        let definition = json!({"type": "MqttIngest", "url": url, "clientId": "c", "topicFilters": ["t"]});
        let _stream = parse_source_v1(&definition).unwrap().open(&anything(), None).unwrap();
        let accept = || {
            let (mut wire, _) = listener.accept().unwrap();
            let mut said = [0; 256];
            assert!(wire.read(&mut said).unwrap() > 0 && said[0] == 0x10, "it says who it is");
            wire
        };
        let connection = |kept: u8, answers: bool, expected: bool| {
            let (mut wire, mut said) = (accept(), [0; 256]);
            wire.write_all(&[0x20, 2, kept, 0]).unwrap();
            // Something that comes, so that the next connection is not waited for longer and longer.
            wire.write_all(b"\x30\x04\0\x01tx").unwrap();
            let patience = if expected { Duration::from_secs(60) } else { Duration::from_millis(500) };
            wire.set_read_timeout(Some(patience)).unwrap();
            let subscribes = wire.read(&mut said).is_ok_and(|count| count > 0 && said[0] == 0x82);
            assert_eq!(subscribes, expected, "kept: {kept}");
            if answers {
                wire.write_all(&[0x90, 3, 0, 1, 1]).unwrap();
            }
        };
        // In another life, which nobody knows here, it may have had other topics.
        connection(1, false, true);
        connection(1, true, true);
        connection(1, false, false);
        // A new session, whose answer is not heard.
        connection(0, false, true);
        connection(1, true, true);
        // One that is not reached.
        drop(accept());
        connection(1, false, true);
    }

    #[test]
    fn what_no_json_can_say_is_left_as_it_came() {
        let record = |payload: &[u8]| {
            let topic = "a/b".to_owned();
            with_topic(Publish { topic, number: None, again: false, retained: true, payload: payload.to_vec() })
        };
        let said = |payload: &[u8]| serde_json::from_slice::<Json>(&record(payload)).unwrap();
        assert_eq!(said(b"{\"n\": 1}"), json!({"topic": "a/b", "payload": {"n": 1}, "retained": true}));
        assert_eq!(said("caf\u{e9}".as_bytes()), json!({"topic": "a/b", "payload": "caf\u{e9}", "retained": true}));
        assert_eq!(record(b"caf\xe9"), b"caf\xe9");
    }
}
