//! A bucket of S3: objects put into it, and the names of those that are there.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use reqwest::{Client, Method, Response, StatusCode};

use super::access::{Access, Settled};
use super::client::{passes, refuses_keys, said};
use super::object::{self, SERVICE};
use super::signature::Signer;
use crate::error::ConnectorError;
use crate::http;

/// From the beginning of a request that asks for something to the end of its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(300);

/// For the answer to an object, besides the time in which it is sent.
const STORED_TIME_MAX: Duration = Duration::from_secs(30);

/// An object that is sent more slowly than this, in bytes per second, is given up for now.
const STORED_RATE_MIN: usize = 32 << 10;

/// Bytes of an answer, at most: a list of a thousand names, whose length is bounded, too.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Between `&` and `;` of XML. What is longer stands for no character.
const REFERENCE_BYTES_MAX: usize = 12;

pub struct Bucket {
    access: Access,
    name: String,
    place: String,
    /// None until it has been asked for the first time.
    opened: Option<Opened>,
}

struct Opened {
    /// For what is asked for.
    asking: Client,
    /// For objects, which take as long to send as they are long.
    storing: Client,
    settled: Settled,
}

impl Opened {
    async fn open(access: &Access) -> Result<Opened, ConnectorError> {
        let settled = access.settle(SERVICE, None).await?;
        Ok(Opened { asking: http::download_client()?, storing: http::upload_client()?, settled })
    }

    /// Who sends a request, and how long it may take.
    fn sender(&self, method: &Method, body: &[u8]) -> (Client, Duration) {
        if *method == Method::PUT {
            let sending = Duration::from_secs((body.len() / STORED_RATE_MIN) as u64);
            (self.storing.clone(), STORED_TIME_MAX + sending)
        } else {
            (self.asking.clone(), REQUEST_TIME_MAX)
        }
    }
}

/// What an answer means.
enum Answered {
    Body(Vec<u8>),
    /// The bucket is in another region.
    Elsewhere(String),
}

impl Bucket {
    pub fn new(access: Access, name: &str, place: &str) -> Bucket {
        Bucket { access, name: name.to_owned(), place: place.to_owned(), opened: None }
    }

    /// Stores an object, in the place of one of that name.
    pub async fn put(&mut self, key: &str, kind: &str, body: &[u8]) -> Result<(), ConnectorError> {
        self.ask(Method::PUT, key, &[], &[("content-type", kind.to_owned())], body).await.map(drop)
    }

    /// Shows the names that begin with this and come behind `after`, in order, for as long as `see` says that it wants more:
    /// a bucket may have millions.
    pub async fn names(&mut self, beginning: &str, after: &str, mut see: impl FnMut(&str) -> bool) -> Result<(), ConnectorError> {
        let mut token: Option<String> = None;
        loop {
            // The server's own word for where it was: a name would have to come back exactly as it is.
            let from = token.as_deref().map_or(("start-after", after), |token| ("continuation-token", token));
            let query = [("list-type", "2"), ("prefix", beginning), from];
            let answer = self.ask(Method::GET, "", &query, &[], &[]).await?;
            let answer = String::from_utf8_lossy(&answer);
            let more = elements(&answer, "Key").all(|name| see(&meant(name)));
            if !more || elements(&answer, "IsTruncated").next() != Some("true") {
                return Ok(());
            }
            let next = elements(&answer, "NextContinuationToken").next().map(|next| meant(next).into_owned());
            if next.is_none() || next == token {
                let problem = "its list of names goes on, and the server does not say how to ask for the rest, as S3 does; use a \
                               server that does";
                return Err(http::refusal(&self.place, problem.to_owned()));
            }
            token = next;
        }
    }

    async fn ask(
        &mut self,
        method: Method,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<Vec<u8>, ConnectorError> {
        if self.opened.is_none() {
            self.opened = Some(Opened::open(&self.access).await?);
        }
        let mut moved = false;
        loop {
            let Some(opened) = &mut self.opened else { return Err(self.passing("it was not opened".to_owned())) };
            let (client, time_max) = opened.sender(&method, body);
            let settled = &mut opened.settled;
            let mut url = object::address(&settled.url, &settled.region, &self.name, key)?;
            if !query.is_empty() {
                url.query_pairs_mut().extend_pairs(query);
            }
            self.access.hosts.check(&url)?;
            let credentials = settled.keys.get().await?;
            let signer = Signer { credentials, region: &settled.region, service: SERVICE, time: SystemTime::now() };
            let signed = signer.sign(method.as_str(), &url, headers, body);
            let signed = signed.map_err(|problem| http::refusal(&self.place, problem))?;
            let mut request = client.request(method.clone(), url).body(body.to_vec());
            for (name, value) in headers
                .iter()
                .map(|(name, value)| (*name, value))
                .chain(signed.iter().map(|(name, value)| (name.as_str(), value)))
            {
                request = request.header(name, value);
            }
            let place = self.place.clone();
            let asking = async {
                let answer = request.send().await;
                let answer = answer.map_err(|error| ConnectorError::passing(&place, http::chain(&error.without_url())))?;
                look_at(&place, answer, settled).await
            };
            let late = |_| Err(ConnectorError::passing(&place, format!("there was no answer within {} s", time_max.as_secs())));
            match tokio::time::timeout(time_max, asking).await.unwrap_or_else(late)? {
                Answered::Body(body) => return Ok(body),
                Answered::Elsewhere(region) if !moved => {
                    moved = true;
                    settled.url = object::url_of(&region)?;
                    settled.region = region;
                }
                Answered::Elsewhere(region) => {
                    let problem = format!("S3 says that the bucket is in {region}, and there that it is not; give its region");
                    return Err(http::refusal(&self.place, problem));
                }
            }
        }
    }

    fn passing(&self, problem: String) -> ConnectorError {
        ConnectorError::passing(&self.place, problem)
    }
}

async fn look_at(place: &str, answer: Response, settled: &Settled) -> Result<Answered, ConnectorError> {
    let status = answer.status();
    let elsewhere = object::elsewhere(&answer, settled);
    let body = http::whole(answer, ANSWER_BYTES_MAX).await;
    let body = body.map_err(|problem| ConnectorError::passing(place, format!("the answer breaks off: {problem}")))?;
    if status.is_success() {
        return Ok(Answered::Body(body));
    }
    if let Some(region) = elsewhere {
        return Ok(Answered::Elsewhere(region));
    }
    let (code, message) = said("", &body);
    let reason = format!("the server answered {status}: {code}: {message}");
    if matches!(code.as_str(), "ExpiredToken" | "RequestExpired") || refuses_keys(&code) {
        settled.keys.forget().await;
    }
    // Rights, a bucket that is not there yet, and one that is new and redirected for a while: somebody may see to it.
    let waits =
        matches!(status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::TEMPORARY_REDIRECT | StatusCode::CONFLICT);
    let passing = http::may_pass(status) || passes(&code) || waits;
    Err(if passing { ConnectorError::passing(place, reason) } else { http::refusal(place, reason) })
}

/// The texts of all elements of this name.
fn elements<'x>(xml: &'x str, name: &str) -> impl Iterator<Item = &'x str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once(&open)?;
        let (text, behind) = behind.split_once(&close)?;
        rest = behind;
        Some(text)
    })
}

