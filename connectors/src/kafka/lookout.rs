//! One client that reads for many streams: those on which nothing comes have none of their own.
//!
//!     stream ─ join: where each of its partitions goes on ─> Lookout
//!     Lookout ─ a record, more partitions, trouble ─> Inbox ─ bell ─> stream
//!
//! Streams whose clients would be set alike share it. It is no member of a group and commits nothing. What comes is handed to
//! each stream that reads the partition, as long as its inbox has room; then the stream is left alone. What it does about that,
//! and what groups are for, it does not know.
//!
//! Its thread alone assigns partitions and polls. So no record is in hand when a partition begins again further back, and those
//! that wait in the client are dropped there: a stream that joins sees all from its own offset on, in order.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::metadata::Metadata;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use weir_model::lock::lock;

use super::client::{Voice, is_of_a_fetch};
use super::failed;
use super::login::SaslLogin;
use super::properties::Settings;
use super::reading::tell_of;
use super::topics::{Asking, TopicId};
use crate::bell::{Bell, Call};
use crate::error::ConnectorError;
use crate::origin::packed;

/// How soon it is seen who has left, that nobody is left, and that a trouble is over.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks how many partitions topics have.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);
/// After a stream has come, until what its client had is given back to the system.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(5);
/// Topics that are asked for one by one, at most; where there are more, all that the brokers have are asked for at once.
const TOPICS_ASKED_MAX: usize = 20;
/// For one question to the broker.
const ASK_TIME_MAX: Duration = Duration::from_secs(1);
/// For the question who is in a group: hundreds of streams may ask at once.
const GROUP_ASK_TIME_MAX: Duration = Duration::from_secs(3);
/// Records handed out before it is looked who has come.
const TURN_RECORDS_MAX: usize = 1000;
/// Handed to a stream and not taken.
const RECORDS_WAITING_MAX: usize = 10_000;
const BYTES_WAITING_MAX: usize = 1 << 20;

/// What concerns members of groups, or what one stream alone has in mind.
const NOT_SHARED: &[&str] = &[
    "fetch.message.max.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
];

const SET: &[(&str, &str)] = &[
    ("auto.offset.reset", "error"),
    ("enable.auto.commit", "false"),
    ("enable.partition.eof", "false"),
    ("fetch.max.bytes", "1000000"),
    ("fetch.min.bytes", "1"),
    // A partition that is new to it is fetched with the next request, so it waits for the one that is under way.
    ("fetch.wait.max.ms", "500"),
    ("max.partition.fetch.bytes", "65536"),
    ("queued.max.messages.kbytes", "1024"),
    ("queued.min.messages", "1000"),
];

/// What two streams have to have in common.
type Key = (BTreeMap<String, String>, Option<SaslLogin>);

/// Ends when the last stream has let it go.
pub struct Lookout(Arc<Shared>);

struct Shared {
    key: Key,
    consumer: BaseConsumer<Context>,
    /// Asks what there is. A broker answers what comes by one connection in its order, and would let a question wait until
    /// records come.
    asking: BaseConsumer<Context>,
    /// Streams that have come and are not looked after yet.
    joins: Mutex<Vec<Reader>>,
    /// Told when there is something to poll, or somebody has come.
    calls: Sender<()>,
    ended: AtomicBool,
}

/// A stream that it reads for.
struct Reader {
    inbox: Weak<Inbox>,
    /// Topic, number, and the offset of the record that comes next; -1 is the first there is.
    partitions: Vec<(String, i32, i64)>,
    /// How many partitions each topic has, and which it is: where that changes the stream is on its own.
    counts: Vec<Counted>,
    until: Instant,
}

#[derive(Clone)]
pub struct Counted {
    pub topic: String,
    pub count: usize,
    pub id: Option<TopicId>,
}

#[derive(Clone)]
struct Context {
    voice: Arc<Voice>,
    /// The other client tells what is wrong.
    quiet: bool,
    /// A topic may not be read any more; the client does not say which.
    refused: Arc<AtomicBool>,
}

impl rdkafka::ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        self.voice.log(level, facility, message);
    }

    fn stats_raw(&self, _statistics: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code.is_some_and(|code| is_of_a_fetch(code, reason)) {
            self.refused.store(true, Ordering::Relaxed);
        }
        // What concerns a topic is for those who read it to tell.
        if !self.quiet && !code.is_some_and(|code| of_a_topic(code) || code == RDKafkaErrorCode::AutoOffsetReset) {
            self.voice.error(error, reason);
        }
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<rdkafka::client::OAuthToken, Box<dyn std::error::Error>> {
        self.voice.generate_oauth_token(config)
    }
}

