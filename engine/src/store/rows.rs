//! The rows of mutations as bytes: each as what differs from the row before.
//!
//! Rows of one record share their node, the halves of an edge mirror each other, most numbers are small; so a row of 40
//! bytes takes about 10. Fewer bytes are less time: they are summed up, copied twice and written twice on their way to
//! the disk, which costs several times what the packing does.
//!
//!     1    node code 2 | record code 2 | removal 1 | kind 3
//!     1    bytes of payload.a 4 | bytes of payload.b 4
//!     1    symbol; 255: it follows in 4 bytes
//!     16   the node, if the code says so
//!     4    the record, if the code says so
//!     0-8  payload.a without its leading zero bytes, then payload.b likewise
//!
//! Little endian. Before the first row stand zeros.

use weir_model::mutation::{Payload, Row, Tag};
use weir_model::{NodeId, Symbol};

use super::bytes::Wrong;

const NODE_SAME: u8 = 0;
/// The other of the two nodes that were last.
const NODE_OTHER: u8 = 1;
const NODE_GIVEN: u8 = 2;
/// The other half of the edge before: node and payload change places, and no payload follows.
const NODE_MIRRORED: u8 = 3;

const RECORD_SAME: u8 = 0;
const RECORD_NEXT: u8 = 1;
const RECORD_GIVEN: u8 = 2;

const SYMBOL_GIVEN: u32 = 255;

const ROW_BYTES_MAX: usize = 1 + 1 + 5 + 16 + 4 + 16;
const ROW_BYTES_MIN: usize = 3;
/// Rows are packed on the stack, this many at a time.
const BLOCK_ROWS: usize = 64;

/// What a row is told from: the one before it, and the node before that one's.
#[derive(Clone, Copy)]
struct Before {
    node: NodeId,
    other: NodeId,
    record: u32,
    payload: Payload,
}

impl Before {
    const START: Before =
        Before { node: NodeId::new(0, 0), other: NodeId::new(0, 0), record: 0, payload: Payload { a: 0, b: 0 } };

    fn follow(&mut self, node: NodeId, record: u32, payload: Payload) {
        if node != self.node {
            self.other = self.node;
            self.node = node;
        }
        self.record = record;
        self.payload = payload;
    }
}

pub fn put_rows(out: &mut Vec<u8>, rows: &[Row]) {
    let mut before = Before::START;
    for block in rows.chunks(BLOCK_ROWS) {
        let mut packed = [0u8; BLOCK_ROWS * ROW_BYTES_MAX + 8];
        let mut end = 0;
        for row in block {
            let slot = packed[end..].first_chunk_mut().expect("the buffer has room for a block of the longest rows");
            end += put_row(slot, row, &before);
            before.follow(row.node, row.record(), row.payload);
        }
        out.extend_from_slice(&packed[..end]);
    }
}

/// Returns how many bytes the row takes. Numbers are stored whole and what comes next covers their zeros.
fn put_row(slot: &mut [u8; ROW_BYTES_MAX], row: &Row, before: &Before) -> usize {
    let mirrored = row.node == before.payload.as_node() && row.payload == Payload::node(before.node);
    let node_code = match row.node {
        _ if mirrored => NODE_MIRRORED,
        node if node == before.node => NODE_SAME,
        node if node == before.other => NODE_OTHER,
        _ => NODE_GIVEN,
    };
    let record = row.record();
    let record_code = match record.wrapping_sub(before.record) {
        0 => RECORD_SAME,
        1 => RECORD_NEXT,
        _ => RECORD_GIVEN,
    };
    let Payload { a, b } = if mirrored { Payload::default() } else { row.payload };
    let (a_bytes, b_bytes) = (significant(a), significant(b));
    slot[0] = node_code | record_code << 2 | u8::from(row.removes()) << 4 | (row.tag.kind() as u8) << 5;
    slot[1] = a_bytes as u8 | (b_bytes as u8) << 4;
    let mut at = 3;
    let symbol = row.tag.symbol().0;
    slot[2] = symbol.min(SYMBOL_GIVEN) as u8;
    if symbol >= SYMBOL_GIVEN {
        slot[at..at + 4].copy_from_slice(&symbol.to_le_bytes());
        at += 4;
    }
    if node_code == NODE_GIVEN {
        slot[at..at + 8].copy_from_slice(&row.node.high.to_le_bytes());
        slot[at + 8..at + 16].copy_from_slice(&row.node.low.to_le_bytes());
        at += 16;
    }
    if record_code == RECORD_GIVEN {
        slot[at..at + 4].copy_from_slice(&record.to_le_bytes());
        at += 4;
    }
    slot[at..at + 8].copy_from_slice(&a.to_le_bytes());
    at += a_bytes;
    slot[at..at + 8].copy_from_slice(&b.to_le_bytes());
    at + b_bytes
}

fn significant(number: u64) -> usize {
    8 - number.leading_zeros() as usize / 8
}

/// The inverse of `put_rows`; the bytes are those of exactly `count` rows.
pub fn take_rows(bytes: &[u8], count: u64) -> Result<Vec<Row>, Wrong> {
    // Checked first, so that a wrong count does not ask for more memory than there is.
    if count > (bytes.len() / ROW_BYTES_MIN) as u64 {
        return Err("more mutations than there are bytes for");
    }
    let mut rows = Vec::with_capacity(count as usize);
    let mut before = Before::START;
    let mut at = 0;
    for _ in 0..count {
        let (row, length) = take_row(bytes.get(at..).unwrap_or_default(), &before)?;
        before.follow(row.node, row.record(), row.payload);
        rows.push(row);
        at += length;
    }
    if at == bytes.len() { Ok(rows) } else { Err("mutations that do not end where they should") }
}

