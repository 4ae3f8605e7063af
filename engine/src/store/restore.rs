//! Restore: a store out of a backup, or of one and those that go on from it.
//!
//! All of them are read twice: first to see that they are whole, belong together, and which part of each is wanted; then into
//! the store. Of a graph the newest file has the last word, and what it holds from its first tick on; the one before it fills
//! in what lies before that tick, and so on. What an older file has as entries of the log while a newer one has runs after
//! them, or a log that begins after them, becomes a run too, since runs come before the log.

use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use weir_model::{Text, Tick};

use super::backup::{Copied, TITLE, TITLE_MORE, TITLES_BEFORE, checksum};
use super::bytes::{Reader, Wrong};
use super::entry::LogReader;
use super::since::{Since, checksum_of};
use super::{
    EncodedEntry, Entry, GraphId, GraphInfo, NewRun, NewSymbols, Part, Progress, Store, StoreError, encode, lives, records,
};
use crate::arrangement::pages;
use crate::history::batches;
use crate::history::erased::{read_times, rewritten_key};
use crate::history::run::Indexing;

/// Entries are written to the store in groups of about this size.
const GROUP_BYTES: usize = 8 << 20;

/// A run is made of entries with about this many rows.
const ROWS_PER_RUN: usize = 1_000_000;

/// A file, or what is like one.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Where the next backup goes on that is to hold only what comes after this one.
pub fn end_of(backup: &mut dyn Source) -> Result<Since, StoreError> {
    Ok(scan(backup)?.end)
}

/// Reads a backup and those that go on from it, in order, into a store that holds nothing yet. Until this has returned, the
/// store is of no use.
pub fn restore(store: &dyn Store, backups: &mut [&mut dyn Source]) -> Result<Copied, StoreError> {
    if !store.graphs()?.is_empty() || !store.list_metadata("")?.is_empty() {
        return Err(StoreError::failed("restore", "the store is not empty: give a new one"));
    }
    let mut scanned = Vec::new();
    for backup in backups.iter_mut() {
        let next = scan(*backup)?;
        let before: Option<&Scanned> = scanned.last();
        let (fits, problem) = match (&next.since, before) {
            (None, None) => (true, ""),
            (None, Some(_)) => {
                (false, "does not go on from the one before it; it is whole by itself: leave out those that stand before it")
            }
            (Some(_), None) => (false, "goes on from an earlier backup; give that one before it"),
            (Some(since), Some(before)) => (
                *since == before.end,
                "does not go on from the one before it; give those between them too, in the order in which they were made",
            ),
        };
        if !fits {
            return Err(StoreError::OutOfOrder { number: scanned.len() + 1, problem });
        }
        scanned.push(next);
    }
    let Some(last) = scanned.last() else { return Err(StoreError::failed("restore", "no backup was given")) };
    let mut copied = Copied { bytes: scanned.iter().map(|file| file.bytes).sum(), ..Copied::default() };
    let mut numbers = Vec::new();
    for graph in &last.graphs {
        let new = store.create_graph(&graph.info.name, &graph.info.options)?;
        numbers.push((graph.info.id, new));
        let (after, group, copied) = (Tick::ZERO, Vec::new(), &mut copied);
        let mut writing = Writing { store, old: graph.info.id, new, after, group, as_run: false, copied };
        for piece in pieces(&scanned, graph.info.id) {
            writing.take(&mut *backups[piece.file], &scanned[piece.file], &piece)?;
        }
        writing.finish(&graph.progress)?;
        copied.graphs += 1;
    }
    store.append(&[], NewSymbols { first: 0, names: &last.symbols }, true)?;
    for (key, value) in &last.metadata {
        store.put_metadata(&renumbered(key.clone(), &numbers), value)?;
    }
    store.sync()?;
    Ok(copied)
}

