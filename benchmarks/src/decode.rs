//! The passes `decode-*`: records of some three hundred bytes, from bytes in memory to values, on one thread. What a stream does
//! with a record before its query, without the source: each format has the same event.

use std::error::Error;
use std::sync::Arc;

use weir_connectors::Frames;
use weir_connectors::decode::{AvroDecoder, CsvCharacters, CsvDecoder, Decoder, JsonDecoder, ProtobufDecoder, decode};
use weir_model::json::{self, WantedKeys};
use weir_model::protobuf::{MessageType, Schema, Wanted};
use weir_model::{IdScheme, Map, Text, Value};

use crate::measure::{Clock, Run};
use crate::passes::Settings;

const DESCRIPTORS: &[u8] = include_bytes!("../../model/src/protobuf/vectors/all.desc");

const AVRO_SCHEMA: &str = r#"{"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"}, {"name": "kind", "type": "string"}, {"name": "user", "type": "string"},
    {"name": "host", "type": "string"}, {"name": "at", "type": "long"}, {"name": "amount", "type": "double"},
    {"name": "ok", "type": "boolean"}, {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "address", "type": {"type": "record", "name": "Address", "fields": [
        {"name": "street", "type": "string"}, {"name": "city", "type": "string"}, {"name": "zip", "type": "string"}]}},
    {"name": "note", "type": "string"}]}"#;

/// What a query may ask for.
pub const WANTED: [&str; 3] = ["id", "kind", "amount"];

const NOTE: &str = "Nothing out of the ordinary was seen here. ";

/// Different records that come again and again.
const DISTINCT: usize = 1_000;

pub fn json(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    run("decode-json", settings, &JsonDecoder::default(), write_json)
}

/// As a query needs it that asks for three of the keys.
pub fn json_wanted(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    run("decode-json-3", settings, &JsonDecoder { wanted: WantedKeys::of(WANTED) }, write_json)
}

/// A row has the parts of the address and the tags as columns of their own.
pub fn csv(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let columns: Arc<[Text]> = flat(&event(0)).iter().map(|(name, _)| name.clone()).collect();
    let characters = CsvCharacters { delimiter: b',', quote: b'"', escape: b'\\' };
    let write = |event: &Map, out: &mut Vec<u8>| {
        let fields: Vec<String> = flat(event).into_iter().map(|(_, value)| value.to_text()).collect();
        out.extend(fields.join(",").as_bytes());
        Ok(())
    };
    run("decode-csv", settings, &CsvDecoder { characters, columns: Some(columns) }, write)
}

pub fn protobuf(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    protobuf_of("decode-protobuf", settings, |_| Wanted::All)
}

/// As a query needs it that asks for three of the fields.
pub fn protobuf_wanted(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    protobuf_of("decode-protobuf-3", settings, |message| message.wanted(WANTED))
}

fn protobuf_of(name: &str, settings: &Settings, wanted: impl Fn(&MessageType) -> Wanted) -> Result<Run, Box<dyn Error>> {
    let message = Arc::new(Schema::read(DESCRIPTORS)?).message("bench.Event")?;
    let write = |event: &Map, out: &mut Vec<u8>| Ok(message.encode(event, IdScheme::Uuid, out)?);
    let wanted = wanted(&message);
    run(name, settings, &ProtobufDecoder { message: message.clone(), wanted }, write)
}

pub fn avro(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let write = |event: &Map, out: &mut Vec<u8>| {
        event.iter().for_each(|(_, value)| write_avro(value, out));
        Ok(())
    };
    run("decode-avro", settings, &AvroDecoder::new(AVRO_SCHEMA, false)?, write)
}

/// With a shorter note: JSON has the names of the fields in each record, and they are to be of one length in all formats.
fn write_json(event: &Map, out: &mut Vec<u8>) -> Written {
    let mut event = event.clone();
    event.insert("note".into(), Value::text(NOTE));
    json::write(&Value::Map(event.into()), IdScheme::Uuid, out);
    Ok(())
}

type Written = Result<(), Box<dyn Error>>;

