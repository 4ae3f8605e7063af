//! Snapshot: the immutable batches of all shards at one tick, readable from any thread without asking a worker.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use weir_model::lock::lock;
use weir_model::mutation::{Kind, Tag};
use weir_model::{Mutations, NodeId, Symbol, Tick, Value};

use super::facts::Facts;
use super::trace::SharedBatch;
use crate::index::{Definition, Question, ShownIndex};
use crate::memory;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// At most this many changes are remembered for those who ask which nodes were written last.
const LAST_CHANGES_MAX: usize = 4096;

/// Of one entry, at most this many changes are remembered. Several entries are noted at a time that no snapshot shows yet
/// (`ENTRIES_BEHIND_MAX`, and one more for each who commits), and what is shown keeps places beside them.
const OF_ENTRY_MAX: usize = LAST_CHANGES_MAX / 16;

/// What a worker shows of its shard after each tick.
pub struct Shown {
    pub batches: Vec<SharedBatch>,
    /// The batches hold everything before this.
    pub upper: u64,
    /// From here on the batches tell ticks apart.
    pub since: u64,
    pub indexes: Vec<ShownIndex>,
}

/// Where the workers publish and everyone else looks.
pub struct Published {
    shards: Vec<ArcSwap<Shown>>,
    uppers: Vec<AtomicU64>,
    /// By worker: the standing queries at home there have sent what comes of everything before this.
    answered: Vec<AtomicU64>,
    /// Threads that wait for a tick. Workers only touch the lock when there are any.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    advanced: Condvar,
    pub last_changes: Arc<LastChanges>,
    /// The name the graph had, once it was dropped: nothing is applied any more.
    dropped: OnceLock<String>,
}

impl Published {
    pub fn new(shards: usize) -> Published {
        let nothing = || ArcSwap::from_pointee(Shown { batches: Vec::new(), upper: 0, since: 0, indexes: Vec::new() });
        Published {
            shards: (0..shards).map(|_| nothing()).collect(),
            uppers: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            answered: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            advanced: Condvar::new(),
            last_changes: Arc::default(),
            dropped: OnceLock::new(),
        }
    }

    pub fn publish(&self, shard: usize, shown: Shown) {
        let upper = shown.upper;
        self.shards[shard].store(Arc::new(shown));
        self.uppers[shard].store(upper, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.advanced.notify_all();
        }
    }

    /// Every shard has applied everything before this tick.
    pub fn upper(&self) -> Tick {
        Tick(self.uppers.iter().map(|upper| upper.load(Ordering::SeqCst)).min().unwrap_or(0))
    }

    pub fn shard_upper(&self, shard: usize) -> u64 {
        self.uppers[shard].load(Ordering::SeqCst)
    }

    pub fn set_answered(&self, worker: usize, upper: u64) {
        self.answered[worker].store(upper, Ordering::SeqCst);
    }

    /// Whoever waits is told.
    pub fn drop_graph(&self, name: &str) {
        self.dropped.get_or_init(|| name.to_owned());
        drop(self.lock.lock());
        self.advanced.notify_all();
    }

    pub fn dropped(&self) -> Option<&str> {
        self.dropped.get().map(String::as_str)
    }

    /// How far the worker has answered that is the home of a standing query.
    pub fn answered(&self, home: u64) -> Tick {
        Tick(self.answered[(home % self.answered.len() as u64) as usize].load(Ordering::SeqCst))
    }

    /// Waits until every shard has applied everything before `upper`. False when that took longer than `limit`, or will never be.
    pub fn wait(&self, upper: Tick, limit: Duration) -> bool {
        if self.upper() >= upper {
            return true;
        }
        let deadline = Instant::now() + limit;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = lock(&self.lock);
        let reached = loop {
            if self.upper() >= upper {
                break true;
            }
            let left = deadline.checked_duration_since(Instant::now());
            let Some(left) = left.filter(|_| self.dropped.get().is_none()) else { break false };
            guard = self.advanced.wait_timeout(guard, left).unwrap_or_else(|e| e.into_inner()).0;
        };
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        reached
    }

    /// The newest moment all shards have reached.
    ///
    /// Shards run apart by a few ticks, so one that is ahead is read as of the slowest. A worker lets its batches
    /// forget what is older than the slowest shard at that time; if shards ran on while they were being collected, the
    /// moment may be gone from one of them, and they are collected again.
    pub fn snapshot(&self) -> Snapshot {
        loop {
            let shards: Vec<Arc<Shown>> = self.shards.iter().map(|shard| shard.load_full()).collect();
            let at = shards.iter().map(|shown| shown.upper).min().unwrap_or(0).saturating_sub(1);
            if shards.iter().all(|shown| shown.since <= at) {
                return Snapshot { shards, at, last_changes: self.last_changes.clone() };
            }
        }
    }

