//! Draft to plan: every pattern gets the order in which it is visited, and the query its facts.
//!
//! Owns the choice of anchors: a condition `id(n) = e` whose `e` is known by then becomes a `Seek` and disappears.

pub mod facts;
pub mod order;
mod plain;

use weir_model::expression::Binary;
use weir_model::plan::{Pattern, Slot, Step};
use weir_model::{Expr, Plan, Text};

use crate::bind::Draft;
use crate::{functions, walk};
use order::Order;

pub fn lower(text: &str, mut draft: Draft) -> Plan {
    walk::operators_mut(&mut draft.root, &mut |operator| walk::patterns_mut(operator, &mut order_pattern));
    finish(text, draft)
}

/// The plan without any choice made: what tests compare the other with.
pub fn lower_plainly(text: &str, mut draft: Draft) -> Plan {
    plain::spell_out(&mut draft);
    finish(text, draft)
}

fn finish(text: &str, draft: Draft) -> Plan {
    let facts = facts::facts(&draft);
    Plan {
        root: draft.root,
        columns: draft.columns,
        width: draft.slots.len(),
        names: draft.names,
        parameters: draft.parameters,
        facts,
        source: Text::new(text),
    }
}

/// A way to enter the graph at `node` without looking for it.
struct Anchor {
    node: usize,
    id: Expr,
    from: Origin,
}

#[derive(Clone, Copy)]
enum Origin {
    /// `nodes[node].conditions[i]`
    Node(usize),
    /// `conditions[i]`
    Pattern(usize),
    /// The bound edge at the node.
    Edge,
}

/// A pattern that a standing query maintains is never visited as a whole. Otherwise:
/// bound nodes, then anchors as soon as their values are known, then edges from what has been visited, and where all of that
/// is at its end, a scan of the most restricted node of the smallest part that is left.
fn order_pattern(pattern: &mut Pattern) {
    if !pattern.delta.is_empty() {
        return;
    }
    let anchors = anchors(pattern);
    let mut used: Vec<Origin> = Vec::new();
    let mut order = Order::new(pattern);
    for node in (0..pattern.nodes.len()).filter(|node| pattern.nodes[*node].bound) {
        order.enter(Step::Bound { node });
    }
    let mut used_on: Vec<usize> = Vec::new();
    loop {
        order.test();
        let next = anchors.iter().find(|anchor| !order.visited(anchor.node) && order.knows_all(&anchor.id));
        if let Some(anchor) = next {
            order.enter(Step::Seek { node: anchor.node, id: anchor.id.clone() });
            if let Origin::Pattern(condition) = anchor.from {
                order.settle(condition);
            }
            used.push(anchor.from);
            used_on.push(anchor.node);
            continue;
        }
        if order.expand() {
            continue;
        }
        let Some(node) = order.best_start(&|node| anchors.iter().any(|anchor| anchor.node == node)) else { break };
        order.enter(Step::Scan { node });
    }
    let steps = order.steps;
    pattern.steps = steps;
    for (origin, node) in used.iter().zip(used_on) {
        if let Origin::Node(condition) = origin {
            pattern.nodes[node].conditions.remove(*condition);
        }
    }
    remove_conditions(pattern, &used);
}

/// Drops the cross conditions that became anchors and renumbers the tests of the others.
fn remove_conditions(pattern: &mut Pattern, used: &[Origin]) {
    let gone: Vec<usize> =
        used.iter().filter_map(|origin| if let Origin::Pattern(i) = origin { Some(*i) } else { None }).collect();
    if gone.is_empty() {
        return;
    }
    for step in &mut pattern.steps {
        if let Step::Test { condition } = step {
            *condition -= gone.iter().filter(|i| **i < *condition).count();
        }
    }
    let mut i = 0;
    pattern.conditions.retain(|_| {
        i += 1;
        !gone.contains(&(i - 1))
    });
}

/// At most one anchor of each kind and node; the first written wins.
fn anchors(pattern: &Pattern) -> Vec<Anchor> {
    let mut anchors = Vec::new();
    for (node, graph_node) in pattern.nodes.iter().enumerate().filter(|(_, node)| !node.bound) {
        let local = graph_node.conditions.iter().enumerate().find_map(|(i, c)| Some((i, anchored(c, graph_node.slot)?)));
        if let Some((i, id)) = local {
            anchors.push(Anchor { node, id: id.clone(), from: Origin::Node(i) });
            continue;
        }
        for (i, condition) in pattern.conditions.iter().enumerate() {
            if let Some(id) = anchored(condition, graph_node.slot) {
                anchors.push(Anchor { node, id: id.clone(), from: Origin::Pattern(i) });
            }
        }
    }
    for edge in pattern.edges.iter().filter(|edge| edge.bound && edge.directed && edge.chain.is_none()) {
        for (node, function) in [(edge.source, "startNode"), (edge.target, "endNode")] {
            if let (Some(function), Some(slot)) = (functions::find(function), edge.slot)
                && !pattern.nodes[node].bound
            {
                let id = Expr::Call { function, arguments: vec![Expr::Slot(slot)] };
                anchors.push(Anchor { node, id, from: Origin::Edge });
            }
        }
    }
    anchors
}

/// The `e` of `id(slot) = e` or `strId(slot) = e`, on either side.
pub fn anchored(condition: &Expr, slot: Slot) -> Option<&Expr> {
    let Expr::Binary { operator: Binary::Equal, left, right } = condition else { return None };
    let is_id = |e: &Expr| match e {
        Expr::Call { function, arguments } if matches!(function.name, "id" | "strId") => {
            matches!(arguments.as_slice(), [Expr::Slot(of)] if *of == slot)
        }
        _ => false,
    };
    let (id, value) = if is_id(left) { (left, right) } else { (right, left) };
    (is_id(id) && !walk::mentions(value, slot)).then_some(&**value)
}
