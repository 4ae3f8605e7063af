//! Who weir is for Amazon, and where: what a definition says, and where it says nothing the chain that every program of
//! Amazon's looks through (environment, profile, web identity, container, machine).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError as CallError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use reqwest::{Method, Url};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;

use crate::config::{self, Secret};
use crate::error::{ConnectorError, Fault};
use crate::{HostPolicy, http};

/// Credentials are fetched anew this long before they end.
const BEFORE_EXPIRY: Duration = Duration::from_secs(120);
/// Credentials of a definition that are kept elsewhere are looked up again after this.
const LOOKED_UP_AGAIN: Duration = Duration::from_secs(30);
/// Bytes of an answer of whoever gives out credentials, at most.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Services that tell where what is asked for really is, and where to ask first.
const USUAL_REGIONS: [(&str, &str); 1] = [("s3", "us-east-1")];

/// An AWS access key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsCredentials {
    /// The id of the access key.
    pub access_key_id: Secret,
    /// The secret that belongs to the access key.
    pub secret_access_key: Secret,
    /// The session token of a temporary access key. Not needed for permanent keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Secret>,
}

/// A region of Amazon's: `{"region": "eu-west-1"}`, or the name alone.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AwsRegion {
    pub region: String,
}

impl<'de> Deserialize<'de> for AwsRegion {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<AwsRegion, D::Error> {
        let given = Json::deserialize(input)?;
        let region = given.as_str().or_else(|| given.get("region").and_then(Json::as_str));
        let legal = |region: &&str| {
            !region.is_empty() && region.len() <= 64 && region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let problem = || format!("Got value '{given}' with wrong type, expecting the name of a region");
        let region = region.filter(legal).ok_or_else(|| config::nested(ConnectorError::config("region", problem())))?;
        Ok(AwsRegion { region: region.to_owned() })
    }
}

impl JsonSchema for AwsRegion {
    fn schema_name() -> Cow<'static, str> {
        "AwsRegion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "The name of the region, such as `eu-west-1`.";
        let name = json!({"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$", "description": about});
        json_schema!({
            "description": "An AWS region: its name, or an object with the name in `region`.",
            "anyOf": [{"type": "object", "properties": {"region": name}, "required": ["region"]}, name],
        })
    }
}

/// The options that every definition has.
#[derive(Clone, Debug)]
pub struct Access {
    pub credentials: Option<AwsCredentials>,
    pub region: Option<AwsRegion>,
    pub endpoint: Option<String>,
    /// Which servers may be asked.
    pub hosts: HostPolicy,
}

/// What is settled of an `Access`: where to ask, and with which keys.
#[derive(Clone, Debug)]
pub struct Settled {
    pub region: String,
    pub url: Url,
    pub keys: Keys,
}

impl Access {
    /// The options of a definition.
    pub fn of(
        credentials: &Option<AwsCredentials>,
        region: &Option<AwsRegion>,
        endpoint: &Option<String>,
        hosts: &HostPolicy,
    ) -> Access {
        Access { credentials: credentials.clone(), region: region.clone(), endpoint: endpoint.clone(), hosts: hosts.clone() }
    }

    /// What can be found wrong without asking anybody.
    pub fn check(&self) -> Result<(), ConnectorError> {
        match &self.endpoint {
            Some(endpoint) => self.hosts.check(&http::url("endpoint", endpoint)?),
            None => Ok(()),
        }
    }

