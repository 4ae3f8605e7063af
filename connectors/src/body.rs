//! Bodies of HTTP that hold records: in requests that hand them in, in answers that bring them. Where one record ends and the
//! next begins follows from the content type; what a record says is for its decoder.

use std::io::{self, Read};
use std::ops::Range;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

use crate::recoding;

/// How a body is cut into records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// A list of JSON is its elements; anything else is one record.
    Json,
    /// Each line that is not empty.
    Lines,
    /// All of it is one record.
    Whole,
}

/// Content types that say how they are cut.
pub const CONTENT_TYPES: &[(&str, Cut)] = &[
    ("application/json", Cut::Json),
    ("application/x-ndjson", Cut::Lines),
    ("application/jsonl", Cut::Lines),
    ("text/plain", Cut::Lines),
    ("application/octet-stream", Cut::Whole),
];

/// Other names of them that are in use.
const ALSO: &[(&str, Cut)] = &[
    ("application/ndjson", Cut::Lines),
    ("application/x-jsonlines", Cut::Lines),
    ("application/jsonlines", Cut::Lines),
    ("application/avro", Cut::Whole),
    ("application/protobuf", Cut::Whole),
    ("application/x-protobuf", Cut::Whole),
];

impl Cut {
    /// The cut of a content type, which is without its parameters and in lower case.
    pub fn of(content_type: &str) -> Option<Cut> {
        let known = CONTENT_TYPES.iter().chain(ALSO).find(|(name, _)| *name == content_type);
        known.map(|(_, cut)| *cut).or_else(|| content_type.ends_with("+json").then_some(Cut::Json))
    }
}

/// The records of a body, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Records {
    body: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Records {
    /// An error says what is wrong with the body as a whole; a record that is none is found when it is decoded.
    pub fn cut(body: Vec<u8>, cut: Cut) -> Result<Records, String> {
        let ranges = match cut {
            Cut::Whole if body.is_empty() => Vec::new(),
            Cut::Whole => std::iter::once(0..body.len()).collect(),
            Cut::Lines => lines(&body),
            Cut::Json => match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => Vec::new(),
                Some(b'[') => elements(&body)?,
                Some(_) => std::iter::once(0..body.len()).collect(),
            },
        };
        Ok(Records { body, ranges })
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn byte_count(&self) -> usize {
        self.body.len()
    }

    pub fn get(&self, index: usize) -> &[u8] {
        self.ranges.get(index).map_or(&[], |range| &self.body[range.clone()])
    }
}

/// How a body may be encoded.
#[derive(Clone, Copy)]
enum Encoding {
    Gzip,
    Deflate,
    Zstd,
    Identity,
}

/// What `Content-Encoding` may say, in lower case.
const ENCODINGS: &[(&str, Encoding)] = &[
    ("gzip", Encoding::Gzip),
    ("x-gzip", Encoding::Gzip),
    ("deflate", Encoding::Deflate),
    ("zstd", Encoding::Zstd),
    ("identity", Encoding::Identity),
];

/// A body has no more encodings: each is undone as a whole.
const ENCODINGS_MAX: usize = 4;

/// What can be undone, in words: for whoever is told that something cannot.
pub fn encodings() -> String {
    let names: Vec<&str> = ENCODINGS.iter().map(|(name, _)| *name).collect();
    format!("{} (up to {ENCODINGS_MAX} of them)", names.join(", "))
}

/// How the body behind these headers is encoded, for `uncompressed`: several lines are one list. What is no text is told as
/// something that is not known.
pub fn told_encodings(headers: &HeaderMap) -> String {
    let lines = headers.get_all(CONTENT_ENCODING).iter().map(|line| line.to_str().unwrap_or("?").trim());
    lines.collect::<Vec<_>>().join(", ").to_ascii_lowercase()
}

/// A body as it was before it was compressed, once or by several encodings, which are told in their order. `None` where one of
/// them is not known, or there are too many.
pub fn uncompressed(encodings: &str, body: Vec<u8>, bytes_max: usize) -> Option<Result<Vec<u8>, String>> {
    let told: Vec<&str> = encodings.split(',').map(str::trim).collect();
    if told.len() > ENCODINGS_MAX {
        return None;
    }
    let mut undone = body;
    for encoding in told.into_iter().rev() {
        undone = match without(encoding, undone, bytes_max)? {
            Ok(body) => body,
            Err(problem) => return Some(Err(problem)),
        };
    }
    Some(Ok(undone))
}

