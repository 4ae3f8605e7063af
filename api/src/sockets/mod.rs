//! Web sockets: the handshake, and the loop that sends what comes to one that only listens; conversations in files of their own.
//!
//! A socket that is slower than an output it listens to loses some of it; one that falls too far behind the results of a query
//! ends. All of them end when weir stops, when the login ends that opened them, and when nothing comes from the client any more,
//! which answers pings while it is there.

pub mod language;
pub mod line;
pub mod protocol;
pub mod upload;

use std::future::{Future, ready};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, SinkExt, Stream, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use warp::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use warp::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::reply::Response;

use self::line::Line;
use crate::app::App;
use crate::auth::Lease;
use crate::error::{self, plain};
use crate::events::{Event, GAP};
use crate::routes::Request;

/// The longest message of a client.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// A client is pinged as often as `query.client-patience` has it, within these bounds.
const PING_INTERVAL_MIN: Duration = Duration::from_millis(100);
const PING_INTERVAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// When nothing has come for this many times the patience, the client is gone.
pub const SILENCES_MAX: u32 = 4;

/// Why a socket ends whose login does.
const LOGIN_OVER: &str = "the login has ended";

/// How long what a client still sends is read, once it was told that it made a mistake, or that weir ends.
const REST_MAX: Duration = Duration::from_secs(2);

/// What a handshake makes of a connection, and for how long whoever has opened it may.
pub struct Connection {
    stream: WebSocketStream<Line<TokioIo<Upgraded>, ()>>,
    lease: Lease,
}

/// A web socket that is talked over.
pub struct Socket {
    connection: WebSocketStream<Line<TokioIo<Upgraded>, ()>>,
    /// Over when the login is.
    ended: BoxFuture<'static, ()>,
    patience: Duration,
    pings: Interval,
    /// Times between pings, one behind the other, in which nothing came.
    silences: u32,
}

/// Whether one of the values of a header, which are lists, names this.
fn has(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    let all = headers.get_all(name).iter().filter_map(|given| given.to_str().ok());
    all.flat_map(|given| given.split(',')).any(|given| given.trim().eq_ignore_ascii_case(value))
}

/// Whether a web socket is asked for. Clients ask for other protocols, too, and take it when they do not get them: `h2c`.
pub fn is_asked(headers: &HeaderMap) -> bool {
    has(headers, UPGRADE, "websocket")
}

/// Whether `accept` takes it, for those who give something away first.
pub fn is_handshake(headers: &HeaderMap) -> bool {
    let asked = is_asked(headers) && has(headers, CONNECTION, "upgrade") && has(headers, SEC_WEBSOCKET_VERSION, "13");
    asked && headers.contains_key(SEC_WEBSOCKET_KEY)
}

/// The answer to what is no handshake.
pub fn refusal() -> Response {
    plain(StatusCode::BAD_REQUEST, "Expected WebSocket Upgrade request")
}

/// Answers the handshake of a request, and gives the socket to `talk` once the connection is one.
pub fn accept<F>(request: Request, talk: impl FnOnce(Connection) -> F + Send + 'static) -> Response
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let Request { headers, upgrade, caller, .. } = request;
    let (headers, lease) = (&headers, caller.lease());
    let (Some(key), Some(upgrade), true) = (headers.get(SEC_WEBSOCKET_KEY), upgrade, is_handshake(headers)) else {
        return refusal();
    };
    let mut reply = error::response(StatusCode::SWITCHING_PROTOCOLS, None, String::new());
    let answered = reply.headers_mut();
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        answered.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    tokio::spawn(async move {
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!("a connection did not become a web socket: {error}"),
        };
        let limits = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX)).max_frame_size(Some(MESSAGE_BYTES_MAX));
        let line = Line::new(TokioIo::new(upgraded), ());
        let stream = WebSocketStream::from_raw_socket(line, Role::Server, Some(limits)).await;
        if let Err(error) = talk(Connection { stream, lease }).await {
            tracing::debug!("a web socket ended: {error}");
        }
    });
    reply
}

impl Socket {
    pub fn over(connection: Connection, app: &App) -> Socket {
        let patience = app.queries.settings.client_patience;
        let interval = patience.clamp(PING_INTERVAL_MIN, PING_INTERVAL_MAX);
        let mut pings = interval_at(Instant::now() + interval, interval);
        // Where nothing was read for long, what has come meanwhile is read before silence is counted on.
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let Connection { stream, lease } = connection;
        Socket { connection: stream, ended: lease.ended().boxed(), patience, pings, silences: 0 }
    }

