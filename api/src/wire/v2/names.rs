//! The names of v2 beside those of v1: one table for bodies in, bodies out, and the words of errors.

use std::time::Duration;

use serde_json::{Map as JsonMap, Value as Json, json};

use crate::clock;
use crate::wire::decode::AT;
use crate::wire::family::{Family, parse_duration, pascal, plain_word, screaming, setting_text};

/// The longest name of a resource.
const NAME_BYTES_MAX: usize = 128;

/// Why a text is no name of a resource: v2 as of today is strict about those.
pub fn no_name(name: &str) -> Option<String> {
    let fine = matches!(name.len(), 1..=NAME_BYTES_MAX)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.~-".contains(&byte));
    (!fine).then(|| format!("'{name}' is no name: use 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 _ . ~ -"))
}

/// A field that v2 names otherwise.
pub struct Renamed {
    pub v1: &'static str,
    pub v2: &'static str,
    /// The unit of the number in v1, where v2 as of today writes a duration; the preview has the name of v1 then.
    pub unit_millis: Option<u64>,
    /// The object it stands in, where another one has a field of that name in v2.
    pub within: Option<&'static str>,
}

const fn renamed(v1: &'static str, v2: &'static str) -> Renamed {
    Renamed { v1, v2, unit_millis: None, within: None }
}

const fn duration(v1: &'static str, v2: &'static str, unit_millis: u64) -> Renamed {
    Renamed { v1, v2, unit_millis: Some(unit_millis), within: None }
}

pub const FIELDS: &[Renamed] = &[
    renamed("startAtOffset", "startOffset"),
    renamed("ingestLimit", "limit"),
    renamed("encoding", "characterEncoding"),
    renamed("maximumPerSecond", "maxPerSecond"),
    duration("maxIntervalMillis", "maxInterval", 1),
    Renamed { within: Some("keepAlive"), ..duration("intervalMillis", "interval", 1) },
    duration("intervalSeconds", "interval", 1000),
    duration("claimAfterSeconds", "claimAfter", 1000),
    duration("keepSeconds", "keepFor", 1000),
    Renamed { within: Some("retryPolicy"), ..duration("minBackoffMillis", "minBackoff", 1) },
    Renamed { within: Some("retryPolicy"), ..duration("maxBackoffMillis", "maxBackoff", 1) },
    // Of KinesisKCL.
    Renamed { within: Some("initialPosition"), ..renamed("dayOfMonth", "date") },
    duration("backpressureTimeoutMillis", "backpressureTimeout", 1),
    duration("maxBatchWaitMillis", "maxBatchWait", 1),
    duration("failoverTimeMillis", "failoverTime", 1),
    duration("shardSyncIntervalMillis", "shardSyncInterval", 1),
    duration("gracefulLeaseHandoffTimeoutMillis", "gracefulLeaseHandoffTimeout", 1),
    duration("retryBackoffMillis", "retryBackoff", 1),
    duration("retryGetRecordsInSeconds", "retryGetRecordsAfter", 1000),
    duration("idleTimeBetweenReadsInMillis", "idleTimeBetweenReads", 1),
    duration("parentShardPollIntervalMillis", "parentShardPollInterval", 1),
    duration("taskBackoffTimeMillis", "taskBackoffTime", 1),
    duration("logWarningForTaskAfterMillis", "logWarningForTaskAfter", 1),
    duration("listShardsBackoffTimeInMillis", "listShardsBackoffTime", 1),
    duration("metricsBufferTimeMillis", "metricsBufferTime", 1),
];

/// A moment: milliseconds in v1, a text in v2; the object it stands in, and its name there.
pub const MOMENT: (&str, (&str, &str)) = ("millisSinceEpoch", ("iteratorType", "at"));

/// Always an object, also where v1 has a word.
const PLACES: [&str; 2] = ["iteratorType", "initialPosition"];

/// Objects whose fields the user has named.
const OF_THE_USER: [&str; 3] = ["kafkaProperties", "topics", "headers"];

