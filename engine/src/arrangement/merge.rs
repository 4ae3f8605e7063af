//! Merge: one batch out of several that follow one another, spent in portions of fuel.
//!
//! A node that only one of them knows stays where its facts are; what is written is an index. Facts are copied where several
//! batches know a node, where updates may have cancelled out, and out of segments that are small or mostly dead.
//!
//! Times at or before `since` can no longer be told apart, so of the updates of one fact up to there only two can
//! matter: the first if it is a removal (of something in an older batch), and the last if it is an addition. What lies
//! between has cancelled out, because the updates of a fact alternate.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use timely::progress::Antichain;
use weir_model::NodeId;

use super::batch::{Batch, Piece, Writer};
use super::segment::{Fact, Segment};
use super::trace::SharedBatch;

/// Segments with fewer facts are copied together: a read passes through a table of them, which should lie in a near cache. The tests'
/// graphs are small, and their facts are to stay now and then too.
const SEGMENT_FACTS: usize = if cfg!(test) { 4 } else { 1 << 13 };

/// What it costs to let a node stay where it is, as facts copied.
const REFERENCE: isize = 2;

/// So many nodes ahead are fetched: the sources are more rows of memory than the processor follows by itself.
const AHEAD: usize = 16;

pub struct Merge {
    /// Those that are not in the result yet.
    times: Times,
    /// Oldest first.
    sources: Vec<Source>,
    /// The next node of each source that has one, and which source that is, oldest first. Beside one another: all are looked at for each node.
    next: Vec<(NodeId, usize)>,
    out: Writer,
    /// Times up to here are one.
    floor: u64,
    /// How many times of the result are compacted into one: 0 or 1.
    compacted: u32,
    /// The sources that know the node at hand, with where its facts lie that are not merged yet.
    heads: Vec<Head>,
    /// The updates of one fact, oldest first: which head, and where in its segment.
    updates: Vec<(usize, usize)>,
}

/// The times of segments, in order and each once. They are gathered before anything is copied, which says where among them its own stands:
/// millions where a standing query that looks through the graph keeps them apart, and too many for one portion.
struct Times {
    segments: Vec<Arc<Segment>>,
    /// The next time of each segment that has one, the segment, and where in it that is; the earliest on top.
    next: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

impl Times {
    /// Those behind `floor`.
    fn of(segments: impl Iterator<Item = Arc<Segment>>, floor: u64) -> Times {
        let segments: Vec<Arc<Segment>> = segments.filter(|segment| !segment.all_until(floor)).collect();
        let first = |(number, segment): (usize, &Arc<Segment>)| {
            let at = segment.times.partition_point(|time| *time <= floor);
            Reverse((segment.times[at], number, at))
        };
        let next = segments.iter().enumerate().map(first).collect();
        Times { segments, next }
    }

    /// As many as there are, and more where segments have some in common.
    fn count(&self) -> usize {
        self.next.iter().map(|Reverse((_, number, at))| self.segments[*number].times.len() - at).sum()
    }

