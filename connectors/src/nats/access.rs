//! Where a NATS is and who asks it: what both ends have in their definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::connection::{Connection, Greeting};
use super::credentials::Credentials;
use crate::config::Secret;
use crate::dial::{Certificates, Server};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatsAccess {
    /// The servers, such as `nats://host:4222`; `tls` uses TLS. They are tried in this order, and the first that accepts the
    /// connection is used.
    #[serde(serialize_with = "secret::address")]
    pub servers: Vec<String>,
    /// The user to log in as, with `password`. At most one of user, `token` and `credentials` may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of `username`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A token to log in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The content of a credentials file as `nsc` writes it, or the seed of a user key, to log in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Secret>,
    #[serde(flatten)]
    pub certificates: Certificates,
    /// The JetStream domain, if the servers have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

/// How a connection is made.
#[derive(Clone)]
pub struct Login {
    servers: Vec<Server>,
    username: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
    credentials: Option<Secret>,
    /// What subjects of JetStream's own begin with.
    pub prefix: String,
    pub place: String,
}

impl NatsAccess {
    /// What is wrong with a definition.
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let login = self.login(hosts)?;
        self.certificates.check(login.servers.iter().any(Server::is_encrypted), "write the servers with tls://")
    }

    pub fn login(&self, hosts: &HostPolicy) -> Result<Login, ConnectorError> {
        if self.servers.is_empty() {
            return Err(ConnectorError::config("servers", "is empty"));
        }
        let server = |url: &String| Ok(Server::of("servers", url, ("nats", "tls"), 4222, &self.certificates, hosts)?.0);
        let servers: Vec<Server> = self.servers.iter().map(server).collect::<Result<_, ConnectorError>>()?;
        match (&self.username, &self.password) {
            (Some(_), None) => return Err(ConnectorError::config("password", "is missing: a name alone is not enough")),
            (None, Some(_)) => return Err(ConnectorError::config("username", "is missing: a password alone is not enough")),
            _ => {}
        }
        let ways = [self.username.is_some(), self.token.is_some(), self.credentials.is_some()];
        if ways.iter().filter(|given| **given).count() > 1 {
            return Err(ConnectorError::config("", "give one of username with password, token, and credentials"));
        }
        if let Some(known) = self.credentials.as_ref().and_then(Secret::known) {
            Credentials::read(known).map_err(|problem| ConnectorError::config("credentials", problem))?;
        }
        if self.domain.as_ref().is_some_and(|domain| !is_name(domain)) {
            return Err(ConnectorError::config("domain", "is no name of a domain: no dots, stars or white space"));
        }
        let prefix = self.domain.as_ref().map_or_else(|| "$JS.API".to_owned(), |domain| format!("$JS.{domain}.API"));
        let places: Vec<String> = servers.iter().map(Server::address).collect();
        let place = format!("NATS at {}", places.join(", "));
        let Self { username, password, token, credentials, .. } = self.clone();
        Ok(Login { servers, username, password, token, credentials, prefix, place })
    }
}

/// Whether a text can be one word of a subject, as names of streams and consumers are.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['.', '*', '>', '/', '\\']) && is_subject(text)
}

/// Whether it can be a subject; what it means is for the server.
pub fn is_subject(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 1024
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
        && !text.split('.').any(str::is_empty)
}

impl Login {
    /// A connection that is logged in, to the first server that takes it.
    pub async fn connect(&self) -> Result<Connection, String> {
        let mut problems = Vec::new();
        for server in &self.servers {
            match self.connect_to(server).await {
                Ok(connection) => return Ok(connection),
                Err(problem) if self.servers.len() == 1 => return Err(problem),
                Err(problem) => problems.push(format!("{}: {problem}", server.address())),
            }
        }
        Err(problems.join("; "))
    }

    async fn connect_to(&self, server: &Server) -> Result<Connection, String> {
        let mut connection = Connection::greeted(server.connect_plain().await?).await?;
        if server.is_encrypted() {
            if !connection.greeting.has_tls() {
                return Err("the server has no TLS; write nats:// for a connection without it".to_owned());
            }
            connection = connection.encrypted(server).await?;
        } else if connection.greeting.tls_required {
            return Err("the server wants TLS; write tls:// in the place of nats://".to_owned());
        }
        let hello = self.hello(&connection.greeting)?;
        connection.log_in(&hello).await?;
        Ok(connection)
    }

    fn hello(&self, greeting: &Greeting) -> Result<Json, String> {
        let mut hello = json!({
            "verbose": false, "pedantic": false, "protocol": 1, "headers": true, "no_responders": true, "echo": false,
            "name": "weir", "lang": "weir", "version": env!("CARGO_PKG_VERSION"), "tls_required": false,
        });
        if let (Some(username), Some(password)) = (&self.username, &self.password) {
            hello["user"] = username.as_str().into();
            hello["pass"] = password.get()?.into();
        }
        if let Some(token) = &self.token {
            hello["auth_token"] = token.get()?.into();
        }
        if let Some(credentials) = &self.credentials {
            let asked =
                greeting.nonce.as_deref().ok_or("the server asks for no signature, so credentials do not log in there")?;
            let credentials =
                Credentials::read(&credentials.get()?).map_err(|problem| format!("the option `credentials` {problem}"))?;
            hello["sig"] = credentials.signature(asked).into();
            match &credentials.token {
                Some(token) => hello["jwt"] = token.as_str().into(),
                None => hello["nkey"] = credentials.user().into(),
            }
        }
        Ok(hello)
    }
}
