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

/// Reads the messages of a queue of AMQP 0.9.1, as RabbitMQ has them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmqpIngest {
    /// What a message holds, and the query that runs on each. `CypherJson` with `CREATE ($that)` when not given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    #[serde(flatten)]
    pub access: AmqpAccess,
    /// The queue, which has to be there.
    pub queue: String,
    /// Messages that may be unacknowledged, 1000 when not given; 65535 at most.
    #[serde(default = "prefetch", deserialize_with = "config::positive")]
    #[schemars(range(min = 1, max = 65535))]
    pub prefetch: u32,
    /// Taken and shown; records are always evaluated in their order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// Messages a second, at most; all that come when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
    /// What is undone to a message before it is read, in this order; nothing when not given.
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
