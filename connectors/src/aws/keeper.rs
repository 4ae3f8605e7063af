//! What becomes of messages of SQS that have been received: kept out of others' sight until what they changed is durable, then
//! deleted. Those that are left when the stream ends are given back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::client::Client;
use crate::feed::Acknowledge;

/// Messages that have been received and are not deleted; then no more are asked for.
const WAITING_MAX: usize = 2_000;
/// Of one request.
const ENTRIES_MAX: usize = 10;
/// What is assumed where the queue does not tell how long it hides a message.
const VISIBILITY_SECONDS: u64 = 30;
/// Between two tries of deletions that failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// For giving messages back at the end.
const END_TIME_MAX: Duration = Duration::from_secs(3);

enum Told {
    Took(u64, String),
    Durable(u64),
}

/// The hold of the source on it.
#[derive(Clone)]
pub struct Kept {
    told: UnboundedSender<Told>,
    waiting: watch::Sender<usize>,
}

impl Kept {
    /// Waits until there is room for so many.
    pub async fn room(&self, messages: u32) {
        // An error says that nobody keeps anything any more.
        let _ = self.waiting.subscribe().wait_for(|waiting| waiting + messages as usize <= WAITING_MAX).await;
    }

    /// A message, in the order in which they are handed on.
    pub fn took(&self, number: u64, receipt: &str) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let _ = self.told.send(Told::Took(number, receipt.to_owned()));
    }
}

impl Acknowledge for Kept {
    fn durable(&self, number: u64) {
        let _ = self.told.send(Told::Durable(number));
    }
}

pub struct Keeper {
    queue: String,
    deletes: bool,
    told: UnboundedReceiver<Told>,
    waiting: watch::Sender<usize>,
}

impl Keeper {
    pub fn new(queue: String, deletes: bool) -> (Keeper, Kept) {
        #[expect(clippy::disallowed_methods, reason = "`room` bounds what is taken, and no more is durable than was taken")]
        let (sender, told) = unbounded_channel();
        let (waiting, _) = watch::channel(0);
        let kept = Kept { told: sender, waiting: waiting.clone() };
        (Keeper { queue, deletes, told, waiting }, kept)
    }

    /// Runs until every hold on it is gone.
    pub fn start(self, client: Arc<Client>) {
        tokio::spawn(async move {
            let visibility = Duration::from_secs(visibility(&client, &self.queue).await);
            let (waiting, done) = (BTreeMap::new(), VecDeque::new());
            let hidden = Hidden { client, queue: self.queue, visibility, waiting, done, count: self.waiting };
            hidden.keep(self.told, self.deletes).await;
        });
    }
}

async fn visibility(client: &Client, queue: &str) -> u64 {
    let request = json!({"QueueUrl": queue, "AttributeNames": ["VisibilityTimeout"]});
    let answer = client.call("GetQueueAttributes", &request).await.unwrap_or_default();
    let told = answer.pointer("/Attributes/VisibilityTimeout").and_then(Json::as_str).and_then(|text| text.parse().ok());
    // 0 hides nothing: whoever set that wants messages to come again at once.
    told.unwrap_or(VISIBILITY_SECONDS)
}

struct Hidden {
    client: Arc<Client>,
    queue: String,
    visibility: Duration,
    /// By number: the receipt, and since when it is hidden for a whole stretch.
    waiting: BTreeMap<u64, (String, Instant)>,
    /// To be deleted.
    done: VecDeque<String>,
    /// Of both, and of those that are not here yet.
    count: watch::Sender<usize>,
}

