//! Well-formed inputs of every decoder, made at random: what is changed at a few places afterwards.

use std::io::Write;
use std::sync::{LazyLock, OnceLock};

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use serde_json::Value as Json;
use weir_connectors::parquet::{Cell, ColumnKind, Field, TableWriter};

use super::Target;
use crate::random::Random;

/// Schemas of Avro by which data are made and read. Between them they have everything that a schema can say.
pub const AVRO_SCHEMAS: &[&str] = &[
    r#"{"type": "record", "name": "a.Person", "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": ["null", "int"], "default": null},
        {"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "scores", "type": {"type": "map", "values": "double"}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}}, {"name": "friend", "type": ["null", "Person"]}]}"#,
    r#"{"type": "record", "name": "Times", "fields": [{"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}, {"name": "of_day", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-nanos"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}},
        {"name": "length", "type": {"type": "fixed", "name": "Length", "size": 12, "logicalType": "duration"}}]}"#,
    r#"{"type": "record", "name": "Tree", "fields": [{"name": "value", "type": ["null", "boolean", "long", "float", "string", "bytes",
        {"type": "array", "items": "Tree"}, {"type": "map", "values": "Tree"}]}, {"name": "left", "type": ["null", "Tree"]},
        {"name": "right", "type": ["null", "Tree"]}]}"#,
    r#"{"type": "record", "name": "Odd", "fields": [{"name": "nothing", "type": {"type": "record", "name": "Nothing", "fields": []}},
        {"name": "nulls", "type": {"type": "array", "items": "null"}}, {"name": "nothings", "type": {"type": "array", "items": "Nothing"}},
        {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": "long"}}},
        {"name": "fixed", "type": {"type": "fixed", "name": "Four", "size": 4}}]}"#,
];

/// Declarations of Protobuf, as registries keep them.
pub const DECLARATIONS: &[&str] = &[
    include_str!("../../../model/src/protobuf/vectors/shapes.proto"),
    include_str!("../../../model/src/protobuf/vectors/event.proto"),
    include_str!("../../../model/src/protobuf/vectors/old.proto"),
    include_str!("../../../model/src/protobuf/vectors/new.proto"),
    "syntax = \"proto3\"; message A { int64 id = 1; map<string, B> more = 2; oneof one { string a = 3; bytes b = 4; } message B { A a = 1; repeated A as = 2; } }",
];

pub const DESCRIPTORS: &[u8] = include_bytes!("../../../model/src/protobuf/vectors/all.desc");

/// Messages as other libraries wrote them: a type, and its bytes in hexadecimal digits.
const MESSAGES: &str = include_str!("../../../model/src/protobuf/vectors/vectors.txt");

const CONTAINERS: &[&[u8]] = &[
    include_bytes!("../../../connectors/src/container_vectors/null.avro"),
    include_bytes!("../../../connectors/src/container_vectors/deflate.avro"),
    include_bytes!("../../../connectors/src/container_vectors/snappy.avro"),
    include_bytes!("../../../connectors/src/container_vectors/zstandard.avro"),
];

const TABLES: &[&[u8]] = &[
    include_bytes!("../../../connectors/src/parquet_vectors/plain.parquet"),
    include_bytes!("../../../connectors/src/parquet_vectors/gzip.parquet"),
    include_bytes!("../../../connectors/src/parquet_vectors/lz4.parquet"),
    include_bytes!("../../../connectors/src/parquet_vectors/snappy.parquet"),
    include_bytes!("../../../connectors/src/parquet_vectors/zstd.parquet"),
];

/// Messages of these types are made and read.
pub fn messages() -> &'static [(&'static str, Vec<u8>)] {
    static READ: LazyLock<Vec<(&'static str, Vec<u8>)>> = LazyLock::new(|| {
        let read = |line: &'static str| {
            let (name, rest) = line.split_once(" = ")?;
            Some((name, unhex(rest.split(' ').next()?)?))
        };
        MESSAGES.lines().filter_map(read).collect()
    });
    &READ
}

