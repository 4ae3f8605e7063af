//! Avro: one bare datum a frame, read by the schema it was written with.
//!
//! The schema is taken apart once, into shapes that need no more looking up. A datum says how long its parts are: nothing is
//! made room for before the bytes of it are seen, and parts that take no bytes are counted.

use std::collections::HashMap;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::schema::{InnerDecimalSchema, Name, UuidSchema};
use weir_model::temporal::{
    Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS_PER_DAY, NANOS_PER_SECOND, SECONDS_PER_DAY,
};
use weir_model::value::MapBuilder;
use weir_model::{Map, Text, Value};

use super::Decoder;
use crate::frames::Frame;

/// Parts within parts; a record that goes deeper is refused.
const DEPTH_MAX: usize = 128;

/// Values of a record besides those that take a byte each: nulls, and records of nothing.
const EMPTY_VALUES_MAX: usize = 1 << 16;

pub struct AvroDecoder {
    root: Shape,
    /// Records, enumerations and strings of fixed length, which may name each other and themselves.
    named: Vec<Shape>,
}

/// How the bytes of a value are read.
#[derive(Debug)]
enum Shape {
    Null,
    Boolean,
    /// Int and long.
    Integer,
    Float,
    Double,
    Bytes,
    Fixed(usize),
    Text,
    List(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    Record(Vec<(Text, Shape)>),
    Enum(Vec<Text>),
    /// The place of a named shape.
    Named(usize),
    Logical(Box<Shape>, Logical),
}

/// What a number or some bytes stand for.
#[derive(Clone, Copy, Debug)]
enum Logical {
    Date,
    /// How many nanoseconds the number counts in.
    Time(i64),
    Timestamp(i64),
    LocalTimestamp(i64),
    Duration,
    /// With so many digits behind the point.
    Decimal(usize),
    Uuid,
}

impl AvroDecoder {
    /// `logical`: dates, times, decimals and the like become what they stand for instead of the number or bytes they are.
    pub fn new(schema: &str, logical: bool) -> Result<AvroDecoder, String> {
        let schema = Schema::parse_str(schema).map_err(|error| format!("the schema is not one of Avro: {error}"))?;
        let mut reading = Reading { logical, places: HashMap::new(), named: Vec::new() };
        let root = reading.shape(&schema, None, 0)?;
        let named = reading.named.into_iter().map(|shape| shape.ok_or("a type of the schema is not defined".to_owned()));
        Ok(AvroDecoder { root, named: named.collect::<Result<_, _>>()? })
    }
}

impl AvroDecoder {
    /// How many bytes the datum takes that the bytes begin with.
    pub fn length(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut datum = Datum { decoder: self, rest: bytes, empty: EMPTY_VALUES_MAX };
        datum.pass(&self.root, 0)?;
        Ok(bytes.len() - datum.rest.len())
    }
}

impl Decoder for AvroDecoder {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let mut datum = Datum { decoder: self, rest: frame.bytes, empty: EMPTY_VALUES_MAX };
        let value = datum.value(&self.root, 0).map_err(|problem| format!("the record does not fit the schema: {problem}"))?;
        match datum.rest.len() {
            0 => Ok(value),
            left => Err(format!("the record does not fit the schema: {left} bytes are left at its end")),
        }
    }
}

/// Turns a schema into shapes.
struct Reading {
    logical: bool,
    places: HashMap<String, usize>,
    /// None while it is being read.
    named: Vec<Option<Shape>>,
}

