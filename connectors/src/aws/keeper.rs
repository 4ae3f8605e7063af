//! What becomes of messages of SQS that have been received: kept out of others' sight until what they changed is durable, then
//! deleted. Those that are left when the stream ends are given back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::client::Client;
use crate::feed::Acknowledge;

/// Messages that have been received and are not deleted; then no more are asked for.
const WAITING_MAX: usize = 2_000;
/// Entries of one request, at most.
const ENTRIES_MAX: usize = 10;
/// What is assumed where the queue does not tell how long it hides a message.
const VISIBILITY_SECONDS: u64 = 30;
/// Between two tries of what failed.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// For giving messages back at the end.
const END_TIME_MAX: Duration = Duration::from_secs(3);

enum Told {
    Received(Vec<String>, Instant),
    Took(u64, String),
    Durable(u64),
}

#[derive(Default)]
struct Waiting {
    messages: usize,
    /// Why deletions fail, while they do.
    failing: Option<String>,
}

/// The hold of the source on it.
#[derive(Clone)]
pub struct Kept {
    told: UnboundedSender<Told>,
    waiting: watch::Sender<Waiting>,
}

impl Kept {
    /// Waits until there is room for `messages` more. Tells why there is none where that is for deletions that fail.
    pub async fn room(&self, messages: u32, tell: impl Fn(&str)) {
        let is_room = |waiting: &Waiting| {
            let is_room = waiting.messages + messages as usize <= WAITING_MAX;
            if let (false, Some(reason)) = (is_room, &waiting.failing) {
                tell(reason);
            }
            is_room
        };
        // An error says that nobody keeps anything any more.
        let _ = self.waiting.subscribe().wait_for(is_room).await;
    }

    /// Messages of an answer. They are hidden from here on, however long it takes until the last of them is handed on.
    pub fn received(&self, receipts: Vec<String>) {
        self.waiting.send_modify(|waiting| waiting.messages += receipts.len());
        let _ = self.told.send(Told::Received(receipts, Instant::now()));
    }

    /// One of them, in the order in which they are handed on.
    pub fn took(&self, number: u64, receipt: &str) {
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
    /// The queue, as it may be told.
    place: String,
    deletes: bool,
    told: UnboundedReceiver<Told>,
    waiting: watch::Sender<Waiting>,
}

impl Keeper {
    pub fn new(queue: String, place: String, deletes: bool) -> (Keeper, Kept) {
        #[expect(clippy::disallowed_methods, reason = "`room` bounds what is taken, and no more is durable than was taken")]
        let (sender, told) = unbounded_channel();
        let (waiting, _) = watch::channel(Waiting::default());
        let kept = Kept { told: sender, waiting: waiting.clone() };
        (Keeper { queue, place, deletes, told, waiting }, kept)
    }

    /// Runs until every hold on it is gone.
    pub fn start(self, client: Arc<Client>) {
        tokio::spawn(async move {
            let (received, waiting, done) = (HashMap::new(), BTreeMap::new(), VecDeque::new());
            let (queue, place, again, count) = (self.queue, self.place, Instant::now(), self.waiting);
            let hidden = Hidden { client, queue, place, visibility: None, received, waiting, done, again, count };
            hidden.keep(self.told, self.deletes).await;
        });
    }
}

/// A receipt, and since when the message is hidden for a whole stretch.
type Message = (String, Instant);

struct Hidden {
    client: Arc<Client>,
    queue: String,
    place: String,
    /// How long the queue hides a message. None: it could not be asked yet.
    visibility: Option<Duration>,
    /// Not handed on yet, so without a number: receipts, and since when the messages are hidden.
    received: HashMap<String, Instant>,
    /// By number.
    waiting: BTreeMap<u64, Message>,
    /// To be deleted.
    done: VecDeque<Message>,
    /// Not earlier than this.
    again: Instant,
    /// Counts `received`, `waiting`, `done`, and what is not here yet.
    count: watch::Sender<Waiting>,
}

impl Hidden {
    async fn keep(mut self, mut told: UnboundedReceiver<Told>, deletes: bool) {
        let mut look = Instant::now();
        loop {
            // In no order: none has to wait for one that always has something to do.
            tokio::select! {
                word = told.recv() => match word {
                    Some(Told::Received(receipts, since)) => {
                        self.received.extend(receipts.into_iter().map(|receipt| (receipt, since)));
                    }
                    Some(Told::Took(number, receipt)) => {
                        let since = self.received.remove(&receipt).unwrap_or_else(Instant::now);
                        self.waiting.insert(number, (receipt, since));
                    }
                    Some(Told::Durable(number)) => {
                        let later = self.waiting.split_off(&(number + 1));
                        let done = std::mem::replace(&mut self.waiting, later);
                        if deletes {
                            self.done.extend(done.into_values());
                        } else {
                            self.gone(done.len());
                        }
                    }
                    None => break,
                },
                () = tokio::time::sleep_until(look.into()), if deletes => {
                    self.hide().await;
                    let next = |visibility: Duration| (visibility / 6).clamp(Duration::from_millis(500), Duration::from_secs(20));
                    look = Instant::now() + self.visibility.map_or(TRY_AGAIN, next);
                }
                () = tokio::time::sleep_until(self.again.into()), if !self.done.is_empty() => {
                    self.delete().await;
                }
            }
        }
        let end = async {
            while !self.done.is_empty() && self.delete().await {}
            let waiting = std::mem::take(&mut self.waiting).into_values().map(|(receipt, _)| receipt);
            let left: Vec<String> = waiting.chain(std::mem::take(&mut self.received).into_keys()).collect();
            if deletes {
                self.change(&left, 0).await;
            }
        };
        let _ = tokio::time::timeout(END_TIME_MAX, end).await;
    }

