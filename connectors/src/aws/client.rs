//! Signed requests to one service, and what their failures mean.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::{Response, Url};
use serde_json::Value as Json;
use tokio::sync::OnceCell;

use super::access::{Access, Keys};
use super::events::Events;
use crate::error::{ConnectorError, Fault};
use crate::http;

/// Twice what the longest answer holds: ten million bytes of records, in letters.
pub const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How a service is spoken to.
#[derive(Debug)]
pub struct Service {
    /// In signatures and in the names of its servers.
    pub name: &'static str,
    /// Before the name of an operation; empty where requests are forms.
    pub target: &'static str,
    /// The content type of requests.
    pub content_type: &'static str,
}

/// A client that is made by the first who asks for it.
pub struct Opening {
    pub service: &'static Service,
    pub access: Access,
    /// Where the definition says the service is.
    pub address: Option<Url>,
    pub client: OnceCell<Client>,
}

impl Opening {
    pub async fn get(&self) -> Result<&Client, ConnectorError> {
        self.client.get_or_try_init(|| Client::open(self.service, &self.access, self.address.as_ref())).await
    }
}

pub struct Client {
    service: &'static Service,
    http: reqwest::Client,
    url: Url,
    region: String,
    keys: Keys,
}

/// A request that did not do what it should.
#[derive(Clone, Debug)]
pub struct Failed {
    /// As the service names it; empty when it did not answer.
    pub code: String,
    pub reason: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl Client {
    /// Settles where and as whom, which may ask the machine it runs on. `address` is where the definition says the service is.
    pub async fn open(service: &'static Service, access: &Access, address: Option<&Url>) -> Result<Client, ConnectorError> {
        let settled = access.settle(service.name, address).await?;
        Ok(Client { service, http: http::client()?, url: settled.url, region: settled.region, keys: settled.keys })
    }

    /// This client for operations whose answers take as long as they take, as long as something comes.
    pub fn that_listens(self) -> Result<Client, ConnectorError> {
        Ok(Client { http: http::download_client()?, ..self })
    }

    /// Calls an operation of a service that speaks JSON.
    pub async fn call(&self, operation: &str, body: &Json) -> Result<Json, Failed> {
        let answer = self.whole(body.to_string().into_bytes(), Some(self.target(operation))).await?;
        if answer.is_empty() {
            return Ok(Json::Null);
        }
        serde_json::from_slice(&answer).map_err(|error| self.garbled(operation, &error.to_string()))
    }

    /// Calls one that answers with events.
    pub async fn listen(&self, operation: &str, body: &Json) -> Result<Events, Failed> {
        self.post(body.to_string().into_bytes(), Some(self.target(operation))).await.map(Events::new)
    }

    fn target(&self, operation: &str) -> String {
        format!("{}.{operation}", self.service.target)
    }

    /// Calls an operation of a service that takes forms and answers in XML.
    pub async fn form(&self, fields: &[(String, String)]) -> Result<String, Failed> {
        let mut url = Url::parse("http://form/").map_err(|error| self.garbled("form", &error.to_string()))?;
        url.query_pairs_mut().extend_pairs(fields);
        let body = url.query().unwrap_or_default().as_bytes().to_vec();
        Ok(String::from_utf8_lossy(&self.whole(body, None).await?).into_owned())
    }

    fn garbled(&self, operation: &str, problem: &str) -> Failed {
        let reason = format!("{}: the answer to {operation} cannot be read: {problem}", http::shown(&self.url));
        Failed { code: String::new(), reason, retryable: true }
    }

    async fn whole(&self, body: Vec<u8>, target: Option<String>) -> Result<Vec<u8>, Failed> {
        let answer = self.post(body, target).await?;
        http::whole(answer, ANSWER_BYTES_MAX).await.map_err(|problem| self.unread(&problem))
    }

    fn unread(&self, problem: &str) -> Failed {
        Failed { code: String::new(), reason: format!("{}: {problem}", http::shown(&self.url)), retryable: true }
    }

    /// An answer that says it is one of success.
    async fn post(&self, body: Vec<u8>, target: Option<String>) -> Result<Response, Failed> {
        let (target, credentials) = (target.as_deref(), self.credentials().await?);
        let failed = match self.post_as(credentials.clone(), &body, target).await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        // Keys that are kept elsewhere may have been changed there. Once, since what is wrong for good has to be told.
        if refuses_keys(&failed.code) && self.keys.are_others(&credentials).await {
            return self.post_as(self.credentials().await?, &body, target).await;
        }
        Err(failed)
    }

    async fn credentials(&self) -> Result<Credentials, Failed> {
        self.keys.get().await.map_err(|error| Failed { code: String::new(), reason: error.to_string(), retryable: true })
    }

    async fn post_as(&self, credentials: Credentials, body: &[u8], target: Option<&str>) -> Result<Response, Failed> {
        let mut headers = vec![("content-type", self.service.content_type)];
        if let Some(target) = target {
            headers.push(("x-amz-target", target));
        }
        let unsigned = |problem: String| Failed { code: String::new(), reason: problem, retryable: false };
        let identity = credentials.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service.name)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| unsigned(http::chain(&error)))?
            .into();
        let signable = SignableRequest::new("POST", self.url.as_str(), headers.iter().copied(), SignableBody::Bytes(body));
        let signed = signable.and_then(|signable| sign(signable, &parameters)).map_err(|error| unsigned(http::chain(&error)))?;
        let mut request = self.http.post(self.url.clone());
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        for header in signed.into_parts().0.into_parts().0 {
            request = request.header(header.name(), header.value());
        }
        let lost = |error: reqwest::Error| self.unread(&http::chain(&error.without_url()));
        let answer = request.body(body.to_vec()).send().await.map_err(lost)?;
        let (status, named) = (answer.status(), answer.headers().get("x-amzn-errortype").cloned());
        if status.is_success() {
            return Ok(answer);
        }
        let bytes = http::whole(answer, ANSWER_BYTES_MAX).await.map_err(|problem| self.unread(&problem))?;
        let named = named.as_ref().and_then(|named| named.to_str().ok()).unwrap_or_default();
        let (code, message) = said(named, &bytes);
        if matches!(code.as_str(), "ExpiredTokenException" | "ExpiredToken" | "RequestExpired") {
            self.keys.forget().await;
        }
        let retryable = http::may_pass(status) || passes(&code);
        Err(Failed { reason: format!("{}: {status}: {code}: {message}", http::shown(&self.url)), code, retryable })
    }
}

