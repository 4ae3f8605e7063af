//! Merge: one batch out of two that follow one another, spent in portions of fuel.
//!
//! Times at or before `since` can no longer be told apart, so of the updates of one fact up to there only two can
//! matter: the first if it is a removal (of something in an older batch), and the last if it is an addition. What lies
//! between has cancelled out, because the updates of a fact alternate.

use std::cmp::Ordering;

use timely::progress::Antichain;
use weir_model::codec::relocate;

use super::batch::{Batch, Fact};

pub struct Merge {
    out: Batch,
    older_at: usize,
    newer_at: usize,
    /// Where each time of the sources stands among the times of the result.
    older_times: Vec<u32>,
    newer_times: Vec<u32>,
    /// How many times of the result are compacted into one: 0 or 1.
    compacted: u32,
}

impl Merge {
    pub fn new(older: &Batch, newer: &Batch, since: Antichain<u64>) -> Merge {
        let mut out = Batch::with_capacity(
            older.lower.clone(),
            newer.upper.clone(),
            since.clone(),
            older.ids.len() + newer.ids.len(),
            older.facts.len() + newer.facts.len(),
            older.arena.len() + newer.arena.len(),
        );
        let floor = since.elements().first().copied().unwrap_or(0);
        // Both lists ascend, and the newer one begins where the older one ends.
        let mut times: Vec<u64> = Vec::with_capacity(older.times.len() + newer.times.len());
        let mut place = |time: &u64| {
            let advanced = (*time).max(floor);
            if times.last() != Some(&advanced) {
                times.push(advanced);
            }
            times.len() as u32 - 1
        };
        let older_times = older.times.iter().map(&mut place).collect();
        let newer_times = newer.times.iter().map(&mut place).collect();
        let compacted = u32::from(times.first().is_some_and(|first| *first <= floor));
        out.times = times;
        Merge { out, older_at: 0, newer_at: 0, older_times, newer_times, compacted }
    }

    /// Merges nodes until the fuel is used up or all is done; a unit of fuel is a fact.
    pub fn work(&mut self, older: &Batch, newer: &Batch, fuel: &mut isize) {
        while *fuel > 0 {
            let order = match (older.ids.get(self.older_at), newer.ids.get(self.newer_at)) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(x), Some(y)) => x.cmp(y),
            };
            let before = (self.older_at, self.newer_at);
            let x = if order.is_le() { older.facts_at(self.older_at) } else { &[] };
            let y = if order.is_ge() { newer.facts_at(self.newer_at) } else { &[] };
            self.merge_node(older, x, newer, y);
            let id = if order.is_le() { older.ids[before.0] } else { newer.ids[before.1] };
            if self.out.facts.len() > self.out.finished() {
                self.out.finish_node(id);
            }
            self.older_at += usize::from(order.is_le());
            self.newer_at += usize::from(order.is_ge());
            *fuel -= (x.len() + y.len()) as isize;
        }
    }

    fn merge_node(&mut self, older: &Batch, x: &[Fact], newer: &Batch, y: &[Fact]) {
        let (mut i, mut j) = (0, 0);
        while i < x.len() || j < y.len() {
            let order = match (x.get(i), y.get(j)) {
                (Some(a), Some(b)) => older.compare(a, newer, b),
                (Some(_), None) => Ordering::Less,
                _ => Ordering::Greater,
            };
            let i_end = if order.is_le() { group_end(older, x, i) } else { i };
            let j_end = if order.is_ge() { group_end(newer, y, j) } else { j };
            self.merge_fact(older, &x[i..i_end], newer, &y[j..j_end]);
            (i, j) = (i_end, j_end);
        }
    }

    /// All updates of one fact: those of the older batch precede those of the newer one.
    fn merge_fact(&mut self, older: &Batch, x: &[Fact], newer: &Batch, y: &[Fact]) {
        if let ([one], []) = (x, y) {
            return self.push(older, one, self.older_times[one.time_index()]);
        }
        if let ([], [one]) = (x, y) {
            return self.push(newer, one, self.newer_times[one.time_index()]);
        }
        let compacted = self.compacted;
        let early_x = x.iter().take_while(|fact| self.older_times[fact.time_index()] < compacted).count();
        let early_y = y.iter().take_while(|fact| self.newer_times[fact.time_index()] < compacted).count();
        let early = early_x + early_y;
        let at = |index: usize| if index < early_x { (older, &x[index]) } else { (newer, &y[index - early_x]) };
        if early > 0 {
            let (batch, first) = at(0);
            if !first.adds() {
                self.push(batch, first, 0);
            }
            let (batch, last) = at(early - 1);
            if last.adds() {
                self.push(batch, last, 0);
            }
        }
        for fact in &x[early_x..] {
            self.push(older, fact, self.older_times[fact.time_index()]);
        }
        for fact in &y[early_y..] {
            self.push(newer, fact, self.newer_times[fact.time_index()]);
        }
    }

    fn push(&mut self, from: &Batch, fact: &Fact, time: u32) {
        let payload = relocate(fact.tag, fact.payload, &from.arena, &mut self.out.arena);
        self.out.facts.push(Fact { tag: fact.tag, when: time << 1 | (fact.when & 1), payload });
    }

    pub fn done(mut self) -> Batch {
        self.out.shrink();
        self.out
    }
}

fn group_end(batch: &Batch, facts: &[Fact], start: usize) -> usize {
    let mut end = start + 1;
    while end < facts.len() && batch.compare(&facts[start], batch, &facts[end]) == Ordering::Equal {
        end += 1;
    }
    end
}
