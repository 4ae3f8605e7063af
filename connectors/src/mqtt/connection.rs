//! A connection to a broker: packets one behind the other, and an end that writes for all who do.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::packet::{Hello, PACKET_BYTES_MAX, Packet, connect, parse};
use crate::dial::Wire;

/// For an answer that needs no waiting for anything else.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Received bytes that are taken apart lie before those that are not, up to so many.
const SPENT_BYTES_MAX: usize = 1 << 20;

/// Why there is no connection.
pub enum Refused {
    /// It may work later.
    Passing(String),
    /// It will not.
    ForGood(String),
}

#[derive(Clone)]
pub struct Writer(Arc<Mutex<WriteHalf<Box<dyn Wire>>>>);

impl Writer {
    pub async fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let sending = async {
            let mut half = self.0.lock().await;
            half.write_all(bytes).await?;
            half.flush().await
        };
        let sent = timeout_at(Instant::now() + ANSWER_TIME_MAX, sending).await;
        sent.map_err(|_| "the broker takes nothing any more".to_owned())?
            .map_err(|error: std::io::Error| format!("the connection is broken: {error}"))
    }
}

pub struct Connection {
    reader: ReadHalf<Box<dyn Wire>>,
    pub writer: Writer,
    /// Received, and so much of it taken apart.
    received: Vec<u8>,
    spent: usize,
}

impl Connection {
    pub async fn over(wire: Box<dyn Wire>, hello: &Hello<'_>) -> Result<(Connection, bool), Refused> {
        let (reader, writer) = tokio::io::split(wire);
        let mut connection = Connection { reader, writer: Writer(Arc::new(Mutex::new(writer))), received: Vec::new(), spent: 0 };
        connection.writer.send(&connect(hello)).await.map_err(Refused::Passing)?;
        let answer = connection.packet(Instant::now() + ANSWER_TIME_MAX).await.map_err(Refused::Passing)?;
        match answer {
            Some(Packet::Connected { kept, code: 0 }) => Ok((connection, kept)),
            Some(Packet::Connected { code, .. }) => Err(refused(code)),
            Some(_) => Err(Refused::Passing("the broker does not speak the protocol of MQTT 3.1.1".to_owned())),
            None => Err(Refused::Passing(format!("there was no answer within {} s", ANSWER_TIME_MAX.as_secs()))),
        }
    }

    /// The next packet; none when the time is over, and then what has come of it stays.
    pub async fn packet(&mut self, deadline: Instant) -> Result<Option<Packet>, String> {
        loop {
            if let Some((packet, length)) = parse(&self.received[self.spent..])? {
                self.spent += length;
                return Ok(Some(packet));
            }
            if self.spent > SPENT_BYTES_MAX || self.spent == self.received.len() {
                self.received.drain(..self.spent);
                self.spent = 0;
            }
            debug_assert!(self.received.len() - self.spent <= PACKET_BYTES_MAX + 5);
            self.received.reserve(1 << 16);
            match timeout_at(deadline, self.reader.read_buf(&mut self.received)).await {
                Err(_) => return Ok(None),
                Ok(Ok(0)) => return Err("the broker has closed the connection".to_owned()),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(format!("the connection is broken: {error}")),
            }
        }
    }
}

fn refused(code: u8) -> Refused {
    match code {
        1 => Refused::ForGood("the broker does not know MQTT 3.1.1".to_owned()),
        2 => Refused::ForGood("the broker does not take this clientId".to_owned()),
        3 => Refused::Passing("the broker is not available".to_owned()),
        // Somebody may be about to set that right.
        _ => Refused::Passing(format!("the login is refused ({code})")),
    }
}
