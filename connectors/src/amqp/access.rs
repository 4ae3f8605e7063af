//! Where a server of AMQP is and who asks it: what both ends have in their definitions.

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::config::Secret;
use crate::dial::{Certificates, Server};
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmqpAccess {
    /// The server and its virtual host, such as `amqp://host:5672/name`; `amqps` uses TLS. Without a name it is the virtual host
    /// `/`.
    #[serde(serialize_with = "secret::address")]
    pub url: String,
    /// The user to log in as. `guest` when not given.
    #[serde(default = "guest")]
    pub username: String,
    /// The password of the user. `guest` when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    #[serde(flatten)]
    pub certificates: Certificates,
}

fn guest() -> String {
    "guest".to_owned()
}

/// How a connection is made.
#[derive(Clone)]
pub struct Login {
    server: Server,
    username: String,
    password: Secret,
    host: String,
    pub place: String,
}

impl AmqpAccess {
    /// What is wrong with a definition.
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let login = self.login(hosts)?;
        self.certificates.check(login.server.is_encrypted(), "write the URL with amqps://")
    }

    pub fn login(&self, hosts: &HostPolicy) -> Result<Login, ConnectorError> {
        let usual_port = if self.url.starts_with("amqps:") { 5671 } else { 5672 };
        let (server, url) = Server::of("url", &self.url, ("amqp", "amqps"), usual_port, &self.certificates, hosts)?;
        let host = host_of(&url)?;
        let password = self.password.clone().unwrap_or_else(|| Secret::Plain(guest()));
        let place = format!("AMQP at {}", server.address());
        Ok(Login { server, username: self.username.clone(), password, host, place })
    }
}

fn host_of(url: &Url) -> Result<String, ConnectorError> {
    let path = url.path().strip_prefix('/').unwrap_or_default();
    if path.is_empty() {
        return Ok("/".to_owned());
    }
    // A slash in the name is written `%2f`, as everywhere in this kind of URL.
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let hex = behind.first_chunk::<2>().and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match (byte, hex) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &behind[2..];
            }
            _ => bytes.push(*byte),
        }
    }
    let wrong = |problem: &str| ConnectorError::config("url", format!("the name of the virtual host {problem}"));
    let host = String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8"))?;
    if host.len() > 255 { Err(wrong("is longer than 255 bytes")) } else { Ok(host) }
}

/// Whether a text can be the name of something.
pub fn is_name(name: &str) -> bool {
    name.len() <= 255 && !name.contains('\0')
}

impl Login {
    /// A connection that is logged in, with its channel.
    pub async fn connect(&self) -> Result<Connection, Refused> {
        let password = self.password.get()?;
        let wire = self.server.connect().await?;
        Connection::over(wire, &self.username, &password, &self.host).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_names_the_virtual_host() {
        let host = |url: &str| host_of(&Url::parse(url).unwrap()).unwrap();
        assert_eq!(host("amqp://h"), "/");
        assert_eq!(host("amqp://h/"), "/");
        assert_eq!(host("amqp://h/%2f"), "/");
        assert_eq!(host("amqp://h/a%20b"), "a b");
        assert_eq!(host("amqp://h/a%2"), "a%2");
    }
}
