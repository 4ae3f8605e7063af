//! How far a store was written, in a small file beside it: a log that has lost its end is told from one that ends there, and so
//! is the list of its files.
//!
//!     boot 16         of the system while it was written
//!     written 8       the number of the last write; holds until the system starts anew, when what was not synced may be lost
//!     synced 8        the last one that survives the loss of power as well
//!     list 8, 8, 4    the number of the list, how long it was, and a checksum over so much of it
//!     closed 1        nothing was under way: the list survives the loss of power as well
//!     checksum 4      over all behind the boot
//!
//! It is written in place after each write and never synced: where it is older than the store, it asks for less than there is.
//! Where it is missing or half written, it asks for nothing.

use std::cmp::Ordering;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::bytes::{Reader, Wrong};
use super::records::{seal, unseal};

/// Beside what the store keeps.
pub const FILE: &str = "weir-reached";

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Reached {
    pub written: u64,
    pub synced: u64,
    pub list: List,
    pub closed: bool,
}

/// The list of RocksDB's files. Only ever longer, until another begins with a higher number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct List {
    pub number: u64,
    pub bytes: u64,
    pub sum: u32,
}

impl List {
    pub fn of(number: u64, bytes: &[u8]) -> List {
        List { number, bytes: bytes.len() as u64, sum: crc32fast::hash(bytes) }
    }

    /// Whether this one, or a later one, is in a file.
    pub fn is_in(&self, number: u64, bytes: &[u8]) -> bool {
        match number.cmp(&self.number) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => bytes.get(..self.bytes as usize).is_some_and(|bytes| crc32fast::hash(bytes) == self.sum),
        }
    }
}

impl Reached {
    /// What a store has to have.
    pub fn read(path: &Path) -> Result<Reached> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reached::default()),
            bytes => bytes?,
        };
        let Ok((boot, reached)) = take(&bytes) else {
            tracing::warn!(file = %path.display(), "how far the store was written is not known: this file is damaged");
            return Ok(Reached::default());
        };
        if this_boot() == Some(boot) {
            return Ok(reached);
        }
        let list = if reached.closed { reached.list } else { List::default() };
        Ok(Reached { written: reached.synced, list, ..reached })
    }
}

fn take(bytes: &[u8]) -> std::result::Result<([u8; 16], Reached), Wrong> {
    let mut reader = Reader(bytes);
    let boot = reader.array()?;
    let mut reader = Reader(unseal(&[], reader.0)?);
    let [written, synced] = [reader.u64()?, reader.u64()?];
    let list = List { number: reader.u64()?, bytes: reader.u64()?, sum: reader.u32()? };
    let reached = Reached { written, synced, list, closed: reader.array()? == [1] };
    reader.end()?;
    Ok((boot, reached))
}

/// An identification that the system makes whenever it starts.
fn this_boot() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok().map(u128::to_be_bytes)
}

/// Where it is noted.
pub struct Note {
    file: File,
    boot: [u8; 16],
    reached: Reached,
}

impl Note {
    pub fn open(path: &Path, reached: Reached) -> Result<Note> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let note = Note { file, boot: this_boot().unwrap_or_default(), reached };
        note.write()?;
        Ok(note)
    }

    /// What is less than what it was stays as it was; so does a list that is none.
    pub fn raise(&mut self, to: Reached) -> Result<()> {
        let reached = Reached {
            written: self.reached.written.max(to.written),
            synced: self.reached.synced.max(to.synced),
            list: if to.list == List::default() { self.reached.list } else { to.list },
            closed: to.closed,
        };
        if reached == self.reached {
            return Ok(());
        }
        self.reached = reached;
        self.write()
    }

    fn write(&self) -> Result<()> {
        let Reached { written, synced, list, closed } = self.reached;
        let mut bytes = [written, synced, list.number, list.bytes].map(u64::to_le_bytes).concat();
        bytes.extend(list.sum.to_le_bytes());
        bytes.push(closed.into());
        self.file.write_all_at(&[&self.boot[..], &seal(&[], bytes)].concat(), 0)
    }
}
