//! The bytes of one object of S3, in order, whatever happens on the way.
//!
//!     task: GET from byte `at`, if it is still that version ─> chunks, bounded ─> ObjectStream::read
//!
//! A connection that ends early is followed by a request for the rest. S3 closes those on which nobody reads for a while, which a
//! slow graph does; that is no more than one more request.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::access::{Access, Settled, domain_of};
use super::client::{passes, refuses_keys, said};
use super::signature::Signer;
use crate::error::{ConnectorError, Fault};
use crate::feed::{Pauses, Trouble};
use crate::framing::{ByteStream, Chunk};
use crate::http;

pub const SERVICE: &str = "s3";

/// Pieces that wait to be read. One is as much as comes from the network at once, 400 KB at most.
const PIECES_WAITING_MAX: usize = 16;

/// How much of an answer that is an error is looked at.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Longer ones are none.
const VERSION_BYTES_MAX: usize = 1024;

/// In answers of servers that are not the bucket's: where it is.
const REGION_OF_BUCKET: &str = "x-amz-bucket-region";

/// Which bytes.
pub struct Wanted {
    pub access: Access,
    pub bucket: String,
    pub key: String,
    /// From this byte on.
    pub at: u64,
    pub place: String,
    /// The version of the object, if it is known; otherwise it is told here.
    pub version: Arc<OnceLock<String>>,
    pub trouble: Trouble,
}

/// What can be found wrong with names without asking anybody.
pub fn check_name(bucket: &str, key: &str) -> Result<(), ConnectorError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !matches!(bucket.len(), 3..=255) || !bucket.chars().all(legal) {
        return Err(ConnectorError::config("bucket", format!("'{bucket}' cannot be the name of a bucket")));
    }
    if !matches!(key.len(), 1..=1024) {
        return Err(ConnectorError::config("key", "the name of an object has 1 to 1024 bytes"));
    }
    // Whoever reads the address, on the way or here, takes them for steps in a tree.
    if key.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(ConnectorError::config("key", "an object with '.' or '..' between slashes cannot be asked for over HTTP"));
    }
    Ok(())
}

/// Where an object is asked for: below the name of its bucket, or, of other servers than Amazon's and of names that cannot be
/// part of that of a host, below a path.
pub fn address(service: &Url, region: &str, bucket: &str, key: &str) -> Result<Url, ConnectorError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let base = if is_amazons(service, region) && bucket.chars().all(legal) {
        format!("https://{bucket}.{}", host_of(region))
    } else {
        format!("{}/{bucket}", service.as_str().trim_end_matches('/'))
    };
    let mut path = String::with_capacity(key.len() + 8);
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/') {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    http::url("key", &format!("{base}/{path}"))
}

fn host_of(region: &str) -> String {
    format!("{SERVICE}.{region}.{}", domain_of(region))
}

/// Where S3 is in a region.
pub fn url_of(region: &str) -> Result<Url, ConnectorError> {
    http::url("region", &format!("https://{}/", host_of(region)))
}

/// The other region that the bucket is in, if that is what an answer says.
pub fn elsewhere(answer: &Response, settled: &Settled) -> Option<String> {
    let status = answer.status();
    let region = text(answer.headers(), REGION_OF_BUCKET)
        .filter(|region| *region != settled.region && region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
    let moved = status.is_redirection() || matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN);
    region.filter(|_| moved && is_amazons(&settled.url, &settled.region))
}

fn is_amazons(service: &Url, region: &str) -> bool {
    service.host_str() == Some(&host_of(region))
}

/// The end that is read.
pub struct ObjectStream {
    place: String,
    runtime: Handle,
    pieces: Receiver<Vec<u8>>,
    /// What of a piece did not fit, from `start` on.
    rest: Vec<u8>,
    start: usize,
    task: JoinHandle<Result<(), ConnectorError>>,
    ended: bool,
}

impl ObjectStream {
    pub fn start(runtime: &Handle, wanted: Wanted) -> ObjectStream {
        let (sender, pieces) = channel(PIECES_WAITING_MAX);
        let place = wanted.place.clone();
        let task = runtime.spawn(Fetcher { wanted, total: None, pieces: sender }.run());
        ObjectStream { place, runtime: runtime.clone(), pieces, rest: Vec::new(), start: 0, task, ended: false }
    }

    fn end(&mut self) -> Result<Chunk, ConnectorError> {
        if !std::mem::replace(&mut self.ended, true) {
            let ended = self.runtime.block_on(&mut self.task);
            ended.map_err(|error| ConnectorError::World {
                place: self.place.clone(),
                problem: format!("the task that reads has ended: {error}"),
                fault: Fault::World,
                retryable: false,
                source: None,
            })??;
        }
        Ok(Chunk::End)
    }
}

