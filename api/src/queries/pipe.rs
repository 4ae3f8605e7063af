//! The pipe between the thread that runs a query and the body of its answer.
//!
//! What is over soon leaves as a whole, with its length and, if it failed, with the status of its failure. Anything else
//! begins to leave a moment after its first row. Little waits in between: a client that is slow slows its query, and one
//! that takes nothing for long ends it. A failure after the first row has left breaks the connection, so that no client can
//! take a part of an answer for the whole.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::{Stream, stream};
use tokio::sync::Notify;
use weir_model::lock::lock;

use super::running::Running;
use crate::error::ApiError;
use crate::leaving::Cut;

/// How long rows wait for others, or for the end of their query.
const HOLD: Duration = Duration::from_millis(10);

/// What leaves at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What may wait for a client.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// What is told where rows were not taken.
pub const NOT_TAKEN: &str = "the client did not take the rows of its query in time (query.client-patience, query.timeout)";

/// How often a query that waits for its client looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// The end of the thread that runs the query.
pub struct Pipe {
    shared: Arc<Shared>,
    patience: Duration,
    deadline: Option<Instant>,
}

/// The end of the client. When it goes the query is told.
pub struct Reader {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The query waits here for its client.
    room: Condvar,
    /// The client waits here for rows.
    news: Notify,
    running: Arc<Running>,
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    /// When the first of the bytes came.
    since: Option<Instant>,
    end: Option<Result<(), ApiError>>,
    gone: bool,
}

impl Pipe {
    pub fn new(running: Arc<Running>, patience: Duration, deadline: Option<Instant>) -> (Pipe, Reader) {
        let shared = Arc::new(Shared { state: Mutex::default(), room: Condvar::new(), news: Notify::new(), running });
        (Pipe { shared: shared.clone(), patience, deadline }, Reader { shared })
    }

    /// Takes the bytes of a row, and leaves none. Break when there is no use in more.
    pub fn push(&self, bytes: &mut Vec<u8>) -> ControlFlow<()> {
        let mut state = self.shared.lock();
        if state.gone {
            return ControlFlow::Break(());
        }
        let before = state.bytes.len();
        if before == 0 {
            std::mem::swap(&mut state.bytes, bytes);
            state.since = Some(Instant::now());
        } else {
            state.bytes.append(bytes);
        }
        if before == 0 || (before < CHUNK_BYTES && state.bytes.len() >= CHUNK_BYTES) {
            self.shared.news.notify_one();
        }
        let began = Instant::now();
        self.shared.running.sends(began);
        while state.bytes.len() >= WAITING_BYTES_MAX && !state.gone {
            if self.shared.running.is_cancelled() {
                return ControlFlow::Break(());
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) || began.elapsed() >= self.patience {
                state.end.get_or_insert(Err(ApiError::bad(NOT_TAKEN)));
                self.shared.news.notify_one();
                return ControlFlow::Break(());
            }
            state = self.shared.room.wait_timeout(state, LOOK).unwrap_or_else(|e| e.into_inner()).0;
            self.shared.running.sends(Instant::now());
        }
        if state.gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The last bytes, or why there are no more.
    pub fn end(self, ended: Result<Vec<u8>, ApiError>) {
        let mut state = self.shared.lock();
        let ended = ended.map(|mut bytes| {
            if state.bytes.is_empty() {
                state.bytes = bytes;
            } else {
                state.bytes.append(&mut bytes);
            }
        });
        state.end.get_or_insert(ended);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.shared.lock().end.get_or_insert_with(|| Err(ApiError::Failed("a query ended without a result".to_owned())));
        self.shared.news.notify_one();
    }
}

/// What the client gets first.
pub enum Answer<S> {
    Whole(Vec<u8>),
    Parts(S, Cut),
}

impl Reader {
    /// Waits until it is clear in which form the answer leaves.
    pub async fn answer(self) -> Result<Answer<impl Stream<Item = io::Result<Vec<u8>>> + Send + Sync>, ApiError> {
        loop {
            let wait = {
                let mut state = self.shared.lock();
                match state.end.take() {
                    Some(Ok(())) => return Ok(Answer::Whole(std::mem::take(&mut state.bytes))),
                    Some(Err(error)) => return Err(error),
                    None => state.wait(),
                }
            };
            match wait {
                Some(wait) => self.wait(wait).await,
                None => break,
            }
        }
        let shared = Arc::downgrade(&self.shared);
        let cut = Cut::new(move || shared.upgrade().is_some_and(|shared| matches!(shared.lock().end, Some(Err(_)))));
        let parts = stream::unfold(Some(self), |reader| async {
            let reader = reader?;
            match reader.next().await {
                Ok(bytes) if bytes.is_empty() => None,
                Ok(bytes) => Some((Ok(bytes), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(Answer::Parts(parts, cut))
    }

    /// The next bytes; none at the end.
    async fn next(&self) -> io::Result<Vec<u8>> {
        loop {
            let wait = {
                let mut state = self.shared.lock();
                match (&state.end, state.wait()) {
                    (Some(Err(error)), _) => return Err(io::Error::other(error.to_string())),
                    (None, Some(wait)) => wait,
                    (Some(Ok(())), _) | (None, None) => {
                        state.since = None;
                        let bytes = std::mem::take(&mut state.bytes);
                        self.shared.room.notify_one();
                        return Ok(bytes);
                    }
                }
            };
            self.wait(wait).await;
        }
    }

    async fn wait(&self, wait: Wait) {
        match wait {
            Wait::News => self.shared.news.notified().await,
            Wait::Until(moment) => {
                // Whichever comes first.
                let _ = tokio::time::timeout_at(moment.into(), self.shared.news.notified()).await;
            }
        }
    }
}

enum Wait {
    News,
    Until(Instant),
}

impl State {
    /// How long to wait for more; not at all once there is enough.
    fn wait(&self) -> Option<Wait> {
        match self.since {
            None => Some(Wait::News),
            Some(_) if self.bytes.len() >= CHUNK_BYTES => None,
            Some(since) if since.elapsed() >= HOLD => None,
            Some(since) => Some(Wait::Until(since + HOLD)),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.gone = true;
        self.shared.running.cancel();
        self.shared.room.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