    /// Whether there is a region, for who has no runtime. Without one nothing can be signed, and asking again does not help.
    pub fn try_region(self, service: &'static str, address: Option<Url>) -> Result<(), ConnectorError> {
        if self.said_region(address.as_ref()).is_some() {
            return Ok(());
        }
        let failed = |error| ConnectorError::io("AWS", "the region cannot be looked for", error);
        let look = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
            // Connections live with the runtime: those that others share would end with this one.
            runtime.block_on(self.region(http::download_client()?, service, address.as_ref())).map(drop)
        };
        let looking = std::thread::Builder::new().name("AWS region".to_owned()).spawn(look).map_err(failed)?;
        looking.join().unwrap_or_else(|_| {
            Err(http::refusal("AWS", "the thread that looks for the region has ended through a bug in weir".to_owned()))
        })
    }

    /// What the definition says, or the address in it.
    fn said_region(&self, address: Option<&Url>) -> Option<String> {
        let of_address = || region_of(address?.host_str()?).map(str::to_owned);
        self.region.as_ref().map(|region| region.region.clone()).or_else(of_address)
    }

    /// The region, for which the machine it runs on may be asked, and what that tells besides.
    async fn region(
        &self,
        client: http::Client,
        service: &str,
        address: Option<&Url>,
    ) -> Result<(String, SdkConfig), ConnectorError> {
        let config = of_this_machine(client, self.said_region(address)).await;
        let found = config.region().map(|region| region.as_ref().to_owned()).filter(|region| !region.is_empty());
        let usual = || USUAL_REGIONS.iter().find(|(of, _)| *of == service).map(|(_, region)| (*region).to_owned());
        let region = found.or_else(usual).ok_or_else(|| {
            ConnectorError::config("region", "is not given, and neither AWS_REGION, nor the profile, nor the machine tells one")
        })?;
        Ok((region, config))
    }

    /// Finds credentials, region and endpoint of a service. `address` is where the definition says the service is.
    pub async fn settle(&self, service: &str, address: Option<&Url>) -> Result<Settled, ConnectorError> {
        let (region, config) = self.region(http::client()?, service, address).await?;
        let url = match (&self.endpoint, address) {
            (Some(endpoint), _) => http::url("endpoint", endpoint)?,
            (None, Some(address)) => address.clone(),
            (None, None) => endpoint_of(&config, service, &region)?,
        };
        self.hosts.check(&url)?;
        let keys = match &self.credentials {
            Some(given) => Keys::given(given),
            None => Keys::found(&config, &region)?,
        };
        Ok(Settled { region, url, keys })
    }
}

fn endpoint_of(config: &SdkConfig, service: &str, region: &str) -> Result<Url, ConnectorError> {
    let own = std::env::var(format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase())).ok();
    if let Some(given) = own.or_else(|| config.endpoint_url().map(str::to_owned)) {
        return http::url("endpoint", &given);
    }
    http::url("region", &format!("https://{service}.{region}.{}/", domain_of(region)))
}

/// What names of Amazon's servers in a region end with.
pub fn domain_of(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// `sqs.eu-west-1.amazonaws.com` is in eu-west-1. Queues also have older addresses: `eu-west-1.queue.amazonaws.com`, and one
/// without a region.
fn region_of(host: &str) -> Option<&str> {
    let parts: Vec<&str> = host.split('.').collect();
    match parts[..] {
        ["queue", "amazonaws", ..] => Some("us-east-1"),
        [region, "queue", "amazonaws", ..] | [_, region, "amazonaws", ..] => Some(region),
        _ => None,
    }
}

/// What this machine tells of Amazon: environment, profile and so on.
async fn of_this_machine(client: http::Client, region: Option<String>) -> SdkConfig {
    let loader = aws_config::defaults(BehaviorVersion::latest()).http_client(Through(client));
    match region {
        Some(region) => loader.region(Region::new(region)).load().await,
        None => loader.load().await,
    }
}

/// Credentials, fetched when they are needed and kept until they are about to end.
#[derive(Clone, Debug)]
pub struct Keys(Arc<Mutex<KeysState>>);

#[derive(Debug)]
struct KeysState {
    from: SharedCredentialsProvider,
    /// Found on this machine, in this region.
    found: Option<String>,
    kept: Option<Credentials>,
}

impl Keys {
    fn new(from: SharedCredentialsProvider, found: Option<String>) -> Keys {
        Keys(Arc::new(Mutex::new(KeysState { from, found, kept: None })))
    }

    fn given(given: &AwsCredentials) -> Keys {
        Keys::new(SharedCredentialsProvider::new(Defined(given.clone())), None)
    }

    fn found(config: &SdkConfig, region: &str) -> Result<Keys, ConnectorError> {
        let none = || ConnectorError::config("credentials", "are not given, and none are found on this machine");
        Ok(Keys::new(config.credentials_provider().ok_or_else(none)?, Some(region.to_owned())))
    }

    pub async fn get(&self) -> Result<Credentials, ConnectorError> {
        let mut state = self.0.lock().await;
        let lasts = |credentials: &&Credentials| credentials.expiry().is_none_or(|end| end > SystemTime::now() + BEFORE_EXPIRY);
        if let Some(credentials) = state.kept.as_ref().filter(lasts) {
            return Ok(credentials.clone());
        }
        match state.from.provide_credentials().await {
            Ok(found) => {
                state.kept = Some(found.clone());
                Ok(found)
            }
            Err(error) => {
                state.look_anew().await?;
                Err(ConnectorError::World {
                    place: "AWS credentials".to_owned(),
                    problem: http::chain(&error),
                    fault: Fault::User,
                    retryable: true,
                    source: None,
                })
            }
        }
    }

    /// The service did not take them: the next ones are fetched.
    pub async fn forget(&self) {
        let mut state = self.0.lock().await;
        state.kept = None;
        // Without another chain the old one is asked, and says what is wrong.
        let _ = state.look_anew().await;
    }

    /// Whether other ones are kept by now than these, which the service did not take. Those of which nobody knows may be others.
    pub async fn are_others(&self, refused: &Credentials) -> bool {
        self.forget().await;
        !self.get().await.is_ok_and(|now| parts(&now) == parts(refused))
    }
}

/// Without the time at which they end, which is another one whenever they are looked up.
fn parts(credentials: &Credentials) -> (&str, &str, Option<&str>) {
    (credentials.access_key_id(), credentials.secret_access_key(), credentials.session_token())
}

impl KeysState {
    /// A chain does not look at its files again, and tells once why it has failed: there is another one for the next time.
    async fn look_anew(&mut self) -> Result<(), ConnectorError> {
        if let Some(region) = self.found.clone()
            && let Some(anew) = of_this_machine(http::client()?, Some(region)).await.credentials_provider()
        {
            self.from = anew;
        }
        Ok(())
    }
}

/// The credentials of a definition. What is kept elsewhere is looked up again after a while, and when the service does not take
/// it.
#[derive(Debug)]
struct Defined(AwsCredentials);

impl ProvideCredentials for Defined {
    fn provide_credentials<'a>(&'a self) -> ProvidedCredentials<'a>
    where
        Self: 'a,
    {
        let AwsCredentials { access_key_id, secret_access_key, session_token } = &self.0;
        let all = [Some(access_key_id), Some(secret_access_key), session_token.as_ref()];
        let elsewhere = all.into_iter().flatten().any(|secret| secret.known().is_none());
        let expiry = elsewhere.then(|| SystemTime::now() + BEFORE_EXPIRY + LOOKED_UP_AGAIN);
        let made = || {
            let token = session_token.as_ref().map(|token| token.get().map(String::from)).transpose()?;
            Ok(Credentials::new(access_key_id.get()?, secret_access_key.get()?, token, expiry, "definition"))
        };
        ProvidedCredentials::ready(made().map_err(|problem: String| CredentialsError::not_loaded(problem)))
    }
}

