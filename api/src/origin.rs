//! Which pages may do more than look: open web sockets, change something, run queries.
//!
//! A browser keeps from a page what other servers answer, and still asks them for it: it opens a web socket wherever the page
//! likes, and sends a text, which may be a query. It only says where the page is from, and leaves the rest to the server. Clients
//! that are no browsers say nothing, and are not asked.
//!
//! For most of what the API takes the browser asks first whether the page may, and it shows the page an answer only where that
//! says so. Both are told of pages that the configuration names, and of no others (the protocol is called CORS).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use warp::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use warp::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use warp::reply::Response;
use weir_model::lock::lock;

use crate::config::Webserver;
use crate::error::{plain, response};
use crate::sockets::is_asked;

/// The key of the configuration, and what in its list stands for every page.
const KEY: &str = "webserver.allowed-origins";
const ANY: &str = "*";

/// How often refusals are warned of: a page may ask as often as it likes.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// Where the host stands that was asked; behind a proxy, in the second. No page can set them.
const HOSTS: [&str; 2] = ["host", "x-forwarded-host"];

/// What browsers say of a request whose page was had from where the request goes, by whatever name a proxy passes it on. No page
/// can set it.
const SITE: &str = "sec-fetch-site";
const OF_HERE: &str = "same-origin";
const OF_ELSEWHERE: [&str; 2] = ["cross-site", "same-site"];

/// What a page that is named may send: every method there is, and the headers that are looked at.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const TAKEN: &str =
    "accept, authorization, content-encoding, content-type, idempotency-key, last-event-id, quine-member-idx, traceparent";

/// What it may read besides the few headers that browsers show anyway.
const SHOWN: &str = "allow, content-disposition, location, retry-after, warning, weir-diagnostics, www-authenticate";

/// For how many seconds a browser need not ask again: no browser of today keeps it longer than two hours.
const ASKED_FOR: &str = "7200";

/// The origin of a page that the configuration names, as the browser tells it.
pub fn named<B>(request: &Request<B>, webserver: &Webserver) -> Option<HeaderValue> {
    let origin = request.headers().get(ORIGIN).filter(|_| !webserver.allowed_origins.is_empty())?;
    may(&String::from_utf8_lossy(origin.as_bytes()), &[], &webserver.allowed_origins, None).then(|| origin.clone())
}

/// Whether a browser asks what a page may, before it sends what the page wants to send.
pub fn asks_first<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that for a page that is named; `show_to` says for which.
pub fn permission() -> Response {
    let mut permission = response(StatusCode::NO_CONTENT, None, String::new());
    for (name, value) in
        [(ACCESS_CONTROL_ALLOW_METHODS, METHODS), (ACCESS_CONTROL_ALLOW_HEADERS, TAKEN), (ACCESS_CONTROL_MAX_AGE, ASKED_FOR)]
    {
        permission.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    permission
}

/// Lets a page that is named read an answer.
pub fn show_to(origin: HeaderValue, answer: &mut Response) {
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
}

/// Where pages are named, each gets another answer, and so do those that are none: whoever keeps one has to know.
pub fn mark_varying(answer: &mut Response) {
    answer.headers_mut().append(VARY, HeaderValue::from_static("origin"));
}

/// The answer to a page from elsewhere that wants to do more than look.
pub fn refusal<B>(request: &Request<B>, webserver: &Webserver) -> Option<Response> {
    let headers = request.headers();
    let opens = is_asked(headers);
    let origin = headers.get(ORIGIN).filter(|_| opens || !request.method().is_safe())?;
    let origin = String::from_utf8_lossy(origin.as_bytes());
    let asked = hosts(headers, request.uri());
    if is_of_here(headers) || may(&origin, &asked, &webserver.allowed_origins, webserver.advertised.as_deref()) {
        return None;
    }
    let what = if opens { "open web sockets" } else { "change anything or run queries" };
    tell(&origin, what);
    let reason = format!(
        "Pages from '{origin}' may not {what} here, for that is not the host that was asked. Name it in {KEY} if they may, \
         also where a proxy passes on neither Host nor X-Forwarded-Host"
    );
    Some(plain(StatusCode::FORBIDDEN, reason))
}

/// Whether the browser says that a request is one of weir's own pages. Those that the configuration names are others, and so is
/// whoever says nothing.
pub fn is_own(headers: &HeaderMap, uri: &Uri, webserver: &Webserver) -> bool {
    let origin = || headers.get(ORIGIN).map(|origin| String::from_utf8_lossy(origin.as_bytes()).into_owned());
    let is_origin = || origin().is_some_and(|origin| may(&origin, &hosts(headers, uri), &[], webserver.advertised.as_deref()));
    // An origin has the host that was asked also where the page came over plain HTTP, from whoever stands in between.
    !is_elsewhere(headers) && (is_of_here(headers) || is_origin())
}

/// Whether the browser says that a request is that of a page of another host, or was followed from there.
pub fn is_elsewhere(headers: &HeaderMap) -> bool {
    headers.get(SITE).is_some_and(|site| OF_ELSEWHERE.iter().any(|other| site.as_bytes() == other.as_bytes()))
}

fn is_of_here(headers: &HeaderMap) -> bool {
    headers.get(SITE).is_some_and(|site| site.as_bytes() == OF_HERE.as_bytes())
}

/// A page is not told why it was refused, so whoever runs weir has to be.
fn tell(origin: &str, what: &str) {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let message = format!(
        "a page from {origin:?} wanted to {what} and was refused; name its origin in {KEY} if it may read and change the graph"
    );
    if is_due(&mut lock(&TOLD), Instant::now()) {
        tracing::warn!("{message}");
    } else {
        tracing::debug!("{message}");
    }
}

/// Whether it is time to warn again, which is noted.
pub fn is_due(told: &mut Option<Instant>, now: Instant) -> bool {
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

/// The hosts that were asked, as clients and proxies say. HTTP/2 says it in the address.
fn hosts<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Vec<&'r str> {
    let named = HOSTS.into_iter().flat_map(|name| headers.get_all(name)).filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|hosts| hosts.split(',')).map(str::trim);
    named.chain(uri.authority().map(|authority| authority.as_str())).collect()
}

