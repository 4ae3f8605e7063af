//! Chunks that were read lately, for all graphs of an engine, up to a bound.

use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use weir_model::lock::lock;

use crate::arrangement::chunk::Chunk;
use crate::memory::at_most;
use crate::store::{GraphId, Part, RunId};

/// Room for some dozens of chunks: those of a few nodes, in every run.
const BYTES_MAX: usize = 64 << 20;

fn bytes_max() -> usize {
    at_most(BYTES_MAX, 32)
}

pub type Key = (GraphId, RunId, Part, u64);

#[derive(Default)]
pub struct ChunkCache {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    chunks: FxHashMap<Key, (Arc<Chunk>, u64)>,
    bytes: usize,
    /// Counts the questions, so that the chunk that was asked for longest ago is known.
    clock: u64,
}

impl ChunkCache {
    pub fn get(&self, key: &Key) -> Option<Arc<Chunk>> {
        let mut held = lock(&self.held);
        held.clock += 1;
        let clock = held.clock;
        let (chunk, used) = held.chunks.get_mut(key)?;
        *used = clock;
        Some(chunk.clone())
    }

    /// What is not worth keeping takes room only where there is some: a scan must not push out everything else.
    pub fn put(&self, key: Key, chunk: &Arc<Chunk>, keep: bool) {
        let (bytes, most) = (chunk.bytes(), bytes_max());
        let mut held = lock(&self.held);
        if held.bytes + bytes > most && !keep || bytes > most {
            return;
        }
        held.clock += 1;
        let clock = held.clock;
        if held.chunks.insert(key, (chunk.clone(), clock)).is_none() {
            held.bytes += bytes;
        }
        if held.bytes > most {
            held.make_room(most / 8 * 7);
        }
    }

    /// Lets go of the chunks of runs that are gone.
    pub fn forget(&self, graph: GraphId, runs: &[RunId]) {
        let mut held = lock(&self.held);
        held.chunks.retain(|(of, run, ..), _| *of != graph || !runs.contains(run));
        held.bytes = held.chunks.values().map(|(chunk, _)| chunk.bytes()).sum();
    }
}

impl Held {
    /// Lets go of what was asked for longest ago, an eighth of it all, so that this is done now and then only.
    fn make_room(&mut self, until: usize) {
        let mut by_use: Vec<(u64, Key)> = self.chunks.iter().map(|(key, (_, used))| (*used, *key)).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if self.bytes <= until {
                break;
            }
            if let Some((chunk, _)) = self.chunks.remove(&key) {
                self.bytes -= chunk.bytes();
            }
        }
    }
}
