//! Reading a stream of Redis as one of a group: the server keeps what each of them was given until it is acknowledged.
//!
//!     XREADGROUP, XAUTOCLAIM ─> entries ─> Feed ─> graph ─ durable ─> XACK
//!
//! One connection, and one question at a time: nothing is acknowledged while an answer is under way, so that an entry in it that
//! has been handed on is known, and what was not heard to be acknowledged is said again on the next connection before anything is
//! read there. Across a kill it is at least once. The stored position cannot tell what of the pending entries had its effect:
//! those that were taken over from others have smaller ids than others before them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use weir_model::Position;

use super::access::Login;
use super::connection::{Connection, Reply, put_command};
use super::entry::{Count, Entry, listed, of_stream, refused};
use super::ingest::{RedisIngest, RedisStart};
use crate::ends::{ANSWER_TIME_MAX, Refused};
use crate::error::ConnectorError;
use crate::feed::{Acknowledge, Feed, Inlet, Pauses};
use crate::names::of_this_machine;
use crate::source::Source;

/// Entries that have been handed on and are not acknowledged; then no more are asked for.
const UNACKNOWLEDGED_MAX: usize = 2_000;

/// Ids in one question, at most.
const IDS_MAX: usize = 1_000;

/// The server holds back an answer this long while there is nothing new.
const HELD_BACK: Duration = Duration::from_secs(5);

/// As `HELD_BACK`, while there is something to be acknowledged soon: meanwhile nothing else can be said on the connection.
const HELD_BACK_FOR_ACKNOWLEDGEMENTS: Duration = Duration::from_millis(100);

/// What came for a connection that is gone, and whose last question the server was still holding back, is read when that is over
/// for sure.
const READ_AGAIN: Duration = HELD_BACK.saturating_add(Duration::from_secs(1));

/// Where others are waited for no other time.
const CLAIM_AFTER_SECONDS: u64 = 60;

/// The pause between two looks for what others have left, at least.
const CLAIM_PAUSE_MIN: Duration = Duration::from_millis(500);
/// The pause between two looks for what others have left, at most.
const CLAIM_PAUSE_MAX: Duration = Duration::from_secs(30);
/// The pause between the answers of one look.
const CLAIM_GOES_ON: Duration = Duration::from_millis(10);

/// It is said at least this often that entries are worked on, for others who look.
const ALIVE_PAUSE_MAX: Duration = Duration::from_secs(20);

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// What is given back has been lying for this long, in milliseconds: longer than others wait.
const GIVEN_BACK_IDLE: &[u8] = b"172800000";

/// Before the id of every entry.
const OLDEST: &[u8] = b"0-0";

/// What the feed tells the task.
#[derive(Default)]
struct Told {
    /// Everything up to this record is.
    durable: AtomicU64,
    ended: AtomicBool,
    changed: Notify,
}

impl Acknowledge for Told {
    fn durable(&self, number: u64) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl Told {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    async fn ended(&self) {
        while !self.has_ended() {
            self.changed.notified().await;
        }
    }
}

/// One of a group.
pub struct Member {
    login: Login,
    key: Vec<u8>,
    field: Option<Vec<u8>>,
    group: Vec<u8>,
    name: String,
    /// Where the group begins if it is not there.
    begin: &'static [u8],
    claim_after: Option<Duration>,
    told: Arc<Told>,
    /// So far.
    records: u64,
    /// Entries handed on: the number of the record, and the id.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Ids of the entries that are to be acknowledged.
    done: Vec<Vec<u8>>,
    count: Count,
    due: Due,
}

/// What there is to do besides reading what is new.
struct Due {
    /// Behind this id what was given to this member before is read again; none when all of it has been.
    read_behind: Option<Vec<u8>>,
    /// When that begins anew.
    read_at: Option<Instant>,
    /// When and from which id on the next look goes for what others have left.
    claim_at: Option<Instant>,
    claim_from: Vec<u8>,
    alive_at: Instant,
}

impl Due {
    fn on_a_new_connection(claims: bool) -> Due {
        let now = Instant::now();
        Due {
            read_behind: Some(OLDEST.to_vec()),
            read_at: Some(now + READ_AGAIN),
            claim_at: claims.then_some(now),
            claim_from: OLDEST.to_vec(),
            alive_at: now,
        }
    }

