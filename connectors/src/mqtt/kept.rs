//! Messages that the broker keeps until they are acknowledged, which they are when what they changed is durable.
//!
//! What comes again on the next connection and was not acknowledged yet is known by its number and what it says. An acknowledgement that
//! was lost on the way makes a message come again that has had its effect: the broker may have given its number to another one, so nobody can tell.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::packet::{BYE, PING, Publish, acknowledge};
use crate::ends::Writer;

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

struct Message {
    /// Of the record, in the order in which they are handed on.
    place: u64,
    /// What the broker calls it.
    number: u16,
    digest: u64,
    /// It came on this connection, so that it can be acknowledged there.
    here: bool,
}

#[derive(Default)]
struct State {
    writer: Option<Writer>,
    /// Handed on and not acknowledged. As many as the broker lets be.
    waiting: VecDeque<Message>,
    /// Everything up to this record is durable.
    durable: u64,
    count: u64,
    ended: bool,
}

#[derive(Clone, Default)]
pub struct Kept {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    hasher: RandomState,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection. If the broker has forgotten the session, nothing of it comes again.
    pub fn connected(&self, writer: Writer, kept: bool) {
        let mut state = self.lock();
        state.writer = Some(writer);
        if !kept {
            state.waiting.clear();
        }
        state.waiting.iter_mut().for_each(|message| message.here = false);
        drop(state);
        self.changed.notify_one();
    }

    /// A message; the place of its record if it is to be handed on. None where that has been done.
    pub fn took(&self, message: &Publish) -> Option<u64> {
        let mut state = self.lock();
        if let Some(number) = message.number {
            let digest = self.hasher.hash_one((&message.topic, &message.payload));
            let known = |known: &&mut Message| known.number == number && known.digest == digest && !known.here;
            if message.again
                && let Some(known) = state.waiting.iter_mut().find(known)
            {
                known.here = true;
                drop(state);
                self.changed.notify_one();
                return None;
            }
            if !message.again {
                // Brokers repeat before they go on: what has not come again by now does not.
                state.waiting.retain(|known| known.here);
            }
            state.count += 1;
            let place = state.count;
            state.waiting.push_back(Message { place, number, digest, here: true });
            return Some(place);
        }
        state.count += 1;
        Some(state.count)
    }

    pub fn durable(&self, place: u64) {
        let mut state = self.lock();
        state.durable = state.durable.max(place);
        drop(state);
        self.changed.notify_one();
    }

    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Says what is to be said, until the end; and that somebody is there, every so often.
    pub async fn keep(self, alive: Duration) {
        let mut said = Instant::now();
        loop {
            // An error says that nothing has changed for so long.
            let _ = timeout(alive.saturating_sub(said.elapsed()), self.changed.notified()).await;
            if self.lock().ended {
                break;
            }
            self.acknowledge().await;
            if said.elapsed() >= alive {
                said = Instant::now();
                let writer = self.lock().writer.clone();
                if let Some(writer) = writer {
                    // That it does not work is seen by who reads.
                    let _ = writer.send(&PING).await;
                }
            }
        }
        let end = async {
            self.acknowledge().await;
            let writer = self.lock().writer.take();
            if let Some(writer) = writer {
                let _ = writer.send(&BYE).await;
            }
        };
        let _ = timeout(END_TIME_MAX, end).await;
    }

    async fn acknowledge(&self) {
        let (writer, bytes) = {
            let mut state = self.lock();
            let Some(writer) = state.writer.clone() else { return };
            let mut bytes = Vec::new();
            // In the order in which they came; one that the broker has yet to send again is waited for.
            while state.waiting.front().is_some_and(|first| first.here && first.place <= state.durable) {
                let Some(message) = state.waiting.pop_front() else { break };
                acknowledge(message.number, &mut bytes);
            }
            (writer, bytes)
        };
        if !bytes.is_empty() && writer.send(&bytes).await.is_err() {
            self.lock().writer = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_acknowledged_and_comes_again_is_handed_on_once() {
        let message = |number: u16, again: bool, payload: &str| Publish {
            topic: "t".to_owned(),
            number: Some(number),
            again,
            retained: false,
            payload: payload.as_bytes().to_vec(),
        };
        let again_on_a_new_connection = |kept: &Kept| kept.lock().waiting.iter_mut().for_each(|message| message.here = false);
        let kept = Kept::default();
        assert_eq!((kept.took(&message(1, false, "a")), kept.took(&message(2, false, "b"))), (Some(1), Some(2)));
        again_on_a_new_connection(&kept);
        assert_eq!(kept.took(&message(1, true, "a")), None);
        // The same number and something else, or the same twice, or not said to be a repetition.
        assert_eq!(kept.took(&message(2, true, "c")), Some(3));
        assert_eq!(kept.took(&message(1, true, "a")), Some(4));
        assert_eq!(kept.took(&message(2, false, "b")), Some(5));
        assert!(kept.lock().waiting.iter().all(|message| message.here), "the first `b` does not come again");
        assert_eq!(kept.took(&Publish { number: None, ..message(0, false, "q") }), Some(6));
    }
}
