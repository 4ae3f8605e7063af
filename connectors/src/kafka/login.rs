//! How a client says who it is: the kinds of `saslJaasConfig`, the line Java clients call `sasl.jaas.config`, and tokens
//! fetched from an authorization server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::client::OAuthToken;
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use crate::config::{self, Secret};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::{http, secret};

/// A token without a lifetime is fetched again after this.
const TOKEN_LIFE: Duration = Duration::from_secs(300);
/// Bytes of an answer of a server that gives out tokens, at most.
const ANSWER_BYTES_MAX: usize = 1 << 20;

const TOKEN_URL: &str = "saslJaasConfig.tokenEndpointUrl";

/// The login at the Kafka broker.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "type")]
#[expect(clippy::enum_variant_names, reason = "definitions name them so")]
pub enum SaslLogin {
    /// User and password by the mechanism `PLAIN`.
    PlainLogin(Login),
    /// User and password by SCRAM. Needs `sasl.mechanism` among the properties: `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    ScramLogin(Login),
    /// A token that is fetched from an authorization server with client credentials (`OAUTHBEARER`).
    OAuthBearerLogin(OAuthBearer),
}

/// A user and a password.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Login {
    /// The name of the user.
    pub username: String,
    /// The password of the user.
    pub password: Secret,
}

/// Client credentials for an authorization server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OAuthBearer {
    /// The id of the client.
    pub client_id: String,
    /// The secret of the client.
    pub client_secret: Secret,
    /// The scope to ask for. None when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The `http` or `https` URL that issues tokens. Required.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "secret::address")]
    pub token_endpoint_url: Option<String>,
}

impl<'de> Deserialize<'de> for SaslLogin {
    // By hand, so that an error names the option inside.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<SaslLogin, D::Error> {
        let given = Json::deserialize(input)?;
        let login = config::kind(&given).and_then(|kind| match kind {
            "PlainLogin" => config::from_json(&given).map(SaslLogin::PlainLogin),
            "ScramLogin" => config::from_json(&given).map(SaslLogin::ScramLogin),
            "OAuthBearerLogin" => config::from_json(&given).map(SaslLogin::OAuthBearerLogin),
            other => Err(config::unknown_kind(other)),
        });
        login.map_err(config::inside)
    }
}

/// Reads the line of Java clients: `…PlainLoginModule required username="u" password="p";`.
pub fn parse_jaas(line: &str) -> Result<SaslLogin, &'static str> {
    let value = |name: &str| {
        let rest = line.split_once(&format!("{name}=")).map(|(_, rest)| rest.trim_start())?;
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let mut text = String::new();
        let mut characters = rest.chars().skip(usize::from(quote.is_some()));
        while let Some(c) = characters.next() {
            match c {
                '\\' if quote.is_some() => text.extend(characters.next()),
                c if Some(c) == quote => break,
                c if quote.is_none() && (c.is_whitespace() || c == ';') => break,
                c => text.push(c),
            }
        }
        Some(text)
    };
    // It looks up a name at a server of the attacker's choice and runs what comes.
    if line.to_ascii_lowercase().contains("jndiloginmodule") {
        return Err("the JndiLoginModule is refused: it runs what a remote server sends");
    }
    let login = || match (value("username"), value("password")) {
        (Some(username), Some(password)) => Ok(Login { username, password: Secret::Plain(password) }),
        _ => Err("has no username=\"…\" password=\"…\""),
    };
    if line.contains("ScramLoginModule") {
        login().map(SaslLogin::ScramLogin)
    } else if line.contains("PlainLoginModule") {
        login().map(SaslLogin::PlainLogin)
    } else {
        Err("names no login module that is known here; there are PlainLoginModule and ScramLoginModule, and saslJaasConfig")
    }
}

impl OAuthBearer {
    pub fn check(&self) -> Result<(), ConnectorError> {
        self.url().map(drop)
    }

    pub fn check_host(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        hosts.check(&self.url()?).map_err(|error| error.within(TOKEN_URL))
    }

    fn url(&self) -> Result<Url, ConnectorError> {
        let field = TOKEN_URL;
        let Some(url) = &self.token_endpoint_url else {
            return Err(ConnectorError::config(field, "is needed: where the token comes from"));
        };
        let url = Url::parse(url).map_err(|error| ConnectorError::config(field, format!("is not a URL: {error}")))?;
        match url.scheme() {
            "https" | "http" => Ok(url),
            _ => Err(ConnectorError::config(field, "must begin with https:// or http://")),
        }
    }

    /// Fetches a token. Called by a thread of the client's, which may wait.
    pub fn token(&self) -> Result<OAuthToken, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        runtime.block_on(self.fetch())
    }

    async fn fetch(&self) -> Result<OAuthToken, String> {
        let url = self.url().map_err(|error| error.to_string())?;
        let place = http::shown(&url);
        let encoded = |text: &str| -> String { text.bytes().map(form_byte).collect() };
        let mut body = "grant_type=client_credentials".to_owned();
        if let Some(scope) = &self.scope {
            body += &format!("&scope={}", encoded(scope));
        }
        let secret = self.client_secret.get().map_err(|problem| format!("no token from {place}: {problem}"))?;
        let client = http::patient_client().map_err(|error| error.to_string())?;
        let request = client
            .post(url)
            .basic_auth(encoded(&self.client_id), Some(encoded(&secret)))
            .header("content-type", "application/x-www-form-urlencoded")
            .timeout(Duration::from_secs(10))
            .body(body);
        let failed = |error: reqwest::Error| format!("no token from {place}: {}", http::chain(&error.without_url()));
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let unread = |problem: String| format!("no token from {place}: {problem}");
        let answer = http::whole(answer, ANSWER_BYTES_MAX).await.map_err(unread)?;
        let answer: Json = serde_json::from_slice(&answer).map_err(|error| unread(error.to_string()))?;
        let Some(token) = answer["access_token"].as_str().filter(|_| status.is_success()) else {
            // Servers say why in `error`; anything else of the answer might be secret.
            let why = answer["error"].as_str().unwrap_or("it holds no access_token");
            return Err(format!("no token from {place}: it answered {status}: {why}"));
        };
        let life = answer["expires_in"].as_u64().map_or(TOKEN_LIFE, Duration::from_secs);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(OAuthToken {
            token: token.to_owned(),
            principal_name: self.client_id.clone(),
            lifetime_ms: i64::try_from((now + life).as_millis()).unwrap_or(i64::MAX),
        })
    }
}

/// A byte as a form carries it.
fn form_byte(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_java_clients_is_read() {
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"a\\\"b;c\";";
        let login = Login { username: "u".to_owned(), password: Secret::plain("a\"b;c") };
        assert_eq!(parse_jaas(plain), Ok(SaslLogin::PlainLogin(login)));
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required username=u password='p';";
        let login = Login { username: "u".to_owned(), password: Secret::plain("p") };
        assert_eq!(parse_jaas(scram), Ok(SaslLogin::ScramLogin(login)));
        for refused in
            ["com.sun.security.auth.module.JndiLoginModule required a=\"ldap://x\";", "x.PlainLoginModule required;", ""]
        {
            assert!(parse_jaas(refused).is_err(), "{refused}");
        }
    }
}
