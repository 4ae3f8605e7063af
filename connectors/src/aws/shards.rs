//! The shards of a stream of Kinesis, read side by side.
//!
//!     list ─> a reader for each shard whose parents are read ─ Event ─> Reading ─> Frames
//!
//! A shard that was split or merged ends; its children are read when all of it has been handed on, so that what has the same
//! partition key stays in order. The position holds where each shard stands, so a restart neither loses nor repeats.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_model::Position;

use super::access::Access;
use super::iterator::IteratorType;
pub use super::reader::ANSWERS_MAX;
use super::reader::{Lister, Pace};
use crate::error::{ConnectorError, Fault};
use crate::feed::Trouble;
use crate::frames::{Frames, Limits, Progress};
use crate::source::Source;

/// How long an end is waited for, of a task that has something to give back.
const END_TIME_MAX: Duration = Duration::from_secs(4);

/// What is read.
#[derive(Clone, Debug)]
pub struct Stream {
    pub name: String,
    /// None is all.
    pub shard_ids: Option<BTreeSet<String>>,
    pub begin: IteratorType,
    /// Failures in a row that are nobody's business.
    pub retries: u32,
    pub pace: Pace,
}

/// Where a stream stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    /// When it began to read, in milliseconds since 1970: what `Latest` means in later lives.
    pub from: u64,
    pub shards: BTreeMap<String, Place>,
    /// Who it is for others that read the same stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Records handed out, where that is asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taken: u64,
    /// The stream began in this life.
    #[serde(skip)]
    pub fresh: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Place {
    /// It was there when the stream began; nothing has been read.
    Begun,
    After(String),
    /// To its end.
    Read,
}

impl Places {
    pub fn read(place: &str, position: Option<&Position>) -> Result<Places, ConnectorError> {
        let Some(position) = position else {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            return Ok(Places { from: now.as_millis() as u64, fresh: true, ..Places::default() });
        };
        serde_json::from_slice(&position.0).map_err(|_| ConnectorError::Position {
            place: place.to_owned(),
            problem: "the stored position is not one of Kinesis; delete the stream and create it anew".to_owned(),
        })
    }

    /// A position as people are shown it: by shard, the sequence number of the last record.
    pub fn shown(position: &[u8]) -> Option<Json> {
        let places: Places = serde_json::from_slice(position).ok()?;
        let shown = places.shards.into_iter().map(|(shard, place)| {
            let place = match place {
                Place::Begun => "nothing read".to_owned(),
                Place::After(number) => number,
                Place::Read => "read to its end".to_owned(),
            };
            (shard, Json::String(place))
        });
        Some(Json::Object(shown.collect()))
    }

    fn write(&self, position: &mut Position) {
        position.0.clear();
        // Writing into memory cannot fail, and the keys are text.
        let _ = serde_json::to_writer(&mut position.0, self);
    }
}

/// What readers tell. The order is that of the effects.
pub enum Event {
    /// The shards that were there at the beginning, and how much of each is left out.
    Begun(BTreeMap<String, Place>),
    Records(Answer),
    Ended(String),
    /// Nobody can read them any more.
    Forgotten(Vec<String>),
}

pub struct Record {
    pub number: String,
    pub key: String,
    pub data: Vec<u8>,
}

pub struct Answer {
    pub shard: Arc<str>,
    pub records: VecDeque<Record>,
    pub _room: OwnedSemaphorePermit,
}

/// The end of the source.
pub struct Reading {
    place: String,
    runtime: Handle,
    events: Receiver<Event>,
    /// Not all of it has been handed out.
    current: Option<Answer>,
    places: Places,
    task: JoinHandle<Result<(), ConnectorError>>,
    trouble: Trouble,
    /// Who is told what is durable. None: nobody else reads the stream.
    durable: Option<watch::Sender<Places>>,
}

impl Reading {
    pub fn start(runtime: &Handle, place: &str, access: Access, stream: Stream, places: Places) -> Reading {
        let (sender, events) = channel(2 * ANSWERS_MAX);
        let trouble = Trouble::new(place);
        let lister = Lister::new(place, stream, places.clone(), sender, trouble.clone());
        let task = runtime.spawn(lister.run(access));
        Reading { place: place.to_owned(), runtime: runtime.clone(), events, current: None, places, task, trouble, durable: None }
    }