    /// Appends what the fuel is enough for.
    fn gather(&mut self, to: &mut Vec<u64>, fuel: &mut isize) {
        while *fuel > 0
            && let Some(Reverse((first, number, at))) = self.next.pop()
        {
            let others = self.next.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
            let rest = &self.segments[number].times[at..];
            let most = &rest[..rest.len().min(*fuel as usize)];
            // All that come before any other's, and one in any case.
            let count = most.partition_point(|time| *time < others).max(1);
            let known = usize::from(to.last() == Some(&first));
            to.extend_from_slice(&most[known..count]);
            *fuel -= count as isize;
            if let Some(time) = rest.get(count) {
                self.next.push(Reverse((*time, number, at + count)));
            }
        }
        if self.next.is_empty() {
            self.segments.clear();
        }
    }
}

struct Source {
    batch: SharedBatch,
    /// Where its next node stands.
    at: usize,
    /// The number that each piece has in the result, if its facts stay.
    kept: Vec<Option<u32>>,
}

impl Source {
    /// Moves on, and says which node comes next.
    fn advance(&mut self) -> Option<NodeId> {
        self.at += 1;
        self.batch.prefetch(self.at + AHEAD);
        self.batch.ids.get(self.at).copied()
    }
}

#[derive(Clone, Copy)]
struct Head {
    source: usize,
    piece: usize,
    next: usize,
    end: usize,
}

impl Merge {
    /// Merges batches given oldest first.
    pub fn new(batches: &[SharedBatch], since: Antichain<u64>) -> Merge {
        let lower = batches.first().map_or_else(|| Antichain::from_elem(0), |batch| batch.lower.clone());
        let upper = batches.last().map_or_else(|| Antichain::from_elem(0), |batch| batch.upper.clone());
        let floor = since.elements().first().copied().unwrap_or(0);
        let nodes = batches.iter().map(|batch| batch.ids.len()).sum();
        let copied = |piece: &&Piece| !stays(piece);
        let pieces = || batches.iter().flat_map(|batch| batch.pieces()).filter(|piece| piece.live > 0);
        let (facts, arena) = pieces().filter(copied).fold((0, 0), |(facts, arena), piece| {
            (facts + piece.live, arena + piece.segment.arena.len() / piece.segment.facts.len().max(1) * piece.live)
        });
        // And nodes that several know, wherever their facts lie. To grow would copy everything, and so would giving back far too much.
        let (staying, texts) = pieces()
            .filter(|piece| stays(piece))
            .fold((0, 0), |(facts, arena), piece| (facts + piece.live, arena + piece.segment.arena.len()));
        let shared = about_shared(batches);
        let part_of = |all: usize| (all as f64 * shared) as usize;
        let mut fresh = Segment::with_capacity(facts + part_of(staying), arena + part_of(texts));
        let compacted = pieces().any(|piece| piece.segment.times.first().is_some_and(|first| *first <= floor));
        fresh.times.extend(compacted.then_some(floor));
        let times = Times::of(pieces().map(|piece| piece.segment.clone()), floor);
        fresh.times.reserve(times.count());
        let last = batches.iter().filter_map(|batch| batch.ids.last()).max().copied().unwrap_or(NodeId::new(0, 0));
        let mut out = Writer::new((lower, upper, since), (nodes, last), fresh);
        let mut source = |batch: &SharedBatch| Source {
            kept: batch
                .pieces()
                .iter()
                .map(|piece| (piece.live > 0 && stays(piece)).then(|| out.adopt(piece.segment.clone(), piece.whole)))
                .collect(),
            batch: batch.clone(),
            at: 0,
        };
        let sources = batches.iter().map(&mut source).collect();
        let next = batches.iter().zip(0..).filter_map(|(batch, index)| Some((*batch.ids.first()?, index))).collect();
        Merge { times, sources, next, out, floor, compacted: u32::from(compacted), heads: Vec::new(), updates: Vec::new() }
    }

    /// What is being merged, oldest first.
    pub fn sources(&self) -> impl Iterator<Item = &SharedBatch> {
        self.sources.iter().map(|source| &source.batch)
    }

    /// Merges nodes until the fuel is used up or all is done; a unit of fuel is a fact. True when all is done.
    pub fn work(&mut self, fuel: &mut isize) -> bool {
        self.times.gather(&mut self.out.fresh.times, fuel);
        while *fuel > 0 {
            crate::memory::attend();
            // The smallest id, where it is, and the smallest id anywhere else.
            let (mut least, mut other, mut holder) = (u128::MAX, u128::MAX, 0);
            // Chosen without branches: which source it is cannot be guessed.
            for (place, (id, _)) in self.next.iter().enumerate() {
                let id = id.as_number();
                let smaller = id < least;
                let rest = if smaller { least } else { id };
                least = if smaller { id } else { least };
                holder = if smaller { place } else { holder };
                other = if rest < other { rest } else { other };
            }
            if self.next.is_empty() {
                return true;
            }
            // The very last node there can be is merged even if one source alone has it.
            if least == other {
                self.merge_shared(NodeId::from_number(least), fuel);
            } else {
                self.take_over(holder, NodeId::from_number(other), fuel);
            }
        }
        false
    }

