//! Definitions as they are typed: from JSON to a connector's struct, with errors that name the option, and the option
//! fragments that several connectors share. It does not know any connector.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use crate::error::ConnectorError;
pub use crate::secret::{MASKED, Secret, with_secrets};

/// What stands between the field and the problem in the message of a nested definition: `from_json` inside a
/// `Deserialize` has only a message to hand on.
const NESTED: char = '\u{0}';

/// As `NESTED`, for a definition that does not know which option it stands in.
const INSIDE: char = '\u{1}';

/// Reads a definition. Unknown fields are ignored and null means absent, as in v1.
pub fn from_json<T: DeserializeOwned>(definition: &Json) -> Result<T, ConnectorError> {
    let Json::Object(fields) = definition else {
        return Err(ConnectorError::config("", wrong_type(definition, "object")));
    };
    let given: serde_json::Map<String, Json> =
        fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), value.clone())).collect();
    serde_path_to_error::deserialize(Json::Object(given.clone())).map_err(|error| {
        let message = error.inner().to_string();
        if let Some((field, problem)) = message.split_once(NESTED) {
            return ConnectorError::config(field, problem);
        }
        let path = match error.path().to_string() {
            // Of options that several connectors share serde does not know where they stood.
            path if path == "." => culprit::<T>(&given, &message).unwrap_or_default(),
            path => path,
        };
        if let Some((field, problem)) = message.split_once(INSIDE) {
            let error = ConnectorError::config(field, problem);
            return if path.is_empty() { error } else { error.within(&path) };
        }
        let (field, problem) = plain_problem(&message, at(definition, &path));
        let field = match (path.is_empty(), field.is_empty()) {
            (false, false) => format!("{path}.{field}"),
            _ => path + field,
        };
        ConnectorError::Config { field, problem }
    })
}

/// The option without which the definition has not this mistake.
fn culprit<T: DeserializeOwned>(given: &serde_json::Map<String, Json>, message: &str) -> Option<String> {
    let other = |name: &str| {
        let mut rest = given.clone();
        rest.remove(name);
        let mistake = T::deserialize(Json::Object(rest)).err().map(|error| error.to_string());
        mistake.as_deref() != Some(message)
            // Of one that is needed all that is known is that it is missing then.
            && (!mistake.is_some_and(|mistake| mistake.starts_with("missing field `")) || is_told(message, &given[name]))
    };
    given.keys().find(|name| other(name)).cloned()
}

/// Whether serde speaks of this value when it says what it did not expect.
fn is_told(message: &str, value: &Json) -> bool {
    let Some(told) = message.strip_prefix("invalid type: ") else { return false };
    match value {
        Json::String(text) => told.starts_with(&format!("string {text:?}")),
        Json::Number(number) => told.contains(&format!("`{number}`")),
        Json::Array(_) => told.starts_with("sequence"),
        Json::Object(_) => told.starts_with("map"),
        _ => false,
    }
}

/// What is said of a value of another kind than its option takes. What may be a secret that was put at the wrong place is not
/// told: texts, what lists and objects hold, and where an object belongs anything.
pub fn wrong_type(given: &Json, expected: &str) -> String {
    let kind = match given {
        Json::Array(items) if !items.is_empty() => "an array",
        Json::Object(fields) if !fields.is_empty() => "an object",
        Json::String(_) => "a string",
        Json::Number(_) if expected == "object" => "a number",
        told => return format!("Got value '{told}' with wrong type, expecting {expected}"),
    };
    format!("Got {kind} with wrong type, expecting {expected}")
}

/// The value at a path. Names may have dots in them, as those of properties have.
fn at<'d>(definition: &'d Json, path: &str) -> Option<&'d Json> {
    let inside = |(dot, _): (usize, &str)| at(definition.get(&path[..dot])?, &path[dot + 1..]);
    definition.get(path).or_else(|| path.match_indices('.').find_map(inside))
}

/// The kind of a tagged definition (`"type"`).
pub fn kind(definition: &Json) -> Result<&str, ConnectorError> {
    if !definition.is_object() {
        return Err(ConnectorError::config("", wrong_type(definition, "object")));
    }
    let kind = definition.get("type").and_then(Json::as_str);
    kind.ok_or_else(|| ConnectorError::config("", "Missing type discriminator field 'type'!"))
}

