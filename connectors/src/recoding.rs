//! What is undone to a record before it is decoded: compression and base64, in any chain, once for all sources whose
//! records come one by one. Whole streams are undone in `recoded_stream`.

use std::io::{self, Read};
use std::sync::Arc;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Value;

use crate::decode::Decoder;
use crate::frames::Frame;

/// A small record can be compressed from a very large one; no more than this is undone.
const RECORD_BYTES_MAX: usize = 128 << 20;

/// As Java reads it: what fills the last group may be missing, and its bits may be any.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What zstd may look back, as a power of two: four times what its strongest levels do.
pub(crate) const ZSTD_WINDOW_LOG_MAX: u32 = 25;

/// What the frames of snappy begin with.
pub(crate) const SNAPPY_FRAMES: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// A decoding or decompression.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum RecordDecoder {
    /// Zlib.
    Zlib,
    /// Gzip.
    Gzip,
    /// Base64, with or without padding.
    Base64,
    /// Zstandard.
    Zstd,
    /// LZ4 frames.
    Lz4,
    /// Snappy: frames, or for single messages also one block.
    Snappy,
}

impl RecordDecoder {
    pub(crate) fn undo(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            RecordDecoder::Zlib => inflated(ZlibDecoder::new(bytes), "zlib"),
            RecordDecoder::Gzip => inflated(MultiGzDecoder::new(bytes), "gzip"),
            RecordDecoder::Base64 => {
                BASE64.decode(bytes.trim_ascii()).map_err(|error| format!("the record is not base64: {error}"))
            }
            RecordDecoder::Zstd => {
                inflated(zstd_reader(bytes).map_err(|error| format!("the record is not zstd: {error}"))?, "zstd")
            }
            RecordDecoder::Lz4 => inflated(lz4_flex::frame::FrameDecoder::new(bytes), "lz4"),
            RecordDecoder::Snappy if bytes.starts_with(SNAPPY_FRAMES) => inflated(snap::read::FrameDecoder::new(bytes), "snappy"),
            RecordDecoder::Snappy => {
                let wrong = |error| format!("the record is not snappy: {error}");
                match snap::raw::decompress_len(bytes).map_err(wrong)? {
                    length if length > RECORD_BYTES_MAX => Err(too_long("snappy")),
                    _ => snap::raw::Decoder::new().decompress_vec(bytes).map_err(wrong),
                }
            }
        }
    }
}

/// What is undone of zstd, as it is read.
pub(crate) fn zstd_reader(bytes: &[u8]) -> io::Result<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

pub(crate) fn inflated(compressed: impl Read, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = compressed.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("the record is not {name}: {error}"))?;
    if bytes.len() > RECORD_BYTES_MAX { Err(too_long(name)) } else { Ok(bytes) }
}

fn too_long(name: &str) -> String {
    format!("the record has more than {RECORD_BYTES_MAX} bytes when its {name} is undone")
}

/// A decoder behind a chain of these, which are undone from left to right.
pub fn recoded(chain: &[RecordDecoder], decoder: Arc<dyn Decoder>) -> Arc<dyn Decoder> {
    if chain.is_empty() { decoder } else { Arc::new(Recoded { chain: chain.to_vec(), decoder }) }
}

struct Recoded {
    chain: Vec<RecordDecoder>,
    decoder: Arc<dyn Decoder>,
}

impl Decoder for Recoded {
    fn record(&self, frame: Frame<'_>) -> Result<Value, String> {
        let mut bytes = std::borrow::Cow::Borrowed(frame.bytes);
        for step in &self.chain {
            bytes = step.undo(&bytes)?.into();
        }
        self.decoder.record(Frame { bytes: &bytes, ..frame })
    }