impl Reading {
    fn shape(&mut self, schema: &Schema, namespace: Option<&str>, depth: usize) -> Result<Shape, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the schema has types within types deeper than {DEPTH_MAX}"));
        }
        let integer = |logical| self.marked(Shape::Integer, logical);
        Ok(match schema {
            Schema::Null => Shape::Null,
            Schema::Boolean => Shape::Boolean,
            Schema::Int | Schema::Long => Shape::Integer,
            Schema::Float => Shape::Float,
            Schema::Double => Shape::Double,
            Schema::Bytes | Schema::BigDecimal => Shape::Bytes,
            Schema::String => Shape::Text,
            Schema::Array(array) => Shape::List(Box::new(self.shape(&array.items, namespace, depth + 1)?)),
            Schema::Map(map) => Shape::Map(Box::new(self.shape(&map.types, namespace, depth + 1)?)),
            Schema::Union(union) => {
                let branches = union.variants().iter().map(|branch| self.shape(branch, namespace, depth + 1));
                Shape::Union(branches.collect::<Result<_, _>>()?)
            }
            Schema::Record(record) => {
                let name = record.name.fully_qualified_name(namespace).into_owned();
                let place = self.place(&name);
                let mut fields = Vec::with_capacity(record.fields.len());
                for field in &record.fields {
                    fields.push((Text::new(&field.name), self.shape(&field.schema, name.namespace(), depth + 1)?));
                }
                self.named[place] = Some(Shape::Record(fields));
                Shape::Named(place)
            }
            Schema::Enum(named) => {
                let symbols = named.symbols.iter().map(|symbol| Text::new(symbol)).collect();
                self.define(&named.name, namespace, Shape::Enum(symbols))
            }
            Schema::Fixed(fixed) => self.define(&fixed.name, namespace, Shape::Fixed(fixed.size)),
            Schema::Ref { name } => Shape::Named(self.place(&name.fully_qualified_name(namespace))),
            Schema::Decimal(decimal) => {
                let inner = match &decimal.inner {
                    InnerDecimalSchema::Bytes => Shape::Bytes,
                    InnerDecimalSchema::Fixed(fixed) => self.define(&fixed.name, namespace, Shape::Fixed(fixed.size)),
                };
                self.marked(inner, Logical::Decimal(decimal.scale))
            }
            Schema::Uuid(UuidSchema::String) => Shape::Text,
            Schema::Uuid(UuidSchema::Bytes) => self.marked(Shape::Bytes, Logical::Uuid),
            Schema::Uuid(UuidSchema::Fixed(fixed)) => {
                let inner = self.define(&fixed.name, namespace, Shape::Fixed(fixed.size));
                self.marked(inner, Logical::Uuid)
            }
            Schema::Duration(fixed) => {
                let inner = self.define(&fixed.name, namespace, Shape::Fixed(fixed.size));
                self.marked(inner, Logical::Duration)
            }
            Schema::Date => integer(Logical::Date),
            Schema::TimeMillis => integer(Logical::Time(1_000_000)),
            Schema::TimeMicros => integer(Logical::Time(1_000)),
            Schema::TimestampMillis => integer(Logical::Timestamp(1_000_000)),
            Schema::TimestampMicros => integer(Logical::Timestamp(1_000)),
            Schema::TimestampNanos => integer(Logical::Timestamp(1)),
            Schema::LocalTimestampMillis => integer(Logical::LocalTimestamp(1_000_000)),
            Schema::LocalTimestampMicros => integer(Logical::LocalTimestamp(1_000)),
            Schema::LocalTimestampNanos => integer(Logical::LocalTimestamp(1)),
        })
    }

    fn marked(&self, inner: Shape, logical: Logical) -> Shape {
        if self.logical { Shape::Logical(Box::new(inner), logical) } else { inner }
    }

    /// Where the shape of this name stands or will stand.
    fn place(&mut self, name: &Name) -> usize {
        let named = &mut self.named;
        *self.places.entry(name.fullname(None)).or_insert_with(|| {
            named.push(None);
            named.len() - 1
        })
    }

    fn define(&mut self, name: &Name, namespace: Option<&str>, shape: Shape) -> Shape {
        let place = self.place(&name.fully_qualified_name(namespace));
        self.named[place] = Some(shape);
        Shape::Named(place)
    }
}

/// What is left of a record.
struct Datum<'a> {
    decoder: &'a AvroDecoder,
    rest: &'a [u8],
    /// Values that take no bytes and may still come.
    empty: usize,
}