/// Lets the chain ask over weir's own HTTP client: one TLS, one set of trusted authorities.
#[derive(Clone, Debug)]
struct Through(reqwest::Client);

impl HttpClient for Through {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Through {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let method = Method::from_bytes(request.method().as_bytes()).map_err(|error| CallError::user(error.into()))?;
            let mut asked = client.request(method, request.uri());
            for (name, value) in request.headers() {
                asked = asked.header(name, value);
            }
            if let Some(body) = request.body().bytes() {
                asked = asked.body(body.to_vec());
            }
            let failed = |error: reqwest::Error| match error.is_timeout() {
                true => CallError::timeout(error.into()),
                false => CallError::io(error.into()),
            };
            let answer = asked.send().await.map_err(failed)?;
            let status = answer.status().as_u16().try_into().map_err(|error| CallError::other(Box::new(error), None))?;
            let headers = answer.headers().clone();
            let unread = |problem: String| CallError::io(problem.into());
            let body = http::whole(answer, ANSWER_BYTES_MAX).await.map_err(unread)?;
            let mut given = HttpResponse::new(status, SdkBody::from(body));
            for (name, value) in &headers {
                if let Ok(value) = value.to_str() {
                    given.headers_mut().append(name.as_str().to_owned(), value.to_owned());
                }
            }
            Ok(given)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_in_both_notations_and_secrets_are_not_shown() {
        let read = |given: Json| serde_json::from_value::<AwsRegion>(given);
        assert_eq!(read(json!("eu-west-1")).unwrap(), read(json!({"region": "eu-west-1"})).unwrap());
        for wrong in [json!(5), json!(""), json!({"name": "x"}), json!("a/b")] {
            assert!(read(wrong).is_err());
        }
        assert_eq!(region_of("sqs.eu-west-1.amazonaws.com"), Some("eu-west-1"));
        assert_eq!(region_of("us-west-2.queue.amazonaws.com"), Some("us-west-2"));
        assert_eq!(region_of("cn-north-1.queue.amazonaws.com.cn"), Some("cn-north-1"));
        assert_eq!(region_of("queue.amazonaws.com"), Some("us-east-1"));
        assert_eq!(region_of("127.0.0.1"), None);
        let given = json!({"accessKeyId": "hush", "secretAccessKey": "hush", "sessionToken": "hush"});
        let credentials: AwsCredentials = serde_json::from_value(given.clone()).unwrap();
        assert!(!format!("{credentials:?}").contains("hush"));
        assert!(!serde_json::to_string(&credentials).unwrap().contains("hush"));
        assert_eq!(config::with_secrets(|| serde_json::to_value(&credentials)).unwrap(), given);
    }
}