/// Samples that take longer to make than to read: each is made once, of a seed of its own, and changed in many ways.
struct Made([OnceLock<Vec<u8>>; 4096]);

impl Made {
    const fn none() -> Made {
        Made([const { OnceLock::new() }; 4096])
    }

    fn one(&self, random: &mut Random, make: impl FnOnce(&mut Random) -> Vec<u8>) -> Vec<u8> {
        let number = random.below(self.0.len() as u64);
        self.0[number as usize].get_or_init(|| make(&mut Random::new(number))).clone()
    }
}

/// Bytes of pairs of hexadecimal digits.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = if text == "-" { "" } else { text };
    let pairs = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect()
}

/// What is put into inputs of a target.
pub fn words(target: Target) -> &'static [&'static [u8]] {
    match target {
        Target::Json | Target::JsonObjects | Target::Body => &[
            b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u", b"\\ud800", b"null", b"1e999", b"-0", b"{\"a\":", b"[[",
            b"\xff",
        ],
        Target::Lines | Target::Csv => {
            &[b",", b"\"", b"\\", b"\n", b"\r\n", b"\"\"", b";", b"\xef\xbb\xbf", b"\xff\xfe", b"\xd8\x00"]
        }
        Target::AvroSchema => &[
            b"{\"type\":",
            b"\"record\"",
            b"\"array\"",
            b"\"items\":",
            b"\"fields\":[",
            b"\"name\":\"a\",",
            b"\"logicalType\":\"decimal\"",
            b"\"size\":",
            b"99999999999",
            b"[",
            b"]",
            b"{",
            b"}",
            b",",
            b"null",
            b"\"namespace\":\"a.b\"",
        ],
        Target::ProtobufDeclarations => &[
            b"message A {",
            b"}",
            b"{",
            b";",
            b"oneof x {",
            b"map<",
            b"repeated ",
            b"optional group G = 1 {",
            b"enum E {",
            b"= 1",
            b"import \"google/protobuf/any.proto\";",
            b"extensions 1 to max;",
            b"option (a).b = {",
            b"\"",
            b"/*",
            b"//",
            b"edition = \"2023\";",
            b".a.b.C",
        ],
        Target::ServerSentEvents => {
            &[b"data:", b"id:", b"retry:", b"event:", b"\n", b"\r", b"\r\n", b"\n\n", b"\0", b"\xef\xbb\xbf"]
        }
        Target::Nats => {
            &[b"MSG ", b"HMSG ", b"\r\n", b"PING\r\n", b"-ERR 'x'\r\n", b"+OK\r\n", b" 1 ", b"NATS/1.0 404\r\n\r\n", b"$JS.ACK."]
        }
        Target::Redis => &[
            b"*1\r\n",
            b"*2\r\n",
            b"$1\r\n",
            b"\r\n",
            b":1\r\n",
            b"+OK\r\n",
            b"-ERR x\r\n",
            b"*-1\r\n",
            b"$-1\r\n",
            b"*99999999\r\n",
        ],
        Target::Postgres => &[
            b"d\0\0\0",
            b"w",
            b"k",
            b"B",
            b"C",
            b"R",
            b"I",
            b"U",
            b"D",
            b"T",
            b"N",
            b"K",
            b"O",
            b"n",
            b"u",
            b"t",
            b"E",
            b"Z\0\0\0\x05I",
        ],
        _ => &[b"\0", b"\xff", b"\x80", b"\0\0\0\0", b"\xff\xff\xff\xff"],
    }
}

/// A well-formed input.
pub fn sample(target: Target, random: &mut Random) -> Vec<u8> {
    match target {
        Target::Json => json(random, 5).into_bytes(),
        Target::JsonObjects => {
            let between = ["\n", ",", " ", "", "\r\n"][random.below(5) as usize];
            let objects: Vec<_> = (0..random.below(5)).map(|_| format!("{{\"a\":{}}}", json(random, 3))).collect();
            objects.join(between).into_bytes()
        }
        Target::Lines => lines(random, |random| json(random, 2)),
        Target::Csv => lines(random, |random| {
            let fields: Vec<_> = (0..random.below(6)).map(|_| csv_field(random)).collect();
            fields.join(",")
        }),
        Target::Protobuf => {
            let all = messages();
            all[random.below(all.len() as u64) as usize].1.clone()
        }
        Target::ProtobufDescriptors => DESCRIPTORS.to_vec(),
        Target::ProtobufDeclarations => DECLARATIONS[random.below(DECLARATIONS.len() as u64) as usize].as_bytes().to_vec(),
        Target::Avro => {
            let which = random.below(AVRO_SCHEMAS.len() as u64) as usize;
            [vec![which as u8], datum(random, which)].concat()
        }
        Target::AvroSchema => avro_schema(random),
        Target::AvroContainer => {
            static MADE: Made = Made::none();
            MADE.one(random, container)
        }
        Target::Parquet => {
            static MADE: Made = Made::none();
            MADE.one(random, table)
        }
        Target::Registry => {
            let id = random.below(8) as u32;
            let datum = match id as usize {
                which @ 0..4 => datum(random, which),
                _ => [vec![0; random.below(2) as usize], sample(Target::Protobuf, random)].concat(),
            };
            [&[0][..], &id.to_be_bytes(), &datum].concat()
        }
        Target::Recoding => {
            static MADE: Made = Made::none();
            recoded(random, 6, &MADE)
        }
        Target::RecodedFile => {
            static MADE: Made = Made::none();
            recoded(random, 3, &MADE)
        }
        Target::Body => match random.below(3) {
            0 => lines(random, |random| json(random, 2)),
            1 => json(random, 4).into_bytes(),
            _ => format!("[{},{}]", json(random, 2), json(random, 2)).into_bytes(),
        },
        Target::ServerSentEvents => (0..random.below(5)).map(|_| server_sent_event(random)).collect::<String>().into_bytes(),
        Target::ReactiveStream => {
            let records = (0..random.below(4)).map(|_| json(random, 2));
            records.flat_map(|record| [&(record.len() as u32).to_be_bytes()[..], record.as_bytes()].concat()).collect()
        }
        Target::Nats => nats(random),
        Target::Mqtt => mqtt(random),
        Target::Amqp => amqp(random),
        Target::Redis => redis(random),
        Target::Postgres => postgres(random),
        Target::KinesisEvents => kinesis(random),
        Target::Lexer | Target::Parser | Target::Binder | Target::Evaluator => Vec::new(),
    }
}

fn pick<'a, T: ?Sized>(random: &mut Random, from: &[&'a T]) -> &'a T {
    from[random.below(from.len() as u64) as usize]
}

