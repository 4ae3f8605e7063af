//! A connection to a server of AMQP, with one channel: methods and messages one behind the other, and an end that writes for all
//! who do.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::frame::{self, Frame, Method, Name, parse};
use crate::dial::Wire;
use crate::ends::{ANSWER_TIME_MAX, Incoming, Refused, Writer, ends, unanswered};
use crate::fields::Fields;

/// Each side says that it is there after this long; after twice as long without a word it is taken for gone.
pub const HEARTBEAT_SECONDS: u16 = 20;

/// The server says it twice in that time, or it is not there.
pub const SILENCE_MAX: Duration = Duration::from_secs(HEARTBEAT_SECONDS as u64 * 2);

/// No message that comes is longer.
const MESSAGE_BYTES_MAX: u64 = 128 << 20;

/// What a server closes with that will not be otherwise the next time: what was asked for is not known there.
const FOR_GOOD: [u16; 2] = [503, 540];

/// What it closes with where what was asked for is not allowed: not at all, or not to so many at a time.
const NOT_ALLOWED: u16 = 530;

/// What it says of a message that is longer than it takes: by the protocol, and as RabbitMQ does.
const TOO_LARGE: [u16; 2] = [311, 406];

/// What comes on the channel.
#[derive(Debug)]
pub enum Event {
    /// A message for the consumer, with the number it is acknowledged by.
    Message(u64, Vec<u8>),
    /// Messages that were published are safe, or not: up to this one, or it alone.
    Confirmed {
        number: u64,
        several: bool,
        safe: bool,
    },
    /// One that was published leads nowhere: why, and its id. What the server says of it next is that it is done with it.
    Returned(String, String),
    /// One of those that were published and are not confirmed is none that the server takes, and nothing more is heard of the
    /// others: why.
    Unfit(String),
    /// The server takes nothing for now, as it lacks memory or disk: why.
    Blocked(String),
    /// It does again.
    Unblocked,
    Answer(Name, Vec<u8>),
}

pub struct Connection {
    pub incoming: Incoming,
    pub writer: Writer,
    pub frame_bytes_max: usize,
    /// What came while something was sent.
    heard: VecDeque<Event>,
    /// A message whose parts are coming.
    coming: Option<Coming>,
}

struct Coming {
    event: Event,
    /// None before its header.
    left: Option<u64>,
    body: Vec<u8>,
}

impl Connection {
    pub async fn over(wire: Box<dyn Wire>, username: &str, password: &str, host: &str) -> Result<Connection, Refused> {
        let (incoming, writer) = ends(wire, "the server");
        let (frame_bytes_max, heard) = (frame::FRAME_BYTES_MAX, VecDeque::new());
        let mut connection = Connection { incoming, writer, frame_bytes_max, heard, coming: None };
        connection.writer.send(b"AMQP\x00\x00\x09\x01").await?;
        connection.expect(frame::START).await?;
        let abilities = frame::abilities(&[
            "publisher_confirms",
            "consumer_cancel_notify",
            "basic.nack",
            "authentication_failure_close",
            "connection.blocked",
        ]);
        let proof = format!("\0{username}\0{password}");
        let login = Method::default().long(&abilities).word("PLAIN").long(proof.as_bytes()).word("en_US");
        connection.writer.send(&login.frame(frame::START_OK)).await?;
        let tune = connection.expect(frame::TUNE).await?;
        let mut fields = Fields(&tune);
        let (_, bytes_max, _) = (fields.u16(), fields.u32().unwrap_or_default(), fields.u16());
        // None is as much as anybody likes.
        if bytes_max > 0 {
            connection.frame_bytes_max = connection.frame_bytes_max.min(bytes_max as usize).max(4096);
        }
        let mut bytes =
            Method::default().u16(1).u32(connection.frame_bytes_max as u32).u16(HEARTBEAT_SECONDS).frame(frame::TUNE_OK);
        Method::default().word(host).word("").u8(0).put(frame::OPEN, &mut bytes);
        connection.writer.send(&bytes).await?;
        connection.expect(frame::OPEN_OK).await?;
        connection.ask(frame::CHANNEL_OPEN, Method::default().word(""), frame::CHANNEL_OPEN_OK).await?;
        Ok(connection)
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&mut self, name: Name, method: Method, answer: Name) -> Result<Vec<u8>, Refused> {
        self.writer.send(&method.frame(name)).await?;
        self.expect(answer).await
    }

