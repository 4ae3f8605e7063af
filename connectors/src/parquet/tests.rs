//! Against files that another library wrote (`parquet_vectors/make.py` says how), from every position, and damaged ones.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use weir_model::IdScheme;

use crate::SourceContext;
use crate::conformance::anything;
use crate::decode::decode;
use crate::frames::{Frames, Limits, Progress};
use crate::source::SourceConfig;

use super::*;

const FILES: [&str; 5] = ["plain", "snappy", "zstd", "gzip", "lz4"];

fn vector(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/parquet_vectors").join(name)
}

fn source(path: &Path, more: Json) -> Box<dyn SourceConfig> {
    let format = json!({"type": "CypherParquet", "query": "RETURN 1"});
    let mut definition = json!({"type": "FileIngest", "path": path, "format": format});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    crate::parse_source_v1(&definition).unwrap()
}

fn rows() -> Vec<Json> {
    fs::read_to_string(vector("rows.jsonl")).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows, and the position behind each batch with how many were out.
type Read = (Vec<Json>, Vec<(usize, Position)>);

fn read(
    config: &dyn SourceConfig,
    context: &SourceContext,
    from: Option<&Position>,
    limits: &Limits,
) -> Result<Read, ConnectorError> {
    let mut stream = config.open(context, from)?;
    let (mut batch, mut values, mut failures, mut positions) = (Frames::default(), Vec::new(), Vec::new(), Vec::new());
    let decoder = config.decoder(context)?;
    loop {
        let progress = stream.next(limits, &mut batch)?;
        decode(&*decoder, &batch, &mut values, &mut failures);
        positions.push((values.len(), batch.position.clone()));
        if progress == Progress::Finished {
            break;
        }
    }
    assert!(failures.is_empty(), "{:?}", failures.first());
    let text = |value: &Value| {
        let mut out = Vec::new();
        weir_model::json::write(value, IdScheme::Uuid, &mut out);
        serde_json::from_slice(&out).unwrap()
    };
    Ok((values.iter().map(text).collect(), positions))
}

#[test]
fn rows_are_what_was_written_whatever_the_encoding() {
    let expected = rows();
    for name in FILES {
        let config = source(&vector(&format!("{name}.parquet")), json!({}));
        let (read, _) = read(&*config, &anything(), None, &Limits::default()).unwrap();
        assert_eq!(read.len(), expected.len(), "{name}");
        for (at, (read, expected)) in read.iter().zip(&expected).enumerate() {
            for (column, value) in expected.as_object().unwrap() {
                assert_eq!(&read[column], value, "{name}, row {at}, {column}");
            }
        }
    }
}

#[test]
fn reading_goes_on_at_every_position() {
    let expected = rows();
    let config = source(&vector("plain.parquet"), json!({}));
    let wanted = SourceContext { wanted: Some([Text::new("id"), Text::new("tags")].into()), ..anything() };
    let limits = Limits { records_max: 7, ..Limits::default() };
    let (whole, positions) = read(&*config, &wanted, None, &limits).unwrap();
    let only = |row: &Json| json!({"id": row["id"], "tags": row["tags"]});
    let expected: Vec<Json> = expected.iter().map(only).collect();
    assert_eq!(whole, expected, "no columns but those that are wanted");
    for (count, position) in &positions {
        let (rest, _) = read(&*config, &wanted, Some(position), &Limits::default()).unwrap();
        assert_eq!(rest, expected[*count..], "from row {count}");
    }
    let bounded = source(&vector("snappy.parquet"), json!({"startAtOffset": 60, "ingestLimit": 70}));
    assert_eq!(read(&*bounded, &wanted, None, &Limits::default()).unwrap().0, expected[60..130]);
    let none = SourceContext { wanted: Some([Text::new("nothing")].into()), ..anything() };
    assert_eq!(read(&*config, &none, None, &Limits::default()).unwrap().0, vec![json!({}); expected.len()]);
}

#[test]
fn a_file_that_was_changed_or_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    let config = source(&path, json!({}));
    let problem = |from: Option<&Position>| read(&*config, &anything(), from, &Limits::default()).unwrap_err().to_string();
    fs::write(&path, "no parquet at all").unwrap();
    assert!(problem(None).contains("is no file of Parquet"), "{}", problem(None));
    fs::copy(vector("zstd.parquet"), &path).unwrap();
    let (_, positions) = read(&*config, &anything(), None, &Limits::default()).unwrap();
    fs::copy(vector("gzip.parquet"), &path).unwrap();
    let changed = problem(Some(&positions[0].1));
    assert!(changed.contains("back, or delete the stream"), "{changed}");
    let check = |definition: Json| crate::parse_source_v1(&definition).unwrap().check(&anything()).unwrap_err().to_string();
    let format = json!({"type": "CypherParquet", "query": "RETURN 1"});
    assert!(check(json!({"type": "StandardInputIngest", "format": format})).contains("only files and objects of S3"));
    assert!(
        check(json!({"type": "FileIngest", "path": path, "format": format, "recordDecoders": ["Gzip"]}))
            .contains("recordDecoders")
    );
    assert!(check(json!({"type": "FileIngest", "path": path, "format": format, "encoding": "UTF-16"})).contains("encoding"));
}

