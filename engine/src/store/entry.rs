//! Entry: one committed batch as the log keeps it, and its bytes.
//!
//!     version 1 | zero 3 | crc 4 | length 8 | graph 4 | zero 4 | first 8 | upper 8 | after 8
//!     number of rows 8 | bytes of rows 8 | bytes of arena 8
//!     rows (see `rows`) | arena | sources | delivered
//!
//! In version 2, which is taken where it is shorter, rows and arena are packed together by zstd, behind the number of bytes 8
//! that they take so.
//!
//! Little endian. The checksum covers every other byte. `after` is the end of the graph's entry before this one, as far
//! as the process that wrote it knew: a lost entry is noticed although everything around it is sound.

use std::cell::RefCell;
use std::sync::Arc;

use weir_model::mutation::Row;
use weir_model::{Mutations, Position, QueryId, Text, Tick, codec};

use super::bytes::{Reader, Wrong, put_delivered, put_sources};
use super::rows::{put_rows, take_rows};
use super::{GraphId, StoreError};

const PLAIN: u8 = 1;
const PACKED: u8 = 2;
const HEAD_BYTES: usize = 72;

/// Fewer bytes of rows and arena are not worth the time, of which whoever waits for them has little.
const PACKED_FROM: usize = 2 << 10;

/// As fast as LZ4, and shorter by a seventh.
const LEVEL: i32 = -3;

thread_local! {
    /// Each is made once: that takes as long as a small entry does.
    static PACKER: RefCell<zstd::bulk::Compressor<'static>> = RefCell::default();
    static UNPACKER: RefCell<zstd::bulk::Decompressor<'static>> = RefCell::default();
}

/// A committed batch. It takes at least one tick, even without mutations, so `first` names it within its graph.
#[derive(Clone, Debug)]
pub struct Entry {
    pub graph: GraphId,
    /// The tick of the batch's first record; record i has tick `first + i`.
    pub first: Tick,
    /// The tick after its last record.
    pub upper: Tick,
    pub mutations: Arc<Mutations>,
    /// Where sources stand after the batch.
    pub sources: Vec<(Text, Position)>,
    /// Deliveries that were reported since the entry before.
    pub delivered: Vec<Delivered>,
}

/// How far the results of a standing query were delivered to one of its outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    pub query: QueryId,
    pub output: Text,
    pub tick: Tick,
    /// The output's own mark, such as the offset it reached.
    pub position: Position,
}

impl Delivered {
    /// Said of an output that is gone, so that nothing is kept of it.
    pub fn gone(query: QueryId, output: Text) -> Delivered {
        Delivered { query, output, tick: Tick::MAX, position: Position::default() }
    }

    pub fn is_gone(&self) -> bool {
        self.tick == Tick::MAX
    }
}

impl Entry {
    /// About the bytes it takes in memory; in the log it takes fewer.
    pub fn size(&self) -> usize {
        // A position may be far larger than what it stands for: that of records over HTTP holds the keys of requests.
        let sources = self.sources.iter().map(|(_, position)| position);
        let positions = sources.chain(self.delivered.iter().map(|delivered| &delivered.position));
        HEAD_BYTES
            + self.mutations.rows.len() * size_of::<Row>()
            + self.mutations.arena.len()
            + positions.map(|position| 64 + position.0.len()).sum::<usize>()
    }
}

/// The bytes of an entry with what a store needs to file them.
#[derive(Clone, Copy)]
pub struct EncodedEntry<'a> {
    pub graph: GraphId,
    pub first: Tick,
    pub bytes: &'a [u8],
}

