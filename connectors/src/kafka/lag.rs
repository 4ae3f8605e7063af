//! How many records of its partitions a stream has not read.
//!
//! With each answer to a fetch a broker says where the partition ends, and the client keeps that: it is looked up, and nobody is
//! asked. While nothing is fetched, as in a pause, the brokers are asked now and then.

use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList, TopicPartitionListElem};
use rdkafka::types::RDKafkaRespErr;

use super::reading::Extent;
use super::records::Records;

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Between two questions, and for one.
pub(super) const ASK_INTERVAL: Duration = Duration::from_secs(10);
const ASK_TIME_MAX: Duration = Duration::from_millis(300);

/// What is known of it.
pub struct Lag {
    records: Option<u64>,
    /// Before that it is not looked again.
    look_at: Instant,
    /// Before that nobody is asked again, however often the stream is held and goes on: who asks waits, and reads nothing.
    ask_at: Instant,
    /// Nothing is fetched: what the client keeps is old.
    asks: bool,
}

impl Lag {
    pub fn unknown() -> Lag {
        let now = Instant::now();
        Lag { records: None, look_at: now, ask_at: now, asks: false }
    }

    /// The next look is at once: what is known then stays for long.
    pub fn look_now(&mut self) {
        self.look_at = Instant::now();
    }

    /// Records are fetched again, and the first answers will say where their partitions end.
    pub fn go_on(&mut self) {
        if self.asks {
            *self = Lag { look_at: Instant::now() + LOOK_INTERVAL, asks: false, ..*self };
        }
    }

    /// Nothing is fetched. Whether it is time to ask.
    fn hold(&mut self) -> bool {
        let now = Instant::now();
        let is_time = now >= self.ask_at;
        if is_time {
            self.ask_at = now + ASK_INTERVAL;
        }
        self.asks = true;
        is_time
    }
}

impl Records {
    /// The lag by what the client keeps.
    pub(super) fn look_at_lag(&mut self) -> Option<u64> {
        if self.lag.asks || Instant::now() < self.lag.look_at {
            return self.lag.records;
        }
        self.lag.look_at = Instant::now() + LOOK_INTERVAL;
        self.lag.records = match (&self.away, &self.consumer) {
            // All there is has been handed over.
            (Some(away), _) => Some(away.waiting() as u64),
            (None, Some(consumer)) => self.lag_by(|topic, number| kept(consumer, topic, number)),
            (None, None) => None,
        };
        self.lag.records
    }

    /// Asks for the lag by what the brokers say, as nothing is fetched.
    pub(super) fn ask_for_lag(&mut self) {
        if !self.lag.hold() {
            return;
        }
        let mut wanted = TopicPartitionList::new();
        for partition in &self.reading.assigned {
            // The time of which an offset is asked for: that of the end.
            let _ = wanted.add_partition_offset(&partition.topic, partition.number, Offset::End);
        }
        if wanted.count() == 0 {
            self.lag.records = None;
            return;
        }
        let told = match (&self.away, &self.consumer) {
            (Some(away), _) => away.ends(wanted, ASK_TIME_MAX),
            // Who is known not to answer is not waited for.
            (None, Some(consumer)) if consumer.context().voice.trouble().is_none() => {
                consumer.offsets_for_times(wanted, ASK_TIME_MAX).ok()
            }
            _ => None,
        };
        let Some(told) = told else { return };
        let told = told.elements();
        let ends = offsets(&told);
        let extent = |topic: &str, number: i32| {
            let begin = self.consumer.as_ref().and_then(|consumer| kept(consumer, topic, number)?.begin);
            Some(Extent { begin, end: *ends.get(&(topic, number))? })
        };
        self.lag.records = self.lag_by(extent);
    }

    /// The lag of what has been handed out, as far as it is known where partitions begin and end.
    fn lag_by(&self, extent: impl Fn(&str, i32) -> Option<Extent>) -> Option<u64> {
        let position = self.consumer.as_ref().and_then(|consumer| consumer.position().ok());
        let handed_out = position.as_ref().map(TopicPartitionList::elements).unwrap_or_default();
        self.reading.lag(&offsets(&handed_out), extent)
    }
}

