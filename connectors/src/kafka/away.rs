//! A stream on which nothing comes gives up its client, and reads by way of the lookout.
//!
//!     own client ─ nothing for a while, alone in its group ─> away
//!     away ─ a record now and then: read from the inbox ─> away
//!     away ─ too much comes, or offsets are to be committed ─> own client, once it has its partitions
//!     away ─ somebody else is in the group, or the topic has changed ─> own client
//!
//! While it is away it is not in its group. So it takes nothing from the inbox, after a silence or a time in which nobody asked
//! for more, before it has seen that nobody else is in there; where somebody is, it joins, and begins as any member does. Named
//! partitions know no group, and nobody has to be asked.
//!
//! Where there can be no client at the moment it goes on with the inbox as long as that may be read, and tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::commits::Policy;
use super::ingest::Topics;
use super::lookout::{Counted, End, Inbox, Lookout, members};
use super::member::Member;
use super::records::{GROUP_INTERVAL, Records, Subscription, fatal, leave};
use crate::bell::Call;
use crate::error::ConnectorError;
use crate::frames::{Frames, Limits};

/// A stream goes away when nothing has come for this long, or a little longer; doubled each time it comes back.
const AWAY_AFTER: Duration = Duration::from_secs(30);
/// `AWAY_AFTER` is doubled up to this.
const AWAY_AFTER_MAX: Duration = Duration::from_secs(480);
/// A stream that could not go away, as there are others in its group, tries again after this.
const AWAY_AGAIN: Duration = Duration::from_secs(120);
/// When records come for longer, the stream has a client again.
const BUSY_TIME_MAX: Duration = Duration::from_secs(5);
/// A stream that commits offsets is away this long at most: brokers forget those of a group in which nobody is
/// (`offsets.retention.minutes`).
const AWAY_TIME_MAX: Duration = Duration::from_secs(6 * 3600);
/// A stream that commits no offsets is away this long at most.
const NO_OFFSETS_AWAY_TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// When no record was taken for this long, somebody may have joined its group meanwhile.
const SILENCE: Duration = Duration::from_secs(1);
/// While both its client and the inbox may have something.
const SLICE: Duration = Duration::from_millis(10);
/// For one question to the broker.
const ASK_TIME_MAX: Duration = Duration::from_secs(1);

/// What a stream has instead of a client.
pub struct Away {
    lookout: Arc<Lookout>,
    inbox: Arc<Inbox>,
    /// What has been counted of each topic that is read.
    counts: Vec<Counted>,
    /// Nobody else was in the group when the first record came. Forgotten when it rests or is held, and in a silence.
    alone: bool,
    /// Since when records come.
    busy: Instant,
    /// When the last record was taken, or none was there to be taken yet.
    taken: Instant,
}

impl Away {
    /// As a source rests.
    pub fn rest(&mut self, call: Call) -> bool {
        self.alone = false;
        self.inbox.arm(call)
    }

    /// Nobody asks for more.
    pub fn hold(&mut self) {
        self.alone = false;
    }

    pub fn trouble(&self) -> Option<String> {
        self.lookout.trouble()
    }

    /// How many records it has been handed, and has not taken.
    pub fn waiting(&self) -> usize {
        self.inbox.waiting()
    }

    /// Where these partitions end, as the brokers say.
    pub fn ends(&self, partitions: TopicPartitionList, time_max: Duration) -> Option<TopicPartitionList> {
        self.lookout.ends(partitions, time_max)
    }
}

/// Whether a stream may be away at all. A pattern may come to mean other topics; who gives its member a name wants it to stay.
pub fn is_possible(subscription: &Subscription, is_static: bool) -> bool {
    subscription.ending_offset.is_none()
        && match &subscription.topics {
            Topics::Assigned(_) => true,
            Topics::Subscribed(topics) => !is_static && topics.iter().all(|topic| !topic.starts_with('^')),
        }
}

/// How long nothing comes before the next stream goes away. A little different for each: brokers are asked by those who go, and
/// thousands may have begun at once.
pub fn after() -> Duration {
    static STREAMS: AtomicU64 = AtomicU64::new(0);
    AWAY_AFTER + Duration::from_millis(STREAMS.fetch_add(1, Ordering::Relaxed) % 64 * 125)
}

