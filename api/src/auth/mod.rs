//! Logins (OpenID Connect): who sends a request, and what they may. Without `auth.oidc.issuer` there are none, and whoever
//! reaches the port may do everything.
//!
//!     Authorization: Bearer … ─ token <─ keys ─ provider ─┐
//!     cookie ─────────────────── session <─ code ─────────┴─> Caller ─ rights ─> may it do that?
//!
//! Knows requests by their headers. What the routes of a login do stands in `routes/auth.rs`, what somebody may in `rights`.

mod caller;
mod crypto;
mod provider;
pub mod rights;
mod session;
mod settings;
mod token;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use warp::http::header::AUTHORIZATION;
use warp::http::{HeaderMap, Method, Uri};

use self::crypto::{NoChance, Seal};
use self::provider::Provider;
use self::session::{Sessions, cookie, cookie_name};
use self::token::{Expected, LEEWAY_SECONDS, Purpose};
use crate::config::Webserver;
use crate::error::ApiError;
use crate::origin;
use crate::sockets::is_asked;

pub use self::caller::{Caller, Identity, Lease};
pub use self::rights::{Permission, Role};
pub use self::settings::{AuthSettings, Hidden, OidcClient, may_be_plain};

/// Where a browser logs in, from a page.
pub const LOGIN_PAGE: &str = "api/v2/auth/login";
/// Where it logs out, from there, too.
pub const LOGOUT_PAGE: &str = "api/v2/auth/logout";
const CALLBACK: &str = "/api/v2/auth/callback";

const SESSION: &str = "weir_session";
const LOGIN: &str = "weir_login";

/// How long somebody may take between the beginning of a login and its end.
const LOGIN_MAX: Duration = Duration::from_secs(600);

/// How long a path may be that a login leads back to.
const RETURN_BYTES_MAX: usize = 2048;

pub struct Auth {
    settings: Arc<AuthSettings>,
    provider: Arc<Provider>,
    sessions: Sessions,
    seal: Seal,
}

/// How a request came: what is looked at to find out from where.
#[derive(Clone, Copy)]
pub struct Came<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
}

/// A login that has begun, as the cookie keeps it, a line each: its end in seconds since 1970, state, nonce, verifier, where the
/// provider sends the browser, and the path it began at.
struct Begun {
    state: String,
    nonce: String,
    verifier: String,
    redirect: String,
    back: String,
}

/// Where a browser goes next, and the cookies that it is given.
pub struct Onward {
    pub location: String,
    pub cookies: Vec<String>,
}

impl Auth {
    pub fn new(settings: &AuthSettings) -> Result<Auth, NoChance> {
        let settings = Arc::new(settings.clone());
        Ok(Auth {
            provider: Provider::new(settings.clone()),
            sessions: Sessions::new(settings.session_lifetime, settings.sessions_max),
            seal: Seal::new()?,
            settings,
        })
    }

    /// Gets the keys of the provider, now and again, until weir stops. A start does not wait for it.
    pub fn follow_provider(&self, stopping: watch::Receiver<bool>) {
        tokio::spawn(self.provider.clone().follow(stopping));
    }

    /// Whether browsers can log in.
    pub fn takes_browsers(&self) -> bool {
        self.settings.client.is_some()
    }

    /// Who sends the request, which is for a page or for data; an error says why that is not known.
    pub async fn identify(&self, came: Came<'_>, is_page: bool, webserver: &Webserver) -> Result<Arc<Identity>, ApiError> {
        if let Some(given) = came.headers.get(AUTHORIZATION) {
            return self.bearer(given.to_str().unwrap_or_default()).await;
        }
        let is_secure = is_secure(webserver);
        match cookie(came.headers, &cookie_name(SESSION, is_secure)) {
            Some(id) => self.of_session(id, came, is_page, webserver),
            None => Err(unauthenticated(false, "no credential: send a bearer token, or log in at /api/v2/auth/login".to_owned())),
        }
    }