impl ByteStream for ObjectStream {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        if self.start == self.rest.len() {
            let piece = match self.pieces.try_recv() {
                Ok(piece) => Some(piece),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    let (runtime, pieces) = (&self.runtime, &mut self.pieces);
                    match runtime.block_on(async { tokio::time::timeout(wait, pieces.recv()).await }) {
                        Ok(piece) => piece,
                        Err(_) => return Ok(Chunk::Nothing),
                    }
                }
            };
            let Some(piece) = piece else { return self.end() };
            (self.rest, self.start) = (piece, 0);
        }
        let count = buffer.len().min(self.rest.len() - self.start);
        buffer[..count].copy_from_slice(&self.rest[self.start..self.start + count]);
        self.start += count;
        Ok(Chunk::Bytes(count))
    }
}

impl Drop for ObjectStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Fetcher {
    wanted: Wanted,
    /// Bytes of the object, once S3 has told.
    total: Option<u64>,
    pieces: Sender<Vec<u8>>,
}

/// What an answer means.
enum Answered {
    /// From this byte on.
    Bytes(Response, u64),
    End,
    /// The bucket is elsewhere.
    Elsewhere(String),
    /// The keys are not those that are wanted, and there are others by now.
    OtherKeys(String),
    Again(String),
    Fatal(ConnectorError),
}

impl Fetcher {
    async fn run(mut self) -> Result<(), ConnectorError> {
        let client = http::download_client()?;
        let mut settled = self.wanted.access.settle(SERVICE, None).await?;
        let (mut pauses, mut moved, mut other_keys) = (Pauses::new(), false, false);
        loop {
            match self.ask(&client, &settled).await? {
                Answered::Bytes(answer, from) => {
                    self.wanted.trouble.clear();
                    other_keys = false;
                    let before = self.wanted.at;
                    match self.take(answer, from).await {
                        Ok(()) => return Ok(()),
                        Err(reason) => self.wanted.trouble.note(&reason),
                    }
                    if self.wanted.at > before {
                        pauses.reset();
                    }
                }
                Answered::End => return Ok(()),
                Answered::Elsewhere(region) if !moved => {
                    moved = true;
                    settled.url = url_of(&region)?;
                    self.wanted.access.hosts.check(&settled.url)?;
                    settled.region = region;
                    continue;
                }
                Answered::Elsewhere(region) => {
                    let problem = format!("S3 says that the bucket is in {region}, and there that it is not; give its region");
                    return Err(self.fatal(problem));
                }
                Answered::OtherKeys(_) if !other_keys => {
                    other_keys = true;
                    continue;
                }
                // New ones every time would be tried for ever.
                Answered::OtherKeys(reason) => return Err(self.fatal(reason)),
                Answered::Again(reason) => self.wanted.trouble.note(&reason),
                Answered::Fatal(error) => return Err(error),
            }
            pauses.wait(Duration::ZERO).await;
        }
    }

    async fn ask(&mut self, client: &Client, settled: &Settled) -> Result<Answered, ConnectorError> {
        let url = address(&settled.url, &settled.region, &self.wanted.bucket, &self.wanted.key)?;
        self.wanted.access.hosts.check(&url)?;
        let mut headers = Vec::new();
        if self.wanted.at > 0 {
            headers.push(("range", format!("bytes={}-", self.wanted.at)));
        }
        if let Some(version) = self.wanted.version.get().filter(|version| !version.is_empty()) {
            headers.push(("if-match", version.clone()));
        }
        let credentials = match settled.keys.get().await {
            Ok(credentials) => credentials,
            Err(error) => return Ok(Answered::Again(error.to_string())),
        };
        let signer =
            Signer { credentials: credentials.clone(), region: &settled.region, service: SERVICE, time: SystemTime::now() };
        let signed = signer.sign("GET", &url, &headers, &[]).map_err(|problem| self.fatal(problem))?;
        let mut request = client.get(url);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        for (name, value) in &signed {
            request = request.header(name, value);
        }
        match request.send().await {
            Ok(answer) => Ok(self.look_at(answer, settled, &credentials).await),
            Err(error) => Ok(Answered::Again(http::chain(&error.without_url()))),
        }
    }