fn run(
    name: &str,
    settings: &Settings,
    decoder: &dyn Decoder,
    write: impl Fn(&Map, &mut Vec<u8>) -> Written,
) -> Result<Run, Box<dyn Error>> {
    let mut batches = Vec::new();
    let mut bytes = 0;
    for first in (0..DISTINCT).step_by(settings.batch as usize) {
        let mut frames = Frames::default();
        for number in first..DISTINCT.min(first + settings.batch as usize) {
            let mut record = Vec::new();
            write(&event(number), &mut record)?;
            bytes += record.len();
            frames.push(&record);
        }
        batches.push(frames);
    }
    let (mut records, mut failures, mut count) = (Vec::new(), Vec::new(), 0u64);
    let clock = Clock::start()?;
    while count < settings.events {
        for frames in &batches {
            decode(decoder, frames, &mut records, &mut failures);
            count += records.len() as u64;
            records.clear();
        }
        if let Some(failure) = failures.first() {
            return Err(failure.reason.clone().into());
        }
    }
    let mut run = clock.stop(name, count)?;
    run.settings = format!("{} bytes a record, {} records a batch, 1 thread", bytes / DISTINCT, settings.batch);
    Ok(run)
}

pub fn event(number: usize) -> Map {
    let text = |text: String| Value::Text(text.into());
    let address = Map::from_iter([
        ("street".into(), text(format!("{} Long Street, Stairway {}", number % 200, number % 7))),
        ("city".into(), text("Sankt Petersburg".to_owned())),
        ("zip".into(), text(format!("{:05}", number * 37 % 100_000))),
    ]);
    let tags = ["mobile", "returning", "night"].map(Value::text);
    Map::from_iter([
        ("id".into(), Value::Integer(10_000_000 + number as i64)),
        ("kind".into(), text(["login", "payment", "transfer"][number % 3].to_owned())),
        ("user".into(), text(format!("user-{}", number * 7919 % 100_000))),
        ("host".into(), text(format!("host-{}.eu-central.example.com", number % 50))),
        ("at".into(), Value::Integer(1_700_000_000_000 + number as i64 * 997)),
        ("amount".into(), Value::Float(number as f64 * 1.25 + 0.5)),
        ("ok".into(), Value::Boolean(!number.is_multiple_of(5))),
        ("tags".into(), Value::list(tags.to_vec())),
        ("address".into(), Value::Map(address.into())),
        ("note".into(), text(NOTE.repeat(3))),
    ])
}

fn flat(event: &Map) -> Vec<(Text, Value)> {
    let mut columns = Vec::new();
    for (name, value) in event.iter() {
        match value {
            Value::Map(inner) => columns.extend(inner.iter().map(|(part, value)| {
                let quoted = Value::Text(format!("\"{}\"", value.to_text()).into());
                (Text::from(format!("{name}_{part}")), quoted)
            })),
            Value::List(items) => {
                columns.extend(items.iter().enumerate().map(|(at, item)| (Text::from(format!("{name}_{at}")), item.clone())));
            }
            plain => columns.push((name.clone(), plain.clone())),
        }
    }
    columns
}

/// As the schema above has it, where every field is plainly of its type.
fn write_avro(value: &Value, out: &mut Vec<u8>) {
    let long = |n: i64, out: &mut Vec<u8>| {
        let mut rest = ((n << 1) ^ (n >> 63)) as u64;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    };
    match value {
        Value::Integer(n) => long(*n, out),
        Value::Float(x) => out.extend(x.to_le_bytes()),
        Value::Boolean(yes) => out.push(u8::from(*yes)),
        Value::List(items) => {
            long(items.len() as i64, out);
            items.iter().for_each(|item| write_avro(item, out));
            out.push(0);
        }
        Value::Map(map) => map.iter().for_each(|(_, value)| write_avro(value, out)),
        other => {
            let text = other.to_text();
            long(text.len() as i64, out);
            out.extend(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn every_format_is_decoded() {
        for run in [json, csv, protobuf, protobuf_wanted, avro] {
            let run = run(&test_settings("decode", 2_500)).expect("it runs");
            assert_eq!(run.events, 3_000);
            assert!(run.settings.starts_with(['2', '3', '4']), "some hundred bytes: {}", run.settings);
        }
    }
}
