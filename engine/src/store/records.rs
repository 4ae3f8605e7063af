//! The small records of a store as bytes, each sealed with a checksum over its key and its value, so that a value that
//! turns up under another key is noticed too.

use super::bytes::{Reader, Wrong, put_block, put_delivered, put_sources};
use super::{GraphId, GraphInfo, Progress, RunId, RunInfo};

const SEAL_BYTES: usize = 4;

/// Adds the checksum to the end of a value.
pub fn seal(key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    let crc = checksum(key, &value);
    value.extend_from_slice(&crc.to_le_bytes());
    value
}

/// The value without its checksum, if that is right.
pub fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], Wrong> {
    let (value, crc) = sealed.split_last_chunk::<SEAL_BYTES>().ok_or("an early end")?;
    if u32::from_le_bytes(*crc) == checksum(key, value) { Ok(value) } else { Err("a checksum that does not match") }
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(value);
    hasher.finalize()
}

pub fn put_graph(name: &str, options: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_block(&mut out, name.as_bytes());
    put_block(&mut out, options);
    out
}

pub fn take_graph(id: GraphId, bytes: &[u8]) -> Result<GraphInfo, Wrong> {
    let mut reader = Reader(bytes);
    let info = GraphInfo { id, name: reader.text()?.to_owned(), options: reader.block()?.to_vec() };
    reader.end()?;
    Ok(info)
}

pub fn put_run(run: &RunInfo) -> Vec<u8> {
    let [newest, older, index, batches] = run.chunks;
    [run.first.0, run.upper.0, newest, run.bytes, older, index, batches].iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub fn take_run(id: RunId, bytes: &[u8]) -> Result<RunInfo, Wrong> {
    let mut reader = Reader(bytes);
    let [first, upper] = [reader.tick()?, reader.tick()?];
    let [newest, bytes] = [reader.u64()?, reader.u64()?];
    // Runs of format 2 have one part, and no index of it.
    let [older, index] = if reader.0.is_empty() { [0, 0] } else { [reader.u64()?, reader.u64()?] };
    // Those before format 7 do not say what sources brought.
    let batches = if reader.0.is_empty() { 0 } else { reader.u64()? };
    reader.end()?;
    Ok(RunInfo { id, first, upper, chunks: [newest, older, index, batches], bytes })
}

pub fn put_progress(progress: &Progress) -> Vec<u8> {
    let mut out = progress.upto.0.to_le_bytes().to_vec();
    put_sources(&mut out, &progress.sources);
    put_delivered(&mut out, &progress.delivered);
    out
}

pub fn take_progress(bytes: &[u8]) -> Result<Progress, Wrong> {
    let mut reader = Reader(bytes);
    let progress = Progress { upto: reader.tick()?, sources: reader.sources()?, delivered: reader.delivered()? };
    reader.end()?;
    Ok(progress)
}
