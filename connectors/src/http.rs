//! The one HTTP client of the process, and the one place where TLS is chosen (rustls with ring).

use std::sync::OnceLock;
use std::time::Duration;

pub use reqwest::Client;
use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

use crate::error::{ConnectorError, Fault};
use crate::host_policy::HostPolicy;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// From sending a request to the end of its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
const REDIRECT_COUNT_MAX: usize = 5;

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
    let redirect = || {
        let hosts = hosts.clone();
        Policy::custom(move |attempt| match hosts.check(attempt.url()) {
            Err(refused) => attempt.error(refused),
            Ok(()) if attempt.previous().len() > REDIRECT_COUNT_MAX => attempt.error("too many redirects"),
            Ok(()) => attempt.follow(),
        })
    };
    let builder = || bare_builder().read_timeout(REQUEST_TIME_MAX).redirect(redirect());
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

/// A client for answers that take as long as they take: whoever asks gives up when they like.
pub fn patient_client() -> Result<Client, ConnectorError> {
    install_tls();
    let builder = || bare_builder().redirect(Policy::none());
    builder().build().or_else(|_| builder().tls_certs_only([]).build()).map_err(unusable)
}

fn builder() -> ClientBuilder {
    // Following a redirect would turn the POST into a GET, and lose its body unnoticed.
    bare_builder().timeout(REQUEST_TIME_MAX).redirect(Policy::none())
}

fn bare_builder() -> ClientBuilder {
    Client::builder().connect_timeout(CONNECT_TIME_MAX).tcp_nodelay(true).user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
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