    async fn bearer(&self, given: &str) -> Result<Arc<Identity>, ApiError> {
        let wrong = |reason: String| unauthenticated(true, reason);
        let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(wrong("only Bearer is taken in Authorization".to_owned()));
        }
        let Some(audience) = &self.settings.audience else {
            return Err(wrong("bearer tokens are not taken here: auth.oidc.audience does not say for whom they are".to_owned()));
        };
        let expected = Expected {
            issuer: &self.settings.issuer,
            audience,
            roles_claim: &self.settings.roles_claim,
            purpose: Purpose::Bearer,
        };
        let claims = self.provider.check(token.trim(), &expected).await?.map_err(|error| wrong(error.to_string()))?;
        let left = claims.expires.saturating_add(LEEWAY_SECONDS).saturating_sub(provider::now());
        // What is opened ends at some time, however long a token holds.
        let lease = Lease::of(Duration::from_secs(left).min(self.settings.session_lifetime), None);
        Ok(Arc::new(Identity { subject: claims.subject, name: claims.name, roles: claims.roles, lease }))
    }

    /// A browser sends a cookie with whatever a page asks for. So what may change something counts only if the page is of here:
    /// unlike for others, the browser has to say so.
    fn of_session(&self, id: &str, came: Came<'_>, is_page: bool, webserver: &Webserver) -> Result<Arc<Identity>, ApiError> {
        let Some(identity) = self.sessions.find(id) else {
            return Err(unauthenticated(true, "your session has ended: log in again at /api/v2/auth/login".to_owned()));
        };
        // A link from elsewhere leads to pages, as the way back from the provider does.
        if !is_page && origin::is_elsewhere(came.headers) {
            let reason = "a session gets data only for weir's own pages; other programs send a bearer token";
            return Err(ApiError::Forbidden(reason.to_owned()));
        }
        let may_change = !came.method.is_safe() || is_asked(came.headers);
        if may_change && !origin::is_own(came.headers, came.uri, webserver) {
            let reason = "a session changes something, runs queries and opens web sockets only from weir's own pages, which the \
                          browser says in Origin; other programs send a bearer token";
            return Err(ApiError::Forbidden(reason.to_owned()));
        }
        Ok(identity)
    }

    /// Sends a browser to the provider.
    pub async fn begin(&self, came: Came<'_>, back: Option<&str>, webserver: &Webserver) -> Result<Onward, ApiError> {
        let client = self.client()?;
        let known = self.provider.get().await?;
        let Some(place) = &known.authorization else {
            return Err(ApiError::Failed("the provider names no authorization_endpoint".to_owned()));
        };
        let begun = Begun {
            state: crypto::random_text().map_err(failed)?,
            nonce: crypto::random_text().map_err(failed)?,
            verifier: crypto::random_text().map_err(failed)?,
            redirect: format!("{}{CALLBACK}", base(came, webserver)?),
            back: back.filter(|back| is_local(back)).unwrap_or("/").to_owned(),
        };
        let asked = [
            ("response_type", "code"),
            ("client_id", &client.id),
            ("redirect_uri", &begun.redirect),
            ("scope", &self.settings.scopes.join(" ")),
            ("state", &begun.state),
            ("nonce", &begun.nonce),
            ("code_challenge", &crypto::encode(&crypto::sha256(begun.verifier.as_bytes()))),
            ("code_challenge_method", "S256"),
        ];
        let kept = self.seal.close(LOGIN, begun.written(provider::now() + LOGIN_MAX.as_secs()).as_bytes()).map_err(failed)?;
        let location = with_query(place, &asked);
        let cookies = vec![session::set_cookie(LOGIN, &kept, is_secure(webserver), LOGIN_MAX)];
        Ok(Onward { location, cookies })
    }

    /// A browser comes back from the provider. Says also who it is.
    pub async fn end(
        &self,
        came: Came<'_>,
        parameter: impl Fn(&str) -> Option<String>,
        webserver: &Webserver,
    ) -> Result<(Onward, Arc<Identity>), ApiError> {
        self.client()?;
        let is_secure = is_secure(webserver);
        let again = |what: &str| ApiError::bad(format!("{what}; begin again at /api/v2/auth/login"));
        let kept = cookie(came.headers, &cookie_name(LOGIN, is_secure));
        let opened = kept.and_then(|kept| self.seal.open(LOGIN, kept)).and_then(|text| String::from_utf8(text).ok());
        let begun = opened.and_then(|text| Begun::read(&text, provider::now()));
        let begun = begun.ok_or_else(|| again("no login was begun here, or it took too long"))?;
        if parameter("state").as_deref() != Some(begun.state.as_str()) {
            return Err(again("this is the end of another login than the last that was begun here"));
        }
        // RFC 9207: of several providers the one that was asked.
        if parameter("iss").is_some_and(|issuer| issuer != self.settings.issuer) {
            return Err(again("another provider answers than was asked"));
        }
        if let Some(error) = parameter("error") {
            let word: String = error.chars().filter(|c| c.is_ascii_graphic()).take(100).collect();
            return Err(ApiError::Forbidden(format!("the provider has not let you in: {word}")));
        }
        let code = parameter("code").filter(|code| !code.is_empty()).ok_or_else(|| again("the provider has sent no code"))?;
        let (claims, token) = self.provider.redeem(&code, &begun.verifier, &begun.redirect, &begun.nonce).await?;
        // The one that it takes the place of is nobody's any more.
        cookie(came.headers, &cookie_name(SESSION, is_secure)).and_then(|before| self.sessions.end(before));
        let id = self.sessions.begin(claims, &token).map_err(failed)?;
        let identity = self.sessions.find(&id).ok_or_else(|| again("the session has ended already"))?;
        let location = format!("{}{}", begun.redirect.strip_suffix(CALLBACK).unwrap_or_default(), begun.back);
        let cookies = vec![
            session::set_cookie(SESSION, &id, is_secure, self.sessions.lifetime()),
            session::set_cookie(LOGIN, "", is_secure, Duration::ZERO),
        ];
        Ok((Onward { location, cookies }, identity))
    }

    /// Ends the session of a browser, which may go on to the provider to end the one that it has there.
    pub async fn log_out(&self, came: Came<'_>, webserver: &Webserver) -> Result<(Onward, Option<Arc<Identity>>), ApiError> {
        if origin::is_elsewhere(came.headers) || (!came.method.is_safe() && !origin::is_own(came.headers, came.uri, webserver)) {
            return Err(ApiError::Forbidden("only weir's own pages may log you out".to_owned()));
        }
        let is_secure = is_secure(webserver);
        let ended = cookie(came.headers, &cookie_name(SESSION, is_secure)).and_then(|id| self.sessions.end(id));
        let (identity, hint) = ended.map_or((None, None), |(identity, hint)| (Some(identity), hint));
        // Where the provider cannot be asked the session here is over all the same.
        let known = self.provider.get().await.ok();
        let place = known.as_ref().and_then(|known| known.end_session.as_deref());
        let location = match (place, &self.settings.client) {
            (Some(place), Some(client)) => {
                let hint = hint.as_deref().map(|hint| ("id_token_hint", hint));
                let asked: Vec<_> = hint.into_iter().chain([("client_id", client.id.as_str())]).collect();
                with_query(place, &asked)
            }
            _ => format!("{}/", base(came, webserver)?),
        };
        Ok((Onward { location, cookies: vec![session::set_cookie(SESSION, "", is_secure, Duration::ZERO)] }, identity))
    }

    fn client(&self) -> Result<&OidcClient, ApiError> {
        let none =
            || ApiError::Absent("browsers cannot log in here: auth.oidc.client-id is not set; send a bearer token".to_owned());
        self.settings.client.as_ref().ok_or_else(none)
    }
}

