//! The definition of a stream from Redis, and what reads it without a group: entries of one key, behind the position.
//!
//! The position is the id of the last entry. One request is always under way, so that an entry is here as soon as it is there; the server holds it
//! back until there is one. Entries that did not fit into a batch wait for the next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::runtime::Handle;
use weir_model::Position;

use super::access::{Login, RedisAccess};
use super::connection::{Connection, Reply, put_command};
use super::entry::{Count, Entry, of_stream, refused};
use super::group::Member;
use crate::config;
use crate::delivery::jittered;
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::formats::StreamFormat;
use crate::frames::{Frames, Limits, Progress};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// For so long the server holds back an answer while there is nothing new.
const HELD_BACK: Duration = Duration::from_secs(5);

/// An answer that comes later will not come.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(20);

/// Others of a group are waited for no longer.
const CLAIM_AFTER_SECONDS_MAX: u64 = 86_400;

/// Between two tries to connect, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Reads the entries of a stream of Redis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedisIngest {
    /// What an entry holds, and the query that runs on each. `CypherJson` with `CREATE ($that)` when not given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: RedisAccess,
    /// The key of the stream.
    pub key: String,
    /// The field of an entry that is the record. Without one the record is an object in JSON of all fields, with texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Where the stream begins, or the group that it makes: with what comes from now on, or with the oldest entry that is there.
    #[serde(default)]
    pub start_from: RedisStart,
    /// A group of the server's that several share the stream by; the server keeps what each has been given. Made where there is none. Without it weir
    /// reads all of the stream, and keeps itself where it stands, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Who this stream is within the group, and nobody else. Without it a name that nobody has, the same for the life of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Entries that another one of the group has been given and has not acknowledged for so long are taken over from it; a minute when not given. 0: none are,
    /// and then `consumer` has to be given.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86400))]
    pub claim_after_seconds: Option<u64>,
    /// Taken and shown; records are always evaluated in their order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// Entries a second, at most; all that come when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// What is undone to a record before it is read, in this order; nothing when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

