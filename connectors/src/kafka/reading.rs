//! How far each partition has been read, record by record.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message, Timestamp};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::member::{Change, Member};
use super::offsets::Offsets;
use crate::frames::Frames;
use crate::origin::Origin;

/// For one question to the broker.
const ASK_TIME_MAX: Duration = Duration::from_secs(1);
/// A partition is read without the others of its number this long, at most.
const ALONE_TIME_MAX: Duration = Duration::from_secs(10);

/// How far the partitions have been read.
pub struct Reading {
    /// How far every partition is read that was ever ours. Of the others it may be noted where they stood.
    pub read: Offsets,
    pub assigned: Vec<Partition>,
    /// Partitions, by topic, in which the client went back as the offset was beyond their end: that of a topic that was made
    /// anew.
    went_back: BTreeMap<String, BTreeSet<i32>>,
    ending_offset: Option<i64>,
    /// Numbers of partitions whose end was reported: it may be that of a partition that has not come past the ending offset.
    doubted: BTreeSet<i32>,
    alone: Option<Alone>,
    /// Where each record comes from is told, too.
    tells: bool,
    /// Finds the partition of a record by the address of its topic, which is the topic's as long as the assignment lasts.
    found: HashMap<(usize, i32), usize>,
    last: Option<(usize, i32, usize)>,
    skipped: u64,
}

/// A partition that is read without those of its number in other topics: the next end that is reported is its own.
struct Alone {
    topic: String,
    number: i32,
    until: Instant,
}

pub struct Partition {
    pub topic: String,
    pub number: i32,
    /// The offset it began at, and that of the next record; None where the client decides it.
    start: Option<i64>,
    next: Option<i64>,
    /// Read, and not noted in `read` yet.
    touched: bool,
    /// The ending offset has been reached.
    finished: bool,
    /// A record has come since that was asked for (`listen`).
    heard: bool,
}

impl Partition {
    pub fn new(topic: String, number: i32, next: Option<i64>) -> Partition {
        Partition { topic, number, start: next, next, touched: false, finished: false, heard: false }
    }

    /// Topic, number, and the offset of the record that comes next; -1 is the first there is.
    pub fn place(&self) -> (String, i32, i64) {
        (self.topic.clone(), self.number, self.next.unwrap_or(-1))
    }

    /// Whether records were read of it that are not durable.
    pub fn touched_since(&self, durable: &Offsets) -> bool {
        // What was read of it may be the first of it, so that nothing is known to be durable.
        let waits = |read: i64| durable.get(&self.topic, self.number).is_none_or(|durable| durable < read);
        self.touched || (self.next != self.start && self.next.is_some_and(waits))
    }

    /// Nothing more of it is wanted.
    fn finish(&mut self, ending: i64, consumer: &BaseConsumer<Member>) {
        self.next = Some(ending + 1);
        self.touched = true;
        self.finish_at(Some(ending), consumer);
    }

    /// Ends the partition when it has come past the ending offset.
    pub fn finish_at(&mut self, ending: Option<i64>, consumer: &BaseConsumer<Member>) {
        if !self.finished && ending.is_some_and(|ending| self.next.is_some_and(|next| next > ending)) {
            self.finished = true;
            let mut list = TopicPartitionList::new();
            list.add_partition(&self.topic, self.number);
            let _ = consumer.pause(&list);
        }
    }
}

/// Where a partition begins, if that is known, and ends.
pub struct Extent {
    pub begin: Option<i64>,
    pub end: i64,
}

