//! Numbering: the nodes of a run in the order of their ids. An edge is written with the number of the node at its other end,
//! which takes three bytes where an id takes sixteen.

use std::ops::Range;

use weir_model::NodeId;

/// Stands for a number that no node has; such an id is written as it is.
pub const NOBODY: NodeId = NodeId::new(u64::MAX, u64::MAX);

/// About this many nodes share a slot.
const NODES_PER_SLOT: usize = 4;

/// What is known of numbers: whether the node has facts, and whether it is at the end of an edge.
#[derive(Default)]
pub struct Marks(Vec<u8>);

impl Marks {
    const HAS_FACTS: u8 = 1;
    const IS_AN_END: u8 = 2;

    fn of(count: usize) -> Marks {
        Marks(vec![0; count])
    }

    pub fn has_facts(&mut self, number: u32) {
        self.set(number, Marks::HAS_FACTS);
    }

    pub fn is_an_end(&mut self, number: u32) {
        self.set(number, Marks::IS_AN_END);
    }

    fn set(&mut self, number: u32, mark: u8) {
        let number = number as usize;
        if self.0.len() <= number {
            self.0.resize(number + 1, 0);
        }
        self.0[number] |= mark;
    }

    /// Those at the ends of edges that have no facts.
    pub fn strays(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.0).filter(|(_, mark)| **mark == Marks::IS_AN_END).map(|(number, _)| number)
    }
}

#[derive(Default)]
pub struct Numbering {
    ids: Vec<NodeId>,
    /// Where the nodes of each slot begin, and where the last one ends.
    slots: Vec<u32>,
    /// The largest id where ids are small numbers, which share the slots evenly. 0 for hashes.
    last: u64,
    marks: Marks,
    /// The first node that has not come yet: they come in order.
    next: usize,
}

impl Numbering {
    /// Ids that ascend. Those of a chunk that is written must all be among them.
    pub fn new(ids: Vec<NodeId>) -> Numbering {
        if u32::try_from(ids.len() + 1).is_err() {
            return Numbering::default();
        }
        let last = ids.last().filter(|last| last.high == 0).map_or(0, |last| last.low);
        let count = ids.len() / NODES_PER_SLOT + 1;
        let mut numbering = Numbering { marks: Marks::of(ids.len()), slots: Vec::with_capacity(count + 1), last, ids, next: 0 };
        for (number, id) in (0u32..).zip(&numbering.ids) {
            let slot = slot(*id, last, count);
            while numbering.slots.len() <= slot {
                numbering.slots.push(number);
            }
        }
        numbering.slots.resize(count + 1, numbering.ids.len() as u32);
        numbering
    }

    /// By number.
    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// How many numbers there are.
    pub fn count(&self) -> u32 {
        self.ids.len() as u32
    }

    /// The number of a node with facts. They come in order.
    pub fn of_node(&mut self, id: NodeId) -> Option<u32> {
        while *self.ids.get(self.next)? < id {
            self.next += 1;
        }
        let number = self.next as u32;
        (self.ids[self.next] == id).then(|| {
            self.marks.has_facts(number);
            number
        })
    }

    /// The number of the node at the other end of an edge.
    pub fn of_end(&mut self, id: NodeId) -> Option<u32> {
        if self.ids.is_empty() || id == NOBODY {
            return None;
        }
        let range = self.range(id);
        let number = (range.start + self.ids[range].binary_search(&id).ok()?) as u32;
        self.marks.is_an_end(number);
        Some(number)
    }

    fn range(&self, id: NodeId) -> Range<usize> {
        let slot = slot(id, self.last, self.slots.len() - 1);
        self.slots[slot] as usize..self.slots[slot + 1] as usize
    }

    /// Those at the ends of edges that have no facts themselves.
    pub fn strays(&self) -> Vec<(u32, NodeId)> {
        self.marks.strays().map(|number| (number, self.ids[number as usize])).collect()
    }
}

/// Never less for a greater id.
fn slot(id: NodeId, last: u64, count: usize) -> usize {
    if last == 0 {
        return ((u128::from(id.high) * count as u128) >> 64) as usize;
    }
    let low = if id.high > 0 { last } else { id.low.min(last) };
    (u128::from(low) * count as u128 / (u128::from(last) + 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_its_number() {
        let hashed = NodeId::spread;
        let small = |n: u64| NodeId::new(0, n * n);
        let mixed = |n: u64| if n < 5 { NodeId::new(0, n) } else { hashed(n) };
        for id in [&hashed as &dyn Fn(u64) -> NodeId, &small, &mixed] {
            for count in [0, 1, 2, 3, 100, 1000] {
                let mut ids: Vec<NodeId> = (0..count).map(id).collect();
                ids.sort();
                let mut numbering = Numbering::new(ids.clone());
                assert!(ids.iter().zip(0..).all(|(id, number)| numbering.of_end(*id) == Some(number)));
                assert_eq!(numbering.of_end(NodeId::new(0, count * count + 1)), None);
                assert_eq!((numbering.of_end(NodeId::new(7, 7)), numbering.of_end(NOBODY)), (None, None));
                assert!(ids.iter().zip(0..).skip(1).all(|(id, number)| numbering.of_node(*id) == Some(number)));
                let first = ids.first().map(|id| (0, *id));
                assert_eq!(numbering.strays(), first.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
