//! The position of a stream from Kafka: for each partition the offset of the record that comes next, and of which topic of that
//! name they are. What a definition that is read again starts at, and what is committed to the broker when it is durable.

use std::collections::BTreeMap;
use std::slice;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Map as JsonMap, Value as Json};
use weir_model::Position;

use super::failed;
use super::topics::TopicId;
use crate::error::ConnectorError;
use crate::names;

/// In a position the halves of a topic's id stand as offsets of partitions that there are not. So positions of before are read,
/// and an older weir reads these.
const ID_PARTITIONS: [i32; 2] = [-1, -2];

/// What is noted of a partition stands so far below this one, for the same reason.
const NOTED: i32 = -3;

/// Under this name, which no topic has, stands whose position it is, as the id of a topic does: an older weir reads that, too,
/// and keeps it.
const READER: &str = "";

/// What stands with an offset that a weir has committed; behind it, which stream that was.
const SIGN: &str = "weir ";

/// By topic, by partition.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Offsets(BTreeMap<String, Topic>);

#[derive(Clone, Default, PartialEq, Debug)]
struct Topic {
    /// None where no broker has told it.
    id: Option<TopicId>,
    partitions: BTreeMap<i32, i64>,
    /// Where partitions stood that were others' when the stream began with the topic, and that it has not begun with since. Of no
    /// account where their group says more.
    noted: BTreeMap<i32, i64>,
}

impl Offsets {
    pub fn get(&self, topic: &str, partition: i32) -> Option<i64> {
        self.0.get(topic)?.partitions.get(&partition).copied()
    }

    /// Which topic of that name was read.
    pub fn id(&self, topic: &str) -> Option<TopicId> {
        self.0.get(topic)?.id
    }

    pub fn set_id(&mut self, topic: &str, id: TopicId) {
        self.0.entry(topic.to_owned()).or_default().id = Some(id);
    }

    /// Whether it says whose it is.
    pub fn is_named(&self) -> bool {
        self.id(READER).is_some()
    }

    /// From now on it is that of this stream, whatever is done to its definition and wherever its store is taken.
    pub fn name(&mut self) {
        self.set_id(READER, TopicId(names::random() as i64, names::random() as i64));
    }

    fn sign(&self) -> Option<String> {
        self.id(READER).map(|TopicId(high, low)| format!("{SIGN}{high:016x}{low:016x}"))
    }

    /// Whether what stands with a committed offset says that another weir, or another stream of this one, has committed it.
    pub fn is_of_another(&self, note: &[u8]) -> bool {
        note.starts_with(SIGN.as_bytes()) && self.sign().is_some_and(|sign| sign.as_bytes() != note)
    }

    /// Whether it was this very stream.
    pub fn is_own(&self, note: &[u8]) -> bool {
        self.sign().is_some_and(|sign| sign.as_bytes() == note)
    }

    /// The topic is another one than that of which something is known.
    pub fn forget(&mut self, topic: &str) {
        self.0.remove(topic);
    }

    /// Leaves out what concerns other topics than those in `now`, which may have the same names.
    pub fn only_of(&mut self, now: &Offsets) {
        self.0.retain(|name, topic| topic.id.zip(now.id(name)).is_none_or(|(then, now)| then == now));
    }

    pub fn set(&mut self, topic: &str, partition: i32, offset: i64) {
        match self.0.get_mut(topic) {
            Some(topic) => {
                topic.partitions.insert(partition, offset);
                topic.noted.remove(&partition);
            }
            None => {
                let partitions = BTreeMap::from([(partition, offset)]);
                self.0.insert(topic.to_owned(), Topic { partitions, ..Topic::default() });
            }
        }
    }

    pub fn unset(&mut self, topic: &str, partition: i32) {
        if let Some(topic) = self.0.get_mut(topic) {
            topic.partitions.remove(&partition);
        }
    }

    /// Where a partition stood that the stream has not begun with.
    pub fn noted(&self, topic: &str, partition: i32) -> Option<i64> {
        self.0.get(topic)?.noted.get(&partition).copied()
    }

    pub fn note(&mut self, topic: &str, partition: i32, offset: i64) {
        let topic = self.0.entry(topic.to_owned()).or_default();
        if !topic.partitions.contains_key(&partition) {
            topic.noted.insert(partition, offset);
        }
    }

