//! Snapshot: the immutable batches of all shards at one tick, readable from any thread without asking a worker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use weir_model::lock::lock;
use weir_model::mutation::{Kind, Tag};
use weir_model::{NodeId, Symbol, Tick, Value};

use super::facts::Facts;
use super::trace::SharedBatch;
use crate::index::{Definition, Question, ShownIndex};
use crate::memory;
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

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
                return Snapshot { shards, at };
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
        Snapshot { shards: self.shards.iter().map(|shard| shard.load_full()).collect(), at: tick }
    }
}

#[derive(Clone)]
pub struct Snapshot {
    shards: Vec<Arc<Shown>>,
    /// The last tick that is seen.
    at: u64,
}

impl Snapshot {
    /// Batches of all shards, oldest first, which hold everything before `upper`.
    pub fn new(shards: Vec<Vec<SharedBatch>>, upper: u64) -> Snapshot {
        let shown = |batches| Arc::new(Shown { batches, upper, since: 0, indexes: Vec::new() });
        Snapshot { shards: shards.into_iter().map(shown).collect(), at: upper.saturating_sub(1) }
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

    /// Of an index by what it is of: what each shard shows, if every shard does, for this tick.
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