/// How a field is named otherwise, by either name.
fn known(name: &str, within: &str) -> Option<&'static Renamed> {
    let fits = |renamed: &&Renamed| renamed.within.is_none_or(|object| object == within);
    FIELDS.iter().filter(fits).find(|renamed| renamed.v1 == name || renamed.v2 == name)
}

/// Fields whose value is a word. In the preview some of these words are tagged objects.
pub const WORDS: &[(&str, bool)] = &[
    ("recordDecoders", true),
    ("autoOffsetReset", true),
    ("fileIngestMode", true),
    ("delimiter", false),
    ("quoteChar", false),
    ("escapeChar", false),
];

/// Words of weir's own, which are shown as in v1 and may be written as the others.
const OWN_WORDS: [&str; 4] = ["startFrom", "compression", "rows", "cancellations"];

/// Words that are shouted in every family, such as SASL_SSL.
const SHOUTED: [&str; 5] = ["securityProtocol", "billingMode", "clientVersionConfig", "metricsLevel", "metricsEnabledDimensions"];

/// Fields whose words are in lower case in v1.
const LOWER: &[&str] = &["autoOffsetReset"];

/// A field of v2 as v1 has it.
pub fn to_v1(name: &str, value: &Json) -> (String, Json) {
    to_v1_within("", name, value)
}

fn to_v1_within(within: &str, name: &str, value: &Json) -> (String, Json) {
    let known = known(name, within);
    let v1 = known.map_or(name, |renamed| renamed.v1).to_owned();
    let value = match (known.and_then(|renamed| renamed.unit_millis), value) {
        (Some(unit), Json::String(text)) => match parse_duration(text) {
            // What is no whole number there is refused there, rather than something else.
            Some(duration) => match duration.as_millis() as u64 {
                millis if millis.is_multiple_of(unit) => json!(millis / unit),
                millis => json!(millis as f64 / unit as f64),
            },
            None => value.clone(),
        },
        _ if WORDS.iter().any(|(word, _)| *word == name) || OWN_WORDS.contains(&name) => words_to_v1(name, value),
        _ if SHOUTED.contains(&name) => shouted(value),
        (_, Json::String(word)) if PLACES.contains(&name) || PLACES.contains(&within) && name == "type" => pascal(word).into(),
        (_, Json::String(text)) if (within, name) == MOMENT.1 => match clock::parse_instant(text) {
            Some(millis) => return (MOMENT.0.to_owned(), json!(millis)),
            None => value.clone(),
        },
        (_, Json::Object(fields)) if !OF_THE_USER.contains(&name) => {
            Json::Object(fields.iter().map(|(inner, value)| to_v1_within(name, inner, value)).collect())
        }
        _ => value.clone(),
    };
    (v1, value)
}

fn words_to_v1(name: &str, value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(|item| words_to_v1(name, item)).collect(),
        other => match plain_word(other) {
            Some(word) if LOWER.contains(&name) => word.to_lowercase().into(),
            Some(word) => word.into(),
            None => other.clone(),
        },
    }
}

fn shouted(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(shouted).collect(),
        Json::Object(tagged) => tagged.get("type").filter(|word| word.is_string()).map_or_else(|| value.clone(), shouted),
        Json::String(word) => screaming(word).into(),
        other => other.clone(),
    }
}

/// A field of v1 as a family of v2 has it.
pub fn to_v2(name: &str, value: &Json, family: Family) -> (String, Json) {
    to_v2_within("", name, value, family)
}

/// As `to_v2`, of a field wherever it stands.
pub fn to_v2_anywhere(name: &str, value: &Json, family: Family) -> (String, Json) {
    let within = FIELDS.iter().find(|field| field.v1 == name).and_then(|field| field.within);
    to_v2_within(within.unwrap_or_default(), name, value, family)
}

