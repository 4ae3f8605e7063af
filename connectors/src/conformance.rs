//! What every row of the two tables has to do, run over the tables: a new row is tested by being one.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use weir_model::{Position, Value};

use crate::decode::{RecordFailure, decode};
use crate::recoding::tests::{gzip, zlib};
use crate::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the sources that need the network.
static NETWORK: LazyLock<Runtime> = LazyLock::new(runtime);

pub(crate) fn anything() -> SourceContext {
    let (files, hosts, runtime) = (FilePolicy::allow_all(), HostPolicy::default(), NETWORK.handle().clone());
    SourceContext { files, hosts, runtime, stream: "stream".to_owned(), wanted: None, tells: false }
}

pub(crate) fn output(runtime: &Runtime) -> DestinationContext {
    let (output, identity) = ("out".to_owned(), "query-out".to_owned());
    let (generation, hosts, files) = (Generation::V1, HostPolicy::default(), FilePolicy::default());
    DestinationContext { output, identity, generation, runtime: runtime.handle().clone(), hosts, files }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn file_source(path: &Path, format: Json, more: Json) -> Box<dyn SourceConfig> {
    let mut definition = json!({"type": "FileIngest", "path": path, "format": format});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parse_source_v1(&definition).unwrap()
}

fn lines() -> Json {
    json!({"type": "CypherLine", "query": "RETURN 1"})
}

/// What a stream gives, as text, with the position after each batch.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub records: Vec<String>,
    pub failures: Vec<RecordFailure>,
    pub positions: Vec<(usize, Position)>,
    pub finished: bool,
}

/// Once is enough: a machine that stands still holds up one of three, and what is slow by itself is so each time.
pub(crate) fn takes_less_than(bound: Duration, what: &str, mut once: impl FnMut() -> Duration) {
    let mut all = Vec::new();
    while all.iter().all(|took| *took >= bound) {
        assert!(all.len() < 3, "{what} took {all:?}");
        all.push(once());
    }
}

/// Runs to the end. Of one that has none it is an error of the test: it waits for very long.
pub(crate) fn run(config: &dyn SourceConfig, from: Option<&Position>, limits: &Limits) -> Result<Run, ConnectorError> {
    run_within(config, from, limits, PATIENCE)
}

/// Runs to the end, or until nothing has come for `patience`: a server may take its time.
pub(crate) fn run_within(
    config: &dyn SourceConfig,
    from: Option<&Position>,
    limits: &Limits,
    patience: Duration,
) -> Result<Run, ConnectorError> {
    let mut stream = config.open(&anything(), from)?;
    let (decoder, mut batch, mut run) = (config.decoder(&anything()).unwrap(), Frames::default(), Run::default());
    let mut last = Instant::now();
    while last.elapsed() < patience {
        let progress = stream.next(limits, &mut batch)?;
        let mut records = Vec::new();
        decode(&*decoder, &batch, &mut records, &mut run.failures);
        run.records.extend(records.iter().map(Value::shown));
        run.positions.push((run.records.len(), batch.position.clone()));
        if progress == Progress::Finished {
            run.finished = true;
            break;
        }
        if !batch.is_empty() {
            last = Instant::now();
        }
    }
    Ok(run)
}

fn one_at_a_time() -> Limits {
    Limits { records_max: 1, ..Limits::default() }
}

// Definitions.

