//! Build: the mutations of a tick become the batch of their net change.
//!
//! Each record has a tick of its own. For each fact the rows are replayed in order against what
//! the shard holds: asserting what is there, or removing what is not, leaves no trace, and of several changes within
//! one record only the last counts. So the batch is exact, and the same whatever records were committed together.

use std::ops::Range;

use rustc_hash::FxHashSet;
use timely::progress::Antichain;
use weir_model::codec::{FactKey, fact_key, relocate, same_payload};
use weir_model::mutation::{Kind, Mutations, Payload, Row, Tag};
use weir_model::{NodeId, Symbol};

use super::batch::{Batch, Writer};
use super::facts::{Facts, LAST_SYMBOL};
use super::locate::{Found, Locator, parts};
use super::prefetch::prefetch_all;
use super::segment::{Fact, Segment};
use super::trace::SharedBatch;
use crate::sorter::Sorter;

/// Rows are fetched this many stretches ahead: in the order of nodes they lie all over the place.
const AHEAD: usize = 8;

/// Reused from tick to tick by a worker.
#[derive(Default)]
pub struct Builder {
    /// The rows of this shard in stretches of one node, by node, in order.
    stretches: Vec<Stretch>,
    sorter: Sorter<Stretch>,
    /// The nodes of the stretches, each once, ascending.
    nodes: Vec<NodeId>,
    order: Vec<u64>,
    locator: Locator,
}

/// What was found of the nodes of a batch while it was built, so that the standing queries need not look again.
pub struct Located {
    /// What there was before, oldest first.
    pub existing: Vec<SharedBatch>,
    /// By node, newest first.
    found: Vec<Found>,
    /// Of each node of the batch, what was found.
    of_node: Vec<Range<u32>>,
}

impl Located {
    /// Everything that is known of a node of the batch, the batch included.
    pub fn facts<'a>(&'a self, batch: &'a Batch, index: usize) -> Facts<'a> {
        let Range { start, end } = self.of_node[index];
        let before = parts(&self.existing, &self.found[start as usize..end as usize]);
        Facts::known(std::iter::once(batch.part(index)).chain(before))
    }
}

/// Rows that follow one another and concern one node.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    node: NodeId,
    start: u32,
    end: u32,
}

/// Which of the rows of a tick belong here.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    pub index: usize,
    pub count: usize,
}

impl Builder {
    /// The net change of `mutations` on this shard, given the batches it holds, oldest first. `times` are the ticks of the
    /// records.
    pub fn build(
        &mut self,
        mutations: &Mutations,
        times: Vec<u64>,
        lower: Antichain<u64>,
        upper: Antichain<u64>,
        shard: Shard,
        existing: &[SharedBatch],
    ) -> SharedBatch {
        let rows = &mutations.rows;
        self.stretches.clear();
        let (mut at, mut here) = (0, 0);
        for same in rows.chunk_by(|a, b| a.node == b.node) {
            let (start, end) = (at, at + same.len());
            at = end;
            if shard.count == 1 || same[0].node.shard(shard.count) == shard.index {
                self.stretches.push(Stretch { node: same[0].node, start: start as u32, end: end as u32 });
                here += same.len();
            }
        }
        // Ids are hashes, mostly.
        self.sorter.sort(&mut self.stretches, |stretch| stretch.node.high);
        self.nodes.clear();
        self.nodes.extend(self.stretches.iter().map(|stretch| stretch.node));
        self.nodes.dedup();
        let found = self.locator.locate(&self.nodes, existing);
        let since = Antichain::from_elem(0);
        let mut fresh = Segment::with_capacity(here, mutations.arena.len());
        fresh.times = times;
        let last = self.nodes.last().copied().unwrap_or(NodeId::new(0, 0));
        let mut writer = Writer::new((lower, upper, since), (self.nodes.len(), last), fresh);

        let mut located = Located { existing: existing.to_vec(), found, of_node: Vec::with_capacity(self.nodes.len()) };
        let order = &mut self.order;
        let mut at = 0;
        let mut ahead = self.stretches.iter().skip(AHEAD);
        for (index, of_node) in self.stretches.chunk_by(|a, b| a.node == b.node).enumerate() {
            order.clear();
            for stretch in ahead.by_ref().take(of_node.len()) {
                prefetch_all(&rows[stretch.start as usize..stretch.end as usize]);
            }
            for index in of_node.iter().flat_map(|stretch| stretch.start..stretch.end) {
                order.push(by_tag(&rows[index as usize], index));
            }
            let start = at;
            while located.found.get(at).is_some_and(|found| found.node as usize == index) {
                at += 1;
            }
            let facts = Facts::known(parts(existing, &located.found[start..at]));
            build_node(rows, order, &mutations.arena, &facts, &mut writer.fresh);
            writer.finish_node(self.nodes[index], start == at);
            if writer.nodes() > located.of_node.len() {
                located.of_node.push(start as u32..at as u32);
            }
        }
        SharedBatch::with_located(writer.finish(), located)
    }
}

/// Sorts by tag, then in the order of the rows.
fn by_tag(row: &Row, index: u32) -> u64 {
    u64::from(row.tag.0) << 32 | u64::from(index)
}