pub fn unknown_kind(kind: &str) -> ConnectorError {
    ConnectorError::config("", format!("No decoder for discriminator '{kind}'!"))
}

/// Hands the error of a nested definition through serde without losing which option it is about.
pub fn nested<E: serde::de::Error>(error: ConnectorError) -> E {
    marked(error, NESTED)
}

/// As `nested`, with the option that it stands in before its own. Formats of records and `keepAlive` are told without: so does
/// the reference service.
pub fn inside<E: serde::de::Error>(error: ConnectorError) -> E {
    marked(error, INSIDE)
}

fn marked<E: serde::de::Error>(error: ConnectorError, mark: char) -> E {
    match error {
        ConnectorError::Config { field, problem } => E::custom(format!("{field}{mark}{problem}")),
        other => E::custom(other.to_string()),
    }
}

/// Serde's words in those of the API: (the field when the message names one, the problem).
fn plain_problem<'m>(message: &'m str, value: Option<&Json>) -> (&'m str, String) {
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return (field, "Missing required field".to_owned());
    }
    if let Some((variant, known)) = message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected ")) {
        let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        return ("", format!("Invalid value: {variant} ; valid values are: {}", known.join(", ")));
    }
    // What was given stands before it, and may be anything.
    let (given, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    if let Some(given) = given.strip_prefix("invalid type: ") {
        let expected = match expected.trim_start_matches("a ") {
            "path string" => "string",
            "map" => "object",
            "sequence" => "array",
            other if other.starts_with("struct ") => "object",
            other => other,
        };
        let unknown =
            || format!("Got {} with wrong type, expecting {expected}", given.split([' ', '`']).next().unwrap_or_default());
        return ("", value.map_or_else(unknown, |value| wrong_type(value, expected)));
    }
    if given.starts_with("invalid value: string ") {
        return ("", format!("Got a string that cannot be, expecting {expected}"));
    }
    ("", message.to_owned())
}

/// A whole number, also as text (`"8"`), as v1 takes it.
fn whole(value: &Json) -> Option<i64> {
    match value {
        Json::Number(n) => n.as_i64().or_else(|| n.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64)),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// `deserialize_with` for a count: a whole number of at least 0.
pub fn count<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    let n = whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Long"))?;
    u64::try_from(n).map_err(|_| D::Error::custom(format!("{n} is too small; give a number of at least 0")))
}

/// `deserialize_with` for a count of at least 1.
pub fn positive_count<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    match count(input)? {
        0 => Err(D::Error::custom("0 is too small; give a number of at least 1")),
        n => Ok(n),
    }
}

/// `deserialize_with` for an optional count.
pub fn optional_count<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    count(input).map(Some)
}

/// `deserialize_with` for any whole number.
pub fn integer<'de, D: Deserializer<'de>>(input: D) -> Result<i64, D::Error> {
    whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Long"))
}

/// `deserialize_with` for how many of something there are at once, or may be: at least 1.
pub fn positive<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    at_least(1, input)
}

/// `deserialize_with` for how often something may happen, which may be never.
pub fn times<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    at_least(0, input)
}

fn at_least<'de, D: Deserializer<'de>>(least: u32, input: D) -> Result<u32, D::Error> {
    let n = whole(&Json::deserialize(input)?).ok_or_else(|| D::Error::custom("Int"))?;
    let n = u32::try_from(n).ok().filter(|n| (least..=i32::MAX as u32).contains(n));
    n.ok_or_else(|| D::Error::custom(format!("the number must be at least {least} and fit 31 bits")))
}

/// `deserialize_with` for an optional number of at least 1.
pub fn optional_positive<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    positive(input).map(Some)
}

/// `deserialize_with` for a port.
pub fn port<'de, D: Deserializer<'de>>(input: D) -> Result<u16, D::Error> {
    let port = whole(&Json::deserialize(input)?).and_then(|n| u16::try_from(n).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| D::Error::custom("give the number of a port, 1 to 65535"))
}

