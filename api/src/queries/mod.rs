//! Queries: those people and programs send, from their text to the end of their answer. Plans are kept by text, those that
//! run are listed and can be ended, and only so many run at a time.
//!
//!     text ─ plans ─> quick? ─> here and now, or together with other writes
//!                       └─ no ─> a place ─> a thread ─ pipe ─> the body of the answer

pub mod fixed;
mod pipe;
pub mod plans;
mod running;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_engine::EngineError;
use weir_model::Failure;
use weir_model::expression::FailureKind;
use weir_model::plan::QueryFacts;

use crate::error::ApiError;
use crate::leaving::LEAVING_MAX;

pub use self::pipe::{Answer, NOT_TAKEN, Pipe};
pub use self::plans::{Compiled, Plans};
pub use self::running::{Client, Listed, Register, Running};

/// How long queries may go on without sending anything when weir stops, and how long those that are ended then may take.
const GRACE: Duration = Duration::from_secs(2);
const ENDING_MAX: Duration = Duration::from_secs(3);

/// How often the end looks whether those that send rows still do.
const LOOK: Duration = Duration::from_millis(20);

/// The most that `query.running-max` may be.
pub const RUNNING_MAX: usize = 512;

#[derive(Clone, Debug)]
pub struct QuerySettings {
    pub time_max: Duration,
    pub memory_bytes_max: usize,
    /// For all queries that run at a time.
    pub all_memory_bytes_max: usize,
    /// The longest text of a query.
    pub text_bytes_max: usize,
    /// How many run at a time; others wait. Those that are over in no time do not count.
    pub running_max: usize,
    /// Queries that take longer are logged.
    pub slow_after: Duration,
    /// How long a query waits for a client that takes none of its rows.
    pub client_patience: Duration,
}

pub struct Queries {
    pub settings: QuerySettings,
    pub plans: Plans,
    pub register: Arc<Register>,
    places: Arc<Semaphore>,
}

/// Refuses a text that is too long to be looked at, whatever it is for.
pub fn check_text(text: &str, most: usize) -> Result<(), ApiError> {
    let length = text.len();
    if length <= most {
        return Ok(());
    }
    Err(ApiError::bad(format!(
        "The text of the query has {length} bytes, and `query.text-bytes-max` is {most}; send data as parameters"
    )))
}

impl Queries {
    pub fn new(settings: QuerySettings) -> Queries {
        let places = Arc::new(Semaphore::new(settings.running_max));
        let register = Arc::new(Register::new(settings.slow_after));
        Queries { plans: Plans::default(), register, places, settings }
    }

    pub fn check_text(&self, text: &str) -> Result<(), ApiError> {
        check_text(text, self.settings.text_bytes_max)
    }

