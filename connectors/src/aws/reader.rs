//! Who reads the shards of a stream of Kinesis: a lister that finds them, and a reader for each.
//!
//! A reader asks for records only when there is room for an answer, so that memory is bounded whatever the number of shards. One
//! that is sent them as they come holds one message until there is room. One that fails holds up no other: it leaves its room to
//! them, and its trouble stays until it can read itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use weir_model::lock::lock;

use super::access::Access;
use super::client::{self, Client, Failed, Service};
use super::events::{Events, Told};
use super::iterator;
use super::shards::{Answer, Event, Place, Places, Record, Stream};
use crate::error::{ConnectorError, Fault};
use crate::feed::{LASTS_MIN, Pauses, Trouble};

pub static KINESIS: Service = Service { name: "kinesis", target: "Kinesis_20131202", content_type: "application/x-amz-json-1.1" };

/// Answers that are under way or wait to be handed on.
pub const ANSWERS_MAX: usize = 8;
/// Records of one answer, at most.
const ANSWER_RECORDS_MAX: u32 = 2_000;
/// Between two requests for one shard: five a second are allowed, to all its readers together.
const ASK_INTERVAL: Duration = Duration::from_millis(250);
const ASK_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// What subscriptions are refused with: another one is there, and what they are to is not.
const IN_USE: &str = "ResourceInUseException";
const GONE: &str = "ResourceNotFoundException";
/// How soon shards are found that are no children of those that are read.
const LIST_INTERVAL: Duration = Duration::from_secs(30);

/// Calls until it works; what cannot is told.
pub async fn call(client: &Client, operation: &str, body: &Json, retries: u32, trouble: &Trouble) -> Result<Json, Failed> {
    let (mut pauses, mut failures) = (Pauses::new(), 0);
    loop {
        match client.call(operation, body).await {
            Ok(answer) => {
                trouble.clear();
                return Ok(answer);
            }
            Err(failed) if failed.retryable => {
                failures += 1;
                if failures > retries {
                    trouble.note(&failed.reason);
                }
            }
            Err(failed) => return Err(failed),
        }
        pauses.wait(Duration::ZERO).await;
    }
}

/// How much is asked for, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub records_max: u32,
    pub interval: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { records_max: ANSWER_RECORDS_MAX, interval: ASK_INTERVAL }
    }
}

impl Pace {
    /// As it is wished for, within what Kinesis allows.
    pub fn of(records_max: Option<u32>, interval: Option<Duration>) -> Pace {
        let usual = Pace::default();
        Pace {
            records_max: records_max.unwrap_or(usual.records_max).clamp(1, ANSWER_RECORDS_MAX),
            interval: interval.unwrap_or(usual.interval).max(ASK_INTERVAL_MIN),
        }
    }
}

/// What a reader and whoever lets it read know of each other, where a shard may be another's a moment later.
pub struct Hold {
    stop: AtomicBool,
    /// The number of the last record that was handed on.
    sent: Mutex<Option<String>>,
    /// When it was last known to be ours, and how long that is good for.
    renewed: Mutex<Instant>,
    good_for: Duration,
}

