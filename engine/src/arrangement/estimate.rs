//! What a batch holds, counted without reading all of it, or counted once. Made when first asked for and kept with the
//! batch, so that building and merging batches costs nothing more.

use std::thread;

use rustc_hash::FxHashMap;
use weir_model::Symbol;
use weir_model::mutation::{Kind, Tag};

use super::batch::Batch;

/// Nodes looked at for an estimate. Ids are hashes, so nodes at even distances are a fair sample.
const SAMPLED: usize = 1024;

/// Batches of fewer nodes are counted by one thread.
const NODES_FOR_THREADS: usize = 1 << 18;

/// Facts by tag, of a sample.
#[derive(Debug)]
pub struct Sample {
    /// How many nodes each sampled one stands for.
    weight: f64,
    tags: FxHashMap<Tag, i64>,
}

impl Sample {
    fn of(batch: &Batch) -> Sample {
        let nodes = batch.ids.len();
        let step = (nodes / SAMPLED).max(1);
        let mut sample = Sample { weight: 0.0, tags: FxHashMap::default() };
        let mut sampled = 0;
        for node in (0..nodes).step_by(step) {
            sampled += 1;
            for fact in batch.node(node).1.iter().take_while(|fact| fact.tag < Tag::new(Kind::In, Symbol(0))) {
                if fact.tag.kind() != Kind::Property {
                    *sample.tags.entry(fact.tag).or_default() += if fact.adds() { 1 } else { -1 };
                }
            }
        }
        sample.weight = nodes as f64 / f64::from(sampled.max(1));
        sample
    }
}

impl Batch {
    /// About how many nodes have the label, or how many edges are of the type, more than before this batch.
    pub fn about(&self, tag: Tag) -> f64 {
        let sample = self.sample.get_or_init(|| Sample::of(self));
        sample.tags.get(&tag).map_or(0.0, |count| *count as f64 * sample.weight)
    }

    /// About how many edges there are of all types, more than before this batch.
    pub fn about_edges(&self) -> f64 {
        let sample = self.sample.get_or_init(|| Sample::of(self));
        let edges = sample.tags.iter().filter(|(tag, _)| tag.kind() == Kind::Out).map(|(_, count)| *count);
        edges.sum::<i64>() as f64 * sample.weight
    }

    /// How many more nodes have the label after the updates at or before a tick.
    pub fn labelled(&self, label: Symbol, at: u64) -> i64 {
        // A batch that may hold later ones is a small, new one.
        if self.upper.elements().first().is_some_and(|upper| *upper <= at.saturating_add(1)) {
            let labels = self.labels.get_or_init(|| self.count_labels());
            return labels.get(&label).copied().unwrap_or(0);
        }
        let tag = Tag::new(Kind::Label, label);
        let mut count = 0;
        for node in 0..self.ids.len() {
            let (segment, facts) = self.node(node);
            let labels = facts.iter().take_while(|fact| fact.tag <= tag);
            let until = labels.filter(|fact| fact.tag == tag && segment.time(fact) <= at);
            count += until.map(|fact| if fact.adds() { 1 } else { -1 }).sum::<i64>();
        }
        count
    }

    fn count_labels(&self) -> FxHashMap<Symbol, i64> {
        let nodes = self.ids.len();
        let threads = if nodes < NODES_FOR_THREADS { 1 } else { thread::available_parallelism().map_or(1, |n| n.get()) };
        let part = nodes.div_ceil(threads).max(1);
        let count = |from: usize| {
            // Few labels occur, mostly one after another.
            let mut counts: Vec<(Tag, i64)> = Vec::new();
            let mut last = 0;
            for node in from..(from + part).min(nodes) {
                for fact in self.node(node).1.iter().take_while(|fact| fact.tag.kind() == Kind::Label) {
                    if counts.get(last).is_none_or(|(tag, _)| *tag != fact.tag) {
                        last = counts.iter().position(|(tag, _)| *tag == fact.tag).unwrap_or_else(|| {
                            counts.push((fact.tag, 0));
                            counts.len() - 1
                        });
                    }
                    counts[last].1 += if fact.adds() { 1 } else { -1 };
                }
            }
            counts
        };
        let mut total: FxHashMap<Symbol, i64> = FxHashMap::default();
        let counted: Vec<Vec<(Tag, i64)>> = thread::scope(|scope| {
            let others: Vec<_> = (part..nodes).step_by(part).map(|from| scope.spawn(move || count(from))).collect();
            let first = if nodes == 0 { Vec::new() } else { count(0) };
            let joined = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            [first].into_iter().chain(joined).collect()
        });
        for (tag, count) in counted.into_iter().flatten() {
            *total.entry(tag.symbol()).or_default() += count;
        }
        total
    }
}
