//! The definition of a stream from a queue of AMQP, and what reads it: at least once.

use std::convert::Infallible;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{AmqpAccess, Login, is_name};
use super::connection::{Event, SILENCE_MAX};
use super::frame::{self, Method};
use super::unacknowledged::Unacknowledged;
use crate::config;
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::feed::{self, Inlet, Reads};
use crate::formats::StreamFormat;
use crate::keeper::Keeper;
use crate::recoding::RecordDecoder;
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// Reads messages from a queue of an AMQP 0.9.1 server, such as RabbitMQ.
///
/// A message is acknowledged when its effect is durable. Each message has its effect at least once; it may come again after a
/// failure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmqpIngest {
    /// How a message is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: AmqpAccess,
    /// The name of the queue. While it does not exist, the stream waits for it.
    pub queue: String,
    /// The most messages that may be unacknowledged at a time, from 1 to 65535. 1000 when not given.
    #[serde(default = "prefetch", deserialize_with = "config::positive")]
    #[schemars(range(min = 1, max = 65535))]
    pub prefetch: u32,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most messages to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// Decodings and decompressions to apply to each message before `format` reads it, in this order. None when not given.
    #[serde(default)]
    pub record_decoders: Vec<RecordDecoder>,
}

fn prefetch() -> u32 {
    1_000
}

impl SourceConfig for AmqpIngest {
    fn settings(&self) -> Json {
        crate::settings("AmqpIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &self.record_decoders, self.maximum_per_second)
    }

    fn comes_again(&self) -> bool {
        true
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        if self.queue.is_empty() || !is_name(&self.queue) {
            return Err(ConnectorError::config("queue", "is no name of a queue: 1 to 255 bytes"));
        }
        if self.prefetch > u16::MAX.into() {
            return Err(ConnectorError::config("prefetch", "65535 messages are the most"));
        }
        self.access.check(&context.hosts)?;
        self.decoder(context).map(|_| ())
    }

    fn shown_position(&self, position: &[u8]) -> Option<Json> {
        feed::shown_number(position)
    }

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let login = self.access.login(&context.hosts)?;
        let place = format!("queue {} of {}", self.queue, login.place);
        let keeper = Arc::new(Keeper::default());
        let reader = Reader { login, queue: self.queue.clone(), prefetch: self.prefetch as u16, keeper: keeper.clone() };
        Ok(Box::new(keeper.feed(&context.runtime, &place, Vec::new(), reader)))
    }
}

struct Reader {
    login: Login,
    queue: String,
    prefetch: u16,
    keeper: Arc<Keeper<Unacknowledged>>,
}

impl Reads for Reader {
    async fn connection(&mut self, inlet: &Inlet) -> Result<Infallible, Refused> {
        let mut connection = self.login.connect().await?;
        self.keeper.connected(connection.writer.clone(), Unacknowledged::connected);
        connection.ask(frame::QOS, Method::default().u32(0).u16(self.prefetch).u8(0), frame::QOS_OK).await?;
        let consume = Method::default().u16(0).word(&self.queue).word("").u8(0).long(&[]);
        connection.ask(frame::CONSUME, consume, frame::CONSUME_OK).await?;
        // Only now: a queue that is gone gives nothing again.
        inlet.drop_earlier();
        inlet.connected();
        loop {
            match connection.event(Instant::now() + SILENCE_MAX).await? {
                Some(Event::Message(number, body)) => {
                    if let Some(record) = self.keeper.took(|waiting, record| waiting.took(record, number)) {
                        inlet.numbered(body, record).await;
                    }
                }
                Some(_) => {}
                None => connection.incoming.heard_within(SILENCE_MAX)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;
    use std::sync::Mutex;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::amqp::frame::tests::next_frame;
    use crate::conformance::anything;
    use crate::destination::tests::{other_side, read};
    use crate::frames::{Frames, Limits};
    use crate::parse_source_v1;

    /// Consumers that the server sends away, one after another.
    const CONSUMERS: usize = 3;

    const MESSAGES: [&str; 3] = ["1", "2", "3"];

    /// A server whose queue holds messages that nobody acknowledges: it gives them to each consumer, and then closes the
    /// connection, as one that has waited too long does. In `read_by` is who has read all of that. Nobody comes in behind the
    /// last of them.
    fn serve(mut connection: TcpStream, read_by: &Mutex<Vec<String>>) -> Option<()> {
        if read_by.lock().unwrap().len() == CONSUMERS {
            return None;
        }
        read(&mut connection, 8)?;
        let mut out = Method::default().frame(frame::START);
        loop {
            connection.write_all(&out).ok()?;
            out.clear();
            let (kind, payload) = next_frame(&mut connection)?;
            if kind != 1 {
                continue;
            }
            let two = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
            match (two(0), two(2)) {
                frame::START_OK => Method::default().u16(0).u32(0).u16(0).put(frame::TUNE, &mut out),
                frame::OPEN => Method::default().put(frame::OPEN_OK, &mut out),
                frame::CHANNEL_OPEN => Method::default().put(frame::CHANNEL_OPEN_OK, &mut out),
                frame::QOS => Method::default().put(frame::QOS_OK, &mut out),
                frame::CONSUME => {
                    Method::default().word("tag").put(frame::CONSUME_OK, &mut out);
                    for (number, body) in (1..).zip(MESSAGES) {
                        Method::default().word("tag").u64(number).u8(0).word("").word("q").put(frame::DELIVER, &mut out);
                        frame::message("text/plain", "", body.as_bytes(), frame::FRAME_BYTES_MAX, &mut out);
                    }
                    let why = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out";
                    Method::default().u16(406).word(why).u16(0).u16(0).put(frame::CLOSE, &mut out);
                }
                // All before that has been read.
                frame::CLOSE_OK => {
                    read_by.lock().unwrap().push("a consumer".to_owned());
                    return Some(());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn messages_that_wait_have_one_effect_however_often_the_connection_ends_meanwhile() {
        let (address, read_by) = other_side(serve);
        let definition = json!({"type": "AmqpIngest", "url": format!("amqp://{address}"), "queue": "q"});
        // Nobody asks it for anything, as while it is paused.
        let mut stream = parse_source_v1(&definition).unwrap().open(&anything(), None).unwrap();
        let since = Instant::now();
        while read_by.lock().unwrap().len() < CONSUMERS {
            assert!(since.elapsed() < Duration::from_secs(60), "it comes again");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (limits, mut batch) = (Limits { wait_max: Duration::from_millis(500), ..Limits::default() }, Frames::default());
        stream.next(&limits, &mut batch).unwrap();
        let taken: Vec<&[u8]> = (0..batch.len()).map(|index| batch.get(index).bytes).collect();
        assert_eq!(taken, MESSAGES.map(str::as_bytes));
    }
}
