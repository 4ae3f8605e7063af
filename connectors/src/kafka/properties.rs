//! From a definition to the settings of a client: what is typed in the definition, what stands in `kafkaProperties`, and
//! what weir needs.
//!
//! `kafkaProperties` has the names of the Java clients, so that a definition written for them works here: what librdkafka
//! calls otherwise is renamed, what only a Java client can do is refused or left out. librdkafka's own names work too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use rdkafka::ClientConfig;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, ProducerContext};
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::Voice;
use super::login::{SaslLogin, parse_jaas};
use super::property_names::SETTABLE;
use crate::config::{MASKED, Secret};
use crate::dial::holds_key;
use crate::error::ConnectorError;
use crate::host_policy::HostPolicy;
use crate::secret::Open;

const FIELD: &str = "kafkaProperties";

/// Settings of the Kafka client, from name to value. A value may be a reference to a secret.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct KafkaProperties(BTreeMap<String, Open>);

/// How the connection to the brokers is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SecurityProtocol {
    /// Not encrypted, no login.
    #[default]
    Plaintext,
    /// Encrypted with TLS, no SASL login.
    Ssl,
    /// Encrypted with TLS, with a SASL login.
    SaslSsl,
    /// Not encrypted, with a SASL login.
    SaslPlaintext,
}

impl SecurityProtocol {
    fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "plaintext",
            SecurityProtocol::Ssl => "ssl",
            SecurityProtocol::SaslSsl => "sasl_ssl",
            SecurityProtocol::SaslPlaintext => "sasl_plaintext",
        }
    }
}

/// How the broker is reached, as a definition says it.
pub struct Access<'a> {
    pub bootstrap_servers: &'a str,
    /// None where no option of the definition says it: then it is among the properties.
    pub security_protocol: Option<SecurityProtocol>,
    pub ssl_keystore_password: Option<&'a Secret>,
    pub ssl_truststore_password: Option<&'a Secret>,
    pub ssl_key_password: Option<&'a Secret>,
    pub sasl: Option<&'a SaslLogin>,
    pub properties: &'a KafkaProperties,
    /// Properties that an option of the definition, or weir itself, decides; with the reason.
    pub decided: &'a [(&'a str, &'a str)],
}

/// The settings of a client, and the login its tokens come from.
pub struct Settings {
    pub client: ClientConfig,
    pub login: Option<SaslLogin>,
    /// Properties without effect, as an option says the same.
    left_out: Vec<&'static str>,
}

impl Settings {
    /// Makes a client that reads of them and drops it: much is looked at only then, such as files, and what does not go together.
    /// It takes some milliseconds.
    pub fn try_to_read(&self) -> Result<(), ConnectorError> {
        self.try_out::<BaseConsumer<Voice>>()
    }

    /// As `try_to_read`, with a client that writes.
    pub fn try_to_write(&self) -> Result<(), ConnectorError> {
        self.try_out::<BaseProducer<Voice>>()
    }

    fn try_out<T: FromClientConfigAndContext<Voice>>(&self) -> Result<(), ConnectorError> {
        let mut config = self.client.clone();
        // Without these it connects to nothing, and has no group to leave.
        config.remove("bootstrap.servers").remove("group.id");
        let made: Result<T, KafkaError> = config.create_with_context(Voice::new("Kafka", self.login.clone()));
        // Others might show the value of a setting.
        made.map(drop).map_err(|error| match error {
            KafkaError::ClientCreation(reason) => ConnectorError::config(FIELD, reason),
            _ => ConnectorError::config(FIELD, "no client can be made with these properties"),
        })
    }

    /// Names the properties without effect in the log. For whoever begins with these settings: they are also made to be checked.
    pub fn tell_left_out(&self, place: &str) {
        if !self.left_out.is_empty() {
            let names = self.left_out.join(", ");
            tracing::warn!("{place}: of the {FIELD} these have no effect, as an option says the same: {names}");
        }
    }
}

