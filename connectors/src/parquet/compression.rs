//! Compression of pages, undone to as many bytes as the header of the page says and to no more: neither is room made for what
//! cannot come of it, nor is more undone than was said.

use std::io::{Cursor, Read};

use flate2::read::MultiGzDecoder;
use lz4_flex::block::decompress_into;
use lz4_flex::frame::FrameDecoder;
use parquet::basic::CompressionCodec;

pub enum Compression {
    Snappy,
    Gzip,
    /// As Hadoop frames it, and as those that did not know that.
    Lz4,
    Lz4Block,
    Zstd(zstd::bulk::Decompressor<'static>),
}

impl Compression {
    /// None where there is none.
    pub fn of(codec: CompressionCodec) -> Result<Option<Compression>, String> {
        Ok(Some(match codec {
            CompressionCodec::UNCOMPRESSED => return Ok(None),
            CompressionCodec::SNAPPY => Compression::Snappy,
            CompressionCodec::GZIP => Compression::Gzip,
            CompressionCodec::LZ4 => Compression::Lz4,
            CompressionCodec::LZ4_RAW => Compression::Lz4Block,
            CompressionCodec::ZSTD => {
                let undoing = zstd::bulk::Decompressor::new();
                Compression::Zstd(undoing.map_err(|error| format!("zstd cannot be undone: {error}"))?)
            }
            other => return Err(format!("its compression is {other}, which is not read")),
        }))
    }

    pub fn name(&self) -> &'static str {
        match self {
            Compression::Snappy => "snappy",
            Compression::Gzip => "gzip",
            Compression::Lz4 | Compression::Lz4Block => "lz4",
            Compression::Zstd(_) => "zstd",
        }
    }

    /// What a byte stands for at most, as the format is.
    pub fn bytes_of_one_max(&self) -> usize {
        match self {
            // 64 bytes again, said in three.
            Compression::Snappy => 22,
            // 258 bytes again, said in two bits.
            Compression::Gzip => 1032,
            // A byte that makes a length larger by 255.
            Compression::Lz4 | Compression::Lz4Block => 255,
            // A block of 128 KiB that is one byte, said in four.
            Compression::Zstd(_) => 32_768,
        }
    }

    /// The levels, which are not compressed, and behind them the `count` bytes that are undone.
    pub fn undone(&mut self, levels: &[u8], packed: &[u8], count: usize) -> Result<Vec<u8>, String> {
        let name = self.name();
        let undone = self.undone_to(levels, packed, count).map_err(|error| format!("its {name} is damaged: {error}"))?;
        match undone.len().checked_sub(levels.len()) {
            Some(found) if found == count => Ok(undone),
            found => Err(format!("it says that it has {count} bytes when its {name} is undone, and has {}", found.unwrap_or(0))),
        }
    }

    fn undone_to(&mut self, levels: &[u8], packed: &[u8], count: usize) -> Result<Vec<u8>, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        match self {
            Compression::Snappy => match snap::raw::decompress_len(packed).map_err(|error| told(&error))? {
                found if found == count => {
                    filled(levels, count, |room| snap::raw::Decoder::new().decompress(packed, room).map_err(|error| told(&error)))
                }
                found => Err(format!("it says that it has {found} bytes, and its page says {count}")),
            },
            Compression::Gzip => read(levels, MultiGzDecoder::new(packed), count),
            Compression::Lz4Block => filled(levels, count, |room| decompress_into(packed, room).map_err(|error| told(&error))),
            Compression::Lz4 => filled(levels, count, |room| framed(packed, room).ok_or_else(String::new))
                .or_else(|_| read(levels, FrameDecoder::new(packed), count))
                .or_else(|_| filled(levels, count, |room| decompress_into(packed, room).map_err(|error| told(&error)))),
            Compression::Zstd(undoing) => {
                let mut room = Cursor::new(Vec::with_capacity(levels.len() + count));
                room.get_mut().extend_from_slice(levels);
                room.set_position(levels.len() as u64);
                undoing.decompress_to_buffer(packed, &mut room).map_err(|error| told(&error))?;
                Ok(room.into_inner())
            }
        }
    }
}

