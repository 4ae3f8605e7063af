//! A producer, as both ways of writing use it: records are handed over many at a time and leave as one request, at once; it tells
//! of those alone that were not written.
//!
//! rdkafka's own calls take one record and report on each: more work for a record than all the rest of its way from the graph. So
//! two of librdkafka's are made here.
//!
//! A topic may take less at once than a request of the client holds (`max.message.bytes`), and then the request is refused as a
//! whole. Only what was alone in one is refused by itself: the rest is given back, to be handed over again in smaller requests.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use rdkafka::types::RDKafkaRespErr;
use weir_model::lock::lock;

use super::client::{Voice, by_its_voice};
use super::failed;
use super::properties::Settings;
use crate::delivery::Outgoing;
use crate::error::ConnectorError;

/// Records handed over at once, at most: what fits into a request as the client makes them, unless it is told otherwise.
pub(super) const RECORDS_MAX: usize = 10_000;

/// Bytes handed over at once, at most: four requests. An idempotent producer may have five under way, and while it has, and more
/// to send, it keeps a core busy with asking itself whether it may.
pub(super) const BYTES_MAX: usize = 4_000_000;

/// What the client puts into one request (`batch.size`), unless it is told otherwise.
const REQUEST_BYTES_MAX: usize = 1_000_000;

/// The client chooses; the bindings lack its name, RD_KAFKA_PARTITION_UA.
const ANY_PARTITION: i32 = -1;

/// How soon it is seen that a record was not written. That all were is seen at once.
const LOOK: Duration = Duration::from_millis(20);

/// For what there is to be heard when something is.
const HEAR_TIME: Duration = Duration::from_millis(1);

pub(super) struct TopicProducer {
    /// Goes before the producer it belongs to.
    topic: Topic,
    producer: BaseProducer<Outlet>,
    /// Handed over at once: less where the topic has refused requests.
    bytes_max: Cell<usize>,
    /// Records, and their bytes, that were handed over last.
    last: Cell<(usize, usize)>,
    /// Refused by the client itself.
    refused: RefCell<Vec<Failure>>,
}

/// What a producer took of some results.
pub(super) struct Handed {
    /// The first index it was not given; None when it was given all.
    pub next: Option<usize>,
    /// Why, where that is not only for there being enough under way.
    pub error: Option<KafkaError>,
}

/// A record that was not written: its index, and why.
pub(super) type Failure = (usize, RDKafkaErrorCode);

/// What was not written.
#[derive(Default)]
pub(super) struct Failures {
    pub told: Vec<Failure>,
    /// Refused with others: perhaps not by themselves, in smaller requests.
    pub together: Vec<usize>,
}

/// What the callbacks of a producer share with the destination.
pub(super) struct Outlet {
    pub voice: Voice,
    failures: Mutex<Vec<Failure>>,
}

by_its_voice!(Outlet);

impl ProducerContext for Outlet {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        if let Err((error, _)) = result {
            self.fail(index, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail));
        }
    }
}

impl Outlet {
    fn fail(&self, index: usize, code: RDKafkaErrorCode) {
        lock(&self.failures).push((index, code));
    }
}

impl TopicProducer {
    pub fn new(place: &str, topic: &str, settings: &Settings) -> Result<TopicProducer, ConnectorError> {
        let outlet = Outlet { voice: Voice::new(place, settings.login.clone()), failures: Mutex::default() };
        let mut client = settings.client.clone();
        client.set("delivery.report.only.error", "true");
        let producer: BaseProducer<Outlet> = client.create_with_context(outlet).map_err(|error| match error {
            KafkaError::ClientCreation(reason) => failed(place, reason, false),
            // It might show a value that is secret.
            _ => failed(place, "the client cannot be made with these properties", false),
        })?;
        let topic =
            Topic::of(&producer, topic).ok_or_else(|| failed(place, format!("there cannot be a topic {topic}"), false))?;
        let (bytes_max, last, refused) = (Cell::new(BYTES_MAX), Cell::default(), RefCell::default());
        Ok(TopicProducer { topic, producer, bytes_max, last, refused })
    }

    pub fn client(&self) -> &BaseProducer<Outlet> {
        &self.producer
    }

    pub fn voice(&self) -> &Voice {
        &self.producer.context().voice
    }

    /// What keeps it from its work.
    pub fn trouble(&self) -> Option<String> {
        self.voice().trouble().map(|trouble| trouble.reason)
    }

    /// Hears what the client has to say while there is nothing to send.
    pub fn hear(&self) {
        self.producer.poll(Duration::ZERO);
    }

    /// Hears it to the end: one call hears one thing.
    pub fn hear_all(&self) {
        self.producer.poll(HEAR_TIME);
    }

