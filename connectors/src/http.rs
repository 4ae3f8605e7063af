//! The one HTTP client of the process, and the one place where TLS is chosen (rustls with ring).

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
pub use reqwest::{Client, RequestBuilder};
use reqwest::{ClientBuilder, Identity, Response, StatusCode, Url};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use weir_model::temporal::{Date, SECONDS_PER_DAY};

use crate::config::Secret;
use crate::error::{ConnectorError, Fault};
use crate::host_policy::HostPolicy;
use crate::tcp::{LIFE_INTERVAL, LIFE_TRIES_MAX};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// From sending a request to the end of its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
const REDIRECT_COUNT_MAX: usize = 5;
/// The longest a server may tell weir to stay away.
const AWAY_TIME_MAX: Duration = Duration::from_secs(3600);

/// Connections are kept and shared by all who ask.
pub fn client() -> Result<Client, ConnectorError> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client.clone());
    }
    install_tls();
    let client = builder().build().or_else(|error| {
        // A machine without certificate authorities can still post to plain HTTP.
        tracing::warn!("no HTTPS server can be trusted: {}; install the package ca-certificates", chain(&error));
        builder().tls_certs_only([]).build()
    });
    let client = client.map_err(unusable)?;
    Ok(CLIENT.get_or_init(|| client).clone())
}

/// A client for one answer that may be long: the time is bounded between its parts, not as a whole. It lives with the
/// runtime of whoever reads, so its connections are not shared.
///
/// A redirect leads only where the policy lets it.
pub(crate) fn fetching_client(hosts: &HostPolicy) -> Result<Client, ConnectorError> {
    install_tls();
    let builder = || sharing_trust(&[H2, HTTP_1]).read_timeout(REQUEST_TIME_MAX).redirect(within(hosts));
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

/// As `fetching_client`, for who signs what is asked: a signature holds for one server, so a redirect is an answer like others.
pub(crate) fn download_client() -> Result<Client, ConnectorError> {
    install_tls();
    let builder = || sharing_trust(&[H2, HTTP_1]).read_timeout(REQUEST_TIME_MAX).redirect(Policy::none());
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

/// As `download_client`, for what is sent: the other side says nothing until it has all of it, so whoever asks gives up when that
/// takes too long. A `read_timeout` begins with the request, and would end every one that takes longer to send.
pub(crate) fn upload_client() -> Result<Client, ConnectorError> {
    install_tls();
    let builder = || sharing_trust(&[H2, HTTP_1]).redirect(Policy::none());
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

/// A client for connections that stay, and on which nothing need come for hours: that the other side is gone is found out
/// below HTTP.
pub(crate) fn staying_client(hosts: &HostPolicy) -> Result<Client, ConnectorError> {
    install_tls();
    let builder = || {
        let alive = sharing_trust(&[HTTP_1])
            .tcp_keepalive(LIFE_INTERVAL)
            .tcp_keepalive_interval(LIFE_INTERVAL)
            .tcp_keepalive_retries(LIFE_TRIES_MAX);
        // Of HTTP/2 a connection cannot become a web socket.
        alive.http1_only().redirect(within(hosts))
    };
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

fn within(hosts: &HostPolicy) -> Policy {
    let hosts = hosts.clone();
    Policy::custom(move |attempt| match hosts.check(attempt.url()) {
        Err(refused) => attempt.error(refused),
        Ok(()) if attempt.previous().len() > REDIRECT_COUNT_MAX => attempt.error("too many redirects"),
        Ok(()) => attempt.follow(),
    })
}

/// An address of the web, as the option `field` has it. What is refused is not told: a password may be in it.
pub(crate) fn url(field: &str, text: &str) -> Result<Url, ConnectorError> {
    let url = Url::parse(text).map_err(|error| ConnectorError::config(field, format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ConnectorError::config(field, "the URL must begin with http:// or https://"));
    }
    Ok(url)
}

/// Refuses an address with a query or a fragment, for who reads neither.
pub(crate) fn without_query(field: &str, url: &Url) -> Result<(), ConnectorError> {
    match (url.query(), url.fragment()) {
        (None, None) => Ok(()),
        _ => Err(ConnectorError::config(field, "what stands behind a ? or # is not read; give it as options")),
    }
}

/// The headers that a definition gives. Those whose values are kept elsewhere are looked up, unless only what is `known` is
/// looked at.
pub(crate) fn headers(given: &BTreeMap<String, Secret>, known: bool) -> Result<HeaderMap, ConnectorError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let field = format!("headers.{name}");
        let name = HeaderName::from_bytes(name.as_bytes());
        let name = name.map_err(|_| ConnectorError::config(&field, "is no name of an HTTP header"))?;
        if known && value.known().is_none() {
            continue;
        }
        let text = value.value()?;
        let mut header = HeaderValue::from_str(&text).map_err(|_| {
            let problem = "the value holds characters that a header cannot carry";
            match value.known() {
                Some(_) => ConnectorError::config(&field, problem),
                None => ConnectorError::Secret { problem: format!("{field}: {problem}") },
            }
        })?;
        header.set_sensitive(true);
        headers.append(name, header);
    }
    Ok(headers)
}

/// Without a password and without the query, where tokens are kept.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), url.authority().rsplit('@').next().unwrap_or_default(), url.path())
}

/// An address as it is told to whoever asks for a definition: without its password, and without the values of its query, of which
/// any may be a token.
pub(crate) fn without_password(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    // An error says that an address of this kind has none.
    let mut masked = url.password().is_some() && url.set_password(Some("****")).is_ok();
    if let Some(query) = url.query().filter(|query| !query.is_empty()) {
        let without = |pair: &str| match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() => format!("{name}=****"),
            _ => pair.to_owned(),
        };
        let pairs: Vec<String> = query.split('&').map(without).collect();
        url.set_query(Some(&pairs.join("&")));
        masked = true;
    }
    if masked { url.into() } else { text.to_owned() }
}

