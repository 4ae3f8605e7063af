//! Who is let in by real servers: with passwords that are kept elsewhere, and with certificates that are shown.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use crate::conformance::{anything, output, runtime};
use crate::real_server::{PATIENCE, RealServer, allow_secrets_in, results, wait};
use crate::*;

/// A server, and what gets results there and back.
struct Service {
    server: RealServer,
    source: Json,
    destination: Json,
}

/// A definition with more options, or other ones.
fn with(mut definition: Json, more: Json) -> Json {
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    definition
}

impl Service {
    fn new(server: RealServer, access: Json, source: Json, destination: Json) -> Service {
        Service { server, source: with(source, access.clone()), destination: with(destination, access) }
    }

    fn with(&self, more: Json) -> (Json, Json) {
        (with(self.source.clone(), more.clone()), with(self.destination.clone(), more))
    }
}

/// Without a login.
fn services(encrypted: bool) -> Vec<Service> {
    let certificates = [("CLIENT_CERTIFICATES", if encrypted { "1" } else { "0" })];
    let start = |script, ports| {
        RealServer::start_with(&certificates, script, ports, "passwords that are kept elsewhere, and certificates that are shown")
    };
    let mut all = Vec::new();
    if let Some(server) = start("nats.sh", 2) {
        create_stream(&server);
        let scheme = if encrypted { "tls" } else { "nats" };
        let access = json!({"servers": [format!("{scheme}://{}", server.address(0))]});
        let source = json!({"type": "NatsIngest", "stream": "results", "startFrom": "Earliest"});
        all.push(Service::new(server, access, source, json!({"type": "WriteToNats", "subject": "results"})));
    }
    if let Some(server) = start("mqtt.sh", 2) {
        let access = json!({"url": server.said(if encrypted { "MQTT_TLS_URL" } else { "MQTT_URL" })});
        let source = json!({"type": "MqttIngest", "clientId": "back", "topicFilters": ["results"]});
        all.push(Service::new(server, access, source, json!({"type": "WriteToMqtt", "topic": "results"})));
    }
    if let Some(server) = start("rabbitmq.sh", 4) {
        let url = server.said("AMQP_URL").replace("amqp://", "amqp://guest:guest@");
        let declared =
            Command::new("amqp-declare-queue").args(["--url", &url, "-q", "results", "-d"]).stdout(Stdio::null()).status();
        assert!(declared.unwrap().success());
        let access = json!({"url": server.said(if encrypted { "AMQP_TLS_URL" } else { "AMQP_URL" })});
        let source = json!({"type": "AmqpIngest", "queue": "results"});
        all.push(Service::new(server, access, source, json!({"type": "WriteToAmqp", "routingKey": "results"})));
    }
    all
}

/// The stream `results` of JetStream.
fn create_stream(server: &RealServer) {
    let config = json!({"name": "results", "subjects": ["results"]}).to_string();
    let create = format!("PUB $JS.API.STREAM.CREATE.results done {}\r\n{config}\r\n", config.len());
    let mut connection = TcpStream::connect(server.address(0)).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection.write_all(format!("CONNECT {{}}\r\nSUB done 1\r\n{create}").as_bytes()).unwrap();
    let (mut said, mut bytes) = (String::new(), [0; 4096]);
    while !said.contains("did_create") {
        let count = connection.read(&mut bytes).unwrap();
        assert!(count > 0, "{said}");
        said += &String::from_utf8_lossy(&bytes[..count]);
    }
}

/// Both ends, from the first time that they can be opened on.
struct Ends {
    source: Json,
    destination: Json,
    runtime: Runtime,
    stream: Option<RecordStream>,
    out: Option<Box<dyn Destination>>,
}

impl Ends {
    fn new((source, destination): (Json, Json)) -> Ends {
        Ends { source, destination, runtime: runtime(), stream: None, out: None }
    }

