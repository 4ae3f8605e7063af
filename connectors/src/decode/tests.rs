//! Decoders against what is documented, and against random bytes.

use std::sync::Arc;

use weir_model::Text;

use super::*;

const COMMON: CsvCharacters = CsvCharacters { delimiter: b',', quote: b'"', escape: b'\\' };

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    /// Bytes out of an alphabet that gets everywhere in the grammar, and any others now and then.
    pub(crate) fn bytes(&mut self, alphabet: &[u8]) -> Vec<u8> {
        let length = self.below(40);
        (0..length)
            .map(|_| if self.below(20) == 0 { self.below(256) as u8 } else { alphabet[self.below(alphabet.len())] })
            .collect()
    }
}

fn value(decoder: &dyn Decoder, bytes: &[u8]) -> Result<String, String> {
    decoder.record(Frame { bytes, columns: None }).map(|value| value.shown())
}

fn check_row(row: &str, expected: &[&str]) {
    let fields = split_row(row.as_bytes(), COMMON).unwrap_or_else(|problem| panic!("{row}: {problem}"));
    assert_eq!(fields, expected.iter().map(|field| Text::new(field)).collect::<Vec<_>>(), "{row}");
}

#[test]
fn rows_split_into_fields() {
    check_row("1,a,\"x, y\"", &["1", "a", "x, y"]);
    check_row("", &[""]);
    check_row(",", &["", ""]);
    check_row("a,", &["a", ""]);
    check_row("\"\",\"\"", &["", ""]);
    check_row("\"Bo \"\"B\"\"\",2", &["Bo \"B\"", "2"]);
    check_row("\"Bo \\\"B\\\"\",2", &["Bo \"B\"", "2"]);
    check_row("a\\,b,c", &["a,b", "c"]);
    check_row("C:\\temp,\\\\server", &["C:\\temp", "\\server"]);
    check_row("say \"hi\",x", &["say \"hi\"", "x"]);
    check_row("\"two\nlines\",é", &["two\nlines", "é"]);
}

#[test]
fn broken_rows_say_what_is_wrong() {
    let problem = |row: &str| split_row(row.as_bytes(), COMMON).unwrap_err();
    assert_eq!(problem("\"end\\"), "the quote opened at byte 0 of the row is not closed");
    assert_eq!(problem("a,\"b"), "the quote opened at byte 2 of the row is not closed");
    assert_eq!(problem("\"a\"b,c"), "expected a delimiter or the end of the row after the quote before byte 3");
}

#[test]
fn csv_records_are_lists_or_maps() {
    let list = CsvDecoder { characters: COMMON, columns: None };
    assert_eq!(value(&list, b"3,c").unwrap(), "[ \"3\", \"c\" ]");
    let columns: Arc<[Text]> = ["a".into(), "b".into()].into();
    let named = CsvDecoder { characters: COMMON, columns: Some(columns.clone()) };
    assert_eq!(value(&named, b"3,c,extra").unwrap(), "{ a: \"3\", b: \"c\" }");
    assert_eq!(value(&named, b"3").unwrap(), "{ a: \"3\" }");
    let of_the_stream = list.record(Frame { bytes: b"1,2", columns: Some(&columns) }).unwrap();
    assert_eq!(of_the_stream.shown(), "{ a: \"1\", b: \"2\" }");
    // Of columns that are named alike the last counts, however many there are.
    let names: Vec<Text> = (0..200).map(|n| format!("column {}", n % 90).into()).collect();
    let many = CsvDecoder { characters: COMMON, columns: Some(names.into()) };
    let row = (0..200).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let Ok(Value::Map(map)) = many.record(Frame { bytes: row.as_bytes(), columns: None }) else { panic!("a map") };
    assert_eq!(map.len(), 90);
    for (index, (name, field)) in map.iter().enumerate() {
        let last = if index < 20 { index + 180 } else { index + 90 };
        assert_eq!((name.as_str(), field.to_text()), (format!("column {index}").as_str(), last.to_string()));
    }
    assert_eq!(
        value(&list, b"\"\",\"a\xc3\xa9\",\"b\"\"\",\"\xff\",\xff").unwrap(),
        "[ \"\", \"a\\u00E9\", \"b\\\"\", \"\\uFFFD\", \"\\uFFFD\" ]"
    );
}

