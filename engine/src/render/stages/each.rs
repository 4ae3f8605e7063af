//! Each: what a query asks of the graph row by row, worked out again when something changes that was looked at for a row.
//!
//! Of every distinct row it is kept how often it is there, what came of it, what was looked at (`looks`), and by which values
//! nodes were looked for. At a tick the rows that are new, those that looked at what changed, and those that looked for a value
//! that a changed node has or had run through `evaluate` over the graph as it is then. A row for which nothing was looked at is
//! not kept: it always gives the same.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};
use weir_model::plan::Operator;
use weir_model::{Clock, IdScheme, Mutations, NodeId, Symbol, Value};

use super::askers::Askers;
use super::bounds::STEPS_MAX;
use super::looks::{Looks, Mark};
use super::{Changes, Layout, Row, Stage, Turn, consolidate};
use crate::evaluate::{Environment, Evaluator, Limits, Moved, Sought, Wanted, Watched, Which};
use crate::render::health::Health;
use crate::view::tracked::Tracked;
use crate::view::{Direction, EdgeRef, HalfEdge, View};

/// Of a row for which more was looked at it is only kept that it was much: then any change concerns it.
const LOOKS_KEPT_MAX: usize = 1_000_000;

pub struct Each {
    pub input: Box<Stage>,
    pub(super) layout: Layout,
    /// Starts at `Argument`.
    pub(super) inner: Operator,
    pub(super) out: Layout,
    /// Nodes and edges are given in full.
    in_full: bool,
    numbers: FxHashMap<Row, u32>,
    /// The rows by number; those that are free stand in `free`.
    kept: Vec<Kept>,
    free: Vec<u32>,
    /// Which rows looked where.
    lookers: FxHashMap<Mark, FxHashSet<u32>>,
    /// Which rows looked for nodes by a value.
    askers: Askers,
    /// Rows that looked at all nodes.
    scanners: FxHashSet<u32>,
    /// When rows turn for time alone.
    turns: BTreeSet<(i64, u32)>,
}

#[derive(Default)]
struct Kept {
    row: Row,
    count: i64,
    found: Vec<Row>,
    looks: Vec<Mark>,
    asked: Vec<(Which, Sought)>,
    scanned: bool,
    turn: Option<i64>,
}

/// How the graph is looked at during one tick.
pub struct Looking<'t, 'p> {
    /// As of the tick.
    pub view: &'t dyn View,
    pub evaluator: &'t mut Evaluator<'p>,
    /// By what the evaluator finds nodes that have a value.
    pub watched: Option<&'t Watched>,
    pub ids: IdScheme,
    pub open_cypher: bool,
}

/// What came of a row, and what was looked at.
pub struct Seen {
    pub found: Vec<Row>,
    looks: Vec<Mark>,
    asked: Vec<(Which, Sought)>,
    scanned: bool,
    /// When time alone changes it.
    pub turn: Option<i64>,
}

impl Seen {
    /// Whether it may be different another time.
    fn may_change(&self) -> bool {
        self.scanned || !self.looks.is_empty() || !self.asked.is_empty() || self.turn.is_some()
    }
}

impl Looking<'_, '_> {
    /// Takes in that labels and properties of nodes have changed. Gives who is concerned of those who looked for nodes by a
    /// value.
    pub fn follow(&mut self, changed: &[NodeId], now: i64, health: &Health) -> Moved {
        let Some(watched) = self.watched.filter(|_| !changed.is_empty()) else { return Moved::default() };
        let environment = environment(self.view, self.ids, self.open_cypher, Clock::at(now), health);
        let mut moved = Moved::default();
        self.evaluator.in_context(&environment, &mut |context| moved = watched.follow(self.view, context, changed));
        moved
    }
}

/// The environment in which a part is run over a row, or an expression over a node.
fn environment<'e>(view: &'e dyn View, ids: IdScheme, open_cypher: bool, now: Clock<'e>, health: &'e Health) -> Environment<'e> {
    let limits = Limits { steps_max: Some(STEPS_MAX), time_max: None, cancelled: Some(health.over()), ..Limits::default() };
    Environment { view, parameters: &[], ids, now, fresh_id: &NodeId::default, limits, open_cypher, recall: None }
}