impl Hold {
    /// It is known to be ours as of the moment when that was asked for: the answer may have taken long. `sent` is the number of
    /// the last record that was handed on when it was ours before.
    pub fn new(good_for: Duration, asked: Instant, sent: Option<String>) -> Hold {
        Hold { stop: AtomicBool::new(false), sent: Mutex::new(sent), renewed: Mutex::new(asked), good_for }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub fn renew(&self, asked: Instant) {
        *lock(&self.renewed) = asked;
    }

    pub fn sent(&self) -> Option<String> {
        lock(&self.sent).clone()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Others may have it by now.
    pub fn has_lapsed(&self) -> bool {
        lock(&self.renewed).elapsed() >= self.good_for
    }
}

/// Finds shards and starts their readers.
pub struct Lister {
    place: String,
    stream: Arc<Stream>,
    /// What has been handed on to the source, and begun.
    places: Places,
    /// It did begin. All that was there then may be forgotten by now.
    begun: bool,
    /// Shards that have begun in this life, where that means a moment of this life.
    now: BTreeSet<String>,
    events: Sender<Event>,
    trouble: Trouble,
}

#[derive(Clone, Debug)]
pub struct Shard {
    pub id: String,
    pub parents: Vec<String>,
    pub closed: bool,
}

impl Shard {
    fn read(listed: &Json) -> Option<Shard> {
        let text = |name: &str| listed.get(name).and_then(Json::as_str).map(str::to_owned);
        let parents = ["ParentShardId", "AdjacentParentShardId"].iter().filter_map(|name| text(name)).collect();
        let closed = listed.pointer("/SequenceNumberRange/EndingSequenceNumber").is_some_and(Json::is_string);
        Some(Shard { id: text("ShardId")?, parents, closed })
    }
}

/// All shards that the stream has records of.
pub async fn list_shards(client: &Client, stream: &Stream, place: &str, trouble: &Trouble) -> Result<Vec<Shard>, ConnectorError> {
    let mut shards = Vec::new();
    let mut request = json!({"StreamName": stream.name});
    loop {
        let answer = call(client, "ListShards", &request, stream.retries, trouble).await;
        let answer = answer.map_err(|failed| failed.fatal(place))?;
        shards.extend(answer["Shards"].as_array().into_iter().flatten().filter_map(Shard::read));
        match answer["NextToken"].as_str() {
            Some(next) => request = json!({"NextToken": next}),
            None => return Ok(shards),
        }
    }
}

impl Lister {
    pub fn new(place: &str, stream: Stream, places: Places, events: Sender<Event>, trouble: Trouble) -> Lister {
        let (place, stream, begun) = (place.to_owned(), Arc::new(stream), !places.shards.is_empty());
        Lister { place, stream, places, begun, now: BTreeSet::new(), events, trouble }
    }

    pub async fn run(mut self, access: Access) -> Result<(), ConnectorError> {
        let client = Arc::new(Client::open(&KINESIS, &access, None).await?);
        let room = Arc::new(Semaphore::new(ANSWERS_MAX));
        let mut readers: JoinSet<Result<(String, bool), ConnectorError>> = JoinSet::new();
        let mut running = BTreeSet::new();
        loop {
            let shards = list_shards(&client, &self.stream, &self.place, &self.trouble).await?;
            self.look_at(&shards).await?;
            for shard in self.due(&shards, &running) {
                running.insert(shard.clone());
                let reader = Reader {
                    client: client.clone(),
                    stream: self.stream.clone(),
                    place: self.place.clone(),
                    from: self.places.from,
                    at: self.places.shards.get(&shard).cloned(),
                    now: self.now.contains(&shard),
                    trouble: self.trouble.of(&shard),
                    shard: shard.into(),
                    events: self.events.clone(),
                    room: room.clone(),
                    hold: None,
                    consumer: None,
                    quiet_until: None,
                };
                readers.spawn(reader.run());
            }
            if readers.is_empty() && self.stream.shard_ids.is_some() {
                return Ok(());
            }
            match tokio::time::timeout(LIST_INTERVAL, readers.join_next()).await {
                Ok(Some(Ok(ended))) => {
                    let (shard, _) = ended?;
                    running.remove(&shard);
                    self.places.shards.insert(shard, Place::Read);
                }
                Ok(Some(Err(error))) => return Err(self.failed(format!("a reader has ended: {error}"), Fault::World)),
                // Between the end of a shard and the listing of its children.
                Ok(None) => tokio::time::sleep(ASK_INTERVAL).await,
                Err(_) => {}
            }
        }
    }

    fn failed(&self, problem: String, fault: Fault) -> ConnectorError {
        ConnectorError::World { place: self.place.clone(), problem, fault, retryable: false, source: None }
    }

    async fn look_at(&mut self, shards: &[Shard]) -> Result<(), ConnectorError> {
        if !self.begun {
            self.begin(shards).await?;
        }
        self.forget(shards).await;
        Ok(())
    }

    /// What is there when the stream begins: everything that comes later is read from its first record.
    async fn begin(&mut self, shards: &[Shard]) -> Result<(), ConnectorError> {
        if let Some(chosen) = &self.stream.shard_ids
            && let Some(absent) = chosen.iter().find(|id| shards.iter().all(|shard| shard.id != **id))
        {
            return Err(self.failed(format!("stream {} has no shard {absent}", self.stream.name), Fault::User));
        }
        let now = self.places.fresh;
        let nothing_comes = |shard: &Shard| now && shard.closed && self.stream.begin.is_latest();
        let place = |shard: &Shard| if nothing_comes(shard) { Place::Read } else { Place::Begun };
        let begun: BTreeMap<String, Place> = shards.iter().map(|shard| (shard.id.clone(), place(shard))).collect();
        if now {
            self.now = begun.keys().cloned().collect();
        }
        self.begun = !begun.is_empty();
        self.places.shards = begun.clone();
        // Nobody listens when the stream has been stopped meanwhile.
        let _ = self.events.send(Event::Begun(begun)).await;
        Ok(())
    }

    /// Shards whose records are too old to be there are taken off the list by the service.
    async fn forget(&mut self, shards: &[Shard]) {
        let listed: BTreeSet<&str> = shards.iter().map(|shard| shard.id.as_str()).collect();
        let is_gone = |(id, place): &(&String, &Place)| **place == Place::Read && !listed.contains(id.as_str());
        let gone: Vec<String> = self.places.shards.iter().filter(is_gone).map(|(id, _)| id.clone()).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|id| {
                self.places.shards.remove(id);
            });
            let _ = self.events.send(Event::Forgotten(gone)).await;
        }
    }