/// For a client that is made and writes nothing.
impl ProducerContext for Voice {
    type DeliveryOpaque = ();

    fn delivery(&self, _result: &DeliveryResult<'_>, _opaque: ()) {}
}

/// What librdkafka calls otherwise, or has two names for: of two names, it is chance which is set last.
const RENAMED: &[(&str, &str)] = &[
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("max.request.size", "message.max.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ("ssl.keystore.key", "ssl.key.pem"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
];

/// What tunes a Java client and has no counterpart: left out, with a line in the log.
const WITHOUT_COUNTERPART: &[&str] = &[
    "auto.include.jmx.reporter",
    "buffer.memory",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "max.block.ms",
    "max.poll.records",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "socket.connection.setup.timeout.max.ms",
    "ssl.enabled.protocols",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
];

/// What would load code, start programs, or take the client out of weir's hands.
const REFUSED: &[(&str, &str)] = &[
    ("bootstrap.servers", "is the option bootstrapServers"),
    ("metadata.broker.list", "is the option bootstrapServers"),
    ("key.serializer", "is decided by weir"),
    ("value.serializer", "is decided by weir"),
    ("key.deserializer", "is decided by weir"),
    ("value.deserializer", "is decided by the format"),
    ("config.providers", "would load code"),
    ("interceptor.classes", "would load code"),
    ("partitioner.class", "would load code"),
    ("plugin.library.paths", "would load code"),
    ("sasl.client.callback.handler.class", "would load code"),
    ("sasl.login.callback.handler.class", "would load code"),
    ("sasl.login.class", "would load code"),
    ("sasl.oauthbearer.jwt.retriever.class", "would load code"),
    ("sasl.oauthbearer.jwt.validator.class", "would load code"),
    ("security.providers", "would load code"),
    ("ssl.engine.factory.class", "would load code"),
    ("ssl.engine.location", "would load code"),
    ("ssl.engine.id", "would load code"),
    ("ssl.providers", "would load code"),
    ("sasl.kerberos.kinit.cmd", "would start a program"),
    ("auto.commit.enable", "is called enable.auto.commit"),
    ("enable.auto.offset.store", "is decided by weir: an offset counts when its record is durable"),
    ("enable.partition.eof", "is decided by weir"),
    ("enabled_events", "is decided by weir"),
    ("log.queue", "is decided by weir"),
    ("internal.termination.signal", "would take a signal away from weir"),
    ("offset.store.path", "would write files: weir keeps the offsets itself"),
    ("delivery.report.only.error", "is decided by weir: every record is waited for"),
    ("sasl.oauthbearer.method", "is decided by saslJaasConfig"),
    ("sasl.oauthbearer.client.id", TOKENS),
    ("sasl.oauthbearer.client.secret", TOKENS),
    ("sasl.oauthbearer.scope", TOKENS),
    ("sasl.oauthbearer.token.endpoint.url", TOKENS),
    ("sasl.oauthbearer.client.credentials.client.id", TOKENS),
    ("sasl.oauthbearer.client.credentials.client.secret", TOKENS),
];

/// Whoever fetches tokens here is not the client.
const TOKENS: &str = "is given as saslJaasConfig: {\"type\": \"OAuthBearerLogin\", \"clientId\", \"clientSecret\", \"scope\", \"tokenEndpointUrl\"}";

impl KafkaProperties {
    /// One that is not kept elsewhere.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.0.known())
    }

    /// With what is secret in them masked.
    pub fn masked(&self) -> KafkaProperties {
        let hidden = |name: &str, value: &Open| value.0.known().is_some_and(|value| is_secret(name) || holds_key(value));
        let shown = |name: &String, value: &Open| if hidden(name, value) { Open(Secret::plain(MASKED)) } else { value.clone() };
        KafkaProperties(self.0.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect())
    }
}

// Not derived: values may be secret.
impl fmt::Debug for KafkaProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masked = self.masked();
        f.debug_map().entries(masked.0.iter().map(|(name, value)| (name, value.0.known().unwrap_or(MASKED)))).finish()
    }
}