/// Whether it is an address as `without_password` shows it.
pub(crate) fn holds_mask(text: &str) -> bool {
    let of_query = |url: &Url| url.query().is_some_and(|query| query.split('&').any(|pair| pair.ends_with("=****")));
    // Most texts are none, and need not be parsed.
    text.contains("****") && Url::parse(text).is_ok_and(|url| url.password() == Some("****") || of_query(&url))
}

/// How a request that should stay open went.
pub(crate) enum Asked {
    Answered(Response),
    /// It may work later, after this long at the earliest.
    Failed(String, Duration),
    /// It will not.
    Refused(ConnectorError),
}

/// Sends a request and looks at the status of its answer, which has to be one of success, or of another protocol.
pub(crate) async fn ask(place: &str, request: RequestBuilder) -> Asked {
    let answer = match tokio::time::timeout(REQUEST_TIME_MAX, request.send()).await {
        Ok(Ok(answer)) => answer,
        // What a policy or a broken redirect refused stays refused.
        Ok(Err(error)) if error.is_redirect() || error.is_builder() => {
            return Asked::Refused(refusal(place, chain(&error.without_url())));
        }
        Ok(Err(error)) => return Asked::Failed(chain(&error.without_url()), Duration::ZERO),
        Err(_) => {
            let problem = format!("there was no answer within {} s", REQUEST_TIME_MAX.as_secs());
            return Asked::Failed(problem, Duration::ZERO);
        }
    };
    let status = answer.status();
    if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
        Asked::Answered(answer)
    } else if may_pass(status) {
        Asked::Failed(format!("the server answered {status}"), retry_after(answer.headers()))
    } else {
        Asked::Refused(refusal(place, format!("the server answered {status}")))
    }
}

