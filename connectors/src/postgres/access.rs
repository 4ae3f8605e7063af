//! Where a PostgreSQL is and who asks it: what both ends have in their definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::{Connection, Failed, Hello};
use crate::config::Secret;
use crate::dial::{Certificates, Server};
use crate::ends::Refused;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresAccess {
    /// The server and the database, such as `postgres://host:5432/database`. Without a database it is the one named like the
    /// user.
    #[serde(serialize_with = "secret::address")]
    pub url: String,
    /// The user to log in as.
    pub username: String,
    /// The password of the user. Not needed if the server accepts the user without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Whether the connection is encrypted with TLS and the certificate of the server is verified. False when not given.
    #[serde(default)]
    pub tls: bool,
    #[serde(flatten)]
    pub certificates: Certificates,
}

/// How a connection is made.
#[derive(Clone)]
pub struct Login {
    server: Server,
    username: String,
    password: Option<Secret>,
    database: String,
    pub place: String,
}

/// Bytes of the name of a thing in a database, at most.
const NAME_BYTES_MAX: usize = 63;

/// What stands for TLS where a scheme says it; here an option does.
const ENCRYPTED: &str = "postgres+tls";

impl PostgresAccess {
    /// What is wrong with a definition.
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let login = self.login(hosts)?;
        self.certificates.check(login.server.is_encrypted(), "set `tls` to true")
    }

    pub fn login(&self, hosts: &HostPolicy) -> Result<Login, ConnectorError> {
        let wrong = |problem: &str| ConnectorError::config("url", problem);
        let rest = self.url.strip_prefix("postgres://").or_else(|| self.url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("the URL must begin with postgres://"))?;
        let url = format!("{}://{rest}", if self.tls { ENCRYPTED } else { "postgres" });
        let (server, url) = Server::of("url", &url, ("postgres", ENCRYPTED), 5432, &self.certificates, hosts)?;
        if self.username.is_empty() || !is_name(&self.username) {
            return Err(ConnectorError::config("username", "is no name of a user: 1 to 63 bytes"));
        }
        if self.password.as_ref().is_some_and(|password| password.known().is_some_and(|password| password.contains('\0'))) {
            return Err(ConnectorError::config("password", "has a character in it that no password can have"));
        }
        let database = match url.path().trim_start_matches('/') {
            "" => self.username.clone(),
            path => undone(path).filter(|name| is_name(name)).ok_or_else(|| wrong("the name of the database is none"))?,
        };
        let place = format!("database {database} of PostgreSQL at {}", server.address());
        Ok(Login { server, username: self.username.clone(), password: self.password.clone(), database, place })
    }
}

/// Whether a text can be the name of something in a database.
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0')
}

/// A part of a URL as it is meant: `%20` is a space.
fn undone(part: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), part.as_bytes());
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte == b'%' {
            let (two, behind) = behind.split_first_chunk::<2>()?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()?);
            rest = behind;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

impl Login {
    /// A connection that is logged in, for SQL or for changes.
    pub async fn connect(&self, replication: bool) -> Result<Connection, Refused> {
        let Login { username, database, .. } = self;
        let password = self.password.as_ref().map(Secret::get).transpose().map_err(Refused::Passing)?;
        let password = password.as_deref();
        let opened = Connection::open(&self.server, &Hello { username, password, database, replication }).await;
        opened.map_err(|failed| match failed {
            Failed::Said(said) => Refused::Passing(said.words),
            Failed::Lost(refused) => refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str) -> PostgresAccess {
        PostgresAccess {
            url: url.to_owned(),
            username: "weir".to_owned(),
            password: None,
            tls: false,
            certificates: Certificates::default(),
        }
    }

    #[test]
    fn the_url_names_the_database() {
        let login = |url: &str| access(url).login(&HostPolicy::default());
        let database = |url: &str| login(url).map(|login| login.database).unwrap();
        assert_eq!(database("postgres://h"), "weir");
        assert_eq!(database("postgresql://h/"), "weir");
        assert_eq!(database("postgres://h:1/my%20data"), "my data");
        assert!(login("postgres://h/d").unwrap().place.ends_with("h:5432"));
        for wrong in
            ["http://h/d", "postgres://u:p@h/d", "postgres://h/d?sslmode=require", "postgres://h/%f", "postgres://h/%ff", "h"]
        {
            assert!(login(wrong).is_err(), "{wrong}");
        }
        assert!(PostgresAccess { username: String::new(), ..access("postgres://h/d") }.login(&HostPolicy::default()).is_err());
    }
}