/// The key of metadata that belongs to a graph whose number has changed.
fn renumbered(key: String, numbers: &[(GraphId, GraphId)]) -> String {
    let of = |(old, new): &(GraphId, GraphId)| {
        let rest = key.strip_prefix(&old.metadata_prefix())?;
        Some(format!("{}{rest}", new.metadata_prefix()))
    };
    numbers.iter().find_map(of).unwrap_or(key)
}

/// What a backup holds, but for the graphs themselves.
struct Scanned {
    since: Option<Since>,
    end: Since,
    metadata: Vec<(String, Vec<u8>)>,
    graphs: Vec<ScannedGraph>,
    symbols: Vec<Text>,
    bytes: u64,
}

struct ScannedGraph {
    info: GraphInfo,
    /// Where its runs begin in the file.
    at: u64,
    progress: Progress,
    has_runs: bool,
    /// The first tick it has anything of.
    first: Option<Tick>,
}

fn scan(from: &mut dyn Source) -> Result<Scanned, StoreError> {
    let mut title = [0; TITLE.len()];
    let unreadable = |error| StoreError::failed("read the backup", error);
    from.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    from.read_exact(&mut title).map_err(|_| wrong("not a backup of weir"))?;
    let [whole, more] = [0, 1].map(|form| TITLES_BEFORE.map(|titles| titles[form]));
    let goes_on = title == *TITLE_MORE || more.contains(&&title);
    if !goes_on && title != *TITLE && !whole.contains(&&title) {
        return Err(wrong("not a backup of weir, or one of a newer version"));
    }
    let mut blocks = Blocks::new(from, TITLE.len() as u64);
    let since = match blocks.next_of(b'b')? {
        Some(since) if goes_on => Some(Since::decode(&since).map_err(wrong)?),
        None if !goes_on => None,
        _ => return Err(wrong("a title that does not match")),
    };
    let (mut metadata, mut graphs, mut symbols): (Vec<_>, Vec<ScannedGraph>, Vec<Text>) = Default::default();
    let mut ends: Vec<(GraphId, Tick)> = Vec::new();
    loop {
        let (kind, payload) = blocks.next()?;
        match (kind, graphs.last_mut(), ends.last_mut()) {
            (b'm', ..) => {
                let mut reader = Reader(&payload);
                let pair = (|| Ok((reader.text()?.to_owned(), reader.block()?.to_vec())))();
                metadata.push(pair.map_err(wrong)?);
            }
            (b'g', ..) => {
                let (number, rest) = payload.split_first_chunk().ok_or_else(|| wrong("an early end"))?;
                let id = GraphId(u32::from_le_bytes(*number));
                let info = records::take_graph(id, rest).map_err(wrong)?;
                ends.push((id, since.as_ref().and_then(|since| since.graph(id)).unwrap_or_default()));
                let progress = Progress::default();
                graphs.push(ScannedGraph { info, at: blocks.bytes, progress, has_runs: false, first: None });
            }
            (b'r', Some(graph), _) => {
                let [first, _] = run_of(&payload)?;
                graph.first.get_or_insert(first);
                graph.has_runs = true;
            }
            (b'c', Some(graph), _) if graph.has_runs => {}
            (b'p', Some(graph), Some((_, end))) => {
                graph.progress = records::take_progress(&payload).map_err(wrong)?;
                *end = (*end).max(graph.progress.upto);
            }
            (b'e', Some(graph), Some((_, end))) => {
                let [first, upper] = ticks_of(&payload)?;
                graph.first.get_or_insert(first);
                *end = (*end).max(upper);
            }
            (b's', ..) => {
                symbols.push(Text::new(std::str::from_utf8(&payload).map_err(|_| wrong("a text that is not UTF-8"))?));
            }
            (b'z', ..) => {
                if payload != (blocks.count - 1).to_le_bytes() {
                    return Err(wrong("a block that is missing"));
                }
                break;
            }
            _ => return Err(wrong("a block of unknown kind, or out of place")),
        }
    }
    let after = u64::from(blocks.all.clone().finalize()) << 32 | blocks.count & 0xffff_ffff;
    // Of two the later one.
    let value = |wanted: &str| metadata.iter().rev().find(|(key, _)| key == wanted).map(|(_, value)| value);
    let times = |id: &GraphId| value(&rewritten_key(*id)).and_then(|value| read_times(value));
    let rewritten = ends.iter().filter_map(|(id, _)| Some((*id, times(id)?))).collect();
    let life = |id: &GraphId| Some(lives::decode(value(&lives::lives_key(*id))?).ok()?.last()?.number);
    let lives = ends.iter().filter_map(|(id, _)| Some((*id, life(id)?))).collect();
    let (count, names) = (symbols.len() as u32, checksum_of(&symbols));
    let end = Since { after, symbols: count, names, graphs: ends, rewritten, lives };
    Ok(Scanned { since, end, metadata, graphs, symbols, bytes: blocks.bytes })
}

