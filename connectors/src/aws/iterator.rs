//! Where the reading of a stream of Kinesis begins: a word, or an object with what the word needs.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value as Json, json};

use crate::config;
use crate::error::ConnectorError;

/// Where to begin in a shard that this stream has not read before. Later, and after a restart, reading goes on where it stopped.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum IteratorType {
    Word(IteratorWord),
    At(IteratorAt),
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum IteratorWord {
    /// Only records that are written after the stream or, with KinesisKCL, the lease of the shard was created.
    Latest,
    /// From the oldest record that is still available.
    TrimHorizon,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum IteratorAt {
    /// From the record with this sequence number. Needs exactly one shard in `shardIds`.
    AtSequenceNumber {
        /// The sequence number of the record.
        sequence_number: String,
    },
    /// From the record after the one with this sequence number. Needs exactly one shard in `shardIds`.
    AfterSequenceNumber {
        /// The sequence number of the record before the first one to read.
        sequence_number: String,
    },
    /// From the first record that arrived at this time or later: milliseconds since 1970 or, in current v2, an instant such as
    /// `2026-01-02T03:04:05Z`.
    AtTimestamp {
        /// The time. In v1 and the preview of v2 it is in milliseconds since 1970.
        millis_since_epoch: u64,
    },
}

impl Default for IteratorType {
    fn default() -> IteratorType {
        IteratorType::Word(IteratorWord::Latest)
    }
}

impl<'de> Deserialize<'de> for IteratorType {
    // By hand, so that an error says what is expected; and the words are taken as objects, too.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<IteratorType, D::Error> {
        let given = Json::deserialize(input)?;
        let word = given.as_str().or_else(|| given.get("type").and_then(Json::as_str)).unwrap_or_default();
        let read = match word {
            "Latest" => Ok(IteratorType::Word(IteratorWord::Latest)),
            "TrimHorizon" => Ok(IteratorType::Word(IteratorWord::TrimHorizon)),
            "AtSequenceNumber" | "AfterSequenceNumber" | "AtTimestamp" if given.is_object() => {
                IteratorAt::read(word, &given).map(IteratorType::At)
            }
            _ => Err(ConnectorError::config(
                "iteratorType",
                format!(
                    "Invalid value: {given} ; valid are \"Latest\", \"TrimHorizon\", and objects with the type AtSequenceNumber, \
                     AfterSequenceNumber or AtTimestamp"
                ),
            )),
        };
        read.map_err(config::nested)
    }
}

impl IteratorAt {
    fn read(kind: &str, given: &Json) -> Result<IteratorAt, ConnectorError> {
        let number = || {
            let text = given.get("sequenceNumber").and_then(Json::as_str).map(str::to_owned);
            text.ok_or_else(|| ConnectorError::config("iteratorType.sequenceNumber", "is text, and needed"))
        };
        match kind {
            "AtSequenceNumber" => Ok(IteratorAt::AtSequenceNumber { sequence_number: number()? }),
            "AfterSequenceNumber" => Ok(IteratorAt::AfterSequenceNumber { sequence_number: number()? }),
            _ => {
                let millis = given.get("millisSinceEpoch").and_then(Json::as_u64);
                let wrong = || ConnectorError::config("iteratorType.millisSinceEpoch", "is a number of at least 0, and needed");
                Ok(IteratorAt::AtTimestamp { millis_since_epoch: millis.ok_or_else(wrong)? })
            }
        }
    }
}

impl IteratorType {
    /// Whether it points into one shard.
    pub fn is_of_one_shard(&self) -> bool {
        matches!(self, IteratorType::At(IteratorAt::AtSequenceNumber { .. } | IteratorAt::AfterSequenceNumber { .. }))
    }

    pub fn is_latest(&self) -> bool {
        *self == IteratorType::default()
    }

    /// As a request has it.
    pub fn asked(&self) -> Json {
        match self {
            IteratorType::Word(IteratorWord::Latest) => json!({"ShardIteratorType": "LATEST"}),
            IteratorType::Word(IteratorWord::TrimHorizon) => json!({"ShardIteratorType": "TRIM_HORIZON"}),
            IteratorType::At(IteratorAt::AtSequenceNumber { sequence_number }) => {
                json!({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence_number})
            }
            IteratorType::At(IteratorAt::AfterSequenceNumber { sequence_number }) => after(sequence_number),
            IteratorType::At(IteratorAt::AtTimestamp { millis_since_epoch }) => at(*millis_since_epoch),
        }
    }
}

/// A position as a subscription has it, of one that an iterator is asked for with.
pub fn for_subscription(asked: &Json) -> Json {
    let names = [("ShardIteratorType", "Type"), ("StartingSequenceNumber", "SequenceNumber"), ("Timestamp", "Timestamp")];
    let fields = names.iter().filter_map(|(from, to)| Some(((*to).to_owned(), asked.get(*from)?.clone())));
    Json::Object(fields.collect())
}

/// Behind a record.
pub fn after(sequence_number: &str) -> Json {
    json!({"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": sequence_number})
}

/// From a time on.
pub fn at(millis: u64) -> Json {
    json!({"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": millis as f64 / 1000.0})
}
