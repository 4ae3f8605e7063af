//! Containers that fastavro wrote (`container_vectors/make.py`), cut anywhere, damaged, and gone on with.

use std::collections::VecDeque;

use weir_model::Value;

use super::*;
use crate::decode::decode;
use crate::decode::tests::Random;

const CONTAINERS: [(&str, &[u8]); 4] = [
    ("null", include_bytes!("container_vectors/null.avro")),
    ("deflate", include_bytes!("container_vectors/deflate.avro")),
    ("snappy", include_bytes!("container_vectors/snappy.avro")),
    ("zstandard", include_bytes!("container_vectors/zstandard.avro")),
];

/// Gives bytes in pieces, with pauses.
struct Pieces(VecDeque<Vec<u8>>);

impl ByteStream for Pieces {
    fn read(&mut self, buffer: &mut [u8], _wait: Duration) -> Result<Chunk, ConnectorError> {
        match self.0.pop_front() {
            None => Ok(Chunk::End),
            Some(piece) if piece.is_empty() => Ok(Chunk::Nothing),
            Some(piece) => {
                buffer[..piece.len()].copy_from_slice(&piece);
                Ok(Chunk::Bytes(piece.len()))
            }
        }
    }
}

fn open(bytes: &[u8], piece: usize, logical: bool, from: Option<&Position>) -> ContainerReader {
    let pieces = bytes.chunks(piece).flat_map(|piece| [piece.to_vec(), Vec::new()]).collect();
    ContainerReader::new("x.avro", Box::new(Pieces(pieces)), logical, 1_000_000, from).unwrap()
}

struct Outcome {
    values: Vec<String>,
    failures: Vec<String>,
    /// Behind each batch, with the number of values and failures up to it.
    positions: Vec<(usize, Position)>,
    error: Option<String>,
}

fn read(mut reader: ContainerReader, records_max: usize) -> Outcome {
    let mut read = Outcome { values: Vec::new(), failures: Vec::new(), positions: Vec::new(), error: None };
    let limits = Limits { records_max, wait_max: Duration::ZERO, ..Limits::default() };
    loop {
        let mut batch = Frames::default();
        let progress = reader.next(&limits, &mut batch);
        let (mut records, mut failures) = (Vec::new(), Vec::new());
        decode(&crate::decode::RawDecoder, &batch, &mut records, &mut failures);
        read.values.extend(records.iter().map(Value::shown));
        read.failures.extend(failures.into_iter().map(|failure| failure.reason));
        read.positions.push((read.values.len() + read.failures.len(), batch.position.clone()));
        match progress {
            Ok(Progress::More) => {}
            Ok(Progress::Finished) => return read,
            Err(error) => {
                read.error = Some(error.to_string());
                return read;
            }
        }
    }
}

#[test]
fn every_codec_gives_the_same_records_however_the_bytes_come() {
    let expected = read(open(CONTAINERS[0].1, 1 << 16, true, None), 1000).values;
    assert_eq!(expected.len(), 200);
    assert_eq!(expected[0], "{ id: 0, name: null, born: date(\"1970-01-01\"), tags: [  ], scores: {  }, friend: null }");
    let friend =
        "friend: { id: 1, name: \"name 1\", born: date(\"1970-01-02\"), tags: [ \"a\" ], scores: { x: 0.5 }, friend: null }";
    assert!(expected[11].contains(friend), "{}", expected[11]);
    for (codec, bytes) in CONTAINERS {
        for (piece, records_max) in [(1 << 16, 1000), (1, 7), (100, 1), (1499, 64)] {
            let outcome = read(open(bytes, piece, true, None), records_max);
            assert_eq!((&outcome.values, outcome.error), (&expected, None), "{codec}");
        }
    }
    let plain = read(open(CONTAINERS[1].1, 1 << 16, false, None), 1000).values;
    assert!(plain[11].contains("born: 11,"), "{}", plain[11]);
}

#[test]
fn a_stream_goes_on_where_it_stood() {
    for (codec, bytes) in CONTAINERS {
        let whole = read(open(bytes, 700, true, None), 7);
        for (count, position) in &whole.positions {
            let rest = read(open(bytes, 1 << 16, true, Some(position)), 1000);
            assert_eq!((&rest.values[..], rest.error), (&whole.values[*count..], None), "{codec} behind {count}");
        }
    }
    let foreign = Position(vec![1, 2, 3]);
    let refused = ContainerReader::new("x", Box::new(Pieces(VecDeque::new())), true, 10, Some(&foreign));
    assert!(matches!(refused.err(), Some(ConnectorError::Position { .. })));
}

