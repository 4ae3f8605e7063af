//! What the client tells the source in its callbacks: partitions that come and go, and what is wrong.
//!
//! Nothing is decided here: a callback must be short. The source follows when it is asked next.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;
use weir_model::lock::lock;

use super::client::{Voice, by_its_voice};

/// What the callbacks of the client share with the source.
pub struct Member {
    pub voice: Voice,
    changes: Mutex<VecDeque<Change>>,
    /// The consumer is going: nothing is waited for.
    closing: AtomicBool,
}

/// Partitions that come or go. The client waits until it is told that they have.
pub enum Change {
    Assigned(TopicPartitionList),
    Revoked { partitions: TopicPartitionList, lost: bool, since: Option<Instant> },
}

impl Member {
    pub fn new(voice: Voice) -> Member {
        Member { voice, changes: Mutex::default(), closing: AtomicBool::new(false) }
    }

    pub fn changes(&self) -> MutexGuard<'_, VecDeque<Change>> {
        lock(&self.changes)
    }

    /// From now on partitions are given back at once.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

by_its_voice!(Member);

impl ConsumerContext for Member {
    fn rebalance(&self, consumer: &BaseConsumer<Member>, error: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        if self.closing.load(Ordering::Relaxed) {
            give_back(consumer, partitions);
        } else if error == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            self.changes().push_back(Change::Assigned(partitions.clone()));
        } else {
            let lost = consumer.assignment_lost();
            self.changes().push_back(Change::Revoked { partitions: partitions.clone(), lost, since: None });
        }
    }
}

/// Tells the client that we are done with partitions that were taken away.
pub fn give_back(consumer: &BaseConsumer<Member>, partitions: &TopicPartitionList) {
    let given = match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(partitions),
        _ => consumer.unassign(),
    };
    if let Err(error) = given {
        tracing::warn!("{}: partitions could not be given back: {error}", consumer.context().voice.place());
    }
}

/// Tells the client, which waits for a word, that partitions it was given will not be read: the consumer is going.
pub fn decline(consumer: &BaseConsumer<Member>, partitions: &TopicPartitionList) {
    let declined = match consumer.rebalance_protocol() {
        // Only what has been taken can be given back, and closing does that.
        RebalanceProtocol::Cooperative => consumer.incremental_assign(partitions),
        _ => consumer.unassign(),
    };
    if let Err(error) = declined {
        tracing::warn!("{}: partitions could not be declined: {error}", consumer.context().voice.place());
    }
}
