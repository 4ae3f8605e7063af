//! A connection that knows whether something came over it, and what goes with it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_model::lock::lock;

pub struct Line<S, T> {
    /// Whoever has given the connection away looks at it, too. A second descriptor would cost one of the few there are.
    stream: Arc<Mutex<S>>,
    traffic: Arc<Traffic>,
    /// Lives as long as the connection does, whoever has that by then: one that becomes a web socket leaves the task that
    /// accepted it.
    _with: T,
}

/// What goes over a connection, also for those who have given it away.
#[derive(Default)]
pub struct Traffic {
    heard: AtomicBool,
    is_held_up: AtomicBool,
}

impl Traffic {
    /// Whether bytes have come since this was asked last; the message that they belong to need not be whole.
    pub fn take_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed)
    }

    /// Whether there are bytes for the client that it has not taken yet.
    pub fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::Relaxed)
    }

    fn write<R>(&self, written: Poll<R>) -> Poll<R> {
        self.is_held_up.store(written.is_pending(), Ordering::Relaxed);
        written
    }
}

impl<S, T> Line<S, T> {
    pub fn new(stream: S, with: T) -> Line<S, T> {
        Line { stream: Arc::new(Mutex::new(stream)), traffic: Arc::default(), _with: with }
    }

    pub fn stream(&self) -> &Arc<Mutex<S>> {
        &self.stream
    }

    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }
}

impl<S: AsyncRead + Unpin, T: Unpin> AsyncRead for Line<S, T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut *lock(&line.stream)).poll_read(context, buffer);
        if buffer.filled().len() > before {
            line.traffic.heard.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, T: Unpin> AsyncWrite for Line<S, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        line.traffic.write(Pin::new(&mut *lock(&line.stream)).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        line.traffic.write(Pin::new(&mut *lock(&line.stream)).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.get_mut().stream)).poll_shutdown(context)
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        line.traffic.write(Pin::new(&mut *lock(&line.stream)).poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.stream).is_write_vectored()
    }
}
