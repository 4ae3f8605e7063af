//! The definition of a stream from Redis, and what reads it: entries of one key, behind the position.
//!
//! The position is the id of the last entry. One request is always under way, so that an entry is here as soon as it is there; the server holds it
//! back until there is one. Entries that did not fit into a batch wait for the next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map as JsonMap, Value as Json};
use tokio::runtime::Handle;
use weir_model::Position;

use super::access::{Login, RedisAccess};
use super::connection::{Connection, Reply, put_command};
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

/// Bytes of one answer, about.
const ANSWER_BYTES: usize = 4 << 20;

/// Entries asked for at once, at first and at most.
const COUNT_FIRST: usize = 100;
const COUNT_MAX: usize = 5_000;

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
    /// Where the stream begins: with what comes from now on, or with the oldest entry that is there.
    #[serde(default)]
    pub start_from: RedisStart,
    /// Queries at a time, 16 when not given; 1 keeps the order of the entries.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// Entries a second, at most; all that come when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// What is undone to a record before it is read, in this order; nothing when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
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
        RecordOptions::single(&self.format, &self.record_decoders, self.parallelism, self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.key.is_empty() {
            return Err(ConnectorError::config("key", "is empty"));
        }
        self.access.login(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn open_source(&self, context: &SourceContext, from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("stream {} of {}", self.key, login.place);
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
            count: COUNT_FIRST,
            again: Instant::now(),
            pause: PAUSE_MIN,
        }))
    }
}

struct Entry {
    id: Vec<u8>,
    /// None of one without the field.
    record: Option<Vec<u8>>,
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
    /// Entries to ask for.
    count: usize,
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
                let (count, wait) = (self.count.to_string(), HELD_BACK.as_millis().to_string());
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
                self.take(reply)?;
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

    fn take(&mut self, reply: Reply) -> Result<(), Refused> {
        let odd = || Refused::Passing("the answer is not that of XREAD".to_owned());
        let streams = match refused(reply)? {
            // There was nothing in time.
            Reply::Null => return Ok(()),
            Reply::List(streams) => streams,
            _ => return Err(odd()),
        };
        let Some(Reply::List(stream)) = streams.into_iter().next() else { return Err(odd()) };
        let Some(Reply::List(entries)) = stream.into_iter().nth(1) else { return Err(odd()) };
        let (count, mut bytes) = (entries.len(), 0);
        for entry in entries {
            let Reply::List(parts) = entry else { return Err(odd()) };
            let mut parts = parts.into_iter();
            let (Some(Reply::Bytes(id)), Some(fields)) = (parts.next(), parts.next()) else { return Err(odd()) };
            let fields = match fields {
                Reply::List(fields) => fields,
                // It was deleted meanwhile.
                _ => Vec::new(),
            };
            let record = record(fields, self.field.as_deref());
            bytes += record.as_ref().map_or(0, Vec::len);
            self.received = Some(id.clone());
            self.waiting.push_back(Entry { id, record });
        }
        if let Some(entry_bytes) = bytes.checked_div(count) {
            self.count = (ANSWER_BYTES / entry_bytes.max(1)).clamp(1, COUNT_MAX).min(self.count * 4);
        }
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

/// An error of Redis that stays what it is.
fn refused(reply: Reply) -> Result<Reply, Refused> {
    reply.ok().map_err(|error| match error.split(' ').next() {
        Some("WRONGTYPE") => Refused::ForGood("the key holds something else than a stream".to_owned()),
        Some("MOVED") => Refused::ForGood(format!("{error}: give the server of the cluster that has the key")),
        _ => Refused::Passing(error),
    })
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

fn record(fields: Vec<Reply>, wanted: Option<&[u8]>) -> Option<Vec<u8>> {
    let bytes = |reply: Reply| if let Reply::Bytes(bytes) = reply { bytes } else { Vec::new() };
    let mut fields = fields.into_iter().map(bytes);
    if let Some(wanted) = wanted {
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            if name == wanted {
                return Some(value);
            }
        }
        return None;
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut all = JsonMap::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        all.insert(text(name), text(value).into());
    }
    (!all.is_empty()).then(|| Json::Object(all).to_string().into_bytes())
}
