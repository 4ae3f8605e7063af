//! Choice: which of the orders of a pattern to visit it in, by what the graph holds.
//!
//! Costs are rough: how many nodes and edges each step looks at, if labels, types and values know nothing of each other. The
//! figures come from samples; they decide how long a query takes, never what it answers.
//!
//! A pattern that looks for nodes is begun in the same way all through a run. One that is entered by what is known is weighed
//! anew for each row, by the edges that the nodes of this row have; where they are few, as of most nodes, nothing is weighed.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weir_model::expression::Binary;
use weir_model::plan::{Lookup, Name, Operator, Pattern, PatternEdge, Step, Write};
use weir_model::{Expr, NodeId, Symbol, Text, Value};

use super::operators::Run;
use super::pattern::{direction_from, with_symbols};
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

/// To cross this many edges takes no longer than to weigh other ways.
const FEW_EDGES: usize = 64;

/// What the index of a label, or of a label and a property, is called.
pub type IndexName<'a> = &'a dyn Fn(&str, Option<&str>) -> Option<Text>;

/// Of each node of a pattern which one it is, where that is known. As many as there are, or none.
type Nodes<'n> = &'n [Option<NodeId>];

/// What there is to weigh orders by.
#[derive(Clone, Copy)]
struct Scales<'s> {
    nodes: Nodes<'s>,
    row: &'s [Value],
    /// `Find` where the row holds whatever is looked for.
    purpose: Purpose,
}