impl ConsumerContext for Context {}

fn of_a_topic(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{TopicAuthorizationFailed, UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(code, TopicAuthorizationFailed | UnknownPartition | UnknownTopic | UnknownTopicOrPartition)
}

impl Lookout {
    /// The lookout of all streams with these settings.
    pub fn of(place: &str, settings: &Settings) -> Result<Arc<Lookout>, ConnectorError> {
        static ALL: Mutex<Vec<Weak<Lookout>>> = Mutex::new(Vec::new());
        let (config, key) = shared(settings);
        let mut all = lock(&ALL);
        all.retain(|lookout| lookout.strong_count() > 0);
        if let Some(lookout) = all.iter().filter_map(Weak::upgrade).find(|lookout| lookout.0.key == key) {
            return Ok(lookout);
        }
        let lookout = Arc::new(Lookout::start(place, &config, key)?);
        all.push(Arc::downgrade(&lookout));
        Ok(lookout)
    }

    fn start(place: &str, config: &ClientConfig, key: Key) -> Result<Lookout, ConnectorError> {
        let voice = Arc::new(Voice::new(place, key.1.clone()));
        let context = Context { voice, quiet: false, refused: Arc::default() };
        let cannot = |_| failed(place, "the client that reads for streams at rest cannot be made", true);
        let mut consumer: BaseConsumer<Context> = config.create_with_context(context.clone()).map_err(cannot)?;
        let mut questions = config.clone();
        questions.remove("group.id");
        let asking = questions.create_with_context(Context { quiet: true, ..context }).map_err(cannot)?;
        let (calls, called) = bounded(1);
        let call = calls.clone();
        // One that was not taken yet does as well.
        consumer.set_nonempty_callback(move || {
            let _ = call.try_send(());
        });
        let shared = Arc::new(Shared { key, consumer, asking, joins: Mutex::default(), calls, ended: AtomicBool::new(false) });
        let watch = Watch { shared: shared.clone(), streams: Vec::new(), places: HashMap::new(), told: None, give_back_at: None };
        let thread = std::thread::Builder::new().name("look out".to_owned()).spawn(move || watch.run(&called));
        thread.map_err(|error| failed(place, format!("no thread could be started: {error}"), true))?;
        Ok(Lookout(shared))
    }

    /// From now on what comes is handed over, until `until`, or until a topic is made anew or has another number of partitions.
    pub fn join(&self, partitions: Vec<(String, i32, i64)>, counts: Vec<Counted>, until: Instant) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        lock(&self.0.joins).push(Reader { inbox: Arc::downgrade(&inbox), partitions, counts, until });
        let _ = self.0.calls.try_send(());
        inbox
    }

    /// Whether the group has no member, as far as the brokers say.
    pub fn is_empty(&self, group: &str) -> bool {
        members(&self.0.asking, group) == Some(0)
    }

    /// The list with the offset at the end of each partition where it has `Offset::End`. None where the brokers do not say.
    pub fn ends(&self, partitions: TopicPartitionList, time_max: Duration) -> Option<TopicPartitionList> {
        // Who is known not to answer is not waited for.
        self.0.consumer.context().voice.trouble().is_none().then_some(())?;
        self.0.asking.offsets_for_times(partitions, time_max).ok()
    }

    pub fn trouble(&self) -> Option<String> {
        let voice = &self.0.consumer.context().voice;
        voice.trouble().map(|trouble| format!("{}: {}", voice.place(), trouble.reason))
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
        let _ = self.0.calls.try_send(());
    }
}

/// How many members a group has. None where that cannot be told: the broker does not answer, or answers only those who ask in a
/// newer way.
pub fn members<C: ConsumerContext>(consumer: &BaseConsumer<C>, group: &str) -> Option<usize> {
    let listed = consumer.fetch_group_list(Some(group), GROUP_ASK_TIME_MAX).ok()?;
    // Nobody knows a group that has neither members nor offsets.
    let Some(found) = listed.groups().iter().find(|listed| listed.name() == group) else { return Some(0) };
    match (found.state(), found.members().len()) {
        ("Empty", _) => Some(0),
        ("Stable", count) if count > 0 => Some(count),
        _ => None,
    }
}

