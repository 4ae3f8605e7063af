//! Objects of S3 on their whole way: from a server that stands in for Amazon's, cut on the way, changed meanwhile; and from
//! servers that do not keep to the protocol.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value as Json, json};

use super::server_tests::Server;
use super::stand_in::StandIn;
use crate::conformance::{anything, run_within, runtime};
use crate::real_server::{PATIENCE, Way, allow_secrets_in, open, read, texts, wait};
use crate::recoding::tests::gzip;
use crate::*;

const LINES: u32 = 400_000;

fn put(server: &Server, path: &str, body: Vec<u8>) {
    let url = format!("{}{path}", server.url);
    let status = runtime().block_on(async { http::client().unwrap().put(url).body(body).send().await.unwrap().status() });
    assert!(status.is_success(), "{path}: {status}");
}

fn line(n: u32) -> String {
    format!("{n} {}", "x".repeat(100))
}

fn lines(of: std::ops::Range<u32>) -> Vec<u8> {
    of.map(|n| line(n) + "\n").collect::<String>().into_bytes()
}

fn definition(server: &Server, key: &str, more: Json) -> Json {
    let mut definition = json!({"type": "S3Ingest", "bucket": "lake", "key": key, "endpoint": server.url});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.with(definition)
}

fn end_of(definition: &Json, from: Option<&weir_model::Position>) -> ConnectorError {
    let (mut stream, mut batch, mut ended) = (open(definition, from), Frames::default(), None);
    wait(
        || {
            ended = stream.next(&Limits::default(), &mut batch).err();
            ended.is_some()
        },
        "the stream ends",
    );
    ended.unwrap()
}

#[test]
fn an_object_is_read_once_from_every_position_and_across_cuts() {
    let Some(server) = Server::start("aws.sh", "reading S3") else { return };
    put(&server, "lake", Vec::new());
    // More than what waits to be read, so that cuts come in the middle of an answer.
    put(&server, "lake/a%20b/%C3%BC+%25.txt".replace('+', "%2B").as_str(), lines(0..LINES));
    let mut of = definition(&server, "a b/ü+%.txt", json!({}));
    let whole = read(&mut open(&of, None), LINES as usize, true);
    assert!(texts(&whole).iter().map(String::as_str).eq((0..LINES).map(line).collect::<Vec<_>>().iter().map(String::as_str)));
    for at in [0, whole.len() / 3, whole.len() - 1] {
        let before: u32 = whole[..=at].iter().map(|(texts, _)| texts.len() as u32).sum();
        let after = texts(&read(&mut open(&of, Some(&whole[at].1)), (LINES - before) as usize, true));
        assert!(after == (before..LINES).map(line).collect::<Vec<_>>(), "from {before}");
    }
    let bounds = definition(&server, "a b/ü+%.txt", json!({"startAtOffset": 2, "ingestLimit": 3}));
    assert_eq!(texts(&read(&mut open(&bounds, None), 3, true)), [line(2), line(3), line(4)]);

    let way = Way::to(server.real.address(0));
    of["endpoint"] = json!(format!("http://{}/", way.address));
    let mut stream = open(&of, None);
    let mut seen = texts(&read(&mut stream, 1_000, true));
    for _ in 0..4 {
        way.set(false);
        let mut batch = Frames::default();
        wait(
            || {
                stream.next(&Limits::default(), &mut batch).unwrap();
                seen.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
                stream.trouble().is_some()
            },
            "the stream says what is wrong",
        );
        way.set(true);
        seen.extend(texts(&read(&mut stream, 20_000, true)));
    }
    seen.extend(texts(&read(&mut stream, LINES as usize - seen.len(), true)));
    assert!(seen == (0..LINES).map(line).collect::<Vec<_>>());
    assert_eq!(stream.trouble(), None);
}

