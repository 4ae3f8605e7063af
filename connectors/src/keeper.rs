//! Messages that the other side keeps until they are acknowledged, which they are when what their records changed is durable.
//!
//!     task ─ took ─> Keeper ─ acknowledgements, signs of life ─> the other side
//!     Feed ─ durable ──┘
//!
//! Which messages wait, and the words that are said of them, are for the protocol.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use weir_model::lock::lock;

use crate::ends::Writer;
use crate::feed::{Acknowledge, Feed, Reads};

/// For the last words.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// Messages that have been handed on and are not acknowledged.
pub trait Messages: Default + Send + 'static {
    /// How often it is said that somebody is there.
    const ALIVE: Duration;

    /// The words that acknowledge some messages whose records are durable, which all are up to this number. None where there are
    /// none left.
    fn acknowledge(&mut self, durable: u64) -> Vec<u8>;

    /// The words of `acknowledge` were sent.
    fn acknowledged(&mut self) {}

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

impl<M: Messages> Keeper<M> {
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        lock(&self.state)
    }

    /// A feed of what is read, and a task that says what is to be said of it.
    pub fn feed(self: Arc<Keeper<M>>, runtime: &Handle, place: &str, position: Vec<u8>, reader: impl Reads) -> Feed {
        let keeper = self.clone();
        let feed = Feed::start(runtime, place, position, |inlet| async move {
            tokio::spawn(keeper.keep());
            inlet.keep_reading(reader).await
        });
        feed.acknowledged_by(self)
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
            // An error says that nothing has changed until then.
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
        loop {
            let (writer, words) = {
                let mut state = self.lock();
                let Some(writer) = state.writer.clone() else { return };
                let durable = state.durable;
                (writer, state.messages.acknowledge(durable))
            };
            if words.is_empty() {
                return;
            }
            // The writer stays: by now it may be that of the next connection.
            if writer.send(&words).await.is_err() {
                return;
            }
            self.lock().messages.acknowledged();
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

impl<M: Messages> Acknowledge for Keeper<M> {
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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;
    use crate::conformance::runtime;
    use crate::ends::ends;

    /// Acknowledged by their numbers, a byte each.
    #[derive(Default)]
    struct Numbers(VecDeque<u64>);

    impl Messages for Numbers {
        const ALIVE: Duration = Duration::from_millis(100);

        fn acknowledge(&mut self, durable: u64) -> Vec<u8> {
            self.0.pop_front_if(|number| *number <= durable).map(|number| vec![number as u8]).unwrap_or_default()
        }

        fn alive(&self) -> Vec<u8> {
            b"!".to_vec()
        }

        fn bye(&self) -> Vec<u8> {
            b".".to_vec()
        }
    }

    impl Keeper<Numbers> {
        fn take(&self) {
            self.took(|messages, number| {
                messages.0.push_back(number);
                true
            });
        }
    }

    /// A new connection that holds `bytes` bytes; its other end.
    fn connected(keeper: &Keeper<Numbers>, bytes: usize) -> DuplexStream {
        let (wire, other) = tokio::io::duplex(bytes);
        keeper.connected(ends(Box::new(wire), "the server").1, |_| {});
        other
    }

    #[test]
    fn signs_of_life_are_given_also_while_there_is_something_to_acknowledge() {
        runtime().block_on(async {
            let keeper = Arc::new(Keeper::default());
            // None of them is a sign of life.
            const NUMBERS: u8 = b'!' - 1;
            let begun = Instant::now();
            let mut other = connected(&keeper, 1 << 10);
            let keeping = tokio::spawn(keeper.clone().keep());
            for number in 1..=NUMBERS {
                keeper.take();
                keeper.durable(number.into());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            keeper.end();
            keeping.await.unwrap();
            let took = begun.elapsed();
            drop(keeper);
            let mut said = Vec::new();
            other.read_to_end(&mut said).await.unwrap();
            let signs = said.iter().filter(|byte| **byte == b'!').count();
            // On a busy machine it takes longer, and there are fewer.
            let signs_max = took.div_duration_f64(Numbers::ALIVE) as usize + 1;
            assert!((2..=signs_max).contains(&signs), "{signs} signs of life in {took:?}");
            let numbers: Vec<u8> = said.iter().copied().filter(|byte| *byte != b'!').collect();
            assert_eq!(numbers, [(1..=NUMBERS).collect(), b".".to_vec()].concat());
        });
    }

    #[test]
    fn an_acknowledgement_that_fails_on_the_last_connection_does_not_touch_the_next_one() {
        runtime().block_on(async {
            let keeper = Arc::new(Keeper::default());
            let first = connected(&keeper, 1);
            let keeping = tokio::spawn(keeper.clone().keep());
            (0..3).for_each(|_| keeper.take());
            // One byte fits, and the second is being written.
            keeper.durable(2);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut second = connected(&keeper, 1 << 10);
            drop(first);
            tokio::time::sleep(Duration::from_millis(50)).await;
            keeper.durable(3);
            let mut said = [0; 1];
            while said != [3] {
                let reading = timeout(Duration::from_secs(30), second.read_exact(&mut said));
                reading.await.expect("the third is acknowledged on the second connection").unwrap();
            }
            keeper.end();
            keeping.await.unwrap();
        });
    }
}
