//! The provider of logins, asked over HTTP: where it is (its discovery document), which keys it signs with, and what a code is
//! worth that a browser brings from it.
//!
//! Documents are fetched when weir starts and from then on now and then, so that a key that the provider takes back is known no
//! more. A token that names a key nobody knows has them fetched anew, which happens once in a while whatever tokens come. Every
//! wait has an end, and nothing waits for a provider that is away: whoever asks meanwhile is told so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use weir_connectors::http;
use weir_model::lock::lock;
use weir_model::visible::visible;

use super::AuthSettings;
use super::token::{self, Claims, Expected, Key, Purpose, TokenError};
use crate::client::encoded;
use crate::error::{ApiError, chain};

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// How long the provider may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long whoever asks waits for others that ask the provider.
const TURN_MAX: Duration = Duration::from_secs(25);

/// The longest document that is read, or answer to a code.
const DOCUMENT_BYTES_MAX: usize = 512 << 10;

/// How often documents are fetched because a token names a key that is not known.
const BETWEEN_MIN: Duration = Duration::from_secs(10);

/// How often they are fetched anyway; and while there are none, at first and at last.
const BETWEEN: Duration = Duration::from_secs(600);
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_LAST: Duration = Duration::from_secs(30);

/// Codes that are redeemed at a time.
const CODES_MAX: usize = 16;

/// When those may come again who find the provider away, or busy.
const AGAIN_SECONDS: u32 = 5;

/// How much of what a provider says of an error is told.
const TOLD_CHARS_MAX: usize = 300;

pub struct Provider {
    settings: Arc<AuthSettings>,
    known: RwLock<Option<Arc<Known>>>,
    /// Why there is nothing known, or nothing newer.
    trouble: Mutex<Option<String>>,
    /// How often documents came.
    generation: AtomicU64,
    /// When it was last begun to fetch them.
    tried: Mutex<Option<Instant>>,
    /// Held by whoever does.
    turn: Arc<tokio::sync::Mutex<()>>,
    codes: Semaphore,
}

/// What the provider says of itself.
#[derive(Debug)]
pub struct Known {
    keys: Vec<Key>,
    pub authorization: Option<String>,
    pub token: Option<String>,
    pub end_session: Option<String>,
    /// It wants the secret of a client in the body: it says which ways it takes, and not that of HTTP.
    secret_in_body: bool,
}

impl Provider {
    pub fn new(settings: Arc<AuthSettings>) -> Arc<Provider> {
        Arc::new(Provider {
            settings,
            known: RwLock::new(None),
            trouble: Mutex::new(None),
            generation: AtomicU64::new(0),
            tried: Mutex::new(None),
            turn: Arc::default(),
            codes: Semaphore::new(CODES_MAX),
        })
    }

