//! What brokers know of topics: the id that a topic has as long as it is there, and how many partitions it has.
//!
//! A topic that is deleted and made anew under its name has another id: offsets of the one before say nothing of it. Brokers
//! older than 2.8 give no ids, and then nothing is compared.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_char};
use std::time::Duration;

use rdkafka::bindings as native;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaRespErr;

/// The two halves of a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopicId(pub i64, pub i64);

/// What is known of a topic. One that is not there has no partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    pub id: Option<TopicId>,
    pub partitions: usize,
}

/// A question that is under way. It must not outlive its client.
pub struct Asking(*mut native::rd_kafka_queue_t);

#[expect(unsafe_code, reason = "the client locks what it shares with its threads")]
// SAFETY: librdkafka's queues may be used by any thread.
unsafe impl Send for Asking {}

impl Asking {
    /// Asks for these topics, without waiting.
    #[expect(unsafe_code, reason = "rdkafka knows nothing of ids of topics")]
    pub fn begin<C: ConsumerContext>(consumer: &BaseConsumer<C>, topics: &BTreeSet<&str>, time_max: Duration) -> Option<Asking> {
        let names: Vec<CString> = topics.iter().filter_map(|topic| CString::new(*topic).ok()).collect();
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        if pointers.is_empty() {
            return None;
        }
        let client = consumer.client().native_ptr();
        // SAFETY: the client lives as long as the call, and so do the names, which are copied. What is made here for the call is
        // given back behind it; the queue when it is dropped.
        unsafe {
            let queue = native::rd_kafka_queue_new(client);
            let wanted = native::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            let options =
                native::rd_kafka_AdminOptions_new(client, native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
            let mut refused = [0 as c_char; 256];
            native::rd_kafka_AdminOptions_set_request_timeout(
                options,
                time_max.as_millis() as i32,
                refused.as_mut_ptr(),
                refused.len(),
            );
            native::rd_kafka_DescribeTopics(client, wanted, options, queue);
            native::rd_kafka_AdminOptions_destroy(options);
            native::rd_kafka_TopicCollection_destroy(wanted);
            Some(Asking(queue))
        }
    }

    /// What is known of those that are there, and of those that are not. None while there is no answer.
    #[expect(unsafe_code, reason = "rdkafka knows nothing of ids of topics")]
    pub fn answer(&self, patience: Duration) -> Option<Result<HashMap<String, Known>, RDKafkaErrorCode>> {
        // SAFETY: the queue is held. What an event holds is read before the event is given back.
        unsafe {
            let event = native::rd_kafka_queue_poll(self.0, patience.as_millis() as i32);
            if event.is_null() {
                return None;
            }
            let error = native::rd_kafka_event_error(event);
            let answer = match error {
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(read(event)),
                error => Err(error.into()),
            };
            native::rd_kafka_event_destroy(event);
            Some(answer)
        }
    }
}

impl Drop for Asking {
    #[expect(unsafe_code, reason = "what was taken is given back")]
    fn drop(&mut self) {
        // SAFETY: it is held once, and its client is still there.
        unsafe { native::rd_kafka_queue_destroy(self.0) };
    }
}

/// # Safety
///
/// The event is there.
#[expect(unsafe_code, reason = "the answer lies in the memory of the client")]
unsafe fn read(event: *mut native::rd_kafka_event_t) -> HashMap<String, Known> {
    let mut known = HashMap::new();
    // SAFETY: what is read belongs to the event. Of another kind of event the result is null.
    unsafe {
        let result = native::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return known;
        }
        let mut count = 0;
        let topics = native::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        for index in 0..count {
            let topic = *topics.add(index);
            let error = native::rd_kafka_error_code(native::rd_kafka_TopicDescription_error(topic));
            let name = || CStr::from_ptr(native::rd_kafka_TopicDescription_name(topic)).to_string_lossy().into_owned();
            match error {
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {}
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART => {
                    known.insert(name(), Known { id: None, partitions: 0 });
                    continue;
                }
                _ => continue,
            }
            let id = native::rd_kafka_TopicDescription_topic_id(topic);
            let halves =
                TopicId(native::rd_kafka_Uuid_most_significant_bits(id), native::rd_kafka_Uuid_least_significant_bits(id));
            let mut partitions = 0;
            native::rd_kafka_TopicDescription_partitions(topic, &mut partitions);
            known.insert(name(), Known { id: Some(halves).filter(|id| *id != TopicId(0, 0)), partitions });
        }
    }
    known
}
