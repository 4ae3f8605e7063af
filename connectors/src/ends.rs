//! Both ends of a connection in a protocol that is spoken here: what comes, put together until something is whole, and what is
//! said. Knows no protocol.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::dial::Wire;
use crate::error::ConnectorError;
use crate::http::refusal;

/// For an answer that needs no waiting for anything else.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

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

/// The ends of a connection to somebody, who is called `other` in what is told.
pub fn ends(wire: Box<dyn Wire>, other: &'static str) -> (Incoming, Writer) {
    let (reader, writer) = tokio::io::split(wire);
    let incoming = Incoming { reader, other, received: Vec::new(), spent: 0, heard: Instant::now() };
    (incoming, Writer { half: Arc::new(Mutex::new(Some(writer))), other })
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
    pub async fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let sending = async {
            let mut slot = self.half.lock().await;
            // Words that were cut off, by an error or the end of the time, must not be followed by others: together they could
            // mean something else.
            let mut half = slot.take().ok_or(io::ErrorKind::BrokenPipe)?;
            half.write_all(bytes).await?;
            half.flush().await?;
            *slot = Some(half);
            Ok(())
        };
        let sent = timeout_at(Instant::now() + ANSWER_TIME_MAX, sending).await;
        sent.map_err(|_| format!("{} takes nothing any more", self.other))?
            .map_err(|error: io::Error| format!("the connection is broken: {error}"))
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