fn json(random: &mut Random, depth: u64) -> String {
    let leaves =
        ["null", "true", "1", "-2.5e3", "9223372036854775808", "\"\"", "\"text\"", "\"\\u00e9\\n\\ud83d\\ude00\"", "\"é\""];
    if depth == 0 || random.once_in(3) {
        return pick(random, &leaves).to_owned();
    }
    let count = random.below(4);
    if random.once_in(2) {
        let items: Vec<_> = (0..count).map(|_| json(random, depth - 1)).collect();
        return format!("[{}]", items.join(", "));
    }
    let entries: Vec<_> = (0..count)
        .map(|_| format!("\"{}\": {}", pick(random, &["a", "b", "id", "name", "x\\\"y"]), json(random, depth - 1)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

fn lines(random: &mut Random, line: impl Fn(&mut Random) -> String) -> Vec<u8> {
    let end = pick(random, &["\n", "\r\n"]);
    (0..random.below(6)).map(|_| line(random) + end).collect::<String>().into_bytes()
}

fn csv_field(random: &mut Random) -> String {
    pick(random, &["", "a", "12", "\"a, b\"", "\"say \"\"so\"\"\"", "\"two\nlines\"", "a\\,b", "é", "\\\\", "\"\""]).to_owned()
}

/// A datum of one of the schemas.
fn datum(random: &mut Random, which: usize) -> Vec<u8> {
    static SCHEMAS: LazyLock<Vec<Json>> =
        LazyLock::new(|| AVRO_SCHEMAS.iter().map(|schema| serde_json::from_str(schema).expect("a schema")).collect());
    let (mut out, mut named) = (Vec::new(), Vec::new());
    put_datum(random, &SCHEMAS[which], &mut named, 4, &mut out);
    out
}

/// `named`: the types with names that were met on the way.
fn put_datum<'s>(random: &mut Random, schema: &'s Json, named: &mut Vec<&'s Json>, depth: u64, out: &mut Vec<u8>) {
    let zigzag = |n: i64, out: &mut Vec<u8>| {
        let mut left = ((n << 1) ^ (n >> 63)) as u64;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    };
    if let Json::Array(branches) = schema {
        // The first of them is null wherever a schema names itself.
        let branch = if depth == 0 { 0 } else { random.below(branches.len() as u64) as usize };
        zigzag(branch as i64, out);
        return put_datum(random, &branches[branch], named, depth.saturating_sub(1), out);
    }
    let kind = schema.as_str().or_else(|| schema["type"].as_str()).unwrap_or_default();
    if schema["name"].is_string() {
        named.push(schema);
    }
    let count = if depth == 0 { 0 } else { random.below(4) };
    match kind {
        "null" => {}
        "boolean" => out.push(random.below(2) as u8),
        "int" | "long" => zigzag(random.number() as i64 >> (33 + random.below(30)), out),
        "float" => out.extend((random.below(1_000) as f32 / 8.0).to_le_bytes()),
        "double" => out.extend((random.below(1_000) as f64 / 8.0).to_le_bytes()),
        "bytes" | "string" => {
            let text = pick(random, &["", "a", "12", "Zoë", "a longer text"]);
            zigzag(text.len() as i64, out);
            out.extend(text.as_bytes());
        }
        "fixed" => out.extend((0..schema["size"].as_u64().unwrap_or(0)).map(|_| random.below(4) as u8)),
        "enum" => zigzag(random.below(2) as i64, out),
        "array" | "map" => {
            if count > 0 {
                zigzag(count as i64, out);
            }
            for at in 0..count {
                if kind == "map" {
                    zigzag(1, out);
                    out.push(b'a' + at as u8);
                }
                put_datum(random, &schema[if kind == "map" { "values" } else { "items" }], named, depth - 1, out);
            }
            zigzag(0, out);
        }
        "record" => {
            for field in schema["fields"].as_array().into_iter().flatten() {
                put_datum(random, &field["type"], named, depth.saturating_sub(1), out);
            }
        }
        name => {
            let found = named.iter().find(|found| found["name"].as_str().is_some_and(|full| full.ends_with(name))).copied();
            if let Some(found) = found {
                put_datum(random, found, named, depth.saturating_sub(1), out);
            }
        }
    }
}

fn avro_schema(random: &mut Random) -> Vec<u8> {
    match random.below(32) {
        // Each record has two of the one before it: how many values that makes is for the reader to find out.
        0 => {
            let bottom = pick(
                random,
                &[
                    "[]",
                    "[{\"name\": \"x\", \"type\": \"null\"}]",
                    "[{\"name\": \"x\", \"type\": {\"type\": \"fixed\", \"name\": \"F\", \"size\": 0}}]",
                ],
            );
            let mut inner = format!("{{\"type\": \"record\", \"name\": \"R0\", \"fields\": {bottom}}}");
            // With sixteen they are more than a reader takes, and that takes it as long as thousands of others.
            let levels = if random.once_in(32) { 60 } else { 10 };
            for level in 1..=random.below(levels) {
                inner = format!(
                    "{{\"type\": \"record\", \"name\": \"R{level}\", \"fields\": [{{\"name\": \"a\", \"type\": {inner}}}, {{\"name\": \"b\", \"type\": \"R{}\"}}]}}",
                    level - 1
                );
            }
            inner.into_bytes()
        }
        1..8 => {
            let depth = random.below(150) as usize;
            let around = pick(random, &["{\"type\": \"array\", \"items\": ", "{\"type\": \"map\", \"values\": ", "[\"null\", "]);
            let close = if around.starts_with('[') { "]" } else { "}" };
            format!("{}\"int\"{}", around.repeat(depth), close.repeat(depth)).into_bytes()
        }
        _ => pick(random, AVRO_SCHEMAS).as_bytes().to_vec(),
    }
}

fn container(random: &mut Random) -> Vec<u8> {
    if random.once_in(4) {
        return pick(random, CONTAINERS).to_vec();
    }
    let which = random.below(AVRO_SCHEMAS.len() as u64) as usize;
    let sized = |bytes: &[u8]| {
        let mut all = vec![
            (bytes.len() as u64 * 2) as u8 | 0x80,
            ((bytes.len() as u64 * 2) >> 7) as u8 | 0x80,
            ((bytes.len() as u64 * 2) >> 14) as u8,
        ];
        all.extend_from_slice(bytes);
        all
    };
    let codec = random.below(3);
    let name: &[u8] = [&b"null"[..], b"deflate", b"zstandard"][codec as usize];
    let mut schema = AVRO_SCHEMAS[which].as_bytes().to_vec();
    if random.once_in(4) {
        schema = avro_schema(random);
    }
    let mut out =
        [&b"Obj\x01\x04"[..], b"\x16avro.schema", &sized(&schema), b"\x14avro.codec", &sized(name), b"\0", &[7; 16]].concat();
    for _ in 0..random.below(4) {
        let count = random.below(5);
        let block: Vec<u8> = (0..count).flat_map(|_| datum(random, which)).collect();
        let block = match codec {
            0 => block,
            1 => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&block).and_then(|()| encoder.finish()).expect("bytes")
            }
            _ => zstd::stream::encode_all(&block[..], 1).expect("bytes"),
        };
        out.push(count as u8 * 2);
        out.extend([sized(&block), vec![7; 16]].concat());
    }
    out
}