#[test]
fn samples_are_read_and_shown_with_their_defaults() {
    let mut names: Vec<&str> = SOURCES.iter().map(|row| row.name).collect();
    names.extend(SOURCES.iter().map(|row| row.name_v1).filter(|v1| SOURCES.iter().all(|row| row.name != *v1)));
    for row in SOURCES {
        let shown = parse_source_v1(&(row.sample)()).unwrap().settings();
        assert_eq!(shown["type"], row.name_v1);
        for (option, value) in (row.sample)().as_object().unwrap() {
            assert_eq!(&shown[option], value, "{option} of {}", row.name);
        }
        assert_eq!(parse_source_v1(&shown).unwrap().settings(), shown, "{}", row.name);
    }
    // What both ends are called alike is one service.
    names.extend(DESTINATIONS.iter().map(|row| row.name_v1).filter(|v1| SOURCES.iter().all(|row| row.name != *v1)));
    for row in DESTINATIONS {
        let config = parse_destination_v1(&(row.sample)()).unwrap();
        config.check().unwrap();
        let stored = config.stored();
        assert_eq!(stored["type"], row.name_v1);
        assert_eq!(parse_destination_v1(&stored).unwrap().stored(), stored, "{}", row.name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two kinds");
}

#[test]
fn defaults_are_those_of_v1() {
    let shown = |definition: Json| parse_source_v1(&definition).unwrap().settings().to_string();
    assert_eq!(
        shown(json!({"type": "FileIngest", "path": "rows.jsonl"})),
        r#"{"type":"FileIngest","format":{"type":"CypherJson","query":"CREATE ($that)","parameter":"that"},"path":"rows.jsonl","encoding":"UTF-8","parallelism":16,"maximumLineSize":134217728,"startAtOffset":0}"#
    );
    assert_eq!(
        shown(json!({"type": "NumberIteratorIngest", "startAt": 3, "throttlePerSecond": 9})),
        r#"{"type":"NumberIteratorIngest","format":{"type":"CypherLine","query":"MATCH (x) WHERE id(x) = idFrom(toInteger($that)) SET x.i = toInteger($that)","parameter":"that"},"startAtOffset":3,"maximumPerSecond":9,"parallelism":16}"#
    );
    assert_eq!(
        shown(json!({"type": "StandardInputIngest", "format": {"type": "CypherCsv", "query": "RETURN 1"}, "parallelism": "8"})),
        r#"{"type":"StandardInputIngest","format":{"type":"CypherCsv","query":"RETURN 1","parameter":"that","headers":false,"delimiter":"Comma","quoteChar":"DoubleQuote","escapeChar":"Backslash"},"encoding":"UTF-8","parallelism":8,"maximumLineSize":134217728}"#
    );
    let shown = |definition: Json| parse_destination_v1(&definition).unwrap().settings().to_string();
    assert_eq!(
        shown(json!({"type": "PostToEndpoint", "url": "http://h/", "headers": {"A": "secret"}, "unknown": 1})),
        r#"{"type":"PostToEndpoint","url":"http://h/","parallelism":8,"onlyPositiveMatchData":false,"headers":{"A":"Secret(****)"},"structure":{"type":"WithMetadata"}}"#
    );
}

#[test]
fn bad_definitions_name_the_option_and_what_is_expected() {
    let check = |definition: Json, field: &str, problem: &str| {
        let refused = match parse_source_v1(&definition) {
            Ok(config) => config.check(&anything()).err(),
            Err(error) => Some(error),
        };
        match refused {
            Some(ConnectorError::Config { field: f, problem: p }) => assert_eq!((f.as_str(), p.as_str()), (field, problem)),
            other => panic!("{definition}: {other:?}"),
        }
    };
    let file = |option: &str, value: Json| json!({"type": "FileIngest", "path": "x", option: value});
    let format = |format: Json| json!({"type": "FileIngest", "path": "x", "format": format});
    check(json!([]), "", "Got value '[]' with wrong type, expecting object");
    check(json!({}), "", "Missing type discriminator field 'type'!");
    check(json!({"type": "Nope"}), "", "No decoder for discriminator 'Nope'!");
    check(json!({"type": "FileIngest"}), "path", "Missing required field");
    check(json!({"type": "FileIngest", "path": null}), "path", "Missing required field");
    check(json!({"type": "FileIngest", "path": 5}), "path", "Got value '5' with wrong type, expecting string");
    check(file("fileIngestMode", json!("Nope")), "fileIngestMode", "Invalid value: Nope ; valid values are: Regular, NamedPipe");
    check(file("parallelism", json!("x")), "parallelism", "Int");
    check(file("parallelism", json!(0)), "parallelism", "the number must be at least 1 and fit 31 bits");
    check(file("maximumPerSecond", json!(0)), "maximumPerSecond", "the number must be at least 1 and fit 31 bits");
    check(file("ingestLimit", json!("x")), "ingestLimit", "Long");
    check(
        file("encoding", json!("klingon")),
        "encoding",
        "the character set klingon is not read here; UTF-8 is the default, and iconv converts from most others",
    );
    for name in ["ISO-2022-KR", "hz-gb-2312", "replacement"] {
        let problem = format!("the character set {name} is not read here; convert the data, for example with iconv");
        check(file("encoding", json!(name)), "encoding", &problem);
    }
    check(format(json!({"type": "CypherRaw", "query": "q"})), "", "No decoder for discriminator 'CypherRaw'!");
    check(format(json!({"type": "CypherLine"})), "query", "Missing required field");
    check(
        format(json!({"type": "CypherCsv", "query": "q", "delimiter": ","})),
        "delimiter",
        "Invalid value: , ; valid values are: Backslash, Comma, Semicolon, Colon, Tab, Pipe, DoubleQuote",
    );
    check(
        format(json!({"type": "CypherCsv", "query": "q", "headers": 1})),
        "headers",
        "Got value '1' with wrong type, expecting true, false or a list of names",
    );
    check(
        format(json!({"type": "CypherCsv", "query": "q", "quoteChar": "Comma"})),
        "format",
        "delimiter, quoteChar and escapeChar must be three different characters",
    );

    let check = |definition: Json, field: &str| {
        let refused = parse_destination_v1(&definition).and_then(|config| config.check()).unwrap_err();
        assert!(matches!(&refused, ConnectorError::Config { field: f, .. } if f == field), "{definition}: {refused}");
    };
    check(json!({"type": "WriteToFile"}), "path");
    check(json!({"type": "PostToEndpoint", "url": "nowhere"}), "url");
    check(json!({"type": "PostToEndpoint", "url": "ftp://h/"}), "url");
    check(json!({"type": "PostToEndpoint", "url": "http://h/", "headers": {"a b": "c"}}), "headers.a b");
    check(json!({"type": "PrintToStandardOut", "logLevel": "Loud"}), "logLevel");
    check(json!({"type": "PostToSlack", "hookUrl": "x"}), "hookUrl");
}

// Sources.

#[test]
fn a_source_that_ends_or_waits_answers_promptly() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = file_source(&pipe, lines(), json!({}));
    let begun = Instant::now();
    let mut stream = config.open(&anything(), None).unwrap();
    let mut batch = Frames::default();
    assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
    // Somebody who waits for the other end of a pipe waits for ever.
    assert!(begun.elapsed() < PATIENCE / 2, "waiting for a pipe took {:?}", begun.elapsed());

    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "one\ntwo\nhal").unwrap()
    });
    let mut seen = Vec::new();
    while seen.len() < 2 && begun.elapsed() < PATIENCE {
        stream.next(&Limits::default(), &mut batch).unwrap();
        seen.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
    }
    writer.join().unwrap();
    assert_eq!(seen, ["one", "two"], "half a line is not a record while more may come");
}

#[test]
fn a_pipe_that_ends_does_not_end_before_somebody_has_written() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let config = file_source(&pipe, lines(), json!({"fileIngestMode": "Regular"}));
    for (written, expected) in [("one\ntwo", &["one", "two"][..]), ("", &[][..])] {
        let mut stream = config.open(&anything(), None).unwrap();
        let mut batch = Frames::default();
        for _ in 0..3 {
            assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More, "nobody has come yet");
        }
        fs::write(&pipe, written).unwrap();
        let mut seen = Vec::new();
        let each = |batch: &Frames| seen.extend((0..batch.len()).map(|at| batch.get(at).bytes.to_vec()));
        assert_eq!(stream::drain(&mut stream, PATIENCE, each).unwrap(), Progress::Finished);
        assert_eq!(seen, expected.iter().map(|line| line.as_bytes().to_vec()).collect::<Vec<_>>());
    }
}

