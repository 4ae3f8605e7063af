//! Overlay: a View with changes that are not in it yet laid over it.
//!
//! `evaluate` reads through one what earlier clauses of the same query wrote; a committer reads through one the writes of
//! earlier records of the same batch. It knows the meaning of every mutation row, and nothing of ticks or logs.
//!
//! ```text
//! base View  +  Mutations (applied row by row)  =  View
//! ```

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use weir_model::mutation::Kind;
use weir_model::{Mutations, NodeId, Symbol, Value, codec};

use crate::index::Question;
use crate::index::key::{self, Place};
use crate::view::{About, Direction, EdgeRef, HalfEdge, View};

/// The net effect of mutation rows, by node.
#[derive(Default)]
pub struct Changes {
    nodes: FxHashMap<NodeId, NodeChanges>,
}

#[derive(Default)]
struct NodeChanges {
    /// No property of the base is left.
    cleared: bool,
    /// Null where the property was removed.
    properties: BTreeMap<Symbol, Value>,
    labels: BTreeMap<Symbol, bool>,
    edges: BTreeMap<HalfEdge, bool>,
    /// By type, target, ordinal and key. Null where it was removed.
    edge_properties: BTreeMap<(Symbol, NodeId, u32, Symbol), Value>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Takes in a range of rows, after all that were taken in before.
    pub fn apply(&mut self, mutations: &Mutations, rows: Range<usize>) {
        for row in &mutations.rows[rows] {
            let node = self.nodes.entry(row.node).or_default();
            let (symbol, present) = (row.tag.symbol(), !row.removes());
            let half = |outgoing, other, ordinal| HalfEdge { kind: symbol, outgoing, other, ordinal };
            match row.tag.kind() {
                Kind::Label => {
                    node.labels.insert(symbol, present);
                }
                Kind::Property => {
                    // A removal carries an empty payload, which reads as null.
                    node.properties.insert(symbol, codec::decode_payload(row.payload, &mutations.arena));
                }
                Kind::Out | Kind::In => {
                    node.edges.insert(half(row.tag.kind() == Kind::Out, row.payload.as_node(), 0), present);
                }
                Kind::OutParallel | Kind::InParallel => {
                    let (other, ordinal) = codec::decode_parallel(row.payload, &mutations.arena);
                    node.edges.insert(half(row.tag.kind() == Kind::OutParallel, other, ordinal), present);
                }
                Kind::EdgeProperty => {
                    let (target, ordinal, key, value) = codec::decode_edge_property(row.payload, &mutations.arena);
                    node.edge_properties.insert((symbol, target, ordinal, key), value);
                }
                Kind::ClearProperties => {
                    node.cleared = true;
                    node.properties.clear();
                }
            }
        }
    }
}

/// Looking up whether an edge is there takes about as long as listing this many.
const LOOK_UP_COST: u64 = 4;

/// Lists nodes until it is told to stop.
type Listing<'l> = &'l dyn Fn(&mut dyn FnMut(NodeId) -> bool);

/// `apply` must not be called from inside one of the View's callbacks: those hold the changes.
pub struct Overlay<'a> {
    base: &'a dyn View,
    changes: RefCell<Changes>,
    /// What the base has indexes of; asked when there is a first change.
    indexed: OnceCell<Vec<(Symbol, Option<Symbol>)>>,
    filed: RefCell<Filed>,
}

/// What changes have put into the indexes of the base. Nothing is ever taken out: an index offers more than it has to.
#[derive(Default)]
struct Filed {
    labels: FxHashMap<Symbol, Vec<NodeId>>,
    values: FxHashMap<Symbol, BTreeMap<Place, Vec<NodeId>>>,
}

impl Filed {
    fn value(&mut self, key: Symbol, value: &Value, node: NodeId) {
        let values = self.values.entry(key).or_default();
        key::places(value).into_iter().for_each(|place| values.entry(place).or_default().push(node));
    }
}