    /// Shards to be read now: not read yet, and their parents are, or are not there.
    fn due(&self, shards: &[Shard], running: &BTreeSet<String>) -> Vec<String> {
        let chosen = |id: &str| self.stream.shard_ids.as_ref().is_none_or(|chosen| chosen.contains(id));
        let is_read = |id: &str| self.places.shards.get(id) == Some(&Place::Read);
        let open = |id: &String| shards.iter().any(|shard| shard.id == *id) && chosen(id) && !is_read(id);
        let due = |shard: &&Shard| {
            chosen(&shard.id) && !is_read(&shard.id) && !running.contains(&shard.id) && !shard.parents.iter().any(open)
        };
        shards.iter().filter(due).map(|shard| shard.id.clone()).collect()
    }
}

/// Reads one shard to its end.
pub struct Reader {
    pub client: Arc<Client>,
    pub stream: Arc<Stream>,
    pub place: String,
    pub shard: Arc<str>,
    pub from: u64,
    /// None: it came after the stream had begun.
    pub at: Option<Place>,
    /// The stream began in this life, and nothing has been asked of the shard.
    pub now: bool,
    pub events: Sender<Event>,
    pub room: Arc<Semaphore>,
    /// The trouble of this shard.
    pub trouble: Trouble,
    /// Where the shard may become another's.
    pub hold: Option<Arc<Hold>>,
    /// The ARN of the consumer that is sent the records; they are asked for where there is none.
    pub consumer: Option<Arc<str>>,
    /// Nothing came up to here since what was handed on, as the service says to consumers.
    pub quiet_until: Option<String>,
}

/// Failures in a row, over all iterators and subscriptions of one reader.
struct Tries {
    failures: u32,
    pauses: Pauses,
}

impl Tries {
    fn new() -> Tries {
        Tries { failures: 0, pauses: Pauses::new() }
    }
}

/// How reading with one iterator went.
enum Went {
    /// A new one is needed.
    Again,
    ToTheEnd,
    Stopped,
}

impl Reader {
    /// The shard, and whether it was read to its end.
    pub async fn run(mut self) -> Result<(String, bool), ConnectorError> {
        let mut tries = Tries::new();
        let to_the_end = loop {
            let went = match self.consumer.clone() {
                Some(consumer) => self.listen(&consumer, &mut tries).await?,
                None => self.read(&mut tries).await?,
            };
            match went {
                Went::Again => {}
                Went::ToTheEnd => break true,
                Went::Stopped => break false,
            }
        };
        // Whoever has the shard now says what is wrong with it.
        self.trouble.forget();
        if to_the_end {
            let _ = self.events.send(Event::Ended(self.shard.to_string())).await;
        }
        Ok((self.shard.to_string(), to_the_end))
    }

    /// False when it is to stop. Waits while nobody knows whose the shard is.
    async fn may_read(&self) -> bool {
        let Some(hold) = &self.hold else { return true };
        while hold.has_lapsed() && !hold.is_stopped() {
            tokio::time::sleep(ASK_INTERVAL).await;
        }
        !hold.is_stopped()
    }