impl Each {
    pub fn new(input: Stage, layout: Layout, inner: Operator, out: Layout, in_full: bool) -> Each {
        Each {
            input: Box::new(input),
            layout,
            inner,
            out,
            in_full,
            numbers: FxHashMap::default(),
            kept: Vec::new(),
            free: Vec::new(),
            lookers: FxHashMap::default(),
            askers: Askers::default(),
            scanners: FxHashSet::default(),
            turns: BTreeSet::new(),
        }
    }

    /// When the first of the rows turns for time alone.
    pub fn next_turn(&self) -> i64 {
        self.turns.first().map_or(Clock::NEVER, |(turn, _)| *turn)
    }

    /// Whether a row has looked where something was touched. Those who looked for nodes by a value are told by what is watched.
    pub fn looked(&self, mark: Mark) -> bool {
        !self.scanners.is_empty() || self.lookers.contains_key(&mark)
    }

    pub fn step(&mut self, turn: &mut Turn) -> Changes {
        let mut changes = self.input.step(turn);
        consolidate(&mut changes);
        let mut again: FxHashSet<u32> = FxHashSet::default();
        if !turn.touched.marks.is_empty() {
            again.extend(&self.scanners);
        }
        again.extend(self.turns.iter().take_while(|(at, _)| *at <= turn.now).map(|(_, number)| number));
        for mark in &turn.touched.marks {
            again.extend(self.lookers.get(mark).into_iter().flatten());
        }
        self.askers.concerned(&turn.moved, &mut again);
        let mut out = Vec::new();
        for (row, diff) in changes {
            if turn.made.is_too_many() {
                return out;
            }
            let Some(number) = self.numbers.get(&row).copied() else {
                let seen = self.look(&row, turn);
                out.extend(seen.found.iter().map(|found| (found.clone(), diff)));
                if seen.may_change() {
                    self.keep(row, diff, seen);
                }
                continue;
            };
            let kept = &mut self.kept[number as usize];
            if again.contains(&number) {
                // As it was, it goes; as it is, it comes below, as often as it is there by then.
                out.extend(kept.found.drain(..).map(|found| (found, -kept.count)));
            } else {
                out.extend(kept.found.iter().map(|found| (found.clone(), diff)));
            }
            kept.count += diff;
            if kept.count == 0 {
                again.remove(&number);
                self.let_go(number);
            }
        }
        for number in again {
            if turn.made.is_too_many() {
                return out;
            }
            let kept = &mut self.kept[number as usize];
            let (row, count) = (kept.row.clone(), kept.count);
            out.extend(kept.found.drain(..).map(|found| (found, -count)));
            let seen = self.look(&row, turn);
            out.extend(seen.found.iter().map(|found| (found.clone(), count)));
            if seen.may_change() {
                self.remember(number, seen);
            } else {
                self.let_go(number);
            }
        }
        out
    }

    pub fn look(&self, row: &Row, turn: &mut Turn) -> Seen {
        // What is not of this row may be of one that another stage looked at.
        turn.row.fill(Value::Null);
        self.layout.spread(row, &mut turn.row);
        let turn_at = Cell::new(Clock::NEVER);
        let Looking { view, evaluator, watched, ids, open_cypher } = &mut turn.looking;
        let ordered = Ordered(*view);
        let tracked = Tracked::noting(&ordered, Looks::default());
        let environment = environment(&tracked, *ids, *open_cypher, Clock::watched(turn.now, &turn_at), turn.health);
        let (made, mut found) = (turn.made, Vec::new());
        let ran = evaluator.run_part(
            &self.inner,
            &turn.row,
            Wanted { slots: &self.out.0, in_full: self.in_full },
            &environment,
            &mut Mutations::default(),
            &mut |values| {
                found.push(Row::from_slice(values));
                made.beyond(&found)
            },
        );
        // Whoever finds what another row has scanned has scanned it too.
        let by_another = evaluator.has_used_scans();
        let mut asked = watched.map(Watched::take_asked).unwrap_or_default();
        let left_out = evaluator.take_left_out();
        if let Err(failure) = ran {
            turn.health.leave_out(|| row, &failure, None);
            found.clear();
        }
        // Of those that would come of the row.
        if let Some((times, none)) = left_out {
            turn.health.leave_all_out(times, || row, &none.failure, none.of.as_ref());
        }
        let turn = Some(turn_at.get()).filter(|turn| *turn < Clock::NEVER);
        // Indexes are not asked here; an answer of one would say nothing of the nodes that come into it later.
        let looks = tracked.into_notes().filter(|_| !by_another).and_then(|mut looks| {
            // Whoever looked for a value looks again when one of those changes that have it.
            asked.values().flat_map(|found| found.iter()).for_each(|node| looks.leave_own(*node));
            (looks.0.len() + asked.len() <= LOOKS_KEPT_MAX).then_some(looks.0)
        });
        let scanned = looks.is_none();
        if scanned {
            // Whatever changes is looked at again then.
            asked.clear();
        }
        let looks = looks.into_iter().flatten().collect();
        Seen { found, looks, asked: asked.into_keys().collect(), scanned, turn }
    }