    async fn expect(&mut self, expected: Name) -> Result<Vec<u8>, Refused> {
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        loop {
            match self.event(deadline).await? {
                Some(Event::Answer(name, fields)) if name == expected => return Ok(fields),
                Some(Event::Blocked(_) | Event::Unblocked) => {}
                Some(other) => {
                    return Err(Refused::Passing(format!("the server answers something else than {expected:?}: {other:?}")));
                }
                None => return Err(Refused::Passing(unanswered())),
            }
        }
    }

    /// Sends, and hears meanwhile what the server says: where it takes nothing for now it says so (`blocked`), and is waited for.
    /// What else it says comes next.
    pub async fn send_hearing(&mut self, bytes: &[u8], blocked: impl Fn(&str)) -> Result<(), Refused> {
        let writer = self.writer.clone();
        let mut sending = pin!(writer.send(bytes));
        loop {
            tokio::select! {
                sent = &mut sending => return sent.map_err(Refused::from),
                event = self.coming_event(Instant::now() + SILENCE_MAX) => match event? {
                    Some(Event::Blocked(reason)) => blocked(&reason),
                    Some(event) => self.heard.push_back(event),
                    // While it takes nothing, only this tells that it is there.
                    None if self.writer.is_held() => self.incoming.heard_within(SILENCE_MAX)?,
                    None => {}
                },
            }
        }
    }

    /// What comes next. None when the time is over, and then what has come of it stays.
    pub async fn event(&mut self, deadline: Instant) -> Result<Option<Event>, Refused> {
        match self.heard.pop_front() {
            Some(event) => Ok(Some(event)),
            None => self.coming_event(deadline).await,
        }
    }

    async fn coming_event(&mut self, deadline: Instant) -> Result<Option<Event>, Refused> {
        let broken = || Refused::Passing("the server does not speak the protocol of AMQP 0.9.1".to_owned());
        loop {
            let Some(frame) = self.incoming.next(deadline, parse).await? else { return Ok(None) };
            let is_between = self.coming.is_none();
            match (frame, &mut self.coming) {
                (Frame::Heartbeat, _) => {}
                (Frame::Header(length, id), Some(coming)) if coming.left.is_none() => {
                    if let (Event::Returned(_, told), Some(id)) = (&mut coming.event, id) {
                        *told = id;
                    }
                    if length > MESSAGE_BYTES_MAX {
                        return Err(Refused::ForGood(format!("a message has {length} bytes, more than {MESSAGE_BYTES_MAX}")));
                    }
                    coming.left = Some(length);
                }
                (Frame::Body(part), Some(Coming { left: Some(left), body, .. })) => {
                    *left = left.checked_sub(part.len() as u64).ok_or_else(broken)?;
                    body.extend_from_slice(&part);
                }
                // What the server says of the connection may come between the parts of a message.
                (Frame::Method(name, fields), _) if is_between || name.0 == frame::CLOSE.0 => {
                    match self.method(name, fields).await? {
                        Some(event @ (Event::Message(..) | Event::Returned(..))) => {
                            self.coming = Some(Coming { event, left: None, body: Vec::new() });
                        }
                        Some(event) => return Ok(Some(event)),
                        None => {}
                    }
                }
                _ => return Err(broken()),
            }
            if let Some(Coming { event, body, .. }) = self.coming.take_if(|coming| coming.left == Some(0)) {
                return Ok(Some(match event {
                    Event::Message(number, _) => Event::Message(number, body),
                    other => other,
                }));
            }
        }
    }

