//! Stores: where the engine keeps what must outlive the process. One trait; who uses it does not know which one it is.
//!
//!     symbols    the strings behind symbol numbers, append-only
//!     metadata   small named values: streams, standing queries, settings
//!     graphs     each with
//!         log        entries in the order of ticks: what was committed since the checkpoint
//!         runs       sorted, immutable pages made of older entries; opaque here
//!         progress   up to which tick the runs hold everything, and where sources and deliveries stood then
//!
//! Nothing here knows what a page says or when a checkpoint is due. Everything read back is checked.
//!
//!     error      what can go wrong with a store, and what to do about it
//!     entry      one committed batch as the log keeps it
//!     rows       its mutations as bytes
//!     records    the small records as bytes, each sealed
//!     bytes      reading bytes that may be damaged
//!     reserved   what is kept of a standing query among its outputs
//!     in_memory  the store that ends with the process
//!     rocks_db   the default one
//!     map_db     the one in one file, in Rust alone
//!     keys       how those two file what they are given
//!     meta       their small records, as they are read
//!     directory  whose a data directory is, and which format it has
//!     ahead      whether the write-ahead log of RocksDB is sound
//!     reached    how far RocksDB was written, beside it
//!     check      what of a store is damaged
//!     lives      since when a graph goes on from where it was
//!     backup     a store as one stream of bytes
//!     since      where a backup ended, for the one that goes on from there
//!     restore    a store out of backups

mod error;
mod entry;
mod rows;
mod records;
mod bytes;
pub mod reserved;
mod in_memory;
#[cfg(feature = "rocks-db")]
mod rocks_db;
#[cfg(feature = "map-db")]
mod map_db;
#[cfg(any(feature = "rocks-db", feature = "map-db"))]
mod keys;
#[cfg(any(feature = "rocks-db", feature = "map-db"))]
mod meta;
#[cfg(feature = "rocks-db")]
mod directory;
#[cfg(feature = "rocks-db")]
mod ahead;
#[cfg(feature = "rocks-db")]
mod reached;
mod check;
pub mod lives;
mod backup;
mod since;
mod restore;
#[cfg(test)]
pub mod conformance;

use std::ops::Range;
use std::sync::Arc;

use weir_model::{Position, Text, Tick};

use crate::memory::at_most;
use crate::scheduling::breathe;

pub use backup::{Backup, Copied, back_up};
pub use bytes::{Reader, put_block};
pub use check::{Checked, check};
pub use entry::{Delivered, EncodedEntry, Entry, LogReader, encode, pack, unpack};
pub use error::StoreError;
pub use in_memory::InMemory;
#[cfg(feature = "map-db")]
pub use map_db::{MapDb, MapDbOptions};
pub use restore::{Source, end_of, restore};
#[cfg(feature = "rocks-db")]
pub use rocks_db::{RocksDb, RocksDbOptions};
pub use since::Since;

/// What `read_some` brings into memory at most, but for the last entry.
const SOME_BYTES: usize = 512 << 20;

/// Entries of the log that `read_some` brings into memory at most, however little is in them.
const SOME_ENTRIES: usize = 10_000;

/// Some entries of the log: those that begin and end within the ticks, and no more when there are `rows` rows, or many
/// entries, or much of memory is used. Says how many rows there are.
pub fn read_some(store: &dyn Store, graph: GraphId, ticks: Range<Tick>, rows: usize) -> Result<(Vec<Entry>, usize), StoreError> {
    let (mut entries, mut count, mut bytes) = (Vec::new(), 0, 0);
    let bytes_max = at_most(SOME_BYTES, 8);
    let read = store.read_log(graph, ticks.start, &mut |entry| {
        if count >= rows || entries.len() == SOME_ENTRIES || bytes >= bytes_max || entry.upper > ticks.end {
            return Err(StoreError::Stopped);
        }
        count += entry.mutations.rows.len();
        bytes += entry.mutations.bytes();
        entries.push(entry);
        breathe();
        Ok(())
    });
    match read {
        Ok(()) | Err(StoreError::Stopped) => Ok((entries, count)),
        Err(error) => Err(error),
    }
}

/// Keys of metadata that belongs to graphs begin so.
const OF_GRAPHS: &str = "graph/";

/// Names a graph within a store. Never given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GraphId(pub u32);

impl GraphId {
    /// Metadata with keys that begin so belongs to the graph and goes with it when it is dropped.
    pub fn metadata_prefix(self) -> String {
        format!("{OF_GRAPHS}{}/", self.0)
    }
}

/// Names a run within a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunId(pub u64);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphInfo {
    pub id: GraphId,
    pub name: String,
    /// As given to `create_graph`.
    pub options: Vec<u8>,
}

/// What the chunks of a run hold. Each part is numbered on its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// All that has to be read to know the present.
    Newest,
    /// What only the past needs.
    Older,
    /// Where to find what in the two before.
    Index,
    /// Which ticks sources brought.
    Batches,
}

impl Part {
    pub const ALL: [Part; 4] = [Part::Newest, Part::Older, Part::Index, Part::Batches];
}

/// A run of pages: versions of facts from ticks in `first..upper`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunInfo {
    pub id: RunId,
    pub first: Tick,
    pub upper: Tick,
    /// How many there are of each part.
    pub chunks: [u64; Part::ALL.len()],
    pub bytes: u64,
}

