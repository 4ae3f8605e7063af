//! TLS of the web server: certificates from files, clients that must show one, and files that change while weir runs.
//!
//! Everything is PEM. Key stores of Java are refused with the way to convert them.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use weir_connectors::password_problem;
use weir_model::lock::lock;

/// The time between two looks whether the files have changed.
const LOOK: Duration = Duration::from_secs(5);

/// Where the files are.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsFiles {
    /// The certificate of the server, with those that lead to one that clients know.
    pub certificate: PathBuf,
    /// Its key; may be in the same file.
    pub private_key: PathBuf,
    /// With it, clients must show a certificate that one of these has signed.
    pub client_authorities: Option<PathBuf>,
}

/// What is in force. New connections get what is newest; those that are open stay.
pub struct Tls {
    files: TlsFiles,
    current: Mutex<(Arc<ServerConfig>, Vec<Option<SystemTime>>)>,
}

impl Tls {
    pub fn open(files: TlsFiles) -> Result<Arc<Tls>, String> {
        let config = read(&files)?;
        let current = Mutex::new((config, changed(&files)));
        Ok(Arc::new(Tls { files, current }))
    }

    /// The handshake.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = lock(&self.current).0.clone();
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Reads the files again when they have changed, until weir stops. Files that cannot be used leave things as they are.
    pub async fn follow(self: Arc<Tls>, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            // Where the files are it may take long to read them.
            let tls = self.clone();
            let _ = spawn_blocking(move || tls.look()).await;
        }
    }

    fn look(&self) {
        let now = changed(&self.files);
        if lock(&self.current).1 == now {
            return;
        }
        let read = read(&self.files);
        // Only now: every handshake needs it.
        let mut current = lock(&self.current);
        current.1 = now;
        match read {
            Ok(config) => {
                current.0 = config;
                tracing::info!("the certificate of the web server was read again from {}", self.files.certificate.display());
            }
            Err(reason) => tracing::error!("the web server goes on with the certificate it has: {reason}"),
        }
    }
}

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.certificate), Some(&self.private_key), self.client_authorities.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}

fn changed(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    files.all().map(|path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()).collect()
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.private_key).map_err(|error| no_key(&files.private_key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let builder = match &files.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(path)? {
                authorities
                    .add(certificate)
                    .map_err(|error| unusable(path, "holds a certificate that cannot sign others", error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, "cannot be used", error))?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| unusable(&files.certificate, "and its private key do not fit", error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unusable(path, "cannot be read as PEM", error))?;
    if all.is_empty() { Err(unusable(path, "holds no certificate as PEM", HOW)) } else { Ok(all) }
}

fn no_key(path: &Path, error: impl Display) -> String {
    match std::fs::read_to_string(path).ok().and_then(|pem| password_problem(&pem)) {
        Some(problem) => format!("the private key in {} {problem}", path.display()),
        None => unusable(path, "holds no private key as PEM", error),
    }
}

const HOW: &str = "a key store of Java or PKCS 12 becomes PEM with: keytool -importkeystore -deststoretype PKCS12 …; openssl pkcs12 -nodes -in …";

fn unusable(path: &Path, what: &str, why: impl Display) -> String {
    format!("{} {what}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever writes the pipe is waited for, as a disk that hangs is.
    #[test]
    fn no_handshake_waits_for_files_that_are_read() {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tls");
        let directory = tempfile::tempdir().expect("a directory");
        let certificate = directory.path().join("server.pem");
        std::fs::copy(format!("{tests}/server.pem"), &certificate).expect("a certificate");
        let file = std::fs::File::options().write(true).open(&certificate).expect("it is there");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        let private_key = PathBuf::from(format!("{tests}/server.key"));
        let files = TlsFiles { certificate: certificate.clone(), private_key, client_authorities: None };
        let tls = Tls::open(files).expect("they fit");
        std::fs::remove_file(&certificate).expect("it is there");
        assert!(std::process::Command::new("mkfifo").arg(&certificate).status().expect("mkfifo runs").success());
        std::thread::scope(|scope| {
            scope.spawn(|| tls.look());
            // Only when it is opened to be read, too.
            let pipe = std::fs::File::options().write(true).open(&certificate).expect("it is read");
            let is_free = tls.current.try_lock().is_ok();
            // The scope would wait for whoever reads.
            drop(pipe);
            assert!(is_free);
        });
    }

    #[test]
    fn a_key_with_a_password_is_told_as_such() {
        let certificate = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tls/server.pem"));
        let directory = tempfile::tempdir().expect("a directory");
        for (key, expected) in [
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                "has a password, which is not read",
            ),
            ("nothing of use, ENCRYPTED or not", "holds no private key as PEM"),
        ] {
            let private_key = directory.path().join("server.key");
            std::fs::write(&private_key, key).expect("is written");
            let files = TlsFiles { certificate: certificate.clone(), private_key, client_authorities: None };
            let reason = match read(&files) {
                Err(reason) => reason,
                Ok(_) => panic!("{expected}: it is a key"),
            };
            assert!(reason.contains("server.key") && reason.contains(expected), "{reason}");
        }
    }
}