fn without(encoding: &str, body: Vec<u8>, bytes_max: usize) -> Option<Result<Vec<u8>, String>> {
    if encoding.is_empty() {
        return Some(Ok(body));
    }
    let (_, known) = ENCODINGS.iter().find(|(name, _)| *name == encoding)?;
    let wrong = |error: io::Error| format!("the body is not {encoding}: {error}");
    let within = |read: &mut dyn Read| {
        let mut bytes = Vec::new();
        read.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
        let too_long = || format!("the body has more than {bytes_max} bytes when its {encoding} is undone");
        if bytes.len() > bytes_max { Err(too_long()) } else { Ok(bytes) }
    };
    Some(match known {
        Encoding::Gzip => within(&mut MultiGzDecoder::new(body.as_slice())),
        Encoding::Deflate => within(&mut ZlibDecoder::new(body.as_slice())),
        Encoding::Zstd => recoding::zstd_reader(&body).map_err(wrong).and_then(|mut decoder| within(&mut decoder)),
        Encoding::Identity => Ok(body),
    })
}

fn lines(body: &[u8]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < body.len() {
        let end = memchr::memchr(b'\n', &body[start..]).map_or(body.len(), |offset| start + offset);
        let length = body[start..end].strip_suffix(b"\r").unwrap_or(&body[start..end]).len();
        if length > 0 {
            ranges.push(start..start + length);
        }
        start = end + 1;
    }
    ranges
}

/// The elements of a list of JSON. Only brackets and strings are looked at.
fn elements(body: &[u8]) -> Result<Vec<Range<usize>>, String> {
    let mut ranges = Vec::new();
    let mut depth = 0_usize;
    let (mut in_string, mut escaped, mut closed) = (false, false, false);
    let mut start = 0;
    for (at, byte) in body.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            _ if closed && !byte.is_ascii_whitespace() => return Err(format!("at byte {at}: something comes behind the list")),
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            b',' | b']' if depth == 1 => {
                let element = trimmed(body, start..at);
                closed = *byte == b']';
                // `[]` is a list without elements; `[1,]` is none.
                if !element.is_empty() {
                    ranges.push(element);
                } else if !(closed && ranges.is_empty()) {
                    return Err(format!("at byte {at}: expected an element of the list"));
                }
                start = at + 1;
                depth -= usize::from(closed);
            }
            b'}' if depth == 1 => return Err(format!("at byte {at}: a brace that closes nothing")),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if closed { Ok(ranges) } else { Err("the list of JSON is not closed".to_owned()) }
}

