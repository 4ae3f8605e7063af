//! Scan: finds the nodes a pattern may begin at. By an index of the graph, where there is one; by what an earlier scan of the
//! same run kept, which makes of two parts joined by an equality a hash join; otherwise by listing the nodes with a label, or
//! all.
//!
//! Whatever finds a node, its labels and conditions are looked at when it is visited. So to find too many is no mistake.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::extent::Holding;
use weir_model::mutation::{Kind, Row};
use weir_model::plan::{Lookup, Pattern, PatternNode, Slot, Step};
use weir_model::{Expr, Failure, NodeId, Symbol, Value};

use super::limits::Held;
use super::operators::{Flow, GO_ON, Run, STOP};
use super::pattern::{Known, Walk};
use super::spared::ends_all;
use crate::index::Question;
use crate::index::key::{self, Place, Places};
use crate::view::About;

/// An index by label is asked where less than this part of all nodes has the label: it costs more a node than a scan.
const LABEL_PART_MAX: f64 = 0.25;

/// Scans of one step in one run after which the next keeps what it finds.
const SCANS_BEFORE_KEEPING: u32 = 1;

/// About what an allocation takes beside what it is for.
const ALLOCATION_BYTES: usize = 16;

/// About how many ids a list has of which nothing is known yet.
const LISTED: f64 = 10.0;

/// What an index is thought of for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To ask it.
    Find,
    /// To tell whether it will be asked: a null may stand for a value that is not known yet.
    Explain,
    /// To weigh an order, by what the input row holds: a null may stand for a value that is not known yet, as for `Explain`.
    Weigh,
}

/// What scans have kept: of one run, or of several that look at one view.
#[derive(Default)]
pub struct Scans {
    /// By step.
    kept: RefCell<FxHashMap<usize, Kept>>,
    /// Whether a run has found nodes here, which it has not looked for itself.
    pub(super) used: Cell<bool>,
}

impl Scans {
    /// Another moment is looked at from here on. Answers how many bytes are held no more.
    pub(super) fn forget(&self) -> usize {
        let mut bytes = 0;
        // What was too much to be kept stays so.
        for kept in self.kept.borrow_mut().values_mut().filter(|kept| !kept.refused) {
            bytes += std::mem::take(kept).folder.map_or(0, |folder| folder.bytes);
        }
        bytes
    }
}

/// What nodes are filed under: where their values lie, of every lookup by an equality. None is no value, which equals nothing,
/// but is the same as none.
type Under = SmallVec<[Option<Place>; 2]>;

/// The nodes a step scans. By all its equalities: by the first alone, which may be one that all nodes meet (`a.type = b.type AND
/// a.id = b.id`), each scan would go through all of them.
#[derive(Default)]
struct Kept {
    scans: u32,
    /// Too much to be kept, or a value fails to be made.
    refused: bool,
    /// How many rows of the mutations have been looked at.
    applied: usize,
    folder: Option<Folder>,
    /// What is filed and not there any more, where nothing tells that when it is visited.
    gone: Arc<FxHashSet<NodeId>>,
}

/// Nodes by what they are filed under.
#[derive(Default)]
struct Folder {
    nodes: FxHashMap<Under, Arc<Vec<NodeId>>>,
    /// What all of it takes, and the query holds.
    bytes: usize,
}

impl Folder {
    fn put(&mut self, under: Under, id: NodeId) {
        let apart = if under.spilled() { under.capacity() * size_of::<Option<Place>>() + ALLOCATION_BYTES } else { 0 };
        let (table, mut before, mut after) = (table_bytes(&self.nodes), 0, 0);
        let list = match self.nodes.entry(under) {
            Entry::Occupied(entry) => {
                let list = entry.into_mut();
                before = list_bytes(list);
                list
            }
            Entry::Vacant(entry) => {
                after = apart;
                // Mostly a value is that of one node.
                entry.insert(Arc::new(Vec::with_capacity(1)))
            }
        };
        put(Arc::make_mut(list), id);
        after += list_bytes(list) + table_bytes(&self.nodes);
        self.bytes = (self.bytes + after).saturating_sub(before + table);
    }
}

