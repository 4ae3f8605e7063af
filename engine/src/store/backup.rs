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
use super::{GraphId, GraphInfo, OF_GRAPHS, Part, Store, StoreError, encode, lives, records};
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

/// A graph of which a part is written.
pub struct Begun<'i> {
    info: &'i GraphInfo,
    /// What ends by then is in the backup that this one goes on from.
    from: Tick,
    /// The runs up to here are written.
    upto: Tick,
    rewritten: u64,
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
        if let Some(since) = since {
            must_go_on(store, since, graphs.iter().filter(|info| !leave_out.contains(&info.name)))?;
        }
        let title = if since.is_some() { TITLE_MORE } else { TITLE };
        out.write_all(title).map_err(unwritable)?;
        let copied = Copied { bytes: title.len() as u64, ..Copied::default() };
        let mut backup = Backup { store, out, since, blocks: 0, copied };
        if let Some(since) = since {
            backup.block(b'b', &since.encode())?;
        }
        // What belongs to a graph goes with it: it is written for minutes, and its definitions have to fit its log.
        for (key, value) in store.list_metadata("")?.into_iter().filter(|(key, _)| !key.starts_with(OF_GRAPHS)) {
            backup.metadata(&key, &value)?;
        }
        Ok(backup)
    }

    /// A graph of a store that nobody works with.
    fn graph(&mut self, info: &GraphInfo, own: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        let begun = self.begin_graph(info, Tick::MAX)?;
        self.end_graph(begun, own, Tick::MAX)
    }

    /// Begins with a graph, of which everything before `durable` is in the store. No merge goes on from here until its end, so
    /// that a run that was listed is still there when it is read.
    pub fn begin_graph<'i>(&mut self, info: &'i GraphInfo, durable: Tick) -> Result<Begun<'i>, StoreError> {
        let mut payload = info.id.0.to_le_bytes().to_vec();
        payload.extend(records::put_graph(&info.name, &info.options));
        self.block(b'g', &payload)?;
        let rewritten = times_rewritten(self.store, info.id)?;
        let from = self.since.map(|since| goes_on_from(since, info.id, rewritten)).unwrap_or_default();
        if from > durable {
            return Err(cannot_go_on(KNOWS_MORE));
        }
        Ok(Begun { info, from, upto: from, rewritten })
    }

    /// The runs that have come since it was last asked for them. Checkpoints may go on.
    pub fn runs(&mut self, graph: &mut Begun<'_>) -> Result<(), StoreError> {
        let (store, id, written) = (self.store, graph.info.id, graph.upto);
        for run in store.runs(id)?.into_iter().filter(|run| run.upper > written) {
            self.block(b'r', &[run.first.0.to_le_bytes(), run.upper.0.to_le_bytes()].concat())?;
            for part in Part::ALL {
                store.read_run(id, run.id, part, &mut |chunk| {
                    self.copied.chunks += 1;
                    self.block(b'c', &[&[part as u8], chunk].concat())
                })?;
            }
            graph.upto = graph.upto.max(run.upper);
        }
        Ok(())
    }

    /// The rest of a graph: the runs that have come meanwhile, its log up to a tick, which is durable, and its own metadata as it
    /// was then. No checkpoint goes on meanwhile, nor since that tick was asked for.
    pub fn end_graph(&mut self, mut graph: Begun<'_>, own: &[(String, Vec<u8>)], until: Tick) -> Result<(), StoreError> {
        self.runs(&mut graph)?;
        let (store, Begun { info, from, rewritten, .. }) = (self.store, graph);
        let progress = store.progress(info.id)?;
        self.block(b'p', &records::put_progress(&progress))?;
        let (mut after, mut end) = (Tick::ZERO, progress.upto);
        let read = store.read_log(info.id, progress.upto, &mut |entry| {
            if entry.upper > until {
                return Err(StoreError::Stopped);
            }
            end = entry.upper;
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
        // A store that nobody works with may have lost its end, and no life has begun since.
        if from > end {
            return Err(cannot_go_on(KNOWS_MORE));
        }
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

    /// What the backup holds survives the loss of power in the store as well, so that others can go on from it.
    pub fn finish(mut self) -> Result<Copied, StoreError> {
        for name in self.store.symbols()? {
            self.block(b's', name.as_bytes())?;
        }
        self.store.sync()?;
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
        backup.graph(&info, &own).map_err(|error| match error {
            StoreError::Damaged { what, place, .. } => {
                StoreError::BackupDamaged { name: info.name.clone(), reason: format!("{what}, in {place}") }
            }
            error => error,
        })?;
    }
    backup.finish()
}

/// An error where that backup does not hold what the graphs are made of.
fn must_go_on<'i>(store: &dyn Store, since: &Since, graphs: impl Iterator<Item = &'i GraphInfo>) -> Result<(), StoreError> {
    let known = store.symbols()?;
    let of_this = known.get(..since.symbols as usize).is_some_and(|names| checksum_of(names) == since.names);
    if !of_this {
        return Err(cannot_go_on("it is of another store"));
    }
    for info in graphs {
        let from = goes_on_from(since, info.id, times_rewritten(store, info.id)?);
        if from > Tick::ZERO && !lives::still_hold(&lives::lives_of(store, info.id)?, since.life(info.id), from) {
            let reason = "which has lost a part of that since, or is a copy from before, and was then written otherwise";
            return Err(cannot_go_on(&format!("it holds what is not in namespace '{}' of this store, {reason}", info.name)));
        }
    }
    Ok(())
}

/// What of a graph ends by then is in the backup that another goes on from; nothing where its pages were written again since.
fn goes_on_from(since: &Since, id: GraphId, rewritten: u64) -> Tick {
    if since.rewritten(id) == rewritten { since.graph(id).unwrap_or_default() } else { Tick::ZERO }
}

const KNOWS_MORE: &str = "it knows more than this store";

fn cannot_go_on(reason: &str) -> StoreError {
    StoreError::failed("go on from that backup", format!("{reason}: make a full one"))
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
    use crate::store::conformance::{append, entry};
    use crate::store::{InMemory, end_of, restore};

    #[cfg(feature = "rocks-db")]
    #[test]
    fn what_is_in_a_backup_survives_the_loss_of_power() {
        use crate::store::reached::{FILE, Reached};
        use crate::store::{RocksDb, RocksDbOptions};
        let directory = tempfile::tempdir().unwrap();
        let store = RocksDb::open(RocksDbOptions::new(directory.path())).unwrap();
        let graph = store.create_graph("a", b"").unwrap();
        append(&store, &[entry(graph, 10, 2)]);
        let reached = || Reached::read(&directory.path().join(FILE)).unwrap();
        let before = reached();
        assert!(before.synced < before.written, "{before:?}");
        back_up(&store, None, &[], &mut Vec::new()).unwrap();
        assert_eq!(reached().synced, before.written);
    }

    /// Nobody has opened it to write since, so that no life tells.
    #[test]
    fn a_store_that_has_lost_its_end_is_no_basis_for_the_next_backup() {
        let store_of = |count: usize| {
            let store = InMemory::new();
            let graph = store.create_graph("a", b"").unwrap();
            append(&store, &[entry(graph, 10, 2), entry(graph, 20, 2)][..count]);
            store
        };
        let mut written = Vec::new();
        back_up(&store_of(2), None, &[], &mut written).unwrap();
        let since = end_of(&mut Cursor::new(&written)).unwrap();
        back_up(&store_of(2), Some(&since), &[], &mut Vec::new()).unwrap();
        let refused = back_up(&store_of(1), Some(&since), &[], &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(refused, "cannot go on from that backup: it knows more than this store: make a full one");
    }

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
            backup.graph(&info, &with_graph).unwrap();
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
