//! Whether RocksDB's write-ahead log is sound. RocksDB checks it itself, but not where it opens a store of which tables are
//! damaged: it then passes over what is damaged in the log as well.
//!
//! A file is blocks of 32 KiB, a block records that do not cross into the next: a checksum 4, a length 2, a type 1, in reused
//! files also the number of the file 4, and bytes. A block too short for another head is filled up with zeros. At the end of a
//! file a record may be incomplete: a crash cut it off.

use std::path::Path;

use super::StoreError;

const BLOCK: usize = 32 << 10;
const HEAD: usize = 7;

/// Fails where a record of one of the files is not what was written.
pub fn verify(directory: &Path) -> Result<(), StoreError> {
    let cannot = |error| StoreError::failed(format!("read the write-ahead log in {}", directory.display()), error);
    for item in std::fs::read_dir(directory).map_err(cannot)? {
        let path = item.map_err(cannot)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let bytes = std::fs::read(&path).map_err(cannot)?;
            if let Some(at) = first_damage(&bytes) {
                let what = format!("a record at byte {at} is not what was written");
                return Err(StoreError::damaged(what, format!("the write-ahead log ({})", path.display())));
            }
        }
    }
    Ok(())
}

fn first_damage(file: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < file.len() {
        let left = BLOCK - at % BLOCK;
        let Some(head) = file.get(at..at + HEAD).filter(|_| left >= HEAD) else {
            at += left;
            continue;
        };
        let length = usize::from(u16::from_le_bytes([head[4], head[5]]));
        if head.iter().all(|byte| *byte == 0) {
            // Room at the end that was taken and not used.
            return file[at..].iter().any(|byte| *byte != 0).then_some(at);
        }
        let is_of_reused = (5..=8).contains(&head[6]) || head[6] == 11;
        let end = at + HEAD + length + if is_of_reused { 4 } else { 0 };
        if end > at + left && end <= file.len() {
            return Some(at);
        }
        let Some(checked) = file.get(at + 6..end) else {
            // Cut off.
            return None;
        };
        if u32::from_le_bytes([head[0], head[1], head[2], head[3]]) != masked(crc32c(checked)) {
            return Some(at);
        }
        at = end;
    }
    None
}

/// As RocksDB stores a checksum.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A byte at a time: it is asked once, of a store that is damaged.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(!0, |sum: u32, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