impl<'a> Datum<'a> {
    fn value(&mut self, shape: &Shape, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("values lie within values deeper than {DEPTH_MAX}"));
        }
        Ok(match shape {
            Shape::Null => {
                self.spend()?;
                Value::Null
            }
            Shape::Boolean => match self.take(1)?[0] {
                0 => Value::Boolean(false),
                1 => Value::Boolean(true),
                other => return Err(format!("a boolean is {other}")),
            },
            Shape::Integer => Value::Integer(self.integer()?),
            Shape::Float => Value::Float(f64::from(f32::from_le_bytes(self.array()?))),
            Shape::Double => Value::Float(f64::from_le_bytes(self.array()?)),
            Shape::Bytes => Value::Bytes(self.sized()?.into()),
            Shape::Fixed(size) => Value::Bytes(self.take(*size)?.into()),
            Shape::Text => Value::Text(self.text()?),
            Shape::List(item) => {
                let mut items = Vec::new();
                while let Some(count) = self.block()? {
                    for _ in 0..count {
                        items.push(self.part(item, depth)?);
                    }
                }
                Value::list(items)
            }
            Shape::Map(item) => {
                let mut map = MapBuilder::with_capacity(0);
                while let Some(count) = self.block()? {
                    for _ in 0..count {
                        let key = self.text()?;
                        map.insert(key, self.value(item, depth + 1)?);
                    }
                }
                Value::Map(Arc::new(map.finish()))
            }
            Shape::Union(branches) => {
                let branch = self.integer()?;
                let found = usize::try_from(branch).ok().and_then(|at| branches.get(at));
                let found = found.ok_or_else(|| format!("branch {branch} of a union of {}", branches.len()))?;
                self.value(found, depth + 1)?
            }
            Shape::Record(fields) => {
                let mut map = Map::with_capacity(fields.len());
                for (name, shape) in fields {
                    // A schema names no field twice.
                    map.push_unique(name.clone(), self.value(shape, depth + 1)?);
                }
                Value::Map(Arc::new(map))
            }
            Shape::Enum(symbols) => {
                let symbol = self.integer()?;
                let found = usize::try_from(symbol).ok().and_then(|at| symbols.get(at));
                Value::Text(found.ok_or_else(|| format!("symbol {symbol} of an enumeration of {}", symbols.len()))?.clone())
            }
            Shape::Named(place) => {
                let decoder = self.decoder;
                self.value(&decoder.named[*place], depth + 1)?
            }
            Shape::Logical(inner, logical) => {
                let value = self.value(inner, depth + 1)?;
                logical.of(&value).ok_or_else(|| format!("{} is out of range", value.shown()))?
            }
        })
    }

    /// Passes over a value.
    fn pass(&mut self, shape: &Shape, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("values lie within values deeper than {DEPTH_MAX}"));
        }
        match shape {
            Shape::Null => self.spend()?,
            Shape::Boolean => drop(self.take(1)?),
            Shape::Integer | Shape::Enum(_) => drop(self.integer()?),
            Shape::Float => drop(self.take(4)?),
            Shape::Double => drop(self.take(8)?),
            Shape::Bytes | Shape::Text => drop(self.sized()?),
            Shape::Fixed(size) => drop(self.take(*size)?),
            Shape::List(item) => self.pass_blocks(item, false, depth)?,
            Shape::Map(item) => self.pass_blocks(item, true, depth)?,
            Shape::Union(branches) => {
                let branch = self.integer()?;
                let found = usize::try_from(branch).ok().and_then(|at| branches.get(at));
                let found = found.ok_or_else(|| format!("branch {branch} of a union of {}", branches.len()))?;
                self.pass(found, depth + 1)?;
            }
            Shape::Record(fields) => fields.iter().try_for_each(|(_, shape)| self.pass(shape, depth + 1))?,
            Shape::Named(place) => {
                let decoder = self.decoder;
                self.pass(&decoder.named[*place], depth + 1)?;
            }
            Shape::Logical(inner, _) => self.pass(inner, depth + 1)?,
        }
        Ok(())
    }

    fn pass_blocks(&mut self, item: &Shape, keys: bool, depth: usize) -> Result<(), String> {
        loop {
            let count = self.integer()?;
            match count {
                0 => return Ok(()),
                // Its bytes are said for those who pass over it.
                ..0 => drop(self.sized()?),
                _ => {
                    for _ in 0..count {
                        let before = self.rest.len();
                        if keys {
                            self.sized()?;
                        }
                        self.pass(item, depth + 1)?;
                        if self.rest.len() == before {
                            self.spend()?;
                        }
                    }
                }
            }
        }
    }

    /// An item of a list, which may take no bytes.
    fn part(&mut self, shape: &Shape, depth: usize) -> Result<Value, String> {
        let before = self.rest.len();
        let value = self.value(shape, depth + 1)?;
        if self.rest.len() == before {
            self.spend()?;
        }
        Ok(value)
    }

    fn spend(&mut self) -> Result<(), String> {
        self.empty = self.empty.checked_sub(1).ok_or_else(|| format!("there are more than {EMPTY_VALUES_MAX} empty values"))?;
        Ok(())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it ends too early")?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "it ends too early".to_owned())
    }

    /// Zigzag, seven bits a byte.
    fn integer(&mut self) -> Result<i64, String> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(10) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((number >> 1) as i64 ^ -((number & 1) as i64));
            }
        }
        Err("a number has more than ten bytes".to_owned())
    }

    fn sized(&mut self) -> Result<&'a [u8], String> {
        let length = self.integer()?;
        self.take(usize::try_from(length).map_err(|_| format!("a length is {length}"))?)
    }

    fn text(&mut self) -> Result<Text, String> {
        let bytes = self.sized()?;
        std::str::from_utf8(bytes).map(Text::new).map_err(|error| format!("a text is not UTF-8: {error}"))
    }

    /// How many items follow; None behind the last.
    fn block(&mut self) -> Result<Option<u64>, String> {
        let count = self.integer()?;
        if count < 0 {
            // Its bytes are said too, for those who skip it.
            self.integer()?;
        }
        Ok(Some(count.unsigned_abs()).filter(|count| *count > 0))
    }
}