fn trimmed(body: &[u8], range: Range<usize>) -> Range<usize> {
    let within = &body[range.clone()];
    let start = range.start + (within.len() - within.trim_ascii_start().len());
    start..start + within.trim_ascii().len()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;
    use crate::decode::tests::Random;
    use crate::recoding::tests::{gzip, zlib};

    fn cut(body: &str, cut: Cut) -> Result<Vec<String>, String> {
        let records = Records::cut(body.as_bytes().to_vec(), cut)?;
        Ok((0..records.len()).map(|index| String::from_utf8(records.get(index).to_vec()).unwrap()).collect())
    }

    #[test]
    fn the_content_type_says_where_a_record_ends() {
        let of = |content_type: &str, body: &str| cut(body, Cut::of(content_type).unwrap()).unwrap();
        assert_eq!(of("application/json", " [{\"a\": \"],\\\"[\"} ,\n[1, 2],3]\n"), ["{\"a\": \"],\\\"[\"}", "[1, 2]", "3"]);
        assert_eq!(of("application/vnd.x+json", "{\"a\":\n[1]}"), ["{\"a\":\n[1]}"]);
        assert_eq!(of("application/json", "[ ]"), [""; 0]);
        assert_eq!(of("application/json", " \n"), [""; 0]);
        assert_eq!(of("application/x-ndjson", "1\r\n\n{}\n[2]"), ["1", "{}", "[2]"]);
        assert_eq!(of("application/octet-stream", "a\nb"), ["a\nb"]);
        assert_eq!(of("application/octet-stream", ""), [""; 0]);
        assert_eq!(Cut::of("image/png"), None);
        for (body, problem) in [
            ("[1,]", "at byte 3: expected an element"),
            ("[,1]", "at byte 1: expected an element"),
            ("[1", "is not closed"),
            ("[\"]", "is not closed"),
            ("[1] 2", "at byte 4: something comes behind"),
            ("[1}", "at byte 2: a brace"),
        ] {
            assert!(cut(body, Cut::Json).unwrap_err().contains(problem), "{body}");
        }
    }

    #[test]
    fn lists_are_cut_as_a_parser_reads_them() {
        let mut random = Random::new(11);
        let pieces = ["[", "]", "{", "}", ",", ":", "\"", "\\", "1", "true", " ", "\"a\"", "\"\\\"\""];
        let mut lists = 0;
        for _ in 0..200_000 {
            let inner: String = (0..random.below(9)).map(|_| pieces[random.below(pieces.len())]).collect();
            let body = format!("[{inner}]");
            if let Ok(serde_json::Value::Array(values)) = serde_json::from_str(&body) {
                lists += 1;
                let cut = cut(&body, Cut::Json).unwrap_or_else(|problem| panic!("{body}: {problem}"));
                let read: Vec<serde_json::Value> = cut.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
                assert_eq!(read, values, "{body}");
            } else {
                let _ = cut(&body, Cut::Json);
            }
        }
        assert!(lists > 1_000, "{lists}");
    }

    #[test]
    fn compressed_bodies_are_undone_within_a_bound() {
        let text = b"record ".repeat(1000);
        for (encoding, body) in
            [("gzip", gzip(&text)), ("deflate", zlib(&text)), ("zstd", zstd::encode_all(&text[..], 1).unwrap())]
        {
            assert_eq!(uncompressed(encoding, body.clone(), text.len()), Some(Ok(text.clone())));
            assert!(uncompressed(encoding, body, text.len() - 1).unwrap().unwrap_err().contains("more than 6999 bytes"));
            assert!(uncompressed(encoding, b"nonsense".to_vec(), 100).unwrap().unwrap_err().contains(encoding));
        }
        // The bound is that of the body, whatever a record may have.
        let large = zstd::encode_all(io::repeat(0).take(130 << 20), 1).unwrap();
        assert!(uncompressed("zstd", large, 100).unwrap().unwrap_err().contains("the body has more than 100 bytes"));
        assert_eq!(uncompressed("br", Vec::new(), 1), None);
        // What was done last is undone first.
        assert_eq!(uncompressed("deflate, gzip", gzip(&zlib(&text)), text.len()), Some(Ok(text.clone())));
        assert_eq!(uncompressed("gzip,identity,gzip", gzip(&gzip(&text)), text.len()), Some(Ok(text.clone())));
        assert!(uncompressed("gzip, deflate", gzip(&zlib(&text)), text.len()).unwrap().unwrap_err().contains("not deflate"));
        assert_eq!(uncompressed("br, gzip", gzip(&text), text.len()), None);
        let often = (0..5).fold(text.clone(), |body, _| gzip(&body));
        assert_eq!(uncompressed("gzip, gzip, gzip, gzip, gzip", often, text.len()), None);
    }

    #[test]
    fn lines_of_headers_are_one_list() {
        let told = |lines: &[&'static [u8]]| {
            let value = |line: &&'static [u8]| (CONTENT_ENCODING, HeaderValue::from_bytes(line).unwrap());
            told_encodings(&lines.iter().map(value).collect())
        };
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[b"GZip"]), "gzip");
        assert_eq!(told(&[b"deflate", b" gzip, identity "]), "deflate, gzip, identity");
        assert_eq!(uncompressed(&told(&[b"gzip", b"\xff"]), gzip(b"x"), 10), None);
    }

    #[test]
    fn all_that_can_be_undone_is_named() {
        let told = encodings();
        assert_eq!(told, "gzip, x-gzip, deflate, zstd, identity (up to 4 of them)");
        for name in told.split(" (").next().into_iter().flat_map(|names| names.split(", ")) {
            assert!(uncompressed(name, b"nonsense".to_vec(), 100).is_some(), "{name}");
        }
    }
}
