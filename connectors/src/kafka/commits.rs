//! When offsets are committed to the broker: never before their records are durable, and as often as the definition says.
//!
//! They are not what the stream goes on at (its own position is), but what other tools see of its progress, and where
//! another member of the group begins when a partition becomes its own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use serde::{Deserialize, Serialize};

use super::offsets::Offsets;
use crate::config;

/// Commits what is durable.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplicitCommit {
    /// Records after which offsets are committed.
    #[serde(default = "max_batch", deserialize_with = "config::count")]
    pub max_batch: u64,
    /// Time after which they are, when there were fewer records.
    #[serde(default = "max_interval_millis", deserialize_with = "config::positive")]
    pub max_interval_millis: u32,
    /// Commits on their way at a time, where the answer is not waited for.
    #[serde(default = "parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// Whether the broker's answer comes before the next commit, and a commit that failed is made again.
    #[serde(default = "wait_for_commit_confirmation")]
    pub wait_for_commit_confirmation: bool,
}

fn max_batch() -> u64 {
    1000
}

fn max_interval_millis() -> u32 {
    10_000
}

fn parallelism() -> u32 {
    100
}

fn wait_for_commit_confirmation() -> bool {
    true
}

/// What the answers of the broker tell, in a callback of the client.
#[derive(Default)]
pub struct Answers {
    waiting: AtomicUsize,
    failed: AtomicBool,
}

impl Answers {
    pub fn answered(&self, result: Result<(), KafkaError>, place: &str) {
        // A commit nobody of us asked for is answered, too: that of the end of a partition.
        let _ = self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| waiting.checked_sub(1));
        if let Err(error) = result {
            self.failed.store(true, Ordering::Relaxed);
            tracing::warn!("{place}: offsets could not be committed: {error}");
        }
    }
}

/// What is done about offsets that became durable.
pub enum Policy {
    Never,
    Explicit(ExplicitCommit),
    /// `enable.auto.commit` among the properties: the client commits now and then what it is told to be done.
    Client,
}

pub struct Commits {
    policy: Policy,
    durable: Offsets,
    sent: Offsets,
    last: Instant,
}

impl Commits {
    /// What the stream goes on at is durable; the broker may not have been told before it ended.
    pub fn new(policy: Policy, durable: Offsets) -> Commits {
        Commits { policy, durable, sent: Offsets::default(), last: Instant::now() }
    }

    pub fn durable(&self) -> &Offsets {
        &self.durable
    }

    /// These partitions were at these offsets when they came: that is not news to the broker.
    pub fn began(&mut self, topic: &str, partition: i32, offset: i64) {
        self.sent.set(topic, partition, offset);
    }

    pub fn became_durable(&mut self, offsets: Offsets) {
        self.durable = offsets;
    }

    /// Offsets of the reader's partitions that the broker has not been told.
    fn news(&self, reads: impl Fn(&str, i32) -> bool) -> Vec<(&str, i32, i64)> {
        let new = |(topic, partition, offset): &(&str, i32, i64)| {
            reads(topic, *partition) && self.sent.get(topic, *partition).is_none_or(|sent| sent < *offset)
        };
        self.durable.iter().filter(new).collect()
    }

    /// Commits if it is time.
    pub fn look<C: ConsumerContext>(&mut self, consumer: &BaseConsumer<C>, answers: &Answers, reads: impl Fn(&str, i32) -> bool) {
        let explicit = match &self.policy {
            Policy::Never => return,
            Policy::Client => {
                let news = self.news(reads);
                // Refused while the partition is being taken away: then it is not ours to commit.
                if !news.is_empty() && consumer.store_offsets(&Offsets::list(news)).is_ok() {
                    self.sent = self.durable.clone();
                }
                return;
            }
            Policy::Explicit(explicit) => explicit,
        };
        let confirmed = explicit.wait_for_commit_confirmation;
        let most = if confirmed { 1 } else { explicit.parallelism as usize };
        if answers.waiting.load(Ordering::Relaxed) >= most {
            return;
        }
        let again = answers.failed.load(Ordering::Relaxed) && confirmed;
        let due = self.last.elapsed() >= Duration::from_millis(u64::from(explicit.max_interval_millis));
        if again && due {
            answers.failed.store(false, Ordering::Relaxed);
            self.sent = Offsets::default();
        }
        let news = self.news(reads);
        let records = |(topic, partition, offset): &(&str, i32, i64)| {
            self.sent.get(topic, *partition).map_or(1, |sent| offset.saturating_sub(sent).max(0) as u64)
        };
        let count: u64 = news.iter().map(records).sum();
        if count == 0 || (count < explicit.max_batch && !due) {
            return;
        }
        answers.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = consumer.commit(&Offsets::list(news), CommitMode::Async) {
            answers.answered(Err(error), "Kafka");
        }
        self.sent = self.durable.clone();
        self.last = Instant::now();
    }

    /// What is to be committed before the partitions are given back; None when there is nothing.
    pub fn rest(&self, reads: impl Fn(&str, i32) -> bool) -> Option<rdkafka::TopicPartitionList> {
        if matches!(self.policy, Policy::Never) {
            return None;
        }
        // What is on its way is committed once more: its answer may be the one that fails.
        let all: Vec<_> = self.durable.iter().filter(|(topic, partition, _)| reads(topic, *partition)).collect();
        (!all.is_empty()).then(|| Offsets::list(all))
    }
}
