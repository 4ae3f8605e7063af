//! Facts: what one node is, read across the batches of a shard, at any tick those batches still tell apart.
//!
//! Batches follow one another in time, so the newest batch that mentions a fact decides it.

use std::ops::ControlFlow;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use weir_model::codec::{
    FactKey, decode_edge_property, decode_payload, edge_property_key, edge_property_keys, first_of_key, half_key, parallel_keys,
};
use weir_model::mutation::{Kind, Tag};
use weir_model::{NodeId, Symbol, Value};

use super::bundle::{BUNDLE, Bundle};
use super::prefetch::prefetch_all;
use super::segment::{Fact, Segment, symbols};
use super::trace::SharedBatch;
use crate::view::{Direction, HalfEdge};

/// Of the facts of a node with many, those that are looked at first: properties stand behind edges.
const LOOKED_AT_LAST: usize = 4;

/// Up to this many facts are looked through in order.
const FEW: usize = 16;

pub const LAST_SYMBOL: Symbol = Symbol((1 << Tag::SYMBOL_BITS) - 1);

/// The facts of one node in each batch that knows it, newest first.
pub struct Facts<'a> {
    parts: SmallVec<[Part<'a>; 6]>,
}

/// The facts of one node in one batch.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub segment: &'a Segment,
    pub facts: &'a [Fact],
    /// No update in the batch is later. Most reads are of later moments, and need not ask the segment for its ticks.
    pub last: u64,
    /// Whether any of them is a label or a property: most batches know only edges of a node, and most questions are not for
    /// those.
    pub labels: bool,
    pub properties: bool,
}

impl<'a> Part<'a> {
    /// Fetches what is looked at first by who asks for labels and properties, and perhaps for edges.
    pub fn prefetch(&self, edges: bool) {
        let (many, count) = (self.facts.len() > FEW, self.facts.len().min(LOOKED_AT_LAST));
        if self.labels || (!many && (self.properties || edges)) {
            prefetch_all(&self.facts[..count]);
        }
        if many && (self.properties || edges) {
            prefetch_all(&self.facts[self.facts.len() - count..]);
        }
    }

    fn may_have(&self, kind: Kind) -> bool {
        match kind {
            Kind::Label => self.labels,
            Kind::Property => self.properties,
            _ => true,
        }
    }

    fn is_bundled(&self) -> bool {
        self.facts.last().is_some_and(|fact| fact.tag == BUNDLE)
    }

    fn bundle(&self) -> Option<Bundle<'a>> {
        Bundle::of(self.segment, self.facts)
    }

    fn all_until(&self, tick: u64) -> bool {
        self.last <= tick || self.segment.all_until(tick)
    }

    /// Where the facts with a tag and this key, or with greater ones, begin.
    fn first_of_key(&self, tag: Tag, key: FactKey) -> usize {
        let Part { segment, facts, .. } = *self;
        match key {
            FactKey::Single => first_of(facts, tag),
            FactKey::Node(a, b) => facts.partition_point(|fact| (fact.tag, fact.payload.a, fact.payload.b) < (tag, a, b)),
            FactKey::Further(first, ..) => facts.partition_point(|fact| {
                let before = |first_here: u64| first_here < first || (first_here == first && segment.key(fact) < key);
                fact.tag < tag || (fact.tag == tag && before(first_of_key(fact.payload, &segment.arena)))
            }),
        }
    }
}