/// What librdkafka calls it.
fn renamed(name: &str) -> &str {
    RENAMED.iter().find(|(java, _)| *java == name).map_or(name, |(_, ours)| ours)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let pieces = ["password", "secret", "jaas", "token", "credential", "assertion", "oauthbearer.config"];
    let keys = ["ssl.key.pem", "ssl.keystore.key"];
    pieces.iter().any(|piece| name.contains(piece)) && !name.ends_with(".url") || keys.contains(&name.as_str())
}

impl Access<'_> {
    /// What the client is to be set to, checked as far as it can be without a broker. Later entries of `needed` win over
    /// everything, those of `usual` over nothing.
    pub fn settings(&self, usual: &[(&str, &str)], needed: &[(&str, &str)]) -> Result<Settings, ConnectorError> {
        check_servers(self.bootstrap_servers)?;
        let mut client = ClientConfig::new();
        // Where an OpenSSL that came with the program finds whom to trust.
        client.set("ssl.ca.location", "probe");
        for (name, value) in usual {
            client.set(*name, *value);
        }
        let mut login = None;
        for (name, value) in &self.properties.0 {
            self.property(name, &value.0.value()?, &mut client, &mut login)?;
        }
        if self.sasl.is_some() {
            login = self.sasl.cloned();
        }
        client.set("bootstrap.servers", self.bootstrap_servers);
        if let Some(protocol) = self.security_protocol {
            client.set("security.protocol", protocol.name());
        }
        for (name, secret) in [("ssl.keystore.password", self.ssl_keystore_password), ("ssl.key.password", self.ssl_key_password)]
        {
            if let Some(secret) = secret {
                client.set(name, secret.value()?);
            }
        }
        // A trust store as librdkafka reads it, PEM, has no password.
        let _ = self.ssl_truststore_password;
        if let Some(login) = &login {
            log_in(login, &mut client)?;
        }
        let left_out = self.left_out(login.is_some());
        let logs_in = client.get("security.protocol").filter(|name| name.starts_with("sasl"));
        if let Some(protocol) = logs_in
            && login.is_none()
            && client.get("sasl.mechanism").is_none()
        {
            let protocol = protocol.to_ascii_uppercase();
            let field = if self.security_protocol.is_some() { "securityProtocol" } else { "kafkaProperties.security.protocol" };
            let problem =
                format!("{protocol} needs a login; give saslJaasConfig, or sasl.mechanism and what belongs to it in {FIELD}");
            return Err(ConnectorError::config(field, problem));
        }
        for (name, value) in needed {
            client.set(*name, *value);
        }
        match client.create_native_config() {
            Ok(_) => Ok(Settings { client, login, left_out }),
            Err(error) => Err(refused_setting(error)),
        }
    }

    /// Properties that say once more what an option of the definition says, or the login.
    fn left_out(&self, logs_in: bool) -> Vec<&'static str> {
        let said = [
            ("ssl.keystore.password", self.ssl_keystore_password.is_some()),
            ("ssl.key.password", self.ssl_key_password.is_some()),
            ("sasl.jaas.config", self.sasl.is_some()),
            ("sasl.username", logs_in),
            ("sasl.password", logs_in),
        ];
        let given = |(name, said): (&'static str, bool)| (said && self.properties.0.contains_key(name)).then_some(name);
        said.into_iter().filter_map(given).collect()
    }

    /// What the type says, or else the name of the file.
    fn key_store(&self, path: &str) -> KeyStore {
        match self.properties.get("ssl.keystore.type").map(str::to_ascii_uppercase).as_deref() {
            Some("PEM") => KeyStore::Pem,
            Some("JKS") => KeyStore::Java,
            None if ends_in(path, PEM_ENDINGS) => KeyStore::Pem,
            None if ends_in(path, &[".jks"]) => KeyStore::Java,
            _ => KeyStore::Pkcs12,
        }
    }

    fn property(
        &self,
        name: &str,
        value: &str,
        client: &mut ClientConfig,
        login: &mut Option<SaslLogin>,
    ) -> Result<(), ConnectorError> {
        let refuse = |problem: &str| Err(ConnectorError::config(&format!("{FIELD}.{name}"), problem));
        if let Some((_, why)) = self.decided.iter().chain(REFUSED).find(|(refused, _)| *refused == name) {
            return refuse(why);
        }
        if name == "security.protocol" && self.security_protocol.is_some() {
            return refuse("is the option securityProtocol");
        }
        if WITHOUT_COUNTERPART.contains(&name) {
            tracing::debug!("the Kafka property {name} tunes a Java client; it has no counterpart here and is left out");
            return Ok(());
        }
        match name {
            "sasl.jaas.config" => {
                *login = Some(parse_jaas(value).or_else(refuse_as(name))?);
            }
            "producer.override.sasl.jaas.config" | "consumer.override.sasl.jaas.config" | "admin.override.sasl.jaas.config" => {
                return refuse("is not a property of a client; give sasl.jaas.config, or the option saslJaasConfig");
            }
            "sasl.mechanism" | "sasl.mechanisms" if value == "GSSAPI" => {
                return refuse(
                    "Kerberos (GSSAPI) is not built in; there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER",
                );
            }
            "security.protocol" => {
                client.set(name, value.to_ascii_lowercase());
            }
            "ssl.truststore.location" => {
                let stated = self.properties.get("ssl.truststore.type").is_some_and(|kind| kind.eq_ignore_ascii_case("PEM"));
                if !stated && !ends_in(value, PEM_ENDINGS) {
                    return refuse(
                        "a Java trust store cannot be read; export its certificates as PEM (keytool -exportcert -rfc) and give \
                         that file, with ssl.truststore.type=PEM",
                    );
                }
                if !Path::new(value).exists() {
                    return refuse("there is no such file");
                }
                client.set("ssl.ca.location", value);
            }
            "ssl.truststore.type" | "ssl.truststore.password" => {}
            "ssl.keystore.location" => match self.key_store(value) {
                KeyStore::Pem => {
                    client.set("ssl.certificate.location", value).set("ssl.key.location", value);
                }
                KeyStore::Java => {
                    return refuse(
                        "a Java key store cannot be read; convert it (keytool -importkeystore -deststoretype PKCS12) and give \
                         ssl.keystore.type=PKCS12",
                    );
                }
                KeyStore::Pkcs12 => {
                    client.set(name, value);
                }
            },
            "ssl.keystore.type" => {}
            "ssl.endpoint.identification.algorithm" => {
                client.set(name, if value.is_empty() { "none" } else { value });
            }
            "partition.assignment.strategy" => {
                client.set(name, strategies(value));
            }
            "compression.gzip.level" | "compression.lz4.level" | "compression.zstd.level" => {
                // librdkafka has one for all of them: of Java's that of the codec counts.
                let codec = ["compression.type", "compression.codec"].into_iter().find_map(|name| self.properties.get(name));
                if codec.is_some_and(|codec| name == format!("compression.{codec}.level")) {
                    client.set("compression.level", value);
                }
            }
            "partitioner.ignore.keys" if value.eq_ignore_ascii_case("true") => {
                client.set("partitioner", "random");
            }
            "partitioner.ignore.keys" => {}
            "acks" if value.eq_ignore_ascii_case("all") => {
                client.set(name, "all");
            }
            _ => {
                let name = renamed(name);
                if !SETTABLE.contains(&name) {
                    // librdkafka would read it as if that were not there.
                    if name.strip_prefix("topic.").is_some_and(|bare| SETTABLE.contains(&renamed(bare))) {
                        return refuse("write it without `topic.`");
                    }
                    return refuse(
                        "No such configuration property: neither Java's clients nor librdkafka have one of this name that may be set",
                    );
                }
                client.set(name, value);
            }
        }
        Ok(())
    }
}

