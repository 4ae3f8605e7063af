//! The part of an index that lies beside one shard of the graph: an arrangement of its own.
//!
//!     key      place of the value, part of the node ids      as a node id
//!     facts    the nodes, as outgoing halves                 24 bytes each
//!
//! It is kept exactly as the graph is: each batch of the graph gives one batch here, of what it changes, with the same ticks.
//! Until the base arrives, which another thread makes, those batches wait.

use differential_dataflow::trace::{Trace, TraceReader};
use smallvec::SmallVec;
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;
use weir_model::mutation::{Kind, Payload, Tag};
use weir_model::{NodeId, Symbol};

use std::sync::Arc;

use super::key::{self, Place};
use super::{Definition, ShownIndex};
use crate::arrangement::batch::{Batch, Writer};
use crate::arrangement::{Fact, Facts, Layers, Segment, SharedBatch, walk};

/// The tag of all facts of an index.
const ENTRY: Tag = Tag::new(Kind::Out, Symbol(0));

pub struct ShardIndex {
    pub definition: Arc<Definition>,
    /// What the base does not know begins here.
    began: u64,
    state: State,
}

enum State {
    Waiting(Vec<SharedBatch>),
    Ready(Layers),
}

struct Entry {
    key: NodeId,
    node: NodeId,
    /// As in a fact.
    when: u32,
}

impl ShardIndex {
    /// Of a shard that has applied everything before `began`.
    pub fn new(definition: Arc<Definition>, began: u64) -> ShardIndex {
        ShardIndex { definition, began, state: State::Waiting(Vec::new()) }
    }

    /// Takes in a batch of the graph, as it was built.
    pub fn apply(&mut self, batch: &SharedBatch) {
        let mut entries = Vec::new();
        // A batch that was just built has one segment.
        let mut ticks: &[u64] = &[];
        if let Some(located) = batch.located() {
            for (index, node) in batch.ids.iter().enumerate() {
                let (segment, facts) = batch.node(index);
                ticks = &segment.times;
                let concerned = segment.tags(facts).filter(|(tag, _)| self.definition.concerns(*tag));
                let mut times: SmallVec<[usize; 4]> = concerned.map(|(_, fact)| fact.time_index()).collect();
                if times.is_empty() {
                    continue;
                }
                times.sort_unstable();
                times.dedup();
                let facts = located.facts(batch, index);
                let mut before = self.definition.places(&facts, ticks[times[0]] - 1);
                for time in times {
                    let after = self.definition.places(&facts, ticks[time]);
                    let mut change = |place: &Place, adds: bool| {
                        entries.push(Entry { key: place.key(*node), node: *node, when: (time as u32) << 1 | u32::from(adds) });
                    };
                    before.iter().filter(|place| !after.contains(place)).for_each(|place| change(place, false));
                    after.iter().filter(|place| !before.contains(place)).for_each(|place| change(place, true));
                    before = after;
                }
            }
        }
        let times = if entries.is_empty() { Vec::new() } else { ticks.to_vec() };
        let change = SharedBatch::new(arrange(entries, batch.lower.clone(), batch.upper.clone(), times));
        match &mut self.state {
            State::Waiting(changes) => changes.push(change),
            State::Ready(layers) => layers.insert(change),
        }
    }

    /// The base is there: what has waited for it follows.
    pub fn fill(&mut self, base: SharedBatch) {
        if let State::Waiting(changes) = &mut self.state {
            let changes = std::mem::take(changes);
            let mut layers = Layers::empty(None);
            // Nobody reads them yet, so they are merged as they come. Otherwise each would be looked at again for all that come
            // after it.
            layers.set_physical_compaction(changes.last().unwrap_or(&base).upper.borrow());
            [base].into_iter().chain(changes).for_each(|batch| layers.insert(batch));
            self.state = State::Ready(layers);
        }
    }

    pub fn allow_compaction(&mut self, logical: u64, physical: u64) {
        if let State::Ready(layers) = &mut self.state {
            layers.set_logical_compaction(AntichainRef::new(&[logical]));
            layers.set_physical_compaction(AntichainRef::new(&[physical]));
        }
    }

