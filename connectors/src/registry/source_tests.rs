//! Against a registry in this process that answers what it is told to, in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use serde_json::json;

use super::*;
use crate::config::Secret;
use crate::conformance::runtime;
use crate::decode::decode;
use crate::host_policy::HostPolicy;
use crate::registry::SchemaRegistry;

/// Answers each request in turn; ends with the lines of the requests, and what each was authorized with.
fn registry(answers: Vec<(&'static str, Json)>) -> (String, JoinHandle<Vec<(String, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/apis", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        let answer = |(status, body): (&str, Json)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut first, mut line, mut authorization) = (String::new(), String::new(), String::new());
            reader.read_line(&mut first).unwrap();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                if let Some(given) =
                    line.to_ascii_lowercase().starts_with("authorization: ").then(|| line[15..].trim().to_owned())
                {
                    authorization = given;
                }
                line.clear();
            }
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
            let _ = reader.read(&mut [0; 16]);
            (first.split(' ').nth(1).unwrap_or_default().to_owned(), authorization)
        };
        answers.into_iter().map(answer).collect()
    });
    (url, serving)
}

type Json = serde_json::Value;

fn definition(url: &str) -> SchemaRegistry {
    SchemaRegistry { url: url.to_owned(), username: None, password: None, token: None }
}

/// Gives one batch, and then none.
struct Once(Vec<Vec<u8>>);

impl Source for Once {
    fn next(&mut self, _limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let records = std::mem::take(&mut self.0);
        records.iter().for_each(|record| batch.push(record));
        batch.position = Position(vec![records.len() as u8]);
        Ok(if records.is_empty() { Progress::Finished } else { Progress::More })
    }
}

