//! What others say in the protocols that are spoken here, listened to without a connection to them: for tests that feed bytes
//! nobody would send.
//!
//!     bytes ─> Said, which takes whatever is answered ─> the connection of the protocol ─> messages
//!
//! What is listened to is what runs: the same login, the same readers, the same meaning of a message. Only sockets and patience
//! are missing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::dial::Wire;
use crate::ends::Refused;
use crate::event_stream::EventParser;
use crate::fields::Fields;
use crate::{amqp, length_prefix, mqtt, nats, postgres, redis};

/// Nobody is waited for: all that will ever come is there.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Who is listened to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    Nats,
    Mqtt,
    Amqp,
    Redis,
    Postgres,
    #[cfg(feature = "aws")]
    KinesisEvents,
    ServerSentEvents,
    ReactiveStream,
}

/// Listens to the end of the bytes, which come in pieces of `piece_bytes`; how many messages meant something, and why no more
/// did.
pub async fn listen(speaker: Speaker, bytes: &[u8], piece_bytes: usize) -> (u64, String) {
    let mut heard = 0;
    let wire = Said { bytes: bytes.to_vec(), at: 0, piece_bytes: piece_bytes.max(1) };
    let ended = match speaker {
        Speaker::Nats => nats(wire, &mut heard).await,
        Speaker::Mqtt => mqtt(wire, &mut heard).await,
        Speaker::Amqp => amqp(wire, &mut heard).await,
        Speaker::Redis => redis(wire, &mut heard).await,
        Speaker::Postgres => postgres(wire, &mut heard).await,
        #[cfg(feature = "aws")]
        Speaker::KinesisEvents => kinesis(bytes, piece_bytes.max(1), &mut heard),
        Speaker::ServerSentEvents => server_sent(bytes, piece_bytes.max(1), &mut heard),
        Speaker::ReactiveStream => reactive(wire, &mut heard).await,
    };
    (heard, ended.err().unwrap_or_default())
}

async fn nats(wire: impl Wire + 'static, heard: &mut u64) -> Result<(), String> {
    let mut connection = nats::connection::Connection::greeted(Box::new(wire)).await?;
    connection.log_in(&serde_json::Value::Null).await?;
    while let Some(message) = connection.message(Instant::now() + PATIENCE).await? {
        let place = message.reply.as_deref().and_then(nats::jetstream::Place::of);
        let told = message.status().is_some() || message.header("Nats-Expected-Last-Sequence").is_some();
        *heard += u64::from(place.is_some() || told || nats::jetstream::read(&message).is_ok());
    }
    Ok(())
}

async fn mqtt(wire: impl Wire + 'static, heard: &mut u64) -> Result<(), String> {
    let hello = mqtt::packet::Hello { client: "weir", forget: false, username: None, password: None, alive_seconds: 30 };
    let (mut connection, _) = mqtt::connection::Connection::over(Box::new(wire), &hello).await.map_err(told)?;
    while connection.packet(Instant::now() + PATIENCE).await?.is_some() {
        *heard += 1;
    }
    Ok(())
}

async fn amqp(wire: impl Wire + 'static, heard: &mut u64) -> Result<(), String> {
    let mut connection = amqp::connection::Connection::over(Box::new(wire), "weir", "secret", "/").await.map_err(told)?;
    while connection.event(Instant::now() + PATIENCE).await.map_err(told)?.is_some() {
        *heard += 1;
    }
    Ok(())
}

async fn redis(wire: impl Wire + 'static, heard: &mut u64) -> Result<(), String> {
    use redis::entry::{Count, of_stream};
    let mut connection = redis::connection::Connection::over(Box::new(wire));
    let mut count = Count::new();
    while let Some(reply) = connection.answer(Instant::now() + PATIENCE).await? {
        let read = |field| redis::entry::refused(reply.clone()).and_then(|reply| of_stream(reply, field));
        if let (Ok(entries), Ok(_)) = (read(None), read(Some(b"value"))) {
            count.learn(&entries);
            *heard += 1;
        }
    }
    Ok(())
}

async fn postgres(wire: impl Wire + 'static, heard: &mut u64) -> Result<(), String> {
    use postgres::changes::{Cell, Event, Table, Tables, Transaction, present};
    use postgres::connection::{Connection, Hello, row};
    use postgres::message::Said;
    let hello = Hello { username: "weir", password: Some("secret"), database: "shop", replication: true };
    let opened = Connection::over(Box::new(wire), &hello, true).await;
    let mut connection = opened.map_err(|failed| told(Refused::from(failed)))?;
    let (mut tables, mut table, transaction) = (Tables::default(), Table::default(), Transaction::default());
    while let Some(message) = connection.message(Instant::now() + PATIENCE).await? {
        match message.kind {
            b'E' => drop(Said::read(&message.body)),
            b'T' => table.columns = postgres::ingest::columns(&message.body).unwrap_or_default(),
            b'D' => {
                let Some(row) = row(&message.body) else { continue };
                let cells: Vec<Cell> = row.into_iter().map(|value| value.map_or(Cell::Null, Cell::Text)).collect();
                *heard += u64::from(present(&table, &cells).is_ok());
            }
            b'd' => {
                let mut fields = Fields(&message.body);
                if fields.u8() != Some(b'w') || fields.bytes(24).is_none() {
                    continue;
                }
                // A reader of changes that understands one wrongly begins anew; here it is to see all of them.
                let changes = match tables.event(fields.0) {
                    Ok(Event::Change(change)) => vec![change],
                    Ok(Event::Truncated(changes)) => changes,
                    _ => continue,
                };
                *heard += changes.iter().filter(|change| tables.record(change, &transaction).is_ok()).count() as u64;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(feature = "aws")]
fn kinesis(bytes: &[u8], piece_bytes: usize, heard: &mut u64) -> Result<(), String> {
    let mut come = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        come.extend_from_slice(piece);
        while crate::aws::events::take(&mut come)?.is_some() {
            *heard += 1;
        }
    }
    Ok(())
}

fn server_sent(bytes: &[u8], piece_bytes: usize, heard: &mut u64) -> Result<(), String> {
    let (mut parser, mut events) = (EventParser::default(), Vec::new());
    for piece in bytes.chunks(piece_bytes) {
        parser.push(piece, &mut events)?;
        *heard += events.drain(..).count() as u64;
    }
    Ok(())
}

async fn reactive(mut wire: impl Wire, heard: &mut u64) -> Result<(), String> {
    loop {
        match length_prefix::read(&mut wire).await {
            length_prefix::Next::Record(_) => *heard += 1,
            length_prefix::Next::End => return Ok(()),
            length_prefix::Next::Broken(error) => return Err(error.to_string()),
            length_prefix::Next::TooLong(length) => return Err(format!("a record of {length} bytes")),
        }
    }
}

fn told(refused: Refused) -> String {
    match refused {
        Refused::Passing(problem) | Refused::ForGood(problem) | Refused::Position(problem) => problem,
    }
}

/// The other side of a connection: it says what it was given, whatever it is answered.
struct Said {
    bytes: Vec<u8>,
    at: usize,
    piece_bytes: usize,
}

impl AsyncRead for Said {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let end = self.bytes.len().min(self.at + self.piece_bytes.min(buffer.remaining()));
        buffer.put_slice(&self.bytes[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Said {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