    /// The batches of all shards, as they are now.
    pub fn each_batch(&self, mut each: impl FnMut(usize, &SharedBatch)) {
        for (shard, shown) in self.shards.iter().enumerate() {
            shown.load().batches.iter().for_each(|batch| each(shard, batch));
        }
    }

    /// The graph as it was at a tick. The caller has seen to it that every shard has reached that tick and tells it apart.
    pub fn at(&self, tick: u64) -> Snapshot {
        let shards = self.shards.iter().map(|shard| shard.load_full()).collect();
        Snapshot { shards, at: tick, last_changes: self.last_changes.clone() }
    }

    /// What the shards will show, in batches that are made for those who read before they do: as `Snapshot::new`.
    pub fn ahead(&self, shards: Vec<Vec<SharedBatch>>, upper: u64) -> Snapshot {
        Snapshot { last_changes: self.last_changes.clone(), ..Snapshot::new(shards, upper) }
    }
}

/// The last changes of a graph: of which node each was, and at which tick. Batches do not tell ticks apart for long.
#[derive(Default)]
pub struct LastChanges(Mutex<VecDeque<(Tick, NodeId)>>);

impl LastChanges {
    /// Is told of every entry, in their order, before it is shown. However long one is, no more of it is looked at than is
    /// remembered.
    pub fn note(&self, first: Tick, mutations: &Mutations) {
        let rows = &mutations.rows[mutations.rows.len().saturating_sub(OF_ENTRY_MAX)..];
        if rows.is_empty() {
            return;
        }
        let mut changes = lock(&self.0);
        for row in rows {
            let change = (Tick(first.0 + u64::from(row.record())), row.node);
            // Mostly several rows in turn are of one node.
            if changes.back() == Some(&change) {
                continue;
            }
            if changes.len() == LAST_CHANGES_MAX {
                changes.pop_front();
            }
            changes.push_back(change);
        }
    }

    /// Of which nodes they were up to a tick, the last one first.
    fn until(&self, at: u64) -> Vec<NodeId> {
        lock(&self.0).iter().rev().filter(|(tick, _)| tick.0 <= at).map(|(_, node)| *node).collect()
    }
}

#[derive(Clone)]
pub struct Snapshot {
    shards: Vec<Arc<Shown>>,
    /// The last tick that is seen.
    at: u64,
    last_changes: Arc<LastChanges>,
}

impl Snapshot {
    /// Batches of all shards, oldest first, which hold everything before `upper`.
    pub fn new(shards: Vec<Vec<SharedBatch>>, upper: u64) -> Snapshot {
        let shown = |batches| Arc::new(Shown { batches, upper, since: 0, indexes: Vec::new() });
        Snapshot { shards: shards.into_iter().map(shown).collect(), at: upper.saturating_sub(1), last_changes: Arc::default() }
    }

    pub fn tick(&self) -> Tick {
        Tick(self.at)
    }

    pub fn facts(&self, node: NodeId) -> Facts<'_> {
        memory::attend();
        Facts::find(self.shard(self.shard_of(node)), node)
    }

    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    pub fn shard_of(&self, node: NodeId) -> usize {
        if self.shards.len() == 1 { 0 } else { node.shard(self.shards.len()) }
    }

    /// The batches of a shard, oldest first.
    pub fn shard(&self, index: usize) -> &[SharedBatch] {
        &self.shards[index].batches
    }

    fn batches(&self) -> impl Iterator<Item = &SharedBatch> {
        self.shards.iter().flat_map(|shard| &shard.batches)
    }

    /// What each shard shows of the index of a label, or of a label and a property. None unless every shard does, for this tick.
    fn index(&self, label: Symbol, key: Option<Symbol>) -> Option<SmallVec<[&ShownIndex; 2]>> {
        let is_wanted = |index: &&ShownIndex| (index.definition.label, index.definition.key) == (label, key);
        self.shards.iter().map(|shard| shard.indexes.iter().find(is_wanted).filter(|index| index.from <= self.at)).collect()
    }

    /// How many updates an index holds; none as long as it does not answer.
    pub fn index_entries(&self, definition: &Definition) -> Option<usize> {
        let shards = self.index(definition.label, definition.key)?;
        Some(shards.iter().flat_map(|shard| &shard.batches).map(|batch| batch.len()).sum())
    }

    /// How many facts each batch holds, by shard, oldest first: for reports.
    pub fn shape(&self) -> Vec<Vec<usize>> {
        self.shards.iter().map(|shard| shard.batches.iter().map(|batch| batch.len()).collect()).collect()
    }
}