/// The values of one batch, what failed, and what was said meanwhile.
fn read(kind: Kind, definition: &SchemaRegistry, records: &[&[u8]]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let runtime = runtime();
    let inner = Once(records.iter().map(|record| record.to_vec()).collect());
    let registry = Registry::open(definition, &HostPolicy::default()).unwrap();
    let mut source = Registered::new(Box::new(inner), kind, registry, runtime.handle());
    let (mut batch, mut said) = (Frames::default(), Vec::new());
    loop {
        batch.clear();
        let begun = Instant::now();
        assert_eq!(source.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
        assert!(begun.elapsed() < Duration::from_secs(5));
        said.extend(source.trouble().filter(|trouble| said.last() != Some(trouble)));
        if !batch.is_empty() {
            break;
        }
        assert!(batch.position.0.is_empty(), "nothing is handed on, so nothing may count as read");
    }
    assert_eq!(batch.position, Position(vec![records.len() as u8]));
    assert_eq!(source.trouble(), None);
    let (mut values, mut failures) = (Vec::new(), Vec::new());
    decode(&crate::decode::RawDecoder, &batch, &mut values, &mut failures);
    (values.iter().map(Value::shown).collect(), failures.into_iter().map(|failure| failure.reason).collect(), said)
}

const AVRO: Kind = Kind::Avro { logical: false };

#[test]
fn a_batch_is_held_until_its_schemas_are_there() {
    let schema = |name: &str| json!({"type": "record", "name": "r", "fields": [{"name": name, "type": "int"}]}).to_string();
    let (url, serving) = registry(vec![
        ("503 Service Unavailable", json!({"error_code": 50301, "message": "later"})),
        ("200 OK", json!({"schema": schema("a")})),
        ("404 Not Found", json!({"error_code": 40403, "message": "Schema not found"})),
        ("200 OK", json!({"schema": "message M {}", "schemaType": "PROTOBUF"})),
    ]);
    let records: &[&[u8]] =
        &[&[0, 0, 0, 0, 7, 84], &[0, 0, 0, 1, 0, 2], &[0, 0, 0, 0, 7, 2], &[9, 9], &[1, 0, 0, 0, 7, 2], &[0, 0, 0, 2, 0, 2]];
    let secret = SchemaRegistry { username: Some("u".to_owned()), password: Some(Secret::plain("p")), ..definition(&url) };
    let (values, failures, said) = read(AVRO, &secret, records);
    assert_eq!(values, ["{ a: 42 }", "{ a: 1 }"]);
    assert!(said[0].contains("answered 503 Service Unavailable: later"), "{said:?}");
    assert!(failures[0].starts_with("schema 256 is not in the schema registry at http://127.0.0.1"), "{failures:?}");
    assert!(failures[1].contains("too short for the number of a schema"), "{failures:?}");
    assert!(failures[2].starts_with("the record begins with 1 instead of 0"), "{failures:?}");
    assert!(failures[3].contains("schema 512: is of PROTOBUF, and the format of the stream is Avro"), "{failures:?}");
    let asked = serving.join().unwrap();
    let paths: Vec<&str> = asked.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/apis/schemas/ids/7", "/apis/schemas/ids/7", "/apis/schemas/ids/256", "/apis/schemas/ids/512"]);
    assert!(asked.iter().all(|(_, authorization)| authorization == "Basic dTpw"), "{asked:?}");
}

#[test]
fn that_a_schema_is_not_there_is_for_the_registry_to_say() {
    let (url, serving) = registry(vec![
        ("404 Not Found", json!("default backend - 404")),
        ("404 Not Found", json!({"error_code": 404, "message": "no such path"})),
        ("404 Not Found", json!({"error_code": 40403, "message": "Schema not found"})),
    ]);
    let (values, failures, said) = read(AVRO, &definition(&url), &[&[0, 0, 0, 0, 7, 84]]);
    let waited = |message: &str| {
        let place = format!("the schema registry at {url}");
        format!("{place}: it answered 404 Not Found about schema 7{message}; is this the URL of a registry?")
    };
    assert_eq!(said, [waited(""), waited(": no such path")]);
    assert_eq!((values.len(), failures), (0, vec![format!("schema 7 is not in the schema registry at {url}: Schema not found")]));
    serving.join().unwrap();
}

#[test]
fn schemas_bring_those_they_refer_to() {
    let other = json!({"type": "record", "name": "o.Other", "fields": [{"name": "x", "type": "int"}]}).to_string();
    let main = json!({"type": "record", "name": "Main", "fields": [{"name": "other", "type": "o.Other"}]}).to_string();
    let reference = json!([{"name": "o.Other", "subject": "an other", "version": 3}]);
    let (url, serving) = registry(vec![
        ("200 OK", json!({"schema": main, "references": reference})),
        ("200 OK", json!({"schema": other, "id": 4, "version": 3})),
    ]);
    let (values, failures, _) = read(AVRO, &definition(&url), &[&[0, 0, 0, 0, 5, 84]]);
    assert_eq!((values, failures), (vec!["{ other: { x: 42 } }".to_owned()], vec![]));
    assert_eq!(serving.join().unwrap()[1].0, "/apis/subjects/an%20other/versions/3");
}

#[test]
fn records_say_which_message_they_are() {
    let text = "syntax = \"proto3\"; message First { int32 a = 1; } message Second { map<int32, int32> m = 1; message Deep { int32 b = 1; } }";
    let answer = json!({"schema": text, "schemaType": "PROTOBUF"});
    let (url, serving) = registry(vec![("200 OK", answer)]);
    let records: &[&[u8]] = &[
        &[0, 0, 0, 0, 1, 0, 8, 5],
        // Behind the message of the map's entries.
        &[0, 0, 0, 0, 1, 4, 2, 2, 8, 6],
        &[0, 0, 0, 0, 1, 2, 2],
        &[0, 0, 0, 0, 1, 2, 18],
        &[0, 0, 0, 0, 1, 2, 1],
        &[0, 0, 0, 0, 1],
        &[0, 0, 0, 0, 1, 0xff],
        &[0, 0, 0, 0, 1, 80],
    ];
    let (values, failures, _) = read(Kind::Protobuf { wanted: None }, &definition(&url), records);
    assert_eq!(values, ["{ a: 5 }", "{ b: 6 }", "{ m: {  } }"]);
    assert_eq!(failures.len(), 5);
    assert!(failures[0].contains("no message at the place [9]") && failures[4].contains("within 40 others"), "{failures:?}");
    serving.join().unwrap();
}

#[test]
fn no_more_schemas_are_kept_than_there_is_room_for() {
    let count = KEPT_MAX + 10;
    let answers = (0..count).map(|_| ("200 OK", json!({"schema": "\"int\""}))).collect();
    let (url, serving) = registry(answers);
    let runtime = runtime();
    let record = |id: usize| [&[0][..], &(id as u32).to_be_bytes(), &[2]].concat();
    let registry = Registry::open(&definition(&url), &HostPolicy::default()).unwrap();
    let mut source = Registered::new(Box::new(Once(Vec::new())), AVRO, registry, runtime.handle());
    for id in 0..count {
        let mut batch = Frames::default();
        batch.push(&record(id));
        source.held = Some((batch, Progress::More, Instant::now()));
        let mut batch = Frames::default();
        while batch.is_empty() {
            source.next(&Limits::default(), &mut batch).unwrap();
        }
        assert!(source.schemas.len() <= KEPT_MAX);
    }
    serving.join().unwrap();
}

#[test]
fn what_was_asked_for_a_batch_is_known_until_it_is_handed_on() {
    let runtime = runtime();
    let registry = Registry::open(&definition("http://127.0.0.1:1"), &HostPolicy::default()).unwrap();
    let mut source = Registered::new(Box::new(Once(Vec::new())), AVRO, registry, runtime.handle());
    let asked_at = Instant::now();
    let absent = (0..3).map(|id| (id, Known::Unusable("it is not there".to_owned(), asked_at)));
    source.schemas = Arc::new(absent.collect());
    let mut batch = Frames::default();
    (0..4_u8).for_each(|id| batch.push(&[0, 0, 0, 0, id, 2]));
    let missing = |read_at: Instant| source.missing(&batch, read_at).into_iter().collect::<Vec<_>>();
    // Read before, or not long after that; what is asked for takes as long as it takes.
    for read_at in [asked_at.checked_sub(2 * ABSENT_TIME_MAX).unwrap_or(asked_at), asked_at, asked_at + ABSENT_TIME_MAX] {
        assert_eq!(missing(read_at), [3]);
    }
    assert_eq!(missing(asked_at + ABSENT_TIME_MAX + Duration::from_secs(1)), [0, 1, 2, 3]);
}

#[test]
fn a_file_is_that_of_the_first_who_refers_to_its_name() {
    let text = |body: &str| format!("syntax = \"proto3\"; {body}");
    let main = text("import \"b.proto\"; import \"common.proto\"; message M { Common c = 1; B b = 2; }");
    let references = json!([{"name": "b.proto", "subject": "b", "version": 1}, {"name": "common.proto", "subject": "common", "version": 2},
        {"name": "other/b.proto", "subject": "b", "version": 1}]);
    let older = json!([{"name": "common.proto", "subject": "common", "version": 1}]);
    let (url, serving) = registry(vec![
        ("200 OK", json!({"schema": main, "schemaType": "PROTOBUF", "references": references})),
        ("200 OK", json!({"schema": text("import \"common.proto\"; message B { Common c = 1; }"), "references": older})),
        ("200 OK", json!({"schema": text("message Common { int32 x = 1; int32 y = 2; }")})),
    ]);
    let record: &[u8] = &[0, 0, 0, 0, 1, 0, 10, 4, 8, 5, 16, 6];
    let (values, failures, _) = read(Kind::Protobuf { wanted: None }, &definition(&url), &[record]);
    assert_eq!((values.len(), failures), (1, vec![]));
    assert!(values[0].contains("{ x: 5, y: 6 }"), "{values:?}");
    let paths: Vec<String> = serving.join().unwrap().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/apis/schemas/ids/1", "/apis/subjects/b/versions/1", "/apis/subjects/common/versions/2"]);
}

#[test]
fn definitions_that_go_against_themselves_are_refused() {
    let check = |format: Json, expected: &str| {
        let definition = json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": 1, "format": format});
        let refused =
            crate::parse_source_v1(&definition).unwrap().check(&crate::conformance::anything()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{format}: {refused}");
    };
    let avro = |more: Json| {
        let mut format = json!({"type": "CypherAvro", "query": "RETURN 1"});
        format.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format
    };
    let at = |more: Json| {
        let mut registry = json!({"url": "http://127.0.0.1:1"});
        registry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        avro(json!({"schemaRegistry": registry}))
    };
    check(avro(json!({})), "option `format.schemaUrl`: is missing");
    check(avro(json!({"schemaUrl": "x", "schemaRegistry": {"url": "http://h"}})), "goes not with schemaRegistry");
    check(at(json!({"url": "nowhere"})), "option `format.schemaRegistry.url`");
    check(at(json!({"url": "http://u:p@h"})), "belong into `username` and `password`");
    check(at(json!({"url": "http://h/#hush"})), "what stands behind a # is not read");
    check(at(json!({"username": "u", "token": "t"})), "option `format.schemaRegistry.token`");
    check(at(json!({"password": "p"})), "option `format.schemaRegistry.username`");
    let protobuf = json!({"type": "CypherProtobuf", "query": "RETURN 1", "typeName": "T", "schemaRegistry": {"url": "http://h"}});
    check(protobuf, "option `format.typeName`");
    let decoders =
        json!({"type": "ServerSentEventsIngest", "url": "http://h/", "recordDecoders": ["Gzip"], "format": at(json!({}))});
    let refused = crate::parse_source_v1(&decoders).unwrap().check(&crate::conformance::anything()).unwrap_err().to_string();
    assert!(refused.starts_with("option `recordDecoders`"), "{refused}");
    // Secrets are stored and not shown.
    let definition =
        json!({"type": "ReactiveStream", "url": "h", "port": 1, "format": at(json!({"username": "u", "password": "hush"}))});
    let config = crate::parse_source_v1(&definition).unwrap();
    assert!(!config.settings().to_string().contains("hush"));
    assert_eq!(config.settings()["format"]["schemaRegistry"]["password"], "Secret(****)");
}