#[test]
fn a_pipe_goes_on_with_what_comes_then() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let check = |format: Json, encoding: &str, before: &[u8], then: &[u8], expected: &str| {
        let config = file_source(&pipe, format, json!({"encoding": encoding, "fileIngestMode": "Regular"}));
        // Who reads, too, need not wait for somebody who does.
        let mut writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        std::io::Write::write_all(&mut writer, before).unwrap();
        let position = {
            let mut stream = config.open(&anything(), None).unwrap();
            let (seen, _) = more(&mut stream, 1);
            assert_eq!(seen.len(), 1);
            let mut batch = Frames::default();
            for _ in 0..3 {
                assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
                assert!(batch.is_empty(), "nothing else has been written");
            }
            batch.position
        };
        std::io::Write::write_all(&mut writer, then).unwrap();
        let mut stream = config.open(&anything(), Some(&position)).unwrap();
        drop(writer);
        let mut seen = Vec::new();
        let each = |batch: &Frames| seen.extend((0..batch.len()).map(|at| batch.get(at).bytes.to_vec()));
        assert_eq!(stream::drain(&mut stream, PATIENCE, each).unwrap(), Progress::Finished);
        assert_eq!(seen, [expected.as_bytes()]);
    };
    check(lines(), "ISO-8859-1", b"caf\xe9\n", b"na\xefve\n", "naïve");
    check(json!({"type": "CypherJsonObjects", "query": "RETURN 1"}), "UTF-8", b"[{\"a\": 1},", b"[{\"a\": 2}]", "{\"a\": 2}");
}

#[test]
fn files_that_are_not_there_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| {
        let config = file_source(path, lines(), json!({}));
        let check = config.check(&anything()).unwrap_err().to_string();
        assert_eq!(config.open(&anything(), None).err().unwrap().to_string(), check);
        check
    };
    assert!(refusal(&directory.path().join("absent")).contains("there is no such file"));
    assert!(refusal(directory.path()).contains("is a directory"));
    let config = file_source(&directory.path().join("absent"), lines(), json!({}));
    assert!(matches!(
        config.check(&SourceContext { files: FilePolicy::default(), ..anything() }),
        Err(ConnectorError::File { .. })
    ));
}

/// Each position that was given out leads to the records behind it, failures aside, whatever the batches.
fn check_resume(config: &dyn SourceConfig, expected: &[&str]) {
    let whole = run(config, None, &Limits::default()).unwrap();
    assert_eq!(whole.records, expected);
    let single = run(config, None, &one_at_a_time()).unwrap();
    assert_eq!(single.records, expected);
    assert!(whole.finished && single.finished);
    for (count, position) in &single.positions {
        let rest = run(config, Some(position), &Limits::default()).unwrap();
        assert_eq!(rest.records, expected[*count..], "from record {count}");
        assert!(rest.finished);
    }
}

#[test]
fn a_file_goes_on_at_every_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    fs::write(&path, "one\r\n\ntwo\nthrée").unwrap();
    check_resume(&*file_source(&path, lines(), json!({})), &["\"one\"", "\"\"", "\"two\"", "\"thr\\u00E9e\""]);
    check_resume(&*file_source(&path, lines(), json!({"startAtOffset": 1, "ingestLimit": 2})), &["\"\"", "\"two\""]);

    fs::write(&path, "\u{feff}id,name\n1,\"a\nb\"\n\n2,\"c\"\"\"\r\n3").unwrap();
    let csv = |headers: Json| json!({"type": "CypherCsv", "query": "RETURN 1", "headers": headers});
    check_resume(
        &*file_source(&path, csv(json!(true)), json!({})),
        &["{ id: \"1\", name: \"a\\nb\" }", "{ id: \"2\", name: \"c\\\"\" }", "{ id: \"3\" }"],
    );
    check_resume(&*file_source(&path, csv(json!(["x"])), json!({"ingestLimit": 2})), &["{ x: \"id\" }", "{ x: \"1\" }"]);
    // The header counts as skipped: the next row is the header then.
    check_resume(
        &*file_source(&path, csv(json!(true)), json!({"startAtOffset": 1, "ingestLimit": 1})),
        &[r#"{ 1: "2", a\nb: "c\"" }"#.replace("\\n", "\n").as_str()],
    );

    fs::write(&path, [b"caf\xe9\nna".as_slice(), b"\xefve\n"].concat()).unwrap();
    check_resume(&*file_source(&path, lines(), json!({"encoding": "ISO-8859-1"})), &["\"caf\\u00E9\"", "\"na\\u00EFve\""]);
    fs::write(&path, "ab\ncdé\n".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>()).unwrap();
    check_resume(&*file_source(&path, lines(), json!({"encoding": "UTF-16"})), &["\"ab\"", "\"cd\\u00E9\""]);
    fs::write(&path, "MQoy\nMg").unwrap();
    check_resume(&*file_source(&path, lines(), json!({"recordDecoders": ["Base64"]})), &["\"1\"", "\"22\""]);
    fs::write(&path, "").unwrap();
    check_resume(&*file_source(&path, lines(), json!({})), &[]);

    let objects = json!({"type": "CypherJsonObjects", "query": "RETURN 1"});
    let expected = ["{ a: \"}\\\"{\" }", "{ b: { c: [ {  } ] } }", "{ d: 1 }"];
    for text in
        ["[{\"a\": \"}\\\"{\"},\n {\"b\":\n{\"c\": [{}]}} , {\"d\":1}]\n", "{\"a\": \"}\\\"{\"}{\"b\":{\"c\":[{}]}}\n{\"d\":1}"]
    {
        fs::write(&path, text).unwrap();
        check_resume(&*file_source(&path, objects.clone(), json!({})), &expected);
    }
}

