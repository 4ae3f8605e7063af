//! Messages that the server keeps until they are acknowledged, which they are when what they changed is durable.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::frame::{ACK, CLOSE, HEARTBEAT, Method};
use crate::ends::Writer;

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

#[derive(Default)]
struct State {
    writer: Option<Writer>,
    /// Of this connection: the place of the record, and the number of the message. As many as were asked for.
    waiting: VecDeque<(u64, u64)>,
    durable: u64,
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

    /// What came before on another connection cannot be acknowledged any more, and comes again.
    pub fn connected(&self, writer: Writer) {
        let mut state = self.lock();
        state.writer = Some(writer);
        state.waiting.clear();
    }

    /// A message; the place of its record.
    pub fn took(&self, number: u64) -> u64 {
        let mut state = self.lock();
        state.count += 1;
        let place = state.count;
        state.waiting.push_back((place, number));
        place
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
                self.say(&HEARTBEAT).await;
            }
        }
        let end = async {
            self.acknowledge().await;
            // What is left goes to others at once.
            self.say(&Method::default().u16(200).word("").u16(0).u16(0).frame(CLOSE)).await;
        };
        let _ = timeout(END_TIME_MAX, end).await;
    }

    async fn say(&self, bytes: &[u8]) {
        let writer = self.lock().writer.clone();
        if let Some(writer) = writer {
            // That it does not work is seen by who reads.
            let _ = writer.send(bytes).await;
        }
    }

    /// One word for all that are durable: they are in order.
    async fn acknowledge(&self) {
        let acknowledged = {
            let mut state = self.lock();
            let (durable, mut last) = (state.durable, None);
            while state.waiting.front().is_some_and(|(place, _)| *place <= durable) {
                last = state.waiting.pop_front().map(|(_, number)| number);
            }
            last.zip(state.writer.clone())
        };
        if let Some((number, writer)) = acknowledged {
            let _ = writer.send(&Method::default().u64(number).u8(1).frame(ACK)).await;
        }
    }
}
