//! Where a Redis is and who asks it: what both ends have in their definitions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use crate::config::Secret;
use crate::dial::{Certificates, Server};
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedisAccess {
    /// The server and the number of the database, such as `redis://host:6379/0`; `rediss` uses TLS. Database 0 when not given.
    #[serde(serialize_with = "secret::address")]
    pub url: String,
    /// The user to log in as. With a password alone it is the user `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password of the user. No login when not given.
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
    database: u32,
    pub place: String,
}

impl RedisAccess {
    /// What is wrong with a definition.
    pub fn check(&self, hosts: &HostPolicy) -> Result<(), ConnectorError> {
        let login = self.login(hosts)?;
        self.certificates.check(login.server.is_encrypted(), "write the URL with rediss://")
    }

    pub fn login(&self, hosts: &HostPolicy) -> Result<Login, ConnectorError> {
        let (server, url) = Server::of("url", &self.url, ("redis", "rediss"), 6379, &self.certificates, hosts)?;
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            number => {
                let problem = "what stands behind the server is not the number of a database";
                number.parse().map_err(|_| ConnectorError::config("url", problem))?
            }
        };
        if self.username.is_some() && self.password.is_none() {
            return Err(ConnectorError::config("password", "is missing: a name alone is not enough"));
        }
        let place = format!("Redis at {}", server.address());
        Ok(Login { server, username: self.username.clone(), password: self.password.clone(), database, place })
    }
}

impl Login {
    /// A connection that is logged in.
    pub async fn connect(&self) -> Result<Connection, String> {
        let mut connection = Connection::over(self.server.connect().await?);
        if let Some(password) = &self.password {
            let password = password.get()?;
            let mut command = vec![&b"AUTH"[..]];
            command.extend(self.username.as_ref().map(|name| name.as_bytes()));
            command.push(password.as_bytes());
            let answer = connection.ask(&command).await?.ok();
            answer.map_err(|error| format!("the login is refused: {}", without_password(&error, &password)))?;
        }
        if self.database != 0 {
            connection.ask(&[b"SELECT", self.database.to_string().as_bytes()]).await?.ok()?;
        }
        Ok(connection)
    }
}

/// As much of an answer to AUTH as may be told: a server that does not know the word quotes what came with it.
fn without_password<'a>(answer: &'a str, password: &str) -> &'a str {
    let words = answer.split(['\'', '`', '"']).next().unwrap_or_default().trim_end();
    if words.contains(password) { words.split(' ').next().unwrap_or_default() } else { words }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;
    use crate::conformance::runtime;

    #[test]
    fn a_server_that_repeats_the_password_is_not_repeated() {
        for (answer, told) in [
            ("WRONGPASS invalid username-password pair.", "WRONGPASS invalid username-password pair."),
            ("ERR unknown command 'AUTH', with args beginning with: 'weir' 'geheim' ", "ERR unknown command"),
            ("ERR unknown command `AUTH`, with args beginning with: `weir`, `geh", "ERR unknown command"),
            ("ERR AUTH weir geheim is not for us", "ERR"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("redis://{}", listener.local_addr().unwrap());
            let access = json!({"url": url, "username": "weir", "password": "geheim"});
            let access: RedisAccess = serde_json::from_value(access).unwrap();
            let login = access.login(&HostPolicy::default()).unwrap();
            let answering = std::thread::spawn(move || {
                let (mut wire, _) = listener.accept().unwrap();
                assert!(wire.read(&mut [0; 256]).unwrap() > 0);
                wire.write_all(format!("-{answer}\r\n").as_bytes()).unwrap();
            });
            let refused = runtime().block_on(login.connect()).err().unwrap();
            assert_eq!(refused, format!("the login is refused: {told}"));
            answering.join().unwrap();
        }
    }
}
