//! The one HTTP client of the process, and the one place where TLS is chosen (rustls with ring).

use std::sync::OnceLock;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};

use crate::error::{ConnectorError, Fault};

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// From sending a request to the end of its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

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
    let client = client.map_err(|error| ConnectorError::World {
        place: "HTTP client".to_owned(),
        problem: format!("cannot be set up: {}", chain(&error)),
        fault: Fault::World,
        retryable: false,
        source: Some(Box::new(error)),
    })?;
    Ok(CLIENT.get_or_init(|| client).clone())
}

fn builder() -> ClientBuilder {
    Client::builder()
        .connect_timeout(CONNECT_TIME_MAX)
        .timeout(REQUEST_TIME_MAX)
        .tcp_nodelay(true)
        // Following one would turn the POST into a GET, and lose its body unnoticed.
        .redirect(Policy::none())
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
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