impl<'a> Overlay<'a> {
    pub fn new(base: &'a dyn View) -> Overlay<'a> {
        Overlay { base, changes: RefCell::default(), indexed: OnceCell::new(), filed: RefCell::default() }
    }

    pub fn apply(&self, mutations: &Mutations, rows: Range<usize>) {
        self.changes.borrow_mut().apply(mutations, rows.clone());
        let indexed = self.indexed.get_or_init(|| {
            let mut indexed = Vec::new();
            self.base.indexes(&mut |label, key| indexed.push((label, key)));
            indexed
        });
        if !indexed.is_empty() {
            self.file(indexed, mutations, rows);
        }
    }

    fn file(&self, indexed: &[(Symbol, Option<Symbol>)], mutations: &Mutations, rows: Range<usize>) {
        let mut filed = self.filed.borrow_mut();
        for row in mutations.rows[rows].iter().filter(|row| !row.removes()) {
            let symbol = row.tag.symbol();
            match row.tag.kind() {
                Kind::Label => {
                    for (_, key) in indexed.iter().filter(|(label, _)| *label == symbol) {
                        match key {
                            Some(key) => filed.value(*key, &self.property(row.node, *key), row.node),
                            None => filed.labels.entry(symbol).or_default().push(row.node),
                        }
                    }
                }
                Kind::Property if indexed.iter().any(|(_, key)| *key == Some(symbol)) => {
                    filed.value(symbol, &codec::decode_payload(row.payload, &mutations.arena), row.node);
                }
                _ => {}
            }
        }
    }

    /// What the base lists, and the changed nodes in their places; those of them that `shows` says.
    fn merged(&self, list: Listing, shows: &dyn Fn(NodeId) -> bool, each: &mut dyn FnMut(NodeId) -> bool) {
        let mut touched: Vec<NodeId> = self.changes.borrow().nodes.keys().copied().collect();
        touched.sort_unstable();
        let mut touched = touched.into_iter().peekable();
        let mut go_on = true;
        list(&mut |node| {
            while go_on && let Some(earlier) = touched.next_if(|t| *t < node) {
                go_on = !shows(earlier) || each(earlier);
            }
            if go_on {
                let changed = touched.next_if_eq(&node).is_some();
                go_on = (changed && !shows(node)) || each(node);
            }
            go_on
        });
        for node in touched {
            if !go_on {
                return;
            }
            go_on = !shows(node) || each(node);
        }
    }
}

impl View for Overlay<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        if let Some(changed) = self.changes.borrow().nodes.get(&node) {
            match changed.properties.get(&key) {
                Some(value) => return value.clone(),
                None if changed.cleared => return Value::Null,
                None => {}
            }
        }
        self.base.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        let changes = self.changes.borrow();
        let Some(changed) = changes.nodes.get(&node) else { return self.base.properties(node, each) };
        if !changed.cleared {
            self.base.properties(node, &mut |key, value| {
                if !changed.properties.contains_key(&key) {
                    each(key, value);
                }
            });
        }
        for (key, value) in changed.properties.iter().filter(|(_, value)| !value.is_null()) {
            each(*key, value.clone());
        }
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        let change = self.changes.borrow().nodes.get(&node).and_then(|changed| changed.labels.get(&label).copied());
        change.unwrap_or_else(|| self.base.has_label(node, label))
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        let changes = self.changes.borrow();
        let Some(changed) = changes.nodes.get(&node) else { return self.base.labels(node, each) };
        self.base.labels(node, &mut |label| {
            if !changed.labels.contains_key(&label) {
                each(label);
            }
        });
        for (label, _) in changed.labels.iter().filter(|(_, present)| **present) {
            each(*label);
        }
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        self.edges_while(node, direction, kinds, &mut |half| {
            each(half);
            true
        });
    }

    fn edges_while(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        let changes = self.changes.borrow();
        let Some(changed) = changes.nodes.get(&node).filter(|changed| !changed.edges.is_empty()) else {
            return self.base.edges_while(node, direction, kinds, each);
        };
        let mut wanted = true;
        let all_of_base = self.base.edges_while(node, direction, kinds, &mut |half| {
            if !changed.edges.contains_key(&half) {
                wanted = each(half);
            }
            wanted
        });
        if !all_of_base {
            return false;
        }
        let mut added = changed.edges.iter().filter(|(half, present)| {
            **present && direction.admits(half.outgoing) && (kinds.is_empty() || kinds.contains(&half.kind))
        });
        // A base that could not break off may not say the same again.
        let breaks_off = wanted;
        added.all(|(half, _)| each(*half) || !breaks_off)
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        let changes = self.changes.borrow();
        let mut count = self.base.count_edges(node, direction, kinds);
        let Some(changed) = changes.nodes.get(&node).filter(|changed| !changed.edges.is_empty()) else { return count };
        // To look each of them up costs more than to list it.
        if (changed.edges.len() as u64).saturating_mul(LOOK_UP_COST) > count {
            count = 0;
            self.edges(node, direction, kinds, &mut |_| count += 1);
            return count;
        }
        let mut between = None;
        for (half, present) in &changed.edges {
            if !direction.admits(half.outgoing) || !(kinds.is_empty() || kinds.contains(&half.kind)) {
                continue;
            }
            count += u64::from(*present);
            // Those that are parallel stand behind each other; what the base has between the two is looked up once.
            let same = (half.kind, half.outgoing, half.other);
            if between.replace(same) != Some(same) {
                let direction = if half.outgoing { Direction::Outgoing } else { Direction::Incoming };
                self.base.edges_to(node, half.other, direction, &[half.kind], &mut |found| {
                    count = count.saturating_sub(u64::from(changed.edges.contains_key(&found)));
                });
            }
        }
        count
    }

    fn about_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> usize {
        let added = self.changes.borrow().nodes.get(&node).map_or(0, |changed| changed.edges.len());
        self.base.about_edges(node, direction, kinds) + added
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        let changes = self.changes.borrow();
        let Some(changed) = changes.nodes.get(&node).filter(|changed| !changed.edges.is_empty()) else {
            return self.base.edges_to(node, other, direction, kinds, each);
        };
        self.base.edges_to(node, other, direction, kinds, &mut |half| {
            if !changed.edges.contains_key(&half) {
                each(half);
            }
        });
        let mut added = |(half, present): (&HalfEdge, &bool)| {
            if *present && half.other == other && direction.admits(half.outgoing) {
                each(*half);
            }
        };
        if kinds.is_empty() {
            return changed.edges.iter().for_each(added);
        }
        for (kind, outgoing) in kinds.iter().flat_map(|kind| [(*kind, true), (*kind, false)]) {
            let half = |ordinal| HalfEdge { kind, outgoing, other, ordinal };
            changed.edges.range(half(0)..=half(u32::MAX)).for_each(&mut added);
        }
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        let half = HalfEdge { kind: edge.kind, outgoing: true, other: edge.target, ordinal: edge.ordinal };
        let change = self.changes.borrow().nodes.get(&edge.source).and_then(|changed| changed.edges.get(&half).copied());
        change.unwrap_or_else(|| self.base.has_edge(edge))
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        let at = (edge.kind, edge.target, edge.ordinal, key);
        let change = self.changes.borrow().nodes.get(&edge.source).and_then(|changed| changed.edge_properties.get(&at).cloned());
        change.unwrap_or_else(|| self.base.edge_property(edge, key))
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        let changes = self.changes.borrow();
        let Some(changed) = changes.nodes.get(&edge.source).filter(|changed| !changed.edge_properties.is_empty()) else {
            return self.base.edge_properties(edge, each);
        };
        let at = |key| (edge.kind, edge.target, edge.ordinal, key);
        self.base.edge_properties(edge, &mut |key, value| {
            if !changed.edge_properties.contains_key(&at(key)) {
                each(key, value);
            }
        });
        for ((.., key), value) in changed.edge_properties.range(at(Symbol(0))..=at(Symbol(u32::MAX))) {
            if !value.is_null() {
                each(*key, value.clone());
            }
        }
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.merged(&|each| self.base.nodes(each), &|node| self.shows(node), each);
    }

    /// What is not committed yet is newer than all else.
    fn recent(&self, count: usize) -> Vec<NodeId> {
        let mut own: Vec<NodeId> = self.changes.borrow().nodes.keys().copied().collect();
        own.retain(|node| self.shows(*node));
        own.sort_unstable();
        own.truncate(count);
        // What is not asked of the base is no reason to run again when it changes.
        if own.len() < count {
            let (changes, missing) = (self.changes.borrow(), count - own.len());
            // As many more as may be among those that have changed, and perhaps are not there any more.
            let before = self.base.recent(missing.saturating_add(changes.nodes.len())).into_iter();
            own.extend(before.filter(|node| !changes.nodes.contains_key(node)).take(missing));
        }
        own
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.merged(&|each| self.base.labelled(label, each), &|node| self.has_label(node, label), each);
    }

    fn prefetch(&self, nodes: &[NodeId], edges: bool) {
        self.base.prefetch(nodes, edges);
    }

    fn count_labelled(&self, label: Symbol) -> Option<u64> {
        if self.changes.borrow().is_empty() { self.base.count_labelled(label) } else { None }
    }

    fn about(&self, what: About) -> f64 {
        self.base.about(what)
    }

    fn indexes(&self, each: &mut dyn FnMut(Symbol, Option<Symbol>)) {
        self.base.indexes(each);
    }

    fn index_size(&self, question: &Question) -> u64 {
        self.base.index_size(question)
    }

    fn index_answer(&self, question: &Question, each: &mut dyn FnMut(NodeId)) {
        self.base.index_answer(question, each);
        let filed = self.filed.borrow();
        let Some(key) = question.key else {
            return filed.labels.get(&question.label).into_iter().flatten().for_each(|node| each(*node));
        };
        let Some(values) = filed.values.get(&key) else { return };
        for range in &question.places {
            values.range(*range).flat_map(|(_, nodes)| nodes).for_each(|node| each(*node));
        }
    }

    fn noted_bytes(&self) -> usize {
        self.base.noted_bytes()
    }

    fn note_everything(&self) {
        self.base.note_everything();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::reference::ReferenceGraph;
    use crate::view::looked::{Looked, by_stretches};
    use crate::view::tracked::Tracked;

    fn random_node(random: &mut Random) -> NodeId {
        NodeId::new(0, random.below(5))
    }

    fn random_value(random: &mut Random) -> Value {
        match random.below(4) {
            0 => Value::Null,
            1 => Value::Integer(random.integer_below(3)),
            2 => Value::text("a text that does not fit into a payload"),
            _ => Value::list(vec![Value::Boolean(true), Value::Null]),
        }
    }

    fn random_write(random: &mut Random, mutations: &mut Mutations) {
        let (node, other) = (random_node(random), random_node(random));
        let (symbol, ordinal) = (Symbol(random.below(3) as u32), random.below(2) as u32);
        match random.below(9) {
            0..3 => mutations.set_property(node, symbol, &random_value(random)),
            3 => mutations.set_label(node, symbol, random.below(2) == 0),
            4..7 => mutations.set_edge(node, symbol, other, ordinal, random.below(3) > 0),
            7 => mutations.set_edge_property(node, symbol, other, ordinal, Symbol(3), &random_value(random)),
            _ => mutations.clear_properties(node),
        }
    }

    /// Every answer of a view about five nodes and three symbols, as text, in an order of its own.
    fn everything(view: &dyn View) -> Vec<String> {
        let mut found = Vec::new();
        view.nodes(&mut |node| {
            found.push(format!("node {node}"));
            true
        });
        let listed: Vec<String> = found.clone();
        assert!(listed.is_sorted(), "nodes are listed in the order of their ids: {listed:?}");
        for node in (0..5).map(|n| NodeId::new(0, n)) {
            view.properties(node, &mut |key, value| found.push(format!("{node} {key:?}: {value:?}")));
            view.labels(node, &mut |label| found.push(format!("{node} label {label:?}")));
            for symbol in (0..4).map(Symbol) {
                found.push(format!("{node} {symbol:?} is {:?} {}", view.property(node, symbol), view.has_label(node, symbol)));
            }
            for direction in [Direction::Outgoing, Direction::Incoming, Direction::Both] {
                for kinds in [&[][..], &[Symbol(1)], &[Symbol(0), Symbol(2)]] {
                    let mut listed = Vec::new();
                    view.edges(node, direction, kinds, &mut |half| listed.push(half));
                    for more in [1, 2, 7] {
                        let stretches = by_stretches(more, &|each| view.edges_while(node, direction, kinds, each));
                        assert_eq!(stretches, listed, "{node} {direction:?} {kinds:?}, {more} at a time");
                    }
                    let count = view.count_edges(node, direction, kinds);
                    assert_eq!(count, listed.len() as u64, "{node} {direction:?} {kinds:?}");
                    found.extend(listed.iter().map(|half| format!("{node} {direction:?} {kinds:?} {half:?}")));
                    for other in (0..5).map(|n| NodeId::new(0, n)) {
                        view.edges_to(node, other, direction, kinds, &mut |half| {
                            found.push(format!("{node} to {other} {direction:?} {kinds:?} {half:?}"))
                        });
                    }
                }
            }
            for (target, ordinal, kind) in (0..30).map(|n| (NodeId::new(0, n % 5), (n / 5 % 2) as u32, Symbol((n / 10) as u32))) {
                let edge = EdgeRef { source: node, kind, target, ordinal };
                found.push(format!("{edge:?} {} {:?}", view.has_edge(edge), view.edge_property(edge, Symbol(3))));
                view.edge_properties(edge, &mut |key, value| found.push(format!("{edge:?} {key:?}: {value:?}")));
            }
        }
        found.sort();
        found
    }

    #[test]
    fn base_and_overlay_are_the_graph_with_all_applied() {
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut before = Mutations::default();
            (0..random.below(40)).for_each(|_| random_write(&mut random, &mut before));
            let mut base = ReferenceGraph::new();
            base.apply_all(&before);
            let mut whole = base.clone();
            // Of some bases no list can be broken off.
            let looked = Looked::new(&base, seed % 3 > 0);
            let overlay = Overlay::new(&looked);
            // Taken in piece by piece, as a running query does.
            let (mut after, mut applied) = (Mutations::default(), 0);
            for _ in 0..random.below(40) {
                random_write(&mut random, &mut after);
                if random.below(3) == 0 {
                    overlay.apply(&after, applied..after.rows.len());
                    applied = after.rows.len();
                }
            }
            overlay.apply(&after, applied..after.rows.len());
            whole.apply_all(&after);
            assert_eq!(everything(&overlay), everything(&whole), "seed {seed}");
        }
    }

    /// Whoever counts the edges of a hub after each edge that is written at it does not go through all of them each time.
    #[test]
    fn a_few_changes_do_not_have_all_edges_listed_to_count_them() {
        let (hub, kind, other_kind) = (NodeId::new(0, 0), Symbol(0), Symbol(1));
        let leaf = |n: u64| NodeId::new(1, n);
        let (mut before, mut base) = (Mutations::default(), ReferenceGraph::new());
        (0..1_000).for_each(|n| before.set_edge(leaf(n), kind, hub, 0, true));
        (0..3).for_each(|ordinal| before.set_edge(leaf(0), kind, hub, ordinal, true));
        before.set_edge(hub, kind, hub, 0, true);
        base.apply_all(&before);
        let looked = Looked::new(&base, true);
        let overlay = Overlay::new(&looked);
        let mut after = Mutations::default();
        // Two that are new, one of them of another type, and one back; one that is there already, and one gone that never was.
        after.set_edge(leaf(2_000), kind, hub, 0, true);
        after.set_edge(leaf(2_001), other_kind, hub, 0, true);
        after.set_edge(hub, kind, leaf(7), 0, true);
        after.set_edge(leaf(5), kind, hub, 0, true);
        after.set_edge(leaf(3_000), kind, hub, 0, false);
        // Two of three that are parallel, a fourth beside them, and the loop.
        after.set_edge(leaf(0), kind, hub, 0, false);
        after.set_edge(leaf(0), kind, hub, 2, false);
        after.set_edge(leaf(0), kind, hub, 3, true);
        after.set_edge(hub, kind, hub, 0, false);
        overlay.apply(&after, 0..after.rows.len());
        let mut whole = base.clone();
        whole.apply_all(&after);
        for (direction, kinds, expected) in [
            (Direction::Incoming, &[kind][..], 1_002),
            (Direction::Incoming, &[][..], 1_003),
            (Direction::Outgoing, &[][..], 1),
            (Direction::Both, &[kind, other_kind][..], 1_004),
        ] {
            looked.listed.set(0);
            assert_eq!(whole.count_edges(hub, direction, kinds), expected, "{direction:?} {kinds:?}");
            assert_eq!(overlay.count_edges(hub, direction, kinds), expected, "{direction:?} {kinds:?}");
            assert!(looked.listed.get() < 20, "{direction:?} {kinds:?}: {} listed", looked.listed.get());
        }
    }

    #[test]
    fn a_scan_stops_when_told() {
        let mut mutations = Mutations::default();
        (0..4).for_each(|n| mutations.set_label(NodeId::new(0, n * 2), Symbol(0), true));
        let mut base = ReferenceGraph::new();
        base.apply_all(&mutations);
        let overlay = Overlay::new(&base);
        let mut more = Mutations::default();
        (0..4).for_each(|n| more.set_label(NodeId::new(0, n * 2 + 1), Symbol(0), true));
        overlay.apply(&more, 0..4);
        for enough in 1..=8 {
            let mut seen = 0;
            overlay.nodes(&mut |_| {
                seen += 1;
                seen < enough
            });
            assert_eq!(seen, enough);
        }
    }

    #[test]
    fn a_tracked_view_knows_what_was_read() {
        let graph = ReferenceGraph::new();
        let tracked = Tracked::new(&graph);
        let [a, b, c, d] = [1, 2, 3, 4].map(|n| NodeId::new(0, n));
        tracked.property(a, Symbol(0));
        tracked.has_edge(EdgeRef { source: b, kind: Symbol(0), target: c, ordinal: 0 });
        assert!(tracked.edges_while(d, Direction::Both, &[], &mut |_| false), "it has none");
        assert!(!tracked.scanned());
        tracked.nodes(&mut |_| true);
        assert!(tracked.scanned());
        let mut nodes: Vec<NodeId> = tracked.into_reads().nodes.into_iter().collect();
        nodes.sort();
        assert_eq!(nodes, [a, b, d]);
    }
}