/// Appends the bytes of an entry. Fails only for an entry that could not be read back, which is a mistake of ours that
/// must not be acknowledged.
pub fn encode(entry: &Entry, after: Tick, out: &mut Vec<u8>) -> Result<(), StoreError> {
    let start = out.len();
    let Mutations { rows, arena, .. } = &*entry.mutations;
    let well_formed =
        entry.first < entry.upper && after <= entry.first && rows.iter().all(|row| fits(row, entry.first, entry.upper, arena));
    if !well_formed {
        let place = format!("the entry {}..{} of graph {} about to be written", entry.first, entry.upper, entry.graph.0);
        return Err(StoreError::damaged("ticks or mutations that contradict each other", place));
    }
    out.extend_from_slice(&[PLAIN, 0, 0, 0]);
    out.extend_from_slice(&[0; 12]);
    out.extend_from_slice(&entry.graph.0.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for number in [entry.first.0, entry.upper.0, after.0, rows.len() as u64, 0, arena.len() as u64] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    put_rows(out, rows);
    let row_bytes = (out.len() - start - HEAD_BYTES) as u64;
    out[start + 56..start + 64].copy_from_slice(&row_bytes.to_le_bytes());
    out.extend_from_slice(arena);
    if let Some(packed) = pack(&out[start + HEAD_BYTES..]) {
        out[start] = PACKED;
        out.truncate(start + HEAD_BYTES);
        out.extend_from_slice(&(packed.len() as u64).to_le_bytes());
        out.extend_from_slice(&packed);
    }
    put_sources(out, &entry.sources);
    put_delivered(out, &entry.delivered);
    let length = (out.len() - start) as u64;
    out[start + 8..start + 16].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(&out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// None where they would not become shorter.
pub fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() < PACKED_FROM {
        return None;
    }
    let packed = PACKER.with_borrow_mut(|packer| {
        packer.set_compression_level(LEVEL)?;
        packer.compress(bytes)
    });
    packed.ok().filter(|packed| packed.len() + size_of::<u64>() < bytes.len())
}

/// The inverse of `pack`, for what was `length` bytes.
pub fn unpack(packed: &[u8], length: u64) -> Result<Vec<u8>, Wrong> {
    const WRONG: Wrong = "mutations that cannot be unpacked";
    if zstd::decompressed_size(packed) != Some(length) {
        return Err(WRONG);
    }
    let mut bytes = Vec::new();
    // Whatever the bytes say, there may not be as much memory.
    usize::try_from(length).ok().and_then(|length| bytes.try_reserve_exact(length).ok()).ok_or(WRONG)?;
    let unpacked = UNPACKER.with_borrow_mut(|unpacker| unpacker.decompress_to_buffer(packed, &mut bytes));
    unpacked.map(|_| bytes).map_err(|_| WRONG)
}

/// Of everything but the checksum itself.
fn checksum(entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&entry[..4]);
    hasher.update(&entry[8..]);
    hasher.finalize()
}

/// Whether a row belongs to a record of the entry and points into its arena.
fn fits(row: &Row, first: Tick, upper: Tick, arena: &[u8]) -> bool {
    u64::from(row.record()) < upper.0 - first.0 && codec::payload_in_range(row.tag, row.payload, arena.len())
}

/// Reads the entries of a graph one after another, each checked by itself and against the one before.
pub struct LogReader {
    graph: GraphId,
    /// The end of the entry before; at first, where reading began.
    upper: Tick,
    first: bool,
}

impl LogReader {
    pub fn new(graph: GraphId, from: Tick) -> LogReader {
        LogReader { graph, upper: from, first: true }
    }

    /// `first` is the tick the entry was filed under.
    pub fn decode(&mut self, first: Tick, bytes: &[u8]) -> Result<Entry, StoreError> {
        self.check(first, bytes)
            .map_err(|wrong| StoreError::damaged(wrong, format!("the log of graph {}, entry at tick {first}", self.graph.0)))
    }

    fn check(&mut self, first: Tick, bytes: &[u8]) -> Result<Entry, Wrong> {
        let (entry, after) = decode(bytes)?;
        if entry.graph != self.graph || entry.first != first {
            return Err("an entry that belongs elsewhere");
        }
        if entry.first < self.upper {
            return Err("an entry that overlaps the one before");
        }
        // Zero: the first entry of a process, which does not say what came before.
        let gap = if self.first { after > self.upper } else { after != Tick::ZERO && after != self.upper };
        if gap {
            return Err("an entry before this one is missing");
        }
        self.upper = entry.upper;
        self.first = false;
        Ok(entry)
    }
}

/// The entry and its `after`.
fn decode(bytes: &[u8]) -> Result<(Entry, Tick), Wrong> {
    let mut reader = Reader(bytes);
    let [version, ..] = reader.array::<4>()?;
    let crc = reader.u32()?;
    if crc != checksum(bytes) {
        return Err("a checksum that does not match");
    }
    if version != PLAIN && version != PACKED {
        return Err("an entry of a format this version does not know");
    }
    if reader.u64()? != bytes.len() as u64 {
        return Err("a length that does not match");
    }
    let graph = GraphId(reader.u32()?);
    reader.u32()?;
    let (first, upper, after) = (reader.tick()?, reader.tick()?, reader.tick()?);
    let (row_count, row_bytes, arena_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let unpacked;
    let (row_bytes, arena) = if version == PACKED {
        let packed_bytes = reader.u64()?;
        let length = row_bytes.checked_add(arena_bytes).ok_or("lengths without end")?;
        unpacked = unpack(reader.take(packed_bytes)?, length)?;
        let mut both = Reader(&unpacked);
        (both.take(row_bytes)?, both.take(arena_bytes)?)
    } else {
        (reader.take(row_bytes)?, reader.take(arena_bytes)?)
    };
    let sources = reader.sources()?;
    let delivered = reader.delivered()?;
    reader.end()?;

    if first >= upper {
        return Err("ticks in the wrong order");
    }
    let mut mutations = Mutations::default();
    mutations.rows = take_rows(row_bytes, row_count)?;
    mutations.arena = arena.to_vec();
    if !mutations.rows.iter().all(|row| fits(row, first, upper, arena)) {
        return Err("a mutation that points outside of its entry");
    }
    let entry = Entry { graph, first, upper, mutations: Arc::new(mutations), sources, delivered };
    Ok((entry, after))
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{entry, same};
    use super::*;

    /// Enough records to be worth packing.
    const PACKED_RECORDS: u64 = 100;

    fn bytes_of(entry: &Entry) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(entry, Tick::ZERO, &mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Entry, StoreError> {
        LogReader::new(GraphId(3), Tick::ZERO).decode(Tick(100), bytes)
    }

    #[test]
    fn comes_back_as_it_was() {
        for records in [0, 1, 2, 1000] {
            let written = entry(GraphId(3), 100, records);
            assert!(same(&read(&bytes_of(&written)).unwrap(), &written));
        }
    }

    #[test]
    fn what_positions_hold_counts() {
        let (small, mut large) = (entry(GraphId(3), 100, 2), entry(GraphId(3), 100, 2));
        large.sources[0].1.0.extend([0; 100_000]);
        large.delivered[0].position.0.extend([0; 1_000]);
        assert_eq!(large.size(), small.size() + 101_000);
    }

    #[test]
    fn follows_others_in_a_buffer() {
        let mut bytes = b"before".to_vec();
        let written = entry(GraphId(3), 100, 2);
        encode(&written, Tick::ZERO, &mut bytes).unwrap();
        assert!(same(&read(&bytes[6..]).unwrap(), &written));
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_noticed() {
        for (records, version) in [(3, PLAIN), (PACKED_RECORDS, PACKED)] {
            let whole = bytes_of(&entry(GraphId(3), 100, records));
            assert_eq!(whole[0], version);
            every_change_is_noticed(&whole);
        }
    }

    fn every_change_is_noticed(whole: &[u8]) {
        for at in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] ^= flip;
                let error = read(&bytes).unwrap_err().to_string();
                assert!(error.contains("the log of graph 3, entry at tick 0.100"), "{error}");
            }
            assert!(matches!(read(&whole[..at]), Err(StoreError::Damaged { .. })), "cut at {at}");
        }
        let longer = [whole, b"x"].concat();
        assert!(matches!(read(&longer), Err(StoreError::Damaged { .. })));
    }

    /// Whatever the bytes say, even with a right checksum: an error or an entry, never a panic.
    #[test]
    fn bytes_with_a_right_checksum_are_checked_too() {
        bytes_are_checked(&bytes_of(&entry(GraphId(3), 100, 3)));
        bytes_are_checked(&bytes_of(&entry(GraphId(3), 100, PACKED_RECORDS)));
    }

    fn bytes_are_checked(whole: &[u8]) {
        let mut refused = 0;
        for at in 8..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.to_vec();
                bytes[at] = value;
                let crc = checksum(&bytes);
                bytes[4..8].copy_from_slice(&crc.to_le_bytes());
                match read(&bytes) {
                    Ok(entry) => {
                        for row in &entry.mutations.rows {
                            let _ = codec::fact_key(row.tag, row.payload, &entry.mutations.arena);
                            let _ = codec::decode_payload(row.payload, &entry.mutations.arena);
                        }
                    }
                    Err(StoreError::Damaged { .. }) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        assert!(refused > 100, "only {refused} were refused");
    }

    #[test]
    fn an_entry_that_contradicts_itself_is_not_written() {
        let mut bytes = Vec::new();
        let good = entry(GraphId(3), 100, 3);
        for bad in [Entry { upper: Tick(100), ..good.clone() }, Entry { upper: Tick(102), ..good.clone() }] {
            assert!(encode(&bad, Tick::ZERO, &mut bytes).is_err());
        }
        let mut rootless = (*good.mutations).clone();
        rootless.arena.clear();
        assert!(encode(&Entry { mutations: Arc::new(rootless), ..good }, Tick::ZERO, &mut bytes).is_err());
        assert!(bytes.is_empty());
    }

    #[test]
    fn entries_out_of_place_or_order_are_noticed() {
        let bytes = bytes_of(&entry(GraphId(3), 100, 3));
        assert!(LogReader::new(GraphId(4), Tick::ZERO).decode(Tick(100), &bytes).is_err());
        assert!(LogReader::new(GraphId(3), Tick::ZERO).decode(Tick(101), &bytes).is_err());
        assert!(LogReader::new(GraphId(3), Tick(101)).decode(Tick(100), &bytes).is_err());
        let mut reader = LogReader::new(GraphId(3), Tick::ZERO);
        reader.decode(Tick(100), &bytes).unwrap();
        assert!(reader.decode(Tick(100), &bytes).is_err());
    }
}
