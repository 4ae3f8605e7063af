//! Backup: everything a store holds as one stream of bytes, and a store made of it again, of whatever kind.
//!
//!     title 16 | blocks
//!     block: kind 1 | length 4 | payload | crc 4, over all of that
//!
//!     'b' what it goes on from (`Since`)        first, in one that holds only what came after another
//!     'm' metadata: key, value                  first, what belongs to no graph
//!     'g' graph: number 4, name, options        then each graph with
//!         'r' run: first 8, upper 8                 its runs, oldest first, each followed by
//!             'c' part 1, chunk                         its chunks
//!         'p' progress                              how far the runs go
//!         'e' entry                                 what the log holds beyond
//!         'm' metadata                              what belongs to it, as it was where its log ends here; where its history
//!                                                   begins by then, and what is noted of nodes that were erased
//!     's' string of a symbol                    in the order of their numbers
//!     'z' how many blocks there were before 8   so that a stream that was cut short is told from a whole one
//!
//! One that goes on from another has the runs that end later than that, whole, and the later entries of the log: of runs that
//! were merged meanwhile, a part may be in both. `restore` puts them together. A graph of which nodes were erased meanwhile, and
//! pages written again without them, is in it whole.
//!
//! Symbols come after the entries that use them: those are in the store before any entry is, so none is missing.
//!
//! Backups of before have all metadata first. Of a key that comes twice the later one counts.

use std::io::Write;

use weir_model::Tick;

use super::bytes::put_block;
use super::since::{Since, checksum_of};
use super::{GraphInfo, OF_GRAPHS, Part, Store, StoreError, encode, records};
use crate::history::erased::{prefix, rewritten_key, times_rewritten};
use crate::history::horizon_key;

pub(super) const TITLE: &[u8; 16] = b"weir backup 5\n\0\n";

/// The title of a backup that goes on from another.
pub(super) const TITLE_MORE: &[u8; 16] = b"weir backup +5\n\0";

/// Titles of older backups, which are still read: without what sources brought, with entries as format 5 of directories has them,
/// and with chunks as formats 4 and 3 do.
pub(super) const TITLES_BEFORE: [[&[u8; 16]; 2]; 4] = [
    [b"weir backup 4\n\0\n", b"weir backup +4\n\0"],
    [b"weir backup 3\n\0\n", b"weir backup +3\n\0"],
    [b"weir backup 2\n\0\n", b"weir backup +2\n\0"],
    [b"weir backup 1\n\0\n", b"weir backup +1\n\0"],
];

/// What was written or read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Copied {
    pub graphs: u64,
    pub chunks: u64,
    pub entries: u64,
    pub bytes: u64,
}

/// A backup in the making.
pub struct Backup<'a> {
    store: &'a dyn Store,
    out: &'a mut dyn Write,
    since: Option<&'a Since>,
    blocks: u64,
    copied: Copied,
}

