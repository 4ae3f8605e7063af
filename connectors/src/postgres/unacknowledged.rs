//! What the server keeps for weir: its log, from the first transaction on that is not durable here. It is told how far that is,
//! also while nothing comes that anybody wants, so that it need not keep what others write.

use std::collections::VecDeque;
use std::time::Duration;

use super::message::{bye, put};
use crate::keeper::Messages;

#[derive(Default)]
pub struct Unacknowledged {
    /// When everything up to this record is durable, the server need not keep what stands before this place of its log.
    transactions: VecDeque<(u64, u64)>,
    durable: u64,
    /// The server need not keep what stands before this place.
    flushed: u64,
    /// The last place that the server was told.
    told: u64,
    /// The place that the server is being told.
    saying: u64,
    /// The server has asked for a sign of life.
    pub asked: bool,
}

impl Unacknowledged {
    /// What is not durable comes again on the next connection.
    pub fn connected(&mut self) {
        self.transactions.clear();
        self.told = 0;
        self.asked = false;
    }

    /// A transaction has ended, or there was none up to that place, with that record as the last before it.
    pub fn ended(&mut self, record: u64, lsn: u64) {
        if record <= self.durable && self.transactions.is_empty() {
            self.flushed = self.flushed.max(lsn);
            return;
        }
        match self.transactions.back_mut() {
            Some((last, place)) if *last == record => *place = (*place).max(lsn),
            _ => self.transactions.push_back((record, lsn)),
        }
    }

    /// How far it is, and whether a sign of life is asked for: a server that hears one of weir says nothing by itself.
    fn status(&self, answered: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(b'd', &mut bytes, |out| {
            out.push(b'r');
            // Written, flushed and applied are one here. What o'clock it is, nobody looks at.
            for _ in 0..3 {
                out.extend_from_slice(&self.flushed.to_be_bytes());
            }
            out.extend_from_slice(&0_u64.to_be_bytes());
            out.push(answered.into());
        });
        bytes
    }
}

impl Messages for Unacknowledged {
    const ALIVE: Duration = Duration::from_secs(10);

    fn acknowledge(&mut self, durable: u64) -> Vec<u8> {
        self.durable = self.durable.max(durable);
        while let Some((_, lsn)) = self.transactions.pop_front_if(|(record, _)| *record <= durable) {
            self.flushed = self.flushed.max(lsn);
        }
        if self.flushed <= self.told && !self.asked {
            return Vec::new();
        }
        self.saying = self.flushed;
        self.status(false)
    }

    fn acknowledged(&mut self) {
        self.told = self.saying;
        self.asked = false;
    }

    fn alive(&self) -> Vec<u8> {
        self.status(true)
    }

    fn bye(&self) -> Vec<u8> {
        // The copy ends, and the connection.
        let mut bytes = Vec::new();
        put(b'c', &mut bytes, |_| {});
        bytes.extend(bye());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushed(words: &[u8]) -> Option<u64> {
        words.get(14..22).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
    }

    #[test]
    fn the_server_forgets_what_is_durable_and_not_more() {
        let mut waiting = Unacknowledged::default();
        waiting.connected();
        // Before the first record nothing waits.
        waiting.ended(0, 10);
        assert_eq!(flushed(&waiting.acknowledge(0)), Some(10));
        waiting.acknowledged();
        assert_eq!(waiting.acknowledge(0), b"");
        // A transaction of records 1 and 2, one of others, one of record 3.
        waiting.ended(2, 20);
        waiting.ended(2, 25);
        waiting.ended(3, 30);
        assert_eq!(waiting.acknowledge(1), b"", "half of it is durable");
        assert_eq!(flushed(&waiting.acknowledge(2)), Some(25));
        // It was not heard: it is said again.
        assert_eq!(flushed(&waiting.acknowledge(2)), Some(25));
        waiting.acknowledged();
        assert_eq!(flushed(&waiting.alive()), Some(25));
        waiting.connected();
        assert_eq!(flushed(&waiting.acknowledge(3)), Some(25), "what was under way comes again");
        waiting.ended(3, 30);
        assert_eq!(flushed(&waiting.acknowledge(3)), Some(30));
        waiting.acknowledged();
        waiting.asked = true;
        assert_eq!(flushed(&waiting.acknowledge(3)), Some(30), "it wants to know that somebody is there");
        waiting.acknowledged();
        assert_eq!(waiting.acknowledge(3), b"");
    }
}
