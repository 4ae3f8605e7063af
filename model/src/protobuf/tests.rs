//! Against what Google's library makes of the same bytes (`vectors/make.py` says how they were made), round trips of random
//! values, and bytes that are no messages.

use std::sync::Arc;

use super::schema::{Shape, Type};
use super::wire::{put_sized, put_tag, put_varint};
use super::*;
use crate::id::{IdScheme, NodeId};
use crate::json;
use crate::temporal::{Date, DateTime, Duration, LocalDateTime, LocalTime, Time};
use crate::value::{Map, Text, Value};

const DESCRIPTORS: &[u8] = include_bytes!("vectors/all.desc");
const VECTORS: &str = include_str!("vectors/vectors.txt");

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ (self.0 << 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::read(DESCRIPTORS).expect("a descriptor set"))
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2).map(|pair| std::str::from_utf8(pair).expect("hex"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
}

fn vectors() -> impl Iterator<Item = (&'static str, bool, Vec<u8>, &'static str)> {
    VECTORS.lines().map(|line| {
        let [name, kind, hex, values] = line.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name, kind == "=", bytes_of(hex.trim_matches('-')), values)
    })
}

fn shown(map: &Map) -> String {
    let mut out = Vec::new();
    json::write(&Value::Map(map.clone().into()), IdScheme::Uuid, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn decode(name: &str, bytes: &[u8]) -> Result<String, String> {
    let message = schema().message(name).expect("a message");
    message.decode(bytes, &Wanted::All).map(|map| shown(&map)).map_err(|error| error.to_string())
}

fn encode(name: &str, map: Map) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let message = schema().message(name).expect("a message");
    message.encode(&map, IdScheme::Uuid, &mut out).map(|()| out).map_err(|error| error.to_string())
}

fn map(text: &str) -> Map {
    match json::parse(text.as_bytes()) {
        Ok(Value::Map(map)) => Map::clone(&map),
        other => panic!("{text}: {other:?}"),
    }
}

/// As text, with the keys of maps in order: who wrote a map chose its order.
fn sorted(map: &Map) -> String {
    let mut entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {}", sorted_value(value))).collect();
    entries.sort();
    entries.join(", ")
}

fn sorted_value(value: &Value) -> String {
    match value {
        Value::Map(map) => format!("{{{}}}", sorted(map)),
        Value::List(items) => format!("{:?}", items.iter().map(sorted_value).collect::<Vec<_>>()),
        other => other.shown(),
    }
}

#[test]
fn what_others_wrote_is_read_as_they_read_it_and_written_back() {
    let mut canonical = 0;
    for (name, same, bytes, values) in vectors() {
        let message = schema().message(name).expect("a message");
        let decoded = message.decode(&bytes, &Wanted::All).unwrap_or_else(|error| panic!("{name} {values}: {error}"));
        assert_eq!(sorted(&map(&shown(&decoded))), sorted(&map(values)), "{name}");
        let encoded = encode(name, decoded.clone()).unwrap_or_else(|error| panic!("{name} {values}: {error}"));
        if same {
            assert_eq!(encoded, bytes, "{name} {values}");
            canonical += 1;
        }
        assert_eq!(decode(name, &encoded).expect("what was encoded"), shown(&decoded), "{name}");
    }
    assert_eq!((canonical, vectors().count()), (13, 21));
}

/// A value as decoding gives it, with all its defaults.
fn value(schema: &Schema, of: Type, random: &mut Random, depth: usize) -> Value {
    let bits = random.next().wrapping_mul(1 << random.below(40)) as i64 >> random.below(60);
    match of {
        Type::Double => Value::Float(f64::from_bits(bits as u64)),
        Type::Float => Value::Float(f64::from(f32::from_bits(bits as u32))),
        Type::Int32 | Type::Sint32 | Type::Sfixed32 => Value::Integer((bits as i32).into()),
        Type::Uint32 | Type::Fixed32 => Value::Integer((bits as u32).into()),
        Type::Bool => Value::Boolean(bits & 1 == 1),
        Type::Text { .. } => Value::text(&"é x".repeat(random.below(80))),
        Type::Bytes => Value::Bytes(bits.to_le_bytes()[..random.below(9)].into()),
        Type::Enum(place) => {
            let named: Vec<_> = schema.enums[place].by_name.keys().cloned().collect();
            Value::Text(named[random.below(named.len())].clone())
        }
        Type::Message(place) | Type::Group(place) => Value::Map(message(schema, place, random, depth + 1).into()),
        _ => Value::Integer(bits),
    }
}

fn message(schema: &Schema, place: usize, random: &mut Random, depth: usize) -> Map {
    let mut map = Map::default();
    let mut taken = Vec::new();
    for field in &schema.messages[place].fields {
        let is_message = matches!(field.of, Type::Message(_) | Type::Group(_));
        let another = field.oneof.is_some_and(|oneof| taken.contains(&oneof));
        let deep = depth > 4 && is_message;
        if field.default.is_none() && !field.required && (another || deep || random.below(3) == 0) {
            continue;
        }
        taken.extend(field.oneof);
        let count = if deep { 0 } else { random.below(4) };
        let made = match (field.shape, field.of) {
            (Shape::One, of) => value(schema, of, random, depth),
            (Shape::List { .. }, of) => Value::list((0..count).map(|_| value(schema, of, random, depth)).collect()),
            (Shape::Map, Type::Message(entry)) => {
                let [key, of] = &schema.messages[entry].fields[..] else { panic!("an entry") };
                let key = |random: &mut Random| match value(schema, key.of, random, depth) {
                    Value::Text(text) => text,
                    Value::Integer(n) if key.of.is_unsigned_long() => Text::from((n as u64).to_string()),
                    other => Text::from(other.to_text()),
                };
                Value::map((0..count).map(|_| (key(random), value(schema, of.of, random, depth))).collect::<Vec<_>>())
            }
            (Shape::Map, _) => panic!("an entry"),
        };
        map.push_unique(field.name.clone(), made);
    }
    map
}

#[test]
fn random_values_come_back_as_they_were() {
    let (schema, mut random) = (schema(), Random(7));
    for round in 0..200 {
        for place in (0..schema.messages.len()).filter(|place| !schema.messages[*place].full_name.ends_with("Entry")) {
            let kind = MessageType { schema: schema.clone(), place };
            let whole = message(&schema, place, &mut random, round % 6);
            let mut bytes = Vec::new();
            kind.encode(&whole, IdScheme::Uuid, &mut bytes).unwrap_or_else(|error| panic!("{}: {error}", shown(&whole)));
            let again = kind.decode(&bytes, &Wanted::All).expect("what was encoded");
            assert_eq!(shown(&again), shown(&whole), "{}", kind.full_name());
            // Of some fields the same, and nothing else.
            let names: Vec<&str> = whole.iter().map(|(name, _)| name.as_str()).filter(|_| random.below(2) == 0).collect();
            let some = kind.decode(&bytes, &kind.wanted(names.iter().copied())).expect("the same bytes");
            let expected: Map = whole.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned().collect();
            assert_eq!(shown(&some), shown(&expected), "{}", kind.full_name());
        }
    }
}

#[test]
fn any_bytes_are_a_message_or_a_failure() {
    let (schema, mut random) = (schema(), Random(11));
    let all: Vec<_> = vectors().collect();
    for _ in 0..60_000 {
        let (name, _, bytes, _) = &all[random.below(all.len())];
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() + 1);
            match random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, random.next() as u8),
                2 => bytes.extend_from_within(at..),
                _ if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)],
                _ => {}
            }
            bytes.truncate(4096);
        }
        let of_another = &schema.messages[random.below(schema.messages.len())].full_name;
        for name in [name, of_another.as_str()] {
            if let Ok(message) = schema.message(name) {
                let _ = message.decode(&bytes, &Wanted::All);
            }
        }
    }
}

