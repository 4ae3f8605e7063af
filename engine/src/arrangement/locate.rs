//! Locate: where many nodes lie in the batches of a shard, found together. Most of finding a node is waiting for memory, and so many
//! waits become one.

use weir_model::NodeId;

use super::facts::{LOOKED_AT_LAST, Part};
use super::prefetch::{prefetch, prefetch_all};
use super::trace::SharedBatch;

/// A node in one batch.
#[derive(Clone, Copy)]
pub struct Found {
    /// Its place among those that were asked for.
    pub node: u32,
    batch: u32,
    position: u32,
}

/// Reused from time to time.
#[derive(Default)]
pub struct Locator {
    /// The nodes that older batches may know.
    open: Vec<u32>,
    scratch: Vec<(u32, u32)>,
}

impl Locator {
    /// By node, newest first. The batches are given oldest first.
    pub fn locate(&mut self, nodes: &[NodeId], batches: &[SharedBatch]) -> Vec<Found> {
        crate::memory::attend();
        let mut all = Vec::with_capacity(nodes.len());
        self.open.clear();
        self.open.extend(0..nodes.len() as u32);
        for (number, batch) in batches.iter().enumerate().rev() {
            let found = |node, position| {
                batch.node(position as usize).1.first().inspect(|fact| prefetch(*fact));
                all.push(Found { node, batch: number as u32, position });
            };
            batch.locate(nodes, &mut self.open, &mut self.scratch, found);
        }
        all.sort_by_key(|found| found.node);
        all
    }

    /// Fetches what will be read to find these nodes and, of their facts, the last: those of nodes with many edges lie before their
    /// properties.
    pub fn fetch(&mut self, nodes: &[NodeId], batches: &[SharedBatch]) {
        self.open.clear();
        self.open.extend(0..nodes.len() as u32);
        for batch in batches.iter().rev() {
            batch.locate(nodes, &mut self.open, &mut self.scratch, |_, position| {
                let (_, facts) = batch.node(position as usize);
                prefetch_all(&facts[facts.len().saturating_sub(LOOKED_AT_LAST)..]);
            });
        }
    }
}

/// What the batches know of a node, given where they know it.
pub fn parts<'a>(batches: &'a [SharedBatch], found: &[Found]) -> impl Iterator<Item = Part<'a>> {
    found.iter().map(|found| batches[found.batch as usize].part(found.position as usize))
}