    /// A place to run in, once there is one; the error of the query where it is to end before. Who asks what runs, or ends it,
    /// needs none.
    pub async fn place(&self, facts: QueryFacts, running: &Running) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        if facts.at_once {
            return Ok(None);
        }
        let place = tokio::select! {
            biased;
            place = self.places.clone().acquire_owned() => place.map_err(|_| ApiError::stopping())?,
            () = running.until_cancelled() => return Err(running.ending(false)),
        };
        // The engine looks only after some steps, and a short query would commit.
        if running.is_cancelled() { Err(running.ending(false)) } else { Ok(Some(place)) }
    }

    /// The end: those that wait for a place are refused. Those that run have a moment, those that send rows as long as answers
    /// may take that are there already. Then they are ended; what has been committed stays. Blocks until they are over, or it has
    /// taken too long.
    pub fn shut_down(&self) {
        let began = Instant::now();
        self.places.close();
        self.register.is_empty_within(GRACE);
        let (mut silent, mut sending) = self.register.stop(GRACE);
        while sending > 0 && began.elapsed() < LEAVING_MAX {
            self.register.is_empty_within(LOOK);
            let (ended, going_on) = self.register.stop(GRACE);
            (silent, sending) = (silent + ended, going_on);
        }
        let (cut, _) = self.register.stop(Duration::ZERO);
        if silent > 0 {
            let seconds = GRACE.as_secs();
            tracing::warn!("{silent} queries ran after weir was asked to stop, sent nothing for {seconds} s, and are ended");
        }
        if cut > 0 {
            let seconds = LEAVING_MAX.as_secs();
            tracing::warn!("{cut} queries still sent rows {seconds} s after weir was asked to stop, and are ended");
        }
        if silent + cut > 0 {
            self.register.is_empty_within(ENDING_MAX);
        }
    }

    /// The error as its author is told: a limit by its name.
    pub fn explained(&self, error: EngineError) -> ApiError {
        let EngineError::Query(failure) = error else { return error.into() };
        let message = match failure.kind {
            FailureKind::TimeLimit => format!(
                "The query ran longer than {} ms, the limit `query.timeout`; anchor its pattern with id(n) = ..., or raise the limit",
                self.settings.time_max.as_millis()
            ),
            FailureKind::MemoryLimit => {
                format!("{} (the limit `query.memory-bytes-max` is {})", failure.message, self.settings.memory_bytes_max)
            }
            FailureKind::SharedMemoryLimit => {
                format!("{} (the limit `query.all-memory-bytes-max` is {})", failure.message, self.settings.all_memory_bytes_max)
            }
            _ => failure.message,
        };
        EngineError::Query(Failure { kind: failure.kind, message }).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one place.
    fn queries() -> Arc<Queries> {
        Arc::new(Queries::new(QuerySettings {
            time_max: Duration::from_secs(60),
            memory_bytes_max: 1 << 20,
            all_memory_bytes_max: 1 << 20,
            text_bytes_max: 1 << 20,
            running_max: 1,
            slow_after: Duration::from_secs(60),
            client_patience: Duration::from_secs(60),
        }))
    }

    /// One in a list of its own, which no end waits for.
    fn unheeded() -> Arc<Running> {
        Arc::new(Register::new(Duration::from_secs(60))).begin("RETURN 1", "quine", Client::default()).running.clone()
    }

    /// It got its place in its turn, ran and committed.
    #[tokio::test]
    async fn who_is_to_end_gets_no_place() {
        let queries = queries();
        let (first, waits, comes) = (unheeded(), unheeded(), unheeded());
        let held = queries.place(QueryFacts::default(), &first).await.expect("a place");
        let waiting = {
            let (queries, waits) = (queries.clone(), waits.clone());
            tokio::spawn(async move { queries.place(QueryFacts::default(), &waits).await })
        };
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        waits.cancel();
        // While the place is held.
        let told = tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("at once").expect("no panic");
        assert!(told.is_err_and(|error| error.to_string().contains("The query was cancelled")));
        drop(held);
        comes.cancel();
        assert!(queries.place(QueryFacts::default(), &comes).await.is_err(), "though there is one");
        assert!(queries.place(QueryFacts::default(), &first).await.is_ok(), "which others get");
    }

    #[tokio::test]
    async fn the_end_refuses_those_that_wait_for_a_place_while_others_still_have_one() {
        let queries = queries();
        let held = queries.place(QueryFacts::default(), &unheeded()).await.expect("a place");
        assert!(held.is_some());
        let waits = {
            let queries = queries.clone();
            tokio::spawn(async move { queries.place(QueryFacts::default(), &unheeded()).await })
        };
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        // None is in the list, so that this waits for nobody.
        queries.shut_down();
        let told = tokio::time::timeout(Duration::from_secs(60), waits).await.expect("at once").expect("no panic");
        assert!(matches!(told, Err(ApiError::Busy { .. })));
        // Who asks what still runs needs none.
        let asks = QueryFacts { at_once: true, ..QueryFacts::default() };
        assert!(queries.place(asks, &unheeded()).await.is_ok());
        drop(held);
    }
}