    /// As `start`, for a stream of which others have shards, too. The task is told what is durable, and is to end when nobody
    /// tells it any more.
    pub fn share<F>(
        runtime: &Handle,
        place: &str,
        places: Places,
        run: impl FnOnce(Sender<Event>, watch::Receiver<Places>, Trouble) -> F,
    ) -> Reading
    where
        F: Future<Output = Result<(), ConnectorError>> + Send + 'static,
    {
        let (sender, events) = channel(2 * ANSWERS_MAX);
        let trouble = Trouble::new(place);
        // What has been read in earlier lives is durable.
        let (durable, told) = watch::channel(places.clone());
        let task = runtime.spawn(run(sender, told, trouble.clone()));
        let (place, runtime, durable) = (place.to_owned(), runtime.clone(), Some(durable));
        Reading { place, runtime, events, current: None, places, task, trouble, durable }
    }

    fn take(&mut self, event: Event) {
        let shards = &mut self.places.shards;
        match event {
            // What is known of a shard is further.
            Event::Begun(begun) => begun.into_iter().for_each(|(shard, place)| {
                shards.entry(shard).or_insert(place);
            }),
            Event::Records(answer) => self.current = Some(answer),
            Event::Ended(shard) => {
                shards.insert(shard, Place::Read);
            }
            Event::Forgotten(gone) => gone.iter().for_each(|shard| {
                shards.remove(shard);
            }),
        }
    }

    /// Hands out of the answer that is there.
    fn hand_out(&mut self, limits: &Limits, batch: &mut Frames) {
        let Some(answer) = &mut self.current else { return };
        let mut last = None;
        while !batch.full(limits) {
            let Some(Record { number, key, data }) = answer.records.pop_front() else { break };
            batch.push(&data);
            batch.tell(|origin| {
                origin.text("sequenceNumber", &number);
                origin.text("partitionKey", &key);
                origin.text("shardId", &answer.shard);
            });
            self.places.taken += u64::from(self.durable.is_some());
            last = Some(number);
        }
        if let Some(number) = last {
            self.places.shards.insert(answer.shard.to_string(), Place::After(number));
        }
        if answer.records.is_empty() {
            self.current = None;
        }
    }

    fn end(&mut self) -> Result<Progress, ConnectorError> {
        match self.runtime.block_on(&mut self.task) {
            Ok(ended) => ended.map(|()| Progress::Finished),
            Err(error) => Err(ConnectorError::World {
                place: self.place.clone(),
                problem: format!("the task that reads has ended: {error}"),
                fault: Fault::World,
                retryable: false,
                source: None,
            }),
        }
    }
}

impl Source for Reading {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        let mut ended = false;
        loop {
            self.hand_out(limits, batch);
            if batch.full(limits) {
                break;
            }
            let wait = if batch.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            let (runtime, events) = (&self.runtime, &mut self.events);
            match runtime.block_on(async { tokio::time::timeout(wait, events.recv()).await }) {
                Ok(Some(event)) => self.take(event),
                Ok(None) => {
                    ended = true;
                    break;
                }
                Err(_) => break,
            }
        }
        self.places.write(&mut batch.position);
        // What came before the end has been handed out by then: the task is asked once nothing is left.
        if ended && batch.is_empty() { self.end() } else { Ok(Progress::More) }
    }

    fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        if let Some(told) = &self.durable
            && !position.0.is_empty()
        {
            told.send_replace(Places::read(&self.place, Some(position))?);
        }
        Ok(())
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.get()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if self.durable.take().is_some() && !self.task.is_finished() {
            // It gives its shards back, so that others have them at once.
            let (runtime, task) = (&self.runtime, &mut self.task);
            let _ = runtime.block_on(async { tokio::time::timeout(END_TIME_MAX, task).await });
        }
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn the_beginning_of_a_shard_that_is_read_changes_nothing() {
        let mut places = Places::default();
        places.shards.insert("a".to_owned(), Place::After("7".to_owned()));
        let begun = |shard: &str| Event::Begun(BTreeMap::from([(shard.to_owned(), Place::Begun)]));
        let runtime = runtime();
        let mut reading = Reading::share(runtime.handle(), "here", places, |_, _, _| async { Ok(()) });
        reading.take(begun("a"));
        reading.take(begun("b"));
        let expected = [("a".to_owned(), Place::After("7".to_owned())), ("b".to_owned(), Place::Begun)];
        assert_eq!(reading.places.shards, BTreeMap::from(expected));
    }

    #[test]
    fn a_position_comes_back_and_damage_is_found() {
        let mut places = Places::read("k", None).unwrap();
        places.shards.insert("a".to_owned(), Place::After("4960".to_owned()));
        places.shards.insert("b".to_owned(), Place::Begun);
        places.shards.insert("c".to_owned(), Place::Read);
        let mut position = Position::default();
        places.write(&mut position);
        assert_eq!(Places::read("k", Some(&position)).unwrap(), Places { fresh: false, ..places.clone() });
        for end in 0..position.0.len() {
            assert!(Places::read("k", Some(&Position(position.0[..end].to_vec()))).is_err());
        }
    }
}