    /// What the stream says, if anything, after another moment; and whether something has come.
    fn next(&mut self) -> Result<bool, String> {
        let stream = match self.stream.take() {
            Some(stream) => Ok(stream),
            None => parse_source_v1(&self.source).unwrap().open(&anything(), None),
        };
        let (mut stream, mut batch) = (stream.map_err(|error| error.to_string())?, Frames::default());
        stream.next(&Limits::default(), &mut batch).map_err(|error| error.to_string())?;
        stream.durable(&batch.position).unwrap();
        let trouble = stream.trouble();
        self.stream = Some(stream);
        trouble.map_or(Ok(!batch.is_empty()), Err)
    }

    /// What the destination says when it is to write something.
    fn write(&mut self) -> Result<(), String> {
        let out = match self.out.take() {
            Some(out) => Ok(out),
            None => parse_destination_v1(&self.destination).and_then(|definition| definition.open(&output(&self.runtime), None)),
        };
        let mut out = out.map_err(|error| error.to_string())?;
        let written = out.write(&results(1), 0);
        if written.as_ref().err().is_none_or(ConnectorError::retryable) {
            self.out = Some(out);
        }
        let written = written.map_err(|error| error.to_string())?;
        assert!(written.refused.is_empty());
        if written.left.is_empty() { Ok(()) } else { Err(written.left_reason.unwrap_or_default()) }
    }

