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

use smallvec::SmallVec;
use timely::progress::Antichain;
use weir_model::NodeId;
use weir_model::codec::FactKey;
use weir_model::mutation::Tag;

use super::batch::{Batch, Piece, Writer};
use super::bundle::Bundle;
use super::segment::{Fact, Segment};
use super::trace::SharedBatch;

/// Segments with fewer facts are copied together: a read passes through a table of them, which should lie in a near cache. The
/// tests' graphs are small, and their facts are to stay now and then too.
const SEGMENT_FACTS: usize = if cfg!(test) { 4 } else { 1 << 13 };

/// What it costs to let a node stay where it is, as facts copied.
const REFERENCE: isize = 2;

/// Mostly no more sources than this know a node.
const SOURCES: usize = 8;

/// Nodes are fetched this many ahead: the sources are more rows of memory than the processor follows by itself.
const AHEAD: usize = 16;

pub struct Merge {
    /// The times that are not in the result yet.
    times: Times,
    /// Oldest first.
    sources: Vec<Source>,
    /// The next node of each source that has one, and which source that is, oldest first. Beside one another: all are looked at
    /// for each node.
    next: Vec<(NodeId, usize)>,
    out: Writer,
    /// Times up to here are one.
    floor: u64,
    /// How many times of the result are compacted into one: 0 or 1.
    compacted: u32,
}

/// The times of segments, in order and each once. They are gathered before anything is copied, which says where among them its
/// own stands: millions where a standing query that looks through the graph keeps them apart, and too many for one portion.
struct Times {
    segments: Vec<Arc<Segment>>,
    /// The next time of each segment that has one, the segment, and where in it that is; the earliest on top.
    next: BinaryHeap<Reverse<(u64, usize, usize)>>,
}

impl Times {
    /// The times behind `floor`.
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

/// What a source knows of the node at hand, as far as it is not merged yet: at least one fact.
struct Head<'a> {
    segment: &'a Segment,
    facts: &'a [Fact],
    /// What the first of them is an update of. Kept, for it is compared more than once, and may lie elsewhere.
    next: FactOf,
    /// Whether some fact has more than one update.
    repeats: bool,
}

/// What tells the facts of a node apart, in their order.
type FactOf = (Tag, FactKey);

/// Those of one fact, oldest first.
type Updates<'a> = SmallVec<[(&'a Segment, &'a Fact); 4]>;

impl<'a> Head<'a> {
    fn new(segment: &'a Segment, facts: &'a [Fact], repeats: bool) -> Option<Head<'a>> {
        let next = fact_of(segment, facts.first()?);
        Some(Head { segment, facts, next, repeats })
    }

    /// Passes over facts. False if that was all.
    fn skip(&mut self, count: usize) -> bool {
        self.facts = &self.facts[count..];
        let next = self.facts.first().map(|fact| fact_of(self.segment, fact));
        next.inspect(|next| self.next = *next).is_some()
    }

    /// How many updates come before this fact of another head. The first does.
    fn count_until(&self, until: Option<FactOf>) -> usize {
        let Some((tag, key)) = until else { return self.facts.len() };
        let before = |fact: &Fact| fact.tag < tag || (fact.tag == tag && self.segment.key(fact) < key);
        let (mut count, mut step) = (1, 1);
        // In longer and longer steps: it is one or two mostly, and thousands where one source knows most of a large node.
        while self.facts.get(count + step - 1).is_some_and(before) {
            count += step;
            step *= 2;
        }
        let further = &self.facts[count..self.facts.len().min(count + step - 1)];
        count + further.partition_point(before)
    }

    /// And of those, how many before the first that has more than one update.
    fn alone_until(&self, until: Option<FactOf>) -> usize {
        let count = self.count_until(until);
        let same = |pair: &[Fact]| self.segment.same_fact(&pair[0], &pair[1]);
        let first = if self.repeats { self.facts[..count].windows(2).position(same) } else { None };
        first.unwrap_or(count)
    }

    /// Moves the updates of the first fact to those of other heads. False if that was all.
    fn take(&mut self, updates: &mut Updates<'a>) -> bool {
        let (segment, next) = (self.segment, self.next);
        let further = |fact: &&Fact| fact.tag == next.0 && segment.key(fact) == next.1;
        let count = 1 + self.facts[1..].iter().take_while(further).count();
        updates.extend(self.facts[..count].iter().map(|fact| (segment, fact)));
        self.skip(count)
    }
}

