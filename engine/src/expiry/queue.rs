//! Queue: what to look at, by the time at which it is worth it. Bounded: when it is full, the latest are given up, and it
//! says from which time on it does not know everything.
//!
//! For each thing it holds one time, no later than that at which it really ends. A time that is moved back, as those of
//! sessions are all the time, changes nothing here: at the old one somebody looks, and puts the thing in again.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use weir_model::NodeId;

use crate::view::EdgeRef;

/// What a rule may end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject {
    /// The number of the rule.
    pub rule: u32,
    /// Tells an edge from others between the same nodes.
    pub ordinal: u32,
    /// Of an edge its source.
    pub node: NodeId,
    /// Of an edge its target; of a node again the node.
    pub target: NodeId,
}

impl Subject {
    pub fn node(rule: u32, node: NodeId) -> Subject {
        Subject { rule, ordinal: 0, node, target: node }
    }

    pub fn edge(rule: u32, edge: EdgeRef) -> Subject {
        Subject { rule, ordinal: edge.ordinal, node: edge.source, target: edge.target }
    }
}

pub struct Queue {
    by_time: BTreeSet<(u64, Subject)>,
    held: FxHashMap<Subject, u64>,
    /// How many there are of each rule that has any: commits would wait while they are counted.
    counts: FxHashMap<u32, usize>,
    max: usize,
    /// Things that end from this time on may be missing.
    beyond: u64,
}

impl Queue {
    pub fn new(max: usize) -> Queue {
        Queue { by_time: BTreeSet::new(), held: FxHashMap::default(), counts: FxHashMap::default(), max, beyond: u64::MAX }
    }

    /// To be looked at when it is due, in milliseconds since 1970, or earlier.
    pub fn push(&mut self, subject: Subject, due: u64) {
        if due >= self.beyond {
            return;
        }
        match self.held.get_mut(&subject) {
            Some(known) if *known <= due => return,
            Some(known) => {
                self.by_time.remove(&(*known, subject));
                *known = due;
            }
            None => {
                self.held.insert(subject, due);
                *self.counts.entry(subject.rule).or_default() += 1;
            }
        }
        self.by_time.insert((due, subject));
        if self.held.len() > self.max
            && let Some((due, subject)) = self.by_time.pop_last()
        {
            self.let_go(&subject);
            self.beyond = due;
        }
    }

    fn let_go(&mut self, subject: &Subject) {
        self.held.remove(subject);
        if let Some(count) = self.counts.get_mut(&subject.rule) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&subject.rule);
            }
        }
    }

    /// To be looked at now, in its turn, unless its time is known: what is known is that it is not later.
    pub fn look_at(&mut self, subject: Subject, now: u64) {
        if !self.held.contains_key(&subject) {
            self.push(subject, now);
        }
    }

    pub fn first(&self) -> Option<u64> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Takes out what is to be looked at now, the earliest first.
    pub fn take(&mut self, now: u64, most: usize) -> Vec<Subject> {
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((due, subject)) = self.by_time.first().copied()
            && due <= now
        {
            self.by_time.pop_first();
            self.let_go(&subject);
            taken.push(subject);
        }
        taken
    }

    /// Something was given up, and there is room for it again.
    pub fn wants_more(&self) -> bool {
        self.beyond < u64::MAX && self.held.len() <= self.max / 2
    }

    /// From here on everything is taken in again.
    pub fn open(&mut self) {
        self.beyond = u64::MAX;
    }

    pub fn clear(&mut self) {
        *self = Queue::new(self.max);
    }

    pub fn count(&self, rule: u32) -> usize {
        self.counts.get(&rule).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn subject(n: u64) -> Subject {
        Subject::node(0, NodeId::new(0, n))
    }

    fn taken(queue: &mut Queue, now: u64) -> Vec<u64> {
        queue.take(now, usize::MAX).into_iter().map(|subject| subject.node.low).collect()
    }

    #[test]
    fn the_earliest_time_of_each_counts() {
        let mut queue = Queue::new(10);
        [(1, 50), (2, 20), (1, 70), (3, 30), (2, 10)].into_iter().for_each(|(n, due)| queue.push(subject(n), due));
        assert_eq!(queue.first(), Some(10));
        assert_eq!(taken(&mut queue, 9), []);
        assert_eq!(taken(&mut queue, 30), [2, 3]);
        queue.look_at(subject(1), 5);
        assert_eq!(queue.first(), Some(50), "its time is known");
        queue.look_at(subject(2), 5);
        assert_eq!(taken(&mut queue, 4), []);
        assert_eq!(taken(&mut queue, 5), [2]);
        assert_eq!(taken(&mut queue, 50), [1]);
        assert_eq!(queue.first(), None);
    }

    #[test]
    fn a_full_one_gives_up_the_latest_and_says_so() {
        let mut queue = Queue::new(4);
        (0..6).for_each(|n| queue.push(subject(n), 100 - n));
        assert_eq!(queue.beyond, 99);
        queue.push(subject(9), 99);
        queue.push(subject(8), 1);
        assert!(!queue.wants_more());
        assert_eq!(taken(&mut queue, 96), [8, 5, 4]);
        assert_eq!(queue.beyond, 98, "what came early pushed out what came late");
        assert!(queue.wants_more());
        queue.open();
        queue.push(subject(0), 100);
        assert_eq!(taken(&mut queue, 100), [3, 0]);
        assert!(!queue.wants_more());
    }

    #[test]
    fn of_each_rule_it_is_known_how_many_there_are() {
        let mut queue = Queue::new(20);
        let mut random = Random(7);
        let mut given_up = 0;
        for step in 0..10_000 {
            let what = Subject { rule: random.below(3) as u32, ..subject(random.below(20)) };
            let (due, count) = (random.below(100), random.index_below(5));
            match random.below(100) {
                0 => queue.clear(),
                1..20 => drop(queue.take(due, count)),
                20..25 => queue.open(),
                25..40 => queue.look_at(what, due),
                _ => queue.push(what, due),
            }
            given_up += u32::from(queue.beyond < u64::MAX);
            for rule in 0..3 {
                let counted = queue.held.keys().filter(|subject| subject.rule == rule).count();
                assert_eq!(queue.count(rule), counted, "rule {rule} after {step} steps");
            }
            assert_eq!(queue.by_time.len(), queue.held.len());
        }
        assert!(given_up > 100, "{given_up}");
    }
}
