//! Which web servers queries and outputs may ask (`outgoing-http` of the configuration).
//!
//! Hosts are compared as they are written in the URL, and again at each redirect; what address a name leads to is not looked
//! at, so a name that is allowed is trusted with where it leads.

use reqwest::Url;

use crate::error::ConnectorError;

/// The key of the configuration.
const KEY: &str = "outgoing-http.allowed-hosts";

/// `default()` allows every host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostPolicy {
    /// None is all.
    allowed: Option<Vec<Pattern>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    /// In lower case. Of `*.example.com` what follows the star.
    host: String,
    below: bool,
    /// Any, if none.
    port: Option<u16>,
}

impl HostPolicy {
    /// `*` is every host, `*.example.com` every host below example.com, `example.com:8443` one port of one host.
    pub fn new(patterns: &[String]) -> Result<HostPolicy, ConnectorError> {
        if patterns.iter().any(|pattern| pattern == "*") {
            return Ok(HostPolicy::default());
        }
        let read = patterns.iter().map(|text| Pattern::read(text));
        Ok(HostPolicy { allowed: Some(read.collect::<Result<_, _>>()?) })
    }

    pub fn check(&self, url: &Url) -> Result<(), ConnectorError> {
        let Some(allowed) = &self.allowed else { return Ok(()) };
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        if allowed.iter().any(|pattern| pattern.matches(&host, url.port_or_known_default())) {
            return Ok(());
        }
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        Err(ConnectorError::config("", format!("the host {host}{port} is not one of {KEY}; add it there to allow it")))
    }
}

impl Pattern {
    fn read(text: &str) -> Result<Pattern, ConnectorError> {
        let wrong = || ConnectorError::config(KEY, format!("{text:?} is no host; give `*`, `host`, `host:port` or `*.domain`"));
        let lower = text.to_ascii_lowercase();
        let (below, rest) = match lower.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, lower.as_str()),
        };
        // Read as a URL is, so that both are written alike: IPv6 in brackets, IPv4 in full, names in their ASCII form.
        let url = Url::parse(&format!("http://{rest}/")).map_err(|_| wrong())?;
        let host = url.host_str().filter(|_| !rest.contains(['/', '@', '?', '#', '*'])).ok_or_else(wrong)?;
        let port = rest.rsplit_once(':').filter(|(before, _)| !rest.ends_with(']') && !before.is_empty());
        let port = port.map(|(_, port)| port.parse().map_err(|_| wrong())).transpose()?;
        Ok(Pattern { host: host.to_owned(), below, port })
    }

    fn matches(&self, host: &str, port: Option<u16>) -> bool {
        let named = if self.below {
            host.strip_suffix(&self.host).is_some_and(|before| before.ends_with('.'))
        } else {
            host == self.host
        };
        named && (self.port.is_none() || self.port == port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(patterns: &[&str]) -> Result<HostPolicy, ConnectorError> {
        HostPolicy::new(&patterns.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_are_allowed_by_name_and_port() {
        let check = |patterns: &[&str], url: &str, expected: bool| {
            let allowed = policy(patterns).expect("patterns").check(&Url::parse(url).expect("a URL"));
            assert_eq!(allowed.is_ok(), expected, "{patterns:?} {url}: {allowed:?}");
        };
        check(&["*"], "http://anything/", true);
        check(&[], "http://anything/", false);
        check(&["example.com"], "https://EXAMPLE.com/x", true);
        check(&["Example.com"], "https://example.com:8443/x", true);
        check(&["example.com:8443"], "https://example.com/x", false);
        check(&["example.com:443"], "https://example.com/x", true);
        check(&["example.com"], "https://example.com.evil.org/", false);
        check(&["example.com"], "https://example.com@evil.org/", false);
        check(&["example.com"], "https://www.example.com/", false);
        check(&["*.example.com"], "https://www.example.com/", true);
        check(&["*.example.com"], "https://example.com/", false);
        check(&["*.example.com"], "https://badexample.com/", false);
        check(&["127.0.0.1:80"], "http://127.1/", true);
        check(&["[::1]:9"], "http://[::1]:9/", true);
        check(&["[::1]"], "http://[::1]:9/", true);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for wrong in ["", "http://x", "a/b", "a b", "*x", "x:port", "x:99999", "a.*.b"] {
            assert!(policy(&[wrong]).is_err(), "{wrong:?}");
        }
        let error = policy(&["x"]).expect("a host").check(&Url::parse("http://y:1/").expect("a URL")).expect_err("another");
        assert!(error.to_string().contains("y:1 is not one of outgoing-http.allowed-hosts"), "{error}");
    }
}
