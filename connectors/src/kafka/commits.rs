//! When offsets are committed to the broker: never before their records are durable, and as often as the definition says.
//!
//! They are not what the stream goes on at (its own position is), but what other tools see of its progress, and where
//! another member of the group begins when a partition becomes its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::topic_partition_list::TopicPartitionList;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::member::Member;
use super::offsets::Offsets;
use crate::config;

/// Offsets are committed to the broker when the effect of their records is durable, and when the stream ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplicitCommit {
    /// Offsets are committed after this many records. 1000 when not given.
    #[serde(default = "max_batch", deserialize_with = "config::positive_count")]
    #[schemars(range(min = 1))]
    pub max_batch: u64,
    /// Offsets are committed after this time at the latest. 10 s when not given.
    #[serde(default = "max_interval_millis", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub max_interval_millis: u32,
    /// Accepted for compatibility, without effect: the commits of a stream go over one connection.
    #[serde(default = "parallelism", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub parallelism: u32,
    /// Whether the next commit waits for the answer to the one before, and a failed commit is made again. True when not given.
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

/// A thread that waits for the broker's answers, so that the reader need not.
pub struct Waiter {
    commits: Sender<TopicPartitionList>,
    state: Arc<State>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// A commit was handed over and is not answered.
    waits: AtomicBool,
    failed: AtomicBool,
}

impl Waiter {
    fn start(consumer: Arc<BaseConsumer<Member>>) -> std::io::Result<Waiter> {
        // Without a buffer: it takes a commit when the one before has been answered.
        let (commits, receiver) = bounded(0);
        let state = Arc::new(State::default());
        let named = std::thread::Builder::new().name("commit offsets".to_owned());
        let told = state.clone();
        let thread = named.spawn(move || Waiter::run(&consumer, &receiver, &told))?;
        Ok(Waiter { commits, state, thread })
    }

    fn run(consumer: &BaseConsumer<Member>, commits: &Receiver<TopicPartitionList>, state: &State) {
        for commit in commits {
            if let Err(error) = consumer.commit(&commit, CommitMode::Sync) {
                state.failed.store(true, Ordering::Relaxed);
                tracing::warn!("{}: offsets could not be committed: {error}", consumer.context().voice.place());
            }
            state.waits.store(false, Ordering::Relaxed);
        }
    }