/// A part of a file that is wanted of a graph.
struct Piece {
    file: usize,
    graph: usize,
    /// Runs and entries that end later are in a newer file.
    until: Tick,
    /// Entries that end by then become a run: all where runs of a newer file follow.
    as_run: Tick,
}

/// The oldest first.
fn pieces(files: &[Scanned], id: GraphId) -> Vec<Piece> {
    let (mut pieces, mut until, mut runs_follow) = (Vec::new(), Tick::MAX, false);
    let mut log_begins = None;
    for (file, scanned) in files.iter().enumerate().rev() {
        let Some(graph) = scanned.graphs.iter().position(|graph| graph.info.id == id) else { break };
        let found = &scanned.graphs[graph];
        let log_begins = *log_begins.get_or_insert(found.progress.upto);
        pieces.push(Piece { file, graph, until, as_run: if runs_follow { Tick::MAX } else { log_begins } });
        until = until.min(found.first.unwrap_or(Tick::MAX));
        runs_follow |= found.has_runs;
        let goes_on = |since: &Since| since.graph(id).is_some() && since.rewritten(id) == scanned.end.rewritten(id);
        if !scanned.since.as_ref().is_some_and(goes_on) {
            break;
        }
    }
    pieces.reverse();
    pieces
}

/// A graph on its way into the store.
struct Writing<'a> {
    store: &'a dyn Store,
    old: GraphId,
    new: GraphId,
    after: Tick,
    /// Entries that wait: to be written, or to become a run.
    group: Vec<Entry>,
    /// They become a run.
    as_run: bool,
    copied: &'a mut Copied,
}