#[test]
fn an_object_that_is_changed_or_absent_is_an_error_with_a_word() {
    let Some(server) = Server::start("aws.sh", "objects of S3 that change") else { return };
    put(&server, "lake", Vec::new());
    put(&server, "lake/log", lines(0..1_000));
    let of = definition(&server, "log", json!({}));
    let begun = read(&mut open(&of, None), 97, true);
    let position = begun.last().unwrap().1.clone();
    let left = 1_000 - texts(&begun).len();
    assert_eq!(texts(&read(&mut open(&of, Some(&position)), left, true)).len(), left);
    put(&server, "lake/log", lines(5..1_005));
    let ended = end_of(&of, Some(&position));
    assert!(matches!(&ended, ConnectorError::Position { problem, .. } if problem.contains("has been changed")), "{ended}");
    let (absent, nowhere) = (definition(&server, "absent", json!({})), definition(&server, "log", json!({"bucket": "nowhere"})));
    for (of, code) in [(absent, "NoSuchKey"), (nowhere, "NoSuchBucket")] {
        let ended = end_of(&of, None);
        assert!(ended.to_string().contains(code) && !ended.retryable() && ended.fault() == Fault::User, "{ended}");
    }
}

#[test]
fn objects_are_decoded_as_files_are() {
    let Some(server) = Server::start("aws.sh", "formats of objects of S3") else { return };
    put(&server, "lake", Vec::new());
    put(&server, "lake/rows.gz", gzip("id,name\n1,\"a\nb\"\n2,c\n3,d\n".as_bytes()));
    put(&server, "lake/wide", "1\n22\n".encode_utf16().flat_map(u16::to_le_bytes).collect());
    put(&server, "lake/empty", Vec::new());
    let rows_of_parquet = include_str!("../parquet_vectors/rows.jsonl").lines().count();
    put(&server, "lake/rows.parquet", include_bytes!("../parquet_vectors/zstd.parquet").to_vec());
    let parquet = json!({"format": {"type": "CypherParquet", "query": "RETURN 1"}});
    let config = parse_source_v1(&definition(&server, "rows.parquet", parquet)).unwrap();
    let single = run_within(&*config, None, &Limits { records_max: 1, ..Limits::default() }, PATIENCE).unwrap();
    assert!(single.finished && single.records.len() == rows_of_parquet, "{}", single.records.len());
    for (count, position) in single.positions.iter().step_by(29) {
        let rest = run_within(&*config, Some(position), &Limits::default(), PATIENCE).unwrap();
        assert!(rest.finished && rest.records == single.records[*count..], "from {count}");
    }
    let csv = json!({"type": "CypherCsv", "query": "RETURN 1", "headers": true});
    let json_lines = json!({"type": "CypherJson", "query": "RETURN 1"});
    let rows = ["{ id: \"1\", name: \"a\\nb\" }", "{ id: \"2\", name: \"c\" }", "{ id: \"3\", name: \"d\" }"];
    for (key, more, expected) in [
        ("rows.gz", json!({"format": csv, "recordDecoders": ["Gzip"]}), &rows[..]),
        ("wide", json!({"format": json_lines, "encoding": "UTF-16LE"}), &["1", "22"]),
        ("empty", json!({}), &[]),
    ] {
        let config = parse_source_v1(&definition(&server, key, more)).unwrap();
        let single = run_within(&*config, None, &Limits { records_max: 1, ..Limits::default() }, PATIENCE).unwrap();
        assert!(single.finished && single.records == expected, "{key}: {:?}", single.records);
        for (count, position) in &single.positions {
            let rest = run_within(&*config, Some(position), &Limits::default(), PATIENCE).unwrap();
            assert!(rest.finished && rest.records == expected[*count..], "{key} from {count}: {:?}", rest.records);
        }
    }
}

/// Gives these answers, one a connection, and says what it was asked.
fn answers(all: Vec<&'static str>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || {
        let asked = |answer: &str| {
            let (mut client, _) = listener.accept().unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            client.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(head).unwrap().to_ascii_lowercase()
        };
        all.into_iter().map(asked).collect()
    });
    (url, heard)
}