impl View for Snapshot {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.facts(node).property(key, self.at)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        self.facts(node).properties(self.at, each);
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.facts(node).has_label(label, self.at)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        self.facts(node).labels(self.at, each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.facts(node).edges(direction, kinds, self.at, each);
    }

    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.facts(node).edges_while(direction, kinds, self.at, each)
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.facts(node).count_edges(direction, kinds, self.at)
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        self.facts(node).about_edges(direction, kinds)
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.facts(node).edges_to(other, direction, kinds, self.at, each);
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        let half = HalfEdge { kind: edge.kind, outgoing: true, other: edge.target, ordinal: edge.ordinal };
        self.facts(edge.source).has_half(half, self.at)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.facts(edge.source).edge_property(edge.kind, edge.target, edge.ordinal, key, self.at)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        self.facts(edge.source).edge_properties(edge.kind, edge.target, edge.ordinal, self.at, each);
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        walk(self.batches(), &mut |node, facts| !facts.is_interesting(self.at) || each(node));
    }

    fn recent(&self, count: usize) -> Vec<NodeId> {
        let mut seen = FxHashSet::default();
        let changed = self.last_changes.until(self.at).into_iter();
        changed.filter(|node| seen.insert(*node) && self.facts(*node).is_interesting(self.at)).take(count).collect()
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        walk(self.batches(), &mut |node, facts| !facts.has_label(label, self.at) || each(node));
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        let count: i64 = self.batches().map(|batch| batch.labelled(label, self.at)).sum();
        Some(count.max(0) as u64)
    }

    fn about(&self, what: About) -> f64 {
        let of_batch = |batch: &SharedBatch| match what {
            About::Nodes => batch.ids.len() as f64,
            About::Labelled(label) => batch.about(Tag::new(Kind::Label, label)),
            About::Edges(Some(kind)) => batch.about(Tag::new(Kind::Out, kind)),
            About::Edges(None) => batch.about_edges(),
        };
        self.batches().map(of_batch).sum::<f64>().max(0.0)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        for index in self.shards.iter().take(1).flat_map(|shard| &shard.indexes) {
            let Definition { label, key, .. } = *index.definition;
            if self.index(label, key).is_some() {
                each(label, key);
            }
        }
    }

    fn index_size(&self, question: &Question) -> u64 {
        let shards = self.index(question.label, question.key).unwrap_or_default();
        shards.iter().map(|shard| shard.size(question)).sum()
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        for shard in self.index(question.label, question.key).unwrap_or_default() {
            shard.answer(question, self.at, each);
        }
    }
}

