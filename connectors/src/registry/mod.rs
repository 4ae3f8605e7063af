//! A registry of schemas that speaks as Confluent's does: records carry the number of the schema they were written by.
//!
//!     0, number of a schema (4 bytes), [of Protobuf: which message], datum        the format of a record
//!
//! This is the only place that knows how registries are asked. What is done with schemas: `source` reads records by them, as many
//! as are seen and no more than a bound; outputs (`output_format`) take theirs once.

mod source;

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::config::Secret;
use crate::error::{ConnectorError, Fault};
use crate::host_policy::HostPolicy;
use crate::{http, secret};

pub use source::{Kind, Registered};

/// What registries say their answers are.
const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// A longer answer is none.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Schemas that one refers to, and those they refer to.
const REFERENCES_MAX: usize = 200;

/// For one question.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// What registries call it when a subject, a version or a schema is not there. Another 404 is that of something else which
/// answers there.
const ABSENT: RangeInclusive<u64> = 40_401..=40_403;

/// The first byte of a record.
pub const MAGIC: u8 = 0;

/// A schema registry with the interface of Confluent's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SchemaRegistry {
    /// The `http` or `https` URL of the registry, without `/subjects` and `/schemas`.
    #[serde(serialize_with = "secret::address")]
    pub url: String,
    /// The user for basic authentication, with `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of `username`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A bearer token, instead of a user and a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

impl SchemaRegistry {
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let url = http::url("url", &self.url)?;
        if url.password().is_some() || !url.username().is_empty() {
            return Err(ConnectorError::config(
                "url",
                "a name and password belong into `username` and `password`, where they are kept secret",
            ));
        }
        // A query goes along with each question.
        if url.fragment().is_some() {
            return Err(ConnectorError::config("url", "what stands behind a # is not read"));
        }
        if self.token.is_some() && (self.username.is_some() || self.password.is_some()) {
            return Err(ConnectorError::config("token", "goes in the place of `username` and `password`; give one of the two"));
        }
        if self.password.is_some() && self.username.is_none() {
            return Err(ConnectorError::config("username", "is missing: a password alone is not enough"));
        }
        hosts.check(&url)
    }
}

/// A schema as a registry has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    pub id: u32,
    /// `AVRO`, `PROTOBUF` or `JSON`.
    pub kind: String,
    pub text: String,
    /// What it refers to, and what that does, by the names they have there. Of one name there is one: that of the first who
    /// refers to it.
    pub references: Vec<(String, String)>,
}

/// What a question came to.
#[derive(Debug)]
pub enum Failed {
    /// The registry has no such thing.
    Absent(String),
    /// Asking again may help. What it says comes behind where the registry is.
    Passing(String),
}

/// Asks a registry.
#[derive(Clone)]
pub struct Registry {
    client: Client,
    definition: SchemaRegistry,
    url: Url,
    /// As it is shown.
    pub place: String,
}

impl Registry {
    pub fn open(definition: &SchemaRegistry, hosts: &HostPolicy) -> Result<Registry, ConnectorError> {
        definition.check(hosts).map_err(|error| error.within("format.schemaRegistry"))?;
        let url = http::url("url", &definition.url)?;
        let place = format!("the schema registry at {}", http::shown(&url).trim_end_matches('/'));
        Ok(Registry { client: http::fetching_client(hosts)?, definition: definition.clone(), url, place })
    }

    /// What a question about a subject came to, as the error of a definition.
    pub fn told(&self, failed: Failed, subject: &str) -> ConnectorError {
        match failed {
            Failed::Absent(problem) => http::refusal(subject, problem),
            Failed::Passing(problem) => ConnectorError::passing(&self.place, problem),
        }
    }

    /// The schema with this number.
    pub async fn schema(&self, id: u32) -> Result<Registration, Failed> {
        let answer = self.ask(self.client.get(self.at(&["schemas", "ids", &id.to_string()])), &format!("schema {id}")).await?;
        self.registration(Some(id), answer).await
    }

    /// The newest of a subject.
    pub async fn latest(&self, subject: &str) -> Result<Registration, Failed> {
        let answer = self.version(subject, "latest").await?;
        self.registration(None, answer).await
    }

    /// Registers a schema, if it is not there yet, and says its number.
    pub async fn register(&self, subject: &str, kind: &str, text: &str) -> Result<u32, Failed> {
        let body = json!({"schema": text, "schemaType": kind}).to_string();
        let request = self.client.post(self.at(&["subjects", subject, "versions"])).header(CONTENT_TYPE, MEDIA_TYPE).body(body);
        let answer = self.ask(request, &format!("subject {subject}")).await?;
        number(&answer, "id").ok_or_else(|| odd("the number of the schema"))
    }

    async fn version(&self, subject: &str, version: &str) -> Result<Json, Failed> {
        let request = self.client.get(self.at(&["subjects", subject, "versions", version]));
        self.ask(request, &format!("version {version} of subject {subject}")).await
    }

