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
    /// The trouble that a topic may not be read. The client tells it once, so that nothing else takes its place: it is over when
    /// records come, whatever is wrong meanwhile.
    refused: Mutex<Option<Trouble>>,
}

/// Something that keeps the client from its work. It goes on by itself when that passes.
#[derive(Clone, PartialEq, Debug)]
pub struct Trouble {
    pub code: RDKafkaErrorCode,
    pub reason: String,
}

impl Trouble {
    /// It keeps a member from its partitions, and is over when it is given some: whether topics can be seen says nothing of it.
    /// The client tells some of these once, and tries again without a word.
    pub fn is_of_a_group(&self) -> bool {
        use RDKafkaErrorCode::*;
        matches!(
            self.code,
            CoordinatorNotAvailable
                | GroupAuthorizationFailed
                | GroupMaxSizeReached
                | InconsistentGroupProtocol
                | InvalidGroupId
                | InvalidSessionTimeout
        )
    }

    /// A topic may be seen and not read. The client tells that once of each partition, by these words alone, which do not name
    /// the topic.
    pub fn is_of_a_fetch(&self) -> bool {
        is_of_a_fetch(self.code, &self.reason)
    }
}

pub fn is_of_a_fetch(code: RDKafkaErrorCode, reason: &str) -> bool {
    code == RDKafkaErrorCode::TopicAuthorizationFailed && reason.starts_with("Fetch from broker")
}

impl Voice {
    pub fn new(place: &str, login: Option<SaslLogin>) -> Voice {
        Voice { place: place.to_owned(), login, trouble: Mutex::default(), refused: Mutex::default() }
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    pub fn trouble(&self) -> Option<Trouble> {
        let trouble = self.lock().clone();
        trouble.or_else(|| lock(&self.refused).clone())
    }

    /// The first thing that is wrong is said once in the log; what only follows from it does not replace it.
    pub fn note(&self, code: RDKafkaErrorCode, reason: &str) {
        let mut trouble = if is_of_a_fetch(code, reason) { lock(&self.refused) } else { self.lock() };
        use RDKafkaErrorCode::{AllBrokersDown, CoordinatorNotAvailable, OperationTimedOut};
        let follows = matches!(code, AllBrokersDown | OperationTimedOut | CoordinatorNotAvailable);
        match &*trouble {
            Some(known) if known.code == code || follows => return,
            _ => tracing::warn!("{}: {reason}", self.place),
        }
        *trouble = Some(Trouble { code, reason: reason.to_owned() });
    }

    /// All is over but that a topic may not be read.
    pub fn clear(&self) {
        self.clear_if(|trouble| !trouble.is_of_a_fetch());
    }

    /// What is such a trouble is over.
    pub fn clear_if(&self, is_over: impl Fn(&Trouble) -> bool) {
        let mut ended = false;
        for slot in [&self.trouble, &self.refused] {
            ended |= lock(slot).take_if(|trouble| is_over(trouble)).is_some();
        }
        if ended && self.trouble().is_none() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_over_when_that_is_over() {
        use RDKafkaErrorCode::*;
        let voice = Voice::new("here", None);
        voice.note(GroupAuthorizationFailed, "FindCoordinator response error: Broker: Group authorization failed");
        voice.clear_if(Trouble::is_of_a_fetch);
        // What only follows does not replace it.
        voice.note(CoordinatorNotAvailable, "no answer");
        assert_eq!(voice.trouble().map(|trouble| trouble.code), Some(GroupAuthorizationFailed));
        voice.clear_if(Trouble::is_of_a_group);
        assert_eq!(voice.trouble(), None);
        // A topic that may be seen and not read, as the client says it, and one that may not be seen.
        voice.note(TopicAuthorizationFailed, "Fetch from broker 1 failed: Broker: Topic authorization failed");
        voice.clear_if(Trouble::is_of_a_group);
        assert!(voice.trouble().is_some());
        voice.clear_if(Trouble::is_of_a_fetch);
        assert_eq!(voice.trouble(), None);
        voice.note(TopicAuthorizationFailed, "Subscribed topic not available: t: Broker: Topic authorization failed");
        voice.clear_if(Trouble::is_of_a_fetch);
        assert!(voice.trouble().is_some());
    }

    /// The client tells it once. It was gone with a connection that broke, or was taken for what had been told of another topic.
    #[test]
    fn that_a_topic_may_not_be_read_is_not_lost_behind_what_else_is_wrong() {
        use RDKafkaErrorCode::*;
        let voice = Voice::new("here", None);
        let code = || voice.trouble().map(|trouble| trouble.code);
        let refused = "Fetch from broker 1 failed: Broker: Topic authorization failed";
        voice.note(TopicAuthorizationFailed, refused);
        voice.note(BrokerTransportFailure, "the connection broke");
        assert_eq!(code(), Some(BrokerTransportFailure));
        voice.clear();
        assert_eq!(code(), Some(TopicAuthorizationFailed));
        voice.clear();
        assert_eq!(code(), Some(TopicAuthorizationFailed));
        // It is over also while something else is wrong.
        voice.note(BrokerTransportFailure, "the connection broke");
        voice.clear_if(Trouble::is_of_a_fetch);
        assert_eq!(code(), Some(BrokerTransportFailure));
        voice.clear();
        assert_eq!(code(), None);

        voice.note(TopicAuthorizationFailed, "Subscribed topic not available: t: Broker: Topic authorization failed");
        voice.note(TopicAuthorizationFailed, refused);
        voice.clear();
        assert_eq!(voice.trouble().map(|trouble| trouble.reason).as_deref(), Some(refused));
    }
}
