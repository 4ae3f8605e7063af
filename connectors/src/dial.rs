//! Connections of protocols that are spoken here: where to, with TLS or without, and no longer waited for than a moment.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::Secret;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::http::{install_tls, without_query};
use crate::tcp::ask_for_life;

const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes both ways.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<W: AsyncRead + AsyncWrite + Send + Unpin> Wire for W {}

/// A server to be connected to.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    tls: Option<Tls>,
}

#[derive(Clone)]
struct Tls {
    certificates: Certificates,
    settled: Option<Arc<ClientConfig>>,
}

/// What both sides of a connection with TLS show and trust.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// Certificates of authorities in PEM, to be trusted instead of those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authorities: Option<String>,
    /// The client certificate in PEM, for servers that ask for one, followed by the intermediate certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// The private key of `clientCertificate` in PEM, without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<Secret>,
}

impl Server {
    /// What a URL names whose scheme is `plain` or `encrypted`.
    pub fn of(
        field: &str,
        url: &str,
        (plain, encrypted): (&str, &str),
        usual_port: u16,
        certificates: &Certificates,
        hosts: &HostPolicy,
    ) -> Result<(Server, Url), ConnectorError> {
        let wrong = |problem: String| ConnectorError::config(field, problem);
        let mut parsed = Url::parse(url).map_err(|error| wrong(format!("is no URL: {error}")))?;
        if parsed.scheme() != plain && parsed.scheme() != encrypted {
            return Err(wrong(format!("the URL must begin with {plain}:// or {encrypted}://")));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong(
                "a name and password belong into `username` and `password`, where they are kept secret".to_owned(),
            ));
        }
        without_query(field, &parsed)?;
        let host = parsed
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| wrong("the URL names no host".to_owned()))?
            .to_owned();
        let port = parsed.port().unwrap_or(usual_port);
        // The policy compares ports, too, and knows nothing of these schemes. An error says that there is no host.
        let _ = parsed.set_port(Some(port));
        hosts.check(&parsed)?;
        let tls = if parsed.scheme() == encrypted {
            Some(Tls { certificates: certificates.clone(), settled: certificates.settled()? })
        } else {
            None
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok((Server { host, port, tls }, parsed))
    }

    /// The address of the server, as it is told.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Whether the URL asks for TLS.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    pub async fn connect(&self) -> Result<Box<dyn Wire>, String> {
        let plain = self.connect_plain().await?;
        if self.is_encrypted() { self.encrypt(plain).await } else { Ok(plain) }
    }

    /// Without TLS; of a protocol in which that comes later.
    pub async fn connect_plain(&self) -> Result<Box<dyn Wire>, String> {
        in_time(async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| error.to_string())?;
            stream.set_nodelay(true).and_then(|()| ask_for_life(&stream)).map_err(|error| error.to_string())?;
            Ok(Box::new(stream) as Box<dyn Wire>)
        })
        .await
    }

    /// TLS from now on.
    pub async fn encrypt(&self, wire: Box<dyn Wire>) -> Result<Box<dyn Wire>, String> {
        let Some(tls) = &self.tls else { return Ok(wire) };
        let config = match &tls.settled {
            Some(config) => config.clone(),
            None => Arc::new(tls.certificates.config().map_err(|error| error.to_string())?),
        };
        in_time(async {
            let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
            let encrypted = TlsConnector::from(config).connect(name, wire).await.map_err(|error| error.to_string())?;
            Ok(Box::new(encrypted) as Box<dyn Wire>)
        })
        .await
    }
}

async fn in_time<T>(connecting: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let connected = tokio::time::timeout(CONNECT_TIME_MAX, connecting).await;
    let connected = connected.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT_TIME_MAX.as_secs())));
    connected.map_err(|problem| format!("cannot connect: {problem}"))
}

impl Certificates {
    /// What is wrong with them in a definition: a secret at a place that is shown, and options that change nothing, as the
    /// connection is not encrypted, which `way` mends.
    pub fn check(&self, encrypted: bool, way: &str) -> Result<(), ConnectorError> {
        let shown = [
            ("certificateAuthorities", self.certificate_authorities.as_deref()),
            ("clientCertificate", self.client_certificate.as_deref()),
        ];
        if let Some((field, _)) = shown.iter().find(|(_, pem)| pem.is_some_and(holds_key)) {
            return Err(ConnectorError::config(field, "holds a private key, which would be shown; give it as `clientKey`"));
        }
        let mut given = shown.iter().filter(|(_, pem)| pem.is_some()).map(|(field, _)| *field);
        match given.next().or(self.client_key.as_ref().map(|_| "clientKey")) {
            Some(field) if !encrypted => Err(ConnectorError::config(field, format!("takes effect with TLS only; {way}"))),
            _ => Ok(()),
        }
    }