/// Every node of some batches with all that is known of it, in the order of ids, until `each` says no. Those of a shard are
/// given oldest first.
pub fn walk<'a>(batches: impl Iterator<Item = &'a SharedBatch>, each: &mut dyn FnMut(NodeId, &Facts<'a>) -> bool) {
    let batches: Vec<&SharedBatch> = batches.collect();
    let mut places = vec![0; batches.len()];
    let mut next: Vec<Option<NodeId>> = batches.iter().map(|batch| batch.ids.first().copied()).collect();
    while let Some(id) = next.iter().flatten().min().copied() {
        memory::attend();
        // Newest first.
        let hits = (0..batches.len()).rev().filter(|index| next[*index] == Some(id));
        let facts = Facts::known(hits.map(|index| batches[index].part(places[index])));
        for (index, next) in next.iter_mut().enumerate().filter(|(_, next)| **next == Some(id)) {
            places[index] += 1;
            *next = batches[index].ids.get(places[index]).copied();
        }
        if !each(id, &facts) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use timely::progress::Antichain;

    use super::*;
    use crate::arrangement::build::{Builder, Shard};
    use crate::arrangement::merge::Merge;
    use crate::commit::ENTRIES_BEHIND_MAX;

    fn node(n: u64) -> NodeId {
        NodeId::new(n, 0)
    }

    fn mutations(tick: u64, changed: &[(NodeId, bool)]) -> Mutations {
        let mut mutations = Mutations::default();
        for (node, stays) in changed {
            let value = if *stays { Value::Integer(tick as i64) } else { Value::Null };
            mutations.set_property(*node, Symbol(1), &value);
        }
        mutations
    }

    /// Of one shard of some. At each tick, from 1 on, these nodes get another value, or lose it.
    fn batches((index, count): (usize, usize), ticks: &[&[(NodeId, bool)]]) -> Vec<SharedBatch> {
        let (mut builder, mut batches) = (Builder::default(), Vec::new());
        for (tick, changed) in (1u64..).zip(ticks) {
            let mutations = mutations(tick, changed);
            let (lower, upper) = (Antichain::from_elem(tick), Antichain::from_elem(tick + 1));
            let batch = builder.build(&mutations, vec![tick], lower, upper, Shard { index, count }, &batches);
            batches.push(batch);
        }
        batches
    }

    fn merged(batches: &[SharedBatch], since: u64) -> SharedBatch {
        let mut merge = Merge::new(batches, Antichain::from_elem(since));
        while !merge.work(&mut 100) {}
        SharedBatch::new(merge.done())
    }

    #[test]
    fn what_changed_last_comes_first() {
        let [a, b, c, d] = [1, 2, 3, 4].map(node);
        let ticks: [&[(NodeId, bool)]; 4] =
            [&[(a, true), (b, true), (c, true)], &[(b, true)], &[(d, true), (c, false)], &[(b, true)]];
        let all = batches((0, 1), &ticks);
        let published = Published::new(1);
        for (tick, changed) in (1..).zip(ticks) {
            published.last_changes.note(Tick(tick), &mutations(tick, changed));
        }
        let snapshot = published.ahead(vec![all.clone()], 5);
        assert_eq!(snapshot.recent(10), [b, d, a], "a node without anything is none");
        assert_eq!(snapshot.recent(2), [b, d]);
        assert!(snapshot.recent(0).is_empty());
        let before = |at| Snapshot { at, ..snapshot.clone() };
        assert_eq!(before(3).recent(10), [d, b, a]);
        assert_eq!(before(2).recent(10), [b, c, a]);
        assert_eq!(before(1).recent(1), [c]);
        assert!(before(0).recent(10).is_empty());
        // Whatever ticks the batches do not tell apart any more.
        assert_eq!(published.ahead(vec![vec![merged(&all, 4)]], 5).recent(10), [b, d, a]);
    }

    #[test]
    fn no_more_changes_are_remembered_than_are_allowed() {
        let changes = LastChanges::default();
        changes.note(Tick(1), &mutations(1, &[(node(0), true)]));
        assert_eq!(changes.until(1), [node(0)]);
        let mut many = Mutations::default();
        for n in 0..LAST_CHANGES_MAX as u64 + 1 {
            many.start_record(n as u32);
            many.set_property(node(n), Symbol(1), &Value::Integer(1));
            many.set_property(node(n), Symbol(2), &Value::Integer(1));
        }
        changes.note(Tick(2), &many);
        // Of two rows each, half of the last ones were looked at.
        let last = LAST_CHANGES_MAX as u64;
        let looked_at: Vec<NodeId> = (0..OF_ENTRY_MAX as u64 / 2).map(|back| node(last - back)).collect();
        let known = changes.until(u64::MAX);
        assert_eq!((&known[..looked_at.len()], known[looked_at.len()..].to_vec()), (&looked_at[..], vec![node(0)]));
        assert_eq!(changes.until(2 + last - 1)[0], node(last - 1), "each record has its tick");
        for tick in 0..2 * last {
            changes.note(Tick(3 * last + tick), &mutations(tick, &[(node(tick % 2), true)]));
        }
        assert_eq!(changes.until(u64::MAX).len(), LAST_CHANGES_MAX);
    }

    #[test]
    fn what_is_shown_is_remembered_beside_long_entries_that_are_not() {
        let changes = LastChanges::default();
        changes.note(Tick(1), &mutations(1, &[(node(1), true), (node(2), true)]));
        let (mut many, length) = (Mutations::default(), LAST_CHANGES_MAX as u64);
        for n in 0..length {
            many.start_record(n as u32);
            many.set_property(node(3 + n), Symbol(1), &Value::Integer(1));
        }
        // As many as are behind, and one of each who then waits.
        for entry in 0..2 * ENTRIES_BEHIND_MAX as u64 {
            changes.note(Tick(2 + entry * length), &many);
        }
        assert_eq!(changes.until(1), [node(2), node(1)]);
    }
}
