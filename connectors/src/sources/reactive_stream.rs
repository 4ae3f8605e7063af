//! A reactive stream: records behind their lengths over a TCP connection that weir opens. The destination of that name, of
//! this weir or another, is the other side.
//!
//! When the other side closes behind a whole record the stream is complete, unless it is to go on then, too. A connection that
//! breaks is made anew; nothing is kept meanwhile, so what was sent then is lost. The pauses before it grow until one has lasted.

use std::time::Duration;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::net::TcpStream;
use weir_model::Position;

use crate::config;
use crate::error::ConnectorError;
use crate::feed::{Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::length_prefix::{self, Next, RECORD_BYTES_MAX};
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};
use crate::tcp;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Reads length-prefixed records over TCP, as the destination `ReactiveStream` of another weir sends them.
///
/// Records may be lost when the connection breaks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReactiveStream {
    /// How a record is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The host name or address of the server.
    pub url: String,
    /// The TCP port of the server.
    #[serde(deserialize_with = "config::port")]
    pub port: u16,
    /// Whether weir connects again when the server closes the connection. When false, the default, the stream is complete then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconnect: bool,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The most records to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
}

impl SourceConfig for ReactiveStream {
    fn settings(&self) -> Json {
        crate::settings("ReactiveStream", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &[], self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        let problem = || ConnectorError::config("url", "is no name of a host");
        let host = if self.url.contains(':') { format!("[{}]", self.url) } else { self.url.clone() };
        let url = Url::parse(&format!("http://{host}:{}/", self.port)).map_err(|_| problem())?;
        if url.path() != "/" || url.has_authority() && !url.username().is_empty() {
            return Err(problem());
        }
        context.hosts.check(&url)?;
        self.decoder(context).map(|_| ())
    }

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let place = format!("{}:{}", self.url, self.port);
        let reader = Reader { host: self.url.clone(), port: self.port, reconnect: self.reconnect, place: place.clone() };
        Ok(Box::new(Feed::start(&context.runtime, &place, Vec::new(), |inlet| reader.read(inlet))))
    }
}

struct Reader {
    host: String,
    port: u16,
    reconnect: bool,
    place: String,
}

impl Reader {
    async fn read(self, inlet: Inlet) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        loop {
            let reason = match self.connection(&inlet).await {
                Next::End if self.reconnect => "the other side has closed the connection".to_owned(),
                Next::End => {
                    inlet.works();
                    return Ok(());
                }
                Next::TooLong(length) => {
                    let problem = format!("a record is said to have {length} bytes, and the longest has {RECORD_BYTES_MAX}");
                    return Err(ConnectorError::Framing { place: self.place, problem });
                }
                Next::Broken(error) => format!("the connection broke: {error}"),
                // It hands these on itself.
                Next::Record(_) => continue,
            };
            inlet.again_after(&reason, Duration::ZERO, &mut pauses).await;
        }
    }

    /// Reads until there is something else than a record.
    async fn connection(&self, inlet: &Inlet) -> Next {
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect((self.host.as_str(), self.port))).await;
        let mut stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Next::Broken(error),
            Err(_) => return Next::Broken(std::io::ErrorKind::TimedOut.into()),
        };
        if let Err(error) = tcp::ask_for_life(&stream) {
            return Next::Broken(error);
        }
        inlet.begun();
        let mut buffered = tokio::io::BufReader::new(&mut stream);
        loop {
            match length_prefix::read(&mut buffered).await {
                Next::Record(record) => inlet.record(record, Vec::new()).await,
                other => return other,
            }
        }
    }
}