    /// An error is that of an option, unless the key is kept elsewhere.
    pub fn config(&self) -> Result<ClientConfig, ConnectorError> {
        let (builder, shown) = (self.trusting()?, self.shown()?);
        let Some((shown, key)) = shown else { return Ok(builder.with_no_client_auth()) };
        let wrong = |problem: String| ConnectorError::config("clientKey", problem);
        let pem = key.value()?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| wrong(password_problem(&pem).unwrap_or("is no private key in PEM").to_owned()))?;
        let config = builder.with_client_auth_cert(shown, key);
        config.map_err(|error| wrong(format!("is not that of the certificate, or the certificate cannot be used: {error}")))
    }

    /// None where each connection needs a look at where the key is kept.
    pub fn settled(&self) -> Result<Option<Arc<ClientConfig>>, ConnectorError> {
        if self.client_key.as_ref().is_none_or(|key| key.known().is_some()) {
            return Ok(Some(Arc::new(self.config()?)));
        }
        self.trusting()?;
        self.shown()?;
        Ok(None)
    }

    fn trusting(&self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, ConnectorError> {
        install_tls();
        let builder = ClientConfig::builder();
        match &self.certificate_authorities {
            Some(pem) => Ok(builder.with_root_certificates(authorities(pem)?)),
            None => builder.with_platform_verifier().map_err(|error| {
                ConnectorError::config("", format!("the certificate authorities of this machine cannot be used: {error}"))
            }),
        }
    }

    fn shown(&self) -> Result<Option<(Vec<CertificateDer<'static>>, &Secret)>, ConnectorError> {
        let missing = |field: &str, problem: &str| Err(ConnectorError::config(field, format!("is missing: {problem}")));
        match (&self.client_certificate, &self.client_key) {
            (None, None) => Ok(None),
            (Some(shown), Some(key)) => Ok(Some((certificates("clientCertificate", shown)?, key))),
            (Some(_), None) => missing("clientKey", "the certificate has a private key"),
            (None, Some(_)) => missing("clientCertificate", "the key belongs to one"),
        }
    }
}

/// Whether a text in PEM has something in it that nobody should see.
pub fn holds_key(pem: &str) -> bool {
    pem.contains("PRIVATE KEY-----")
}

/// Why a text in PEM is not read as a key where that has a password: one in PKCS 8, or in the form of old.
pub fn password_problem(pem: &str) -> Option<&'static str> {
    let has_password = pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("4,ENCRYPTED");
    has_password.then_some("has a password, which is not read; take it off with: openssl pkey -in … -out …")
}

fn authorities(pem: &str) -> Result<RootCertStore, ConnectorError> {
    let field = "certificateAuthorities";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(field, pem)? {
        roots.add(certificate).map_err(|error| ConnectorError::config(field, error.to_string()))?;
    }
    Ok(roots)
}

