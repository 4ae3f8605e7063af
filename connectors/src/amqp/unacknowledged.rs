//! Messages that the server keeps until they are acknowledged, and the words for that.

use std::collections::VecDeque;
use std::time::Duration;

use super::connection::HEARTBEAT_SECONDS;
use super::frame::{self, ACK, HEARTBEAT, Method};
use crate::keeper::Messages;

/// Messages of this connection, as many as were asked for: the numbers of the record and of the message.
#[derive(Default)]
pub struct Unacknowledged(VecDeque<(u64, u64)>);

impl Unacknowledged {
    /// What came before on another connection cannot be acknowledged any more, and comes again.
    pub fn connected(&mut self) {
        self.0.clear();
    }

    pub fn took(&mut self, record: u64, message: u64) -> bool {
        self.0.push_back((record, message));
        true
    }
}

impl Messages for Unacknowledged {
    const ALIVE: Duration = Duration::from_secs(HEARTBEAT_SECONDS as u64 / 2);

    /// One word for all of them: they are in order.
    fn acknowledge(&mut self, durable: u64) -> Vec<u8> {
        let count = self.0.partition_point(|(record, _)| *record <= durable);
        let last = self.0.drain(..count).next_back();
        last.map_or_else(Vec::new, |(_, message)| Method::default().u64(message).u8(1).frame(ACK))
    }

    fn alive(&self) -> Vec<u8> {
        HEARTBEAT.to_vec()
    }

    /// What is left goes to others at once.
    fn bye(&self) -> Vec<u8> {
        frame::bye()
    }
}
