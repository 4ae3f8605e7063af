//! The definition of an output to objects of S3, and what writes it.
//!
//!     results ─ held ─ enough, or long enough ─> compressed ─> PUT prefix/2026-11-23T01-02-03Z-FIRST-UPTO-OUTPUT.jsonl
//!
//! What is held counts as written when its object is stored, and no sooner; after a kill it comes again. The name of an object
//! says which results are stored: all of this output before the mark `UPTO`. So an output that is opened again asks for the names
//! behind the last one it knows of, and leaves out what comes again of these: each result is in one object.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use weir_model::Position;

use super::access::{Access, AwsCredentials, AwsRegion};
use super::bucket::Bucket;
use super::object;
use crate::compression::Compression;
use crate::config;
use crate::delivery::{Outgoing, Retries, RetryPolicy, unheard, unless_stopped};
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::{moment, secret};

/// Between two tries to store what is due while nothing comes, where the output says nothing of it.
const AGAIN: RetryPolicy =
    RetryPolicy { tries_max: None, backoff_min: Duration::from_millis(200), backoff_max: Duration::from_secs(10) };

/// Writes results to S3 objects of JSON lines.
///
/// An object is stored when it has enough results or bytes, or its first result has waited long enough. Each result is in one
/// object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteToS3 {
    /// The name of the bucket.
    pub bucket: String,
    /// What the keys of all objects begin with, such as `results/`. Allowed are letters, digits and `- _ . = /`. Empty when not
    /// given.
    #[serde(default)]
    pub prefix: String,
    /// How objects are compressed. Not at all when not given.
    #[serde(default)]
    pub compression: Compression,
    /// An object is stored when it has this many results. 100,000 when not given. Results of the same moment stay together, so it
    /// may have somewhat more.
    #[serde(default = "object_results_max", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub object_results_max: u32,
    /// An object is stored when it has this many bytes, before compression. 16777216 (16 MiB) when not given. They are held in
    /// memory.
    #[serde(default = "object_bytes_max", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub object_bytes_max: u32,
    /// An object is stored at the latest this long after its first result. One minute when not given.
    #[serde(default = "interval_seconds", deserialize_with = "config::positive")]
    #[schemars(range(min = 1))]
    pub interval_seconds: u32,
    /// The access key to use. When not given it is found as the AWS tools find it: in environment variables, a profile, a web
    /// identity, or the role of the container or machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<AwsCredentials>,
    /// The AWS region of the bucket. When not given it is found as the AWS tools find it, or asked of S3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<AwsRegion>,
    /// The URL of another server that speaks the same protocol, to be used instead of Amazon's.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub endpoint: Option<String>,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
    #[serde(default)]
    pub structure: Envelope,
}

/// What names end with, and what is said of the content.
fn kind(compression: Compression) -> (String, &'static str) {
    let content = match compression {
        Compression::None => "application/x-ndjson",
        Compression::Gzip => "application/gzip",
        Compression::Zstd => "application/zstd",
    };
    (format!(".jsonl{}", compression.ending()), content)
}

fn object_results_max() -> u32 {
    100_000
}

fn object_bytes_max() -> u32 {
    16 << 20
}

fn interval_seconds() -> u32 {
    60
}

impl WriteToS3 {
    fn access(&self, hosts: &HostPolicy) -> Access {
        Access::of(&self.credentials, &self.region, &self.endpoint, hosts)
    }
}

impl DestinationConfig for WriteToS3 {
    fn settings(&self) -> Json {
        crate::settings("WriteToS3", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn why_kept(&self) -> Option<&'static str> {
        Some("each result is in one object, and those that were given up would be in none")
    }

    fn check(&self) -> Result<(), ConnectorError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.=/".contains(c);
        if self.prefix.len() > 512 || !self.prefix.chars().all(legal) {
            return Err(ConnectorError::config("prefix", "takes up to 512 letters, digits, and - _ . = /"));
        }
        object::check_name(&self.bucket, &format!("{}x", self.prefix)).map_err(|error| match error {
            ConnectorError::Config { field, problem } if field == "key" => ConnectorError::config("prefix", problem),
            other => other,
        })?;
        self.access(&HostPolicy::default()).check()
    }