fn list_bytes(list: &Arc<Vec<NodeId>>) -> usize {
    let counts = 2 * size_of::<usize>();
    counts + size_of::<Vec<NodeId>>() + list.capacity() * size_of::<NodeId>() + 2 * ALLOCATION_BYTES
}

/// A table is at most seven parts in eight full, and has a byte more for each.
fn table_bytes(nodes: &FxHashMap<Under, Arc<Vec<NodeId>>>) -> usize {
    nodes.capacity() * 8 / 7 * (size_of::<(Under, Arc<Vec<NodeId>>)>() + 1)
}

/// Nodes, and those of them that are gone.
type Found = (Arc<Vec<NodeId>>, Arc<FxHashSet<NodeId>>);

impl Walk<'_, '_> {
    pub(super) fn scan(&mut self, step: &Step, node: usize, lookups: &[Lookup], at: usize, row: &mut [Value]) -> Flow {
        let (run, pattern) = (self.run, self.pattern);
        let wanted = &pattern.nodes[node];
        let labels: Vec<Symbol> = wanted.labels.iter().map(|label| run.prepared.symbol(*label)).collect();
        if let Some(question) = run.question(pattern, &labels, lookups, Purpose::Find, row)? {
            let mut nodes = Vec::new();
            run.reader.view.index_answer(&question, &mut |id| nodes.push(id));
            nodes.sort_unstable();
            nodes.dedup();
            let held = run.budget.hold_bytes(nodes.len() * size_of::<NodeId>())?;
            let flow = self.visit_each(node, &nodes, &FxHashSet::default(), at, row)?;
            run.budget.release(held);
            return Ok(flow);
        }
        if let Some((nodes, gone)) = run.kept(step, wanted, lookups, row) {
            return self.visit_each(node, &nodes, &gone, at, row);
        }
        let mut flow = GO_ON;
        let listed_by = Known { labels: labels.len().min(1), condition: None };
        let mut each = |id: NodeId| {
            flow = run.budget.step().and_then(|()| self.visit_known(node, id, listed_by, at, row));
            matches!(&flow, Ok(flow) if flow.is_continue())
        };
        match labels.first() {
            Some(label) => run.reader.view.labelled(*label, &mut each),
            None => run.reader.view.nodes(&mut each),
        }
        flow
    }

    /// Visits each node that one of `ids` names, which is all that the condition `met` asks. What a scan does not show is not
    /// found this way either: only `id(n) = e` by itself enters what is not there.
    pub(super) fn seek_each(
        &mut self,
        step: &Step,
        node: usize,
        (ids, met): (&[Lookup], Option<usize>),
        at: usize,
        row: &mut [Value],
    ) -> Flow {
        let (run, pattern) = (self.run, self.pattern);
        let wanted = &pattern.nodes[node];
        // Something has no value, or is no list. Whether that matters is seen when there is a node to ask it of.
        let Some((nodes, _held)) = run.named(wanted.slot, ids, row)? else {
            // Who has not the time to go through the graph is told before.
            run.budget.steps(run.reader.view.about(About::Nodes) as usize)?;
            return self.scan(step, node, &[], at, row);
        };
        let known = Known { labels: 0, condition: met };
        for id in nodes {
            run.budget.step()?;
            // Who has a label is there.
            let is_there = !run.reader.has_deleted(id) && (!wanted.labels.is_empty() || run.reader.view.shows(id));
            if is_there && self.visit_known(node, id, known, at, row)?.is_break() {
                return STOP;
            }
        }
        GO_ON
    }

    fn visit_each(&mut self, node: usize, nodes: &[NodeId], gone: &FxHashSet<NodeId>, at: usize, row: &mut [Value]) -> Flow {
        for id in nodes {
            self.run.budget.step()?;
            // What was filed is not taken out again.
            if gone.contains(id) || self.run.reader.has_deleted(*id) {
                continue;
            }
            if self.visit(node, *id, at, row)?.is_break() {
                return STOP;
            }
        }
        GO_ON
    }
}