    fn hand_over(&self, commit: TopicPartitionList) -> Result<(), TrySendError<TopicPartitionList>> {
        if self.state.waits.swap(true, Ordering::Relaxed) {
            return Err(TrySendError::Full(commit));
        }
        // Not there yet to take it, or gone.
        self.commits.try_send(commit).inspect_err(|_| self.state.waits.store(false, Ordering::Relaxed))
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
    /// Where the group stood when a partition came, whoever had read up to there. Nothing before that is committed: what is
    /// durable may be of a time when the partition was ours before, and others have read on since.
    begun: Offsets,
    last: Instant,
    /// Where answers are waited for.
    waiter: Option<Waiter>,
}

impl Commits {
    /// What the stream goes on at is durable; the broker may not have been told before it ended.
    pub fn new(policy: Policy, durable: Offsets) -> Commits {
        let (sent, begun) = (Offsets::default(), Offsets::default());
        Commits { policy, durable, sent, begun, last: Instant::now(), waiter: None }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn durable(&self) -> &Offsets {
        &self.durable
    }

    /// The partition comes, and this is what the group has committed of it, where that counts: no news to the broker.
    pub fn began(&mut self, topic: &str, partition: i32, offset: Option<i64>) {
        match offset {
            Some(offset) => {
                self.sent.set(topic, partition, offset);
                self.begun.set(topic, partition, offset);
            }
            None => self.begun.unset(topic, partition),
        }
    }

    pub fn became_durable(&mut self, offsets: Offsets) {
        self.durable = offsets;
    }

    /// The topic was made anew: what is durable of the one before is nothing to commit.
    pub fn forget(&mut self, topic: &str) {
        self.durable.forget(topic);
        self.sent.forget(topic);
        self.begun.forget(topic);
    }

    /// Offsets of the reader's partitions that may be committed.
    fn own(&self, reads: impl Fn(&str, i32) -> bool) -> impl Iterator<Item = (&str, i32, i64)> {
        let own = move |(topic, partition, offset): &(&str, i32, i64)| {
            reads(topic, *partition) && self.begun.get(topic, *partition).is_none_or(|begun| begun < *offset)
        };
        self.durable.iter().filter(own)
    }

    /// The durable offsets that the broker has not been told.
    fn news(&self, reads: impl Fn(&str, i32) -> bool) -> Vec<(&str, i32, i64)> {
        let new =
            |(topic, partition, offset): &(&str, i32, i64)| self.sent.get(topic, *partition).is_none_or(|sent| sent < *offset);
        self.own(reads).filter(new).collect()
    }

    /// Commits if it is time.
    pub fn look(&mut self, consumer: &Arc<BaseConsumer<Member>>, reads: impl Fn(&str, i32) -> bool) {
        let explicit = match &self.policy {
            Policy::Never => return,
            Policy::Client => {
                let news = self.news(reads);
                // Refused while the partition is being taken away: then it is not ours to commit.
                if !news.is_empty() && consumer.store_offsets(&self.durable.signed_list(news)).is_ok() {
                    self.sent = self.durable.clone();
                }
                return;
            }
            Policy::Explicit(explicit) => explicit,
        };
        let due = self.last.elapsed() >= Duration::from_millis(u64::from(explicit.max_interval_millis));
        if due && self.waiter.as_ref().is_some_and(|waiter| waiter.state.failed.swap(false, Ordering::Relaxed)) {
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
        let list = self.durable.signed_list(news);
        if explicit.wait_for_commit_confirmation {
            if self.waiter.is_none() {
                self.waiter = Waiter::start(consumer.clone()).ok();
            }
            match self.waiter.as_ref().map(|waiter| waiter.hand_over(list)) {
                Some(Ok(())) => {}
                // The one before is on its way; this one goes with what follows.
                Some(Err(TrySendError::Full(_))) => return,
                Some(Err(TrySendError::Disconnected(_))) | None => {
                    self.waiter = None;
                    return;
                }
            }
        } else if let Err(error) = consumer.commit(&list, CommitMode::Async) {
            tracing::warn!("{}: offsets could not be committed: {error}", consumer.context().voice.place());
        }
        self.sent = self.durable.clone();
        self.last = Instant::now();
    }

    /// Whether the broker has been told all there is to tell.
    pub fn are_done(&self, reads: impl Fn(&str, i32) -> bool) -> bool {
        let failed = || self.waiter.as_ref().is_some_and(|waiter| waiter.state.failed.load(Ordering::Relaxed));
        matches!(self.policy, Policy::Never) || (self.news(reads).is_empty() && !self.waits() && !failed())
    }

    /// Whether a commit is on its way. One that is sent now by another thread might overtake it, and the older offset would be
    /// the one that stays: the next member would read records once more.
    pub fn waits(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.state.waits.load(Ordering::Relaxed))
    }

    /// Nothing more is committed on the way. Until the thread has ended, which may wait for an answer, it holds the consumer.
    pub fn end(&mut self) -> Option<JoinHandle<()>> {
        self.waiter.take().map(|waiter| waiter.thread)
    }

    /// What is to be committed before the partitions are given back; None when there is nothing.
    pub fn rest(&self, reads: impl Fn(&str, i32) -> bool) -> Option<TopicPartitionList> {
        if matches!(self.policy, Policy::Never) {
            return None;
        }
        // What is on its way is committed once more: its answer may be the one that fails.
        let all: Vec<_> = self.own(reads).collect();
        (!all.is_empty()).then(|| self.durable.signed_list(all))
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::topic_partition_list::Offset;

    use super::*;

    /// It was committed at the offset at which it had gone to the other member: those behind it were read once more.
    #[test]
    fn a_partition_that_comes_back_is_not_committed_where_it_went_away() {
        let offsets = |of: &[(i32, i64)]| {
            let mut offsets = Offsets::default();
            of.iter().for_each(|(partition, offset)| offsets.set("t", *partition, *offset));
            offsets
        };
        let explicit =
            ExplicitCommit { max_batch: 1, max_interval_millis: 1, parallelism: 1, wait_for_commit_confirmation: true };
        let mut commits = Commits::new(Policy::Explicit(explicit), Offsets::default());
        let rest = |commits: &Commits| {
            let list = commits.rest(|topic, _| topic == "t");
            let list = list.map(|list| list.elements().iter().map(|of| (of.partition(), of.offset())).collect::<Vec<_>>());
            list.unwrap_or_default()
        };
        commits.began("t", 0, None);
        commits.began("t", 1, None);
        commits.became_durable(offsets(&[(0, 20), (1, 7)]));
        assert_eq!(commits.news(|_, _| true).len(), 2);
        commits.sent = commits.durable.clone();
        assert!(commits.are_done(|_, _| true));
        // The answer may be one that fails.
        assert_eq!(rest(&commits), [(0, Offset::Offset(20)), (1, Offset::Offset(7))]);

        // It was another's, who has read on.
        commits.began("t", 0, Some(50));
        assert_eq!(rest(&commits), [(1, Offset::Offset(7))]);
        // One that failed is made again.
        commits.sent = Offsets::default();
        assert_eq!(commits.news(|_, _| true), [("t", 1, 7)]);
        assert!(commits.news(|_, partition| partition == 0).is_empty());
        commits.became_durable(offsets(&[(0, 50), (1, 7)]));
        assert_eq!(rest(&commits), [(1, Offset::Offset(7))]);
        commits.became_durable(offsets(&[(0, 51), (1, 7)]));
        assert_eq!(rest(&commits), [(0, Offset::Offset(51)), (1, Offset::Offset(7))]);
        // The group knows nothing of it any more.
        commits.began("t", 0, None);
        commits.became_durable(offsets(&[(0, 40)]));
        assert_eq!(rest(&commits), [(0, Offset::Offset(40))]);
        assert_eq!(Commits::new(Policy::Never, offsets(&[(0, 1)])).rest(|_, _| true).map(|list| list.count()), None);
    }
}