/// The rest of what was read was moved for every block, which of many small ones took time with the square.
#[test]
fn blocks_are_passed_without_moving_what_is_behind_them() {
    let whole = CONTAINERS[3].1;
    let limits = Limits { records_max: 1, wait_max: Duration::ZERO, ..Limits::default() };
    let mut at_once = open(whole, 1 << 14, true, None);
    let mut starts = std::collections::BTreeSet::new();
    while at_once.next(&limits, &mut Frames::default()).unwrap() != Progress::Finished {
        assert!(at_once.buffer.is_empty() || at_once.buffer.len() == whole.len());
        starts.insert(at_once.start);
    }
    assert!(starts.len() > 5 && starts.last() == Some(&whole.len()), "{starts:?}");
    // What was passed goes all the same.
    let mut in_pieces = open(whole, 50, true, None);
    while in_pieces.next(&limits, &mut Frames::default()).unwrap() != Progress::Finished {
        assert!(in_pieces.buffer.len() < 600, "{}", in_pieces.buffer.len());
    }
}

#[test]
fn what_is_no_container_says_why() {
    let check = |bytes: &[u8], expected: &str| {
        let error = read(open(bytes, 1 << 16, true, None), 1000).error.unwrap();
        assert!(error.contains(expected), "{error} is not {expected}");
    };
    let whole = CONTAINERS[0].1;
    check(b"", "it breaks off");
    check(b"{\"a\": 1}", "it does not begin as one");
    check(&whole[..100], "it breaks off");
    check(&whole[..whole.len() - 1], "it breaks off");
    let replaced = |from: &[u8], to: &[u8]| {
        let at = whole.windows(from.len()).position(|part| part == from).unwrap();
        [&whole[..at], to, &whole[at + from.len()..]].concat()
    };
    check(&replaced(b"\x08null", b"\x08nill"), "its codec is \"nill\"");
    check(&replaced(b"avro.schema", b"avro.scheme"), "its header has no schema");
    check(&replaced(b"\"long\"", b"\"lung\""), "not one of Avro");
    let mut other_mark = whole.to_vec();
    *other_mark.last_mut().unwrap() ^= 1;
    check(&other_mark, "the mark behind a block is not that of the header");
    let outcome = read(open(&other_mark, 1 << 16, true, None), 1000);
    assert!(outcome.values.len() > 100, "what was before it is kept");
    let mut reader = open(whole, 1 << 16, true, None);
    reader.record_bytes_max = 20;
    assert!(read(reader, 1000).error.unwrap().contains("raise maximumLineSize"));
}

/// It was told as one that is too long, with all that was left of its block, and nothing after it was read.
#[test]
fn a_broken_record_fails_alone_in_a_block_longer_than_a_record_may_be() {
    let mut bytes = CONTAINERS[0].1.to_vec();
    let sync = bytes.windows(SYNC_BYTES).position(|part| part == b"0123456789abcdef").unwrap();
    let mut wire = Wire { bytes: &bytes, at: sync + SYNC_BYTES };
    let (Ok(Taken::Whole(count)), Ok(Taken::Whole(size))) = (wire.integer(), wire.integer()) else { panic!("a whole block") };
    // The name of its first record is neither of null and a text.
    let branch = wire.at + 1;
    bytes[branch] = 0x7e;
    let mut reader = open(&bytes, 1 << 16, true, None);
    reader.record_bytes_max = 1000;
    assert!(size > 1000, "{size}");
    let outcome = read(reader, 1000);
    assert_eq!((outcome.failures.len(), outcome.error), (1, None), "{:?}", outcome.failures);
    assert_eq!(outcome.values.len(), 200 - count as usize);
}

#[test]
fn any_damage_is_records_or_a_failure() {
    let mut random = Random::new(5);
    for round in 0..3_000 {
        let mut bytes = CONTAINERS[round % CONTAINERS.len()].1.to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff, random.below(256) as u8][random.below(7)];
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        let outcome = read(open(&bytes, 1 << 16, true, None), 1000);
        assert!(outcome.values.len() < 100_000, "a small file gives few records");
    }
}
