//! A web socket that weir opens: it says its init messages, then every message that comes is a record.
//!
//! A server that closes in order (1000, or no code) has said all it had to say: the stream is complete. Any other end, also
//! one that shows only in missing answers to pings, is followed by a new connection with the init messages again. A web
//! socket keeps nothing: what was said meanwhile is lost. The pauses before it grow, whatever the server has said, until one has
//! lasted: of a server that greets and closes each would otherwise look like one that works.

use std::sync::OnceLock;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Client, StatusCode, Upgraded, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_model::Position;

use crate::charset::Charset;
use crate::config::{self, Secret};
use crate::error::ConnectorError;
use crate::feed::{Feed, Inlet, Pauses};
use crate::formats::StreamFormat;
use crate::http::{self, Asked};
use crate::source::{RecordOptions, Source, SourceConfig, SourceContext};

/// A longer message ends the stream.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// For a message of ours to leave.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);

/// Pings without an answer, after which nobody is there.
const PINGS_UNANSWERED_MAX: u32 = 3;

/// All sockets of an interval say that they are alive at this many moments of it, counted from when the first of them began: a
/// thousand that each had a moment of its own would wake the machine a thousand times an interval, and twice, as answers come
/// back.
const MOMENTS: u32 = 5;
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Connects to a web socket and reads its messages.
///
/// Messages that are sent while the connection is lost are missed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsocketSimpleStartupIngest {
    /// How a message is decoded, and the query that runs on each record. `CypherJson` with the query `CREATE ($that)` when not
    /// given.
    #[serde(default = "StreamFormat::create_nodes")]
    pub format: StreamFormat,
    /// The `ws` or `wss` URL of the web socket.
    pub url: String,
    /// Text messages to send, in this order, each time a connection begins. They are secret: they are never shown. None when not
    /// given.
    #[serde(default)]
    pub init_messages: Vec<Secret>,
    /// How the connection is kept alive. A ping every 5 s when not given.
    #[serde(default)]
    pub keep_alive: KeepAlive,
    /// Accepted for compatibility, without effect: the records of a stream take effect one after another, in order.
    #[serde(default = "config::ingest_parallelism", deserialize_with = "config::positive")]
    pub parallelism: u32,
    /// The character set of binary messages. Text messages are always UTF-8.
    #[serde(default = "config::utf_8")]
    pub encoding: String,
    /// The most messages to read per second. No limit when not given.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    pub maximum_per_second: Option<u32>,
}

/// Bytes read at once; each connection has this much room, also where nothing comes.
const READ_BYTES: usize = 16 << 10;

/// How a web socket connection is kept alive.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
pub enum KeepAlive {
    /// A ping at each interval. After three pings without an answer weir connects again.
    PingPongInterval(PingPongInterval),
    /// A text message at each interval.
    SendMessageInterval(SendMessageInterval),
    /// Nothing is sent.
    NoKeepalive,
}

/// Sends pings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PingPongInterval {
    /// The time between two pings. 5 s when not given.
    #[serde(default = "interval", deserialize_with = "config::positive")]
    pub interval_millis: u32,
}

/// Sends a text message again and again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageInterval {
    /// The text to send.
    pub message: String,
    /// The time between two messages. 5 s when not given.
    #[serde(default = "interval", deserialize_with = "config::positive")]
    pub interval_millis: u32,
}

fn interval() -> u32 {
    5000
}

impl Default for KeepAlive {
    fn default() -> KeepAlive {
        KeepAlive::PingPongInterval(PingPongInterval { interval_millis: interval() })
    }
}

impl<'de> Deserialize<'de> for KeepAlive {
    // By hand, so that an error names the option inside.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<KeepAlive, D::Error> {
        let given = Json::deserialize(input)?;
        let keep_alive = config::kind(&given).and_then(|kind| match kind {
            "PingPongInterval" => config::from_json(&given).map(KeepAlive::PingPongInterval),
            "SendMessageInterval" => config::from_json(&given).map(KeepAlive::SendMessageInterval),
            "NoKeepalive" => Ok(KeepAlive::NoKeepalive),
            other => Err(config::unknown_kind(other)),
        });
        keep_alive.map_err(config::nested)
    }
}