/// The certificates in a text, at least one.
fn certificates(field: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, ConnectorError> {
    let wrong = |problem: String| ConnectorError::config(field, problem);
    let read: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(format!("is no certificate in PEM: {error}")))?;
    if read.is_empty() { Err(wrong("holds no certificate in PEM".to_owned())) } else { Ok(read) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use crate::conformance::anything;
    use crate::{parse_destination_v1, parse_source_v1};

    /// Each end without TLS, with it, and what says how one leads to the other.
    fn ends() -> Vec<(Json, Json, &'static str)> {
        let url = |plain: Json, scheme: &str, encrypted: &'static str| {
            let mut with_tls = plain.clone();
            let field = if plain["servers"].is_null() { "url" } else { "servers" };
            let written = plain[field].to_string().replace(&format!("{scheme}://"), encrypted);
            with_tls[field] = serde_json::from_str(&written).unwrap();
            (plain, with_tls, encrypted)
        };
        let postgres = |mut plain: Json| {
            let object = plain.as_object_mut().unwrap();
            object.extend([("url".to_owned(), json!("postgres://h/d")), ("username".to_owned(), json!("u"))]);
            let mut with_tls = plain.clone();
            with_tls["tls"] = json!(true);
            (plain, with_tls, "set `tls`")
        };
        let nats = json!(["nats://a", "nats://b"]);
        vec![
            url(json!({"type": "RedisIngest", "url": "redis://h", "key": "k"}), "redis", "rediss://"),
            url(json!({"type": "WriteToRedis", "url": "redis://h", "key": "k"}), "redis", "rediss://"),
            url(json!({"type": "NatsIngest", "servers": nats, "stream": "s"}), "nats", "tls://"),
            url(json!({"type": "WriteToNats", "servers": nats, "subject": "s"}), "nats", "tls://"),
            url(json!({"type": "MqttIngest", "url": "mqtt://h", "clientId": "c", "topicFilters": ["t"]}), "mqtt", "mqtts://"),
            url(json!({"type": "WriteToMqtt", "url": "mqtt://h", "topic": "t"}), "mqtt", "mqtts://"),
            url(json!({"type": "AmqpIngest", "url": "amqp://h", "queue": "q"}), "amqp", "amqps://"),
            url(json!({"type": "WriteToAmqp", "url": "amqp://h", "routingKey": "k"}), "amqp", "amqps://"),
            postgres(json!({"type": "PostgresIngest", "publication": "p", "slot": "s"})),
            postgres(json!({"type": "WriteToPostgres", "table": "t"})),
        ]
    }

    fn problem(definition: &Json, options: &Json) -> Option<String> {
        let mut definition = definition.clone();
        definition.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let checked = if definition["type"].as_str().unwrap().ends_with("Ingest") {
            parse_source_v1(&definition).and_then(|source| source.check(&anything()))
        } else {
            parse_destination_v1(&definition).and_then(|destination| destination.check())
        };
        checked.err().map(|error| error.to_string())
    }

    fn file(name: &str) -> String {
        std::fs::read_to_string(format!("{}/../tests/tls/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn certificates_without_tls_are_refused() {
        let authorities = json!({"certificateAuthorities": file("ca.pem")});
        let shown = json!({"clientCertificate": file("client.pem"), "clientKey": file("client.key")});
        let mut both = shown.clone();
        both["certificateAuthorities"] = authorities["certificateAuthorities"].clone();
        for (plain, with_tls, way) in ends() {
            assert_eq!(problem(&plain, &json!({})), None, "{plain}");
            for (options, field) in [
                (&authorities, "certificateAuthorities"),
                (&shown, "clientCertificate"),
                (&json!({"clientKey": file("client.key")}), "clientKey"),
            ] {
                let told = problem(&plain, options).unwrap_or_default();
                let expected = format!("option `{field}`: takes effect with TLS only; ");
                assert!(told.starts_with(&expected) && told.contains(way), "{plain}: {told}");
            }
            for options in [&authorities, &both] {
                assert_eq!(problem(&with_tls, options), None, "{with_tls}");
            }
        }
        // One server that is encrypted has a use for them.
        let mixed = json!({"type": "WriteToNats", "servers": ["nats://a", "tls://b"], "subject": "s"});
        assert_eq!(problem(&mixed, &authorities), None);
    }

    #[test]
    fn keys_are_secret_and_have_no_password() {
        let redis = json!({"type": "WriteToRedis", "url": "rediss://h", "key": "k", "certificateAuthorities": file("ca.pem")});
        let both = format!("{}{}", file("client.pem"), file("client.key"));
        for (field, options) in [
            ("clientCertificate", json!({"clientCertificate": both, "clientKey": file("client.key")})),
            ("certificateAuthorities", json!({"certificateAuthorities": both})),
        ] {
            let told = problem(&redis, &options).unwrap_or_default();
            assert!(told.contains(field) && told.contains("holds a private key") && !told.contains("BEGIN"), "{told}");
        }
        for key in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            let told = problem(&redis, &json!({"clientCertificate": file("client.pem"), "clientKey": key})).unwrap_or_default();
            assert!(told.contains("`clientKey`: has a password") && told.contains("openssl pkey"), "{told}");
        }
        let none = json!({"clientCertificate": file("client.pem"), "clientKey": "neither PEM nor ENCRYPTED"});
        let told = problem(&redis, &none).unwrap_or_default();
        assert!(told.contains("`clientKey`: is no private key"), "{told}");
    }
}