#[test]
fn any_bytes_are_descriptors_or_a_failure() {
    let mut random = Random(13);
    for length in 0..DESCRIPTORS.len() {
        if let Ok(schema) = Schema::read(&DESCRIPTORS[..length]) {
            assert!(!schema.messages.is_empty());
        }
    }
    for _ in 0..5_000 {
        let mut bytes = DESCRIPTORS.to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len());
            bytes[at] = random.next() as u8;
        }
        let Ok(schema) = Schema::read(&bytes).map(Arc::new) else { continue };
        for (name, _, bytes, _) in vectors() {
            if let Ok(message) = schema.message(name)
                && let Ok(map) = message.decode(&bytes, &Wanted::All)
            {
                let _ = message.encode(&map, IdScheme::Uuid, &mut Vec::new());
            }
        }
    }
}

#[test]
fn descriptors_that_are_none_say_so() {
    let problem = |bytes: &[u8]| Schema::read(bytes).expect_err("no descriptors").to_string();
    assert!(problem(b"").contains("it declares no message"), "{}", problem(b""));
    assert!(problem(b"syntax = \"proto3\";").contains("not a descriptor set"));
    assert!(problem(&DESCRIPTORS[..DESCRIPTORS.len() - 1]).contains("ends too early"));
    // A file alone, without what it imports.
    let mut wire = wire::Wire::new(DESCRIPTORS);
    let mut alone = Vec::new();
    while let Ok(Some(_)) = wire.tag() {
        let file = wire.sized().expect("a file");
        if file.windows(12).any(|part| part == b"shapes.proto") {
            put_tag(1, wire::Layout::Sized, &mut alone);
            put_varint(file.len() as u64, &mut alone);
            alone.extend(file);
        }
    }
    let expected = "field at of message shapes.Times: its type google.protobuf.Timestamp is not in the descriptor set; protoc puts it \
                    there with --include_imports";
    assert_eq!(problem(&alone), expected);
}