    fn fatal(&self, failed: Failed) -> ConnectorError {
        failed.fatal(&format!("{}, {}", self.place, self.shard))
    }

    /// What a failure means that does not pass. A shard whose records are too old to be there is taken off the list by the
    /// service, and is at its end: its children wait for that.
    async fn ends(&self, failed: Failed) -> Result<Went, ConnectorError> {
        if failed.code == GONE {
            // Of a stream that is gone there is no list.
            let shards = list_shards(&self.client, &self.stream, &self.place, &self.trouble).await?;
            if shards.iter().all(|shard| shard.id != *self.shard) {
                tracing::warn!("{}, {}: the shard is gone, and with it what was not read", self.place, self.shard);
                return Ok(Went::ToTheEnd);
            }
        }
        Err(self.fatal(failed))
    }

    /// Where to go on, as an iterator is asked for. None at the end.
    fn next(&self) -> Option<Json> {
        match (&self.quiet_until, &self.at) {
            (_, Some(Place::Read)) => None,
            (Some(number), _) | (None, Some(Place::After(number))) => Some(iterator::after(number)),
            (None, Some(Place::Begun)) if self.is_at_its_moment() => Some(iterator::at(self.from)),
            (None, Some(Place::Begun)) => Some(self.stream.begin.asked()),
            (None, None) => Some(json!({"ShardIteratorType": "TRIM_HORIZON"})),
        }
    }

    /// What comes next is what came since the stream began, as `Latest` has it.
    fn is_at_its_moment(&self) -> bool {
        self.quiet_until.is_none() && self.at == Some(Place::Begun) && self.stream.begin.is_latest() && !self.now
    }

    /// Whether that moment has not come yet for the service, whose clock is behind this one.
    fn is_early(&self, failed: &Failed) -> bool {
        let speaks_of_it = || failed.reason.to_ascii_lowercase().contains("timestamp");
        self.is_at_its_moment() && failed.code == "InvalidArgumentException" && speaks_of_it()
    }

    /// One more failure in a row that passes: it is waited for, without room, and told where there were too many.
    async fn passes(&self, tries: &mut Tries, reason: &str) {
        tries.failures += 1;
        if tries.failures > self.stream.retries {
            self.trouble.note(reason);
        }
        tries.pauses.wait(ASK_INTERVAL).await;
    }

    /// The shard can be read. That there is an iterator or a subscription does not say so yet.
    fn works(&self, tries: &mut Tries) {
        *tries = Tries::new();
        self.trouble.clear();
    }

    async fn iterator(&mut self) -> Result<Option<String>, Failed> {
        let Some(mut request) = self.next() else { return Ok(None) };
        request["StreamName"] = self.stream.name.as_str().into();
        request["ShardId"] = self.shard.as_ref().into();
        let answer = self.client.call("GetShardIterator", &request).await?;
        self.now = false;
        match answer["ShardIterator"].as_str() {
            Some(iterator) => Ok(Some(iterator.to_owned())),
            // None of a closed shard is another answer's.
            None => {
                Err(Failed { code: String::new(), reason: "the answer to GetShardIterator has none".to_owned(), retryable: true })
            }
        }
    }

    /// With one iterator, as long as it goes.
    async fn read(&mut self, tries: &mut Tries) -> Result<Went, ConnectorError> {
        let mut iterator = loop {
            if !self.may_read().await {
                return Ok(Went::Stopped);
            }
            match self.iterator().await {
                Ok(iterator) => break iterator,
                Err(failed) if failed.retryable || self.is_early(&failed) => self.passes(tries, &failed.reason).await,
                Err(failed) => return self.ends(failed).await,
            }
        };
        while let Some(from) = iterator {
            // Closed only with the source.
            let Ok(room) = self.room.clone().acquire_owned().await else { return Ok(Went::Stopped) };
            if !self.may_read().await {
                return Ok(Went::Stopped);
            }
            let asked = Instant::now();
            let request = json!({"ShardIterator": from, "Limit": self.stream.pace.records_max});
            let answer = match self.client.call("GetRecords", &request).await {
                Ok(answer) => answer,
                Err(failed) if failed.retryable => {
                    drop(room);
                    self.passes(tries, &failed.reason).await;
                    iterator = Some(from);
                    continue;
                }
                // It lasts five minutes, and whoever hands on may be held back for longer.
                Err(failed) if failed.code == "ExpiredIteratorException" => return Ok(Went::Again),
                Err(failed) => {
                    // It may take as long as shards cannot be listed.
                    drop(room);
                    return self.ends(failed).await;
                }
            };
            self.works(tries);
            iterator = answer["NextShardIterator"].as_str().map(str::to_owned);
            if let Some(went) = self.hand_on(&answer, room).await? {
                return Ok(went);
            }
            if iterator.is_some() {
                tokio::time::sleep(self.stream.pace.interval.saturating_sub(asked.elapsed())).await;
            }
        }
        Ok(Went::ToTheEnd)
    }