/// The settings of the client, and what of them has to be the same for two streams to share it.
fn shared(settings: &Settings) -> (ClientConfig, Key) {
    let mut config = settings.client.clone();
    for name in NOT_SHARED {
        config.remove(name);
    }
    for (name, value) in SET {
        config.set(*name, *value);
    }
    // The map itself has stars for what is secret.
    let names: Vec<String> = config.config_map().into_keys().map(str::to_owned).collect();
    let key = names.into_iter().filter_map(|name| config.get(&name).map(str::to_owned).map(|value| (name, value))).collect();
    // Without one there is no reading. It is that of whoever came first, who may use it.
    if let Some(group) = settings.client.get("group.id") {
        config.set("group.id", group);
    }
    (config, (key, settings.login.clone()))
}

/// The thread of a lookout.
struct Watch {
    shared: Arc<Shared>,
    streams: Vec<Reader>,
    /// By topic, by number.
    places: HashMap<String, HashMap<i32, Place>>,
    /// The trouble that streams were told of.
    told: Option<String>,
    /// When what the clients had of those who have come is given back.
    give_back_at: Option<Instant>,
}

/// Whether streams have to look at the trouble there is now again: it is another one than they were told of, or than there was
/// when this look began. One that came since the last look has been seen by whoever looked meanwhile.
fn is_news(told: Option<&str>, before: Option<&str>, now: Option<&str>) -> bool {
    now != told || now != before
}

/// A partition that is read.
struct Place {
    /// The offset of the record that comes next.
    at: i64,
    waiting: Vec<Waiting>,
}

struct Waiting {
    inbox: Weak<Inbox>,
    /// Which of the stream's partitions this is.
    index: usize,
    /// What came before is no news to it.
    next: i64,
}

impl Watch {
    fn run(mut self, called: &Receiver<()>) {
        let (mut look, mut count) = (Instant::now(), Instant::now() + COUNT_INTERVAL);
        let mut more = false;
        while !self.shared.ended.load(Ordering::Relaxed) {
            match called.try_recv() {
                Err(TryRecvError::Empty) if !more => drop(called.recv_timeout(LOOK)),
                _ => {}
            }
            self.take_in();
            let turn = self.read();
            more = turn.more;
            let now = Instant::now();
            if now >= look {
                look = now + LOOK;
                self.look();
            }
            if turn.topics_changed || (now >= count && self.told.is_none()) {
                count = now + COUNT_INTERVAL;
                self.count();
            }
        }
    }

    /// Begins with the partitions of those who have come.
    fn take_in(&mut self) {
        let joins = std::mem::take(&mut *lock(&self.shared.joins));
        if joins.is_empty() {
            return;
        }
        self.give_back_at = Some(Instant::now() + GIVE_BACK_AFTER);
        let (mut new, mut again) = (BTreeSet::new(), BTreeSet::new());
        for reader in joins {
            for (index, (topic, number, next)) in reader.partitions.iter().enumerate() {
                if !self.places.contains_key(topic) {
                    self.places.insert(topic.clone(), HashMap::new());
                }
                let Some(places) = self.places.get_mut(topic) else { continue };
                let place = places.entry(*number).or_insert_with(|| {
                    new.insert((topic.clone(), *number));
                    Place { at: *next, waiting: Vec::new() }
                });
                if *next < place.at {
                    place.at = *next;
                    if !new.contains(&(topic.clone(), *number)) {
                        again.insert((topic.clone(), *number));
                    }
                }
                place.waiting.push(Waiting { inbox: reader.inbox.clone(), index, next: *next });
            }
            self.streams.push(reader);
        }
        self.unassign(&again);
        let mut list = TopicPartitionList::new();
        for (topic, number) in new.iter().chain(&again) {
            let at = self.places.get(topic).and_then(|places| places.get(number)).map_or(-1, |place| place.at);
            let at = if at < 0 { Offset::Beginning } else { Offset::Offset(at) };
            let _ = list.add_partition_offset(topic, *number, at);
        }
        if list.count() > 0
            && let Err(error) = self.shared.consumer.incremental_assign(&list)
        {
            self.end_all(&format!("partitions cannot be read: {error}"));
        }
    }

    fn unassign(&self, partitions: &BTreeSet<(String, i32)>) {
        let mut list = TopicPartitionList::new();
        for (topic, number) in partitions {
            list.add_partition(topic, *number);
        }
        if list.count() > 0
            && let Err(error) = self.shared.consumer.incremental_unassign(&list)
        {
            tracing::warn!("{}: partitions could not be given back: {error}", self.shared.consumer.context().voice.place());
        }
    }

