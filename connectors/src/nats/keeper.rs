//! What becomes of messages that a consumer keeps until they are acknowledged: the server hears that they are worked on until what
//! they changed is durable, and then that they are done. Those that are left when the stream ends are given back.
//!
//! Words that get lost with a connection are said again on the next one. A message that comes again in the same life is known
//! by its place in the stream, and has its effect once.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::put;
use crate::ends::Writer;
use crate::feed::Acknowledge;

/// Messages that are done and known, so that they are not taken once more.
const KNOWN_MAX: usize = 20_000;

/// Words in one writing.
const WORDS_MAX: usize = 1_000;

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

#[derive(Default)]
struct State {
    writer: Option<Writer>,
    /// Messages handed on: number, place in the stream, where an answer is wanted. As many as the consumer lets be.
    waiting: VecDeque<(u64, u64, String)>,
    /// To be acknowledged.
    done: VecDeque<String>,
    /// By place in the stream: those that wait, and the newest that are done, which stand in `order`.
    known: HashSet<u64>,
    order: VecDeque<u64>,
    count: u64,
    ended: bool,
}

#[derive(Clone, Default)]
pub struct Kept {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn connected(&self, writer: Writer) {
        self.lock().writer = Some(writer);
        self.changed.notify_one();
    }

    /// A message; its number if it is to be handed on. None where that has been done.
    pub fn took(&self, in_stream: u64, reply: &str) -> Option<u64> {
        let mut state = self.lock();
        if state.known.insert(in_stream) {
            state.count += 1;
            let number = state.count;
            state.waiting.push_back((number, in_stream, reply.to_owned()));
            return Some(number);
        }
        if !state.waiting.iter().any(|(_, place, _)| *place == in_stream) {
            // That it is done has not been heard.
            state.done.push_back(reply.to_owned());
            drop(state);
            self.changed.notify_one();
        }
        None
    }

    /// Says what is to be said, until the end. `look`: how often the server hears that messages are worked on.
    pub async fn keep(self, look: Duration) {
        loop {
            let idle = timeout(look, self.changed.notified()).await.is_err();
            if self.lock().ended {
                break;
            }
            self.acknowledge().await;
            if idle {
                self.say("+WPI").await;
            }
        }
        let end = async {
            self.acknowledge().await;
            self.say("-NAK").await;
        };
        // What is not heard comes again when the server has waited for it.
        let _ = timeout(END_TIME_MAX, end).await;
    }

    async fn acknowledge(&self) {
        loop {
            let (writer, replies) = {
                let mut state = self.lock();
                let Some(writer) = state.writer.clone().filter(|_| !state.done.is_empty()) else { return };
                let count = state.done.len().min(WORDS_MAX);
                (writer, state.done.drain(..count).collect::<Vec<String>>())
            };
            if writer.send(&words(&replies, "+ACK")).await.is_err() {
                let mut state = self.lock();
                replies.into_iter().rev().for_each(|reply| state.done.push_front(reply));
                // The next connection brings another one.
                state.writer = None;
                return;
            }
        }
    }

    /// The same of all that wait.
    async fn say(&self, word: &str) {
        let (writer, replies) = {
            let state = self.lock();
            let Some(writer) = state.writer.clone() else { return };
            (writer, state.waiting.iter().map(|(.., reply)| reply.clone()).collect::<Vec<String>>())
        };
        for replies in replies.chunks(WORDS_MAX) {
            if writer.send(&words(replies, word)).await.is_err() {
                return;
            }
        }
    }
}

impl Acknowledge for Kept {
    fn durable(&self, number: u64) {
        let mut state = self.lock();
        while state.waiting.front().is_some_and(|(first, ..)| *first <= number) {
            let Some((_, place, reply)) = state.waiting.pop_front() else { break };
            state.done.push_back(reply);
            state.order.push_back(place);
            if state.order.len() > KNOWN_MAX
                && let Some(oldest) = state.order.pop_front()
            {
                state.known.remove(&oldest);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }
}

fn words(replies: &[String], word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    replies.iter().for_each(|reply| put(reply, None, "", word.as_bytes(), &mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_again_is_handed_on_once() {
        let kept = Kept::default();
        assert_eq!((kept.took(10, "a"), kept.took(11, "b")), (Some(1), Some(2)));
        assert_eq!(kept.took(10, "a2"), None);
        assert!(kept.lock().done.is_empty(), "it is still worked on");
        kept.durable(1);
        assert_eq!(kept.lock().done, ["a"]);
        assert_eq!(kept.took(10, "a3"), None);
        assert_eq!(kept.lock().done, ["a", "a3"]);
        assert_eq!(kept.took(12, "c"), Some(3));
    }
}
