//! Build: the mutations of a tick become the batch of their net change.
//!
//! Each record has a tick of its own, `first` plus its index. For each fact the rows are replayed in order against what
//! the shard holds: asserting what is there, or removing what is not, leaves no trace, and of several changes within
//! one record only the last counts. So the batch is exact, and the same whatever records were committed together.

use rustc_hash::FxHashSet;
use timely::progress::Antichain;
use weir_model::Symbol;
use weir_model::codec::{FactKey, fact_key, relocate, same_payload};
use weir_model::mutation::{Kind, Mutations, Payload, Row, Tag};

use super::batch::{Batch, Fact};
use super::facts::Facts;
use super::trace::SharedBatch;

/// Reused from tick to tick by a worker.
#[derive(Default)]
pub struct Builder {
    /// The rows of this shard by node, in order: (high half of the id, index of the row).
    order: Vec<(u64, u32)>,
    /// The rows of one node: position in the sequence, and the row.
    group: Vec<(u32, Row)>,
}

/// Which of the rows of a tick belong here.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    pub index: usize,
    pub count: usize,
}

impl Builder {
    /// The net change of `mutations` on this shard, given the batches it holds, oldest first.
    pub fn build(
        &mut self,
        mutations: &Mutations,
        first: u64,
        lower: Antichain<u64>,
        upper: Antichain<u64>,
        shard: Shard,
        existing: &[SharedBatch],
    ) -> Batch {
        let rows = &mutations.rows;
        self.order.clear();
        for (index, row) in rows.iter().enumerate() {
            if shard.count == 1 || row.node.shard(shard.count) == shard.index {
                self.order.push((row.node.high, index as u32));
            }
        }
        self.order.sort_unstable();
        let since = Antichain::from_elem(0);
        let mut batch =
            Batch::with_capacity(lower, upper, since, self.order.len() / 4 + 1, self.order.len(), mutations.arena.len());
        let last = rows.last().map_or(0, |row| row.record());
        batch.times = (first..=first + u64::from(last)).collect();

        let mut start = 0;
        while start < self.order.len() {
            let high = self.order[start].0;
            let mut end = start + 1;
            while end < self.order.len() && self.order[end].0 == high {
                end += 1;
            }
            self.group.clear();
            self.group.extend(self.order[start..end].iter().map(|(_, index)| (*index, rows[*index as usize])));
            // Two ids may share their high half.
            let mut group = std::mem::take(&mut self.group);
            if group.iter().any(|(_, row)| row.node != group[0].1.node) {
                group.sort_by_key(|(index, row)| (row.node, *index));
            }
            for node in group.chunk_by_mut(|(_, a), (_, b)| a.node == b.node) {
                build_node(node, &mutations.arena, existing, &mut batch);
            }
            self.group = group;
            start = end;
        }
        batch
    }
}

fn build_node(rows: &mut [(u32, Row)], arena: &[u8], existing: &[SharedBatch], batch: &mut Batch) {
    let id = rows[0].1.node;
    let facts = Facts::find(existing, id);
    if rows.iter().any(|(_, row)| row.tag.kind() == Kind::ClearProperties) {
        let mut expanded = expand_clears(rows, &facts);
        replay(&mut expanded, arena, &facts, batch);
    } else {
        replay(rows, arena, &facts, batch);
    }
    if batch.facts.len() > batch.finished() {
        batch.finish_node(id);
    }
}

/// Writes each ClearProperties as the removal of every property that may be there at that point.
fn expand_clears(rows: &[(u32, Row)], facts: &Facts<'_>) -> Vec<(u32, Row)> {
    let mut present: FxHashSet<Tag> = FxHashSet::default();
    if !facts.is_unknown() {
        let last = Symbol((1 << Tag::SYMBOL_BITS) - 1);
        facts.each(Tag::new(Kind::Property, Symbol(0)), Tag::new(Kind::Property, last), u64::MAX, |_, fact| {
            present.insert(fact.tag);
        });
    }
    let mut expanded = Vec::with_capacity(rows.len());
    for (index, row) in rows {
        match row.tag.kind() {
            Kind::ClearProperties => {
                expanded.extend(present.drain().map(|tag| (*index, Row { tag, payload: Payload::default(), ..*row })));
            }
            kind => {
                if kind == Kind::Property && !row.removes() {
                    present.insert(row.tag);
                }
                expanded.push((*index, *row));
            }
        }
    }
    expanded
}

/// Replays the rows of one node fact by fact and appends the differences to the batch.
fn replay(rows: &mut [(u32, Row)], arena: &[u8], facts: &Facts<'_>, batch: &mut Batch) {
    rows.sort_unstable_by(|(x, a), (y, b)| a.tag.cmp(&b.tag).then_with(|| key(a, arena).cmp(&key(b, arena))).then(x.cmp(y)));
    for fact in rows.chunk_by(|(_, a), (_, b)| a.tag == b.tag && key(a, arena) == key(b, arena)) {
        let tag = fact[0].1.tag;
        let before = if facts.is_unknown() { None } else { facts.keyed(tag, key(&fact[0].1, arena), u64::MAX) };
        // What holds so far: the payload and the arena it points into.
        let mut now: Option<(Payload, &[u8])> = before.map(|(batch, fact)| (fact.payload, batch.arena.as_slice()));
        for record in fact.chunk_by(|(_, a), (_, b)| a.record() == b.record()) {
            let (_, row) = record[record.len() - 1];
            let next = (!row.removes()).then_some((row.payload, arena));
            if same_fact(tag, now, next) {
                continue;
            }
            let when = row.record() << 1;
            if let Some((payload, from)) = now {
                let payload = relocate(tag, payload, from, &mut batch.arena);
                batch.facts.push(Fact { tag, when, payload });
            }
            if let Some((payload, from)) = next {
                let payload = relocate(tag, payload, from, &mut batch.arena);
                batch.facts.push(Fact { tag, when: when | 1, payload });
            }
            now = next;
        }
    }
}

fn key<'a>(row: &Row, arena: &'a [u8]) -> FactKey<'a> {
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
