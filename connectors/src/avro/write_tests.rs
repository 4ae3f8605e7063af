//! What is written is read again, by the decoder here and by the library of Avro.

use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use serde_json::json;
use weir_model::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime};
use weir_model::{NodeId, Text};

use super::*;
use crate::avro::AvroDecoder;
use crate::decode::Decoder;
use crate::frames::Frame;

fn map(entries: &[(&str, Value)]) -> Map {
    entries.iter().map(|(name, value)| (Text::new(name), value.clone())).collect()
}

fn written(schema: &Json, entries: &[(&str, Value)]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    AvroWriter::new(&schema.to_string(), &[])?.write(&map(entries), IdScheme::Uuid, &mut out)?;
    Ok(out)
}

fn again(schema: &Json, bytes: &[u8]) -> String {
    let parsed = Schema::parse(schema).unwrap();
    let theirs = GenericDatumReader::builder(&parsed).build().unwrap().read_value(&mut &bytes[..]);
    assert!(theirs.is_ok(), "{theirs:?}");
    AvroDecoder::new(&schema.to_string(), true).unwrap().record(Frame { bytes, columns: None }).unwrap().shown()
}

#[test]
fn values_of_every_type_go_there_and_back() {
    let of = |name: &str, of: Json| json!({"name": name, "type": of});
    let logical = |of: &str, logical: &str| json!({"type": of, "logicalType": logical});
    let schema = json!({"type": "record", "name": "r", "fields": [
        of("yes", json!("boolean")), of("short", json!("int")), of("long", json!("long")), of("x", json!("float")), of("y", json!("double")),
        of("raw", json!("bytes")), of("id", json!({"type": "fixed", "name": "Id", "size": 16})), of("text", json!("string")),
        of("kind", json!({"type": "enum", "name": "k", "symbols": ["A", "B"]})), of("all", json!({"type": "array", "items": "long"})),
        of("map", json!({"type": "map", "values": ["null", "string"]})), of("next", json!(["null", "r"])),
        of("day", logical("int", "date")), of("at", logical("long", "timestamp-millis")), of("local", logical("long", "local-timestamp-micros")),
        of("time", logical("long", "time-micros")), of("amount", json!({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})),
        of("long_time", json!({"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"})), of("any", json!(["null", "long", "double", "string", "r"]))]});
    let id = NodeId::from_bytes(*b"0123456789abcdef");
    let mut entries = vec![
        ("yes", Value::Boolean(true)),
        ("short", Value::Integer(-7)),
        ("long", Value::Integer(i64::MIN)),
        ("x", Value::Integer(2)),
        ("y", Value::Float(0.25)),
        ("raw", Value::Bytes([0, 255].as_slice().into())),
        ("id", Value::Id(id)),
        ("text", Value::Id(id)),
        ("kind", Value::text("B")),
        ("all", Value::list(vec![Value::Integer(1), Value::Integer(300)])),
        ("map", Value::map([("k".into(), Value::text("v")), ("n".into(), Value::Null)])),
        ("next", Value::Null),
        ("day", Value::Date(Date { epoch_day: 19_000 })),
        ("at", Value::DateTime(Arc::new(DateTime::utc(1_700_000_000, 123_000_000)))),
        ("local", Value::LocalDateTime(LocalDateTime { epoch_day: -1, nano_of_day: 5_000 })),
        ("time", Value::LocalTime(LocalTime { nano_of_day: 1_000 })),
        ("amount", Value::text("-123.4")),
        ("long_time", Value::Duration(Arc::new(Duration { months: 14, days: 3, seconds: 4, nanos: 500_000_000 }))),
        ("any", Value::Float(1.5)),
        ("nobody", Value::Integer(1)),
    ];
    let inner = map(&entries);
    let first = again(&schema, &written(&schema, &entries).unwrap());
    for part in [
        "yes: true, short: -7, long: -9223372036854775808, x: 2.0, y: 0.25",
        "kind: \"B\", all: [ 1, 300 ]",
        "amount: \"-123.40\"",
        "(\"2022-01-08\")",
        "(\"2023-11-14T22:13:20.123Z\")",
        "(\"1969-12-31T00:00:00.000005\")",
        "(\"00:00:00.000001\")",
        "(\"P1Y2M3DT4.5S\")",
        "text: \"30313233-3435-3637-3839-616263646566\"",
        "map: { k: \"v\", n: null }",
        "next: null",
        "any: 1.5",
    ] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    assert!(!first.contains("nobody"));
    entries[11].1 = Value::Map(Arc::new(inner));
    entries[18].1 = Value::text("t");
    let second = again(&schema, &written(&schema, &entries).unwrap());
    assert!(second.contains("next: { yes: true,") && second.ends_with("any: \"t\" }"), "{second}");
}

