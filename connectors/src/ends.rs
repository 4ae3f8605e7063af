//! Both ends of a connection in a protocol that is spoken here: what comes, put together until something is whole, and what is
//! said. Knows no protocol.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::dial::Wire;
use crate::error::ConnectorError;
use crate::http::refusal;

/// For an answer that needs no waiting for anything else.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// The other side takes nothing any more when it has taken no byte for this long.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Bytes a second that a connection carries at least: one that takes a byte now and then would be waited for without an end.
const RATE_MIN: usize = 16 << 10;

/// Received bytes that are taken apart lie before those that are not, up to this many.
const SPENT_BYTES_MAX: usize = 1 << 20;

/// Why there is no connection any more.
#[derive(Debug)]
pub enum Refused {
    /// It may work later.
    Passing(String),
    /// It will not.
    ForGood(String),
    /// What the position is of is not there any more.
    Position(String),
}

impl From<String> for Refused {
    fn from(problem: String) -> Refused {
        Refused::Passing(problem)
    }
}

impl Refused {
    pub fn error(self, place: &str) -> ConnectorError {
        match self {
            Refused::Passing(problem) => ConnectorError::passing(place, problem),
            Refused::ForGood(problem) => refusal(place, problem),
            Refused::Position(problem) => ConnectorError::Position { place: place.to_owned(), problem },
        }
    }
}

/// What is said of an answer that did not come.
pub fn unanswered() -> String {
    format!("there was no answer within {} s", ANSWER_TIME_MAX.as_secs())
}

/// How long so many bytes are under way at most. What the system has taken of them need not have left yet.
pub fn way_time_max(bytes: usize) -> Duration {
    time_at(bytes, RATE_MIN)
}

fn time_at(bytes: usize, rate: usize) -> Duration {
    Duration::from_secs((bytes / rate) as u64)
}

/// The ends of a connection to somebody, who is called `other` in what is told.
pub fn ends(wire: Box<dyn Wire>, other: &'static str) -> (Incoming, Writer) {
    let (reader, writer) = tokio::io::split(wire);
    let incoming = Incoming { reader, other, received: Vec::new(), spent: 0, heard: Instant::now() };
    (incoming, Writer { half: Arc::new(Mutex::new(Some(writer))), holds: Arc::default(), other })
}

/// The end that reads.
pub struct Incoming {
    reader: ReadHalf<Box<dyn Wire>>,
    other: &'static str,
    /// What has been received.
    received: Vec<u8>,
    /// How many bytes of `received` are taken apart.
    spent: usize,
    /// When something came.
    heard: Instant,
}

type Half = WriteHalf<Box<dyn Wire>>;

/// The end that writes, for all who do.
#[derive(Clone)]
pub struct Writer {
    /// None after an error.
    half: Arc<Mutex<Option<Half>>>,
    /// How often the other side has said that it takes nothing for now, or that it does again: odd while it takes nothing.
    holds: Arc<AtomicU32>,
    other: &'static str,
}

impl Incoming {
    /// What comes next; none when the time is over, and then what has come of it stays.
    ///
    /// `parse` says what stands at the beginning, and how long it is; none while it is not whole. It refuses what would be too
    /// long.
    pub async fn next<T>(
        &mut self,
        deadline: Instant,
        mut parse: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, String>,
    ) -> Result<Option<T>, String> {
        loop {
            if let Some((next, length)) = parse(&self.received[self.spent..])? {
                self.spent += length;
                return Ok(Some(next));
            }
            if self.spent > SPENT_BYTES_MAX || self.spent == self.received.len() {
                self.received.drain(..self.spent);
                self.spent = 0;
            }
            self.received.reserve(1 << 16);
            match timeout_at(deadline, self.reader.read_buf(&mut self.received)).await {
                Err(_) => return Ok(None),
                Ok(Ok(0)) => return Err(format!("{} has closed the connection", self.other)),
                Ok(Ok(_)) => self.heard = Instant::now(),
                Ok(Err(error)) => return Err(format!("the connection is broken: {error}")),
            }
        }
    }

    /// An error if nothing has come for `silence_max`. Something long that comes slowly is no silence, however long it takes.
    pub fn heard_within(&self, silence_max: Duration) -> Result<(), String> {
        if self.heard.elapsed() < silence_max { Ok(()) } else { Err(format!("{} says nothing any more", self.other)) }
    }

    /// The connection as it was; none if something has come that nobody has taken, or somebody else writes.
    pub fn whole(self, writer: Writer) -> Option<Box<dyn Wire>> {
        let writer = Arc::into_inner(writer.half).filter(|_| self.spent == self.received.len())?;
        Some(self.reader.unsplit(writer.into_inner()?))
    }
}

