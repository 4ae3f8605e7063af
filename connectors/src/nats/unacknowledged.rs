//! What becomes of messages that a consumer keeps until they are acknowledged: the server hears that they are worked on until
//! what they changed is durable, and then that they are done. Those that are left when the stream ends are given back.
//!
//! Words that get lost with a connection are said again on the next one. A message that comes again in the same life is known
//! by its place in the stream, and has its effect once.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::connection::put;
use crate::keeper::Messages;

/// What a consumer that weir makes waits for acknowledgements.
pub const ACKNOWLEDGE_SECONDS: u64 = 30;

/// Messages that are done and known, so that they are not taken once more.
const KNOWN_MAX: usize = 20_000;

/// Acknowledgements in one writing.
const WORDS_MAX: usize = 1_000;

#[derive(Default)]
pub struct Unacknowledged {
    /// Messages handed on: number of the record, place in the stream, where an answer is wanted. As many as the consumer lets be.
    messages: VecDeque<(u64, u64, String)>,
    /// Where it is to be said that a message is done.
    done: VecDeque<String>,
    /// For how many of `done` it is being said.
    said: usize,
    /// When the consumer was made whose messages they are.
    consumer: String,
    /// By place in the stream: those that wait, and the newest that are done, which stand in `order`.
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Unacknowledged {
    /// Another consumer of the name, perhaps of another stream of its name, knows nothing of what was before: its messages are
    /// others, in the same places.
    pub fn connected(&mut self, consumer: &str) {
        if self.consumer != consumer {
            *self = Unacknowledged { consumer: consumer.to_owned(), ..Unacknowledged::default() };
        }
    }

    /// Whether a message is to be handed on.
    pub fn took(&mut self, record: u64, in_stream: u64, reply: &str) -> bool {
        if self.known.insert(in_stream) {
            self.messages.push_back((record, in_stream, reply.to_owned()));
            return true;
        }
        if !self.messages.iter().any(|(_, place, _)| *place == in_stream) {
            // That it is done has not been heard.
            self.done.push_back(reply.to_owned());
        }
        false
    }

    fn words(&self, word: &str) -> Vec<u8> {
        words(self.messages.iter().map(|(.., reply)| reply), word)
    }
}

impl Messages for Unacknowledged {
    const ALIVE: Duration = Duration::from_secs(ACKNOWLEDGE_SECONDS / 3);

    fn acknowledge(&mut self, durable: u64) -> Vec<u8> {
        while let Some((_, place, reply)) = self.messages.pop_front_if(|(record, ..)| *record <= durable) {
            self.done.push_back(reply);
            self.order.push_back(place);
            if self.order.len() > KNOWN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
        self.said = self.done.len().min(WORDS_MAX);
        words(self.done.iter().take(self.said), "+ACK")
    }

    fn acknowledged(&mut self) {
        self.done.drain(..std::mem::take(&mut self.said));
    }

    fn alive(&self) -> Vec<u8> {
        self.words("+WPI")
    }

    fn bye(&self) -> Vec<u8> {
        self.words("-NAK")
    }
}

fn words<'a>(replies: impl Iterator<Item = &'a String>, word: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    replies.for_each(|reply| put(reply, None, "", word.as_bytes(), &mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_again_is_handed_on_once() {
        let mut waiting = Unacknowledged::default();
        let acknowledged = |replies: &[&str]| {
            replies.iter().fold(Vec::new(), |all, reply| [all, format!("PUB {reply} 4\r\n+ACK\r\n").into_bytes()].concat())
        };
        assert!(waiting.took(1, 10, "a") && waiting.took(2, 11, "b") && !waiting.took(3, 10, "a2"));
        assert_eq!(waiting.acknowledge(0), b"", "it is still worked on");
        assert_eq!(waiting.acknowledge(1), acknowledged(&["a"]));
        assert!(!waiting.took(3, 10, "a3"));
        // What has not been sent is said again.
        assert_eq!(waiting.acknowledge(1), acknowledged(&["a", "a3"]));
        waiting.acknowledged();
        assert!(waiting.took(3, 12, "c"));
        assert_eq!((waiting.acknowledge(1), waiting.acknowledge(2)), (Vec::new(), acknowledged(&["b"])));
    }

    #[test]
    fn messages_of_another_consumer_are_not_those_that_were_known() {
        let mut waiting = Unacknowledged::default();
        waiting.connected("then");
        assert!(waiting.took(1, 10, "a") && waiting.took(2, 11, "b"));
        assert!(!waiting.acknowledge(1).is_empty());
        waiting.connected("then");
        assert!(!waiting.took(3, 10, "a2") && !waiting.took(3, 11, "b2"));
        waiting.connected("now");
        waiting.acknowledged();
        assert_eq!(waiting.acknowledge(2), b"", "it would be of other messages");
        assert!(waiting.took(3, 10, "a") && waiting.took(4, 11, "b"));
    }
}