impl Writing<'_> {
    fn take(&mut self, from: &mut dyn Source, file: &Scanned, piece: &Piece) -> Result<(), StoreError> {
        let graph = &file.graphs[piece.graph];
        from.seek(SeekFrom::Start(graph.at)).map_err(|error| StoreError::failed("read the backup", error))?;
        let mut blocks = Blocks::new(from, graph.at);
        while let Some(run) = blocks.next_of(b'r')? {
            let [first, upper] = run_of(&run)?;
            if upper > piece.until {
                while blocks.next_of(b'c')?.is_some() {}
                continue;
            }
            self.write()?;
            let copied = &mut *self.copied;
            let mut chunks = std::iter::from_fn(|| blocks.chunk().transpose().inspect(|_| copied.chunks += 1));
            let progress = Progress { upto: upper, ..Progress::default() };
            self.store.checkpoint(self.new, NewRun { first, upper, chunks: &mut chunks }, &progress)?;
        }
        blocks.next_of(b'p')?.ok_or_else(|| wrong("a graph without its progress"))?;
        let mut reader = LogReader::new(self.old, graph.progress.upto);
        while let Some(bytes) = blocks.next_of(b'e')? {
            let [first, upper] = ticks_of(&bytes)?;
            if upper > piece.until {
                break;
            }
            if self.as_run != (upper <= piece.as_run) {
                self.write()?;
                self.as_run = !self.as_run;
            }
            self.group.push(Entry { graph: self.new, ..reader.decode(first, &bytes)? });
            self.copied.entries += 1;
            let enough = match self.as_run {
                true => self.group.iter().map(|entry| entry.mutations.rows.len()).sum::<usize>() >= ROWS_PER_RUN,
                false => self.group.iter().map(Entry::size).sum::<usize>() >= GROUP_BYTES,
            };
            if enough {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), StoreError> {
        if self.as_run { self.make_run() } else { self.append() }
    }

    fn make_run(&mut self) -> Result<(), StoreError> {
        let group = std::mem::take(&mut self.group);
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(()) };
        let (first, upper) = (first.first, last.upper);
        let pages = pages::run(&group);
        let nodes = pages.ids();
        let mut pages = pages.map(|chunk| Ok((Part::Newest, chunk)));
        let chunks = Indexing::new(&mut pages, nodes);
        let mut chunks = chunks.chain(batches::of_entries(&group));
        let progress = Progress { upto: upper, ..Progress::default() };
        self.store.checkpoint(self.new, NewRun { first, upper, chunks: &mut chunks }, &progress).map(drop)
    }

    fn append(&mut self) -> Result<(), StoreError> {
        let mut encoded = Vec::new();
        for entry in self.group.drain(..) {
            if !self.store.durable() {
                self.store.hold(&Arc::new(entry));
                continue;
            }
            let mut bytes = Vec::new();
            encode(&entry, self.after, &mut bytes)?;
            self.after = entry.upper;
            encoded.push((entry.first, bytes));
        }
        let entries: Vec<_> =
            encoded.iter().map(|(first, bytes)| EncodedEntry { graph: self.new, first: *first, bytes }).collect();
        if entries.is_empty() { Ok(()) } else { self.store.append(&entries, NewSymbols::default(), false) }
    }

    fn finish(mut self, progress: &Progress) -> Result<(), StoreError> {
        self.write()?;
        if *progress == Progress::default() {
            return Ok(());
        }
        // What the runs said of it was only how far they go.
        let nothing = NewRun { first: progress.upto, upper: progress.upto, chunks: &mut std::iter::empty() };
        self.store.checkpoint(self.new, nothing, progress).map(drop)
    }
}

/// The first and the upper tick of a run, from its head.
fn run_of(payload: &[u8]) -> Result<[Tick; 2], StoreError> {
    let mut reader = Reader(payload);
    Ok([reader.tick().map_err(wrong)?, reader.tick().map_err(wrong)?])
}

/// The first and the upper tick of an entry as it lies in the log.
fn ticks_of(bytes: &[u8]) -> Result<[Tick; 2], StoreError> {
    let mut reader = Reader(bytes.get(24..).ok_or_else(|| wrong("an early end"))?);
    Ok([reader.tick().map_err(wrong)?, reader.tick().map_err(wrong)?])
}

struct Blocks<'a> {
    from: &'a mut dyn Source,
    /// A block that was read and is for whoever comes next.
    ahead: Option<(u8, Vec<u8>)>,
    count: u64,
    /// Where the next block begins.
    bytes: u64,
    /// Over all checksums.
    all: crc32fast::Hasher,
}

impl Blocks<'_> {
    fn new(from: &mut dyn Source, bytes: u64) -> Blocks<'_> {
        Blocks { from, ahead: None, count: 0, bytes, all: crc32fast::Hasher::new() }
    }

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
        self.all.update(&crc);
        self.count += 1;
        self.bytes += (given.len() + payload.len() + crc.len()) as u64;
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

    fn chunk(&mut self) -> Result<Option<(Part, Vec<u8>)>, StoreError> {
        let Some(mut bytes) = self.next_of(b'c')? else { return Ok(None) };
        let part = bytes.first().and_then(|part| Part::ALL.get(usize::from(*part)));
        let part = *part.ok_or_else(|| wrong("a chunk of unknown kind"))?;
        bytes.remove(0);
        Ok(Some((part, bytes)))
    }
}

fn wrong(what: Wrong) -> StoreError {
    StoreError::Damaged { what: what.to_owned(), place: "the backup".to_owned(), hint: "use another backup" }
}
