//! Segment: the facts of some nodes with everything they point at. Written once, then shared by every batch that refers to it.
//!
//!     facts    tag | when | payload              24 bytes each; those of a node by tag, then fact key, then time, removals first
//!     arena    what does not fit a payload, and bundles
//!     times    the ticks that `when` points at, ascending; a single one where all could be made one
//!     filter   which edges nodes with many facts may have

use weir_model::Symbol;
use weir_model::codec::{FactKey, decode_parallel, extent, fact_key, relocate, shift};
use weir_model::mutation::{Kind, Payload, Tag};

use super::bundle::Bundle;
use super::filter::{self, Filter};
use crate::view::HalfEdge;

/// One update of one fact of a node.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fact {
    pub tag: Tag,
    /// Index into `Segment::times`, shifted left once; the low bit is set when the fact is added.
    pub when: u32,
    pub payload: Payload,
}

impl Fact {
    pub fn adds(&self) -> bool {
        self.when & 1 == 1
    }

    pub fn time_index(&self) -> usize {
        (self.when >> 1) as usize
    }

    /// This fact at another time.
    pub fn at(self, time: u32) -> Fact {
        Fact { when: time << 1 | (self.when & 1), ..self }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub facts: Vec<Fact>,
    pub arena: Vec<u8>,
    pub times: Vec<u64>,
    pub filter: Filter,
}

impl Segment {
    pub fn with_capacity(facts: usize, arena: usize) -> Segment {
        Segment { facts: Vec::with_capacity(facts), arena: Vec::with_capacity(arena), ..Segment::default() }
    }

    pub fn time(&self, fact: &Fact) -> u64 {
        self.times[fact.time_index()]
    }

    /// Whether every update in here happened at or before `tick`.
    pub fn all_until(&self, tick: u64) -> bool {
        self.times.last().is_none_or(|last| *last <= tick)
    }

    /// Whether every update in here happened after `tick`.
    pub fn none_until(&self, tick: u64) -> bool {
        self.times.first().is_none_or(|first| *first > tick)
    }

    pub fn key(&self, fact: &Fact) -> FactKey {
        fact_key(fact.tag, fact.payload, &self.arena)
    }

    /// Whether two facts of a node are updates of one fact.
    pub fn same_fact(&self, one: &Fact, other: &Fact) -> bool {
        one.tag == other.tag
            && match one.tag.kind() {
                Kind::Label | Kind::Property => true,
                Kind::Out | Kind::In => one.payload == other.payload,
                _ => self.key(one) == self.key(other),
            }
    }

    /// The facts of a node one by one, those in its bundle too.
    pub fn one_by_one<'a>(&'a self, facts: &'a [Fact]) -> impl Iterator<Item = Fact> + 'a {
        let bundle = Bundle::of(self, facts);
        let others = &facts[..facts.len() - usize::from(bundle.is_some())];
        others.iter().copied().chain(bundle.into_iter().flat_map(Bundle::facts))
    }

    /// What the facts of a node are of, in their places; behind them of its bundle each property, beside the fact that says when
    /// all of them came.
    pub fn tags<'a>(&'a self, facts: &'a [Fact]) -> impl Iterator<Item = (Tag, &'a Fact)> + 'a {
        let bundle = Bundle::of(self, facts);
        let (others, rest) = facts.split_at(facts.len() - usize::from(bundle.is_some()));
        let tags = bundle.into_iter().flat_map(Bundle::tags);
        others.iter().map(|fact| (fact.tag, fact)).chain(tags.flat_map(|tag| rest.iter().map(move |fact| (tag, fact))))
    }

    /// What a fact that is half of an edge says.
    pub fn half(&self, fact: &Fact) -> HalfEdge {
        let kind = fact.tag.kind();
        let (other, ordinal) = match kind {
            Kind::Out | Kind::In => (fact.payload.as_node(), 0),
            _ => decode_parallel(fact.payload, &self.arena),
        };
        HalfEdge { kind: fact.tag.symbol(), outgoing: matches!(kind, Kind::Out | Kind::OutParallel), other, ordinal }
    }

    /// False where a node, by its facts in here, has no fact with this key.
    pub fn may_have(&self, facts: &[Fact], tag: Tag, key: FactKey) -> bool {
        let start = || (facts.as_ptr().addr() - self.facts.as_ptr().addr()) / size_of::<Fact>();
        facts.len() <= filter::FEW || filter::hash(start(), tag, key).is_none_or(|hash| self.filter.may_have(hash))
    }

    /// Appends a copy of a fact of another segment, with another time.
    pub fn copy(&mut self, fact: &Fact, from: &[u8], time: u32) {
        let payload = relocate(fact.tag, fact.payload, from, &mut self.arena);
        self.facts.push(Fact { payload, ..fact.at(time) });
    }

    /// Appends facts that point into another arena. What facts of one node point at mostly lies together, and then is copied at
    /// once.
    pub fn extend(&mut self, facts: impl Iterator<Item = Fact> + Clone, from: &[u8]) {
        let (mut start, mut end, mut length) = (usize::MAX, 0, 0);
        for extent in facts.clone().filter_map(|fact| extent(fact.tag, fact.payload)) {
            (start, end, length) = (start.min(extent.start), end.max(extent.end), length + extent.len());
        }
        let Segment { facts: own, arena, .. } = self;
        if start < end && end - start == length {
            let moved = (arena.len() as u64).wrapping_sub(start as u64);
            arena.extend_from_slice(&from[start..end]);
            own.extend(facts.map(|fact| Fact { payload: shift(fact.tag, fact.payload, moved), ..fact }));
        } else {
            own.extend(facts.map(|fact| Fact { payload: relocate(fact.tag, fact.payload, from, arena), ..fact }));
        }
    }

    /// Gives back what was reserved and is not used, where that is worth the copy.
    pub fn shrink(&mut self) {
        shrink(&mut self.facts);
        shrink(&mut self.arena);
    }
}

/// What facts of these kinds are of, among those of a node: each once for each kind, in the order of the facts.
pub fn symbols(facts: &[Fact], first: Kind, last: Kind) -> impl Iterator<Item = Symbol> {
    let mut rest = &facts[facts.partition_point(|fact| fact.tag.kind() < first)..];
    std::iter::from_fn(move || {
        let tag = rest.first().map(|fact| fact.tag).filter(|tag| tag.kind() <= last)?;
        rest = &rest[rest.partition_point(|fact| fact.tag <= tag)..];
        Some(tag.symbol())
    })
}

pub fn shrink<T>(column: &mut Vec<T>) {
    if column.len() < column.capacity() / 4 * 3 {
        column.shrink_to_fit();
    }
}