#[test]
fn a_compressed_file_is_read_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let mut random = crate::decode::tests::Random::new(9);
    let text: Vec<String> = (0..20_000).map(|n| format!("caf\u{e9} {n} {}", random.below(1 << 30))).collect();
    let shown: Vec<String> = text.iter().map(|line| Value::text(line).shown()).collect();
    let plain = text.join("\n").into_bytes();
    let halves = plain.split_at(plain.len() / 2);
    let base64 = |bytes: Vec<u8>| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(bytes).into_bytes().chunks(76).collect::<Vec<_>>().join(&b'\n')
    };
    let gzipped = [gzip(halves.0), gzip(halves.1)].concat();
    let lz4 = |bytes: &[u8], linked| {
        let mut info = lz4_flex::frame::FrameInfo::new().content_checksum(true).block_checksums(linked);
        info.block_mode = if linked { lz4_flex::frame::BlockMode::Linked } else { lz4_flex::frame::BlockMode::Independent };
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let skipped = [[0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0].as_slice(), b"abc"].concat();
    let lz4 = [lz4(halves.0, true), skipped, lz4(halves.1, false)].concat();
    let snappy = {
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut encoder, &plain).unwrap();
        encoder.into_inner().unwrap()
    };
    let zstd = [zstd::stream::encode_all(halves.0, 3).unwrap(), zstd::stream::encode_all(halves.1, 9).unwrap()].concat();
    let latin1 = zlib(&text.join("\n").chars().map(|c| c as u8).collect::<Vec<u8>>());
    for (chain, bytes, encoding) in [
        (json!(["Gzip"]), gzipped.clone(), "UTF-8"),
        (json!(["Base64", "Gzip"]), base64(gzipped), "UTF-8"),
        (json!(["Zlib"]), latin1, "ISO-8859-1"),
        (json!(["Zstd"]), zstd, "UTF-8"),
        (json!(["Lz4"]), lz4, "UTF-8"),
        (json!(["Snappy"]), snappy, "UTF-8"),
    ] {
        fs::write(&path, &bytes).unwrap();
        let config = file_source(&path, lines(), json!({"recordDecoders": chain, "encoding": encoding}));
        let whole = run(&*config, None, &Limits::default()).unwrap();
        assert!(whole.records == shown, "{chain}");
        let (count, position) = &whole.positions[whole.positions.len() / 2];
        let rest = run(&*config, Some(position), &Limits::default()).unwrap();
        assert!(rest.records == shown[*count..] && rest.finished, "{chain}");
        fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
        assert!(run(&*config, None, &Limits::default()).is_err() || chain == json!(["Base64", "Gzip"]), "{chain} cut off");
        fs::write(&path, b"no such thing\n").unwrap();
        assert!(run(&*config, None, &Limits::default()).is_err(), "{chain}");
    }
    // Blocks are filled with zeros; what comes behind them is told behind what was before it.
    let config = file_source(&path, lines(), json!({"recordDecoders": ["Gzip"]}));
    let padded = [gzip(b"a\n"), gzip(b"b\n"), vec![0; 5_000]].concat();
    fs::write(&path, &padded).unwrap();
    assert_eq!(run(&*config, None, &Limits::default()).unwrap().records, ["\"a\"", "\"b\""]);
    fs::write(&path, [padded, vec![b'x'; 16]].concat()).unwrap();
    let (mut stream, mut seen) = (config.open(&anything(), None).unwrap(), 0);
    let failure = stream::drain(&mut stream, PATIENCE, |batch| seen += batch.len()).unwrap_err().to_string();
    assert!(seen == 2 && failure.contains("not gzip"), "{seen}: {failure}");
}

#[test]
fn a_quote_that_is_not_closed_ends_the_stream_where_it_stands() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.csv");
    let rows = |last: &str| {
        let row = |n: u32| if n == 10 { "10,\"name10\n".to_owned() } else { format!("{n},name{n}\n") };
        format!("id,name\n{}{last}", (0..5000).map(row).collect::<String>())
    };
    let format = json!({"type": "CypherCsv", "query": "RETURN 1", "headers": true});
    let check = |text: String, more: Json, expected: &str| {
        fs::write(&path, text).unwrap();
        let config = file_source(&path, format.clone(), more);
        let mut stream = config.open(&anything(), None).unwrap();
        let (mut batch, mut taken) = (Frames::default(), 0);
        let failure = loop {
            match stream.next(&Limits::default(), &mut batch) {
                Ok(progress) => assert_eq!(progress, Progress::More, "it is not complete"),
                Err(failure) => break failure.to_string(),
            }
            taken += batch.len();
        };
        assert_eq!(taken, 10, "what was before it is there");
        assert!(failure.contains(expected), "{failure}");
    };
    check(rows(""), json!({}), "the quote opened at byte 91 is not closed");
    check(rows(""), json!({}), "row 12, which begins with `10,\"name10`");
    check(rows("x\\"), json!({}), "the quote opened at byte 91 is not closed");
    check(rows(""), json!({"maximumLineSize": 2000}), "the quote opened at byte 91 is not closed");
    fs::write(&path, "id,name\n1,\"a\nb\"").unwrap();
    assert!(run(&*file_source(&path, format.clone(), json!({})), None, &Limits::default()).unwrap().finished);
}

/// Reads on until `count` records have come, and says where that is.
fn more(stream: &mut RecordStream, count: usize) -> (Vec<String>, Position) {
    let (mut batch, mut seen, begun) = (Frames::default(), Vec::new(), Instant::now());
    while seen.len() < count && begun.elapsed() < PATIENCE {
        assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
        seen.extend((0..batch.len()).map(|index| String::from_utf8_lossy(batch.get(index).bytes).into_owned()));
    }
    (seen, batch.position)
}

fn append(path: &Path, text: &str) {
    let file = fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).unwrap();
}

#[test]
fn a_pattern_is_all_files_that_match_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (name, text) in [("b.txt", "3\n4\n5"), ("a.txt", "1\n2\n"), ("c.txt", ""), ("d.txt", "6\n"), ("e.log", "no\n")] {
        fs::write(at(name), text).unwrap();
    }
    let config = file_source(&at("*.txt"), lines(), json!({}));
    let shown: Vec<String> = (1..=6).map(|n| format!("\"{n}\"")).collect();
    check_resume(&*config, &shown.iter().map(String::as_str).collect::<Vec<_>>());

    // In the middle of the second file the process ends; meanwhile files come that sort before and behind what was read.
    let single = run(&*config, None, &one_at_a_time()).unwrap();
    let (_, position) = single.positions.iter().find(|(count, _)| *count == 4).unwrap();
    fs::write(at("f.txt"), "7\n").unwrap();
    fs::write(at("0.txt"), "0\n").unwrap();
    assert_eq!(run(&*config, Some(position), &Limits::default()).unwrap().records, ["\"5\"", "\"6\"", "\"7\""]);
    // Where it stands the file is over: that it is gone is nothing.
    let (_, position) = single.positions.iter().rfind(|(count, _)| *count == 5).unwrap();
    fs::remove_file(at("b.txt")).unwrap();
    assert_eq!(run(&*config, Some(position), &Limits::default()).unwrap().records, ["\"6\"", "\"7\""]);
    let (_, position) = single.positions.iter().find(|(count, _)| *count == 3).unwrap();
    assert!(matches!(config.open(&anything(), Some(position)).err(), Some(ConnectorError::Position { .. })));

    // Each has a header of its own, and the columns may change.
    for (name, text) in [("1.csv", "id,name\n1,a\n2,b\n"), ("2.csv", ""), ("3.csv", "name,id\nc,3\n")] {
        fs::write(at(name), text).unwrap();
    }
    let csv = json!({"type": "CypherCsv", "query": "RETURN 1", "headers": true});
    check_resume(
        &*file_source(&at("[0-9].csv"), csv, json!({})),
        &["{ id: \"1\", name: \"a\" }", "{ id: \"2\", name: \"b\" }", "{ name: \"c\", id: \"3\" }"],
    );
    let refused = file_source(&at("*.parquet"), lines(), json!({})).check(&anything()).unwrap_err().to_string();
    assert!(refused.contains("no file matches"), "{refused}");
}

