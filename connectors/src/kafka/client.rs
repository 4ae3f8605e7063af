//! What a client of librdkafka tells: its log, what is wrong at the moment, and its wish for tokens.

use std::sync::{Mutex, MutexGuard};

use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use weir_model::lock::lock;

use super::login::SaslLogin;

/// The part of a client that its callbacks see.
pub struct Voice {
    /// Named in the log.
    place: String,
    login: Option<SaslLogin>,
    trouble: Mutex<Option<Trouble>>,
}

/// Something that keeps the client from its work. It goes on by itself when that passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Trouble {
    pub code: RDKafkaErrorCode,
    pub reason: String,
}

impl Voice {
    pub fn new(place: &str, login: Option<SaslLogin>) -> Voice {
        Voice { place: place.to_owned(), login, trouble: Mutex::default() }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn trouble(&self) -> Option<Trouble> {
        self.lock().clone()
    }

    /// The first thing that is wrong is said once in the log; what only follows from it does not replace it.
    pub fn note(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut trouble = self.lock();
        use RDKafkaErrorCode::{AllBrokersDown, CoordinatorNotAvailable, OperationTimedOut};
        let follows = matches!(code, AllBrokersDown | OperationTimedOut | CoordinatorNotAvailable);
        match &*trouble {
            Some(known) if known.code == code || follows => return,
            _ => tracing::warn!("{}: {reason}", self.place),
        }
        *trouble = Some(Trouble { code, reason: reason.to_owned() });
    }

    pub fn clear(&self) {
        if self.lock().take().is_some() {
            tracing::info!("{}: it works again", self.place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        lock(&self.trouble)
    }
}

impl ClientContext for Voice {
    // Asked for only where the mechanism is OAUTHBEARER.
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            // What matters of these comes as an error, too.
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => {
                tracing::warn!("{}: {facility}: {message}", self.place)
            }
            _ => tracing::debug!("{}: {facility}: {message}", self.place),
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = error.rdkafka_error_code() else { return };
        match code {
            RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::PollExceeded => {}
            _ => self.note(code, reason),
        }
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        match &self.login {
            Some(SaslLogin::OAuthBearerLogin(login)) => Ok(login.token()?),
            _ => Err("there is no saslJaasConfig of type OAuthBearerLogin".into()),
        }
    }
}

/// What a client tells goes to the `voice` of its context, whatever else the context is for.
macro_rules! by_its_voice {
    ($context:ty) => {
        impl rdkafka::ClientContext for $context {
            const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

            fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
                self.voice.log(level, facility, message);
            }

            fn stats_raw(&self, statistics: &[u8]) {
                self.voice.stats_raw(statistics);
            }

            fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
                self.voice.error(error, reason);
            }

            fn generate_oauth_token(
                &self,
                config: Option<&str>,
            ) -> Result<rdkafka::client::OAuthToken, Box<dyn std::error::Error>> {
                self.voice.generate_oauth_token(config)
            }
        }
    };
}

pub(super) use by_its_voice;