fn from(url: &str) -> Json {
    json!({"type": "S3Ingest", "bucket": "lake", "key": "k", "endpoint": url, "region": "us-east-1",
        "credentials": {"accessKeyId": "a", "secretAccessKey": "b"}})
}

#[test]
fn what_is_missing_is_asked_for_again_and_nothing_else_taken() {
    let (url, heard) = answers(vec![
        // It ends too early.
        "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 12\r\nConnection: close\r\n\r\none\ntw",
        "HTTP/1.1 503 Slow Down\r\nContent-Length: 38\r\nConnection: close\r\n\r\n<Error><Code>SlowDown</Code></Error>  ",
        // This one knows no ranges.
        "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 12\r\nConnection: close\r\n\r\none\ntwo\nt",
        "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Range: bytes 9-11/12\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhre",
    ]);
    let config = parse_source_v1(&from(&url)).unwrap();
    let (mut stream, mut batch, mut seen) = (config.open(&anything(), None).unwrap(), Frames::default(), Vec::new());
    wait(
        || {
            let progress = stream.next(&Limits::default(), &mut batch).unwrap();
            seen.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
            progress == Progress::Finished
        },
        "the end",
    );
    assert_eq!(seen, ["one", "two", "thre"]);
    let asked = heard.join().unwrap();
    assert!(asked[0].starts_with("get /lake/k http/1.1") && !asked[0].contains("\r\nrange:"), "{}", asked[0]);
    for (asked, range) in [(&asked[1], "bytes=6-"), (&asked[2], "bytes=6-"), (&asked[3], "bytes=9-")] {
        assert!(asked.contains(&format!("\r\nrange: {range}")) && asked.contains("\r\nif-match: \"v1\""), "{asked}");
        assert!(asked.contains("signedheaders=host;if-match;range;x-amz-content-sha256;x-amz-date"), "{asked}");
    }
}

#[test]
fn another_version_and_other_bytes_are_refused() {
    const BEGUN: &str = "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 12\r\nConnection: close\r\n\r\none\ntw";
    for (answer, word) in [
        ("HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "has been changed"),
        (
            "HTTP/1.1 206 Partial Content\r\nETag: \"v2\"\r\nContent-Range: bytes 6-7/8\r\nContent-Length: 2\r\nConnection: close\r\n\r\no\n",
            "has been changed",
        ),
        (
            "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Range: bytes 8-9/12\r\nContent-Length: 2\r\nConnection: close\r\n\r\no\n",
            "other bytes than those",
        ),
        (
            "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */4\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "has been changed",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 39\r\nConnection: close\r\n\r\n<Error><Code>AccessDenied</Code></Error>",
            "AccessDenied",
        ),
    ] {
        let (url, heard) = answers(vec![BEGUN, answer]);
        let ended = end_of(&from(&url), None);
        assert!(ended.to_string().contains(word), "{answer}: {ended}");
        assert_eq!(heard.join().unwrap().len(), 2);
    }
}

#[test]
fn keys_that_were_changed_where_they_are_kept_are_looked_up_again() {
    let directory = tempfile::tempdir().unwrap();
    allow_secrets_in(directory.path());
    let file = directory.path().join("key");
    let kept = file.clone();
    let server = StandIn::start(move |asked| match asked.key.as_str() {
        "NEW" => (200, "one\ntwo\n".to_owned()),
        _ => {
            fs::write(&kept, "NEW").unwrap();
            (403, "<Error><Code>InvalidAccessKeyId</Code></Error>".to_owned())
        }
    });
    let mut of = from(&server.url);
    // One that is in the definition stays what it is.
    let ended = end_of(&of, None);
    assert!(ended.to_string().contains("InvalidAccessKeyId"), "{ended}");
    assert_eq!(server.keys(), ["a"]);
    fs::write(&file, "OLD").unwrap();
    of["credentials"]["accessKeyId"] = json!({"file": file});
    assert_eq!(texts(&read(&mut open(&of, None), 2, true)), ["one", "two"]);
    assert_eq!(server.keys(), ["OLD", "NEW"]);
}
