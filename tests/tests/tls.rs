//! TLS of the web server: with a certificate, with clients that must show one, and with a port for probes beside it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_tests::client;
use weir_tests::kafka::free_ports;
use weir_tests::service::{Home, Weir, binary, wait_until};

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tls")).join(name)
}

fn start(home: &Home, more: &[&str]) -> Weir {
    let certificate = format!("-Dweir.webserver.tls.certificate={}", file("server.pem").display());
    let key = format!("-Dweir.webserver.tls.private-key={}", file("server.key").display());
    let usual = ["-Dweir.store.type=in-memory", "-Dweir.workers=1", "-Dweir.webserver.use-tls=on", &certificate, &key];
    home.start(&[&usual, more].concat())
}

/// The certificate that the server shows.
fn shown(address: SocketAddr) -> CertificateDer<'static> {
    let mut connection = connection(false);
    let mut socket = TcpStream::connect(address).expect("weir listens");
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).expect("a handshake");
    }
    connection.peer_certificates().expect("certificates")[0].clone().into_owned()
}

fn connection(with_certificate: bool) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = if with_certificate {
        let chain = vec![CertificateDer::from_pem_file(file("client.pem")).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(file("client.key")).expect("a key");
        builder.with_client_auth_cert(chain, key).expect("they fit")
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a connection")
}

/// The first line of an answer, or what went wrong on the way.
fn ask(address: SocketAddr, path: &str, with_certificate: bool) -> Result<String, String> {
    whole(address, path, with_certificate).map(|answer| answer.lines().next().unwrap_or_default().to_owned())
}

fn whole(address: SocketAddr, path: &str, with_certificate: bool) -> Result<String, String> {
    let connection = connection(with_certificate);
    let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let mut stream = StreamOwned::new(connection, socket);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(error.to_string()),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

const LIVENESS: &str = "/api/v2/system/liveness";

#[test]
fn the_server_speaks_tls() {
    let home = Home::new();
    let weir = start(&home, &[]);
    assert_eq!(ask(weir.address(), LIVENESS, false).expect("an answer"), "HTTP/1.1 204 No Content");
    assert!(client::send(weir.address(), "GET", LIVENESS, &[], b"").is_err(), "plain HTTP is not answered");
    // Browsers that were here come by TLS alone, whatever was answered.
    for path in [LIVENESS, "/", "/nothing/here"] {
        let answer = whole(weir.address(), path, false).expect("an answer").to_lowercase();
        assert!(answer.contains("\r\nstrict-transport-security: max-age=63072000; includesubdomains\r\n"), "{path}: {answer}");
    }
    // Who forgets the s is told.
    let place = format!("localhost:{}", weir.address().port());
    let output = Command::new(binary()).args(["query", "RETURN 1", "--url", &place]).output().expect("weir runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(3) && said.contains(&format!("does it speak TLS? Give --url https://{place}")),
        "{said}"
    );
    assert_eq!(ask(weir.address(), "/api/v2/system/config", false).expect("an answer"), "HTTP/1.1 200 OK");
}

#[test]
fn a_query_ends_with_its_client_over_tls() {
    let home = Home::new();
    let weir = start(&home, &[]);
    let query = "UNWIND range(1, 1000000) AS x UNWIND range(1, 1000000) AS y WITH x, y WHERE x + y < 0 RETURN x";
    let socket = TcpStream::connect(weir.address()).expect("a connection");
    let mut stream = StreamOwned::new(connection(false), socket);
    // With an empty line behind it.
    let head = "POST /api/v1/query/cypher HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{query}\r\n", query.len());
    stream.write_all(request.as_bytes()).expect("a request");
    stream.flush().expect("a request");
    let runs = || whole(weir.address(), "/api/v1/query/cypher/running", false).is_ok_and(|answer| answer.contains("1000000"));
    wait_until("the query is listed", Duration::from_secs(60), runs);
    drop(stream);
    wait_until("the query has ended", Duration::from_secs(10), || !runs());
}

#[test]
fn clients_must_show_a_certificate_and_probes_need_not() {
    let home = Home::new();
    // None that the system gives to a connection of another test.
    let free = SocketAddr::from(([127, 0, 0, 1], free_ports(1)));
    let trust = format!("-Dweir.webserver.use-mtls.trust-store.path={}", file("ca.pem").display());
    let port = format!("-Dweir.webserver.use-mtls.health-endpoints.port={}", free.port());
    let on = "-Dweir.webserver.use-mtls.health-endpoints.enabled=true";
    let weir = start(&home, &["-Dweir.webserver.use-mtls.enabled=on", &trust, on, &port]);
    assert_eq!(ask(weir.address(), LIVENESS, true).expect("an answer"), "HTTP/1.1 204 No Content");
    for _ in 0..2 {
        ask(weir.address(), LIVENESS, false).expect_err("without a certificate");
    }
    let refused = || weir.log().matches("was refused, for its handshake failed").count();
    wait_until("who is refused is told", Duration::from_secs(60), || refused() > 0);
    assert_eq!(refused(), 1, "not each one: {}", weir.log());
    let by_command = |certificate: &str, key: &str| {
        let mut command = Command::new(binary());
        command.args([
            "query",
            "--format",
            "csv",
            "--url",
            &format!("https://localhost:{}", weir.address().port()),
            "RETURN 7 AS n",
        ]);
        command.env("SSL_CERT_FILE", file("ca.pem")).env("WEIR_CERT", certificate).env("WEIR_KEY", key);
        let output = command.output().expect("weir runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim_end().replace("\r\n", " "), output.stderr)
    };
    let (certificate, key) = (file("client.pem").display().to_string(), file("client.key").display().to_string());
    assert_eq!(by_command(&certificate, &key), (true, "n 7".to_owned(), Vec::new()));
    assert!(!by_command("", "").0, "without a certificate");
    let (done, _, said) = by_command("nowhere.pem", &key);
    assert!(!done && String::from_utf8_lossy(&said).contains("WEIR_CERT: nowhere.pem cannot be read"));
    let (done, _, said) = by_command(&certificate, "");
    assert!(!done && String::from_utf8_lossy(&said).contains("WEIR_CERT and WEIR_KEY: "), "a certificate without its key");
    let plain = |path: &str| client::send(free, "GET", path, &[], b"").expect("an answer").status;
    assert_eq!((plain(LIVENESS), plain("/api/v2/admin/readiness"), plain("/api/v2/system/config")), (204, 204, 404));
}

/// Certificates are changed on the disk while weir runs: connections that are new get the new one, and one that cannot be used
/// leaves the old one in force.
#[test]
fn certificates_that_change_are_read_again() {
    let home = Home::new();
    let put = |name: &str| {
        // Under another name until it is whole, as tools that renew certificates do it.
        for (from, to) in [(format!("{name}.pem"), "now.pem"), (format!("{name}.key"), "now.key")] {
            std::fs::copy(file(&from), home.file("next")).expect("a copy");
            std::fs::rename(home.file("next"), home.file(to)).expect("a file");
        }
    };
    put("client");
    let usual = ["-Dweir.store.type=in-memory", "-Dweir.workers=1", "-Dweir.webserver.use-tls=on"];
    let files = ["-Dweir.webserver.tls.certificate=now.pem", "-Dweir.webserver.tls.private-key=now.key"];
    let weir = home.start(&[&usual[..], &files[..]].concat());
    let certificate = |name: &str| CertificateDer::from_pem_file(file(name)).expect("a certificate");
    assert_eq!(shown(weir.address()), certificate("client.pem"));
    put("server");
    let renewed = || shown(weir.address()) == certificate("server.pem");
    wait_until("the new certificate is shown", Duration::from_secs(60), renewed);
    home.write("now.pem", "nothing of use");
    wait_until("the useless one is told", Duration::from_secs(60), || weir.log().contains("goes on with the certificate it has"));
    assert!(renewed());
    assert_eq!(ask(weir.address(), LIVENESS, false).expect("an answer"), "HTTP/1.1 204 No Content");
    weir.stop();
}

#[test]
fn what_cannot_be_used_is_said_at_the_start() {
    let home = Home::new();
    home.write("empty.pem", "");
    let (certificate, other) = (file("server.pem").display().to_string(), file("client.key").display().to_string());
    for (certificate, key, expected) in [
        ("empty.pem", "empty.pem", "empty.pem holds no certificate as PEM"),
        ("absent.pem", "absent.pem", "absent.pem cannot be read as PEM"),
        (certificate.as_str(), other.as_str(), "and its private key do not fit"),
    ] {
        let certificate = format!("-Dweir.webserver.tls.certificate={certificate}");
        let key = format!("-Dweir.webserver.tls.private-key={key}");
        let weir = home.spawn(&["-Dweir.webserver.use-tls=on", &certificate, &key]);
        let (status, log) = weir.wait_end(Duration::from_secs(60));
        // A start of its own accord mends none of them.
        assert_eq!(status.code(), Some(2), "{log}");
        assert!(log.contains(expected) && log.contains("webserver.tls"), "{log}");
    }
}