fn to_v2_within(within: &str, name: &str, value: &Json, family: Family) -> (String, Json) {
    let known = known(name, within).filter(|renamed| renamed.v1 == name);
    let as_number = known.is_some_and(|renamed| renamed.unit_millis.is_some()) && family == Family::Preview;
    let v2 = known.filter(|_| !as_number).map_or(name, |renamed| renamed.v2).to_owned();
    let unit = known.and_then(|renamed| renamed.unit_millis).filter(|_| !as_number);
    let value = match (unit, value) {
        (Some(unit), Json::Number(number)) => {
            let millis = number.as_u64().unwrap_or_default().saturating_mul(unit);
            setting_text(Duration::from_millis(millis)).into()
        }
        _ if WORDS.iter().any(|(word, _)| *word == name) => words_to_v2(name, value, family),
        (_, Json::String(word)) if PLACES.contains(&name) => json!({"type": word}),
        (_, Json::Number(millis)) if (within, name) == (MOMENT.1.0, MOMENT.0) && family == Family::Current => {
            let moment = clock::from_millis(millis.as_u64().unwrap_or_default());
            return (MOMENT.1.1.to_owned(), clock::instant(moment).into());
        }
        (_, Json::Object(fields)) if name == "region" && fields.len() == 1 => fields.values().next().cloned().unwrap_or_default(),
        (_, Json::Object(fields)) if !OF_THE_USER.contains(&name) => {
            Json::Object(fields.iter().map(|(inner, value)| to_v2_within(name, inner, value, family)).collect())
        }
        _ => value.clone(),
    };
    (v2, value)
}

fn words_to_v2(name: &str, value: &Json, family: Family) -> Json {
    let tagged = WORDS.iter().any(|(word, tagged)| *word == name && *tagged);
    match value {
        Json::Array(items) => items.iter().map(|item| words_to_v2(name, item, family)).collect(),
        Json::String(word) => {
            let mut letters = word.chars();
            let word: String = letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect();
            if tagged && family == Family::Preview { json!({"type": word}) } else { family.word(&word).into() }
        }
        other => other.clone(),
    }
}

/// All fields of an object but some.
pub fn fields_to_v2(object: &Json, without: &[&str], family: Family) -> JsonMap<String, Json> {
    let fields = object.as_object().into_iter().flatten().filter(|(name, _)| !without.contains(&name.as_str()));
    fields.map(|(name, value)| to_v2(name, value, family)).collect()
}