    /// Hands on the records of an answer. Says how the reading went if it is over.
    async fn hand_on(&mut self, answer: &Json, room: OwnedSemaphorePermit) -> Result<Option<Went>, ConnectorError> {
        let given = answer["Records"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut records = VecDeque::with_capacity(given.len());
        for record in given {
            let number = record["SequenceNumber"].as_str();
            let data = record["Data"].as_str().and_then(|data| STANDARD.decode(data).ok());
            let (Some(number), Some(data)) = (number, data) else {
                return Err(self.garbled("a record of the answer has no number or no data in base64"));
            };
            let key = record["PartitionKey"].as_str().unwrap_or_default().to_owned();
            records.push_back(Record { number: number.to_owned(), key, data });
        }
        let Some(Record { number, .. }) = records.back() else { return Ok(None) };
        if let Some(hold) = &self.hold {
            // It may have become another's while this one asked. The answer is left to whoever has it then.
            if hold.is_stopped() || hold.has_lapsed() {
                return Ok(Some(Went::Again));
            }
            *lock(&hold.sent) = Some(number.clone());
        }
        self.at = Some(Place::After(number.clone()));
        self.quiet_until = None;
        let answer = Answer { shard: self.shard.clone(), records, _room: room };
        Ok(self.events.send(Event::Records(answer)).await.is_err().then_some(Went::Stopped))
    }

    fn garbled(&self, problem: &str) -> ConnectorError {
        ConnectorError::Framing { place: format!("{}, {}", self.place, self.shard), problem: problem.to_owned() }
    }

    /// Is sent the records, as long as one subscription lasts: five minutes.
    async fn listen(&mut self, consumer: &str, tries: &mut Tries) -> Result<Went, ConnectorError> {
        let mut events = match self.subscribe(consumer, tries).await? {
            Ok(events) => events,
            Err(went) => return Ok(went),
        };
        let (begun, mut works) = (Instant::now(), false);
        loop {
            if !self.may_read().await {
                return Ok(Went::Stopped);
            }
            let told = match tokio::time::timeout(ASK_INTERVAL, events.next()).await {
                // Nothing came: others may have the shard by now.
                Err(_) => {
                    if !works && begun.elapsed() >= LASTS_MIN {
                        self.works(tries);
                        works = true;
                    }
                    continue;
                }
                Ok(Ok(Some(Told::Event(name, payload)))) if name == "SubscribeToShardEvent" => payload,
                Ok(Ok(Some(Told::Event(..)))) => continue,
                Ok(Ok(Some(Told::Failure(code, reason)))) => {
                    let failed = ended_with(code, &reason);
                    if !failed.retryable {
                        return self.ends(failed).await;
                    }
                    self.passes(tries, &failed.reason).await;
                    return Ok(Went::Again);
                }
                // As each one does after five minutes.
                Ok(Ok(None)) if works => {
                    tokio::time::sleep(ASK_INTERVAL).await;
                    return Ok(Went::Again);
                }
                Ok(Ok(None)) => {
                    self.passes(tries, "the subscription has ended before anything came").await;
                    return Ok(Went::Again);
                }
                Ok(Err(problem)) => {
                    self.passes(tries, &format!("the subscription has broken off: {problem}")).await;
                    return Ok(Went::Again);
                }
            };
            let told: Json = serde_json::from_slice(&told).map_err(|_| self.garbled("an event is no JSON"))?;
            // One without records comes at once, also of a shard that cannot be read.
            let has_records = told["Records"].as_array().is_some_and(|records| !records.is_empty());
            if !works && (has_records || begun.elapsed() >= LASTS_MIN) {
                self.works(tries);
                works = true;
            }
            // Closed only with the source.
            let Ok(room) = self.room.clone().acquire_owned().await else { return Ok(Went::Stopped) };
            if let Some(went) = self.hand_on(&told, room).await? {
                return Ok(went);
            }
            let until = told["ContinuationSequenceNumber"].as_str();
            if until.is_none() || told["ChildShards"].as_array().is_some_and(|children| !children.is_empty()) {
                return Ok(Went::ToTheEnd);
            }
            self.quiet_until = until.map(str::to_owned);
        }
    }

    /// How it went where there is nothing to listen to, or it is to stop.
    async fn subscribe(&mut self, consumer: &str, tries: &mut Tries) -> Result<Result<Events, Went>, ConnectorError> {
        while let Some(position) = self.next() {
            if !self.may_read().await {
                return Ok(Err(Went::Stopped));
            }
            let position = iterator::for_subscription(&position);
            let request = json!({"ConsumerARN": consumer, "ShardId": self.shard.as_ref(), "StartingPosition": position});
            match self.client.listen("SubscribeToShard", &request).await {
                Ok(events) => {
                    self.now = false;
                    return Ok(Ok(events));
                }
                // For seconds after another subscription to the shard has begun.
                Err(failed) if failed.retryable || failed.code == IN_USE || self.is_early(&failed) => {
                    self.passes(tries, &failed.reason).await;
                }
                Err(failed) => return self.ends(failed).await.map(Err),
            }
        }
        Ok(Err(Went::ToTheEnd))
    }
}

/// What a subscription was ended with. There is no status here that would say whose fault it is.
fn ended_with(code: String, words: &str) -> Failed {
    let of_the_service = || ["Internal", "Unavailable"].iter().any(|part| code.contains(part));
    let retryable = code.is_empty() || code == IN_USE || client::passes(&code) || of_the_service();
    Failed { reason: format!("the subscription has ended with {code}: {words}"), code, retryable }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;
    use crate::aws::events::tests::{message, text};
    use crate::aws::iterator::{IteratorAt, IteratorType};
    use crate::aws::shards::Reading;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;
    use crate::real_server::wait;
    use crate::source::Source;

    fn stream(name: &str) -> Stream {
        Stream { name: name.to_owned(), shard_ids: None, begin: Default::default(), retries: 3, pace: Pace::default() }
    }

    #[test]
    fn a_stream_begins_once_though_all_that_was_there_then_is_forgotten() {
        let shard = |id: &str| Shard { id: id.to_owned(), parents: Vec::new(), closed: false };
        let (sender, mut events) = channel(4);
        let places = Places { fresh: true, ..Places::default() };
        let mut lister = Lister::new("here", stream("s"), places, sender, Trouble::new("here"));
        runtime().block_on(async {
            // Nothing is there yet.
            lister.look_at(&[]).await.unwrap();
            assert!(matches!(events.try_recv(), Ok(Event::Begun(begun)) if begun.is_empty()));
            lister.look_at(&[shard("a")]).await.unwrap();
            assert!(matches!(events.try_recv(), Ok(Event::Begun(begun)) if begun.contains_key("a")));
            lister.places.shards.insert("a".to_owned(), Place::Read);
            // Its children, while they are read.
            let children = [shard("b"), shard("c")];
            lister.look_at(&children).await.unwrap();
            assert!(matches!(events.try_recv(), Ok(Event::Forgotten(gone)) if gone == ["a"]));
            assert!(lister.places.shards.is_empty());
            lister.look_at(&children).await.unwrap();
            assert!(events.try_recv().is_err());
        });
    }

    #[test]
    fn a_shard_that_is_taken_off_the_list_is_at_its_end() {
        let server = StandIn::start(|asked| match (asked.operation.as_str(), asked.body["StreamName"].as_str()) {
            ("ListShards", Some("there")) => {
                (200, json!({"Shards": [{"ShardId": "child", "SequenceNumberRange": {}}]}).to_string())
            }
            ("GetShardIterator", _) if asked.body["ShardId"] == "just gone" => (200, json!({"ShardIterator": "i"}).to_string()),
            _ => (400, json!({"__type": "ResourceNotFoundException", "message": "it is not there"}).to_string()),
        });
        let read = |of: &str, shard: &str, consumer: Option<&str>| {
            let (sender, mut events) = channel(1);
            runtime().block_on(async {
                let reader = Reader {
                    client: Arc::new(Client::open(&KINESIS, &server.access(), None).await.unwrap()),
                    stream: Arc::new(stream(of)),
                    place: "here".to_owned(),
                    shard: shard.into(),
                    from: 0,
                    at: Some(Place::After("7".to_owned())),
                    now: false,
                    events: sender,
                    room: Arc::new(Semaphore::new(1)),
                    trouble: Trouble::new("here"),
                    hold: None,
                    consumer: consumer.map(Into::into),
                    quiet_until: None,
                };
                let ended = reader.run().await;
                assert_eq!(ended.is_ok(), matches!(events.try_recv(), Ok(Event::Ended(ended)) if ended == shard));
                ended
            })
        };
        for (shard, consumer) in [("gone", None), ("just gone", None), ("gone", Some("arn"))] {
            assert_eq!(read("there", shard, consumer).unwrap(), (shard.to_owned(), true));
        }
        // A shard that is there, or a stream that is not: something else is wrong.
        for (stream, shard, consumer) in [("there", "child", None), ("there", "child", Some("arn")), ("gone", "gone", None)] {
            let told = read(stream, shard, consumer).unwrap_err().to_string();
            assert!(told.contains("ResourceNotFoundException"), "{told}");
        }
    }

    #[test]
    fn the_moment_when_a_stream_began_is_waited_for_where_the_clock_of_the_service_is_behind() {
        let early = Mutex::new(2);
        let server = StandIn::start(move |asked| match asked.operation.as_str() {
            "GetRecords" => (200, "{}".to_owned()),
            // One that never comes is the fault of a definition.
            "GetShardIterator" if asked.body["Timestamp"] != 7.5 || *early.lock().unwrap() > 0 => {
                *early.lock().unwrap() -= 1;
                let message = "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis";
                (400, json!({"__type": "InvalidArgumentException", "message": message}).to_string())
            }
            _ => (200, json!({"ShardIterator": "i"}).to_string()),
        });
        let read = |begin: IteratorType| {
            let (sender, _events) = channel(1);
            runtime().block_on(async {
                let reader = Reader {
                    client: Arc::new(Client::open(&KINESIS, &server.access(), None).await.unwrap()),
                    stream: Arc::new(Stream { begin, ..stream("s") }),
                    place: "here".to_owned(),
                    shard: "a".into(),
                    from: 7_500,
                    at: Some(Place::Begun),
                    now: false,
                    events: sender,
                    room: Arc::new(Semaphore::new(1)),
                    trouble: Trouble::new("here"),
                    hold: None,
                    consumer: None,
                    quiet_until: None,
                };
                reader.run().await
            })
        };
        assert_eq!(read(IteratorType::default()).unwrap(), ("a".to_owned(), true));
        assert_eq!(server.asked().len(), 4, "it was asked for until it had come");
        let given = IteratorType::At(IteratorAt::AtTimestamp { millis_since_epoch: 8_000 });
        let told = read(given).unwrap_err().to_string();
        assert!(told.contains("InvalidArgumentException"), "{told}");
    }

    #[test]
    fn failures_that_end_a_subscription_are_those_of_a_call() {
        let (trouble, seen) = (Trouble::new("here").of("a"), Arc::new(Mutex::new(Vec::new())));
        let (told, all) = (trouble.clone(), seen.clone());
        let server = StandIn::start(move |_| {
            let event = |told: Json| message(&text(":event-type", "SubscribeToShardEvent"), told.to_string().as_bytes());
            let exception = |code: &str| {
                let headers = [text(":message-type", "exception"), text(":exception-type", code)].concat();
                message(&headers, br#"{"message": "why"}"#)
            };
            let mut all = all.lock().unwrap();
            all.push(told.get());
            let answer = match all.len() {
                1..=3 => exception("InternalFailureException"),
                4 => event(json!({"Records": [{"SequenceNumber": "8", "Data": ""}], "ContinuationSequenceNumber": "8"})),
                5 => exception("KMSDisabledException"),
                // Where it goes on all the same, it comes to the end.
                _ => event(json!({"Records": []})),
            };
            (200, answer)
        });
        let (sender, _events) = channel(1);
        let ended = runtime().block_on(async {
            let reader = Reader {
                client: Arc::new(Client::open(&KINESIS, &server.access(), None).await.unwrap()),
                stream: Arc::new(Stream { retries: 1, ..stream("s") }),
                place: "here".to_owned(),
                shard: "a".into(),
                from: 0,
                at: Some(Place::After("7".to_owned())),
                now: false,
                events: sender,
                room: Arc::new(Semaphore::new(1)),
                trouble,
                hold: None,
                consumer: Some("arn".into()),
                quiet_until: None,
            };
            reader.run().await
        });
        let problem = ended.unwrap_err().to_string();
        assert!(problem.contains("KMSDisabledException: why"), "{problem}");
        // One more than is nobody's business, until something comes.
        let word = Some("here, a: the subscription has ended with InternalFailureException: why".to_owned());
        assert_eq!(*seen.lock().unwrap(), [None, None, word.clone(), word, None]);
    }

    #[test]
    fn shards_that_cannot_be_read_are_told_and_hold_up_no_other() {
        // As many as there is room for.
        let bad: Vec<String> = (0..ANSWERS_MAX).map(|n| format!("bad {n}")).collect();
        let asked: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let all_work = Arc::new(AtomicBool::new(false));
        let (counted, works, ids) = (asked.clone(), all_work.clone(), bad.clone());
        let server = StandIn::start(move |now| match now.operation.as_str() {
            "ListShards" => {
                let shards = ids.iter().map(String::as_str).chain(["good"]).map(|id| json!({"ShardId": id}));
                (200, json!({"Shards": shards.collect::<Vec<_>>()}).to_string())
            }
            "GetShardIterator" => (200, json!({"ShardIterator": now.body["ShardId"]}).to_string()),
            _ => {
                let shard = now.body["ShardIterator"].as_str().unwrap();
                *counted.lock().unwrap().entry(shard.to_owned()).or_default() += 1;
                match shard == "good" || works.load(Ordering::Relaxed) {
                    true => (200, json!({"Records": [], "NextShardIterator": shard}).to_string()),
                    false => (500, "{}".to_owned()),
                }
            }
        });
        let runtime = runtime();
        let stream = Stream { retries: 0, ..stream("s") };
        let places = Places { fresh: true, ..Places::default() };
        let reading = Reading::start(runtime.handle(), "here", server.access(), stream, places);
        let times = |shard: &str| asked.lock().unwrap().get(shard).copied().unwrap_or_default();
        wait(|| bad.iter().all(|shard| times(shard) > 0), "all are asked for");
        let before = times("good");
        wait(|| times("good") > before + 3, "the other one is read");
        wait(|| reading.trouble().is_some(), "a word");
        for _ in 0..20 {
            let told = reading.trouble().unwrap_or_default();
            assert!(told.starts_with("here, bad ") && told.contains("500"), "{told}");
            std::thread::sleep(Duration::from_millis(50));
        }
        all_work.store(true, Ordering::Relaxed);
        wait(|| reading.trouble().is_none(), "all can be read");
    }

    #[test]
    fn children_wait_for_all_of_their_parents() {
        let mut lister = Lister::new("here", stream("s"), Places::default(), channel(1).0, Trouble::new("here"));
        let listed = [
            json!({"ShardId": "a", "SequenceNumberRange": {"EndingSequenceNumber": "9"}}),
            json!({"ShardId": "b", "SequenceNumberRange": {}}),
            json!({"ShardId": "c", "ParentShardId": "a", "AdjacentParentShardId": "b"}),
            json!({"ShardId": "d", "ParentShardId": "long gone"}),
        ];
        let shards: Vec<Shard> = listed.iter().filter_map(Shard::read).collect();
        assert!(shards[0].closed && !shards[1].closed);
        assert_eq!(lister.due(&shards, &BTreeSet::new()), ["a", "b", "d"]);
        lister.places.shards.insert("a".to_owned(), Place::Read);
        assert_eq!(lister.due(&shards, &BTreeSet::from(["b".to_owned()])), ["d"]);
        lister.places.shards.insert("b".to_owned(), Place::Read);
        assert_eq!(lister.due(&shards, &BTreeSet::new()), ["c", "d"]);
    }
}
