//! The definition of a stream from Redis, and what reads it without a group: entries of one key, behind the position.
//!
//! The position is the id of the last entry. One request is always under way, so that an entry is here as soon as it is there;
//! the server holds it back until there is one. Entries that did not fit into a batch wait for the next.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use tokio::time::timeout_at;
use weir_model::Position;

use super::access::{Login, RedisAccess};
use super::connection::{Connection, Reply, put_command};
use super::entry::{Count, Entry, of_stream, refused};
use super::group::{self, Member};
use crate::config;
use crate::delivery::jittered;
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::feed::Trouble;
use crate::formats::StreamFormat;
use crate::frames::{Frames, Limits, Progress};
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// The server holds back an answer this long while there is nothing new.
const HELD_BACK: Duration = Duration::from_secs(5);

/// After a silence of this length no answer will come.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Others of a group are waited for no longer.
const CLAIM_AFTER_SECONDS_MAX: u64 = 86_400;

/// The pause between two tries to connect, at first.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The pause between two tries to connect, at most.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Reads the entries of a Redis stream.
///
/// Each entry has its effect once; with a `group`, at least once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedisIngest {
    /// How an entry is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: RedisAccess,
    /// The key of the Redis stream.
    pub key: String,
    /// The field of an entry that is the record; entries without it are skipped. When not given, the record is an object of all
    /// fields, with strings as values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Where the stream begins, or where a new group begins. `Latest` when not given.
    #[serde(default)]
    pub start_from: RedisStart,
    /// A consumer group at the server, so that several readers can share the entries. It is created if it does not exist. Without
    /// it weir reads all entries and keeps track itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The name of this stream within the group. It must be unique. When not given, one is generated that stays the same for the
    /// life of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Entries that another consumer of the group has not acknowledged for this long are taken over: whole seconds, at most one
    /// day (86400 s). One minute when not given. With 0 none are, and `consumer` has to be given.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 86400))]
    pub claim_after_seconds: Option<u64>,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most entries to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each record before `format` reads it, in this order. None when not given. Only
    /// together with `field`.
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

/// Where the reading of a Redis stream begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum RedisStart {
    /// With entries that are added from now on.
    #[default]
    Latest,
    /// With the oldest entry that is still there.
    Earliest,
}

