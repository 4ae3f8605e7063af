//! The definition of a stream from a queue of AMQP, and what reads it: at least once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::time::Instant;
use weir_model::Position;

use super::access::{AmqpAccess, Login, is_name};
use super::connection::{Event, HEARTBEAT_SECONDS};
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

/// The server says it twice in that time, or it is not there.
const SILENCE_MAX: Duration = Duration::from_secs(HEARTBEAT_SECONDS as u64 * 2);

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