impl KeepAlive {
    fn interval(&self) -> Option<Duration> {
        match self {
            KeepAlive::PingPongInterval(ping) => Some(Duration::from_millis(ping.interval_millis.into())),
            KeepAlive::SendMessageInterval(message) => Some(Duration::from_millis(message.interval_millis.into())),
            KeepAlive::NoKeepalive => None,
        }
    }

    fn message(&self) -> Message {
        match self {
            KeepAlive::SendMessageInterval(own) => Message::text(own.message.clone()),
            _ => Message::Ping(Default::default()),
        }
    }
}

impl WebsocketSimpleStartupIngest {
    /// The address of the request that becomes the socket.
    fn address(&self) -> Result<Url, ConnectorError> {
        // The address is not told: what cannot be read may have a password anywhere.
        let refuse = |problem: String| ConnectorError::config("url", problem);
        let address = match self.url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
            _ => return Err(refuse("the URL must begin with ws:// or wss://".to_owned())),
        };
        Url::parse(&address).map_err(|error| refuse(format!("is not a URL: {error}")))
    }
}

impl SourceConfig for WebsocketSimpleStartupIngest {
    fn settings(&self) -> Json {
        let url = http::without_password(&self.url);
        crate::settings("WebsocketSimpleStartupIngest", &WebsocketSimpleStartupIngest { url, ..self.clone() })
    }

    fn stored(&self) -> Json {
        crate::stored("WebsocketSimpleStartupIngest", self)
    }

    fn records(&self) -> RecordOptions<'_> {
        RecordOptions::single(&self.format, &[], self.maximum_per_second)
    }

    fn check(&self, context: &SourceContext) -> Result<(), ConnectorError> {
        Charset::named(&self.encoding)?;
        context.hosts.check(&self.address()?)?;
        self.decoder(context).map(|_| ())
    }

    fn open_source(&self, context: &SourceContext, _from: Option<&Position>) -> Result<Box<dyn Source>, ConnectorError> {
        let url = self.address()?;
        let place = http::shown(&url).replacen("http", "ws", 1);
        let talker = Talker {
            client: http::staying_client(&context.hosts)?,
            url,
            place: place.clone(),
            charset: Charset::named(&self.encoding)?,
            init_messages: self.init_messages.clone(),
            keep_alive: self.keep_alive.clone(),
        };
        Ok(Box::new(Feed::start(&context.runtime, &place, Vec::new(), |inlet| talker.talk(inlet))))
    }
}

struct Talker {
    client: Client,
    url: Url,
    place: String,
    charset: Charset,
    init_messages: Vec<Secret>,
    keep_alive: KeepAlive,
}

/// How a connection went.
enum Ended {
    /// In order: there is nothing more to come.
    Complete,
    /// Why, and how long the server wants to be left alone, at least.
    Broken(String, Duration),
}

impl Talker {
    async fn talk(self, inlet: Inlet) -> Result<(), ConnectorError> {
        let mut pauses = Pauses::new();
        loop {
            match self.connection(&inlet).await? {
                Ended::Complete => {
                    inlet.works();
                    return Ok(());
                }
                Ended::Broken(reason, least) => inlet.again_after(&reason, least, &mut pauses).await,
            }
        }
    }

