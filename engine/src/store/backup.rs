//! Backup: everything a store holds as one stream of bytes, and a store made of it again, of whatever kind.
//!
//!     title 16 | blocks
//!     block: kind 1 | length 4 | payload | crc 4, over all of that
//!
//!     'm' metadata: key, value                  first, all of them
//!     'g' graph: number 4, name, options        then each graph with
//!         'r' run: first 8, upper 8                 its runs, oldest first, each followed by
//!             'c' part 1, chunk                         its chunks
//!         'p' progress                              how far the runs go
//!         'e' entry                                 what the log holds beyond
//!     's' string of a symbol                    in the order of their numbers
//!     'z' how many blocks there were before 8   so that a stream that was cut short is told from a whole one
//!
//! Symbols come after the entries that use them: those are in the store before any entry is, so none is missing.

use std::io::{Read, Write};
use std::sync::Arc;

use weir_model::{Text, Tick};

use super::bytes::{Reader, Wrong, put_block};
use super::entry::LogReader;
use super::{EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, Store, StoreError, encode, records};

const TITLE: &[u8; 16] = b"weir backup 1\n\0\n";

/// Entries are written to the store in groups of about this size.
const GROUP_BYTES: usize = 8 << 20;

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
    blocks: u64,
    copied: Copied,
}

impl<'a> Backup<'a> {
    /// Writes what belongs to no graph.
    pub fn begin(store: &'a dyn Store, out: &'a mut dyn Write) -> Result<Backup<'a>, StoreError> {
        out.write_all(TITLE).map_err(unwritable)?;
        let mut backup = Backup { store, out, blocks: 0, copied: Copied { bytes: TITLE.len() as u64, ..Copied::default() } };
        for (key, value) in store.list_metadata("")? {
            let mut payload = Vec::new();
            put_block(&mut payload, key.as_bytes());
            put_block(&mut payload, &value);
            backup.block(b'm', &payload)?;
        }
        Ok(backup)
    }

    /// A graph with its log up to a tick, which is durable. Neither a checkpoint nor a merge goes on meanwhile.
    pub fn graph(&mut self, info: &GraphInfo, until: Tick) -> Result<(), StoreError> {
        let mut payload = info.id.0.to_le_bytes().to_vec();
        payload.extend(records::put_graph(&info.name, &info.options));
        self.block(b'g', &payload)?;
        let store = self.store;
        for run in store.runs(info.id)? {
            self.block(b'r', &[run.first.0.to_le_bytes(), run.upper.0.to_le_bytes()].concat())?;
            for part in [Part::Newest, Part::Older, Part::Index] {
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
            let mut bytes = Vec::new();
            encode(&entry, after, &mut bytes)?;
            after = entry.upper;
            self.copied.entries += 1;
            self.block(b'e', &bytes)
        });
        self.copied.graphs += 1;
        read.or_else(|error| if matches!(error, StoreError::Stopped) { Ok(()) } else { Err(error) })
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

/// A store that nobody works with, as a whole.
pub fn back_up(store: &dyn Store, out: &mut dyn Write) -> Result<Copied, StoreError> {
    let mut backup = Backup::begin(store, out)?;
    for info in store.graphs()? {
        backup.graph(&info, Tick::MAX)?;
    }
    backup.finish()
}

/// Reads a backup into a store that holds nothing yet. Until this has returned, the store is of no use.
pub fn restore(store: &dyn Store, from: &mut dyn Read) -> Result<Copied, StoreError> {
    if !store.graphs()?.is_empty() || !store.list_metadata("")?.is_empty() {
        return Err(StoreError::failed("restore", "the store is not empty: give a new one"));
    }
    let mut title = [0; TITLE.len()];
    from.read_exact(&mut title).map_err(|_| StoreError::damaged("not a backup of weir", "the backup"))?;
    if &title != TITLE {
        return Err(StoreError::damaged("not a backup of weir, or one of a newer version", "the backup"));
    }
    let copied = Copied { bytes: TITLE.len() as u64, ..Copied::default() };
    let mut blocks = Blocks { from, ahead: None, blocks: 0, copied };
    let mut metadata = Vec::new();
    let mut numbers: Vec<(GraphId, GraphId)> = Vec::new();
    let mut symbols: Vec<Text> = Vec::new();
    loop {
        let (kind, payload) = blocks.next()?;
        match kind {
            b'm' => {
                let mut reader = Reader(&payload);
                let pair = (|| Ok((reader.text()?.to_owned(), reader.block()?.to_vec())))();
                metadata.push(pair.map_err(wrong)?);
            }
            b'g' => {
                let (number, rest) = payload.split_first_chunk().ok_or_else(|| wrong("an early end"))?;
                let old = GraphId(u32::from_le_bytes(*number));
                let info = records::take_graph(old, rest).map_err(wrong)?;
                let new = store.create_graph(&info.name, &info.options)?;
                numbers.push((old, new));
                blocks.graph(store, old, new)?;
            }
            b's' => symbols.push(Text::new(std::str::from_utf8(&payload).map_err(|_| wrong("a text that is not UTF-8"))?)),
            b'z' => {
                if payload != (blocks.blocks - 1).to_le_bytes() {
                    return Err(wrong("a block that is missing"));
                }
                break;
            }
            _ => return Err(wrong("a block of unknown kind, or out of place")),
        }
    }
    store.append(&[], NewSymbols { first: 0, names: &symbols }, true)?;
    for (key, value) in metadata {
        store.put_metadata(&renumbered(key, &numbers), &value)?;
    }
    store.sync()?;
    Ok(blocks.copied)
}

/// The key of metadata that belongs to a graph whose number has changed.
fn renumbered(key: String, numbers: &[(GraphId, GraphId)]) -> String {
    let of = |(old, new): &(GraphId, GraphId)| {
        let rest = key.strip_prefix(&old.metadata_prefix())?;
        Some(format!("{}{rest}", new.metadata_prefix()))
    };
    numbers.iter().find_map(of).unwrap_or(key)
}

struct Blocks<'a> {
    from: &'a mut dyn Read,
    /// One that was read and is for whoever comes next.
    ahead: Option<(u8, Vec<u8>)>,
    blocks: u64,
    copied: Copied,
}