fn offsets<'l>(elements: &'l [TopicPartitionListElem<'l>]) -> HashMap<(&'l str, i32), i64> {
    let offset = |element: &'l TopicPartitionListElem<'l>| match element.offset() {
        Offset::Offset(offset) => Some(((element.topic(), element.partition()), offset)),
        _ => None,
    };
    elements.iter().filter_map(offset).collect()
}

/// Where a partition begins and ends by the last answer to a fetch; none before the first.
#[expect(unsafe_code, reason = "rdkafka asks the broker, and waits for it")]
fn kept<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str, number: i32) -> Option<Extent> {
    let topic = CString::new(topic).ok()?;
    let (mut begin, mut end) = (-1, -1);
    let client = consumer.client().native_ptr();
    // SAFETY: the client, the name and the two numbers live as long as the call.
    let known = unsafe { native::rd_kafka_get_watermark_offsets(client, topic.as_ptr(), number, &mut begin, &mut end) };
    let is_known = known == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && end >= 0;
    is_known.then(|| Extent { begin: (begin >= 0).then_some(begin), end })
}

#[cfg(test)]
mod tests {
    use super::super::offsets::Offsets;
    use super::super::reading::{Partition, Reading};
    use super::*;

    #[test]
    fn who_is_held_again_and_again_asks_no_more_often() {
        let mut lag = Lag::unknown();
        assert!(lag.hold());
        for _ in 0..3 {
            assert!(lag.asks && !lag.hold());
            lag.go_on();
            assert!(!lag.asks && !lag.hold());
            lag.look_now();
            assert!(!lag.hold());
        }
        lag.go_on();
        lag.ask_at = Instant::now();
        assert!(lag.hold());
    }

    #[test]
    fn what_is_not_read_is_counted_as_far_as_it_is_known() {
        // Of each partition: the offset of the next record, where the client is, and where the partition begins and ends.
        type Known = (Option<i64>, Option<i64>, Option<(Option<i64>, i64)>);
        let lag = |ending: Option<i64>, known: &[Known]| {
            let mut reading = Reading::new(Offsets::default(), ending, false);
            let numbered = || (0..).zip(known);
            reading.assigned.extend(numbered().map(|(number, (next, ..))| Partition::new("t".to_owned(), number, *next)));
            let handed_out = numbered().filter_map(|(number, (_, at, _))| Some((("t", number), (*at)?))).collect();
            let extent = |_: &str, number: i32| known[number as usize].2.map(|(begin, end)| Extent { begin, end });
            reading.lag(&handed_out, extent)
        };
        assert_eq!(lag(None, &[]), None);
        assert_eq!(lag(None, &[(Some(5), None, None)]), None, "nobody has said where it ends");
        assert_eq!(lag(None, &[(Some(5), None, None), (Some(5), None, Some((Some(0), 9)))]), Some(4));
        assert_eq!(lag(None, &[(Some(5), Some(5), Some((Some(0), 9))), (Some(1), Some(1), Some((Some(0), 4)))]), Some(7));
        // Nothing was read yet, and nobody may have said where it begins.
        assert_eq!(lag(None, &[(None, None, Some((Some(2), 9)))]), Some(7));
        assert_eq!(lag(None, &[(None, None, Some((None, 9)))]), None);
        // Records that are gone; a mark of a transaction; an end that is not told yet.
        assert_eq!(lag(None, &[(Some(5), Some(5), Some((Some(8), 9)))]), Some(1));
        assert_eq!(lag(None, &[(Some(8), Some(9), Some((Some(0), 9)))]), Some(0));
        assert_eq!(lag(None, &[(Some(9), None, Some((Some(0), 7)))]), Some(0));
        // No more is wanted.
        assert_eq!(lag(Some(6), &[(Some(5), None, Some((Some(0), 9)))]), Some(2));
    }
}
