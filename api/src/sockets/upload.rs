//! The socket of an upload: the client's messages are a file, one behind the other, and the answers say how it goes.
//!
//!     <─ Ack     ─> text or binary …     <─ Progress, Error …     ─> an empty message     <─ Complete
//!
//! A client may also close the socket at the end of its file; then it is told nothing more, as the protocol has it.
//! While the stream is behind or paused nothing is read from the socket, so that the client has to wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_connectors::Uploader;

use super::{Socket, answer_close, send};
use crate::app::App;
use crate::ingest::{Status, Stream};

/// How often the client is told how far its file is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// How soon the end of the stream is seen.
const LOOK: Duration = Duration::from_millis(20);

/// Tells the client of one upload.
struct Telling<'a> {
    app: &'a App,
    stream: &'a Stream,
    count: u64,
    errors: usize,
}

pub async fn receive(app: Arc<App>, mut socket: Socket, stream: Arc<Stream>, uploader: Uploader) -> Result<(), Error> {
    let stopped = app.stopped();
    tokio::pin!(stopped);
    let mut telling = Telling { app: &app, stream: &stream, count: 0, errors: 0 };
    send(&app, &mut socket, json!({"type": "Ack"}).to_string()).await?;
    let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        let chunk = tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
                Some(Ok(Message::Binary(bytes))) => bytes.into(),
                Some(Ok(Message::Close(_))) => {
                    // The end of the file, too. Whoever has closed is told nothing more.
                    uploader.finish().await;
                    return answer_close(&app, &mut socket).await;
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => {
                    uploader.break_off(error.to_string()).await;
                    return Err(error);
                }
                None => {
                    uploader.break_off("the connection was closed".to_owned()).await;
                    return Ok(());
                }
            },
            _ = progress.tick() => {
                telling.news(&mut socket).await?;
                if stream.status().is_terminal() {
                    return telling.end(&mut socket).await;
                }
                continue;
            }
            // The uploader goes without a word, as wherever this function fails: the file is not whole.
            () = &mut stopped => return socket.close(None).await,
        };
        if chunk.is_empty() || !uploader.send(chunk).await {
            break;
        }
    }
    // The end of the file; what is on its way is read first.
    uploader.finish().await;
    while !stream.status().is_terminal() {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = progress.tick() => telling.news(&mut socket).await?,
            () = &mut stopped => return Ok(()),
        }
    }
    telling.end(&mut socket).await
}

impl Telling<'_> {
    async fn news(&mut self, socket: &mut Socket) -> Result<(), Error> {
        for (number, reason, sample) in self.stream.kept_from(self.errors) {
            self.errors += 1;
            let error = json!({"type": "Error", "message": reason, "index": number, "record": sample});
            self.say(socket, error).await?;
        }
        let count = self.stream.ingested();
        if count > self.count {
            self.count = count;
            self.say(socket, json!({"type": "Progress", "count": count})).await?;
        }
        Ok(())
    }

    /// A client that has closed is told nothing more, by its own wish.
    async fn end(&mut self, socket: &mut Socket) -> Result<(), Error> {
        self.news(socket).await?;
        let last = match self.stream.status() {
            Status::Completed => json!({"type": "Complete", "finalCount": self.stream.ingested()}),
            _ => json!({"type": "Error", "message": self.stream.message().unwrap_or_else(|| "the stream has ended".to_owned())}),
        };
        self.say(socket, last).await?;
        let close = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        match socket.close(Some(close)).await {
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => Ok(()),
            other => other,
        }
    }

    async fn say(&self, socket: &mut Socket, what: Json) -> Result<(), Error> {
        match send(self.app, socket, what.to_string()).await {
            Err(Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_)) => Ok(()),
            other => other,
        }
    }
}