/// Where a record comes from, in the words of the client that Kafka itself has.
pub fn tell_of(message: &BorrowedMessage<'_>, origin: &mut Origin<'_>) {
    origin.text("topic", message.topic());
    origin.integer("partition", message.partition().into());
    origin.integer("offset", message.offset());
    let (kind, millis) = match message.timestamp() {
        Timestamp::CreateTime(millis) => ("CreateTime", Some(millis)),
        Timestamp::LogAppendTime(millis) => ("LogAppendTime", Some(millis)),
        Timestamp::NotAvailable => ("NoTimestampType", None),
    };
    origin.integer("timestamp", millis.unwrap_or(-1));
    origin.text("timestampType", kind);
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
    origin.integer("serializedKeySize", size(message.key()));
    origin.integer("serializedValueSize", size(message.payload()));
    if let Some(key) = message.key() {
        origin.bytes("key", key);
    }
    if let Some(headers) = message.headers().filter(|headers| headers.count() > 0) {
        origin.maps("headers", headers.iter(), |one, header| {
            one.text("key", header.key);
            if let Some(value) = header.value {
                one.bytes("value", value);
            }
        });
    }
}

impl Reading {
    pub fn new(read: Offsets, ending_offset: Option<i64>, tells: bool) -> Reading {
        Reading {
            read,
            assigned: Vec::new(),
            went_back: BTreeMap::new(),
            ending_offset,
            doubted: BTreeSet::new(),
            alone: None,
            tells,
            found: HashMap::new(),
            last: None,
            skipped: 0,
        }
    }

    pub fn forget_addresses(&mut self) {
        self.found.clear();
        self.last = None;
        // There are other partitions than before, and one that is new does not wait.
        if let Some(alone) = &mut self.alone {
            alone.until = Instant::now();
        }
    }

    /// The topic was made anew, and what was read of the one before says nothing of it. Whether the client reads on where that
    /// one stood.
    pub fn forget(&mut self, topic: &str) -> bool {
        self.note();
        let again = self.went_back.remove(topic).unwrap_or_default();
        let again = again.into_iter().filter_map(|number| Some((number, self.read.get(topic, number)?)));
        let again: BTreeMap<i32, i64> = again.collect();
        self.read.forget(topic);
        for (number, next) in &again {
            self.read.set(topic, *number, *next);
        }
        let mut reads_on = false;
        let partitions = self.assigned.iter_mut().filter(|partition| partition.topic == topic);
        for partition in partitions.filter(|partition| !again.contains_key(&partition.number)) {
            partition.next = None;
            reads_on = true;
        }
        reads_on
    }

    /// It is the topic that it was.
    pub fn is_same(&mut self, topic: &str) {
        self.went_back.remove(topic);
    }

    /// Where the partition of a record lies in `assigned`.
    fn index(&mut self, message: &BorrowedMessage<'_>) -> Option<usize> {
        let (address, number) = (message.topic_ptr() as usize, message.partition());
        if let Some((a, n, index)) = self.last
            && (a, n) == (address, number)
        {
            return Some(index);
        }
        let index = match self.found.get(&(address, number)) {
            Some(index) => *index,
            None => {
                let same = |partition: &Partition| partition.number == number && partition.topic == message.topic();
                let index = self.assigned.iter().position(same)?;
                self.found.insert((address, number), index);
                index
            }
        };
        self.last = Some((address, number, index));
        Some(index)
    }

    pub fn take(&mut self, message: &BorrowedMessage<'_>, consumer: &BaseConsumer<Member>, batch: &mut Frames) {
        // A record of a partition that has just been given back.
        let Some(index) = self.index(message) else { return };
        self.take_at(index, message.offset(), message.payload(), batch, |origin| tell_of(message, origin));
        let Some(ending) = self.ending_offset else { return };
        if message.offset() >= ending
            && let Some(partition) = self.assigned.get_mut(index)
        {
            partition.finish(ending, consumer);
        }
        let number = message.partition();
        if self.alone.take_if(|alone| alone.number == number && alone.topic == message.topic()).is_some() {
            // It has not ended.
            self.resume(consumer, |partition| partition.number == number);
        }
    }