    fn expands(&self) -> bool {
        self.chain.iter().any(|step| *step != RecordDecoder::Base64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;
    use crate::decode::JsonDecoder;
    use crate::frames::Frames;

    pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_chain_is_undone_from_left_to_right() {
        use RecordDecoder::*;
        let check = |chain: &[RecordDecoder], bytes: &[u8], expected: Result<&str, &str>| {
            let record = recoded(chain, Arc::new(JsonDecoder::default())).record(Frame { bytes, columns: None });
            match (record, expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value.shown(), expected),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
                (record, _) => panic!("{chain:?}: {record:?}"),
            }
        };
        check(&[], b"1", Ok("1"));
        check(&[Zlib], &zlib(b"[1]"), Ok("[ 1 ]"));
        check(&[Gzip], &[gzip(b"[1"), gzip(b",2]")].concat(), Ok("[ 1, 2 ]"));
        let armoured = BASE64.encode(gzip(b"[1]")) + "\n";
        check(&[Base64, Gzip], armoured.as_bytes(), Ok("[ 1 ]"));
        check(&[Gzip, Base64], armoured.as_bytes(), Err("not gzip"));
        check(&[Zlib], b"[1]", Err("not zlib"));
        check(&[Zlib], &zlib(b"[1]")[..5], Err("zlib"));
        for text in ["MQ==", "MQ", "MR=="] {
            check(&[Base64], text.as_bytes(), Ok("1"));
        }
        check(&[Base64], b"[1]", Err("not base64"));
        check(&[Gzip], &gzip(b"["), Err("not JSON"));
        check(&[Gzip], &gzip(&vec![b'1'; RECORD_BYTES_MAX + 1]), Err("more than"));
        let long = vec![b' '; RECORD_BYTES_MAX + 1];
        let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 3).unwrap();
        check(&[Zstd], &[zstd(b"[1"), zstd(b",2]")].concat(), Ok("[ 1, 2 ]"));
        check(&[Zstd], &zstd(&long), Err("more than"));
        check(&[Zstd], &zstd(b"[1]")[..8], Err("zstd"));
        let lz4 = |bytes: &[u8]| {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        check(&[Base64, Lz4], BASE64.encode(lz4(b"[1]")).as_bytes(), Ok("[ 1 ]"));
        check(&[Lz4], &lz4(&long), Err("more than"));
        check(&[Lz4], b"nothing of the kind", Err("not lz4"));
        let block = snap::raw::Encoder::new().compress_vec(b"[1]").unwrap();
        check(&[Snappy], &block, Ok("[ 1 ]"));
        check(&[Snappy], &[0xff, 0xff, 0xff, 0xff, 0x0f], Err("more than"));
        let mut frames = snap::write::FrameEncoder::new(Vec::new());
        frames.write_all(b"[2]").unwrap();
        check(&[Snappy], &frames.into_inner().unwrap(), Ok("[ 2 ]"));
    }

    #[test]
    fn no_more_values_are_undone_at_once_than_may_be_held() {
        use crate::decode::{RawDecoder, VALUES_BYTES_MAX, decode, decode_some};
        let half = zstd::stream::encode_all(&vec![0_u8; VALUES_BYTES_MAX / 2][..], 1).unwrap();
        let (nothing, nonsense) = (zstd::stream::encode_all(&b""[..], 1).unwrap(), b"nonsense".to_vec());
        let mut frames = Frames::default();
        for bytes in [&half, &nonsense, &nothing, &half, &nonsense, &half] {
            frames.push(bytes);
        }
        frames.first_number = 7;
        let undoing = recoded(&[RecordDecoder::Zstd], Arc::new(RawDecoder));
        let some = |first: usize| {
            let (mut records, mut failures) = (Vec::new(), Vec::new());
            let (next, bytes) = decode_some(&*undoing, &frames, first, &mut records, &mut failures);
            let failed: Vec<u64> = failures.iter().map(|failure| failure.number).collect();
            (next, bytes / (VALUES_BYTES_MAX / 2), records.len(), failed)
        };
        assert_eq!(some(0), (4, 2, 3, vec![8]));
        assert_eq!(some(4), (6, 1, 1, vec![11]));
        assert_eq!(some(6), (6, 0, 0, vec![]));
        let (mut records, mut failures) = (Vec::new(), Vec::new());
        decode(&*undoing, &frames, &mut records, &mut failures);
        assert_eq!((records.len(), failures.len()), (4, 2));
        // What cannot become larger is not measured.
        let plain = recoded(&[RecordDecoder::Base64], Arc::new(RawDecoder));
        assert!(!plain.expands());
        assert_eq!(decode_some(&RawDecoder, &frames, 0, &mut Vec::new(), &mut Vec::new()), (6, 0));
    }

    #[test]
    fn any_bytes_are_undone_or_refused() {
        use RecordDecoder::*;
        let mut random = crate::decode::tests::Random::new(11);
        let begins: [&[u8]; 6] =
            [b"", &[0x78, 0x9c], &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd], &[4, 0x22, 0x4d, 0x18], SNAPPY_FRAMES];
        for _ in 0..2_000 {
            let bytes = [begins[random.below(begins.len())], &random.bytes(&[0, 1, 0x40, 0x60, 0xff])].concat();
            for step in [Zlib, Gzip, Base64, Zstd, Lz4, Snappy] {
                let _ = step.undo(&bytes);
            }
        }
    }
}
