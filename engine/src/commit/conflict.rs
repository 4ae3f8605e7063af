//! Whether a write could have changed what a query read.
//!
//! Not whether it did: nothing is evaluated again here. Too much is named where that is cheaper to find out, and nothing is
//! left out. What is asked is what a transaction read (`ReadSet`, which a view notes) and what was written beside it
//! (`Recent`, which the committer keeps). Nothing here knows of locks, ticks to come, the log or the workers.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use weir_model::mutation::{Kind, Row};
use weir_model::{Mutations, NodeId, Symbol, Tick};

use crate::index::Question;
use crate::view::View;

/// What is written beside a transaction is remembered in at most this much memory. Of a transaction that takes longer it is not
/// known whether it lost a race, so it is tried again as if it had.
pub(super) const RECENT_BYTES_MAX: usize = 256 << 20;
/// What is written beside a transaction is remembered in at most one of this many parts of the memory limit.
pub(super) const RECENT_PARTS: u64 = 16;

/// What a transaction read.
pub struct ReadSet {
    /// The nodes of which anything was read besides that they are in a list.
    pub nodes: FxHashSet<NodeId>,
    /// The labels by which nodes were listed or counted.
    pub labels: Vec<Symbol>,
    /// All nodes were listed.
    pub listed: bool,
    /// It is not known what was read: whatever is written may have been.
    pub everything: bool,
    /// What indexes were asked, each once.
    pub questions: Vec<Question>,
}

/// What was written since the oldest transaction that is under way began; empty when there is none.
#[derive(Default)]
pub(super) struct Recent {
    written: VecDeque<Arc<Written>>,
    bytes: usize,
    /// Of what ended by this tick, not everything is known any more.
    forgotten: Tick,
}

/// What an entry wrote.
pub(super) struct Written {
    pub upper: Tick,
    nodes: FxHashSet<NodeId>,
    pub mutations: Arc<Mutations>,
}

impl Recent {
    pub fn push(&mut self, written: Written, bytes_max: usize) {
        self.bytes += written.bytes();
        self.written.push_back(Arc::new(written));
        while self.bytes > bytes_max
            && let Some(oldest) = self.pop()
        {
            self.forgotten = oldest.upper;
        }
    }

    fn pop(&mut self) -> Option<Arc<Written>> {
        let oldest = self.written.pop_front()?;
        self.bytes -= oldest.bytes();
        Some(oldest)
    }

    /// Every transaction under way began at `oldest` or later; none is no transaction.
    pub fn keep_from(&mut self, oldest: Option<Tick>) {
        while self.written.front().is_some_and(|written| oldest.is_none_or(|oldest| written.upper <= oldest)) {
            self.pop();
        }
    }

    /// What was written after what ends by `seen`; none where not all of that is known any more.
    pub fn after(&self, seen: Tick) -> Option<impl Iterator<Item = &Arc<Written>>> {
        let unseen = self.written.partition_point(|written| written.upper <= seen);
        (self.forgotten <= seen).then(|| self.written.range(unseen..))
    }

    /// Whether what was read of the graph as it was `before` may have become different after what ends by `seen`.
    pub fn may_change(&self, reads: &ReadSet, seen: Tick, before: &dyn View) -> bool {
        self.after(seen).is_none_or(|mut unseen| unseen.any(|written| written.may_change(reads, before)))
    }
}

impl Written {
    pub fn new(upper: Tick, mutations: Arc<Mutations>) -> Written {
        let erased = mutations.erased.iter().map(|(_, node)| *node);
        let nodes = mutations.rows.iter().map(|row| row.node).chain(erased).collect();
        Written { upper, nodes, mutations }
    }

    fn bytes(&self) -> usize {
        let nodes = self.nodes.capacity() * size_of::<NodeId>();
        size_of::<Written>() + size_of::<Mutations>() + self.mutations.bytes() + nodes
    }

    /// Whether what was read of the graph as it was `before` may be different now. Of several of these each is asked by itself,
    /// with the graph as it was before all of them: where none of them changes anything, all together change nothing.
    pub fn may_change(&self, reads: &ReadSet, before: &dyn View) -> bool {
        let has_other_label = |row: &Row| {
            let label = row.tag.symbol();
            row.tag.kind() == Kind::Label && reads.labels.contains(&label) && before.has_label(row.node, label) == row.removes()
        };
        reads.everything
            || !self.nodes.is_disjoint(&reads.nodes)
            || (!reads.labels.is_empty() && self.mutations.rows.iter().any(has_other_label))
            || (reads.listed && self.may_list_others(before))
            || reads.questions.iter().any(|question| question.may_gain(&self.mutations, before))
    }