#[test]
fn messages_are_found_by_the_end_of_their_names() {
    let found = |name: &str| match schema().message(name) {
        Ok(message) => message.full_name().to_owned(),
        Err(error) => error.to_string(),
    };
    assert_eq!(found("old.Part"), "old.Part");
    assert_eq!(found(".old.Part"), "old.Part");
    assert_eq!(found("Part"), "old.Part");
    assert_eq!(found("Tree.Inner"), "shapes.Tree.Inner");
    assert_eq!(found("Tree"), "`Tree` may be any of shapes.Tree, fresh.Tree; give the full name");
    assert!(
        found("art").starts_with("there is no message `art` in the descriptor set; there are google.protobuf."),
        "{}",
        found("art")
    );
    assert!(found("CountsEntry").contains("there is no message"));
}

#[test]
fn what_is_no_message_says_where_it_is_wrong() {
    let refused =
        |name: &str, hex: &str, expected: &str| assert_eq!(decode(name, &bytes_of(hex)), Err(expected.to_owned()), "{hex}");
    refused("Scalars", "72050161", "field `a_string`: the message ends too early");
    refused("Scalars", "7201ff", "field `a_string`: a string is not UTF-8");
    refused("Scalars", "18ffffffffffffffffffff01", "field `an_int32`: a number has more than ten bytes");
    refused("Scalars", "72ffffffffffffffff7f", "field `a_string`: the message ends too early");
    refused("Scalars", "0008", "a field has the number 0");
    refused("Scalars", "1f", "a tag has a wire type that there is not");
    refused("Scalars", "fb01", "the message ends too early");
    refused("Scalars", "fc01", "a group ends that was not begun");
    refused("shapes.Tree", "12031a01ff", "field `left.more`: the message ends too early");
    refused("Part", "", "field `id`: it is required and absent");
    refused("Part", "0801 5a00".replace(' ', "").as_str(), "field `next.id`: it is required and absent");
    assert!(decode("Note", &bytes_of("1801 3a01ff".replace(' ', "").as_str())).expect("lenient").contains("\u{fffd}"));
    // Messages in messages in messages, as groups, as lists, and as messages.
    let deep = |level: &[u8]| level.repeat(4_000);
    assert!(decode("Note", &deep(&[0x33])).expect_err("deep").contains("too deeply"));
    let mut nested = Vec::new();
    for _ in 0..300 {
        let inner = std::mem::take(&mut nested);
        put_tag(2, wire::Layout::Sized, &mut nested);
        put_varint(inner.len() as u64, &mut nested);
        nested.extend(inner);
    }
    assert!(decode("shapes.Tree", &nested).expect_err("deep").ends_with("deeper than 100"));
}