/// Small ones mostly: most of a large one is values.
fn table(random: &mut Random) -> Vec<u8> {
    if random.once_in(16) {
        return pick(random, TABLES).to_vec();
    }
    let kinds = [
        ColumnKind::Boolean,
        ColumnKind::Integer,
        ColumnKind::Float,
        ColumnKind::Text,
        ColumnKind::Json,
        ColumnKind::Bytes,
        ColumnKind::Texts,
    ];
    let chosen: Vec<ColumnKind> = (0..1 + random.below(4)).map(|_| kinds[random.below(7) as usize]).collect();
    let named = |at: usize| format!("column{at}").as_str().into();
    let fields: Vec<Field> = if random.once_in(3) {
        vec![Field::Group("group".into(), chosen.iter().enumerate().map(|(at, kind)| (named(at), *kind)).collect())]
    } else {
        chosen.iter().enumerate().map(|(at, kind)| Field::Column(named(at), *kind)).collect()
    };
    let mut writer = TableWriter::new(&fields, &[("about", "a test")]).expect("columns");
    for row in 0..random.below(20) {
        for (at, kind) in chosen.iter().enumerate() {
            let texts = ["a".into(), "".into(), "b".into()];
            let cell = match kind {
                ColumnKind::Boolean => Cell::Boolean(row % 2 == 0),
                ColumnKind::Integer => Cell::Integer(row as i64),
                ColumnKind::Float => Cell::Float(row as f64),
                ColumnKind::Text | ColumnKind::Bytes => Cell::Bytes(b"some text"),
                ColumnKind::Json => Cell::Bytes(b"{\"a\": [1]}"),
                ColumnKind::Texts => Cell::Texts(&texts[..random.below(4) as usize]),
            };
            if !random.once_in(4) {
                writer.set(at, cell);
            }
        }
        writer.end_row().expect("a row");
    }
    writer.finish().expect("a file")
}