    /// As `take`, for a record whose partition is known, by its place in `assigned`.
    pub fn take_at(
        &mut self,
        index: usize,
        offset: i64,
        payload: Option<&[u8]>,
        batch: &mut Frames,
        tell: impl FnOnce(&mut Origin<'_>),
    ) {
        let ending = self.ending_offset;
        let Some(partition) = self.assigned.get_mut(index).filter(|partition| !partition.finished) else { return };
        let wanted = ending.is_none_or(|ending| offset <= ending);
        if partition.next.is_some_and(|next| offset < next) {
            self.went_back.entry(partition.topic.clone()).or_default().insert(partition.number);
        }
        partition.next = Some(offset + 1);
        partition.heard = true;
        if wanted {
            partition.touched = true;
            match payload {
                Some(payload) => {
                    batch.push(payload);
                    if self.tells {
                        batch.tell(tell);
                    }
                }
                None => {
                    self.skipped += 1;
                    if self.skipped == 1 {
                        let Partition { topic, number, .. } = partition;
                        tracing::info!(
                            "records without a value are skipped; the first is at offset {offset} of {topic}[{number}]"
                        );
                    }
                }
            }
        }
    }

    /// The end of a partition with this number has been reached. The client does not say of which topic, nor where that was: only
    /// what it has handed out tells. It counts marks of transactions as handed out.
    pub fn ended(&mut self, number: i32, consumer: &BaseConsumer<Member>) {
        let Some(ending) = self.ending_offset else { return };
        let alone = self.alone.take_if(|alone| alone.number == number && alone.until > Instant::now());
        let at = consumer.position().ok();
        let handed_out = |topic: &str| match at.as_ref()?.find_partition(topic, number)?.offset() {
            Offset::Offset(next) => Some(next),
            _ => None,
        };
        for partition in self.assigned.iter_mut().filter(|partition| partition.number == number && !partition.finished) {
            let is_alone = alone.as_ref().is_some_and(|alone| alone.topic == partition.topic);
            if is_alone || handed_out(&partition.topic).is_some_and(|next| next > ending) {
                partition.finish(ending, consumer);
            } else {
                self.doubted.insert(number);
            }
        }
        if alone.is_some() {
            self.resume(consumer, |partition| partition.number == number);
        }
    }

    /// Looks after partitions of which nothing is left before the ending offset, though nothing behind it was handed out: records
    /// at the end were compacted away, or all have expired. Only where nothing else comes, since it holds others up.
    pub fn look_after_ends(&mut self, nothing_comes: bool, consumer: &BaseConsumer<Member>) {
        let Some(ending) = self.ending_offset else { return };
        if let Some(alone) = self.alone.take_if(|alone| alone.until <= Instant::now()) {
            self.resume(consumer, |partition| partition.number == alone.number);
        }
        if self.alone.is_some() || !nothing_comes || !consumer.context().changes().is_empty() {
            return;
        }
        while let Some(number) = self.doubted.pop_first() {
            for partition in self.assigned.iter().filter(|partition| partition.number == number && !partition.finished) {
                let end = consumer.fetch_watermarks(&partition.topic, number, ASK_TIME_MAX).map(|(_, end)| end);
                if end.as_ref().is_ok_and(|end| *end <= ending) {
                    continue;
                }
                self.doubted.insert(number);
                if end.is_ok() {
                    // Whoever goes on after a pause is told of its end once more, and what was told before the pause is not heard
                    // any more. So its end will be this one or a later one.
                    let _ = consumer.pause(&self.unfinished(|partition| partition.number == number));
                    let mut list = TopicPartitionList::new();
                    list.add_partition(&partition.topic, number);
                    let _ = consumer.resume(&list);
                    self.alone = Some(Alone { topic: partition.topic.clone(), number, until: Instant::now() + ALONE_TIME_MAX });
                }
                return;
            }
        }
    }

    /// Nothing is read until `go_on`. What the client has read ahead it drops, and reads again then.
    pub fn hold(&mut self, consumer: &BaseConsumer<Member>) {
        // All go on together, and the ends are told once more.
        self.alone = None;
        let _ = consumer.pause(&self.unfinished(|_| true));
    }

    pub fn go_on(&self, consumer: &BaseConsumer<Member>) {
        self.resume(consumer, |_| true);
    }

    /// The partitions that are wanted are read again, also those that waited for another one.
    fn resume(&self, consumer: &BaseConsumer<Member>, wanted: impl Fn(&Partition) -> bool) {
        // What is on its way to another member stays paused.
        let changes = consumer.context().changes();
        let leaves = |partition: &Partition| {
            changes.iter().any(|change| match change {
                Change::Revoked { partitions, .. } => partitions.find_partition(&partition.topic, partition.number).is_some(),
                Change::Assigned(_) => false,
            })
        };
        let list = self.unfinished(|partition| wanted(partition) && !leaves(partition));
        drop(changes);
        let _ = consumer.resume(&list);
    }

    fn unfinished(&self, wanted: impl Fn(&Partition) -> bool) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in self.assigned.iter().filter(|partition| !partition.finished && wanted(partition)) {
            list.add_partition(&partition.topic, partition.number);
        }
        list
    }