/// Simultaneous queries of a stream.
pub fn ingest_parallelism() -> u32 {
    16
}

/// The parameter a query finds its record or result in.
pub fn that() -> String {
    "that".to_owned()
}

pub fn utf_8() -> String {
    "UTF-8".to_owned()
}

/// 128 MiB.
pub fn line_bytes_max() -> u32 {
    134_217_728
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn what_may_be_a_secret_at_the_wrong_place_is_not_told_and_its_option_is() {
        let sources = [
            ("RedisIngest", "password", json!(12345678)),
            ("RedisIngest", "password", json!(["12345678"])),
            ("NatsIngest", "token", json!(12345678)),
            ("NatsIngest", "servers", json!("nats://u:12345678@h")),
            ("HttpPollIngest", "headers", json!("Authorization: 12345678")),
            ("HttpPollIngest", "headers", json!({"Authorization": 12345678})),
            ("HttpPollIngest", "headers", json!(12345678)),
            ("HttpPollIngest", "url", json!(["http://u:12345678@h"])),
            ("HttpPollIngest", "format", json!("12345678")),
            #[cfg(feature = "kafka")]
            ("KafkaIngest", "saslJaasConfig", json!("org.x.PlainLoginModule required password=12345678")),
            #[cfg(feature = "kafka")]
            ("KafkaIngest", "saslJaasConfig", json!({"type": "PlainLogin", "username": "u", "password": 12345678})),
            #[cfg(feature = "kafka")]
            ("KafkaIngest", "kafkaProperties", json!(["sasl.password=12345678"])),
            #[cfg(feature = "kafka")]
            ("KafkaIngest", "kafkaProperties", json!({"sasl.password": 12345678})),
            #[cfg(feature = "aws")]
            ("SQSIngest", "credentials", json!("AK:12345678")),
            #[cfg(feature = "aws")]
            ("SQSIngest", "credentials", json!({"accessKeyId": "a", "secretAccessKey": 12345678})),
        ];
        for (kind, option, wrong) in sources {
            let mut definition = json!({"type": kind, "url": "http://h/", "key": "k", "servers": ["nats://h"], "stream": "s",
                "topics": ["t"], "bootstrapServers": "h:1", "queueUrl": "http://h/q"});
            definition[option] = wrong;
            let refused =
                crate::parse_source_v1(&definition).err().unwrap_or_else(|| panic!("{definition} is taken")).to_string();
            assert!(!refused.contains("12345678"), "{definition}: {refused}");
            let named = if refused.contains("headers.") { "headers.Authorization" } else { option };
            // A format is known by its own options.
            let nested = option == "format" && definition[option].is_string();
            assert!(nested || refused.contains(named), "{definition}: {refused}");
        }
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn an_option_within_another_is_named_with_it() {
        let source = json!({"type": "KafkaIngest", "topics": ["t"], "bootstrapServers": "h:1"});
        let output = json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "h:1"});
        let with = |definition: &serde_json::Value, option: &str, given: serde_json::Value| {
            let mut definition = definition.clone();
            definition[option] = given;
            definition
        };
        let no_kind = "Missing type discriminator field 'type'!";
        let missing = "Missing required field";
        let unknown = "No decoder for discriminator 'Json'!";
        for (option, given, field, problem) in [
            ("offsetCommitting", json!({"type": "ExplicitCommit", "maxBatch": 0}), "offsetCommitting.maxBatch", "0 is too small"),
            ("offsetCommitting", json!({}), "offsetCommitting", no_kind),
            ("saslJaasConfig", json!({"type": "PlainLogin", "username": "u"}), "saslJaasConfig.password", missing),
            // As the reference service tells it.
            ("format", json!({"type": "CypherJson"}), "query", missing),
        ] {
            let refused = crate::parse_source_v1(&with(&source, option, given)).err().unwrap().to_string();
            assert!(refused.starts_with(&format!("option `{field}`: {problem}")), "{refused}");
        }
        for (option, given, field, problem) in [
            ("format", json!({"type": "Json"}), "format", unknown),
            ("format", json!({"type": "Avro", "subject": 5}), "format.subject", "expecting string"),
            ("saslJaasConfig", json!({}), "saslJaasConfig", no_kind),
        ] {
            let refused = crate::parse_destination_v1(&with(&output, option, given)).err().unwrap().to_string();
            assert!(refused.starts_with(&format!("option `{field}")) && refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_are_refused_without_their_passwords() {
        let context = crate::conformance::anything();
        for kind in ["HttpPollIngest", "ServerSentEventsIngest", "WebsocketSimpleStartupIngest"] {
            for url in ["http://u:hush@h:999999/", "ws://u:hush@h:999999/", "ftp://u:hush@h/", "hush"] {
                let config = crate::parse_source_v1(&json!({"type": kind, "url": url})).unwrap();
                let refused = config.check(&context).unwrap_err().to_string();
                assert!(!refused.contains("hush") && refused.contains("`url`"), "{kind} {url}: {refused}");
            }
        }
        for (option, wrong) in
            [("url", "http://u:hush@h:999999/"), ("url", "x://hush@h/"), ("hookUrl", "hush"), ("hookUrl", "ftp://hush")]
        {
            let kind = if option == "url" { "PostToEndpoint" } else { "PostToSlack" };
            let config = crate::parse_destination_v1(&json!({"type": kind, option: wrong})).unwrap();
            let refused = config.check().unwrap_err().to_string();
            assert!(!refused.contains("hush") && refused.contains(option), "{wrong}: {refused}");
        }
        for (kind, url, shown) in [
            ("HttpPollIngest", "http://u:hush@h/p?token=hush&page", "http://u:****@h/p?token=****&page"),
            ("ServerSentEventsIngest", "http://h?a=&k=hush=", "http://h/?a=&k=****"),
            ("WebsocketSimpleStartupIngest", "wss://h/s?sig=hush", "wss://h/s?sig=****"),
        ] {
            let definition = json!({"type": kind, "url": url, "initMessages": ["hush"]});
            let config = crate::parse_source_v1(&definition).unwrap();
            assert_eq!(config.settings()["url"], shown);
            assert!(!config.settings().to_string().contains("hush"), "{}", config.settings());
            assert_eq!(config.stored()["url"], url);
            let again = crate::parse_source_v1(&config.stored()).unwrap();
            assert_eq!((again.stored(), again.settings()), (config.stored(), config.settings()));
        }
        let socket = json!({"type": "WebsocketSimpleStartupIngest", "url": "ws://h/", "initMessages": ["hush"]});
        let socket = crate::parse_source_v1(&socket).unwrap();
        assert_eq!(socket.stored()["initMessages"], json!(["hush"]));
        assert_eq!(socket.settings()["initMessages"], json!([crate::config::MASKED]));
        for definition in [
            json!({"type": "PostToEndpoint", "url": "http://h/?code=hush"}),
            json!({"type": "PostToEndpoint", "url": "http://u:hush@h/"}),
            json!({"type": "PostToSlack", "hookUrl": "http://h/hush"}),
        ] {
            let config = crate::parse_destination_v1(&definition).unwrap();
            assert!(!config.settings().to_string().contains("hush"), "{}", config.settings());
            assert!(config.stored().to_string().contains("hush"), "{definition}");
        }
    }

    #[test]
    fn addresses_are_stored_whole_and_shown_without_what_may_be_secret() {
        let registry =
            |url: &str| json!({"type": "CypherAvro", "query": "RETURN 1", "parameter": "that", "schemaRegistry": {"url": url}});
        let sources = [
            ("RedisIngest", "url", json!("redis://h/0?password=hush"), json!("redis://h/0?password=****")),
            ("NatsIngest", "servers", json!(["nats://h", "tls://h?a=hush"]), json!(["nats://h", "tls://h?a=****"])),
            ("MqttIngest", "url", json!("mqtt://u:hush@h"), json!("mqtt://u:****@h")),
            ("AmqpIngest", "url", json!("amqp://h/v?password=hush"), json!("amqp://h/v?password=****")),
            ("PostgresIngest", "url", json!("postgres://h/d?password=hush"), json!("postgres://h/d?password=****")),
            ("ReactiveStream", "format", registry("http://h/r?key=hush"), registry("http://h/r?key=****")),
            #[cfg(feature = "aws")]
            ("KinesisIngest", "endpoint", json!("http://u:hush@h/?key=hush"), json!("http://u:****@h/?key=****")),
            #[cfg(feature = "aws")]
            ("KinesisKCLIngest", "endpoint", json!("http://u:hush@h/"), json!("http://u:****@h/")),
            #[cfg(feature = "aws")]
            ("S3Ingest", "endpoint", json!("http://u:hush@h/"), json!("http://u:****@h/")),
        ];
        for (kind, option, given, shown) in sources {
            let row = crate::SOURCES.iter().find(|row| row.name_v1 == kind).unwrap();
            let mut definition = (row.sample)();
            definition[option] = given.clone();
            let config = crate::parse_source_v1(&definition).unwrap();
            assert_eq!((&config.settings()[option], &config.stored()[option]), (&shown, &given), "{kind}");
            let told = config.check(&crate::conformance::anything()).err().map(|refused| refused.to_string());
            assert!(!told.unwrap_or_default().contains("hush"), "{kind}");
        }
        let destinations = [
            ("WriteToRedis", "url", json!("redis://h/0?password=hush"), json!("redis://h/0?password=****")),
            ("WriteToNats", "servers", json!(["nats://u:hush@h", "nats://h"]), json!(["nats://u:****@h", "nats://h"])),
            ("WriteToMqtt", "url", json!("mqtt://h?password=hush"), json!("mqtt://h?password=****")),
            ("WriteToAmqp", "url", json!("amqp://h/v?password=hush"), json!("amqp://h/v?password=****")),
            ("WriteToElasticsearch", "urls", json!(["http://h/?key=hush"]), json!(["http://h/?key=****"])),
            #[cfg(feature = "aws")]
            ("WriteToKinesis", "endpoint", json!("http://u:hush@h/"), json!("http://u:****@h/")),
            #[cfg(feature = "aws")]
            ("WriteToS3", "endpoint", json!("http://u:hush@h/"), json!("http://u:****@h/")),
            #[cfg(feature = "aws")]
            ("WriteToSNS", "endpoint", json!("http://u:hush@h/"), json!("http://u:****@h/")),
        ];
        for (kind, option, given, shown) in destinations {
            let row = crate::DESTINATIONS.iter().find(|row| row.name_v1 == kind).unwrap();
            let mut definition = (row.sample)();
            definition[option] = given.clone();
            let config = crate::parse_destination_v1(&definition).unwrap();
            assert_eq!((&config.settings()[option], &config.stored()[option]), (&shown, &given), "{kind}");
            let told = config.check().err().map(|refused| refused.to_string());
            assert!(!told.unwrap_or_default().contains("hush"), "{kind}");
        }
    }

    #[test]
    fn what_nobody_reads_of_an_address_is_refused_and_not_told() {
        let unread = "what stands behind a ? or # is not read; give it as options";
        for (kind, option, given, problem) in [
            ("RedisIngest", "url", json!("redis://h/0?password=hush"), unread),
            ("RedisIngest", "url", json!("redis://h/hush"), "what stands behind the server is not the number of a database"),
            ("NatsIngest", "servers", json!(["nats://h", "nats://h#hush"]), unread),
            ("MqttIngest", "url", json!("mqtt://h?hush"), unread),
            ("AmqpIngest", "url", json!("amqp://h/v#hush"), unread),
            ("PostgresIngest", "url", json!("postgres://h/d?password=hush"), unread),
            #[cfg(feature = "aws")]
            ("SQSIngest", "queueUrl", json!("http://u:hush@h/?tok=hush"), "names no queue"),
        ] {
            let row = crate::SOURCES.iter().find(|row| row.name_v1 == kind).unwrap();
            let mut definition = (row.sample)();
            definition[option] = given;
            let config = crate::parse_source_v1(&definition).unwrap();
            let refused = config.check(&crate::conformance::anything()).unwrap_err().to_string();
            assert_eq!(refused, format!("option `{option}`: {problem}"), "{kind}");
        }
    }
}
