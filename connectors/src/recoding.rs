//! What is undone to a record before it is decoded: compression and base64, in any chain, once for all sources whose
//! records come one by one.

use std::io::Read;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Value;

use crate::decode::Decoder;
use crate::frames::Frame;

/// A small record can be compressed from a very large one; no more than this is undone.
const RECORD_BYTES_MAX: usize = 128 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub enum RecordDecoder {
    Zlib,
    Gzip,
    Base64,
}

impl RecordDecoder {
    fn undo(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            RecordDecoder::Zlib => inflated(ZlibDecoder::new(bytes), "zlib"),
            RecordDecoder::Gzip => inflated(MultiGzDecoder::new(bytes), "gzip"),
            RecordDecoder::Base64 => {
                STANDARD.decode(bytes.trim_ascii()).map_err(|error| format!("the record is not base64: {error}"))
            }
        }
    }
}

fn inflated(compressed: impl Read, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = compressed.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("the record is not {name}: {error}"))?;
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(format!("the record has more than {RECORD_BYTES_MAX} bytes when its {name} is undone"));
    }
    Ok(bytes)
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
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;
    use crate::decode::JsonDecoder;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_chain_is_undone_from_left_to_right() {
        use RecordDecoder::*;
        let check = |chain: &[RecordDecoder], bytes: &[u8], expected: Result<&str, &str>| {
            let record = recoded(chain, Arc::new(JsonDecoder)).record(Frame { bytes, columns: None });
            match (record, expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value.shown(), expected),
                (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
                (record, _) => panic!("{chain:?}: {record:?}"),
            }
        };
        check(&[], b"1", Ok("1"));
        check(&[Zlib], &zlib(b"[1]"), Ok("[ 1 ]"));
        check(&[Gzip], &[gzip(b"[1"), gzip(b",2]")].concat(), Ok("[ 1, 2 ]"));
        let armoured = STANDARD.encode(gzip(b"[1]")) + "\n";
        check(&[Base64, Gzip], armoured.as_bytes(), Ok("[ 1 ]"));
        check(&[Gzip, Base64], armoured.as_bytes(), Err("not gzip"));
        check(&[Zlib], b"[1]", Err("not zlib"));
        check(&[Zlib], &zlib(b"[1]")[..5], Err("zlib"));
        check(&[Base64], b"[1]", Err("not base64"));
        check(&[Gzip], &gzip(b"["), Err("not JSON"));
        check(&[Gzip], &gzip(&vec![b'1'; RECORD_BYTES_MAX + 1]), Err("more than"));
    }
}