#[test]
fn a_pattern_that_is_followed_takes_files_as_they_come() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let config = file_source(&at("*.log"), lines(), json!({"fileIngestMode": "NamedPipe"}));
    let mut stream = config.open(&anything(), None).unwrap();
    let mut batch = Frames::default();
    assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
    assert!(stream.trouble().unwrap().contains("no file yet"));
    fs::write(at("1.log"), "a\nb\n").unwrap();
    assert_eq!(more(&mut stream, 2).0, ["a", "b"]);
    append(&at("1.log"), "c\n");
    fs::write(at("2.log"), "d\n").unwrap();
    let (seen, position) = more(&mut stream, 2);
    assert_eq!(seen, ["c", "d"]);
    drop(stream);
    append(&at("2.log"), "e\n");
    fs::write(at("3.log"), "f\n").unwrap();
    assert_eq!(more(&mut config.open(&anything(), Some(&position)).unwrap(), 2).0, ["e", "f"]);
}

#[test]
fn a_file_that_is_followed_may_be_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.log");
    let aside = directory.path().join("a.log.1");
    fs::write(&path, "1\n2\n").unwrap();
    let config = file_source(&path, lines(), json!({"fileIngestMode": "NamedPipe"}));
    let mut stream = config.open(&anything(), None).unwrap();
    assert_eq!(more(&mut stream, 2).0, ["1", "2"]);
    // Put aside, and still written to for a while.
    fs::rename(&path, &aside).unwrap();
    append(&aside, "3\n");
    fs::write(&path, "5\n").unwrap();
    assert_eq!(more(&mut stream, 1).0, ["3"]);
    append(&aside, "4");
    assert_eq!(more(&mut stream, 2).0, ["4", "5"]);
    // Cut off: to less than was read, and written anew to more than that before anybody looks.
    fs::write(&path, "").unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let mut batch = Frames::default();
    stream.next(&Limits::default(), &mut batch).unwrap();
    append(&path, "6\n7\n");
    assert_eq!(more(&mut stream, 2).0, ["6", "7"]);
    fs::write(&path, "longer than it was\n8\n").unwrap();
    let (seen, position) = more(&mut stream, 2);
    assert_eq!(seen, ["longer than it was", "8"]);
    drop(stream);
    append(&path, "9\n");
    let (seen, position) = more(&mut config.open(&anything(), Some(&position)).unwrap(), 1);
    assert_eq!(seen, ["9"]);
    // Rotated while nobody reads: what came to the old one meanwhile is not read, and that is told.
    fs::write(&path, "another file, of more bytes than were read of the old one\n").unwrap();
    let mut stream = config.open(&anything(), Some(&position)).unwrap();
    assert_eq!(more(&mut stream, 1).0.len(), 1);
    let notice = stream.notice().unwrap();
    assert!(notice.contains("a.log is not the file that was read before") && notice.contains("is not read"), "{notice}");
    fs::write(&path, "x\n").unwrap();
    assert_eq!(more(&mut config.open(&anything(), Some(&position)).unwrap(), 1).0, ["x"]);
}

#[test]
fn files_that_a_pattern_leaves_out_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    for name in ["a.txt", "sub/b.txt"] {
        fs::write(at(name), "1\n").unwrap();
    }
    let files = FilePolicy::new(&[at("")], FileResolution::Dynamic).unwrap();
    let context = SourceContext { files, ..anything() };
    let config = file_source(&at("**/*.txt"), lines(), json!({"fileIngestMode": "NamedPipe"}));
    let mut stream = config.open(&context, None).unwrap();
    assert_eq!(more(&mut stream, 1).0, ["1"]);
    let notice = stream.notice().unwrap();
    assert!(notice.contains("/sub, and are not read"), "{notice}");
}

#[test]
fn a_file_that_was_replaced_while_nobody_read_it_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    fs::write(&path, "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n").unwrap();
    let config = file_source(&path, json!({"type": "CypherJson", "query": "RETURN 1"}), json!({}));
    let (_, position) = run(&*config, None, &one_at_a_time()).unwrap().positions.remove(0);
    let refused = || config.open(&anything(), Some(&position)).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(refused(), "");
    append(&path, "{\"n\": 4}\n");
    assert_eq!(refused(), "", "more of the same is no other file");
    fs::write(&path, "{\"name\": 1}\n{\"name\": 2}\n{\"name\": 3}\n").unwrap();
    assert!(refused().contains("has been replaced"), "{}", refused());

    // Beyond what it is known by.
    let long: String = (0..2000).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    fs::write(&path, &long).unwrap();
    let (_, position) = run(&*config, None, &Limits::default()).unwrap().positions.remove(0);
    fs::write(&path, format!("{}{}", &long[..5000], long[5000..].replace("{\"n\"", "{\"name\""))).unwrap();
    let refused = config.open(&anything(), Some(&position)).err().unwrap().to_string();
    assert!(refused.contains("no line ends there"), "{refused}");
}

