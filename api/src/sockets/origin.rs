//! Which pages may open a web socket.
//!
//! A browser keeps from a page what other servers answer, and opens a web socket for it wherever it likes: there it only says
//! where the page is from, and leaves the rest to the server. Clients that are no browsers say nothing, and are not asked.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use warp::http::header::ORIGIN;
use warp::http::{HeaderMap, StatusCode};
use warp::reply::Response;
use weir_model::lock::lock;

use super::is_asked;
use crate::config::Webserver;
use crate::error::plain;

/// The key of the configuration, and what in its list stands for every page.
const KEY: &str = "webserver.allowed-origins";
const ANY: &str = "*";

/// How often refusals are warned of: a page may ask as often as it likes.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// Where the host stands that was asked; behind a proxy, in the second. No page can set them.
const HOSTS: [&str; 2] = ["host", "x-forwarded-host"];

/// The answer to a page from elsewhere that asks for a web socket.
pub fn refusal(headers: &HeaderMap, webserver: &Webserver) -> Option<Response> {
    let origin = headers.get(ORIGIN).filter(|_| is_asked(headers))?;
    let origin = String::from_utf8_lossy(origin.as_bytes());
    if may_open(&origin, headers, &webserver.allowed_origins, webserver.advertised.as_deref()) {
        return None;
    }
    tell(&origin);
    let reason = format!(
        "Pages from '{origin}' may not open web sockets here, for that is not the host that was asked. Name it in {KEY} if they may, \
         also where a proxy passes on neither Host nor X-Forwarded-Host"
    );
    Some(plain(StatusCode::FORBIDDEN, reason))
}

/// A page is not told why it was refused, so whoever runs weir has to be.
fn tell(origin: &str) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let message =
        format!("a page from {origin:?} was refused a web socket; name its origin in {KEY} if it may read and change the graph");
    if is_due(&mut lock(&TOLD), Instant::now()) {
        tracing::warn!("{message}");
    } else {
        tracing::debug!("{message}");
    }
}

/// Whether it is time to warn again, which is noted.
fn is_due(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_INTERVAL);
    if is_due {
        *told = Some(now);
    }
    is_due
}

/// Whether a text is written as browsers write origins, or stands for all of them.
pub fn is_origin(text: &str) -> bool {
    let is_place = |place: &str| !place.is_empty() && !place.contains(['/', '?', '#', '@', '*']);
    text == ANY || text.split_once("://").is_some_and(|(scheme, place)| !scheme.is_empty() && is_place(place))
}

/// Pages of weir's own host may, by whichever name it was asked, and those that the configuration names.
fn may_open(origin: &str, headers: &HeaderMap, allowed: &[String], advertised: Option<&str>) -> bool {
    if allowed.iter().any(|allowed| allowed == ANY) {
        return true;
    }
    // Pages without a host have the origin `null`.
    let Some((scheme, place)) = parts(origin) else { return false };
    let is_it = |named: &str| {
        parts(named).is_some_and(|(other, at)| other.eq_ignore_ascii_case(scheme) && at.eq_ignore_ascii_case(place))
    };
    let asked = HOSTS.into_iter().flat_map(|name| headers.get_all(name)).filter_map(|value| value.to_str().ok());
    let mut asked = asked.flat_map(|hosts| hosts.split(','));
    allowed.iter().map(String::as_str).chain(advertised).any(is_it)
        || asked.any(|host| without_usual_port(scheme, host.trim()).eq_ignore_ascii_case(place))
}

/// The scheme of a URL, and its host with the port where that is not the usual one.
fn parts(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let place = rest.split_once('/').map_or(rest, |(place, _)| place);
    Some((scheme, without_usual_port(scheme, place)))
}

fn without_usual_port<'a>(scheme: &str, place: &'a str) -> &'a str {
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return place,
    };
    place.strip_suffix(port).unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use warp::http::header::HOST;
    use warp::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn pages_of_the_host_that_was_asked_and_named_ones_may() {
        let may = |origin: &str, host: &'static str, forwarded: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            headers.extend(forwarded.map(|host| (HeaderName::from_static("x-forwarded-host"), HeaderValue::from_static(host))));
            let allowed = ["https://ui.example.com".to_owned(), "http://other.example.com:80".to_owned()];
            may_open(origin, &headers, &allowed, Some("https://weir.example.com:8443/weir"))
        };
        let here = "localhost:8080";
        assert!(may("http://localhost:8080", here, None) && may("http://[::1]:8080", "[::1]:8080", None));
        assert!(may("https://Example.com", "example.com", None) && may("https://example.com", "example.com:443", None));
        for origin in
            ["null", "", "http://localhost", "http://localhost:3000", "http://evil.example", "http://localhost:8080.evil.example"]
        {
            assert!(!may(origin, here, None), "{origin}");
        }
        // Behind a proxy, and as the configuration has it.
        assert!(may("https://example.com", here, Some("inner, example.com")) && !may("https://example.com", here, Some("inner")));
        assert!(may("https://ui.example.com", here, None) && !may("http://ui.example.com", here, None));
        assert!(may("http://other.example.com", here, None) && may("https://weir.example.com:8443", here, None));
        assert!(may_open("null", &HeaderMap::new(), &[ANY.to_owned()], None));
    }

    #[test]
    fn refusals_are_warned_of_once_a_minute() {
        let (mut told, now) = (None, Instant::now());
        assert!(is_due(&mut told, now));
        assert!(!is_due(&mut told, now) && !is_due(&mut told, now + TELL_INTERVAL / 2));
        assert!(is_due(&mut told, now + TELL_INTERVAL));
        assert!(!is_due(&mut told, now + TELL_INTERVAL * 3 / 2));
    }

    #[test]
    fn origins_are_written_as_browsers_do() {
        assert!(["*", "http://localhost:3000", "https://[::1]", "vscode-webview://abc"].into_iter().all(is_origin));
        assert!(
            ["", "example.com", "https://", "https://example.com/", "https://*.example.com", "https://a@b"]
                .into_iter()
                .all(|text| !is_origin(text))
        );
    }
}