#[test]
fn absent_fields_are_not_made_out_of_nothing_without_end() {
    // A type with a thousand fields, and a list of it: each item takes two bytes.
    let part = |number: u32, bytes: &[u8], out: &mut Vec<u8>| {
        put_tag(number, wire::Layout::Sized, out);
        put_sized(out, |out| -> Result<(), ()> {
            out.extend(bytes);
            Ok(())
        })
        .expect("bytes");
    };
    let mut wide = Vec::new();
    part(1, b"Wide", &mut wide);
    for number in 1..=1000u64 {
        let (mut field, kind) = (Vec::new(), if number == 1 { 11 } else { 3 });
        part(1, format!("f{number}").as_bytes(), &mut field);
        for (tag, value) in [(3, number), (4, if number == 1 { 3 } else { 1 }), (5, kind)] {
            put_tag(tag, wire::Layout::Varint, &mut field);
            put_varint(value, &mut field);
        }
        if number == 1 {
            part(6, b".Wide", &mut field);
        }
        part(2, &field, &mut wide);
    }
    let (mut file, mut set) = (Vec::new(), Vec::new());
    part(4, &wide, &mut file);
    part(12, b"proto3", &mut file);
    part(1, &file, &mut set);
    let wide = Arc::new(Schema::read(&set).expect("a schema")).message("Wide").expect("a message");
    let items = |count: usize| [0x0a, 0].repeat(count);
    assert_eq!(
        wide.decode(&items(100), &Wanted::All).expect("some").get("f1").map(|list| list.shown().len() > 100_000),
        Some(true)
    );
    let error = wide.decode(&items(500_000), &Wanted::All).expect_err("too many");
    assert_eq!(error.to_string(), "field `f1`: the message has far more absent fields than bytes");
    assert!(wide.decode(&items(500_000), &wide.wanted(["f2"])).is_ok(), "what is not wanted is not made");
}