/// What the client's certificate and its key lie in.
enum KeyStore {
    Pem,
    Java,
    Pkcs12,
}

/// How files are called that are PEM.
const PEM_ENDINGS: &[&str] = &[".pem", ".crt", ".cer"];

fn ends_in(path: &str, endings: &[&str]) -> bool {
    let path = path.to_ascii_lowercase();
    endings.iter().any(|end| path.ends_with(end))
}

fn refuse_as(name: &str) -> impl FnOnce(&'static str) -> Result<SaslLogin, ConnectorError> {
    move |problem| Err(ConnectorError::config(&format!("{FIELD}.{name}"), problem))
}

/// Whether the hosts may be asked that a client begins with, and that tokens come from. Others that the brokers name are trusted
/// as these are.
pub fn check_hosts(servers: &str, settings: &Settings, hosts: &HostPolicy) -> Result<(), ConnectorError> {
    for server in servers.split(',').map(str::trim) {
        let address = server.rsplit_once("://").map_or(server, |(_, address)| address);
        let field = "bootstrapServers";
        let url = Url::parse(&format!("kafka://{address}"));
        let url = url.map_err(|error| ConnectorError::config(field, format!("'{server}' is not host:port: {error}")))?;
        hosts.check(&url).map_err(|error| error.within(field))?;
    }
    match &settings.login {
        Some(SaslLogin::OAuthBearerLogin(login)) => login.check_host(hosts),
        _ => Ok(()),
    }
}