impl Run<'_> {
    /// The steps to take. Those that lead into the pattern have been taken, and have visited these nodes. Apart from
    /// `Walk::step`, which stands on the stack once for each step.
    #[inline(never)]
    pub(super) fn order<'p>(&self, pattern: &'p Pattern, nodes: Nodes, row: &[Value]) -> &'p [Step] {
        if !pattern.looks_for_nodes() {
            return steps(pattern, self.go_on(pattern, Scales { nodes, row, purpose: Purpose::Find }));
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
        steps(pattern, chosen)
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
        let (mut parts, mut chosen) = (Vec::new(), 0);
        if !pattern.orders.is_empty() {
            let looks = pattern.looks_for_nodes();
            chosen = if looks {
                self.choose(pattern, row)
            } else {
                self.go_on(pattern, Scales { nodes: &self.named_nodes(pattern, row), row, purpose: Purpose::Weigh })
            };
            parts.push(format!("order {} of {}", chosen + 1, pattern.orders.len() + 1));
            if let (false, Some(Step::Expand { from, .. })) = (looks, steps(pattern, chosen).get(pattern.entered())) {
                parts.push(format!("on from node {from}"));
            }
        }
        for step in steps(pattern, chosen) {
            if let Step::SeekEach { node, ids, .. } = step {
                parts.push(match self.count_named(ids, row) {
                    (count, true) => format!("node {node} by ids, at most {count}"),
                    _ => format!("node {node} by ids"),
                });
            }
            let Step::Scan { node, lookups } = step else { continue };
            let labels: Vec<Symbol> = pattern.nodes[*node].labels.iter().map(|label| self.prepared.symbol(*label)).collect();
            let question = self.question(pattern, &labels, lookups, Purpose::Explain, row).ok().flatten();
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

    /// The nodes that lead into a pattern, as far as that is said by a row before anything is visited.
    fn named_nodes(&self, pattern: &Pattern, row: &[Value]) -> Vec<Option<NodeId>> {
        let mut nodes = vec![None; pattern.nodes.len()];
        for step in &pattern.steps[..pattern.entered()] {
            match step {
                Step::Bound { node } => match &row[pattern.nodes[*node].slot.0 as usize] {
                    Value::Node(id) => nodes[*node] = Some(*id),
                    Value::FullNode(full) => nodes[*node] = Some(full.id),
                    _ => {}
                },
                Step::Seek { node, id } if nodes[*node].is_none() && !asks(id) => {
                    nodes[*node] = id.look(row, self).ok().and_then(|value| self.environment.ids.node_of(&value));
                }
                _ => {}
            }
        }
        nodes
    }

    /// As `choose`, of a pattern that looks for no node.
    fn go_on(&self, pattern: &Pattern, scales: Scales) -> usize {
        if self.crosses_few(pattern, scales.nodes) || !self.never_fails(pattern, scales.row) {
            return 0;
        }
        let mut best = (0, f64::INFINITY);
        for (index, steps) in pattern.orders.iter().enumerate() {
            let cost = self.cost(pattern, steps, scales);
            if cost < best.1 {
                best = (index + 1, cost);
            }
        }
        // Mostly there is no index of what is asked: then nothing is to be known of the first.
        if best.0 > 0 && self.cost(pattern, &pattern.steps, scales) <= best.1 { 0 } else { best.0 }
    }

    /// Whether no condition of the pattern fails, whatever nodes are asked: each order asks others. Where something was deleted,
    /// to ask for what is known of it fails too.
    fn never_fails(&self, pattern: &Pattern, row: &[Value]) -> bool {
        let works = |(operator, value): &(Binary, Expr)| match value.look(row, self) {
            Ok(value) => *operator != Binary::In || matches!(&*value, Value::List(_) | Value::Null),
            Err(_) => false,
        };
        !self.reader.has_deleted_any() && pattern.presumed.iter().all(works)
    }

    /// Whether the first order crosses few edges. Not where that is not known, as beyond the edges of nodes that are. A view that
    /// knows of no edges without listing them, as one of the past, is asked nothing more: its indexes may take a while.
    fn crosses_few(&self, pattern: &Pattern, nodes: Nodes) -> bool {
        let mut visited: SmallVec<[bool; 16]> = nodes.iter().map(Option::is_some).collect();
        let (mut rows, mut crossed) = (1usize, 0usize);
        for step in &pattern.steps {
            let Step::Expand { edge, from } = step else { continue };
            let edge = &pattern.edges[*edge];
            let to = if edge.source == *from { edge.target } else { edge.source };
            let leads_on = !std::mem::replace(&mut visited[to], true);
            if edge.chain.is_none() && !leads_on {
                continue;
            }
            let Some(node) = nodes[*from] else { return rows == 0 };
            rows = rows.saturating_mul(self.edges_of(node, edge, *from));
            crossed = crossed.saturating_add(rows);
            if rows > 0 && (edge.chain.is_some() || crossed > FEW_EDGES) {
                return false;
            }
        }
        true
    }

    /// The number of the cheapest order: 0 is `steps`, the others follow.
    fn choose(&self, pattern: &Pattern, row: &[Value]) -> usize {
        let scales = Scales { nodes: &[], row, purpose: Purpose::Weigh };
        let mut best = (0, self.cost(pattern, &pattern.steps, scales));
        for (index, steps) in pattern.orders.iter().enumerate() {
            let cost = self.cost(pattern, steps, scales);
            // Of equals the first, which is the best by the text alone.
            if cost < best.1 {
                best = (index + 1, cost);
            }
        }
        best.0
    }

    /// What an order costs; infinite where it wants an index that is not there.
    fn cost(&self, pattern: &Pattern, steps: &[Step], scales: Scales) -> f64 {
        let row = scales.row;
        let all = || self.about(About::Nodes).max(1.0);
        let mut visited: SmallVec<[bool; 16]> = SmallVec::from_elem(false, pattern.nodes.len());
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
                    rows *= named.min(self.labelled(pattern, *node, all()));
                }
                Step::Scan { node, lookups } => {
                    visited[*node] = true;
                    let found = self.found_by_index(pattern, *node, lookups, scales);
                    if found.is_none() && !pattern.looks_for_nodes() {
                        return f64::INFINITY;
                    }
                    let (labelled, leaves) = (self.labelled(pattern, *node, all()), left(pattern, *node));
                    match found {
                        Some(found) => {
                            cost += rows * (found + 1.0);
                            rows *= found.min(labelled * leaves);
                        }
                        None => {
                            // A scan again for each row, unless what it finds can be kept.
                            let is_kept = lookups.iter().any(|lookup| key::is_equality(lookup.operator));
                            let scans = if is_kept { rows.min(2.0) } else { rows };
                            cost += scans * (all() * PASSED_OVER + labelled) + rows;
                            rows *= labelled * leaves;
                        }
                    }
                }
                Step::Expand { edge, from } => {
                    let edge = &pattern.edges[*edge];
                    let to = if edge.source == *from { edge.target } else { edge.source };
                    let mut across = match scales.nodes.get(*from).copied().flatten() {
                        _ if edge.bound => 1.0,
                        Some(node) => self.edges_of(node, edge, *from) as f64,
                        None => self.edges(edge) / self.labelled(pattern, *from, all()).max(1.0),
                    };
                    if edge.chain.is_some() {
                        across *= CHAIN_FACTOR;
                    }
                    // An edge between two nodes is looked up.
                    cost += if visited[to] && edge.chain.is_none() { rows } else { rows * (1.0 + across) };
                    rows *= if visited[to] {
                        (across / self.labelled(pattern, to, all()).max(1.0)).min(1.0)
                    } else {
                        across * self.labelled(pattern, to, all()) / all() * left(pattern, to)
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
        let about = |label: &Name| self.about(About::Labelled(self.prepared.symbol(*label)));
        pattern.nodes[node].labels.iter().map(about).fold(all, f64::min)
    }

    fn edges(&self, edge: &PatternEdge) -> f64 {
        let halves = if edge.directed { 1.0 } else { 2.0 };
        let of_kind = |kind: &Name| self.about(About::Edges(Some(self.prepared.symbol(*kind))));
        let edges = if edge.kinds.is_empty() { self.about(About::Edges(None)) } else { edge.kinds.iter().map(of_kind).sum() };
        edges * halves
    }

    /// About how many edges of the graph at a node may be this one of the pattern.
    fn edges_of(&self, node: NodeId, edge: &PatternEdge, from: usize) -> usize {
        let direction = direction_from(edge, from);
        with_symbols(self, &edge.kinds, |kinds| self.reader.view.about_edges(node, direction, kinds))
    }

    /// The figures of a graph are put together from those of its batches: asked for once a run.
    fn about(&self, what: About) -> f64 {
        let known = self.figures.borrow().iter().find(|(of, _)| *of == what).map(|(_, count)| *count);
        known.unwrap_or_else(|| {
            let count = self.reader.view.about(what);
            self.figures.borrow_mut().push((what, count));
            count
        })
    }

    /// How many nodes the best index offers: by the values known already, or about what one value of an index has.
    fn found_by_index(&self, pattern: &Pattern, node: usize, lookups: &[Lookup], scales: Scales) -> Option<f64> {
        let view = self.reader.view;
        let labels: SmallVec<[Symbol; 4]> = pattern.nodes[node].labels.iter().map(|label| self.prepared.symbol(*label)).collect();
        // Where the time is over, whoever visits the next node is told.
        let question = self.question(pattern, &labels, lookups, scales.purpose, scales.row).ok().flatten();
        let mut found = question.map(|question| view.index_size(&question) as f64);
        view.indexes(&mut |label, property| {
            let by = |lookup: &Lookup| {
                let of_it = lookup.key.is_some_and(|name| Some(self.prepared.symbol(name)) == property);
                lookup.waits && scales.purpose == Purpose::Weigh && key::is_equality(lookup.operator) && of_it
            };
            if labels.contains(&label) && lookups.iter().any(by) {
                let about = (self.about(About::Labelled(label)) * EQUAL_LEAVES).sqrt();
                found = Some(found.map_or(about, |found| found.min(about)));
            }
        });
        found
    }
}

/// The steps of an order, by its number.
fn steps(pattern: &Pattern, order: usize) -> &[Step] {
    order.checked_sub(1).and_then(|other| pattern.orders.get(other)).unwrap_or(&pattern.steps)
}

/// Whether to work an expression out is a query of its own.
fn asks(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_)) || expr.children().into_iter().any(asks)
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
