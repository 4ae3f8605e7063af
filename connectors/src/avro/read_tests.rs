//! Against the library of Avro, and bytes that are no data.

use apache_avro::Schema;
use apache_avro::types::{Record, Value as Avro};
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Days, Duration as AvroDuration, Millis, Months};
use serde_json::{Value as Json, json};

use super::*;
use crate::decode::tests::Random;

fn record(schema: &Json, logical: bool, bytes: &[u8]) -> Result<String, String> {
    let decoder = AvroDecoder::new(&schema.to_string(), logical).unwrap();
    decoder.record(Frame { bytes, columns: None }).map(|value| value.shown())
}

fn written(schema: &Json, datum: impl Into<Avro>) -> Vec<u8> {
    let schema = Schema::parse(schema).unwrap();
    GenericDatumWriter::builder(&schema).build().unwrap().write_value_to_vec(datum).unwrap()
}

fn check(schema: Json, datum: impl Into<Avro>, expected: &str) {
    assert_eq!(record(&schema, false, &written(&schema, datum)).unwrap(), expected, "{schema}");
}

#[test]
fn plain_types_are_read_as_they_were_written() {
    check(json!("null"), Avro::Null, "null");
    check(json!("boolean"), true, "true");
    check(json!("int"), -7, "-7");
    check(json!("long"), i64::MIN, "-9223372036854775808");
    check(json!("float"), 1.5f32, "1.5");
    check(json!("double"), -0.25f64, "-0.25");
    check(json!("string"), "é", "\"\\u00E9\"");
    check(json!(["null", "string"]), Avro::Union(1, Box::new("a".into())), "\"a\"");
    check(json!({"type": "array", "items": "int"}), Avro::Array(vec![1.into(), 2.into()]), "[ 1, 2 ]");
    check(json!({"type": "map", "values": "int"}), Avro::Map([("k".to_owned(), 1.into())].into()), "{ k: 1 }");
    check(json!({"type": "enum", "name": "e", "symbols": ["A", "B"]}), Avro::Enum(1, "B".to_owned()), "\"B\"");
    assert_eq!(
        record(&json!({"type": "fixed", "name": "f", "size": 2}), false, b"ab").unwrap(),
        record(&json!("bytes"), false, b"\x04ab").unwrap()
    );
}

#[test]
fn records_may_hold_themselves_and_types_of_their_namespace() {
    let schema = json!({"type": "record", "name": "Node", "namespace": "a.b", "fields": [
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 1}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "other", "type": ["null", "a.b.Id", "Kind"]}]});
    let bytes = [b'1', 2, 2, b'2', 0, 0, 4, 2, 0];
    let shown = record(&schema, false, &bytes).unwrap();
    assert!(shown.contains("kind: \"Y\", next: {") && shown.contains("kind: \"X\", next: null, other: \"Y\" }"), "{shown}");
}

#[test]
fn logical_types_are_numbers_unless_they_are_asked_for() {
    let both = |schema: Json, datum: Avro, plain: &str, logical: &str| {
        let bytes = written(&schema, datum);
        assert_eq!(record(&schema, false, &bytes).unwrap(), plain);
        let shown = record(&schema, true, &bytes).unwrap();
        assert!(shown.contains(&format!("(\"{logical}\")")), "{shown} is not {logical}");
    };
    let of = |of: &str, logical: &str| json!({"type": of, "logicalType": logical});
    both(of("int", "date"), Avro::Date(19_000), "19000", "2022-01-08");
    both(of("int", "time-millis"), Avro::TimeMillis(3_600_001), "3600001", "01:00:00.001");
    both(of("long", "time-micros"), Avro::TimeMicros(1), "1", "00:00:00.000001");
    let millis = 1_700_000_000_123;
    both(of("long", "timestamp-millis"), Avro::TimestampMillis(millis), "1700000000123", "2023-11-14T22:13:20.123Z");
    both(of("long", "timestamp-micros"), Avro::TimestampMicros(-1), "-1", "1969-12-31T23:59:59.999999Z");
    both(of("long", "timestamp-nanos"), Avro::TimestampNanos(5), "5", "1970-01-01T00:00:00.000000005Z");
    both(of("long", "local-timestamp-millis"), Avro::LocalTimestampMillis(millis), "1700000000123", "2023-11-14T22:13:20.123");
    let duration = Avro::Duration(AvroDuration::new(Months::new(14), Days::new(3), Millis::new(4_500)));
    let fixed = json!({"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"});
    let bytes = written(&fixed, duration);
    assert_eq!(record(&fixed, true, &bytes).unwrap(), "duration(\"P1Y2M3DT4.5S\")");
    let decimal = json!({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2});
    for (bytes, text) in [(&[2, 0xff][..], "\"-0.01\""), (&[4, 0x30, 0x39], "\"123.45\""), (&[0], "\"0.00\"")] {
        assert_eq!(record(&decimal, true, bytes).unwrap(), text);
    }
    assert!(record(&of("int", "time-millis"), true, &written(&json!("int"), -1)).unwrap_err().contains("out of range"));
    assert!(record(&of("long", "timestamp-millis"), true, &written(&json!("long"), i64::MAX)).is_err());
}

