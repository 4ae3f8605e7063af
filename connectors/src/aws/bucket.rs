//! A bucket of S3: objects put into it, and the names of those that are there.

use std::time::{Duration, SystemTime};

use reqwest::{Client, Method, Response, StatusCode};

use super::access::{Access, Settled};
use super::client::{passes, refuses_keys, said};
use super::object::{self, SERVICE};
use super::signature::Signer;
use crate::error::ConnectorError;
use crate::http;

/// From the beginning of a request to the end of its answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(300);

/// Of a list of a thousand names, whose length is bounded, too.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub struct Bucket {
    access: Access,
    name: String,
    place: String,
    /// None until it has been asked for the first time.
    opened: Option<(Client, Settled)>,
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

    /// The names that begin with this and come behind `after`, in order.
    pub async fn names(&mut self, beginning: &str, after: &str) -> Result<Vec<String>, ConnectorError> {
        let (mut names, mut after): (Vec<String>, String) = (Vec::new(), after.to_owned());
        loop {
            let query = [("list-type", "2"), ("prefix", beginning), ("start-after", &after)];
            let answer = self.ask(Method::GET, "", &query, &[], &[]).await?;
            let answer = String::from_utf8_lossy(&answer);
            let told: Vec<&str> = elements(&answer, "Key").collect();
            names.extend(told.iter().map(|name| name.to_string()));
            match told.last() {
                Some(last) if elements(&answer, "IsTruncated").next() == Some("true") => after = last.to_string(),
                _ => return Ok(names),
            }
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
            self.opened = Some((http::download_client()?, self.access.settle(SERVICE, None).await?));
        }
        let mut moved = false;
        loop {
            let Some((client, settled)) = &mut self.opened else { return Err(self.passing("it was not opened".to_owned())) };
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
            let late =
                |_| Err(ConnectorError::passing(&place, format!("there was no answer within {} s", REQUEST_TIME_MAX.as_secs())));
            match tokio::time::timeout(REQUEST_TIME_MAX, asking).await.unwrap_or_else(late)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_a_list() {
        let list = "<R><IsTruncated>false</IsTruncated><Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>b/c</Key></Contents></R>";
        assert_eq!(elements(list, "Key").collect::<Vec<_>>(), ["a", "b/c"]);
        assert_eq!(elements(list, "IsTruncated").next(), Some("false"));
        assert_eq!(elements("<Key>half", "Key").next(), None);
    }
}