/// Something that was compressed once, and sometimes once more; now and then much of little: half of that a mebibyte, and each
/// further power of two half as often, up to 256.
fn recoded(random: &mut Random, steps: u64, made: &Made) -> Vec<u8> {
    static MUCH: [[OnceLock<Vec<u8>>; 9]; 6] = [const { [const { OnceLock::new() }; 9] }; 6];
    let again = |random: &mut Random, once: Vec<u8>| {
        if random.once_in(4) { compressed(random.below(steps), &once) } else { once }
    };
    if !random.once_in(400) {
        return made.one(random, |random| {
            let once = compressed(random.below(steps), json(random, 4).as_bytes());
            again(random, once)
        });
    }
    let (step, doublings) = (random.below(steps), (random.below(1 << 8) | 1 << 8).trailing_zeros() as usize);
    let once = MUCH[step as usize][doublings].get_or_init(|| compressed(step, &vec![b' '; 1 << (20 + doublings)]));
    again(random, once.clone())
}

/// By one of the record decoders, in the order in which they are declared.
fn compressed(step: u64, bytes: &[u8]) -> Vec<u8> {
    // What does not become smaller is not worth its time where it is large.
    let small = &bytes[..bytes.len().min(60_000)];
    match step {
        0 => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("bytes")
        }
        1 => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("bytes")
        }
        2 => base64::Engine::encode(&base64::engine::general_purpose::STANDARD, small).into_bytes(),
        3 => zstd::stream::encode_all(bytes, 1).expect("bytes"),
        4 => {
            // A frame with one block that is stored as it is: magic, what it has, how long blocks may be, and a check of these
            // two.
            let block = (small.len() as u32 | 0x8000_0000).to_le_bytes();
            [&[4, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82][..], &block, small, &[0; 4]].concat()
        }
        _ => {
            // A block of snappy that is one literal: how long it is when undone, then lengths of literals less one.
            let length = small.len() as u32;
            let mut out = vec![length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8];
            if length > 0 {
                out.push(61 << 2);
                out.extend(((length - 1) as u16).to_le_bytes());
                out.extend_from_slice(small);
            }
            out
        }
    }
}