    /// Takes over the nodes of one source up to the next id of the others.
    fn take_over(&mut self, holder: usize, until: NodeId, fuel: &mut isize) {
        let (mut id, index) = self.next[holder];
        while *fuel > 0 && id < until {
            let source = &mut self.sources[index];
            let place = source.batch.place(source.at);
            match source.kept[place.piece()] {
                // Two updates of one fact may have cancelled out since.
                _ if place.repeats() => return self.merge_shared(id, fuel),
                Some(piece) => {
                    *fuel -= REFERENCE;
                    self.out.refer(id, piece, place, place.is_first());
                }
                None => {
                    let (segment, facts) = source.batch.node(source.at);
                    *fuel -= facts.len() as isize;
                    copy(&mut self.out.fresh, segment, facts, self.floor);
                    self.out.finish_node(id, place.is_first());
                }
            }
            match source.advance() {
                Some(next) => id = next,
                None => {
                    self.next.remove(holder);
                    return;
                }
            }
            self.next[holder].0 = id;
        }
    }

    /// Merges the facts of one node, fact by fact.
    fn merge_shared(&mut self, id: NodeId, fuel: &mut isize) {
        self.heads.clear();
        let mut first_ever = false;
        let Merge { sources, next, heads, .. } = self;
        next.retain_mut(|(next, index)| {
            if *next != id {
                return true;
            }
            let source = &mut sources[*index];
            let place = source.batch.place(source.at);
            *fuel -= place.count as isize;
            first_ever |= place.is_first();
            let range = place.range();
            heads.push(Head { source: *index, piece: place.piece(), next: range.start, end: range.end });
            source.advance().inspect(|further| *next = *further).is_some()
        });
        loop {
            self.take_over_facts();
            let mut first: Option<usize> = None;
            let mut shared = false;
            for index in 0..self.heads.len() {
                if self.heads[index].next == self.heads[index].end {
                    continue;
                }
                let order = first.map_or(Ordering::Less, |first| self.compare(index, first));
                shared = (shared && order != Ordering::Less) || order == Ordering::Equal;
                if order == Ordering::Less {
                    first = Some(index);
                }
            }
            let Some(first) = first else { break };
            self.updates.clear();
            let (of, first_at) = (segment_of(&self.sources, &self.heads[first]), self.heads[first].next);
            for index in first..if shared { self.heads.len() } else { first + 1 } {
                let Head { mut next, end, .. } = self.heads[index];
                let segment = segment_of(&self.sources, &self.heads[index]);
                while next < end
                    && ((index, next) == (first, first_at)
                        || segment.compare(&segment.facts[next], of, &of.facts[first_at]).is_eq())
                {
                    self.updates.push((index, next));
                    next += 1;
                }
                self.heads[index].next = next;
            }
            self.push_updates();
        }
        self.out.finish_node(id, first_ever);
    }

    /// Copies facts of the head whose next tag is the smallest, as long as no other fact with that tag is about.
    fn take_over_facts(&mut self) {
        let Merge { sources, out, heads, floor, .. } = self;
        let next_tag = |head: &Head| {
            let facts = &segment_of(sources, head).facts[head.next..head.end];
            facts.first().map_or(u64::MAX, |fact| u64::from(fact.tag.0))
        };
        let (mut smallest, mut other, mut holder) = (u64::MAX, u64::MAX, 0);
        for (index, head) in heads.iter().enumerate() {
            let tag = next_tag(head);
            if tag < smallest {
                (smallest, other, holder) = (tag, smallest, index);
            } else {
                other = other.min(tag);
            }
        }
        let Some(head) = heads.get_mut(holder) else { return };
        let segment = segment_of(sources, head);
        let facts = &segment.facts[head.next..head.end];
        let mut alone = 0;
        while let Some(fact) = facts.get(alone).filter(|fact| u64::from(fact.tag.0) < other) {
            // The updates of a tag that comes twice are to be looked at.
            if facts.get(alone + 1).is_some_and(|next| next.tag == fact.tag) {
                break;
            }
            alone += 1;
        }
        copy(&mut out.fresh, segment, &facts[..alone], *floor);
        head.next += alone;
    }