    async fn method(&mut self, name: Name, payload: Vec<u8>) -> Result<Option<Event>, Refused> {
        let broken = || Refused::Passing("the server does not speak the protocol of AMQP 0.9.1".to_owned());
        let mut fields = Fields(&payload);
        match name {
            frame::DELIVER => {
                fields.word().ok_or_else(broken)?;
                Ok(Some(Event::Message(fields.u64().ok_or_else(broken)?, Vec::new())))
            }
            frame::RETURN => {
                let (code, text) = (fields.u16().ok_or_else(broken)?, fields.word().ok_or_else(broken)?);
                let (exchange, key) = (fields.word().unwrap_or_default(), fields.word().unwrap_or_default());
                Ok(Some(Event::Returned(format!("{code} {text}: exchange {exchange:?}, routing key {key:?}"), String::new())))
            }
            frame::ACK | frame::NACK => {
                let (number, flags) = (fields.u64().ok_or_else(broken)?, fields.u8().ok_or_else(broken)?);
                Ok(Some(Event::Confirmed { number, several: flags & 1 == 1, safe: name == frame::ACK }))
            }
            frame::BLOCKED => {
                self.writer.hold(true);
                Ok(Some(Event::Blocked(fields.word().unwrap_or_default())))
            }
            frame::UNBLOCKED => {
                self.writer.hold(false);
                Ok(Some(Event::Unblocked))
            }
            frame::CANCEL => Err(Refused::Passing("the queue was deleted, or has moved".to_owned())),
            frame::CLOSE | frame::CHANNEL_CLOSE => {
                let (code, text) = (fields.u16().ok_or_else(broken)?, fields.word().ok_or_else(broken)?);
                if name == frame::CLOSE {
                    // It may be gone by now, and need not be told where it would have to hear the rest of something else first.
                    let _ = self.writer.send_if_free(&Method::default().frame(frame::CLOSE_OK)).await;
                }
                let problem = format!("the server says: {code} {text}");
                let of = (fields.u16().unwrap_or_default(), fields.u16().unwrap_or_default());
                if TOO_LARGE.contains(&code) && of == frame::PUBLISH {
                    return Ok(Some(Event::Unfit(problem)));
                }
                Err(if is_for_good(code, &text) { Refused::ForGood(problem) } else { Refused::Passing(problem) })
            }
            _ => Ok(Some(Event::Answer(name, payload))),
        }
    }
}

/// Whether a server that closes with these words will do so the next time, too.
fn is_for_good(code: u16, text: &str) -> bool {
    // A virtual host that is not there, or not for this user. Where RabbitMQ says more behind the name of the user, it is that
    // there are as many connections as may be, which is likely when all come back to a server that was started anew, or that it
    // could not find out.
    let not_there = text.ends_with(" not found");
    let not_for_us = text.ends_with('\'') && text.contains(" refused for user '");
    FOR_GOOD.contains(&code) || code == NOT_ALLOWED && (not_there || not_for_us)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Notify;

    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn what_the_server_says_while_something_is_sent_is_heard_and_comes_next() {
        let mut said = Method::default().u16(312).word("NO_ROUTE").word("").word("results").frame(frame::RETURN);
        Method::default().word("low on memory").put(frame::BLOCKED, &mut said);
        frame::message("text/plain", "an id", b"body", frame::FRAME_BYTES_MAX, &mut said);
        Method::default().u64(1).u8(0).put(frame::ACK, &mut said);
        runtime().block_on(async {
            let (wire, mut other) = tokio::io::duplex(64);
            let (incoming, writer) = ends(Box::new(wire), "the server");
            let (frame_bytes_max, heard) = (frame::FRAME_BYTES_MAX, VecDeque::new());
            let mut connection = Connection { incoming, writer, frame_bytes_max, heard, coming: None };
            let told = Notify::new();
            let blocked = |reason: &str| {
                assert_eq!(reason, "low on memory");
                told.notify_one();
            };
            let answering = async {
                other.write_all(&said).await.unwrap();
                // It takes nothing before that.
                told.notified().await;
                other.read_exact(&mut [0; 1_000]).await.unwrap();
                Ok(())
            };
            tokio::try_join!(connection.send_hearing(&[7; 1_000], blocked), answering).unwrap();
            assert!(connection.writer.is_held());
            let event = connection.event(Instant::now()).await.unwrap();
            assert!(matches!(&event, Some(Event::Returned(_, id)) if id == "an id"), "{event:?}");
            let event = connection.event(Instant::now()).await.unwrap();
            assert!(matches!(event, Some(Event::Confirmed { number: 1, several: false, safe: true })), "{event:?}");
        });
    }

    #[test]
    fn a_limit_of_connections_passes_and_a_virtual_host_that_is_not_there_does_not() {
        for (code, text, for_good) in [
            (530, "NOT_ALLOWED - vhost nowhere not found", true),
            (530, "NOT_ALLOWED - access to vhost '/limit' refused for user 'guest'", true),
            (530, "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached", false),
            (530, "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached", false),
            (530, "NOT_ALLOWED - access to vhost '/' refused for user 'guest', backend x returned an error: timeout", false),
            (503, "COMMAND_INVALID - unexpected method", true),
            (540, "NOT_IMPLEMENTED - active=false", true),
            (320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", false),
        ] {
            assert_eq!(is_for_good(code, text), for_good, "{code} {text}");
        }
    }
}