    /// Whether the stream has begun with any partition of the topic.
    pub fn knows(&self, topic: &str) -> bool {
        self.0.get(topic).is_some_and(|topic| !topic.partitions.is_empty() || !topic.noted.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        let of = |(name, topic)| {
            let (topic, Topic { partitions, .. }): (&String, &Topic) = (name, topic);
            partitions.iter().map(move |(partition, offset)| (topic.as_str(), *partition, *offset))
        };
        self.0.iter().flat_map(of)
    }

    /// All that is noted.
    pub fn all_noted(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        let of = |(name, topic)| {
            let (topic, Topic { noted, .. }): (&String, &Topic) = (name, topic);
            noted.iter().map(move |(partition, offset)| (topic.as_str(), *partition, *offset))
        };
        self.0.iter().flat_map(of)
    }

    /// As librdkafka takes it.
    pub fn list<'a>(offsets: impl IntoIterator<Item = (&'a str, i32, i64)>) -> TopicPartitionList {
        listed(offsets, None)
    }

    /// As it is committed: with whose offsets these are.
    pub fn signed_list<'a>(&self, offsets: impl IntoIterator<Item = (&'a str, i32, i64)>) -> TopicPartitionList {
        listed(offsets, self.sign().as_deref())
    }

    pub fn write(&self, position: &mut Position) {
        let out = &mut position.0;
        out.clear();
        // Who has read nothing has committed nothing, and needs no name.
        let reads = self.0.len() > 1 || !self.is_named();
        for (topic, Topic { id, partitions, noted }) in self.0.iter().filter(|_| reads) {
            let count = id.map_or(0, |_| ID_PARTITIONS.len()) + partitions.len() + noted.len();
            out.extend_from_slice(&(topic.len() as u16).to_le_bytes());
            out.extend_from_slice(topic.as_bytes());
            out.extend_from_slice(&(count as u32).to_le_bytes());
            let id = id.iter().flat_map(|TopicId(high, low)| ID_PARTITIONS.into_iter().zip([*high, *low]));
            let partitions = partitions.iter().map(|(partition, offset)| (*partition, *offset));
            let noted = noted.iter().map(|(partition, offset)| (NOTED.wrapping_sub(*partition), *offset));
            for (partition, offset) in id.chain(partitions).chain(noted) {
                out.extend_from_slice(&partition.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
            }
        }
    }

    pub fn read(place: &str, position: &Position) -> Result<Offsets, ConnectorError> {
        Offsets::parse(&position.0).ok_or_else(|| ConnectorError::Position {
            place: place.to_owned(),
            problem: "the stored position is not one of Kafka; delete the stream and create it anew".to_owned(),
        })
    }

    /// A position as people are shown it: by topic, by partition.
    pub fn shown(position: &[u8]) -> Option<Json> {
        let offsets = Offsets::parse(position)?;
        let topics = offsets.0.iter().filter(|(topic, _)| topic.as_str() != READER);
        let shown = topics.map(|(topic, of)| {
            let partitions = of.partitions.iter().map(|(partition, offset)| (partition.to_string(), Json::from(*offset)));
            (topic.clone(), Json::Object(partitions.collect()))
        });
        Some(Json::Object(shown.collect::<JsonMap<String, Json>>()))
    }

    fn parse(mut bytes: &[u8]) -> Option<Offsets> {
        let mut offsets = Offsets::default();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<2>()?;
            let (topic, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            let topic = std::str::from_utf8(topic).ok()?;
            let (count, mut rest) = rest.split_first_chunk::<4>()?;
            for _ in 0..u32::from_le_bytes(*count) {
                let (partition, after) = rest.split_first_chunk::<4>()?;
                let (offset, after) = after.split_first_chunk::<8>()?;
                let (partition, offset) = (i32::from_le_bytes(*partition), i64::from_le_bytes(*offset));
                match partition {
                    ..=NOTED => offsets.note(topic, NOTED - partition, offset),
                    _ => offsets.set(topic, partition, offset),
                }
                rest = after;
            }
            if let Some(topic) = offsets.0.get_mut(topic)
                && let [Some(high), Some(low)] = ID_PARTITIONS.map(|partition| topic.partitions.remove(&partition))
            {
                topic.id = Some(TopicId(high, low));
            }
            bytes = rest;
        }
        Some(offsets)
    }
}

fn listed<'a>(offsets: impl IntoIterator<Item = (&'a str, i32, i64)>, sign: Option<&str>) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for (topic, partition, offset) in offsets {
        let mut element = list.add_partition(topic, partition);
        // Refused are negative offsets only, and records have none.
        let _ = element.set_offset(Offset::Offset(offset));
        if let Some(sign) = sign {
            element.set_metadata(sign);
        }
    }
    list
}

/// What a broker knows a group to have committed, of these partitions; where it counts, by topic, partition, and what stands with
/// the offset.
pub fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    place: &str,
    patience: Duration,
    counts: impl Fn(&str, i32, &[u8]) -> bool,
) -> Result<Offsets, ConnectorError> {
    let told = consumer.committed_offsets(partitions.clone(), patience);
    let told = told.map_err(|error| failed(place, format!("cannot ask for committed offsets: {error}"), true))?;
    let mut offsets = Offsets::default();
    for (element, note) in told.elements().iter().zip(notes(&told)) {
        if let Offset::Offset(offset) = element.offset()
            && counts(element.topic(), element.partition(), note)
        {
            offsets.set(element.topic(), element.partition(), offset);
        }
    }
    Ok(offsets)
}

