//! An upload: the bytes of a file that a client sends over a web socket, for the source that reads them as a file.
//!
//!     socket ─ Uploader::send ─> chunks, up to 1 MiB ─ ByteStream ─> FrameReader
//!
//! The source knows nothing of sockets, and the socket nothing of records. One upload is all a stream gets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_model::lock::lock;

use crate::error::{ConnectorError, Fault};
use crate::framing::{ByteStream, Chunk};

/// Messages of the client that wait, and their bytes; then it has to. Messages may be of a record each.
const CHUNKS_WAITING_MAX: usize = 1_000;
const BYTES_WAITING_MAX: usize = 1 << 20;

enum Part {
    /// A message of the client with the room it takes.
    Bytes { bytes: Vec<u8>, _room: OwnedSemaphorePermit },
    /// The file is whole. Without this word it is not, however the client went.
    End,
    /// How it ended before its time.
    Broken(String),
}

/// Where a client and the source of a stream find each other.
#[derive(Clone)]
pub struct Upload {
    inlet: Arc<Mutex<Option<Sender<Part>>>>,
    outlet: Arc<Mutex<Option<Receiver<Part>>>>,
}

impl Default for Upload {
    fn default() -> Upload {
        let (sender, receiver) = channel(CHUNKS_WAITING_MAX);
        Upload { inlet: Arc::new(Mutex::new(Some(sender))), outlet: Arc::new(Mutex::new(Some(receiver))) }
    }
}

impl Upload {
    /// For the one client there is; None for a second one.
    pub fn begin(&self) -> Option<Uploader> {
        let sender = lock(&self.inlet).take()?;
        Some(Uploader { sender, room: Arc::new(Semaphore::new(BYTES_WAITING_MAX)) })
    }

    /// For the source. None when it has been opened before.
    pub(crate) fn stream(&self, runtime: &Handle) -> Option<UploadStream> {
        let chunks = lock(&self.outlet).take()?;
        Some(UploadStream { chunks, runtime: runtime.clone(), rest: Vec::new(), ended: false })
    }
}

/// One that is dropped without a word has broken off.
pub struct Uploader {
    sender: Sender<Part>,
    room: Arc<Semaphore>,
}

impl Uploader {
    /// Waits while the source is behind. False when nobody reads any more.
    pub async fn send(&self, bytes: Vec<u8>) -> bool {
        let size = bytes.len().clamp(1, BYTES_WAITING_MAX) as u32;
        match self.room.clone().acquire_many_owned(size).await {
            Ok(room) => self.sender.send(Part::Bytes { bytes, _room: room }).await.is_ok(),
            Err(_) => false,
        }
    }

    /// The client has sent all of its file.
    pub async fn finish(self) {
        let _ = self.sender.send(Part::End).await;
    }

    /// The client has gone in the middle of its file.
    pub async fn break_off(self, reason: String) {
        let _ = self.sender.send(Part::Broken(reason)).await;
    }
}

pub(crate) struct UploadStream {
    chunks: Receiver<Part>,
    runtime: Handle,
    /// What of a chunk did not fit.
    rest: Vec<u8>,
    /// The end stays the end: nothing more is said after it.
    ended: bool,
}

impl ByteStream for UploadStream {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        if self.ended {
            return Ok(Chunk::End);
        }
        if self.rest.is_empty() {
            let (runtime, chunks) = (&self.runtime, &mut self.chunks);
            self.rest = match runtime.block_on(async { tokio::time::timeout(wait, chunks.recv()).await }) {
                Ok(Some(Part::Bytes { bytes, .. })) => bytes,
                Ok(Some(Part::End)) => {
                    self.ended = true;
                    return Ok(Chunk::End);
                }
                Ok(Some(Part::Broken(reason))) => return Err(broken(&reason)),
                Ok(None) => return Err(broken("the connection was lost")),
                Err(_) => return Ok(Chunk::Nothing),
            };
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(if count > 0 { Chunk::Bytes(count) } else { Chunk::Nothing })
    }
}

fn broken(reason: &str) -> ConnectorError {
    ConnectorError::World {
        place: "the upload".to_owned(),
        problem: format!("ended before its time: {reason}"),
        fault: Fault::World,
        retryable: false,
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_bounded_by_its_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let upload = Upload::default();
        let uploader = upload.begin().expect("the first client");
        assert!(upload.begin().is_none());
        let mut stream = upload.stream(runtime.handle()).expect("the source");
        let send = |size: usize| {
            let sent = async { tokio::time::timeout(Duration::from_millis(50), uploader.send(vec![b'x'; size])).await };
            runtime.block_on(sent).is_ok_and(|taken| taken)
        };
        assert!((0..100).all(|_| send(10)), "small messages gather");
        assert!(send(BYTES_WAITING_MAX - 2_000), "there is room for so many bytes more");
        assert!(!send(1_001), "and not for these");
        let mut buffer = vec![0; BYTES_WAITING_MAX];
        let read = stream.read(&mut buffer, Duration::from_secs(1)).expect("the client has not broken off");
        assert!(matches!(read, Chunk::Bytes(10)));
        assert!(send(1_001), "what was read has made room");
    }

    #[test]
    fn a_message_larger_than_all_the_room_goes_through_alone() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let upload = Upload::default();
        let uploader = upload.begin().expect("the first client");
        let mut stream = upload.stream(runtime.handle()).expect("the source");
        let large = 2 * BYTES_WAITING_MAX + 1;
        assert!(runtime.block_on(uploader.send(vec![b'x'; large])));
        runtime.block_on(uploader.finish());
        let (mut buffer, mut total) = (vec![0; 100_000], 0);
        while let Chunk::Bytes(count) = stream.read(&mut buffer, Duration::from_secs(1)).expect("the client has ended well") {
            total += count;
        }
        assert_eq!(total, large);
        assert!(matches!(stream.read(&mut buffer, Duration::from_secs(1)), Ok(Chunk::End)), "the end stays the end");
    }

    #[test]
    fn a_client_that_goes_without_a_word_has_broken_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let upload = Upload::default();
        let uploader = upload.begin().expect("the first client");
        let mut stream = upload.stream(runtime.handle()).expect("the source");
        assert!(runtime.block_on(uploader.send(b"half a li".to_vec())));
        drop(uploader);
        let mut buffer = vec![0; 100];
        let read = stream.read(&mut buffer, Duration::from_secs(1)).expect("what was sent before");
        assert_eq!(read, Chunk::Bytes(9));
        assert!(stream.read(&mut buffer, Duration::from_secs(1)).is_err());
    }
}