    /// Whether a node may be among all nodes that was not, or the other way round. One is as long as it has a label, a property
    /// or half an edge; the properties of an edge do not count.
    fn may_list_others(&self, before: &dyn View) -> bool {
        let is_another = |rows: &[Row]| {
            let node = rows[0].node;
            let of_node = || rows.iter().filter(|row| row.tag.kind() != Kind::EdgeProperty);
            if !before.shows(node) {
                return of_node().any(|row| !row.removes());
            }
            let takes_label = |row: &Row| row.tag.kind() == Kind::Label && before.has_label(node, row.tag.symbol());
            let (mut removes, mut is_labelled) = (false, false);
            for row in of_node().filter(|row| row.removes()) {
                if takes_label(row) {
                    return true;
                }
                removes = true;
            }
            // One that keeps its labels stays, whatever else it loses. Whether anything is left of another is not looked for.
            if removes {
                before.labels(node, &mut |_| is_labelled = true);
            }
            removes && !is_labelled
        };
        self.mutations.rows.chunk_by(|row, next| row.node == next.node).any(is_another)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_model::Value;

    use super::*;
    use crate::commit::tests::{change, node, reads};
    use crate::index::Questions;
    use crate::index::key::{self, Places};
    use crate::random::Random;
    use crate::reference::ReferenceGraph;
    use crate::view::Empty;

    #[test]
    fn who_lists_nodes_is_in_conflict_with_what_changes_the_list() {
        let writes = |random: &mut Random, count: u64| {
            let mut mutations = Mutations::default();
            for _ in 0..random.below(count) {
                let (node, other, symbol) = (node(random.below(4)), node(random.below(4)), Symbol(random.below(2) as u32));
                let is_set = random.below(2) == 0;
                let value = if is_set { Value::Integer(1) } else { Value::Null };
                match random.below(8) {
                    0..3 => mutations.set_label(node, symbol, is_set),
                    3..5 => mutations.set_property(node, symbol, &value),
                    5 => mutations.set_edge(node, symbol, other, random.below(2) as u32, is_set),
                    6 => mutations.set_edge_property(node, symbol, other, 0, Symbol(3), &value),
                    _ => mutations.clear_properties(node),
                }
            }
            mutations
        };
        let all = |graph: &ReferenceGraph, label: Option<Symbol>| {
            let mut nodes = Vec::new();
            let mut each = |node: NodeId| {
                nodes.push(node);
                true
            };
            match label {
                Some(label) => graph.labelled(label, &mut each),
                None => graph.nodes(&mut each),
            }
            nodes
        };
        for label in [None, Some(Symbol(0))] {
            let reads = ReadSet { labels: label.into_iter().collect(), ..reads(&[], label.is_none()) };
            let (mut changed, mut unchanged) = (0, 0);
            for seed in 0..4000 {
                let mut random = Random(seed);
                let mut before = ReferenceGraph::new();
                before.apply_all(&writes(&mut random, 12));
                let entries: Vec<Mutations> = (0..2).map(|_| writes(&mut random, 4)).collect();
                let mut after = before.clone();
                entries.iter().for_each(|entry| after.apply_all(entry));
                let is_written = entries.iter().any(|entry| !entry.is_empty());
                let is_changed = all(&before, label) != all(&after, label);
                let mut written = entries.into_iter().map(|entry| Written::new(Tick(1), Arc::new(entry)));
                let may_change = written.any(|written| written.may_change(&reads, &before));
                assert!(may_change || !is_changed, "seed {seed}, {label:?}");
                changed += u32::from(is_changed);
                unchanged += u32::from(is_written && !may_change);
            }
            assert!(changed > 100 && unchanged > 100, "{label:?}: {changed}, {unchanged}");
        }
    }

    /// Each question was compared with each row, with the graph locked.
    #[test]
    fn many_questions_beside_many_rows_are_looked_at_together() {
        const MANY: i64 = 20_000;
        let (label, name) = (Symbol(1), Symbol(2));
        let mut mutations = Mutations::default();
        for n in 0..MANY {
            mutations.set_label(node(n as u64), label, true);
            mutations.set_property(node(n as u64), name, &Value::Integer(n));
        }
        let written = Written::new(Tick(1), Arc::new(mutations));
        let may_change = |values: std::ops::Range<i64>| {
            let mut questions = Questions::default();
            for value in values.map(Value::Integer) {
                let places = key::equal(&value).map(Places::only).into_iter().collect();
                questions.note(&Question { label, key: Some(name), places });
            }
            written.may_change(&ReadSet { questions: questions.asked(), ..reads(&[], false) }, &Empty)
        };
        let begun = Instant::now();
        assert!(!may_change(MANY..2 * MANY));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(may_change(MANY - 1..2 * MANY));
    }

    #[test]
    fn of_what_was_written_so_much_is_remembered() {
        let written = |n: u64| Written::new(Tick(n), Arc::new(change(n).mutations));
        let bytes_max = 10 * written(1).bytes();
        let mut recent = Recent::default();
        let may_change = |recent: &Recent, reads: &ReadSet, seen: Tick| recent.may_change(reads, seen, &Empty);
        (1..=100).for_each(|n| recent.push(written(n), bytes_max));
        assert_eq!((recent.written.len(), recent.bytes, recent.forgotten), (10, bytes_max, Tick(90)));
        // Whoever has seen less may have lost a race with what is forgotten.
        assert!(may_change(&recent, &reads(&[], false), Tick(89)) && !may_change(&recent, &reads(&[], false), Tick(90)));
        assert!(may_change(&recent, &reads(&[97], false), Tick(96)) && !may_change(&recent, &reads(&[97], false), Tick(97)));
        assert!(may_change(&recent, &reads(&[], true), Tick(99)) && !may_change(&recent, &reads(&[], true), Tick(100)));
        recent.keep_from(Some(Tick(95)));
        assert_eq!((recent.written.len(), recent.bytes), (5, bytes_max / 2));
        recent.keep_from(None);
        assert_eq!((recent.written.len(), recent.bytes), (0, 0));
        assert!(may_change(&recent, &reads(&[], false), Tick(89)) && !may_change(&recent, &reads(&[], true), Tick(100)));
        // One that is too large alone.
        recent.push(written(101), 1);
        assert_eq!((recent.written.len(), recent.bytes, recent.forgotten), (0, 0, Tick(101)));
    }
}