/// A mistake that v1 would be told, with the names the writer of the body has used.
pub fn mistake(text: String) -> String {
    let Some((path, problem)) = text.strip_prefix(AT).and_then(|rest| rest.split_once(": ")) else {
        return text;
    };
    if let Some(place) = path.strip_suffix(MOMENT.0) {
        return format!("{AT}{place}{}: a moment such as 2026-02-03T04:05:06Z", MOMENT.1.1);
    }
    let last = path.rsplit('.').next().unwrap_or_default();
    let unit = FIELDS.iter().find(|renamed| renamed.v1 == last).and_then(|renamed| renamed.unit_millis);
    let problem = match (problem, unit) {
        ("Int" | "Long", Some(1000)) => "a duration of whole seconds, such as 10s, 1h30m or 2d",
        ("Int" | "Long", Some(_)) => "a duration such as 10s",
        _ => problem,
    };
    // A path from inside an object does not say of which; there is one way to name the fields that mistakes are made in.
    let part = |part| FIELDS.iter().find(|renamed| renamed.v1 == part).map_or(part, |renamed| renamed.v2);
    let path: Vec<&str> = path.split('.').map(part).collect();
    format!("{AT}{}: {problem}", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_there_and_back() {
        let v1 = json!({"startAtOffset": 1, "fileIngestMode": "NamedPipe", "recordDecoders": ["Gzip"], "autoOffsetReset": "latest",
            "offsetCommitting": {"type": "ExplicitCommit", "maxIntervalMillis": 10_000}, "delimiter": "DoubleQuote",
            "kafkaProperties": {"encoding": "x", "limit": "y"}, "keepAlive": {"type": "PingPongInterval", "intervalMillis": 1500},
            "intervalSeconds": 20, "rotation": {"bytesMax": 5, "intervalSeconds": 3600, "keepSeconds": 90, "compression": "Zstd"}, "startFrom": "Earliest",
            "retryPolicy": {"maxTries": 3, "minBackoffMillis": 250, "maxBackoffMillis": 60_000}});
        let current = json!({"startOffset": 1, "fileIngestMode": "NAMED_PIPE", "recordDecoders": ["GZIP"], "autoOffsetReset": "LATEST",
            "offsetCommitting": {"type": "ExplicitCommit", "maxInterval": "10s"}, "delimiter": "DOUBLE_QUOTE",
            "kafkaProperties": {"encoding": "x", "limit": "y"}, "keepAlive": {"type": "PingPongInterval", "interval": "1500ms"},
            "interval": "20s", "rotation": {"bytesMax": 5, "interval": "1h", "keepFor": "1m30s", "compression": "Zstd"}, "startFrom": "Earliest",
            "retryPolicy": {"maxTries": 3, "minBackoff": "250ms", "maxBackoff": "1m"}});
        let preview = json!({"startOffset": 1, "fileIngestMode": {"type": "NamedPipe"}, "recordDecoders": [{"type": "Gzip"}],
            "autoOffsetReset": {"type": "Latest"}, "offsetCommitting": {"type": "ExplicitCommit", "maxIntervalMillis": 10_000},
            "delimiter": "DoubleQuote", "kafkaProperties": {"encoding": "x", "limit": "y"}, "keepAlive": {"type": "PingPongInterval", "intervalMillis": 1500},
            "intervalSeconds": 20, "rotation": {"bytesMax": 5, "intervalSeconds": 3600, "keepSeconds": 90, "compression": "Zstd"}, "startFrom": "Earliest",
            "retryPolicy": {"maxTries": 3, "minBackoffMillis": 250, "maxBackoffMillis": 60_000}});
        assert_eq!(Json::Object(fields_to_v2(&v1, &[], Family::Current)), current);
        assert_eq!(Json::Object(fields_to_v2(&v1, &[], Family::Preview)), preview);
        for v2 in [current, preview] {
            let back: JsonMap<String, Json> =
                v2.as_object().into_iter().flatten().map(|(name, value)| to_v1(name, value)).collect();
            assert_eq!(Json::Object(back), v1);
        }
    }

    #[test]
    fn words_may_be_shouted_and_tagged() {
        for spelt in [json!("EARLIEST"), json!("Earliest"), json!({"type": "Earliest"})] {
            assert_eq!(to_v1("startFrom", &spelt).1, "Earliest");
        }
        assert_eq!(to_v1("rotation", &json!({"bytesMax": 5, "compression": "ZSTD"})).1["compression"], "Zstd");
        for name in PLACES {
            for spelt in [json!("TRIM_HORIZON"), json!("TrimHorizon")] {
                assert_eq!(to_v1(name, &spelt).1, "TrimHorizon");
                assert_eq!(to_v1(name, &json!({"type": spelt})).1, json!({"type": "TrimHorizon"}));
            }
        }
        // In other objects it is no word.
        assert_eq!(to_v1("other", &json!({"type": "TRIM_HORIZON"})).1, json!({"type": "TRIM_HORIZON"}));
        for (name, word) in [("securityProtocol", "SASL_SSL"), ("clientVersionConfig", "CLIENT_VERSION_CONFIG_3X")] {
            for spelt in [json!(word), json!({"type": word})] {
                assert_eq!(to_v1(name, &spelt).1, word);
            }
        }
        assert_eq!(to_v1("securityProtocol", &json!({"type": "SaslSsl"})).1, "SASL_SSL");
        assert_eq!(to_v1("securityProtocol", &json!({"kind": 5})).1, json!({"kind": 5}));
        let inner = json!({"metricsLevel": {"type": "Summary"}, "metricsEnabledDimensions": [{"type": "STREAM_IDENTIFIER"}]});
        let kept = json!({"metricsLevel": "SUMMARY", "metricsEnabledDimensions": ["STREAM_IDENTIFIER"]});
        assert_eq!(to_v1("metricsConfig", &inner).1, kept);
    }

    #[test]
    fn a_duration_between_two_numbers_of_v1_becomes_neither() {
        for (text, number) in [("500ms", json!(0.5)), ("1s", json!(1)), ("1500ms", json!(1.5)), ("0s", json!(0))] {
            assert_eq!(to_v1("claimAfter", &json!(text)).1, number, "{text}");
        }
        assert_eq!(to_v1("maxInterval", &json!("1500ms")).1, json!(1500));
    }

    #[test]
    fn where_kinesis_begins_is_written_otherwise() {
        let v1 = json!({"region": {"region": "eu-west-1"}, "iteratorType": {"type": "AtTimestamp", "millisSinceEpoch": 1_700_000_000_000u64}});
        let current = Json::Object(fields_to_v2(&v1, &[], Family::Current));
        assert_eq!(current["region"], "eu-west-1");
        assert_eq!(to_v1("iteratorType", &current["iteratorType"]).1, v1["iteratorType"], "{current}");
        assert!(current["iteratorType"]["at"].is_string(), "{current}");
        let preview = Json::Object(fields_to_v2(&v1, &[], Family::Preview));
        assert_eq!(preview["iteratorType"], v1["iteratorType"]);
        let word = Json::Object(fields_to_v2(&json!({"iteratorType": "Latest"}), &[], Family::Current));
        assert_eq!(word, json!({"iteratorType": {"type": "Latest"}}));
    }

    #[test]
    fn the_options_of_shared_shards_are_written_otherwise() {
        let v1 = json!({"initialPosition": {"type": "AtTimestamp", "year": 2026, "month": 1, "dayOfMonth": 2, "hourOfDay": 3, "minute": 4, "second": 5},
            "checkpointSettings": {"disableCheckpointing": false, "maxBatchWaitMillis": 90_000},
            "advancedSettings": {"leaseManagementConfig": {"failoverTimeMillis": 10_000, "billingMode": "PAY_PER_REQUEST"},
                "retrievalSpecificConfig": {"type": "PollingConfig", "retryGetRecordsInSeconds": 1, "idleTimeBetweenReadsInMillis": 1500}}});
        let current = json!({"initialPosition": {"type": "AtTimestamp", "year": 2026, "month": 1, "date": 2, "hourOfDay": 3, "minute": 4, "second": 5},
            "checkpointSettings": {"disableCheckpointing": false, "maxBatchWait": "1m30s"},
            "advancedSettings": {"leaseManagementConfig": {"failoverTime": "10s", "billingMode": "PAY_PER_REQUEST"},
                "retrievalSpecificConfig": {"type": "PollingConfig", "retryGetRecordsAfter": "1s", "idleTimeBetweenReads": "1500ms"}}});
        assert_eq!(Json::Object(fields_to_v2(&v1, &[], Family::Current)), current);
        let back: JsonMap<String, Json> =
            current.as_object().into_iter().flatten().map(|(name, value)| to_v1(name, value)).collect();
        assert_eq!(Json::Object(back), v1);
        let word = Json::Object(fields_to_v2(&json!({"initialPosition": "TrimHorizon"}), &[], Family::Current));
        assert_eq!(word, json!({"initialPosition": {"type": "TrimHorizon"}}));
    }

    #[test]
    fn mistakes_name_the_fields_that_were_sent() {
        let text = "DecodingFailure at .startAtOffset: Long".to_owned();
        assert_eq!(mistake(text), "DecodingFailure at .startOffset: Long");
        assert_eq!(mistake("else: so".to_owned()), "else: so");
        for (v1, v2) in [
            (".maxIntervalMillis: Int", ".maxInterval: a duration such as 10s"),
            (
                ".outputs[0].destinations[0].intervalSeconds: Long",
                ".outputs[0].destinations[0].interval: a duration of whole seconds, such as 10s, 1h30m or 2d",
            ),
            (".iteratorType.millisSinceEpoch: is needed", ".iteratorType.at: a moment such as 2026-02-03T04:05:06Z"),
        ] {
            assert_eq!(mistake(format!("DecodingFailure at {v1}")), format!("DecodingFailure at {v2}"));
        }
    }
}
