//! The running source: a member of a consumer group, or a reader of named partitions.
//!
//!     assigned ─ where does each partition begin? ─> fetched by the client, ahead and bounded ─ next ─> Frames
//!     revoked  ─ paused ─ until what was read is durable ─> committed ─> given back
//!
//! The position is what counts: a partition goes on where the graph stands, whatever the broker has been told. Only a
//! partition that others may have read meanwhile begins at what the group has committed, when that is further. After a
//! restart that is so where another weir has committed it, which is written with each commit (decision 70). One that the stream
//! never had begins at what the group has committed, however far that is; else where it was noted to be.
//!
//! A topic that was made anew under its name is another one: where it began is decided as if it had never been read, by a new
//! client, which has nothing of the one before.
//!
//! Where nothing comes for a while it has no client (`away`). While nobody asks for more it stays in its group and reads nothing
//! (`hold`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList, TopicPartitionListElem};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use weir_model::Position;

use super::away::{self, Away};
use super::client::{Trouble, Voice};
use super::commits::{Commits, Policy};
use super::failed;
use super::ingest::{OffsetReset, Topics};
use super::lag::{self, Lag};
use super::member::{Change, Member, decline, give_back};
use super::offsets::{Offsets, committed};
use super::properties::Settings;
use super::reading::{Partition, Reading};
use super::topics::{Asking, Known};
use crate::bell::Call;
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits, Progress};
use crate::moment;
use crate::source::Source;

/// For one question to the broker.
const ASK_TIME_MAX: Duration = Duration::from_secs(1);
/// Between two tries to find out where partitions begin, and to have a client, and two looks whether a trouble is over.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// For one such look.
const LOOK_TIME_MAX: Duration = Duration::from_millis(300);
/// Between two looks whether topics are still those that are read, and while nothing comes.
const TOPICS_INTERVAL: Duration = Duration::from_secs(10);
const TOPICS_INTERVAL_AT_REST: Duration = Duration::from_secs(30);
/// A member without partitions for this long asks whether its group has somebody who gives them out; and again after as long.
pub(super) const GROUP_INTERVAL: Duration = Duration::from_secs(30);
/// How long a partition that goes to another member waits for what was read of it to be durable.
const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(5);
/// `max.poll.interval.ms` of the client where nobody says otherwise.
const POLL_INTERVAL_MILLIS: u64 = 300_000;
/// When nobody has asked for more for this long, at first, nothing is read ahead any more.
const HOLD_AFTER: Duration = Duration::from_secs(5);
/// While nothing is read ahead, the client is polled this often.
const HOLD_INTERVAL: Duration = Duration::from_secs(1);
/// For leaving the group in good order. Whoever stops the stream waits this long, at most.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(3);

/// What is read, and how far.
pub struct Subscription {
    pub topics: Topics,
    pub group: String,
    pub reset: OffsetReset,
    pub ending_offset: Option<i64>,
    /// Where each record comes from is told, too.
    pub tells: bool,
}

pub struct Records {
    pub(super) place: String,
    /// What its clients are set to.
    pub(super) settings: Settings,
    /// None while it is away, or there can be none.
    pub(super) consumer: Option<Arc<BaseConsumer<Member>>>,
    /// Why there can be no client at the moment, and when that is tried again.
    pub(super) no_client: Option<String>,
    pub(super) connect_at: Instant,
    /// Where it reads while it has no client, and until a new one has its partitions.
    pub(super) away: Option<Away>,
    pub(super) may_go_away: bool,
    /// How long nothing comes before it goes, and when that will be.
    pub(super) away_after: Duration,
    pub(super) away_at: Instant,
    pub(super) subscription: Subscription,
    pub(super) reading: Reading,
    pub(super) commits: Commits,
    /// Partitions nobody else can have read since this stream did.
    pub(super) ours: BTreeSet<(String, i32)>,
    /// Partitions that it read before it was opened, and has not begun with since: others may have read them. What an
    /// administrator has done to the offsets of the group is none of their doing.
    left: BTreeSet<(String, i32)>,
    /// Nothing is asked before.
    ask_again: Instant,
    /// When it asks for its group, if it has no partitions until then.
    pub(super) ask_group_at: Instant,
    /// Which topics these are by now, while it is being asked; and when that is next.
    pub(super) asking: Option<Asking>,
    ask_topics_at: Instant,
    /// What has become of a topic.
    notice: Option<String>,
    /// To be told by the next call: this one has records to hand out, or is not asked for any.
    failure: Option<ConnectorError>,
    /// Since when its partitions are paused, as nobody asks for more.
    held: Option<Instant>,
    /// When its partitions are paused, or the client is polled the next time.
    pub(super) hold_at: Instant,
    /// How long nobody asks for more before its partitions are paused.
    hold_after: Duration,
    /// How many records are to be read.
    pub(super) lag: Lag,
    /// What came while its partitions were paused, and should not have. It is the first of the next batch.
    early: Frames,
    rest: Rest,
}

/// What calls whoever rests.
struct Rest {
    runtime: Handle,
    /// Told whenever something waits to be polled.
    comes: Arc<Notify>,
    /// A client that nobody polls for longer has to leave its group.
    time_max: Duration,
    /// Waits for either of the two.
    waiting: Option<JoinHandle<()>>,
}

impl Records {
    pub fn open(
        place: String,
        settings: Settings,
        subscription: Subscription,
        policy: Policy,
        mut from: Offsets,
        runtime: &Handle,
    ) -> Result<Records, ConnectorError> {
        let time_max = settings.client.get("max.poll.interval.ms").and_then(|text| text.parse().ok());
        let time_max = Duration::from_millis(time_max.unwrap_or(POLL_INTERVAL_MILLIS)) / 3;
        let may_go_away = away::is_possible(&subscription, settings.client.get("group.instance.id").is_some());
        let away_after = away::after();
        let known: BTreeSet<_> = from.iter().map(|(topic, number, _)| (topic.to_owned(), number)).collect();
        // A position of before they had names cannot tell its own commits from those of others.
        let (ours, left) = match &subscription.topics {
            Topics::Subscribed(_) if from.is_named() => (BTreeSet::new(), known),
            _ => (known, BTreeSet::new()),
        };
        if !from.is_named() {
            from.name();
        }
        let mut records = Records {
            place,
            settings,
            consumer: None,
            no_client: None,
            connect_at: Instant::now(),
            away: None,
            may_go_away,
            away_after,
            away_at: Instant::now() + away_after,
            ours,
            left,
            commits: Commits::new(policy, from.clone()),
            reading: Reading::new(from, subscription.ending_offset, subscription.tells),
            subscription,
            ask_again: Instant::now(),
            ask_group_at: Instant::now() + GROUP_INTERVAL,
            asking: None,
            ask_topics_at: Instant::now(),
            notice: None,
            failure: None,
            held: None,
            hold_at: Instant::now() + HOLD_AFTER.min(time_max),
            hold_after: HOLD_AFTER.min(time_max),
            lag: Lag::unknown(),
            early: Frames::default(),
            rest: Rest { runtime: runtime.clone(), comes: Arc::default(), time_max, waiting: None },
        };
        records.consumer = Some(records.connect()?);
        Ok(records)
    }