impl Writer {
    /// Takes as long as the other side goes on taking some of it, and no longer than the slowest connection there may be.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), String> {
        // Whoever writes meanwhile has a limit of its own.
        let slot = self.half.lock().await;
        self.send_within(slot, bytes, STALL_MAX, RATE_MIN).await
    }

    /// As `send`, for words that are left out where somebody is in the middle of others.
    pub async fn send_if_free(&self, bytes: &[u8]) -> Result<(), String> {
        let Ok(slot) = self.half.try_lock() else { return Ok(()) };
        self.send_within(slot, bytes, STALL_MAX, RATE_MIN).await
    }

    async fn send_within(
        &self,
        mut slot: MutexGuard<'_, Option<Half>>,
        bytes: &[u8],
        stall_max: Duration,
        rate_min: usize,
    ) -> Result<(), String> {
        let broken = |error: io::Error| format!("the connection is broken: {error}");
        // Words that were cut off, by an error or the end of the time, must not be followed by others: together they could mean
        // something else.
        let mut half = slot.take().ok_or_else(|| broken(io::ErrorKind::BrokenPipe.into()))?;
        let time_max = stall_max + time_at(bytes.len(), rate_min);
        let (mut left, mut latest) = (bytes, Instant::now() + time_max);
        loop {
            let holds = self.holds.load(Ordering::Relaxed);
            let is_over = left.is_empty();
            let step = async { if is_over { half.flush().await.map(|()| 0) } else { half.write(left).await } };
            let taken = timeout_at(Instant::now() + stall_max, step).await;
            // It has said so, and will say when it does again; or has just done. None of that time counts.
            if holds % 2 == 1 || self.holds.load(Ordering::Relaxed) != holds {
                latest = Instant::now() + time_max;
                if taken.is_err() {
                    continue;
                }
            }
            match taken {
                Err(_) => return Err(format!("{} takes nothing any more", self.other)),
                Ok(Err(error)) => return Err(broken(error)),
                Ok(Ok(_)) if is_over => break,
                Ok(Ok(0)) => return Err(broken(io::ErrorKind::WriteZero.into())),
                Ok(Ok(count)) if count < left.len() && Instant::now() >= latest => {
                    return Err(format!("{} takes less than {rate_min} bytes a second", self.other));
                }
                Ok(Ok(count)) => left = &left[count..],
            }
        }
        *slot = Some(half);
        Ok(())
    }

    /// The other side has said that it takes nothing until it says something else, or that it does again. Meanwhile it is waited
    /// for.
    pub fn hold(&self, holds: bool) {
        if self.is_held() != holds {
            self.holds.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn is_held(&self) -> bool {
        self.holds.load(Ordering::Relaxed) % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn a_part_of_something_long_is_no_silence() {
        runtime().block_on(async {
            let (wire, mut other) = tokio::io::duplex(64);
            let (mut incoming, _writer) = ends(Box::new(wire), "the server");
            let whole = |bytes: &[u8]| Ok((bytes.len() == 4).then(|| (bytes.to_vec(), 4)));
            let pause = Duration::from_millis(20);
            for part in [&b"l"[..], b"on"] {
                tokio::time::sleep(pause).await;
                assert!(incoming.heard_within(pause).is_err_and(|problem| problem == "the server says nothing any more"));
                let before = incoming.heard;
                other.write_all(part).await.unwrap();
                assert_eq!(incoming.next(Instant::now(), whole).await, Ok(None));
                assert!(incoming.heard >= before + pause);
                incoming.heard_within(Duration::from_secs(3_600)).unwrap();
            }
            let before = incoming.heard;
            assert_eq!(incoming.next(Instant::now(), whole).await, Ok(None));
            assert_eq!(incoming.heard, before, "nothing came");
            other.write_all(b"g").await.unwrap();
            assert_eq!(incoming.next(Instant::now(), whole).await, Ok(Some(b"long".to_vec())));
        });
    }

    /// Says so much to another side that takes 16 bytes every 50 ms.
    async fn said_slowly(count: usize, stall_max: Duration, rate_min: usize) -> Result<(), String> {
        let (wire, mut other) = tokio::io::duplex(16);
        let (_incoming, writer) = ends(Box::new(wire), "the server");
        let taking = tokio::spawn(async move {
            let mut part = [0; 16];
            while other.read_exact(&mut part).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let slot = writer.half.lock().await;
        let sent = writer.send_within(slot, &vec![7; count], stall_max, rate_min).await;
        taking.abort();
        sent
    }

    #[test]
    fn what_is_taken_slowly_may_take_long() {
        runtime().block_on(async {
            let (stall_max, began) = (Duration::from_secs(1), Instant::now());
            said_slowly(640, stall_max, 16).await.unwrap();
            assert!(began.elapsed() > stall_max, "all of it takes longer than nothing may be taken");
            let told = said_slowly(640, stall_max, 100_000).await.unwrap_err();
            assert_eq!(told, "the server takes less than 100000 bytes a second");
        });
    }

    #[test]
    fn who_says_that_nothing_is_taken_for_now_is_waited_for() {
        runtime().block_on(async {
            let stall_max = Duration::from_millis(100);
            for holds in [false, true] {
                let (wire, mut other) = tokio::io::duplex(16);
                let (_incoming, writer) = ends(Box::new(wire), "the server");
                writer.hold(holds);
                let slot = writer.half.lock().await;
                let sending = writer.send_within(slot, &[7; 64], stall_max, RATE_MIN);
                let taking = async {
                    tokio::time::sleep(stall_max * 5).await;
                    writer.hold(false);
                    let mut said = [0; 64];
                    // Not all of it comes where nobody waits.
                    let _ = other.read_exact(&mut said).await;
                    std::future::pending::<()>().await;
                };
                let sent = tokio::select! {
                    sent = sending => sent,
                    () = taking => unreachable!("it never ends"),
                };
                assert_eq!(sent, if holds { Ok(()) } else { Err("the server takes nothing any more".to_owned()) });
            }
        });
    }

    #[test]
    fn nothing_follows_words_that_were_cut_off() {
        runtime().block_on(async {
            let (wire, mut other) = tokio::io::duplex(6);
            let (incoming, writer) = ends(Box::new(wire), "the server");
            writer.send(b"one ").await.unwrap();
            assert!(timeout(Duration::from_millis(50), writer.send(b"two ")).await.is_err(), "there is room for half of it");
            let mut said = [0; 6];
            other.read_exact(&mut said).await.unwrap();
            assert!(writer.send(b"three ").await.is_err_and(|problem| problem.contains("broken")));
            drop((incoming, writer));
            let mut rest = Vec::new();
            other.read_to_end(&mut rest).await.unwrap();
            assert_eq!((&said, rest.as_slice()), (b"one tw", &b""[..]));
        });
    }
}
