//! Web sockets: the handshake, and the loop that sends what comes to one that only listens; conversations in files of their own.
//!
//! A socket that is slower than an output it listens to loses some of it; one that falls too far behind the results of a query ends. All of them end when weir stops.

pub mod language;
pub mod protocol;
pub mod upload;

use std::future::Future;
use std::sync::Arc;

use futures_util::{SinkExt, Stream, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use warp::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use warp::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::reply::Response;

use crate::app::App;
use crate::error::{self, plain};
use crate::events::{GAP, Live};

/// Of a message of a client.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

pub type Socket = WebSocketStream<TokioIo<Upgraded>>;

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

/// Answers the handshake, and gives the socket to `talk` once the connection is one.
pub fn accept<F>(headers: &HeaderMap, upgrade: Option<OnUpgrade>, talk: impl FnOnce(Socket) -> F + Send + 'static) -> Response
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
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
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits)).await;
        if let Err(error) = talk(socket).await {
            tracing::debug!("a web socket ended: {error}");
        }
    });
    reply
}

/// Sends a text. A client that takes nothing for too long loses its socket.
pub async fn send(app: &App, socket: &mut Socket, text: String) -> Result<(), Error> {
    patiently(app, socket.send(Message::text(text))).await
}

/// Answers the Close of a client: the answer lies ready in the socket, and goes with what is flushed.
pub async fn answer_close(app: &App, socket: &mut Socket) -> Result<(), Error> {
    patiently(app, socket.flush()).await
}

async fn patiently(app: &App, sent: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let sent = tokio::time::timeout(app.queries.settings.client_patience, sent).await;
    sent.map_err(|_| Error::Io(std::io::Error::other("the client takes nothing (query.client-patience)")))?
}

/// Sends every event as a text. What the client sends is read and dropped. `stays`: the socket outlives what it listens to.
pub async fn listen(app: Arc<App>, mut socket: Socket, events: impl Stream<Item = Live>, stays: bool) -> Result<(), Error> {
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
                Some(event) => send(&app, &mut socket, event.data).await?,
                None if stays => over = true,
                None => break,
            },
            message = socket.next() => match message {
                None => return Ok(()),
                Some(Ok(Message::Close(_))) => return answer_close(&app, &mut socket).await,
                Some(message) => drop(message?),
            },
            () = &mut stopped => break,
        }
    }
    socket.close(None).await
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