    /// Hands over the records of these indices, in this order; not all of them where they are many.
    pub fn hand_over(&self, results: &[Outgoing], indices: impl Iterator<Item = usize>) -> Handed {
        let mut messages = Vec::with_capacity(results.len().min(RECORDS_MAX));
        let (mut next, mut bytes) = (None, 0);
        for index in indices {
            let more = bytes + results[index].body.len();
            if messages.len() == RECORDS_MAX || (more > self.bytes_max.get() && !messages.is_empty()) {
                next = Some(index);
                break;
            }
            messages.push(message(index, &results[index].body));
            bytes = more;
        }
        self.last.set((messages.len(), bytes));
        self.topic.produce(&mut messages);
        for message in &messages {
            let index = message._private as usize;
            match RDKafkaErrorCode::from(message.err) {
                RDKafkaErrorCode::NoError => {}
                RDKafkaErrorCode::QueueFull => return Handed { next: Some(index), error: None },
                code if is_refusal(code) => self.refused.borrow_mut().push((index, code)),
                code => return Handed { next: Some(index), error: Some(KafkaError::MessageProduction(code)) },
            }
        }
        Handed { next, error: None }
    }

    /// Sends what was handed over and waits for a moment. True: nothing of it is under way.
    pub fn wait(&self) -> bool {
        if self.flush(LOOK) {
            self.hear();
            return true;
        }
        self.hear_all();
        self.producer.in_flight_count() == 0
    }

    /// What was not written since the last time.
    pub fn failures(&self) -> Failures {
        let mut told = std::mem::take(&mut *self.refused.borrow_mut());
        let by_broker = std::mem::take(&mut *lock(&self.producer.context().failures));
        let (count, bytes) = self.last.get();
        let mut together = Vec::new();
        for (index, code) in by_broker {
            if code == RDKafkaErrorCode::MessageSizeTooLarge && count > 1 {
                together.push(index);
            } else {
                told.push((index, code));
            }
        }
        if !together.is_empty() {
            together.sort_unstable();
            // Until it is less than any of them, if need be: then each goes alone.
            let half = bytes.min(REQUEST_BYTES_MAX) / 2;
            self.bytes_max.set(half.min(self.bytes_max.get()));
            tracing::debug!("{}: the topic takes less at once; from now on it is given {half} bytes", self.voice().place());
        }
        Failures { told, together }
    }

    /// Why a record is refused.
    pub fn refusal(&self, code: RDKafkaErrorCode, result: &Outgoing) -> String {
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge => format!(
                "{}: a result of {} bytes is more than its topic takes (max.message.bytes) or the client sends (max.request.size): {code}",
                self.voice().place(),
                result.body.len()
            ),
            _ => format!("{}: {code}", self.voice().place()),
        }
    }

    /// Whether all was written within the time. As long as it waits the client sends without waiting for more.
    #[expect(unsafe_code, reason = "rdkafka's own flush asks again and again instead of waiting")]
    fn flush(&self, time: Duration) -> bool {
        // SAFETY: the producer lives as long as the call.
        let flushed = unsafe { native::rd_kafka_flush(self.producer.client().native_ptr(), time.as_millis() as i32) };
        flushed == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
    }
}

/// Whether the broker would refuse this very record, by itself, at any time.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(code, MessageSizeTooLarge | InvalidMessage | InvalidMessageSize | InvalidRecord)
}

fn message(index: usize, body: &[u8]) -> native::rd_kafka_message_t {
    native::rd_kafka_message_t {
        err: RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR,
        rkt: ptr::null_mut(),
        partition: ANY_PARTITION,
        payload: body.as_ptr().cast_mut().cast::<c_void>(),
        len: body.len(),
        key: ptr::null_mut(),
        key_len: 0,
        offset: 0,
        // As rdkafka reads it from reports.
        _private: index as *mut c_void,
    }
}

/// A hold on a topic of a producer.
struct Topic(*mut native::rd_kafka_topic_t);

#[expect(unsafe_code, reason = "the client locks what it shares with its threads")]
// SAFETY: librdkafka's handles may be used by any thread.
unsafe impl Send for Topic {}

impl Topic {
    #[expect(unsafe_code, reason = "rdkafka has no topics")]
    fn of(producer: &BaseProducer<Outlet>, name: &str) -> Option<Topic> {
        let name = CString::new(name).ok()?;
        // SAFETY: the producer and the name live as long as the call; no settings of its own are given over.
        let topic = unsafe { native::rd_kafka_topic_new(producer.client().native_ptr(), name.as_ptr(), ptr::null_mut()) };
        (!topic.is_null()).then_some(Topic(topic))
    }

    /// Hands over copies of the messages; of each it is noted whether it was taken.
    #[expect(unsafe_code, reason = "rdkafka hands over one at a time: it looks for the topic, and takes its locks, for each")]
    fn produce(&self, messages: &mut [native::rd_kafka_message_t]) {
        let copied = native::RD_KAFKA_MSG_F_COPY;
        // SAFETY: the topic is held, its producer lives longer, and what messages point to is borrowed by the caller until after
        // the call, which copies it.
        unsafe { native::rd_kafka_produce_batch(self.0, ANY_PARTITION, copied, messages.as_mut_ptr(), messages.len() as i32) };
    }
}

impl Drop for Topic {
    #[expect(unsafe_code, reason = "what was taken is given back")]
    fn drop(&mut self) {
        // SAFETY: it is held once, and its producer is still there.
        unsafe { native::rd_kafka_topic_destroy(self.0) };
    }
}