    /// There is room for as many more.
    fn gone(&self, messages: usize) {
        self.count.send_modify(|waiting| waiting.messages = waiting.messages.saturating_sub(messages));
    }

    /// Deletes of what is done as many as one request holds. False: the rest has to wait.
    async fn delete(&mut self) -> bool {
        let now: Vec<Message> = self.done.iter().take(ENTRIES_MAX).cloned().collect();
        let entries: Vec<Json> = now.iter().enumerate().map(|(id, (receipt, _))| entry(id, receipt)).collect();
        let request = json!({"QueueUrl": self.queue, "Entries": entries});
        let failing = match self.client.call("DeleteMessageBatch", &request).await {
            Ok(answer) => {
                let (before, mut failing) = (self.done.len(), None);
                self.done.drain(..now.len());
                for failed in answer["Failed"].as_array().into_iter().flatten() {
                    let id = failed["Id"].as_str().and_then(|id| id.parse::<usize>().ok());
                    match (failed["SenderFault"].as_bool(), id.and_then(|id| now.get(id))) {
                        (Some(false), Some(message)) => {
                            self.done.push_back(message.clone());
                            failing = Some(failed.to_string());
                        }
                        _ => tracing::warn!("{}: a message could not be deleted and comes again: {failed}", self.place),
                    }
                }
                self.gone(before.saturating_sub(self.done.len()));
                failing
            }
            // Whatever the reason: what is durable must not come again, and somebody may see to it.
            Err(failed) => Some(failed.reason),
        };
        let goes_on = failing.is_none();
        if !goes_on {
            self.again = Instant::now() + TRY_AGAIN;
        }
        self.say(failing.map(|reason| format!("messages cannot be deleted: {reason}")));
        goes_on
    }

    /// What keeps messages from being deleted, in the log once.
    fn say(&self, failing: Option<String>) {
        self.count.send_if_modified(|waiting| {
            match (&waiting.failing, &failing) {
                (None, Some(reason)) => tracing::warn!("{}: {reason}; it is tried again", self.place),
                (Some(_), None) => tracing::info!("{}: messages are deleted again", self.place),
                _ => {}
            }
            let changed = waiting.failing != failing;
            waiting.failing = failing;
            changed
        });
    }

    /// Asks the queue how long it hides a message, unless it has said so.
    async fn visibility(&mut self) -> Duration {
        let assumed = Duration::from_secs(VISIBILITY_SECONDS);
        if let Some(told) = self.visibility {
            return told;
        }
        let request = json!({"QueueUrl": self.queue, "AttributeNames": ["VisibilityTimeout"]});
        let told = match self.client.call("GetQueueAttributes", &request).await {
            Ok(answer) => {
                let told = answer.pointer("/Attributes/VisibilityTimeout").and_then(Json::as_str);
                told.and_then(|text| text.parse().ok()).map_or(assumed, Duration::from_secs)
            }
            Err(failed) if failed.retryable => {
                tracing::debug!("{}: {}", self.place, failed.reason);
                return assumed;
            }
            Err(failed) => {
                let (place, reason) = (&self.place, failed.reason);
                tracing::warn!(
                    "{place}: messages are hidden for {VISIBILITY_SECONDS} s at a time, as the queue does not tell: {reason}"
                );
                assumed
            }
        };
        self.visibility = Some(told);
        told
    }