    /// How long nothing of it is to be done.
    fn wait(&self) -> Duration {
        let next = [self.read_at, self.claim_at].into_iter().flatten().fold(self.alive_at, Instant::min);
        next.saturating_duration_since(Instant::now())
    }
}

/// A position as people are shown it: the number of the record, which counts since the stream was started last, and who read it.
pub fn shown_position(position: &[u8]) -> Option<Json> {
    let (number, name) = position.split_first_chunk::<8>()?;
    let consumer = std::str::from_utf8(name).ok()?;
    Some(json!({"message": u64::from_le_bytes(*number), "consumer": consumer}))
}

impl Member {
    pub fn new(definition: &RedisIngest, group: &str, login: Login, from: Option<&Position>) -> Member {
        let begun = from.filter(|position| !position.0.is_empty());
        let known = begun.and_then(|position| String::from_utf8(position.0.get(8..)?.to_vec()).ok());
        let claim_after = Duration::from_secs(definition.claim_after_seconds.unwrap_or(CLAIM_AFTER_SECONDS));
        Member {
            login,
            key: definition.key.clone().into_bytes(),
            field: definition.field.clone().map(String::into_bytes),
            group: group.as_bytes().to_vec(),
            name: definition.consumer.clone().or(known).unwrap_or_else(of_this_machine),
            begin: if begun.is_none() && definition.start_from == RedisStart::Latest { b"$" } else { b"0" },
            claim_after: Some(claim_after).filter(|after| !after.is_zero()),
            told: Arc::default(),
            records: 0,
            waiting: VecDeque::new(),
            done: Vec::new(),
            count: Count::new(),
            due: Due::on_a_new_connection(false),
        }
    }

    pub fn open(self, runtime: &Handle, place: &str) -> Box<dyn Source> {
        let (told, shown) = (self.told.clone(), place.to_owned());
        let feed = Feed::start(runtime, place, Vec::new(), |inlet| async move {
            // A task of its own, since it has something to say when the feed has ended.
            match tokio::spawn(self.read(inlet)).await {
                Ok(ended) => ended,
                Err(error) => Err(ConnectorError::passing(&shown, format!("the task that receives has ended: {error}"))),
            }
        });
        Box::new(feed.acknowledged_by(told))
    }

    async fn read(mut self, inlet: Inlet) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        while !self.told.has_ended() {
            if let Err(refused) = self.connection(&inlet).await {
                inlet.again(refused, &mut pauses).await?;
            }
        }
        Ok(())
    }

    /// Reads from one connection until it ends, or the stream does.
    async fn connection(&mut self, inlet: &Inlet) -> Result<(), Refused> {
        let mut connection = self.login.connect().await?;
        self.join(&mut connection).await?;
        // The name stays, also when nothing comes before a restart.
        inlet.stands(self.position(self.records)).await;
        self.due = Due::on_a_new_connection(self.claim_after.is_some());
        while !self.told.has_ended() {
            self.tend(&mut connection).await?;
            let entries = self.next(&mut connection).await?;
            inlet.connected();
            self.hand_on(&mut connection, inlet, entries).await?;
        }
        // What is not heard is taken over by others after their time, or read again by this one.
        let _ = timeout(END_TIME_MAX, self.leave(&mut connection)).await;
        Ok(())
    }

    /// Makes the group where there is none.
    async fn join(&mut self, connection: &mut Connection) -> Result<(), Refused> {
        let create: [&[u8]; 6] = [b"XGROUP", b"CREATE", &self.key, &self.group, self.begin, b"MKSTREAM"];
        match connection.ask(&create).await? {
            Reply::Error(error) if error.starts_with("BUSYGROUP") => {}
            made => {
                refused(made)?;
                self.forget();
            }
        }
        // One that is gone later is made anew, with all that is there: nobody can tell what of that the others had read.
        self.begin = b"0";
        Ok(())
    }

    /// A group that was made anew, perhaps of another stream of the name, knows nothing of these.
    fn forget(&mut self) {
        self.waiting.clear();
        self.done.clear();
    }