    fn keep(&mut self, row: Row, count: i64, seen: Seen) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.kept.push(Kept::default());
            (self.kept.len() - 1) as u32
        });
        self.numbers.insert(row.clone(), number);
        self.kept[number as usize] = Kept { row, count, ..Kept::default() };
        self.remember(number, seen);
    }

    fn remember(&mut self, number: u32, seen: Seen) {
        self.forget(number);
        for mark in &seen.looks {
            self.lookers.entry(*mark).or_default().insert(number);
        }
        for (which, sought) in &seen.asked {
            self.askers.insert(*which, sought, number);
        }
        if seen.scanned {
            self.scanners.insert(number);
        }
        self.turns.extend(seen.turn.map(|turn| (turn, number)));
        let kept = &mut self.kept[number as usize];
        (kept.found, kept.looks, kept.asked) = (seen.found, seen.looks, seen.asked);
        (kept.scanned, kept.turn) = (seen.scanned, seen.turn);
    }

    /// Forgets what was looked at for a row.
    fn forget(&mut self, number: u32) {
        let kept = &mut self.kept[number as usize];
        for mark in kept.looks.drain(..) {
            take_out(&mut self.lookers, &mark, number);
        }
        for (which, sought) in kept.asked.drain(..) {
            self.askers.remove(which, &sought, number);
        }
        if std::mem::take(&mut kept.scanned) {
            self.scanners.remove(&number);
        }
        if let Some(turn) = kept.turn.take() {
            self.turns.remove(&(turn, number));
        }
    }

    fn let_go(&mut self, number: u32) {
        self.forget(number);
        let kept = std::mem::take(&mut self.kept[number as usize]);
        self.numbers.remove(&kept.row);
        self.free.push(number);
    }
}

/// A row is not among those of a key any more.
pub(super) fn take_out<K: Eq + Hash>(rows: &mut FxHashMap<K, FxHashSet<u32>>, key: &K, number: u32) {
    if let Some(here) = rows.get_mut(key) {
        here.remove(&number);
        if here.is_empty() {
            rows.remove(key);
        }
    }
}

/// A view that lists in one order, whatever the order in which things came to lie: which of several shortest paths is found,
/// and how the list of a COLLECT runs, must follow from the graph.
struct Ordered<'a>(&'a dyn View);

fn in_order<T: Ord>(list: impl FnOnce(&mut dyn FnMut(T)), each: &mut dyn FnMut(T)) {
    let mut all = Vec::new();
    list(&mut |item| all.push(item));
    all.sort_unstable();
    all.into_iter().for_each(each);
}