    pub fn note(&mut self) {
        for partition in self.assigned.iter_mut().filter(|partition| partition.touched) {
            partition.touched = false;
            if let Some(next) = partition.next {
                self.read.set(&partition.topic, partition.number, next);
            }
        }
    }

    /// How many records there are to be read, of those partitions of which it is known; None where it is of none. `handed_out` is
    /// where the client itself is: it has passed marks of transactions, which are no records.
    pub fn lag(&self, handed_out: &HashMap<(&str, i32), i64>, extent: impl Fn(&str, i32) -> Option<Extent>) -> Option<u64> {
        let of = |partition: &Partition| {
            let Extent { begin, end } = extent(&partition.topic, partition.number)?;
            let handed_out = handed_out.get(&(partition.topic.as_str(), partition.number)).copied();
            let next = partition.next.max(handed_out).max(begin)?;
            let end = self.ending_offset.map_or(end, |ending| end.min(ending.saturating_add(1)));
            Some(u64::try_from(end.saturating_sub(next)).unwrap_or(0))
        };
        self.assigned.iter().filter_map(of).reduce(|sum, lag| sum + lag)
    }

    /// From now on it is noted of which topics records come.
    pub fn listen(&mut self) {
        self.assigned.iter_mut().for_each(|partition| partition.heard = false);
    }

    /// Whether records have come of all topics of which more is wanted.
    pub fn hears_all(&self) -> bool {
        let heard = self.assigned.iter().filter(|partition| partition.heard);
        let heard: BTreeSet<&str> = heard.map(|partition| partition.topic.as_str()).collect();
        self.assigned.iter().all(|partition| partition.finished || heard.contains(partition.topic.as_str()))
    }

    pub fn is_finished(&self) -> bool {
        !self.assigned.is_empty() && self.assigned.iter().all(|partition| partition.finished)
    }

    pub fn reads(&self, topic: &str, number: i32) -> bool {
        self.assigned.iter().any(|partition| partition.number == number && partition.topic == topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_noted_of_which_topics_records_come() {
        let mut reading = Reading::new(Offsets::default(), None, false);
        for (topic, number) in [("a", 0), ("a", 1), ("b", 0)] {
            reading.assigned.push(Partition::new(topic.to_owned(), number, None));
        }
        let mut batch = Frames::default();
        let mut take = |reading: &mut Reading, index| reading.take_at(index, 0, Some(b"x".as_slice()), &mut batch, |_| {});
        assert!(!reading.hears_all());
        take(&mut reading, 0);
        assert!(!reading.hears_all());
        take(&mut reading, 2);
        assert!(reading.hears_all());
        reading.listen();
        take(&mut reading, 2);
        assert!(!reading.hears_all());
        // One partition speaks for its topic.
        take(&mut reading, 1);
        assert!(reading.hears_all());
        // Nothing comes of one that has ended.
        reading.listen();
        take(&mut reading, 1);
        assert!(!reading.hears_all());
        reading.assigned[2].finished = true;
        assert!(reading.hears_all());
    }
}