impl Begun {
    fn written(&self, ends: u64) -> String {
        let Begun { state, nonce, verifier, redirect, back } = self;
        format!("{ends}\n{state}\n{nonce}\n{verifier}\n{redirect}\n{back}")
    }

    /// None where it is over.
    fn read(text: &str, now: u64) -> Option<Begun> {
        let lines: Vec<&str> = text.split('\n').collect();
        let [ends, state, nonce, verifier, redirect, back] = lines[..] else { return None };
        if ends.parse::<u64>().ok()? <= now {
            return None;
        }
        let [state, nonce, verifier, redirect, back] = [state, nonce, verifier, redirect, back].map(str::to_owned);
        Some(Begun { state, nonce, verifier, redirect, back })
    }
}

fn unauthenticated(is_wrong: bool, reason: String) -> ApiError {
    ApiError::Unauthenticated { reason, is_wrong }
}

fn failed(error: NoChance) -> ApiError {
    ApiError::Failed(error.to_string())
}

/// Where browsers find weir: as the configuration says, or as they have asked.
fn base(came: Came<'_>, webserver: &Webserver) -> Result<String, ApiError> {
    if let Some(advertised) = &webserver.advertised {
        return Ok(advertised.trim_end_matches('/').to_owned());
    }
    let host = came.uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| came.headers.get("host").and_then(|host| host.to_str().ok()));
    let is_host = |host: &&str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']'))
    };
    let host = host.filter(is_host);
    let host =
        host.ok_or_else(|| ApiError::bad("the request names no host; webserver-advertise can say where browsers find weir"))?;
    Ok(format!("{}://{host}", webserver.scheme()))
}

