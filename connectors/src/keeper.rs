//! Messages that the other side keeps until they are acknowledged, which they are when what their records changed is durable.
//!
//!     task ─ took ─> Keeper ─ acknowledgements, signs of life ─> the other side
//!     Feed ─ durable ──┘
//!
//! Which messages wait, and the words that are said of them, are for the protocol.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::ends::Writer;
use crate::feed::Acknowledge;

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// Messages that have been handed on and are not acknowledged.
pub trait Unacknowledged: Default + Send + 'static {
    /// That somebody is there is said so often.
    const ALIVE: Duration;

    /// The words that acknowledge messages whose records are durable, which all are up to this number. None where there are none.
    fn acknowledge(&mut self, durable: u64) -> Vec<u8>;

    fn alive(&self) -> Vec<u8>;

    /// The last words, of what is left.
    fn bye(&self) -> Vec<u8>;
}

#[derive(Default)]
pub struct Keeper<M> {
    state: Mutex<State<M>>,
    changed: Notify,
}

#[derive(Default)]
struct State<M> {
    writer: Option<Writer>,
    messages: M,
    /// Records so far.
    count: u64,
    /// Everything up to this record is.
    durable: u64,
    ended: bool,
}

impl<M: Unacknowledged> Keeper<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, and what it means for the messages of the last one.
    pub fn connected(&self, writer: Writer, change: impl FnOnce(&mut M)) {
        let mut state = self.lock();
        change(&mut state.messages);
        state.writer = Some(writer);
        drop(state);
        self.changed.notify_one();
    }

    /// A message; the number of its record if `take` says that it is to be handed on.
    pub fn took(&self, take: impl FnOnce(&mut M, u64) -> bool) -> Option<u64> {
        let mut state = self.lock();
        let number = state.count + 1;
        if take(&mut state.messages, number) {
            state.count = number;
            return Some(number);
        }
        drop(state);
        self.changed.notify_one();
        None
    }

    /// Says what is to be said, until the end.
    pub async fn keep(self: Arc<Keeper<M>>) {
        let mut said = Instant::now();
        loop {
            // An error says that nothing has changed for so long.
            let _ = timeout(M::ALIVE.saturating_sub(said.elapsed()), self.changed.notified()).await;
            if self.lock().ended {
                break;
            }
            self.acknowledge().await;
            if said.elapsed() >= M::ALIVE {
                said = Instant::now();
                self.say(M::alive).await;
            }
        }
        let end = async {
            self.acknowledge().await;
            self.say(M::bye).await;
        };
        // What is not heard comes again when the other side notices that nobody is there.
        let _ = timeout(END_TIME_MAX, end).await;
    }

    async fn acknowledge(&self) {
        let (writer, words) = {
            let mut state = self.lock();
            let Some(writer) = state.writer.clone() else { return };
            let durable = state.durable;
            (writer, state.messages.acknowledge(durable))
        };
        if !words.is_empty() && writer.send(&words).await.is_err() {
            self.lock().writer = None;
        }
    }

    async fn say(&self, words: impl FnOnce(&M) -> Vec<u8>) {
        let (writer, words) = {
            let state = self.lock();
            let Some(writer) = state.writer.clone() else { return };
            (writer, words(&state.messages))
        };
        if !words.is_empty() {
            // That it does not work is seen by who reads.
            let _ = writer.send(&words).await;
        }
    }
}

impl<M: Unacknowledged> Acknowledge for Keeper<M> {
    fn durable(&self, number: u64) {
        let mut state = self.lock();
        state.durable = state.durable.max(number);
        drop(state);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }
}