    /// Hands out what is there.
    fn read(&mut self) -> Turn {
        let shared = self.shared.clone();
        let mut turn = Turn::default();
        for _ in 0..TURN_RECORDS_MAX {
            match shared.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => self.hand_out(&message),
                Some(Err(error)) => match error.rdkafka_error_code() {
                    Some(code) if of_a_topic(code) => {
                        turn.topics_changed = true;
                        // Whose topic it is finds that out with a client of its own, says so, and keeps it until records come.
                        if shared.consumer.context().refused.swap(false, Ordering::Relaxed) {
                            self.end_all("a topic may not be read any more");
                        }
                    }
                    Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::NoOffset) => self.end_all(&error.to_string()),
                    _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => self.end_all(&error.to_string()),
                    // The callback has noted it.
                    _ => {}
                },
                None => return turn,
            }
        }
        turn.more = true;
        turn
    }

    fn hand_out(&mut self, message: &BorrowedMessage<'_>) {
        let (topic, number, offset) = (message.topic(), message.partition(), message.offset());
        let Some(place) = self.places.get_mut(topic).and_then(|places| places.get_mut(&number)) else { return };
        place.at = offset + 1;
        let payload: Option<Arc<[u8]>> = message.payload().map(Arc::from);
        let origin: Arc<[u8]> = packed(|origin| tell_of(message, origin)).into();
        place.waiting.retain_mut(|waiting| {
            if offset < waiting.next {
                return true;
            }
            waiting.next = offset + 1;
            let record = Record { index: waiting.index, offset, payload: payload.clone(), origin: origin.clone() };
            waiting.inbox.upgrade().is_some_and(|inbox| inbox.put(record))
        });
        if place.waiting.is_empty() {
            self.forget(&BTreeSet::from([(topic.to_owned(), number)]));
        }
    }

    /// Nobody reads these any more.
    fn forget(&mut self, partitions: &BTreeSet<(String, i32)>) {
        self.unassign(partitions);
        for (topic, number) in partitions {
            if let Some(places) = self.places.get_mut(topic) {
                places.remove(number);
                if places.is_empty() {
                    self.places.remove(topic);
                }
            }
        }
    }

    /// Sees who has left, and whether there is trouble or one is over.
    fn look(&mut self) {
        let now = Instant::now();
        // Who is not listened to has no token.
        let _ = self.shared.asking.poll(Duration::ZERO);
        self.streams.retain(|stream| {
            let Some(inbox) = stream.inbox.upgrade() else { return false };
            if stream.until <= now {
                inbox.end(End::Over);
            }
            !inbox.has_ended()
        });
        let mut left = BTreeSet::new();
        for (topic, places) in &mut self.places {
            for (number, place) in places {
                place.waiting.retain(|waiting| waiting.inbox.upgrade().is_some_and(|inbox| !inbox.has_ended()));
                if place.waiting.is_empty() {
                    left.insert((topic.clone(), *number));
                }
            }
        }
        self.forget(&left);
        if self.give_back_at.is_some_and(|at| at <= now) {
            self.give_back_at = None;
            give_back();
        }
        let consumer = &self.shared.consumer;
        let voice = &consumer.context().voice;
        let reason = || voice.trouble().map(|trouble| trouble.reason);
        let before = reason();
        if before.is_some()
            && let Some(topic) = self.places.keys().next()
            && consumer.fetch_metadata(Some(topic), ASK_TIME_MAX).is_ok()
        {
            voice.clear();
        }
        let trouble = reason();
        if is_news(self.told.as_deref(), before.as_deref(), trouble.as_deref()) {
            self.told = trouble;
            self.inboxes().for_each(|inbox| inbox.notice());
        }
    }

    /// Ends for streams of topics that have other partitions than they knew, or are gone.
    fn count(&mut self) {
        let topics: BTreeSet<&str> = self.streams.iter().flat_map(|stream| &stream.counts).map(|of| of.topic.as_str()).collect();
        let ask = |topic| self.shared.asking.fetch_metadata(topic, ASK_TIME_MAX);
        let asked: Result<Vec<Metadata>, KafkaError> = if topics.len() > TOPICS_ASKED_MAX {
            ask(None).map(|all| vec![all])
        } else {
            topics.iter().map(|topic| ask(Some(topic))).collect()
        };
        // A broker that is away comes as an error.
        let Ok(asked) = asked else { return };
        let found = asked.iter().flat_map(Metadata::topics).map(|topic| (topic.name(), topic.partitions().len()));
        let found: HashMap<&str, usize> = found.collect();
        let ids = Asking::begin(&self.shared.asking, &topics, ASK_TIME_MAX).and_then(|asking| asking.answer(ASK_TIME_MAX)?.ok());
        let ids = ids.unwrap_or_default();
        for stream in &self.streams {
            let is_new =
                |of: &Counted| ids.get(&of.topic).and_then(|known| of.id.zip(known.id)).is_some_and(|(then, now)| then != now);
            let same = |of: &Counted| found.get(of.topic.as_str()) == Some(&of.count) && !is_new(of);
            if let Some(inbox) = stream.inbox.upgrade()
                && !stream.counts.iter().all(same)
            {
                inbox.end(End::Over);
            }
        }
    }

    fn end_all(&self, reason: &str) {
        tracing::debug!("{}: streams at rest read on their own: {reason}", self.shared.consumer.context().voice.place());
        self.inboxes().for_each(|inbox| inbox.end(End::Over));
    }

    fn inboxes(&self) -> impl Iterator<Item = Arc<Inbox>> {
        self.streams.iter().filter_map(|stream| stream.inbox.upgrade())
    }
}