    /// What comes next. Pings the client while it waits; an error says, too, that it is gone, or that its login is over.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        loop {
            tokio::select! {
                () = &mut self.ended => return Some(Err(self.login_over())),
                message = self.connection.next() => return message,
                _ = self.pings.tick() => {}
            }
            self.silences = if self.connection.get_ref().traffic().take_heard() { 0 } else { self.silences + 1 };
            if self.silences >= SILENCES_MAX {
                let reason = "nothing comes from the client, not even answers to pings (query.client-patience)";
                return Some(Err(Error::Io(io::Error::other(reason))));
            }
            if let Err(error) = self.ping().await {
                return Some(Err(error));
            }
        }
    }

    /// Waits until the connection breaks, for while nothing is read: answers to pings lie behind what is not read.
    pub async fn broken(&mut self) -> Error {
        loop {
            tokio::select! {
                () = &mut self.ended => return self.login_over(),
                _ = self.pings.tick() => {}
            }
            if let Err(error) = self.ping().await {
                return error;
            }
        }
    }

    fn login_over(&mut self) -> Error {
        // It stays over, whoever asks again.
        self.ended = ready(()).boxed();
        Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, LOGIN_OVER))
    }

    async fn ping(&mut self) -> Result<(), Error> {
        patiently(self.patience, self.connection.send(Message::Ping(Default::default()))).await
    }

    /// Sends a text. A client that takes nothing for too long loses its socket.
    pub async fn send(&mut self, text: String) -> Result<(), Error> {
        patiently(self.patience, self.connection.send(Message::text(text))).await
    }

    /// Answers the Close of a client: the answer lies ready in the socket, and goes with what is flushed.
    pub async fn answer_close(&mut self) -> Result<(), Error> {
        patiently(self.patience, self.connection.flush()).await
    }

    /// Weir ends, and so does the socket. What the client is still sending is read, or it might never see why.
    pub async fn leave(&mut self) -> Result<(), Error> {
        self.close(Some(CloseFrame { code: CloseCode::Away, reason: "weir is stopping".into() })).await?;
        let _ = tokio::time::timeout(REST_MAX, self.read_rest()).await;
        Ok(())
    }

    /// Tells a client by what mistake of its own the socket ends, if it is one. Gives the error back.
    pub async fn fail(&mut self, error: Error) -> Error {
        if let Some(why) = mistake(&error)
            && self.close(Some(why)).await.is_ok()
        {
            // A connection that is closed with bytes in it is reset, and the client may never see why.
            let _ = tokio::time::timeout(REST_MAX, self.read_rest()).await;
        }
        error
    }

    /// Says that nothing more comes, and reads until the client does.
    async fn read_rest(&mut self) {
        let line = self.connection.get_mut();
        let mut thrown_away = vec![0; 64 << 10];
        if line.shutdown().await.is_ok() {
            while matches!(line.read(&mut thrown_away).await, Ok(1..)) {}
        }
    }

    pub async fn close(&mut self, why: Option<CloseFrame>) -> Result<(), Error> {
        patiently(self.patience, self.connection.close(why)).await
    }
}

/// What a client is told that breaks the protocol of web sockets; none where it is simply gone.
fn mistake(error: &Error) -> Option<CloseFrame> {
    let (code, reason) = match error {
        Error::Capacity(_) => (CloseCode::Size, format!("a message has {MESSAGE_BYTES_MAX} bytes at most")),
        Error::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => (CloseCode::Policy, LOGIN_OVER.to_owned()),
        Error::Utf8(_) => (CloseCode::Invalid, "a text is not UTF-8".to_owned()),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        Error::Protocol(error) => (CloseCode::Protocol, error.to_string()),
        _ => return None,
    };
    Some(CloseFrame { code, reason: reason.into() })
}

async fn patiently(patience: Duration, sent: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let sent = tokio::time::timeout(patience, sent).await;
    sent.map_err(|_| Error::Io(io::Error::other("the client takes nothing (query.client-patience)")))?
}

/// Sends every event as a text. What the client sends is read and dropped. `stays`: the socket outlives what it listens to.
pub async fn listen(app: Arc<App>, connection: Connection, events: impl Stream<Item = Event>, stays: bool) -> Result<(), Error> {
    let mut socket = Socket::over(connection, &app);
    let stopped = app.stopped();
    tokio::pin!(stopped, events);
    let mut over = false;
    loop {
        tokio::select! {
            event = events.next(), if !over => match event {
                // Those who are too slow are told so where it is said why a socket ends.
                Some(event) if event.name == GAP => {
                    let reason = format!("results are not kept any more: {}", event.data).into();
                    return socket.close(Some(CloseFrame { code: CloseCode::Policy, reason })).await;
                }
                Some(event) => tokio::select! {
                    sent = socket.send(event.data) => sent?,
                    () = &mut stopped => return socket.leave().await,
                },
                None if stays => over = true,
                None => break,
            },
            message = socket.next() => match message {
                None => return Ok(()),
                Some(Ok(Message::Close(_))) => return socket.answer_close().await,
                Some(Err(error)) => return Err(socket.fail(error).await),
                Some(Ok(_)) => {}
            },
            () = &mut stopped => return socket.leave().await,
        }
    }
    // With weir ends what it listens to, too, and that may be seen first.
    if app.is_stopping() { socket.leave().await } else { socket.close(None).await }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_no_web_sockets() {
        let with = |value: &'static str| HeaderMap::from_iter([(UPGRADE, HeaderValue::from_static(value))]);
        assert!(is_asked(&with("websocket")) && is_asked(&with("h2c, WebSocket")));
        assert!(!is_asked(&with("h2c")) && !is_asked(&HeaderMap::new()));
        assert!(!is_handshake(&with("websocket")), "the other headers are missing");
    }
}