impl Records {
    /// Gives up the client, if it may and it is time.
    pub(super) fn go_away(&mut self) {
        if !self.may_go_away || Instant::now() < self.away_at || !self.is_done() {
            return;
        }
        let Some(consumer) = self.consumer.clone() else { return };
        let away = self.counts(&consumer).and_then(|counts| Some((counts, Lookout::of(&self.place, &self.settings).ok()?)));
        let Some((counts, lookout)) = away else {
            self.away_at = Instant::now() + AWAY_AGAIN;
            return;
        };
        let inbox = self.join(&lookout, &counts);
        if matches!(self.subscription.topics, Topics::Subscribed(_)) {
            // Who joins the group from now on may read them.
            self.ours.clear();
        }
        self.asking = None;
        let now = Instant::now();
        self.away = Some(Away { lookout, inbox, counts, alone: false, busy: now, taken: now });
        self.consumer = None;
        let rest = self.commits.rest(|topic, number| self.reading.reads(topic, number));
        leave(consumer, rest, self.commits.end());
        tracing::debug!("{}: nothing comes, and the client is given up", self.place);
    }

    /// How many partitions its topics have, where all are its own and nobody else is in the group.
    fn counts(&self, consumer: &BaseConsumer<Member>) -> Option<Vec<Counted>> {
        let count = |topic: &String| {
            let metadata = consumer.fetch_metadata(Some(topic), ASK_TIME_MAX).ok()?;
            let found = metadata.topics().iter().find(|found| found.name() == topic)?;
            let (count, id) = (found.partitions().len(), self.reading.read.id(topic));
            found.error().is_none().then(|| Counted { topic: topic.clone(), count, id })
        };
        match &self.subscription.topics {
            Topics::Assigned(topics) => topics.keys().map(count).collect(),
            Topics::Subscribed(topics) => {
                if members(consumer, &self.subscription.group) != Some(1) {
                    return None;
                }
                let counts: Vec<Counted> = topics.iter().map(count).collect::<Option<_>>()?;
                let own = |topic: &str| self.reading.assigned.iter().filter(|partition| partition.topic == topic).count();
                counts.iter().all(|of| own(&of.topic) == of.count).then_some(counts)
            }
        }
    }

    fn join(&self, lookout: &Lookout, counts: &[Counted]) -> Arc<Inbox> {
        let commits = !matches!(self.commits.policy(), Policy::Never);
        let time_max = if commits { AWAY_TIME_MAX } else { NO_OFFSETS_AWAY_TIME_MAX };
        let partitions = self.reading.assigned.iter().map(|partition| partition.place()).collect();
        lookout.join(partitions, counts.to_vec(), Instant::now() + time_max)
    }

    /// Takes what is in the inbox. Where there is a client, it has no partitions yet.
    pub(super) fn next_from_inbox(
        &mut self,
        limits: &Limits,
        deadline: Instant,
        batch: &mut Frames,
    ) -> Result<(), ConnectorError> {
        let Some(away) = &mut self.away else { return Ok(()) };
        let wait = deadline.saturating_duration_since(Instant::now());
        match &self.consumer {
            None => away.inbox.wait(wait),
            Some(consumer) => {
                // Nothing is read by it: what it is given comes by way of its callback.
                if let Some(Err(error)) = consumer.poll(Duration::ZERO)
                    && let Some(failure) = fatal(consumer, &error)
                {
                    return Err(failure);
                }
                away.inbox.wait(wait.min(SLICE));
            }
        }
        // With a client it is in its group again.
        let silence = self.consumer.is_none() && away.taken.elapsed() >= SILENCE;
        if (silence || !away.alone) && away.inbox.has_records() {
            if let Topics::Subscribed(_) = self.subscription.topics
                && (Instant::now() < self.connect_at || !away.lookout.is_empty(&self.subscription.group))
            {
                return self.come_back_at_once(deadline);
            }
            if !away.alone {
                away.busy = Instant::now();
            }
            away.alone = true;
        } else if silence {
            away.alone = false;
        }
        while !batch.full(limits)
            && let Some(record) = away.inbox.pop()
        {
            away.taken = Instant::now();
            self.reading
                .take_at(record.index, record.offset, record.payload.as_deref(), batch, |origin| origin.raw(&record.origin));
        }
        let ended = away.inbox.end_after_all();
        let commits = !matches!(self.commits.policy(), Policy::Never);
        let is_busy = !batch.is_empty() && (commits || away.busy.elapsed() > BUSY_TIME_MAX);
        self.reading.note();
        match ended {
            // What was read goes first.
            Some(End::Over) => self.come_back_at_once(if batch.is_empty() { deadline } else { Instant::now() }),
            Some(End::Full) => {
                self.come_back(false)?;
                // It may take a while until the client has its partitions.
                if let Some(Away { lookout, counts, busy, taken, .. }) = self.away.take() {
                    let inbox = self.join(&lookout, &counts);
                    self.away = Some(Away { lookout, inbox, counts, alone: true, busy, taken });
                }
                Ok(())
            }
            None if is_busy => self.come_back(false),
            None => {
                // No client is needed at the moment, so nothing is wrong.
                self.no_client = None;
                Ok(())
            }
        }
    }