/// The tag in a `by_tag`.
fn tag_of(place: u64) -> Tag {
    Tag((place >> 32) as u32)
}

/// The row in a `by_tag`.
fn row_of(place: u64) -> u32 {
    place as u32
}

/// `order` holds the rows of a node, as `by_tag`; `facts` is what there was.
fn build_node(rows: &[Row], order: &mut Vec<u64>, arena: &[u8], facts: &Facts<'_>, segment: &mut Segment) {
    order.sort_unstable();
    let clears = order.iter().rev().take_while(|place| tag_of(**place).kind() == Kind::ClearProperties).count();
    if clears > 0 {
        // `SET n = map` on a node that is new clears nothing. Clears come last in the order, before them the properties.
        let (others, clear) = order.split_at(order.len() - clears);
        let last_clear = clear.iter().map(|place| row_of(*place)).max().unwrap_or(0);
        let mut properties = others.iter().rev().take_while(|place| tag_of(**place).kind() == Kind::Property);
        if facts.is_unknown() && properties.all(|place| row_of(*place) > last_clear) {
            order.truncate(order.len() - clears);
        } else {
            order.sort_unstable_by_key(|place| row_of(*place));
            let expanded = expand_clears(order.iter().map(|place| &rows[row_of(*place) as usize]), facts);
            order.clear();
            order.extend(expanded.iter().zip(0..).map(|(row, index)| by_tag(row, index)));
            order.sort_unstable();
            return replay(&expanded, order, arena, facts, segment);
        }
    }
    replay(rows, order, arena, facts, segment);
}

/// Writes each ClearProperties as the removal of every property that may be there at that point.
fn expand_clears<'a>(rows: impl Iterator<Item = &'a Row>, facts: &Facts<'_>) -> Vec<Row> {
    let mut present: FxHashSet<Tag> = FxHashSet::default();
    if !facts.is_unknown() {
        facts.each(Tag::new(Kind::Property, Symbol(0)), Tag::new(Kind::Property, LAST_SYMBOL), u64::MAX, |_, fact| {
            present.insert(fact.tag);
        });
    }
    let mut expanded = Vec::new();
    for row in rows {
        match row.tag.kind() {
            Kind::ClearProperties => {
                expanded.extend(present.drain().map(|tag| Row { tag, payload: Payload::default(), ..*row }));
            }
            kind => {
                if kind == Kind::Property && !row.removes() {
                    present.insert(row.tag);
                }
                expanded.push(*row);
            }
        }
    }
    expanded
}

/// Replays the rows of one node fact by fact, given in order, and appends the differences to the segment.
fn replay(rows: &[Row], order: &mut [u64], arena: &[u8], facts: &Facts<'_>, segment: &mut Segment) {
    let row = |place: &u64| &rows[row_of(*place) as usize];
    if facts.is_unknown() && order.is_sorted_by(|a, b| tag_of(*a) < tag_of(*b)) && !order.iter().any(|place| row(place).removes())
    {
        // Most nodes: new, and each fact said once.
        let fact = |place: &u64| Fact { tag: row(place).tag, when: row(place).record() << 1 | 1, payload: row(place).payload };
        return segment.extend(order.iter().map(fact), arena);
    }
    for same_tag in order.chunk_by_mut(|a, b| tag_of(*a) == tag_of(*b)) {
        if same_tag.len() > 1 {
            same_tag.sort_by_key(|place| key(row(place), arena));
        }
        for fact in same_tag.chunk_by(|a, b| key(row(a), arena) == key(row(b), arena)) {
            let tag = row(&fact[0]).tag;
            let before = if facts.is_unknown() { None } else { facts.keyed(tag, key(row(&fact[0]), arena), u64::MAX) };
            // What holds so far: the payload and the arena it points into.
            let mut now: Option<(Payload, &[u8])> = before.map(|(found, fact)| (fact.payload, found.arena.as_slice()));
            for record in fact.chunk_by(|a, b| row(a).record() == row(b).record()) {
                let row = row(&record[record.len() - 1]);
                let next = (!row.removes()).then_some((row.payload, arena));
                if same_fact(tag, now, next) {
                    continue;
                }
                let when = row.record() << 1;
                if let Some((payload, from)) = now {
                    let payload = relocate(tag, payload, from, &mut segment.arena);
                    segment.facts.push(Fact { tag, when, payload });
                }
                if let Some((payload, from)) = next {
                    let payload = relocate(tag, payload, from, &mut segment.arena);
                    segment.facts.push(Fact { tag, when: when | 1, payload });
                }
                now = next;
            }
        }
    }
}

fn key(row: &Row, arena: &[u8]) -> FactKey {
    // A removal of a property carries no payload, and needs none: properties have no key.
    fact_key(row.tag, row.payload, arena)
}

fn same_fact(tag: Tag, x: Option<(Payload, &[u8])>, y: Option<(Payload, &[u8])>) -> bool {
    match (x, y) {
        (None, None) => true,
        (Some((x, x_arena)), Some((y, y_arena))) => match tag.kind() {
            Kind::Property | Kind::EdgeProperty => same_payload(x, x_arena, y, y_arena),
            _ => true,
        },
        _ => false,
    }
}
