//! The position of a stream from Kafka: for each partition the offset of the record that comes next, and of which topic of that
//! name they are. What a definition that is read again starts at, and what is committed to the broker when it is durable.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use weir_model::Position;

use super::failed;
use super::topics::TopicId;
use crate::error::ConnectorError;

/// In a position the halves of a topic's id stand as offsets of partitions that there are not. So positions of before are read,
/// and an older weir reads these.
const ID_PARTITIONS: [i32; 2] = [-1, -2];

/// By topic, by partition.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Offsets(BTreeMap<String, Topic>);

#[derive(Clone, Default, PartialEq, Debug)]
struct Topic {
    /// None where no broker has told it.
    id: Option<TopicId>,
    partitions: BTreeMap<i32, i64>,
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
            }
            None => {
                self.0.insert(topic.to_owned(), Topic { id: None, partitions: BTreeMap::from([(partition, offset)]) });
            }
        }
    }

    /// Whether any partition of the topic was ever read.
    pub fn knows(&self, topic: &str) -> bool {
        self.0.get(topic).is_some_and(|topic| !topic.partitions.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        let of = |(name, topic)| {
            let (topic, Topic { partitions, .. }): (&String, &Topic) = (name, topic);
            partitions.iter().map(move |(partition, offset)| (topic.as_str(), *partition, *offset))
        };
        self.0.iter().flat_map(of)
    }

    /// As librdkafka takes it.
    pub fn list<'a>(offsets: impl IntoIterator<Item = (&'a str, i32, i64)>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in offsets {
            // Refused are negative offsets only, and records have none.
            let _ = list.add_partition_offset(topic, partition, Offset::Offset(offset));
        }
        list
    }

    pub fn write(&self, position: &mut Position) {
        let out = &mut position.0;
        out.clear();
        for (topic, Topic { id, partitions }) in &self.0 {
            let id: Vec<(i32, i64)> =
                id.iter().flat_map(|TopicId(high, low)| ID_PARTITIONS.into_iter().zip([*high, *low])).collect();
            out.extend_from_slice(&(topic.len() as u16).to_le_bytes());
            out.extend_from_slice(topic.as_bytes());
            out.extend_from_slice(&((id.len() + partitions.len()) as u32).to_le_bytes());
            for (partition, offset) in id.iter().map(|(partition, half)| (partition, half)).chain(partitions) {
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
                offsets.set(topic, i32::from_le_bytes(*partition), i64::from_le_bytes(*offset));
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

/// What a broker knows a group to have committed, of these partitions.
pub fn committed<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    partitions: &TopicPartitionList,
    place: &str,
    patience: Duration,
) -> Result<Offsets, ConnectorError> {
    let told = consumer.committed_offsets(partitions.clone(), patience);
    let told = told.map_err(|error| failed(place, format!("cannot ask for committed offsets: {error}"), true))?;
    let mut offsets = Offsets::default();
    for element in told.elements() {
        if let Offset::Offset(offset) = element.offset() {
            offsets.set(element.topic(), element.partition(), offset);
        }
    }
    Ok(offsets)
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