/// The row and how many bytes it took; more than there are is noticed at the end of them all.
fn take_row(bytes: &[u8], before: &Before) -> Result<(Row, usize), Wrong> {
    let [codes, lengths, short_symbol] = *bytes.first_chunk().ok_or("an early end")?;
    let mut at = ROW_BYTES_MIN;
    let symbol = if u32::from(short_symbol) == SYMBOL_GIVEN {
        at += 4;
        load(bytes, at - 4) as u32
    } else {
        short_symbol.into()
    };
    if symbol >> Tag::SYMBOL_BITS != 0 {
        return Err("a symbol that is too large");
    }
    let node_code = codes & 3;
    let node = match node_code {
        NODE_SAME => before.node,
        NODE_OTHER => before.other,
        NODE_MIRRORED => before.payload.as_node(),
        _ => {
            at += 16;
            NodeId::new(load(bytes, at - 16), load(bytes, at - 8))
        }
    };
    let record = match codes >> 2 & 3 {
        RECORD_SAME => before.record,
        RECORD_NEXT => before.record.wrapping_add(1),
        RECORD_GIVEN => {
            at += 4;
            load(bytes, at - 4) as u32
        }
        _ => return Err("a code of no meaning"),
    };
    let (a_bytes, b_bytes) = (usize::from(lengths & 15), usize::from(lengths >> 4));
    if a_bytes > 8 || b_bytes > 8 {
        return Err("a code of no meaning");
    }
    let a = first_bytes(load(bytes, at), a_bytes);
    at += a_bytes;
    let b = first_bytes(load(bytes, at), b_bytes);
    at += b_bytes;
    let payload = if node_code == NODE_MIRRORED { Payload::node(before.node) } else { Payload { a, b } };
    let kind_and_symbol = u32::from(codes >> 5) << Tag::SYMBOL_BITS | Symbol(symbol).0;
    let when = record << 1 | u32::from(codes >> 4 & 1);
    Ok((Row { node, tag: Tag(kind_and_symbol), when, payload }, at))
}

/// Eight bytes, or as many as there are and zeros.
fn load(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(whole) => u64::from_le_bytes(*whole),
        None => rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

fn first_bytes(number: u64, count: usize) -> u64 {
    if count == 8 { number } else { number & ((1 << (8 * count)) - 1) }
}

#[cfg(test)]
mod tests {
    use weir_model::random::STEP;

    use super::*;

    /// Numbers that are small, large or in between, and repeat themselves.
    fn row(n: u64) -> Row {
        let mixed = n.wrapping_mul(STEP);
        let number = |shift: u64| mixed.rotate_left(shift as u32) >> (mixed.rotate_left(13 + shift as u32) % 64);
        let node = |shift: u64| NodeId::new(number(shift) % 3, (number(shift + 7) % 2) << 60);
        let symbol = Symbol(number(3) as u32 % [10, 254, 255, 256, 1 << 29][mixed as usize % 5]);
        let tag = Tag((mixed as u32 % 8) << Tag::SYMBOL_BITS | symbol.0);
        let payload = if mixed.is_multiple_of(3) { Payload::node(node(5)) } else { Payload { a: number(17), b: number(29) } };
        Row { node: node(1), tag, when: number(40) as u32 >> (mixed % 32), payload }
    }

    fn text(rows: &[Row]) -> String {
        format!("{rows:?}")
    }

    #[test]
    fn come_back_as_they_were() {
        for count in [0, 1, 63, 64, 65, 100_000] {
            let rows: Vec<Row> = (0..count).map(row).collect();
            let mut bytes = b"before".to_vec();
            put_rows(&mut bytes, &rows);
            let found = take_rows(&bytes[6..], count).unwrap();
            assert!(text(&found) == text(&rows));
        }
    }

    #[test]
    fn the_longest_row_fits() {
        let all = u64::MAX;
        let longest =
            Row { node: NodeId::new(all, all), tag: Tag(u32::MAX), when: u32::MAX, payload: Payload { a: all, b: all - 1 } };
        let other = Row { node: NodeId::new(all, 1), when: 5, ..longest };
        let third = Row { node: NodeId::new(all, 2), when: 900, ..longest };
        let rows: Vec<Row> = (0..200).map(|n| [longest, other, third][n % 3]).collect();
        let mut bytes = Vec::new();
        put_rows(&mut bytes, &rows);
        assert_eq!(bytes.len(), rows.len() * ROW_BYTES_MAX);
        assert_eq!(text(&take_rows(&bytes, 200).unwrap()), text(&rows));
    }

    #[test]
    fn cut_or_changed_bytes_are_an_error_or_rows_but_no_panic() {
        let rows: Vec<Row> = (0..100).map(row).collect();
        let mut bytes = Vec::new();
        put_rows(&mut bytes, &rows);
        for cut in 0..bytes.len() {
            assert!(take_rows(&bytes[..cut], 100).is_err(), "cut at {cut}");
        }
        assert!(take_rows(&bytes, 101).is_err());
        assert!(take_rows(&bytes, 99).is_err());
        assert!(take_rows(&bytes, u64::MAX).is_err());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let _ = take_rows(&changed, 100);
        }
    }
}