/// What a text of XML stands for. What is no reference to a character stays as it is.
fn meant(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let end = behind.bytes().take(REFERENCE_BYTES_MAX).position(|byte| byte == b';');
        match end.and_then(|end| Some((referred(&behind[..end])?, &behind[end + 1..]))) {
            Some((c, after)) => {
                out.push(c);
                rest = after;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn referred(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;

    #[test]
    fn names_are_what_the_references_in_them_stand_for() {
        assert_eq!(meant("a&amp;b&lt;&gt;&quot;&apos;"), "a&b<>\"'");
        assert_eq!(meant("&#38;&#x26;&#xFC;&#13;"), "&&ü\r");
        assert_eq!(meant("&amp;lt;"), "&lt;");
        for plain in ["", "abc", "&", "a&b;", "&#;", "&#xD800;", "&#99999999;", "&aé", "&&&;"] {
            assert_eq!(meant(plain), plain);
        }
    }

    /// The name a page ended with was asked for as it is written in XML, so that the same page came for ever.
    #[test]
    fn a_list_of_many_pages_is_seen_once_and_as_far_as_it_is_wanted() {
        let page = |name: &str, next: &str| {
            format!(
                "<R><IsTruncated>true</IsTruncated><Contents><Key>r/{name}</Key></Contents>\
                 <NextContinuationToken>{next}</NextContinuationToken></R>"
            )
        };
        let pages = [page("a&amp;b", "1+/= &amp;"), page("a/b", "2"), page("c", "3")];
        let server = StandIn::start(move |asked| match asked.query("continuation-token").as_deref() {
            None => (200, pages[0].clone()),
            Some("1+/= &") => (200, pages[1].clone()),
            Some("2") => (200, pages[2].clone()),
            Some(_) => (400, "<Error><Code>InvalidArgument</Code></Error>".to_owned()),
        });
        let mut bucket = Bucket::new(server.access(), "lake", "s3://lake/r/");
        let mut seen = Vec::new();
        let see = |name: &str| {
            seen.push(name.to_owned());
            name != "r/c"
        };
        runtime().block_on(bucket.names("r/", "r/&", see)).unwrap();
        assert_eq!(seen, ["r/a&b", "r/a/b", "r/c"]);
        let asked = server.asked();
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|asked| asked.query("prefix").as_deref() == Some("r/")));
        assert_eq!(asked[0].query("start-after").as_deref(), Some("r/&"));
    }

    #[test]
    fn a_list_that_does_not_say_how_it_goes_on_is_refused() {
        for next in ["", "<NextContinuationToken>1</NextContinuationToken>"] {
            let list = format!("<R><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents>{next}</R>");
            let server = StandIn::start(move |_| (200, list.clone()));
            let mut bucket = Bucket::new(server.access(), "lake", "s3://lake/");
            let refused = runtime().block_on(bucket.names("", "", |_| true)).unwrap_err();
            assert!(refused.to_string().contains("its list of names goes on") && !refused.retryable(), "{refused}");
        }
    }

    /// Where an object took more than 30 s to send it was given up, and sent again, for ever.
    #[test]
    fn an_object_may_take_as_long_to_send_as_it_is_long() {
        let server = StandIn::start(|_| (200, String::new()));
        let opened = runtime().block_on(Opened::open(&server.access())).unwrap();
        let sent = |method: Method, bytes: usize| {
            let (client, time_max) = opened.sender(&method, &vec![0; bytes]);
            (format!("{client:?}").contains("read_timeout"), time_max.as_secs())
        };
        assert_eq!(sent(Method::PUT, 1), (false, 30));
        assert_eq!(sent(Method::PUT, 16 << 20), (false, 30 + 512));
        // What is asked for is short, and a server that says nothing more is left.
        assert_eq!(sent(Method::GET, 0), (true, 300));
    }

    #[test]
    fn names_are_found_in_a_list() {
        let list = "<R><IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>b/c</Key></Contents></R>";
        assert_eq!(elements(list, "Key").collect::<Vec<_>>(), ["a", "b/c"]);
        assert_eq!(elements(list, "IsTruncated").next(), Some("false"));
        assert_eq!(elements("<Key>half", "Key").next(), None);
    }
}