impl Logical {
    /// None when it is out of range.
    fn of(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Logical::Date, Value::Integer(days)) => Date { epoch_day: 0 }.plus_days(*days).map(Value::Date),
            (Logical::Time(unit), Value::Integer(n)) => {
                let nano_of_day = n.checked_mul(unit).filter(|nanos| (0..NANOS_PER_DAY).contains(nanos))?;
                Some(Value::LocalTime(LocalTime { nano_of_day }))
            }
            (Logical::Timestamp(unit), Value::Integer(n)) => {
                let (second, nano) = split(*n, unit)?;
                Some(Value::DateTime(Arc::new(DateTime::utc(second, nano))))
            }
            (Logical::LocalTimestamp(unit), Value::Integer(n)) => {
                let (second, nano) = split(*n, unit)?;
                let epoch_day = second.div_euclid(SECONDS_PER_DAY);
                let nano_of_day = second.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND + i64::from(nano);
                Some(Value::LocalDateTime(LocalDateTime { epoch_day, nano_of_day }))
            }
            (Logical::Duration, Value::Bytes(bytes)) => {
                let part = |at: usize| Some(i64::from(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)));
                let (months, days, millis) = (part(0)?, part(4)?, part(8)?);
                let duration = Duration::of(months, days, millis / 1000, millis % 1000 * 1_000_000)?;
                Some(Value::Duration(Arc::new(duration)))
            }
            (Logical::Decimal(scale), Value::Bytes(bytes)) => Some(Value::Text(Text::new(&decimal(bytes, scale)?))),
            (Logical::Uuid, Value::Bytes(bytes)) => {
                let id = weir_model::NodeId::from_bytes(bytes[..].try_into().ok()?);
                Some(Value::text(&id.to_string()))
            }
            _ => None,
        }
    }
}

/// Seconds and nanoseconds of a moment, within the years of four digits: what no calendar has is a mistake of the schema.
fn split(n: i64, unit: i64) -> Option<(i64, i32)> {
    let nanos = i128::from(n) * i128::from(unit);
    let second = i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_SECOND))).ok()?;
    let in_range = second.unsigned_abs() / SECONDS_PER_DAY.unsigned_abs() < 365_000_000;
    in_range.then(|| (second, nanos.rem_euclid(i128::from(NANOS_PER_SECOND)) as i32))
}

/// The text of a number in two's complement, the greatest byte first. None with more digits than 128 bits have.
fn decimal(bytes: &[u8], scale: usize) -> Option<String> {
    let mut whole = [if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 }; 16];
    whole.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    let number = i128::from_be_bytes(whole);
    let sign = if number < 0 { "-" } else { "" };
    if scale > 64 {
        return None;
    }
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (front, back) = digits.split_at(digits.len() - scale);
    Some(if back.is_empty() { format!("{sign}{front}") } else { format!("{sign}{front}.{back}") })
}

#[cfg(test)]
mod tests {
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
        both(
            of("long", "local-timestamp-millis"),
            Avro::LocalTimestampMillis(millis),
            "1700000000123",
            "2023-11-14T22:13:20.123",
        );
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
}