#[test]
fn what_is_absent_is_the_default_or_null() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": "int", "default": 3}, {"name": "b", "type": ["string", "null"], "default": "x"},
        {"name": "c", "type": ["null", "string"]}, {"name": "d", "type": "bytes", "default": "\u{ff}"},
        {"name": "e", "type": {"type": "record", "name": "i", "fields": [{"name": "y", "type": "long", "default": 1}]}, "default": {}},
        {"name": "f", "type": {"type": "array", "items": "int"}, "default": [1, 2]}]});
    let shown = again(&schema, &written(&schema, &[("a", Value::Null)]).unwrap());
    assert!(shown.starts_with("{ a: 3, b: \"x\", c: null, d:") && shown.ends_with("e: { y: 1 }, f: [ 1, 2 ] }"), "{shown}");
    // Bytes within others are written as text, too.
    let inner = json!({"type": "record", "name": "i", "fields": [
        {"name": "b", "type": "bytes"}, {"name": "c", "type": {"type": "fixed", "name": "x", "size": 2}, "default": "\u{1}\u{ff}"}]});
    let nested = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": inner, "default": {"b": "\u{ff}"}},
        {"name": "l", "type": {"type": "array", "items": ["bytes", "null"]}, "default": ["\u{2}"]},
        {"name": "m", "type": {"type": "map", "values": "bytes"}, "default": {"k": "\u{3}"}},
        {"name": "n", "type": {"type": "map", "values": "i"}, "default": {}}]});
    let bytes = written(&nested, &[]).unwrap();
    assert_eq!(bytes, [2, 0xff, 1, 0xff, 2, 0, 2, 2, 0, 2, 2, b'k', 2, 3, 0, 0]);
    again(&nested, &bytes);
    let shown = again(&schema, &written(&schema, &[("b", Value::Null), ("c", Value::text("y"))]).unwrap());
    assert!(shown.contains("b: null, c: \"y\""), "{shown}");
}

#[test]
fn what_does_not_fit_names_the_field() {
    let schema = json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items":
        {"type": "record", "name": "i", "fields": [{"name": "n", "type": "int"}]}}}]});
    let with = |value: Value| written(&schema, &[("a", Value::list(vec![Value::map([("n".into(), value)])]))]).unwrap_err();
    assert_eq!(with(Value::text("x")), "field `a[0].n`: expected an integer, but got \"x\"");
    assert_eq!(with(Value::Integer(1 << 40)), "field `a[0].n`: expected an int of 32 bits, but got 1099511627776");
    assert_eq!(with(Value::Null), "field `a[0].n`: expected an integer, but got null");
    assert!(written(&schema, &[]).unwrap_err().starts_with("field `a`: expected a list"));
    assert!(written(&json!("string"), &[]).unwrap_err().contains("of another type"));
    let decimal = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}}]});
    assert!(written(&decimal, &[("a", Value::text("1.25"))]).unwrap_err().contains("expected a decimal number"));
    for text in ["--1", "", "-", ".", "1e3", "\u{661}", "1.-5", "1000000000", "123456789"] {
        assert!(written(&decimal, &[("a", Value::text(text))]).is_err(), "{text}");
    }
    for (text, expected) in
        [("0", "0.0"), ("-12.8", "-12.8"), ("12.7", "12.7"), ("12.8", "12.8"), ("-0.1", "-0.1"), ("99999999.9", "99999999.9")]
    {
        let shown = again(&decimal, &written(&decimal, &[("a", Value::text(text))]).unwrap());
        assert_eq!(shown, format!("{{ a: \"{expected}\" }}"));
    }
}

#[test]
fn decimals_have_the_length_and_the_digits_of_the_schema() {
    let schema = |size: usize, precision: usize, scale: usize| {
        json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null",
            {"type": "fixed", "name": "f", "size": size, "logicalType": "decimal", "precision": precision, "scale": scale}]}]})
    };
    let small = schema(4, 9, 2);
    for (text, bytes) in
        [("0", [0; 4]), ("1.28", [0, 0, 0, 128]), ("-1.28", [255, 255, 255, 128]), ("-0.01", [255; 4]), (".5", [0, 0, 0, 50])]
    {
        assert_eq!(written(&small, &[("a", Value::text(text))]).unwrap(), [&[2][..], &bytes].concat(), "{text}");
    }
    assert_eq!(written(&small, &[("a", Value::Integer(-1))]).unwrap(), [2, 255, 255, 255, 156]);
    assert_eq!(written(&small, &[("a", Value::Bytes([0xfe].as_slice().into()))]).unwrap(), [2, 255, 255, 255, 254]);
    assert_eq!(again(&small, &written(&small, &[("a", Value::text("-9999999.99"))]).unwrap()), "{ a: \"-9999999.99\" }");
    assert!(written(&small, &[("a", Value::text("12345678.90"))]).is_err(), "more digits than nine");
    // As many as are read.
    let wide = schema(32, 76, 3);
    for text in [
        "9".repeat(73) + ".999",
        "-1".to_owned() + &"0".repeat(72) + ".000",
        "-170141183460469231731687303715884105.729".to_owned(),
    ] {
        let shown = again(&wide, &written(&wide, &[("a", Value::text(&text))]).unwrap());
        assert_eq!(shown, format!("{{ a: \"{text}\" }}"));
    }
    assert!(written(&wide, &[("a", Value::text(&"1".repeat(77)))]).is_err());
    let unbounded = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 200, "scale": 0}}]});
    assert!(written(&unbounded, &[("a", Value::text(&"9".repeat(78)))]).is_err(), "more than 256 bits");
}