/// What may stand before `://`.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// Whether it is the name or the address of a host; one of IPv6 stands in brackets.
fn is_host(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => !address.is_empty() && address.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '.')),
        None => !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/\\:[]?#".contains(c)),
    }
}

/// `host:port`, comma separated.
fn check_servers(servers: &str) -> Result<(), ConnectorError> {
    let refuse = |problem: String| Err(ConnectorError::config("bootstrapServers", problem));
    if servers.trim().is_empty() {
        return refuse("is empty; give host:port, several with commas between".to_owned());
    }
    // Before it is taken apart: a password may have a comma in it.
    if servers.contains('@') {
        return refuse("has an @ in it; give host:port, several with commas between, and a login as saslJaasConfig".to_owned());
    }
    for server in servers.split(',').map(str::trim) {
        let (protocol, address) = server.split_once("://").map_or((None, server), |(name, rest)| (Some(name), rest));
        if protocol.is_some_and(|name| !PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(name))) {
            return refuse(format!("what stands before :// is one of {}, or left out: give host:port", PROTOCOLS.join(", ")));
        }
        let port = address.rsplit_once(':').filter(|(host, _)| is_host(host)).map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            // What follows may be a key.
            let shown = server.split(['?', '#']).next().unwrap_or_default();
            return refuse(format!("'{shown}' is not host:port"));
        }
    }
    Ok(())
}

fn log_in(login: &SaslLogin, client: &mut ClientConfig) -> Result<(), ConnectorError> {
    let mechanism = client.get("sasl.mechanism").map(str::to_ascii_uppercase);
    let (mechanism, login) = match (login, mechanism.as_deref()) {
        (SaslLogin::PlainLogin(login), None | Some("PLAIN")) => ("PLAIN", login),
        (SaslLogin::ScramLogin(login), Some("SCRAM-SHA-256")) => ("SCRAM-SHA-256", login),
        (SaslLogin::ScramLogin(login), Some("SCRAM-SHA-512")) => ("SCRAM-SHA-512", login),
        (SaslLogin::OAuthBearerLogin(oauth), None | Some("OAUTHBEARER")) => {
            oauth.check()?;
            client.set("sasl.mechanism", "OAUTHBEARER");
            return Ok(());
        }
        (_, given) => {
            let given = given.map_or_else(|| "nothing".to_owned(), str::to_owned);
            let problem = format!("does not go with {given} as sasl.mechanism in {FIELD}: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512");
            return Err(ConnectorError::config("saslJaasConfig", problem));
        }
    };
    client.set("sasl.mechanism", mechanism).set("sasl.username", &login.username).set("sasl.password", login.password.value()?);
    Ok(())
}