/// A run to be written. It is not, if one of its chunks is an error.
pub struct NewRun<'a> {
    pub first: Tick,
    pub upper: Tick,
    pub chunks: &'a mut dyn Iterator<Item = Result<(Part, Vec<u8>), StoreError>>,
}

/// What a graph's runs hold, and where the world stood then.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Everything before this tick is in runs; everything from it on is in the log.
    pub upto: Tick,
    pub sources: Vec<(Text, Position)>,
    pub delivered: Vec<Delivered>,
}

/// Strings that follow those the store has.
#[derive(Clone, Copy, Default)]
pub struct NewSymbols<'a> {
    /// The number of the first.
    pub first: usize,
    pub names: &'a [Text],
}

/// Bytes on disk, or in memory where that is where the store is; about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    pub log: u64,
    pub pages: u64,
    pub other: u64,
}

/// What every store does. A method that returned has happened for good, in the sense of the store's durability level:
/// it survives the end of the process, and of power if the store or the call says `sync`. A method that failed has
/// either not happened or will be seen whole; which of the two, only the next opening of the store tells. Methods may be
/// called from any thread at any time; writes to the log come from one thread.
pub trait Store: Send + Sync {
    /// The value of `store.type` that chooses it.
    fn kind(&self) -> &'static str;

    /// Whether anything is there after the store was closed and opened again.
    fn durable(&self) -> bool;

    /// Whether nothing can be written to it, because it was opened so.
    fn read_only(&self) -> bool {
        false
    }

    /// What is damaged so that it was opened without it; in other places more may be.
    fn opened_without(&self) -> Option<String> {
        None
    }

    /// Whether what it was given can be read back as long as it is open.
    fn remembers(&self) -> bool {
        true
    }

    /// Takes an entry into the log as it is, where the log lives and ends with the process: for stores that are not durable,
    /// in place of `append`.
    fn hold(&self, entry: &Arc<Entry>);

    /// Adds entries to the logs of their graphs, and symbols, as one: after a crash all of it is there or nothing is.
    /// Entries of a graph come in the order of their ticks. Entries of a graph that was dropped are passed over.
    fn append(&self, group: &[EncodedEntry<'_>], symbols: NewSymbols<'_>, sync: bool) -> Result<(), StoreError>;

    /// Hands out the entries that begin at `from` or later, in order, as far as the log reaches back. `from` is the end of
    /// an entry.
    /// Stops at the first error, be it the store's or the callback's.
    fn read_log(
        &self,
        graph: GraphId,
        from: Tick,
        each: &mut dyn FnMut(Entry) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Writes a run, which may take long; then, as one, makes it visible, sets the progress and drops the entries of the
    /// log that begin before `progress.upto`. A crash on the way leaves everything as it was.
    fn checkpoint(&self, graph: GraphId, run: NewRun<'_>, progress: &Progress) -> Result<RunInfo, StoreError>;

    /// Writes a run that takes the place of others, as `checkpoint` does, and drops those.
    fn replace_runs(&self, graph: GraphId, replaced: &[RunId], run: NewRun<'_>) -> Result<RunInfo, StoreError>;

    /// Rewrites files until none has anything left of what was cut from the log of a graph, or of runs that were replaced. May
    /// take long, and holds up nobody else. Nothing where files keep nothing, or where that is not known. An error where one
    /// could not be rewritten.
    fn wipe(&self, _graph: GraphId) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether `wipe` may rewrite files: not where something in the store is damaged, for to meet damage then ends all writes.
    fn rewrites(&self) -> bool {
        true
    }

    /// The runs of a graph, oldest first.
    fn runs(&self, graph: GraphId) -> Result<Vec<RunInfo>, StoreError>;

    /// Hands out the chunks of a part of a run in the order they were written; fails if one is missing or damaged.
    fn read_run(
        &self,
        graph: GraphId,
        run: RunId,
        part: Part,
        each: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// One chunk, by its number among those of its part. None if there is no such run any more, or no such chunk in it.
    fn chunk(&self, graph: GraphId, run: RunId, part: Part, number: u64) -> Result<Option<Vec<u8>>, StoreError>;

    /// As of the last checkpoint; the default if there was none.
    fn progress(&self, graph: GraphId) -> Result<Progress, StoreError>;

    /// A new, empty graph. That names are unique is the caller's care. Takes milliseconds.
    fn create_graph(&self, name: &str, options: &[u8]) -> Result<GraphId, StoreError>;

    /// Drops a graph with all that belongs to it, at once; disk space is freed in the background. Nothing if it is gone.
    fn drop_graph(&self, graph: GraphId) -> Result<(), StoreError>;

    /// In the order of their creation.
    fn graphs(&self) -> Result<Vec<GraphInfo>, StoreError>;

    /// Every symbol's string; the index is its number.
    fn symbols(&self) -> Result<Vec<Text>, StoreError>;

    fn metadata(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    fn put_metadata(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    fn delete_metadata(&self, key: &str) -> Result<(), StoreError>;

    /// Keys that begin with the prefix, with their values, sorted by key.
    fn list_metadata(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Everything that a start needs was read. Whether all of it was sound: what is damaged should not be rewritten.
    fn loaded(&self, _sound: bool) {}

    /// Makes everything that was written survive the loss of power.
    fn sync(&self) -> Result<(), StoreError>;

    fn sizes(&self) -> Result<Sizes, StoreError>;
}