/// What stands with each of the offsets.
#[expect(unsafe_code, reason = "rdkafka takes it for text, and panics where whoever committed it has written something else")]
fn notes(list: &TopicPartitionList) -> Vec<&[u8]> {
    // SAFETY: the list lives as long as it is borrowed, and with it what its elements point to, of which they say how long it is.
    unsafe {
        let native = &*list.ptr();
        let note = |index| {
            let element = &*native.elems.add(index);
            match element.metadata.is_null() {
                true => b"".as_slice(),
                false => slice::from_raw_parts(element.metadata.cast::<u8>().cast_const(), element.metadata_size),
            }
        };
        (0..list.count()).map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_and_damage_is_found() {
        let mut offsets = Offsets::default();
        for (topic, partition, offset) in [("b", 1, 5), ("b", 0, i64::MAX), ("a.ö", 7, 0)] {
            offsets.set(topic, partition, offset);
        }
        offsets.set_id("b", TopicId(i64::MIN, 7));
        let mut position = Position::default();
        offsets.write(&mut position);
        assert_eq!(Offsets::read("k", &position).unwrap(), offsets);
        for end in 1..position.0.len() {
            let cut = Offsets::parse(&position.0[..end]);
            assert!(cut.is_none_or(|cut| cut.iter().count() < 3), "cut at {end}");
        }
        assert!(Offsets::read("k", &Position(vec![255; 20])).is_err());
    }

    #[test]
    fn a_position_says_whose_it_is_and_so_does_what_is_committed() {
        let mut offsets = Offsets::default();
        let mut position = Position::default();
        assert!(!offsets.is_named() && !offsets.is_of_another(b"weir 1"));
        offsets.name();
        offsets.write(&mut position);
        assert!(position.0.is_empty(), "nothing was read");
        offsets.set("t", 0, 7);
        offsets.write(&mut position);
        let read = Offsets::read("k", &position).unwrap();
        assert!(read.is_named() && read == offsets);
        assert_eq!(read.iter().collect::<Vec<_>>(), [("t", 0, 7)]);

        let list = read.signed_list(read.iter());
        let elements = list.elements();
        assert_eq!((elements.len(), elements[0].topic(), elements[0].offset()), (1, "t", Offset::Offset(7)));
        let notes = notes(&list);
        assert!(notes[0].starts_with(b"weir ") && notes[0].len() == 5 + 32, "{notes:?}");
        let mut other = Offsets::default();
        other.name();
        assert!(other.is_of_another(notes[0]) && !offsets.is_of_another(notes[0]));
        assert!(offsets.is_own(notes[0]) && !other.is_own(notes[0]));
        // An administrator, another program, and who wrote something of its own.
        for note in [b"".as_slice(), b"weird", b"\xff"] {
            assert!(!offsets.is_of_another(note), "{note:?}");
        }
        // A list of which nobody says whose it is.
        assert_eq!(super::notes(&Offsets::list([("t", 0, 1)])), [b"".as_slice()]);
    }

    #[test]
    fn what_is_noted_of_a_partition_is_kept_apart_until_it_is_read() {
        let mut offsets = Offsets::default();
        offsets.set("t", 0, 3);
        for (partition, offset) in [(0, 8), (1, 10), (i32::MAX - 2, 7)] {
            offsets.note("t", partition, offset);
        }
        offsets.note("u", 0, 5);
        offsets.set_id("t", TopicId(1, 2));
        let mut position = Position::default();
        offsets.write(&mut position);
        let mut read = Offsets::read("k", &position).unwrap();
        assert_eq!(read, offsets);
        assert_eq!(Offsets::shown(&position.0).unwrap(), serde_json::json!({"t": {"0": 3}, "u": {}}));
        assert_eq!(read.iter().collect::<Vec<_>>(), [("t", 0, 3)]);
        assert_eq!(read.all_noted().collect::<Vec<_>>(), [("t", 1, 10), ("t", i32::MAX - 2, 7), ("u", 0, 5)]);
        assert!(read.knows("u") && read.get("t", 1).is_none() && read.noted("t", 0).is_none());
        read.set("t", 1, 4);
        assert_eq!((read.get("t", 1), read.noted("t", 1)), (Some(4), None));
        read.unset("t", 1);
        assert_eq!((read.get("t", 1), read.noted("t", 1)), (None, None));
    }

    #[test]
    fn a_position_without_ids_is_read_and_what_is_of_another_topic_is_left_out() {
        // As it was written before there were ids.
        let old = [b"\x01\0t\x01\0\0\0".as_slice(), &3_i32.to_le_bytes(), &9_i64.to_le_bytes()].concat();
        let mut old = Offsets::parse(&old).unwrap();
        assert_eq!((old.get("t", 3), old.id("t"), old.knows("t")), (Some(9), None, true));
        let mut now = Offsets::default();
        now.set_id("t", TopicId(1, 2));
        assert!(!now.knows("t"));
        old.only_of(&now);
        assert_eq!(old.get("t", 3), Some(9));
        old.set_id("t", TopicId(1, 3));
        old.set("u", 0, 1);
        old.only_of(&now);
        assert_eq!(old.iter().collect::<Vec<_>>(), [("u", 0, 1)]);
    }
}