#[test]
fn lines_json_and_raw() {
    assert_eq!(value(&LineDecoder, b"a\xffb").unwrap(), Value::text("a\u{fffd}b").shown());
    assert_eq!(value(&JsonDecoder::default(), b"{\"id\": 1, \"v\": [1, \"x\"]}").unwrap(), "{ id: 1, v: [ 1, \"x\" ] }");
    assert!(value(&JsonDecoder::default(), b"").is_err());
    assert!(value(&JsonDecoder::default(), b"nope").unwrap_err().starts_with("the record is not JSON"));
    assert_eq!(value(&RawDecoder, b"\x01\xff").unwrap(), "bytes(\"01FF\")");
}

#[test]
fn a_failed_record_is_kept_aside_and_the_others_are_not_touched() {
    let mut frames = Frames::default();
    ["1", "{", "3"].iter().for_each(|text| frames.push(text.as_bytes()));
    frames.first_number = 40;
    let (mut records, mut failures) = (Vec::new(), Vec::new());
    decode(&JsonDecoder::default(), &frames, &mut records, &mut failures);
    assert_eq!(records.iter().map(Value::shown).collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!((failures.len(), failures[0].number, failures[0].sample.as_slice()), (1, 41, b"{".as_slice()));
}

#[test]
fn random_bytes_are_an_answer_or_a_failure() {
    let mut random = Random::new(1);
    let columns: Arc<[Text]> = ["a".into(), "a".into()].into();
    let decoders: [&dyn Decoder; 5] = [
        &JsonDecoder::default(),
        &LineDecoder,
        &RawDecoder,
        &CsvDecoder { characters: COMMON, columns: None },
        &CsvDecoder { characters: COMMON, columns: Some(columns) },
    ];
    for _ in 0..50_000 {
        for alphabet in [b"{}[]\",:\\u0e1-.tfn ".as_slice(), b"a,\"\\\n\r"] {
            let bytes = random.bytes(alphabet);
            for decoder in decoders {
                let _ = decoder.record(Frame { bytes: &bytes, columns: None });
            }
        }
    }
}

/// Cuts as the row ends say, given the bytes in pieces.
fn rows(text: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let mut framing = CsvFraming::new(COMMON);
    let (mut rows, mut start, mut seen) = (Vec::new(), 0, 0);
    loop {
        match framing.row_end(&text[start..seen], seen == text.len()) {
            Some(end) => {
                rows.push(text[start..start + end].to_vec());
                start += end + 1;
            }
            None if seen == text.len() => break,
            None => seen = (seen + 1 + random.below(5)).min(text.len()),
        }
    }
    rows.push(text[start..].to_vec());
    rows
}

#[test]
fn rows_do_not_depend_on_how_the_bytes_arrive() {
    let mut random = Random::new(2);
    for _ in 0..50_000 {
        let text = random.bytes(b"a,\"\\\n");
        let mut at_once = CsvFraming::new(COMMON);
        let mut expected = Vec::new();
        let mut start = 0;
        while let Some(end) = at_once.row_end(&text[start..], true) {
            expected.push(text[start..start + end].to_vec());
            start += end + 1;
        }
        expected.push(text[start..].to_vec());
        assert_eq!(rows(&text, &mut random), expected, "{:?}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn written_rows_are_read_back() {
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let table: Vec<Vec<String>> = (0..1 + random.below(4))
            .map(|_| (0..1 + random.below(4)).map(|_| String::from_utf8_lossy(&random.bytes(b"a,\"\\\n")).into_owned()).collect())
            .collect();
        let quoted = |field: &String| format!("\"{}\"", field.replace('\\', "\\\\").replace('"', "\"\""));
        let lines: Vec<String> = table.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",")).collect();
        let read: Vec<Vec<Text>> =
            rows(lines.join("\n").as_bytes(), &mut random).iter().map(|row| split_row(row, COMMON).unwrap()).collect();
        assert_eq!(read, table, "{lines:?}");
    }
}