fn server_sent_event(random: &mut Random) -> String {
    let end = pick(random, &["\n", "\r", "\r\n"]);
    let lines = (0..random.below(4)).map(|_| {
        let word = pick(random, &["data: ", "data:", "id: 7", "event: x", "retry: 100", ": comment", "data"]);
        format!("{word}{}{end}", json(random, 1))
    });
    lines.collect::<String>() + end
}

fn nats(random: &mut Random) -> Vec<u8> {
    let mut out = b"INFO {\"headers\":true,\"max_payload\":1048576,\"nonce\":\"abc\"}\r\nPONG\r\n".to_vec();
    for number in 0..random.below(6) {
        let payload = pick(
            random,
            &["{\"seq\": 5}", "{}", "", "{\"error\": {\"code\": 404, \"err_code\": 10059, \"description\": \"no\"}}"],
        );
        let reply = pick(
            random,
            &["", " $JS.ACK.events.weir.1.33.7.1690000000000000000.5", " $JS.ACK.hub.ABC.events.weir.1.33.7.16.5.x"],
        );
        let head = pick(
            random,
            &[
                "NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n",
                "NATS/1.0 408 Request Timeout\r\n\r\n",
                "NATS/1.0 100 Idle\r\nNats-Expected-Last-Sequence: 1\r\n\r\n",
            ],
        );
        match random.below(5) {
            0 => out.extend(b"PING\r\n"),
            1 => out.extend(b"+OK\r\n"),
            2 => out.extend(
                format!("HMSG a.b {number}{reply} {} {}\r\n{head}{payload}\r\n", head.len(), head.len() + payload.len()).bytes(),
            ),
            _ => out.extend(format!("MSG a.b {number}{reply} {}\r\n{payload}\r\n", payload.len()).bytes()),
        }
    }
    out
}

fn mqtt(random: &mut Random) -> Vec<u8> {
    let mut out = vec![0x20, 2, random.below(2) as u8, 0, 0x90, 3, 0, 1, 1];
    for _ in 0..random.below(6) {
        match random.below(4) {
            0 => out.extend([0xd0, 0]),
            1 => out.extend([0x40, 2, 0, 7]),
            _ => {
                let level = random.below(2) as u8;
                let payload = json(random, 2);
                let payload = &payload.as_bytes()[..payload.len().min(100)];
                out.extend([0x30 | level << 1 | random.below(2) as u8, (5 + 2 * usize::from(level) + payload.len()) as u8, 0, 3]);
                out.extend(b"a/b");
                out.extend(&[0, 9][..2 * usize::from(level)]);
                out.extend(payload);
            }
        }
    }
    out
}

