//! The position of a stream from Kafka: for each partition the offset of the record that comes next. What a definition
//! that is read again starts at, and what is committed to the broker when it is durable.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use weir_model::Position;

use super::failed;
use crate::error::ConnectorError;

/// By topic, by partition.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Offsets(BTreeMap<String, BTreeMap<i32, i64>>);

impl Offsets {
    pub fn get(&self, topic: &str, partition: i32) -> Option<i64> {
        self.0.get(topic)?.get(&partition).copied()
    }

    pub fn set(&mut self, topic: &str, partition: i32, offset: i64) {
        match self.0.get_mut(topic) {
            Some(partitions) => {
                partitions.insert(partition, offset);
            }
            None => {
                self.0.insert(topic.to_owned(), BTreeMap::from([(partition, offset)]));
            }
        }
    }

    /// Whether any partition of the topic was ever read.
    pub fn knows(&self, topic: &str) -> bool {
        self.0.contains_key(topic)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        let of = |(topic, partitions)| {
            let topic: &String = topic;
            let partitions: &BTreeMap<i32, i64> = partitions;
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
        for (topic, partitions) in &self.0 {
            out.extend_from_slice(&(topic.len() as u16).to_le_bytes());
            out.extend_from_slice(topic.as_bytes());
            out.extend_from_slice(&(partitions.len() as u32).to_le_bytes());
            for (partition, offset) in partitions {
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
        let mut position = Position::default();
        offsets.write(&mut position);
        assert_eq!(Offsets::read("k", &position).unwrap(), offsets);
        for end in 1..position.0.len() {
            let cut = Offsets::parse(&position.0[..end]);
            assert!(cut.is_none_or(|cut| cut.iter().count() < 3), "cut at {end}");
        }
        assert!(Offsets::read("k", &Position(vec![255; 20])).is_err());
    }
}