/// Java's class names of the ways to share partitions.
fn strategies(classes: &str) -> String {
    let name = |class: &str| match class.trim().rsplit('.').next().unwrap_or_default() {
        "RangeAssignor" => "range".to_owned(),
        "RoundRobinAssignor" => "roundrobin".to_owned(),
        "CooperativeStickyAssignor" | "StickyAssignor" => "cooperative-sticky".to_owned(),
        other => other.to_owned(),
    };
    classes.split(',').map(name).collect::<Vec<_>>().join(",")
}

/// What librdkafka says of a setting, without values that may be secret.
fn refused_setting(error: KafkaError) -> ConnectorError {
    match error {
        KafkaError::ClientConfig(_, description, name, value) => {
            let tells = (is_secret(&name) || holds_key(&value)) && (value.is_empty() || description.contains(&value));
            let problem = if tells { "has a value that cannot be used".to_owned() } else { description };
            ConnectorError::config(&format!("{FIELD}.{name}"), problem)
        }
        other => ConnectorError::config(FIELD, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    /// With properties alone.
    fn access(properties: &KafkaProperties) -> Access<'_> {
        Access {
            bootstrap_servers: "a:1, b:2",
            security_protocol: None,
            ssl_keystore_password: None,
            ssl_truststore_password: None,
            ssl_key_password: None,
            sasl: None,
            properties,
            decided: &[("group.id", "is the option groupId")],
        }
    }

    fn settings(properties: &[(&str, &str)]) -> Result<Settings, ConnectorError> {
        let of = |(name, value): &(&str, &str)| ((*name).to_owned(), Open(Secret::plain(value)));
        let properties = KafkaProperties(properties.iter().map(of).collect());
        let access = access(&properties);
        access.settings(&[("linger.ms", "0")], &[("log.queue", "true")])
    }

    fn check(properties: &[(&str, &str)], expected: &[(&str, &str)]) {
        let settings = settings(properties).unwrap();
        for (name, value) in expected {
            assert_eq!(settings.client.get(name), Some(*value), "{name}");
        }
    }

    #[test]
    fn names_of_java_clients_are_understood() {
        check(&[("fetch.max.wait.ms", "7"), ("max.poll.records", "5")], &[("fetch.wait.max.ms", "7"), ("linger.ms", "0")]);
        check(&[("linger.ms", "9")], &[("linger.ms", "9"), ("bootstrap.servers", "a:1, b:2")]);
        check(
            &[("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN")],
            &[("security.protocol", "sasl_ssl"), ("ssl.ca.location", "probe")],
        );
        let jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"p\";";
        check(&[("sasl.jaas.config", jaas)], &[("sasl.mechanism", "PLAIN"), ("sasl.username", "u"), ("sasl.password", "p")]);
        let assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        check(&[("partition.assignment.strategy", assignor)], &[("partition.assignment.strategy", "cooperative-sticky")]);
        let authorities = tempfile::Builder::new().suffix(".pem").tempfile().unwrap();
        let authorities = authorities.path().to_str().unwrap();
        check(&[("ssl.truststore.location", authorities)], &[("ssl.ca.location", authorities)]);
        check(&[("socket.connection.setup.timeout.max.ms", "30000"), ("sasl.login.retry.backoff.ms", "100")], &[]);
        let levels = [("compression.type", "gzip"), ("compression.gzip.level", "5"), ("compression.zstd.level", "22")];
        check(&levels, &[("compression.level", "5")]);
        check(&[("partitioner.ignore.keys", "true")], &[("partitioner", "random")]);
        check(
            &[("ssl.keystore.location", "k"), ("ssl.keystore.type", "PEM")],
            &[("ssl.certificate.location", "k"), ("ssl.key.location", "k")],
        );
        check(&[("ssl.keystore.location", "k.pem")], &[("ssl.certificate.location", "k.pem"), ("ssl.key.location", "k.pem")]);
        check(&[("ssl.keystore.location", "k.p12")], &[("ssl.keystore.location", "k.p12")]);
        check(&[("ssl.keystore.location", "k.pem"), ("ssl.keystore.type", "PKCS12")], &[("ssl.keystore.location", "k.pem")]);
    }

    #[test]
    fn what_cannot_be_is_refused_without_the_value() {
        for (name, value, expected) in [
            ("no.such", "hush", "No such configuration property"),
            ("ut_handle_ProduceResponse", "hush", "No such configuration property"),
            ("test.mock.num.brokers", "hush", "No such configuration property"),
            ("dr_msg_cb", "hush", "No such configuration property"),
            ("opaque", "hush", "No such configuration property"),
            ("topic.request.required.acks", "hush", "write it without `topic.`"),
            ("topic.delivery.timeout.ms", "hush", "write it without `topic.`"),
            ("topic.offset.store.path", "hush", "No such configuration property"),
            ("enabled_events", "hush", "decided by weir"),
            ("internal.termination.signal", "hush", "signal"),
            ("offset.store.path", "hush", "files"),
            ("bootstrap.servers", "hush", "bootstrapServers"),
            ("group.id", "hush", "groupId"),
            ("plugin.library.paths", "hush", "would load code"),
            ("sasl.login.class", "hush", "would load code"),
            ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule hush", "JndiLoginModule"),
            ("ssl.truststore.location", "hush.jks", "keytool"),
            ("ssl.truststore.location", "hush.pem", "there is no such file"),
            ("ssl.keystore.location", "hush.jks", "keytool"),
            ("ssl.keystore.location", "hush.JKS", "keytool"),
            ("sasl.mechanism", "GSSAPI", "Kerberos"),
            ("sasl.oauthbearer.client.secret", "hush", "OAuthBearerLogin"),
        ] {
            let refused = settings(&[(name, value)]).err().unwrap().to_string();
            assert!(refused.contains(expected) && refused.contains(name) && !refused.contains("hush"), "{refused}");
        }
        for servers in [
            "",
            "host",
            "host:",
            ":9",
            "host:0",
            "host:70000",
            "a:1,,b:2",
            "http://a:1",
            "a:1, kafka://b:2",
            "a/b:1",
            "a b:1",
            "a:b:1",
            "::1:2",
            "[]:1",
            "[::1:2",
            "PLAINTEXT://SSL://a:1",
        ] {
            assert!(check_servers(servers).is_err(), "{servers}");
        }
        for servers in ["u:hush@a:1", "u:x,hush@a:1", "SSL://u:hush@a:1", "http://u:hush@a:1", "a:1?key=hush", "a:1#hush"] {
            let refused = check_servers(servers).unwrap_err().to_string();
            assert!(refused.contains("bootstrapServers") && refused.contains("host:port"), "{servers}: {refused}");
            assert!(!refused.contains("hush"), "{servers}: {refused}");
        }
        assert!(check_servers("a:1,[::1]:2, PLAINTEXT://c:3,sasl_ssl://d_e.f:4").is_ok());
    }

    #[test]
    fn names_that_may_be_set_are_those_of_librdkafka() {
        let is_refused = |name: &str| REFUSED.iter().any(|(refused, _)| *refused == name);
        for name in SETTABLE {
            // Of some the empty text is no value.
            let set = ClientConfig::new().set(*name, "").create_native_config().map(drop);
            let unknown = matches!(set, Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)));
            assert!(!unknown && !is_refused(name), "{name}");
        }
        for (java, ours) in RENAMED {
            assert!(SETTABLE.contains(ours) && !SETTABLE.contains(java), "{java}");
        }
        check(&[("socket.nagle.disable", "false"), ("max.in.flight", "5")], &[("max.in.flight", "5")]);
    }

    #[test]
    fn a_client_is_made_once_to_see_that_it_can_be() {
        let tried = |properties: &[(&str, &str)]| settings(properties).and_then(|settings| settings.try_to_read());
        tried(&[]).unwrap();
        tried(&[("group.protocol", "consumer")]).unwrap();
        for (properties, words) in [
            (&[("max.poll.interval.ms", "5000"), ("session.timeout.ms", "10000")][..], "max.poll.interval.ms"),
            (&[("fetch.max.bytes", "1")][..], "fetch.max.bytes"),
            (&[("security.protocol", "SSL"), ("ssl.certificate.location", "/nope.pem")][..], "ssl.certificate.location"),
            (&[("ssl.keystore.location", "/nope.p12")][..], "ssl.keystore.password"),
            (&[("group.protocol", "consumer"), ("session.timeout.ms", "10000")][..], "session.timeout.ms"),
            (&[("security.protocol", "SASL_PLAINTEXT")][..], "SASL_PLAINTEXT needs a login; give saslJaasConfig"),
        ] {
            let refused = tried(properties).unwrap_err().to_string();
            assert!(refused.contains("kafkaProperties") && refused.contains(words), "{refused}");
        }
        let none = KafkaProperties::default();
        let stated = |protocol| Access { security_protocol: Some(protocol), ..access(&none) }.settings(&[], &[]);
        let refused = stated(SecurityProtocol::SaslSsl).err().unwrap().to_string();
        assert!(refused.contains("`securityProtocol`: SASL_SSL needs a login"), "{refused}");
        assert!(stated(SecurityProtocol::Ssl).is_ok());
    }

    #[test]
    fn properties_that_an_option_overrides_are_named() {
        let names =
            ["linger.ms", "sasl.jaas.config", "sasl.password", "sasl.username", "ssl.key.password", "ssl.keystore.password"];
        let properties = KafkaProperties(names.iter().map(|name| ((*name).to_owned(), Open(Secret::plain("hush")))).collect());
        let password = Secret::Plain("hush".to_owned());
        let mut access = access(&properties);
        assert!(access.left_out(false).is_empty());
        // A login from the line of Java clients.
        assert_eq!(access.left_out(true), ["sasl.username", "sasl.password"]);
        access.ssl_key_password = Some(&password);
        assert_eq!(access.left_out(false), ["ssl.key.password"]);
    }

    #[test]
    fn secrets_are_masked() {
        let of = |name: &str| KafkaProperties(BTreeMap::from([(name.to_owned(), Open(Secret::plain("hush")))]));
        for name in [
            "sasl.password",
            "ssl.key.pem",
            "sasl.jaas.config",
            "ssl.keystore.password",
            "x.client.secret",
            "sasl.oauthbearer.config",
        ] {
            let masked = of(name).masked();
            assert!(masked.get(name) == Some(MASKED) && !format!("{:?}", of(name)).contains("hush"), "{name}");
        }
        assert_eq!(of("linger.ms").masked().get("linger.ms"), Some("hush"));
        // A key may stand behind its certificate.
        let key = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nhush";
        for name in ["ssl.certificate.pem", "ssl.keystore.certificate.chain", "ssl.ca.pem"] {
            let properties = KafkaProperties(BTreeMap::from([(name.to_owned(), Open(Secret::plain(key)))]));
            assert!(properties.masked().get(name) == Some(MASKED) && !format!("{properties:?}").contains("hush"), "{name}");
            let refused = refused_setting(KafkaError::ClientConfig(
                RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
                format!("{key} is wrong"),
                name.to_owned(),
                key.to_owned(),
            ));
            assert!(!refused.to_string().contains("hush"), "{refused}");
        }
    }
}