impl Blocks<'_> {
    fn next(&mut self) -> Result<(u8, Vec<u8>), StoreError> {
        if let Some(ahead) = self.ahead.take() {
            return Ok(ahead);
        }
        let cut = |_| wrong("an early end");
        let mut given = [0; 5];
        self.from.read_exact(&mut given).map_err(cut)?;
        let [kind, length @ ..] = given;
        let length = u32::from_le_bytes(length);
        // Not as much memory as a damaged length asks for, only as much as there is.
        let mut payload = Vec::new();
        self.from.take(length.into()).read_to_end(&mut payload).map_err(cut)?;
        let mut crc = [0; 4];
        self.from.read_exact(&mut crc).map_err(cut)?;
        if payload.len() != length as usize || checksum(&given, &payload) != u32::from_le_bytes(crc) {
            return Err(wrong("a checksum that does not match"));
        }
        self.blocks += 1;
        self.copied.bytes += (given.len() + payload.len() + crc.len()) as u64;
        Ok((kind, payload))
    }

    /// The next block if it is of this kind.
    fn next_of(&mut self, wanted: u8) -> Result<Option<Vec<u8>>, StoreError> {
        let (kind, payload) = self.next()?;
        if kind == wanted {
            return Ok(Some(payload));
        }
        self.ahead = Some((kind, payload));
        Ok(None)
    }

    /// The runs and the log of a graph.
    fn graph(&mut self, store: &dyn Store, old: GraphId, new: GraphId) -> Result<(), StoreError> {
        while let Some(run) = self.next_of(b'r')? {
            let mut reader = Reader(&run);
            let [first, upper] = [reader.tick().map_err(wrong)?, reader.tick().map_err(wrong)?];
            let mut chunks = std::iter::from_fn(|| self.chunk().transpose());
            let progress = Progress { upto: upper, ..Progress::default() };
            store.checkpoint(new, NewRun { first, upper, chunks: &mut chunks }, &progress)?;
        }
        let progress = self.next_of(b'p')?.ok_or_else(|| wrong("a graph without its progress"))?;
        let progress = records::take_progress(&progress).map_err(wrong)?;
        let mut reader = LogReader::new(old, progress.upto);
        let mut group: Vec<(Tick, Vec<u8>)> = Vec::new();
        let mut after = Tick::ZERO;
        while let Some(bytes) = self.next_of(b'e')? {
            let first = bytes.get(24..).and_then(<[u8]>::first_chunk).map(|tick| Tick(u64::from_le_bytes(*tick)));
            let entry = Entry { graph: new, ..reader.decode(first.unwrap_or_default(), &bytes)? };
            self.copied.entries += 1;
            if !store.durable() {
                store.hold(&Arc::new(entry));
                continue;
            }
            let mut bytes = Vec::new();
            encode(&entry, after, &mut bytes)?;
            after = entry.upper;
            group.push((entry.first, bytes));
            if group.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() >= GROUP_BYTES {
                append(store, new, &std::mem::take(&mut group))?;
            }
        }
        append(store, new, &group)?;
        self.copied.graphs += 1;
        if progress == Progress::default() {
            return Ok(());
        }
        // What the runs said of it was only how far they go.
        let nothing = NewRun { first: progress.upto, upper: progress.upto, chunks: &mut std::iter::empty() };
        store.checkpoint(new, nothing, &progress).map(drop)
    }

    fn chunk(&mut self) -> Result<Option<(Part, Vec<u8>)>, StoreError> {
        let Some(mut bytes) = self.next_of(b'c')? else { return Ok(None) };
        self.copied.chunks += 1;
        let part = match bytes.first() {
            Some(0) => Part::Newest,
            Some(1) => Part::Older,
            Some(2) => Part::Index,
            _ => return Err(wrong("a chunk of unknown kind")),
        };
        bytes.remove(0);
        Ok(Some((part, bytes)))
    }
}

fn append(store: &dyn Store, graph: GraphId, group: &[(Tick, Vec<u8>)]) -> Result<(), StoreError> {
    let entries: Vec<_> = group.iter().map(|(first, bytes)| EncodedEntry { graph, first: *first, bytes }).collect();
    if entries.is_empty() { Ok(()) } else { store.append(&entries, NewSymbols::default(), false) }
}

fn head(kind: u8, length: u32) -> [u8; 5] {
    let mut head = [kind; 5];
    head[1..].copy_from_slice(&length.to_le_bytes());
    head
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

fn wrong(what: Wrong) -> StoreError {
    StoreError::Damaged { what: what.to_owned(), place: "the backup".to_owned(), hint: "use another backup" }
}

fn unwritable(error: std::io::Error) -> StoreError {
    StoreError::failed("write the backup", error)
}