    fn open(&self, context: &DestinationContext, from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        self.check()?;
        let place = format!("s3://{}/{}", self.bucket, self.prefix);
        let access = self.access(&context.hosts);
        access.check()?;
        let from = from.filter(|position| !position.0.is_empty());
        let stored = from.map(|position| position.0.as_slice().try_into().map(u64::from_le_bytes)).transpose();
        let stored = stored.map_err(|_| ConnectorError::Position {
            place: place.clone(),
            problem: "the stored position is not one of S3; delete the output and create it anew".to_owned(),
        })?;
        let digest = Sha256::digest(context.identity.as_bytes());
        Ok(Box::new(Objects {
            bucket: Bucket::new(access, &self.bucket, &place),
            definition: self.clone(),
            runtime: context.runtime.clone(),
            output: digest[..4].iter().map(|byte| format!("{byte:02x}")).collect(),
            looked: stored.is_none(),
            known: 0,
            stored: stored.unwrap_or_default(),
            held: Held::default(),
            again: None,
            policy: AGAIN,
            stop: Arc::default(),
        }))
    }
}

struct Objects {
    bucket: Bucket,
    definition: WriteToS3,
    runtime: Handle,
    /// The part of the names of objects that is this output's.
    output: String,
    /// Whether it is known what is stored.
    looked: bool,
    /// What comes again before this mark was stored before the restart.
    known: u64,
    /// Everything before this mark is stored.
    stored: u64,
    held: Held,
    /// What could not be stored.
    again: Option<Again>,
    /// How that is tried again.
    policy: RetryPolicy,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
}

/// What could not be stored is tried again.
#[derive(Clone, Copy)]
struct Again {
    /// Not before this.
    at: Instant,
    /// How long `at` is waited for.
    pause: Duration,
    /// Tries so far.
    tries: u32,
}

/// What has no object yet.
#[derive(Default)]
struct Held {
    text: Vec<u8>,
    count: u64,
    /// The mark of the first.
    first: u64,
    /// Everything before this mark is held or stored.
    upto: u64,
    since: Option<Instant>,
    /// Somebody waits for it.
    now: bool,
}

/// The beginning of a name: what comes later sorts behind it.
fn begins(prefix: &str, mark: u64) -> String {
    format!("{prefix}{}-{mark:016x}-", moment::text(mark))
}

