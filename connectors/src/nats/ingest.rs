//! The definition of a stream from JetStream, and what reads it.
//!
//!     stream ─ consumer ─ pulled, some hundred at a time ─> messages ─> Feed ─> graph
//!
//! Without the name of a consumer weir keeps the position itself, the place of the last message in its stream, and makes a
//! consumer behind it for each connection: each message has its effect once, in order. With a name the server keeps what is done,
//! so that several can share a stream, and streams can be read that give up their messages: then a message is acknowledged when
//! what it changed is durable, at least once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use weir_model::Position;

use super::access::{Login, NatsAccess, is_name, is_subject};
use super::connection::{Connection, put};
use super::jetstream::{CONSUMER_NOT_FOUND, EXPLICIT_ACKNOWLEDGEMENT, Failed, Place, STREAM_NOT_FOUND, ask, pull};
use super::unacknowledged::{ACKNOWLEDGE_SECONDS, Unacknowledged};
use crate::config;
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::feed::{self, Feed, Inlet, Reads};
use crate::formats::StreamFormat;
use crate::keeper::Keeper;
use crate::names::unlikely;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Messages that are asked for and have not come, at most. More are asked for when half of them are left.
const PULL_COUNT: usize = 500;

/// Bytes asked for at once, if no message can be longer than that.
const PULL_BYTES: usize = 4 << 20;

/// The server says every five seconds that it is there; when it has not for this long, it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A consumer of a connection that is gone goes after this long.
const CONSUMER_SECONDS: u64 = 300;

/// A consumer that weir makes waits for this many acknowledgements.
const UNACKNOWLEDGED_MAX: u64 = 2_000;

/// Reads the messages of a NATS JetStream stream.
///
/// Each message has its effect once; with a `consumer`, at least once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatsIngest {
    /// How a message is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: NatsAccess,
    /// The name of the JetStream stream. While it does not exist, weir waits for it.
    pub stream: String,
    /// Only messages of these subjects are read; wildcards are allowed. All when not given.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// A durable consumer at the server that keeps track of what was read, so that several streams can share the messages. It is
    /// created if it does not exist; one that is deleted is created anew and then gives all messages again. Without it weir keeps
    /// track itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Where the stream begins. `Latest` when not given.
    #[serde(default)]
    pub start_from: NatsStart,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most messages to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each message before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

/// Where the reading of a JetStream stream begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum NatsStart {
    /// With messages that come from now on.
    #[default]
    Latest,
    /// With the oldest message that is still there.
    Earliest,
}