#[test]
fn objects_that_are_none_end_the_stream_where_they_stand() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let format = json!({"type": "CypherJsonObjects", "query": "RETURN 1"});
    for (text, problem) in [
        ("[{}, 5]", "at byte 5: expected an object of JSON"),
        ("{} {\"a\": ", "at byte 3: the object that begins here is not closed"),
        ("{\"a\": \"xxxxxxxxxxxxxxxxxxxx\"}", "more than 20"),
    ] {
        fs::write(&path, text).unwrap();
        let config = file_source(&path, format.clone(), json!({"maximumLineSize": 20}));
        let failure = run(&*config, None, &Limits::default()).err().unwrap().to_string();
        assert!(failure.contains(problem), "{text}: {failure}");
    }
    // A list that is cut off between two of its objects, also where the reading begins within it.
    fs::write(&path, "[{\"id\":1},\n{\"id\":2}").unwrap();
    let cut_off = file_source(&path, format.clone(), json!({}));
    let failed =
        |from: Option<&Position>| run(&*cut_off, from, &one_at_a_time()).err().map(|error| error.to_string()).unwrap_or_default();
    let mut stream = cut_off.open(&anything(), None).unwrap();
    let mut batch = Frames::default();
    for _ in 0..2 {
        assert!(
            failed(Some(&batch.position).filter(|position| !position.0.is_empty())).contains("the list of JSON is not closed")
        );
        stream.next(&one_at_a_time(), &mut batch).unwrap();
        assert_eq!(batch.len(), 1);
    }
    assert!(failed(Some(&batch.position)).contains("at byte 19: the data ends"), "{}", failed(Some(&batch.position)));
    fs::write(&path, "{\"a\" 1} {\"b\": 2}").unwrap();
    let run = run(&*file_source(&path, format, json!({})), None, &Limits::default()).unwrap();
    assert_eq!((run.records, run.failures.len()), (vec!["{ b: 2 }".to_owned()], 1));
}

#[test]
fn numbers_go_on_where_they_were() {
    let numbers = |format: &str| {
        let format = json!({"type": format, "query": "RETURN 1"});
        let definition = json!({"type": "NumberIteratorIngest", "startAtOffset": i64::MAX, "ingestLimit": 3, "format": format});
        parse_source_v1(&definition).unwrap()
    };
    check_resume(&*numbers("CypherJson"), &["9223372036854775807", "-9223372036854775808", "-9223372036854775807"]);
    check_resume(&*numbers("CypherLine"), &["\"9223372036854775807\"", "\"-9223372036854775808\"", "\"-9223372036854775807\""]);
}

#[test]
fn large_files_come_in_batches_of_whole_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let mut random = crate::decode::tests::Random::new(4);
    let expected: Vec<String> = (0..60_000).map(|n| format!("{n} {}", "x".repeat(random.below(120)))).collect();
    fs::write(&path, expected.join("\n")).unwrap();
    let config = file_source(&path, lines(), json!({}));
    for limits in
        [Limits::default(), Limits { bytes_max: 1, ..Limits::default() }, Limits { records_max: 7, ..Limits::default() }]
    {
        let run = run(&*config, None, &limits).unwrap();
        assert!(run.records.iter().map(|shown| shown.trim_matches('"')).eq(expected.iter().map(String::as_str)));
    }
    let mut stream = config.open(&anything(), None).unwrap();
    let mut batch = Frames::default();
    while stream.next(&Limits::default(), &mut batch).unwrap() == Progress::More {
        assert_eq!(batch.len(), 1000, "a batch under load is a full one");
    }
}

#[test]
fn a_position_that_does_not_fit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    fs::write(&path, "one\ntwo\n").unwrap();
    let config = file_source(&path, lines(), json!({}));
    let (_, end) = run(&*config, None, &Limits::default()).unwrap().positions.pop().unwrap();
    fs::write(&path, "one\n").unwrap();
    let refused = config.open(&anything(), Some(&end)).err().unwrap();
    assert!(matches!(refused, ConnectorError::Position { .. }), "{refused}");
    for damaged in [Position(vec![9; 3]), Position(vec![9; 40]), Position(vec![1; 25])] {
        assert!(matches!(config.open(&anything(), Some(&damaged)).err(), Some(ConnectorError::Position { .. })));
    }
    assert!(config.open(&anything(), Some(&Position::default())).is_ok(), "an empty position is the beginning");
}

#[test]
fn a_record_that_does_not_decode_is_kept_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    fs::write(&path, "1\n{\n3\n\n").unwrap();
    let config = file_source(&path, json!({"type": "CypherJson", "query": "RETURN 1"}), json!({}));
    let run = run(&*config, None, &one_at_a_time()).unwrap();
    assert_eq!(run.records, ["1", "3"]);
    assert_eq!(run.failures.iter().map(|failure| failure.number).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_record_that_is_too_long_ends_the_stream_after_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    for text in ["ab\nabc\nab", "ab\nabc"] {
        fs::write(&path, text).unwrap();
        let config = file_source(&path, lines(), json!({"maximumLineSize": 2}));
        let mut stream = config.open(&anything(), None).unwrap();
        let mut batch = Frames::default();
        assert_eq!(stream.next(&Limits::default(), &mut batch).unwrap(), Progress::More);
        assert_eq!(batch.len(), 1);
        let ended = stream.next(&Limits::default(), &mut batch).unwrap_err();
        assert!(ended.to_string().contains("Read 3 bytes which is more than 2 without seeing a line terminator"), "{ended}");
    }
}

#[test]
fn the_rate_limit_holds_and_does_not_delay_stopping() {
    let definition = json!({"type": "NumberIteratorIngest", "maximumPerSecond": 2000});
    let mut stream = parse_source_v1(&definition).unwrap().open(&anything(), None).unwrap();
    let (mut batch, begun, mut taken) = (Frames::default(), Instant::now(), 0);
    // A busy machine may be late, but not every time; it must not be early.
    let keeps_up = (0..20).any(|_| {
        let (since, before, mut slowest) = (Instant::now(), taken, Duration::ZERO);
        while since.elapsed() < Duration::from_millis(500) {
            let called = Instant::now();
            stream.next(&Limits::default(), &mut batch).unwrap();
            slowest = slowest.max(called.elapsed());
            assert!(batch.len() <= 201, "{} records at once", batch.len());
        }
        taken = stream.taken();
        let rate = taken as f64 / begun.elapsed().as_secs_f64();
        assert!(rate < 2100.0, "{rate} records/s");
        let rate = (taken - before) as f64 / since.elapsed().as_secs_f64();
        rate > 500.0 && slowest < Duration::from_millis(500)
    });
    assert!(keeps_up, "{taken} records in {:?}", begun.elapsed());
}

