//! Messages that the broker keeps until they are acknowledged, and the words for that.
//!
//! What comes again on the next connection and was not acknowledged yet is known by its number and what it says. An
//! acknowledgement that was lost on the way makes a message come again that has had its effect: the broker may have given its
//! number to another one, so nobody can tell.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::access::ALIVE_SECONDS;
use super::packet::{BYE, PING, Publish, acknowledge};
use crate::keeper::Messages;

struct Message {
    record: u64,
    /// What the broker calls it.
    number: u16,
    digest: u64,
}

/// As many as the broker lets be.
#[derive(Default)]
pub struct Unacknowledged {
    /// Messages that came on this connection, in order: they can be acknowledged there.
    here: VecDeque<Message>,
    /// How many of `here` are being acknowledged.
    saying: usize,
    /// Messages of earlier connections that have not come again yet.
    before: VecDeque<Message>,
    hasher: RandomState,
}

impl Unacknowledged {
    /// A new connection. If the broker has forgotten the session, nothing of it comes again.
    pub fn connected(&mut self, kept: bool) {
        self.saying = 0;
        self.before.append(&mut self.here);
        if !kept {
            self.before.clear();
        }
    }

    /// Whether a message is to be handed on.
    pub fn took(&mut self, record: u64, message: &Publish) -> bool {
        let Some(number) = message.number else { return true };
        let digest = self.hasher.hash_one((&message.topic, &message.payload));
        let known = |known: &Message| known.number == number && known.digest == digest;
        if !message.again {
            // Brokers repeat before they go on: what has not come again by now does not.
            self.before.clear();
        } else if let Some(known) = self.before.iter().position(known).and_then(|at| self.before.remove(at)) {
            self.here.push_back(known);
            return false;
        }
        self.here.push_back(Message { record, number, digest });
        true
    }
}

impl Messages for Unacknowledged {
    const ALIVE: Duration = Duration::from_secs(ALIVE_SECONDS as u64 / 3);

    fn acknowledge(&mut self, durable: u64) -> Vec<u8> {
        let mut words = Vec::new();
        // One that has not come on this connection is not waited for: a broker that was restored from an older state has
        // forgotten it, and sends nothing new before what it knows is acknowledged.
        let done = self.here.iter().skip(self.saying).take_while(|message| message.record <= durable);
        for message in done {
            acknowledge(message.number, &mut words);
            self.saying += 1;
        }
        words
    }

    /// Only now: what could not be said is known when it comes again.
    fn acknowledged(&mut self) {
        self.here.drain(..std::mem::take(&mut self.saying));
    }

    fn alive(&self) -> Vec<u8> {
        PING.to_vec()
    }

    fn bye(&self) -> Vec<u8> {
        BYE.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u16, again: bool, payload: &str) -> Publish {
        Publish { topic: "t".to_owned(), number: Some(number), again, retained: false, payload: payload.as_bytes().to_vec() }
    }

    #[test]
    fn what_is_not_acknowledged_and_comes_again_is_handed_on_once() {
        let mut waiting = Unacknowledged::default();
        assert!(waiting.took(1, &message(1, false, "a")) && waiting.took(2, &message(2, false, "b")));
        waiting.connected(true);
        assert!(!waiting.took(3, &message(1, true, "a")));
        // The number with another payload, the message a second time, and one that is not said to be a repetition.
        assert!(waiting.took(3, &message(2, true, "c")));
        assert!(waiting.took(4, &message(1, true, "a")));
        assert!(waiting.took(5, &message(2, false, "b")));
        assert!(waiting.before.is_empty(), "the first `b` does not come again");
        assert!(waiting.took(6, &Publish { number: None, ..message(0, false, "q") }));
    }

    #[test]
    fn what_a_broker_has_forgotten_holds_up_no_acknowledgement() {
        let mut waiting = Unacknowledged::default();
        assert!(waiting.took(1, &message(21, false, "a")) && waiting.took(2, &message(22, false, "b")));
        // It was restored from a state in which it had not heard of those before.
        waiting.connected(true);
        assert!(waiting.took(3, &message(1, true, "x")) && waiting.took(4, &message(2, true, "y")));
        assert_eq!(waiting.acknowledge(2), b"");
        assert_eq!(waiting.acknowledge(3), b"\x40\x02\x00\x01");
        waiting.acknowledged();
        // What it sends again nevertheless is done, and not handed on.
        assert!(!waiting.took(5, &message(22, true, "b")));
        assert_eq!(waiting.acknowledge(4), b"\x40\x02\x00\x02\x40\x02\x00\x16");
    }

    #[test]
    fn what_could_not_be_acknowledged_is_known_when_it_comes_again() {
        let mut waiting = Unacknowledged::default();
        for number in 1..=4 {
            assert!(waiting.took(number.into(), &message(number, false, "a")));
        }
        assert_eq!(waiting.acknowledge(2), b"\x40\x02\x00\x01\x40\x02\x00\x02");
        // Each is said once.
        assert_eq!(waiting.acknowledge(2), b"");
        waiting.acknowledged();
        assert_eq!(waiting.acknowledge(3), b"\x40\x02\x00\x03");
        // Nobody heard that, and the next connection stands before anybody knows.
        waiting.connected(true);
        waiting.acknowledged();
        assert!(waiting.took(5, &message(2, true, "a")), "this was heard");
        assert!(!waiting.took(6, &message(3, true, "a")) && !waiting.took(6, &message(4, true, "a")));
        assert_eq!(waiting.acknowledge(4), b"");
        assert_eq!(waiting.acknowledge(5), b"\x40\x02\x00\x02\x40\x02\x00\x03\x40\x02\x00\x04");
    }
}