impl RedisIngest {
    fn check_group(&self) -> Result<(), ConnectorError> {
        let wrong = |field: &str, problem: &str| Err(ConnectorError::config(field, problem));
        for (field, given) in [("consumer", self.consumer.is_some()), ("claimAfterSeconds", self.claim_after_seconds.is_some())] {
            if given && self.group.is_none() {
                return wrong(field, "goes with a group only");
            }
        }
        for (field, name) in [("group", &self.group), ("consumer", &self.consumer)] {
            if name.as_ref().is_some_and(String::is_empty) {
                return wrong(field, "is empty");
            }
        }
        match self.claim_after_seconds {
            Some(0) if self.consumer.is_none() => {
                wrong("consumer", "is missing: where nothing is taken over, what it was given is found again by its name only")
            }
            Some(seconds) if seconds > CLAIM_AFTER_SECONDS_MAX => wrong("claimAfterSeconds", "a day, 86400 seconds, is the most"),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum RedisStart {
    #[default]
    Latest,
    Earliest,
}

impl SourceConfig for RedisIngest {
    fn settings(&self) -> Json {
        crate::settings("RedisIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.key.is_empty() {
            return Err(ConnectorError::config("key", "is empty"));
        }
        self.check_group()?;
        self.access.login(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("stream {} of {}", self.key, login.place);
        if let Some(group) = &self.group {
            return Ok(Member::new(self, group, login, from).open(&context.runtime, &place));
        }
        let from = match (from.filter(|position| !position.0.is_empty()), self.start_from) {
            (Some(position), _) => Some(position.0.clone()),
            (None, RedisStart::Earliest) => Some(b"0-0".to_vec()),
            (None, RedisStart::Latest) => None,
        };
        Ok(Box::new(Entries {
            trouble: Trouble::new(&place),
            place,
            login,
            key: self.key.clone().into_bytes(),
            field: self.field.clone().map(String::into_bytes),
            runtime: context.runtime.clone(),
            connection: None,
            asked: None,
            received: from.clone(),
            out: from.unwrap_or_default(),
            waiting: VecDeque::new(),
            count: Count::new(),
            again: Instant::now(),
            pause: PAUSE_MIN,
        }))
    }
}

struct Entries {
    place: String,
    login: Login,
    key: Vec<u8>,
    field: Option<Vec<u8>>,
    runtime: Handle,
    connection: Option<Connection>,
    /// When the request was sent that is under way.
    asked: Option<Instant>,
    /// The id of the last entry that is here; none until it is known where the stream begins.
    received: Option<Vec<u8>>,
    /// Of the last that was handed on.
    out: Vec<u8>,
    waiting: VecDeque<Entry>,
    count: Count,
    trouble: Trouble,
    again: Instant,
    pause: Duration,
}

impl Entries {
    /// Receives entries, if any come until then.
    async fn receive(&mut self, deadline: Instant) -> Result<(), Refused> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.login.connect().await?,
        };
        let after = match &self.received {
            Some(id) => id.clone(),
            None => {
                let newest = newest(connection.ask(&[b"XREVRANGE", &self.key, b"+", b"-", b"COUNT", b"1"]).await?)?;
                self.out.clone_from(&newest);
                self.received.insert(newest).clone()
            }
        };
        let asked = match self.asked {
            Some(asked) => asked,
            None => {
                let (count, wait) = (self.count.get().to_string(), HELD_BACK.as_millis().to_string());
                let mut command = Vec::new();
                let parts: [&[u8]; 8] =
                    [b"XREAD", b"COUNT", count.as_bytes(), b"BLOCK", wait.as_bytes(), b"STREAMS", &self.key, &after];
                put_command(&parts, &mut command);
                connection.writer.send(&command).await?;
                *self.asked.insert(Instant::now())
            }
        };
        match connection.answer(deadline.into()).await? {
            Some(reply) => {
                self.asked = None;
                let entries = of_stream(refused(reply)?, self.field.as_deref())?;
                self.count.learn(&entries);
                if let Some(last) = entries.last() {
                    self.received = Some(last.id.clone());
                }
                self.waiting.extend(entries);
            }
            None if asked.elapsed() > ANSWER_TIME_MAX => {
                return Err(Refused::Passing("the server does not answer any more".to_owned()));
            }
            None => {}
        }
        self.trouble.clear();
        self.pause = PAUSE_MIN;
        self.connection = Some(connection);
        Ok(())
    }

    fn hand_on(&mut self, limits: &Limits, batch: &mut Frames) {
        while !batch.full(limits)
            && let Some(entry) = self.waiting.pop_front()
        {
            if let Some(record) = &entry.record {
                batch.push(record);
            }
            self.out = entry.id;
        }
        batch.position.0.clone_from(&self.out);
    }
}

impl Source for Entries {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        if self.waiting.is_empty() {
            let left = self.again.saturating_duration_since(Instant::now());
            if left > Duration::ZERO {
                std::thread::sleep(left.min(limits.wait_max));
                self.hand_on(limits, batch);
                return Ok(Progress::More);
            }
            let runtime = self.runtime.clone();
            match runtime.block_on(self.receive(deadline)) {
                Ok(()) => {}
                Err(Refused::Passing(problem)) => {
                    (self.connection, self.asked) = (None, None);
                    self.trouble.note(&problem);
                    self.again = Instant::now() + jittered(self.pause);
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                }
                Err(refused) => return Err(refused.error(&self.place)),
            }
        }
        self.hand_on(limits, batch);
        Ok(Progress::More)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get()
    }
}

/// The id of the newest entry, or what is before all of them.
fn newest(reply: Reply) -> Result<Vec<u8>, Refused> {
    let Reply::List(entries) = refused(reply)? else {
        return Err(Refused::Passing("the answer is not that of XREVRANGE".to_owned()));
    };
    match entries.into_iter().next() {
        None => Ok(b"0-0".to_vec()),
        Some(Reply::List(parts)) => match parts.into_iter().next() {
            Some(Reply::Bytes(id)) => Ok(id),
            _ => Err(Refused::Passing("an entry has no id".to_owned())),
        },
        Some(_) => Err(Refused::Passing("an entry has no id".to_owned())),
    }
}