impl Hidden {
    async fn keep(mut self, mut told: UnboundedReceiver<Told>, deletes: bool) {
        let mut look = tokio::time::interval((self.visibility / 6).clamp(Duration::from_millis(500), Duration::from_secs(20)));
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                word = told.recv() => match word {
                    Some(Told::Took(number, receipt)) => {
                        self.waiting.insert(number, (receipt, Instant::now()));
                        continue;
                    }
                    Some(Told::Durable(number)) => {
                        let later = self.waiting.split_off(&(number + 1));
                        let done = std::mem::replace(&mut self.waiting, later);
                        if deletes {
                            self.done.extend(done.into_values().map(|(receipt, _)| receipt));
                        } else {
                            self.gone(done.len());
                        }
                    }
                    None => break,
                },
                _ = look.tick() => if deletes && !self.visibility.is_zero() { self.hide().await },
            }
            self.delete().await;
        }
        let end = async {
            while !self.done.is_empty() && self.delete().await {}
            let left: Vec<String> = std::mem::take(&mut self.waiting).into_values().map(|(receipt, _)| receipt).collect();
            if deletes {
                self.change(&left, 0).await;
            }
        };
        let _ = tokio::time::timeout(END_TIME_MAX, end).await;
    }

    /// There is room for as many more.
    fn gone(&self, messages: usize) {
        self.count.send_modify(|count| *count = count.saturating_sub(messages));
    }

    /// Deletes what is done. False: the rest has to wait.
    async fn delete(&mut self) -> bool {
        while !self.done.is_empty() {
            let now: Vec<String> = self.done.iter().take(ENTRIES_MAX).cloned().collect();
            let entries: Vec<Json> = now.iter().enumerate().map(|(id, receipt)| entry(id, receipt)).collect();
            let request = json!({"QueueUrl": self.queue, "Entries": entries});
            match self.client.call("DeleteMessageBatch", &request).await {
                Ok(answer) => {
                    let before = self.done.len();
                    self.done.drain(..now.len());
                    for failed in answer["Failed"].as_array().into_iter().flatten() {
                        let id = failed["Id"].as_str().and_then(|id| id.parse::<usize>().ok());
                        match (failed["SenderFault"].as_bool(), id.and_then(|id| now.get(id))) {
                            (Some(false), Some(receipt)) => self.done.push_back(receipt.clone()),
                            _ => tracing::warn!("{}: a message could not be deleted and comes again: {failed}", self.queue),
                        }
                    }
                    self.gone(before - self.done.len());
                }
                Err(failed) if failed.retryable => {
                    tracing::debug!("{}: deletions are tried again: {}", self.queue, failed.reason);
                    tokio::time::sleep(TRY_AGAIN).await;
                    return false;
                }
                Err(failed) => {
                    tracing::warn!("{}: {} messages could not be deleted: {}", self.queue, now.len(), failed.reason);
                    self.done.drain(..now.len());
                    self.gone(now.len());
                }
            }
        }
        true
    }

    /// Hides for another stretch what has been hidden for a third of one.
    async fn hide(&mut self) {
        let now = Instant::now();
        let old = |(_, since): &&mut (String, Instant)| now.duration_since(*since) >= self.visibility / 3;
        let due: Vec<String> = self
            .waiting
            .values_mut()
            .filter(old)
            .map(|(receipt, since)| {
                *since = now;
                receipt.clone()
            })
            .collect();
        self.change(&due, self.visibility.as_secs()).await;
    }

    async fn change(&self, receipts: &[String], seconds: u64) {
        for receipts in receipts.chunks(ENTRIES_MAX) {
            let hidden = |(id, receipt): (usize, &String)| {
                let mut entry = entry(id, receipt);
                entry["VisibilityTimeout"] = seconds.into();
                entry
            };
            let entries: Vec<Json> = receipts.iter().enumerate().map(hidden).collect();
            let request = json!({"QueueUrl": self.queue, "Entries": entries});
            // What fails here comes again, as it may at any time.
            if let Err(failed) = self.client.call("ChangeMessageVisibilityBatch", &request).await {
                tracing::debug!("{}: {}", self.queue, failed.reason);
                return;
            }
        }
    }
}

fn entry(id: usize, receipt: &str) -> Json {
    json!({"Id": id.to_string(), "ReceiptHandle": receipt})
}