impl SourceConfig for RedisIngest {
    fn settings(&self) -> Json {
        crate::settings("RedisIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        self.group.is_some()
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.key.is_empty() {
            return Err(ConnectorError::config("key", "is empty"));
        }
        self.check_group()?;
        if self.field.is_none() && !self.record_decoders.is_empty() {
            let problem = "goes with a field only: without one the record is JSON already";
            return Err(ConnectorError::config("recordDecoders", problem));
        }
        self.access.check(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        match &self.group {
            Some(_) => group::shown_position(position),
            None => std::str::from_utf8(position).ok().map(|id| json!({"id": id})),
        }
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
            connecting: None,
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

/// Gives a connection, and where the stream begins if that is asked.
type Connecting = Pin<Box<dyn Future<Output = Result<(Connection, Option<Vec<u8>>), Refused>> + Send>>;

struct Entries {
    place: String,
    login: Login,
    key: Vec<u8>,
    field: Option<Vec<u8>>,
    runtime: Handle,
    /// What is under way until there is one, also between two calls.
    connecting: Option<Connecting>,
    connection: Option<Connection>,
    /// When the request was sent that is under way.
    asked: Option<Instant>,
    /// The id of the last entry that is here; none until it is known where the stream begins.
    received: Option<Vec<u8>>,
    /// The id of the last entry that was handed on.
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
            None => match self.connect(deadline).await? {
                Some(connection) => connection,
                None => return Ok(()),
            },
        };
        let asked = match self.asked {
            Some(asked) => asked,
            None => {
                let (count, wait) = (self.count.get().to_string(), HELD_BACK.as_millis().to_string());
                let after = self.received.as_deref().unwrap_or(b"0-0");
                let mut command = Vec::new();
                let parts: [&[u8]; 8] =
                    [b"XREAD", b"COUNT", count.as_bytes(), b"BLOCK", wait.as_bytes(), b"STREAMS", &self.key, after];
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
                // Not before: a server that lets us in may still not answer.
                self.trouble.clear();
                self.pause = PAUSE_MIN;
            }
            None if asked.elapsed() > SILENCE_MAX => connection.incoming.heard_within(SILENCE_MAX)?,
            None => {}
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// A connection, if there is one until then; with it, it is known where the stream begins.
    async fn connect(&mut self, deadline: Instant) -> Result<Option<Connection>, Refused> {
        let (login, key, asks) = (&self.login, &self.key, self.received.is_none());
        let connecting = self.connecting.get_or_insert_with(|| Box::pin(connected(login.clone(), key.clone(), asks)));
        let Ok(made) = timeout_at(deadline.into(), connecting.as_mut()).await else { return Ok(None) };
        self.connecting = None;
        let (connection, newest) = made?;
        if let Some(newest) = newest {
            self.out.clone_from(&newest);
            self.received = Some(newest);
        }
        Ok(Some(connection))
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
                    if self.asked.take().is_some() {
                        self.count.cut();
                    }
                    self.connection = None;
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

/// What `Connecting` gives.
async fn connected(login: Login, key: Vec<u8>, asks: bool) -> Result<(Connection, Option<Vec<u8>>), Refused> {
    let mut connection = login.connect().await?;
    if !asks {
        return Ok((connection, None));
    }
    let newest = newest(connection.ask(&[b"XREVRANGE", &key, b"+", b"-", b"COUNT", b"1"]).await?)?;
    Ok((connection, Some(newest)))
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::conformance::anything;
    use crate::parse_source_v1;

    #[test]
    fn a_server_that_says_nothing_holds_nobody_up_and_what_it_says_late_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let definition = json!({"type": "RedisIngest", "url": url, "password": "x", "key": "k", "field": "f"});
        let mut stream = parse_source_v1(&definition).unwrap().open(&anything(), None).unwrap();
        let (limits, mut batch) = (Limits { wait_max: Duration::from_millis(50), ..Limits::default() }, Frames::default());
        let mut next = || {
            let begun = Instant::now();
            stream.next(&limits, &mut batch).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
            assert_eq!(stream.trouble(), None);
            (!batch.is_empty()).then(|| batch.get(0).bytes.to_vec())
        };
        assert_eq!(next(), None);
        let (mut server, _) = listener.accept().unwrap();
        let entries = "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
        // To the login, to where the stream begins, and to what is new.
        for answer in ["+OK\r\n", "*0\r\n", entries] {
            for _ in 0..3 {
                assert_eq!(next(), None);
            }
            server.write_all(answer.as_bytes()).unwrap();
        }
        let begun = Instant::now();
        let record = std::iter::repeat_with(next).find(|record| record.is_some() || begun.elapsed() > Duration::from_secs(60));
        assert_eq!(record.flatten(), Some(b"v".to_vec()));
    }

    #[test]
    fn an_answer_that_is_cut_is_asked_for_with_fewer_entries() {
        for group in [None, Some("readers")] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            let definition = json!({"type": "RedisIngest", "url": url, "key": "k", "startFrom": "Earliest", "group": group});
            let mut stream = parse_source_v1(&definition).unwrap().open(&anything(), None).unwrap();
            let server = std::thread::spawn(move || {
                let connection = || {
                    let (mut wire, _) = listener.accept().unwrap();
                    let mut asked = [0; 512];
                    loop {
                        let length = wire.read(&mut asked).unwrap();
                        assert!(length > 0);
                        let words = String::from_utf8_lossy(&asked[..length]);
                        if let Some((_, count)) = words.split_once("COUNT\r\n") {
                            // The beginning of an answer, and no more.
                            wire.write_all(b"*1\r\n*2\r\n$1\r\n").unwrap();
                            return count.lines().nth(1).unwrap().to_owned();
                        }
                        wire.write_all(b"+OK\r\n").unwrap();
                    }
                };
                [connection(), connection(), connection()]
            });
            while !server.is_finished() {
                stream.next(&Limits::default(), &mut Frames::default()).unwrap();
            }
            assert_eq!(server.join().unwrap(), ["100", "25", "6"], "{group:?}");
        }
    }
}