    /// Hides for another stretch what has been hidden for a third of one: also what could not be deleted yet.
    async fn hide(&mut self) {
        let visibility = self.visibility().await;
        // It hides nothing: whoever set that wants messages to come again at once.
        if visibility.is_zero() {
            return;
        }
        let now = Instant::now();
        let numbered = self.waiting.values_mut().chain(&mut self.done).map(|(receipt, since)| (&*receipt, since));
        let due: Vec<String> = self
            .received
            .iter_mut()
            .chain(numbered)
            .filter(|(_, since)| now.duration_since(**since) >= visibility / 3)
            .map(|(receipt, since)| {
                *since = now;
                receipt.clone()
            })
            .collect();
        self.change(&due, visibility.as_secs()).await;
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
                tracing::debug!("{}: {}", self.place, failed.reason);
                return;
            }
        }
    }
}

fn entry(id: usize, receipt: &str) -> Json {
    json!({"Id": id.to_string(), "ReceiptHandle": receipt})
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::aws::sqs::SQS;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;
    use crate::real_server::wait;

    /// Which operation, of which messages, and when.
    type Asked = (String, Vec<String>, Duration);

    #[test]
    fn what_is_durable_is_deleted_however_often_that_fails_and_hidden_until_then() {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (all, begun) = (asked.clone(), Instant::now());
        let server = StandIn::start(move |now| {
            let entries = now.body["Entries"].as_array().into_iter().flatten();
            let receipts: Vec<String> = entries.filter_map(|entry| Some(entry["ReceiptHandle"].as_str()?.to_owned())).collect();
            let mut all = all.lock().unwrap();
            let is_hidden = all.iter().any(|(operation, ..)| operation == "ChangeMessageVisibilityBatch");
            let count = receipts.len();
            all.push((now.operation.clone(), receipts, begun.elapsed()));
            match (now.operation.as_str(), count) {
                ("GetQueueAttributes", _) => (200, json!({"Attributes": {"VisibilityTimeout": "3"}}).to_string()),
                ("DeleteMessageBatch", _) if !is_hidden => (403, json!({"__type": "AccessDeniedException"}).to_string()),
                ("DeleteMessageBatch", 3) => {
                    let failed = |id: &str, fault: bool| json!({"Id": id, "Code": "Any", "SenderFault": fault});
                    (200, json!({"Failed": [failed("0", false), failed("1", true)]}).to_string())
                }
                _ => (200, "{}".to_owned()),
            }
        });
        let asked = |operation: &str| -> Vec<(Vec<String>, Duration)> {
            let asked = asked.lock().unwrap();
            let of = asked.iter().filter(|(of, ..)| of == operation);
            of.map(|(_, receipts, at)| (receipts.clone(), *at)).collect()
        };
        let (runtime, access) = (runtime(), server.access());
        let (keeper, kept) = Keeper::new(server.url.clone(), "here".to_owned(), true);
        runtime.block_on(async { keeper.start(Arc::new(Client::open(&SQS, &access, None).await.unwrap())) });
        kept.received((1..=3).map(|number| format!("r{number}")).collect());
        for number in 1..=3 {
            kept.took(number, &format!("r{number}"));
        }
        kept.durable(3);
        wait(|| kept.waiting.borrow().failing.is_some(), "a word");
        // Words that come meanwhile are no reason to ask sooner.
        for _ in 0..20 {
            kept.durable(3);
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_done = || {
            let waiting = kept.waiting.borrow();
            waiting.messages == 0 && waiting.failing.is_none()
        };
        wait(is_done, "all is deleted");
        let deletions = asked("DeleteMessageBatch");
        let (last, before) = deletions.split_last().unwrap();
        assert!(before.len() > 1 && before.iter().all(|(receipts, _)| *receipts == ["r1", "r2", "r3"]), "{deletions:?}");
        assert_eq!(last.0, ["r1"]);
        assert!(deletions.windows(2).all(|pair| pair[1].1 - pair[0].1 >= TRY_AGAIN), "{deletions:?}");
    }
}