    /// Fetches documents until weir stops.
    pub async fn follow(self: Arc<Provider>, mut stopping: watch::Receiver<bool>) {
        let mut wait = AGAIN_FIRST;
        loop {
            let was_known = self.known().is_some();
            self.clone().fetch().await;
            let next = match (&*lock(&self.trouble), self.known()) {
                (None, _) => {
                    wait = AGAIN_FIRST;
                    if !was_known {
                        tracing::info!("logins: the keys of {} are known", self.settings.issuer);
                    }
                    BETWEEN
                }
                (Some(reason), known) => {
                    let goes_on = if known.is_some() { "those that are known are used" } else { "nobody can log in" };
                    tracing::warn!("logins: no keys from {}: {reason}; {goes_on}", self.settings.issuer);
                    let next = wait;
                    wait = (wait * 2).min(AGAIN_LAST);
                    next
                }
            };
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// What the token says, if it is one of this provider that holds.
    pub async fn check(
        self: &Arc<Provider>,
        text: &str,
        expected: &Expected<'_>,
    ) -> Result<Result<Claims, TokenError>, ApiError> {
        let generation = self.generation();
        let known = self.get().await?;
        match token::check(text, &known.keys, expected, now()) {
            // A new key may have the name of an old one.
            Err(TokenError::UnknownKey | TokenError::Signature) if self.fetch_since(generation).await => {
                let known = self.get().await?;
                Ok(token::check(text, &known.keys, expected, now()))
            }
            told => Ok(told),
        }
    }

    /// What is known of it; an error says why nothing is.
    pub async fn get(self: &Arc<Provider>) -> Result<Arc<Known>, ApiError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        self.fetch_since(0).await;
        // Why is in the log, and no matter of whoever may ask.
        self.known().ok_or_else(|| ApiError::Busy {
            reason: format!("weir cannot check who you are: no keys from {}. Ask again soon", self.settings.issuer),
            seconds: AGAIN_SECONDS,
        })
    }

    fn known(&self) -> Option<Arc<Known>> {
        self.known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether there are documents newer than these, which are fetched if that was not just tried.
    async fn fetch_since(self: &Arc<Provider>, generation: u64) -> bool {
        let is_due = || lock(&self.tried).is_none_or(|tried| tried.elapsed() >= BETWEEN_MIN);
        match self.turn.clone().try_lock_owned() {
            // Whoever asks may go away, and others wait for the same.
            Ok(turn) if is_due() => {
                let own = self.clone();
                let fetched = tokio::spawn(async move {
                    let _turn = turn;
                    own.fetch_in_turn().await;
                });
                let _ = timeout(TURN_MAX, fetched).await;
            }
            // Somebody is at it.
            Err(_) if self.generation() == generation => drop(timeout(TURN_MAX, self.turn.lock()).await),
            _ => {}
        }
        self.generation() > generation
    }

    async fn fetch(self: Arc<Provider>) {
        let _turn = self.turn.lock().await;
        self.fetch_in_turn().await;
    }

    /// What could not be fetched leaves what is known.
    async fn fetch_in_turn(&self) {
        *lock(&self.tried) = Some(Instant::now());
        let fetched = self.documents().await;
        let trouble = match fetched {
            Ok(known) => {
                *self.known.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Arc::new(known));
                self.generation.fetch_add(1, Ordering::Release);
                None
            }
            Err(reason) => Some(visible(&shortened(&reason))),
        };
        *lock(&self.trouble) = trouble;
    }

    async fn documents(&self) -> Result<Known, String> {
        let issuer = &self.settings.issuer;
        let document = self.document(&format!("{}{DISCOVERY}", issuer.trim_end_matches('/'))).await?;
        match document["issuer"].as_str() {
            Some(named) if named == issuer => {}
            Some(named) => return Err(format!("it calls itself {named}, and auth.oidc.issuer must be the same text")),
            None => return Err(format!("what is at {issuer}{DISCOVERY} is no discovery document")),
        }
        let place = |name: &str| match document[name].as_str() {
            Some(url) if self.settings.may_ask(url) => Ok(Some(url.to_owned())),
            Some(url) => Err(format!("its {name} is {url}, and only https is asked (auth.oidc.plain-http)")),
            None => Ok(None),
        };
        let keys = place("jwks_uri")?.ok_or("its discovery document names no jwks_uri")?;
        let keys = token::keys(&self.document(&keys).await?);
        if keys.is_empty() {
            // So a provider takes back all of them, and those of before count no more.
            tracing::warn!("logins: {issuer} has no keys that signatures can be checked with, and no token holds");
        }
        let ways = document["token_endpoint_auth_methods_supported"].as_array();
        let takes = |way: &str| ways.is_some_and(|ways| ways.iter().any(|known| known == way));
        Ok(Known {
            keys,
            authorization: place("authorization_endpoint")?,
            token: place("token_endpoint")?,
            end_session: place("end_session_endpoint")?,
            // Without a word it is the way of HTTP.
            secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
        })
    }

    async fn document(&self, url: &str) -> Result<Json, String> {
        let http = http::client().map_err(|error| chain(&error))?;
        let (status, body) = answered(http.get(url).header("accept", "application/json")).await?;
        if status != 200 {
            return Err(format!("{url} answers with status {status}"));
        }
        serde_json::from_slice(&body).map_err(|_| format!("what is at {url} is no JSON"))
    }

    /// Redeems a code that a browser has brought, and says who has logged in, with the token that says so.
    pub async fn redeem(
        self: &Arc<Provider>,
        code: &str,
        verifier: &str,
        redirect: &str,
        nonce: &str,
    ) -> Result<(Claims, String), ApiError> {
        let known = self.get().await?;
        let Some(client) = &self.settings.client else {
            return Err(ApiError::bad("logins of browsers are off (auth.oidc.client-id)"));
        };
        let Some(place) = &known.token else { return Err(ApiError::Failed("the provider names no token_endpoint".to_owned())) };
        let busy = || ApiError::Busy { reason: "too many are logging in; begin again soon".to_owned(), seconds: AGAIN_SECONDS };
        let _place = timeout(ANSWER_MAX, self.codes.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())?;
        let mut form =
            vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect), ("code_verifier", verifier)];
        let http = http::client().map_err(|error| ApiError::Failed(chain(&error)))?;
        let mut request = http.post(place).header("accept", "application/json");
        match &client.secret {
            Some(secret) if !known.secret_in_body => {
                // RFC 6749, 2.3.1: both are encoded as in a form before they are put together.
                let pair = format!("{}:{}", encoded(&client.id), encoded(secret.reveal()));
                request = request.header("authorization", format!("Basic {}", BASE64_STANDARD.encode(pair)));
            }
            secret => {
                form.push(("client_id", &client.id));
                form.extend(secret.iter().map(|secret| ("client_secret", secret.reveal())));
            }
        }
        let body: Vec<String> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body.join("&"));
        let away = |reason: String| ApiError::Busy {
            reason: format!("the login could not be ended: {}. Begin again soon", visible(&shortened(&reason))),
            seconds: AGAIN_SECONDS,
        };
        let (status, body) = answered(request).await.map_err(away)?;
        let answer: Json = serde_json::from_slice(&body).unwrap_or_default();
        if status != 200 {
            let said = answer["error"].as_str().unwrap_or("nothing more");
            if status >= 500 {
                return Err(away(format!("the provider answers with status {status}")));
            }
            let reason =
                format!("the provider does not take the code (status {status}, {}); begin again", visible(&shortened(said)));
            return Err(ApiError::Forbidden(reason));
        }
        let Some(token) = answer["id_token"].as_str() else {
            return Err(ApiError::Failed("the provider gave no ID token; auth.oidc.scopes needs openid".to_owned()));
        };
        let expected = Expected {
            issuer: &self.settings.issuer,
            audience: &client.id,
            roles_claim: &self.settings.roles_claim,
            purpose: Purpose::Login { nonce },
        };
        let claims = self.check(token, &expected).await?;
        let wrong = |error: TokenError| ApiError::Forbidden(format!("the provider's ID token is refused: {error}"));
        Ok((claims.map_err(wrong)?, token.to_owned()))
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The status and the body of an answer, within its bounds. An error holds no part of what was sent.
async fn answered(request: http::RequestBuilder) -> Result<(u16, Vec<u8>), String> {
    let ask = async {
        let mut answer = request.send().await.map_err(|error| chain(&error.without_url()))?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| chain(&error.without_url()))? {
            if body.len() + part.len() > DOCUMENT_BYTES_MAX {
                return Err(format!("it answers with more than {DOCUMENT_BYTES_MAX} bytes"));
            }
            body.extend_from_slice(&part);
        }
        Ok((status, body))
    };
    let late = |_| format!("it has not answered within {} s", ANSWER_MAX.as_secs());
    timeout(ANSWER_MAX, ask).await.map_err(late)?
}

fn shortened(text: &str) -> String {
    text.chars().take(TOLD_CHARS_MAX).collect()
}