    /// Acknowledges what is durable, and says of the rest that it is worked on.
    async fn tend(&mut self, connection: &mut Connection) -> Result<(), Refused> {
        let durable = self.told.durable.load(Ordering::Relaxed);
        while let Some((_, id)) = self.waiting.pop_front_if(|(record, _)| *record <= durable) {
            self.done.push(id);
        }
        while !self.done.is_empty() {
            let said = self.done.len().min(IDS_MAX);
            let mut acknowledge: Vec<&[u8]> = vec![b"XACK", &self.key, &self.group];
            acknowledge.extend(self.done[..said].iter().map(Vec::as_slice));
            let answer = connection.ask(&acknowledge).await?;
            self.answered(answer)?;
            self.done.drain(..said);
        }
        if self.due.alive_at <= Instant::now() {
            self.keep(connection, &[b"JUSTID"]).await?;
            self.due.alive_at =
                Instant::now() + self.claim_after.map_or(ALIVE_PAUSE_MAX, |after| (after / 3).min(ALIVE_PAUSE_MAX));
        }
        Ok(())
    }

    /// What waits is this member's, from now on.
    async fn keep(&mut self, connection: &mut Connection, more: &[&[u8]]) -> Result<(), Refused> {
        let waiting: Vec<Vec<u8>> = self.waiting.iter().map(|(_, id)| id.clone()).collect();
        for ids in waiting.chunks(IDS_MAX) {
            let mut keep: Vec<&[u8]> = vec![b"XCLAIM", &self.key, &self.group, self.name.as_bytes(), b"0"];
            keep.extend(ids.iter().map(Vec::as_slice));
            keep.extend(more);
            let answer = connection.ask(&keep).await?;
            self.answered(answer)?;
        }
        Ok(())
    }

    /// What is left goes to others as soon as they look, or to this one when it is back.
    async fn leave(&mut self, connection: &mut Connection) -> Result<(), Refused> {
        self.tend(connection).await?;
        self.keep(connection, &[b"IDLE", GIVEN_BACK_IDLE, b"JUSTID"]).await
    }

    /// The next entries that are not under way yet, if any come.
    async fn next(&mut self, connection: &mut Connection) -> Result<Vec<Entry>, Refused> {
        let room = UNACKNOWLEDGED_MAX.saturating_sub(self.waiting.len());
        if room == 0 {
            let _ = timeout_at(self.due.alive_at, self.told.changed.notified()).await;
            return Ok(Vec::new());
        }
        let now = Instant::now();
        if self.due.read_at.take_if(|at| *at <= now).is_some() {
            self.due.read_behind = Some(OLDEST.to_vec());
        }
        let count = self.count.get().min(room).to_string();
        let entries = match (self.due.read_behind.take(), self.claim_after) {
            (Some(behind), _) => self.given_before(connection, &count, &behind).await,
            (None, Some(after)) if self.due.claim_at.is_some_and(|at| at <= now) => self.claim(connection, &count, after).await,
            _ => self.new_ones(connection, &count).await,
        };
        if entries.is_err() {
            // What was in it is this member's now, and what the next connection begins with.
            self.count.cut();
        }
        entries
    }

    /// What this member was given and has not acknowledged, in an earlier life or on a connection that ended before it was here.
    async fn given_before(&mut self, connection: &mut Connection, count: &str, behind: &[u8]) -> Result<Vec<Entry>, Refused> {
        let again: [&[u8]; 9] = [
            b"XREADGROUP",
            b"GROUP",
            &self.group,
            self.name.as_bytes(),
            b"COUNT",
            count.as_bytes(),
            b"STREAMS",
            &self.key,
            behind,
        ];
        let answer = connection.ask(&again).await?;
        let entries = of_stream(self.answered(answer)?, self.field.as_deref())?;
        self.count.learn(&entries);
        self.due.read_behind = entries.last().map(|entry| entry.id.clone());
        Ok(self.not_under_way(entries))
    }

