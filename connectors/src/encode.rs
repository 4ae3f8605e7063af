//! A result as the JSON that leaves: `{"meta":{"isPositiveMatch":true},"data":{…}}`, compact, without a newline.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::temporal::DateTime;
use weir_model::{FullEdge, FullNode, IdScheme, Map, NodeId, Place, Value, json};

use crate::output_format::RecordSchema;

/// What a result is written with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum Envelope {
    /// An object of `meta` (`isPositiveMatch`, `resultId`) and `data`.
    #[default]
    WithMetadata,
    /// An object of `meta` and `data` in which `meta` also has `tick` and `eventId`, which no other result has.
    WithTick,
    /// The data alone.
    Bare,
}

/// Whose notation values are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generation {
    /// Bytes are lists of signed numbers.
    V1,
    /// Bytes are base64, times always have seconds.
    V2,
}

/// What is known of a result beside its data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meta {
    pub positive: bool,
    /// One id for a match and its cancellation.
    pub id: Option<NodeId>,
    pub place: Place,
}

#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    pub envelope: Envelope,
    pub generation: Generation,
    pub ids: IdScheme,
}

impl Encoder {
    /// Appends a result, or a row that came of it, to `out`.
    pub fn row(&self, meta: &Meta, data: &Map, out: &mut Vec<u8>) {
        if self.envelope == Envelope::Bare {
            return self.data(data, out);
        }
        out.extend_from_slice(b"{\"meta\":{\"isPositiveMatch\":");
        out.extend_from_slice(if meta.positive { b"true" } else { b"false" });
        let mut text = |key: &[u8], value: String| {
            out.extend_from_slice(key);
            out.extend_from_slice(value.as_bytes());
            out.push(b'"');
        };
        if let Some(id) = meta.id {
            text(b",\"resultId\":\"", id.to_string());
        }
        if self.envelope == Envelope::WithTick {
            text(b",\"tick\":\"", meta.place.tick.0.to_string());
            text(b",\"eventId\":\"", meta.place.to_string());
        }
        out.extend_from_slice(b"},\"data\":");
        self.data(data, out);
        out.push(b'}');
    }

    /// A row as a record by a schema: what its JSON has, by the names of fields. An error says what does not fit.
    pub fn record(&self, schema: &RecordSchema, meta: &Meta, data: &Arc<Map>) -> Result<Vec<u8>, String> {
        if self.envelope == Envelope::Bare {
            return schema.write(data, self.ids);
        }
        schema.write(&meta.whole(self.envelope, data), self.ids)
    }

    fn data(&self, data: &Map, out: &mut Vec<u8>) {
        out.push(b'{');
        for (index, (key, value)) in data.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json::write(&Value::Text(key.clone()), self.ids, out);
            out.push(b':');
            json::write(&self.notation(value), self.ids, out);
        }
        out.push(b'}');
    }

    /// The value whose JSON is right for the generation; the value itself nearly always.
    fn notation<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        if self.generation.differs(value) { Cow::Owned(self.generation.of(value)) } else { Cow::Borrowed(value) }
    }
}

impl Meta {
    /// A result as a map: what its JSON has, where that has more than the data.
    pub fn whole(&self, envelope: Envelope, data: &Arc<Map>) -> Map {
        let mut meta = Map::from_iter([("isPositiveMatch".into(), Value::Boolean(self.positive))]);
        if let Some(id) = self.id {
            meta.insert("resultId".into(), Value::text(&id.to_string()));
        }
        if envelope == Envelope::WithTick {
            meta.insert("tick".into(), Value::text(&self.place.tick.0.to_string()));
            meta.insert("eventId".into(), Value::text(&self.place.to_string()));
        }
        Map::from_iter([("meta".into(), Value::Map(meta.into())), ("data".into(), Value::Map(data.clone()))])
    }
}

impl Generation {
    /// Whether the JSON of a value is not that of its generation.
    fn differs(self, value: &Value) -> bool {
        let any = |map: &Map| map.iter().any(|(_, value)| self.differs(value));
        match value {
            Value::Bytes(_) => self == Generation::V1,
            Value::LocalTime(_) | Value::Time(_) | Value::LocalDateTime(_) => self == Generation::V2,
            Value::DateTime(moment) => self == Generation::V2 || moment.zone.is_some(),
            Value::List(items) => items.iter().any(|item| self.differs(item)),
            Value::Map(map) => any(map),
            Value::FullNode(node) => any(&node.properties),
            Value::FullEdge(edge) => any(&edge.properties),
            _ => false,
        }
    }

    /// In v1 bytes are numbers with a sign, and of the zone of a moment only the offset is told; in v2 times have seconds. It is
    /// so wherever in a result a value stands.
    fn of(self, value: &Value) -> Value {
        let all = |map: &Map| -> Map { map.iter().map(|(key, value)| (key.clone(), self.of(value))).collect() };
        match (self, value) {
            (Generation::V1, Value::Bytes(bytes)) => {
                Value::list(bytes.iter().map(|byte| Value::Integer(i64::from(*byte as i8))).collect())
            }
            (Generation::V1, Value::DateTime(moment)) => Value::DateTime(DateTime { zone: None, ..(**moment).clone() }.into()),
            (Generation::V2, Value::LocalTime(_) | Value::Time(_) | Value::LocalDateTime(_) | Value::DateTime(_)) => {
                Value::text(&with_seconds(value.to_text()))
            }
            (_, Value::List(items)) => Value::list(items.iter().map(|item| self.of(item)).collect()),
            (_, Value::Map(map)) => Value::Map(all(map).into()),
            (_, Value::FullNode(node)) => {
                let (id, labels, properties) = (node.id, node.labels.clone(), all(&node.properties));
                Value::FullNode(FullNode { id, labels, properties }.into())
            }
            (_, Value::FullEdge(edge)) => {
                Value::FullEdge(FullEdge { key: edge.key.clone(), properties: all(&edge.properties) }.into())
            }
            (_, other) => other.clone(),
        }
    }
}