    /// The order of the next facts of two heads.
    fn compare(&self, x: usize, y: usize) -> Ordering {
        let next = |head: &Head| {
            let segment = segment_of(&self.sources, head);
            (segment, &segment.facts[head.next])
        };
        let ((x, x_fact), (y, y_fact)) = (next(&self.heads[x]), next(&self.heads[y]));
        x.compare(x_fact, y, y_fact)
    }

    /// What is left of the updates of one fact.
    fn push_updates(&mut self) {
        let early = match self.updates[..] {
            [_] => 0,
            _ => self.updates.iter().take_while(|update| self.update(**update).2 < self.compacted).count(),
        };
        if early > 0 {
            let (first, last) = (self.updates[0], self.updates[early - 1]);
            if !self.update(first).1.adds() {
                self.push(first);
            }
            if self.update(last).1.adds() {
                self.push(last);
            }
        }
        for index in early..self.updates.len() {
            self.push(self.updates[index]);
        }
    }

    /// The segment and the fact of an update, and its time in the result.
    fn update(&self, (head, at): (usize, usize)) -> (&Segment, &Fact, u32) {
        let segment = segment_of(&self.sources, &self.heads[head]);
        let fact = &segment.facts[at];
        (segment, fact, time_index(&self.out.fresh.times, self.floor, segment.time(fact)))
    }

    fn push(&mut self, (head, at): (usize, usize)) {
        let Merge { sources, out, heads, floor, .. } = self;
        let segment = segment_of(sources, &heads[head]);
        let fact = &segment.facts[at];
        let time = time_index(&out.fresh.times, *floor, segment.time(fact));
        out.fresh.copy(fact, &segment.arena, time);
    }

    pub fn done(self) -> Batch {
        self.out.finish()
    }
}

/// About which part of the facts lies at nodes that several batches know, rather more than less: some of the nodes tell.
fn about_shared(batches: &[SharedBatch]) -> f64 {
    const LOOKED_AT: usize = 64;
    let nodes: usize = batches.iter().map(|batch| batch.ids.len()).sum();
    let step = (nodes / LOOKED_AT).max(1);
    let (mut all, mut shared) = (0, 1);
    for (number, batch) in batches.iter().enumerate() {
        for (place, id) in batch.ids.iter().enumerate().step_by(step) {
            let facts = batch.place(place).range().len();
            let elsewhere = |(other, batch): (usize, &SharedBatch)| other != number && batch.index_of(*id).is_some();
            all += facts;
            shared += if batches.iter().enumerate().any(elsewhere) { facts } else { 0 };
        }
    }
    (1.25 * shared as f64 / all.max(1) as f64).min(1.0)
}

/// Whether the facts of a segment stay where they are: enough of them are still in use, and they are enough for one.
fn stays(piece: &Piece) -> bool {
    piece.live >= SEGMENT_FACTS && piece.live >= piece.whole / 4 * 3
}

/// Copies facts that lie one after another.
fn copy(fresh: &mut Segment, segment: &Segment, facts: &[Fact], floor: u64) {
    if segment.all_until(floor) {
        return fresh.extend(facts.iter().map(|fact| fact.at(0)), &segment.arena);
    }
    let times = std::mem::take(&mut fresh.times);
    fresh.extend(facts.iter().map(|fact| fact.at(time_index(&times, floor, segment.time(fact)))), &segment.arena);
    fresh.times = times;
}

fn segment_of<'a>(sources: &'a [Source], head: &Head) -> &'a Segment {
    &sources[head.source].batch.pieces()[head.piece].segment
}

/// Where a time stands among those of the result.
fn time_index(times: &[u64], floor: u64, time: u64) -> u32 {
    if time <= floor { 0 } else { times.partition_point(|other| *other < time) as u32 }
}

#[cfg(test)]
mod tests {
    use weir_model::{Mutations, Symbol, Value};