    /// Some of what others have left.
    async fn claim(&mut self, connection: &mut Connection, count: &str, after: Duration) -> Result<Vec<Entry>, Refused> {
        let idle = after.as_millis().to_string();
        let (name, from) = (self.name.as_bytes(), &self.due.claim_from);
        let claim: [&[u8]; 8] = [b"XAUTOCLAIM", &self.key, &self.group, name, idle.as_bytes(), from, b"COUNT", count.as_bytes()];
        let answer = connection.ask(&claim).await?;
        let odd = || Refused::Passing("the answer is not that of XAUTOCLAIM".to_owned());
        let Reply::List(parts) = self.answered(answer)? else { return Err(odd()) };
        let mut parts = parts.into_iter();
        let (Some(Reply::Bytes(next)), Some(entries)) = (parts.next(), parts.next()) else { return Err(odd()) };
        let pause = if next == OLDEST { (after / 2).clamp(CLAIM_PAUSE_MIN, CLAIM_PAUSE_MAX) } else { CLAIM_GOES_ON };
        self.due.claim_at = Some(Instant::now() + pause);
        self.due.claim_from = next;
        let entries = listed(entries, self.field.as_deref())?;
        self.count.learn(&entries);
        Ok(self.not_under_way(entries))
    }

    /// What nobody was given before.
    async fn new_ones(&mut self, connection: &mut Connection, count: &str) -> Result<Vec<Entry>, Refused> {
        let nothing_waits = self.waiting.is_empty();
        let held_back = if nothing_waits { HELD_BACK } else { HELD_BACK_FOR_ACKNOWLEDGEMENTS };
        let held_back = held_back.min(self.due.wait()).max(Duration::from_millis(1));
        let wait = held_back.as_millis().to_string();
        let (group, name, count) = (&self.group, self.name.as_bytes(), count.as_bytes());
        let mut words = Vec::new();
        let read: [&[u8]; 11] =
            [b"XREADGROUP", b"GROUP", group, name, b"COUNT", count, b"BLOCK", wait.as_bytes(), b"STREAMS", &self.key, b">"];
        put_command(&read, &mut words);
        connection.writer.send(&words).await?;
        let answer = tokio::select! {
            answer = connection.awaited(held_back + ANSWER_TIME_MAX) => answer?,
            // Nothing is left to be said on this connection.
            () = self.told.ended(), if nothing_waits => return Ok(Vec::new()),
        };
        let entries = of_stream(self.answered(answer)?, self.field.as_deref())?;
        self.count.learn(&entries);
        Ok(entries)
    }

    fn not_under_way(&self, mut entries: Vec<Entry>) -> Vec<Entry> {
        if !entries.is_empty() {
            let under_way: HashSet<&Vec<u8>> = self.waiting.iter().map(|(_, id)| id).collect();
            entries.retain(|entry| !under_way.contains(&entry.id));
        }
        entries
    }

    /// Hands them on as there is room, and says meanwhile what is to be said.
    async fn hand_on(&mut self, connection: &mut Connection, inlet: &Inlet, entries: Vec<Entry>) -> Result<(), Refused> {
        let mut records = Vec::new();
        for Entry { id, record, .. } in entries {
            match record {
                Some(record) => {
                    self.records += 1;
                    self.waiting.push_back((self.records, id));
                    records.push((record, self.position(self.records)));
                }
                None => self.done.push(id),
            }
        }
        let mut tended = Ok(());
        for (record, position) in records {
            let mut handing = std::pin::pin!(inlet.record(record, position));
            loop {
                tokio::select! {
                    () = &mut handing => break,
                    // What the server was asked for is handed on also when the connection has ended.
                    _ = timeout_at(self.due.alive_at, self.told.changed.notified()), if tended.is_ok() => {
                        tended = self.tend(connection).await;
                    }
                }
            }
        }
        tended
    }

    /// The number of a record, and behind it the name.
    fn position(&self, record: u64) -> Vec<u8> {
        [&record.to_le_bytes(), self.name.as_bytes()].concat()
    }

    fn answered(&mut self, reply: Reply) -> Result<Reply, Refused> {
        let Reply::Error(error) = &reply else { return Ok(reply) };
        match error.split(' ').next() {
            Some("NOGROUP" | "UNBLOCKED") => {
                self.forget();
                Err(Refused::Passing(format!("the stream or its group was deleted, and is made anew: {error}")))
            }
            Some("ERR") if error.contains("unknown command") && error.to_ascii_uppercase().contains("XAUTOCLAIM") => {
                Err(Refused::ForGood(format!("{error}; where nothing is taken over (claimAfterSeconds: 0) it is not needed")))
            }
            _ => refused(reply),
        }
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