// Destinations.

#[test]
fn a_format_that_can_be_given_is_that_of_results() {
    let mut taken = Vec::new();
    for row in DESTINATIONS {
        let mut generator = schemars::SchemaGenerator::default();
        let reference = (row.schema)(&mut generator).to_value();
        let name = reference["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        if generator.definitions()[&name]["properties"].get("format").is_none() {
            continue;
        }
        let mut definition = (row.sample)();
        definition["format"] = json!({"type": "Protobuf", "schemaUrl": "all.desc", "typeName": "Result"});
        let config = parse_destination_v1(&definition).unwrap();
        let told = config.format().map(|format| serde_json::to_value(format).unwrap());
        assert_eq!(told.unwrap_or_default()["typeName"], "Result", "the format of {} has no effect", row.name);
        taken.push(row.name);
    }
    #[cfg(feature = "aws")]
    assert!(taken.contains(&"Kinesis"), "{taken:?}");
    assert!(taken.contains(&"Redis"), "{taken:?}");
}

pub(crate) fn bodies(texts: &[&str]) -> Vec<Outgoing> {
    texts.iter().map(|text| Outgoing { body: text.as_bytes().to_vec(), positive: true, mark: 0, id: None }).collect()
}

#[test]
fn a_file_holds_each_result_once_wherever_the_process_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let config = parse_destination_v1(&json!({"type": "WriteToFile", "path": path})).unwrap();
    let results = bodies(&["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]);
    let expected = "before\n{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n";
    for known in 0..=results.len() {
        for reached in known..=results.len() {
            fs::write(&path, "before\n").unwrap();
            let mut destination = config.open(&output(&runtime), None).unwrap();
            let mut position = destination.position();
            destination.write(&results[..known], 1).unwrap();
            if known > 0 {
                position = destination.position();
            }
            // Written, but its position was not stored; and half a line of the next.
            destination.write(&results[known..reached], 1).unwrap();
            drop(destination);
            fs::OpenOptions::new().append(true).open(&path).and_then(|mut f| std::io::Write::write_all(&mut f, b"{\"")).unwrap();
            let mut destination = config.open(&output(&runtime), Some(&position)).unwrap();
            assert_eq!(destination.position(), position);
            destination.write(&results[known..], 1).unwrap();
            destination.close().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected, "known {known}, reached {reached}");
        }
    }
}

#[test]
fn a_file_belongs_to_one_output_and_may_be_taken_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.jsonl");
    let runtime = runtime();
    let config = parse_destination_v1(&json!({"type": "WriteToFile", "path": path})).unwrap();
    let mut first = config.open(&output(&runtime), None).unwrap();
    let refused = config.open(&output(&runtime), None).err().unwrap();
    assert!(refused.to_string().contains("another output writes to this file"), "{refused}");
    first.write(&bodies(&["1", "2"]), 1).unwrap();
    let position = first.position();
    drop(first);
    fs::remove_file(&path).unwrap();
    config.open(&output(&runtime), Some(&position)).unwrap().write(&bodies(&["3"]), 1).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    let known = Position(2u64.to_le_bytes().to_vec());
    assert!(config.open(&output(&runtime), Some(&known)).is_ok(), "a position of before");
    let absent = json!({"type": "WriteToFile", "path": directory.path().join("no/out")});
    let refused = parse_destination_v1(&absent).unwrap().open(&output(&runtime), None).err().unwrap();
    assert!(refused.fault() == Fault::User && !refused.retryable(), "{refused}");
    let device = json!({"type": "WriteToFile", "path": "/dev/null"});
    parse_destination_v1(&device).unwrap().open(&output(&runtime), None).unwrap().write(&bodies(&["1"]), 1).unwrap();
}

#[test]
fn results_are_written_only_where_files_may_be() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    fs::create_dir(at("store")).unwrap();
    fs::write(at("store/CURRENT"), "theirs").unwrap();
    let runtime = runtime();
    let context = DestinationContext { files: FilePolicy::default().except(Some(&at("store"))), ..output(&runtime) };
    let config = |path: &str, rotation: Json| {
        parse_destination_v1(&json!({"type": "WriteToFile", "path": at(path), "rotation": rotation})).unwrap()
    };
    for path in ["store/CURRENT", "store/new"] {
        for position in [None, Some(&Position(0u64.to_le_bytes().to_vec()))] {
            let refused = config(path, Json::Null).open(&context, position).err().unwrap();
            assert!(refused.to_string().contains("its own data") && refused.fault() == Fault::User, "{refused}");
        }
    }
    // Another file is at the path while results are written.
    for rotation in [Json::Null, json!({"bytesMax": 1_000_000})] {
        let mut destination = config("out", rotation).open(&context, None).unwrap();
        destination.write(&bodies(&["1"]), 1).unwrap();
        fs::remove_file(at("out")).unwrap();
        std::os::unix::fs::symlink(at("store/CURRENT"), at("out")).unwrap();
        let refused = destination.write(&bodies(&["2"]), 2).unwrap_err();
        assert!(refused.to_string().contains("its own data") && !refused.retryable(), "{refused}");
        fs::remove_file(at("out")).unwrap();
    }
    assert_eq!(fs::read_to_string(at("store/CURRENT")).unwrap(), "theirs");
    assert!(!at("store/new").exists());
}