fn amqp(random: &mut Random) -> Vec<u8> {
    let frame = |kind: u8, payload: &[u8]| [&[kind, 0, 1][..], &(payload.len() as u32).to_be_bytes(), payload, &[0xce]].concat();
    let method =
        |class: u16, number: u16, fields: &[u8]| frame(1, &[&class.to_be_bytes()[..], &number.to_be_bytes(), fields].concat());
    let tune = [&[0, 1][..], &131_072_u32.to_be_bytes(), &[0, 60]].concat();
    let mut out = [method(10, 10, &[0, 9]), method(10, 30, &tune), method(10, 41, &[0]), method(20, 11, &[0; 4])].concat();
    for _ in 0..random.below(6) {
        let body = json(random, 2).into_bytes();
        let header = |flags: u16, properties: &[u8]| {
            frame(2, &[&[0, 60, 0, 0][..], &(body.len() as u64).to_be_bytes(), &flags.to_be_bytes(), properties].concat())
        };
        match random.below(6) {
            0 => out.extend(frame(8, &[])),
            1 => out.extend(method(60, 80, &[&[0, 0, 0, 0, 0, 0, 0, 5, 1][..]].concat())),
            2 => {
                out.extend(method(60, 50, b"\x01\x38\x05no wy\x01e\x01k"));
                out.extend([header(0x8080, b"\x04text\x02id"), frame(3, &body)].concat());
            }
            _ => {
                out.extend(method(60, 60, b"\x01c\0\0\0\0\0\0\0\x07\0\x01e\x01k"));
                let (front, back) = body.split_at(body.len() / 2);
                out.extend([header(0xb000, b"\x04text\0\0\0\x03\x01at\x02"), frame(3, front), frame(3, back)].concat());
            }
        }
    }
    out
}

fn redis(random: &mut Random) -> Vec<u8> {
    let bytes = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let mut out = String::new();
    for _ in 0..random.below(4) {
        match random.below(6) {
            0 => out += "+OK\r\n",
            1 => out += "*-1\r\n",
            2 => out += "-WRONGTYPE no stream\r\n",
            _ => {
                let count = random.below(4);
                let entries = (0..count).map(|at| {
                    let value = json(random, 1);
                    let fields = if random.once_in(6) {
                        "*-1\r\n".to_owned()
                    } else {
                        format!("*2\r\n{}{}", bytes("value"), bytes(&value))
                    };
                    format!("*2\r\n{}{fields}", bytes(&format!("1690000000000-{at}")))
                });
                let entries = entries.collect::<String>();
                out += &format!("*1\r\n*2\r\n{}*{count}\r\n{entries}", bytes("events"));
            }
        }
    }
    out.into_bytes()
}