#[test]
fn values_that_do_not_fit_their_fields_are_named() {
    let refused =
        |name: &str, given: &str, expected: &str| assert_eq!(encode(name, map(given)), Err(expected.to_owned()), "{given}");
    refused("Scalars", r#"{"an_int32": "7"}"#, "field `an_int32`: expected int32, but got \"7\"");
    refused("Scalars", r#"{"a_color": "GREEN"}"#, "field `a_color`: enum shapes.Color has no value \"GREEN\"");
    refused("Scalars", r#"{"a_color": true}"#, "field `a_color`: expected shapes.Color, but got true");
    refused("Scalars", r#"{"a_bool": 1}"#, "field `a_bool`: expected bool, but got 1");
    refused("Scalars", r#"{"a_string": [1]}"#, "field `a_string`: expected string, but got [ 1 ]");
    refused(
        "shapes.Tree",
        r#"{"left": {"more": [{}, {"inner": {"x": 1.5}}]}}"#,
        "field `left.more[1].inner.x`: expected int32, but got 1.5",
    );
    refused("shapes.Tree", r#"{"more": {}}"#, "field `more`: expected a list of shapes.Tree, but got {  }");
    refused("shapes.Tree", r#"{"number": 1, "word": ""}"#, "shapes.Tree can have `number` or `word`, but not both");
    refused("Many", r#"{"numbers": [1, null]}"#, "field `numbers[1]`: expected int32, but got null");
    refused("Many", r#"{"counts": 7}"#, "field `counts`: expected a map, but got 7");
    refused("Many", r#"{"trees": {"x": {}}}"#, "field `trees[\"x\"]`: expected a key of type int32");
    refused("Part", r#"{"label": "x"}"#, "field `id`: it is required and absent");
    refused("Part", r#"{"id": null}"#, "field `id`: it is required and absent");
    refused("Part", r#"{"id": 1, "size": 7}"#, "field `size`: expected old.Size, but got 7");
    let mut deep = Map::default();
    for _ in 0..300 {
        deep = Map::from_iter([(Text::new("left"), Value::Map(deep.into()))]);
    }
    assert!(encode("shapes.Tree", deep).expect_err("deep").ends_with("deeper than 100"));
    // Unknown keys and nulls are left out; whole numbers are floats, too; numbers of 32 bits are cut.
    let lenient = r#"{"nobody": 1, "a_string": null, "a_double": 1, "an_int32": 4294967297, "a_color": 1}"#;
    let encoded = encode("Scalars", map(lenient)).expect("fits");
    assert_eq!(encoded, bytes_of("09000000000000f03f1801800101"));
}

#[test]
fn times_and_ids_take_the_forms_there_are_for_them() {
    let at = |epoch_second, nano| Value::DateTime(DateTime::utc(epoch_second, nano).into());
    let length = Value::Duration(Duration { months: 0, days: 1, seconds: -1, nanos: 500_000_000 }.into());
    let entries =
        |entries: &[(&str, Value)]| entries.iter().map(|(name, value)| (Text::new(name), value.clone())).collect::<Map>();
    let times = |given: &[(&str, Value)]| decode("Times", &encode("Times", entries(given)).expect("fits")).expect("decodes");
    let whole = times(&[("at", at(-1, 7)), ("length", length.clone()), ("millis", at(1, 2_000_000)), ("text", at(0, 0))]);
    let expected = r#"{"at":{"seconds":-1,"nanos":7},"length":{"seconds":86399,"nanos":500000000},"millis":1002,"text":"1970-01-01T00:00Z"}"#;
    assert_eq!(whole, expected);
    let number = |value: Value| times(&[("millis", value)]);
    let (date, time) = (Date { epoch_day: 3 }, LocalTime { nano_of_day: 5 });
    assert_eq!(number(length), r#"{"millis":86399500,"text":""}"#);
    assert_eq!(number(Value::Date(date)), r#"{"millis":3,"text":""}"#);
    assert_eq!(number(Value::LocalTime(time)), r#"{"millis":5,"text":""}"#);
    assert_eq!(
        number(Value::LocalDateTime(LocalDateTime { epoch_day: 1, nano_of_day: 5_000_000 })),
        r#"{"millis":86400005,"text":""}"#
    );
    let zoned = Value::Time(Time { nano_of_day: 0, offset_seconds: 3600 });
    assert_eq!(times(&[("text", zoned.clone())]), r#"{"millis":0,"text":"00:00+01:00"}"#);
    assert!(encode("Times", entries(&[("millis", zoned)])).expect_err("no number").contains("expected int64"));
    let id = Value::Id(NodeId::new(0, 7));
    let scalars = encode("Scalars", entries(&[("some_bytes", id.clone()), ("a_string", id)])).expect("fits");
    let decoded = decode("Scalars", &scalars).expect("decodes");
    assert!(
        decoded.contains(r#""a_string":"00000000-0000-0000-0000-000000000007","some_bytes":"AAAAAAAAAAAAAAAAAAAABw==""#),
        "{decoded}"
    );
}

#[test]
fn declarations_say_what_their_descriptors_say() {
    let files = [include_str!("vectors/shapes.proto"), include_str!("vectors/old.proto"), include_str!("vectors/new.proto")];
    let declared = files.map(|file| Declared::read(file, &[]).expect("declarations"));
    let mut seen = 0;
    for (name, _, bytes, _) in vectors() {
        let message = declared.iter().find_map(|file| file.named(Some(name)).ok()).expect("it is declared").0;
        let told = message.decode(&bytes, &Wanted::All).map(|map| shown(&map)).map_err(|error| error.to_string());
        assert_eq!(told, decode(name, &bytes), "{name}");
        seen += 1;
    }
    assert!(seen > 20);
    // Places are those of descriptors: maps have messages, too.
    let at = |file: usize, path: &[usize]| declared[file].at(path).map(|message| message.full_name().to_owned());
    assert_eq!(at(0, &[1, 0]).as_deref(), Ok("shapes.Tree.Inner"));
    assert_eq!(at(1, &[0, 0, 0]).as_deref(), Ok("old.Part.Box.Slot"));
    assert!(at(1, &[0, 1]).is_err_and(|error| error.to_string().contains("no message")));
    let (tree, place) = declared[0].named(Some("Tree.Inner")).expect("it is declared");
    assert_eq!((tree.full_name(), place), ("shapes.Tree.Inner", vec![1, 0]));
    assert_eq!(declared[1].named(None).expect("the first").0.full_name(), "old.Part");
}

#[test]
fn what_is_imported_is_brought_or_well_known() {
    let file = "syntax = 'proto3'; import \"people/base.proto\"; import 'google/type/datetime.proto'; import 'confluent/meta.proto';\n\
        option (mine) = { a: [1, 2] b { c: \"}\" } };\n/* a\n comment */ message Person { // another\n\
        option (confluent.message_meta).doc = \"x;y\"; reserved 4, 9 to max; reserved 'old';\n\
        base.Name name = 1 [(confluent.field_meta) = { doc: 'x' }, json_name = 'n'];\n\
        google.type.DateTime at = 2; optional message.Deep message = 3; enum Kind { A = 0; B = 0x10 [deprecated = true]; } Kind kind = 5; }\n\
        message message { message Deep { int32 x = 1; } }\n\
        service S { rpc Do (Person) returns (stream Person) { option idempotency_level = NO_SIDE_EFFECTS; } }";
    let base = ("people/base.proto".to_owned(), "package people.base; message Name { required string text = 1; }".to_owned());
    let refused = Declared::read(file, &[]).expect_err("a file is missing").to_string();
    assert!(refused.contains("\"base.Name\" is not in the descriptor set"), "{refused}");
    let refused = Declared::read(file, std::slice::from_ref(&base)).expect_err("another package").to_string();
    assert!(refused.contains("base.Name"), "{refused}");
    let file =
        format!("package people;\n{file}").replace("package people;\nsyntax = 'proto3';", "syntax = 'proto3'; package people;");
    let declared = Declared::read(&file, &[base]).expect("all is there");
    let (person, _) = declared.named(Some("Person")).expect("it is declared");
    let bytes = [0x0a, 3, 0x0a, 1, b'x', 0x12, 2, 0x08, 7, 0x1a, 2, 0x08, 1, 0x28, 16];
    let map = shown(&person.decode(&bytes, &Wanted::All).expect("a message"));
    assert!(
        map.starts_with(r#"{"name":{"text":"x"},"at":{"year":7,"#) && map.ends_with(r#""message":{"x":1},"kind":"B"}"#),
        "{map}"
    );
}

#[test]
fn declarations_may_be_written_as_protoc_takes_them() {
    let read = |text: &str| Declared::read(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    let empty = |text: &str| shown(&read(text).at(&[0]).expect("one").decode(&[], &Wanted::All).expect("a message"));
    let defaults = "message A { optional int32 a = 1 [default = -0x10]; optional int64 b = 2 [default = 017]; \
        optional fixed64 c = 3 [default = 0xFFFFFFFFFFFFFFFF, (mine) = 1e-5]; optional double d = 4 [default = -25E-1]; }";
    assert_eq!(empty(defaults), r#"{"a":-16,"b":15,"c":-1,"d":-2.5}"#);
    let fields =
        "message A { int32 a = 1; int32 b = 2 [features = { field_presence: EXPLICIT; [pb.cpp] { string_type: VIEW } }]; }";
    let features = "option features = { field_presence: IMPLICIT, enum_type: CLOSED };";
    assert_eq!(empty(&format!("edition = '2023'; {features} {fields}")), r#"{"a":0}"#);
    assert_eq!(empty("/*/ message B {} /*/ /**/ message A {}"), "{}");
    let declared = read(
        "\u{feff}package a . b .c; message A { extensions 9 to max; extend A { optional group N = 9 {} } message M {} } \
        extend A { optional int32 group = 10 [(o) = { group: 1 }]; ; repeated group G = 11 { optional int32 x = 1; } } message B {}",
    );
    for (path, name) in [(&[0, 0][..], "a.b.c.A.N"), (&[0, 1], "a.b.c.A.M"), (&[1], "a.b.c.G"), (&[2], "a.b.c.B")] {
        assert_eq!(declared.at(path).expect(name).full_name(), name);
    }
}

#[test]
fn what_is_no_declaration_is_refused_with_its_line() {
    let refused = |text: &str| Declared::read(text, &[]).expect_err("refused").to_string();
    assert!(refused("message A {\n int32 x = ;\n}").contains("line 2, at \";\": a number was expected"));
    assert!(refused("message A { int32 x = 1 }").contains("`;` was expected"));
    assert!(refused("message A { string x = 1;").contains("it ends too early"));
    assert!(refused("message A { string x = 1 [default = \"a\n").contains("a string has no end"));
    assert!(refused("/* never").contains("a comment has no end"));
    assert!(refused("/*/ message A {}").contains("a comment has no end"));
    assert!(refused("mess A {}").contains("this begins no declaration"));
    assert!(refused(&"message A {".repeat(500)).contains("deeper than"));
    assert!(refused("").contains("no message"));
    let whole = include_str!("vectors/old.proto");
    (0..whole.len()).filter(|end| whole.is_char_boundary(*end)).for_each(|end| drop(Declared::read(&whole[..end], &[])));
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = b"{}[]=;<>,.\"'/a0\n"[random.below(16)];
        }
        let _ = Declared::read(std::str::from_utf8(&bytes).expect("ASCII"), &[]);
    }
}
