//! Choice: which of the orders of a pattern to visit it in, by what the graph holds.
//!
//! Costs are rough: how many nodes and edges each step looks at, if labels, types and values know nothing of each other. The
//! figures come from samples; they decide how long a query takes, never what it answers.

use rustc_hash::FxHashMap;
use weir_model::plan::{Lookup, Name, Operator, Pattern, PatternEdge, Step, Write};
use weir_model::{Expr, Symbol, Text, Value};

use super::operators::Run;
use super::scan::Purpose;
use crate::index::key;
use crate::view::About;

/// Which part of the nodes a condition leaves, where nothing is known of it.
const EQUAL_LEAVES: f64 = 0.05;
const OTHER_LEAVES: f64 = 0.4;

/// A node that a scan passes over costs less than one that is visited.
const PASSED_OVER: f64 = 0.2;

/// How many times longer chains are than an edge.
const CHAIN_FACTOR: f64 = 10.0;

/// What the index of a label, or of a label and a property, is called.
pub type IndexName<'a> = &'a dyn Fn(&str, Option<&str>) -> Option<Text>;

impl Run<'_> {
    /// The steps to take. Chosen once a run.
    pub(super) fn order<'p>(&self, pattern: &'p Pattern, row: &[Value]) -> &'p [Step] {
        if pattern.orders.is_empty() {
            return &pattern.steps;
        }
        let number = std::ptr::from_ref(pattern) as usize;
        let known = self.chosen.borrow().get(&number).copied();
        let chosen = match known {
            Some(chosen) => chosen,
            None => {
                let chosen = self.choose(pattern, row);
                self.chosen.borrow_mut().insert(number, chosen);
                chosen
            }
        };
        chosen.checked_sub(1).and_then(|other| pattern.orders.get(other)).unwrap_or(&pattern.steps)
    }

    /// How the pattern of each operator would be visited.
    pub(super) fn ways(
        &self,
        operator: &Operator,
        row: &[Value],
        index_name: IndexName,
        ways: &mut FxHashMap<*const Operator, String>,
    ) {
        let mut patterns = Vec::new();
        match operator {
            Operator::Match { pattern, .. } | Operator::Merge { pattern, .. } => patterns.push(pattern),
            Operator::Write { writes, .. } => merged_in(writes, &mut patterns),
            _ => {}
        }
        if !patterns.is_empty() {
            let each = patterns.into_iter().map(|pattern| self.way(pattern, index_name, row)).filter(|way| !way.is_empty());
            ways.insert(std::ptr::from_ref(operator), each.collect::<Vec<_>>().join("; "));
        }
        operator.children().into_iter().for_each(|child| self.ways(child, row, index_name, ways));
    }

    fn way(&self, pattern: &Pattern, index_name: IndexName, row: &[Value]) -> String {
        let mut parts = Vec::new();
        if !pattern.orders.is_empty() {
            parts.push(format!("order {} of {}", self.choose(pattern, row) + 1, pattern.orders.len() + 1));
        }
        for step in self.order(pattern, row) {
            if let Step::SeekEach { node, ids, .. } = step {
                parts.push(match self.count_named(ids, row) {
                    (count, true) => format!("node {node} by ids, at most {count}"),
                    _ => format!("node {node} by ids"),
                });
            }
            let Step::Scan { node, lookups } = step else { continue };
            let labels: Vec<Symbol> = pattern.nodes[*node].labels.iter().map(|label| self.prepared.symbol(*label)).collect();
            let question = self.question(&labels, lookups, Purpose::Explain, row).ok().flatten();
            parts.push(match (question, pattern.nodes[*node].labels.first()) {
                (Some(question), _) => {
                    let text = |symbol| self.reader.names.text(symbol);
                    let (label, key) = (text(question.label), question.key.map(text));
                    let called = index_name(&label, key.as_deref()).unwrap_or_default();
                    let key = key.map_or(String::new(), |key| format!("({key})"));
                    format!("node {node} by the index {called} of :{label}{key}")
                }
                (None, Some(label)) => format!("node {node} among those with :{}", self.prepared.plan.names[label.0 as usize]),
                (None, None) => format!("node {node} among all"),
            });
        }
        parts.join(", ")
    }

    /// 0 is `steps`, the others follow.
    fn choose(&self, pattern: &Pattern, row: &[Value]) -> usize {
        let mut best = (0, self.cost(pattern, &pattern.steps, row));
        for (index, steps) in pattern.orders.iter().enumerate() {
            let cost = self.cost(pattern, steps, row);
            // Of equals the first, which is the best by the text alone.
            if cost < best.1 {
                best = (index + 1, cost);
            }
        }
        best.0
    }

    fn cost(&self, pattern: &Pattern, steps: &[Step], row: &[Value]) -> f64 {
        let all = self.reader.view.about(About::Nodes).max(1.0);
        let mut visited = vec![false; pattern.nodes.len()];
        let (mut rows, mut cost) = (1.0f64, 0.0f64);
        for step in steps {
            match step {
                Step::Seek { node, .. } if visited[*node] => rows *= EQUAL_LEAVES,
                Step::Bound { node } | Step::Seek { node, .. } | Step::Ends { node, .. } => {
                    visited[*node] = true;
                    cost += rows;
                }
                Step::SeekEach { node, ids, .. } => {
                    visited[*node] = true;
                    let (named, _) = self.count_named(ids, row);
                    cost += rows * (named + 1.0);
                    rows *= named.min(self.labelled(pattern, *node, all));
                }
                Step::Scan { node, lookups } => {
                    let labelled = self.labelled(pattern, *node, all);
                    let leaves = left(pattern, *node);
                    visited[*node] = true;
                    match self.found_by_index(pattern, *node, lookups, row) {
                        Some(found) => {
                            cost += rows * (found + 1.0);
                            rows *= found.min(labelled * leaves);
                        }
                        None => {
                            // A scan again for each row, unless what it finds can be kept.
                            let is_kept = lookups.iter().any(|lookup| key::is_equality(lookup.operator));
                            let scans = if is_kept { rows.min(2.0) } else { rows };
                            cost += scans * (all * PASSED_OVER + labelled) + rows;
                            rows *= labelled * leaves;
                        }
                    }
                }
                Step::Expand { edge, from } => {
                    let edge = &pattern.edges[*edge];
                    let to = if edge.source == *from { edge.target } else { edge.source };
                    let mut across = self.edges(edge) / self.labelled(pattern, *from, all).max(1.0);
                    if edge.chain.is_some() {
                        across *= CHAIN_FACTOR;
                    }
                    cost += rows * (1.0 + across);
                    rows *= if visited[to] {
                        (across / self.labelled(pattern, to, all).max(1.0)).min(1.0)
                    } else {
                        across * self.labelled(pattern, to, all) / all * left(pattern, to)
                    };
                    visited[to] = true;
                }
                Step::Test { .. } => rows *= OTHER_LEAVES,
            }
        }
        cost
    }

    /// About how many nodes have all labels of a node.
    fn labelled(&self, pattern: &Pattern, node: usize, all: f64) -> f64 {
        let about = |label: &Name| self.reader.view.about(About::Labelled(self.prepared.symbol(*label)));
        pattern.nodes[node].labels.iter().map(about).fold(all, f64::min)
    }

    fn edges(&self, edge: &PatternEdge) -> f64 {
        let view = self.reader.view;
        let halves = if edge.directed { 1.0 } else { 2.0 };
        let of_kind = |kind: &Name| view.about(About::Edges(Some(self.prepared.symbol(*kind))));
        let edges = if edge.kinds.is_empty() { view.about(About::Edges(None)) } else { edge.kinds.iter().map(of_kind).sum() };
        edges * halves
    }

    /// How many nodes the best index offers: by the values known already, or about what one value of an index has.
    fn found_by_index(&self, pattern: &Pattern, node: usize, lookups: &[Lookup], row: &[Value]) -> Option<f64> {
        let view = self.reader.view;
        let labels: Vec<Symbol> = pattern.nodes[node].labels.iter().map(|label| self.prepared.symbol(*label)).collect();
        // Where the time is over, whoever visits the next node is told.
        let question = self.question(&labels, lookups, Purpose::Weigh, row).ok().flatten();
        let mut found = question.map(|question| view.index_size(&question) as f64);
        view.indexes(&mut |label, property| {
            let by = |lookup: &Lookup| {
                let of_it = lookup.key.is_some_and(|name| Some(self.prepared.symbol(name)) == property);
                lookup.waits && key::is_equality(lookup.operator) && of_it
            };
            if labels.contains(&label) && lookups.iter().any(by) {
                let about = (view.about(About::Labelled(label)) * EQUAL_LEAVES).sqrt();
                found = Some(found.map_or(about, |found| found.min(about)));
            }
        });
        found
    }
}

/// What MERGE looks for inside FOREACH.
fn merged_in<'p>(writes: &'p [Write], patterns: &mut Vec<&'p Pattern>) {
    for write in writes {
        match write {
            Write::ForEach { writes, .. } => merged_in(writes, patterns),
            Write::Merge { pattern, then, .. } => {
                patterns.push(pattern);
                merged_in(then, patterns);
            }
            _ => {}
        }
    }
}

/// Which part of its candidates the conditions of a node leave.
fn left(pattern: &Pattern, node: usize) -> f64 {
    let leaves = |condition: &Expr| match condition {
        Expr::Binary { operator, .. } if key::is_equality(*operator) => EQUAL_LEAVES,
        _ => OTHER_LEAVES,
    };
    pattern.nodes[node].conditions.iter().map(leaves).product()
}