/// Half a megabyte of each client that has gone lies in the heap of the C library, which keeps what is not at its end.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "nothing else makes the C library give memory back")]
fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(kept: usize) -> std::ffi::c_int;
    }
    // SAFETY: it takes the locks of the heap, and touches nothing that is in use.
    unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back() {}

/// What came of a turn.
#[derive(Default)]
struct Turn {
    /// It ended before all was handed out.
    more: bool,
    topics_changed: bool,
}

/// What a stream is handed.
#[derive(Default)]
pub struct Inbox {
    content: Mutex<Content>,
    comes: Condvar,
    bell: Bell,
}

#[derive(Default)]
struct Content {
    records: VecDeque<Record>,
    bytes: usize,
    /// The trouble is another than before.
    noticed: bool,
    end: Option<End>,
}

pub struct Record {
    /// Which of the partitions that the stream named.
    pub index: usize,
    pub offset: i64,
    pub payload: Option<Arc<[u8]>>,
    /// What is known of it besides (`Origin`).
    pub origin: Arc<[u8]>,
}

impl Record {
    /// Its key and headers may be larger than itself.
    fn size(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.len()) + self.origin.len()
    }
}

/// Nothing more comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// There was no room for the next record.
    Full,
    /// Something is not as it was.
    Over,
}

impl Content {
    fn is_news(&self) -> bool {
        !self.records.is_empty() || self.noticed || self.end.is_some()
    }
}

impl Inbox {
    /// Makes the call when something comes. False: something has.
    pub fn arm(&self, call: Call) -> bool {
        self.bell.arm_unless(call, || lock(&self.content).is_news())
    }

    /// Waits for something to come.
    pub fn wait(&self, patience: Duration) {
        let content = lock(&self.content);
        drop(self.comes.wait_timeout_while(content, patience, |content| !content.is_news()));
    }

    pub fn has_records(&self) -> bool {
        self.waiting() > 0
    }

    pub fn waiting(&self) -> usize {
        lock(&self.content).records.len()
    }

    /// The next record. Whoever asks looks after trouble, too.
    pub fn pop(&self) -> Option<Record> {
        let mut content = lock(&self.content);
        content.noticed = false;
        let record = content.records.pop_front()?;
        content.bytes -= record.size();
        Some(record)
    }

    /// Set where all records are taken and no more come.
    pub fn end_after_all(&self) -> Option<End> {
        let content = lock(&self.content);
        content.end.filter(|_| content.records.is_empty())
    }

    fn put(&self, record: Record) -> bool {
        let mut content = lock(&self.content);
        if content.end.is_some() {
            return false;
        }
        let room = content.records.len() < RECORDS_WAITING_MAX && content.bytes < BYTES_WAITING_MAX;
        if room {
            content.bytes += record.size();
            content.records.push_back(record);
        } else {
            content.end = Some(End::Full);
        }
        self.tell(content);
        room
    }

    fn end(&self, end: End) {
        let mut content = lock(&self.content);
        content.end.get_or_insert(end);
        self.tell(content);
    }

    fn notice(&self) {
        let mut content = lock(&self.content);
        content.noticed = true;
        self.tell(content);
    }

    /// Not with the lock held: whoever is called may look at once.
    fn tell(&self, content: MutexGuard<'_, Content>) {
        drop(content);
        self.comes.notify_one();
        self.bell.ring();
    }

    fn has_ended(&self) -> bool {
        lock(&self.content).end.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::is_news;

    /// Streams that looked between two looks kept it, as nobody told them of the end of what nobody had told them of.
    #[test]
    fn a_trouble_between_two_looks_is_told_to_be_over() {
        let down = Some("2/2 brokers are down");
        assert!(is_news(None, down, None), "it came and went since the last look");
        assert!(is_news(None, None, down) && is_news(down, down, None) && is_news(Some("refused"), down, down));
        assert!(!is_news(None, None, None) && !is_news(down, down, down));
    }
}