    /// With all that it refers to.
    async fn registration(&self, id: Option<u32>, answer: Json) -> Result<Registration, Failed> {
        let id = id.or_else(|| number(&answer, "id")).ok_or_else(|| odd("the number of the schema"))?;
        let kind = answer["schemaType"].as_str().unwrap_or("AVRO").to_owned();
        let text = text_of(&answer)?;
        let mut found = Vec::new();
        let (mut names, mut seen) = (BTreeSet::new(), BTreeSet::new());
        // Its own come before those of others.
        let mut open = VecDeque::from(references(&answer));
        let mut count = 0;
        while let Some((name, subject, version)) = open.pop_front() {
            // A schema that has two names declares what it does once.
            if !names.insert(name.clone()) || !seen.insert((subject.clone(), version.clone())) {
                continue;
            }
            count += 1;
            if count > REFERENCES_MAX {
                return Err(Failed::Absent(format!("schema {id} refers to more than {REFERENCES_MAX} others")));
            }
            let answer = self.version(&subject, &version).await?;
            open.extend(references(&answer));
            found.push((name, text_of(&answer)?));
        }
        Ok(Registration { id, kind, text, references: found })
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        // An error says that such an address has no path; it begins with http.
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    async fn ask(&self, request: RequestBuilder, what: &str) -> Result<Json, Failed> {
        let SchemaRegistry { username, password, token, .. } = &self.definition;
        let place = &self.place;
        let kept = |secret: &Secret| {
            let value = secret.get().map(|value| value.into_owned());
            value.map_err(|problem| Failed::Passing(format!("it cannot be asked: {problem}")))
        };
        let request = match (username, token) {
            (Some(username), _) => request.basic_auth(username, password.as_ref().map(kept).transpose()?),
            (None, Some(token)) => request.bearer_auth(kept(token)?),
            (None, None) => request,
        };
        let failed =
            |error: reqwest::Error| Failed::Passing(format!("it cannot be asked: {}", http::chain(&error.without_url())));
        let answered = request.header(ACCEPT, MEDIA_TYPE).timeout(ANSWER_TIME_MAX).send().await.map_err(failed)?;
        let status = answered.status();
        let body = http::whole(answered, ANSWER_BYTES_MAX).await;
        let body = body.map_err(|problem| Failed::Passing(format!("it does not answer in full: {problem}")))?;
        let answer: Json = serde_json::from_slice(&body).unwrap_or_default();
        let said = answer["message"].as_str().map(|said| format!(": {said}")).unwrap_or_default();
        match status {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND if answer["error_code"].as_u64().is_some_and(|code| ABSENT.contains(&code)) => {
                Err(Failed::Absent(format!("{what} is not in {place}{said}")))
            }
            StatusCode::NOT_FOUND => {
                let problem = format!("it answered {status} about {what}{said}; is this the URL of a registry?");
                Err(Failed::Passing(problem))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Failed::Passing(format!(
                "it answered {status}{said}; check `username` and `password`, or `token`, and what they may read"
            ))),
            StatusCode::CONFLICT => Err(Failed::Absent(format!(
                "{place} refuses the schema of {what}, which is not compatible with those before it{said}"
            ))),
            status if http::may_pass(status) => Err(Failed::Passing(format!("it answered {status}{said}"))),
            status => Err(Failed::Absent(format!("{place} answered {status} about {what}{said}"))),
        }
    }
}

/// Asks on a thread of its own, for who has no runtime.
pub fn blocking<T: Send>(ask: impl Future<Output = T> + Send) -> Result<T, ConnectorError> {
    let failed = |error| ConnectorError::io("the schema registry", "the network cannot be used", error);
    std::thread::scope(|scope| {
        let run = || Ok(tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?.block_on(ask));
        let asking = std::thread::Builder::new().name("ask registry".to_owned()).spawn_scoped(scope, run).map_err(failed)?;
        asking.join().unwrap_or_else(|_| {
            Err(ConnectorError::World {
                place: "the schema registry".to_owned(),
                problem: "the thread that asks it has ended through a bug in weir".to_owned(),
                fault: Fault::World,
                retryable: false,
                source: None,
            })
        })
    })
}

fn odd(missing: &str) -> Failed {
    Failed::Passing(format!("the answer has not {missing}; is this the URL of a registry?"))
}

fn text_of(answer: &Json) -> Result<String, Failed> {
    answer["schema"].as_str().map(str::to_owned).ok_or_else(|| odd("a schema"))
}

fn number(answer: &Json, name: &str) -> Option<u32> {
    answer[name].as_u64().and_then(|number| u32::try_from(number).ok())
}

/// Name, subject and version of each.
fn references(answer: &Json) -> Vec<(String, String, String)> {
    let text = |reference: &Json, name: &str| match &reference[name] {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let of = |reference: &Json| Some((text(reference, "name")?, text(reference, "subject")?, text(reference, "version")?));
    answer["references"].as_array().into_iter().flatten().filter_map(of).collect()
}