impl Run<'_> {
    /// What to ask an index for the nodes with these labels: the least that any index has to offer, if that is little enough. A
    /// lookup whose value fails is none: whether that matters is seen when there is a node. A pattern that does not look for
    /// nodes lists no label either: whoever commits it would be in conflict with each node that gets the label.
    pub(super) fn question(
        &self,
        pattern: &Pattern,
        labels: &[Symbol],
        lookups: &[Lookup],
        purpose: Purpose,
        row: &[Value],
    ) -> Result<Option<Question>, Failure> {
        let view = self.reader.view;
        let mut indexed = Vec::new();
        view.indexes(&mut |label, key| {
            if labels.contains(&label) && (key.is_some() || pattern.looks_for_nodes()) {
                indexed.push((label, key));
            }
        });
        let mut best: Option<(u64, Question)> = None;
        for (label, key) in indexed {
            let question = match key {
                None => Question::of_label(label),
                Some(key) => {
                    let is_usable = |lookup: &&Lookup| {
                        let of_key = lookup.key.is_some_and(|name| self.prepared.symbol(name) == key);
                        of_key && !(lookup.waits && purpose == Purpose::Weigh)
                    };
                    let Some(places) = self.places(&mut lookups.iter().filter(is_usable), purpose, row)? else { continue };
                    Question { label, key: Some(key), places }
                }
            };
            let size = view.index_size(&question);
            let too_many = key.is_none() && size as f64 > view.about(About::Nodes) * LABEL_PART_MAX;
            if !too_many && best.as_ref().is_none_or(|(least, _)| size < *least) {
                best = Some((size, question));
            }
        }
        Ok(best.map(|(_, question)| question))
    }

    /// The nodes for which one of the lookups is true, by their ids alone, in the order of ids; None where one of them fails.
    /// They count as held, and a list does while it is gone through.
    fn named(&self, slot: Slot, ids: &[Lookup], row: &mut [Value]) -> Result<Option<(Vec<NodeId>, Held<'_, '_>)>, Failure> {
        let slot = slot.0 as usize;
        let (mut found, mut held) = (Vec::new(), self.budget.held());
        for lookup in ids {
            let value = match lookup.value.evaluate(row, self) {
                Ok(value) => value,
                Err(failure) if ends_all(failure.kind) => return Err(failure),
                Err(_) => return Ok(None),
            };
            let mut list = Holding::new(self);
            list.add(&value)?;
            let items: &[Value] = match (lookup.operator, &value) {
                (Binary::In, Value::List(items)) => items,
                (Binary::In, Value::Null) => &[],
                (Binary::In, _) => return Ok(None),
                (_, value) => std::slice::from_ref(value),
            };
            for item in items {
                self.budget.step()?;
                // Where ids are integers a float may equal one: that which it is when it is cut off.
                let cut_off = if let Value::Float(x) = item { Some(Value::Integer(*x as i64)) } else { None };
                let Some(id) = self.environment.ids.node_of(cut_off.as_ref().unwrap_or(item)) else { continue };
                // A value may name a node that its id does not equal, as a text does.
                let before = std::mem::replace(&mut row[slot], Value::Node(id));
                let own = lookup.of.evaluate(row, self);
                row[slot] = before;
                match own {
                    Ok(own) if own.equals(item) == Some(true) => {
                        if found.len() == found.capacity() {
                            let more = found.len().max(4);
                            held.bytes(more * size_of::<NodeId>())?;
                            found.reserve_exact(more);
                        }
                        found.push(id);
                    }
                    Ok(_) => {}
                    Err(failure) if ends_all(failure.kind) => return Err(failure),
                    Err(_) => return Ok(None),
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        Ok(Some((found, held)))
    }

    /// About how many nodes the lookups name, and whether that is known already.
    pub(super) fn count_named(&self, ids: &[Lookup], row: &[Value]) -> (f64, bool) {
        ids.iter().fold((0.0, true), |(count, is_known), lookup| {
            if lookup.operator != Binary::In {
                return (count + 1.0, is_known);
            }
            if lookup.waits {
                return (count + LISTED, false);
            }
            match lookup.value.look(row, self).as_deref() {
                Ok(Value::List(items)) => (count + items.len() as f64, is_known),
                _ => (count + LISTED, false),
            }
        })
    }

    /// Where the values of a property may lie, by all lookups of it that say something: in order and apart. Each place that one
    /// of them says is a step, as it is looked for in what the index has.
    fn places(
        &self,
        lookups: &mut dyn Iterator<Item = &Lookup>,
        purpose: Purpose,
        row: &[Value],
    ) -> Result<Option<Vec<Places>>, Failure> {
        let mut places: Option<Vec<Places>> = None;
        for lookup in lookups {
            let Ok(value) = lookup.value.look(row, self) else { continue };
            let is_unknown = purpose != Purpose::Find && value.is_null();
            let more = if is_unknown { Some(Vec::new()) } else { key::ranges(lookup.operator, &value) };
            if let Some(more) = more {
                self.budget.steps(more.len())?;
                places = Some(match places {
                    Some(places) => key::both(places, &more),
                    None => more,
                });
            }
        }
        Ok(places.map(key::apart))
    }

    /// The nodes for which all lookups by an equality may be true, if they are kept.
    fn kept(&self, step: &Step, node: &PatternNode, lookups: &[Lookup], row: &mut [Value]) -> Option<Found> {
        let there = |found| (found, Arc::default());
        if let Some(found) = self.watched.and_then(|watched| watched.find(self, node, lookups, row)) {
            return Some(there(found));
        }
        let equal: SmallVec<[&Lookup; 4]> = lookups.iter().filter(|lookup| key::is_equality(lookup.operator)).collect();
        if equal.is_empty() {
            return self.watched?.all(self, node).map(there);
        }
        let number = std::ptr::from_ref(step) as usize;
        // Taken out while it is worked on: expressions may scan too.
        let mut kept = self.scans.kept.borrow_mut().remove(&number).unwrap_or_default();
        kept.scans += 1;
        if kept.scans > SCANS_BEFORE_KEEPING && !kept.refused {
            let current = match kept.folder {
                Some(_) => self.keep_up(&mut kept, node, &equal, row),
                None => self.keep(&mut kept, node, &equal, row),
            };
            if !current {
                self.budget.release(kept.folder.take().map_or(0, |folder| folder.bytes));
                kept = Kept { refused: true, ..Kept::default() };
            }
        }
        let found = kept.folder.as_ref().and_then(|folder| {
            let under = self.under(&equal, |lookup| &lookup.value, row).ok()?;
            let found = under.and_then(|under| folder.nodes.get(&under)).cloned().unwrap_or_default();
            Some((found, kept.gone.clone()))
        });
        self.scans.kept.borrow_mut().insert(number, kept);
        self.scans.used.set(self.scans.used.get() || found.is_some());
        found
    }

    /// Where the values lie that stand on one side of the lookups. None where nothing equals one of them.
    fn under(&self, equal: &[&Lookup], side: fn(&Lookup) -> &Expr, row: &[Value]) -> Result<Option<Under>, Failure> {
        let mut under = Under::new();
        for lookup in equal {
            let place = key::equal(&*side(lookup).look(row, self)?);
            if place.is_none() && lookup.operator == Binary::Equal {
                return Ok(None);
            }
            under.push(place);
        }
        Ok(Some(under))
    }

    /// Files every node. False if that cannot be.
    fn keep(&self, kept: &mut Kept, node: &PatternNode, equal: &[&Lookup], row: &mut [Value]) -> bool {
        kept.applied = self.applied.get();
        let mut folder = Folder::default();
        let mut going = true;
        let mut each = |id: NodeId| {
            going = self.file(&mut folder, id, node.slot, equal, row);
            going
        };
        match node.labels.first() {
            Some(label) => self.reader.view.labelled(self.prepared.symbol(*label), &mut each),
            None => self.reader.view.nodes(&mut each),
        }
        kept.folder = Some(folder);
        going
    }

    /// Files what has changed since. What was filed stays, and is found in vain; where no label is asked for, and no property
    /// that has to be there, nothing tells that a node is gone when it is visited, so such are noted.
    fn keep_up(&self, kept: &mut Kept, node: &PatternNode, equal: &[&Lookup], row: &mut [Value]) -> bool {
        let (from, to) = (std::mem::replace(&mut kept.applied, self.applied.get()), self.applied.get());
        if from == to {
            return true;
        }
        // With each node whether it has what the row says, and so is there for certain.
        let changes = |row: &Row| (row.node, !row.removes() && row.tag.kind() != Kind::EdgeProperty);
        let mut changed: Vec<(NodeId, bool)> = self.mutations.borrow().rows[from..to].iter().map(changes).collect();
        changed.sort_unstable();
        changed.dedup_by_key(|(id, _)| *id);
        let Some(folder) = &mut kept.folder else { return false };
        let is_property = |lookup: &&Lookup| lookup.key.is_some() && lookup.operator == Binary::Equal;
        let tells = !node.labels.is_empty() || equal.iter().any(is_property);
        let is_gone = |id: NodeId| !tells && !self.reader.view.shows(id);
        let gone = Arc::make_mut(&mut kept.gone);
        changed.into_iter().all(|(id, has)| {
            if !has && is_gone(id) {
                gone.insert(id);
                return true;
            }
            gone.remove(&id);
            self.file(folder, id, node.slot, equal, row)
        })
    }

    fn file(&self, folder: &mut Folder, id: NodeId, slot: Slot, equal: &[&Lookup], row: &mut [Value]) -> bool {
        // To look for a value is not to ask for what was deleted.
        if self.reader.has_deleted(id) {
            return true;
        }
        let slot = slot.0 as usize;
        let before = std::mem::replace(&mut row[slot], Value::Node(id));
        let under = self.under(equal, |lookup| &lookup.of, row);
        row[slot] = before;
        let Ok(under) = under else { return false };
        let Some(under) = under else { return true };
        let before = folder.bytes;
        folder.put(under, id);
        // A list that others have, too, is made anew without the room it had.
        if folder.bytes < before {
            self.budget.release(before - folder.bytes);
        }
        let more = folder.bytes.saturating_sub(before);
        let is_held = self.budget.has_room(more) && self.budget.hold_bytes(more).is_ok();
        if !is_held {
            folder.bytes -= more;
        }
        is_held
    }
}

/// Into a list in the order of ids. Most come in that order; a node that changes comes again, out of it.
pub(super) fn put(nodes: &mut Vec<NodeId>, id: NodeId) {
    match nodes.last() {
        Some(last) if *last >= id => {
            if let Err(at) = nodes.binary_search(&id) {
                nodes.insert(at, id);
            }
        }
        _ => nodes.push(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many bytes as what is kept takes, whatever it was filed in and however often a list was shared meanwhile.
    #[test]
    fn what_is_filed_counts_with_what_it_is_filed_under() {
        let under = |n: i64, parts: usize| (0..parts as i64).map(|part| key::equal(&Value::Integer(n + part))).collect::<Under>();
        for (parts, nodes_per_key) in [(1, 1), (2, 1), (5, 1), (1, 100)] {
            let (mut folder, mut shared) = (Folder::default(), None);
            for n in 0..10_000_u64 {
                folder.put(under((n / nodes_per_key) as i64, parts), NodeId::new(0, n));
                // Somebody goes through a list, and no longer.
                shared = if n % 3 == 0 { folder.nodes.get(&under(0, parts)).cloned() } else { shared };
                if n % 7 == 0 {
                    folder.put(under(0, parts), NodeId::new(1, n));
                }
            }
            let lists: usize = folder.nodes.values().map(list_bytes).sum();
            let apart = |under: &Under| if parts > 2 { under.capacity() * 32 + ALLOCATION_BYTES } else { 0 };
            let spilled: usize = folder.nodes.keys().map(apart).sum();
            assert_eq!(folder.bytes, lists + spilled + table_bytes(&folder.nodes), "{parts} parts");
            let each = folder.bytes / 10_000;
            let expected = if nodes_per_key == 1 { 150..600 } else { 16..80 };
            assert!(expected.contains(&each), "{each} bytes a node, of {parts} parts");
        }
    }
}