/// Whether cookies go over TLS alone.
fn is_secure(webserver: &Webserver) -> bool {
    match &webserver.advertised {
        Some(advertised) => advertised.starts_with("https://"),
        None => webserver.tls.is_some(),
    }
}

/// Whether a path leads to nowhere but here, whatever a browser makes of it: `//host` and `/\host` are other hosts.
fn is_local(path: &str) -> bool {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    path.starts_with('/') && !path.starts_with("//") && is_plain && path.len() <= RETURN_BYTES_MAX
}

fn with_query(place: &str, pairs: &[(&str, &str)]) -> String {
    let mut url = place.to_owned();
    for (name, value) in pairs {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{name}={}", crate::client::encoded(value)));
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_back_to_paths_of_here_alone() {
        for path in ["/", "/explorer", "/streams?x=1&y=%2F", "/a//b", "/explorer#query=RETURN%201"] {
            assert!(is_local(path), "{path}");
        }
        let long = format!("/{}", "a".repeat(RETURN_BYTES_MAX));
        for path in [
            "",
            "explorer",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "/a\nb",
            "/a\r\nSet-Cookie: x=1",
            "/a b",
            "/\tx",
            "/é",
            "javascript:alert(1)",
            &long,
        ] {
            assert!(!is_local(path), "{path}");
        }
    }

    #[test]
    fn a_login_is_over_after_a_while_and_reads_as_it_was_written() {
        let texts = ["s", "n", "v", "http://127.0.0.1/api/v2/auth/callback", "/explorer"].map(str::to_owned);
        let [state, nonce, verifier, redirect, back] = texts;
        let begun = Begun { state, nonce, verifier, redirect, back };
        let text = begun.written(1000);
        let read = Begun::read(&text, 999).expect("it lasts");
        assert_eq!((read.state.as_str(), read.back.as_str(), read.written(1000)), ("s", "/explorer", text.clone()));
        assert!(Begun::read(&text, 1000).is_none() && Begun::read("", 0).is_none() && Begun::read("x\n\n\n\n\n", 0).is_none());
    }

    #[test]
    fn what_is_asked_of_a_provider_stands_behind_its_own_parameters() {
        let pairs = [("a", "1&2"), ("b", "é")];
        assert_eq!(with_query("https://x/auth", &pairs), "https://x/auth?a=1%262&b=%C3%A9");
        assert_eq!(with_query("https://x/auth?p=q", &pairs), "https://x/auth?p=q&a=1%262&b=%C3%A9");
    }
}