    /// Whether there is a client; makes one that waits for its partitions where it is time for that. `no_client` says why there
    /// is none.
    pub(super) fn have_client(&mut self) -> Result<bool, ConnectorError> {
        if self.consumer.is_some() {
            return Ok(true);
        }
        if Instant::now() < self.connect_at {
            return Ok(false);
        }
        let made = self.connect();
        self.take_client(made)
    }

    /// Another one was there before, with the same settings: what passes is waited for, and the stream does not end.
    fn take_client(&mut self, made: Result<Arc<BaseConsumer<Member>>, ConnectorError>) -> Result<bool, ConnectorError> {
        match made {
            Ok(consumer) => {
                self.consumer = Some(consumer);
                self.no_client = None;
                // Its group has to give it partitions first.
                self.ask_group_at = Instant::now() + GROUP_INTERVAL;
                Ok(true)
            }
            Err(error) if error.retryable() => {
                let reason = error.to_string();
                if self.no_client.is_none() {
                    tracing::warn!("{reason}; it is tried again in {LOOK_AGAIN:?}");
                }
                self.no_client = Some(reason);
                self.connect_at = Instant::now() + LOOK_AGAIN;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// A client that waits for its partitions.
    fn connect(&self) -> Result<Arc<BaseConsumer<Member>>, ConnectorError> {
        let place = &self.place;
        let member = Member::new(Voice::new(place, self.settings.login.clone()));
        // The error says which setting, but might show its value.
        let mut consumer: BaseConsumer<Member> =
            self.settings.client.create_with_context(member).map_err(|error| match error {
                KafkaError::ClientCreation(reason) => {
                    let passes = is_shortage(&reason);
                    failed(place, reason, passes)
                }
                _ => failed(place, "the client cannot be made with these properties", false),
            })?;
        let told = self.rest.comes.clone();
        // Called with a lock of the client held: all else is done by a task.
        consumer.set_nonempty_callback(move || told.notify_one());
        match &self.subscription.topics {
            Topics::Subscribed(topics) => {
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                consumer.subscribe(&topics).map_err(|error| failed(place, error.to_string(), false))?;
            }
            Topics::Assigned(topics) => {
                let mut partitions = TopicPartitionList::new();
                for (topic, numbers) in topics {
                    for number in numbers {
                        partitions.add_partition(topic, *number);
                    }
                }
                consumer.context().changes().push_back(Change::Assigned(partitions));
                // Offsets are asked for before anything else is, and who is not listened to has no token.
                let _ = consumer.poll(Duration::ZERO);
            }
        }
        Ok(Arc::new(consumer))
    }

    /// Lets partitions come and go, as far as that is possible now.
    fn follow(&mut self) -> Result<(), ConnectorError> {
        loop {
            let Some(consumer) = &self.consumer else { return Ok(()) };
            let Some(change) = consumer.context().changes().pop_front() else { return Ok(()) };
            let done = match &change {
                Change::Assigned(_) if Instant::now() < self.ask_again => false,
                Change::Assigned(partitions) => match self.begin(partitions) {
                    Ok(()) => true,
                    Err(error) if error.retryable() => {
                        let Some(consumer) = &self.consumer else { return Ok(()) };
                        let reason = match &error {
                            ConnectorError::World { problem, .. } => problem.clone(),
                            other => other.to_string(),
                        };
                        consumer.context().voice.note(RDKafkaErrorCode::CoordinatorNotAvailable, &reason);
                        self.ask_again = Instant::now() + LOOK_AGAIN;
                        false
                    }
                    Err(error) => return Err(error),
                },
                Change::Revoked { partitions, lost, since } => {
                    let over = *lost || since.is_some_and(|since| since.elapsed() > HAND_OVER_TIME_MAX);
                    if over || (self.is_durable(partitions) && !self.commits.waits()) {
                        self.hand_over(partitions, *lost);
                        true
                    } else {
                        false
                    }
                }
            };
            if done {
                continue;
            }
            let Some(consumer) = &self.consumer else { return Ok(()) };
            let change = match change {
                Change::Revoked { partitions, lost, since: None } => {
                    // What comes from now on belongs to another member.
                    let _ = consumer.pause(&partitions);
                    Change::Revoked { partitions, lost, since: Some(Instant::now()) }
                }
                other => other,
            };
            consumer.context().changes().push_front(change);
            return Ok(());
        }
    }

    /// Finds out where partitions begin, and begins.
    fn begin(&mut self, partitions: &TopicPartitionList) -> Result<(), ConnectorError> {
        let Some(consumer) = self.consumer.clone() else { return Ok(()) };
        let consumer = &consumer;
        let place = consumer.context().voice.place();
        let elements = partitions.elements();
        let known = self.ask_topics(consumer, &elements.iter().map(|element| element.topic()).collect())?;
        if self.recognize(&known)? {
            return self.start_over();
        }
        self.tell_missing(consumer, &known);
        let (starts, list) = self.starts(consumer, &elements, &known)?;
        // Those that were paused on their way to another member and come back: for the client they stay paused across
        // assignments, and nobody would read them.
        let _ = consumer.resume(partitions);
        let assigned = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(&list),
            _ => consumer.assign(&list),
        };
        assigned.map_err(|error| failed(place, format!("cannot begin with the assigned partitions: {error}"), true))?;
        self.take_over(consumer, &elements, &starts);
        consumer.context().voice.clear_if(Trouble::is_of_a_group);
        Ok(())
    }

    /// Where partitions begin, of those of which that is known, and the same for the client.
    fn starts(
        &mut self,
        consumer: &BaseConsumer<Member>,
        elements: &[TopicPartitionListElem<'_>],
        known: &HashMap<String, Known>,
    ) -> Result<(Offsets, TopicPartitionList), ConnectorError> {
        let place = consumer.context().voice.place();
        let key = |topic: &str, number: i32| (topic.to_owned(), number);
        let mut shared = TopicPartitionList::new();
        for element in elements {
            let (topic, number) = (element.topic(), element.partition());
            if self.reading.read.get(topic, number).is_none() || !self.ours.contains(&key(topic, number)) {
                shared.add_partition(topic, number);
            }
        }
        // What this stream itself has committed of a partition that it has not read, as far as it knows, it has read where its
        // store was put back to what it was, or where the topic was made anew and it did not know yet: that is in no graph, and
        // counts only where nothing else says where to begin.
        let read = &self.reading.read;
        let reset = self.subscription.reset;
        let counts = |topic: &str, number: i32, note: &[u8]| match read.get(topic, number) {
            Some(_) => !self.left.contains(&key(topic, number)) || read.is_of_another(note),
            None => !read.is_own(note) || (reset != OffsetReset::Earliest && !read.knows(topic)),
        };
        let told = match shared.count() {
            0 => Offsets::default(),
            _ => committed(consumer, &shared, place, ASK_TIME_MAX, counts)?,
        };

        let mut starts = Offsets::default();
        let mut list = TopicPartitionList::new();
        for element in elements {
            let (topic, number) = (element.topic(), element.partition());
            if reset == OffsetReset::Latest && !read.knows(topic) && !starts.knows(topic) {
                self.note_topic(consumer, topic, known.get(topic), (&shared, &told), &mut starts)?;
            }
            // What is noted says nothing where the group has read the partition: who read it may be behind that.
            let noted = || read.noted(topic, number).or_else(|| starts.noted(topic, number));
            let start = match read.get(topic, number).max(told.get(topic, number)).or_else(noted) {
                Some(offset) => Some(offset),
                // The stream has begun with this topic before, so this partition is newer than the stream.
                None if read.knows(topic) => None,
                None => match reset {
                    OffsetReset::Earliest => None,
                    // It is not there yet.
                    OffsetReset::Latest => Some(0),
                    OffsetReset::None => {
                        let group = &self.subscription.group;
                        let problem = format!(
                            "nothing says where partition {number} of topic {topic} begins: group {group} has committed no offset \
                             of it, and autoOffsetReset is none"
                        );
                        return Err(failed(place, problem, false));
                    }
                },
            };
            if let Some(offset) = start {
                starts.set(topic, number, offset);
            }
            self.commits.began(topic, number, told.get(topic, number));
            let offset = start.map_or(Offset::Beginning, Offset::Offset);
            list.add_partition_offset(topic, number, offset).map_err(|error| failed(place, error.to_string(), false))?;
        }
        Ok((starts, list))
    }

    /// Reads these partitions from now on.
    fn take_over(&mut self, consumer: &BaseConsumer<Member>, elements: &[TopicPartitionListElem<'_>], starts: &Offsets) {
        self.leave_lookout();
        self.away_at = Instant::now() + self.away_after;
        for (topic, number, offset) in starts.iter() {
            self.reading.read.set(topic, number, offset);
        }
        for (topic, number, offset) in starts.all_noted() {
            self.reading.read.note(topic, number, offset);
        }
        for element in elements {
            let (topic, number) = (element.topic().to_owned(), element.partition());
            let key = (topic.clone(), number);
            self.left.remove(&key);
            self.ours.insert(key);
            let next = starts.get(&topic, number);
            self.reading.assigned.push(Partition::new(topic, number, next));
        }
        self.reading.forget_addresses();
        let ending = self.subscription.ending_offset;
        for partition in &mut self.reading.assigned {
            partition.finish_at(ending, consumer);
        }
        if self.held.is_some() {
            self.reading.hold(consumer);
        }
    }

    /// What the brokers know of these topics. Nothing where they will not tell.
    fn ask_topics(
        &self,
        consumer: &BaseConsumer<Member>,
        topics: &BTreeSet<&str>,
    ) -> Result<HashMap<String, Known>, ConnectorError> {
        let Some(asking) = Asking::begin(consumer, topics, ASK_TIME_MAX) else { return Ok(HashMap::new()) };
        let cannot = |reason: &str| failed(&self.place, format!("cannot ask for topics: {reason}"), true);
        // It says itself that its time is over, a little later.
        match asking.answer(ASK_TIME_MAX + LOOK_TIME_MAX) {
            Some(Ok(known)) => Ok(known),
            Some(Err(error)) if is_passing(error) => Err(cannot(&error.to_string())),
            Some(Err(_)) => Ok(HashMap::new()),
            None => Err(cannot("there is no answer")),
        }
    }

    /// Looks now and then whether topics are still those that are read.
    fn look_after_topics(&mut self) -> Result<(), ConnectorError> {
        let Some(consumer) = self.consumer.clone().filter(|_| self.away.is_none()) else { return Ok(()) };
        match self.asking.as_ref().map(|asking| asking.answer(Duration::ZERO)) {
            Some(None) => {}
            Some(Some(answer)) => {
                self.asking = None;
                // What is wrong is told by whoever cannot read.
                let Ok(known) = answer else { return Ok(()) };
                if self.recognize(&known)? {
                    return self.start_over();
                }
                self.tell_missing(&consumer, &known);
            }
            None if self.ask_topics_at <= Instant::now() => {
                self.ask_topics_at = Instant::now() + TOPICS_INTERVAL;
                let topics = self.reading.assigned.iter().map(|partition| partition.topic.as_str()).collect();
                self.asking = Asking::begin(&consumer, &topics, ASK_TIME_MAX);
            }
            None => {}
        }
        Ok(())
    }

    /// Forgets what was read of topics that are others by now under their names. Whether the client reads on where one of those
    /// stood.
    fn recognize(&mut self, known: &HashMap<String, Known>) -> Result<bool, ConnectorError> {
        let mut reads_on = false;
        for (topic, id) in known.iter().filter_map(|(topic, known)| Some((topic, known.id?))) {
            if self.reading.read.id(topic).is_some_and(|before| before != id) {
                self.tell_anew(topic)?;
                // Where it is away, its new client has nothing yet.
                let has_client = self.away.is_none();
                reads_on |= self.reading.forget(topic) && has_client;
                self.leave_lookout();
                self.commits.forget(topic);
                self.ours.retain(|(of, _)| of != topic);
                self.left.retain(|(of, _)| of != topic);
            }
            self.reading.is_same(topic);
            self.reading.read.set_id(topic, id);
        }
        Ok(reads_on)
    }

    /// An error where nothing says where it begins.
    fn tell_anew(&mut self, topic: &str) -> Result<(), ConnectorError> {
        let (place, anew) = (&self.place, format!("topic {topic} was deleted and made anew"));
        let from = match self.subscription.reset {
            OffsetReset::Earliest => "from its beginning",
            OffsetReset::Latest => "from its end",
            OffsetReset::None => {
                let problem = format!(
                    "{anew}, and autoOffsetReset is none: nothing says where it begins; delete the stream and create it anew"
                );
                return Err(ConnectorError::Position { place: place.clone(), problem });
            }
        };
        let notice = format!("{place}: {anew}, which was seen at {}; it is read {from}, as autoOffsetReset says", moment::now());
        tracing::warn!("{notice}");
        self.notice = Some(notice);
        Ok(())
    }

    /// Tells of partitions that were named and are not there, which nothing else does, or not soon; or that all are by now.
    fn tell_missing(&self, consumer: &BaseConsumer<Member>, known: &HashMap<String, Known>) {
        let voice = &consumer.context().voice;
        match self.missing(known) {
            Some(missing) => voice.note(RDKafkaErrorCode::UnknownPartition, &missing),
            None if voice.trouble().is_some_and(|trouble| trouble.code == RDKafkaErrorCode::UnknownPartition) => voice.clear(),
            None => {}
        }
    }

    fn missing(&self, known: &HashMap<String, Known>) -> Option<String> {
        let Topics::Assigned(topics) = &self.subscription.topics else { return None };
        let (topic, count, numbers) = topics.iter().find_map(|(topic, numbers)| {
            let count = known.get(topic)?.partitions;
            let missing: Vec<_> = numbers.iter().filter(|number| **number as usize >= count).map(i32::to_string).collect();
            (!missing.is_empty()).then(|| (topic, count, missing.join(", ")))
        })?;
        Some(match count {
            0 => format!("topic {topic} is not there, and is waited for"),
            _ => format!("topic {topic} has {count} partitions, counted from 0, and {numbers} is waited for"),
        })
    }

    /// Reads on with a client that knows nothing of what was before.
    fn start_over(&mut self) -> Result<(), ConnectorError> {
        self.asking = None;
        if let Some(consumer) = self.consumer.take() {
            let rest = self.commits.rest(|topic, number| self.reading.reads(topic, number));
            leave(consumer, rest, self.commits.end());
        }
        self.reading.note();
        self.reading.assigned.clear();
        self.reading.forget_addresses();
        if matches!(self.subscription.topics, Topics::Subscribed(_)) {
            self.ours.clear();
        }
        self.have_client().map(drop)
    }

    /// Notes where the group stands in the partitions of a topic, and where it has read nothing, where they end now, also of
    /// those that are others': should they become ours, nothing that comes from now on is left out. `asked` are the partitions
    /// of which the group has been asked already, and `told` is what it has told: those that are ours now are all among them. One
    /// of the others without a leader holds up nobody, and would be read from its beginning.
    fn note_topic(
        &self,
        consumer: &BaseConsumer<Member>,
        topic: &str,
        known: Option<&Known>,
        (asked, told): (&TopicPartitionList, &Offsets),
        starts: &mut Offsets,
    ) -> Result<(), ConnectorError> {
        let place = consumer.context().voice.place();
        let cannot = |error: KafkaError| failed(place, format!("cannot find out where topic {topic} ends: {error}"), true);
        // Whether each has a leader, which alone can say where it ends.
        let partitions: Vec<(i32, bool)> = match &self.subscription.topics {
            Topics::Assigned(topics) => {
                // Those that come later are read from their beginning.
                let is_there = |known: &Known, number: i32| known.partitions == 0 || (number as usize) < known.partitions;
                let there = |number: &i32| known.is_none_or(|known| is_there(known, *number));
                topics.get(topic).into_iter().flatten().copied().filter(there).map(|number| (number, true)).collect()
            }
            Topics::Subscribed(_) => {
                let metadata = consumer.fetch_metadata(Some(topic), ASK_TIME_MAX).map_err(cannot)?;
                let all = metadata.topics().iter().flat_map(|topic| topic.partitions());
                all.map(|partition| (partition.id(), partition.leader() >= 0)).collect()
            }
        };
        let is_own = |number: i32| asked.find_partition(topic, number).is_some();
        let mut others = TopicPartitionList::new();
        for (number, _) in partitions.iter().filter(|(number, _)| !is_own(*number)) {
            others.add_partition(topic, *number);
        }
        let others = match others.count() {
            0 => Offsets::default(),
            _ => committed(consumer, &others, place, ASK_TIME_MAX, |_, _, _| true)?,
        };
        for (number, has_leader) in partitions {
            let offset = match told.get(topic, number).or_else(|| others.get(topic, number)) {
                Some(offset) => offset,
                None if has_leader || is_own(number) => {
                    let (_, end) = consumer.fetch_watermarks(topic, number, ASK_TIME_MAX).map_err(cannot)?;
                    end
                }
                None => {
                    tracing::warn!(
                        "{place}: partition {number} of topic {topic}, which is another member's, has no leader that could say where \
                         it ends; if it comes to this one and the group has committed nothing of it, it is read from its beginning"
                    );
                    continue;
                }
            };
            starts.note(topic, number, offset);
        }
        Ok(())
    }

    /// Commits what is durable, if it is time.
    fn commit_durable(&mut self) {
        let Some(consumer) = self.consumer.as_ref().filter(|_| self.away.is_none()) else { return };
        // A partition on its way to another member waits for what is sent here, and its last commit goes after that.
        if consumer.context().changes().is_empty() {
            self.commits.look(consumer, |topic, number| self.reading.reads(topic, number));
        }
    }

    fn is_durable(&self, partitions: &TopicPartitionList) -> bool {
        let durable = self.commits.durable();
        let waits = |partition: &&Partition| {
            partitions.find_partition(&partition.topic, partition.number).is_some() && partition.touched_since(durable)
        };
        !self.reading.assigned.iter().any(|partition| waits(&partition))
    }

    /// Gives partitions back, what is durable of them committed.
    fn hand_over(&mut self, partitions: &TopicPartitionList, lost: bool) {
        let Some(consumer) = &self.consumer else { return };
        let member = consumer.context();
        if !lost && let Some(rest) = self.commits.rest(|topic, number| partitions.find_partition(topic, number).is_some()) {
            // Sent before the request to leave, on the same connection.
            let _ = consumer.commit(&rest, CommitMode::Async);
        }
        give_back(consumer, partitions);
        self.reading.note();
        for element in partitions.elements() {
            self.ours.remove(&(element.topic().to_owned(), element.partition()));
            let same = |other: &Partition| other.topic == element.topic() && other.number == element.partition();
            self.reading.assigned.retain(|partition| !same(partition));
        }
        self.reading.forget_addresses();
        tracing::debug!("{}: {} partitions went to other members", member.voice.place(), partitions.count());
    }

    /// Somebody asks for more.
    fn go_on(&mut self) {
        if let Some(since) = self.held.take() {
            self.hold_after = next_hold_after(self.hold_after, since.elapsed(), self.rest.time_max);
            if let Some(consumer) = &self.consumer {
                self.reading.go_on(consumer);
                self.away_at = Instant::now() + self.away_after;
            }
        }
        self.lag.go_on();
        self.hold_at = Instant::now() + self.hold_after;
    }

    /// Whether nothing is wrong, nothing under way, and all is committed that is to be.
    pub(super) fn is_done(&self) -> bool {
        let Some(consumer) = &self.consumer else { return false };
        let member = consumer.context();
        // What is wrong is looked after, and offsets are committed, by whoever polls.
        let done = member.voice.trouble().is_none() && member.changes().is_empty() && self.failure.is_none();
        done && self.subscription.ending_offset.is_none()
            && self.commits.are_done(|topic, number| self.reading.reads(topic, number))
    }

    /// The client looks for whoever gives out the partitions of its group without a word, for as long as it takes.
    fn look_after_group(&mut self) {
        // On its way back, it reads what it has by the lookout.
        let Some(consumer) = self.consumer.as_ref().filter(|_| self.away.is_none()) else { return };
        let Topics::Subscribed(topics) = &self.subscription.topics else { return };
        if self.has_partitions() || !consumer.context().changes().is_empty() {
            self.ask_group_at = Instant::now() + GROUP_INTERVAL;
        } else if Instant::now() >= self.ask_group_at {
            let asked = ask_group(consumer, topics);
            self.ask_group_at = Instant::now() + GROUP_INTERVAL;
            if let Err(error) = asked {
                let group = &self.subscription.group;
                let reason = error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string());
                let reason =
                    format!("there are no partitions to read, as the coordinator of group {group} does not answer: {reason}");
                consumer.context().voice.note(RDKafkaErrorCode::CoordinatorNotAvailable, &reason);
            }
        }
    }

    /// Whether its group has given it partitions. Those that it reads without its client, on its way back, are not its group's.
    fn has_partitions(&self) -> bool {
        self.away.is_none() && !self.reading.assigned.is_empty()
    }

    /// Whether it is a member that its group does not let in, which is over when it gives partitions.
    fn waits_for_group(&self, trouble: &Trouble) -> bool {
        matches!(self.subscription.topics, Topics::Subscribed(_)) && trouble.is_of_a_group()
    }

    /// Finds out whether what kept the client from its work is over: the client itself only tells that it began.
    fn look_after_trouble(&mut self) {
        let trouble = self.consumer.as_ref().and_then(|consumer| consumer.context().voice.trouble());
        let Some(trouble) = trouble else { return self.look_after_group() };
        let Some(consumer) = &self.consumer else { return };
        let voice = &consumer.context().voice;
        let waiting = !consumer.context().changes().is_empty();
        // Where all partitions went to other members nothing comes that would say it is over. Of those that come back it is told
        // anew.
        let is_idle = self.away.is_none() && !waiting && self.reading.assigned.is_empty();
        if is_idle && matches!(self.subscription.topics, Topics::Subscribed(_)) {
            voice.clear_if(Trouble::is_of_a_fetch);
        }
        // A partition that is not there is looked for with its topic; what may not be fetched is over when something comes.
        let elsewhere = trouble.code == RDKafkaErrorCode::UnknownPartition || trouble.is_of_a_fetch();
        if elsewhere || Instant::now() < self.ask_again {
            return;
        }
        if let Topics::Subscribed(topics) = &self.subscription.topics
            && self.waits_for_group(&trouble)
        {
            // Whoever is answered need not be let in.
            if !waiting && (trouble.code == RDKafkaErrorCode::CoordinatorNotAvailable || self.has_partitions()) {
                let answered = ask_group(consumer, topics).is_ok();
                self.ask_again = Instant::now() + LOOK_AGAIN;
                if answered {
                    voice.clear();
                    self.ask_group_at = Instant::now() + GROUP_INTERVAL;
                }
            }
            return;
        }
        self.ask_again = Instant::now() + LOOK_AGAIN;
        let there = |topic: Option<&str>| match consumer.fetch_metadata(topic, LOOK_TIME_MAX) {
            Ok(metadata) => topic.is_none() || metadata.topics().iter().all(|topic| topic.error().is_none()),
            Err(_) => false,
        };
        let over = match &self.subscription.topics {
            Topics::Subscribed(topics) => {
                topics.iter().all(|topic| there(Some(topic.as_str()).filter(|topic| !topic.starts_with('^'))))
            }
            Topics::Assigned(topics) => topics.keys().all(|topic| there(Some(topic))),
        };
        if over && !waiting {
            voice.clear();
            // What was wrong may have kept the group from being found, too.
            self.ask_group_at = Instant::now() + GROUP_INTERVAL;
        }
    }
}

/// Whether the broker answers that gives out the partitions of the group: it also knows what the group has committed.
fn ask_group(consumer: &BaseConsumer<Member>, topics: &[String]) -> Result<(), KafkaError> {
    let mut any = TopicPartitionList::new();
    // It answers also where there is no such topic.
    any.add_partition(topics.iter().find(|topic| !topic.starts_with('^')).map_or("any", String::as_str), 0);
    consumer.committed_offsets(any, ASK_TIME_MAX).map(drop)
}

/// A topic may not be read, or not be seen.
fn is_refused(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed)
}

/// How long to wait for somebody to ask before the next hold, after one that lasted for `held`. All that was read ahead is
/// fetched again after each: where every record waits a little longer than that, it would be for each of them.
fn next_hold_after(before: Duration, held: Duration, time_max: Duration) -> Duration {
    let after = if held < time_max { before * 2 } else { HOLD_AFTER };
    after.min(time_max)
}

/// The client knows of whole milliseconds alone: through a part of one it would ask again and again.
fn whole_millis(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

impl Rest {
    /// What came since the last poll that found something makes the call at once, though it may have been polled: then whoever
    /// was called rests again.
    fn begin(&mut self, call: Call, time_max: Duration) {
        let (comes, time_max) = (self.comes.clone(), time_max.min(self.time_max));
        self.waiting = Some(self.runtime.spawn(async move {
            // An error says that it is time to poll.
            let _ = tokio::time::timeout(time_max, comes.notified()).await;
            call();
        }));
    }

    fn end(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abort();
        }
    }
}

impl Source for Records {
    fn rest(&mut self, call: Call) -> bool {
        self.lag.look_now();
        match (&self.consumer, &mut self.away) {
            (None, Some(away)) => return away.rest(call),
            // It is on its way back.
            (_, Some(_)) | (None, None) => return false,
            (Some(_), None) => {}
        }
        let rests = self.is_done();
        if rests {
            let goes = if self.may_go_away { self.away_at.saturating_duration_since(Instant::now()) } else { Duration::MAX };
            self.rest.begin(call, goes.min(TOPICS_INTERVAL_AT_REST));
        }
        rests
    }

    /// A client that nobody polls for `max.poll.interval.ms` leaves its group, and until then a group that is to be given out
    /// anew waits for it.
    fn hold(&mut self) -> Option<Duration> {
        if self.failure.is_some() {
            return None;
        }
        let wait = self.hold_at.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            return Some(wait);
        }
        // Without a client it is in no group.
        let Some(consumer) = &self.consumer else {
            if let Some(away) = &mut self.away {
                away.hold();
            } else {
                self.failure = self.have_client().err();
            }
            self.ask_for_lag();
            return Some(lag::ASK_INTERVAL);
        };
        if self.held.is_none() {
            self.held = Some(Instant::now());
            self.reading.hold(consumer);
        }
        match consumer.poll(Duration::ZERO) {
            Some(Ok(message)) => self.reading.take(&message, consumer, &mut self.early),
            // The end of a partition is told again when it is read on.
            Some(Err(error)) => {
                self.failure = fatal(consumer, &error);
                if is_refused(&error) {
                    self.reading.listen();
                }
            }
            None => {}
        }
        if let Err(failure) = self.follow() {
            self.failure = Some(failure);
        }
        self.look_after_trouble();
        self.commit_durable();
        self.ask_for_lag();
        let wait = HOLD_INTERVAL.min(self.rest.time_max);
        self.hold_at = Instant::now() + wait;
        Some(wait)
    }

    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        self.rest.end();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let deadline = Instant::now() + limits.wait_max;
        self.go_on();
        if !self.early.is_empty() {
            std::mem::swap(batch, &mut self.early);
            self.early.clear();
        }
        self.follow()?;
        self.look_after_topics()?;
        self.look_after_trouble();
        let finishes = self.subscription.ending_offset.is_some();
        if self.away.is_some() {
            self.next_from_inbox(limits, deadline, batch)?;
        } else if !self.have_client()? && batch.is_empty() {
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
        while self.away.is_none() && !batch.full(limits) {
            let Some(consumer) = self.consumer.as_ref().filter(|_| !finishes || !self.reading.is_finished()) else { break };
            let wait = if batch.is_empty() { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match consumer.poll(whole_millis(wait)) {
                Some(Ok(message)) => self.reading.take(&message, consumer, batch),
                Some(Err(KafkaError::PartitionEOF(number))) => self.reading.ended(number, consumer),
                Some(Err(error)) => match fatal(consumer, &error) {
                    Some(failure) if batch.is_empty() => return Err(failure),
                    Some(failure) => {
                        self.failure = Some(failure);
                        break;
                    }
                    // The member's callback has noted it.
                    None if is_refused(&error) => self.reading.listen(),
                    None => {}
                },
                None if batch.is_empty() && Instant::now() < deadline => self.follow()?,
                None => break,
            }
        }
        self.reading.note();
        self.reading.read.write(&mut batch.position);
        if !batch.is_empty() {
            self.away_at = Instant::now() + self.away_after;
        } else if self.away.is_none() {
            self.go_away();
        }
        self.commit_durable();
        if let Some(consumer) = self.consumer.as_ref().filter(|_| self.away.is_none()) {
            self.reading.look_after_ends(batch.is_empty(), consumer);
            let member = consumer.context();
            use RDKafkaErrorCode::{UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
            let elsewhere = |code| matches!(code, UnknownTopicOrPartition | UnknownTopic | UnknownPartition);
            if !batch.is_empty() {
                member.voice.clear_if(|trouble| match trouble.is_of_a_fetch() {
                    true => self.reading.hears_all(),
                    false => !elsewhere(trouble.code) && !self.waits_for_group(trouble),
                });
            }
            if finishes && self.reading.is_finished() && member.changes().is_empty() {
                return Ok(Progress::Finished);
            }
        }
        Ok(Progress::More)
    }

    fn durable(&mut self, position: &Position) -> Result<(), ConnectorError> {
        let mut durable = Offsets::read("Kafka", position)?;
        // It may have been read before its topic was made anew.
        durable.only_of(&self.reading.read);
        self.commits.became_durable(durable);
        // While the stream is paused nobody asks for more.
        self.commit_durable();
        Ok(())
    }

    fn lag(&mut self) -> Option<u64> {
        self.look_at_lag()
    }

    fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    fn trouble(&self) -> Option<String> {
        // It may be long until the next call that tells it.
        if let Some(failure) = &self.failure {
            return Some(failure.to_string());
        }
        if let Some(reason) = &self.no_client {
            return Some(reason.clone());
        }
        let Some(consumer) = &self.consumer else { return self.away.as_ref()?.trouble() };
        let voice = &consumer.context().voice;
        voice.trouble().map(|trouble| format!("{}: {}", voice.place(), trouble.reason))
    }
}

/// Whether a client cannot be made as the process may have no more threads or files at the moment, in librdkafka's words and
/// the system's: all else is the fault of its settings.
fn is_shortage(reason: &str) -> bool {
    [" thread: ", " thread(s) to initialize", "Too many open files"].iter().any(|words| reason.contains(words))
}

/// Whether a question may be answered later.
fn is_passing(error: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(
        error,
        BrokerTransportFailure | AllBrokersDown | OperationTimedOut | RequestTimedOut | NetworkException | Authentication
    )
}

/// What does not pass.
pub(super) fn fatal(consumer: &BaseConsumer<Member>, error: &KafkaError) -> Option<ConnectorError> {
    let place = consumer.context().voice.place();
    let code = error.rdkafka_error_code()?;
    let reason = consumer.context().voice.trouble().filter(|trouble| trouble.code == code).map(|trouble| trouble.reason);
    let reason = reason.unwrap_or_else(|| code.to_string());
    match error {
        KafkaError::MessageConsumptionFatal(_) => Some(failed(place, reason, false)),
        KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::NoOffset) => {
            let problem = format!("{reason}; the records are not there any more, and autoOffsetReset is none");
            Some(ConnectorError::Position { place: place.to_owned(), problem })
        }
        _ => None,
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.rest.end();
        self.asking = None;
        let Some(consumer) = self.consumer.take() else { return };
        let rest = self.commits.rest(|topic, number| self.reading.reads(topic, number));
        let left = leave(consumer, rest, self.commits.end());
        // Leaving a group asks the broker, and one that is away answers late or never.
        if left.is_some_and(|left| left.recv_timeout(CLOSE_TIME_MAX).is_err()) {
            tracing::warn!("{}: the group is left without waiting for the broker, which does not answer", self.place);
        }
    }
}

/// Ends a client, on a thread of its own: what is to be committed, and what commits are on their way. Tells when it has.
pub(super) fn leave(
    consumer: Arc<BaseConsumer<Member>>,
    rest: Option<TopicPartitionList>,
    waiter: Option<thread::JoinHandle<()>>,
) -> Option<Receiver<()>> {
    consumer.context().close();
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let leave = move || {
        // What is waited for by the client is told to it, or it would wait on.
        while let Some(change) = consumer.context().changes().pop_front() {
            match change {
                Change::Revoked { partitions, .. } => give_back(&consumer, &partitions),
                Change::Assigned(partitions) => decline(&consumer, &partitions),
            }
        }
        // An older offset that is on its way comes first. The thread is also the other hold on the consumer, which leaves the
        // group when the last is gone.
        if let Some(waiter) = waiter {
            let _ = waiter.join();
        }
        if let Some(rest) = rest
            && let Err(error) = consumer.commit(&rest, CommitMode::Sync)
        {
            tracing::warn!("{}: the last offsets could not be committed: {error}", consumer.context().voice.place());
        }
        drop(consumer);
        // Nobody waits any more when it took too long.
        let _ = sender.send(());
    };
    thread::Builder::new().name("leave Kafka".to_owned()).spawn(leave).ok().map(|_| receiver)
}

#[cfg(test)]
pub(super) mod tests {
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::DefaultProducerContext;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
    use serde_json::json;

    use super::super::ingest::KafkaIngest;
    use super::*;
    use crate::conformance::anything;

    pub type Broker = MockCluster<'static, DefaultProducerContext>;

    /// A member of a group at a broker that answers like this whenever it is asked who keeps the group.
    fn member_of(broker: &Broker, answer: RDKafkaRespErr) -> Records {
        broker.create_topic("t", 1, 1).unwrap();
        broker.request_errors(RDKafkaApiKey::FindCoordinator, &[answer; 1000]);
        open(broker, OffsetReset::Earliest, Offsets::default())
    }

    pub fn open(broker: &Broker, reset: OffsetReset, from: Offsets) -> Records {
        let definition = json!({"topics": ["t"], "bootstrapServers": broker.bootstrap_servers(), "groupId": "g"});
        let ingest: KafkaIngest = serde_json::from_value(definition).unwrap();
        let subscription =
            Subscription { topics: ingest.topics.clone(), group: "g".to_owned(), reset, ending_offset: None, tells: false };
        let (settings, runtime) = (ingest.client("stream").unwrap(), anything().runtime);
        Records::open("Kafka".to_owned(), settings, subscription, Policy::Never, from, &runtime).unwrap()
    }

    /// Where these partitions of the topic begin, as soon as the broker answers.
    fn wait_starts(records: &mut Records, numbers: &[i32]) -> Offsets {
        let consumer = records.consumer.clone().unwrap();
        let mut list = TopicPartitionList::new();
        for number in numbers {
            list.add_partition("t", *number);
        }
        let since = Instant::now();
        loop {
            match records.starts(&consumer, &list.elements(), &HashMap::new()) {
                Ok((starts, _)) => return starts,
                Err(error) => assert!(since.elapsed() < Duration::from_secs(60), "{error}"),
            }
        }
    }

    fn wait_trouble(records: &mut Records, part: &str) {
        let since = Instant::now();
        while !records.trouble().is_some_and(|trouble| trouble.contains(part)) {
            assert!(since.elapsed() < Duration::from_secs(60), "{:?}", records.trouble());
            records.next(&Limits::default(), &mut Frames::default()).unwrap();
        }
    }

    /// The client tells it once, and it was taken for over as soon as the topic could be seen.
    #[test]
    fn a_group_that_may_not_be_used_is_told_of_until_it_gives_partitions() {
        let broker = MockCluster::new(1).unwrap();
        let mut records = member_of(&broker, RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
        wait_trouble(&mut records, "Group authorization failed");
        let since = Instant::now();
        while since.elapsed() < 4 * LOOK_AGAIN {
            records.next(&Limits::default(), &mut Frames::default()).unwrap();
            assert!(records.trouble().is_some_and(|trouble| trouble.contains("Group authorization failed")));
        }
    }

    /// That the client does not tell at all.
    #[test]
    fn a_group_without_a_coordinator_is_told_of() {
        let broker = MockCluster::new(1).unwrap();
        let mut records = member_of(&broker, RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE);
        records.next(&Limits::default(), &mut Frames::default()).unwrap();
        assert!(records.ask_group_at > Instant::now() + GROUP_INTERVAL / 2);
        records.ask_group_at = Instant::now();
        wait_trouble(&mut records, "the coordinator of group g does not answer");
    }

    /// Of a partition that came after the backup, what lay before its own commit was in no graph.
    #[test]
    fn what_was_read_after_the_backup_that_was_put_back_is_read_again() {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("t", 3, 1).unwrap();
        let (mut position, mut other) = (Offsets::default(), Offsets::default());
        position.name();
        position.set("t", 0, 5);
        other.name();
        // Later only members of the group may commit.
        let servers = broker.bootstrap_servers();
        let committer = rdkafka::ClientConfig::new().set("bootstrap.servers", servers).set("group.id", "g").create();
        let committer: BaseConsumer = committer.unwrap();
        let since = Instant::now();
        for list in [position.signed_list([("t", 0, 9), ("t", 1, 100)]), other.signed_list([("t", 2, 7)])] {
            while let Err(error) = committer.commit(&list, CommitMode::Sync) {
                assert!(since.elapsed() < Duration::from_secs(60), "{error}");
            }
        }
        drop(committer);
        let starts_of = |reset: OffsetReset, position: &Offsets| {
            let starts = wait_starts(&mut open(&broker, reset, position.clone()), &[0, 1, 2]);
            [0, 1, 2].map(|number| starts.get("t", number))
        };
        assert_eq!(starts_of(OffsetReset::Earliest, &position), [Some(5), None, Some(7)]);
        assert_eq!(starts_of(OffsetReset::Latest, &position), [Some(5), None, Some(7)]);
        // Where nothing is known of the topic its own commits are the best there is, but where all of it is wanted.
        position.forget("t");
        assert_eq!(starts_of(OffsetReset::Earliest, &position), [None, None, Some(7)]);
        assert_eq!(starts_of(OffsetReset::Latest, &position), [Some(9), Some(100), Some(7)]);
    }

    #[test]
    fn a_partition_of_others_whose_end_nobody_tells_holds_up_nobody() {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("t", 3, 1).unwrap();
        broker.partition_leader("t", 1, None).unwrap();
        let starts = wait_starts(&mut open(&broker, OffsetReset::Latest, Offsets::default()), &[0]);
        assert_eq!((starts.get("t", 0), starts.noted("t", 1), starts.noted("t", 2)), (Some(0), None, Some(0)));
    }

    /// A stream that had been away for half a minute asked at once, before its group could have given it anything.
    #[test]
    fn a_new_client_gives_its_group_time() {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("t", 1, 1).unwrap();
        let mut records = open(&broker, OffsetReset::Earliest, Offsets::default());
        records.ask_group_at = Instant::now();
        records.start_over().unwrap();
        assert!(records.ask_group_at > Instant::now() + GROUP_INTERVAL / 2);
        records.ask_group_at = Instant::now();
        leave(records.consumer.take().unwrap(), None, None);
        records.come_back(true).unwrap();
        assert!(records.ask_group_at > Instant::now() + GROUP_INTERVAL / 2);
    }

    /// It failed for good: many may want one at once.
    #[test]
    fn a_stream_for_which_there_can_be_no_client_at_the_moment_has_one_later() {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("t", 1, 1).unwrap();
        let mut records = open(&broker, OffsetReset::Earliest, Offsets::default());
        leave(records.consumer.take().unwrap(), None, None);
        let reason = "Failed to create thread: Resource temporarily unavailable (11)";
        let begun = Instant::now();
        assert!(matches!(records.take_client(Err(failed("Kafka", reason, is_shortage(reason)))), Ok(false)));
        assert!(records.connect_at > begun && records.trouble().is_some_and(|trouble| trouble.contains(reason)));
        records.connect_at = begun + Duration::from_secs(3600);
        records.start_over().unwrap();
        records.come_back(true).unwrap();
        let begun = Instant::now();
        records.next(&Limits::default(), &mut Frames::default()).unwrap();
        assert!(begun.elapsed() >= Limits::default().wait_max, "whoever asks would ask again and again");
        assert!(records.consumer.is_none());
        records.connect_at = Instant::now();
        records.next(&Limits::default(), &mut Frames::default()).unwrap();
        assert!(records.consumer.is_some() && records.no_client.is_none());

        assert!(is_shortage("ssl.ca.location failed: error:80000018:system library::Too many open files"));
        assert!(!is_shortage("`ssl.key.location` failed: error:80000002:system library::No such file or directory"));
        let wrong = failed("Kafka", "No provider for SASL mechanism X", false);
        records.consumer = None;
        assert!(records.take_client(Err(wrong)).is_err());
    }

    #[test]
    fn that_a_topic_may_not_be_read_is_over_where_it_is_others_to_read() {
        let broker = MockCluster::new(1).unwrap();
        broker.create_topic("t", 1, 1).unwrap();
        let mut records = open(&broker, OffsetReset::Earliest, Offsets::default());
        let refused = "Fetch from broker 1 failed: Broker: Topic authorization failed";
        records.consumer.as_ref().unwrap().context().voice.note(RDKafkaErrorCode::TopicAuthorizationFailed, refused);
        records.reading.assigned.push(Partition::new("t".to_owned(), 0, None));
        records.look_after_trouble();
        assert!(records.trouble().is_some());
        records.reading.assigned.clear();
        records.look_after_trouble();
        assert_eq!(records.trouble(), None);
    }

    #[test]
    fn short_holds_become_rare() {
        let time_max = Duration::from_secs(30);
        let after =
            |before: u64, held: u64| next_hold_after(Duration::from_secs(before), Duration::from_secs(held), time_max).as_secs();
        assert_eq!([after(5, 1), after(10, 29), after(20, 0), after(30, 0)], [10, 20, 30, 30]);
        assert_eq!([after(30, 30), after(5, 900)], [5, 5]);
        // It is polled in time also where it has little.
        let (little, long) = (Duration::from_secs(2), Duration::from_secs(60));
        assert_eq!([next_hold_after(little, Duration::ZERO, little), next_hold_after(little, long, little)], [little, little]);
    }
}
