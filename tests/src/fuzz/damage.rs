//! How bytes are changed: a few places of something well-formed, so that most of it still means what it did.

use crate::random::Random;

/// Longer than this no input gets.
const LENGTH_MAX: usize = 200_000;
/// Long inputs take as long as many short ones, and what they find is depth: that many are enough.
const LONG_ONE_IN: u64 = 200;

/// Numbers at the edges of what lengths and counts can be.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// `words` mean something in this format, `others` are further inputs of it.
pub fn damage(random: &mut Random, bytes: &mut Vec<u8>, words: &[&[u8]], other: &[u8]) {
    let long = random.once_in(LONG_ONE_IN);
    let mut below = |bound: usize| random.below(bound.max(1) as u64) as usize;
    let at = below(bytes.len() + 1);
    let end = (at + 1 + below(16)).min(bytes.len());
    match below(11) {
        0 if at < bytes.len() => bytes[at] ^= 1 << below(8),
        1 if at < bytes.len() => bytes[at] = below(256) as u8,
        2 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\n'][below(8)],
        3 => drop(bytes.drain(at..end.max(at))),
        4 => bytes.truncate(at),
        5 | 6 if !words.is_empty() => drop(bytes.splice(at..at, words[below(words.len())].iter().copied())),
        // Numbers, in either order, over what was there.
        7 => {
            let (edge, width) = (EDGES[below(EDGES.len())], [1, 2, 4, 8][below(4)]);
            let number =
                if below(2) == 0 { edge.to_be_bytes()[8 - width..].to_vec() } else { edge.to_le_bytes()[..width].to_vec() };
            let over = (at + if below(2) == 0 { width } else { 0 }).min(bytes.len());
            drop(bytes.splice(at..over, number));
        }
        // A number of seven bits a byte, over what was there.
        8 => {
            let mut edge = EDGES[below(EDGES.len())];
            let mut number = Vec::new();
            while edge >= 0x80 {
                number.push(edge as u8 | 0x80);
                edge >>= 7;
            }
            number.push(edge as u8);
            drop(bytes.splice(at..(at + below(2)).min(bytes.len()), number));
        }
        9 => {
            let from = below(other.len() + 1);
            let piece = &other[from..(from + 1 + below(64)).min(other.len()).max(from)];
            drop(bytes.splice(at..at, piece.iter().copied()));
        }
        // Again and again: what nests, nests deep.
        _ => {
            let piece = bytes[at..end.max(at)].to_vec();
            let times = if long { [300, 3_000, 30_000] } else { [2, 8, 140] }[below(3)];
            let again = piece.repeat(times.min(LENGTH_MAX / piece.len().max(1)));
            drop(bytes.splice(at..at, again));
        }
    }
    bytes.truncate(LENGTH_MAX);
}
