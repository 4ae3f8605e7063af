//! Keys: how stores of keys and values file what they are given, in three families.
//!
//!     log     graph 4, tick 8                  -> entry
//!     pages   graph 4, run 8, part and chunk 8 -> chunk, sealed
//!     meta    'g' graph 4                      -> name and options of a graph
//!             'p' graph 4                      -> progress
//!             'r' graph 4, run 8               -> a run that is complete
//!             's' number 4                     -> string of a symbol
//!             'm' key                          -> metadata
//!             'n'                              -> the next graph's number
//!
//! Numbers are big endian, so that keys sort as they do.

use weir_model::Tick;

use super::{GraphId, Part, RunId};

pub fn log_key(graph: GraphId, tick: Tick) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&graph.0.to_be_bytes());
    key[4..].copy_from_slice(&tick.0.to_be_bytes());
    key
}

pub fn take_log_key(key: &[u8]) -> Option<(GraphId, Tick)> {
    let (graph, tick) = key.split_first_chunk()?;
    Some((GraphId(u32::from_be_bytes(*graph)), Tick(u64::from_be_bytes(tick.try_into().ok()?))))
}

/// The two highest bits of the number say the part, so that those lie one after another.
pub fn page_key(graph: GraphId, run: RunId, part: Part, chunk: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..4].copy_from_slice(&graph.0.to_be_bytes());
    key[4..12].copy_from_slice(&run.0.to_be_bytes());
    key[12..].copy_from_slice(&((part as u64) << 62 | chunk).to_be_bytes());
    key
}

/// Where the chunks of a run begin.
pub fn run_pages(graph: GraphId, run: RunId) -> [u8; 20] {
    page_key(graph, run, Part::Newest, 0)
}

pub fn take_page_key(key: &[u8]) -> Option<(GraphId, RunId)> {
    let key: &[u8; 20] = key.try_into().ok()?;
    let run = key[4..12].try_into().ok()?;
    Some((GraphId(take_number(&key[..4])?), RunId(u64::from_be_bytes(run))))
}

fn numbered(kind: u8, number: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

pub fn graph_key(graph: GraphId) -> [u8; 5] {
    numbered(b'g', graph.0)
}

pub fn progress_key(graph: GraphId) -> [u8; 5] {
    numbered(b'p', graph.0)
}

pub fn symbol_key(number: u32) -> [u8; 5] {
    numbered(b's', number)
}

pub fn run_key(graph: GraphId, run: RunId) -> [u8; 13] {
    let mut key = [b'r'; 13];
    key[1..5].copy_from_slice(&graph.0.to_be_bytes());
    key[5..].copy_from_slice(&run.0.to_be_bytes());
    key
}

pub fn metadata_key(key: &str) -> Vec<u8> {
    [b"m", key.as_bytes()].concat()
}

pub fn take_number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// The smallest key that is larger than every key with this prefix.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Nothing but 0xff: beyond every key in use here.
    vec![u8::MAX; prefix.len() + 32]
}

/// Before the records of a graph's runs.
pub fn runs_prefix(graph: GraphId) -> Vec<u8> {
    numbered(b'r', graph.0).to_vec()
}
