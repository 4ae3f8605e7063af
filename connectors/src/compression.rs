//! How results that are written to be kept are compressed.

use std::io::{self, Read, Write};

use flate2::Compression as Level;
use flate2::write::GzEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How files or objects of results are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ResultCompression")]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// Gzip; `.gz` is added to the name.
    Gzip,
    /// Zstandard; `.zst` is added to the name.
    Zstd,
}

impl Compression {
    pub const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zstd];

    /// What names of such files end with.
    pub fn ending(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// Writes what there is to read; gives back where it was written.
    pub fn pour<W: Write>(self, text: &mut impl Read, mut into: W) -> io::Result<W> {
        match self {
            Compression::None => {
                io::copy(text, &mut into)?;
                Ok(into)
            }
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(into, Level::default());
                io::copy(text, &mut encoder)?;
                encoder.finish()
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::Encoder::new(into, 0)?;
                io::copy(text, &mut encoder)?;
                encoder.finish()
            }
        }
    }
}