/// Up to which mark an object of this output holds what came before.
fn upto(name: &str, output: &str, end: &str) -> Option<u64> {
    let (before, of) = name.strip_suffix(end)?.rsplit_once('-')?;
    let digits = before.rsplit_once('-')?.1;
    (of == output && digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl Objects {
    /// Finds out what was stored before the restart and is not known of.
    fn look(&mut self) -> Result<(), ConnectorError> {
        if self.looked {
            return Ok(());
        }
        let (prefix, output) = (&self.definition.prefix, &self.output);
        let after = if self.stored == 0 { String::new() } else { begins(prefix, self.stored) };
        let ends = Compression::ALL.map(|compression| kind(compression).0);
        let mut stored = self.stored;
        let see = |name: &str| {
            let mark = ends.iter().find_map(|end| upto(name, output, end));
            stored = stored.max(mark.unwrap_or_default());
            // Behind the prefix those of outputs have a year. What others put there, and sorts behind that, is none of them.
            let next = name.strip_prefix(prefix.as_str()).and_then(|rest| rest.bytes().next());
            next.is_none_or(|byte| byte <= b'9')
        };
        let asked = unless_stopped(&self.stop, self.bucket.names(prefix, &after, see));
        self.runtime.clone().block_on(asked).unwrap_or_else(|| Err(unheard(prefix)))?;
        (self.stored, self.known, self.looked) = (stored, stored, true);
        Ok(())
    }

    fn is_due(&self) -> bool {
        let Held { text, count, since, now, .. } = &self.held;
        let WriteToS3 { object_results_max, object_bytes_max, interval_seconds, .. } = self.definition;
        *now || *count >= object_results_max.into()
            || text.len() >= object_bytes_max as usize
            || since.is_some_and(|since| since.elapsed() >= Duration::from_secs(interval_seconds.into()))
    }

    fn store(&mut self) -> Result<(), ConnectorError> {
        if self.held.count == 0 {
            return Ok(());
        }
        let compression = self.definition.compression;
        let (end, content) = kind(compression);
        let Held { first, upto, .. } = self.held;
        let name = format!("{}{upto:016x}-{}{end}", begins(&self.definition.prefix, first), self.output);
        let compressed = compression.pour(&mut self.held.text.as_slice(), Vec::new());
        let body = compressed.map_err(|error| ConnectorError::io(&name, "cannot compress results", error))?;
        let asked = unless_stopped(&self.stop, self.bucket.put(&name, content, &body));
        self.runtime.clone().block_on(asked).unwrap_or_else(|| Err(unheard(&name)))?;
        tracing::debug!("{} results are stored as {name}", self.held.count);
        self.stored = self.stored.max(upto);
        self.held = Held::default();
        Ok(())
    }
}

impl Destination for Objects {
    fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError> {
        self.look()?;
        if self.is_due() {
            self.store()?;
        }
        for result in results.iter().filter(|result| result.mark >= self.known) {
            if self.held.count == 0 {
                (self.held.first, self.held.since) = (result.mark, Some(Instant::now()));
            }
            self.held.first = self.held.first.min(result.mark);
            self.held.count += 1;
            self.held.text.extend_from_slice(&result.body);
            self.held.text.push(b'\n');
        }
        self.held.upto = self.held.upto.max(upper);
        if upper > self.known {
            // All of that has come again; what is as old and comes now is asked for.
            self.known = 0;
        }
        Ok(Written::default())
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn tries_by_itself(&mut self, retries: Retries) {
        self.policy = retries.over(AGAIN);
    }

    fn store_now(&mut self) {
        self.held.now = self.held.count > 0;
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if !self.is_due() || self.again.is_some_and(|again| Instant::now() < again.at) {
            return Ok(());
        }
        let stored = self.store();
        self.again = stored.is_err().then(|| {
            let RetryPolicy { backoff_min, backoff_max, .. } = self.policy;
            let (pause, tries) = self.again.map_or((backoff_min, 0), |again| ((again.pause * 2).min(backoff_max), again.tries));
            Again { at: Instant::now() + pause, pause, tries: tries + 1 }
        });
        stored
    }

    fn tries(&self) -> u32 {
        self.again.map_or(0, |again| again.tries)
    }

    fn position(&self) -> Position {
        Position(self.stored.to_le_bytes().to_vec())
    }

    fn settled(&self, upper: u64) -> u64 {
        if self.held.count == 0 { upper } else { upper.min(self.held.first) }
    }

    fn held(&self) -> u64 {
        self.held.count
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        self.store()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weir_model::Tick;

    use super::*;
    use crate::aws::stand_in::StandIn;
    use crate::conformance;

    fn problem(more: Json) -> String {
        let mut given = json!({"bucket": "lake"});
        given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config::from_json::<WriteToS3>(&given).and_then(|read| read.check()).unwrap_err().to_string()
    }

    #[test]
    fn names_sort_by_time_and_say_what_is_stored() {
        let mark = Tick::at_millis(1_772_323_199_999).0;
        let early = begins("r/", mark);
        assert_eq!(early, format!("r/2026-02-28T23-59-59Z-{mark:016x}-"));
        assert!(early < begins("r/", mark + 1) && early < begins("r/", Tick::at_millis(1_772_323_200_000).0));
        let name = format!("{early}{:016x}-00c0ffee.jsonl.gz", mark + 9);
        assert_eq!(upto(&name, "00c0ffee", ".jsonl.gz"), Some(mark + 9));
        assert_eq!(upto(&name, "00c0ffee", ".jsonl"), None);
        assert_eq!(upto(&name, "deadbeef", ".jsonl.gz"), None);
        assert_eq!(upto("x-y-00c0ffee.jsonl", "00c0ffee", ".jsonl"), None);
    }

    /// All names behind the prefix were listed and kept, whoever's they are.
    #[test]
    fn what_is_stored_is_found_among_the_names_of_others() {
        let mark = Tick::at_millis(1_772_323_199_999).0;
        let digest = Sha256::digest(b"query-out");
        let own: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let name = |upto: u64, of: &str, end: &str| format!("{}{upto:016x}-{of}.jsonl{end}", begins("r/", mark));
        let page = |keys: [&str; 3], next: &str| {
            let keys: String = keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>")).collect();
            format!("<R><IsTruncated>true</IsTruncated>{keys}<NextContinuationToken>{next}</NextContinuationToken></R>")
        };
        let first = page(["r/2026&amp;", &name(mark + 5, &own, ".gz"), &name(mark + 99, "deadbeef", "")], "more");
        let second = page([&name(mark + 9, &own, ""), &name(mark + 7, &own, ".zst"), "r/a&amp;b"], "all of the others'");
        let server = StandIn::start(move |asked| match asked.query("continuation-token").as_deref() {
            None => (200, first.clone()),
            Some("more") => (200, second.clone()),
            Some(_) => (400, "<Error><Code>InvalidArgument</Code></Error>".to_owned()),
        });
        let given = json!({"bucket": "lake", "prefix": "r/", "endpoint": server.url, "region": "us-east-1",
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
        let given = config::from_json::<WriteToS3>(&given).unwrap();
        let (runtime, known) = (conformance::runtime(), Position(mark.to_le_bytes().to_vec()));
        let mut objects = given.open(&conformance::output(&runtime), Some(&known)).unwrap();
        objects.write(&[], mark).unwrap();
        assert_eq!(objects.position(), Position((mark + 9).to_le_bytes().to_vec()));
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].query("start-after"), Some(begins("r/", mark)));
    }

    /// It would be stored after 0.2 s again.
    #[test]
    fn what_could_not_be_stored_is_tried_again_as_the_output_says() {
        let server = StandIn::start(|_| (500, String::new()));
        let given = json!({"bucket": "lake", "objectResultsMax": 1, "endpoint": server.url, "region": "us-east-1",
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
        let (given, runtime) = (config::from_json::<WriteToS3>(&given).unwrap(), conformance::runtime());
        let mut objects = given.open(&conformance::output(&runtime), None).unwrap();
        objects.tries_by_itself(Retries { min_backoff_millis: Some(600_000), ..Retries::default() });
        objects.write(&conformance::bodies(&["1"]), 1).unwrap();
        assert!(objects.idle().is_err());
        std::thread::sleep(Duration::from_millis(500));
        assert!(objects.idle().is_ok(), "it is asked again");
        assert_eq!((objects.tries(), objects.held()), (1, 1));
    }

    #[test]
    fn what_somebody_waits_for_is_stored_at_once() {
        let server = StandIn::start(|_| (200, String::new()));
        let given = json!({"bucket": "lake", "endpoint": server.url, "region": "us-east-1",
            "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}});
        let (given, runtime) = (config::from_json::<WriteToS3>(&given).unwrap(), conformance::runtime());
        let mut objects = given.open(&conformance::output(&runtime), None).unwrap();
        objects.store_now();
        for mark in [7, 9] {
            // That somebody waited before is nothing to what comes later.
            objects.write(&[Outgoing { mark, ..Outgoing::default() }], mark + 1).unwrap();
            objects.idle().unwrap();
            assert_eq!((objects.held(), objects.settled(mark + 1)), (1, mark), "it is not due for a minute");
            objects.store_now();
            objects.idle().unwrap();
            assert_eq!((objects.held(), objects.settled(mark + 1)), (0, mark + 1));
        }
        assert_eq!(server.asked().len(), 2, "an object each");
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let text = b"{\"a\":1}\n".repeat(1000);
        let gzip = Compression::Gzip.pour(&mut text.as_slice(), Vec::new()).unwrap();
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(gzip.as_slice()), &mut read).unwrap();
        assert!(read == text && gzip.len() < text.len());
        assert_eq!(zstd::decode_all(Compression::Zstd.pour(&mut text.as_slice(), Vec::new()).unwrap().as_slice()).unwrap(), text);
        assert_eq!(Compression::None.pour(&mut text.as_slice(), Vec::new()).unwrap(), text);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert!(problem(json!({"bucket": "a/b"})).contains("option `bucket`"));
        for prefix in ["a b", "a&b", "a/../b/", "é", &"x".repeat(513)] {
            assert!(problem(json!({"prefix": prefix})).contains("option `prefix`"), "{prefix}");
        }
        assert!(problem(json!({"compression": "Rar"})).contains("valid values are: None, Gzip, Zstd"));
        assert!(problem(json!({"objectBytesMax": 0})).contains("objectBytesMax"));
        assert!(problem(json!({"endpoint": "ftp://x"})).contains("endpoint"));
    }
}
