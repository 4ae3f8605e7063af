//! The beginning of a file, to know it again by: its place and its length say nothing of one that has been replaced.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};

/// Of a longer file no more bytes are looked at.
const BYTES_MAX: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// None of a file of which nothing is known: that is every file.
    length: u16,
    hash: u64,
}

impl Head {
    /// What a position holds of it.
    pub const BYTES: usize = 10;

    pub fn of(file: &File) -> io::Result<Head> {
        Head::up_to(file, BYTES_MAX)
    }

    fn up_to(file: &File, length: u64) -> io::Result<Head> {
        let mut bytes = vec![0; length.min(BYTES_MAX) as usize];
        let mut count = 0;
        while count < bytes.len() {
            match file.read_at(&mut bytes[count..], count as u64) {
                Ok(0) => break,
                Ok(n) => count += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // FNV-1a: it is stored, so that it has to be the same in all versions.
        let hash = bytes[..count]
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Ok(Head { length: count as u16, hash })
    }

    /// Whether the file begins so.
    pub fn is_of(&self, file: &File) -> bool {
        self.length == 0 || Head::up_to(file, self.length.into()).is_ok_and(|found| found == *self)
    }

    /// A file that was short, and now has `length` bytes, is known by more of them.
    pub fn grow(&mut self, file: &File, length: u64) {
        if u64::from(self.length) < length.min(BYTES_MAX)
            && let Ok(found) = Head::up_to(file, length)
        {
            *self = found;
        }
    }

    pub fn to_bytes(self) -> [u8; Head::BYTES] {
        let mut bytes = [0; Head::BYTES];
        bytes[..2].copy_from_slice(&self.length.to_le_bytes());
        bytes[2..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Head::BYTES]) -> Head {
        let [a, b, hash @ ..] = *bytes;
        Head { length: u16::from_le_bytes([a, b]), hash: u64::from_le_bytes(hash) }
    }
}

/// Which file it is among those of this machine, as long as anybody has it open; nothing of what is no regular file.
pub fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}