impl SourceConfig for NatsIngest {
    fn settings(&self) -> Json {
        crate::settings("NatsIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        self.consumer.is_some()
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        for (field, name) in [("stream", Some(&self.stream)), ("consumer", self.consumer.as_ref())] {
            if name.is_some_and(|name| !is_name(name)) {
                return Err(ConnectorError::config(field, "is no name: no dots, stars, slashes or white space"));
            }
        }
        if let Some(subject) = self.subjects.iter().find(|subject| !is_subject(subject)) {
            return Err(ConnectorError::config("subjects", format!("{subject:?} is no subject")));
        }
        self.access.check(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        match self.consumer {
            Some(_) => feed::shown_number(position),
            None => Stood::read(position).map(|stood| json!({"sequence": stood.sequence, "created": stood.created})),
        }
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("stream {} of {}", self.stream, login.place);
        let keeper = self.consumer.is_some().then(Arc::<Keeper<Unacknowledged>>::default);
        let had_consumer = from.is_some_and(|position| !position.0.is_empty());
        let stood = match from.filter(|position| keeper.is_none() && !position.0.is_empty()) {
            None => None,
            Some(position) => Some(Stood::read(&position.0).ok_or_else(|| ConnectorError::Position {
                place: place.clone(),
                problem: "the stored position is not one of this kind of source".to_owned(),
            })?),
        };
        let position = stood.as_ref().map(Stood::position).unwrap_or_default();
        let reader = Reader { login, definition: self.clone(), stood, keeper: keeper.clone(), had_consumer };
        Ok(Box::new(match keeper {
            Some(keeper) => keeper.feed(&context.runtime, &place, position, reader),
            None => Feed::start(&context.runtime, &place, position, |inlet| inlet.keep_reading(reader)),
        }))
    }
}

/// Where the source stands, if it keeps that itself.
#[derive(Clone, PartialEq, Debug)]
struct Stood {
    /// The place of the last message in its stream.
    sequence: u64,
    /// When the stream was made: another one of its name counts anew.
    created: String,
}

impl Stood {
    fn position(&self) -> Vec<u8> {
        [&self.sequence.to_le_bytes(), self.created.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Stood> {
        let (sequence, created) = bytes.split_first_chunk::<8>()?;
        let created = std::str::from_utf8(created).ok().filter(|created| !created.is_empty())?.to_owned();
        Some(Stood { sequence: u64::from_le_bytes(*sequence), created })
    }
}

struct Reader {
    login: Login,
    definition: NatsIngest,
    stood: Option<Stood>,
    keeper: Option<Arc<Keeper<Unacknowledged>>>,
    /// The consumer that is named was there before, in this life or an earlier one.
    had_consumer: bool,
}

impl Reads for Reader {
    async fn connection(&mut self, inlet: &Inlet) -> Result<Infallible, Refused> {
        let mut connection = self.login.connect().await?;
        let consumer = match &self.keeper {
            Some(keeper) => {
                let (name, created) = self.durable_consumer(&mut connection).await?;
                keeper.connected(connection.writer.clone(), |waiting| waiting.connected(&created));
                if !std::mem::replace(&mut self.had_consumer, true) {
                    // That there was one is known then, also when nothing comes before a restart.
                    inlet.stands(0_u64.to_le_bytes().to_vec()).await;
                }
                name
            }
            None => self.own_consumer(&mut connection, inlet).await?,
        };
        self.messages(connection, &consumer, inlet).await
    }
}

impl Reader {
    async fn stream_info(&self, connection: &mut Connection) -> Result<Json, Refused> {
        let asked = ask(connection, &self.login.prefix, &format!("STREAM.INFO.{}", self.definition.stream), None).await;
        asked.map_err(|failed| match failed {
            Failed::Refused { number: STREAM_NOT_FOUND, .. } => {
                Refused::Passing(format!("there is no stream {}", self.definition.stream))
            }
            other => other.into(),
        })
    }

    /// What a new consumer is to give.
    fn config(&self, name: &str, more: Json) -> Json {
        let mut config = json!({"name": name});
        match self.definition.subjects.as_slice() {
            [] => {}
            [one] => config["filter_subject"] = one.as_str().into(),
            several => config["filter_subjects"] = json!(several),
        }
        if let (Json::Object(config), Json::Object(more)) = (&mut config, more) {
            config.extend(more);
        }
        json!({"stream_name": self.definition.stream, "action": "create", "config": config})
    }

    /// One for this connection, behind the position.
    async fn own_consumer(&mut self, connection: &mut Connection, inlet: &Inlet) -> Result<String, Refused> {
        let info = self.stream_info(connection).await?;
        let created = info["created"].as_str().unwrap_or_default().to_owned();
        if let Some(stood) = self.stood.as_ref().filter(|stood| stood.created != created) {
            return Err(Refused::Position(format!(
                "the stream was made on {created}, and the one that was read on {}; delete this ingest stream and create it anew",
                stood.created
            )));
        }
        let stood = match (&self.stood, self.definition.start_from) {
            (Some(stood), _) => stood.clone(),
            (None, NatsStart::Earliest) => Stood { sequence: 0, created },
            (None, NatsStart::Latest) => {
                let stood = Stood { sequence: info["state"]["last_seq"].as_u64().unwrap_or_default(), created };
                // The beginning stays where it is now, also when nothing comes before a restart.
                inlet.stands(stood.position()).await;
                stood
            }
        };
        let name = format!("weir-{}", unlikely());
        let config = self.config(
            &name,
            json!({
                "deliver_policy": "by_start_sequence", "opt_start_seq": stood.sequence + 1, "ack_policy": "none",
                "mem_storage": true, "num_replicas": 1, "inactive_threshold": CONSUMER_SECONDS * 1_000_000_000,
            }),
        );
        self.stood = Some(stood);
        let what = format!("CONSUMER.CREATE.{}.{name}", self.definition.stream);
        match ask(connection, &self.login.prefix, &what, Some(&config)).await {
            Ok(_) => Ok(name),
            Err(Failed::Refused { number, words }) => {
                let hint = if EXPLICIT_ACKNOWLEDGEMENT.contains(&number) {
                    "; give the name of a consumer for such a stream"
                } else {
                    ""
                };
                Err(Refused::ForGood(format!("no consumer can be made: {words}{hint}")))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The one that is named, which is made where there is none; and when it was made.
    async fn durable_consumer(&self, connection: &mut Connection) -> Result<(String, String), Refused> {
        let name = self.definition.consumer.clone().unwrap_or_default();
        let of_it = format!("{}.{name}", self.definition.stream);
        let info = match ask(connection, &self.login.prefix, &format!("CONSUMER.INFO.{of_it}"), None).await {
            Ok(info) => info,
            Err(Failed::Refused { number: CONSUMER_NOT_FOUND, .. }) => {
                if self.had_consumer {
                    let place = &self.login.place;
                    tracing::warn!("{place}: the consumer {name} is gone, and is made anew with all that the stream holds");
                }
                // Nobody can tell what the one that is gone had given.
                let from_now_on = self.definition.start_from == NatsStart::Latest && !self.had_consumer;
                let policy = if from_now_on { "new" } else { "all" };
                let config = self.config(
                    &name,
                    json!({
                        "durable_name": name, "deliver_policy": policy, "ack_policy": "explicit",
                        "ack_wait": ACKNOWLEDGE_SECONDS * 1_000_000_000, "max_ack_pending": UNACKNOWLEDGED_MAX,
                    }),
                );
                let what = format!("CONSUMER.CREATE.{of_it}");
                ask(connection, &self.login.prefix, &what, Some(&config)).await.map_err(|failed| match failed {
                    Failed::Refused { words, .. } => Refused::ForGood(format!("the consumer {name} cannot be made: {words}")),
                    other => other.into(),
                })?
            }
            Err(Failed::Refused { number: STREAM_NOT_FOUND, .. }) => {
                return Err(Refused::Passing(format!("there is no stream {}", self.definition.stream)));
            }
            Err(other) => return Err(other.into()),
        };
        let config = &info["config"];
        if config["ack_policy"] != "explicit" || config.get("deliver_subject").is_some_and(|subject| subject != "") {
            return Err(Refused::ForGood(format!(
                "the consumer {name} is not one that is pulled and acknowledged message by message"
            )));
        }
        Ok((name, info["created"].as_str().unwrap_or_default().to_owned()))
    }

    async fn messages(&mut self, mut connection: Connection, consumer: &str, inlet: &Inlet) -> Result<Infallible, Refused> {
        let subject = format!("{}.CONSUMER.MSG.NEXT.{}.{consumer}", self.login.prefix, self.definition.stream);
        // No message may be longer than what is asked for, or none would come.
        let bytes_max = PULL_BYTES.max(connection.greeting.max_payload.saturating_add(64 << 10));
        // What is asked for and has not come, by the inbox of the question, in order.
        let mut pulls: VecDeque<(String, usize)> = VecDeque::new();
        let mut delivered = 0;
        loop {
            let open: usize = pulls.iter().map(|(_, left)| left).sum();
            if open <= PULL_COUNT / 2 {
                let inbox = connection.next_inbox();
                let mut bytes = Vec::new();
                put(&subject, Some(&inbox), "", &pull(PULL_COUNT - open, bytes_max), &mut bytes);
                connection.writer.send(&bytes).await?;
                pulls.push_back((inbox, PULL_COUNT - open));
            }
            let Some(message) = connection.message(Instant::now() + SILENCE_MAX).await? else {
                connection.incoming.heard_within(SILENCE_MAX)?;
                continue;
            };
            let Some(place) = message.reply.as_deref().and_then(Place::of) else {
                match message.status() {
                    // It is there, and has been for a while in which nothing came.
                    Some((100, _)) => inlet.works(),
                    // What was asked for is over: after its time, or because the one who served it has gone.
                    Some((404 | 408, _)) => pulls.retain(|(inbox, _)| *inbox != message.subject),
                    Some((409, "Batch Completed" | "Leadership Change" | "Message Size Exceeds MaxBytes")) => {
                        pulls.retain(|(inbox, _)| *inbox != message.subject);
                    }
                    Some((code, words)) => return Err(Refused::Passing(format!("the consumer ended: {code} {words}"))),
                    None => {}
                }
                continue;
            };
            if let Some((_, left)) = pulls.front_mut() {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    pulls.pop_front();
                }
            }
            match &self.keeper {
                Some(keeper) => {
                    let reply = message.reply.as_deref().unwrap_or_default();
                    if let Some(record) = keeper.took(|waiting, record| waiting.took(record, place.in_stream, reply)) {
                        inlet.numbered(message.payload, record).await;
                    }
                }
                None => {
                    delivered += 1;
                    // A message was lost on its way: all behind it is read again.
                    if place.in_consumer != delivered {
                        return Err(Refused::Passing(format!("message {delivered} of the consumer did not come")));
                    }
                    let Some(stood) = &mut self.stood else { continue };
                    stood.sequence = place.in_stream;
                    let position = stood.position();
                    inlet.record(message.payload, position).await;
                }
            }
        }
    }
}