#[test]
fn decimals_have_up_to_256_bits() {
    let of = |first: u8, rest: u8, width: usize| {
        let mut bytes = vec![rest; width];
        bytes[0] = first;
        decimal(&bytes, 2)
    };
    let check = |text: Option<String>, expected: &str| assert_eq!(text.as_deref(), Some(expected));
    check(of(0xff, 0xff, 40), "-0.01");
    check(of(0, 0, 40), "0.00");
    check(of(1, 0, 17), "3402823669209384634633746074317682114.56");
    check(of(0xff, 0, 17), "-3402823669209384634633746074317682114.56");
    let greatest = "578960446186580977117854925043439539266349923328202820197287920039565648199.67";
    check(of(0x7f, 0xff, 32), greatest);
    check(of(0x80, 0, 32), &format!("-{}8", &greatest[..greatest.len() - 1]));
    assert_eq!(of(1, 0, 33), None);
}

#[test]
fn what_does_not_fit_says_so() {
    let refused = |schema: Json, bytes: &[u8], expected: &str| {
        let problem = record(&schema, false, bytes).unwrap_err();
        assert!(problem.contains(expected), "{schema}: {problem}");
    };
    refused(json!("string"), &[10, b'a'], "it ends too early");
    refused(json!("string"), &[1], "a length is -1");
    refused(json!("string"), &[2, 0xff], "not UTF-8");
    refused(json!("int"), &[0xff; 11], "more than ten bytes");
    refused(json!("boolean"), &[2], "a boolean is 2");
    refused(json!("null"), &[0], "1 bytes are left at its end");
    refused(json!(["null"]), &[2], "branch 1 of a union of 1");
    // The header of a schema registry.
    refused(
        json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}),
        &[0, 0, 0, 0, 1, 2, b'a'],
        "left",
    );
    // Lengths that lie: 2^62 items of nothing.
    let many = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    refused(json!({"type": "array", "items": "null"}), &many, "more than 65536 empty values");
    refused(json!({"type": "array", "items": {"type": "record", "name": "r", "fields": []}}), &many, "empty values");
    // A block that says it has three bytes, and has two.
    refused(json!({"type": "array", "items": "int"}), &[3, 6, 2, 4, 0], "more or fewer bytes");
    // No bytes at all, and each record has two of the one before it.
    for bottom in [
        json!([]),
        json!([{"name": "x", "type": "null"}]),
        json!([{"name": "x", "type": {"type": "fixed", "name": "f", "size": 0}}]),
    ] {
        let mut doubled = json!({"type": "record", "name": "r0", "fields": bottom});
        for level in 1..40 {
            let fields = json!([{"name": "a", "type": doubled}, {"name": "b", "type": format!("r{}", level - 1)}]);
            doubled = json!({"type": "record", "name": format!("r{level}"), "fields": fields});
        }
        let decoder = AvroDecoder::new(&doubled.to_string(), false).unwrap();
        assert!(decoder.length(&[]).is_err_and(|problem| problem.contains("empty values")));
        refused(doubled, &[], "empty values");
    }
    refused(json!({"type": "bytes"}), &many, "it ends too early");
    let deep = json!({"type": "record", "name": "r", "fields": [{"name": "r", "type": ["null", "r"]}]});
    refused(deep, &[2; 10_000], "deeper than");
    let schema = |text: &str| AvroDecoder::new(text, false).err().unwrap();
    assert!(schema("{").contains("not one of Avro") && schema("\"nope\"").contains("not one of Avro"));
}

#[test]
fn any_bytes_are_a_record_or_a_failure() {
    let schema = json!({"type": "record", "name": "r", "fields": [
        {"name": "a", "type": {"type": "array", "items": ["null", "int", "r"]}},
        {"name": "m", "type": {"type": "map", "values": "bytes"}},
        {"name": "t", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "double", "string"]}]});
    let decoder = AvroDecoder::new(&schema.to_string(), true).unwrap();
    let mut random = Random::new(3);
    for _ in 0..30_000 {
        let bytes = random.bytes(&[0, 1, 2, 3, 4, 5, 6, 127, 128, 255, b'a']);
        let _ = decoder.record(Frame { bytes: &bytes, columns: None });
    }
    let parsed = Schema::parse(&schema).unwrap();
    let mut whole = Record::new(&parsed).unwrap();
    whole.put("a", Avro::Array(vec![Avro::Union(1, Box::new(5.into()))]));
    whole.put("m", Avro::Map([("k".to_owned(), Avro::Bytes(vec![1, 2]))].into()));
    whole.put("t", Avro::Union(1, Box::new(2.5f64.into())));
    let whole = written(&schema, whole);
    for end in 0..whole.len() {
        assert!(decoder.record(Frame { bytes: &whole[..end], columns: None }).is_err(), "cut at {end}");
    }
}
