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
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_engine::EngineError;
use weir_model::Failure;
use weir_model::expression::FailureKind;

use crate::error::ApiError;

pub use self::pipe::{Answer, Pipe};
pub use self::plans::{Compiled, Plans};
pub use self::running::{Client, Listed, Register};

/// How long queries that run may go on when weir stops, and how long those that are ended then may take.
const GRACE: Duration = Duration::from_secs(2);
const ENDING_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct QuerySettings {
    pub time_max: Duration,
    pub memory_bytes_max: usize,
    /// Of all that run at a time.
    pub all_memory_bytes_max: usize,
    /// Of its text.
    pub text_bytes_max: usize,
    /// How many run at a time; others wait. Those that are over in no time do not count.
    pub running_max: usize,
    /// Those that take longer are logged.
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

    /// A place to run in, once there is one.
    pub async fn place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.places.clone().acquire_owned().await.map_err(|_| ApiError::Failed("no query is run any more".to_owned()))
    }

    /// The end: those that run have a moment, and are ended then; what has been committed stays. Blocks until they are over, or
    /// it has taken too long.
    pub fn shut_down(&self) {
        self.register.is_empty_within(GRACE);
        let ended = self.register.stop();
        if ended > 0 {
            tracing::warn!("{ended} queries ran {} s after weir was asked to stop, and are ended", GRACE.as_secs());
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