    /// Both cannot do their work, and say in time what is expected. Nothing of what they say holds a secret.
    fn fail(&mut self, told: impl Fn(&str) -> bool, secrets: &[&str]) {
        for end in ["source", "destination"] {
            let since = Instant::now();
            loop {
                let failed = if end == "source" { self.next().err() } else { self.write().err() };
                let said = failed.unwrap_or_default();
                assert!(secrets.iter().all(|secret| !said.contains(secret)), "a secret is told: {said}");
                if told(&said) {
                    break;
                }
                let kind = &self.source["type"];
                assert!(since.elapsed() < PATIENCE, "what the {end} says with {kind} is not what is expected: {said:?}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Results go out, and come in again.
    fn pass(&mut self) {
        // What comes before it has subscribed is not for everybody.
        let kind = self.source["type"].clone();
        wait(|| self.write().is_ok() && self.next().is_ok_and(|came| came), &format!("results go to {kind} and come in again"));
    }
}

/// Secrets, by what their files are called in the directory of their server: at first they are not there, then wrong, then right.
/// Who looks at the files when it begins only begins again for that.
fn by_reference(
    directory: &Path,
    secrets: &[(&str, &str)],
    refused: Option<&str>,
    at_each_connection: bool,
    ends: impl Fn(&BTreeMap<&str, Json>) -> (Json, Json),
) {
    const WRONG: &str = "wrong-hush";
    allow_secrets_in(directory);
    let path = |name: &str| directory.join(format!("secret-{name}"));
    let references: BTreeMap<&str, Json> = secrets.iter().map(|(name, _)| (*name, json!({"file": path(name)}))).collect();
    let hidden: Vec<&str> = secrets.iter().map(|(_, secret)| *secret).chain([WRONG]).collect();
    let mut both = Ends::new(ends(&references));
    let missing =
        |said: &str| secrets.iter().any(|(name, _)| said.contains(&format!("there is no file {}", path(name).display())));
    both.fail(missing, &hidden);
    if let Some(refused) = refused {
        secrets.iter().for_each(|(name, _)| fs::write(path(name), WRONG).unwrap());
        both.fail(|said| said.contains(refused), &hidden);
    }
    secrets.iter().for_each(|(name, secret)| fs::write(path(name), format!("{secret}\n")).unwrap());
    if !at_each_connection {
        both = Ends::new(ends(&references));
    }
    both.pass();
}

#[test]
fn passwords_that_are_kept_in_files_let_both_ends_in() {
    for service in services(false) {
        let (user, password, refused) = match service.source["type"].as_str() {
            Some("AmqpIngest") => ("guest", "guest", "403 ACCESS_REFUSED"),
            _ => ("weir", "geheim", "the login is refused"),
        };
        by_reference(service.server.directory(), &[("password", password)], Some(refused), true, |kept| {
            service.with(json!({"username": user, "password": kept["password"]}))
        });
        if service.source["type"] == "NatsIngest" {
            let seed = service.server.said("NATS_SEED");
            by_reference(service.server.directory(), &[("credentials", &seed)], None, true, |kept| {
                service.with(json!({"credentials": kept["credentials"]}))
            });
        }
    }
}

#[cfg(feature = "kafka")]
#[test]
fn passwords_of_kafka_may_be_kept_in_files() {
    let secure = [("KAFKA_SECURE", "1")];
    let Some(server) = RealServer::start_with(&secure, "kafka.sh", 6, "passwords of Kafka that are kept in files") else {
        return;
    };
    let directory = server.directory();
    for (kind, mechanism) in [("PlainLogin", "PLAIN"), ("ScramLogin", "SCRAM-SHA-256")] {
        let topic = format!("results-{mechanism}");
        by_reference(directory, &[(kind, &server.said("KAFKA_PASSWORD"))], Some("uthentication"), false, |kept| {
            let login = json!({"type": kind, "username": server.said("KAFKA_USER"), "password": kept[kind]});
            let access = json!({"bootstrapServers": server.said("KAFKA_SASL"), "saslJaasConfig": login});
            let mut properties = json!({"sasl.mechanism": mechanism});
            let source = json!({"type": "KafkaIngest", "topics": [topic], "autoOffsetReset": "earliest",
                "securityProtocol": "SASL_PLAINTEXT", "kafkaProperties": properties});
            properties["security.protocol"] = json!("SASL_PLAINTEXT");
            let destination = json!({"type": "WriteToKafka", "topic": topic, "kafkaProperties": properties});
            (with(access.clone(), source), with(access, destination))
        });
    }
}

/// The server takes any key: what is seen is that it is looked up, for requests that are signed with it.
#[cfg(feature = "aws")]
#[test]
fn keys_of_amazon_may_be_kept_in_files() {
    use crate::aws::server_tests::Server;
    let Some(server) = Server::start("aws.sh", "keys of Amazon that are kept in files") else { return };
    let queue = server.queue("results", json!({}));
    by_reference(server.real.directory(), &[("id", "AKIAHIDDENKEY"), ("key", "hidden/key")], None, true, |kept| {
        let credentials = json!({"accessKeyId": kept["id"], "secretAccessKey": kept["key"]});
        let access = json!({"queueUrl": queue, "credentials": credentials, "region": "us-east-1"});
        (with(access.clone(), json!({"type": "SQSIngest"})), with(access, json!({"type": "WriteToSQS"})))
    });
}

/// What is said of a certificate that is missing, or not one of those that the server knows.
const REFUSED: [&str; 4] = ["ertificate", "UnknownCA", "HandshakeFailure", "closed"];

#[test]
fn certificates_that_are_shown_let_both_ends_in() {
    for service in services(true) {
        let server = &service.server;
        let trusting = json!({"certificateAuthorities": server.made("ca.pem")});
        let showing = with(trusting.clone(), json!({"clientCertificate": server.made("client.pem")}));
        Ends::new(service.with(with(showing.clone(), json!({"clientKey": server.made("client.key")})))).pass();
        by_reference(
            server.directory(),
            &[("key", server.made("client.key").trim())],
            Some("is no private key in PEM"),
            true,
            |kept| service.with(with(showing.clone(), json!({"clientKey": kept["key"]}))),
        );
        // Nobody is let in who shows none, or one of another authority.
        let stranger =
            |name: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tls").join(name)).unwrap();
        let strange = json!({"clientCertificate": stranger("client.pem"), "clientKey": stranger("client.key")});
        for access in [trusting.clone(), with(trusting.clone(), strange)] {
            // As the two sides happen to say it, of several reasons.
            Ends::new(service.with(access)).fail(|said| REFUSED.iter().any(|reason| said.contains(reason)), &[]);
        }
    }
}