/// Pages of weir's own host may, by whichever name it was asked, and those that the configuration names.
fn may(origin: &str, asked: &[&str], allowed: &[String], advertised: Option<&str>) -> bool {
    if allowed.iter().any(|allowed| allowed == ANY) {
        return true;
    }
    // Pages without a host have the origin `null`.
    let Some((scheme, place)) = parts(origin) else { return false };
    let is_it = |named: &str| {
        parts(named).is_some_and(|(other, at)| other.eq_ignore_ascii_case(scheme) && at.eq_ignore_ascii_case(place))
    };
    allowed.iter().map(String::as_str).chain(advertised).any(is_it)
        || asked.iter().any(|host| without_usual_port(scheme, host).eq_ignore_ascii_case(place))
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
    use super::*;
    use crate::config::{Sources, load};
    use crate::routes::{MEMBER_HEADER, ROUTES};
    use crate::wire::diagnostic;

    #[test]
    fn pages_of_the_host_that_was_asked_and_named_ones_may() {
        let may = |origin: &str, host: &str, forwarded: Option<&str>| {
            let request = Request::builder().header("host", host);
            let request = forwarded.into_iter().fold(request, |request, host| request.header("x-forwarded-host", host));
            let allowed = ["https://ui.example.com".to_owned(), "http://other.example.com:80".to_owned()];
            let request = request.body(()).expect("a request");
            may(origin, &hosts(request.headers(), request.uri()), &allowed, Some("https://weir.example.com:8443/weir"))
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
    }

    /// What a session may change is not for pages that the configuration names, nor for who says nothing.
    #[test]
    fn own_pages_are_those_of_the_host_that_was_asked() {
        let settings = load(&Sources::default(), &|_| None).expect("loads");
        let mut webserver = settings.webserver;
        webserver.allowed_origins = vec![ANY.to_owned()];
        let own = |more: &[(&str, &str)]| {
            let request = Request::builder().uri("/api/v1/query/cypher").header("host", "weir.example:8080");
            let request = more.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            let request = request.body(()).expect("a request");
            (is_own(request.headers(), request.uri(), &webserver), is_elsewhere(request.headers()))
        };
        assert_eq!(own(&[("origin", "http://weir.example:8080")]), (true, false));
        assert_eq!(own(&[("sec-fetch-site", "same-origin")]), (true, false));
        assert_eq!(own(&[]), (false, false));
        assert_eq!(own(&[("origin", "http://weir.example")]), (false, false));
        assert_eq!(own(&[("origin", "null"), ("sec-fetch-site", "cross-site")]), (false, true));
        assert_eq!(own(&[("origin", "http://ui.weir.example"), ("sec-fetch-site", "same-site")]), (false, true));
        assert_eq!(own(&[("sec-fetch-site", "none")]), (false, false));
    }

    #[test]
    fn the_host_of_http_2_stands_in_the_address() {
        let request = Request::builder().uri("https://example.com:8443/api/v1/query/cypher").body(()).expect("a request");
        assert!(may("https://example.com:8443", &hosts(request.headers(), request.uri()), &[], None));
        assert!(!may("https://example.com", &hosts(request.headers(), request.uri()), &[], None));
        assert!(may("null", &[], &[ANY.to_owned()], None));
    }

    #[test]
    fn a_named_page_may_send_what_every_route_takes() {
        for route in ROUTES {
            assert!(METHODS.split(", ").any(|method| method == route.method.as_str()), "{}", route.path);
        }
        assert!(TAKEN.split(", ").any(|name| name.eq_ignore_ascii_case(MEMBER_HEADER)));
        assert!(SHOWN.split(", ").any(|name| name == diagnostic::HEADER));
        let ask = |method: &str, more: Option<&str>| {
            let request = Request::builder().method(method);
            let request =
                more.into_iter().fold(request, |request, method| request.header("access-control-request-method", method));
            asks_first(&request.body(()).expect("a request"))
        };
        assert!(ask("OPTIONS", Some("POST")) && !ask("OPTIONS", None) && !ask("POST", Some("POST")));
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