#[test]
fn damaged_files_fail_and_do_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    let mut random = crate::decode::tests::Random::new(11);
    for round in 0..300 {
        let mut bytes = fs::read(vector(&format!("{}.parquet", FILES[round % FILES.len()]))).unwrap();
        for _ in 0..3 {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        fs::write(&path, &bytes).unwrap();
        let config = source(&path, json!({}));
        let Ok(mut stream) = config.open(&anything(), None) else { continue };
        let (mut batch, mut values, mut failures) = (Frames::default(), Vec::new(), Vec::new());
        while let Ok(progress) = stream.next(&Limits::default(), &mut batch) {
            decode(&crate::decode::RawDecoder, &batch, &mut values, &mut failures);
            if progress == Progress::Finished {
                break;
            }
        }
    }
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let fields = [
        Field::Column("n".into(), ColumnKind::Integer),
        Field::Column("words".into(), ColumnKind::Texts),
        Field::Group(
            "of".into(),
            vec![
                ("Odd. name".into(), ColumnKind::Text),
                ("x".into(), ColumnKind::Float),
                ("yes".into(), ColumnKind::Boolean),
                ("raw".into(), ColumnKind::Bytes),
                ("never".into(), ColumnKind::Text),
            ],
        ),
        Field::Column("more".into(), ColumnKind::Json),
    ];
    let mut table = TableWriter::new(&fields, &[("who", "weir")]).unwrap();
    let mut random = crate::decode::tests::Random::new(7);
    let (mut expected, mut parts) = (Vec::new(), Vec::new());
    // More than a group.
    for n in 0..70_000 {
        let mut row = json!({"n": null, "words": null, "of": {"Odd. name": null, "x": null, "yes": null, "raw": null, "never": null}, "more": null});
        let some = |random: &mut crate::decode::tests::Random| random.below(3) > 0;
        if some(&mut random) {
            table.set(0, Cell::Integer(n - 5));
            row["n"] = json!(n - 5);
        }
        if some(&mut random) {
            let words: Vec<Text> = (0..random.below(4)).map(|word| Text::from(format!("w{word} {n}"))).collect();
            table.set(1, Cell::Texts(&words));
            row["words"] = json!(words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
        }
        if some(&mut random) {
            table.set(2, Cell::Bytes("é ü".as_bytes()));
            row["of"]["Odd. name"] = json!("é ü");
        }
        if some(&mut random) {
            table.set(3, Cell::Float(n as f64 / 8.0));
            row["of"]["x"] = json!(n as f64 / 8.0);
        }
        if some(&mut random) {
            table.set(4, Cell::Boolean(n % 2 == 0));
            row["of"]["yes"] = json!(n % 2 == 0);
        }
        if some(&mut random) {
            table.set(7, Cell::Bytes(br#"{"a":[1]}"#));
            row["more"] = json!({"a": [1]});
        }
        expected.push(row);
        parts.extend(table.end_row().unwrap().unwrap_or_default());
    }
    assert!(!parts.is_empty(), "a group leaves when it is full");
    parts.extend(table.finish().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.parquet");
    fs::write(&path, parts).unwrap();
    let (read, _) = read(&*source(&path, json!({})), &anything(), None, &Limits::default()).unwrap();
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.iter().zip(&expected) {
        assert_eq!(read, expected);
    }
}