/// The body of an answer, if it is no longer than this; an error says what is wrong with it.
pub(crate) async fn whole(mut answer: Response, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|error| chain(&error.without_url()))? {
        if body.len() + part.len() > bytes_max {
            return Err(format!("the answer is longer than {bytes_max} bytes"));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Whether what failed with this status may work later.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::REQUEST_TIMEOUT || status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// How long the server wants to be left alone; an hour at most, and no time where it does not say, or says it in no way known.
pub(crate) fn retry_after(headers: &HeaderMap) -> Duration {
    let given = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    given.and_then(|text| away_time(text.trim(), SystemTime::now())).unwrap_or_default().min(AWAY_TIME_MAX)
}

/// How long to stay away: seconds, or until a date.
fn away_time(text: &str, now: SystemTime) -> Option<Duration> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Those that do not fit are many, too.
        return (!text.is_empty()).then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = UNIX_EPOCH + Duration::from_secs(u64::try_from(date_of_http(text)?).ok()?);
    Some(until.duration_since(now).unwrap_or_default())
}

/// A date as HTTP has them (`Sun, 06 Nov 1994 08:49:37 GMT`), in seconds since 1970. Its two older forms no server says any more.
fn date_of_http(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let number = |text: &str, below: i64| text.parse().ok().filter(|number: &i64| (0..below).contains(number));
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let date = Date::of(number(year, 10_000)?, month, number(day, 32)?)?;
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts[..] else { return None };
    // A minute may have a 61st second.
    let of_day = (number(hour, 24)? * 60 + number(minute, 60)?) * 60 + number(second, 61)?;
    Some(date.epoch_day * SECONDS_PER_DAY + of_day)
}

/// The other side does not want what it was asked for.
pub(crate) fn refusal(place: &str, problem: String) -> ConnectorError {
    ConnectorError::World { place: place.to_owned(), problem, fault: Fault::User, retryable: false, source: None }
}

/// A client for answers that take as long as they take: whoever asks gives up when they like.
pub fn patient_client() -> Result<Client, ConnectorError> {
    patient_client_showing(None)
}

/// As `patient_client`, with a certificate for servers that ask for one; PEM, its key and what leads to it included.
pub fn patient_client_showing(certificate: Option<&[u8]>) -> Result<Client, ConnectorError> {
    install_tls();
    let identity = certificate.map(Identity::from_pem).transpose().map_err(unusable)?;
    let builder = || {
        let builder = bare_builder().redirect(Policy::none());
        identity.iter().fold(builder, |builder, identity| builder.identity(identity.clone()))
    };
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

/// The one of the process, but for what is trusted and shown.
pub(crate) fn trusting_client(tls: ClientConfig) -> Result<Client, ConnectorError> {
    install_tls();
    builder().tls_backend_preconfigured(tls).build().map_err(unusable)
}

fn builder() -> ClientBuilder {
    // Following a redirect would turn the POST into a GET, and lose its body unnoticed.
    bare_builder().timeout(REQUEST_TIME_MAX).redirect(Policy::none())
}

fn bare_builder() -> ClientBuilder {
    Client::builder().connect_timeout(CONNECT_TIME_MAX).tcp_nodelay(true).user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
}

/// How HTTP is called where TLS begins.
const H2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// For clients of which every stream has one of its own: what all of them trust, the authorities of the machine, is there once.
/// It is 300 KB.
fn sharing_trust(protocols: &[&[u8]]) -> ClientBuilder {
    static TRUST: OnceLock<ClientConfig> = OnceLock::new();
    let builder = bare_builder();
    let made = || ClientConfig::builder().with_platform_verifier().map(|builder| builder.with_no_client_auth());
    let trust = match TRUST.get() {
        Some(trust) => trust,
        None => match made() {
            Ok(trust) => TRUST.get_or_init(|| trust),
            // Without any, the client says what is missing.
            Err(_) => return builder,
        },
    };
    let mut trust = trust.clone();
    trust.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    builder.tls_backend_preconfigured(trust)
}

fn unusable(error: reqwest::Error) -> ConnectorError {
    ConnectorError::World {
        place: "HTTP client".to_owned(),
        problem: format!("cannot be set up: {}", chain(&error)),
        fault: Fault::World,
        retryable: false,
        source: Some(Box::new(error)),
    }
}

/// Makes ring the cryptography of every TLS connection of the process. A second call changes nothing.
pub fn install_tls() {
    // An error says that a provider is there already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An error with its causes: the outermost of reqwest says little.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_in_seconds_or_with_a_date_when_to_come_again() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let away = |text: &str| away_time(text, now).map(|away| away.as_secs());
        assert_eq!((away("0"), away("120"), away("99999999999999999999")), (Some(0), Some(120), Some(u64::MAX)));
        assert_eq!(away("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(away("Sun, 06 Nov 1994 08:51:07 GMT"), Some(90));
        assert_eq!(away("Mon, 07 Nov 1994 08:49:37 GMT"), Some(86_400));
        assert_eq!(away("Sat, 05 Nov 1994 08:49:37 GMT"), Some(0), "it is over");
        for wrong in ["", "-1", "soon", "1.5", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT", "06 Nov 1994"] {
            assert_eq!(away(wrong), None, "{wrong}");
        }
        let headers = |text| HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
        assert_eq!(retry_after(&headers(" 30 ")), Duration::from_secs(30));
        assert_eq!(retry_after(&headers("Fri, 31 Dec 9999 23:59:59 GMT")), AWAY_TIME_MAX);
        assert_eq!(retry_after(&headers("no idea")), Duration::ZERO);
        assert_eq!(retry_after(&HeaderMap::new()), Duration::ZERO);
    }
}