/// What is written into room of this size.
fn filled(levels: &[u8], count: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, String>) -> Result<Vec<u8>, String> {
    let mut room = vec![0; levels.len() + count];
    room[..levels.len()].copy_from_slice(levels);
    let written = fill(&mut room[levels.len()..])?;
    room.truncate(levels.len() + written);
    Ok(room)
}

/// What can be read, but for what is more.
fn read(levels: &[u8], from: impl Read, count: usize) -> Result<Vec<u8>, String> {
    let mut room = Vec::with_capacity(levels.len() + count);
    room.extend_from_slice(levels);
    from.take(count as u64 + 1).read_to_end(&mut room).map_err(|error| error.to_string())?;
    Ok(room)
}

/// Frames of Hadoop: how long a block is when it is undone, how long it is, and the block.
fn framed(mut packed: &[u8], room: &mut [u8]) -> Option<usize> {
    let mut written = 0;
    while !packed.is_empty() {
        let (lengths, rest) = packed.split_first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *lengths;
        let (undone, length) = (u32::from_be_bytes([a, b, c, d]) as usize, u32::from_be_bytes([e, f, g, h]) as usize);
        let (block, behind) = rest.split_at_checked(length)?;
        let room = room.get_mut(written..)?.get_mut(..undone)?;
        written += decompress_into(block, room).ok().filter(|written| *written == undone)?;
        packed = behind;
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4_frame(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The bytes in two blocks.
    fn hadoop(bytes: &[u8]) -> Vec<u8> {
        let halves = bytes.split_at(bytes.len() / 3);
        let frame = |half: &[u8]| {
            let block = lz4_flex::block::compress(half);
            [&(half.len() as u32).to_be_bytes()[..], &(block.len() as u32).to_be_bytes(), &block].concat()
        };
        [frame(halves.0), frame(halves.1)].concat()
    }

    fn all(bytes: &[u8]) -> Vec<(CompressionCodec, Vec<u8>)> {
        vec![
            (CompressionCodec::SNAPPY, snap::raw::Encoder::new().compress_vec(bytes).unwrap()),
            (CompressionCodec::GZIP, gzip(bytes)),
            (CompressionCodec::LZ4, hadoop(bytes)),
            (CompressionCodec::LZ4, lz4_frame(bytes)),
            (CompressionCodec::LZ4, lz4_flex::block::compress(bytes)),
            (CompressionCodec::LZ4_RAW, lz4_flex::block::compress(bytes)),
            (CompressionCodec::ZSTD, zstd::encode_all(bytes, 3).unwrap()),
        ]
    }

    #[test]
    fn as_many_bytes_are_undone_as_were_said() {
        let bytes: Vec<u8> = (0..10_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for (codec, packed) in all(&bytes) {
            let mut compression = Compression::of(codec).unwrap().unwrap();
            // Again, since some keep something from one page to the next.
            for _ in 0..2 {
                assert_eq!(compression.undone(b"", &packed, bytes.len()).unwrap(), bytes, "{codec}");
                assert_eq!(compression.undone(b"levels", &packed, bytes.len()).unwrap(), [b"levels", &bytes[..]].concat());
                for count in [0, 1, bytes.len() - 1, bytes.len() + 1, 2 * bytes.len()] {
                    assert!(compression.undone(b"levels", &packed, count).is_err(), "{codec}, {count} bytes");
                }
            }
            let half = &packed[..packed.len() / 2];
            assert!(compression.undone(b"", half, bytes.len()).is_err(), "{codec}, half of it");
        }
        assert!(Compression::of(CompressionCodec::UNCOMPRESSED).unwrap().is_none());
        assert!(Compression::of(CompressionCodec::BROTLI).is_err());
    }

    #[test]
    fn nothing_stands_for_more_than_its_bound() {
        let bytes = vec![0; 64 << 20];
        for (codec, packed) in all(&bytes) {
            let mut compression = Compression::of(codec).unwrap().unwrap();
            assert!(packed.len() * compression.bytes_of_one_max() >= bytes.len(), "{codec}: {} bytes", packed.len());
            // And what is more than was said is not undone.
            assert!(compression.undone(b"", &packed, 1_000).is_err(), "{codec}");
        }
    }
}
