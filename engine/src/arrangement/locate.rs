//! Locate: where many nodes lie in the batches of a shard, found together. Most of finding a node is waiting for memory, and so
//! many waits become one.

use weir_model::NodeId;

use super::batch::Hit;
use super::facts::Part;
use super::prefetch::prefetch;
use super::trace::SharedBatch;

/// A node in one batch.
#[derive(Clone, Copy, Default)]
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
    hits: Vec<Hit>,
    /// What was found, batch by batch.
    all: Vec<Found>,
    /// By node: where what is found of it goes.
    next: Vec<u32>,
}

impl Locator {
    /// As `find`, and fetches what each is made of.
    pub fn locate(&mut self, nodes: &[NodeId], batches: &[SharedBatch]) -> Vec<Found> {
        let all = self.find(nodes, batches);
        parts(batches, &all).filter_map(|part| part.facts.first()).for_each(prefetch);
        all
    }

    /// What batches, given oldest first, know of nodes: by node, newest first.
    pub fn find(&mut self, nodes: &[NodeId], batches: &[SharedBatch]) -> Vec<Found> {
        crate::memory::attend();
        self.all.clear();
        self.open.clear();
        self.open.extend(0..nodes.len() as u32);
        for (number, batch) in batches.iter().enumerate().rev() {
            batch.locate(nodes, &self.open, &mut self.hits);
            self.all.extend(self.hits.iter().map(|hit| Found { node: hit.index, batch: number as u32, position: hit.place }));
            if number > 0 {
                batch.close(&mut self.open, &self.hits);
            }
        }
        self.by_node(nodes.len())
    }

    /// Brings what was found into the order of nodes.
    fn by_node(&mut self, nodes: usize) -> Vec<Found> {
        let Locator { all, next, .. } = self;
        next.clear();
        next.resize(nodes + 1, 0);
        all.iter().for_each(|found| next[found.node as usize + 1] += 1);
        for node in 1..nodes {
            next[node] += next[node - 1];
        }
        let mut sorted = vec![Found::default(); all.len()];
        for found in all {
            let next = &mut next[found.node as usize];
            sorted[*next as usize] = *found;
            *next += 1;
        }
        sorted
    }
}

/// Goes through all nodes of a shard in the order of ids, some at a time.
pub struct Through {
    /// The next node of each batch.
    places: Vec<u32>,
    pub nodes: Vec<NodeId>,
    /// Where they lie, by node.
    pub found: Vec<Found>,
}

impl Through {
    pub fn begin(batches: &[SharedBatch]) -> Through {
        Through { places: vec![0; batches.len()], nodes: Vec::new(), found: Vec::new() }
    }

    /// Goes on to the next nodes, at most `most`, and fetches what each is made of. None at the end.
    pub fn go_on(&mut self, batches: &[SharedBatch], most: usize) {
        crate::memory::attend();
        let Through { places, nodes, found } = self;
        nodes.clear();
        found.clear();
        while nodes.len() < most {
            let ids = batches.iter().zip(&*places).filter_map(|(batch, place)| batch.ids.get(*place as usize));
            let Some(id) = ids.min().copied() else { break };
            let node = nodes.len() as u32;
            nodes.push(id);
            for (number, (batch, place)) in batches.iter().zip(&mut *places).enumerate().rev() {
                if batch.ids.get(*place as usize) == Some(&id) {
                    found.push(Found { node, batch: number as u32, position: *place });
                    *place += 1;
                }
            }
        }
        parts(batches, found).filter_map(|part| part.facts.first()).for_each(prefetch);
    }
}

/// Those of each node, given what was found of several.
pub fn by_node(mut found: &[Found], nodes: usize) -> impl Iterator<Item = &[Found]> {
    (0..nodes).map(move |node| {
        let count = found.iter().take_while(|found| found.node as usize == node).count();
        found.split_off(..count).unwrap_or_default()
    })
}

/// What the batches know of a node, given where they know it.
pub fn parts<'a>(batches: &'a [SharedBatch], found: &[Found]) -> impl Iterator<Item = Part<'a>> {
    found.iter().map(|found| batches[found.batch as usize].part(found.position as usize))
}