impl<'a> Facts<'a> {
    /// Looks a node up in batches given oldest first.
    pub fn find(batches: &'a [SharedBatch], id: NodeId) -> Facts<'a> {
        let mut parts = SmallVec::new();
        for batches in batches.rchunks(8) {
            // The filters of some batches at a time: they lie far apart, and the processor waits for them together.
            let mut maybe = 0u8;
            for (number, batch) in batches.iter().enumerate() {
                maybe |= u8::from(batch.may_contain(id)) << number;
            }
            while let Some(newest) = maybe.checked_ilog2() {
                maybe ^= 1 << newest;
                let batch = &batches[newest as usize];
                if let Some(position) = batch.position(id) {
                    parts.push(batch.part(position));
                    if batch.place(position).is_first() {
                        return Facts { parts };
                    }
                }
            }
        }
        Facts { parts }
    }

    /// A node found before: its facts in some batches, newest first.
    pub fn known(parts: impl IntoIterator<Item = Part<'a>>) -> Facts<'a> {
        let mut found = SmallVec::new();
        for part in parts {
            found.push(part);
        }
        Facts { parts: found }
    }

    pub fn is_unknown(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether there are at least this many updates of the node.
    pub fn has_at_least(&self, updates: usize) -> bool {
        self.parts.iter().map(|part| part.facts.len()).sum::<usize>() >= updates
    }

    pub fn has_label(&self, label: Symbol, at: u64) -> bool {
        has_label(&self.parts, label, at)
    }

    pub fn has_property(&self, key: Symbol, at: u64) -> bool {
        single(&self.parts, Tag::new(Kind::Property, key), at).is_some()
    }

    pub fn property(&self, key: Symbol, at: u64) -> Value {
        property(&self.parts, key, at)
    }

    /// Every fact whose tag lies in a range that holds at a tick: newest batch first, so not in order.
    pub fn each(&self, from: Tag, to: Tag, at: u64, each: impl FnMut(&'a Segment, Fact)) {
        self.each_in(&[(from, to)], at, each);
    }

    /// As `each`, for several ranges, ascending.
    fn each_in(&self, ranges: &[(Tag, Tag)], at: u64, mut each: impl FnMut(&'a Segment, Fact)) {
        let _: ControlFlow<()> = self.try_each_in(ranges, at, |segment, fact| {
            each(segment, fact);
            ControlFlow::Continue(())
        });
    }

    /// As `each_in`, as long as it is to go on.
    fn try_each_in(
        &self,
        ranges: &[(Tag, Tag)],
        at: u64,
        mut each: impl FnMut(&'a Segment, Fact) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        // Keys that a newer batch has decided. Only keys with a removal can also stand in an older batch, and removals
        // are rare, so this is nearly always empty.
        let mut decided: Option<FxHashSet<(Tag, FactKey)>> = None;
        for (depth, part) in self.parts.iter().enumerate() {
            let Part { segment, mut facts, .. } = *part;
            let oldest = depth + 1 == self.parts.len();
            if part.is_bundled() {
                facts = &facts[..facts.len() - 1];
            }
            for (from, to) in ranges {
                if from.kind() == to.kind() && !part.may_have(from.kind()) {
                    continue;
                }
                facts = &facts[first_of(facts, *from)..];
                // The ticks lie elsewhere: most ranges are empty, and need none.
                if facts.first().is_none_or(|first| first.tag > *to) {
                    continue;
                }
                let all = part.all_until(at);
                if !all && segment.none_until(at) {
                    break;
                }
                while let Some((first, further)) = facts.split_first()
                    && first.tag <= *to
                {
                    let same = 1 + further.iter().take_while(|fact| segment.same_fact(first, fact)).count();
                    let updates;
                    (updates, facts) = facts.split_at(same);
                    let until = if all { same } else { updates.iter().take_while(|fact| segment.time(fact) <= at).count() };
                    let Some(last) = updates[..until].last() else { continue };
                    if decided.as_ref().is_some_and(|decided| decided.contains(&(first.tag, segment.key(first)))) {
                        continue;
                    }
                    let removal = !updates[..until].iter().all(Fact::adds);
                    if removal && !oldest {
                        decided.get_or_insert_default().insert((first.tag, segment.key(first)));
                    }
                    if last.adds() {
                        each(segment, *last)?;
                    }
                }
            }
            // A bundle lies elsewhere, and is looked at only where properties are asked for. What it says is never a removal.
            for (from, to) in ranges.iter().filter(|(from, to)| (from.kind()..=to.kind()).contains(&Kind::Property)) {
                let bundle = part.bundle().filter(|bundle| part.last <= at || bundle.time() <= at);
                for fact in bundle.into_iter().flat_map(Bundle::facts).filter(|fact| (*from..=*to).contains(&fact.tag)) {
                    if decided.as_ref().is_none_or(|decided| !decided.contains(&(fact.tag, FactKey::Single))) {
                        each(segment, fact)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn each_of_kind(&self, kind: Kind, at: u64, each: impl FnMut(&'a Segment, Fact)) {
        self.each(Tag::new(kind, Symbol(0)), Tag::new(kind, LAST_SYMBOL), at, each);
    }

    pub fn labels(&self, at: u64, mut each: impl FnMut(Symbol)) {
        self.each_of_kind(Kind::Label, at, |_, fact| each(fact.tag.symbol()));
    }

    pub fn properties(&self, at: u64, mut each: impl FnMut(Symbol, Value)) {
        self.each_of_kind(Kind::Property, at, |segment, fact| {
            each(fact.tag.symbol(), decode_payload(fact.payload, &segment.arena))
        });
    }

    /// The half edges of a node, of these types or of any.
    pub fn edges(&self, direction: Direction, kinds: &[Symbol], at: u64, each: &mut dyn FnMut(HalfEdge)) {
        self.each_in(&edge_ranges(direction, kinds), at, |segment, fact| each(segment.half(&fact)));
    }

    /// As `edges`, as long as `each` answers that more are wanted. Answers whether all were given.
    pub fn edges_while(&self, direction: Direction, kinds: &[Symbol], at: u64, each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        let ended = self.try_each_in(&edge_ranges(direction, kinds), at, |segment, fact| {
            if each(segment.half(&fact)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        ended.is_continue()
    }

    /// The facts about single half edges from a tag and an other end on, up to a tag: about `most` of each batch, and where the
    /// next begin.
    pub fn stretch(&self, from: (Tag, NodeId), to: Tag, most: usize) -> (Facts<'a>, Option<(Tag, NodeId)>) {
        let key = |fact: &Fact| (fact.tag, fact.payload.as_node());
        let begun = |part: &Part<'a>| &part.facts[part.facts.partition_point(|fact| fact.tag < from.0 || key(fact) < from)..];
        let following = |part: &Part<'a>| begun(part).get(most).map(key).filter(|next| next.0 <= to && *next > from);
        let next = self.parts.iter().filter_map(following).min();
        let parts = self.parts.iter().map(|part| {
            let facts = begun(part);
            let end = facts.partition_point(|fact| fact.tag <= to && next.is_none_or(|next| key(fact) < next));
            Part { facts: &facts[..end], ..*part }
        });
        (Facts { parts: parts.collect() }, next)
    }

    /// How many half edges there are of these types, or of any. None is listed: the updates of a fact alternate, so those that
    /// add one outnumber those that take it away by one where it is there.
    pub fn count_edges(&self, direction: Direction, kinds: &[Symbol], at: u64) -> u64 {
        let mut count = 0i64;
        for part in &self.parts {
            let all = part.all_until(at);
            if !all && part.segment.none_until(at) {
                continue;
            }
            for (from, to) in edge_ranges(direction, kinds) {
                let facts = &part.facts[first_of(part.facts, from)..];
                let facts = &facts[..facts.partition_point(|fact| fact.tag <= to)];
                let change = |fact: &Fact| if fact.adds() { 1 } else { -1 };
                count += match all {
                    true => facts.iter().map(change).sum::<i64>(),
                    false => facts.iter().filter(|fact| part.segment.time(fact) <= at).map(change).sum(),
                };
            }
        }
        count.max(0) as u64
    }

    /// How many updates there are of the half edges of a node: no fewer than edges, whatever the tick.
    pub fn about_edges(&self, direction: Direction, kinds: &[Symbol]) -> usize {
        let ranges = edge_ranges(direction, kinds);
        let mut count = 0;
        for Part { facts, .. } in &self.parts {
            for (from, to) in &ranges {
                let start = first_of(facts, *from);
                count += facts[start..].partition_point(|fact| fact.tag <= *to);
            }
        }
        count
    }

    /// False where there is no update in these ranges by a tick, so that nothing in them holds. Looks at a few only.
    pub fn may_have(&self, ranges: &[(Tag, Tag)], at: u64) -> bool {
        const LOOKED_AT: usize = 16;
        self.parts.iter().any(|part| {
            ranges.iter().any(|(from, to)| {
                if part.is_bundled() && (from.kind()..=to.kind()).contains(&Kind::Property) {
                    return true;
                }
                let mut updates = part.facts[first_of(part.facts, *from)..].iter().take_while(|fact| fact.tag <= *to).enumerate();
                updates.any(|(place, fact)| place == LOOKED_AT || part.last <= at || part.segment.time(fact) <= at)
            })
        })
    }

    /// Whether at least this many half edges hold in these ranges. Looks no further than it has to.
    pub fn has_edges(&self, ranges: &[(Tag, Tag)], least: usize, at: u64) -> bool {
        let mut left = least;
        let found = self.try_each_in(ranges, at, |_, _| {
            left = left.saturating_sub(1);
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        found.is_break()
    }

    /// The half edges of these types, or of any, that lead to a node, looked up.
    pub fn edges_to(&self, other: NodeId, direction: Direction, kinds: &[Symbol], at: u64, each: &mut dyn FnMut(HalfEdge)) {
        let sides = [(Kind::Out, true), (Kind::OutParallel, true), (Kind::In, false), (Kind::InParallel, false)];
        for (side, outgoing) in sides.into_iter().filter(|(_, outgoing)| direction.admits(*outgoing)) {
            let there;
            let kinds = if kinds.is_empty() {
                there = self.symbols(side);
                &there[..]
            } else {
                kinds
            };
            for kind in kinds {
                let tag = Tag::new(side, *kind);
                if matches!(side, Kind::OutParallel | Kind::InParallel) {
                    self.between(tag, parallel_keys(other)).each(tag, tag, at, |segment, fact| each(segment.half(&fact)));
                } else if self.keyed(tag, half_key(other, 0), at).is_some() {
                    each(HalfEdge { kind: *kind, outgoing, other, ordinal: 0 });
                }
            }
        }
    }

    /// What the facts of one kind are of, ascending.
    fn symbols(&self, kind: Kind) -> SmallVec<[Symbol; 8]> {
        let mut found: SmallVec<_> = self.parts.iter().flat_map(|part| symbols(part.facts, kind, kind)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether the node has this half edge.
    pub fn has_half(&self, half: HalfEdge, at: u64) -> bool {
        let kind = match (half.outgoing, half.ordinal) {
            (true, 0) => Kind::Out,
            (false, 0) => Kind::In,
            (true, _) => Kind::OutParallel,
            (false, _) => Kind::InParallel,
        };
        self.keyed(Tag::new(kind, half.kind), half_key(half.other, half.ordinal), at).is_some()
    }

    /// The update that decides a fact with a key at a tick, if it is an addition.
    pub fn keyed(&self, tag: Tag, key: FactKey, at: u64) -> Option<(&'a Segment, Fact)> {
        if key == FactKey::Single {
            return single(&self.parts, tag, at);
        }
        for part in self.parts.iter().filter(|part| part.segment.may_have(part.facts, tag, key)) {
            let Part { segment, facts, last, .. } = *part;
            let start = part.first_of_key(tag, key);
            let updates = facts[start..].iter().take_while(|fact| fact.tag == tag && segment.key(fact) == key);
            if let Some(fact) = updates.take_while(|fact| last <= at || segment.time(fact) <= at).last() {
                return fact.adds().then_some((segment, *fact));
            }
        }
        None
    }

    /// Of the facts with a tag those whose keys lie in a range: what it costs does not depend on how many others there are.
    fn between(&self, tag: Tag, (first, last): (FactKey, FactKey)) -> Facts<'a> {
        let parts = self.parts.iter().map(|part| {
            let facts = &part.facts[part.first_of_key(tag, first)..];
            let count = facts.iter().take_while(|fact| fact.tag == tag && part.segment.key(fact) <= last).count();
            Part { facts: &facts[..count], ..*part }
        });
        Facts { parts: parts.collect() }
    }

    /// The properties of the edge from this node to `target`.
    pub fn edge_properties(&self, kind: Symbol, target: NodeId, ordinal: u32, at: u64, each: &mut dyn FnMut(Symbol, Value)) {
        let tag = Tag::new(Kind::EdgeProperty, kind);
        self.between(tag, edge_property_keys(target, ordinal)).each(tag, tag, at, |segment, fact| {
            let (.., key, value) = decode_edge_property(fact.payload, &segment.arena);
            each(key, value);
        });
    }

    /// The edges of a type that lead away and have this property, with its value. Whether each edge is there is for the caller to
    /// see: the properties of one that is not do not count.
    pub fn edges_by_property(&self, kind: Symbol, key: Symbol, at: u64, each: &mut dyn FnMut(HalfEdge, Value)) {
        let tag = Tag::new(Kind::EdgeProperty, kind);
        self.each(tag, tag, at, |segment, fact| {
            let (other, ordinal, of, value) = decode_edge_property(fact.payload, &segment.arena);
            if of == key {
                each(HalfEdge { kind, outgoing: true, other, ordinal }, value);
            }
        });
    }

    /// One property of the edge from this node to `target`.
    pub fn edge_property(&self, kind: Symbol, target: NodeId, ordinal: u32, key: Symbol, at: u64) -> Value {
        match self.keyed(Tag::new(Kind::EdgeProperty, kind), edge_property_key(target, ordinal, key), at) {
            Some((segment, fact)) => decode_edge_property(fact.payload, &segment.arena).3,
            None => Value::Null,
        }
    }

    /// Whether anything is known of the node at this tick. The properties of an edge that is not there do not count.
    pub fn is_interesting(&self, at: u64) -> bool {
        let of_kinds = |first: Kind, last: Kind| (Tag::new(first, Symbol(0)), Tag::new(last, LAST_SYMBOL));
        let ranges = [of_kinds(Kind::Label, Kind::InParallel), of_kinds(Kind::Property, Kind::Property)];
        self.try_each_in(&ranges, at, |_, _| ControlFlow::Break(())).is_break()
    }
}

/// The update that decides a fact without a key (a label, a property) at a tick, if it is an addition. Parts are newest first.
fn single<'a>(parts: &[Part<'a>], tag: Tag, at: u64) -> Option<(&'a Segment, Fact)> {
    for part in parts.iter().filter(|part| part.may_have(tag.kind())) {
        let Part { segment, facts, .. } = *part;
        if tag.kind() == Kind::Property
            && let Some(bundle) = part.bundle()
        {
            match bundle.property(tag) {
                Some(fact) if part.last <= at || bundle.time() <= at => return Some((segment, fact)),
                _ => continue,
            }
        }
        let updates = facts[first_of(facts, tag)..].iter().take_while(|fact| fact.tag == tag);
        if let Some(fact) = updates.take_while(|fact| part.last <= at || segment.time(fact) <= at).last() {
            return fact.adds().then_some((segment, *fact));
        }
    }
    None
}

pub fn has_label(parts: &[Part<'_>], label: Symbol, at: u64) -> bool {
    single(parts, Tag::new(Kind::Label, label), at).is_some()
}

pub fn property(parts: &[Part<'_>], key: Symbol, at: u64) -> Value {
    match single(parts, Tag::new(Kind::Property, key), at) {
        Some((segment, fact)) => decode_payload(fact.payload, &segment.arena),
        None => Value::Null,
    }
}

/// Where the half edges of these types lie among the facts of a node, ascending. No types are all types.
pub fn edge_ranges(direction: Direction, kinds: &[Symbol]) -> SmallVec<[(Tag, Tag); 4]> {
    let (first, last) = match kinds {
        [] => (Symbol(0), LAST_SYMBOL),
        [kind] => (*kind, *kind),
        several => return ranges_of_several(direction, several),
    };
    let range = |side: Kind| (Tag::new(side, first), Tag::new(side, last));
    let all = [range(Kind::Out), range(Kind::In), range(Kind::OutParallel), range(Kind::InParallel)];
    let [out, incoming, out_parallel, in_parallel] = all;
    match direction {
        Direction::Outgoing => SmallVec::from_buf_and_len([out, out_parallel, out, out], 2),
        Direction::Incoming => SmallVec::from_buf_and_len([incoming, in_parallel, out, out], 2),
        Direction::Both => SmallVec::from_buf(all),
    }
}

fn ranges_of_several(direction: Direction, kinds: &[Symbol]) -> SmallVec<[(Tag, Tag); 4]> {
    let mut ranges: SmallVec<[(Tag, Tag); 4]> =
        kinds.iter().flat_map(|kind| edge_ranges(direction, std::slice::from_ref(kind))).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

/// Where the facts with this tag, or a greater one, begin. Most nodes have few facts, and looking through them in order
/// beats jumping about; of those with many edges, what is asked for most are properties, which stand at the end.
fn first_of(facts: &[Fact], tag: Tag) -> usize {
    if facts.len() <= FEW {
        return facts.iter().position(|fact| fact.tag >= tag).unwrap_or(facts.len());
    }
    let last = facts.len() - 2 * LOOKED_AT_LAST;
    match facts[last..].iter().rposition(|fact| fact.tag < tag) {
        Some(before) => last + before + 1,
        None => facts[..last].partition_point(|fact| fact.tag < tag),
    }
}