impl Failed {
    /// The stream or output cannot go on with it.
    pub fn fatal(self, place: &str) -> ConnectorError {
        ConnectorError::World {
            place: place.to_owned(),
            problem: self.reason,
            fault: Fault::User,
            retryable: self.retryable,
            source: None,
        }
    }
}

/// What a service calls a failure, and its words.
pub fn said(named: &str, body: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(body);
    let json: Json = serde_json::from_slice(body).unwrap_or_default();
    let field = |names: [&str; 2]| names.iter().find_map(|name| json.get(*name)?.as_str());
    let code = field(["__type", "code"]).or((!named.is_empty()).then_some(named)).or_else(|| element(&text, "Code"));
    let code = code.unwrap_or_default();
    // `com.amazonaws.kinesis#LimitExceededException:http://…` is a LimitExceededException.
    let code = code.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default();
    let message = field(["message", "Message"]).or_else(|| element(&text, "Message")).unwrap_or_default();
    (code.to_owned(), message.chars().take(500).collect())
}

/// The text of the first element of this name.
pub fn element<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// Failures that are answered with 400 and pass all the same.
const PASSING: [&str; 10] = [
    "Throttl",
    "ThroughputExceeded",
    "LimitExceeded",
    "TooManyRequests",
    "ExpiredToken",
    "RequestExpired",
    "SlowDown",
    // What was sent came too slowly.
    "RequestTimeout",
    "PriorRequestNotComplete",
    "TransactionInProgress",
];

/// Whether it is one of those.
pub fn passes(code: &str) -> bool {
    PASSING.iter().any(|part| code.contains(part))
}

/// Failures that say of a key that it is none, or not the one that is known by that name.
pub fn refuses_keys(code: &str) -> bool {
    matches!(
        code,
        "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "InvalidAccessKeyId"
            | "InvalidSignatureException"
            | "SignatureDoesNotMatch"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::aws::access::AwsCredentials;
    use crate::aws::reader::KINESIS;
    use crate::aws::stand_in::StandIn;
    use crate::conformance::runtime;
    use crate::real_server::allow_secrets_in;

    #[test]
    fn failures_are_told_apart_in_either_notation() {
        let json = br#"{"__type": "com.amazonaws.kinesis#ProvisionedThroughputExceededException", "message": "slowly"}"#;
        let (code, message) = said("", json);
        assert_eq!((code.as_str(), message.as_str()), ("ProvisionedThroughputExceededException", "slowly"));
        assert!(passes(&code) && !passes("ResourceNotFoundException"));
        for code in ["RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete", "TransactionInProgressException"] {
            assert!(passes(code), "{code}");
        }
        assert!(!passes("RequestTimeTooSkewed") && !passes("TransactionCanceledException"));
        let xml = b"<ErrorResponse><Error><Type>Sender</Type><Code>NotFound</Code><Message>no topic</Message></Error>";
        assert_eq!(said("", xml), ("NotFound".to_owned(), "no topic".to_owned()));
        assert_eq!(said("A:http://b", b"<html>").0, "A");
    }

    #[test]
    fn keys_that_were_changed_where_they_are_kept_are_looked_up_again_once() {
        let directory = tempfile::tempdir().unwrap();
        allow_secrets_in(directory.path());
        let file = directory.path().join("key");
        fs::write(&file, "OLD").unwrap();
        let kept = file.clone();
        // Whoever comes with an old key finds that there is a newer one.
        let server = StandIn::start(move |asked| {
            let newer = match asked.key.as_str() {
                "NEW" => return (200, "{}".to_owned()),
                "WRONG" => "WORSE",
                "WORSE" => "WRONG",
                _ => "NEW",
            };
            fs::write(&kept, newer).unwrap();
            (400, json!({"__type": "UnrecognizedClientException", "message": "no such key"}).to_string())
        });
        let call = |key: Json| {
            let credentials = json!({"accessKeyId": key, "secretAccessKey": "hush"});
            let credentials: AwsCredentials = serde_json::from_value(credentials).unwrap();
            let access = Access { credentials: Some(credentials), ..server.access() };
            runtime().block_on(async {
                let client = Client::open(&KINESIS, &access, None).await.unwrap();
                client.call("ListShards", &Json::Null).await
            })
        };
        let is_told = |answer: Result<Json, Failed>| {
            let failed = answer.unwrap_err();
            assert!(failed.code == "UnrecognizedClientException" && !failed.retryable, "{failed:?}");
        };
        let kept = json!({"file": file});
        call(kept.clone()).unwrap();
        assert_eq!(server.keys(), ["OLD", "NEW"]);
        // One that is in the definition stays what it is.
        is_told(call("GIVEN".into()));
        assert_eq!(server.keys(), ["GIVEN"]);
        fs::write(&file, "WRONG").unwrap();
        is_told(call(kept));
        assert_eq!(server.keys(), ["WRONG", "WORSE"]);
    }
}