    async fn look_at(&mut self, answer: Response, settled: &Settled, credentials: &Credentials) -> Answered {
        let status = answer.status();
        let header = |name: &str| text(answer.headers(), name);
        match status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {
                let version = header(ETAG.as_str()).filter(|version| version.len() <= VERSION_BYTES_MAX).unwrap_or_default();
                if self.wanted.version.get_or_init(|| version.clone()) != &version {
                    return Answered::Fatal(self.changed());
                }
                if status == StatusCode::OK {
                    self.total = header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
                    return Answered::Bytes(answer, 0);
                }
                match header(CONTENT_RANGE.as_str()).as_deref().and_then(range) {
                    Some((from, total)) if from <= self.wanted.at => {
                        self.total = total;
                        Answered::Bytes(answer, from)
                    }
                    _ => {
                        Answered::Fatal(self.fatal("the server answered with other bytes than those it was asked for".to_owned()))
                    }
                }
            }
            StatusCode::PRECONDITION_FAILED => Answered::Fatal(self.changed()),
            StatusCode::RANGE_NOT_SATISFIABLE if self.wanted.at > 0 => {
                let total = header(CONTENT_RANGE.as_str()).and_then(|told| told.rsplit_once('/')?.1.parse().ok());
                match total.or(self.total) {
                    Some(total) if total == self.wanted.at => Answered::End,
                    _ => Answered::Fatal(self.changed()),
                }
            }
            _ => {
                if let Some(region) = elsewhere(&answer, settled) {
                    return Answered::Elsewhere(region);
                }
                let (code, message) = said("", &beginning(answer).await);
                let reason = format!("the server answered {status}: {code}: {message}");
                if matches!(code.as_str(), "ExpiredToken" | "RequestExpired") {
                    settled.keys.forget().await;
                    return Answered::Again(reason);
                }
                if refuses_keys(&code) && settled.keys.are_others(credentials).await {
                    return Answered::OtherKeys(reason);
                }
                // A bucket that is new may be redirected for a while.
                let passing = http::may_pass(status) || passes(&code) || status == StatusCode::TEMPORARY_REDIRECT;
                if passing { Answered::Again(reason) } else { Answered::Fatal(self.fatal(reason)) }
            }
        }
    }

    /// Hands on an answer that begins at a byte before the wanted one, or at it. An error is a reason to ask again.
    async fn take(&mut self, mut answer: Response, from: u64) -> Result<(), String> {
        let mut at = from;
        while let Some(piece) = answer.chunk().await.map_err(|error| http::chain(&error.without_url()))? {
            let known = usize::try_from(self.wanted.at - at).unwrap_or(usize::MAX).min(piece.len());
            at += piece.len() as u64;
            if known == piece.len() {
                continue;
            }
            // Nobody reads any more: this is about to end, too.
            if self.pieces.send(piece[known..].to_vec()).await.is_err() {
                return Ok(());
            }
            self.wanted.at = at;
        }
        match self.total {
            Some(total) if self.wanted.at < total => Err(format!("the answer ended at byte {} of {total}", self.wanted.at)),
            _ => Ok(()),
        }
    }

    fn changed(&self) -> ConnectorError {
        let problem = "the object has been changed since the stream began to read it; put the old one back, or delete the stream \
                       and create it anew";
        ConnectorError::Position { place: self.wanted.place.clone(), problem: problem.to_owned() }
    }

    fn fatal(&self, problem: String) -> ConnectorError {
        http::refusal(&self.wanted.place, problem)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// `bytes 10-19/200`: where it begins, and of how many.
fn range(told: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = told.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

async fn beginning(mut answer: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= ERROR_BYTES_MAX {
            break;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_below_their_bucket_or_its_path() {
        let at = |service: &str, region: &str, bucket: &str, key: &str| {
            address(&Url::parse(service).unwrap(), region, bucket, key).unwrap().to_string()
        };
        let amazon = "https://s3.eu-west-1.amazonaws.com/";
        assert_eq!(
            at(amazon, "eu-west-1", "lake", "a/b c+é.json"),
            "https://lake.s3.eu-west-1.amazonaws.com/a/b%20c%2B%C3%A9.json"
        );
        assert_eq!(at(amazon, "eu-west-1", "my.lake", "//x"), "https://s3.eu-west-1.amazonaws.com/my.lake///x");
        assert_eq!(at("http://127.0.0.1:9/s/", "us-east-1", "lake", "k?#%"), "http://127.0.0.1:9/s/lake/k%3F%23%25");
        let china = "https://s3.cn-north-1.amazonaws.com.cn/";
        assert_eq!(at(china, "cn-north-1", "lake", "k"), "https://lake.s3.cn-north-1.amazonaws.com.cn/k");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(check_name("lake", "a/b").is_ok());
        for (bucket, key) in [("", "k"), ("a/b", "k"), ("arn:aws:s3:::x", "k"), ("lake", ""), ("lake", "a/../b"), ("lake", ".")] {
            assert!(check_name(bucket, key).is_err(), "{bucket} {key}");
        }
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(range("bytes 10-19/200"), Some((10, Some(200))));
        assert_eq!(range("bytes 10-19/*"), Some((10, None)));
        assert_eq!(range("lines 1-2/3"), None);
    }
}