fn fact_of(segment: &Segment, fact: &Fact) -> FactOf {
    (fact.tag, segment.key(fact))
}

/// Which of some heads has the smallest fact.
struct Least {
    head: usize,
    /// Whether others have it, too.
    shared: bool,
    /// The smallest fact of those that are greater.
    until: Option<FactOf>,
}

impl Least {
    fn of(heads: &[Head<'_>]) -> Option<Least> {
        let mut next = heads.first()?.next;
        let mut least = Least { head: 0, shared: false, until: None };
        for (index, head) in heads.iter().enumerate().skip(1) {
            match head.next.cmp(&next) {
                Ordering::Less => {
                    least = Least { head: index, shared: false, until: Some(next) };
                    next = head.next;
                }
                Ordering::Equal => least.shared = true,
                Ordering::Greater if least.until.is_none_or(|until| head.next < until) => least.until = Some(head.next),
                Ordering::Greater => {}
            }
        }
        Some(least)
    }
}

/// Writes what is left of the updates of one fact. True if that is more than one.
fn push_updates(fresh: &mut Segment, updates: &[(&Segment, &Fact)], floor: u64, compacted: u32) -> bool {
    let before = fresh.facts.len();
    let mut push = |(segment, fact): (&Segment, &Fact)| {
        let time = time_index(&fresh.times, floor, segment.time(fact));
        fresh.copy(fact, &segment.arena, time);
    };
    let is_early = |(segment, fact): &&(&Segment, &Fact)| compacted > 0 && segment.time(fact) <= floor;
    let early = if updates.len() > 1 { updates.iter().take_while(is_early).count() } else { 0 };
    let (early, late) = updates.split_at(early);
    if let [first, ..] = early
        && !first.1.adds()
    {
        push(*first);
    }
    if let [.., last] = early
        && last.1.adds()
    {
        push(*last);
    }
    late.iter().for_each(|update| push(*update));
    fresh.facts.len() > before + 1
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
        // And nodes that several know, wherever their facts lie. To grow would copy everything, and so would giving back far too
        // much.
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
        Merge { times, sources, next, out, floor, compacted: u32::from(compacted) }
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
                    self.out.finish_merged(id, place.is_first(), false);
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

    /// Merges the facts of one node. What lies in one source between two facts of others is copied together.
    fn merge_shared(&mut self, id: NodeId, fuel: &mut isize) {
        let Merge { sources, next, out, floor, compacted, .. } = self;
        // Oldest first, as updates of one fact are to be.
        let mut places: SmallVec<[(usize, usize); SOURCES]> = SmallVec::new();
        next.retain_mut(|(next, index)| {
            if *next != id {
                return true;
            }
            let source = &mut sources[*index];
            places.push((*index, source.at));
            source.advance().inspect(|further| *next = *further).is_some()
        });
        // Where several say something of properties, it is property by property.
        let several = places.iter().filter(|(index, at)| sources[*index].batch.place(*at).has_properties()).count() > 1;
        let loose = |(index, at): &(usize, usize)| {
            let (segment, facts) = sources[*index].batch.node(*at);
            let bundle = if several { Bundle::of(segment, facts) } else { None };
            bundle.map(|_| segment.one_by_one(facts).collect::<Vec<_>>())
        };
        let loose: SmallVec<[Option<Vec<Fact>>; SOURCES]> = places.iter().map(loose).collect();
        let mut heads: SmallVec<[Head<'_>; SOURCES]> = SmallVec::new();
        let (mut first_ever, mut repeats) = (false, false);
        for ((index, at), loose) in places.iter().map(|(index, at)| (*index, *at)).zip(&loose) {
            let batch = &sources[index].batch;
            let (segment, facts) = batch.node(at);
            let facts = loose.as_deref().unwrap_or(facts);
            *fuel -= facts.len() as isize;
            first_ever |= batch.place(at).is_first();
            heads.extend(Head::new(segment, facts, batch.place(at).repeats()));
        }
        let mut updates: Updates<'_> = SmallVec::new();
        while let Some(Least { head: least, shared, until }) = Least::of(&heads) {
            let head = &mut heads[least];
            let count = if shared { 0 } else { head.alone_until(until) };
            if count > 0 {
                copy(&mut out.fresh, head.segment, &head.facts[..count], *floor);
                if !head.skip(count) {
                    heads.remove(least);
                }
                continue;
            }
            updates.clear();
            let fact = head.next;
            heads.retain(|head| head.next != fact || head.take(&mut updates));
            repeats |= push_updates(&mut out.fresh, &updates, *floor, *compacted);
        }
        out.finish_merged(id, first_ever, repeats);
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
    use crate::view::looked::by_stretches;
    use crate::view::{Direction, HalfEdge};

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
        NodeId::spread(n)
    }

    /// All there is to read of a node at a tick.
    fn state(batches: &[SharedBatch], id: NodeId, at: u64) -> Vec<String> {
        let facts = Facts::find(batches, id);
        let mut all = Vec::new();
        facts.labels(at, |label| all.push(format!("{label:?}")));
        facts.properties(at, |key, value| all.push(format!("{key:?} {value:?}")));
        for (direction, kinds) in [(Direction::Both, &[][..]), (Direction::Outgoing, &[Symbol(1), Symbol(3)][..])] {
            let mut halves = Vec::new();
            facts.edges(direction, kinds, at, &mut |half| halves.push(half));
            for more in [1, 3] {
                let stretches = by_stretches(more, &|each| facts.edges_while(direction, kinds, at, each));
                assert_eq!(stretches, halves, "node {id:?} at {at}, {more} at a time");
            }
            assert_eq!(facts.count_edges(direction, kinds, at), halves.len() as u64, "node {id:?} at {at}");
            all.extend(halves.iter().map(|half| format!("{direction:?} {half:?}")));
        }
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
    fn a_node_of_many_edges_keeps_each_of_them() {
        const MANY: u64 = 1000;
        let (pays, amount) = (Symbol(1), Symbol(2));
        // By their ids what one batch says lies between what others say, now one by one and now by hundreds.
        let said = |n: u64, number: u64| match number {
            0 if n < 700 => Some(Some(n)),
            1 if (700..710).contains(&n) => Some(Some(n)),
            2 if n.is_multiple_of(50) => Some(None),
            3 if (300..400).contains(&n) || n.is_multiple_of(100) => Some(Some(n + 1)),
            4 if n >= 710 => Some(Some(n)),
            _ => None,
        };
        let (mut builder, mut parts, mut expected) = (Builder::default(), Vec::new(), vec![None; MANY as usize]);
        for number in 0..5 {
            let mut mutations = Mutations::default();
            mutations.start_record(0);
            for (n, amount_of) in (0..MANY).filter_map(|n| Some((n, said(n, number)?))) {
                let value = amount_of.map_or(Value::Null, |amount| Value::Integer(amount as i64));
                mutations.set_edge(node(MANY), pays, node(n), 0, amount_of.is_some());
                mutations.set_edge_property(node(MANY), pays, node(n), 0, amount, &value);
                expected[n as usize] = amount_of;
            }
            let at = |tick| Antichain::from_elem(tick);
            let shard = Shard { index: 0, count: 1 };
            let batch = builder.build(&mutations, vec![number + 1], at(number + 1), at(number + 2), shard, &parts);
            parts.push(batch);
        }
        for (first, since) in [(0, 9), (1, 9), (0, 0), (1, 0)] {
            let mut merge = Merge::new(&parts[first..], Antichain::from_elem(since));
            while !merge.work(&mut 100) {}
            let merged: Vec<SharedBatch> = parts[..first].iter().cloned().chain([SharedBatch::new(merge.done())]).collect();
            let facts = Facts::find(&merged, node(MANY));
            let mut count = 0;
            facts.edges(Direction::Outgoing, &[pays], 9, &mut |_| count += 1);
            assert_eq!(count, expected.iter().flatten().count());
            for (n, amount_of) in (0..).zip(&expected) {
                let half = HalfEdge { kind: pays, outgoing: true, other: node(n), ordinal: 0 };
                assert_eq!(facts.has_half(half, 9), amount_of.is_some(), "edge {n}, merged from {first} on");
                let value = facts.edge_property(pays, node(n), 0, amount, 9);
                assert_eq!(value, amount_of.map_or(Value::Null, |amount| Value::Integer(amount as i64)), "edge {n}");
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