    use super::*;
    use crate::arrangement::Facts;
    use crate::arrangement::build::{Builder, Shard};
    use crate::view::Direction;

    const NODES: u64 = 12;
    const RECORDS: u64 = 5;

    /// Batches of `RECORDS` ticks each, beginning at tick 10: sets, overwrites and removals on few nodes.
    fn batches(seed: &mut u64, count: usize) -> Vec<SharedBatch> {
        let mut random = |below: u64| {
            *seed ^= *seed << 13;
            *seed ^= *seed >> 7;
            *seed ^= *seed << 17;
            *seed % below
        };
        let mut builder = Builder::default();
        let mut batches: Vec<SharedBatch> = Vec::new();
        for number in 0..count as u64 {
            let mut mutations = Mutations::default();
            for record in 0..RECORDS {
                mutations.start_record(record as u32);
                for _ in 0..random(6) {
                    let (node, key) = (node(random(NODES)), Symbol(random(4) as u32));
                    match random(6) {
                        0 => mutations.set_property(node, key, &Value::Text("long enough for the arena".repeat(2).into())),
                        1 => mutations.set_property(node, key, &Value::Integer(random(3) as i64)),
                        2 => mutations.set_property(node, key, &Value::Null),
                        3 => mutations.clear_properties(node),
                        4 => mutations.set_label(node, key, random(2) == 0),
                        _ => mutations.set_edge(node, key, self::node(random(NODES)), random(2) as u32, random(3) > 0),
                    }
                }
            }
            let first = 10 + number * RECORDS;
            let (lower, upper) = (Antichain::from_elem(first), Antichain::from_elem(first + RECORDS));
            let times = (first..first + RECORDS).collect();
            let batch = builder.build(&mutations, times, lower, upper, Shard { index: 0, count: 1 }, &batches);
            batches.push(batch);
        }
        batches
    }

    fn node(n: u64) -> NodeId {
        NodeId::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n)
    }

    /// All there is to read of a node at a tick.
    fn state(batches: &[SharedBatch], id: NodeId, at: u64) -> Vec<String> {
        let facts = Facts::find(batches, id);
        let mut all = Vec::new();
        facts.labels(at, |label| all.push(format!("{label:?}")));
        facts.properties(at, |key, value| all.push(format!("{key:?} {value:?}")));
        facts.edges(Direction::Both, &[], at, &mut |half| all.push(format!("{half:?}")));
        all.sort();
        all
    }

    #[test]
    fn reads_are_the_same_from_since_on() {
        let mut seed = 88172645463325252;
        for count in [2, 3, 5, 9] {
            for round in 0..40 {
                let parts = batches(&mut seed, count);
                let end = 10 + count as u64 * RECORDS;
                let since = 10 + round % (end - 10);
                // The first stays as it is: a merge must keep removals of what is older.
                let mut merge = Merge::new(&parts[1..], Antichain::from_elem(since));
                while !merge.work(&mut 3) {}
                let merged = [parts[0].clone(), SharedBatch::new(merge.done())];
                for (id, at) in (0..NODES).flat_map(|n| (since..end).map(move |at| (node(n), at))) {
                    assert_eq!(
                        state(&merged, id, at),
                        state(&parts, id, at),
                        "node {id:?} at {at}, since {since}, {count} batches"
                    );
                }
            }
        }
    }

    #[test]
    fn what_cancelled_out_is_gone() {
        let mut seed = 2685821657736338717;
        let parts = batches(&mut seed, 40);
        let end = 10 + 40 * RECORDS;
        let mut merge = Merge::new(&parts, Antichain::from_elem(end));
        assert!(merge.work(&mut isize::MAX.clone()));
        let merged = merge.done();
        // Nothing is older, so what is left is what holds, once.
        let facts = |index| merged.node(index).1;
        assert!((0..merged.ids.len()).flat_map(facts).all(Fact::adds), "{merged:?}");
        assert!(parts.iter().map(|part| part.len()).sum::<usize>() > 2 * merged.len());
        assert!(merged.ids.is_sorted_by(|a, b| a < b));
    }
}