impl<'a> Backup<'a> {
    /// Writes what belongs to no graph. There is one of each of the names that are to be left out, so that nothing is missed by a
    /// mistake in writing. With `since`, what that backup holds is left out.
    pub fn begin(
        store: &'a dyn Store,
        since: Option<&'a Since>,
        leave_out: &[String],
        out: &'a mut dyn Write,
    ) -> Result<Backup<'a>, StoreError> {
        let graphs = store.graphs()?;
        if let Some(name) = leave_out.iter().find(|name| graphs.iter().all(|info| info.name != **name)) {
            return Err(StoreError::failed("leave that out", format!("there is no namespace '{name}'")));
        }
        let title = if since.is_some() { TITLE_MORE } else { TITLE };
        out.write_all(title).map_err(unwritable)?;
        let copied = Copied { bytes: title.len() as u64, ..Copied::default() };
        let mut backup = Backup { store, out, since, blocks: 0, copied };
        if let Some(since) = since {
            let known = store.symbols()?;
            let of_this = known.get(..since.symbols as usize).is_some_and(|names| checksum_of(names) == since.names);
            if !of_this {
                return Err(StoreError::failed("go on from that backup", "it is of another store: make a full one"));
            }
            backup.block(b'b', &since.encode())?;
        }
        // What belongs to a graph goes with it: it is written for minutes, and its definitions have to fit its log.
        for (key, value) in store.list_metadata("")?.into_iter().filter(|(key, _)| !key.starts_with(OF_GRAPHS)) {
            backup.metadata(&key, &value)?;
        }
        Ok(backup)
    }

    /// A graph with its log up to a tick, which is durable, and its own metadata as it was then. Neither a checkpoint nor a merge
    /// goes on meanwhile.
    pub fn graph(&mut self, info: &GraphInfo, own: &[(String, Vec<u8>)], until: Tick) -> Result<(), StoreError> {
        let mut payload = info.id.0.to_le_bytes().to_vec();
        payload.extend(records::put_graph(&info.name, &info.options));
        self.block(b'g', &payload)?;
        let store = self.store;
        let rewritten = times_rewritten(store, info.id)?;
        let goes_on = self.since.filter(|since| since.rewritten(info.id) == rewritten);
        let from = goes_on.and_then(|since| since.graph(info.id)).unwrap_or_default();
        if from > until {
            return Err(StoreError::failed("go on from that backup", "it knows more than this store: make a full one"));
        }
        for run in store.runs(info.id)?.into_iter().filter(|run| run.upper > from) {
            self.block(b'r', &[run.first.0.to_le_bytes(), run.upper.0.to_le_bytes()].concat())?;
            for part in Part::ALL {
                store.read_run(info.id, run.id, part, &mut |chunk| {
                    self.copied.chunks += 1;
                    self.block(b'c', &[&[part as u8], chunk].concat())
                })?;
            }
        }
        let progress = store.progress(info.id)?;
        self.block(b'p', &records::put_progress(&progress))?;
        let mut after = Tick::ZERO;
        let read = store.read_log(info.id, progress.upto, &mut |entry| {
            if entry.upper > until {
                return Err(StoreError::Stopped);
            }
            if entry.upper <= from {
                return Ok(());
            }
            let mut bytes = Vec::new();
            encode(&entry, after, &mut bytes)?;
            after = entry.upper;
            self.copied.entries += 1;
            self.block(b'e', &bytes)
        });
        self.copied.graphs += 1;
        read.or_else(|error| if matches!(error, StoreError::Stopped) { Ok(()) } else { Err(error) })?;
        let notes = prefix(info.id);
        for (key, value) in own.iter().filter(|(key, _)| !key.starts_with(&notes)) {
            self.metadata(key, value)?;
        }
        // These go with the pages: since then more may have been noted, and history may begin later by now.
        let begins = horizon_key(info.id);
        if let Some(value) = store.metadata(&begins)? {
            self.metadata(&begins, &value)?;
        }
        for (key, value) in store.list_metadata(&notes)? {
            self.metadata(&key, &value)?;
        }
        if rewritten > 0 {
            self.metadata(&rewritten_key(info.id), &rewritten.to_le_bytes())?;
        }
        Ok(())
    }

    fn metadata(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut payload = Vec::new();
        put_block(&mut payload, key.as_bytes());
        put_block(&mut payload, value);
        self.block(b'm', &payload)
    }

    pub fn finish(mut self) -> Result<Copied, StoreError> {
        for name in self.store.symbols()? {
            self.block(b's', name.as_bytes())?;
        }
        let blocks = self.blocks;
        self.block(b'z', &blocks.to_le_bytes())?;
        self.out.flush().map_err(unwritable)?;
        Ok(self.copied)
    }

    fn block(&mut self, kind: u8, payload: &[u8]) -> Result<(), StoreError> {
        let length = u32::try_from(payload.len()).map_err(|_| StoreError::failed("write the backup", "a block beyond 4 GiB"))?;
        let head = head(kind, length);
        let crc = checksum(&head, payload).to_le_bytes();
        for bytes in [&head[..], payload, &crc] {
            self.out.write_all(bytes).map_err(unwritable)?;
            self.copied.bytes += bytes.len() as u64;
        }
        self.blocks += 1;
        Ok(())
    }
}

/// A store that nobody works with, as a whole, or what has come since another backup.
pub fn back_up(
    store: &dyn Store,
    since: Option<&Since>,
    leave_out: &[String],
    out: &mut dyn Write,
) -> Result<Copied, StoreError> {
    let mut backup = Backup::begin(store, since, leave_out, out)?;
    for info in store.graphs()?.into_iter().filter(|info| !leave_out.contains(&info.name)) {
        let own = store.list_metadata(&info.id.metadata_prefix())?;
        backup.graph(&info, &own, Tick::MAX).map_err(|error| match error {
            StoreError::Damaged { what, place, .. } => {
                StoreError::BackupDamaged { name: info.name.clone(), reason: format!("{what}, in {place}") }
            }
            error => error,
        })?;
    }
    backup.finish()
}

fn head(kind: u8, length: u32) -> [u8; 5] {
    let mut head = [kind; 5];
    head[1..].copy_from_slice(&length.to_le_bytes());
    head
}

pub(super) fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

fn unwritable(error: std::io::Error) -> StoreError {
    StoreError::failed("write the backup", error)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::store::{InMemory, restore};

    #[test]
    fn backups_that_have_all_metadata_in_front_are_read_too() {
        let store = InMemory::new();
        store.create_graph("before", b"").unwrap();
        store.drop_graph(store.graphs().unwrap()[0].id).unwrap();
        store.create_graph("a", b"").unwrap();
        let info = store.graphs().unwrap().remove(0);
        let own = |key: &str, value: &[u8]| (format!("{}{key}", info.id.metadata_prefix()), value.to_vec());
        // As it stands in front, as it stands with the graph, and what comes of it.
        let cases = [
            (Some(own("stream", b"1")), Vec::new(), Some(b"1")),
            (Some(own("stream", b"1")), vec![own("stream", b"2")], Some(b"2")),
            (None, vec![own("other", b"1")], None),
        ];
        for (front, with_graph, expected) in cases {
            let mut written = Vec::new();
            let mut backup = Backup::begin(&store, None, &[], &mut written).unwrap();
            front.iter().for_each(|(key, value)| backup.metadata(key, value).unwrap());
            backup.graph(&info, &with_graph, Tick::MAX).unwrap();
            backup.finish().unwrap();
            let restored = InMemory::new();
            restore(&restored, &mut [&mut Cursor::new(&written)]).unwrap();
            let number = restored.graphs().unwrap()[0].id;
            assert_ne!(number, info.id);
            let found = restored.metadata(&format!("{}stream", number.metadata_prefix())).unwrap();
            assert_eq!(found.as_deref(), expected.map(|value| &value[..]));
        }
    }
}