    async fn connection(&self, inlet: &Inlet) -> Result<Ended, ConnectorError> {
        let key = generate_key();
        let request = self.client.get(self.url.clone()).header(CONNECTION, "Upgrade").header(UPGRADE, "websocket");
        let request = request.header(SEC_WEBSOCKET_VERSION, "13").header(SEC_WEBSOCKET_KEY, &key);
        let answer = match http::ask(&self.place, request).await {
            Asked::Answered(answer) => answer,
            Asked::Failed(reason, least) => return Ok(Ended::Broken(reason, least)),
            Asked::Refused(error) => return Err(error),
        };
        let accepted =
            answer.headers().get(SEC_WEBSOCKET_ACCEPT).is_some_and(|given| given == &*derive_accept_key(key.as_bytes()));
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !accepted {
            let problem = format!("the server answered {} and does not speak the protocol of web sockets", answer.status());
            return Err(http::refusal(&self.place, problem));
        }
        let stream = match answer.upgrade().await {
            Ok(stream) => stream,
            Err(error) => return Ok(Ended::Broken(http::chain(&error), Duration::ZERO)),
        };
        let limits = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX)).max_frame_size(Some(MESSAGE_BYTES_MAX));
        let limits = limits.read_buffer_size(READ_BYTES);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await;
        let mut connection = Connection { socket, alive: self.alive(), keep_alive: &self.keep_alive, unanswered: 0 };
        match connection.read(self, inlet).await {
            Ok(()) => Ok(Ended::Complete),
            Err(Error::Capacity(error)) => {
                let problem = format!("a message has more than {MESSAGE_BYTES_MAX} bytes: {error}");
                Err(ConnectorError::Framing { place: self.place.clone(), problem })
            }
            Err(error) => Ok(Ended::Broken(error.to_string(), Duration::ZERO)),
        }
    }

    fn alive(&self) -> Option<Interval> {
        let every = self.keep_alive.interval()?;
        let began = *FIRST.get_or_init(Instant::now);
        let step = (every / MOMENTS).max(Duration::from_millis(1));
        let steps = (began.elapsed() + every).as_millis() / step.as_millis();
        let first = began + step * u32::try_from(steps).unwrap_or(u32::MAX);
        let mut alive = interval_at(first.max(Instant::now()), every);
        alive.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Some(alive)
    }
}

struct Connection<'t> {
    socket: WebSocketStream<Upgraded>,
    alive: Option<Interval>,
    keep_alive: &'t KeepAlive,
    /// Pings since something came.
    unanswered: u32,
}

impl Connection<'_> {
    /// Reads until the server closes in order.
    async fn read(&mut self, talker: &Talker, inlet: &Inlet) -> Result<(), Error> {
        for message in &talker.init_messages {
            let message = message.get().map_err(|problem| broken(&problem))?;
            self.send(Message::text(message.into_owned())).await?;
        }
        inlet.begun();
        loop {
            let message = tokio::select! {
                message = self.socket.next() => message,
                () = due(&mut self.alive) => {
                    self.unanswered += 1;
                    if self.unanswered > PINGS_UNANSWERED_MAX && matches!(self.keep_alive, KeepAlive::PingPongInterval(_)) {
                        return Err(broken("the server does not answer pings"));
                    }
                    self.send(self.keep_alive.message()).await?;
                    continue;
                }
            };
            self.unanswered = 0;
            match message {
                Some(Ok(Message::Text(text))) => self.hand_on(text.as_bytes().to_vec(), inlet).await?,
                Some(Ok(Message::Binary(bytes))) => self.hand_on(talker.charset.text(bytes.into()), inlet).await?,
                Some(Ok(Message::Close(None))) => return Ok(()),
                Some(Ok(Message::Close(Some(close)))) => match close.code {
                    CloseCode::Normal | CloseCode::Status => return Ok(()),
                    code => return Err(broken(&format!("the server has closed the socket ({code}) {}", close.reason))),
                },
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(broken("the connection was closed")),
            }
        }
    }

    /// While the graph is behind nothing is read, and the connection is kept.
    async fn hand_on(&mut self, record: Vec<u8>, inlet: &Inlet) -> Result<(), Error> {
        let handed = inlet.record(record, Vec::new());
        tokio::pin!(handed);
        let mut kept = Ok(());
        loop {
            tokio::select! {
                () = &mut handed => return kept,
                // What has come is handed on also when the connection has ended.
                () = due(&mut self.alive), if kept.is_ok() => kept = self.send(self.keep_alive.message()).await,
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), Error> {
        let sent = tokio::time::timeout(SEND_TIME_MAX, self.socket.send(message)).await;
        sent.map_err(|_| broken("the server takes nothing"))?
    }
}

async fn due(alive: &mut Option<Interval>) {
    match alive {
        Some(alive) => drop(alive.tick().await),
        None => std::future::pending().await,
    }
}

fn broken(reason: &str) -> Error {
    Error::Io(std::io::Error::other(reason.to_owned()))
}

#[cfg(test)]
#[path = "websocket_tests.rs"]
mod tests;
