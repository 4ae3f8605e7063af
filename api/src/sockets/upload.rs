//! The socket of an upload: the client's messages are a file, one behind the other, and the answers say how it goes.
//!
//!     <─ Ack     ─> text or binary …     <─ Progress, Error …     ─> an empty message     <─ Complete
//!
//! A client may also close the socket at the end of its file; then it is told nothing more, as the protocol has it. While the
//! stream is behind or paused nothing is read from the socket, so that the client has to wait; no longer than the stream is
//! there.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_connectors::Uploader;

use super::{Connection, Socket};
use crate::app::App;
use crate::ingest::{Status, Stream};

/// How often the client is told how far its file is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// How soon the end of the stream is seen.
const LOOK: Duration = Duration::from_millis(20);

/// Tells the client of one upload.
struct Telling<'a> {
    stream: &'a Stream,
    count: u64,
    errors: usize,
}

pub async fn receive(app: Arc<App>, connection: Connection, stream: Arc<Stream>, uploader: Uploader) -> Result<(), Error> {
    let mut socket = Socket::over(connection, &app);
    let stopped = app.stopped();
    tokio::pin!(stopped);
    let mut telling = Telling { stream: &stream, count: 0, errors: 0 };
    socket.send(json!({"type": "Ack"}).to_string()).await?;
    let mut progress = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        let chunk = tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => text.as_bytes().to_vec(),
                Some(Ok(Message::Binary(bytes))) => bytes.into(),
                Some(Ok(Message::Close(_))) => {
                    // The end of the file, too. Whoever has closed is told nothing more, and does not wait for the source.
                    let answered = socket.answer_close().await;
                    drop(socket);
                    unless_over(&app, &stream, uploader.finish()).await;
                    return answered;
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => {
                    // The stream does not wait for what its client makes of that.
                    let broken_off = unless_over(&app, &stream, uploader.break_off(error.to_string()));
                    let told = async move {
                        let mut socket = socket;
                        socket.fail(error).await
                    };
                    return Err(tokio::join!(told, broken_off).0);
                }
                None => {
                    drop(socket);
                    unless_over(&app, &stream, uploader.break_off("the connection was closed".to_owned())).await;
                    return Ok(());
                }
            },
            _ = progress.tick() => {
                telling.news(&mut socket).await?;
                // With weir it ends, too, and that may be seen first.
                if stream.status().is_terminal() && !app.is_stopping() {
                    return telling.end(&mut socket).await;
                }
                continue;
            }
            // The uploader goes without a word, as wherever this function fails: the file is not whole.
            () = &mut stopped => return socket.leave().await,
        };
        if chunk.is_empty() {
            break;
        }
        let taken = tokio::select! {
            // Mostly there is room at once.
            biased;
            taken = uploader.send(chunk) => taken,
            // A stream that never ran has nobody who would refuse it.
            () = over(&stream) => false,
            error = socket.broken() => return Err(error),
            () = &mut stopped => return socket.leave().await,
        };
        if !taken {
            break;
        }
    }
    // The end of the file; what is on its way is read first. The file is whole, also when its client goes now.
    let finished = unless_over(&app, &stream, uploader.finish());
    tokio::pin!(finished);
    tokio::select! {
        biased;
        () = &mut finished => {}
        error = socket.broken() => {
            drop(socket);
            finished.await;
            return Err(error);
        }
    }
    loop {
        tokio::select! {
            () = over(&stream) => break,
            _ = progress.tick() => telling.news(&mut socket).await?,
            // Nothing more is wanted from the client, but that it is there.
            message = socket.next() => match message {
                None => return Ok(()),
                Some(Ok(Message::Close(_))) => return socket.answer_close().await,
                Some(Err(error)) => return Err(socket.fail(error).await),
                Some(Ok(_)) => {}
            },
            () = &mut stopped => return socket.leave().await,
        }
    }
    telling.end(&mut socket).await
}

/// Waits until the stream has ended, or was deleted.
async fn over(stream: &Stream) {
    while !stream.status().is_terminal() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Tells the source, which may be slow to listen, while its stream is there and weir runs.
async fn unless_over(app: &App, stream: &Stream, told: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = told => {}
        () = over(stream) => {}
        () = app.stopped() => {}
    }
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
        match socket.send(what.to_string()).await {
            Err(Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_)) => Ok(()),
            other => other,
        }
    }
}