    /// As `come_back`, where nothing more may be read from the inbox. Where there can be no client yet, this waits.
    fn come_back_at_once(&mut self, deadline: Instant) -> Result<(), ConnectorError> {
        self.come_back(true)?;
        if self.consumer.is_none() {
            thread::sleep(deadline.saturating_duration_since(Instant::now()));
        }
        Ok(())
    }

    /// Has a client of its own again, as soon as there can be one. `at_once`: nothing more is read from the inbox, also not until
    /// it has its partitions.
    pub(super) fn come_back(&mut self, at_once: bool) -> Result<(), ConnectorError> {
        // Its group has to give it partitions first.
        self.ask_group_at = Instant::now() + GROUP_INTERVAL;
        let had = self.consumer.is_some();
        if !self.have_client()? {
            return Ok(());
        }
        if !had {
            self.away_after = (self.away_after * 2).min(AWAY_AFTER_MAX);
        }
        if at_once {
            self.leave_lookout();
        }
        Ok(())
    }

    /// From now on its client reads.
    pub(super) fn leave_lookout(&mut self) {
        if self.away.take().is_some() {
            self.reading.note();
            self.reading.assigned.clear();
            self.reading.forget_addresses();
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::ClientConfig;
    use rdkafka::mocking::MockCluster;
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

    use super::super::ingest::OffsetReset;
    use super::super::offsets::Offsets;
    use super::super::reading::Partition;
    use super::super::records::tests::{Broker, open};
    use super::*;
    use crate::source::Source;

    /// Later than any test takes.
    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    fn ago(time: Duration) -> Instant {
        Instant::now().checked_sub(time).unwrap()
    }

    /// A stream that has gone away, has seen that it is alone in its group, and has just taken a record. It is at a broker that
    /// does not say who is in groups.
    fn gone(broker: &Broker) -> Records {
        broker.create_topic("t", 1, 1).unwrap();
        let mut records = open(broker, OffsetReset::Earliest, Offsets::default());
        leave(records.consumer.take().unwrap(), None, None);
        records.reading.assigned.push(Partition::new("t".to_owned(), 0, Some(0)));
        let lookout = Lookout::of(&records.place, &records.settings).unwrap();
        let inbox = records.join(&lookout, &[]);
        records.away = Some(Away { lookout, inbox, counts: Vec::new(), alone: true, busy: later(), taken: later() });
        records
    }

    /// A record comes, and waits in the inbox.
    fn produce(broker: &Broker, records: &Records) {
        let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", broker.bootstrap_servers()).create().unwrap();
        producer.send(BaseRecord::<(), str>::to("t").partition(0).payload("x")).map_err(|(error, _)| error).unwrap();
        producer.flush(Duration::from_secs(60)).unwrap();
        let since = Instant::now();
        while !records.away.as_ref().unwrap().inbox.has_records() {
            assert!(since.elapsed() < Duration::from_secs(60), "{:?}", records.trouble());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn read(records: &mut Records) -> usize {
        let mut batch = Frames::default();
        records.next(&Limits::default(), &mut batch).unwrap();
        batch.len()
    }

    /// A stream that does not rest asked once, for the first record, and later read beside members that had joined meanwhile.
    #[test]
    fn after_a_silence_or_a_pause_it_is_asked_again_who_is_in_the_group() {
        for silence in [false, true] {
            let broker = MockCluster::new(1).unwrap();
            let mut records = gone(&broker);
            produce(&broker, &records);
            assert_eq!(read(&mut records), 1, "it has asked");
            produce(&broker, &records);
            if silence {
                records.away.as_mut().unwrap().taken = ago(SILENCE);
            } else {
                records.away.as_mut().unwrap().taken = later();
                records.hold_at = Instant::now();
                records.hold();
            }
            assert_eq!(read(&mut records), 0, "nobody says that it is alone");
            assert!(records.away.is_none() && records.consumer.is_some(), "it joins its group");
        }
    }

    /// It failed for good.
    #[test]
    fn it_reads_on_from_the_inbox_while_there_can_be_no_client() {
        let broker = MockCluster::new(1).unwrap();
        let mut records = gone(&broker);
        records.connect_at = later();
        for client in [false, true] {
            produce(&broker, &records);
            let away = records.away.as_mut().unwrap();
            (away.busy, away.taken) = (ago(2 * BUSY_TIME_MAX), later());
            assert_eq!(read(&mut records), 1);
            assert_eq!((records.consumer.is_some(), records.away.is_some()), (client, true));
            records.connect_at = Instant::now();
        }
    }
}