fn postgres(random: &mut Random) -> Vec<u8> {
    let message = |kind: u8, body: &[u8]| [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat();
    let change = |body: &[u8]| message(b'd', &[&b"w"[..], &[0; 24], body].concat());
    let mut out = match random.below(3) {
        0 => message(b'R', b"\0\0\0\x05salt"),
        1 => message(b'R', b"\0\0\0\x03"),
        _ => Vec::new(),
    };
    out.extend(
        [message(b'R', &[0; 4]), message(b'S', b"a\0b\0"), message(b'Z', b"I"), message(b'C', b"SET\0"), message(b'Z', b"I")]
            .concat(),
    );
    // Types of columns: boolean, bytes, long, text, JSON, doubles, days, moments, numbers, lists of ints and of texts.
    let kinds = [16_u32, 17, 20, 25, 114, 701, 1082, 1184, 1700, 1007, 1009];
    let values = [
        "t",
        "\\x00ff",
        "42",
        "a \"text\"",
        "{\"a\": [1]}",
        "1.5",
        "2024-02-29",
        "2024-02-29 12:00:00.5+00",
        "12.50",
        "{1,NULL,{2}}",
        "{a,\"b,\\\"\"}",
        "NaN",
        "infinity",
        "",
    ];
    let columns = 1 + random.below(4) as usize;
    let chosen: Vec<u32> = (0..columns).map(|_| kinds[random.below(11) as usize]).collect();
    let mut table = b"R\0\0\0\x07public\0orders\0d".to_vec();
    let mut described = (columns as u16).to_be_bytes().to_vec();
    table.extend((columns as u16).to_be_bytes());
    for (at, kind) in chosen.iter().enumerate() {
        table.extend([&[1, b'a' + at as u8, 0][..], &kind.to_be_bytes(), &[255; 4]].concat());
        described.extend([&[b'a' + at as u8, 0][..], &[0; 6], &kind.to_be_bytes(), &[0; 8]].concat());
    }
    out.extend(change(&table));
    out.extend(message(b'T', &described));
    let cells = |random: &mut Random, letter: bool| {
        let mut cells = (columns as u16).to_be_bytes().to_vec();
        for _ in 0..columns {
            let value = pick(random, &values);
            let text = [&(value.len() as u32).to_be_bytes()[..], value.as_bytes()].concat();
            match random.below(6) {
                0 if letter => cells.push(b'n'),
                1 if letter => cells.push(b'u'),
                _ if letter => cells.extend([&b"t"[..], &text].concat()),
                0 => cells.extend([255; 4]),
                _ => cells.extend(text),
            }
        }
        cells
    };
    for _ in 0..random.below(6) {
        let row = cells(random, true);
        out.extend(match random.below(8) {
            0 => change(&[&b"B"[..], &[0; 20]].concat()),
            1 => change(&[&b"C"[..], &[0; 25]].concat()),
            2 => change(&[&b"U\0\0\0\x07O"[..], &cells(random, true), b"N", &row].concat()),
            3 => change(&[&b"D\0\0\0\x07K"[..], &row].concat()),
            4 => change(b"T\0\0\0\x01\0\0\0\0\x07"),
            5 => message(b'D', &cells(random, false)),
            6 => message(b'E', b"SERROR\0VERROR\0C23505\0Mduplicate key\0\0"),
            _ => change(&[&b"I\0\0\0\x07N"[..], &row].concat()),
        });
    }
    out
}

fn kinesis(random: &mut Random) -> Vec<u8> {
    let text = |name: &str, value: &str| {
        [&[name.len() as u8][..], name.as_bytes(), &[7], &(value.len() as u16).to_be_bytes(), value.as_bytes()].concat()
    };
    let mut out = Vec::new();
    for _ in 0..random.below(4) {
        let mut headers = match random.below(3) {
            0 => [text(":message-type", "exception"), text(":exception-type", "ResourceInUseException")].concat(),
            1 => [text(":message-type", "error"), text(":error-code", "InternalFailure"), text(":error-message", "why")].concat(),
            _ => {
                [text(":message-type", "event"), text(":event-type", "SubscribeToShardEvent"), b"\x01a\x00\x01b\x02\x09".to_vec()]
                    .concat()
            }
        };
        // What is wrong within a message has to have the right checks, or nobody looks at it.
        if random.once_in(2) {
            super::damage::damage(random, &mut headers, &[b"\x07", b"\x06\xff\xff"], b"");
        }
        let payload = json(random, 2);
        let length = (16 + headers.len() + payload.len()) as u32;
        let claimed = if random.once_in(8) { random.below(1 << 32) as u32 } else { headers.len() as u32 };
        let mut message = [length.to_be_bytes(), claimed.to_be_bytes()].concat();
        message.extend(checked(&message));
        message.extend([&headers, payload.as_bytes()].concat());
        message.extend(checked(&message));
        out.extend(message);
    }
    out
}

fn checked(bytes: &[u8]) -> [u8; 4] {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum().to_be_bytes()
}