/// A time of day as ISO formatters have it, maybe behind a date and before an offset: with seconds, and as much of a fraction as
/// there is.
fn with_seconds(mut text: String) -> String {
    let minutes = text.find('T').map_or(0, |date| date + 1) + "00:00".len();
    if !text[minutes..].starts_with(':') {
        text.insert_str(minutes, ":00");
    }
    let seconds = minutes + ":00".len();
    if text[seconds..].starts_with('.') {
        let end = text[seconds + 1..].find(|letter: char| !letter.is_ascii_digit()).map_or(text.len(), |end| seconds + 1 + end);
        let zeros = text[..end].len() - text[..end].trim_end_matches('0').len();
        text.replace_range(end - zeros..end, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_model::temporal::LocalDateTime;
    use weir_model::{EdgeKey, Tick};

    use super::*;

    fn check(encoder: Encoder, meta: Meta, expected: &str) {
        let data = Arc::new(Map::from_iter([
            ("id".into(), Value::Id(NodeId::from_bytes(*b"0123456789abcdef"))),
            ("n.\"total\"".into(), Value::Integer(42)),
            ("b".into(), Value::list(vec![Value::Bytes([0, 255].as_slice().into())])),
            ("x".into(), Value::Float(f64::NAN)),
        ]));
        let mut out = Vec::new();
        encoder.row(&meta, &data, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn results_have_the_documented_shape() {
        let v1 = Encoder { envelope: Envelope::WithMetadata, generation: Generation::V1, ids: IdScheme::Uuid };
        let data = r#"{"id":"30313233-3435-3637-3839-616263646566","n.\"total\"":42,"b":[[0,-1]],"x":"NaN"}"#;
        let match_of = |id| Meta { positive: true, id, place: Place { tick: Tick(1 << 60), number: 2, row: 0 } };
        check(v1, match_of(None), &format!(r#"{{"meta":{{"isPositiveMatch":true}},"data":{data}}}"#));
        let id = NodeId::from_bytes([7; 16]);
        let meta = r#"{"isPositiveMatch":false,"resultId":"07070707-0707-0707-0707-070707070707"}"#;
        let cancelled = Meta { positive: false, ..match_of(Some(id)) };
        check(v1, cancelled, &format!(r#"{{"meta":{meta},"data":{data}}}"#));
        let timed = r#""tick":"1152921504606846976","eventId":"1152921504606846976-2""#;
        let meta = meta.replace('}', &format!(",{timed}}}"));
        check(Encoder { envelope: Envelope::WithTick, ..v1 }, cancelled, &format!(r#"{{"meta":{meta},"data":{data}}}"#));
        check(Encoder { envelope: Envelope::Bare, ..v1 }, match_of(Some(id)), data);
        let v2 = Encoder { envelope: Envelope::Bare, generation: Generation::V2, ids: IdScheme::Uuid };
        check(v2, match_of(None), &data.replace("[0,-1]", "\"AP8=\""));
    }

    #[test]
    fn a_value_is_written_alike_beside_a_node_and_in_it() {
        let bytes = Value::Bytes([0xca, 0xfe].as_slice().into());
        let time = Value::LocalDateTime(LocalDateTime { epoch_day: 0, nano_of_day: (4 * 60 + 5) * 60_000_000_000 });
        let values = Map::from_iter([("b".into(), bytes), ("t".into(), Value::list(vec![time]))]);
        let (source, target) = (NodeId::new(0, 1), NodeId::new(0, 2));
        let node = FullNode { id: source, labels: vec!["A".into()], properties: values.clone() };
        let key = EdgeKey { source, kind: "T".into(), target, ordinal: 0 };
        let edge = FullEdge { key, properties: values.clone() };
        let path = Value::list(vec![Value::FullNode(node.clone().into()), Value::FullEdge(edge.into())]);
        let row = [("m".into(), Value::Map(values.into())), ("n".into(), Value::FullNode(node.into())), ("p".into(), path)];
        let data = Map::from_iter(row);
        for (generation, values) in [
            (Generation::V1, r#"{"b":[-54,-2],"t":["1970-01-01T04:05"]}"#),
            (Generation::V2, r#"{"b":"yv4=","t":["1970-01-01T04:05:00"]}"#),
        ] {
            let encoder = Encoder { envelope: Envelope::Bare, generation, ids: IdScheme::Long { consecutive: false } };
            let mut out = Vec::new();
            encoder.row(&Meta::default(), &data, &mut out);
            let node = format!(r#"{{"id":"1","labels":["A"],"properties":{values}}}"#);
            let edge = format!(r#"{{"start":"1","end":"2","name":"T","properties":{values}}}"#);
            let expected = format!(r#"{{"m":{values},"n":{node},"p":[{node},{edge}]}}"#);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn times_of_v2_have_seconds() {
        for (short, long) in [
            ("04:05", "04:05:00"),
            ("04:05+01:00", "04:05:00+01:00"),
            ("04:05:06", "04:05:06"),
            ("04:05:06.700", "04:05:06.7"),
            ("04:05:06.000000010Z", "04:05:06.00000001Z"),
            ("2026-02-03T04:05", "2026-02-03T04:05:00"),
            ("2026-02-03T04:05Z[UTC]", "2026-02-03T04:05:00Z[UTC]"),
            ("-0044-03-15T04:05:06.100+01:00[Europe/Rome]", "-0044-03-15T04:05:06.1+01:00[Europe/Rome]"),
        ] {
            assert_eq!(with_seconds(short.to_owned()), long);
        }
    }
}
