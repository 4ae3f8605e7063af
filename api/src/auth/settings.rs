//! What the configuration says of logins.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct AuthSettings {
    /// As the provider writes it in its tokens.
    pub issuer: String,
    /// What weir is to the provider; without it browsers cannot log in.
    pub client: Option<OidcClient>,
    /// Whom bearer tokens must be for; without it none is taken.
    pub audience: Option<String>,
    pub scopes: Vec<String>,
    pub roles_claim: String,
    pub session_lifetime: Duration,
    pub sessions_max: usize,
    /// Also a provider that is not on this machine may be asked without TLS.
    pub plain_http: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OidcClient {
    pub id: String,
    pub secret: Option<Hidden>,
}

/// A secret: it is in no message.
#[derive(Clone, PartialEq)]
pub struct Hidden(String);

impl Hidden {
    pub fn new(secret: String) -> Hidden {
        Hidden(secret)
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(****)")
    }
}

impl AuthSettings {
    /// Whether the provider may be asked there.
    pub fn may_ask(&self, url: &str) -> bool {
        url.starts_with("https://") || (url.starts_with("http://") && (self.plain_http || may_be_plain(url)))
    }
}

/// Whether a URL of plain HTTP leads to this machine, where nobody listens in between.
pub fn may_be_plain(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else { return false };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // What stands before an @ is no host.
    if place.contains('@') {
        return false;
    }
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_leads_to_this_machine() {
        for url in
            ["http://127.0.0.1:8080/realms/x", "http://localhost", "http://LOCALHOST:1/", "http://[::1]:9/x", "http://127.9.9.9"]
        {
            assert!(may_be_plain(url), "{url}");
        }
        for url in [
            "http://login.example",
            "http://127.0.0.1@evil.example/",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://10.0.0.1",
            "https://127.0.0.1",
            "ftp://127.0.0.1",
            "http://",
        ] {
            assert!(!may_be_plain(url), "{url}");
        }
    }

    #[test]
    fn a_secret_is_in_no_message() {
        let client = OidcClient { id: "weir".to_owned(), secret: Some(Hidden::new("hush".to_owned())) };
        assert!(!format!("{client:?}").contains("hush"));
    }
}
