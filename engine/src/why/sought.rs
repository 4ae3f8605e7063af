//! Sought: looks for a row of the answer of which only the row as a whole is known, as by its id, and no single value.
//!
//! Where a column shows a node of each pattern, the rows that show one node come of matches with that node alone. So the answer
//! is worked out for some nodes after another, and no more of it is held at once.

use weir_model::plan::Slot;
use weir_model::{Expr, GraphFree, NodeId, Symbol, Tick, Value};

use super::staged::{Staged, Worked};
use crate::graph::Graph;
use crate::render::Row;
use crate::view::View;

/// The answer is worked out for this many nodes at once.
const NODES_AT_ONCE: usize = 2_000;

/// The time is looked at after this many nodes that are listed.
const NODES_BETWEEN: usize = 1024;

/// What came of it.
#[derive(Debug)]
pub struct Sought<T> {
    pub found: Option<T>,
    /// There was no time to look at all.
    pub gave_up: bool,
}

impl Graph {
    /// What a column that gives ids of nodes shows where that is what is meant; also of a node that is in no row of the answer.
    /// None where the column shows more of nodes than ids.
    pub fn seek_node(
        &self,
        staged: &Staged<'_>,
        column: Slot,
        view: &dyn View,
        at: Tick,
        is_meant: &dyn Fn(&Value) -> bool,
    ) -> Option<Sought<Value>> {
        let (slot, expr) = staged.column(column);
        if !matches!(expr, Expr::Call { .. }) {
            return None;
        }
        let context = GraphFree::rows(self.ids(), &staged.plan().names).at(at.millis() as i64);
        let mut row = vec![Value::Null; staged.plan().width.max(1)];
        let mut shown = |node: NodeId| {
            row[slot.0 as usize] = Value::Node(node);
            expr.evaluate(&row, &context).ok().filter(|value| is_meant(value))
        };
        // Those that have the labels first: they are fewer.
        let mut gave_up = false;
        for every in [false, true] {
            let mut found = None;
            gave_up |= self.list(staged, column, view, every, &mut |node| {
                found = shown(node);
                found.is_none()
            });
            if found.is_some() {
                return Some(Sought { found, gave_up: false });
            }
        }
        Some(Sought { found: None, gave_up })
    }

    /// The row of the answer that is meant. `column` is a pivot of the plan.
    pub fn seek_row(
        &self,
        staged: &Staged<'_>,
        column: Slot,
        view: &dyn View,
        at: Tick,
        is_meant: &dyn Fn(&Row) -> bool,
    ) -> Sought<Row> {
        let seeking = Seeking { graph: self, staged, places: staged.places(column), view, at };
        let (mut nodes, mut found, mut gave_up) = (Vec::with_capacity(NODES_AT_ONCE), None, false);
        let mut take = |node: NodeId| {
            nodes.push(node);
            if nodes.len() < NODES_AT_ONCE {
                return true;
            }
            found = seeking.among(&nodes, is_meant, &mut gave_up);
            nodes.clear();
            gave_up |= found.is_none() && staged.is_late();
            found.is_none() && !staged.is_late()
        };
        let was_late = self.list(staged, column, view, false, &mut take);
        if found.is_none() && !was_late && !nodes.is_empty() {
            found = seeking.among(&nodes, is_meant, &mut gave_up);
        }
        Sought { gave_up: found.is_none() && (gave_up || was_late), found }
    }

    /// Lists the nodes that a column could show, each once: all, or those that have a label that a pattern asks for. `each`
    /// answers whether to go on. True where there was no time to list them all.
    fn list(
        &self,
        staged: &Staged<'_>,
        column: Slot,
        view: &dyn View,
        every: bool,
        each: &mut dyn FnMut(NodeId) -> bool,
    ) -> bool {
        let mut listed: Vec<Option<Symbol>> = Vec::new();
        let (mut count, mut is_late, mut going) = (0_usize, false, true);
        for (origin, place) in staged.origins().iter().zip(staged.places(column)) {
            let label = origin.pattern.nodes.get(place).and_then(|node| node.labels.first()).filter(|_| !every);
            let label = label.and_then(|label| staged.plan().names.get(label.0 as usize));
            let label = label.map(|label| self.symbols().intern(label));
            if !going || listed.contains(&None) || listed.contains(&label) {
                continue;
            }
            let mut take = |node: NodeId| {
                count += 1;
                is_late |= count.is_multiple_of(NODES_BETWEEN) && staged.is_late();
                // Patterns may have nodes in common.
                let is_known = listed.iter().flatten().any(|label| view.has_label(node, *label));
                going = !is_late && (is_known || each(node));
                going
            };
            match label {
                Some(label) => view.labelled(label, &mut take),
                None => view.nodes(&mut take),
            }
            listed.push(label);
        }
        is_late
    }
}

impl Staged<'_> {
    /// Of each pattern the place of the node that a pivot shows.
    fn places(&self, column: Slot) -> Vec<usize> {
        let seeds = self.seeds(&[(column, NodeId::default())], &[]);
        seeds.iter().filter_map(|of| of.first()).map(|(place, _)| *place).collect()
    }
}

struct Seeking<'a, 's> {
    graph: &'a Graph,
    staged: &'a Staged<'s>,
    places: Vec<usize>,
    view: &'a dyn View,
    at: Tick,
}

impl Seeking<'_, '_> {
    /// Where these have too many rows, half of them is tried, then the other.
    fn among(&self, nodes: &[NodeId], is_meant: &dyn Fn(&Row) -> bool, gave_up: &mut bool) -> Option<Row> {
        let worked = self.work(nodes);
        let is_too_much = worked.gave_up;
        if let Some((row, _)) = worked.rows().iter().find(|(row, _)| is_meant(row)) {
            return Some(row.clone());
        }
        drop(worked);
        if !is_too_much {
            return None;
        }
        if nodes.len() < 2 || self.staged.is_late() {
            *gave_up = true;
            return None;
        }
        let (first, second) = nodes.split_at(nodes.len() / 2);
        self.among(first, is_meant, gave_up).or_else(|| self.among(second, is_meant, gave_up))
    }

    fn work(&self, nodes: &[NodeId]) -> Worked<'_> {
        let parts = |source: usize| {
            let place = self.places.get(source).copied().unwrap_or_default();
            nodes.iter().map(|node| vec![(place, *node)]).collect()
        };
        self.graph.work_parts(self.staged, &parts, u64::MAX, self.view, self.at)
    }
}