#[test]
fn a_file_of_results_may_be_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = (directory.path().join("out.jsonl"), directory.path().join("out.1"));
    let runtime = runtime();
    let config = parse_destination_v1(&json!({"type": "WriteToFile", "path": path})).unwrap();
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut output_of = config.open(&output(&runtime), None).unwrap();
    let mut write = |texts: &[&str]| {
        output_of.write(&bodies(texts), 1).unwrap();
        output_of.position()
    };
    let first = write(&["1", "2"]);
    // Copied and cut off.
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    write(&["3"]);
    assert_eq!(read(&path), "3\n");
    // Put aside; a new one is made here, or was by others.
    fs::rename(&path, &aside).unwrap();
    write(&["4"]);
    assert_eq!((read(&aside), read(&path)), ("3\n".to_owned(), "4\n".to_owned()));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "theirs\n").unwrap();
    let last = write(&["5"]);
    append(&path, "also theirs\n");
    write(&["6"]);
    assert_eq!(read(&path), "theirs\n5\nalso theirs\n6\n");
    drop(output_of);
    // What is not known of is cut off, but not from another file.
    config.open(&output(&runtime), Some(&last)).unwrap().write(&bodies(&["6"]), 1).unwrap();
    assert_eq!(read(&path), "theirs\n5\n6\n");
    config.open(&output(&runtime), Some(&first)).unwrap().write(&bodies(&["7"]), 1).unwrap();
    assert_eq!(read(&path), "theirs\n5\n6\n7\n");
}

#[test]
fn a_destination_that_shall_end_waits_for_no_answer() {
    // Connections are taken, and nothing is ever said.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let at = |scheme: &str| format!("{scheme}://127.0.0.1:{port}");
    let mut definitions = vec![
        json!({"type": "PostToEndpoint", "url": at("http")}),
        json!({"type": "PostToEndpoint", "url": at("http"), "parallelism": 1}),
        json!({"type": "WriteToElasticsearch", "urls": [at("http")], "index": "results"}),
        json!({"type": "WriteToRedis", "url": at("redis"), "key": "results"}),
        json!({"type": "WriteToAmqp", "url": at("amqp"), "routingKey": "results"}),
        json!({"type": "WriteToMqtt", "url": at("mqtt"), "topic": "results"}),
        json!({"type": "WriteToNats", "servers": [at("nats")], "subject": "results"}),
        json!({"type": "WriteToPostgres", "url": at("postgres") + "/x", "username": "weir", "table": "results"}),
    ];
    #[cfg(feature = "kafka")]
    definitions.push(json!({"type": "WriteToKafka", "topic": "results", "bootstrapServers": format!("127.0.0.1:{port}")}));
    #[cfg(feature = "aws")]
    definitions.extend(
        [
            json!({"type": "WriteToSQS", "queueUrl": at("http") + "/1/results"}),
            json!({"type": "WriteToSNS", "topic": "arn:aws:sns:eu-west-1:123456789012:results", "endpoint": at("http")}),
            json!({"type": "WriteToKinesis", "streamName": "results", "endpoint": at("http")}),
            json!({"type": "WriteToKinesis", "streamName": "results", "endpoint": at("http"), "kinesisMaxRecordsPerSecond": 1}),
            json!({"type": "WriteToS3", "bucket": "lake", "endpoint": at("http")}),
        ]
        .map(|mut definition| {
            definition["credentials"] = json!({"accessKeyId": "a", "secretAccessKey": "b"});
            definition["region"] = json!({"region": "eu-west-1"});
            definition
        }),
    );
    let runtime = runtime();
    for definition in definitions {
        let config = parse_destination_v1(&definition).unwrap();
        takes_less_than(Duration::from_millis(1500), &definition.to_string(), || {
            let mut destination = config.open(&output(&runtime), None).unwrap();
            let stop = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
            destination.ends_by(&stop);
            let begun = Instant::now();
            let stopping = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let mut written = destination.write(&bodies(&["1"]), 1);
            if destination.held() > 0 {
                written = destination.close().map(|()| destination::Written::default());
            }
            let took = begun.elapsed();
            stopping.join().unwrap();
            match written {
                Ok(written) => assert_eq!((written.left, written.refused), (vec![0], Vec::new()), "{definition}"),
                Err(error) => assert!(error.retryable(), "{definition}: {error}"),
            }
            assert!(took >= Duration::from_millis(150), "{definition} did not ask anybody");
            took
        });
    }
}

/// Nobody is where the samples say, and the position is one of nobody.
#[test]
fn every_source_ends_promptly_and_fails_on_a_position_that_is_none() {
    let mut refused = Vec::new();
    for row in SOURCES {
        let config = parse_source_v1(&(row.sample)()).unwrap();
        for from in [None, Some(Position(b"\xff\xfe{nobody".to_vec()))] {
            // Kafka's group is left within 3 s.
            takes_less_than(Duration::from_secs(5), row.name, || {
                let mut whole = Duration::ZERO;
                takes_less_than(Duration::from_secs(1), row.name, || {
                    let begun = Instant::now();
                    let mut waited = Duration::ZERO;
                    match config.open_source(&anything(), from.as_ref()) {
                        Ok(mut source) => {
                            let limits = Limits { wait_max: Duration::from_millis(50), ..Limits::default() };
                            // What is not there is waited for, or an error; never anything else.
                            let _ = source.next(&limits, &mut Frames::default());
                            waited = begun.elapsed();
                        }
                        Err(error) => {
                            assert!(!error.to_string().is_empty());
                            if let (ConnectorError::Position { .. }, Some(_)) = (&error, &from) {
                                refused.push(row.name);
                            }
                        }
                    }
                    whole = begun.elapsed();
                    waited
                });
                whole
            });
        }
    }
    let own = ["HttpPoll", "NumberIterator", "Postgres"];
    assert!(own.iter().all(|name| refused.contains(name)), "a position is looked at by {refused:?}");
}

#[test]
fn every_destination_closes_promptly() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    for row in DESTINATIONS {
        let mut definition = (row.sample)();
        if let Some(path) = definition.get_mut("path") {
            *path = json!(directory.path().join("out"));
        }
        if let Some(port) = definition.get_mut("port") {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            *port = json!(free.local_addr().unwrap().port());
        }
        takes_less_than(Duration::from_secs(1), row.name, || {
            let destination = parse_destination_v1(&definition).unwrap().open(&output(&runtime), None).unwrap();
            let (on_refused, retries) = (crate::OnRefused::GiveUp, crate::Retries::default());
            let delivery = Delivery::start("out", destination, on_refused, retries, Box::new(|_, _| {}));
            let begun = Instant::now();
            assert!(delivery.close(PATIENCE), "{}", row.name);
            begun.elapsed()
        });
    }
}
