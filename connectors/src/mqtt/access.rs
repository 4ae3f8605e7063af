//! Where a broker of MQTT is and who asks it: what both ends have in their definitions.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::packet::Hello;
use crate::config::Secret;
use crate::dial::{Certificates, Server};
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret;

/// The broker hears something at least this often, or it takes weir for gone.
pub const ALIVE_SECONDS: u16 = 30;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MqttAccess {
    /// The broker, such as `mqtt://host:1883`; `mqtts` uses TLS.
    #[serde(serialize_with = "secret::address")]
    pub url: String,
    /// The user to log in as. No login when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    #[serde(flatten)]
    pub certificates: Certificates,
}

/// How a connection is made.
#[derive(Clone)]
pub struct Login {
    server: Server,
    username: Option<String>,
    password: Option<Secret>,
    pub place: String,
}

impl MqttAccess {
    /// What is wrong with a definition.
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let login = self.login(hosts)?;
        self.certificates.check(login.server.is_encrypted(), "write the URL with mqtts://")
    }

    pub fn login(&self, hosts: &HostPolicy) -> Result<Login, ConnectorError> {
        let (plain, encrypted) = ("mqtt", "mqtts");
        let usual_port = if self.url.starts_with("mqtts:") { 8883 } else { 1883 };
        let (server, _) = Server::of("url", &self.url, (plain, encrypted), usual_port, &self.certificates, hosts)?;
        if self.password.is_some() && self.username.is_none() {
            return Err(ConnectorError::config("username", "is missing: a password alone is not enough"));
        }
        let long = |text: &str| text.len() > u16::MAX.into();
        for (field, text) in
            [("username", self.username.as_deref()), ("password", self.password.as_ref().and_then(Secret::known))]
        {
            if text.is_some_and(long) {
                return Err(ConnectorError::config(field, "is longer than 65535 bytes"));
            }
        }
        let place = format!("the broker at {}", server.address());
        Ok(Login { server, username: self.username.clone(), password: self.password.clone(), place })
    }
}

/// Whether a text can be a topic, or a filter of topics: `+` is a level, and `#` the last one.
pub fn is_topic(text: &str, filter: bool) -> bool {
    let levels = text.split('/').count();
    let is_level = |(at, level): (usize, &str)| match level {
        "+" => filter,
        "#" => filter && at + 1 == levels,
        plain => !plain.contains(['#', '+']),
    };
    !text.is_empty() && text.len() <= u16::MAX.into() && !text.contains('\0') && text.split('/').enumerate().all(is_level)
}

impl Login {
    /// A connection that is logged in, and whether the broker has kept its session.
    pub async fn connect(&self, client: &str, forget: bool) -> Result<(Connection, bool), Refused> {
        let password = self.password()?;
        let wire = self.server.connect().await?;
        Connection::over(wire, &self.hello(client, forget, password.as_deref())).await
    }

    /// How many bytes a packet may have, where the broker says so.
    pub async fn packet_bytes_max(&self, client: &str) -> Result<Option<usize>, Refused> {
        let password = self.password()?;
        let wire = self.server.connect().await?;
        Ok(Connection::packet_bytes_max(wire, &self.hello(client, true, password.as_deref())).await?)
    }

    fn password(&self) -> Result<Option<Cow<'_, str>>, Refused> {
        let password = self.password.as_ref().map(Secret::get).transpose()?;
        if password.as_ref().is_some_and(|password| password.len() > u16::MAX.into()) {
            return Err(Refused::Passing("the password is longer than 65535 bytes".to_owned()));
        }
        Ok(password)
    }

    fn hello<'h>(&'h self, client: &'h str, forget: bool, password: Option<&'h str>) -> Hello<'h> {
        Hello { client, forget, username: self.username.as_deref(), password, alive_seconds: ALIVE_SECONDS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_have_their_signs_as_levels() {
        for (text, filter, topic) in
            [("a/b", true, true), ("a/+/c", true, false), ("#", true, false), ("a/#", true, false), ("$share/g/a/+", true, false)]
        {
            assert_eq!((is_topic(text, true), is_topic(text, false)), (filter, topic), "{text}");
        }
        for text in ["", "a#b", "a/#/b", "a+", "a/b#", "\0"] {
            assert!(!is_topic(text, true), "{text}");
        }
    }
}