    pub fn shown(&self) -> Option<ShownIndex> {
        let State::Ready(layers) = &self.state else { return None };
        let mut batches = Vec::new();
        layers.map_batches(|batch| {
            if !batch.is_empty() {
                batches.push(batch.clone());
            }
        });
        Some(ShownIndex { definition: self.definition.clone(), from: self.began.saturating_sub(1), batches })
    }
}

/// What an index of a shard holds that has applied everything before `began`, made from the batches it had then. None if
/// `go_on` says that nobody wants it any more.
pub fn base(
    definition: &Definition,
    batches: &[SharedBatch],
    began: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<SharedBatch> {
    let at = began.saturating_sub(1);
    let mut entries = Vec::new();
    let mut wanted = true;
    walk(batches.iter(), &mut |node, facts| {
        entries.extend(definition.places(facts, at).iter().map(|place| Entry { key: place.key(node), node, when: 1 }));
        wanted = go_on();
        wanted
    });
    let upper = Antichain::from_elem(began);
    wanted.then(|| SharedBatch::new(arrange(entries, Antichain::from_elem(0), upper, vec![at])))
}

fn arrange(mut entries: Vec<Entry>, lower: Antichain<u64>, upper: Antichain<u64>, times: Vec<u64>) -> Batch {
    entries.sort_unstable_by_key(|entry| (entry.key, entry.node, entry.when));
    let mut fresh = Segment::with_capacity(entries.len(), 0);
    fresh.times = times;
    let last = entries.last().map_or(NodeId::new(0, 0), |entry| entry.key);
    let mut writer = Writer::new((lower, upper, Antichain::from_elem(0)), (entries.len(), last), fresh);
    for same in entries.chunk_by(|x, y| x.key == y.key) {
        let facts = same.iter().map(|entry| Fact { tag: ENTRY, when: entry.when, payload: Payload::node(entry.node) });
        writer.fresh.facts.extend(facts);
        writer.finish_node(same[0].key, false);
    }
    writer.finish()
}

impl Definition {
    fn concerns(&self, tag: Tag) -> bool {
        match tag.kind() {
            Kind::Label => tag.symbol() == self.label,
            Kind::Property => Some(tag.symbol()) == self.key,
            _ => false,
        }
    }

    /// Where a node lies in the index at a tick.
    fn places(&self, facts: &Facts<'_>, at: u64) -> SmallVec<[Place; 2]> {
        if !facts.has_label(self.label, at) {
            return SmallVec::new();
        }
        match self.key {
            Some(key) => key::places(&facts.property(key, at)),
            None => SmallVec::from_slice(&[key::LABEL]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Question, Stored};

    #[test]
    fn what_has_waited_is_merged_as_it_follows_the_base() {
        const CHANGES: u64 = 10_000;
        let node = NodeId::spread;
        // Every other batch of the graph changes nothing here.
        let change = |n: u64| {
            let entry = Entry { key: key::LABEL.key(node(n)), node: node(n), when: 1 };
            let (entries, times) = if n.is_multiple_of(2) { (vec![entry], vec![n]) } else { Default::default() };
            SharedBatch::new(arrange(entries, Antichain::from_elem(n), Antichain::from_elem(n + 1), times))
        };
        let label = Symbol(0);
        let stored = Stored { label: "A".into(), property: None };
        let definition = Arc::new(Definition { name: "a".into(), label, key: None, stored });
        let mut index = ShardIndex { definition, began: 1, state: State::Waiting((1..CHANGES).map(change).collect()) };
        index.fill(change(0));
        let State::Ready(layers) = &index.state else { panic!("it is filled") };
        let mut batches = 0;
        layers.map_batches(|_| batches += 1);
        assert!(batches < 500, "{batches} batches");
        let mut found = Vec::new();
        let shown = index.shown().expect("it is filled");
        shown.answer(&Question::of_label(label), CHANGES - 1, &mut |node| found.push(node));
        let mut expected: Vec<NodeId> = (0..CHANGES).step_by(2).map(node).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}