impl View for Ordered<'_> {
    fn property(&self, node: NodeId, key: Symbol) -> Value {
        self.0.property(node, key)
    }

    fn properties(&self, node: NodeId, each: &mut dyn FnMut(Symbol, Value)) {
        in_order(|list| self.0.properties(node, &mut |key, value| list((key, value))), &mut |(key, value)| each(key, value));
    }

    fn has_label(&self, node: NodeId, label: Symbol) -> bool {
        self.0.has_label(node, label)
    }

    fn labels(&self, node: NodeId, each: &mut dyn FnMut(Symbol)) {
        in_order(|list| self.0.labels(node, list), each);
    }

    fn edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        in_order(|list| self.0.edges(node, direction, kinds, list), each);
    }

    fn count_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol]) -> u64 {
        self.0.count_edges(node, direction, kinds)
    }

    // `about_edges` stays unknown: it goes by how the graph lies in batches, and what a query tells may not.

    /// Not all edges need be listed to know the first.
    fn some_edges(&self, node: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge) -> bool) -> bool {
        self.0.some_edges(node, direction, kinds, each)
    }

    fn edges_to(&self, node: NodeId, other: NodeId, direction: Direction, kinds: &[Symbol], each: &mut dyn FnMut(HalfEdge)) {
        in_order(|list| self.0.edges_to(node, other, direction, kinds, list), each);
    }

    fn has_edge(&self, edge: EdgeRef) -> bool {
        self.0.has_edge(edge)
    }

    fn edge_property(&self, edge: EdgeRef, key: Symbol) -> Value {
        self.0.edge_property(edge, key)
    }

    fn edge_properties(&self, edge: EdgeRef, each: &mut dyn FnMut(Symbol, Value)) {
        in_order(|list| self.0.edge_properties(edge, &mut |key, value| list((key, value))), &mut |(key, value)| each(key, value));
    }

    fn nodes(&self, each: &mut dyn FnMut(NodeId) -> bool) {
        self.0.nodes(each);
    }

    fn labelled(&self, label: Symbol, each: &mut dyn FnMut(NodeId) -> bool) {
        self.0.labelled(label, each);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weir_cypher_compiler::{Options, compile};

    use super::*;
    use crate::evaluate::{Prepared, evaluate};
    use crate::reference::ReferenceGraph;
    use crate::symbols::Symbols;
    use crate::view::looked::Looked;
    use crate::view::tracked::Notes;

    /// A row asks again each time an edge comes to what it looked at: to put all of them in order would take longer and longer.
    #[test]
    fn what_takes_any_order_does_not_list_all_edges() {
        const EDGES: u64 = 10_000;
        let (symbols, mut graph, mut mutations) = (Symbols::default(), ReferenceGraph::new(), Mutations::default());
        let (kind, ids) = (symbols.intern("E"), IdScheme::Long { consecutive: false });
        (1..=EDGES).for_each(|leaf| mutations.set_edge(NodeId::new(0, 0), kind, NodeId::new(0, leaf), 0, true));
        mutations.set_property(NodeId::new(0, 5), symbols.intern("x"), &Value::Integer(1));
        graph.apply_all(&mutations);
        let listed = |expression: &str, expected: Value| {
            let query = format!("MATCH (h) WHERE id(h) = 0 RETURN {expression} AS it");
            let plan = compile(&query, &Options { ids, ..Options::default() }).unwrap_or_else(|errors| panic!("{errors:?}"));
            let looked = Looked::new(&graph, true);
            let ordered = Ordered(&looked);
            let tracked = Tracked::noting(&ordered, Looks::default());
            let health = Health::of_nobody(ids);
            let environment = environment(&tracked, ids, false, Clock::at(0), &health);
            let mut rows = Vec::new();
            let prepared = Prepared::new(plan, &symbols);
            let ended = evaluate(&prepared, &symbols, &environment, &mut Mutations::default(), &mut |row| {
                rows.push(row[0].clone());
                ControlFlow::Continue(())
            });
            ended.unwrap_or_else(|failure| panic!("{query}: {failure}"));
            assert_eq!(rows, [expected], "{query}");
            // One that comes or goes concerns the row, whether it was looked at or not.
            let mut all = Looks::default();
            all.edges(NodeId::new(0, 0), &[kind]);
            let looks = tracked.into_notes().unwrap_or_default();
            assert!(all.0.is_subset(&looks.0), "{query}");
            looked.listed.get()
        };
        assert!(listed("EXISTS { (h)-[:E]->() }", Value::Boolean(true)) < 200);
        assert!(listed("EXISTS { (h)-[:E]->(m) WHERE m.x = 1 AND NOT m:None }", Value::Boolean(true)) < 200);
        assert_eq!(listed("COUNT { (h)-[:E]->() }", Value::Integer(EDGES as i64)), 0);
        // Whether one fails before another is found is told by the order, and which are found first.
        let all = EDGES as usize;
        assert!(listed("EXISTS { (h)-[:E]->(m) WHERE 10 / m.x > 1 }", Value::Boolean(true)) >= all);
        assert!(listed("size(COLLECT { MATCH (h)-[:E]->(m) RETURN id(m) AS m })", Value::Integer(EDGES as i64)) >= all);
        assert!(listed("EXISTS { (h)-[:E]->(m) WHERE m.x = 2 }", Value::Boolean(false)) >= all);
    }
}
