//! Connections of protocols that are spoken here: where to, with TLS or without, and no longer waited for than a moment.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::http::install_tls;
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
    tls: Option<Arc<ClientConfig>>,
}

impl Server {
    /// What a URL names whose scheme is `plain` or `encrypted`. `authorities`, in PEM, are trusted in the place of the machine's.
    pub fn of(
        field: &str,
        url: &str,
        (plain, encrypted): (&str, &str),
        usual_port: u16,
        authorities: Option<&str>,
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
        let host = parsed
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| wrong("the URL names no host".to_owned()))?
            .to_owned();
        let port = parsed.port().unwrap_or(usual_port);
        // The policy compares ports, too, and knows nothing of these schemes. An error says that there is no host.
        let _ = parsed.set_port(Some(port));
        hosts.check(&parsed)?;
        let tls = if parsed.scheme() == encrypted { Some(Arc::new(trusting(authorities)?)) } else { None };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok((Server { host, port, tls }, parsed))
    }

    /// As it is told.
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
        in_time(async {
            let name = ServerName::try_from(self.host.clone()).map_err(|error| error.to_string())?;
            let encrypted = TlsConnector::from(tls.clone()).connect(name, wire).await.map_err(|error| error.to_string())?;
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

fn trusting(authorities: Option<&str>) -> Result<ClientConfig, ConnectorError> {
    install_tls();
    let Some(pem) = authorities else {
        let machine = ClientConfig::builder().with_platform_verifier();
        let wrong =
            |error| ConnectorError::config("", format!("the certificate authorities of this machine cannot be used: {error}"));
        return Ok(machine.map_err(wrong)?.with_no_client_auth());
    };
    let wrong = |problem: String| ConnectorError::config("certificateAuthorities", problem);
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| wrong(format!("is no certificate in PEM: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("holds no certificate in PEM".to_owned()));
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}
